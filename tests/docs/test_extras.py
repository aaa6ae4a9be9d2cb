"""Extras of the package: which go together, and that the pages of the others say so."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from itertools import product

import pytest
from source_tree import CHECKOUT, ROOT

# Extras whose packages exclude each other, each with its page.
APART = (("crewai", "mcp"), ("crewai", "openai-agents"), ("pydantic-ai", "pydantic-harness"))
PAGES = {"pydantic-harness": "pydantic-ai"}
pytestmark = pytest.mark.skipif(
    not ROOT.is_relative_to(CHECKOUT), reason="the installed wheel is tested, not the checkout"
)


def groups() -> list[list[str]]:
    """Return lists of extras of which each pair that may be together is in one."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    every = set(project["optional-dependencies"])
    found = {frozenset(every.difference(left)) for left in product(*APART)}
    return sorted(sorted(one) for one in found if not any(one < other for other in found))


def test_extras_that_exclude_each_other_say_so() -> None:
    """On both pages, beside the command that installs them; a group has none of these pairs."""
    for pair in APART:
        for one, other in (pair, pair[::-1]):
            page = (CHECKOUT / "docs" / f"{PAGES.get(one, one)}.md").read_text(encoding="utf-8")
            told = [
                line for line in page.splitlines() if "pip install" in line and "not beside" in line
            ]
            assert any(f"[{other}]" in line for line in told), (one, other)
        assert not [group for group in groups() if {*pair} <= {*group}]


@pytest.mark.slow
@pytest.mark.parametrize("extras", groups(), ids=lambda group: f"{len(group)} extras")
def test_all_other_pairs_are_installed_together(extras: list[str]) -> None:
    """Pip finds releases of all of them for one environment; nothing is installed."""
    options = ("--dry-run", "--quiet", "--ignore-installed")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, f"{CHECKOUT}[{','.join(extras)}]"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
