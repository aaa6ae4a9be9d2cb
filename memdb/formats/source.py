"""
The source of an import: a file, the files of a folder, or the members of an archive.

A format says by their names and their first objects which of them are its own. Nothing is
unpacked to the disk. A file is read by its lines; a JSON array is read by its elements. Neither
needs more memory than the longest of them.
"""

from __future__ import annotations

import codecs
import json
import os
import zipfile
import zlib
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Self

from memdb.engine.files import identity_of, is_sqlite, live_identities, refuse_live
from memdb.errors import FileError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
                f"{self.name} grows to more than {MAX_RATIO} times its size when unpacked, which "
                "conversations do not: unpack it yourself if you trust it"
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
        while block := self.read(BLOCK_BYTES):  # one by one they cost twice as much
            block += self.read_line(MAX_LINE_BYTES)
            for line in block.removesuffix(b"\n").split(b"\n"):
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
            InvalidInput: the file is not a JSON array, or is cut off.
        """
        array = _Array(self)
        if array.next_character() != "[":
            raise InvalidInput(f"{self.name} is not a JSON array: export the data again")
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
            raise InvalidInput(f"the file is cut off after element {number}: get it again")


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
        """Return the next character that is not white space without taking it; "" at the end."""
        blanks = 0
        while True:
            rest = self._text[self._at : self._at + 1]
            if rest and not rest.isspace():
                return rest
            before = len(self._text) - self._at
            self._text, self._at = self._text[self._at :].lstrip(), 0
            blanks += before - len(self._text)
            if blanks > MAX_BLANKS:
                raise InvalidInput(
                    f"more than {MAX_BLANKS:,} blanks follow each other, so this is not an export"
                )
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
                        f"element {number} is not JSON ({json_problem(error)}): get the file again"
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
        InvalidInput: the line is not JSON; the error names the line.
    """
    try:
        text = line.decode()
        value, end = _decode(text)
        if end == len(text):
            return value
        problem = f"more behind its end, from character {end + 1} on"
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"line {number} is not UTF-8 at byte {error.start + 1}: convert the file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"line {number} is not JSON ({json_problem(error)}): correct it, or get the file again"
        ) from error
    raise InvalidInput(f"line {number} is not JSON ({problem}): write one object per line")


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
        InvalidInput: *source* is empty, or begins with no JSON.
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
        InvalidInput: the source is none, or has more than `MAX_OBJECT_BYTES`.
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
        raise InvalidInput(f"{source.name} is not JSON ({problem}): get the file again") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{source.name} is not a JSON object: give a file with one conversation")
    return value


ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP_MAGIC = b"PK\x05\x06"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# Of these a folder or an archive has files that nobody wrote.
SYSTEM_NAMES = ("__MACOSX", "Thumbs.db", "desktop.ini")

# No export has so many; a wrong folder, such as all of a disk, has.
MAX_FILES = 200_000


