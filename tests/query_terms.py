"""The terms by which a text is searched."""

from __future__ import annotations

from memdb.text.terms import MAX_TERMS, Term, content_words, query_words, word_terms


def match_terms(text: str, limit: int = MAX_TERMS) -> list[Term]:
    """Return the terms for the content of *text*, each once; empty when it has no word."""
    return word_terms(content_words(query_words(text)), limit)
