"""
Chat store: the messages of LlamaIndex's `Memory` as messages of memdb's sessions.

A message of LlamaIndex comes back as its own JSON form keeps it. Messages of other clients are
returned as messages with the same text, one for each result of a tool.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import PrivateAttr

from memdb import NewMessage
from memdb.adapters.adapter import FileOwner, OpenFile
from memdb.adapters.batches import is_key
from memdb.adapters.json_forms import is_plain, json_of
from memdb.errors import InvalidInput
from memdb.formats.originals import original_part, parts_with_text
from memdb.formats.provider_messages import keep_whole
from memdb.formats.provider_parts import read_part
from memdb.formats.turns import own_form
from memdb.models.messages import role_of
from memdb.text.parts import content_text, json_text, kind_of, part_text
from memdb.text.validate import fit_value, int_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memdb import Message, Scope, SessionInfo
    from memdb.adapters.adapter import Source
    from memdb.api.session import Session

    Spans = list[list[int]]


LLAMAINDEX = "llamaindex"
ROLES = {"chatbot": "assistant"}


def to_stored(message: ChatMessage, field: str = "message") -> NewMessage:
    """
    Return a message of LlamaIndex as one of memdb; an error calls it *field*.

    Raises:
        InvalidInput: *message* is not a ChatMessage, or has no JSON form.
    """
    if not isinstance(message, ChatMessage):
        raise InvalidInput(f"{field} is {type(message).__name__}: give a ChatMessage")
    try:
        data = message.model_dump(mode="json")
    except (TypeError, ValueError, RecursionError) as error:  # of pydantic
        raise InvalidInput(f"{field} has no JSON form: {error}") from error
    raw = json_of(data, field)
    if is_plain(data, raw):
        role, parts = _read(data)
        return NewMessage(role, parts=[*parts, original_part(LLAMAINDEX, data, parts)])
    role, parts = _read(fit_value(data))
    return keep_whole(NewMessage(role, parts=parts), LLAMAINDEX, raw)


def _read(data: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the role and parts of a message in memdb's form."""
    role = str(role_of(ROLES.get(data["role"], data["role"])))
    more = data["additional_kwargs"]
    parts = [_part(block) for block in data["blocks"]]
    known = {part.get("id") for part in parts if part["type"] == "tool_call"}
    calls = [call for call in more.get("tool_calls") or () if isinstance(call, dict)]
    parts += [
        read_part({"type": "function", **call}) for call in calls if call.get("id") not in known
    ]
    if role == "tool":
        call_id = more.get("tool_call_id")
        text = "\n".join(part_text(part) for part in parts)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        name = more.get("name")
        parts = [{**read_part(result), **({"name": name} if isinstance(name, str) else {})}]
    if not any(part["type"] != "text" or part["text"].strip() for part in parts):
        parts = [{"type": "other", "name": "empty message"}]
    return role, parts


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("block_type")
    if kind == "text":
        return {"type": "text", "text": block.get("text") or ""}
    if kind == "thinking":
        return {"type": "thinking", "text": block.get("content") or ""}
    if kind == "tool_call":
        arguments = json_text(block.get("tool_kwargs"))
        call = {"id": block.get("tool_call_id"), "name": block.get("tool_name")}
        return read_part({"type": "function", "id": call["id"], "function": {
            "name": call["name"], "arguments": arguments}})  # fmt: skip
    if kind in ("image", "audio"):
        data, link = block.get(kind), block.get("url")
        mime = block.get("image_mimetype") or (block.get("format") and f"audio/{block['format']}")
        made = {"type": kind, **({"media_type": mime} if mime else {})}
        return {**made, **({"base64": data} if data else {"url": str(link or "")})}
    return read_part({**block, "type": str(kind or "block")})


def to_messages(stored: Message) -> list[ChatMessage]:
    """Return the messages of LlamaIndex in a stored message, at least one."""
    own = own_form(stored, LLAMAINDEX)
    if own is not None:
        return [ChatMessage.model_validate(own)]
    parts = parts_with_text(stored.parts or (), stored.text)
    results = [part for part in parts if kind_of(part) == "tool_result"]
    if stored.role == "tool":
        return [_result(part) for part in results or [{"content": stored.text}]]
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if kind_of(part) == "tool_call":
            blocks.append(_call(part))
        elif kind_of(part) != "tool_result" and part_text(part).strip():
            blocks.append({"block_type": "text", "text": part_text(part)})
    if not blocks:
        blocks.append({"block_type": "text", "text": stored.text})
    made = ChatMessage.model_validate({"role": stored.role, "blocks": blocks})
    return [made, *map(_result, results)]


