"""
`memdb chat`: messages, summaries, contexts and windows of a conversation.
"""

from __future__ import annotations

import click

from memdb.cli.base import (
    Command,
    Noun,
    confirm,
    confirm_options,
    example,
    file_argument,
    json_option,
    scope_options,
    secrets_option,
)
from memdb.cli.opening import opened_scope, session_of
from memdb.cli.output import (
    Column,
    counted,
    drawable,
    note,
    one_line,
    print_json,
    print_message,
    print_table,
    screen_width,
    when,
    whole_text,
)
from memdb.cli.summaries import archive, compact, expand, tree, unarchive
from memdb.cli.values import MOMENT, text_or_stdin
from memdb.models.messages import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.models.messages import ContextWindow, Piece


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


@click.command(cls=Command, epilog=example("memdb chat delete agent.db trip --dry-run"))
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


STRATEGIES = ("none", "buffer_window", "token_window", "summary_buffer")
PLAIN = "plain"
SHAPES = ("openai", "anthropic", "gemini", PLAIN)

BAR_CHARS = 10
# A table with shares, or with bars too, needs so many columns.
SHARES_FROM, BARS_FROM = 52, 72

shape_option = click.option(
    "--shape",
    type=click.Choice(SHAPES),
    help="Print the messages: as the JSON that this API takes, or as plain text.",
)


@click.command(
    cls=Command,
    epilog=example(
        'memdb chat context agent.db trip --budget 4000 --query "which hotel?"',
        "memdb chat context agent.db trip --budget 4000 --shape openai > request.json",
    ),
)
@file_argument
@click.argument("session")
@click.option(
    "--budget",
    type=click.IntRange(1),
    required=True,
    metavar="TOKENS",
    help="Most tokens of all messages together.",
)
@click.option(
    "--query", metavar="TEXT", help="What the model will be asked; without it nothing is looked up."
)
@shape_option
@scope_options
@json_option
def context(
    file: str,
    session: str,
    budget: int,
    query: str | None,
    shape: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Show what a model is given of a whole conversation, in any budget.

    Summaries stand for what is older, entries and older messages are added for
    --query, and the newest messages come word for word. The table says what each
    token is spent on, and why; --json has each message, --shape what to send.
    """
    _refuse_both(shape, as_json)
    with opened_scope(file, user, app) as scope:
        found = session_of(scope, session).context(budget, query)
    _print(found, shape, as_json=as_json)


@click.command(
    cls=Command,
    epilog=example(
        "memdb chat window agent.db trip --strategy token_window --budget 2000",
        "memdb chat window agent.db trip --last 20 --shape anthropic",
    ),
)
@file_argument
@click.argument("session")
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    help="How to choose; without it the newest messages within both limits.",
)
@click.option("--last", type=click.IntRange(0), metavar="N", help="Most messages.")
@click.option("--budget", type=click.IntRange(1), metavar="TOKENS", help="Most tokens.")
@click.option(
    "--keep-last",
    type=click.IntRange(1),
    metavar="N",
    help="token_window: messages that are kept over the budget too.",
)
@shape_option
@scope_options
@json_option
def window(
    file: str,
    session: str,
    strategy: str | None,
    last: int | None,
    budget: int | None,
    keep_last: int | None,
    shape: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Show the newest messages that a model is given by a simple rule.

    buffer_window: the newest --last (20). token_window: those within --budget
    (8,000), at least --keep-last (5). summary_buffer: within --budget (8,000),
    with summaries for what is older. none: all of them.
    """
    _refuse_both(shape, as_json)
    with opened_scope(file, user, app) as scope:
        found = session_of(scope, session).host.window(
            strategy, last=last, budget_tokens=budget, keep_last=keep_last
        )
    _print(found, shape, as_json=as_json)


def _refuse_both(shape: str | None, as_json: bool) -> None:
    if shape and as_json:
        raise click.UsageError("--json and --shape exclude each other: --shape openai is JSON too.")


def _print(found: ContextWindow, shape: str | None, *, as_json: bool) -> None:
    """Print *found* as it was asked for."""
    if as_json:
        print_json(found.to_dict())
    elif shape == PLAIN:
        for message in found.messages:
            print_message(message)
    elif shape is not None:
        print_json(found.to(shape))
    elif found.pieces:
        _print_budget(found)
    else:
        _print_messages(found)


def _print_budget(found: ContextWindow) -> None:
    """Print what the tokens are spent on: a line for each piece, and one for all."""
    whole = max(found.budget_tokens or 0, found.tokens, 1)
    wide = screen_width() or SHARES_FROM
    columns = [Column("KIND"), Column("SPAN", cut=True), Column("TOKENS", right=True)]
    columns += [Column("SHARE", right=True)] * (wide >= SHARES_FROM)
    columns += [Column("")] * (wide >= BARS_FROM)
    columns.append(Column("WHY", cut=True))

    def row(kind: str, span: str, tokens: int, why: str) -> list[object]:
        cells: list[object] = [kind, span, f"{tokens:,}"]
        if wide >= SHARES_FROM:
            cells.append(f"{tokens / whole:.1%}")
        if wide >= BARS_FROM:
            cells.append(_bar(tokens / whole))
        return [*cells, why]

    rows = [row(one.kind, _span(one), one.tokens, _why(one)) for one in _runs(found.pieces)]
    budget = "" if found.budget_tokens is None else f"of {found.budget_tokens:,}"
    rows.append(row("total", "", found.tokens, budget))
    print_table(columns, rows)
    note(f"{_total(found)}.")


def _print_messages(found: ContextWindow) -> None:
    """Print the messages of a window that is nothing but messages."""
    columns = [Column("SEQ", right=True), Column("BY", cut=True), Column("TOKENS", right=True)]
    columns.append(Column("TEXT", cut=True))
    rows = [
        (one.seq, one.author or one.role, f"{one.tokens:,}", whole_text(one))
        for one in found.messages
    ]
    print_table(columns, rows, empty="No messages.")
    budget = "" if found.budget_tokens is None else f" of {found.budget_tokens:,}"
    note(f"{_total(found)}: {found.tokens:,}{budget} tokens, 4 for the frame of each included.")


def _total(found: ContextWindow) -> str:
    """Say how many messages the tokens are spent on."""
    said = sum(message.seq > 0 for message in found.messages)
    made = len(found.messages) - said
    parts = [counted(said, "message")]
    if made:
        parts.append(f"{counted(made, 'block')} made from others")
    return ", ".join(parts)


def _bar(share: float) -> str:
    full, empty = ("█", "░") if drawable("█░") else ("#", ".")
    filled = min(round(share * BAR_CHARS), BAR_CHARS)
    return full * filled + empty * (BAR_CHARS - filled)


def _runs(pieces: Sequence[Piece]) -> list[Piece]:
    """Return *pieces* with messages that stand there for the same reason as one."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (piece.kind, last.kind) == ("message", "message")
            and piece.reason == last.reason
        ):
            joined[-1] = last.replace(last_seq=piece.last_seq, tokens=last.tokens + piece.tokens)
        else:
            joined.append(piece)
    return joined


def _span(piece: Piece) -> str:
    if piece.first_seq is None:
        return piece.ref or ""
    if piece.first_seq == piece.last_seq:
        return f"{piece.first_seq}"
    return f"{piece.first_seq}-{piece.last_seq}"


def _why(piece: Piece) -> str:
    score = "" if piece.score is None else f" ({piece.score:.2f})"
    return one_line(f"{piece.reason}{score}")


for _command in (context, window, tree, expand, compact, archive, unarchive, delete):
    chat.add_command(_command)
