"""One file behind many sessions of the Agents SDK: where it is, who holds it, what it takes."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import memdb
import memdb.aio
from memdb.errors import InvalidItem, SessionClosed
from memdb.integrations.openai_agents import MemDBSession


def said(*texts: str) -> list[Any]:
    """Return items of the user."""
    return [{"role": "user", "content": text} for text in texts]


def busy(session: MemDBSession) -> threading.Event:
    """Keep the thread of an opened session busy; returns what lets it go on."""
    begun, go = threading.Event(), threading.Event()
    session._opened()._worker.call(lambda: (begun.set(), go.wait(60)))
    begun.wait(60)
    return go


def test_a_relative_path_means_the_folder_the_session_was_made_in(tmp_path, monkeypatch):
    """Wherever the process is at the first call, and for every session of the file."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    sessions = [
        MemDBSession("s", "x.db"),
        MemDBSession("t", "x.db", durability="process"),
        MemDBSession("s", tmp_path / "a" / "x.db"),
    ]
    monkeypatch.chdir(tmp_path / "b")

    async def talk():
        await sessions[0].add_items(said("hi"))
        await sessions[1].add_items(said("ho"))
        return await sessions[2].get_items()

    assert asyncio.run(talk()) == said("hi")
    assert [*(tmp_path / "b").iterdir()] == []
    for session in sessions:
        session.close()


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_file_that_was_given_open_is_let_go(path, kind):
    """With its thread and what was kept of it; the next session of it begins anew."""

    async def use():
        opened = memdb.open(path) if kind == "sync" else await memdb.aio.open(path)
        for _ in range(2):
            async with MemDBSession("s", opened) as session:
                await session.add_items(said("hi"))
                assert len(await session.get_items()) > 0
        closing = opened.close()
        if closing is not None:
            await closing
        return weakref.ref(opened)

    before = threading.active_count()
    known = [asyncio.run(use()) for _ in range(3)]
    gc.collect()

    assert [one() for one in known] == [None] * 3
    assert threading.active_count() <= before


@pytest.mark.parametrize("call", ["get", "add", "search"])
def test_a_session_that_is_closed_while_it_opens_says_so(path, call):
    """As one that was closed before; the next session of the file is served."""
    session = MemDBSession("s", path)
    calls = {
        "get": session.get_items,
        "add": lambda: session.add_items(said("hi")),
        "search": lambda: session.search("hi"),
    }

    async def talk():
        waiting = asyncio.ensure_future(calls[call]())
        await asyncio.sleep(0)
        await session.aclose()
        with pytest.raises(SessionClosed):
            await waiting
        async with MemDBSession("s", path) as again:
            return await again.get_items()

    assert asyncio.run(talk()) == []


def test_items_are_stored_as_they_were_at_the_call(path):
    """What the caller does with them later is his own business."""
    session = MemDBSession("s", path)

    async def talk():
        await session.add_items(said("first"))
        item = {"role": "user", "content": [{"type": "input_text", "text": "as it was"}]}
        go = busy(session)
        call = asyncio.ensure_future(session.add_items([item]))
        await asyncio.sleep(0)
        item["content"][0]["text"] = "changed"
        item["other"] = object()
        go.set()
        await call
        return (await session.get_items(1))[0]["content"][0]["text"]

    assert asyncio.run(talk()) == "as it was"
    session.close()


def test_values_of_a_kind_of_their_own_are_stored_as_json_has_them(path):
    """An enum of texts, a subclass of dict, a tuple."""

    class Role(StrEnum):
        USER = "user"

    class Special(dict[str, Any]):
        pass

    session = MemDBSession("s", path)

    async def talk():
        await session.add_items([Special(role=Role.USER, content="a")])
        await session.add_items([{"role": "user", "content": ({"text": "b"},)}])
        return await session.get_items()

    assert asyncio.run(talk()) == [*said("a"), {"role": "user", "content": [{"text": "b"}]}]
    session.close()


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ({"role": "user", "content": "x"}, "items is dict: give a list"),
        ("hello", "items is str: give a list"),
        ([*said("a", "b"), "c"], r"items\[2\] is str: give a dict"),
        ([*said("a"), {"role": b"user"}], r"items\[1\] has no JSON form"),
        ([*said("a"), {"role": object()}], r"items\[1\] has no JSON form"),
        ([{"role": "user", "content": json.loads("[" * 250 + "]" * 250)}], "nested over 198"),
    ],
)
def test_a_wrong_item_is_named(path, items, named):
    """By its place, and nothing is written."""
    session = MemDBSession("s", path)

    async def talk():
        with pytest.raises(InvalidItem, match=named):
            await session.add_items(items)
        return await session.get_items()

    assert asyncio.run(talk()) == []
    session.close()


def test_clearing_while_a_branch_is_added_to_leaves_no_branch(path):
    """Whichever comes first, no item stands in a branch that was removed."""
    session = MemDBSession("s", path)

    async def talk():
        await session.add_items(said("a", "b"))
        await session.create_branch_from_turn(2, "alt")
        await asyncio.gather(session.add_items(said("late")), session.clear_session())
        return [one["branch_id"] for one in await session.list_branches()]

    assert "alt" not in asyncio.run(talk())
    session.close()


def test_a_switch_that_is_cancelled_is_over_when_the_caller_knows(path, monkeypatch):
    """One that has begun is waited for: it does not happen later."""
    session = MemDBSession("s", path)
    begun, go = threading.Event(), threading.Event()
    require = session._require

    def slowly(*given):
        begun.set()
        go.wait(60)
        require(*given)

    async def talk():
        await session.add_items(said("a", "b"))
        await session.create_branch_from_turn(2, "alt")
        await session.switch_to_branch("main")
        monkeypatch.setattr(session, "_require", slowly)
        call = asyncio.ensure_future(session.switch_to_branch("alt"))
        await asyncio.to_thread(begun.wait, 10)
        call.cancel()
        await asyncio.sleep(0.01)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        known = session._branch
        await session.search("a")  # the thread has done all by then
        return known, session._branch

    known, later = asyncio.run(talk())
    assert known == later
    session.close()


FORKED = """
import asyncio, os, sys
import memdb, memdb.aio
from memdb.integrations.openai_agents import MemDBSession

item = [{"role": "user", "content": "hi"}]
path = sys.argv[1]
used, unused = MemDBSession("used", path), MemDBSession("unused", path + "2")
asyncio.run(used.add_items(item))
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for call in (lambda: used.add_items(item), used.get_items):
    try:
        asyncio.run(asyncio.wait_for(call(), 20))
    except memdb.MemDBError as error:
        assert error.code == "wrong_process", error
    else:
        os._exit(1)
asyncio.run(asyncio.wait_for(unused.add_items(item), 20))
again = MemDBSession("used", path)
assert asyncio.run(again.get_items()) == item
again.close()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork_calls_are_refused_and_do_not_hang(path):
    """A session that was used before is the parent's; a new one is the child's."""
    ran = subprocess.run(
        [sys.executable, "-c", FORKED, path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert Path(path).exists()
