"""Users apart through the services of ADK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from apart import compare_services, coroutines
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions import Session
from google.genai import types
from isolated import names_of_others
from tenants import NOW_MS
from tenants import SECRETS as S

from memdb.integrations.adk import MemdbArtifactService, MemdbMemoryService, MemdbSessionService

if TYPE_CHECKING:
    import asyncio

    from tenants import Files

WHO = {"app_name": "default", "user_id": "ann"}
HERS = {**WHO, "session_id": "trip"}
THEIRS = {**WHO, "session_id": S["session"]}
ONE = {"filename": "menu.md"}
OTHER = {"filename": S["artifact"]}


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ADK's clock stand still."""
    monkeypatch.setattr(platform_time, "get_time", lambda: NOW_MS / 1000)


def event(text: str, event_id: str) -> Any:
    """Return an event with state for every place."""
    return Event(
        id=event_id,
        author="user",
        timestamp=NOW_MS / 1000,
        invocation_id="i",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta={"a": 1, "user:b": 2, "app:c": 3}),
    )


def test_every_call_of_the_adk_session_service_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop, frozen: None
) -> None:
    """Sessions, events and state."""

    async def append(service: Any, name: str, event_id: str) -> object:
        session = await service.get_session(**WHO, session_id=name) or Session(id=name, **WHO)
        return await service.append_event(session, event("more tea", event_id))

    tried = compare_services(
        files,
        loop,
        MemdbSessionService,
        [
            ("get_session", lambda service: service.get_session(**HERS)),
            ("get_session", lambda service: service.get_session(**THEIRS)),
            ("list_sessions", lambda service: service.list_sessions(**WHO)),
            ("get_user_state", lambda service: service.get_user_state(**WHO)),
            ("create_session", lambda service: service.create_session(**THEIRS, state={"x": 1})),
            (
                "create_session",
                lambda service: service.create_session(**WHO, session_id=S["archived_session"]),
            ),
            ("append_event", lambda service: append(service, "trip", "new")),
            ("append_event", lambda service: append(service, "trip", f"{S['external_id']}-0")),
            ("append_event", lambda service: append(service, S["forked_session"], "e")),
            (
                "delete_session",
                lambda service: service.delete_session(**WHO, session_id=S["summarised_session"]),
            ),
            ("delete_session", lambda service: service.delete_session(**HERS)),
        ],
    )
    assert coroutines(MemdbSessionService) - tried == {"aclose", "close", "flush"}


def test_every_call_of_the_adk_memory_service_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop, frozen: None
) -> None:
    """Memories, and the events in the app that only this service reads."""
    number = names_of_others(files.beside).entry

    def memory(text: str, memory_id: str) -> Any:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        return MemoryEntry(id=memory_id, content=content)

    tried = compare_services(
        files,
        loop,
        lambda db: MemdbMemoryService(db, by_meaning=True),
        [
            ("search_memory", lambda service: service.search_memory(**WHO, query="Oslo lamp tea")),
            ("search_memory", lambda service: service.search_memory(**WHO, query=S["text"])),
            (
                "add_session_to_memory",
                lambda service: service.add_session_to_memory(
                    Session(id="trip", **WHO, events=[event("red tea", "1")])
                ),
            ),
            (
                "add_events_to_memory",
                lambda service: service.add_events_to_memory(
                    **THEIRS, events=[event("tea", f"{S['external_id']}-0")]
                ),
            ),
            (
                "add_memory",
                lambda service: service.add_memory(
                    **WHO, memories=[memory("a lamp", "m"), memory("a cup", f"entry:{number}")]
                ),
            ),
            ("search_memory", lambda service: service.search_memory(**WHO, query="red lamp tea")),
            (
                "delete_memory",
                lambda service: service.delete_memory(**WHO, memory_id=f"entry:{number}"),
            ),
            (
                "delete_memory",
                lambda service: service.delete_memory(**WHO, memory_id=f"{S['external_id']}-1"),
            ),
            ("search_memory", lambda service: service.search_memory(**WHO, query="cup tea")),
        ],
    )
    assert coroutines(MemdbMemoryService) - tried == {"aclose", "close"}


def test_every_call_of_the_adk_artifact_service_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop, frozen: None
) -> None:
    """Names, bytes and versions."""
    part = types.Part(text="soup")
    tried = compare_services(
        files,
        loop,
        MemdbArtifactService,
        [
            ("list_artifact_keys", lambda service: service.list_artifact_keys(**HERS)),
            ("list_artifact_keys", lambda service: service.list_artifact_keys(**THEIRS)),
            ("list_artifact_keys", lambda service: service.list_artifact_keys(**WHO)),
            ("load_artifact", lambda service: service.load_artifact(**HERS, **ONE)),
            ("load_artifact", lambda service: service.load_artifact(**THEIRS, **OTHER)),
            ("list_versions", lambda service: service.list_versions(**HERS, **ONE)),
            ("list_versions", lambda service: service.list_versions(**THEIRS, **OTHER)),
            (
                "list_artifact_versions",
                lambda service: service.list_artifact_versions(**HERS, **ONE),
            ),
            (
                "list_artifact_versions",
                lambda service: service.list_artifact_versions(**THEIRS, **OTHER),
            ),
            ("get_artifact_version", lambda service: service.get_artifact_version(**HERS, **ONE)),
            (
                "get_artifact_version",
                lambda service: service.get_artifact_version(**THEIRS, **OTHER),
            ),
            ("save_artifact", lambda service: service.save_artifact(**HERS, **ONE, artifact=part)),
            (
                "save_artifact",
                lambda service: service.save_artifact(**HERS, **OTHER, artifact=part),
            ),
            ("delete_artifact", lambda service: service.delete_artifact(**THEIRS, **OTHER)),
            ("delete_artifact", lambda service: service.delete_artifact(**HERS, **ONE)),
        ],
    )
    assert coroutines(MemdbArtifactService) - tried == {"aclose", "close"}
