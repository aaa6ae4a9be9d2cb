"""
ChatGPT's export: `conversations.json`, or its shards `conversations-000.json` and so on.

A conversation is a tree of messages, because a question can be edited. The branch of the
current node comes first and becomes the session, and the others its branches. Content that the page
hides (the user's profile, a model's thoughts, empty nodes) is left out and counted. Calls of tools,
their results, images and the names of attached files become parts.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import CIRCULAR, EMPTY, FILES_BESIDE, Format, elements, groups
from memdb.formats.imports.threads import in_order, last_nodes, message_before, way_to
from memdb.models.messages import ROLES, role_of
from memdb.transfer.lines import Item, any_time, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

FILES = ("conversations.json", "conversations-*.json", "conversation.json")

# Types of content that the page does not show as something said.
HIDDEN = {
    "user_editable_context": "profiles and instructions of the user",
    "model_editable_context": "memories that were shown to the model",
    "thoughts": "thoughts of the model",
    "reasoning_recap": "thoughts of the model",
}
ON_THE_PAGE = "ChatGPT does not show them as messages"

# What calls of tools are sent to; "all" is the reader.
TO_ALL = (None, "", "all")

# A mark in a text means a source or a name: its kind and fields, up to its end; the page
# shows `alt` of its reference instead. One that does not end is taken to its last field, and
# what else there is of such characters shows nothing.
MARK = re.compile("[\ue200-\ue206]")
MARKS = re.compile(
    "\ue200([^\ue200\ue201]*)\ue201|\ue200[^\ue200-\ue202\\s]*(?:\ue202[^\ue200-\ue202\\s]*)*|[\ue201-\ue206]"
)
FIELD = "\ue202"
SOURCES = re.compile(r"(?:turn[0-9]+[a-z]+[0-9]+[, ]*)+")

# Calls of tools that write a canvas.
CANVAS, CREATE = "canmore.", "canmore.create_textdoc"
ALL = ".*"  # the pattern of a change that replaces all of it

PROJECT = "g-p-"  # ids of projects begin so, those of GPTs with "g-"


def _claim(tree: Tree) -> list[str]:
    """Claim conversations with a mapping, and the shards of an empty export."""
    names = [name for name in tree.named(*FILES) if "mapping" in tree.peek(name)]
    if not names and tree.is_alone:
        names = [name for name in tree.names if "mapping" in tree.peek(name)]
    if not names and tree.named("user.json") and not tree.named("projects.json", "users.json"):
        names = [one for one in tree.named("conversations.json") if _is_empty(tree, one)]
    if names or (tree.named("conversations-*.json") and not tree.named("projects.json")):
        return sorted({*names, *tree.named("conversations-*.json")})
    return []


def _is_empty(tree: Tree, name: str) -> bool:
    """Return whether a file is an empty list, as for an account without conversations."""
    is_broken = name in tree.problems
    return not is_broken and tree.is_array(name) and tree.first(name) is None


def _read(request: Request) -> Read:
    found = elements(request, request.names, "conversation")
    yield from groups(found, _conversation)


def _conversation(place: str, conversation: Any) -> Iterator[Item]:
    if not isinstance(conversation, dict) or not isinstance(conversation.get("mapping"), dict):
        raise InvalidInput(
            'this is not a ChatGPT conversation, because it has no "mapping": export the data again'
        )
    name = conversation.get("id") or conversation.get("conversation_id")
    if not isinstance(name, str):
        raise InvalidInput("the conversation has no id: export it again")
    made_ms = any_time(conversation.get("create_time"), "create_time")
    last_ms = made_ms
    found: list[Item] = []
    names: dict[str, str] = {}  # of the tools that were called, by the call's id
    ends: dict[str, str | None] = {}
    mapping = conversation["mapping"]
    parents = _parents(mapping)
    current = _current(conversation, parents)
    ordered, shown = in_order(parents, current), {*way_to(parents, current)}
    canvases: dict[str, dict[str, Any]] = {}
    nodes = [one for one in ordered if _has_message(mapping[one])]
    circular = sum(map(_has_message, mapping.values())) - len(nodes)
    if circular:
        yield left_out(place, *CIRCULAR, circular)
    for number, node_id in enumerate(nodes, start=1):
        where, message = f"{place}, message {number}", mapping[node_id]["message"]
        ends[node_id] = after = message_before(parents, node_id, ends)
        hidden = _hidden(message)
        if hidden is not None:
            yield left_out(where, hidden, ON_THE_PAGE)
            continue
        fields = _message(message, node_id, names)
        if fields is None:
            continue
        sent_ms = any_time(message.get("create_time"), "create_time")
        last_ms = last_ms if sent_ms is None else sent_ms
        fields |= {
            "session": name,
            "external_id": message.get("id") or node_id,
            "created_ms": last_ms,
            "after": after,
        }
        ends[node_id] = fields["external_id"]
        found.append(Item(where, "message", fields))
        about = {"session": name, "created_ms": last_ms, "message": fields["external_id"]}
        found += _canvas(where, message, canvases, about) if node_id in shown else ()
        if attached := sum(part["type"] == "file" for part in fields.get("parts") or ()):
            yield left_out(where, *FILES_BESIDE, attached)
    if not found:
        yield left_out(place, *EMPTY)
        return
    yield Item(place, "session", _session(name, conversation, made_ms))
    yield from found


def _session(name: str, conversation: dict[str, Any], made_ms: int | None) -> dict[str, Any]:
    project = conversation.get("conversation_template_id") or conversation.get("gizmo_id")
    title = conversation.get("title")
    about: dict[str, Any] = {"name": name, "created_ms": made_ms}
    if isinstance(title, str) and title.strip():
        about["title"] = title
    if isinstance(project, str):
        about["metadata"] = {"project" if project.startswith(PROJECT) else "gpt": project}
    return about


def _parents(mapping: dict[str, Any]) -> dict[str, str | None]:
    """Return the node before each node."""
    given = {one: node if isinstance(node, dict) else {} for one, node in mapping.items()}
    return {
        one: node["parent"] if isinstance(node.get("parent"), str) else None
        for one, node in given.items()
    }


def _current(conversation: dict[str, Any], parents: dict[str, str | None]) -> str | None:
    """Return the node on the screen, else the last one; None if there is none."""
    given = conversation.get("current_node")
    if isinstance(given, str) and isinstance(conversation["mapping"].get(given), dict):
        return given
    return next(reversed(last_nodes(parents)), None)


def _has_message(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("message"), dict)


def _hidden(message: dict[str, Any]) -> str | None:
    """Return the kind of a message that the page hides; None for a visible one."""
    content, about = message.get("content"), message.get("metadata")
    if isinstance(content, dict) and content.get("content_type") in HIDDEN:
        return HIDDEN[content["content_type"]]
    if isinstance(about, dict) and about.get("is_visually_hidden_from_conversation") is True:
        return "hidden messages"
    return None


def _message(message: dict[str, Any], node_id: str, names: dict[str, str]) -> dict[str, Any] | None:
    """Return role, author, text and parts; None for an empty message."""
    author, content = message.get("author"), message.get("content")
    content = {"parts": []} if content is None else content  # an answer that failed
    if not isinstance(author, dict) or not isinstance(content, dict):
        raise InvalidInput("a message has no author, or no content that is an object: get it again")
    role = role_of(author.get("role"))
    if role not in ROLES:
        raise InvalidInput(f"role is {author.get('role')!r}: use one of {', '.join(ROLES)}")
    found = [_without_marks(part, message) for part in _parts(content)]
    parts = [part for part in found if part.get("text") or part["type"] != "text"]
    parts += _attached(message, parts)
    recipient = message.get("recipient")
    if role == "assistant" and recipient not in TO_ALL:
        tool = str(recipient)
        names[tool] = str(message.get("id") or node_id)
        text = "\n".join(part.get("text", "") for part in parts)
        arguments = text if text.lstrip().startswith("{") else {"input": text}
        call = {"type": "tool_call", "id": names[tool], "name": tool, "arguments": arguments}
        return {"role": role, "parts": [call]}
    if role == "tool":
        tool = str(author.get("name") or "unknown_tool")
        result = {"type": "tool_result", "name": tool, "content": parts}
        if tool in names:
            result["tool_call_id"] = names[tool]
        return {"role": role, "author": author.get("name") or None, "parts": [result]}
    if not parts:
        return None
    fields: dict[str, Any] = {"role": role, "author": author.get("name") or None}
    if all(part["type"] == "text" for part in parts):
        return {**fields, "text": "\n".join(part["text"] for part in parts)}
    return {**fields, "parts": parts}


def _without_marks(part: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Return a part with the page's text in place of marks: nothing, a name, a source."""
    text = part.get("text")
    if not isinstance(text, str) or MARK.search(text) is None:
        return part
    about = message.get("metadata")
    references = about.get("content_references") if isinstance(about, dict) else None
    for one in references if isinstance(references, list) else ():
        mark = one.get("matched_text") if isinstance(one, dict) else None
        if isinstance(mark, str) and MARK.match(mark):
            alt = one.get("alt")
            text = text.replace(mark, alt if isinstance(alt, str) else "")
    return {**part, "text": MARKS.sub(_shown, text)}


