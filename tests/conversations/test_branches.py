"""Branches: heads of a session that share its messages up to a seq."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb import (
    AlreadyExists,
    InvalidInput,
    MemDB,
    NotFound,
    Session,
    Settings,
    VersionConflict,
    aio,
)
from memdb.adapters.host import Host


def fill(db: MemDB, count: int = 6) -> Session:
    """Return the session "talk" with messages m1 to m6."""
    chat = db.scope("ann").session("talk")
    chat.extend([{"role": "user", "text": f"m{number}"} for number in range(1, count + 1)])
    return chat


def texts(chat: Session) -> list[str]:
    """Return what a head holds."""
    return [one.text for one in chat.messages()]


def test_a_branch_goes_on_from_what_it_shares(db: MemDB) -> None:
    """Seqs go on after the last shared one, on both heads."""
    chat = fill(db)
    other = chat.branch("other", 3)

    stored = other.append("assistant", "new")
    chat.append("user", "m7")

    assert (stored.seq, stored.session) == (4, "talk")
    assert texts(other) == ["m1", "m2", "m3", "new"]
    assert texts(chat)[-2:] == ["m6", "m7"]
    assert [one.seq for one in other.last(2)] == [3, 4]
    assert (other.name, other.branch_name, chat.branch_name) == ("talk", "other", None)
    assert db.file.check(deep=True) == []


def test_branches_are_listed_and_never_as_sessions(db: MemDB) -> None:
    """Also those of branches, with their parents; a session's list has only sessions."""
    chat = fill(db)
    one = chat.branch("one", 4)
    one.append("user", "new")
    chat.branch("two")
    one.branch("three")
    one.branch("four", 2)

    found = {info.name: info for info in one.branches()}

    assert {name: (info.parent, info.leaves_at) for name, info in found.items()} == {
        "one": (None, 4),
        "two": (None, 6),
        "three": ("one", 5),
        "four": (None, 2),  # what it shares is the session's
    }
    assert [found[name].message_count for name in ("one", "two", "three", "four")] == [5, 6, 5, 2]
    assert [info.name for info in db.scope("ann").sessions()] == ["talk"]
    assert [info.name for info in db.scope("ann").sessions("talk")] == ["talk"]
    parent = chat.branch("three").parent
    assert parent is not None
    assert parent.branch_name == "one"
    assert one.parent is not None
    assert one.parent.branch_name is None
    assert chat.parent is None
    counts = db.file.info().counts
    assert (counts["sessions"], counts["branches"], counts["messages"]) == (1, 4, 7)


def test_a_branch_is_made_once(db: MemDB) -> None:
    """It is found again; elsewhere, or new, it may not be."""
    chat = fill(db)
    chat.branch("other", 3).append("user", "new")

    assert texts(chat.branch("other"))[-1] == "new"
    assert texts(chat.branch("other", 3, create=False))[-1] == "new"
    for given in ({"after_seq": 4}, {"create": True}, {"after_seq": 3, "create": True}):
        with pytest.raises(AlreadyExists):
            chat.branch("other", **given)
    assert len(chat.branches()) == 1


BAD: list[tuple[Any, Any, type[Exception]]] = [
    ("", None, InvalidInput),
    ("  ", None, InvalidInput),
    ("a\0b", None, InvalidInput),
    ("x" * 1025, None, InvalidInput),
    ("\ud800", None, InvalidInput),
    (5, None, InvalidInput),
    (None, None, InvalidInput),
    ("other", -1, InvalidInput),
    ("other", 7, InvalidInput),
    ("other", "3", InvalidInput),
    ("other", True, InvalidInput),
    ("other", 1 << 24, InvalidInput),
]


@pytest.mark.parametrize(("name", "after", "error"), BAD)
def test_bad_names_and_places_write_nothing(
    db: MemDB, name: Any, after: Any, error: type[Exception]
) -> None:
    """The session stays as it was."""
    chat = fill(db)

    with pytest.raises(error):
        chat.branch(name, after)

    assert chat.branches() == []
    assert db.file.check() == []


