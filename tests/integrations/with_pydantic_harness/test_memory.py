"""
The contract of the harness's memory stores, of its own in-memory store and of memdb's.

The cases follow the harness's own: what holds for its stores has to hold for memdb's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryFile,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
    SearchableMemoryStore,
)

import memdb
from memdb.integrations.pydantic_harness import MemdbMemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IS_OLD = "metadata" not in MemoryFile.__dataclass_fields__
WAS_OTHERWISE = "the harness's own stores did otherwise before 0.61"
FEW = {"limit": 10, "max_files": 10, "max_chars": 100, "max_file_chars": 1_000}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    with memdb.open(tmp_path / "agent.db", durability="process") as opened:
        yield opened


@pytest.fixture(params=["reference", "memdb"])
def store(request: Any, db: memdb.MemDB) -> Any:
    return InMemoryStore() if request.param == "reference" else MemdbMemoryStore(db)


def test_it_is_what_the_harness_asks_for(store: Any) -> None:
    """Its protocols, at run time."""
    assert isinstance(store, MemoryStore)
    assert isinstance(store, SearchableMemoryStore)


@pytest.mark.asyncio
async def test_versions_are_compared_and_never_repeat(store: Any) -> None:
    """Create, replace, delete, create again: a stale version conflicts each time."""
    created = await store.write("notes/main.md", "one", expected_version=None)
    assert (created.existed, created.replayed) == (False, False)
    file = await store.read("notes/main.md", max_chars=100)
    assert (file.content, file.version, file.operation_id) == ("one", created.version, None)
    updated = await store.write("notes/main.md", "two", expected_version=file.version)
    assert updated.existed
    for stale in (None, created.version, "other"):
        with pytest.raises(MemoryConflictError):
            await store.write("notes/main.md", "stale", expected_version=stale)
        with pytest.raises(MemoryConflictError):
            await store.delete("notes/main.md", expected_version=stale)
    deleted = await store.delete("notes/main.md", expected_version=updated.version)
    assert (deleted.version, deleted.existed) == (None, True)
    assert await store.read("notes/main.md", max_chars=100) is None
    again = await store.write("notes/main.md", "one", expected_version=None)
    assert len({created.version, updated.version, again.version}) == 3
    assert (await store.delete("missing.md", expected_version=None)).existed is False


@pytest.mark.asyncio
async def test_a_read_and_a_listing_are_bounded(store: Any) -> None:
    """Cut texts say so; paths come in order, by prefix."""
    for path in ("b.md", "a.md", "dir/c.md", "dir2/d.md"):
        await store.write(path, "0123456789", expected_version=None)
    cut = await store.read("a.md", max_chars=4)
    assert (cut.content, cut.truncated) == ("0123", True)
    whole = await store.read("a.md", max_chars=10)
    assert (whole.content, whole.truncated) == ("0123456789", False)
    assert await store.list_paths(limit=2) == ["a.md", "b.md"]
    assert await store.list_paths(limit=20_000) == ["a.md", "b.md", "dir/c.md", "dir2/d.md"]
    assert await store.list_paths("dir/", limit=9) == ["dir/c.md"]
    assert await store.list_paths("dir", limit=9) == ["dir/c.md", "dir2/d.md"]
    with pytest.raises(ValueError, match="max_chars"):
        await store.read("a.md", max_chars=0)
    with pytest.raises(ValueError, match="limit"):
        await store.list_paths(limit=0)


@pytest.mark.asyncio
async def test_a_replayed_operation_gets_its_receipt(store: Any) -> None:
    """Also after the file moved on; another one under its id is refused; nothing is written."""
    operation = MemoryOperation(id="run:1", fingerprint="write a.md one")
    assert await store.get_operation(operation) is None
    first = await store.write("a.md", "one", expected_version=None, operation=operation)
    replay = await store.write("a.md", "one", expected_version=None, operation=operation)
    assert (replay.version, replay.replayed, replay.existed) == (first.version, True, False)
    await store.write("a.md", "two", expected_version=first.version)
    assert await store.get_operation(operation) == replay
    assert (await store.read("a.md", max_chars=9)).content == "two"
    other = MemoryOperation(id="run:1", fingerprint="other")
    with pytest.raises(MemoryOperationConflictError):
        await store.get_operation(other)
    with pytest.raises(MemoryOperationConflictError):
        await store.write("b.md", "x", expected_version=None, operation=other)
    assert await store.read("b.md", max_chars=9) is None
    failed = MemoryOperation(id="run:2", fingerprint="f")
    with pytest.raises(MemoryConflictError):
        await store.write("a.md", "x", expected_version=None, operation=failed)
    assert await store.get_operation(failed) is None
    deletion = MemoryOperation(id="run:3", fingerprint="d")
    gone = await store.delete("missing.md", expected_version=None, operation=deletion)
    assert (gone.existed, gone.replayed) == (False, False)
    again = await store.delete("missing.md", expected_version=None, operation=deletion)
    assert (again.existed, again.replayed) == (False, True)


@pytest.mark.asyncio
async def test_a_search_is_scoped_and_bounded(store: Any) -> None:
    """By how often the words occur, directly below the prefix; snippets keep to the budget."""
    if IS_OLD and isinstance(store, InMemoryStore):
        pytest.skip(WAS_OTHERWISE)
    for path, text in {
        "a/main/alpha.md": "alpha alpha",
        "a/main/beta.md": "alpha",
        "a/main/other.md": "nothing",
        "a/main/deep/er.md": "alpha alpha alpha",
        "b/main/private.md": "alpha alpha alpha",
        "long": "012345lighthouse-tail",
    }.items():
        await store.write(path, text, expected_version=None)
    found = await store.search("a/main/", "alpha", **FEW)
    assert [one.path for one in found.matches] == ["a/main/alpha.md", "a/main/beta.md"]
    assert not found.truncated
    assert sum(len(one.path) + len(one.snippet) for one in found.matches) <= 100
    one = await store.search("a/main/", "alpha", **{**FEW, "max_files": 1})
    assert (one.scanned, one.truncated) == (1, True)
    tiny = await store.search("a/main/", "alpha", **{**FEW, "max_chars": 1})
    assert (tiny.matches, tiny.truncated) == ([], True)
    for nothing in ({"limit": 0}, {"max_files": 0}, {"max_chars": 0}):
        empty = await store.search("", "alpha", **{**FEW, **nothing})
        assert (empty.matches, empty.scanned, empty.truncated) == ([], 0, False)
    assert (await store.search("", " ", **FEW)).matches == []
    cut = await store.search("", "lighthouse", **{**FEW, "max_chars": 15})
    assert cut.matches[0].snippet.startswith("...")
    short = await store.search("", "lighthouse", **{**FEW, "max_chars": 6})
    assert len(short.matches[0].snippet) <= 2
    beyond = await store.search("", "lighthouse", **{**FEW, "max_file_chars": 6})
    assert beyond.matches == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path", ["../x", "/a", "a//b", "a/../b", "a/./b", "a b", "", "a/", ".", "a\0", "á", "x" * 201]
)
async def test_unsafe_paths_are_refused(store: Any, path: str) -> None:
    if IS_OLD and isinstance(store, InMemoryStore):
        pytest.skip(WAS_OTHERWISE)
    for call in (
        store.read(path, max_chars=9),
        store.write(path, "x", expected_version=None),
        store.delete(path, expected_version=None),
    ):
        with pytest.raises(ValueError):
            await call


@pytest.mark.asyncio
@pytest.mark.skipif(IS_OLD, reason="since 0.61")
async def test_metadata_is_of_the_write(store: Any) -> None:
    """Replaced by each write, refused if it is no texts."""
    written = await store.write_with_metadata(
        "a.md", "x", expected_version=None, metadata={"by": "ann"}
    )
    assert (await store.read("a.md", max_chars=9)).metadata == {"by": "ann"}
    for bad in ({"a": 1}, {1: "a"}, {"a": "\0"}, {"a": "x" * 5_000}):
        with pytest.raises((ValueError, TypeError)):
            await store.write_with_metadata(
                "a.md", "x", expected_version=written.version, metadata=bad
            )
    await store.write("a.md", "y", expected_version=written.version)
    assert (await store.read("a.md", max_chars=9)).metadata is None


@pytest.mark.asyncio
async def test_what_cannot_be_stored_is_refused_whole(db: memdb.MemDB) -> None:
    """What is no text: nothing is written, the version stays."""
    store = MemdbMemoryStore(db)
    written = await store.write("a.md", "one", expected_version=None)
    for bad in (b"bytes", None):  # a NUL is kept as U+FFFD, as everywhere in memdb
        operation = MemoryOperation(id=f"run:{bad!r}", fingerprint="f")
        with pytest.raises(ValueError):
            await store.write("a.md", bad, expected_version=written.version, operation=operation)
        assert await store.get_operation(operation) is None
    file = await store.read("a.md", max_chars=9)
    assert file is not None
    assert (file.content, file.version) == ("one", written.version)
    assert db.scope("default").recall("one", kinds=["item"])[0].source.key == "a.md"


def test_an_agent_writes_its_memory(db: memdb.MemDB) -> None:
    """`Memory` with a scripted model that calls the tool for it: its files are items."""
    agent = Agent(
        TestModel(call_tools=["write_memory"]), capabilities=[Memory(store=MemdbMemoryStore(db))]
    )
    asyncio.run(agent.run("Remember that I like tea."))
    namespaces = db.scope("default").items.namespaces()
    assert ("pydantic-ai", "memory", "files") in namespaces


@pytest.mark.asyncio
async def test_a_cancelled_write_is_whole_or_absent(db: memdb.MemDB) -> None:
    """File, version and receipt agree, at each await."""
    store = MemdbMemoryStore(db)
    number = 0

    async def begin() -> None:
        nonlocal number
        number += 1
        file = await store.read("a.md", max_chars=9)
        operation = MemoryOperation(id=str(number), fingerprint="f")
        version = None if file is None else file.version
        await store.write("a.md", str(number), expected_version=version, operation=operation)

    async def check() -> None:
        file = await store.read("a.md", max_chars=9)
        receipt = await store.get_operation(MemoryOperation(id=str(number), fingerprint="f"))
        if receipt is not None:
            assert file is not None
            assert (file.content, file.version) == (str(number), receipt.version)

    assert await cancel_at_each_await(begin, check) > 0


@pytest.mark.asyncio
async def test_a_closed_file_says_so(tmp_path: Path) -> None:
    async with MemdbMemoryStore(tmp_path / "agent.db") as store:
        await store.write("a.md", "x", expected_version=None)
    with pytest.raises(memdb.Closed):
        await store.read("a.md", max_chars=9)


WRITE = """
import asyncio, sys
from pydantic_ai_harness.memory import MemoryConflictError
from memdb.integrations.pydantic_harness import MemdbMemoryStore
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
async def main():
    async with MemdbMemoryStore(path) as store:
        await store.list_paths(limit=1)
        for n in range(writes):
            if n % 10:
                await store.write(f"{number}/{n}.md", "x", expected_version=None)
                continue
            while True:
                file = await store.read("shared.md", max_chars=10**6)
                text = file.content if file else ""
                try:
                    version = file.version if file else None
                    await store.write("shared.md", text + f"{number}-{n} ", expected_version=version)
                    break
                except MemoryConflictError:
                    pass
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_processes_write(tmp_path: Path) -> None:
    """150 each, every tenth into one file: a conflict is told, and nothing is lost."""
    path = tmp_path / "agent.db"
    run_at_once(WRITE, path)
    with memdb.open(path) as db:
        store = MemdbMemoryStore(db)
        file = asyncio.run(store.read("shared.md", max_chars=10**6))
        assert file is not None
        shared = {f"{p}-{n}" for p in range(PROCESSES) for n in range(0, WRITES, 10)}
        assert sorted(file.content.split()) == sorted(shared)
        paths = asyncio.run(store.list_paths(limit=10_000))
        assert len(paths) == 1 + PROCESSES * (WRITES - WRITES // 10)
        assert int(file.version) <= PROCESSES * WRITES


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_twelve_open_at_once(tmp_path: Path) -> None:
    """A fresh file."""
    run_at_once(WRITE, tmp_path / "agent.db", processes=OPENERS, writes=0)
