"""`memdb item`: values under a namespace and a key, as frameworks store them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from memdb.api.items import Items
from memdb.cli.base import verb
from memdb.cli.command import Noun
from memdb.cli.made import plain, remove
from memdb.cli.options import confirm_options
from memdb.cli.output import Column, columns_of, is_terminal, one_line, size

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.items import Item


def namespace_text(labels: tuple[str, ...]) -> str:
    """Return labels as NAMESPACE takes them."""
    if any("/" in label or label.startswith("[") for label in labels):
        return json.dumps(labels, ensure_ascii=False)
    return "/".join(labels) or "/"


def value_text(value: Any) -> str:
    """Return a value as JSON text, bytes as how many they are."""
    return size(len(value)) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)


@click.group(cls=Noun)
def item() -> None:
    """
    Put, get, list and delete values under a namespace and a key.

    NAMESPACE is labels joined by slashes, as in notes/trip, or a JSON list of
    them; "/" is the root.
    """


def _print_value(found: Item) -> None:
    if isinstance(found.value, bytes):
        if is_terminal(sys.stdout):
            raise click.UsageError("The value is bytes: pipe the output, or use --json.")
        sys.stdout.buffer.write(found.value)
        sys.stdout.buffer.flush()
    else:
        click.echo(json.dumps(found.value, ensure_ascii=False, indent=2))


plain(
    Items.put,
    """memdb item put agent.db notes/trip tent '{"text": "Pack the tent."}' --user ann""",
    "memdb item put agent.db notes/trip tent - --expected 1 --user ann < tent.json",
    of=item,
    shows="{0} (version {0.version})",
    create=True,
    without=("vectors",),
    help="""
    Create or replace the item KEY in NAMESPACE.

    VALUE is JSON, or else a text; "-" reads it from standard input. FILE is created if it is new.
    """,
)
plain(
    Items.get,
    "memdb item get agent.db notes/trip tent --user ann",
    of=item,
    shows=_print_value,
    help="Print the value of KEY in NAMESPACE: JSON, or its bytes as they are.",
)
plain(
    Items.list,
    "memdb item list agent.db --prefix notes --where 'stars>=3' --user ann",
    "memdb item list agent.db --prefix threads/t1 --order updated --limit 1 --user ann",
    of=item,
    shows=(
        Column("NAMESPACE", lambda one: namespace_text(one.namespace)),
        *columns_of("key version updated_ms expires_ms"),
        Column("VALUE", lambda one: value_text(one.value)),
    ),
    empty="No items.",
    without=("between", "refresh"),
    help="List the items in a namespace and below it.",
)
plain(
    Items.namespaces,
    "memdb item namespaces agent.db --max-depth 1 --user ann",
    of=item,
    shows=[Column("NAMESPACE", namespace_text)],
    empty="No items.",
    without=("after",),
)


@verb("memdb item delete agent.db notes/trip tent --dry-run --user ann", of=item, like=Items.delete)
@confirm_options
def delete(
    call: Call, namespace: tuple[str, ...], key: str, expected: int | None = None, **asked: bool
) -> None:
    """Remove KEY of NAMESPACE."""
    with call.scope() as scope:
        found = scope.items.get(namespace, key)

        def go() -> bool:
            return scope.items.delete(namespace, key, expected=expected)

        remove(call, one_line(str(found)), go, **asked, item=found)


COMMANDS = {"item": item}
