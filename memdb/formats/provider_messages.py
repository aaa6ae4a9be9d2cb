"""
Read the messages of model providers and their Python packages, through one function for all.

The providers are OpenAI (chat and Responses, with the Agents SDK and LiteLLM), Anthropic, Gemini,
ADK, LangChain, Pydantic AI and Bedrock (with Strands). A message is an object of their classes, or
the same data as a dict. No package is imported: fields are read by `model_dump`, `to_dict`, `dict`
or as attributes. Fields that are None are dropped.

A message with a tool's results beside somebody's words is read as several messages. So no result of
a tool has the role of a person.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.formats.originals import original_part
from memdb.formats.provider_parts import (
    EMPTY,
    PROVIDER_ONLY,
    is_bedrocks,
    is_providers,
    measured,
    media,
    other,
    read_part,
)
from memdb.models.messages import ROLES, SYNONYMS, NewMessage, role_of
from memdb.text.parts import (
    KINDS,
    MEDIA,
    ORIGINAL,
    kind_of,
    text_of,
    text_value,
    without_original,
    words_in,
)
from memdb.text.validate import fit_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memdb.text.parts import Part


MAX_DEPTH = 180  # of an object: JSON of 200 levels can be stored, and it stands in a part

# Names of Gemini's fields in its REST API, by the names that its Python package has.
_GEMINI_FIELDS = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "thoughtSignature": "thought_signature",
    "videoMetadata": "video_metadata",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "displayName": "display_name",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
}
_GEMINI_NESTED = frozenset(("inline_data", "file_data", "video_metadata", "function_response"))

GIVE = "give a dict with role and text, or a message of a provider"


def plain_value(value: Any, field: str) -> Any:
    """
    Return *value* as JSON: dicts, lists, texts and numbers.

    Raises:
        InvalidInput: *value* is nested too deep, or a part of it has no JSON form.
    """
    if isinstance(value, (dict, list, tuple)):
        found = _plain(value, field, 0)
    else:
        found = _plain(_fields_of(value, field), field, 0)
    if isinstance(found, dict):
        return _gemini_names(found)
    return found


def _gemini_names(data: dict[str, Any]) -> dict[str, Any]:
    """Return *data* with Gemini's parts under the names of its Python package."""
    if isinstance(data.get("parts"), list) and "content" not in data:
        return {**data, "parts": [_gemini_part(part) for part in data["parts"]]}
    if isinstance(data.get("content"), dict) and isinstance(data["content"].get("parts"), list):
        return {**data, "content": _gemini_names(data["content"])}
    return _gemini_part(data) if data.keys() & _GEMINI_FIELDS.keys() else data


def _gemini_part(part: Any) -> Any:
    if not isinstance(part, dict) or "type" in part or "part_kind" in part:
        return part
    found = {_GEMINI_FIELDS.get(key, key): value for key, value in part.items()}
    for key in _GEMINI_NESTED & found.keys():
        if isinstance(found[key], dict):
            found[key] = {_GEMINI_FIELDS.get(k, k): v for k, v in found[key].items()}
            if isinstance(found[key].get("parts"), list):
                found[key]["parts"] = [*map(_gemini_part, found[key]["parts"])]
    return found


def _plain(value: Any, field: str, depth: int) -> Any:
    if value is None or isinstance(value, (str, bool, int, float)):
        return _enum_value(value)
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{field} is nested over {MAX_DEPTH} deep: make it flatter")
    if isinstance(value, dict):
        return {str(key): _plain(inner, f"{field}.{key}", depth + 1)
                for key, inner in value.items() if inner is not None or depth > 1}  # fmt: skip
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner, f"{field}[{at}]", depth + 1) for at, inner in enumerate(value)]
    if isinstance(value, (bytes, bytearray)):
        from base64 import b64encode  # only for media

        return b64encode(value).decode()
    return _plain(_fields_of(value, field), field, depth + 1)


