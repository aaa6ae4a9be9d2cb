"""
A command: reads its line, tells who names FILE, and ends with a sentence and an exit code.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memdb.cli import discard_output
from memdb.cli.defaults import default_file, read_config, shown_path
from memdb.cli.output import clean, flush, note, print_json
from memdb.errors import LET_THROUGH, AlreadyExists, FileError, MemDBError, NotFound, SecretFound
from memdb.models.keys import KEY_FILE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memdb.cli.defaults import DefaultFile

TEXT, VALUE, QUERY = "text", "value", "query"  # may begin with a dash; "-" for TEXT is stdin
MOST_CHARS = 200  # of a verb's first sentence in the list of verbs
STOPPED = 130  # what a shell reports for a program that Ctrl-C ended
FILE_OPTION = "file_option"
NAMED = "memdb.file"  # in the context: what names FILE in place of an argument
KEY = "memdb.key"  # in the context: the file with the key of FILE
FILE = click.Argument(["file"], type=click.Path())
BY_OPTION = click.Option(
    ["-f", "--file", FILE_OPTION],
    type=click.Path(),
    metavar="PATH",
    expose_value=False,
    help="The memory file. Default: MEMDB_FILE, else the file in the config, else FILE.",
)


def keep_key_file(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Keep in the context what --key-file names."""
    ctx.meta[KEY] = value


@contextmanager
def using_key(path: str | None) -> Iterator[None]:
    """Open all files of a `with` block and of programs that it starts with the key in *path*."""
    before = os.environ.get(KEY_FILE_VARIABLE, "")
    os.environ[KEY_FILE_VARIABLE] = path or before
    try:
        yield
    finally:
        os.environ[KEY_FILE_VARIABLE] = before


KEY_FILE = click.Option(
    ["--key-file"],
    type=click.Path(),
    metavar="PATH",
    expose_value=False,
    callback=keep_key_file,
    help="File with the key of an encrypted FILE. Default: MEMDB_KEY_FILE, or the keyring key that "
    "MEMDB_KEYRING names.",
)


def is_file(param: click.Parameter) -> bool:
    """Return whether a parameter is the argument FILE."""
    return isinstance(param, click.Argument) and param.name == "file"


