"""
Read an object of a provider's Python package as plain JSON, without importing the package.

An object gives its fields by `model_dump`, `to_dict`, `dict`, or as attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

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
_GEMINI_NESTED = frozenset(("inline_data", "file_data", "video_metadata"))


def plain_value(value: Any, field: str) -> Any:
    """
    Return *value* as JSON: dicts, lists, texts and numbers.

    Raises:
        InvalidInput: it is nested too deep, or a part of it has no JSON form.
    """
    if isinstance(value, (dict, list, tuple)):
        found = _plain(value, field, 0)
    else:
        found = _plain(_fields_of(value, field), field, 0)
    if isinstance(found, dict):
        return _gemini_names(found)
    return found


def _gemini_names(data: dict[str, Any]) -> dict[str, Any]:
    """Return *data* with the parts of Gemini named as its Python package names them."""
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
    """Return a plain str, int or float for one that is an enum's member."""
    return getattr(value, "value", value) if type(value) not in _SCALARS else value


_SCALARS = (str, bool, int, float, type(None))


def _fields_of(value: Any, field: str) -> Any:  # noqa: PLR0911 (a line per way)
    """Return what an object of a package holds, by the ways that packages offer."""
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
        raise InvalidInput(f"{field} is {type(value).__name__}: give a message of a provider")
    return {key: inner for key, inner in fields.items() if not key.startswith("_")}


def _dumped(dump: Callable[..., Any], field: str) -> Any:
    try:
        return dump(mode="json", exclude_none=True)
    except TypeError:
        return dump()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} has no JSON form ({error}): use plain values") from error
