"""
Drafts: messages that are screened, checked and counted, ready to be stored.

Every message passes here before it enters the file: append, import, fork and
hosts. Nothing here touches the file, so it runs outside of transactions.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.messages import ROLES, NewMessage
from memdb.models.record import Record
from memdb.text.derived import bigrams_of
from memdb.text.secret_policy import ALLOW, action_value, screened_value
from memdb.text.validate import (
    choice_value,
    json_list,
    json_object,
    optional_name,
    text_value,
    time_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from memdb.text.secret_policy import SecretPolicy
    from memdb.text.tokens import Counting


class Draft(Record):
    """
    A message that may be stored, but has no place yet.

    Attributes:
        body: The parts as JSON text; None if the text is all there is.
        metadata: JSON text; None means none.
        created_ms: None means the time of the transaction that stores it.
        uid: None for a new one.
        bigrams: Derived from the text, for search in Chinese and Japanese.
        counted: The text whose tokens count.
        tokens: None before `count_drafts`.
        counter: The name of the counter that gave `tokens`.
    """

    role: str
    author: str | None
    text: str
    body: str | None
    external_id: str | None
    metadata: str | None
    created_ms: int | None
    uid: str | None
    bigrams: str | None
    counted: str
    tokens: int | None = None
    counter: str = ""


def prepare_messages(
    new: Iterable[NewMessage | dict[str, Any]],
    counting: Counting,
    policy: SecretPolicy,
    action: str | None = None,
) -> list[Draft]:
    """
    Return messages as drafts: screened, checked and counted.

    Args:
        new: `NewMessage`s, or dicts with the same fields by name.
        action: "refuse", "redact" or "allow" secrets; None means as *policy*
            says for messages.

    Raises:
        InvalidInput: one is no message, or a field of it cannot be stored.
        SecretFound: a message holds a secret, and those are refused.
        PortError: the counter failed.
    """
    chosen = policy.messages if action is None else action_value(action, "secrets")
    read = [_read(_to_new(message), policy, chosen) for message in new]
    counts = counting.count_many([values[-1] for values in read]) if read else []
    name = counting.name
    return [
        Draft.make((*values, tokens, name)) for values, tokens in zip(read, counts, strict=True)
    ]


def read_draft(new: NewMessage, policy: SecretPolicy, action: str) -> Draft:
    """
    Return a message as a draft that is not counted yet.

    Raises:
        InvalidInput: a field cannot be stored.
        SecretFound: it holds a secret, and *action* is "refuse".
    """
    return Draft.make((*_read(new, policy, action), None, ""))


def _read(new: NewMessage, policy: SecretPolicy, action: str) -> tuple[Any, ...]:
    """Return the fields of a draft but for its tokens; the last is the text to count."""
    if action != ALLOW:
        new = _screened(new, policy, action)
    text = counted = text_value(new.text, "text")
    if new.parts:
        text, counted = _texts_of(text, new.parts)
    return (
        choice_value(new.role, "role", ROLES),
        optional_name(new.author, "author"),
        text,
        json_list(new.parts, "parts"),
        optional_name(new.external_id, "external_id"),
        json_object(new.metadata, "metadata"),
        time_value(new.created_ms, "created_ms"),
        optional_name(new.uid, "uid"),
        bigrams_of(text),
        counted,
    )


def count_drafts(drafts: Sequence[Draft], counting: Counting) -> list[Draft]:
    """Return *drafts* with the tokens of those that have none; PortError if the counter fails."""
    due = [draft.counted for draft in drafts if draft.tokens is None]
    if not due:
        return list(drafts)
    counts = iter(counting.count_many(due))
    name = counting.name
    return [
        draft.replace(tokens=next(counts), counter=name) if draft.tokens is None else draft
        for draft in drafts
    ]


def _screened(new: NewMessage, policy: SecretPolicy, action: str) -> NewMessage:
    """Return a message as *action* lets it pass; what is no message is refused later."""
    texts = {"text": text_value(new.text, "text"), "parts": new.parts, "metadata": new.metadata}
    return new.replace(
        **{field: screened_value(value, action, field, policy) for field, value in texts.items()}
    )


def _texts_of(text: str, parts: list[Any]) -> tuple[str, str]:
    """Return the text of a message with *parts*, and the text whose tokens count."""
    from memdb.text.derived import payload_of, text_of  # only for such messages

    if not isinstance(parts, (list, tuple)):
        return text, text  # refused when it is made JSON
    if not text:
        text = text_value(text_of(parts), "parts")
        return text, text
    extra = text_value(payload_of(parts), "parts")
    return text, text if extra in ("", text) else f"{text}\n{extra}"


def _to_new(value: NewMessage | dict[str, Any]) -> NewMessage:
    """
    Return *value* as a NewMessage; a dict has the same fields by name.

    Raises:
        InvalidInput: it is neither, or has an unknown field.
    """
    if isinstance(value, NewMessage):
        return value
    if not isinstance(value, dict):
        raise InvalidInput(f"message is {type(value).__name__}: give a NewMessage or a dict")
    unknown = sorted(set(value) - set(NewMessage._fields))
    if unknown or "role" not in value:
        problem = f"has no field {unknown[0]!r}" if unknown else "needs a role"
        raise InvalidInput(f"message {problem}: use {', '.join(NewMessage._fields)}")
    return NewMessage(**value)
