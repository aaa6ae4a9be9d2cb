"""`bench/beside.py` and `bench/growth.py`: what they refuse, what they leave behind, what they say."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

beside = pytest.importorskip("beside")
plots = pytest.importorskip("plots")


def start(*arguments, folder):
    """Return a process of the benchmark whose temporary files are below *folder*."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "beside.py"), "--wait", "0", *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments, folder):
    """Return the exit code and what was printed."""
    process = start(*arguments, folder=folder)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.slow
def test_a_run_writes_a_record_per_call_and_charts(tmp_path):
    """Memdb and the raw stack need no other environment; ratios are held to memdb."""
    out = tmp_path / "run.jsonl"
    only = ["--only", "raw apsw + FTS5", "raw numpy scan"]
    code, printed, _ = run("--rows", 40, "--out", out, "--plots", tmp_path, *only, folder=tmp_path)

    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert code == 0
    assert {(one["table"], one["candidate"], one["call"]) for one in records} == {
        *(("messages", name, call) for name in ("memdb", "raw apsw + FTS5") for call in CALLS),
        *(("memories", name, call) for name in ("memdb", "raw numpy scan") for call in CALLS[::2]),
    }
    assert all(one["ratio_p50"] == 1 for one in records if one["candidate"] == "memdb")
    assert all(one["n"] == 40 for one in records if one["call"] == "put")
    assert "raw numpy scan" in printed
    assert "raw apsw" in (tmp_path / "messages-put-40.svg").read_text()
    assert list((tmp_path / "scratch").iterdir()) == []


CALLS = ("put", "last", "search")


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path):
    """Nothing is begun."""
    code, _, err = run("--only", "redis", folder=tmp_path)

    assert (code, "raw numpy scan" in err) == (1, True)


def test_a_peer_that_is_not_installed_is_named(tmp_path, monkeypatch):
    """Asked for, it ends the run; otherwise the others are measured."""
    monkeypatch.setattr(beside, "HERE", tmp_path)

    with pytest.raises(SystemExit):
        beside.choose(["chroma"])
    assert {one.name for one in beside.choose(None)} & {"chroma", "adk session"} == set()


def test_more_rows_than_the_disk_holds_are_refused(tmp_path, monkeypatch):
    """Before anything is begun; how much is needed and how much is free."""
    monkeypatch.setattr(beside.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10**6}))
    monkeypatch.setattr(
        sys, "argv", ["beside.py", "--rows", "1000000", "--out", str(tmp_path / "x")]
    )

    with pytest.raises(SystemExit, match="need 40 GB, 0 are free"):
        beside.main()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_run_that_is_stopped_leaves_no_result_and_no_file(tmp_path, number):
    """The candidates end too."""
    out = tmp_path / "run.jsonl"
    only = ["--only", "raw apsw + FTS5"]
    process = start("--rows", 4000, "--out", out, *only, folder=tmp_path)
    scratch = tmp_path / "scratch"
    while not list(scratch.rglob("raw.db")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)

    assert "nothing was kept" in err
    assert process.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]
    assert list(scratch.iterdir()) == []


def test_candidates_that_have_begun_end_if_another_cannot_start(tmp_path):
    """As with an interpreter that has gone."""
    chosen = [one for one in beside.candidates() if one.name in ("fdatasync alone", "chroma")]
    chosen[1].environment = "none"
    running = []
    with pytest.raises(OSError, match="none"), ExitStack() as stack:
        stack.callback(lambda: running.extend(processes_in(tmp_path)))
        beside.start_all(stack, chosen, tmp_path)
    assert running == []


def processes_in(folder):
    """Return the processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path] if str(folder) in path.read_text() else []
    return found


def test_a_candidate_that_loads_too_slowly_is_named_and_left_out(tmp_path, monkeypatch, capsys):
    """It is known after the first round; what it took until then says nothing about a full table."""
    monkeypatch.setattr(beside, "MAX_FILL_S", 0)
    out = tmp_path / "run.jsonl"
    words = ["--rows", "40", "--wait", "0", "--out", str(out), "--only", "raw apsw + FTS5"]
    monkeypatch.setattr(sys, "argv", ["beside.py", *words])

    beside.main()

    assert out.read_text() == ""
    printed = capsys.readouterr().out
    assert "raw apsw + FTS5: would not load 40 rows within 0 minutes" in printed


def test_two_runs_are_compared_with_their_noise(tmp_path, capsys):
    """Equal rounds are equal; twice the time of memdb is slower, and the exit code says so."""
    same = {"table": "messages", "candidate": "memdb", "call": "put"}
    before, after = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    before.write_text(json.dumps(same | {"rounds_p50_ms": [1.0, 1.1, 0.9] * 5}))
    after.write_text(json.dumps(same | {"rounds_p50_ms": [2.0, 2.1, 1.9] * 5}))

    assert beside.compare(before, before) == 0
    assert beside.compare(before, after) == 1
    printed = capsys.readouterr().out.splitlines()
    assert ["equal" in printed[0], "slower" in printed[1]] == [True, True]


def test_a_chart_escapes_names_and_keeps_its_order():
    """Shortest first; a name is text."""
    drawn = plots.bar_chart("a < b", {"memdb": 2.0, "<x>": 1.0})

    assert "a &lt; b" in drawn
    assert drawn.index("&lt;x&gt;") < drawn.index("memdb")
    assert "polyline" in plots.line_chart("growth", {"memdb": [(10, 1.0), (100, 2.0)]})
