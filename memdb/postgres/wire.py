"""
The wire to a server: sends statements without waiting, and reads answers in their order.

The wire is libpq's pipeline, through psycopg's low-level classes. psycopg's own cursors cost five
times as much and forget all prepared statements after each ROLLBACK.
"""

from __future__ import annotations

from collections import deque
from select import POLLERR, POLLHUP, POLLIN, POLLOUT, poll
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# libpq keeps what is sent until a sync; more than this is sent at once.
FLUSH_BYTES = 64 << 10

# Answers that may be outstanding: the server's wait in its buffer meanwhile.
MAX_OUTSTANDING = 500


class Answer:
    """
    Answer of a server to a statement.

    Attributes:
        result: The result of libpq; None until it arrived.
    """

    __slots__ = ("result", "sql")

    def __init__(self, sql: str) -> None:
        """Wait for the answer to *sql*."""
        self.sql = sql
        self.result: Any = None

    @property
    def count(self) -> int:
        """Number of rows that it changed."""
        return int(self.result.command_tuples or 0)


class Wire:
    """
    A connection in pipeline mode, with its prepared statements.

    Attributes:
        raw: psycopg's.
        is_whole: Whether the last call finished, so that each answer belongs to the statement that
            waits for it. The flag is False after an exception of a signal handler.
    """

    __slots__ = (
        "_binary",
        "_errors",
        "_names",
        "_outstanding",
        "_pg",
        "_poll_in",
        "_poll_out",
        "_reader",
        "_status",
        "_unsent",
        "is_whole",
        "raw",
    )

    def __init__(self, raw: Any) -> None:
        """Use the psycopg connection *raw*, which nobody else may use while statements are sent."""
        from psycopg import errors, pq  # noqa: PLC0415 (of the extra postgres)
        from psycopg.adapt import Transformer  # noqa: PLC0415 (of the extra postgres)

        self.raw = raw
        self.is_whole = True
        self._pg = raw.pgconn
        self._errors = errors
        self._status = pq.ExecStatus
        self._binary = pq.Format.BINARY
        self._reader = Transformer(raw)
        self._names: dict[str, bytes] = {}
        self._outstanding: deque[Answer | bytes | None] = deque()
        self._unsent = 0
        self._poll_in, self._poll_out = poll(), poll()
        self._poll_in.register(self._pg.socket, POLLIN | POLLERR | POLLHUP)
        self._poll_out.register(self._pg.socket, POLLIN | POLLOUT | POLLERR | POLLHUP)
        self._pg.enter_pipeline_mode()

    def send(self, sql: str, values: Sequence[Any] = ()) -> Answer:
        """Send a statement, prepared at its first use; return where its answer will be."""
        encoded, formats, size = [], [], 200
        for one in values:
            data = None if one is None else encode(one)
            encoded.append(data)
            formats.append(data is one and one is not None)  # bytes as they are, else text
            size += 0 if data is None else len(data)
        self.is_whole = False
        name = self._names.get(sql)
        if name is None:
            name = self._names[sql] = b"m%d" % len(self._names)
            self._pg.send_prepare(name, sql.encode())
            self._outstanding.append(name)
        self._pg.send_query_prepared(name, encoded, formats, 1)
        answer = Answer(sql)
        self._outstanding.append(answer)
        self._unsent += size
        if self._unsent > FLUSH_BYTES:
            self._flush()
        self.is_whole = True
        if len(self._outstanding) > MAX_OUTSTANDING:
            self.sync()
        return answer

    def rows(self, answer: Answer) -> list[Any]:
        """Wait for the rows of a statement; psycopg.Error if it or an earlier one failed."""
        if answer.result is None:
            self.is_whole = False
            self._pg.send_flush_request()
            # All that were sent, in one wait: some may be sent ahead of their use.
            asked = (one for one in reversed(self._outstanding) if isinstance(one, Answer))
            self._read_until(next(asked, answer))
        result = answer.result
        self._reader.set_pgresult(result, format=self._binary)
        found: list[Any] = self._reader.load_rows(0, result.ntuples, tuple)
        return found

    def has_answer(self, timeout_s: float) -> bool:
        """Return whether the server answers anything within *timeout_s*."""
        self._pg.send_flush_request()
        self._flush()
        return bool(self._poll_in.poll(timeout_s * 1000))

    def sync(self) -> None:
        """
        Wait for all answers.

        The call raises psycopg.Error if a statement failed. Then other statements may be sent.
        """
        self.is_whole = False
        self._pg.pipeline_sync()
        self._outstanding.append(None)
        self._read_until(None)

    def sync_later(self) -> None:
        """Start the sent statements, after which the server is idle; do not wait for it."""
        self.is_whole = False
        self._pg.pipeline_sync()
        self._outstanding.append(None)
        self._flush()
        self.is_whole = True

    def apart(self, work: Callable[[Any], Any]) -> Any:
        """Return the result of *work*, called with the psycopg connection outside the pipeline."""
        self.sync()
        self.is_whole = False
        self._pg.exit_pipeline_mode()
        try:
            found = work(self.raw)
        except Exception:
            self._go_on()
            raise
        self._go_on()
        return found

    def _go_on(self) -> None:
        if not self.raw.closed:
            self._pg.enter_pipeline_mode()
            self.is_whole = True

    def _read_until(self, last: Answer | None) -> None:
        """Read answers up to that of *last*, or up to the last sync; raise the first error."""
        error: Any = None
        self._flush()
        while self._outstanding:
            waiting = self._outstanding.popleft()
            result = self._next_result()
            if waiting is None:
                if result is None or result.status != self._status.PIPELINE_SYNC:
                    self._fail()
            else:
                failed = self._settle(waiting, result)
                error = error or failed
            is_last = waiting is last and (last is not None or not self._outstanding)
            if is_last or (error is not None and last is not None):
                break
        if error is None and last is not None and last.result is None:
            error = self._errors.PipelineAborted("a statement before failed")
        self.is_whole = True
        if error is not None:
            raise error

    def _settle(self, waiting: Answer | bytes, result: Any) -> Any:
        """Store the answer to a statement; return psycopg's error if it failed, else None."""
        if result is None:
            self._fail()
        while self._next_result() is not None:  # what ends each answer
            pass
        status = result.status
        if status not in (self._status.FATAL_ERROR, self._status.PIPELINE_ABORTED):
            if isinstance(waiting, Answer):
                waiting.result = result
            return None
        if isinstance(waiting, bytes):
            self._forget(waiting)
        if status == self._status.PIPELINE_ABORTED:
            return None
        return self._errors.error_from_result(result, encoding="utf-8")

    def _forget(self, name: bytes) -> None:
        """Prepare a statement again the next time, because the server refused it."""
        for sql, known in list(self._names.items()):
            if known == name:
                self._names[sql + "\0"] = self._names.pop(sql)  # so that no name comes twice

    def _next_result(self) -> Any:
        pg = self._pg
        while pg.is_busy():
            if pg.flush():
                self._poll_out.poll()
            else:
                self._poll_in.poll()
            pg.consume_input()
        return pg.get_result()

    def _flush(self) -> None:
        """Start the sent statements, without waiting for their answers."""
        self._unsent = 0
        pg = self._pg
        while pg.flush():
            self._poll_out.poll()
            pg.consume_input()  # the server may wait until somebody reads its answers

    def _fail(self) -> None:
        detail = self._pg.get_error_message() or "the connection was lost"
        raise self._errors.OperationalError(detail)


def encode(value: Any) -> bytes:
    """
    Return a value as the server reads it: bytes unchanged, everything else as text.

    Raises:
        InvalidInput: a text contains NUL.
    """
    kind = type(value)
    if kind is int:
        return b"%d" % value
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidInput("a text contains a NUL character: remove it")
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):  # a truth value, or an enum
        return b"%d" % value
    return repr(float(value)).encode()
