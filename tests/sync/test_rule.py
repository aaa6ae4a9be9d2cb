"""The rule of a merge, by itself: any order of any changes comes to one result."""

from __future__ import annotations

import random
from functools import reduce
from itertools import permutations
from typing import Any

from memdb.sync.clock import APPENDED, LAST_MS, NO_CHANGE, Change, history_of, stamp_of, wins

KINDS = (*APPENDED, "session", "branch", "entry", "item", "state")


def _entry_after(
    changes: list[tuple[Change, dict[str, Any]]],
) -> tuple[Change, list[tuple[int, str]]]:
    """Return what stands of an entry and its history after some changes of it, one by one."""
    (stands, now), *others = changes
    kept = history_of(now["history"], now["thing"], ())
    for change, said in others:
        loser = said
        if wins("entry", change, stands):
            stands, now, loser = change, said, now
        kept = history_of([*kept, *said["history"], (loser["thing"], loser)], now["thing"], ())
    return stands, [(thing, one["reason"]) for thing, one in kept]


def test_a_stamp_is_later_than_the_last_and_fits_a_column() -> None:
    """Under any clock, and however far it jumps."""
    last = 0
    for now_ms in (0, -(10**16), 1_764_000_000_000, 1, LAST_MS, LAST_MS + 1, 10**30, 10**30, -1):
        stamp = stamp_of(now_ms, "a", last)
        assert last < stamp < 1 << 63
        last = stamp


def test_the_word_that_stands_is_the_same_in_any_order() -> None:
    """Of every kind: later, deleted, forgotten; each change may come twice."""
    wrong = []
    changes = [NO_CHANGE, *(Change(stamp, gone) for stamp in (1, 2, 3) for gone in (0, 1, 2))]
    for kind in KINDS:
        for chosen in permutations(changes, 3):
            found = {
                reduce(lambda one, change: change if wins(kind, change, one) else one, order)
                for order in permutations([*chosen, chosen[0]])
            }
            if len(found) > 1:
                wrong.append((kind, chosen, found))
    assert wrong == []


def test_the_history_of_an_entry_is_the_same_in_any_order() -> None:
    """Versions that devices made apart are united, whichever of them came first or twice."""
    chance, wrong = random.Random(1), []
    for _ in range(300):
        count = chance.randint(2, 4)
        changes = []
        for number in range(1, count + 1):
            old = chance.sample(range(10, 16), 3)
            history = [
                (one, {"stored_ms": one, "trust": "trusted", "reason": chance.choice("ab")})
                for one in old
            ]
            said = {"thing": number, "stored_ms": number, "trust": "trusted", "reason": "update"}
            changes.append((Change(number), {**said, "history": history}))
        found = {
            str(_entry_after([*order, order[0]])) for order in map(list, permutations(changes))
        }
        if len(found) > 1:
            wrong.append(found)
    assert wrong == []
