"""
The mark of a file that needs its WAL, and what was lost with one: two rows of `meta`.

The mark is the row 'in_use', 'FLAG SALTS PREVIOUS SIZE SCHEMA'. FLAG is 1 if the file needs its
WAL. SALTS are the two random numbers in the header of the WAL that the file needs, or needed last.
PREVIOUS are the salts before them. SIZE is the length of that WAL. Each WAL names both in its first
commits, so a WAL belongs to a file if it names the file's salts. SCHEMA is SQLite's schema version.
Files that `.backup`, `VACUUM INTO` or `.dump` made have another version; they have no WAL and need
none. The row 'wal_missing' is the loss that `check` reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from memdb.engine import compose
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.engine.base import Tx as AnyTx

SELECT_MARK = """/* mark.get */
SELECT value FROM meta WHERE key = 'in_use'
"""

SET_MARK = compose.insert(
    "mark.set", "meta", key="'in_use'", otherwise=compose.conflict("key", "value")
)

DELETE_MARK = """/* mark.delete */
DELETE FROM meta WHERE key = 'in_use'
"""

SET_LOSS = compose.insert(
    "mark.set_loss", "meta", key="'wal_missing'", otherwise=compose.conflict("key", "value")
)

SELECT_LOSS = """/* mark.loss */
SELECT value FROM meta WHERE key = 'wal_missing'
"""

DELETE_LOSS = """/* mark.accept_loss */
DELETE FROM meta WHERE key = 'wal_missing'
"""

# The header of the file has it too.
SELECT_SCHEMA = """/* mark.schema */
SELECT schema_version FROM pragma_schema_version
"""

HEX, MOST_DIGITS = frozenset("0123456789abcdef"), 16  # of a size


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
