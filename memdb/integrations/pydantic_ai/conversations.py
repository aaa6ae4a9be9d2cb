"""Conversation store: Pydantic AI's conversations as sessions of memdb."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError

from memdb.adapters.adapter import ScopedAdapter
from memdb.adapters.batches import is_key
from memdb.errors import InvalidInput
from memdb.integrations.pydantic_ai.entries import LEFT, NUMBER, Entries
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb import MemDBError, NewMessage
    from memdb.adapters.adapter import Source

T = TypeVar("T")

RECORDS = ("pydantic-ai", "conversations")
PAGE = 1_000

_record_adapter: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class MemdbConversationStore(ConversationStore, ScopedAdapter):  # whose `_read` is another
    """
    Conversations whose messages recall finds and every other client reads.

    The session named after a conversation contains its present messages. A save, branch, fork or
    delete is one transaction; `delete` removes the entries that no other conversation uses. A
    session that another client wrote can be loaded and continued.
    """

    def __init__(
        self, source: Source, *, user: str | None = None, app: str | None = None, **options: Any
    ) -> None:
        """
        Store conversations in a scope.

        Args:
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
            user: The user whose conversations they are. The store's `scope=` is something else: it
                is stored with each conversation.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(source, user=user, app=app, **options)
        self._items = self._scope.items
        self._entries = Entries(self._scope)

    def _translate(self, error: MemDBError) -> Exception:
        """Return a UserError for input that cannot be stored."""
        return UserError(str(error)) if isinstance(error, InvalidInput) else error

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, None if there is none."""
        return await self._ask(partial(self._find, conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, the newest first, without sessions that other clients made."""
        return await self._ask(partial(self._list, scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """
        Store a record and new entries, all or nothing.

        Raises:
            ConversationConflict: the conversation is not at *expected_revision*, or its head is an
                entry that was deleted.
            UserError: a message or an id cannot be stored.
        """
        await self._run(partial(self._write, record, [*new_entries], expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """
        Remove a conversation, and the entries that no other one uses.

        Raises:
            ConversationConflict: the conversation is not at *expected_revision*.
        """
        await self._run(partial(self._delete, conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry; LookupError if there is none."""
        return await self._ask(partial(self._entry, entry_id))

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to *head_id*, or the last *limit*, without forgotten ones."""
        return await self._ask(lambda: self._entries.read(self._entries.path(head_id, limit)))

    async def _ask(self, work: Callable[[], T]) -> T:
        return await self._run(work, kind="read", to_end=False)

    def _entry(self, entry_id: str) -> ConversationEntry:
        found = self._entries.read(self._entries.path(entry_id, 1))
        if not found:
            raise LookupError(f"the message of entry {entry_id!r} was deleted")
        return found[0]

    def _find(self, conversation_id: str) -> ConversationRecord | None:
        if not is_key(conversation_id):
            return None
        item = self._items.find(RECORDS, conversation_id)
        record = None if item is None else _record_adapter.validate_python(item.value)
        last = self._scope.session(conversation_id).last(1)
        if not last:
            return record
        newest, head = last[0], self._entries.head_of(conversation_id)
        if head != f"{conversation_id}{NUMBER}{newest.seq}" or (record and record.head_id == head):
            return record
        # Another client added messages, or wrote all of them.
        if record is None:
            moved = datetime.fromtimestamp(newest.created_ms / 1000, UTC)
            record = ConversationRecord(
                conversation_id=conversation_id, head_id=None, revision="", updated_at=moved
            )
        record.head_id = head
        record.revision = f"{record.revision}+{newest.seq}"
        return record

    def _list(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        found: list[ConversationRecord] = []
        after = None
        while page := self._items.list(RECORDS, exact=True, after=after, limit=PAGE):
            found += (_record_adapter.validate_python(item.value) for item in page)
            after = page[-1]
        chosen = [record for record in found if scope is None or record.scope == scope]
        chosen.sort(key=lambda record: record.updated_at, reverse=True)
        return chosen[:limit]

    def _write(
        self,
        record: ConversationRecord,
        new: list[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        conversation_id = name_value(record.conversation_id, "conversation_id")
        name_value(conversation_id + LEFT, "conversation_id")
        value = _to_json(record)
        prepared = self._entries.prepare(new)
        with self._db.transaction():
            self._require(conversation_id, expected_revision)
            self._place(record, new, prepared)
            self._items.put(RECORDS, conversation_id, value, index=False)

    def _place(
        self,
        record: ConversationRecord,
        new: list[ConversationEntry],
        prepared: dict[str, list[NewMessage]],
    ) -> None:
        """Store the path of a record's head in its session; some of its entries are new."""
        by_id = {one.id: one for one in new}
        tail: list[ConversationEntry] = []
        root = record.head_id
        while root is not None and root in by_id:
            tail.append(by_id.pop(root))
            root = tail[-1].parent_id
        if root is not None and not self._entries.exists(root):
            raise ConversationConflict(record.conversation_id)
        session = record.conversation_id
        if root != self._entries.head_of(session):
            self._entries.move(session, [one for one, _ in self._entries.path(root)])
        self._entries.append(session, reversed(tail), prepared)
        self._entries.append(session + LEFT, by_id.values(), prepared)

    def _delete(self, conversation_id: str, expected_revision: str) -> None:
        if not is_key(conversation_id):
            raise ConversationConflict(conversation_id)
        with self._db.transaction():
            self._require(conversation_id, expected_revision)
            self._entries.delete(conversation_id)
            self._items.delete(RECORDS, conversation_id)

    def _require(self, conversation_id: str, expected_revision: str | None) -> None:
        stored = self._find(conversation_id)
        if (None if stored is None else stored.revision) != expected_revision:
            raise ConversationConflict(conversation_id)


def _to_json(record: ConversationRecord) -> dict[str, Any]:
    try:
        value: dict[str, Any] = _record_adapter.dump_python(record, mode="json")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the record has no JSON form: {error}") from error
    return value
