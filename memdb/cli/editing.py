"""Versions of a text: what changed between two, and the next one out of an editor."""

from __future__ import annotations

import os
import sys

import click

from memdb.cli.output import clean, note, say
from memdb.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from memdb.cli.base import Call
    from memdb.models.overviews import TextDiff

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def edited(text: str, *, suffix: str = ".txt", instead: str) -> str | None:
    """
    Return what the user makes of *text* in the editor of VISUAL or EDITOR; None for no change.

    Args:
        suffix: Of the file that the editor sees, by which it knows the language.
        instead: What to give where there is no editor and no terminal, for the error.

    Raises:
        click.UsageError: there is no editor to ask.
    """
    has_editor = bool(os.environ.get("VISUAL") or os.environ.get("EDITOR"))
    if not (has_editor or sys.stdin.isatty()):
        raise click.UsageError(f"Nothing to change: give {instead}, or set EDITOR.")
    changed = click.edit(text, extension=suffix)
    if changed is None:
        return None
    if not text.endswith("\n"):
        changed = changed.removesuffix("\n")  # which editors add
    return None if changed == text else changed


def unchanged(call: Call, data: Any) -> None:
    """Reply that the editor left everything as it was."""
    call.reply(data, lambda: note("Nothing changed."))


def pair(given: tuple[int | None, int | None], known: Sequence[int], what: str) -> tuple[int, int]:
    """
    Return the two versions to compare: by default the newest and the one before.

    Args:
        known: The versions that there are, oldest first.
        what: Their owner, for errors.

    Raises:
        InvalidInput: there is no such version, or only one; names those that there are.
    """
    old, new = given
    if old is None and len(known) == 1:
        raise InvalidInput(f"{what} has only version {known[0]}: there is nothing to compare")
    new = known[-1] if new is None else new
    old = next((one for one in reversed(known) if one < new), new) if old is None else old
    for one in (old, new):
        if one not in known:
            names = ", ".join(map(str, known[-10:]))
            raise InvalidInput(f"{what} has no version {one}: it has {names}")
    return old, new


def reply_diff(call: Call, data: dict[str, Any], found: TextDiff) -> None:
    """
    Reply with the lines that differ, as `diff -u` writes them.

    Args:
        data: What --json prints besides "old", "new" and "diff".
    """
    lines = found.lines()
    data = {**data, "old": found.old, "new": found.new, "diff": "\n".join(lines)}
    call.reply(data, lambda: _print(lines))
    if not found.is_exact:
        note("The texts repeat too much: lines that are in both may stand as removed and added.")


def _print(lines: list[str]) -> None:
    if not lines:
        note("They are equal.")
    for line in lines:
        is_head = line.startswith(("+++", "---"))
        colour = None if is_head else COLOURS.get(line[:1])
        say(clean(line), **({"bold": True} if is_head else {"fg": colour} if colour else {}))
