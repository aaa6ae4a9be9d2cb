"""
Measuring: a data set goes into a file, every question is asked of every arm.

Each scope of the data set is a user of its own, so one question never sees what
belongs to another. The clock stands at the moment a question is asked, so that
"last week" means the same in every run.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING

import memdb
from memdb.embeddings.indexer import Indexer
from memdb.errors import InvalidInput
from memdb.evaluation.arms import ARMS, fitted
from memdb.evaluation.scores import DEPTH, measure
from memdb.models.messages import NewMessage
from memdb.models.record import Record
from memdb.search.request import search_request
from memdb.search.service import SearchService

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from memdb.evaluation.arms import Arm
    from memdb.evaluation.dataset import Asked, Dataset
    from memdb.models.messages import Hits
    from memdb.models.protocols import Embedder

APP = "bench"
DAY_MS = 86_400_000


class Answer(Record):
    """
    What one arm gave for one question.

    Attributes:
        level: "turn" (messages or documents) or "session".
        ranked: Ids, or names of sessions, best first.
        scores: Every measure of `measuring.measure`.
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
    """Stands where it is put."""

    def __init__(self) -> None:
        """Stand at the epoch."""
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
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Answer]:
    """
    Yield the answers of every arm to every question.

    Args:
        arms: Without an embedder only those that need none may be asked for.
        embedder: As in `memdb.open`.
        folder: Where the file is made and removed again; None: the system's.
        progress: Called with how many questions are done, and of how many.

    Raises:
        InvalidInput: *embedder* is None and an arm needs one.
        PortError: the embedder failed: a table of what is left would mislead.
    """
    if embedder is None and any(arm.vectors for arm in arms):
        raise InvalidInput(
            "there is no embedder: only the lexical arm can be measured, ask for it alone"
        )
    with tempfile.TemporaryDirectory(prefix="memdb-bench-", dir=folder) as place:
        clock = Clock()
        path = os.path.join(place, "bench.db")  # noqa: PTH118
        with memdb.open(path, durability="process", embedder=embedder, clock=clock) as db:
            ready = filled(data, db, clock)
            services = [(arm, _service(db, arm)) for arm in arms]
            for number, asked in enumerate(data.questions, start=1):
                clock.now_ms = ready.ends[asked.scope] if asked.asked_ms is None else asked.asked_ms
                for arm, service in services:
                    yield from _answers(ready, arm, service, asked)
                if progress is not None:
                    progress(number, len(data.questions))


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
            said = [
                NewMessage(
                    one.role,
                    one.text,
                    author=one.author,
                    external_id=one.id,
                    created_ms=one.created_ms or 0,
                )
                for one in talk
            ]
            db.scope(name, APP).session(session).extend(said)
    for name, documents in data.documents.items():
        ends.setdefault(name, 0)
        scope = db.scope(name, APP)
        entries[name] = {
            scope.remember(one.text, created_ms=0).entry.id: one.id for one in documents
        }
    db.run_pending(kinds=("embed",))
    return Filled(data, db, clock, ends, entries)


def _answers(ready: Filled, arm: Arm, service: SearchService, asked: Asked) -> Iterator[Answer]:
    """Yield what *arm* finds: messages or documents, and sessions, where evidence names them."""
    scope = ready.db.scope(asked.scope, APP)
    known = ready.entries.get(asked.scope, {})
    held = (("message", ready.data.sessions), ("entry", ready.data.documents))
    kinds = [kind for kind, scopes in held if asked.scope in scopes]
    if asked.evidence:
        start = time.perf_counter()
        request = search_request(asked.text, DEPTH, kinds=kinds, rerank=arm.rerank)
        hits = service.recall(scope._owner, request)
        took_ms = (time.perf_counter() - start) * 1000
        ranked = [
            str(hit.source.external_id)
            if hit.kind == "message"
            else known[hit.source.entry_id or 0]
            for hit in _whole(hits)
        ]
        yield _answer(arm, "turn", asked, asked.evidence, ranked, took_ms)
    if asked.sessions:
        start = time.perf_counter()
        request = search_request(asked.text, DEPTH, rerank=arm.rerank, group="session")
        hits = service.recall(scope._owner, request)
        took_ms = (time.perf_counter() - start) * 1000
        ranked = [str(hit.source.session) for hit in _whole(hits)]
        yield _answer(arm, "session", asked, asked.sessions, ranked, took_ms)


def _whole(hits: Hits) -> Hits:
    """Return *hits*; raise what kept an arm from taking part."""
    if hits.failure is not None:
        raise hits.failure
    return hits


def _answer(
    arm: Arm,
    level: str,
    asked: Asked,
    evidence: Collection[str],
    ranked: list[str],
    took_ms: float,
) -> Answer:
    return Answer(
        arm.name,
        level,
        asked.id,
        asked.category,
        asked.scope,
        tuple(sorted(evidence)),
        tuple(ranked),
        measure(ranked, evidence),
        took_ms,
    )


def _service(db: memdb.MemDB, arm: Arm) -> SearchService:
    indexer = db._rooms.indexer if arm.vectors else Indexer(db._db, None)
    arm = fitted(arm, None if indexer.embedder is None else indexer.embedder.name)
    return SearchService(
        db._db, indexer, message_weights=arm.messages, document_weights=arm.documents
    )
