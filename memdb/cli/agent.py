"""`memdb agent`: the memory of coding agents, in their settings and from their transcripts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import verb
from memdb.cli.command import Noun
from memdb.cli.output import Line, note, one_line, size, when

if TYPE_CHECKING:
    from memdb.agents.install import Change
    from memdb.cli.base import Call

PROGRAM_NAMES = ("claude-code", "codex", "cursor", "gemini-cli")


@click.group(cls=Noun)
def agent() -> None:
    """Remember for Claude Code, Codex, Cursor or Gemini CLI."""


file_option = click.option(
    "--file",
    "memory",
    type=click.Path(),
    metavar="PATH",
    help="The memory file. Default: MEMDB_AGENT_FILE, or one in the user's data folder.",
)
program_argument = click.argument("program", type=click.Choice(PROGRAM_NAMES))


recall_option = click.option(
    "--recall", "recalls", is_flag=True, help="Add to each prompt the memories that answer it."
)


@verb(
    "memdb agent install claude-code",
    "memdb agent install claude-code --recall",
    "memdb agent install codex --project --dry-run",
    "memdb agent install claude-code --uninstall",
    of=agent,
    file=False,
    scope=False,
)
@program_argument
@click.option(
    "--project", "place", flag_value="project", help="Change the settings of this folder."
)
@click.option(
    "--user",
    "place",
    flag_value="user",
    default=True,
    help="Change the settings of the user (default).",
)
@file_option
@recall_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--uninstall", is_flag=True, help="Remove memdb from the settings again.")
def install(
    call: Call,
    program: str,
    place: str,
    memory: str | None,
    recalls: bool,
    dry_run: bool,
    uninstall: bool,
) -> None:
    """
    Put memdb's MCP server and hooks into the settings of PROGRAM.

    A session then begins with the known facts about the project. Its transcript is captured at each
    stop, before each compaction and at its end. Nothing else in the settings changes a byte;
    --uninstall restores them. With --recall each prompt also gets earlier messages and facts that
    contain its words, without a model.
    """
    from memdb.agents.install import apply, plan_install, plan_uninstall
    from memdb.agents.places import memory_file

    project = Path.cwd() if place == "project" else None
    if uninstall:
        changes = plan_uninstall(program, project)
    else:
        changes = plan_install(program, project, memory, recalls=recalls)
    if not dry_run:
        apply(changes)
    told = [
        {
            "path": str(one.path),
            "changed": one.is_change,
            "exists": (one.after if one.is_change else one.before) is not None,
        }
        for one in changes
    ]
    data = {"program": program, "dry_run": dry_run, "uninstall": uninstall, "files": told}
    call.reply(data, lambda: _print_changes(changes, dry_run=dry_run))
    if uninstall or call.as_json:
        return
    if not dry_run:
        note(
            f"Restart {program}. Each session is kept in {memory_file(memory)}: see "
            f"`memdb agent status`. To undo: `memdb agent install {program} --uninstall`."
        )


@verb(
    "memdb agent package claude-code ./memdb-plugin",
    "memdb agent package codex ./memdb-plugin --recall",
    of=agent,
    file=False,
    scope=False,
)
@program_argument
@click.argument("folder", type=click.Path(path_type=Path))
@recall_option
def package(call: Call, program: str, folder: Path, recalls: bool) -> None:
    """
    Write a plugin for PROGRAM into FOLDER: hooks, MCP server and a skill.

    Other people who install it get the same hooks. The plugin names memdb and no path of this
    machine, so its users must install memdb too. Claude Code and Codex take plugins.
    """
    import memdb
    from memdb.agents.install import write_package

    files = write_package(program, folder, memdb.__version__, recalls=recalls)
    lines = "\n".join(click.format_filename(str(one)) for one in files)
    call.reply({"program": program, "files": [str(one) for one in files]}, lines)


def _print_changes(changes: list[Change], *, dry_run: bool) -> None:
    """Print the change of each file; with *dry_run* line by line."""
    from difflib import unified_diff

    for one in changes:
        shown = click.format_filename(str(one.path))
        if not one.is_change:
            click.echo(f"{shown}: nothing to change")
        elif dry_run:
            before = (one.before or "").splitlines(keepends=True)
            after = (one.after or "").splitlines(keepends=True)
            for line in unified_diff(before, after, shown, shown):
                click.echo(line if line.endswith("\n") else f"{line}\n", nl=False)
        else:
            click.echo(f"{shown}: {'removed' if one.after is None else 'changed'}")


@verb("memdb agent status", "memdb agent status --json", of=agent, file=False, scope=False)
@file_option
def status(call: Call, memory: str | None) -> None:
    """Show where memdb is installed, the size of its memory, and failed hooks."""
    from memdb.agents.install import state_of
    from memdb.agents.places import memory_file, read_errors, user_name
    from memdb.formats.projects import app_of

    path = memory_file(memory)
    places = [("user", None), ("project", Path.cwd())]
    settings: dict[str, dict[str, str]] = {}
    for name in PROGRAM_NAMES:
        for scope, project in places:
            for where, state in state_of(name, project):
                one = {"program": name, "scope": scope, "path": str(where), "state": state}
                settings.setdefault(str(where), one)  # the user's folder may be this one
    data = {
        "file": str(path),
        "file_bytes": path.stat().st_size if path.exists() else None,
        "user": user_name(),
        "app": app_of(None),
        "settings": [*settings.values()],
        **_held(path, user_name(), app_of(None)),
        "errors": read_errors(),
    }
    call.reply(data, lambda: _print_status(data))


def _held(path: Path, user: str, app: str) -> dict[str, Any]:
    """Return how many projects and sessions a file holds, and when the last was captured."""
    if not path.exists():
        return {"projects": 0, "sessions": 0, "captured_ms": None}
    import memdb
    from memdb.agents.capture import POSITIONS_APP

    try:
        opened = memdb.open(path, mode="read")
    except memdb.MemDBError as error:
        return {"projects": 0, "sessions": 0, "captured_ms": None, "problem": str(error)}
    with opened as db:
        owned = [one for one in db.scopes() if one.user == user and one.app != POSITIONS_APP]
        here = db.scope(user, app).sessions()
        done = db.scope(user, POSITIONS_APP).items.list(limit=1, order="updated", descending=True)
        captured_ms = done[0].updated_ms if done else None
        return {"projects": len(owned), "sessions": len(here), "captured_ms": captured_ms}


def _print_status(data: dict[str, Any]) -> None:
    """Print the status for a person."""
    held = "not there yet" if data["file_bytes"] is None else size(data["file_bytes"])
    click.echo(f"Memory: {click.format_filename(data['file'])} ({held})")
    click.echo(f"Project: {one_line(data['app'])} (user {one_line(data['user'])})")
    captured = when(data["captured_ms"]) if data["captured_ms"] is not None else "never"
    click.echo(
        f"Holds {data['projects']:,} projects, {data['sessions']:,} sessions of this one; "
        f"captured last: {captured}"
    )
    if "problem" in data:
        click.echo(f"The memory cannot be read: {one_line(data['problem'])}")
    for one in data["settings"]:
        if one["state"] != "absent":
            shown = click.format_filename(one["path"])
            click.echo(f"{one['program']} ({one['scope']}): {one_line(one['state'])}, {shown}")
    if all(one["state"] == "absent" for one in data["settings"]):
        click.echo("Installed nowhere: run `memdb agent install claude-code`, for example.")
    for one in data["errors"]:
        click.echo(
            f"Failed {when(one.get('time_ms') or 0)}: {one_line(str(one.get('event')))}: "
            f"{one_line(str(one.get('error')))}"
        )


@verb(
    "memdb agent import claude-code",
    "memdb agent import codex ~/old/sessions --file work.db",
    of=agent,
    name="import",
    file=False,
)
@program_argument
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@file_option
@click.option("--again", is_flag=True, help="Also read the transcripts that were read before.")
def import_(
    call: Call, program: str, paths: tuple[str, ...], memory: str | None, again: bool
) -> None:
    """
    Add past transcripts of PROGRAM, each to the memory of its project.

    PATH is a transcript or a folder of them; the default is the folder of PROGRAM. Lines are read
    once, so an import continues where the last one ended. Keys and passwords are redacted.
    """
    import memdb
    from memdb.agents.discovery import find_transcripts, import_transcripts
    from memdb.agents.places import make_folder, memory_file, user_name

    found = [one for path in paths or (None,) for one in find_transcripts(program, path)]
    target = memory_file(memory)
    make_folder(target)
    with memdb.open(target, writer=program) as db, Line("Importing") as bar:
        report = import_transcripts(
            db, found, user=call.user or user_name(), app=call.app, again=again, progress=bar.to
        )
    call.reply(report, str(report))


@verb("memdb agent mcp", of=agent, file=False, scope=False, json=False)
@file_option
def mcp(call: Call, memory: str | None) -> None:  # noqa: ARG001 (`call` comes with the option)
    """
    Serve the memory of the project in this folder over the Model Context Protocol.

    `memdb agent install` puts this command into the settings. The server uses stdio, as `memdb
    mcp` does.
    """
    import memdb
    from memdb.agents.places import make_folder, memory_file, user_name
    from memdb.cli.service import ending_by_signals
    from memdb.formats.projects import app_of
    from memdb.integrations.mcp.transports import serve

    target = memory_file(memory)
    make_folder(target)
    with ending_by_signals(), memdb.open(target, writer="mcp") as db:
        serve(db, user=user_name(), app=app_of(None), port=None, token=None)


class HookCommand(click.Command):
    """A command that never fails: its exit code would stop the agent that calls it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read *args*; wrong ones are in the log, and nothing is done."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from memdb.agents.places import log_error

            log_error("hook", error.format_message())
            ctx.exit(0)


@agent.command(
    cls=HookCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="\b\nExample:\n  memdb agent hook stop --program claude-code < payload.json",
)
@click.argument("event", default="")
@click.option("--program", default="", metavar="NAME", help="The program that calls the hook.")
@file_option
def hook(event: str, program: str, memory: str | None) -> None:
    """
    Do what a coding agent's hook asks for, with its payload on standard input.

    EVENT is session-start, prompt, stop, subagent-stop, pre-compact or session-end, or the
    program's own name of it. Its exit code is always 0, and it ends within three seconds; `memdb
    agent status` shows errors.
    """
    from memdb.agents.hooks import process_age_s, run_hook

    told, is_done = run_hook(event, program, memory, sys.stdin.buffer, process_age_s())
    try:
        if told:
            click.echo(told)
        sys.stdout.flush()
    except OSError:  # the agent does not read it
        is_done = False
    if not is_done:
        os._exit(0)


COMMANDS = {"agent": agent}
