"""
Features: the facts about each candidate for ranking messages, one list of numbers per name.

Pure functions over ids, numbers and the rows of the candidates: no SQL, no I/O, no clock.
`memdb.search.rank` adds up the features, each multiplied by its weight; `docs/recall.md` explains
them. The traits of a text (`Traits`) are cached between recalls.

Ids are packed as in `memdb.models.ids`: `id - 1` and `id + 1` are the neighbours of a message.
Shares are shares of the idf of the question's words in the scope. "Short" means multiplied by `1 /
(1 + 0.6 log2(words / 60))` above 60 words, because a word in a long message says less. Source of
that curve: half of BEAM's chats, 2026-11.
"""

from __future__ import annotations

from array import array
from itertools import chain
from math import log2
from operator import mul
from typing import TYPE_CHECKING, Any

from memdb.embeddings.static_model import near_rows, rows_of, words_of
from memdb.models.ids import SESSION_SHIFT
from memdb.models.record import Record
from memdb.search.candidates import strongest
from memdb.search.date_score import DateScorer
from memdb.text.resources import compiled
from memdb.text.terms import count_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.facts.calendar import DaySpan
    from memdb.search.candidates import Candidates, Lexical, Row, Traits
    from memdb.search.parse import Query
    from memdb.search.weights import Weights
    from memdb.text.terms import Term

    Columns = dict[str, list[float]]
    Words = Sequence[tuple[Term, float, AbstractSet[int]]]
    Place = tuple[float, int, str, float]

SIMILAR_WORDS = 16
"""Words of a query that look for similar ones; a question has five or six."""

SIMILAR_CHARS = 1_000
"""Characters of a message that they look at, about two pages."""

SIMILAR_ROWS = 60
"""
Messages that they look at, the best before their texts are read.

Source: bench/recall.py on two conversations of LoCoMo, nDCG@10 of 30, 60, 100 and 200 messages:
.661 .665 .665 .665.
"""

SIMILAR_FLOOR = 0.3
"""Cosine from which on a word is similar."""

SPREADS = {
    "question_before": 0.8,
    "before": 0.4,
    "after": 0.3,
    "two_before": 0.3,
    "two_after": 0.2,
}
"""
Where a word stands that a message lacks, and what it counts for there.

That decides which of two places counts. A question is a question of another author.
"""

STEEPNESS = 0.6
"""How fast a word says less in a message of more than `TURN_WORDS`, see the module."""

TURN_WORDS = 60
"""Words up to which a held word counts in full."""

SHORT_WORDS = 40
"""Words from which on a message is not short."""

LONG_WORDS = 100
"""Words above which a message lends `LONG_SPREAD` of what it says to its neighbours."""

LONG_SPREAD = 0.2

RATIO_BITS = 3
"""Doublings of the words of an answer against a user's from which on it is an assistant's chat."""

MOST_RUNS = 0.5
"""Most of `_Chat.runs`."""

CAPITALS = 3
"""Names in a text from which on more add nothing."""

TRAIT_CHARS = 4_000
"""First characters of a text whose traits are read."""

TRAITS_KEPT = 16_384
"""Texts whose traits are kept, about half a KB each: those of a scope of 10,000 all fit."""

# Words that make a text hold a number, or a time; so do digits, and four of them.
_NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten twice couple few dozen hundred "
    "thousand".split()
)
_TIME_WORDS = frozenset(
    "today yesterday tomorrow tonight last next ago week weekend month year since monday tuesday "
    "wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december".split()
)
_YEAR_DIGITS = 4
# A capital within a sentence: a name.
_CAPITAL = r"[A-Z](?<=[a-z,] [A-Z])[a-z]+"
_ASKS = frozenset("?\uff1f\u061f")

_WHEN = (
    r"(?i)^\s*when\b|\b(?:what|which) (?:year|month|date|day|time)\b|\bhow long\b"
    r"|\bwhen (?:did|is|was|will|does)\b"
)
_COUNT = r"(?i)\bhow (?:many|much|old|often)\b"
_NAME = r"(?i)^\s*(?:who|whose|which)\b|\bwhere\b"
_OWN_WORDS = frozenset(("i", "my", "me", "mine", "myself", "we", "our"))
_YOUR_WORDS = frozenset(("you", "your", "yours"))


