"""
A multinomial logistic regression: weights in JSON, probabilities in plain Python.

`bench/facts/train.py` writes the files. A temperature (Platt) is part of the weights, so that a
probability means what it says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def softmax(scores: Sequence[float]) -> list[float]:
    """Return the probabilities that belong to *scores*."""
    most = max(scores)
    shares = [math.exp(score - most) for score in scores]
    whole = sum(shares)
    return [share / whole for share in shares]
