"""
Engine protocols: the interface between a storage engine and the tables above it.

Everything above the engine uses only these protocols; `memdb.engine.sqlite` and `memdb.postgres`
implement them. A statement is portable SQL. A statement begins with its name, `/* table.verb */`,
and binds values by name. An engine may replace a statement with its own SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from memdb.errors import MemDBError
    from memdb.models.keys import FileKey
    from memdb.models.protocols import Clock, Ids
    from memdb.models.reports import Proof
    from memdb.models.types import Progress
    from memdb.text.terms import Term

    Row = tuple[Any, ...]
    Values = Mapping[str, Any]
    Key = int | str | tuple[int, int, str, int] | tuple[str, str, str, str]
    KnownKey = tuple[str | int, ...]
    Postings = dict[Term, Collection[int]]
else:
    Protocol = object  # a class of a Protocol takes 50 µs more to make, at each start


class Storage(Record):
    """
    How much disk space a database takes.

    Attributes:
        format: Number of the file format.
        size_bytes: Size of the file without its WAL, 0 in memory.
        wal_bytes: Size of the WAL, whose pages are not yet moved into the file.
        bytes_by_table: Bytes of each kind of content, with its indexes.
        migration_copies: Names of the copies that migrations left beside the file.
    """

    format: int
    size_bytes: int
    wal_bytes: int
    bytes_by_table: dict[str, int]
    migration_copies: tuple[str, ...] = ()


class Asking:
    """Reads of a transaction, for any engine."""

    __slots__ = ()

    all: Callable[..., list[Row]]
    one: Callable[..., Row | None]

    def pages(self, sql: str, after: dict[str, Any]) -> Iterator[list[Row]]:
        """Yield the rows of a query in pages; see `Tx`."""
        while rows := self.all(sql, after):
            yield rows
            after = dict(zip(after, rows[-1], strict=False))

    def find_number(self, sql: str, values: Values | None = None) -> int | None:
        """Return the first value of a query as a whole number, None without a row."""
        row = self.one(sql, values)
        return None if row is None or row[0] is None else int(row[0])

    def read_number(self, sql: str, values: Values | None = None) -> int:
        """Return the first value of a query as a whole number, 0 without a row."""
        return self.find_number(sql, values) or 0


class Tx(Protocol):
    """
    A transaction: runs statements in one snapshot, all with the same time.

    Attributes:
        now_ms: The time of everything written in it, UTC milliseconds.
        written_by: The program, adapter or client that writes; None means that it is unknown.
        kept: Opened archive segments, cached for the connection by the SHA-256 of the segment.
    """

    now_ms: int
    written_by: str | None
    kept: dict[bytes, Any]

    @property
    def words(self) -> Words:
        """The full-text indexes."""

    @property
    def vectors(self) -> Vectors:
        """The stored vectors."""

    def all(self, sql: str, values: Values | None = None) -> list[Row]:
        """Return every row of a query."""

    def one(self, sql: str, values: Values | None = None) -> Row | None:
        """Return the first row of a query, None if there is none."""

    def expect(self, sql: str, values: Values | None = None) -> None:
        """
        Prefetch a query that `all` or `one` will run soon, together with the next query.

        Prefetching helps in snapshots where each query costs a round trip; elsewhere it does
        nothing.
        """

    def pages(self, sql: str, after: dict[str, Any]) -> Iterator[list[Row]]:
        """
        Yield the rows of a query with a LIMIT in pages, from the key *after* to the end.

        The query binds *after*, and its first columns are that key in that order.
        """

    def find_number(self, sql: str, values: Values | None = None) -> int | None:
        """Return the first value of a query as a whole number, None without a row."""

    def read_number(self, sql: str, values: Values | None = None) -> int:
        """Return the first value of a query as a whole number, 0 without a row."""

    def run(self, sql: str, values: Values | None = None) -> None:
        """Run a statement. A server may raise its error at a later call, or at the commit."""

    def count_changed(self, sql: str, values: Values | None = None) -> int:
        """Run a statement and return how many rows it changed; waits for a server."""

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*, as `run` does."""

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert many rows, given as values of *columns*, in the fastest way of the engine."""

    def known(self) -> dict[KnownKey, int]:
        """
        Return answers of earlier queries that are still valid, by query.

        The store is empty after a commit of another connection, after a write of this one without
        `keep_known`, and after a rollback. Cost: 0.3 µs.
        """

    def keep_known(self) -> None:
        """Keep the answers in `known`: the caller says that its writes change none of them."""

    def verify(self, table: str, ids: Collection[Key]) -> None:
        """
        Compare rows of a table with their digests, each row once per connection.

        Args:
            table: "scopes", "sessions", "messages", "summaries", "entries", by id;
                "settings", by name; "meta", by key; "artifacts", by scope, session, name and
                `rev_version`.

        Raises:
            Corrupt: a row differs, or has a time of no date.
        """

    def find_damaged_rows(self, *, deep: bool) -> Iterable[str]:
        """Yield base rows that differ from their digest; read artifacts' bytes only if *deep*."""

    def find_broken_keys(self) -> list[str]:
        """Return rows whose foreign key has no parent, 20 at most."""


