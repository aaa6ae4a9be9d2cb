"""Files and functions stay short enough to read."""

import ast
from pathlib import Path

import pytest

import memdb

ROOT = Path(memdb.__file__).parent
FILES = sorted(
    str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if "data" not in path.parts
)
MAX_LINES = 400  # of code: no docstring, comment, blank line or SQL constant
MAX_FUNCTION_LINES = 60


def functions(name: str) -> list[tuple[str, int]]:
    """Return name and lines, without the docstring, of each function in a file."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            doc = node.body[0]
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
                length -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
            found.append((node.name, length))
    return found


def code_lines(name: str) -> int:
    """Return how many lines of a file are code."""
    text = (ROOT / name).read_text(encoding="utf-8")
    aside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                aside |= set(range(first.lineno, (first.end_lineno or 0) + 1))
        elif isinstance(node, ast.Constant) and str(node.value).startswith("/*"):
            aside |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if line.strip() and n not in aside and line.strip()[0] != "#")


@pytest.mark.parametrize("name", FILES)
def test_a_file_over_400_lines_is_two_files(name: str) -> None:
    """The budget of a module."""
    assert code_lines(name) <= MAX_LINES


@pytest.mark.parametrize("name", FILES)
def test_a_function_over_60_lines_is_two_functions(name: str) -> None:
    """The budget of a function, its docstring apart."""
    assert [one for one in functions(name) if one[1] > MAX_FUNCTION_LINES] == []


@pytest.mark.parametrize("name", FILES)
def test_a_module_says_what_it_owns(name: str) -> None:
    """Each begins with a docstring."""
    assert ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8")))
