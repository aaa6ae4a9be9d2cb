"""Finding out what a file is, and refusing what is nothing."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from import_samples import SAMPLES

import memdb
from memdb.formats.detect import NAMES, detect, load_format, may_claim
from memdb.formats.source import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB

TALK = {"speaker_a": "a", "speaker_b": "b"}


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        pytest.param('{"kind":"memdb","export":1}\n', "memdb", id="export"),
        pytest.param('\ufeff{"kind":"memdb","export":1}\n', "memdb", id="with a mark"),
        pytest.param('\n\n{"kind":"message"}\n{"x', "jsonl", id="blank lines first"),
        pytest.param('{"role":"user","content":"x"}', "jsonl", id="bare line"),
        pytest.param('{"role":"user","content":"' + "x" * 99_999 + '"}\n', "jsonl", id="long line"),
        pytest.param('[{"mapping":{}}]', "chatgpt", id="chatgpt"),
        pytest.param('  [\n {"chat_messages": []}, {"x', "claude", id="claude"),
        pytest.param(json.dumps(TALK, indent=2), "locomo", id="locomo"),
        pytest.param(json.dumps({"conversation": TALK}), "locomo", id="locomo sample"),
    ],
)
def test_formats(text: str, format_: str, tmp_path: Path) -> None:
    """Each format is known by its first object."""
    path = tmp_path / "given"
    path.write_text(text, encoding="utf-8")

    with Tree(path) as tree:
        assert detect(tree)[0].name == format_


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n ", "is empty", id="blank"),
        pytest.param(b"Dear diary", "line 1: this is not a format", id="prose"),
        pytest.param(b"{", "line 1 is not JSON", id="half an object"),
        pytest.param(b'{"a": 1}', "line 1: this is not a format", id="other object"),
        pytest.param(b"[]", "is an empty list", id="empty array"),
        pytest.param(b"[1, 2]", "element 1: this is not a format", id="numbers"),
        pytest.param(b'[{"mapping": {}, "id": "x"} 5]', "not followed by a comma", id="no comma"),
        pytest.param(b'[{"mapping": nothing}]', "element 1 is not JSON", id="no JSON"),
        pytest.param(b'[{"mapping": "\xff"}]', "not UTF-8", id="no UTF-8"),
        pytest.param(b'[{"mapping": {}, "id": "x"}', "cut off", id="cut off"),
        pytest.param(b'[{"mapping": {}, "id": "x"}, ', "cut off", id="cut after a comma"),
    ],
)
def test_files_that_are_nothing(data: bytes, error: str, db: MemDB, tmp_path: Path) -> None:
    """The error says where and what to give."""
    path = tmp_path / "given"
    path.write_bytes(data)

    with pytest.raises(memdb.InvalidInput, match=error):
        db.import_file(path, user="ann")


def test_a_file_that_is_not_there(db: MemDB, tmp_path: Path) -> None:
    """The error is about the file."""
    with pytest.raises(memdb.FileError, match="cannot be read"):
        db.import_file(tmp_path / "none.jsonl", user="ann")


def test_a_folder_of_nothing(db: MemDB, tmp_path: Path) -> None:
    """An empty folder, and one of other things, are refused; the error names what is there."""
    (tmp_path / "a" / ".hidden").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "photo.png").write_bytes(b"\x89PNG")

    with pytest.raises(memdb.InvalidInput, match="a contains no files"):
        db.import_file(tmp_path / "a", user="ann")
    with pytest.raises(
        memdb.InvalidInput, match=r"b \(it holds photo\.png\): this is not a format"
    ):
        db.import_file(tmp_path / "b", user="ann")


def test_an_archive_of_something_else(db: MemDB, tmp_path: Path) -> None:
    """The error says which archive is meant."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("photo.png", "x")

    with pytest.raises(memdb.InvalidInput, match=r"a\.zip \(it holds photo\.png\): this is no"):
        db.import_file(tmp_path / "a.zip", user="ann")


def test_a_damaged_archive(db: MemDB, document: Callable[..., str]) -> None:
    """An archive that was cut off is refused."""
    path = document([{"mapping": {}}], member="conversations.json")
    with open(path, "r+b") as file:
        file.truncate(60)

    with pytest.raises(memdb.FileError, match="damaged"):
        db.import_file(path, user="ann")


