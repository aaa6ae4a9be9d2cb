"""
The base of all models: what a frozen, slotted dataclass gives, without its cost.

`import dataclasses` takes longer than starting Python does, and a memory that
is asked from a shell prompt or an editor hook starts often. ADR-0007 has the
numbers. A type checker sees `dataclass_transform`, so nothing is lost there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_options: object) -> object:
        """Stand in at run time for `typing.dataclass_transform`."""
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns the annotations of a class body into slots and an `__init__`."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> RecordType:
        """Create the class; defaults are the values assigned in its body."""
        fields = tuple(body.get("__annotations__", ())) if bases else ()
        body["_defaults"] = {field: body.pop(field) for field in fields if field in body}
        body["_fields"] = body["__match_args__"] = fields
        body["__slots__"] = fields
        return super().__new__(cls, name, bases, body)


class Record(metaclass=RecordType):
    """An immutable value with named fields, equal to another with equal fields."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    if not TYPE_CHECKING:

        def __init__(self, *args: object, **kwargs: object) -> None:
            """Compile the real `__init__` at the first use, then call it."""
            cls = type(self)
            cls.__init__ = _compile_init(cls)
            cls.__init__(self, *args, **kwargs)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a record never changes."""
        raise AttributeError(f"{type(self).__name__} is frozen: use .replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        """Refuse: a record never changes."""
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        """Compare field by field with a record of the same class."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in self._fields)

    def __hash__(self) -> int:
        """Hash the fields; a TypeError if one of them is a list or dict."""
        return hash(tuple(getattr(self, field) for field in self._fields))

    def __repr__(self) -> str:
        """Show the class and each field."""
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Pickle and copy by calling the class with the fields again."""
        return type(self), tuple(getattr(self, field) for field in self._fields)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        values = {field: getattr(self, field) for field in self._fields}
        return type(self)(**{**values, **changes})

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


def _compile_init(cls: type[Record]) -> Any:
    """
    Return an `__init__` that sets each slot directly.

    A loop over the slots takes twice as long, and messages are made by the
    thousand. The source is built from field names alone, no value enters it.
    """
    names = {f"set_{field}": getattr(cls, field).__set__ for field in cls._fields}
    names.update({f"default_{field}": value for field, value in cls._defaults.items()})
    parameters = ", ".join(
        f"{field}=default_{field}" if field in cls._defaults else field for field in cls._fields
    )
    lines = "\n".join(f"  set_{field}(self, {field})" for field in cls._fields)
    exec(f"def __init__(self, {parameters}):\n{lines or '  pass'}", names)  # noqa: S102
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
