"""
Evidence: whether a model's answer is supported by the messages that it read.

A fact gets less trust and no key if fewer than half of its content words, names and numbers
occur in these messages. Only a fact about the same subject retires an entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.facts.pairs import same_stem
from memdb.facts.wording import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.facts.wording import Word

LEAST_SUPPORT = 0.5
_HEAVY = 0.5


def support(text: str, sources: Iterable[str], speakers: Iterable[str] = ()) -> float:
    """
    Return the share of the content words of *text* that are in *sources*, 0 to 1.

    Args:
        speakers: Names that are ignored, because every message has one.

    >>> support("Ann works at Vetra.", ["Hello there!"], ["Ann"])
    0.0
    >>> support("Ann works at Vetra.", ["I work for Vetra now."], ["Ann"])
    1.0
    """
    told = [word for source in sources for word in words_of(source)]
    names = {word.text for name in speakers for word in words_of(name)}
    heavy = [word for word in _heavy(text) if word.text not in names]
    return len(_said_in(told, heavy)) / len(heavy) if heavy else 1.0


def share_subject(one: str, other: str) -> bool:
    """
    Return whether two statements have a content word in common.

    >>> (
    ...     share_subject("I moved to Oslo.", "I live in Oslo."),
    ...     share_subject("Hello!", "I live here."),
    ... )
    (True, False)
    """
    return bool(_said_in(words_of(other), [w for w in _heavy(one) if w.kind != "number"]))


def _heavy(text: str) -> list[Word]:
    return [word for word in words_of(text) if word.weight > _HEAVY]


def _said_in(read: Sequence[Word], words: Sequence[Word]) -> list[Word]:
    """Return the *words* that are among *read*, themselves or in another form."""
    texts = {word.text for word in read}
    return [
        word
        for word in words
        if word.text in texts
        or (word.kind == "word" and any(same_stem(word.text, other.text) for other in read))
    ]
