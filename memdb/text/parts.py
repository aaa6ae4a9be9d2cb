"""
Parts of messages: what each reads as, and the original message that they come from.

docs/parts.md has the vocabulary; `memdb.models.types` types it. A message that a
provider's package made also keeps its `original` part: the whole message as that
provider's JSON. What its other parts hold stands there as a pointer,
`{"$": [place, field]}`, so nothing is stored twice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Part = dict[str, Any]

MEDIA = frozenset(("image", "audio", "file"))
KINDS = MEDIA | {"text", "thinking", "tool_call", "tool_result", "other", "original"}
ORIGINAL = "original"

# A pointer takes about so many characters: shorter texts stand in both places.
MIN_SHARED_CHARS = 24
POINTER = "$"
SHARED_FIELDS = ("text", "arguments", "content", "base64", "url", "data")

# Fields of an unknown part that say nothing to a person.
SILENT_FIELDS = frozenset(
    "id type part_kind object role status signature thought_signature cache_control index "
    "content_type media_type mime_type".split()
)
MAX_WORD_CHARS = 200  # a longer run without a blank is base64 or encrypted


def text_of(parts: Sequence[Any]) -> str:
    r"""
    Return what *parts* read as, a line per part.

    >>> text_of([{"type": "tool_call", "name": "read", "arguments": '{"path": "a"}'}])
    'read({"path": "a"})'
    >>> text_of([{"type": "image", "name": "a.png"}, {"type": "sticker", "label": "hi"}])
    '[image: a.png]\n[sticker] hi'
    """
    return "\n".join(text for text in map(part_text, parts) if text)


def payload_of(parts: Sequence[Any]) -> str:
    """Return the text of the parts that are no texts: calls, results, media and others."""
    return text_of([part for part in parts if kind_of(part) != "text"])


def kind_of(part: Any) -> str:
    """Return the type of a part, "" if it has none."""
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def part_text(part: Any) -> str:  # noqa: PLR0911 (a line per type)
    """Return what one part reads as; only `original`, and a part without content, give ""."""
    kind = kind_of(part)
    if kind == ORIGINAL:
        return ""
    if kind == "text":
        return text_value(part.get("text"))
    if kind == "tool_call":
        return f"{text_value(part.get('name'))}({json_text(part.get('arguments'))})"
    if kind == "tool_result":
        return content_text(part.get("content")) or "[tool_result]"
    if kind == "thinking":
        return f"[thinking] {text_value(part.get('text'))}".rstrip()
    if kind in MEDIA:
        return _media_text(part, kind)
    if kind == "other":
        return f"[{text_value(part.get('kind')) or 'other'}] {words_in(part.get('data'))}".rstrip()
    if isinstance(part, dict):
        kind = kind or text_value(part.get("content_type")) or "other"
        return f"[{kind}] {words_in(part)}".rstrip()
    return part if isinstance(part, str) else words_in(part)


def warnings_of(parts: Sequence[Any]) -> tuple[str, ...]:
    """Return what was not understood of *parts*, a sentence each."""
    found = []
    for part in parts:
        if isinstance(part, dict) and part.get("warning"):
            found.append(str(part["warning"]))
        elif kind_of(part) not in KINDS:
            found.append(f"memdb does not know the part type {kind_of(part)!r}")
    return tuple(found)


def content_text(content: Any) -> str:
    """Return what a tool gave as text: a text, parts, or any other JSON value."""
    if isinstance(content, list) and content and all(kind_of(part) in KINDS for part in content):
        return text_of(content)
    return json_text(content)


def _media_text(part: Part, kind: str) -> str:
    """Return `[image: name]`, and the words of a transcript or document behind it."""
    link = text_value(part.get("url")) or text_value(part.get("uri"))
    name = text_value(part.get("name")) or ("" if link.startswith("data:") else link)
    label = f"[{kind}: {name}]" if name else f"[{kind}]"
    return f"{label} {text_value(part.get('text'))}".rstrip()


def words_in(value: Any) -> str:
    """Return the texts and numbers in a JSON value that a person can read, in order."""
    return " ".join(_words(value))


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        text = value.strip()
        if text and (len(text) <= MAX_WORD_CHARS or max(map(len, text.split())) <= MAX_WORD_CHARS):
            yield text
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in SILENT_FIELDS and not str(key).endswith(("_id", "Id", "_content")):
                yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def json_text(value: Any) -> str:
    """Return a text as it is, None as "", any other JSON value as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""  # no JSON: the message is refused when its parts are stored


