"""Vector store: nodes as items, found by the vectors that LlamaIndex passes with them."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Any

from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.schema import MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import (
    build_metadata_filter_fn,
    metadata_dict_to_node,
    node_to_metadata_dict,
)
from pydantic import PrivateAttr

from memdb import PutItem
from memdb.adapters.adapter import FileOwner, OpenFile, twins
from memdb.adapters.batches import delete_all, delete_many, find_many, put_many
from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llama_index.core.schema import BaseNode
    from llama_index.core.vector_stores.types import VectorStoreQuery

    from memdb import FoundItem, Item, MemDB
    from memdb.adapters.adapter import Source
    from memdb.api.items import Items

CONTENT, KIND = "_node_content", "_node_type"
PAGE, MAX_FOUND = 1_000, 1_000
CANDIDATES = 10  # per result of MMR
PLAIN_KEY = re.compile(r"[\w -]+")

# What a filter of items says in the same way.
OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
}


class MemdbVectorStore(FileOwner, BasePydanticVectorStore):
    """
    Nodes with vectors, in a namespace of items.

    Similarities are cosines, -1 to 1. The modes "default" and "mmr" are supported. `scope.recall`
    finds the text of a node too, by its words.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    user: str | None = None
    app: str | None = None
    namespace: tuple[str, ...] = ("llamaindex", "nodes")

    _file: OpenFile = PrivateAttr()
    _items: Any = PrivateAttr()

    def __init__(
        self,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        namespace: Sequence[str] = ("llamaindex", "nodes"),
        **options: Any,
    ) -> None:
        """
        Store nodes in a namespace of items.

        Args:
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
            namespace: Its labels; stores with different ones share nothing.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(user=user, app=app, namespace=tuple(namespace))
        self._file = OpenFile(source, framework="llamaindex", user=user, app=app, **options)
        self._items: Items = self._file.scope.items

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex knows the class by."""
        return "MemdbVectorStore"

    @property
    def client(self) -> MemDB:
        """The file."""
        return self._file.db

    def _add(self, nodes: Sequence[BaseNode], **_options: Any) -> list[str]:
        """
        Add nodes with their embeddings, all of them or none, and return their ids.

        A node replaces the stored one with the same id; options have no effect.

        Raises:
            InvalidInput: a node has no embedding, or its id or metadata cannot be stored.
        """
        puts = []
        for place, node in enumerate(nodes):
            if node.embedding is None:
                raise InvalidInput(f"nodes[{place}] has no embedding: embed it first")
            try:
                metadata = node_to_metadata_dict(node, remove_text=True)
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"nodes[{place}] has no JSON form: {error}") from error
            # Zero points nowhere: such a node is found by its words.
            vectors = None if node.embedding and not any(node.embedding) else [node.embedding]
            value = {
                "id": node.node_id,
                "ref_doc_id": node.ref_doc_id,
                "text": node.get_content(metadata_mode=MetadataMode.NONE),
                "node": metadata.pop(CONTENT),
                "type": metadata.pop(KIND),
                "metadata": metadata,
            }
            puts.append(
                PutItem(self.namespace, node.node_id, value, index=["text"], vectors=vectors)
            )
        put_many(self.client, self._items, puts)
        return [node.node_id for node in nodes]

    add, async_add = twins(_add)

    def _walk(self, where: dict[str, Any] | None) -> Iterator[Item]:
        after = None
        while page := self._items.list(
            self.namespace, exact=True, where=where, after=after, limit=PAGE
        ):
            yield from filter(_is_node, page)
            after = page[-1]

    def _matching(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> list[Item]:
        """Return the items of the nodes with these ids that pass the filters."""
        where, rest = _split(filters)
        if node_ids is not None:
            found = find_many(self._items, self.namespace, node_ids)
            items, rest = [*filter(_is_node, found.values())], filters
        else:
            items = [*self._walk(where)]
        by_id = {item.key: item.value["metadata"] for item in items}
        passes = build_metadata_filter_fn(by_id.__getitem__, rest)
        return [item for item in items if passes(item.key)]

    def _get(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes with these ids that pass the filters; None means all."""
        return [*map(_to_node, self._matching(node_ids, filters))]

    get_nodes, aget_nodes = twins(_get, "read")

    def _delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **_options: Any,
    ) -> None:
        """Remove the nodes with these ids that pass the filters; None means all."""
        with self.client.transaction():
            doomed = [item.key for item in self._matching(node_ids, filters)]
            delete_many(self.client, self._items, self.namespace, doomed)

    delete_nodes, adelete_nodes = twins(_delete_nodes)

    def _delete(self, ref_doc_id: str, **_options: Any) -> None:
        """Remove the nodes of a document; do nothing if there are none."""
        if not isinstance(ref_doc_id, str):  # None is also that of nodes without one
            return
        with self.client.transaction():
            doomed = [item.key for item in self._walk({"ref_doc_id": ref_doc_id})]
            delete_many(self.client, self._items, self.namespace, doomed)

    delete, adelete = twins(_delete)

    def _clear(self) -> None:
        """Remove every node of the store."""
        delete_all(self.client, self._items, self.namespace)

    clear, aclear = twins(_clear)

    def _query(self, query: VectorStoreQuery, **options: Any) -> VectorStoreQueryResult:
        """
        Return the nodes nearest to the embedding of a query, nearest first.

        Raises:
            InvalidInput: the mode is neither "default" nor "mmr", or there is no embedding.
        """
        is_mmr = query.mode == VectorStoreQueryMode.MMR
        if not is_mmr and query.mode != VectorStoreQueryMode.DEFAULT:
            raise InvalidInput(f"the mode is {query.mode!r}: use default or mmr")
        if query.query_embedding is None:
            raise InvalidInput("the query has no embedding: give query_embedding")
        most = query.similarity_top_k
        asked = min(most * CANDIDATES, MAX_FOUND) if is_mmr else most
        where = self._where(query)
        found: list[FoundItem] = self._items.recall(
            limit=asked,
            vector=query.query_embedding,
            prefix=self.namespace,
            exact=True,
            where=where or None,
        )
        found = [one for one in found if _is_node(one.item)]
        chosen = [(one, one.score) for one in found]
        if is_mmr and found:
            threshold = options.get("mmr_threshold", query.mmr_threshold)
            scores, places = get_top_k_mmr_embeddings(
                query.query_embedding,
                [[*array("f", one.vector or b"")] for one in found],
                similarity_top_k=most,
                embedding_ids=[*range(len(found))],
                mmr_threshold=threshold,
            )
            chosen = [(found[at], score) for at, score in zip(places, scores, strict=True)]
        return VectorStoreQueryResult(
            nodes=[_to_node(one.item) for one, _ in chosen],
            similarities=[score for _, score in chosen],
            ids=[one.item.key for one, _ in chosen],
        )

    query, aquery = twins(_query, "search")

    def _where(self, query: VectorStoreQuery) -> dict[str, Any]:
        """
        Return a query's conditions on nodes as a filter of items.

        The indexes of LlamaIndex pass [] for all.
        """
        where, rest = _split(query.filters)
        where = dict(where or {})
        if query.doc_ids:
            where["ref_doc_id"] = {"$in": query.doc_ids}
        if rest is not None:
            ids = [item.key for item in self._matching(query.node_ids or None, query.filters)]
            where["id"] = {"$in": ids}
        elif query.node_ids:
            where["id"] = {"$in": query.node_ids}
        return where


def _split(filters: MetadataFilters | None) -> tuple[dict[str, Any] | None, MetadataFilters | None]:
    """Return filters as a filter of items, or unchanged if items have no such filter."""
    if filters is None or not filters.filters:
        return None, None
    where: dict[str, Any] = {}
    for one in filters.filters:
        operator = OPERATORS.get(one.operator) if isinstance(one, MetadataFilter) else None
        if (
            operator is None
            or filters.condition not in (None, FilterCondition.AND)
            or one.value is None
            or not PLAIN_KEY.fullmatch(one.key)
            or isinstance(one.value, list) != (operator == "$in")
        ):
            return None, filters
        where.setdefault(f"metadata.{one.key}", {})
        if operator in where[f"metadata.{one.key}"]:
            return None, filters
        where[f"metadata.{one.key}"][operator] = one.value
    return where, None


def _is_node(item: Item) -> bool:
    """Return whether an item is a node; another program may have stored anything there."""
    value = item.value
    return (
        isinstance(value, dict)
        and isinstance(value.get("metadata"), dict)
        and all(isinstance(value.get(field), str) for field in ("text", "node", "type"))
    )


def _to_node(item: Item) -> BaseNode:
    value = item.value
    metadata = {**value["metadata"], CONTENT: value["node"], KIND: value["type"]}
    return metadata_dict_to_node(metadata, text=value["text"])
