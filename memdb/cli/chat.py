"""
`memdb chat`: messages, contexts, windows and summaries of a conversation.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from memdb.adapters.host import Host
from memdb.cli.base import (
    MOMENT,
    branch_given,
    confirm,
    confirm_options,
    limit_option,
    model_option,
    secrets_option,
    session_argument,
    verb,
)
from memdb.cli.command import Noun
from memdb.cli.output import (
    Column,
    Counter,
    Line,
    clean,
    down_to,
    drawable,
    note,
    one_line,
    print_json,
    print_message,
    print_records,
    print_table,
    print_tree,
    say,
    screen_width,
    size,
    span_of,
    when,
    whole_text,
)
from memdb.cli.records import (
    count_use_option,
    edited,
    open_session,
    page_options,
    session_named,
    session_of,
    unchanged,
)
from memdb.errors import Conflict
from memdb.models.messages import ROLES
from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.api.database import MemDB
    from memdb.api.session import Session
    from memdb.cli.base import Call
    from memdb.models.messages import ContextWindow, Message, Piece, SessionInfo
    from memdb.models.summaries import Expansion
    from memdb.models.types import MessageFormat, Role, SessionOrder, WindowStrategy


SUMMARY_COLUMNS = (
    Column("SPAN", span_of),
    Column("ID", lambda one: one.id),
    Column("BY", lambda one: one.quality),
    Column("TOKENS", lambda one: f"{one.tokens:,}", right=True),
    Column("TEXT", lambda one: one.text, below=True),
)

# The shape that is no API's: messages as text.
PLAIN = "plain"

WINDOW_COLUMNS = (
    Column("SEQ", lambda one: one.seq, right=True),
    Column("BY", lambda one: one.author or one.role, cut=True),
    Column("TOKENS", lambda one: f"{one.tokens:,}", right=True),
    Column("TEXT", whole_text, cut=True),
)

BAR_CHARS = 10
# A table with shares, or with bars too, needs so many columns.
SHARES_FROM, BARS_FROM = 52, 72


def print_window(found: ContextWindow, shape: MessageFormat | None) -> None:
    """Print *found* in a shape; None means a table."""
    if shape == PLAIN:
        for message in found.messages:
            print_message(message)
    elif shape is not None:
        print_json(found.to(shape))
    elif found.pieces:
        _print_budget(found)
    else:
        print_records(WINDOW_COLUMNS, found.messages, empty="No messages.")
        budget = "" if found.budget_tokens is None else f" of {found.budget_tokens:,}"
        note(f"{_total(found)}: {found.tokens:,}{budget} tokens, 4 for the frame of each included.")


def _print_budget(found: ContextWindow) -> None:
    """Print the tokens of each piece, and of all."""
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


def _total(found: ContextWindow) -> str:
    """Return the number of messages and blocks."""
    stored = sum(message.seq > 0 for message in found.messages)
    made = len(found.messages) - stored
    parts = [counted(stored, "message")]
    if made:
        parts.append(f"{counted(made, 'block')} made from others")
    return ", ".join(parts)


def _bar(share: float) -> str:
    full, empty = ("█", "░") if drawable("█░") else ("#", ".")
    filled = min(round(share * BAR_CHARS), BAR_CHARS)
    return full * filled + empty * (BAR_CHARS - filled)


def _runs(pieces: Sequence[Piece]) -> list[Piece]:
    """Return *pieces*, with neighbouring messages of the same reason joined."""
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
    if piece.first_seq is None or piece.kind == "entry":
        return piece.ref or ""
    if piece.first_seq == piece.last_seq:
        return f"{piece.first_seq}"
    return f"{piece.first_seq}-{piece.last_seq}"


def _why(piece: Piece) -> str:
    score = "" if piece.score is None else f" ({piece.score:.2f})"
    return one_line(f"{piece.reason}{score}")


def refuse_both(call: Call, shape: MessageFormat | None) -> None:
    """Refuse --json beside --shape."""
    if shape and call.as_json:
        raise click.UsageError("--json and --shape exclude each other: --shape openai is JSON too.")


def print_page(page: Expansion, *, is_first: bool) -> None:
    """Print a page of the sources of a summary, the summary itself on the first one."""
    summary = page.summary
    if summary is not None and is_first:
        head = f"{summary.id}  {span_of(summary)}  {summary.quality}"
        click.echo(click.style(f"{head}, {counted(summary.tokens, 'token')}", bold=True))
        say(f"{clean(summary.text)}\n")
        if summary.hint:
            say(f"{clean(summary.hint)}\n")
    for message in page.messages:
        print_message(message)
    if page.summaries or not page.messages:
        print_records(SUMMARY_COLUMNS, page.summaries, empty="Nothing behind that.")
    if page.next_seq is not None:
        note(f"There is more: --after {page.next_seq}")


LIST_COLUMNS = (
    Column("SESSION", lambda one: one.name, cut=True),
    Column("MESSAGES", lambda one: one.message_count, right=True),
    Column("CREATED", lambda one: when(one.created_ms)),
    Column("CHANGED", lambda one: when(one.updated_ms)),
    Column("TITLE", lambda one: one.label or "", below=True),
)
BRANCH_COLUMNS = (
    Column("BRANCH", lambda one: one.name, cut=True),
    Column("FROM", lambda one: one.parent or "", cut=True),
    Column("AFTER", lambda one: one.leaves_at, right=True),
    Column("MESSAGES", lambda one: one.message_count, right=True),
    Column("CREATED", lambda one: when(one.created_ms)),
    Column("CHANGED", lambda one: when(one.updated_ms)),
)
HIT_COLUMNS = (
    Column("SEQ", lambda hit: hit.source.seq, right=True),
    Column("SAID", lambda hit: when(hit.source.created_ms)),
    Column("BY", lambda hit: hit.source.author or "", cut=True),
    Column("TEXT", lambda hit: hit.text, below=True),
)
STRATEGIES = ("none", "buffer_window", "token_window", "summary_buffer")
SHAPES = ("openai", "openai-responses", "anthropic", "gemini", "langchain", PLAIN)

# Conversations that a search lists.
MOST_LISTED = 100

shape_option = click.option(
    "--shape",
    type=click.Choice(SHAPES),
    help="Print the messages: as the JSON that this API takes, or as plain text.",
)


@click.group(cls=Noun)
def chat() -> None:
    """Add, show, search, condense and delete the messages of conversations."""


@verb(
    'memdb chat append agent.db trip "We fly to Oslo on 3 May." --user ann',
    "memdb chat append agent.db trip - --role assistant < answer.txt",
    of=chat,
)
@session_argument
@click.argument("text")
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True)
@click.option("--author", metavar="NAME", help="Who wrote it, if the role does not tell.")
@click.option("--external-id", metavar="ID", help="Your id for it: adding it again is nothing.")
@click.option("--at", "created", type=MOMENT, help="When it was written; now without it.")
@click.option("--message", is_flag=True, help="TEXT is a provider's message as JSON, or more.")
@secrets_option
def append(
    call: Call,
    session: str,
    text: str,
    role: Role,
    author: str | None,
    external_id: str | None,
    created: int | None,
    message: bool,
) -> None:
    """
    Add a message to a conversation.

    FILE and SESSION are made if they are new. TEXT "-" is read from standard
    input.
    """
    if message:
        from memdb.cli.transfer import append_from

        append_from(call, session, text)
        return
    with call.scope(create=True) as scope:
        branch = branch_given()
        found = scope.session(session_named(scope, session, is_new=True))
        found = found if branch is None else found.branch(branch, create=False)
        stored = found.append(
            role,
            text,
            author=author,
            external_id=external_id,
            created=created,
            secrets=call.secrets,
        )
    tokens = counted(stored.tokens, "token")
    call.reply(stored, f"{one_line(f'{stored.session}#{stored.seq}')} ({tokens})")


@verb("memdb chat show agent.db trip --last 20", of=chat)
@session_argument
@click.option("--last", type=click.IntRange(0), metavar="N", help="The newest N messages.")
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="The newest messages that a model can be given in TOKENS.",
)
def show(call: Call, session: str, last: int | None, budget: int | None) -> None:
    """Print the messages of a conversation, oldest first."""
    with open_session(call, session) as found:
        window = Host(found).window(last=last, budget_tokens=budget)
    call.reply(list(window.messages), lambda: _print_all(window.messages))
    if budget is not None and not call.as_json:
        count = counted(len(window.messages), "message")
        note(f"{count}, {window.tokens:,} of {counted(budget, 'token')}")


def _print_all(messages: Sequence[Message]) -> None:
    for message in messages:
        print_message(message)


@verb(
    "memdb chat list agent.db --user ann --since 7d --limit 20",
    'memdb chat list agent.db --search "lisbon bicycle"',
    of=chat,
    name="list",
)
@click.option("--search", "query", metavar="WORDS", help="Those that say it, the best first.")
@click.option("--since", type=MOMENT, help="Only those that changed then or later.")
@page_options("updated", "created", "name")
def list_(
    call: Call,
    query: str | None,
    since: int | None,
    limit: int | None,
    order: SessionOrder,
    after: dict[str, Any] | None,
) -> None:
    """
    List the conversations of a user, the one that changed last first.

    With --search those whose title or messages share words with WORDS, the best first.
    """
    with call.scope() as scope:
        if query is None:
            most = limit if since is None else None
            sessions: list[SessionInfo] = scope.sessions(limit=most, order=order, after=after)
        else:
            by_name = {one.name: one for one in scope.sessions()}
            hits = scope.recall(
                query, limit or MOST_LISTED, by="words", group="session", min_score=0
            )
            sessions = [by_name[hit.source.session] for hit in hits if hit.source.session]
    if since is not None:
        sessions = [one for one in sessions if one.updated_ms >= since][:limit]
    call.reply_records(sessions, LIST_COLUMNS, empty="No conversations.")


@verb('memdb chat search agent.db trip "oslo hotel" --limit 5', of=chat)
@session_argument
@click.argument("query")
@limit_option()
def search(call: Call, session: str, query: str, limit: int) -> None:
    """
    Find the messages of a conversation that share words with QUERY.

    `memdb recall` searches everything of a user, by meaning too.
    """
    with open_session(call, session) as found:
        hits = found.recall(query, limit, kinds=("message",), by="words", min_score=0)
    call.reply_records(hits, HIT_COLUMNS, empty="Nothing found.")


@verb(
    'memdb chat context agent.db trip --budget 4000 --query "which hotel?"',
    "memdb chat context agent.db trip --budget 4000 --shape openai > request.json",
    of=chat,
)
@session_argument
@click.option(
    "--budget",
    type=click.IntRange(1),
    required=True,
    metavar="TOKENS",
    help="Most tokens of all messages together.",
)
@click.option(
    "--query", metavar="TEXT", help="What the model will be asked; without it nothing is recalled."
)
@shape_option
@count_use_option
def context(
    call: Call,
    session: str,
    budget: int,
    query: str | None,
    shape: MessageFormat | None,
    count_use: bool,
) -> None:
    """
    Show what a model is given of a whole conversation, in any budget.

    Summaries replace what is older, entries and older messages are added for
    --query, and the newest messages come word for word. The table says what each
    token is spent on, and why; --json has each message, --shape what to send.
    """
    refuse_both(call, shape)
    with open_session(call, session) as found:
        window = found.context(budget, query, count_use=count_use)
    call.reply(window, lambda: print_window(window, shape))


@verb(
    "memdb chat window agent.db trip --strategy token_window --budget 2000",
    "memdb chat window agent.db trip --last 20 --shape anthropic",
    of=chat,
)
@session_argument
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
    help="token_window: messages to keep even over the budget.",
)
@shape_option
def window(
    call: Call,
    session: str,
    strategy: WindowStrategy | None,
    last: int | None,
    budget: int | None,
    keep_last: int | None,
    shape: MessageFormat | None,
) -> None:
    """
    Show the newest messages that a model is given by a simple rule.

    buffer_window: the newest --last (20). token_window: those within --budget
    (8,000), at least --keep-last (5). summary_buffer: within --budget (8,000),
    with summaries for what is older. none: all of them.
    """
    refuse_both(call, shape)
    with open_session(call, session) as found:
        chosen = Host(found).window(strategy, last=last, budget_tokens=budget, keep_last=keep_last)
    call.reply(chosen, lambda: print_window(chosen, shape))


@verb("memdb chat tree agent.db trip", "memdb chat tree agent.db trip --depth 0 --json", of=chat)
@session_argument
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="Levels below the summaries on top; all without it.",
)
def tree(call: Call, session: str, depth: int | None) -> None:
    """
    Draw the summaries of a conversation, and what each was made from.

    Each line has a span of messages, the id of its summary, who wrote it
    (extractive, model, or fallback where a model failed), its tokens and its
    first words. `chat expand` takes the id or the span.
    """
    with open_session(call, session) as found:
        whole = found.summaries.tree()
    call.reply(down_to(whole, depth), lambda: print_tree(found.name, whole, depth))


@verb(
    "memdb chat expand agent.db trip 11-20",
    "memdb chat expand agent.db trip 1-400 --after 50 --limit 50 --json",
    of=chat,
)
@session_argument
@click.argument("what", metavar="ID_OR_SPAN")
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    metavar="SEQ",
    help="Continue after this message, as the page before says.",
)
@limit_option(50, "Most summaries or messages.")
def expand(call: Call, session: str, what: str, after: int, limit: int) -> None:
    """
    Show the sources of a summary, down to the messages and their tool calls.

    ID_OR_SPAN is the id of a summary, or messages such as 12 or 11-20: their
    summary if they have one, else they themselves. Its sources are shown one
    level at a time.
    """
    with open_session(call, session) as found:
        page = found.summaries.expand(what, after_seq=after, limit=limit)
    call.reply(page, lambda: print_page(page, is_first=not after))


@verb(
    "memdb chat compact agent.db trip --keep-last 1000",
    "memdb chat compact agent.db trip --upgrade --model llm:gpt-5-mini",
    of=chat,
)
@session_argument
@click.option(
    "--keep-last",
    type=click.IntRange(0),
    metavar="N",
    help="Archive all but the newest N messages.",
)
@click.option("--upgrade", is_flag=True, help="Let --model write anew what no model wrote.")
@model_option("writes the summaries", "extracts")
def compact(call: Call, session: str, keep_last: int | None, upgrade: bool) -> None:
    """
    Finish the summaries of a conversation, and drop what can be made again.

    No message is lost. With --upgrade all summaries of FILE that are due for a
    model are written by it, as `memdb work` does.
    """
    if upgrade and call.model is None:
        raise click.UsageError("--upgrade needs --model NAME: extracts cannot be improved alone.")
    with call.open() as db, Line() as line:
        found = session_of(call.choose(db), session)
        done = found.summaries.compact(
            keep_last=keep_last, progress=lambda _, doing: line.say(doing)
        )
        upgraded = _upgrade(db, found, line) if upgrade else 0
    parts = [f"{counted(done.summarized, 'summary', 'summaries')} made"]
    if upgrade:
        parts.append(f"{upgraded:,} improved")
    parts.append(f"{done.pruned:,} dropped that can be made again")
    if keep_last is not None:
        parts.append(f"{counted(done.archived, 'message')} archived")
    data = {"session": found.name, **done.to_dict(), "upgraded": upgraded}
    call.reply(data, f"{one_line(found.name)}: {', '.join(parts)}.")


def _upgrade(db: MemDB, session: Session, line: Line) -> int:
    """Let the model improve what it can; return the number of summaries."""
    if not session.summaries.upgrade():
        return 0
    return db.jobs.run(status=lambda _, doing: line.say(doing), kinds=("summarize",))


@verb("memdb chat archive agent.db trip --keep-last 500", of=chat)
@session_argument
@click.option(
    "--keep-last",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Messages that stay as they are.",
)
def archive(call: Call, session: str, keep_last: int) -> None:
    """
    Compress the older messages of a conversation, within FILE.

    They are read, found and exported as before. `memdb vacuum --whole` makes FILE
    smaller.
    """
    with open_session(call, session) as found, Counter("Archiving", "message") as counter:
        done = found.archive(keep_last, counter.add)
    text = "nothing to archive"
    if done.messages:
        before, after = size(done.bytes_before), size(done.bytes_after)
        text = f"{counted(done.messages, 'message')} archived, {before} to {after}"
    call.reply({"session": found.name, **done.to_dict()}, f"{one_line(found.name)}: {text}.")


@verb("memdb chat unarchive agent.db trip", of=chat)
@session_argument
def unarchive(call: Call, session: str) -> None:
    """Bring the archived messages of a conversation back, byte for byte."""
    with open_session(call, session) as found, Counter("Unarchiving", "message") as counter:
        done = found.unarchive(counter.add)
    text = (
        f"{counted(done.messages, 'message')} unarchived" if done.messages else "none is archived"
    )
    call.reply({"session": found.name, **done.to_dict()}, f"{one_line(found.name)}: {text}.")


@verb('memdb chat title agent.db trip "Three days in Oslo"', of=chat)
@session_argument
@click.argument("title")
def title(call: Call, session: str, title: str) -> None:
    """Give a conversation a title, by which it is found too."""
    with open_session(call, session) as found:
        head = found.update(title=title)
    call.reply(head, f"{one_line(found.name)} is called {one_line(title)}")


@verb('memdb chat edit agent.db trip 12 "We fly to Bergen."', of=chat)
@session_argument
@click.argument("seq", type=click.IntRange(1))
@click.argument("text", required=False)
def edit(call: Call, session: str, seq: int, text: str | None) -> None:
    """
    Change what a message says, in its place.

    Its role, author and metadata stay, its other parts go. TEXT "-" is read from
    standard input; without TEXT the editor of VISUAL or EDITOR opens. Entries that
    it told stay.
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
            said = {"role": old.role, "author": old.author, "metadata": old.metadata}
            stored = found.edit(seq, {**said, "text": new_text})
    call.reply(stored, f"{one_line(f'{found.name}#{seq}')} ({counted(stored.tokens, 'token')})")


