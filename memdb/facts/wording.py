"""
Words of a statement in the form for the two models: folded, with their place and weight.

A script without spaces gives a word per character (a run of Katakana is one word). The weight is
the amount of information in a word. The weight is 1 for rare words, and small for words in many of
the training statements (`common.json`, counted by `bench/facts/train.py`).
"""

from __future__ import annotations

import math
import unicodedata
from functools import cache, lru_cache

from memdb.models.record import Record
from memdb.text.resources import compiled, read_json
from memdb.text.terms import FOLDS

MAX_CHARS = 1_000
"""What is longer is read up to here: a statement is a sentence or two."""

_NUMBER = r"(?<![\d.,])\d{1,3}(?:[ .,'\u00a0\u2019\u202f]\d{3})+(?![\d])|\d+(?:[.,]\d+)?"
_UNIT = r"(?<=[A-Za-z0-9])[+-](?![A-Za-z0-9])|(?<!\w)-(?=\d)"
_ASCII_WORD = (
    rf"(?P<number>{_NUMBER})|(?P<word>[A-Za-z]+(?:'[A-Za-z]+)*[+#]*)|(?P<unit>[%$]|{_UNIT})"
)
# Of any text; compiling its sets takes 5 ms.
_WORD = (
    rf"(?P<number>{_NUMBER})"
    r"|(?P<sign>[\u3400-\u9fff\uf900-\ufaff\u3041-\u3096])"
    r"|(?P<kana>[\u30a1-\u30fa\u30fc]+)"
    r"|(?P<word>(?:(?!\d)[^\W_\u3041-\u30ff\u3400-\u9fff]|[\u0300-\u036f\u0900-\u0dff\u200c\u200d])+"
    r"(?:['\u2019](?:(?!\d)[^\W_])+)*[+#]*)"
    rf"|(?P<unit>[%$\u20ac\u00a3\u00a5\u20b9\u20bd\u20ba\u00b0]|{_UNIT})"
)
_ELIDED = r"[^\W\d_]{1,2}['\u2019](?=[^\W\d_]{3})"
_SPACED = r"[^\W\d_]+(?:'[^\W\d_]+)*"
_GROUPED = r"(?<=\d)[ .,'\u00a0\u2019\u202f](?=\d{3}(?!\d))"
_ENDS = frozenset(".!?:\n\u3002")
_LAST_LATIN = "\u024f"
_LEAST_COMMON = 0.004
SHORT = 3


class Word(Record):
    """
    One word of a text.

    Attributes:
        kind: "number", "sign" (a character without spaces around it), "kana",
            "word" or "unit" (a sign of percent, currency or degrees, plus or minus).
        weight: From 0.05, for a word in very many statements, to 1.
        is_name: Whether it begins with a capital letter, and is not the first word of its sentence.
    """

    text: str
    kind: str
    weight: float
    is_name: bool


def fold(text: str) -> str:
    """
    Return *text* in lower case, without accents on Latin letters and with plain marks.

    >>> fold("Crème Brûlée。")
    'creme brulee。'
    """
    if text.isascii():
        return text.lower().replace("`", "'")
    text = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'").translate(FOLDS)
    return "".join(
        unicodedata.normalize("NFD", letter)[0]
        if letter <= _LAST_LATIN or "\u1e00" <= letter < "\u1f00"
        else letter
        for letter in text
    )


@lru_cache(maxsize=4_096)
def words_of(text: str) -> tuple[Word, ...]:
    """
    Return the words of the first `MAX_CHARS` of *text*, in order.

    >>> [word.text for word in words_of("L'appartement coûte 15 400 € à Évry")]
    ['appartement', 'coute', '15400', '€', 'a', 'evry']
    """
    language = recognise(text)
    text = compiled(_ELIDED).sub("", unicodedata.normalize("NFKC", text[:MAX_CHARS]))
    found: list[Word] = []
    last = 0
    for match in compiled(_ASCII_WORD if text.isascii() else _WORD).finditer(text):
        starts = not found or not _ENDS.isdisjoint(text[last : match.start()])
        last = match.end()
        found.append(_word(match.group(), str(match.lastgroup), language, starts))
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def _word(raw: str, kind: str, language: str, starts: bool) -> Word:  # noqa: FBT001 (of a cache)
    """Return a word in the form for the models; *starts*: whether it begins a sentence."""
    if kind == "number":
        return Word(compiled(_GROUPED).sub("", raw).replace(",", "."), kind, 1.0, False)
    folded = fold(raw).removesuffix("'s")
    is_name = not starts and raw[0].isupper() and kind == "word"
    return Word(folded, kind, _weight(folded, raw, common_words().get(language, {})), is_name)


