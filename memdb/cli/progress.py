"""
How far something is, on standard error, where that is a terminal.
"""

from __future__ import annotations

import sys

import click

from memdb.cli.output import one_line, shorten, terminal_width, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class Bar:
    """
    A bar, shown from the first step on; nothing without a terminal.

    A context manager; leaving it ends the line.
    """

    def __init__(self, label: str) -> None:
        """Show *label* before the bar."""
        self._label = label
        self._bar: Any = None

    def to(self, done: int, total: int) -> None:
        """Show that *done* of *total* steps are done."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = click.progressbar(length=total, label=self._label, file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._bar.pos)

    def __enter__(self) -> Self:
        """Return the bar; it is drawn at its first step."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the line of the bar."""
        if self._bar is not None:
            self._bar.__exit__(*error)


class Counter:
    """
    A number that grows, for what has no known end; else as `Bar`.
    """

    def __init__(self, label: str, unit: str) -> None:
        """Show *label* before the number, and *unit* behind it."""
        self._label = label
        self._unit = unit
        self._count = 0

    def add(self, count: int) -> None:
        """Show that *count* more are done."""
        self._count += count
        if sys.stderr.isatty():
            click.echo(f"\r{self._label}  {self._count:,} {self._unit}", nl=False, err=True)

    def __enter__(self) -> Self:
        """Return the counter; it is shown at its first step."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the line of the counter."""
        if self._count and sys.stderr.isatty():
            click.echo(err=True)


class Line:
    """
    What is being done, on one line that is written over and goes at the end.

    A context manager; nothing without a terminal.
    """

    def __init__(self) -> None:
        """Begin with nothing; *seen* says whether there is a terminal."""
        self._width = 0
        self.seen = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Show *text* in place of what was there."""
        if not self.seen:
            return
        shown = shorten(one_line(text), terminal_width() - 1)
        width = width_of(shown)
        click.echo(f"\r{shown}{' ' * (self._width - width)}", nl=False, err=True)
        self._width = width

    def clear(self) -> None:
        """Take away what is shown, for a line that stays."""
        if self._width:
            self.say("")
            click.echo("\r", nl=False, err=True)

    def __enter__(self) -> Self:
        """Return the line; it is shown when it says something."""
        return self

    def __exit__(self, *error: object) -> None:
        """Take away what is shown."""
        self.clear()
