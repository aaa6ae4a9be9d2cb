"""
Shared by all commands: options, opening FILE, choosing the user, errors.

`verb` makes a command of a function that takes a `Call`: the values of the
common options, with methods to open FILE and to print the answer. A command
that only reads makes no file, and no command guesses between users.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memdb.cli import discard_output
from memdb.cli.command import BY_OPTION, FILE, KEY_FILE, TEXT, Command, is_file
from memdb.cli.defaults import shown_path
from memdb.cli.output import (
    flush,
    is_terminal,
    note,
    one_line,
    print_json,
    print_records,
    say,
)
from memdb.errors import FileError, InvalidInput, NotFound, ReadOnly, StorageError
from memdb.text.validate import check_path, is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.cli.output import Column
    from memdb.models.record import Record
    from memdb.models.types import OpenMode, SecretAction

    Base = click.ParamType[int]
else:
    Base = click.ParamType  # click 8.1 cannot be subscripted

DEFAULT_APP = "default"
MAX_NAMED = 10
STATIC_MODEL = "static-en-1"  # the name of `memdb.embeddings.static_model`, not loaded here


class Moment(Base):
    """A time as the library takes it: a date or time, a span back such as 30d, or English."""

    name = "time"
    is_end = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return UTC milliseconds."""
        from memdb.models.ids import system_clock
        from memdb.text.times import when_ms

        try:
            found = when_ms(value, "time", system_clock(), end=self.is_end)
        except InvalidInput:
            found = None
        if found is None:
            self.fail(
                f"{value!r} is no date or time: write 2025-03-01, 2025-03-01T09:14+01:00, 30d "
                "or '2 weeks ago'",
                param,
                ctx,
            )
        return found


class End(Moment):
    """A time up to which something counts: a day to its end."""

    is_end = True


class MomentOrSpan(Moment):
    """A time, a span from now such as 30d, or "never"."""

    name = "time|span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return UTC milliseconds; a span and "never" as they are, for the library to read."""
        if value == "never" or (value[:-1].isdecimal() and value[-1] in "dhm"):
            return value
        return super().convert(value, param, ctx)


class Name(click.types.StringParamType):
    """A text that names something in FILE, which the shell completes."""

    def __init__(self, kind: str) -> None:
        """Complete names of a *kind*."""
        self.kind = kind

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 (click gives it)
        incomplete: str,
    ) -> list[Any]:
        """Return the names that begin so."""
        from memdb.cli.completion import complete

        return complete(self.kind, ctx, incomplete)


# What parameters of a name name, wherever they are.
NAMED_KINDS = {
    **{name: name for name in ("user", "app", "session", "branch", "category", "entry")},
    **dict.fromkeys(("entry_ref", "old_ref", "new_ref"), "entry"),
}


def _complete_names(params: list[click.Parameter], noun: str | None) -> None:
    """Let the shell complete the names that *params* take."""
    kinds = NAMED_KINDS | ({"name": "artifact"} if noun == "artifact" else {})
    for param in params:
        kind = kinds.get(param.name or "")
        if kind and type(param.type) is click.types.StringParamType:
            param.type = Name(kind)


MOMENT = Moment()
END = End()
EXPIRY = MomentOrSpan()


def text_or_stdin(text: str) -> str:
    """
    Return *text*; for "-" the text on standard input, without its last line end.

    Raises:
        InvalidInput: standard input is not UTF-8.
    """
    if text != "-":
        return text
    data = sys.stdin.buffer.read()
    try:
        read = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is not UTF-8 at byte {error.start}: convert it, for example with iconv"
        ) from error
    return read.removesuffix("\n").removesuffix("\r")


SCOPE_OPTIONS = (
    click.Option(
        ["--user"],
        envvar="MEMDB_USER",
        show_envvar=True,
        metavar="NAME",
        help="Whose memory it is.",
    ),
    click.Option(
        ["--app"],
        envvar="MEMDB_APP",
        show_envvar=True,
        metavar="NAME",
        help='The program the memory belongs to; "default" without it.',
    ),
)
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document.")

embedder_option = click.option(
    "--embedder",
    envvar="MEMDB_EMBEDDER",
    show_envvar=True,
    metavar="NAME",
    help="What makes the vectors: static, use, fastembed:DIR, openai:NAME, openai:NAME@URL, "
    "llm:NAME, or none for words alone. Keys come from the environment, or from where llm "
    "keeps them.",
)
secrets_option = click.option(
    "--secrets",
    type=click.Choice(("refuse", "redact", "allow")),
    help="What to do with keys and passwords.",
)
BRANCH = "memdb.branch"


def _keep_branch(context: click.Context, _option: click.Parameter, value: str | None) -> None:
    context.meta[BRANCH] = value


branch_option = click.option(
    "--branch",
    metavar="NAME",
    expose_value=False,
    callback=_keep_branch,
    help="The branch of the conversation; without it the conversation itself.",
)


