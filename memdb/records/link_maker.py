"""
Link maker: guesses what a newer statement does to the older ones that resemble it.

The one place where links are made. `remember`, extraction, imports and adapters use
it. Every function joins the caller's transaction.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from memdb.facts import pairs
from memdb.facts.wording import words_of
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

# An entry may be related to a statement unless the model is so sure that it is not.
UNRELATED = 0.6

# Features that the reason of a link names, those of most weight.
MAX_REASONS = 4


class Near(Record):
    """
    An entry that resembles a statement.

    Attributes:
        cosine: Similarity of the two; None if no vectors were compared.
        relation: What the newer one of the two does to the older one, as the model judges.
        is_older: Whether the entry is the older one.
    """

    entry: Entry
    cosine: float | None
    relation: pairs.Relation
    is_older: bool

    @property
    def related(self) -> bool:
        """Whether an arbiter is asked about it: unless the model is sure that it is not."""
        return self.relation.kind != pairs.NONE or self.relation.probability < UNRELATED

    @property
    def ends(self) -> bool:
        """Whether the statement says that the entry holds no more."""
        return self.is_older and self.relation.kind in pairs.ENDS


class Rarity:
    """How rare a word is among the entries of a scope: 1 if no other has it, 0 if each does."""

    def __init__(self, tx: Tx, scope_no: int) -> None:
        """Count the entries of a scope."""
        self._tx = tx
        self._span = scope_range(scope_no)
        self._total = scopes.last_n(tx, scope_no)
        self._known: dict[str, float] = {}

    def __call__(self, word: str) -> float:
        """Return the rarity of a word."""
        if word not in self._known:
            self.count([word])
        return self._known[word]

    def count(self, words: Iterable[str], most: int = MAX_COUNTED) -> list[Collection[int]]:
        """Count the entries that contain each of *words*; return their ids, at most *most* each."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        terms = {word: word_terms([word], MAX_TERMS) for word in new}
        asked = list(dict.fromkeys(term for some in terms.values() for term in some))
        found = self._tx.words.postings("entry", asked, *self._span, newest=most) if asked else {}
        for word, some in terms.items():
            held = min((len(found[term]) for term in some), default=0)
            self._known[word] = pairs.rarity_of(held, self._total)
        return [found[term] for term in asked]


def find_near(
    tx: Tx,
    scope_no: int,
    said: pairs.Statement,
    vector: SpaceVector | None,
    privacy: tuple[str | None, str] | None = None,
    *,
    but: int | None = None,
) -> tuple[Near, ...]:
    """
    Return the entries that hold and resemble a statement, the most similar first.

    At most `MAX_PAIRS`, by words and by vector; where these are fewer, the newest of the scope
    take the places that are left. Cost: 1 ms.

    Args:
        vector: Number of the space and vector of the text; None compares words only.
        privacy: Who recalls the text, as `links.privacy_of` says it: only entries that the
            same recall are compared with it.
        but: Id of the entry whose text it is.
    """
    rarity, (low, high) = Rarity(tx, scope_no), scope_range(scope_no)
    ranks: dict[int, float] = {}
    cosines: dict[int, float] = {}
    if vector is not None:
        cosines = dict(
            tx.vectors.nearest(vector[0], "entry", vector[1], (low, high), limit=BY_VECTOR)
        )
        _add_ranks(ranks, cosines)
    words = content_words(query_words(said.text))[:MAX_TERMS]
    scores = _score(rarity.count(words, MAX_HOLDERS))
    best_by_words = nlargest(BY_WORDS, zip(scores.values(), scores, strict=True))
    _add_ranks(ranks, (entry_id for _, entry_id in best_by_words))
    best: list[Entry] = []
    if len(ranks) <= MAX_PAIRS:
        wanted = entries.EntryFilter(tx.now_ms, inactive=True)
        best = entries.list_newest(tx, low, but or high, limit=2 * MAX_PAIRS, wanted=wanted)
    if missing := ranks.keys() - {but} - {entry.id for entry in best}:
        best += entries.get_many(tx, missing).values()
    best.sort(key=lambda one: (-ranks.get(one.id, 0.0), -one.id))
    near = [
        entry for entry in best if entry.holds(tx.now_ms) and links.privacy_of(entry) == privacy
    ][:MAX_PAIRS]
    texts = (said.text, *(entry.text for entry in near))
    rarity.count(word.text for one in texts for word in words_of(one) if word.kind != "number")

    def judged(entry: Entry) -> Near:
        other, cosine = statement_of(entry), cosines.get(entry.id)
        is_older = (other.created_ms, entry.id) < (said.created_ms, but or high)
        newer, older = (said, other) if is_older else (other, said)
        relation = pairs.relate(newer, older, cosine=cosine, rarity=rarity)
        return Near(entry, cosine, relation, is_older)

    return tuple(judged(entry) for entry in near)


