"""Odd values in messages: they come back, or are a ValueError; nothing is left out silently."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from agent_framework import Content, Message
from agent_framework.exceptions import AgentFrameworkException
from odd_values import IDS, VALUES, assert_kept_or_refused

import memdb
from memdb.integrations.agent_framework import MemdbContextProvider, MemdbHistoryProvider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_FORM = ("an object", "an object in a list", "a set", "bytes", "a complex number")


@pytest.fixture
def history(tmp_path: Path) -> Iterator[MemdbHistoryProvider]:
    with MemdbHistoryProvider(str(tmp_path / "a.db"), durability="process") as made:
        yield made


def read(history: MemdbHistoryProvider, session: str = "s") -> list[Message]:
    return asyncio.run(history.get_messages(session))


@pytest.mark.parametrize("name", VALUES)
def test_odd_properties_come_back_or_are_refused(history: MemdbHistoryProvider, name: str) -> None:
    first = Message("user", ["Hi."])
    kept = assert_kept_or_refused(
        name,
        lambda value: asyncio.run(history.save_messages(
            "s", [first, Message("user", ["x"], additional_properties={"v": value, "k": 1})])),
        lambda: [one.additional_properties for one in read(history)],
        ValueError,
        restored=None if name == "a time" else lambda found: found[1]["v"],
    )  # fmt: skip
    assert kept == (name not in (*NO_FORM, "500 levels", "2,000 levels", "itself"))


@pytest.mark.parametrize("value", [object(), (1, 2), {"a": [object()]}])
def test_properties_of_contents_are_not_left_out(history: MemdbHistoryProvider, value: Any) -> None:
    content = Content.from_text("x", additional_properties={"v": value})
    with pytest.raises(ValueError, match=r"additional_properties of messages\[1\]"):
        asyncio.run(
            history.save_messages("s", [Message("user", ["a"]), Message("user", [content])])
        )
    assert read(history) == []


def test_messages_that_differ_in_properties_only_are_both_kept(
    history: MemdbHistoryProvider,
) -> None:
    for number in (1, 2):
        new = Message("assistant", ["x"], additional_properties={"v": number})
        asyncio.run(history.save_messages("s", [new]))
    assert [one.additional_properties["v"] for one in read(history)] == [1, 2]
    again = Message("assistant", ["x"], additional_properties={"v": 2, "_own": datetime.now(UTC)})
    asyncio.run(history.save_messages("s", [again]))
    assert len(read(history)) == 2


@pytest.mark.parametrize("message", [None, "text", {"role": "user"}, 5])
def test_what_is_no_message_is_a_value_error(history: MemdbHistoryProvider, message: Any) -> None:
    with pytest.raises(ValueError, match=r"messages\[0\]"):
        asyncio.run(history.save_messages("s", [message]))


@pytest.mark.parametrize("last", [0, -1, "x", 1.5, True, [1]])
def test_an_odd_count_is_refused_at_once(tmp_path: Path, last: Any) -> None:
    with pytest.raises(memdb.InvalidInput, match="last"):
        MemdbHistoryProvider(tmp_path / "a.db", last=last)
    with pytest.raises(memdb.InvalidInput, match="limit"):
        MemdbContextProvider(tmp_path / "a.db", limit=last)


def test_an_unknown_option_is_named(tmp_path: Path) -> None:
    with memdb.open(tmp_path / "a.db") as db:
        for source in (db, tmp_path / "b.db"):
            with pytest.raises(memdb.InvalidInput, match=r"k: no option of MemdbHistoryProvider"):
                MemdbHistoryProvider(source, k=5)
        with pytest.raises(memdb.InvalidInput, match="give these options to memdb"):
            MemdbHistoryProvider(db, durability="process")
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize("name", IDS)
def test_an_odd_session_is_a_value_error(history: MemdbHistoryProvider, name: str) -> None:
    odd = IDS[name]
    if not odd:
        return
    with pytest.raises(ValueError, match="session"):
        read(history, odd)
    with pytest.raises(ValueError, match="session"):
        asyncio.run(history.save_messages(odd, [Message("user", ["x"])]))


def test_a_closed_file_answers_with_the_framework_s_error(tmp_path: Path) -> None:
    history = MemdbHistoryProvider(tmp_path / "a.db")
    history.close()
    for messages in ([], [Message("user", ["x"])]):
        with pytest.raises(AgentFrameworkException, match="closed"):
            asyncio.run(history.save_messages("s", messages))
