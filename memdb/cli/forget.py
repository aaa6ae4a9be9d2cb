"""`memdb forget` and `memdb secrets`: removing for good, and finding secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import (
    branch_option,
    confirm,
    confirm_options,
    refuse_user,
    scopes_to_dicts,
    verb,
)
from memdb.cli.command import Noun
from memdb.cli.output import Column, note, one_line, print_records, say
from memdb.cli.records import entry_of, option_session
from memdb.errors import StorageError
from memdb.models.record import counted

if TYPE_CHECKING:
    from memdb.api.scope import Scope
    from memdb.cli.base import Call
    from memdb.models.reports import PreviewRow, Proof, Receipt

ONE_OF = "Say what to forget: one of --entry, --session, --query and --all (also with --query)."
THINGS = {
    "messages": "message",
    "sessions": "conversation",
    "branches": "branch",
    "entries": "entry",
    "versions": "old version",
    "summaries": "summary",
    "artifacts": "artifact",
    "items": "item",
    "state": "value of state",
    "titles": "title",
}
MANY = {
    "branches": "branches",
    "entries": "entries",
    "summaries": "summaries",
    "state": "values of state",
}


PREVIEW_COLUMNS = (
    Column("GOES", lambda one: one.kind if one.new_text is None else f"{one.kind} (anew)"),
    Column("PLACE", lambda one: _place(one), cut=True),  # noqa: PLW0108 (defined below)
    Column("TEXT", lambda one: one.text, cut=True),
)
SECRET_COLUMNS = (
    Column("KIND", lambda one: one["kind"]),
    Column("USER", lambda one: one["user"] or "", cut=True),
    Column("WHERE", lambda one: one["where"], cut=True),
    Column("SECRET", lambda one: one["shown"], cut=True),
)


@verb(
    "memdb forget agent.db --user ann --query zoe --dry-run",
    "memdb forget agent.db --user ann --session trip --prove --yes",
    "memdb forget agent.db --user ann --query zoe --everything --prove --yes",
    "memdb forget agent.db --user ann --all --prove --yes",
)
@click.option("--entry", metavar="NUMBER|KEY", help="An entry and its history.")
@click.option("--session", metavar="NAME", help="A conversation, and the entries from it.")
@branch_option
@click.option(
    "--seq",
    "seqs",
    type=click.IntRange(1),
    metavar="N",
    multiple=True,
    help="Only this message of --session; repeatable.",
)
@click.option("--query", metavar="TEXT", help="Messages and entries that hold all these words.")
@click.option(
    *("--all", "--everything", "everything"),
    is_flag=True,
    help="Everything of the user; with --query, everything that says it.",
)
@click.option("--artifacts", is_flag=True, help="Also artifacts that say it or come from it.")
@click.option("--prove", is_flag=True, help="Take the bytes off the disk too, and search for them.")
@click.option("--expect", metavar="DIGEST", help="Only if that of a --dry-run is still true.")
@confirm_options
def forget(call: Call, yes: bool, dry_run: bool, **asked: Any) -> None:
    """
    Remove something for good, also from summaries, archive and indexes.

    The receipt says what went and, with --prove, that no byte of it is left in
    FILE. Exit code 7 if some is. Backups and exports are not touched.
    """
    named = [name for name in ("entry", "session", "query") if asked[name] is not None]
    if len(named) + (asked["everything"] and named != ["query"]) != 1:
        raise click.UsageError(ONE_OF)
    if asked["seqs"] and asked["session"] is None:
        raise click.UsageError("--seq needs --session: say which conversation it is of.")
    with call.scope() as scope:
        _name_things(scope, asked, whole=yes and not dry_run)
        receipt = _forget(scope, asked, dry_run=True)
        if not dry_run:
            if any(receipt.removed.values()):
                confirm(f"Forget {_summary(receipt)} of {one_line(scope.user)} for good?", yes=yes)
            receipt = _forget(scope, asked, prove=asked["prove"])
    found: dict[str, Any] = {**receipt.to_dict(), "proven": receipt.proven}
    call.reply(found, lambda: _print_receipt(receipt))
    if receipt.proof is not None and not receipt.proven:
        click.get_current_context().exit(StorageError.exit_code)


def _name_things(scope: Scope, asked: dict[str, Any], *, whole: bool) -> None:
    """Put the session and the entry that the user means in the place of how they were named."""
    asked["session"] = option_session(scope, asked["session"], whole=whole)
    if asked["entry"] is not None:
        asked["entry"] = entry_of(scope, asked["entry"]).id


def _forget(scope: Scope, asked: dict[str, Any], **options: Any) -> Receipt:
    options["expected"] = asked["expect"]
    if asked["seqs"]:
        session = scope.session(asked["session"])  # or a branch of one
        return session.forget(asked["seqs"], artifacts=asked["artifacts"], **options)
    return scope.forget(**_named(asked), **options)


def _named(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: asked[name] for name in ("entry", "session", "query", "everything", "artifacts")}


def _place(row: PreviewRow) -> str:
    """Return where a row of a preview is, or comes from."""
    if row.entry_id is not None:
        return f"entry {row.entry_id}"
    seq = "" if row.seq is None else f"#{row.seq}"
    last = "" if row.last_seq is None else f"-{row.last_seq}"
    return f"{row.session or ''}{seq}{last}"


def _summary(receipt: Receipt) -> str:
    parts = [
        counted(count, THINGS[name], MANY.get(name, ""))
        for name, count in receipt.removed.items()
        if count
    ]
    return ", ".join(parts) or "nothing"


def _print_receipt(receipt: Receipt) -> None:
    say(f"{'Would forget' if receipt.dry_run else 'Forgot'} {_summary(receipt)}.")
    for name, count in receipt.rewritten.items():
        if count:
            what = counted(count, "summary", "summaries") if name == "summaries" else ""
            what = what or counted(count, "archive segment")
            say(f"{'Would write' if receipt.dry_run else 'Wrote'} {what} anew without it.")
    if not receipt.dry_run:
        click.echo(f"subject   sha256 {receipt.subject_sha256}")
    if receipt.digest is not None:
        print_records(PREVIEW_COLUMNS, receipt.rows)
        if receipt.more_rows:
            note(f"and {counted(receipt.more_rows, 'row')} more")
        note(f"digest {receipt.digest}: give it as --expect to forget exactly this.")
    for one in receipt.pending:
        note(one_line(one))
    if receipt.proof is not None:
        _print_proof(receipt.proof)


def _print_proof(proof: Proof) -> None:
    searched = ", ".join(map(one_line, proof.searched)) or "nothing"
    click.echo(f"searched  {searched} for {counted(proof.pieces, 'piece')} of it")
    click.echo(f"found     {counted(proof.found_bytes, 'byte')}")
    if proof.found_in:
        click.echo(f"found in  {', '.join(map(one_line, proof.found_in))}")
    if proof.said_elsewhere:
        places = ", ".join(map(one_line, proof.said_in))
        note(f"{counted(proof.said_elsewhere, 'piece')} of it said elsewhere too: {places}")
    if proof.still_said_in:
        click.echo(f"still in  {', '.join(map(one_line, proof.still_said_in))}")
        note("--query with --everything removes it from these too.")
    if proof.short:
        note(f"{counted(proof.short, 'text')} under 8 bytes, too short to search for.")
    for one in proof.notices:
        note(one_line(one))


@click.group(cls=Noun)
def secrets() -> None:
    """Find keys, tokens and passwords in a memory."""


@verb(
    "memdb secrets scan agent.db --user ann",
    "memdb secrets scan agent.db --all-users --json",
    of=secrets,
)
@click.option("--all-users", is_flag=True, help="Everything of every user of every app.")
@click.option("--entropy", is_flag=True, help="Also runs of characters that look random.")
def scan(call: Call, all_users: bool, entropy: bool) -> None:
    """
    List the secrets in messages, entries and artifacts of FILE.

    A secret is never shown in full. Exit code 7 if there is one.
    """
    if all_users:
        refuse_user()
        with call.open() as db:
            found = [one for scope in db.scopes() for one in _in_scope(scope, entropy=entropy)]
    else:
        with call.scope() as scope:
            found = _in_scope(scope, entropy=entropy)
    call.reply(found, lambda: print_records(SECRET_COLUMNS, found, empty="No secrets found."))
    if found:
        click.get_current_context().exit(StorageError.exit_code)


def _in_scope(scope: Scope, *, entropy: bool) -> list[dict[str, Any]]:
    """Return the secrets of a scope, each with its user and app."""
    (whose,) = scopes_to_dicts([scope])
    return [{**whose, **one.to_dict()} for one in scope.find_secrets(entropy=entropy)]


COMMANDS = {"forget": forget, "secrets": secrets}
