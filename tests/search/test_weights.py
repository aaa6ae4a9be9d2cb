"""Every number of the ranking stands in one module."""

import ast
from pathlib import Path

import pytest

import memdb.search
from memdb.search.weights import MESSAGES, SENTENCES, STATIC_MODEL, for_messages, widened

FOLDER = Path(memdb.search.__file__).parent
# Limits on input, and rows read per statement, change no score.
LIMITS = {
    "MAX_LIMIT",
    "MAX_QUERY_CHARS",
    "NO_SPAN",
    "_MAX_PHRASES",
    "_PHRASE_CHARS",
    "_MIN_NAME",
    "_LONG_NAME",
    "_MAX_NAME",
    "_MAX_MISSPELT",
    "PAGE",
    "NOTHING",
}


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


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_weights_holds_numbers(path: Path) -> None:
    """A threshold elsewhere would be changed, or measured, without the others."""
    if path.stem != "weights":
        assert numbers_of(path) <= LIMITS


def test_the_model_chooses_the_weights() -> None:
    """Words alone and the built-in table share one set."""
    assert for_messages(None) is for_messages(STATIC_MODEL) is MESSAGES
    assert for_messages("all-MiniLM-L6-v2") is SENTENCES


def test_long_answers_widen_the_arms() -> None:
    """Arms and seeds are never shorter than the answer, and never get shorter."""
    assert widened(MESSAGES, 10) is MESSAGES
    assert (widened(MESSAGES, 500).arm, widened(MESSAGES, 500).seeds) == (500, 500)
    assert widened(MESSAGES.replace(seeds=1_000), 500).seeds == 1_000
