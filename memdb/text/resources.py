"""
Resources of modules, loaded when they are first needed: patterns, data files.

A module keeps its patterns as text: compiling all of them at import took a third of a cold start.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """
    Return *pattern* compiled, once per process. Flags are part of the pattern, as in "(?i)tea".

    >>> compiled("(?i)tea").sub("coffee", "Tea, please.")
    'coffee, please.'
    """
    return re.compile(pattern)


def read_bytes(module: str, name: str) -> bytes:
    """Return the file *name* beside a *module*, given as its `__file__`."""
    folder = module[: max(module.rfind("/"), module.rfind("\\")) + 1]
    with open(folder + name, "rb") as file:
        return file.read()


def read_text(module: str, name: str) -> str:
    """Return the text of a file beside a *module*, with line feeds as line ends."""
    return read_bytes(module, name).decode().replace("\r\n", "\n")


def read_json(module: str, name: str) -> Any:
    """Return the value in a JSON file beside a *module*."""
    return json.loads(read_text(module, name))
