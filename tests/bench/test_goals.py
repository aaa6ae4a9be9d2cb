"""`bench/goals.py`: how numbers are found, what is not measured, and what an end leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases import each

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

beside = pytest.importorskip("beside")
goals = pytest.importorskip("goals")

PROGRAMS = goals.programs(1_000_000)


@pytest.fixture
def one_goal(monkeypatch):
    """Return a function that has one program alone, of which a number is wanted."""

    def have(words, number=rf"took {goals.NUMBER} ms", **facts):
        goal = goals.Goal("a number", 5, number)
        listed = [goals.Program("one", words, (goal,), **facts)]
        monkeypatch.setattr(goals, "programs", lambda _: listed)

    return have


def run(monkeypatch, out):
    """Return the exit code of a run, and its records."""
    monkeypatch.setattr(sys, "argv", ["goals.py", "--wait", "0", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        goals.main()
    return ended.value.code, [json.loads(line) for line in out.read_text().splitlines()]


@each("program", PROGRAMS)
def test_every_program_exists_and_every_pattern_names_a_value(program):
    """A goal whose program was renamed would be missed for ever."""
    for words in (program.words, program.before or program.words):
        assert (ROOT / "bench" / words[0]).is_file()
    patterns = [one.number for one in program.goals if isinstance(one.number, str)]
    assert all("value" in re.compile(pattern).groupindex for pattern in patterns)
    assert len(patterns) == len(program.goals) or program.writes_records


def test_names_are_said_once():
    """Of programs, and of goals."""
    names = [one.name for program in PROGRAMS for one in program.goals]

    assert len({*names}) == len(names)
    assert len({one.name for one in PROGRAMS}) == len(PROGRAMS)


def test_a_number_is_a_part_of_another():
    """By two groups of one pattern, or by two records."""
    ratio = goals.Goal("a", 1, rf"^hot {goals.OF}\n^cold {goals.NUMBER}")
    records = [
        {"candidate": name, "call": "put", "table": table, "p50_ms": ms, "cpu_p50_ms": ms}
        for name, table, ms in (("memdb", "messages", 2.0), ("mem0", "memories", 80.0))
    ]

    assert ratio.read("hot 2.0\ncold 3.0\n", []) == 1.5
    assert goals.times("mem0", "put", "memories")(records) == 40
    assert goals.part("mem0", "put", "memories")(records) == 0.025
    assert goals.Goal("b", 1, goals.times("adk", "put")).read("", records) is None


def test_a_goal_is_met_or_missed_or_not_measured(one_goal, monkeypatch, tmp_path, capsys):
    """Any but the first is an exit code of 1; the last line of what went wrong is said."""
    program = tmp_path / "program.py"
    for text, expected in (
        ("print('took 4.5 ms')", (0, 4.5, "4.5  met")),
        ("print('took 5.5 ms')", (1, 5.5, "5.5  MISSED")),
        ("raise SystemExit('no luck')", (1, None, "not measured")),
    ):
        program.write_text(text)
        one_goal((str(program),))
        code, (record,) = run(monkeypatch, tmp_path / "out.jsonl")
        printed = capsys.readouterr().out

        assert (code, record["value"]) == expected[:2]
        assert expected[2] in printed
    assert "no luck" in printed


def test_a_memory_that_is_not_installed_is_not_measured(one_goal, monkeypatch, tmp_path, capsys):
    """The others are."""
    one_goal(("run.py",), environment="absent")
    code, (record,) = run(monkeypatch, tmp_path / "out.jsonl")

    assert (code, record["value"], record["is_met"]) == (1, None, False)
    assert "run `make peers`" in capsys.readouterr().out


def test_more_messages_than_the_disk_holds_are_refused(monkeypatch, tmp_path):
    """Before anything is begun."""
    monkeypatch.setattr(beside.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10**6}))
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr(sys, "argv", ["goals.py", "--out", str(out)])

    with pytest.raises(SystemExit, match="need 6 GB, 0 are free"):
        goals.main()
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_run_that_is_stopped_leaves_no_result_and_no_file(tmp_path, number):
    """The program that runs ends too, and what it made is removed."""
    scratch, out = tmp_path / "scratch", tmp_path / "out.jsonl"
    scratch.mkdir()
    words = ["--only", "size", "--wait", "0", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "goals.py"), *words],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(scratch.rglob("*.db")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)

    assert "nothing was kept" in err
    assert process.returncode == 1
    assert list(scratch.iterdir()) == []
    assert not out.exists()
