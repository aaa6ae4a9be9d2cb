"""Tables of context windows: what each token is spent on, and why; pages of summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memdb.cli.output import (
    Column,
    clean,
    drawable,
    note,
    one_line,
    print_json,
    print_message,
    print_records,
    print_table,
    say,
    screen_width,
    span_of,
    whole_text,
)
from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.cli.base import Call
    from memdb.models.messages import ContextWindow, Piece
    from memdb.models.summaries import Expansion
    from memdb.models.types import MessageFormat

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
