"""`bench/units.py` and `bench/calls.py`: units of one run, and what is slower than chance."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

calls = pytest.importorskip("calls")
goals = pytest.importorskip("goals")
units = pytest.importorskip("units")

# What a program of bench/ that measures time contains: a clock, or a question to a peer with one.
CLOCKS = re.compile(r"perf_counter|thread_time|process_time|\bask\(op=")
TIMED = [
    path
    for path in (ROOT / "bench").rglob("*.py")
    if ".venvs" not in path.parts
    and "__main__" in (source := path.read_text())
    and CLOCKS.search(source)
]


def test_the_line_of_units_is_what_goals_read() -> None:
    """A bar in R or P is divided by what the same program measured."""
    line = units.line()
    found = goals.units_of(f"context p50 3.0 ms\n{line}\n")
    goal = goals.Goal("a", 1.5, rf"^context p50 {goals.NUMBER}", unit="P")

    assert found.keys() == {"R", "P"}
    assert goal.read(f"context p50 3.0 ms\n{line}\n", []) == 3.0 / found["P"]
    assert goal.read("context p50 3.0 ms\n", []) is None


@each("path", TIMED)
def test_programs_that_time_calls_measure_the_units_beside(path: Path) -> None:
    """In their own loops, and print them."""
    source = path.read_text()

    assert "units.turn(" in source
    assert "print(units.line())" in source


def test_the_walk_finds_programs_with_clocks_of_their_own_and_of_peers() -> None:
    """A pattern that matches nothing would test nothing."""
    assert {"appends", "growth", "recall", "web"} <= {path.stem for path in TIMED}


def run_of(loops: float, opcodes: int = 100, functions: int = 100) -> dict[str, object]:
    """Return the record of a run with one call."""
    return {"calls": {"append": {"loops": loops, "opcodes": opcodes, "functions": functions}}}


@each(
    "now, expected",
    [
        (run_of(1.05), []),
        (run_of(1.3), []),
        (run_of(2.0), ["append: 2 loops, 1 before"]),
        (run_of(1.0, opcodes=103), ["append: 103 opcodes, 100 before"]),
        (run_of(1.0, functions=101), []),
        (run_of(0.5, functions=110), ["append: 110 functions, 100 before"]),
    ],
)
def test_slower_than_chance(now: dict[str, object], expected: list[str]) -> None:
    """A count needs 2 %, a time three deviations and a tenth; one run before knows no chance."""
    before = [run_of(loops) for loops in (0.9, 1.0, 1.1)]

    assert calls.slower(now, before) == expected
    assert not any("loops" in one for one in calls.slower(now, before[:1]))


def test_a_run_is_kept_and_compared(tmp_path: Path) -> None:
    """Both runs are in the file; it ends with 1 exactly if it names something slower."""
    out = tmp_path / "calls.jsonl"
    words = [
        "--messages",
        "500",
        "--entries",
        "20",
        "--calls",
        "3",
        "--against",
        str(out),
        "--keep",
    ]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(ROOT / "bench" / "calls.py"), *words],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )
        assert done.stderr == ""
        assert done.returncode == int("slower than chance: " in done.stdout), done.stdout
    first, second = map(goals.beside.read_records, (out, out))

    assert len(first) == 2
    assert first == second
    assert len(re.findall(r"^\S.* P .* opcodes +[\d,]+ functions$", done.stdout, re.MULTILINE)) == 9


def test_the_raw_loop_knows_every_column_of_a_message(tmp_path: Path) -> None:
    """A column that is added is one that it leaves empty."""
    raw = units.RawLoop(tmp_path / "raw.db")

    raw.append("a text")

    assert raw.raw.execute("SELECT count(*) FROM messages").fetchall() == [(1,)]
    raw.close()
