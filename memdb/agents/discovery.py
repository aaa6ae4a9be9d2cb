"""Past transcripts: where a program stores them, and their import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdb.agents.capture import capture, forget_position
from memdb.errors import FileError, InvalidInput
from memdb.formats.transcripts import NO_TRANSCRIPTS
from memdb.models.record import Record, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

# The folders below that of a program, and the names of transcripts in them.
PLACES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", ("projects",), "*.jsonl"),
    "codex": ("CODEX_HOME", ".codex", ("sessions", "archived_sessions"), "rollout-*.jsonl"),
}


class Imported(Record):
    """
    Result of an import.

    Attributes:
        files: Transcripts that were looked at.
        sessions: Sessions to which messages were added.
        messages: Messages that were added.
        apps: The projects, with the number of messages added to each.
        left_out: Number of lines and files that were left out, by reason.
        failed: Files that could not be read, with the reason.
    """

    files: int
    sessions: int
    messages: int
    apps: dict[str, int]
    left_out: dict[str, int]
    failed: dict[str, str]

    def __str__(self) -> str:
        """Return a report of a few lines."""
        sessions, files = counted(self.sessions, "session"), counted(self.files, "transcript")
        lines = [f"Added {counted(self.messages, 'message')} of {sessions}, from {files}."]
        lines += [f"  {count:,} to {app}" for app, count in sorted(self.apps.items())]
        if self.left_out:
            lines.append("Left out:")
            ordered = sorted(self.left_out.items(), key=lambda one: (-one[1], one[0]))
            lines += [f"  {counted(count, 'line')} {reason}" for reason, count in ordered]
        lines += [f"  {path}: {reason}" for path, reason in sorted(self.failed.items())]
        return "\n".join(lines)


def find_transcripts(program: str, path: str | os.PathLike[str] | None = None) -> list[Path]:
    """
    Return the transcripts of a program, sorted by their paths.

    Args:
        program: Its name, as in `memdb agent install`.
        path: A transcript or a folder of them; None means the folder of the program.

    Raises:
        InvalidInput: a path is needed, because memdb does not know the program's folder.
        FileError: there is neither a file nor a folder at *path*.
    """
    if path is None and program not in PLACES:
        raise InvalidInput(f"give the PATH of the transcripts of {program}")
    variable, name, folders, pattern = PLACES.get(program, ("", "", (), "*.json*"))
    if path is not None:
        given = Path(path).expanduser()
        if given.is_file():
            return [given]
        if not given.is_dir():
            raise FileError(f"{given} is neither a file nor a folder: check the path", str(given))
        places = [given]
    else:
        moved = os.environ.get(variable)
        top = Path(moved).expanduser() if moved else Path.home() / name
        places = [top / folder for folder in folders]
    found = {one for place in places for one in place.rglob(pattern)}
    return sorted(one for one in found if one.is_file() and one.name not in NO_TRANSCRIPTS)


def import_transcripts(
    db: MemDB,
    paths: list[Path],
    *,
    user: str,
    app: str | None = None,
    again: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Imported:
    """
    Store the new lines of transcripts; stored messages stay unchanged.

    Args:
        user: The user that the transcripts belong to.
        app: The project; None means that of the working directory in each transcript.
        again: Also read the lines that were read before.
        progress: Called with the bytes done and their total, after each transcript.
    """
    sizes = [_size(path) for path in paths]
    counts: dict[str, Any] = {"apps": {}, "left_out": {}, "failed": {}}
    messages = sessions = done = 0
    for path, size in zip(paths, sizes, strict=True):
        try:
            if again:
                forget_position(db, user, path)
            found = capture(db, path, user=user, app=app, is_whole=True)
        except (FileError, InvalidInput) as error:
            counts["failed"][str(path)] = str(error)
        else:
            messages += found.added
            sessions += bool(found.added)
            if found.added:
                counts["apps"][found.app] = counts["apps"].get(found.app, 0) + found.added
            for reason, count in found.left_out.items():
                counts["left_out"][reason] = counts["left_out"].get(reason, 0) + count
        done += size
        if progress is not None:
            progress(done, sum(sizes))
    return Imported(len(paths), sessions, messages, **counts)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
