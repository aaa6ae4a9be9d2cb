"""`memdb chat`: messages, contexts and summaries of a conversation."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from memdb.api.collections import Summaries
from memdb.api.scope import Scope
from memdb.api.session import Session
from memdb.cli.base import verb
from memdb.cli.command import Noun
from memdb.cli.made import plain, remove
from memdb.cli.options import (
    all_counted,
    branch_given,
    confirm_options,
    model_option,
    session_argument,
)
from memdb.cli.output import (
    Column,
    Line,
    clean,
    columns_of,
    note,
    one_line,
    print_json,
    print_message,
    print_records,
    say,
    size,
    span_of,
)
from memdb.cli.records import (
    edited,
    open_session,
    option_session,
    session_named,
    session_of,
    unchanged,
)
from memdb.errors import Conflict
from memdb.models.messages import ROLES
from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.cli.base import Call
    from memdb.models.messages import ContextWindow, Message, Piece
    from memdb.models.summaries import Archived, Expansion
    from memdb.models.types import MessageFormat, Role
    from memdb.summaries.tree import SummaryTree

SUMMARY_COLUMNS = (
    Column("SPAN", lambda one: f"{'  ' * one.depth}{span_of(one)}"),
    *columns_of("id quality=BY tokens text"),
)
PLAIN = "plain"  # the shape that is no API's: messages as text
SHAPES = ("openai", "openai-responses", "anthropic", "gemini", "langchain", PLAIN)


@click.group(cls=Noun)
def chat() -> None:
    """Add, show, condense and delete the messages of conversations."""


@verb(
    'memdb chat append agent.db trip "We fly to Oslo on 3 May." --user ann',
    "memdb chat append agent.db trip - --role assistant < answer.txt",
    of=chat,
    like=Session.append,
    without=("role", "text", "parts"),
)
@session_argument
@click.argument("text")
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True)
@click.option(
    "--message", is_flag=True, help="Read TEXT as JSON: messages in the format of a provider."
)
def append(
    call: Call, session: str, text: str, role: Role, *, message: bool, **fields: Any
) -> None:
    """
    Add a message to a conversation.

    FILE and SESSION are created if they are new. TEXT "-" is read from standard input.
    """
    if message:
        from memdb.cli.transfer import append_from

        append_from(call, session, text, fields.get("secrets"))
        return
    with call.scope(create=True) as scope:
        branch = branch_given()
        found = scope.session(session_named(scope, session, is_new=True))
        found = found if branch is None else found.branch(branch, create=False)
        stored = found.append(role, text, **fields)
    call.reply(stored, _stored(stored))


def _stored(one: Message) -> str:
    return f"{one_line(f'{one.session}#{one.seq}')} ({counted(one.tokens, 'token')})"


@verb("memdb chat show agent.db trip --last 20", of=chat)
@session_argument
@click.option(
    "--last", type=click.IntRange(0), metavar="N", help="Print only the newest N messages."
)
def show(call: Call, session: str, last: int | None) -> None:
    """Print the messages of a conversation, oldest first."""
    with open_session(call, session) as found:
        messages = [*found.messages()] if last is None else found.last(last)
    call.reply(messages, lambda: _print_all(messages))


def _print_all(messages: Sequence[Message]) -> None:
    for message in messages:
        print_message(message)


plain(
    Scope.sessions,
    "memdb chat list agent.db --user ann --order updated --limit 20",
    of=chat,
    name="list",
    shows=columns_of(
        "name=SESSION message_count=MESSAGES created_ms updated_ms=CHANGED opening=BEGINS title"
    ),
    empty="No conversations.",
    defaults={"order": "updated"},
    help="List the conversations of a user.",
)


@verb(
    'memdb chat context agent.db trip --budget 4000 --query "which hotel?"',
    "memdb chat context agent.db trip --budget 4000 --shape openai > request.json",
    of=chat,
    like=Session.context,
    without=("budget_tokens",),
)
@session_argument
@click.option(
    "--budget",
    type=int,
    metavar="N",
    help=("The largest number of tokens in the context.  [default: the setting window_tokens]"),
)
@click.option(
    "--shape",
    type=click.Choice(SHAPES),
    help="Print the messages as JSON for this API, or as plain text.",
)
def context(
    call: Call,
    session: str,
    budget: int | None = None,
    shape: MessageFormat | None = None,
    **options: Any,
) -> None:
    """
    Show the context that a model gets of a conversation, within a budget of tokens.

    Summaries replace older messages, --query adds entries and messages about it, and the newest
    messages are unchanged. The table lists each piece with its tokens and its reason. --json prints
    each message, --shape the request.
    """
    if shape and call.as_json:
        raise click.UsageError(
            "--json and --shape cannot be used together: --shape openai is JSON too."
        )
    with open_session(call, session) as found:
        window = found.context(budget, **options)
    call.reply(window, lambda: _print_window(window, shape))


def _print_window(found: ContextWindow, shape: MessageFormat | None) -> None:
    """Print *found* in a shape; None means a table of the tokens of each piece."""
    if shape == PLAIN:
        _print_all(found.messages)
    elif shape is not None:
        print_json(found.to(shape))
    else:
        whole = max(found.budget_tokens or 0, found.tokens, 1)
        columns = (
            *columns_of("kind"),
            Column("SPAN", _span),
            *columns_of("tokens"),
            Column("SHARE", lambda one: f"{one.tokens / whole:.1%}"),
            Column("WHY", lambda one: one.reason),
        )
        print_records(columns, _runs(found.pieces))
        note(
            f"{counted(len(found.messages), 'message')}, {found.tokens:,} of "
            f"{found.budget_tokens:,} tokens."
        )


def _runs(pieces: Sequence[Piece]) -> list[Piece]:
    """Return *pieces*, with neighbouring messages of the same reason joined."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last and piece.kind == last.kind == "message" and piece.reason == last.reason:
            joined[-1] = last.replace(last_seq=piece.last_seq, tokens=last.tokens + piece.tokens)
        else:
            joined.append(piece)
    return joined


