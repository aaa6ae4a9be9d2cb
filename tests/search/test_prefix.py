"""A word that is being typed finds what begins so, by the same ranker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cases import each

import memdb
from memdb.text.terms import begun_terms, query_words, word_terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb import MemDB, Scope


@pytest.fixture(scope="module")
def ann() -> Iterator[Scope]:
    """Return a scope with names, stems and other scripts, in all kinds and in the archive."""
    with memdb.open(":memory:") as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        chat.extend([{"role": "user", "text": f"It rains on day {n}."} for n in range(60)])
        chat.append("user", "Ragnhild lends us her boat.")
        chat.archive(keep_last=0)
        chat.append("user", "My brother Birger sails to Bergen with almonds.")
        chat.append("user", "The cupboard is running out of soap.")
        chat.append("user", "Grüße aus Königsberg")
        ann.remember("Birger is allergic to nuts.")
        ann.session("other").create(title="Birger's boat")
        yield ann


@each(
    "typed, found",
    [
        ("Bi", "Birger"),
        ("Birg", "Birger"),
        ("BIRGE", "Birger"),
        ("Birger", "Birger"),
        ("where does my brother Birg", "Birger"),
        ("almon", "almonds"),
        ("runni", "running"),
        ("runnin", "running"),
        ("running", "running"),
        ("Köni", "Königsberg"),
        ("ragnh", "Ragnhild"),
        ("allerg", "allergic"),
    ],
)
@each("by", ["meaning", "words"])
def test_the_beginning_of_a_word_finds_it(ann: Scope, typed: str, found: str, by: str) -> None:
    """Also within a sentence, in the archive, and where the index holds only the stem."""
    hits = ann.recall(typed, 3, by=by, prefix=True)

    assert found in hits[0].text
    assert [hit.rank for hit in hits] == [*range(1, len(hits) + 1)]


def test_every_kind_is_found(ann: Scope) -> None:
    """Messages, entries and titles."""
    assert {hit.kind for hit in ann.recall("Birg", prefix=True)} == {"message", "entry", "session"}
    assert ann.session("trip").recall("Birg", prefix=True)[0].source.session in ("trip", None)


@pytest.mark.parametrize("typed", ["Birg", "almon", "ragnh"])
def test_without_it_only_whole_words_count(ann: Scope, typed: str) -> None:
    """So it is the flag that finds them."""
    assert not [hit for hit in ann.recall(typed, by="words") if "B" in hit.text[:1]]


@pytest.mark.parametrize("typed", ["Birg ", "Birg?", "B", "", " ", '"', "Birg*"])
def test_what_is_no_beginning_is_searched_as_ever(ann: Scope, typed: str) -> None:
    """A space or mark ends the word, and one letter begins too many."""
    assert ann.recall(typed, by="words", prefix=True) == ann.recall(typed, by="words")


@pytest.mark.parametrize(
    "typed",
    [
        'a"b',
        "x' OR 1",
        "NEAR(a b",
        "text:ab",
        "col : x",
        "a AND b",
        "(((ab",
        "{text} ab",
        "^ab",
        "ab*cd",
    ],
)
def test_no_character_of_it_is_syntax(ann: Scope, typed: str) -> None:
    """Quoted for the index like any other word."""
    ann.recall(typed, prefix=True)


def test_its_forms_are_bounded() -> None:
    """However long the word is: the beginning, the word, and one form per ending."""
    for word in ("a" * 5000, "runni" * 900, "nationat", "i" * 40):
        (term,) = [
            one for one in begun_terms(word_terms(query_words(word)), word) if one.prefix
        ] or [None]
        assert term is None or len(term.any_of) <= 3


def test_a_whole_word_ranks_as_without_it(db: MemDB) -> None:
    """Nothing else begins like it: the same hits, in the same order."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"The ferry leaves at {n}."} for n in range(9)])
    chat.append("user", "Zanzibar is far.")

    plain, begun = (
        chat.recall("zanzibar", by="words"),
        chat.recall("zanzibar", by="words", prefix=True),
    )

    assert [hit.text for hit in begun] == [hit.text for hit in plain]
