"""
How much an old entry counts: computed when it is asked, never stored.

A stored score is stale until something runs again; a computed one is right at
any time, also in the past, and costs no write.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DAY_MS = 86_400_000
UNKNOWN_HALF_LIFE_MS = 90 * DAY_MS


def decay(age_ms: int, half_life_ms: int | None) -> float:
    """
    Return 1.0 for what is new (or of the future), 0.5 after a half-life, None: always 1.0.

    0.5 ** (age / half_life), which is exp(-ln 2 / half_life * age): the two
    forms in which flowcraft and koopa write the same curve.

    >>> decay(0, DAY_MS), decay(DAY_MS, DAY_MS), decay(2 * DAY_MS, DAY_MS), decay(DAY_MS, None)
    (1.0, 0.5, 0.25, 1.0)
    """
    if half_life_ms is None or age_ms <= 0:
        return 1.0
    return float(0.5 ** (age_ms / half_life_ms))


def decay_of(
    category: str, updated_ms: int, now_ms: int, half_lives_ms: Mapping[str, int | None]
) -> float:
    """Return the decay of an entry of *category*; one that is not listed has 90 days."""
    return decay(now_ms - updated_ms, half_lives_ms.get(category, UNKNOWN_HALF_LIFE_MS))
