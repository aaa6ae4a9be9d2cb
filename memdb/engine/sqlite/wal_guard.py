"""
The WAL guard: what a commit checks, and how a foreign WAL is treated.

The last writes are in FILE-wal until a checkpoint moves them into FILE. The row 'in_use' of `meta`
is a mark, 'FLAG SALTS PREVIOUS SIZE SCHEMA'. The first write of a burst sets the flag to 1. Some
milliseconds later the upkeep thread moves the mark into the file itself. A second after the last
write it moves the whole WAL, clears the flag and truncates the WAL. So an idle file is complete
without its WAL.

SALTS are the two random numbers in the header of the WAL that the file needs, or needed last.
PREVIOUS are the salts before them. SIZE is the length of that WAL. Each WAL names both in its first
commits, so a WAL belongs to a file if it names the file's salts. SCHEMA is SQLite's schema version.
Files that `.backup`, `VACUUM INTO` or `.dump` made have another version; they have no WAL and need
none.

A file is never refused because its WAL is missing or foreign. It then has the content of its last
checkpoint. A foreign WAL is moved aside and never applied, and `check` reports "wal_missing" until
somebody accepts it (ADR-0058).
"""

from __future__ import annotations

import os
import re
import struct
from contextlib import suppress
from time import sleep, time_ns
from typing import TYPE_CHECKING, Self, TypeVar

import apsw

from memdb.engine import compose
from memdb.engine.sqlite.cipher import PART_BYTES, read_parts, read_start
from memdb.engine.sqlite.connection import JOURNAL_LIMIT_BYTES, Tx, connect
from memdb.errors import Busy, FileError, MemDBError
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Tx as AnyTx
    from memdb.models.keys import FileKey

T = TypeVar("T")

SELECT_MARK = """/* wal.mark */
SELECT value FROM meta WHERE key = 'in_use'
"""

SET_MARK = compose.insert(
    "wal.set_mark", "meta", key="'in_use'", otherwise=compose.conflict("key", "value")
)

SET_LOSS = compose.insert(
    "wal.set_loss", "meta", key="'wal_missing'", otherwise=compose.conflict("key", "value")
)

SELECT_LOSS = """/* wal.loss */
SELECT value FROM meta WHERE key = 'wal_missing'
"""

DELETE_LOSS = """/* wal.accept_loss */
DELETE FROM meta WHERE key = 'wal_missing'
"""

# Moves what it can without waiting for a reader or a writer.
CHECKPOINT_NOW = """/* wal.checkpoint */
PRAGMA wal_checkpoint(PASSIVE)
"""

CHECKPOINT_ALL = """/* wal.checkpoint_all */
PRAGMA wal_checkpoint(TRUNCATE)
"""

# Moves nothing, and returns how many frames SQLite has in the WAL.
COUNT_FRAMES = """/* wal.count_frames */
PRAGMA wal_checkpoint(NOOP)
"""

# The header of the file has it too.
SELECT_SCHEMA = """/* wal.schema */
SELECT schema_version FROM pragma_schema_version
"""

SELECT_PAGE_BYTES = """/* wal.page_bytes */
SELECT page_size FROM pragma_page_size
"""

WAL_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
# Source: https://www.sqlite.org/fileformat2.html#walformat (the last bit: byte order)
WAL_MAGIC = 0x377F0682
MAX_PAGE_BYTES = 65_536
SALTS = slice(16, 24)
MARK = re.compile(rb"in_use[01] ")

# In the header of a file. Source: https://www.sqlite.org/fileformat2.html
WAL_MODE_AT, WAL_MODE = 18, b"\x02\x02"
CHANGE_COUNTER_AT, PAGE_COUNT_AT, SCHEMA_AT = 24, 28, 40

# SQLite adds 1 to the first salt when it restarts a WAL: after 4,000 pages each, 64 TB.
MAX_RESTARTS = 1 << 22

# Tries to see file and WAL of one moment while another process changes both.
TRIES, TRY_S = 5, 0.002

# How long a process that has the file open may wait for a processor between two of its steps,
# before what it left half done is taken for a fault.
PATIENCE_S = 2.0

