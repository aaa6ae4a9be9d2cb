"""
Split text of any script into sentences, and weigh their words.

These functions are made for chat, lists, logs and tool output rather than for books. A line break
ends a sentence unless a paragraph is wrapped there. A fenced block of code becomes one sentence
with its length. All functions are pure and accept any text.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from memdb.facts.wording import recognise
from memdb.text.resources import compiled
from memdb.text.terms import STOP_WORDS, has_cjk, query_words

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SENTENCE_CHARS = 240
"""Longest sentence: what is longer (minified JSON, a text without stops) is cut."""

# Of a text that is too long, this share of what is kept comes from its head.
_HEAD_SHARE = 2 / 3

# A line that is most of a kept part is cut there rather than dropped.
_SEEK_CHARS = 200

# Stops, with the quotes and brackets that close after them. A full stop ends a
# sentence only before a space, so 3.14, app.py and e-mail addresses stay whole;
# CJK stops need no space. The look-behinds keep a long run of stops linear.
_STOP = (
    r"(?<![.!?\u2026\u061f\u06d4\u0589])[.!?\u2026\u061f\u06d4\u0589]+[\"'\u2019\u201d\u00bb)\]*_~]*(?=\s)"
    r"|(?<![\u3002\uff01\uff1f\uff61\u0964\u0965\u1362])"
    r"[\u3002\uff01\uff1f\uff61\u0964\u0965\u1362]+[\"'\u2019\u201d\u300d\u300f\u3011\uff09)\]]*"
)
_ABBREVIATION = (
    r"(?i)(?:^|[\s(\"'])(?:mrs?|ms|dr|prof|st|jr|sr|vs|nr|fig|approx|dept|est|inc|ltd|co|e\.g|i\.e"
    r"|cf|bzw|z\.b|d\.h|ca|u\.s|a\.m|p\.m|[^\W\d_])\.$"
)
_ABBREVIATION_CHARS = 8

_MARK = r"^(?:[-*+\u2022\u2023\u25aa\u25cf\u2013]\s+|#{1,6}\s+|>\s?)+(?:\[[ xX]\]\s+)?"
# The number of a point of a list, which is no sentence of its own.
_POINT = r"[0-9]{1,2}\."
# An ordinal in a language that writes it with a full stop, also before a capital letter.
_ORDINAL, _WITH_ORDINALS = r"(?<!\d)[0-3]?\d\.$", ("de",)
# A line is taken as wrapped from this length on, a paragraph as one up to that.
_WRAPPED_CHARS = 50
_MAX_JOINED_CHARS = 4_000
_RULE = r"[\s\-=*_#~+|:.]*\Z"
_DIGITS = r"[0-9]+"
_FENCE = r"(?m)^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n`]*$"
_DEFINES = (
    r"(?mi)^[ \t]*(?:export |public |private |static |async |pub )*"
    r"((?:def|class|function|func|fn|interface|struct|type|module) +[\w.]+)"
)
_MAX_DEFINED = 3
_SOFT_STOPS = (
    ("; ", "\uff1b", " - ", " \u2013 ", " \u2014 "),
    (", ", "\u3001", "\uff0c", ",", ";"),
    (" ",),
)

_TELLS = (
    r"error|exception|traceback|fail|fatal|panic|\bexit|not found|denied|refused|time(?:d )?out"
    r"|abort|\bpassed|warning|cannot|can't|unable|missing|undefined|conflict|assert|succe|\bdone\b"
)
_CODE_START = (
    r"(?:def |class |import |from \S+ import|return\b|#include|const |let \w+ =|var |function "
    r"|@\w+\(|\[[\w+#.-]+ code, |public |private |\}|\{|</?\w+)"
)
_CODE_ENDS = ("{", "}", ";", "):", ") {", "=>", "\\")
_ASKS = ("?", "\uff1f", "\u061f")

# What a term is worth, found with bench/summaries.py on its tuning conversations;
# a plain word by its length, the nearest thing to rarity without a table.
_NUMBER = 2.0
_NAME = 2.0
_REFERENCE = 2.2
_PAIR = 0.5
_COMMON = 0.4
_SPEAKER = 0.2
_BY_LENGTH = (0.0, 0.2, 0.3, 0.5, 0.8, 1.0, 1.0, 1.1, 1.2)
_LONG = len(_BY_LENGTH) - 1
_SHOWN_WEIGHT = 1.0
_STEM_CHARS = 9
_NICKNAME_CHARS = 3

_COMMON_WORDS = frozenset(
    """
    great good nice cool awesome amazing wonderful fantastic lovely best better bad fun happy glad
    sorry thanks thank welcome sure right well wow hey hi hello bye yeah yep haha lol hmm course
    really definitely totally absolutely actually basically honestly probably maybe perhaps always
    never sometimes lot lots bit kind sort stuff thing things something anything everything nothing
    someone anyone everyone people guy guys way ways time times day days today moment while
    think thought thinking feel feeling felt hope hoping guess mean means make makes making made
    take takes taking took come comes coming came see seeing saw seen look looks looking looked
    hear hearing heard want wants wanted need needs like likes liked sound sounds keep keeping kept
    give gives giving gave help helps helping helped try trying tried talk talking talked start
    started starting going gonna wanna gotta doing done put work works working worked seem seems
    find finding found enjoy enjoyed enjoying share sharing shared remind reminds believe imagine
    true big new old long little next last first back away far soon later ago once again together
    important special different interesting exciting excited inspiring proud support care
    life world heart joy luck care catch wait forward idea part place point question answer
    congrats congratulations thankful thankfully appreciate kind words wish wishing wishes
    fine weather much yourself via able thats dont im ive didnt
    """.split()
)

_TERM = (
    r"https?://[^\s<>()\"'`]+"
    r"|(?:[~.]{0,2}[/\\])?[$\u20ac\u00a3#@]?\w+(?:[._/\\:@'\u2019+~-]{1,3}\w+)*%?"
)
_EMOJI = " ?[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff\ufe0f\u200d]+"
_LEAD = (
    r"(?i)(?:(?:oh|ah+|aw+|wow|hey|hi|hello|yeah|yep|yup|ha(?:ha)+|lol|um+|hm+|btw)"
    r"(?:[,!.\u2026 ]+)"
    r"|(?:yes|well|so|ok|okay|thanks|thank you|sure|right|cool|great|nice|awesome|anyways?|actually"
    r"|honestly|absolutely|definitely|totally|exactly|by the way|you know|i mean|of course"
    r"|no problem|congrats|congratulations)(?:[,!\u2026]+ ))+"
)

_DECISION_WORDS = frozenset(
    """
    decide decided decision agree agreed conclude concluded let's lets we'll i'll will won't must
    should shall plan plans planned planning prefer prefers preferred favorite favourite love loves
    hate hates allergic allergy deadline due promise promised never always remember instead because
    chose choose chosen approved rejected bought moved signed booked hired fixed merged released
    beschlossen entschieden vereinbart muss müssen soll acordado acordamos decidido decidimos debe
    décidé convenu doit решили договорились должны нужно
    """.split()
)
_DECISION_PAIRS = frozenset("决定 決定 同意 必须 必須 喜欢 決め".split())


def head_and_tail(text: str, limit_chars: int) -> tuple[str, str]:
    """
    Return the beginning and the end of *text*, at most *limit_chars* together.

    The tail is '' if the whole text is in the head. The cut is at white space if there is some
    nearby. Cost: a copy of *text* at most, whatever its length.

    >>> head_and_tail("one two three four five", 12)
    ('one two', 'five')
    """
    text = text.strip()
    if len(text) <= limit_chars:
        return text, ""
    head_chars = round(limit_chars * _HEAD_SHARE)
    head = text[:head_chars]
    tail = text[len(text) - (limit_chars - head_chars) :]
    near = min(_SEEK_CHARS, limit_chars // 4)
    last = max(head.rfind(" ", -near), head.rfind("\n", -near))
    found = re.search(r"\s", tail[:near])
    return head[: last if last > 0 else None].rstrip(), tail[found.end() if found else 0 :].lstrip()


def sentences(text: str, *, wrapped: bool = True) -> list[str]:
    r"""
    Return the sentences of *text*, in order, each on one line, none empty.

    NUL counts as a space. Bullets, quote marks, heading signs and lines of rules are left out. A
    fenced block of code becomes one sentence such as `[python code, 12 lines: def load]`. No
    sentence is longer than `MAX_SENTENCE_CHARS`. Cost: about 1 µs per word.

    Args:
        text: Anything; may be empty.
        wrapped: Whether a long line without a full stop continues in a next line with a small first
            letter. False for logs.

    >>> sentences("Hi Dr. Wu! It costs 3.50 today.\n- milk\n- 2 eggs")
    ['Hi Dr. Wu!', 'It costs 3.50 today.', 'milk', '2 eggs']
    >>> sentences("1. Call Ida. 2. Buy milk.")
    ['1. Call Ida.', '2. Buy milk.']
    >>> sentences("Er hat am 3. März Geburtstag. Ich auch.")
    ['Er hat am 3. März Geburtstag.', 'Ich auch.']
    >>> sentences("我们去北京。好吗。")
    ['我们去北京。', '好吗。']
    """
    if "\0" in text:
        text = text.replace("\0", " ")
    if "```" in text or "~~~" in text:
        text = _fold_code(text)
    found: list[str] = []
    for line in _lines(text, wrapped=wrapped):
        for sentence in _of_line(line):
            if len(sentence) <= MAX_SENTENCE_CHARS:
                found.append(sentence)
            else:
                found.extend(_cut(sentence))
    return found


def without_series(lines: list[str]) -> list[str]:
    """
    Return *lines* without those between the first and the last that differ only in digits.

    >>> without_series(["epoch 1", "epoch 2", "saved", "epoch 3"])
    ['epoch 1', 'saved', 'epoch 3']
    """
    shapes = [compiled(_DIGITS).sub("0", line) for line in lines]
    last = {shape: place for place, shape in enumerate(shapes)}
    kept = set(last.values())
    for place in range(len(lines)):
        if last.pop(shapes[place], None) is not None:
            kept.add(place)
    return [line for place, line in enumerate(lines) if place in kept]


def is_question(sentence: str) -> bool:
    """Return whether *sentence* ends in a question mark of any script."""
    return sentence.endswith(_ASKS)


def is_code(sentence: str) -> bool:
    """Return whether a line looks like source code rather than prose."""
    return sentence.endswith(_CODE_ENDS) or compiled(_CODE_START).match(sentence) is not None


def tells_outcome(line: str) -> bool:
    """Return whether a line of tool output shows its outcome: errors, results, exit codes."""
    return compiled(_TELLS).search(line.lower()) is not None


def tidy(sentence: str, speakers: frozenset[str]) -> str:
    """
    Return *sentence* without emoji, opening interjections and vocatives.

    Args:
        sentence: One line; returned unchanged if little else would remain.
        speakers: Lower-case names; their beginnings such as "Mel" count too.

    >>> tidy("Wow, Mel, I moved to Oslo, Melanie!", frozenset({"melanie"}))
    'I moved to Oslo!'
    """
    if not sentence.isascii():
        sentence = compiled(_EMOJI).sub("", sentence).strip() or sentence
    bare = sentence
    if lead := compiled(_LEAD).match(bare):
        bare = bare[lead.end() :]
    first, comma, rest = bare.partition(", ")
    if comma and _names_one(first.lower(), speakers):
        bare = rest
    head, comma, last = bare.rpartition(", ")
    name = last.rstrip(".!?")
    if comma and _names_one(name.lower(), speakers):
        bare = head + last[len(name) :]
    if bare == sentence or len(bare) < len(sentence) // 4 or " " not in bare:
        return sentence
    return bare[0].upper() + bare[1:] if sentence[0].isupper() else bare


def weighted_terms(
    sentence: str, speakers: frozenset[str]
) -> tuple[dict[str, float], dict[str, str], bool]:
    """
    Return the weighted terms of *sentence*, and whether it states a decision.

    Cost: about 1 µs per word.

    Args:
        sentence: One line.
        speakers: Lower-case names with little weight, because each line has one.

    Returns:
        The weight of each term, above 0; the spelling of the weightier ones; and whether a word
        names a decision, a duty or a preference. File names, numbers and names weigh twice as much
        as a long word, everyday words little, stop words nothing. A script without spaces yields
        pairs of characters.

    >>> weighted_terms("We must fix app.py", frozenset())
    ({'fix': 0.5, 'app.py': 2.2}, {'app.py': 'app.py'}, True)
    """
    terms: dict[str, float] = {}
    shown: dict[str, str] = {}
    start, decides = True, False
    for token in compiled(_TERM).findall(sentence):
        lower = token.lower()
        if not lower.isascii():
            if has_cjk(lower):
                terms.update(_pairs(lower))
                continue
            lower = lower.replace("\u2019", "'")
        decides = decides or lower in _DECISION_WORDS
        if "'" in lower:
            lower = lower.partition("'")[0]
        if lower not in STOP_WORDS:
            key, weight = _term(token, lower, speakers, start=start)
            if weight > terms.get(key, 0.0):
                terms[key] = weight
                if weight >= _SHOWN_WEIGHT and not key.isdigit():
                    shown[key] = token.partition("'")[0]
        start = False
    return terms, shown, decides or not _DECISION_PAIRS.isdisjoint(terms)


def _term(token: str, lower: str, speakers: frozenset[str], *, start: bool) -> tuple[str, float]:
    """Return the key and the weight of a token that is not a stop word."""
    if lower.isalpha():
        if lower in _COMMON_WORDS:
            return lower, _COMMON
        if not token.islower() and (not start or not token[1:].islower()):
            return lower[:_STEM_CHARS], _SPEAKER if _names_one(lower, speakers) else _NAME
        return lower[:_STEM_CHARS], _BY_LENGTH[min(len(lower), _LONG)]
    if any(map(str.isdigit, lower)):
        return lower, _NUMBER
    if lower.replace("-", "").isalpha():
        return lower, _BY_LENGTH[_LONG]
    return lower, _REFERENCE


def _names_one(lower: str, speakers: frozenset[str]) -> bool:
    """Return whether a lower-case word is a speaker's name or its beginning."""
    return len(lower) >= _NICKNAME_CHARS and any(name.startswith(lower) for name in speakers)


