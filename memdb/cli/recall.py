"""`memdb recall`: search everything of one user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from memdb.api.scope import KINDS
from memdb.cli.base import END, MOMENT, branch_option, embedder_option, limit_option, verb
from memdb.cli.layout import width_of
from memdb.cli.output import (
    Column,
    note,
    one_line,
    print_records,
    print_table,
    say,
    say_passage,
    screen_width,
    shorten,
    when,
)
from memdb.cli.records import count_use_option, option_session
from memdb.models.messages import ROLES

EVERY_KIND = ("message", "entry", "artifact", "session", "summary", "item")
INDENT = "    "  # before the text of a hit
COLUMNS = (
    Column("#", right=True),
    Column("SCORE", right=True),
    Column("SOURCE"),
    Column("SAID"),
    Column("TEXT"),
)
PARTITIONS = ("both", "own", "shared")
WAYS = ("meaning", "words", "vector")

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.cli.base import Call
    from memdb.models.messages import Hit, Hits, Why
    from memdb.models.types import Kind, Partition, Role, SearchBy


@verb(
    'memdb recall agent.db "when do we fly?"',
    "memdb recall agent.db hotel --kind message --since 2025-03-01 --json",
    "memdb recall agent.db Oslo --role user --where source=mail",
    'memdb recall agent.db "the trip" --group session',
    'memdb recall agent.db "when do we fly?" --why trip#12',
)
@click.argument("query")
@limit_option()
@click.option("--kind", "kinds", type=click.Choice(EVERY_KIND), multiple=True, help="Repeatable.")
@click.option("--since", type=MOMENT, help="Only what was written then or later.")
@click.option("--until", type=END, help="Only what was written before; a day to its end.")
@click.option("--session", metavar="NAME", help="Its messages and artifacts, and the entries.")
@branch_option
@click.option("--category", multiple=True, metavar="NAME", help="Only such entries. Repeatable.")
@click.option("--role", type=click.Choice(ROLES), multiple=True, help="Only such messages.")
@click.option("--author", multiple=True, metavar="NAME", help="Only their messages. Repeatable.")
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only messages and entries with it in their metadata.",
)
@click.option("--partition", type=click.Choice(PARTITIONS), help="Own entries, or all users'.")
@click.option("--by", type=click.Choice(WAYS), default="meaning", help="Or words, or vectors.")
@click.option("--min-score", type=float, metavar="0..1", help="Least score. 0 shows the nearest.")
@click.option("--sure", "only_sure", is_flag=True, help="Show only what answers for sure.")
@click.option("--cut", type=click.Choice(["auto"]), help="Leave out what scores far less.")
@click.option("--exclude", multiple=True, metavar="WORD", help="No hit holds it. Repeatable.")
@click.option("--group", type=click.Choice(["session"]), help="Show sessions that say most.")
@click.option("--no-rerank", is_flag=True, help="Without words of similar meaning.")
@click.option("--full", is_flag=True, help="Show long texts whole, not the passage that fits.")
@click.option("--explain", is_flag=True, help="Show the terms of each score.")
@click.option("--why", metavar="SESSION#SEQ", help="Show why this message is found or not.")
@click.option("--prefix", is_flag=True, help="The last word is the beginning of one.")
@count_use_option
@embedder_option
def recall(
    call: Call,
    query: str,
    limit: int,
    kinds: tuple[Kind, ...],
    since: int | None,
    until: int | None,
    session: str | None,
    category: tuple[str, ...],
    role: tuple[Role, ...],
    author: tuple[str, ...],
    where: tuple[str, ...],
    partition: Partition | None,
    by: SearchBy,
    min_score: float | None,
    only_sure: bool,
    cut: Literal["auto"] | None,
    exclude: tuple[str, ...],
    group: Literal["session"] | None,
    no_rerank: bool,
    full: bool,
    explain: bool,
    why: str | None,
    count_use: bool,
    prefix: bool,
) -> None:
    """
    Search messages, entries, artifacts and titles of one user.

    QUERY is a question, some words, or "" with --since or --until. "Words in quotes" belong
    together. The best hit comes first. A TIME is a date or
    2025-03-01T09:14, UTC without a time zone.
    """
    if (group or why) and (kinds or session or explain or (group and why)):
        one = "--group" if group else "--why"
        raise click.UsageError(f"{one} is about all messages: leave the other choices out.")
    if why and (category or role or author or where or partition):
        raise click.UsageError("--why takes no filters: leave the other choices out.")
    with call.scope() as scope:
        if why is not None:
            session, seq = _place(why)
            session = option_session(scope, session) or session
            reason = scope.why(
                query, session, seq, limit, since=since, until=until, rerank=not no_rerank
            )
            return call.reply(reason, lambda: _print_why(reason))
        hits = scope.recall(
            query,
            limit,
            kinds=kinds or KINDS,
            since=since,
            until=until,
            session=option_session(scope, session),
            explain=explain,
            rerank=not no_rerank,
            group=group,
            categories=category or None,
            roles=role or None,
            authors=author or None,
            where=dict(map(_field, where)),
            partition=partition or "both",
            by=by,
            min_score=min_score,
            only_sure=only_sure,
            cut=cut,
            exclude=exclude,
            count_use=count_use,
            prefix=prefix,
        )
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
    "only_sure=False": "leaving --sure out",
    "cut=None": "leaving --cut out",
    "min_score=0": "--min-score 0",
    "min_score=": "--min-score ",
}


def _field(text: str) -> tuple[str, Any]:
    """Return key and value of "source=mail"; what is no JSON is a text."""
    key, mark, value = text.partition("=")
    if not (key and mark):
        raise click.BadParameter(f"{text!r} is no field: write KEY=VALUE, as in source=mail.")
    import json

    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def _place(text: str) -> tuple[str, int]:
    """Return session and seq of "trip#12"; a name may have a # of its own."""
    session, _, seq = text.rpartition("#")
    if not (session and seq.isascii() and seq.isdigit()):
        raise click.BadParameter(f"{text!r} is no message: write SESSION#SEQ, as in trip#12.")
    return session, int(seq)


