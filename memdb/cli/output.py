"""
Print JSON, tables, trees of summaries, times, notes and progress.

On a terminal a table has a heading and fits the width, and texts break between words;
elsewhere each row is a whole line without heading, tabs or colours, and an empty cell is
"-". Control characters of stored text never reach the terminal. Progress goes to standard
error, and only if that is a terminal. Trees use box characters if the encoding has them,
else ASCII.
"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any, Self

import click

from memdb.cli.layout import passage, width_of, wrap
from memdb.models.record import Record, counted
from memdb.models.record import plain as to_plain
from memdb.text.parts import payload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.models.messages import Message
    from memdb.models.summaries import Summary, SummaryTree


GAP = "  "
TEXT_INDENT = "    "  # before a text that stands below its row
LEAST_COLUMNS = 40  # of a terminal
LEAST = 8  # columns that a shortened text keeps
WIDEST = 40  # columns a cell is padded to where nothing is cut
_MANY = 20_000  # characters of a cell that are looked at on a terminal

# Marks that change the direction of what follows, line ends that no key makes,
# and letters without a shape can make a text read otherwise than it is stored.
_HIDDEN = [
    *(0x061C, 0x180E, 0x200B, 0x200E, 0x200F, 0xFEFF),
    *(
        one
        for first, last in ((0x2028, 0x202E), (0x2060, 0x206F))
        for one in range(first, last + 1)
    ),
    *(
        one
        for first, last in ((0xFFF9, 0xFFFB), (0xE0000, 0xE007F))
        for one in range(first, last + 1)
    ),
]
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160), *_HIDDEN], "\ufffd")
_LINE_CONTROLS = {**_CONTROLS, ord("\n"): "\n", ord("\t"): "    ", ord("\r"): None}


class Column(Record):
    """
    One column of a table.

    Attributes:
        cell: Returns the content for a record; needed by `print_records`.
        right: Align to the right, for numbers.
        cut: It may be shortened to make the table fit.
        below: On a terminal it stands below the others, in lines of whole words.
    """

    title: str
    cell: Callable[[Any], object] = str
    right: bool = False
    cut: bool = False
    below: bool = False


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return is_terminal(sys.stdout)


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a standard stream is a terminal; one that the shell closed is None."""
    return stream is not None and stream.isatty()


def flush() -> None:
    """Write what was printed; without standard output there is nothing to write."""
    if sys.stdout is not None:
        sys.stdout.flush()


def print_json(value: object) -> None:
    """Print *value* as one JSON document."""
    import json

    # Another encoding may lack a character; JSON can always write it.
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(to_plain(value), ensure_ascii=ascii_only, indent=2, default=str)
    # Characters that JSON allows and a terminal obeys are written as escapes.
    escapes = {one: _escape(one) for one in (*range(127, 160), *_HIDDEN)}
    click.echo(text if text.isascii() and "\x7f" not in text else text.translate(escapes))


def _escape(code: int) -> str:
    """Return a character as JSON may write it: one or two escapes."""
    units = chr(code).encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def print_json_line(value: object) -> None:
    """Print *value* as JSON on one line, for output that is read while it goes on."""
    import json

    click.echo(json.dumps(to_plain(value)))


def note(text: str) -> None:
    """Print *text* on standard error, beside the answer."""
    click.echo(
        "\n".join(wrap(text, terminal_width())) if is_terminal(sys.stderr) else text, err=True
    )


def say(text: str, indent: str = "", first: str | None = None, **style: Any) -> None:
    """
    Print *text*, on a terminal in lines of whole words behind *indent*.

    Args:
        first: Before the first line in place of *indent*; None means the same.
        style: As `click.style` takes it.
    """
    if on_terminal():
        lines = wrap(text, terminal_width(), indent, first)
    else:
        lines = iter([f"{indent if first is None else first}{text}"])
    for line in lines:
        click.echo(click.style(line, **style) if style else line)


def say_passage(text: str, query: str, indent: str, *, full: bool) -> None:
    """Print *text* behind *indent*; of a long one the best passage, if it is not to be *full*."""
    text = text.strip("\n")
    piece, left_out = (text, 0) if full else passage(text, query)
    say(clean(piece), indent)
    if left_out:
        say(f"[{counted(left_out, 'character')} left out: --full]", indent, dim=True)


def print_records(
    columns: Sequence[Column], records: Iterable[object], *, empty: str = "", full: bool = True
) -> None:
    """
    Print *records* as a table, one line each; *empty* is the note if there is none.

    Args:
        full: False: of a long text below a row only the beginning, on a terminal.
    """
    rows = [[column.cell(one) for column in columns] for one in records]
    print_table(columns, rows, empty=empty, full=full)


