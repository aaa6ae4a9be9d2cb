"""
Entries of conversations: the place of each, and moving them when a head moves.

The session that is named after a conversation contains its messages from the start to its head. So
recall and other clients find its present messages. Messages that a conversation left are in a
branch of it that shares no messages. An item per entry names its parent and its sessions; an entry
without a session counts as deleted. Every function runs in the caller's transaction.

A message of Pydantic AI is stored as one message for each role in it. So no tool appears in the
role of a person, and the message is returned equal. A message of another client has no such
original, and is returned as a message with the same text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_ai.conversation_store import ConversationEntry
from pydantic_ai.messages import ModelMessagesTypeAdapter

from memdb import NewMessage, NotFound
from memdb.adapters.batches import is_key
from memdb.adapters.json_forms import is_plain, json_of
from memdb.errors import InvalidInput
from memdb.formats.originals import original_of, original_part, parts_with_text
from memdb.formats.provider_messages import PYDANTIC, keep_whole, read_messages
from memdb.formats.turns import own_form
from memdb.text.parts import content_text, json_text, kind_of, part_text, without_original
from memdb.text.validate import fit_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_ai.messages import ModelMessage

    from memdb import Item, Message
    from memdb.api.scope import Scope
    from memdb.api.session import Session


UNKNOWN_TOOL = "unknown_tool"


def to_stored(message: ModelMessage) -> list[NewMessage]:
    """
    Return a message of Pydantic AI as messages of memdb, in order, at least one.

    Raises:
        InvalidInput: *message* has no JSON form.
    """
    try:
        (data,) = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    except (TypeError, ValueError, RecursionError) as error:  # of pydantic
        raise InvalidInput(f"the message has no JSON form: {error}") from error
    raw = json_of(data, "the message")
    if not data["parts"]:
        role = "assistant" if data["kind"] == "response" else "user"
        nothing = {"type": "other", "name": "empty message"}
        return [keep_whole(NewMessage(role, parts=[nothing]), PYDANTIC, raw)]
    if is_plain(data, raw):
        return _with_originals(read_messages(data), data)
    first, *others = read_messages(fit_value(data))
    shown = [one.replace(parts=without_original(one.parts or ())) for one in others]
    return [keep_whole(first, PYDANTIC, raw), *shown]


def _with_originals(read: list[NewMessage], data: dict[str, Any]) -> list[NewMessage]:
    """Return messages with the parts of *data* they were read of as they are, None too."""
    made, start = [], 0
    for one in read:
        own = original_of(one.parts, PYDANTIC)
        end = start + (len(own["parts"]) if own else 0)
        parts = without_original(one.parts or ())
        whole = {**data, "parts": data["parts"][start:end]}
        made.append(one.replace(parts=[*parts, original_part(PYDANTIC, whole, parts)]))
        start = end
    return made


def to_message(stored: Sequence[Message], names: dict[str, str]) -> ModelMessage:
    """
    Return the message of Pydantic AI that was stored as these messages.

    Args:
        names: Names of the tools called so far, by the id of the call; the function adds those
            called here.
    """
    for message in stored:
        for part in message.parts or ():
            if kind_of(part) == "tool_call" and part.get("id") and part.get("name"):
                names[part["id"]] = part["name"]
    originals = [own for one in stored if (own := own_form(one, PYDANTIC)) is not None]
    if originals:
        parts = [part for own in originals for part in own["parts"]]
        data = {**originals[0], "parts": parts}
    else:
        data = _retold(stored[0], names)
    (made,) = ModelMessagesTypeAdapter.validate_python([data])
    return made


def _retold(message: Message, names: dict[str, str]) -> dict[str, Any]:
    """Return the message with the content of another client's message."""
    parts: list[dict[str, Any]] = []
    for part in parts_with_text(message.parts or (), message.text):
        kind = kind_of(part)
        if kind == "tool_result":
            parts.append(_result(part, names))
        elif kind == "tool_call" and message.role == "assistant":
            parts.append(_call(part))
        elif kind == "thinking" and message.role == "assistant":
            parts.append({"part_kind": "thinking", "content": part_text(part)})
        elif part_text(part).strip():
            parts.append(_words(message.role, part_text(part)))
    if not parts:
        if message.role == "tool":
            parts = [_result({"content": message.text}, names)]
        else:
            parts = [_words(message.role, message.text)]
    said = datetime.fromtimestamp(message.created_ms / 1000, UTC)
    if message.role == "assistant":
        return {"kind": "response", "parts": parts, "timestamp": said}
    return {"kind": "request", "parts": [{**part, "timestamp": said} for part in parts]}


def _words(role: str, text: str) -> dict[str, Any]:
    if role == "tool":
        return _result({"content": text}, {})
    kinds = {"assistant": "text", "system": "system-prompt", "user": "user-prompt"}
    return {"part_kind": kinds[role], "content": text}