def session_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take SESSION and --branch; see `session_of`."""
    return click.argument("session")(branch_option(command))


def branch_given() -> str | None:
    """Return what --branch of the running command names, None without it."""
    found: str | None = click.get_current_context().meta.get(BRANCH)
    return found


def model_option(task: str, without: str) -> Callable[[Any], Any]:
    """Return --model, which names the language model that does *task*."""
    return click.option(
        "--model",
        metavar="NAME",
        help=f"Who {task}: llm:NAME, openai:NAME or openai:NAME@URL; {without} without it. "
        "Keys come from the environment, or from where llm keeps them.",
    )


def limit_option(default: int = 10, text: str | None = None) -> Callable[[Any], Any]:
    """Return --limit, from 1 to 1,000."""
    return click.option(
        "--limit", type=click.IntRange(1, 1000), default=default, show_default=True, help=text
    )


def confirm_options(function: Any) -> Any:
    """Give the command --yes and --dry-run."""
    dry = click.option("--dry-run", is_flag=True, help="Say what would go, and keep it.")
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(dry(function))


def verb(
    *examples: str,
    of: click.Group | None = None,
    name: str | None = None,
    file: bool = True,
    scope: bool = True,
    json: bool = True,
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
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        own = [*reversed(getattr(function, "__click_params__", []))]
        params = [*[FILE] * file, *own, *SCOPE_OPTIONS[: 2 * scope], *[JSON] * json]
        _complete_names(params, None if of is None else of.name)
        command = Command(
            name or function.__name__,
            callback=lambda **given: _run(function, given),
            params=[*params, *[BY_OPTION, KEY_FILE] * any(map(is_file, params))],
            help=function.__doc__,
            epilog="\b\nExample:\n" + "\n".join(f"  {line}" for line in examples),
        )
        if of is not None:
            of.add_command(command)
        return command

    return decorate


def _run(function: Callable[..., None], given: dict[str, Any]) -> None:
    call = Call({name: given.pop(name) for name in Call.OPTIONS if name in given})
    if given.get(TEXT) is not None:
        given[TEXT] = text_or_stdin(given[TEXT])
    function(call, **given)


class Call:
    """The values of the common options of one command; opens FILE and prints the answer."""

    OPTIONS = ("file", "user", "app", "as_json", "secrets", "model", "embedder")

    def __init__(self, given: dict[str, Any]) -> None:
        """Hold the options in *given*; a command may lack some."""
        self.user: str | None = given.get("user")
        self.app: str | None = given.get("app")
        self.as_json: bool = given.get("as_json", False)
        self.secrets: SecretAction | None = given.get("secrets")
        self.model: str | None = given.get("model")
        self.embedder: str | None = given.get("embedder")
        self.use_file(given.get("file", ""))

    def use_file(self, path: str) -> None:
        """
        Take *path* for FILE, also in a command whose arguments are called otherwise.

        Raises:
            InvalidInput: it is an address that memdb does not open.
        """
        check_path(path, "FILE", is_database=True)
        self.file, self.shown_file = path, shown_path(path)

    @contextmanager
    def open(
        self, *, create: bool = False, read_only: bool = False, as_kept: bool = False
    ) -> Iterator[MemDB]:
        """
        Open FILE for a `with` block.

        A file that a program embeds with its own model is opened without an
        embedder: vectors of another model would be of no use to that program. A
        file on read-only media is opened with mode="read".

        Args:
            create: Make it if it is absent or empty.
            read_only: Open it with mode="read" in any case.
            as_kept: Leave `Settings.extract` open if the file does; else work learns nothing then.

        Raises:
            FileError: it cannot be used, or is absent and *create* is False.
            InvalidInput: there is no such model or embedder.
        """
        import memdb

        path, shown = self.file, self.shown_file
        if os.path.isdir(path):
            from memdb.folder.folder import file_in

            path = file_in(path, self.user, create=create)
        if path == ":memory:":
            raise FileError(":memory: would be gone at the end of the command: give a path", path)
        if not create and not is_address(path) and not size_of(path):
            what = "does not exist: check the path" if size_of(path) is None else "is empty"
            raise FileError(
                f"{shown} {what}; `memdb import` or `memdb remember` make a file", shown
            )
        _refuse_secrets("--model", self.model or "")
        embedder = embedder_named(self.embedder)
        mode: OpenMode = "read" if read_only or not (create or is_writable(path)) else "write"
        db = memdb.open(path, mode=mode, model=self.model, embedder=embedder)
        try:
            models = [] if self.embedder is not None else _models(db)
            if models and STATIC_MODEL not in models:
                db.close()
                db = memdb.open(path, mode=mode, model=self.model, embedder=None)
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
                f"{shown} cannot be written: it and its folder must be writable. Check the "
                "permissions, or copy it to a folder of your own",
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
            space.model for space in db.file.spaces() if space.state not in ("retired", "given")
        ]
    except StorageError:
        return []  # `memdb check` has to open it too, and says what is damaged


def refuse_user() -> None:
    """Refuse --user together with --all-users, which overrides MEMDB_USER."""
    given = click.get_current_context().get_parameter_source("user")
    if given is ParameterSource.COMMANDLINE:
        raise click.UsageError("--all-users and --user exclude each other.")


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
    Return what `memdb.open` takes for --embedder: None for "none", the default for None.

    Raises:
        InvalidInput: it holds a secret.
    """
    _refuse_secrets("--embedder", spec or "")
    return None if spec == "none" else spec or "static"


def _refuse_secrets(option: str, spec: str) -> None:
    """Refuse a URL with secrets: every user of the machine can read what is typed."""
    from memdb.text.redaction import url_secrets

    _, at, rest = spec.partition("@http")
    try:
        open_secrets = url_secrets(f"http{rest}") if at else []
    except ValueError:  # no URL at all, as the adapter says itself
        open_secrets = []
    if open_secrets:
        raise InvalidInput(
            f"{option} holds a user, password or query: what is typed can be read by others; put "
            "the key into OPENAI_API_KEY, and a whole URL into OPENAI_BASE_URL"
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
        raise click.UsageError("There is no terminal to ask on: give --yes to delete.")
    click.confirm(question, abort=True, err=True)