def print_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    notes: Sequence[str] = (),
    titles: bool = True,
    empty: str = "",
    full: bool = True,
) -> None:
    """
    Print *rows*, one line each, under the titles of *columns*.

    On a terminal a column without any content is left out, a text stands below its row, and
    a table that is too wide for the terminal becomes a list of titles and cells.

    Args:
        notes: A second line for each row; none of them for ().
        titles: False: without the heading, on a terminal too.
        empty: What to say beside the answer when there is no row.
        full: False: of a long text below a row only the beginning.
    """
    wide = on_terminal()
    blank, looked_at = ("", _MANY) if wide else ("-", None)
    whole = [[str(cell) for cell in row] for row in rows]
    if not whole:
        if empty:
            note(empty)
        return
    below = next((n for n, one in enumerate(columns) if wide and one.below), None)
    texts = ["" if below is None else row[below] for row in whole]
    cells = [[one_line(cell[:looked_at]) or blank for cell in row] for row in whole]
    used = [n for n in range(len(columns)) if n != below and any(row[n] for row in cells)]
    columns = [columns[n] for n in used]
    cells = [[row[n] for n in used] for row in cells]
    heading = [[column.title for column in columns]] if wide and titles else []
    widths = [max(map(width_of, column)) for column in zip(*heading, *cells, strict=True)]
    widths = _fitted(columns, widths) if wide else [min(width, WIDEST) for width in widths]
    if wide and sum(widths) + len(GAP) * (len(widths) - 1) > terminal_width():
        _print_stacked(columns, cells, texts, full=full)
        return
    for row in heading:
        click.secho(_line(columns, row, widths, cut=wide), bold=True)
    notes = notes or [""] * len(cells)
    for row, text, beside in zip(cells, texts, notes, strict=True):
        click.echo(_line(columns, row, widths, cut=wide))
        if text:
            say_passage(text, "", TEXT_INDENT, full=full)
        if beside:
            say(one_line(beside), TEXT_INDENT, dim=True)


def _print_stacked(
    columns: Sequence[Column], cells: list[list[str]], texts: list[str], *, full: bool
) -> None:
    """Print each row as lines of title and cell, for a terminal that is too narrow."""
    widest = max(width_of(column.title) for column in columns)
    indent = " " * (widest + len(GAP))
    for place, (row, text) in enumerate(zip(cells, texts, strict=True)):
        if place:
            click.echo()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                say(cell, indent, f"{column.title:<{widest}}{GAP}")
        if text:
            say_passage(text, "", TEXT_INDENT, full=full)


def _line(columns: Sequence[Column], row: Sequence[str], widths: list[int], *, cut: bool) -> str:
    parts = [
        _pad(shorten(cell, width) if cut else cell, width, right=column.right)
        for cell, width, column in zip(row, widths, columns, strict=True)
    ]
    return GAP.join(parts).rstrip()


def _fitted(columns: Sequence[Column], widths: list[int]) -> list[int]:
    """Return *widths* that fit the terminal, by shortening what may be cut."""
    over = sum(widths) + len(GAP) * (len(widths) - 1) - terminal_width()
    least = [max(LEAST, width_of(column.title)) for column in columns]
    while over > 0:
        cut = [n for n, column in enumerate(columns) if column.cut and widths[n] > least[n]]
        if not cut:
            break
        widest = max(cut, key=lambda n: widths[n])
        second = max((widths[n] for n in cut if n != widest), default=LEAST)
        step = min(over, max(1, widths[widest] - max(second, least[widest])))
        widths[widest] -= step
        over -= step
    return widths


def terminal_width() -> int:
    """Return the columns of the terminal; COLUMNS overrides them."""
    from shutil import get_terminal_size

    return max(LEAST_COLUMNS, get_terminal_size().columns)


def screen_width() -> int | None:
    """Return the columns of the terminal; None means that there is none."""
    return terminal_width() if on_terminal() else None


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * max(0, width - width_of(text))
    return space + text if right else text + space


def drawable(marks: str) -> bool:
    """Return whether the encoding of standard output has all of *marks*."""
    try:
        marks.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def shorten(text: str, width: int) -> str:
    """Return *text* in at most *width* columns, ending in … (or ~) behind a word if it was cut."""
    if width_of(text) <= width:
        return text
    kept, used = [], 1
    for character in text:
        used += width_of(character)
        if used > width:
            break
        kept.append(character)
    cut = "".join(kept)
    if text[len(cut)].isascii() and not text[len(cut)].isspace() and " " in cut.rstrip():
        cut = cut.rstrip().rpartition(" ")[0]
    return cut.rstrip() + ("…" if drawable("…") else "~")


def one_line(text: str) -> str:
    """Return *text* without line breaks, tabs and control characters."""
    if text.isprintable() and "  " not in text:
        return text
    return " ".join(text.split()).translate(_CONTROLS)


