"""Late interaction: what it changes in an answer, and what it never does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import memdb
from memdb import Settings
from memdb.models import model_client
from memdb.models.protocols import TokenVectors
from memdb.search import late
from memdb.search.rank import score_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DIM = 64
# Words of no language: the built-in table of words knows none of them.
MEANINGS = {"blickt": "zorbit"}
LATE = Settings(late_interaction=True, recall_floor=0.0)
QUESTION = "keeps zorbit"


class Plain:
    """Puts all texts at one place, so that words alone decide."""

    name, dim = "plain", DIM

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector per text."""
        return [[1.0] + [0.0] * (DIM - 1) for _ in texts]


class Tokens(Plain):
    """Gives each word an axis of its own, and one to words that mean the same."""

    name = "tokens"

    def __init__(self) -> None:
        """Begin with no calls."""
        self.calls: list[list[str]] = []
        self.axes: dict[str, int] = {}
        self.before: Callable[[], object] = lambda: None
        self.change: Callable[[list[TokenVectors]], Any] = lambda found: found

    def token_vectors(self, texts: Sequence[str]) -> Any:
        """Return the words of each text."""
        self.before()
        self.calls.append(list(texts))
        return self.change([self.tokens(text) for text in texts])

    def tokens(self, text: str) -> TokenVectors:
        """Return the words of *text*."""
        spans, rows, start = [], [], 0
        for word in text.split():
            start = text.index(word, start)
            spans.append((start, start + len(word)))
            start += len(word)
            row = np.zeros(DIM, "<f4")
            row[self.axes.setdefault(MEANINGS.get(word, word), len(self.axes) % DIM)] = 3.0
            rows.append(row)
        return TokenVectors(tuple(spans), b"".join(row.tobytes() for row in rows))


def fill(db: memdb.MemDB) -> memdb.Scope:
    """Return a scope with two messages of sessions of their own, and others about neither."""
    ann = db.scope("ann")
    ann.session("old").append("user", "keeps blickt")
    ann.session("new").append("user", "keeps frumpt")
    for number in range(4):
        ann.session(f"other {number}").append("user", f"nothing of that {number}")
    db.jobs.run()
    return ann


def texts(hits: memdb.Hits) -> list[str]:
    """Return the texts of the first two."""
    return [hit.text for hit in hits][:2]


PLAIN_ORDER = ["keeps frumpt", "keeps blickt"]
LATE_ORDER = ["keeps blickt", "keeps frumpt"]


def test_a_word_of_the_same_meaning_goes_first(path: str, open_db: Any) -> None:
    """The term shows in the explanation, and the terms give the score again."""
    ann = fill(open_db(path, embedder=Tokens(), settings=LATE))

    hits = ann.recall(QUESTION, explain=True)
    why = ann.why(QUESTION, "old", 1)

    assert texts(hits) == LATE_ORDER == texts(ann.recall(QUESTION))
    assert "late" in hits.arms
    assert "late" not in hits.missing
    first, second, *_ = (hit.explanation or {} for hit in hits)
    assert first["late"] > 0
    assert "late" not in second
    for hit in hits:
        terms = hit.explanation or {}
        expected = terms["relevance"] * score_of("message", terms) / terms["best"]
        assert hit.score == pytest.approx(expected)
    assert why.explanation is not None
    assert (why.rank, why.explanation["late"]) == (1, first["late"])


def test_it_is_off_by_default(path: str, open_db: Any) -> None:
    """No tokens are asked for, also not where they could change nothing."""
    embedder = Tokens()
    ann = fill(open_db(path, embedder=embedder, settings=Settings(recall_floor=0.0)))

    hits = ann.recall(QUESTION)

    assert texts(hits) == PLAIN_ORDER
    assert "late" not in {*hits.arms, *hits.missing}
    assert embedder.calls == []


@pytest.mark.parametrize(
    "options",
    [{"by": "words"}, {"by": "vector"}, {"rerank": False}, {"kinds": ("entry",)}],
    ids=str,
)
def test_no_tokens_are_asked_for(path: str, open_db: Any, options: dict[str, Any]) -> None:
    """A search that does not rank messages by meaning is as it was."""
    embedder = Tokens()
    ann = fill(open_db(path, embedder=embedder, settings=LATE))

    hits = ann.recall(QUESTION, **options)

    assert "late" not in {*hits.arms, *hits.missing}
    assert embedder.calls == []


def test_sessions_are_ordered_by_it_too(path: str, open_db: Any) -> None:
    """The best message of a session counts."""
    ann = fill(open_db(path, embedder=Tokens(), settings=LATE))

    hits = ann.recall(QUESTION, group="session")

    assert texts(hits) == LATE_ORDER


