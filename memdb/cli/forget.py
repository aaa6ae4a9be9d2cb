"""`memdb forget` and `memdb secrets`: removing for good, and finding secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memdb.api.scope import Scope
from memdb.cli.base import confirm, refuse_user, scopes_to_dicts, verb
from memdb.cli.command import Noun
from memdb.cli.options import all_counted, branch_option, confirm_options
from memdb.cli.output import Column, columns_of, note, one_line, print_records, say
from memdb.cli.records import entry_of, option_session
from memdb.errors import StorageError
from memdb.models.record import counted

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.reports import PreviewRow, Proof, Receipt

PREVIEW_COLUMNS = (
    Column("REMOVED", lambda one: one.kind if one.new_text is None else f"{one.kind} (new text)"),
    Column("PLACE", lambda one: _place(one)),  # noqa: PLW0108 (defined below)
    Column("TEXT", lambda one: one.text),
)


@verb(
    "memdb forget agent.db --user ann --query zoe --dry-run",
    "memdb forget agent.db --user ann --session trip --prove --yes",
    "memdb forget agent.db --user ann --person zoe --prove --yes",
    "memdb forget agent.db --user ann --everything --prove --yes",
    like=Scope.forget,
    without=("dry_run",),
)
@branch_option
@confirm_options
def forget(call: Call, *, yes: bool = False, dry_run: bool = False, **asked: Any) -> None:
    """
    Remove something for good, also from summaries, archive and indexes.

    Give one of --entry, --session, --query, --person and --everything. The receipt lists what was
    removed. With --prove it also proves that no byte of it is left in FILE; the exit code is 7 if
    some is. Backups and exports are not changed.
    """
    with call.scope() as scope:
        if "session" in asked:
            asked["session"] = option_session(scope, asked["session"], whole=yes and not dry_run)
        if "entry" in asked:
            asked["entry"] = entry_of(scope, asked["entry"]).id
        receipt = scope.forget(**{**asked, "prove": False}, dry_run=True)
        if not dry_run:
            if any(receipt.removed.values()):
                confirm(
                    f"Forget {all_counted(receipt.removed)} of {one_line(scope.user)} for good?",
                    yes=yes,
                )
            receipt = scope.forget(**asked)
    found: dict[str, Any] = {**receipt.to_dict(), "proven": receipt.proven}
    call.reply(found, lambda: _print_receipt(receipt))
    if receipt.proof is not None and not receipt.proven:
        click.get_current_context().exit(StorageError.exit_code)


@verb(
    "memdb undo agent.db --user ann --writer mcp:claude-code --since 2h --dry-run",
    like=Scope.undo,
    without=("writer", "dry_run"),
)
@click.option(
    "--writer", required=True, metavar="NAME", help="The writer, such as cli, web or mcp:NAME."
)
@confirm_options
def undo(call: Call, *, yes: bool = False, dry_run: bool = False, **asked: Any) -> None:
    """
    Take back what a program stored.

    What it added is deleted, and entries of others that it changed go back to the version before.
    What cannot be taken back is named. `memdb forget` removes the bytes too.
    """
    with call.scope() as scope:
        receipt = scope.undo(**asked, dry_run=True)
        if not dry_run:
            if any((*receipt.removed.values(), *receipt.rewritten.values())):
                what = all_counted(receipt.removed)
                confirm(f"Take back {what} of {one_line(scope.user)}?", yes=yes)
            receipt = scope.undo(**asked)
    call.reply(receipt, lambda: _print_undone(receipt))


def _place(row: PreviewRow) -> str:
    """Return where a row of a preview is, or comes from."""
    if row.entry_id is not None:
        return f"entry {row.entry_id}"
    seq = "" if row.seq is None else f"#{row.seq}"
    last = "" if row.last_seq is None else f"-{row.last_seq}"
    return f"{row.session or ''}{seq}{last}"


def _print_receipt(receipt: Receipt) -> None:
    say(f"{'Would forget' if receipt.dry_run else 'Forgot'} {all_counted(receipt.removed)}.")
    for name, count in receipt.rewritten.items():
        if count:
            what = counted(count, "summary", "summaries") if name == "summaries" else ""
            what = what or counted(count, "archive segment")
            say(f"{'Would rewrite' if receipt.dry_run else 'Rewrote'} {what} without it.")
    if not receipt.dry_run:
        click.echo(f"subject   sha256 {receipt.subject_sha256}")
    _print_rows(receipt)
    if receipt.digest is not None:
        note(f"digest {receipt.digest}: give it as --expected to forget exactly this.")
    for one in receipt.pending:
        note(one_line(one))
    if receipt.proof is not None:
        _print_proof(receipt.proof)


def _print_undone(receipt: Receipt) -> None:
    say(f"{'Would delete' if receipt.dry_run else 'Deleted'} {all_counted(receipt.removed)}.")
    if back := receipt.rewritten["entries"]:
        what = counted(back, "entry", "entries")
        say(f"{'Would take' if receipt.dry_run else 'Took'} {what} back to the version before.")
    _print_rows(receipt)


def _print_rows(receipt: Receipt) -> None:
    if receipt.digest is not None:
        print_records(PREVIEW_COLUMNS, receipt.rows)
        if receipt.more_rows:
            note(f"and {counted(receipt.more_rows, 'row')} more")
    for one in receipt.remaining:
        note(f"remains: {one_line(one)}")


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
        note("--person removes it from these too.")
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
@click.option("--all-users", is_flag=True, help="Search the memory of every user and app.")
@click.option("--entropy", is_flag=True, help="Also list runs of characters that look random.")
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
    call.reply(
        found,
        lambda: print_records(
            columns_of("kind user where shown=SECRET"), found, empty="No secrets found."
        ),
    )
    if found:
        click.get_current_context().exit(StorageError.exit_code)


def _in_scope(scope: Scope, *, entropy: bool) -> list[dict[str, Any]]:
    """Return the secrets of a scope, each with its user and app."""
    (whose,) = scopes_to_dicts([scope])
    return [{**whose, **one.to_dict()} for one in scope.find_secrets(entropy=entropy)]


COMMANDS = {"forget": forget, "undo": undo, "secrets": secrets}
