"""
Record: the base of all value classes, with named fields and slots.

`dataclasses`, attrs and msgspec take longer to import than Python takes to start, and memdb is
often started from shell prompts and editor hooks (ADR-0007). A type checker sees
`dataclass_transform`, and so refuses to assign to a field.
"""

from __future__ import annotations

from binascii import b2a_base64
from itertools import islice, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from memdb.models.ids import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from inspect import Signature

# Integers up to here are exact where numbers are float64.
MAX_EXACT_INT = 1 << 53

# Characters of a text that a repr shows.
MAX_SHOWN_CHARS = 80


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns the annotations of a class body into slots."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> RecordType:
        """
        Create the class; defaults are the values assigned in its body.

        Raises:
            TypeError: no field is annotated, or the annotations are no text
                because the module lacks `from __future__ import annotations`.
        """
        fields = tuple(body.get("__annotations__", ())) if bases else ()
        if bases and not fields:
            raise TypeError(
                f"record {name} has no fields: annotate them, in a module that begins with `from "
                "__future__ import annotations`"
            )
        if bases and bases != (Record,):
            raise TypeError(f"record {name} must have Record as its only base")
        body["_defaults"] = {field: body.pop(field) for field in fields if field in body}
        body["_blank"] = {field: body["_defaults"].get(field) for field in fields}
        body["_needed"] = frozenset(fields) - body["_defaults"].keys()
        body["_fields"] = body["__match_args__"] = body["__slots__"] = fields
        body["_values"] = attrgetter(*fields, "__class__")
        return super().__new__(cls, name, bases, body)

    def __dir__(cls) -> list[str]:
        """List the public methods; `help` shows the fields as the signature."""
        names = {*type.__dir__(cls)}.difference(cls._fields)  # type: ignore[attr-defined]  # of Record
        return [name for name in names if not name.startswith("_")]

    @property
    def __signature__(cls) -> Signature:
        """The fields as parameters, for `inspect.signature`, `help` and errors."""
        from inspect import Parameter, Signature  # noqa: PLC0415 (7 ms, only for these)

        kind, defaults = Parameter.POSITIONAL_OR_KEYWORD, cls._defaults  # type: ignore[attr-defined]  # of Record
        return Signature(
            [
                Parameter(field, kind, default=defaults.get(field, Parameter.empty), annotation=of)
                for field, of in cls.__annotations__.items()
            ]
        )


