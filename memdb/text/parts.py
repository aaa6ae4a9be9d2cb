"""
Parts of messages: the text of each, and its cost besides the text.

docs/parts.md defines the parts; `memdb.models.types` has their types. Content without text (images,
pages, sound, and bytes that only a model reads) costs tokens by the rules of the providers, which
are estimates. Without a provider's counter, an image costs as much as the most expensive of their
rules says. `Settings` has the numbers that can be set.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.text.resources import compiled
from memdb.text.sanitize import visible

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from memdb.models.settings import Settings

    Part = dict[str, Any]

MEDIA = frozenset(("image", "audio", "file"))
KINDS = MEDIA | {"text", "thinking", "tool_call", "tool_result", "other", "original"}
ORIGINAL = "original"

# Fields of an unknown part that say nothing to a person.
SILENT_FIELDS = frozenset(
    "id type part_kind object role status signature thought_signature cache_control index "
    "content_type media_type mime_type".split()
)
MAX_WORD_CHARS = 200  # a longer run without a blank is base64 or encrypted

USUAL_IMAGE_TOKENS = 1_600  # of an image whose size is unknown, such as a link
CHARS_PER_TOKEN = 4
BYTES_PER_PAGE = 50_000  # of a PDF whose pages are compressed
BYTES_PER_SECOND = 4_000  # of sound that says no rate; speech is rarely compressed further
# Escapes of JSON, several of them at once: letters beyond U+FFFF are two.
_ESCAPES = r'\\(?:["\\/]|([bfnrt]|u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*))'

_PLACES = ("base64", "url", "uri", "file_id")


def text_of(parts: Sequence[Any]) -> str:
    r"""
    Return the text of *parts*, one line per part.

    >>> text_of([{"type": "tool_call", "name": "read", "arguments": '{"path": "a"}'}])
    'read({"path": "a"})'
    >>> text_of([{"type": "image", "name": "a.png"}, {"type": "sticker", "label": "hi"}])
    '[image: a.png]\n[sticker] hi'
    """
    return "\n".join(text for text in map(part_text, parts) if text)


def payload_of(parts: Sequence[Any]) -> str:
    """Return the text of the parts that are not texts: calls, results, media and others."""
    return text_of([part for part in parts if kind_of(part) != "text"])


def whole_text(text: str, parts: Sequence[Any] | None) -> str:
    r"""
    Return a message's text with the calls, results and media that it lacks; this is counted.

    >>> whole_text("Look.", [{"type": "tool_result", "content": "Look"}])
    'Look.\nLook'
    """
    if not parts or text == text_of(parts):
        return text
    return "\n".join(filter(None, (text, payload_of(parts))))


def kind_of(part: Any) -> str:
    """Return the type of a part, "" if it has none."""
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def part_text(part: Any) -> str:  # noqa: PLR0911 (a line per type)
    """Return the text of one part; "" only for `original` and for a part without content."""
    kind = kind_of(part)
    if kind == ORIGINAL:
        return ""
    if kind == "text":
        return text_value(part.get("text"))
    if kind == "tool_call":
        arguments = readable(json_text(part.get("arguments")))
        return f"{text_value(part.get('name'))}({arguments})"
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


def warnings_of(parts: Sequence[Any], text: str = "") -> tuple[str, ...]:
    """Return the warnings of a message with these *parts*, a sentence each."""
    found = []
    if "\ufffd" in text or "\ufffd" in payload_of(parts):
        found.append("U+FFFD replaces a character that no file can hold")
    for part in parts:
        if isinstance(part, dict) and part.get("warning"):
            found.append(str(part["warning"]))
        elif kind_of(part) not in KINDS:
            found.append(f"memdb does not know the part type {kind_of(part)!r}")
    return tuple(found)


def content_text(content: Any) -> str:
    """Return the result of a tool as text: a text, parts, or any other JSON value."""
    if isinstance(content, list) and content and all(kind_of(part) in KINDS for part in content):
        return readable(text_of(content))
    return readable(json_text(content))


def readable(text: str) -> str:
    r"""
    Return a program's output as a person reads it, without colours and JSON escapes.

    In JSON a line break can be written as backslash and n, and a letter as u5f35 with a backslash.
    Both escapes are decoded, so that search and forgetting see words. Quotes and backslashes stay
    escaped.

    >>> readable(r'["Hi\nZo\u00eb", "C:\\new"]').splitlines()
    ['["Hi', 'Zoë", "C:\\\\new"]']
    """
    if "\x1b" in text:
        text = visible(text)
    if "\\" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    return compiled(_ESCAPES).sub(_unescape, text)


def _unescape(found: re.Match[str]) -> str:
    if found[1] is None:  # a quote or a backslash
        return found[0]
    plain: str = json.loads(f'"\\{found[1]}"')
    return found[0] if any("\ud800" <= one <= "\udfff" or one < "\t" for one in plain) else plain


def _media_text(part: Part, kind: str) -> str:
    """Return `[image: name]`, followed by the words of a transcript or document."""
    link = text_value(part.get("url")) or text_value(part.get("uri"))
    name = text_value(part.get("name")) or ("" if link.startswith("data:") else link)
    label = f"[{kind}: {name}]" if name else f"[{kind}]"
    return f"{label} {text_value(part.get('text'))}".rstrip()


def words_in(value: Any) -> str:
    """
    Return the texts and numbers in a JSON value that a person can read, in order.

    >>> words_in({"id": "x1", "callId": "c1", "said": [{"note": "tea", "count": 3}, True]})
    'tea 3'
    """
    return " ".join(_words(value))


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        text = value.strip()
        if text and not is_opaque(text):
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


def is_opaque(text: str) -> bool:
    """Return whether *text* is base64 or encrypted: a run of ASCII that is too long for a word."""
    if len(text) <= MAX_WORD_CHARS or not text.isascii():
        return False
    return max(map(len, text.split()), default=0) > MAX_WORD_CHARS


def json_text(value: Any) -> str:
    """Return a text unchanged, None as "", and any other JSON value as JSON."""
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


def media_of(parts: Sequence[Any] | None) -> Iterator[Part]:
    """Yield the images, sounds and files in *parts* that contain or name bytes, in order."""
    for part in parts or ():
        kind = kind_of(part)
        if kind in MEDIA and any(map(part.get, _PLACES)):
            yield part
        elif kind == "tool_result" and isinstance(part.get("content"), list):
            yield from media_of(part["content"])


def bytes_of(part: Part) -> str:
    """Return the base64 text in a part, "" for a link."""
    link = text_value(part.get("url")) or text_value(part.get("uri"))
    held = link.partition(",")[2] if link.startswith("data:") else ""
    return text_value(part.get("base64")) or held


def extra_tokens(parts: Sequence[Any] | None, settings: Settings, counter: str = "") -> int:
    """
    Return the tokens of *parts* besides those of their text.

    Args:
        settings: Have the numbers.
        counter: The counter's name; "claude", "gemini" and "o200k_base" choose their provider's
            rule.
    """
    media = [*media_of(parts)]
    tokens = sum(media_tokens(part, settings, counter) for part in media)
    unread = [
        part.get("data", part.get("whole"))
        for part in parts or ()
        if kind_of(part) in ("other", ORIGINAL)
    ]
    known = {bytes_of(part) for part in media} if unread else set()
    return tokens + sum(_opaque_chars(value, known) for value in unread) // CHARS_PER_TOKEN


def media_tokens(part: Part, settings: Settings, counter: str = "") -> int:
    """Return the tokens of an image, a sound or a file from its measured size."""
    kind, length = kind_of(part), len(bytes_of(part)) * 3 // 4
    if kind == "image":
        width, height = part.get("width"), part.get("height")
        if settings.image_tokens is not None:
            return settings.image_tokens
        if not (isinstance(width, int) and isinstance(height, int) and min(width, height) > 0):
            return USUAL_IMAGE_TOKENS
        rules = [_RULES[counter]] if counter in _RULES else _RULES.values()
        return max(rule(width, height) for rule in rules)
    if kind == "audio":
        seconds = part.get("seconds")
        return settings.sound_tokens * _whole(seconds, -(-length // BYTES_PER_SECOND))
    mime = text_value(part.get("media_type")) or text_value(part.get("mime_type"))
    if length and not mime.endswith("pdf"):
        return length // CHARS_PER_TOKEN
    return settings.page_tokens * _whole(part.get("pages"), max(-(-length // BYTES_PER_PAGE), 1))


def _whole(value: Any, usual: int) -> int:
    return value if isinstance(value, int) and value > 0 else usual


def without_media(parts: Sequence[Any], kept: Collection[int] = ()) -> list[Any]:
    """Return *parts* without the original; media whose `id` is not in *kept* become labels."""
    found: list[Any] = []
    for part in without_original(parts):
        kind = kind_of(part)
        if kind in MEDIA and id(part) not in kept:
            found.append({"type": "text", "text": part_text(part)})
        elif kind == "tool_result" and isinstance(part.get("content"), list):
            found.append({**part, "content": without_media(part["content"], kept)})
        else:
            found.append(part)
    return found


def _opaque_chars(value: Any, known: Collection[str]) -> int:
    """Return the number of characters in a JSON value that are in no text of the message."""
    if isinstance(value, str):
        is_known = not is_opaque(value) or value.rpartition(",")[2] in known
        return 0 if is_known else len(value)
    if isinstance(value, dict):
        value = [*value.values()]
    return sum(_opaque_chars(one, known) for one in value) if isinstance(value, list) else 0


# Source: https://docs.claude.com/en/docs/build-with-claude/vision (750 pixels per token, at
# most 1,568 pixels on a side and about 1,600 tokens).
def _by_anthropic(width: int, height: int) -> int:
    scale = min(1.0, 1568 / max(width, height))
    return min(-(-int(width * scale * height * scale) // 750), USUAL_IMAGE_TOKENS)


# Source: https://platform.openai.com/docs/guides/images-vision (85 and 170 per tile of 512
# pixels, after fitting into 2,048 pixels and 768 on the short side).
def _by_openai(width: int, height: int) -> int:
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return 85 + 170 * _tiles(width * scale, height * scale, 512)


# Source: https://ai.google.dev/gemini-api/docs/image-understanding (258 per tile).
def _by_gemini(width: int, height: int) -> int:
    if max(width, height) <= 384:  # noqa: PLR2004 (of the source)
        return 258
    return 258 * _tiles(width, height, min(max(min(width, height) // 1.5, 256), 768))


def _tiles(width: float, height: float, side: float) -> int:
    return int(-(-width // side) * -(-height // side))


_RULES: dict[str, Callable[[int, int], int]] = {
    "claude": _by_anthropic,
    "o200k_base": _by_openai,
    "gemini": _by_gemini,
}