def _span(piece: Piece) -> str:
    return piece.ref or "" if piece.first_seq is None or piece.kind == "entry" else span_of(piece)


def _print_tree(tree: SummaryTree) -> None:
    """Print the summaries from the oldest to the newest, those made of others below these."""
    ordered = sorted(tree.summaries, key=lambda one: (one.first_seq, one.depth))
    print_records(SUMMARY_COLUMNS, ordered, empty="No summaries yet.")
    if tree.first_raw_seq <= tree.last_seq:
        note(f"Not yet summarised: {tree.first_raw_seq}-{tree.last_seq}")


plain(
    Summaries.tree,
    "memdb chat tree agent.db trip",
    of=chat,
    shows=_print_tree,
    help="""
    List the summaries of a conversation, with the sources of each.

    Of each summary it prints the span of messages, the number, the tokens, the text and the
    writer. The writer is extractive, model, or fallback if a model failed. `chat expand` takes
    the number or the span.
    """,
)


def _print_page(page: Expansion) -> None:
    """Print a page of the sources of a summary, and the summary itself."""
    if page.summary is not None:
        one = page.summary
        say(f"{one.id}  {span_of(one)}  {one.quality}, {counted(one.tokens, 'token')}", bold=True)
        say(f"{clean(one.text)}\n")
        if one.hint:
            say(f"{clean(one.hint)}\n")
    _print_all(page.messages)
    if page.summaries or not page.messages:
        print_records(SUMMARY_COLUMNS, page.summaries, empty="Nothing behind that.")
    if page.next_seq is not None:
        note(f"There is more: --after {page.next_seq}")


plain(
    Summaries.expand,
    "memdb chat expand agent.db trip 11-20",
    "memdb chat expand agent.db trip 1-400 --after 50 --limit 50 --json",
    of=chat,
    shows=_print_page,
    names={"after_seq": "after"},
    help="""
    Show what a summary was made from: summaries one level down, or messages.

    SUMMARY is the number of a summary, or a span of messages such as 11-20. A span without a
    summary shows its messages. The sources are shown one level at a time.
    """,
)


@verb(
    "memdb chat compact agent.db trip --keep-last 1000",
    "memdb chat compact agent.db trip --upgrade --model llm:gpt-5-mini",
    of=chat,
    like=Summaries.compact,
)
@session_argument
@click.option("--upgrade", is_flag=True, help="Let --model rewrite summaries that no model wrote.")
@model_option("writes the summaries", "extracts")
def compact(call: Call, session: str, *, upgrade: bool, **options: Any) -> None:
    """
    Finish the summaries of a conversation, and drop texts that can be made again.

    No message is lost. With --upgrade the model rewrites all summaries of FILE that no model wrote,
    as `memdb work` does.
    """
    if upgrade and call.model is None:
        raise click.UsageError(
            "--upgrade needs --model NAME: without a model, extracts cannot be improved."
        )
    upgraded = 0
    with call.open() as db, Line() as line:
        found = session_of(call.choose(db), session)
        done = found.summaries.compact(**options, progress=lambda _, doing: line.say(doing))
        if upgrade and found.summaries.upgrade():
            upgraded = db.jobs.run(status=lambda _, doing: line.say(doing), kinds=("summarize",))
    data = {"session": found.name, **done.to_dict(), "upgraded": upgraded}
    call.reply(
        data,
        f"{one_line(found.name)}: {counted(done.summarized, 'summary', 'summaries')} made, "
        f"{upgraded:,} improved, {done.pruned:,} dropped that can be made again, "
        f"{counted(done.archived, 'message')} archived.",
    )


def _moved(done: Archived) -> str:
    before, after = size(done.bytes_before), size(done.bytes_after)
    return f"{counted(done.messages, 'message')}, {before} to {after}"


