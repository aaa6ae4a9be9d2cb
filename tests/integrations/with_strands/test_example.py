"""The example runs, and the second run remembers the first."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "strands_agent.py"


def test_the_example_goes_on_where_it_was(tmp_path: Path) -> None:
    """Each question sees one more pair of messages."""
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "agent.db")]
    lines = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
        for _ in range(2)
    ]

    assert [line.partition("I see ")[2] for run in lines for line in run if line] == [
        "1 messages.", "3 messages.", "5 messages.", "7 messages.",
    ]  # fmt: skip