def _print_why(why: Why) -> None:
    """Print the reason, and the terms beside those of the last hit."""
    click.echo(why.reason)
    own, last = why.explanation or {}, why.last or {}
    columns = (
        Column("TERM"),
        Column("IT", lambda name: _number(own.get(name)), right=True),
        Column("LAST HIT", lambda name: _number(last.get(name)), right=True),
    )
    print_records(columns, dict.fromkeys([*own, *last]))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def print_hits(hits: Iterable[Hit], query: str = "", *, full: bool = False) -> None:
    """
    Print *hits*: under a session its messages, with explanations the terms.

    On a terminal each has a line with source, author, time and score, and the text below it:
    whole, or of a long one the passage that says most of *query*. Elsewhere a hit is a line.
    """
    found = list(_with_messages(hits))
    width = screen_width()
    if width is None or not found:
        rows = [
            (rank, f"{one.score:.3f}", source_of(one), when(one.source.created_ms), text)
            for rank, one, text in found
        ]
        notes = [_terms(one) for _, one, _ in found]
        print_table(COLUMNS, rows, notes=notes, empty="Nothing found.")
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
        if terms := _terms(one):
            say(one_line(terms), INDENT, dim=True)


def _with_messages(hits: Iterable[Hit]) -> Iterator[tuple[int | str, Hit, str]]:
    """Yield rank, hit and text of each hit, and without a rank the messages under a session."""
    for hit in hits:
        yield hit.rank, hit, "" if hit.hits else hit.text
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


def _terms(hit: Hit) -> str:
    if hit.explanation is None:
        return ""
    terms = hit.explanation.items()
    return f"{hit.why} " + ", ".join(f"{name} {value:.3g}" for name, value in terms if value)


COMMANDS = {"recall": recall}
