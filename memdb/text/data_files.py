"""
Read the data files of the package.
"""

from __future__ import annotations

import json
from typing import Any


def read_bytes(module: str, name: str) -> bytes:
    """Return the file *name* beside a *module*, given as its `__file__`."""
    folder = module[: max(module.rfind("/"), module.rfind("\\")) + 1]
    with open(folder + name, "rb") as file:
        return file.read()


def read_text(module: str, name: str) -> str:
    """Return the text of a file beside a *module*, its lines ended by line feeds."""
    return read_bytes(module, name).decode().replace("\r\n", "\n")


def read_json(module: str, name: str) -> Any:
    """Return the value in a JSON file beside a *module*."""
    return json.loads(read_text(module, name))
