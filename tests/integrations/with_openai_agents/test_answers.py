"""What a session of the Agents SDK knows without asking the file is what the file says."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from typing import Any

import pytest

import memdb
import memdb.aio
from memdb.adapters.host import HostFile
from memdb.api.threads import READERS
from memdb.engine.sqlite.connection import Tx
from memdb.integrations.openai_agents import MemDBSession
from memdb.integrations.openai_agents.items import latest


def said(*texts: str) -> list[Any]:
    """Return items of the user."""
    return [{"role": "user", "content": text} for text in texts]


def busy(session: MemDBSession) -> threading.Event:
    """Keep the threads of an opened session busy; returns what lets them go on."""
    begun, go = threading.Barrier(READERS + 2), threading.Event()
    file = session._opened()
    worker = file._worker if file._db is None else file._db._worker
    for kind in ("write", *["read"] * READERS):
        worker.call(lambda: (begun.wait(60), go.wait(60)), kind)
    begun.wait(60)
    return go


async def known(session: MemDBSession, limit: int | None) -> Any:
    """Return what a session knows without its thread, None if it has to ask."""
    go = busy(session)
    asked = asyncio.ensure_future(session.get_items(limit))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    found = asked.result() if asked.done() else None
    go.set()
    await asked
    return found


@pytest.mark.parametrize("limit", [None, -1, 0, 1, 2, 5])
def test_own_items_are_known_at_once(path, limit):
    """After an answer was given once, adding keeps it true, also by another object."""
    session, twin = MemDBSession("s", path), MemDBSession("s", path)

    async def talk():
        await session.add_items(said("a", "b", "c"))
        first = await session.get_items(limit)
        await session.add_items([{"role": "user", "content": ("d",)}, *said("e")])
        await twin.add_items(said("f"))
        return first, await known(session, limit)

    first, later = asyncio.run(talk())
    every = [*said("a", "b", "c"), {"role": "user", "content": ["d"]}, *said("e", "f")]
    whole = limit is None or limit < 0
    assert first == (every[:3] if whole else every[:3][max(3 - limit, 0) :])
    assert later == (every if whole else every[max(6 - limit, 0) :])
    session.close()
    twin.close()


def test_items_that_are_added_at_once_are_known_in_their_order(path):
    """They share a transaction."""
    sessions = [MemDBSession("s", path) for _ in range(20)]

    async def talk():
        await sessions[0].get_items()
        go = busy(sessions[0])
        calls = [
            asyncio.ensure_future(one.add_items(said(f"{n}"))) for n, one in enumerate(sessions)
        ]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*calls)
        return await known(sessions[0], None), sessions[0]._opened().answers._known

    found, kept = asyncio.run(talk())
    assert found == said(*map(str, range(20)))
    assert len(kept) == 1
    for one in sessions:
        one.close()


def test_what_others_add_in_the_same_transaction_is_not_missed(path):
    """The asynchronous calls of the file share transactions with those of its sessions."""

    async def talk():
        async with memdb.aio.open(path) as db:
            session = MemDBSession("s", db)
            chat = db.scope("default").session("s")
            await session.add_items(said("a"))
            await session.get_items()
            go = busy(session)
            calls = [
                asyncio.ensure_future(call)
                for call in (
                    session.add_items(said("b")),
                    chat.append("user", "c"),
                    session.add_items(said("d")),
                )
            ]
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(*calls)
            found = await session.get_items()
            await session.aclose()
            return found

    assert asyncio.run(talk()) == said("a", "b", "c", "d")


@pytest.mark.parametrize("change", ["other file", "own file", "pop", "clear", "thread"])
def test_what_somebody_else_changed_is_read_again(path, change):
    """Whatever changed it between an answer and our own items, or after them."""
    with memdb.open(path) as here, memdb.open(path) as there:
        session = MemDBSession("s", here)
        chats = [db.scope("default").session("s") for db in (here, there)]

        def in_thread() -> None:
            worker = threading.Thread(target=lambda: chats[0].append("user", "late"))
            worker.start()
            worker.join()

        changes = {
            "other file": lambda: chats[1].append("user", "late"),
            "own file": lambda: chats[0].append("user", "late"),
            "pop": chats[0].pop,
            "clear": chats[1].clear,
            "thread": in_thread,
        }

        async def talk():
            await session.add_items(said("a"))
            await session.get_items()
            changes[change]()
            await session.add_items(said("b"))
            assert await known(session, None) is None
            assert await session.get_items() == latest(chats[1], None)[0]
            changes[change]()
            assert await session.get_items() == latest(chats[1], None)[0]
            await session.aclose()

        asyncio.run(talk())


def test_large_answers_are_not_kept(path):
    """Copying one would take the loop too long."""
    session = MemDBSession("s", path)

    async def talk():
        await session.add_items(said("a"))
        await session.get_items()
        await session.add_items(said("b" * 100_000))
        large = await known(session, None)
        assert len(await session.get_items()) == 2
        return large, await known(session, None), len(session._opened().answers._known)

    assert asyncio.run(talk()) == (None, None, 0)
    session.close()


class Steps:
    """Calls in any order: two sessions of one file here, and a connection of somebody else."""

    def __init__(self, ours: list[MemDBSession], theirs: memdb.Session, seed: int) -> None:
        """Begin at nothing."""
        self.ours = ours
        self.theirs = theirs
        self.rng = random.Random(seed)
        self.number = 0

    async def one(self) -> None:
        """Change something, as a rule, and compare what both sessions say with the file."""
        self.number += 1
        chosen = self.rng.choice(self.ours)
        action = self.rng.choice(["add", "add", "add", "none", "pop", "clear", "other"])
        await getattr(self, action)(chosen)
        if self.rng.random() < 0.7:
            limit = self.rng.choice([None, 1, 3, 10])
            for each in self.ours:
                assert await each.get_items(limit) == latest(self.theirs, limit)[0], action

    async def add(self, chosen: MemDBSession) -> None:
        """Add one to three items."""
        texts = [f"{self.number}-{n}" for n in range(self.rng.randrange(1, 4))]
        await chosen.add_items(said(*texts))

    async def none(self, _: MemDBSession) -> None:
        """Only read."""

    async def pop(self, chosen: MemDBSession) -> None:
        """Take the newest back."""
        await chosen.pop_item()

    async def clear(self, chosen: MemDBSession) -> None:
        """Remove all, now and then."""
        if self.rng.random() < 0.2:
            await chosen.clear_session()

    async def other(self, _: MemDBSession) -> None:
        """Let somebody else add or take back."""
        if self.rng.random() < 0.5:
            self.theirs.pop()
        else:
            self.theirs.append("user", f"{self.number}")


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_calls_gives_what_the_file_says(path, seed):
    """After each of them."""
    with memdb.open(path, durability="process", counter="estimate") as there:
        ours = [MemDBSession("s", path), MemDBSession("s", path)]
        steps = Steps(ours, there.scope("default").session("s"), seed)

        async def talk() -> None:
            for _ in range(250):
                await steps.one()
            for one in ours:
                await one.aclose()

        asyncio.run(talk())


WRITER = """
import sys, memdb
with memdb.open(sys.argv[1], durability="process", counter="estimate") as db:
    chat = db.scope("default").session("s")
    for number in range(300):
        chat.append("user", f"theirs {number}")
