"""What an import takes and refuses at the edges: sizes, times, vectors, full scopes."""

from __future__ import annotations

import json
import random
import re
import resource
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from row_digests import renew_digests

from memdb.errors import InvalidInput, TooLarge
from memdb.formats import source

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB

    Lines = Callable[..., str]

MESSAGE = {"role": "user", "text": "hi", "session": "s"}


@pytest.mark.parametrize(
    "data", [b"x" * 3000, b"\0\xff" * 1500, "ü".encode() * 1500], ids=["text", "binary", "wide"]
)
def test_artifacts_have_no_limit_of_texts(
    db: MemDB, open_db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """An artifact over the limit of a text comes back byte for byte."""
    db.scope("ann").artifacts.save("big", data)
    db.export(tmp_path / "a.jsonl")
    copy = open_db(":memory:")
    monkeypatch.setattr("memdb.text.validate.MAX_TEXT_BYTES", 2000)

    copy.import_file(tmp_path / "a.jsonl")

    assert copy.scope("ann").artifacts.load("user:big").data == data


@pytest.mark.parametrize("size", [4096, 70_000, 200_001])
def test_an_artifact_of_several_lines(
    db: MemDB, open_db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """No line is longer than a part; all versions come back, and a second import adds nothing."""
    monkeypatch.setattr("memdb.transfer.artifacts.PART_BYTES", 4096)
    monkeypatch.setattr("memdb.tables.blobs.CHUNK_BYTES", 1024)
    monkeypatch.setattr("memdb.transfer.lines.SPOOL_BYTES", 1000)
    data = [random.Random(n).randbytes(size) for n in range(2)] + [b"x" * size, b"end"]
    for one in data:
        db.scope("ann").session("s").artifacts.save("big", one)
    db.export(tmp_path / "a.jsonl")
    copy = open_db(":memory:")
    report = copy.import_file(tmp_path / "a.jsonl")

    artifacts = copy.scope("ann").session("s").artifacts
    assert [artifacts.load("big", version=n).data for n in (1, 2, 3, 4)] == data
    assert max(map(len, (tmp_path / "a.jsonl").read_bytes().split(b"\n"))) < 4096 * 4 // 3 + 400
    assert report.artifacts_added == 4
    assert copy.import_file(tmp_path / "a.jsonl").artifacts_added == 0
    copy.export(tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.parametrize("change", ["a part is lost", "a part too many", "the version is lost"])
def test_parts_that_do_not_fit_are_refused(
    db: MemDB, open_db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """No artifact of other bytes is made of them."""
    monkeypatch.setattr("memdb.transfer.artifacts.PART_BYTES", 100_000)
    db.scope("ann").artifacts.save("one", random.Random(1).randbytes(300_000))
    db.scope("ann").artifacts.save("two", b"small")
    path = tmp_path / "a.jsonl"
    db.export(path)
    lines = path.read_text().splitlines()
    part = next(n for n, line in enumerate(lines) if '"artifact_part"' in line)
    version = next(n for n, line in enumerate(lines) if '"user:one"' in line or '"one"' in line)
    if change == "a part too many":
        lines.insert(part, lines[part])
    else:
        del lines[part if change == "a part is lost" else version]
    path.write_text("\n".join(lines))

    with pytest.raises(InvalidInput, match="lines with parts before it"):
        open_db(":memory:").import_file(path)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"text": 7}, "text is int"),
        ({"data": 7}, "data is int"),
        ({"data": "é"}, "data is not base64"),
    ],
    ids=["text type", "data type", "no base64"],
)
def test_artifact_contents_are_checked(
    db: MemDB, lines: Lines, field: dict[str, Any], message: str
) -> None:
    """What no bytes can be made of is refused by its line and field."""
    path = lines({"kind": "artifact", "name": "a", **field})

    with pytest.raises(InvalidInput, match=f"line 1: {message}"):
        db.import_file(path, user="ann", format="jsonl")


@pytest.mark.parametrize("time", ["1e999", "-1e999", "Infinity", "NaN"])
@pytest.mark.parametrize("name", ["time", "created_ms"])
def test_a_time_that_is_no_number_is_refused(db: MemDB, lines: Lines, time: str, name: str) -> None:
    """Infinity and NaN, which JSON of Python reads, are named by line and field."""
    path = lines(MESSAGE, f'{{"role": "user", "text": "b", "session": "s", "{name}": {time}}}')

    (left,) = db.import_file(path, user="ann").left_out

    assert left.what == "line 2"
    assert re.match(f"{name} is (-?inf|nan)", left.why)


