"""
Order of an answer: equal texts once, and of statements about the same thing the newest first.

Pure functions over the hits that were read; the scores still fall. Entries are put in order by
their links (`memdb.records.links`) before; what has none, and messages, by their words and by the
model of those links.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from memdb.embeddings.static_model import rarity
from memdb.facts.keeping import stated
from memdb.facts.pairs import ENDS, Statement, relate
from memdb.facts.sentences import sentences
from memdb.facts.wording import words_and_signs
from memdb.models.ids import number_of
from memdb.models.record import Record
from memdb.records.links import LEAST, SURE_LINK
from memdb.search.certainty import CUT_SHARE
from memdb.search.parse import ASKING_MARKS, asks, only_asks
from memdb.search.relevance import RELEVANT_ROWS, STEM_LETTERS, STEM_SHARE
from memdb.text.resources import compiled
from memdb.text.terms import STOP_WORDS, count_words, has_cjk, query_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.models.entries import Link
    from memdb.models.messages import Hit, Source
    from memdb.search.parse import Query, Question

    Traits = tuple[AbstractSet[str], AbstractSet[str]]
    TextWords = Mapping[str, Sequence[str]]  # of each text of an answer, read once

ALIKE = 0.5
"""Share of the other words that two hits have in common that answer alike."""

SAME_WORDS = 0.5
"""Share of the question's words that both hold."""

COMPARED = 4
"""
First hits of a kind that are compared: the newer goes first if it ends the older one.

Source: bench/recall.py, LoCoMo's nDCG@10 (2 conversations): .6661 without, .6652 with; 6 give .664.
"""

PASSING = 0.6
"""
Probability from which on a hit ends the best one, of the first `RELEVANT_ROWS`.

Source: bench/recall.py, nDCG@10 (3 conversations) .6895, with .8 .6892; of 30 changed facts .67 are
first, with .8 .47.
"""

MOST_COMPARED_WORDS = 25
"""Words of a text up to which it is compared; of any length .6297 instead of .6726, 35 .6691."""

FRONT = 3
"""Hits among which the first `KEPT_FIRST` stay, whatever a guess puts before them."""

KEPT_FIRST = 2

RETRACTED = 0.5
"""Share of its score that an entry keeps which was taken back."""

SHOWN_WORDS = 3
"""Words that a reason names."""

# Kinds whose equal texts are one statement; what has a name or key is a record of its own.
STATEMENTS = ("message", "entry")
_HAS_DIGIT = r"\d"
NEWER = "newer than another hit that answers alike"


class Ties(Record):
    """
    Links between the entries of hits.

    Attributes:
        keys: For each hit the id of the entry that it is or that was learnt from it; then those of
            *taken*.
        taken: Newer entries that are not hits.
        links: For each of *keys* the link to the newest entry that outdates it. None if none does.
        same: For the ids of two entries that repeat each other, the id of the other one.
    """

    keys: Sequence[int | None]
    links: Sequence[Link | None]
    taken: Sequence[Hit] = ()
    same: Mapping[int, int] = {}


