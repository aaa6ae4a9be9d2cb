"""
Watching a database: what tells that others have committed (LISTEN and NOTIFY).

A transaction that notifies makes the commits of all others wait for it (ADR-0031). So a writer
notifies after its commit, in the same round trip, and only while somebody watches: who does has a
row in `watchers`, and renews it.
"""

from __future__ import annotations

import os
from threading import Lock, Thread
from time import monotonic

from memdb.engine.postgres import driver
from memdb.engine.postgres.dialect import statement_of
from memdb.engine.postgres.link import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.engine.postgres.wire import Wire

LISTEN = "LISTEN memdb_commits"

# After what time a row in `watchers`, which holds for a minute, is renewed, in seconds.
RENEW_S = 20.0

RENEW = """/* watch.renew */
INSERT INTO watchers (watcher, until) VALUES (:watcher, now() + interval '60 seconds')
ON CONFLICT (watcher) DO UPDATE SET until = excluded.until
"""


class Watch:
    """
    Counts the commits of others, from its start on.

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
        self._change = Lock()
        self._count = 0
        self._renewed = 0.0
        self._thread: Thread | None = None

    def start(self) -> None:
        """Connect, unless it is; a server that does not answer is left alone."""
        with self._change:
            self._was_started = True
            if self._wire is None:
                psycopg = driver.load()
                try:
                    self._open()
                except psycopg.Error:
                    self._drop()

    def _open(self) -> None:
        wire = connect(self._parameters, self._options)
        self._wire = wire
        wire.send(LISTEN)
        if self._options["mode"] != "read":
            self._renew(wire)
        wire.sync()
        self._count += 1 << 20  # nobody knows what happened meanwhile

    def _renew(self, wire: Wire) -> None:
        self._renewed = monotonic()
        statement = statement_of(RENEW)
        wire.send(statement.sql, statement.bind({"watcher": int(self.sender, 16) >> 1}))

    def count(self, *, now: bool) -> int | None:
        """
        Return a number that changes with commits of others; None if it is not known.

        Args:
            now: Ask the server, which then has told all that was committed before: a round
                trip. False does not wait, and may be late by some milliseconds.
        """
        if not self._change.acquire(blocking=now):
            return None
        try:
            if self._wire is None:
                if self._was_started and not now:
                    self._start_apart()
                return None
            psycopg = driver.load()
            try:
                self._read(self._wire, now=now)
            except psycopg.Error:
                self._drop()
                return None
            return self._count
        finally:
            self._change.release()

    def _read(self, wire: Wire, *, now: bool) -> None:
        if monotonic() - self._renewed > RENEW_S and self._options["mode"] != "read":
            self._renew(wire)
            wire.sync_later()
        if now:
            wire.sync()
        self._count += sum(payload != self.sender for payload in wire.take_notices())

    def _start_apart(self) -> None:
        """Connect again, in a thread: who asks may be an event loop."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self.start, name="memdb-watch", daemon=True)
            self._thread.start()

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.raw.close()

    def close(self) -> None:
        """Stop watching."""
        self._was_started = False
        with self._change:
            self._drop()
