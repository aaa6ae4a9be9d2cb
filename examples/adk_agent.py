"""
An agent of google-adk whose sessions, memory and artifacts are one memdb file.

    pip install 'memdb-sqlite[adk]'
    python examples/adk_agent.py agent.db

The model is a script, so no key and no network are needed. Run it twice: the
second run remembers the first.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext, load_memory
from google.genai import types

import memdb
from memdb.integrations.adk import MemdbArtifactService, MemdbMemoryService, MemdbSessionService

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

APP = "travel"
USER = "ann"


async def save_plan(city: str, tool_context: ToolContext) -> dict[str, object]:
    """Save a plan for a city."""
    trips = tool_context.state.get("user:trips", 0) + 1
    tool_context.state["user:trips"] = trips
    plan = types.Part(text=f"Trip {trips}: {city}\n- passport\n- rain coat\n")
    version = await tool_context.save_artifact("user:plan.txt", plan)
    return {"version": version, "trips": trips}


class Script(BaseLlm):
    """Answers as a script says: asks memory, saves a plan, then speaks."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002 (ADK's signature)
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next line of the script."""
        calls = [
            types.FunctionCall(name="load_memory", args={"query": "peanuts"}),
            types.FunctionCall(name="save_plan", args={"city": "Oslo"}),
        ]
        results = [
            part.function_response
            for content in llm_request.contents[-2:]
            for part in content.parts or []
            if part.function_response
        ]
        if not results:
            parts = [types.Part(function_call=call) for call in calls]
        else:
            known = len(results[0].response["result"].memories)
            trips = results[1].response["trips"]
            parts = [types.Part(text=f"Plan saved, trip {trips}. Memories of peanuts: {known}.")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def main(path: str) -> None:
    """Talk once, and add the talk to the memory."""
    with memdb.open(path) as db:
        async with (
            MemdbSessionService(db) as sessions,
            MemdbMemoryService(db) as memory,
            MemdbArtifactService(db) as artifacts,
        ):
            agent = Agent(
                name="guide", model=Script(model="script"), tools=[load_memory, save_plan]
            )
            runner = Runner(
                app_name=APP,
                agent=agent,
                session_service=sessions,
                memory_service=memory,
                artifact_service=artifacts,
            )
            session = await sessions.create_session(app_name=APP, user_id=USER)
            said = types.Content(role="user", parts=[types.Part(text="Oslo, and no peanuts!")])
            async for event in runner.run_async(
                user_id=USER, session_id=session.id, new_message=said
            ):
                if event.is_final_response():
                    print(event.content.parts[0].text)
            session = await sessions.get_session(app_name=APP, user_id=USER, session_id=session.id)
            await memory.add_session_to_memory(session)
            await runner.close()
        print(db.scope(USER, APP).artifacts.load("plan.txt").text, end="")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agent.db"))
