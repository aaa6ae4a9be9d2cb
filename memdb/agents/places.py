"""
Places of coding agents: the memory file, the app of a project, and the log of hooks.

A project is an app, see `memdb.formats.projects`. All agents of a person share one file, and all
agents in a project share one memory.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdb.text.validate import MAX_NAME_CHARS, check_path

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_VARIABLE = "MEMDB_AGENT_FILE"
FILE_NAME = "agents.db"

MAX_LOG_BYTES = 256_000
KEPT_LOG_LINES = 200


def data_folder() -> Path:
    """Return memdb's folder inside the user's data folder; it may not exist yet."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "memdb"


def memory_file(given: str | None = None) -> Path:
    """
    Return the memory file: *given*, that of MEMDB_AGENT_FILE, or one in `data_folder`.

    Raises:
        InvalidInput: the path is the address of a server, whose password would be in the settings.
    """
    chosen = given or os.environ.get(FILE_VARIABLE)
    if chosen:
        check_path(chosen, "--file" if given else FILE_VARIABLE, is_database=False)
    return Path(chosen).expanduser().absolute() if chosen else data_folder() / FILE_NAME


def make_folder(path: Path) -> None:
    """Make the folder of a file, accessible to its user only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def user_name() -> str:
    """Return the user of the memory: MEMDB_USER, or the login name; "default" if there is none."""
    try:
        name = os.environ.get("MEMDB_USER") or getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user in the system, as in some containers
        name = ""
    return name.strip()[:MAX_NAME_CHARS] or "default"


def log_file() -> Path:
    """Return the log of hooks that failed."""
    return data_folder() / "agent-errors.jsonl"


def log_error(event: str, error: BaseException | str, **facts: str | None) -> None:
    """
    Add a line to the log of hooks; errors of writing are ignored.

    Above 256 kB the log keeps only its newest 200 lines. The log contains no text of a
    conversation.
    """
    message = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    line = {"time_ms": int(time.time() * 1000), "event": event, **facts, "error": message[:500]}
    try:
        path = log_file()
        make_folder(path)
        if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
            kept = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            path.write_text("".join(kept[-KEPT_LOG_LINES:]), encoding="utf-8")
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps(line) + "\n")
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return


def read_errors(limit: int = 5) -> list[Mapping[str, Any]]:
    """Return the newest lines of the log of hooks, oldest of them first."""
    try:
        lines = log_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found: list[Mapping[str, Any]] = []
    for line in lines[-limit:]:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
