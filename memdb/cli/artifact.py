"""`memdb artifact`: named bytes in versions."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from memdb.api.collections import Artifacts
from memdb.cli.base import verb
from memdb.cli.command import Noun
from memdb.cli.made import plain, remove
from memdb.cli.options import confirm_options, session_option
from memdb.cli.output import columns_of, is_terminal, note, on_terminal, one_line, size
from memdb.cli.records import (
    artifacts_of,
    edited,
    option_session,
    print_diff,
    session_named,
    unchanged,
)
from memdb.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memdb.api.scope import Scope
    from memdb.cli.base import Call
    from memdb.models.messages import Artifact, ArtifactVersion

CHUNK_BYTES = 1 << 18


@click.group(cls=Noun)
def artifact() -> None:
    """
    Save and load named bytes in versions.

    An artifact belongs to the conversation of --session. Without --session all conversations of the
    user share it, and its name begins with "user:".
    """


@verb(
    "memdb artifact save agent.db menu.md ./menu.md --session trip --user ann",
    "date | memdb artifact save agent.db log.txt - --user ann",
    of=artifact,
    like=Artifacts.save,
    without=("data", "name"),
    names={"message_seq": "seq"},
)
@click.argument("name")
@click.argument("path", type=click.Path(allow_dash=True), default="-")
@session_option
def save(call: Call, name: str, path: str, session: str | None = None, **fields: Any) -> None:
    """
    Save PATH as the next version of NAME.

    Without PATH, or with "-", standard input is read. FILE is created if it is new.
    """
    if path == "-" and is_terminal(sys.stdin):
        raise click.UsageError("Nothing to save: give PATH, or pipe the bytes into the command.")
    with _bytes_of(path) as data, call.scope(create=True) as scope:
        session = None if session is None else session_named(scope, session, is_new=True)
        saved = artifacts_of(scope, session).save(name, data, **fields)
    call.reply(saved, _saved(saved))


@verb(
    "memdb artifact load agent.db menu.md --session trip --output menu.md",
    of=artifact,
    like=Artifacts.load,
)
@click.option(
    "--output", "-o", type=click.Path(), metavar="PATH", help="Write the bytes to this file."
)
@click.option("--replace", is_flag=True, default=None, help="Overwrite the file at --output.")
@session_option
def load(
    call: Call,
    name: str,
    version: int | None = None,
    session: str | None = None,
    output: str | None = None,
    replace: bool = False,
) -> None:
    """Write the newest version of NAME to --output, or to standard output."""
    if output is None and call.as_json:
        raise click.UsageError(
            "The bytes themselves are the output: with --json, give --output PATH."
        )
    with call.scope() as scope:
        session = option_session(scope, session)
        found = _version(scope, name, version, session)
        files = artifacts_of(scope, session)
        if output is not None:
            files.export(name, output, found.version, replace=replace)
        else:
            with files.open(name, found.version) as data:
                _to_stdout(data)
    if output is not None:
        shown = f"{_named(found)} ({size(found.size_bytes)}) -> {click.format_filename(output)}"
        call.reply(found, lambda: note(shown))


VERSION = "version size_bytes mime=TYPE created_ms=SAVED message_seq=MADE_BY"
plain(
    Artifacts.list,
    "memdb artifact list agent.db --session trip",
    of=artifact,
    shows=columns_of(f"name session {VERSION}"),
    empty="No artifacts.",
    help="List the newest version of each artifact.",
)


@verb(
    "memdb artifact versions agent.db menu.md --session trip", of=artifact, like=Artifacts.versions
)
@session_option
def versions(call: Call, name: str, session: str | None = None) -> None:
    """List the versions of NAME, newest first."""
    with call.scope() as scope:
        found = _versions(scope, name, option_session(scope, session))
    call.reply_records(found, columns_of(f"{VERSION} sha256"))


plain(
    Artifacts.diff,
    "memdb artifact diff agent.db menu.md --session trip",
    "memdb artifact diff agent.db menu.md --version 3 --against 1 --session trip",
    of=artifact,
    shows=print_diff,
)


@verb("memdb artifact edit agent.db menu.md --session trip --user ann", of=artifact)
@click.argument("name")
@session_option
def edit(call: Call, name: str, session: str | None) -> None:
    """
    Change NAME in the editor of VISUAL or EDITOR, and save the next version.

    If another program saved a version meanwhile, nothing is stored.
    """
    with call.scope() as scope:
        session = option_session(scope, session)
        newest = _version(scope, name, None, session)
        text = _text(artifacts_of(scope, session).load(name, newest.version))
    suffix = os.path.splitext(name)[1] or ".txt"
    instead = "it to `memdb artifact save`"
    with edited(text, suffix=suffix, instead=instead, may_be_empty=True) as changed:
        if changed is None:
            return unchanged(call, newest)
        with call.scope() as scope:
            saved = artifacts_of(scope, session).save(
                name, changed, mime=newest.mime, expected=newest.version
            )
    return call.reply(saved, _saved(saved))


def _text(found: Artifact) -> str:
    """Return the text of a version; InvalidInput if it is none."""
    try:
        return found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        name = f"{found.info.name}@{found.info.version}"
        raise InvalidInput(
            f"{name} is not text: `memdb artifact load --output` writes it to a file"
        ) from error


plain(
    Artifacts.rename,
    "memdb artifact rename agent.db menu.md card.md --session trip --user ann",
    of=artifact,
    shows=lambda found: f"is called {_named(found)}",
)


@verb(
    "memdb artifact delete agent.db menu.md --session trip --dry-run",
    of=artifact,
    like=Artifacts.delete,
)
@confirm_options
@session_option
def delete(
    call: Call,
    name: str,
    version: int | None = None,
    session: str | None = None,
    expected: int | None = None,
    **asked: bool,
) -> None:
    """Remove NAME with all its versions, or one --version of it."""
    with call.scope() as scope:
        session = option_session(scope, session)
        doomed = _versions(scope, name, session)
        if version is not None:
            doomed = [_version(scope, name, version, session)]

        def go() -> bool:
            return artifacts_of(scope, session).delete(name, version, expected=expected)

        remove(call, ", ".join(map(_named, doomed)), go, **asked, versions=doomed)


def _versions(scope: Scope, name: str, session: str | None) -> list[ArtifactVersion]:
    """Return the versions of *name*, newest first; NotFound if there is none."""
    found = artifacts_of(scope, session).versions(name)
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
        raise click.UsageError("The bytes are not text: give --output PATH, or pipe the output.")
    while chunk:
        rest = memoryview(chunk)
        while rest:  # with PYTHONUNBUFFERED=1 a write may take only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        chunk = data.read(CHUNK_BYTES)
    sys.stdout.buffer.flush()


def _named(one: ArtifactVersion) -> str:
    return one_line(f"{one.name}@{one.version}" + (f" in {one.session}" if one.session else ""))


def _saved(one: ArtifactVersion) -> str:
    return f"{_named(one)} ({size(one.size_bytes)}, {one_line(one.mime)})"


COMMANDS = {"artifact": artifact}
