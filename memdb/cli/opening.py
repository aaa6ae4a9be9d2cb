"""
From FILE, --user and --app to an open file and the scope that is meant.

A command that only reads makes no file, and no command guesses between users.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

import click
from click.core import ParameterSource

from memdb.cli.output import note, one_line
from memdb.cli.values import embedder_named, model_named
from memdb.errors import FileError, InvalidInput, NotFound, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.api.session import Session

DEFAULT_APP = "default"
MAX_NAMED = 10
STATIC_MODEL = "static-en-1"  # the name of `memdb.embeddings.static_model`, not loaded here


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


class UnknownUser(NotFound):
    """The file has no memory of the user that was named."""

    def __init__(self, path: str, scope: Scope, scopes: list[dict[str, str]]) -> None:
        """Say that *scope* is none of the *scopes* of the file at *path*."""
        super().__init__("user", scope.user)
        self.scopes = scopes
        apps = [known["app"] for known in scopes if known["user"] == scope.user]
        advice = f"it has {_names(scopes) or 'nobody yet'}"
        if apps:
            advice += f"; {scope.user} is a user of app {apps[0]!r}: give --app {apps[0]}"
        self.args = (f"no user {scope.user!r} of app {scope.app!r} in {path}: {advice}",)


@contextmanager
def opened(
    path: str,
    *,
    create: bool = False,
    model: str | None = None,
    secrets: str | None = None,
    embedder: str | None = None,
) -> Iterator[MemDB]:
    """
    Open the file at *path* for a `with` block.

    A file that a program embeds with its own model stays so: the vectors of
    another model beside them would be of no use to that program.

    Args:
        create: Make it where it is absent or empty.
        model: What is to write summaries, as `values.model_named` takes it.
        secrets: What to do with keys and passwords in entries; None: refuse them.
        embedder: What is to make vectors, as `memdb.open` takes it by name;
            None: the built-in table, unless a program uses another.

    Raises:
        FileError: it cannot be used, or is absent and *create* is False.
        InvalidInput: there is no such model or embedder.
    """
    import memdb

    shown = click.format_filename(path)
    if path == ":memory:":
        raise FileError(":memory: would be gone at the end of the command: give a path", path)
    if not create and not _size(path):
        what = "does not exist: check the path" if _size(path) is None else "is empty"
        raise FileError(f"{shown} {what}; `memdb import` or `memdb remember` make a file", shown)
    writer = None if model is None else model_named(model)
    if embedder is not None:
        db = memdb.open(path, model=writer, secrets=secrets, embedder=embedder_named(embedder))
    else:
        db = memdb.open(path, model=writer, secrets=secrets)
    try:
        models = [] if embedder is not None else _models(db)
        if models and STATIC_MODEL not in models:
            db.close()
            db = memdb.open(path, embedder=None, model=writer, secrets=secrets)
            note(
                f"{shown} is embedded by {', '.join(map(one_line, models))}: recall goes by words "
                "alone, and nothing is embedded, unless --embedder or MEMDB_EMBEDDER names it."
            )
        yield db
    finally:
        db.close()


def _models(db: MemDB) -> list[str]:
    """Return the models whose vectors are in use; [] where a damaged file cannot tell."""
    try:
        return [space.model for space in db.file.spaces() if space.state != "retired"]
    except StorageError:
        return []  # `memdb check` has to open it too, and says what is damaged


@contextmanager
def opened_scope(
    path: str,
    user: str | None,
    app: str | None,
    *,
    create: bool = False,
    model: str | None = None,
    secrets: str | None = None,
    embedder: str | None = None,
) -> Iterator[Scope]:
    """
    Open *path* for a `with` block, and find the scope that *user* and *app* mean.

    Args:
        user: None: the only one of the file.
        app: None: "default"; with *user* None, any.
        create: Make the file and the scope where they are new.
        model, secrets, embedder: As for `opened`.

    Raises:
        WhichUser: *user* is None, and there is not exactly one scope.
        UnknownUser: it is absent, and *create* is False.
        FileError: as `opened` does.
    """
    if create and user is None and not _size(path):
        raise WhichUser(click.format_filename(path), [])  # before a file is made
    with opened(path, create=create, model=model, secrets=secrets, embedder=embedder) as db:
        yield choose_scope(db, user, app, new=create)


def choose_scope(db: MemDB, user: str | None, app: str | None, *, new: bool = False) -> Scope:
    """
    Return the scope that *user* and *app* mean.

    Args:
        new: Whether it may be a new one.

    Raises:
        WhichUser: *user* is None, and there is not exactly one scope.
        UnknownUser: it is absent, and *new* is False.
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
        raise UnknownUser(click.format_filename(db.path), chosen, as_dicts(known))
    return chosen


def refuse_user() -> None:
    """Refuse --user beside --all-users; MEMDB_USER is overridden by it."""
    given = click.get_current_context().get_parameter_source("user")
    if given is ParameterSource.COMMANDLINE:
        raise click.UsageError("--all-users and --user exclude each other.")


def session_of(scope: Scope, name: str) -> Session:
    """Return the session called *name*; NotFound rather than an empty new one."""
    session = scope.session(name)
    if not session.last_seq and all(known.name != name for known in scope.sessions()):
        raise NotFound("session", name)
    return session


def bytes_of(path: str) -> int:
    """Return the bytes that a file takes on the disk, its WAL included."""
    return (_size(path) or 0) + (_size(f"{path}-wal") or 0)


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
