"""
What the commands of records share: options, names that people use, and an editor.

A person names a session by its title, its beginning or "last", and an entry by its number, which
is that of its scope; JSON keeps the file's own id.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import branch_given
from memdb.cli.output import LAST, clean, is_terminal, note, one_line, say
from memdb.errors import InvalidInput, MemDBError, NotFound
from memdb.models.ids import BranchName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from memdb.api.scope import Scope
    from memdb.api.session import Session
    from memdb.cli.base import Call
    from memdb.models.entries import Entry
    from memdb.models.messages import SessionInfo
    from memdb.models.reports import TextDiff


count_use_option = click.option(
    "--no-count-use",
    "count_use",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Change nothing in the file: no entry counts as used.",
)


expected_option = click.option(
    "--expected",
    type=click.IntRange(0),
    metavar="N",
    help="Only if it is at this version; 0: if it is new.",
)


def page_options(*orders: str) -> Callable[[Any], Any]:
    """Return --limit, --order and --after of a list; the first of *orders* is the default."""
    options = (
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Most of them."),
        click.option(
            "--order",
            type=click.Choice(orders),
            default=orders[0],
            show_default=True,
            help="By time the newest comes first.",
        ),
        click.option(
            "--after",
            metavar="ROW",
            callback=_read_row,
            help="Behind this one: the last row of the page before, as --json prints it.",
        ),
    )

    def add(function: Any) -> Any:
        for option in options:
            function = option(function)
        return function

    return add


def _read_row(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    import json  # 9 ms that other commands do without

    try:
        row = None if value is None else json.loads(value)
    except ValueError:
        row = value
    if row is not None and not isinstance(row, dict):
        raise click.BadParameter("give the last row of the page before, a JSON object.")
    return row


MOST_NAMED = 10
UUID_CHARS = frozenset("0123456789abcdef-")


def entry_of(scope: Scope, ref: str) -> Entry:
    """
    Return the entry with a number, an id or a key; NotFound without one.

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

    It is the session called so, else with "last" the one that changed last, else the only one
    whose title is so or begins so, or whose name does. What was chosen is printed beside the
    answer.

    Args:
        is_new: It may be one that is made: only "last" stands for another then.
        whole: No beginning will do: what is done cannot be undone, and nobody is asked.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several, or *whole* forbids the beginning that was given.
    """
    begun = scope.sessions(given, limit=MOST_NAMED + 1)
    if not given or any(one.name == given for one in begun):
        return given
    if given == LAST:
        newest = scope.sessions(limit=1, order="updated")
        if newest:
            return _chosen(newest[0])
        raise NotFound("session", given)
    if is_new:
        return given
    wanted = given.casefold()
    titled = [one for one in scope.sessions() if (one.title or "").casefold().startswith(wanted)]
    equal = [one for one in titled if (one.title or "").casefold() == wanted]
    meant = equal or titled + [one for one in begun if one not in titled and _begins(one, given)]
    if not meant:
        raise NotFound("session", given)
    if len(meant) > 1:
        names = ", ".join(one_line(_shown(one)) for one in meant[:MOST_NAMED])
        more = " and more" if len(meant) > MOST_NAMED else ""
        raise InvalidInput(f"{given!r} can be {names}{more}: write more of its name")
    if whole and not equal:
        raise InvalidInput(
            f"{given!r} is only the beginning of {_shown(meant[0])}: with --yes give all of it"
        )
    return _chosen(meant[0])


def _begins(one: SessionInfo, given: str) -> bool:
    """Return whether a beginning is one: "user-1" is none of "user-10", but of a UUID it is."""
    is_cut_number = given[-1].isdecimal() and one.name[len(given)].isdecimal()
    return not is_cut_number or UUID_CHARS.issuperset(one.name.lower())


def _shown(one: SessionInfo) -> str:
    return f"{one.name} ({one.title})" if one.title else one.name


def _chosen(one: SessionInfo) -> str:
    note(one_line(f"Session {_shown(one)}."))
    return one.name


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


def session_of(scope: Scope, name: str, *, whole: bool = False) -> Session:
    """
    Return a session, or --branch of it, by what `session_named` takes.

    Raises:
        NotFound: it is absent.
        InvalidInput: it is not clear which is meant.
    """
    session = scope.session(session_named(scope, name, whole=whole))
    branch = branch_given()
    return session if branch is None else session.branch(branch, create=False)


def option_session(scope: Scope, name: str | None, *, whole: bool = False) -> str | None:
    """
    Return the session of --session, with --branch; None without both.

    One that is absent is returned as it was given: what it holds is nothing.
    """
    branch = branch_given()
    if name is None:
        if branch is not None:
            raise click.UsageError("--branch needs --session: say which conversation it is of.")
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
