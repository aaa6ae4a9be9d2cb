"""Vector store: documents as items, found by vectors of LangChain's embeddings."""

# ruff: noqa: A002 (every vector store of LangChain calls it filter)

from __future__ import annotations

import json
import uuid
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from memdb import PutItem
from memdb.adapters.adapter import ScopedAdapter, adapted, in_thread
from memdb.adapters.batches import delete_all, delete_many, find_many, key_list, put_many
from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from langchain_core.embeddings import Embeddings

    from memdb import FoundItem, Item
    from memdb.adapters.adapter import Source

    Filter = dict[str, Any] | Callable[[Document], bool]

MAX_FOUND = 1_000


class MemdbVectorStore(ScopedAdapter, VectorStore):
    """
    Documents with vectors, in a namespace of items.

    Scores are cosines, -1 to 1. A filter is a function of a document, or a dict of metadata fields
    with values or operators. The operators are $eq, $ne, $gt, $gte, $lt, $lte and $in.
    `scope.recall` and `MemdbRetriever` also find the text of a document, by its words.
    """

    def __init__(
        self,
        embedding: Embeddings,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        namespace: Sequence[str] = ("langchain", "documents"),
        **options: Any,
    ) -> None:
        """
        Store documents in a namespace of items.

        Args:
            embedding: Returns the vectors of texts and queries, all of one dimension.
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
            namespace: Its labels; stores with different ones share nothing.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(source, user=user, app=app, **options)
        self._embedding = embedding
        self._items = self._scope.items
        self._namespace = tuple(namespace)

    @property
    def embeddings(self) -> Embeddings:
        """The model of the vectors."""
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a store with texts added to it; *kwargs* are those of the class, `source` too."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add texts, all of them or none, and return their ids; see `add_documents`."""
        return self.add_documents(_to_documents(texts, metadatas), **kwargs)

    async def aadd_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add texts, all of them or none, and return their ids; see `add_documents`."""
        return await self.aadd_documents(_to_documents(texts, metadatas), **kwargs)

    def add_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """
        Add documents, all of them or none, and return their ids.

        A document replaces the stored one with the same id.

        Args:
            ids: Used in place of the documents' own; None means a new one.
            kwargs: Arguments of other stores; they have no effect.

        Raises:
            InvalidInput: an id or metadata cannot be stored, or the numbers of ids and documents
                differ.
            SecretFound: a text contains a key or password, and the settings refuse those.
        """
        del kwargs
        chosen = _ids_of(documents, ids)
        vectors = self._embedding.embed_documents([one.page_content for one in documents])
        self._call(partial(self._put, documents, chosen, vectors))
        return chosen

    async def aadd_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, all of them or none, and return their ids; see `add_documents`."""
        del kwargs
        given = [*documents]
        chosen = _ids_of(given, ids)
        vectors = await self._embedding.aembed_documents([one.page_content for one in given])
        await self._run(partial(self._put, given, chosen, vectors))
        return chosen

    def _put(
        self, documents: list[Document], ids: list[str], vectors: list[list[float]]
    ) -> list[Item]:
        if len(vectors) != len(documents):
            raise InvalidInput(f"{len(vectors)} vectors were given for {len(documents)} documents")
        return put_many(
            self._db,
            self._items,
            [
                PutItem(
                    self._namespace,
                    key,
                    {"text": document.page_content, "metadata": document.metadata},
                    index=["text"],
                    vectors=[vector],
                )
                for document, key, vector in zip(documents, ids, vectors, strict=True)
            ],
        )

    @adapted
    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in their order, without absent ones."""
        found = find_many(self._items, self._namespace, key_list(ids, "ids"))
        return [*map(_to_document, found.values())]

    @adapted
    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """
        Remove documents, or with None all of the store; return True.

        Ids without a document are skipped; *kwargs* have no effect.
        """
        del kwargs
        if ids is None:
            delete_all(self._db, self._items, self._namespace)
        else:
            delete_many(self._db, self._items, self._namespace, key_list(ids, "ids"))
        return True

    adelete = in_thread(delete)

    def similarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the *k* documents nearest to a text, nearest first."""
        return self.similarity_search_by_vector(
            self._embedding.embed_query(query), k, filter, **kwargs
        )

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the *k* documents nearest to a text with their cosine, nearest first."""
        del kwargs
        vector = self._embedding.embed_query(query)
        return _scored(self._call(partial(self._nearest, vector, k, filter)))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the *k* documents nearest to a vector, nearest first."""
        del kwargs
        found = self._call(partial(self._nearest, embedding, k, filter))
        return [_to_document(one.item) for one in found]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return *k* of the *fetch_k* documents nearest to a text that differ from each other."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, filter, **kwargs
        )

    @adapted
    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """
        Return *k* of the *fetch_k* documents nearest to a vector that differ from each other.

        Args:
            lambda_mult: 0 for documents that differ most, 1 for the nearest ones.

        Needs numpy, as LangChain's own stores do.
        """
        del kwargs
        import numpy as np
        from langchain_core.vectorstores.utils import maximal_marginal_relevance

        found = self._nearest(embedding, max(k, fetch_k), filter)
        vectors = [array("f", one.vector or b"") for one in found]
        chosen = maximal_marginal_relevance(
            np.array(embedding, dtype=np.float32),
            [*map(list, vectors)],
            k=k,
            lambda_mult=lambda_mult,
        )
        return [_to_document(found[place].item) for place in chosen]

    def _nearest(self, vector: list[float], k: int, filter: Filter | None) -> list[FoundItem]:
        if not callable(filter):
            return self._recall(vector, k, filter)
        asked = k
        while True:
            found = self._recall(vector, asked, None)
            kept = [one for one in found if filter(_to_document(one.item))][:k]
            if len(kept) == k or len(found) < asked or asked == MAX_FOUND:
                return kept
            asked = min(4 * asked, MAX_FOUND)

    def _recall(
        self, vector: list[float], k: int, filter: dict[str, Any] | None
    ) -> list[FoundItem]:
        where = None
        if filter is not None and not isinstance(filter, dict):
            raise InvalidInput(f"filter is {type(filter).__name__}: give a dict or a function")
        if filter:
            where = {f"metadata.{field}": value for field, value in filter.items()}
        return self._items.recall(
            limit=k, vector=vector, prefix=self._namespace, exact=True, where=where
        )

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return the function that turns a cosine into a relevance from 0 to 1."""
        return lambda cosine: min(max(cosine, 0.0), 1.0)


def _to_documents(texts: Iterable[str], metadatas: list[dict[str, Any]] | None) -> list[Document]:
    given = key_list(texts, "texts")
    about = metadatas or [{} for _ in given]
    if len(about) != len(given):
        raise InvalidInput(f"{len(about)} metadatas were given for {len(given)} texts")
    return [
        Document(page_content=text, metadata=one) for text, one in zip(given, about, strict=True)
    ]


def _ids_of(documents: Sequence[Document], ids: Iterable[str | None] | None) -> list[str]:
    """Return an id for each document: the given one, its own, or a new one; [] counts as none."""
    given = key_list(ids or (), "ids") or [document.id for document in documents]
    if len(given) != len(documents):
        raise InvalidInput(f"{len(given)} ids were given for {len(documents)} documents")
    return [str(uuid.uuid4()) if key is None else key for key in given]


def _scored(found: list[FoundItem]) -> list[tuple[Document, float]]:
    return [(_to_document(one.item), one.score) for one in found]


def _to_document(item: Item) -> Document:
    """Return an item as a document; items of other programs are shown as JSON."""
    value = item.value if isinstance(item.value, dict) else {}
    text, metadata = value.get("text"), value.get("metadata")
    if not isinstance(text, str):
        text = json.dumps(item.value, ensure_ascii=False, default=repr)
    return Document(
        page_content=text, id=item.key, metadata=metadata if isinstance(metadata, dict) else {}
    )
