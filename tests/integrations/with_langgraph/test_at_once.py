"""Many processes, many openers, and callers that are cancelled."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once
from langgraph.checkpoint.base import empty_checkpoint

from memdb.integrations.langgraph import MemdbSaver, MemdbStore

if TYPE_CHECKING:
    from pathlib import Path

START = """
import sys
from langgraph.checkpoint.base import empty_checkpoint
from memdb.integrations.langgraph import MemdbSaver, MemdbStore
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
"""
STORE = (
    START
    + """
print("ready", flush=True)
input()
with MemdbStore(path) as store:
    for n in range(writes):
        store.put(("all", f"p{number}"), f"k{n}", {"n": n})
        store.put(("all",), f"shared{n % 10}", {"by": number, "n": n})
    assert store.get(("all",), "shared0") is not None or not writes
"""
)
SAVER = (
    START
    + """
print("ready", flush=True)
input()
with MemdbSaver(path) as saver:
    config = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
    for n in range(writes):
        config = saver.put(config, empty_checkpoint(), {"step": n}, {})
        saver.put_writes(config, [("a", n), ("b", n)], f"task{number}")
        shared = {"configurable": {"thread_id": "s", "checkpoint_ns": "", "checkpoint_id": "c"}}
        saver.put_writes(shared, [("x", n)], f"task{number}-{n}")
"""
)


@pytest.mark.slow
def test_processes_lose_nothing_in_a_store(tmp_path: Path) -> None:
    """Each writes keys of its own, and some that all write."""
    path = tmp_path / "a.db"
    run_at_once(STORE, path)
    run_at_once(STORE, path, processes=OPENERS, writes=0)

    with MemdbStore(path) as store:
        for number in range(PROCESSES):
            found = store.search(("all", f"p{number}"), limit=1_000)
            assert {one.value["n"] for one in found} == {*range(WRITES)}
        assert {one.value["n"] for one in store.search(("all",), limit=10)} <= {*range(WRITES)}
        assert store._db.file.check() == []


@pytest.mark.slow
def test_processes_lose_nothing_in_a_saver(tmp_path: Path) -> None:
    """Each writes a thread of its own, and writes of one checkpoint that all share."""
    path = tmp_path / "a.db"
    run_at_once(SAVER, path)
    run_at_once(SAVER, path, processes=OPENERS, writes=0)

    with MemdbSaver(path) as saver:
        for number in range(PROCESSES):
            config: Any = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
            found = [*saver.list(config)]
            assert [one.metadata["step"] for one in found] == [*range(WRITES)][::-1]
            assert all(len(one.pending_writes or ()) == 2 for one in found)
        shared: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
        saver.put(shared, {**empty_checkpoint(), "id": "c"}, {}, {})
        last = saver.get_tuple(shared)
        assert last is not None
        assert len(last.pending_writes or ()) == PROCESSES * WRITES
        assert saver._db.file.check() == []


@pytest.mark.slow
@pytest.mark.parametrize("script", [STORE, SAVER], ids=["store", "saver"])
def test_fresh_openers(tmp_path: Path, script: str) -> None:
    """Twelve make one new file at the same moment; how long is printed, not asserted."""
    timed = script.replace("input()", "input(); import time; start = time.perf_counter()")
    timed += "\nprint(time.perf_counter() - start)\n"
    (alone,) = run_at_once(timed, tmp_path / "one.db", processes=1, writes=1)
    began = time.perf_counter()
    together = run_at_once(timed, tmp_path / "all.db", processes=OPENERS, writes=1)
    sys.stdout.write(
        f"one {float(alone):.3f} s, slowest of 12 {max(map(float, together)):.3f} s, "
        f"all with their starts {time.perf_counter() - began:.1f} s\n"
    )


@pytest.mark.asyncio
async def test_a_cancelled_call_of_a_store_is_done_or_not(tmp_path: Path) -> None:
    """Nothing is half written, and the next call works."""
    async with MemdbStore(tmp_path / "a.db", embedder=None) as store:

        async def check() -> None:
            both = await store.aget(("n",), "a"), await store.aget(("n",), "b")
            assert (both[0] is None) == (both[1] is None)
            await store.aput(("n",), "next", {"n": 1})
            await store.adelete(("n",), "a")
            await store.adelete(("n",), "b")

        async def call() -> None:
            from langgraph.store.base import PutOp

            await store.abatch([PutOp(("n",), "a", {"n": 1}), PutOp(("n",), "b", {"n": 1})])

        assert await cancel_at_each_await(call, check) > 0
        for read in (
            lambda: store.aget(("n",), "a"),
            lambda: store.asearch(("n",), query="x"),
            lambda: store.alist_namespaces(),
        ):
            assert await cancel_at_each_await(read, check) > 0
        assert store._db.file.check() == []


@pytest.mark.asyncio
async def test_a_cancelled_call_of_a_saver_is_done_or_not(tmp_path: Path) -> None:
    """Nothing is half written, and the next call works."""
    async with MemdbSaver(tmp_path / "a.db", embedder=None) as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        put = await saver.aput(config, {**empty_checkpoint(), "id": "c"}, {}, {})
        number = iter(range(1_000_000))

        async def check() -> None:
            found = await saver.aget_tuple(put)
            assert found is not None
            assert len(found.pending_writes or ()) % 2 == 0
            await saver.aput(config, {**empty_checkpoint(), "id": "d"}, {}, {})

        async def read() -> None:
            assert [one async for one in saver.alist(config)]

        for call in (
            lambda: saver.aput_writes(put, [("a", 1), ("b", 2)], f"task{next(number)}"),
            lambda: saver.aput(config, {**empty_checkpoint(), "id": "e"}, {}, {}),
            lambda: saver.acopy_thread("t", "copy"),
            lambda: saver.aprune(["copy"]),
            lambda: saver.adelete_thread("copy"),
            lambda: saver.adelete_for_runs(["run"]),
            lambda: saver.aget_tuple(config),
            read,
        ):
            assert await cancel_at_each_await(call, check) > 0
        assert saver._db.file.check() == []
