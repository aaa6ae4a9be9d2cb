"""
Memories of mem0: what `get_all` or its export gives, as JSON.

Each memory becomes an entry with its time, its categories as keywords, and its metadata.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import NOTE, Format, elements, groups, left_out, nested
from memdb.transfer.lines import Item, utc_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.transfer.source import Tree

LISTS = ("results", "memories")  # where the memories stand, if not in an array
SOURCE = "mem0"
PEEKS = 4
SHOWN = 5
MIXED = "it holds memories of {} users ({}), and all of them went to one: give --user one of these"
KEPT = ("id", "user_id", "agent_id", "run_id", "app_id")


def _claim(tree: Tree) -> list[str]:
    """Claim files whose first object is a memory, or has a list of them."""
    names = tree.candidates("*.json")
    return [name for name in names if any(map(_is_memory, _firsts(tree.peek(name))))]


def _firsts(fields: dict[str, Any]) -> list[Any]:
    """Return the first memories: the very first may be broken."""
    for name in LISTS:
        if isinstance(fields.get(name), list) and fields[name]:
            return [*fields[name][:PEEKS]]
    return [fields]


def _is_memory(value: Any) -> bool:
    return isinstance(value, dict) and "id" in value and isinstance(value.get("memory"), str)


def _read(request: Request) -> Read:
    found = elements(request, request.names, "memory", is_whole=False)
    people = {_user_of(value) for _, value in nested(found, "memory", _memories)} - {None}
    # Where the file knows whom it is imported for, what others have is not theirs.
    mine = request.user if len(people) > 1 and request.user in people else None
    found = elements(request, request.names, "memory")
    yield from groups(nested(found, "memory", _memories), partial(_memory, mine=mine))
    if len(people) > 1 and mine is None:
        names = ", ".join(sorted(map(repr, people))[:SHOWN])
        yield Item(request.tree.name, NOTE, {"text": MIXED.format(len(people), names)})


def _user_of(value: Any) -> Any:
    """Return whose memory something is; None for one that does not say it."""
    user = value.get("user_id") if _is_memory(value) else None
    return user if isinstance(user, str) else None


def _memories(value: Any) -> list[Any] | None:
    """Return the memories of an answer; None for what is a memory itself."""
    lists = [value[name] for name in LISTS if isinstance(value, dict) and name in value]
    return lists[0] if lists and isinstance(lists[0], list) else None


def _memory(place: str, value: Any, mine: str | None) -> Iterator[Item]:
    if not _is_memory(value):
        raise InvalidInput("no memory of mem0: it has no id or no text")
    user = _user_of(value)
    if mine is not None and user not in (None, mine):
        yield left_out(place, f"memories of {user!r}", "import the file for that user too")
        return
    about = {name: value[name] for name in KEPT if value.get(name)}
    if isinstance(value.get("metadata"), dict):
        about |= value["metadata"]
    fields: dict[str, Any] = {"text": value["memory"], "source": SOURCE, "metadata": about}
    categories = value.get("categories")
    if isinstance(categories, list):
        fields["keywords"] = [word for word in categories if isinstance(word, str) and word]
    fields["created_ms"] = utc_time(value.get("created_at"), "created_at")
    yield Item(place, "entry", {name: one for name, one in fields.items() if one is not None})


FORMATS = {"mem0": Format("mem0", "memories of mem0", _claim, _read)}
