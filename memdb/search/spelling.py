"""
Spelling: the words of a question in the spelling of a scope's texts.

An identifier is one word in one text and several in another ("RX2290", "RX 2290", "1,240"), and a
word may be misspelt. So a word that no text contains is searched in three ways. Such a word is
joined with neighbouring words, split into adjacent words, and compared with words of the same
beginning. The first two also try other numbers of leading zeros. The search reads the index and
the texts of a few rows. The spelling that is found replaces the word in the question.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memdb.search.parse import asks, is_english, nearest
from memdb.text.resources import compiled
from memdb.text.terms import STOP_WORDS, Term, has_cjk, query_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    Holders = Callable[[Sequence[Term]], dict[Term, list[int]]]
    Texts = Callable[[list[int]], Iterable[str]]

MOST_WORDS = 16
"""Words of a question that is spelt as the texts are."""

MOST_JOINED = 6
"""Words of a run that is joined."""

MOST_CHARS = 40
"""Characters of a word that is spelt otherwise."""

LEAST_CUT = 8
"""Letters from which on a word without digits is cut."""

LEAST_PART = 3
"""Letters of a part of it."""

MOST_PARTS = 8
"""Parts of a word, and beginnings of it that are cut further."""

MOST_ZEROS = 6
"""Zeros in front of the number of an identifier."""

LEAST_MISSPELT = 5
"""Letters from which on a word may be misspelt."""

BEGINNING = 3
"""Letters of it that are right."""

LEAST_HASH = 7
"""Characters of a hash that name it."""

_HASH = r"(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]+"
_ZEROS = r"(?<!\d)0*(?=[1-9]\d\d)"


class Speller:
    """Finds the spelling that the texts of a scope have for the words of a question."""

    def __init__(self, holders: Holders, texts: Texts, names: Iterable[str] = ()) -> None:
        """
        Look words up.

        Args:
            holders: Returns some rows by term.
            texts: Returns the texts of some rows.
            names: Words of names in the texts or beside them.
        """
        self._holders = holders
        self._texts = texts
        self._names = names

    def spelt(self, text: str, missing: AbstractSet[str]) -> str:
        """Return *text* with other spellings of its words that are *missing* in the texts."""
        words = query_words(text)
        if len(words) > MOST_WORDS or has_cjk(text):
            return text
        missing = missing - STOP_WORDS
        text, joined = self._join(text, words, missing)
        for word in missing - joined:
            if len(word) > MOST_CHARS:
                continue
            spellings = [word, *_padded(word)] if word[0].isalpha() else [word]
            cut = next(filter(None, map(self._cut, spellings)), None)
            if other := cut or self._similar(word):
                text = _replaced(text, (word,), other)
        return text

    def _join(
        self, text: str, words: Sequence[str], missing: AbstractSet[str]
    ) -> tuple[str, set[str]]:
        """Return *text* with adjacent words joined to the stored one, and those words."""
        runs: dict[str, tuple[str, ...]] = {}
        grammar = STOP_WORDS if asks(text) else frozenset[str]()
        for size in range(min(MOST_JOINED, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                run = tuple(words[start : start + size])
                whole = "".join(run)
                is_one = size > 1 or _has_digit(whole)
                if is_one and not missing.isdisjoint(run) and grammar.isdisjoint(run):
                    runs.setdefault(whole, run)
        plain = [whole for whole in runs if not _has_digit(whole)]
        if plain and not any(self._holders([Term((plain[0],), any_of=tuple(plain[1:]))]).values()):
            runs = {whole: run for whole, run in runs.items() if _has_digit(whole)}
        terms = {whole: Term((whole,), prefix=_has_digit(whole)) for whole in runs}
        padded = {whole: [Term((one,)) for one in _padded(whole)] for whole in runs}
        asked = [*terms.values(), *(term for some in padded.values() for term in some)]
        found = self._holders(asked) if asked else {}
        done: set[str] = set()
        for whole, run in runs.items():
            if not done.isdisjoint(run):
                continue
            stored = next((term.words[0] for term in padded[whole] if found.get(term)), None)
            if ids := found.get(terms[whole]):
                stored = self._completed(whole, ids) if terms[whole].prefix else whole
            if stored is not None:
                text = _replaced(text, run, stored)
                done.update(run)
        return text, done

    def _completed(self, beginning: str, ids: list[int]) -> str | None:
        """Return the stored word with this beginning, up to a hash, its number or its letters."""
        words = {word for text in self._texts(ids) for word in query_words(text)}
        if beginning in words:
            return beginning
        is_hash = len(beginning) >= LEAST_HASH and compiled(_HASH).fullmatch(beginning)
        found = [
            word
            for word in words
            if word.startswith(beginning)
            and (is_hash or word[len(beginning)].isdigit() != beginning[-1].isdigit())
        ]
        return found[0] if len(found) == 1 else None

    def _cut(self, word: str) -> str | None:
        """Return the adjacent words in a text that *word* joins."""
        has_digit = _has_digit(word)
        if not has_digit and len(word) < LEAST_CUT:
            return None
        least = 1 if has_digit else LEAST_PART
        begun: list[tuple[str, ...]] = [()]
        for _ in range(MOST_PARTS):
            longer = []
            for parts in begun[:MOST_PARTS]:
                rest = word[len("".join(parts)) :]
                ends = (*range(least, len(rest) - least + 1), len(rest))
                longer += [(*parts, rest[:end]) for end in ends if parts or end < len(rest)]
            terms = {Term(parts): parts for parts in longer}
            found = self._holders([*terms]) if terms else {}
            begun = [parts for term, parts in terms.items() if found.get(term)]
            for parts in begun:
                if "".join(parts) == word:
                    return "-".join(parts)
            begun.sort(key=lambda parts: -len("".join(parts)))
            if not begun:
                return None
        return None

    def _similar(self, word: str) -> str | None:
        """Return the name or word that *word* misspells, or has another form of."""
        if not word.isalpha() or is_english(word):
            return None
        name = nearest(word, self._names)
        if name is not None or len(word) < LEAST_MISSPELT:
            return name
        beginning = Term((word[:BEGINNING],), prefix=True)
        ids = self._holders([beginning]).get(beginning, [])
        words = {each for text in self._texts(ids) for each in query_words(text)} if ids else set()
        return nearest(word, words)


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _padded(word: str) -> list[str]:
    """Return an identifier with other leading zeros in its number, the fewest first."""
    zeros = compiled(_ZEROS).search(word)
    if zeros is None:
        return []
    head, rest = word[: zeros.start()], word[zeros.end() :]
    spellings = [f"{head}{'0' * count}{rest}" for count in range(MOST_ZEROS + 1)]
    return [one for one in spellings if one != word]


def _replaced(text: str, words: Sequence[str], other: str) -> str:
    """Return *text* with *other* in place of *words*, whatever is between these."""
    pattern = r"[\W_]+".join(map(re.escape, words))
    return re.sub(rf"(?<![^\W_]){pattern}(?![^\W_])", other, text, count=1, flags=re.IGNORECASE)
