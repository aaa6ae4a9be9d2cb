"""
Shared by all commands: options, opening FILE, choosing the user, errors.

`verb` makes a command of a function that takes a `Call`. A `Call` has the values of the common
options, and methods to open FILE and to print the answer. A command that only reads makes no file,
and no command guesses between users.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memdb.cli import discard_output
from memdb.cli.command import BY_OPTION, FILE, KEY_FILE, TEXT, VALUE, Command, is_file
from memdb.cli.defaults import shown_path
from memdb.cli.options import JSON, SCOPE_OPTIONS, params_of, parsed, text_or_stdin
from memdb.cli.output import flush, is_terminal, note, one_line, print_json, print_records, say
from memdb.errors import FileError, InvalidInput, NotFound, ReadOnly, StorageError
from memdb.text.validate import check_path, is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.cli.output import Column
    from memdb.models.record import Record
    from memdb.models.types import OpenMode


DEFAULT_APP = "default"
MAX_NAMED = 10
STATIC_MODEL = "static-en-1"  # the name of `memdb.embeddings.static_model`, not loaded here


def verb(
    *examples: str,
    of: click.Group | None = None,
    name: str | None = None,
    file: bool = True,
    scope: bool = True,
    json: bool = True,
    like: Callable[..., Any] | None = None,
    **chosen: Any,
) -> Callable[[Callable[..., None]], click.Command]:
    """
    Return a decorator that makes a command of a function.

    The function takes a `Call` and its own options. A value "-" for its *text*
    is read from standard input.

    Args:
        examples: Lines under Example in the help.
        of: The group of the command; None means a top-level command.
        name: The name; None means that of the function.
        file, scope, json: Whether it takes FILE, --user and --app, and --json.
        like: A call of the API whose parameters it takes too, unless they are None.
        chosen: For `params_of`.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        own = [*reversed(getattr(function, "__click_params__", []))]
        own += [] if like is None else params_of(like, **chosen)
        params = [*[FILE] * file, *own, *SCOPE_OPTIONS[: 2 * scope], *[JSON] * json]
        is_made = like is not None  # the API has the defaults of its own options
        optional = {str(one.name) for one in params if is_made and isinstance(one, click.Option)}
        command = Command(
            name or function.__name__,
            callback=lambda **given: _run(function, given, optional),
            params=[*params, *[BY_OPTION, KEY_FILE] * any(map(is_file, params))],
            help=function.__doc__,
            epilog="\b\nExample:\n" + "\n".join(f"  {line}" for line in examples),
        )
        if of is not None:
            of.add_command(command)
        return command

    return decorate


def _run(function: Callable[..., None], given: dict[str, Any], optional: set[str]) -> None:
    call = Call({name: given.pop(name) for name in Call.OPTIONS if name in given})
    left = [name for name in optional & given.keys() if given[name] in (None, ())]
    for name in left:
        del given[name]
    if given.get(TEXT) is not None:
        given[TEXT] = text_or_stdin(given[TEXT])
    if given.get(VALUE) == "-":
        given[VALUE] = parsed(text_or_stdin("-"))
    function(call, **given)


