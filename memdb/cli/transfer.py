"""`memdb import` and `memdb export`: conversations from and to other files."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from memdb.api.database import MemDB
from memdb.cli.base import DEFAULT_APP, refuse_user, size_of, verb
from memdb.cli.command import STOPPED
from memdb.cli.defaults import shown_path
from memdb.cli.options import embedder_option, replace_option
from memdb.cli.output import Column, Line, clean, note, one_line, print_json_line, print_table
from memdb.cli.records import session_named
from memdb.errors import Corrupt, InvalidInput, MemDBError
from memdb.models.record import counted
from memdb.text.validate import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memdb.cli.base import Call
    from memdb.models.messages import Message
    from memdb.models.reports import CopyReport, FolderChange, ImportReport, TableColumns
    from memdb.models.types import ExportFormat, SecretAction


@verb(
    "memdb import agent.db chat.jsonl --user ann",
    "memdb import agent.db export.jsonl --json",
    name="import",
    like=MemDB.import_file,
    without=("path", "user", "app", "columns"),
)
@click.argument("source", type=click.Path())
@click.option("--watch", is_flag=True, help="Keep importing changes of a folder of notes.")
@click.option("--table", metavar="NAME", help="The table with messages, in a SQLite file.")
@click.option("--text-column", metavar="NAME", help="Column of the table with the text.")
@click.option(
    "--role-column",
    metavar="NAME",
    help="Column with the role. Default: every message is the user's.",
)
@click.option(
    "--session-column",
    metavar="NAME",
    help="Column with the session. Default: all messages are in one session.",
)
@click.option(
    "--time-column", metavar="NAME", help="Column with the time; without a zone it is UTC."
)
@click.option(
    "--id-column",
    metavar="NAME",
    help="Column with a unique id, so that repeated imports add nothing twice.",
)
@click.option("--no-embed", is_flag=True, help="Make no vectors now; the first recall makes them.")
@embedder_option
def import_(
    call: Call,
    source: str,
    *,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (as the API calls it)
    secrets: SecretAction | None = None,
    dry_run: bool = False,
    all_or_nothing: bool = False,
    no_embed: bool = False,
    watch: bool = False,
    **columns: str,
) -> None:
    """
    Add the content of SOURCE: a file, a folder or a zip.

    Exports of ChatGPT and Claude are read as they were downloaded, and memories of mem0 as the JSON
    of its get_all(). docs/import.md names all formats. The report lists what was skipped, and why.
    The exit code is 5 if a record cannot be read or stored. Rows of FILE stay unchanged, so an
    import can be run again. FILE is created if it is new, once something of SOURCE can be stored. A
    memdb export, or a file of mem0, is stored for the users that it names, or for --user. Any other
    SOURCE is stored for --user, by default the login name. An export has its vectors; other texts
    are embedded when they are stored. An entry of another SOURCE with a key or password in it is
    refused, unless --secrets allows it. A SQLite file of another program is read by --table and
    --text-column; the logs.db of llm needs neither. With --watch SOURCE is a folder of Markdown or
    text: a note that changes becomes the next version of its artifact, until Ctrl-C.
    """
    from memdb.agents.places import user_name
    from memdb.cli.service import ending_by_signals
    from memdb.formats.importing import require_format

    chosen = _table_columns(columns)
    user: str | None = user_name() if call.user is None else call.user
    names_owner = require_format(  # before FILE is made
        source, has_owner=user is not None, session=session, format=format, columns=chosen
    )
    if call.user is None and names_owner:
        user = None
    if watch:
        if dry_run or all_or_nothing or chosen is not None or session is not None or user is None:
            raise click.UsageError("--watch needs a folder of notes, and stores them.")
        _watch(call, user, source, format, secrets, no_embed=no_embed)
        return

    def read(db: MemDB, progress: Callable[[int, int], object]) -> ImportReport:
        return db.import_file(
            source,
            user=user,
            app=call.app,
            session=session,
            format=format,
            secrets=secrets,
            columns=chosen,
            progress=progress,
            dry_run=dry_run,
            all_or_nothing=all_or_nothing,
        )

    begun, report = False, None
    try:
        with ending_by_signals():
            if not dry_run and size_of(call.file) in (None, 0) and not is_address(call.file):
                _rehearse(read)
            with _opened(call, dry_run=dry_run) as db:
                begun = True
                with Line("Importing") as bar:
                    report = read(db, bar.to)
                # A memdb export brings its vectors; recall makes those that it lacks.
                is_ready = no_embed or dry_run or report.format == "memdb"
                embedded = 0 if is_ready else _embed(db)
    except (KeyboardInterrupt, SystemExit) as end:
        added = report.added if report else "".join(getattr(end, "__notes__", ()))
        kept = f"Stored: {added or 'nothing new'}. {_kept(call)}" if begun else "Nothing is stored."
        note(f"\nStopped. {kept}")
        click.get_current_context().exit(_exit_code(end))
    except MemDBError as error:
        if begun and not isinstance(error, (InvalidInput, Corrupt)):
            note(_kept(call))
        raise
    call.reply({**report.to_dict(), "embedded": embedded}, clean(str(report)))
    if not report.is_complete:
        click.get_current_context().exit(InvalidInput.exit_code)


def _table_columns(options: dict[str, str]) -> TableColumns | None:
    """Return the table and columns that the options name, None without --table."""
    from memdb.models.reports import TableColumns

    given: dict[str, str | None] = dict.fromkeys(("table", "text", "role", "session", "time", "id"))
    given |= {name.removesuffix("_column"): value for name, value in options.items()}
    given["created"] = given.pop("time")
    if bool(given["table"]) != bool(given["text"]) or (any(given.values()) and not given["table"]):
        raise click.UsageError(
            "--table and --text-column must be given together, and the other column options only "
            "with them."
        )
    return TableColumns(**given) if given["table"] else None  # type: ignore[arg-type]  # click checked them


def _exit_code(end: BaseException) -> int:
    """Return the exit code of a command that Ctrl-C or SIGTERM ended."""
    return STOPPED if isinstance(end, KeyboardInterrupt) else 128 + signal.SIGTERM


class _Stored(Exception):
    """Something of a source could be stored."""


def _rehearse(read: Callable[[MemDB, Callable[[int, int], object]], object]) -> None:
    """
    Import into memory until something is stored: a source that fails makes no FILE.

    Cost: that of one chunk, 0.1 s at most.
    """
    import memdb

    with memdb.open(":memory:", embedder=None) as db:

        def end_early(_done: int, _total: int) -> None:
            if db.scopes():
                raise _Stored

        with suppress(_Stored):
            read(db, end_early)


def _watch(
    call: Call,
    user: str,
    source: str,
    format_: str | None,
    secrets: SecretAction | None,
    *,
    no_embed: bool,
) -> None:
    """Import notes and then what changes, until Ctrl-C or SIGTERM."""
    from memdb.cli.service import ending_by_signals
    from memdb.formats.importing import watch_folder

    with ending_by_signals(), call.open(create=True) as db:
        changes = watch_folder(db, source, user=user, app=call.app, format=format_, secrets=secrets)
        try:
            for change in changes:
                embedded = 0 if no_embed or change.report is None else _embed(db)
                _print_change(call, change, embedded)
        except KeyboardInterrupt:
            note("Stopped watching.")


def _print_change(call: Call, change: FolderChange, embedded: int) -> None:
    """Print the changes of a folder: with --json as a line."""
    if call.as_json:
        report = None if change.report is None else change.report.to_dict()
        error = None if change.error is None else str(change.error)
        told = {"report": report, "removed": change.removed, "error": error}
        print_json_line({**told, "embedded": embedded})
        return
    if change.report is not None:
        click.echo(clean(str(change.report)))
    if change.error is not None:
        note(f"Error: {one_line(str(change.error))}")
    for name in change.removed:
        click.echo(f"Removed: {one_line(name)}. Its versions stay; see `memdb artifact delete`.")


@contextmanager
def _opened(call: Call, *, dry_run: bool) -> Iterator[MemDB]:
    """Open FILE for a `with` block; for a dry run into a new one a file in memory."""
    import memdb

    if dry_run and not size_of(call.file):
        with memdb.open(":memory:", embedder=None) as db:
            yield db
    else:
        with call.open(create=not dry_run) as db:
            yield db


def _kept(call: Call) -> str:
    """Return what an import that did not end keeps."""
    return (
        f"{call.shown_file} is sound and keeps what was imported so far. Run the same command "
        "again to go on: what is there is not added twice."
    )


def _embed(db: MemDB) -> int:
    """Embed pending texts, show the progress, and return the number of texts."""
    if not db.jobs.pending():
        return 0
    with Line("Embedding") as counter:
        return db.jobs.run(progress=counter.add, kinds=("embed",))


# What TARGET ends in, and the format that it gets without --format.
ENDINGS: dict[str, ExportFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
}


@verb(
    "memdb export agent.db ann.jsonl --user ann",
    "memdb export agent.db ann.html --user ann",
    "memdb export agent.db all.jsonl --all-users --replace",
)
@click.argument("target", type=click.Path(allow_dash=True), default="-")
@click.option("--all-users", is_flag=True, help="Export every user and app.")
@click.option(
    "--no-embeddings", is_flag=True, help="Leave vectors out; the import makes them again."
)
@replace_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(("jsonl", "markdown", "html", "csv", "sqlite")),
    help=(
        "Format to write. Default: chosen by the ending of TARGET (.md, .html, .csv), else jsonl."
    ),
)
def export(
    call: Call,
    target: str,
    all_users: bool,
    no_embeddings: bool,
    replace: bool,
    format_: ExportFormat | None,
) -> None:
    """
    Write everything of one user as JSON lines, Markdown, one HTML page or CSV.

    Without TARGET, or with "-", standard output is written. `memdb import` makes the same memory
    from JSON lines, and reads messages and entries of CSV. --format sqlite writes the tables
    sessions, messages, entries, summaries, artifacts and state for other programs.
    """
    if format_ == "sqlite" and target == "-":
        raise click.UsageError("--format sqlite needs a TARGET.")
    if all_users:
        refuse_user()
    if call.as_json and target == "-":
        raise click.UsageError("The export itself is the output: with --json, give a TARGET.")
    chosen = format_ or ENDINGS.get(os.path.splitext(target)[1].lower()) or "jsonl"
    with call.open() as db, Line("Exporting") as counter:
        scope = None if all_users else call.choose(db)
        user, app = (scope.user, scope.app) if scope else (None, call.app or DEFAULT_APP)
        if target == "-" and chosen == "jsonl":
            for line in db.export_lines(user=user, app=app, embeddings=not no_embeddings):
                click.echo(line)
            return
        if target == "-":
            _echo_document(db, user, app, chosen)
            return
        written = db.export(
            target,
            user=user,
            app=app,
            embeddings=not no_embeddings,
            replace=replace,
            format=chosen,
            progress=counter.to,
        )
    shown = click.format_filename(target)
    call.reply(
        {"path": target, "records": written}, f"Wrote {counted(written, 'record')} to {shown}."
    )


def _echo_document(db: MemDB, user: str | None, app: str, chosen: ExportFormat) -> None:
    """Print an export for people, once it is whole."""
    import shutil
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "export")
        db.export(path, user=user, app=app, format=chosen)
        with open(path, "rb") as file:
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer)


@verb("memdb copy agent.db new.db", "memdb copy agent.db new.db --dry-run", file=False, scope=False)
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Count what would be copied, and store nothing.")
def copy(call: Call, source: str, target: str, dry_run: bool) -> None:
    """
    Copy all of SOURCE into TARGET, and prove that it is equal.

    Ids, numbers, versions, history and vectors stay unchanged; nothing is embedded again. The copy
    appears in TARGET at once, after all of it was read back. After Ctrl-C, SIGTERM or a crash, run
    the same command again. TARGET must be new or empty. To copy one user's memory, use `memdb
    export` and `memdb import`.
    """
    from memdb.cli.service import ending_by_signals

    call.use_file(source)
    is_over = False
    try:
        with ending_by_signals(), call.open(read_only=True) as db, Line("Copying") as bar:

            def show(done: int, total: int) -> None:
                nonlocal is_over
                is_over = done == total
                bar.to(done, total)

            report = db.file.copy(target, dry_run=dry_run, progress=show)
    except (KeyboardInterrupt, SystemExit) as end:
        note(f"\nStopped. {'All' if is_over else 'Nothing'} is in {shown_path(target)}.")
        click.get_current_context().exit(_exit_code(end))
    call.reply(report, lambda: _print_copy(report))


def _print_copy(report: CopyReport) -> None:
    """Print how many rows of each table there are, and what happened to them."""
    rows = [(name, f"{count:,}") for name, count in report.rows.items() if count]
    print_table([Column("TABLE"), Column("ROWS")], rows)
    what = counted(sum(report.rows.values()), "row")
    shown = click.format_filename(report.target)
    if report.dry_run:
        note(f"Would copy {what} to {shown}.")
    else:
        note(f"Copied {what} to {shown}, and read them again there: equal.")


def append_from(call: Call, session: str, text: str, secrets: SecretAction | None = None) -> None:
    """Add the messages of a provider in the JSON *text*."""
    import json

    try:
        given = json.loads(text)
    except ValueError:
        try:
            given = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise click.UsageError(f"TEXT is not JSON ({error}).") from error
    with call.scope(create=True) as scope:
        name = session_named(scope, session, is_new=True)
        stored = scope.session(name).extend([given], secrets=secrets)
    call.reply(stored, lambda: _print_stored(stored))


def _print_stored(stored: Sequence[Message]) -> None:
    """Print where messages are, and what was not understood of them."""
    for message in stored:
        place = one_line(f"{message.session}#{message.seq}")
        click.echo(f"{place} ({message.role}, {counted(message.tokens, 'token')})")
        for warning in message.warnings:
            note(f"{place}: {one_line(warning)}")


COMMANDS = {"import": import_, "export": export, "copy": copy}
