"""`memdb serve` and `memdb token`: the JSON API for programs, and who may ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memdb.cli.base import DEFAULT_APP, embedder_option, is_writable, verb
from memdb.cli.command import Noun
from memdb.cli.output import Column, note, one_line
from memdb.cli.service import ending_by_signals
from memdb.models.ids import system_clock
from memdb.providers.shared import missing_extra
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from typing import Any

    from memdb.cli.base import Call
    from memdb.web.tokens import Grant

DEFAULT_PORT = 8643
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
    "--tokens", type=click.Path(), metavar="PATH", required=True, help="See `memdb token add`."
)
@click.option(
    "--host", metavar="NAME", default="127.0.0.1", show_default=True, help="Where to listen."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="0 takes any that is free.",
)
@click.option("--tls-cert", type=click.Path(), metavar="PATH", help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(), metavar="PATH", help="Its key, PEM.")
@click.option("--plain", is_flag=True, help="No TLS on other hosts: a proxy before it has it.")
@click.option("--read-only", is_flag=True, help="Without any call that writes.")
@embedder_option
def serve(
    call: Call,
    tokens: str,
    host: str,
    port: int,
    tls_cert: str | None,
    tls_key: str | None,
    plain: bool,
    read_only: bool,
) -> None:
    """
    Serve the JSON API of FILE to programs, by tokens of one user each.

    FILE may be the address of a server; MEMDB_URL names it without showing it to other
    programs. Ctrl-C and SIGTERM end it when the calls in progress are finished. Needs
    the extra: pip install "memdb-sqlite[web]".
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    if host not in HERE and tls_cert is None and not plain:
        raise click.UsageError(
            f"--host {host} without TLS would send tokens and memory in the clear: give "
            "--tls-cert and --tls-key, or --plain behind a proxy that has TLS."
        )
    try:
        from memdb.web import service
        from memdb.web.tokens import TokenFile
    except ImportError as error:
        raise missing_extra("web", error) from error
    grants = TokenFile(tokens)
    certificate = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    with ending_by_signals(), call.open(create=not read_only, read_only=read_only) as db:
        served = service.Service(db, grants, read_only=read_only or not is_writable(call.file))
        listener = service.listen(host, port)
        kind = "http" if certificate is None else "https"
        note(f"Serving {call.shown_file} at {kind}://{host}:{listener.getsockname()[1]}/api/v1/")
        service.serve(served, listener, certificate)


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
@click.option("--everything", is_flag=True, help="For all users, and the memory as a whole.")
@click.option("--shared", is_flag=True, help="Also write what all users of the app share.")
def add(call: Call, tokens: str, everything: bool, shared: bool) -> None:
    """
    Make a token for one user, and keep its hash in the file TOKENS.

    It is printed once and cannot be shown again. TOKENS is made if it is new; a running
    server takes the token at once.
    """
    from memdb.web.tokens import add_grant

    if everything == (call.user is not None):
        raise click.UsageError("Give --user NAME or --everything, one of them.")
    if everything and shared:
        raise click.UsageError("--everything holds --shared: leave it out.")
    user = None if everything or call.user is None else name_value(call.user, "user")
    app = None if everything else name_value(call.app or DEFAULT_APP, "app")
    text, grant = add_grant(tokens, user, app, system_clock(), shared=shared)
    call.reply(
        {"id": grant.id, "token": text, **_facts(grant)},
        text,
    )


@verb("memdb token list tokens.json", of=token, name="list", file=False, scope=False)
@click.argument("tokens", type=click.Path())
def list_(call: Call, tokens: str) -> None:
    """List whose tokens are in the file TOKENS, without the tokens."""
    from memdb.web.tokens import read_grants

    grants = [one.replace(sha256="") for one in read_grants(tokens)]
    call.reply_records(grants, COLUMNS, empty="There is no token.")


@verb("memdb token remove tokens.json 5f0c2a91", of=token, file=False, scope=False)
@click.argument("tokens", type=click.Path())
@click.argument("token_id")
def remove(call: Call, tokens: str, token_id: str) -> None:
    """Take the token TOKEN_ID out of the file TOKENS; a running server refuses it at once."""
    from memdb.web.tokens import remove_grant

    grant = remove_grant(tokens, token_id)
    call.reply({"id": grant.id, **_facts(grant)}, f"Removed {grant.id}.")


def _facts(grant: Grant) -> dict[str, Any]:
    return {"user": grant.user, "app": grant.app, "shared": grant.shared}


COMMANDS = {"serve": serve, "token": token}
