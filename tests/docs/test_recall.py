"""docs/recall.md names arguments that recall has; test_pages.py runs its example."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import memdb

PAGE = (Path(__file__).parents[2] / "docs" / "recall.md").read_text(encoding="utf-8")


def test_every_argument_of_the_page_is_one_of_recall() -> None:
    """Each `name=value` of its tables and sentences."""
    named = set(re.findall(r"`(?:recall\(\.\.\., )?(\w+)=[^`]*`", PAGE)) - {"embedder"}

    options = set(memdb.RecallOptions.__annotations__)
    assert named <= options | set(inspect.signature(memdb.Scope.recall).parameters)
    assert {"only_sure", "min_score", "cut", "explain"} <= named
