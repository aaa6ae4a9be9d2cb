import asyncio

import pytest

import memdb
import memdb.aio


def test_the_same_calls_work_as_coroutines(tmp_path):
    """A conversation is stored, remembered, recalled and checked without blocking calls."""

    async def talk():
        async with await memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            ann = db.scope("ann")
            chat = ann.session("trip")
            first = await chat.append("user", "We fly to Oslo on 3 May.")
            await chat.extend([{"role": "assistant", "text": "Noted."}])
            await ann.remember("Ann prefers window seats.", key="seat")
            await chat.artifacts.save("list.md", "- passport")
            hits = await ann.recall("when do we fly to Oslo", limit=1)
            return (
                first.seq,
                [message.text async for message in chat.messages()],
                hits[0].source.seq,
                (await chat.artifacts.load("list.md")).text,
                [entry.key for entry in await ann.entries.list()],
                await chat.last_seq(),
                [scope.user for scope in await db.scopes()],
                await db.check(),
            )

    assert asyncio.run(talk()) == (
        1,
        ["We fly to Oslo on 3 May.", "Noted."],
        1,
        "- passport",
        ["seat"],
        2,
        ["ann"],
        [],
    )


def test_one_file_serves_several_event_loops(tmp_path):
    """A file that was opened in one loop goes on in the next."""
    db = asyncio.run(memdb.aio.open(tmp_path / "a.db", counter="estimate"))
    chat = db.scope("ann").session("trip")

    async def add(text):
        return (await chat.append("user", text)).seq

    assert [asyncio.run(add(text)) for text in ("one", "two", "three")] == [1, 2, 3]

    asyncio.run(db.close())


def test_a_cancelled_append_is_whole_or_absent(tmp_path):
    """Cancelling at any moment leaves no half message and no lock; the next call works."""

    async def cancel_many():
        async with await memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            for delay in range(40):
                call = asyncio.ensure_future(chat.append("user", f"message {delay}"))
                await asyncio.sleep(delay / 20_000)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            await chat.append("user", "the last")
            stored = [message.seq async for message in chat.messages()]
            return stored, (await chat.last(1))[0].text, await db.check()

    stored, last, findings = asyncio.run(cancel_many())

    assert stored == list(range(1, len(stored) + 1))
    assert (last, findings) == ("the last", [])


def test_errors_reach_the_awaiting_caller(tmp_path):
    """A coroutine raises what the call raises."""

    async def wrong():
        async with await memdb.aio.open(tmp_path / "a.db") as db:
            await db.scope("ann").session("trip").append("robot", "hello")

    with pytest.raises(memdb.InvalidInput, match="role is 'robot'"):
        asyncio.run(wrong())


def test_opening_a_foreign_file_raises_and_leaves_no_thread(tmp_path):
    """A failed open ends its worker."""
    (tmp_path / "a.db").write_text("not a database, and long enough to look like one" * 20)

    with pytest.raises(memdb.NotAMemDB):
        asyncio.run(memdb.aio.open(tmp_path / "a.db"))


def test_the_calls_of_hosts_work_as_coroutines(tmp_path):
    """Create, commit, snapshot, erase and every state."""

    async def use():
        async with await memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            await chat.create(user_state={"u": 1})
            await chat.commit({"role": "user", "text": "red fox"}, state={"a": 1, "b": 2})
            await db.state().update(z=3)
            assert await chat.state.delete("b")
            assert not await chat.state.delete("b")
            found = await chat.snapshot()
            assert (await chat.head()) == found.head
            assert [hit.text for hit in await db.scope("ann").search("fox")] == ["red fox"]
            assert await chat.erase(1)
            await db.scope("ann").state.clear()
            return found, await chat.state.get("a"), await db.scope("ann").state.all()

    found, kept, user = asyncio.run(use())

    assert (found.state, found.user_state, found.app_state) == ({"a": 1}, {"u": 1}, {"z": 3})
    assert (kept, user) == (1, {})
