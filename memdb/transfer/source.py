"""
The file an import reads: as lines, or as the elements of one JSON array.

Neither needs more memory than its longest line or element.
"""

from __future__ import annotations

import codecs
import json
import zipfile
import zlib
from typing import TYPE_CHECKING

from memdb.errors import FileError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from typing import IO, Any, Self

BLOCK_BYTES = 1 << 16
BOM = codecs.BOM_UTF8

# What a disk, or an archive that is damaged, may raise while it is read.
UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error)

_decode = json.JSONDecoder().raw_decode


class Source:
    """
    An open file, or a member of an archive.

    Attributes:
        total: Its size in bytes.
        done: How many of them were read.
    """

    def __init__(self, files: ExitStack, stream: IO[bytes], total: int, name: str) -> None:
        """Read *stream*, of *total* bytes; *files* are closed after it, errors say *name*."""
        self._files = files
        self._stream = stream
        self.name = name
        self.total = total
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
        self.done += len(data)
        return data

    def _unreadable(self, error: Exception) -> FileError:
        return FileError(f"{self.name} cannot be read ({error}): get it again", self.name)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the bytes of each line that is not blank."""
        try:
            for number, line in enumerate(self._stream, start=1):
                self.done += len(line)
                stripped = line.removeprefix(BOM).strip() if number == 1 else line.strip()
                if stripped:
                    yield number, stripped
        except UNREADABLE as error:
            raise self._unreadable(error) from error

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
    """The text of a JSON array, read as far as it is needed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False

    def next_character(self) -> str:
        """Return the next character that is no white space, "" at the end; it stays."""
        while True:
            while self._at < len(self._text):
                if not self._text[self._at].isspace():
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._more(BLOCK_BYTES)

    def skip(self) -> None:
        """Go behind the next character."""
        self._at += 1

    def value(self, number: int) -> Any:
        """Return the value that begins here."""
        size = BLOCK_BYTES
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
                        f"element {number} is no JSON ({error}): get the file again"
                    ) from error
            # Twice as much each time: a long element is decoded a few times only.
            self._more(size)
            size *= 2

    def _more(self, size: int) -> None:
        data = self._source.read(size)
        self._ended = not data
        try:
            text = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the file is not UTF-8 ({error.reason}): convert it") from error
        self._text = self._text[self._at :] + text
        self._at = 0


def parse_line(number: int, line: bytes) -> Any:
    """
    Return the value of a line of JSON.

    Raises:
        InvalidInput: it is none; the error names the line.
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
            f"line {number}: no JSON ({error}): mend the line, or get the file again"
        ) from error
    raise InvalidInput(f"line {number}: no JSON ({problem}): write one object per line")
