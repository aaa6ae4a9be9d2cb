"""
Choose the sentences of a message that are worth keeping, and their category.

A fact in a story has the same words as a fact. So the words of a sentence only decide its kind.
Whether it belongs to a story, a role or a pasted text depends on the other sentences of its
message. A sentence is kept in its own words, without a question after its last comma. If it begins
with a pronoun or a number, or is a fragment, the sentence before it is kept too. Pasted text
teaches nothing about the user: code, quotations, mails, logs, tags, and lines after a line that
ends in a colon.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from bisect import bisect_left
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32, decompress

from memdb.facts.markers import marks
from memdb.facts.sentences import is_question, sentences
from memdb.facts.wording import MAX_CHARS, fold, recognise, words_of
from memdb.models.record import Record
from memdb.text.resources import compiled, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

NAME = "sentences-1"
"""What entries that were kept by it have as their source."""

BUCKETS = 1 << 16
GRAMS = (3, 4, 5)
ZERO = 12
"""What stands n above it is a weight of n * n; what stands below it, of -n * n."""
KINDS = (
    "profile", "preferences", "entities", "events", "plans", "instructions",
    "asked", "framed", "other",
)  # fmt: skip
KEPT = 6
"""The first kinds are kept."""

FACT, ASKED, _, OTHER = range(4)
"""What a sentence says: a fact, of any of the kept kinds, or one of the other kinds."""

NOTE = "note"
"""The role of who writes down what is known about the user: "Ann" is the user, as "I" is."""

CATEGORIES = {"plans": "events", "instructions": "preferences"}
"""Kinds that are no category of entries, and what they are filed under."""

# A quotation, a mail or a log: lines of these forms and what stands between them.
_FENCED = r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)"
_TAG = r"<([a-zA-Z][\w-]{0,30})[^<>]{0,200}>"
_QUOTED = (
    '"[^"\n]{12,}"|\u201c[^\u201d]{12,}\u201d|\u00ab[^\u00bb]{12,}\u00bb'
    "|\u201e[^\u201c\u201d]{12,}[\u201c\u201d]|\u300c[^\u300d]{6,}\u300d|\u300e[^\u300f]{6,}\u300f"
    '|"""(?:.|\n)*?"""'
)
_PASTED = r"(?m)^(?:#{1,6} |(?:[\w-]{2,20}: \S[^\n]*\n){2})"
_LINE = r"^(?:>|\||\$ |\d{4}-\d\d-\d\d[T ]\d\d:|\[\d|\d\d:\d\d:\d\d|[A-Z]{4,}\b[ :]|[-=_*]{3,}).*$"
_HOLE = "\ufffc"  # in the place of what was cut out
_INTRODUCES = (":", "\uff1a")
_LABEL = r"^[\w'(), -]{1,30}[:\uff1a](?=\s|[^\W\d_])(?!//)"
_OWN_LABELS = frozenset({"remember", "correction", "change"})
_INTRODUCES_OWN = 0.5
# A sentence with fewer words, or none that says something, needs the one before it.
_FEW_WORDS, _HEAVY = 3, 0.6
LAST_CLAUSE = r"(?:[,;](?=\s)|\uff0c)[^,;\uff0c]*$"
_FIRST_CLAUSE = (
    r"([^,;:!]+?)(?:[,;:](?=\s)|\s[-\u2013\u2014](?=\s)|[!\uff0c\u3001\uff1a\uff01\u060c])"
)
_SAYS_NOTHING = 0.5
_MOST_LEARNT, _MOST_OPENINGS = 12, 3
_GREETING_WORDS, _ASKS = 3, 0.4
_MOST_CHARS = 20_000


class Learnt(Record):
    """
    A sentence that is worth keeping.

    Attributes:
        text: The original text, preceded by the sentence before it if it needs that.
        category: Of entries.
        probability: The model's probability that it is worth keeping; 1.0 for an order to remember.
    """

    text: str
    category: str
    probability: float


def learn(text: str, *, role: str) -> list[Learnt]:
    """
    Return the sentences of a message that are worth keeping, in order.

    Args:
        role: Role of the message; nothing is learnt from those of tools and systems.

    >>> [one.text for one in learn("Remember: no nuts. Bye!", role="user")]
    ['Remember: no nuts.']
    """
    if role not in ("user", "assistant"):
        return []
    text = text[:_MOST_CHARS]
    # A frame only lowers probabilities, and finding it takes most of the time: most messages have
    # no sentence that would be kept without one.
    found = _worth_keeping(text, role, 0.0)
    if found:
        found = _worth_keeping(text, role, _frame_of(text, role))
    best = sorted(range(len(found)), key=lambda at: -found[at].probability)[:_MOST_LEARNT]
    return [found[at] for at in sorted(best)]


def _frame_of(text: str, role: str) -> float:
    """Return the probability that a message is a story, a role or a task, by its sentences."""
    frame, least = 0.0, _model()["least"][role]
    for one in sentences(text):
        frame = max(frame, head_shares("frame", stated(one, role), role)[1])
        if worth(1.0, frame) < least:
            break  # then nothing is kept but an order
    return frame


def _worth_keeping(text: str, role: str, frame: float) -> list[Learnt]:
    """Return the sentences of a message in a frame that are worth keeping, in order."""
    found: list[Learnt] = []
    least = _model()["least"][role]
    for paragraph in _own_paragraphs(text, role):
        before, count = "", len(found)
        for whole_sentence in paragraph:
            sentence = stated(whole_sentence, role)
            if is_question(sentence):
                before = sentence
                continue
            matter = without_opening(sentence, role)
            ordered = role == "user" and "remember" in marks(sentence)
            share = worth(head_shares("says", matter, role)[FACT], frame)
            leans, is_fragment = leans_on_another(matter)
            whole = f"{before} {sentence}" if before and leans else sentence
            says_enough = not is_fragment or (bool(before) and not leans_on_another(whole)[1])
            if ordered or (share >= least and says_enough):
                found.append(Learnt(whole, category_of(matter, role), 1.0 if ordered else share))
            before = sentence
        if len(found) == count and not _greets(paragraph):
            break  # it says what to do with the paragraphs behind it
    return found


def stated(sentence: str, role: str) -> str:
    """
    Return a sentence without the question or request after its last comma.

    >>> stated("I keep bees on the allotment, should I open the hive?", "user")
    'I keep bees on the allotment'
    """
    head = compiled(LAST_CLAUSE).sub("", sentence)
    if head in ("", sentence) or leans_on_another(head)[0]:
        return sentence
    asks = (
        is_question(sentence) or (said := head_shares("says", sentence, role))[ASKED] >= said[FACT]
    )
    return head if asks else sentence


def without_opening(sentence: str, role: str) -> str:
    """
    Return a sentence without introductory clauses that carry no content.

    >>> without_opening("Hi, I'm allergic to peanuts.", "user")
    "I'm allergic to peanuts."
    """
    best, rest = sentence, sentence
    for _ in range(_MOST_OPENINGS):
        opening = compiled(_FIRST_CLAUSE).match(rest)
        if not opening or head_shares("says", opening[1], role)[OTHER] < _SAYS_NOTHING:
            break
        rest = rest[opening.end() :].strip()
        if head_shares("says", rest, role)[FACT] > head_shares("says", best, role)[FACT]:
            best = rest
    return best


def _greets(paragraph: list[str]) -> bool:
    """Return whether a paragraph has only a few words, and asks for nothing."""
    words = sum(len(words_of(sentence)) for sentence in paragraph)
    return words <= _GREETING_WORDS and all(
        head_shares("says", sentence, "user")[ASKED] < _ASKS for sentence in paragraph
    )


def category_of(text: str, role: str = NOTE) -> str:
    """
    Return the category of a statement; *role* is its author's, and the default is a note.

    >>> category_of("I'm allergic to peanuts."), category_of("Ann is allergic to peanuts.")
    ('profile', 'profile')
    """
    noted, said = (head_shares("sort", text, one) for one in (role, "user"))
    kind = KINDS[max(range(KEPT), key=lambda at: noted[at] ** 2 * said[at])]
    return CATEGORIES.get(kind, kind)


def worth(fact: float, frame: float) -> float:
    """
    Return the probability that a sentence is a fact worth keeping, given its message's frame.

    The frame counts by its square root, so that a doubtful fact is not discarded.
    """
    return fact * math.sqrt(1 - frame)


@lru_cache(maxsize=4_096)
def head_shares(head: str, sentence: str, role: str) -> tuple[float, ...]:
    """Return the probabilities that one of the heads gives to a sentence, by its words."""
    return tuple(_head(head).shares(features(sentence, role)))


@lru_cache(maxsize=256)
def features(sentence: str, role: str) -> list[tuple[float, list[int]]]:
    """Return groups of hashed features, each with the value of all features of the group."""
    words = ["0" if word.kind == "number" else word.text for word in words_of(sentence[:MAX_CHARS])]
    marked = sorted(marks(sentence))
    flags = [f"is {role}", *(f"has {kind}" for kind in marked), *(f"{role} {m}" for m in marked)]
    flags += [f"in {recognise(sentence)}", f"words {min(len(words), 40) // 4}"]
    flags += [f"ends {sentence[-1:]}", *(f"begins {' '.join(words[:n])}" for n in (1, 2, 3))]
    pairs = [f"{one} {other}" for one, other in pairwise(words)]
    grams = [f"w{word}" for word in words] + pairs
    padded = f" {' '.join(re.sub('[0-9]+', '0', fold(sentence[:MAX_CHARS])).split())} "
    runs = [padded[at : at + size] for size in GRAMS for at in range(len(padded) - size + 1)]
    # A name is the user in a note, and somebody else in what he says: its words count twice.
    noted = [f"{role} {gram}" for gram in grams] if role == NOTE else []
    groups = [(0.5, flags), *((len(some) ** -0.5, some) for some in (grams, runs, noted) if some)]
    return [
        (value, [crc32(one.encode("utf-8", "surrogatepass")) % BUCKETS for one in group])
        for value, group in groups
    ]


def softmax(scores: Sequence[float]) -> list[float]:
    """Return the probabilities that belong to *scores*."""
    most = max(scores)
    shares = [math.exp(score - most) for score in scores]
    whole = sum(shares)
    return [share / whole for share in shares]


class Head:
    """One regression of `sentences.json`: by bucket a row of one byte per kind."""

    def __init__(self, data: dict[str, Any]) -> None:
        """Unpack *data*."""
        self._scale = float(data["scale"])
        self._bias: list[float] = data["bias"]
        self._rows = Rows(data)

    def shares(self, given: Iterable[tuple[float, list[int]]]) -> list[float]:
        """Return the probability of each kind for groups of features."""
        scores = list(self._bias)
        for value, buckets in given:
            rows = filter(None, map(self._rows.__getitem__, buckets))
            for kind, weights in enumerate(zip(*rows, strict=True)):
                scores[kind] += value * sum(weights)
        return softmax([score * self._scale for score in scores])


_VALUES = [(byte - ZERO) * abs(byte - ZERO) for byte in range(256)]


class Rows(dict[int, "tuple[int, ...] | None"]):
    """
    The row of weights of a bucket, None if it has none, from "gaps" and "weights" of a file.

    A row is made when it is first needed, because a new process needs few.
    """

    __slots__ = ("_buckets", "_weights")

    def __init__(self, data: dict[str, Any]) -> None:
        """Unpack *data*."""
        super().__init__()
        gaps, self._weights = (decompress(b64decode(data[name])) for name in ("gaps", "weights"))
        self._buckets = list(accumulate(gaps))

    def __missing__(self, bucket: int) -> tuple[int, ...] | None:
        """Make a row, and keep it."""
        place, count = bisect_left(self._buckets, bucket), len(self._buckets)
        row = None
        if place < count and self._buckets[place] == bucket:
            row = tuple(map(_VALUES.__getitem__, self._weights[place::count]))
        self[bucket] = row
        return row


@cache
def _model() -> dict[str, Any]:
    return dict(read_json(__file__, "sentences.json"))


@cache
def _head(name: str) -> Head:
    """Return the head "says", "sort" or "frame". Cost: 10 ms or more; links need two of them."""
    return Head(_model()[name])


def leans_on_another(sentence: str) -> tuple[bool, bool]:
    """
    Return whether a sentence needs the one before it, and whether it is a fragment.

    A sentence needs it if it is a fragment, or begins with a pronoun or a number.

    >>> leans_on_another("He's 79 years old."), leans_on_another("Not 200.")
    ((True, False), (True, True))
    """
    words = words_of(sentence)
    # "I'm" is two words.
    length = sum(0.5 if word.kind == "sign" else 1 + word.text.count("'") for word in words)
    is_fragment = length < _FEW_WORDS or all(word.weight <= _HEAVY for word in words)
    begins_with_number = bool(words) and words[0].kind == "number"
    return is_fragment or begins_with_number or "pronoun" in marks(sentence), is_fragment


def _own_paragraphs(text: str, role: str) -> Iterator[list[str]]:
    """Yield the sentences that are the writer's own, by paragraph."""
    for paragraph in re.split(r"\n\s*\n", without_pasted(text)):
        own: list[str] = []
        lines = [one for one in paragraph.splitlines() if not compiled(_LINE).match(one)]
        for sentence in (one for line in lines for one in sentences(line)):
            said = sentence.replace(_HOLE, "").rstrip()
            if _introduces_others(said, role):
                yield own
                return
            if said == sentence and any(letter.isalpha() for letter in sentence):
                own.append(sentence)
        if own:
            yield own