def _shown(mark: re.Match[str]) -> str:
    """Return the words in a mark: its first text field, or the name of an entity."""
    kind, *fields = (mark[1] or "").split(FIELD)
    for field in fields if "cite" not in kind else ():
        try:
            value = json.loads(field)
        except (ValueError, RecursionError):
            value = field
        if isinstance(value, list) and len(value) > 1:  # its kind, its name, and more
            value = value[1]
        if isinstance(value, str) and not SOURCES.fullmatch(value):
            return value
    return ""


def _canvas(
    where: str, message: dict[str, Any], canvases: dict[str, dict[str, Any]], about: dict[str, Any]
) -> Iterator[Item]:
    """Yield the version of a canvas that a call wrote; *canvases* are those before it, by name."""
    recipient = str(message.get("recipient"))
    if not recipient.startswith(CANVAS):
        return
    try:
        given = json.loads("".join(one.get("text", "") for one in _parts(message["content"])))
    except (ValueError, RecursionError):
        return
    if recipient == CREATE:
        name = str(given.get("name") or "canvas")
        canvas = {"name": name, "type": str(given.get("type")), "text": str(given.get("content"))}
    else:
        canvas = dict(next(reversed(canvases.values()), {"name": "", "type": "", "text": ""}))
        for one in given.get("updates") or ():
            pattern, new = str(one.get("pattern")), str(one.get("replacement"))
            # A pattern of a stranger is not run: one that is no plain text is not found.
            old = canvas["text"] if pattern == ALL else re.sub(r"\\(\W)", r"\1", pattern)
            if not canvas["name"] or not old or old not in canvas["text"]:
                why = "the text that they change is not in the version before"
                yield left_out(where, "changes of canvases", why)
                return
            canvas["text"] = canvas["text"].replace(old, new, -1 if one.get("multiple") else 1)
        if canvas == canvases.get(canvas["name"]):
            return
    canvases.pop(canvas["name"], None)
    canvases[canvas["name"]] = canvas
    suffix = canvas["type"].removeprefix("code/") if canvas["type"].startswith("code/") else "md"
    mime = "text/markdown" if suffix == "md" else "text/plain"
    fields = {**about, "name": f"{canvas['name']}.{suffix}", "mime": mime, "text": canvas["text"]}
    yield Item(where, "artifact", fields)


