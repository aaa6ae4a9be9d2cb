"""Clocks that jump, stand before 1970 or beyond the year 9999: each call works, all can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from counters import count
from writes import WRITES, every_write

from memdb.text.validate import MAX_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

YEAR_MS = 365 * 86_400_000
JUMPS = (-400 * 86_400_000, -5, 0, 1, 9 * YEAR_MS, 30 * YEAR_MS, 9_000 * YEAR_MS, -(10**15), 10**18)


def test_a_clock_that_jumps_stops_nothing(
    path: str, open_db: Callable[..., MemDB], clock: Any
) -> None:
    """Back to another year and on to the next century: numbers are gapless, errors none."""
    db = open_db(path)
    ann = db.scope("ann")
    chat = ann.session("s")
    for turn, jump in enumerate(JUMPS * 2):
        clock.now_ms = clock.now_ms + jump if turn % 2 else 1_700_000_000_000
        chat.append("user", f"message {turn}")
        ann.remember(f"Fact {turn}.", key="k")
        ann.artifacts.save("a.md", f"{turn}")
        ann.recall("message", limit=3)
        chat.context(500)
        db.jobs.run(due=True)
        count("clocks", 6)

    assert [one.seq for one in chat.messages()] == list(range(1, len(JUMPS) * 2 + 1))
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("now_ms", [-(10**16), MAX_MS + 1, 10**30], ids=str)
@every_write(16)
def test_a_write_under_any_clock_can_be_read(
    opened: Callable[..., MemDB], clock: Any, now_ms: int, name: str
) -> None:
    """Also in the years to which a time of today cannot be added."""
    db = opened("agent.db")
    write = WRITES[name]
    clock.now_ms = now_ms
    write.arrange(db)

    write.act(db)

    assert list(db.export_lines())
    assert db.file.check(deep=True) == []
    count("clocks")
