"""
Read one part of a provider's message as a part of memdb's vocabulary.

`READERS` has a function for each `type` of OpenAI (chat and Responses), Anthropic
and LangChain, for each `part_kind` of Pydantic AI; `GEMINI` and `BEDROCK` for each key
of their parts. A type that is in none of them becomes an `other` part with a warning.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any

from memdb.text.parts import (
    KINDS,
    MEDIA,
    bytes_of,
    is_opaque,
    json_text,
    kind_of,
    text_of,
    text_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Part = dict[str, Any]

EMPTY = "empty message"  # the kind of the part in place of a message without words
SOUND_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}

# Types without a part of their own in the vocabulary, by the provider that has them.
PROVIDER_ONLY = {
    "anthropic": (
        "server_tool_use mcp_tool_use mcp_tool_result web_search_tool_result compaction "
        "web_fetch_tool_result code_execution_tool_result bash_code_execution_tool_result "
        "text_editor_code_execution_tool_result tool_search_tool_result search_result "
        "container_upload web_search_result code_execution_result tool_reference attachment"
    ),
    "openai-responses": (
        "web_search_call file_search_call code_interpreter_call mcp_call mcp_list_tools "
        "mcp_approval_request mcp_approval_response item_reference compaction "
        "tool_search_call tool_search_output"
    ),
    "langchain": "server_tool_call server_tool_call_chunk server_tool_result remove",
    "gemini": "executable_code code_execution_result tool_call tool_response",
    "pydantic-ai": "builtin-tool-call builtin-tool-return native-tool-call native-tool-return",
}
_ONLY = {kind for kinds in PROVIDER_ONLY.values() for kind in kinds.split()} - KINDS


def read_part(block: Any) -> Part:
    """
    Return *block* as a part: unchanged if it is one, else what it says in memdb's words.

    >>> read_part({"type": "tool_use", "id": "t1", "name": "now", "input": {"zone": "UTC"}})
    {'type': 'tool_call', 'id': 't1', 'name': 'now', 'arguments': {'zone': 'UTC'}}
    """
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return other("", block, f"a part is {type(block).__name__}, not an object")
    kind = kind_of(block) or text_value(block.get("part_kind")) or text_value(block.get("kind"))
    if not kind:
        kind = next((key for key in _BY_KEY if block.get(key) is not None), "")
        found = _BY_KEY[kind](block) if kind else None
    elif kind in READERS:
        found = READERS[kind](block)
    elif kind.endswith("_call") and "call_id" in block and kind not in _ONLY:
        rest = {key: block[key] for key in block if key not in _CALL_FIELDS}
        found = _call(block["call_id"], kind.removesuffix("_call"), rest)
    elif kind.endswith("_call_output"):
        found = _result(block.get("call_id") or block.get("id"), block.get("output"))
    else:
        found = None
    if found is not None:
        if found is block or not found.keys() <= _NOWHERE:
            return found
        return other(kind, block, f"the {kind} has neither bytes nor a link")
    if kind in _ONLY or (kind in _BY_KEY and kind_of(block) == ""):
        return other(kind, block)
    kind = kind or text_value(block.get("content_type"))
    return other(kind, block, f"memdb does not know the part type {kind!r}")


# Fields of media that were read without their bytes, or a link to them, or a name.
_NOWHERE = frozenset(("type", "media_type"))


def other(kind: str, data: Any, warning: str = "") -> Part:
    """Return a part that keeps *data* whole, for content without a part type of memdb."""
    part: Part = {"type": "other", "kind": kind or "unknown", "data": data}
    return {**part, "warning": warning} if warning else part


def is_providers(part: Any) -> bool:
    """Return whether *part*, of no type of memdb's, is known as a provider's."""
    kind = kind_of(part)
    if not isinstance(part, dict):
        return False
    if not kind:
        is_gemini = part.keys() <= _GEMINI_FIELDS and not GEMINI.keys().isdisjoint(part)
        return is_gemini or "part_kind" in part or is_bedrocks(part)
    return kind in READERS or kind in _ONLY or kind.endswith(("_call", "_call_output"))


_CALL_FIELDS = frozenset(("type", "id", "call_id", "status"))


def _text(block: Part) -> Part | None:
    text = block.get("text", block.get("content"))
    return {"type": "text", "text": text} if isinstance(text, str) else None


def _refusal(block: Part) -> Part | None:
    text = block.get("refusal")
    return {"type": "text", "text": text, "refusal": True} if isinstance(text, str) else None


def _thinking(block: Part) -> Part:
    text = block.get("thinking", block.get("reasoning", block.get("text", block.get("content"))))
    if not isinstance(text, str):
        fields = ("thinking", "summary", "content")
        found = [one for field in fields for one in _listed(block.get(field))]
        text = text_of([read_part(one) for one in found])
    return {"type": "thinking", "text": text}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _call(call_id: Any, name: Any, arguments: Any) -> Part:
    part: Part = {"type": "tool_call", "id": text_value(call_id), "name": text_value(name)}
    part["arguments"] = arguments if isinstance(arguments, (str, dict)) else json_text(arguments)
    missing = [field for field in ("id", "name") if not part[field]]
    if missing:
        part["warning"] = f"the tool call has no {' and no '.join(missing)}"
    elif isinstance(arguments, str) and arguments.strip() and not _is_object(arguments):
        part["warning"] = "the arguments of the tool call are not a JSON object"
    return part


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _result(call_id: Any, content: Any, *, name: Any = None, error: bool = False) -> Part:
    part: Part = {"type": "tool_result", "tool_call_id": text_value(call_id)}
    if isinstance(name, str) and name:
        part["name"] = name
    part["content"] = _content(content)
    if error:
        part["is_error"] = True
    if not part["tool_call_id"]:
        part["warning"] = "the tool result names no call"
    return part


def _content(content: Any) -> Any:
    """Return what a tool gave: a text, parts where there is more than text, or a JSON value."""
    if isinstance(content, dict) and kind_of(content) in READERS:
        content = [content]
    if isinstance(content, str) and content.startswith("data:image/") and is_opaque(content):
        return [media("image", content)]
    if not isinstance(content, list) or not all(_is_block(one) for one in content):
        return content if isinstance(content, (str, dict, list)) else json_text(content)
    parts = [read_part(one) for one in content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and bool(kind_of(value) or value.get("kind"))


def _tool_call(block: Part) -> Part:
    if "args" not in block:
        return block
    return _call(block.get("id"), block.get("name"), block["args"])


def _tool_result(block: Part) -> Part:
    if "tool_use_id" not in block:
        return block
    error = bool(block.get("is_error"))
    return _result(block["tool_use_id"], block.get("content", ""), error=error)


def _function(block: Part) -> Part:
    """Return an entry of `tool_calls` in OpenAI's chat messages."""
    told = block.get("function", block.get("custom"))
    told = told if isinstance(told, dict) else {}
    return _call(block.get("id"), told.get("name"), told.get("arguments", told.get("input")))


