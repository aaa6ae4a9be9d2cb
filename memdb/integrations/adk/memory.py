"""Memory of ADK in a memdb file: what agents load from earlier sessions."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from memdb.errors import InvalidInput
from memdb.integrations.adk.events import said, to_event, to_message
from memdb.integrations.adk.service import MEMORY_SUFFIX, Service, in_turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.adk.events import Event
    from google.adk.sessions import Session

    from memdb import Hit, Scope

# As in ADK's own services.
UNKNOWN_SESSION = "__unknown_session_id__"
MAX_RESULTS = 10

ENTRY = "entry:"
HOST = "adk"

_YES = {"1": True, "true": True, "0": False, "false": False}


class MemdbMemoryService(Service, BaseMemoryService):
    """
    ADK's memory in a memdb file; see `Service` for how it is opened.

    Events are kept in a scope of their own, the app `NAME (memory)`, so a search
    knows what was added and nothing else. Memories added directly are entries of
    the user, the same that `scope.remember` makes: either side finds them.

    A search goes by words, as in ADK's own services; with *by_meaning* also by
    meaning and by what was said beside it.
    """

    _by_meaning = False

    def _configure(self, options: dict[str, Any]) -> None:
        """Take *by_meaning*: True, or in a URI 1 or true."""
        given = options.pop("by_meaning", False)
        known = _YES.get(str(given).lower())
        if known is None:
            raise InvalidInput(f"by_meaning is {given!r}: use true or false")
        self._by_meaning = known

    def _talks(self, app_name: str, user_id: str) -> Scope:
        """Return where events stand."""
        self._scope(app_name, user_id)
        return self._db.scope(user_id, app_name + MEMORY_SUFFIX)

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session; those that are here stay as they are."""
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
        Add events that say something, all or none.

        An event whose id the session has is left as it is, also when it was
        deleted: it does not come back.

        Raises:
            InputValidationError: an id or an event cannot be stored.
        """
        given = list(events)
        custom = dict(custom_metadata or {})

        def write() -> None:
            chat = self._talks(app_name, user_id).session(session_id or UNKNOWN_SESSION)
            told = (event for event in in_turns(given) if said(event.content))
            chat.extend([_kept(event, custom) for event in told], keep=True)

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
        Remember facts; one whose id is known takes the place of what it said.

        Raises:
            InputValidationError: one has no text, or cannot be stored.
        """
        common = dict(custom_metadata or {})
        facts = [_to_fact(memory, common) for memory in memories]

        def write() -> None:
            scope = self._scope(app_name, user_id)
            for fact in facts:
                scope.remember(**fact)

        await self._run(write)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return up to ten memories that match *query*, best first."""

        def read() -> SearchMemoryResponse:
            facts, talks = self._scope(app_name, user_id), self._talks(app_name, user_id)
            hits = self._found(facts, query, "entry") + self._found(talks, query, "message")
            hits.sort(key=lambda hit: (hit.rank, hit.kind))
            entries = [
                _of_fact(facts, hit) if hit.kind == "entry" else _of_event(talks, hit)
                for hit in hits[:MAX_RESULTS]
            ]
            return SearchMemoryResponse(memories=entries)

        return await self._run(read)

    def _found(self, scope: Scope, query: str, kind: str) -> list[Hit]:
        ask = scope.recall if self._by_meaning else scope.search
        return ask(query, MAX_RESULTS, kinds=[kind])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Remove what a memory says, in every session; adding it again brings nothing back."""

        def remove() -> None:
            number = (memory_id or "").removeprefix(ENTRY)
            if memory_id != number and number.isdecimal():
                self._scope(app_name, user_id).entries.delete(int(number))
                return
            talks = self._talks(app_name, user_id)
            for info in talks.sessions():
                chat = talks.session(info.name)
                found = chat.find(memory_id or "")
                if found is not None:
                    chat.erase(found.seq)

        if memory_id:
            await self._run(remove)


def _kept(event: Event, custom: dict[str, Any]) -> Any:
    """Return the message of an event; one without an id gets that of what it says."""
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
    """Return the arguments of `remember` for *memory*, which is kept whole beside its text."""
    text = said(memory.content)
    if not text.strip():
        raise InputValidationError("a memory has no text: only text can be remembered")
    whole = memory.model_dump_json(exclude_none=True, exclude={"custom_metadata"})
    return {
        "text": text,
        "key": f"{HOST}:{memory.id}" if memory.id else None,
        "metadata": {HOST: whole, "custom": {**common, **memory.custom_metadata}},
    }


def _of_fact(facts: Scope, hit: Hit) -> MemoryEntry:
    entry = facts.entries.get(hit.source.entry_id or 0)
    kept = entry.metadata or {}
    name = f"{ENTRY}{entry.id}"
    if HOST in kept:
        memory = MemoryEntry.model_validate_json(kept[HOST])
        return memory.model_copy(update={"id": name, "custom_metadata": kept.get("custom", {})})
    return MemoryEntry(
        id=name,
        content=types.Content(role="user", parts=[types.Part(text=entry.text)]),
        timestamp=_iso(entry.created_ms / 1000),
    )


def _iso(timestamp: float) -> str:
    """Return a time as ADK's services tell it: the local one, without an offset."""
    return datetime.fromtimestamp(timestamp).isoformat()  # noqa: DTZ006
