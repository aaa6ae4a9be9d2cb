"""
Order of an answer: equal texts once, and of statements about the same thing the newest first.

Pure functions over the hits that were read; scores still fall. Entries are put in order by their
links (`memdb.records.links`) before; what has none, and messages, by their words and by the model
of those links.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from memdb.embeddings.static_model import rarity
from memdb.facts.pairs import ENDS, Statement, relate
from memdb.facts.wording import words_and_signs
from memdb.models.ids import number_of
from memdb.records.links import LEAST, SURE
from memdb.search.parse import ASKING_MARKS
from memdb.search.weights import (
    ALIKE,
    COMPARED,
    CUT_SHARE,
    KEPT_FIRST,
    MOST_COMPARED_WORDS,
    ORDERED,
    RETRACTED,
    SAME_WORDS,
    SHOWN_WORDS,
    STEM_LETTERS,
    STEM_SHARE,
)
from memdb.text.resources import compiled
from memdb.text.terms import STOP_WORDS, count_words, query_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.models.entries import Link
    from memdb.models.messages import Hit
    from memdb.search.parse import Query, Question

    Traits = tuple[AbstractSet[str], AbstractSet[str]]
    TextWords = Mapping[str, Sequence[str]]  # of each text of an answer, read once

# Kinds whose equal texts are one statement; what has a name or key is a record of its own.
STATEMENTS = ("message", "entry")
_HAS_DIGIT = r"\d"
NEWER = "newer than another hit that answers alike"


def fold_equal(hits: Iterable[Hit], words_of: TextWords) -> list[Hit]:
    """Return *hits* with equal texts once; the first names the places of the others in `also`."""
    places: dict[tuple[str, ...], list[int]] = {}
    found: list[Hit] = []
    for hit in hits:
        words = (hit.kind, *words_of[hit.text]) if hit.kind in STATEMENTS else ()
        alike = places.setdefault(words, []) if words else []
        signs = words_and_signs(hit.text) if alike else ()
        same = (place for place in alike if words_and_signs(found[place].text) == signs)
        if (place := next(same, None)) is None:
            alike.append(len(found))
            found.append(hit)
        else:
            first = found[place]
            found[place] = first.replace(also=(*first.also, hit.source))
    return found


def follow_links(
    hits: Sequence[tuple[Hit, int | None]],
    newest: Mapping[int, Link],
    taken: Mapping[int, Hit],
    same: Mapping[int, int],
) -> list[Hit]:
    """
    Return *hits* with the newer of two linked entries before the older one.

    Args:
        hits: Each with the id of the entry that it is, or that was learnt from it.
        newest: By id of an older entry the link to the newest one.
        taken: By id the newer entries that are no hits.
        same: By id of each of two entries that repeat each other the id of the other one.
    """
    found: list[Hit] = []
    places: dict[int, int] = {}
    ahead: set[int] = set()  # put before an older one, out of their turn
    by_id = {key: hit for hit, key in reversed(hits) if key is not None}
    by_id.update((key, hit) for hit, key in hits if key is not None and key == hit.source.entry_id)
    by_id.update(taken)
    for hit, key in sorted(hits, key=lambda pair: -_linked_score(pair[0], pair[1], newest)):
        link = newest.get(key) if key is not None else None
        newer = None if link is None or link.kind == "retracts" else by_id.get(link.newer_id)
        if link is not None and newer is not None and link.newer_id not in places:
            places[link.newer_id] = len(found)
            ahead.add(link.newer_id)
            found.append(
                newer.replace(
                    score=max(hit.score, newer.score),
                    is_sure=hit.is_sure or newer.is_sure,
                    why=NEWER,
                )
            )
        if key is not None and key in ahead and hit is by_id[key]:
            continue
        other = None if hit.source.entry_id is None else same.get(hit.source.entry_id)
        if other is not None and other in places:
            first = found[places[other]]
            found[places[other]] = first.replace(also=(*first.also, hit.source))
            continue
        if key is not None:
            places.setdefault(key, len(found))
        score = _linked_score(hit, key, newest)
        is_sure = hit.is_sure and score == hit.score
        outdated_by = None if link is None else link.newer_id
        found.append(hit.replace(score=score, is_sure=is_sure, outdated_by=outdated_by))
    return found


def keep_first(own: Sequence[Hit], ordered: Sequence[Hit]) -> list[Hit]:
    """
    Return *ordered* with the first hits of *own*, by their own words, among its first ones too.

    A link, a fold or a newer statement may be a wrong guess: it puts another one before a hit if
    there is room, and moves a hit among the first, but takes none out of them.
    """
    kept = own[:KEPT_FIRST]
    front, rest = list(ordered[:KEPT_FIRST]), []
    free = [place for place, one in enumerate(front) if not _stands_for(one, kept)]
    for hit in ordered[KEPT_FIRST:]:
        if free and _stands_for(hit, kept):
            rest.append(front.pop(free.pop()))
            front.append(hit)
        else:
            rest.append(hit)
    found = [*front, *rest]
    pairs = zip(found, accumulate((hit.score for hit in found), min), strict=True)
    return [hit if hit.score == score else hit.replace(score=score) for hit, score in pairs]


def _stands_for(hit: Hit, first: Sequence[Hit]) -> bool:
    """Return whether a hit is one of *first*, repeats one, or was learnt from one."""
    sources = (hit.source, *hit.also)
    places = {(one.session, one.seq) for one in sources if one.entry_id is not None}
    return any(
        other.source in sources
        or (other.kind == "message" and (other.source.session, other.source.seq) in places)
        for other in first
    )


def _linked_score(hit: Hit, key: int | None, newest: Mapping[int, Link]) -> float:
    """Return the score of a hit, less if its entry was taken back."""
    link = None if key is None else newest.get(key)
    return hit.score * (RETRACTED if link is not None and link.kind == "retracts" else 1.0)


def reason_of(question: Question, hit: Hit, best: Hit, words_of: TextWords) -> str:
    """Return in a sentence why *hit* is in the answer whose first hit is *best*."""
    query = question.query
    held = held_words(query.content, words_of[hit.text])
    parts = [f"has {' and '.join(f'*{word}*' for word in held[:SHOWN_WORDS])}"] if held else []
    if question.is_listing:
        parts = ["is of that time"]
    elif not held:
        has_vectors = question.request.by != "words"
        parts = ["is near in meaning" if has_vectors else "stands beside what has the words"]
    if hit.source.author in query.authors:
        parts.append(f"{hit.source.author} said it")
    if hit.why:
        parts.append(hit.why)
    if hit.outdated_by is not None:
        parts.append(f"entry {number_of(hit.outdated_by)} is newer")
    if hit.also:
        parts.append(f"said {len(hit.also) + 1} times")
    if hit is not best and hit.kind == "message" and hit.source.session == best.source.session:
        parts.append("same conversation as the best hit")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def put_newest_first(query: Query, hits: Sequence[Hit], words_of: TextWords) -> list[Hit]:
    """
    Return *hits* with an older one behind a newer one of the same author that answers alike.

    Both hold the same words of the question, half of them at least, and share half of their
    other words but numbers and names. Or both are short and among the first `COMPARED`, and the
    newer one ends the older one: a long message says several things, of which the question asks for
    one; without the name that is asked for it is about something else, and a question with a number
    asks for that one. The newer one gets the score of the older one.
    """
    found = list(hits)
    traits = _traits(query, found[:ORDERED], words_of)
    most = 0 if any(map(compiled(_HAS_DIGIT).search, query.content)) else COMPARED
    names = set(query.identifiers)
    for place in range(1, len(traits)):
        newer = found[place]
        for before in range(place):
            older = found[before]
            is_linked = older.outdated_by is not None
            if (is_linked and older.outdated_by == newer.source.entry_id) or (
                _is_newer(newer, older)
                and (
                    _are_alike(traits[place], traits[before])
                    or (
                        place < most
                        and not names & (traits[before][0] - traits[place][0])
                        and _ends(newer, older, traits[place][0] & traits[before][0])
                    )
                )
            ):
                found.insert(
                    before, newer.replace(score=older.score, is_sure=older.is_sure, why=NEWER)
                )
                del found[place + 1]
                traits.insert(before, traits.pop(place))
                break
    return found


def put_by_scores(
    query: Query, hits: Sequence[Hit], best: Sequence[float], limit: int
) -> list[Hit]:
    """
    Return *hits* with the first ones by the scores that a reranker gives them, highest first.

    Each place keeps its score, and the newer of two statements goes first all the same.
    """
    order = sorted(range(len(best)), key=lambda place: -best[place])
    moved = [hits[place].replace(score=hit.score) for place, hit in zip(order, hits, strict=False)]
    words_of = {hit.text: query_words(hit.text) for hit in hits}
    found = put_newest_first(query, [*moved, *hits[len(best) :]], words_of)[:limit]
    return [hit.replace(rank=rank) for rank, hit in enumerate(found, start=1)]


def _traits(query: Query, hits: Sequence[Hit], words_of: TextWords) -> list[Traits]:
    """Return of each hit the words of the question it holds, and its topics if another holds them.

    The topics are its other words but numbers and names.
    """
    least = max(SAME_WORDS * len(query.content), 1)
    helds = [frozenset(held_words(query.content, words_of[hit.text])) for hit in hits]
    often = Counter(held for held in helds if len(held) >= least)
    return [
        (held, _topics(hit.text, words_of[hit.text]) if often[held] > 1 else frozenset())
        for hit, held in zip(hits, helds, strict=True)
    ]


def _topics(text: str, words: Iterable[str]) -> AbstractSet[str]:
    pieces = (piece for piece in text.split()[1:] if piece[:1].isupper())
    names = {word for piece in pieces for word in query_words(piece)}
    return {word for word in {*words} - STOP_WORDS - names if not any(map(str.isdigit, word))}


def held_words(asked: Iterable[str], words: Iterable[str]) -> list[str]:
    """Return which of *asked* a text with these *words* holds, in any of their forms."""
    text = f" {' '.join(words)} "  # looking into one text is faster than into many words
    return [word for word in asked if _has_form(word, text)]


def _has_form(word: str, text: str) -> bool:
    """Return whether a text's words have *word*, another form of it, or a compound ending in it."""
    if len(word) >= STEM_LETTERS:
        stem = word[: math.ceil(STEM_SHARE * len(word))]
        return f" {stem}" in text or f"{word} " in text
    plurals = (f" {word}s ", f" {word}es ") if word.isascii() else ()
    return any(form in text for form in (f" {word} ", *plurals))


