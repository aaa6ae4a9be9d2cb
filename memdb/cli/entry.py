"""`memdb remember`, `memdb extract` and `memdb entry`: long-term entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import (
    EXPIRY,
    MOMENT,
    confirm,
    confirm_options,
    model_option,
    secrets_option,
    session_argument,
    verb,
)
from memdb.cli.command import Noun
from memdb.cli.output import Column, Line, clean, one_line, print_records, say, shorten, when
from memdb.cli.records import (
    edited,
    entry_of,
    expected_option,
    open_session,
    page_options,
    pair,
    reply_diff,
    session_named,
    unchanged,
)
from memdb.models.ids import system_clock
from memdb.models.record import counted
from memdb.text.differences import compare_lines

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.entries import Entry, EntryVersion, Extracted, Link, Outcome, Remembered
    from memdb.models.types import EntryOrder

IMPORTANCE = click.IntRange(1, 10)
ref_argument = click.argument("entry_ref", metavar="NUMBER|KEY")
ASKED_WIDTH = 50  # columns of an entry's text in the question before it is deleted


def _headline(found: Entry, at_ms: int | None = None) -> str:
    """Return the text of an entry behind its key, and its status at a time unless it is active."""
    status = found.status(system_clock() if at_ms is None else at_ms)
    marks = [] if status == "active" else [f"({status})"]
    marks += [f"[{found.key}]"] if found.key else []
    if found.outdated_by is not None and status == "active":
        marks.append(f"(older: see entry {found.outdated_by})")
    return " ".join([*marks, found.text])


LIST_COLUMNS = (
    Column("#", lambda one: one.id, right=True),
    Column("CATEGORY", lambda one: one.category, cut=True),
    Column("IMP", lambda one: one.importance, right=True),
    Column("CHANGED", lambda one: when(one.updated_ms)),
)


@verb(
    'memdb remember agent.db "Ann is allergic to peanuts." --user ann --category profile',
    'memdb remember agent.db "Ann lives in Bergen." --user ann --key home_city',
)
@click.argument("text")
@click.option(
    "--category", metavar="NAME", help="What kind of fact it is.  [default: as its words suggest]"
)
@click.option(
    "--key", metavar="NAME", help="Names the fact: a later entry with this key replaces this one."
)
@click.option("--importance", type=IMPORTANCE, help="1 to 10.  [default: 5]")
@click.option("--keyword", "keywords", metavar="WORD", multiple=True, help="Repeatable.")
@click.option("--pin", "pinned", is_flag=True, default=None, help="Put it into every prompt.")
@click.option("--session", metavar="NAME", help="The conversation it comes from.")
@click.option("--seq", type=click.IntRange(1), metavar="N", help="The message of that session.")
@click.option("--valid-from", type=MOMENT, help="Since when it holds.")
@click.option(
    "--expires", type=EXPIRY, help="From then on, or after a span such as 30d, it is not recalled."
)
@click.option("--shared", is_flag=True, default=None, help="For all users of the app.")
@secrets_option
def remember(call: Call, text: str, **fields: Any) -> None:
    """
    Store one long-term fact.

    TEXT is a sentence that can stand alone; "-" reads it from standard input.
    FILE is made if it is new. A key or password in it is refused, unless
    --secrets says otherwise.
    """
    with call.scope(create=True) as scope:
        if fields["session"] is not None:
            fields["session"] = session_named(scope, fields["session"], is_new=True)
        done = scope.remember(text, secrets=call.secrets, **fields)
    call.reply(done, lambda: _print_done(done))


def _print_done(done: Remembered) -> None:
    what = (
        f"entry {done.entry.id} ({one_line(done.entry.category)})" if done.entry.id else "nothing"
    )
    click.echo(f"{done.action} {what}")
    if done.action != "added":
        click.echo(f"  because: {one_line(done.reason)}")
    if done.action in ("updated", "retracted") and done.other is not None:
        click.echo(f"  before: {shorten(one_line(done.other.text), ASKED_WIDTH)}")
    for link in done.links:
        click.echo(f"  {_link_line(link, done.entry.id)}")


def _link_line(link: Link, entry_id: int) -> str:
    """Return what a link says, from the side of one of its entries."""
    newer, older = link.newer_id, link.older_id
    sure = f" ({link.probability:.0%})" if link.decided == "guessed" else f" ({link.decided})"
    if link.newer_id == entry_id:
        return f"{link.kind} entry {older}{sure}"
    return f"older: see entry {newer}, which {link.kind} it{sure}"


@verb(
    "memdb extract agent.db trip --dry-run",
    "memdb extract agent.db trip --model openai:qwen3@http://localhost:11434/v1",
)
@session_argument
@model_option("reads the messages", "rules of English")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after about N messages.")
@click.option("--dry-run", is_flag=True, help="Say what would be learnt, and store nothing.")
def extract(call: Call, session: str, limit: int | None, dry_run: bool) -> None:
    """
    Learn long-term entries from the messages of SESSION that are not yet read.

    A fact that is stored already is not stored again; one that resembles others is
    linked to them. No message is read twice. Secrets are neither learnt nor shown to
    the model.
    """
    with open_session(call, session) as chat, Line() as line:
        done = chat.extract(dry_run=dry_run, limit=limit, progress=lambda _, doing: line.say(doing))
    call.reply(
        {**done.to_dict(), "dry_run": dry_run},
        lambda: _print_extracted(done, session, dry_run=dry_run),
    )


def _print_extracted(done: Extracted, session: str, *, dry_run: bool) -> None:
    """Print the action for each fact, and how many messages were read."""
    print_records(OUTCOME_COLUMNS, done.outcomes)
    read = counted(done.messages, "message")
    asked = f", {counted(done.calls, 'call')} of the model" if done.calls else ""
    left = "; nothing was stored" if dry_run else ""
    click.echo(f"{one_line(session)}: {read} read{asked}{left}.")


def _span(outcome: Outcome) -> str:
    first, last = outcome.candidate.first_seq, outcome.candidate.last_seq
    return "" if first is None else f"{first}" if first == last else f"{first}-{last}"


def _fact(outcome: Outcome) -> str:
    why = f" ({outcome.reason})" if outcome.reason and outcome.action != "added" else ""
    return f"{outcome.candidate.text}{why}"


OUTCOME_COLUMNS = (
    Column("DONE", lambda one: one.action),
    Column("CATEGORY", lambda one: one.candidate.category),
    Column("MESSAGE", _span),
    Column("FACT", _fact, below=True),
)


@click.group(cls=Noun)
def entry() -> None:
    """
    List, show, edit, pin, supersede and delete long-term entries.

    An entry is named by its number or by its key. `memdb remember` adds one.
    """


@verb(
    "memdb entry list agent.db --category profile",
    "memdb entry list agent.db --order created --limit 20",
    of=entry,
    name="list",
)
@click.option("--category", metavar="NAME", help="Only this category.")
@click.option("--all", "inactive", is_flag=True, help="Also those that do not hold any more.")
@click.option("--current", is_flag=True, help="Without those that a newer one outdates.")
@click.option("--pinned", is_flag=True, help="Only those that belong into every prompt.")
@click.option("--as-of", type=MOMENT, help="As the file would have answered then.")
@page_options("id", "updated", "created")
def list_(
    call: Call,
    category: str | None,
    inactive: bool,
    current: bool,
    pinned: bool,
    as_of: int | None,
    limit: int | None,
    order: EntryOrder,
    after: dict[str, Any] | None,
) -> None:
    """List the entries of a user, oldest first."""
    filters: dict[str, Any] = {
        "category": category,
        "pinned": pinned or None,
        "inactive": inactive,
        "current": current,
    }
    page: dict[str, Any] = {"limit": limit, "order": order, "after": after}
    with call.scope() as scope:
        entries = list(scope.entries.list(**filters, **page, as_of=as_of))
    text = Column("TEXT", lambda one: _headline(one, as_of), below=True)
    call.reply_records(entries, (*LIST_COLUMNS, text), empty="No entries.")


@verb("memdb entry history agent.db home_city", of=entry)
@ref_argument
def history(call: Call, entry_ref: str) -> None:
    """Show the earlier versions of an entry, what it replaced, and its links."""
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        versions = scope.entries.history(found.id)
        replaced = scope.entries.replaced(found.id)
        links = scope.entries.links(found.id)

    def show_all() -> None:
        _print_versions(found, versions)
        for one in replaced:
            until = when(one.valid_to_ms)
            say(f"\nentry {one.id}, until {until} (replaced)", bold=True)
            say(clean(one.text))
        for link in links:
            because = f": {link.reason}" if link.reason else ""
            line = f"{_link_line(link, found.id)}{because}"
            say(one_line(line), "    ", f"  {when(link.made_ms)}  ")

    data = {"entry": found, "versions": versions, "replaced": replaced, "links": links}
    call.reply(data, show_all)


@verb("memdb entry diff agent.db home_city", "memdb entry diff agent.db 3 1 2", of=entry)
@ref_argument
@click.argument("old", type=click.IntRange(1), required=False)
@click.argument("new", type=click.IntRange(1), required=False)
def diff(call: Call, entry_ref: str, old: int | None, new: int | None) -> None:
    """
    Show what changed in an entry between the versions OLD and NEW.

    NEW is what it says now without it, OLD the version before.
    """
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        versions = {one.version: one for one in scope.entries.history(found.id)}
    known: dict[int, Entry | EntryVersion] = {**versions, found.version: found}
    chosen = pair((old, new), sorted(known), f"entry {found.id}")
    old_lines, new_lines = ([f"{line}\n" for line in _lines_of(known[one])] for one in chosen)
    reply_diff(call, {"id": found.id}, compare_lines(old_lines, new_lines, chosen))


def _lines_of(version: Entry | EntryVersion) -> list[str]:
    """Return what a version says, a line for each field."""
    fields = {
        "category": version.category,
        "key": version.key or "-",
        "importance": version.importance,
        "keywords": ", ".join(version.keywords) or "-",
        "pinned": "yes" if version.pinned else "no",
        "active": "yes" if version.active else "no",
        "expires": when(version.expires_ms) or "never",
    }
    return [*(f"{name}: {value}" for name, value in fields.items()), *version.text.split("\n")]


@verb("memdb entry supersede agent.db 3 home_city", of=entry)
@click.argument("old_ref", metavar="OLD")
@click.argument("new_ref", metavar="NEW")
def supersede(call: Call, old_ref: str, new_ref: str) -> None:
    """Mark the entry OLD as superseded by NEW; each is a number or a key."""
    with call.scope() as scope:
        new = entry_of(scope, new_ref)
        old = scope.entries.supersede(entry_of(scope, old_ref).id, new.id)
    call.reply(old, f"entry {old.id} was superseded by entry {new.id}")


@verb("memdb entry unlink agent.db 11 3", of=entry)
@click.argument("newer_ref", metavar="NEWER")
@click.argument("older_ref", metavar="OLDER")
def unlink(call: Call, newer_ref: str, older_ref: str) -> None:
    """Reject what is guessed about two entries: NEWER does nothing to OLDER."""
    with call.scope() as scope:
        newer, older = (entry_of(scope, ref) for ref in (newer_ref, older_ref))
        rejected = scope.entries.unlink(newer.id, older.id)
    text = f"entry {newer.id} does nothing to entry {older.id}"
    missing = "no link between them was guessed"
    call.reply({"rejected": rejected}, text if rejected else missing)


@verb("memdb entry revert agent.db home_city 1", of=entry)
@ref_argument
@click.argument("version", type=click.IntRange(1))
@expected_option
def revert(call: Call, entry_ref: str, version: int, expected: int | None) -> None:
    """Give an entry what it was in an earlier VERSION, as `entry history` lists them."""
    with call.scope() as scope:
        entry_id = entry_of(scope, entry_ref).id
        found = scope.entries.revert(entry_id, version, expected=expected)
    call.reply(found, lambda: _print_entry(found))


def _pin(call: Call, entry_ref: str, done: str) -> None:
    with call.scope() as scope:
        found = scope.entries.update(entry_of(scope, entry_ref).id, pinned=done == "pinned")
    call.reply(found, f"{done} entry {found.id}")


@verb("memdb entry pin agent.db home_city", of=entry)
@ref_argument
def pin(call: Call, entry_ref: str) -> None:
    """Put an entry into every prompt, and never evict it."""
    _pin(call, entry_ref, "pinned")


@verb("memdb entry unpin agent.db home_city", of=entry)
@ref_argument
def unpin(call: Call, entry_ref: str) -> None:
    """Take the pin off an entry."""
    _pin(call, entry_ref, "unpinned")


def _switch(call: Call, entry_ref: str, active: bool) -> None:
    with call.scope() as scope:
        found = scope.entries.update(entry_of(scope, entry_ref).id, active=active)
    call.reply(found, f"entry {found.id} is {'on' if active else 'off'}")


@verb("memdb entry off agent.db 4", of=entry)
@ref_argument
def off(call: Call, entry_ref: str) -> None:
    """Switch an entry off, so that nothing recalls it; its history stays."""
    _switch(call, entry_ref, active=False)


@verb("memdb entry on agent.db 4", of=entry)
@ref_argument
def on(call: Call, entry_ref: str) -> None:
    """Let an entry hold again that was switched off, expired or gave way to another."""
    _switch(call, entry_ref, active=True)


@verb("memdb entry show agent.db home_city", of=entry)
@ref_argument
def show(call: Call, entry_ref: str) -> None:
    """Show an entry and its earlier versions."""
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        versions = scope.entries.history(found.id)
    call.reply({**found.to_dict(), "history": versions}, lambda: _print_versions(found, versions))


@verb('memdb entry edit agent.db home_city --text "Ann lives in Oslo." --importance 7', of=entry)
@ref_argument
@click.option("--text", help='What it says now; "-" reads standard input.')
@click.option("--category", metavar="NAME")
@click.option("--importance", type=IMPORTANCE)
@click.option(
    "--keyword", "keywords", metavar="WORD", multiple=True, help="Repeatable; replaces them all."
)
@click.option("--expires", type=EXPIRY, help="From then on it is not recalled.")
@expected_option
def edit(call: Call, entry_ref: str, expected: int | None, **fields: Any) -> None:
    """
    Change an entry; its earlier version goes into its history.

    Without an option the editor of VISUAL or EDITOR opens with its text.
    """
    changes = {name: value for name, value in fields.items() if value not in (None, ())}
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        if changes:
            changed = scope.entries.update(found.id, **changes, expected=expected)
    if not changes:
        with edited(found.text, instead="--text or another option") as text:
            if text is None:
                unchanged(call, found)
                return
            expected = expected or found.version
            with call.scope() as scope:
                changed = scope.entries.update(found.id, text=text, expected=expected)
    call.reply(changed, lambda: _print_entry(changed))


@verb("memdb entry delete agent.db home_city --dry-run", of=entry)
@ref_argument
@confirm_options
def delete(call: Call, entry_ref: str, yes: bool, dry_run: bool) -> None:
    """Remove an entry with its history."""
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        what = f"entry {found.id}, {shorten(one_line(found.text), ASKED_WIDTH)!r}"
        if not dry_run:
            confirm(f"Delete {what} and its history?", yes=yes)
        deleted = not dry_run and scope.entries.delete(found.id)
    data = {"deleted": deleted, "dry_run": dry_run, "entry": found}
    call.reply(data, f"{'Would delete' if dry_run else 'Deleted'} {what}.")


def _print_entry(found: Entry) -> None:
    origin = f"{found.session}#{found.first_seq}" if found.first_seq else found.session
    facts = {
        "category": found.category,
        "key": found.key,
        "keywords": ", ".join(found.keywords),
        "importance": found.importance,
        "pinned": "yes" if found.pinned else None,
        "trust": None if found.trust == "trusted" else found.trust,
        "told in": origin,
        "valid from": when(found.valid_from_ms),
        "expires": when(found.expires_ms),
        "added": when(found.created_ms),
        "changed": when(found.updated_ms),
        "replaced by": found.superseded_by,
        "older": f"see entry {found.outdated_by}" if found.outdated_by else None,
        "state": found.status(system_clock()),
    }
    click.secho(f"entry {found.id}, version {found.version}", bold=True)
    say(clean(found.text))
    for name, value in facts.items():
        if value:
            say(one_line(str(value)), " " * 14, f"  {name:<12}")


def _print_versions(found: Entry, versions: list[EntryVersion]) -> None:
    """Print an entry, and its earlier versions, newest first."""
    _print_entry(found)
    for old in reversed(versions):
        reason = one_line(f"{old.reason}, {old.category}, importance {old.importance}")
        say(f"\nversion {old.version}, until {when(old.replaced_ms)} ({reason})", bold=True)
        say(clean(old.text))


COMMANDS = {"remember": remember, "extract": extract, "entry": entry}
