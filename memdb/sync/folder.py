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
from memdb.engine.sqlite.connection import translated_errors
from memdb.errors import FileError, InvalidInput, MemDBError
from memdb.models.ids import MAX_INT
from memdb.models.record import Record
from memdb.sync.clock import LAST_MS
from memdb.text.validate import refuse_special

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memdb.sync.device import Device

FORMAT = 1
MARK = "memdb-sync.json"
STATUS = "status.json"
BLOCK_BYTES = 1 << 20
NAME = re.compile(r"(\d{6,})(\.full)?\.jsonl\.gz(\.db)?")
GZIP_BITS = 31
DEVICE = re.compile(r"[0-9a-f]{16}")
FILE = re.compile(rf"{MARK}|{DEVICE.pattern}/({STATUS}|{NAME.pattern})")

# The fields of each JSON value that other devices write here; `seen` counts segments.
MARK_FIELDS = {"memory": str, "format": int, "encrypted": bool}
SEALED_FIELDS = {"said": str, "hmac": str}
STATUS_FIELDS = {"name": str, "seen": dict, "broken": list}
HEAD_FIELDS = {
    **dict.fromkeys(("device", "name", "previous"), str),
    **dict.fromkeys(("format", "number", "stamp"), int),
    "seen": dict,
    "void": list,
}

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
    refuse_special(path)
    with open(path, "rb") as file:
        fields = _parsed(file.read())
    if not _has_fields(fields, MARK_FIELDS):
        return Mark("", is_encrypted=False)
    if fields["format"] > FORMAT:
        raise InvalidInput(
            f"{folder} was written by a newer memdb (format {fields['format']}): update this one"
        )
    return Mark(fields["memory"], fields["encrypted"])


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
        refuse_special(segment.path)
        with open(segment.path, "rb") as file:
            size = os.path.getsize(segment.path)
            end, _ = _measure(file, own.secret, 0)
            seal, _ = _measure(file, own.secret, size - len(end)) if size > len(end) else (b"", "")
            found = file.read(len(end) + 1)
    except (OSError, FileError) as error:
        raise Broken(f"cannot be read ({getattr(error, 'strerror', error)})") from error
    if not seal or not hmac.compare_digest(found, seal):
        raise Broken("is cut, changed, or from a device that is not paired")
    is_encrypted = segment.path.endswith(".db")
    lines = _lines(_decrypted(segment.path, own) if is_encrypted else _blocks(segment.path))
    fields: Any = next(lines, None)
    version = fields.get("format") if isinstance(fields, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise Refused(f"was written by a newer memdb (format {version}): update this one")
    if not _has_fields(fields, HEAD_FIELDS):
        raise Broken("has a damaged first line")
    head = Head(**{name: fields[name] for name in Head._fields})
    if not all(map(DEVICE.fullmatch, (*head.seen, *head.void))):  # they are names of folders
        raise Broken("has a damaged first line")
    if (head.device, head.number) != (device, segment.number):
        raise Broken("has another name than it was written with")
    return head, lines


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _decrypted(path: str, own: Device) -> Iterator[bytes]:
    try:
        with translated_errors():
            yield from cipher.read_stream(path, own.cipher_key)
    except MemDBError as error:
        raise Broken(f"cannot be decrypted ({error})") from error


def _lines(blocks: Iterator[bytes]) -> Iterator[Any]:
    """
    Yield the JSON lines of a gzip file, up to the end of its first member, before the seal.

    Raises:
        Broken: the file is something else, or its end is missing.
    """
    unpacker = zlib.decompressobj(GZIP_BITS)
    begun = b""
    try:
        for block in blocks:
            *whole, begun = (begun + unpacker.decompress(block)).split(b"\n")
            yield from map(json.loads, whole)
    except (zlib.error, ValueError, RecursionError) as error:
        raise Broken(f"is not a gzip file of JSON lines ({error})") from error
    if begun or not unpacker.eof:
        raise Broken("ends within a line")


def _parsed(text: bytes) -> Any:
    """Return a JSON value, None if the text has none."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def is_a(kind: type, value: object) -> bool:
    """
    Return whether a JSON value is a *kind* that a file can contain.

    An integer fits SQLite, a text has a form in UTF-8, and a list contains such texts.
    """
    if isinstance(value, list):
        return kind is list and all(is_a(str, one) for one in value)
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return kind is int and -MAX_INT <= value <= MAX_INT
    if isinstance(value, str) and not value.isascii():
        return kind is str and value == value.encode("utf-8", "ignore").decode()
    return isinstance(value, kind)


def _has_fields(value: Any, fields: Mapping[str, type]) -> bool:
    """Return whether a JSON value has *fields* of these types."""
    if not isinstance(value, dict):
        return False
    if not all(is_a(kind, value.get(name)) for name, kind in fields.items()):
        return False
    return "seen" not in fields or all(is_a(int, count) for count in value["seen"].values())


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
    if _sealed_status(path).get("hmac") != code:
        text = _encode({"said": said, "hmac": code, "at_ms": now_ms})
        with private_file(path) as file:
            file.write(text.encode())


def _sealed_status(path: str) -> dict[str, Any]:
    """Return the status in a file with its seal, {} if there is none."""
    found: Any = None
    with suppress(OSError, FileError):
        refuse_special(path)
        with open(path, "rb") as file:
            found = _parsed(file.read())
    return found if _has_fields(found, SEALED_FIELDS) else {}


def read_status(folder: str, device: str, key: bytes) -> tuple[dict[str, Any], int]:
    """Return a device's status and its time; ({}, 0) without one that is sealed and whole."""
    found = {"said": "", "hmac": "", **_sealed_status(os.path.join(folder, device, STATUS))}
    said, code = (found[name].encode("utf-8", "replace") for name in SEALED_FIELDS)
    fields, at_ms = _parsed(said), found.get("at_ms", 0)
    is_sealed = hmac.compare_digest(hmac.new(key, said, sha256).hexdigest().encode(), code)
    if not is_sealed or not _has_fields(fields, STATUS_FIELDS):
        return {}, 0
    return fields, at_ms if is_a(int, at_ms) and 0 < at_ms < LAST_MS else 0
