"""
What a short statement says: of whom, about what, which value, and whether not.

Patterns of English for the facts that people tell an assistant. Precise rather
than complete: what no pattern knows is read as subject, verb and rest, and two
statements that are not understood are never taken for a contradiction.
"""

from __future__ import annotations

import re

from memdb.models_local.lexicon import (
    CONTRACTIONS,
    FILLERS,
    FUNCTION,
    NUMBERS,
    PRONOUNS,
    SELF,
    SLOTS,
    SYNONYMS,
)
from memdb.record import Record

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:[-'][^\W\d_]+)*|[^\W_]+")
_APOSTROPHE = re.compile("[\u2018\u2019\u02bc`]")
_LEAD = re.compile(
    r"^(?:(?:actually|well|so|ok(?:ay)?|oh|hey|by the way|btw|fyi|note|correction|update|reminder|"
    r"just so you know|for the record|(?:please )?(?:remember|note)(?: that)?|as it happens|"
    r"turns out(?: that)?|it turns out(?: that)?|i should mention(?: that)?|quick update|"
    r"one more thing|and|but)\b[\s,:;.-]*)+",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|cannot|no longer|no more|neither|nor|without|hardly)\b")
_OVER = re.compile(
    r"\b(?:no longer|not any ?more|used to|stopped|stops|quit|quits|gave up|given up|gives up|"
    r"ceased|any ?more|former|formerly|previously|ex)\b"
)
_CHANGE = re.compile(
    r"\b(?:now|instead|from now on|since|as of|nowadays|these days|lately|recently|changed|"
    r"switched|moved|became|has become|new|anymore|by now|already|just)\b"
)
_MARKS = re.compile(
    r"\b(?:now|currently|nowadays|these days|at the moment|at present|as of (?:today|now|late)|"
    r"recently|lately|right now|today|instead|from now on|any ?more|already|just|still|by now|"
    r"since then|for now|finally|meanwhile)\b[\s,]*"
)
_SINCE = re.compile(
    r"\b(?:since|as of|starting|effective|from) (?:(?:early|late|mid) )?"
    r"(?:last |next |this )?(?:(?:january|february|march|april|may|june|july|august|september|"
    r"october|november|december|monday|tuesday|wednesday|thursday|friday|saturday|sunday|week|month|"
    r"year|spring|summer|autumn|fall|winter)\b(?: \d{1,4}(?:st|nd|rd|th)?)?(?:,? \d{4})?|\d{4})"
)


_GONE = re.compile(
    r"\b(?:from|leaving|left|replaced|swapped|traded|ditched|dropped|exchanged|instead of|rather than)"
    r" (.+?)(?= (?:to|for|with|in favou?r|by|and|because)\b|[,;]|$)()"
)
_PAST = re.compile(
    r"^(?:[\w'-]+ ){1,3}?(?:(?!need|feed|speed|breed|seed|bed|red)[a-z]+ed|went|met|saw|bought|ran|ate|took|gave|came|wrote|read|"
    r"flew|drove|won|lost|found|made|did|spoke|told|heard|spent|sent|paid)\b"
)
_AMOUNT = re.compile(
    r"(\d+(?:[.,:]\d+)*) ?(?!(?:of|in|on|and|is|are|was|to|for|at|by|or|january|february|march|april|"
    r"may|june|july|august|september|october|november|december)\b)[a-z%\u20ac$]"
)


class Fact(Record):
    """
    A statement as it was understood.

    Attributes:
        subject: Words for whom or what it is about; {"self"} for the user.
        slot: What about it, for example "home" or "attr:favorit colour"; None:
            not understood.
        value: Content words of what is said of that.
        single: Whether the slot holds one value at a time.
        positive: Whether it says so, not that it is not (any more) so.
        over: Whether it says that something ended.
        change: Whether it says that something is new.
        gone: Content words of what it says was left, as in "from A to B".
        past: Whether it tells of something that happened once.
        numbers: Numbers, times and dates in it.
        amounts: Those of them that count something: a word follows.
        names: Words in it that begin with a capital inside the sentence.
        words: Its content words.
    """

    subject: frozenset[str]
    slot: str | None
    value: frozenset[str]
    single: bool
    positive: bool
    over: bool
    change: bool
    gone: frozenset[str]
    past: bool
    numbers: frozenset[str]
    amounts: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]


def stem(word: str) -> str:
    """
    Return what a word shares with its other forms, and with its synonyms.

    >>> stem("allergies") == stem("allergic"), stem("lives") == stem("living")
    (True, True)
    """
    if word in SYNONYMS:
        return SYNONYMS[word]
    if len(word) > 3 and not word[0].isdigit():
        for ending, rest in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)] + rest
                break
        if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
            word = word[:-1]
        word = word.rstrip("e") if len(word) > 3 else word
    return SYNONYMS.get(word, word)


