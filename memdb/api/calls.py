"""
Public calls: what happens around each method of a class that a user holds.

`observed` makes each public method a call of five steps:

1. `_Keywords.check` refuses a keyword that there is not, and a flag that is neither True nor False.
2. The method runs.
3. What a server undid runs again (`Engine.run_again`).
4. The meter of the file notes how long it took, and with which error.
5. Packed ids in the result become numbers of their scope (`numbered`).

`handle` is for all classes that belong to an open file, also those without such calls.
"""

from __future__ import annotations

from functools import partial, wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import memdb
from memdb.errors import MemDBError
from memdb.models.record import numbered
from memdb.text.validate import flag_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    Class = TypeVar("Class", bound=type)

# Names that only lead to other objects.
_SILENT = frozenset(("session", "scope", "shared", "transaction", "close"))
_FUNCTION = type(lambda: None)
_GENERATOR = 0x20  # inspect.CO_GENERATOR: it would be timed up to its first item only
_KEYWORDS = 0x08  # inspect.CO_VARKEYWORDS


def observed(owner: Class) -> Class:
    """
    Return the class *owner* with its public methods as calls of the steps above.

    Each object has `_services` with a `meter`. Properties are left alone. What only leads to other
    objects, or yields, is neither noted nor run again.
    """
    for name, method in list(vars(owner).items()):
        if type(method) is _FUNCTION and not name.startswith("_"):
            is_noted = name not in _SILENT and not method.__code__.co_flags & _GENERATOR
            setattr(owner, name, _call(method, is_noted=is_noted))
    return handle(owner)


def handle(owner: Class) -> Class:
    """Return the class *owner*, whose objects belong to an open file and keep no other names."""
    if "__repr__" not in vars(owner):
        owner.__repr__ = _name  # type: ignore[method-assign, assignment]  # a method of any class
    owner.__copy__ = _refuse_copy  # type: ignore[attr-defined]  # a method of any class
    owner.__setattr__ = _assign  # type: ignore[method-assign, assignment]  # unseen: names are checked
    return owner


def _refuse_copy(_handle: object) -> Any:
    """Refuse pickling and copying: closing a copy would close the original."""
    raise TypeError("an open memdb file cannot be pickled or copied: pass its path and open that")


def _name(self: Any) -> str:
    """Name the class of a handle, and whose memory it is about."""
    owner, session = (getattr(self, name, None) for name in ("_owner", "_session"))
    whose = "" if owner is None else f" of {owner.user!r}"
    return f"<{type(self).__name__}{'' if session is None else f' of {session!r}'}{whose}>"


def _assign(self: Any, name: str, value: object) -> None:
    known: Any = getattr(type(self), name, None)  # a slot, or a property with a setter
    try:
        type(known).__set__(known, self, value)
    except AttributeError as error:
        way = "`update`" if hasattr(self, "update") else "the method that changes it"
        owner = type(self).__name__
        raise AttributeError(f"{owner}.{name} cannot be assigned: call {way}") from error


class _Keywords:
    """
    The keywords of a method: those that are flags, and the names of all of them.

    A flag is one whose type is bool, each with whether it may be None. Methods without
    `**options` have no names here: Python checks theirs.
    """

    __slots__ = ("_flags", "_method", "_names", "_options")

    def __init__(self, method: Any) -> None:
        kinds = {"bool": False, "bool | None": True}
        code = method.__code__
        first, count = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames[first : first + count]
        given = {name: method.__annotations__.get(name) for name in names}
        self._method = method
        self._flags = {name: kinds[kind] for name, kind in given.items() if kind in kinds}
        self._names = code.co_varnames[1 : first + count]
        self._options = ""
        if code.co_flags & _KEYWORDS:
            self._options = method.__annotations__[code.co_varnames[first + count]]

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse a keyword that there is not, and a flag that is neither True nor False."""
        if self._options and not given.keys() <= {*self._names}:
            options = getattr(memdb, self._options[len("Unpack[") : -1]).__annotations__
            if wrong := given.keys() - {*self._names, *options}:
                names = ", ".join(sorted({*self._names, *options}))
                name = self._method.__qualname__
                raise TypeError(f"{name} has no argument {min(wrong)!r}: use {names}")
        for name, may_be_none in self._flags.items():
            value = given.get(name, True)
            if value is not True and value is not False and (value is not None or not may_be_none):
                flag_value(value, name)


def _call(method: Any, *, is_noted: bool) -> Any:
    """Return *method* as a public call, with its name and documentation."""
    check, name = _Keywords(method).check, method.__qualname__

    @wraps(method)
    def call(self: Any, *args: Any, **given: Any) -> Any:
        if given:
            check(given)
        if not is_noted:
            return numbered(method(self, *args, **given))
        services, start_s = self._services, perf_counter()
        try:
            try:
                result = method(self, *args, **given)
            except MemDBError as error:
                if not error._is_undone or any(map(_is_iterator, (*args, *given.values()))):
                    raise
                again = partial(method, self, *args, **given)
                result = services.db.run_again(again, start_s, error)
        except BaseException as error:
            services.meter.note(name, start_s, error)
            raise
        services.meter.note(name, start_s)
        return numbered(result)

    return call


def _is_iterator(value: Any) -> bool:
    """Return whether a value can be read once only."""
    return hasattr(value, "__next__")