def _enum_value(value: Any) -> Any:
    """Return a member of an enum as a plain str, int or float."""
    return getattr(value, "value", value) if type(value) not in _SCALARS else value


_SCALARS = (str, bool, int, float, type(None))


def _fields_of(value: Any, field: str) -> Any:  # noqa: PLR0911 (a line per way)
    """Return the fields of a package's object, by the methods that packages offer."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "raw_item"):
        return {"raw_item": value.raw_item}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _dumped(dump, field)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__
                if not name.startswith("_")}  # fmt: skip
    for name in ("to_dict", "dict"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            return method()
    if hasattr(value, "value") and hasattr(type(value), "__members__"):
        return value.value
    fields = getattr(value, "__dict__", None)
    if not fields or isinstance(value, type) or callable(value):
        raise InvalidInput(f"{field} is {type(value).__name__}: {GIVE}")
    return {key: inner for key, inner in fields.items() if not key.startswith("_")}


def _dumped(dump: Callable[..., Any], field: str) -> Any:
    try:
        return dump(mode="json", exclude_none=True)
    except TypeError:
        return dump()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} has no JSON form ({error}): use plain values") from error


OPENAI, RESPONSES, ANTHROPIC = "openai", "openai-responses", "anthropic"
GEMINI, LANGCHAIN, ADK, PYDANTIC = "gemini", "langchain", "adk", "pydantic-ai"
BEDROCK = "bedrock"

_LANGCHAIN_TYPES = frozenset(
    "human ai system tool function chat remove HumanMessageChunk AIMessageChunk "
    "SystemMessageChunk ToolMessageChunk FunctionMessageChunk ChatMessageChunk".split()
)
_ANTHROPIC_ONLY = frozenset(
    ("tool_use", "redacted_thinking", "document", *PROVIDER_ONLY["anthropic"].split())
)
_CHAT_ONLY = frozenset("image_url input_audio".split())


def read_messages(value: Any, field: str = "message") -> list[NewMessage]:
    """
    Return the messages in *value*: a provider's message, response, or a list of them.

    Args:
        field: What an error calls it.

    Raises:
        InvalidInput: *value* is not a message, has no role, or has no JSON form.

    >>> read_messages({"role": "model", "parts": [{"text": "Hi."}]})[0].role
    'assistant'
    """
    if isinstance(value, NewMessage):
        return [value]
    if isinstance(value, (list, tuple)):
        places = enumerate(value)
        return [one for at, each in places for one in read_messages(each, f"{field}[{at}]")]
    data = plain_value(value, field)
    if not isinstance(data, dict):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a message of a provider")
    inner = _inner_messages(data)
    if inner is not None:
        return read_messages(inner, field)
    provider, fit = provider_of(data), fit_value(data)
    found = [*_READERS.get(provider, _refuse)(fit, field)]
    is_exact = fit == data or len(found) > 1
    return found if is_exact else [keep_whole(found[0], provider, json.dumps(data))]


def keep_whole(message: NewMessage, provider: str, raw: str) -> NewMessage:
    """Return *message* with the provider's own message beside it as the JSON text *raw*."""
    parts = without_original(message.parts or ()) or [{"type": "text", "text": message.text}]
    return message.replace(parts=[*parts, {"type": ORIGINAL, "provider": provider, "whole": raw}])


def read_parts(role: str, parts: Sequence[Any]) -> tuple[str, list[Any]]:
    """
    Return the role and parts, in memdb's form, of a message whose role the host names.

    The role is "tool" if a user's parts are the results of tools.

    Raises:
        InvalidInput: results of tools are mixed with the user's text.
    """
    parts = [*map(_gemini_part, parts)]
    if not any(map(_is_providers, parts)):
        found = parts
    else:
        plain = plain_value(list(parts), "parts")
        data = {"role": role, "content": plain}
        if not any(map(kind_of, plain)) and not any(map(is_bedrocks, plain)):
            data = {"role": _GEMINI_ROLES.get(role, "user"), "parts": plain}
        provider = provider_of(data)
        found = [_read_block(part, provider) for part in plain]
        found.append(original_part(provider, data, found))
    found = [*map(measured, found)]
    results = sum(kind_of(part) == "tool_result" for part in found)
    if results == 0 or role != "user":
        return role, found
    if any(kind_of(part) in ("text", "tool_call") for part in found):
        raise InvalidInput(
            "parts mix the result of a tool with other parts: give the whole message to append, "
            "which separates them"
        )
    return "tool", found


