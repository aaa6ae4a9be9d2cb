"""The source of memdb as the architecture tests read it: files, syntax trees, code lines."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import memdb
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(memdb.__file__).parent
CHECKOUT = Path(__file__).resolve().parents[1]
FILES = tuple(
    sorted(
        str(path)
        for path in (file.relative_to(ROOT) for file in ROOT.rglob("*.py"))
        if "data" not in path.parts
    )
)


def list_tests(pattern: str = "*.py", folder: str = "tests") -> list[Path]:
    """Return the files below *folder*, without those that environments of clients or peers install."""
    return [path for path in (CHECKOUT / folder).rglob(pattern) if ".venvs" not in path.parts]


@cache
def text_of(name: str) -> str:
    """Return the text of a file below memdb/."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree_of(name: str) -> ast.Module:
    """Return the syntax tree of a file below memdb/."""
    return ast.parse(text_of(name))


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    """Return every node of the syntax tree of a file below memdb/."""
    return tuple(ast.walk(tree_of(name)))


def count_code_lines(text: str) -> int:
    """Return how many lines hold code: all but docstrings, comments and blank lines."""
    lines = enumerate((line.lstrip() for line in text.split("\n")), 1)
    code = {number for number, line in lines if line and not line.startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings |= set(range(first.lineno, (first.end_lineno or 0) + 1))
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno != node.lineno:
            code |= set(range(node.lineno, (node.end_lineno or 0) + 1))  # blank lines of a text
    return len(code - docstrings)


@cache
def statements_of(name: str) -> dict[str, str]:
    """
    Return the statements of a file below memdb/ by the name of their constant, composed ones too.

    Those in a dict, tuple or record have a number behind it.
    """
    module = import_module(f"memdb.{name.removesuffix('.py').replace('/', '.')}")
    found: dict[str, str] = {}
    for node in tree_of(name).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constant = node.targets[0].id
            value = getattr(module, constant)
            texts = [text for text in _texts_in(value) if text[:3] == "/* "]
            for number, text in enumerate(text for text in texts if text not in found.values()):
                found[constant if isinstance(value, str) else f"{constant}[{number}]"] = text
    return found


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Record):
        for field in value._fields:
            yield from _texts_in(getattr(value, field))
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(part)
