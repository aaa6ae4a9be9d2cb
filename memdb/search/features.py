"""
Features: what the ranking of messages knows of each candidate, one list of numbers per name.

Pure functions over ids, numbers and the rows of the candidates: no SQL, no I/O, no clock.
`memdb.search.rank` adds the features up, each times its weight; `docs/recall.md` explains them.
What a feature reads in a text (`Traits`) is kept from recall to recall.

Ids are packed as in `memdb.models.ids`: `id - 1` and `id + 1` are the neighbours of a message.
Shares are of what the words of the question say in the scope (idf). "Short" means times
`1 / (1 + 0.6 log2(words / 60))` above 60 words: a held word says less in a long message.
Source of that curve: half of BEAM's chats, 2026-11.
"""

from __future__ import annotations

from array import array
from math import log2
from operator import add, attrgetter, mul

from memdb.models.ids import SESSION_SHIFT
from memdb.models.record import Record
from memdb.search.date_score import DateScorer
from memdb.search.weights import (
    CAPITALS,
    LONG_SPREAD,
    LONG_WORDS,
    MOST_RUNS,
    RATIO_BITS,
    SHORT_WORDS,
    SIMILAR_CHARS,
    SIMILAR_FLOOR,
    SIMILAR_WORDS,
    SPREADS,
    STEEPNESS,
    TRAIT_CHARS,
    TRAITS_KEPT,
    TURN_WORDS,
)
from memdb.text import regex as re
from memdb.text.terms import count_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memdb.search.candidates import Candidates, Row
    from memdb.search.parse import Query
    from memdb.search.weights import Weights
    from memdb.text.terms import Term

    Columns = dict[str, list[float]]
    Words = Sequence[tuple[Term, float, AbstractSet[int]]]

_NUMBER = re.compile(
    r"\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twice|couple|few|dozen|hundred"
    r"|thousand)\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:today|yesterday|tomorrow|tonight|last|next|ago|week|weekend|month|year|since|\d{4}"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july"
    r"|august|september|october|november|december)\b",
    re.IGNORECASE,
)
# The same for ASCII texts, five times as fast: words in a set.
_NUMBER_WORDS = frozenset(
    b"one two three four five six seven eight nine ten twice couple few dozen hundred "
    b"thousand".split()
)
_TIME_WORDS = frozenset(
    b"today yesterday tomorrow tonight last next ago week weekend month year since monday tuesday "
    b"wednesday thursday friday saturday sunday january february march april may june july august "
    b"september october november december".split()
)
_YEAR_DIGITS = 4
_DIGITS = b"0123456789"
_NO_DIGITS = bytes(set(range(256)) - set(_DIGITS))
_WORD_BYTES = bytes(
    byte if chr(byte).isalnum() or chr(byte) == "_" else 32 for byte in bytes(range(128)).lower()
).ljust(256)
# A capital within a sentence: a name.
_CAPITAL = re.compile(r"[A-Z](?<=[a-z,] [A-Z])[a-z]+")
_ASKS = re.compile(r"[?\uff1f\u061f]")

