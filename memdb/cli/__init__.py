"""
Command line: `memdb NOUN VERB FILE`.

Owns the list of commands and their order. The module of a command is loaded
when that command runs, with the rest of memdb inside it: `memdb --help` loads
click and nothing else.
"""

from __future__ import annotations

import os
import sys
from itertools import takewhile
from typing import Any

import click

from memdb import __version__

LINE = "memdb.line"  # in the context: the whole command line
JSON = "--json"
CONTEXT = {"help_option_names": ["-h", "--help"]}
AGAIN_S = 0.05  # until a signal whose exception was dropped is raised once more


class Loaded:
    """Where a top-level command is, and what the list of commands says about it."""

    __slots__ = ("help", "module")

    def __init__(self, module: str, short_help: str) -> None:
        """Name the *module* in `memdb.cli` that contains it, and its *short_help*."""
        self.module = module
        self.help = short_help


# Name -> where it is and the first sentence of its help, without the full stop
# (a test compares them).
COMMANDS = {
    "demo": Loaded("demo", "Show in a few seconds what memdb does"),
    "info": Loaded("file", "Show what is in FILE: rows, bytes, times and whose memory it is"),
    "stats": Loaded(
        "file", "Show the background work that waits in FILE, and failures with their reasons"
    ),
    "counts": Loaded(
        "file", "Count the messages and entries of each day, and entries by category and state"
    ),
    "changes": Loaded(
        "file", "Print the changes of all programs in FILE, and a mark for the next call"
    ),
    "chat": Loaded("chat", "Add, show, condense and delete the messages of conversations"),
    "remember": Loaded("entry", "Store one long-term fact"),
    "recall": Loaded("recall", "Search messages, entries, artifacts and titles of one user"),
    "extract": Loaded(
        "entry", "Learn long-term entries from the messages of SESSION that are not yet read"
    ),
    "entry": Loaded("entry", "List, show, edit, supersede and delete long-term entries"),
    "why-said": Loaded("chat", "Show what the agent was given before it said a message"),
    "profile": Loaded(
        "profile", "Show what is known about a user as one page, and change it in an editor"
    ),
    "forget": Loaded(
        "forget", "Remove something for good, also from summaries, archive and indexes"
    ),
    "undo": Loaded("forget", "Take back what a program stored"),
    "secrets": Loaded("forget", "Find keys, tokens and passwords in a memory"),
    "artifact": Loaded("artifact", "Save and load named bytes in versions"),
    "item": Loaded("item", "Put, get, list and delete values under a namespace and a key"),
    "import": Loaded("transfer", "Add the content of SOURCE: a file, a folder or a zip"),
    "export": Loaded(
        "transfer", "Write everything of one user as JSON lines, Markdown, one HTML page or CSV"
    ),
    "work": Loaded("service", "Embed and summarise what is due in FILE"),
    "web": Loaded("serve", "Show FILE in a browser, and serve its JSON API"),
    "serve": Loaded("serve", "Serve the JSON API of FILE to programs, by tokens of one user each"),
    "token": Loaded("serve", "Make, list and remove the tokens of `memdb serve`"),
    "users": Loaded("serve", "List, move and delete the users of a folder of files"),
    "mcp": Loaded("service", "Serve one user's memory over the Model Context Protocol"),
    "agent": Loaded("agent", "Remember for Claude Code, Codex, Cursor or Gemini CLI"),
    "space": Loaded("file", "List and delete the vectors of each embedder"),
    "settings": Loaded("settings", "Show and change the settings of FILE"),
    "check": Loaded("file", "Prove that FILE is sound"),
    "rebuild": Loaded("file", "Rebuild the indexes and counters of FILE"),
    "backup": Loaded("file", "Copy FILE while others use it"),
    "copy": Loaded("transfer", "Copy all of SOURCE into TARGET, and prove that it is equal"),
    "encrypt": Loaded("file", "Copy the plain FILE to TARGET, encrypted with a key"),
    "decrypt": Loaded("file", "Copy the encrypted FILE to the plain TARGET"),
    "rekey": Loaded("file", "Change the key of the encrypted FILE; backups keep theirs"),
    "sync": Loaded("sync", "Sync FILE with other devices through FOLDER"),
    "restore": Loaded("file", "Put BACKUP in place of FILE"),
    "recover": Loaded("file", "Make the file NEW from the readable parts of FILE"),
    "vacuum": Loaded("file", "Return the free room of FILE to the disk"),
    "query": Loaded("file", "Run one SELECT over all users' data in FILE"),
    "pack": Loaded("bench", "Make, verify and open fixture packs"),
    "bench": Loaded("bench", "Measure recall and learning over a data set"),
}

