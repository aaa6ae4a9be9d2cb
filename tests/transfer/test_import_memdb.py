"""Importing an export: again, half done, into another scope, and into what is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from row_digests import renew_digests

import memdb
from memdb.transfer import importer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB

    Lines = Callable[..., str]
    Told = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def export(file_db: MemDB, tmp_path: Path) -> str:
    """Return the path of an export of Ann's memory."""
    ann = file_db.scope("ann")
    chat = ann.session("chat")
    chat.extend([{"role": "user", "text": f"message {number}"} for number in range(1, 8)])
    first = ann.remember("Ann lives in Oslo.", key="home", session="chat", seq=2).entry
    ann.entries.update(first.id, text="Ann lives in Bergen.")
    second = ann.remember("Ann swims.").entry
    with file_db._db.write() as tx:
        tx.run(
            "UPDATE entries SET superseded_by = :new WHERE id = :old",
            {"new": 1 << 44 | second.id, "old": 1 << 44 | first.id},
        )
        renew_digests(tx, "entries")
    chat.artifacts.save("menu.md", "soup", message_seq=3)
    chat.artifacts.save("menu.md", "fish")
    ann.artifacts.save("user:notes", "a", created=5)
    file_db.jobs.run()
    path = str(tmp_path / "ann.jsonl")
    file_db.export(path, user="ann")
    return path


def test_the_report_counts_what_was_added(export: str, open_db: Callable[..., MemDB]) -> None:
    """Each kind is counted, and the format named."""
    report = open_db(":memory:").import_file(export)

    assert report.to_dict() == {
        "format": "memdb",
        "sessions": 1,
        "branches": 0,
        "notes": [],
        "messages_added": 7,
        "messages_known": 0,
        "summaries_added": 0,
        "entries_added": 2,
        "entries_known": 0,
        "artifacts_added": 3,
        "artifacts_known": 0,
        "items_added": 0,
        "items_known": 0,
        "embeddings_added": 9,
        "state_added": 0,
        "settings_added": 0,
        "forgotten": 0,
        "left_out": [],
        "dry_run": False,
        "samples": [],
    }
    assert str(report) == (
        "Imported 7 messages in 1 new session, 2 entries, 3 artifact versions (memdb)."
    )


def test_importing_twice_adds_nothing(
    export: str, open_db: Callable[..., MemDB], dump: Callable[[str], Any], tmp_path: Path
) -> None:
    """The second import leaves every row as it is."""
    path = str(tmp_path / "copy.db")
    copy = open_db(path)
    copy.import_file(export)
    before = dump(path)
    report = copy.import_file(export)

    assert (report.messages_added, report.messages_known) == (0, 7)
    assert (report.entries_known, report.artifacts_known, report.embeddings_added) == (2, 3, 0)
    assert dump(path) == before


@pytest.mark.parametrize("kept", range(1, 25))
def test_an_import_that_was_cut_off_is_completed(
    kept: int, export: str, open_db: Callable[..., MemDB], lines: Lines, tmp_path: Path
) -> None:
    """After any number of lines, importing the whole file gives the whole memory."""
    whole = (tmp_path / "ann.jsonl").read_text()
    copy = open_db(str(tmp_path / "copy.db"))
    copy.import_file(lines(*whole.split("\n")[:kept], name="part.jsonl"))
    copy.import_file(export)
    copy.export(tmp_path / "again.jsonl", user="ann")

    assert (tmp_path / "again.jsonl").read_text() == whole
    assert copy.file.check() == []


