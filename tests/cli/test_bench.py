"""`memdb bench`: converting a data set and measuring recall over it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest
from source_tree import CHECKOUT

from memdb.evaluation import facts, measuring

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
def talk(tmp_path):
    """Return the path of a data set as it is published."""
    (tmp_path / "conv.json").write_text(json.dumps(TALK))
    return tmp_path / "conv.json"


def test_recall_prints_configuration_levels_and_comparison(run, talk):
    """The first lines say what was measured, with what."""
    shown = run("bench", "recall", talk).stdout

    assert "embedder static" in shown.splitlines()[0]
    assert "1 questions" in shown.splitlines()[1]
    assert "turns and documents" in shown
    assert "fused beside the arms alone, R@10" in shown


def test_recall_by_words_alone(run_json, talk):
    """--lexical needs no embedder, and measures nothing else but plain FTS5."""
    told = run_json("bench", "recall", talk, "--lexical")

    assert {row["arm"] for row in told["results"]} == {"lexical", "FTS5"}
    assert told["configuration"]["embedder"] is None


def test_records_hold_every_answer(run, talk, tmp_path):
    """One line of JSON per arm, level and question."""
    records = tmp_path / "answers.jsonl"
    run("bench", "recall", talk, "--records", records)

    answers = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(answers) == 13
    assert {one["level"] for one in answers} == {"turn", "session", "answer"}
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


def test_published_sets_are_converted_by_themselves(run_json, tmp_path):
    """Several at once give a report each."""
    (tmp_path / "conv.json").write_text(json.dumps(TALK))
    told = run_json("bench", "recall", tmp_path / "conv.json", tmp_path / "conv.json")

    assert [one["configuration"]["data"]["questions"] for one in told] == [1, 1]
    assert told[0]["configuration"]["data"]["name"].endswith("conv.json")


def test_worse_than_a_baseline_exits_7(run, talk, monkeypatch):
    """With a line that says so."""
    monkeypatch.setattr(
        "memdb.evaluation.measuring._answers",
        lambda ready, arm, service, question: iter(
            [measuring._answer(arm.name, "turn", question, question.evidence, [], 1.0)]
        ),
    )
    done = run("bench", "recall", talk)

    assert done.exit_code == 7
    assert "best: FTS5 1.000" in done.stdout
    assert "WORSE" in done.stderr


def test_only_a_sentence_model_needs_the_extra(talk):
    """Measures do without; an embedder that is missing is named with what to install."""
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('numpy', 'onnxruntime', 'fastembed')))\n"
        "from memdb.cli import main\n"
        "main()"
    )
    asked = [sys.executable, "-c", program, "bench", "recall", talk]

    def ask(*options):
        return subprocess.run([*asked, *options], check=False, capture_output=True, text=True)

    whole = ask()
    model = ask("--embedder", "fastembed:x")
    bare = ask("--lexical")

    assert (whole.returncode, bare.returncode) == (0, 0), whole.stderr + bare.stderr
    assert model.returncode == 5
    assert "pip install 'memdb-sqlite[fastembed]'" in model.stderr


def test_the_extra_brings_what_it_names():
    """`pip install memdb-sqlite[bench]` makes every embedder by name possible that runs here."""
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    assert extras["bench"] == extras["fastembed"]


def test_compare_says_what_changed(run, run_json, talk, tmp_path):
    """By arm, level and measure, with how many questions got better and worse."""
    before, after = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    run("bench", "recall", talk, "--records", before)
    lines = [json.loads(line) for line in before.read_text().splitlines()]
    for line in lines:
        line["scores"] |= {"MRR": 0.5} if line["level"] == "turn" else {}
    after.write_text("\n".join(map(json.dumps, lines)))
    told = run_json("bench", "compare", before, after)
    (mrr,) = [
        one
        for one in told
        if (one["arm"], one["level"], one["measure"]) == ("fused", "turn", "MRR")
    ]

    assert ("answer", "sure") in {(one["level"], one["measure"]) for one in told}
    assert (mrr["before"], mrr["after"], mrr["change"]) == (1.0, 0.5, -0.5)
    assert (mrr["interval"], mrr["better"], mrr["worse"]) == ([-0.5, -0.5], 0, 1)
    assert "-0.500 to -0.500 *" in run("bench", "compare", before, after).stdout
    assert run("bench", "compare", before, talk).exit_code == 5
    assert run("bench", "compare", before, tmp_path / "none").exit_code == 6


PAIR = {
    "older": "The hut is red.",
    "newer": "The barn is green.",
    "kind": "none",
    "question_older": "Is the hut red?",
}


def test_facts_reports_and_keeps_records(run, tmp_path):
    """One line of JSON per judged case, and a table without --json."""
    records = tmp_path / "cases.jsonl"
    (tmp_path / "set.jsonl").write_text(json.dumps(PAIR))
    done = run("bench", "facts", tmp_path / "set.jsonl", "--lexical", "--records", records)

    assert done.exit_code == 0
    assert "1 pairs, 0 sequences" in done.stdout
    kept = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(one["measure"], one["alone"], one["holds"]) for one in kept] == [
        ("wrong link above .8", False, False),
        ("lost", False, False),
        ("lost", True, False),
    ]


def test_facts_exits_7_if_memory_loses_more(run, tmp_path, monkeypatch):
    """With a line that says so."""
    (tmp_path / "set.jsonl").write_text(json.dumps(PAIR))
    lost = facts.Result("words", False, "lost", "en", "none", "1", True)
    told = [lost, lost.replace(alone=True, holds=False)]
    monkeypatch.setattr(facts, "run", lambda *_, **__: iter(told))
    done = run("bench", "facts", tmp_path / "set.jsonl", "--lexical")

    assert done.exit_code == 7
    assert "WORSE" in done.stderr
