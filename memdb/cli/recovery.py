"""`memdb recover` and `memdb restore`: a sound file out of a damaged one, or of a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memdb.cli.base import confirm, confirm_options, verb
from memdb.cli.output import Column, note, print_records, size
from memdb.errors import StorageError

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.reports import Recovery

COLUMNS = (
    Column("TABLE", lambda one: one.name),
    Column("ROWS", lambda one: f"{one.rows:,}", right=True),
    Column("LEFT OUT", lambda one: f"{one.left_out:,}", right=True),
    Column("MADE", lambda one: f"{one.made:,}", right=True),
)


@verb("memdb recover damaged.db new.db", scope=False)
@click.argument("new", type=click.Path())
def recover(call: Call, new: str) -> None:
    """
    Make the file NEW of what can be read of FILE.

    FILE stays as it is. LEFT OUT are rows that were read and do not match their
    hash, or are useless without others that are lost; MADE are scopes, sessions,
    names and inactive entries that stand in for lost ones. Exit code 7 if `check` finds
    something in NEW.
    """
    import memdb

    report = memdb.recover(call.file, new)
    call.reply(report, lambda: _print(report))
    if report.findings:
        click.get_current_context().exit(StorageError.exit_code)


def _print(report: Recovery) -> None:
    print_records(COLUMNS, report.tables)
    for text in report.notes:
        note(f"Note: {text}.")
    note(
        f"{report.broken_trees} tables and indexes of the damaged file have pages that cannot be "
        f"read. {click.format_filename(report.path)} is "
        + ("sound." if not report.findings else f"not sound: {report.findings[0]}.")
    )


@verb("memdb restore backup.db agent.db --dry-run", file=False, scope=False)
@click.argument("backup", type=click.Path())
@click.argument("file", type=click.Path())
@confirm_options
def restore(call: Call, backup: str, yes: bool, dry_run: bool) -> None:
    """
    Put BACKUP in place of FILE.

    BACKUP is checked first. The old FILE is kept beside it, under a name that is
    printed, together with its -wal. Refused while a program has FILE open.
    """
    import memdb

    plan = memdb.restore(backup, call.file, dry_run=True)
    if not dry_run:
        confirm(f"Put {click.format_filename(backup)} in place of {call.shown_file}?", yes=yes)
        plan = memdb.restore(backup, call.file)
    verb = "Would restore" if dry_run else "Restored"
    kept = "" if plan.kept is None else f"; the old one is {click.format_filename(plan.kept)}"
    call.reply(plan, f"{verb} {call.shown_file} ({size(plan.size_bytes)}){kept}.")


COMMANDS = {"recover": recover, "restore": restore}