# Two writes so soon after each other may have the same time.
CLOCK_STEP_NS = 20_000_000

HEX, MOST_DIGITS = frozenset("0123456789abcdef"), 16  # of a size

MISSING, FOREIGN = "missing", "foreign"


class Mark(Record):
    """Value of the row 'in_use': flag, salts, previous salts, least size of the WAL, schema."""

    is_set: bool
    salts: str
    previous: str
    size: int = 0
    schema: str = "-"

    @classmethod
    def read(cls, value: str) -> Self:
        """Read a value; a file made by other programs may lack it."""
        flag, salts, previous, size, schema = [*value.split(" "), "", "", "", "", ""][:5]
        return cls(
            is_set=flag == "1",
            salts=salts,
            previous=previous,
            size=int(size[:MOST_DIGITS] or "0", 16) if HEX.issuperset(size[:MOST_DIGITS]) else 0,
            schema=schema,
        )

    def __str__(self) -> str:
        """Return the value."""
        names = self.salts or "-", self.previous or "-"
        return f"{self.is_set:d} {' '.join(names)} {self.size:x} {self.schema or '-'}"


def read_mark(tx: AnyTx) -> Mark:
    """Return the mark as *tx* sees it."""
    return Mark.read(*map(str, tx.one(SELECT_MARK) or ("",)))


