"""
An agent of agno that goes on where it was, with a scripted model.

    python examples/agno_agent.py [FILE]
"""

import sys
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from memdb.integrations.agno import MemdbDb


class Script(Model):
    """Tells how many messages it sees; needs no key and no network."""

    def __init__(self) -> None:
        """Have a name."""
        super().__init__(id="script")

    def invoke(self, messages: list[Any], **_: Any) -> ModelResponse:
        """Return the answer."""
        return ModelResponse(role="assistant", content=f"I see {len(messages)} messages.")

    async def ainvoke(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the answer."""
        return self.invoke(*args, **options)

    def invoke_stream(self, *args: Any, **options: Any) -> Any:
        """Yield the answer."""
        yield self.invoke(*args, **options)

    async def ainvoke_stream(self, *args: Any, **options: Any) -> Any:
        """Yield the answer."""
        yield self.invoke(*args, **options)

    def _parse_provider_response(self, response: Any, **_: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


with MemdbDb(sys.argv[1] if len(sys.argv) > 1 else ":memory:") as db:
    for question in ("We fly to Oslo on 3 May.", "When do we fly?"):
        agent = Agent(
            model=Script(), db=db, session_id="trip", add_history_to_context=True, telemetry=False
        )
        print(question, agent.run(question).content)
