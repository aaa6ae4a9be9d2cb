"""Help on terminals of any width: whole words, and no line wider than it has to be."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from cases import each
from click import formatting

from memdb.cli import cli
from memdb.cli.help import HelpFormatter


def walk(command: click.Command, context: click.Context) -> dict[str, click.Context]:
    """Return the context of each command below *command*, and its own, by its path."""
    found = {context.command_path: context}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found |= walk(inner, inner.context_class(inner, info_name=name, parent=context))
    return found


CONTEXTS = walk(cli, cli.context_class(cli, info_name="memdb", **cli.context_settings))


@pytest.fixture
def help_at(monkeypatch):
    """Return a function that gives the help of a command on a terminal of some columns."""
    monkeypatch.setattr(formatting, "FORCED_WIDTH", None)

    def show(path: str, columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        return CONTEXTS[path].get_help()

    return show


def words_of(text: str) -> list[str]:
    """Return the words of a help, without what joins the lines of a long command or choice."""
    joined = re.sub(r" \\\n\s*", " ", text)
    return re.sub(r"\|\n\s+", "|", joined).split()


def is_one_piece(line: str) -> bool:
    """Say whether a line is one word of a shell, such as a text in quotes: it stays whole."""
    return len(shlex.split(line.removesuffix(" \\"))) == 1


@each("columns", [40, 60, 80])
@each("path", CONTEXTS)
def test_the_help_fits_the_terminal(help_at, path: str, columns: int) -> None:
    """No line is wider, but for one that is a single piece; no word is broken."""
    shown = help_at(path, columns)
    wide = [line for line in shown.splitlines() if len(line) > columns]

    assert [line for line in wide if not is_one_piece(line)] == []
    assert words_of(shown) == words_of(help_at(path, 80))
    assert "\b" not in shown


@pytest.mark.parametrize("columns", [40, 60])
def test_a_broken_example_is_the_same_command(help_at, columns: int) -> None:
    """A shell reads the lines as the one that they were."""
    (line,) = re.findall(r"memdb chat append .*", help_at("memdb", 80))
    (broken,) = re.findall(r"memdb chat append (?:.*\\\n)*.*", help_at("memdb", columns))

    assert shlex.split(broken.replace("\\\n", "")) == shlex.split(line)


def test_every_command_lays_its_help_out() -> None:
    """None of them leaves the width of its help to click."""
    assert {type(one).__name__ for one in CONTEXTS.values()} == {"HelpContext"}


def test_a_choice_breaks_behind_a_bar(help_at) -> None:
    """An option with many values stands on lines of its own, its text below."""
    lines = help_at("memdb recall", 40).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  --kind"))

    assert lines[at : at + 3] == [
        "  --kind [message|entry|artifact|",
        "    session|summary|item]",
        "      Repeatable.",
    ]


def test_a_terminal_that_is_too_narrow(help_at) -> None:
    """Below 20 columns the lines are as for 20."""
    assert help_at("memdb info", 5) == help_at("memdb info", 20)


def test_a_width_that_is_given() -> None:
    """Whoever makes a formatter may say how wide it is."""
    made = HelpFormatter(width=30)
    made.write_dl([("--long-option-name TEXT", "What it does."), ("--flag", "")])

    assert made.getvalue() == "--long-option-name TEXT\n    What it does.\n--flag\n"
