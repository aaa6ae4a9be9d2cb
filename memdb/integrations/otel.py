"""
OpenTelemetry: a span and a duration for each public call, port and kind of background work.

>>> import memdb
>>> from memdb.integrations.otel import observer  # doctest: +SKIP
>>> db = memdb.open("agent.db", on_event=observer())  # doctest: +SKIP
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise InvalidInput(
        "OpenTelemetry is not installed: run `pip install 'memdb-sqlite[otel]'`"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.models.observation import Event

NAME = "memdb"


def observer(
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[Event], None]:
    """
    Return what `memdb.open(on_event=)` takes.

    Each event becomes a span with its name, a child of the span that was current at the call. The
    event also becomes a value of the histogram `memdb.duration`, in seconds. Both have
    `memdb.call`. If the call failed, both have `error.type`: the code of a memdb error, else the
    name of the class. Neither contains texts of the memory; the message of an error is in the
    span's status.

    Args:
        tracer_provider: None means that of the program.
        meter_provider: None means that of the program.
    """
    tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
    duration = metrics.get_meter(NAME, meter_provider=meter_provider).create_histogram(
        "memdb.duration", unit="s", description="Duration of calls, ports and background work"
    )

    def note(event: Event) -> None:
        attributes = {"memdb.call": event.name}
        if event.error is not None:
            own = event.error.code if isinstance(event.error, MemDBError) else None
            attributes["error.type"] = own or type(event.error).__name__
        end_ns = time.time_ns()
        span = tracer.start_span(
            event.name, attributes=attributes, start_time=end_ns - round(event.seconds * 1e9)
        )
        if event.error is not None:
            span.set_status(trace.StatusCode.ERROR, str(event.error))
        span.end(end_ns)
        duration.record(event.seconds, attributes)

    return note