_GEMINI_ROLES = {"assistant": "model"}


def _is_providers(part: Any) -> bool:
    """Return whether a part has a provider's form that memdb converts."""
    kind = kind_of(part)
    if kind not in KINDS:
        return is_providers(part)
    if kind == "text":
        return bool(_TEXT_FIELDS.intersection(part))
    return not _PROVIDER_FIELDS[kind].isdisjoint(part) if kind in _PROVIDER_FIELDS else False


# Fields that tell a provider's part from one of memdb's with the same type.
_TEXT_FIELDS = frozenset(("citations", "cache_control", "annotations", "thought_signature"))
_PROVIDER_FIELDS = {
    "tool_result": {"tool_use_id"},
    "tool_call": {"args"},
    "thinking": {"thinking"},
    **{kind: {"source", "file", "source_type"} for kind in MEDIA},
}


def provider_of(data: dict[str, Any]) -> str:  # noqa: PLR0911 (a line per provider)
    """Return the provider of *data*, by its fields; "" if it has no field of a message."""
    kind = data.get("type")
    if data.get("kind") in ("request", "response") and isinstance(data.get("parts"), list):
        return PYDANTIC
    if data.get("lc") == 1 or (isinstance(data.get("data"), dict) and kind in _LANGCHAIN_TYPES):
        return LANGCHAIN
    if kind in _LANGCHAIN_TYPES and "content" in data and "role" not in data:
        return LANGCHAIN
    if kind == "chat" and "content" in data:
        return LANGCHAIN
    if "author" in data and ("actions" in data or "invocation_id" in data):
        return ADK
    if isinstance(data.get("parts"), list) and "content" not in data:
        return GEMINI
    if isinstance(kind, str) and kind != "message":
        return RESPONSES
    if "role" not in data:
        return ""
    return _by_content(data)


def _by_content(data: dict[str, Any]) -> str:
    """Return the provider of a message with a role, by the types in it."""
    content = data.get("content")
    blocks = content if isinstance(content, list) else []
    kinds = {*map(kind_of, blocks)}
    fields = {field for block in blocks if isinstance(block, dict) for field in block}
    if data.get("type") == "message" and ("stop_reason" in data or "model" in data):
        return ANTHROPIC
    if any(map(is_bedrocks, blocks)) or (kinds == {""} and "text" in fields):
        return BEDROCK
    if any(kind.startswith(("input_", "output_")) for kind in kinds) and "input_audio" not in kinds:
        return RESPONSES
    if data.get("type") == "message":
        return RESPONSES
    if kinds & _CHAT_ONLY or data.keys() & {"tool_calls", "tool_call_id", "function_call"}:
        return OPENAI
    is_anthropic = any(kind in _ANTHROPIC_ONLY or kind.endswith("_tool_result") for kind in kinds)
    return ANTHROPIC if is_anthropic or fields & _ANTHROPIC_FIELDS else OPENAI


_ANTHROPIC_FIELDS = frozenset("source tool_use_id thinking cache_control citations".split())


# Fields that hold messages: of a response, of a choice in it, of an item of an Agents SDK run.
_HOLDERS = ("choices", "candidates", "output", "messages", "message", "content", "raw_item")
_SPEAKERS = frozenset(("role", "call_id", "author"))


