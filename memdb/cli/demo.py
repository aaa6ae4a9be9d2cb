"""`memdb demo`: six things that memdb does on an example conversation, each answer checked."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from memdb.cli.base import Call, verb
from memdb.cli.layout import wrap
from memdb.cli.output import clean
from memdb.errors import AlreadyExists, FileError
from memdb.models.record import Record, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.models.entries import Entry

USER = "mara"
LONG = "workshop"
TALK = "trip"
SAID = (
    "Morning! I am allergic to peanuts, so no satay for the staff party.",
    "Can you look up the weather in Malmö?",
    "My train to Malmö leaves at 9:15 on Friday.",
)
CORRECTED = "My train to Malmö leaves at 9:45 on Friday, not at 9:15."
BUDGET_TOKENS = 400
WIDTH = 80


class Moment(Record):
    """
    One thing that the demo shows.

    Attributes:
        title: Its heading.
        lines: What was asked and answered; a line that begins with "$" or ">" is a question.
        right: Whether the answer is the one that the example's author expects.
    """

    title: str
    lines: tuple[str, ...]
    right: bool


@verb("memdb demo", "memdb demo --keep demo.db", file=False, scope=False)
@click.option(
    "--keep",
    type=click.Path(),
    metavar="PATH",
    help="Keep the memory file of the example, at PATH.",
)
def demo(call: Call, keep: str | None) -> None:
    """
    Show in a few seconds what memdb does.

    The demo imports an example conversation into a temporary file, learns from new
    messages, corrects a fact, asks questions and forgets. The demo changes nothing of yours.
    """
    if keep is not None and os.path.exists(keep):
        raise AlreadyExists("file", click.format_filename(keep))
    with TemporaryDirectory(prefix="memdb-demo-") as folder:
        path = keep or os.path.join(folder, "demo.db")
        with Call({"file": path}).open(create=True) as db:
            _import_example(db, Path(folder))
            moments = [show(db.scope(USER)) for show in MOMENTS]
    report = {"path": keep, "moments": [one.to_dict() for one in moments]}
    call.reply(report, lambda: _print(moments, keep))


def learn(scope: Scope) -> Moment:
    """Learn from a conversation: two sentences are facts, one is a question."""
    chat = scope.session(TALK)
    for text in SAID:
        chat.append("user", text)
    chat.extract()
    learnt = tuple(entry.text for entry in _learnt(scope))
    return Moment(
        "Learn from a conversation, without a model",
        (*(f"> {text}" for text in SAID), *(f"learnt: {text}" for text in learnt)),
        right=learnt == (SAID[0].removeprefix("Morning! "), SAID[2]),
    )


def correct(scope: Scope) -> Moment:
    """Link a correction to the fact that it corrects."""
    chat = scope.session(TALK)
    chat.append("user", CORRECTED)
    chat.extract()
    newest = _learnt(scope)[-1]
    corrected = [link for link in scope.entries.links(newest.id) if link.kind == "corrects"]
    return Moment(
        "Correct a fact, and keep the old one",
        (
            f"> {CORRECTED}",
            *(
                f"corrects ({link.probability:.0%}): {scope.entries.get(link.older_id).text}"
                for link in corrected
            ),
        ),
        right=[scope.entries.get(link.older_id).text for link in corrected] == [SAID[2]],
    )


def find(scope: Scope) -> Moment:
    """Answer a question, and say why."""
    question = "When does my train leave?"
    hits = scope.recall(question, 1, explain=True)
    return Moment(
        "Find it, and say why",
        (f"? {question}", f"{hits.certainty}: {hits[0].text}", f"why: {hits[0].why}"),
        right=hits.certainty == "sure" and "9:45" in hits[0].text,
    )


def doubt(scope: Scope) -> Moment:
    """Show an answer that is not sure, and a question without one."""
    unsure, none = "What is the real rent in the lease?", "What is the wifi password?"
    closest, nothing = scope.recall(unsure, 1), scope.recall(none)
    return Moment(
        "Say what is not sure, and what is not known",
        (
            f"? {unsure}",
            f"{closest.certainty}: {closest[0].text}",
            f"? {none}",
            f"{nothing.certainty}: {nothing.missing['hits'].partition(';')[0]}",
        ),
        right=(closest.certainty, nothing.certainty) == ("unsure", "none")
        and "15 400" in closest[0].text,
    )


def fit(scope: Scope) -> Moment:
    """Fit a long conversation into a small budget, with the messages that a question needs."""
    question = "What is the real rent in the lease?"
    chat = scope.session(LONG)
    window = chat.context(BUDGET_TOKENS, question)
    recalled = [piece.text for piece in window.pieces if piece.kind == "recalled"]
    newest = [piece for piece in window.pieces if piece.kind == "message"]
    evidence = [text for text in recalled if "15 400" in text]
    return Moment(
        f"Fit {counted(chat.last_seq, 'message')} into {BUDGET_TOKENS} tokens",
        (
            f"? {question}",
            f"{window.tokens} tokens: {counted(len(recalled), 'message')} about the question, "
            f"and the newest {len(newest)}",
            *(f"recalled: {text}" for text in evidence[:1]),
        ),
        right=window.tokens <= BUDGET_TOKENS and bool(evidence),
    )


def forget(scope: Scope) -> Moment:
    """Forget a word everywhere, and search the bytes of the file for it."""
    receipt = scope.forget(person="peanuts", prove=True)
    proof = receipt.proof
    hits = scope.recall("peanuts")
    removed = ", ".join(f"{kind} {count}" for kind, count in receipt.removed.items() if count)
    return Moment(
        "Forget, and prove it on the bytes",
        (
            "forget: peanuts",
            f"removed: {removed}",
            f"left of it in the file: {proof.found_bytes if proof else '?'} bytes",
            "? peanuts",
            hits.certainty,
        ),
        right=receipt.proven and proof is not None and not proof.found_bytes and not hits,
    )


def _learnt(scope: Scope) -> list[Entry]:
    """Return the entries of the talk, oldest first."""
    found = [entry for entry in scope.entries.list() if entry.session == TALK]
    return sorted(found, key=lambda entry: entry.id)


STEPS = """\
Now with your own:
  1. memdb import {0} chatgpt-export.zip
       conversations of ChatGPT, Claude and others
  2. memdb recall {0} "which plants did I ask about?"
       ask; `memdb web FILE` shows all of it in a browser
  3. memdb agent install claude-code
       a memory for your coding agent; codex, cursor, gemini-cli too"""
MOMENTS: tuple[Callable[[Scope], Moment], ...] = (learn, correct, find, doubt, fit, forget)


def _import_example(db: MemDB, folder: Path) -> None:
    """Import the messages of the example as one conversation."""
    with _examples() as examples:
        lines = (examples / "workshop.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    messages = [
        json.dumps({name: value for name, value in record.items() if name != "session"})
        for record in sorted(records, key=lambda record: record.get("created_ms", 0))
        if record["kind"] == "message"
    ]
    source = folder / "workshop.jsonl"
    source.write_text("\n".join(messages), encoding="utf-8")
    db.import_file(source, user=USER, session=LONG)
    db.jobs.run()


@contextmanager
def _examples() -> Iterator[Path]:
    """Yield the folder of the examples: of the installed package, else of the checkout."""
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


def _print(moments: list[Moment], keep: str | None) -> None:
    for number, moment in enumerate(moments, start=1):
        click.secho(f"{number}. {moment.title}", bold=True)
        for line in moment.lines:
            for part in wrap(clean(line), WIDTH, "     ", "   "):
                click.secho(part, dim=line[0] in "?>")
        click.secho(
            "   right" if moment.right else "   WRONG", fg="green" if moment.right else "red"
        )
        click.echo()
    right = sum(one.right for one in moments)
    click.echo(f"{right} of {len(moments)} answers are right. No model and no network took part.\n")
    click.echo(STEPS.format("agent.db" if keep is None else click.format_filename(keep)))


COMMANDS = {"demo": demo}
