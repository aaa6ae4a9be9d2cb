"""
`due.sqlite`: whose files may hold work that is due, and who owns the folder.

The process that writes to a folder keeps SQLite's lock on this file until it ends, however it
ends. What the file contains says only where to look: it may name a file too many, never one too
few.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock
from typing import Any

import apsw

from memdb.errors import Busy, FileError

NAME = "due.sqlite"  # no *.db, which a replicator of the users' files would keep open
PRIVATE = 0o600

# NORMAL: a power cut may take the last rows, and a user's file is looked at when it is next opened.
BEGIN = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS due (user TEXT PRIMARY KEY, due_ms INTEGER NOT NULL) WITHOUT ROWID;
COMMIT;
"""
PUT = "INSERT OR REPLACE INTO due (user, due_ms) VALUES (?, ?)"
ADD = "INSERT OR IGNORE INTO due (user, due_ms) VALUES (?, ?) RETURNING 1"
DELETE = "DELETE FROM due WHERE user = ?"
SELECT = "SELECT user FROM due WHERE due_ms <= ? ORDER BY due_ms, user"
COUNT = "SELECT count(*) FROM due"


class DueFile:
    """The open `due.sqlite` of a folder; its holder owns the folder. Thread-safe."""

    def __init__(self, folder: str) -> None:
        """
        Lock *folder*.

        Raises:
            Busy: another process, or another handle of this one, owns it.
            FileError: the file cannot be used.
        """
        path = os.path.join(folder, NAME)
        self._lock = Lock()
        try:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
            self._connection = apsw.Connection(path)
            try:
                self._connection.execute(BEGIN).fetchall()
            except apsw.Error:
                self._connection.close()
                raise
        except apsw.BusyError as error:
            raise Busy(
                f"{folder} is open for writing in another program: use that program, or open it "
                'with mode="read"'
            ) from error
        except (apsw.Error, OSError) as error:
            raise FileError(
                f"{path} cannot be used ({error}): remove it, and memdb creates a new one", path
            ) from error

    def add(self, user: str, due_ms: int) -> bool:
        """Name a user whose file may hold work; one that is named keeps its time: False."""
        return bool(self._run(ADD, user, due_ms))

    def put(self, user: str, due_ms: int) -> None:
        """Set when a user's file is to be looked at next."""
        self._run(PUT, user, due_ms)

    def remove(self, user: str) -> None:
        """Note that nothing is left to do in a user's file."""
        self._run(DELETE, user)

    def find(self, now_ms: int) -> list[str]:
        """Return whose files are to be looked at, the longest due first."""
        return [user for (user,) in self._run(SELECT, now_ms)]

    def count(self) -> int:
        """Return how many users are named."""
        return int(self._run(COUNT)[0][0])

    def _run(self, sql: str, *values: int | str) -> list[Any]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def close(self) -> None:
        """Release the folder."""
        with self._lock:
            self._connection.close()