def _inner_messages(data: dict[str, Any]) -> Any | None:
    """
    Return the container of messages in a provider's response; None if *data* is no response.
    """
    if not _SPEAKERS.isdisjoint(data):
        return None
    for field in _HOLDERS:
        inner = data.get(field)
        if field == "content":  # of a candidate, which the model said
            is_said = isinstance(inner, dict) and isinstance(inner.get("parts"), list)
            inner = {"role": "model", **(inner or {})} if is_said else None
        if isinstance(inner, dict) or (isinstance(inner, list) and inner):
            return inner
    return None


def _role(data: dict[str, Any], field: str, key: str = "role") -> str:
    given = data.get(key)
    if given is None:
        raise InvalidInput(f"{field}.{key} is missing: a message needs a role")
    role = role_of(given)
    if role not in ROLES:
        roles = ", ".join((*ROLES, *SYNONYMS))
        raise InvalidInput(f"{field}.{key} is {given!r}: use one of {roles}")
    return str(role)


def _read_block(block: Any, provider: str = "") -> Part:
    part = read_part(block)
    if part["type"] == "other" and provider:
        part.setdefault("provider", provider)
    return part


def _name(value: Any) -> str | None:
    """Return an author's name; None for other values."""
    return value if isinstance(value, str) and value.strip() else None


def _message(
    role: str,
    parts: list[Part],
    original: tuple[str, Any],
    author: Any = None,
    *,
    simple: bool = False,
) -> NewMessage:
    """
    Return a message with its original beside it.

    Args:
        original: The provider and its message.
        simple: Whether `memdb.formats.shapes` makes the same message from the parts, so that no
            original is stored.
    """
    parts = [*parts, *_words_beside(role, parts, original[1], author)]
    if not any(part["type"] != "text" or part["text"].strip() for part in parts):
        parts, simple = [*parts, other(EMPTY, {}, "the message is empty")], False
    if not simple:
        parts = [*parts, original_part(*original, parts)]
    elif all(part.keys() == _PLAIN_TEXT for part in parts):
        return NewMessage(role, text_of(parts), _name(author))
    return NewMessage(role, "", _name(author), parts)


_PLAIN_TEXT = {"type", "text"}
_SENTENCE = re.compile(r"[^\W\d_]{2}\s+[^\W\d_]{2}|[^\x00-\x7f]{4}")


def _words_beside(role: str, parts: list[Part], data: Any, author: Any) -> Iterator[Part]:
    """Yield content of an assistant's message in fields that no reader knows: a plan, an error."""
    if role != "assistant" or not isinstance(data, dict):
        return
    said = text_of(parts)
    for name, value in data.items():
        words = words_in(value) if isinstance(value, str) and value != author else ""
        if _SENTENCE.search(words) and words not in said:
            yield other(name, words)


def _blocks(content: Any) -> list[Any]:
    """Return the content of a message as a list of blocks."""
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def _in_turns(
    role: str, blocks: list[Any], provider: str
) -> Iterator[tuple[str, list[Any], list[Part]]]:
    """Yield role, blocks and parts of each run of *blocks* by one speaker."""
    named = _named(blocks) if provider in (GEMINI, ADK) else blocks
    read = [(block, _read_block(one, provider)) for block, one in zip(blocks, named, strict=True)]
    for is_result, run in groupby(read, lambda one: one[1]["type"] == "tool_result"):
        found = [*run]
        said = [part for _, part in found]
        yield "tool" if is_result else role, [block for block, _ in found], said