TRAITS = tuple("words short asks number time capitals length long vocabulary".split())
"""
What a text is like, whatever is asked; the first is an int, the others but the last floats.

words: How many it has.
short: 1 up to `TURN_WORDS` words, less above: what a held word counts.
asks: 1.0 if it has a question mark.
number, time: 1.0 if it holds a number, and a word of time or a number of four digits.
capitals: 0 to 1 by capitals within its sentences.
length: 0 to 1 by its words, 1 from `SHORT_WORDS` on.
long: How often its words are twice `TURN_WORDS`, by log2; 0.0 up to `TURN_WORDS` words.
vocabulary: Rows of the built-in table for its words, each once, an array; none of a long
    text, which has a word near to any other.
"""

# The traits that are features.
_SHAPES = ("asks", "number", "time", "capitals", "length", "long")


_traits: dict[tuple[int, int], Traits] = {}


def traits_of(text: str) -> Traits:
    """Return the `TRAITS` of a text; those of the last texts are cached by length and hash."""
    key = (len(text), hash(text))
    found = _traits.get(key)
    if found is None:
        if len(_traits) >= TRAITS_KEPT:
            _traits.clear()
        found = _traits[key] = _read_traits(text)
    return found


def asked_traits(text: str) -> list[int]:
    """Return which of `TRAITS` a question asks for, by place: a time, a number, a name."""
    asked = ((compiled(_WHEN), "time"), (compiled(_COUNT), "number"), (compiled(_NAME), "capitals"))
    return [TRAITS.index(trait) for pattern, trait in asked if pattern.search(text)]


def row_of(
    text: str,
    author: str | None,
    created_ms: int,
    role: str = "user",
    spans: Sequence[DaySpan] = (),
) -> Row:
    """
    Return a message in the form for `read_features`.

    *spans* is only read if the query has a date.
    """
    return traits_of(text), author, created_ms, role, spans


def _read_traits(text: str) -> Traits:
    words = count_words(text)
    begin = text[:TRAIT_CHARS]
    found = set(words_of(begin))
    digits = {len(word) for word in found if word.isdecimal()}
    number = bool(digits) or not _NUMBER_WORDS.isdisjoint(found)
    time = _YEAR_DIGITS in digits or not _TIME_WORDS.isdisjoint(found)
    rows = rows_of(text[:SIMILAR_CHARS]) if words <= LONG_WORDS else ()
    return (
        words,
        1 / (1 + STEEPNESS * log2(words / TURN_WORDS)) if words > TURN_WORDS else 1.0,
        float(not _ASKS.isdisjoint(text)),
        float(number),
        float(time),
        min(len(compiled(_CAPITAL).findall(begin)), CAPITALS) / CAPITALS,
        min(words, SHORT_WORDS) / SHORT_WORDS,
        log2(words / TURN_WORDS) if words > TURN_WORDS else 0.0,
        array("H", rows),
    )


class Features(Record):
    """
    Facts about the candidates of a question.

    Attributes:
        ids: Ids of the candidates.
        columns: By name of a feature, one number for each of `ids`.
        base: What each feature contributes to `base`.
        lenders: By id of a message that has the question's words only beside it, the neighbours
            that contain them.
        assistance: 0 if people write to each other, 1 if the messages of role "assistant" have at
            least eight times as many words as those of "user".
        near: By word of the question and candidate, the similarity of its nearest word, 0 to 1.
    """

    ids: list[int]
    columns: Columns
    base: dict[str, float]
    lenders: dict[int, list[int]]
    assistance: float
    near: Mapping[str, Mapping[int, float]]


class _Chat(Record):
    """
    The candidates and their texts: lists have one item for each of *ids*.

    Attributes:
        ids: Ids of the candidates, rising.
        place: By id, its place in *ids*.
        traits: One list for each of `TRAITS`, by name.
        lent: By id, what long messages lend to their neighbours; others lend 1.0.
        asked: By id, whether the message before is a question of another author.
        runs: Share of messages whose author also wrote the one before, up to `MOST_RUNS`.
    """

    ids: list[int]
    place: Mapping[int, int]
    traits: Mapping[str, Sequence[Any]]
    authors: Sequence[str | None]
    times: Sequence[int]
    roles: Sequence[str]
    spans: Sequence[Sequence[DaySpan]]
    lent: Mapping[int, float]
    asked: AbstractSet[int]
    runs: float

    def zeros(self) -> list[float]:
        """Return 0.0 for each candidate."""
        return [0.0] * len(self.ids)


