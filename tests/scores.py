"""Scores that the terms of an explanation make."""

import math
from collections.abc import Mapping


def score_of(kind: str, terms: Mapping[str, float]) -> float:
    """Return the score that the terms of a row make; a factor that is absent is neutral."""
    if kind == "message":
        own = (terms[name] for name in terms if not name.startswith(("relevance", "best")))
        return math.exp(sum(own))
    factors = [terms.get(name, 1.0) for name in ("importance", "freshness", "use", "scale")]
    added = terms.get("lexical", 0.0) + terms.get("vector", 0.0)
    return added * math.prod(factors) + terms.get("date", 0.0)
