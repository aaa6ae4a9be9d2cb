"""
Watching a database: what tells that others have committed.

Each connection counts its commits in its row of `commits`. Who can wait asks the server for the
sum of them, in one round trip: so no commit is missed, also on a replica, behind a pooler and
after a fail-over. Who cannot wait hears of it by NOTIFY, some milliseconds late; what is known is
asked for again, without waiting, when it is older than `ASK_S`.

A transaction that notifies makes the commits of all others wait for it (ADR-0031). So a writer
notifies after its commit, and only if somebody watches: who does has a row in `watchers`, and
renews it. A writer looks there in the statement before its commit. So who begins to watch waits,
once, for the writers that have looked before, and counts then.
"""

from __future__ import annotations

import os
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from memdb.postgres import driver
from memdb.postgres.dialect import statement_of
from memdb.postgres.link import connect

if TYPE_CHECKING:
    from memdb.postgres.wire import Answer, Wire

LISTEN = "LISTEN memdb_commits"

# How long a row in `watchers` holds, and after what time it is renewed, in seconds.
HOLDS_S = 60.0
RENEW_S = 20.0
NEVER = float("-inf")

# How old the sum of commits may be for those who cannot wait, in seconds: a notification may have
# been lost with the connection of the writer.
ASK_S = 2.0

# What ended connections committed was added to `changes`.
SELECT_COMMITS = """/* watch.commits */
SELECT CAST(
  coalesce((SELECT number FROM changes WHERE kind = 'commit'), 0)
  + coalesce((SELECT sum(number) FROM commits), 0)
AS BIGINT)
"""

RENEW = """/* watch.renew */
INSERT INTO watchers (watcher, until) VALUES (:watcher, now() + interval '60 seconds')
ON CONFLICT (watcher) DO UPDATE SET until = excluded.until
"""


# Those who have asked whether somebody watches have a lock on `commits` until they are committed.
AWAIT_WRITERS = """/* watch.await_writers */
LOCK TABLE commits IN SHARE MODE
"""


class Watch:
    """
    Knows how often this process and others have committed.

    Attributes:
        sender: What the notifications of this process say.
    """

    def __init__(self, parameters: dict[str, Any], options: dict[str, Any]) -> None:
        """Watch nothing yet."""
        self.sender = os.urandom(8).hex()
        self._parameters = parameters
        self._options = options
        self._wire: Wire | None = None
        self._was_started = False
        self._may_listen = True
        self._change = Lock()
        self._own_lock = Lock()
        self._own = 0  # commits of this process
        self._others = 0  # commits of others at the last answer
        self._heard = 0  # notifications of others since then
        self._asked: Answer | None = None  # the question that is under way
        self._asked_s = 0.0
        self._renewed = NEVER
        self._thread: Thread | None = None

    def note_own(self) -> None:
        """Note that this process has committed something."""
        with self._own_lock:
            self._own += 1

    def others(self) -> int | None:
        """Return a number that changes with commits of others; None: unknown, or never watched."""
        if not self._was_started or self.count(now=True) is None:
            return None
        return self._others

    def count(self, *, now: bool) -> int | None:
        """
        Return a number that changes with each commit; None if it is not known.

        Args:
            now: Ask the server, which then has told all that was committed before: a round
                trip. False does not wait, and may be late by some milliseconds.
        """
        if not now and self._change.locked():
            return None
        psycopg = driver.load()
        with self._change:  # which cannot be interrupted before its body
            try:
                if self._wire is not None and not self._wire.is_whole:
                    self._drop()
                return self._ask_now() if now else self._listen()
            except psycopg.Error:
                self._drop()
                return None

    def _ask_now(self) -> int:
        self._was_started = True
        if self._wire is not None:
            try:
                return self._ask_on(self._wire)
            except driver.load().Error:  # the connection is lost, the server need not be
                self._drop()
        return self._ask_on(self._open())

    def _ask_on(self, wire: Wire) -> int:
        self._keep_watching(wire)
        self._ask(wire)
        wire.sync()
        wire.take_notices()  # of commits that the answer counts
        self._others, self._heard = self._answer(wire), 0
        return self._number()

    def _ask(self, wire: Wire) -> None:
        statement = statement_of(SELECT_COMMITS)
        self._asked = wire.send(statement.sql)
        self._asked_s = monotonic()

    def _answer(self, wire: Wire) -> int:
        """Return how often others have committed, of the answer that has come."""
        ((total,),) = wire.rows(self._asked)  # type: ignore[arg-type] # there is one
        self._asked = None
        return int(total) - self._own

    def _number(self) -> int:
        return (self._others + self._own << 16) + (self._heard & 0xFFFF)

    def _listen(self) -> int | None:
        """Return the number as far as the server has told it."""
        wire = self._wire
        if wire is None:
            if self._was_started:
                self._start_apart()
            return None
        if not self._may_listen:
            return None
        self._heard += sum(payload != self.sender for payload in wire.take_notices())
        if self._asked is not None and self._asked.result is not None:
            others = self._answer(wire)
            if others != self._others + self._heard:  # a notification was lost
                self._others, self._heard = others, 0
        elif self._asked is None and monotonic() - self._asked_s > ASK_S:
            self._keep_watching(wire)
            self._ask(wire)
            wire.sync_later()
        return self._number()

    def _open(self) -> Wire:
        """Connect, and listen where the server lets this user."""
        wire = connect(self._parameters, self._options)
        self._asked, self._may_listen = None, self._options["mode"] != "read"
        self._renewed = NEVER
        if self._may_listen:
            psycopg = driver.load()
            wire.send(LISTEN)
            try:
                wire.sync()
            except psycopg.Error as error:
                if driver.is_connection_lost(error):
                    raise
                self._may_listen = False  # a replica
        self._wire = wire
        return wire

    def _keep_watching(self, wire: Wire) -> None:
        """Let writers notify for another minute; after those that do not yet."""
        if self._may_listen and monotonic() - self._renewed > RENEW_S:
            is_gone = monotonic() - self._renewed > HOLDS_S
            self._renewed = monotonic()
            statement = statement_of(RENEW)
            wire.send(statement.sql, statement.bind({"watcher": int(self.sender, 16) >> 1}))
            if is_gone:
                wire.sync()
                for sql in ("BEGIN", AWAIT_WRITERS, "COMMIT"):
                    wire.send(sql)

    def _start_apart(self) -> None:
        """Connect again, in a thread: who asks may be an event loop."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(
                target=self.count, kwargs={"now": True}, name="memdb-watch", daemon=True
            )
            self._thread.start()

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        self._asked = None
        if wire is not None:
            wire.raw.close()

    def close(self) -> None:
        """Stop watching."""
        self._was_started = False
        with self._change:
            self._drop()
