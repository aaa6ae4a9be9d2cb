"""
Engine protocols: the interface between a storage engine and the tables above it.

Everything above the engine uses these protocols only; `memdb.engine.sqlite` and `memdb.postgres`
implement them. A statement is portable SQL that begins with its name, `/* table.verb */`, and
binds values by name.
An engine may replace a statement, by its name, with its own SQL.
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
    How much of the disk a database takes.

    Attributes:
        format: Number of the file format.
        size_bytes: Size of the file itself, 0 in memory.
        wal_bytes: Size of the WAL, which is not yet moved into the file.
        bytes_by_table: By kind of content, with its indexes.
        migration_copies: Names of the copies that migrations left beside the file.
    """

    format: int
    size_bytes: int
    wal_bytes: int
    bytes_by_table: dict[str, int]
    migration_copies: tuple[str, ...] = ()


class Asking:
    """Reads of a transaction of any engine, by its `all` and `one`."""

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
    A transaction: runs statements, all in one snapshot and with one time.

    Attributes:
        now_ms: The time of everything written in it, UTC milliseconds.
        written_by: The program, adapter or client that writes; None: nobody said.
        kept: Cache of the connection, by the SHA-256 of what a value was made from.
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
        Prefetch a query that `all` or `one` will ask soon, together with the next one.

        For snapshots, where each question costs a round trip; else it does nothing.
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

    def run(self, sql: str, values: Values | None = None) -> int:
        """Run a statement and return how many rows it changed."""

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*."""

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert many rows, given as values of *columns*; the fastest way the engine has."""

    def known(self) -> dict[KnownKey, int]:
        """
        Return what the file was asked before and that still holds, by question.

        Empty after any commit of another connection, any write of this one that was not
        followed by `keep_known`, and whatever was undone. Cost: 0.3 µs.
        """

    def keep_known(self) -> None:
        """Keep `known`: the writes since then make none of them untrue."""

    def verify(self, table: str, ids: Collection[Key]) -> None:
        """
        Compare rows of a table with their digests; each row once per connection.

        Args:
            table: "scopes", "sessions", "messages", "summaries", "entries", by id;
                "settings", by name; "meta", by key; "artifacts", by scope, session, name and
                `rev_version`.

        Raises:
            Corrupt: a row differs.
        """

    def find_damaged_rows(self, *, deep: bool) -> Iterable[str]:
        """Yield rows of truth that differ from their digest; artifacts' bytes only if *deep*."""

    def find_broken_keys(self) -> list[str]:
        """Return rows whose foreign key has no parent, 20 at most."""


