"""
Items: values under a namespace and a key, and the arguments that change them.

A namespace is a tuple of labels. A namespace is stored as one text, each label followed by the
character 31, so a namespace and everything below it are one range of texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput, TooLarge
from memdb.models.record import Record
from memdb.text.validate import DAY_MS, UNITS_MS, name_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    Namespace = Sequence[str]
    Ttl = int | float | timedelta | str

SEPARATOR = "\x1f"
BELOW = "\x20"  # the character after the separator: the end of the range of a prefix

MAX_DEPTH = 64
MAX_PATH_CHARS = 4096
MAX_DATA_BYTES = 32 << 20
MAX_VECTORS = 1_000
MAX_TTL_MS = 36_500 * DAY_MS
MIN_TTL_MS = 1
MAX_SPAN_DIGITS = 6

ORDERS = ("key", "updated", "created")


class Item(Record):
    """
    A value under a namespace and key.

    Attributes:
        id: Its number in its scope; later items have a higher one.
        namespace: Its labels, () for the root.
        value: A JSON value, or bytes.
        version: 1 when it is new; each put adds 1.
        metadata: A JSON object of the caller; None means none.
        created_ms: Time when the key got its first value, UTC milliseconds.
        updated_ms: Time when it got this value.
        ttl_ms: How long it lives after a put or a refresh. None means for ever.
        expires_ms: Time when it expires. None means never.
        uid: The same in every file that it is exported to.
        writer: The program, adapter or client that put this value; None means unknown.
    """

    id: int
    namespace: tuple[str, ...]
    key: str
    value: Any
    version: int
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    ttl_ms: int | None
    expires_ms: int | None
    uid: str
    writer: str | None = None

    _numbered = ("id",)

    def __str__(self) -> str:
        """Name the place in one short line, as the command line prints it."""
        return "/".join((*self.namespace, self.key))


class FoundItem(Record):
    """
    An item that a search found.

    Attributes:
        score: Of a query 0 to 1; of a vector its cosine, -1 to 1.
        text: The part of its value that was searched.
        vector: The one of its vectors that is nearest to the given vector, float32. None means that
            a query found it.
    """

    item: Item
    score: float
    text: str
    vector: bytes | None = None

    _numbered = ("item",)


class PutItem(Record):
    """Put of an `items.batch`; the fields are the arguments of `items.put`."""

    namespace: Namespace
    key: str
    value: Any
    metadata: dict[str, Any] | None = None
    expected: int | Item | None = None
    ttl: Ttl | None = None
    index: bool | Sequence[str] = True
    vectors: Sequence[bytes | Sequence[float]] | None = None


class FindItem(Record):
    """Find of an `items.batch`; the fields are the arguments of `items.find`."""

    namespace: Namespace
    key: str
    refresh: bool = False


class DeleteItem(Record):
    """Delete of an `items.batch`; the fields are the arguments of `items.delete`."""

    namespace: Namespace
    key: str
    expected: int | Item | None = None


# Paths of namespaces that were checked, because a program names few: a third of a find.
_paths: dict[tuple[str, ...], str] = {}
MAX_PATHS = 1_000


def path_of(namespace: object, field: str = "namespace") -> str:
    """
    Return a namespace in its stored form.

    Raises:
        InvalidInput: *namespace* is not a list or tuple of names, or a label contains the
            character 31.
        TooLarge: there are more than `MAX_DEPTH` labels, or more than `MAX_PATH_CHARS` in all.

    >>> labels_of(path_of(("a", "b"))), path_of(())
    (('a', 'b'), '')
    """
    if type(namespace) is tuple:
        known = _find_path(namespace)
        if known is not None:
            return known
    if not isinstance(namespace, (list, tuple)):
        raise InvalidInput(
            f"{field} is {type(namespace).__name__}: give a tuple of labels, "
            "for example ('notes', 'ann')"
        )
    if len(namespace) > MAX_DEPTH:
        raise TooLarge(f"the number of labels in {field}", MAX_DEPTH, len(namespace))
    labels = [name_value(label, f"{field}[{place}]") for place, label in enumerate(namespace)]
    for place, label in enumerate(labels):
        if SEPARATOR in label:
            raise InvalidInput(f"{field}[{place}] contains the character U+001F: remove it")
    path = "".join(label + SEPARATOR for label in labels)
    if len(path) > MAX_PATH_CHARS:
        raise TooLarge(f"the number of characters in {field}", MAX_PATH_CHARS, len(path))
    if len(_paths) >= MAX_PATHS:
        _paths.clear()
    _paths[tuple(labels)] = path
    return path


def _find_path(namespace: tuple[object, ...]) -> str | None:
    """Return the path of labels that were checked before; None for others."""
    try:
        return _paths.get(namespace)  # type: ignore[arg-type]  # a miss if unhashable
    except TypeError:  # one of them cannot be hashed
        return None


def labels_of(path: str) -> tuple[str, ...]:
    """Return the labels of a stored namespace."""
    return tuple(path.split(SEPARATOR)[:-1])


def path_range(path: str) -> tuple[str, str]:
    """Return the first path at or below *path*, and the first after all of them."""
    return (path, path[:-1] + BELOW) if path else ("", chr(0x10FFFF))


def ttl_value(value: Ttl | None) -> int | None:
    """
    Return a time to live in milliseconds, None for None.

    Args:
        value: Seconds, a timedelta, or text such as "30d", "12h" or "45m".

    Raises:
        InvalidInput: *value* has none of these forms, is not above 0, or is over 100 years.

    >>> ttl_value(1.5), ttl_value("2h")
    (1500, 7200000)
    """
    if value is None:
        return None
    total = getattr(value, "total_seconds", None)
    seconds = total() if callable(total) else value
    if isinstance(seconds, str):
        digits, unit = seconds[:-1], seconds[-1:]
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MAX_SPAN_DIGITS
        if unit in UNITS_MS and is_number:
            seconds = int(digits) * UNITS_MS[unit] / 1000
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise InvalidInput(
            f"ttl is {value!r:.64}: give seconds, a timedelta, or a text such as '30d', '12h', "
            "'45m'"
        )
    if not 0 < seconds <= MAX_TTL_MS / 1000:  # NaN is neither
        raise InvalidInput(f"ttl is {value!r:.64}: give a time above 0 and up to 100 years")
    return max(MIN_TTL_MS, round(seconds * 1000))
