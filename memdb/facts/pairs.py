"""
Relation of a newer statement to an older one: a link with a probability, never a removal.

The model is a multinomial logistic regression. Its features exist in every language: shared words,
words on one side only, numbers that name or count, the place of the difference. Time, cosine and
the markers of `markers.json` are features too. `bench/facts/train.py` makes the weights from
`bench/facts/data/`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING, Any
from zlib import crc32

from memdb.facts.keeping import FACT, KINDS, Rows, head_shares, softmax
from memdb.facts.markers import markers, marks, orders_to_forget, says_the_same
from memdb.facts.sentences import is_question
from memdb.facts.wording import fold, recognise, words_of
from memdb.models.record import Record
from memdb.text.resources import compiled, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memdb.facts.wording import Word

RELATIONS = ("repeats", "updates", "corrects", "retracts", "none")
NONE = "none"
ENDS = ("updates", "corrects", "retracts")

# Markers of a newer statement that asserts nothing about the older one.
UNREAL = ("question", "condition", "hedge", "report", "temporary")
_CHANGING = frozenset({"change", "correction", "negation", "retraction"})

# The numbers below define features, and `pairs.json` holds weights of these: after a change of one
# they are trained again (bench/facts/train.py).

# Statements that are counted as if they lacked a word: of three, each word would be common.
PRIOR = 50
# Forms of one word begin alike in this part of the longer one, in four letters at least: "allergic"
# and "allergies".
_STEM_SHARE, _STEM_CHARS = 0.65, 4
# A word of more weight carries meaning, 0 to 1: "tea" does, "really" does not.
_HEAVY = 0.6
# Words of a statement that are compared; fewer than three are a fragment.
_MOST_WORDS, _FEW_WORDS = 60, 3
# The first third of a statement, where its subject stands; numbers that rather name than count.
_EARLY, _BIG = 0.34, 100
# A logit of certainty has an end, +-20.7.
_LEAST_SHARE = 1e-9
# Below this share of "says a fact" a statement asserts nothing.
_IS_FACT = 0.4
# An order to forget is sure of what it is linked to from the first probability on: in the data kept
# apart from training 40 of 47 that somebody wrote for a statement, 8 of 362 for another one.
_ORDERED, _SURE = 0.65, 0.8
_YEARS = (1900, 2100)
# Words behind a denial in which a rejected value is looked for; reasons that a link names.
_NEAR_WORDS, _MOST_REASONS = 3, 8
# Hashed pieces of words: their places, letters of a part, and what each counts beside a feature.
BUCKETS = 1 << 14
_PART = 4
_WORD_VALUE, _PAIR_VALUE, _PART_VALUE, _OLDER_VALUE = 0.5, 0.4, 0.2, 0.3


class Statement(Record):
    """A statement and its time."""

    text: str
    created_ms: int
    trusted: bool = True


class Relation(Record):
    """
    Relation of a newer statement to an older one.

    Attributes:
        kind: One of `RELATIONS`.
        probability: Probability of this kind; for an update, a correction or a retraction, that it
            is one of the three.
        reasons: Features and their contribution to this kind, largest first. For "none" it is only
            the lack of shared words.
    """

    kind: str
    probability: float
    reasons: tuple[tuple[str, float], ...] = ()


def relate(
    newer: Statement,
    older: Statement,
    *,
    cosine: float | None,
    rarity: Callable[[str], float],
) -> Relation:
    """
    Return the effect of *newer* on *older*.

    An untrusted statement outdates no trusted one. Cost: about 0.1 ms.

    Args:
        cosine: Cosine of their vectors; None if there are none, or the embedder does
            not know the script.
        rarity: Returns the rarity of a folded word, 0 for one in every statement, to 1.
    """
    if says_the_same(newer.text, older.text):
        return Relation("repeats", 1.0, (("the same words", 1.0),))
    if _share_too_little(newer.text, older.text):
        return Relation(NONE, 1.0, (("too little is shared", 1.0),))
    used = weights_used()
    given = used.expanded(features(newer, older, cosine=cosine, rarity=rarity))
    given += used.said(grams_of(newer.text, older.text))
    values = (1.0, *(value for _, value, _ in given))
    columns = zip(used.bias, *(weights for _, _, weights in given), strict=True)
    shares = softmax([sum(map(mul, values, column)) * used.scale for column in columns])
    if not newer.trusted and older.trusted:
        shares = [
            0.0 if kind in ENDS else share for kind, share in zip(RELATIONS, shares, strict=True)
        ]
    kind, probability = decided(shares, used.slope, used.shift)
    if kind == NONE:
        return Relation(kind, probability)
    if kind == "retracts" and probability >= _ORDERED:
        if _share_a_subject(newer.text, older.text):
            probability = _ORDERED  # what is over is not named
        elif is_retraction(newer.text):
            probability = max(probability, _SURE)
    best = RELATIONS.index(kind)
    parts = [(name, value * weights[best]) for name, value, weights in given]
    parts.sort(key=lambda part: (-abs(part[1]), part[0]))
    reasons = tuple((name, round(part, 3)) for name, part in parts[:_MOST_REASONS])
    return Relation(kind, probability, reasons)


def _share_too_little(newer: str, older: str) -> bool:
    """
    Return whether two texts share too little to be related.

    Texts without a shared word are not related if one has a word or two, or if they are in two
    languages. Texts that share only a subject are not related if the newer one has no word of
    change: "Ann plays chess", "Ann drives a van".
    """
    new, old, both = _aligned(newer, older)
    if not both:
        return min(len(new), len(old)) < _FEW_WORDS or recognise(newer) != recognise(older)
    return _share_a_subject(newer, older) and _CHANGING.isdisjoint(marks(newer))


def _share_a_subject(newer: str, older: str) -> bool:
    """Return whether two texts share only the subject at their start."""
    new, _, both = _aligned(newer, older)
    ahead = next((at for at in range(len(new)) if both.get(at) != at), len(new))
    return [at for at in both if new[at].weight > _HEAVY] == [ahead - 1]


def decided(shares: Sequence[float], slope: float = 1.0, shift: float = 0.0) -> tuple[str, float]:
    """
    Return the kind of a link and its probability, from the shares of `RELATIONS`.

    All kinds that outdate the older statement are added up first, because that matters more than
    which of them it is.

    Args:
        slope: Slope of the logarithm of the odds of a link, to which *shift* is added (Platt).

    >>> decided([0.1, 0.3, 0.3, 0.0, 0.3])
    ('updates', 0.6)
    """
    told = dict(zip(RELATIONS, shares, strict=True))
    end = max(ENDS, key=told.__getitem__)
    share, kind = max((told["repeats"], "repeats"), (sum(told[one] for one in ENDS), end))
    share = 1 / (1 + math.exp(-slope * log_odds(share) - shift))
    return (NONE, 1 - share) if share < 0.5 else (kind, share)  # noqa: PLR2004 (what is likelier)


def log_odds(share: float) -> float:
    """Return the logarithm of the odds of a probability, for 0 and 1 too."""
    share = min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)
    return math.log(share / (1 - share))


def is_retraction(text: str) -> bool:
    """
    Return whether *text* is an order to forget; a statement that something is over is a fact.

    >>> is_retraction("Forget what I said about the piano."), is_retraction("I sold the piano.")
    (True, False)
    """
    if not orders_to_forget(text) or "condition" in marks(text) or is_question(text.rstrip()):
        return False
    return head_shares("says", text, "user")[FACT] < _IS_FACT


def rarity_of(held: int, total: int) -> float:
    """
    Return the rarity of a word in *held* of *total* statements, from 0 (all) to 1 (none).

    A few statements are weak evidence, so `PRIOR` others without the word are added.

    >>> round(rarity_of(2, 2), 2), round(rarity_of(500, 1_000), 2)
    (0.82, 0.11)
    """
    whole = max(total, held) + PRIOR
    return math.log(whole / max(held, 1)) / math.log(whole)


def features(
    newer: Statement,
    older: Statement,
    *,
    cosine: float | None,
    rarity: Callable[[str], float],
) -> dict[str, float]:
    """Return the features of a pair; an absent one is 0."""
    new, old, both = _aligned(newer.text, older.text)
    left_new = [place for place in range(len(new)) if place not in both]
    taken = set(both.values())
    left_old = [place for place in range(len(old)) if place not in taken]
    weigh_new, weigh_old = _weights(new, rarity), _weights(old, rarity)
    found: dict[str, float] = {}
    shared = sum(weigh_old[place] for place in taken)
    share_old = shared / (sum(weigh_old) or 1.0)
    share_new = sum(weigh_new[place] for place in both) / (sum(weigh_new) or 1.0)
    least, most = sorted((share_new, share_old))
    found["share of the older"] = share_old
    found["share of the newer"] = share_new
    found["least share"] = least
    found["most share"] = most
    found["words shared"] = min(shared, 6.0) / 6
    found["rarest shared"] = max((weigh_old[place] for place in taken), default=0.0)
    found["left of the newer"] = min(sum(weigh_new[place] for place in left_new), 6.0) / 6
    found["left of the older"] = min(sum(weigh_old[place] for place in left_old), 6.0) / 6
    grams_new, grams_old = _grams(newer.text), _grams(older.text)
    found["letters"] = 2 * len(grams_new & grams_old) / (len(grams_new) + len(grams_old) or 1)
    found |= _places(new, old, both, left_new, left_old, weigh_new, weigh_old)
    found |= _frames(new, old, both, weigh_new, weigh_old)
    found |= _numbers(new, old, both, left_new, left_old)
    found |= _letters_and_names(new, old, left_new, left_old)
    found |= _acts(newer, older, new, both, left_new, most)
    if cosine is not None:
        found["cosine known"] = 1.0
        found["cosine"] = cosine
        found["cosine without words"] = cosine * (1 - most)
    return {name: value for name, value in found.items() if value}


def grams_of(newer: str, older: str) -> dict[str, float]:
    """
    Return the words of a pair as hashed features, whose weights come from data.

    From the newer statement these are words, pairs of neighbours and parts of words that the older
    one lacks, with their values. From the older one they are its words, its beginning and pairs of
    neighbours.
    """
    new, old, both = _aligned(newer, older)
    found: dict[str, float] = {}
    for place, word in enumerate(new):
        if word.kind in ("number", "unit"):
            continue
        after = new[place + 1] if place + 1 < len(new) else None
        if after is not None and not (place in both and place + 1 in both):
            found[f"{word.text} {after.text if after.kind != 'number' else '0'}"] = _PAIR_VALUE
        if place in both or word.is_name:
            continue
        found[word.text] = _WORD_VALUE
        if word.kind == "word":
            padded = f"<{word.text}>"
            for at in range(len(padded) - _PART + 1):
                found[padded[at : at + _PART]] = _PART_VALUE
    texts = ["0" if word.kind == "number" else word.text for word in old]
    for one, other in pairwise(["", *texts]):
        found[f"older: {one} {other}"] = found[f"older: {other}"] = _OLDER_VALUE
    return found


def bucket(gram: str) -> int:
    """Return the number of a hashed feature in the weights."""
    return crc32(gram.encode("utf-8", "surrogatepass")) % BUCKETS


@lru_cache(maxsize=64)
def _aligned(newer: str, older: str) -> tuple[Sequence[Word], Sequence[Word], Mapping[int, int]]:
    """
    Return the words of both texts, and the matching ones.

    Cached because the model reads a pair twice.
    """
    new, old = words_of(newer)[:_MOST_WORDS], words_of(older)[:_MOST_WORDS]
    return new, old, _matches(new, old)


def _matches(new: Sequence[Word], old: Sequence[Word]) -> dict[int, int]:
    """Return, by place of a word of *new*, the place of the matching word of *old*."""
    free: dict[str, list[int]] = {}
    for place, word in enumerate(old):
        free.setdefault(word.text, []).append(place)
    both: dict[int, int] = {}
    rest = []
    for place, word in enumerate(new):
        places = free.get(word.text)
        if places:
            # The nearest in the sentence: repeated words keep their order.
            both[place] = places.pop(0)
        elif word.kind == "word" and len(word.text) >= _STEM_CHARS:
            rest.append(place)
    taken = set(both.values())
    stems = [at for at, word in enumerate(old) if at not in taken and word.kind == "word"]
    for place in rest:
        text = new[place].text
        for at in stems:
            other = old[at].text
            if at in taken or (text[0] != other[0] and text[-1] != other[-1]):
                continue  # a stem is the same at one end: most pairs of words are not
            if same_stem(text, other):
                both[place] = at
                taken.add(at)
                break
    return both


def same_stem(one: str, other: str) -> bool:
    """Return whether two words begin alike: forms of one word, or one mistyped letter."""
    least, most = sorted((len(one), len(other)))
    if least < _STEM_CHARS:
        return False
    same = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        same += 1
    if same >= max(_STEM_CHARS, _STEM_SHARE * most):
        return True
    tail = 0
    while tail < least - same and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    return most > _STEM_CHARS and most - same - tail <= 1


def _weights(words: Sequence[Word], rarity: Callable[[str], float]) -> list[float]:
    return [
        word.weight if word.kind == "number" else min(word.weight, 0.3 + 0.7 * rarity(word.text))
        for word in words
    ]


@lru_cache(maxsize=2_048)
def _grams(text: str) -> frozenset[str]:
    letters = "".join(letter for letter in fold(text[:400]) if letter.isalnum())
    size = 3 if letters.isascii() or letters < "\u3040" else 2
    return frozenset(letters[at : at + size] for at in range(len(letters) - size + 1))


def _places(
    new: Sequence[Word],
    old: Sequence[Word],
    both: Mapping[int, int],
    left_new: Sequence[int],
    left_old: Sequence[int],
    weigh_new: Sequence[float],
    weigh_old: Sequence[float],
) -> dict[str, float]:
    """Return the place of the difference: subjects come early, values late."""
    found: dict[str, float] = {}
    ahead = next((n for n in range(len(new)) if both.get(n) != n), len(new))
    longest = max(len(new), len(old)) or 1
    found["begins alike"] = ahead / longest
    tail = 0
    while tail < min(len(new), len(old)) and both.get(len(new) - 1 - tail) == len(old) - 1 - tail:
        tail += 1
    found["ends alike"] = tail / longest
    found["first word alike"] = float(bool(new) and both.get(0) == 0)
    for side, left, words, weights in (
        ("newer", left_new, new, weigh_new),
        ("older", left_old, old, weigh_old),
    ):
        weight = sum(weights[place] for place in left)
        if not weight:
            found[f"nothing left of the {side}"] = 1.0
            continue
        early = sum(weights[place] for place in left if place / len(words) < _EARLY)
        found[f"differs early in the {side}"] = early / weight
        found[f"one gap in the {side}"] = float(left[-1] - left[0] == len(left) - 1)
    if found.get("one gap in the newer") and found.get("one gap in the older"):
        found["one place differs"] = 1.0
        found["one word differs"] = float(len(left_new) == len(left_old) == 1)
        found["one place, early"] = min(
            found["differs early in the newer"], found["differs early in the older"]
        )
    order = [both[place] for place in sorted(both)]
    found["other order"] = sum(two < one for one, two in pairwise(order)) / (len(order) or 1)
    return found


def _frames(
    new: Sequence[Word],
    old: Sequence[Word],
    both: Mapping[int, int],
    weigh_new: Sequence[float],
    weigh_old: Sequence[float],
) -> dict[str, float]:
    """Return how much is shared without values: numbers, names and single letters."""
    shares, values = [], []
    for words, weights, matched in (
        (new, weigh_new, set(both)),
        (old, weigh_old, set(both.values())),
    ):
        valued = {n for n, word in enumerate(words) if _is_value(word)}
        frame = [n for n in range(len(words)) if n not in valued]
        whole = sum(weights[n] for n in frame)
        shares.append(sum(weights[n] for n in frame if n in matched) / whole if whole else 0.0)
        values.append(not valued <= matched)
    found = {
        "frame of the newer": shares[0],
        "frame of the older": shares[1],
        "frame": min(shares),
    }
    if all(values):
        found["other value in the frame"] = min(shares)
        found["other value in most of the frame"] = max(shares)
    return found


def _is_value(word: Word) -> bool:
    return word.kind == "number" or word.is_name or _is_lone(word)


def _numbers(
    new: Sequence[Word],
    old: Sequence[Word],
    both: Mapping[int, int],
    left_new: Sequence[int],
    left_old: Sequence[int],
) -> dict[str, float]:
    """Return how the numbers agree, and whether differing ones are names or counts."""
    ours = [place for place in left_new if new[place].kind == "number"]
    theirs = [place for place in left_old if old[place].kind == "number"]
    same = [place for place in both if new[place].kind == "number"]
    found = {
        "numbers alike": float(bool(same) and not ours and not theirs),
        "some numbers alike": float(bool(same) and bool(ours or theirs)),
        "numbers in the newer only": float(bool(ours) and not theirs),
        "numbers in the older only": float(bool(theirs) and not ours),
    }
    if not ours or not theirs:
        return found
    found["numbers differ"], here, there = 1.0, ours[0], theirs[0]
    one, other = float(new[here].text), float(old[there].text)
    is_year = all(_YEARS[0] <= value < _YEARS[1] and value % 1 == 0 for value in (one, other))
    found["years differ"] = float(is_year)
    if is_year:
        return found
    named_new, named_old = _names(new, here), _names(old, there)
    found["numbers that name"] = float(named_new and named_old)
    alike = here > 0 and there > 0 and both.get(here - 1) == there - 1
    found["number behind the same word"] = float(alike)
    found["number behind the same noun"] = float(
        alike and new[here - 1].weight > _HEAVY and new[here - 1].kind != "unit"
    )
    unit = here + 1 < len(new) and there + 1 < len(old) and both.get(here + 1) == there + 1
    found["number before the same word"] = float(unit)
    found["number early"] = float(here / len(new) < _EARLY and there / len(old) < _EARLY)
    found["number at the end"] = float(here == len(new) - 1)
    found["numbers are big"] = float(min(one, other) >= _BIG)
    found["numbers are near"] = min(one, other) / max(one, other) if max(one, other) else 1.0
    found["numbers are neighbours"] = float(abs(one - other) <= 1)
    return found


def _names(words: Sequence[Word], place: int) -> bool:
    """Return whether a number follows a noun that it identifies: "Server 12", "4号楼"."""
    before = words[place - 1] if place else None
    after = words[place + 1] if place + 1 < len(words) else None
    if before is None or before.kind == "unit" or (after is not None and after.kind == "unit"):
        return False
    return before.weight > _HEAVY and (place <= 2 or before.is_name)  # noqa: PLR2004 (the first words)


def _letters_and_names(
    new: Sequence[Word], old: Sequence[Word], left_new: Sequence[int], left_old: Sequence[int]
) -> dict[str, float]:
    """Return whether single letters or names differ."""
    found: dict[str, float] = {}
    sides = ((new, left_new), (old, left_old))
    lone = [any(_is_lone(words[place]) for place in left) for words, left in sides]
    found["lone letters differ"] = float(all(lone))
    names = [[at / len(words) for at in left if words[at].is_name] for words, left in sides]
    if names[0] and names[1]:
        found["names differ"] = 1.0
        found["names differ early"] = float(max(min(names[0]), min(names[1])) < _EARLY)
    found["a name in the newer only"] = float(bool(names[0]) and not names[1])
    found["a name in the older only"] = float(bool(names[1]) and not names[0])
    return found


def _is_lone(word: Word) -> bool:
    return word.kind == "word" and len(word.text.rstrip("+#")) == 1


def _acts(
    newer: Statement,
    older: Statement,
    new: Sequence[Word],
    both: Mapping[int, int],
    left_new: Sequence[int],
    share: float,
) -> dict[str, float]:
    """Return what the two sentences do: markers, what the other model says, a rejected value."""
    found: dict[str, float] = {}
    marked_new, marked_old = marks(newer.text), marks(older.text)
    for kind in marked_new:
        found[f"newer: {kind}"] = 1.0
        found[f"newer: {kind}, shared words"] = share
    for kind in marked_old:
        found[f"older: {kind}"] = 1.0
    found["newer asserts nothing"] = float(any(kind in marked_new for kind in UNREAL))
    found["denial on one side"] = float(("negation" in marked_new) != ("negation" in marked_old))
    events, parts = KINDS.index("events"), []
    for name, text in (("newer", newer.text), ("older", older.text)):
        parts.append(head_shares("sort", text, "user"))
        found[f"{name} is an event"] = head_shares("says", text, "user")[FACT] * parts[-1][events]
    found["newer is kept"] = head_shares("says", newer.text, "user")[FACT]
    found["both are events"] = found["newer is an event"] * found["older is an event"]
    found["same sort"] = sum(one * other for one, other in zip(*parts, strict=True))
    if "negation" in marked_new or "correction" in marked_new:
        found |= _rejected(newer.text, new, both, left_new)
    return found


def _rejected(
    text: str, new: Sequence[Word], both: Mapping[int, int], left_new: Sequence[int]
) -> dict[str, float]:
    """Return whether a value of the older statement follows a word of rejection."""
    denial = markers().get(recognise(text), {}).get("negation")
    if denial is None:
        return {}
    for place, word in enumerate(new):
        if not compiled(denial).fullmatch(word.text):
            continue
        for at in range(place + 1, min(place + 1 + _NEAR_WORDS, len(new))):
            if at in both and new[at].weight > _HEAVY:
                kind, named = new[at].kind, new[at].is_name
                others = [n for n in left_new if new[n].kind == kind and new[n].is_name == named]
                is_value = kind == "number" or named
                return {
                    "an older word is denied": 1.0,
                    "an older value is denied": float(is_value),
                    "another value instead": float(bool(others)),
                    "another such value instead": float(bool(others) and is_value),
                }
    return {}


class Weights:
    """The weights of `pairs.json`: of features, and of products of two features."""

    def __init__(self, data: dict[str, Any]) -> None:
        """Take the weights of *data*."""
        scaling = ("scale", "slope", "shift")
        self.scale, self.slope, self.shift = (float(data[name]) for name in scaling)
        self.bias: list[float] = data["bias"]
        self.weights: dict[str, list[float]] = data["features"]
        self.hash, self.unit = str(data["hash"]), float(data["unit"])
        self.rows = Rows(data)
        self.products = [(name, *name.split(" & ")) for name in self.weights if " & " in name]

    def expanded(self, given: dict[str, float]) -> list[tuple[str, float, Sequence[float]]]:
        """Return name, value and weights of the features, and of the products of two."""
        weights = self.weights
        found: list[tuple[str, float, Sequence[float]]] = [
            (name, value, weights[name]) for name, value in given.items() if name in weights
        ]
        for name, one, other in self.products:
            if one in given and other in given:
                found.append((name, given[one] * given[other], weights[name]))
        return found

    def said(self, grams: dict[str, float]) -> list[tuple[str, float, Sequence[float]]]:
        """Return name, value and weights of the pieces that have weights."""
        return [
            (f"newer: {gram!r}", value * self.unit, row)
            for gram, value in grams.items()
            if (row := self.rows[bucket(gram)])
        ]


@lru_cache(maxsize=1)
def weights_used() -> Weights:
    """Return the weights; links made by weights with another hash are rebuilt."""
    return Weights(read_json(__file__, "pairs.json"))
