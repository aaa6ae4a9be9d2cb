"""
Conversations of other programs: one table with the place of each field.

A row has the paths of a conversation and of its messages. If paths are not enough to read a
message, the row has a function. If messages name the message before them, the branch on the screen
becomes the session, and the others its branches.
"""

from __future__ import annotations

import json
import re
from functools import partial
from hashlib import blake2b
from html import unescape
from itertools import chain, islice
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import (
    CIRCULAR,
    EMPTY,
    Format,
    elements,
    groups,
    line_values,
    nested,
    read_text,
    refused,
)
from memdb.formats.imports.threads import in_order, message_before, newest_last, parents_of
from memdb.formats.provider_parts import read_part
from memdb.formats.source import BLOCK_BYTES
from memdb.models.messages import ROLES, role_of
from memdb.models.record import Record
from memdb.text.parts import text_value
from memdb.transfer.lines import Item, any_time, left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree


PEEKS = 4  # conversations that are asked for the format: the first may be broken


class Said(Record):
    """
    A message of a conversation, or a node of its tree without one.

    Attributes:
        role: The role in the program's words; "" for a node without content.
        parts: In the form of docs/parts.md.
        id: Id of the node; "" means one computed from its place and content.
        parent: The node before it; None means the one before it in the file, "" none.
    """

    role: str
    parts: list[dict[str, Any]]
    id: str = ""
    parent: str | None = None
    time: Any = None
    author: str | None = None


class Chat(Record):
    """
    Where a program's files have conversations.

    A path is names with dots, or several of them with "|"; the first path with a value counts.

    Attributes:
        label: Its description in messages.
        marks: The paths in its records, separated by blanks, some with "=" and a value. For a text
            it is the pattern at its beginning.
        said: Yields the messages in an element of *messages*.
        messages: The path of the list of messages, or of the object with them by id.
        lists: The path of a list of conversations in a record that is a whole file.
        current: The path of the id of the last message on the screen.
        system: The path of the instructions before all messages.
        files: Patterns of the file names.
        split: Yields the conversations of a text.
        is_whole: Whether a file is one conversation, whose lines or elements are the messages.
        is_log: Whether its lines are changes of one record; see `_replayed`.
        is_captured: Whether an agent recorded the output of its tools, so that keys are redacted.
    """

    label: str
    marks: str
    said: Callable[[dict[str, Any]], Iterable[Said]]
    messages: str = "messages"
    id: str = "id"
    title: str = "title"
    time: str = ""
    current: str = ""
    system: str = ""
    lists: str = ""
    files: tuple[str, ...] = ("*.json", "*.jsonl")
    split: Callable[[str, str], Iterator[dict[str, Any]]] | None = None
    is_whole: bool = False
    is_log: bool = False
    is_captured: bool = False


def at(value: Any, paths: str) -> Any:
    """
    Return the value at the first path that has one, or None; "*" is any of the first values.

    >>> at({"chat": {"messages": [{"id": 7}]}}, "id|chat.*.0.id")
    7
    """
    for path in paths.split("|"):
        found = _behind(value, path.split("."))
        if found is not None and found != "":
            return found
    return None


def _behind(value: Any, names: list[str]) -> Any:
    for number, name in enumerate(names):
        if name == "*":
            inner = value.values() if isinstance(value, dict) else value
            some = [*islice(inner, PEEKS)] if isinstance(value, (dict, list)) else []
            ends = (_behind(one, names[number + 1 :]) for one in some)
            return next((end for end in ends if end is not None), None)
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal():
            value = next(iter(value[int(name) :]), None)
        else:
            return None
    return value


def _claim(tree: Tree, chat: Chat) -> list[str]:
    """Claim the files whose first record has the marks of a program."""
    names = tree.candidates(*chat.files)
    if chat.split is not None:  # notes may lie beside each other, and one begin as a chat does
        return names if all(_begins(tree, name, chat.marks) for name in names) else []
    return [name for name in names if _has_marks(tree.peek(name), chat)]


def _has_marks(record: dict[str, Any], chat: Chat) -> bool:
    """Return whether a record, or one of the first in it, is a conversation of a program."""
    listed = at(record, chat.lists)
    return any(
        all(_fits(one, *mark.split("=")) for mark in chat.marks.split())
        for one in (listed[:PEEKS] if isinstance(listed, list) else [record])
    )