def words_and_signs(text: str) -> tuple[str, ...]:
    """
    Return the words of a text, "|", and the signs that matter; the text itself if it has no words.

    Letter case, accents on Latin letters, punctuation and the format of numbers make no difference;
    symbols, and characters that nobody knows, do. Beyond `MAX_CHARS` the folded text counts.

    >>> words_and_signs("It costs 5 €?")
    ('it', 'costs', '5', '€', '|', '€', '?')
    """
    found = [word.text for word in words_of(text)] or [text]
    rest = [sign for sign in fold(text) if sign in _SIGNS or unicodedata.category(sign) in _SYMBOLS]
    if len(text) > MAX_CHARS:
        rest.append(fold(text[MAX_CHARS:]))
    return (*found, "|", *rest)


# Punctuation that makes a difference, and categories: symbols, private and unknown characters.
_SIGNS = frozenset("?\u061f%#@&")
_SYMBOLS = frozenset(("Sm", "Sc", "Sk", "So", "Co", "Cn"))


@lru_cache(maxsize=1_024)
def recognise(text: str) -> str:
    """
    Return the code of the language of *text*, "en" if no word decides.

    The language is the likeliest by common words and letters, among the languages of its script.

    >>> recognise("Ich wohne in Oslo und das ist gut"), recognise("我住在北京"), recognise("xyz")
    ('de', 'zh', 'en')
    """
    folded = fold(text[:MAX_CHARS])
    if not folded.isascii():
        for code, letters in SCRIPTS.items():
            if compiled(letters).search(folded):
                return code
    scores = {"en": math.log(_PRIOR)}
    for word in compiled(_SPACED).findall(compiled(_ELIDED).sub("", folded)):
        for code, told in _tells_language().get(word.removesuffix("'s"), ()):
            scores[code] = scores.get(code, 0.0) + told
    if not text.isascii():
        written = set(text[:MAX_CHARS].lower())
        for code, letters in _LETTERS.items():
            own = math.log(_OWN_LETTER) * len(written.intersection(letters))
            scores[code] = scores.get(code, 0.0) + own
    return max(scores, key=scores.__getitem__)


@cache
def _tells_language() -> dict[str, list[tuple[str, float]]]:
    """Return, by word, the languages in which it is common, with its weight for each."""
    found: dict[str, list[tuple[str, float]]] = {}
    for code, words in common_words().items():
        for word, share in words.items():
            found.setdefault(word, []).append((code, math.log(share / _RARE)))
    return found


# Letters that few other languages have, and what one is worth; what a rare word is worth, and
# how much likelier English is where nothing tells.
_LETTERS = {
    "tr": "\u0131\u015f\u011f",
    "pl": "\u0142\u017c\u017a\u015b\u0107\u0144\u0119\u0105",
    "es": "\xf1\xbf\xa1",
    "pt": "\xe3\xf5",
    "de": "\xdf\xe4",
    "fr": "\xea\u0153\xeb\xee\xfb",
    "it": "\xec\xf2",
}
_OWN_LETTER, _RARE, _PRIOR = 20.0, 0.001, 2.0

SCRIPTS = {
    "ja": "[\u3041-\u30fa]",
    "zh": "[\u3400-\u9fff]",
    "ko": "[\uac00-\ud7a3]",
    "ru": "[\u0400-\u04ff]",
    "ar": "[\u0600-\u06ff]",
    "hi": "[\u0900-\u097f]",
}


@cache
def common_words() -> dict[str, dict[str, float]]:
    """Return, by language, the share of statements with a word, for the frequent ones."""
    return {
        code: {word: share / 1_000 for word, share in words.items()}
        for code, words in read_json(__file__, "common.json").items()
    }


def _weight(folded: str, raw: str, common: dict[str, float]) -> float:
    """Return the weight of a word, by its share of statements, else by its length."""
    share = common.get(folded, 0.0)
    if share > _LEAST_COMMON:
        return max(0.05, 1 - math.sqrt(share / _LEAST_COMMON) / 6)
    if common or len(folded) > SHORT or not raw.islower():
        return 1.0
    return 0.5  # a language without counts
