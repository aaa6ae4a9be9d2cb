"""`memdb web`, `serve`, `token`, `users`: the page and the JSON API of a file or a folder."""

from __future__ import annotations

import os
import secrets
import signal
import stat
import sys
import threading
import webbrowser
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from memdb.cli.base import DEFAULT_APP, embedder_named, is_writable, size_of, verb
from memdb.cli.command import Noun
from memdb.cli.options import embedder_option
from memdb.cli.output import Column, note, one_line
from memdb.cli.service import ending_by_signals
from memdb.errors import FileError, NotFound
from memdb.models.ids import system_clock
from memdb.providers.shared import missing_extra
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb import Folder, MemDB
    from memdb.cli.base import Call
    from memdb.models.types import OpenMode
    from memdb.web.app import App
    from memdb.web.tokens import Grant


WEB_PORT = 8642
MIN_TOKEN_CHARS = 32
OWN_ONLY = 0o600
NETWORK = ("openai:", "llm:")  # embedders that may ask a server


@verb(
    "memdb web agent.db",
    "memdb web agent.db --read-only --no-browser --port 9000",
    "memdb web agent.db --token-file token.txt",
    scope=False,
    json=False,
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=WEB_PORT,
    show_default=True,
    help="The first port to try; 0 takes any that is free.",
)
@click.option(
    "--host",
    metavar="NAME",
    help=("Address to listen on; only 127.0.0.1 is allowed. For another computer use a tunnel."),
)
@click.option("--read-only", is_flag=True, help="Open FILE for reading only.")
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--token-file",
    type=click.Path(),
    metavar="PATH",
    help=("Accept programs that send the token of this file. The file is created if it is absent."),
)
@click.option("--user", metavar="NAME", help="The user whose file is shown, if FILE is a folder.")
@embedder_option
def web(
    call: Call,
    port: int,
    host: str | None,
    read_only: bool,
    no_browser: bool,
    token_file: str | None,
) -> None:
    """
    Show FILE in a browser, and serve its JSON API.

    If there is no FILE, it is made, and the page shows three first steps. The printed
    link works once, for two minutes; Enter prints a new one. Programs send
    `Authorization: Bearer` with the token of --token-file. Ctrl-C ends it. Needs the
    extra: pip install "memdb-sqlite[web]".
    """
    if host not in (None, "127.0.0.1", "localhost"):
        raise click.UsageError(
            f"--host {host} would show the memory to the network, so only 127.0.0.1 is allowed. "
            f"From another computer use a tunnel: ssh -L {port}:127.0.0.1:{port} THIS-COMPUTER"
        )
    from memdb.agents.places import user_name

    try:
        from memdb.web.app import App, bind, serve
    except ImportError as error:
        raise missing_extra("web", error) from error
    token = None if token_file is None else read_token(token_file)
    is_new = not read_only and size_of(call.file) is None
    with ending_by_signals(), call.open(create=is_new, read_only=read_only, writer="web") as db:
        app = App(
            db,
            read_only=read_only or not is_writable(call.file),
            token=token,
            asks_network=(call.embedder or "").startswith(NETWORK),
            user=user_name(),
        )
        listener = bind(port, app, note)
        _announce(app, call.shown_file, no_browser=no_browser)
        serve(app, listener)


