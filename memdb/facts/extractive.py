"""
Extractive summarizer: the most informative sentences of the source, unchanged.

This summarizer is the default, and needs no model, table or network. Each sentence is a set of
weighted terms (numbers, file names, names, words). Sentences are taken greedily by the weight per
token of their terms that the summary lacks, so repetition gains nothing. The chosen sentences keep
their order, and are taken whole or left out. The result is counted before it is returned.

Source: Nenkova & Vanderwende 2005 (SumBasic: words of the source as weights);
Lin & Bilmes 2010 (budgeted greedy by gain / cost^r, lazily).
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from memdb.facts import sentences
from memdb.models.summaries import SummaryText
from memdb.text.resources import compiled
from memdb.text.terms import query_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.models.summaries import SourceItem

# Characters read of one source, shared fairly by its items: 35 ms at worst.
_MAX_CHARS = 24_576
_CHARS_PER_SENTENCE = 61
_MAX_WHO_CHARS = 32

# Found with bench/summaries.py on its tuning conversations; those of tools, code
# and decisions set by hand, since people's talk has none to measure.
_FREQUENT = 0.3  # what a term gains per e-fold of sentences that have it
_COVERED = 0.05  # the share of its weight that a term keeps once the text has it
_COST_POWER = 0.8
_COST_BASE = 2
_SPREAD = 0.05
# A summary's sentence whose pairs of terms stand in two sentences on average is a fact of its
# own ("Ben prefers coffee"), though each of its terms is known.
_RARE = 0.5
_QUESTION = 0.5
_DECISION = 1.2
_TELLING = 3.0
_OUTPUT = 0.4
_CODE_LINE = 0.3
_LEAST_WORTH = 1.3
_BARE_CHARS = 24
_SLACK_TOKENS = 4
_TRIES = 4
_HINT_TOPICS = 8
_HINT_TOKENS = 24
_HINT_CHARS = 200

_SAID = r"([^\s:][^:]{0,40}): +(?=\S)"


class _Sentence:
    """A candidate sentence with its value and its cost."""

    __slots__ = tuple(
        "cost factor is_rare item last new per_token shown terms text who worth".split()
    )

    def __init__(self, item: int, who: str, text: str, factor: float) -> None:
        self.item = item
        self.who = self.last = who
        self.text = text
        self.factor = factor
        self.cost = 0
        self.is_rare = False
        self.worth = self.new = 0.0
        self.per_token = 1.0
        self.terms: dict[str, float] = {}
        self.shown: dict[str, str] = {}


class ExtractiveSummarizer:
    """
    Selects sentences of the source; writes none of its own.

    Cost: 10 chat messages of 35 tokens take 1.4 ms, 5 MB in one message 3 to 35 ms. Of
    LoCoMo's answers a third of the tokens keeps 77 % of the words, of its questions
    75 %; the best baseline keeps 45 and 44. A summary of summaries, a third again,
    keeps 48 and 50 (`python bench/summaries.py`, confirming conversations, cl100k_base).
    """

    __slots__ = ("_count_many", "_most")

    def __init__(
        self, count_many: Callable[[Sequence[str]], list[int]], most_chars: int = _MAX_CHARS
    ) -> None:
        """
        Count tokens by *count_many*, which returns one number from 0 per text.

        *most_chars*: characters to read of one source, 24,576 at least. Time is proportional.
        """
        self._count_many = count_many
        self._most = max(most_chars, _MAX_CHARS)

    @property
    def name(self) -> str:
        """Always "extractive-2"; another algorithm gets another name."""
        return "extractive-2"

    @property
    def quality(self) -> str:
        """Always "extractive", because no model writes."""
        return "extractive"

    def summarize(
        self,
        source: Sequence[SourceItem],
        *,
        depth: int,  # noqa: ARG002 (of `Summarizer`)
        limit_tokens: int,
    ) -> SummaryText:
        """
        Return the most informative sentences of *source* within *limit_tokens*.

        A line has consecutive sentences of one speaker, `who: ...`. Of a long
        source only *most_chars* are read, the head and tail of each item. A sentence
        is cut only if none fits; it ends in an ellipsis then, if that fits.

        Args:
            source: Messages, or summaries one level down, oldest first.
            depth: Not used. The text of a summary is read as lines `who: ...`.
            limit_tokens: Most tokens of the text, from 1; never exceeded,
                whatever the counter.

        Returns:
            The text is '' only if *source* has only white space, or if the counter allows no
            character. The hint names up to 8 things that were left out, or is None.
        """
        found = _read(source, self._most)
        if not found:
            return SummaryText("")
        found = _weighed(found, source)
        best = max(found, key=lambda one: one.worth * one.factor)
        found = _worthwhile(found, self._most // _CHARS_PER_SENTENCE) or [best]
        text = self._within(found, limit_tokens) or self._clipped(best, limit_tokens)
        return SummaryText(text, self._hint(found, text))

    def _within(self, found: list[_Sentence], limit: int) -> str:
        """Return a text of at most *limit* tokens; '' if no sentence fits."""
        speakers = sorted({one.who for one in found})
        counts = self._count_many(
            [f" {one.text}" for one in found] + [f"\n{who}:" if who else "\n" for who in speakers]
        )
        costs = dict(zip(speakers, counts[len(found) :], strict=True))
        for one, cost in zip(found, counts, strict=False):
            one.cost = cost
            one.per_token *= one.factor / float(one.cost + _COST_BASE) ** _COST_POWER
        choice = _Choice(found, costs)
        budget = limit
        text = ""
        for _ in range(_TRIES):
            longer = _text_of(choice.choose(budget))
            if len(longer) <= len(text):
                break
            (tokens,) = self._count_many([longer])
            if tokens <= limit:
                text = longer
                if limit - tokens < _SLACK_TOKENS:
                    break
            budget += limit - tokens
        return text

    def _clipped(self, sentence: _Sentence, limit: int) -> str:
        """Return as much of *sentence* as fits, or one character that fits, or ''."""
        whole = f"{sentence.who}: {sentence.text}" if sentence.who else sentence.text
        for text in (whole, sentence.text):
            cuts = [match.end() for match in re.finditer(r"\S+", text)]
            least = len(sentence.who.split()) if text is whole else 0
            if kept := self._longest(text, cuts[least:], limit):
                return kept
        text = sentence.text
        if kept := self._longest(text, range(1, min(len(text), _MAX_WHO_CHARS) + 1), limit):
            return kept
        letters = [*dict.fromkeys(text.replace(" ", "")), "\u2026", "."]
        counts = self._count_many(letters)
        return next((one for one, n in zip(letters, counts, strict=True) if n <= limit), "")

    def _longest(self, text: str, cuts: Sequence[int], limit: int) -> str:
        """Return the start of *text* to the last of *cuts* that fits, or ''; marked if possible."""
        for mark in ("\u2026", ""):
            marks = [mark if cut < len(text) else "" for cut in cuts]
            made = [text[:cut] + end for cut, end in zip(cuts, marks, strict=True)]
            if fit := bisect_right(made, limit, key=lambda one: self._count_many([one])[0]):
                return made[fit - 1]
        return ""

    def _hint(self, found: list[_Sentence], text: str) -> str | None:
        """Return the weightiest terms that are not in *text*, or None."""
        lower = text.lower()
        weights: dict[str, float] = {}
        shown: dict[str, str] = {}
        for one in found:
            for key in one.shown:
                if key not in lower:
                    weight = one.terms.get(key, 1.0) * min(one.factor, 1.0)
                    weights[key] = max(weights.get(key, 0.0), weight)
                    shown.setdefault(key, one.shown[key])
        places = list(weights)
        best = heapq.nlargest(_HINT_TOPICS, places, key=weights.__getitem__)
        topics = [shown[key] for key in sorted(best, key=places.index)]
        kept: list[str] = []
        tokens = chars = 0
        for topic, count in zip(topics, self._count_many(topics) if topics else [], strict=True):
            tokens += count + 1
            chars += len(topic) + 2
            if tokens <= _HINT_TOKENS and chars <= _HINT_CHARS:
                kept.append(topic)
        return ", ".join(kept) or None


def _read(source: Sequence[SourceItem], most: int) -> list[_Sentence]:
    """Return the sentences of *source*, in order; fillers only if nothing else is there."""
    found: list[_Sentence] = []
    for place, (item, limit) in enumerate(zip(source, _shares(source, most), strict=True)):
        for part in filter(None, sentences.head_and_tail(item.text, limit)):
            found.extend(_of_message(place, item, part) if item.role else _of_summary(place, part))
    if not found:
        for place, item in enumerate(source):
            rest = sentences.head_and_tail(item.text.replace("\0", " "), _MAX_CHARS)[0]
            if rest := " ".join(rest.split())[: _MAX_CHARS // 100]:
                found.append(_Sentence(place, _who(item.who), rest, 1.0))
    return found


def _shares(source: Sequence[SourceItem], most: int) -> list[int]:
    """Return the number of characters to read of each item: short items whole, others equally."""
    left, shares = most, [0] * len(source)
    order = sorted(range(len(source)), key=lambda place: (len(source[place].text), place))
    for done, place in enumerate(order):
        shares[place] = min(len(source[place].text), left // (len(order) - done))
        left -= shares[place]
    return shares


def _who(name: str) -> str:
    return " ".join(name.replace("\0", " ").split())[:_MAX_WHO_CHARS].rstrip()


def _of_message(place: int, item: SourceItem, text: str) -> Iterator[_Sentence]:
    """Yield the sentences of a message, or of a part of it."""
    who = _who(item.who)
    output = item.role == "tool"
    for sentence in sentences.without_series(sentences.sentences(text, wrapped=not output)):
        factor = _OUTPUT if output else 1.0
        if output and sentences.tells_outcome(sentence):
            factor = _TELLING
        if sentences.is_code(sentence) or "\\n" in sentence:
            factor *= _CODE_LINE
        yield _Sentence(place, who, sentence, factor)


def _of_summary(place: int, text: str) -> Iterator[_Sentence]:
    """Yield the sentences of a summary, each with the speaker in its line."""
    for line in text.splitlines():
        match = compiled(_SAID).match(line)
        who = match.group(1) if match else ""
        for sentence in sentences.sentences(line[match.end() :] if match else line):
            yield _Sentence(place, _who(who), sentence, 1.0)


def _with_replies(found: list[_Sentence]) -> list[_Sentence]:
    """Return *found* with each bare answer ("Yes.") joined to the question before it."""
    kept: list[_Sentence] = []
    for one in found:
        asked = kept[-1] if kept and len(one.text) <= _BARE_CHARS else None
        if (
            asked is not None
            and "" != one.who != asked.who
            and sentences.is_question(asked.text)
            and not sentences.is_question(one.text)
        ):
            asked.text += f"\n{one.who}: {one.text}"
            asked.last = one.who
        else:
            kept.append(one)
    return kept


def _weighed(found: list[_Sentence], source: Sequence[SourceItem]) -> list[_Sentence]:
    """Return the cleaned sentences with weighted terms."""
    speakers = frozenset(part for who in {one.who for one in found} for part in who.lower().split())
    outputs = {place for place, item in enumerate(source) if item.role == "tool"}
    for one in found:
        if one.item not in outputs:
            one.text = sentences.tidy(one.text, speakers)
    found = _with_replies(found)
    for one in found:
        one.terms, one.shown, decides = sentences.weighted_terms(one.text, speakers)
        asks = "\n" in one.text or sentences.is_question(one.text)
        if decides:
            one.factor *= _DECISION
        elif asks and all(map(str.isalpha, one.terms)):
            one.factor *= _QUESTION
    often = Counter(key for one in found for key in one.terms)
    _weigh_habits([one for one in found if not source[one.item].role])
    for one in found:
        for key, weight in one.terms.items():
            if often[key] > 1:
                one.terms[key] = weight * (1 + _FREQUENT * log(often[key]))
        one.worth = sum(one.terms.values())
    return found


def _weigh_habits(found: list[_Sentence]) -> None:
    """
    Set a lower rate for the sentences that summaries repeat, since they are seldom facts.

    The factor of the rate is the mean of 1 / n over a sentence's neighbouring terms that stand
    together in n sentences. In the few messages of a leaf a repetition is the topic.
    """
    often = Counter(pair for one in found for pair in pairwise(one.terms))
    for one in found:
        if rarity := [1 / often[pair] for pair in pairwise(one.terms)]:
            one.per_token = sum(rarity) / len(rarity)
            one.is_rare = one.per_token >= _RARE


def _value(one: _Sentence) -> float:
    return one.worth * one.factor * one.per_token


def _worthwhile(found: list[_Sentence], most: int) -> list[_Sentence]:
    """Return the sentences with content, the best of them if there are more than *most*."""
    found = [one for one in found if one.worth * one.factor >= _LEAST_WORTH]
    places = range(len(found))
    best = heapq.nlargest(most, places, key=lambda one: _value(found[one]))
    return [found[place] for place in sorted(best)]


class _Choice:
    """Chooses sentences for a budget; can be called repeatedly."""

    def __init__(self, found: list[_Sentence], costs: dict[str, int]) -> None:
        self._found = found
        self._costs = costs
        self._places = {one: place for place, one in enumerate(found)}
        self._containing: dict[str, list[_Sentence]] = {}
        for one in found:
            for key in one.terms:
                self._containing.setdefault(key, []).append(one)

    def choose(self, budget: int) -> list[_Sentence]:
        """
        Return the most valuable sentences for *budget* tokens, in order.

        Of summaries the rare ones come first: those with new terms, then all. The rest fills up.
        """
        self._taken: list[_Sentence] = []
        self._covered: set[str] = set()
        self._words: set[tuple[str, ...]] = set()
        self._items: Counter[int] = Counter()
        for one in self._found:
            one.new = one.worth
        rare = [one for one in self._found if one.is_rare]
        left = self._take(budget, rare)
        for one in rare:
            one.new = one.worth
        left = self._take(left, rare)
        self._take(left, [one for one in self._found if not one.is_rare])
        return sorted(self._taken, key=self._places.__getitem__)

    def _take(self, budget: int, some: list[_Sentence]) -> int:
        """Add sentences of *some* while *budget* lasts; return the rest of it."""
        queue = [(-self._rate(one), place) for place, one in enumerate(some)]
        heapq.heapify(queue)
        while queue:
            _, place = heapq.heappop(queue)
            one = some[place]
            rate = self._rate(one)
            if queue and -rate > queue[0][0]:
                heapq.heappush(queue, (-rate, place))
                continue
            cost = one.cost + (0 if self._items[one.item] else self._costs[one.who])
            if cost > budget or one.new * one.factor < _LEAST_WORTH:
                continue
            words = tuple(query_words(one.text))
            if words not in self._words:
                budget -= cost
                self._words.add(words)
                self._taken.append(one)
                self._cover(one)
        return budget

    def _cover(self, one: _Sentence) -> None:
        """Count the terms of a sentence as covered, so that other sentences gain less by them."""
        self._items[one.item] += 1
        for key in one.terms:
            if key not in self._covered:
                self._covered.add(key)
                for other in self._containing[key]:
                    other.new -= (1 - _COVERED) * other.terms[key]

    def _rate(self, one: _Sentence) -> float:
        # Without the cost of the speaker's name: that falls to 0, and the queue
        # needs rates that never rise.
        return one.new * one.per_token / (1 + _SPREAD * self._items[one.item])


def _text_of(chosen: Iterable[_Sentence]) -> str:
    """Return the sentences, one line per run of the same speaker."""
    lines: list[str] = []
    last: str | None = None
    for one in chosen:
        if one.who != last or not one.who:
            lines.append(f"{one.who}: {one.text}" if one.who else one.text)
        else:
            lines[-1] += f"{';' if lines[-1][-1].isalnum() else ''} {one.text}"
        last = one.last
    return "\n".join(lines)
