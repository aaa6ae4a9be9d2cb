"""
The connection that writes: it counts, by kind of thing, the transactions that changed one.

Any process that watches the file finds in these counts what was changed, however it
was: they stand in the table `changes`. Three things are not counted. A message that is
appended and a session that is made change no count: the length of its session tells,
and appends stay as fast as they were. Jobs, vectors and uses are nothing that a memory
says. Who counts is `Writer.run`: each statement begins with its name, and so with the
table that it writes to.
"""

from __future__ import annotations

from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.schema import FORMAT
from memdb.errors import SchemaTooNew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.base import Values

# The kind of thing that a statement on a table changes; other tables hold nothing said.
KINDS = {
    "messages": "message",
    "archive": "message",
    "sessions": "session",
    "entries": "entry",
    "entry_history": "entry",
    "summaries": "summary",
    "artifacts": "artifact",
    "items": "item",
    "state": "state",
    "settings": "settings",
    "copies": "scope",
}

# Statements on those tables that are not counted.
UNCOUNTED = {
    "copies.insert_space": "no words",
    "messages.insert": "its session is longer",
    "messages.set_spans": "derived",
    "sessions.insert": "there is one more",
    "sessions.insert_branch": "there is one more",
    "sessions.count": "beside what it counts",
    "sessions.next_no": "before one is made",
    "sessions.advance": "its session is longer",
    "sessions.raise_seq": "its session is longer",
    "sessions.insert_tombstone": "beside sessions.delete",
    "entries.used": "looking changes nothing",
    "entries.set_spans": "derived",
    "entries.insert_tombstone": "beside entries.delete",
    "artifacts.insert_tombstone": "beside artifacts.delete",
    "items.refresh": "looking changes nothing",
}

# COMMIT does not wait for the disk: the block does, when others may write (`wal_sync`).
SYNC_APART = """/* writer.sync_apart */
PRAGMA synchronous = NORMAL
"""

INSERT_CHANGE = """/* writer.count */
INSERT INTO changes (kind, number) VALUES (:kind, 1)
ON CONFLICT (kind) DO UPDATE SET number = number + 1
"""

SELECT_CHANGES = """/* writer.counts */
SELECT kind, number FROM changes
"""

SELECT_FORMAT = """/* writer.format */
SELECT user_version FROM pragma_user_version
"""


def kind_of(sql: str) -> str | None:
    """Return the kind of thing that a statement changes; None for one that is not counted."""
    name = sql[3 : sql.find(" */")] if sql.startswith("/* ") else ""
    return None if name in UNCOUNTED else KINDS.get(name.partition(".")[0])


_uncounted: set[str] = set()  # statements, which are constants


class Writer(Tx):
    """A transaction that may write. Cost: 0.1 µs a statement, 6 µs a kind that changed."""

    __slots__ = ("_changed",)

    def __init__(self, connection: apsw.Connection) -> None:
        """Write with *connection*."""
        super().__init__(connection)
        self._changed: set[str] = set()
        self.run(SYNC_APART)

    def begin(self) -> None:
        """Take the write lock, waiting for other writers."""
        self._changed.clear()
        Tx.begin(self)

    def run(self, sql: str, values: Values | None = None) -> int:
        """Run a statement and return how many rows it changed."""
        count = Tx.run(self, sql, values)
        if sql not in _uncounted and count:
            self._note(sql)
        return count

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*."""
        if sql not in _uncounted:
            self._note(sql)
        Tx.many(self, sql, rows)

    def _note(self, sql: str) -> None:
        kind = kind_of(sql)
        if kind is not None:
            self._changed.add(kind)
        elif sql.startswith("/* "):
            _uncounted.add(sql)

    def commit(self) -> None:
        """Commit the transaction, with the kinds that it changed."""
        if self._changed:
            is_kept = self._facts_at == self._connection.total_changes()
            for kind in self._changed:
                Tx.run(self, INSERT_CHANGE, {"kind": kind})
            if is_kept:  # a count makes none of the facts untrue
                self.keep_facts()
        Tx.commit(self)


def read_changes(tx: AnyTx, path: str) -> dict[str, int]:
    """
    Return how many transactions changed each kind of thing in the file at *path*.

    Raises:
        SchemaTooNew: a newer memdb migrated the file since it was opened.
    """
    (found,) = tx.one(SELECT_FORMAT) or (FORMAT,)
    if found > FORMAT:
        raise SchemaTooNew(path, found, FORMAT)
    return dict(tx.all(SELECT_CHANGES))
