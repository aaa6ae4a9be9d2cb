"""
`sqlite-utils memdb ...`: every command of memdb from sqlite-utils, in a process of its own.

sqlite-utils and memdb never have a file open in the same process: two SQLite libraries on one
live file lose each other's locks (ADR-0002).
"""

from __future__ import annotations

import subprocess
import sys

import click
from sqlite_utils import hookimpl

ALL = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@hookimpl
def register_commands(cli: click.Group) -> None:
    """Add `memdb` to the commands of sqlite-utils; called by its plugin manager."""
    cli.add_command(run_memdb, "memdb")


@click.command("memdb", context_settings=ALL, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_memdb(arguments: tuple[str, ...]) -> None:
    """Run a command of memdb, `sqlite-utils memdb --help` lists them."""
    done = subprocess.run([sys.executable, "-m", "memdb", *arguments], check=False)  # noqa: S603 (memdb itself)
    raise SystemExit(done.returncode)
