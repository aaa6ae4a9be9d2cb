"""The table of counts says what was tried, and which bar was not reached."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

import counters
from source_tree import list_tests


def calls_of_count() -> Counter[str]:
    """Return the rows that tests count."""
    return Counter(
        node.args[0].value
        for path in list_tests("test_*.py")
        if "from counters import" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "count"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    )


def test_each_row_is_counted_somewhere() -> None:
    """A row that nothing counts would be missing from every table."""
    by_argument = {"power", "process", "off"}

    assert set(counters.ROWS) == set(calls_of_count()) | by_argument
    assert set(counters.BARS) <= set(counters.ROWS)


def test_a_row_below_its_bar_says_so() -> None:
    """Also one of which nothing was tried."""
    table = counters.table(Counter(power=20_000, inside=4_999, forks=3))
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()}

    assert "not reached" not in rows[counters.ROWS["power"]]
    assert "1 less" in rows[counters.ROWS["inside"]]
    assert "40,000 less" in rows[counters.ROWS["signals"]]
    assert rows[counters.ROWS["forks"]].endswith("| 3 |  |")
    assert counters.ROWS["libraries"] not in rows


def test_the_processes_of_a_run_are_added_up(tmp_path: Path) -> None:
    """Each leaves a file."""
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(json.dumps({"kills": 2}), encoding="utf-8")

    assert counters.merge(tmp_path) == {"kills": 6}