@pytest.mark.parametrize("name", ["../x", "%", "_", "*", "a[b", "talk", "main", "ä" * 1000, "⑂"])
def test_names_are_literal(db: MemDB, name: str) -> None:
    """No character means anything; one branch does not find another."""
    chat = fill(db, 2)
    chat.branch(name, 1).append("user", "new")
    chat.branch("other", 0)

    assert texts(chat.branch(name, create=False)) == ["m1", "new"]
    assert texts(chat) == ["m1", "m2"]
    with pytest.raises(NotFound):
        chat.branch(name.swapcase() + "x", create=False)


def test_what_is_not_there_is_not_made(db: MemDB) -> None:
    """No branch of a session that is not there; no message of a branch that is gone."""
    with pytest.raises(NotFound, match="session"):
        db.scope("ann").session("talk").branch("other")
    chat = fill(db)
    gone = chat.branch("gone", 2)
    gone.delete()

    assert texts(gone) == []
    assert (gone.last(5), gone.last_seq, list(gone.recall("m1"))) == ([], 0, [])
    for write in (
        lambda: gone.append("user", "x"),
        lambda: gone.extend([{"role": "user", "text": "x"}]),
        lambda: Host(gone).commit({"role": "user", "text": "x"}),
        lambda: gone.update(metadata={}),
        lambda: gone.branch("again"),
        lambda: gone.parent,
    ):
        with pytest.raises(NotFound):
            write()
    assert db.scope("ann").sessions()[0].message_count == 6
    assert db.file.check(deep=True) == []


def test_of_two_writers_that_know_the_same_one_succeeds(db: MemDB) -> None:
    """`expected` and the head work on a branch as on a session."""
    chat = fill(db)
    other = chat.branch("other", 3)
    head = other.head()
    assert head is not None
    assert (head.last_seq, head.newest_seq, head.name) == (3, 3, "talk")
    other.append("user", "first", expected=3)

    with pytest.raises(VersionConflict):
        other.append("user", "second", expected=3)
    with pytest.raises(VersionConflict):
        Host(other).commit({"role": "user", "text": "x"}, expected=head)
    assert Host(other).commit({"role": "user", "text": "third"}, expected=4).seq == 5
    other.update(metadata={"a": 1})
    found = other.head()
    assert found is not None
    assert found.metadata == {"a": 1}
    assert chat.head().metadata is None
    with pytest.raises(InvalidInput):
        other.update(title="of the session")
    with pytest.raises(InvalidInput):
        other.create()


def test_an_external_id_is_known_on_each_path(db: MemDB) -> None:
    """One of a shared message is found; the same id may be given on both sides of a fork."""
    chat = fill(db, 1)
    first = chat.append("user", "shared", external_id="e1")
    other = chat.branch("other")
    chat.append("user", "here", external_id="e2")

    assert other.find("e1") == first
    assert other.find("e2") is None
    assert other.append("user", "shared", external_id="e1") == first
    own = other.append("user", "there", external_id="e2")
    assert other.find("e2") == own
    assert chat.find("e2") != own
    assert db.file.check(deep=True) == []


def test_a_recall_of_the_scope_finds_each_message_once(db: MemDB) -> None:
    """A hit names the branch that holds it; the recall of a head has only its path."""
    chat = fill(db, 2)
    chat.append("user", "We fly to Oslo on Monday.")
    other = chat.branch("other")
    deeper = other.branch("deeper")
    chat.append("user", "The Oslo hotel is booked.")
    other.append("user", "The Oslo hotel is full.")

    hits = db.scope("ann").recall("Oslo", kinds=("message",), by="words", min_score=0)
    assert sorted((hit.source.branch or "", hit.source.seq or 0) for hit in hits) == [
        ("", 3),
        ("", 4),
        ("other", 4),
    ]
    assert [str(hit.source) for hit in hits if hit.source.branch] == ["talk (other)#4"]
    found = {
        one.branch_name: {
            hit.text for hit in one.recall("Oslo", kinds=("message",), by="words", min_score=0)
        }
        for one in (chat, other, deeper)
    }
    assert {name: len(some) for name, some in found.items()} == {None: 2, "other": 2, "deeper": 1}
    (group,) = db.scope("ann").recall("Oslo hotel", group="session", by="words")
    assert group.source.session == "talk"
    assert {hit.source.branch for hit in group.hits} >= {None, "other"}


