"""
The base of all models: what a frozen dataclass gives, without its cost.

`import dataclasses` takes longer than starting Python does, and a memory that
is asked from a shell prompt or an editor hook starts often. ADR-0007 has the
numbers. A type checker sees `dataclass_transform`, so nothing is lost there.
"""

from __future__ import annotations

# What `collections.namedtuple` gives its fields; apsw has loaded the module.
from _collections import _tuplegetter  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_options: object) -> object:
        """Stand in at run time for `typing.dataclass_transform`."""
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns the annotations of a class body into fields of a tuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> RecordType:
        """Create the class; defaults are the values assigned in its body."""
        fields = tuple(body.get("__annotations__", ())) if bases != (tuple,) else ()
        body["_defaults"] = {field: body.pop(field) for field in fields if field in body}
        body["_fields"] = body["__match_args__"] = fields
        body["__slots__"] = ()
        for place, field in enumerate(fields):
            body[field] = _tuplegetter(place, f"Field {field}.")
        return super().__new__(cls, name, bases, body)


class Record(tuple, metaclass=RecordType):  # type: ignore[type-arg] # noqa: SLOT001 (by the metaclass)
    """
    An immutable value with named fields, equal to another of its class with equal fields.

    A tuple underneath, because nothing in Python is made faster: a page of
    messages becomes records in a tenth of the time that attributes take.
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    if not TYPE_CHECKING:

        def __new__(cls, *args: object, **kwargs: object) -> Self:
            """Compile the real `__new__` at the first use, then call it."""
            cls.__new__ = _compile_new(cls)
            return cls.__new__(cls, *args, **kwargs)

    @classmethod
    def make(cls, values: Iterable[Any]) -> Self:
        """Return a record of *values*, one per field in order; they are not checked."""
        return tuple.__new__(cls, values)

    def __eq__(self, other: object) -> bool:
        """Compare field by field with a record of the same class."""
        return type(other) is type(self) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """Say whether the two differ in class or in a field."""
        return not self == other

    def __hash__(self) -> int:
        """Hash the fields; a TypeError if one of them is a list or dict."""
        return tuple.__hash__(self)

    def __repr__(self) -> str:
        """Show the class and each field."""
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by calling the class with the fields again."""
        return type(self), tuple(self)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return type(self)(**{**dict(zip(self._fields, self, strict=True)), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, records inside them too."""
        return {field: _plain(getattr(self, field)) for field in self._fields}


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _compile_new(cls: type[Record]) -> Any:
    """
    Return a `__new__` with the fields as parameters.

    The source is built from field names alone, no value enters it.
    """
    names: dict[str, Any] = {f"default_{name}": value for name, value in cls._defaults.items()}
    names["new"] = tuple.__new__
    parameters = "".join(
        f", {field}=default_{field}" if field in cls._defaults else f", {field}"
        for field in cls._fields
    )
    values = "".join(f"{field}, " for field in cls._fields)
    exec(f"def __new__(cls{parameters}):\n  return new(cls, ({values}))", names)  # noqa: S102
    made = names["__new__"]
    made.__qualname__ = f"{cls.__qualname__}.__new__"
    return staticmethod(made)
