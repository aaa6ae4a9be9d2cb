"""
Items of OpenAI's Responses API as messages, and messages as items.

The door for all providers (`memdb.formats.provider_messages`) reads an item; its
original comes back key by key. What other clients wrote has no such original,
and is returned as items with the same text.
"""

from __future__ import annotations

import json
import marshal
from itertools import chain
from typing import TYPE_CHECKING, Any

from memdb.adapters.json_forms import is_plain, json_of
from memdb.errors import InvalidInput, InvalidItem, VersionConflict
from memdb.formats.provider_messages import RESPONSES, keep_whole, read_item
from memdb.formats.shapes import items_of, without_links
from memdb.text.parts import text_value
from memdb.text.validate import MAX_NESTING, fit_value, iso_time, name_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.api.session import Session
    from memdb.models.messages import ContextWindow, NewMessage

    Item = dict[str, Any]

MAX_ITEMS = (1 << 24) - 1

# Items that are copied in one go, which keeps the interpreter for 0.1 ms.
PART = 500

MAX_DEPTH = MAX_NESTING - 2  # an item stands in a part, in a list
PREVIEW_CHARS = 100


def to_message(item: Any, name: str = "item") -> NewMessage:
    """
    Return an item as the message that keeps it; an error calls it *name*.

    Raises:
        InvalidItem: *item* is not a dict, or has no JSON form.

    >>> to_message({"role": "user", "content": "Hi."}).text
    'Hi.'
    """
    if not isinstance(item, dict):
        raise InvalidItem(f"{name} is {type(item).__name__}: give a dict")
    try:
        raw = json_of(item, name, MAX_DEPTH)
    except InvalidInput as error:
        raise InvalidItem(str(error)) from error
    if is_plain(item, raw):
        return read_item(item)
    return keep_whole(read_item(fit_value(item)), RESPONSES, raw)


def taken(items: list[Any]) -> Iterator[NewMessage]:
    """
    Return the messages of *items* as they are now, made when they are asked for.

    Copying takes an event loop 0.2 µs per item; making messages 5, in a worker.

    Raises:
        InvalidItem: as `to_message`, where a copy could not be made.
    """
    try:
        parts = [marshal.dumps(items[at : at + PART]) for at in range(0, len(items), PART)]
    except ValueError:  # a value of another kind: a text that is an enum, or no JSON at all
        return iter([*_messages(items)])
    return _messages(chain.from_iterable(map(marshal.loads, parts)))  # our own


def _messages(items: Iterable[Any]) -> Iterator[NewMessage]:
    for place, item in enumerate(items):
        yield to_message(item, f"items[{place}]")


def words_of(item: Item) -> str:
    """Return the words of an item's message, "" for calls and what else has none."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    texts = [text_value(part.get("text")) for part in content or () if isinstance(part, dict)]
    return "\n".join(text for text in texts if text)


def is_user(item: Item) -> bool:
    """Return whether an item is a message of the user."""
    return isinstance(item, dict) and item.get("role") == "user"


def fitted(window: ContextWindow) -> list[Item]:
    """
    Return a context as items: the stored ones as they were, unless they were shortened.

    Where something is left out before them, reasoning items and ids go: the
    API refuses an item whose reasoning is missing.
    """
    whole = all(piece.kind in ("system", "message") for piece in window.pieces)
    found: list[Item] = []
    for message in window.messages:
        items = items_of(message)
        if message.seq and len(items) == 1 and words_of(items[0]) not in ("", message.text):
            items = [{"role": message.role, "content": message.text}]  # a view of a long one
        found += items
    return found if whole else without_links(found)


def merged(history: list[Item], context: list[Item]) -> list[Item]:
    """
    Return *context* in the objects of *history*, which a Runner knows by identity.

    A Runner would store any other object as new. A context that is longer than the
    history, because of excerpts, has its first messages joined.
    """
    if not history:
        return history
    while len(context) > len(history):
        first, second = context[:2]
        if not (isinstance(first.get("content"), str) and isinstance(second.get("content"), str)):
            return history
        joined = {**first, "content": f"{first['content']}\n\n{second['content']}"}
        context = [joined, *context[2:]]
    for item, new in zip(history, context, strict=False):
        item.clear()
        item.update(new)
    return history[: len(context)]


def latest(chat: Session, most: int | None) -> tuple[list[Item], int]:
    """
    Return the newest *most* items of a session, oldest of them first.

    And the seq of its newest message, 0 if there is none.
    """
    if most is not None and most >= 0:
        rows, newest, _ = held(chat, most)
        return [item for _, item in rows], newest
    found: list[Item] = []
    newest = 0
    for message in chat.messages():
        found += items_of(message)
        newest = message.seq
    return found, newest


def held(chat: Session, most: int) -> tuple[list[tuple[int, Item]], int, bool]:
    """
    Return the newest *most* items, each with its message's seq.

    And the seq of the newest message, 0 if there is none, and whether that is all.
    """
    count = min(most + 1, MAX_ITEMS)
    while True:
        said = chat.last(count)
        newest = said[-1].seq if said else 0
        found = [(message.seq, item) for message in said for item in items_of(message)]
        if len(found) > most or len(said) < count:
            return found[max(len(found) - most, 0) :], newest, len(found) <= most
        count = min(2 * count, MAX_ITEMS)


def popped(chat: Session) -> Item | None:
    """Remove the newest item; a message of another client may contain several."""
    while newest := chat.last(1):
        items = items_of(newest[0])
        try:
            rest = [to_message(item) for item in items[:-1]]
            chat.replace([newest[0].seq], rest, expected=newest[0].seq)
        except VersionConflict:
            continue  # somebody else was faster
        if items:
            return items[-1]
    return None


def turns_of(chat: Session) -> list[tuple[int, Item, int]]:
    """Return seq, item and time of each message of the user."""
    return [
        (message.seq, item, message.created_ms)
        for message in chat.messages()
        if message.role == "user"
        for item in items_of(message)
        if is_user(item)
    ]


def turn(number: int, found: tuple[int, Item, int]) -> dict[str, Any]:
    """Return what the SDK says about a turn that `turns_of` found."""
    _, item, created_ms = found
    content = item.get("content", "")
    return {
        "turn": number,
        "content": preview(content, PREVIEW_CHARS),
        "full_content": content,
        "timestamp": iso_time(created_ms),
        "can_branch": True,
    }


def preview(content: Any, chars: int | None) -> str:
    """Return the content of an item as text, cut to *chars*."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text if chars is None or len(text) <= chars else f"{text[:chars]}..."


def refuse_blank(name: Any, field: str) -> None:
    """Refuse a name of blanks, and what no name can be, with InvalidInput."""
    if isinstance(name, str) and not name.strip():
        raise InvalidInput(f"{field} cannot be empty: give a name")
    name_value(name, field)
