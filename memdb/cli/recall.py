"""`memdb recall`: search everything of one user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memdb.api.scope import Scope
from memdb.cli.base import verb
from memdb.cli.layout import width_of
from memdb.cli.options import branch_option, embedder_option
from memdb.cli.output import (
    Column,
    note,
    one_line,
    print_table,
    say,
    say_passage,
    screen_width,
    shorten,
    when,
)
from memdb.cli.records import option_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.cli.base import Call
    from memdb.models.messages import Hit, Hits, Why

INDENT = "    "  # before the text of a hit
COLUMNS = (*map(Column, ("#", "SCORE", "SOURCE", "SAID", "TEXT")), Column("WHY"))
WHY_TAKES = {"limit", "since", "until", "rerank"}


@verb(
    'memdb recall agent.db "when do we fly?"',
    "memdb recall agent.db hotel --kind message --since 2025-03-01 --json",
    "memdb recall agent.db Oslo --role user --where source=mail",
    'memdb recall agent.db "the trip" --group session',
    'memdb recall agent.db "when do we fly?" --why trip#12',
    like=Scope.recall,
    without=("vector", "scope_entries"),
    texts={
        "where": "Only messages and entries whose metadata has this value.",
        "kinds": "Which kinds to search.",
        "by": '"meaning" searches words and vectors, "words" or "vector" only one of them.',
    },
)
@branch_option
@click.option("--full", is_flag=True, help="Print long texts whole, not only the best passage.")
@click.option("--why", metavar="SESSION#SEQ", help="Explain why this message is found or not.")
@embedder_option
def recall(
    call: Call, query: str, *, full: bool = False, why: str | None = None, **asked: Any
) -> None:
    """
    Search messages, entries, artifacts and titles of one user.

    QUERY is a question, some words, or "" with --since or --until. "Words in quotes" belong
    together. The best hit comes first. A TIME is a date or
    2025-03-01T09:14, UTC without a time zone.
    """
    with call.scope() as scope:
        if why is not None:
            if asked.keys() - WHY_TAKES:
                raise click.UsageError(
                    "--why cannot be combined with filters: leave the other options out."
                )
            name, seq = _place(why)
            reason = scope.why(query, option_session(scope, name) or name, seq, **asked)
            return call.reply(reason, lambda: _print_why(reason))
        session = option_session(scope, asked.pop("session", None))
        hits = scope.recall(query, session=session, **asked)
    if hits.failure is not None:
        note(f"Found by words alone: {one_line(str(hits.failure))}")
    return call.reply(hits, lambda: _print_answer(hits, query, full=full))


def _print_answer(hits: Hits, query: str, *, full: bool) -> None:
    """Print *hits*, before them that they are not sure, and behind them what was left out."""
    if hits and hits.certainty != "sure":
        note("Not sure. Closest:" if hits.certainty == "unsure" else "Nothing is known. Closest:")
    print_hits(hits, query, full=full)
    if "hits" in hits.missing:
        note(f"{_option_names(hits.missing['hits'])}.")


def _option_names(text: str) -> str:
    """Return *text* with options where it names arguments of `Scope.recall`."""
    for name, option in _OPTIONS.items():
        text = text.replace(name, option)
    return text[:1].upper() + text[1:]


_OPTIONS = {
    "only_sure=False": "leaving --only-sure out",
    "cut=None": "leaving --cut out",
    "min_score=0": "--min-score 0",
    "min_score=": "--min-score ",
}


def _place(text: str) -> tuple[str, int]:
    """Return session and seq of "trip#12"; a name may have a # of its own."""
    session, _, seq = text.rpartition("#")
    if not (session and seq.isascii() and seq.isdigit()):
        raise click.BadParameter(f"{text!r} is not a message: write SESSION#SEQ, as in trip#12.")
    return session, int(seq)


def _print_why(why: Why) -> None:
    """Print the reason, and the terms beside those of the last hit."""
    click.echo(why.reason)
    own, last = why.explanation or {}, why.last or {}
    rows = [(name, f"{own.get(name, 0):.3f}", f"{last.get(name, 0):.3f}") for name in own | last]
    print_table([*map(Column, ("TERM", "IT", "LAST HIT"))], rows)


def print_hits(hits: Iterable[Hit], query: str = "", *, full: bool = False) -> None:
    """
    Print *hits*: under a session its messages, with explanations the terms.

    On a terminal each has a line with source, author, time and score, and the text below it. Of a
    long text it is the passage that says most of *query*. Elsewhere a hit is a line.
    """
    found = list(_with_messages(hits))
    width = screen_width()
    if width is None or not found:
        rows = [
            (rank, f"{one.score:.3f}", source_of(one), when(one.source.created_ms), text)
            + (" ".join(_why(one)),) * (one.explanation is not None)
            for rank, one, text in found
        ]
        print_table(COLUMNS[: max(map(len, rows), default=0)], rows, empty="Nothing found.")
        return
    for place, (rank, one, text) in enumerate(found):
        first = f"{rank}".ljust(len(INDENT)) if rank else INDENT
        facts = (
            one_line(_fitted(source_of(one), width - len(INDENT))),
            when(one.source.created_ms),
            f"{one.score:.3f}",
        )
        click.echo("\n" if place and rank else "", nl=False)
        say("   ".join(filter(None, facts)), INDENT, first, bold=True)
        if text:
            say_passage(text, query, INDENT, full=full)
        for line in _why(one):
            say(one_line(line), INDENT, dim=True)


def _with_messages(hits: Iterable[Hit]) -> Iterator[tuple[int | str, Hit, str]]:
    """Yield rank, hit and text of each hit, and without a rank the messages under a session."""
    for hit in hits:
        older = "" if hit.outdated_by is None else f"(older: see entry {hit.outdated_by}) "
        yield hit.rank, hit, "" if hit.hits else f"{older}{hit.text}"
        for one in hit.hits:
            yield "", one, one.text


def source_of(hit: Hit) -> str:
    """Return the source of *hit*, its author, and its trust unless it is trusted."""
    place = str(hit.source)
    if hit.source.artifact and hit.source.session:
        place = f"{place} in {hit.source.session}"
    if hit.source.author:
        place = f"{place} {hit.source.author}"
    return place if hit.trust == "trusted" else f"{place} ({hit.trust})"


def _fitted(source: str, width: int) -> str:
    """Return a source whose name is cut where it is too wide; its beginning names it too."""
    name, mark, rest = source.rpartition("#")
    if not mark or max(map(width_of, source.split())) <= width:
        return source
    return f"{shorten(name, width - width_of(rest.split()[0]) - 1)}#{rest}"


def _why(hit: Hit) -> list[str]:
    """Return a sentence that explains a hit, and its terms; [] without an explanation."""
    if hit.explanation is None:
        return []
    terms = hit.explanation.items()
    return [hit.why, ", ".join(f"{name} {value:.3g}" for name, value in terms if value)]


COMMANDS = {"recall": recall}
