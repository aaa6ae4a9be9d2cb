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
        neighbours: Whether candidates are also chosen by the messages beside them.
        month, day: Bonus for the date of a message. `month`: the query names its month or year, or
            a relative time around it. `day`: the query names its day, absolutely or relatively.
        bound: Bonus within a bound in the query, such as "before May", which may include half of
            all messages.
        about: Factor of the same gain for a time in the text: R@10 of the questions that
            name a time 0.920 without it, 0.928 with it.
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
    neighbours: bool = True
    month: float = 0.5
    day: float = 1.0
    bound: float = 0.3
    about: float = 1.2
    vague: float = 0.5
    pool: int = 1000
    importance: float = 0.2
    fading: float = 0.2
    use: float = 0.03
    entry_scale: float = 2.2


# The ranking of messages.
MESSAGES = Weights()

# The ranking of entries: documents have no neighbours.
DOCUMENTS = MESSAGES.replace(lexical_share=0.5, cover=0.5, neighbours=False)

STATIC_MODEL = "static-en-1"

# The ranking of messages by words alone, with the built-in table, and with a sentence model.
BY_TABLE = {
    "words": MESSAGES.replace(table="words", lexical_share=1.0),
    "static": MESSAGES,
    "sentence": MESSAGES.replace(table="sentence", lexical_share=0.5, cover=1.0),
}


def for_messages(model: str | None) -> Weights:
    """Return the weights of messages if *model* made the vectors; None means words alone."""
    name = "words" if model is None else "static" if model == STATIC_MODEL else "sentence"
    return BY_TABLE[name]
