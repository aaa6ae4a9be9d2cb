"""
What a type checker sees of `memdb.aio`; checked by mypy and pyright, never run.

The types are those of the synchronous calls. A coroutine that nobody awaits is an error.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

import memdb
from memdb import aio


async def calls(path: str) -> None:
    """A twin takes the arguments of its method, and returns what it returns once awaited."""
    async with aio.open(path) as db:
        assert_type(db, aio.MemDB)
        assert_type(db.path, str)
        assert_type(await db.scopes(), list[aio.Scope])
        ann = db.scope("ann")
        assert_type(ann, aio.Scope)
        trip = ann.session("trip")
        assert_type(trip, aio.Session)
        assert_type(await trip.append("user", "We fly.", expected=0), memdb.Message)
        assert_type(await trip.extend([{"role": "user", "text": "Hi."}]), list[memdb.Message])
        newest: Coroutine[Any, Any, list[memdb.Message]] = trip.last(5)
        assert_type(await newest, list[memdb.Message])
        assert_type(await trip.messages(), memdb.Page[memdb.Message])
        assert_type(await trip.branch("other", 1), aio.Session)
        assert_type(await trip.parent(), aio.Session | None)
        assert_type(await ann.recall("Oslo", 5, by="words"), memdb.Hits)
        assert_type(await ann.entries.get(1), memdb.Entry)
        assert_type(await ann.entries.list(category="events"), memdb.Page[memdb.Entry])
        assert_type(await trip.artifacts.save("menu.md", "soup"), memdb.ArtifactVersion)
        assert_type(await db.file.check(deep=True), list[memdb.Finding])
        worker = await db.jobs.start()
        assert_type(worker.error, memdb.MemDBError | None)
        assert_type(await worker.stop(give_up=True), None)
        await trip.append(user="Hi.")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        await ann.recall("Oslo", lmit=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        trip.last(5)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
