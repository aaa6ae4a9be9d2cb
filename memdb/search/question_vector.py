"""
The query by meaning, and how an answer was found: which arms took part, and which space answered.
"""

from __future__ import annotations

from memdb.errors import PortError
from memdb.models.messages import Hits
from memdb.search.retrieval import Meant
from memdb.text.terms import word_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.embeddings.indexer import Serving
    from memdb.models.messages import Hit
    from memdb.search.results import Field, Question

# How hits are found, as the terms of a score name it.
ARMS = ("lexical", "vector", "similar")

# A word in more than this share of the scope says nothing to the vector arm.
# Source: retrieval evidence, worth 0.19 of recall at 10.
COMMON_SHARE = 0.15


class Told:
    """How an answer was found: which arms are missing and why, and which space answered."""

    def __init__(self) -> None:
        """Begin with every arm."""
        self.missing: dict[str, str | PortError] = {}
        self.space: str | None = None
        self.partly: str | None = None

    def answer(self, hits: list[Hit]) -> Hits:
        """Return *hits* with how they were found; what failed is raised where there are none."""
        failure = self.missing.get("vector")
        if not hits and isinstance(failure, PortError):
            raise failure  # an empty answer would say that nothing is known
        arms = [arm for arm in ARMS if arm not in self.missing]
        missing = {arm: str(reason) for arm, reason in self.missing.items()}
        if self.partly is not None:
            missing["vector"] = self.partly
        known = failure if isinstance(failure, PortError) else None
        return Hits(tuple(hits), tuple(arms), missing, known, self.space)


def arms_of(
    serving: Serving | None, asked: Question, fields: dict[str, Field], *, vectors: bool
) -> tuple[Meant | None, Told]:
    """Return the query by meaning, None without it, and why arms are missing."""
    told = Told()
    meant = meant_by(serving, asked, fields, told) if vectors else None
    if not vectors:
        told.missing["vector"] = "only words were asked for"
    if meant is None or not asked.rerank:
        told.missing["similar"] = "it was not wanted" if meant else "it needs the vector arm"
    return meant, told


def meant_by(
    serving: Serving | None, asked: Question, fields: dict[str, Field], told: Told
) -> Meant | None:
    """
    Embed the query, without the words that would draw it to everything.

    None where there is no embedder, it fails, or the model does not know the
    query's words and others do find something; *told* then says so.
    """
    if serving is None:
        told.missing["vector"] = "the file was opened without an embedder"
        return None
    embedder = serving.filler.embedder
    covers = getattr(embedder, "covers", None)
    by_words = any(any(field.postings.values()) for field in fields.values())
    if by_words and covers is not None and not covers(asked.query.text):
        told.missing["vector"] = f"{embedder.name} does not know these words"
        return None
    common: list[str] = []
    if "message" in fields:
        lists, total = fields["message"].postings, fields["message"].total
        common = [
            word
            for word in asked.query.content
            if all(len(lists.get(term, ())) > COMMON_SHARE * total for term in word_terms([word]))
        ]
    try:
        (vector,) = serving.filler.embed([asked.query.vector_text(common)])
    except PortError as error:
        told.missing["vector"] = error
        return None
    if vector is None:
        told.missing["vector"] = f"{embedder.name} finds nothing to embed in the query"
        return None
    if serving.space_no is None:
        told.missing["vector"] = f"space {embedder.name}: nothing is embedded yet"
        return None
    told.space, told.partly = embedder.name, serving.partly
    return Meant(vector, serving.space_no, embedder.name)
