"""
Late interaction: each word of a query looks for the nearest word of a message.

Only for messages that are candidates already, whose texts were read. The words
come from the built-in table whatever embedder the file has; words that are not
in it, as those of other languages, have no neighbours.
"""

from __future__ import annotations

from memdb.text.terms import STOP_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Words of a query that look for neighbours; a question has five or six.
MAX_WORDS = 16

# Of a long message the first words, about two pages.
MAX_CHARS = 4_000


def near_words(
    words: Sequence[str], texts: Mapping[int, str], floor: float
) -> dict[str, dict[int, float]]:
    """
    Return for each of *words* how near the nearest word of each text comes to it.

    Args:
        words: Of the query, as `Query.content` has them.
        texts: By id.
        floor: Cosines up to this count as nothing.

    Returns:
        (cosine - floor) / (1 - floor), over 0 to 1, by word and id; what is not
        near is left out.

    Cost: 3 ms for five words and 200 chat messages.
    """
    from memdb.embeddings.similar_words import similar_words
    from memdb.embeddings.static_model import words_of

    said = {key: set(words_of(text[:MAX_CHARS])) for key, text in texts.items()}
    vocabulary = set().union(*said.values()) - STOP_WORDS
    near: dict[str, dict[int, float]] = {}
    for word, found in similar_words(words[:MAX_WORDS], vocabulary, floor).items():
        known = found.keys()
        reached = {
            key: (max(map(found.__getitem__, both)) - floor) / (1 - floor)
            for key, said_here in said.items()
            if (both := said_here & known)
        }
        near[word] = reached
    return near
