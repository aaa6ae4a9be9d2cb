"""`memdb counts`: what a memory holds, by day and by category."""

from __future__ import annotations

import click

from memdb.cli.base import MOMENT, verb
from memdb.cli.output import Column, print_records, when

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.overviews import ScopeCounts

DAY_COLUMNS = (
    Column("DAY", lambda one: when(one.start_ms)),
    Column("MESSAGES", lambda one: f"{one.messages:,}", right=True),
    Column("SESSIONS BEGUN", lambda one: f"{one.sessions:,}", right=True),
    Column("ENTRIES", lambda one: f"{one.entries:,}", right=True),
)
CATEGORY_COLUMNS = (
    Column("CATEGORY", lambda one: one.category, cut=True),
    Column("ACTIVE", lambda one: f"{one.active:,}", right=True),
    Column("SUPERSEDED", lambda one: f"{one.superseded:,}", right=True),
    Column("EXPIRED", lambda one: f"{one.expired:,}", right=True),
    Column("INACTIVE", lambda one: f"{one.inactive:,}", right=True),
    Column("FUTURE", lambda one: f"{one.future:,}", right=True),
)


@verb("memdb counts agent.db --user ann", "memdb counts agent.db --since 30d --json")
@click.option("--since", type=MOMENT, help="Only what came then or later.")
@click.option("--until", type=MOMENT, help="Only what came before.")
@click.option(
    "--offset",
    "offset_minutes",
    type=click.IntRange(-1440, 1440),
    default=0,
    metavar="MINUTES",
    help="How far local time is ahead of UTC; days begin at its midnight.",
)
def counts(call: Call, since: int | None, until: int | None, offset_minutes: int) -> None:
    """
    Count what came in on each day, and entries by category and state.

    Over 600 days are put together in buckets of several days.
    """
    with call.scope() as scope:
        found = scope.counts(since=since, until=until, offset_minutes=offset_minutes)
    call.reply(found, lambda: _print(found))


def _print(found: ScopeCounts) -> None:
    print_records(DAY_COLUMNS, found.days, empty="Nothing came in.")
    if found.categories:
        click.echo()
        print_records(CATEGORY_COLUMNS, found.categories)


COMMANDS = {"counts": counts}
