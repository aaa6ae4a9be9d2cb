"""
The mark that a part of the file is in its WAL, and checks that file and WAL belong together.

The row 'in_use' of `meta` begins with '1' in the file itself, not only in the WAL, from the
first write until the checkpoint of a close. So a copy of the file alone, or a file whose WAL
was removed, is refused instead of read with acknowledged writes missing. Nothing but memdb's
own close lets SQLite remove a WAL while the row is '1' (`connection.connect`).

The mark also says which WAL that is: '1 SALTS BYTES', the two random numbers in its header and
its size, in hexadecimal. SQLite adds 1 to the first number each time it begins the WAL anew, and
cuts it only in a checkpoint TRUNCATE. Memdb clears the mark before such a one; after that of
another program the next write sets the mark again, in the same transaction (`set_again`). If
one connection begins the WAL anew and another writes its first commit, because the one was
killed or only moved it, SQLite takes other random numbers: that commit is followed by a mark.

Another SQLite program that closes the file last, after memdb was killed, moves the whole WAL
and removes it. To tell this from a WAL that was deleted, the WAL has a second name, a hard
link (`keep_wal`): if the file equals every page of that WAL, nothing is missing.
"""

from __future__ import annotations

import os
from time import sleep, time_ns
from typing import TYPE_CHECKING

import apsw

from memdb.engine import compose
from memdb.engine.sqlite.connection import JOURNAL_LIMIT_BYTES, Tx, connect
from memdb.errors import FileError, MemDBError
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.engine.base import Tx as AnyTx

SELECT_IN_USE = """/* marker.in_use */
SELECT value FROM meta WHERE key = 'in_use'
"""

SET_IN_USE = compose.insert(
    "marker.set_in_use", "meta", key="'in_use'", otherwise=compose.conflict("key", "value")
)

SELECT_MARK = """/* marker.mark */
SELECT
  (SELECT value FROM meta WHERE key = 'file_uid'),
  (SELECT value FROM meta WHERE key = 'in_use')
FROM sqlite_schema
WHERE name = 'meta'
"""

# Moves what it can without waiting for a reader or a writer.
CHECKPOINT_NOW = """/* marker.checkpoint */
PRAGMA wal_checkpoint(PASSIVE)
"""

CHECKPOINT_ALL = """/* marker.checkpoint_all */
PRAGMA wal_checkpoint(TRUNCATE)
"""

# Moves nothing, and says how many frames SQLite has in the WAL.
COUNT_FRAMES = """/* marker.count_frames */
PRAGMA wal_checkpoint(NOOP)
"""

SELECT_PAGE_BYTES = """/* marker.page_bytes */
SELECT page_size FROM pragma_page_size
"""

WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
SALTS = slice(16, 24)

# Bytes of the first page that a change of the journal mode writes without a WAL.
MODE_BYTES = (slice(18, 20), slice(24, 28), slice(92, 100))

# Commits between two tries to get the mark into the file while a reader prevents it.
MAX_PAUSE = 256

# How often a WAL may begin anew while a file is in use: after 4,000 pages each, 64 TB.
MAX_RESTARTS = 1 << 22

# Two writes so soon after each other may have the same time.
CLOCK_STEP_NS = 20_000_000

# In the header of a file. Source: https://www.sqlite.org/fileformat2.html
WAL_MODE_AT, WAL_MODE = 18, b"\x02\x02"

# Tries to see file and WAL of one moment while another process changes both.
TRIES = 5
TRY_S = 0.002


