"""The export: what its lines say, and that importing them gives the same memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from row_digests import renew_digests

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB

    Exported = Callable[..., list[str]]

DAY_MS = 86_400_000


@pytest.fixture
def full(file_db: MemDB, clock: Any) -> MemDB:
    """Return a file with something of everything that an export holds."""
    ann = file_db.scope("ann")
    trip = ann.session("trip")
    trip.append(
        "user", "We fly to Oslo.", author="Ann", external_id="m1", metadata={"a": [1.5, None]}
    )
    trip.append("assistant", parts=[{"type": "tool_call", "name": "book", "arguments": "{}"}])
    trip.append("user", "Zeile 1\nZeile 2 \u2028 日本語 \U0001f600")
    ann.session("other").append("user", "Something else.")
    old = ann.remember("Ann lives in Oslo.", key="home", category="profile", session="trip", seq=1)
    clock.advance(1000)
    ann.remember("Ann lives in Bergen.", key="home", category="profile", keywords=["home", "city"])
    ann.remember("Ann swims.", importance=9, expires=clock() + DAY_MS, metadata={"by": "me"})
    gone = ann.remember("Ann is tired.")
    ann.entries.delete(gone.entry.id)
    trip.artifacts.save("menu.md", "soup", message_seq=1)
    trip.artifacts.save("menu.md", "fish\r\n")
    trip.artifacts.save("menu.md", "cake")
    trip.artifacts.delete("menu.md", 2)
    ann.artifacts.save("photo.png", b"\x89PNG\x00\xff", metadata={"wide": True})
    trip.artifacts.save("user:notes.txt", "", message_seq=3)
    ann.session("other").artifacts.save("draft.md", "one")
    ann.session("other").artifacts.save("draft.md", "two")
    ann.session("other").artifacts.delete("draft.md")
    ann.session("left").append("user", "Forget this.")
    ann.session("left").delete()
    file_db.scope("bob").session("trip").append("user", "Mine is another.")
    file_db.scope("ann", app="desk").remember("Ann types fast.")
    file_db.jobs.run()
    with file_db._db.write() as tx:
        tx.run(
            "UPDATE entries SET use_count = 7, last_used_ms = 5, valid_to_ms = 6 WHERE uid = :uid",
            {"uid": old.entry.uid},
        )
        tx.run(
            "UPDATE entries SET active = 0, superseded_by = "
            "(SELECT id FROM entries WHERE uid = :uid) WHERE text = 'Ann swims.'",
            {"uid": old.entry.uid},
        )
        tx.many(
            "INSERT INTO state (app, user_name, session, key, value, updated_ms) "
            "VALUES ('default', :user, :session, :key, :value, 3)",
            [
                {"user": "ann", "session": "trip", "key": "k", "value": '{"b":[1,null]}'},
                {"user": "ann", "session": "", "key": "k", "value": "null"},
                {"user": "", "session": "", "key": "theme", "value": '"dark"'},
            ],
        )
        renew_digests(tx, "entries", "state")
    return file_db


def test_it_begins_with_its_format(full: MemDB, exported: Exported) -> None:
    """The first line says what the file is and in which version."""
    assert exported(full)[0] == '{"kind":"memdb","export":1}'


def test_a_whole_file_comes_back_byte_for_byte(
    full: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Everything of every scope survives export and import, and exports as before."""
    full.export(tmp_path / "one.jsonl")
    copy = open_db(":memory:")
    copy.import_file(tmp_path / "one.jsonl")
    copy.export(tmp_path / "two.jsonl")

    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert copy.file.check(deep=True) == []
    assert copy.jobs.pending() == 0


