"""
Maintenance of an open file: check, checkpoint, merging of full-text indexes, vacuum, copy, size.

Other threads and processes may read and write the file at the same time.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from shlex import quote
from time import sleep
from typing import TYPE_CHECKING, Any

import apsw

from memdb.engine.base import Storage
from memdb.engine.files import PARTIAL, refuse_live, whole_path
from memdb.engine.sqlite.checkpoints import CHECKPOINT_PASSIVE, checkpoint_truncate
from memdb.engine.sqlite.cipher import copy_into, require_cipher, unlock
from memdb.engine.sqlite.connection import (
    MEMORY,
    SET_AUTO_VACUUM,
    Tx,
    create_private,
    load_image,
    open_error,
    open_temporary,
    translated_errors,
)
from memdb.engine.sqlite.digests import register_functions
from memdb.engine.sqlite.mark import DELETE_LOSS, SELECT_LOSS, SET_MARK
from memdb.engine.sqlite.packing import count_pages, merge_some, moves_pages, pack
from memdb.engine.sqlite.query import run_query
from memdb.engine.sqlite.schema import find_schema_differences, list_other_tables
from memdb.engine.sqlite.wal_file import LARGE_WAL_BYTES
from memdb.engine.sqlite.words import MERGE, SqliteWords, archived_texts, of_each
from memdb.engine.sqlite.writer import read_changes
from memdb.errors import (
    AlreadyExists,
    Busy,
    Corrupt,
)
from memdb.text.validate import refuse_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from memdb.engine.base import Row
    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.pool import ConnectionPool
    from memdb.models.keys import FileKey
    from memdb.models.types import Progress

MAX_PER_INDEX = 20

# Bytes of the -shm that a reader of a moment locks. Source: sqlite.org/walformat.html
FIRST_READ_MARK, LAST_READ_MARK = 123, 127

QUICK_CHECK = """/* maintenance.quick */
PRAGMA quick_check(20)
"""

INTEGRITY_CHECK = """/* maintenance.integrity */
PRAGMA integrity_check(20)
"""

# Only the form with a rank compares the index with its content table; the one
# without, and PRAGMA integrity_check, overlook a ghost row. Archived messages
# have no content table: `differing_words` compares their index.
CHECK_FTS = of_each(
    "maintenance.check",
    """INSERT INTO {name}_fts ({name}_fts, rank) VALUES ('integrity-check', 1)
""",
) | of_each(
    "maintenance.check",
    """INSERT INTO {name}_fts ({name}_fts) VALUES ('integrity-check')
""",
    ["archived"],
)

HAS_ARCHIVED = """/* maintenance.has_archived */
SELECT
  EXISTS (SELECT 1 FROM archive_segments)
  OR EXISTS (SELECT 1 FROM archived_fts_idx)
"""
SELECT_INDEX_SQL = """/* maintenance.index_sql */
SELECT sql FROM sqlite_schema WHERE name = 'archived_fts'
"""

CREATE_WORDS = """/* maintenance.create_words */
CREATE VIRTUAL TABLE IF NOT EXISTS temp.archived_words USING fts5vocab (main, archived_fts, col)
"""

DROP_WORDS = """/* maintenance.drop_words */
DROP TABLE IF EXISTS temp.archived_words
"""

# FTS5 cuts a term after 32,766 bytes, in the middle of a character if need be.
SELECT_WORDS = """/* maintenance.words */
SELECT CAST(term AS BLOB), col, doc, cnt FROM temp.archived_words ORDER BY term, col
"""

READING = (
    "another reader holds the WAL: it still has the bytes, and goes on having them until that "
    "program closes the file, or `memdb work` cuts the WAL"
)
TRUNCATE_WAIT_MS = 200
TRUNCATE_TRIES, TRUNCATE_WAIT_S = 5, 0.03

VACUUM = """/* maintenance.vacuum */
VACUUM
"""

# Of SQLite's machine, between two calls of a progress handler: some milliseconds.
OPERATIONS = 100_000

# Renews the samples of keys that the planner keeps, if somebody ran ANALYZE.
ANALYZE = """/* maintenance.analyze */
ANALYZE
"""

SELECT_BYTES = """/* maintenance.bytes */
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size
"""

SELECT_FORMAT = """/* maintenance.format */
SELECT user_version FROM pragma_user_version
"""

# dbstat adds up the pages of each table and index.
SELECT_BYTES_BY_TABLE = """/* maintenance.bytes_by_table */
SELECT
  CASE
    WHEN name GLOB '*_fts*' THEN 'full text'
    WHEN name GLOB '*messages*' OR name GLOB '*sessions*' THEN 'messages'
    WHEN name GLOB '*summaries*' THEN 'summaries'
    WHEN name GLOB '*entr*' THEN 'entries'
    WHEN name GLOB '*vector*' OR name GLOB '*embedding*' THEN 'vectors'
    WHEN name GLOB '*artifact*' OR name GLOB '*blob*' THEN 'artifacts'
    WHEN name GLOB '*archive*' THEN 'archive'
    WHEN name GLOB '*item*' THEN 'items'
    ELSE 'other'
  END AS store,
  sum(pgsize)