class WalGuard:
    """
    The mark of one open file, and the checks of its commits; guarded by the writers' lock.

    Cost: 4 µs per write transaction; the first of a burst needs a second commit.

    Attributes:
        loss: The loss to report with the next write.
    """

    def __init__(self, path: str, key: FileKey | None = None) -> None:
        """Begin without the mark of the file at *path*, encrypted with *key*."""
        self._path, self._wal, self._key = path, f"{path}-wal", key
        self.loss: str | None = None
        self._writer = 0  # the number of the connection that committed last
        self._looked: tuple[int, int] | None = None  # what an idle file was like when last seen
        self._mark = Mark.read("")  # as of then, or as the transaction found it
        self._is_marked = False  # by this connection, in this burst
        self._begun = False  # whether the transaction was begun here
        self._is_new = False  # whether it is the first of a burst, or of the connection
        self._changes = 0  # rows that the connection had changed when it was begun
        self._new: Mark | None = None  # set by the transaction, with a loss
        self._schema = ""  # SQLite's number of the schema
        self._size = 0  # of the WAL after that commit
        self._page_bytes = 0
        self._written = 0  # pages by the connection, before the transaction
        self._file: tuple[int, ...] = ()

    def note_file(self) -> None:
        """Store size and time of the file, which only SQLite may change from now on."""
        self._file = file_state(self._path)[2:]

    def begin(self, writer: Tx) -> bool:
        """
        Check the mark in a write transaction that has just begun; store a loss.

        Returns:
            Whether no other connection wrote since the last write of this one.
        """
        self._begun, self._is_new, self._new = True, False, None
        self._written = writer.raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        if writer.is_alone and self._is_marked and self.loss is None:
            return True
        if not writer.is_alone:
            self._mark, self._size, self._is_marked = read_mark(writer), 0, False
            self._schema = str(*writer.one(SELECT_SCHEMA) or ("",))
        is_first = self._writer != writer.number or self._mark.schema != self._schema
        self._is_new = is_first or not self._mark.is_set or self.loss is not None
        self._changes = writer.raw.total_changes()
        if self.loss is not None:
            writer.run(SET_LOSS, {"value": self.loss})
            self._set(writer, Mark(False, os.urandom(8).hex(), self._mark.salts))
        return writer.is_alone

    def _set(self, writer: Tx, mark: Mark) -> None:
        """Store *mark* in the open transaction."""
        self._new = mark
        writer.known()
        writer.run(SET_MARK, {"value": str(mark)})
        writer.keep_known()

    def prepare_commit(self, tx: Tx, identity: tuple[int, ...]) -> str:
        """
        Set the mark if the commit needs it; return why nobody could read the commit, or "".

        Call it before COMMIT. A commit that may begin a new WAL then names the WAL of the file. If
        this process ends before `note_commit`, the next process recognises the WAL by that name.

        Cost: two calls of stat, 3 µs.
        """
        try:
            file, wal = os.stat(self._path), os.stat(self._wal)
        except OSError:
            return "" if tx.wal == (0, 0) and has_bytes(self._path) else "removed"
        if (file.st_dev, file.st_ino) != identity:
            return "removed"
        if tx.wal not in ((wal.st_dev, wal.st_ino), (0, 0)):
            return "removed"
        if wal.st_size < self._size and tx.is_alone:
            return "cut"
        mark = self._new or self._mark
        is_named = mark.is_set and wal.st_size >= mark.size
        if not is_named and mark.salts and tx.raw.total_changes() != self._changes:
            self._set(tx, mark.replace(is_set=True, size=min(mark.size, wal.st_size)))
        if (file.st_size, file.st_mtime_ns) == self._file:
            return ""
        return "replaced" if self.is_replaced((self._mark, self._new or self._mark)) else ""

    def is_replaced(self, marks: tuple[Mark, ...]) -> bool:
        """
        Return whether another file was written over this one, which keeps its inode.

        *marks*: the marks as SQLite reads them. Cost: 0.3 ms after each checkpoint, else one call
        of stat.
        """
        state = file_state(self._path)[2:]
        if state == self._file:
            return False
        alone = read_alone(self._path, self._key)
        if alone is not None and alone.mark.salts:
            salts = alone.mark.salts
            names = [name for mark in marks for name in (mark.salts, mark.previous)]
            if salts not in names and not _names_salts(self._path, salts, self._key):
                return True
        self._file = state
        return False

    def note_commit(self, writer: Tx, wal_pages: int) -> bool:
        """
        Set the mark after the first commit of a burst, which gives the WAL its salts.

        Args:
            writer: The connection that committed.
            wal_pages: Length of the WAL since that commit.

        Returns:
            Whether a burst has begun, so that the file itself needs the mark.
        """
        if not self._begun:
            writer.version = -1  # another process made the file: the next write reads its mark
            return False
        self._begun = False
        if self._new is not None:
            self._mark, self._new, self.loss = self._new, None, None
        written = writer.raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0] - self._written
        if not written:
            return False  # nothing was committed
        self._writer = writer.number
        # A commit that restarts a WAL writes all of its pages.
        self._is_marked = True
        if self._is_new or wal_pages <= written:
            try:
                self._name_wal(writer)
            except (MemDBError, OSError):
                self._is_marked = False  # what was committed is safe; the next write tries again
        self._size = wal_pages * self._page_bytes
        return self._is_new

    def _name_wal(self, writer: Tx) -> None:
        """Write the identity of the WAL into the mark."""
        mark = self._mark
        salts, self._page_bytes, size = read_header(self._path)
        if salts == mark.salts and mark.is_set and mark.schema == self._schema:
            return
        previous = mark.previous if salts == mark.salts else mark.salts
        size = min(size, JOURNAL_LIMIT_BYTES)
        mark = Mark(is_set=True, salts=salts, previous=previous, size=size, schema=self._schema)
        writer.begin()
        try:
            if not writer.is_alone:
                raise Busy("another process wrote meanwhile")  # the next write looks
            self._set(writer, mark)
            writer.commit()
        finally:
            writer.roll_back()
        self._mark = mark

    def move_mark(self, writer: Tx) -> None:
        """Move pages and the mark into the file, as far as that needs no waiting."""
        is_known = file_state(self._path)[2:] == self._file
        writer.all(CHECKPOINT_NOW)
        if is_known:
            self.note_file()

    def rest_if_idle(self, writer: Tx) -> bool:
        """Do as `rest`, unless others wrote since the last call; return whether all is done."""
        version = writer.raw.data_version()
        if version != writer.version and (writer.number, version) != self._looked:
            self._looked = writer.number, version
            return not read_mark(writer).is_set
        return self.rest(writer) is not None

    def rest(self, writer: Tx) -> int | None:
        """
        Clear the mark, move the WAL into the file and truncate it; return the pages moved.

        Call it with a timeout of 0. Returns None if another connection reads or writes. Then the
        WAL stays, which is as safe as the file.
        """
        try:
            (_, in_wal, moved) = writer.all(CHECKPOINT_NOW)[0]
            self.note_file()
            return self.clear(writer) if in_wal == moved else None
        except MemDBError:
            self.note_file()
            return None

    def clear(self, writer: Tx, work: Callable[[Tx], None] | None = None) -> int | None:
        """
        Do as `rest`, without looking for readers first.

        Args:
            work: Other statements of the transaction that clears the mark.
        """
        try:
            busy, moved = cut_wal(writer, work)
            self._mark, writer.version = read_mark(writer), writer.raw.data_version()
        except MemDBError:
            busy, moved = True, 0
        self._is_marked, self._size = False, 0
        self.note_file()
        return None if busy else moved