def _introduces_others(said: str, role: str) -> bool:
    """Return whether the rest is somebody else's: "Text: ...", a transcript, "A reader writes:"."""
    if label := compiled(_LABEL).match(said):
        return _OWN_LABELS.isdisjoint(marks(label[0]))
    if not said.endswith(_INTRODUCES) or "remember" in marks(said):
        return False
    return head_shares("says", said, role)[FACT] < _INTRODUCES_OWN


def without_pasted(text: str) -> str:
    r"""
    Return *text* without fenced code, tagged parts, quotations, and text after a header.

    A tagged part and a quotation leave a hole, and a sentence with a hole is not the original one.

    >>> without_pasted('I like <b>tea</b>, and she said: "I live in Graz now."')
    'I like \ufffc, and she said: \ufffc'
    """
    text = compiled(_FENCED).sub("\n", text)
    if pasted := compiled(_PASTED).search(text):
        text = text[: pasted.start()]
    kept = without_blocks(text, _TAG, lambda one: f"</{one[1]}>")
    return compiled(_QUOTED).sub(_HOLE, _HOLE.join(kept))


def without_blocks(text: str, opening: str, ending: Callable[[re.Match[str]], str]) -> list[str]:
    """
    Return the parts of *text* outside blocks, in linear time.

    Args:
        opening: Pattern of the beginning of a block.
        ending: Returns the text that ends the block of a match; if it is absent, there is no block.
    """
    kept: list[str] = []
    unclosed: set[str] = set()
    end = 0
    for start in compiled(opening).finditer(text):
        closing = ending(start)
        if start.start() < end or closing in unclosed:
            continue  # inside of a block, or not searched again
        place = text.find(closing, start.end())
        if place < 0:
            unclosed.add(closing)
            continue
        kept.append(text[end : start.start()])
        end = place + len(closing)
    return [*kept, text[end:]]
