"""Writers, undo and the log of contexts work on a server as in a file."""

from __future__ import annotations

from typing import Any

import pytest

import memdb

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")


def test_a_server_knows_writers_and_what_was_given(postgres_databases: Any) -> None:
    """Undo takes the second writer's rows back, and what the context gave is known."""
    address = postgres_databases.address_of("/writers")
    with memdb.open(address, writer="one", settings={"context_log_days": 7}) as db:
        ann = db.user("ann")
        chat = ann.session("s")
        chat.append("user", "Where is the box?")
        ann.remember("The box is red.", key="box")
        chat.context(2_000, query="Where is the box?")
        chat.append("assistant", "Here.")
    with memdb.open(address, writer="two") as db:
        ann = db.user("ann")
        chat = ann.session("s")
        assert {one.text for one in chat.given(2)} == {"Where is the box?", "The box is red."}
        ann.remember("The box is blue.", key="box")
        ann.items.put((), "k", 1)
        ann.artifacts.save("a.md", "x")
        chat.append("user", "And the lid?")
        receipt = ann.undo(writer="two")
        assert {name for name, count in receipt.removed.items() if count} == {
            *("messages", "entries", "items", "versions")
        }
        assert receipt.rewritten == {"entries": 1}
        assert [(one.text, one.writer) for one in ann.entries.list()] == [
            ("The box is red.", "one")
        ]
        assert [one.writer for one in chat.messages()] == ["one", "one"]
        assert [one for one in db.file.check(deep=True) if one.code != "no_vector"] == []
