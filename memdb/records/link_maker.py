"""
Link maker: guesses what a newer statement does to the older ones that resemble it.

The one place where links are made, whoever stores an entry: `remember`, extraction, an import
or an adapter. Every function joins the caller's transaction.
"""

from __future__ import annotations

import math
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from memdb.facts import pairs
from memdb.models.ids import scope_of, scope_range
from memdb.models.messages import Finding
from memdb.models.record import Record
from memdb.records import links
from memdb.tables import checks, entries, scopes
from memdb.tables import links as link_rows
from memdb.tables import spaces as space_rows
from memdb.text.terms import content_words, query_words, word_terms
from memdb.text.trust import TRUST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.entries import Entry

    SpaceVector = tuple[int, bytes]

# Entries that a statement is compared with: half of the time of `remember` is theirs.
MAX_PAIRS = 5

# Entries that words and vectors bring, from which the pairs are taken.
BY_WORDS = 12
BY_VECTOR = 12
MAX_TERMS = 12

# Of a word that more entries hold than this, the newest count: it parts no two of them,
# and reading all of them would cost 1 ms per 1,000 entries and word (ADR-0030).
MAX_HOLDERS = 2_000

# Words of those entries are only weighed: a word that so many hold parts nothing.
MAX_COUNTED = 200

MAX_READ = 400  # characters of each

# Features that the reason of a link names, those of most weight.
MAX_REASONS = 4


class Near(Record):
    """
    An entry that resembles a statement.

    Attributes:
        cosine: Similarity of the two; None if no vectors were compared.
    """

    entry: Entry
    cosine: float | None = None


class Nearby(Record):
    """The entries that resemble a statement, the most similar first, and how rare words are."""

    found: tuple[Near, ...]
    rarity: Rarity


class Rarity:
    """How rare a word is among the entries of a scope: 1 if no other has it, 0 if each does."""

    def __init__(self, tx: Tx, scope_no: int) -> None:
        """Count the entries of a scope."""
        self._tx = tx
        self._span = scope_range(scope_no)
        self._total = max(scopes.last_n(tx, scope_no), 2)
        self._counts: dict[str, int] = {}

    def __call__(self, word: str) -> float:
        """Return the rarity of a word."""
        if word not in self._counts:
            self.count([word])
        held = min(self._counts[word], self._total)
        return math.log(self._total / max(held, 1)) / math.log(self._total)

    def count(self, words: Iterable[str], most: int = MAX_COUNTED) -> list[Collection[int]]:
        """Count the entries that hold each of *words*; return their ids, at most *most* each."""
        terms = {word: word_terms([word], MAX_TERMS) for word in words}
        terms = {word: some for word, some in terms.items() if word not in self._counts}
        asked = list(dict.fromkeys(term for some in terms.values() for term in some))
        found = self._tx.words.postings("entry", asked, *self._span, newest=most) if asked else {}
        for word, some in terms.items():
            self._counts[word] = min((len(found[term]) for term in some), default=0)
        return [found[term] for term in asked]


def find_near(
    tx: Tx,
    scope_no: int,
    text: str,
    vector: SpaceVector | None,
    privacy: tuple[str | None, str] | None = None,
    *,
    but: int | None = None,
) -> Nearby:
    """
    Return the entries that hold and resemble *text* by words or by vector, at most `MAX_PAIRS`.

    Args:
        vector: Number of the space and vector of *text*; None compares words only.
        privacy: Who recalls the text, as `links.privacy_of` says it: only entries that the
            same recall are compared with it.
        but: Id of the entry whose text it is.
    """
    rarity = Rarity(tx, scope_no)
    ranks: dict[int, float] = {}
    cosines: dict[int, float] = {}
    if vector is not None:
        span, (space_no, values) = scope_range(scope_no), vector
        cosines = dict(tx.vectors.nearest(space_no, "entry", values, span, limit=BY_VECTOR))
        _add_ranks(ranks, cosines)
    scores: dict[int, float] = {}
    words = content_words(query_words(text))[:MAX_TERMS]
    for ids in rarity.count(words, MAX_HOLDERS):
        for entry_id in ids:
            scores[entry_id] = scores.get(entry_id, 0.0) + 1.0 / (1 + len(ids))
    _add_ranks(ranks, nlargest(BY_WORDS, scores, key=lambda one: (scores[one], one)))
    found = entries.get_many(tx, ranks)
    best = sorted(ranks, key=lambda one: (-ranks[one], -one))
    near = [
        Near(entry, cosines.get(entry.id))
        for entry in (found[one] for one in best if one in found and one != but)
        if entry.holds(tx.now_ms) and links.privacy_of(entry) == privacy
    ][:MAX_PAIRS]
    texts = (text, *(one.entry.text for one in near))
    rarity.count(word for one in texts for word in query_words(one[:MAX_READ]))
    return Nearby(tuple(near), rarity)


