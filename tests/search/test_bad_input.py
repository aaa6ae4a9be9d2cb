"""
What recall is asked by mistake, and what a plugged-in embedder may do to it.

Either words answer all the same, and the answer says what was missing, or the error names the
field and the fix.
"""

import math
import time
from typing import Any

import pytest
from cases import each

import memdb
from memdb import MemDB
from memdb.models import model_client

SAID = ["I drink green tea.", "We fly to Oslo on 3 May.", "party 🎉 tonight", "who are you"]


@pytest.fixture
def ann(db: MemDB) -> memdb.Scope:
    """Return a scope with four messages and an entry."""
    scope = db.scope("ann")
    scope.session("s").extend([{"role": "user", "text": text} for text in SAID])
    scope.remember("Ann likes tea.")
    return scope


@each(
    "query",
    [
        "",
        " \n\t ",
        "?!",
        "who are you",
        "the and of",
        "🎉",
        "🦄🦄🦄",
        "Wo ist das Fahrrad?",
        "自転車はどこですか",
        "tea " * 2_500,
        "\0\ud800",
        '"',
        "-tea",
        "-",
    ],
)
def test_any_text_is_a_query(ann: memdb.Scope, query: str) -> None:
    """Empty, only stop words, only emoji, a megabyte, another language: a list, never an error."""
    for kinds in (("message",), ("entry",), ("artifact",), ("message", "entry", "artifact")):
        hits = ann.recall(query, kinds=kinds, explain=True)

        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert isinstance(ann.recall(query, group="session"), memdb.Hits)


@pytest.mark.slow
@pytest.mark.parametrize("place", [":memory:"])
def test_a_megabyte_is_a_query(ann: memdb.Scope, place: str) -> None:
    """It is cut, not refused."""
    hits = ann.recall("tea " * 250_000, explain=True)

    assert {hit.kind for hit in hits} == {"message", "entry"}


@pytest.mark.parametrize(("query", "seq"), [("who are you", 4), ("🎉", 3), ("are the", 4)])
def test_stop_words_and_emoji_are_found_where_nothing_else_is_asked(
    path: str, open_db: Any, query: str, seq: int
) -> None:
    """By words alone too."""
    scope = open_db(path, embedder=None).scope("ann")
    scope.session("s").extend([{"role": "user", "text": text} for text in SAID])

    assert scope.recall(query)[0].source.seq == seq


def test_stop_words_are_looked_for_where_no_other_word_is_found(path: str, open_db: Any) -> None:
    """A question that shares a word is not left without a match, below the floor as that is."""
    scope = open_db(path, embedder=None).scope("ann")
    scope.session("s").extend([{"role": "user", "text": text} for text in SAID])

    assert scope.recall("are zeppelins blue?", min_score=0)[0].source.seq == 4
    assert not scope.recall("are zeppelins blue?")


@pytest.mark.parametrize(
    ("query", "said"),
    [("x" * 1_000_001, "query has 1,000,001"), (None, "NoneType"), (b"tea", "bytes")],
)
def test_what_is_no_query_is_refused(ann: memdb.Scope, query: Any, said: str) -> None:
    """The error names it."""
    with pytest.raises(memdb.InvalidInput, match=said):
        ann.recall(query)


@each("limit", [-1, 1001, 10**9, 2**70, True, 5.0, "5", None])
def test_a_limit_out_of_range_is_refused(ann: memdb.Scope, limit: Any) -> None:
    """In each way to ask."""
    for ask in (
        lambda: ann.recall("tea", limit),
        lambda: ann.recall("tea", limit, group="session"),
        lambda: ann.why("tea", "s", 1, limit),
        lambda: ann.session("s").recall("tea", limit, kinds=("message",), by="words"),
    ):
        with pytest.raises(memdb.InvalidInput, match="limit"):
            ask()


class Broken:
    """An embedder of 16 dimensions that answers as it is told."""

    name = "broken"
    dim = 16

    def __init__(self) -> None:
        """Answer well at first."""
        self.answer: Any = lambda texts: [[1.0] * 16 for _ in texts]

    def embed(self, texts: Any) -> Any:
        """Return what the test wants."""
        return self.answer(texts)


def _raise(texts: Any) -> Any:
    raise RuntimeError("no model")


def _raise_halfway(texts: Any) -> Any:
    yield [1.0] * 16
    raise RuntimeError("lost the connection")


WRONG = {
    "a wrong dimension": lambda texts: [[1.0] * 8 for _ in texts],
    "NaN": lambda texts: [[math.nan] * 16 for _ in texts],
    "infinity": lambda texts: [[math.inf] + [1.0] * 15 for _ in texts],
    "nothing but zeros": lambda texts: [[0.0] * 16 for _ in texts],
    "fewer vectors": lambda texts: [],
    "more vectors": lambda texts: [[1.0] * 16] * (len(texts) + 1),
    "None": lambda texts: None,
    "numbers for vectors": lambda texts: [1.0 for _ in texts],
    "words for numbers": lambda texts: [["x"] * 16 for _ in texts],
    "an error": _raise,
    "an error halfway": _raise_halfway,
}


def calls_of(db: MemDB, port: str) -> memdb.CallStats:
    """Return the figures of a port."""
    return next(one for one in db.stats().calls if one.name == port)


