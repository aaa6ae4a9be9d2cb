"""`memdb entry` and `memdb remember`: long-term entries."""

from __future__ import annotations

import click

from memdb.cli.base import (
    Command,
    Noun,
    confirm,
    confirm_options,
    example,
    file_argument,
    json_option,
    scope_options,
)
from memdb.cli.opening import opened_scope
from memdb.cli.output import Column, clean, one_line, print_json, print_table, shorten, when
from memdb.cli.values import EXPIRY, MOMENT, text_or_stdin
from memdb.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.models import Entry, EntryVersion
    from memdb.scope import Scope

IMPORTANCE = click.IntRange(1, 10)
ASKED_WIDTH = 50  # columns of an entry's text in the question before it is deleted


@click.command(
    cls=Command,
    epilog=example(
        'memdb remember agent.db "Ann is allergic to peanuts." --user ann --category profile',
        'memdb remember agent.db "Ann lives in Bergen." --user ann --key home_city',
    ),
)
@file_argument
@click.argument("text")
@click.option("--category", metavar="NAME", default="events", show_default=True)
@click.option(
    "--key", metavar="NAME", help="Names the fact: a later entry with this key replaces this one."
)
@click.option("--importance", type=IMPORTANCE, default=5, show_default=True)
@click.option("--keyword", "keywords", metavar="WORD", multiple=True, help="Repeatable.")
@click.option("--session", metavar="NAME", help="The conversation it was told in.")
@click.option("--seq", type=click.IntRange(1), metavar="N", help="The message of that session.")
@click.option("--valid-from", type=MOMENT, help="Since when it holds.")
@click.option("--expires", type=EXPIRY, help="From then on it is not recalled.")
@scope_options
@json_option
def remember(
    file: str, text: str, user: str | None, app: str | None, as_json: bool, **fields: Any
) -> None:
    """
    Store one long-term fact.

    TEXT is a sentence that can stand alone; "-" reads it from standard input.
    FILE is made where it is new.
    """
    said = text_or_stdin(text)
    with opened_scope(file, user, app, create=True) as scope:
        done = scope.remember(said, **fields)
    if as_json:
        print_json(done.to_dict())
    else:
        click.echo(f"{done.action} entry {done.entry.id} ({one_line(done.entry.category)})")


@click.group(cls=Noun)
def entry() -> None:
    """
    List, show, edit and delete long-term entries.

    An entry is named by its id or by its key. `memdb remember` adds one.
    """


@entry.command("list", epilog=example("memdb entry list agent.db --category profile"))
@file_argument
@click.option("--category", metavar="NAME", help="Only this category.")
@click.option("--all", "inactive", is_flag=True, help="Also those that do not hold any more.")
@scope_options
@json_option
def list_(
    file: str,
    category: str | None,
    inactive: bool,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """List the entries of a user."""
    with opened_scope(file, user, app) as scope:
        entries = list(scope.entries.list(category=category, inactive=inactive))
    if as_json:
        print_json([one.to_dict() for one in entries])
        return
    columns = [
        Column("ID"),
        Column("CATEGORY", cut=True),
        Column("IMP", right=True),
        Column("CHANGED"),
        Column("TEXT", cut=True),
    ]
    rows = [
        (one.id, one.category, one.importance, when(one.updated_ms), _headline(one))
        for one in entries
    ]
    print_table(columns, rows, empty="No entries.")


@entry.command(epilog=example("memdb entry show agent.db home_city"))
@file_argument
@click.argument("entry_ref", metavar="ID|KEY")
@scope_options
@json_option
def show(file: str, entry_ref: str, user: str | None, app: str | None, as_json: bool) -> None:
    """Show an entry and what it said before."""
    with opened_scope(file, user, app) as scope:
        found = _find(scope, entry_ref)
        history = scope.entries.history(found.id)
    if as_json:
        print_json({**found.to_dict(), "history": [old.to_dict() for old in history]})
        return
    _print_entry(found)
    for old in reversed(history):
        _print_old(old)


@entry.command(
    epilog=example('memdb entry edit agent.db home_city --text "Ann lives in Oslo." --importance 7')
)
@file_argument
@click.argument("entry_ref", metavar="ID|KEY")
@click.option("--text", help='What it says now; "-" reads standard input.')
@click.option("--category", metavar="NAME")
@click.option("--importance", type=IMPORTANCE)
@click.option(
    "--keyword", "keywords", metavar="WORD", multiple=True, help="Repeatable; replaces them all."
)
@click.option("--expires", type=EXPIRY, help="From then on it is not recalled.")
@scope_options
@json_option
def edit(
    file: str, entry_ref: str, user: str | None, app: str | None, as_json: bool, **fields: Any
) -> None:
    """Change an entry; what it said before goes into its history."""
    changes = {name: value for name, value in fields.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError("Nothing to change: give --text or another option.")
    if "text" in changes:
        changes["text"] = text_or_stdin(changes["text"])
    with opened_scope(file, user, app) as scope:
        changed = scope.entries.update(_find(scope, entry_ref).id, **changes)
    if as_json:
        print_json(changed.to_dict())
    else:
        _print_entry(changed)


@entry.command(epilog=example("memdb entry delete agent.db home_city --dry-run"))
@file_argument
@click.argument("entry_ref", metavar="ID|KEY")
@confirm_options
@scope_options
@json_option
def delete(
    file: str,
    entry_ref: str,
    yes: bool,
    dry_run: bool,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """Remove an entry with its history."""
    with opened_scope(file, user, app) as scope:
        found = _find(scope, entry_ref)
        what = f"entry {found.id}, {shorten(one_line(found.text), ASKED_WIDTH)!r}"
        if not dry_run:
            confirm(f"Delete {what} and its history?", yes=yes)
        deleted = not dry_run and scope.entries.delete(found.id)
    if as_json:
        print_json({"deleted": deleted, "dry_run": dry_run, "entry": found.to_dict()})
    else:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {what}.")


def _find(scope: Scope, ref: str) -> Entry:
    """Return the entry with the id or the key *ref*; NotFound without one."""
    if ref.isdecimal():
        return scope.entries.get(int(ref))
    found = scope.entries.find(ref)
    if found is None:
        raise NotFound("entry", ref)
    return found


def _headline(found: Entry) -> str:
    marks = f"[{found.key}] " if found.key else ""
    return f"{marks}{found.text}" if found.active else f"(inactive) {marks}{found.text}"


def _print_entry(found: Entry) -> None:
    told = f"{found.session}#{found.first_seq}" if found.first_seq else found.session
    facts = {
        "category": found.category,
        "key": found.key,
        "keywords": ", ".join(found.keywords),
        "importance": found.importance,
        "told in": told,
        "valid from": when(found.valid_from_ms),
        "expires": when(found.expires_ms),
        "added": when(found.created_ms),
        "changed": when(found.updated_ms),
        "replaced by": found.superseded_by,
        "state": "active" if found.active else "inactive",
    }
    click.secho(f"entry {found.id}, version {found.version}", bold=True)
    click.echo(clean(found.text))
    for name, value in facts.items():
        if value:
            click.echo(f"  {name:<12}{one_line(str(value))}")


def _print_old(old: EntryVersion) -> None:
    reason = one_line(f"{old.reason}, {old.category}, importance {old.importance}")
    click.secho(f"\nversion {old.version}, until {when(old.replaced_ms)} ({reason})", bold=True)
    click.echo(clean(old.text))


COMMANDS = {"remember": remember, "entry": entry}