def _fits(record: Any, paths: str, value: str = "") -> bool:
    """Return whether a path has a value, or exactly *value* if that is given."""
    found = at(record, paths)
    return found is not None and (not value or found == value)


def _begins(tree: Tree, name: str, pattern: str) -> bool:
    with tree.open(name, counts=False) as source:
        head = source.read(BLOCK_BYTES).decode("utf-8-sig", "replace")
    return re.match(pattern, head) is not None


def _read(request: Request, chat: Chat) -> Read:
    for name in request.names:
        stem = name.rpartition("/")[2].rpartition(".")[0] or name
        if chat.is_whole:
            yield from _whole(request, name, stem, chat)
            continue
        if chat.is_log and at(request.tree.peek(name), "kind") is not None:
            found = iter([(request.tree.place(name, "conversation 1"), _replayed(request, name))])
        elif chat.split is None:
            found = elements(request, [name], "conversation")
            found = nested(found, "conversation", partial(at, paths=chat.lists))
        else:
            split = chat.split(read_text(request.tree, name), stem)
            places = enumerate(split, start=1)
            found = ((request.tree.place(name, f"conversation {at}"), one) for at, one in places)
        yield from groups(found, partial(_conversation, chat, stem))


def _whole(request: Request, name: str, stem: str, chat: Chat) -> Read:
    """Yield the conversation that a file is, and a group for each broken record."""
    people = _people(request.tree)
    if request.tree.is_array(name):
        found: Iterator[tuple[str, Any]] = elements(request, [name], "message")
        stem = name.rpartition("/")[0].rpartition("/")[2] or stem  # a day of a channel
    else:
        found = line_values(request, [name])
    records = []
    for place, value in found:
        if isinstance(value, Exception):
            yield refused(place, value)
        elif isinstance(value, dict):
            person = people.get(str(value.get("user")))
            records.append({**value, "person": person} if person else value)
    ids = filter(None, (at(one, chat.id) for one in records))
    titles = filter(None, (at(one, chat.title) for one in reversed(records)))
    about = {"id": next(ids, None), "title": next(titles, None), "messages": records}
    whole = chat.replace(id="id", title="title", messages="messages")
    place = request.tree.place(name, "conversation 1")
    yield from groups([(place, about)], partial(_conversation, whole, stem))


WHOLE, SET, PUSH, CUT = range(4)  # kinds of lines


def _replayed(request: Request, name: str) -> Any:
    """
    Return the record that a log of VS Code describes, without broken lines and unknown kinds.

    A line is the whole record, sets the path `k` to `v`, or removes what is there. Or it adds `v`
    after the first `i` of the list there, in place of the rest.
    """
    state: Any = {}
    for _, line in line_values(request, [name]):
        if not isinstance(line, dict):
            continue
        kind, path, value = line.get("kind"), line.get("k") or [], line.get("v")
        try:
            place = state
            for step in path[:-1]:
                place = place[step]
            if kind == WHOLE:
                state = value
            elif kind == SET:
                place[path[-1]] = value
            elif kind == PUSH:
                listed = place[path[-1]]
                listed[line.get("i", len(listed)) :] = value or []
            elif kind == CUT:
                del place[path[-1]]
        except (LookupError, TypeError):
            continue
    return state


def _people(tree: Tree) -> dict[str, str]:
    """Return the names of people by their ids, where an export of Slack lists them."""
    found = {}
    for name in filter(tree.peek, tree.named("users.json")):
        with tree.open(name, counts=False) as source:
            for _, one in source.elements():
                named = at(one, "profile.display_name|real_name|profile.real_name|name")
                found[str(at(one, "id"))] = str(named)
    return found


def _conversation(chat: Chat, stem: str, place: str, value: Any) -> Iterator[Item]:
    given = at(value, chat.messages)
    if not isinstance(given, (list, dict)):
        raise InvalidInput("the conversation has no messages: export it again")
    if isinstance(given, dict):
        given = [{"id": key, **one} for key, one in given.items() if isinstance(one, dict)]
    said = [Said("system", parts_of(told))] if (told := at(value, chat.system)) else []
    said += chain.from_iterable(chat.said(one) for one in given if isinstance(one, dict))
    title = at(value, chat.title)
    about = {
        "name": str(at(value, chat.id) or stem),
        "title": title if isinstance(title, str) and title.strip() else None,
        "created_ms": read_time(at(value, chat.time)),
    }
    current = at(value, chat.current)
    yield from conversation_items(place, about, said, None if current is None else str(current))