plain(
    Session.archive,
    "memdb chat archive agent.db trip --keep-last 500",
    of=chat,
    shows=lambda done: f"archived: {_moved(done)}",
    help="""
    Compress the older messages of a conversation, within FILE.

    Reading, search and export work as before. `memdb vacuum --whole` makes FILE smaller.
    """,
)
plain(
    Session.unarchive,
    "memdb chat unarchive agent.db trip",
    of=chat,
    shows=lambda done: f"unarchived: {_moved(done)}",
    help="Restore the archived messages of a conversation, byte for byte.",
)
plain(
    Session.update,
    'memdb chat update agent.db trip --title "Three days in Oslo"',
    of=chat,
    shows="{0.name} is called {0.title}",
    without=("expected",),
    texts={
        "title": 'Title shown in lists, "" for none.',
        "metadata": "A JSON object to store with the conversation.",
    },
    help=("Set the title of a conversation, or its metadata. Search finds the title too."),
)


@verb('memdb chat edit agent.db trip 12 "We fly to Bergen."', of=chat)
@session_argument
@click.argument("seq", type=click.IntRange(1))
@click.argument("text", required=False)
def edit(call: Call, session: str, seq: int, text: str | None) -> None:
    """
    Change the text of a message in place.

    Its role, author and metadata stay; its other parts are removed. TEXT "-" is read from standard
    input; without TEXT the editor of VISUAL or EDITOR opens. Entries that were learnt from it stay.
    """
    with open_session(call, session) as found:
        session, old = found.name, found.get(seq)
    typed = edited(old.text, instead="TEXT") if text is None else nullcontext(text)
    with typed as new_text:
        if new_text is None:
            unchanged(call, old)
            return
        with open_session(call, session) as found:
            if found.get(seq) != old:
                raise Conflict(
                    f"{session}#{seq} was changed at this moment: look at it and try again"
                )
            stored = found.edit(seq, new_text)
    call.reply(stored, _stored(stored))


@verb("memdb chat branch agent.db trip other --after 12", of=chat)
@session_argument
@click.argument("name")
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Number of the last message that the branch shares.",
)
def branch(call: Call, session: str, name: str, after: int | None) -> None:
    """
    Start a new branch of a conversation.

    The branch shares the messages up to --after, by default all, and continues with its own.
    --branch names the branch that it starts from. Other commands take --branch NAME.
    """
    with open_session(call, session) as found:
        found.branch(name, after, create=True)
        (made,) = [one for one in found.branches() if one.name == name]
    text = f"{one_line(found.name)} ({one_line(name)}), after message {made.leaves_at}"
    call.reply(made, text)


plain(
    Session.branches,
    "memdb chat branches agent.db trip",
    of=chat,
    shows=columns_of(
        "name=BRANCH parent=FROM leaves_at=AFTER message_count=MESSAGES created_ms "
        "updated_ms=CHANGED"
    ),
    empty="No branches.",
)


@verb("memdb chat delete agent.db trip --dry-run", of=chat)
@session_argument
@click.option("--force", is_flag=True, help="Also remove the branches that start from it.")
@confirm_options
def delete(call: Call, session: str, *, force: bool, yes: bool, dry_run: bool) -> None:
    """
    Remove a conversation with its messages, artifacts and branches.

    With --branch only that branch is removed, with its own messages; if others start from it,
    --force removes these too. Entries that were learnt from it and shared artifacts stay.
    """
    with call.scope() as scope:
        found = session_of(scope, session, whole=yes and not dry_run)
        counts = found.delete(dry_run=True, force=force).removed
        name = found.name if found.branch_name is None else f"{found.name} ({found.branch_name})"
        what = one_line(f"{name}, {all_counted({**counts, 'sessions': 0})}")

        def go() -> bool:
            return any(found.delete(force=force).removed.values())

        remove(call, what, go, yes=yes, dry_run=dry_run, session=found.name, removed=counts)


@verb(
    "memdb why-said agent.db trip 12",
    "memdb why-said agent.db mcp:claude-code",
    name="why-said",
    like=Session.given,
    without=("seq",),
)
@session_argument
@click.argument("seq", type=int, required=False)
def why_said(call: Call, session: str, seq: int | None) -> None:
    """
    Show what the agent was given before it said a message.

    These are the messages, entries, summaries and files of the last context before SEQ, as they are
    now. Without SEQ it is the newest context. For a program that reads over MCP, give its writer's
    name in place of SESSION, such as mcp:claude-code. The rows are then those of the last answer.

    `memdb settings FILE --set context_log_days=30` begins to keep it.
    """
    with call.scope() as scope:
        found = scope.session(option_session(scope, session) or session).given(seq)
    columns = columns_of("kind session=FROM first_seq=SEQ ref reason=NOW text")
    nothing = "Nothing is known: see the setting context-log-days."
    call.reply(found, lambda: print_records(columns, found, empty=nothing))


COMMANDS = {"chat": chat, "why-said": why_said}
