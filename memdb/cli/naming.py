"""
How a person names things: a session by its title, its beginning or "last", an entry by number.

The number of an entry is that of its scope, which JSON keeps in the file's own id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.cli.output import note, one_line
from memdb.errors import InvalidInput, NotFound
from memdb.models.ids import SCOPE_SHIFT

if TYPE_CHECKING:
    from memdb.api.scope import Scope
    from memdb.models.entries import Entry
    from memdb.models.messages import SessionInfo

LAST = "last"
MOST_NAMED = 10
UUID_CHARS = frozenset("0123456789abcdef-")
NUMBERS = (1 << SCOPE_SHIFT) - 1


def number_of(entry_id: int) -> int:
    """Return the number of an entry in its scope, as people see and type it."""
    return entry_id & NUMBERS


def entry_of(scope: Scope, ref: str) -> Entry:
    """
    Return the entry with a number, an id or a key; NotFound without one.

    A key of digits is found if no entry has that number.
    """
    if ref.isascii() and ref.isdecimal():
        number = int(ref)
        if number <= NUMBERS:
            some = next(iter(scope.entries.list(inactive=True, limit=1)), None)
            number = number if some is None else some.id - number_of(some.id) + number
        try:
            return scope.entries.get(number)
        except NotFound:
            found = scope.entries.find(ref)
            if found is None:
                raise NotFound("entry", int(ref)) from None
            return found
    found = scope.entries.find(ref)
    if found is None:
        raise NotFound("entry", ref)
    return found


def session_named(scope: Scope, given: str, *, is_new: bool = False, whole: bool = False) -> str:
    """
    Return the name of the session that a person means.

    It is the session called so, else with "last" the one that changed last, else the only one
    whose title is so or begins so, or whose name does. What was chosen is printed beside the
    answer.

    Args:
        is_new: It may be one that is made: only "last" stands for another then.
        whole: No beginning will do: what is done cannot be undone, and nobody is asked.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several, or *whole* forbids the beginning that was given.
    """
    begun = scope.sessions(given, limit=MOST_NAMED + 1)
    if not given or any(one.name == given for one in begun):
        return given
    if given == LAST:
        newest = scope.sessions(limit=1, order="updated")
        if newest:
            return _chosen(newest[0])
        raise NotFound("session", given)
    if is_new:
        return given
    wanted = given.casefold()
    titled = [one for one in scope.sessions() if (one.title or "").casefold().startswith(wanted)]
    equal = [one for one in titled if (one.title or "").casefold() == wanted]
    meant = equal or titled + [one for one in begun if one not in titled and _begins(one, given)]
    if not meant:
        raise NotFound("session", given)
    if len(meant) > 1:
        names = ", ".join(one_line(_shown(one)) for one in meant[:MOST_NAMED])
        more = " and more" if len(meant) > MOST_NAMED else ""
        raise InvalidInput(f"{given!r} can be {names}{more}: write more of its name")
    if whole and not equal:
        raise InvalidInput(
            f"{given!r} is only the beginning of {_shown(meant[0])}: with --yes give all of it"
        )
    return _chosen(meant[0])


def _begins(one: SessionInfo, given: str) -> bool:
    """Return whether a beginning is one: "user-1" is none of "user-10", but of a UUID it is."""
    is_cut_number = given[-1].isdecimal() and one.name[len(given)].isdecimal()
    return not is_cut_number or UUID_CHARS.issuperset(one.name.lower())


def _shown(one: SessionInfo) -> str:
    return f"{one.name} ({one.title})" if one.title else one.name


def _chosen(one: SessionInfo) -> str:
    note(one_line(f"Session {_shown(one)}."))
    return one.name
