"""`memdb artifact`: named bytes in versions."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from memdb.cli.base import confirm, confirm_options, verb
from memdb.cli.command import Noun
from memdb.cli.output import Column, is_terminal, note, on_terminal, one_line, size, when
from memdb.cli.records import (
    edited,
    option_session,
    page_options,
    pair,
    reply_diff,
    session_named,
    unchanged,
)
from memdb.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memdb.api.scope import Scope
    from memdb.cli.base import Call
    from memdb.models.messages import Artifact, ArtifactVersion
    from memdb.models.types import ArtifactOrder

CHUNK_BYTES = 1 << 18

session_option = click.option(
    "--session", metavar="NAME", help="The conversation it belongs to; shared by all without it."
)
version_option = click.option("--version", type=click.IntRange(1), metavar="N")


def _made_by(one: ArtifactVersion) -> str:
    return f"{one.message_session}#{one.message_seq}" if one.message_seq else ""


VERSION_COLUMNS = (
    Column("VERSION", lambda one: one.version, right=True),
    Column("SIZE", lambda one: size(one.size_bytes), right=True),
    Column("TYPE", lambda one: one.mime, cut=True),
    Column("SAVED", lambda one: when(one.created_ms)),
    Column("MADE BY", _made_by, cut=True),
)
LIST_COLUMNS = (
    Column("NAME", lambda one: one.name, cut=True),
    Column("SESSION", lambda one: one.session or "", cut=True),
    *VERSION_COLUMNS,
)


@click.group(cls=Noun)
def artifact() -> None:
    """
    Save and load named bytes in versions.

    A name belongs to the --session given, and without one to all conversations
    of the user: it then begins with "user:".
    """


@verb(
    "memdb artifact save agent.db menu.md ./menu.md --session trip --user ann",
    "date | memdb artifact save agent.db log.txt - --user ann",
    of=artifact,
)
@click.argument("name")
@click.argument("path", type=click.Path(allow_dash=True), default="-")
@click.option("--mime", metavar="TYPE", help="Guessed from the name without it.")
@click.option(
    "--seq", type=click.IntRange(1), metavar="N", help="The message of --session that made it."
)
@session_option
def save(
    call: Call, name: str, path: str, mime: str | None, seq: int | None, session: str | None
) -> None:
    """
    Save PATH as the next version of NAME.

    PATH "-", or none, is standard input. FILE is made if it is new.
    """
    if path == "-" and is_terminal(sys.stdin):
        raise click.UsageError("Nothing to save: give PATH, or pipe the bytes in.")
    with _bytes_of(path) as data, call.scope(create=True) as scope:
        session = None if session is None else session_named(scope, session, is_new=True)
        saved = scope.artifacts.save(name, data, mime=mime, message_seq=seq, session=session)
    call.reply(saved, f"{_named(saved)} ({size(saved.size_bytes)}, {one_line(saved.mime)})")


@verb("memdb artifact load agent.db menu.md --session trip --output menu.md", of=artifact)
@click.argument("name")
@version_option
@click.option("--output", "-o", type=click.Path(), metavar="PATH", help="A file to write.")
@click.option("--replace", is_flag=True, help="Write over what is at --output.")
@session_option
def load(
    call: Call,
    name: str,
    version: int | None,
    output: str | None,
    replace: bool,
    session: str | None,
) -> None:
    """
    Write the bytes of NAME to standard output, or to --output.

    The newest version without --version. With --json the bytes need --output,
    and the facts about the version are printed.
    """
    path = None if output == "-" else output
    if call.as_json and path is None:
        raise click.UsageError("--json prints on standard output: give --output PATH too.")
    with call.scope() as scope:
        session = option_session(scope, session)
        found = _version(scope, name, version, session)
        if path is not None:
            scope.artifacts.export(name, path, found.version, session=session, replace=replace)
        else:
            with scope.artifacts.open(name, found.version, session=session) as data:
                _to_stdout(data)
    if path is not None:
        shown = f"{_named(found)} ({size(found.size_bytes)}) -> {click.format_filename(path)}"
        call.reply(found, lambda: note(shown))


@verb("memdb artifact list agent.db --session trip", of=artifact, name="list")
@click.option("--session", metavar="NAME", help="Only of this conversation, and the shared ones.")
@click.option("--prefix", metavar="TEXT", default="", help="Only names that begin so.")
@page_options("name", "updated")
def list_(
    call: Call,
    session: str | None,
    prefix: str,
    limit: int | None,
    order: ArtifactOrder,
    after: dict[str, Any] | None,
) -> None:
    """List the newest version of each artifact."""
    with call.scope() as scope:
        session = option_session(scope, session)
        found = scope.artifacts.list(
            session=session, prefix=prefix, limit=limit, order=order, after=after
        )
    call.reply_records(found, LIST_COLUMNS, empty="No artifacts.")


@verb("memdb artifact versions agent.db menu.md --session trip", of=artifact)
@click.argument("name")
@session_option
def versions(call: Call, name: str, session: str | None) -> None:
    """List the versions of NAME, newest first."""
    with call.scope() as scope:
        session = option_session(scope, session)
        found = _versions(scope, name, session)
    call.reply_records(found, (*VERSION_COLUMNS, Column("SHA256", lambda one: one.sha256[:12])))


@verb(
    "memdb artifact diff agent.db menu.md --session trip",
    "memdb artifact diff agent.db menu.md 1 3 --session trip",
    of=artifact,
)
@click.argument("name")
@click.argument("old", type=click.IntRange(1), required=False)
@click.argument("new", type=click.IntRange(1), required=False)
@session_option
def diff(call: Call, name: str, old: int | None, new: int | None, session: str | None) -> None:
    """
    Show what changed in NAME between the versions OLD and NEW.

    NEW is the newest without it, OLD the one before.
    """
    with call.scope() as scope:
        session = option_session(scope, session)
        known = [one.version for one in reversed(_versions(scope, name, session))]
        chosen = pair((old, new), known, one_line(name))
        found = scope.artifacts.diff(name, chosen[1], chosen[0], session=session)
    reply_diff(call, {"name": name, "session": session}, found)


@verb("memdb artifact edit agent.db menu.md --session trip --user ann", of=artifact)
@click.argument("name")
@session_option
def edit(call: Call, name: str, session: str | None) -> None:
    """
    Change NAME in the editor of VISUAL or EDITOR, and save the next version.

    If another program saved one meanwhile, nothing is stored.
    """
    with call.scope() as scope:
        session = option_session(scope, session)
        newest = _version(scope, name, None, session)
        text = _text(scope.artifacts.load(name, newest.version, session=session))
    suffix = os.path.splitext(name)[1] or ".txt"
    instead = "it to `memdb artifact save`"
    with edited(text, suffix=suffix, instead=instead, may_be_empty=True) as changed:
        if changed is None:
            return unchanged(call, newest)
        with call.scope() as scope:
            saved = scope.artifacts.save(
                name, changed, mime=newest.mime, session=session, expected=newest.version
            )
    return call.reply(saved, f"{_named(saved)} ({size(saved.size_bytes)}, {one_line(saved.mime)})")


def _text(found: Artifact) -> str:
    """Return the text of a version; InvalidInput if it is none."""
    try:
        return found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        name = f"{found.info.name}@{found.info.version}"
        raise InvalidInput(
            f"{name} is no text: `memdb artifact load --output` writes it"
        ) from error


@verb("memdb artifact rename agent.db menu.md card.md --session trip --user ann", of=artifact)
@click.argument("name")
@click.argument("new_name")
@session_option
def rename(call: Call, name: str, new_name: str, session: str | None) -> None:
    """Give every version of NAME another name, which has no version yet."""
    with call.scope() as scope:
        session = option_session(scope, session)
        _versions(scope, name, session)
        renamed = scope.artifacts.rename(name, new_name, session=session)
    call.reply(renamed, f"{one_line(name)} -> {_named(renamed)}")


@verb("memdb artifact delete agent.db menu.md --session trip --dry-run", of=artifact)
@click.argument("name")
@version_option
@session_option
@confirm_options
def delete(
    call: Call, name: str, version: int | None, session: str | None, yes: bool, dry_run: bool
) -> None:
    """Remove NAME with all its versions, or one --version of it."""
    with call.scope() as scope:
        session = option_session(scope, session)
        if version is None:
            doomed = _versions(scope, name, session)
        else:
            doomed = [_version(scope, name, version, session)]
        what = ", ".join(map(_named, doomed))
        if not dry_run:
            confirm(f"Delete {what}?", yes=yes)
        deleted = not dry_run and scope.artifacts.delete(name, version, session=session)
    data = {"deleted": deleted, "dry_run": dry_run, "versions": doomed}
    call.reply(data, f"{'Would delete' if dry_run else 'Deleted'} {what}.")


def _versions(scope: Scope, name: str, session: str | None) -> list[ArtifactVersion]:
    """Return the versions of *name*, newest first; NotFound if there is none."""
    found = scope.artifacts.versions(name, session=session)
    if found:
        return found
    elsewhere = [one.session for one in scope.artifacts.list() if one.name == name and one.session]
    if elsewhere and session is None:
        note(f"{one_line(name)} is in --session {' or '.join(map(one_line, elsewhere))}.")
    raise NotFound("artifact", name)


def _version(scope: Scope, name: str, version: int | None, session: str | None) -> ArtifactVersion:
    """Return one version of *name*, the newest for None; NotFound if it is absent."""
    for one in _versions(scope, name, session):
        if version in (None, one.version):
            return one
    raise NotFound("artifact", f"{name}@{version}")


def _bytes_of(path: str) -> AbstractContextManager[BinaryIO]:
    """Open *path*, or standard input for "-", for a `with` block."""
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    return open(path, "rb")


def _to_stdout(data: BinaryIO) -> None:
    chunk = data.read(CHUNK_BYTES)
    if on_terminal() and b"\0" in chunk:
        raise click.UsageError("The bytes are no text: give --output PATH, or pipe them.")
    while chunk:
        rest = memoryview(chunk)
        while rest:  # with PYTHONUNBUFFERED=1 a write may take only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        chunk = data.read(CHUNK_BYTES)
    sys.stdout.buffer.flush()


def _named(one: ArtifactVersion) -> str:
    return one_line(f"{one.name}@{one.version}" + (f" in {one.session}" if one.session else ""))


COMMANDS = {"artifact": artifact}