def _read_openai(data: dict[str, Any], field: str) -> Iterator[NewMessage]:
    """Read a message of the chat completions API."""
    role = _role(data, field)
    parts: list[Part] = []
    told = next(filter(None, (text_value(data.get(name)) for name in _THOUGHTS)), "")
    if told:
        parts.append({"type": "thinking", "text": told})
    parts += [_read_block(block, OPENAI) for block in _blocks(data.get("content"))]
    parts += [media("image", one) for one in _blocks(data.get("images")) if isinstance(one, str)]
    if isinstance(data.get("refusal"), str):
        parts.append({"type": "text", "text": data["refusal"], "refusal": True})
    sound = data.get("audio")
    if isinstance(sound, dict):
        part = read_part({"type": "audio", "data": sound.get("data"), "file_id": sound.get("id")})
        parts.append({**part, "text": text_value(sound.get("transcript"))})
    calls = _blocks(data.get("tool_calls"))
    parts += [_read_block({"type": "function", **call}, OPENAI) for call in calls
              if isinstance(call, dict)]  # fmt: skip
    legacy = data.get("function_call")
    if isinstance(legacy, dict):
        call = {"id": legacy.get("name"), "function": legacy}
        parts.append(read_part({"type": "function", **call}))
    if role == "tool":
        parts = [_tool_answer(data, parts)]
    plain = data.keys() <= {"role", "content"} and not isinstance(data.get("content"), list)
    simple = plain or _is_simple_answer(data) or _is_simple_call(data)
    simple = simple and data["role"] in ROLES
    yield _message(role, parts, (OPENAI, data), data.get("name"), simple=simple)


_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def _is_simple_answer(data: dict[str, Any]) -> bool:
    is_text = isinstance(data.get("content"), str)
    return is_text and data.keys() == {"role", "content", "tool_call_id"}


def _is_simple_call(data: dict[str, Any]) -> bool:
    content = data.get("content")
    if not data.keys() <= {"role", "content", "tool_calls"} or isinstance(content, list):
        return False
    if isinstance(content, str) and not content.strip():
        return False
    return all(
        isinstance(call, dict)
        and call.keys() == {"id", "type", "function"}
        and isinstance(call["function"], dict)
        and call["function"].keys() == {"name", "arguments"}
        for call in _blocks(data.get("tool_calls"))
    )


def _tool_answer(data: dict[str, Any], parts: list[Part]) -> Part:
    """Return the result in a message of a tool."""
    call_id = data.get("tool_call_id", data.get("name"))
    block = {"type": "tool_result", "tool_use_id": call_id, "content": data.get("content")}
    part = read_part(block)
    if not isinstance(data.get("content"), (str, list)):
        part["content"] = text_of(parts)
    name = data.get("name")
    return {**part, "name": name} if isinstance(name, str) and name else part


def _read_blocks(provider: str, content_field: str) -> Callable[..., Iterator[NewMessage]]:
    """Return a reader of messages with blocks: those of Anthropic, Bedrock and Gemini."""

    def read(data: dict[str, Any], field: str) -> Iterator[NewMessage]:
        role = _role(data, field)
        content = data.get(content_field)
        if isinstance(content, str) or not content:
            text = text_value(content)
            simple = provider == ANTHROPIC
            yield _message(role, [read_part(text)], (provider, data), simple=simple)
            return
        more = {key: value for key, value in data.items() if key != content_field}
        for said_by, some, parts in _in_turns(role, content, provider):
            whole = {**more, content_field: some}
            simple = more.keys() == {"role"} and all(map(_is_simple_block, some))
            simple = simple and provider != BEDROCK
            yield _message(said_by, parts, (provider, whole), simple=simple and len(some) == 1)

    return read


def _is_simple_block(block: Any) -> bool:
    return isinstance(block, dict) and (
        block.keys() in ({"type", "text"}, {"text"})
        or (block.keys() == {"type", "id", "name", "input"} and block["type"] == "tool_use")
        or (
            block.keys() == {"type", "tool_use_id", "content"} and isinstance(block["content"], str)
        )
    )


def gemini_parts(blocks: list[Any]) -> list[Part]:
    """Return the parts of Gemini's content in memdb's form, without an original."""
    return [_read_block(block, GEMINI) for block in _named(blocks)]


