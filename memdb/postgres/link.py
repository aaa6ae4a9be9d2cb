"""
The connection of a transaction to the server: made with memdb's settings, and again when lost.

Each connection that writes has a row in the table `commits`, with the number of its last committed
transaction. If a COMMIT gets no answer, the row decides, also after a fail-over. ADR-0031 says why
the server's own transaction number is not enough.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from random import random
from typing import TYPE_CHECKING, Any

from memdb.errors import FileError, SchemaTooNew
from memdb.postgres import driver
from memdb.postgres.dialect import statement_of
from memdb.postgres.wire import Wire

if TYPE_CHECKING:
    from memdb.engine.base import Values

# How long a transaction is repeated while no server takes it, in seconds. A fail-over of
# Patroni takes 20 with its shortest settings.
RETRY_S = 30.0
PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0

# After so many broken rules of the schema the error is raised: another transaction that did the
# same is one reason for it. Deadlocks and the like are tried again until the time is up.
MAX_BROKEN = 3

BEGIN = "BEGIN READ ONLY"
ROLLBACK = "ROLLBACK"

# How long a pooler may take to give a second connection a process of the server.
POOL_S = 3.0

# The row of a connection says which of its transactions was committed last, also after a
# fail-over. One that was given up cannot be committed later: its number is taken by then.
SELECT_STANDBY_WAIT = """/* link.standby_wait */
SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' LIMIT 1
"""

SELECT_PROCESS = """/* link.process */
SELECT pg_backend_pid()
"""

INSERT_WRITER = """/* link.insert_writer */
INSERT INTO commits (writer, number, made_ms)
SELECT CAST(:writer AS BIGINT), 0, CAST(:now_ms AS BIGINT)
FROM memdb_format WHERE format = :format
"""

SELECT_FORMAT = """/* link.format */
SELECT format FROM memdb_format
"""

# What it counted stays in `changes`, so that the totals never fall.
DELETE_WRITER = """/* link.delete_writer */
WITH gone AS (
  DELETE FROM commits WHERE writer = :writer OR made_ms < :before_ms RETURNING writer, number
), counted AS (
  DELETE FROM change_counts WHERE writer IN (SELECT writer FROM gone) RETURNING kind, number
)
INSERT INTO changes (kind, number)
SELECT kind, CAST(sum(number) AS BIGINT)
FROM (SELECT 'commit' AS kind, number FROM gone UNION ALL SELECT kind, number FROM counted) AS parts
WHERE number > 0
GROUP BY kind
ORDER BY kind
ON CONFLICT (kind) DO UPDATE SET number = changes.number + excluded.number
"""


SET = """/* link.set */
SELECT set_config(:name, :value, false)
"""

# The schema of the tables, and that of pgvector. A path that was asked for begins with the first;
# in a usual one another schema may have come before it since the tables were made.
SELECT_PATH = """/* link.path */
SELECT
  concat_ws(
    ', ',
    CASE
      WHEN source = 'client' THEN quote_ident(current_schema())
      ELSE coalesce(
        (
          SELECT CAST(CAST(relnamespace AS regnamespace) AS TEXT) FROM pg_class
          WHERE oid = to_regclass('memdb_format')
        ),
        quote_ident(current_schema())
      )
    END,
    (
      SELECT CAST(CAST(extnamespace AS regnamespace) AS TEXT) FROM pg_extension
      WHERE extname = 'vector'
    )
  ),
  current_schema() IS NULL
