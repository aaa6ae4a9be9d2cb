"""Bad inputs are said with the file, the record, and what was stored so far."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

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
        (of_another_program, r"letter\.docx \(it holds document\.xml\): this is no format"),
        (of_a_newer_export, r"line 1: export format 99 is newer than 1: .*mend future\.jsonl"),
        (of_a_newer_chatgpt, r"conversation 1: no ChatGPT conversation.*mend conversations\.json"),
        (in_latin, r"note\.md is not UTF-8 \(.* in line 2\).*Nothing is stored"),
    ],
)
def test_what_is_said_of_a_file(make, error: str, db: MemDB, tmp_path: Path) -> None:
    """Which file, where in it, and that nothing is stored; nothing is."""
    with pytest.raises(memdb.MemDBError, match=error):
        db.import_file(make(tmp_path), user="ann")

    assert db.scopes() == []


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
    assert report.left_out[-1].why.endswith("claude/conversations.json")
