"""Artifacts are found by the meaning of their passages, where that asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memdb.search.kinds import COMPARED_ARTIFACTS, COMPARED_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB
    from tests.conftest import FakeEmbedder

PLANE = "The aircraft departs at dawn from Gardermoen."
NOTES = {
    "plane.md": PLANE,
    "cake.md": "The cake needs four eggs and much butter.",
    "knee.md": "My doctor says the knee heals slowly.",
    "roof.md": "It rains through the roof of the shed.",
    "dog.md": "The dog must be vaccinated in spring.",
    "piano.md": "The piano is out of tune again.",
    "job.md": "She teaches physics at a school in Turku.",
}
ASKED = "When does the plane leave?"


@pytest.fixture
def db(open_db: Callable[..., MemDB]) -> Iterator[MemDB]:
    """Return a file with the embedder that comes with memdb."""
    opened = open_db(":memory:", embedder="static")
    yield opened
    assert opened.file.check() == []


def noted(db: MemDB) -> Any:
    """Return a scope with the notes, and nothing else."""
    ann = db.scope("ann")
    for name, text in NOTES.items():
        ann.artifacts.save(name, text)
    return ann


def test_the_nearest_passage_is_the_first_hit(db: MemDB) -> None:
    """Without a shared word it is never sure; the hit shows that passage."""
    hits = noted(db).recall(ASKED)

    assert (hits[0].source.artifact, hits[0].text) == ("user:plane.md", PLANE)
    assert hits.certainty == "unsure"


def test_what_no_note_tells_finds_nothing(db: MemDB) -> None:
    """A note is not the answer because there is no other."""
    ann = noted(db)

    for asked in ("How many moons has Jupiter?", "Who won the chess match?"):
        assert ann.recall(asked).certainty == "none"


def test_the_passage_of_a_long_note_is_shown(db: MemDB) -> None:
    """Of a note of many paragraphs."""
    ann = noted(db)
    ann.artifacts.save("long.md", "\n\n".join([*[*NOTES.values()][1:], PLANE]))
    ann.artifacts.delete("plane.md")

    hit = ann.recall(ASKED, kinds=["artifact"])[0]

    assert (hit.source.artifact, hit.text) == ("user:long.md", PLANE)


def test_words_that_are_shared_come_first(db: MemDB) -> None:
    """As before, and for sure."""
    hits = noted(db).recall("When does the aircraft depart?")

    assert (hits[0].source.artifact, hits.certainty) == ("user:plane.md", "sure")


def test_only_what_may_be_seen_is_compared(db: MemDB) -> None:
    """A session sees its own notes, a user no other's; what is gone is not found."""
    ann = noted(db)
    ann.session("trip").artifacts.save("own.md", PLANE)
    ann.artifacts.delete("plane.md")

    found = ann.recall(ASKED, session="trip").hits
    assert [hit.source.artifact for hit in found] == ["own.md"]
    assert ann.session("other").recall(ASKED).hits == ()
    assert db.scope("bob").recall(ASKED).hits == ()
    ann.forget(session="trip")
    assert not [hit for hit in ann.recall(ASKED, min_score=0) if hit.text == PLANE]


def test_an_excluded_word_excludes_a_passage(db: MemDB) -> None:
    """The rule of all kinds."""
    found = noted(db).recall(ASKED, exclude=["dawn"], min_score=0)

    assert "user:plane.md" not in [hit.source.artifact for hit in found]


def test_so_many_passages_are_compared(db: MemDB) -> None:
    """Of the newest artifacts, each from its beginning: what a question costs has an end."""
    ann = db.scope("ann")
    ann.artifacts.save("first.md", PLANE)
    ann.artifacts.save("long.md", "x " * (COMPARED_CHARS // 2) + PLANE)
    for number in range(COMPARED_ARTIFACTS - 1):
        ann.artifacts.save(f"{number}.md", f"Row {number} of the table.")

    assert "user:first.md" not in [hit.source.artifact for hit in ann.recall(ASKED, min_score=0)]
    assert [one for one in ann.recall(ASKED, min_score=0) if PLANE in one.text] == []


def test_no_other_embedder_is_asked_for_passages(
    open_db: Callable[..., MemDB], embedder: FakeEmbedder
) -> None:
    """A server would be paid for each question."""
    ann = noted(open_db(":memory:"))
    ann.remember("The harbour is in Bergen.")
    ann.recall(ASKED)

    assert ASKED.strip("?").split()[-1] in " ".join(embedder.calls)
    assert not {*NOTES.values()} & {*embedder.calls}
