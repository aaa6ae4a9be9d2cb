"""The table of markers: what it refuses, and what its words tell."""

from __future__ import annotations

from cases import each

from memdb.facts import keeping
from memdb.facts.markers import markers, marks
from memdb.text.resources import compiled, read_json

LANGUAGES = "en de fr es it pt nl pl tr ru ar hi zh ja ko".split()
KINDS = (
    "change correction negation question condition hedge report temporary retraction forget "
    "remember pronoun".split()
)
MOST_ENTRIES = 60  # of a language: the table stays one that a reader looks through


def test_every_language_has_every_kind() -> None:
    """The table has each kind of each language once, as a list of patterns, within its bound."""
    tables = read_json(keeping.__file__, "markers.json")

    assert [*tables] == LANGUAGES
    for code, kinds in tables.items():
        assert [*kinds] == KINDS, code
        assert sum(map(len, kinds.values())) <= MOST_ENTRIES, code
        assert all(isinstance(one, str) for entries in kinds.values() for one in entries), code
    assert all(compiled(pattern) for kinds in markers().values() for pattern in kinds.values())


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
