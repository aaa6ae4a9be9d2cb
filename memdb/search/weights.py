"""
The weights of the ranking that are not learned, for each kind of vectors.

A number that one place reads stands there.
"""

from __future__ import annotations

from memdb.models.record import Record


class Weights(Record):
    """
    The numbers of the ranking that are not learned.

    The weights of message features are in `ranker.json`.

    Attributes:
        table: Column of that table: "words", "static" or "sentence".
        off: Names of features that are not used.
        arm: Number of candidates by words, and of those by vector: 100 by vector find less (R@10
            0.809 against 0.818, LoCoMo). This many messages lend their words to their neighbours;
            more change nothing.
        lexical_share: Share of the words if there are vectors too.
        cover: Share of the query's words that the best row must contain for words to count in full.
            If it contains less, they count less. Words that no row contains count as words of the
            query too. The share is lower in a chat with an assistant. Source: ADR-0019.
        context: Share of a query word's score for a message without it, by the distance to a
            message that has it. Positive means before, negative after. Used to choose candidates.
        previous, next: Share of a neighbour's base score that is added.
        month, day: Bonus for the date of a message. `month`: the query names its month or year, or
            a relative time around it. `day`: the query names its day, absolutely or relatively.
        bound: Bonus within a bound in the query, such as "before May", which may include half of
            all messages.
        about, own: Factors of the same gain for a time that the text speaks of, and for the
            message's own time if its text speaks of one: R@10 of the questions that name a time
            0.920 without the first, 0.928 with it, and with 0.8 of the second nDCG@10 is lower.
        vague: Exponent of the overlap between the text's dates and the query's dates: "last year"
            is little evidence of a day, and more of a season.
        pool: Once this many messages contain a rarer word, a commoner word adds no new candidates.
        importance: Gain of an entry of importance 10, and loss of importance 0; 5 is neutral.
        fading: Loss of an entry that faded for long: a newer one with the same words comes first,
            and a better match before both.
        use: Gain of an entry that was recalled nine times, twice that for 99.
        entry_scale: Ratio of final and base score of the first ten messages, so that entries, which
            have no context terms, get the same scale. The median is 2.2 with and without vectors.
    """

    table: str = "static"
    off: frozenset[str] = frozenset()
    arm: int = 200
    lexical_share: float = 0.7
    cover: float = 0.0
    context: tuple[tuple[int, float], ...] = ((1, 0.5), (-1, 0.3), (2, 0.3), (-2, 0.2))
    previous: float = 0.15
    next: float = 0.1
    month: float = 0.5
    day: float = 1.0
    bound: float = 0.3
    about: float = 1.2
    own: float = 1.0
    vague: float = 0.5
    pool: int = 1000
    importance: float = 0.2
    fading: float = 0.2
    use: float = 0.03
    entry_scale: float = 2.2


MESSAGES = Weights()
"""The ranking of messages."""

DOCUMENTS = MESSAGES.replace(lexical_share=0.5, cover=0.5, context=(), previous=0.0, next=0.0)
"""The ranking of entries: documents have no neighbours."""

STATIC_MODEL = "static-en-1"

BY_TABLE = {
    "words": MESSAGES.replace(table="words"),
    "static": MESSAGES,
    "sentence": MESSAGES.replace(table="sentence", lexical_share=0.5, cover=1.0),
}
"""The ranking of messages by words alone, with the built-in table, and with a sentence model."""


def for_messages(model: str | None) -> Weights:
    """Return the weights of messages if *model* made the vectors; None means words alone."""
    name = "words" if model is None else "static" if model == STATIC_MODEL else "sentence"
    return BY_TABLE[name]
