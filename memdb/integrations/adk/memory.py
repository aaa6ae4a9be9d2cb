"""Memory of ADK in a memdb file: what agents load from earlier sessions."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from memdb.adapters.host import Host, HostEntries, HostFile
from memdb.errors import NotFound
from memdb.integrations.adk.events import said, to_event, to_json, to_message
from memdb.integrations.adk.service import Service, can_name, frozen, taken
from memdb.records.scopes import name_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.adk.sessions import Session

    from memdb import Entry, Hit, Hits, Kind, Message, NewMessage, Scope, SearchBy

# As in ADK's own services.
UNKNOWN_SESSION = "__unknown_session_id__"
MAX_RESULTS = 10

ENTRY = "entry:"
SHARED = "shared:"  # of all users of the app: no user deletes it
HOST = "adk"

# An entry whose key begins so is the memory that was given with the id behind it.
KEY = f"{HOST}:"

# Every number with fewer digits is one that an entry can have.
MAX_DIGITS = 19


class MemdbMemoryService(Service, BaseMemoryService):
    """
    ADK's memory in a memdb file; see `Service` for how it is opened.

    Events are kept in a part of the app, `NAME (memory)`. So a search finds only events that were
    added, and no session service lists them. Memories that are added directly are entries of the
    user, as `scope.remember` makes them, so both sides find them. Their id is the given one, or the
    number of the entry, as in `entry:5`.

    A search compares words, as ADK's own services do. With *by_meaning* it also compares meaning
    and the messages beside a hit.
    """

    def _talks(self, app_name: str, user_id: str) -> Scope:
        """Return where events stand."""
        self._scope(app_name, user_id)
        return self._db.scope(user_id, name_part(app_name, "memory"))

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session; a changed event replaces its earlier version."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """
        Add events with words, all or none; they replace stored ones with the same id.

        An event whose id the session has replaces the earlier version, unless that was deleted. The
        first events of a long list are converted at once, and the others while the event loop
        continues. Do not change them until the call has ended.

        Raises:
            InputValidationError: an id or an event cannot be stored.
        """
        custom = frozen(custom_metadata)
        kept: list[NewMessage] = []
        silent: list[NewMessage] = []
        async for event in taken(events):
            if not isinstance(event, Event):
                raise InputValidationError(f"events contains {type(event).__name__}: give events")
            (kept if said(event.content) else silent).append(_kept(event, custom))

        def write() -> None:
            chat = self._talks(app_name, user_id).session(session_id or UNKNOWN_SESSION)
            with self._db.transaction():
                stored = {one.external_id: one for one in chat.extend(kept, keep=True)}
                for event in (*kept, *silent):
                    message = stored.get(event.external_id) or chat.find(event.external_id or "")
                    if message is not None and _differs(message, event):
                        metadata = event.metadata or message.metadata
                        chat.edit(message.seq, event.replace(metadata=metadata))

        await self._run(write)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """
        Remember facts, all or none; a fact with a known id replaces its earlier version.

        If the file has an arbiter or a model, it is asked about each of them. Only then the disk or
        the model may fail after some facts were stored; adding all again stores the others. A
        memory that cannot be stored is refused before the first one.

        Raises:
            InputValidationError: a memory has no text, or cannot be stored.
        """
        common = frozen(custom_metadata)
        facts = [_to_fact(memory, common) async for memory in taken(memories)]

        def write() -> None:
            scope = self._scope(app_name, user_id)
            prepared = [HostEntries(scope).prepare(fact) for fact in facts]
            with nullcontext() if HostEntries(scope).has_arbiter else self._db.transaction():
                for fact, store in zip(facts, prepared, strict=True):
                    known = _numbered(scope, fact["key"], HostFile(self._db).now_ms())
                    if known is None:
                        store()
                    else:
                        scope.entries.update(known, text=fact["text"], metadata=fact["metadata"])

        await self._run(write, kind="ask")

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return up to ten memories that match *query*, best first."""

        def read() -> SearchMemoryResponse:
            facts, talks = self._scope(app_name, user_id), self._talks(app_name, user_id)
            hits = [*self._found(facts, query, "entry"), *self._found(talks, query, "message")]
            hits.sort(key=lambda hit: (hit.rank, hit.kind))
            entries = [
                _of_fact(self._entry(facts, hit), SHARED if hit.source.shared else ENTRY)
                if hit.kind == "entry"
                else _of_event(talks, hit)
                for hit in hits[:MAX_RESULTS]
            ]
            return SearchMemoryResponse(memories=entries)

        if not can_name(app_name, user_id):
            return SearchMemoryResponse()
        return await self._read(read, "search" if self._by_meaning else "read")

    def _found(self, scope: Scope, query: str, kind: Kind) -> Hits:
        by: SearchBy = "meaning" if self._by_meaning else "words"
        return scope.recall(query, MAX_RESULTS, kinds=[kind], by=by, min_score=0)

    def _entry(self, scope: Scope, hit: Hit) -> Entry:
        """Return the entry that was found: of the user, or shared by all users of the app."""
        owner = self._db.shared(scope.app) if hit.source.shared else scope
        return owner.entries.get(hit.source.entry_id or 0)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """
        Remove the content of a memory in every session; adding it again restores nothing.

        A memory that was added directly is removed with all its versions, and may be added again.
        An id that no memory can have finds nothing.

        Raises:
            InputValidationError: *memory_id* is not text.
        """
        if memory_id is not None and not isinstance(memory_id, str):
            raise InputValidationError(f"memory_id is {type(memory_id).__name__}: give a str")

        def remove() -> None:
            scope, talks = self._scope(app_name, user_id), self._talks(app_name, user_id)
            number, key = _number_of(memory_id or ""), f"{KEY}{memory_id}"
            for entry in list(scope.entries.list(inactive=True)):
                if entry.id == number or entry.key == key:
                    scope.entries.delete(entry.id)
            for info in talks.sessions():
                chat = talks.session(info.name)
                found = chat.find(memory_id or "")
                if found is not None:
                    Host(chat).erase(found.seq)

        if can_name(app_name, user_id, memory_id):
            await self._run(remove)


