"""
The summaries of a conversation as a tree of lines.

One line for each on a wide terminal and in a pipe, two on a narrow terminal;
box characters where the encoding has them, else ASCII.
"""

from __future__ import annotations

import click

from memdb.cli.output import counted, drawable, one_line, screen_width, shorten, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.models.summaries import Summary, SummaryTree

BOX = ("├─ ", "└─ ", "│  ", "   ")
ASCII = ("|- ", "`- ", "|  ", "   ")

# From so many columns on, what is said of a summary fits one line.
ONE_LINE_FROM = 80
LEAST_WORDS = 8


class Row:
    """A line of the tree: what draws it, what stands under it, what it is about."""

    __slots__ = ("below", "lead", "span", "summary")

    def __init__(self, lead: str, below: str, span: str, summary: Summary | None) -> None:
        """Stand for *summary*; None: for messages without a summary."""
        self.lead = lead
        self.below = below
        self.span = span
        self.summary = summary


def print_tree(session: str, tree: SummaryTree, depth: int | None) -> None:
    """Print the summaries of *tree*, *depth* levels below those on top; None: all."""
    width = screen_width()
    count = counted(len(tree.summaries), "summary", "summaries")
    head = one_line(f"{session}: {counted(tree.last_seq, 'message')}, {count}")
    click.secho(head if width is None else shorten(head, width), bold=True)
    rows = list(_rows(tree, depth))
    if width is not None and width < ONE_LINE_FROM:
        for row in rows:
            _print_in_two(row, width)
    else:
        _print_in_one(rows, width)


def down_to(tree: SummaryTree, depth: int | None) -> SummaryTree:
    """Return *tree* without what is more than *depth* levels below the summaries on top."""
    if depth is None:
        return tree
    kept = list(tree.frontier)
    level = {summary.id for summary in kept}
    for _ in range(depth):
        below = [summary for summary in tree.summaries if summary.condensed_into in level]
        if not below:
            break
        kept += below
        level = {summary.id for summary in below}
    shown = {summary.id for summary in kept}
    return tree.replace(
        summaries=tuple(summary for summary in tree.summaries if summary.id in shown)
    )


def _rows(tree: SummaryTree, depth: int | None) -> Iterator[Row]:
    """Yield the lines from the oldest to the newest: system text, summaries, the rest."""
    tee, corner, bar, blank = BOX if drawable("".join(BOX)) else ASCII
    below: dict[str | None, list[Summary]] = {}
    for summary in sorted(down_to(tree, depth).summaries, key=lambda summary: summary.first_seq):
        below.setdefault(summary.condensed_into, []).append(summary)

    def drawn(summaries: list[Summary], before: str, *, more: bool) -> Iterator[Row]:
        for place, summary in enumerate(summaries):
            last = place == len(summaries) - 1 and not more
            indent = before + (blank if last else bar)
            inner = below.get(summary.id, [])
            lead = before + (corner if last else tee)
            yield Row(lead, indent + (bar if inner else blank), span_of(summary), summary)
            yield from drawn(inner, indent, more=False)

    raw = tree.first_raw_seq <= tree.last_seq
    if tree.head_seq:
        lead = tee if below or raw else corner
        span = _span(1, tree.head_seq)
        yield Row(lead, "", f"{span}  system text, never summarised", None)
    yield from drawn(below.get(None, []), "", more=raw)
    if raw:
        span = _span(tree.first_raw_seq, tree.last_seq)
        yield Row(corner, "", f"{span}  not yet summarised", None)


def span_of(summary: Summary) -> str:
    """Return the span of *summary* as `chat expand` takes it."""
    return _span(summary.first_seq, summary.last_seq)


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _print_in_one(rows: list[Row], width: int | None) -> None:
    """Print each row as one line, in columns."""
    summaries = [row for row in rows if row.summary is not None]
    place = max((width_of(row.lead + row.span) for row in summaries), default=0)
    for row in rows:
        summary = row.summary
        if summary is None:
            line = row.lead + row.span
            click.echo(line if width is None else shorten(line, width))
            continue
        space = " " * (place - width_of(row.lead + row.span))
        by = f"{summary.quality:<10}  {summary.tokens:>5,}"
        words = one_line(summary.text)
        if width is not None:
            used = place + len(summary.id) + len(by) + 6
            words = shorten(words, width - used) if width - used >= LEAST_WORDS else ""
        span, ref = click.style(row.span, bold=True), click.style(summary.id, dim=True)
        click.echo(f"{row.lead}{span}{space}  {ref}  {by}  {words}".rstrip())


def _print_in_two(row: Row, width: int) -> None:
    """Print a row as place and id, and under it what is said of it."""
    summary = row.summary
    if summary is None:
        click.echo(shorten(row.lead + row.span, width))
        return
    span, ref = click.style(row.span, bold=True), click.style(summary.id, dim=True)
    gap = "  " if width_of(row.lead + row.span) + len(summary.id) + 2 <= width else f"\n{row.below}"
    click.echo(f"{row.lead}{span}{gap}{ref}")
    said = f"{summary.quality}, {summary.tokens:,}: {one_line(summary.text)}"
    click.secho(row.below + shorten(said, width - width_of(row.below)))