def conversation_items(
    place: str, about: dict[str, Any], said: list[Said], current: str | None = None
) -> Iterator[Item]:
    """
    Yield a session and its messages, and what was left out.

    Args:
        about: Name, title and time of the session.
        current: The last node on the screen; None means the last one of all.
    """
    nodes: dict[str, list[Said]] = {}
    for number, one in enumerate(said, start=1):
        nodes.setdefault(one.id or _key(number, one), []).append(one)
    firsts = {key: several[0] for key, several in nodes.items()}
    times = {key: read_time(one.time) for key, one in firsts.items()}
    is_tree = any(one.parent for one in firsts.values())
    if not is_tree and all(times.values()):
        firsts = {key: firsts[key] for key in sorted(firsts, key=lambda key: times[key] or 0)}
    before = dict(zip(firsts, [None, *firsts], strict=False))
    parents = parents_of(
        (key, before[key] if one.parent is None or not is_tree else one.parent or None)
        for key, one in firsts.items()
    )
    ordered = in_order(parents, current if current in firsts else newest_last(parents, times))
    if circular := sum(bool(firsts[key].role) for key in firsts.keys() - {*ordered}):
        yield left_out(place, *CIRCULAR, circular)
    found: list[Item] = []
    ends: dict[str, str | None] = {}
    last_ms = about["created_ms"] or next(filter(None, times.values()), None)
    every = [(key, one) for key in ordered for one in nodes[key]]
    for number, (key, one) in enumerate(every, start=1):
        where, after = f"{place}, message {number}", message_before(parents, key, ends)
        ends.setdefault(key, after)
        fields = _fields(one)
        if fields is None:
            if one.role:
                yield left_out(where, "messages", "they have no words")
            continue
        last_ms = times[key] or last_ms
        fields |= {"session": about["name"], "external_id": key, "created_ms": last_ms}
        found.append(Item(where, "message", {**fields, "after": after} if is_tree else fields))
        ends[key] = key
    if not found:
        yield left_out(place, *EMPTY)
        return
    yield Item(place, "session", {key: one for key, one in about.items() if one is not None})
    yield from found


def _key(number: int, one: Said) -> str:
    """Return the id of a message that has none, by its place and what it says."""
    content = json.dumps([one.role, one.author, one.parts], sort_keys=True).encode()
    return f"{number}-{blake2b(content, digest_size=6).hexdigest()}"


def _fields(one: Said) -> dict[str, Any] | None:
    """Return role, author and text or parts of a message; None for one without words."""
    if not one.role:
        return None
    role = role_of(one.role.lower())
    if role not in ROLES:
        raise InvalidInput(f"role is {one.role!r}: use one of {', '.join(ROLES)}")
    parts = [part for part in one.parts if part["type"] != "text" or part["text"].strip()]
    if not parts:
        return None
    fields = {"role": role, "author": one.author}
    if all(part["type"] == "text" for part in parts):
        return {**fields, "text": "\n".join(part["text"] for part in parts)}
    return {**fields, "parts": parts}


def read_time(value: Any) -> int | None:
    """Return a time in milliseconds, of a number that is text or MongoDB's too."""
    value = at(value, "$date.$numberLong|$date") or value if isinstance(value, dict) else value
    if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        value = float(value)
    return any_time(value, "time")