class Words(Protocol):
    """Full-text indexes by kind ("message", "entry", "item", "session" ...) and row id."""

    def add(self, kind: str, low: int, high: int | None = None) -> None:
        """Add rows to the index: those from *low* to *high*, or only *low*."""

    def load(self, kind: str, low: int, high: int) -> None:
        """Add rows of a scope that nobody uses yet: faster than `add`, if they are many."""

    def drop(self, kind: str, low: int, high: int | None = None) -> None:
        """Remove rows from the index; call it before they change or are deleted."""

    def add_each(self, kind: str, ids: Collection[int]) -> None:
        """Add rows to the index, of any kind but messages."""

    def drop_each(self, kind: str, ids: Collection[int]) -> None:
        """Remove rows from the index as `drop` does."""

    def add_messages(self, rows: Sequence[Values]) -> None:
        """Add new messages, given as their rows: faster than reading them again."""

    def move_tail(self) -> None:
        """Put the words of all messages into the index that are only in its tail."""

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
        """Store the vector of each (ref, vector), replacing an older one."""

    def load(self, space_no: int, kind: str, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store vectors as `list_stored` of another database gave them."""

    def drop(self, kind: str, low: int, high: int, space_no: int | None = None) -> None:
        """Remove the vectors of all refs in [low, high]; in every space, or in one."""

    def drop_some(self, space_no: int) -> bool:
        """Remove some thousand vectors of a space; False when it has none left."""

    def count(self, space_no: int) -> int:
        """Return how many vectors a space holds."""

    def find(self, space_no: int, kind: str, refs: Iterable[int]) -> dict[int, bytes]:
        """Return the vectors of those of *refs* that have one, by ref."""

    def list_page(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return (ref, vector) of up to *limit* rows with *after* < ref <= *high*, by ref."""

    def list_stored(
        self, space_no: int, kind: str, after: int, high: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Return what `list_page` does, of messages the signed bytes that are kept of them."""

    def present(self, space_no: int, kind: str, refs: Iterable[int]) -> set[int]:
        """Return those of *refs* that have a vector."""

    def first_missing(self, space_no: int, low: int, high: int) -> int | None:
        """Return the first message id in [low, high] with a text and no vector."""

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
        """Rebuild what is derived from the vectors; delete vectors that no row can use."""

    def wrong_sketches(self) -> Iterable[tuple[str, int]]:
        """Yield kind and number of each bucket whose sketches differ from its vectors."""


class Probes(Protocol):
    """Pieces and words of forgotten texts: purge them from the disk, and search for them."""

    def ask(self, terms: Sequence[Term]) -> None:
        """Look for places that still say all *terms*, which a query named."""

    def add(self, values: Iterable[str | bytes | None], *, summary: bool = False) -> None:
        """Add texts, or bytes as they are stored; None and "" are nothing."""

    def mend_indexes(self) -> None:
        """Rebuild each full-text index that may contain a word that no row has."""

    def purge(self) -> list[str]:
        """Remove every byte that is not part of a row from the disk; return what prevented it."""

    def prove(self, notices: list[str], scopes: Sequence[int]) -> Proof:
        """Search all of the storage for the texts; only places of *scopes* are named."""


class Maintenance(Protocol):
    """Checks and maintenance of an open database. Only what is given a *tx* joins a transaction."""

    def check_pages(self, *, deep: bool) -> list[str]:
        """Return the damage that the engine finds in its storage; reads everything if *deep*."""

    def check_schema(self) -> list[str]:
        """Return the tables, indexes and triggers that are not those of schema.sql."""

    def list_other_tables(self, tx: Tx) -> tuple[str, ...]:
        """Return the names of tables and views that are not memdb's, which it leaves alone."""

    def check_indexes(self) -> Iterable[tuple[str, str]]:
        """Yield the name of each full-text index that differs from its rows, and how."""

    def check_archived_words(self) -> list[str]:
        """Return words of archived messages on which their index and the segments differ."""

    def empty_log(self) -> list[str]:
        """Take committed changes out of the log, bytes too; return what prevented it."""

    def checkpoint(self) -> int:
        """Move the WAL into the file; return the pages moved."""

    def list_migration_copies(self) -> Sequence[str]:
        """Return the paths of the copies that migrations left beside the file."""

    def describe_held_wal(self) -> str | None:
        """Return what keeps a large log from being moved into the file, None if nothing does."""

    def describe_loss(self) -> str | None:
        """Return what was lost with a log that was missing, None if nothing was."""

    def accept_loss(self) -> bool:
        """Forget that a log was missing; return whether one was."""

    def list_wal_readers(self) -> tuple[int, ...]:
        """Return the numbers of the processes that keep a large log from being moved."""

    def rebuild(self, derive: Callable[[Tx], None]) -> None:
        """Run *derive* in a transaction, then rebuild every full-text index from its rows."""

    def merge(self) -> int:
        """Merge parts of the full-text indexes; return how many indexes there are."""

    def vacuum(self, *, whole: bool = False, progress: Progress | None = None) -> int:
        """Return free pages to the disk, or with *whole* all free room; return the bytes."""

    def changes(self, tx: Tx) -> Mapping[str, int]:
        """
        Return how often each kind of thing was changed, by any process.

        A kind is "message", "session", "entry", "summary", "artifact", "item", "state",
        "settings" or "scope". Only whether a number is the same as before means something. Appended
        messages and new sessions are not counted: `last_seq` and the rows tell.

        Raises:
            FileError: the database was removed, replaced, or migrated by a newer memdb.
        """

    def refuse_replaced(self) -> None:
        """Raise FileError if the database is not there any more, or another is; Closed after it."""

    def measure(self, tx: Tx) -> Storage:
        """Return how much of the disk the database takes; reads every page once."""

    def query(
        self,
        sql: str,
        values: Sequence[Any] | Mapping[str, Any],
        *,
        limit: int,
        timeout_s: float,
    ) -> tuple[tuple[str, ...], list[Row], bool]:
        """Return the columns and first *limit* rows of a SELECT, and whether there are more."""

    def bound_foreign(
        self, connection: Any, table: str | None, *, timeout_s: float
    ) -> AbstractContextManager[None]:
        """Bound what reading a stranger's database may do and take; *table*: the one to read."""

    def copy_to(
        self,
        target: str,
        key: FileKey | None,
        *,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Copy everything as it is at this moment to the file *target*; return its bytes."""

    def is_own_file(self, target: str) -> bool:
        """Return whether the database is stored at *target*, which must not be written over."""


class Engine(Protocol):
    """
    An open database.

    Attributes:
        path: Place where it is, for error messages.
        clock: Returns UTC milliseconds.
        ids: Returns a new uid for a time.
        commits: Write transactions of this object that were committed so far.
        is_read_only: Whether it was opened with mode="read": every write is refused.
        key: Key of an encrypted file, else None.
        only_user: Whose scopes it may hold; None means anybody's.
        opened_by: The program or adapter that opened it; None means that nobody said.
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
        """The writer of rows: the client of this call, else who opened it; None if unknown."""

    def refuse_read_only(self) -> None:
        """Raise ReadOnly if it was opened with mode="read"; `write` does so too."""

    def keep_to(self, user: str) -> None:
        """Refuse from now on the scopes of others; such a file is one of many: save memory."""

    def refuse_user(self, user: str) -> None:
        """Raise Unsupported if the scopes of *user* belong into another file."""

    def refuse_inside(self, call: str) -> None:
        """Raise InvalidInput if this thread is inside `with engine.write()`; it names *call*."""

    def read(self) -> AbstractContextManager[Tx]:
        """Return a context in which all reads see one snapshot."""

    def write(self) -> AbstractContextManager[Tx]:
        """Return a context whose writes are committed together or not at all; it may be nested."""

    def write_whole(self) -> AbstractContextManager[Tx]:
        """Return a context like `write` without savepoints: an error inside undoes all of it."""

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""

    @property
    def writing(self) -> bool:
        """Whether this thread is inside `with engine.write()`."""

    def watch_undo(self) -> Callable[[], bool] | None:
        """
        Return what tells whether writes of this thread's open transaction were undone since.

        None outside of a transaction: what is read there was committed.
        """

    def run_again(self, call: Callable[[], Any], start_s: float, error: MemDBError) -> Any:
        """
        Return what *call* returns, whose transaction was undone with *error*, not by the call.

        Args:
            start_s: When it was first begun, by `perf_counter`.

        Raises:
            MemDBError: *error*, if this thread has committed since, or what it raised last.
        """

    def stamp(self, *, start: bool = False) -> int | None:
        """
        Return a number that changes with every commit, by any connection; None if not known now.

        Never waits. *start*: make what it takes to know it.
        """

    def others(self) -> int | None:
        """Return a number that changes with other connections' commits; None if not known now."""

    @property
    def maintenance(self) -> Maintenance:
        """Checks and maintenance of what is stored."""

    def close(self) -> None:
        """Close it; calling it again does nothing."""