def cut_wal(tx: Tx, work: Callable[[Tx], None] | None = None) -> tuple[bool, int]:
    """
    Clear the mark after *work* in one transaction, move the WAL into the file and truncate it.

    A writer may set the mark before the WAL is truncated, and close meanwhile. It then finds the
    file locked and leaves the mark to this process, which reads it again afterwards.

    Returns:
        Returns whether another connection prevents it, and the pages moved.
    """
    busy, moved = _clear_and_cut(tx, work)
    try:
        for _ in range(TRIES):
            if busy or not read_mark(tx).is_set:
                break
            busy, more = _clear_and_cut(tx)
            moved += more
    except MemDBError:
        pass  # a writer is at work, and clears the mark when it has done
    return busy, moved


def _clear_and_cut(tx: Tx, work: Callable[[Tx], None] | None = None) -> tuple[bool, int]:
    tx.begin()
    try:
        if work is not None:
            work(tx)
        mark = read_mark(tx)
        if mark.is_set:
            tx.run(SET_MARK, {"value": str(mark.replace(is_set=False))})
        tx.commit()
    finally:
        tx.roll_back()
    (busy, _, moved) = tx.all(CHECKPOINT_ALL)[0]
    return bool(busy), max(0, int(moved))


class Alone(Record):
    """Content of a file without its WAL, and whether SQLite copied the file with its whole WAL."""

    mark: Mark
    counter: int
    pages: int
    is_copy: bool


def read_alone(path: str, key: FileKey | None = None) -> Alone | None:
    """Return the content of a file without its WAL; None if it cannot be read. Cost: 0.3 ms."""
    try:
        alone = Tx(
            connect(path, durability="power", timeout_ms=0, writable=False, immutable=True, key=key)
        )
    except MemDBError:
        return None
    try:
        mark, header = read_mark(alone), read_start(path)
        places = CHANGE_COUNTER_AT, PAGE_COUNT_AT, SCHEMA_AT
        counter, pages, schema = (int.from_bytes(header[at : at + 4], "big") for at in places)
        if key is not None:  # the header is encrypted but for its first bytes
            counter, pages, schema = 0, 0, int(*alone.one(SELECT_SCHEMA) or (0,))
        return Alone(mark, counter, pages, mark.schema.isdigit() and mark.schema != str(schema))
    except MemDBError:  # just made, another program's, or damaged, which is found later
        return None
    finally:
        alone.close()


def find_wal_problem(path: str, key: FileKey | None = None) -> str | None:
    """
    Return `FOREIGN` if the WAL at *path* belongs to another file, `MISSING` if there is none.

    Returns None if all is well. Cost: 0.5 ms; 0.5 s for 16 MB of another file's WAL; 2 s for a
    problem of a file that others have open, because they may be setting or clearing the mark.
    """
    return _lasting(path, lambda: _wal_problem(path, key))


def _lasting(path: str, find: Callable[[], T]) -> T:
    """Return what *find* returns, repeated while others may be opening or closing the file."""
    end, tries = time_ns() + int(PATIENCE_S * 1e9), TRIES
    while (found := find()) and (tries > 1 or (time_ns() < end and _is_open(path))):
        tries -= 1
        sleep(TRY_S)
    return found


