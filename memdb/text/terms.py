"""
Words of a text as the full-text index sees them.

The index is FTS5 with `porter unicode61 remove_diacritics 2`: letters and digits make words, and
all other characters separate them. SQLite makes the stems, so a term is just a quoted word.
unicode61 takes a run of Chinese or Thai as one long word. So a second column has such runs as
overlapping pairs of characters (`cjk_grams`), and a query searches for the same pairs. The
tokenizer takes emoji as separators, so that column has their names. The column also has words of
one script adjacent to another, and other spellings.

Spellings: unicode61 folds the accents of Latin letters and nothing else. The tokenizer keeps ß, ё
    and ό, cuts
a word at Hebrew points and Arabic vowel signs, and takes `caféбар` as one word. Folded forms are
added to texts and to queries, so either spelling finds the other. Only letters that people do type
both ways are folded: й is another letter than и.

Pure functions: no SQL is run here, and no text can make them fail, with or without NUL characters
and lone surrogates.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

from memdb.models.record import Record
from memdb.text.resources import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
FOLDS = str.maketrans(_LATIN_GREEK | _ARABIC)
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})

# Latin, Greek and Arabic combining marks, Hebrew points.
_VOWEL_MARKS = "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670]+"
# What unicode61 does not fold by itself, apart from forms that NFKC knows (ﬁ, ３).
_FOLDED = (
    f"[{''.join(map(re.escape, (*_LATIN_GREEK, *_ARABIC)))}\u0370-\u03ff\u1f00-\u1fff"
    "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]"
)
_UMLAUT = "[äöüß]"

# The article, alone and behind "and", "with", "like", "so", "for": al-kitab is also kitab.
_ARTICLE = "(?:[وبكف]?ال|لل)(?=.{2})"
# "And", "the", "in", "to", "from", "that", "like", written as a part of the next word.
_HEBREW_PREFIX = "[והבלמשכ](?=[א-ת]{3})"

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
_SCRIPT = "|".join(f"([{letters}])" for letters in _SCRIPTS)
_ONE_SCRIPT = "|".join(f"[{letters}\u0300-\u036f\\d]*" for letters in _SCRIPTS)


def runs_of(word: str) -> list[str]:
    """
    Return the parts of *word* that are of one script each; digits stay with what they touch.

    Other scripts than Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic count as one.

    >>> runs_of("приветworld123"), runs_of("3rd"), runs_of("हिन्दी")
    (['привет', 'world123'], ['3rd'], ['हिन्दी'])
    """
    if word.isascii() or compiled(_ONE_SCRIPT).fullmatch(word):
        return [word]
    runs: list[str] = []
    start, last = 0, None
    for place, letter in enumerate(word):
        if not letter.isalpha():
            continue
        match = compiled(_SCRIPT).match(letter)
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
    if compiled(_FOLDED).search(word) or not unicodedata.is_normalized("NFKC", word):
        letters = unicodedata.normalize("NFKD", word.translate(FOLDS))
        plain = compiled(_VOWEL_MARKS).sub("", letters).translate(FOLDS)
        # NFKD takes apart й and the like, which are letters of their own.
        plain = unicodedata.normalize("NFC", plain)
        found[plain] = None
    if compiled(_UMLAUT).search(word):
        found[word.translate(_UMLAUTS)] = None
    for prefix in (compiled(_ARTICLE), compiled(_HEBREW_PREFIX)):
        if match := prefix.match(plain):
            found[plain[match.end() :]] = None
    found.pop(word, None)
    return [one for one in found if one]


# Of a word that is being typed: fewer letters begin too many words.
LEAST_BEGUN_CHARS, MAX_BEGUN_CHARS = 2, 200

# What an English stem loses, so that a word that stops within it is the beginning of no stem.
ENDINGS = ("ing", "ation")
LEAST_ENDED_CHARS = 4

MAX_TERMS = 64
"""Most terms of one query: each costs one statement, about 50 µs."""

# Terms that are looked up together: the words of a long paragraph. A common word costs 30 ms in a
# scope of 400,000 messages, 2,000 words 10 s.
TERMS_AT_ONCE = 64

# What stands in quotes; most such parts of a query that are looked up as phrases.
_QUOTED = r"""["“«「]([^"“”«»「」]{3,200})["”»」]"""
MAX_PHRASES = 8

# A number that is written in groups, and how many digits it has: from local numbers of telephones,
# which have 15 at most, to numbers of cards. What touches a colon and a digit is a time of day.
_NUMBER = r"(?<!\w)(?<![0-9]:)\+?\(?[0-9](?:[ \u00a0\u2011()./-]{0,3}[0-9])+(?!\w)(?!:[0-9])"
LEAST_DIGITS, MOST_CALLED, MOST_DIGITS = 7, 15, 19

# Scripts without spaces between words, as the inside of a character class.
_HAN = "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAN_RARE = "\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
_KANA = (
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"
)
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"
_THAI_LAO = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf"
_KHMER = "\u1780-\u17d3\u17d7\u17dc-\u17dd"
_BURMESE = "\u1000-\u103f\u1050-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
_CJK = _HAN + _HAN_RARE + _KANA + _HANGUL + _THAI_LAO + _KHMER + _BURMESE

# First and last characters: Hangul and what stands before all of these; Thai to Burmese, Khmer.
_SPACED = ((0, 0xE00), (0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xAC00, 0xD7FB))
_SOUTH_ASIAN = ((0xE01, 0x109F), (0x1780, 0x17DD), (0xA9E0, 0xAA7F))
MAX_LETTERS = 1 << 30

# Vowel signs and tone marks of those scripts. unicode61 takes them as separators, so a pair that
# contains one would be cut in two; they are left out of the pairs, in the index and in the query.
_SIGNS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u17b4-\u17d3\u17dd"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d"
    "\u108f\u109a-\u109d\ua9e5\uaa7b-\uaa7d"
)

