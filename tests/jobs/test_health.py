"""What fails in the background is seen at every look, and why, until it works."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import PortError

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB


class Embedder:
    """Fails while it is down; refuses texts that say BAD."""

    name, dim = "picky", 2
    down = refuses = False

    def embed(self, texts: Any) -> Any:
        """Return a vector per text."""
        if self.down or (self.refuses and any("BAD" in text for text in texts)):
            raise RuntimeError("401 invalid api key")
        return [[1.0, len(text)] for text in texts]


class Model:
    """Fails while it is down."""

    name = "bad"
    down = True

    def complete(self, *_: object, **__: object) -> str:
        """Return a summary."""
        if self.down:
            raise TypeError("boom 500")
        return "A summary."


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait until *is_so*, a minute at most."""
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.02)
    pytest.fail("it did not happen within a minute")


class Stuck:
    """Each port in one: its first call fails, the next one waits until `go`."""

    name, dim, quality = "stuck", 2, "model"

    def __init__(self) -> None:
        """Wait for nobody yet."""
        self.go, self.calls = threading.Event(), 0

    def _call(self) -> None:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("503 overloaded")
        self.go.wait(60)

    def embed(self, texts: Any) -> Any:
        """Return a vector per text."""
        self._call()
        return [[1.0, len(text)] for text in texts]

    def complete(self, *_: object, **__: object) -> str:
        """Return what is a summary, and facts too."""
        self._call()
        return '{"facts": []}'

    def summarize(self, *_: object, **__: object) -> memdb.SummaryText:
        """Return a summary."""
        self._call()
        return memdb.SummaryText("A summary.")


