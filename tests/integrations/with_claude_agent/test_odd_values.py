"""Odd lines, keys and metadata: kept as they were, read as absent, or an InvalidInput."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from odd_values import IDS, VALUES, assert_kept_or_refused, nested

import memdb
from memdb.integrations.claude_agent import MemdbSessionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY: Any = {"project_key": "p", "session_id": "s"}
OTHER: Any = {"project_key": "p", "session_id": "t"}
LINE: Any = {"type": "user", "message": {"role": "user", "content": "Hi."}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemdbSessionStore]:
    with MemdbSessionStore(tmp_path / "a.db", durability="process") as made:
        yield made


@pytest.mark.parametrize("name", VALUES)
def test_an_odd_line_comes_back_or_is_refused(store: MemdbSessionStore, name: str) -> None:
    kept = assert_kept_or_refused(
        name,
        lambda value: asyncio.run(store.append(KEY, [LINE, {**LINE, "v": value}])),
        lambda: asyncio.run(store.load(KEY)),
        memdb.InvalidInput,
        restored=lambda found: found[1]["v"],
    )
    no_form = ("an object", "an object in a list", "a set", "bytes", "a time", "a complex number")
    assert kept == (name not in (*no_form, "500 levels", "2,000 levels", "itself"))


@pytest.mark.parametrize("levels", [190, 200, 250, 298])
def test_a_deep_line_comes_back(store: MemdbSessionStore, levels: int) -> None:
    line = {**LINE, "d": nested(levels)}
    asyncio.run(store.append(KEY, [line]))
    assert asyncio.run(store.load(KEY)) == [line]


@pytest.mark.parametrize("entries", [None, "text", 5, b"x", [None], [5], ["x"], [[]]])
def test_what_are_no_lines_is_refused(store: MemdbSessionStore, entries: Any) -> None:
    with pytest.raises(memdb.InvalidInput, match="entries"):
        asyncio.run(store.append(KEY, entries))
    assert asyncio.run(store.load(KEY)) is None


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("field", ["project_key", "session_id", "subpath"])
def test_an_odd_key_is_absent(store: MemdbSessionStore, field: str, name: str) -> None:
    asyncio.run(store.append(KEY, [LINE]))
    key: Any = {**KEY, field: IDS[name]}
    if field == "subpath" and IDS[name] is None:
        return
    assert asyncio.run(store.load(key)) is None
    assert asyncio.run(store.list_subkeys(key)) == []
    asyncio.run(store.delete(key))
    with pytest.raises(memdb.InvalidInput):
        asyncio.run(store.append(key, [LINE]))
    assert asyncio.run(store.load(KEY)) == [LINE]
    if field == "project_key":
        assert asyncio.run(store.list_sessions(IDS[name])) == []


@pytest.mark.parametrize(
    "damage",
    [5, [], {}, {"summary": "notjson"}, {"summary": 5}, {"summary": "[1]"}, {"summary": "[" * 9_999},
     {"summary": '{"x": 1}'}, {"title_rank": "x"}, {"title_rank": None}, {"title_rank": True}],
    ids=lambda one: str(one)[:30],
)  # fmt: skip
def test_metadata_that_others_changed_hides_no_session(
    store: MemdbSessionStore, damage: Any
) -> None:
    asyncio.run(store.append(KEY, [LINE]))
    asyncio.run(store.append(OTHER, [LINE]))
    with memdb.open(store._db.path) as db:
        db.scope("default", "p").session("s").update(metadata={"claude_agent": damage})
    found = asyncio.run(store.list_session_summaries("p"))
    assert {one["session_id"] for one in found} == {"s", "t"}
    titled: Any = {"type": "custom-title", "customTitle": "Trip", "sessionId": "s"}
    asyncio.run(store.append(KEY, [LINE, titled]))
    lines = asyncio.run(store.load(KEY))
    assert lines is not None
    assert len(lines) == 3
    assert len(asyncio.run(store.list_session_summaries("p"))) == 2


def test_a_closed_file_answers_closed(tmp_path: Path) -> None:
    store = MemdbSessionStore(tmp_path / "a.db")
    store.close()
    empty: Any = {}
    calls: list[Callable[[], Any]] = [
        lambda: store.load(empty),
        lambda: store.append(KEY, []),
        lambda: store.delete(empty),
        lambda: store.list_subkeys(empty),
        lambda: store.list_sessions(""),
        lambda: store.list_session_summaries("\0"),
    ]
    for call in calls:
        with pytest.raises(memdb.Closed):
            asyncio.run(call())