def parts_of(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a text, or of a list of texts and blocks."""
    given = content if isinstance(content, list) else [content]
    return [read_part(_renamed(one)) for one in given if isinstance(one, (str, dict)) and one]


# Blocks of programs that write them in their own words, each in one that `read_part` knows.
BLOCKS = {"toolCall": "tool_call", "input_text": "text", "output_text": "text"}


def _renamed(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in BLOCKS:
        return {**block, "type": BLOCKS[kind]}
    # An entity of a text, as a mention or a link.
    is_text = isinstance(kind, str) and block.keys() <= {"type", "text", "href", "user_id"}
    return (
        {"type": "text", "text": text_value(block["text"])}
        if is_text and "text" in block
        else block
    )


def thought(text: Any) -> dict[str, Any]:
    """Return the part of what a model thought."""
    return {"type": "thinking", "text": text_value(text)}


def call(id_: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return the part of a call of a tool."""
    given = arguments if isinstance(arguments, (str, dict)) else {}
    return {"type": "tool_call", "id": text_value(id_), "name": text_value(name),
            "arguments": given}  # fmt: skip


def result(id_: Any, content: Any, *, failed: bool = False) -> dict[str, Any]:
    """Return the part of what a tool gave."""
    given = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    part = {"type": "tool_result", "tool_call_id": text_value(id_), "content": given}
    return {**part, "is_error": True} if failed else part


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _plain(
    given: dict[str, Any],
    *,
    id: str = "id",  # noqa: A002 (the field's name)
    parent: str = "",
    role: str = "role",
    content: str = "content",
    time: str = "timestamp",
    author: str = "model",
) -> Iterator[Said]:
    """Yield a message whose fields stand at paths; "" means that there is no such field."""
    parts = parts_of(at(given, content))
    for one in at(given, "tool_calls|toolCalls") or ():
        arguments = at(one, "arguments|args|input|function.arguments")
        parts.append(
            call(at(one, "id|toolCallId"), at(one, "name|toolName|function.name"), arguments)
        )
    parts += _files(at(given, "files|attachments"), "name|filename|file.filename")
    by = str(at(given, role) or "")
    before = str(at(given, parent) or "") if parent else None
    yield Said(
        by, parts, str(at(given, id) or ""), before, at(given, time), _name(at(given, author))
    )


FRAGMENTS = {"REQUEST": "user", "RESPONSE": "assistant", "THINK": "assistant"}


def _deepseek(node: dict[str, Any]) -> Iterator[Said]:
    message = node.get("message") or {}
    given = message.get("fragments") or ()
    parts, roles = [], []
    for one in given:
        kind, text = str(one.get("type")), text_value(one.get("content"))
        roles.append(FRAGMENTS.get(kind, ""))
        if kind == "THINK":
            parts.append(thought(text))
        elif kind in FRAGMENTS:
            parts.append({"type": "text", "text": text})
        else:
            parts.append({"type": "other", "kind": kind, "data": one, "provider": "deepseek"})
    if not given:
        parts = [thought(one) for one in (message.get("reasoning_content"),) if one]
        parts += parts_of(message.get("content"))
    parts += _files(message.get("files"), "file_name|name")
    role = next(filter(None, roles), None) or str(message.get("role") or "").lower()
    role = role or ("assistant" if parts else "")
    author = _name(message.get("model")) if role == "assistant" else None
    yield Said(role, parts, str(node.get("id") or ""), str(node.get("parent") or ""),
               message.get("inserted_at"), author)  # fmt: skip


def _files(given: Any, name: str) -> Iterator[dict[str, Any]]:
    for one in given if isinstance(given, list) else ():
        yield {"type": "file", "name": str(at(one, name) or "unnamed")}


def _librechat(message: dict[str, Any]) -> Iterator[Said]:
    """Yield a message and those behind it."""
    id_, by_user = str(message.get("messageId") or ""), message.get("isCreatedByUser")
    parts = parts_of(message.get("text") or message.get("content"))
    parts += _files(message.get("files"), "filename")
    author = None if by_user else _name(at(message, "model|sender"))
    parent = str(message.get("parentMessageId") or "")
    parent = parent if parent.strip("0-") else ""  # zeros mean none
    yield Said("user" if by_user else "assistant", parts, id_, parent,
               at(message, "createdAt|timestamp"), author)  # fmt: skip
    for child in message.get("children") or ():
        yield from _librechat({"parentMessageId": id_, **child})


def _pi(line: dict[str, Any]) -> Iterator[Said]:
    kind, id_, time = line.get("type"), str(line.get("id") or ""), line.get("timestamp")
    parent = (line.get("parentId") or "") if id_ else None  # the first version has no ids
    message = line.get("message") if kind == "message" else None
    role, parts, author = "", [], None
    if isinstance(message, dict):
        role, author = str(message.get("role")), _name(message.get("model"))
        parts = parts_of(message.get("content"))
        if role == "toolResult":
            text = "\n".join(text_value(part.get("text")) for part in parts)
            failed = message.get("isError") is True
            role, parts = "tool", [result(message.get("toolCallId"), text, failed=failed)]
        elif role == "bashExecution":
            role, parts = "user", parts_of(f"! {message.get('command')}\n{message.get('output')}")
        elif role not in ("user", "assistant"):
            role = "system"
    elif kind in ("compaction", "branch_summary", "custom_message"):
        role, parts = "system", parts_of(line.get("summary") or line.get("content"))
    yield Said(role, parts, id_, parent, time, author)


EVENTS = {"user.message": "user", "assistant.message": "assistant", "system.message": "system"}


def _copilot(event: dict[str, Any]) -> Iterator[Said]:
    kind, data = str(event.get("type")), event.get("data") or {}
    role, parts = EVENTS.get(kind, ""), []
    if role:
        parts = [thought(one) for one in (data.get("reasoningText"),) if one]
        parts += parts_of(data.get("content"))
        parts += [call(one.get("toolCallId"), one.get("name"), one.get("arguments"))
                  for one in data.get("toolRequests") or ()]  # fmt: skip
        parts += _files(data.get("attachments"), "displayName|path")
    elif kind == "tool.execution_complete":
        given = at(data, "result.content|error.message|result") or ""
        failed = data.get("success") is False
        role, parts = "tool", [result(data.get("toolCallId"), given, failed=failed)]
    elif kind == "session.compaction_complete" and data.get("summaryContent"):
        role, parts = "system", parts_of(data["summaryContent"])
    yield Said(role, parts, str(event.get("id") or ""), event.get("parentId") or None,
               event.get("timestamp"))  # fmt: skip


def _vscode(request: dict[str, Any]) -> Iterator[Said]:
    """Yield a prompt and its answer."""
    id_, time = str(request.get("requestId") or ""), request.get("timestamp")
    message = request.get("message")
    asked = parts_of(message if isinstance(message, str) else at(message, "text"))
    yield Said("user", asked, id_, None, time)
    parts: list[dict[str, Any]] = []
    for one in request.get("response") or ():
        kind, value = one.get("kind"), at(one, "value|content.value")
        if kind == "inlineReference":
            path = at(one, "name|inlineReference.name|inlineReference.path|inlineReference.fsPath")
            kind, value = None, f"`{str(path or 'file').rpartition('/')[2]}`"
        if kind in (None, "markdownContent") and isinstance(value, str):
            if parts and parts[-1]["type"] == "text":  # an answer stands there in pieces
                parts[-1]["text"] += value
            else:
                parts.append({"type": "text", "text": value})
        elif kind == "thinking" and value:
            parts.append(thought(value if isinstance(value, str) else "\n".join(value)))
        elif kind == "toolInvocationSerialized":
            parts.append({"type": "other", "kind": kind, "data": one, "provider": "vscode"})
    yield Said("assistant", parts, id_ and f"{id_}/answer", None, time,
               _name(request.get("modelId")))  # fmt: skip


def _ai_studio(chunk: dict[str, Any]) -> Iterator[Said]:
    text, role = text_value(chunk.get("text")), str(chunk.get("role") or "user")
    parts = [thought(text)] if chunk.get("isThought") else parts_of(text)
    for name in ("driveImage", "driveDocument", "driveAudio", "driveVideo", "inlineFile"):
        if isinstance(chunk.get(name), dict):
            parts.append({"type": "file", "name": str(chunk[name].get("id") or name)})
    yield Said(role, parts, time=chunk.get("createTime"))


MENTION = re.compile(r"<(?:@|#|!)?([^<>|]+)(?:\|([^<>]*))?>")  # of Slack: <@U1>, <https://x|name>


def _slack(message: dict[str, Any]) -> Iterator[Said]:
    if message.get("type") != "message" or str(message.get("subtype")).startswith("channel_"):
        yield Said("", [])
        return
    text = unescape(MENTION.sub(lambda one: one[2] or one[1], text_value(message.get("text"))))
    name = "person|user_profile.display_name|user_profile.real_name|username|user|bot_id"
    parts = [*parts_of(text), *_files(message.get("files"), "name|title")]
    ts = str(message.get("ts") or "")
    yield Said("user", parts, ts, None, ts or None, _name(at(message, name)))


def _telegram(message: dict[str, Any]) -> Iterator[Said]:
    text = message.get("text") or ""
    pieces = parts_of(text)
    parts = parts_of("".join(text_value(one.get("text")) for one in pieces))
    name = at(message, "file_name|file|photo")
    if isinstance(name, str):
        parts.append({"type": "file", "name": name.rpartition("/")[2]})
    by = message.get("from")
    role = "" if message.get("type") == "service" else "user"
    time = at(message, "date_unixtime|date")
    yield Said(role, parts, str(message.get("id") or ""), None, time, _name(by))


def _kiro(turn: dict[str, Any]) -> Iterator[Said]:
    """Yield a prompt or results, and the answer."""
    time = at(turn, "request_metadata.request_start_timestamp_ms|user.timestamp")
    content = at(turn, "user.content") or {}
    said = parts_of(at(content, "Prompt.prompt|Prompt|CancelledToolUses.prompt"))
    given = at(content, "ToolUseResults.tool_use_results|CancelledToolUses.tool_use_results") or ()
    results = []
    for one in given:
        pieces = [at(piece, "Text|Json") for piece in one.get("content") or ()]
        texts = [piece if isinstance(piece, str) else json.dumps(piece) for piece in pieces]
        failed = one.get("status") not in (None, "Success")
        results.append(result(one.get("tool_use_id"), "\n".join(texts), failed=failed))
    yield Said("tool" if results else "", results, time=time)
    yield Said("user" if said else "", said, time=time)
    answer = at(turn, "assistant.Response|assistant.ToolUse") or {}
    parts = parts_of(answer.get("content"))
    parts += [call(one.get("id"), one.get("name"), one.get("args"))
              for one in answer.get("tool_uses") or ()]  # fmt: skip
    yield Said("assistant", parts, str(answer.get("message_id") or ""), None, time)


# A message of WhatsApp: "[01.05.26, 10:00:00] Ann: Hi" or "5/1/26, 10:00 PM - Ann: Hi".
HEAD = re.compile(
    r"^\u200e?\[?(\d{1,4})([./-])(\d{1,2})\2(\d{2,4}),? (\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    r"[ \u202f]?([AaPp]\.?[Mm]\.?)?(?:\] | - )(?:([^:\n]{1,100}): )?",
    re.MULTILINE,
)
YEAR_DIGITS, MONTHS, NOON = 4, 12, 12
CENTURY = 2000


