"""Odd values in messages and state: they come back, or are a SessionException; never half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from odd_values import IDS, VALUES, assert_kept_or_refused, looks
from strands import Agent
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from strands_script import Script

import memdb
from memdb.integrations.strands import MemdbSessionRepository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STORABLE = {
    *("NUL", "NUL in a key", "half a character", "half a character in a key", "NaN", "infinity"),
    *("NUL and half a character", "a text that says NaN", "an emoji", "160 levels", "bytes"),
    "what packed values look like",
}


class Swarm:
    """Several agents, whose state is given."""

    def __init__(self, state: Any) -> None:
        """Have *state*."""
        self.id = "g"
        self.state = state

    def serialize_state(self) -> dict[str, Any]:
        """Return it as Strands asks for it."""
        return {"v": self.state}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[MemdbSessionRepository]:
    """Return one with a session and an agent that said something."""
    with MemdbSessionRepository(tmp_path / "a.db", durability="process") as made:
        made.create_session(Session("t", SessionType.AGENT))
        made.create_agent("t", SessionAgent("a", {}, {}))
        made.create_message("t", "a", message([{"text": "Hi."}], 0))
        yield made


def message(content: Any, number: int) -> SessionMessage:
    """Return a message of a user."""
    return SessionMessage({"role": "user", "content": content}, number)


def listed(repository: MemdbSessionRepository) -> list[Any]:
    """Return all messages of the agent."""
    return [one.message for one in repository.list_messages("t", "a")]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("is_new", [True, False])
def test_odd_state_of_an_agent(
    repository: MemdbSessionRepository, name: str, *, is_new: bool
) -> None:
    """Of a new one and of one that is updated."""
    put = repository.create_agent if is_new else repository.update_agent
    number = "b" if is_new else "a"

    def read() -> Any:
        found = repository.read_agent("t", number)
        return found and found.state

    kept = assert_kept_or_refused(
        name,
        lambda value: put("t", SessionAgent(number, {"v": value}, {})),
        read,
        SessionException,
        restored=lambda found: found["v"],
    )
    # Strands 1.30 gives bytes as they are.
    assert kept == (name in STORABLE) or name == "bytes"


@pytest.mark.parametrize("name", VALUES)
def test_odd_state_of_several_agents(repository: MemdbSessionRepository, name: str) -> None:
    """Of graphs and swarms."""
    swarm: Any = Swarm(1)
    repository.create_multi_agent("t", swarm)
    kept = assert_kept_or_refused(
        name,
        lambda value: repository.update_multi_agent("t", Swarm(value)),
        lambda: repository.read_multi_agent("t", "g"),
        SessionException,
        restored=lambda found: found["v"],
    )
    assert kept == (name in STORABLE)


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_value_in_a_message(repository: MemdbSessionRepository, name: str) -> None:
    """Of a tool's call; the conversation can be read whatever was given."""
    kept = assert_kept_or_refused(
        name,
        lambda value: repository.create_message("t", "a", message(
            [{"toolUse": {"toolUseId": "1", "name": "n", "input": {"v": value}}}], 1)),
        lambda: listed(repository),
        SessionException,
        restored=lambda found: found[1]["content"][0]["toolUse"]["input"]["v"],
    )  # fmt: skip
    assert kept == (name in STORABLE)


@pytest.mark.parametrize("content", [None, "text", 5, {}, [None], ["text"], [5], [[]], {"text": 1}])
def test_content_that_is_no_list_of_blocks_is_refused(
    repository: MemdbSessionRepository, content: Any
) -> None:
    """New, updated or redacted."""
    new, redacted = message(content, 1), message([{"text": "Hi."}], 0)
    redacted.redact_message = {"role": "user", "content": content}
    for call in (
        lambda: repository.create_message("t", "a", new),
        lambda: repository.update_message("t", "a", message(content, 0)),
        lambda: repository.update_message("t", "a", redacted),
    ):
        with pytest.raises(SessionException, match="not a list of blocks"):
            call()
    assert listed(repository) == [{"role": "user", "content": [{"text": "Hi."}]}]


@pytest.mark.parametrize(
    "block",
    [{}, {"text": None}, {"text": 5}, {"toolUse": None}, {"toolUse": {}}, {"toolResult": None},
     {"toolResult": {"content": None}}, {"toolResult": {"content": ["x"]}}, {"image": None},
     {"image": {"source": None}}, {"cachePoint": {"type": "default"}}, {"unknown": [1]},
     {"reasoningContent": None}, {"document": {}}, {"type": "text"}, {"type": None, "text": []}],
    ids=repr,
)  # fmt: skip
def test_odd_blocks_come_back_or_are_refused(
    repository: MemdbSessionRepository, block: dict[str, Any]
) -> None:
    """No block ends the reading of a conversation."""
    try:
        repository.create_message("t", "a", message([block], 1))
    except SessionException:
        assert len(listed(repository)) == 1
    else:
        assert listed(repository)[1]["content"] == [block]


@pytest.mark.parametrize("value", ["bin\0ary", "a\ud800", float("nan")])
def test_an_agent_answers_with_odd_state(repository: MemdbSessionRepository, value: Any) -> None:
    """The answer of a run is stored, and the next process has the state."""
    manager = RepositorySessionManager("run", repository)
    agent = Agent(model=Script([{"text": "Yes."}]), session_manager=manager, callback_handler=None)
    agent.state.set("last", value)
    agent("Well?")
    again = Agent(
        model=Script(),
        session_manager=RepositorySessionManager("run", repository),
        callback_handler=None,
    )
    assert [one["role"] for one in again.messages] == ["user", "assistant"]
    assert looks(again.state.get("last")) == looks(value)


@pytest.mark.parametrize("name", IDS)
def test_odd_ids_are_value_errors(repository: MemdbSessionRepository, name: str) -> None:
    """As Strands' own managers raise them."""
    odd = IDS[name]
    calls: list[Callable[[], object]] = [
        lambda: repository.read_session(odd),
        lambda: repository.delete_session(odd),
        lambda: repository.read_agent("t", odd),
        lambda: repository.create_session(Session(odd, SessionType.AGENT)),
        lambda: repository.list_messages("t", odd),
        lambda: repository.read_multi_agent("t", odd),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="_id"):
            call()
    if type(odd) is not int:
        with pytest.raises(ValueError, match="message id"):
            repository.read_message("t", "a", odd)


@pytest.mark.parametrize("value", [5, None, "text", [], {}, {"session_id": 5}, {"$json": "["}])
def test_what_others_changed_is_a_session_exception(
    repository: MemdbSessionRepository, value: Any
) -> None:
    """No raw error of Python, whatever is there."""
    with memdb.open(repository._db.path) as db:
        scope = db.scope("default")
        scope.items.put(("strands", "sessions"), "t", value)
        scope.session("t/a").state.put("strands", value)
    for call in (
        lambda: repository.read_session("t"),
        lambda: repository.read_agent("t", "a"),
        lambda: repository.update_agent("t", SessionAgent("a", {}, {})),
    ):
        with pytest.raises(SessionException):
            call()


def test_a_closed_file_is_a_session_exception(tmp_path: Path) -> None:
    """Of every call."""
    repository = MemdbSessionRepository(tmp_path / "a.db")
    repository.close()
    with pytest.raises(SessionException, match="closed"):
        repository.read_session("t")
    with pytest.raises(SessionException, match="closed"):
        repository.create_message("t", "a", message(None, 1))
