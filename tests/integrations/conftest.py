"""Tests of a client stand in `with_<client>/`, and are skipped where it is not installed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from conftest import is_installed
from tenants import Files, make_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# What has to be importable for the tests of a folder. `make clients CLIENT=...` installs it.
PACKAGES = {
    "adk": ["google.adk"],
    "agent_framework": ["agent_framework"],
    "agno": ["agno"],
    "anthropic": ["anthropic"],
    "claude_agent": ["claude_agent_sdk"],
    "crewai": ["crewai"],
    "langchain": ["langchain_core"],
    "langgraph": ["langgraph.checkpoint", "langgraph.store"],
    "llamaindex": ["llama_index.core"],
    "llm": ["llm"],
    "mcp": ["mcp"],
    "openai_agents": ["agents"],
    "pydantic_ai": ["pydantic_ai.conversation_store"],
    "pydantic_harness": ["pydantic_ai_harness.memory"],
    "strands": ["strands"],
    "together": [],  # its tests take those that are there
}
PREFIX = "with_"


class Absent(pytest.Item):
    """Stands for the tests of a client that is not installed."""

    def runtest(self) -> None:
        """Say what to do."""
        client = self.path.name.removeprefix(PREFIX)
        pytest.skip(f"{self.name} is not installed: run `make clients CLIENT={client}`")

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where it stands: a skip by a mark needs a line."""
        return self.path, 0, self.name


class AbsentClient(pytest.Directory):
    """A folder whose client is not installed."""

    def collect(self) -> Iterator[Absent]:
        """Yield one test that is skipped."""
        yield Absent.from_parent(self, name=_missing(self.path))


def _missing(folder: Path) -> str:
    is_client = folder.name.startswith(PREFIX)
    return _packages_missing(folder.name.removeprefix(PREFIX)) if is_client else ""


def _packages_missing(client: str) -> str:
    return ", ".join(name for name in PACKAGES.get(client, ()) if not is_installed(name))


@pytest.fixture
def packages_missing() -> Callable[[str], str]:
    """Return a function that names the packages of a client that are not installed."""
    return _packages_missing


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Leave a folder's modules alone if its client is missing."""
    return AbsentClient.from_parent(parent, path=path) if _missing(path) else None


@pytest.fixture(scope="session")
def two_databases(
    tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]
) -> tuple[Any, Any]:
    """Return what a database holds in which ann is alone, and one with other users."""
    return make_files(tmp_path_factory.mktemp("tenants"), make_kept)


@pytest.fixture
def files(tmp_path: Path, two_databases: tuple[Any, Any]) -> Iterator[Files]:
    """Return both files, open; see `apart.py`."""
    made = Files(tmp_path, two_databases)
    yield made
    made.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return an event loop that is closed at the end."""
    made = asyncio.new_event_loop()
    yield made
    made.close()
