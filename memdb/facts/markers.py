"""
Markers: the words that show what a sentence does, from `markers.json`.

The two models of this package have no other list of words by hand. For a language without a table,
they use their other features. Texts that differ only in an order to remember say the same.

The table has a list of regular expressions for each language and kind. The expressions are matched
with folded text (lower case, no accents on Latin letters), and with whole words; in Chinese and
Japanese they match anywhere. The kinds:

    change       something is different from before
    correction   a value was wrong
    negation     denies
    question     asks or requests
    condition    holds only if
    hedge        not certain, or wished
    report       another person's words
    temporary    holds for a while only
    retraction   ends
    forget       an order to take back
    remember     an order to the memory
    pronoun      replaces a noun of another sentence; counts at the head of a sentence only
"""

from __future__ import annotations

from functools import cache, lru_cache

from memdb.facts.wording import MAX_CHARS, SCRIPTS, fold, recognise, words_and_signs
from memdb.text.resources import compiled, read_json

AT_HEAD = ("pronoun",)
_UNSPACED = ("zh", "ja")


@cache
def markers() -> dict[str, dict[str, str]]:
    """Return the pattern of each kind by language; compiling all of them takes 100 ms."""
    tables = read_json(__file__, "markers.json").items()
    return {
        code: {kind: _pattern(code, patterns) for kind, patterns in kinds.items()}
        for code, kinds in tables
    }


def _pattern(code: str, patterns: list[str]) -> str:
    """Return one pattern for all entries of a kind."""
    whole = "|".join(f"(?:{pattern})" for pattern in patterns)
    if code in _UNSPACED:
        return whole
    # Without "_" a run of word characters begins at an edge only, so that each is read once.
    edge = r"(?:[^\W_]|[\u0900-\u097f])" if code == "hi" else r"[^\W_]"  # Hindi joins marks too
    return rf"(?<!{edge})(?:{whole})(?!{edge})".replace(r"\w", r"[^\W_]")


@lru_cache(maxsize=4_096)
def marks(text: str) -> frozenset[str]:
    """
    Return the kinds with a marker in *text*: of its language, and orders of any language.

    The function reads the first `MAX_CHARS` and the end, because a marker may look at the rest of
    its line from each word.

    >>> sorted(marks("Maybe we no longer live there."))
    ['hedge', 'negation', 'retraction']
    """
    folded = fold(text[:MAX_CHARS])
    tables = markers()
    found = {
        "retraction" if kind == "forget" else kind
        for kind, source in tables.get(recognise(text), {}).items()
        for pattern in [compiled(source)]
        if (pattern.match if kind in AT_HEAD else pattern.search)(folded)
    }
    if order_end(folded):
        found.add("remember")
    if text.rstrip(" \"')\u300d\u201d").endswith(("?", "\uff1f", "\u061f")):
        found.add("question")
    return frozenset(found)


def orders_to_forget(text: str) -> bool:
    """Return whether *text* has a marker of an order to retract something."""
    pattern = markers().get(recognise(text), {}).get("forget")
    return pattern is not None and compiled(pattern).search(fold(text[:MAX_CHARS])) is not None


def order_end(folded: str) -> int:
    """Return the end of an order to remember at the start of a folded text; else 0."""
    start = len(folded) - len(folded.lstrip())
    ends = (
        match.end()
        for code, kinds in markers().items()
        if not (folded.isascii() and code in SCRIPTS)
        and (match := compiled(kinds["remember"]).match(folded, start))
    )
    return max(ends, default=0)


def says_the_same(newer: str, older: str) -> bool:
    """
    Return whether both texts are equal word by word, except for spelling and an order to remember.

    Letter case, accents on Latin letters, punctuation and the format of numbers do not matter. A
    single letter, a unit sign and a question mark matter.

    >>> says_the_same("Please remember that I drink oat milk!", "i drink oat milk")
    True
    >>> says_the_same("I take vitamin C.", "I take vitamin D.")
    False
    """
    return _bare(newer) == _bare(older)


@lru_cache(maxsize=2_048)
def _bare(text: str) -> tuple[str, ...]:
    """Return all words and signs of a text without an order to remember at its start."""
    folded = fold(text)
    if (end := order_end(folded)) and folded[end:].strip(" .:,"):
        text = folded[end:].lstrip(" :,")
    return words_and_signs(text)
