"""Compare-and-swap wherever a version exists, and transactions over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import MemDB, VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable

BAD_VERSIONS = [-1, "1", 1.0, True, 2**63]


def conflict(call: Callable[[], object]) -> tuple[int, int]:
    """Return what a call expected and what the file was at."""
    with pytest.raises(VersionConflict) as caught:
        call()
    return caught.value.expected, caught.value.got


@pytest.fixture(params=["session", "scope", "app"])
def state(db: MemDB, request: pytest.FixtureRequest) -> Any:
    """Return the state of a session, of a user, of an app."""
    scope = db.scope("ann")
    return {"session": scope.session("s").state, "scope": scope.state, "app": db.shared().state}[
        request.param
    ]


def test_state_has_versions(state: Any, clock: Any) -> None:
    """Each change adds 1, the same value again nothing; a stale version changes nothing."""
    assert state.find("k") is None
    assert conflict(lambda: state.put("k", 1, expected=3)) == (3, 0)
    assert state.put("k", 1, expected=0).version == 1
    clock.advance(5)
    assert state.put("k", 1, expected=1).version == 1
    changed = state.put("k", [None], expected=1)
    assert (changed.value, changed.version, changed.updated_ms) == ([None], 2, clock())
    assert state.find("k") == changed
    for call in (
        lambda: state.put("k", 5, expected=1),
        lambda: state.delete("k", expected=1),
    ):
        assert conflict(call) == (1, 2)
    assert conflict(lambda: state.delete("other", expected=1)) == (1, 0)
    state["k"] = 7
    assert state.find("k").version == 3
    assert state.delete("k", expected=3)
    assert not state.delete("k")
    assert state.all() == {}


@pytest.mark.parametrize("version", BAD_VERSIONS, ids=repr)
def test_a_version_is_a_number(db: MemDB, version: Any) -> None:
    """The error names the argument, and nothing is written."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.").entry
    ann.artifacts.save("a.md", "x")
    calls: list[tuple[str, Callable[[], object]]] = [
        ("expected", lambda: ann.state.put("k", 1, expected=version)),
        ("expected", lambda: ann.state.delete("k", expected=version)),
        ("expected", lambda: ann.items.put((), "k", 1, expected=version)),
        (
            "expected",
            lambda: ann.entries.update(entry.id, text="x", expected=version),
        ),
        ("expected", lambda: ann.entries.delete(entry.id, expected=version)),
        ("expected", lambda: ann.artifacts.save("a.md", "y", expected=version)),
        (
            "expected",
            lambda: ann.artifacts.rename("a.md", "b.md", expected=version),
        ),
    ]
    for field, call in calls:
        with pytest.raises(memdb.InvalidInput, match=field):
            call()
    assert ann.state.all() == {}
    assert ann.entries.get(entry.id) == entry
    assert [one.version for one in ann.artifacts.versions("a.md")] == [1]


def test_entries_change_at_a_version(db: MemDB) -> None:
    """An update or delete at another version changes nothing."""
    entries = db.scope("ann").entries
    entry = db.scope("ann").remember("Ann likes tea.").entry
    assert entry.version == 1
    assert entries.update(entry.id, text="Ann likes cake.", expected=1).version == 2
    for call in (
        lambda: entries.update(entry.id, text="Ann likes soup.", expected=1),
        lambda: entries.delete(entry.id, expected=1),
    ):
        assert conflict(call) == (1, 2)
    assert (entries.get(entry.id).text, len(entries.history(entry.id))) == ("Ann likes cake.", 1)
    assert entries.delete(entry.id, expected=2)
    assert conflict(lambda: entries.delete(entry.id, expected=2)) == (2, 0)
    assert not entries.delete(entry.id, expected=0)


def test_a_session_changes_as_it_was_read(db: MemDB) -> None:
    """Title and metadata are changed only if the session is as its head says."""
    chat = db.scope("ann").session("s")
    head = chat.create(title="Trip")
    renamed = chat.update(title="Oslo", metadata={"a": 1}, expected=head)
    assert renamed.title == "Oslo"
    conflict(lambda: chat.update(title="Rome", expected=head))
    db.scope("ann").session("s").append("user", "hi")
    conflict(lambda: chat.update(metadata={}, expected=renamed))
    now = chat.head()
    assert now is not None
    assert (now.title, now.metadata) == ("Oslo", {"a": 1})
    assert chat.update(title="Bergen", expected=now).title == "Bergen"


def test_artifacts_are_saved_at_a_version(db: MemDB) -> None:
    """Of two writers who read the same version one is refused; 0 means a new name."""
    files = db.scope("ann").session("s").artifacts
    assert conflict(lambda: files.save("a.md", "x", expected=1)) == (1, 0)
    assert files.save("a.md", "one", expected=0).version == 1
    assert files.save("a.md", "two", expected=1).version == 2
    for expected in (0, 1, 3):
        assert conflict(lambda: files.save("a.md", "three", expected=expected)) == (  # noqa: B023 (runs at once)
            expected,
            2,
        )
    assert [one.version for one in files.versions("a.md")] == [2, 1]
    files.delete("a.md")
    assert files.save("a.md", "again", expected=0).version == 3
    assert db.file.check(deep=True) == []