def _file(block: Part) -> Part:
    told = block.get("file")
    if not isinstance(told, dict):
        return _media(block)
    return media("file", told.get("file_data"), name=told.get("filename"), holder=told)


def media(
    kind: str, source: Any = None, mime: Any = None, *, name: Any = None, holder: Part | None = None
) -> Part:
    """
    Return an image, audio or file part.

    Args:
        source: A link, a `data:` link, or base64.
        mime: Its media type, if the link does not say it.
        name: What a person calls it.
        holder: Where else `file_id` and a description stand.
    """
    part: Part = {"type": kind}
    text = text_value(source)
    head, comma, data = text.partition(";base64,") if text.startswith("data:") else ("", "", text)
    if comma:
        part |= {"base64": _standard(data), "media_type": head.removeprefix("data:")}
    elif "://" in text[:16] or text.startswith("data:"):
        part["url"] = text
    elif text:
        part["base64"] = _standard(text)
    mime = mime or next(
        (found for start, found in _SIGNATURES.items() if part.get("base64", "").startswith(start)),
        None,
    )
    if isinstance(mime, str) and mime:
        part.setdefault("media_type", mime)
    file_id = (holder or {}).get("file_id")
    if isinstance(file_id, str):
        part["file_id"] = file_id
    if isinstance(name, str) and name:
        part["name"] = name
    return part


# How base64 begins, of the images that say no media type.
_SIGNATURES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


def _standard(base64: str) -> str:
    """Return base64 in the alphabet that all providers take."""
    return base64.replace("-", "+").replace("_", "/")


HEADER_CHARS = 1 << 17  # of base64: the size of a JPEG stands behind its thumbnail
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of a JPEG with its size


