"""`memdb demo`: an example conversation, imported, learnt from, asked and shown."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from memdb.adapters.host import Host
from memdb.cli.base import Call, verb
from memdb.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_table,
    shorten,
    size,
    terminal_width,
    when,
)
from memdb.cli.recall import source_of
from memdb.errors import AlreadyExists, FileError
from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.api.scope import Scope
    from memdb.models.entries import Entry
    from memdb.models.messages import ArtifactVersion, ContextWindow, Hit, Hits

USER = "mara"
PLAN = "user:opening-plan.md"
QUESTIONS = 5
HITS = 4
SHOWN = 5
BUDGET_TOKENS = 400


class Report:
    """What the demo found; each part takes its time into *seconds*."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seconds: dict[str, float] = {}
        self.learnt: list[Entry] = []
        self.answers: list[tuple[dict[str, Any], Hits]] = []
        self.evidence: set[tuple[str | None, int | None, str]] = set()
        self.window: ContextWindow | None = None
        self.session = ""
        self.versions: list[ArtifactVersion] = []
        self.size_bytes = 0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of a `with` block to *seconds* under *name*."""
        started = perf_counter()
        yield
        self.seconds[name] = perf_counter() - started

    def is_evidence(self, hit: Hit, expected: list[str]) -> bool:
        """Return whether a hit is, or was learnt from, one of the *expected* messages."""
        source = hit.source
        return any((source.session, source.seq, one) in self.evidence for one in expected)


@verb("memdb demo", "memdb demo --keep demo.db", file=False, scope=False)
@click.option("--keep", type=click.Path(), metavar="PATH", help="Make the file here and keep it.")
def demo(call: Call, keep: str | None) -> None:
    """
    Show in a few seconds what memdb does.

    An example conversation goes into a temporary file, memdb learns from it, and
    it is asked five questions. Nothing of yours is read or changed.
    """
    if keep is not None and os.path.exists(keep):
        raise AlreadyExists("file", click.format_filename(keep))
    with TemporaryDirectory(prefix="memdb-demo-") as folder:
        path = keep or os.path.join(folder, "demo.db")
        report = _run(path)
    call.reply(_as_dict(report, keep), lambda: _print(report, keep))


def _run(path: str) -> Report:
    report = Report()
    with _examples() as folder, report.timed("all"):
        with Call({"file": path}).open(create=True) as db:
            with report.timed("import"):
                db.import_file(folder / "workshop.jsonl", user=USER)
            scope = db.scope(USER)
            with report.timed("learn"):
                for session in sorted(scope.sessions(), key=lambda one: one.created_ms):
                    scope.session(session.name).extract()
            report.learnt = list(scope.entries.list())
            with report.timed("embed"):
                db.jobs.run()
            _ask(scope, folder, report)
        report.size_bytes = Path(path).stat().st_size
    return report


def _ask(scope: Scope, folder: Path, report: Report) -> None:
    """Put the questions to *scope*, and read a window and the versions of the plan."""
    asked = json.loads((folder / "questions.json").read_text(encoding="utf-8"))["questions"]
    for number, question in enumerate(asked[:QUESTIONS], start=1):
        with report.timed(f"question {number}"):
            hits = scope.recall(question["question"], HITS)
        report.answers.append((question, hits))
    report.evidence = {
        (session.name, message.seq, message.external_id or "")
        for session in scope.sessions()
        for message in scope.session(session.name).messages()
    }
    newest = max(scope.sessions(), key=lambda session: session.updated_ms)
    report.session = newest.name
    with report.timed("window"):
        report.window = Host(scope.session(newest.name)).window(budget_tokens=BUDGET_TOKENS)
    with report.timed("versions"):
        report.versions = scope.artifacts.versions(PLAN)


@contextmanager
def _examples() -> Iterator[Path]:
    """Give the folder of the examples: of the installed package, else of the checkout."""
    packed = files("memdb") / "examples"
    checkout = Path(__file__).parents[2] / "examples"
    if packed.is_dir():
        with as_file(packed) as folder:
            yield folder
    elif checkout.is_dir():
        yield checkout
    else:
        raise FileError(
            "the examples are missing: run `pip install --force-reinstall memdb-sqlite`"
        )


def _as_dict(report: Report, keep: str | None) -> dict[str, Any]:
    return {
        "path": keep,
        "learnt": [entry.to_dict() for entry in report.learnt],
        "questions": [
            {
                "question": question["question"],
                "expected": question["expected"],
                "hits": [hit.to_dict() for hit in hits],
            }
            for question, hits in report.answers
        ],
        "session": report.session,
        "window": report.window and report.window.to_dict(),
        "versions": [one.to_dict() for one in report.versions],
        "size_bytes": report.size_bytes,
        "seconds": {name: round(value, 4) for name, value in report.seconds.items()},
    }


def _print(report: Report, keep: str | None) -> None:
    said = len(report.evidence)
    _heading(f"Learnt without a model from {said} messages: {len(report.learnt)} entries")
    for entry in report.learnt[-SHOWN:]:
        text = f"{_mark(entry)}{entry.text}"
        _line(f"{entry.id} {when(entry.created_ms)}: {text}")
    click.echo()
    columns = [Column(""), Column("SOURCE", cut=True), Column("SAID"), Column("TEXT", cut=True)]
    for number, (question, hits) in enumerate(report.answers, start=1):
        took = report.seconds[f"question {number}"] * 1000
        click.echo(f"{click.style(question['question'], bold=True)}  ({took:.0f} ms)")
        rows = [
            (
                "*" if report.is_evidence(hit, question["expected"]) else "",
                source_of(hit),
                when(hit.source.created_ms),
                f"{_mark(hit)}{hit.text}",
            )
            for hit in hits
        ]
        print_table(columns, rows, titles=False)
        click.echo()
    click.echo("* holds the evidence, or was learnt from it, by examples/questions.json\n")
    _print_window(report)
    _heading(f"Versions of {PLAN}")
    for one in report.versions:
        of = f"by {one.message_session}#{one.message_seq}" if one.message_seq else ""
        click.echo(f"  {when(one.created_ms)}  version {one.version}  {size(one.size_bytes)}  {of}")
    seconds = report.seconds
    click.echo(
        f"\n{size(report.size_bytes)} in one file; import {seconds['import'] * 1000:.0f} ms, "
        f"learning {seconds['learn'] * 1000:.0f} ms, embedding {seconds['embed'] * 1000:.0f} ms, "
        f"all {seconds['all']:.1f} s"
    )
    if keep is not None:
        path = click.format_filename(keep)
        click.echo(f'Go on with: memdb recall {path} "which tea does she drink?"')


def _print_window(report: Report) -> None:
    window = report.window
    if window is None:
        return
    count = counted(len(window.messages), "message")
    _heading(
        f"What a model gets of {report.session}: {count}, {window.tokens} of "
        f"{window.budget_tokens} tokens"
    )
    for message in window.messages:
        _line(f"#{message.seq} {message.author or message.role}: {message.text}")
    click.echo()


def _mark(found: Entry | Hit) -> str:
    """Return what stands before a text that a newer one outdates; "" for another."""
    newer = found.outdated_by
    return "" if newer is None else f"(older: see entry {newer}) "


def _line(text: str) -> None:
    line = one_line(text)
    click.echo("  " + (shorten(line, terminal_width() - 2) if on_terminal() else line))


def _heading(text: str) -> None:
    click.secho(text, bold=True)


COMMANDS = {"demo": demo}