@pytest.mark.parametrize(
    ("port", "kind"),
    [
        ("embedder", "embed"),
        ("model", "summarize"),
        ("summarizer", "summarize"),
        ("model", "extract"),
    ],
    ids=str,
)
def test_the_first_failure_is_seen_while_the_port_is_tried_again(
    open_db: Callable[..., MemDB], port: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the worker, in stats and in the log; gone as soon as a later try succeeds."""
    stuck: Any = Stuck()
    settings = memdb.Settings(extract=kind == "extract", extract_every=1)
    db = open_db(
        ":memory:", counter="estimate", settings=settings, **{"embedder": None, port: stuck}
    )
    chat = db.scope("ann").session("s")
    chat.extend(
        [{"role": "user", "text": f"line {number}"} for number in range(20)][
            : 1 if kind == "extract" else 20
        ]
    )
    worker = db.jobs.start(0.01)
    wait_until(lambda: stuck.calls == 2)

    assert "503 overloaded" in str(worker.error)
    assert "503 overloaded" in str(db.stats().failures[kind].error)
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"jobs.{kind} failed after ")

    stuck.go.set()
    wait_until(lambda: worker.error is None and db.stats().failures == {})
    worker.stop()


def test_a_model_that_fails_once_leaves_its_reason_in_the_file(
    open_db: Callable[..., MemDB], path: str
) -> None:
    """An extract stands in; another process sees why, and when the model is asked again."""
    db = open_db(path, model=Model(), embedder=None, counter="estimate")
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"line {number}"} for number in range(20)])
    with pytest.raises(PortError):
        db.jobs.run(limit=1)

    (queue,) = [one for one in open_db(path).stats().queue if one.error]

    assert (queue.kind, queue.attempts) == ("summarize", 1)
    assert "boom" in str(queue.error)


@pytest.mark.parametrize("port", ["embedder", "model"])
def test_a_port_that_always_fails_is_seen_in_every_look(
    open_db: Callable[..., MemDB], port: str
) -> None:
    """In the worker, in stats with reason and time, and gone once it works."""
    broken: Any = Embedder() if port == "embedder" else Model()
    broken.down = True
    db = open_db(":memory:", **{port: broken}, counter="estimate")
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"line {number}"} for number in range(20)])
    worker = db.jobs.start(0.01)
    wait_until(lambda: worker.error)

    kind, reason = ("embed", "401") if port == "embedder" else ("summarize", "boom")
    seen = []
    for _ in range(100):
        time.sleep(0.002)
        stats = db.stats()
        failure = stats.failures.get(kind)
        seen.append(worker.error is not None and failure is not None and not stats.is_healthy)
        assert failure is not None
        assert reason in str(failure.error)
    assert seen == [True] * 100

    broken.down = False
    db.jobs.run()
    assert worker.error is None
    assert db.stats().failures == {}
    worker.stop()


def test_the_queue_tells_what_waits_and_why(open_db: Callable[..., MemDB], clock: Any) -> None:
    """By kind and embedder, for a process that has not seen the failure too."""
    embedder = Embedder()
    embedder.down = True
    db = open_db(":memory:", embedder=embedder)
    chat = db.scope("ann").session("s")
    chat.append("user", "hello")
    (queued,) = db.stats().queue
    assert (queued.kind, queued.model, queued.waiting, queued.due) == ("embed", "picky", 1, 1)
    assert (queued.failing, queued.error, queued.retry_ms) == (0, None, None)
    assert db.stats().is_healthy
    with pytest.raises(PortError):
        db.jobs.run()

    (failed,) = db.stats().queue
    assert (failed.due, failed.failing, failed.attempts) == (0, 1, 1)
    assert failed.oldest_due_ms is None
    assert "401 invalid api key" in (failed.error or "")
    assert (failed.retry_ms or 0) > clock()


def test_refused_texts_are_listed(open_db: Callable[..., MemDB]) -> None:
    """After three refusals, messages and entries; gone when they are embedded."""
    embedder = Embedder()
    embedder.refuses = True
    db = open_db(":memory:", embedder=embedder)
    ann = db.scope("ann")
    ann.session("s").append("user", "fine")
    ann.session("s").append("user", "BAD luck")
    entry = ann.remember("Ann drinks BAD tea.").entry
    for _ in range(4):
        with pytest.raises(PortError):
            db.jobs.run()
    message, fact = db.stats().refused

    assert (message.kind, message.session, message.seq, message.entry_id) == (
        "message",
        "s",
        2,
        None,
    )
    assert (fact.kind, fact.entry_id, fact.session) == ("entry", entry.id, None)
    assert message.attempts >= 3
    assert ("401" in message.error, message.model) == (True, "picky")
    embedder.refuses = False
    db.jobs.run()
    assert (db.stats().refused, db.stats().is_healthy) == ((), True)


def test_a_step_of_upkeep_that_fails_is_a_failure(
    open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and gone after the next time."""
    db = open_db(":memory:")
    monkeypatch.setattr(
        type(db._db), "checkpoint", lambda _self: (_ for _ in ()).throw(OSError("disk"))
    )
    with pytest.raises(memdb.StorageError, match="checkpoint"):
        db.jobs.run(due=True)

    assert "disk" in str(db.stats().failures["checkpoint"].error)


def test_the_command_shows_it(
    tmp_path: Any, cli_run: Callable[..., Any], address_of: Callable[[str], str]
) -> None:
    """What waits, what is refused and why; exit code 8."""
    path = address_of(str(tmp_path / "agent.db"))
    embedder = Embedder()
    embedder.refuses = True
    with memdb.open(path, embedder=embedder, counter="estimate", durability="process") as db:
        assert "Nothing waits." in cli_run("stats", path).stderr
        db.scope("ann").session("s").append("user", "BAD luck")
        for _ in range(4):
            with pytest.raises(PortError):
                db.jobs.run()
    table, data = cli_run("stats", path), cli_run("stats", path, "--json")

    assert (table.exit_code, data.exit_code) == (8, 8)
    assert "401 invalid api key" in table.stdout
    assert json.loads(data.stdout)["refused"][0]["seq"] == 1


@pytest.fixture
def cli_run() -> Callable[..., Any]:
    """Return a function that runs a command line in this process."""
    from click.testing import CliRunner

    from memdb.cli import cli

    return lambda *args: CliRunner().invoke(cli, [*args], prog_name="memdb")