def _call(part: dict[str, Any]) -> dict[str, Any]:
    made = {
        "part_kind": "tool-call",
        "tool_name": part.get("name") or UNKNOWN_TOOL,
        "args": json_text(part.get("arguments")),
    }
    return {**made, "tool_call_id": part["id"]} if part.get("id") else made


def _result(part: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    call_id = part.get("tool_call_id")
    made = {
        "part_kind": "tool-return",
        "tool_name": part.get("name") or names.get(str(call_id)) or UNKNOWN_TOOL,
        "content": content_text(part.get("content")),
    }
    return {**made, "tool_call_id": call_id} if call_id else made


ENTRIES = ("pydantic-ai", "entries")
BRANCH = "left"  # of the session of a conversation: what it left
LEFT = "\u2442left"  # behind the name of a conversation, in an item: that branch of it
ENTRY = "pydantic_ai_entry"  # in the metadata of a message: the entry that it is of
NUMBER = "#"  # between a session and the seq of a message that another client wrote

# A window of so many entries is read message by message, a longer one by session.
FEW = 50


class Entries:
    """The entries of a scope."""

    def __init__(self, scope: Scope) -> None:
        """Serve the conversations of a scope."""
        self._scope = scope
        self._items = scope.items

    def prepare(self, new: Iterable[ConversationEntry]) -> dict[str, list[NewMessage]]:
        """
        Return the messages of new entries, by entry; no transaction is needed.

        Raises:
            InvalidInput: a message has no JSON form, or an id cannot be stored.
        """
        return {one.id: _named(one.id, to_stored(one.message)) for one in new}

    def exists(self, entry_id: str) -> bool:
        """Return whether an entry is in any session."""
        return self._find_item(entry_id) is not None or self._find_other(entry_id) is not None

    def head_of(self, session: str) -> str | None:
        """Return the last entry of a session, None if it is empty."""
        last = self._scope.session(session).last(1) if is_key(session) else []
        return None if not last else _entry_of(last[0])

    def path(self, head_id: str | None, limit: int | None = None) -> list[tuple[str, str | None]]:
        """
        Return (entry, parent) from the first up to *head_id*, or the last *limit* of them.

        Raises:
            LookupError: the entry does not exist.
        """
        found: list[tuple[str, str | None]] = []
        while head_id is not None and (limit is None or len(found) < limit):
            parent = self._parent_of(head_id)
            found.append((head_id, parent))
            head_id = parent
        return found[::-1]

    def read(self, path: Sequence[tuple[str, str | None]]) -> list[ConversationEntry]:
        """Return the entries of a path, without those whose messages were deleted."""
        sessions: dict[str, dict[str, list[Message]]] = {}
        names: dict[str, str] = {}
        found = []
        for entry_id, parent_id in path:
            stored = self._messages(entry_id, sessions if len(path) > FEW else None)
            if stored:
                message = to_message(stored, names)
                found.append(ConversationEntry(id=entry_id, parent_id=parent_id, message=message))
        return found

    def append(
        self, session: str, new: Iterable[ConversationEntry], prepared: dict[str, list[NewMessage]]
    ) -> None:
        """Add new entries at the end of a session; *prepared* is what `prepare` returned."""
        entries = [*new]
        chat = self._chat(session, create=True) if entries else None
        for one in entries:
            assert chat is not None
            chat.extend(prepared[one.id])
            value: dict[str, Any] = {"parent": one.parent_id, "sessions": [session]}
            self._items.put(ENTRIES, one.id, value, index=False)

    def move(self, session: str, path: Iterable[str]) -> None:
        """
        Make a session contain the entries of *path*, in order.

        Other entries in it are moved to the branch of left messages. Missing ones are taken from
        there or from other conversations.
        """
        aside = session + LEFT
        held, left = _grouped(self._chat(session)), _grouped(self._chat(aside))
        stored = {**left, **held}
        for entry_id in path:
            if entry_id not in stored:
                stored[entry_id] = self._messages(entry_id, None)
        wanted = [entry_id for entry_id in path if stored[entry_id]]
        current = list(held)
        shared = 0
        while shared < min(len(current), len(wanted)) and current[shared] == wanted[shared]:
            shared += 1
        self._add(aside, [one for one in current[shared:] if one not in wanted], stored)
        self._drop(session, current[shared:], stored)
        self._add(session, wanted[shared:], stored)
        self._drop(aside, [one for one in wanted[shared:] if one in left], stored)

    def delete(self, session: str) -> None:
        """Remove the session of a conversation, and the entries that are in no other session."""
        for name in (session + LEFT, session):
            chat = self._chat(name)
            for entry_id in _grouped(chat):
                item = self._find_item(entry_id)
                if item is None:
                    continue
                if {*item.value["sessions"]} <= {name}:
                    self._items.delete(ENTRIES, entry_id)
                else:
                    self._place(item, without=name)
            if chat is not None and chat.head() is not None:
                chat.delete()

    def _chat(self, name: str, *, create: bool = False) -> Session | None:
        """
        Return the session of a conversation, or with `LEFT` after its name that branch.

        None if the branch does not exist and *create* is False.
        """
        chat = self._scope.session(name.removesuffix(LEFT))
        if not name.endswith(LEFT):
            return chat
        if create and chat.head() is None:
            chat.create()
        try:
            return chat.branch(BRANCH, 0, create=None if create else False)
        except NotFound:
            return None

    def _add(self, name: str, ids: Iterable[str], stored: dict[str, list[Message]]) -> None:
        """Add copies of stored entries at the end of a session or branch."""
        for entry_id in ids:
            chat = self._chat(name, create=True)
            assert chat is not None
            item = self._find_item(entry_id)
            if item is None:  # of another client: known by its new place from now on
                value: dict[str, Any] = {"parent": self._parent_of(entry_id), "sessions": []}
                item = self._items.put(ENTRIES, entry_id, value, index=False)
            chat.extend(_copies(entry_id, stored[entry_id]))
            self._place(item, within=name)

    def _drop(self, name: str, ids: Iterable[str], stored: dict[str, list[Message]]) -> None:
        """Remove entries from a session or branch."""
        doomed, chat = [*ids], self._chat(name)
        if doomed and chat is not None:
            chat.replace([one.seq for entry_id in doomed for one in stored[entry_id]])
        for entry_id in doomed:
            item = self._find_item(entry_id)
            if item is not None:
                self._place(item, without=name)

    def _place(self, item: Item, *, within: str | None = None, without: str | None = None) -> None:
        sessions = [name for name in item.value["sessions"] if name not in (within, without)]
        if within is not None:
            sessions.append(within)
        value = {**item.value, "sessions": sessions}
        self._items.put(ENTRIES, item.key, value, index=False)

    def _find_item(self, entry_id: str) -> Item | None:
        return self._items.find(ENTRIES, entry_id) if is_key(entry_id) else None

    def _find_other(self, entry_id: str) -> Message | None:
        """Return another client's message that an entry is, None for other entries."""
        session, _, seq = entry_id.rpartition(NUMBER)
        if not (session and seq.isascii() and seq.isdigit() and is_key(session)):
            return None
        try:
            return self._scope.session(session).get(int(seq))
        except (NotFound, ValueError):
            return None

    def _parent_of(self, entry_id: str) -> str | None:
        item = self._find_item(entry_id)
        if item is not None:
            parent: str | None = item.value["parent"]
            return parent
        message = self._find_other(entry_id)
        if message is None:
            raise LookupError(f"no conversation has the entry {entry_id!r}")
        before: str | None = None
        for one in self._scope.session(message.session).messages(limit=message.seq):
            if one.seq >= message.seq:
                break
            before = _entry_of(one)
        return before

    def _messages(
        self, entry_id: str, sessions: dict[str, dict[str, list[Message]]] | None
    ) -> list[Message]:
        """Return the stored messages of an entry; *sessions* caches those that were read."""
        item = self._find_item(entry_id)
        if item is None:
            found = self._find_other(entry_id)
            return [] if found is None else [found]
        for name in item.value["sessions"]:
            if sessions is None:
                chat = self._chat(name)
                stored: list[Message] = []
                while chat is not None and (message := chat.find(_external(entry_id, len(stored)))):
                    stored.append(message)
            else:
                if name not in sessions:
                    sessions[name] = _grouped(self._chat(name))
                stored = sessions[name].get(entry_id, [])
            if stored:
                return stored
        return []


def _external(entry_id: str, place: int) -> str:
    """Return the external id of an entry's message at a place, from 0."""
    return entry_id if place == 0 else f"{entry_id}{NUMBER}{place + 1}"


def _named(entry_id: str, messages: list[NewMessage]) -> list[NewMessage]:
    return [
        one.replace(external_id=_external(entry_id, place), metadata={ENTRY: entry_id})
        for place, one in enumerate(messages)
    ]


def _copies(entry_id: str, stored: Iterable[Message]) -> list[NewMessage]:
    """Return stored messages as new ones, for another session."""
    copies = [
        NewMessage(one.role, one.text, one.author, one.parts, created_ms=one.created_ms)
        for one in stored
    ]
    return _named(entry_id, copies)


def _entry_of(message: Message) -> str:
    """Return the entry of a message; a message of another client is an entry by itself."""
    entry_id = (message.metadata or {}).get(ENTRY)
    if isinstance(entry_id, str):
        return entry_id
    return f"{message.session}{NUMBER}{message.seq}"


def _grouped(chat: Session | None) -> dict[str, list[Message]]:
    """Return the messages of a session by entry, in order; none of None."""
    found: dict[str, list[Message]] = {}
    for message in () if chat is None else chat.messages():
        found.setdefault(_entry_of(message), []).append(message)
    return found