def test_shared_entries_come_back(
    file_db: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """The scope that all users of an app share is imported too, and app state written once."""
    file_db.shared().remember("Lunch is at noon.")
    file_db.scope("ann").remember("Ann swims.")
    file_db.shared().state["theme"] = "dark"
    written = file_db.export(tmp_path / "one.jsonl")
    copy = open_db(":memory:")
    copy.import_file(tmp_path / "one.jsonl")

    assert copy.export(tmp_path / "two.jsonl") == written
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert [entry.text for entry in copy.shared().entries.list()] == ["Lunch is at noon."]
    lines = (tmp_path / "one.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(json.loads(line)["kind"] == "state" for line in lines) == 1


def test_a_copy_recalls_what_the_file_recalls(
    full: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Index and vectors of the copy answer as those of the original."""
    full.export(tmp_path / "one.jsonl")
    copy = open_db(":memory:")
    copy.import_file(tmp_path / "one.jsonl")
    found = [(hit.kind, hit.text, hit.score) for hit in copy.scope("ann").recall("fly to Oslo")]

    assert found == [
        (hit.kind, hit.text, hit.score) for hit in full.scope("ann").recall("fly to Oslo")
    ]
    assert found[0][1] == "We fly to Oslo."


def test_seqs_with_gaps_keep_their_numbers(
    file_db: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Messages keep their seqs, and numbers given out before are not given out again."""
    chat = file_db.scope("ann").session("chat")
    chat.extend([{"role": "user", "text": str(number)} for number in range(5)])
    file_db.scope("ann").delete(session="chat", seqs=[2, 5])
    file_db.export(tmp_path / "one.jsonl", user="ann")
    copy = open_db(":memory:")
    copy.import_file(tmp_path / "one.jsonl")
    session = copy.scope("ann").session("chat")

    assert [message.seq for message in session.messages()] == [1, 3, 4]
    assert session.append("user", "next").seq == 6


def test_versions_with_gaps_keep_their_numbers(
    full: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Deleted versions leave a gap, and a name whose versions are all gone its counter."""
    full.export(tmp_path / "one.jsonl", user="ann")
    copy = open_db(":memory:")
    copy.import_file(tmp_path / "one.jsonl")
    ann = copy.scope("ann")

    assert [one.version for one in ann.session("trip").artifacts.versions("menu.md")] == [3, 1]
    assert ann.session("other").artifacts.save("draft.md", "three").version == 3


def test_a_scope_exports_only_itself(full: MemDB, exported: Exported) -> None:
    """Nothing of another scope is in the lines of one."""
    lines = exported(full, "bob")

    assert [json.loads(line)["kind"] for line in lines] == [
        "memdb",
        "scope",
        "session",
        "message",
        "embedding",
    ]


def test_what_an_app_keeps_for_itself_needs_all_its_scopes(full: MemDB, exported: Exported) -> None:
    """An app's own state goes with all its users' memory, not with one user's."""
    mark = '"key":"theme"'

    assert sum(mark in line for line in exported(full)) == 1
    assert sum(mark in line for line in exported(full, "ann")) == 0


def test_a_scope_that_was_never_written_to(db: MemDB, exported: Exported) -> None:
    """There is nothing to say about it but the format."""
    assert exported(db, "nobody") == ['{"kind":"memdb","export":1}']


def test_vectors_can_be_left_out(full: MemDB, tmp_path: Path) -> None:
    """Without embeddings the lines are fewer, and the copy embeds anew."""
    from memdb.transfer.export import export_file

    owners = full._owners("bob", "default")
    export_file(full._db, owners, tmp_path / "some.jsonl", embeddings=False)

    assert "embedding" not in (tmp_path / "some.jsonl").read_text()


def test_lines_are_plain_json_in_a_fixed_order(full: MemDB, exported: Exported) -> None:
    """A message's line has its fields in order, other scripts as they are, no blanks."""
    (line,) = [line for line in exported(full) if "Zeile" in line]

    assert line.startswith(
        '{"kind":"message","session":"trip","seq":3,"role":"user","text":"Zeile 1'
    )
    assert "日本語" in line


def test_an_existing_file_is_not_overwritten(full: MemDB, tmp_path: Path) -> None:
    """Only with `replace` is a file written over."""
    target = tmp_path / "there.jsonl"
    target.write_text("mine")

    with pytest.raises(memdb.AlreadyExists):
        full.export(target)
    assert target.read_text() == "mine"
    assert full.export(target, replace=True) == target.read_text().count("\n")


def test_a_folder_that_is_not_there(db: MemDB, tmp_path: Path) -> None:
    """The error names the path, and nothing is left behind."""
    with pytest.raises(memdb.FileError, match="cannot be written"):
        db.export(tmp_path / "none" / "a.jsonl")
    assert list(tmp_path.glob("*.partial")) == []


def test_progress_counts_lines(db: MemDB, tmp_path: Path) -> None:
    """It is called with the number of lines, every 1,000."""
    from memdb.transfer.export import export_file

    chat = db.scope("ann").session("chat")
    chat.extend([{"role": "user", "text": str(number)} for number in range(2500)])
    seen: list[int] = []
    export_file(db._db, db._owners("ann", "default"), tmp_path / "a.jsonl", progress=seen.append)

    assert seen == [1000, 2000]


def test_all_lines_tell_of_one_moment(file_db: MemDB) -> None:
    """What is written while the lines are read is not in them."""
    chat = file_db.scope("ann").session("chat")
    chat.append("user", "before")
    lines = file_db.export_lines(user="ann")
    first = next(lines)
    chat.append("user", "after")
    rest = [json.loads(line) for line in lines]

    assert first.startswith('{"kind":"memdb"')
    assert [line["text"] for line in rest if line["kind"] == "message"] == ["before"]


def test_archived_messages_and_summaries_come_back(
    file_db: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """An archive exports as what was said; summaries come with it."""
    chat = file_db.scope("ann").session("long")
    call = {"type": "tool_call", "id": "c1", "name": "book", "arguments": "{}"}
    chat.extend([{"role": "user", "text": f"Day {n}, 日本語, Oslo."} for n in range(1, 60)])
    chat.append("assistant", parts=[call], metadata={"a": 1})
    file_db.jobs.run()
    before = list(file_db.export_lines())
    chat.summaries.compact(keep_last=3)
    file_db.export(tmp_path / "one.jsonl")
    copy = open_db(str(tmp_path / "copy.db"))
    copy.import_file(tmp_path / "one.jsonl")
    copy.export(tmp_path / "two.jsonl")
    again = copy.scope("ann").session("long")

    assert chat.archive(3).messages == 0
    assert (tmp_path / "one.jsonl").read_text().splitlines() == before
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert len(again.summaries.tree().summaries) > 4
    assert copy.jobs.run() == 0
    assert again.summaries.tree().summaries == chat.summaries.tree().summaries
    assert copy.file.check(deep=True) == []


def test_importing_into_an_archived_session(
    file_db: MemDB, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """What is archived here is known, so importing an older export adds nothing."""
    chat = file_db.scope("ann").session("long")
    chat.extend(
        [{"role": "user", "text": f"Day {n}.", "external_id": f"d{n}"} for n in range(1, 40)]
    )
    file_db.export(tmp_path / "one.jsonl")
    chat.archive(0)
    report = file_db.import_file(tmp_path / "one.jsonl")

    assert (report.messages_added, report.messages_known) == (0, 39)
    assert file_db.file.info().archived_messages == 39
