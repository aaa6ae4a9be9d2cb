"""`memdb space`: the embedding spaces of a file, and dropping one."""

from __future__ import annotations

import click

from memdb.cli.base import Noun, confirm, confirm_options, example, file_argument, json_option
from memdb.cli.opening import opened
from memdb.cli.output import Column, counted, one_line, print_json, print_table
from memdb.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.models.messages import SpaceInfo


@click.group(cls=Noun)
def space() -> None:
    """
    List and drop the vectors of each embedder.

    A file that gets a new embedder keeps the vectors of the old one until they
    are dropped: `memdb work FILE --embedder NAME` fills the new space.
    """


@space.command("list", epilog=example("memdb space list agent.db"))
@file_argument
@json_option
def list_(file: str, as_json: bool) -> None:
    """Show the embedding spaces of FILE, oldest first."""
    with opened(file) as db:
        found = db.file.spaces()
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    columns = [
        Column("MODEL", cut=True),
        Column("DIM", right=True),
        Column("VECTORS", right=True),
        Column("STATE"),
        Column("DUE", right=True),
    ]
    rows = [
        (one.model, str(one.dim), f"{one.vectors:,}", one.state, f"{one.due:,}") for one in found
    ]
    print_table(columns, rows, empty="No embedding spaces yet.")


@space.command(epilog=example("memdb space drop agent.db static-en-1 --dry-run"))
@file_argument
@click.argument("model")
@click.option("--dim", type=click.IntRange(1, 65_536), help="Where MODEL has several spaces.")
@confirm_options
@json_option
def drop(file: str, model: str, dim: int | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """
    Remove the vectors that MODEL made.

    What was said stays. The program that uses MODEL makes them anew; `memdb
    vacuum` gives the room back to the disk.
    """
    with opened(file) as db:
        known = [one for one in db.file.spaces() if one.model == model and dim in (None, one.dim)]
        if not known:
            raise NotFound("space", model)
        what = " and ".join(map(_named, known))
        if not dry_run:
            confirm(f"Drop {what}?", yes=yes)
            known = [db.file.drop_space(model, dim)]
    if as_json:
        spaces = [one.to_dict() for one in known]
        print_json({"dropped": not dry_run, "dry_run": dry_run, "spaces": spaces})
    else:
        click.echo(f"{'Would drop' if dry_run else 'Dropped'} {what}.")


def _named(one: SpaceInfo) -> str:
    return f"{counted(one.vectors, 'vector')} of {one_line(one.model)} ({one.dim} dimensions)"


COMMANDS = {"space": space}
