"""
The sync folder: a folder per device, which only that device writes, of numbered segments.

A segment is a gzip file of JSON lines: its head, then lines in the form of an export. Its seal
follows, a gzip member of fixed length with the HMAC-SHA256 of all bytes before. So a segment is
checked before a byte of it is read, and `zcat` still shows it. A segment never changes.
`000007.full.jsonl.gz` contains the whole memory, and replaces all segments before it.

In the folder of an encrypted file, `000007.jsonl.gz.db` contains the same gzip file, encrypted with
a key derived from the pairing key.
"""

from __future__ import annotations

import gzip
import hmac
import json
import os
import re
import zlib
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from memdb.engine.files import PARTIAL, open_private, private_file
from memdb.engine.sqlite import cipher
from memdb.errors import FileError, InvalidInput
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.sync.device import Device

FORMAT = 1
MARK = "memdb-sync.json"
STATUS = "status.json"
BLOCK_BYTES = 1 << 20
NAME = re.compile(r"(\d{6,})(\.full)?\.jsonl\.gz(\.db)?")
GZIP_BITS = 31
DEVICE = re.compile(r"[0-9a-f]{16}")
FILE = re.compile(rf"{MARK}|{DEVICE.pattern}/({STATUS}|{NAME.pattern})")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class Refused(Exception):
    """A segment cannot be merged; the text gives the reason."""


class Broken(Refused):
    """It can never be merged as it is, so its device has to write everything again."""


class Segment(Record):
    """A segment of a device, as named in the folder."""

    path: str
    number: int
    is_full: bool


class Mark(Record):
    """The memory of a folder, "" if it cannot be read, and the form of its segments."""

    memory: str
    is_encrypted: bool


class Head(Record):
    """
    The first line of a segment.

    Attributes:
        previous: The hash of the segment before it.
        stamp: Its highest stamp.
        seen: By other device, the number of the last merged segment.
        void: Devices whose segments are ignored.
    """

    device: str
    name: str
    number: int
    previous: str
    stamp: int
    seen: dict[str, int]
    void: tuple[str, ...] = ()


@contextmanager
def naming_errors(folder: str) -> Iterator[None]:
    """Raise FileError for an error of the system in *folder*."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{error.filename or folder} cannot be used ({error.strerror}): change its "
            "permissions, free space on its disk, or sync again when the folder is back",
            folder,
        ) from error


def require_folder(folder: str, db_path: str) -> None:
    """
    Return if *folder* can be written and does not contain the live file.

    Raises:
        FileError: *folder* is not a folder, or cannot be written.
        InvalidInput: the file that is synced is in it.
    """
    if not os.path.isdir(folder):
        raise FileError(f"{folder} is not a folder: create it, or give another folder", folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"{folder} cannot be written: change its permissions", folder)
    real = os.path.realpath(folder)
    if os.path.realpath(db_path).startswith(os.path.join(real, "")):
        raise InvalidInput(
            f"{folder} contains the open file {db_path}, which no program may copy while it is "
            "open: move the file out of the folder"
        )


def read_mark(folder: str) -> Mark | None:
    """
    Return the mark of a folder; None for an empty folder.

    The folders of devices may arrive before the file with the mark.

    Raises:
        InvalidInput: the folder contains something else, or was written by a newer memdb.
    """
    path = os.path.join(folder, MARK)
    if not os.path.exists(path):
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
        if not all(map(DEVICE.fullmatch, names)):
            raise InvalidInput(f"{folder} is neither a sync folder nor empty: give an empty folder")
        return Mark("", is_encrypted=False) if names else None
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        memory, version = str(fields["memory"]), int(fields["format"])
        is_encrypted = bool(fields["encrypted"])
    except (ValueError, KeyError, TypeError):
        return Mark("", is_encrypted=False)
    if version > FORMAT:
        raise InvalidInput(
            f"{folder} was written by a newer memdb (format {version}): update this one"
        )
    return Mark(memory, is_encrypted)


def write_mark(folder: str, device: Device) -> None:
    """Write the memory of a folder into it."""
    said = {"memory": device.memory, "format": FORMAT, "encrypted": device.is_encrypted}
    with private_file(os.path.join(folder, MARK)) as file:
        file.write(_encode(said).encode())


def devices_of(folder: str) -> list[str]:
    """Return the ids of the devices that have written; empty folders are skipped."""
    found = {name: os.path.join(folder, name) for name in os.listdir(folder)}
    return sorted(
        name
        for name, path in found.items()
        if DEVICE.fullmatch(name) and os.path.isdir(path) and os.listdir(path)
    )


def segments_of(folder: str, device: str) -> list[Segment]:
    """
    Return the segments of a device, by number.

    A full one comes before another with its number.
    """
    found = []
    place = os.path.join(folder, device)
    for name in os.listdir(place) if os.path.isdir(place) else ():
        match = NAME.fullmatch(name)
        if match is not None:
            found.append(Segment(os.path.join(place, name), int(match[1]), match[2] is not None))
    return sorted(found, key=lambda one: (one.number, not one.is_full))


def files_of(folder: str) -> dict[str, int]:
    """Return the size of each complete file of a sync folder, by its name."""
    found = {}
    for place, _, names in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            name = os.path.relpath(path, folder).replace(os.sep, "/")
            with suppress(FileNotFoundError):
                if FILE.fullmatch(name):
                    found[name] = os.path.getsize(path)
    return found


def path_of(folder: str, device: Device, number: int, *, is_full: bool) -> str:
    """Return the path of a segment."""
    name = f"{number:06}{'.full' * is_full}.jsonl.gz{'.db' * device.is_encrypted}"
    return os.path.join(folder, device.id, name)


def write_partial(path: str, device: Device, head: Head, lines: Iterable[dict[str, Any]]) -> str:
    """Write a segment beside its name, sealed and on the disk; return its hash."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileNotFoundError):
        os.remove(path + PARTIAL)
    first = {"kind": "segment", "format": FORMAT, **head._asdict()}
    parts = _packed(chain([first], lines))
    with open(path + PARTIAL, "xb", opener=open_private) as file:
        file.writelines(() if device.is_encrypted else parts)
    if device.is_encrypted:
        cipher.write_stream(path + PARTIAL, device.cipher_key, parts)
    with open(path + PARTIAL, "r+b") as file:
        seal, _ = _measure(file, device.secret)
        file.write(seal)
        file.flush()
        os.fsync(file.fileno())
    return hash_of(path + PARTIAL)


