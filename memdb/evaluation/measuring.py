"""
Measure recall: run the questions of a data set by every arm, score the answers, report.

An arm is one way to rank: the default, words or vectors alone, or one term of
the ranking switched off. Each scope of the data set is a user of its own, so no
question sees another's messages. The clock stands at the moment of a question,
so that "last week" means the same in every run. The report gives means with
intervals by arm, level and category, as values and as text.

Source of nDCG: Jarvelin and Kekalainen 2002, binary gains, log2. Source of the
intervals: Efron 1979, percentile bootstrap over questions.
"""

from __future__ import annotations

import os
import platform
import random
import tempfile
import time
from math import log2
from typing import TYPE_CHECKING, Any

import memdb
from memdb.embeddings.indexer import Indexer
from memdb.errors import InvalidInput
from memdb.evaluation.baselines import BASELINES, COSINE, FTS5, cosine, fts5, sessions_of, texts_of
from memdb.evaluation.dataset import ALL, NOTHING
from memdb.models.messages import NewMessage
from memdb.models.record import Record, numbered
from memdb.search.features import SPREADS
from memdb.search.request import search_request
from memdb.search.service import SearchService
from memdb.search.weights import DOCUMENTS, MESSAGES, STATIC_MODEL, Weights, for_messages
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from memdb.evaluation.baselines import Text
    from memdb.evaluation.dataset import Dataset, Question
    from memdb.models.messages import Hits
    from memdb.models.protocols import Embedder


class Arm(Record):
    """
    One way to rank.

    Attributes:
        messages, documents: Its weights.
        vectors: Whether it has the embedder.
        rerank: Whether words of similar meaning count.
    """

    name: str
    messages: Weights = MESSAGES
    documents: Weights = DOCUMENTS
    vectors: bool = True
    rerank: bool = True


WORD_FEATURES = ("held", "count", "rarest", "words", "similar", *SPREADS)
"""Features that only words make."""

FUSED = Arm("fused")
LEXICAL = Arm("lexical", vectors=False)
VECTOR = Arm(
    "vector",
    MESSAGES.replace(lexical_share=0.0, off=frozenset(WORD_FEATURES)),
    DOCUMENTS.replace(lexical_share=0.0),
)
ARMS = (FUSED, LEXICAL, VECTOR)
"""The default; as without an embedder; and vectors alone with the context terms."""


def fitted(arm: Arm, model: str | None) -> Arm:
    """
    Return *arm* with the weights for vectors of *model*; None means no vectors.

    What the arm changes in the weights of the built-in table it changes in those
    of *model* too.
    """
    return arm.replace(messages=for_messages(model).replace(**_changes(arm.messages, MESSAGES)))


def _changes(weights: Weights, default: Weights) -> dict[str, Any]:
    """Return the weights that differ from *default*."""
    return {
        name: getattr(weights, name)
        for name in weights._fields
        if getattr(weights, name) != getattr(default, name)
    }


CUTS = (1, 5, 10, 20)
FIRST = 3
DEPTH = 20
MEASURES = (
    *(f"R@{cut}" for cut in CUTS),
    *(f"any@{cut}" for cut in CUTS),
    *(f"all@{cut}" for cut in CUTS),
    "nDCG@10",
    "MRR",
)
CERTAINTY = ("sure", "right", "unsure", "none")
"""Shares of questions whose answer is sure; is sure, with evidence among the first three hits;
is unsure; is none."""
SEED = 20_26
RESAMPLES = 1_000


