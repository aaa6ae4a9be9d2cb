"""Versions of a text: what changed between two, and the next one out of an editor."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.output import clean, is_terminal, note, say
from memdb.errors import InvalidInput, MemDBError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from memdb.cli.base import Call
    from memdb.models.overviews import TextDiff

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@contextmanager
def edited(
    text: str, *, suffix: str = ".txt", instead: str, may_be_empty: bool = False
) -> Iterator[str | None]:
    """
    Give what the user makes of *text* in the editor of VISUAL or EDITOR; None for no change.

    What was typed is in a file, which is removed at the end of the `with` block. If an
    error leaves the block, the file stays and the error names it.

    Args:
        suffix: Of the file that the editor sees, by which it knows the language.
        instead: What to give where there is no editor and no terminal, for the error.
        may_be_empty: An empty text is stored; else it is no change.

    Raises:
        click.UsageError: there is no editor to ask.
        InvalidInput: the editor saved no UTF-8, or a text with NUL.
    """
    import tempfile
    from pathlib import Path

    has_editor = bool(os.environ.get("VISUAL") or os.environ.get("EDITOR"))
    if not (has_editor or is_terminal(sys.stdin)):
        raise click.UsageError(f"Nothing to change: give {instead}, or set EDITOR.")
    number, name = tempfile.mkstemp(suffix, "memdb-edit-")
    file = Path(name)
    with os.fdopen(number, "w", encoding="utf-8", newline="") as made:
        made.write(text)
    try:
        click.edit(filename=name)
        changed = _typed(file, text)
        is_empty = changed is not None and not changed.strip() and not may_be_empty
        yield None if is_empty else changed
    except BaseException as error:
        if not file.exists() or file.read_bytes() == text.encode():
            file.unlink(missing_ok=True)
        elif isinstance(error, MemDBError):
            error.args = (f"{error}. What you typed is in {name}",)
        else:
            note(f"What you typed is in {name}")
        raise
    file.unlink(missing_ok=True)


def _typed(file: Path, text: str) -> str | None:
    """Return what an editor saved; None if that is *text*, or there is no file any more."""
    try:
        changed = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the editor saved another encoding than UTF-8 ({error.reason} at byte "
            f"{error.start + 1}): convert it"
        ) from error
    if os.linesep != "\n" and "\r\n" not in text:
        changed = changed.replace("\r\n", "\n")
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
