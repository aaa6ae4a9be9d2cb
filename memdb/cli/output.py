"""
Print JSON, tables, facts, times, notes and progress.

On a terminal a table has a heading and fits the width, and texts break between words. Elsewhere
each row is a whole line without heading, tabs or colours, and an empty cell is "-". Control
characters of stored text never reach the terminal. Progress goes to standard error, and only if
that is a terminal.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Self

import click

from memdb.cli.layout import passage, width_of, wrap
from memdb.models.record import Record, counted
from memdb.models.record import plain as to_plain
from memdb.text.parts import whole_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memdb.models.messages import Message


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
    One column of a table; one of numbers is aligned to the right, and what is wide is shortened.

    Attributes:
        cell: Returns the content for a record; needed by `print_records`.
        below: On a terminal it stands below the others, in lines of whole words.
    """

    title: str
    cell: Callable[[Any], object] = str
    below: bool = False


_TEXTS = ("text", "opening", "title", "meaning")  # fields that stand below their row
_AS_THEY_ARE = ("id", "seq", "version")  # numbers that are no amounts
_NUMBER = re.compile(r"[-+]?[\d,.]+(%| [kMGT]?B)?|-?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|-?")


def columns_of(spec: str) -> tuple[Column, ...]:
    """
    Return columns of fields: `id=# updated_ms=CHANGED` names two, one of them as it is called.

    A field whose name ends in `_ms` is a time, in `_bytes` a size.
    """
    found = []
    for word in spec.split():
        field, _, title = word.partition("=")
        title = (title or re.sub("_(ms|bytes)$", "", field).upper()).replace("_", " ")
        found.append(Column(title, partial(cell_of, field), field in _TEXTS))
    return tuple(found)


def cell_of(field: str, record: Any) -> str:
    """Return a field of a record or dict as a person reads it; "" for None, False and ()."""
    value = record[field] if isinstance(record, dict) else getattr(record, field)
    if field.endswith("_ms"):
        return when(value)
    if value is None or value is False or value == ():
        return ""
    if field.endswith("_bytes"):
        return size(value)
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return "yes" if value is True else str(value) if field in _AS_THEY_ARE else f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text[:12] if field == "sha256" else text


def print_facts(facts: Iterable[tuple[str, object]], indent: str = "") -> None:
    """Print a line for each name with its value; none for "" and None."""
    shown = [(name, one_line(str(value))) for name, value in facts if value not in ("", None)]
    widest = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        say(value, " " * (widest + len(GAP + indent)), f"{indent}{name:<{widest}}{GAP}")


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
    """Print *value* as JSON on one line, for output that is read while it continues."""
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


def print_records(columns: Sequence[Column], records: Iterable[object], *, empty: str = "") -> None:
    """Print *records* as a table, one line each; *empty* is the note if there is none."""
    print_table(columns, [[one.cell(record) for one in columns] for record in records], empty=empty)


def print_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    titles: bool = True,
    empty: str = "",
) -> None:
    """
    Print *rows*, one line each, under the titles of *columns*.

    On a terminal a column without any content is left out, and a text stands below its row. Columns
    of texts are cut until a row fits.

    Args:
        titles: False: without the heading, on a terminal too.
        empty: What to say beside the answer when there is no row.
    """
    wide = on_terminal()
    blank, looked_at = ("", _MANY) if wide else ("-", None)
    whole = [[str(cell) for cell in row] for row in rows]
    if not whole:
        if empty:
            note(empty)
        return
    below = next((n for n, one in enumerate(columns) if wide and one.below), None)
    cells = [[one_line(cell[:looked_at]) or blank for cell in row] for row in whole]
    used = [n for n in range(len(columns)) if n != below and any(row[n] for row in cells)]
    cells = [[row[n] for n in used] for row in cells]
    stripes = [*zip(*cells, strict=True)]
    numbers = [all(map(_NUMBER.fullmatch, column)) for column in stripes]
    heading = [[columns[n].title for n in used]] if wide and titles else []
    widths = [max(map(width_of, column)) for column in zip(*heading, *cells, strict=True)]
    if wide:
        widths = _fitted(
            widths,
            [
                width
                if all(map(_NUMBER.fullmatch, cells)) or all(map(_TIME.fullmatch, cells))
                else max(LEAST, width_of(columns[n].title))
                for width, cells, n in zip(widths, stripes, used, strict=True)
            ],
        )
    else:
        widths = [min(width, WIDEST) for width in widths]
    for row in heading:
        click.secho(_line(row, widths, numbers, cut=wide), bold=True)
    for row, texts in zip(cells, whole, strict=True):
        click.echo(_line(row, widths, numbers, cut=wide))
        if below is not None and texts[below]:
            say(clean(texts[below]), TEXT_INDENT)


def _line(row: Sequence[str], widths: list[int], numbers: list[bool], *, cut: bool) -> str:
    parts = [
        _pad(shorten(cell, width) if cut else cell, width, right=is_number)
        for cell, width, is_number in zip(row, widths, numbers, strict=True)
    ]
    return GAP.join(parts).rstrip()


def _fitted(widths: list[int], least: list[int]) -> list[int]:
    """Return *widths* that fit the terminal, by shortening the widest down to its *least*."""
    while sum(widths) + len(GAP) * (len(widths) - 1) > terminal_width():
        spare = [(width, n) for n, width in enumerate(widths) if width > least[n]]
        if not spare:
            break
        widths[max(spare)[1]] -= 1
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


def shorten(text: str, width: int) -> str:
    """Return *text* in at most *width* columns, ending in … behind a word if it was cut."""
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
    return f"{cut.rstrip()}…"


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
    say(f"{clean(whole_text(message.text, message.parts))}\n")


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


class Line:
    """The task in progress, on a line of standard error that is removed at the end."""

    def __init__(self, label: str = "") -> None:
        """Show *label* before *count*; *seen* says whether there is a terminal."""
        self._label = label
        self.count = self._width = 0
        self.seen = is_terminal(sys.stderr)

    def __enter__(self) -> Self:
        """Return the line; it is shown at the first step."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove it."""
        self.clear()

    def to(self, done: int, total: int = 0, doing: str | None = None) -> None:
        """Show that *done* steps are done, of how many if that is known, and what is done now."""
        self.count = done
        far = f"{done / total:.0%}" if total else f"{done:,} done"
        self.say(f"{self._label} {far}: {doing}" if doing else f"{self._label} {far}")

    def add(self, count: int) -> None:
        """Show that *count* more are done."""
        self.to(self.count + count)

    def say(self, text: str) -> None:
        """Show *text* in place of the old text."""
        if not self.seen:
            return
        shown = shorten(one_line(text), terminal_width() - 1)
        width = width_of(shown)
        click.echo(f"\r{shown}{' ' * (self._width - width)}", nl=False, err=True)
        self._width = width

    def clear(self) -> None:
        """Remove the shown text, for a line that stays."""
        if self._width:
            self.say("")
            click.echo("\r", nl=False, err=True)


def span_of(one: Any) -> str:
    """Return the span of a summary or piece: a number if it is one message."""
    return (
        f"{one.first_seq}" if one.first_seq == one.last_seq else f"{one.first_seq}-{one.last_seq}"
    )
