"""
Connections of one open database: lends, takes back and closes them.

All work is done in the caller's thread: the statement that finds a connection lost replaces it
(`memdb.postgres.connection`).
"""

from __future__ import annotations

import os
from threading import Lock, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any

from memdb.engine.blocks import ABANDONED_S
from memdb.errors import Busy, MemDBError, WrongProcess
from memdb.postgres import driver
from memdb.postgres.connection import Tx
from memdb.postgres.link import Link

if TYPE_CHECKING:
    from memdb.engine.blocks import Block

# Connections in use at a time; more threads wait for one.
MAX_LINKS = 32

# Connections that are kept for the next blocks.
MAX_IDLE = 8


class LinkPool:
    """
    Every connection of one open database.

    If a block ended without its exit, its connection is closed, which rolls back its writes. The
    number of used connections is computed from the blocks that are alive, so an exception between
    any two bytecodes cannot make it wrong. After a fork the child can use nothing, and closes
    nothing of the parent.

    Attributes:
        reading: The outermost reading block of each thread.
        writing: The outermost writing block of each thread.
        commit_s: Time when each thread committed last (`perf_counter`).
        pid: Process id of the process that opened it.
        where: The address without password.
    """

    def __init__(self, parameters: dict[str, Any], options: dict[str, Any], where: str) -> None:
        """Connect at the first use."""
        self.reading: dict[int, Block] = {}
        self.writing: dict[int, Block] = {}
        self.commit_s: dict[int, float] = {}
        self.is_closed = False
        self.pid = os.getpid()
        self.where = where
        self.options = options
        self._parameters = parameters
        self._idle: list[Tx] = []
        self._change = RLock()  # `with` on it cannot be interrupted before its body
        self._wake = Lock()

    def guard(self) -> None:
        """Raise Closed if it was closed, WrongProcess after a fork."""
        if self.pid != os.getpid():
            raise WrongProcess
        if self.is_closed:
            raise driver.closed(self.where)

    @property
    def is_usable(self) -> bool:
        """Whether it is open in this process."""
        return not self.is_closed and self.pid == os.getpid()

    def check_server(self) -> None:
        """Connect and pin the schema; refuse a server that memdb cannot use, or cannot write to."""
        psycopg = driver.load()
        tx = self._idle_or_new()
        try:
            info = tx.link.open().raw.info
            if info.server_version < driver.MIN_VERSION:
                raise driver.too_old(self.where, info.server_version)
            is_replica = info.parameter_status("in_hot_standby") == "on"
            if is_replica and self.options["mode"] == "write":
                raise driver.read_only_error(self.where)
            encoding = info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise driver.not_utf8(self.where, encoding)
            if tx.link.is_shared():
                raise driver.shared(self.where)
            tx.link.pin_schema()
        except psycopg.Error as error:
            tx.is_broken = True
            refusal = driver.open_error(error, self.where)
            has_others = "," in str(self._parameters.get("host") or "")
            refusal._is_undone = driver.is_starting(error, has_others=has_others)
            raise refusal from error
        finally:
            self.give_back(tx)

    def take(self, blocks: dict[int, Block], block: Block) -> Tx:
        """
        Return a connection that nobody else uses for *block*, which is added to *blocks*.

        Raises:
            Busy: no connection was returned in time.
        """
        deadline = monotonic() + max(self.options["timeout_ms"] / 1000, 0.05)
        self.end_abandoned()
        while not self._join(blocks, block):
            if monotonic() > deadline:
                raise Busy(
                    f"all {MAX_LINKS} connections of this process are in use: try again, or close "
                    "transactions and iterators sooner"
                )
            self._wake.acquire(timeout=ABANDONED_S)
            self.end_abandoned()
        return self._idle_or_new()

    def _join(self, blocks: dict[int, Block], block: Block) -> bool:
        """Register a block as being in use; return False if too many are."""
        with self._change:
            if len(self.reading) + len(self.writing) >= MAX_LINKS:
                self._wake.acquire(blocking=False)  # so that waiting is for the next that ends
                return False
            blocks[block.thread] = block
            return True

    def _idle_or_new(self) -> Tx:
        with self._change:
            if self._idle:
                return self._idle.pop()
        return Tx(Link(self._parameters, self.options, self.where))

    def give_back(self, tx: Tx) -> None:
        """Keep a connection for a later block, or close it."""
        with self._change:
            is_kept = not (tx.is_broken or self.is_closed or len(self._idle) >= MAX_IDLE)
            if is_kept:
                self._idle.append(tx)
            if self._wake.locked():
                self._wake.release()
        if not is_kept:
            tx.close()

    def run_apart(self, sql: str) -> None:
        """Run a statement that takes no transaction, such as VACUUM."""
        psycopg = driver.load()
        tx = self._idle_or_new()
        try:
            tx.link.open().apart(lambda connection: connection.execute(sql, prepare=False))
        except psycopg.Error as error:
            tx.is_broken = True
            raise driver.translate(error, self.where) from error
        finally:
            self.give_back(tx)

    def end_abandoned(self, _exit: object = None) -> None:
        """Close the connections of blocks that ended without their exit."""
        for blocks in (self.reading, self.writing):
            for thread, block in list(blocks.items()):
                if block.is_abandoned() and blocks.pop(thread, None) is not None:
                    tx: Any = block.tx
                    block.tx = None
                    if tx is not None:
                        self.discard(tx)

    def discard(self, tx: Any) -> None:
        """Roll back the open writes of a connection by closing it."""
        tx.is_broken = True
        self.give_back(tx)

    def close(self) -> None:
        """Close every idle connection; a used one is closed when it is returned."""
        if self.is_closed or self.pid != os.getpid():
            return
        self.is_closed = True
        with self._change:
            idle, self._idle = self._idle, []
        for tx in idle:
            try:
                tx.close()
            except MemDBError:
                continue
