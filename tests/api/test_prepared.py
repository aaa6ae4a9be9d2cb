"""What programs around memdb need: prepared writes, transactions, the clock and change marks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import memdb
import memdb.aio
from memdb import MemDB
from memdb.adapters.async_host import AsyncHost
from memdb.adapters.host import Host, HostEntries, HostFile


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MemDB]:
    with memdb.open(tmp_path / "a.db", counter="estimate", embedder=None) as opened:
        yield opened


def test_prepared_messages_are_stored_by_the_returned_function(db: MemDB) -> None:
    chat = db.scope("ann").session("trip")
    store = Host(chat).prepare([{"role": "user", "text": "We fly."}])
    before = chat.last(10)

    with db.transaction():
        stored = store()

    assert before == []
    assert chat.last(10) == stored
    assert [one.text for one in stored] == ["We fly."]


def test_a_prepared_message_keeps_the_arguments_of_extend(db: MemDB) -> None:
    chat = db.scope("ann").session("trip")
    store = Host(chat).prepare([{"role": "user", "text": "a"}], expected=0)
    chat.append("user", "b")

    with pytest.raises(memdb.VersionConflict):
        store()
    with pytest.raises(memdb.InvalidInput, match="role"):
        Host(chat).prepare([{"role": "robot", "text": "a"}])
    with pytest.raises(memdb.SecretFound):
        Host(chat).prepare([{"role": "user", "text": "AKIAIOSFODNN7EXAMPLQ"}], secrets="refuse")


@pytest.mark.parametrize("savepoints", [True, False])
def test_a_transaction_of_a_session_is_whole_or_nothing(db: MemDB, savepoints: bool) -> None:
    chat = db.scope("ann").session("trip")
    with Host(chat).transaction(savepoints=savepoints):
        chat.append("user", "a")
        chat.append("user", "b")
    with pytest.raises(RuntimeError), Host(chat).transaction(savepoints=savepoints):
        chat.append("user", "c")
        raise RuntimeError

    assert [one.text for one in chat.last(10)] == ["a", "b"]


def test_prepared_facts_are_remembered_together(db: MemDB) -> None:
    entries, host = db.scope("ann").entries, HostEntries(db.scope("ann"))
    first = host.prepare({"text": "Ann lives in Oslo.", "key": "home"})
    second = host.prepare(memdb.NewEntry("Ann drinks tea.", pinned=True))
    before = [*entries.list()]
    with db.transaction():
        done = [first(), second()]

    assert before == []
    assert [one.action for one in done] == ["added", "added"]
    assert [one.text for one in entries.list(pinned=True)] == ["Ann drinks tea."]
    assert not host.has_arbiter
    with pytest.raises(memdb.InvalidInput):
        host.prepare({"text": ""})


def test_an_arbiter_is_told_of(tmp_path: Path) -> None:
    class Keep:
        name = "keep"

        def decide(self, statement: str, similar: object) -> None:
            return None

    with memdb.open(tmp_path / "b.db", counter="estimate", arbiter=Keep()) as db:
        assert HostEntries(db.scope("ann")).has_arbiter


def test_tokens_are_counted_by_the_counter_of_the_file(db: MemDB) -> None:
    texts = ["", "Hello there.", "a" * 400]
    chat = db.scope("ann").session("trip")

    assert db.file.count_tokens(texts)[1] == chat.append("user", texts[1]).tokens
    assert len(db.file.count_tokens(iter(texts))) == len(texts)
    assert db.file.count_tokens([]) == []


def test_now_is_the_clock_of_the_file() -> None:
    with memdb.open(":memory:", counter="estimate", clock=lambda: 1234) as db:
        assert HostFile(db).now_ms() == 1234


def test_a_stamp_differs_after_a_commit_of_anybody(db: MemDB) -> None:
    chat = db.scope("ann").session("trip")
    chat.append("user", "a")
    unknown = HostFile(db).stamp()
    mark = HostFile(db).mark()
    assert unknown is None
    assert mark is not None
    assert HostFile(db).stamp() == mark.stamp

    chat.append("user", "b")
    ours = HostFile(db).mark()
    assert ours is not None
    assert (ours.stamp != mark.stamp, ours.commits - mark.commits) == (True, 1)
    assert ours.others == mark.others

    with memdb.open(db.path, counter="estimate", embedder=None) as other:
        other.scope("ann").session("trip").append("user", "c")
    theirs = HostFile(db).mark()
    assert theirs is not None
    assert (theirs.stamp != ours.stamp, theirs.commits) == (True, ours.commits)
    assert theirs.others != ours.others


def test_a_mark_lasts_over_the_first_write_of_a_handle(tmp_path: Path) -> None:
    """That write begins the upkeep, which closes connections; whoever watches goes on."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None) as db:
        db.scope("ann").session("trip").append("user", "a")
    with memdb.open(path, embedder=None) as db:
        mark = HostFile(db).mark()
        assert mark is not None
        db.scope("ann").session("trip").append("user", "b")
        stamp = HostFile(db).stamp()

    assert stamp is not None
    assert stamp != mark.stamp


def test_changes_of_a_file_in_memory_are_not_seen() -> None:
    with memdb.open(":memory:", counter="estimate") as db:
        assert (HostFile(db).mark(), HostFile(db).stamp()) == (None, None)


def test_the_same_as_coroutines(tmp_path: Path) -> None:
    """`host.add` tells in the thread what it stored; the file gives clock, counter and marks."""

    async def use() -> None:
        async with memdb.aio.open(
            tmp_path / "a.db", counter="estimate", embedder=None, clock=lambda: 7
        ) as db:
            chat, seen = db.scope("ann").session("trip"), []
            stored = await AsyncHost(chat).add([{"role": "user", "text": "a"}], after=seen.append)
            assert seen == [stored] == [await chat.last(1)]
            assert await db.file.count_tokens(["Hello."]) == db.blocking.file.count_tokens(
                ["Hello."]
            )
            assert HostFile(db.blocking).now_ms() == 7
            mark = HostFile(db.blocking).mark()
            assert mark is not None
            assert mark.stamp == HostFile(db.blocking).stamp() == HostFile(db.blocking).stamp()

    asyncio.run(use())


def test_a_cancelled_run_is_waited_for_to_its_end(tmp_path: Path) -> None:
    """With `to_end` the call is over when the caller sees the cancellation."""

    async def use() -> list[str]:
        over: list[str] = []
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            loop, begun = asyncio.get_running_loop(), asyncio.Event()
            go_on = threading.Event()

            def work(_: MemDB) -> None:
                loop.call_soon_threadsafe(begun.set)
                go_on.wait(30)
                over.append("work")

            task = asyncio.ensure_future(db.run(work, to_end=True))
            await begun.wait()
            task.cancel()
            loop.call_later(0.05, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await task
            return [*over, "caller"]

    assert asyncio.run(use()) == ["work", "caller"]
