"""
Other spellings of a word, and scripts that stand in one: for the second index column.

unicode61 folds the accents of Latin letters and nothing else: it keeps ß, ё and ό, cuts a word at
Hebrew points and Arabic vowel signs, and takes `caféбар` as one word. What it misses is written
out here, for texts when they are indexed and for words when they are asked for, so either spelling
finds the other. Only what people do type both ways is folded: й is another letter than и.

Pure functions over words in lower case and NFC.
"""

from __future__ import annotations

import re
import unicodedata

_LATIN_GREEK = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th", "ħ": "h",
    "ŧ": "t", "ŋ": "n", "ı": "i", "ς": "σ", "ё": "е",
}  # fmt: skip
# Alef, yeh and waw with hamza, final forms, Persian letters, digits.
_ARABIC = {
    "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ئ": "ي", "ؤ": "و", "ة": "ه", "ی": "ي",
    "ک": "ك", "ـ": "",
    **{chr(start + digit): str(digit) for start in (0x660, 0x6F0) for digit in range(10)},
}  # fmt: skip
_FOLDS = str.maketrans(_LATIN_GREEK | _ARABIC)
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})

# Latin, Greek and Arabic combining marks, Hebrew points.
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670]+")
# What unicode61 does not fold by itself, apart from forms that NFKC knows (ﬁ, ３).
_FOLDED = re.compile(
    f"[{''.join(map(re.escape, (*_LATIN_GREEK, *_ARABIC)))}\u0370-\u03ff\u1f00-\u1fff"
    "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]"
)
_UMLAUT = re.compile("[äöüß]")

# The article, alone and behind "and", "with", "like", "so", "for": al-kitab is also kitab.
_ARTICLE = re.compile("(?:[وبكف]?ال|لل)(?=.{2})")
# "And", "the", "in", "to", "from", "that", "like", written as a part of the next word.
_HEBREW_PREFIX = re.compile("[והבלמשכ](?=[א-ת]{3})")

_LATIN = (
    "a-z\u00aa\u00ba\u00df-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff"
    "\uab30-\uab6f\ufb00-\ufb06\uff21-\uff5a"
)
_SCRIPTS = (
    _LATIN,
    "\u0370-\u03ff\u1f00-\u1fff",  # Greek
    "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",  # Cyrillic
    "\u0530-\u058f",  # Armenian
    "\u0590-\u05ff",  # Hebrew
    "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff",  # Arabic
)
_SCRIPT = re.compile("|".join(f"([{letters}])" for letters in _SCRIPTS))
_ONE_SCRIPT = re.compile("|".join(f"[{letters}\u0300-\u036f\\d]*" for letters in _SCRIPTS))


def runs_of(word: str) -> list[str]:
    """
    Return the parts of *word* that are of one script each; digits stay with what they touch.

    Other scripts than Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic count as one.

    >>> runs_of("приветworld123"), runs_of("3rd"), runs_of("हिन्दी")
    (['привет', 'world123'], ['3rd'], ['हिन्दी'])
    """
    if word.isascii() or _ONE_SCRIPT.fullmatch(word):
        return [word]
    runs: list[str] = []
    start, last = 0, None
    for place, letter in enumerate(word):
        if not letter.isalpha():
            continue
        match = _SCRIPT.match(letter)
        script = match.lastindex if match else 0
        if last is not None and script != last:
            runs.append(word[start:place])
            start = place
        last = script
    return [*runs, word[start:]]


def spellings(word: str) -> list[str]:
    """
    Return how else *word* may be written, each once; [] for nearly every word.

    >>> spellings("straße"), spellings("für"), spellings("café"), spellings("ёлка")
    (['strasse'], ['fuer'], [], ['елка'])
    """
    if word.isascii():
        return []
    found: dict[str, None] = {}
    plain = word
    if _FOLDED.search(word) or not unicodedata.is_normalized("NFKC", word):
        letters = unicodedata.normalize("NFKD", word.translate(_FOLDS))
        plain = _MARKS.sub("", letters).translate(_FOLDS)
        # NFKD takes apart й and the like, which are letters of their own.
        plain = unicodedata.normalize("NFC", plain)
        found[plain] = None
    if _UMLAUT.search(word):
        found[word.translate(_UMLAUTS)] = None
    for prefix in (_ARTICLE, _HEBREW_PREFIX):
        if match := prefix.match(plain):
            found[plain[match.end() :]] = None
    found.pop(word, None)
    return [one for one in found if one]