def test_old_versions_go_if_only_some_are_kept(db: MemDB) -> None:
    """keep_last counts the new version too; what goes leaves its number taken."""
    files = db.scope("ann").artifacts
    for number in range(1, 6):
        files.save("a.md", f"tea {number}")
    files.save("a.md", "tea 6", keep_last=3)
    assert [one.version for one in files.versions("a.md")] == [6, 5, 4]
    files.save("a.md", "soup", keep_last=1)
    assert [one.version for one in files.versions("a.md")] == [7]
    assert [hit.text for hit in db.scope("ann").recall("soup", kinds=["artifact"])] == ["soup"]
    with db._db.read() as tx:
        assert tx.one("SELECT count(*) FROM blobs") == (1,)
    assert db.file.check(deep=True) == []
    with pytest.raises(memdb.InvalidInput, match="keep_last"):
        files.save("a.md", "x", keep_last=0)


def test_a_name_is_changed_with_all_its_versions(db: MemDB) -> None:
    """Bytes, numbers and facts stay; the words are found under the new name alone."""
    files = db.scope("ann").session("s").artifacts
    before = [files.save("old.md", text, metadata={"m": text}) for text in ("red tea", "green tea")]
    renamed = files.rename("old.md", "new.md", expected=2)

    assert renamed == before[1].replace(name="new.md")
    assert files.versions("new.md") == [one.replace(name="new.md") for one in reversed(before)]
    assert files.load("new.md", 1).text == "red tea"
    assert files.versions("old.md") == []
    hits = db.scope("ann").recall("green tea", kinds=["artifact"])
    assert [hit.source.artifact for hit in hits] == ["new.md"]
    assert files.save("old.md", "other").version == 3
    with pytest.raises(memdb.AlreadyExists):
        files.rename("new.md", "old.md")
    with pytest.raises(memdb.NotFound):
        files.rename("gone.md", "x.md")
    assert conflict(lambda: files.rename("new.md", "x.md", expected=1)) == (1, 2)
    assert files.rename("new.md", "new.md").version == 2
    assert db.file.check(deep=True) == []


def test_numbers_of_a_name_that_was_used_go_on(db: MemDB) -> None:
    """No number of a name ever comes back with other bytes."""
    files = db.scope("ann").session("s").artifacts
    for text in ("a", "b"):
        files.save("taken.md", text)
    files.delete("taken.md")
    files.save("mine.md", "c")
    assert files.rename("mine.md", "taken.md").version == 3
    assert files.rename("taken.md", "user:shared.md").version == 3
    assert files.load("user:shared.md").text == "c"
    assert db.scope("ann").artifacts.load("shared.md", 3).text == "c"
    assert files.save("mine.md", "d").version == 2
    assert db.file.check(deep=True) == []


def test_artifacts_are_listed_in_pages(db: MemDB) -> None:
    """By prefix and page, in a session and in the scope, each name once."""
    ann = db.scope("ann")
    for session in ("s", "t"):
        for number in range(9):
            ann.session(session).artifacts.save(f"a/{number}.md", "x")
        ann.session(session).artifacts.save("A/0.md", "x")
        ann.session(session).artifacts.save("a%.md", "x")
    ann.artifacts.save("a/shared.md", "x")
    ann.session("s").artifacts.save("a/gone.md", "x")
    ann.session("s").artifacts.delete("a/gone.md")

    for files in (ann.session("s").artifacts, ann.artifacts):
        whole = files.list()
        for size in (1, 4, 100):
            pages, after = [], None
            while page := files.list(limit=size, after=after):
                pages += page
                after = page[-1]
            assert pages == whole
    files = ann.session("s").artifacts
    assert [one.name for one in files.list(prefix="a/")] == [f"a/{n}.md" for n in range(9)]
    assert [one.name for one in files.list(prefix="a%")] == ["a%.md"]
    assert [one.name for one in files.list(prefix="user:a")] == ["user:a/shared.md"]
    assert len(ann.artifacts.list(prefix="a/")) == 18 + len(["user:a/shared.md"])
    assert files.list(prefix="b") == []
    for given in ({"prefix": 5}, {"after": "a"}, {"limit": -1}):
        with pytest.raises(memdb.InvalidInput, match=next(iter(given))):
            files.list(**given)


def test_a_transaction_takes_all_of_them_or_none(db: MemDB) -> None:
    """A conflict in the middle undoes what came before it, of every kind."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.").entry
    ann.artifacts.save("a.md", "one")
    chat = ann.session("s")
    chat.append("user", "hi")

    def change(stale: str | None) -> None:
        with db.transaction():
            ann.state.put("k", 1, expected=1 if stale == "state" else 0)
            ann.items.put(("n",), "k", 1, expected=1 if stale == "items" else 0)
            ann.entries.update(
                entry.id, text="Ann likes cake.", expected=2 if stale == "entries" else 1
            )
            ann.artifacts.save("a.md", "two", expected=0 if stale == "artifacts" else 1)
            chat.append("user", "more", expected=0 if stale == "sessions" else 1)

    before = [*db.export_lines()]
    for stale in ("state", "items", "entries", "artifacts", "sessions"):
        with pytest.raises(VersionConflict):
            change(stale)
        assert [*db.export_lines()] == before
    change(None)
    assert (ann.state["k"], ann.items.get(("n",), "k").value, chat.last_seq) == (1, 1, 2)
    assert ann.entries.get(entry.id).text == "Ann likes cake."
    assert ann.artifacts.load("a.md").text == "two"
    assert db.file.check(deep=True) == []
