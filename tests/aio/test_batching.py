"""The worker of an open file: waiting for it, cancelling, and sharing the interpreter."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from memdb.api.threads import Threads, run_in
from memdb.errors import Closed


@pytest.fixture
def worker():
    """A worker that ends with the test."""
    with Threads("agent.db") as made:
        yield made


def held(worker):
    """Keep *worker* busy; returns what lets it go on, once it is."""
    begun, go = threading.Event(), threading.Event()
    worker.call(lambda: (begun.set(), go.wait(60)))
    begun.wait(60)
    return go


@pytest.mark.parametrize("to_end", [False, True])
def test_a_call_that_is_cancelled_in_the_queue_never_runs(worker, to_end):
    """It is taken back, and the caller is told at once."""
    done = []

    async def cancel():
        go = held(worker)
        call = asyncio.ensure_future(run_in(worker, lambda: done.append(1), to_end=to_end))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go.set()
        await run_in(worker, lambda: None)

    asyncio.run(cancel())
    assert done == []


@pytest.mark.parametrize(("to_end", "known"), [(True, [1]), (False, [])])
def test_a_call_that_has_begun_goes_on(worker, to_end, known):
    """To its end, for which only `to_end` waits, however often it is cancelled."""
    done = []

    async def cancel():
        begun, go = threading.Event(), threading.Event()

        def work():
            begun.set()
            go.wait(60)
            done.append(1)

        call = asyncio.ensure_future(run_in(worker, work, to_end=to_end))
        await asyncio.sleep(0)
        begun.wait(60)
        for _ in range(3):
            call.cancel()
            await asyncio.sleep(0)
        assert call.done() is not to_end
        if to_end:
            go.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        found = [*done]
        go.set()
        await run_in(worker, lambda: None)
        return found

    assert asyncio.run(cancel()) == known
    assert done == [1]


def test_a_loop_that_is_gone_leaves_the_worker_alone(worker):
    """What it waited for is done, and the next loop is served."""
    go = held(worker)
    done = []

    async def leave():
        call = asyncio.ensure_future(run_in(worker, lambda: done.append(1)))
        await asyncio.sleep(0)
        return call

    loop = asyncio.new_event_loop()
    call = loop.run_until_complete(leave())
    loop.close()
    go.set()

    assert asyncio.run(run_in(worker, lambda: 7)) == 7
    assert done == [1]
    assert not call.done()


def test_a_worker_that_has_ended_says_so(worker):
    """Its file was closed."""
    worker.shutdown()

    with pytest.raises(Closed, match=r"agent\.db was closed"):
        asyncio.run(run_in(worker, lambda: None))


def test_the_switch_interval_of_the_process_is_left_alone(worker):
    """It belongs to the program, while calls run and when they are over."""
    usual = sys.getswitchinterval()

    assert asyncio.run(run_in(worker, sys.getswitchinterval)) == pytest.approx(usual)
    assert sys.getswitchinterval() == pytest.approx(usual)
