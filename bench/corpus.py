"""
Seeded synthetic chat: the same texts on every machine, words as common as in English.
"""

from __future__ import annotations

import random
from itertools import accumulate

COMMON = """
    the i you to a and it that of is in for have so my on me was be with this but at we are just
    like what your they do about time all can get one really out had been think good would there
""".split()
_HEADS = "bar cal dor fen gil har jun kel lor mar nel por quin ras sol tam ul ver wil yar".split()
_TAILS = "a ber co din el fa gan ho in ja ka lo min no ot pra ren sa ter um".split()

VOCABULARY = COMMON + [f"{a}{b}{c}" for a in _HEADS for b in _TAILS for c in _TAILS[:18]]
# Zipf: the word of rank r stands r times less often than the first.
_WEIGHTS = list(accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))


def texts(count: int, seed: int = 1) -> list[str]:
    """Return *count* messages of 5 to 35 words."""
    source = random.Random(seed)
    return [
        " ".join(source.choices(VOCABULARY, cum_weights=_WEIGHTS, k=source.randint(5, 35)))
        for _ in range(count)
    ]


def queries(count: int, seed: int = 2) -> list[str]:
    """Return *count* questions of 3 rarer words among 3 common ones."""
    source = random.Random(seed)
    asked = []
    for _ in range(count):
        words = source.choices(COMMON, k=2) + source.choices(VOCABULARY[60:2000], k=3)
        asked.append(f"what {' '.join(words)}?")
    return asked


def common_queries(count: int, seed: int = 3) -> list[str]:
    """Return *count* queries of the ten commonest words that are no stop words, and others."""
    source = random.Random(seed)
    return [" ".join(source.sample(VOCABULARY[:60], k=10)) for _ in range(count)]
