"""Damaged bytes: seen by an error or by check, never by a wrong answer that says nothing."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.engine.sqlite import upkeep

PAGE = 4_096


@pytest.fixture(autouse=True)
def _is_never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a write in its WAL, also where a test waits a second for its turn."""
    monkeypatch.setattr(upkeep, "IDLE_S", 1e6)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a closed file with a few hundred rows."""
    path = tmp_path_factory.mktemp("sound") / "agent.db"
    with memdb.open(path, counter="estimate") as db:
        ann = db.scope("ann")
        ann.session("trip").extend(
            [{"role": "user", "text": f"tea number {n}"} for n in range(400)]
        )
        [ann.remember(f"fact number {n}") for n in range(20)]
        ann.artifacts.save("menu.md", "soup " * 100)
        ann.artifacts.save("picture.png", bytes(range(256)) * 100)
        db.jobs.run(kinds=("embed",))
    return path.read_bytes()


def without_mark(content: bytes) -> bytes:
    """Return the bytes of a file without those of the pages that hold the mark of its WAL."""
    pages = [content[start : start + PAGE] for start in range(0, len(content), PAGE)]
    return b"".join(page for page in pages if b"in_use0 " not in page)


def seen(path: str) -> list[str]:
    """Return the codes of what opening and checking say about the file."""
    try:
        with memdb.open(path, embedder=None, counter="estimate") as db:
            return [finding.code for finding in db.file.check(deep=True)]
    except memdb.MemDBError as error:
        return [error.code]


def test_the_sound_file_is_sound(path: str, sound: bytes) -> None:
    """What the other tests damage has no finding before."""
    Path(path).write_bytes(sound)

    assert seen(path) == []


def test_a_zeroed_page_is_seen_wherever_it_lies(path: str, sound: bytes) -> None:
    """Page by page: an error or a finding, and the file is left as it is."""
    unseen = []
    for start in range(0, len(sound), PAGE):
        damaged = sound[:start] + bytes(PAGE) + sound[start + PAGE :]
        Path(path).write_bytes(damaged)
        if not seen(path):
            unseen.append(start // PAGE + 1)
        after = Path(path).read_bytes()
        assert without_mark(after) == without_mark(damaged), "only the mark of the WAL changes"

    assert unseen == []


@pytest.mark.parametrize("offset", [0, 3, 5, 8], ids=["type", "cells", "content", "fragments"])
def test_a_damaged_page_header_is_corrupt(path: str, sound: bytes, offset: int) -> None:
    """The header of a b-tree page is checked by SQLite itself; the second page holds pointers."""
    damaged = bytearray(sound)
    place = 2 * PAGE + offset
    damaged[place : place + 2] = b"\xff\xff"
    Path(path).write_bytes(damaged)

    assert set(seen(path)) & {"page", "corrupt"}


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.99], ids=str)
def test_a_truncated_file_is_seen(path: str, sound: bytes, keep: float) -> None:
    """A file that lost its end is no file that lost nothing."""
    Path(path).write_bytes(sound[: int(len(sound) * keep)])

    assert seen(path) != []


def test_a_flipped_byte_of_a_message_is_found(path: str, sound: bytes) -> None:
    """SQLite does not see it; the row's hash and the index do."""
    assert sound.count(b"tea number 333") == 1
    Path(path).write_bytes(sound.replace(b"tea number 333", b"tea number 334"))

    assert "message_hash" in seen(path)


def test_a_flipped_byte_of_an_entry_is_found(path: str, sound: bytes) -> None:
    """The same for what is remembered."""
    assert sound.count(b"fact number 13") == 1
    Path(path).write_bytes(sound.replace(b"fact number 13", b"fact number 31"))

    assert "entry_hash" in seen(path)


def test_a_flipped_byte_of_an_artifact_is_found(path: str, sound: bytes, raw: Any) -> None:
    """Its SHA-256 tells, when asked deeply."""
    Path(path).write_bytes(sound)
    connection = raw(path)
    connection.execute(
        "UPDATE blob_chunks SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE codec = 'raw'"
    )
    connection.execute("UPDATE blob_chunks SET data = x'0102' WHERE codec = 'zlib'")
    connection.close()

    assert seen(path).count("blob_hash") == 2


@pytest.mark.parametrize("damaged", [b"\xe1\xe2a", b"ice"], ids=["no UTF-8", "other words"])
def test_a_damaged_row_is_not_read(path: str, sound: bytes, damaged: bytes) -> None:
    """A message, an entry and a session's name: Corrupt at the first reading."""
    Path(path).write_bytes(sound.replace(b"tea number 399", damaged + b" number 399"))
    with memdb.open(path, embedder=None) as db, pytest.raises(memdb.Corrupt, match="damaged"):
        db.scope("ann").session("trip").last(1)

    Path(path).write_bytes(sound.replace(b"fact number 13", damaged[:3] + b"t number 13"))
    with memdb.open(path, embedder=None) as db, pytest.raises(memdb.Corrupt, match="damaged"):
        list(db.scope("ann").entries.list())