class Words(Protocol):
    """Full-text indexes by kind ("message", "entry", "item", "session" ...) and row id."""

    def add(self, kind: str, low: int, high: int | None = None) -> None:
        """Add the rows from *low* to *high* to the index, or only the row *low*."""

    def load(self, kind: str, low: int, high: int) -> None:
        """Add rows of a scope that nobody uses yet; faster than `add` for many rows."""

    def drop(self, kind: str, low: int, high: int | None = None) -> None:
        """Remove rows from the index; call it before the rows are changed or deleted."""

    def add_each(self, kind: str, ids: Collection[int]) -> None:
        """Add rows of any kind except messages to the index."""

    def drop_each(self, kind: str, ids: Collection[int]) -> None:
        """Remove rows from the index as `drop` does."""

    def add_messages(self, rows: Sequence[Values]) -> None:
        """Add new messages, given as rows; faster than reading them again."""

    def move_tail(self) -> None:
        """Move the words of all messages in the tail into the index."""

    def add_archived(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add archived messages, given as (id, text): their rows contain no text."""

    def drop_archived(self, texts: Iterable[tuple[int, str]]) -> None:
        """Remove archived messages, given as (id, text) with the text that was added."""

    def postings(
        self, kind: str, terms: Sequence[Term], low: int, high: int, newest: int | None = None
    ) -> Postings:
        """Return, for each term, the ids in [low, high] whose text holds it, at most *newest*."""

    def expect(self, kind: str, terms: Sequence[Term], low: int, high: int) -> None:
        """Prefetch what `postings` reads; see `Tx.expect`."""

    def find_archived_differences(self) -> list[str]:
        """Return how the index of archived messages differs from the archived messages."""

    def rebuild_archived(self) -> None:
        """Rebuild the index of archived messages from the segments."""


class Vectors(Protocol):
    """Vectors of rows by space, kind ("message", "entry", "item" ...) and row id (ref)."""

    def put(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store the vector of each (ref, vector), and replace an older one."""

    def load(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store vectors as `list_stored` of another database returned them."""

    def drop(self, kind: str, low: int, high: int, space_no: int | None = None) -> None:
        """Remove the vectors of all refs in [low, high], in one space or in every space."""

    def drop_some(self, space_no: int) -> bool:
        """Remove some thousand vectors of a space; return False if none is left."""

    def count(self, space_no: int) -> int:
        """Return the number of vectors in a space."""

    def find(self, space_no: int, kind: str, refs: Iterable[int]) -> dict[int, bytes]:
        """Return the vectors of *refs* by ref, without refs that have none."""

    def list_page(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return (ref, vector) of up to *limit* rows with *after* < ref <= *high*, by ref."""

    def list_stored(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return what `list_page` returns, but the stored signed bytes for messages."""

    def present(self, space_no: int, kind: str, refs: Iterable[int]) -> set[int]:
        """Return the *refs* that have a vector."""

    def first_missing(self, space_no: int, low: int, high: int) -> int | None:
        """Return the id of the first message in [low, high] with a text and no vector, or None."""

    def nearest(
        self,
        space_no: int,
        kind: str,
        vector: bytes,
        span: tuple[int, int],
        *,
        limit: int,
        allowed: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """Return the refs of a span nearest to *vector* with their cosine, nearest first."""

    def measure(
        self, space_no: int, kind: str, vector: bytes, refs: Collection[int]
    ) -> list[tuple[int, float]]:
        """Return the cosine of each of *refs* that has a vector, nearest first."""

    def rebuild(self) -> None:
        """Rebuild data derived from the vectors, and delete vectors that no row can use."""

    def wrong_sketches(self) -> Iterable[tuple[str, int]]:
        """Yield kind and number of each bucket whose sketches do not match its vectors."""


class Probes(Protocol):
    """Pieces and words of forgotten texts: purge them from the disk, and search for them."""

    def ask(self, terms: Sequence[Term]) -> None:
        """Look for places that still contain all *terms* of a query."""

    def add(self, values: Iterable[str | bytes | None], *, summary: bool = False) -> None:
        """Add texts, or bytes as they are stored; None and "" are skipped."""

    def mend_indexes(self) -> None:
        """Rebuild each full-text index that may contain a word of no row."""

    def purge(self) -> list[str]:
        """Remove every byte that belongs to no row from the disk; return what prevented it."""

    def prove(self, notices: list[str], scopes: Sequence[int]) -> Proof:
        """Search the whole storage for the texts; only places of *scopes* are named."""


class Maintenance(Protocol):
    """Checks and maintenance of an open database. Only methods with a *tx* join a transaction."""

    def check_pages(self, *, deep: bool) -> list[str]:
        """Return the damage that the engine finds in its storage; read everything if *deep*."""

    def check_schema(self) -> list[str]:
        """Return the tables, indexes and triggers that differ from schema.sql."""

    def list_other_tables(self, tx: Tx) -> tuple[str, ...]:
        """Return the names of tables and views of other programs, which memdb leaves alone."""

    def check_indexes(self) -> Iterable[tuple[str, str]]:
        """Yield the name of each full-text index that differs from its rows, and the difference."""

    def check_archived_words(self) -> list[str]:
        """Return words of archived messages for which their index and the segments differ."""

    def truncate_wal(self) -> list[str]:
        """Move the WAL into the file and remove its bytes; return what prevented it."""

    def list_migration_copies(self) -> Sequence[str]:
        """Return the paths of the copies that migrations left beside the file."""

    def describe_held_wal(self) -> str | None:
        """Return what prevents moving a large log into the file, None if nothing does."""

    def describe_loss(self) -> str | None:
        """Return what was lost with a missing log, None if nothing was."""

    def accept_loss(self) -> bool:
        """Stop reporting that a log was missing; return whether one was."""

    def list_wal_readers(self) -> tuple[int, ...]:
        """Return the ids of the processes that prevent moving a large log into the file."""

    def rebuild(self, derive: Callable[[Tx], None]) -> None:
        """Run *derive* in a transaction, then rebuild every full-text index from its rows."""

    def merge(self) -> int:
        """Merge parts of the full-text indexes; return how many indexes there are."""

    def vacuum(self, *, whole: bool = False, progress: Progress | None = None) -> int:
        """Return free pages to the disk, or all free room with *whole*; return the bytes."""

    def changes(self, tx: Tx) -> Mapping[str, int]:
        """
        Return how often rows of each kind were changed by any process.

        A kind is "message", "session", "entry", "summary", "artifact", "item", "state",
        "settings" or "scope". Numbers can only be compared for being equal. New messages and
        sessions are not counted, because `last_seq` and the rows show them.

        Raises:
            FileError: the database was removed, replaced, or migrated by a newer memdb.
        """

    def refuse_replaced(self) -> None:
        """Raise FileError if the database was removed or replaced, and Closed after `close`."""

    def measure(self, tx: Tx) -> Storage:
        """Return how much disk space the database takes; it reads every page once."""

    def query(
        self,
        sql: str,
        values: Sequence[Any] | Mapping[str, Any],
        *,
        limit: int,
        timeout_s: float,
    ) -> tuple[tuple[str, ...], list[Row], bool]:
        """Return the columns and first *limit* rows of a SELECT, and whether there are more."""

    def copy_to(
        self,
        target: str,
        key: FileKey | None,
        *,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Copy the database as it is now to the file *target*; return its bytes."""


class Engine(Protocol):
    """
    An open database.

    Attributes:
        path: Path or address of the database, for error messages.
        clock: Returns UTC milliseconds.
        ids: Returns a new uid for a time.
        commits: Number of write transactions that this object committed so far.
        is_read_only: Whether it was opened with mode="read": every write is refused.
        key: Key of an encrypted file, else None.
        only_user: The user whose scopes it may contain; None means any user.
        opened_by: The program or adapter that opened it; None means that it is unknown.
    """

    path: str
    only_user: str | None
    opened_by: str | None
    key: FileKey | None
    clock: Clock
    ids: Ids
    commits: int
    is_read_only: bool

    @property
    def written_by(self) -> str | None:
        """The writer of rows: the client of this call, or the program that opened it."""

    def refuse_read_only(self) -> None:
        """Raise ReadOnly if it was opened with mode="read"; `write` does so too."""

    def keep_to(self, user: str) -> None:
        """Refuse the scopes of other users from now on, and save memory as one of many files."""

    def refuse_user(self, user: str) -> None:
        """Raise Unsupported if the scopes of *user* belong in another file."""

    def refuse_inside(self, call: str) -> None:
        """Raise InvalidInput, naming *call*, if this thread is inside `with engine.write()`."""

    def read(self) -> AbstractContextManager[Tx]:
        """Return a context in which all reads see one snapshot."""

    def write(self) -> AbstractContextManager[Tx]:
        """Return a context whose writes are committed together or not at all; it may be nested."""

    def write_whole(self) -> AbstractContextManager[Tx]:
        """Return a context like `write` without savepoints: an error rolls back all of it."""

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""

    @property
    def writing(self) -> bool:
        """Whether this thread is inside `with engine.write()`."""

    def watch_undo(self) -> Callable[[], bool] | None:
        """
        Return a function that returns whether open writes of this thread were rolled back since.

        None outside a transaction, where only committed rows are read.
        """

    def run_again(self, call: Callable[[], Any], start_s: float, error: MemDBError) -> Any:
        """
        Return the result of *call*, run again because *error* rolled back its transaction.

        Args:
            start_s: Time of its first begin, by `perf_counter`.

        Raises:
            MemDBError: *error*, if this thread has committed since, or the last error of *call*.
        """

    def stamp(self, *, start: bool = False) -> int | None:
        """
        Return a number that changes with every commit of any connection; None if unknown now.

        Never waits, but *start* asks a server. In a file it begins to watch, if nothing does yet.
        """

    def others(self) -> int | None:
        """Return a number that changes with commits of other connections; None if unknown now."""

    def checkpoint(self) -> int:
        """Move the WAL into the file; return the number of pages moved."""

    @property
    def maintenance(self) -> Maintenance:
        """The checks and maintenance of the database."""

    def close(self) -> None:
        """Close it; calling it again does nothing."""