class UseMarker:
    """
    Keeps the mark of one writing connection; the engine's lock guards it.

    Cost: 0.8 µs per write transaction; a second commit and a checkpoint at the first of
    a connection.

    Attributes:
        wal_bytes: The least size of the WAL, as the mark says; 0: not known yet.
    """

    __slots__ = ("_due", "_path", "_pause", "_salts", "_version", "_written", "wal_bytes")

    def __init__(self, path: str) -> None:
        """Begin without a mark of the file at *path*."""
        self._path = path
        # Of the connection, after its last commit with the mark; None: look.
        self._version: tuple[int, int] | None = None
        self._due = 0  # commits until the mark is moved into the file; 0: it is there
        self._pause = 1
        self.wal_bytes = 0  # what the mark says
        self._salts = b""
        self._written = 0  # pages by the connection, up to its last commit

    def set_created(self) -> None:
        """Note that the transaction in progress makes the file, with the mark."""
        keep_wal(self._path)
        self._due = self._pause = 1

    def mark(self, writer: Tx) -> bool:
        """
        Set the mark in a write transaction that has just begun, unless it is set.

        Returns:
            Whether nobody else wrote since the last write of this connection.
        """
        number = writer.number
        if self._version == (number, writer.raw.data_version()):
            return True
        keep_wal(self._path)
        # A WAL of which nothing is left gets other numbers from a new connection.
        if self._version is None or self._version[0] != number or not is_in_use(writer):
            self._set(writer)
        return False

    def set_again(self, writer: Tx) -> None:
        """Set the mark anew, before COMMIT: a checkpoint of another program cut the WAL."""
        self._set(writer)

    def _set(self, writer: Tx) -> None:
        writer.run(SET_IN_USE, {"value": "1"})
        self._due = self._pause = 1
        self.wal_bytes = 0

    def note_commit(self, writer: Tx, wal_pages: int) -> None:
        """
        Complete a mark that was just committed, and move it into the file.

        Args:
            writer: What committed.
            wal_pages: How long the WAL is since.
        """
        if self._version is None and not self._due:
            return  # another process made the file: nothing was marked
        if self._has_begun_other(writer, wal_pages) and not self._due:
            self._due = self._pause = 1
        if self._due:
            self._due -= 1
            if not self._due and not self._is_moved(writer):
                self._pause = self._due = min(self._pause * 2, MAX_PAUSE)
        self._version = writer.number, writer.raw.data_version()

    def _has_begun_other(self, writer: Tx, wal_pages: int) -> bool:
        """
        Return whether the last commit began a WAL whose numbers the mark does not explain.

        A commit that began one wrote all of its pages.
        """
        before = self._written
        self._written = writer.raw.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        if wal_pages > self._written - before or not self._salts:
            return False
        try:
            return not _is_later(read_salts(self._path)[0], self._salts)
        except OSError:  # it is said where the WAL is looked for
            return False

    def _is_moved(self, writer: Tx) -> bool:
        """Write into the mark which WAL it means; return whether the file itself has it now."""
        try:
            writer.begin()
            try:
                salts, size = read_salts(self._path)
                writer.run(SET_IN_USE, {"value": f"1 {salts.hex()} {size:x}"})
                writer.commit()
            finally:
                writer.roll_back()
            (_, in_wal, moved) = writer.all(CHECKPOINT_NOW)[0]
        except (MemDBError, OSError):
            return False  # what was committed is safe all the same
        self.wal_bytes, self._salts = size, salts
        return bool(in_wal == moved)

    def clear(self, writer: Tx) -> int:
        """
        Clear the mark, move the WAL into the file and cut it; return the pages moved.

        To be called with a timeout of 0: while another one writes, nothing happens, as that
        one clears the mark when it closes. Other writers set it again at their next write.
        """
        try:
            self._version = None
            busy, moved = cut_wal(writer)
        except MemDBError:
            return 0  # the WAL is as safe as the file
        if not busy:
            drop_kept_wal(self._path)
        return moved