def test_filters_apply_along_the_path(db: MemDB) -> None:
    """Times, roles, authors and metadata, of shared and of own messages."""
    chat = db.scope("ann").session("talk")
    chat.append("user", "tea one", author="Ann", metadata={"a": 1}, created=1_000)
    chat.append("user", "tea two", author="Bob", metadata={"a": 2}, created=2_000)
    other = chat.branch("other", 1)
    other.append("assistant", "tea three", author="Bob", metadata={"a": 1}, created=3_000)

    def found(**given: Any) -> list[str]:
        hits = other.recall("tea", kinds=("message",), min_score=0, **given)
        return sorted(hit.text for hit in hits)

    assert found() == ["tea one", "tea three"]
    assert found(roles=["assistant"]) == ["tea three"]
    assert found(authors=["Bob"]) == ["tea three"]
    assert found(where={"a": 1}) == ["tea one", "tea three"]
    assert found(since=2_500) == ["tea three"]
    assert found(until=2_500) == ["tea one"]


def test_state_and_artifacts_belong_to_the_session(db: MemDB) -> None:
    """A branch sees and changes those of its session; a version knows its message."""
    chat = fill(db)
    other = chat.branch("other", 2)
    said = other.append("user", "Save it.")
    other.state.put("mood", "good")
    other.artifacts.save("plan.md", "the plan", message_seq=said.seq)

    assert chat.state.get("mood") == "good"
    (version,) = chat.artifacts.list()
    assert (version.session, version.message_session, version.message_seq) == ("talk", "talk", 3)
    assert version.message_branch == "other"
    assert [hit.kind for hit in other.recall("plan", kinds=("artifact",))] == ["artifact"]
    snapshot = Host(other).snapshot(last=2)
    assert snapshot is not None
    assert snapshot.state == {"mood": "good"}
    assert [one.text for one in snapshot.messages] == ["m2", "Save it."]
    other.delete()
    assert chat.state.get("mood") == "good"
    assert db.file.check(deep=True) == []


def test_entries_of_a_branch(db: MemDB) -> None:
    """Provenance is the stored message; private ones follow the path."""
    ann = db.scope("ann")
    chat = fill(db)
    other = chat.branch("other", 3)
    other.append("user", "I hate tea.")
    ann.remember("Ann likes tea.", session="talk", seq=2, session_only=True)
    late = ann.remember("Ann likes cocoa.", session="talk", seq=5, session_only=True).entry

    assert late.branch is None
    recalled = {
        one.branch_name: {hit.text for hit in one.recall("Ann likes", kinds=("entry",))}
        for one in (chat, other)
    }
    assert recalled == {None: {"Ann likes tea.", "Ann likes cocoa."}, "other": {"Ann likes tea."}}
    learnt = other.extract()
    assert learnt.messages == 1  # what it shares is looked at where it was said
    assert all(entry.branch == "other" for entry in ann.entries.list() if entry.writer)


@pytest.mark.parametrize("archived", [False, True])
def test_a_shared_message_goes_from_every_head(db: MemDB, archived: bool) -> None:
    """By delete and by forget; what branches do not share stays with the one."""
    chat = fill(db)
    one, two = chat.branch("one", 4), chat.branch("two", 2)
    one.append("user", "new")
    if archived:
        one.archive(keep_last=0)

    one.delete([2])
    one.forget([4, 5])
    chat.delete(query="m1")

    assert texts(chat) == ["m3", "m5", "m6"]
    assert texts(one) == ["m3"]
    assert texts(two) == []
    assert (one.last_seq, one.append("user", "next").seq) == (5, 6)
    assert db.file.check(deep=True) == []