def read_token(path: str) -> str:
    """
    Return the token in the file at *path*; a new one is put there if it is absent.

    Raises:
        FileError: others can read it, it cannot be read, or it contains no token.
    """
    shown = click.format_filename(path)
    token = secrets.token_urlsafe(MIN_TOKEN_CHARS)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN_ONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{token}\n")
        return token
    with open(path, encoding="ascii", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if os.name == "posix" and mode & ~OWN_ONLY:
            raise FileError(f"{shown} can be read by others: run `chmod 600 {shown}`", shown)
        token = file.read(4096).strip()
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise FileError(
            f"{shown} has no token of at least {MIN_TOKEN_CHARS} characters: remove the file, and "
            "memdb creates a new one",
            shown,
        )
    return token


def _announce(app: App, shown: str, *, no_browser: bool) -> None:
    """Print the link, open it, and print a new one at each Enter."""
    mode = ", for reading only" if app.read_only else ""
    note(f"Serving {shown}{mode} at {app.address}")
    link = app.new_link()
    click.echo(link)
    if not no_browser:
        threading.Thread(target=_open_browser, args=(link,), daemon=True).start()
    if sys.stdin is not None and not sys.stdin.closed:
        note("Enter: a new link. Ctrl-C: end.")
        if hasattr(signal, "SIGTTIN"):  # as a job in the background it would be stopped
            signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        threading.Thread(target=_print_links, args=(app,), daemon=True).start()


def _open_browser(link: str) -> None:
    """Open the link, but in no browser that would take this terminal."""
    with suppress(webbrowser.Error, OSError):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(link)


def _print_links(app: App) -> None:
    """Print a new link for each line of standard input."""
    with suppress(OSError, ValueError):
        for _ in sys.stdin:
            click.echo(app.new_link())


SERVE_PORT = 8643
HERE = ("127.0.0.1", "localhost", "::1")

COLUMNS = (
    Column("TOKEN", lambda one: one.id),
    Column("USER", lambda one: "(everything)" if one.user is None else one_line(one.user)),
    Column("APP", lambda one: "" if one.app is None else one_line(one.app)),
    Column("SHARED", lambda one: "yes" if one.shared or one.user is None else ""),
)


@verb(
    "memdb serve agent.db --tokens tokens.json",
    "memdb serve agent.db --tokens t.json --host 0.0.0.0 --tls-cert c.pem --tls-key k.pem",
    scope=False,
    json=False,
)
@click.option(
    "--tokens",
    type=click.Path(),
    metavar="PATH",
    required=True,
    help="File that `memdb token add` writes.",
)
@click.option(
    "--host", metavar="NAME", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=SERVE_PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--tls-cert", type=click.Path(), metavar="PATH", help="Certificate chain, a PEM file."
)
@click.option(
    "--tls-key",
    type=click.Path(),
    metavar="PATH",
    help="Private key of the certificate, a PEM file.",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Serve other hosts without TLS, because a proxy in front of it has TLS.",
)
@click.option(
    "--max-open",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="How many files of a folder may be open; more only while they are in use.",
)
@click.option("--read-only", is_flag=True, help="Refuse all calls that write.")
@click.option(
    "--sync-folder",
    type=click.Path(),
    metavar="PATH",
    help="Folder for devices that run `memdb sync FILE URL`.",
)
@embedder_option
def serve(
    call: Call,
    tokens: str,
    host: str,
    port: int,
    tls_cert: str | None,
    tls_key: str | None,
    plain: bool,
    max_open: int,
    read_only: bool,
    sync_folder: str | None,
) -> None:
    """
    Serve the JSON API of FILE to programs, by tokens of one user each.

    FILE may be a folder with a file for each user; background work is then done here. FILE may also
    be the address of a PostgreSQL server; in MEMDB_URL other users of this computer do not see it.
    Ctrl-C and SIGTERM let the calls in progress finish. Needs the extra: pip install
    "memdb-sqlite[web]".
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key must be given together.")
    if host not in HERE and tls_cert is None and not plain:
        raise click.UsageError(
            f"--host {host} without TLS would send tokens and memory unencrypted: give --tls-cert "
            "and --tls-key, or --plain if a proxy in front has TLS."
        )
    try:
        from memdb.web import service
        from memdb.web.tokens import TokenFile
    except ImportError as error:
        raise missing_extra("web", error) from error
    grants = TokenFile(tokens)
    certificate = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    read_only = read_only or (os.path.exists(call.file) and not is_writable(call.file))
    with ending_by_signals(), _opened(call, max_open, read_only=read_only) as db:
        served = service.Service(db, grants, read_only=read_only, meeting_place=sync_folder)
        listener = service.listen(host, port)
        kind = "http" if certificate is None else "https"
        note(f"Serving {call.shown_file} at {kind}://{host}:{listener.getsockname()[1]}/api/v1/")
        service.serve(served, listener, certificate)


@contextmanager
def _opened(call: Call, max_open: int, *, read_only: bool) -> Iterator[MemDB | Folder]:
    """Open FILE, or the folder that it is with a worker for its files."""
    if not os.path.isdir(call.file):
        with call.open(create=not read_only, read_only=read_only, writer="web") as db:
            yield db
        return
    import memdb

    embedder = embedder_named(call.embedder)
    mode: OpenMode = "read" if read_only else "write"
    given: dict[str, Any] = {"mode": mode, "max_open": max_open, "embedder": embedder}
    with memdb.open_folder(call.file, **given) as folder:
        if not read_only:
            folder.start()
        yield folder


@click.group(cls=Noun)
def token() -> None:
    """Make, list and remove the tokens of `memdb serve`."""


@verb(
    "memdb token add tokens.json --user ann",
    "memdb token add tokens.json --user ann --shared",
    "memdb token add tokens.json --everything",
    of=token,
    file=False,
)
@click.argument("tokens", type=click.Path())
@click.option(
    "--everything",
    is_flag=True,
    help="Let the token reach all users, and calls about the whole memory.",
)
@click.option("--shared", is_flag=True, help="Let the token write what all users of the app share.")
def add(call: Call, tokens: str, everything: bool, shared: bool) -> None:
    """
    Make a token for one user, and keep its hash in the file TOKENS.

    The token is printed once and cannot be shown again. TOKENS is created if it is new. A running
    server accepts the token at once.
    """
    from memdb.web.tokens import add_grant

    if everything == (call.user is not None):
        raise click.UsageError("Give either --user NAME or --everything.")
    if everything and shared:
        raise click.UsageError("--everything includes --shared: leave --shared out.")
    user = None if everything or call.user is None else name_value(call.user, "user")
    app = None if everything else name_value(call.app or DEFAULT_APP, "app")
    text, grant = add_grant(tokens, user, app, system_clock(), shared=shared)
    call.reply({"id": grant.id, "token": text, **_facts(grant)}, text)


@verb("memdb token list tokens.json", of=token, name="list", file=False, scope=False)
@click.argument("tokens", type=click.Path())
def list_(call: Call, tokens: str) -> None:
    """List the users with a token in the file TOKENS, without the tokens."""
    from memdb.web.tokens import read_grants

    grants = [one.replace(sha256="") for one in read_grants(tokens)]
    call.reply_records(grants, COLUMNS, empty="There is no token.")


@verb("memdb token remove tokens.json 5f0c2a91", of=token, file=False, scope=False)
@click.argument("tokens", type=click.Path())
@click.argument("token_id")
def remove(call: Call, tokens: str, token_id: str) -> None:
    """Remove the token TOKEN_ID from the file TOKENS; a running server refuses it at once."""
    from memdb.web.tokens import remove_grant

    grant = remove_grant(tokens, token_id)
    call.reply({"id": grant.id, **_facts(grant)}, f"Removed {grant.id}.")


def _facts(grant: Grant) -> dict[str, Any]:
    return {"user": grant.user, "app": grant.app, "shared": grant.shared}


@click.group(cls=Noun)
def users() -> None:
    """List, move and delete the users of a folder of files."""


@verb("memdb users list memories", of=users, name="list", file=False, scope=False)
@click.argument("folder", type=click.Path())
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Print at most this many.",
)
@click.option("--after", metavar="NAME", help="The last user of the page before.")
def list_users(call: Call, folder: str, limit: int, after: str | None) -> None:
    """List the users of FOLDER, in the order of their files."""
    import memdb

    with memdb.open_folder(folder, mode="read") as opened:
        names = opened.list(after=after, limit=limit)
    call.reply(names, lambda: click.echo("\n".join(map(one_line, names)), nl=bool(names)))


@verb("memdb users move memories ann /mnt/b/memories", of=users, file=False, scope=False)
@click.argument("folder", type=click.Path())
@click.argument("name")
@click.argument("target", type=click.Path())
def move(call: Call, folder: str, name: str, target: str) -> None:
    """Move the file of the user NAME to the folder TARGET; nobody may serve FOLDER now."""
    import memdb

    with memdb.open_folder(folder) as opened:
        path = opened.move(name, target)
    call.reply({"user": name, "path": path}, f"Moved {one_line(name)} to {path}")


@verb("memdb users delete memories ann", of=users, file=False, scope=False)
@click.argument("folder", type=click.Path())
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Delete it without asking first.")
def delete(call: Call, folder: str, name: str, yes: bool) -> None:
    """Delete the file of the user NAME, with all memory in it."""
    import memdb

    with memdb.open_folder(folder) as opened:
        if name not in opened:
            raise NotFound("user", name, opened.path)
        if not yes:
            click.confirm(f"Delete all that {one_line(name)} has?", abort=True, err=True)
        opened.delete(name)
    call.reply({"user": name, "deleted": True}, f"Deleted {one_line(name)}.")


COMMANDS = {"web": web, "serve": serve, "token": token, "users": users}
