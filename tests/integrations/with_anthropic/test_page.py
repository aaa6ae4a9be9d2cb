"""What docs/anthropic-memory-tool.md, the docstrings and the example show is true."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from pages import ROOT, blocks, run_doctests

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str, folder: Path) -> str:
    """Return what a program prints."""
    ran = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_python_of_the_page_prints_what_stands_below_it(tmp_path: Path) -> None:
    """A reader who pastes it sees the same lines."""
    (code,) = blocks("anthropic-memory-tool.md", "python")
    assert run("-c", code, folder=tmp_path).endswith(
        "     1\tThe ferry is at noon.\nmemories/trip.md\n"
    )


def test_the_example_runs(tmp_path: Path) -> None:
    """Both tools write, and recall finds what they wrote."""
    printed = run(str(ROOT / "examples" / "anthropic_memory.py"), folder=tmp_path)
    assert printed.count("Ferry at 8.") == 2


def test_the_docstrings_are_true() -> None:
    """Their examples give what stands below them."""
    assert run_doctests("memdb.integrations.anthropic") > 0