def test_a_host_that_shortens_one_head_leaves_the_others(db: MemDB) -> None:
    """`pop`, `replace` and `clear` take away what they name, and only from the one head."""
    chat = fill(db)
    one = chat.branch("one", 4)
    two = one.branch("two")
    popped = one.pop()
    chat.replace([2, 3], [{"role": "user", "text": "instead"}])

    assert popped is not None
    assert popped.text == "m4"
    assert texts(one) == ["m1", "m2", "m3"]
    assert texts(two) == ["m1", "m2", "m3", "m4"]
    assert texts(chat) == ["m1", "m4", "m5", "m6", "instead"]
    assert [one.seq for one in two.messages()] == [1, 2, 3, 4]
    assert one.clear()
    assert not one.clear()
    assert (texts(one), one.last_seq) == ([], 4)
    assert texts(two) == ["m1", "m2", "m3", "m4"]
    assert one.append("user", "again").seq == 5
    assert db.file.check(deep=True) == []


SHORTEN: dict[str, Any] = {
    "a branch replaces": lambda chat: chat.branch("one").replace([2]),
    "a session replaces": lambda chat: chat.replace([2]),
    "a branch of a branch replaces": lambda chat: chat.branch("two").replace([2]),
    "a session clears": lambda chat: chat.clear(),
    "a branch clears": lambda chat: chat.branch("one").clear(),
    "a session pops": lambda chat: [chat.pop() for _ in range(5)],
    "a branch pops": lambda chat: [chat.branch("one").pop() for _ in range(3)],
}


def branched(db: MemDB) -> list[Session]:
    """Return a session, a branch, a branch of it and another one; all share m1 to m4."""
    chat = fill(db)
    one = chat.branch("one", 4)
    one.append("user", "new")
    two = one.branch("two")
    two.append("user", "newer")
    return [chat, one, two, chat.branch("three", 5)]


@pytest.mark.parametrize("case", SHORTEN)
@pytest.mark.parametrize("archived", [False, True])
def test_what_a_host_does_not_name_stays_shared(db: MemDB, case: str, archived: bool) -> None:
    """It is stored and found once, and edited, deleted and forgotten on every head."""
    heads = branched(db)
    before = [[one.seq for one in head.messages()] for head in heads]
    if archived:
        heads[2].archive(keep_last=0)
    SHORTEN[case](heads[0])
    after = [[one.seq for one in head.messages()] for head in heads]

    assert sum(a != b for a, b in zip(after, before, strict=True)) == 1
    stored = {one.uid for head in heads for one in head.messages()}
    assert db.file.info().counts["messages"] == len(stored)
    for seq in range(1, 5):
        of = [head for head in heads if seq in [one.seq for one in head.messages()]]
        assert len({head.get(seq).uid for head in of}) == 1, "one message, whoever shows it"
        of[-1].edit(seq, {"role": "user", "text": f"kumquat{seq}"})
        assert {head.get(seq).text for head in of} == {f"kumquat{seq}"}
        (hit,) = db.scope("ann").recall(f"kumquat{seq}", kinds=("message",), by="words")
        assert heads[0].branch(hit.source.branch).get(seq) if hit.source.branch else True
        (of[0].forget if seq % 2 else of[-1].delete)([seq])
        assert not any(seq in [one.seq for one in head.messages()] for head in heads)
    db.jobs.run()
    assert db.file.check(deep=True) == []


