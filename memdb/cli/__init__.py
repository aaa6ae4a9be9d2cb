"""
The command line: `memdb NOUN VERB FILE`.

Owns the list of commands and their order. The module of a command is loaded
when that command runs, and the rest of memdb inside it: `memdb --help` loads
click and nothing else.
"""

from __future__ import annotations

import os

import click

from memdb import __version__
from memdb.cli.base import CONTEXT, LazyGroup, Loaded, tolerate_encoding

# Name -> where it is and the first sentence of its help, without the full stop
# (a test compares them).
COMMANDS = {
    "demo": Loaded("demo", "Show in a few seconds what memdb does"),
    "info": Loaded("file", "Show what is in FILE: rows, bytes, times and whose memory it is"),
    "chat": Loaded("chat", "Add, show, search, condense and delete the messages of conversations"),
    "remember": Loaded("entry", "Store one long-term fact"),
    "recall": Loaded("recall", "Search one user's messages, entries and artifacts"),
    "extract": Loaded(
        "learn",
        "Learn long-term entries from what was said in SESSION and not yet looked at",
    ),
    "entry": Loaded("entry", "List, show, edit, pin, supersede and delete long-term entries"),
    "forget": Loaded(
        "forget", "Remove something for good, also from summaries, archive and indexes"
    ),
    "secrets": Loaded("forget", "Find keys, tokens and passwords in a memory"),
    "artifact": Loaded("artifact", "Save and load named bytes in versions"),
    "import": Loaded("transfer", "Add the conversations, entries and artifacts of SOURCE"),
    "export": Loaded("transfer", "Write everything of one user as JSON lines"),
    "work": Loaded("work", "Embed and summarise what is due in FILE"),
    "mcp": Loaded("mcp", "Serve one user's memory over the Model Context Protocol"),
    "space": Loaded("space", "List and drop the vectors of each embedder"),
    "check": Loaded("file", "Prove that FILE is sound"),
    "rebuild": Loaded("file", "Make the indexes and counters of FILE anew"),
    "backup": Loaded("file", "Copy FILE while others use it"),
    "vacuum": Loaded("file", "Make FILE as small as what it holds"),
    "bench": Loaded("bench", "Measure how often recall finds the evidence in a data set"),
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
  130 stopped with Ctrl-C

\b
Completion of commands, options and files:
  bash  eval "$(_MEMDB_COMPLETE=bash_source memdb)"   in ~/.bashrc
  zsh   eval "$(_MEMDB_COMPLETE=zsh_source memdb)"    in ~/.zshrc
  fish  _MEMDB_COMPLETE=fish_source memdb | source    in config.fish

Times are UTC. MEMDB_DEBUG=1 shows tracebacks, NO_COLOR=1 turns colours off.
"""


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=CONTEXT, epilog=EPILOG)
@click.version_option(__version__, prog_name="memdb")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """
    Everything an AI agent remembers, in one SQLite file.

    FILE is made by the first command that writes to it. Whose memory is meant
    is said by --user; where FILE holds that of one user only, it is theirs.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False  # the commands inherit it; https://no-color.org


def main() -> None:
    """Run the command line and exit with its code."""
    tolerate_encoding()
    cli(prog_name="memdb")