def _wal_problem(path: str, key: FileKey | None) -> str | None:
    alone = read_alone(path, key)
    if alone is None:
        return None
    if key is not None:
        return _encrypted_wal_problem(path, alone, key)
    mark, wal = alone.mark, f"{path}-wal"
    size, counters, has_marks = 0, [], False
    with suppress(OSError):  # there is none
        for frames, size in _read_commits(wal):  # noqa: B007 (the last is used)
            for number, page in frames:
                if mark.salts and mark.salts.encode() in page:
                    return None
                has_marks = has_marks or MARK.search(page) is not None
                if number == 1:
                    counters.append(int.from_bytes(page[CHANGE_COUNTER_AT:][:4], "big"))
    if not size:
        return _empty_wal_problem(path, alone)
    # Another program's, or one that was restarted by a process that ended in that moment.
    follows = alone.counter in {*counters, *(one - 1 for one in counters[:1])}
    if not counters:
        follows = size == alone.pages
    is_markless = not has_marks and (not mark.is_set or _is_later(path, mark))
    if follows and (is_markless or not mark.salts):
        return None
    return FOREIGN


def _empty_wal_problem(path: str, alone: Alone) -> str | None:
    """Return `MISSING`; None if the file needs no WAL, or a process ended in its first commit."""
    is_whole = not alone.mark.is_set or alone.is_copy or _is_later(path, alone.mark)
    return None if is_whole else MISSING


def _encrypted_wal_problem(path: str, alone: Alone, key: FileKey) -> str | None:
    """Do as `_wal_problem` for a WAL whose pages are encrypted on the disk."""
    try:
        has_commits = any(size for _, _, size in read_frames(f"{path}-wal"))
    except OSError:
        has_commits = False
    if not has_commits:
        return _empty_wal_problem(path, alone)
    is_own = not alone.mark.salts or _names_salts(path, alone.mark.salts, key)
    return None if is_own else FOREIGN


def _read_commits(wal: str) -> Iterator[tuple[list[tuple[int, bytes]], int]]:
    """Yield the pages (number, content) of each commit in a WAL, and the size of the file."""
    frames = []
    for number, page, size in read_frames(wal):
        frames.append((number, page))
        if size:
            yield frames, size
            frames = []


