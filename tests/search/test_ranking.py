"""The ranking: pure numbers in, ranked ids out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scores import score_of

from memdb.search.candidates import (
    Candidates,
    Fused,
    Lexical,
    Worth,
    best,
    fuse,
    idf,
    top,
)
from memdb.search.features import Features, read_features, row_of
from memdb.search.parse import Corpus, parse_query
from memdb.search.rank import rank, rank_entries
from memdb.search.weights import DOCUMENTS, MESSAGES, Weights

if TYPE_CHECKING:
    from memdb.search.candidates import Row

FIRST = 1 << 44 | 1 << 24
OTHER = 1 << 44 | 2 << 24
NOON_3_MAY_2023 = 1_683_115_200_000
DAY = 86_400_000
LAST_SEQ = (1 << 24) - 1

# One term at a time: everything switched off that a test does not look at.
PLAIN = MESSAGES.replace(context=(), previous=0.0, next=0.0)


def row(text: str = "word", author: str | None = None, created_ms: int = 0) -> Row:
    """Return a row with only what a test cares for."""
    return row_of(text, author, created_ms)


def lexical_scores(
    postings: dict[str, list[int]], total: int, weights: Weights = MESSAGES
) -> dict[int, float]:
    """Return the scores of the words of a query."""
    return Lexical(postings, total, weights).scores


def fused(scores: dict[int, float]) -> Fused:
    """Return *scores* as if the lexical arm had given them."""
    return Fused(scores, {}, scores)


def features(text: str, rows: dict[int, Row], scores: dict[int, float]) -> Features:
    """Return the features of *rows* if the lexical arm gave them *scores*."""
    corpus = Corpus("message", (FIRST, OTHER), None, 40, {})
    candidates = Candidates(corpus, Lexical({}, 40), {}, scores, fused(scores), rows)
    return read_features(parse_query(text, ["Ann", "Bob"]), candidates, PLAIN, with_similar=False)


def test_idf_is_positive_and_falls() -> None:
    """A rarer word weighs more, and no word weighs nothing."""
    assert idf(1, 10) == pytest.approx(math.log(1 + 9.5 / 1.5))
    assert idf(10, 10) == pytest.approx(math.log(1 + 0.5 / 10.5))
    assert idf(0, 0) > idf(11, 10) > 0


def test_lexical_scores_sum_the_words() -> None:
    """Without context a message scores the weights of the words it holds."""
    scores = lexical_scores({"a": [1, 2], "b": [2], "c": []}, 10, DOCUMENTS)

    assert scores == pytest.approx({1: idf(2, 10), 2: idf(2, 10) + idf(1, 10)})


def test_lexical_scores_reach_the_neighbours() -> None:
    """A word counts in part for the messages around it, in the same session."""
    scores = lexical_scores({"a": [FIRST + 3]}, 10, PLAIN.replace(context=((1, 0.5), (-1, 0.3))))

    assert scores == pytest.approx(
        {FIRST + 2: 0.3 * idf(1, 10), FIRST + 3: idf(1, 10), FIRST + 4: 0.5 * idf(1, 10)}
    )


def test_lexical_scores_count_a_word_once() -> None:
    """Of a word in the message and beside it only the best place counts."""
    weights = PLAIN.replace(context=((1, 0.5), (-1, 0.3)))
    scores = lexical_scores({"a": [FIRST + 3, FIRST + 4]}, 10, weights)

    assert scores[FIRST + 3] == scores[FIRST + 4] == pytest.approx(idf(2, 10))
    assert scores[FIRST + 5] == pytest.approx(0.5 * idf(2, 10))


def test_lexical_scores_stay_in_the_session() -> None:
    """Before the first message of a session there is nothing."""
    assert set(lexical_scores({"a": [OTHER + 1]}, 10)) == {OTHER + 1, OTHER + 2, OTHER + 3}


def test_a_common_word_adds_no_candidates_to_a_full_pool() -> None:
    """Once rarer words have found enough, a common one only adds to those."""
    postings = {"common": list(range(1, 50)), "rare": [3, 60]}
    scores = lexical_scores(postings, 100, DOCUMENTS.replace(pool=2))

    assert scores == pytest.approx({3: idf(49, 100) + idf(2, 100), 60: idf(2, 100)})


def test_lexical_scores_of_nothing() -> None:
    """No words, no scores."""
    assert lexical_scores({}, 0) == {}
    assert lexical_scores({"a": []}, 5) == {}


def test_fuse_mixes_the_arms() -> None:
    """Each arm is scaled to its best and gives its share."""
    found = fuse({1: 4.0, 2: 2.0}, {2: 0.5, 3: 0.25}, PLAIN.replace(lexical_share=0.5))

    assert found.lexical == {1: 0.5, 2: 0.25}
    assert found.vector == {2: 0.5, 3: 0.25}
    assert found.score == {1: 0.5, 2: 0.75, 3: 0.25}
    assert [found.base(one) for one in (1, 2, 9)] == [0.5, 0.75, 0.0]


@pytest.mark.parametrize(
    ("lexical", "cosine", "score"),
    [
        pytest.param({1: 2.0}, {}, {1: 1.0}, id="only words"),
        pytest.param({}, {1: 0.2}, {1: 1.0}, id="only vectors"),
        pytest.param({1: 2.0}, {2: -0.1, 3: 0.0}, {1: 1.0}, id="no near vector"),
        pytest.param({}, {}, {}, id="nothing"),
    ],
)
def test_fuse_leaves_the_share_of_an_empty_arm_to_the_other(
    lexical: dict[int, float], cosine: dict[int, float], score: dict[int, float]
) -> None:
    """An arm that found nothing does not halve the scores."""
    assert fuse(lexical, cosine, PLAIN).score == score


def test_fuse_takes_the_best_of_each_arm() -> None:
    """Beyond `arm` candidates are dropped; equal ones from the oldest."""
    found = fuse({1: 1.0, 2: 1.0, 3: 2.0}, {}, PLAIN.replace(arm=2))

    assert found.score == {3: 1.0, 2: 0.5}


def test_fuse_adds_the_neighbours() -> None:
    """A share of the base goes to the next and the previous message, found or not."""
    found = fuse({FIRST + 5: 1.0, FIRST + 6: 0.5}, {}, PLAIN.replace(previous=0.3, next=0.2))

    assert found.score == pytest.approx(
        {FIRST + 4: 0.2, FIRST + 5: 1.0 + 0.1, FIRST + 6: 0.5 + 0.3, FIRST + 7: 0.15}
    )


def test_best_returns_places_only() -> None:
    """The first stage never asks for a message before the first of a session."""
    found = fused({OTHER + 2: 0.9, OTHER: 0.8, OTHER - 1: 0.7, OTHER + 1: 0.6})

    assert sorted(best(found, 4)) == [OTHER + 1, OTHER + 2]
    assert best(found, 1) == [OTHER + 2]
    assert best(found, 0) == []


def test_rank_orders_ties_newest_first_and_stops_at_the_limit() -> None:
    """Equal scores come by id, the highest first."""
    rows = {10: row(), 30: row(), 20: row()}

    found = rank(features("tea", rows, dict.fromkeys(rows, 0.5)), limit=2)

    assert [one.id for one in found] == [30, 20]
    assert [one.terms for one in found] == [{}, {}]
    assert rank(features("tea", {}, {})) == []


def test_rank_entries() -> None:
    """Entries are fused half and half; importance moves them gently."""
    weights = DOCUMENTS.replace(lexical_share=0.5, importance=0.2, entry_scale=2.0)
    found = rank_entries(
        {1: 1.0, 2: 1.0}, {3: 0.7}, {1: Worth(10), 2: Worth(1)}, weights=weights, explain=True
    )

    assert [one.id for one in found] == [1, 3, 2]
    assert [one.score for one in found] == pytest.approx([0.5 * 1.2 * 2, 0.5 * 2, 0.5 * 0.84 * 2])
    assert found[1].terms == {
        "lexical": 0.0,
        "vector": 0.5,
        "importance": 1.0,
        "freshness": 1.0,
        "use": 1.0,
        "scale": 2.0,
    }
    assert rank_entries({1: 1.0}, {}, {}, limit=1)[0].terms == {}


def test_top() -> None:
    """The highest scores first, equal ones by id from the highest."""
    scores = {1: 0.5, 2: 0.9, 3: 0.5, 4: 0.1}

    assert top(scores, 2) == [2, 3]
    assert top(scores, 9) == [2, 3, 1, 4]
    assert top(scores, 0) == []
    assert top({}, 3) == []


ids = st.builds(
    lambda session, seq: 1 << 44 | session << 24 | seq,
    st.integers(1, 3),
    st.one_of(st.integers(1, 12), st.sampled_from([LAST_SEQ])),
)
texts = st.sampled_from(["", "tea", "Where is the tea?", "we had tea " * 20])
authors = st.sampled_from([None, "Ann", "Bob"])
moments = st.sampled_from([0, NOON_3_MAY_2023, NOON_3_MAY_2023 + DAY, -DAY])
row_maps = st.dictionaries(ids, st.builds(row_of, texts, authors, moments), max_size=20)
posting_maps = st.dictionaries(st.sampled_from("abc"), st.lists(ids, unique=True, max_size=8))
cosines = st.dictionaries(ids, st.floats(-1, 1), max_size=8)
questions = st.sampled_from(["tea", "Ann on 3 May?", "Ann and Bob in 2023", ""])


@given(cosines, row_maps, questions)
def test_scores_recompute_from_their_terms(
    cosine: dict[int, float], rows: dict[int, Row], text: str
) -> None:
    """Whatever is ranked, its terms give its score, and only rows are ranked, best first."""
    found = rank(features(text, rows, cosine), limit=30, explain=True)

    assert {one.id for one in found} == set(rows)
    assert all(one.score == pytest.approx(score_of("message", one.terms)) for one in found)
    assert [(-one.score, -one.id) for one in found] == sorted((-o.score, -o.id) for o in found)


@given(cosines, row_maps, questions, st.integers(0, 30))
def test_explaining_changes_nothing(
    cosine: dict[int, float], rows: dict[int, Row], text: str, limit: int
) -> None:
    """The order and the scores are the same with and without an explanation."""
    read = features(text, rows, cosine)
    plain = rank(read, limit=limit)
    explained = rank(read, limit=limit, explain=True)

    assert [(one.id, one.score) for one in plain] == [(one.id, one.score) for one in explained]
    assert len(plain) == min(limit, len(rows))


@given(posting_maps, st.sets(st.integers(1, 12), max_size=6))
def test_another_session_never_raises_a_lexical_score(
    postings: dict[str, list[int]], added: set[int]
) -> None:
    """More messages of another session that hold a word make that word weigh less, not more."""
    before = lexical_scores(postings, 60)
    more = {
        word: sorted({*found, *(9 << 24 | 1 << 44 | seq for seq in added)})
        for word, found in postings.items()
    }
    after = lexical_scores(more, 60)

    assert all(after[message] <= score + 1e-9 for message, score in before.items())