# Combining marks that continue a word elsewhere: Latin, Hebrew, Arabic, the Indic blocks, Tibetan.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0963\u0966-\u0dff"
    "\u0f71-\u0f84\u0f8d-\u0fbc\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
)

# Pictures: symbols, dingbats, emoji; a flag is a pair. Skin tones, joiners and variation selectors
# only change how the one before looks, and are left out.
_PICTURES = "\u231a-\u23ff\u25a0-\u27bf\u2b05-\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"

# Compiled at their first use (10 ms): a text in ASCII needs none but the first.
_ASCII_WORD = "[a-zA-Z0-9]+"
_HAS_CJK = f"[{_CJK}]"
_HAS_PICTURE = f"[{_PICTURES}]"
_SIGN = f"[{_SIGNS}]+"
_WORD = rf"[{_CJK}]+|[^\W_{_CJK}](?:[^\W_{_CJK}]|[{_MARKS}])*|{_FLAG}|[{_PICTURES}]"
# The mark first: a pattern that begins with it is looked for much faster.
_ENDING = r"['\u2019](?<=\w.)(?:s|t|d|m|re|ve|ll)(?!\w)"

_STOP = """
    a an the this that these those such same other another each every any some all both either
    neither no nor not none only own few more most much many enough
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
    himself she her hers herself it its itself they them their theirs themselves one ones
    who whom whose which what when where why how whether
    am is are was were be been being do does did doing done have has had having
    can could will would shall should may might must ought
    isn aren wasn weren don doesn didn hasn haven hadn couldn wouldn shouldn ain
    and or but if then else than so as because while until although though unless since
    at by for from in into of off on onto out over to under up down upon with without within
    about above across after again against along among around before behind below beneath beside
    between beyond during except near per through toward towards via
    there here now just also too very ever even yet still already almost rather quite
    yes ok okay oh um please let get got go goes
    say says said tell told know
"""
STOP_WORDS: frozenset[str] = frozenset(_STOP.split())
"""English words that say nothing about the topic: about 200, lower case."""