def measure(ranked: Sequence[str], evidence: Collection[str]) -> dict[str, float]:
    """
    Return every measure of one answer.

    R@k is the share of the evidence among the first k. any@k is 1 if some of it
    is there, all@k if all is, else 0. MRR is 1 / place of the first, 0 without one.

    Args:
        ranked: What was returned, best first; the first 20 count.
        evidence: What should be, at least one.

    >>> measure(["a", "b"], {"b", "c"})["R@5"], measure(["a", "b"], {"b"})["MRR"]
    (0.5, 0.5)
    """
    places = [place for place, one in enumerate(ranked[:DEPTH], start=1) if one in evidence]
    within = {cut: sum(place <= cut for place in places) for cut in CUTS}
    ideal = sum(1 / log2(place + 1) for place in range(1, min(len(evidence), 10) + 1))
    gain = sum(1 / log2(place + 1) for place in places if place <= 10)  # noqa: PLR2004 (nDCG@10)
    scores = {f"R@{cut}": within[cut] / len(evidence) for cut in CUTS}
    scores |= {f"any@{cut}": float(within[cut] > 0) for cut in CUTS}
    scores |= {f"all@{cut}": float(within[cut] == len(evidence)) for cut in CUTS}
    return scores | {"nDCG@10": gain / ideal, "MRR": 1 / places[0] if places else 0.0}


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of one value or more."""
    return sum(values) / len(values)


def intervals(
    rows: Sequence[dict[str, float]], names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """
    Return the 95 % interval of the mean of each of *names* over *rows*.

    The same rows give the same intervals, always. Cost: 0.4 s for 1,000 rows.
    """
    source = random.Random(SEED)
    columns = {name: [row[name] for row in rows] for name in names}
    means: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(RESAMPLES):
        drawn = source.choices(range(len(rows)), k=len(rows))
        for name, column in columns.items():
            means[name].append(sum(map(column.__getitem__, drawn)) / len(rows))
    low, high = int(0.025 * RESAMPLES), int(0.975 * RESAMPLES) - 1
    return {name: (sorted(found)[low], sorted(found)[high]) for name, found in means.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """
    Return the value below which *share* of *values* lie, of one or more.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


APP = "bench"


class Answer(Record):
    """
    The answer of one arm to one question, with its scores.

    Attributes:
        level: "turn" (messages or documents), "session", or "answer" for how certain it is.
        ranked: Ids, or names of sessions, best first.
        scores: Every measure of `measuring.measure`; of level "answer" those of `CERTAINTY`.
        took_ms: The query's embedding included.
    """

    arm: str
    level: str
    question: str
    category: str
    scope: str
    evidence: tuple[str, ...]
    ranked: tuple[str, ...]
    scores: dict[str, float]
    took_ms: float

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {name: getattr(self, name) for name in self._fields}


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        """Start at the epoch."""
        self.now_ms = 0

    def __call__(self) -> int:
        """Return the time, UTC milliseconds."""
        return self.now_ms


class Filled(Record):
    """An open file with the data set in it; see `filled`."""

    data: Dataset
    db: memdb.MemDB
    clock: Clock
    ends: dict[str, int]
    entries: dict[str, dict[int, str]]


def run(
    data: Dataset,
    arms: Sequence[Arm] = ARMS,
    *,
    embedder: Embedder | str | None = "static",
    baselines: Sequence[str] = (),
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Answer]:
    """
    Yield the answers of every arm to every question.

    Args:
        arms: Without an embedder only those that need none may be asked for.
        baselines: Of `baselines.BASELINES`; their answers follow those of the arms.
        embedder: As in `memdb.open`.
        folder: Place where the file is made and removed again; None means the system's.
        progress: Called with how many questions are done, and of how many.

    Raises:
        InvalidInput: *embedder* is None and an arm needs one.
        PortError: the embedder failed: a table of what is left would mislead.
    """
    if embedder is None and any(arm.vectors for arm in arms):
        raise InvalidInput(
            "there is no embedder, so only the lexical arm can be measured: choose that arm alone"
        )
    with tempfile.TemporaryDirectory(prefix="memdb-bench-", dir=folder) as place:
        clock = Clock()
        path = os.path.join(place, "bench.db")
        with memdb.open(path, durability="process", embedder=embedder, clock=clock) as db:
            ready = filled(data, db, clock)
            services = [(arm, _service(db, arm)) for arm in arms]
            others = _Others(data, baselines, db._services.indexer.embedder)
            questions = [*data.questions, *data.unanswerable]
            for number, question in enumerate(questions, start=1):
                asked_ms = question.asked_ms
                clock.now_ms = ready.ends[question.scope] if asked_ms is None else asked_ms
                for arm, service in services:
                    yield from _answers(ready, arm, service, question)
                yield from others.answers(question)
                if progress is not None:
                    progress(number, len(questions))


