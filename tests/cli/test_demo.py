"""`memdb demo`: an example conversation, imported, asked and shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import memdb
from memdb.cli import cli, demo
from memdb.models.messages import Hit, Source


@pytest.fixture(scope="module")
def told():
    """Return what the demo prints with --json."""
    return json.loads(CliRunner().invoke(cli, ["demo", "--json"]).stdout)


def test_demo_golden(told):
    """--json holds the questions with hits, a window, the versions, the size and the times."""
    assert sorted(told) == [
        "learnt",
        "path",
        "questions",
        "seconds",
        "session",
        "size_bytes",
        "versions",
        "window",
    ]
    assert [len(asked["hits"]) for asked in told["questions"]] == [4, 4, 4, 4, 4]
    assert told["window"]["tokens"] <= told["window"]["budget_tokens"]
    assert {one["name"].removeprefix("user:") for one in told["versions"]} == {"opening-plan.md"}
    assert told["seconds"]["all"] >= max(told["seconds"].values()) > 0


def test_demo_finds_the_evidence(told):
    """Each of the five questions has its evidence among the hits."""
    missed = [
        asked["question"]
        for asked in told["questions"]
        if not {hit["source"]["external_id"] for hit in asked["hits"]} & {*asked["expected"]}
    ]

    assert missed == []


def test_demo_learns_its_entries_from_the_messages(told):
    """No entry is written by hand: each is a sentence that somebody said, with its message."""
    lines = (
        Path(memdb.__file__).parents[1].joinpath("examples", "workshop.jsonl").read_text("utf-8")
    )
    kinds = {json.loads(line)["kind"] for line in lines.splitlines()}
    learnt = told["learnt"]

    assert kinds == {"message", "artifact"}
    assert len(learnt) > 10
    assert [
        one["text"]
        for one in learnt
        if json.dumps(one["text"], ensure_ascii=False)[1:-1] not in lines
    ] == []
    assert all(one["first_seq"] and one["session"] for one in learnt)


def test_demo_answers_with_the_corrected_rent(told):
    """The wrong one was said first, in another conversation."""
    (rent,) = [one for one in told["questions"] if "rent" in one["question"]]

    assert "15 400" in rent["hits"][0]["text"]


def test_demo_marks_an_entry_that_was_learnt_from_the_evidence():
    """As it marks the message itself."""
    report = demo.Report()
    report.evidence = {("budget", 7, "m144"), ("budget", 8, "m145")}
    found = [
        Hit("entry", "", 0.5, 1, Source(session="budget", seq=seq, entry_id=1)) for seq in (7, 8, 9)
    ]

    assert [report.is_evidence(hit, ["m144"]) for hit in found] == [True, False, False]


def test_demo_for_a_person(run, run_json, tmp_path):
    """What can be read without --json; --keep makes the file where it says, to go on with."""
    kept = tmp_path / "demo.db"
    said = run("demo", "--keep", kept).stdout

    assert "Learnt without a model from 196 messages" in said
    assert "What is Birger allergic to?" in said
    assert "tokens" in said
    assert "Versions of user:opening-plan.md" in said
    assert "in one file; import " in said
    assert f"Go on with: memdb recall {kept}" in said
    assert run_json("info", kept)["counts"]["messages"] == 196


def test_demo_does_not_write_over_a_file(run, tmp_path):
    """A file that is there stays, exit 4."""
    mine = tmp_path / "mine.db"
    mine.write_text("mine")

    assert run("demo", "--keep", mine).exit_code == 4
    assert mine.read_text() == "mine"


def test_demo_uses_the_examples_of_the_package(run, tmp_path, monkeypatch):
    """Installed from a wheel, the examples are those beside the code."""
    shutil.copytree(Path(memdb.__file__).parents[1] / "examples", tmp_path / "examples")
    questions, messages = (
        tmp_path / "examples" / one for one in ("questions.json", "workshop.jsonl")
    )
    lines = messages.read_text("utf-8").splitlines(keepends=True)
    messages.write_text("".join(lines[:5] + lines[-5:]), "utf-8")
    asked = {"questions": [{"question": "Who swims?", "expected": []}]}
    questions.write_text(json.dumps(asked), encoding="utf-8")
    monkeypatch.setattr(demo, "files", lambda _: tmp_path)

    assert "Who swims?" in run("demo").stdout


def test_demo_without_examples(run, tmp_path, monkeypatch):
    """An installation that lost the examples says what to do, exit 6."""
    monkeypatch.setattr(demo, "files", lambda _: tmp_path)
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
    assert b"in one file; import " in out