class Term(Record):
    """
    Term of a full-text query; the engine writes the query.

    Attributes:
        words: Words that stand side by side, lower case; mostly one.
        prefix: The last of them is only the beginning of a word.
        any_of: Other spellings, which count as well.
        fields: Only these fields of a row are looked at, for example "text"; (): all.
    """

    words: tuple[str, ...]
    prefix: bool = False
    any_of: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of characters: long words are rare and distinctive."""
        return sum(map(len, self.words))


def query_words(text: str) -> list[str]:
    """
    Return the words of *text*, lower case, each once, in order.

    A word is a run of letters and digits; underscores and punctuation separate. A run of a script
    without spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) is a word of its own. If a
    run has several scripts, each of them is a word. Each emoji is one too. The English endings 's,
    't, 'd, 'm, 're, 've and 'll are dropped. Cost: about 1 µs per word.

    >>> query_words("Ann's trip to Kyōto (2023_05)?")
    ['ann', 'trip', 'to', 'kyōto', '2023', '05']
    >>> query_words("iPhone手机 👍🏽")
    ['iphone', '手机', '👍']
    """
    words = _words(compiled(_ENDING).sub(" ", _normal(text)))
    if not text.isascii():
        words = [run for word in words for run in _runs(word)]
    return list(dict.fromkeys(words))


def _words(text: str) -> list[str]:
    return compiled(_ASCII_WORD).findall(text) if text.isascii() else compiled(_WORD).findall(text)


def content_words(words: Sequence[str]) -> list[str]:
    """
    Return *words* without stop words, or all of them when nothing else remains.

    >>> content_words(["where", "does", "ann", "live"])
    ['ann', 'live']
    >>> content_words(["who", "are", "you"])
    ['who', 'are', 'you']
    """
    return [word for word in words if word not in STOP_WORDS] or list(words)


def has_cjk(text: str) -> bool:
    """
    Return whether *text* has a character of a script without spaces between words.

    Cost: 0.1 µs for ASCII of any length that matters, else one regex search.
    """
    return not text.isascii() and compiled(_HAS_CJK).search(text) is not None


def count_words(text: str) -> int:
    """
    Return how many words a text has; of a script without spaces about as many as it would have.

    A word takes two characters in Chinese and Japanese and four in Thai, Lao, Khmer and Burmese
    (letters without signs). Korean is written with spaces.
    """
    if not has_cjk(text):
        return len(text.split())
    return sum([-(-len(run) // _letters_per_word(run[0])) for run in _words(text)])


def _letters_per_word(first: str) -> int:
    """Return how many letters of a run that begins so make a word; no run is so long in Korean."""
    code = ord(first)
    if any(low <= code <= high for low, high in _SPACED):
        return MAX_LETTERS
    return 4 if any(low <= code <= high for low, high in _SOUTH_ASIAN) else 2


def cjk_grams(text: str) -> str:
    """
    Return the second index column of *text*; '' for most languages.

    For each run of a script without spaces these are every pair of neighbours and the last
    character alone. So one character finds its run as a prefix. Vowel signs and tone marks are left
    out. Words adjacent to another script are added, because unicode61 joins them with it. Emoji are
    added by name, and so are spellings that unicode61 does not fold.

    >>> cjk_grams("我爱北京 and iPhone手机")
    '我爱 爱北 北京 京 iphone 手机 机'
    >>> cjk_grams("Straße 🎉"), cjk_grams("tea")
    ('strasse emoji1f389', '')
    """
    if text.isascii():
        return ""
    grams: list[str] = []
    # Of each run: whether something stands at its very start, or at its end.
    found = [
        (match, run, len(runs) > 1)
        for match in compiled(_WORD).finditer(_normal(text))
        for runs in [_runs(match.group())]
        for run in runs
    ]
    for index, (match, word, mixed) in enumerate(found):
        if compiled(_HAS_CJK).match(word):
            run = compiled(_SIGN).sub("", word)
            grams += _pairs(run)
            grams += run[-1:]
            continue
        if compiled(_HAS_PICTURE).match(word):
            grams.append(_picture_name(word))
            continue
        before = found[index - 1][0].end() if index else -1
        after = found[index + 1][0].start() if index + 1 < len(found) else -1
        if mixed or match.start() == before or match.end() == after:
            grams.append(word)
        grams += spellings(word)
    return " ".join(grams)


def word_terms(words: Iterable[str], limit: int = MAX_TERMS) -> list[Term]:
    """
    Return the terms for *words* as `query_words` cuts them, each once.

    The terms are looked up one by one, so that the length of each answer is the term's document
    frequency. A row matches the query if it matches any term. A run of a script without spaces
    becomes one term per pair of characters, a single character the beginning of a word.

    >>> [term.words for term in word_terms(["kyoto", "京都市"])]
    [('kyoto',), ('京都',), ('都市',)]
    >>> [(term.words, term.prefix) for term in word_terms(["猫"])]
    [(('猫',), True)]
    """
    terms: dict[Term, None] = {}
    for word in words:
        if len(terms) >= limit:
            break
        terms.update(dict.fromkeys(_terms_of(word)))
    return list(terms)[:limit]


def begun_terms(terms: list[Term], text: str) -> list[Term]:
    """
    Return *terms* of a text that is being typed: its last word is the beginning of any.

    A word of one letter begins too many words, and a word before a space or a mark is
    whole. In both cases the terms stay unchanged. The word itself counts too, in any form.

    >>> begun_terms(word_terms(["call", "birg"]), "call Birg")[1]
    Term(words=('birg',), prefix=True, any_of=('birg',))
    >>> begun_terms(word_terms(["birg"]), "Birg ") == word_terms(["birg"])
    True
    """
    if not text or not text[-1].isalnum():
        return terms
    words = query_words(text[-MAX_BEGUN_CHARS:].rsplit(maxsplit=1)[-1])
    last = words[-1] if words else ""
    if len(last) < LEAST_BEGUN_CHARS or has_cjk(last):
        return terms
    forms = (last, *_completed(last))
    return [
        term.replace(prefix=True, any_of=(*forms, *term.any_of)) if term.words == (last,) else term
        for term in terms
    ]


def _completed(word: str) -> list[str]:
    """
    Return a word that stops within an English ending with that ending, one form for each.

    The index contains stems, and "runni" is the beginning of none: "running" is found by "run".

    >>> _completed("runni"), _completed("tea")
    (['running'], [])
    """
    if len(word) < LEAST_ENDED_CHARS or not word.isascii():
        return []
    found = []
    for ending in ENDINGS:
        for size in range(len(ending) - 1, 0, -1):
            if word.endswith(ending[:size]):
                found.append(word + ending[size:])
                break
    return found


def quoted_runs(text: str) -> list[tuple[str, ...]]:
    """
    Return the words of each part of *text* in quotes, for `phrase_terms`.

    >>> quoted_runs('the "green tea" of Ann')
    [('green', 'tea')]
    """
    found = compiled(_QUOTED).findall(text)[: 4 * MAX_PHRASES]
    return [run for run in (tuple(query_words(piece)) for piece in found) if len(run) > 1]


def phrase_terms(phrases: Iterable[Sequence[str]]) -> list[Term]:
    """
    Return the terms for runs of words that stand side by side.

    Runs with a script without spaces or an emoji are left out: their terms say as much.

    >>> [term.words for term in phrase_terms([("search", "py"), ("京都", "tea")])]
    [('search', 'py')]
    """
    return [
        Term(tuple(words))
        for words in phrases
        if not has_cjk(joined := "".join(words)) and not compiled(_HAS_PICTURE).search(joined)
    ]


def cut_numbers(text: str) -> tuple[str, list[Term]]:
    """
    Return *text* without its long numbers, and a term for each of them.

    A number has 7 to 19 digits, with at most three of " ()./-" between two. Its term matches it
    however the digits are grouped, in groups of up to four and a longer last one. The term also
    matches a number of a telephone with and without the code of its country, "+" or "00" before
    that, and "0" in place of it.

    >>> rest, (term,) = cut_numbers("call (040) 123-4567 at home")
    >>> rest, term.words, {"0401234567", "40 12 345 67", "358401234567"} <= {*term.any_of}
    ('call   at home', ('040', '123', '4567'), True)
    """
    terms: list[Term] = []

    def cut(found: re.Match[str]) -> str:
        typed = compiled("[0-9]+").findall(found[0])
        digits = "".join(compiled("[0-9]+").findall(found[0].replace("(0)", "")))
        if not LEAST_DIGITS <= len(digits) <= MOST_DIGITS:
            return found[0]
        forms = dict.fromkeys(_number_forms(digits, is_whole="+" in found[0]))
        terms.append(Term(tuple(typed), any_of=tuple(forms)))
        return " "

    return compiled(_NUMBER).sub(cut, text), terms


def _number_forms(digits: str, *, is_whole: bool) -> Iterator[str]:
    """Yield the ways to write a number; *is_whole*: it begins with the code of a country."""
    if len(digits) > MOST_CALLED:
        yield from _groupings(digits)
        return
    known = digits.lstrip("0")
    is_whole = is_whole or digits.startswith("00")
    for form in _groupings(known):
        yield from (form, f"00{form}", f"0{form}")
    local = [known[size:] for size in (1, 2, 3)] if is_whole else []
    for form in (form for one in local if len(one) >= LEAST_DIGITS for form in _groupings(one)):
        yield from (form, f"0{form}")
    if not is_whole and len(known) > LEAST_DIGITS:  # written together with any code
        yield from (f"{zeros}{code}{known}" for code in range(1, 1000) for zeros in ("", "00"))


def _groupings(digits: str, least: int = 1) -> Iterator[str]:
    """Yield *digits* in groups of *least* to four, then of two to four; the last may be longer."""
    yield digits
    for size in range(least, 5):
        if digits[size + 1 :]:
            yield from (f"{digits[:size]} {rest}" for rest in _groupings(digits[size:], 2))


def _terms_of(word: str) -> list[Term]:
    if word.isascii():
        return [Term((word,))]
    if compiled(_HAS_CJK).search(word):
        run = compiled(_SIGN).sub("", word)
        if len(run) == 1:
            return [Term((run,), prefix=True)]
        return [Term((pair,)) for pair in _pairs(run)]
    if compiled(_HAS_PICTURE).match(word):
        return [Term((_picture_name(word),))]
    return [Term((word,), any_of=tuple(spellings(word)))]


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def _picture_name(picture: str) -> str:
    """Return a word for an emoji: the tokenizer has no token for it."""
    return "emoji" + "".join(f"{ord(one):x}" for one in picture)


def _runs(word: str) -> list[str]:
    if word.isascii() or compiled(_HAS_CJK).match(word) or compiled(_HAS_PICTURE).match(word):
        return [word]
    return runs_of(word)


def _normal(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).lower()