def test_the_same_message_forgotten_on_another_head(file_db: MemDB) -> None:
    """A proof finds no copy; what says the same words for itself is named with its branch."""
    ann = file_db.scope("ann")
    chat = ann.session("s")
    for number in (1, 2, 3):
        chat.append("user", f"kumquat{number} said")
    other = chat.branch("b")
    other.replace([1])
    receipt = ann.forget(session="s", seqs=[2], prove=True)
    assert receipt.proven
    assert texts(other) == ["kumquat3 said"]

    other.append("user", "Something with a kumquat3 said twice")
    other.append("user", "kumquat3 said")
    receipt = ann.forget(session="s", seqs=[3], prove=True)
    assert receipt.proof is not None
    assert set(receipt.proof.said_in) == {"message s (b)#4"}
    receipt = ann.forget(query="something kumquat3 twice", prove=True)
    assert receipt.proven
    chat.append("user", "kumquat3 said")
    receipt = chat.forget(query="kumquat3 said", prove=True)
    assert receipt.proof is not None
    assert receipt.proof.still_said_in == ("message s (b)#5",)


def test_what_was_learnt_and_saved_goes_along_with_a_message(db: MemDB) -> None:
    """A message that moves to a branch takes its facts and files along, and they go with it."""
    ann = db.scope("ann")
    chat, one, *_ = branched(db)
    learnt = ann.remember("Ann likes tea.", session="talk", seq=2).entry
    chat.artifacts.save("plan.md", "the plan", message_seq=2)
    chat.replace([2])

    moved = ann.entries.get(learnt.id)
    assert (moved.session, moved.branch, moved.first_seq) == ("talk", "one", 2)
    (version,) = chat.artifacts.list()
    assert (version.message_branch, version.message_seq) == ("one", 2)
    receipt = one.forget([2], artifacts=True)
    assert (receipt.removed["entries"], receipt.removed["artifacts"]) == (1, 1)
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("way", ["delete", "forget"])
def test_a_branch_that_goes_leaves_what_others_show(file_db: MemDB, way: str) -> None:
    """Its messages that only others show too are theirs then; the rest of it goes."""
    chat, one, two, three = branched(file_db)
    chat.clear()
    assert texts(one) == ["m1", "m2", "m3", "m4", "new"]
    rest = [texts(three)]
    given = {"prove": True} if way == "forget" else {}
    two.delete()

    counted = one.delete(dry_run=True).removed["messages"]
    receipt = getattr(one, way)(**given)

    assert counted == receipt.removed["messages"] == 1
    assert receipt.proven is (way == "forget")
    assert [texts(three)] == rest == [["m1", "m2", "m3", "m4", "m5"]]
    assert file_db.file.info().counts["messages"] == 5
    assert file_db.file.check(deep=True) == []


def test_shares_come_back_from_an_export(db: MemDB, tmp_path: Path) -> None:
    """Also into a session that holds other messages: nothing is lost, and nothing double."""
    chat, *_ = branched(db)
    chat.replace([2, 6])
    path = tmp_path / "a.jsonl"
    db.export(path, user="ann")

    with memdb.open(str(tmp_path / "b.db")) as other:
        copy = other.scope("ann").session("talk")
        copy.append("user", "was here")
        other.import_file(path)
        assert texts(copy) == ["was here", "m1", "m3", "m4", "m5"]
        for name, held in (("one", "1234"), ("two", "1234"), ("three", "12345")):
            here = set(texts(copy.branch(name, create=False)))
            assert {f"m{number}" for number in held} <= here
        stored = {
            one.uid
            for head in ("", "one", "two", "three")
            for one in (copy.branch(head) if head else copy).messages()
        }
        assert other.file.info().counts["messages"] == len(stored)
        assert other.file.check(deep=True) == []


