"""A file of a sync folder that is not as memdb writes it is named, and its device writes another."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.engine.sqlite import cipher
from memdb.sync import folder
from memdb.sync.device import load
from memdb.sync.folder import Refused, open_segment, segments_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memdb.sync.device import Device

    Line = dict[str, Any]

# What a field of JSON may be instead.
OTHERS = (
    ["../a"],
    {"../a": 1},
    None,
    5,
    -1,
    1.5,
    True,
    "x",
    "\ud800",
    [],
    [5],
    ["x"],
    {},
    {"x": "x"},
    {"x": 1 << 70},
    1 << 70,
)

# What a program with the key may have packed and sealed.
PACKED = {
    "nothing": b"",
    "an empty line": b"\n",
    "text": b"hello\n",
    "no UTF-8": b"\xff\xfe\n",
    "a number": b"5\n",
    "a list": b"[]\n",
    "an object": b"{}\n",
    "too deep": b"[" * 100_000 + b"\n",
    "a long number": b"9" * 5_000 + b"\n",
}
WHOLE = gzip.compress(b"{}\n")


class Told:
    """A folder in which one device told something, and the key of its memory."""

    def __init__(self, place: Path) -> None:
        """Write its first segment."""
        self.folder = place / "folder"
        self.folder.mkdir()
        self.db = memdb.open(place / "a.db", embedder=None)
        self.db.user("ann").session("trip").append("user", "peanuts are bad")
        self.key = self.db.sync(self.folder).key
        with self.db._services.db.read() as tx:
            device = load(tx)
        assert device is not None
        self.device: Device = device
        (segment,) = segments_of(str(self.folder), device.id)
        self.segment = segment
        self.path = self.folder / device.id / "000001.full.jsonl.gz"
        data = self.path.read_bytes()
        self.lines = gzip.decompress(data).splitlines()[:-1]
        self.packed = gzip.compress(b"".join(line + b"\n" for line in self.lines), mtime=0)

    def seal(self, packed: bytes) -> None:
        """Write the bytes of the segment, with a seal."""
        end, _ = folder._measure(io.BytesIO(packed), self.device.secret)
        self.path.write_bytes(packed + end)

    def read(self) -> list[Any]:
        """Return the lines of the segment."""
        return [*open_segment(self.segment, self.device.id, self.device)[1]]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """Return a folder with one segment."""
    told = Told(tmp_path)
    yield told
    told.db.close()


def _broken(told: Told) -> dict[str, bytes]:
    """Return sealed segments that no memdb writes."""
    head, rest = json.loads(told.lines[0]), b"\n".join(told.lines[1:]) + b"\n"
    found = {
        "no gzip": b"hello " * 100,
        "zeros": bytes(500),
        "half": told.packed[: len(told.packed) // 2],
        "all but the end": told.packed[:-8],
        "without its last line break": gzip.compress(b"\n".join(told.lines)),
        "without its head": gzip.compress(rest),
        "twice packed": gzip.compress(told.packed),
    }
    found |= {name: gzip.compress(text) for name, text in PACKED.items()}
    found |= {
        f"{name} behind the head": gzip.compress(told.lines[0] + b"\n" + text)
        for name, text in PACKED.items()
        if name != "nothing"  # a segment may tell of nothing
    }
    for field in folder.HEAD_FIELDS:
        without = json.dumps({name: one for name, one in head.items() if name != field})
        found[f"a head without {field}"] = gzip.compress(f"{without}\n".encode() + rest)
        for other in OTHERS:
            line = json.dumps({**head, field: other})
            found[f"{field} is {other!r}"] = gzip.compress(f"{line}\n".encode() + rest)
    return found


def test_a_sealed_segment_that_no_memdb_writes_is_refused(told: Told) -> None:
    """Whatever a program with the key sealed: the one error is that which names the segment."""
    assert told.read()
    for name, packed in _broken(told).items():
        told.seal(packed)
        try:
            told.read()
        except Refused:
            continue
        head = gzip.decompress(packed).splitlines()[0]
        assert folder._has_fields(json.loads(head), folder.HEAD_FIELDS), name


def test_no_changed_byte_of_a_segment_is_read_as_another_text(told: Told) -> None:
    """Without a new seal each is refused; with one, zlib's checksum or JSON find most of them."""
    whole, chance = told.path.read_bytes(), random.Random(1)
    for at in range(len(whole)):
        told.path.write_bytes(
            whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :]
        )
        with pytest.raises(Refused, match="is cut, changed"):
            told.read()
    for at in range(len(told.packed)):
        changed = bytearray(told.packed)
        changed[at] ^= 1 << chance.randrange(8)
        told.seal(bytes(changed))
        with suppress(Refused):
            told.read()
    for size in range(len(whole)):
        told.path.write_bytes(whole[:size])
        with pytest.raises(Refused):
            told.read()


