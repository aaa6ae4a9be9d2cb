"""
The weight of a word in a question, the same in every file.

`bench/answers/train.py` makes `answers.json`. The file has the weights of
`memdb.search.relevance`, and for each word the share of questions of its language that contain it.
The file also has how much likelier the word is in a question about the user than in one about the
world.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from memdb.embeddings.static_model import rarity
from memdb.facts.wording import common_words, fold
from memdb.text.resources import read_json
from memdb.text.terms import STOP_WORDS, has_cjk, word_terms

if TYPE_CHECKING:
    from collections.abc import Iterable

STOP_WORD = 0.2
"""Weight of an English word that only asks."""

PAIR_WORD = 0.5
"""Factor of a pair of characters of a script without spaces."""

LEAST_WORD = 0.05
"""Weight of a word in `COMMON_SHARE` of the statements, or of the questions, of a language."""

COMMON_SHARE = 0.03


@cache
def learned() -> dict[str, dict[str, dict[str, float]]]:
    """Return the weights by table, and two numbers of words by language: "asked" and "own"."""
    content: dict[str, dict[str, dict[str, float]]] = read_json(__file__, "answers.json")
    return content


def terms_of(word: str) -> list[str]:
    """Return a word of a question, or its pairs of characters, in the learned form."""
    if word.isascii() or not has_cjk(word):
        return [fold(word)]
    return [fold("".join(term.words)) for term in word_terms([word])]


def own_lean(words: Iterable[str], language: str) -> float:
    """Return the log odds that the words ask for facts about the user."""
    leans = learned()["own"].get(language, {})
    return math.fsum(leans.get(term, 0.0) for word in words for term in terms_of(word))


def word_weight(word: str, language: str) -> float:
    """Return the weight of a word, or of a pair of characters, in a question, 0 to 1."""
    pairs = not word.isascii() and has_cjk(word)
    if language == "en" and not pairs:
        return STOP_WORD if word in STOP_WORDS else rarity(word)
    folded = fold(word)
    told, asked = common_words().get(language, {}), learned()["asked"].get(language, {})
    share = max(told.get(folded, 0.0), asked.get(folded, 0.0))
    if pairs:  # each character may be one of grammar
        share = max(share, min(told.get(sign, 0.0) for sign in folded))
    weight = max(LEAST_WORD, 1 - math.sqrt(share / COMMON_SHARE))
    return weight * PAIR_WORD if pairs else weight
