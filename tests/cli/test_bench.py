"""`memdb bench`: converting a data set and measuring recall over it."""

from __future__ import annotations

import json

import pytest

from memdb.cli.bench import KINDS
from memdb.evaluation import convert

TALK = {
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bea",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "The boat is red."}],
        "session_2_date_time": "1:56 pm on 9 May, 2023",
        "session_2": [{"speaker": "Bea", "dia_id": "D2:1", "text": "Tea is ready."}],
    },
    "qa": [{"question": "Which colour is the boat?", "evidence": ["D1:1"], "category": 4}],
}


@pytest.fixture
def talk(run, tmp_path):
    """Return the path of a converted data set."""
    (tmp_path / "conv.json").write_text(json.dumps(TALK))
    target = tmp_path / "set.jsonl"
    assert run("bench", "convert", "locomo", tmp_path / "conv.json", target).exit_code == 0
    return target


def test_the_kinds_are_those_that_can_be_converted():
    """The list is written twice so that --help loads nothing."""
    assert tuple(convert.KINDS) == KINDS


def test_convert_says_how_many_lines(run_json, tmp_path):
    """And where they are."""
    (tmp_path / "conv.json").write_text(json.dumps(TALK))
    target = tmp_path / "new.jsonl"

    told = run_json("bench", "convert", "locomo", tmp_path / "conv.json", target)

    assert told == {"path": str(target), "lines": 3}


def test_recall_prints_configuration_levels_and_comparison(run, talk):
    """The first lines say what was measured, with what."""
    shown = run("bench", "recall", talk).stdout

    assert "embedder static" in shown.splitlines()[0]
    assert "1 questions" in shown.splitlines()[1]
    assert "turns and documents" in shown
    assert "fused beside the arms alone, R@10" in shown


def test_recall_by_words_alone(run_json, talk):
    """--lexical needs no embedder, and measures nothing else."""
    told = run_json("bench", "recall", talk, "--lexical")

    assert {row["arm"] for row in told["results"]} == {"lexical"}
    assert told["configuration"]["embedder"] is None


def test_recall_with_each_term_off(run_json, talk):
    """--terms adds a ranking per term."""
    told = run_json("bench", "recall", talk, "--terms")

    assert "no dates" in {row["arm"] for row in told["results"]}


def test_records_hold_every_answer(run, talk, tmp_path):
    """One line of JSON per arm, level and question."""
    records = tmp_path / "answers.jsonl"
    run("bench", "recall", talk, "--records", records)

    answers = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(answers) == 6
    assert answers[0]["evidence"] == ["D1:1"]
    assert answers[0]["scores"]["R@1"] == 1.0


def test_records_never_replace_a_file(run, talk, tmp_path):
    """Exit code 6, and the file as it was."""
    records = tmp_path / "mine"
    records.write_text("mine")

    assert run("bench", "recall", talk, "--records", records).exit_code == 6
    assert records.read_text() == "mine"


def test_a_wrong_line_exits_5(run, tmp_path):
    """With its number."""
    (tmp_path / "set.jsonl").write_text("{}\n")
    done = run("bench", "recall", tmp_path / "set.jsonl")

    assert done.exit_code == 5
    assert "line 1" in done.stderr