def put_in_order(
    query: Query,
    hits: Sequence[Hit],
    words_of: TextWords,
    ties: Ties | None = None,
    *,
    folds: bool = True,
    by_time: bool = True,
) -> list[Hit]:
    """
    Return *hits* in the order of an answer: each after the newer one that outdates it.

    A hit that says the same as an earlier one is folded into that one. A newer hit gets the score
    of the older one. The guess may be wrong, so the first `KEPT_FIRST` stay among the first `FRONT`
    hits; hits without room before them follow them.

    Args:
        ties: Links of entries; None means that only the hits themselves are compared.
        folds: Whether hits that say the same become one.
        by_time: Whether the newer hit comes first.
    """
    ties = ties or Ties([hit.source.entry_id for hit in hits], [None] * len(hits))
    every = [*map(_marked, (*hits, *ties.taken), ties.links)]
    heads = _heads(query, every, words_of, ties.same) if folds else [*range(len(every))]
    # Else the time that is asked for decides.
    alike = [*_alike(query, every[: len(hits)], words_of)] if by_time and not query.is_dated else []
    for one, other in alike:
        if heads[one] == heads[other] == other:
            heads = [one if head == other else head for head in heads]
    newer = _newer(query, every, words_of, ties, heads, alike) if by_time else {}
    also: dict[int, list[Source]] = {}
    for place, (head, hit) in enumerate(zip(heads, hits, strict=False)):
        if place != head:
            also.setdefault(head, []).extend((hit.source, *hit.also))
    kept = set(heads[: min(KEPT_FIRST, len(hits))])
    found: list[Hit] = []
    late: list[Hit] = []
    seen: set[int] = set()
    for start in sorted(range(len(hits)), key=lambda place: -every[place].score):
        for place, older in _behind_newer(heads[start], None, newer, seen):
            hit = every[place]
            if place in also:
                score = max(hit.score, every[start].score) if place == heads[start] else hit.score
                hit = hit.replace(also=(*hit.also, *also[place]), score=score)
            if older is not None:
                score, is_sure = max(hit.score, every[older].score), every[older].is_sure
                hit = hit.replace(score=score, is_sure=hit.is_sure or is_sure, why=NEWER)
            has_room = place in kept or not kept or len(found) + len(kept) < FRONT
            (found if has_room else late).append(hit)
            kept.discard(place)
            if not kept:
                found, late = [*found, *late], []
    pairs = zip(found, accumulate((hit.score for hit in found), min), strict=True)
    return [hit if hit.score == score else hit.replace(score=score) for hit, score in pairs]


def _marked(hit: Hit, link: Link | None) -> Hit:
    """Return a hit with what outdates it, and with a lower score if it was retracted."""
    if link is None:
        return hit
    hit = hit.replace(outdated_by=link.newer_id)
    if link.kind == "retracts":
        return hit.replace(score=RETRACTED * hit.score, is_sure=False)
    return hit


def _heads(
    query: Query, hits: Sequence[Hit], words_of: TextWords, same: Mapping[int, int]
) -> list[int]:
    """
    Return for each hit the place of the first one that says the same, with its asked words.

    Two hits of one kind say the same if they have the same words and signs. So do an entry and its
    message with the same words and signs, and two entries that repeat each other.
    """
    words = [tuple(words_of[hit.text]) if hit.kind in STATEMENTS else () for hit in hits]
    often = Counter(words)
    first: dict[object, int] = {}
    heads = []
    for place, hit in enumerate(hits):
        told, entry_id = words[place], hit.source.entry_id
        names: list[object] = []
        if told and often[told] > 1:
            signs = words_and_signs(hit.text)
            names = [(hit.kind, told, signs), (hit.source.session, hit.source.seq, told, signs)]
        if entry_id is not None:
            names += [one for one in (entry_id, same.get(entry_id)) if one is not None]
        head = next((first[name] for name in names if name in first), place)
        if head != place and _says_more(query, told, words[head]):
            head = place  # that it repeats the other may be a wrong guess
        first.update((name, head) for name in names if name not in first)
        heads.append(head)
    return heads


