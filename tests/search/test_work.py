"""What a recall reads and adds up: bounded by what it ranks, and the same numbers as plain loops."""

import random
from collections.abc import Collection
from typing import Any

import pytest
from cases import each

import memdb
from memdb.search.candidates import Lexical, idf, top
from memdb.search.features import weighted_sum
from memdb.search.weights import DOCUMENTS, MESSAGES
from memdb.tables import entries
from memdb.text.terms import Term


def test_entries_with_a_common_word_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of entries that all hold a word, no more are read than the two arms bring."""
    most = MESSAGES.arm + MESSAGES.arm
    read: list[int] = []
    get_worths = entries.get_worths

    def note(tx: Any, ids: Collection[int]) -> Any:
        read.append(len(ids))
        return get_worths(tx, ids)

    monkeypatch.setattr(entries, "get_worths", note)
    with memdb.open(":memory:", embedder="static") as db:
        ann = db.scope("ann")
        with db._db.write():
            for number in range(2 * most):
                new = memdb.NewEntry(text=f"The parcel number {number} is kept.")
                ann._services.entries.add(ann._owner, new)

        assert len(ann.recall("parcel number", 10, kinds=["entry"])) == 10

    assert 0 < max(read) <= most


def test_what_is_not_read_of_entries_changes_no_answer() -> None:
    """The best of a fusion need only the best by words: others get no score of their own."""
    source = random.Random(5)
    postings = {
        Term((word,)): source.sample(range(1, 900), k=source.randint(1, 800)) for word in "abcde"
    }
    lexical = Lexical(postings, 900, DOCUMENTS)

    kept = lexical.best(DOCUMENTS.arm)

    assert [*kept] == top(lexical.scores, DOCUMENTS.arm)
    assert len(kept) == DOCUMENTS.arm < len(lexical.scores)


@each("seed", range(20))
def test_scores_by_words_are_those_of_a_plain_loop(seed: int) -> None:
    """Sets are added up as single ids would be, to the last bit, below the pool and above it."""
    source = random.Random(seed)
    postings = {
        Term((word,)): source.sample(range(1, 5000), k=source.choice([0, 3, 40, 900, 3000]))
        for word in "abcdef"
    }
    rising = sorted(postings.items(), key=lambda one: len(one[1]))
    expected: dict[int, float] = {}
    for _, ids in rising:
        known = set(expected)
        for key in ids:
            if len(known) < DOCUMENTS.pool or key in known:
                expected[key] = expected.get(key, 0.0) + idf(len(ids), 5000)

    assert Lexical(postings, 5000, DOCUMENTS).scores == expected


def test_a_weighted_sum_is_that_of_a_plain_loop() -> None:
    """Columns of zeros are left out, which changes no sum."""
    source = random.Random(7)
    columns = {name: [source.random() for _ in range(30)] for name in ("words", "b", "c")}
    columns["none"] = [0.0] * 30
    weights = {"b": -1.5, "none": 3.0, "words": 0.3, "c": 2}

    found = weighted_sum(columns, weights)

    expected = [0.0] * 30
    for name, weight in weights.items():
        expected = [total + weight * x for total, x in zip(expected, columns[name], strict=True)]
    assert found == expected
