"""Bad inputs are said with the file, the record, and what was stored so far."""

from __future__ import annotations

import json
import os
import sqlite3
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from import_samples import chatgpt, claude

import memdb

if TYPE_CHECKING:
    from pathlib import Path

    from memdb import MemDB

TALKS = [chatgpt(f"word{number}") for number in range(40)]


def zipped(path: Path, **members: bytes) -> Path:
    """Write an archive; "_" in a name stands for "."."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return path


def cut(folder: Path) -> Path:
    """Return an archive without its end."""
    path = zipped(folder / "export.zip", conversations_json=json.dumps(TALKS).encode())
    path.write_bytes(path.read_bytes()[:-200])
    return path


def of_another_program(folder: Path) -> Path:
    """Return a document of Word."""
    return zipped(folder / "letter.docx", document_xml=b"<x/>")


def of_a_newer_export(folder: Path) -> Path:
    """Return an export of a memdb of the future."""
    path = folder / "future.jsonl"
    path.write_text('{"kind": "memdb", "export": 99}\n')
    return path


def of_a_newer_chatgpt(folder: Path) -> Path:
    """Return conversations whose mapping is another thing."""
    path = folder / "conversations.json"
    path.write_text(json.dumps([{"id": "a", "mapping": [1, 2], "schema": 9}]))
    return path


def in_latin(folder: Path) -> Path:
    """Return notes in another encoding."""
    path = folder / "note.md"
    path.write_bytes("Pack.\nCafé".encode("latin-1"))
    return path


def with_damaged_bytes(folder: Path) -> Path:
    """Return an archive with a member whose bytes changed behind its first half."""
    path = zipped(folder / "export.zip", conversations_json=json.dumps(TALKS).encode())
    data = bytearray(path.read_bytes())
    place = data.index(b"word30")
    data[place : place + 6] = b"xxxxxx"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (cut, r"export\.zip is a damaged or locked archive"),
        (of_another_program, r"letter\.docx \(it holds document\.xml\): this is not a format"),
        (of_a_newer_export, r"line 1: export format 99 is newer than 1: .*correct future\.jsonl"),
        (
            of_a_newer_chatgpt,
            r"conversation 1: this is not a ChatGPT conversation.*correct conversations\.json",
        ),
        (in_latin, r"note\.md: it is not UTF-8 \(.* in line 2\).*Nothing is stored"),
    ],
)
def test_what_is_said_of_a_file(make, error: str, db: MemDB, tmp_path: Path) -> None:
    """Which file, where in it, and that nothing is stored; nothing is."""
    with pytest.raises(memdb.MemDBError, match=error):
        db.import_file(make(tmp_path), user="ann")

    assert db.scopes() == []


GBK = json.dumps([chatgpt("你好")], ensure_ascii=False).encode("gb18030")
DEEP = b"[" + b"[" * 100_000 + b"]" * 100_000 + b"]"


@pytest.mark.parametrize("is_zipped", [True, False], ids=["zip", "file"])
@pytest.mark.parametrize(
    ("data", "error"), [(GBK, "not UTF-8 .* element 1"), (DEEP, "nested too deeply")]
)
def test_why_nothing_can_be_read(
    data: bytes, error: str, is_zipped: bool, db: MemDB, tmp_path: Path
) -> None:
    """The file, what is wrong with it, and that nothing is stored; no list of all formats."""
    path = tmp_path / "conversations.json"
    path.write_bytes(data)
    if is_zipped:
        path = zipped(tmp_path / "export.zip", conversations_json=data, user_json=b"{}")
    with pytest.raises(memdb.InvalidInput, match=f"conversations.json: .*{error}") as raised:
        db.import_file(path, user="ann")

    assert str(raised.value).endswith("Nothing is stored")
    assert "locomo" not in str(raised.value)


def test_a_shard_that_cannot_be_opened(db: MemDB, tmp_path: Path) -> None:
    """The others are imported, and the report names it; so a second import is not refused."""
    shards = {f"conversations-00{n}_json": json.dumps(TALKS[n : n + 1]).encode() for n in (0, 1)}
    path = zipped(tmp_path / "export.zip", **shards)
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1  # locked with a password
    path.write_bytes(data)
    reports = [db.import_file(path, user="ann") for _ in range(2)]

    assert [report.sessions for report in reports] == [1, 0]
    assert "password" in reports[0].left_out[-1].why
    assert [report.is_complete for report in reports] == [False, False]


def test_an_archive_whose_names_lead_out_of_it(db: MemDB, tmp_path: Path) -> None:
    """If there is nothing else, the error says so, and not only that there are no files."""
    with zipfile.ZipFile(tmp_path / "given.zip", "w") as archive:
        archive.writestr("../conversations.json", "[]")
    with pytest.raises(memdb.InvalidInput, match="lead out of the archive"):
        db.import_file(tmp_path / "given.zip", user="ann")


def test_a_folder_that_cannot_be_read(db: MemDB, tmp_path: Path, monkeypatch: Any) -> None:
    """What can be read is imported, and the report names the folder."""
    (tmp_path / "in" / "closed").mkdir(parents=True)
    (tmp_path / "in" / "note.md").write_text("Buy milk.")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    report = db.import_file(tmp_path / "in", user="ann")

    assert (report.artifacts_added, report.is_complete) == (1, False)
    assert [(one.what, one.is_place) for one in report.left_out] == [("closed", True)]


def test_a_folder_with_archives(db: MemDB, tmp_path: Path) -> None:
    """They are said to hold what is not looked at, also if nothing else is there."""
    (tmp_path / "in").mkdir()
    zipped(tmp_path / "in" / "a.zip", conversations_json=json.dumps(TALKS[:1]).encode())
    with pytest.raises(memdb.InvalidInput, match=r"holds archives \(a.zip\): import each"):
        db.import_file(tmp_path / "in", user="ann")
    (tmp_path / "in" / "note.txt").write_text("Buy milk.")
    report = db.import_file(tmp_path / "in", user="ann")

    assert report.artifacts_added == 1
    assert "import each by itself: a.zip" in report.left_out[0].why


def test_an_archive_in_an_archive(db: MemDB, tmp_path: Path) -> None:
    """The error says what to do."""
    inner = zipped(tmp_path / "in.zip", conversations_json=json.dumps(TALKS[:1]).encode())
    with pytest.raises(memdb.InvalidInput, match=r"holds archives \(in.zip\): unpack it"):
        db.import_file(zipped(tmp_path / "out.zip", in_zip=inner.read_bytes()), user="ann")


def test_takeout_as_html(db: MemDB, tmp_path: Path) -> None:
    """What Takeout gives unless JSON is chosen is said by its name."""
    path = tmp_path / "takeout.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Takeout/Meine Aktivitäten/Gemini-Apps/MeineAktivitäten.html", "<p>")
    with pytest.raises(memdb.InvalidInput, match="choose JSON for My Activity"):
        db.import_file(path, user="ann")


def test_takeout_in_another_language(db: MemDB, tmp_path: Path) -> None:
    """The shape is the same; attached files are counted."""
    activity = {
        "header": "Gemini-Apps",
        "title": "Gegebener Prompt: Wie hoch?",
        "time": "2025-03-01T10:00:00Z",
        "safeHtmlItem": [{"html": "<p>1141 m</p>"}],
        "subtitles": [{"name": "2 Dateien angehängt."}],
        "imageFile": "a.png",
    }
    (tmp_path / "a.json").write_text(json.dumps([activity]))
    report = db.import_file(tmp_path / "a.json", user="ann")

    assert (report.format, report.messages_added) == ("gemini", 2)
    assert [(one.what, one.count) for one in report.left_out] == [("attached files", 2)]


def test_an_account_without_conversations(db: MemDB, tmp_path: Path) -> None:
    """An empty export imports nothing; an empty file alone is called so."""
    path = zipped(tmp_path / "a.zip", conversations_json=b"[]", user_json=b'{"id": 1}')
    report = db.import_file(path, user="ann")

    assert (report.format, report.sessions) == ("chatgpt", 0)
    for text in ("[]", "{}"):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(memdb.InvalidInput, match=r"a\.json is an empty list or object"):
            db.import_file(tmp_path / "a.json", user="ann")


def test_the_wrong_format_by_name(db: MemDB, tmp_path: Path) -> None:
    """The error says which it is."""
    data = json.dumps(TALKS[:1]).encode()
    path = zipped(tmp_path / "a.zip", conversations_json=data, chat_html=b"<p>")
    with pytest.raises(
        memdb.InvalidInput, match="contains no claude file: it is an export of ChatGPT"
    ):
        db.import_file(path, user="ann", format="claude")


def test_memories_of_several_people(db: MemDB, tmp_path: Path) -> None:
    """Of a file with those of the user only these are taken; else the report says whose they are."""
    one = {"memory": "Ann skis.", "created_at": "2025-03-01T10:00:00Z"}
    given = [{"id": "1", "user_id": "ann", **one}, {"id": "2", "user_id": "bo", **one}, one]
    given[1]["memory"] = "Bo is tall."
    given[2] = {**one, "id": "3", "memory": "Snow fell."}
    (tmp_path / "a.json").write_text(json.dumps(given))
    reports = {user: db.import_file(tmp_path / "a.json", user=user) for user in ("ann", "zoe")}

    assert {entry.text for entry in db.scope("ann").entries.list()} == {"Ann skis.", "Snow fell."}
    assert [one.what for one in reports["ann"].left_out] == ["memories of 'bo'"]
    assert reports["zoe"].entries_added == 3
    assert "memories of 2 users ('ann', 'bo')" in reports["zoe"].notes[0]


def test_memories_of_several_people_without_a_user(db: MemDB, tmp_path: Path) -> None:
    """Each goes to the user that it names; what names none, or no user, is left out."""
    users = ["ann", "bo", "ann", None, "\0", "bo", "x" * 5_000]
    given = [
        {"id": str(n), "memory": f"Fact {n} of {user!r:.8}.", **({"user_id": user} if user else {})}
        for n, user in enumerate(users)
    ]
    (tmp_path / "a.json").write_text(json.dumps({"results": given}))
    trial = db.import_file(tmp_path / "a.json", dry_run=True)
    first, again = (db.import_file(tmp_path / "a.json") for _ in range(2))
    texts = {
        one.user: {entry.text for entry in db.scope(one.user).entries.list()} for one in db.scopes()
    }

    assert texts == {
        "ann": {"Fact 0 of 'ann'.", "Fact 2 of 'ann'."},
        "bo": {"Fact 1 of 'bo'.", "Fact 5 of 'bo'."},
    }
    assert (trial.entries_added, first.entries_added, again.entries_added) == (4, 4, 0)
    why = [one.why for one in first.left_out if one.is_place]
    assert "there is no user for this memory: give a user" in why[0]
    assert any("NUL" in one for one in why)


def test_the_name_of_a_conversation_of_llm(db: MemDB, tmp_path: Path) -> None:
    """It is the title of the session."""
    with sqlite3.connect(tmp_path / "logs.db") as log:
        log.executescript(
            "CREATE TABLE conversations (id TEXT, name TEXT, model TEXT);"
            "CREATE TABLE responses (id TEXT, prompt TEXT, response TEXT, system TEXT, model TEXT,"
            " conversation_id TEXT, datetime_utc TEXT);"
            "INSERT INTO conversations VALUES ('c', 'Fun facts', 'm');"
            "INSERT INTO responses VALUES ('r', 'Hi', 'Ho', NULL, 'm', 'c', '2025-03-01T10:00:00');"
            "INSERT INTO responses VALUES ('s', 'Ha', 'Hu', NULL, 'm', 'c', '2025-03-01T11:00:00');"
        )
    log.close()
    reports = [db.import_file(tmp_path / "logs.db", user="ann") for _ in range(2)]
    (info,) = db.scope("ann").sessions()

    assert info.title == "Fun facts"
    assert [one.messages_added for one in reports] == [4, 0]


def test_damaged_bytes_of_an_archive(db: MemDB, tmp_path: Path) -> None:
    """What stands before the damage may be stored, and the error says whether it is."""
    with pytest.raises(memdb.FileError, match=r"export\.zip/conversations\.json cannot be read"):
        db.import_file(with_damaged_bytes(tmp_path), user="ann")

    assert all(one.name.startswith("c-word") for one in db.scope("ann").sessions())


def test_exports_of_two_programs_in_one_folder(db: MemDB, tmp_path: Path) -> None:
    """The first format is imported, the other files are said."""
    (tmp_path / "chatgpt").mkdir()
    (tmp_path / "claude").mkdir()
    (tmp_path / "chatgpt" / "conversations.json").write_text(json.dumps(TALKS[:2]))
    (tmp_path / "claude" / "conversations.json").write_text(json.dumps([claude("tent")]))
    report = db.import_file(tmp_path, user="ann")

    assert (report.format, report.sessions) == ("chatgpt", 2)
    assert (
        "they are of another kind (an export of Claude): import each by itself: "
        "claude/conversations.json"
    ) in [one.why for one in report.left_out]