def _named(parts: list[Any]) -> list[Any]:
    """
    Return Gemini's parts with an id in each call and response; without one, the function's name.

    Gemini matches by name and order, so the second call of a name is `name-2`.
    """
    counts: dict[tuple[str, str], int] = {}
    found = []
    for part in parts:
        for field in ("function_call", "function_response"):
            told = part.get(field) if isinstance(part, dict) else None
            if isinstance(told, dict) and not told.get("id") and isinstance(told.get("name"), str):
                name = told["name"]
                number = counts[field, name] = counts.get((field, name), 0) + 1
                named = name if number == 1 else f"{name}-{number}"
                part = {**part, field: {**told, "id": named}}  # noqa: PLW2901 (with its id)
        found.append(part)
    return found


def read_item(item: dict[str, Any]) -> NewMessage:
    """
    Return an item of the Responses API, which is plain JSON, as a message.

    Nothing is refused. A message without a known role is the user's. Any other item is the
    assistant's, or a tool's if it is an output.
    """
    role, content = item.get("role"), item.get("content")
    if role in ROLES and isinstance(content, str) and [*item] == _PLAIN and content.strip():
        return NewMessage(role, content)
    if "type" not in item and "content" not in item:
        item_part = other("item", item)
        return _message("user", [item_part], (RESPONSES, item))
    if item.get("type", "message") == "message" and role_of(role) not in ROLES:
        parts = [_read_block(block, RESPONSES) for block in _blocks(content)]
        return _message("user", parts, (RESPONSES, item))
    (message,) = _read_responses(item, "item")
    return message


def read_bedrock(data: dict[str, Any]) -> list[NewMessage]:
    """
    Return a message of Bedrock or Strands as messages, also one of plain text blocks.

    Raises:
        InvalidInput: *data* has no role of a message.
    """
    return [*_READERS[BEDROCK](data, "message")]


def _read_responses(data: dict[str, Any], field: str) -> Iterator[NewMessage]:
    """Read an item of the Responses API."""
    kind = str(data.get("type", "message"))
    if kind != "message":
        part = _read_block(data, RESPONSES)
        role = "tool" if part["type"] == "tool_result" or kind.endswith("_output") else "assistant"
        simple = _SIMPLE_ITEMS.get(kind) == [*data] and all(
            isinstance(value, str) and value for value in data.values()
        )
        yield _message(role, [part], (RESPONSES, data), simple=simple)
        return
    role = _role(data, field)
    parts = [_read_block(block, RESPONSES) for block in _blocks(data.get("content"))]
    simple = [*data] == _PLAIN and isinstance(data["content"], str) and data["role"] in ROLES
    yield _message(role, parts, (RESPONSES, data), simple=simple)


_PLAIN = ["role", "content"]
_SIMPLE_ITEMS = {
    "function_call": ["type", "call_id", "name", "arguments"],
    "function_call_output": ["type", "call_id", "output"],
}


def _read_langchain(data: dict[str, Any], field: str) -> Iterator[NewMessage]:
    """Read a message of LangChain: an object's fields, or its serialised form."""
    told = data
    if data.get("lc") == 1 and isinstance(data.get("kwargs"), dict):
        name = str((data.get("id") or [""])[-1])
        told = {"type": _LANGCHAIN_CLASSES.get(name, ""), **data["kwargs"]}
    elif isinstance(data.get("data"), dict):
        told = {**data["data"], "type": data["type"]}
    kind = str(told.get("type", "")).removesuffix("MessageChunk").lower()
    role, author = role_of(told.get("role")), told.get("name")
    if kind != "chat":
        role = _role({"type": kind}, field, "type")
    elif role not in ROLES:  # a party of the framework's, which is never the user
        role, author = "assistant", author or role
    parts = [_read_block(block, LANGCHAIN) for block in _blocks(told.get("content"))]
    ids = {part.get("id") for part in parts if part["type"] == "tool_call"}
    calls = [*_blocks(told.get("tool_calls")), *_blocks(told.get("invalid_tool_calls"))]
    calls = [call for call in calls if isinstance(call, dict)]
    parts += [
        _read_block({"type": "tool_call", **call})
        for call in calls
        if not call.get("id") or call["id"] not in ids
    ]
    if role == "tool":
        parts = [{**_tool_answer(told, parts)}]
        if told.get("status") == "error":
            parts[0]["is_error"] = True
    whole = {"type": told["type"], "data": told}
    yield _message(role, parts, (LANGCHAIN, whole), author)