def test_a_killed_import_is_completed(
    export: str, open_db: Callable[..., MemDB], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that were stored stay, the rest comes with the next run."""
    monkeypatch.setattr(importer, "CHUNK_ITEMS", 4)
    copy = open_db(str(tmp_path / "copy.db"))
    steps: list[int] = []

    def stop(done: int, _total: int) -> None:
        steps.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy.import_file(export, progress=stop)
    assert copy.scope("ann").session("chat").last_seq == 7
    assert len(list(copy.scope("ann").session("chat").messages())) == 3
    copy.import_file(export)
    copy.export(tmp_path / "again.jsonl", user="ann")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "ann.jsonl").read_text()


def test_a_message_said_between_two_runs_stands_behind(
    export: str, open_db: Callable[..., MemDB], lines: Lines, told: Told, tmp_path: Path
) -> None:
    """The seqs of the export are kept free for it."""
    copy = open_db(":memory:")
    part = (tmp_path / "ann.jsonl").read_text().split("\n")[:5]
    copy.import_file(lines(*part, name="part.jsonl"))
    copy.jobs.run()
    copy.scope("ann").session("chat").append("user", "in between")
    copy.jobs.run()
    copy.import_file(export)

    assert told(copy, "chat", "seq", "text") == [
        (1, "message 1"),
        (2, "message 2"),
        (3, "message 3"),
        (4, "message 4"),
        (5, "message 5"),
        (6, "message 6"),
        (7, "message 7"),
        (8, "in between"),
    ]
    assert copy.jobs.pending() == 0


def test_messages_without_vectors_are_embedded_later(
    export: str, open_db: Callable[..., MemDB], lines: Lines, tmp_path: Path
) -> None:
    """Only what the export has no vector for stays due."""
    some = (tmp_path / "ann.jsonl").read_text().split("\n")
    without = [line for line in some if '"seq":4,"vector"' not in line]
    copy = open_db(":memory:")
    copy.import_file(lines(*without, name="some.jsonl"))

    assert copy.jobs.pending() == 1
    assert copy.jobs.run() == 4
    assert copy.file.info().spaces[0].vectors == 9


def test_another_user_can_be_given(export: str, open_db: Callable[..., MemDB], told: Told) -> None:
    """With a user everything becomes that user's, under an identity of its own."""
    copy = open_db(":memory:")
    copy.import_file(export, user="bob")
    copy.import_file(export, user="bob")

    assert [scope.user for scope in copy.scopes()] == ["bob"]
    assert len(told(copy, "chat", "seq", user="bob")) == 7
    assert len(list(copy.scope("bob").entries.list(inactive=True))) == 2


def test_a_session_of_the_same_name_is_continued(
    export: str, open_db: Callable[..., MemDB], told: Told
) -> None:
    """Messages of another session go to its end, and what refers to them follows."""
    copy = open_db(":memory:")
    chat = copy.scope("ann").session("chat")
    chat.append("user", "mine")
    chat.append("user", "mine too")
    copy.import_file(export)
    report = copy.import_file(export)

    assert (report.messages_added, report.messages_known) == (0, 7)
    assert told(copy, "chat", "seq", "text")[1:4] == [
        (2, "mine too"),
        (3, "message 1"),
        (4, "message 2"),
    ]
    assert chat.artifacts.versions("menu.md")[1].message_seq == 5
    assert copy.scope("ann").entries.find("home").first_seq == 4
    assert copy.jobs.run() == 9
    assert copy.file.check(deep=True) == []


def test_two_copies_that_went_apart_are_joined(
    export: str, file_db: MemDB, open_db: Callable[..., MemDB], told: Told, tmp_path: Path
) -> None:
    """Each message is there once, in the order of either copy."""
    copy = open_db(":memory:")
    copy.import_file(export)
    copy.scope("ann").session("chat").append("user", "said there")
    file_db.scope("ann").session("chat").append("user", "said here")
    file_db.scope("ann").session("chat").append("user", "said here too")
    file_db.export(tmp_path / "later.jsonl", user="ann")
    copy.import_file(tmp_path / "later.jsonl")
    report = copy.import_file(tmp_path / "later.jsonl")

    assert report.messages_added == 0
    assert [text for (text,) in told(copy, "chat", "text")][7:] == [
        "said there",
        "said here",
        "said here too",
    ]
    assert copy.file.check() == []


def test_an_entry_whose_key_is_taken(
    export: str, open_db: Callable[..., MemDB], clock: Any
) -> None:
    """The entry that is here keeps its key; it takes what a newer one says."""
    copy = open_db(":memory:")
    ann = copy.scope("ann")
    ann.remember("Ann lives in Rome.", key="home", created=1)
    with copy._db.write() as tx:
        tx.run("UPDATE entries SET updated_ms = 1")
        renew_digests(tx, "entries")
    copy.import_file(export)
    found = ann.entries.find("home")
    copy.import_file(export)

    assert found.text == "Ann lives in Bergen."
    assert [old.text for old in ann.entries.history(found.id)] == ["Ann lives in Rome."]
    assert [entry.active for entry in ann.entries.list(inactive=True)] == [True, False, True]
    assert ann.entries.find("home").version == 2


def test_what_was_deleted_comes_back(export: str, open_db: Callable[..., MemDB]) -> None:
    """An import brings back what its file holds, also after it was deleted here."""
    copy = open_db(":memory:")
    copy.import_file(export)
    ann = copy.scope("ann")
    ann.session("chat").delete()
    ann.entries.delete(ann.entries.find("home").id)
    copy.import_file(export)
    ann.session("chat").delete()
    copy.import_file(export)

    assert ann.session("chat").last_seq == 7
    assert ann.session("chat").artifacts.load("menu.md").text == "fish"
    assert ann.entries.find("home").text == "Ann lives in Bergen."


def test_a_deleted_version_with_newer_ones_stays_deleted(
    export: str, open_db: Callable[..., MemDB]
) -> None:
    """Its number is used up, and as the next version it would be the newest."""
    copy = open_db(":memory:")
    copy.import_file(export)
    files = copy.scope("ann").session("chat").artifacts
    files.delete("menu.md", 1)
    copy.import_file(export)

    assert [one.version for one in files.versions("menu.md")] == [2]


def test_a_name_with_other_bytes_goes_on(export: str, open_db: Callable[..., MemDB]) -> None:
    """A version number that stands for other bytes here is not taken."""
    copy = open_db(":memory:")
    files = copy.scope("ann").session("chat").artifacts
    files.save("menu.md", "mine")
    copy.import_file(export)
    copy.import_file(export)

    assert [files.load("menu.md", number).text for number in (1, 2, 3)] == ["mine", "soup", "fish"]
    assert len(files.versions("menu.md")) == 3


def test_tombstones_of_what_is_here_are_left_out(
    export: str, file_db: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """An import removes nothing, so it does not claim so either."""
    copy = open_db(":memory:")
    copy.import_file(export)
    ann = file_db.scope("ann")
    ann.entries.delete(ann.entries.find("home").id)
    file_db.export(tmp_path / "later.jsonl", user="ann")
    copy.import_file(tmp_path / "later.jsonl")

    assert copy.scope("ann").entries.find("home") is not None
    assert not any("tombstone" in line for line in copy.export_lines())


def test_exports_can_be_joined(
    export: str, file_db: MemDB, open_db: Callable[..., MemDB], lines: Lines, tmp_path: Path
) -> None:
    """One file after the other is a file too."""
    file_db.scope("bob").session("chat").append("user", "I am Bob.")
    file_db.export(tmp_path / "bob.jsonl", user="bob")
    both = (tmp_path / "ann.jsonl").read_text() + (tmp_path / "bob.jsonl").read_text()
    copy = open_db(":memory:")
    copy.import_file(lines(both, name="both.jsonl"))

    assert [scope.user for scope in copy.scopes()] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        pytest.param("scope", {"uid": None}, "uid is missing", id="scope without uid"),
        pytest.param("session", {"last_seq": -1}, "last_seq is -1", id="last_seq"),
        pytest.param("message", {"seq": 99}, "its session ends at 7", id="seq behind the end"),
        pytest.param("message", {"session": "x"}, "no earlier line defines", id="unknown session"),
        pytest.param("message", {"role": "bird"}, "role is 'bird'", id="role"),
        pytest.param("message", {"tokens": "3"}, "tokens is '3'", id="tokens"),
        pytest.param("message", {"colour": 1}, "no field 'colour'", id="unknown field"),
        pytest.param("entry", {"active": 1}, "give true or false", id="active"),
        pytest.param("entry", {"history": [3]}, "history is not a list", id="history"),
        pytest.param("entry", {"first_seq": None}, "belong together", id="half a span"),
        pytest.param(
            *("entry", {"session": None, "session_only": True}, "session_only is given without"),
            id="session_only",
        ),
        pytest.param("artifact", {"version": 0}, "version is 0", id="version"),
        pytest.param("artifact", {"data": "YQ=="}, "needs text or data", id="two contents"),
        pytest.param("artifact", {"text": None}, "text is NoneType", id="no content"),
        pytest.param("embedding", {"vector": "?"}, "vector is not base64", id="base64"),
        pytest.param("embedding", {"dim": 3}, "vector has 16 dimensions", id="dimension"),
        pytest.param("embedding", {"of": "node"}, "of is 'node'", id="of"),
    ],
)
def test_a_line_that_cannot_be_stored(
    kind: str,
    changes: dict[str, Any],
    error: str,
    export: str,
    open_db: Callable[..., MemDB],
    lines: Lines,
    tmp_path: Path,
) -> None:
    """The error names its line; what stands before it is stored."""
    whole = [json.loads(line) for line in (tmp_path / "ann.jsonl").read_text().split("\n")[:-1]]
    number = next(place for place, line in enumerate(whole, start=1) if line["kind"] == kind)
    whole[number - 1] |= changes
    copy = open_db(":memory:")

    with pytest.raises(memdb.InvalidInput, match=f"^line {number}: .*{error}"):
        copy.import_file(lines(*whole, name="bad.jsonl"))
    kept = [json.loads(line)["kind"] for line in copy.export_lines()]
    assert len([one for one in kept if one != "tombstone"]) == number - 1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param({"kind": "memdb", "export": 2}, "newer than 1: upgrade", id="newer"),
        pytest.param({"kind": "dream"}, "kind is 'dream': use one of", id="kind"),
        pytest.param({"kind": 3}, "kind is 3", id="no word"),
        pytest.param({"kind": "state", "key": "k"}, "value is missing", id="state"),
        pytest.param(
            {"kind": "state", "user": "x", "key": "k", "value": 1}, "user is given", id="u"
        ),
        pytest.param({"kind": "tombstone", "uid": "1", "of": "node"}, "of is 'node'", id="grave"),
        pytest.param({"kind": "artifact_name", "name": "user:"}, "'user:' alone", id="name"),
    ],
)
def test_other_lines_that_cannot_be_stored(
    line: dict[str, Any], error: str, db: MemDB, lines: Lines
) -> None:
    """The error names the line."""
    with pytest.raises(memdb.InvalidInput, match=f"^line 2: .*{error}"):
        db.import_file(lines({"kind": "memdb", "export": 1}, line), user="ann")


def test_lines_of_nobody(db: MemDB, lines: Lines) -> None:
    """Without a scope line and without a user nobody's memory is meant."""
    path = lines({"kind": "memdb", "export": 1}, {"kind": "entry", "text": "Ann swims."})

    with pytest.raises(memdb.InvalidInput, match="line 2: there is no user"):
        db.import_file(path)
