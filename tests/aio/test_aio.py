import asyncio

import apsw
import pytest

import memdb
import memdb.aio
from memdb.adapters.async_host import AsyncHost


async def opened(path, **options):
    """Open a file by awaiting it, without `async with`."""
    return await memdb.aio.open(path, **options)


def test_the_same_calls_work_as_coroutines(tmp_path):
    """A conversation is stored, remembered, recalled and checked without blocking calls."""

    async def talk():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            ann = db.scope("ann")
            chat = ann.session("trip")
            first = await chat.append("user", "We fly to Oslo on 3 May.")
            await chat.extend([{"role": "assistant", "text": "Noted."}])
            await ann.remember("Ann prefers window seats.", key="seat")
            await chat.artifacts.save("list.md", "- passport")
            hits = await ann.recall("when do we fly to Oslo", limit=1)
            return (
                first.seq,
                [message.text for message in await chat.messages()],
                hits[0].source.seq,
                (await chat.artifacts.load("list.md")).text,
                [entry.key for entry in await ann.entries.list()],
                await chat.last_seq(),
                [scope.user for scope in await db.scopes()],
                await db.file.check(),
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
    db = asyncio.run(opened(tmp_path / "a.db", counter="estimate"))
    chat = db.scope("ann").session("trip")

    async def add(text):
        return (await chat.append("user", text)).seq

    assert [asyncio.run(add(text)) for text in ("one", "two", "three")] == [1, 2, 3]

    asyncio.run(db.close())


def test_a_cancelled_append_is_whole_or_absent(tmp_path):
    """Cancelling at any moment leaves no half message and no lock; the next call works."""

    async def cancel_many():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            for delay in range(40):
                call = asyncio.ensure_future(chat.append("user", f"message {delay}"))
                await asyncio.sleep(delay / 20_000)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            await chat.append("user", "the last")
            stored = [message.seq for message in await chat.messages()]
            return stored, (await chat.last(1))[0].text, await db.file.check()

    stored, last, findings = asyncio.run(cancel_many())

    assert stored == list(range(1, len(stored) + 1))
    assert (last, findings) == ("the last", [])


def test_errors_reach_the_awaiting_caller(tmp_path):
    """A coroutine raises what the call raises."""

    async def wrong():
        async with memdb.aio.open(tmp_path / "a.db") as db:
            await db.scope("ann").session("trip").append("robot", "hello")

    with pytest.raises(memdb.InvalidInput, match="role is 'robot'"):
        asyncio.run(wrong())


def test_opening_a_foreign_file_raises_and_leaves_no_thread(tmp_path):
    """A failed open ends its worker."""
    (tmp_path / "a.db").write_text("not a database, and long enough to look like one" * 20)

    with pytest.raises(memdb.NotAMemDB):
        asyncio.run(opened(tmp_path / "a.db"))


def test_the_calls_of_hosts_work_as_coroutines(tmp_path):
    """Create, commit, snapshot, erase and every state."""

    async def use():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            await AsyncHost(chat).create(user_state={"u": 1})
            await AsyncHost(chat).commit(
                {"role": "user", "text": "red fox"}, state={"a": 1, "b": 2}
            )
            await db.shared().state.update(z=3)
            assert await chat.state.delete("b")
            assert not await chat.state.delete("b")
            found = await AsyncHost(chat).snapshot()
            assert (await chat.head()) == found.head
            assert [hit.text for hit in await db.scope("ann").recall("fox", by="words")] == [
                "red fox"
            ]
            assert await AsyncHost(chat).erase(1)
            await db.scope("ann").state.clear()
            return found, await chat.state.get("a"), await db.scope("ann").state.all()

    found, kept, user = asyncio.run(use())

    assert (found.state, found.user_state, found.app_state) == ({"a": 1}, {"u": 1}, {"z": 3})
    assert (kept, user) == (1, {})


def test_messages_that_many_add_at_once_are_stored_together(tmp_path):
    """Each is whole or not at all, in the order of the calls, and a wrong one fails alone."""

    async def add():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            await chat.append("user", "first")
            calls = [
                chat.append("user" if n % 5 else "robot", f"message {n}", external_id=f"m{n}")
                for n in range(300)
            ]
            calls.append(chat.append("user", "another", external_id="m1"))
            calls.append(db.scope("bob").session("b").append("user", "hi", expected=7))
            done = await asyncio.gather(*calls, return_exceptions=True)
            stored = [message.text for message in await chat.messages()]
            return done, stored, [scope.user for scope in await db.scopes()]

    done, stored, users = asyncio.run(add())

    assert [type(one) for one in done[:6]] == [
        memdb.InvalidInput,
        *[memdb.Message] * 4,
        memdb.InvalidInput,
    ]
    assert [type(one) for one in done[-2:]] == [memdb.AlreadyExists, memdb.VersionConflict]
    assert stored == ["first", *(f"message {n}" for n in range(300) if n % 5)]
    assert users == ["ann"]


def test_what_is_called_between_two_appends_sees_the_first_only(tmp_path):
    """Adding together changes no order of what is done in the thread that writes."""

    async def add():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")

            def last():
                return db.run(lambda sync: sync.scope("ann").session("trip").last(5))

            return await asyncio.gather(
                chat.append("user", "one"),
                chat.append("user", "two"),
                chat.pop(),
                chat.append("user", "three"),
                last(),
                chat.append("user", "four"),
                chat.delete(),
                chat.append("user", "five"),
                last(),
            )

    done = asyncio.run(add())

    assert done[2].text == "two"
    assert [message.text for message in done[4]] == ["one", "three"]
    assert [message.text for message in done[8]] == ["five"]


def test_a_full_disk_fails_everybody_who_waited(tmp_path, monkeypatch):
    """None of the messages of a transaction that could not end is stored, and each caller knows."""

    async def add():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            await chat.append("user", "first")
            writer = db._sync._db._writing()
            pages = writer.one("PRAGMA page_count")[0]
            fill = f"PRAGMA max_page_count = {pages + 2}"
            monkeypatch.setattr(apsw, "connection_hooks", [lambda one: one.execute(fill)])
            go_on = db._sync._db.pause_upkeep()  # its thread borrows the connection
            db._sync._db.pool.close_idle()  # one that reads may become the one that writes
            go_on()
            calls = [chat.append("user", f"{n} " * 400) for n in range(50)]
            done = await asyncio.gather(*calls, return_exceptions=True)
            monkeypatch.undo()
            db._sync._db.pool.close_idle()
            await chat.append("user", "last")
            return done, [message.text for message in await chat.messages()], await db.file.check()

    done, stored, findings = asyncio.run(add())

    kept = [one.text for one in done if isinstance(one, memdb.Message)]
    assert all(isinstance(one, (memdb.Message, memdb.DiskFull)) for one in done)
    assert len(kept) < 50
    assert stored == ["first", *kept, "last"]
    assert findings == []
