"""
Giving free pages back: after archiving or deleting, the file is made smaller.
"""

from __future__ import annotations

from memdb.engine.sqlite.maintenance import apart
from memdb.engine.sqlite.words import OPTIMIZE
from memdb.errors import Busy, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx

VACUUM = """/* vacuum.vacuum */
VACUUM
"""

CHECKPOINT = """/* vacuum.checkpoint */
PRAGMA wal_checkpoint(TRUNCATE)
"""

SELECT_BYTES = """/* vacuum.bytes */
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size
"""


def vacuum(db: Database) -> int:
    """
    Rewrite the file without free pages; return how many bytes it lost.

    Needs as much free disk as the file is large, and keeps other writers
    waiting: 1 s per 100 MB.

    Transaction: its own; not inside another.

    Raises:
        InvalidInput: it was called inside `with db.write()`.
        Busy: somebody else writes or reads. Where a reader is in the way the
            work is done, and the file shrinks when the last one has closed it,
            or at the next vacuum.
    """
    if db.writing:
        raise InvalidInput("vacuum was called inside a write: call it after the transaction")
    with db.write() as tx:
        for sql in OPTIMIZE:
            tx.run(sql)
    with apart(db) as tx:
        return _shrink(tx)


def _shrink(tx: Tx) -> int:
    before = _bytes(tx)
    tx.run(VACUUM)
    (busy, _, _) = tx.all(CHECKPOINT)[0]
    if busy:
        raise Busy(
            "somebody is reading, so the file could not be cut yet: it was packed, and gets "
            "smaller when the readers have closed it"
        )
    return max(0, before - _bytes(tx))


def _bytes(tx: Tx) -> int:
    row = tx.one(SELECT_BYTES)
    return 0 if row is None else int(row[0])
