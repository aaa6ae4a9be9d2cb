"""
From ranked candidates of several kinds to the hits of one answer.
"""

from __future__ import annotations

from memdb.models.messages import Hit, Source
from memdb.models.record import Record
from memdb.tables import artifacts, entries, messages, words
from memdb.text.validate import MAX_MS, MIN_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.sqlite.transaction import Tx
    from memdb.models.messages import Entry
    from memdb.search.query import Query
    from memdb.search.ranking import Ranked

    Said = dict[int, tuple[str, Source]]


class Found(Record):
    """
    What one kind has to say.

    Attributes:
        quality: How well its best candidate fits by words and meaning, 0 to 2:
            by this, kinds are put on one scale.
    """

    kind: str
    ranked: list[Ranked]
    quality: float


class Question(Record):
    """
    A validated question to one scope.

    Attributes:
        context: Whether a message may be found by what its neighbours say.
        rerank: Whether words of similar meaning count in the candidates.
        grouped: Whether sessions are wanted rather than messages.
        before: Ids of a scope whose entries go before these; None: none does.
        visible: Id of the session that asks: what only others recall is left
            out; None: nothing is.
        past: Entries as they were once, by id; None: as they are.
        foreign: Whether the scope itself has nothing, so only shared ones are seen.
    """

    query: Query
    scope_no: int
    span: tuple[int, int]
    terms: list[str]
    limit: int
    since_ms: int
    until_ms: int
    session: str | None
    explain: bool = False
    context: bool = True
    rerank: bool = True
    grouped: bool = False
    before: tuple[int, int] | None = None
    visible: int | None = None
    past: dict[int, Entry] | None = None
    foreign: bool = False

    @property
    def timed(self) -> bool:
        """Whether only a part of time is asked about."""
        return self.since_ms > MIN_MS or self.until_ms <= MAX_MS


class Field(Record):
    """
    What of one kind is searched for a question.

    Attributes:
        span: First and last id.
        allowed: Which ids of the span count; None: all.
        total: How many rows that are.
        postings: For each term that was looked up, those of them that hold it.
        dropped: Those that hold a word which the query excludes.
    """

    span: tuple[int, int]
    allowed: set[int] | None
    total: int
    postings: dict[str, list[int]]
    dropped: frozenset[int] = frozenset()

    def terms(self) -> list[str]:
        """Return the terms that some row holds."""
        return [term for term, ids in self.postings.items() if ids]


def json_ids(ids: Iterable[int]) -> str:
    """Return *ids* as the JSON array that statements take."""
    return f"[{','.join(map(str, ids))}]"


def merge(tx: Tx, asked: Question, found: list[Found]) -> list[Hit]:
    """Put the kinds on one scale, take the best, and fetch what they say."""
    best = max((part.quality for part in found), default=0.0)
    factors = [part.quality / best if best else 1.0 for part in found]
    lines = [
        (-ranked.score * factors[order], order, -ranked.id, part.kind, ranked, factors[order])
        for order, part in enumerate(found)
        for ranked in part.ranked
    ]
    lines.sort(key=lambda line: line[:3])
    chosen = lines[: asked.limit]
    by_kind: dict[str, list[int]] = {}
    for line in chosen:
        by_kind.setdefault(line[3], []).append(line[4].id)
    said = {kind: _READERS[kind](tx, asked, ids) for kind, ids in by_kind.items()}
    hits: list[Hit] = []
    for score, _, _, kind, ranked, factor in chosen:
        content = said[kind].get(ranked.id)
        if content is None:
            continue  # deleted between two reads
        explanation = {**ranked.terms, "kind": factor} if asked.explain else None
        hits.append(Hit(kind, content[0], -score, len(hits) + 1, content[1], explanation))
    return hits


def _read_messages(tx: Tx, _: Question, ids: list[int]) -> Said:
    return {
        key: (
            found.text,
            Source(found.session, found.seq, found.external_id, found.author, found.created_ms),
        )
        for key, found in messages.get_many(tx, json_ids(ids)).items()
    }


def _read_entries(tx: Tx, asked: Question, ids: list[int]) -> Said:
    low, high = asked.span
    found = entries.get_many(tx, json_ids(ids)) if asked.past is None else asked.past
    return {
        key: (
            entry.text,
            Source(
                session=entry.session,
                seq=entry.first_seq,
                created_ms=entry.created_ms,
                entry_id=key,
                category=entry.category,
                shared=asked.foreign or not low <= key <= high,
            ),
        )
        for key in ids
        if (entry := found.get(key)) is not None
    }


def _read_artifacts(tx: Tx, asked: Question, ids: list[int]) -> Said:
    said: Said = {}
    for key, name in artifacts.get_many(tx, json_ids(ids)).items():
        place = artifacts.Place(asked.scope_no, name.session_no, name.name)
        newest = artifacts.find(tx, place)
        if newest is None:
            continue
        text = words.snippet(tx, "artifact", key, asked.terms) or ""
        source = Source(
            session=name.session,
            created_ms=newest.info.created_ms,
            artifact=name.name,
            version=newest.info.version,
        )
        said[key] = (text, source)
    return said


_READERS = {"message": _read_messages, "entry": _read_entries, "artifact": _read_artifacts}
