"""Retriever: recall over everything that a scope knows, as LangChain's documents."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 (pydantic reads the annotations)
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from memdb.adapters.adapter import OpenFile
from memdb.errors import NotFound

if TYPE_CHECKING:
    from memdb import Hit

KINDS = ("message", "entry", "summary", "item")


class MemdbRetriever(BaseRetriever):
    """
    What a scope of memdb recalls, best first.

    A document's metadata says where it comes from: `kind` ("message", "entry", "summary",
    "item", "artifact" or "session"), `score` from 0 to 1, and the fields of the source,
    such as `session`, `seq`, `role` and `author` of a message.
    """

    source: Any = Field(exclude=True, repr=False)
    """A path, or a file that is open (`memdb.open` or `memdb.aio.open`)."""
    user: str = "default"
    """Whose memory it is."""
    app: str = "default"
    """The program it belongs to."""
    k: int = Field(default=10, ge=1, le=1000)
    """Most documents; `invoke(query, k=3)` asks for other ones."""
    kinds: Sequence[str] = KINDS
    """What is searched: any of the kinds above."""
    session: str | None = None
    """The session that asks: only its messages and summaries, and what it may recall."""
    min_score: float | None = 0
    """Least score, 0 to 1. None leaves out what is no answer, as `Scope.recall` does."""
    recall_options: dict[str, Any] = Field(default_factory=dict)
    """Other arguments of `Scope.recall`, such as `since`, `roles` or `where`."""
    open_options: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    """For `memdb.open`, with a path."""

    _file: OpenFile = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the file."""
        super().model_post_init(context)
        self._file = OpenFile(self.source, **self.open_options)

    def _recall(self, query: str, options: dict[str, Any]) -> list[Document]:
        given: dict[str, Any] = {
            "kinds": tuple(self.kinds),
            "session": self.session,
            "min_score": self.min_score,
            **self.recall_options,
            **options,
        }
        limit = given.pop("k", self.k)
        scope = self._file.db.scope(self.user, self.app)
        made = []
        for hit in scope.recall(query, limit, **given):
            document = _to_document(hit)
            session, seq = hit.source.session, hit.source.seq
            if hit.kind == "message" and session is not None and seq is not None:
                with suppress(NotFound):  # deleted since
                    document.metadata["role"] = scope.session(session).get(seq).role
            made.append(document)
        return made

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any = None, **options: Any
    ) -> list[Document]:
        del run_manager
        return self._file.call(partial(self._recall, query, options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any = None, **options: Any
    ) -> list[Document]:
        del run_manager
        return await self._file.read(partial(self._recall, query, options), "search")

    def close(self) -> None:
        """Finish the calls under way and close the file, unless it was open before."""
        self._file.close()

    async def aclose(self) -> None:
        """Do as `close`, without the event loop waiting."""
        await self._file.aclose()


def _to_document(hit: Hit) -> Document:
    """Return a hit with its source as metadata; fields that do not apply are left out."""
    source = {
        name: value
        for name in type(hit.source)._fields
        if (value := getattr(hit.source, name)) is not None and value is not False
    }
    source["metadata"] = source.pop("metadata", {})
    metadata = {"kind": hit.kind, "score": hit.score, **source}
    return Document(page_content=hit.text, id=f"{hit.kind}:{hit.source}", metadata=metadata)