class Tree:
    """
    The files that an import may read, by name.

    A context manager; leaving it closes the archive.

    Attributes:
        path: As it was given.
        name: Its last part, for messages.
        names: Of its files, in order, below a folder with "/"; a file alone is its own.
        is_alone: It is one file, neither a folder nor an archive.
        is_database: It is a SQLite file.
        done: Bytes that were read so far.
        refused: Files that are not read, each with the reason.
        unreadable: Folders that cannot be read, each with the reason.
        problems: What is wrong with files that were asked for their format.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """
        List the files at *path*.

        Raises:
            FileError: there is nothing, it cannot be read, or it is a damaged archive.
            InvalidInput: there are more than 200,000 files.
        """
        refuse_live(path)
        self.path = os.fspath(path)
        self.name = os.path.basename(os.path.abspath(self.path))
        self.is_alone = False
        self.is_database = False
        self.done = 0
        self.refused: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}
        self.problems: dict[str, InvalidInput | FileError] = {}
        self._archive: zipfile.ZipFile | None = None
        self._sizes: dict[str, int] = {}
        # What detection asks of each file, once for all formats.
        self._skipped = 0
        self._first: dict[str, Any] = {}
        self._peeked: dict[str, dict[str, Any]] = {}
        self._characters: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}
        try:
            if os.path.isdir(self.path):
                self._sizes = self._files_below(self.path)
            else:
                self._list_file()
        except OSError as error:
            problem = error.strerror or str(error)
            raise FileError(
                f"{self.path} cannot be read ({problem}): check the path", self.path
            ) from error
        except (zipfile.BadZipFile, RuntimeError) as error:
            raise FileError(
                f"{self.path} is a damaged or locked archive ({error}): get it again", self.path
            ) from error
        self.names = tuple(self._sizes)

    def _list_file(self) -> None:
        with open(self.path, "rb") as file:
            head = file.read(4)
        if not head.startswith((ZIP_MAGIC, EMPTY_ZIP_MAGIC)):
            self.is_alone = True
            self.is_database = is_sqlite(self.path)
            self._sizes[self.name] = os.stat(self.path).st_size
            return
        self._archive = zipfile.ZipFile(self.path)
        members = [member for member in self._archive.infolist() if not member.is_dir()]
        for member in sorted(members, key=lambda member: member.filename):
            name = member.filename
            if name.startswith("/") or ".." in name.split("/"):
                self.refused[name] = "their names lead out of the archive"
            elif not _is_hidden(name):
                if name in self._sizes:
                    self.refused[name] = "the archive has them again, and the last one is read"
                self._sizes[name] = member.file_size
        _refuse_many(self.name, len(self._sizes))

    def _files_below(self, folder: str) -> dict[str, int]:
        """Return the name below *folder* and the size of each file; links are not followed."""
        sizes, live = {}, live_identities()

        def refuse(path: str, why: str) -> None:
            self.refused[os.path.relpath(path, folder).replace(os.sep, "/")] = why

        def unreadable(error: OSError) -> None:
            below = os.path.relpath(error.filename, folder).replace(os.sep, "/")
            self.unreadable[below] = f"it cannot be read ({error.strerror}): check its permissions"

        for parent, folders, names in os.walk(folder, onerror=unreadable):
            folders[:] = sorted(one for one in folders if not _is_hidden(one))
            for name in sorted([*folders, *names]):
                whole = os.path.join(parent, name)
                if _is_hidden(name):
                    continue
                if os.path.islink(whole):
                    refuse(whole, "links are not followed")
                elif live and identity_of(whole) in live:
                    refuse(whole, "they are open in this program")
                elif os.path.isfile(whole):
                    below = os.path.relpath(whole, folder).replace(os.sep, "/")
                    sizes[below] = os.stat(whole).st_size
                elif name not in folders:
                    refuse(whole, "they are no plain files")
            _refuse_many(folder, len(sizes))
        return sizes

    def __enter__(self) -> Self:
        """Return the tree itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the archive."""
        if self._archive is not None:
            self._archive.close()

    def named(self, *patterns: str) -> list[str]:
        """Return the files whose name without folders fits a pattern, such as "*.md"."""
        return [
            name
            for name in self.names
            if any(fnmatch(name.rpartition("/")[2].lower(), pattern) for pattern in patterns)
        ]

    def candidates(self, *patterns: str) -> list[str]:
        """Return the files that a format looks into: one given alone, else `named`."""
        return [*self.names] if self.is_alone else self.named(*patterns)

    def size_of(self, names: list[str] | tuple[str, ...]) -> int:
        """Return how many bytes some of the files have."""
        return sum(self._sizes[name] for name in names)

    def changed_ms(self, name: str) -> int | None:
        """Return when a file was last changed, as its folder says; None in an archive."""
        if self._archive is not None:
            return None
        whole = self.path if self.is_alone else os.path.join(self.path, name)
        return os.stat(whole).st_mtime_ns // 1_000_000

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive, which does not change."""
        return self._archive is not None

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return when a file was changed, in nanoseconds, and its size; None if it is gone."""
        whole = self.path if self.is_alone else os.path.join(self.path, name)
        try:
            found = os.stat(whole)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def shown(self, name: str) -> str:
        """Return what errors call a file: with the archive or folder it is in."""
        return name if self.is_alone else f"{self.name}/{name}"

    def place(self, name: str, place: str) -> str:
        """Return where in the tree something is: "line 3", or "a.jsonl, line 3" of several."""
        return place if len(self.names) == 1 else f"{name}, {place}"

    def open(self, name: str, *, counts: bool = True) -> Source:
        """
        Open a file; UTF-16 with a byte order mark is read as UTF-8.

        Args:
            counts: What is read is a part of the import, so `done` grows.

        Raises:
            FileError: the file cannot be read.
        """
        with ExitStack() as files:
            shown, most = self.shown(name), None
            try:
                if self._archive is not None:
                    member = self._archive.getinfo(name)
                    most = FREE_BYTES + MAX_RATIO * member.compress_size
                    stream: IO[bytes] = files.enter_context(self._archive.open(member))
                else:
                    whole = self.path if self.is_alone else os.path.join(self.path, name)
                    refuse_live(whole)
                    stream = files.enter_context(open(whole, "rb"))
                if stream.read(2) in UTF_16:
                    stream.seek(0)
                    stream = codecs.EncodedFile(stream, "utf-8", "utf-16")
                else:
                    stream.seek(0)
            except (*UNREADABLE, RuntimeError, NotImplementedError) as error:
                problem = getattr(error, "strerror", None) or str(error)
                raise FileError(
                    f"{shown} cannot be read ({problem}): get it again", shown
                ) from error
            advance = self._advance if counts else None
            return Source(files.pop_all(), stream, shown, most=most, advance=advance)

    def skip_records(self, count: int) -> None:
        """Skip this many records in `first` and `peek`: the first may be a broken one."""
        self._skipped = count
        self._first.clear()
        self._peeked.clear()

    def first(self, name: str) -> Any:
        """
        Return the first JSON value of a file: of its first line, or of the array it is.

        Raises:
            FileError: the file cannot be read.
            InvalidInput: the file is empty, or begins with no JSON.
        """
        if name not in self._first:
            is_array = self.is_array(name)
            with self.open(name, counts=False) as source, self._naming(name):
                if is_array:
                    values = (value for _, value in source.elements())
                    self._first[name] = next(islice(values, self._skipped, None), None)
                elif self._skipped:
                    number, line = next(islice(source.lines(), self._skipped, None), (0, b"null"))
                    self._first[name] = parse_line(number, line)
                else:
                    self._first[name] = first_value(source)
        return self._first[name]

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Add the name of a file to an error of a `with` block."""
        try:
            yield
        except InvalidInput as error:
            shown, reason = self.shown(name), str(error)
            if reason.startswith(shown):
                raise
            raise InvalidInput(f"{shown}: {reason}") from error

    def is_array(self, name: str) -> bool:
        """Return whether a file is a JSON array, and not lines that begin with an array."""
        is_lines = bool(self._skipped) and name.lower().endswith(".jsonl")
        return self.first_character(name) == b"[" and not is_lines

    def first_character(self, name: str) -> bytes:
        """
        Return the first byte of a file that is not white space; b"" if 4 KiB have none.

        One of several that cannot be read has none: its problem says why.

        Raises:
            FileError: the only file cannot be read.
        """
        if name not in self._characters:
            self._characters[name] = b""
            try:
                with self.open(name, counts=False) as source:
                    head = source.read(1 << 12)
            except FileError as error:
                if len(self.names) == 1:
                    raise
                self.problems.setdefault(name, _without_frames(error))
            else:
                self._characters[name] = head.removeprefix(BOM).lstrip()[:1]
        return self._characters[name]

    def has_field(self, name: str, fields: tuple[str, ...]) -> bool:
        """Return whether a file may have a record with one of *fields*: its first 64 KiB tell."""
        if name not in self._heads:
            with self.open(name, counts=False) as source:
                self._heads[name] = source.read(BLOCK_BYTES)
        head, first = self._heads[name], self.peek(name)
        return any(f'"{field}"'.encode() in head or field in first for field in fields)

    def peek(self, name: str) -> dict[str, Any]:
        """Return the first object of a file as `first` does; {} if there is none."""
        if name not in self._peeked:
            value = None
            # What is wrong with a file says the one who reads it; of several the others are read.
            kinds = (InvalidInput,) if len(self.names) == 1 else (InvalidInput, FileError)
            try:
                is_json = not self.is_database and self.first_character(name) in (b"{", b"[")
                if is_json or (self._skipped and name.lower().endswith(".jsonl")):
                    value = self.first(name)
            except kinds as error:
                self.problems.setdefault(name, _without_frames(error))
            self._peeked[name] = value if isinstance(value, dict) else {}
        return self._peeked[name]

    def _advance(self, size: int) -> None:
        self.done += size


def _without_frames(error: InvalidInput | FileError) -> InvalidInput | FileError:
    """Return an error to keep: the frames of one that was raised contain all that was read."""
    if isinstance(error, FileError):
        return FileError(str(error), error.path)
    return InvalidInput(str(error))


def _refuse_many(name: str, count: int) -> None:
    if count > MAX_FILES:
        raise InvalidInput(
            f"{name} has more than {MAX_FILES:,} files, so it is probably not an export: give the "
            "folder of an export"
        )


def _is_hidden(name: str) -> bool:
    """Return whether a file is the system's: it begins with a dot, or is one of `SYSTEM_NAMES`."""
    return any(part.startswith(".") or part in SYSTEM_NAMES for part in name.split("/"))