def test_last_version_has_a_limit(db: MemDB, lines: Lines) -> None:
    """A number near the end of int64 would leave no next version."""
    fields = {"kind": "artifact_name", "name": "a", "last_version": 2**53}
    db.import_file(lines(fields), user="ann", format="jsonl")

    with pytest.raises(InvalidInput, match="last_version is 9007199254740993"):
        db.import_file(lines({**fields, "last_version": 2**53 + 1}), user="ann", format="jsonl")


def test_the_error_says_that_the_lines_before_it_are_stored(db: MemDB, lines: Lines) -> None:
    """Whoever mends a line of an export knows what is there by then."""
    head = {"kind": "memdb", "export": 1}
    with pytest.raises(InvalidInput, match=r"line 3: .*The records before it are stored"):
        db.import_file(lines(head, MESSAGE, {**MESSAGE, "role": "x"}), user="ann")

    assert db.scope("ann").session("s").last_seq == 1


def test_a_full_scope_takes_no_session(db: MemDB) -> None:
    """The session after the last number is TooLarge, and nothing is changed."""
    db.scope("ann").session("first").append("user", "hi")
    with db._db.write() as tx:
        tx.run("UPDATE scopes SET last_session_no = 524287")
        renew_digests(tx, "scopes")

    with pytest.raises(TooLarge, match="number of sessions in one scope is 524,288"):
        db.scope("ann").session("second").append("user", "hi")

    assert [info.name for info in db.scope("ann").sessions()] == ["first"]


@pytest.fixture
def old(db: MemDB, tmp_path: Path) -> str:
    """Return an export of an entry with its vector; the entry says something newer by now."""
    entry = db.scope("ann").remember("Ann lives in Oslo.").entry
    db.jobs.run()
    db.export(tmp_path / "old.jsonl")
    db.scope("ann").entries.update(entry.id, text="Ann lives in Rome, by the river.")
    return str(tmp_path / "old.jsonl")


def _vectors(db: MemDB) -> list[bytes]:
    with db._db.read() as tx:
        return [vector for _, vector in tx.vectors.list_page(1, "entry", 0, 1 << 62, 100)]


def test_the_vector_of_an_old_text_is_not_taken(db: MemDB, old: str) -> None:
    """The entry keeps its job, and its vector is made from what it says now."""
    before = db.jobs.pending()
    db.import_file(old)

    assert (before, db.jobs.pending()) == (1, 1)
    stale = _vectors(db)
    db.jobs.run()
    assert _vectors(db) != stale


def test_a_vector_of_an_old_text_does_not_stand_for_a_missing_one(
    db: MemDB, old: str, lose_vectors: Any
) -> None:
    """An entry whose vector was never made does not get the old one."""
    lose_vectors(db)
    db.import_file(old)

    assert (_vectors(db), db.jobs.pending()) == ([], 1)
    db.jobs.run()


def test_a_vector_of_the_same_text_replaces_a_stale_one(
    db: MemDB, old: str, open_db: Any, tmp_path: Path
) -> None:
    """The vector of what an entry says now is taken, and its job is done."""
    other = open_db(":memory:")
    other.import_file(old)
    (entry,) = other.scope("ann").entries.list()
    other.scope("ann").entries.update(entry.id, text="Ann lives in Rome, by the river.")
    other.jobs.run()
    other.export(tmp_path / "new.jsonl")

    db.import_file(tmp_path / "new.jsonl")

    assert (_vectors(db), db.jobs.pending()) == (_vectors(other), 0)


def test_a_vector_that_is_due_anew_is_not_exported(
    db: MemDB, old: str, open_db: Any, exported: Callable[..., list[str]], tmp_path: Path
) -> None:
    """An export between a change and its embedding does not carry the old vector."""
    db.export(tmp_path / "new.jsonl")
    copy = open_db(":memory:")
    copy.import_file(tmp_path / "new.jsonl")

    assert [line for line in exported(db) if json.loads(line)["kind"] == "embedding"] == []
    assert exported(copy) == exported(db)
    assert copy.jobs.pending() == 1


def _times(db: MemDB) -> dict[str, tuple[int, int]]:
    return {s.name: (s.created_ms, s.updated_ms) for s in db.scope("ann").sessions()}


