"""CrewAI's memory in a memdb file, beside its default storage, and under load."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory
from pages import ROOT, blocks, run_block

import memdb
from memdb.integrations.crewai import MemdbStorage

COMPARED = "1.15.30"
START = datetime(2026, 5, 1)  # noqa: DTZ001 (as CrewAI has its times)
SCOPES = ["/", "/team", "/team/ann", "/team/bo", "/other/100%", "/other/a_b"]


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[MemdbStorage]:
    with MemdbStorage(str(tmp_path / "a.db"), user="ann") as made:
        yield made


def record(number: int, rng: random.Random | None = None, **fields: Any) -> MemoryRecord:
    rng = rng or random.Random(number)
    told = {
        "id": f"r{number}",
        "content": f"text {number}",
        "scope": rng.choice(SCOPES),
        "categories": rng.sample(["a", "b", "c"], rng.randint(0, 2)),
        "metadata": {"n": number % 3, "t": [number % 2]},
        "importance": rng.random(),
        "created_at": START + timedelta(minutes=number),
        "last_accessed": START,
        "source": rng.choice([None, "ann"]),
        "private": rng.random() < 0.5,
        "embedding": [rng.uniform(-1, 1) for _ in range(4)],
    }
    return MemoryRecord(**told | fields)


def seen(value: Any) -> Any:
    """Return a result as both storages must give it; numbers to five places."""
    if isinstance(value, MemoryRecord):
        shown = value.model_dump()
        return shown | {"embedding": [round(one, 5) for one in value.embedding or ()]}
    if isinstance(value, tuple):
        return seen(value[0]), round(value[1], 5)
    return [seen(one) for one in value] if isinstance(value, list) else value


def test_it_is_a_storage_backend(storage: MemdbStorage) -> None:
    """By CrewAI's own protocol."""
    assert isinstance(storage, StorageBackend)


@pytest.mark.skipif(version("crewai") != COMPARED, reason="the storage of another release differs")
def test_it_answers_as_the_default_storage(  # noqa: C901 (a branch per method)
    storage: MemdbStorage, tmp_path: Path
) -> None:
    """400 calls of every method with the same results; only scopes that are whole paths."""
    other = LanceDBStorage(path=str(tmp_path / "lance"), vector_dim=4, compact_every=0)
    rng = random.Random(7)

    def both(name: str, *args: Any, **options: Any) -> Any:
        mine, theirs = (getattr(one, name)(*args, **options) for one in (storage, other))
        assert seen(mine) == seen(theirs), (name, args, options)
        return mine

    both("save", [record(n, rng) for n in range(20)])
    for number in range(1, 401):
        known = f"r{rng.randrange(20 + number)}"
        scope = rng.choice([None, "/team", "/team/ann", "/other", "/none"])
        chosen = rng.choice([None, ["a"], ["b", "c"]])
        metadata = rng.choice([None, {"n": 1}, {"t": [0]}])
        match rng.randrange(9):
            case 0:
                both("save", [record(20 + number, rng)])
            case 1 if storage.get_record(known):
                both("update", record(int(known[1:]), rng, content=f"new {number}"))
            case 2:
                both("get_record", known)
            case 3:
                query = [rng.uniform(-1, 1) for _ in range(4)]
                # The default compares three times the limit with the filters.
                both("search", query, scope, chosen, metadata, limit=200, min_score=0.2)
            case 4:
                both("list_records", scope, limit=rng.randrange(30), offset=rng.randrange(4))
            case 5:
                both("get_scope_info", scope or "/")
                both("list_scopes", scope or "/")
            case 6:
                both("list_categories", scope)
                both("count", scope)
            case 7 if number % 5 == 0:
                both("delete", scope, categories=["c"], metadata_filter={"n": 2})
                both("delete", record_ids=[known, "none"])
            case 8 if number % 40 == 0:
                both("reset", "/team/bo")
    assert both("count") > 40


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0 + text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]


