"""
Record: the base of all value classes, immutable with named fields.

It gives what a frozen `dataclass` with slots gives, without its cost:
`import dataclasses` takes longer than starting Python, and memdb is often
started from shell prompts and editor hooks. ADR-0007 has the numbers. A type
checker sees `dataclass_transform`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from inspect import Signature

    AnyRecord = TypeVar("AnyRecord", bound="Record")
else:

    def dataclass_transform(**_options: object) -> object:
        """Stand in at run time for `typing.dataclass_transform`."""
        return lambda decorated: decorated


# Records of a class that are made before its constructor is compiled.
UNCOMPILED_USES = 16

# Integers up to here are exact where numbers are float64. Packed ids of the 512th scope of a
# file, and those of the scopes behind it, are larger.
MAX_EXACT_INT = 1 << 53


class _FieldDocs(dict[str, str]):
    """The `__slots__` of a record; a field's text is read from "Attributes:" when asked for."""

    __slots__ = ("docstring",)

    docstring: str

    def __getitem__(self, field: str) -> str:
        """Return what the docstring of the class says about *field*, "" if nothing."""
        return _field_docs(self.docstring).get(field, "")


if TYPE_CHECKING:
    from functools import cached_property

    lazy = cached_property
else:

    class lazy:  # noqa: N801 (a decorator)
        """
        A property that is made once, at its first use.

        Not `functools.cached_property`: that is a module more to load, and a Ctrl-C while
        it learns its name, when a class is made, becomes a RuntimeError.
        """

        def __init__(self, make: Callable[[Any], object]) -> None:
            """Call *make* with the object at the first use."""
            self._make = make
            self.__doc__ = make.__doc__

        def __get__(self, owner: Any, kind: type) -> object:
            """Make the value, which from then on stands in its place."""
            made = owner.__dict__[self._make.__name__] = self._make(owner)
            return made


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns the annotations of a class body into read-only slots."""

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
                f"record {name} has no fields: annotate them in a module"
                " that begins with `from __future__ import annotations`"
            )
        if bases and bases != (Record,):
            raise TypeError(f"record {name} must have Record as its only base")
        body["_defaults"] = {field: body.pop(field) for field in fields if field in body}
        body["_fields"] = body["__match_args__"] = fields
        body["__slots__"] = docs = _FieldDocs((field, "") for field in fields)
        docs.docstring = body.get("__doc__") or ""
        if fields:
            body["_values"] = attrgetter(*fields)
            body["__new__"] = _new_uncompiled
            body["_uses"] = 0
        return super().__new__(cls, name, bases, body)

    def __dir__(cls) -> list[str]:
        """
        List the public methods and properties, which is what `help` shows.

        Fields stand in the signature and under "Attributes:".
        """
        names = {*type.__dir__(cls)}.difference(cls._fields)  # type: ignore[attr-defined]
        return [name for name in names if not name.startswith("_")]

    @property
    def __signature__(cls) -> Signature:
        """The fields as parameters, for `inspect.signature` and `help`."""
        from inspect import Parameter, Signature  # only for reading documentation

        return Signature(
            [
                Parameter(
                    field,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=cls._defaults.get(field, Parameter.empty),  # type: ignore[attr-defined]
                    annotation=annotation,
                )
                for field, annotation in cls.__annotations__.items()
            ]
        )


class Record(metaclass=RecordType):
    """
    An immutable value with named fields, equal to another of its class with equal fields.

    It is no sequence. `to_dict` gives what JSON can hold.
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _values: ClassVar[attrgetter[Any]]
    _uses: ClassVar[int]

    @classmethod
    def make(cls, values: Iterable[Any]) -> Self:
        """Return a record of *values*, one per field in order; they are not checked."""
        # A loop that took `make` before it was compiled calls this one to its end.
        if not _is_compiled(cls):
            return _fill(cls, values)
        return cls.make(values)  # the compiled one

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a record does not change; see `replace`."""
        raise AttributeError(f"{type(self).__name__} is immutable: use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        """Refuse: a record does not change."""
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        """Compare field by field with a record of the same class."""
        return type(other) is type(self) and self._values(self) == other._values(other)

    def __hash__(self) -> int:
        """Hash the fields; those that hold a list or dict are left out."""
        values = _values(self)
        try:
            return hash(values)
        except TypeError:
            return hash(tuple(value for value in values if _is_hashable(value)))

    def __repr__(self) -> str:
        """Show the class and each field."""
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by calling the class with the fields again."""
        return type(self), _values(self)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; TypeError if there is no such field."""
        values = dict(zip(self._fields, _values(self), strict=True)) | changes
        if len(values) > len(self._fields):
            wrong = ", ".join(sorted(changes.keys() - {*self._fields}))
            raise TypeError(f"{type(self).__name__} has no field {wrong}")
        return self.make(values.values())

    def _asdict(self) -> dict[str, Any]:
        """Return the fields as they are, by name: what a statement binds."""
        return dict(zip(self._fields, _values(self), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """
        Return the fields as values that JSON can hold, records inside them too.

        A set is a sorted list. Bytes are base64 text; a number that is infinite or none is
        None. An integer beyond 2^53, which browsers and jq round, is text (RFC 7493, section 2.2).
        """
        return {field: plain(getattr(self, field)) for field in self._fields}


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _values(record: Record) -> tuple[Any, ...]:
    values = record._values(record)
    return values if len(record._fields) > 1 else (values,)


def plain(value: Any) -> Any:
    """Return *value* as JSON can hold it everywhere; see `Record.to_dict`."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [plain(item) for item in items]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        from binascii import b2a_base64  # only for what holds bytes

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