class _Others:
    """Answers of what recall is measured against; a scope is read at its first question."""

    def __init__(self, data: Dataset, names: Sequence[str], embedder: Embedder | None) -> None:
        self._data = data
        self._names = [name for name in names if name != COSINE or embedder is not None]
        self._embedder = embedder
        self._scope: str | None = None
        self._searches: dict[str, Callable[[str, int], list[Text]]] = {}
        self._size = 0

    def answers(self, question: Question) -> Iterator[Answer]:
        if self._names and question.scope != self._scope:
            self._enter(question.scope)
        for name in self._names:
            start = time.perf_counter()
            found = self._searches[name](question.text, self._size)
            took_ms = (time.perf_counter() - start) * 1000
            ranked = [one.id for one in found[:DEPTH]]
            if question.evidence:
                yield _answer(name, "turn", question, question.evidence, ranked, took_ms)
            if question.sessions:
                sessions = sessions_of(found)[:DEPTH]
                yield _answer(name, "session", question, question.sessions, sessions, took_ms)

    def _enter(self, scope: str) -> None:
        texts = texts_of(self._data, scope)
        self._scope, self._size = scope, len(texts)
        for name in self._names:
            if name == FTS5:
                self._searches[name] = fts5(texts)
            else:
                assert self._embedder is not None
                self._searches[name] = cosine(texts, self._embedder)


def filled(data: Dataset, db: memdb.MemDB, clock: Clock) -> Filled:
    """
    Store *data* in *db* and embed it.

    Raises:
        PortError: the embedder failed.
    """
    ends: dict[str, int] = {}
    entries: dict[str, dict[int, str]] = {}
    for name, talks in data.sessions.items():
        times = [one.created_ms or 0 for talk in talks.values() for one in talk]
        ends[name] = clock.now_ms = max(times) + DAY_MS
        for session, talk in talks.items():
            messages = [
                NewMessage(
                    one.role,
                    one.text,
                    author=one.author,
                    external_id=one.id,
                    created_ms=one.created_ms or 0,
                )
                for one in talk
            ]
            db.scope(name, APP).session(session).extend(messages)
    for name, documents in data.documents.items():
        ends.setdefault(name, 0)
        scope = db.scope(name, APP)
        entries[name] = {scope.remember(one.text, created=0).entry.id: one.id for one in documents}
    db.jobs.run(kinds=("embed",))
    return Filled(data, db, clock, ends, entries)


def _answers(
    ready: Filled, arm: Arm, service: SearchService, question: Question
) -> Iterator[Answer]:
    """Yield the answers of *arm*: messages or documents, and sessions if evidence names them."""
    scope = ready.db.scope(question.scope, APP)
    known = ready.entries.get(question.scope, {})
    held = (("message", ready.data.sessions), ("entry", ready.data.documents))
    kinds = [kind for kind, scopes in held if question.scope in scopes]
    if question.evidence or not question.sessions:
        start = time.perf_counter()
        request = search_request(question.text, DEPTH, kinds=kinds, rerank=arm.rerank)
        hits = service.recall(scope._owner, request)
        took_ms = (time.perf_counter() - start) * 1000
        ranked = [
            str(hit.source.external_id)
            if hit.kind == "message"
            else known[hit.source.entry_id or 0]
            for hit in numbered(_whole(hits))
        ]
        if question.evidence:
            yield _answer(arm.name, "turn", question, question.evidence, ranked, took_ms)
        said = {name: float(hits.certainty == name) for name in CERTAINTY}
        said["right"] = said["sure"] * (not question.evidence.isdisjoint(ranked[:FIRST]))
        answer = _answer(arm.name, "answer", question, question.evidence, ranked, took_ms)
        yield answer.replace(scores=said)
    if question.sessions:
        start = time.perf_counter()
        request = search_request(question.text, DEPTH, rerank=arm.rerank, group="session")
        hits = service.recall(scope._owner, request)
        took_ms = (time.perf_counter() - start) * 1000
        ranked = [str(hit.source.session) for hit in _whole(hits)]
        yield _answer(arm.name, "session", question, question.sessions, ranked, took_ms)


