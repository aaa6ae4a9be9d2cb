"""`memdb chat`: the messages of conversations, and what is made of them."""

from __future__ import annotations

import click

from memdb.cli.base import (
    Noun,
    confirm,
    confirm_options,
    example,
    file_argument,
    json_option,
    scope_options,
    secrets_option,
)
from memdb.cli.contexts import context, window
from memdb.cli.opening import opened_scope, session_of
from memdb.cli.output import (
    Column,
    counted,
    note,
    one_line,
    print_json,
    print_message,
    print_table,
    when,
)
from memdb.cli.summaries import archive, compact, expand, tree, unarchive
from memdb.cli.values import MOMENT, text_or_stdin
from memdb.models.messages import ROLES


@click.group(cls=Noun)
def chat() -> None:
    """Add, show, search, condense and delete the messages of conversations."""


@chat.command(
    epilog=example(
        'memdb chat append agent.db trip "We fly to Oslo on 3 May." --user ann',
        "memdb chat append agent.db trip - --role assistant < answer.txt",
    )
)
@file_argument
@click.argument("session")
@click.argument("text")
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True)
@click.option("--author", metavar="NAME", help="Who said it, if the role does not tell.")
@click.option(
    "--external-id", metavar="ID", help="Your id for it: adding it again changes nothing."
)
@click.option("--at", "created_ms", type=MOMENT, help="When it was said; now without it.")
@secrets_option
@scope_options
@json_option
def append(
    file: str,
    session: str,
    text: str,
    role: str,
    author: str | None,
    external_id: str | None,
    created_ms: int | None,
    secrets: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Add a message to a conversation.

    FILE and SESSION are made where they are new. TEXT "-" is read from standard
    input.
    """
    said = text_or_stdin(text)
    with opened_scope(file, user, app, create=True) as scope:
        stored = scope.session(session).append(
            role,
            said,
            author=author,
            external_id=external_id,
            created_ms=created_ms,
            secrets=secrets,
        )
    if as_json:
        print_json(stored.to_dict())
    else:
        where = one_line(f"{stored.session}#{stored.seq}")
        click.echo(f"{where} ({counted(stored.tokens, 'token')})")


@chat.command(epilog=example("memdb chat show agent.db trip --last 20"))
@file_argument
@click.argument("session")
@click.option("--last", type=click.IntRange(0), metavar="N", help="The newest N messages.")
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="The newest messages that a model can be given in TOKENS.",
)
@scope_options
@json_option
def show(
    file: str,
    session: str,
    last: int | None,
    budget: int | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """Print the messages of a conversation, oldest first."""
    with opened_scope(file, user, app) as scope:
        window = session_of(scope, session).host.window(last=last, budget_tokens=budget)
    if as_json:
        print_json([message.to_dict() for message in window.messages])
        return
    for message in window.messages:
        print_message(message)
    if budget is not None:
        count = counted(len(window.messages), "message")
        note(f"{count}, {window.tokens:,} of {budget:,} tokens")


@chat.command("list", epilog=example("memdb chat list agent.db --user ann"))
@file_argument
@scope_options
@json_option
def list_(file: str, user: str | None, app: str | None, as_json: bool) -> None:
    """List the conversations of a user."""
    with opened_scope(file, user, app) as scope:
        sessions = scope.sessions()
    if as_json:
        print_json([session.to_dict() for session in sessions])
        return
    columns = [
        Column("SESSION", cut=True),
        Column("MESSAGES", right=True),
        Column("CREATED"),
        Column("CHANGED"),
        Column("TITLE", cut=True),
    ]
    rows = [
        (
            session.name,
            session.message_count,
            when(session.created_ms),
            when(session.updated_ms),
            session.title or "",
        )
        for session in sessions
    ]
    print_table(columns, rows, empty="No conversations.")


@chat.command(epilog=example('memdb chat search agent.db trip "oslo hotel" --limit 5'))
@file_argument
@click.argument("session")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True)
@scope_options
@json_option
def search(
    file: str,
    session: str,
    query: str,
    limit: int,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Find the messages of a conversation that share words with QUERY.

    `memdb recall` searches everything of a user, by meaning too.
    """
    with opened_scope(file, user, app) as scope:
        hits = session_of(scope, session).recall(query, limit, kinds=("message",), by="words")
    if as_json:
        print_json([hit.to_dict() for hit in hits])
        return
    columns = [Column("SEQ", right=True), Column("SAID"), Column("BY", cut=True)]
    columns.append(Column("TEXT", cut=True))
    print_table(
        columns,
        [
            (hit.source.seq, when(hit.source.created_ms), hit.source.author or "", hit.text)
            for hit in hits
        ],
        empty="Nothing found.",
    )


for _command in (context, window, tree, expand, compact, archive, unarchive):
    chat.add_command(_command)


@chat.command(epilog=example("memdb chat delete agent.db trip --dry-run"))
@file_argument
@click.argument("session")
@confirm_options
@scope_options
@json_option
def delete(
    file: str,
    session: str,
    yes: bool,
    dry_run: bool,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Remove a conversation with its messages and artifacts.

    Entries that were told in it stay, and artifacts that are shared by all.
    """
    with opened_scope(file, user, app) as scope:
        found = session_of(scope, session)
        (known,) = [one for one in scope.sessions() if one.name == session]
        artifacts = sum(one.session == session for one in scope.artifacts.list())
        parts = [counted(known.message_count, "message"), counted(artifacts, "artifact")]
        what = f"{one_line(session)}, {', '.join(parts)}"
        if not dry_run:
            confirm(f"Delete {what}?", yes=yes)
        deleted = not dry_run and found.delete()
    if as_json:
        print_json(
            {
                "deleted": deleted,
                "dry_run": dry_run,
                "session": known.to_dict(),
                "artifacts": artifacts,
            }
        )
    else:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {what}.")


COMMANDS = {"chat": chat}