def read_features(
    query: Query, candidates: Candidates, weights: Weights, *, with_similar: bool
) -> Features:
    """
    Return the features of the candidates whose rows were read.

    Args:
        weights: `lexical_share`, `cover` and those of dates are used.
        with_similar: Whether words of similar meaning count.

    Cost: 1 ms for 150 messages of a chat.
    """
    chat = _read_chat(candidates.rows)
    ids, words, cosine = chat.ids, candidates.lexical.words(), candidates.cosine
    columns, near_words = _word_columns(words, chat)
    near = _near_rows(query, words, chat, _likely(candidates)) if with_similar else {}
    columns["similar"] = _similar(words, chat, near)
    columns["words"] = columns["held"]
    assistance = _assistance(chat)
    covered = _covered(columns, candidates.lexical, weights.cover * (1 - assistance))
    short = chat.traits["short"]
    if min(short, default=1.0) < 1.0:
        for name in ("words", "similar", *SPREADS):
            columns[name] = list(map(mul, columns[name], short))
    near_by = {key: value for key, value in cosine.items() if value > 0}
    columns["cosine"] = [near_by.get(key, 0.0) for key in ids]
    highest = max(near_by.values(), default=1.0)
    columns["near"] = [value / highest for value in columns["cosine"]]
    parts = _base_parts(columns, weights.lexical_share, covered)
    columns["base"] = weighted_sum(columns, parts)
    base = dict(candidates.fused.score) if candidates.fused is not None else {}
    base.update(zip(ids, columns["base"], strict=True))
    _add_neighbours(chat, base, columns)
    _add_person(query, chat, columns)
    _add_shape(query, chat, columns)
    columns["date"] = chat.zeros()
    if query.is_dated:
        dates = DateScorer(query, weights)
        columns["date"] = list(map(dates.score, chat.times, chat.spans))
    _add_sessions(ids, columns)
    lenders = _lenders(chat, near_words, columns)
    return Features(ids, columns, parts, lenders, assistance, near)


def _lenders(chat: _Chat, near_words: AbstractSet[int], columns: Columns) -> dict[int, list[int]]:
    """
    Return, by id of a message without a word of the question, the neighbours that have one.

    An answer to a question is left out, because the answer itself is asked for.

    Args:
        near_words: Ids of messages with a word of the question beside them.
    """
    held, similar, near = columns["held"], columns["similar"], columns["near"]
    place = chat.place
    found = {}
    for key in near_words - chat.asked:
        number = place[key]
        if held[number] or similar[number]:
            continue
        around = [
            one
            for one in (key - 1, key + 1, key - 2, key + 2)
            if (other := place.get(one)) is not None and held[other] and near[other] >= near[number]
        ]
        if around:
            found[key] = around
    return found


def _read_chat(rows: Mapping[int, Row]) -> _Chat:
    """Return the candidates with their traits and what their neighbours are."""
    ids = sorted(rows)
    place = dict(zip(ids, range(len(ids)), strict=True))
    read, *others = zip(*[rows[key] for key in ids], strict=True) if ids else ((), (), (), (), ())
    columns = zip(*read, strict=True) if ids else ((),) * len(TRAITS)
    traits = dict(zip(TRAITS, columns, strict=True))
    authors, times, roles, spans = others
    writers = [author or role for author, role in zip(authors, roles, strict=True)]
    pairs = [number for number, key in enumerate(ids) if key - 1 in place]
    asks, words = traits["asks"], traits["words"]
    asked = frozenset(
        [ids[one] for one in pairs if asks[one - 1] and writers[one - 1] != writers[one]]
    )
    lent = {}
    if max(words, default=0) > LONG_WORDS:
        lent = {ids[one]: LONG_SPREAD for one, count in enumerate(words) if count > LONG_WORDS}
    runs = sum([writers[one - 1] == writers[one] for one in pairs]) / max(len(pairs), 1)
    runs = min(runs, MOST_RUNS)
    return _Chat(ids, place, traits, authors, times, roles, spans, lent, asked, runs)


def _places(lent: Mapping[int, float], key: int, *, is_reply: bool) -> list[Place]:
    """
    Return the places around a message, best first.

    Each has the value of a word there, the offset of the id, the name of the feature, and the share
    that is lent.
    """
    before = "question_before" if is_reply else "before"
    offsets = ((-1, before), (1, "after"), (-2, "two_before"), (2, "two_after"))
    shares = ((offset, name, lent.get(key + offset, 1.0)) for offset, name in offsets)
    return sorted(
        ((SPREADS[name] * share, offset, name, share) for offset, name, share in shares),
        reverse=True,
    )


def _assistance(chat: _Chat) -> float:
    users, answers = (
        [words for words, role in zip(chat.traits["words"], chat.roles, strict=True) if role == of]
        for of in ("user", "assistant")
    )
    if not (users and answers):
        return 0.0
    user, answer = (sum(each) / len(each) for each in (users, answers))
    return min(max(log2(max(answer, 1) / max(user, 1)) / RATIO_BITS, 0.0), 1.0)


