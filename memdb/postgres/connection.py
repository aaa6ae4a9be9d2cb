"""
Connections and transactions: run statements on a server, again after a fail-over (ADR-0031).

A transaction records its statements and the server's answers. If the connection is lost, or another
transaction conflicts, it is repeated on a new connection, statement by statement. The transaction
continues if the answers are the same. So the caller sees an error only if something that it has
read is different now, or no server answers within `RETRY_S`.

A transaction that only reads sees one snapshot, so it runs no statement twice. Its next statements
may be sent ahead, together with another one (ADR-0049).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memdb.engine.base import Asking
from memdb.engine.compose import kind_loaded
from memdb.errors import Busy, MemDBError, StorageError
from memdb.models.ids import MAX_SCOPE_NO
from memdb.postgres import commits, driver
from memdb.postgres.binary import copy_rows
from memdb.postgres.dialect import DRAWN, NUMBERED, Statement, statement_of
from memdb.postgres.facts import Facts
from memdb.postgres.link import Tries
from memdb.postgres.vectors import PostgresVectors
from memdb.postgres.words import PostgresWords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from memdb.engine.base import Key, KnownKey, Row, Values
    from memdb.postgres.link import Link
    from memdb.postgres.wire import Answer


# A transaction of more statements is not repeated: it would keep too much in memory.
MAX_REPEATED = 20_000
MAX_REPEATED_BYTES = 64 << 20


class Asked:
    """
    The recorded statements of one transaction.

    Attributes:
        statements: Each with its values, and with its rows if a caller read them.
        is_whole: Whether all are recorded; if not, the transaction cannot be repeated.
    """

    __slots__ = ("_ahead", "_answers", "_bytes", "_reads_only", "is_whole", "statements")

    def __init__(self, *, reads_only: bool) -> None:
        """Begin without statements; with *reads_only* all reads see one snapshot."""
        self.statements: list[tuple[str, list[Any], list[Row] | None]] = []
        self.is_whole = True
        self._reads_only = reads_only
        self._bytes = 0
        self._answers: dict[tuple[Any, ...], list[Row]] = {}
        self._ahead: dict[tuple[Any, ...], Answer] = {}

    def add(self, sql: str, bound: list[Any], rows: list[Row] | None) -> None:
        """Keep a statement and a copy of its rows, because callers may change their list."""
        if not self.is_whole:
            return
        kept = None if rows is None else [*rows]
        self.statements.append((sql, bound, kept))
        self._bytes += _bytes_of(bound)
        if kept:
            self._bytes += len(kept) * _bytes_of(kept[0])
        if kept is not None and self._reads_only:
            self._answers[sql, *bound] = kept
        if len(self.statements) > MAX_REPEATED or self._bytes > MAX_REPEATED_BYTES:
            self.give_up()

    def give_up(self) -> None:
        """Stop recording, because it became too much or cannot be repeated."""
        self.is_whole = False
        self.statements = []
        self.forget()

    def find(self, sql: str, bound: list[Any]) -> list[Row] | None:
        """Return this snapshot's rows for a query; None if it was not run."""
        found = self._answers.get((sql, *bound))
        return None if found is None else [*found]

    def lacks(self, sql: str, bound: list[Any]) -> bool:
        """Return whether a query may be sent ahead, and was neither run nor sent."""
        key = (sql, *bound)
        may = self._reads_only and self.is_whole
        return may and key not in self._answers and key not in self._ahead

    def put_ahead(self, sql: str, bound: list[Any], answer: Answer) -> None:
        """Store where the answer to a query that was sent ahead will be."""
        self._ahead[sql, *bound] = answer

    def take_ahead(self, sql: str, bound: list[Any]) -> Answer | None:
        """Return where the answer to a query will be; None if it was not sent."""
        return self._ahead.pop((sql, *bound), None) if self._ahead else None

    def forget(self) -> None:
        """Forget all answers, so that every query is run again."""
        self._answers.clear()
        self._ahead.clear()


def _bytes_of(values: Iterable[Any]) -> int:
    """Return the approximate size of the values of a statement or a row, in bytes."""
    return 100 + sum(len(one) for one in values if isinstance(one, (str, bytes)))


# What the two numbers of an advisory lock say: "memd", and what is locked.
LOCK_SPACE = 0x6D656D64
SCHEMA_LOCK = -1

BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# A migration takes the schema's lock alone, so a writer waits for it before it holds anything.
LOCK = """/* connection.lock */
SELECT
  pg_advisory_xact_lock_shared(:space, :schema_lock),
  pg_advisory_xact_lock(:space, :lock)
"""
LOCK_SCHEMA = """/* connection.lock_schema */
SELECT pg_advisory_xact_lock(:space, :schema_lock)
"""

EMPTY: dict[str, Any] = {}


class Tx(Asking):
    """
    A transaction: runs statements, all with the same time; see `memdb.engine.base.Tx`.

    A statement takes a list of ids or texts as `IN (SELECT value FROM
    json_each(:ids))`; callers pass a Python list (or tuple, or set).

    Attributes:
        now_ms: The time of everything written in it, UTC milliseconds.
        written_by: The program, adapter or client that writes; None means that it is unknown.
        kept: Cache of the connection; keys are the SHA-256 of the source of a value.
        holds_calls: Whether it is a transaction of the caller's, around public calls.
        link: Its connection.
        is_broken: Whether the connection is not used again.
        is_fenced: Whether the table `commits` shows what was committed; False while it is made.
    """

    __slots__ = (
        "_asked",
        "_begun",
        "_facts",
        "_has_changed",
        "_is_unsettling",
        "_kinds",
        "_locks",
        "_lost",
        "_unsure",
        "_vectors",
        "_words",
        "_writes",
        "holds_calls",
        "is_broken",
        "is_fenced",
        "kept",
        "link",
        "now_ms",
        "written_by",
    )

    def __init__(self, link: Link) -> None:
        """Run statements on *link*."""
        self.link = link
        self._words: PostgresWords | None = None
        self._vectors: PostgresVectors | None = None
        self._facts = Facts()
        self.kept: dict[bytes, Any] = {}
        self.now_ms = 0
        self.written_by: str | None = None
        self.is_broken = False
        self.holds_calls = False
        self._reset(writes=False)

    def _reset(self, *, writes: bool) -> None:
        self._writes = writes
        self.is_fenced = writes
        self._begun = False
        self._has_changed = False
        self._asked = Asked(reads_only=not writes)
        self._lost: MemDBError | None = None
        self._locks: set[int] = set()
        self._is_unsettling = False
        self._kinds: set[str] = set()  # of the things that it changed
        self._unsure: list[tuple[str, Answer]] = []  # what it may have changed

    def begin(self, *, writes: bool) -> None:
        """Begin a transaction at the next statement."""
        self._reset(writes=writes)
        self._facts.begin(self.link.facts_version[0])
        self.holds_calls = False

    @property
    def in_transaction(self) -> bool:
        """Whether a statement was run that is neither committed nor rolled back."""
        return self._begun

    def all(self, sql: str, values: Values | None = None) -> list[Row]:
        """Return every row of a query."""
        values = values or EMPTY
        statement = statement_of(sql)
        if statement.guessed is not None and self._writes:
            return self._take_seqs(statement, values)
        if statement.drawn is not None:
            values = {**values, statement.drawn: self._draw(DRAWN[statement.drawn])}
        return self._all(statement, values)

    def _all(self, statement: Statement, values: Values) -> list[Row]:
        bound = statement.bind(values)
        known = self._asked.find(statement.sql, bound)
        if known is not None:
            return known
        rows, _ = self._ask(statement, bound, values)
        if not statement.is_outside:
            self._note(statement, bound, rows, changed=len(rows))
        if rows and statement.notes.takes_seqs:
            self._facts.prove_session(values["id"])
        elif statement.notes.needs_known and not rows:
            for asked, of_it in self._facts.comparisons():
                compared = statement_of(asked)
                self._ask(compared, compared.bind(of_it), of_it)
        return rows

    def _take_seqs(self, statement: Statement, values: Values) -> list[Row]:
        """Return the rows of a statement that assigns seqs; guessed seqs need no wait."""
        guesses = self._facts.guesses
        may_fail = self._asked.is_whole and not self.holds_calls
        guess = guesses.last_after(values, may_fail=may_fail)
        if guess is None:
            rows = self._all(statement, values)
        else:
            values = {**values, "guessed": guess}
            self._send(statement.guessed, statement.guessed.bind(values), values)
            self._facts.prove_session(values["id"])
            rows = [(guess,)]
        if rows:
            guesses.note(values["id"], rows[0][0], values["count"])
        return rows

    def _draw(self, sql: str) -> int:
        """Return a number of a sequence; a repeated transaction keeps it."""
        ((drawn,),), _ = self._ask(statement_of(sql), [], EMPTY)
        return int(drawn)

    def _ask(
        self, statement: Statement, bound: list[Any], values: Values
    ) -> tuple[list[Row], Answer]:
        """Return a statement's rows and its answer; it runs again after a loss or a conflict."""
        psycopg = self._prepare_for(statement, values)
        tries = None
        while True:
            try:
                answer = self._asked.take_ahead(statement.sql, bound)
                answer = answer or self._put(statement, bound)
                return self.link.open().rows(answer), answer
            except psycopg.Error as error:
                tries = tries or Tries()
                self._recover(error, tries)

    def expect(self, sql: str, values: Values | None = None) -> None:
        """Send a query before `all` or `one` reads its answer; see `memdb.engine.base.Tx`."""
        statement = statement_of(sql)
        bound = statement.bind(values or EMPTY)
        if self._lost is None and self._asked.lacks(statement.sql, bound):
            psycopg = self._prepare_for(statement, values or EMPTY)
            try:
                answer = self._put(statement, bound)
            except psycopg.Error as error:
                self._recover(error, Tries())
            else:
                self._asked.put_ahead(statement.sql, bound, answer)

    def one(self, sql: str, values: Values | None = None) -> Row | None:
        """Return the first row of a query, None if there is none."""
        if self._writes and (assumed := statement_of(sql).notes.assumed) is not None:
            return assumed
        rows = self.all(sql, values)
        return rows[0] if rows else None

    def run(self, sql: str, values: Values | None = None) -> None:
        """Run a statement; a later call may raise its error."""
        self.many(sql, (values or EMPTY,))

    def count_changed(self, sql: str, values: Values | None = None) -> int:
        """Run a statement, wait for it, and return how many rows it changed."""
        values = values or EMPTY
        statement = statement_of(sql)
        bound = statement.bind(values)
        _, answer = self._ask(statement, bound, values)
        self._note(statement, bound, None, changed=answer.count)
        return answer.count

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once per item of *rows*; a later call may raise its error."""
        statement = statement_of(sql)
        for values in rows:
            self._send(statement, statement.bind(values), values)

    def _send(self, statement: Statement, bound: list[Any], values: Values) -> None:
        """Send a statement whose result nobody needs."""
        psycopg = self._prepare_for(statement, values)
        try:
            answer = self._put(statement, bound)
        except psycopg.Error as error:
            self._recover(error, Tries())
            answer = self._put(statement, bound)
        if statement.kind is not None and statement.may_miss:
            self._unsure.append((statement.kind, answer))
        self._note(statement, bound, None, changed=not statement.may_miss)

    def _put(self, statement: Statement, bound: list[Any]) -> Answer:
        """Send a statement, and return where its answer will be."""
        return self.link.open().send(statement.sql, bound)

    def _note(
        self, statement: Statement, bound: list[Any], rows: list[Row] | None, *, changed: int
    ) -> None:
        """Keep a statement for a repetition, and what it changed."""
        if statement.kind is not None and changed:
            self._kinds.add(statement.kind)
        self._asked.add(statement.sql, bound, rows)

    def _prepare_for(self, statement: Statement, values: Values) -> Any:
        """Begin the transaction and take the lock that a statement needs; return psycopg."""
        if self._lost is not None:
            raise self._lost
        if not self._begun:
            self._open()
        if self._writes:
            if statement.writes:
                self._has_changed = True
                self._facts.changed += not statement.is_control
                self._is_unsettling |= statement.notes.outdates_known
                if statement.notes.sets_seqs:
                    self._facts.guesses.forget()
            for lock in statement.locks(values):
                if lock not in self._locks:
                    self._locks.add(lock)
                    self._send(statement_of(LOCK), [LOCK_SPACE, SCHEMA_LOCK, lock], EMPTY)
        elif statement.writes:
            raise StorageError("a read transaction cannot write: write inside `with db.write()`")
        return driver.load()

    def _open(self) -> None:
        psycopg = driver.load()
        self._begun = True
        try:
            self._start()
        except psycopg.Error as error:
            self._recover(error, Tries())

    def _start(self) -> None:
        wire = self.link.open()
        if self.is_fenced:
            self.link.begin_writing(self.now_ms)
        wire.send(BEGIN_WRITE if self._writes else BEGIN_READ)

    def _recover(self, error: Any, tries: Tries) -> None:
        """
        Repeat the transaction so far, on a new connection if the old one is lost.

        Raises:
            MemDBError: the transaction cannot be repeated, or now has other results.
        """
        psycopg = driver.load()
        while True:
            is_lost = driver.is_connection_lost(error) or self.link.wire is None
            is_moved = driver.is_read_only(error) and self.link.writer != 0
            is_race = error.sqlstate in driver.RACES
            is_lost = is_lost or (error.sqlstate == driver.LOCKED and self.link.waits_for_standby())
            is_passing = is_lost or is_race or is_moved
            may_go = tries.may_go_on(is_broken_rule=driver.is_rule_broken(error))
            if not (self._asked.is_whole and is_passing and may_go):
                failed = self._failed(error)
                is_stale = error.sqlstate in (driver.COMPARED, driver.GUESSED)
                failed._is_undone = (is_passing or is_stale) and not tries.is_over
                raise failed from error
            if is_lost or is_moved or not self.link.undo():
                self.link.drop()
            tries.pause()
            try:
                self._repeat()
            except psycopg.Error as again:
                error = again
            else:
                return

    def _repeat(self) -> None:
        """Run the recorded statements once more; Busy if an answer differs."""
        self._asked.forget()
        self._start()
        wire = self.link.open()
        for sql, bound, rows in self._asked.statements:
            answer = wire.send(sql, bound)
            if rows is not None and wire.rows(answer) != rows:
                differs = Busy(
                    "another process changed what this transaction has read: try it again"
                )
                differs._is_undone = True
                self.lose(differs)
                raise differs
        wire.sync()
        self._kinds.update(kind for kind, _ in self._unsure)  # their answers are lost
        self._unsure.clear()

    def _failed(self, error: Any) -> MemDBError:
        """Return the memdb error for *error*, which every later statement raises."""
        found = driver.translate(error, self.link.where)
        if error.sqlstate == driver.GUESSED:
            self._facts.guesses.fail()
        self._facts.clear()
        self._asked.forget()
        if driver.is_connection_lost(error):
            self.is_broken = True
        if error.sqlstate == driver.COMPARED:
            self.link.writer = 0  # its row may be gone
        self._lost = found
        return found

    def set_savepoint(self, number: int) -> None:
        """Begin a part of the transaction that can be rolled back alone."""
        self._send(statement_of(f"SAVEPOINT level{number}"), [], EMPTY)

    def release_savepoint(self, number: int) -> None:
        """End that part; its writes stay in the transaction."""
        self._send(statement_of(f"RELEASE level{number}"), [], EMPTY)

    def undo_savepoint(self, number: int) -> None:
        """Roll back that part; the transaction continues even if a statement in it failed."""
        psycopg = driver.load()
        self._facts.clear()
        self._asked.forget()
        if self.is_broken or not self._begun:
            return
        if self._lost is not None:
            with suppress(psycopg.Error):
                self.link.open().sync()  # the pipeline is usable again
            self._unsure = [one for one in self._unsure if one[1].result is not None]
            self._lost = None
        self._send(statement_of(f"ROLLBACK TO level{number}"), [], EMPTY)
        self._send(statement_of(f"RELEASE level{number}"), [], EMPTY)

    def commit(self) -> None:
        """
        Commit the transaction.

        If the connection is lost meanwhile, the row in `commits` shows whether it was committed; if
        it was not, it is repeated.
        """
        if self._lost is not None:
            raise self._lost
        if not self._begun:
            return
        psycopg = driver.load()
        tries = None
        while True:
            try:
                self._send_commit()
                break
            except psycopg.Error as error:
                tries = tries or Tries()
                if self._is_committed(error, tries):
                    break
        if self._has_changed and self.is_fenced:
            self.link.number += 1
            self._facts.guesses.keep()
        if self._is_unsettling:
            self.link.facts_version[0] += 1
        self._begun = False

    def _send_commit(self) -> None:
        link = self.link
        if self._has_changed:
            self._learn_kinds()
            facts, now_ms = self._facts, self.now_ms
            commits.send(link, facts, self._kinds, now_ms, is_fenced=self.is_fenced)
        else:
            commits.send_plain(link)

    def _learn_kinds(self) -> None:
        """Wait for the answers that show whether a kind was changed, if they are needed."""
        unsure = [one for one in self._unsure if one[0] not in self._kinds]
        if unsure:
            wire = self.link.open()
            wire.rows(unsure[-1][1])
            self._kinds.update(kind for kind, answer in unsure if answer.count)

    def _is_committed(self, error: Any, tries: Tries) -> bool:
        """Return whether the transaction was committed; if not, repeat everything but its end."""
        psycopg = driver.load()
        link = self.link
        while self._has_changed and self.is_fenced and driver.is_connection_lost(error):
            link.drop()
            try:
                number = commits.last_number(link)
            except psycopg.Error as again:
                if not tries.may_go_on():
                    self._failed(error)
                    self._lost = driver.unknown_commit(link.where)
                    raise self._lost from again
                tries.pause()
            else:
                if number is not None and number > link.number:
                    return True
                break
        self._recover(error, tries)
        return False

    def end_read(self) -> None:
        """End the snapshot, without waiting for the server."""
        if self._begun and not self.is_broken:
            psycopg = driver.load()
            try:
                if self._lost is not None:
                    self.is_broken = not self.link.undo()
                else:
                    wire = self.link.open()
                    wire.send(commits.COMMIT)
                    wire.sync_later()
            except psycopg.Error:
                self.is_broken = True
        self._begun = False
        self._lost = None

    def lose(self, error: MemDBError) -> None:
        """Roll the whole transaction back; until it is left, each statement raises *error*."""
        self.roll_back()
        self._asked.forget()
        self._lost = error

    def roll_back(self) -> None:
        """End an open transaction; the connection is broken if that fails."""
        if self._begun:
            self._facts.clear()
            if not self.link.undo():
                self.is_broken = True
        self._begun = False
        self._lost = None

    def known(self) -> dict[KnownKey, int]:
        """See `memdb.engine.base.Tx`; facts that are used are compared at the commit."""
        return self._facts.current()

    def keep_known(self) -> None:
        """See `memdb.engine.base.Tx`."""
        self._facts.keep()

    @property
    def words(self) -> PostgresWords:
        """The full-text indexes."""
        if self._words is None:
            self._words = PostgresWords(self)
        return self._words

    @property
    def vectors(self) -> PostgresVectors:
        """The stored vectors."""
        if self._vectors is None:
            self._vectors = PostgresVectors(self)
        return self._vectors

    def run_script(self, script: str) -> None:
        """Run statements without values, separated by semicolons."""
        self.apart(lambda connection: connection.execute(script, prepare=False))

    def load(
        self, table: str, columns: Sequence[str], rows: Sequence[Row] | Sequence[bytes]
    ) -> None:
        """
        See `memdb.engine.base.Tx`; *table* and *columns* are names of schema.sql.

        Rows may be given in the binary format of COPY. It is not repeated after a loss.
        """
        if rows:
            kind = kind_loaded(table)
            if kind is not None:
                self._kinds.add(kind)
            self.apart(lambda connection: copy_rows(connection, table, columns, rows))
            if table in NUMBERED:
                self.all(NUMBERED[table], {"most": MAX_SCOPE_NO} if table == "scopes" else None)

    def apart(self, work: Callable[[Any], Any]) -> Any:
        """
        Return the result of *work*, called with the psycopg connection in this transaction.

        The call is for calls without a named statement, such as COPY. It is not repeated after a
        loss.
        """
        psycopg = self._prepare_for(statement_of(LOCK), EMPTY)
        self._has_changed = self._writes
        self._asked.give_up()
        try:
            return self.link.open().apart(work)
        except psycopg.Error as error:
            failed = self._failed(error)
            failed._is_undone = driver.is_connection_lost(error) or error.sqlstate in driver.RACES
            raise failed from error

    def verify(self, table: str, ids: Collection[Key]) -> None:
        """Do nothing: the server has checksums of its pages, and its rows have no digests."""

    def find_damaged_rows(self, *, deep: bool) -> Iterator[str]:  # noqa: ARG002 (of the protocol)
        """Return nothing: rows have no digests."""
        return iter(())

    def find_broken_keys(self) -> list[str]:
        """Return nothing: the server refuses a row whose foreign key has no parent."""
        return []

    def close(self) -> None:
        """Close the connection, and remove its row from `commits`."""
        self.link.close(tidy=not self.is_broken)