def _whatsapp_days(heads: list[re.Match[str]]) -> tuple[int, int, int]:
    """Return the places of year, month and day in a date, by all dates of a file."""
    numbers = [(int(one[1]), int(one[3])) for one in heads]
    if any(len(one[1]) == YEAR_DIGITS for one in heads):
        return 0, 1, 2
    is_day_second = any(second > MONTHS for _, second in numbers)
    is_day_first = any(first > MONTHS for first, _ in numbers)
    is_english = all(one[2] == "/" and one[8] for one in heads)
    return (2, 0, 1) if is_day_second or (is_english and not is_day_first) else (2, 1, 0)


def _whatsapp_chat(text: str, stem: str) -> Iterator[dict[str, Any]]:
    heads = [*HEAD.finditer(text)]
    places = _whatsapp_days(heads)
    messages = []
    for one, following in zip(heads, [*heads[1:], None], strict=True):
        numbers = [int(one[group]) for group in (1, 3, 4)]
        year, month, day = (numbers[place] for place in places)
        half = (one[8] or "").lower()[:1]
        hour = int(one[5]) % NOON + NOON * (half == "p") if half else int(one[5])
        year += CENTURY if year < CENTURY else 0
        time = f"{year:04}-{month:02}-{day:02}T{hour:02}:{one[6]}:{one[7] or '00'}"
        words = text[one.end() : following.start() if following else len(text)]
        by = one[9].strip("\u200e\u202a\u202c ~") if one[9] else None
        said = words.replace("\u200e", "").strip()
        messages.append({"role": by and "user", "author": by, "content": said, "timestamp": time})
    yield {"id": stem, "messages": messages}


