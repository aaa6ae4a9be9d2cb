"""Calls that wait for a model or an embedder hold up no other call; reads run side by side."""

from __future__ import annotations

import asyncio
import json
import threading
from contextvars import ContextVar

import pytest

import memdb
import memdb.aio
from memdb.adapters.async_host import AsyncHost
from memdb.adapters.host import HostFile
from memdb.api.threads import ASKERS, READERS, SEARCHERS, Threads, run_in
from memdb.errors import Closed

WAIT_S = 30


class Embedder:
    """Embeds by length; waits where it is told to."""

    name = "test-embedder"
    dim = 4

    def __init__(self) -> None:
        """Wait for nothing."""
        self.wait = lambda: None

    def embed(self, texts):
        """Return a vector per text."""
        self.wait()
        return [[1.0, len(text) % 7, len(text) % 5, 1.0] for text in texts]


class Model:
    """Answers that there is nothing to remember; waits where it is told to."""

    name = "test-model"

    def __init__(self) -> None:
        """Wait for nothing."""
        self.wait = lambda: None

    def complete(self, messages, **options):
        """Return no facts, or a summary."""
        self.wait()
        return json.dumps({"memories": []}) if options.get("schema") else "A short summary."


class Arbiter:
    """Lets every fact in; waits where it is told to."""

    name = "test-arbiter"

    def __init__(self) -> None:
        """Wait for nothing."""
        self.wait = lambda: None

    def decide(self, new, stored, /):
        """Return what adds the fact."""
        self.wait()
        return memdb.Verdict("add")


def held():
    """Return a wait that says it has begun, and what lets it go on."""
    begun, go = threading.Event(), threading.Event()
    return begun, go, lambda: (begun.set(), go.wait(WAIT_S))


async def until(event):
    """Wait for an event of a thread without holding up the loop."""
    assert await asyncio.to_thread(event.wait, WAIT_S)


async def filled(path, **options):
    """Open a file in which ann has a conversation and two facts."""
    db = await memdb.aio.open(path, counter="estimate", **options)
    ann = db.scope("ann")
    lines = [{"role": "user", "text": f"We fly to Oslo, leg {n}."} for n in range(30)]
    await ann.session("trip").extend(lines)
    await ann.remember("Ann lives in Oslo.")
    return db


ASKING = {
    "recall": lambda db: db.scope("ann").recall("when do we fly?"),
    "session.recall": lambda db: db.scope("ann").session("trip").recall("Oslo"),
    "context": lambda db: db.scope("ann").session("trip").context(400, "Oslo"),
    "extract": lambda db: db.scope("ann").session("trip").extract(),
    "compact": lambda db: db.scope("ann").session("trip").summaries.compact(keep_last=5),
    "tools": lambda db: (
        db.scope("ann").session("trip").tools().call("memory_search", {"query": "Oslo"})
    ),
    "remember": lambda db: db.scope("ann").remember("Ann moved to Bergen."),
    "jobs.run": lambda db: db.jobs.run(),
    "jobs.run of what is due": lambda db: db.jobs.run(due=True),
    "warm": lambda db: db.run(lambda sync: HostFile(sync).warm(), kind="ask"),
    "run": lambda db: db.run(lambda sync: sync.scope("ann").recall("leg 5"), kind="ask"),
}


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
def test_a_call_that_waits_for_a_port_lets_others_write_and_read(tmp_path, name, memory):
    """An append and a read of another user end while the port has not answered yet."""

    async def use():
        ports = Embedder(), Model(), Arbiter()
        options = dict(zip(("embedder", "model", "arbiter"), ports, strict=True))
        db = await filled(":memory:" if memory else tmp_path / "a.db", **options)
        begun, go, wait = held()
        for port in ports:
            port.wait = wait
        try:
            call = asyncio.ensure_future(ASKING[name](db))
            await until(begun)
            bob = db.scope("bob").session("b")
            stored = await asyncio.wait_for(bob.append("user", "hi"), WAIT_S / 2)
            seen = await asyncio.wait_for(bob.last(1), WAIT_S / 2)
            assert not call.done()
            assert [message.seq for message in seen] == [stored.seq]
        finally:
            go.set()
        await call
        assert await db.file.check() == []
        await db.close()

    asyncio.run(use())