def _differs(message: Message, event: NewMessage) -> bool:
    """Return whether a stored message differs; a deleted one has no words."""
    is_erased = not message.text and message.parts is None
    return not is_erased and message.parts != event.parts


def _kept(event: Event, custom: dict[str, Any]) -> NewMessage:
    """Return the message of an event; without an id, its id is computed from its content."""
    if not event.id:
        told = f"{event.author}:{event.timestamp}:{said(event.content)}"
        event = event.model_copy(update={"id": hashlib.sha256(told.encode()).hexdigest()[:32]})
    return to_message(event, custom)


def _of_event(talks: Scope, hit: Hit) -> MemoryEntry:
    where = hit.source
    message = talks.session(where.session or "").get(where.seq or 0)
    event = to_event(message)
    return MemoryEntry(
        id=event.id,
        content=event.content or types.Content(parts=[types.Part(text=hit.text)]),
        author=event.author or None,
        timestamp=_iso(event.timestamp),
        custom_metadata=(message.metadata or {}).get("custom", {}),
    )


def _to_fact(memory: MemoryEntry, common: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `remember` for *memory*, which is stored whole beside its text."""
    if not isinstance(memory, MemoryEntry):
        raise InputValidationError(
            f"memories contains {type(memory).__name__}: give `MemoryEntry` objects"
        )
    text = said(memory.content)
    if not text.strip():
        raise InputValidationError("a memory has no text: only text can be remembered")
    whole = to_json(memory, f"memory {memory.id!a}", exclude={"custom_metadata"})
    return {
        "text": text,
        "key": f"{KEY}{memory.id}" if memory.id else None,
        "metadata": {HOST: whole, "custom": {**common, **frozen(memory.custom_metadata)}},
    }


def _of_fact(entry: Entry, kind: str) -> MemoryEntry:
    kept, key = entry.metadata or {}, entry.key or ""
    memory_id = key.removeprefix(KEY) if key.startswith(KEY) else f"{kind}{entry.id}"
    content = types.Content(role="user", parts=[types.Part(text=entry.text)])
    if HOST not in kept:
        return MemoryEntry(id=memory_id, content=content, timestamp=_iso(entry.created_ms / 1000))
    memory = MemoryEntry.model_validate_json(kept[HOST])
    if said(memory.content) != entry.text:  # another client changed it since
        memory.content = content
    return memory.model_copy(update={"id": memory_id, "custom_metadata": kept.get("custom", {})})


def _number_of(memory_id: str) -> int | None:
    """Return the number of the entry that an id names, or None."""
    digits = memory_id.removeprefix(ENTRY)
    plain = digits.isascii() and digits.isdecimal() and len(digits) < MAX_DIGITS
    return int(digits) if plain and memory_id == f"{ENTRY}{int(digits)}" else None


def _numbered(scope: Scope, key: str | None, now_ms: int) -> int | None:
    """Return the entry whose number is the id in *key*, or None."""
    number = None if key is None else _number_of(key.removeprefix(KEY))
    if key is None or number is None or scope.entries.find(key) is not None:
        return None
    try:
        entry = scope.entries.get(number)
    except NotFound:
        return None
    return number if entry.holds(now_ms) else None


def _iso(timestamp: float) -> str:
    """Return a time in the form of ADK's services: local time without an offset."""
    return datetime.fromtimestamp(timestamp).isoformat()  # noqa: DTZ006 (ADK's own form has no zone)
