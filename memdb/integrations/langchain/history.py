"""
Chat history: LangChain's messages as messages of a memdb session, and all of it back.

A message of LangChain comes back equal. What other clients wrote in the session is given
as the LangChain messages that say the same, calls and results of tools as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from memdb.adapters.adapter import Adapter
from memdb.adapters.json_forms import is_plain, json_of, storable
from memdb.errors import InvalidInput
from memdb.formats.provider_messages import LANGCHAIN, keep_whole, read_messages
from memdb.formats.shapes import langchain_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb import NewMessage
    from memdb.adapters.adapter import Source


class MemdbChatMessageHistory(Adapter, BaseChatMessageHistory):
    """A session of memdb as LangChain's chat history."""

    def __init__(
        self,
        session_id: str,
        source: Source,
        *,
        user: str = "default",
        app: str = "default",
        last: int | None = None,
        **options: Any,
    ) -> None:
        """
        Name a session; it is made at its first message.

        Args:
            session_id: The session's name in the scope of *user* and *app*.
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
                Share an open one where histories are made per call.
            last: Read only the newest so many messages; results of tools whose call is
                not among them are left out. None means all.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name or *last* cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(source, **options)
        if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
            raise InvalidInput(f"last is {last!r}: give a number of messages, or None for all")
        self._last = last
        self._session = self._db.scope(user, app).session(session_id)

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages of the session, oldest first."""
        return self._call(self._messages)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages of the session, oldest first."""
        return await self._read(self._messages)

    def _messages(self) -> list[BaseMessage]:
        if self._last is None:
            found = [*self._session.messages()]
        else:
            found = [*self._session.host.window(last=self._last).messages]
        made: list[BaseMessage] = messages_from_dict(
            [one for message in found for one in langchain_of(message)]
        )
        return made

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """
        Add messages, all of them or none.

        Raises:
            InvalidInput: one of them is no message, or has no JSON form.
            SecretFound: one holds a key or password, and those are refused.
        """
        self._call(lambda: self._session.extend(_to_stored(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages, all of them or none; see `add_messages`."""
        given = [*messages]
        await self._run(lambda: self._session.extend(_to_stored(given)))

    def clear(self) -> None:
        """Remove every message of the session; what was remembered from them stays."""
        self._call(self._session.host.clear)

    async def aclear(self) -> None:
        """Remove every message of the session; see `clear`."""
        await self._run(self._session.host.clear)


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
        raw = json_of(data, f"messages[{place}]")
        if is_plain(data, raw):
            made += read_messages(data, f"messages[{place}]")
        else:
            (one,) = read_messages(storable(data), f"messages[{place}]")
            made.append(keep_whole(one, LANGCHAIN, raw))
    return made