def _pairs(lower: str) -> Iterator[tuple[str, float]]:
    """Yield the pairs of neighbours in a run without spaces, and adjacent words."""
    for word in query_words(lower):
        if len(word) > 1 and has_cjk(word):
            for first, second in pairwise(word):
                yield first + second, _PAIR
        else:
            yield word, _PAIR


def _lines(text: str, *, wrapped: bool) -> list[str]:
    """Return the lines of *text* without marks; those of a wrapped paragraph are joined."""
    found: list[str] = []
    last = ""
    for raw in text.splitlines():
        line = " ".join(raw.split())
        if not line or compiled(_RULE).match(line):
            last = ""
            continue
        goes_on = wrapped and len(last) >= _WRAPPED_CHARS and last[-1].isalnum()
        if goes_on and line[0].islower() and len(found[-1]) < _MAX_JOINED_CHARS:
            found[-1] = f"{found[-1]} {line}"
        elif bare := line if line[0].isalnum() else compiled(_MARK).sub("", line):
            found.append(bare)
        last = line if found else ""
    return found


def _of_line(line: str) -> Iterator[str]:
    """Yield the sentences of one line."""
    start = 0
    for stop in compiled(_STOP).finditer(line):
        end = stop.end()
        following = line[end : end + 2].lstrip()[:1]
        if stop.group()[0] == ".":
            if following.islower():
                continue
            before = line[max(start, end - _ABBREVIATION_CHARS) : end]
            if compiled(_ABBREVIATION).search(before) and end < len(line):
                continue
            if compiled(_POINT).fullmatch(line[start:end].strip()) and end < len(line):
                continue
            if compiled(_ORDINAL).search(before) and recognise(line) in _WITH_ORDINALS:
                continue
        if sentence := line[start:end].strip():
            yield sentence
        start = end
    if rest := line[start:].strip():
        yield rest


