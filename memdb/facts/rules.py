"""
Rule extractor: find the facts that people state about themselves, without a model.

Precise rather than complete: it skips questions, ideas, jokes, quotes, code and
statements about other people. It cuts messages into clauses, filters them,
matches them against the rules of `lexicon`, and writes each fact as a sentence
that can be read alone. Used by `extraction`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memdb.facts.dates import find_times
from memdb.facts.lexicon import read_pattern, read_replacements, read_rules
from memdb.facts.sentences import is_code, is_question, sentences, tidy
from memdb.models.entries import Candidate
from memdb.text.terms import content_words, query_words
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb.facts.lexicon import Rule
    from memdb.models.messages import Message

NAME = "rules-en-1"
NOBODY = "The user"
MAX_KEYWORDS = 8
MAX_MESSAGE_CHARS = 200_000
MIN_CLAUSE_CHARS = 5
MAX_NAME_CHARS = 40

# How long ago a plan's time may begin: "this month" began on the first.
MAX_LATE_DAYS = 31

_MATERIAL = read_pattern("material")
_QUOTED_LINE = read_pattern("quoted_line")
_QUOTE = read_pattern("quote")
_REPORTED = read_pattern("reported")
_HEDGE = read_pattern("hedge")
_TAUNT = read_pattern("taunt")
_UNREAL = read_pattern("unreal")
_REQUEST = read_pattern("request")
_ASKS = read_pattern("asks")
_CORRECTION = read_pattern("correction")
_LEAD = read_pattern("opening")
_SPLIT = read_pattern("split")
_CLAUSE_START = read_pattern("clause_start")
_REVISES = read_pattern("revises")
_AHEAD = read_pattern("ahead")
_BEHIND = read_pattern("behind")
_FIRST_PART = read_pattern("first_part")
_POINTS = read_pattern("points")
_OTHERS = read_pattern("others")
_EMPTY = read_pattern("empty")
_HANGS = read_pattern("hangs")
_CUT_OFF = read_pattern("cut_off")
_ROW = read_pattern("row")
_MORE = read_pattern("more")
_THE = read_pattern("the")
_THIRD_PERSON = [
    (re.compile(rf"\b{own}\b", re.IGNORECASE), theirs)
    for own, theirs in read_replacements("third_person")
]
_VERBS = read_replacements("verbs")
_RULES = tuple(read_rules())
_ANYWHERE = [rule for rule in _RULES if "anywhere" in rule.flags]
_AT_START = [rule for rule in _RULES if "anywhere" not in rule.flags]

_SPACES = re.compile(r"\s+")
_BEFORE_STOP = re.compile(r"\s+(?=[.,])")
_NOT_IN_KEY = re.compile(r"[^a-z0-9]+")
_BACK = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'"})


class RuleExtractor:
    """Finds facts that people state about themselves; the same messages give the same facts."""

    name = NAME

    def extract(self, messages: Sequence[Message]) -> list[Candidate]:
        """
        Return the facts that *messages* state, in order.

        If several facts have one key, only the last is returned. Cost: about
        50 µs per sentence.

        Args:
            messages: Only those of role "user" are read.
        """
        speakers = frozenset(one.author.lower() for one in messages if one.author)
        speakers |= {name.split()[0] for name in speakers if name.split()}
        found: list[Candidate] = []
        for message in messages:
            if message.role == "user":
                _Speech(message, speakers).add_facts(found)
        return _newest(found)


class _Speech:
    """One message: its author, its time, and the facts in it."""

    def __init__(self, message: Message, speakers: frozenset[str]) -> None:
        self._message = message
        self._speakers = speakers
        self._who = _tidy_name(message.author)

    def add_facts(self, found: list[Candidate]) -> None:
        """Append the facts of this message to *found*, those of earlier messages."""
        text = self._message.text[:MAX_MESSAGE_CHARS].translate(_BACK)
        if _MATERIAL.match(text):
            return
        for written in sentences(_QUOTED_LINE.sub("", text)):
            request = _REQUEST.match(written)
            sentence = written[request.end() :].rstrip("?") if request else written
            if sentence[0] == "[" or is_question(sentence) or is_code(sentence):
                continue
            if _QUOTE.search(sentence) or _REPORTED.search(sentence) or _TAUNT.match(sentence):
                continue
            if _UNREAL.search(sentence):
                continue
            bare = tidy(sentence, self._speakers)
            for clause in _clauses(bare):
                found += self._of_clause(clause, found)
            if not _HEDGE.search(bare):
                found += self._anywhere(bare)

    def _of_clause(self, clause: str, before: list[Candidate]) -> list[Candidate]:
        correction = _CORRECTION.match(clause)
        if correction:
            clause = clause[correction.end() :]
            if "meant" in correction[0].lower():
                clause = f"I meant {clause}"
        if lead := _LEAD.match(clause):
            clause = clause[lead.end() :]
        if len(clause) < MIN_CLAUSE_CHARS or _HEDGE.search(clause) or _ASKS.match(clause):
            return []
        if correction and (revised := self._revised(clause, before)):
            return [revised]
        dated, first_ms = self._dated(clause)
        for rule in _AT_START:
            if match := rule.pattern.match(clause if "verbatim" in rule.flags else dated):
                fact = self._fact(rule, match, first_ms)
                if fact is not None:
                    return [fact]
        return []

    def _anywhere(self, sentence: str) -> Iterator[Candidate]:
        for rule in _ANYWHERE:
            for match in rule.pattern.finditer(sentence):
                fact = self._fact(rule, match, None)
                if fact is not None:
                    yield fact

    def _dated(self, clause: str) -> tuple[str, int | None]:
        """Return *clause* with its times in full, moved behind the event, and the first time."""
        ahead = True if _AHEAD.search(clause) else (False if _BEHIND.search(clause) else None)
        times = find_times(clause, self._message.created_ms, ahead=ahead)
        for one in reversed(times):
            rest = clause[one.end :]
            if one.start == 0:
                rest = rest.lstrip(" ,")
                end = _FIRST_PART.search(rest)
                place = end.start() if end else len(rest)
                clause = f"{rest[:place]} {one.shown}{rest[place:]}"
            else:
                clause = clause[: one.start] + one.shown + rest
        return clause, times[0].first_ms if times else None

    def _fact(self, rule: Rule, match: re.Match[str], first_ms: int | None) -> Candidate | None:
        groups = {name: text or "" for name, text in match.groupdict().items()}
        value = groups.get("v", "").strip()
        whole = self._whole(rule, match, value) if value else value
        if whole is None or _OTHERS.search(groups.get("w", "")):
            return None
        value = whole.title() if "lower" in rule.flags else whole
        said_ms = self._message.created_ms
        if (
            "ahead" in rule.flags
            and first_ms is not None
            and first_ms < said_ms - DAY_MS * MAX_LATE_DAYS
        ):
            return None  # "I'll always remember our trip last year"
        values = {
            "who": self._who or NOBODY,
            "whose": f"{self._who or NOBODY}'s",
            "v": _in_third_person(value),
            "w": groups.get("w", "").lower() if "{w}" in rule.sentence else "",
            "t": groups.get("t", ""),
            "m": match.group().strip(),
        }
        text = _BEFORE_STOP.sub("", _SPACES.sub(" ", rule.sentence.format(**values)))
        text = _verbs(text)
        words = rule.words.format(w=values["w"]).split()
        keywords = [*content_words(query_words(f"{value} {values['w']}")), *words]
        stated = first_ms is not None and first_ms <= said_ms
        since = first_ms if stated and ("once" in rule.flags or groups.get("t")) else None
        seq = self._message.seq
        return Candidate(
            category=rule.category,
            text=text[:1].upper() + text[1:],
            key=_key(rule.key, values["w"]),
            keywords=tuple(dict.fromkeys(keywords))[:MAX_KEYWORDS],
            importance=rule.importance,
            valid_from_ms=since,
            first_seq=seq,
            last_seq=seq,
        )

    @staticmethod
    def _whole(rule: Rule, match: re.Match[str], value: str) -> str | None:
        """Return *value* with the list after it; None if it means nothing alone."""
        if "verbatim" in rule.flags:
            return value
        the = rule.category == "preferences" and _THE.match(value)
        if the or any(
            find(value) for find in (_POINTS.match, _OTHERS.search, _EMPTY.match, _HANGS.search)
        ):
            return None
        end = match.end("v")
        if more := _MORE.match(match.string, end):
            return None if _OTHERS.search(more[0]) else value + more[0]
        if rule.category != "profile" and _ROW.match(match.string, end) and _CUT_OFF.search(value):
            return None
        return value

    def _revised(self, clause: str, before: list[Candidate]) -> Candidate | None:
        """Return the last keyed fact with another value if *clause* is like "it's X, not Y"."""
        match = _REVISES.match(clause)
        last = next((one for one in reversed(before) if one.key is not None), None)
        if match is None or last is None or _POINTS.match(match["v"]):
            return None
        old = match["old"]
        if old is None and match["v"][0].islower():
            return None  # "it's raining" corrects nothing
        if old is None:
            old = last.text.rstrip(".").rsplit(" ", 1)[-1]
        if old.lower() not in last.text.lower():
            return None
        text = re.sub(re.escape(old), match["v"].replace("\\", ""), last.text, flags=re.IGNORECASE)
        return last.replace(
            text=text,
            first_seq=self._message.seq,
            last_seq=self._message.seq,
        )


def _clauses(sentence: str) -> Iterator[str]:
    """Yield the parts of *sentence* that begin with "I", "my" or "we", and its beginning."""
    start = 0
    for match in _SPLIT.finditer(sentence):
        gap = sentence[match.start() : match.end()]
        if gap.strip() == "" and not _CLAUSE_START.search(sentence[: match.start()]):
            continue
        if part := sentence[start : match.start()].strip():
            yield part
        start = match.end()
    if part := sentence[start:].strip():
        yield part


def _newest(found: list[Candidate]) -> list[Candidate]:
    """Return *found* without duplicates, and only the last fact of each key."""
    last = {one.key: place for place, one in enumerate(found) if one.key is not None}
    seen: set[str] = set()
    kept = []
    for place, one in enumerate(found):
        older = one.key is not None and last[one.key] != place
        if older or one.text.lower() in seen:
            continue
        seen.add(one.text.lower())
        kept.append(one)
    return kept


def _in_third_person(value: str) -> str:
    for pattern, theirs in _THIRD_PERSON:
        value = pattern.sub(theirs, value)
    return value


def _verbs(text: str) -> str:
    """Return *text* with the few verbs whose third person is not a plain s."""
    for wrong, right in _VERBS:
        if wrong in text:
            text = re.sub(rf"\b{wrong}\b", right, text)
    return text


def _key(key: str | None, word: str) -> str | None:
    if key is None:
        return None
    return _NOT_IN_KEY.sub("_", key.format(w=word).lower()).strip("_")


def _tidy_name(author: str | None) -> str | None:
    """Return *author* if it can stand in a sentence: a short line of letters."""
    if author is None:
        return None
    name = " ".join(author.split())
    return (
        name
        if 0 < len(name) <= MAX_NAME_CHARS and all(one.isalpha() or one in " .'-" for one in name)
        else None
    )
