"""`memdb recall`: searching all that a user has."""

from __future__ import annotations

import click

from memdb.cli.base import (
    Command,
    embedder_option,
    example,
    file_argument,
    json_option,
    scope_options,
)
from memdb.cli.opening import opened_scope
from memdb.cli.output import Column, print_json, print_table, when
from memdb.cli.values import MOMENT
from memdb.scope import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.models import Hit


@click.command(
    cls=Command,
    epilog=example(
        'memdb recall agent.db "when do we fly?"',
        "memdb recall agent.db hotel --kind message --since 2025-03-01 --json",
    ),
)
@file_argument
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Repeatable.")
@click.option("--since", type=MOMENT, help="Only what was said then or later.")
@click.option("--until", type=MOMENT, help="Only what was said before.")
@click.option("--session", metavar="NAME", help="Only messages and artifacts of this one.")
@click.option("--explain", is_flag=True, help="Show the terms of each score.")
@embedder_option
@scope_options
@json_option
def recall(
    file: str,
    query: str,
    limit: int,
    kinds: tuple[str, ...],
    since: int | None,
    until: int | None,
    session: str | None,
    explain: bool,
    embedder: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Search one user's messages, entries and artifacts.

    QUERY is a question or some words. The best hit stands first. A TIME is a
    date or 2025-03-01T09:14, UTC where it names no zone.
    """
    with opened_scope(file, user, app, embedder=embedder) as scope:
        hits = scope.recall(
            query,
            limit,
            kinds=kinds or KINDS,
            since=since,
            until=until,
            session=session,
            explain=explain,
        )
    if as_json:
        print_json([hit.to_dict() for hit in hits])
    else:
        print_hits(hits)


def print_hits(hits: list[Hit]) -> None:
    """Print *hits* as a table, with the terms of their scores where they have them."""
    columns = [
        Column("#", right=True),
        Column("SCORE", right=True),
        Column("SOURCE", cut=True),
        Column("SAID"),
        Column("TEXT", cut=True),
    ]
    rows = [
        (hit.rank, f"{hit.score:.3f}", source_of(hit), when(hit.source.created_ms), hit.text)
        for hit in hits
    ]
    print_table(columns, rows, notes=[_terms(hit) for hit in hits], empty="Nothing found.")


def source_of(hit: Hit) -> str:
    """Return where *hit* comes from, and who said it."""
    place = str(hit.source)
    if hit.source.artifact and hit.source.session:
        place = f"{place} in {hit.source.session}"
    return f"{place} {hit.source.author}" if hit.source.author else place


def _terms(hit: Hit) -> str:
    terms = (hit.explanation or {}).items()
    return ", ".join(f"{name} {value:.3g}" for name, value in terms if value)


COMMANDS = {"recall": recall}
