"""What the page and the docstrings of a client show: their code, as a reader pastes it."""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import memdb

ROOT = Path(memdb.__file__).resolve().parents[1]


def blocks(page: str, kind: str) -> list[str]:
    """Return the code blocks of one kind of a page of docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def run_block(code: str, **names: Any) -> dict[str, Any]:
    """Run a block that may await at its top, and return its names."""
    compiled = compile(code, "<block>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names["__name__"] = "block"

    async def run() -> None:
        result = eval(compiled, names)
        if asyncio.iscoroutine(result):
            await result

    asyncio.run(run())
    return names


def run_doctests(package: str) -> int:
    """Run the examples in the docstrings of a package; return how many there are."""
    top = importlib.import_module(package)
    paths = getattr(top, "__path__", [])
    names = [package, *(one.name for one in pkgutil.walk_packages(paths, f"{package}."))]
    done = [doctest.testmod(importlib.import_module(name)) for name in names]
    assert sum(one.failed for one in done) == 0
    return sum(one.attempted for one in done)