def _field_docs(docstring: str) -> dict[str, str]:
    """Return the texts of an "Attributes:" section by field."""
    docs: dict[str, str] = {}
    field, indent = "", -1
    for line in docstring.partition("Attributes:")[2].splitlines():
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if not text:
            continue
        if indent < 0:
            indent = depth
        if depth < indent:
            break
        if depth == indent:
            field, _, text = text.partition(":")
        docs[field] = f"{docs.get(field, '')} {text.strip()}".strip()
    return docs


def _new_uncompiled(cls: type[Record], *args: Any, **kwargs: Any) -> Record:
    """
    Construct one of the first records of a class; the compiled constructor follows.

    Each class has it, not their base: a twin class would inherit it, and be
    made at half the speed.
    """
    if not _is_compiled(cls):
        fields = cls._fields
        values = {**cls._defaults, **dict(zip(fields, args, strict=False)), **kwargs}
        is_plain = len(args) <= len(fields) and kwargs.keys().isdisjoint(fields[: len(args)])
        if is_plain and len(values) == len(fields) and values.keys() == {*fields}:
            return _fill(cls, [values[field] for field in fields])
        _compile(cls)  # which says what is wrong
    return cls.__new__(cls, *args, **kwargs)


def _is_compiled(cls: type[Record]) -> bool:
    """
    Return whether *cls* makes its records by compiled functions, and compile them when due.

    Compiling costs as much as 100 records. A new process makes one or two of most
    classes, and would wait 15 ms before its first search is answered.
    """
    if "make" in cls.__dict__:
        return True
    cls._uses += 1
    if cls._uses <= UNCOMPILED_USES:
        return False
    _compile(cls)
    return True


def _fill(cls: type[AnyRecord], values: Iterable[Any]) -> AnyRecord:
    """Return a record of *values* without compiled functions."""
    record = object.__new__(cls)
    put = object.__setattr__
    for field, value in zip(cls._fields, values, strict=True):
        put(record, field, value)
    return record


def _compile(cls: type[Record]) -> None:
    """
    Give *cls* a `__new__` with the fields as parameters, and its `make`.

    A slot is written at full speed only in a class without a `__setattr__` of
    its own. So a new object starts in a twin class and then changes into *cls*:
    a third of the time that `object.__setattr__` takes for each field.

    The source is built from field names alone, no value enters it.
    """
    names: dict[str, Any] = {f"default_{name}": value for name, value in cls._defaults.items()}
    names["twin"] = type.__new__(
        RecordType,
        cls.__name__,
        (Record,),
        {
            "__slots__": cls._fields,
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        },
    )
    parameters = "".join(
        f", {field}=default_{field}" if field in cls._defaults else f", {field}"
        for field in cls._fields
    )
    fill = "\n".join(f"  self.{field} = {field}" for field in cls._fields)
    spread = "".join(f"self.{field}, " for field in cls._fields)
    source = (
        f"def __new__(cls{parameters}):\n  self = twin()\n{fill}\n"
        "  self.__class__ = cls\n  return self\n"
        f"def make(cls, values):\n  self = twin()\n  ({spread}) = values\n"
        "  self.__class__ = cls\n  return self\n"
    )
    exec(source, names)  # noqa: S102
    names["__new__"].__qualname__ = f"{cls.__qualname__}.__new__"
    names["make"].__doc__ = Record.make.__doc__
    cls.__new__ = staticmethod(names["__new__"])  # type: ignore[method-assign]
    cls.make = classmethod(names["make"])  # type: ignore[assignment, method-assign]