EPILOG = """
\b
Example:
  memdb demo
  memdb chat append agent.db trip "We fly to Oslo on 3 May." --user ann
  memdb recall agent.db "when is the flight?"

\b
Exit codes:
  0 done   1 internal   2 usage   3 not found   4 conflict
  5 invalid value   6 file   7 storage or findings   8 model
  130 stopped with Ctrl-C   143 with SIGTERM

\b
Completion of commands, options and files:
  bash  eval "$(_MEMDB_COMPLETE=bash_source memdb)"   in ~/.bashrc
  zsh   eval "$(_MEMDB_COMPLETE=zsh_source memdb)"    in ~/.zshrc
  fish  _MEMDB_COMPLETE=fish_source memdb | source    in config.fish

MEMDB_FILE, MEMDB_USER and MEMDB_APP name FILE, --user and --app; docs/terminal.md
has the config file. Times are UTC. MEMDB_DEBUG=1 shows tracebacks, NO_COLOR=1 turns colours off.
"""


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads only the one that runs."""

    def __init__(self, *args: Any, table: dict[str, Loaded], **kwargs: Any) -> None:
        """Store the commands of *table*, in its order."""
        super().__init__(*args, **kwargs)
        self.table = table

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read *args*, and keep them: an error of usage comes before --json is read."""
        ctx.meta[LINE] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; with --json an error of usage is JSON as the other errors are."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if JSON not in takewhile(lambda one: one != "--", ctx.meta[LINE]):
                raise
            from memdb.cli.output import print_json

            print_json({"error": {"code": "usage", "message": error.format_message()}})
            ctx.exit(error.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click gives it)
        """Return the names of the table."""
        return list(self.table)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 (click gives it)
        cmd_name: str,
    ) -> click.Command | None:
        """Load the command called *cmd_name*, None if there is none."""
        if cmd_name not in self.table:
            return None
        module = __import__(f"memdb.cli.{self.table[cmd_name].module}", fromlist=("COMMANDS",))
        found: click.Command = module.COMMANDS[cmd_name]
        return found

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 (click gives it)
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


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=CONTEXT, epilog=EPILOG)
@click.option(
    "-f",
    "--file",
    type=click.Path(),
    metavar="PATH",
    help="The memory file, in place of the argument FILE.",
)
@click.version_option(__version__, prog_name="memdb")
@click.pass_context
def cli(ctx: click.Context, *, file: str | None) -> None:
    """
    Keep everything an AI agent remembers in one SQLite file.

    The first command that writes to FILE creates it. Set MEMDB_FILE, or `file = ...` in the config
    file, to leave FILE out. --user chooses the user; you may omit it if FILE has only one.
    """
    ctx.meta["memdb.given"] = file
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False  # the commands inherit it; https://no-color.org


def tolerate_encoding() -> None:
    """Print what a terminal of another encoding lacks as "?", instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def leave_ascii() -> None:
    """
    Start the program again in Python's UTF-8 mode if the locale has ASCII alone.

    That is the locale C under PYTHONUTF8=0. Python makes half of a character of each byte of an
    argument then, and of each name of a file.
    """
    if sys.getfilesystemencoding() == "ascii" and "utf8" not in sys._xoptions:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 (itself)


def discard_output() -> None:
    """Drop all further output, because its reader is gone."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def raise_again(dropped: sys.UnraisableHookArgs) -> None:
    """
    End the program by a signal although Python dropped the exception of its handler.

    Python drops every exception in a finalizer or a callback of a weak reference, and continues.
    Each import has such a callback. The signal comes again a moment later, outside of it.
    """
    if not isinstance(dropped.exc_value, (KeyboardInterrupt, SystemExit)):
        sys.__unraisablehook__(dropped)
        return
    import signal
    from threading import Timer, main_thread

    is_interrupt = isinstance(dropped.exc_value, KeyboardInterrupt)
    number = signal.SIGINT if is_interrupt else signal.SIGTERM
    if hasattr(signal, "pthread_kill"):  # it ends a wait of the main thread too
        Timer(AGAIN_S, signal.pthread_kill, (main_thread().ident or 0, number)).start()
    else:
        Timer(AGAIN_S, signal.raise_signal, (number,)).start()


def main() -> None:
    """Run the command line and exit with its code, which is 0 under `| head`."""
    sys.unraisablehook = raise_again
    leave_ascii()
    tolerate_encoding()
    output = sys.stdout
    try:
        cli(prog_name="memdb")
    except SystemExit as end:
        is_left = sys.stdout is not output  # as click marks it: the reader of help is gone
        sys.stdout = output
        if is_left:
            discard_output()
        raise SystemExit(0 if is_left else end.code) from None  # the same end