AIDER = re.compile(r"^# aider chat started at (.+)$", re.MULTILINE)


def _aider_chats(text: str, stem: str) -> Iterator[dict[str, Any]]:
    """Yield a conversation for each start of aider: prompts, what it printed, and answers."""
    starts = [*AIDER.finditer(text)]
    for one, following in zip(starts, [*starts[1:], None], strict=True):
        messages: list[dict[str, Any]] = []
        block = text[one.end() : following.start() if following else len(text)]
        for line in block.splitlines():
            mark = next((mark for mark in ("#### ", "> ") if line.startswith(mark)), "")
            role = {"#### ": "user", "> ": "system"}.get(mark, "assistant")
            said = line.removeprefix(mark)
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += f"\n{said}"
            elif said.strip():
                messages.append({"role": role, "content": said, "timestamp": one[1].strip()})
        for message in messages:
            message["content"] = message["content"].strip()
        yield {"id": f"{stem.lstrip('.')} {one[1].strip()}", "messages": messages}


# The marks that the page of Grok draws cards of sources and pictures for.
CARDS = re.compile(r"<grok:render\b.*?</grok:render>", re.DOTALL)


def _grok(given: dict[str, Any]) -> Iterator[Said]:
    message = given.get("response", given)
    parts = parts_of(CARDS.sub("", text_value(message.get("message"))).strip())
    parts += [
        {"type": "file", "file_id": str(one)} for one in message.get("file_attachments") or ()
    ]
    by = role_of(text_value(message.get("sender")).lower())
    role = by if by in ROLES else "assistant"  # its models go by many names, and by none
    author = _name(message.get("model")) if role == "assistant" else None
    yield Said(role, parts, str(message.get("_id") or ""), message.get("parent_response_id") or "",
               message.get("create_time"), author)  # fmt: skip


