"""
Chat history: LangChain's messages as messages of a memdb session, which are returned unchanged.

A message of LangChain comes back equal. Messages of other clients in the session are returned as
LangChain messages with the same text, and calls and results of tools as such.

The retriever is recall over everything in a scope, as LangChain's documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from memdb.adapters.adapter import FileOwner, OpenFile, ScopedAdapter, adapted, in_thread
from memdb.adapters.host import Host
from memdb.adapters.json_forms import json_of
from memdb.errors import InvalidInput, NotFound
from memdb.formats.provider_messages import read_messages
from memdb.formats.shapes import langchain_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb import Hit, NewMessage
    from memdb.adapters.adapter import Source


class MemdbChatMessageHistory(ScopedAdapter, BaseChatMessageHistory):
    """A session of memdb as LangChain's chat history."""

    def __init__(
        self,
        session_id: str,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        last: int | None = None,
        **options: Any,
    ) -> None:
        """
        Name a session; its first message creates it.

        Args:
            session_id: The session's name in the scope of *user* and *app*.
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
                Share an open one if histories are made per call.
            last: Read only this many of the newest messages; results of tools whose call is not
                among them are left out. None means all.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name or *last* cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(source, user=user, app=app, **options)
        if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
            raise InvalidInput(f"last is {last!r}: give a number of messages, or None for all")
        self._last = last
        self._session = self._scope.session(session_id)

    @property
    @adapted
    def messages(self) -> list[BaseMessage]:
        """The messages of the session, oldest first."""
        if self._last is None:
            found = [*self._session.messages()]
        else:
            found = [*Host(self._session).window(last=self._last).messages]
        made: list[BaseMessage] = messages_from_dict(
            [one for message in found for one in langchain_of(message)]
        )
        return made

    @adapted
    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """
        Add messages, all of them or none.

        Raises:
            InvalidInput: one of them is not a message, or has no JSON form.
            SecretFound: a message contains a key or password, and the settings refuse those.
        """
        self._session.extend(_to_stored(messages))

    @adapted
    def clear(self) -> None:
        """Remove every message of the session; entries that were learnt from them stay."""
        self._session.clear()

    aadd_messages = in_thread(add_messages)
    aclear = in_thread(clear)


def _to_stored(messages: Sequence[BaseMessage]) -> list[NewMessage]:
    """Return LangChain's messages as memdb's, with the originals in them."""
    made: list[NewMessage] = []
    for place, message in enumerate(messages):
        if not isinstance(message, BaseMessage):
            raise InvalidInput(
                f"messages[{place}] is {type(message).__name__}: give a message of LangChain"
            )
        try:
            data = message_to_dict(message)
        except (TypeError, ValueError) as error:  # of pydantic
            raise InvalidInput(f"messages[{place}] has no JSON form: {error}") from error
        json_of(data, f"messages[{place}]")
        made += read_messages(data, f"messages[{place}]")
    return made


KINDS = ("message", "entry", "summary", "item")


class MemdbRetriever(FileOwner, BaseRetriever):
    """
    The hits of a recall in a scope of memdb, best first.

    A document's metadata has its `kind` ("message", "entry", "summary", "item", "artifact" or
    "session") and its `score` from 0 to 1. The metadata also has the fields of the source, such as
    `session`, `seq`, `role` and `author` of a message.
    """

    source: Any = Field(exclude=True, repr=False)
    """A path, or a file that is open (`memdb.open` or `memdb.aio.open`)."""
    user: str | None = None
    """Whose memory it is. None means MEMDB_USER, or "default"."""
    app: str | None = None
    """The program it belongs to. None means MEMDB_APP, or "default"."""
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
        self._file = OpenFile(
            self.source, framework="langchain", user=self.user, app=self.app, **self.open_options
        )

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

    def _recall(self, query: str, options: dict[str, Any]) -> list[Document]:
        given: dict[str, Any] = {
            "kinds": tuple(self.kinds),
            "session": self.session,
            "min_score": self.min_score,
            **self.recall_options,
            **options,
        }
        limit = given.pop("k", self.k)
        scope = self._file.scope
        made = []
        for hit in scope.recall(query, limit, **given):
            document = _to_document(hit)
            session, seq = hit.source.session, hit.source.seq
            if hit.kind == "message" and session is not None and seq is not None:
                with suppress(NotFound):  # deleted since
                    document.metadata["role"] = scope.session(session).get(seq).role
            made.append(document)
        return made


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