class Record(metaclass=RecordType):
    """
    A value with named fields, equal to another of its class with equal fields.

    A record is no sequence. `to_dict` gives what JSON can hold. The field `row_id`, a packed id, is
    neither shown nor in `to_dict`. A class names in `_numbered` its fields that hold packed ids,
    or records with some; see `numbered`.
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _blank: ClassVar[dict[str, Any]]  # the default of each field, None without
    _needed: ClassVar[frozenset[str]]  # the fields without
    _values: ClassVar[attrgetter[Any]]  # the fields, and the class
    _numbered: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the fields by place or by name."""
        fields = self._fields
        if kwargs or len(args) != len(fields):
            args = self._complete(args, kwargs)
        any(map(setattr, repeat(self), fields, args))  # each append makes three

    @classmethod
    def _complete(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return a value for each field: those given by place or name, and defaults."""
        fields, count = cls._fields, len(args)
        if not kwargs and len(cls._needed) <= count < len(fields):
            return (*args, *islice(cls._blank.values(), count, None))
        values = {**cls._blank, **kwargs}  # in the order of the fields
        is_once = len(values) == len(fields) >= count and kwargs.keys().isdisjoint(fields[:count])
        if not (is_once and cls._needed.issubset((*fields[:count], *kwargs))):
            try:
                cls.__signature__.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{cls.__name__}: {error}") from None  # same words
        return (*args, *islice(values.values(), count, None))

    def __eq__(self, other: object) -> bool:
        """Compare field by field with a record of the same class."""
        return isinstance(other, Record) and self._values(self) == other._values(other)

    def __hash__(self) -> int:
        """Hash the fields; those that contain a list or dict are left out."""
        values = self._values(self)
        try:
            return hash(values)
        except TypeError:
            return hash(tuple(value for value in values if _is_hashable(value)))

    def __repr__(self) -> str:
        """
        Show the class, and each field that differs from its default, None without one.

        The text fits a line: of rows their number and the first text are shown, of a long text its
        beginning.
        """
        shown = ", ".join(
            f"{field}={_shown(value)}"
            for field, value in self._asdict().items()
            if field != "row_id" and value != self._blank[field]
        )
        return f"{type(self).__name__}({shown})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; TypeError if there is no such field."""
        if not changes.keys() <= self._blank.keys():
            return type(self)(**{**self._asdict(), **changes})  # says what is wrong
        copy = self.__class__.__new__(self.__class__)
        any(map(setattr, repeat(copy), self._fields, self._values(self)))
        any(map(setattr, repeat(copy), changes, changes.values()))
        return copy

    def _asdict(self) -> dict[str, Any]:
        """Return the fields as they are, by name: what a statement binds."""
        return dict(zip(self._fields, self._values(self), strict=False))

    def to_dict(self) -> dict[str, Any]:
        """
        Return the fields as values that JSON can hold, records inside them too.

        A set is a sorted list. Bytes are base64 text; a number that is infinite or none is
        None. An integer beyond 2^53, which browsers and jq round, is text (RFC 7493, section 2.2).
        """
        shown = (field for field in self._fields if field != "row_id")
        return {field: plain(getattr(self, field)) for field in shown}


T = TypeVar("T")


class Page(list[T]):
    """
    Rows of a list, in its order.

    Attributes:
        next: What to give as *after* for the next page. None means that this is the last one.
    """

    __slots__ = ("next",)

    def __init__(self, rows: Iterable[T] = (), next: T | None = None) -> None:  # noqa: A002 (the attribute)
        """Store *rows*; more of them follow unless *next* is None."""
        super().__init__(rows)
        self.next = next


def _shown(value: object) -> str:
    if isinstance(value, str) and len(value) > MAX_SHOWN_CHARS:
        return repr(value[:MAX_SHOWN_CHARS]) + "..."
    if value and isinstance(value, (tuple, list)) and isinstance(value[0], Record):
        text = getattr(value[0], "text", None)
        first = f": {_shown(text)}" if text else ""
        return f"<{counted(len(value), type(value[0]).__name__)}{first}>"
    return repr(value)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def numbered(value: Any) -> Any:
    """Return records with numbers of their scope in place of packed ids."""
    if isinstance(value, Record):
        if not value._numbered:
            return value
        held = {field: getattr(value, field) for field in value._numbered}
        changed = {
            field: number_of(one) if isinstance(one, int) else numbered(one)
            for field, one in held.items()
        }
        return value if changed == held else value.replace(**changed)
    kind = type(value)
    if kind not in _LISTS:
        return value
    kinds = {*map(type, value)}  # long lists are of messages, which have no such numbers
    has_ids = any(getattr(one, "_numbered", one in _LISTS) for one in kinds)
    rows = map(numbered, value) if has_ids else value
    return Page(rows, numbered(value.next)) if kind is Page else kind(rows)


_LISTS = (list, tuple, Page)


def plain(value: Any) -> Any:
    """Return *value* as JSON can contain it everywhere; see `Record.to_dict`."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [plain(item) for item in items]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b2a_base64(value, newline=False).decode()
    if isinstance(value, float) and value - value != 0:
        return None
    is_rounded = isinstance(value, int) and not -MAX_EXACT_INT <= value <= MAX_EXACT_INT
    return str(value) if is_rounded or isinstance(value, Exception) else value


def counted(number: int, one: str, many: str = "") -> str:
    """
    Return a number with the word for what it counts: "1 message", "2,000 messages".

    Args:
        many: The plural; "" means that of *one* with an "s".
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
