"""Taking changes of entries back: versions restored, superseded entries active again, swaps refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memdb import InvalidInput, NotFound, VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB
    from memdb.api.collections import Entries

# Every change of one entry that takes the version it expects.
SWAPS: dict[str, Callable[[Entries, int, int, int], object]] = {
    "update": lambda all_, one, _, at: all_.update(one, text="New words.", expected=at),
    "pinned": lambda all_, one, _, at: all_.update(one, pinned=True, expected=at),
    "trust": lambda all_, one, _, at: all_.update(one, trust="untrusted", expected=at),
    "active": lambda all_, one, _, at: all_.update(one, active=False, expected=at),
    "supersede": lambda all_, one, other, at: all_.supersede(one, other, expected=at),
    "revert": lambda all_, one, _, at: all_.revert(one, 1, expected=at),
    "delete": lambda all_, one, _, at: all_.delete(one, expected=at),
}


@pytest.mark.parametrize("name", SWAPS)
def test_another_version_than_expected_changes_nothing(db: MemDB, name: str) -> None:
    """The same rule and error as for items, state and artifacts; at that version it is done."""
    ann = db.scope("ann")
    one, other = ann.remember("Ann sails.").entry, ann.remember("The tent is red.").entry
    ann.entries.update(one.id, importance=9)
    before = ann.entries.get(one.id), ann.entries.history(one.id)

    for wrong in (0, 1, 3):
        with pytest.raises(VersionConflict) as raised:
            SWAPS[name](ann.entries, one.id, other.id, wrong)
        assert (raised.value.expected, raised.value.got) == (wrong, 2)
    assert (ann.entries.get(one.id), ann.entries.history(one.id)) == before

    with pytest.raises(InvalidInput, match="expected"):
        SWAPS[name](ann.entries, one.id, other.id, "2")
    SWAPS[name](ann.entries, one.id, other.id, 2)


def test_revert_brings_everything_back_that_a_version_was(db: MemDB, clock: Any) -> None:
    """Words, category, pin, trust, metadata and source; as a new version, found by its words."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "The rent is 14,500.")
    first = ann.remember(
        "The rent is 14,500.", category="entities", session="trip", seq=1, metadata={"a": 1}
    ).entry
    clock.advance(1000)
    ann.entries.update(
        first.id, text="Money is paid.", category="profile", keywords=["cash"], metadata=None
    )
    ann.entries.update(first.id, pinned=True)
    ann.entries.update(first.id, trust="untrusted")
    clock.advance(1000)

    back = ann.entries.revert(first.id, 1)

    kept = {"version", "updated_ms", "stored_ms", "use_count", "last_used_ms"}
    assert {name: getattr(back, name) for name in back._fields if name not in kept} == {
        name: getattr(first, name) for name in first._fields if name not in kept
    }
    assert back.version == 5
    assert ann.entries.history(first.id)[-1].reason == "restore"
    assert ann.recall("14,500 rent", by="words", kinds=["entry"])[0].text == first.text
    assert not ann.recall("cash", by="words", kinds=["entry"]).hits
    assert ann.entries.revert(first.id, 5) == back
    assert ann.entries.revert(first.id, 2).text == "Money is paid."


def test_revert_keeps_an_expiry_that_is_over_and_whether_it_holds(db: MemDB, clock: Any) -> None:
    """A version that had expired by now does not expire the entry."""
    ann = db.scope("ann")
    first = ann.remember("Ann is in Oslo.", expires="1d").entry
    ann.entries.update(first.id, text="Ann is in Bergen.", expires=None)
    clock.advance(3 * 86_400_000)

    back = ann.entries.revert(first.id, 1)

    assert (back.text, back.expires_ms, back.active) == ("Ann is in Oslo.", None, True)


def test_a_version_that_never_was_is_not_found(db: MemDB) -> None:
    """Nor is one of another scope's entry."""
    ann = db.scope("ann")
    one = ann.remember("Ann sails.").entry
    with pytest.raises(NotFound):
        ann.entries.revert(one.id, 2)
    with pytest.raises(InvalidInput):
        ann.entries.revert(one.id, 0)
    for call in (
        lambda all_: all_.revert(one.id, 1),
        lambda all_: all_.update(one.id, active=True),
    ):
        with pytest.raises(NotFound):
            call(db.scope("bob").entries)


def test_activity_takes_a_supersede_back(db: MemDB, clock: Any) -> None:
    """Both hold then; the other order of two statements of one key swaps them."""
    ann = db.scope("ann")
    old, new = ann.remember("The tent is red.").entry, ann.remember("Ann sails a boat.").entry
    ann.entries.supersede(old.id, new.id)
    clock.advance(1000)

    back = ann.entries.update(old.id, active=True)

    assert (back.active, back.superseded_by, back.valid_to_ms) == (True, None, None)
    assert ann.entries.get(new.id).active
    assert ann.entries.update(old.id, active=True) == back


def test_activity_of_a_key_swaps_the_two(db: MemDB, clock: Any) -> None:
    """What states the key now gives way, also at the end of a chain."""
    ann = db.scope("ann")
    chain = []
    for city in ("Oslo", "Bergen", "Turku"):
        chain.append(ann.remember(f"Ann lives in {city}.", key="home").entry.id)
        clock.advance(1000)

    back = ann.entries.update(chain[0], active=True)

    assert (back.text, back.active) == ("Ann lives in Oslo.", True)
    now = ann.entries.find("home")
    assert now is not None
    assert now.id == chain[0]
    last = ann.entries.get(chain[2])
    assert (last.active, last.superseded_by) == (False, chain[0])
    assert [one.id for one in ann.entries.list()] == [chain[0]]
    ann.entries.update(chain[2], active=True)
    assert [one.id for one in ann.entries.list()] == [chain[2]]