def _whole(hits: Hits) -> Hits:
    """Return *hits*; raise the error if a part of the search failed."""
    if hits.failure is not None:
        raise hits.failure
    return hits


def _answer(
    arm: str,
    level: str,
    question: Question,
    evidence: Collection[str],
    ranked: list[str],
    took_ms: float,
) -> Answer:
    return Answer(
        arm,
        level,
        question.id,
        question.category,
        question.scope,
        tuple(sorted(evidence)),
        tuple(ranked),
        measure(ranked, evidence) if evidence else {},
        took_ms,
    )


def _service(db: memdb.MemDB, arm: Arm) -> SearchService:
    indexer = db._services.indexer if arm.vectors else Indexer(db._db, None)
    arm = fitted(arm, None if indexer.embedder is None else indexer.embedder.name)
    return SearchService(
        db._db, indexer, message_weights=arm.messages, document_weights=arm.documents
    )


LEVELS = ("turn", "session", "answer")
SHOWN = ("R@1", "R@5", "R@10", "R@20", "any@5", "all@5", "any@10", "all@10", "nDCG@10", "MRR")
WITH_INTERVALS = ("R@10", "nDCG@10", "MRR", "any@5", "all@5")

# How much less than the best arm alone the fused ranking may find in a category.
TOLERATED = 0.005


def report(
    data: Dataset, arms: Sequence[Arm], answers: Iterable[Answer], embedder: Embedder | str | None
) -> dict[str, Any]:
    """
    Return configuration, results and the fused ranking beside the arms alone.

    Equal for equal answers, but for the milliseconds. Cost: 0.5 s per arm and
    1,000 questions.
    """
    groups: dict[tuple[str, str, str], list[Answer]] = {}
    order = {arm.name: place for place, arm in enumerate(arms)}
    for answer in answers:
        whole = ALL if answer.evidence else NOTHING
        for category in {whole, answer.category}:  # once, if the question has none
            groups.setdefault((answer.arm, answer.level, category), []).append(answer)
    for arm, _, _ in groups:
        order.setdefault(arm, len(order))  # others than memdb's, in the order they were asked
    keys = sorted(groups, key=lambda key: (order[key[0]], LEVELS.index(key[1]), key[2] != ALL, key))
    results = [result(*key, groups[key]) for key in keys if key[1] != LEVELS[-1]]
    return {
        "configuration": configuration(data, arms, embedder),
        "results": results,
        "certainty": [
            {
                **dict(zip(("arm", "level", "category"), key, strict=True)),
                "questions": len(groups[key]),
                **{name: mean([one.scores[name] for one in groups[key]]) for name in CERTAINTY},
            }
            for key in keys
            if key[1] == LEVELS[-1]
        ],
        "fused_against_arms": _against(results, (LEXICAL.name, VECTOR.name), TOLERATED),
        "fused_against_baselines": [
            line for line in _against(results, BASELINES, 0.0) if line["category"] == ALL
        ],
    }


