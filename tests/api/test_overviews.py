"""Counts by day and category, and diffs of artifacts, through the front door."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import InvalidInput, NotFound, TooLarge
from memdb.adapters.host import HostFile
from memdb.tables import overviews
from memdb.text.validate import DAY_MS, HOUR_MS
from tests.conftest import START_MS

if TYPE_CHECKING:
    from memdb import MemDB

STATES = ("active", "superseded", "expired", "inactive", "future")


def by_day(found: memdb.ScopeCounts) -> dict[int, tuple[int, int, int]]:
    """Return the counts by the beginning of the bucket."""
    return {one.start_ms: (one.messages, one.sessions, one.entries) for one in found.days}


def test_days_are_those_of_the_rows(db: MemDB) -> None:
    """Before 1970 too, with messages of branches, and none of another user."""
    ann = db.scope("ann")
    times = [0, 1, DAY_MS - 1, DAY_MS, -1, -DAY_MS, -DAY_MS - 1, START_MS]
    for at in times:
        ann.session("trip").append("user", f"at {at}", created=at)
    ann.session("trip").branch("rail", 2).append("user", "aside", created=5)
    db.scope("bob").session("trip").append("user", "his", created=0)
    ann.remember("Ann skis.", created=7)
    near = {"since": -2 * DAY_MS, "until": 2 * DAY_MS}

    found = ann.counts(**near)

    assert {day: one[0] for day, one in by_day(found).items()} == Counter(
        at // DAY_MS * DAY_MS for at in [*times[:-1], 5]
    )
    assert by_day(found)[0] == (4, 0, 1)
    assert (found.bucket_days, found.is_complete) == (1, True)
    assert sum(one.sessions for one in ann.counts().days) == 1
    assert sum(one.messages for one in ann.counts().days) == len(times) + 1


@pytest.mark.parametrize("hours", [-11, 0, 2, 14])
def test_days_begin_at_local_midnight(db: MemDB, hours: int) -> None:
    """By an offset; the first and last moment of a day are in it."""
    ann = db.scope("ann")
    midnight = START_MS // DAY_MS * DAY_MS - hours * HOUR_MS
    for at in (midnight - 1, midnight, midnight + DAY_MS - 1, midnight + DAY_MS):
        ann.session("trip").append("user", "x", created=at)

    found = by_day(ann.counts(offset_minutes=hours * 60, since=0, until=midnight + 3 * DAY_MS))

    assert [found[midnight + step * DAY_MS][0] for step in (-1, 0, 1)] == [1, 2, 1]


@pytest.mark.parametrize(("days", "size"), [(599, 1), (600, 2), (3_000_000 // 2, 2501)])
def test_there_are_600_buckets_at_most(db: MemDB, days: int, size: int) -> None:
    """Wider ones where the days are more; none loses a message."""
    ann = db.scope("ann")
    for step in range(4):
        ann.session("trip").append("user", "x", created=step * (days // 3) * DAY_MS)
    ann.session("trip").append("user", "x", created=days * DAY_MS)

    found = ann.counts(until=(days + 1) * DAY_MS)

    assert found.bucket_days == size
    assert sum(one.messages for one in found.days) == 5
    spans = [one.start_ms // DAY_MS for one in found.days]
    assert all(one % size == 0 for one in spans)
    assert spans[-1] // size < 600


def test_categories_are_counted_by_status(db: MemDB, clock: Any) -> None:
    """Each state as `Entry.status` says it, at each time."""
    ann = db.scope("ann")
    ann.remember("Ann lives in Oslo.", key="home", category="profile")
    clock.advance(1000)
    ann.remember("Ann lives in Bergen.", key="home", category="profile")
    ann.remember("Ann has a cold.", expires="2d")
    ann.remember("Ann will be 40.", valid_from=START_MS + 5 * DAY_MS)
    off = ann.remember("Ann has a dog.").entry.id
    ann.entries.update(off, active=False)
    db.scope("bob").remember("Bob has a dog.")
    for step in (0, 3 * DAY_MS, 9 * DAY_MS):
        clock.advance(step)
        now = HostFile(db).now_ms()
        expected = Counter(
            (one.category, one.status(now)) for one in ann.entries.list(inactive=True)
        )

        found = ann.counts().categories

        counted = {
            (one.category, state): getattr(one, state)
            for one in found
            for state in STATES
            if getattr(one, state)
        }
        assert counted == expected
        assert [one.category for one in found] == sorted({name for name, _ in expected})


def test_more_messages_than_are_counted_are_told(
    db: MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest ones are counted, and the answer says that some are not."""
    ann = db.scope("ann")
    ann.session("trip").extend([{"role": "user", "text": f"{n}"} for n in range(5)])
    for most, is_complete in ((4, False), (6, True)):
        monkeypatch.setattr(overviews, "MOST_MESSAGES", most)
        found = ann.counts()
        assert (found.days[0].messages, found.is_complete) == (min(most, 5), is_complete)


def test_an_unknown_user_has_no_counts(db: MemDB) -> None:
    """And is not made by asking; what is no offset is refused."""
    found = db.scope("ann").counts()

    assert (found.days, found.categories, found.is_complete) == ((), (), True)
    assert db.scopes() == []
    with pytest.raises(InvalidInput, match="offset_minutes"):
        db.scope("ann").counts(offset_minutes=1441)


def test_a_diff_of_versions(db: MemDB) -> None:
    """The newest beside the one before, also where one between was deleted."""
    files = db.scope("ann").session("trip").artifacts
    for text in ("soup\nfish\n", "gone", "soup\ncake\n"):
        files.save("menu.md", text)
    files.delete("menu.md", 2)

    found = files.diff("menu.md")

    assert (found.old, found.new, found.added, found.removed) == (1, 3, 1, 1)
    assert found.hunks[0].lines == (" soup", "-fish", "+cake")
    assert files.diff("menu.md", 1, 3).hunks[0].lines == (" soup", "-cake", "+fish")
    assert files.diff("menu.md", 3, 3).hunks == ()
    assert found.lines()[:3] == ["--- 1", "+++ 3", "@@ -1,2 +1,2 @@"]


def test_what_cannot_be_compared_is_refused(db: MemDB) -> None:
    """One version, none, bytes, and texts over 2 MB."""
    files = db.scope("ann").artifacts
    files.save("one", "x")
    files.save("bytes", b"\xff")
    files.save("bytes", b"x")
    files.save("long", "x" * 2_000_001)
    files.save("long", "x")

    for name, version, error in (
        ("one", None, InvalidInput),
        ("bytes", None, InvalidInput),
        ("long", None, TooLarge),
        ("one", 7, NotFound),
        ("none", None, NotFound),
    ):
        with pytest.raises(error, match=name):
            files.diff(name, version)