def read_frames(wal: str) -> Iterator[tuple[int, bytes, int]]:
    """
    Yield page number and content of each frame of a WAL, and the pages of the file after a commit.

    The last value is 0 if the frame does not end a transaction. Like SQLite it stops at the first
    frame with a wrong checksum: a power cut leaves a commit whose pages never reached the disk.

    Raises:
        OSError: there is no WAL, or it cannot be read.
    """
    with open(wal, "rb") as file:
        header = file.read(WAL_HEADER_BYTES)
        order = _order(header)
        if order is None:
            return
        page_bytes, salts = int.from_bytes(header[8:12], "big"), header[16:24]
        sums = _checksum(header[:24], order, (0, 0))
        while len(frame := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
            if frame[8:16] != salts:  # left over from before the last checkpoint
                return
            page = file.read(page_bytes)
            if len(page) < page_bytes:
                return
            sums = _checksum(page, order, _checksum(frame[:8], order, sums))
            if struct.pack(">II", *sums) != frame[16:24]:
                return
            yield int.from_bytes(frame[:4], "big"), page, int.from_bytes(frame[4:8], "big")


def _order(header: bytes) -> str | None:
    """Return the byte order of a WAL's checksums by its header; None for a wrong header."""
    if len(header) < WAL_HEADER_BYTES or int.from_bytes(header[8:12], "big") > MAX_PAGE_BYTES:
        return None
    if int.from_bytes(header[:4], "big") & ~1 != WAL_MAGIC:  # zeros have a sound checksum
        return None
    order = ">" if header[3] & 1 else "<"
    sums = _checksum(header[:24], order, (0, 0))
    return order if struct.pack(">II", *sums) == header[24:32] else None


def _checksum(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _names_salts(path: str, salts: str, key: FileKey | None) -> bool:
    """Return whether the WAL of a file has the *salts*, or names them in its first commits."""
    try:
        if key is not None:
            if read_header(path)[0] == salts:
                return True
            mark = _read_played(path, key)
            return mark is not None and salts in (mark.salts, mark.previous)
        commits = _read_commits(f"{path}-wal")
        return any(salts.encode() in page for frames, _ in commits for _, page in frames)
    except OSError:
        return False


def _read_played(path: str, key: FileKey) -> Mark | None:
    """
    Return the mark of an encrypted file with its WAL applied; None if they do not match.

    Only a connection can decrypt the pages, so they are read in a copy beside the file.
    """
    copy, ends = f"{path}.played-{os.getpid()}", ("", "-wal", "-shm")
    tx = None
    try:
        with open(copy, "wb") as file:
            file.writelines(read_parts(path))
        # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
        with open(f"{path}-wal", "rb") as wal, open(f"{copy}-wal", "wb") as file:
            file.writelines(iter(lambda: wal.read(PART_BYTES), b""))
        tx = Tx(connect(copy, durability="process", timeout_ms=0, writable=False, key=key))
        return read_mark(tx)
    except MemDBError:
        return None
    finally:
        if tx is not None:
            tx.close()
        for end in ends:
            with suppress(OSError):
                os.remove(f"{copy}{end}")


def _is_later(path: str, mark: Mark) -> bool:
    """Return whether the WAL of a file matches its mark, or follows it, and is not cut."""
    try:
        salts, _, size = read_header(path)
        restarts = int(salts[:8], 16) - int(mark.salts[:8], 16)
    except (OSError, ValueError):
        return False
    return size >= max(mark.size, WAL_HEADER_BYTES + 1) and restarts % (1 << 32) <= MAX_RESTARTS


def read_header(path: str) -> tuple[str, int, int]:
    """
    Return the WAL's salts in hexadecimal, the size of its pages, and its own size.

    Raises:
        OSError: there is no WAL, or it is empty.
    """
    # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
    with open(f"{path}-wal", "rb") as file:
        header, size = file.read(WAL_HEADER_BYTES), os.fstat(file.fileno()).st_size
    if len(header) < WAL_HEADER_BYTES:
        raise OSError
    return header[SALTS].hex(), int.from_bytes(header[8:12], "big"), size


def settle(
    path: str, timeout_ms: int, *, is_read_only: bool, key: FileKey | None = None
) -> str | None:
    """
    Move a foreign WAL of the file at *path* aside; return the loss to report, or None.

    Call it before SQLite opens the file. With *is_read_only* a foreign WAL stays, and only its loss
    is returned.

    Raises:
        Busy: another program has the file open with that WAL.
    """
    problem = find_wal_problem(path, key)
    if problem == MISSING:
        return (
            f"{path} was in use when its program ended, and its -wal is missing: if the file was "
            "copied alone or the -wal was removed, what was written in the last moments is lost. "
            "If another program moved the -wal into the file, nothing is"
        )
    if problem != FOREIGN:
        return None
    if is_read_only:
        return f"{path}-wal is not the -wal of this file, so it is not read"
    file = _lock_alone(path, timeout_ms)
    try:
        if find_wal_problem(path, key) != FOREIGN:
            return None  # another process was faster
        number = 1
        while os.path.lexists(f"{path}-wal.lost-{number}"):
            number += 1
        os.rename(f"{path}-wal", f"{path}-wal.lost-{number}")
    finally:
        file.xClose()
    return (
        f"{path}-wal was not the -wal of this file, or not all of it: it is set aside as "
        f"{path}-wal.lost-{number}, and the file is as it was at its last checkpoint"
    )


def open_locked(path: str) -> apsw.VFSFile:
    """
    Return a file handle that no connection shares, locked until it is closed.

    Raises:
        apsw.BusyError: a connection has it open.
    """
    # Closing a file that was opened in any other way drops the locks of this process.
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
    try:
        file.xLock(apsw.SQLITE_LOCK_SHARED)
        file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
    except BaseException:
        file.xClose()
        raise
    return file


def _lock_alone(path: str, timeout_ms: int) -> apsw.VFSFile:
    deadline = time_ns() + timeout_ms * 1_000_000
    while True:
        try:
            return open_locked(path)
        except apsw.BusyError as error:
            if time_ns() > deadline:
                raise Busy(
                    f"{path}-wal does not belong to this file, and another program has both open: "
                    "close that program first"
                ) from error
        sleep(TRY_S)


def refuse_other_names(path: str) -> None:
    """
    Refuse to write to a file with a second name, because each name has a separate WAL.

    Cost: 20 µs; 2 s if the file is refused.

    Raises:
        FileError: it is a hard link, or is open in a program that has its WAL in another place. A
            container has, if only the file was mounted into it.
    """
    if os.stat(path).st_nlink > 1 and os.path.isfile(path):
        raise FileError(
            f"{path} has a second name (a hard link), and text written under one name cannot be "
            "seen under the other: remove the other name, or open a copy",
            path,
        )
    # Who opens the file locks it before the -shm is there, and who closes it removes that first.
    if _lasting(path, lambda: _is_open_elsewhere(path)):
        raise FileError(
            f"{path} is open in a program under another name (a mounted file or a hard link), so "
            "its -wal is in another place: mount or share the whole folder, or close that program",
            path,
        )


def _is_open_elsewhere(path: str) -> bool:
    return not os.path.exists(f"{path}-shm") and is_wal_mode(path) and _is_open(path)


def _is_open(path: str) -> bool:
    """Return whether another connection has the file open."""
    try:
        file = open_locked(path)
    except apsw.BusyError:
        return True
    except apsw.Error:
        return False
    file.xClose()
    return False


def is_cleared(path: str, key: FileKey | None) -> bool:
    """Return whether the mark in the file says that its whole WAL was moved into it."""
    alone = read_alone(path, key)
    return alone is not None and not alone.mark.is_set


def missing_wal_bytes(tx: Tx, path: str) -> int:
    """Return the length that the WAL must have for its commits, 0 if it has it. Cost: 20 µs."""
    try:
        (_, frames, _) = tx.all(COUNT_FRAMES)[0]
        if frames <= 0:
            return 0
        (page_bytes,) = tx.one(SELECT_PAGE_BYTES) or (0,)
        size = os.stat(f"{path}-wal").st_size
    except (MemDBError, OSError):
        return 0  # said where it is used
    needed = WAL_HEADER_BYTES + int(frames) * (FRAME_HEADER_BYTES + int(page_bytes))
    return needed if size < needed else 0


def lost_wal(path: str) -> FileError:
    """Return the error for a write into a WAL that other processes cannot see."""
    return FileError(
        f"{path} or its -wal was removed, cut or replaced while it was open, so this write was "
        "refused. Either somebody did so, or another SQLite library in this process (sqlite3, "
        "sqlite-utils, SQLAlchemy) closed the file, which drops memdb's locks on it: read the file "
        "through memdb or in another process. The next call opens the file again, and `check` "
        "reports what is missing",
        path,
    )


def has_bytes(path: str) -> bool:
    """Return whether there is a non-empty file at *path*."""
    return any(file_state(path)[2:3])


def let_close(connection: apsw.Connection) -> None:
    """Allow SQLite to move the WAL into the file and remove it, if *connection* is the last one."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def file_state(path: str) -> tuple[int, ...]:
    """Return device, inode, size and time of the last write of a file; () if it is absent."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def untouched_state(path: str) -> tuple[int, ...] | None:
    """Return the state of a file that nobody is writing; None if somebody may be."""
    state = file_state(path)
    if not state or any(map(os.path.lexists, (f"{path}-wal", f"{path}-journal"))):
        return None
    return state if abs(time_ns() - state[-1]) > CLOCK_STEP_NS else None


def is_wal_mode(path: str) -> bool:
    """Return whether a file is in WAL mode, so that opening it creates files beside it."""
    return read_start(path)[WAL_MODE_AT:][:2] == WAL_MODE
