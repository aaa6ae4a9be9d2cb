"""`memdb profile`: what is known about somebody, as one page that an editor changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from memdb.cli.base import confirm, verb
from memdb.cli.options import confirm_options
from memdb.cli.output import clean, one_line
from memdb.cli.records import edited, unchanged
from memdb.errors import InvalidInput
from memdb.models.record import Record, counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.cli.base import Call
    from memdb.models.entries import Entry
    from memdb.models.types import EntryFields

HEAD = """\
# What is known about {user}

Change a line, delete it, move it below another heading, or add one that begins with "- ".
"""
FACT = re.compile(r"- +(?:(\d{1,15}): ?)?(.*)")


class Fact(Record):
    """One fact of a page: the number of its entry, None for a new one."""

    number: int | None
    category: str
    text: str


def page_of(user: str, known: Iterable[Entry]) -> str:
    """Return the page: a heading for each category, and a line for each entry, by number."""
    groups: dict[str, list[str]] = {}
    for one in known:
        text = one.text.replace("\n", "\n  ")
        groups.setdefault(one.category, []).append(f"- {one.id}: {text}")
    parts = (f"\n## {category}\n\n" + "\n".join(lines) for category, lines in groups.items())
    return "\n".join([HEAD.format(user=one_line(user)).rstrip("\n"), *parts, ""])


def read_page(page: str) -> list[Fact]:
    """
    Return the facts of a page as they stand there.

    Raises:
        InvalidInput: a line is none of a page; names it.
    """
    facts: list[Fact] = []
    category: str | None = None
    for place, line in enumerate(page.split("\n"), 1):
        found = FACT.fullmatch(line)
        if line.startswith("## "):
            category = line[3:].strip()
        elif category is None or not line.strip():
            continue  # what the page begins with
        elif found is not None and found[2].strip():
            number = None if found[1] is None else int(found[1])
            facts.append(Fact(number, category, found[2]))
        elif line.startswith("  ") and facts:
            facts[-1] = facts[-1].replace(text=f"{facts[-1].text}\n{line[2:]}")
        else:
            raise InvalidInput(f"line {place} is {line!r}: begin a fact with '- ', or delete it")
    return facts


def changes_of(old: list[Fact], new: list[Fact]) -> tuple[list[Fact], list[Fact], list[Fact]]:
    """
    Return the facts to update, to delete and to add.

    Raises:
        InvalidInput: a number was not on the page, or is there twice.
    """
    left = {one.number: one for one in old}
    updated, added = [], []
    for one in new:
        if one.number is None:
            added.append(one)
        elif one.number not in left:
            raise InvalidInput(
                f"entry {one.number} is not on the page, or is there twice: leave it out"
            )
        elif left.pop(one.number) != one:
            updated.append(one)
    return updated, [*left.values()], added


@verb("memdb profile agent.db --user ann", "memdb profile agent.db --user ann --edit")
@click.option("--edit", is_flag=True, help="Edit it in the editor that VISUAL or EDITOR names.")
@confirm_options
def profile(call: Call, edit: bool, yes: bool, dry_run: bool) -> None:
    """
    Show what is known about a user as one page, and change it in an editor.

    With --edit a changed line updates its entry, a deleted line deletes it, and a new line is
    remembered. The changes are listed first, and all of them are stored or none.
    """
    with call.scope() as scope:
        known = {one.id: one for one in scope.entries.list()}
    page = page_of(scope.user, known.values())
    if not edit:
        call.reply([*known.values()], lambda: click.echo(clean(page), nl=False))
        return
    with edited(page, suffix=".md", instead="an editor") as text:
        if text is None:
            unchanged(call, {"updated": [], "deleted": [], "added": []})
            return
        updated, deleted, added = changes_of(read_page(page), read_page(text))
        _show(call, updated, deleted, added)
        if not dry_run:
            count = counted(len(updated) + len(deleted) + len(added), "change")
            confirm(f"Store {count}?", yes=yes)
            with call.open() as db, db.transaction():
                scope = call.choose(db)
                for one in updated:
                    seen = known[one.number or 0]
                    changed: EntryFields = {"text": one.text, "category": one.category}
                    scope.entries.update(seen.id, **changed, expected=seen)
                for one in deleted:
                    seen = known[one.number or 0]
                    scope.entries.delete(seen.id, expected=seen)
                for one in added:
                    scope.remember(one.text, category=one.category)


def _show(call: Call, updated: list[Fact], deleted: list[Fact], added: list[Fact]) -> None:
    """List the changes, before anything is stored."""
    rows = [
        f"{sign} {'' if one.number is None else f'{one.number}: '}{one_line(one.text)}"
        for sign, facts in (("~", updated), ("-", deleted), ("+", added))
        for one in facts
    ]
    data = {"updated": updated, "deleted": deleted, "added": added}
    call.reply(data, "\n".join(rows) or "Nothing changes.")


COMMANDS = {"profile": profile}
