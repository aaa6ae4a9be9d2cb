"""`memdb import` and `memdb export`: conversations from and to other files."""

from __future__ import annotations

import click

from memdb.cli.base import (
    STOPPED,
    Command,
    embedder_option,
    example,
    file_argument,
    json_option,
    scope_options,
    secrets_option,
)
from memdb.cli.opening import DEFAULT_APP, choose_scope, opened, refuse_user
from memdb.cli.output import Bar, Counter, note, print_json
from memdb.errors import Corrupt, InvalidInput, MemDBError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.api.database import MemDB


@click.command(
    "import",
    cls=Command,
    epilog=example(
        "memdb import agent.db chat.jsonl --user ann",
        "memdb import agent.db export.jsonl --json",
    ),
)
@file_argument
@click.argument("source", type=click.Path())
@click.option("--session", metavar="NAME", help="For messages that do not name theirs.")
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    help="memdb, jsonl, chatgpt, claude or locomo; found out without it.",
)
@click.option("--no-embed", is_flag=True, help="Leave the vectors to the first recall.")
@secrets_option
@embedder_option
@scope_options
@json_option
def import_(
    file: str,
    source: str,
    session: str | None,
    format_: str | None,
    no_embed: bool,
    secrets: str | None,
    embedder: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Add the conversations, entries and artifacts of SOURCE.

    What FILE has already is left as it is, so an import can be run again. FILE
    is made where it is new. A memdb export goes to the users that it names,
    unless there is --user, and brings its vectors; any other SOURCE needs --user
    and is embedded when it is stored. An entry of another SOURCE with a key or
    password in it is refused, unless --secrets says otherwise.
    """
    from memdb.transfer.importer import require_format

    # Before FILE is made.
    require_format(source, has_owner=user is not None, session=session, format=format_)
    begun = False
    try:
        with opened(file, create=True, secrets=secrets, embedder=embedder) as db:
            begun = True
            with Bar("Importing") as bar:
                report = db.import_file(
                    source,
                    user=user,
                    app=app or DEFAULT_APP,
                    session=session,
                    format=format_,
                    progress=bar.to,
                )
            # A memdb export brings its vectors; recall makes those that it lacks.
            embedded = 0 if no_embed or report.format == "memdb" else embed(db)
    except KeyboardInterrupt:
        note(f"\nStopped. {_kept(file)}")
        click.get_current_context().exit(STOPPED)
    except MemDBError as error:
        if begun and not isinstance(error, (InvalidInput, Corrupt)):
            note(_kept(file))
        raise
    if as_json:
        print_json({**report.to_dict(), "embedded": embedded})
    else:
        click.echo(report)


def _kept(file: str) -> str:
    """Say what an import that did not come to its end leaves behind."""
    return (
        f"{click.format_filename(file)} is sound and keeps what was imported so far. Run the "
        "same command again to go on: what is there is not added twice."
    )


def embed(db: MemDB) -> int:
    """Embed what is due, showing how many; return how many texts that were."""
    if not db.jobs.pending():
        return 0
    with Counter("Embedding", "texts") as counter:
        return db.jobs.run(progress=counter.add, kinds=("embed",))


@click.command(
    cls=Command,
    epilog=example(
        "memdb export agent.db ann.jsonl --user ann",
        "memdb export agent.db all.jsonl --all-users --replace",
    ),
)
@file_argument
@click.argument("target", type=click.Path(allow_dash=True), default="-")
@click.option("--all-users", is_flag=True, help="Everything of every user and app.")
@click.option("--no-embeddings", is_flag=True, help="Without vectors: import makes them anew.")
@click.option("--replace", is_flag=True, help="Write over what is at TARGET.")
@scope_options
@json_option
def export(
    file: str,
    target: str,
    all_users: bool,
    no_embeddings: bool,
    replace: bool,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Write everything of one user as JSON lines.

    TARGET "-", or none, is standard output. `memdb import` reads it again.
    """
    if all_users:
        refuse_user()
        user = None
    if as_json and target == "-":
        raise click.UsageError("The export itself is JSON lines: --json needs a TARGET.")
    with opened(file) as db:
        if not all_users:
            scope = choose_scope(db, user, app)
            user, app = scope.user, scope.app
        app = app or DEFAULT_APP
        if target == "-":
            for line in db.export_lines(user=user, app=app, embeddings=not no_embeddings):
                click.echo(line)
            return
        written = db.export(
            target, user=user, app=app, embeddings=not no_embeddings, replace=replace
        )
    if as_json:
        print_json({"path": target, "records": written})
    else:
        click.echo(f"Wrote {written:,} records to {click.format_filename(target)}.")


COMMANDS = {"import": import_, "export": export}
