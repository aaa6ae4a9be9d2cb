"""
All numbers of the ranking, with their sources.

No other module of `memdb.search` defines one (tested), except limits on input.
"""

from __future__ import annotations

from memdb.models.record import Record
from memdb.text.validate import DAY_MS


class Weights(Record):
    """
    The numbers of the ranking that are not learned.

    The weights of message features are in `ranker.json`.

    Attributes:
        table: Column of that table: "words", "static" or "sentence".
        off: Names of features that are not used.
        arm: Number of candidates by words; the vector arm has as many. This many messages lend
            their words to their neighbours; more change nothing.
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


# How many rows are looked at

MAX_TERMS = 2_000
"""Most words of a query that may be looked up, a page of text: 20 µs each where they are rare.
Those after the first 64 only while nothing was found."""

LARGE_SCOPE = 100_000
MAX_POSTINGS = 20_000
"""In a scope of more messages than `LARGE_SCOPE`, only so many of the newest rows of a common
word are read: such a word says little, and 20,000 rows take 8 ms."""

SECOND_STAGE = 200
"""Messages whose text the second stage reads; 1,000 find no more.

Source: bench/recall.py on LoCoMo's development split, R@10 of 100, 200 and 1,000: .808 .810 .810.
"""

VECTOR_ARM = 200
"""Rows that the vector arm brings: 100 find less (R@10 0.809 against 0.818, LoCoMo)."""

SIMILAR_WORDS = 16
SIMILAR_CHARS = 1_000
SIMILAR_ROWS = 60
"""Words of a query that look for neighbours (a question has five or six), characters of a message
that they look at, about two pages, and messages, the best before their texts are read.

Source: bench/recall.py on two conversations of LoCoMo, nDCG@10 of 30, 60, 100 and 200 messages:
.661 .665 .665 .665.
"""

WIDEST_CONTEXT = 4
"""No neighbour is farther away than this; see `Weights.context`."""

# What the vector arm hears

NOISE = {STATIC_MODEL: 0.15}
"""Cosines below this say nothing: two sentences on different things come to less. Each model has
its own scale, so only the built-in one has a floor.

Source: bench/recall.py, R@10 of 0, 0.15, 0.2 and 0.25: .818 .818 .812 .809.
"""

COMMON_SHARES = {"message": 0.15, "entry": 0.5}
COMMON_LEAST = 2
"""A word in more than this share of the messages, or of the entries, and in more than two of them
is left out of the text that is embedded. Source: bench/recall.py on LoCoMo's development split,
worth 0.19 of recall at 10; of ten entries three may be about one topic."""

# How much an answer says about the question, whatever else the file holds


MOST_KNOWN = 3.0
KEYWORDS = 4
"""What the words that a row holds say counts up to so much; a query of up to so many words that
asks nothing is one of keywords."""

FITTING = 0.8
"""A record is of a day that is asked for from this share of `Weights.day` on."""

TOPIC = 0.35
LISTED = 0.8
"""A word that says more is a topic of a question: one that names a time and no topic lists what is
of that time, with scores from `LISTED` for the oldest to 1 for the newest."""

PARTICLE = 2
"""Letters of a word that is grammar in other languages than English: qu', je, du."""

MOST_WORDS, MOST_JOINED, MOST_CHARS = 16, 6, 40
"""Words of a question that is spelt as the texts are, of a run that is joined, and characters of a
word."""

LEAST_CUT, LEAST_PART, MOST_PARTS, MOST_BEGUN = 8, 3, 8, 8
"""Letters of a word without digits that is cut, and of its parts; parts of a word, and beginnings
of it that are cut further."""

MOST_ZEROS = 6
"""Zeros in front of the number of an identifier."""

LEAST_MISSPELT, BEGINNING, LEAST_HASH, SPELT_ROWS = 5, 3, 7, 16
"""Letters of a word that may be misspelt, how many of them are right, characters of a hash that
name it, and rows that are read for the words that begin alike."""

SURE = 0.5
ALMOST_SURE = 0.49
POSSIBLE = 0.115
LEAST_TOPICS = 0.9
LEAST_TOPICS_TYPED = 0.5
SURELY_OWN = 4
"""Relevance from which on a row answers the question for sure, and below which it is no answer. A
row that holds less of what the words but names say than `LEAST_TOPICS` is at most almost sure; than
`LEAST_TOPICS_TYPED` if it has the number, time or name that is asked for, or if the query is of
keywords. Of a question that asks so clearly for what one tells of oneself it holds any.
"""

HIT_LEAST = 0.05
"""Hits that score less are left out, whatever the best one says."""

CUT_SHARE = 0.6
CUT_GAP = 0.15
"""`cut="auto"` keeps what scores this share of the best hit, and what follows it before the score
falls by so much of the best hit at once, down to half the share."""