def test_a_memory_recalls_what_another_process_stored(tmp_path: Path) -> None:
    """And another client of the file finds it by its words."""
    path = str(tmp_path / "a.db")
    told = {"scope": "/trip", "categories": ["travel"], "importance": 0.5}
    with MemdbStorage(path) as storage:
        memory = Memory(storage=storage, embedder=embed)
        memory.remember("We fly to Oslo on 3 May.", **told)
        memory.remember("The tent leaks.", **told)
        memory.drain_writes()
    with MemdbStorage(path) as storage:
        memory = Memory(storage=storage, embedder=embed)
        found = memory.recall("fly to Oslo", scope="/trip", limit=1, depth="shallow")
        assert found[0].record.content == "We fly to Oslo on 3 May."
        assert (
            memory.update(found[0].record.id, content="We fly to Bergen.").content
            == "We fly to Bergen."
        )
    with memdb.open(path) as db:
        hits = db.scope("default").recall("Bergen", kinds=["item"], min_score=0)
        assert [(hit.text, hit.source.namespace) for hit in hits] == [
            ("We fly to Bergen.", ("crewai", "trip"))
        ]


def test_delete_fits_all_that_is_given(storage: MemdbStorage) -> None:
    """Ids of other scopes stay, and so do newer records."""
    storage.save([record(1, scope="/a"), record(2, scope="/ab"), record(3, scope="/a/b")])

    assert storage.delete("/a", record_ids=["r2"]) == 0
    assert storage.delete("/a", older_than=START + timedelta(minutes=2)) == 1
    assert [one.id for one in storage.list_records()] == ["r3", "r2"]
    storage.reset("/a")
    assert [one.id for one in storage.list_records()] == ["r2"]


def test_an_update_can_move_a_record(storage: MemdbStorage) -> None:
    """It is in one scope only."""
    storage.save([record(1, scope="/a")])
    storage.update(record(1, scope="/b/c"))

    assert [storage.count(one) for one in ("/a", "/b", None)] == [0, 1, 1]
    assert storage.get_record("r1").scope == "/b/c"


def test_touched_records_keep_all_else(storage: MemdbStorage) -> None:
    """The vector too; an unknown id is passed over."""
    storage.save([record(1)])
    storage.touch_records(["r1", "none"])

    after = storage.get_record("r1")
    assert after.last_accessed > START
    assert seen(after) | {"last_accessed": START} == seen(record(1))
    assert storage.search(record(1).embedding, limit=1)[0][1] == pytest.approx(1.0)


def test_a_vector_of_another_model_is_refused(storage: MemdbStorage) -> None:
    """Nothing of its call is stored; a reset memory takes it."""
    storage.save([record(1)])
    for call in (
        lambda: storage.save([record(2), record(3, embedding=[1.0])]),
        lambda: storage.update(record(1, embedding=[1.0])),
        lambda: storage.search([1.0, 2.0]),
    ):
        with pytest.raises(ValueError):
            call()
    assert storage.count() == 1
    storage.reset()
    storage.save([record(3, embedding=[1.0])])
    assert storage.search([1.0])[0][0].id == "r3"


def test_a_record_without_a_vector_is_listed(storage: MemdbStorage) -> None:
    """No search by a vector finds it, nor one whose vector is zero."""
    storage.save([record(1, embedding=None), record(2, embedding=[0.0] * 4)])

    assert storage.search([1.0, 0, 0, 0]) == []
    assert {one.id: one.embedding for one in storage.list_records()} == {
        "r1": None,
        "r2": [0.0] * 4,
    }


