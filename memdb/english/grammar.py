"""
What a short statement says: of whom, about what, which value, and whether not.

Patterns of English for the facts that people tell an assistant. Precise rather
than complete: what no pattern knows is read as subject, verb and rest, and two
statements that are not understood are never taken for a contradiction.
"""

from __future__ import annotations

import re

from memdb.english.lexicon import (
    CONTRACTIONS,
    FILLERS,
    FUNCTION,
    NUMBERS,
    PRONOUNS,
    SELF,
    SEVERAL,
    SYNONYMS,
)
from memdb.english.patterns import (
    AMOUNT,
    APOSTROPHE,
    BARE_VERB,
    CHANGE,
    CLAUSE,
    COPULAS,
    GONE,
    IDIOMS,
    LEAD,
    LONG_IDIOMS,
    MARKS,
    MAY,
    MOST_CLAUSES,
    NEGATION,
    OVER,
    PASSIVE,
    PAST,
    SHORT,
    SINCE,
    SLOTS,
    WORD,
)
from memdb.models.record import Record


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
        passive: Whether its subject is what something was done to.
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
    passive: bool
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
    if len(word) > SHORT and not word[0].isdigit():
        for ending, rest in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= SHORT:
                word = word[: -len(ending)] + rest
                break
        if len(word) > SHORT and word[-1] == word[-2] and word[-1] not in "lsz":
            word = word[:-1]
        word = word.rstrip("e") if len(word) > SHORT else word
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


def read_facts(text: str) -> tuple[Fact, ...]:
    """
    Return what each clause of *text* says, as far as the patterns go, the last one first.

    People name what is over before what is now. Cost: 0.1 ms for a sentence.
    """
    text = LEAD.sub("", text.strip()).rstrip(".!")
    for pattern, replacement in _LONG_IDIOMS:
        text = pattern.sub(replacement, text)
    facts: list[Fact] = []
    for clause in [part for part in CLAUSE.split(text) if part.strip()][-MOST_CLAUSES:]:
        fact = read_fact(f"i {clause}" if facts and BARE_VERB.match(clause) else clause)
        if facts and fact.slot in COPULAS and facts[-1].single and not facts[-1].positive:
            fact = fact.replace(slot=facts[-1].slot, single=True)
        facts.append(fact)
    return tuple(reversed(facts)) or (read_fact(text),)


def read_fact(text: str) -> Fact:
    """Return what one clause says."""
    plain = APOSTROPHE.sub("'", text.strip())
    plain = LEAD.sub("", plain)
    names = frozenset(stem(word.lower()) for word in re.findall(r"(?<=[\w,] )[A-Z][\w-]*", plain))
    lower = plain.lower().rstrip(" .!")
    for short, long in CONTRACTIONS:
        lower = lower.replace(short, long)
    lower = MAY.sub(lambda found: f"{found[1] or ''}maymonth", lower)
    lower = re.sub(r"\b(\w+) is (?=(?:favou?rite|preferred|best|current|new)\b)", r"\1's ", lower)
    lower = MARKS.sub(" ", lower) if "used to be" not in lower else lower
    lower = re.sub(r"\s+", " ", lower).strip(" ,;:-!?")
    for pattern, replacement in _IDIOMS:
        lower = pattern.sub(replacement, lower)
    negations = len(NEGATION.findall(lower))
    over = OVER.search(lower) is not None
    change = CHANGE.search(lower) is not None
    positive = not over and negations % 2 == 0
    bare = SINCE.sub(" ", lower)
    bare = NEGATION.sub(" ", OVER.sub(" ", MARKS.sub(" ", bare)))
    bare = re.sub(r"\b(?:do|does|did) +(?=[a-z])", "", bare)
    bare = re.sub(r"\s+", " ", bare).strip(" ,;:-!?")
    words = content(bare)
    if "dislik" in words:  # to dislike is not to like
        words, positive = words - {"dislik"} | {"like"}, not positive
    slot, single, subject, value = _slot_of(bare)
    slot = "do:like" if slot == "do:dislik" else slot
    gone = content(" ".join(" ".join(found) for found in GONE.findall(bare)))
    return Fact(
        _subject(subject),
        slot,
        content(value),
        single,
        positive,
        over,
        change,
        gone,
        PAST.search(bare) is not None,
        PASSIVE.search(bare) is not None,
        frozenset(_numbers(lower)),
        frozenset(_number(found) for found in AMOUNT.findall(_in_digits(bare))),
        names,
        words - gone,
    )


def content(text: str) -> frozenset[str]:
    """Return the stems of the words of *text* that say something."""
    found = set()
    for written in WORD.findall(text):
        word = NUMBERS.get(written, written)
        if word in FUNCTION or word in FILLERS:
            continue
        found.add(_number(word) if word[0].isdigit() else stem(word))
    return frozenset(found)


def _in_digits(text: str) -> str:
    return " ".join(NUMBERS.get(word, word) for word in text.split())


def _numbers(text: str) -> list[str]:
    found = []
    for written in WORD.findall(text):
        word = NUMBERS.get(written, written)
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
    words = [word.removesuffix("'s") for word in WORD.findall(text)]
    if not words or set(words) <= SELF:
        return frozenset({"self"})
    if set(words) <= PRONOUNS:
        return frozenset({"they"})
    kept = {stem(word) for word in words if word not in FUNCTION and word not in _PLAIN}
    return frozenset(kept or {"self"})


def _slot_of(text: str) -> tuple[str | None, bool, str, str]:
    """Return (slot, single, subject, value) by the first pattern that fits."""
    for slot, holds_one, pattern in _PATTERNS:
        found = pattern.search(text)
        if found is None:
            continue
        groups = found.groupdict()
        subject, value = groups.get("s") or "", groups.get("v") or ""
        if not content(value):
            continue
        about = groups.get("a")
        if about is None:
            return slot, holds_one, subject, value
        topics = content(about) - _PLAIN
        if topics:
            one = holds_one and not topics & SEVERAL
            return f"{slot}:{' '.join(sorted(topics))}", one, subject, value
    verb = re.match(
        r"^(?P<s>(?:(?:the|my|our|his|her|their|a|an) )?[\w'-]+(?: and [\w'-]+)?) (?P<a>[a-z]+)"
        r"(?: (?P<v>.+))?$",
        text,
    )
    if verb is None:
        return None, False, "", text
    return f"do:{stem(verb['a'])}", False, verb["s"], verb["v"] or ""


_LONG_IDIOMS = [(re.compile(pattern, re.IGNORECASE), made) for pattern, made in LONG_IDIOMS]
_IDIOMS = [(re.compile(pattern), replacement) for pattern, replacement in IDIOMS]
_PLAIN = frozenset("day main current new own present mine".split())
_PATTERNS = [(name, single, re.compile(pattern)) for name, single, pattern in SLOTS]
