"""
Languages: the tables of words and patterns in `data/languages.txt`.

Used by `canonical` and `statements`. The file says at its head what each key means. It is
read once, in about 2 ms; patterns are compiled at their first use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from operator import add

from memdb.text.data_files import read_text

_CONTINUED = " " * 8

# Keys of lists of words, and of lists of which each line is one item; others are patterns.
_WORDS = frozenset(
    "common fillers copula numbers tens months light endings holds generic often"
    " pronouns former prepositions subjects places kinds".split()
)
_LINES = frozenset("same left clock".split())

# What the head of a group begins with that names a state, and longest phrase of a group.
STATE = "@"
_MAX_PHRASE = 5
_MIN_STEM = 3
_TEN = 10

_SHORT_VERB = re.compile("[^aeiou]{1,2}[aeiou][^aeiouwxy]")

_AG = re.compile("[^n]g$")

# Patterns with the text, or the function of a match, that replaces their matches.
Replacement = Callable[[re.Match[str]], str] | str
Replacements = tuple[tuple[re.Pattern[str], Replacement], ...]

# What stands in patterns for what is given up, or for an hour.
_MACRO = re.compile(r"(?<!\?P)<[xh]>")

# What is no letter with a mark, but is written both ways.
_LETTERS = str.maketrans({
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "\u2019": "'",
    "\u2018": "'", "\u02bc": "'", "`": "'", "\u202f": " ", "\u00a0": " ", "º": " ", "ª": " ",
    "\uff0c": ",", "。": ".", "、": ",", "\uff1a": ":", "\uff1b": ";", "\uff01": "!", "\uff1f": "?",
})  # fmt: skip
_LAST_LATIN = "\u024f"

# How names of units begin.
_UNITS = (
    "[kc]?m|k?ilo|hour|minute|stunde|hora|heure|euro|dollar|pound|percent|prozent|por ciento"
    "|gigabyte|milli|lit|square|quadrat|metro|metre|meter|zentimeter|centi"
)


class Language:
    """
    What is known of one language; texts are folded, see `fold`.

    Attributes:
        common: Words by which it is recognised.
        fillers: Words that add nothing to a fact.
        copula: Forms of "to be" and "to be called".
        numbers: Value by number word.
        months: Names of the months, in order.
        letters: Letters with marks that tell the language.
        tens: Value by number word from 20 to 90.
        light: Words that a normal form leaves out beside fillers.
        pronouns: Words for who was named before.
        prepositions: Words that begin a condition, not a value.
        subjects: Words for who speaks, at the beginning of a statement.
        kinds: Words that only name the kind of what stands before them.
        places: Towns and countries, where one word says "in" and "at a company".
    """

    def __init__(self, lines: _Lines) -> None:
        """Take the values of a block of the file, by key."""
        self._lines = lines
        self.common = frozenset(lines.get("common", "").split())
        self.fillers = tuple(lines.get("fillers", "").split())
        self.copula = frozenset(lines.get("copula", "").split())
        self.letters = frozenset(lines.get("letters", ""))
        words = lines.get("numbers", "").split()
        self.numbers = {word: number for number, word in enumerate(words, start=1) if word != "-"}
        self.months = tuple(lines.get("months", "").split())
        tens = lines.get("tens", "").split()
        self.tens = {word: number * 10 for number, word in enumerate(tens, start=2) if word != "-"}
        if "zwanzig" in self.tens:
            self.numbers |= self._german_numbers()
        self.light = self.copula.union(lines.get("light", "").split())
        self._endings = tuple(one.split(">") for one in lines.get("endings", "").split())
        self.prepositions, self.subjects, self.pronouns, self.places, self.kinds = (
            frozenset(lines.get(key, "").split())
            for key in ("prepositions", "subjects", "pronouns", "places", "kinds")
        )

    @cached_property
    def holds(self) -> frozenset[str]:
        """Verbs that only say that something is so."""
        return self._forms(self._lines.get("holds", ""))

    @cached_property
    def generic(self) -> frozenset[str]:
        """What a thing that was given up may be called beside."""
        return self._forms(self._lines.get("generic", ""))

    @cached_property
    def former(self) -> frozenset[str]:
        """Past forms of `holds`."""
        return self._forms(self._lines.get("former", ""))

    @cached_property
    def often(self) -> frozenset[str]:
        """Words for times of the day and the week."""
        return self._forms(self._lines.get("often", ""))

    def _german_numbers(self) -> dict[str, int]:
        """Return the numbers from 21 to 99 that are one word."""
        ones = {one: number for one, number in self.numbers.items() if number < _TEN}
        return {
            f"{'ein' if one == 'eins' else one}und{ten}": tens + number
            for one, number in ones.items()
            for ten, tens in self.tens.items()
        }

    def _forms(self, text: str) -> frozenset[str]:
        """Return the words of a text as they are and without endings."""
        return frozenset(text.split()).union(map(self.stem, text.split()))

    def stem(self, word: str) -> str:
        """
        Return a word without its ending; endings that tell the tense stay.

        >>> LANGUAGES["en"].stem("hiking") == LANGUAGES["en"].stem("hikes")
        True
        """
        for ending, rest in self._endings:
            if word.endswith(ending) and len(word) - len(ending) + len(rest) >= _MIN_STEM:
                word = word[: -len(ending)] + rest
                if ending == "ing":
                    word = _before_ing(word)
                break
        return word

    def head(self, stems: tuple[str, ...], place: int) -> tuple[str | None, int]:
        """Return the head of the longest group at a place, and how many words it takes."""
        if stems[place] not in self._first_words:
            return None, 1
        for count in range(min(_MAX_PHRASE, len(stems) - place), 0, -1):
            found = self._groups.get(" ".join(stems[place : place + count]))
            if found is not None:
                return found, count
        return None, 1

    def with_synonyms(self, text: str) -> str:
        """Return a text without spaces between words with each phrase as the head of its group."""
        return self._phrases.sub(lambda found: self._groups[found[0]], text)

    @cached_property
    def _groups(self) -> dict[str, str]:
        """The head of each word or phrase that belongs to a group of synonyms."""
        is_latin = bool(self.common)
        found = {}
        for line in (*self._list("same"), *(SPELLINGS if is_latin else ())):
            head, _, phrases = line.partition(":")
            head = "" if head == "-" else head.strip()
            for phrase in phrases.split("|"):
                if is_latin:
                    kept = [self.stem(one) for one in phrase.split() if one not in self.fillers]
                    found[" ".join(kept)] = head
                else:
                    found[phrase.strip()] = f" {head} "
        # Phrases are found again in what the first look leaves: "ride my bike".
        return {
            " ".join(found.get(one) or one for one in key.split()): head
            for key, head in found.items()
        } | found

    @cached_property
    def _first_words(self) -> frozenset[str]:
        """The words with which a phrase of a group begins."""
        return frozenset(phrase.partition(" ")[0] for phrase in self._groups)

    @cached_property
    def _phrases(self) -> re.Pattern[str]:
        longest_first = sorted(self._groups, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    @cached_property
    def left(self) -> tuple[tuple[re.Pattern[str], frozenset[str]], ...]:
        """Ways to say that x is given up, and the words that a statement of x may have beside."""
        stops = self._lines.get("stops", "(?!)").strip()
        what = rf"(?P<x>[^,.;:]+?)(?=[,.;:]| {stops}|$)"
        found = (one.partition(" => ") for one in self._list("left"))
        return tuple(
            (re.compile(_MACRO.sub(lambda _: what, old.strip())), self._forms(rest))
            for old, _, rest in found
        )

    @cached_property
    def measured(self) -> re.Pattern[str]:
        """Number words before a unit: "five kilometres"."""
        words = "|".join(self.numbers) or "(?!)"
        return re.compile(rf"\b({words})(?= (?:{_UNITS}))")

    @cached_property
    def clock(self) -> tuple[tuple[re.Pattern[str], int], ...]:
        """Ways to say a time in words, with the hour h, and minutes to add to it."""
        hours = "|".join((*self.numbers, r"\d\d?"))
        found = (one.partition("=>") for one in self._list("clock"))
        return tuple(
            (
                re.compile(_MACRO.sub(f"(?P<h>{hours})".replace("\\", r"\\"), old.strip())),
                int(minutes),
            )
            for old, _, minutes in found
        )

    def _list(self, key: str) -> list[str]:
        return [one for one in self._lines.get(key, "").split("\n") if one.strip()]

    def pattern(self, key: str) -> re.Pattern[str]:
        """Return the compiled pattern of a key, which matches nothing if the key is absent."""
        return self._patterns[key]

    @cached_property
    def slots(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """Name and pattern of each slot; the name "{a}" stands for what group a matches."""
        found = (one.strip().partition("=") for one in self._lines.get("slots", "").split(";;"))
        return tuple((name, re.compile(pattern)) for name, _, pattern in found if name)

    @cached_property
    def instead(self) -> tuple[re.Pattern[str], ...]:
        """Ways to say "not x but y", with the groups x and y."""
        found = self._lines.get("instead", "").split(";;")
        return tuple(re.compile(one.strip()) for one in found if one.strip())

    @cached_property
    def rewrites(self) -> Replacements:
        """Patterns with what stands for them in every statement."""
        return self._pairs("rewrites")

    @cached_property
    def respell(self) -> Replacements:
        """Patterns with what stands for them before numbers are read."""
        return self._pairs("respell")

    @cached_property
    def affirms(self) -> Replacements:
        """Pairs of a negated form and the same one without negation."""
        return self._pairs("affirms")

    def _pairs(self, key: str) -> Replacements:
        found = (one.strip().partition("=>") for one in self._lines.get(key, "").split(";;"))
        return tuple((re.compile(old), new) for old, _, new in found if old)

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        keys = (
            "negation",
            "ended",
            "corrects",
            "changed",
            "now",
            "also",
            "past",
            "perfect",
            "period",
            "when",
        )
        return {key: re.compile(self._lines.get(key, "(?!)")) for key in keys}


def replace_each(pairs: Replacements, text: str) -> str:
    """Return *text* with the matches of each pattern replaced, one pattern after the other."""
    for pattern, new in pairs:
        text = pattern.sub(new, text)
    return text


def _before_ing(word: str) -> str:
    """Return the English verb of which "ing" was cut: "hike", "run", "dance", "work"."""
    if word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    is_short = _SHORT_VERB.fullmatch(word) is not None
    return f"{word}e" if is_short or word[-1] in "cvzu" or _AG.search(word) else word


@lru_cache(maxsize=8_192)
def fold(text: str) -> str:
    """
    Return *text* in lower case, without accents on Latin letters and with plain marks.

    >>> fold("Crème Brûlée。")
    'creme brulee.'
    """
    if text.isascii():
        return text.lower().replace("`", "'")
    text = unicodedata.normalize("NFKC", text).lower().translate(_LETTERS)
    return "".join(
        unicodedata.normalize("NFD", letter)[0]
        if letter <= _LAST_LATIN or "\u1e00" <= letter < "\u1f00"
        else letter
        for letter in text
    )


def recognise(text: str, other: str = "", letters: str = "") -> str:
    """
    Return the code of the language of one or two folded texts: "en" if no word tells.

    Args:
        letters: Letters with marks of the texts before they were folded.

    >>> recognise("ich wohne in oslo"), recognise("我住在北京"), recognise("tea")
    ('de', 'zh', 'en')
    """
    found = _scores(text)
    if other:
        found = tuple(map(add, found, _scores(other)))
    if letters:
        found = tuple(map(add, found, _of_letters(letters)))
    return _CODES[found.index(max(found))]


@lru_cache(maxsize=1_024)
def _of_letters(letters: str) -> tuple[int, ...]:
    return tuple(sum(one in known.letters for one in letters) for known in LANGUAGES.values())


@lru_cache(maxsize=8_192)
def _scores(text: str) -> tuple[int, ...]:
    """Return how many words of a folded text tell each language."""
    if not text.isascii():
        code = "ja" if _KANA.search(text) else "zh" if _HAN.search(text) else None
        if code is not None:
            return tuple(len(text) * (one == code) * (2 if one == "ja" else 1) for one in LANGUAGES)
    words = _WORD.findall(text)
    return tuple(sum(word in one.common for word in words) for one in LANGUAGES.values())


def simplify(text: str) -> str:
    """Return *text* with simplified Chinese characters for traditional ones."""
    return text.translate(_simplified())


@cache
def _simplified() -> dict[int, int]:
    """Return the simplified character by the traditional one, as code points."""
    pairs = _SHARED.get("traditional", "").split()
    return str.maketrans("".join(pairs[::2]), "".join(pairs[1::2]))


class _Lines:
    """The values of a block of the file; lines are joined when a key is asked for."""

    def __init__(self, block: str) -> None:
        """Read what follows "language ": the code, and the lines of the block."""
        self.code, _, lines = block.partition("\n")
        self._values: dict[str, str] = dict(_VALUE.findall(lines))

    def get(self, key: str, default: str) -> str:
        """Return the value of *key*, *default* without one."""
        value = self._values.get(key)
        if value is None:
            return default
        first, *others = value.split("\n")
        joint = " " if key in _WORDS else "\n" if key in _LINES else ""
        return joint.join([first.strip(), *(line[len(_CONTINUED) :] for line in others)])


_VALUE = re.compile(rf"^(?!{_CONTINUED}) +(\S+) ?(.*(?:\n{_CONTINUED}.*)*)", re.MULTILINE)
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
_WORD = re.compile(r"[a-z]+")
_BLOCKS = [*map(_Lines, read_text(__file__, "data/languages.txt").split("\nlanguage ")[1:])]
_SHARED = next(block for block in _BLOCKS if block.code == "any")
SPELLINGS = tuple(_SHARED.get("same", "").split("\n"))
"""Groups of spellings that every language with spaces has: places, brands, abbreviations."""
LANGUAGES = {block.code: Language(block) for block in _BLOCKS if block is not _SHARED}
"""The languages that are known, by code; "en" is the first."""
_CODES = tuple(LANGUAGES)
