"""The calls of `memdb.aio` that read and write whole files, its reprs, and its end."""

from __future__ import annotations

import asyncio
import json

import pytest

import memdb
import memdb.aio
from memdb.api import collections


def test_export_and_import(tmp_path):
    """What one file exports, another one imports, and its lines are the same."""

    async def move():
        async with (
            await memdb.aio.open(tmp_path / "a.db", counter="estimate") as db,
            await memdb.aio.open(tmp_path / "b.db", counter="estimate") as copy,
        ):
            await db.scope("ann").session("trip").append("user", "We fly.")
            count = await db.export(tmp_path / "a.jsonl", user="ann")
            report = await copy.import_file(tmp_path / "a.jsonl")
            lines = await db.export_lines(user="ann", embeddings=False)
            return count, report.messages_added, lines, await copy.export_lines(embeddings=False)

    count, added, lines, again = asyncio.run(move())

    assert (count, added) == (len(lines), 1)
    assert isinstance(lines, list)
    assert again == lines
    assert json.loads(lines[0])["kind"] == "memdb"


def test_an_artifact_opens_as_a_stream(tmp_path):
    """The stream is read by the caller."""

    async def read():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            files = db.scope("ann").session("trip").artifacts
            await files.save("list.md", "- passport")
            with await files.open("list.md") as stream:
                return stream.read(3), stream.read()

    assert asyncio.run(read()) == (b"- p", b"assport")


def test_after_close_every_call_raises_closed(tmp_path):
    """Calls of all objects say that the file was closed; closing again does nothing."""

    async def use():
        db = await memdb.aio.open(tmp_path / "a.db", counter="estimate")
        ann = db.scope("ann")
        chat = ann.session("trip")
        await chat.append("user", "We fly.")
        await db.close()
        await db.close()
        calls = [
            lambda: chat.append("user", "x"),
            lambda: chat.last_seq(),
            lambda: chat.messages(),
            lambda: chat.artifacts.open("a"),
            lambda: ann.sessions(),
            lambda: ann.entries.list(),
            lambda: ann.entries.update(1, text="x"),
            lambda: db.scopes(),
            lambda: db.export_lines(),
            lambda: db.file.info(),
        ]
        for call in calls:
            with pytest.raises(memdb.Closed, match=r"a\.db was closed: open it again"):
                await call()

    asyncio.run(use())


def test_reprs_name_what_they_are(tmp_path):
    """They read like the synchronous ones."""

    async def shown():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            ann = db.scope("ann")
            return repr(db), repr(ann), repr(ann.session("trip"))

    assert asyncio.run(shown()) == (
        "<aio.MemDB a.db>",
        "<aio.Scope 'ann' of 'default'>",
        "<aio.Session 'trip' of 'ann'>",
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (memdb.aio.MemDB, memdb.MemDB),
        (memdb.aio.Scope, memdb.Scope),
        (memdb.aio.Session, memdb.Session),
        (memdb.aio.Tools, memdb.Tools),
        (memdb.aio.Entries, collections.Entries),
        (memdb.aio.Artifacts, collections.Artifacts),
    ],
    ids=lambda kind: kind.__module__,
)
def test_every_call_is_there(ours, theirs):
    """What a synchronous object offers, its coroutine twin offers under the same name."""
    wanted = {name for name in dir(theirs) if not name.startswith("_")}

    assert wanted - set(dir(ours)) <= {
        *("path", "app", "user"),  # set in __init__
        "transaction",  # several calls in one: `await db.run(work)`
    }


def test_summaries_as_coroutines(tmp_path):
    """A long conversation is summarised, shown, expanded, searched and archived."""

    async def talk():
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            said = [{"role": "user", "text": f"We fly to Oslo, leg {n}."} for n in range(40)]
            await chat.extend(said)
            assert await db.jobs.run(kinds=["summarize"]) == 4
            tree = await chat.summaries.tree()
            page = await chat.summaries.expand(tree.frontier[0].id)
            context = await chat.context(150, "leg 3")
            found = await chat.recall("Oslo", limit=2, kinds=("summary",), by="words")
            told = await chat.tools().call("memory_expand", {"id": "1-10"})
            compacted = await chat.summaries.compact(keep_last=5)
            with pytest.raises(memdb.InvalidInput, match="upgrade needs a model"):
                await chat.summaries.upgrade()
            return tree, page, context, found, told, compacted

    tree, page, context, found, told, compacted = asyncio.run(talk())

    assert [summary.message_count for summary in tree.frontier] == [10, 10, 10, 10]
    assert [one.seq for one in page.messages] == [*range(1, 11)]
    assert context.tokens <= 150
    assert sum(piece.tokens for piece in context.pieces) == context.tokens
    assert len(found) == 2
    assert told.startswith("#1 user ")
    assert compacted == memdb.Compacted(0, compacted.pruned, 35, compacted.remaining)


def test_a_worker_of_an_asyncio_file_ends_with_it(tmp_path):
    """Due work is done in the background, and closing the file stops that."""

    async def work():
        every = {"extract_every": 1}  # else a single message waits for two minutes
        async with memdb.aio.open(tmp_path / "a.db", counter="estimate", settings=every) as db:
            await db.scope("ann").session("trip").append("user", "We fly.")
            worker = await db.jobs.start(0.01)
            while await db.jobs.pending():  # noqa: ASYNC110 (another thread does the work)
                await asyncio.sleep(0.01)
        return worker.running, worker.done

    assert asyncio.run(work()) == (False, 2)  # embedded, and learnt from
