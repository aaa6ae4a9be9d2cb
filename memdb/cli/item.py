"""`memdb item`: values under a namespace and a key, as frameworks store them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import confirm, confirm_options, text_or_stdin, verb
from memdb.cli.command import Noun
from memdb.cli.output import Column, is_terminal, one_line, size, when
from memdb.cli.records import expected_option
from memdb.errors import NotFound

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.items import Item
    from memdb.models.types import ItemOrder

LIST_COLUMNS = (
    Column("NAMESPACE", lambda one: namespace_text(one.namespace), cut=True),
    Column("KEY", lambda one: one.key, cut=True),
    Column("REV", lambda one: one.revision, right=True),
    Column("UPDATED", lambda one: when(one.updated_ms)),
    Column("EXPIRES", lambda one: when(one.expires_ms) if one.expires_ms is not None else ""),
    Column("VALUE", lambda one: value_text(one.value), cut=True),
)

OPERATORS = {">=": "$gte", "<=": "$lte", "!=": "$ne", ">": "$gt", "<": "$lt", "=": "$eq"}


def namespace_of(text: str) -> tuple[str, ...]:
    """
    Return the labels of "notes/trip", or of a JSON list; "" and "/" are the root.

    >>> namespace_of("notes/trip"), namespace_of('["a/b", "c"]'), namespace_of("/")
    (('notes', 'trip'), ('a/b', 'c'), ())
    """
    if text.startswith("["):
        try:
            labels = json.loads(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is no JSON list of labels ({error}).") from error
        return tuple(labels)
    return tuple(text.strip("/").split("/")) if text.strip("/") else ()


def namespace_text(labels: tuple[str, ...]) -> str:
    """Return labels as `namespace_of` reads them."""
    if any("/" in label or label.startswith("[") for label in labels):
        return json.dumps(labels, ensure_ascii=False)
    return "/".join(labels) or "/"


def value_text(value: Any) -> str:
    """Return a value as JSON text, bytes as how many they are."""
    return size(len(value)) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)


def _parsed(text: str) -> Any:
    """Return JSON text as its value; what is no JSON is a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _condition(text: str) -> tuple[str, dict[str, Any]]:
    """Return field path and test of "stars>=3"."""
    found = [(text.index(sign), -len(sign), sign) for sign in OPERATORS if sign in text]
    place, _, sign = min(found, default=(0, 0, ""))
    if not place:
        raise click.BadParameter(f"{text!r} is no condition: write FIELD=VALUE or FIELD>=VALUE.")
    return text[:place], {OPERATORS[sign]: _parsed(text[place + len(sign) :])}


@click.group(cls=Noun)
def item() -> None:
    """
    Put, get, list and delete values under a namespace and a key.

    NAMESPACE is labels joined by slashes, as in notes/trip, or a JSON list of
    them; "/" is the root.
    """


@verb(
    """memdb item put agent.db notes/trip tent '{"text": "Pack the tent."}' --user ann""",
    "memdb item put agent.db notes/trip tent - --expected 1 --user ann < tent.json",
    of=item,
)
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@expected_option
@click.option("--ttl", metavar="SPAN", help="How long it lives, as in 30d, 12h or 45m.")
@click.option("--no-index", is_flag=True, help="Do not find it by its words.")
def put(
    call: Call,
    namespace: str,
    key: str,
    value: str,
    expected: int | None,
    ttl: str | None,
    no_index: bool,
) -> None:
    """
    Create or replace the item KEY in NAMESPACE.

    VALUE is JSON, or else a text; "-" reads it from standard input. FILE is made if it is new.
    """
    given = _parsed(text_or_stdin(value))
    labels = namespace_of(namespace)
    with call.scope(create=True) as scope:
        stored = scope.items.put(labels, key, given, expected=expected, ttl=ttl, index=not no_index)
    call.reply(stored, f"{one_line(str(stored))} (revision {stored.revision})")


@verb("memdb item get agent.db notes/trip tent --user ann", of=item)
@click.argument("namespace")
@click.argument("key")
def get(call: Call, namespace: str, key: str) -> None:
    """Print the value of KEY in NAMESPACE: JSON, or its bytes as they are."""
    with call.scope() as scope:
        found = scope.items.get(namespace_of(namespace), key)
    call.reply(found, lambda: _print_value(found))


def _print_value(found: Item) -> None:
    if isinstance(found.value, bytes):
        if is_terminal(sys.stdout):
            raise click.UsageError("The value is bytes: pipe them, or use --json.")
        sys.stdout.buffer.write(found.value)
        sys.stdout.buffer.flush()
    else:
        click.echo(json.dumps(found.value, ensure_ascii=False, indent=2))


@verb(
    "memdb item list agent.db notes --where 'stars>=3' --user ann",
    "memdb item list agent.db threads/t1 --order updated --descending --limit 1 --user ann",
    of=item,
    name="list",
)
@click.argument("namespace", default="/")
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Or with != > >= < <=.")
@click.option(
    "--order",
    type=click.Choice(("key", "updated", "created")),
    default="key",
    help="By namespace and key, or by time.",
)
@click.option("--descending", is_flag=True, help="The last ones first.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
def list_(
    call: Call,
    namespace: str,
    where: tuple[str, ...],
    order: ItemOrder,
    descending: bool,
    limit: int,
) -> None:
    """List the items in NAMESPACE and below it."""
    tests: dict[str, dict[str, Any]] = {}
    for text in where:
        path, test = _condition(text)
        tests.setdefault(path, {}).update(test)
    with call.scope() as scope:
        found = scope.items.list(
            namespace_of(namespace),
            where=tests or None,
            order=order,
            descending=descending,
            limit=limit,
        )
    call.reply_records(found, LIST_COLUMNS, empty="No items.")


@verb("memdb item namespaces agent.db --depth 1 --user ann", of=item)
@click.argument("namespace", default="/")
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Cut each after N labels.")
def namespaces(call: Call, namespace: str, depth: int | None) -> None:
    """List the namespaces that hold items, NAMESPACE and below it."""
    with call.scope() as scope:
        found = scope.items.namespaces(namespace_of(namespace), max_depth=depth)
    shown = [one_line(namespace_text(labels)) for labels in found]
    data = {"namespaces": [list(labels) for labels in found]}
    call.reply(data, "\n".join(shown) if shown else "No items.")


@verb("memdb item delete agent.db notes/trip tent --dry-run --user ann", of=item)
@click.argument("namespace")
@click.argument("key")
@expected_option
@confirm_options
def delete(
    call: Call, namespace: str, key: str, expected: int | None, yes: bool, dry_run: bool
) -> None:
    """Remove KEY of NAMESPACE."""
    labels = namespace_of(namespace)
    with call.scope() as scope:
        found = scope.items.get(labels, key)
        what = one_line(str(found))
        if not dry_run:
            confirm(f"Delete {what}?", yes=yes)
        deleted = not dry_run and scope.items.delete(labels, key, expected=expected)
        if not (deleted or dry_run):
            raise NotFound("item", str(found))
    data = {"deleted": deleted, "dry_run": dry_run, "item": found}
    call.reply(data, f"{'Would delete' if dry_run else 'Deleted'} {what}.")


COMMANDS = {"item": item}