_LANGCHAIN_CLASSES = {
    f"{name}Message{end}": name.lower()
    for name in ("Human", "AI", "System", "Tool", "Function", "Chat", "Remove")
    for end in ("", "Chunk")
}


def _read_adk(data: dict[str, Any], _field: str) -> Iterator[NewMessage]:
    """Read an event of ADK."""
    given = data.get("content")
    content = given if isinstance(given, dict) else {}
    role = "user" if data.get("author") == "user" else "assistant"
    blocks = _blocks(content.get("parts"))
    created = data.get("timestamp")
    turns = [*_in_turns(role, blocks, ADK)] or [(role, [], [])]
    for number, (said_by, some, parts) in enumerate(turns):
        whole = {**data, "content": {**content, "parts": some}}
        message = _message(said_by, parts, (ADK, whole), data.get("author"))
        external = text_value(data.get("id")) or None
        yield message.replace(
            external_id=external if number == 0 or not external else f"{external}#{number + 1}",
            created_ms=int(created * 1000) if isinstance(created, (int, float)) else None,
        )


def _read_pydantic(data: dict[str, Any], field: str) -> Iterator[NewMessage]:
    """Read a request or response of Pydantic AI."""
    blocks: list[tuple[str, Any]] = []
    for block in data["parts"]:
        kind = block.get("part_kind") if isinstance(block, dict) else None
        role = _PYDANTIC_ROLES.get(str(kind), "assistant")
        if data["kind"] == "request" and role == "assistant":
            role = "user"
        if kind == "retry-prompt" and not block.get("tool_name"):
            role, kind = "user", "user-prompt"
        blocks.append((role, block))
    more = {key: value for key, value in data.items() if key != "parts"}
    for role, run in groupby(blocks, lambda one: one[0]):
        some = [block for _, block in run]
        parts = [part for block in some for part in _pydantic_parts(block)]
        yield _message(role, parts, (PYDANTIC, {**more, "parts": some}))
    if not blocks:
        raise InvalidInput(f"{field}.parts is empty: a message needs content")


def _pydantic_parts(block: dict[str, Any]) -> list[Part]:
    if block.get("part_kind") in ("user-prompt", "system-prompt", "instruction"):
        return [_read_block(one, PYDANTIC) for one in _blocks(block.get("content"))]
    if block.get("part_kind") == "retry-prompt" and not block.get("tool_name"):
        return [_read_block(text_of([block.get("content")]))]
    return [_read_block(block, PYDANTIC)]


_PYDANTIC_ROLES = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "tool",
}

_READERS: dict[str, Callable[[dict[str, Any], str], Iterator[NewMessage]]] = {
    OPENAI: _read_openai,
    RESPONSES: _read_responses,
    ANTHROPIC: _read_blocks(ANTHROPIC, "content"),
    BEDROCK: _read_blocks(BEDROCK, "content"),
    GEMINI: _read_blocks(GEMINI, "parts"),
    LANGCHAIN: _read_langchain,
    ADK: _read_adk,
    PYDANTIC: _read_pydantic,
}


def _refuse(data: dict[str, Any], field: str) -> Iterator[NewMessage]:
    """
    Refuse a value without fields of a message.

    In an answer that was blocked, fields give the reason.
    """
    words = {str(name): words_in(value)[:40] for name, value in sorted(data.items())[:6]}
    shown = ", ".join(f"{name} {told}".rstrip() for name, told in words.items()) or "no fields"
    raise InvalidInput(f"{field}.role is missing ({shown}): {GIVE}")
    yield
