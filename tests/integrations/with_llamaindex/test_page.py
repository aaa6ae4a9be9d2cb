"""What docs/llamaindex.md and its example say is true."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pages import ROOT, blocks

import memdb.integrations.llamaindex as package


def run(arguments: list[str], folder: object) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=str(folder), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_python_of_the_page_prints_what_stands_below(tmp_path):
    """A reader who pastes it sees the same lines."""
    (code,) = blocks("llamaindex.md", "python")
    text = (ROOT / "docs" / "llamaindex.md").read_text()
    printed = re.search(r"```\n\n((?:    [^\n]*\n)+)", text)
    assert printed is not None
    assert run(["-c", code], tmp_path) == re.sub(r"^ {4}", "", printed[1], flags=re.MULTILINE)


def test_the_example_runs(tmp_path):
    """What was said and what was indexed are recalled."""
    example = str(ROOT / "examples" / "llamaindex_memory.py")
    lines = run([example, str(tmp_path / "agent.db")], tmp_path).splitlines()
    assert lines == [
        "['user: We fly to Oslo on 3 May.', 'assistant: Noted.']",
        "We fly to Oslo on 3 May.",
        "Oslo has a tram.",
    ]


def test_a_class_that_is_none_says_so():
    """By name."""
    with pytest.raises(AttributeError, match="MemdbAgent"):
        package.MemdbAgent
