"""Random operations on items, compared after each step with a plain dict that does the same."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import memdb
from memdb import DeleteItem, FindItem, MemDB, PutItem

if TYPE_CHECKING:
    from pathlib import Path

    from memdb.api.items import Items

PLACES = [(), ("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("a%",), ("A",), ("名", "x\x1e")]
KEYS = ["k", "K", "k%", "k1", "k10", "_", "ключ", "k "]
WORDS = ["lamp", "tree", "sea", "tent", "北京"]


class Kept(NamedTuple):
    """What the dict holds under a namespace and key; *order* counts the keys that were new."""

    value: Any
    version: int
    created_ms: int
    updated_ms: int
    expires_ms: int | None
    ttl_ms: int | None
    order: int


class Twin:
    """Items in a dict, by the rules of the documentation."""

    def __init__(self, clock: Any) -> None:
        """Begin with nothing, at the time of *clock*."""
        self.clock = clock
        self.kept: dict[tuple[tuple[str, ...], str], Kept] = {}
        self.made = 0

    def live(self) -> dict[tuple[tuple[str, ...], str], Kept]:
        """Return what has not expired."""
        now = self.clock()
        return {
            place: one
            for place, one in self.kept.items()
            if one.expires_ms is None or one.expires_ms > now
        }

    def version(self, place: tuple[tuple[str, ...], str]) -> int:
        """Return the version of a place, 0 without an item."""
        found = self.live().get(place)
        return 0 if found is None else found.version

    def put(self, place: tuple[tuple[str, ...], str], value: Any, ttl_ms: int | None) -> None:
        """Create or replace."""
        now = self.clock()
        old = self.live().get(place)
        self.made += old is None
        self.kept[place] = Kept(
            value,
            1 if old is None else old.version + 1,
            now if old is None else old.created_ms,
            now,
            None if ttl_ms is None else now + ttl_ms,
            ttl_ms,
            self.made if old is None else old.order,
        )

    def delete(self, place: tuple[tuple[str, ...], str]) -> bool:
        """Remove; False without an item."""
        was_there = place in self.live()
        self.kept.pop(place, None)
        return was_there

    def refresh(self, place: tuple[tuple[str, ...], str]) -> None:
        """Move an expiry."""
        found = self.live().get(place)
        if found is not None and found.ttl_ms is not None:
            self.kept[place] = found._replace(expires_ms=self.clock() + found.ttl_ms)

    def listed(self, prefix: tuple[str, ...], order: str, *, descending: bool) -> list[Any]:
        """Return namespace, key and value of each item below a prefix, in order."""
        rows = [
            (place, one) for place, one in self.live().items() if place[0][: len(prefix)] == prefix
        ]
        by = {
            "key": lambda row: (
                "".join(label + "\x1f" for label in row[0][0]).encode(),
                row[0][1].encode(),
            ),
            "updated": lambda row: (row[1].updated_ms, row[1].order),
            "created": lambda row: (row[1].created_ms, row[1].order),
        }[order]
        return [(*place, one.value) for place, one in sorted(rows, key=by, reverse=descending)]


def compare(items: Items, twin: Twin, chance: random.Random) -> None:
    """Ask both the same questions."""
    prefix = chance.choice(PLACES)
    order = chance.choice(["key", "updated", "created"])
    descending = chance.random() < 0.5
    expected = twin.listed(prefix, order, descending=descending)
    found = items.list(prefix, order=order, descending=descending, limit=1_000)
    assert [(one.namespace, one.key, one.value) for one in found] == expected
    live = twin.live()
    spaces = {place[0] for place in live if place[0][: len(prefix)] == prefix}
    assert {*items.namespaces(prefix)} == spaces
    depth = chance.randint(1, 3)
    assert {*items.namespaces(max_depth=depth)} == {place[0][:depth] for place in live}
    place = (chance.choice(PLACES), chance.choice(KEYS))
    item, kept = items.find(*place), live.get(place)
    assert (item is None) == (kept is None)
    if item is not None and kept is not None:
        assert (item.value, item.version) == (kept.value, kept.version)
        assert (item.created_ms, item.updated_ms) == (kept.created_ms, kept.updated_ms)
        assert (item.expires_ms, item.ttl_ms) == (kept.expires_ms, kept.ttl_ms)
    word = chance.choice(WORDS)
    holding = {
        where for where, one in live.items() if word in json.dumps(one.value, ensure_ascii=False)
    }
    hits = items.recall(word, 1_000, min_score=0.0)
    assert {(hit.item.namespace, hit.item.key) for hit in hits} == holding


@pytest.mark.parametrize("seed", range(4))
def test_items_are_what_a_dict_would_be(tmp_path: Path, clock: Any, seed: int) -> None:
    """Puts, deletes, conflicts, batches, expiries and refreshes, in any order."""
    chance = random.Random(seed)
    with memdb.open(
        tmp_path / "agent.db", embedder=None, counter="estimate", durability="process", clock=clock
    ) as db:
        items, twin = db.scope("ann").items, Twin(clock)
        for step in range(150):
            play(db, items, twin, chance)
            if step % 5 == 0:
                compare(items, twin, chance)
        assert db.file.check(deep=True) == []
        db.file.rebuild()
        compare(items, twin, chance)
        db._services.items.remove_expired()
        assert db.file.info().counts["items"] == len(twin.live())
        assert db.file.check(deep=True) == []


def play(db: MemDB, items: Items, twin: Twin, chance: random.Random) -> None:
    """Do one thing to both."""
    place = (chance.choice(PLACES), chance.choice(KEYS))
    said = " ".join(chance.choices(WORDS, k=2))
    value: Any = chance.choice([said, {"text": said}, [said, 1, None]])
    ttl_ms = chance.choice([None, None, 1, 50, 5_000])
    ttl = None if ttl_ms is None else ttl_ms / 1_000
    kind = chance.randrange(7)
    if kind <= 2:
        items.put(*place, value, ttl=ttl)
        twin.put(place, value, ttl_ms)
    elif kind == 3:
        expected = chance.choice([0, 1, 2, twin.version(place)])
        if expected == twin.version(place):
            items.put(*place, value, ttl=ttl, expected=expected)
            twin.put(place, value, ttl_ms)
        else:
            with pytest.raises(memdb.VersionConflict) as caught:
                items.put(*place, value, expected=expected)
            assert caught.value.got == twin.version(place)
    elif kind == 4:
        assert items.delete(*place) == twin.delete(place)
    elif kind == 5:
        items.find(*place, refresh=True)
        twin.refresh(place)
    else:
        other = (chance.choice(PLACES), chance.choice(KEYS))
        is_stale = chance.random() < 0.3
        operations = [
            PutItem(*place, value, ttl=ttl),
            FindItem(*other, refresh=True),
            DeleteItem(*other, expected=10_000 if is_stale else None),
        ]
        if is_stale:
            with pytest.raises(memdb.VersionConflict):
                items.batch(operations)
        else:
            items.batch(operations)
            twin.put(place, value, ttl_ms)
            twin.delete(other)
    twin.clock.advance(chance.choice([0, 0, 1, 7, 60]))
    assert db.scope("bob").items.list() == []
