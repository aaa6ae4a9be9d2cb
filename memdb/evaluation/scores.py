"""
Counting: measures of one answer, their means, and how sure those are.

Pure functions. Source of nDCG: Jarvelin and Kekalainen 2002, binary gains, log2.
Source of the intervals: Efron 1979, percentile bootstrap over questions.
"""

from __future__ import annotations

import random
from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

CUTS = (1, 5, 10, 20)
DEPTH = 20
MEASURES = (
    *(f"R@{cut}" for cut in CUTS),
    *(f"any@{cut}" for cut in CUTS),
    *(f"all@{cut}" for cut in CUTS),
    "nDCG@10",
    "MRR",
)
SEED = 20_26
RESAMPLES = 1_000


def measure(ranked: Sequence[str], evidence: Collection[str]) -> dict[str, float]:
    """
    Return every measure of one answer.

    R@k is the share of the evidence among the first k, any@k whether some of it
    is there, all@k whether all of it is; MRR 1 / place of the first.

    Args:
        ranked: What was returned, best first; the first 20 count.
        evidence: What should be, at least one.

    >>> measure(["a", "b"], {"b", "c"})["R@5"], measure(["a", "b"], {"b"})["MRR"]
    (0.5, 0.5)
    """
    places = [place for place, one in enumerate(ranked[:DEPTH], start=1) if one in evidence]
    within = {cut: sum(place <= cut for place in places) for cut in CUTS}
    ideal = sum(1 / log2(place + 1) for place in range(1, min(len(evidence), 10) + 1))
    gain = sum(1 / log2(place + 1) for place in places if place <= 10)  # noqa: PLR2004 (nDCG@10)
    scores = {f"R@{cut}": within[cut] / len(evidence) for cut in CUTS}
    scores |= {f"any@{cut}": float(within[cut] > 0) for cut in CUTS}
    scores |= {f"all@{cut}": float(within[cut] == len(evidence)) for cut in CUTS}
    return scores | {"nDCG@10": gain / ideal, "MRR": 1 / places[0] if places else 0.0}


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of one value or more."""
    return sum(values) / len(values)


def intervals(
    rows: Sequence[dict[str, float]], names: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, tuple[float, float]]:
    """
    Return the 95 % interval of the mean of each of *names* over *rows*.

    The same rows give the same intervals, always. Cost: 0.4 s for 1,000 rows.
    """
    source = random.Random(SEED)
    columns = {name: [row[name] for row in rows] for name in names}
    means: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(resamples):
        drawn = source.choices(range(len(rows)), k=len(rows))
        for name, column in columns.items():
            means[name].append(sum(map(column.__getitem__, drawn)) / len(rows))
    low, high = int(0.025 * resamples), int(0.975 * resamples) - 1
    return {name: (sorted(found)[low], sorted(found)[high]) for name, found in means.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """
    Return the value below which *share* of *values* lie, of one or more.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
