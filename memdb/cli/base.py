"""
What all commands share: how they are loaded, their options, and their errors.

Imports nothing but click, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import sys

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]

CONTEXT = {"help_option_names": ["-h", "--help"]}
TEXT, QUERY = "text", "query"  # arguments that may begin with a dash; "-" for TEXT is stdin
STOPPED = 130  # what a shell reports for a program that Ctrl-C ended


class Loaded:
    """Where a top-level command is, and what the list of commands says about it."""

    __slots__ = ("help", "module")

    def __init__(self, module: str, short_help: str) -> None:
        """Name the *module* in `memdb.cli` that holds it, and its *short_help*."""
        self.module = module
        self.help = short_help


class Command(click.Command):
    """A command that ends with a sentence and an exit code, never with a traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
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
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            ctx.exit(STOPPED)
        except Exception as error:
            if os.environ.get("MEMDB_DEBUG", "") not in ("", "0"):
                raise
            ctx.exit(_report(error, as_json=ctx.params.get("as_json", False)))


class Noun(click.Group):
    """A group whose verbs are listed in the order they were written."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the verbs, the everyday ones first."""
        return list(self.commands)


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads only the one that runs."""

    def __init__(self, *args: Any, table: dict[str, Loaded], **kwargs: Any) -> None:
        """Hold the commands of *table*, in its order."""
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the table."""
        return list(self.table)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Load the command called *cmd_name*, None without one."""
        if cmd_name not in self.table:
            return None
        module = __import__(f"memdb.cli.{self.table[cmd_name].module}", fromlist=("COMMANDS",))
        found: click.Command = module.COMMANDS[cmd_name]
        return found

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that *args* begin with; suggest one where there is none."""
        name = args[0]
        if not (name in self.table or name.startswith("-") or ctx.resilient_parsing):
            from difflib import get_close_matches

            close = get_close_matches(name, self.table, n=1)
            advice = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{advice}", ctx)
        return super().resolve_command(ctx, args)


def example(*lines: str) -> str:
    """Return *lines* as the Example that ends a help text."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def file_argument(function: Function) -> Function:
    """Give the command its FILE, which a shell completes."""
    return click.argument("file", type=click.Path())(function)


def scope_options(function: Function) -> Function:
    """Give the command --user and --app."""
    for option in (
        click.option(
            "--app",
            envvar="MEMDB_APP",
            show_envvar=True,
            metavar="NAME",
            help='The program the memory belongs to; "default" without it.',
        ),
        click.option(
            "--user",
            envvar="MEMDB_USER",
            show_envvar=True,
            metavar="NAME",
            help="Whose memory it is.",
        ),
    ):
        function = option(function)
    return function


def embedder_option(function: Function) -> Function:
    """Give the command --embedder."""
    return click.option(
        "--embedder",
        envvar="MEMDB_EMBEDDER",
        show_envvar=True,
        metavar="NAME",
        help="What makes the vectors: static, fastembed:DIR, openai:NAME, openai:NAME@URL, "
        "llm:NAME, or none for words alone. Keys come from the environment, or from where llm "
        "keeps them.",
    )(function)


def json_option(function: Function) -> Function:
    """Give the command --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(
        function
    )


def secrets_option(function: Function) -> Function:
    """Give the command --secrets."""
    return click.option(
        "--secrets",
        type=click.Choice(("refuse", "redact", "allow")),
        help="What to do with keys and passwords.",
    )(function)


def confirm_options(function: Function) -> Function:
    """Give the command --yes and --dry-run."""
    dry = click.option("--dry-run", is_flag=True, help="Say what would go, and keep it.")
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(dry(function))


def confirm(question: str, *, yes: bool) -> None:
    """
    Return if the user agrees; without a terminal only *yes* agrees.

    Raises:
        click.UsageError: there is nobody to ask.
        click.Abort: the answer was no.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("There is no terminal to ask on: give --yes to delete.")
    click.confirm(question, abort=True, err=True)


def tolerate_encoding() -> None:
    """Print what a terminal of another encoding lacks as "?", instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _report(error: Exception, *, as_json: bool) -> int:
    """Tell the user about *error*, and return the exit code."""
    from memdb.errors import FileError, MemDBError

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
    from memdb.cli.output import clean, print_json

    if not as_json:
        click.echo(f"Error: {clean(message)}", err=True)
        return exit_code

    print_json({"error": {"code": code, "message": message, **facts}})
    return exit_code
