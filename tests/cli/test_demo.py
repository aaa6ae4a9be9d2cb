"""`memdb demo`: six answers, each computed from the file and each right."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from memdb.cli import cli, demo


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return the path of a demo that was kept, and what it printed for a person."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    done = CliRunner().invoke(cli, ["demo", "--keep", str(path)])

    assert (done.exit_code, done.stderr) == (0, "")
    return path, done.stdout


def test_demo_shows_six_right_answers(kept):
    """Each answer is what the example's author expects, in lines of at most 80 columns."""
    path, said = kept
    lines = said.splitlines()

    assert [line[0] for line in lines if line[1:3] == ". "] == [*"123456"]
    assert lines.count("   right") == 6
    assert "6 of 6 answers are right." in said
    assert [line for line in lines if len(line.replace(str(path), "demo.db")) > 80] == []
    assert f"memdb recall {path}" in said


def test_demo_computes_its_answers(kept, monkeypatch):
    """A memory that does not know the facts is told to be wrong."""
    monkeypatch.setattr(demo, "CORRECTED", "My train to Malmö leaves at 9:15 on Friday.")
    monkeypatch.setattr(demo, "BUDGET_TOKENS", 90)
    done = CliRunner().invoke(cli, ["demo", "--json"])
    right = [moment["right"] for moment in json.loads(done.stdout)["moments"]]

    assert right == [True, False, False, True, False, True]


def test_demo_keeps_its_file(kept, run_json):
    """--keep makes the file where it says, without what was forgotten."""
    path, _ = kept

    assert run_json("info", path)["counts"]["messages"] == 199
    assert b"peanuts" not in path.read_bytes()


def test_demo_does_not_write_over_a_file(run, tmp_path):
    """A file that is there stays, exit 4."""
    mine = tmp_path / "mine.db"
    mine.write_text("mine")

    assert run("demo", "--keep", mine).exit_code == 4
    assert mine.read_text() == "mine"


def test_demo_uses_the_examples_of_the_package_or_says_that_they_are_missing(
    run, tmp_path, monkeypatch
):
    """Installed from a wheel, the examples are beside the code; without them exit 6."""
    monkeypatch.setattr(demo, "files", lambda _: tmp_path)
    (tmp_path / "examples").mkdir()
    line = {"kind": "message", "session": "a", "role": "user", "text": "Hello."}
    (tmp_path / "examples" / "workshop.jsonl").write_text(json.dumps(line), encoding="utf-8")
    monkeypatch.setattr(demo, "MOMENTS", ())

    assert "0 of 0 answers are right." in run("demo").stdout

    (tmp_path / "examples").rename(tmp_path / "elsewhere")
    monkeypatch.setattr(demo, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    done = run("demo")

    assert done.exit_code == 6
    assert "the examples are missing" in done.stderr


@pytest.mark.slow
def test_demo_in_a_process_of_its_own(start):
    """The whole command, starting included."""
    process = start("demo")
    out, err = process.communicate(timeout=100)

    assert (process.returncode, err) == (0, b"")
    assert b"6 of 6 answers are right." in out
