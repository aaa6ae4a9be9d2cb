"""
An agent of Strands that goes on where it was, with a scripted model.

    python examples/strands_agent.py [FILE]
"""

import sys
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

from memdb.integrations.strands import MemdbSessionRepository


class Script(Model):
    """Tells how many messages it sees; needs no key and no network."""

    def update_config(self, **_: Any) -> None:
        """Take no options."""

    def get_config(self) -> dict[str, Any]:
        """Have no options."""
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Give texts only."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of an answer."""
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": f"I see {len(messages)} messages."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


with MemdbSessionRepository(sys.argv[1] if len(sys.argv) > 1 else ":memory:") as repository:
    for question in ("We fly to Oslo on 3 May.", "When do we fly?"):
        manager = RepositorySessionManager("trip", repository)
        agent = Agent(model=Script(), session_manager=manager, callback_handler=None)
        print(question, agent(question))
