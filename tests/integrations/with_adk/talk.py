"""A scripted conversation of 24 turns with ADK's own Runner, for any set of services."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from google.adk.agents import Agent, BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.runners import Runner
from google.adk.tools import ToolContext, load_artifacts, load_memory
from google.genai import types

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

WHO = {"app_name": "travel", "user_id": "ann"}
TURNS = 24


class Script(BaseLlm):
    """Calls the tools that the user's line names, then tells what they answered."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield pieces of a text when streaming, then the whole answer."""
        last = list(llm_request.contents[-1].parts or [])
        results = [part.function_response for part in last if part.function_response]
        said = " ".join(part.text for part in last if part.text)
        if results:
            told = "; ".join(f"{one.name}={_plain(one.response)}" for one in results)
            parts = [types.Part(text=f"Done {told}")]
        elif said.startswith("call "):
            calls = json.loads(said.removeprefix("call "))
            parts = [
                types.Part(text="One moment."),
                *(
                    types.Part(function_call=types.FunctionCall(name=name, args=args))
                    for name, args in calls
                ),
            ]
        else:
            parts = [
                types.Part(text=f"You said: {said[:14]}. History {len(llm_request.contents)}.")
            ]
            if stream:
                half = types.Part(text=parts[0].text[:8])
                yield LlmResponse(content=types.Content(role="model", parts=[half]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def _plain(response: Any) -> str:
    shown = response.get("result", response)
    if hasattr(shown, "memories"):
        texts = [memory.content.parts[0].text for memory in shown.memories]
        return f"{len(texts)} memories"
    return str(shown)


async def note(key: str, value: str, tool_context: ToolContext) -> dict[str, Any]:
    """Keep a value in the state under a key, and count in every scope."""
    tool_context.state[key] = {"said": value, "n": [1, None, 0.1]}
    for scope in ("user:count", "app:count", "temp:count", "count"):
        tool_context.state[scope] = tool_context.state.get(scope, 0) + 1
    return {"counts": [tool_context.state[s] for s in ("user:count", "app:count", "temp:count")]}


async def write(name: str, text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Save an artifact, as text or as bytes."""
    part = types.Part(text=text)
    if name.endswith(".bin"):
        part = types.Part(inline_data=types.Blob(mime_type="image/png", data=text.encode() + b"\0"))
    version = await tool_context.save_artifact(name, part, custom_metadata={"by": "write"})
    return {"version": version}


async def names(tool_context: ToolContext) -> dict[str, Any]:
    """List the artifacts."""
    return {"names": await tool_context.list_artifacts()}


async def fail(tool_context: ToolContext) -> dict[str, Any]:
    """Change the state and fail."""
    tool_context.state["failed"] = True
    return {"error": "no"}


async def before(callback_context: CallbackContext) -> None:
    """Count the runs of an agent in its state."""
    callback_context.state["runs"] = callback_context.state.get("runs", 0) + 1


class Team(BaseAgent):
    """Runs its agents one after the other."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        for member in self.sub_agents:
            async for one in member.run_async(ctx):
                yield one


def agent() -> Team:
    """Return two agents in a row; the first one's answer reaches the second through temp state."""
    guide = Agent(
        name="guide",
        model=Script(model="script"),
        tools=[note, write, names, fail, load_memory, load_artifacts],
        output_key="temp:answer",
        before_agent_callback=before,
    )
    clerk = Agent(
        name="clerk",
        model=Script(model="script"),
        instruction="The guide answered: {temp:answer?}",
        output_key="last",
    )
    return Team(name="team", sub_agents=[guide, clerk])


def lines() -> list[str]:
    """Return what the user says, turn by turn."""
    said = []
    for turn in range(TURNS):
        kind = turn % 6
        if kind == 0:
            said.append(f"Hello number {turn}, my cat is called Milo{turn} \u4f60")
        elif kind == 1:
            said.append(
                "call " + json.dumps([["note", {"key": f"k{turn % 4}", "value": f"v{turn}"}]])
            )
        elif kind == 2:
            said.append(
                "call "
                + json.dumps(
                    [
                        ["write", {"name": "plan.txt", "text": f"plan {turn}"}],
                        ["write", {"name": "user:logo.bin", "text": f"logo {turn}"}],
                    ]
                )
            )
        elif kind == 3:
            said.append("call " + json.dumps([["fail", {}], ["note", {"key": "x", "value": "y"}]]))
        elif kind == 4:
            said.append(
                "call " + json.dumps([["load_memory", {"query": f"Milo{turn - 4}"}], ["names", {}]])
            )
        else:
            said.append(f"Just words {turn}")
    return said


async def talk(sessions: Any, memory: Any, artifacts: Any) -> dict[str, Any]:
    """Run the conversation and return everything that can be seen of it."""
    numbers = itertools.count(1)
    platform_uuid.set_id_provider(lambda: f"id-{next(numbers)}")
    try:
        return await _talk(sessions, memory, artifacts)
    finally:
        platform_uuid.reset_id_provider()
        platform_time.reset_time_provider()


async def _talk(sessions: Any, memory: Any, artifacts: Any) -> dict[str, Any]:
    runner = Runner(
        app_name=WHO["app_name"],
        agent=agent(),
        session_service=sessions,
        memory_service=memory,
        artifact_service=artifacts,
    )
    _stand_at(-1)
    await sessions.create_session(**WHO, session_id="trip", state={"app:start": 1, "own": "x"})
    streamed, invocations = [], []
    for turn, said in enumerate(lines()):
        _stand_at(turn)
        content = types.Content(role="user", parts=[types.Part(text=said)])
        async for one in runner.run_async(
            user_id="ann", session_id="trip", new_message=content, state_delta={"turn": said[:9]}
        ):
            streamed.append(shown(one))
            invocations.append(one.invocation_id)
        session = await sessions.get_session(**WHO, session_id="trip")
        await memory.add_session_to_memory(session)
    await runner.rewind_async(
        user_id="ann", session_id="trip", rewind_before_invocation_id=invocations[-9]
    )
    await sessions.create_session(**WHO, session_id="other")
    session = await sessions.get_session(**WHO, session_id="trip")
    other = await sessions.get_session(**WHO, session_id="other")
    await runner.close()
    return {
        "streamed": streamed,
        "events": [shown(one) for one in session.events],
        "state": session.state,
        "last_update_time": session.last_update_time,
        "other": other.state,
        "listed": [one.id for one in (await sessions.list_sessions(**WHO)).sessions],
        "user": await sessions.get_user_state(**WHO),
        "files": await _files(artifacts),
    }


def _stand_at(turn: int) -> None:
    """Give every event of a turn one time: ADK's services ask for it more or less often."""
    platform_time.set_time_provider(lambda: 1_700_000_000 + turn + 0.125)


async def _files(artifacts: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in await artifacts.list_artifact_keys(**WHO, session_id="trip"):
        where = {**WHO, "session_id": "trip", "filename": name}
        for version in await artifacts.list_versions(**where):
            part = await artifacts.load_artifact(**where, version=version)
            known = await artifacts.get_artifact_version(**where, version=version)
            found[f"{name}@{version}"] = (
                part and part.model_dump(mode="json", exclude_none=True),
                known.mime_type,
                known.custom_metadata,
            )
        latest = await artifacts.load_artifact(**where)
        found[name] = latest and latest.model_dump(mode="json", exclude_none=True)
    return found


def shown(event: Any) -> dict[str, Any]:
    """Return an event as JSON."""
    return event.model_dump(mode="json", exclude_none=True)
