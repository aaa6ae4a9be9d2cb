"""
The manual page `man/memdb.1`, made of what `--help` says.

    python docs/manual.py > man/memdb.1

A test compares it with the commands, so it is never older than they are.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING

import click

from memdb import __version__
from memdb.cli import CONTEXT, EPILOG, cli
from memdb.cli.command import BY_OPTION
from memdb.cli.options import JSON, SCOPE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Options that are described once.
COMMON = ("user", "app", "file_option", "as_json")
_ENVIRONMENT = {
    "MEMDB_FILE": "The memory file; FILE is then left out.",
    "MEMDB_USER": "Whose memory it is, as --user.",
    "MEMDB_APP": "The program the memory belongs to, as --app.",
    "MEMDB_EMBEDDER": "What makes the vectors, as --embedder.",
    "MEMDB_CONFIG": "The path of the config file.",
    "MEMDB_DEBUG": "1 shows tracebacks.",
    "NO_COLOR": "Turns colours off.",
    "EDITOR": "Opened by the edit commands; VISUAL goes before.",
}


def manual() -> str:
    """Return the page in roff, for `man`."""
    root = click.Context(cli, info_name="memdb", help_option_names=CONTEXT["help_option_names"])
    summary, _, rest = cleandoc(cli.help or "").partition("\n\n")
    lines = [
        f'.TH MEMDB 1 "" "memdb {__version__}" "User Commands"',
        ".SH NAME",
        f"memdb \\- {_escaped(summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B memdb",
        "COMMAND [VERB] [OPTIONS] [FILE] [ARGUMENTS]",
        ".SH DESCRIPTION",
        *_paragraphs(rest),
        ".SH OPTIONS OF MOST COMMANDS",
        *_options((*SCOPE_OPTIONS, BY_OPTION, JSON), root),
        ".SH COMMANDS",
        *_commands(cli, root),
        ".SH ENVIRONMENT",
    ]
    for name, text in _ENVIRONMENT.items():
        lines += [".TP", f".B {name}", _escaped(text)]
    lines += [
        ".SH FILES",
        ".TP",
        ".B ~/.config/memdb/config.toml",
        "Names file, user, app and embedder; all of them are optional.",
        ".SH EXIT STATUS, EXAMPLES AND COMPLETION",
        *_paragraphs(EPILOG.strip()),
    ]
    return "\n".join(lines) + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """Yield a section for each command that does something, in the order of the help."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
            continue
        usage = " ".join(command.collect_usage_pieces(inner))
        yield f'.SS "{_escaped(inner.command_path)} {_escaped(usage)}"'
        yield from _paragraphs(cleandoc(command.help or ""))
        own = [one for one in command.get_params(inner) if one.name not in COMMON]
        yield from _options(own, inner)
        yield from _paragraphs(command.epilog or "")


def _options(params: Iterable[click.Parameter], context: click.Context) -> Iterator[str]:
    """Yield an entry for each option; arguments are explained by the text."""
    for param in params:
        record = param.get_help_record(context)
        is_option = isinstance(param, click.Option) and "--help" not in param.opts
        if record is not None and is_option:
            yield from (".TP", f".B {_escaped(record[0])}", _escaped(record[1]))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs of a help text; those that click leaves as they are, likewise."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            yield from (".PP", ".nf", *map(_escaped, paragraph.split("\n")[1:]), ".fi")
        elif paragraph:
            yield from (".PP", _escaped(" ".join(paragraph.split())))


def _escaped(text: str) -> str:
    """Return a line in which roff sees no request of its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    click.echo(manual(), nl=False)
