"""
The files of data in the package, and JSON of memdb's own, without `pathlib` and `json`.

The two take 5 ms to load, mostly for `re`.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_bytes(module: str, name: str) -> bytes:
    """Return the file *name* beside a *module*, given as its `__file__`."""
    folder = module[: max(module.rfind("/"), module.rfind("\\")) + 1]
    with open(folder + name, "rb") as file:  # noqa: PTH123 (see above)
        return file.read()


def read_text(module: str, name: str) -> str:
    """Return the text of a file beside a *module*, its lines ended by line feeds."""
    return read_bytes(module, name).decode().replace("\r\n", "\n")


def read_json(module: str, name: str) -> Any:
    """Return the value in a JSON file beside a *module*."""
    return parse_json(read_text(module, name).strip())


def parse_json(text: str) -> Any:
    """Return the value that *text* begins with: of memdb's own JSON, which is known to be right."""
    return _scan(text, 0)[0]


def dump_texts(texts: Iterable[str]) -> str:
    """Return the JSON list of *texts*."""
    return f"[{','.join(map(encode_basestring_ascii, texts))}]"


class _Reading:
    """What the scanner of `json` asks its decoder."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Reading)  # type: ignore[arg-type] # it takes what has the attributes