_ENDINGS = (
    ("ically", "ic"),
    ("ations", "at"),
    ("ation", "at"),
    ("ings", ""),
    ("ing", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("gic", "gy"),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("ers", "er"),
    ("eds", "ed"),
    ("ed", ""),
    ("es", "e"),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("'s", ""),
    ("s", ""),
    ("ly", ""),
)


def read_fact(text: str) -> Fact:
    """Return what *text* says, as far as the patterns go. Cost: 60 µs for a sentence."""
    plain = _APOSTROPHE.sub("'", text.strip())
    plain = _LEAD.sub("", plain)
    names = frozenset(stem(word.lower()) for word in re.findall(r"(?<=[\w,] )[A-Z][\w-]*", plain))
    lower = plain.lower().rstrip(" .!")
    for short, long in CONTRACTIONS:
        lower = lower.replace(short, long)
    lower = re.sub(r"\b(\w+) is (?=(?:favou?rite|preferred|best|current|new)\b)", r"\1's ", lower)
    negations = len(_NEGATION.findall(lower))
    over = _OVER.search(lower) is not None
    change = _CHANGE.search(lower) is not None
    positive = not over and negations % 2 == 0
    bare = _SINCE.sub(" ", lower)
    bare = _NEGATION.sub(" ", _OVER.sub(" ", _MARKS.sub(" ", bare)))
    bare = re.sub(r"\b(?:do|does|did) +(?=[a-z])", "", bare)
    bare = re.sub(r"\s+", " ", bare).strip(" ,;:-")
    slot, single, subject, value = _slot_of(bare)
    return Fact(
        _subject(subject),
        slot,
        content(value),
        single,
        positive,
        over,
        change,
        content(" ".join(" ".join(found) for found in _GONE.findall(bare))),
        _PAST.search(bare) is not None,
        frozenset(_numbers(lower)),
        frozenset(_number(found) for found in _AMOUNT.findall(_in_digits(bare))),
        names,
        content(bare),
    )


def content(text: str) -> frozenset[str]:
    """Return the stems of the words of *text* that say something."""
    found = set()
    for word in _WORD.findall(text):
        word = NUMBERS.get(word, word)
        if word in FUNCTION or word in FILLERS:
            continue
        found.add(_number(word) if word[0].isdigit() else stem(word))
    return frozenset(found)


def _in_digits(text: str) -> str:
    return " ".join(NUMBERS.get(word, word) for word in text.split())


def _numbers(text: str) -> list[str]:
    found = []
    for word in _WORD.findall(text):
        word = NUMBERS.get(word, word)
        if word[0].isdigit():
            found.append(_number(word))
    return found


def _number(word: str) -> str:
    """Return a number as others write it too: 7:00 is 7, 1,000 is 1000, 3rd is 3."""
    word = re.sub(r"(?<=\d)(?:st|nd|rd|th|am|pm|h|k|kg|km)$", "", word)
    word = word.removesuffix(":00").removesuffix(".0")
    return word.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", word) else word


def _subject(text: str) -> frozenset[str]:
    """Return the words for whom it is; {"self"} for the user, {"they"} for a pronoun."""
    words = [word.removesuffix("'s") for word in _WORD.findall(text)]
    if not words or set(words) <= SELF:
        return frozenset({"self"})
    if set(words) <= PRONOUNS:
        return frozenset({"they"})
    kept = {stem(word) for word in words if word not in FUNCTION}
    return frozenset(kept or {"self"})


def _slot_of(text: str) -> tuple[str | None, bool, str, str]:
    """Return (slot, single, subject, value) by the first pattern that fits."""
    for name, single, pattern in _PATTERNS:
        found = pattern.search(text)
        if found is None:
            continue
        groups = found.groupdict()
        subject, value = groups.get("s") or "", groups.get("v") or ""
        about = groups.get("a")
        if about is not None:
            topic = " ".join(sorted(content(about)))
            if not topic:
                continue
            name = f"{name}:{topic}"
        if not content(value):
            continue
        return name, single, subject, value
    verb = re.match(
        r"^(?P<s>(?:(?:the|my|our|his|her|their|a|an) )?[\w'-]+(?: and [\w'-]+)?) (?P<a>[a-z]+)"
        r"(?: (?P<v>.+))?$",
        text,
    )
    if verb is None:
        return None, False, "", text
    return f"do:{stem(verb['a'])}", False, verb["s"], verb["v"] or ""


_PATTERNS = [(name, single, re.compile(pattern)) for name, single, pattern in SLOTS]
