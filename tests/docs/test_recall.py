"""docs/recall.md shows answers that recall gives, and names arguments that it has."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path

import memdb

PAGE = (Path(__file__).parents[2] / "docs" / "recall.md").read_text(encoding="utf-8")


def test_the_example_prints_what_its_comments_say() -> None:
    """Sure, unsure and none, in this order."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "docs/recall.md", "exec"), {})

    wanted = re.findall(r"print\(.*#\s*(\w+):", code)
    assert said.getvalue().split() == wanted == ["sure", "unsure", "none"]


def test_every_argument_of_the_page_is_one_of_recall() -> None:
    """Each `name=value` of its tables and sentences."""
    named = set(re.findall(r"`(?:recall\(\.\.\., )?(\w+)=[^`]*`", PAGE)) - {"embedder"}

    assert named <= set(inspect.signature(memdb.Scope.recall).parameters)
    assert {"only_sure", "min_score", "cut", "explain"} <= named
