"""Pages of sessions, entries and artifacts: whole, without repeats, in each order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from row_digests import renew_digests

import memdb
from memdb import InvalidInput, NotFound
from memdb.api import pages
from memdb.errors import TooLarge
from tests.conftest import START_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

# How each listing is called, and what it can be ordered by.
LISTINGS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[str, ...]]] = {
    "sessions": (lambda scope: scope.sessions, ("name", "updated", "created")),
    "entries": (lambda scope: scope.entries.list, ("id", "updated", "created")),
    "artifacts": (lambda scope: scope.artifacts.list, ("name", "updated")),
    "artifacts of a session": (
        lambda scope: scope.session("s1").artifacts.list,
        ("name", "updated"),
    ),
}
CASES = [(name, order) for name, (_, orders) in LISTINGS.items() for order in orders]


@pytest.fixture
def scope(db: MemDB, clock: Any) -> memdb.Scope:
    """Return a scope with 12 things of each kind, several of them of the same time."""
    ann, bob = db.scope("ann"), db.scope("bob")
    for n in (5, 1, 9, 3, 11, 0, 7, 2, 10, 4, 8, 6):
        clock.advance(n % 3)
        ann.session(f"s{n}").append("user", f"hello {n}")
        ann.remember(f"Fact number {n} is about a {'cdefghijklmn'[n] * 4}.", key=f"k{n}")
        (ann.session("s1") if n % 2 else ann).artifacts.save(f"file{n}", b"x")
        bob.session(f"s{n}").append("user", "his own")
        bob.remember(f"Bob said {n}.")
        bob.artifacts.save(f"file{n}", b"y")
    ann.session("s3").append("user", "again")
    return ann


@pytest.mark.parametrize(("name", "order"), CASES)
def test_pages_are_the_whole_list_in_order(scope: memdb.Scope, name: str, order: str) -> None:
    """Whatever the size of a page, and whether its last row is given whole or as JSON has it."""
    listing = LISTINGS[name][0](scope)
    whole = [*listing(order=order)]
    for size in (1, 5, 100):
        pages: list[Any] = []
        after: Any = None
        while page := [*listing(order=order, after=after, limit=size)]:
            assert len(page) <= size
            pages += page
            after = page[-1].to_dict() if len(pages) % 2 else page[-1]

        assert pages == whole
    assert len({one.uid for one in whole}) == len(whole) == 12
    if order in ("updated", "created") and name != "artifacts":
        field = "created_ms" if name.startswith("artifacts") else f"{order}_ms"
        times = [getattr(one, field) for one in whole]
        assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("name", LISTINGS)
def test_what_changes_meanwhile_moves_no_other_row(
    scope: memdb.Scope, db: MemDB, clock: Any, name: str
) -> None:
    """A row that is changed after its page neither repeats nor hides those behind it."""
    listing = LISTINGS[name][0](scope)
    whole = [one.uid for one in listing(order="updated")]
    first = [*listing(order="updated", limit=5)]
    clock.advance(1000)
    scope.session(first[-1].name if name == "sessions" else "s1").append("user", "news")
    if name == "entries":
        scope.entries.update(first[-1].id, importance=9)
    elif name.startswith("artifacts"):
        last = first[-1]
        (scope.session(last.session) if last.session else scope).artifacts.save(last.name, b"new")

    rest = [one.uid for one in listing(order="updated", after=first[-1])]

    assert [uid for uid in rest if uid in whole[5:]] == [uid for uid in whole[5:] if uid in rest]
    assert not {*rest} & {one.uid for one in first}
    assert len(rest) >= 6  # one of them may have moved to the top


WRONG: list[dict[str, Any]] = [
    {"after": 7},
    {"after": {}},
    {"after": {"name": 5, "id": "x", "updated_ms": "now", "created_ms": True, "uid": 1}},
    {"limit": -1},
    {"limit": "5"},
    {"order": "size"},
]


@each("name, order", CASES)
def test_wrong_arguments_are_refused(scope: memdb.Scope, name: str, order: str) -> None:
    """Each names its argument, before anything is read."""
    for wrong in WRONG:
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            LISTINGS[name][0](scope)(**{"order": order, **wrong})


def test_entries_of_the_past_are_listed_by_id(scope: memdb.Scope) -> None:
    """Pages too; by time is refused, as no time of the past is kept for sorting."""
    found = [one.id for one in scope.entries.list(as_of=START_MS + 10_000)]
    page = [*scope.entries.list(as_of=START_MS + 10_000, limit=5)]
    rest = [*scope.entries.list(as_of=START_MS + 10_000, after=page[-1])]

    assert [one.id for one in (*page, *rest)] == found
    with pytest.raises(InvalidInput, match="as_of"):
        scope.entries.list(as_of="1d", order="updated")


def test_a_session_is_called_by_its_title_or_its_first_line(db: MemDB) -> None:
    """The first line of the user that says something, shortened; None without one."""
    ann = db.scope("ann")
    ann.session("titled").append("user", "not this")
    ann.session("titled").update(title="Oslo")
    ann.session("said").extend(
        [{"role": "system", "text": "Be kind."}, {"role": "user", "text": "\n  \n Where to? \nX"}]
    )
    ann.session("long").append("user", "w" * 500)
    ann.session("mute").append("assistant", "Hello?")
    ann.session("late").extend([{"role": "tool", "text": "x"}] * 60)
    ann.session("late").append("user", "too late")

    openings = {one.name: one.opening for one in ann.sessions()}

    assert openings == {
        "titled": "not this",
        "said": "Where to?",
        "long": "w" * 119 + "…",
        "mute": None,
        "late": None,
    }


def test_a_session_has_its_tokens_and_how_much_is_archived(db: MemDB) -> None:
    """Also its first words come out of the archive."""
    chat = db.scope("ann").session("trip")
    said = chat.extend([{"role": "user", "text": f"line {n}"} for n in range(60)])
    chat.archive(keep_last=20)

    (info,) = db.scope("ann").sessions()

    assert (info.message_count, info.archived_count, info.opening) == (60, 40, "line 0")
    assert info.tokens == sum(one.tokens for one in said)


def test_a_damaged_part_of_the_archive_hides_no_session(db: MemDB) -> None:
    """The list is whole; only its first words are missing."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"line {n}"} for n in range(60)])
    chat.archive(keep_last=20)
    with db._db.write() as tx:
        tx.run("UPDATE archive_segments SET data = :zero", {"zero": b"\0"})

    (info,) = db.scope("ann").sessions()

    assert (info.name, info.opening, info.message_count) == ("trip", None, 60)
    with db._db.write() as tx:
        tx.run("DELETE FROM archive_segments")
        tx.run("DELETE FROM messages WHERE text IS NULL")
        tx.run("UPDATE sessions SET title = 'x'")
        renew_digests(tx, "sessions")
    db.file.rebuild()
    db.file.check(accept=True)