FROM pg_settings
WHERE name = 'search_path'
"""


def connect(parameters: dict[str, Any], options: dict[str, Any]) -> Wire:
    """
    Return a new connection with memdb's settings.

    Raises:
        psycopg.Error: no server takes it.
    """
    psycopg = driver.load()
    given = {
        "connect_timeout": 10,
        "application_name": "memdb",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        **parameters,
        "client_encoding": "utf8",
    }
    connection = psycopg.connect(**given, autocommit=True, cursor_factory=psycopg.RawCursor)
    _read_truth_as_number(connection)
    wire = Wire(connection)
    settings = {
        "plan_cache_mode": "force_generic_plan",  # ADR-0017
        "lock_timeout": max(1, options["timeout_ms"]),
        "synchronous_commit": "on" if options["durability"] == "power" else "off",
        "client_min_messages": "error",
        "jit": "off",  # compiling takes longer than any of these statements
    }
    if options.get("search_path"):
        settings["search_path"] = options["search_path"]
    # Not as options of the connection: poolers refuse those, or lose them.
    for setting in settings.items():
        wire.send(statement_of(SET).sql, setting)
    wire.sync_later()
    return wire


def _read_truth_as_number(connection: Any) -> None:
    """Read truth values as 0 and 1, as SQLite has them."""
    from psycopg.adapt import Loader  # noqa: PLC0415 (of the extra postgres)
    from psycopg.pq import Format  # noqa: PLC0415 (of the extra postgres)

    class Truth(Loader):
        """A truth value as a number."""

        format = Format.BINARY

        def load(self, data: Any) -> int:
            return bytes(data)[0]

    connection.adapters.register_loader("bool", Truth)


class Link:
    """
    A connection to the server that is opened again when it is lost.

    Attributes:
        wire: The connection; None before the first use.
        writer: Its row in the table `commits`, 0 before its first write.
        number: Number of the transaction that it committed last.
        where: The address without password.
        format: Format of the tables, as they were when the database was opened.
        facts_version: Its item grows when this process makes what others know untrue.
    """

    __slots__ = (
        "_options",
        "_parameters",
        "facts_version",
        "format",
        "number",
        "where",
        "wire",
        "writer",
    )

    def __init__(self, parameters: dict[str, Any], options: dict[str, Any], where: str) -> None:
        """Connect at the first use."""
        self._parameters = parameters
        self._options = options
        self.where = where
        self.facts_version: list[int] = options["facts_version"]
        self.format: int = options["format"]
        self.wire: Wire | None = None
        self.writer = 0
        self.number = 0

    def open(self) -> Wire:
        """
        Return the connection, opened again if there is none.

        Raises:
            psycopg.Error: no server answers, or a call on the connection was interrupted.
        """
        wire = self.wire
        if wire is None:
            wire = self.wire = connect(self._parameters, self._options)
        elif not wire.is_whole:  # as after a loss: who repeats makes another
            raise driver.load().OperationalError("a call on the connection was interrupted")
        return wire

    def undo(self) -> bool:
        """End the open transaction; False if the connection is lost."""
        psycopg = driver.load()
        wire = self.wire
        if wire is None or not wire.is_whole:
            return False
        with suppress(psycopg.Error):  # that of a statement before
            wire.sync()
        try:
            wire.send(ROLLBACK)
            wire.sync()
        except psycopg.Error:
            return False
        return True

    def waits_for_standby(self) -> bool:
        """
        Return whether a commit on this server waits for a standby, or the server is lost.

        Then the one whose lock was not given back in time is not slow: a fail-over is in progress.
        Ends the open transaction.
        """
        if not self.undo():
            return True
        try:
            return bool(self.ask(SELECT_STANDBY_WAIT))
        except driver.load().Error:
            return True

    def pin_schema(self) -> None:
        """Limit this and later connections to the schemas of the tables and of pgvector."""
        ((path, is_nowhere),) = self.ask(SELECT_PATH)
        if not is_nowhere:  # which is an error when the tables are made
            self._options["search_path"] = path
            self.ask(SET, {"name": "search_path", "value": path})

    def is_shared(self) -> bool:
        """
        Return whether a pooler gives the server's process to others between two transactions.

        A pooler names another process at the login than the server does. Then a second
        connection begins a transaction: in a pool of sessions it has a process of its own.
        """
        (mine,) = self.ask(SELECT_PROCESS)
        if mine[0] == self.open().raw.info.backend_pid:
            return False
        other = Link(self._parameters, self._options, self.where)
        try:
            wire = other.open()
            wire.send(BEGIN)
            answer = wire.send(statement_of(SELECT_PROCESS).sql)
            # A pool that has no other process for a session never answers.
            return wire.has_answer(POOL_S) and wire.rows(answer) == [mine]
        finally:
            other.drop()

    def ask(self, sql: str, values: Values | None = None) -> list[Any]:
        """Return the rows of a statement outside of a transaction, which leaves none open."""
        statement = statement_of(sql)
        wire = self.open()
        answer = wire.send(statement.sql, statement.bind(values or {}))
        wire.sync()
        return wire.rows(answer)

    def drop(self) -> None:
        """Close the connection; the next use makes another."""
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.raw.close()

    def begin_writing(self, now_ms: int) -> None:
        """
        Insert a row into `commits`, before the first write.

        Raises:
            SchemaTooNew: a newer memdb migrated the tables since they were opened.
            FileError: the tables were replaced by those of another format.
        """
        if not self.writer:
            writer = int.from_bytes(os.urandom(8), "big") >> 1
            found = statement_of(INSERT_WRITER)
            wire = self.open()
            values = {"writer": writer, "now_ms": now_ms, "format": self.format}
            answer = wire.send(found.sql, found.bind(values))
            wire.sync()
            if not answer.count:
                self._refuse_format()
            self.writer, self.number = writer, 0

    def _refuse_format(self) -> None:
        ((stored,),) = self.ask(SELECT_FORMAT) or [(0,)]
        if stored > self.format:
            raise SchemaTooNew(self.where, stored, self.format)
        raise FileError(
            f"{self.where} was replaced while it was open: close the memory and open it again",
            self.where,
        )

    def close(self, *, tidy: bool) -> None:
        """Close the connection; *tidy*: remove its row from `commits`."""
        psycopg = driver.load()
        if tidy and self.wire is not None and self.wire.is_whole and self.writer:
            with suppress(psycopg.Error):  # upkeep removes old ones
                found = statement_of(DELETE_WRITER)
                self.wire.send(found.sql, found.bind({"writer": self.writer, "before_ms": 0}))
                self.wire.sync()
        self.drop()


class Tries:
    """How often and for how long something is tried again."""

    __slots__ = ("_broken", "_deadline", "_pause_s")

    def __init__(self) -> None:
        """Start now."""
        self._deadline = time.monotonic() + RETRY_S
        self._pause_s = PAUSE_S
        self._broken = 0

    def may_go_on(self, *, is_broken_rule: bool = False) -> bool:
        """Return whether there is time for one more, after a race or a loss."""
        self._broken += is_broken_rule
        return self._broken <= MAX_BROKEN and time.monotonic() < self._deadline

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline

    def pause(self) -> None:
        """Sleep for a random moment, longer each time."""
        time.sleep(self._pause_s * random())
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
