"""What docs/pydantic-ai.md and its example say is true."""

from __future__ import annotations

import re
import subprocess
import sys

from pages import ROOT, blocks


def run(arguments: list[str], folder: object) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=str(folder), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_python_of_the_page_prints_what_stands_below(tmp_path):
    """A reader who pastes it sees the same lines."""
    (code,) = blocks("pydantic-ai.md", "python")
    text = (ROOT / "docs" / "pydantic-ai.md").read_text()
    printed = re.search(r"```\n\n((?:    [^\n]*\n)+)", text)
    assert printed is not None
    assert run(["-c", code], tmp_path) == re.sub(r"^ {4}", "", printed[1], flags=re.MULTILINE)


def test_the_example_runs(tmp_path):
    """The branch shows the first turn; recall finds the second one."""
    example = str(ROOT / "examples" / "pydantic_ai_conversation.py")
    lines = run([example, str(tmp_path / "agent.db")], tmp_path).splitlines()
    assert lines == ["['We fly to Oslo on 3 May.', 'Noted.']", "We stay at the lighthouse."]
