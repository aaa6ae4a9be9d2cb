"""What docs/claude-agent-sdk.md, the docstrings and the example show is true."""

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
    (code,) = blocks("claude-agent-sdk.md", "python")
    assert run("-c", code, folder=tmp_path) == "True\nWe fly on 3 May.\n"


def test_the_example_runs(tmp_path: Path) -> None:
    """It lists the session and finds what was said."""
    printed = run(str(ROOT / "examples" / "claude_agent_store.py"), folder=tmp_path)
    assert "When does the ferry leave?" in printed
    assert "\nAt noon, from quay 7." in printed


def test_the_docstrings_are_true() -> None:
    """Their examples give what stands below them."""
    assert run_doctests("memdb.integrations.claude_agent") > 0