@verb("memdb chat branch agent.db trip other --after 12", of=chat)
@session_argument
@click.argument("name")
@click.option("--after", type=click.IntRange(0), metavar="SEQ", help="The last message it shares.")
def branch(call: Call, session: str, name: str, after: int | None) -> None:
    """
    Let a new branch leave a conversation.

    It shares the messages up to --after, all of them without it, and goes on with its own.
    --branch names the branch that it leaves. Other commands take --branch NAME.
    """
    with open_session(call, session) as found:
        found.branch(name, after, create=True)
        (made,) = [one for one in found.branches() if one.name == name]
    text = f"{one_line(found.name)} ({one_line(name)}), after message {made.leaves_at}"
    call.reply(made, text)


@verb("memdb chat branches agent.db trip", of=chat)
@session_argument
def branches(call: Call, session: str) -> None:
    """List the branches of a conversation, oldest first."""
    with open_session(call, session) as found:
        made = found.branches()
    call.reply_records(made, BRANCH_COLUMNS, empty="No branches.")


@verb("memdb chat delete agent.db trip --dry-run", of=chat)
@session_argument
@click.option("--force", is_flag=True, help="Of a branch also those that leave it.")
@confirm_options
def delete(call: Call, session: str, force: bool, yes: bool, dry_run: bool) -> None:
    """
    Remove a conversation with its messages, artifacts and branches.

    With --branch only that branch, with the messages that are its own; if others leave it,
    --force removes these too. Entries that come from it stay, and artifacts that are shared
    by all.
    """
    with call.scope() as scope:
        found = session_of(scope, session, whole=yes and not dry_run)
        counts = found.delete(dry_run=True, force=force).removed
        listed: list[Any] = scope.sessions() if found.branch_name is None else found.branches()
        (known,) = [one for one in listed if one.name == (found.branch_name or found.name)]
        of_session = () if found.branch_name else scope.artifacts.list()
        artifacts = sum(one.session == found.name for one in of_session)
        parts = [counted(counts["messages"], "message"), counted(artifacts, "artifact")]
        others = counts["branches"] - (found.branch_name is not None)
        parts += [counted(others, "branch", "branches")] if others else []
        name = "" if found.branch_name is None else f" ({one_line(found.branch_name)})"
        what = f"{one_line(found.name)}{name}, {', '.join(parts)}"
        if not dry_run:
            confirm(f"Delete {what}?", yes=yes)
        deleted = not dry_run and any(found.delete(force=force).removed.values())
    data = {"deleted": deleted, "dry_run": dry_run, "session": known, "artifacts": artifacts}
    call.reply(data, f"{'Would delete' if dry_run else 'Deleted'} {what}.")


COMMANDS = {"chat": chat}
