"""
Copy a database into an empty one; each may be a file or a server.

Every row keeps its ids, uid, seq and version; vectors are copied, so nothing is embedded
again. Derived data (words, sketches) is made by the target's engine. The target is written in one
transaction. The transaction ends after all rows were read again and have the hash of the source's
rows. So a copy that is stopped leaves nothing.
"""

from __future__ import annotations

from hashlib import sha256
from marshal import dumps
from time import monotonic
from typing import TYPE_CHECKING

from memdb.errors import AlreadyExists, Corrupt, InvalidInput, StorageError
from memdb.models.ids import MAX_INT
from memdb.models.reports import CopyReport
from memdb.records import archive as archive_records
from memdb.tables import blobs, copies, spaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Engine, Tx

KINDS = ("entry", "item", "message", "summary")
VECTORS = "vectors"
VECTOR_LIMIT = 4096

# How long no progress is reported.
TELL_S = 1.0

# In the format with one form of every type; the same as that of row digests.
MARSHAL = 2


class RowCounter:
    """Reports now and then how many rows were written or read again."""

    def __init__(self, show: Callable[[int, int], object] | None, total: int) -> None:
        """Call *show* with (done, *total*) rows; None calls nothing."""
        self._show = show
        self._total = total
        self._done = 0
        self._shown_s = 0.0

    def count(self, rows: int) -> None:
        """Count some rows."""
        self._done += rows
        if self._show is not None and monotonic() >= self._shown_s + TELL_S:
            self._show(self._done, self._total)
            self._shown_s = monotonic()

    def end(self) -> None:
        """Report that all is done."""
        if self._show is not None:
            self._show(self._total, self._total)


def copy(
    source: Engine,
    target: Engine,
    *,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> CopyReport:
    """
    Copy all of *source* into *target*, which is empty; with *dry_run* only count.

    Args:
        progress: Called with (done, total) rows once a second, and at the end; each row counts when
            it is written and when it is read again.

    Transaction: one read of *source*, one write of *target*.

    Raises:
        AlreadyExists: *target* holds something.
        Corrupt: a row or the bytes of an artifact of *source* are damaged.
        InvalidInput: both are the same database; or one is inside a transaction.
        StorageError: *target* differs from the rows that were copied.
    """
    source.refuse_inside("copy")
    with source.read() as tx:
        with target.read() as there:
            _refuse_target(target, tx, there)
        counts = copies.count_rows(tx)
        counts[VECTORS] = sum(tx.vectors.count(one) for one, _, _ in spaces.list_numbers(tx))
        if dry_run:
            return CopyReport(target.path, counts, None, dry_run=True)
        _refuse_damaged(source, tx)
        counter = RowCounter(progress, 2 * sum(counts.values()))
        with target.write() as out:
            _refuse_target(target, tx, out)  # again: from here on nobody else writes
            found = _write(tx, out, counter)
            if _read_again(out, counter) != found:
                raise StorageError(
                    f"{target.path} differs from the rows that were copied, so its disk is "
                    "damaged: copy again, to another place"
                )
    counter.end()
    return CopyReport(target.path, counts, found, dry_run=False)


def _refuse_target(target: Engine, tx: Tx, out: Tx) -> None:
    if copies.identity(tx) == copies.identity(out):
        raise InvalidInput(
            f"{target.path} is the source itself, or its backup: choose another target"
        )
    for table, count in copies.count_rows(out).items():
        if count:
            raise AlreadyExists("memory", f"{count:,} rows of {table}", f"in {target.path}")


def _refuse_damaged(source: Engine, tx: Tx) -> None:
    """Read every row of the source; Corrupt if one differs from its digest."""
    for text in tx.find_damaged_rows(deep=False):
        raise Corrupt(
            f"{source.path} is damaged ({text}): restore a backup (`memdb restore`) or save the "
            "rest (`memdb recover`), and copy that"
        )


def _write(tx: Tx, out: Tx, counter: RowCounter) -> str:
    """Store the rows that *tx* reads, and return their hash."""
    state = sha256()
    for table in copies.TABLES:
        links: list[dict[str, int]] = []
        for rows in copies.pages(tx, table):
            state.update(dumps(rows, MARSHAL))
            links += copies.load(out, table, rows)
            counter.count(len(rows))
        if links:
            copies.set_links(out, table, links)
        if table.words:
            out.words.load(table.words, 0, MAX_INT)
    archive_records.derive(out)
    for space_no, kind, vectors in _vectors(tx):
        state.update(dumps((kind, vectors), MARSHAL))
        out.vectors.load(space_no, kind, vectors)
        counter.count(len(vectors))
    return state.hexdigest()


def _read_again(out: Tx, counter: RowCounter) -> str:
    """
    Return the hash of the stored rows.

    Corrupt if the bytes of an artifact differ from their hash.
    """
    state = sha256()
    for table in copies.TABLES:
        for rows in copies.pages(out, table):
            state.update(dumps(rows, MARSHAL))
            counter.count(len(rows))
            if table.name == "blobs":
                for blob_no, digest, *_ in rows:
                    for _ in blobs.read_parts(out, blob_no, blobs.CHUNK_BYTES) if digest else ():
                        pass
    for _, kind, vectors in _vectors(out):
        state.update(dumps((kind, vectors), MARSHAL))
        counter.count(len(vectors))
    return state.hexdigest()


def _vectors(tx: Tx) -> Iterator[tuple[int, str, list[tuple[int, bytes]]]]:
    """Yield space, kind and some vectors by ref, in their stored form."""
    for space_no, _, _ in spaces.list_numbers(tx):
        for kind in KINDS:
            last = -1
            while rows := tx.vectors.list_stored(space_no, kind, last, MAX_INT, VECTOR_LIMIT):
                last = rows[-1][0]
                yield space_no, kind, rows
