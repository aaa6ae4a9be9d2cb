"""`memdb counts` and `memdb changes`: what a memory holds by day, and what changes in it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import click

from memdb.cli.base import DEFAULT_APP, MOMENT, verb
from memdb.cli.output import Column, note, one_line, print_json_line, print_records, when

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.overviews import Changes, ScopeCounts

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
# What the kinds of `Changes` are, for people.
KINDS = {
    "message": "messages (edited, archived or removed)",
    "session": "sessions (renamed or removed)",
    "entry": "entries",
    "summary": "summaries",
    "artifact": "artifacts",
    "item": "items",
    "state": "state of sessions",
    "settings": "settings",
    "scope": "whole memories (copied)",
    "other": "nothing that holds words: jobs, vectors",
}


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


@verb(
    "memdb changes agent.db",
    "memdb changes agent.db --since MARK",
    "memdb changes agent.db --follow --json",
    scope=False,
)
@click.option("--since", metavar="MARK", help="What changed since this command printed MARK.")
@click.option("--follow", is_flag=True, help="Go on with what anybody changes, until Ctrl-C.")
def changes(call: Call, since: str | None, follow: bool) -> None:
    """
    Say what anybody changed in FILE, and print a mark to ask from the next time.

    Without --since and --follow there is only the mark. A mark tells which kinds of
    things changed, whoever did it; which sessions got messages is told while it
    follows. No clock is asked, and nothing is missed. With --follow and --json each
    change is a line.
    """
    with call.open(read_only=True) as db:
        if not follow:
            found = db.changes(since)
            call.reply(found, lambda: _print_changes(call, found, since))
            return
        from memdb.cli.service import ending_by_signals

        with ending_by_signals():
            coming = db.watch()  # from here on: what comes before the next line is told twice
            first = db.changes(since)
            mark = since or first.mark
            try:
                for found in chain([first], coming):
                    _print_followed(call, found)
                    mark = found.mark
            except KeyboardInterrupt:
                if not call.as_json:
                    note(f"Mark: {mark}")
                raise


def _print_changes(call: Call, found: Changes, since: str | None) -> None:
    """Print what changed since a mark, and the new one."""
    lines = _lines_of(found)
    if since is not None:
        click.echo("\n".join(lines) if lines else "Nothing changed.")
    click.echo(f"Mark: {found.mark}")
    if since is None:
        note(f"`memdb changes {call.shown_file} --since MARK` says what changed since now.")


def _print_followed(call: Call, found: Changes) -> None:
    """Print what changed, if anything did."""
    if found.is_empty:
        return
    if call.as_json:
        print_json_line(found)
    else:
        click.echo("\n".join(_lines_of(found)))


def _lines_of(found: Changes) -> list[str]:
    """Return a line for each session and kind that changed."""
    lines = []
    for one in found.sessions:
        branch = "" if one.branch is None else f", branch {one_line(one.branch)}"
        owner = one_line(one.user) + (f" in {one_line(one.app)}" if one.app != DEFAULT_APP else "")
        lines.append(f"new messages    {one_line(one.session)}{branch} ({owner})")
    if not found.is_complete:
        lines.append(
            "new messages    in sessions that the mark does not tell: see `memdb chat list`"
        )
    lines += [f"changed         {KINDS.get(kind, kind)}" for kind in found.kinds]
    return lines


COMMANDS = {"counts": counts, "changes": changes}
