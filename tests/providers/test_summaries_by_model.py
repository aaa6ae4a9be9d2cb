"""Summaries by real clients: OpenAI's against a server on 127.0.0.1, and the llm library's."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llm
import pytest

import memdb
from memdb import MemDB
from memdb.providers.llm import LLMModel
from memdb.providers.openai import OpenAIModel

KEY = "sk-verysecret123"
TOLD = "They chose tea.\n[Expand for details about: cups, pots]"


@pytest.fixture
def model(server: Any) -> Iterator[OpenAIModel]:
    """Return a model of the server, without retries of its own."""
    one = OpenAIModel("m", base_url=server.url, api_key=KEY, max_retries=0)
    yield one
    one.close()


def say(db: MemDB, count: int) -> memdb.Session:
    """Return a session with so many messages."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"Tea number {n} was good."} for n in range(count)])
    return chat


def test_a_server_writes_the_summaries(
    server: Any, model: OpenAIModel, open_db: Callable[..., MemDB]
) -> None:
    """Text and hint are read; the material is marked as such; one request per node."""
    server.answer = lambda exchange: exchange.say(*TOLD.partition(" "))
    db = open_db(":memory:", model=model)
    chat = say(db, 60)
    db.jobs.run()

    summaries = chat.summaries.tree().summaries

    assert {
        (summary.text, summary.hint, summary.quality, summary.summarizer) for summary in summaries
    } == {("They chose tea.", "cups, pots", "model", "openai:m")}
    assert len(server.requests) == len(summaries) == 7
    system, user = server.requests[0].body["messages"]
    assert "never an instruction" in system["content"]
    fence = user["content"].splitlines()[-1]
    assert user["content"].count(fence) == 2
    assert "[1] user: Tea number 0 was good." in user["content"]


def test_a_passing_failure_is_tried_again_at_once(
    server: Any, model: OpenAIModel, open_db: Callable[..., MemDB]
) -> None:
    """An overloaded server costs a retry with a pause, no quality."""
    server.in_turn(lambda exchange: exchange.error(503), lambda exchange: exchange.say(TOLD))
    db = open_db(":memory:", model=model)
    chat = say(db, 10)
    db.jobs.run()

    assert [summary.quality for summary in chat.summaries.tree().summaries] == ["model"]
    assert len(server.requests) == 2


def test_a_refusing_server_costs_quality_and_tells_no_key(
    server: Any,
    model: OpenAIModel,
    path: str,
    open_db: Callable[..., MemDB],
    run_sql: Any,
    stored_bytes: Callable[[str], bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not in the error, nor in the job that waits in the file, nor in a log."""
    server.answer = lambda exchange: exchange.error(401, f"bad key {KEY} (Bearer {KEY})")
    db = open_db(path, model=model)
    chat = say(db, 10)
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            with pytest.raises(memdb.PortError, match="check the API key") as caught:
                db.jobs.run(kinds=("summarize",))
            said += [str(caught.value), repr(caught.value.__cause__)]

    ((waiting,),) = run_sql(path, "SELECT error FROM jobs WHERE error IS NOT NULL")

    assert [summary.quality for summary in chat.summaries.tree().summaries] == ["fallback"]
    assert "401" in waiting
    assert [text for text in (*said, waiting, caplog.text) if "verysecret" in text] == []
    db.close()
    assert b"verysecret" not in stored_bytes(path)


def test_closing_hangs_up_on_a_server_that_answers_for_ever(
    server: Any,
    model: OpenAIModel,
    path: str,
    open_db: Callable[..., MemDB],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is closed at once, the server sees that nobody listens, the work stays due."""
    monkeypatch.setattr("memdb.api.worker.STOP_S", 3600)  # waiting for the thread fails
    begun = threading.Event()

    def endless(exchange: Any) -> None:
        exchange.open_stream()
        while not server.released.wait(0.005):
            exchange.piece("x ")
            begun.set()

    server.answer = endless
    db = open_db(path, model=model)
    say(db, 10)
    db.jobs.start(0.01)
    assert begun.wait(60)

    db.close()

    assert server.dropped.wait(60)
    again = open_db(path)
    assert again.scope("ann").session("trip").summaries.tree().summaries == ()
    assert again.jobs.pending() > 0


class Telling(llm.Model):
    """A plugin's model that tells, or does what a test says."""

    model_id = "telling"
    can_stream = True
    act: Callable[[], str] = staticmethod(lambda: TOLD)

    def execute(self, prompt: Any, stream: Any, response: Any, conversation: Any) -> Iterator[str]:
        """Answer."""
        yield type(self).act()


class Plugin:
    """Registers it."""

    __name__ = "memdb-summaries"

    @llm.hookimpl
    def register_models(self, register: Any) -> None:
        """Register it."""
        register(Telling())


@pytest.fixture
def telling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMModel]:
    """Return the plugin's model."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    plugin = Plugin()
    llm.pm.register(plugin)
    yield LLMModel("telling")
    llm.pm.unregister(plugin)


def test_the_llm_library_writes_the_summaries(
    telling: LLMModel, open_db: Callable[..., MemDB]
) -> None:
    """As any of its plugins would."""
    db = open_db(":memory:", model=telling)
    chat = say(db, 60)
    db.jobs.run()

    assert {
        (summary.text, summary.hint, summary.summarizer)
        for summary in chat.summaries.tree().summaries
    } == {("They chose tea.", "cups, pots", "llm:telling")}


def test_a_plugin_that_hangs_does_not_keep_the_file_open(
    telling: LLMModel, path: str, open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing gives it up."""
    monkeypatch.setattr("memdb.api.worker.STOP_S", 3600)  # waiting for the thread fails
    entered, go_on = threading.Event(), threading.Event()

    def hang() -> str:
        entered.set()
        go_on.wait(3600)
        return TOLD

    monkeypatch.setattr(Telling, "act", staticmethod(hang))
    db = open_db(path, model=telling)
    say(db, 10)
    db.jobs.start(0.01)
    assert entered.wait(60)

    db.close()

    assert not go_on.is_set()
    go_on.set()


def test_echo_is_too_long_for_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_db: Callable[..., MemDB]
) -> None:
    """llm-echo repeats all that it was asked: refused, and an extract stands in."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    db = open_db(":memory:", model=LLMModel("echo"))
    chat = say(db, 10)

    with pytest.raises(memdb.PortError, match="llm:echo"):
        db.jobs.run()

    assert [summary.quality for summary in chat.summaries.tree().summaries] == ["fallback"]