@pytest.mark.parametrize(
    "bad",
    [
        {"id": ""}, {"id": "x" * 10_000}, {"id": "nul\0"}, {"id": "\ud800"}, {"scope": "/a\0"},
        {"scope": "/" + "x" * 10_000}, {"scope": "/a" * 100},
        {"metadata": {"k": {1}}}, {"embedding": [float("nan")] * 4},
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_an_error_of_values(
    storage: MemdbStorage, bad: dict[str, Any]
) -> None:
    """And nothing of its call is stored."""
    with pytest.raises((ValueError, TypeError)):
        storage.save([record(1), record(2).model_copy(update=bad)])
    assert storage.count() == 0


@pytest.mark.parametrize("name", ["../up", "%", "_", "*", "[a]", "ä ö", "\\"])
def test_characters_of_scopes_and_ids_are_literal(storage: MemdbStorage, name: str) -> None:
    """No scope is a pattern."""
    storage.save([record(1, id=name, scope=f"/{name}"), record(2, scope="/abc")])

    assert [one.id for one in storage.list_records(f"/{name}")] == [name]
    assert storage.delete(f"/{name}") == 1
    assert storage.count() == 1


def test_a_closed_storage_says_so(tmp_path: Path) -> None:
    """Not by a RuntimeError, which CrewAI takes for the end of the interpreter."""
    storage = MemdbStorage(str(tmp_path / "a.db"))
    storage.close()
    storage.close()

    for call in (
        storage.count,
        lambda: storage.save([record(1)]),
        lambda: asyncio.run(storage.asave([record(1)])),
    ):
        with pytest.raises(memdb.MemDBError, match="closed") as caught:
            call()
        assert not isinstance(caught.value, RuntimeError)


def test_a_forked_process_is_refused(storage: MemdbStorage) -> None:
    """The file belongs to the process that opened it."""
    child = os.fork()
    if child == 0:
        try:
            storage.count()
        except memdb.MemDBError:
            os._exit(0)
        os._exit(1)

    assert os.waitpid(child, 0)[1] == 0


def test_a_cancelled_call_is_whole_or_not_at_all(storage: MemdbStorage) -> None:
    """Two records are stored, or none; the next call works."""
    numbers = iter(range(10_000))

    async def check() -> None:
        assert storage.count() % 2 == 0
        await storage.asearch([1.0, 0, 0, 0])

    async def main() -> int:
        await cancel_at_each_await(lambda: storage.asearch([1.0, 0, 0, 0]), check)
        await cancel_at_each_await(lambda: storage.adelete("/none"), check)
        return await cancel_at_each_await(
            lambda: storage.asave([record(next(numbers)), record(next(numbers))]), check
        )

    assert asyncio.run(main()) > 0


AT_ONCE = """
import os, sys
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
import warnings
warnings.simplefilter("ignore")
from crewai.memory.types import MemoryRecord
from memdb.integrations.crewai import MemdbStorage
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with MemdbStorage(path) as storage:
    for n in range(writes):
        told = {"id": f"{number} {n}", "scope": f"/all/{n % 3}", "embedding": [number, n, 1.0]}
        storage.save([MemoryRecord(content=f"{number} says {n}", **told)])
    storage.count()
"""


@pytest.mark.slow
def test_many_processes_lose_nothing(tmp_path: Path) -> None:
    """All write into the same scopes; openers find the file in use."""
    path = tmp_path / "a.db"
    run_at_once(AT_ONCE, path)
    run_at_once(AT_ONCE, path, processes=OPENERS, writes=0)

    with MemdbStorage(path) as storage:
        assert {one.id for one in storage.list_records("/all", limit=10_000)} == {
            f"{number} {n}" for number in range(PROCESSES) for n in range(WRITES)
        }
        assert storage._db.file.check() == []


def test_the_example_recalls() -> None:
    """As it is shown."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / "crewai_memory.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    # The panels that CrewAI draws come from a thread of its own, before or after it.
    assert "We fly to Oslo on 3 May. ['/trip']" in done.stdout.splitlines()


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an embedder of the test."""
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("crewai.md", "python")

    found = run_block(code, embed=embed)
    assert found["matches"][0].record.content == "We fly to Oslo on 3 May."
