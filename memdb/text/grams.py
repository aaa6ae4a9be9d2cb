"""The second index column of a text; loads the CJK rules only where they apply."""

from __future__ import annotations


def bigrams_of(text: str) -> str | None:
    """Return `cjk_grams` of *text*, None where that has nothing to say."""
    if text.isascii():
        return None
    from memdb.text.terms import cjk_grams  # only for such texts

    return cjk_grams(text) or None
