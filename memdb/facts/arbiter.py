"""
Rule arbiter: parse short English statements, and decide what a new one does to stored ones.

A statement is parsed into subject, slot, value and polarity; two are compared by
those. Words and slots come from `lexicon`. Precise rather than complete: a
clause that fits no slot is parsed as subject, verb and rest, and a statement
that is not understood is stored beside the others. Deterministic and pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from memdb.facts import statements
from memdb.facts.calendar import NUMBER_WORDS
from memdb.facts.languages import replace_each
from memdb.facts.lexicon import (
    read_groups,
    read_pattern,
    read_replacements,
    read_slots,
    read_words,
)
from memdb.facts.readings import language_of
from memdb.facts.statements import ENDS, OTHER, SAME
from memdb.models.protocols import ADD, DELETE, NOOP, UPDATE, Verdict
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.models.protocols import Claim

# Characters of a statement that are read, and how many of its clauses, from the
# last. Some patterns take quadratic time.
MAX_CHARS = 2_000
MAX_CLAUSES = 4

# Letters of a word that no ending is taken from.
_MIN_STEM_CHARS = 3

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:[-'][^\W\d_]+)*|[^\W_]+")
_APOSTROPHE = re.compile("[\u2018\u2019\u02bc`]")

_LEAD = read_pattern("lead")
_NEGATION = read_pattern("negation")
_OVER = read_pattern("over")
_MARKS = read_pattern("marks")
_SINCE = read_pattern("since")
_BARE_VERB = read_pattern("bare_verb")
_MAY = read_pattern("may")
_CLAUSE = read_pattern("clause")
_GONE = read_pattern("gone")
_PASSIVE = read_pattern("passive")
_THEY = frozenset({"they"})

_PAST = read_pattern("past")
_FORMER = read_pattern("former")
_CONDITION = read_pattern("condition")
_EXTENDS = read_pattern("extends")

_CONTRACTIONS = read_replacements("contractions")
_LONG_IDIOMS = [
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in read_replacements("long_idioms")
]
_IDIOMS = tuple((re.compile(pattern), meaning) for pattern, meaning in read_replacements("idioms"))
_SLOTS = tuple(read_slots())
_COPULAS = ("do:am", "do:is")
_LIKES = ("do:like", "do:prefer", "prefer")

_SELF = read_words("self")
_PRONOUNS = read_words("pronouns")
_TASTES = read_words("tastes")
_CALENDAR = read_words("calendar")
_WHERE = read_pattern("where")
_MOVED_TO = read_pattern("moved_to")
_CAPITAL = re.compile(r"(?<=[\w,.:;] )[A-Z][\w'-]*")
_FILLERS = read_words("fillers")
_FUNCTION = read_words("function")
_SEVERAL = read_words("several")
_PLAIN = read_words("plain")
_SYNONYMS = {word: group[0] for group in read_groups("synonyms") for word in group}
_NUMBERS = {word: str(number) for number, word in enumerate(("zero", *NUMBER_WORDS))}
_NUMBERS |= {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90"}
_NUMBERS |= {"once": "1", "twice": "2", "dozen": "12", "noon": "12", "midnight": "0"}

BOTH_WAYS = read_words("both_ways")
_CONVERSE = read_words("converse")
_MUTUAL = read_words("mutual")
RELATED = {slot.name: slot.related for slot in _SLOTS if slot.related}
"""Words that other statements of a slot may use: a contradiction shares few words."""


class Fact(Record):
    """
    A parsed statement.

    Attributes:
        subject: Words for whom or what it is about; {"self"} for the user.
        slot: What about it, for example "home" or "attr:favorit colour"; None:
            not understood.
        value: Content words of what is said of that.
        single: Whether the slot holds one value at a time.
        positive: Whether it says so, not that it is not (any more) so.
        over: Whether it says that something ended.
        gone: Content words of what it says was left, as in "from A to B".
        past: Whether it tells of something that happened once.
        former: Whether it tells of a state that was ("lived", "was", not "has lived").
        conditions: Content words of when, where or for what it holds: "on long flights".
        passive: Whether its subject is what something was done to.
        numbers: Numbers, times and dates in it.
        words: Its content words.
        kinds: Of its value: "number", "day", "place", "origin", "name" or "word"; "any" if
            nothing has a capital.
        text: The clause in lower case, without marks and negation.
    """

    subject: frozenset[str]
    slot: str | None
    value: frozenset[str]
    single: bool
    positive: bool
    over: bool
    gone: frozenset[str]
    past: bool
    former: bool
    conditions: frozenset[str]
    passive: bool
    numbers: frozenset[str]
    words: frozenset[str]
    kinds: frozenset[str]
    text: str


@lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """
    Return the stem that a word shares with its other forms and its synonyms.

    >>> stem("allergies") == stem("allergic"), stem("lives") == stem("living")
    (True, True)
    """
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    if len(word) > _MIN_STEM_CHARS and not word[0].isdigit():
        for ending, rest in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM_CHARS:
                word = word[: -len(ending)] + rest
                break
        if len(word) > _MIN_STEM_CHARS and word[-1] == word[-2] and word[-1] not in "lsz":
            word = word[:-1]
        word = word.rstrip("e") if len(word) > _MIN_STEM_CHARS else word
    return _SYNONYMS.get(word, word)


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

_ORIGINS = frozenset(map(stem, read_words("origins")))


def read_facts(text: str) -> tuple[Fact, ...]:
    """
    Return the fact of each clause of *text*, the last clause first.

    The last four clauses of the first 2,000 characters are read; people name the
    past before the present. Cost: 0.1 ms for a sentence.

    >>> [fact.slot for fact in read_facts("I left Acme and joined Apex.")]
    ['employer', 'do:left']
    """
    text = _LEAD.sub("", text[:MAX_CHARS].strip()).rstrip(".!")
    for pattern, replacement in _LONG_IDIOMS:
        text = pattern.sub(replacement, text)
    facts: list[Fact] = []
    for clause in [part for part in _CLAUSE.split(text) if part.strip()][-MAX_CLAUSES:]:
        fact = _read_clause(f"i {clause}" if facts and _BARE_VERB.match(clause) else clause)
        if facts and fact.slot in _COPULAS and facts[-1].single and not facts[-1].positive:
            fact = fact.replace(slot=facts[-1].slot, single=True)
        facts.append(fact)
    return tuple(reversed(facts)) or (_read_clause(text),)


def _read_clause(text: str) -> Fact:
    """Return the fact that one clause states."""
    plain = _APOSTROPHE.sub("'", text.strip())
    plain = _LEAD.sub("", plain)
    lower = plain.lower().rstrip(" .!")
    for short, long in _CONTRACTIONS:
        lower = lower.replace(short, long)
    lower = _MAY.sub(lambda found: f"{found[1] or ''}maymonth", lower)
    lower = re.sub(r"\b(\w+) is (?=(?:favou?rite|preferred|best|current|new)\b)", r"\1's ", lower)
    over = _OVER.search(lower) is not None
    lower = _MARKS.sub(" ", lower) if "used to be" not in lower else lower
    lower = " ".join(lower.split()).strip(" ,;:-!?")
    lower = _SINCE.sub(" ", lower).strip(" ,")
    lower = replace_each(_IDIOMS, lower)
    negations = len(_NEGATION.findall(lower))
    over = over or _OVER.search(lower) is not None
    positive = not over and negations % 2 == 0
    bare = _NEGATION.sub(" ", _OVER.sub(" ", _MARKS.sub(" ", lower)))
    bare = re.sub(r"\b(?:do|does|did) +(?=[a-z])", "", bare)
    bare = " ".join(bare.split()).strip(" ,;:-!?")
    words = content(bare)
    if "dislik" in words:  # to dislike is not to like
        words, positive = words - {"dislik"} | {"like"}, not positive
    slot, single, subject, value = _slot_of(bare)
    value, _, condition = _CONDITION.sub("\0", " ".join(value.split()), 1).partition("\0")
    slot = "do:like" if slot == "do:dislik" else slot
    gone = content(" ".join(" ".join(found) for found in _GONE.findall(bare)))
    return Fact(
        _subject(subject),
        slot,
        content(value),
        single,
        positive,
        over,
        gone,
        _PAST.search(bare) is not None,
        _FORMER.search(bare) is not None,
        content(condition),
        _PASSIVE.search(bare) is not None,
        frozenset(_numbers(lower)),
        words - gone,
        _kinds_of(value.strip(), plain) | ({"place"} if _MOVED_TO.search(lower) else set()),
        bare,
    )


def _kinds_of(text: str, plain: str) -> frozenset[str]:
    """Return what the value of a clause is: values of two kinds are no values of one slot."""
    value = content(text)
    times = {"number": any(word[0].isdigit() for word in value), "day": value & _CALENDAR}
    if any(times.values()):
        return frozenset(kind for kind, is_one in times.items() if is_one)
    if _WHERE.match(text):
        return frozenset({"place"})
    if value and value <= _ORIGINS:
        return frozenset({"origin"})
    capitals = {stem(word.lower()) for word in _CAPITAL.findall(plain)}
    if value & capitals:
        return frozenset({"name"})
    return frozenset({"word" if plain != plain.lower() else "any"})


def content(text: str) -> frozenset[str]:
    """Return the stems of the content words of *text*."""
    found = set()
    for written in _WORD.findall(text):
        word = _NUMBERS.get(written, written)
        if word in _FUNCTION or word in _FILLERS:
            continue
        found.add(_number(word) if word[0].isdigit() else stem(word))
    return frozenset(found)


def _numbers(text: str) -> list[str]:
    found = []
    for written in _WORD.findall(text):
        word = _NUMBERS.get(written, written)
        if word[0].isdigit():
            found.append(_number(word))
    return found


def _number(word: str) -> str:
    """Return a number in its shortest form: 7:00 is 7, 1,000 is 1000, 3rd is 3."""
    if word.isdigit():
        return word
    word = re.sub(r"(?<=\d)(?:st|nd|rd|th|am|pm|h|k|kg|km)$", "", word)
    word = word.removesuffix(":00").removesuffix(".0")
    return word.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", word) else word


def _subject(text: str) -> frozenset[str]:
    """Return the words of the subject; {"self"} for the user, {"they"} for a pronoun."""
    words = [word.removesuffix("'s") for word in _WORD.findall(text)]
    if not words or set(words) <= _SELF:
        return frozenset({"self"})
    if set(words) <= _PRONOUNS:
        return _THEY
    kept = {stem(word) for word in words if word not in _FUNCTION and word not in _PLAIN}
    return frozenset(kept or {"self"})


def _slot_of(text: str) -> tuple[str | None, bool, str, str]:
    """Return (slot, single, subject, value) by the first pattern that fits."""
    for slot in _SLOTS:
        found = slot.pattern.search(text)
        if found is None:
            continue
        groups = found.groupdict()
        subject, value = groups.get("s") or "", f"{groups.get('v') or ''}{groups.get('c') or ''}"
        if not content(value):
            continue
        about = groups.get("a")
        if about is None:
            return slot.name, slot.is_single, subject, value
        topics = content(f"{about} {groups.get('b') or ''}") - _PLAIN
        if topics:
            single = slot.is_single and (slot.name != "attr" or not topics & _SEVERAL)
            return f"{slot.name}:{' '.join(sorted(topics))}", single, subject, value
    verb = re.match(
        r"^(?P<s>(?:(?:the|my|our|his|her|their|a|an) )?[\w'-]+(?: and [\w'-]+)?) (?P<a>[a-z]+)"
        r"(?: (?P<v>.+))?$",
        text,
    )
    if verb is None:
        return None, False, "", text
    return f"do:{stem(verb['a'])}", False, verb["s"], verb["v"] or ""


REFINES = "refines"

# Parsed statements kept in memory: those of a scope are compared again and again.
MAX_KEPT = 4_096


class RuleArbiter:
    """Decides what a new statement does to stored ones, without a model; is an `Arbiter`."""

    name = "rules-1"

    def __init__(self) -> None:
        """Start with an empty cache of parsed statements."""
        self._read: dict[str, tuple[Fact, ...]] = {}

    def related(self, text: str) -> Sequence[str]:
        """Return words that a statement about the same slots may use; [] if no slot is known."""
        return [word for fact in self._facts(text) for word in RELATED.get(fact.slot or "", ())]

    def decide(self, said: Claim, known: Sequence[Claim]) -> Verdict:
        """Return the verdict on *said* beside *known*; duplicates come before contradictions."""
        found = [self._compare(said.text, one) for one in known]
        same = [place for place, (kind, _) in enumerate(found) if kind in (SAME, REFINES)]
        ends = tuple(place for place, (kind, _) in enumerate(found) if kind == ENDS)
        if same:
            first = same[0]
            kind, reason = found[first]
            action = UPDATE if kind == REFINES else NOOP
            return Verdict(action, tuple(same), reason=reason, ends=ends)
        if ends:
            return Verdict(DELETE, ends, reason=found[ends[0]][1])
        return Verdict(
            ADD, reason="nothing that it repeats or ends" if known else "nothing like it"
        )

    def _compare(self, new: str, one: Claim) -> tuple[str, str]:
        """Compare with a stored statement, then with the ones that it superseded."""
        language = language_of(new, one.text)
        kind, reason = statements.compare(new, one.text, language)
        if kind == OTHER and language == "en":
            kind, reason = self._compare_english(new, one)
            # Endings are cut off words to compare them: Martin is not Martine.
            if kind == SAME and statements.names_other(new, one.text):
                kind, reason = OTHER, "about another name"
            if kind == SAME and statements.swaps_roles(new, one.text):
                kind, reason = OTHER, "the other way round"
            if kind == ENDS and statements.denies_an_event(new, one.text):
                kind, reason = OTHER, "one tells what did not happen"
        if kind == OTHER and one.near and not statements.differs_in_names(new, one.text):
            return SAME, "the same in other words"
        return kind, reason

    def _compare_english(self, text: str, one: Claim) -> tuple[str, str]:
        new, now = self._facts(text), self._facts(one.text)
        kind, reason = _of_clauses(new, now)
        if kind != OTHER or any(fact.single for fact in now):
            return kind, reason
        slots = {fact.slot: fact.subject for fact in new if fact.single and fact.positive}
        for past in [fact for text in one.before for fact in self._facts(text)]:
            if past.single and slots.get(past.slot) == past.subject:
                return ENDS, f"another {_about(past)}, by what it had replaced"
        return kind, reason

    def _facts(self, text: str) -> tuple[Fact, ...]:
        found = self._read.get(text)
        if found is None:
            if len(self._read) >= MAX_KEPT:
                self._read.clear()
            found = self._read[text] = read_facts(text)
        return found


def _of_clauses(new: tuple[Fact, ...], old: tuple[Fact, ...]) -> tuple[str, str]:
    """Compare clause by clause, the last one first; return the first result that decides."""
    for one in new:
        for other in old:
            kind, reason = compare(one, other)
            # What is the same in an earlier clause is only where the news begins.
            if kind == ENDS or (kind != OTHER and one is new[0]):
                if kind != ENDS and any(_is_news(more, old) for more in new[1:]):
                    return OTHER, "it says more than that"
                return kind, reason
    return OTHER, "nothing that it repeats or ends"


def _is_news(fact: Fact, old: tuple[Fact, ...]) -> bool:
    """Return whether most words of a clause are in no clause of *old*."""
    known = frozenset().union(*[one.words for one in old])
    return len(fact.words - known) > len(fact.words & known)


def compare(new: Fact, old: Fact) -> tuple[str, str]:  # noqa: PLR0911 (a rule each)
    """Return what *new* does to *old* ("same", "refines", "ends", "other"), and why."""
    if (
        new.positive
        and old.positive
        and new.subject == old.subject
        and not (old.former or "born" in old.words)
        and not all(word[0].isdigit() for word in old.value)
        and old.value <= new.gone
        and (old.single or old.slot == "use")
    ):
        return ENDS, "what it says was left"
    was = new.former != old.former and not (new.passive or old.passive)
    if was and (old.former or not new.over):
        return OTHER, "of another time"
    if not _about_the_same(new, old):
        return OTHER, "about somebody or something else"
    if all(getattr(new, name) == getattr(old, name) for name in _WHOLE) and (
        new.passive or old.passive or new.past == old.past
    ):
        return SAME, "the same words in another order or form"
    if new.conditions != old.conditions and (new.positive or new.conditions):
        return OTHER, "it holds for other cases"
    if new.slot is not None and new.slot == old.slot and new.subject == old.subject:
        kind = _in_a_slot(new, old)
        if kind is not None:
            return kind
    return _by_words(new, old)


# Fields in which two statements agree that differ in the order of words only.
_WHOLE = ("words", "numbers", "positive", "gone")


def _about_the_same(new: Fact, old: Fact) -> bool:
    if new.subject == old.subject and new.subject != _THEY:
        return True
    if new.words != old.words:
        return False
    # "In July I read Emma" and "I read Emma in July"; "Nina gave me a piano" and "I was given a
    # piano by Nina"; "I lent Nina a piano" and "Nina borrowed a piano from me"; "Ann met Bob".
    turned = bool(_CONVERSE & {*new.text.split()}) != bool(_CONVERSE & {*old.text.split()})
    fronted = new.slot != old.slot and not new.words & BOTH_WAYS
    return fronted or turned or new.passive != old.passive or bool(new.words & _MUTUAL)


def _in_a_slot(new: Fact, old: Fact) -> tuple[str, str] | None:  # noqa: PLR0911 (a rule each)
    """Compare two values of one slot; None if only the words can decide."""
    about = _about(new)
    if new.value == old.value:
        if new.positive == old.positive:
            return SAME, f"the same {about}"
        return ENDS, f"the same {about}, of which the one says it is so, the other not"
    if new.former and old.former:
        return None  # A history has room for both: "from 2012 to 2017 I worked for ...".
    if new.single and new.positive and old.positive:
        if _widens(new, old):
            kind = SAME if new.value < old.value else REFINES
            return kind, f"the same {about}, with a detail more"
        return (ENDS, f"another {about}") if _may_replace(new, old) else None
    if new.over and old.positive and new.value < old.value:
        return ENDS, f"the {about} is over"
    if new.single and new.positive and not old.positive:
        return OTHER, f"another {about} than the one that is not"
    return None


def _may_replace(new: Fact, old: Fact) -> bool:
    """Return whether two values of a slot that is said of anything are of one kind."""
    family = (new.slot or "").partition(":")[0]
    if family not in ("attr", "home", "employer", "birthday"):
        return True
    if family == "attr" and ("place" in new.kinds) != ("place" in old.kinds):
        return False  # "my wife is from Poland" names nobody
    if {*(new.slot or "").partition(":")[2].split()} & _TASTES:
        return True
    if ("origin" in new.kinds) != ("origin" in old.kinds):
        return False
    return bool(new.kinds & old.kinds - {"word"}) or "any" in new.kinds | old.kinds


def _about(fact: Fact) -> str:
    return (fact.slot or "").split(":")[-1]


def _widens(new: Fact, old: Fact) -> bool:
    """Return whether one value is the other with more words and the same numbers."""
    if not (new.value < old.value or old.value < new.value) or not (new.value and old.value):
        return False
    return not (new.numbers ^ old.numbers)


def _by_words(new: Fact, old: Fact) -> tuple[str, str]:  # noqa: PLR0911 (a rule each)
    """Compare two statements that are no values of one slot."""
    added, gone = new.words - old.words, old.words - new.words
    if (new.slot in _LIKES) != (old.slot in _LIKES):
        return OTHER, "one says what is liked, the other what is done"
    if new.positive != old.positive:
        ended = (new.over and not added and not old.past) or (old.over and not gone)
        if ended or not (added or gone):
            return ENDS, "the same, of which the one says it is so, the other not"
        return OTHER, "one says it is so, the other not, of other things"
    if new.past != old.past or (added and gone):
        return OTHER, "in part about other things"
    if _extends(old.text, new.text):
        return REFINES, "the same with more details"
    if _extends(new.text, old.text):
        return SAME, "known with more details"
    return OTHER, "one says more"


def _extends(short: str, long: str) -> bool:
    """Return whether *long* is *short* and something that is joined to its end."""
    return long.startswith(f"{short} ") and _EXTENDS.match(long, len(short) + 1) is not None