@pytest.mark.parametrize("name", ["no gzip", "half", "text", "an object", "seen is [5]", "nothing"])
def test_the_device_of_a_broken_segment_writes_another(
    told: Told, tmp_path: Path, name: str
) -> None:
    """It is named, and the next syncs of both bring all that was told."""
    told.seal(_broken(told)[name])
    with memdb.open(tmp_path / "b.db", embedder=None) as db:
        (waits,) = db.sync(told.folder, pairing_key=told.key).waiting
        assert told.path.name in waits
        told.db.sync(told.folder)
        assert db.sync(told.folder).waiting == ()
        assert db.user("ann").session("trip").last(1)[0].text == "peanuts are bad"


def test_a_line_that_is_no_json_is_found_behind_good_ones(told: Told, tmp_path: Path) -> None:
    """What came before it stays, and all of it comes again."""
    told.seal(gzip.compress(b"\n".join([*told.lines, b"hello\n"])))
    with memdb.open(tmp_path / "b.db", embedder=None) as db:
        (waits,) = db.sync(told.folder, pairing_key=told.key).waiting
        assert "is not a gzip file of JSON lines" in waits
        told.db.sync(told.folder)
        assert db.sync(told.folder).waiting == ()
        assert db.user("ann").session("trip").last_seq == 1


def test_a_segment_that_cannot_be_decrypted_is_refused(told: Told) -> None:
    """No database, one of another key, and one without the table."""
    segment = told.segment.replace(path=f"{told.path}.db")
    told.path = told.path.with_name(f"{told.path.name}.db")
    found = [b"", b"hello " * 1_000, bytes(8_192), told.packed]
    if cipher.has_cipher():
        stream = told.folder.parent / "stream"
        for key in (told.device.cipher_key, told.device.replace(key="other").cipher_key):
            cipher.write_stream(str(stream), key, [told.packed[:50]])
            found += [stream.read_bytes(), stream.read_bytes()[:4_096]]
            stream.unlink()
    for packed in found:
        told.seal(packed)
        with pytest.raises(Refused):
            [*open_segment(segment, told.device.id, told.device)[1]]


@pytest.mark.parametrize("name", ["memdb-sync.json", "status.json"])
def test_a_broken_file_beside_the_segments_is_no_obstacle(
    told: Told, tmp_path: Path, name: str
) -> None:
    """Anybody may have written it: a sync goes on, or its error is memdb's."""
    with memdb.open(tmp_path / "b.db", embedder=None) as db:
        db.sync(told.folder, pairing_key=told.key)
        (path,) = [
            one
            for one in told.folder.rglob(name)
            if told.device.id in str(one) or one.parent == told.folder
        ]
        fields = json.loads(path.read_text())
        changed = [b"", b"\xff\xfe", *(text for text in PACKED.values())]
        for field in fields:
            changed += [json.dumps({**fields, field: other}).encode() for other in (*OTHERS, "é")]
            left = {one: value for one, value in fields.items() if one != field}
            changed.append(json.dumps(left).encode())
        for text in changed:
            path.write_bytes(text)
            for act in (db.sync_status, db.sync):
                path.write_bytes(text)
                with suppress(memdb.MemDBError):
                    act(told.folder)


def test_a_segment_names_no_folder_but_those_of_devices(told: Told, tmp_path: Path) -> None:
    """A full segment removes the folders of devices that another one names as void."""
    mine = tmp_path / "mine"
    mine.mkdir()
    head = json.loads(told.lines[0])
    for name in ("../mine", str(mine)):
        line = json.dumps({**head, "void": [name]}).encode()
        told.seal(gzip.compress(b"\n".join([line, *told.lines[1:]]) + b"\n"))
        with memdb.open(":memory:", embedder=None) as db:
            waiting = db.sync(told.folder, pairing_key=told.key).waiting
            db.user("bob").session("s").append("user", "gone soon")
            db.user("bob").forget(everything=True)
            db.sync(told.folder)
        assert mine.is_dir()
        assert ["has a damaged first line" in one for one in waiting] == [True]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes that have names")
@pytest.mark.timeout(60)
def test_no_pipe_in_the_folder_makes_a_sync_wait(told: Told, tmp_path: Path) -> None:
    """Opening one would wait for a writer; it is as a file that cannot be read."""
    for number, path in enumerate(one for one in told.folder.rglob("*") if one.is_file()):
        data = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with memdb.open(tmp_path / f"{number}.db", embedder=None) as db:
            with suppress(memdb.MemDBError):
                db.sync(told.folder, pairing_key=told.key)
            assert db.file.check() == []
        path.unlink()
        path.write_bytes(data)
