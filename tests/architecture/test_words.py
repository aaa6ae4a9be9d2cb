"""Docstrings, help and documents are written for readers: docs/words.py finds what is not."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("words", ROOT / "docs" / "words.py")
words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)


def test_no_sentence_breaks_a_rule():
    """`python docs/words.py` finds nothing: rewrite what you added."""
    assert [one for ones in words.collect().values() for one in ones] == []


def test_each_rule_finds_its_sentence():
    """A docstring that breaks a rule is found by it, a plain one by none."""
    long = f"Return {'many ' * 26}rows."
    rules = {
        text: [
            one.rule
            for one in (
                *words.of_docstring("here", text, call=True),
                *words.of_words("here", text),
            )
        ]
        for text in (
            "Return the rows of a scope.",
            "What a row holds.",
            "Rows of a scope.",
            "Make the index anew.",
            long,
        )
    }

    assert [*rules.values()] == [[], ["relative"], ["verb"], ["retired"], ["long"]]
