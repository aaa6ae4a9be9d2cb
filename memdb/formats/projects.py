"""
Projects of coding agents: the app of a working directory.

A project is an app, named by the absolute path of its folder. The folder is the folder of the Git
repository around the working directory, and for a worktree that of the main repository. Without a
repository it is the directory itself.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from memdb.text.validate import MAX_NAME_CHARS


def app_of(folder: str | os.PathLike[str] | None) -> str:
    """Return the app of a working directory, which may have been deleted."""
    start = Path(os.path.abspath(os.path.expanduser(folder or os.getcwd())))
    for one in (start, *start.parents):
        git = one / ".git"
        try:
            if git.is_dir():
                return _name_of(one)
            if git.is_file():
                return _name_of(_main_of(git) or one)
        except OSError:  # not readable, or a name that no folder can have
            continue
    return _name_of(start)


def _main_of(git: Path) -> Path | None:
    """Return the folder of the repository that a worktree's `.git` file names."""
    try:
        told = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    except (OSError, UnicodeDecodeError):
        return None
    gitdir = Path(os.path.normpath(git.parent / told))
    is_worktree = gitdir.parent.name == "worktrees" and gitdir.parent.parent.name == ".git"
    return gitdir.parents[2] if is_worktree else None


def _name_of(folder: Path) -> str:
    name = str(folder).encode("utf-8", "replace").decode()
    if len(name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: MAX_NAME_CHARS - 20]}...{digest}"
