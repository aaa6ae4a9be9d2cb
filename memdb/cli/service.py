"""`memdb work` and `memdb mcp`: commands that may run until they are stopped."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memdb.cli.base import DEFAULT_APP, embedder_named, verb
from memdb.cli.command import STOPPED
from memdb.cli.options import embedder_option, model_option
from memdb.cli.output import Line, note, print_json_line
from memdb.errors import PortError
from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from memdb import Folder, Worker
    from memdb.api.database import MemDB
    from memdb.cli.base import Call

POLL_S = 0.1  # between two reads of the worker's progress
LOG_S = 1.0  # between two lines of a log


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Callable[[int, Any], object]]) -> Iterator[None]:
    """Set signal handlers for a `with` block."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@verb(
    "memdb work agent.db",
    "memdb work agent.db --embedder fastembed:models/all-MiniLM-L6-v2",
    "memdb work agent.db --watch --model openai:qwen3@http://localhost:11434/v1",
    scope=False,
)
@click.option("--watch", is_flag=True, help="Keep doing pending work until Ctrl-C.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Stop after about N texts and summaries."
)
@model_option("writes the summaries", "extracts")
@embedder_option
@click.option(
    "--interval",
    type=click.FloatRange(0.01, 86_400),
    default=1.0,
    show_default=True,
    metavar="S",
    help="With --watch: seconds between two checks while nothing is due.",
)
def work(call: Call, watch: bool, limit: int | None, interval: float) -> None:
    """
    Embed and summarise what is due in FILE.

    Recall and contexts do a part of this work themselves, but a model writes summaries only here
    and in `chat compact`. Any number of processes may work on one FILE, but only one on a folder of
    files. With --watch and --json, each line is a JSON object.
    """
    context = click.get_current_context()
    if watch and limit is not None:
        raise click.UsageError(
            "--watch and --limit cannot be used together, because --watch has no end."
        )
    if not watch and context.get_parameter_source("interval") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--interval is only for --watch: give both, or neither.")
    with _opened(call) as db:
        if not watch:
            _work(db, limit, as_json=call.as_json)
            return
        code = _watch(db, interval, as_json=call.as_json)
    context.exit(code)


class _OfFolder:
    """Due work of a folder, as `db.jobs` has that of one file; what is left is counted by file."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.jobs = self
        self.start = folder.start

    def run(self, limit: int | None, progress: Callable[[int], object], _: object) -> None:
        """Do what is due in any file."""
        progress(self._folder.work(limit))

    def pending(self) -> int:
        """Return how many users have a file in which something may be due."""
        return self._folder.stats().due


@contextmanager
def _opened(call: Call) -> Iterator[MemDB | _OfFolder]:
    """Open FILE, or the folder that it is."""
    if not os.path.isdir(call.file):
        with call.open() as db:
            yield db
        return
    import memdb

    given: dict[str, Any] = {"model": call.model, "embedder": embedder_named(call.embedder)}
    with memdb.open_folder(call.file, **given) as folder:
        yield _OfFolder(folder)


def _work(db: MemDB | _OfFolder, limit: int | None, *, as_json: bool) -> None:
    """Do what is due, once."""
    with Line("Working") as line:
        try:
            db.jobs.run(limit, line.add, lambda _, doing: line.to(line.count, doing=doing))
        except (PortError, KeyboardInterrupt):
            line.clear()
            note(f"{line.count:,} done, {_left(db)}.")
            raise
    _print_status(db, "done", line.count, as_json=as_json)


def _print_status(db: MemDB | _OfFolder, status: str, done: int, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"status": status, "done": done, "pending": db.jobs.pending()})
    else:
        click.echo(f"{done:,} done, {_left(db)}.")


def _left(db: MemDB | _OfFolder) -> str:
    left = db.jobs.pending()
    what = "file" if isinstance(db, _OfFolder) else "job"
    return f"{counted(left, what)} left" if left else "nothing is left"


def _watch(db: MemDB | _OfFolder, interval: float, *, as_json: bool) -> int:
    """Work in a thread until a signal comes; return the exit code for it."""
    caught: list[int] = []

    def stop(number: int, _frame: object) -> None:
        caught.append(number)
        if len(caught) > 1:  # the second time: at once; what is not stored stays due
            os._exit(128 + number)

    with _handling({signal.SIGINT: stop, signal.SIGTERM: stop}):
        with Line("Working") as line:
            worker = db.jobs.start(interval)
            _follow(db, worker, line, caught, as_json=as_json)
            if caught:
                line.say("Stopping after the piece in progress; Ctrl-C again: at once")
                worker.stop()
        if as_json:
            _print_status(db, "stopped", worker.done, as_json=True)
        else:
            note(f"Stopped. {worker.done:,} done, {_left(db)}.")
    return 128 + caught[0] if caught else STOPPED


def _follow(
    db: MemDB | _OfFolder, worker: Worker, line: Line, caught: list[int], *, as_json: bool
) -> None:
    """Show the progress of *worker* while it runs and no signal was caught."""
    logged = logged_at = 0.0
    failure = ""
    while worker.running and not caught:
        error = worker.error
        if error is not None and str(error) != failure:
            line.clear()
            if as_json:
                print_json_line({"status": "failed", "code": error.code, "message": str(error)})
            else:
                note(f"Failed, and tried again later: {error}")
        failure = str(error or "")
        done = worker.done
        if done != logged and time.monotonic() - logged_at >= LOG_S:
            logged, logged_at = done, time.monotonic()
            if as_json or not line.seen:
                _print_status(db, "active", done, as_json=as_json)
        line.to(done, doing=worker.doing)
        time.sleep(POLL_S)


@verb(
    "memdb mcp agent.db --user ann",
    "memdb mcp agent.db --user ann --http 8765 --token-env MEMDB_TOKEN",
    json=False,
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve HTTP on 127.0.0.1 at /mcp instead of stdio.",
)
@click.option("--token-env", metavar="VAR", help="Environment variable with the bearer token.")
@embedder_option
def mcp(call: Call, port: int | None, token_env: str | None) -> None:
    """
    Serve one user's memory over the Model Context Protocol.

    Without --http it uses stdio, and ends when the client closes the connection. FILE is created if
    it is new. Ctrl-C and SIGTERM let the calls in progress finish; a second one ends it at once.
    """
    if not call.user:
        raise click.UsageError("Give the user whose memory it is: --user NAME.")
    token = os.environ.get(token_env, "") if token_env else None
    if (port is None) != (token_env is None):
        raise click.UsageError("--http and --token-env must be given together.")
    from memdb.integrations.mcp.transports import MIN_TOKEN_CHARS, serve

    if token is not None and len(token) < MIN_TOKEN_CHARS:
        raise click.UsageError(
            f"{token_env} has no token of at least {MIN_TOKEN_CHARS} characters."
        )
    with ending_by_signals(), call.open(create=True, writer="mcp") as db:
        app = call.app or DEFAULT_APP
        serve(db, user=call.user, app=app, port=port, token=token)


def ending_by_signals() -> AbstractContextManager[None]:
    """Return a context in which SIGINT and SIGTERM end a server, and so close its file."""
    # A shell script may have switched SIGINT off.
    return _handling({signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _end})


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


COMMANDS = {"work": work, "mcp": mcp}
