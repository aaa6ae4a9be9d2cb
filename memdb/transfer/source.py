"""
What an import reads: the lines of a file, or the elements of the JSON array it is.

Neither needs more memory than the longest of them.
"""

from __future__ import annotations

import codecs
import json
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any, Self

from memdb.errors import FileError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

BLOCK_BYTES = 1 << 16

# What one line, one element of an array and one object may take. A line holds a message
# with its parts; an element holds a conversation.
MAX_LINE_BYTES = 192 << 20
MAX_ELEMENT_BYTES = 64 << 20
MAX_OBJECT_BYTES = 64 << 20

# Blanks between two elements, and how far a member of an archive may grow: text
# packs to a twentieth, a bomb to a thousandth.
MAX_BLANKS = 1 << 20
FREE_BYTES = 16 << 20
MAX_RATIO = 200
BOM = codecs.BOM_UTF8

# Errors of a disk or of a damaged archive while it is read.
UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, UnicodeError)

_decode = json.JSONDecoder().raw_decode


class Source:
    """
    An open file, or a member of an archive.

    Attributes:
        name: What errors call it.
        done: How many of its bytes were read.
    """

    def __init__(
        self,
        files: ExitStack,
        stream: IO[bytes],
        name: str,
        *,
        most: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> None:
        """
        Read *stream*; *files* are closed after it.

        Args:
            most: Bytes that a member of an archive may have; None means any number.
            advance: Called with the number of bytes that were read, each time.
        """
        self._files = files
        self._most = most
        self._stream = stream
        self._advance = advance
        self.name = name
        self.done = 0

    def __enter__(self) -> Self:
        """Return the source itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._files.close()

    def read(self, size: int = -1) -> bytes:
        """Return up to *size* bytes, all that are left for -1; b"" at the end."""
        try:
            data = self._stream.read(size)
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        self._count(data)
        return data

    def read_line(self, most: int) -> bytes:
        """Return the next line, b"" at the end; at most *most* bytes and one more of it."""
        try:
            line = self._stream.readline(most + 1)
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        self._count(line)
        return line

    def _count(self, data: bytes) -> None:
        self.done += len(data)
        if self._advance is not None:
            self._advance(len(data))
        if self._most is not None and self.done > self._most:
            raise InvalidInput(
                f"{self.name} grows to more than {MAX_RATIO} times its size in the archive: "
                "no conversations do; unpack it first if it is yours"
            )

    def _unreadable(self, error: Exception) -> FileError:
        return FileError(f"{self.name} cannot be read ({error}): get it again", self.name)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """
        Yield the number and the bytes of each line that is not blank.

        Raises:
            InvalidInput: one has more than `MAX_LINE_BYTES`.
        """
        number = 0
        while line := self.read_line(MAX_LINE_BYTES):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise too_long(f"line {number}", MAX_LINE_BYTES)
            stripped = line.removeprefix(BOM).strip() if number == 1 else line.strip()
            if stripped:
                yield number, stripped

    def elements(self) -> Iterator[tuple[int, Any]]:
        """
        Yield the number and the value of each element of the JSON array.

        Raises:
            InvalidInput: the file is no JSON array, or ends before its end.
        """
        array = _Array(self)
        if array.next_character() != "[":
            raise InvalidInput(f"{self.name} is no JSON array: export it again")
        array.skip()
        number = 0
        while array.next_character() not in ("]", ""):
            number += 1
            yield number, array.value(number)
            if array.next_character() == ",":
                array.skip()
            elif array.next_character() not in ("]", ""):
                raise InvalidInput(f"element {number} is not followed by a comma: export it again")
        if array.next_character() == "":
            raise InvalidInput(
                f"the file ends after element {number}: get it again, it was cut off"
            )


class _Array:
    """The text of a JSON array, read in blocks."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False
        self._number = 0

    def next_character(self) -> str:
        """Return the next character that is no white space without taking it; "" at the end."""
        blanks = 0
        while True:
            rest = self._text[self._at : self._at + 1]
            if rest and not rest.isspace():
                return rest
            before = len(self._text) - self._at
            self._text, self._at = self._text[self._at :].lstrip(), 0
            blanks += before - len(self._text)
            if blanks > MAX_BLANKS:
                raise InvalidInput(f"more than {MAX_BLANKS:,} blanks follow each other: no export")
            if self._text:
                continue
            if self._ended:
                return ""
            self._more(BLOCK_BYTES)

    def skip(self) -> None:
        """Step over the next character."""
        self._at += 1

    def value(self, number: int) -> Any:
        """Return the value that begins here."""
        size = BLOCK_BYTES
        self._number = number
        while True:
            try:
                value, end = _decode(self._text, self._at)
                # A number may go on in the next block.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            except (ValueError, RecursionError) as error:
                if self._ended or isinstance(error, RecursionError):
                    raise InvalidInput(
                        f"element {number} is no JSON ({json_problem(error)}): get the file again"
                    ) from error
            left = MAX_ELEMENT_BYTES - (len(self._text) - self._at)
            if left < 0:
                raise too_long(f"element {number}", MAX_ELEMENT_BYTES)
            # Twice as much each time: a long element is decoded a few times only.
            self._more(min(size, left + 1))
            size *= 2

    def _more(self, size: int) -> None:
        data = self._source.read(size)
        self._ended = not data
        try:
            text = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            place = f"in or behind element {self._number or 1}"
            raise InvalidInput(
                f"the file is not UTF-8 ({error.reason}, {place}): convert it"
            ) from error
        self._text = self._text[self._at :] + text
        self._at = 0


def too_long(place: str, most_bytes: int) -> InvalidInput:
    """Return the error to raise if a part of an import is longer than memdb reads."""
    return InvalidInput(f"{place} has more than {most_bytes >> 20} MB: split it, or leave it out")


def json_problem(error: ValueError | RecursionError) -> str:
    """Return what is wrong with a text that json does not read."""
    if isinstance(error, RecursionError):
        return "its lists and objects are nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    return "a number has too many digits"


def parse_line(number: int, line: bytes) -> Any:
    """
    Return the value of a line of JSON.

    Raises:
        InvalidInput: it is not JSON; the error names the line.
    """
    try:
        text = line.decode()
        value, end = _decode(text)
        if end == len(text):
            return value
        problem = f"more behind its end, from character {end + 1} on"
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"line {number}: not UTF-8 at byte {error.start + 1}: convert the file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"line {number}: no JSON ({json_problem(error)}): mend the line, or get the file again"
        ) from error
    raise InvalidInput(f"line {number}: no JSON ({problem}): write one object per line")


