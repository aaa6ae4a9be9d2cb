"""`memdb work`: doing what is due, once or from now on."""

from __future__ import annotations

import os
import signal
import time

import click
from click.core import ParameterSource

from memdb.cli.base import STOPPED, Command, embedder_option, example, file_argument, json_option
from memdb.cli.opening import opened
from memdb.cli.output import Line, note, print_json_line
from memdb.cli.summaries import model_option
from memdb.errors import PortError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb import Worker
    from memdb.api.database import MemDB

LOOK_S = 0.1  # between two looks at how far the worker is
TELL_S = 1.0  # between two lines of a log


@click.command(
    cls=Command,
    epilog=example(
        "memdb work agent.db",
        "memdb work agent.db --embedder fastembed:models/all-MiniLM-L6-v2",
        "memdb work agent.db --watch --model openai:qwen3@http://localhost:11434/v1",
    ),
)
@file_argument
@click.option("--watch", is_flag=True, help="Go on with what becomes due, until Ctrl-C.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Stop after about N texts and summaries."
)
@model_option
@embedder_option
@click.option(
    "--interval",
    type=click.FloatRange(0.01, 86_400),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks with --watch, when nothing is due.",
)
@json_option
def work(
    file: str,
    watch: bool,
    limit: int | None,
    model: str | None,
    embedder: str | None,
    interval: float,
    as_json: bool,
) -> None:
    """
    Embed and summarise what is due in FILE.

    Recall and contexts do a part of this by themselves, but only here and in
    `chat compact` a model writes summaries. Any number of processes may work on
    one FILE. With --watch and --json, each line is a JSON object.
    """
    context = click.get_current_context()
    if watch and limit is not None:
        raise click.UsageError("--watch and --limit exclude each other: --watch has no end.")
    if not watch and context.get_parameter_source("interval") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--interval is for --watch: give both, or none.")
    with opened(file, model=model, embedder=embedder) as db:
        if not watch:
            _work(db, limit, as_json=as_json)
            return
        code = _watch(db, interval, as_json=as_json)
    context.exit(code)


class _Shown:
    """How much is done, on a line that is written over."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.done = 0

    def add(self, count: int) -> None:
        """Show that *count* more texts and summaries are made."""
        self.done += count
        self.tell(None)

    def tell(self, doing: str | None) -> None:
        """Show what is being done now."""
        now = f": {doing}" if doing else ""
        self._line.say(f"Working {self.done:,} done{now}")


def _work(db: MemDB, limit: int | None, *, as_json: bool) -> None:
    """Do what is due, once."""
    with Line() as line:
        shown = _Shown(line)
        try:
            db.jobs.run(limit, shown.add, lambda _, doing: shown.tell(doing))
        except PortError:
            line.clear()
            note(f"{shown.done:,} done, {_left(db)}.")
            raise
        except KeyboardInterrupt:
            line.clear()
            note(f"{shown.done:,} done, the rest stays due.")
            raise
    if as_json:
        print_json_line({"status": "done", "done": shown.done, "pending": db.jobs.pending()})
    else:
        click.echo(f"{shown.done:,} done, {_left(db)}.")


def _left(db: MemDB) -> str:
    left = db.jobs.pending()
    return f"{left:,} {'job' if left == 1 else 'jobs'} left" if left else "nothing is left"


def _watch(db: MemDB, interval: float, *, as_json: bool) -> int:
    """Work in a thread until a signal comes; return the exit code that fits it."""
    caught: list[int] = []

    def stop(number: int, _frame: object) -> None:
        caught.append(number)
        if len(caught) > 1:  # the second time: at once; what is not stored stays due
            os._exit(128 + number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Line() as line:
            worker = db.jobs.start(interval)
            try:
                _follow(db, worker, line, as_json=as_json)
            except KeyboardInterrupt:
                line.say("Stopping after the piece in progress; Ctrl-C again: at once")
                worker.stop()
        left = db.jobs.pending()
        if as_json:
            print_json_line({"status": "stopped", "done": worker.done, "pending": left})
        else:
            note(f"Stopped. {worker.done:,} done, {_left(db)}.")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 + caught[0] if caught else STOPPED


def _follow(db: MemDB, worker: Worker, line: Line, *, as_json: bool) -> None:
    """Show what *worker* does, for as long as it does."""
    shown = _Shown(line)
    told = told_at = 0.0
    failure = ""
    while worker.running:
        error = worker.error
        if error is not None and str(error) != failure:
            line.clear()
            if as_json:
                print_json_line({"status": "failed", "code": error.code, "message": str(error)})
            else:
                note(f"Failed, and tried again later: {error}")
        failure = str(error or "")
        shown.done = worker.done
        if shown.done != told and time.monotonic() - told_at >= TELL_S:
            told, told_at = shown.done, time.monotonic()
            if as_json:
                left = db.jobs.pending()
                print_json_line({"status": "active", "done": shown.done, "pending": left})
            elif not line.seen:
                click.echo(f"{shown.done:,} done, {_left(db)}.")
        shown.tell(worker.doing)
        time.sleep(LOOK_S)


COMMANDS = {"work": work}