def test_a_file_is_sent_in_parts_and_imported_once(db: MemDB) -> None:
    """In order, for one user of one app; then it is gone, whatever came of it."""
    lines = [f'{{"session": "s", "role": "user", "text": "line {n}"}}\n' for n in range(3)]
    one, two, three = (line.encode() for line in lines)
    first = pages.add_part(db, user="ann", upload="chats", data=one)
    with pytest.raises(InvalidInput, match="send the file again from 0"):
        pages.add_part(db, user="ann", upload="chats", data=two, at=1)
    pages.add_part(db, user="ann", upload="chats", data=two, at=first)
    for who in ({"user": "bob"}, {"user": "ann", "app": "other"}):
        with pytest.raises(NotFound):
            pages.import_upload(db, **who, name="x.jsonl", upload="chats")

    name = "../..\\x\0.jsonl"
    report = pages.import_upload(db, user="ann", name=name, upload="chats", data=three)

    assert report.messages_added == 3
    with pytest.raises(NotFound):
        pages.import_upload(db, user="ann", name="x.jsonl", upload="chats")
    with pytest.raises(NotFound):
        pages.add_part(db, user="ann", upload="chats", data=b"x", at=5)


def test_of_many_files_that_are_sent_the_oldest_goes(db: MemDB) -> None:
    """So that what nobody imports does not fill the disk; nor does one without an end."""
    for number in range(pages.MOST_UPLOADS + 1):
        pages.add_part(db, user="ann", upload=f"u{number}", data=b"x")

    with pytest.raises(NotFound):
        pages.import_upload(db, user="ann", name="x.md", upload="u0")
    assert pages.import_upload(db, user="ann", name="x.md", upload="u1").artifacts_added == 1


def test_a_file_that_is_sent_has_an_end(db: MemDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over the limit is refused, and not kept."""
    monkeypatch.setattr(pages, "MAX_UPLOAD_BYTES", 5)
    pages.add_part(db, user="ann", upload="big", data=b"12345")

    with pytest.raises(TooLarge):
        pages.add_part(db, user="ann", upload="big", data=b"6", at=5)