@pytest.mark.parametrize(
    ("is_listed", "distance", "damage", "problem"),
    [
        pytest.param(False, 22, b"\xff\xff\xff\xff", "while decompressing", id="text"),
        pytest.param(False, -30, b"XX", "Bad magic number", id="its header"),
        pytest.param(True, -30, b"XXXX", "Bad CRC-32", id="checksum"),
        pytest.param(True, -36, b"\x63", "compression", id="unknown method"),
        pytest.param(True, -38, b"\x01", "encrypted", id="password"),
    ],
)
def test_an_archive_with_damaged_bytes(
    is_listed: bool,
    distance: int,
    damage: bytes,
    problem: str,
    db: MemDB,
    document: Callable[..., str],
) -> None:
    """What cannot be unpacked is the file's fault; bytes from its name, there or in the list."""
    path = document([{"mapping": "x" * 500}], member="conversations.json")
    with open(path, "r+b") as file:
        data, name = file.read(), b"conversations.json"
        file.seek((data.rindex(name) if is_listed else data.index(name)) + distance)
        file.write(damage)

    with pytest.raises(memdb.FileError, match=rf"conversations\.json cannot be read.*{problem}"):
        db.import_file(path, user="ann")


@pytest.mark.parametrize("options", [{"format": "xml"}, {"session": " "}, {"session": 5}])
def test_bad_options(options: dict[str, Any], db: MemDB, tmp_path: Path) -> None:
    """Options are checked before the file is."""
    (tmp_path / "a").write_text('{"role":"user"}')

    with pytest.raises(memdb.InvalidInput):
        db.import_file(tmp_path / "a", user="ann", **options)


def test_a_format_can_be_named(db: MemDB, tmp_path: Path) -> None:
    """Then the content is not asked."""
    (tmp_path / "a").write_text("5")

    with pytest.raises(memdb.InvalidInput, match="not a JSON array"):
        db.import_file(tmp_path / "a", user="ann", format="chatgpt")
    with pytest.raises(memdb.InvalidInput, match="not a JSON object"):
        db.import_file(tmp_path / "a", user="ann", format="locomo")


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le-sig", "utf-8-sig"])
def test_other_encodings(coding: str, db: MemDB, tmp_path: Path) -> None:
    """A file with a byte order mark is read by it."""
    text = '{"role": "user", "text": "Blåbær", "session": "s"}\n'
    mark = "\ufeff" if coding == "utf-16-le-sig" else ""
    (tmp_path / "a.jsonl").write_bytes((mark + text).encode(coding.replace("-le-sig", "-le")))
    db.import_file(tmp_path / "a.jsonl", user="ann")

    assert db.scope("ann").session("s").get(1).text == "Blåbær"


def test_a_folder_of_lines(db: MemDB, tmp_path: Path) -> None:
    """All of its files are read; what is left out is named by its file."""
    line = '{"role": "user", "text": "hi", "session": "%s"}\n'
    (tmp_path / "talks" / "old").mkdir(parents=True)
    for name in ("a.jsonl", "old/b.jsonl"):
        (tmp_path / "talks" / name).write_text(line % name)
    report = db.import_file(tmp_path / "talks", user="ann")
    (tmp_path / "talks" / "old" / "b.jsonl").write_text(line % "b" + "5\n")

    again = db.import_file(tmp_path / "talks", user="ann")

    assert report.messages_added == 2
    assert [(one.what, one.why) for one in again.left_out] == [
        ("old/b.jsonl, line 2", "the line is not a JSON object: write one object per line")
    ]


def test_a_memdb_file_is_exported_first(db: MemDB, tmp_path: Path) -> None:
    """The error names the command."""
    memdb.open(tmp_path / "other.db").close()

    with pytest.raises(memdb.InvalidInput, match="export it first with `memdb export`"):
        db.import_file(tmp_path / "other.db", user="ann")


def test_a_format_that_claims_a_file_may_claim_it(tmp_path: Path) -> None:
    """What is told before a format is loaded leaves no format out, of every sample alone."""
    wrong, loaded = [], {}
    for name, (record, write) in SAMPLES.items():
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder, [record("tent"), record("lamp")])
        for file in path.rglob("*.md") if path.is_dir() else [path]:
            for skipped in range(2):
                with Tree(file) as tree:
                    tree.skip_records(skipped)
                    claims = {one for one in NAMES if load_format(one).claim(tree)}
                    may = {one for one in NAMES if may_claim(one, tree)}
                    loaded[name] = len(may)
                    wrong += [(name, skipped, one) for one in claims - may]

    assert wrong == []
    assert loaded["jsonl"] == 1


def test_the_import_of_a_line_runs_few_files(tmp_path: Path) -> None:
    """A format that cannot be the file's is not woken, once memdb is warm."""
    db = memdb.open(tmp_path / "agent.db", embedder=None)
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        path.write_text('{"session":"trip","role":"user","text":"We fly."}\n', encoding="utf-8")
    for path in paths[:-1]:
        db.import_file(path, user="ann")
    root, ran = str(Path(memdb.__file__).parent), set[str]()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            ran.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        db.import_file(paths[-1], user="ann", session="other")
    finally:
        sys.setprofile(None)
        db.close()

    assert len(ran) <= 45, sorted(ran)
    assert [one for one in ran if "/formats/imports/" in one and "base" not in one] == [
        str(Path(root, "formats", "imports", "jsonl.py"))
    ]
