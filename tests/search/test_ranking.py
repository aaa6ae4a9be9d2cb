"""The ranking: pure numbers in, ranked ids out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.search.parse import parse_query
from memdb.search.rank import (
    Fused,
    Row,
    Worth,
    best,
    fuse,
    idf,
    lexical_scores,
    rank,
    rank_entries,
    score_of,
    top,
)
from memdb.search.weights import DOCUMENTS, MESSAGES

FIRST = 1 << 44 | 1 << 24
OTHER = 1 << 44 | 2 << 24
NOON_3_MAY_2023 = 1_683_115_200_000
DAY = 86_400_000
LAST_SEQ = (1 << 24) - 1

# One term at a time: everything switched off that a test does not look at.
PLAIN = MESSAGES.replace(
    context=(), previous=0.0, next=0.0, author=0.0, question=0.0, length=0.0, session=0.0
)


def row(text: str = "word", author: str | None = None, created_ms: int = 0) -> Row:
    """Return a row with only what a test cares for."""
    return Row(text, author, created_ms)


def fused(scores: dict[int, float]) -> Fused:
    """Return *scores* as if the lexical arm had given them."""
    return Fused(scores, {}, scores, {})


def ranked_scores(query: str, rows: dict[int, Row], **weights: object) -> dict[int, float]:
    """Return the scores of *rows*, each with base score 1, under PLAIN and *weights*."""
    parsed = parse_query(query, ["Ann", "Bob", "Cat"])
    found = rank(parsed, fused(dict.fromkeys(rows, 1.0)), rows, weights=PLAIN.replace(**weights))
    return {one.id: round(one.score, 9) for one in found}


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

    assert best(found, 4) == [OTHER + 2, OTHER + 1]
    assert best(found, 1) == [OTHER + 2]
    assert best(found, 0) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("tea", {1: 1.15, 2: 1.15, 3: 1.15}, id="nobody"),
        pytest.param("Ann tea", {1: 1.3, 2: 1.0, 3: 1.0}, id="one"),
        pytest.param("Ann or Bob", {1: 1.15, 2: 1.15, 3: 1.0}, id="two"),
    ],
)
def test_author(query: str, expected: dict[int, float]) -> None:
    """A message of the named author gains, half as much if several or none are named."""
    rows = {1: row(author="Ann"), 2: row(author="Bob"), 3: row(author=None)}

    assert ranked_scores(query, rows, author=0.3) == expected


def test_question() -> None:
    """A message that asks loses, in any script."""
    rows = {1: row("Tea?"), 2: row("Tea."), 3: row("茶？")}

    assert ranked_scores("tea", rows, question=0.1) == {1: 0.9, 2: 1.0, 3: 0.9}


def test_length() -> None:
    """Longer messages gain, up to a length."""
    rows = {1: row(""), 2: row("a b"), 3: row("a b c d"), 4: row("a b c d e f g h")}

    assert ranked_scores("tea", rows, length=0.2, length_words=4) == {1: 1, 2: 1.1, 3: 1.2, 4: 1.2}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("on 3 May", {1: 2.0, 2: 1.5, 3: 1.0}, id="day"),
        pytest.param("on 3 May 2022", {1: 1.0, 2: 1.0, 3: 1.0}, id="day of another year"),
        pytest.param("in May 2023", {1: 1.5, 2: 1.5, 3: 1.0}, id="month"),
        pytest.param("in 2023", {1: 1.5, 2: 1.5, 3: 1.5}, id="year"),
        pytest.param("in June or on 3 May", {1: 2.0, 2: 1.5, 3: 1.5}, id="best of two"),
        pytest.param("tea", {1: 1.0, 2: 1.0, 3: 1.0}, id="no date"),
    ],
)
def test_date(query: str, expected: dict[int, float]) -> None:
    """A message of the named month or year gains, and more on the named day."""
    rows = {
        1: row(created_ms=NOON_3_MAY_2023),
        2: row(created_ms=NOON_3_MAY_2023 + DAY),
        3: row(created_ms=NOON_3_MAY_2023 + 31 * DAY),
    }

    assert ranked_scores(query, rows, month=0.5, day=1.0) == expected


@pytest.mark.parametrize("created_ms", [-(1 << 63), (1 << 63) - 1, -1])
def test_date_of_any_moment(created_ms: int) -> None:
    """A time outside the calendar matches no date and breaks nothing."""
    assert ranked_scores("on 3 May 2023", {1: row(created_ms=created_ms)}) == {1: 1.0}


def test_session() -> None:
    """Each message gains a share of the best score of its session."""
    rows = {FIRST + 1: row(), FIRST + 2: row(), OTHER + 1: row()}
    found = rank(
        parse_query("tea"),
        fused({FIRST + 1: 1.0, FIRST + 2: 0.5, OTHER + 1: 0.4}),
        rows,
        weights=PLAIN.replace(session=0.2),
    )

    assert [one.id for one in found] == [FIRST + 1, FIRST + 2, OTHER + 1]
    assert [one.score for one in found] == pytest.approx([1.2, 0.7, 0.48])


def test_rank_orders_ties_newest_first_and_stops_at_the_limit() -> None:
    """Equal scores come by id, the highest first."""
    rows = {1: row(), 3: row(), 2: row()}
    query = parse_query("tea")

    found = rank(query, fused({1: 1.0, 2: 1.0, 3: 1.0}), rows, weights=PLAIN, limit=2)

    assert [one.id for one in found] == [3, 2]
    assert [one.terms for one in found] == [{}, {}]
    assert rank(query, fused({1: 1.0}), {}, weights=PLAIN) == []


def test_rank_explains() -> None:
    """Every term of a score is named."""
    rows = {FIRST + 1: row("tea? " * 40, "Ann", NOON_3_MAY_2023), FIRST + 2: row("no", "Bob")}
    weights = MESSAGES.replace(
        context=(), previous=0.3, next=0.2, author=0.3, question=0.1, length=0.2, session=0.5
    )
    parts = fuse({FIRST + 1: 3.0, FIRST + 2: 1.5}, {FIRST + 1: 0.6}, weights)
    query = parse_query("Did Ann drink tea on 3 May?", ["Ann", "Bob"])

    found = rank(query, parts, rows, weights=weights, limit=1, explain=True)

    assert found[0].terms == pytest.approx(
        {
            "lexical": weights.lexical_share,
            "similar": 0.0,
            "vector": 1 - weights.lexical_share,
            "previous": 0.0,
            "next": 0.2 * weights.lexical_share / 2,
            "author": 1.3,
            "question": 0.9,
            "length": 1.2,
            "date": 1.0,
            "session": 0.5 * ((1 + 0.1 * weights.lexical_share) * 1.3 * 0.9 * 1.2 + 1.0),
        }
    )
    assert found[0].score == pytest.approx(score_of(found[0].terms))


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
row_maps = st.dictionaries(ids, st.builds(Row, texts, authors, moments), max_size=20)
posting_maps = st.dictionaries(st.sampled_from("abc"), st.lists(ids, unique=True, max_size=8))
cosines = st.dictionaries(ids, st.floats(-1, 1), max_size=8)
questions = st.sampled_from(["tea", "Ann on 3 May?", "Ann and Bob in 2023", ""])


@given(posting_maps, cosines, row_maps, questions)
def test_scores_recompute_from_their_terms(
    postings: dict[str, list[int]], cosine: dict[int, float], rows: dict[int, Row], text: str
) -> None:
    """Whatever is ranked, its terms give its score, and only rows are ranked, best first."""
    parts = fuse(lexical_scores(postings, 40), cosine)
    found = rank(parse_query(text, ["Ann", "Bob"]), parts, rows, limit=30, explain=True)

    assert {one.id for one in found} == set(rows)
    assert all(one.score == pytest.approx(score_of(one.terms)) for one in found)
    assert [(-one.score, -one.id) for one in found] == sorted((-o.score, -o.id) for o in found)


@given(posting_maps, row_maps, questions, st.integers(0, 30))
def test_explaining_changes_nothing(
    postings: dict[str, list[int]], rows: dict[int, Row], text: str, limit: int
) -> None:
    """The order and the scores are the same with and without an explanation."""
    parts = fuse(lexical_scores(postings, 40), {})
    query = parse_query(text, ["Ann", "Bob"])
    plain = rank(query, parts, rows, limit=limit)
    explained = rank(query, parts, rows, limit=limit, explain=True)

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