def clean(text: str) -> str:
    """Return *text* with its line breaks, without other control characters."""
    return text.translate(_LINE_CONTROLS)


def print_message(message: Message) -> None:
    """Print a message with its tool calls, under a line with time and author."""
    by = f"{message.role} {message.author}" if message.author else message.role
    place = f"#{message.seq}  {when(message.created_ms)}  " if message.seq else ""
    say(f"{place}{one_line(by)}", bold=True)
    say(f"{clean(whole_text(message))}\n")


def whole_text(message: Message) -> str:
    """Return the text of a message with its tool calls and their results."""
    extra = payload_of(message.parts or ())
    if extra in message.text:
        return message.text
    return f"{message.text}\n{extra}" if message.text else extra


def when(ms: int | None) -> str:
    """Return UTC milliseconds as "2025-03-10 09:14", "" for None."""
    if ms is None:
        return ""
    from datetime import datetime, timedelta

    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 (UTC throughout, and year 1 too)
    return (epoch + timedelta(milliseconds=ms)).isoformat(" ", "minutes")


def size(count: int) -> str:
    """Return bytes for a person: "71.1 kB"."""
    number, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 999.95:  # noqa: PLR2004 (would be printed as 1000.0)
            break
        number, unit = number / 1000, larger
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


class _Progress:
    """A context manager over one line of standard error; nothing without a terminal."""

    def __enter__(self) -> Self:
        """Return the progress; it is shown at its first step."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the line."""
        self.clear()

    def clear(self) -> None:
        """End the line, or remove what is shown."""


class Bar(_Progress):
    """A bar for a number of steps that is known."""

    def __init__(self, label: str) -> None:
        """Show *label* before the bar."""
        self._label = label
        self._bar: Any = None

    def to(self, done: int, total: int) -> None:
        """Show that *done* of *total* steps are done."""
        if not is_terminal(sys.stderr):
            return
        if self._bar is None:
            self._bar = click.progressbar(length=total, label=self._label, file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._bar.pos)

    def clear(self) -> None:
        """End the line of the bar."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


class Counter(_Progress):
    """A number that grows, for steps without a known end."""

    def __init__(self, label: str, unit: str) -> None:
        """Show *label* before the number, and *unit* behind it, as one is called."""
        self._label = label
        self._unit = unit
        self._count = 0

    def add(self, count: int) -> None:
        """Show that *count* more are done."""
        self._count += count
        if is_terminal(sys.stderr):
            click.echo(f"\r{self._label}  {counted(self._count, self._unit)}", nl=False, err=True)

    def to(self, count: int) -> None:
        """Show that *count* are done."""
        self.add(count - self._count)

    def clear(self) -> None:
        """End the line of the counter."""
        if self._count and is_terminal(sys.stderr):
            click.echo(err=True)


class Line(_Progress):
    """The task in progress, on a line that is written over and removed at the end."""

    def __init__(self) -> None:
        """Begin with nothing; *seen* says whether there is a terminal."""
        self._width = 0
        self.seen = is_terminal(sys.stderr)

    def say(self, text: str) -> None:
        """Show *text* in place of what was there."""
        if not self.seen:
            return
        shown = shorten(one_line(text), terminal_width() - 1)
        width = width_of(shown)
        click.echo(f"\r{shown}{' ' * (self._width - width)}", nl=False, err=True)
        self._width = width

    def clear(self) -> None:
        """Remove what is shown, for a line that stays."""
        if self._width:
            self.say("")
            click.echo("\r", nl=False, err=True)


BOX = ("├─ ", "└─ ", "│  ", "   ")
ASCII = ("|- ", "`- ", "|  ", "   ")

# Columns from which a summary fits one line.
ONE_LINE_FROM = 80
LEAST_WORDS = 8


class Row(Record):
    """
    A line of the tree.

    Attributes:
        lead: The branches before its text.
        below: The branches before a second line of text.
        span: Its messages.
        summary: None means messages without a summary.
    """

    lead: str
    below: str
    span: str
    summary: Summary | None


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
    """Print a row as place and id, and the summary on the next line."""
    summary = row.summary
    if summary is None:
        click.echo(shorten(row.lead + row.span, width))
        return
    span, ref = click.style(row.span, bold=True), click.style(summary.id, dim=True)
    gap = "  " if width_of(row.lead + row.span) + len(summary.id) + 2 <= width else f"\n{row.below}"
    click.echo(f"{row.lead}{span}{gap}{ref}")
    text = f"{summary.quality}, {summary.tokens:,}: {one_line(summary.text)}"
    click.secho(row.below + shorten(text, width - width_of(row.below)))


# What names the session that changed last.
LAST = "last"
