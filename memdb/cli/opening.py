"""
From FILE, --user and --app to an open file and the scope that is meant.

A command that only reads makes no file, and no command guesses between users.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

import click

from memdb.cli.output import note
from memdb.errors import FileError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.memory import MemDB
    from memdb.scope import Scope

DEFAULT_APP = "default"
MAX_NAMED = 10


class WhichUser(InvalidInput):
    """Nobody said whose memory is meant, and the file does not tell."""

    def __init__(self, path: str, scopes: list[dict[str, str]]) -> None:
        """Say which *scopes* the file at *path* has."""
        self.scopes = scopes
        super().__init__(
            f"{path} holds the memory of {len(scopes)} users, say which with --user: "
            f"{_names(scopes)}"
            if scopes
            else f"nobody's memory is in {path} yet: say whose it is with --user NAME, or set "
            "MEMDB_USER"
        )


@contextmanager
def opened(path: str, *, create: bool = False) -> Iterator[MemDB]:
    """
    Open the file at *path* for a `with` block.

    Args:
        create: Make it where it is absent or empty.

    Raises:
        FileError: it cannot be used, or is absent and *create* is False.
    """
    import memdb

    shown = click.format_filename(path)
    if path == ":memory:":
        raise FileError(":memory: would be gone at the end of the command: give a path", path)
    if not create and not _size(path):
        what = "does not exist: check the path" if _size(path) is None else "is empty"
        raise FileError(f"{shown} {what}; `memdb import` or `memdb remember` make a file", shown)
    with memdb.open(path) as db:
        yield db


@contextmanager
def opened_scope(
    path: str, user: str | None, app: str | None, *, create: bool = False
) -> Iterator[Scope]:
    """
    Open *path* for a `with` block, and find the scope that *user* and *app* mean.

    Args:
        user: None: the only one of the file.
        app: None: "default"; with *user* None, any.
        create: Make the file and the scope where they are new.

    Raises:
        WhichUser: *user* is None, and there is not exactly one scope.
        FileError: as `opened` does.
    """
    if create and user is None and not _size(path):
        raise WhichUser(click.format_filename(path), [])  # before a file is made
    with opened(path, create=create) as db:
        yield choose_scope(db, user, app, new=create)


def choose_scope(db: MemDB, user: str | None, app: str | None, *, new: bool = False) -> Scope:
    """
    Return the scope that *user* and *app* mean.

    Args:
        new: Whether it may be a new one. If not, and it is absent, a note tells
            the user so: what they read then is empty.

    Raises:
        WhichUser: *user* is None, and there is not exactly one scope.
    """
    if user is not None and new:
        return db.scope(user, app or DEFAULT_APP)
    known = db.scopes()
    if user is None:
        known = [scope for scope in known if app in (None, scope.app)]
        if len(known) == 1:
            return known[0]
        raise WhichUser(click.format_filename(db.path), as_dicts(known))
    chosen = db.scope(user, app or DEFAULT_APP)
    if all((scope.app, scope.user) != (chosen.app, chosen.user) for scope in known):
        listed = _names(as_dicts(known)) or "nobody"
        note(f"There is no user {user!r} of app {chosen.app!r} in this file; it has: {listed}.")
    return chosen


def as_dicts(scopes: list[Scope]) -> list[dict[str, str]]:
    """Return *scopes* as JSON values."""
    return [{"app": scope.app, "user": scope.user} for scope in scopes]


def _names(scopes: list[dict[str, str]]) -> str:
    shown = [
        scope["user"] if scope["app"] == DEFAULT_APP else f"{scope['user']} (app {scope['app']})"
        for scope in scopes[:MAX_NAMED]
    ]
    more = len(scopes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _size(path: str) -> int | None:
    """Return the bytes of the file at *path*, None if there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