def count_statements(count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many statements the first and the second context of a chain of branches run."""
    statements: list[str] = []

    def watch(_cursor: object, sql: str, _values: object) -> bool:
        statements.append(sql)
        return True

    def attach(connection: apsw.Connection) -> None:
        connection.exec_trace = watch

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, attach])
    found = []
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        head = db.scope("ann").session("s")
        head.append("user", "We talk about tea.")
        for number in range(1, count):
            head = head.branch(f"b{number}")
            head.append("user", f"We talk about tea number {number}.")
        for _ in range(2):
            statements.clear()
            assert head.context(2000, "tea number 7").messages
            found.append(len(statements))
    return found


def test_a_context_takes_some_statements_per_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that is four times as long takes about four times as many, not sixteen."""
    short, long = (count_statements(count, monkeypatch) for count in (30, 120))

    assert long[0] < 6 * short[0]
    assert long[1] < 6 * short[1]
    assert long[1] < 120 * 8


def test_the_parent_is_what_was_left(db: MemDB) -> None:
    """Also before it has messages of its own; where it shares all, what it left is left."""
    chat = fill(db)
    one = chat.branch("one", 4)
    two = one.branch("two")
    three = two.branch("three", 2)
    parents = {info.name: info.parent for info in chat.branches()}

    assert two.parent is not None
    assert two.parent.branch_name == "one"
    assert parents == {"one": None, "two": "one", "three": None}
    with pytest.raises(InvalidInput, match="'two'"):
        one.delete()
    one.append("user", "new")
    assert texts(two) == texts(chat)[:4]
    assert not two.clear() or not texts(two)
    one.clear()
    one.delete()
    assert {info.name: info.parent for info in chat.branches()} == {"two": None, "three": None}
    assert texts(three) == ["m1", "m2"]


def test_a_branch_that_is_empty_lets_go_of_those_that_left_it(db: MemDB) -> None:
    """`clear` and then `delete` takes away no other branch: a host deletes one head alone."""
    chat = fill(db)
    empty = chat.branch("empty", 0)
    other = empty.branch("other")
    other.append("user", "kept")

    assert not empty.clear()
    empty.delete(force=True)

    assert texts(other) == ["kept"]
    assert db.file.check(deep=True) == []


def test_deleting_goes_down_the_tree(db: MemDB) -> None:
    """A branch that others leave is refused without force; a session takes its branches along."""
    chat = fill(db)
    one = chat.branch("one", 4)
    one.append("user", "new")
    two = one.branch("two")
    two.append("user", "newer")

    for remove in (one.delete, one.forget):
        with pytest.raises(InvalidInput, match="'two'"):
            remove()
    assert two.delete(dry_run=True).removed["branches"] == 1
    receipt = one.delete(force=True)
    assert (receipt.removed["branches"], receipt.removed["messages"]) == (2, 2)
    assert receipt.removed["sessions"] == 0
    assert (chat.branches(), len(texts(chat))) == ([], 6)
    chat.branch("three", 2).append("user", "more")

    receipt = db.scope("ann").forget(session="talk", prove=db.path != ":memory:")
    assert (receipt.removed["sessions"], receipt.removed["branches"]) == (1, 1)
    assert receipt.removed["messages"] == 7
    assert db.scope("ann").sessions() == []
    assert db.file.info().counts["messages"] == 0
    assert db.file.check(deep=True) == []


def test_a_forgotten_branch_leaves_no_byte(file_db: MemDB) -> None:
    """Its own words are gone; those that it shared stay."""
    chat = fill(file_db)
    other = chat.branch("zebrafish", 2)
    other.append("user", "The password is quagga.")

    receipt = other.forget(prove=True)

    assert receipt.proven
    assert receipt.removed["messages"] == 1
    assert len(texts(chat)) == 6


def test_everything_of_a_scope_goes_with_its_branches(db: MemDB) -> None:
    """Also where the branches alone are many."""
    chat = fill(db)
    chat.branch("one", 1).branch("two", 1)

    receipt = db.scope("ann").forget(everything=True)

    assert (receipt.removed["sessions"], receipt.removed["branches"]) == (1, 2)
    assert db.file.check(deep=True) == []


FEW = Settings(summary_messages=2, summary_condense_at=3, summary_group=2)


def test_summaries_of_what_is_shared_are_made_once() -> None:
    """A branch has those of its session up to where it leaves, and its own after that."""
    with memdb.open(":memory:", settings=FEW) as db:
        chat = fill(db, 12)
        chat.summaries.compact(keep_last=None)
        before = {one.id: one for one in chat.summaries.tree().summaries}
        other = chat.branch("other", 7)
        other.extend([{"role": "user", "text": f"n{number}"} for number in range(8, 15)])

        other.summaries.compact(keep_last=None)

        tree = other.summaries.tree().summaries
        shared = [one for one in tree if one.id in before]
        own = [one for one in tree if one.id not in before]
        assert {one.last_seq for one in shared} == {2, 4, 6}
        assert {one.branch for one in own} == {"other"}
        assert min(one.first_seq for one in own) == 7
        assert not any("m8" in str(one.text) for one in tree)
        roots = [one for one in tree if one.condensed_into is None]
        assert sum(one.message_count for one in roots) == 14
        assert {one.id for one in chat.summaries.tree().summaries} == set(before)
        shown = " ".join(one.text for one in other.context(150).messages)
        assert "n14" in shown
        assert "m8" not in shown
        assert db.file.check(deep=True) == []


def test_a_summary_of_what_is_shared_changes_for_all() -> None:
    """Editing a shared message makes the summaries of its branches anew."""
    with memdb.open(":memory:", settings=FEW) as db:
        chat = fill(db, 8)
        other = chat.branch("other", 5)
        other.extend([{"role": "user", "text": f"n{number}"} for number in range(6, 12)])
        other.summaries.compact(keep_last=None)
        first = other.summaries.tree().summaries[-1]
        other.summaries.rewrite("1-2", "A host wrote this.")
        assert any("A host" in str(one.text) for one in chat.summaries.tree().summaries)

        other.edit(5, {"role": "user", "text": "We drink tea."})

        assert chat.get(5).text == "We drink tea."
        other.summaries.compact(keep_last=None)
        held = [str(one.text) for one in other.summaries.tree().summaries]
        assert any("tea" in one for one in held)
        assert not any("m5" in one for one in held)
        assert Host(other).erase(5)
        assert chat.get(5).text == ""
        assert first.session == "talk"
        assert db.file.check(deep=True) == []


def test_archiving_keeps_the_newest_of_the_path(db: MemDB) -> None:
    """Shared messages are archived where they are stored, and read from there."""
    chat = fill(db)
    other = chat.branch("other", 4)
    other.extend([{"role": "user", "text": f"n{number}"} for number in range(5, 9)])

    done = other.archive(keep_last=3)

    assert done.messages == 5
    assert [(one.first_seq, one.last_seq) for one in Host(other).segments()] == [(1, 4), (5, 5)]
    assert texts(other) == ["m1", "m2", "m3", "m4", "n5", "n6", "n7", "n8"]
    assert texts(chat) == [f"m{number}" for number in range(1, 7)]
    assert other.unarchive().messages == 5
    assert Host(other).segments() == ()
    assert db.file.check(deep=True) == []


def test_tool_calls_are_kept_together_across_the_fork(db: MemDB) -> None:
    """A window never begins between a call that is shared and its own result."""
    chat = fill(db, 3)
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}
    chat.extend([{"role": "assistant", "parts": [call]}])
    other = chat.branch("other")
    for head, text in ((chat, "here"), (other, "there")):
        result = {"type": "tool_result", "tool_call_id": "c1", "content": text}
        head.extend([{"role": "tool", "parts": [result]}, {"role": "user", "text": "thanks"}])

    window = other.context(300)

    assert [one.role for one in window.messages][-3:] == ["assistant", "tool", "user"]
    assert "there" in str(window.messages)
    assert '"here"' not in str(window.messages).replace("'", '"')


