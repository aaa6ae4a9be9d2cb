"""The table of markers: what it refuses, and what its words tell."""

from __future__ import annotations

import pytest
from cases import each

from memdb.errors import InvalidInput
from memdb.facts.markers import KINDS, LANGUAGES, MOST_ENTRIES, markers, marks, parse
from memdb.text.resources import compiled


def test_every_language_has_every_kind() -> None:
    """The table that is shipped is complete, and within its bound."""
    found = {code: tuple(kinds) for code, kinds in markers().items()}

    assert set(found) == set(LANGUAGES)
    assert {code: kinds for code, kinds in found.items() if set(kinds) != set(KINDS)} == {}
    assert all(compiled(pattern) for kinds in markers().values() for pattern in kinds.values())


@each(
    "text, line, what",
    [
        ('[en]\nchange = ["now"]\n\n[xx]\nchange = ["a"]\n', 4, "'xx' is not a language"),
        ('[en]\nchange = ["now"]\nmood = ["sad"]\n', 3, "'mood' is not a kind"),
        ('[de]\nchange = "jetzt"\n', 2, "not a list of patterns"),
        ("[fr]\nchange = [" + '"a", ' * (MOST_ENTRIES + 1) + "]\n", 1, "more than 60"),
        ("[en\n", 1, "not TOML"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    """The error names the line and the fault."""
    with pytest.raises(InvalidInput, match=rf"line {line}\b") as caught:
        parse(text)

    assert what in str(caught.value)


@each(
    "text, kinds",
    [
        ("I might move.", {"hedge"}),
        ("If it rains, we stay.", {"condition"}),
        ("Don't I wear glasses?", {"negation", "question"}),
        ("In May we fly.", set()),
        ("Ich wohne nicht mehr in Graz.", {"negation", "retraction"}),
        ("他说他住在北京吗?", {"question"}),
        ("もし雨なら行きません。", {"condition", "negation"}),
        ("हम अब पुणे में रहते हैं।", {"change"}),
    ],
)
def test_marks(text: str, kinds: set[str]) -> None:
    """The kinds of a sentence are found in every script, at the edges of words."""
    assert kinds <= set(marks(text))
    if not kinds:
        assert not marks(text)
