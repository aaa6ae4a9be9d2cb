"""
How much a word of a question says, the same in every file.

`answers.json` is made by `bench/answers/train.py`: the weights of `memdb.search.relevance`, and how
many questions of a language hold a word.
"""

from __future__ import annotations

import math
from functools import cache

from memdb.embeddings.static_model import rarity
from memdb.facts.wording import common_words, fold
from memdb.search.weights import COMMON_SHARE, LEAST_WORD, PAIR_WORD, STOP_WORD
from memdb.text.data_files import read_json
from memdb.text.terms import STOP_WORDS, has_cjk


@cache
def learned() -> dict[str, dict[str, dict[str, float]]]:
    """Return the weights by table, and the share of questions that hold a word by language."""
    content: dict[str, dict[str, dict[str, float]]] = read_json(__file__, "answers.json")
    return content


def word_weight(word: str, language: str) -> float:
    """Return how much a word, or a pair of characters, of a question says, 0 to 1."""
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
