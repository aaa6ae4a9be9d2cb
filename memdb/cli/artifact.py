"""`memdb artifact`: named bytes in versions."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

import click

from memdb.cli.base import (
    Noun,
    confirm,
    confirm_options,
    example,
    file_argument,
    json_option,
    scope_options,
)
from memdb.cli.opening import opened_scope
from memdb.cli.output import (
    Column,
    note,
    on_terminal,
    one_line,
    print_json,
    print_table,
    size,
    when,
)
from memdb.errors import AlreadyExists, NotFound
from memdb.transfer.files import refuse_database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from memdb.api.scope import Scope
    from memdb.models.messages import ArtifactVersion

CHUNK_BYTES = 1 << 18

session_option = click.option(
    "--session", metavar="NAME", help="The conversation it belongs to; shared by all without it."
)
version_option = click.option("--version", type=click.IntRange(1), metavar="N")


@click.group(cls=Noun)
def artifact() -> None:
    """
    Save and load named bytes in versions.

    A name belongs to the --session given, and without one to all conversations
    of the user: it then begins with "user:".
    """


@artifact.command(
    epilog=example(
        "memdb artifact save agent.db menu.md ./menu.md --session trip --user ann",
        "date | memdb artifact save agent.db log.txt - --user ann",
    )
)
@file_argument
@click.argument("name")
@click.argument("path", type=click.Path(allow_dash=True), default="-")
@click.option("--mime", metavar="TYPE", help="Guessed from the name without it.")
@click.option(
    "--seq", type=click.IntRange(1), metavar="N", help="The message of --session that made it."
)
@session_option
@scope_options
@json_option
def save(
    file: str,
    name: str,
    path: str,
    mime: str | None,
    seq: int | None,
    session: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Save PATH as the next version of NAME.

    PATH "-", or none, is standard input. FILE is made where it is new.
    """
    if path == "-" and sys.stdin.isatty():
        raise click.UsageError("Nothing to save: give PATH, or pipe the bytes in.")
    with (
        _bytes_of(path) as data,
        opened_scope(file, user, app, create=True) as scope,
    ):
        saved = scope.artifacts.save(name, data, mime=mime, message_seq=seq, session=session)
    if as_json:
        print_json(saved.to_dict())
    else:
        click.echo(f"{_named(saved)} ({size(saved.size_bytes)}, {one_line(saved.mime)})")