class Call:
    """The values of the common options of one command; opens FILE and prints the answer."""

    OPTIONS = ("file", "user", "app", "as_json", "model", "embedder")

    def __init__(self, given: dict[str, Any]) -> None:
        """Store the options in *given*; a command may lack some."""
        self.takes_user = "user" in given
        self.user: str | None = given.get("user")
        self.app: str | None = given.get("app")
        self.as_json: bool = given.get("as_json", False)
        self.model: str | None = given.get("model")
        self.embedder: str | None = given.get("embedder")
        self.use_file(given.get("file", ""))

    def use_file(self, path: str) -> None:
        """
        Use *path* as FILE, also in a command whose arguments have other names.

        Raises:
            InvalidInput: *path* is an address that memdb does not open.
        """
        check_path(path, "FILE", is_database=True)
        self.file, self.shown_file = path, shown_path(path)

    @contextmanager
    def open(
        self,
        *,
        create: bool = False,
        read_only: bool = False,
        as_kept: bool = False,
        writer: str = "cli",
    ) -> Iterator[MemDB]:
        """
        Open FILE for a `with` block.

        A file that a program embeds with its own model is opened without an embedder. Vectors of
        another model would be of no use to that program. A file on read-only media is opened with
        mode="read".

        Args:
            create: Make it if it is absent or empty.
            read_only: Open it with mode="read" in any case.
            as_kept: Leave `Settings.extract` open if the file does; else work learns nothing then.
            writer: What the rows say that the command writes.

        Raises:
            FileError: FILE cannot be used, is absent and *create* is False, or is a folder, and
                the command has no --user.
            InvalidInput: there is no such model or embedder.
        """
        import memdb

        path, shown = self.file, self.shown_file
        if os.path.isdir(path):
            from memdb.folder.folder import file_in

            if not self.takes_user:
                raise FileError(
                    f"{shown} is a folder with a file for each user: give the path of one of them",
                    shown,
                )
            path = file_in(path, self.user, create=create)
        if path == ":memory:":
            raise FileError(":memory: would be lost at the end of the command: give a path", path)
        if not create and not is_address(path) and not size_of(path):
            what = "does not exist: check the path" if size_of(path) is None else "is empty"
            raise FileError(
                f"{shown} {what}; `memdb import` or `memdb remember` creates a file", shown
            )
        _refuse_secrets("--model", self.model or "")
        embedder = embedder_named(self.embedder)
        mode: OpenMode = "read" if read_only or not (create or is_writable(path)) else "write"
        options: dict[str, Any] = {"mode": mode, "model": self.model, "writer": writer}
        db = memdb.open(path, embedder=embedder, **options)
        try:
            models = [] if self.embedder is not None else _models(db)
            if models and STATIC_MODEL not in models:
                db.close()
                db = memdb.open(path, embedder=None, **options)
                note(
                    f"{shown} is embedded by {', '.join(map(one_line, models))}: recall goes by "
                    "words alone, and nothing is embedded, unless --embedder or MEMDB_EMBEDDER "
                    "names it."
                )
            if not as_kept:
                db.settings.update(keep=False, extract=bool(db.settings.get().extract))
            yield db
        except ReadOnly as error:
            if mode == "write":
                raise
            raise ReadOnly(
                f"{shown} cannot be written: check the permissions of the file and its folder, or "
                "copy it to a folder of your own",
                shown,
            ) from error
        finally:
            db.close()

    @contextmanager
    def scope(self, *, create: bool = False) -> Iterator[Scope]:
        """
        Open FILE for a `with` block, and return the scope of --user and --app.

        Args:
            create: Make the file and the scope if they are new.

        Raises:
            WhichUser: --user is missing, and FILE does not have exactly one.
            UnknownUser: the user is absent, and *create* is False.
            FileError: as `open` does.
        """
        if create and self.user is None and not (is_address(self.file) or size_of(self.file)):
            raise WhichUser(self.shown_file, [])  # before a file is made
        with self.open(create=create) as db:
            yield self.choose(db, new=create)

    def choose(self, db: MemDB, *, new: bool = False) -> Scope:
        """
        Return the scope of --user and --app; *new*: it may be a new one.

        Raises:
            WhichUser: --user is missing, and there is not exactly one scope.
            UnknownUser: the user is absent, and *new* is False.
        """
        if self.user is not None and new:
            return db.scope(self.user, self.app or DEFAULT_APP)
        known = [scope for scope in db.scopes() if scope.user]  # "" is shared by all users
        if self.user is None:
            known = [scope for scope in known if self.app in (None, scope.app)]
            if len(known) == 1:
                return known[0]
            raise WhichUser(click.format_filename(db.path), scopes_to_dicts(known))
        chosen = db.scope(self.user, self.app or DEFAULT_APP)
        if all((scope.app, scope.user) != (chosen.app, chosen.user) for scope in known):
            raise UnknownUser(click.format_filename(db.path), chosen, scopes_to_dicts(known))
        return chosen

    def reply(
        self, data: Record | dict[str, Any] | list[Any], text: str | Callable[[], object]
    ) -> None:
        """
        Print *data* with --json; otherwise *text*, or what calling it prints.

        A reader that stops early, like `head`, changes nothing of what the command does.
        """
        try:
            if self.as_json:
                print_json(_to_plain(data))
            elif isinstance(text, str):
                say(text)
            else:
                text()
            flush()
        except BrokenPipeError:
            discard_output()

    def reply_records(
        self, records: Iterable[Record], columns: Sequence[Column], *, empty: str = ""
    ) -> None:
        """Print *records* as JSON or as a table; *empty* is the note if there is none."""
        rows = list(records)
        self.reply(rows, lambda: print_records(columns, rows, empty=empty))


