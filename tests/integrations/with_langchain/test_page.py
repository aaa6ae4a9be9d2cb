"""What docs/langchain.md, its example and the package say is true."""

from __future__ import annotations

import re
import subprocess
import sys

import langchain_core.globals
import pytest
from pages import ROOT, blocks, run_block

import memdb.integrations.langchain as package


def test_the_python_of_the_page_prints_what_stands_below(tmp_path, monkeypatch, capsys):
    """A reader who pastes it sees the same lines."""
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("langchain.md", "python")
    text = (ROOT / "docs" / "langchain.md").read_text()
    printed = re.search(r"```\n\n((?:    [^\n]*\n)+)", text)
    try:
        run_block(code)
    finally:
        langchain_core.globals.set_llm_cache(None)
    assert printed is not None
    assert capsys.readouterr().out == re.sub(r"^ {4}", "", printed[1], flags=re.MULTILINE)


def test_the_example_runs(tmp_path):
    """In a process of its own, without a warning."""
    example = ROOT / "examples" / "langchain_chat.py"
    ran = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "agent.db")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "human: We fly to Oslo on 3 May.",
        "ai: Noted: Oslo, 3 May.",
        "human: When do we fly?",
        "ai: On 3 May.",
        "We fly to Oslo on 3 May. trip 1",
    ]


def test_every_class_is_there_and_nothing_else():
    """By name; a name that is none says so."""
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="MemdbAgent"):
        package.MemdbAgent
