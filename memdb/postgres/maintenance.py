"""
Maintenance of a database on a server: checks, sizes, VACUUM, and SELECTs of the user's.

The server does by itself what a file needs care for: it checks its pages, moves its WAL and
cleans up (autovacuum).

A query that names a view of schema.sql brings the SELECT of the view along. No view is stored on
a server: it would be one more thing to migrate.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from memdb.engine.base import Storage
from memdb.engine.sqlite.schema import read_schema
from memdb.errors import Closed, Interrupted, InvalidInput, MemDBError, SchemaTooNew, Unsupported
from memdb.models.ids import scope_range
from memdb.postgres import driver, schema
from memdb.postgres.link import DELETE_WRITER, SELECT_FORMAT
from memdb.postgres.schema import read_names
from memdb.postgres.tokens import keys_of, refs_of
from memdb.postgres.vectors import due_indexes, left_indexes
from memdb.postgres.words import KINDS, PostgresWords, archived_keys
from memdb.postgres.words import SELECT_ROWS as ROWS
from memdb.text.validate import check_query_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Row
    from memdb.engine.base import Tx as AnyTx
    from memdb.models.keys import FileKey
    from memdb.models.types import Progress
    from memdb.postgres.connection import Tx
    from memdb.postgres.schema import PostgresDatabase

    # How many ids a token has, and their sum.
    Sums = dict[str, tuple[int, int]]


VIEW = re.compile(r"CREATE VIEW (\w+) AS\n(.*?);", re.DOTALL)
COMMENT = re.compile(r"[ \t]*--[^\n]*")
WITH = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)

TIME = 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'

# From SQLite's words to PostgreSQL's, in this order.
RULES = (
    (
        r"strftime\('[^']*', (\S+) / 1000\.0, 'unixepoch'\)",
        rf"to_char(to_timestamp(\1 / 1000.0) AT TIME ZONE 'UTC', '{TIME}')",
    ),
    (r"\(julianday\('now'\) - 2440587\.5\) \* 86400000", "extract(epoch FROM now()) * 1000"),
    (r"\nJOIN \(SELECT", "\nCROSS JOIN (SELECT"),
    (r"\biif\(\s*(.*?),\s*([\w.]+),\s*NULL\s*\)", r"CASE WHEN \1 THEN \2 END"),
    (r"CAST\(\s*(CASE substr.*?END) AS TEXT\s*\)", r"convert_from(\1, 'UTF8')"),
    (r"\bhex\(([\w.]+)\)", r"encode(\1, 'hex')"),
    (r"\bchar\(", "chr("),
    (r"\bx'(\w+)'", r"'\\x\1'::bytea"),
    (r"\bINTEGER\b", "BIGINT"),
)


def read_views() -> dict[str, str]:
    """Return the SELECT of each view in PostgreSQL's dialect."""
    found = {}
    for name, select in VIEW.findall(COMMENT.sub("", read_schema())):
        body = select
        for pattern, replacement in RULES:
            body = re.sub(pattern, replacement, body, flags=re.DOTALL)
        found[name] = body
    return found


def with_views(sql: str) -> str:
    """Return a query preceded by the SELECTs of the views that it names."""
    if "_view" not in sql:
        return sql
    named = [(name, body) for name, body in read_views().items() if re.search(rf"\b{name}\b", sql)]
    if not named:
        return sql
    views = ",\n".join(f"{name} AS NOT MATERIALIZED (\n{body}\n)" for name, body in named)
    match = WITH.match(sql)
    if match is None:
        return f"WITH {views}\n{sql}"
    return f"WITH {match[1] or ''}{views},\n{sql[match.end() :]}"


MAX_FINDINGS = 20

# A name before a parenthesis, and one anywhere: with a comment between the two it is called too.
CALLED = re.compile(r'([^\W\d][\w$]*)"?\s*\(')
NAMED = re.compile(r"([^\W\d][\w$]*)")
COMMENTED = re.compile(r"--|/\*")
ESCAPED_NAME = re.compile(r'\bu&"', re.IGNORECASE)

# Reads and nothing else, if the database has it (docs/postgres.md).
READER = "memdb_reader"

# A function that changes something, waits, or reads what is no table, is volatile.
SELECT_ALLOWED = f"""/* maintenance.pg_allowed */
SELECT
  (
    SELECT CAST(min(proname) AS TEXT) FROM pg_proc
    WHERE provolatile = 'v' AND CAST(proname AS TEXT) IN (SELECT value FROM json_each(:names))
  ),
  (SELECT count(*) FROM pg_roles WHERE rolname = '{READER}' AND pg_has_role(oid, 'SET'))
"""  # noqa: S608 (a constant)

