"""`memdb chat tree`, `expand`, `compact`, `archive` and `unarchive`."""

from __future__ import annotations

import click

from memdb.cli.base import Command, example, file_argument, json_option, scope_options
from memdb.cli.opening import choose_scope, opened, opened_scope, session_of
from memdb.cli.output import (
    Column,
    Counter,
    Line,
    clean,
    counted,
    down_to,
    note,
    one_line,
    print_json,
    print_message,
    print_table,
    print_tree,
    size,
    span_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.api.database import MemDB
    from memdb.api.session import Session
    from memdb.models.summaries import Expansion, Summary

model_option = click.option(
    "--model",
    metavar="NAME",
    help="Who writes the summaries: llm:NAME, openai:NAME or openai:NAME@URL; extracts "
    "without it. Keys come from the environment, or from where llm keeps them.",
)
keep_option = click.option(
    "--keep-last",
    type=click.IntRange(0),
    metavar="N",
    help="Archive all but the newest N messages.",
)


@click.command(
    cls=Command,
    epilog=example(
        "memdb chat tree agent.db trip",
        "memdb chat tree agent.db trip --depth 0 --json",
    ),
)
@file_argument
@click.argument("session")
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="Levels below the summaries on top; all without it.",
)
@scope_options
@json_option
def tree(
    file: str,
    session: str,
    depth: int | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Draw the summaries of a conversation, and what each was made from.

    Each line has a span of messages, the id of its summary, who wrote it
    (extractive, model, or fallback where a model failed), its tokens and its
    first words. `chat expand` takes the id or the span.
    """
    with opened_scope(file, user, app) as scope:
        found = session_of(scope, session).summaries.tree()
    if as_json:
        print_json(down_to(found, depth).to_dict())
    else:
        print_tree(session, found, depth)


@click.command(
    cls=Command,
    epilog=example(
        "memdb chat expand agent.db trip 11-20",
        "memdb chat expand agent.db trip 1-400 --after 50 --limit 50 --json",
    ),
)
@file_argument
@click.argument("session")
@click.argument("what", metavar="ID_OR_SPAN")
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    metavar="SEQ",
    help="Go on behind this message, as the page before says.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Most summaries or messages.",
)
@scope_options
@json_option
def expand(
    file: str,
    session: str,
    what: str,
    after: int,
    limit: int,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Show what a summary stands for, down to the messages and their tool calls.

    ID_OR_SPAN is the id of a summary, or messages such as 12 or 11-20: their
    summary if they have one, else they themselves. What it was made from is
    shown one level at a time.
    """
    with opened_scope(file, user, app) as scope:
        page = session_of(scope, session).summaries.expand(what, after_seq=after, limit=limit)
    if as_json:
        print_json(page.to_dict())
        return
    if page.summary is not None and not after:
        _print_summary(page.summary)
    _print_page(page)
    if page.next_seq is not None:
        note(f"There is more: --after {page.next_seq}")


@click.command(
    cls=Command,
    epilog=example(
        "memdb chat compact agent.db trip --keep-last 1000",
        "memdb chat compact agent.db trip --upgrade --model llm:gpt-5-mini",
    ),
)
@file_argument
@click.argument("session")
@keep_option
@click.option("--upgrade", is_flag=True, help="Let --model write anew what no model wrote.")
@model_option
@scope_options
@json_option
def compact(
    file: str,
    session: str,
    keep_last: int | None,
    upgrade: bool,
    model: str | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Finish the summaries of a conversation, and drop what can be made again.

    Nothing that was said is lost. With --upgrade all summaries of FILE that are
    due for a model are written by it, as `memdb work` does.
    """
    if upgrade and model is None:
        raise click.UsageError("--upgrade needs --model NAME: extracts cannot be improved alone.")
    with opened(file, model=model) as db, Line() as line:
        chat = session_of(choose_scope(db, user, app), session)
        done = chat.summaries.compact(
            keep_last=keep_last, progress=lambda _, doing: line.say(doing)
        )
        upgraded = _upgraded(db, chat, line) if upgrade else 0
    if as_json:
        print_json({"session": session, **done.to_dict(), "upgraded": upgraded})
        return
    parts = [f"{counted(done.summarized, 'summary', 'summaries')} made"]
    if upgrade:
        parts.append(f"{upgraded:,} improved")
    parts.append(f"{done.pruned:,} dropped that can be made again")
    if keep_last is not None:
        parts.append(f"{counted(done.archived, 'message')} archived")
    click.echo(f"{one_line(session)}: {', '.join(parts)}.")


def _upgraded(db: MemDB, chat: Session, line: Line) -> int:
    """Let the model improve what it can; how many summaries that were."""
    if not chat.summaries.upgrade():
        return 0
    return db.jobs.run(status=lambda _, doing: line.say(doing), kinds=("summarize",))


@click.command(cls=Command, epilog=example("memdb chat archive agent.db trip --keep-last 500"))
@file_argument
@click.argument("session")
@click.option(
    "--keep-last",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Messages that stay as they are.",
)
@scope_options
@json_option
def archive(
    file: str,
    session: str,
    keep_last: int,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """
    Compress the older messages of a conversation, within FILE.

    They are read, found and exported as before. `memdb vacuum` then makes FILE
    smaller.
    """
    with opened_scope(file, user, app) as scope:
        chat = session_of(scope, session)
        with Counter("Archiving", "messages") as counter:
            done = chat.archive(keep_last, counter.add)
    if as_json:
        print_json({"session": session, **done.to_dict()})
        return
    if not done.messages:
        click.echo(f"{one_line(session)}: nothing to archive.")
        return
    before, after = size(done.bytes_before), size(done.bytes_after)
    what = counted(done.messages, "message")
    click.echo(f"{one_line(session)}: {what} archived, {before} to {after}.")


@click.command(cls=Command, epilog=example("memdb chat unarchive agent.db trip"))
@file_argument
@click.argument("session")
@scope_options
@json_option
def unarchive(file: str, session: str, user: str | None, app: str | None, as_json: bool) -> None:
    """Bring the archived messages of a conversation back, byte for byte."""
    with opened_scope(file, user, app) as scope:
        chat = session_of(scope, session)
        with Counter("Unarchiving", "messages") as counter:
            done = chat.unarchive(counter.add)
    if as_json:
        print_json({"session": session, **done.to_dict()})
    else:
        what = (
            f"{counted(done.messages, 'message')} unarchived"
            if done.messages
            else "none is archived"
        )
        click.echo(f"{one_line(session)}: {what}.")


def _print_summary(summary: Summary) -> None:
    head = f"{summary.id}  {span_of(summary)}  {summary.quality}"
    click.echo(click.style(f"{head}, {counted(summary.tokens, 'token')}", bold=True))
    click.echo(f"{clean(summary.text)}\n")
    if summary.hint:
        click.echo(f"{clean(summary.hint)}\n")


def _print_page(page: Expansion) -> None:
    for message in page.messages:
        print_message(message)
    columns = [Column("SPAN"), Column("ID"), Column("BY"), Column("TOKENS", right=True)]
    columns.append(Column("TEXT", cut=True))
    rows = [
        (span_of(summary), summary.id, summary.quality, f"{summary.tokens:,}", summary.text)
        for summary in page.summaries
    ]
    if rows or not page.messages:
        print_table(columns, rows, empty="Nothing behind that.")