def _add_ranks(ranks: dict[int, float], ids: Iterable[int]) -> None:
    """Add the reciprocal rank of each id to those that another list gave it."""
    for place, entry_id in enumerate(ids):
        ranks[entry_id] = ranks.get(entry_id, 0.0) + 1 / (60 + place)


def statement_of(entry: Entry) -> pairs.Statement:
    """Return an entry as the model of links reads it."""
    return pairs.Statement(entry.text, entry.created_ms, entry.trust == TRUST[0])


def make_anew(tx: Tx, entry_id: int, vector: SpaceVector | None = None) -> None:
    """
    Link an entry to those that it resembles now, in place of the guesses that there are.

    A guess that is made again keeps its time.

    Args:
        vector: Of its text.
    """
    span = scope_range(scope_of(entry_id))
    before = {
        (link.newer_id, link.older_id): link.made_ms
        for link in link_rows.list_about(tx, span, [entry_id])
    }
    link_rows.delete_guesses(tx, span, entry_id)
    entry = entries.get_many(tx, [entry_id])[entry_id]
    nearby = _nearby_of(tx, entry, vector)
    make(tx, entry_id, statement_of(entry), vector, nearby, before)


def make(
    tx: Tx,
    entry_id: int,
    said: pairs.Statement,
    vector: SpaceVector | None = None,
    nearby: Nearby | None = None,
    before: Mapping[tuple[int, int], int] | None = None,
) -> None:
    """
    Link a new entry to those that it resembles.

    Cost: 1 ms, mostly to find them.

    Args:
        said: What it says.
        vector: Of its text.
        nearby: What `find_near` gave for it; None looks for it.
        before: By the ends of a link, when it was made.
    """
    if nearby is None:
        nearby = _nearby_of(tx, entries.get_many(tx, [entry_id])[entry_id], vector)
    made = []
    for near in nearby.found:
        other = statement_of(near.entry)
        is_newer = (said.created_ms, entry_id) > (other.created_ms, near.entry.id)
        ends = (entry_id, near.entry.id) if is_newer else (near.entry.id, entry_id)
        newer, older = (said, other) if is_newer else (other, said)
        relation = pairs.relate(newer, older, cosine=near.cosine, rarity=nearby.rarity)
        if relation.kind != "none" and relation.probability >= links.LEAST:
            made.append(_row(ends, relation, (before or {}).get(ends, tx.now_ms)))
    link_rows.add(tx, made)


def _nearby_of(tx: Tx, entry: Entry, vector: SpaceVector | None) -> Nearby:
    """Return the entries that resemble one that is stored."""
    privacy = links.privacy_of(entry)
    return find_near(tx, scope_of(entry.id), entry.text, vector, privacy, but=entry.id)


def _row(ends: tuple[int, int], relation: pairs.Relation, made_ms: int) -> dict[str, Any]:
    first = relation.reasons[:MAX_REASONS]
    return {
        "newer_id": ends[0],
        "older_id": ends[1],
        "kind": relation.kind,
        "probability": relation.probability,
        "reason": ", ".join(f"{name} {weight:+.1f}" for name, weight in first),
        "model": pairs.MODEL,
        "made_ms": made_ms,
        "rejected_ms": None,
    }


def derive(tx: Tx, *, whole: bool = False) -> None:
    """
    Remove broken links, and make anew those of their entries and of other models.

    Args:
        whole: Make the guesses about every entry anew. Cost: 2 s per 1,000 entries.
    """
    broken = link_rows.list_broken(tx)
    for newer, older, _, _ in broken:
        link_rows.delete(tx, newer, older)
    stale = {row[0] for row in (*broken, *link_rows.list_stale(tx, pairs.MODEL))}
    if not stale and not whole:
        return
    spaces = [number for number, _, _ in space_rows.list_numbers(tx)]
    for scope_no, _, _ in scopes.list_all(tx):
        for entry_id in entries.ids_between(tx, *scope_range(scope_no)):
            if whole or entry_id in stale:
                make_anew(tx, entry_id, _vector_of(tx, spaces, entry_id))


def _vector_of(tx: Tx, spaces: Sequence[int], entry_id: int) -> SpaceVector | None:
    """Return the vector of an entry in the first space that has one."""
    for space_no in spaces:
        vector = tx.vectors.find(space_no, "entry", [entry_id]).get(entry_id)
        if vector is not None:
            return space_no, vector
    return None


def check(tx: Tx, *, deep: bool) -> Iterator[Finding]:
    """
    Yield the links that are broken.

    Args:
        deep: Also those that another model guessed: `rebuild` lets that of today judge.
    """
    found = link_rows.list_broken(tx)
    stale = link_rows.list_stale(tx, pairs.MODEL) if deep else []
    for code, rows in (("link", found), ("link_model", stale)):
        for newer, older, kind, probability in rows[: checks.MAX_PER_RULE]:
            text = f"entry {newer} {kind} entry {older}, probability {probability}"
            yield Finding(code, text, rebuildable=True)