# A row is two or three lines.
# fmt: off
CHATS = {
    "grok": Chat("an export of Grok", "conversation responses", _grok, messages="responses",
                 id="conversation.id", title="conversation.title",
                 time="conversation.create_time", current="conversation.leaf_response_id",
                 lists="conversations", files=("*.json",)),
    "deepseek": Chat("an export of DeepSeek", "mapping inserted_at|mapping.*.message.fragments",
                     _deepseek, messages="mapping", time="inserted_at"),
    "pi": Chat("a session of pi or OpenClaw", "type=session id cwd", _pi,
               title="name", is_whole=True, is_captured=True),
    "copilot-cli": Chat("a session of Copilot CLI", "type=session.start data", _copilot,
                        id="data.sessionId", title="data.title", is_whole=True, is_captured=True),
    "vscode-copilot": Chat("a chat of Copilot in VS Code",
                           "requests|v.requests sessionId|version|v.version", _vscode,
                           messages="requests", id="sessionId", title="customTitle",
                           time="creationDate", is_log=True, is_captured=True),
    "open-webui": Chat("an export of Open WebUI", "chat.history.messages",
                       partial(_plain, parent="parentId"), messages="chat.history.messages",
                       title="title|chat.title", time="created_at|chat.timestamp",
                       current="chat.history.currentId"),
    "librechat": Chat("an export of LibreChat", "conversationId messages", _librechat,
                      id="conversationId"),
    "ai-studio": Chat("a prompt of Google AI Studio", "chunkedPrompt.chunks", _ai_studio,
                      messages="chunkedPrompt.chunks", id="",
                      system="systemInstruction.text|systemInstruction.parts.0.text"),
    "slack": Chat("a day of Slack", "type=message ts text", _slack, id="", title="", is_whole=True),
    "telegram": Chat("an export of Telegram", "messages.0.date type", _telegram,
                     title="name", lists="chats.list"),
    "agent-chat": Chat("a conversation of Windsurf or Antigravity", "conversation.messages",
                       partial(_plain, role="role|sender", content="content|parts|text",
                               time="createdAt|created_at|timestamp"),
                       messages="conversation.messages", id="conversation.id",
                       title="conversation.title", is_captured=True),
    "kiro": Chat("a conversation of Kiro", "conversation_id history", _kiro,
                 messages="history", id="conversation_id", is_captured=True),
    "whatsapp": Chat("a chat of WhatsApp", HEAD.pattern, partial(_plain, author="author"),
                     files=("*.txt",), split=_whatsapp_chat),
    "aider": Chat("the history of aider", rf"\s*{AIDER.pattern[1:-1]}", _plain,
                  files=("*.md",), split=_aider_chats, is_captured=True),
}
# fmt: on


def _format(name: str, chat: Chat) -> Format:
    paths = [] if chat.split else re.split(r"[ |]", chat.marks)
    return Format(
        name,
        chat.label,
        partial(_claim, chat=chat),
        partial(_read, chat=chat),
        is_captured=chat.is_captured,
        signs=frozenset(re.split(r"[.=]", path)[0] for path in paths),
    )


FORMATS = {name: _format(name, chat) for name, chat in CHATS.items()}
