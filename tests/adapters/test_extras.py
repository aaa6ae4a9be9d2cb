"""Without the package of a client, the adapter's error says what to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

# By adapter: the package that it needs.
NEEDS = {
    "adk": "google.adk",
    "agent_framework": "agent_framework",
    "agno": "agno",
    "anthropic": "anthropic",
    "claude_agent": "claude_agent_sdk",
    "crewai": "crewai",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llamaindex": "llama_index",
    "pydantic_ai": "pydantic_ai",
    "pydantic_harness": "pydantic_ai_harness",
    "strands": "strands",
}


@pytest.mark.parametrize("adapter", NEEDS)
def test_an_adapter_without_its_client_names_the_extra(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra has the name of the adapter."""
    module = f"memdb.integrations.{adapter}"
    for name in [one for one in sys.modules if f"{one}.".startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, NEEDS[adapter], None)
    before = {*sys.modules}

    with pytest.raises(ImportError, match="pip install") as caught:
        import_module(module)

    for name in sys.modules.keys() - before:
        monkeypatch.delitem(sys.modules, name)
    assert f"'memdb-sqlite[{adapter.replace('_', '-')}]'" in str(caught.value)