ORDERED = 12
ALIKE = 0.5
SAME_WORDS = 0.5
COMPARED = 4
PASSING = 0.6
MOST_COMPARED_WORDS = 25
"""Of so many first hits the newer of two that answer alike goes first: both hold the same words of
the question, this share of them at least, and share this part of their other words. Of the first
`COMPARED` ones of a kind, of so many words at most, the newer goes first if it ends what the older
one says. Of the first `RELEVANT_ROWS` it does if it ends the best one and that is so likely.

Source: bench/recall.py, LoCoMo's nDCG@10 (2 conversations): .6661 without, .6652 with; 6 give .664.
`PASSING` of .8 instead of .6: 3 conversations .6895 and .6892, 30 changed facts .47 and .67 first.
With sentences of messages of any length .6297 instead of .6726; up to 35 words .6691.
"""

FRONT = 3
KEPT_FIRST = 2
"""Of the first `FRONT` hits so many stay among them, whatever a guess puts before them."""

RERANKED = 30
"""Hits that a reranker gets: they hold what there is to find nine times in ten."""

AGAIN = 0.25
OWN_WORDS = 4
"""What only asks is no evidence from this share of what the words of the question say on, if it has
at most so many other words: who asks at length tells something too. Source: ADR-0019."""

BEHIND = range(1, 9)
"""How far behind a question a reply that says nothing is looked for."""

RETRACTED = 0.5
SHOWN_WORDS = 3
"""Share of its score that an entry keeps which was taken back; words that a reason names."""

STOP_WORD = 0.2
NAME_WORD = 0.7
PAIR_WORD = 0.5
"""What words say that are no topic: words that ask, authors of the scope (a factor); and each pair
of characters of a script without spaces."""

LEAST_WORD = 0.05
COMMON_SHARE = 0.03
NEAR_FLOOR = 0.3
"""A word in `COMMON_SHARE` of the statements, or questions, of a language says `LEAST_WORD`. A word
is near another one from this cosine on."""

STEM_SHARE = 0.75
STEM_LETTERS = 6
FORM = 0.8
FORM_CHARS = 4_000
"""A word that English does not know, of so many letters or more, counts `FORM` where the first
characters of a text have only this share of it: an inflected form, a part of a compound."""

COMMON_POWER = 8
"""A word says 1 - share ** 8 of that, where share of the texts hold it: half at 92 %."""

RELEVANT_ROWS = 10
SENTENCES_READ = 16
FEW_ROWS = 21
NARROW = 0.5
"""Rows that may make an answer relevant, and sentences of a query that are looked at. From so many
rows on, a model whose farthest one has such a cosine counts as one to which all texts are near."""

EQUAL = 1e-6
"""Cosines that differ by less are equal: engines round them differently."""

# What counts besides words and meaning

COMPARED_ARTIFACTS = 100
COMPARED_CHARS = 3_000
PASSAGE_CHARS = 600
NEAR_ARTIFACTS = 10
"""Passages that are compared by meaning: of the newest artifacts, each from its beginning; the
nearest artifacts are ranked. No file holds their vectors. A new one costs 80 us, a known one 6."""

PAUSE_MS = 30 * DAY_MS
""""Last week" is counted back from today, or from the newest message if that is older than
this: people come back to old conversations."""

MAX_USES = 99
"""Uses of an entry beyond which more add nothing."""

# Sessions

FADE = 0.5
FADE_COUNT = 8
FADE_POWER = 2
"""What each next message of a session counts for, how many do at all, and the power of a score
that is added: many weak messages are no answer.

Source: bench/recall.py on LoCoMo's development split, all evidence sessions among the first
five: 0.863 by the best message alone, 0.867 with 0.5, 0.853 with 0.7.
"""

GROUP_DEPTH = 200
GROUP_ROWS = 10
"""Messages that are ranked for an answer of sessions: so many, and so many for each session that
is asked for. With 1,000 for ten sessions the same are found (LoCoMo), at twice the time."""

SHOWN_MESSAGES = 3
"""Messages shown of each session."""


# Features of messages, see `memdb.search.features`

SPREADS = {
    "question_before": 0.8,
    "before": 0.4,
    "after": 0.3,
    "two_before": 0.3,
    "two_after": 0.2,
}
"""Where a word stands that a message lacks, and what it counts for there: that decides which of
two places counts. A question is a question of another author."""

STEEPNESS = 0.6
TURN_WORDS = 60
SHORT_WORDS = 40
LONG_WORDS = 100
LONG_SPREAD = 0.2
"""A message of more than `LONG_WORDS` words lends so much of what it says to its neighbours."""

RATIO_BITS = 3
MOST_RUNS = 0.5
CAPITALS = 3
SIMILAR_FLOOR = 0.3
TRAIT_CHARS = 4_000
TRAITS_KEPT = 16_384
"""Texts whose traits are kept, about half a KB each: those of a scope of 10,000 all fit."""