def value_or_error(number: int, line: bytes) -> Any | InvalidInput:
    """Return the value of a line of JSON, or the error that says why it is none."""
    try:
        return parse_line(number, line)
    except InvalidInput as error:
        return error


def first_value(source: Source) -> Any:
    """
    Return the first object of *source*: of its first line, of its array, or all of it.

    Raises:
        InvalidInput: it is empty, or begins with no JSON.
    """
    head = source.read(BLOCK_BYTES).removeprefix(BOM).lstrip()
    if not head:
        raise InvalidInput(f"{source.name} is empty: there is nothing to import")
    if b"\n" not in head:
        head += source.read_line(MAX_OBJECT_BYTES)
    line, _, rest = head.partition(b"\n")
    if len(line) > MAX_OBJECT_BYTES:
        raise too_long("line 1", MAX_OBJECT_BYTES)
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        whole = line + b"\n" + rest + source.read(MAX_OBJECT_BYTES)
    try:
        return json.loads(whole)
    except (ValueError, RecursionError):
        return parse_line(1, line)  # raises the error that fits


def read_object(source: Source) -> dict[str, Any]:
    """
    Return the JSON object that all of *source* is.

    Raises:
        InvalidInput: it is none, or has more than `MAX_OBJECT_BYTES`.
    """
    data = source.read(MAX_OBJECT_BYTES + 1)
    if len(data) > MAX_OBJECT_BYTES:
        raise too_long(source.name, MAX_OBJECT_BYTES)
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source.name} is not UTF-8 ({error.reason}): convert it") from error
    except (ValueError, RecursionError) as error:
        problem = json_problem(error)
        raise InvalidInput(f"{source.name} is no JSON ({problem}): get the file again") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{source.name} is no JSON object: import one conversation at a time")
    return value