def cut_wal(tx: Tx) -> tuple[bool, int]:
    """
    Clear the mark, move the WAL into the file and cut it.

    A writer that sets the mark before the WAL is cut, and closes while it is, finds the file
    locked and leaves the mark to us: so it is looked at again afterwards.

    Returns:
        Whether somebody prevents it, and the pages moved.
    """
    busy, moved = _clear_and_cut(tx)
    try:  # not `suppress`: contextlib is a module more to load
        for _ in range(TRIES):
            if busy or not is_in_use(tx):
                break
            busy, more = _clear_and_cut(tx)
            moved += more
    except MemDBError:
        pass  # a writer is at work, and clears the mark when it closes
    return busy, moved


def _clear_and_cut(tx: Tx) -> tuple[bool, int]:
    tx.begin()
    try:
        if is_in_use(tx):
            tx.run(SET_IN_USE, {"value": "0"})
    finally:
        tx.run("COMMIT")
        tx.end()
    (busy, _, moved) = tx.all(CHECKPOINT_ALL)[0]
    return bool(busy), max(0, int(moved))


def missing_wal_bytes(tx: Tx, path: str) -> int:
    """Return how long the WAL has to be for what SQLite has in it, 0 if it is. Cost: 20 µs."""
    try:
        (_, frames, _) = tx.all(COUNT_FRAMES)[0]
        (page_bytes,) = tx.one(SELECT_PAGE_BYTES) or (0,)
        size = os.stat(f"{path}-wal").st_size  # noqa: PTH116
    except (MemDBError, OSError):
        return 0  # said where it is used
    needed = WAL_HEADER_BYTES + int(frames) * (FRAME_HEADER_BYTES + int(page_bytes))
    return needed if frames > 0 and size < needed else 0


def is_in_use(tx: AnyTx) -> bool:
    """Return whether the mark is set, as *tx* sees it."""
    return is_mark_set(*tx.one(SELECT_IN_USE) or ("",))


def is_mark_set(value: str | None) -> bool:
    """Return whether a value of the row 'in_use' says that the file is in use."""
    return value is not None and value.startswith("1")


def has_bytes(path: str) -> bool:
    """Return whether there is a file at *path* that is not empty."""
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116 (pathlib is slow to load)
    except OSError:
        return False


def has_wal(path: str) -> bool:
    """Return whether there is a WAL of the file at *path*."""
    return os.path.exists(f"{path}-wal")  # noqa: PTH110 (pathlib is slow to load)