def _score(holders: Iterable[Collection[int]]) -> dict[int, float]:
    """Return by id the sum of 1 / (1 + its holders) over the words that an entry holds."""
    scores: dict[int, float] = {}
    for size, same in groupby(sorted(holders, key=len), len):  # common words all have as many
        counts = Counter(chain.from_iterable(same))
        share = 1.0 / (1 + size)
        scores.update({one: scores.get(one, 0.0) + times * share for one, times in counts.items()})
    return scores


def _add_ranks(ranks: dict[int, float], ids: Iterable[int]) -> None:
    """Add the reciprocal rank of each id to those that another list gave it."""
    for place, entry_id in enumerate(ids):
        ranks[entry_id] = ranks.get(entry_id, 0.0) + 1 / (60 + place)


def statement_of(entry: Entry) -> pairs.Statement:
    """Return an entry in the form that the link model reads."""
    return pairs.Statement(entry.text, entry.created_ms, entry.trust == TRUST[0])


def make_anew(tx: Tx, entry_id: int, vector: SpaceVector | None = None) -> None:
    """
    Link an entry to those that it resembles now, in place of the guesses that there are.

    A guess that is made again keeps its time.

    Args:
        vector: Vector of its text.
    """
    span = scope_range(scope_of(entry_id))
    before = {
        (link.newer_id, link.older_id): link.made_ms
        for link in link_rows.list_about(tx, span, [entry_id])
    }
    link_rows.delete_guesses(tx, span, entry_id)
    make(tx, entry_id, vector, before=before)


def make(
    tx: Tx,
    entry_id: int,
    vector: SpaceVector | None = None,
    nearby: Sequence[Near] | None = None,
    before: Mapping[tuple[int, int], int] | None = None,
) -> None:
    """
    Link a new entry to those that it resembles.

    Of the older entries that it ends, those that are sure are linked, else the likeliest.

    Args:
        vector: Vector of its text.
        nearby: What `find_near` gave for it; None looks for it.
        before: By the ends of a link, when it was made.
    """
    if nearby is None:
        entry = entries.get_many(tx, [entry_id])[entry_id]
        said, privacy = statement_of(entry), links.privacy_of(entry)
        nearby = find_near(tx, scope_of(entry_id), said, vector, privacy, but=entry_id)
    ended = [one.relation.probability for one in nearby if one.ends]
    least = min(max(ended, default=0.0), links.SURE_LINK)
    made = []
    for near in nearby:
        if near.relation.kind == pairs.NONE or (near.ends and near.relation.probability < least):
            continue
        ends = (entry_id, near.entry.id) if near.is_older else (near.entry.id, entry_id)
        made.append(_row(ends, near.relation, (before or {}).get(ends, tx.now_ms)))
    link_rows.add(tx, made)


def _row(ends: tuple[int, int], relation: pairs.Relation, made_ms: int) -> dict[str, Any]:
    first = relation.reasons[:MAX_REASONS]
    return {
        "newer_id": ends[0],
        "older_id": ends[1],
        "kind": relation.kind,
        "probability": relation.probability,
        "reason": ", ".join(f"{name} {weight:+.1f}" for name, weight in first),
        "model": pairs.weights_used().hash,
        "made_ms": made_ms,
        "rejected_ms": None,
    }


def derive(tx: Tx, *, whole: bool = False) -> None:
    """
    Remove broken links, and rebuild those of their entries and of other models.

    Args:
        whole: Rebuild the guesses about every entry. Cost: 2 s per 1,000 entries.
    """
    broken = link_rows.list_broken(tx)
    for newer, older, _, _ in broken:
        link_rows.delete(tx, newer, older)
    stale = {row[0] for row in (*broken, *link_rows.list_stale(tx, pairs.weights_used().hash))}
    if not stale and not whole:
        return
    spaces = [number for number, _, _ in space_rows.list_numbers(tx)]
    for scope_no, _, _ in scopes.list_all(tx):
        for entry_id in entries.ids_between(tx, *scope_range(scope_no)):
            if whole or entry_id in stale:
                make_anew(tx, entry_id, _vector_of(tx, spaces, entry_id))


def _vector_of(tx: Tx, spaces: Sequence[int], entry_id: int) -> SpaceVector | None:
    """Return the vector of an entry in the first space that has one, None if none has."""
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
    stale = link_rows.list_stale(tx, pairs.weights_used().hash) if deep else []
    for code, rows in (("link", found), ("link_model", stale)):
        for newer, older, kind, probability in rows[: checks.MAX_PER_RULE]:
            text = f"entry {newer} {kind} entry {older}, probability {probability}"
            yield Finding(code, text, rebuildable=True)
