"""Options that several commands have: pages of a list, and what a change expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


count_use_option = click.option(
    "--no-count-use",
    "count_use",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Change nothing in the file: no entry counts as used.",
)


version_expected_option = click.option(
    "--expect-version",
    "expected_version",
    type=click.IntRange(1),
    metavar="N",
    help="Only if it is at this version.",
)


def page_options(*orders: str) -> Callable[[Any], Any]:
    """Return --limit, --order and --after of a list; the first of *orders* is the default."""
    options = (
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Most of them."),
        click.option(
            "--order",
            type=click.Choice(orders),
            default=orders[0],
            show_default=True,
            help="By time the newest comes first.",
        ),
        click.option(
            "--after",
            metavar="ROW",
            callback=_read_row,
            help="Behind this one: the last row of the page before, as --json prints it.",
        ),
    )

    def add(function: Any) -> Any:
        for option in options:
            function = option(function)
        return function

    return add


def _read_row(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    import json  # 9 ms that other commands do without

    try:
        row = None if value is None else json.loads(value)
    except ValueError:
        row = value
    if row is not None and not isinstance(row, dict):
        raise click.BadParameter("give the last row of the page before, a JSON object.")
    return row