def read_salts(path: str) -> tuple[bytes, int]:
    """
    Return the salts of the WAL of the file at *path*, and the least size it will have.

    Raises:
        OSError: it has none, or an empty one.
    """
    # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
    handle = os.open(f"{path}-wal", os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        header, size = os.read(handle, WAL_HEADER_BYTES), os.fstat(handle).st_size
    finally:
        os.close(handle)
    if len(header) < WAL_HEADER_BYTES:
        raise OSError
    return header[SALTS], min(size, JOURNAL_LIMIT_BYTES)


def missing_wal(path: str) -> FileError:
    """Return the error for a file with the mark and without a WAL."""
    kept = kept_wal(path)
    if has_bytes(kept):
        way = (
            f"{kept} is the second name of that -wal: if nothing wrote to {path} since, rename it "
            f"to {path}-wal. Else"
        )
    elif os.path.lexists(kept):
        way = (
            "It was emptied: either by hand, or by another SQLite program that moved it into the "
            "file first (wal_checkpoint(TRUNCATE)), which is whole then. Both ways,"
        )
    else:
        way = (
            "Either it was copied alone or the -wal was removed: what was last written is missing, "
            "so put the two together. Or another SQLite program moved the -wal into it: it is "
            "whole. Both ways,"
        )
    return FileError(
        f"{path} was in use when its program ended, and has no -wal. {way} `memdb recover {path} "
        "NEW` checks every row of it and makes a file that opens",
        path,
    )


def cut_wal_error(path: str) -> FileError:
    """Return the error for a file whose WAL is not all there."""
    return FileError(
        f"{path} was in use when its program ended, and {path}-wal is empty or cut: what was last "
        "written is missing, so bring the whole -wal. Or another SQLite program moved it into the "
        f"file and cut it: it is whole. Both ways, `memdb recover {path} NEW` checks every row of "
        "both and makes a file that opens",
        path,
    )


# What may be wrong with a WAL.
FOREIGN, CUT, MISSING = "foreign", "cut", "missing"


def refuse_foreign_wal(path: str) -> None:
    """
    Refuse a WAL that is not that of the file at *path*, or not all of it.

    SQLite would play it in, or take an empty one for nothing to play in. Cost: 0.3 ms, only
    beside a WAL; 0.5 s for 16 MB of another file's.

    Raises:
        FileError: it belongs to another file or to another state of this one, or is cut.
    """
    _raise_problem(path, find_wal_problem(path))


def lost_wal(path: str) -> FileError:
    """Return the error for a write into a WAL that other processes do not see."""
    return FileError(
        f"{path}-wal was removed, cut or replaced while it was open, so this write was refused. "
        "Either somebody did so, or another SQLite library in this process (sqlite3, sqlite-utils, "
        "SQLAlchemy) closed the file, which drops memdb's locks on it: read the file through memdb "
        "or in another process. The next call opens the file anew, and says if something is "
        "missing",
        path,
    )


def refuse_lost_wal(path: str) -> None:
    """
    Refuse also a file that has the mark and no WAL, unless that was moved into the file.

    For a file that was open when its WAL was taken away.

    Raises:
        FileError: what was written last is missing.
    """
    _raise_problem(path, find_wal_problem(path, or_missing=True))


def _raise_problem(path: str, problem: str | None) -> None:
    if problem == MISSING:
        raise missing_wal(path)
    if problem == CUT:
        raise cut_wal_error(path)
    if problem == FOREIGN:
        raise FileError(
            f"{path}-wal belongs to another file, or to another state of {path}: SQLite would mix "
            "the two. Close a program that may have written to it, else bring the -wal that "
            f"belongs to it; `memdb restore BACKUP {path}` puts a backup in place, and `memdb "
            f"recover {path} NEW` takes what the file holds without this -wal",
            path,
        )


def find_wal_problem(path: str, *, or_missing: bool = False) -> str | None:
    """
    Return `FOREIGN` or `CUT` if the WAL of the file at *path* is; None without a WAL.

    *or_missing*: `MISSING` without one, if there has to be one.
    """
    for last in range(TRIES):
        problem = _wal_problem(path) if or_missing or has_wal(path) else None
        if problem == MISSING and not or_missing:
            problem = None
        if problem is None or (problem == MISSING and last):  # comparing costs much
            break
        if last < TRIES - 1:
            sleep(TRY_S)  # another process may just be setting or clearing the mark
    return problem


class Mark(Record):
    """
    What a file says without its WAL.

    Attributes:
        uid: Of the file.
        value: The row 'in_use'.
    """

    uid: bytes
    value: str


def _wal_problem(path: str) -> str | None:
    mark = _read_mark(path)
    if mark is None:
        return None
    wal = f"{path}-wal"
    try:
        size = os.stat(wal).st_size  # noqa: PTH116
    except OSError:
        return MISSING if is_mark_set(mark.value) and not is_wal_moved(path) else None
    if not is_mark_set(mark.value):
        return None if size <= WAL_HEADER_BYTES or _is_own(wal, mark) else FOREIGN
    if size <= WAL_HEADER_BYTES:
        return None if is_wal_moved(path) or _is_open_elsewhere(path) else CUT
    try:
        return _marked_wal_problem(wal, size, mark)
    except OSError:  # removed meanwhile
        return None


def _marked_wal_problem(wal: str, size: int, mark: Mark) -> str | None:
    """Return what is wrong with the WAL, of *size* bytes, of a file that has the mark."""
    from memdb.engine.sqlite.pages import read_frames, wal_salts  # only beside a WAL with content

    salts = wal_salts(wal)
    if salts is None:
        return CUT
    try:
        _, numbers, least_size = mark.value.split()
        first, least = bytes.fromhex(numbers), int(least_size, 16)
    except ValueError:  # a program ended before it knew
        return None
    if salts == first:
        # The mark was made in this very WAL, so it is there.
        value = mark.value.encode()
        frames = read_frames(wal)
        return None if any(value in page for number, page, _ in frames) else CUT
    is_later = _is_later(salts, first)
    if (is_later and size >= least) or _has_mark(wal, mark):
        return None
    if is_later:
        return CUT
    return None if _is_begun_anew(wal, first) else FOREIGN


def _is_later(salts: bytes, first: bytes) -> bool:
    """Return whether a WAL with *salts* is one with *first* that began anew since."""
    restarts = int.from_bytes(salts[:4], "big") - int.from_bytes(first[:4], "big")
    return restarts % (1 << 32) <= MAX_RESTARTS


def _is_begun_anew(wal: str, first: bytes) -> bool:
    """
    Return whether a WAL has nothing but a new header before frames of the one with *first*.

    SQLite writes a header when all frames are in the file. If it ends before the first commit
    after that, the next connection may give the header other salts.
    """
    from memdb.engine.sqlite.pages import read_frames

    if any(pages for _, _, pages in read_frames(wal)):
        return False
    with open(wal, "rb") as file:  # noqa: PTH123 (no POSIX lock is on the WAL itself)
        header = file.read(WAL_HEADER_BYTES)
        step = int.from_bytes(header[8:12], "big") + FRAME_HEADER_BYTES
        while len(frame := file.read(step)) == step:
            if _is_later(frame[8:16], first):
                return True
    return False


def _read_mark(path: str) -> Mark | None:
    """Return what a file says without its WAL; None if that cannot be read."""
    try:
        alone = Tx(connect(path, durability="power", timeout_ms=0, writable=False, immutable=True))
    except MemDBError:
        return None
    try:
        row = alone.one(SELECT_MARK)
    except MemDBError:  # just made, or damaged, which is found later
        return None
    finally:
        alone.close()
    return None if row is None else Mark(str(row[0]).encode(), str(row[1]))


def _is_own(wal: str, mark: Mark) -> bool:
    """Return whether a WAL holds the mark of this file, or nothing that was committed."""
    from memdb.engine.sqlite.pages import read_frames  # only beside a WAL with content

    committed = False
    try:
        for _, content, pages in read_frames(wal):
            if mark.uid in content:  # on any page: a long `meta` moves its rows
                return True
            committed = committed or pages > 0
    except OSError:
        return True
    return not committed


def _has_mark(wal: str, mark: Mark) -> bool:
    """Return whether a WAL holds the mark of this file."""
    from memdb.engine.sqlite.pages import read_frames

    return any(mark.uid in page for _, page, _ in read_frames(wal))


def _is_open_elsewhere(path: str) -> bool:
    """
    Return whether another connection has the file open, whose word on the WAL counts then.

    It may have cut the WAL while memdb was at work: SQLite's `wal_checkpoint(TRUNCATE)`.
    """
    return os.path.exists(f"{path}-shm") and _is_locked(path)  # noqa: PTH110


def refuse_other_names(path: str) -> None:
    """
    Refuse to write to a file that has another name: each of them has a WAL of its own.

    Cost: 20 µs; 10 ms for a file that another program has open in a mode without a WAL.

    Raises:
        FileError: it is a hard link, or is open in a program that has its WAL elsewhere, as
            a container has to which the file alone was mounted.
    """
    if os.stat(path).st_nlink > 1 and os.path.isfile(path):  # noqa: PTH113, PTH116
        raise FileError(
            f"{path} has another name (a hard link), and what is written under one name is not "
            "seen under the other: remove the other name, or open a copy",
            path,
        )
    for _ in range(TRIES):  # who opens the file locks it before the -shm is there
        if os.path.exists(f"{path}-shm") or not is_wal_mode(path) or not _is_locked(path):  # noqa: PTH110
            return
        sleep(TRY_S)
    raise FileError(
        f"{path} is open in a program that knows it by another name (a mounted file or a hard "
        "link), so its -wal is elsewhere: mount or share the folder, or close that program",
        path,
    )


def _is_locked(path: str) -> bool:
    """Return whether another connection has the file open."""
    # Closing a file that was opened in any other way drops the locks of this process.
    try:
        file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
        try:
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        finally:
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
            file.xClose()
    except apsw.BusyError:
        return True
    except apsw.Error:
        return False
    return False


def is_cleared(path: str) -> bool:
    """Return whether the file itself says that all of its WAL was moved into it."""
    mark = _read_mark(path)
    return mark is not None and not is_mark_set(mark.value)


def kept_wal(path: str) -> str:
    """Return the second name of the WAL of the file at *path*."""
    return f"{path}-wal.kept"


def keep_wal(path: str) -> None:
    """
    Give the WAL its second name, unless it has it or the file system has no hard links.

    Cost: two calls of stat, 3 µs; 30 µs to make it.
    """
    wal, kept = f"{path}-wal", kept_wal(path)
    try:
        if os.path.samefile(wal, kept):  # noqa: PTH121 (pathlib is slow to load)
            return
        os.unlink(kept)  # noqa: PTH108
    except OSError:
        pass  # there is none yet
    try:
        os.link(wal, kept)
    except (OSError, AttributeError):
        return


def drop_kept_wal(path: str) -> None:
    """Remove the second name of the WAL."""
    try:
        os.unlink(kept_wal(path))  # noqa: PTH108
    except OSError:
        return


def is_wal_moved(path: str) -> bool:
    """
    Return whether the file at *path* has every page of the WAL that it had last.

    False without that WAL, or if it holds no commit: then nothing is known.
    Cost: 0.5 s for 16 MB; only for a file with the mark and without a WAL.
    """
    from memdb.engine.sqlite.pages import committed_pages  # rarely needed

    pages = committed_pages(kept_wal(path))
    if not pages:
        return False
    # Closing a file that was opened in any other way drops the locks of this process.
    try:
        file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return all(
                _without_mode(number, page)
                == _without_mode(number, file.xRead(len(page), (number - 1) * len(page)))
                for number, page in pages.items()
            )
        finally:
            file.xClose()
    except apsw.Error:
        return False


def _without_mode(number: int, page: bytes) -> bytes:
    """Return a page; of the first, without what a change of the journal mode writes."""
    if number > 1:
        return page
    content = bytearray(page)
    for place in MODE_BYTES:
        content[place] = bytes(place.stop - place.start)
    return bytes(content)


def let_close(connection: apsw.Connection) -> None:
    """Let SQLite move the WAL into the file and remove it, if *connection* is the last."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def file_state(path: str) -> tuple[int, ...]:
    """Return device, inode, size and time of the last write of a file; () without one."""
    try:
        found = os.stat(path)  # noqa: PTH116 (pathlib is slow to load)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def untouched_state(path: str) -> tuple[int, ...] | None:
    """Return the state of a file that nobody is writing to, None if somebody may be."""
    state = file_state(path)
    if not state or has_wal(path) or os.path.lexists(f"{path}-journal"):
        return None
    return state if abs(time_ns() - state[-1]) > CLOCK_STEP_NS else None


def is_wal_mode(path: str) -> bool:
    """Return whether a file is in WAL mode, so that opening it makes files beside it."""
    # Closing a file that was opened in any other way drops the locks of this process.
    try:
        file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return file.xRead(len(WAL_MODE), WAL_MODE_AT) == WAL_MODE
        finally:
            file.xClose()
    except apsw.Error:
        return False