_WHEN = re.compile(
    r"^\s*when\b|\b(?:what|which) (?:year|month|date|day|time)\b|\bhow long\b"
    r"|\bwhen (?:did|is|was|will|does)\b",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\bhow (?:many|much|old|often)\b", re.IGNORECASE)
_NAME = re.compile(r"^\s*(?:who|whose|which)\b|\bwhere\b", re.IGNORECASE)
_OWN_WORDS = frozenset(("i", "my", "me", "mine", "myself", "we", "our"))
_YOUR_WORDS = frozenset(("you", "your", "yours"))


class Traits(Record):
    """
    What a text is like, whatever is asked.

    Attributes:
        words: How many it has.
        short: 1 up to `TURN_WORDS` words, less above: what a held word counts.
        asks: 1.0 if it has a question mark.
        number, time: 1.0 if it holds a number, a word of time.
        capitals: 0 to 1 by capitals within its sentences.
        length: 0 to 1 by its words, 1 from `SHORT_WORDS` on.
        long: How many times twice `TURN_WORDS` it has; 0.0 up to them.
        vocabulary: Rows of the built-in table for its words, each once; none of a long
            text, which has a word near to any other.
    """

    words: int
    short: float
    asks: float
    number: float
    time: float
    capitals: float
    length: float
    long: float
    vocabulary: array[int]


# The features that are traits, in the order of `_shapes_of`.
_SHAPES = ("asks", "number", "time", "capitals", "length", "long")
_shapes_of = attrgetter(*_SHAPES)


_traits: dict[tuple[int, int], Traits] = {}


def traits_of(text: str) -> Traits:
    """Return the traits of a text; those of the last texts are kept by length and hash."""
    key = (len(text), hash(text))
    found = _traits.get(key)
    if found is None:
        if len(_traits) >= TRAITS_KEPT:
            _traits.clear()
        found = _traits[key] = _read_traits(text)
    return found


def _read_traits(text: str) -> Traits:
    from memdb.embeddings.static_model import rows_of

    words = count_words(text)
    begin = text[:TRAIT_CHARS]
    number, time = _numbers_and_times(begin)
    return Traits(
        words=words,
        short=1 / (1 + STEEPNESS * log2(words / TURN_WORDS)) if words > TURN_WORDS else 1.0,
        asks=float("?" in text if text.isascii() else _ASKS.search(text) is not None),
        number=number,
        time=time,
        capitals=min(len(_CAPITAL.findall(begin)), CAPITALS) / CAPITALS,
        length=min(words, SHORT_WORDS) / SHORT_WORDS,
        long=log2(max(words, TURN_WORDS) / TURN_WORDS),
        vocabulary=array("H", rows_of(text[:SIMILAR_CHARS]) if words <= LONG_WORDS else ()),
    )


def _numbers_and_times(text: str) -> tuple[float, float]:
    """Return 1.0 if a text holds a number, and 1.0 if it holds a word of time."""
    if not text.isascii():
        return float(_NUMBER.search(text) is not None), float(_TIME.search(text) is not None)
    data = text.encode()
    words = data.translate(_WORD_BYTES).split()
    number, time = not _NUMBER_WORDS.isdisjoint(words), not _TIME_WORDS.isdisjoint(words)
    if data.translate(None, _NO_DIGITS):
        lengths = {len(word) for word in words if word.isdigit()}
        number, time = number or bool(lengths), time or _YEAR_DIGITS in lengths
    return float(number), float(time)


class Features(Record):
    """
    What is known of the candidates of a question.

    Attributes:
        ids: Of the candidates.
        columns: By name of a feature, one number for each of `ids`.
        base: What each feature that `base` is the sum of counts in it.
        lenders: By id of a message that has the question's words only beside it, the messages
            there that hold them.
        assistance: 0 where people write to each other, 1 where the messages of role
            "assistant" have eight times as many words as those of "user", or more.
    """

    ids: list[int]
    columns: Columns
    base: dict[str, float]
    lenders: dict[int, list[int]]
    assistance: float


class _Chat(Record):
    """
    The candidates and their texts.

    Attributes:
        lent: What long messages lend to those beside them, by id; others lend 1.0.
        asked: By id, whether the message before is a question of another author.
        beside: By place of a candidate, the messages around it, best first: what a word
            there counts, the offset of the id, name of the feature, and the share of it that
            is lent.
        runs: Share of messages whose author wrote the one before too, up to `MOST_RUNS`.
    """

    ids: list[int]
    rows: Mapping[int, Row]
    traits: Mapping[int, Traits]
    lent: Mapping[int, float]
    asked: AbstractSet[int]
    beside: list[list[tuple[float, int, str, float]]]
    runs: float


def read_features(
    query: Query, candidates: Candidates, weights: Weights, *, with_similar: bool
) -> Features:
    """
    Return the features of the candidates whose rows were read.

    Args:
        weights: `lexical_share` and those of dates are used.
        with_similar: Whether words of similar meaning count.

    Cost: 3 ms for 150 messages of a chat.
    """
    chat = _read_chat(candidates.rows)
    ids, rows, traits = chat.ids, chat.rows, [chat.traits[key] for key in chat.ids]
    words = candidates.lexical.words()
    columns: Columns = _word_columns(words, chat)
    near = _near_rows(query, words, chat.traits) if with_similar else {}
    columns["similar"] = _similar(words, chat, near)
    short = [each.short for each in traits]
    columns["words"] = columns["held"]
    for name in ("words", "similar", *SPREADS):
        columns[name] = _times(columns[name], short)
    cosine = candidates.cosine
    columns["cosine"] = [max(cosine.get(key, 0.0), 0.0) for key in ids]
    highest = max([*cosine.values(), 0.0]) or 1.0
    columns["near"] = [value / highest for value in columns["cosine"]]
    parts = _base_parts(columns, weights.lexical_share)
    columns["base"] = weighted_sum(columns, parts)
    base = dict(candidates.fused.score) if candidates.fused is not None else {}
    base.update(zip(ids, columns["base"], strict=True))
    _add_neighbours(chat, base, columns)
    _add_person(query, chat, columns)
    _add_shape(query, traits, columns)
    dates = DateScorer(query, weights)
    columns["date"] = [0.0] * len(ids)
    if query.is_dated:
        columns["date"] = [dates.score(rows[key].created_ms, rows[key].spans) for key in ids]
    _add_sessions(ids, columns)
    return Features(ids, columns, parts, _lenders(chat, columns), _assistance(chat))


def _lenders(chat: _Chat, columns: Columns) -> dict[int, list[int]]:
    """
    Return by id of a message that says nothing itself the messages beside it that do.

    The answer to a question is none: both are one, and the answer is what is asked for.
    """
    near = dict(zip(chat.ids, columns["near"], strict=True))
    holders = {key for key, held in zip(chat.ids, columns["held"], strict=True) if held}
    found = {}
    for number, key in enumerate(chat.ids):
        if key in holders or key in chat.asked or columns["similar"][number]:
            continue
        places = [key + offset for _, offset, *_ in chat.beside[number]]
        around = [one for one in places if one in holders and near[one] >= near[key]]
        if around:
            found[key] = around
    return found


def _times(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return list(map(mul, first, second))


def _read_chat(rows: Mapping[int, Row]) -> _Chat:
    """Return the candidates with what they have beside them."""
    ids = list(rows)
    traits = {key: traits_of(row.text) for key, row in rows.items()}
    writers = {key: row.author or row.role for key, row in rows.items()}
    lent = {key: LONG_SPREAD for key, each in traits.items() if each.words > LONG_WORDS}
    asked = frozenset(
        key
        for key in ids
        if key - 1 in rows and traits[key - 1].asks and writers[key - 1] != writers[key]
    )
    usual = (_places(is_reply=False), _places(is_reply=True))
    beside = [usual[key in asked] for key in ids]
    for number, key in enumerate(ids if lent else ()):
        if not lent.keys().isdisjoint((key - 2, key - 1, key + 1, key + 2)):
            around = [
                (SPREADS[name] * lent.get(key + offset, 1.0), offset, name)
                for _, offset, name, _ in beside[number]
            ]
            around.sort(reverse=True)
            beside[number] = [
                (spread, offset, name, lent.get(key + offset, 1.0))
                for spread, offset, name in around
            ]
    pairs = [key for key in ids if key - 1 in rows]
    runs = sum(writers[key - 1] == writers[key] for key in pairs) / max(len(pairs), 1)
    runs = min(runs, MOST_RUNS)
    return _Chat(ids, rows, traits, lent, asked, beside, runs)


def _places(*, is_reply: bool) -> list[tuple[float, int, str, float]]:
    """Return the places around a candidate, best first; see `_Chat.beside`."""
    before = "question_before" if is_reply else "before"
    offsets = ((-1, before), (1, "after"), (-2, "two_before"), (2, "two_after"))
    return sorted(((SPREADS[name], offset, name, 1.0) for offset, name in offsets), reverse=True)


def _assistance(chat: _Chat) -> float:
    lengths: dict[str, list[int]] = {"user": [], "assistant": []}
    for key, row in chat.rows.items():
        if row.role in lengths:
            lengths[row.role].append(chat.traits[key].words)
    if not all(lengths.values()):
        return 0.0
    users, answers = (sum(each) / len(each) for each in lengths.values())
    return min(max(log2(max(answers, 1) / max(users, 1)) / RATIO_BITS, 0.0), 1.0)


def _word_columns(words: Words, chat: _Chat) -> Columns:
    """
    Return the shares of the words that each candidate holds, or has beside it.

    A word counts once: where the message holds it, else where the best neighbour does.
    """
    columns: Columns = {
        name: [0.0] * len(chat.ids) for name in ("held", "count", "rarest", *SPREADS)
    }
    held, count, rarest = columns["held"], columns["count"], columns["rarest"]
    every = sum(weight for _, weight, _ in words) or 1.0
    top = max((weight for _, weight, _ in words), default=1.0)
    ids = chat.ids
    beside: dict[int, list[int]] = {}  # candidates, by id of a message up to two places away
    for number, key in enumerate(ids):
        for place in range(key - 2, key + 3):
            beside.setdefault(place, []).append(number)
    around = frozenset(beside)
    for _, weight, holders in words:
        near = around & holders  # most words stand in few messages
        share, is_rarest = weight / every, weight / top
        for number in {each for place in near for each in beside[place]}:
            key = ids[number]
            if key in near:
                held[number] += share
                count[number] += 1 / len(words)
                rarest[number] = max(rarest[number], is_rarest)
                continue
            for _, offset, name, lent in chat.beside[number]:
                if key + offset in near:
                    columns[name][number] += weight * lent / every
                    break
    return columns


def _similar(words: Words, chat: _Chat, near: Mapping[Term, Mapping[int, float]]) -> list[float]:
    """Return the shares of the words that each candidate says otherwise, and none beside it."""
    added = [0.0] * len(chat.ids)
    every = sum(weight for _, weight, _ in words) or 1.0
    place = {key: number for number, key in enumerate(chat.ids)} if near else {}
    for term, weight, holders in words:
        for key, nearness in near.get(term, {}).items():
            if key in holders:
                continue
            number = place[key]
            around = (part for part, offset, *_ in chat.beside[number] if key + offset in holders)
            gain = nearness - next(around, 0.0)
            if gain > 0:
                added[number] += weight * gain / every
    return added


def _near_rows(
    query: Query,
    words: Words,
    traits: Mapping[int, Traits],
) -> dict[Term, dict[int, float]]:
    """Return by term and candidate how near its nearest word is to the term, 0 to 1."""
    from memdb.embeddings.static_model import near_rows

    names = query.names()
    asked = {
        term.words[0]: term
        for term, _, holders in words
        if holders and len(term.words) == 1 and not names.intersection(term.words)
    }
    holders: dict[int, list[int]] = {}
    for key, each in traits.items():
        for row in each.vocabulary:
            holders.setdefault(row, []).append(key)
    found: dict[Term, dict[int, float]] = {}
    for word, near in near_rows(list(asked)[:SIMILAR_WORDS], holders, SIMILAR_FLOOR).items():
        best: dict[int, float] = {}
        for row, cosine in near.items():
            for key in holders[row]:
                if cosine > best.get(key, 0.0):
                    best[key] = cosine
        found[asked[word]] = {
            key: (cosine - SIMILAR_FLOOR) / (1 - SIMILAR_FLOOR) for key, cosine in best.items()
        }
    return found


def _base_parts(columns: Columns, share: float) -> dict[str, float]:
    """
    Return by feature what it counts in `base`: words and meaning together, at most 1.

    That is what a message lends to those around it.
    """
    parts = {"words": 1.0, "similar": 1.0, **SPREADS}
    most = max(weighted_sum(columns, parts), default=0.0) or 1.0
    if not any(columns["near"]):
        share = 1.0
    return {**{name: share * part / most for name, part in parts.items()}, "near": 1 - share}


def weighted_sum(columns: Columns, weights: Mapping[str, float]) -> list[float]:
    """Return for each candidate the sum of its *weights* times its numbers."""
    total = [0.0] * len(columns["words"])
    for name, weight in weights.items():
        column = columns[name]
        if any(column):  # a third of the features is 0 for every candidate of most questions
            total = list(map(add, total, map(float(weight).__mul__, column)))
    return total


def _add_neighbours(chat: _Chat, base: Mapping[int, float], columns: Columns) -> None:
    """Add what the messages beside each candidate say about the question."""
    lent = chat.lent
    first = [base.get(key - 1, 0.0) for key in chat.ids]
    after = [base.get(key + 1, 0.0) for key in chat.ids]
    if lent:
        first = _times(first, [lent.get(key - 1, 1.0) for key in chat.ids])
        after = _times(after, [lent.get(key + 1, 1.0) for key in chat.ids])
    reply = [float(key in chat.asked) for key in chat.ids]
    question = _times(first, reply)
    before = _times(first, [1.0 - value for value in reply])
    columns.update(question_near=question, before_near=before, after_near=after, reply=reply)
    for name in ("before", "before_near", "after", "after_near"):
        columns[f"{name}_run"] = [chat.runs * value for value in columns[name]]


def _add_person(query: Query, chat: _Chat, columns: Columns) -> None:
    """Add who wrote each candidate, by name and by role."""
    rows = [chat.rows[key] for key in chat.ids]
    part = 1 / min(len(query.authors), 2) if query.authors else 0.0
    columns["author"] = [part * (row.author in query.authors) for row in rows]
    asked = None
    if not query.authors:
        words = set(query.words)
        asked = "user" if words & _OWN_WORDS else "assistant" if words & _YOUR_WORDS else None
    columns["role"] = [float(row.role == asked) for row in rows]
    columns["user"] = [float(row.role == "user") for row in rows]


def _add_shape(query: Query, traits: Sequence[Traits], columns: Columns) -> None:
    """Add what each text is like, and whether it has what the question asks for."""
    shapes = zip(*map(_shapes_of, traits), strict=True) if traits else ([] for _ in _SHAPES)
    columns.update({name: list(values) for name, values in zip(_SHAPES, shapes, strict=True)})
    for name, pattern, has in (
        ("when", _WHEN, "time"),
        ("how_many", _COUNT, "number"),
        ("who", _NAME, "capitals"),
    ):
        asked = float(pattern.search(query.text) is not None)
        columns[name] = [asked * value for value in columns[has]]


def _add_sessions(ids: Sequence[int], columns: Columns) -> None:
    """Add the best of each candidate's session."""
    best: dict[int, float] = {}
    said = [sum(pair) for pair in zip(columns["base"], columns["date"], strict=True)]
    for key, value in zip(ids, said, strict=True):
        session = key >> SESSION_SHIFT
        if value > best.get(session, 0.0):
            best[session] = value
    columns["session"] = [best.get(key >> SESSION_SHIFT, 0.0) for key in ids]
