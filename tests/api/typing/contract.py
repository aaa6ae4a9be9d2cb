"""
What a type checker sees of the public API; checked by mypy and pyright, never run.

`make types` fails where a name is gone, an argument has another type, or a
result is `Any`.
"""

from __future__ import annotations

from typing import assert_type

import memdb


def opening() -> None:
    """A file is a context manager."""
    with memdb.open("agent.db") as db:
        assert_type(db, memdb.MemDB)
        assert_type(db.scope("ann"), memdb.Scope)


def conversations(ann: memdb.Scope) -> None:
    """Sessions give messages."""
    trip = ann.session("trip")
    assert_type(trip, memdb.Session)
    assert_type(trip.append("user", "We fly to Oslo."), memdb.Message)
    assert_type(trip.last(10), list[memdb.Message])
    for message in trip.messages():
        assert_type(message, memdb.Message)
        assert_type(message.text, str)
        assert_type(message.seq, int)
