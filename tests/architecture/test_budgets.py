"""How much code there is: no package grows past its budget, and tests outweigh what they test."""

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from source_tree import CHECKOUT, FILES, ROOT, count_code_lines, list_tests, text_of, tree_of

BUDGET = tomllib.loads(Path(__file__).with_name("budget.toml").read_text(encoding="utf-8"))
LARGEST = 10


def package_of(name: str) -> str:
    """Return the package whose budget a file counts for."""
    return name.split("/")[0] if "/" in name else "."


@pytest.fixture(scope="module")
def code_lines() -> dict[str, int]:
    """Return the code lines of each module."""
    return {name: count_code_lines(text_of(name)) for name in FILES}


def test_no_package_is_over_its_budget(code_lines: dict[str, int]) -> None:
    """Growing one is a decision: the commit raises its number, and says what that buys."""
    lines: Counter[str] = Counter()
    for name, count in code_lines.items():
        lines[package_of(name)] += count
    budget = BUDGET["core"] | BUDGET["around"]
    over = {name: (n, budget.get(name)) for name, n in lines.items() if n > budget.get(name, 0)}
    core = sum(n for name, n in lines.items() if name in BUDGET["core"])

    assert over == {}, "code lines and budget of a package"
    assert core <= BUDGET["all_core"]
    assert sum(lines.values()) <= BUDGET["all"]
    assert len(FILES) <= BUDGET["modules"]


def test_the_largest_are_shown(code_lines: dict[str, int]) -> None:
    """There is no limit of a module or a function, but a reader's: `pytest -s` lists the largest."""
    functions = {
        f"{name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name in FILES
        for node in ast.walk(tree_of(name))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    for title, sizes in (("modules", code_lines), ("functions", functions)):
        print(f"largest {title}:")  # noqa: T201 (shown by `-s`)
        for name, size in Counter(sizes).most_common(LARGEST):
            print(f"  {size:5} {name}")  # noqa: T201 (shown by `-s`)

    assert functions


def test_each_module_says_what_it_owns() -> None:
    """Each begins with a docstring."""
    assert [name for name in FILES if not ast.get_docstring(tree_of(name))] == []


def test_there_are_more_lines_of_tests_than_of_source(code_lines: dict[str, int]) -> None:
    """Counted alike: code lines of tests/ to those of memdb/."""
    if not ROOT.is_relative_to(CHECKOUT):
        pytest.skip("the installed wheel is tested, not the checkout")
    tests = sum(count_code_lines(path.read_text(encoding="utf-8")) for path in list_tests())

    assert tests / sum(code_lines.values()) >= BUDGET["tests_per_line"]
