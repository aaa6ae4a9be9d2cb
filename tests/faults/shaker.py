"""
One write of the list under one fault: the file is as before or as after, the handle works.

What the tests of busy files, interrupted statements, full disks, failing calls of the system
and short memory have in common.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from vfs import PLAIN, WAIT_MS, installed

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from vfs import Event
    from writes import Write

    from memdb import MemDB


def dump(path: str) -> list[Any]:
    """Return all rows of a file, read through SQLite's own VFS, but for the mark of its use."""
    connection = apsw.Connection(path, vfs=PLAIN)
    connection.set_busy_timeout(WAIT_MS)
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
        "AND name NOT GLOB '*_fts_*' ORDER BY name"
    ).fetchall()
    rows = []
    for (name,) in names:
        where = "WHERE key <> 'in_use'" if name == "meta" else ""
        found = connection.execute(f'SELECT * FROM "{name}" {where}').fetchall()
        rows.append((name, sorted(found, key=repr)))
    connection.close()
    return rows


class Shaker:
    """Runs one write again and again on fresh files, each time with another fault."""

    def __init__(self, opened: Callable[[str], MemDB], write: Write) -> None:
        """Open files with *opened*; the write is tried once without a fault."""
        self._opened = opened
        self._write = write
        self._number = 0
        db = self._open()
        write.act(db)
        self._after = write.counts(dump(db.path))
        self._end(db)

    def _open(self) -> MemDB:
        """Return a new handle whose connections are open."""
        self._number += 1
        db = self._opened(f"{self._number}.db")
        db.scope("ann").session("trip").last(1)
        db._db._writing()
        self._write.arrange(db)
        return db

    def _end(self, db: MemDB) -> None:
        db.close()
        for end in ("", "-wal", "-shm"):
            Path(db.path + end).unlink(missing_ok=True)

    def run_with(
        self, fault: Callable[[MemDB], AbstractContextManager[object]]
    ) -> tuple[BaseException | None, list[str]]:
        """Run the write on a fresh file inside *fault*; return its error, and what is wrong."""
        db = self._open()
        before = dump(db.path)  # what is arranged has other uids in each file
        with fault(db):
            error = run(lambda: self._write.act(db))
        return error, self._find_wrong(db, error, before)

    def count_calls(self) -> Counter[str]:
        """Return how many calls of SQLite of each kind the write makes."""
        calls: Counter[str] = Counter()

        def watch(event: Event) -> None:
            calls[event.kind] += 1

        with installed(watch):
            db = self._open()
            calls.clear()
            self._write.act(db)
            calls["full"] = calls["write"]
        self._end(db)
        return calls

    def _find_wrong(self, db: MemDB, error: BaseException | None, before: list[Any]) -> list[str]:
        """Return what is wrong with a handle and its file after a write that met a fault."""
        write = self._write
        wrong = []
        # apsw ends a backup so, if the shim's exception is one that SQLite does not report.
        of_shim = isinstance(error, SystemError) and "apsw.Backup" in str(error)
        if error is not None and not (of_shim or isinstance(error, memdb.MemDBError)):
            wrong.append(f"a foreign error: {error!r}")
        state = dump(db.path)
        is_before = write.visible(state) == write.visible(before)
        if error is None and is_before and not (write.unchanging or write.optional):
            wrong.append("acknowledged and not there")
        if not (write.stepwise or is_before or write.counts(state) == self._after):
            wrong.append(f"between before and after ({error!r})")
        if error is not None and is_before:
            self._write.arrange(db)
            again = run(lambda: self._write.act(db))
            wrong += [f"it fails again: {again!r} after {error!r}"] * (again is not None)
        try:
            chat = db.scope("next").session("next")
            seq = chat.append("user", "the next call works").seq
            if [one.seq for one in chat.last(5)] != [seq]:
                wrong.append("the next call is not seen")
            wrong += [f"check: {finding}" for finding in db.file.check(deep=True)]
        except memdb.MemDBError as later:
            wrong.append(f"the next call fails: {later!r} after {error!r}")
        self._end(db)
        return wrong


def run(act: Callable[[], object]) -> BaseException | None:
    """Return the error that a call raises, None without one."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 (a foreign one is what is looked for)
        return error
    return None


def spread(total: int, most: int) -> list[int]:
    """Return at most *most* numbers of 1..total, evenly; the middle one, or both ends with them."""
    if most == 1 < total:
        return [1 + total // 2]
    if total <= most:
        return list(range(1, total + 1))
    return sorted({1 + round(n * (total - 1) / (most - 1)) for n in range(most)})
