"""Titles of conversations are texts: found by their words, shown with what is found, forgotten."""

from collections.abc import Callable
from pathlib import Path

import pytest

import memdb
from memdb import MemDB
from memdb.models.types import SearchBy

TITLE = "Bicycle repair in Lisbon"


def titled(db: MemDB, name: str, title: str, *texts: str) -> memdb.Session:
    """Return a new session of ann with a title and some messages."""
    chat = db.scope("ann").session(name)
    chat.create(title=title)
    for text in texts:
        chat.append("user", text)
    return chat


@pytest.mark.parametrize("by", ["meaning", "words"])
@pytest.mark.parametrize("query", ["Lisbon bicycle", "bicycles", TITLE])
def test_a_title_is_found_by_its_words(db: MemDB, query: str, by: SearchBy) -> None:
    """Stemmed, in the default kinds, also of a session in which nothing was said."""
    titled(db, "t", TITLE, "How much oil?")
    titled(db, "empty", f"{TITLE} again")
    titled(db, "u", "Tax return", "Which form?")

    hits = db.scope("ann").recall(query, 2, by=by)

    assert {(hit.kind, hit.text, hit.source.session, hit.source.title) for hit in hits} == {
        ("session", TITLE, "t", TITLE),
        ("session", f"{TITLE} again", "empty", f"{TITLE} again"),
    }


@pytest.mark.parametrize("query", ["自転車", "修理"])
def test_a_title_in_japanese_is_found_by_parts_of_words(db: MemDB, query: str) -> None:
    """As a message is."""
    titled(db, "t", "北京の自転車修理", "いくら？")

    assert [hit.source.session for hit in db.scope("ann").recall(query, by="words")] == ["t"]


def test_a_message_shows_the_title_of_its_session(db: MemDB) -> None:
    """None without one."""
    titled(db, "t", TITLE, "The chain needs oil.")
    db.scope("ann").session("s").append("user", "No oil on the stairs.")

    hits = db.scope("ann").recall("oil", kinds=["message"])

    assert {hit.source.session: hit.source.title for hit in hits} == {"t": TITLE, "s": None}


def test_grouped_sessions_count_their_title(db: MemDB) -> None:
    """It finds one whose messages say nothing, and puts one first that says it in both."""
    titled(db, "both", TITLE, "The bicycle needs oil.")
    titled(db, "title", "The bicycle", "What does it cost?")
    titled(db, "message", "Tax return", "The bicycle is deductible.")
    titled(db, "neither", "Holidays", "Where to?")

    hits = db.scope("ann").recall("bicycle", group="session", by="words")

    assert hits[0].source.session == "both"
    assert {hit.source.session for hit in hits} == {"both", "title", "message"}
    (only,) = [hit for hit in hits if hit.source.session == "title"]
    assert (only.text, only.hits) == ("The bicycle", ())


@pytest.mark.parametrize(
    "options", [{"session": "t"}, {"since": 5}, {"roles": ["user"]}, {"kinds": ["message"]}]
)
def test_a_title_is_not_an_answer_where_it_cannot_be(db: MemDB, options: dict[str, object]) -> None:
    """Inside its session, in a span of time, among messages."""
    titled(db, "t", TITLE, "How much oil?")

    hits = db.scope("ann").recall("Lisbon", by="words", **options)

    assert [hit.kind for hit in hits] == []


def test_titles_are_those_of_the_scope(db: MemDB) -> None:
    """Nobody else's title is found."""
    titled(db, "t", TITLE)

    assert list(db.scope("bob").recall("Lisbon", by="words")) == []


@pytest.mark.parametrize("call", ["delete", "forget"])
def test_a_session_takes_its_title_along(db: MemDB, call: str) -> None:
    """Out of the index too: the proof finds no byte of it."""
    chat = titled(db, "t", "Zoelinaville repairs", "How much oil?")

    if call == "forget":
        assert chat.forget(prove=True).proven
    else:
        chat.delete()

    assert list(db.scope("ann").recall("Zoelinaville", by="words")) == []
    assert db.file.check(deep=True) == []


def test_an_export_brings_titles_into_the_index(
    db: MemDB, tmp_path: Path, open_db: Callable[..., MemDB]
) -> None:
    """Titles of an imported file are found, and `rebuild` changes nothing."""
    titled(db, "t", f"{TITLE} 北京", "How much oil?")
    db.export(tmp_path / "ann.jsonl", user="ann")
    other = open_db(str(tmp_path / "other.db"))
    other.import_file(tmp_path / "ann.jsonl", user="ann")

    other.file.rebuild()

    for query in ("Lisbon", "北京"):
        assert [hit.source.session for hit in other.scope("ann").recall(query, by="words")] == ["t"]
    assert other.file.check(deep=True) == []