def _to_plain(value: Any) -> Any:
    """Return *value* with the records in it as JSON values."""
    if isinstance(value, dict):
        return {name: _to_plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


class WhichUser(InvalidInput):
    """The user is not given, and the file does not have exactly one."""

    def __init__(self, path: str, scopes: list[dict[str, str]]) -> None:
        """List the *scopes* of the file at *path*."""
        self.scopes = scopes
        super().__init__(
            f"{path} holds the memory of {len(scopes)} users, say which with --user: "
            f"{_names(scopes)}"
            if scopes
            else f"nobody's memory is in {path} yet: say whose it is with --user NAME, or set "
            "MEMDB_USER"
        )


class UnknownUser(NotFound):
    """The file has no memory of the given user."""

    def __init__(self, path: str, scope: Scope, scopes: list[dict[str, str]]) -> None:
        """Name the missing *scope* and the *scopes* of the file at *path*."""
        super().__init__("user", scope.user)
        self.scopes = scopes
        apps = [known["app"] for known in scopes if known["user"] == scope.user]
        advice = f"it has {_names(scopes) or 'nobody yet'}"
        if apps:
            advice += f"; {scope.user} is a user of app {apps[0]!r}: give --app {apps[0]}"
        self.args = (f"no user {scope.user!r} of app {scope.app!r} in {path}: {advice}",)


def _models(db: MemDB) -> list[str]:
    """Return the models whose vectors are in use; [] where a damaged file cannot tell."""
    try:
        return [
            space.model
            for space in db.file.info().spaces
            if space.state not in ("retired", "given")
        ]
    except StorageError:
        return []  # `memdb check` has to open it too, and says what is damaged


def refuse_user() -> None:
    """Refuse --user together with --all-users, which overrides MEMDB_USER."""
    given = click.get_current_context().get_parameter_source("user")
    if given is ParameterSource.COMMANDLINE:
        raise click.UsageError("--all-users and --user cannot be used together.")


def scopes_to_dicts(scopes: list[Scope]) -> list[dict[str, str]]:
    """Return *scopes* as JSON values."""
    return [{"app": scope.app, "user": scope.user} for scope in scopes]


def _names(scopes: list[dict[str, str]]) -> str:
    shown = [
        scope["user"] if scope["app"] == DEFAULT_APP else f"{scope['user']} (app {scope['app']})"
        for scope in scopes[:MAX_NAMED]
    ]
    more = len(scopes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def is_writable(path: str) -> bool:
    """Return whether a file and its folder can be written, as files in WAL mode need."""
    if is_address(path):
        return True  # the server decides
    folder = os.path.dirname(os.path.abspath(path))
    return os.access(path, os.W_OK) and os.access(folder, os.W_OK)


def size_of(path: str) -> int | None:
    """Return the bytes of the file at *path*, None if there is none."""
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def embedder_named(spec: str | None) -> str | None:
    """
    Return the embedder for `memdb.open`: None for "none", the default for None.

    Raises:
        InvalidInput: *spec* contains a secret.
    """
    _refuse_secrets("--embedder", spec or "")
    return None if spec == "none" else spec or "static"


def _refuse_secrets(option: str, spec: str) -> None:
    """Refuse a URL with secrets: every user of the machine can read what is typed."""
    _, at, rest = spec.partition("@http")
    if not at:
        return
    from memdb.text.redaction import url_secrets

    try:
        open_secrets = url_secrets(f"http{rest}")
    except ValueError:  # no URL at all, as the adapter says itself
        open_secrets = []
    if open_secrets:
        raise InvalidInput(
            f"{option} contains a user, password or query, which other users of this computer can "
            "read: put the key into OPENAI_API_KEY, and a whole URL into OPENAI_BASE_URL"
        )


def confirm(question: str, *, yes: bool) -> None:
    """
    Return if the user agrees; without a terminal only *yes* agrees.

    Raises:
        click.UsageError: there is no terminal to ask on.
        click.Abort: the answer was no.
    """
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError("No terminal can ask for confirmation: give --yes to delete.")
    click.confirm(question, abort=True, err=True)
