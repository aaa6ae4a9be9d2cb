"""
Originals: the provider's own message, stored beside the parts read from it.

A message that a provider's package made keeps it as its last part, `original`: the whole message as
that provider's JSON. Content of its other parts is replaced there by a pointer, `{"$": [place,
field]}`, so nothing is stored twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.text.parts import ORIGINAL, kind_of, text_of, without_original

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.text.parts import Part

# A pointer takes about so many characters: shorter texts stand in both places.
MIN_SHARED_CHARS = 24
POINTER = "$"
SHARED_FIELDS = ("text", "arguments", "content", "base64", "url", "data")


def parts_with_text(parts: Iterable[Any], text: str) -> list[Any]:
    """Return parts without the original, preceded by the *text* beside them, if any."""
    plain = without_original(parts)
    has_text = any(kind_of(part) == "text" for part in plain)
    is_beside = not has_text and text != text_of(plain)
    return [{"type": "text", "text": text}, *plain] if is_beside else plain


def original_part(provider: str, data: Any, parts: Sequence[Part]) -> Part:
    """Return the part that stores *data*, a message of *provider*, beside its *parts*."""
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
    """Return *value* with pointers in place of values in *shared*: texts, objects by id."""
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
    """Return the original of one of *providers* in *parts*; None if there is none."""
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