def _packed(lines: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield lines as the blocks of a gzip file."""
    packer = zlib.compressobj(6, wbits=GZIP_BITS)
    found = bytearray()
    for line in lines:
        found += packer.compress(f"{_encode(line)}\n".encode())
        if len(found) >= BLOCK_BYTES:
            yield bytes(found)
            found.clear()
    yield bytes(found + packer.flush())


def _measure(file: BinaryIO, secret: bytes, size: int | None = None) -> tuple[bytes, str]:
    """Return the seal of the first *size* bytes of a file, and their hash; None means of all."""
    file.seek(0)
    code, digest = hmac.new(secret, digestmod=sha256), sha256()
    while block := file.read(BLOCK_BYTES if size is None else min(BLOCK_BYTES, size)):
        code.update(block)
        digest.update(block)
        if size is not None:
            size -= len(block)
            if not size:
                break
    packed = BytesIO()
    with gzip.GzipFile("", "wb", 0, packed, mtime=0) as member:
        member.write(f'{{"kind":"end","hmac":"{code.hexdigest()}"}}\n'.encode())
    return packed.getvalue(), digest.hexdigest()


def hash_of(path: str) -> str:
    """Return the SHA-256 of a file."""
    digest = sha256()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def open_segment(
    segment: Segment, device: str, own: Device
) -> tuple[Head, Iterator[dict[str, Any]]]:
    """
    Return the head of a segment of *device*, and its lines, by the keys of *own*.

    Raises:
        Broken: the segment cannot be read, is cut, changed or renamed, or has no seal of the key.
        Refused: the segment was written by a newer memdb.
    """
    try:
        with open(segment.path, "rb") as file:
            size = os.path.getsize(segment.path)
            end, _ = _measure(file, own.secret, 0)
            seal, _ = _measure(file, own.secret, size - len(end)) if size > len(end) else (b"", "")
            found = file.read(len(end) + 1)
    except OSError as error:
        raise Broken(f"cannot be read ({error.strerror})") from error
    if not seal or not hmac.compare_digest(found, seal):
        raise Broken("is cut, changed, or from a device that is not paired")
    if segment.path.endswith(".db"):
        lines = _lines(cipher.read_stream(segment.path, own.cipher_key))
    else:
        lines = _lines(_blocks(segment.path))
    fields = next(lines)
    if fields.get("format", FORMAT + 1) > FORMAT:
        raise Refused(
            f"was written by a newer memdb (format {fields.get('format')}): update this one"
        )
    head = Head(**{name: fields[name] for name in Head._fields})
    if (head.device, head.number) != (device, segment.number):
        raise Broken("has another name than it was written with")
    return head, lines


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _lines(blocks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a gzip file, up to the end of its first member, before the seal."""
    unpacker = zlib.decompressobj(GZIP_BITS)
    begun = b""
    for block in blocks:
        *whole, begun = (begun + unpacker.decompress(block)).split(b"\n")
        yield from map(json.loads, whole)


def write_status(folder: str, device: Device, broken: Iterable[str], now_ms: int) -> None:
    """
    Write how far this device has read, unless that is already in the folder.

    Args:
        broken: The devices that must write everything again.
    """
    seen = {name: number for name, (number, _) in sorted(device.seen.items())}
    fields = {"name": device.name, "number": device.number, "seen": seen, "broken": sorted(broken)}
    said = _encode(fields)
    code = hmac.new(device.secret, said.encode(), sha256).hexdigest()
    path = os.path.join(folder, device.id, STATUS)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    old = _read_status(path)
    if old is None or old.get("hmac") != code:
        text = _encode({"said": said, "hmac": code, "at_ms": now_ms})
        with private_file(path) as file:
            file.write(text.encode())


def _read_status(path: str) -> dict[str, Any] | None:
    with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        found = json.load(file)
        return found if isinstance(found, dict) else None
    return None


def read_status(folder: str, device: str, key: bytes) -> tuple[dict[str, Any], int]:
    """Return a device's status and its time; ({}, 0) without a sealed one."""
    found = _read_status(os.path.join(folder, device, STATUS))
    if found is None:
        return {}, 0
    said = str(found.get("said"))
    code = hmac.new(key, said.encode(), sha256).hexdigest()
    if not hmac.compare_digest(code, str(found.get("hmac"))):
        return {}, 0
    return json.loads(said), int(found.get("at_ms", 0))