@artifact.command(
    epilog=example("memdb artifact load agent.db menu.md --session trip --output menu.md")
)
@file_argument
@click.argument("name")
@version_option
@click.option("--output", "-o", type=click.Path(), metavar="PATH", help="A file to write.")
@click.option("--replace", is_flag=True, help="Write over what is at --output.")
@session_option
@scope_options
@json_option
def load(
    file: str,
    name: str,
    version: int | None,
    output: str | None,
    replace: bool,
    session: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Write the bytes of NAME to standard output, or to --output.

    The newest version without --version. With --json they go to --output only,
    and what is known of the version is printed.
    """
    to_stdout = output in (None, "-")
    if as_json and to_stdout:
        raise click.UsageError("--json prints on standard output: give --output PATH too.")
    with opened_scope(file, user, app) as scope:
        found = _version(scope, name, version, session)
        with scope.artifacts.open(name, found.version, session=session) as data:
            if to_stdout:
                _to_stdout(data)
            else:
                _to_file(scope, data, output or "", replace=replace)
    if as_json:
        print_json(found.to_dict())
    elif not to_stdout:
        note(f"{_named(found)} ({size(found.size_bytes)}) -> {click.format_filename(output or '')}")


@artifact.command("list", epilog=example("memdb artifact list agent.db --session trip"))
@file_argument
@click.option("--session", metavar="NAME", help="Only of this conversation, and the shared ones.")
@scope_options
@json_option
def list_(file: str, session: str | None, user: str | None, app: str | None, as_json: bool) -> None:
    """List the newest version of each artifact."""
    with opened_scope(file, user, app) as scope:
        found = scope.artifacts.list(session=session)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    columns = [Column("NAME", cut=True), Column("SESSION", cut=True), *_VERSION_COLUMNS]
    rows = [(one.name, one.session or "", *_version_cells(one)) for one in found]
    print_table(columns, rows, empty="No artifacts.")


@artifact.command(epilog=example("memdb artifact versions agent.db menu.md --session trip"))
@file_argument
@click.argument("name")
@session_option
@scope_options
@json_option
def versions(
    file: str,
    name: str,
    session: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """List the versions of NAME, newest first."""
    with opened_scope(file, user, app) as scope:
        found = _versions(scope, name, session)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    columns = [*_VERSION_COLUMNS, Column("SHA256")]
    print_table(columns, [(*_version_cells(one), one.sha256[:12]) for one in found])


@artifact.command(epilog=example("memdb artifact delete agent.db menu.md --session trip --dry-run"))
@file_argument
@click.argument("name")
@version_option
@session_option
@confirm_options
@scope_options
@json_option
def delete(
    file: str,
    name: str,
    version: int | None,
    session: str | None,
    yes: bool,
    dry_run: bool,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """Remove NAME with all its versions, or one --version of it."""
    with opened_scope(file, user, app) as scope:
        if version is None:
            doomed = _versions(scope, name, session)
        else:
            doomed = [_version(scope, name, version, session)]
        what = ", ".join(_named(one) for one in doomed)
        if not dry_run:
            confirm(f"Delete {what}?", yes=yes)
        deleted = not dry_run and scope.artifacts.delete(name, version, session=session)
    if as_json:
        versions_ = [one.to_dict() for one in doomed]
        print_json({"deleted": deleted, "dry_run": dry_run, "versions": versions_})
    else:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {what}.")


def _versions(scope: Scope, name: str, session: str | None) -> list[ArtifactVersion]:
    """Return the versions of *name*, newest first; NotFound without any."""
    found = scope.artifacts.versions(name, session=session)
    if found:
        return found
    elsewhere = [one.session for one in scope.artifacts.list() if one.name == name and one.session]
    if elsewhere and session is None:
        note(f"{one_line(name)} is in --session {' or '.join(map(one_line, elsewhere))}.")
    raise NotFound("artifact", name)


def _version(scope: Scope, name: str, version: int | None, session: str | None) -> ArtifactVersion:
    """Return one version of *name*, the newest for None; NotFound without it."""
    for one in _versions(scope, name, session):
        if version in (None, one.version):
            return one
    raise NotFound("artifact", f"{name}@{version}")


def _bytes_of(path: str) -> AbstractContextManager[BinaryIO]:
    """Open *path*, or standard input for "-", for a `with` block."""
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    return open(path, "rb")  # noqa: PTH123 (the caller closes it)


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


def _to_file(scope: Scope, data: BinaryIO, path: str, *, replace: bool) -> None:
    """Write *data* beside *path*, and give it the name when it is whole."""
    if os.path.exists(path) and not replace:  # noqa: PTH110
        raise AlreadyExists("file", click.format_filename(path))
    refuse_database(scope._services.db, path)
    partial = f"{path}.partial"
    try:
        with open(partial, "wb") as out:  # noqa: PTH123
            while chunk := data.read(CHUNK_BYTES):
                out.write(chunk)
        os.replace(partial, path)  # noqa: PTH105
    finally:
        if os.path.exists(partial):  # noqa: PTH110
            os.remove(partial)  # noqa: PTH107


_VERSION_COLUMNS = [
    Column("VERSION", right=True),
    Column("SIZE", right=True),
    Column("TYPE", cut=True),
    Column("SAVED"),
    Column("MADE BY", cut=True),
]


def _version_cells(one: ArtifactVersion) -> tuple[object, ...]:
    made_by = f"{one.message_session}#{one.message_seq}" if one.message_seq else ""
    return one.version, size(one.size_bytes), one.mime, when(one.created_ms), made_by


def _named(one: ArtifactVersion) -> str:
    return one_line(f"{one.name}@{one.version}" + (f" in {one.session}" if one.session else ""))


COMMANDS = {"artifact": artifact}
