"""
What is compared: the default ranking, each arm alone, and each term switched off.
"""

from __future__ import annotations

from memdb.recall.weights import DOCUMENTS, MESSAGES, Weights
from memdb.record import Record


class Arm(Record):
    """
    One way to rank.

    Attributes:
        messages, documents: Its weights.
        vectors: Whether it has the embedder.
        rerank: Whether words of similar meaning count.
    """

    name: str
    messages: Weights = MESSAGES
    documents: Weights = DOCUMENTS
    vectors: bool = True
    rerank: bool = True


FUSED = Arm("fused")
LEXICAL = Arm("lexical", vectors=False)
VECTOR = Arm(
    "vector",
    MESSAGES.replace(lexical_share=0.0),
    DOCUMENTS.replace(lexical_share=0.0),
)
ARMS = (FUSED, LEXICAL, VECTOR)
"""The default; as without an embedder; and vectors alone with the context terms."""

TERMS = (
    Arm("no similar words", rerank=False),
    Arm("no neighbours' words", MESSAGES.replace(context=())),
    Arm("no neighbours' scores", MESSAGES.replace(previous=0.0, next=0.0)),
    Arm("no author", MESSAGES.replace(author=0.0)),
    Arm("no question", MESSAGES.replace(question=0.0)),
    Arm("no length", MESSAGES.replace(length=0.0)),
    Arm("no dates", MESSAGES.replace(month=0.0, day=0.0)),
    Arm("no session", MESSAGES.replace(session=0.0)),
)
"""Each term of the ranking of messages off, the others as they are."""
