"""
Grok's export: conversations with their responses, in `prod-grok-backend.json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.messages import ROLES
from memdb.text.provider_messages import role_of
from memdb.transfer.formats.base import EMPTY, Format, elements, groups, left_out, nested
from memdb.transfer.lines import Item, any_time

PEEKS = 4  # conversations that are asked for the format: the first may be broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.transfer.formats.base import Read, Request
    from memdb.transfer.tree import Tree

ITSELF = "grok"  # how senders begin that are its models


def _claim(tree: Tree) -> list[str]:
    """Claim files with conversations that have responses."""
    names = tree.candidates("*.json")
    return [name for name in names if _has_responses(tree.peek(name))]


def _has_responses(fields: dict[str, Any]) -> bool:
    found = fields.get("conversations")
    given = found[:PEEKS] if isinstance(found, list) else []
    keys = [one.keys() for one in given if isinstance(one, dict)]
    return any({"conversation", "responses"} <= one for one in keys)


def _read(request: Request) -> Read:
    found = elements(request, request.names, "export")
    yield from groups(nested(found, "conversation", _conversations), _conversation)


def _conversations(value: Any) -> list[Any] | None:
    given = value.get("conversations") if isinstance(value, dict) else None
    return given if isinstance(given, list) else None


def _conversation(place: str, value: Any) -> Iterator[Item]:
    about = value.get("conversation") if isinstance(value, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get("id"), str):
        raise InvalidInput("the conversation has no id: export it again")
    if not isinstance(value.get("responses"), list):
        raise InvalidInput("the conversation has no responses: export it again")
    name = about["id"]
    found = []
    for number, one in enumerate(value["responses"], start=1):
        response = one.get("response", one) if isinstance(one, dict) else None
        where = f"{place}, response {number}"
        if not isinstance(response, dict) or not isinstance(response.get("message"), str):
            yield left_out(where, "responses", "they have no text")
            continue
        sender = str(response.get("sender") or "").lower()
        role = "assistant" if sender.startswith(ITSELF) else role_of(sender)
        if role not in ROLES:
            raise InvalidInput(
                f"sender is {response.get('sender')!r}: use one of {', '.join(ROLES)}"
            )
        fields = {
            "session": name,
            "role": role,
            "author": response.get("model") if role == "assistant" else None,
            "text": response["message"],
            "external_id": response.get("_id") or f"{number}",
            "created_ms": _time(response.get("create_time")),
        }
        if response["message"].strip():
            found.append(Item(where, "message", fields))
    if not found:
        yield left_out(place, *EMPTY)
        return
    made_ms = _time(about.get("create_time"))
    session = {"name": name, "title": about.get("title") or None, "created_ms": made_ms}
    yield Item(place, "session", session)
    yield from found


def _time(value: Any) -> int | None:
    """Return a time of MongoDB's extended JSON, or ISO text, in milliseconds."""
    if isinstance(value, dict):
        value = value.get("$date", value)
        if isinstance(value, dict):
            value = int(value.get("$numberLong") or 0) or None
    return any_time(value, "create_time")


FORMATS = {"grok": Format("grok", "an export of Grok", _claim, _read)}
