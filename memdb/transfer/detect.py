"""
Finding out what a file is, from its content.
"""

from __future__ import annotations

import json
import zipfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

from memdb.errors import FileError, InvalidInput
from memdb.transfer.paths import SQLITE_MAGIC
from memdb.transfer.source import BLOCK_BYTES, BOM, Source, parse_line

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO, Any

FORMATS = ("memdb", "jsonl", "chatgpt", "claude", "locomo")
ZIP_MAGIC = b"PK\x03\x04"
MEMBER = "conversations.json"

# An object that does not end on its first line is read whole, up to this size.
MAX_OBJECT_BYTES = 256 << 20


def opened(path: Path) -> Source:
    """
    Open *path*, or the conversations inside the archive it is.

    Raises:
        FileError: it cannot be read.
        InvalidInput: an archive without `conversations.json`, or a database.
    """
    with ExitStack() as files:
        try:
            stream: IO[bytes] = files.enter_context(path.open("rb"))
            total = path.stat().st_size
            name = path.name
            head = stream.read(len(SQLITE_MAGIC))
            if head == SQLITE_MAGIC:
                raise InvalidInput(
                    f"{name}: this is a database: export it first with `memdb export`"
                )
            if head.startswith(ZIP_MAGIC):
                archive = files.enter_context(zipfile.ZipFile(stream))
                member = _member(archive, name)
                stream = files.enter_context(archive.open(member))
                total, name = member.file_size, f"{name}/{member.filename}"
            else:
                stream.seek(0)
        except OSError as error:
            raise FileError(
                f"{path} cannot be read ({error.strerror}): check the path", str(path)
            ) from error
        except (zipfile.BadZipFile, RuntimeError) as error:
            raise FileError(
                f"{path} is a damaged or locked archive ({error}): get it again", str(path)
            ) from error
        return Source(files.pop_all(), stream, total, name)


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    for member in archive.infolist():
        if member.filename == MEMBER or member.filename.endswith(f"/{MEMBER}"):
            return member
    raise InvalidInput(f"{name} holds no {MEMBER}: give the export of ChatGPT or Claude")


def format_of(path: Path) -> str:
    """
    Return which of `FORMATS` the content of *path* is.

    Raises:
        FileError: it cannot be read.
        InvalidInput: none of them.
    """
    with opened(path) as source:
        head = source.read(BLOCK_BYTES).removeprefix(BOM).lstrip()
        if not head:
            raise InvalidInput(f"{source.name} is empty: there is nothing to import")
        if head[:1] == b"{":
            return _of_object(_first_object(head, source), "line 1")
    if head[:1] != b"[":
        raise _unknown("line 1")
    with opened(path) as source:
        _, first = next(source.elements(), (0, None))
        return _of_object(first, "element 1")


def _first_object(start: bytes, source: Source) -> Any:
    """Return the first line's object, or the whole file's where that is one."""
    while b"\n" not in start and (more := source.read(1 << 20)):
        start += more
    line, _, rest = start.partition(b"\n")
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        whole = line + b"\n" + rest + source.read(MAX_OBJECT_BYTES)
    try:
        return json.loads(whole)
    except (ValueError, RecursionError):
        return parse_line(1, line)  # which says what is wrong with it


def _of_object(value: Any, place: str) -> str:
    """Return the format whose first object *value* is."""
    fields = value if isinstance(value, dict) else {}
    talk = fields.get("conversation", fields)
    if "mapping" in fields:
        return "chatgpt"
    if "chat_messages" in fields:
        return "claude"
    if fields.get("kind") == "memdb":
        return "memdb"
    if "kind" in fields or "role" in fields:
        return "jsonl"
    if isinstance(talk, dict) and {"speaker_a", "speaker_b"} <= talk.keys():
        return "locomo"
    raise _unknown(place)


def _unknown(place: str) -> InvalidInput:
    return InvalidInput(
        f"{place}: this is no format that can be imported: give a memdb export, JSON lines "
        'like {"role": "user", "text": "..."}, an export of ChatGPT or Claude, or LoCoMo'
    )