def test_secrets_of_branches_are_found_once(db: MemDB) -> None:
    """Those of shared messages with the session, the others with their branch."""
    key = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3
    chat = fill(db, 1)
    chat.append("user", f"The key is {key}")
    chat.branch("other").append("user", f"Another is {key[:-1]}x")

    where = [one.where for one in db.scope("ann").find_secrets()]

    assert where == ["message talk#2", "message talk (other)#3"]


def test_a_fork_of_a_branch_is_a_session(db: MemDB) -> None:
    """It copies the whole path, and shares nothing."""
    chat = fill(db)
    other = chat.branch("other", 2)
    other.append("user", "new")

    copy = other.fork("copy")

    assert (texts(copy), copy.branch_name) == (["m1", "m2", "new"], None)
    other.delete([1])
    assert texts(copy) == ["m1", "m2", "new"]
    assert [info.name for info in db.scope("ann").sessions()] == ["copy", "talk"]


def test_using_a_branch_uses_its_session() -> None:
    """So retention does not take a session away whose branch is in use."""
    times = iter(range(1_000_000, 9_000_000, 1_000))
    with memdb.open(":memory:", clock=lambda: next(times)) as db:
        chat = fill(db)
        other = chat.branch("other", 2)
        before = db.scope("ann").sessions()[0].updated_ms
        other.append("user", "new")

        assert db.scope("ann").sessions()[0].updated_ms > before


