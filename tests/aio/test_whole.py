"""The calls of `memdb.aio` that read and write whole files, its reprs, and its end."""

from __future__ import annotations

import asyncio
import json

import pytest

import memdb
import memdb.aio


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
        async with await memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
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
            lambda: anext(chat.messages()),
            lambda: chat.artifacts.open("a"),
            lambda: ann.sessions(),
            lambda: ann.entries.list(),
            lambda: ann.entries.update(1, text="x"),
            lambda: db.scopes(),
            lambda: db.export_lines(),
            lambda: db.info(),
        ]
        for call in calls:
            with pytest.raises(memdb.Closed, match=r"a\.db was closed: open it again"):
                await call()

    asyncio.run(use())


def test_reprs_name_what_they_are(tmp_path):
    """They read like the synchronous ones."""

    async def shown():
        async with await memdb.aio.open(tmp_path / "a.db", counter="estimate") as db:
            ann = db.scope("ann")
            return repr(db), repr(ann), repr(ann.session("trip"))

    assert asyncio.run(shown()) == (
        "<aio.MemDB a.db>",
        "<aio.Scope 'ann' of 'default'>",
        "<aio.Session 'trip' of 'ann'>",
    )