class Command(click.Command):
    """
    A command that ends with a sentence and an exit code, never with a traceback.

    FILE is its first argument, unless -f, MEMDB_FILE or the config file names it: every
    argument is then one of the command's own.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, without FILE where something else names it."""
        found = super().get_params(ctx)
        return found if ctx.meta.get(NAMED) is None else [one for one in found if not is_file(one)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read *args*; print a hint if they do not fit."""
        if ctx.resilient_parsing and args and args[-1].startswith("-"):
            args = args[:-1]  # an option whose value the shell completes would hide the arguments
        default = self._read_defaults(ctx, args)
        try:
            rest = self._parse(ctx, args)
        except click.UsageError as error:
            advice = self._advice(ctx, error, default)
            if not advice:
                raise
            text = f"{error.format_message().rstrip('.')}. {advice}"
            raise click.UsageError(text, ctx) from error
        if ctx.meta.get(NAMED) is not None:
            ctx.params["file"] = ctx.meta[NAMED]
        return rest

    def _advice(
        self, ctx: click.Context, error: click.UsageError, default: DefaultFile | None
    ) -> str:
        """Return the hint about FILE to show when there are too few or too many arguments."""
        if isinstance(error, click.MissingParameter):
            is_needed = any(map(is_file, self.params)) and ctx.meta.get(NAMED) is None
            return "FILE comes first, unless -f or MEMDB_FILE names it." if is_needed else ""
        if isinstance(error, (click.NoSuchOption, click.BadParameter)):
            return ""
        if default is None:
            return "" if ctx.meta.get(NAMED) is None else "-f names FILE, so it is left out here."
        path = shown_path(default.path)
        return (
            f"{default.where} names FILE ({path}), so it is left out here; -f PATH names another."
        )

    def _read_defaults(self, ctx: click.Context, args: list[str]) -> DefaultFile | None:
        """Find out who names FILE, and what options are by default; return a default file."""
        try:
            config = read_config()
        except click.UsageError:
            if not ctx.resilient_parsing:
                raise
            config = {}
        named = {name: value for name, value in config.items() if name != "file"}
        ctx.default_map = {**(ctx.default_map or {}), **named}
        if not any(map(is_file, self.params)):
            return None
        try:
            given = self.make_parser(ctx).parse_args(list(args))[0].get(FILE_OPTION)
        except click.UsageError:
            given = None  # said when they are read
        given = given or ctx.meta.get("memdb.given")
        default = None if given else default_file(config)
        ctx.meta[NAMED] = default.path if default else given
        return default

    def _parse(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read *args*; say what to do where a text was taken for an option."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            names = {param.name for param in self.params if isinstance(param, click.Argument)}
            if not names & {TEXT, QUERY}:
                raise
            advice = " To give a text, put -- before a text that begins with a dash"
            if TEXT in names:
                advice += ", or give - and the text on standard input"
            raise click.NoSuchOption(
                error.option_name, f"{error.message}{advice}.", error.possibilities, ctx
            ) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; report what it raises."""
        try:
            with using_key(ctx.meta.get(KEY)):
                done = super().invoke(ctx)
                flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            ctx.exit(STOPPED)
        except BrokenPipeError:  # the reader of what is printed is gone: errors of others are named
            discard_output()
        except Exception as error:
            if os.environ.get("MEMDB_DEBUG", "") not in ("", "0"):
                raise
            ctx.exit(_report(error, ctx.params))
        else:
            return done


class Noun(click.Group):
    """A group whose verbs are listed in the order they were written."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click gives it)
        """Return the verbs, the everyday ones first."""
        return list(self.commands)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 (click gives it)
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list with the first sentence of each, whole on a narrow terminal too."""
        shown = {name: one for name, one in self.commands.items() if not one.hidden}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(MOST_CHARS)) for name, one in shown.items()]
            )


def _report(error: Exception, given: Mapping[str, Any]) -> int:
    """Report *error* of a command with the options *given*; return the exit code."""
    code, exit_code, facts, message = "internal", 1, {}, str(error)
    if isinstance(error, MemDBError):
        code, exit_code, facts = error.code, error.exit_code, error.facts()
    elif isinstance(error, OSError):
        code, exit_code, facts = FileError.code, FileError.exit_code, {"path": error.filename}
        message = f"{error.filename}: {error.strerror}" if error.filename else message
    else:
        message = (
            f"{type(error).__name__}: {message}. This is a bug; MEMDB_DEBUG=1 shows where, "
            "please report it"
        )
    if not given.get("as_json", False):
        note(f"Error: {clean(_for_a_shell(error, message, given))}")
        return exit_code
    print_json({"error": {"code": code, "message": message, **facts}})
    return exit_code


def _for_a_shell(error: Exception, message: str, given: Mapping[str, Any]) -> str:
    """Return a message with the command or the option in the place of the library's advice."""
    if isinstance(error, NotFound) and error.kind in LISTS:
        advice = f"`memdb {LISTS[error.kind]}` shows what there is"
        return f"{message.partition(': list what')[0]}: {advice}"
    if isinstance(error, SecretFound):
        way = ", or give --secrets redact or allow" if "secrets" in given else ""
        return message.replace(LET_THROUGH, f"{way}, or change `memdb settings`")
    if isinstance(error, AlreadyExists) and error.kind == "file" and "replace" in given:
        return message.replace(" or remove it first", ", remove it first or give --replace")
    for name in given:
        message = re.sub(rf"\b{name}_(tokens|minutes|s)\b", f"--{name}", message)
    return message


# What lists the things of a kind.
LISTS = {
    "session": "chat list",
    "branch": "chat branches",
    "entry": "entry list",
    "artifact": "artifact list",
    "item": "item list",
}
