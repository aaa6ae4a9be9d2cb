"""
Many items of a namespace at once, as stores of frameworks read, write and delete them.

A key that no item can have (not a text, empty, too long, with a NUL) counts as absent, because
frameworks skip absent keys. Each call is one transaction for any number of items.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from memdb import DeleteItem, FindItem
from memdb.errors import InvalidInput
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb import MemDB
    from memdb.api.items import Items
    from memdb.models.items import Item, Namespace, PutItem

T = TypeVar("T")

MAX_BATCH = 10_000


def is_key(key: object) -> bool:
    """Return whether an item can have a key."""
    try:
        name_value(key, "key")
    except InvalidInput:
        return False
    return True


def key_list(keys: Iterable[T], field: str = "keys") -> list[T]:
    """
    Return *keys* as a list; InvalidInput for a text, whose characters are no keys.
    """
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InvalidInput(f"{field} is {type(keys).__name__}: give a list of texts")
    return [*keys]


def _usable(keys: Iterable[str]) -> list[str]:
    """Return the keys that an item can have, each once, in order."""
    return [*dict.fromkeys(key for key in key_list(keys) if is_key(key))]


def find_many(items: Items, namespace: Namespace, keys: Iterable[str]) -> dict[str, Item]:
    """Return the items that exist, by key, in the order of *keys*."""
    wanted = [FindItem(namespace, key) for key in _usable(keys)]
    found: dict[str, Item] = {}
    for part in _parts(wanted):
        found |= {item.key: item for item in items.batch(part) if item is not None}
    return found


def put_many(db: MemDB, items: Items, puts: Sequence[PutItem]) -> list[Item]:
    """Create or replace items, all of them or none."""
    if len(puts) <= MAX_BATCH:
        return items.batch(puts)
    with db.transaction():
        return [item for part in _parts(puts) for item in items.batch(part)]


def delete_many(db: MemDB, items: Items, namespace: Namespace, keys: Iterable[str]) -> int:
    """Remove items, and return how many there were."""
    doomed = [DeleteItem(namespace, key) for key in _usable(keys)]
    if not doomed:
        return 0
    with db.transaction():
        return sum(sum(items.batch(part)) for part in _parts(doomed))


def delete_all(db: MemDB, items: Items, namespace: Namespace) -> int:
    """
    Remove every item of a namespace, but none of the namespaces below it; return their number.
    """
    with db.transaction():
        return delete_many(db, items, namespace, items.keys(namespace))


def _parts(operations: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(operations), MAX_BATCH):
        yield operations[start : start + MAX_BATCH]