def test_a_session_has_the_times_of_its_messages(
    db: MemDB, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made at its first message, changed at its newest, over all chunks."""
    monkeypatch.setattr("memdb.transfer.importer.CHUNK_ITEMS", 2)
    said = [
        {"role": "user", "text": f"{n}", "session": "s", "created_ms": n * 10**12}
        for n in (1, 3, 2, 1)
    ]
    titled = [
        {"kind": "session", "name": "t", "title": "T"},
        {"kind": "session", "name": "u", "created_ms": 7},
        {"kind": "session", "name": "v", "created_ms": 7, "updated_ms": 8},
        *({**said[0], "session": name} for name in "tuv"),
    ]

    db.import_file(lines(*said, *titled), user="ann")

    one = 10**12
    assert _times(db) == {"s": (one, 3 * one), "t": (one, one), "u": (7, one), "v": (7, 8)}


def test_an_import_that_goes_on_keeps_the_times(db: MemDB, lines: Lines) -> None:
    """Messages that come by a second import count by their own times too."""
    said = [
        {"role": "user", "text": f"{n}", "session": "s", "created_ms": n * 10**12} for n in (1, 2)
    ]
    db.import_file(lines(said[0]), user="ann")
    db.import_file(lines(*said), user="ann")

    assert _times(db) == {"s": (10**12, 2 * 10**12)}


def test_without_times_a_session_has_those_of_the_import(db: MemDB, lines: Lines) -> None:
    """Messages without a time are said now, and so is their session."""
    db.import_file(lines(MESSAGE), user="ann")

    (message,) = db.scope("ann").session("s").messages()
    assert _times(db) == {"s": (message.created_ms, message.created_ms)}


def zipped(path: Path, parts: list[bytes], times: int) -> Path:
    """Write an archive whose conversations.json is *parts*, the second one repeated."""
    first, filler, last = parts
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("conversations.json", "w") as member,
    ):
        member.write(first)
        for _ in range(times):
            member.write(filler)
        member.write(last)
    return path


MEGABYTE = 1 << 20
BOMBS = {
    "blanks": [b"[", b" " * MEGABYTE, b"]"],
    "blanks behind an element": [b'[{"mapping": {}}', b"\n" * MEGABYTE, b"]"],
    "one text": [b'["', b"a" * MEGABYTE, b'"]'],
    "one object": [b'[{"mapping": "', b"a" * MEGABYTE, b'"}]'],
    "brackets": [b"[", b"[" * MEGABYTE, b"]"],
}


@pytest.mark.parametrize("place", [":memory:"])  # nothing is written
@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_archive_does_not_grow_without_bound(
    db: MemDB, place: str, tmp_path: Path, kind: str
) -> None:
    """It is refused before it takes the memory that it would unpack to."""
    path = zipped(tmp_path / "a.zip", BOMBS[kind], 300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(InvalidInput):
        db.import_file(path, user="ann")

    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown_mb < 200


def test_lines_and_elements_have_a_length(
    db: MemDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the line or element, and no more than that much is read."""
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(source, "MAX_ELEMENT_BYTES", 100_000)
    monkeypatch.setattr(source, "MAX_OBJECT_BYTES", 10_000)
    message = json.dumps(MESSAGE)
    path = tmp_path / "a.jsonl"

    path.write_text(f"{message}\n{message[:-1]}{' ' * 2000}}}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="line 2 has more than"):
        db.import_file(path, user="ann")

    path.write_text("x" * 70_000, encoding="utf-8")
    with pytest.raises(InvalidInput, match="not a format"):
        db.import_file(path, user="ann")
    path.write_text("{" + "x" * 80_000, encoding="utf-8")
    with pytest.raises(InvalidInput, match="line 1 has more than"):
        db.import_file(path, user="ann")

    path.write_text('[{"mapping": "' + "x" * 400_000 + '"}]', encoding="utf-8")
    with pytest.raises(InvalidInput, match="element 1 has more than"):
        db.import_file(path, user="ann")


# What Python's json refuses in its own words, in each place of each kind of file.
DEEP = "[" * 20_000 + "]" * 20_000
DIGITS = "1" * 5_000
PLACES = {
    "line": '{"role": "user", "text": "hi", "session": "s"}\n{"role": "user", "text": %s}\n',
    "first line": '{"role": "user", "text": %s}\n',
    "element": '[{"uuid": "a", "chat_messages": []}, {"x": %s}]',
    "first element": '[{"mapping": %s}]',
    "object": '{"conversation": {"speaker_a": "a", "speaker_b": "b", "x": %s}}',
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    ("value", "problem"), [(DEEP, "nested too deeply"), (DIGITS, "too many digits")]
)
def test_no_error_has_the_words_of_python(
    db: MemDB, tmp_path: Path, kind: str, value: str, problem: str
) -> None:
    """It says what is wrong with the file."""
    path = tmp_path / "talk.json"
    path.write_text(PLACES[kind] % value)

    try:
        said = str(db.import_file(path, user="ann"))
    except InvalidInput as error:
        said = str(error)

    assert problem in said
    assert not any(word in said for word in ("recursion", "int_max", "Exceeds"))