def _cut(sentence: str) -> Iterator[str]:
    """Yield pieces of a long *sentence*, cut at the best places."""
    start = 0
    while len(sentence) - start > MAX_SENTENCE_CHARS:
        end = start + MAX_SENTENCE_CHARS
        least = start + MAX_SENTENCE_CHARS // 2
        for marks in _SOFT_STOPS:
            places = [sentence.rfind(mark, least, end) + len(mark) for mark in marks]
            if (place := max(places)) > least:
                end = place
                break
        yield sentence[start:end].strip()
        start = end
    if rest := sentence[start:].strip():
        yield rest


def _fold_code(text: str) -> str:
    """Return *text* with each fenced block replaced by one line that describes it."""
    kept: list[str] = []
    start = 0
    while (fence := compiled(_FENCE).search(text, start)) is not None:
        close = compiled(_FENCE).search(text, fence.end())
        body = text[fence.end() : close.start() if close else len(text)]
        kept += [text[start : fence.start()], "\n", _code_note(fence.group(2), body), "\n"]
        start = close.end() if close else len(text)
    kept.append(text[start:])
    return "".join(kept)


def _code_note(language: str, body: str) -> str:
    lines = len(body.strip().splitlines())
    defined = list(dict.fromkeys(compiled(_DEFINES).findall(body)))[:_MAX_DEFINED]
    names = f": {', '.join(defined)}" if defined else ""
    return f"[{language or 'some'} code, {lines} lines{names}]" if lines else ""