def _word_columns(words: Words, chat: _Chat) -> tuple[Columns, AbstractSet[int]]:
    """
    Return the shares of the words that each candidate contains or has beside it.

    A word counts once: in the message if it contains it, else in the best neighbour.

    Returns:
        The columns, and the ids of what has a word beside it that it does not hold.
    """
    columns: Columns = {name: chat.zeros() for name in ("held", "count", "rarest", *SPREADS)}
    held, count, rarest = columns["held"], columns["count"], columns["rarest"]
    every = sum(weight for _, weight, _ in words) or 1.0
    top = max((weight for _, weight, _ in words), default=1.0)
    place, everyone = chat.place, frozenset(chat.ids)
    special = _special(chat)  # for the others the order of places is the same
    usual = everyone.difference(special)
    near_words: set[int] = set()
    for _, weight, holders in words:
        holding = everyone & holders
        share, is_rarest = weight / every, weight / top
        for key in holding:
            number = place[key]
            held[number] += share
            count[number] += 1 / len(words)
            rarest[number] = rarest[number] or is_rarest  # the rarest word is the first
        left = usual - holding
        for _, offset, name, lent in _places({}, 0, is_reply=False):
            beside = _beside(left, holders, offset)
            if beside:
                column, gain = columns[name], weight * lent / every
                for key in beside:
                    column[place[key]] += gain
                left -= beside
                near_words |= beside
        for key in special.keys() - holding:
            for _, offset, name, lent in special[key]:
                if key + offset in holders:
                    columns[name][place[key]] += weight * lent / every
                    near_words.add(key)
                    break
    return columns, near_words


def _beside(ids: AbstractSet[int], holders: AbstractSet[int], offset: int) -> AbstractSet[int]:
    """Return the *ids* that have one of *holders* at *offset*."""
    if len(holders) < len(ids):  # most words stand in few messages
        return ids & {key - offset for key in holders}
    return {key for key in ids if key + offset in holders}


def _special(chat: _Chat) -> dict[int, list[Place]]:
    """Return the places around answers, and around messages beside a long message."""
    beside_long = {
        one
        for key in chat.lent
        for one in (key - 2, key - 1, key + 1, key + 2)
        if one in chat.place
    }
    return {
        key: _places(chat.lent, key, is_reply=key in chat.asked) for key in chat.asked | beside_long
    }


def _similar(words: Words, chat: _Chat, near: Mapping[str, Mapping[int, float]]) -> list[float]:
    """Return the shares of similar words in each candidate, less what the best place lends."""
    added = chat.zeros()
    if not near:
        return added
    every = sum(weight for _, weight, _ in words) or 1.0
    special, usual = _special(chat), _places({}, 0, is_reply=False)
    for term, weight, holders in words:
        for key, nearness in near.get(" ".join(term.words), {}).items():
            if key in holders:
                continue
            places = special.get(key, usual)
            around = (part for part, offset, *_ in places if key + offset in holders)
            gain = nearness - next(around, 0.0)
            if gain > 0:
                added[chat.place[key]] += weight * gain / every
    return added


def _likely(candidates: Candidates) -> AbstractSet[int]:
    """Return the ids of the best candidates before any text is read."""
    score = candidates.fused.score if candidates.fused is not None else candidates.scores
    return set(strongest(score, SIMILAR_ROWS))


def _near_rows(
    query: Query, words: Words, chat: _Chat, likely: AbstractSet[int]
) -> dict[str, dict[int, float]]:
    """Return by asked word and *likely* candidate the similarity of its nearest word, 0 to 1."""
    names = query.names()
    asked = [
        term.words[0]
        for term, _, holders in words
        if holders and len(term.words) == 1 and not names.intersection(term.words)
    ]
    pairs = zip(chat.ids, chat.traits["vocabulary"], strict=True)
    vocabularies = [(key, vocabulary) for key, vocabulary in pairs if key in likely]
    rows = {row for _, vocabulary in vocabularies for row in vocabulary}
    near_by_word = near_rows(asked[:SIMILAR_WORDS], rows, SIMILAR_FLOOR)
    wanted = frozenset(chain.from_iterable(near_by_word.values()))
    holders: dict[int, list[int]] = {row: [] for row in wanted}
    for key, vocabulary in vocabularies:
        for row in wanted.intersection(vocabulary):
            holders[row].append(key)
    found = {word: dict[int, float]() for word in asked[:SIMILAR_WORDS]}
    for word, near in near_by_word.items():
        best: dict[int, float] = {}
        for row, cosine in near.items():
            for key in holders[row]:
                if cosine > best.get(key, 0.0):
                    best[key] = cosine
        found[word] = {
            key: (cosine - SIMILAR_FLOOR) / (1 - SIMILAR_FLOOR) for key, cosine in best.items()
        }
    return found