def test_a_word_that_a_neighbour_holds_gains_less(path: str, open_db: Any) -> None:
    """What the words find already is not counted twice."""
    ann = fill(open_db(path, embedder=Tokens(), settings=LATE))
    ann.session("near").append("user", "zorbit")
    ann.session("near").append("user", "keeps blickt")

    hits = ann.recall(QUESTION, explain=True)

    gains = {
        (hit.source.session, hit.text): (hit.explanation or {}).get("late", 0.0) for hit in hits
    }
    assert 0 < gains["near", "keeps blickt"] < gains["old", "keeps blickt"]


def test_an_embedder_without_tokens(path: str, open_db: Any) -> None:
    """The answer is the one without it, and says why."""
    ann = fill(open_db(path, embedder=Plain(), settings=LATE))

    hits = ann.recall(QUESTION)

    assert texts(hits) == PLAIN_ORDER
    assert hits.missing["late"] == "plain gives no token vectors"
    assert "late" not in hits.arms


def fail() -> None:
    """Fail as a model does."""
    raise RuntimeError("no memory left")


def with_data(data: bytes) -> Callable[[list[TokenVectors]], Any]:
    """Return a change that puts *data* in place of each vector."""
    return lambda found: [each.replace(data=data * len(each.spans)) for each in found]


FAULTS: dict[str, dict[str, Any]] = {
    "raises": {"before": fail},
    "hangs": {"before": lambda: threading.Event().wait(3600)},  # longer than a test may take
    "not a number": {"change": with_data(np.full(DIM, np.nan, "<f4").tobytes())},
    "endless": {"change": with_data(np.full(DIM, np.inf, "<f4").tobytes())},
    "other dimension": {"change": with_data(bytes(4 * DIM - 4))},
    "half a number": {"change": with_data(bytes(4 * DIM - 1))},
    "too few": {"change": lambda found: found[:-1]},
    "none": {"change": lambda _found: None},
    "of another type": {"change": lambda found: [[1.0]] * len(found)},
    "text": {"change": lambda found: [each.replace(data="x" * 4 * DIM) for each in found]},
    "outside": {"change": lambda found: [each.replace(spans=((0, 999),) * 2) for each in found]},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_answer_without_it(
    path: str, open_db: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is told, and the next recall asks again."""
    embedder = Tokens()
    limited: Any = model_client.limited_embedder(embedder)
    ann = fill(open_db(path, embedder=limited, settings=LATE))
    if fault == "hangs":  # no other call is short of time
        monkeypatch.setitem(limited._limits, "token_vectors", lambda _texts: 0.3)
    for name, value in FAULTS[fault].items():
        setattr(embedder, name, value)

    hits = ann.recall(QUESTION)
    healthy = Tokens()
    embedder.before, embedder.change = healthy.before, healthy.change

    assert texts(hits) == PLAIN_ORDER
    assert "'tokens' failed" in hits.missing["late"]
    assert "late" not in hits.arms
    monkeypatch.undo()
    assert texts(ann.recall(QUESTION)) == LATE_ORDER


def test_vectors_of_no_length_change_nothing(path: str, open_db: Any) -> None:
    """Zeros are no direction: they are near to nothing."""
    embedder = Tokens()
    embedder.change = with_data(bytes(4 * DIM))
    ann = fill(open_db(path, embedder=embedder, settings=LATE))

    hits = ann.recall(QUESTION, explain=True)

    assert texts(hits) == PLAIN_ORDER
    assert all("late" not in (hit.explanation or {}) for hit in hits)


def test_texts_are_embedded_once_and_none_is_kept_for_long(
    path: str, open_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second recall asks for the question alone; a full cache forgets its oldest."""
    embedder = Tokens()
    ann = fill(open_db(path, embedder=embedder, settings=LATE))

    first, second = ann.recall(QUESTION), ann.recall(QUESTION)
    kept = ann._services.recaller._late
    assert kept is not None
    size = kept._size
    monkeypatch.setattr(late, "LATE_BYTES", 3 * DIM)
    ann.session("more").append("user", "keeps glimpt")
    third = ann.recall(QUESTION)
    fourth = ann.recall(QUESTION)

    assert first == second
    assert texts(third) == texts(fourth) == ["keeps blickt", "keeps glimpt"]
    asked, again, *_ = embedder.calls
    assert sorted(asked[1:]) == sorted({*asked[1:]})
    assert again == [QUESTION]
    assert size == sum(len(text.split()) for text in asked[1:]) * DIM
    assert kept._size == sum(map(len, kept._kept.values())) <= 3 * DIM


def test_no_transaction_is_open_meanwhile(path: str, open_db: Any) -> None:
    """What another process deletes while the model is asked is not in the answer."""
    embedder = Tokens()
    db = open_db(path, embedder=embedder, settings=LATE)
    ann, other = fill(db), open_db(path, embedder=None)
    inside: list[bool] = []
    pool = db._db.pool

    def delete() -> None:
        inside.append(db._db.writing or bool(pool.reading))
        other.scope("ann").session("old").delete()

    embedder.before = delete
    hits = ann.recall(QUESTION)

    assert inside == [False]
    assert texts(hits)[0] == "keeps frumpt"
    assert "late" in hits.arms
