"""What is seen of a running file: figures of calls, an observer, the log, OpenTelemetry."""

from __future__ import annotations

import inspect
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.models import observation
from memdb.models.observation import Event, Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB


def test_each_public_call_is_counted(open_db: Callable[..., MemDB]) -> None:
    """With its durations; what failed with its reason."""
    db = open_db(":memory:")
    chat = db.scope("ann").session("s")
    for _ in range(3):
        chat.append("user", "hello")
    with pytest.raises(memdb.InvalidInput):
        chat.append("nobody", "hello")
    db.scope("ann").recall("hello")
    calls = {one.name: one for one in db.stats().calls}

    append = calls["Session.append"]
    assert (append.count, append.failed) == (4, 1)
    assert 0 < append.p50_ms <= append.p99_ms
    assert "role is 'nobody'" in (append.error or "")
    assert append.error_ms is not None
    assert (calls["Scope.recall"].count, calls["Scope.recall"].error) == (1, None)
    assert json.dumps(db.stats().to_dict(), default=str)


def test_no_call_that_reads_is_silent(open_db: Callable[..., MemDB]) -> None:
    """Each `find` reads at once, so it is timed, and a server runs it again."""
    db = open_db(":memory:")
    ann = db.scope("ann")
    finds = {
        "Session.find": lambda: ann.session("s").find("x"),
        "Entries.find": lambda: ann.entries.find("x"),
        "Items.find": lambda: ann.items.find(("a",), "x"),
    }
    for find in finds.values():
        find()

    assert {one.name for one in db.stats().calls} >= finds.keys()


def test_signatures_and_docs_stay() -> None:
    """For help, editors and the awaited twins."""
    assert "expected" in inspect.signature(memdb.Session.append).parameters
    assert memdb.Scope.recall.__doc__ is not None
    assert memdb.Scope.recall.__qualname__ == "Scope.recall"


def test_quantiles_are_those_of_the_newest_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones are forgotten, but counted."""
    now = [0.0]
    monkeypatch.setattr(observation, "perf_counter", lambda: now[0])
    meter = Meter(lambda: 7)
    for number in range(1, 2001):
        now[0] = number / 1e3
        meter.note("x", 0.0)
    (found,) = meter.stats()

    assert (found.count, found.p50_ms, found.p99_ms) == (2000, 1501.0, 1991.0)


def test_an_observer_gets_every_event(open_db: Callable[..., MemDB]) -> None:
    """Calls, ports and work, with what they raised; what it raises itself stops nothing."""
    events: list[Event] = []

    class Broken:
        name, dim = "e", 4

        def embed(self, _texts: Any) -> Any:
            raise RuntimeError("401")

    def note(event: Event) -> None:
        events.append(event)
        raise ValueError("observer")

    db = open_db(":memory:", embedder=Broken(), on_event=note)
    db.scope("ann").session("s").append("user", "hello")
    with pytest.raises(memdb.PortError):
        db.jobs.run()
    by_name = {event.name: event for event in events}

    assert by_name["Session.append"].error is None
    assert isinstance(by_name["embedder 'e'"].error, memdb.PortError)
    assert isinstance(by_name["jobs.embed"].error, memdb.PortError)
    assert all(event.seconds >= 0 for event in events)


def test_what_observes_must_be_callable(open_db: Callable[..., MemDB]) -> None:
    """Said before the file is made."""
    with pytest.raises(memdb.InvalidInput, match="on_event"):
        open_db(":memory:", on_event=7)


def test_failed_work_is_logged_with_its_reason(
    open_db: Callable[..., MemDB], caplog: pytest.LogCaptureFixture
) -> None:
    """One warning per failure; steps are debug lines; no secret, no text of anybody."""

    class Broken:
        name, dim = "e", 4

        def embed(self, _texts: Any) -> Any:
            raise RuntimeError("401 for sk-proj-0123456789abcdefghijklmnopqrstuvwxyzABCDEF")

    caplog.set_level(logging.DEBUG, "memdb")
    db = open_db(":memory:", embedder=Broken())
    db.scope("ann").session("s").append("user", "my words")
    with pytest.raises(memdb.PortError):
        db.jobs.run()
    with pytest.raises(memdb.NotFound):
        db.scope("ann").items.get(("diary",), "my words")

    (warning,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert warning.startswith("jobs.embed failed after ")
    assert (
        "tried again later: embedder 'e' failed: RuntimeError: 401" in warning or "401" in warning
    )
    lines = [one.getMessage() for one in caplog.records]
    assert any(line.startswith("Session.append took ") for line in lines)
    assert not any("sk-proj" in line or "my words" in line for line in lines)


def test_a_program_without_logging_is_not_written_to(run_child: Callable[..., str]) -> None:
    """A failure prints nothing."""
    out = run_child(
        """
import sys, memdb
class Broken:
    name, dim = "e", 4
    def embed(self, texts): raise RuntimeError("401")
with memdb.open(":memory:", embedder=Broken(), counter="estimate") as db:
    db.scope("ann").session("s").append("user", "hello")
    sys.stderr = sys.stdout
    try: db.jobs.run()
    except memdb.PortError: print("raised")
"""
    )

    assert out.split() == ["raised"]


def test_threads_lose_no_call() -> None:
    """Eight threads note at once."""
    meter = Meter(lambda: 0)

    def note() -> None:
        for _ in range(2_000):
            meter.note("x", 0.0)

    threads = [threading.Thread(target=note) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter.note("x", 0.0)

    assert meter.stats()[0].count == 16_001


def test_opentelemetry_gets_spans_and_durations(open_db: Callable[..., MemDB]) -> None:
    """By the SDK's own exporters."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from memdb.integrations.otel import observer

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    traces = TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(spans))
    metrics = MeterProvider([reader])
    db = open_db(":memory:", on_event=observer(traces, metrics))
    chat = db.scope("ann").session("s")
    with traces.get_tracer("host").start_as_current_span("turn") as turn:
        chat.append("user", "secret words")
    with pytest.raises(memdb.InvalidInput):
        chat.append("nobody", "hello")
    good, bad = [one for one in spans.get_finished_spans() if one.name == "Session.append"]

    assert good.parent is not None
    assert good.parent.span_id == turn.get_span_context().span_id
    assert (good.end_time or 0) > (good.start_time or 0) > 0
    assert good.attributes == {"memdb.call": "Session.append"}
    assert bad.attributes == {"memdb.call": "Session.append", "error.type": "invalid"}
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("memdb.duration", "s")
    assert (
        sum(point.count for point in metric.data.data_points if "append" in str(point.attributes))
        == 2
    )
    assert "secret words" not in str([one.to_json() for one in spans.get_finished_spans()])