def test_stopping_a_worker_lets_others_go_on(tmp_path):
    """It waits for the piece in progress, and holds up nobody but its caller."""

    async def use():
        embedder = Embedder()
        db = await filled(tmp_path / "a.db", embedder=embedder)
        begun, go, embedder.wait = held()
        worker = await db.jobs.start(0.01)
        await until(begun)
        stopping = asyncio.ensure_future(worker.stop())
        try:
            await asyncio.wait_for(db.scope("bob").session("b").append("user", "hi"), WAIT_S / 2)
            assert (worker.running, stopping.done()) == (True, False)
        finally:
            go.set()
        await stopping
        assert (worker.running, worker.error) == (False, None)
        await db.close()

    asyncio.run(use())


def test_recalls_embed_side_by_side(tmp_path):
    """Ten that embed at once are all asked before one is answered."""

    async def use():
        embedder = Embedder()
        db = await filled(tmp_path / "a.db", embedder=embedder)
        await db.jobs.run()
        everybody = threading.Barrier(10)
        embedder.wait = lambda: everybody.wait(WAIT_S)
        found = await asyncio.gather(*(db.scope("ann").recall(f"Oslo {n}") for n in range(10)))
        embedder.wait = lambda: None
        await db.close()
        return found

    assert all(asyncio.run(use()))


@pytest.mark.parametrize(
    ("kind", "waits", "most"),
    [
        ("write", True, 1),
        ("read", True, READERS),
        ("ask", True, ASKERS),
        ("search", True, ASKERS),
        ("search", False, SEARCHERS),
    ],
)
def test_the_threads_are_bounded(kind, waits, most):
    """However many calls wait; all of them are done."""
    running, seen, lock = [], [], threading.Lock()
    full = threading.Barrier(most)

    def work():
        with lock:
            running.append(1)
            seen.append(len(running))
        full.wait(WAIT_S)
        with lock:
            running.pop()

    async def use(worker):
        await asyncio.gather(*(run_in(worker, work, kind) for _ in range(most * 3)))

    with Threads("agent.db", waits_for_embedder=waits) as worker:
        asyncio.run(use(worker))
    assert len(seen) == most * 3
    assert max(seen) == most


@pytest.mark.parametrize("kind", ["read", "search", "ask"])
def test_who_only_reads_is_cancelled_at_once(kind):
    """The loop goes on while the thread still reads."""
    begun, go, wait = held()

    async def use(worker):
        call = asyncio.ensure_future(run_in(worker, wait, kind))
        await until(begun)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not go.is_set()
        return await run_in(worker, lambda: "next", kind)

    with Threads("agent.db") as worker:
        assert asyncio.run(use(worker)) == "next"
        go.set()


def test_closing_waits_for_what_runs_and_refuses_what_comes(tmp_path):
    """The file is closed after the last call, of whatever kind."""
    begun, go, wait = held()

    async def use():
        db = await filled(tmp_path / "a.db")
        call = asyncio.ensure_future(
            db.run(lambda sync: (wait(), sync.scope("ann").session("trip").last_seq)[1], kind="ask")
        )
        await until(begun)
        closing = asyncio.ensure_future(db.close())
        while True:
            try:
                await db.scope("ann").sessions()
            except Closed:
                break
        assert not closing.done()
        go.set()
        await closing
        for kind in ("read", "search", "ask", "write"):
            with pytest.raises(Closed, match=r"a\.db was closed"):
                await db.run(lambda _: None, kind=kind)
        return await call

    assert asyncio.run(use()) == 30


