"""docs/evaluation.md says what `memdb bench` takes and does."""

import re
import subprocess
import sys
from pathlib import Path

from memdb.evaluation import convert, facts, facts_set, measuring

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_the_example_of_the_format_can_be_measured(tmp_path):
    """A reader who pastes the lines gets a report."""
    (lines,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "set.jsonl").write_text(lines)

    done = subprocess.run(
        [sys.executable, "-m", "memdb", "bench", "recall", "set.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "2 messages" in done.stdout


def test_every_kind_and_measure_is_told():
    """Nothing is counted or converted that the page does not name."""
    named = {"R", "any", "all", "nDCG", "MRR"}

    assert {name.partition("@")[0] for name in measuring.MEASURES} == named
    assert all(re.search(rf"^\| {name}", PAGE, re.MULTILINE) for name in named)
    assert all(f"| `{kind}` |" in PAGE for kind in convert.KINDS)


def test_every_pinned_peer_is_told():
    """With the version that `make peers` installs."""
    pinned = [
        line
        for path in (ROOT / "bench" / "peers" / "requirements").glob("*.txt")
        for line in path.read_text().split()
    ]

    pages = PAGE + (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert len(pinned) == 15
    assert all(line.split("==")[1] in pages or "pysqlite3" in line for line in pinned)


def test_the_example_of_facts_can_be_read(tmp_path):
    """Each form of a line once, and every measure is told."""
    page = (ROOT / "docs" / "facts.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (tmp_path / "set.jsonl").write_text(lines, encoding="utf-8")
    counts = facts_set.read([str(tmp_path)]).counts

    assert counts == {"pairs": 1, "sequences": 1, "chats": 1, "facts": 1, "traps": 1}
    told = {name for name in facts.MEASURES if not name.startswith("chat: ")}
    assert all(f"| {name} |" in page for name in told)