def _covered(columns: Columns, lexical: Lexical, cover: float) -> float:
    """Return the part of their share that the words count, see `Weights.cover`: 0 to 1."""
    held = sum(weight for _, weight, _ in lexical.words())
    least = cover * lexical.every_word
    if not held or not least:
        return 1.0
    most = max(weighted_sum(columns, {"words": 1.0, "similar": 1.0, **SPREADS}), default=0.0)
    return min(most * held / least, 1.0)


def _base_parts(columns: Columns, share: float, covered: float) -> dict[str, float]:
    """
    Return each feature's part in `base`: words and meaning together, at most 1.

    The result is what a message lends to its neighbours. The words count *covered* of their
    *share*.
    """
    parts = {"words": 1.0, "similar": 1.0, **SPREADS}
    most = max(weighted_sum(columns, parts), default=0.0) or 1.0
    if not any(columns["near"]):
        share = covered = 1.0
    scale = covered * share / most
    return {**{name: scale * part for name, part in parts.items()}, "near": 1 - share}


def weighted_sum(columns: Columns, weights: Mapping[str, float]) -> list[float]:
    """Return, for each candidate, the sum of its numbers times their *weights*, in that order."""
    total = [0.0] * len(columns["words"])
    # A half of the features is 0 for every candidate of most questions, or counts nothing.
    counting = [(columns[name], weight) for name, weight in weights.items() if weight]
    counting = [pair for pair in counting if any(pair[0])]
    last = len(counting) - len(counting) % 4
    for at in range(0, last, 4):
        (a, p), (b, q), (c, r), (d, s) = counting[at : at + 4]
        total = [
            t + p * v + q * w + r * x + s * y
            for t, v, w, x, y in zip(total, a, b, c, d, strict=True)
        ]
    for column, weight in counting[last:]:
        total = [t + weight * value for t, value in zip(total, column, strict=True)]
    return total


def _add_neighbours(chat: _Chat, base: Mapping[int, float], columns: Columns) -> None:
    """Add what the messages beside each candidate say about the question."""
    ids, lent = chat.ids, chat.lent
    before = [base.get(key - 1, 0.0) for key in ids]
    after = [base.get(key + 1, 0.0) for key in ids]
    if lent:
        before = list(map(mul, before, [lent.get(key - 1, 1.0) for key in ids]))
        after = list(map(mul, after, [lent.get(key + 1, 1.0) for key in ids]))
    question, reply = chat.zeros(), chat.zeros()
    for key in chat.asked:
        number = chat.place[key]
        question[number], before[number], reply[number] = before[number], 0.0, 1.0
    columns.update(question_near=question, before_near=before, after_near=after, reply=reply)
    for name in ("before", "before_near", "after", "after_near"):
        run = chat.runs
        columns[f"{name}_run"] = [run * value for value in columns[name]] if run else chat.zeros()


def _add_person(query: Query, chat: _Chat, columns: Columns) -> None:
    """Add the writer of each candidate, by name and by role."""
    columns["author"], columns["role"] = chat.zeros(), chat.zeros()
    if query.authors:
        part = 1 / min(len(query.authors), 2)
        columns["author"] = [part if one in query.authors else 0.0 for one in chat.authors]
    else:
        words = set(query.words)
        asked = "user" if words & _OWN_WORDS else "assistant" if words & _YOUR_WORDS else None
        if asked is not None:
            columns["role"] = [1.0 if role == asked else 0.0 for role in chat.roles]
    columns["user"] = [1.0 if role == "user" else 0.0 for role in chat.roles]


def _add_shape(query: Query, chat: _Chat, columns: Columns) -> None:
    """Add the traits of each text, and whether it has what the question asks for."""
    columns.update({name: list(chat.traits[name]) for name in _SHAPES})
    asked = {TRAITS[place] for place in asked_traits(query.text)}
    for name, has in (("when", "time"), ("how_many", "number"), ("who", "capitals")):
        columns[name] = columns[has] if has in asked else chat.zeros()


def _add_sessions(ids: Sequence[int], columns: Columns) -> None:
    """Add for each candidate the best score in its session, by words and date."""
    best: dict[int, float] = {}
    sessions = [key >> SESSION_SHIFT for key in ids]
    for session, base, date in zip(sessions, columns["base"], columns["date"], strict=True):
        value = base + date
        if value > best.get(session, 0.0):
            best[session] = value
    columns["session"] = [best.get(session, 0.0) for session in sessions]
