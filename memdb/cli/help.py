"""
Help as wide as the terminal: lines of whole words, from 20 columns up.

Every command writes its help through `HelpContext`. A block that click leaves as it is stays so
where it fits; of what is wider, a command of ours goes on behind a backslash, so that it can
still be copied, and other lines go on below themselves.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import click
from click import formatting

from memdb.cli.layout import width_of, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARGIN = 2
LEAST_COLUMNS = 20
MOST_COLUMNS = 80
LEAST_TEXT = 26  # columns of a text beside its term; with less it stands below
BELOW = 4  # columns that it is moved in by then

RAW = "\b"  # the first line of a block that stays as it is
COMMAND = "memdb "
GOES_ON = " \\"
# What a command can be broken between: words, of which quotes are a part, options with their value.
_WORDS = re.compile(r"""\s*(?:--?[\w-]+\s+(?=[^-\s|<>&]))?(?:"[^"]*"|'[^']*'|\S)+""")
# The same for a line of a table: its cells.
_CELLS = re.compile(r"\s*\S+(?: \S+)*")


class HelpFormatter(click.HelpFormatter):
    """Lays out help for a terminal of any width."""

    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        """Write lines of *width* columns; None means those of the terminal, up to *max_width*."""
        if width is None and formatting.FORCED_WIDTH is None:
            columns = min(shutil.get_terminal_size().columns, max_width or MOST_COLUMNS)
            width = max(columns, LEAST_COLUMNS) - MARGIN
        super().__init__(indent_increment, width, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the line of a command; its arguments go below it where it is long."""
        first = f"{prefix or 'Usage: '}{prog} "
        indent = " " * len(first)
        if self.width - len(first) < LEAST_COLUMNS:
            indent = " " * 2 * BELOW
            self._write_lines(wrap(first, self.width, indent[:BELOW], first=""))
            first = indent
        self._write_lines(wrap(args, self.width, indent, first=first))

    def write_text(self, text: str) -> None:
        """Write paragraphs; a block that is to stay as it is keeps its lines."""
        indent = " " * self.current_indent
        for number, block in enumerate(re.split(r"\n{2,}", text.expandtabs().strip("\n"))):
            if number:
                self.write("\n")
            lines = block.split("\n")
            if lines[0].strip() == RAW:
                for line in lines[1:]:
                    self._write_lines(_broken(f"{indent}{line}", self.width))
            else:
                self._write_lines(wrap(" ".join(block.split()), self.width, indent))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write terms with their texts beside them, or below them on a narrow terminal."""
        rows = [*rows]
        lead = " " * self.current_indent
        column = min(max(width_of(term) for term, _ in rows), col_max) + col_spacing
        is_below = self.width - len(lead) - column < LEAST_TEXT
        indent = " " * (len(lead) + (BELOW if is_below else column))
        for term, text in rows:
            first = f"{lead}{term}"
            if text and not is_below and width_of(term) + col_spacing <= column:
                first = first.ljust(len(indent))
            else:
                self._write_lines(wrap(term, self.width, f"{lead}  ", first=lead))
                first = indent
            if text:
                self._write_lines(wrap(" ".join(text.split(" ")), self.width, indent, first=first))

    def _write_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(f"{line}\n")


class HelpContext(click.Context):
    """The context of our commands: their help has the width of the terminal."""

    formatter_class = HelpFormatter


def _broken(line: str, width: int) -> Iterator[str]:
    """Yield a line in lines of at most *width* columns, as far as quotes let it be broken."""
    if width_of(line) <= width:
        yield line
        return
    lead = line[: len(line) - len(line.lstrip())]
    is_command = line.startswith(f"{lead}{COMMAND}")
    end = GOES_ON if is_command else ""
    made, below = "", f"{lead}{' ' * BELOW}"
    words = _CELLS.findall(line.lstrip())
    if is_command:
        room = width - len(below) - len(end)
        words = [part for word in _WORDS.findall(line.lstrip()) for part in _parted(word, room)]
    for number, word in enumerate(words, start=1):
        room = width - (len(end) if number < len(words) else 0)
        if made and width_of(made + word) > room:
            yield made + end
            made = f"{below}{word.lstrip()}"
        else:
            made += word if made else f"{lead}{word}"
        if not is_command and width_of(made) > width:  # a cell that is wider
            *whole, made = wrap(made.lstrip(), width, below, first=made[: -len(made.lstrip())])
            yield from whole
    yield made


def _parted(word: str, room: int) -> list[str]:
    """Return an option and its value, apart if together they are wider than *room*."""
    option = re.match(r"\s*--?[\w-]+(?=\s)", word)
    if option is None or width_of(word.strip()) <= room:
        return [word]
    return [option[0], word[option.end() :]]
