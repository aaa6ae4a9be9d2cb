"""Docstrings, help and documents are written for readers: docs/words.py finds what is not."""

import importlib.util
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("words", ROOT / "docs" / "words.py")
words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)


def test_no_package_has_more_findings_than_are_left_to_mend():
    """The numbers of docs/words.toml may only fall."""
    left = tomllib.loads((ROOT / "docs" / "words.toml").read_text(encoding="utf-8"))
    found = words.collect()
    worse = [one for name, ones in found.items() if len(ones) > left.get(name, 0) for one in ones]

    assert worse == [], "rewrite what you added; `python docs/words.py PACKAGE` lists a package"


def test_each_rule_finds_its_sentence():
    """A docstring that breaks a rule is found by it, a plain one by none."""
    long = f"Return {'many ' * 26}rows."
    rules = {
        text: [one.rule for one in words.of_docstring("here", text, call=True)]
        for text in (
            "Return the rows of a scope.",
            "What a row holds.",
            "Rows of a scope.",
            "Make the index anew.",
            long,
        )
    }

    assert [*rules.values()] == [[], ["relative"], ["verb"], ["retired"], ["long"]]