"""


def test_another_process_is_seen_between_our_own_items(path):
    """At each answer all own items are there, each once; at the end all of both."""
    session = MemDBSession("s", path)
    asyncio.run(session.add_items(said("ours 0")))
    other = subprocess.Popen([sys.executable, "-c", WRITER, path])

    async def talk():
        count = 1
        while other.poll() is None:
            await session.add_items(said(f"ours {count}"))
            count += 1
            found = [item["content"] for item in await session.get_items()]
            assert len(set(found)) == len(found)
            ours = [text for text in found if text.startswith("ours")]
            assert ours == [f"ours {n}" for n in range(count)]
        return count, await session.get_items()

    count, found = asyncio.run(talk())
    assert other.returncode == 0
    assert len(found) == 300 + count
    with memdb.open(path, embedder=None) as db:
        assert found == latest(db.scope("default").session("s"), None)[0]
        assert db.file.check() == []
    session.close()


def test_looking_for_changes_of_others_uses_no_connection_beside_a_writer(path, monkeypatch):
    """The writer waits for the look, which is short."""
    with memdb.open(path, counter="estimate") as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "first")
        writing, waited = [], []
        asked = Tx.data_version

        def ask_beside_an_append(tx):
            writing.append(threading.Thread(target=chat.append, args=("user", "beside")))
            writing[-1].start()
            writing[-1].join(0.2)
            waited.append(writing[-1].is_alive())
            return asked(tx)

        monkeypatch.setattr(Tx, "data_version", ask_beside_an_append)
        HostFile(db).mark()
        monkeypatch.undo()
        for thread in writing:
            thread.join(60)
        assert chat.last_seq == 1 + len(writing) == 3

    assert waited[-1]  # first came the look at the connection that only watches
