"""
Date term of the ranking: how well the days of a record fit the days that a query names.

A record has its own day, when it was said, and the days that its text speaks of
(`spans`). The best of them counts: a question about July finds what was said in
July, and what was said in August about July. Pure.
"""

from __future__ import annotations

import math

from memdb.english.calendar import DaySpan, days_of
from memdb.text.validate import DAY_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.search.parse import Query
    from memdb.search.weights import Weights


class DateScorer:
    """Date scores of one query; each day and each span is compared once."""

    __slots__ = ("_by_span", "_dates", "_is_dated", "_spans", "_weights")

    def __init__(self, query: Query, weights: Weights) -> None:
        """
        Score by the days that *query* names.

        Args:
            weights: `month`, `day`, `about`, `own` and `vague` are used.
        """
        self._dates = query.dates
        self._spans = query.spans
        self._weights = weights
        self._by_span: dict[DaySpan, float] = {}
        self._is_dated = query.is_dated

    def score(self, created_ms: int | None, spans: Sequence[DaySpan] = ()) -> float:
        """
        Return what the days of a record add to its score, 0 if the query names none.

        Args:
            created_ms: When it was said, UTC milliseconds. None means that this does not count.
            spans: Days that its text speaks of.
        """
        if not self._is_dated:
            return 0.0
        own = 0.0
        if created_ms is not None:
            day = created_ms // DAY_MS
            own = self._match(DaySpan(day, day))
        if not spans:
            return own
        about = max(self._match(span) for span in spans)
        return max(self._weights.own * own, self._weights.about * about)

    def _match(self, span: DaySpan) -> float:
        """Return the best gain of *span*: whole if the query's days hold all of it."""
        found = self._by_span.get(span)
        if found is None:
            gains = [self._overlap(wanted, span) for wanted in self._spans]
            gains += [
                self._overlap(wanted, span)
                for mention in self._dates
                for wanted in days_of(mention, span)
            ]
            found = self._by_span[span] = max(gains, default=0.0)
        return found

    def _overlap(self, wanted: DaySpan, span: DaySpan) -> float:
        """Return the gain of *wanted* days, by the share of *span* that they hold."""
        days = min(wanted.last, span.last) - max(wanted.first, span.first) + 1
        if days <= 0:
            return 0.0
        gain = self._weights.day if wanted.first == wanted.last else self._weights.month
        return gain * math.pow(days / (span.last - span.first + 1), self._weights.vague)
