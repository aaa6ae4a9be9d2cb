"""What docs/openai-agents.md and the docstrings show is true."""

from __future__ import annotations

import asyncio
import functools

import agents
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage
from pages import blocks, run_block, run_doctests


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    """With a scripted model in place of OpenAI's."""
    agents.set_tracing_disabled(True)
    monkeypatch.chdir(tmp_path)
    said = {
        "id": "m",
        "content": [{"annotations": [], "text": "Noted.", "type": "output_text"}],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }
    model = ScriptedModel([[ResponseOutputMessage.model_validate(said)]])
    monkeypatch.setattr(agents, "Agent", functools.partial(agents.Agent, model=model))
    (code,) = blocks("openai-agents.md", "python")

    result = run_block(code)

    assert result["result"].final_output == "Noted."
    assert len(asyncio.run(result["session"].get_items())) == 2
    result["session"].close()


def test_the_docstrings_are_true():
    """Their examples give what stands below them."""
    assert run_doctests("memdb.integrations.openai_agents") > 0
