"""`memdb pack`: fixture packs, which are the same on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memdb.cli.base import MOMENT, verb
from memdb.cli.command import Noun
from memdb.cli.output import Column, one_line
from memdb.errors import StorageError
from memdb.models.record import counted

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.fixtures import Manifest


@click.group(cls=Noun)
def pack() -> None:
    """Make, verify, open and compare fixture packs."""


@verb(
    "memdb pack make trip.toml -o trip.pack",
    "memdb pack make agent.db -o agent.pack --json",
    of=pack,
    file=False,
    scope=False,
)
@click.argument("source", type=click.Path())
@click.option(
    "--output",
    "-o",
    "target",
    type=click.Path(),
    required=True,
    metavar="PACK",
    help="The pack to make.",
)
@click.option(
    "--clock",
    type=MOMENT,
    help="When a recipe begins, or the pack of a file stands; else SOURCE_DATE_EPOCH.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the ids; as the recipe says without it.")
@click.option("--replace", is_flag=True, help="Write over the pack that is at PACK.")
def make(
    call: Call, source: str, target: str, clock: int | None, seed: int | None, replace: bool
) -> None:
    """
    Make a pack of SOURCE, a recipe or a memdb file.

    The same SOURCE gives the same bytes on every machine. docs/fixtures.md says what
    a recipe can do.
    """
    from memdb import fixtures

    manifest = fixtures.make_pack(source, target, clock_ms=clock, seed=seed, replace=replace)
    call.reply(manifest, f"{click.format_filename(target)}: {_summary(manifest)}")


def _summary(manifest: Manifest) -> str:
    counts = [counted(n, kind) for kind, n in manifest.counts.items() if kind not in UNSAID]
    return f"{', '.join(counts) or 'nothing'}; content {manifest.content}"


UNSAID = ("memdb", "scope")


@verb("memdb pack verify trip.pack", of=pack, file=False, scope=False)
@click.argument("path", metavar="PACK", type=click.Path())
def verify(call: Call, path: str) -> None:
    """Check every byte of PACK against its hashes."""
    from memdb import fixtures

    manifest = fixtures.verify_pack(path)
    call.reply(manifest, f"{click.format_filename(path)} is whole: {_summary(manifest)}")


@verb("memdb pack open trip.pack trip.db", of=pack, name="open", file=False, scope=False)
@click.argument("path", metavar="PACK", type=click.Path())
@click.argument("target", metavar="NEW", type=click.Path())
def open_(call: Call, path: str, target: str) -> None:
    """Make the memdb file NEW of PACK, for all other commands."""
    from memdb import fixtures

    manifest = fixtures.unpack(path, target)
    call.reply(manifest, f"{click.format_filename(target)}: {_summary(manifest)}")


@verb("memdb pack diff old.pack new.pack", of=pack, file=False, scope=False)
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
def diff(call: Call, first: str, second: str) -> None:
    """
    Show what FIRST and SECOND hold that the other does not.

    Exit code 7 if they differ.
    """
    from memdb import fixtures

    found = fixtures.diff_packs(first, second)
    call.reply_records(found, DIFF_COLUMNS, empty="They hold the same.")
    if found:
        click.get_current_context().exit(StorageError.exit_code)


DIFF_COLUMNS = (
    Column("KIND", lambda one: one.kind),
    Column("REMOVED", lambda one: f"{one.removed:,}", right=True),
    Column("ADDED", lambda one: f"{one.added:,}", right=True),
    Column("CHANGED", lambda one: f"{one.changed:,}", right=True),
    Column("FOR EXAMPLE", lambda one: one_line("; ".join(one.examples)), cut=True),
)

COMMANDS = {"pack": pack}
