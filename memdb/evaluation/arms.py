"""
What is compared: the default ranking, each arm alone, and each term switched off.
"""

from __future__ import annotations

from memdb.models.record import Record
from memdb.search.weights import DOCUMENTS, MESSAGES, Weights, for_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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


def fitted(arm: Arm, model: str | None) -> Arm:
    """
    Return *arm* as it is where *model* makes the vectors; None: without any.

    What it changes in the weights of the built-in table is changed in those of
    *model* too.
    """
    return arm.replace(
        messages=for_messages(model).replace(**_changes(arm.messages, MESSAGES)),
    )


def _changes(weights: Weights, default: Weights) -> dict[str, Any]:
    """Return the weights that are not those of *default*."""
    return {
        name: getattr(weights, name)
        for name in weights._fields
        if getattr(weights, name) != getattr(default, name)
    }