def _attached(message: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the attached files; an image in *parts* gets its name there."""
    about = message.get("metadata")
    given = about.get("attachments") if isinstance(about, dict) else None
    for one in given if isinstance(given, list) else ():
        if isinstance(one, dict):
            id_, name = str(one.get("id") or ""), str(one.get("name") or "unnamed")
            shown = [part for part in parts if id_ and id_ in str(part.get("file_id"))]
            for part in shown:
                part["name"] = name
            if not shown:
                yield {"type": "file", "name": name, **({"file_id": id_} if id_ else {})}


def _parts(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a content in the form of docs/parts.md."""
    given = content.get("parts", [content])
    given = [] if given is None else given  # an answer that failed
    for part in given if isinstance(given, list) else [content]:
        if isinstance(part, str):
            yield {"type": "text", "text": part}
        elif isinstance(part, dict):
            yield _part(part)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("content_type")
    pointer = part.get("asset_pointer")
    if isinstance(pointer, str) and kind in ("image_asset_pointer", "audio_asset_pointer"):
        image = {"type": "image" if kind.startswith("image") else "audio", "file_id": pointer}
        prompt = (part.get("metadata") or {}).get("dalle") or {}
        words = prompt.get("prompt") if isinstance(prompt, dict) else None
        return {**image, "text": words} if isinstance(words, str) and words else image
    texts = (part.get(name) for name in ("text", "result", "content", "transcript"))
    text = next((text for text in texts if isinstance(text, str)), None)
    if text is not None:
        return {"type": "text", "text": text}
    return {"type": "other", "kind": str(kind or "unknown"), "data": part, "provider": "chatgpt"}


FORMATS = {"chatgpt": Format("chatgpt", "an export of ChatGPT", _claim, _read)}