@each("fault,is_early", [(fault, is_early) for fault in WRONG for is_early in (False, True)])
def test_words_answer_where_the_embedder_does_not(
    open_db: Any, fault: str, *, is_early: bool
) -> None:
    """It is said what is missing and why, and counted; where no word is found, the error comes."""
    embedder = Broken()
    if is_early:
        embedder.answer = WRONG[fault]
    with open_db(":memory:", embedder=embedder) as db:
        ann = db.scope("ann")
        ann.session("s").extend([{"role": "user", "text": text} for text in SAID])
        ann.remember("Ann likes tea.")
        ann.recall("tea")
        embedder.answer = WRONG[fault]
        before = calls_of(db, "embedder 'broken'").failed

        hits = ann.recall("green tea")
        failed = calls_of(db, "embedder 'broken'").failed
        groups = ann.recall("green tea", group="session")

        assert hits[0].text in ("I drink green tea.", "Ann likes tea.")
        assert hits.arms == ("lexical",)
        assert set(hits.missing) == {"vector", "similar"}
        assert "broken" in hits.missing["vector"]
        assert isinstance(hits.failure, memdb.PortError)
        assert failed > before
        assert groups[0].source.session == "s"
        assert isinstance(groups.failure, memdb.PortError)
        with pytest.raises(memdb.PortError, match="broken"):
            ann.recall("zeppelin")
        assert db.file.check() == []


NOTES = ["The tea is green.", "The tea is black.", "The tea is white."]
WRONG_SCORES = {
    "fewer scores": lambda _, texts: [1.0] * (len(texts) - 1),
    "more scores": lambda _, texts: [1.0] * (len(texts) + 1),
    "NaN": lambda _, texts: [math.nan] * len(texts),
    "infinity": lambda _, texts: [math.inf] * len(texts),
    "None": lambda *_: None,
    "words": lambda _, texts: ["x"] * len(texts),
    "an error": lambda *_: _raise(_),
    "an error halfway": lambda *_: _raise_halfway(_),
    "nothing in time": lambda *_: time.sleep(20),
}


def told(open_db: Any, reranker: Any, query: str = "Which tea?") -> tuple[MemDB, memdb.Hits]:
    """Return a file that has a reranker and three notes, and what is recalled of them."""
    db = open_db(":memory:", reranker=reranker)
    db.scope("ann").session("s").extend([{"role": "user", "text": text} for text in NOTES])
    return db, db.scope("ann").recall(query)


@each("fault", WRONG_SCORES)
def test_the_order_stays_where_a_reranker_fails(open_db: Any, fault: str) -> None:
    """It is said why, and counted; contexts are made as well."""
    usual = [hit.text for hit in told(open_db, None)[1]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_client, "RERANK_TIMEOUT_S", 0.02)

        def wrong(query: str, texts: Any) -> Any:
            return WRONG_SCORES[fault](query, texts)

        db, hits = told(open_db, wrong)
        again = db.scope("ann").recall("Which tea?")
        window = db.scope("ann").session("new").context(2_000, "Which tea?")

    assert [hit.text for hit in hits] == [hit.text for hit in again] == usual
    assert "reranker 'wrong' failed" in hits.missing["reranker"]
    rests = fault == "nothing in time"
    assert ("left alone" in again.missing["reranker"]) is rests
    assert calls_of(db, "reranker 'wrong'").failed >= 2
    assert window.tokens <= 2_000


def test_a_reranker_puts_the_best_in_order(open_db: Any) -> None:
    """Scores still fall, ranks count from 1, and a context takes its order too."""
    asked: list[tuple[str, list[str]]] = []

    def by_white(query: str, texts: Any) -> list[float]:
        asked.append((query, [*texts]))
        return [float("white" in text) for text in texts]

    db, hits = told(open_db, by_white)
    scores = [hit.score for hit in hits]
    sessions = db.scope("ann").recall("Which tea?", group="session")

    assert hits[0].text == "The tea is white."
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert scores == sorted(scores, reverse=True)
    assert "reranker" not in hits.missing
    assert asked[0][0] == "Which tea?"
    assert sorted(asked[0][1]) == sorted(NOTES)
    assert len(asked) == 1, "sessions, words alone and vectors alone have an order of their own"
    assert sessions[0].source.session == "s"
    assert db.scope("ann").recall("tea", 1)[0].text == "The tea is white."


def test_a_reranker_that_cannot_be_called_is_refused(open_db: Any) -> None:
    """The error names the option."""
    with pytest.raises(memdb.InvalidInput, match="reranker"):
        open_db(":memory:", reranker="cross")


def test_an_embedder_that_has_nothing_to_say_is_no_failure(path: str, open_db: Any) -> None:
    """None for a text means that there is nothing to embed in it."""
    embedder = Broken()
    embedder.answer = lambda texts: [None for _ in texts]
    ann = open_db(path, embedder=embedder).scope("ann")
    ann.session("s").extend([{"role": "user", "text": text} for text in SAID])

    hits = ann.recall("green tea")

    assert hits[0].source.seq == 1
    assert "nothing to embed" in hits.missing["vector"]
    assert hits.failure is None
