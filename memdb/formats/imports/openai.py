"""
Messages in the form of OpenAI's APIs: an array of them, or lines of a fine-tuning file.

An array is one conversation, named by the file. So is each line or object with `messages`: its
name is its `session`, else that of the file and its number. `memdb.formats.provider_messages`
defines the forms of a message.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import EMPTY, Format, elements, groups, line_values
from memdb.formats.imports.jsonl import provider_messages
from memdb.models.ids import made_id
from memdb.transfer.lines import Item, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

PATTERNS = ("*.json", "*.jsonl")


def _claim(tree: Tree) -> list[str]:
    """Claim arrays of messages, and files whose first object has `messages`."""
    names = tree.candidates(*PATTERNS)
    return [name for name in names if _is_array(tree, name) or _has_messages(tree.peek(name))]


def _is_array(tree: Tree, name: str) -> bool:
    return not tree.is_database and tree.is_array(name) and "role" in tree.peek(name)


def _has_messages(fields: dict[str, Any]) -> bool:
    messages = fields.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, dict) and "role" in first


def _read(request: Request) -> Read:
    for name in request.names:
        title = request.session or name.rpartition("/")[2].rpartition(".")[0] or name
        if _is_array(request.tree, name):
            found = iter([_whole(request, name, title)])
        else:
            found = _conversations(request, name, title)
        yield from groups(found, _conversation)


def _whole(request: Request, name: str, title: str) -> tuple[str, Any]:
    """Return place and value of the conversation that a file is, or the error as its value."""
    messages = [message for _, message in elements(request, [name], "message")]
    broken = [one for one in messages if isinstance(one, Exception)]
    value = broken[0] if broken else {"session": title, "messages": messages}
    return request.tree.shown(name), value


def _conversations(request: Request, name: str, title: str) -> Iterator[tuple[str, Any]]:
    """Yield place and conversation of each line, or of the array or object that a file is."""
    is_lines = _is_lines(request.tree, name)
    found = line_values(request, [name]) if is_lines else elements(request, [name], "conversation")
    for number, (place, value) in enumerate(found, 1):
        yield place, _named(value, title, number)


def _is_lines(tree: Tree, name: str) -> bool:
    """Return whether the first line of a file is an object, or a value with lines after it."""
    with tree.open(name, counts=False) as source:
        lines = [line for _, line in islice(source.lines(), 2)]
    try:
        value = json.loads(lines[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) or len(lines) > 1


def _named(value: Any, title: str, number: int) -> Any:
    is_named = isinstance(value, dict) and isinstance(value.get("session"), str)
    return (
        value
        if is_named or not isinstance(value, dict)
        else {**value, "session": f"{title} {number}"}
    )


def _conversation(place: str, value: Any) -> Iterator[Item]:
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        raise InvalidInput('the object has no messages: write {"messages": [...]}')
    if value.get("tools"):
        yield left_out(place, "lists of tools", "they are no part of what was said")
    if not messages:
        yield left_out(place, *EMPTY)
    number = 0
    for given in messages:
        if not isinstance(given, dict):
            raise InvalidInput(
                f"message {number + 1} is not a JSON object: write an object with a role"
            )
        for fields in provider_messages(given):
            number += 1
            if fields.get("external_id") is None:
                content = json.dumps(given, sort_keys=True).encode()
                fields["external_id"] = made_id(str(number), content)
            about = {**fields, "session": value["session"]}
            yield Item(f"{place}, message {number}", "message", about)


FORMATS = {"openai": Format("openai", "messages of OpenAI", _claim, _read, takes_session=True)}