def _is_newer(newer: Hit, older: Hit) -> bool:
    if newer.kind not in STATEMENTS or older.kind not in STATEMENTS:
        return False
    authors = {hit.source.author or hit.role for hit in (newer, older) if hit.kind == "message"}
    if len(authors) > 1 or (authors and newer.kind != older.kind and "assistant" in authors):
        return False
    return (newer.source.created_ms or 0) > (older.source.created_ms or 0)


def _ends(newer: Hit, older: Hit, shared: AbstractSet[str]) -> bool:
    """
    Return whether a short statement, not far behind, ends what an older short one says.

    Args:
        shared: The words of the question that both hold. Without any it has to be sure.
    """
    if newer.text.rstrip().endswith(ASKING_MARKS) or newer.score < CUT_SHARE / 2 * older.score:
        return False
    if any(count_words(hit.text) > MOST_COMPARED_WORDS for hit in (newer, older)):
        return False
    pair = [Statement(hit.text, hit.source.created_ms or 0) for hit in (newer, older)]
    relation = relate(*pair, cosine=None, rarity=rarity)
    return relation.kind in ENDS and relation.probability >= (LEAST if shared else SURE)


def _are_alike(first: Traits, second: Traits) -> bool:
    (held, topics), (other, others) = first, second
    return held == other and len(topics & others) >= ALIKE * (min(len(topics), len(others)) or 1)
