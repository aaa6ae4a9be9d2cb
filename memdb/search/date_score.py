"""
Date term of the ranking: how well the days of a record fit the days that a query names.

A record has its own day, when it was said, and the days named in its text (`spans`). The best of
them counts: a question about July finds what was said in July, and statements of August about July.
Pure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from memdb.facts.calendar import DaySpan, days_of
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.search.parse import Query
    from memdb.search.weights import Weights

FITTING = 0.8
"""Share of `Weights.day` from which on a record is of a day that is asked for."""


class DateScorer:
    """Date scores of one query; each day and each span is compared once."""

    __slots__ = ("_by_day", "_by_span", "_query", "_weights")

    def __init__(self, query: Query, weights: Weights) -> None:
        """
        Score by the days that *query* names.

        Args:
            weights: `month`, `day`, `bound`, `about`, `own` and `vague` are used.
        """
        self._query = query
        self._weights = weights
        self._by_day: dict[int, float] = {}
        self._by_span: dict[DaySpan, float] = {}

    @property
    def is_dated(self) -> bool:
        """Whether the query names a time."""
        return self._query.is_dated

    def fits(self, score: float) -> bool:
        """Return whether a record with this score is of that time, and not only of its month."""
        query = self._query
        days = [mention.day is not None for mention in query.dates]
        days += [span.first == span.last for span in query.spans]
        return score >= FITTING * self._weights.day if any(days) else score > 0

    def score(self, created_ms: int | None, spans: Sequence[DaySpan] = ()) -> float:
        """
        Return the gain of a record's score by its days, 0 if the query names none.

        Args:
            created_ms: Time when it was said, UTC milliseconds. None means that this does not
                count.
            spans: Days named in its text.
        """
        if not self._query.is_dated:
            return 0.0
        own = 0.0
        if created_ms is not None:
            day = created_ms // DAY_MS
            if day not in self._by_day:
                self._by_day[day] = self._match(DaySpan(day, day))
            own = self._by_day[day]
        if not spans:
            return own
        about = max(map(self._about, spans))
        return max(self._weights.own * own, self._weights.about * about)

    def _about(self, span: DaySpan) -> float:
        """Return the gain of a span in a text, which may also be a limit in the question."""
        found = self._by_span.get(span)
        if found is None:
            limits = (self._overlap(limit, span) for limit in self._query.limits)
            found = self._by_span[span] = max(self._match(span), *limits, 0.0)
        return found

    def _match(self, span: DaySpan) -> float:
        """Return the best gain of *span*: the full gain if the query's days contain all of it."""
        query = self._query
        gains = [self._overlap(wanted, span) for wanted in query.spans]
        gains += [
            self._overlap(wanted, span)
            for mention in query.dates
            for wanted in days_of(mention, span)
        ]
        gains += [
            self._weights.bound
            for bound in query.bounds
            if bound.first <= span.last and span.first <= bound.last
        ]
        return max(gains, default=0.0)

    def _overlap(self, wanted: DaySpan, span: DaySpan) -> float:
        """Return the gain of *wanted* days, by the share of *span* inside them."""
        days = min(wanted.last, span.last) - max(wanted.first, span.first) + 1
        if days <= 0:
            return 0.0
        gain = self._weights.day if wanted.first == wanted.last else self._weights.month
        return gain * math.pow(days / (span.last - span.first + 1), self._weights.vague)
