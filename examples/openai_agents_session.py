"""
A conversation of the OpenAI Agents SDK in a memdb file, with a scripted model.

    python examples/openai_agents_session.py [FILE]
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from agents import Agent, RunConfig, Runner, set_tracing_disabled
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memdb.integrations.openai_agents import MemDBSession


def said(text: str) -> list[ResponseOutputMessage]:
    """Return a model's answer."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return [
        ResponseOutputMessage(
            id="m", content=[content], role="assistant", status="completed", type="message"
        )
    ]


async def main(path: str) -> None:
    """Talk twice, search, and go on in another way from the second turn."""
    model = ScriptedModel([said("Noted: Oslo, 3 May."), said("On 3 May."), said("To Oslo.")])
    agent = Agent(name="guide", model=model)
    async with MemDBSession("trip", path, user="ann") as session:
        config = RunConfig(session_input_callback=session.within(4000))
        for question in ("We fly to Oslo on 3 May.", "When do we fly?"):
            result = await Runner.run(agent, question, session=session, run_config=config)
            print(f"{question} {result.final_output}")
        print((await session.search("Oslo"))[0].text)
        branch = await session.create_branch_from_turn(2)
        result = await Runner.run(agent, "Where do we fly?", session=session, run_config=config)
        print(f"Where do we fly? {result.final_output}")
        print(len(await session.get_items()), "items in", branch.rpartition("_")[0])


if __name__ == "__main__":
    set_tracing_disabled(True)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agent.db")))
