"""
Names that people use, and an editor, for the commands of records.

A person names a session by its title, its beginning or "last", and an entry by its number, which
is that of its scope; JSON keeps the file's own id.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.options import branch_given
from memdb.cli.output import clean, is_terminal, note, one_line, say
from memdb.errors import InvalidInput, MemDBError, NotFound
from memdb.models.ids import BranchName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memdb.api.collections import Artifacts
    from memdb.api.scope import Scope
    from memdb.api.session import Session
    from memdb.cli.base import Call
    from memdb.models.entries import Entry
    from memdb.models.reports import TextDiff


MOST_NAMED = 10
LAST = "last"  # names the session that changed last


def entry_of(scope: Scope, ref: str) -> Entry:
    """
    Return the entry with a number, an id or a key; NotFound if there is none.

    A key of digits is found if no entry has that number.
    """
    if ref.isascii() and ref.isdecimal():
        try:
            return scope.entries.get(int(ref))
        except NotFound:
            found = scope.entries.find(ref)
            if found is None:
                raise NotFound("entry", int(ref)) from None  # the same error
            return found
    found = scope.entries.find(ref)
    if found is None:
        raise NotFound("entry", ref)
    return found


def session_named(scope: Scope, given: str, *, is_new: bool = False, whole: bool = False) -> str:
    """
    Return the name of the session that a person means.

    The session is the session called so, else with "last" the one that changed last. Else it is
    the only one whose title is so, or whose name or title begins so. What was chosen is printed
    beside the answer.

    Args:
        is_new: *name* may be a new one: then only "last" means another.
        whole: No beginning will do: what is done cannot be undone, and nobody is asked.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    if not given or any(one.name == given for one in scope.sessions(given, limit=1)):
        return given
    if is_new and given != LAST:
        return given
    known = scope.sessions(order="updated", limit=1 if given == LAST else None)
    wanted = given.casefold()
    equal = [one for one in known if given == LAST or (one.title or "").casefold() == wanted]
    begun = [
        one
        for one in known
        if one.name.startswith(given) or (one.title or "").casefold().startswith(wanted)
    ]
    meant = equal or ([] if whole else begun)
    if not meant:
        raise NotFound("session", given)
    names = [f"{one.name} ({one.title})" if one.title else one.name for one in meant]
    if len(meant) > 1:
        shown = ", ".join(map(one_line, names[:MOST_NAMED]))
        raise InvalidInput(f"{given!r} can mean {shown}: write more of the name")
    note(one_line(f"Session {names[0]}."))
    return meant[0].name


COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@contextmanager
def edited(
    text: str, *, suffix: str = ".txt", instead: str, may_be_empty: bool = False
) -> Iterator[str | None]:
    """
    Return *text* as edited in the editor of VISUAL or EDITOR; None for no change.

    What was typed is in a file, which is removed at the end of the `with` block. If an
    error leaves the block, the file stays and the error names it.

    Args:
        suffix: Suffix of the file that the editor sees, by which it knows the language.
        instead: What to give where there is no editor and no terminal, for the error.
        may_be_empty: An empty text is stored; else it is not a change.

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
            f"the editor saved the file in another encoding than UTF-8 ({error.reason} at byte "
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


def print_diff(found: TextDiff) -> None:
    """Print the lines that differ, as `diff -u` writes them."""
    for line in found.lines():
        is_head = line.startswith(("+++", "---"))
        colour = None if is_head else COLOURS.get(line[:1])
        say(clean(line), **({"bold": True} if is_head else {"fg": colour} if colour else {}))
    if not found.hunks:
        note("They are equal.")
    if not found.is_exact:
        note("The texts repeat too much: lines that are in both may stand as removed and added.")


def session_of(scope: Scope, name: str, *, whole: bool = False) -> Session:
    """
    Return a session, or --branch of it, by what `session_named` takes.

    Raises:
        NotFound: the session is absent.
        InvalidInput: the name is not clear which is meant.
    """
    session = scope.session(session_named(scope, name, whole=whole))
    branch = branch_given()
    return session if branch is None else session.branch(branch, create=False)


def artifacts_of(scope: Scope, session: str | None) -> Artifacts:
    """Return the artifacts of a session; for None those that all sessions share."""
    return scope.artifacts if session is None else scope.session(session).artifacts


def option_session(scope: Scope, name: str | None, *, whole: bool = False) -> str | None:
    """
    Return the session of --session, with --branch; None without both.

    One that is absent is returned as it was given: what it contains is nothing.
    """
    branch = branch_given()
    if name is None:
        if branch is not None:
            raise click.UsageError("--branch needs --session: name the conversation of the branch.")
        return None
    try:
        session = session_named(scope, name, whole=whole)
    except NotFound:
        session = name
    return session if branch is None else BranchName(session, branch)


@contextmanager
def open_session(call: Call, name: str) -> Iterator[Session]:
    """Open FILE for a `with` block, and return a session; NotFound if it is absent."""
    with call.scope() as scope:
        yield session_of(scope, name)
