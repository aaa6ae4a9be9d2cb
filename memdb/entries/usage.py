"""
How often entries are used, without a write per use.

Uses are counted in memory and written with the next write of an entry, once an
hour, or when the file is closed. A crash loses some counts and nothing else.
"""

from __future__ import annotations

from memdb.errors import MemDBError
from memdb.tables import entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.base import Tx
    from memdb.engine.sqlite.database import Database

FLUSH_MS = 3_600_000
MAX_HELD = 10_000


class Uses:
    """Counts uses of entries of an open file. Thread-safe."""

    def __init__(self, db: Database) -> None:
        """Count for *db*."""
        from _thread import allocate_lock

        self._db = db
        self._lock = allocate_lock()
        self._held: dict[int, tuple[int, int]] = {}
        self._since_ms = 0

    def note(self, ids: Iterable[int]) -> None:
        """Count one use of each entry, now."""
        now_ms = self._db.clock()
        with self._lock:
            if not self._held:
                self._since_ms = now_ms
            for one in ids:
                times, last_ms = self._held.get(one, (0, now_ms))
                self._held[one] = (times + 1, max(last_ms, now_ms))
            due = len(self._held) > MAX_HELD or now_ms - self._since_ms >= FLUSH_MS
        if due and not self._db.writing:
            self.flush()

    def write(self, tx: Tx) -> None:
        """Write what was counted, in a transaction that writes anyway."""
        with self._lock:
            held, self._held = self._held, {}
        entries.note_used(tx, [(one, times, last_ms) for one, (times, last_ms) in held.items()])

    def flush(self) -> None:
        """Write what was counted; a file that cannot be written keeps its old counts."""
        if not self._held:
            return
        try:
            with self._db.write() as tx:
                self.write(tx)
        except MemDBError:
            return
