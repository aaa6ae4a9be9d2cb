"""Every number of the ranking stands once, and the weights follow the model."""

import ast
import hashlib
import json
from pathlib import Path

import pytest

import memdb.search
from memdb.search.candidates import Candidates, Lexical
from memdb.search.features import read_features
from memdb.search.parse import Corpus, parse_query
from memdb.search.rank import weights_of
from memdb.search.weights import BY_TABLE, MESSAGES, STATIC_MODEL, for_messages

FOLDER = Path(memdb.search.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
RANKER = json.loads((FOLDER / "ranker.json").read_text())


def numbers_of(path: Path) -> set[str]:
    """Return the names of a module that are assigned a number, or a value with one in it."""
    return {
        target.id
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and any(
            isinstance(part, ast.Constant) and isinstance(part.value, (int, float))
            for part in ast.walk(node.value)
            if not (isinstance(part, ast.Constant) and isinstance(part.value, bool))
        )
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_a_number_stands_once_and_is_read() -> None:
    """A second one of its name, or one that nobody reads, would be changed for nothing."""
    names = [name for path in MODULES for name in numbers_of(path)]
    read = {
        node.id if isinstance(node, ast.Name) else node.attr
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
    }

    assert sorted(names) == sorted(set(names))
    assert set(names) <= read


def test_the_model_chooses_the_weights() -> None:
    """A table of its own for words alone, the built-in table, and sentence models."""
    assert for_messages(None).table == "words"
    assert for_messages(STATIC_MODEL) is MESSAGES
    assert for_messages("all-MiniLM-L6-v2").table == "sentence"


def test_the_learned_table_has_the_features_that_recall_reads() -> None:
    """A feature without a weight, or a weight without a feature, would change nothing."""
    features = read_features(
        parse_query("tea"),
        Candidates(Corpus("message", (1, 9), None, 1, {}), Lexical({}, 1), {}, {}),
        MESSAGES,
        with_similar=False,
    )

    for tables in RANKER["tables"].values():
        assert set(tables) == set(features.columns)
    assert set(RANKER["tables"]) == set(BY_TABLE)


def test_the_learned_table_names_what_it_was_trained_on() -> None:
    """The conversations beside the script are those: who changes them must train again."""
    data = Path(__file__).parents[2] / "bench" / "ranker" / "conversations.jsonl"
    digest = hashlib.sha256(data.read_bytes()).hexdigest()

    assert RANKER["trained_on"]["ranker/conversations.jsonl"] == digest
    assert "beam/dev.jsonl" in RANKER["trained_on"]


def test_a_chat_with_an_assistant_changes_the_weights() -> None:
    """In proportion."""
    people, half, whole = (weights_of("static", share) for share in (0.0, 0.5, 1.0))

    assert half["base"] == pytest.approx((people["base"] + whole["base"]) / 2)
    assert whole["user"] > people["user"]
