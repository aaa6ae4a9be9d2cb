"""
Grok's export: conversations with their responses, in `prod-grok-backend.json`.

Prompts that were edited and answers that were made again are branches of their session; the
newest way is the session itself, unless the export names the one on the screen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import CIRCULAR, EMPTY, Format, elements, groups, nested
from memdb.formats.imports.threads import in_order, message_before, newest_last, parents_of
from memdb.formats.provider_messages import role_of
from memdb.models.messages import ROLES
from memdb.transfer.lines import Item, any_time, left_out

PEEKS = 4  # conversations that are asked for the format: the first may be broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

ATTACHED = ("attached files", "Grok has them beside the conversations")
PARENT = "parent_response_id"  # what a response stands behind; of a first one it is missing

# The marks that the page draws cards of sources and pictures for.
CARDS = re.compile(r"<grok:render\b.*?</grok:render>", re.DOTALL)


def _claim(tree: Tree) -> list[str]:
    """Claim files with conversations that have responses."""
    names = tree.candidates("*.json")
    return [name for name in names if _has_responses(tree.peek(name))]


def _has_responses(fields: dict[str, Any]) -> bool:
    found = fields.get("conversations", [fields])
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
    found, out = _said(place, value["responses"], about.get("leaf_response_id"))
    if found:
        made_ms = _time(about.get("create_time"))
        session = {"name": name, "title": about.get("title") or None, "created_ms": made_ms}
        yield Item(place, "session", session)
    else:
        out.append(left_out(place, *EMPTY))
    for where, fields in found:
        yield Item(where, "message", {**fields, "session": name})
    yield from out


def _said(
    place: str, given: list[Any], shown: Any
) -> tuple[list[tuple[str, dict[str, Any]]], list[Item]]:
    """
    Return place and fields of each message, those on the screen first, and what is left out.

    Args:
        shown: The last response on the screen; most exports name none, or one that they lack.
    """
    ids: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for number, response in enumerate(map(_response, given), start=1):
        numbered = (f"{place}, response {number}", response)
        ids.setdefault(str(response.get("_id") or number), []).append(numbered)
    firsts = {one: several[0][1] for one, several in ids.items()}
    times = {one: _time(response.get("create_time")) for one, response in firsts.items()}
    is_tree = any(response.get(PARENT) for response in firsts.values())
    named = ((one, response.get(PARENT) or None) for one, response in firsts.items())
    parents = parents_of(named) if is_tree else _by_time(times)
    ordered = in_order(parents, shown if shown in ids else newest_last(parents, times))
    found: list[tuple[str, dict[str, Any]]] = []
    out: list[Item] = []
    if circular := sum(len(ids[one]) for one in ids.keys() - set(ordered)):
        out.append(left_out(place, *CIRCULAR, circular))
    ends: dict[str, str | None] = {}
    for node, where, response in [(one, *two) for one in ordered for two in ids[one]]:
        after = message_before(parents, node, ends)
        ends.setdefault(node, after)
        if files := _attached(response):
            out.append(left_out(where, *ATTACHED, files))
        fields = _message(response)
        if fields is None:
            out.append(left_out(where, "responses", "they have no text"))
            continue
        placed = {"after": after} if is_tree else {}
        found.append((where, {**fields, **placed, "external_id": node, "created_ms": times[node]}))
        ends[node] = node
    return found, out


def _response(given: Any) -> dict[str, Any]:
    response = given.get("response", given) if isinstance(given, dict) else None
    return response if isinstance(response, dict) else {}


def _by_time(times: dict[str, int | None]) -> dict[str, str | None]:
    """Return what each stands behind by its time, where the export does not say it."""
    is_timed = all(times.values())
    by_time = sorted(times, key=lambda one: times[one] or 0) if is_timed else [*times]
    return dict(zip(by_time, [None, *by_time], strict=False))


def _message(response: dict[str, Any]) -> dict[str, Any] | None:
    """Return role, author and text; None for a response without words."""
    given = response.get("message")
    text = CARDS.sub("", given) if isinstance(given, str) else ""
    if not text.strip():
        return None
    # Its models go by many names here, and by none.
    sender = role_of(str(response.get("sender") or "").lower())
    role = sender if sender in ROLES else "assistant"
    author = response.get("model") or None if role == "assistant" else None
    return {"role": role, "author": author, "text": text}


def _attached(response: dict[str, Any]) -> int:
    """Return how many files are attached to a response."""
    files = response.get("file_attachments")
    return len(files) if isinstance(files, list) else 0


def _time(value: Any) -> int | None:
    """Return a time of MongoDB's extended JSON, or ISO text, in milliseconds."""
    if isinstance(value, dict):
        value = value.get("$date", value)
        if isinstance(value, dict):
            value = int(value.get("$numberLong") or 0) or None
    return any_time(value, "create_time")


FORMATS = {"grok": Format("grok", "an export of Grok", _claim, _read)}
