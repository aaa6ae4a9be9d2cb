"""
Neighbours: the entries that a statement could repeat, refine or contradict.

By vector, by rare words it shares with them, and by the words in which the
same thing is usually said: a contradiction rarely sounds like what it ends.
"""

from __future__ import annotations

from heapq import nlargest

from memdb.errors import PortError
from memdb.models.claims import Claim
from memdb.models.record import Record
from memdb.tables import active_entries, entries, jobs, nearest, vectors
from memdb.tables import words as fulltext
from memdb.text.terms import content_words, query_words, word_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from memdb.engine.sqlite.transaction import Tx
    from memdb.models.messages import Entry
    from memdb.models.protocols import Embedder
    from memdb.tables.vectors import Space

    class Filling(Protocol):
        """An embedder with its space, as `memdb.embeddings.filling.Filler`."""

        @property
        def embedder(self) -> Embedder:
            """Return the embedder."""

        def embed(self, texts: Sequence[str]) -> list[bytes | None]:
            """Return the vector of each text, None where there is none."""

        def space(self, tx: Tx) -> Space | None:
            """Return the embedder's space, None where the file has none yet."""

    class Index(Protocol):
        """What embeds, as `memdb.embeddings.indexer.Indexer` does."""

        def answering(self) -> Filling | None:
            """Return the embedder whose space answers now, None without one."""


# Above any cosine.
NEVER = 2.0

# Cosines from which two statements say the same unless the rules see a
# difference, and from which they are worth an arbiter's look; each model has
# its own. Source: ADR-0015 (bench/thresholds.py) for the built-in one; koopa
# for others, as it measured them on sentence models.
THRESHOLDS = {"static-en-1": (NEVER, 0.62)}
DEFAULT_THRESHOLDS = (0.95, 0.85)

# Neighbours by vector and by words, and most entries that a usual word brings.
BY_VECTOR = 30
BY_WORDS = 12
MOST_TERMS = 12
MOST_OF_RELATED = 40

# Superseded neighbours whose successors are looked at.
MOST_GONE = 10


class Near(Record):
    """
    An entry that resembles a statement.

    Attributes:
        cosine: None where there are no vectors.
        near: Whether the cosine says that the two are the same.
        related: Whether it is worth a slow arbiter's look.
        before: What like entries said whose place it took.
    """

    entry: Entry
    cosine: float | None
    near: bool
    related: bool
    before: tuple[str, ...] = ()

    def claim(self) -> Claim:
        """Return what an arbiter sees of it."""
        entry = self.entry
        return Claim(
            entry.text,
            entry.category,
            entry.key,
            entry.updated_ms,
            self.cosine,
            self.near,
            self.before,
        )


class Sense(Record):
    """The vector of a statement, and what made it: only its own space may be compared."""

    vector: bytes
    filler: Filling

    @property
    def thresholds(self) -> tuple[float, float]:
        """The cosines from which statements are the same, and from which they are related."""
        embedder = self.filler.embedder
        own = getattr(embedder, "thresholds", None)
        return own or THRESHOLDS.get(embedder.name, DEFAULT_THRESHOLDS)


class Vectors:
    """The vectors of entries in the space that answers, if the file has an embedder."""

    def __init__(self, index: Callable[[], Index]) -> None:
        """Embed by what *index* gives when it is first needed."""
        self._index = index

    def embed(self, text: str) -> Sense | None:
        """Return the vector of *text*; None where there is none: it is due later."""
        filler = self._index().answering()
        try:
            vector = None if filler is None else filler.embed([text])[0]
        except PortError:
            return None
        return None if filler is None or vector is None else Sense(vector, filler)

    @staticmethod
    def find(tx: Tx, sense: Sense, span: tuple[int, int]) -> dict[int, float]:
        """Return the cosines of the nearest entries of a scope."""
        space = sense.filler.space(tx)
        if space is None:
            return {}
        found = nearest.find(tx, space.space_no, "entry", sense.vector, span, limit=BY_VECTOR)
        return dict(found)

    @staticmethod
    def put(tx: Tx, entry: Entry, sense: Sense) -> None:
        """Store the vector of what an entry says now; it is not due any more."""
        space = sense.filler.space(tx)
        if space is None or space.retired:
            return
        vectors.put(tx, space.space_no, "entry", [(entry.id, sense.vector)])
        jobs.done(tx, jobs.Job("embed", "entry", entry.id, space.space_no, entry.version, 0))


def find_neighbours(
    tx: Tx,
    span: tuple[int, int],
    row: dict[str, Any],
    sense: Sense | None,
    related: Sequence[str],
) -> list[Near]:
    """
    Return the entries of a scope that hold and resemble a statement, the likest first.

    Args:
        row: The statement's columns.
        sense: The vector of its text, None without one.
        related: Words in which the same thing may be said.
    """
    cosines = {} if sense is None else Vectors.find(tx, sense, span)
    words = _by_words(tx, span, row["text"], related)
    found = entries.get_many(tx, f"{sorted({*cosines, *words})}")
    gone = [one for one, entry in found.items() if entry.superseded_by is not None]
    gone = sorted(gone, key=lambda one: (-cosines.get(one, 0.0), -one))[:MOST_GONE]
    before: dict[int, list[str]] = {}
    for one, last in (active_entries.successors(tx, f"{gone}") if gone else {}).items():
        before.setdefault(last, []).append(found[one].text)
    found |= entries.get_many(tx, f"{sorted(before.keys() - found.keys())}")
    merge, ask = DEFAULT_THRESHOLDS if sense is None else sense.thresholds
    near = []
    for one, entry in found.items():
        if not entry.holds(tx.now_ms):
            continue
        if entry.session_only and row["session_id"] is None:
            continue
        cosine = cosines.get(one)
        level = -1.0 if cosine is None else cosine
        past = tuple(before.get(one, ()))
        near.append(Near(entry, cosine, level >= merge, level >= ask or bool(past), past))
    near.sort(key=lambda one: (-(one.cosine or 0.0), -one.entry.id))
    return near


def _by_words(tx: Tx, span: tuple[int, int], text: str, related: Sequence[str]) -> set[int]:
    """Return the entries that share the rarest words, and those of a related word that is rare."""
    terms = word_terms(content_words(query_words(text)), MOST_TERMS)
    scores: dict[int, float] = {}
    for ids in fulltext.postings(tx, "entry", terms, *span).values():
        for one in ids:
            scores[one] = scores.get(one, 0.0) + 1.0 / (1 + len(ids))
    ranked = nlargest(BY_WORDS, zip(scores.values(), scores, strict=True))
    best = [one for _, one in ranked]
    more = word_terms(related, len(related)) if related else []
    for ids in fulltext.postings(tx, "entry", more, *span).values():
        best += sorted(ids)[-MOST_OF_RELATED:]
    return set(best)