SELECT_TABLES = """/* maintenance.pg_tables */
SELECT CAST(relname AS TEXT), CAST(relkind AS TEXT) FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(current_schema()))
  AND relkind IN ('r', 'p', 'v', 'm')
ORDER BY relname
"""

SELECT_INVALID = """/* maintenance.pg_invalid */
SELECT CAST(indexrelid AS regclass)::text FROM pg_index
WHERE NOT indisvalid AND indrelid IN (
  SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(current_schema()))
)
ORDER BY 1
"""

SELECT_BYTES = """/* maintenance.pg_bytes */
SELECT
  CASE
    WHEN relname ~ 'words|postings|terms' THEN 'full text'
    WHEN relname ~ 'messages|sessions' THEN 'messages'
    WHEN relname ~ 'summaries' THEN 'summaries'
    WHEN relname ~ 'entr' THEN 'entries'
    WHEN relname ~ 'vector|embedding' THEN 'vectors'
    WHEN relname ~ 'artifact|blob' THEN 'artifacts'
    WHEN relname ~ 'archive' THEN 'archive'
    WHEN relname ~ 'item' THEN 'items'
    ELSE 'other'
  END AS store,
  CAST(sum(pg_total_relation_size(oid)) AS BIGINT)
FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND relkind = 'r'
GROUP BY store
ORDER BY store
"""

SELECT_CHANGES = """/* maintenance.pg_changes */
SELECT kind, CAST(sum(number) AS BIGINT)
FROM (SELECT kind, number FROM changes UNION ALL SELECT kind, number FROM change_counts) AS parts
WHERE kind <> 'commit'
GROUP BY kind
"""

# What a file's CHECKs say of the tables whose rules the server does not look at (`schema`).
SELECT_BROKEN = """/* maintenance.pg_broken */
SELECT 'messages', id FROM messages
WHERE NOT (
  (id & 0xFFFFFF <> 0)
  AND (length(uid) > 0)
  AND (role IN ('user', 'assistant', 'system', 'tool'))
  AND (external_id <> '')
  AND (tokens >= 0)
  AND (length(content_hash) = 8)
  AND (text IS NOT NULL OR (parts IS NULL AND metadata IS NULL AND bigrams IS NULL))
)
UNION ALL
SELECT 'sessions', id FROM sessions
WHERE NOT (
  (id & 0xFFFFFF = 0)
  AND (name <> '')
  AND (leaves_at BETWEEN 0 AND 0xFFFFFF)
  AND (last_seq BETWEEN 0 AND 0xFFFFFF)
  AND ((branch = '') = (parent_id IS NULL) AND (parent_id IS NULL) = (id >> 43 & 1 = 0))
  AND (shares IS NULL OR parent_id IS NOT NULL)
  AND (parent_id IS NULL OR parent_id < id)
  AND (last_seq >= leaves_at)
)
UNION ALL
SELECT 'jobs', ref FROM jobs
WHERE NOT (
  kind IN (
    'embed', 'summarize', 'archive', 'decay', 'extract',
    'expire', 'retain', 'sessions', 'optimize', 'checkpoint'
  )
  AND subject IN ('session', 'message', 'entry', 'item', 'scope', 'summary', 'file')
)
ORDER BY 1, 2
LIMIT 20
"""

MONTH_MS = 30 * 86_400_000

PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|(\?)|(?<![:\w]):(\w+)")


