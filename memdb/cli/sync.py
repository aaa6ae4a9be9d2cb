"""`memdb sync`: one memory on several devices."""

from __future__ import annotations

import sys
from time import sleep
from typing import TYPE_CHECKING

import click

from memdb.cli.base import verb
from memdb.cli.output import Line, clean, note, print_json_line
from memdb.errors import Busy, FileError, InvalidInput
from memdb.models.keys import read_key_file
from memdb.models.record import counted
from memdb.sync.server import list_files

if TYPE_CHECKING:
    from memdb import MemDB
    from memdb.cli.base import Call
    from memdb.models.reports import SyncReport, SyncStatus


@verb(
    "memdb sync agent.db ~/Sync/memory",
    "memdb sync agent.db ~/Sync/memory --pairing-key-file key.txt",
    "memdb sync agent.db ~/Sync/memory --watch",
    "memdb sync agent.db https://memory.example.org",
    scope=False,
)
@click.argument("folder", type=click.Path())
@click.option(
    "--pairing-key-file",
    type=click.Path(),
    metavar="PATH",
    help="File with the pairing key that the first sync showed.",
)
@click.option("--dry-run", is_flag=True, help="Count what would be sent, and write nothing.")
@click.option(
    "--status", is_flag=True, help="List the devices, and the segments that wait, with the reason."
)
@click.option("--watch", is_flag=True, help="Keep syncing changes until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 86_400),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds between two checks with --watch.",
)
def sync(
    call: Call,
    folder: str,
    pairing_key_file: str | None,
    dry_run: bool,
    status: bool,
    watch: bool,
    interval: float,
) -> None:
    """
    Sync FILE with other devices through FOLDER.

    A program such as Syncthing copies FOLDER.

    The first device makes a pairing key and shows it; each other device asks for it once. Changes
    of several devices are merged (docs/guides/sync.md). FILE itself must not be in FOLDER. FOLDER
    may be the address of a `memdb serve --sync-folder`, with its token in MEMDB_SYNC_TOKEN. With
    --watch and --json, each line is a JSON object.
    """
    if (dry_run or status) and watch:
        raise click.UsageError(
            "--watch sends and merges changes: leave out --dry-run and --status."
        )
    if status:
        with call.open(read_only=True) as db:
            found = db.sync_status(folder)
        call.reply(found, lambda: _print_status(found))
        return
    from memdb.cli.service import ending_by_signals

    with ending_by_signals(), call.open(create=not dry_run) as db:
        key = None if pairing_key_file is None else read_key_file(pairing_key_file).secret()
        if watch:
            try:
                _watch(call, db, folder, key, interval)
            except KeyboardInterrupt:
                note("Stopped watching.")
            return
        report = _sync(db, folder, key, dry_run=dry_run)
        call.reply(report, lambda: _print_report(report))


def _sync(db: MemDB, folder: str, key: str | None, *, dry_run: bool) -> SyncReport:
    with Line("Merging") as counter:
        try:
            return db.sync(
                folder, pairing_key=key, dry_run=dry_run, progress=lambda _: counter.add(1)
            )
        except InvalidInput as error:
            if key is not None or "is paired" not in str(error) or not sys.stdin.isatty():
                raise
    typed = click.prompt("Pairing key", hide_input=True, err=True)
    return db.sync(folder, pairing_key=typed, dry_run=dry_run)


def _watch(call: Call, db: MemDB, folder: str, key: str | None, interval: float) -> None:
    """Sync whenever the file or the folder is another one than before the last sync."""
    seen, said = None, ""
    while True:
        try:
            now = db.changes().mark, list_files(folder, db.path)
            if now != seen:
                _show(call, _sync(db, folder, key, dry_run=False))
            seen, said = now, ""
        except (FileError, Busy) as error:  # the folder or the server may come back
            if str(error) != said:
                note(f"Not synced: {error}")
            seen, said = None, str(error)
        sleep(interval)


def _show(call: Call, report: SyncReport) -> None:
    if call.as_json:
        print_json_line(report.to_dict())
    elif report.sent or report.received or report.waiting or report.key:
        _print_report(report)


def _print_report(report: SyncReport) -> None:
    verb = "Would send" if report.dry_run else "Sent"
    click.echo(f"{verb}: {_counts(report.sent)}.")
    if report.received:
        click.echo(f"Merged: {_counts(report.received)}.")
    if report.key is not None and not report.dry_run:
        click.echo(f"Pairing key for the other devices: {report.key}")
    for waits in report.waiting:
        note(f"Waiting: {clean(waits)}")
    for refused in report.refused:
        note(f"Left out: {clean(refused)}")
    for device in report.unconfirmed:
        note(f"Not forgotten yet on {clean(device)}: it has to sync.")


def _counts(counts: dict[str, int]) -> str:
    return (
        ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())
        or "nothing"
    )


def _print_status(status: SyncStatus) -> None:
    for device in status.devices:
        read = "this device" if device.is_own else f"{device.read} of {device.number} merged"
        click.echo(f"{device.id}  {clean(device.name or '-')}  {read}  {device.seen_at or '-'}")
    click.echo(f"{counted(status.pending, 'change')} to send.")
    for waits in status.waiting:
        note(f"Waiting: {clean(waits)}")
    for name in status.unconfirmed:
        note(f"Not forgotten yet on {clean(name)}: it has to sync.")


COMMANDS = {"sync": sync}
