"""
Explanations: why a message is in an answer or not, by the terms of its score.
"""

from __future__ import annotations

from memdb.models.messages import Why
from memdb.text.terms import query_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.models.messages import Message
    from memdb.search.rank import Ranked, Ranking
    from memdb.search.request import Question


def explain_place(question: Question, ranking: Ranking, message: Message) -> Why:
    """
    Return why *message* is at its place among the ranked messages.

    Args:
        ranking: Up to 1,000 messages, with the terms of their scores.
    """
    ranked, limit = ranking.ranked, question.request.limit
    last = ranked[limit - 1].terms if len(ranked) >= limit else None
    for place, row in enumerate(ranked, start=1):
        if row.id == message.id:
            if place <= limit:
                reason = f"It is number {place} of the answer."
            else:
                reason = f"It is number {place}: {_losses(row, ranked[limit - 1])}."
            return Why(place, row.score, reason, row.terms, last)
    return Why(None, 0.0, _reason_without_place(question, message), None, last)


def _losses(row: Ranked, last: Ranked) -> str:
    """Say in which terms *row* falls short of *last*, the greatest loss first."""
    losses = {name: last.terms[name] - row.terms.get(name, 0.0) for name in last.terms}
    names = sorted((name for name in losses if losses[name] > 0), key=lambda name: -losses[name])
    parts = [
        f"{name} {row.terms.get(name, 0.0):.2f} against {last.terms[name]:.2f}" for name in names
    ]
    if not parts:
        return f"its score {row.score:.3f} is that of the last hit, which is newer"
    return f"its score is {row.score:.3f}, the last hit's {last.score:.3f}; {', '.join(parts[:3])}"


def _reason_without_place(question: Question, message: Message) -> str:
    """Say why a message was not ranked at all."""
    request = question.request
    if not request.since_ms <= message.created_ms < request.until_ms:
        return "It was said outside of the time that is asked for."
    words = set(query_words(f"{message.author or ''} {message.text}"))
    if not words.intersection(question.query.content):
        return "It shares no word with the query, and is not near enough in meaning."
    return "It shares words with the query, but a thousand messages say more about it."
