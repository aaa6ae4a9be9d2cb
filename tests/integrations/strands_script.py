"""A model of Strands that answers from a list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from strands.models import Model


class Script(Model):
    """Answers with the next message of a list."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        """Give *answers*, each the content of a message."""
        self.answers = list(answers)
        self.seen: list[Any] = []

    def update_config(self, **_: Any) -> None:
        """Take no options."""

    def get_config(self) -> dict[str, Any]:
        """Have no options."""
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Never be asked."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of the next answer."""
        self.seen.append([dict(one) for one in messages])
        content = self.answers.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        for block in content:
            call = block.get("toolUse")
            start = (
                {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}} if call else {}
            )
            yield {"contentBlockStart": {"start": start}}
            delta = {"toolUse": {"input": "{}"}} if call else {"text": block["text"]}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        stop = "tool_use" if any("toolUse" in block for block in content) else "end_turn"
        yield {"messageStop": {"stopReason": stop}}
