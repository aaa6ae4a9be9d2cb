"""
Find a WAL that does not belong to its file, or is missing, before SQLite opens both.

A file is never refused because its WAL is missing or foreign. The file then has the content of its
last checkpoint. A foreign WAL is moved aside and never applied, and `check` reports "wal_missing"
until somebody accepts it (ADR-0058).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from time import sleep, time_ns
from typing import TYPE_CHECKING, TypeVar

import apsw

from memdb.engine.files import CHUNK_BYTES, read_chunks, read_start
from memdb.engine.sqlite.connection import Tx, connect
from memdb.engine.sqlite.mark import SELECT_SCHEMA, Mark, read_mark
from memdb.engine.sqlite.wal_file import (
    TRIES,
    TRY_S,
    WAL_HEADER_BYTES,
    is_wal_mode,
    read_commits,
    read_frames,
    read_header,
)
from memdb.errors import Busy, FileError, MemDBError
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.models.keys import FileKey

T = TypeVar("T")

MARK = re.compile(rb"in_use[01] ")

CHANGE_COUNTER_AT, PAGE_COUNT_AT, SCHEMA_AT = 24, 28, 40

# SQLite adds 1 to the first salt when it restarts a WAL: after 4,000 pages each, 64 TB.
MAX_RESTARTS = 1 << 22

# How long a process that has the file open may wait for a processor between two of its steps,
# before what it left half done is taken for a fault.
PATIENCE_S = 2.0

MISSING, FOREIGN = "missing", "foreign"


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
        offsets = CHANGE_COUNTER_AT, PAGE_COUNT_AT, SCHEMA_AT
        counter, pages, schema = (int.from_bytes(header[at : at + 4], "big") for at in offsets)
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
        for frames, size in read_commits(wal):  # noqa: B007 (the last is used)
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
    is_own = not alone.mark.salts or names_salts(path, alone.mark.salts, key)
    return None if is_own else FOREIGN


def names_salts(path: str, salts: str, key: FileKey | None) -> bool:
    """Return whether the WAL of a file has the *salts*, or names them in its first commits."""
    try:
        if key is not None:
            if read_header(path)[0] == salts:
                return True
            mark = _read_played(path, key)
            return mark is not None and salts in (mark.salts, mark.previous)
        commits = read_commits(f"{path}-wal")
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
            file.writelines(read_chunks(path))
        # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
        with open(f"{path}-wal", "rb") as wal, open(f"{copy}-wal", "wb") as file:
            file.writelines(iter(lambda: wal.read(CHUNK_BYTES), b""))
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
    """
    Return whether the WAL of a file matches its mark, or follows it, and is not cut.

    A mark of size 0 is of the first commit in a new WAL, whose salts no mark names yet. If that
    commit was moved into the file, the commit that names them restarts the WAL.
    """
    try:
        salts, _, size = read_header(path)
        restarts = int(salts[:8], 16) - int(mark.salts[:8], 16)
    except (OSError, ValueError):
        return False
    follows = not mark.size or restarts % (1 << 32) <= MAX_RESTARTS
    return follows and size >= max(mark.size, WAL_HEADER_BYTES + 1)


def set_wal_aside(
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
        FileError: the file is a hard link, or is open in a program that has its WAL in another
            place. A container has, if only the file was mounted into it.
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