class PostgresMaintenance:
    """Maintenance of one open database; see `memdb.engine.base.Maintenance`."""

    __slots__ = ("_db",)

    def __init__(self, db: PostgresDatabase) -> None:
        """Maintain *db*."""
        self._db = db

    def check_pages(self, *, deep: bool) -> list[str]:  # noqa: ARG002 (of the protocol)
        """Return nothing, because the server has its own checksums (`pg_amcheck` verifies them)."""
        return []

    def check_schema(self) -> list[str]:
        """Return missing tables, indexes that cannot be used, and rows that break a rule."""
        with self._db.read() as tx:
            stored = {name for name, _ in tx.all(SELECT_TABLES)}
            invalid = [name for (name,) in tx.all(SELECT_INVALID)]
            missing = sorted(read_names() - stored)
            broken = [] if missing else tx.all(SELECT_BROKEN)
        found = [f"table {name} is missing" for name in missing]
        found += [f"index {name} is not valid: REINDEX it" for name in invalid]
        found += [
            f"{table}: the row with id {ref} breaks a rule of schema.sql" for table, ref in broken
        ]
        return found[:MAX_FINDINGS]

    def list_other_tables(self, tx: AnyTx) -> tuple[str, ...]:
        """Return the names of tables and views that are not memdb's, which it leaves alone."""
        own = read_names()
        return tuple(
            name
            for name, _ in tx.all(SELECT_TABLES)
            if name not in own and re.sub(r"_p\d+$", "", name) not in own
        )

    def check_indexes(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each index that differs from its rows, once per scope, and how."""
        for scope_no in self.list_scopes():
            with self._db.read() as tx:
                yield from find_differences(tx, scope_no)

    def check_archived_words(self) -> list[str]:
        """Return words of archived messages on which their index and the segments differ."""
        found: list[str] = []
        for scope_no in self.list_scopes():
            with self._db.read() as tx:
                found += find_archived_words(tx, scope_no)
        return found

    def list_scopes(self) -> list[int]:
        """Return the numbers of all scopes; each is checked by itself, so no snapshot is long."""
        with self._db.read() as tx:
            return tx.words.scopes()

    def truncate_wal(self) -> list[str]:
        """Return nothing: the server decides when to drop its WAL, as a proof says (`probes`)."""
        return []

    def list_migration_copies(self) -> list[str]:
        """Return []: a migration on a server leaves no copy."""
        return []

    def describe_held_wal(self) -> str | None:
        """Return None: the server moves its WAL by itself."""
        return None

    def describe_loss(self) -> None:
        """Return None: a server manages its log."""

    def accept_loss(self) -> bool:
        """Return False: nothing was lost."""
        return False

    def list_wal_readers(self) -> tuple[int, ...]:
        """Return (): the server moves its WAL by itself."""
        return ()

    def rebuild(self, derive: Callable[[AnyTx], None]) -> None:
        """Run *derive*, then rebuild the full text per scope, so that only its writers wait."""
        with self._db.write() as tx:
            derive(tx)
        for scope_no in self.list_scopes():
            with self._db.write() as tx:
                tx.words.rebuild_scope(scope_no)

    def merge(self) -> int:
        """
        Create missing vector indexes of large scopes; return how many.

        The call also drops the indexes of dropped spaces, and removes rows of ended connections
        from `commits`; autovacuum does the rest.
        """
        with self._db.write() as tx:
            tx.run(DELETE_WRITER, {"writer": 0, "before_ms": tx.now_ms - MONTH_MS})
        with self._db.read() as tx:
            left, due = left_indexes(tx), due_indexes(tx)
        for sql in left + due:
            self._db.run_apart(sql)
        return len(due) // 2

    def vacuum(
        self,
        *,
        whole: bool = False,  # noqa: ARG002 (VACUUM FULL would keep readers waiting)
        progress: Progress | None = None,  # noqa: ARG002 (a server tells none)
    ) -> int:
        """
        Mark the room of deleted rows as free, and update statistics; return the bytes.

        Others can read and write at the same time.

        Raises:
            InvalidInput: the call was made inside `with db.write()`.
        """
        self._db.refuse_inside("vacuum")
        self._db.refuse_read_only()
        with self._db.read() as tx:
            before = self.measure(tx).size_bytes
        self._db.run_apart(f"VACUUM (ANALYZE) {', '.join(sorted(read_names()))}")
        with self._db.read() as tx:
            return max(0, before - self.measure(tx).size_bytes)

    def changes(self, tx: AnyTx) -> dict[str, int]:
        """
        Return how often each kind of thing was changed, by any process.

        Raises:
            SchemaTooNew: a newer memdb migrated the tables since they were opened.
        """
        (found,) = tx.one(SELECT_FORMAT) or (schema.FORMAT,)
        if found > schema.FORMAT:
            raise SchemaTooNew(self._db.path, found, schema.FORMAT)
        return dict(tx.all(SELECT_CHANGES))

    def refuse_replaced(self) -> None:
        """Raise Closed after `close`."""
        if self._db.is_closed:
            raise Closed(f"{self._db.path} was closed: open it again with memdb.open()")

    def measure(self, tx: AnyTx) -> Storage:
        """Return how much disk space the tables take."""
        by_table: dict[str, int] = dict(tx.all(SELECT_BYTES))
        return Storage(
            format=tx.read_number(SELECT_FORMAT),
            size_bytes=sum(by_table.values()),
            wal_bytes=0,
            bytes_by_table=by_table,
        )

    def query(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any], *, limit: int, timeout_s: float
    ) -> tuple[tuple[str, ...], list[Row], bool]:
        """
        Run a user's SELECT in a read-only transaction, limited in time.

        The query may name the views of schema.sql. Numbers and bytes are returned as from a file.
        The query runs as the role `memdb_reader` if the user may switch to that.

        Raises:
            InvalidInput: *sql* is not a single SELECT, calls a volatile function, or cannot be run.
            Interrupted: the query took longer than *timeout_s*.
        """
        self._db.refuse_inside("query")
        check_query_values(values)
        psycopg = driver.load()
        text, bound = to_numbered(sql, values)
        if not text.lstrip(" \n\t(").lower().startswith(("select", "with", "values", "table")):
            raise InvalidInput("only a SELECT can be run: use the methods of memdb to write")
        with self._db.read() as tx:
            has_reader = _refuse_volatile(tx, sql)
            # Not for others: a function of the user's can change settings of the session, or lock.
            tx.is_broken = True
            try:
                if has_reader:
                    tx.run_script(f"SET LOCAL ROLE {READER}")
                columns, rows, more = _select(tx, with_views(text), bound, limit, timeout_s)
            except MemDBError as error:
                cause = error.__cause__
                if isinstance(cause, psycopg.errors.QueryCanceled):
                    raise Interrupted(f"the query took longer than {timeout_s} s") from error
                if isinstance(cause, psycopg.OperationalError) or cause is None:
                    raise
                detail = str(cause).partition("\n")[0]
                raise InvalidInput(f"the query cannot be run: {detail}") from cause
        return columns, [tuple(map(_as_file, row)) for row in rows], more

    def copy_to(  # (of the protocol)
        self,
        target: str,  # noqa: ARG002 (the other engine's)
        key: FileKey | None,  # noqa: ARG002 (the other engine's)
        *,
        replace: bool = False,  # noqa: ARG002 (the other engine's)
        progress: Progress | None = None,  # noqa: ARG002 (the other engine's)
    ) -> int:
        """Raise Unsupported: a server is not a file."""
        raise Unsupported(
            f"{self._db.path} is a server, which cannot be copied as a file: use "
            f"`memdb copy {self._db.path} FILE`, or pg_dump"
        )


def _refuse_volatile(tx: Tx, sql: str) -> bool:
    """
    Refuse a query that calls a volatile function; return whether it can run as `READER`.

    What looks like a call counts also in a text, and in a query with a comment each name does.
    """
    if ESCAPED_NAME.search(sql):
        raise InvalidInput(
            'the query has a name in escapes (U&"..."): write the name without escapes'
        )
    found = (NAMED if COMMENTED.search(sql) else CALLED).findall(sql)
    names = sorted({name.lower() for name in found})
    ((volatile, has_reader),) = tx.all(SELECT_ALLOWED, {"names": names})
    if volatile is not None:
        raise InvalidInput(f"the query calls {volatile}, which may do more than read: leave it out")
    return bool(has_reader)


def _select(
    tx: Tx, sql: str, values: list[Any], limit: int, timeout_s: float
) -> tuple[tuple[str, ...], list[Row], bool]:
    """
    Return the columns and first rows of a user's query, and whether there are more.

    Raises:
        MemDBError: the query cannot be run; psycopg's error is the cause.
    """

    def fetch(connection: Any) -> Any:
        connection.execute(f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}")
        # Of the server: it takes one SELECT, and computes and sends no more rows than these.
        with driver.load().RawServerCursor(connection, "rows") as cursor:
            rows = cursor.execute(sql, values).fetchmany(limit + 1)
            columns = tuple(column.name for column in cursor.description or ())
        return columns, rows[:limit], len(rows) > limit

    found: tuple[tuple[str, ...], list[Row], bool] = tx.apart(fetch)
    return found


def _as_file(value: Any) -> Any:
    """Return a value as SQLite returns it, where sums and counts are int or float."""
    if isinstance(value, memoryview):
        return bytes(value)
    as_ratio = getattr(value, "as_integer_ratio", None)
    if as_ratio is None or isinstance(value, (int, float)):
        return value
    is_whole = value == value.to_integral_value()  # a Decimal
    return int(value) if is_whole else float(value)


def to_numbered(sql: str, values: Any) -> tuple[str, list[Any]]:
    """
    Return a query with `$n` for its placeholders, and the values in that order.

    Raises:
        InvalidInput: a placeholder has no value, or their numbers differ.

    >>> to_numbered("SELECT '?' WHERE a = ? AND b = ?", [1, 2])
    ("SELECT '?' WHERE a = $1 AND b = $2", [1, 2])
    >>> to_numbered("SELECT :a, :b::text, :a", {"a": 1, "b": 2})
    ('SELECT $1, $2::text, $1', [1, 2])
    """
    names: list[str] = []
    given = values if isinstance(values, dict) else list(values)
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        if match[1]:
            count += 1
            return f"${count}"
        if match[2]:
            if match[2] not in names:
                names.append(match[2])
            return f"${names.index(match[2]) + 1}"
        return match[0]

    text = PLACEHOLDER.sub(number, sql)
    if isinstance(given, dict):
        missing = [name for name in names if name not in given]
        if missing:
            raise InvalidInput(f"the query has no value for :{missing[0]}")
        return text, [given[name] for name in names]
    if count != len(given):
        raise InvalidInput(
            f"the query has {count} placeholders, but {len(given)} values were given"
        )
    return text, given


# A token's list in the full-text index is compared by how many ids it has and by their sum, so one
# scope and kind takes as much memory as it has different words.

# What `check` calls the index of a kind, in every engine.
INDEXES = {
    "message": "messages_fts",
    "entry": "entries_fts",
    "summary": "summaries_fts",
    "artifact": "artifacts_fts",
    "item": "items_fts",
    "session": "sessions_fts",
}

# Words that one finding names.
EXAMPLES = 3

SELECT_PAGE = """/* maintenance.word_page */
SELECT term, block, refs FROM words
WHERE scope_no = :scope_no AND kind = :kind AND (term, block) > (:term, :block)
ORDER BY term, block
LIMIT 1000
"""

SELECT_TAIL = """/* maintenance.word_tail */
SELECT ref, terms FROM words_tail
WHERE scope_no = :scope_no AND kind = :kind
ORDER BY ref
"""


def find_differences(tx: Tx, scope_no: int) -> Iterator[tuple[str, str]]:
    """
    Yield the name of each index of a scope that differs from its rows, and the difference.

    Cost: 20 µs per row; all rows are read.
    """
    words = PostgresWords(tx)
    for kind, index in INDEXES.items():
        pages = words.rows(ROWS[kind], *scope_range(scope_no))
        rows = ((row[0], keys_of(row[1:])) for page in pages for row in page)
        if differing := _differing(tx, scope_no, kind, rows):
            named = ", ".join(map(repr, islice(differing, EXAMPLES)))
            yield index, f"words of scope {scope_no} differ from its rows: {named}"


def find_archived_words(tx: Tx, scope_no: int) -> list[str]:
    """Return some words of archived messages for which their index and the segments differ."""
    texts = (one for page in PostgresWords(tx).archived_texts(scope_no) for one in page)
    rows = ((ref, archived_keys(text)) for ref, text in texts)
    return [f"word {term!r}" for term in _differing(tx, scope_no, "archived", rows)[:EXAMPLES]]


def _differing(tx: Tx, scope_no: int, kind: str, rows: Iterable[tuple[int, set[str]]]) -> list[str]:
    """Return the tokens whose list differs from *rows*, which are ids with their keys."""
    expected, stored = _sums(rows), _stored_sums(tx, scope_no, kind)
    return sorted(
        term for term in expected.keys() | stored.keys() if expected.get(term) != stored.get(term)
    )


def _sums(rows: Iterable[tuple[int, Iterable[str]]]) -> Sums:
    sums: Sums = {}
    for ref, keys in rows:
        for key in keys:
            count, total = sums.get(key, (0, 0))
            sums[key] = count + 1, total + ref
    return sums


def _stored_sums(tx: Tx, scope_no: int, kind: str) -> Sums:
    """Return the sums over the lists and the tail of a scope and kind."""
    place = {"scope_no": scope_no, "kind": KINDS[kind]}
    sums = _sums(tx.all(SELECT_TAIL, place))
    after = {"term": "", "block": -1}
    while page := tx.all(SELECT_PAGE, {**place, **after}):
        for term, _, data in page:
            refs = refs_of(scope_no, data)
            count, total = sums.get(term, (0, 0))
            sums[term] = count + len(refs), total + sum(refs)
        after = {"term": page[-1][0], "block": page[-1][1]}
    return sums
