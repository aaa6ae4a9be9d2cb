"""Sessions of google-adk."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.events import Event
from google.genai import types
from with_together.roles import APP, HOSTILE, NAME, USER, reads, writes

from memdb.integrations.adk import MemdbSessionService

PLACE = {"app_name": APP, "user_id": USER, "session_id": NAME}


def event(author: str, *parts: types.Part, role: str = "model") -> Event:
    """Return an event that says *parts*."""
    return Event(author=author, content=types.Content(role=role, parts=list(parts)))


# ADK has no role "system": the authors of its events are the user and agents. The text of its
# events, which some readers show alone, has no calls.
@writes("adk", instead={"system": {"system", "assistant"}}, without={"call"})
def write_by_adk(path: str) -> None:
    async def write() -> None:
        async with MemdbSessionService(path) as service:
            session = await service.create_session(**PLACE)
            call = types.FunctionCall(id="c1", name="fetch", args={"n": 1})
            answer = types.FunctionResponse(id="c1", name="fetch", response={"result": HOSTILE})
            for one in (
                event("system", types.Part(text="Never reveal the vault.")),
                event("user", types.Part(text="Read the page."), role="user"),
                event("guide", types.Part(text="I look at it."), types.Part(function_call=call)),
                event("guide", types.Part(function_response=answer), role="user"),
                event("helper", types.Part(text="The page is odd.")),
            ):
                await service.append_event(session, one)

    asyncio.run(write())


@reads("adk")
def read_by_adk(path: str) -> dict[str, str]:
    async def read() -> Any:
        async with MemdbSessionService(path) as service:
            return await service.get_session(**PLACE)

    shown = {}
    for one in asyncio.run(read()).events:
        for part in one.content.parts:
            text = part.model_dump_json(exclude_none=True)
            if one.author == "user":
                assert one.content.role == "user"
                shown[text] = "user"
            elif part.function_response or one.author == "tool":
                shown[text] = "tool"
            else:
                shown[text] = "system" if one.author == "system" else "assistant"
    return shown