@pytest.mark.parametrize(
    ("sql", "call"),
    [
        pytest.param(
            "UPDATE blob_chunks SET data = x'0102' WHERE codec = 'zlib'",
            lambda ann: ann.artifacts.load("menu.md"),
            id="a compressed chunk",
        ),
        pytest.param(
            "UPDATE messages SET metadata = '{'",
            lambda ann: ann.session("trip").last(1),
            id="metadata that is no JSON",
        ),
    ],
)
def test_reading_a_damaged_value_is_corrupt(
    path: str, sound: bytes, raw: Any, sql: str, call: Any
) -> None:
    """Not a ValueError or zlib's own error from the depth; and check sees it."""
    Path(path).write_bytes(sound)
    connection = raw(path)
    connection.execute(sql)
    connection.close()

    with memdb.open(path, embedder=None) as db, pytest.raises(memdb.Corrupt, match="damaged"):
        call(db.scope("ann"))
    assert seen(path) != []


@pytest.mark.parametrize(
    "damaged",
    ["zeroblob(length(vector))", "CAST(x'0000c07f' || substr(vector, 5) AS BLOB)"],
    ids=["zeros", "NaN"],
)
def test_a_damaged_vector_stops_no_search(path: str, sound: bytes, raw: Any, damaged: str) -> None:
    """Its distance is no number; the words still find the row."""
    Path(path).write_bytes(sound)
    connection = raw(path)
    connection.execute(f"UPDATE vectors SET vector = {damaged}")
    connection.close()

    with memdb.open(path, counter="estimate") as db:
        assert [hit.text for hit in db.scope("ann").recall("333", limit=1)] == ["tea number 333"]


@pytest.mark.slow
def test_flipped_bytes_never_crash_the_process(path: str, sound: bytes) -> None:
    """Two thousand single flips: open, check and read answer or raise a memdb error."""
    for position in range(0, len(sound), max(1, len(sound) // 2_000)):
        damaged = bytearray(sound)
        damaged[position] ^= 0x55
        Path(path).write_bytes(damaged)
        seen(path)
        try:
            with memdb.open(path, embedder=None, counter="estimate") as db:
                db.scope("ann").recall("tea")
                list(db.scope("ann").session("trip").messages())
        except memdb.MemDBError:
            continue


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.2, 0.6, 0.95], ids=str)
def test_a_truncated_wal_gives_an_earlier_state(tmp_path: Path, path: str, keep: float) -> None:
    """
    Some number of the newest messages is gone, those before are all there, and it is sound.

    Of a WAL that is shorter than at the first write `check` says so.
    """
    with memdb.open(path, embedder=None, counter="estimate") as writer:
        chat = writer.scope("ann").session("trip")
        chat.append("user", "message 1")
        time.sleep(0.5)  # the mark is moved into the file in the background
        for n in range(1, 80):
            chat.append("user", f"message {n + 1}")
        copy = str(tmp_path / "copy.db")
        shutil.copy(path, copy)
        wal = Path(f"{path}-wal").read_bytes()
        Path(f"{copy}-wal").write_bytes(wal[: int(len(wal) * keep)])

    with memdb.open(copy, embedder=None, counter="estimate") as db:
        texts = [message.text for message in db.scope("ann").session("trip").messages()]

        assert texts == [f"message {n + 1}" for n in range(len(texts))]
        assert len(texts) < 80
        codes = [finding.code for finding in db.file.check(deep=True)]
        assert codes == (["wal_missing"] if keep < 0.1 else [])
        db.file.check(accept=True)


def test_a_wal_with_a_torn_frame_gives_the_state_before_it(
    tmp_path: Path, path: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """A frame that does not match its checksum ends the history."""
    writer = open_db(path)
    chat = writer.scope("ann").session("trip")
    [chat.append("user", f"message {n + 1}") for n in range(40)]
    copy = str(tmp_path / "copy.db")
    shutil.copy(path, copy)
    wal = bytearray(Path(f"{path}-wal").read_bytes())
    wal[len(wal) - 100] ^= 0xFF
    Path(f"{copy}-wal").write_bytes(wal)

    with memdb.open(copy, embedder=None, counter="estimate") as db:
        assert db.scope("ann").session("trip").last_seq == 39
        assert db.file.check(deep=True) == []