FROM dbstat
WHERE aggregate = 1
GROUP BY store
ORDER BY store
"""

# A backup in small steps starts again at every write beside it, unless it reads in a snapshot.
ALL_PAGES = -1

# Copied in one step: 4 MB.
COPIED_PAGES = 1024


class SqliteMaintenance:
    """Maintenance of one open file; see `memdb.engine.base.Maintenance`."""

    __slots__ = ("_db", "_pool")

    def __init__(self, db: SqliteFile, pool: ConnectionPool) -> None:
        """Maintain *db*, which has the connections of *pool*."""
        self._db = db
        self._pool = pool

    def check_pages(self, *, deep: bool) -> list[str]:
        """
        Return the damage that SQLite finds, 20 findings at most; read every page if *deep*.

        It uses a new connection, because FTS5 reports corruption on an older one that cached the
        index before a rebuild (SQLite 3.54.1).
        """
        sql = INTEGRITY_CHECK if deep else QUICK_CHECK
        with self._db.apart(writable=False) as tx:
            return [row[0] for row in tx.all(sql) if row[0] != "ok"]

    def check_schema(self) -> list[str]:
        """Return the tables, indexes and triggers that are not those of schema.sql."""
        with self._db.read() as tx:
            return find_schema_differences(tx)

    def list_other_tables(self, tx: AnyTx) -> tuple[str, ...]:
        """Return the names of tables and views that are not memdb's, which it leaves alone."""
        return list_other_tables(tx)

    def check_indexes(self) -> Iterator[tuple[str, str]]:
        """
        Yield the name of each index that differs from its rows, and the difference.

        Comparing needs the write lock, so a file that cannot be written is copied into
        a temporary one.

        Raises:
            Busy: another process kept the write lock, which the comparison needs.
        """

        def compare(sql: str) -> int:
            with self._db.write() as tx:
                return _compare(tx, sql)

        if is_writable(self._db):
            yield from _differing_indexes(compare)
        else:
            with self._copied() as copy:
                yield from _differing_indexes(partial(_compare, copy))

    @contextmanager
    def _copied(self) -> Iterator[Tx]:
        """Open a temporary copy of the file for a `with` block."""
        copy = open_temporary("")
        try:
            with self._db.apart(writable=False) as source:
                if self._db.key is not None:
                    load_image(copy.raw, source)
                else:
                    with translated_errors(), copy.raw.backup("main", source.raw, "main") as backup:
                        backup.step(ALL_PAGES)
            yield copy
        finally:
            copy.close()

    def check_archived_words(self) -> list[str]:
        """
        Return words of archived messages on which their index and the segments differ.

        Only segments contain those texts, so SQLite cannot compare them. They are indexed again in
        a temporary database.
        """
        with self._db.read() as tx:
            if not tx.read_number(HAS_ARCHIVED):
                return []
        beside = open_temporary("")
        try:
            with self._db.apart() if is_writable(self._db) else self._copied() as tx:
                if self._db.path != MEMORY:
                    tx.run("BEGIN")  # one snapshot
                (sql,) = tx.one(SELECT_INDEX_SQL) or ("",)
                beside.run(sql)
                beside.run("BEGIN")
                for texts in archived_texts(tx):
                    SqliteWords(beside).add_archived(texts)
                expected, stored = set(_vocabulary(beside)), set(_vocabulary(tx))
        finally:
            beside.close()
        terms = sorted({row[0] for row in expected ^ stored})[:MAX_PER_INDEX]
        return [f"word {term.decode(errors='replace')!r}" for term in terms]

    def truncate_wal(self) -> list[str]:
        """
        Move the WAL into the file and truncate it; return what prevented it, or [].

        It waits a moment for readers, not for their whole timeout.
        """
        if self._db.path == MEMORY:
            return []
        resume = self._db.pause_upkeep()
        try:
            with self._db.apart() as tx:
                tx.raw.set_busy_timeout(TRUNCATE_WAIT_MS)
                try:
                    busy = self._truncate(tx)
                except Busy:
                    busy = True
        finally:
            resume()
        return [READING] if busy else []

    def _truncate(self, tx: Tx) -> bool:
        """Cut the WAL to size 0; return whether a reader prevents it, also after a moment."""
        for _ in range(TRUNCATE_TRIES):
            busy, _ = checkpoint_truncate(tx)
            if not busy:
                return False
            sleep(TRUNCATE_WAIT_S)  # another process may be moving it just now
        return True

    def rebuild(self, derive: Callable[[AnyTx], None]) -> None:
        """Run *derive* and rebuild every full-text index, in one transaction."""
        with self._db.write() as tx:
            derive(tx)
            tx.words.rebuild()

    def merge(self) -> int:
        """
        Merge up to 500 pages of each full-text index; return how many indexes there are.

        Many small writes leave an index in many parts, and each search reads them
        all. Query plans need no such care: memdb keeps no planner statistics.

        Transaction: several of its own, some milliseconds each.
        """
        merge_some(self._db, 500)
        return len(MERGE)

    def vacuum(self, *, whole: bool = False, progress: Progress | None = None) -> int:
        """
        Return free pages to the disk; return the number of bytes by which the file shrank.

        It works in steps of some milliseconds, between which others can write. A file of an older
        memdb is rewritten as a whole, the first time.

        Args:
            whole: Rewrite the file, so that half-full pages are packed too. This needs as much free
                disk as the file is large, and other writers wait: 1 s per 100 MB.
            progress: Called with (done, total) pages after each step; while the file is rewritten,
                with unchanged numbers. If it raises, the vacuum ends. Room that was already
                returned stays returned, and a rewrite leaves the file unchanged.

        Transaction: it has its own, and cannot be called inside another.

        Raises:
            InvalidInput: it was called inside `with self._db.write()`.
            Busy: another connection writes or reads. If it only reads, the file
                shrinks when the last reader has closed it, or at the next vacuum.
        """
        self._db.refuse_inside("vacuum")
        with self._db.read() as tx:
            before, in_steps = _bytes(tx), moves_pages(tx) and not whole
        pack(self._db, progress, merge_only=not in_steps)
        resume = self._db.pause_upkeep()
        try:
            with self._db.apart() as tx:
                if not in_steps:
                    _rewrite(tx, progress)
                if self._truncate(tx):
                    raise Busy(
                        "somebody is reading, so the file could not be cut yet: its pages are "
                        "packed, and it gets smaller when the readers have closed it"
                    )
                return max(0, before - _bytes(tx))
        finally:
            resume()

    def list_migration_copies(self) -> list[str]:
        """Return the paths of the copies that migrations left beside the file."""
        return list_migration_copies(self._db.path)

    def describe_held_wal(self) -> str | None:
        """Return a sentence about who keeps a WAL over 64 MB from being moved, None if nobody."""
        if not self._has_large_wal() or not is_writable(self._db):
            return None
        with self._db.apart() as tx:
            (_, in_wal, moved) = tx.all(CHECKPOINT_PASSIVE)[0]
        if in_wal == moved:
            return None
        numbers = ", ".join(map(str, self.list_wal_readers()))
        who = f"process {numbers} reads" if numbers else "a process or thread reads"
        return (
            f"{who} an old moment of the file, so {_file_bytes(self._db.path + '-wal') >> 20} MB "
            "wait in the WAL, which grows with each write: end that read"
        )

    def describe_loss(self) -> str | None:
        """Return what was lost with a missing WAL; None if nothing, or if it was accepted."""
        if self._db.path == MEMORY:
            return None
        with self._db.read() as tx:
            row = tx.one(SELECT_LOSS)
        return self._pool.wal_guard.loss if row is None else str(row[0])

    def accept_loss(self) -> bool:
        """Stop reporting that a WAL was missing; return whether one was."""
        with self._db.write() as tx:
            return tx.count_changed(DELETE_LOSS) > 0

    def list_wal_readers(self) -> tuple[int, ...]:
        """
        Return the processes that read an old snapshot of a file whose WAL exceeds 64 MB.

        () if the WAL is smaller, or if the system does not list locks (only Linux does).
        """
        if not self._has_large_wal():
            return ()
        try:
            shm = os.stat(f"{self._db.path}-shm")
            with open("/proc/locks", encoding="ascii") as file:
                locks = [line.split() for line in file]
        except OSError:
            return ()
        shm_id = f"{os.major(shm.st_dev):02x}:{os.minor(shm.st_dev):02x}:{shm.st_ino}"
        readers = set()
        for lock in locks:
            if lock[5:6] == [shm_id] and lock[-1].isdigit():
                first, last = int(lock[6]), int(lock[7])
                if first <= LAST_READ_MARK and last >= FIRST_READ_MARK:
                    readers.add(int(lock[4]))
        return tuple(sorted(readers))

    def _has_large_wal(self) -> bool:
        return self._db.path != MEMORY and _file_bytes(f"{self._db.path}-wal") > LARGE_WAL_BYTES

    def changes(self, tx: AnyTx) -> dict[str, int]:
        """Return how often rows of each kind were changed; see `memdb.engine.base.Maintenance`."""
        self.refuse_replaced()
        return read_changes(tx, self._db.path)

    def refuse_replaced(self) -> None:
        """Raise FileError if the path leads to another file or none, Closed after `close`."""
        self._pool.guard()
        self._pool.refuse_another()

    def measure(self, tx: AnyTx) -> Storage:
        """
        Return how much disk space the file takes.

        Cost: it reads every page once, 0.1 s per 100 MB.
        """
        return Storage(
            format=tx.read_number(SELECT_FORMAT),
            size_bytes=_file_bytes(self._db.path),
            wal_bytes=_file_bytes(f"{self._db.path}-wal"),
            bytes_by_table=dict(tx.all(SELECT_BYTES_BY_TABLE)),
            migration_copies=tuple(map(os.path.basename, self.list_migration_copies())),
        )

    def query(
        self,
        sql: str,
        values: Sequence[Any] | Mapping[str, Any],
        *,
        limit: int,
        timeout_s: float,
    ) -> tuple[tuple[str, ...], list[Row], bool]:
        """Run a SELECT of the user; see `memdb.engine.sqlite.query`, which is loaded only then."""
        return run_query(self._db, sql, values, limit=limit, timeout_s=timeout_s)

    def copy_to(
        self,
        target: str,
        key: FileKey | None,
        *,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """
        Copy the file as it is now to the file *target*; return its bytes.

        The copy is complete and on the disk before it gets its name. It is in DELETE journal mode,
        so that it opens in a read-only folder too.

        Others can write at the same time; their writes are not in the copy.

        Args:
            key: Key of the copy; None means that it is plain. With another key than that of the
                file its rows are rewritten, which takes three times as long.
            replace: Overwrite a file that is there.
            progress: Called with (done, total) pages after each step of 4 MB. If it raises, copying
                ends, and no part of the copy remains.

        Raises:
            AlreadyExists: *target* exists and *replace* is False.
            CipherMissing: the installed apsw cannot encrypt.
            FileError: *target* cannot be written, or is open in this process.
        """
        if key is not None:
            require_cipher(target)
        if os.path.exists(target) and not replace:
            raise AlreadyExists("file", target)
        refuse_live(target)
        refuse_output(target)
        target = os.path.realpath(target)  # a link stays one
        copy = self._copy if key is self._pool.key else write_with_key
        with whole_path(target) as partial, translated_errors(), self._db.apart() as source:
            copy(source, partial, key, progress)
        return os.stat(target).st_size

    def _copy(
        self, source: Tx, partial: str, key: FileKey | None, progress: Progress | None
    ) -> None:
        out = _open_new(partial, key)
        try:
            if self._db.path != MEMORY:
                source.run("BEGIN")
                source.one(SELECT_FORMAT)  # one snapshot: no commit restarts the copy
            with out.backup("main", source.raw, "main") as backup:
                while not backup.step(COPIED_PAGES):
                    if progress is not None:
                        progress(backup.page_count - backup.remaining, backup.page_count)
                if progress is not None:
                    progress(backup.page_count, backup.page_count)
            _finish_copy(out)
        finally:
            out.close()


def write_with_key(
    source: Tx, partial: str, key: FileKey | None, progress: Progress | None = None
) -> None:
    """Write what *source* sees into the new file *partial*, encrypted with *key* or plain."""
    with _ticking(source, progress):
        copy_into(source.raw, partial, key)
    out = _open_new(partial, key)
    try:
        _finish_copy(out)
    finally:
        out.close()


def _finish_copy(out: apsw.Connection) -> None:
    """Mark a copy as a file without a WAL, so that it can be opened in a read-only folder."""
    out.execute(SET_MARK, {"value": f"0 {os.urandom(8).hex()} - 0"})
    out.execute("PRAGMA journal_mode = DELETE").fetchall()


def _rewrite(tx: Tx, progress: Progress | None) -> None:
    """Rewrite the file without free pages; from then on it can return them in steps."""
    with _ticking(tx, progress):
        tx.run(SET_AUTO_VACUUM)
        tx.run(VACUUM)


@contextmanager
def _ticking(tx: Tx, progress: Progress | None) -> Iterator[None]:
    """Report to *progress* that the statements of a `with` block run, and then are done."""
    pages = count_pages(tx)

    def go_on() -> bool:  # Ctrl-C is noticed here too
        if progress is not None:
            progress(0, pages)
        return False

    tx.raw.set_progress_handler(go_on, OPERATIONS)
    try:
        yield
    finally:
        tx.raw.set_progress_handler(None, OPERATIONS)
    if progress is not None:
        progress(pages, pages)


def list_migration_copies(path: str) -> list[str]:
    """Return the paths of the copies of a file that migrations left beside it."""
    if path == MEMORY:
        return []
    folder, name = os.path.split(path)
    begin, end = f"{name}.v", ".bak"
    names = [one for one in os.listdir(folder or ".") if one.startswith(begin)]
    return sorted(
        os.path.join(folder, one)
        for one in names
        if one.endswith(end) and one[len(begin) : -len(end)].isdigit()
    )


def describe_copy(path: str) -> str:
    """Return what a migration's copy contains, and the command that removes it."""
    name = os.path.basename(path)
    return (
        f"{name} holds the file as it was before a migration: delete it if you need it no longer "
        f"(`rm {quote(path)}`)"
    )


def is_writable(db: SqliteFile) -> bool:
    """Return whether *db* can be written, by its mode and the permissions of its file."""
    return db.path == MEMORY or (not db.is_read_only and os.access(db.path, os.W_OK))


def _compare(tx: AnyTx, sql: str) -> int:
    """Compare an index with its rows; for messages, after moving the tail into the index."""
    if sql == CHECK_FTS["messages"]:
        tx.words.move_tail()
    return tx.count_changed(sql)


def _differing_indexes(run: Callable[[str], int]) -> Iterator[tuple[str, str]]:
    for name, sql in CHECK_FTS.items():
        try:
            run(sql)
        except Corrupt as error:
            code = error.sqlite_code
            yield (
                f"{name}_fts",
                f"the index differs from its rows (SQLite {code}): run `memdb rebuild FILE`",
            )


def _bytes(tx: AnyTx) -> int:
    return tx.read_number(SELECT_BYTES)


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _open_new(partial: str, key: FileKey | None) -> apsw.Connection:
    create_private(partial)
    try:
        connection = apsw.Connection(partial)
    except apsw.Error as error:
        raise open_error(error, partial.removesuffix(PARTIAL)) from error
    if key is not None:
        unlock(connection, key)
    register_functions(connection)
    return connection


def _vocabulary(tx: Tx) -> list[Row]:
    """Return each word with its column and its numbers of messages and occurrences."""
    tx.run(CREATE_WORDS)
    try:
        return tx.all(SELECT_WORDS)
    finally:
        tx.run(DROP_WORDS)
