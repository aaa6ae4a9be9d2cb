"""`memdb web`: the page of a file, and its JSON API, on 127.0.0.1."""

from __future__ import annotations

import os
import secrets
import signal
import stat
import sys
import threading
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from memdb.cli.base import embedder_option, is_writable, verb
from memdb.cli.output import note
from memdb.cli.service import ending_by_signals
from memdb.errors import FileError
from memdb.providers.shared import missing_extra

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.web.app import App

DEFAULT_PORT = 8642
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
    default=DEFAULT_PORT,
    show_default=True,
    help="The first port to try; 0 takes any that is free.",
)
@click.option("--host", metavar="NAME", help="Only 127.0.0.1: for another computer use a tunnel.")
@click.option("--read-only", is_flag=True, help="Open FILE for reading, without any action.")
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--token-file",
    type=click.Path(),
    metavar="PATH",
    help="Let programs in that send the token in it; made if it is new.",
)
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

    The link that is printed works once, for two minutes; Enter prints a new one.
    Programs send `Authorization: Bearer` with the token of --token-file. Ctrl-C
    ends it. Needs the extra: pip install "memdb-sqlite[web]".
    """
    if host not in (None, "127.0.0.1", "localhost"):
        raise click.UsageError(
            f"--host {host} would show the memory to the network: it stays on 127.0.0.1. From "
            f"another computer use a tunnel: ssh -L {port}:127.0.0.1:{port} THIS-COMPUTER"
        )
    try:
        from memdb.web.app import App, bind, serve
    except ImportError as error:
        raise missing_extra("web", error) from error
    token = None if token_file is None else read_token(token_file)
    with ending_by_signals(), call.open(read_only=read_only) as db:
        app = App(
            db,
            read_only=read_only or not is_writable(call.file),
            token=token,
            asks_network=(call.embedder or "").startswith(NETWORK),
        )
        listener = bind(port, app, note)
        _announce(app, call.shown_file, no_browser=no_browser)
        serve(app, listener)


def read_token(path: str) -> str:
    """
    Return the token in the file at *path*; a new one is put there if it is absent.

    Raises:
        FileError: others can read it, it cannot be read, or it holds no token.
    """
    shown = click.format_filename(path)
    token = secrets.token_urlsafe(MIN_TOKEN_CHARS)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN_ONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{token}\n")
        return token
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if os.name == "posix" and mode & ~OWN_ONLY:
            raise FileError(f"{shown} can be read by others: chmod 600 {shown}", shown)
        token = file.read(4096).strip()
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise FileError(
            f"{shown} holds no token of {MIN_TOKEN_CHARS} characters or more: remove it, and a "
            "new one is made",
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


COMMANDS = {"web": web}
