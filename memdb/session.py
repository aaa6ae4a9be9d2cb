"""A conversation, as `scope.session(name)` gives it. Delegates; no rules here."""

from __future__ import annotations

from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from memdb.holdings import Artifacts
    from memdb.models import ContextWindow, Hit, Message, NewMessage
    from memdb.owner import Owner
    from memdb.rooms import Rooms

MAX_COUNT = (1 << 24) - 1


class Session:
    """An ordered run of messages in a scope; it is made at its first message."""

    def __init__(self, rooms: Rooms, owner: Owner, name: str) -> None:
        """Use `scope.session(name)` instead."""
        self._rooms = rooms
        self._owner = owner
        self.name = name

    def append(
        self,
        role: str,
        text: str = "",
        *,
        author: str | None = None,
        parts: list[Any] | None = None,
        external_id: str | None = None,
        created_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_seq: int | None = None,
    ) -> Message:
        """
        Add a message and return it as stored, with its seq and tokens.

        Args:
            role: "system", "user", "assistant" or "tool".
            text: What was said; "" takes it from *parts*.
            author: Who said it, if the role alone does not tell.
            parts: The original message as JSON objects, kept as it is.
            external_id: Your id for it: adding it again changes nothing and
                returns the stored message.
            created_ms: When it was said; None: now.
            metadata: A JSON object that is kept beside it.
            expected_seq: `last_seq` as you know it: if somebody added a message
                since, nothing is written.

        Raises:
            InvalidInput: a field cannot be stored.
            AlreadyExists: *external_id* belongs to a different message.
            VersionConflict: the session is not at *expected_seq*.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     db.scope("ann").session("tea").append("user", "Green, please.").tokens
        4
        """
        from memdb.models import NewMessage

        new = NewMessage(role, text, author, parts, external_id, created_ms, metadata)
        (stored,) = self._rooms.writer.append(self._owner, self.name, [new], expected_seq)
        return stored

    def extend(
        self, messages: Iterable[NewMessage | dict[str, Any]], *, expected_seq: int | None = None
    ) -> list[Message]:
        """
        Add many messages in one transaction, all or none; see `append`.

        Args:
            messages: `NewMessage`s, or dicts with the same fields by name.

        Cost: 25 µs per message with index and exact token count.
        """
        from memdb.shortterm.writing import to_new

        new = [to_new(message) for message in messages]
        return self._rooms.writer.append(self._owner, self.name, new, expected_seq)

    @property
    def last_seq(self) -> int:
        """The highest seq given out so far, 0 before the first message."""
        return self._rooms.conversations.last_seq(self._owner, self.name)

    def messages(self, after_seq: int = 0, limit: int | None = None) -> Iterator[Message]:
        """Iterate over the messages after *after_seq*, oldest first, *limit* at most."""
        return self._rooms.conversations.messages(self._owner, self.name, after_seq, limit)

    def last(self, n: int) -> list[Message]:
        """Return the newest *n* messages, oldest of them first. Cost: 0.1 ms for 50."""
        return self._rooms.conversations.last(self._owner, self.name, n)

    def get(self, seq: int) -> Message:
        """Return message *seq*; NotFound if the session has none."""
        return self._rooms.conversations.get(self._owner, self.name, seq)

    def find(self, external_id: str) -> Message | None:
        """Return the message that was added with *external_id*, None without one."""
        return self._rooms.conversations.find_external(self._owner, self.name, external_id)

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """
        Return the messages of this session that share words with *query*, best first.

        By words alone; `scope.recall` also knows meaning, dates and context.
        """
        return self._rooms.recaller.search(self._owner, self.name, query, limit)

    def window(self, *, last: int | None = None, budget_tokens: int | None = None) -> ContextWindow:
        """
        Return the newest messages that keep to both limits, oldest of them first.

        Args:
            last: Most messages; None: all that fit.
            budget_tokens: Most tokens by the file's counter, 4 per message for
                its frame included; None: no limit.

        A tool result is never the first: its call would be missing.

        Raises:
            TooLarge: the newest message alone is over the budget.
        """
        from memdb.shortterm.windows import newest_within

        if last is not None:
            int_value(last, "last", 0, MAX_COUNT)
        if budget_tokens is not None:
            int_value(budget_tokens, "budget_tokens", 1, 1 << 62)
        conversations = self._rooms.conversations
        return newest_within(
            lambda count, before: conversations.last(self._owner, self.name, count, before),
            self._rooms.counting,
            last=last,
            budget_tokens=budget_tokens,
        )

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of this session, and the `user:` ones of its scope."""
        from memdb.holdings import Artifacts

        return Artifacts(self._rooms, self._owner, self.name)

    def delete(self) -> bool:
        """
        Remove the session with its messages and artifacts; False if it is absent.

        Entries told in it and `user:` artifacts stay.
        """
        with self._rooms.db.write():
            self._rooms.shelf.delete_session(self._owner, self.name)
            return self._rooms.writer.delete(self._owner, self.name)

    def __repr__(self) -> str:
        """Name the session and whose it is."""
        return f"<Session {self.name!r} of {self._owner.user!r}>"