def test_idle_waits_for_calls_of_every_kind():
    """Those that were called before."""
    begun, go, wait = held()
    done = []

    async def use(worker):
        call = worker.call(lambda: (wait(), done.append(1)), "ask")
        await until(begun)
        idle = asyncio.ensure_future(worker.idle())
        await run_in(worker, lambda: None)
        assert not idle.done()
        go.set()
        await idle
        assert call.done()

    with Threads("agent.db") as worker:
        asyncio.run(use(worker))
    assert done == [1]


CALLER = ContextVar("caller", default="nobody")


def test_calls_see_the_context_of_their_caller(tmp_path):
    """Each its own, also of messages that are stored in one transaction."""
    seen = []

    async def use():
        def note(event):
            seen.append((event.name, CALLER.get()))

        db = await memdb.aio.open(tmp_path / "a.db", counter="estimate", on_event=note)

        async def call(who):
            CALLER.set(who)
            chat = db.scope(who).session("s")
            await chat.append("user", f"I am {who}.")
            await chat.last(1)
            await db.scope(who).recall("who am I?")
            await chat.delete()

        await asyncio.gather(*(call(f"user {n}") for n in range(5)))
        await db.close()

    asyncio.run(use())
    for name in ("Session.last", "Scope.recall", "Session.delete", "Session.append"):
        assert {who for what, who in seen if what == name} == {f"user {n}" for n in range(5)}
    assert CALLER.get() == "nobody"


def test_no_port_is_asked_in_the_thread_that_writes(tmp_path):
    """Whatever is called, with every port there is."""
    seen = set()

    def note(event):
        if "'" in event.name:
            seen.add((event.name.partition(" ")[0], threading.current_thread().name))

    async def use():
        db = await filled(
            tmp_path / "a.db",
            embedder=Embedder(),
            model=Model(),
            arbiter=Arbiter(),
            on_event=note,
        )
        ann = db.scope("ann")
        chat = ann.session("trip")
        for call in ASKING.values():
            await call(db)
            await chat.append("user", "And we fly back to Bergen.")
        first = (await ann.entries.list())[0]
        await ann.entries.update(first.id, text="Ann lives in Bergen.")
        await ann.entries.update(first.id, pinned=True)
        await ann.profile(200)
        await ann.entries.delete(first.id)
        await chat.artifacts.save("list.md", "passport")
        await AsyncHost(chat).window(budget_tokens=100)
        await chat.fork("other")
        await chat.archive()
        await chat.unarchive()
        await ann.forget(query="Bergen")
        await db.export(tmp_path / "a.jsonl")
        await db.import_file(tmp_path / "a.jsonl")
        await chat.clear()
        await chat.delete()
        await ann.delete(everything=True)
        await db.close()

    asyncio.run(use())

    assert {port for port, _ in seen} >= {"embedder", "model", "arbiter"}
    assert [one for one in seen if one[1].startswith("memdb-write")] == []


async def stored(db):
    """Return the summaries, entries and watermarks of ann: what calls that ask may write."""
    ann = db.scope("ann")
    lines = await db.run(lambda sync: [*sync.export_lines(user="ann")])
    return [line for line in lines if '"embedding"' not in line], await ann.entries.list()


def test_a_call_that_is_cancelled_gives_up_its_port_and_stores_nothing():
    """Whatever it waits for; the port is told, and its answer is dropped."""

    async def use(name):
        ports = Embedder(), Model(), Arbiter()
        options = dict(zip(("embedder", "model", "arbiter"), ports, strict=True))
        db = await filled(":memory:", **options)
        begun, go, wait = held()
        for port in ports:
            port.wait = wait
        call = asyncio.ensure_future(ASKING[name](db))
        await until(begun)
        before = await stored(db)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        for _ in range(WAIT_S * 100):
            left = [one for one in threading.enumerate() if one.name.startswith("memdb gave up")]
            if left:
                break
            await asyncio.sleep(0.01)
        go.set()
        for thread in left:
            await asyncio.to_thread(thread.join, WAIT_S)
        assert left, f"{name} waits on"
        after = await stored(db)
        await db.close()
        return before == after

    changed = [name for name in ASKING if not asyncio.run(use(name))]

    assert changed == []