def measured(part: Any) -> Any:
    """Return a part with the size of its image, its pages or its seconds, if its bytes say them."""
    kind = kind_of(part)
    if kind == "tool_result" and isinstance(part.get("content"), list):
        return {**part, "content": [*map(measured, part["content"])]}
    data = bytes_of(part) if kind in MEDIA else ""
    found: dict[str, int] = {}
    if kind == "image" and data:
        found["width"], found["height"] = _image_size(_decoded(data[:HEADER_CHARS]))
    elif kind == "audio" and data:
        rate = _sound_rate(_decoded(data[:64]))
        found["seconds"] = -(-len(data) * 3 // 4 // rate) if rate else 0
    elif data and text_value(part.get("media_type")).endswith("pdf"):
        found["pages"] = len(_PAGE.findall(_decoded(data)))
    found = {name: number for name, number in found.items() if number and name not in part}
    return {**part, **found} if found else part


def _decoded(base64: str) -> bytes:
    try:
        return a2b_base64(base64[: len(base64) & ~3])
    except ValueError:
        return b""


def _image_size(head: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, GIF, WebP or JPEG, (0, 0) of another."""
    if head.startswith(b"\x89PNG"):
        return _int(head[16:20], "big"), _int(head[20:24], "big")
    if head.startswith(b"GIF8"):
        return _int(head[6:8]), _int(head[8:10])
    return _webp_size(head) if head[8:15] == b"WEBPVP8" else _jpeg_size(head)


def _webp_size(head: bytes) -> tuple[int, int]:
    if head[15:16] == b"X":
        return _int(head[24:27]) + 1, _int(head[27:30]) + 1
    if head[15:16] == b"L":
        bits = _int(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return _int(head[26:28]) & 0x3FFF, _int(head[28:30]) & 0x3FFF


def _jpeg_size(head: bytes) -> tuple[int, int]:
    place = 2 if head[:2] == b"\xff\xd8" else len(head)
    while head[place : place + 1] == b"\xff":
        if head[place + 1] in _FRAMES:
            height, width = head[place + 5 : place + 7], head[place + 7 : place + 9]
            return _int(width, "big"), _int(height, "big")
        place += 2 + _int(head[place + 2 : place + 4], "big")
    return 0, 0


def _int(data: bytes, order: Any = "little") -> int:
    return int.from_bytes(data, order)


def _sound_rate(head: bytes) -> int:
    """Return the bytes per second that the header of a WAV file says, 0 for another."""
    is_wave = head.startswith(b"RIFF") and head[12:16] == b"fmt "
    return _int(head[28:32]) if is_wave else 0


def _source(block: Part, kind: str) -> Part:
    """Return an image or document of Anthropic."""
    source = block.get("source")
    if not isinstance(source, dict):
        return _media(block)
    found = source.get("data", source.get("url"))
    name = block.get("title")
    if source.get("type") in ("text", "content"):
        content = source.get("data", source.get("content"))
        text = content if isinstance(content, str) else text_of([*map(read_part, _listed(content))])
        return {**media(kind, "", source.get("media_type"), name=name), "text": text}
    return media(kind, found, source.get("media_type"), name=name, holder=source)


def _media(block: Part) -> Part:
    """Return media as memdb and LangChain have them: `url`, `base64` or `data`, and a type."""
    kind = kind_of(block) or text_value(block.get("kind"))
    kind = kind if kind in MEDIA else "file"
    if not _MEDIA_FIELDS.intersection(block):
        return block if kind_of(block) in MEDIA else media(kind, block.get("url"))
    fields = ("base64", "data", "image", "url", "uri")
    source = next((block[field] for field in fields if block.get(field)), None)
    mime = next((block[field] for field in _MIME_FIELDS if block.get(field)), None)
    if block.keys() <= _OWN_MEDIA_FIELDS and kind_of(block) in MEDIA:
        return block
    name = block.get("name") or block.get("filename")
    if kind == "file" and isinstance(mime, str) and mime.partition("/")[0] in MEDIA:
        kind = mime.partition("/")[0]
    return media(kind, source, mime, name=name, holder=block)


_MIME_FIELDS = ("media_type", "mime_type", "mimeType", "mediaType")
_MEDIA_FIELDS = {"base64", "mime_type", "source_type", "data", "file_id", "image", "mimeType"}
_OWN_MEDIA_FIELDS = frozenset(
    "type url base64 media_type name file_id text warning mime_type uri width height pages "
    "seconds".split()
)


def _text_file(block: Part) -> Part:
    text = text_value(block.get("text"))
    return {**media("file", block.get("url"), block.get("mime_type"), name=block.get("title")),
            "text": text}  # fmt: skip


def _image_url(block: Part) -> Part:
    told = block.get("image_url")
    link = told.get("url") if isinstance(told, dict) else told
    return media("image", link, holder=block)


def _input_file(block: Part) -> Part:
    source = block.get("file_data") or block.get("file_url")
    return media("file", source, name=block.get("filename"), holder=block)


def _sound(block: Part) -> Part:
    told = block.get("input_audio")
    told = told if isinstance(told, dict) else {}
    return media("audio", told.get("data"), SOUND_TYPES.get(text_value(told.get("format"))))


def _custom_call(block: Part) -> Part:
    part = _call(block.get("call_id"), block.get("name"), block.get("input"))
    part.pop("warning", None) if part["id"] and part["name"] else None
    return part


def _image_call(block: Part) -> Part:
    part = media("image", block.get("result"), "image/png")
    return {**part, "text": text_value(block.get("revised_prompt"))}


def is_bedrocks(block: Any) -> bool:
    """Return whether *block* is one of the Converse API of Bedrock, and no plain text."""
    return isinstance(block, dict) and "type" not in block and not BEDROCK.keys().isdisjoint(block)


def _bedrock_result(block: Part) -> Part:
    told = _object(block["toolResult"])
    blocks = _listed(told.get("content"))
    given = [one["json"] if "json" in _object(one) else read_part(one) for one in blocks]
    error = told.get("status") == "error"
    part = _result(told.get("toolUseId"), "", error=error)
    if len(given) == 1 and kind_of(given[0]) not in KINDS:
        return {**part, "content": given[0] if isinstance(given[0], dict) else json_text(given[0])}
    shown = [
        one if kind_of(one) in KINDS else {"type": "text", "text": json_text(one)} for one in given
    ]
    is_text = all(one["type"] == "text" for one in shown)
    return {**part, "content": "\n".join(one["text"] for one in shown) if is_text else shown}


def _bedrock_call(block: Part) -> Part:
    told = _object(block["toolUse"])
    return _call(told.get("toolUseId"), told.get("name"), told.get("input") or {})


def _bedrock_media(kind: str) -> Callable[[Part], Part]:
    def read(block: Part) -> Part:
        told = next((_object(block[key]) for key in BEDROCK if key in block), {})
        source, mime = _object(told.get("source")), text_value(told.get("format"))
        data = source.get("bytes")
        if isinstance(data, dict):  # Strands marks what it made text of
            data = data.get("data")
        where = source.get("s3Location", source.get("location"))
        link = data or _object(where).get("uri")
        part = media(kind, link, _bedrock_type(kind, mime), name=told.get("name"))
        return {**part, "text": source["text"]} if isinstance(source.get("text"), str) else part

    return read


def _bedrock_type(kind: str, name: str) -> str:
    """Return the media type of a `format`; "" for none."""
    if not name:
        return ""
    return guess_type(f"x.{name}")[0] or f"{kind if kind in ('image', 'audio') else 'video'}/{name}"


def _bedrock_thought(block: Part) -> Part:
    told = _object(_object(block["reasoningContent"]).get("reasoningText"))
    return {"type": "thinking", "text": text_value(told.get("text"))}


def _bedrock_guarded(block: Part) -> Part | None:
    return _text(_object(_object(block["guardContent"]).get("text")))


def _bedrock_cited(block: Part) -> Part:
    told = _listed(_object(block["citationsContent"]).get("content"))
    return {"type": "text", "text": text_of([*map(read_part, told)])}


def _object(value: Any) -> Part:
    return value if isinstance(value, dict) else {}


def _gemini_text(block: Part) -> Part | None:
    text = block.get("text")
    if not isinstance(text, str):
        return None
    return {"type": "thinking" if block.get("thought") else "text", "text": text}


def _gemini_call(block: Part) -> Part:
    told = block["function_call"] if isinstance(block["function_call"], dict) else {}
    return _call(told.get("id"), told.get("name"), told.get("args") or {})


def _gemini_result(block: Part) -> Part:
    told = block["function_response"] if isinstance(block["function_response"], dict) else {}
    given = told.get("response")
    error = isinstance(given, dict) and "error" in given
    if isinstance(given, dict) and len(given) == 1:
        ((key, value),) = given.items()
        if key in ("result", "output", "error") and isinstance(value, str):
            given = value
    shown = [read_part(one) for one in _listed(told.get("parts"))]
    content = [{"type": "text", "text": json_text(given)}, *shown] if shown else given or ""
    part = _result(told.get("id"), "", name=told.get("name"), error=error)
    return {**part, "content": content}


def _gemini_data(field: str, source: str) -> Callable[[Part], Part]:
    def read(block: Part) -> Part:
        told = block[field] if isinstance(block[field], dict) else {}
        mime = text_value(told.get("mime_type", told.get("mimeType")))
        kind = mime.partition("/")[0]
        kind = kind if kind in MEDIA else "file"
        part = media(kind, "", mime, name=told.get("display_name"))
        data = text_value(told.get(source))
        if source == "data":
            data = _standard(data)
        return {**part, "base64" if source == "data" else "url": data}

    return read


def _pydantic_result(block: Part) -> Part | None:
    if "part_kind" not in block:
        return None
    error = block.get("part_kind") == "retry-prompt"
    return _result(
        block.get("tool_call_id"), block.get("content"), name=block.get("tool_name"), error=error
    )


def _pydantic_call(block: Part) -> Part | None:
    if "part_kind" not in block:
        return None
    return _call(block.get("tool_call_id"), block.get("tool_name"), block.get("args"))


def _pydantic_file(block: Part) -> Part | None:
    content = block.get("content")
    return read_part(content) if isinstance(content, dict) else None


def _unchanged(block: Part) -> Part:
    return block


READERS: dict[str, Callable[[Part], Part | None]] = {
    **dict.fromkeys(("text", "input_text", "output_text", "summary_text"), _text),
    "refusal": _refusal,
    "text-plain": _text_file,
    **dict.fromkeys(
        ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "reasoning_content"),
        _thinking,
    ),
    "tool_call": _tool_call,
    "tool_use": lambda block: _call(block.get("id"), block.get("name"), block.get("input")),
    "function": _function,
    "custom": _function,
    "invalid_tool_call": lambda block: {
        **_call(block.get("id"), block.get("name"), block.get("args")),
        "warning": text_value(block.get("error")) or "the tool call is invalid",
    },
    "function_call": lambda block: _call(
        block.get("call_id"), block.get("name"), block.get("arguments")
    ),
    "custom_tool_call": _custom_call,
    "tool_result": _tool_result,
    "image": lambda block: _source(block, "image"),
    "document": lambda block: _source(block, "file"),
    "image_url": _image_url,
    **dict.fromkeys(("input_image", "computer_screenshot"), _image_url),
    "input_file": _input_file,
    "input_audio": _sound,
    "image_generation_call": _image_call,
    **dict.fromkeys(("audio", "video", "media", "binary"), _media),
    **dict.fromkeys(("document-url", "video-url"), lambda b: media("file", b.get("url"))),
    "image-url": lambda block: media("image", block.get("url")),
    "audio-url": lambda block: media("audio", block.get("url")),
    "file": lambda block: _pydantic_file(block) if "part_kind" in block else _file(block),
    "non_standard": lambda block: read_part(block.get("value")),
    "tool-call": _pydantic_call,
    "tool-return": _pydantic_result,
    "retry-prompt": _pydantic_result,
    "other": _unchanged,
    "original": _unchanged,
}

# A part of Gemini has no type: one of these keys says what it is.
GEMINI: dict[str, Callable[[Part], Part | None]] = {
    "function_call": _gemini_call,
    "function_response": _gemini_result,
    "inline_data": _gemini_data("inline_data", "data"),
    "file_data": _gemini_data("file_data", "file_uri"),
    "executable_code": lambda _: None,
    "code_execution_result": lambda _: None,
    "tool_call": lambda _: None,
    "tool_response": lambda _: None,
    "text": _gemini_text,
}
_GEMINI_FIELDS = {*GEMINI, "thought", "thought_signature", "video_metadata", "part_metadata"}

# So it is with a block of Bedrock's Converse API, and of Strands.
BEDROCK: dict[str, Callable[[Part], Part | None]] = {
    "toolUse": _bedrock_call,
    "toolResult": _bedrock_result,
    "image": _bedrock_media("image"),
    "document": _bedrock_media("file"),
    "video": _bedrock_media("file"),
    "audio": _bedrock_media("audio"),
    "reasoningContent": _bedrock_thought,
    "guardContent": _bedrock_guarded,
    "citationsContent": _bedrock_cited,
    "cachePoint": lambda _: None,
}
_BY_KEY = {**BEDROCK, **GEMINI}
