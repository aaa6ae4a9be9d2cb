"""`memdb remember`, `memdb extract` and `memdb entry`: long-term entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memdb.api.collections import Entries
from memdb.api.scope import Scope
from memdb.api.session import Session
from memdb.cli.base import verb
from memdb.cli.command import Noun
from memdb.cli.made import plain, remove
from memdb.cli.options import confirm_options, model_option, session_argument
from memdb.cli.output import (
    Column,
    Line,
    cell_of,
    clean,
    columns_of,
    one_line,
    print_facts,
    print_records,
    say,
    shorten,
    when,
)
from memdb.cli.records import edited, entry_of, open_session, session_named, unchanged
from memdb.models.ids import system_clock
from memdb.models.record import counted

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.entries import Entry, Extracted, Link, Outcome, Remembered

ref_argument = click.argument("entry_ref", metavar="NUMBER|KEY")
ASKED_WIDTH = 50  # columns of an entry's text in the question before it is deleted
# Fields of an entry that are printed.
FACTS = "category key keywords importance pinned trust session first_seq valid_from_ms expires_ms"
TIMES = "created_ms updated_ms superseded_by outdated_by"


def _headline(found: Entry) -> str:
    """Return the text of an entry behind its key, and its status unless it is active."""
    status = found.status(system_clock())
    marks = [] if status == "active" else [f"({status})"]
    marks += [f"[{found.key}]"] if found.key else []
    if found.outdated_by is not None and status == "active":
        marks.append(f"(older: see entry {found.outdated_by})")
    return " ".join([*marks, found.text])


@verb(
    'memdb remember agent.db "Ann is allergic to peanuts." --user ann --category profile',
    'memdb remember agent.db "Ann lives in Bergen." --user ann --key home_city',
    like=Scope.remember,
    without=("session_only", "writer", "trust", "metadata"),
)
def remember(call: Call, text: str, **fields: Any) -> None:
    """
    Store one long-term fact.

    TEXT is a sentence that can be understood alone; "-" reads it from standard input. FILE is
    created if it is new. A key or password in it is refused, unless --secrets allows it.
    """
    with call.scope(create=True) as scope:
        if "session" in fields:
            fields["session"] = session_named(scope, fields["session"], is_new=True)
        done = scope.remember(text, **fields)
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
    """Return the text of a link, from the side of one of its entries."""
    newer, older = link.newer_id, link.older_id
    sure = f" ({link.probability:.0%})" if link.decided == "guessed" else f" ({link.decided})"
    if link.newer_id == entry_id:
        return f"{link.kind} entry {older}{sure}"
    return f"older: see entry {newer}, which {link.kind} it{sure}"


@verb(
    "memdb extract agent.db trip --dry-run",
    "memdb extract agent.db trip --model openai:qwen3@http://localhost:11434/v1",
    like=Session.extract,
)
@session_argument
@model_option("reads the messages", "the small models in memdb")
def extract(call: Call, session: str, **options: Any) -> None:
    """
    Learn long-term entries from the messages of SESSION that are not yet read.

    A fact that is stored already is not stored again; one that resembles others is
    linked to them. No message is read twice. Secrets are neither learnt nor shown to
    the model.
    """
    with open_session(call, session) as chat, Line() as line:
        done = chat.extract(**options, progress=lambda _, doing: line.say(doing))
    is_dry = "dry_run" in options
    call.reply(
        {**done.to_dict(), "dry_run": is_dry},
        lambda: _print_extracted(done, session, dry_run=is_dry),
    )


def _print_extracted(done: Extracted, session: str, *, dry_run: bool) -> None:
    """Print the action for each fact, and how many messages were read."""
    print_records(OUTCOME_COLUMNS, done.outcomes)
    read = counted(done.messages, "message")
    asked = f", {counted(done.calls, 'call')} of the model" if done.calls else ""
    left = "; nothing was stored" if dry_run else ""
    click.echo(f"{one_line(session)}: {read} read{asked}{left}.")


def _fact(outcome: Outcome) -> str:
    why = f" ({outcome.reason})" if outcome.reason and outcome.action != "added" else ""
    return f"{outcome.candidate.text}{why}"


OUTCOME_COLUMNS = (
    Column("DONE", lambda one: one.action),
    Column("CATEGORY", lambda one: one.candidate.category),
    Column("MESSAGE", lambda one: cell_of("first_seq", one.candidate)),
    Column("FACT", _fact, below=True),
)


@click.group(cls=Noun)
def entry() -> None:
    """
    List, show, edit, supersede and delete long-term entries.

    An entry is named by its number or by its key. `memdb remember` adds one.
    """


plain(
    Entries.list,
    "memdb entry list agent.db --category profile",
    "memdb entry list agent.db --order created --limit 20",
    of=entry,
    shows=(
        *columns_of("id=# category importance=IMP updated_ms=CHANGED"),
        Column("TEXT", _headline, below=True),
    ),
    empty="No entries.",
    names={"inactive": "all"},
    help="List the entries of a user, oldest first.",
)
plain(
    Entries.supersede,
    "memdb entry supersede agent.db 3 home_city",
    of=entry,
    shows="entry {0.id} was superseded by entry {0.superseded_by}",
)
plain(
    Entries.unlink,
    "memdb entry unlink agent.db 11 3",
    of=entry,
    shows=lambda found: "rejected" if found else "no link between them was guessed",
)


def _facts(found: Any, names: str = FACTS) -> list[tuple[str, str]]:
    """Return the fields of an entry or of a version of it, for a person."""
    return [
        (name.removesuffix("_ms").replace("_", " "), cell_of(name, found))
        for name in names.split()
        if hasattr(found, name)
    ]


@verb("memdb entry show agent.db home_city", of=entry)
@ref_argument
def show(call: Call, entry_ref: str) -> None:
    """Show an entry, its earlier versions, the entries that it replaced, and its links."""
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        versions = scope.entries.history(found.id)
        replaced = scope.entries.replaced(found.id)
        links = scope.entries.links(found.id)

    def show_all() -> None:
        print_entry(found)
        for old in reversed(versions):
            reason = one_line(f"{old.reason}, {old.category}, importance {old.importance}")
            say(f"\nversion {old.version}, until {when(old.replaced_ms)} ({reason})", bold=True)
            say(clean(old.text))
        for one in replaced:
            say(f"\nentry {one.id}, until {when(one.valid_to_ms)} (replaced)", bold=True)
            say(clean(one.text))
        for link in links:
            because = f": {link.reason}" if link.reason else ""
            line = f"{_link_line(link, found.id)}{because}"
            say(one_line(line), "    ", f"  {when(link.made_ms)}  ")

    told = {"history": versions, "replaced": replaced, "links": links}
    call.reply({**found.to_dict(), **told}, show_all)


def print_entry(found: Entry) -> None:
    """Print an entry with its fields."""
    say(f"entry {found.id}, version {found.version}", bold=True)
    say(clean(found.text))
    state = ("state", found.status(system_clock()))
    print_facts([*_facts(found, f"{FACTS} {TIMES}"), state], "  ")


plain(Entries.revert, "memdb entry revert agent.db home_city 1", of=entry, shows=print_entry)


@verb(
    'memdb entry edit agent.db home_city --text "Ann lives in Oslo." --importance 7',
    "memdb entry edit agent.db home_city --pinned",
    of=entry,
    like=Entries.update,
    without=("entry_id",),
)
@ref_argument
def edit(call: Call, entry_ref: str, expected: int | None = None, **changes: Any) -> None:
    """
    Change an entry, and keep its earlier version in its history.

    Without an option the editor of VISUAL or EDITOR opens with its text. --pinned puts it into
    every context. --no-active switches it off and keeps its history.
    """
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        if changes:
            changed = scope.entries.update(found.id, **changes, expected=expected)
    if not changes:
        with edited(found.text, instead="--text or another option") as text:
            if text is None:
                unchanged(call, found)
                return
            with call.scope() as scope:
                seen = expected or found.version
                changed = scope.entries.update(found.id, text=text, expected=seen)
    call.reply(changed, lambda: print_entry(changed))


@verb("memdb entry delete agent.db home_city --dry-run", of=entry)
@ref_argument
@confirm_options
def delete(call: Call, entry_ref: str, **asked: bool) -> None:
    """Remove an entry with its history."""
    with call.scope() as scope:
        found = entry_of(scope, entry_ref)
        what = f"entry {found.id}, {shorten(one_line(found.text), ASKED_WIDTH)!r}"
        remove(call, what, lambda: scope.entries.delete(found.id), **asked, entry=found)


COMMANDS = {"remember": remember, "extract": extract, "entry": entry}