def _call(part: dict[str, Any]) -> dict[str, Any]:
    arguments: Any = json_text(part.get("arguments"))
    with suppress(ValueError):
        arguments = json.loads(arguments or "{}")
    return {
        "block_type": "tool_call",
        "tool_call_id": part.get("id"),
        "tool_name": part.get("name") or "unknown_tool",
        "tool_kwargs": arguments if isinstance(arguments, dict) else str(arguments),
    }


def _result(part: dict[str, Any]) -> ChatMessage:
    more = {"tool_call_id": part.get("tool_call_id"), "name": part.get("name")}
    return ChatMessage(
        role="tool",
        content=content_text(part.get("content")),
        additional_kwargs={key: value for key, value in more.items() if value},
    )


# In the metadata of a session: spans of the seqs that are archived, first and last.
ARCHIVED = "llamaindex_archived"

MAX_NUMBER = 1 << 31

# Messages that are read at a time.
PAGE = 100


class MemdbChatStore(FileOwner, AsyncDBChatStore):
    """
    Messages by key. Each key is a session that recall finds and every other client reads.

    An archived message stays where it is; only its status changes. The id of a message is
    its seq.
    """

    user: str | None = None
    app: str | None = None

    _file: OpenFile = PrivateAttr()

    def __init__(
        self, source: Source, *, user: str | None = None, app: str | None = None, **options: Any
    ) -> None:
        """
        Store messages in the sessions of a scope.

        Args:
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(user=user, app=app)
        self._file = OpenFile(source, framework="llamaindex", user=user, app=app, **options)

    @property
    def _scope(self) -> Scope:
        return self._file.scope

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class in LlamaIndex."""
        return "MemdbChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """
        Return the messages of a key, oldest first.

        A message with several results of tools, which another client stored, is returned as one
        message for each result. Such a message counts as one.

        Args:
            status: None means both.
            limit: Most messages, counted from *offset*. None means all.
            offset: How many of the oldest to skip.

        Cost: reads what it returns; where messages were deleted or archived, those before too.
        """
        for number, name in ((limit, "limit"), (offset, "offset")):
            if number is not None:
                int_value(number, name, 0, MAX_NUMBER)
        start = offset or 0
        stop = None if limit is None else start + limit
        return await self._file.read(partial(self._list, key, _status(status), start, stop))

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """
        Return the number of messages of a key; None means both statuses.

        Cost: no message is read, unless some are archived; then the active ones are read.
        """
        return await self._file.read(partial(self._count, key, _status(status)))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add a message; InvalidInput if it has no JSON form."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages, all of them or none."""
        new = _checked(messages)
        await self._file.run(partial(self._add, key, new, MessageStatus(status)))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace all messages of a key, in one transaction."""
        new = _checked(messages)

        def replace() -> None:
            with self._file.db.transaction():
                self._remove(key, None)
                self._add(key, new, MessageStatus(status))

        await self._file.run(replace)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message with the seq *idx* and return it, None if there is none."""

        def remove() -> list[Message]:
            with self._file.db.transaction():
                session = self._session(key)
                found = [] if session is None else session.messages(idx - 1, 1)
                return self._drop(key, [one for one in found if one.seq == idx])

        found = await self._file.run(remove)
        return to_messages(found[0])[0] if found else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Remove the messages of a key; None means both statuses."""
        await self._file.run(partial(self._remove, key, status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove the oldest *n* active messages, and return them."""
        return _restore(await self._file.run(partial(self._take, key, n, self._drop)))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest *n* active messages, and return them."""
        return _restore(await self._file.run(partial(self._take, key, n, self._archive)))

    async def get_keys(self) -> list[str]:
        """Return the names of the sessions that have messages, in order."""

        def names() -> list[str]:
            found = self._scope.sessions()
            return [one.name for one in found if one.message_count]

        return await self._file.read(names)

    def _session(self, key: str) -> Session | None:
        session: Session | None = self._scope.session(key) if is_key(key) else None
        return session

    def _spans(self, session: Session) -> Spans:
        head = session.head()
        found = ((head and head.metadata) or {}).get(ARCHIVED)
        spans = found if isinstance(found, list) else []
        return [one for one in spans if _is_span(one)]

    def _info(self, key: str) -> SessionInfo | None:
        # Names come in order: the first that begins with the key is the key itself.
        found = self._scope.sessions(key, limit=1) if is_key(key) else []
        return next((one for one in found if one.name == key), None)

    def _walk(self, key: str, status: MessageStatus | None, *, after: int = 0) -> Iterator[Message]:
        session = self._session(key)
        if session is None:
            return
        spans = [] if status is None else self._spans(session)
        start = after
        if status is MessageStatus.ACTIVE and spans and spans[0][0] <= 1:
            start = max(after, spans[0][1])
        while page := session.messages(start, PAGE):
            for message in page:
                is_archived = any(first <= message.seq <= last for first, last in spans)
                if status is None or is_archived == (status is MessageStatus.ARCHIVED):
                    yield message
            start = page[-1].seq

    def _list(
        self, key: str, status: MessageStatus | None, start: int, stop: int | None
    ) -> list[ChatMessage]:
        info = self._info(key) if start else None
        is_whole = info is not None and info.message_count == info.last_seq
        if is_whole and status is not None:
            is_whole = not self._spans(self._scope.session(key))
        after = start if is_whole else 0  # nothing is missing: a message's place is its seq
        end = None if stop is None else stop - after
        return _restore(islice(self._walk(key, status, after=after), start - after, end))

    def _count(self, key: str, status: MessageStatus | None) -> int:
        session, info = self._session(key), self._info(key)
        every = 0 if info is None else info.message_count
        if session is None or status is None or not every:
            return every
        is_divided = self._spans(session)
        active = sum(1 for _ in self._walk(key, MessageStatus.ACTIVE)) if is_divided else every
        return active if status is MessageStatus.ACTIVE else every - active

    def _add(self, key: str, new: list[NewMessage], status: MessageStatus) -> None:
        session = self._scope.session(key)
        with self._file.db.transaction():
            stored = session.extend(new) if new else []
            if status is MessageStatus.ARCHIVED:
                self._archive(key, stored)

    def _remove(self, key: str, status: MessageStatus | None) -> None:
        with self._file.db.transaction():
            self._drop(key, [*self._walk(key, status)])

    def _take(
        self, key: str, n: int, change: Callable[[str, list[Message]], list[Message]]
    ) -> list[Message]:
        int_value(n, "n", -MAX_NUMBER, MAX_NUMBER)
        with self._file.db.transaction():
            walk = self._walk(key, MessageStatus.ACTIVE)
            return change(key, [one for one, _ in zip(walk, range(n), strict=False)])

    def _drop(self, key: str, doomed: list[Message]) -> list[Message]:
        if doomed:
            self._scope.session(key).replace([one.seq for one in doomed])
        return doomed

    def _archive(self, key: str, chosen: list[Message]) -> list[Message]:
        if chosen:
            session = self._scope.session(key)
            spans = _joined(self._spans(session), (one.seq for one in chosen))
            head = session.head()
            metadata = {**((head and head.metadata) or {}), ARCHIVED: spans}
            session.update(metadata=metadata)
        return chosen


def _status(status: MessageStatus | None) -> MessageStatus | None:
    return None if status is None else MessageStatus(status)


def _is_span(value: Any) -> bool:
    """Return whether a value in metadata is the first and the last seq of a span."""
    return (
        isinstance(value, list) and len(value) == 2 and all(type(seq) is int for seq in value)  # noqa: PLR2004 (first and last)
    )


def _checked(messages: Iterable[ChatMessage]) -> list[NewMessage]:
    return [to_stored(one, f"messages[{place}]") for place, one in enumerate(messages)]


def _restore(stored: Iterable[Message]) -> list[ChatMessage]:
    return [message for one in stored for message in to_messages(one)]


def _joined(spans: Spans, seqs: Iterable[int]) -> Spans:
    """Return spans that also contain *seqs*; neighbouring spans are joined."""
    made: Spans = []
    for first, last in sorted([*spans, *([seq, seq] for seq in seqs)]):
        if made and first <= made[-1][1] + 1:
            made[-1][1] = max(made[-1][1], last)
        else:
            made.append([first, last])
    return made
