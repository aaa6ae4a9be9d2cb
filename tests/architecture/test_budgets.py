"""Modules and functions stay short enough to read, and tests outweigh what they test."""

import ast

import pytest
from source_tree import CHECKOUT, FILES, ROOT, count_code_lines, list_tests, text_of, tree_of

MAX_CODE_LINES = 600
MIN_CODE_LINES = 40
MAX_FUNCTION_LINES = 60
MIN_TEST_RATIO = 1.1

# Modules under MIN_CODE_LINES, each with its reason.
MAY_BE_SMALL = {
    "cli/sqlite_utils_plugin.py": "only the plugin manager of sqlite-utils loads it",
    "__main__.py": "what `python -m memdb` runs",
    "engine/byte_search.py": "knows bytes and no file",
    "engine/kinds.py": "data that the writers of both engines read",
    "engine/matrix.py": "only a search with numpy loads it",
    "engine/postgres/base.py": "types only, which no program loads",
    "engine/sqlite/adoption.py": "statements, mostly SQL",
    "engine/sqlite/base.py": "types only, which no program loads",
    "entries/categories.py": "data that all stages of remember read",
    "fixtures/clock.py": "a program that freezes time loads no recipes",
    "integrations/otel.py": "only a program with OpenTelemetry loads it",
    "jobs/health.py": "what runs work does not load it",
    "text/data_files.py": "what reads a file of the package loads nothing else",
    "models/vectors.py": "a recall loads no reports",
    "records/state.py": "a module per kind of record",
    "text/projects.py": "hooks and imports of transcripts load nothing else of it",
    "models/transcripts.py": "only readers of transcripts load it",
    "tables/meta.py": "a module per table",
    "tables/settings.py": "a module per table",
    "transfer/formats/langgraph.py": "a module per format",
}


def functions(name: str) -> list[tuple[str, int]]:
    """Return name and lines, without the docstring, of each function in a file."""
    found = []
    for node in ast.walk(tree_of(name)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            doc = node.body[0]
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
                length -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
            found.append((node.name, length))
    return found


@pytest.fixture(scope="module")
def code_lines() -> dict[str, int]:
    """Return the code lines of each module."""
    return {name: count_code_lines(text_of(name)) for name in FILES}


def test_no_module_is_over_600_code_lines(code_lines: dict[str, int]) -> None:
    """The budget of a module; docstrings, comments, blanks and SQL are not counted."""
    assert {name: n for name, n in code_lines.items() if n > MAX_CODE_LINES} == {}


def test_small_modules_have_a_reason(code_lines: dict[str, int]) -> None:
    """A module of a few lines is part of another, or MAY_BE_SMALL says why not."""
    small = {
        name: n
        for name, n in code_lines.items()
        if n < MIN_CODE_LINES and name not in MAY_BE_SMALL and not name.endswith("__init__.py")
    }

    assert small == {}
    assert [name for name in MAY_BE_SMALL if code_lines[name] >= MIN_CODE_LINES] == []


def test_no_function_is_over_60_lines() -> None:
    """The budget of a function, its docstring apart."""
    assert [
        (name, *one) for name in FILES for one in functions(name) if one[1] > MAX_FUNCTION_LINES
    ] == []


def test_each_module_says_what_it_owns() -> None:
    """Each begins with a docstring."""
    assert [name for name in FILES if not ast.get_docstring(tree_of(name))] == []


def test_there_are_more_lines_of_tests_than_of_source(code_lines: dict[str, int]) -> None:
    """Counted alike: code lines of tests/ to those of memdb/."""
    if not ROOT.is_relative_to(CHECKOUT):
        pytest.skip("the installed wheel is tested, not the checkout")
    tests = sum(count_code_lines(path.read_text(encoding="utf-8")) for path in list_tests())

    assert tests / sum(code_lines.values()) >= MIN_TEST_RATIO
