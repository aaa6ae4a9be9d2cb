"""
Message drafts: messages that are screened, checked and counted, but have no place yet.

Every message of append, import, fork and hosts first becomes a draft, outside the transaction that
stores it (`memdb.records.messages`). What a caller gives of a message is checked by `CHECKS`; a
field that is not listed there is a name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

from memdb.errors import InvalidInput
from memdb.models.fields import SCREENED
from memdb.models.messages import ROLES, NewMessage, message_formats
from memdb.models.settings import ALLOW
from memdb.text.derived import bigrams_of
from memdb.text.parts import kind_of, text_of, whole_text
from memdb.text.times import when_ms
from memdb.text.validate import (
    choice_value,
    content_value,
    json_list,
    json_object,
    name_value,
    said_value,
    time_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.text.screening import SecretScreen
    from memdb.text.tokens import Counting
    from memdb.text.validate import Check


class Draft(TypedDict):
    """
    A checked message without a place: the columns of its row that do not depend on the place.

    Attributes:
        parts: The parts as JSON text; None if there is only the text.
        metadata: JSON text; None means none.
        created_ms: None means the time of the transaction that stores it.
        uid: None for a new one.
        writer: The program that stores it; None means unknown.
        bigrams: Derived from the text, for search in Chinese and Japanese.
        counted: The text whose tokens are counted; no column.
        tokens: None before `count_drafts`.
        counter: The name of the counter of `tokens`.
    """

    role: str
    author: str | None
    text: str
    parts: str | None
    external_id: str | None
    metadata: str | None
    created_ms: int | None
    uid: str | None
    writer: str | None
    bigrams: str | None
    counted: str
    tokens: int | None
    counter: str


# The fields of a message that a draft has too, and a draft without any.
DRAFTED = (*NewMessage._fields, "tokens", "counter")
BLANK = cast("Draft", dict.fromkeys((*DRAFTED, "bigrams", "counted")))

NEEDED = frozenset(("role", "text"))
CHECKS: dict[str, Check] = dict.fromkeys(NewMessage._fields, name_value) | {
    "role": partial(choice_value, choices=ROLES),
    "text": content_value,
    "parts": json_list,
    "metadata": json_object,
    "created_ms": time_value,
}

SCREENED_FIELDS = tuple(name for name in SCREENED["message"] if name in CHECKS)


def read_draft(
    new: NewMessage, screen: SecretScreen, action: str, tokens: int | None = None, counter: str = ""
) -> Draft:
    """
    Return a message as a draft; its tokens are counted later unless *tokens* are known.

    Raises:
        InvalidInput: a field cannot be stored.
        SecretFound: the message contains a secret, and *action* is "refuse".
    """
    if action != ALLOW:
        new = _screened(new, screen, action)
    counted = None
    if new.parts:
        new, counted = _with_parts(new)
    draft: dict[str, Any] = {"tokens": tokens, "counter": counter}
    for name, check in CHECKS.items():
        value = getattr(new, name)
        draft[name] = check(value, name) if value is not None or name in NEEDED else None
    draft["bigrams"] = bigrams_of(draft["text"])
    draft["counted"] = draft["text"] if counted is None else counted
    return cast("Draft", draft)


def count_drafts(drafts: Sequence[Draft], counting: Counting) -> list[Draft]:
    """Return *drafts* with missing token counts added; PortError if the counter fails."""
    due = [draft["counted"] for draft in drafts if draft["tokens"] is None]
    if not due:
        return list(drafts)
    counts = iter(counting.count_many(due))
    name = counting.name
    return [
        {**draft, "tokens": next(counts), "counter": name} if draft["tokens"] is None else draft
        for draft in drafts
    ]


def _screened(new: NewMessage, screen: SecretScreen, action: str) -> NewMessage:
    """Return a message after applying *action* to secrets; other values are refused later."""
    new = new.replace(text=content_value(new.text, "text"))
    given = {name: getattr(new, name) for name in SCREENED_FIELDS}
    return new.replace(**screen.pass_fields("message", given, action))


def _with_parts(new: NewMessage) -> tuple[NewMessage, str]:
    """Return a message with its parts in memdb's form, its text, and the text to count."""
    if not isinstance(new.parts, (list, tuple)):
        return new, new.text  # refused when it is made JSON
    role, parts = message_formats().read_parts(new.role, new.parts)
    text = content_value(new.text, "text") or content_value(text_of(parts), "parts")
    counted = content_value(whole_text(text, parts), "parts")
    return new.replace(role=role, parts=parts, text=text), counted


# What a provider's message may have in place of `content`.
PROVIDER_FIELDS = frozenset("content tool_calls function_call refusal audio".split())
# Fields that no provider's message has.
OWN_FIELDS = ("author", "external_id", "created", "created_ms", "metadata", "uid", "writer")


def to_new(value: NewMessage | dict[str, Any] | Any, now_ms: int) -> Sequence[NewMessage]:
    """
    Return *value* as messages: a dict with their fields by name, or a provider's message.

    A dict may have `created`, a time in any form, in place of `created_ms`. Fields of `OWN_FIELDS`
    in a provider's dict are memdb's, and count as in a dict of memdb.

    Raises:
        InvalidInput: the value is not a message, or has an unknown field.
    """
    if isinstance(value, NewMessage):
        return (value,)
    own: dict[str, Any] = {}
    if isinstance(value, dict) and value.get("role") in ROLES and not _is_geminis(value):
        own = {name: value[name] for name in OWN_FIELDS if name in value}
        value = {name: one for name, one in value.items() if name not in own}
        if "created" in own:
            own["created_ms"] = when_ms(own.pop("created"), "created", now_ms)
        if CHECKS.keys() >= value.keys():
            said = said_value(value.get("text"), value.get("parts"))
            return (NewMessage(**{**value, **own, "text": said}),)
        if not value.keys() & PROVIDER_FIELDS:
            unknown = min(map(str, value.keys() - CHECKS.keys()))
            fields = ", ".join(NewMessage._fields).replace("created_ms", "created")
            raise InvalidInput(f"message has no field {unknown!r}: use {fields}, or content")
    rest = {name: one for name, one in own.items() if name not in ("external_id", "uid")}
    found = enumerate(message_formats().read_messages(value))
    return [one.replace(**(rest if number else own)) for number, one in found]


def _is_geminis(value: dict[str, Any]) -> bool:
    """Return whether a message has Gemini's form: its parts have no type."""
    parts = value.get("parts") if value.keys() == {"role", "parts"} else None
    return bool(parts) and isinstance(parts, list) and not any(map(kind_of, parts))
