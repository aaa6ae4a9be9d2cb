"""Odd values and ids in CrewAI's records: stored, absent, or the error of the docs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from crewai.memory.types import MemoryRecord
from odd_values import IDS, VALUES, assert_kept_or_refused

import memdb
from memdb.integrations.crewai import MemdbStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# TypeError is what CrewAI's own storage raises for metadata without a JSON form.
REFUSED = (TypeError, ValueError)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[MemdbStorage]:
    with MemdbStorage(tmp_path / "a.db", durability="process") as made:
        made.save([record("good"), record("other")])
        yield made


def record(name: str, **fields: Any) -> MemoryRecord:
    given = {"content": "text", "embedding": [1.0, 0.0], **fields}
    return MemoryRecord(id=name, **given)


def names(storage: MemdbStorage) -> list[str]:
    return sorted(one.id for one in storage.list_records())


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("is_async", [False, True])
def test_odd_metadata_comes_back_or_is_refused(
    storage: MemdbStorage, name: str, *, is_async: bool
) -> None:
    def put(value: Any) -> None:
        new = [record("new"), record("odd", metadata={"v": value})]
        if is_async:
            asyncio.run(storage.asave(new))
        else:
            storage.save(new)

    assert_kept_or_refused(
        name,
        put,
        lambda: {one.id: one.metadata for one in storage.list_records()},
        REFUSED,
        restored=lambda found: found["odd"]["v"],
    )
    assert len(storage.search([1.0, 0.0])) == len(names(storage))


@pytest.mark.parametrize("name", IDS)
def test_an_odd_id_is_that_of_no_record(storage: MemdbStorage, name: str) -> None:
    odd = IDS[name]
    assert storage.get_record(odd) is None
    storage.touch_records([odd, "good"])
    assert storage.delete(record_ids=[odd, "other"]) == 1
    assert storage.delete(record_ids=[odd]) == 0
    assert names(storage) == ["good"]


@pytest.mark.parametrize("given", ["good", b"good", 5])
def test_one_text_is_no_list_of_ids(storage: MemdbStorage, given: Any) -> None:
    for call in (storage.touch_records, lambda ids: storage.delete(record_ids=ids)):
        with pytest.raises(memdb.InvalidInput, match="give a list"):
            call(given)
    assert names(storage) == ["good", "other"]


@pytest.mark.parametrize("value", [b"1", "text", 5, None, [], {}, {"id": "x"}])
def test_what_others_put_there_is_no_record(storage: MemdbStorage, value: Any) -> None:
    with memdb.open(storage._db.path) as db:
        items = db.scope("default").items
        items.put(("crewai",), "x", value, vectors=[[1.0, 0.0]])
        items.put(("crewai ids",), "x", ["crewai"])
    assert names(storage) == ["good", "other"]
    assert len(storage.search([1.0, 0.0])) == storage.count() == 2
    assert storage.get_record("x") is None
    assert storage.get_scope_info("/").record_count == 2
    storage.touch_records(["x"])


def test_a_closed_file_answers_closed(tmp_path: Path) -> None:
    storage = MemdbStorage(tmp_path / "a.db")
    storage.close()
    calls: list[Callable[[], object]] = [
        lambda: storage.save([]),
        lambda: storage.get_record("\0"),
        lambda: storage.touch_records([]),
        lambda: storage.search([], limit=0),
        lambda: storage.list_records(limit=0),
        lambda: storage.delete(record_ids=["\0"]),
        lambda: storage.count(),
        lambda: storage.reset(),
        lambda: asyncio.run(storage.asave([])),
    ]
    for call in calls:
        with pytest.raises(memdb.Closed):
            call()