def text_value(value: Any) -> str:
    """Return *value* if it is a text, else ""."""
    return value if isinstance(value, str) else ""


def without_original(parts: Iterable[Any]) -> list[Any]:
    """Return *parts* without the provider's original, for a message that was changed."""
    return [part for part in parts if kind_of(part) != ORIGINAL]


def parts_with_text(parts: Iterable[Any], text: str) -> list[Any]:
    """Return parts without the original; first the *text* that stands beside them, if one does."""
    plain = without_original(parts)
    has_text = any(kind_of(part) == "text" for part in plain)
    is_beside = not has_text and text != text_of(plain)
    return [{"type": "text", "text": text}, *plain] if is_beside else plain


def original_part(provider: str, data: Any, parts: Sequence[Part]) -> Part:
    """Return the part that keeps *data*, a message of *provider*, beside the *parts* read of it."""
    part = {"type": ORIGINAL, "provider": provider}
    shared: dict[Any, list[Any]] = {}
    ends: list[tuple[str, list[Any]]] = []
    for place, one in enumerate(parts):
        for field in SHARED_FIELDS:
            value = one.get(field)
            if isinstance(value, (dict, list)) and value:
                shared[id(value)] = [place, field]
            elif isinstance(value, str) and len(value) >= MIN_SHARED_CHARS:
                shared.setdefault(value, [place, field])
                if field == "base64":
                    ends.append((value, [place, field]))
    if not shared or _has_pointer(data):
        return {**part, "whole": data}
    return {**part, "data": _pointed(data, shared, ends)}


def _pointed(  # noqa: PLR0911 (a line per type of JSON)
    value: Any, shared: dict[Any, list[Any]], ends: list[tuple[str, list[Any]]]
) -> Any:
    """Return *value* with pointers in the place of what *shared* has: texts, objects by id."""
    if isinstance(value, str):
        if value in shared:
            return {POINTER: shared[value]}
        if value.startswith("data:"):
            for end, place in ends:
                if value.endswith(f",{end}"):
                    return {POINTER: [*place, value[: -len(end)]]}
        return value
    if isinstance(value, (dict, list)) and id(value) in shared:
        return {POINTER: shared[id(value)]}
    if isinstance(value, dict):
        return {key: _pointed(inner, shared, ends) for key, inner in value.items()}
    if isinstance(value, list):
        return [_pointed(inner, shared, ends) for inner in value]
    return value


def _has_pointer(value: Any) -> bool:
    if isinstance(value, dict):
        return POINTER in value or any(map(_has_pointer, value.values()))
    return isinstance(value, list) and any(map(_has_pointer, value))


def original_of(parts: Sequence[Any] | None, *providers: str) -> Any | None:
    """Return the original of one of *providers* that *parts* keep; None without one."""
    for part in parts or ():
        if kind_of(part) == ORIGINAL and part.get("provider") in providers:
            if "whole" in part:
                return part["whole"]
            try:
                return _filled(part.get("data"), parts or ())
            except (LookupError, TypeError, ValueError):
                return None  # a host changed the parts and left the original
    return None


def _filled(value: Any, parts: Sequence[Any]) -> Any:
    if isinstance(value, dict):
        if POINTER in value:
            place, field, *before = value[POINTER]
            found = parts[place][field]
            return before[0] + found if before else found
        return {key: _filled(inner, parts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, parts) for inner in value]
    return value