def configuration(
    data: Dataset, arms: Sequence[Arm], embedder: Embedder | str | None
) -> dict[str, Any]:
    """Return the configuration: versions, data set, weights and machine."""
    name = embedder if embedder is None or isinstance(embedder, str) else embedder.name
    model = STATIC_MODEL if name == "static" else name
    arms = [fitted(arm, model if arm.vectors else None) for arm in arms]
    return {
        "memdb": memdb.__version__,
        "embedder": name,
        "data": {"name": data.name, "sha256": data.digest, **data.counts},
        "weights": {
            arm.name: {
                "vectors": arm.vectors,
                "rerank": arm.rerank,
                "messages": arm.messages.to_dict(),
                "documents": arm.documents.to_dict(),
            }
            for arm in arms
        },
        "intervals": {"level": 0.95, "resamples": RESAMPLES, "seed": SEED},
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def result(arm: str, level: str, category: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the means of *answers*, with intervals and latency."""
    rows = [answer.scores for answer in answers]
    took_ms = [answer.took_ms for answer in answers]
    return {
        "arm": arm,
        "level": level,
        "category": category,
        "questions": len(rows),
        **{name: mean([row[name] for row in rows]) for name in MEASURES},
        "intervals": intervals(rows, WITH_INTERVALS),
        "p50_ms": quantile(took_ms, 0.5),
        "p99_ms": quantile(took_ms, 0.99),
    }


def _against(
    results: Sequence[dict[str, Any]], others: Sequence[str], tolerated: float
) -> list[dict[str, Any]]:
    """Return R@10 of the fused ranking beside the best of *others*, by level and category."""
    found = {(row["arm"], row["level"], row["category"]): row["R@10"] for row in results}
    lines = []
    for (arm, level, category), fused in found.items():
        alone = {
            one: found[one, level, category] for one in others if (one, level, category) in found
        }
        if arm != FUSED.name or not alone:
            continue
        best = max(alone, key=alone.__getitem__)
        gain = fused - alone[best]
        line = {"level": level, "category": category, "fused": fused}
        lines.append({**line, "best": best, **alone, "gain": gain, "good": gain >= -tolerated})
    return lines


def text(result: dict[str, Any]) -> list[str]:
    """Return the report as lines for a person."""
    made = result["configuration"]
    data = made["data"]
    counts = ", ".join(f"{data[key]:,} {key}" for key in data if key not in ("name", "sha256"))
    lines = [
        f"memdb {made['memdb']}, embedder {made['embedder']}, Python {made['python']}",
        f"{data['name']} (sha256 {data['sha256'][:12]}): {counts}",
        f"intervals: 95 % bootstrap, {RESAMPLES:,} resamples, seed {SEED}",
    ]
    for arm, weights in made["weights"].items():
        lines.append(f"{arm}: {_changes_text(weights)}")
    for level in LEVELS:
        rows = [row for row in result["results"] if row["level"] == level]
        if rows:
            lines += ["", *_table(rows, "turns and documents" if level == "turn" else "sessions")]
    lines += ["", f"{'answers':44}{'n':>6}" + "".join(f"{name:>8}" for name in CERTAINTY)]
    for row in result["certainty"]:
        numbers = "".join(f"{row[name]:8.3f}" for name in CERTAINTY)
        lines.append(f"{row['arm'] + ': ' + row['category']:44}{row['questions']:6}{numbers}")
    for title, against in (
        ("the arms alone", result["fused_against_arms"]),
        ("plain FTS5 and the embedder's plain cosine", result["fused_against_baselines"]),
    ):
        if not against:
            continue
        lines += ["", f"fused beside {title}, R@10"]
        lines += [
            f"  {row['level']:8}{row['category']:24}{row['fused']:.3f}  best: {row['best']} "
            f"{row[row['best']]:.3f}  {row['gain']:+.3f}{'' if row['good'] else '  WORSE'}"
            for row in against
        ]
    return lines


def _changes_text(weights: dict[str, Any]) -> str:
    default = MESSAGES.to_dict()
    changed = [
        f"{name} {value}" for name, value in weights["messages"].items() if value != default[name]
    ]
    changed += [] if weights["vectors"] else ["no vectors"]
    changed += [] if weights["rerank"] else ["no similar words"]
    return ", ".join(changed) or "the default"


def _table(rows: Sequence[dict[str, Any]], title: str) -> list[str]:
    lines = [f"{title:44}{'n':>6}" + "".join(f"{name:>8}" for name in SHOWN) + "     p50     p99"]
    for row in rows:
        name = row["arm"] if row["category"] == ALL else f"  {row['arm']}: {row['category']}"
        numbers = "".join(f"{row[measure]:8.3f}" for measure in SHOWN)
        lines.append(
            f"{name:44}{row['questions']:6}{numbers}{row['p50_ms']:8.1f}{row['p99_ms']:8.1f}"
        )
        if row["category"] == ALL:
            sure = ", ".join(
                f"{measure} {low:.3f} to {high:.3f}"
                for measure, (low, high) in row["intervals"].items()
            )
            lines.append(f"    {sure}")
    return lines