def test_branches_come_back_from_an_export(db: MemDB, tmp_path: Path) -> None:
    """With names, places, uids and seqs; again nothing is added; deleted ones come back."""
    chat = fill(db)
    one = chat.branch("one", 4)
    one.append("user", "new", external_id="e1")
    one.branch("two").append("user", "newer")
    chat.pop()  # nobody shares it
    db.scope("ann").remember("Ann said new.", session="talk", seq=3)
    path = tmp_path / "a.jsonl"
    db.export(path, user="ann")

    with memdb.open(str(tmp_path / "b.db")) as other:
        other.import_file(path)
        again = other.import_file(path)
        assert (again.messages_added, again.sessions) == (0, 0)
        other.export(tmp_path / "b.jsonl", user="ann")
        assert (tmp_path / "b.jsonl").read_bytes() == path.read_bytes()
        copy = other.scope("ann").session("talk")
        assert copy.branches() == chat.branches()
        assert texts(copy.branch("two")) == ["m1", "m2", "m3", "m4", "new", "newer"]
        copy.branch("two").delete()
        other.import_file(path)
        assert texts(copy.branch("two")) == ["m1", "m2", "m3", "m4", "new", "newer"]
        copy.branch("two").forget()
        other.import_file(path)
        assert [info.name for info in copy.branches()] == ["one"]
        assert other.file.check(deep=True) == []


def test_an_export_into_a_session_with_other_messages(db: MemDB, tmp_path: Path) -> None:
    """Messages move to the end, and a branch leaves after what it shared."""
    chat = fill(db)
    chat.branch("one", 4).append("user", "new")
    path = tmp_path / "a.jsonl"
    db.export(path, user="ann")

    with memdb.open(str(tmp_path / "b.db")) as other:
        copy = other.scope("ann").session("talk")
        copy.append("user", "was here")
        other.import_file(path)
        assert texts(copy.branch("one")) == ["was here", "m1", "m2", "m3", "m4", "new"]
        assert other.file.check(deep=True) == []


def test_branches_awaited(tmp_path: Path) -> None:
    """`memdb.aio` has the same calls."""
    asyncio.run(talk(str(tmp_path / "a.db")))


async def talk(path: str) -> None:
    """Make a branch and read it."""
    async with aio.open(path) as db:
        chat = db.scope("ann").session("talk")
        await chat.append("user", "m1")
        await chat.append("user", "m2")
        other = await chat.branch("other", 1)
        await other.append("user", "new")
        assert [one.text for one in await other.messages()] == ["m1", "new"]
        assert [one.name for one in await chat.branches()] == ["other"]
        assert other.branch_name == "other"
        parent = await other.parent()
        assert parent is not None
        assert parent.branch_name is None
        assert await chat.parent() is None