def _says_more(query: Query, words: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a text has an asked word that the other lacks, or each has its own number."""
    asked = held_words(query.content, words)
    if len(held_words(asked, other)) < len(asked):
        return True
    numbers, others = ({*filter(compiled(_HAS_DIGIT).search, one)} for one in (words, other))
    return bool(numbers - others and others - numbers)


def _newer(
    query: Query,
    hits: Sequence[Hit],
    words_of: TextWords,
    ties: Ties,
    heads: Sequence[int],
    alike: Iterable[tuple[int, int]],
) -> dict[int, list[int]]:
    """
    Return, by place of a hit, the newer ones that outdate it, the linked one first.

    A question with a name or a number asks about exactly that, so a hit without it comes before no
    other.
    """
    places = reversed([*enumerate(ties.keys)])
    by_id = {key: heads[place] for place, key in places if key is not None}
    times: dict[int, int] = {}
    for head, hit in zip(heads, hits, strict=True):
        times[head] = max(times.get(head, 0), hit.source.created_ms or 0)
    named = {*query.identifiers, *filter(compiled(_HAS_DIGIT).search, query.content)}
    found: dict[int, list[int]] = {}
    for head, hit in zip(heads, hits, strict=True):
        newer = by_id.get(hit.outdated_by or 0)
        if newer is None:
            continue
        asked = held_words(named, words_of[hit.text])
        if len(held_words(asked, words_of[hits[newer].text])) == len(asked):
            found.setdefault(head, []).append(newer)
    for one, other in alike:
        newer, older = heads[one], heads[other]
        if times[newer] > times[older]:
            found.setdefault(older, []).append(newer)
    return found


def _behind_newer(
    place: int, older: int | None, newer: Mapping[int, Sequence[int]], seen: set[int]
) -> Iterator[tuple[int, int | None]]:
    """Yield a place after all newer ones, each once, with the first older one."""
    if place not in seen:
        seen.add(place)
        for other in newer.get(place, ()):
            yield from _behind_newer(other, place if older is None else older, newer, seen)
        yield place, older


def reason_of(question: Question, hit: Hit, best: Hit, words_of: TextWords) -> str:
    """Return in a sentence why *hit* is in the answer whose first hit is *best*."""
    query = question.query
    held = held_words(query.asked, words_of[hit.text])
    parts = [f"has {' and '.join(f'*{word}*' for word in held[:SHOWN_WORDS])}"] if held else []
    told_ms = hit.source.created_ms or 0
    if question.is_listing and any(first <= told_ms < end for first, end in question.windows):
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
    places = {(one.session, one.seq, one.seq or one.entry_id) for one in (hit.source, *hit.also)}
    if len(places) > 1:
        parts.append(f"said {len(places)} times")
    if hit is not best and hit.kind == "message" and hit.source.session == best.source.session:
        parts.append("same conversation as the best hit")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _alike(query: Query, hits: Sequence[Hit], words_of: TextWords) -> Iterator[tuple[int, int]]:
    """
    Yield the places of a newer hit and of an older one, before it, with a similar answer.

    Both hits are of one author and contain the same words of the question, half of them at least.
    Both hits also share half of their other words except numbers and names. Or both are short, and
    the newer one says that the older one is no longer true. For that the older one must be the
    best hit, or the newer one is among the first `COMPARED` of its kind. The condition is stricter
    if they share no word of the question. Long messages, which say several things, and messages
    that only ask are not compared. A text without the name that is asked for is about something
    else, and a question with a number asks for that one.
    """
    traits, counts = _traits(query, hits, words_of), Counter[str]()
    holders: dict[AbstractSet[str], list[int]] = {}  # places, by the asked words they hold
    most = (0, 0) if any(map(str.isdigit, "".join(query.content))) else (RELEVANT_ROWS, COMPARED)
    for newer, (hit, (held, topics)) in enumerate(zip(hits, traits, strict=True)):
        place = counts[hit.kind]  # a kind of few texts stands behind one of many
        counts[hit.kind] += 1
        like = holders.setdefault(held, []) if topics else []
        # A hit further down is compared with the best one, and with those that it is alike to.
        places = [*range(newer)] if place < most[1] else sorted({0, *like})
        if topics:
            like.append(newer)
        if hit.kind not in STATEMENTS or (only_asks(hit.text) and not _short(hit.text)):
            continue
        for older in places:
            if not _is_newer(hit, hits[older]):
                continue
            asked = traits[older][0]
            if _are_alike(traits[newer], traits[older]):
                yield newer, older
            elif place < most[older > 0] and not {*query.identifiers} & (asked - held):
                least = SURE_LINK if older else PASSING
                least = LEAST if place < COMPARED and held & asked else least
                if _ends(query, hit, hits[older], least):
                    yield newer, older


def put_by_scores(
    query: Query, hits: Sequence[Hit], best: Sequence[float], limit: int
) -> list[Hit]:
    """
    Return *hits* with the first ones in the order of a reranker's scores, highest first.

    Each place keeps its score, and the newer of two statements still comes first.
    """
    order = sorted(range(len(best)), key=lambda place: -best[place])
    moved = [hits[place].replace(score=hit.score) for place, hit in zip(order, hits, strict=False)]
    words_of = {hit.text: query_words(hit.text) for hit in hits}
    found = put_in_order(query, [*moved, *hits[len(best) :]], words_of, folds=False)[:limit]
    return [hit.replace(rank=rank) for rank, hit in enumerate(found, start=1)]


def _traits(query: Query, hits: Sequence[Hit], words_of: TextWords) -> list[Traits]:
    """Return each hit's words of the question, and its topics if another hit contains them.

    The topics are its other words except numbers and names.
    """
    asked = query.asked
    least = max(SAME_WORDS * len(asked), 1)
    helds = [frozenset(held_words(asked, words_of[hit.text])) for hit in hits]
    often = Counter(held for held in helds if len(held) >= least)
    return [
        (held, _topics(hit.text, words_of[hit.text]) if often[held] > 1 else frozenset())
        for hit, held in zip(hits, helds, strict=True)
    ]


def _topics(text: str, words: Iterable[str]) -> AbstractSet[str]:
    names = {word for one in text.split()[1:] if one[:1].isupper() for word in query_words(one)}
    return {word for word in {*words} - STOP_WORDS - names if not any(map(str.isdigit, word))}


def held_words(asked: Iterable[str], words: Iterable[str]) -> list[str]:
    """
    Return which of *asked* a text with these *words* contains, in any of their forms.

    >>> held_words(["tom", "study", "bus"], ["tom", "studies", "buses"])
    ['tom', 'study', 'bus']
    """
    text = f" {' '.join(words)} "  # looking into one text is faster than into many words
    return [word for word in asked if any(map(text.__contains__, _forms(word)))]


@lru_cache(maxsize=256)
def _forms(word: str) -> tuple[str, ...]:
    """
    Return strings, to look for *word*, its forms and compounds of it in a text.

    The strings expect a space before and after each word of the text.
    """
    if not word.isascii() and has_cjk(word):
        return (word,)
    if len(word) >= STEM_LETTERS:
        return f" {word[: math.ceil(STEM_SHARE * len(word))]}", f"{word} "
    if not word.isascii():
        return (f" {word} ",)
    other = f" {word[:-1]}ies " if word.endswith("y") else f" {word}es "
    return f" {word} ", f" {word}s ", other


def _is_newer(newer: Hit, older: Hit) -> bool:
    if (newer.source.created_ms or 0) <= (older.source.created_ms or 0):
        return False
    if newer.kind not in STATEMENTS or older.kind not in STATEMENTS:
        return False
    speakers = [hit.source.author or hit.role for hit in (newer, older) if hit.kind == "message"]
    is_mixed = newer.kind != older.kind and "assistant" in speakers
    return not is_mixed and speakers[1:] in ([], speakers[:1])


def _ends(query: Query, newer: Hit, older: Hit, least: float) -> bool:
    """
    Return whether a statement of a short text ends what another one, not far before it, answers.

    A text may say several things and ask something; the question asks about one of them.
    """
    if newer.score < CUT_SHARE / 2 * older.score:
        return False
    if any(count_words(hit.text) > MOST_COMPARED_WORDS for hit in (newer, older)):
        return False
    answer = max(
        _short(older.text),
        key=lambda one: len(held_words(query.content, query_words(one))),
        default="",
    )
    before = Statement(answer, older.source.created_ms or 0)
    for text in _short(newer.text) if answer else ():
        after = Statement(text, newer.source.created_ms or 0)
        relation = relate(after, before, cosine=None, rarity=rarity)
        if relation.kind in ENDS and relation.probability >= least:
            return True
    return False


@lru_cache(maxsize=64)
def _short(text: str) -> tuple[str, ...]:
    """
    Return the statements in the short sentences of a text, without questions after a comma.

    The result is cached, because the best hit is read many times.
    """
    said = [(one, one.endswith(ASKING_MARKS)) for one in sentences(text)]
    told = [stated(one, "user") if has_question else one for one, has_question in said]
    return tuple(
        one
        for one, (_, has_question) in zip(told, said, strict=True)
        if not (has_question and asks(one)) and count_words(one) <= MOST_COMPARED_WORDS
    )


def _are_alike(first: Traits, second: Traits) -> bool:
    (held, topics), (other, others) = first, second
    return held == other and len(topics & others) >= ALIKE * (min(len(topics), len(others)) or 1)
