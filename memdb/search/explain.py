"""
Why a message is in an answer, or is not: in terms of its score, and in a sentence.
"""

from __future__ import annotations

from memdb.models.messages import Why

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.models.messages import Message
    from memdb.search.ranking import Ranked
    from memdb.search.results import Found, Question


def why(asked: Question, found: Found, message: Message, limit: int) -> Why:
    """
    Return why *message* is where it is among the ranked messages of *found*.

    Args:
        found: Up to 1,000 messages, with explanations.
        limit: Length of the answer that is asked about.
    """
    ranked = found.ranked
    last = ranked[limit - 1].terms if len(ranked) >= limit else None
    for place, one in enumerate(ranked, start=1):
        if one.id == message.id:
            if place <= limit:
                reason = f"It is number {place} of the answer."
            else:
                reason = f"It is number {place}: {_short_of(one, ranked[limit - 1])}."
            return Why(place, one.score, reason, one.terms, last)
    return Why(None, 0.0, _no_candidate(asked, message), None, last)


def _short_of(one: Ranked, last: Ranked) -> str:
    """Say in which terms *one* falls short of *last*, the greatest loss first."""
    losses = {name: last.terms[name] - one.terms.get(name, 0.0) for name in last.terms}
    names = sorted((name for name in losses if losses[name] > 0), key=lambda name: -losses[name])
    told = [
        f"{name} {one.terms.get(name, 0.0):.2f} against {last.terms[name]:.2f}" for name in names
    ]
    if not told:
        return f"its score {one.score:.3f} is that of the last hit, which is newer"
    return f"its score is {one.score:.3f}, the last hit's {last.score:.3f}; {', '.join(told[:3])}"


def _no_candidate(asked: Question, message: Message) -> str:
    """Say why a message was not ranked at all."""
    if not asked.since_ms <= message.created_ms < asked.until_ms:
        return "It was said outside of the time that is asked for."
    from memdb.text.terms import query_words

    words = set(query_words(f"{message.author or ''} {message.text}"))
    if not words.intersection(asked.query.content):
        return "It shares no word with the query, and is not near enough in meaning."
    return "It shares words with the query, but a thousand messages say more about it."
