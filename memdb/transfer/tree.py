"""
What an import is given: one file, the files of a folder, or the members of an archive.

A format says by their names and their first objects which of them are its own. Nothing is
unpacked to the disk.
"""

from __future__ import annotations

import codecs
import os
import zipfile
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Self

from memdb.errors import FileError, InvalidInput
from memdb.text.validate import refuse_special
from memdb.transfer.files import is_database
from memdb.transfer.source import (
    BOM,
    FREE_BYTES,
    MAX_RATIO,
    UNREADABLE,
    Source,
    first_value,
    parse_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        refuse_special(path)
        self.path = os.fspath(path)
        self.name = os.path.basename(os.path.abspath(self.path))  # noqa: PTH100, PTH119
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
        try:
            if os.path.isdir(self.path):  # noqa: PTH112
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
        with open(self.path, "rb") as file:  # noqa: PTH123
            head = file.read(4)
        if not head.startswith((ZIP_MAGIC, EMPTY_ZIP_MAGIC)):
            self.is_alone = True
            self.is_database = is_database(self.path)
            self._sizes[self.name] = os.stat(self.path).st_size  # noqa: PTH116
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
        sizes = {}

        def refuse(path: str, why: str) -> None:
            self.refused[os.path.relpath(path, folder).replace(os.sep, "/")] = why

        def unreadable(error: OSError) -> None:
            below = os.path.relpath(error.filename, folder).replace(os.sep, "/")
            self.unreadable[below] = f"it cannot be read ({error.strerror}): check its permissions"

        for parent, folders, names in os.walk(folder, onerror=unreadable):
            folders[:] = sorted(one for one in folders if not _is_hidden(one))
            for name in sorted([*folders, *names]):
                whole = os.path.join(parent, name)  # noqa: PTH118
                if _is_hidden(name):
                    continue
                if os.path.islink(whole):  # noqa: PTH114
                    refuse(whole, "links are not followed")
                elif os.path.isfile(whole):  # noqa: PTH113
                    below = os.path.relpath(whole, folder).replace(os.sep, "/")
                    sizes[below] = os.stat(whole).st_size  # noqa: PTH116
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
        whole = self.path if self.is_alone else os.path.join(self.path, name)  # noqa: PTH118
        return os.stat(whole).st_mtime_ns // 1_000_000  # noqa: PTH116

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive, which does not change."""
        return self._archive is not None

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return when a file was changed, in nanoseconds, and its size; None if it is gone."""
        whole = self.path if self.is_alone else os.path.join(self.path, name)  # noqa: PTH118
        try:
            found = os.stat(whole)  # noqa: PTH116
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
            FileError: it cannot be read.
        """
        with ExitStack() as files:
            shown, most = self.shown(name), None
            try:
                if self._archive is not None:
                    member = self._archive.getinfo(name)
                    most = FREE_BYTES + MAX_RATIO * member.compress_size
                    stream: IO[bytes] = files.enter_context(self._archive.open(member))
                else:
                    whole = self.path if self.is_alone else os.path.join(self.path, name)  # noqa: PTH118
                    refuse_special(whole)
                    stream = files.enter_context(open(whole, "rb"))  # noqa: PTH123
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
        """Let `first` and `peek` pass over so many records: the first may be a broken one."""
        self._skipped = count
        self._first.clear()
        self._peeked.clear()

    def first(self, name: str) -> Any:
        """
        Return the first JSON value of a file: of its first line, or of the array it is.

        Raises:
            FileError: it cannot be read.
            InvalidInput: it is empty, or begins with no JSON.
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
        """Let an error of a `with` block begin with the name of a file."""
        try:
            yield
        except InvalidInput as error:
            shown, reason = self.shown(name), str(error)
            if reason.startswith(shown):
                raise
            raise InvalidInput(f"{shown}: {reason}") from error

    def is_array(self, name: str) -> bool:
        """Say whether a file is a JSON array: not lines of which the first is one."""
        is_lines = bool(self._skipped) and name.lower().endswith(".jsonl")
        return self.first_character(name) == b"[" and not is_lines

    def first_character(self, name: str) -> bytes:
        """
        Return the first byte of a file that is no white space; b"" if 4 KiB have none.

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
    """Return an error to keep: the frames of one that was raised hold all that was read."""
    if isinstance(error, FileError):
        return FileError(str(error), error.path)
    return InvalidInput(str(error))


def _refuse_many(name: str, count: int) -> None:
    if count > MAX_FILES:
        raise InvalidInput(
            f"{name} has more than {MAX_FILES:,} files: give the folder of an export"
        )


def _is_hidden(name: str) -> bool:
    """Say whether a file is the system's: it begins with a dot, or is one of `SYSTEM_NAMES`."""
    return any(part.startswith(".") or part in SYSTEM_NAMES for part in name.split("/"))
