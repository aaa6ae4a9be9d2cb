"""`memdb mcp`: a memory for desktop programs and agents that speak MCP."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import click

from memdb.cli.base import Command, embedder_option, example, file_argument, scope_options
from memdb.cli.opening import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _closing() -> Iterator[None]:
    """Let SIGTERM, and a SIGINT that a shell script switched off, end it with the file closed."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command(
    cls=Command,
    epilog=example(
        "memdb mcp agent.db --user ann",
        "memdb mcp agent.db --user ann --http 8765 --token-env MEMDB_TOKEN",
    ),
)
@file_argument
@scope_options
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve HTTP on 127.0.0.1 at /mcp instead of stdio.",
)
@click.option("--token-env", metavar="VAR", help="The variable that holds the bearer token.")
@embedder_option
@click.option("--compat", is_flag=True, help="Also serve the tools of the official memory server.")
def mcp(
    file: str,
    user: str | None,
    app: str | None,
    port: int | None,
    token_env: str | None,
    embedder: str | None,
    *,
    compat: bool,
) -> None:
    """
    Serve one user's memory over the Model Context Protocol.

    Over stdio, until the program that started it closes the connection; with
    --http until it is stopped. FILE is made where it is new. Ctrl-C and SIGTERM
    end it when the calls under way are finished; a second time: at once.
    """
    if not user:
        raise click.UsageError("Say whose memory it is: --user NAME.")
    token = os.environ.get(token_env, "") if token_env else None
    if (port is None) != (token_env is None):
        raise click.UsageError("--http and --token-env go together.")
    from memdb.integrations.mcp.transports import MIN_TOKEN_CHARS, serve

    if token is not None and len(token) < MIN_TOKEN_CHARS:
        raise click.UsageError(
            f"{token_env} holds no token of {MIN_TOKEN_CHARS} characters or more."
        )
    with _closing(), opened(file, create=True, embedder=embedder) as db:
        serve(db, user=user, app=app or "default", compat=compat, port=port, token=token)


COMMANDS = {"mcp": mcp}
