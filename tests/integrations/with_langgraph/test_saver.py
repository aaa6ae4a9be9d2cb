"""Checkpoints in a memdb file: what LangGraph's own tests do not ask."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint import base
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

import memdb
from memdb.integrations.langgraph import MemdbSaver

if TYPE_CHECKING:
    from collections.abc import Iterator

NUL, SURROGATE, LONG = "a\0b", "a\ud800", "x" * 10_000


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[MemdbSaver]:
    """Return a saver on a new file, which is sound in the end."""
    with MemdbSaver(tmp_path / "a.db", embedder=None) as made:
        yield made
        assert made._db.file.check() == []


def config(thread: Any = "t", space: str = "", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": space, **more}}


def checkpoint(checkpoint_id: str, **values: Any) -> Any:
    return {**empty_checkpoint(), "id": checkpoint_id, "ts": "now", "channel_values": values}


def fill(saver: Any) -> None:
    """Write what both savers are asked for: ids of any order, namespaces, writes of all kinds."""
    for thread in ("t", "t%", "T", 7):
        for space in ("", "sub:1", "sub:1|deep:2"):
            parent = config(thread, space)
            for number in (3, 1, 2, 20, 10):
                made = checkpoint(f"id{number}", step=number, data=b"\0x", text="ä")
                about = {"source": "loop", "step": number, "nested": {"n": number % 2}}
                parent = saver.put(parent, made, about, {})
                saver.put_writes(parent, [("a", number), ("b", None)], "task2", "path2")
                saver.put_writes(parent, [("c", b"\0")], "task1", "path3")
                saver.put_writes(parent, [("__error__", "e"), ("__interrupt__", [1])], "task0")
                saver.put_writes(parent, [("a", "again"), ("b", 2), ("d", 3)], "task2", "path1")
                saver.put_writes(parent, [("__error__", "e2")], "task0")
                saver.put_writes(parent, [], "task9")
    saver.put_writes(config("t", checkpoint_id="id15"), [("x", 1)], "early")
    saver.put(config("t", checkpoint_id="id1"), checkpoint("id3", step=33), {"step": 33}, {})


QUERIES: list[tuple[Any, dict[str, Any]]] = [
    (config("t"), {}),
    (config("t"), {"limit": 2}),
    (config("t"), {"limit": 0}),
    (config("t"), {"before": config("t", checkpoint_id="id2")}),
    (config("t"), {"before": config("t", checkpoint_id="id2"), "limit": 1}),
    (config("t"), {"filter": {"step": 20}}),
    (config("t"), {"filter": {"nested.n": 1, "source": "loop"}}),
    (config("t"), {"filter": {"nested": {"n": 0}}}),
    (config("t"), {"filter": {"absent": None}, "limit": 3}),
    (config("t", checkpoint_id="id1"), {}),
    (config("t", "sub:1"), {"limit": 3}),
    (config("t%"), {"limit": 3}),
    (config(7), {"limit": 1}),
    (config("none"), {}),
    (config("t", checkpoint_id="id15"), {}),
]


@pytest.mark.skipif(not hasattr(base, "writes_sort_key"), reason="its writes have no order yet")
def test_it_answers_as_langgraph_s_own_saver(saver: MemdbSaver) -> None:
    """Every list and every checkpoint, by id and without, is equal."""
    with SqliteSaver.from_conn_string(":memory:") as theirs:
        for one in (saver, theirs):
            fill(one)
        for wanted, options in QUERIES:
            assert [*saver.list(wanted, **options)] == [*theirs.list(wanted, **options)], options
            assert saver.get_tuple(wanted) == theirs.get_tuple(wanted), wanted
        for one in [*theirs.list(None)]:
            assert saver.get_tuple(one.config) == theirs.get_tuple(one.config)
        every = {"configurable": {"thread_id": "t"}}
        ids = [[one.checkpoint["id"] for one in own.list(every)] for own in (saver, theirs)]
        assert ids[0] == ids[1]
        assert len([*saver.list(None)]) == len([*theirs.list(None)]) == 60


def test_more_writes_than_a_page(saver: MemdbSaver) -> None:
    """However many tasks there are, all their writes are read, once."""
    put = saver.put(config(), checkpoint("a"), {}, {})
    saver.put(put, checkpoint("b"), {}, {})
    tasks = [f"task{number:04}" for number in range(1_300)]
    for task in tasks:
        saver.put_writes(config(checkpoint_id="b"), [("x", task)], task)

    for found in (saver.get_tuple(config()), saver.get_tuple(config(checkpoint_id="b"))):
        assert found is not None
        assert [write[0] for write in found.pending_writes or ()] == tasks
    first, second = saver.list(config())
    assert (len(first.pending_writes or ()), second.pending_writes) == (1_300, [])


def test_prune_keeps_what_delta_channels_need(saver: MemdbSaver) -> None:
    """Parents stay up to the one that holds the channel whole."""
    parent = config()
    for number in range(6):
        values = {"log": ["whole"]} if number == 2 else {}
        about: Any = {"counters_since_delta_snapshot": {"log": [number, number]}}
        parent = saver.put(parent, checkpoint(f"id{number}", **values), about, {})
        saver.put_writes(parent, [("log", number)], "task")
    before = saver.get_delta_channel_history(config=config(), channels=["log"])

    saver.prune(["t", "unknown"])

    assert [one.checkpoint["id"] for one in saver.list(config())] == ["id5", "id4", "id3", "id2"]
    after = saver.get_delta_channel_history(config=config(), channels=["log"])
    assert (
        after
        == before
        == {"log": {"writes": [("task", "log", n) for n in (2, 3, 4)], "seed": ["whole"]}}
    )
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t"], strategy="some")


def test_a_redacting_file_keeps_checkpoints(saver: MemdbSaver) -> None:
    """Bytes are no text: what looks like a key in them comes back."""
    saver._db.settings.update(secrets_in_messages="redact")
    key = "sk-proj-" + "Ab1" * 16
    put = saver.put(config(), checkpoint("a", text=f"my key is {key}"), {}, {})
    saver.put_writes(put, [("x", key)], "task")

    found = saver.get_tuple(config())

    assert found is not None
    assert found.checkpoint["channel_values"]["text"] == f"my key is {key}"
    assert found.pending_writes == [("task", "x", key)]


@pytest.mark.parametrize(
    "call",
    [
        lambda saver, bad: saver.put(config(bad), checkpoint("new"), {}, {}),
        lambda saver, bad: saver.put(config("new", bad + "|"), checkpoint("new"), {}, {}),
        lambda saver, bad: saver.put(config("new"), checkpoint(bad), {}, {}),
        lambda saver, bad: saver.put_writes(config(checkpoint_id=bad), [("x", 1)], "t"),
        lambda saver, bad: saver.put_writes(config(checkpoint_id="new"), [("x", 1)], bad),
    ],
)
@pytest.mark.parametrize("bad", [NUL, SURROGATE, LONG, "a\1", "a\2b"])
def test_ids_that_cannot_be_stored_are_refused(saver: MemdbSaver, call: Any, bad: str) -> None:
    """ValueError, and nothing is written; a control character is no matter in a name."""
    before = [*saver.list(None)]
    try:
        call(saver, bad)
    except ValueError:
        assert [*saver.list(None)] == before
        return
    assert bad in ("a\1", "a\2b")


@pytest.mark.parametrize(
    "name", ["../../etc", "%", "_", "*", "[a]", "'; DROP TABLE items;--", "🙂"]
)
def test_hostile_names_are_names(saver: MemdbSaver, name: str) -> None:
    """Threads, namespaces, ids and tasks of any characters are apart from others."""
    saver.put(config("other"), checkpoint("other"), {}, {})
    put = saver.put(config(name, name), checkpoint(name, a=1), {"source": "input"}, {})
    saver.put_writes(put, [(name, name)], name, name)

    found = saver.get_tuple(config(name, name))

    assert found is not None
    assert found.pending_writes == [(name, name, name)]
    assert len([*saver.list(config(name, name))]) == 1
    saver.delete_thread(name)
    assert [one.checkpoint["id"] for one in saver.list(None)] == ["other"]


def test_what_cannot_be_serialised_writes_nothing(saver: MemdbSaver) -> None:
    """InvalidInput for metadata, the serializer's own error for what it gets."""
    bad: Any = {"source": object()}
    with pytest.raises(memdb.InvalidInput):
        saver.put(config(), checkpoint("a"), bad, {})
    with pytest.raises((TypeError, ValueError)):
        saver.put_writes(config(checkpoint_id="a"), [("x", 1), ("y", lambda: 1)], "t")
    assert [*saver.list(None)] == []


def test_a_closed_saver_says_so(tmp_path: Path) -> None:
    """Both kinds of calls raise memdb.Closed."""
    saver = MemdbSaver(tmp_path / "a.db", embedder=None)
    saver.close()
    saver.close()
    with pytest.raises(memdb.Closed):
        saver.get_tuple(config())
    with pytest.raises(memdb.Closed):
        saver.put(config(), checkpoint("a"), {}, {})
    with pytest.raises(memdb.Closed):
        asyncio.run(saver.aput(config(), checkpoint("a"), {}, {}))


def test_a_forked_process_is_refused(saver: MemdbSaver) -> None:
    """Its parent goes on."""
    child = os.fork()
    if not child:
        try:
            saver.get_tuple(config())
        except memdb.WrongProcess:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert saver.get_tuple(config()) is None


def test_every_event_loop_may_call(saver: MemdbSaver) -> None:
    """A loop of its own for each call, as with asyncio.run."""
    for number in range(3):
        asyncio.run(saver.aput(config(), checkpoint(f"id{number}"), {}, {}))

    async def read() -> list[str]:
        return [one.checkpoint["id"] async for one in saver.alist(config(), limit=2)]

    assert asyncio.run(read()) == ["id2", "id1"]


@pytest.mark.skipif(not hasattr(MemdbSaver, "with_allowlist"), reason="it is newer")
def test_a_copy_with_an_allowlist_shares_the_file(saver: MemdbSaver) -> None:
    """As a graph with types of its own makes one."""
    copied = saver.with_allowlist([("some.module", "Name")])
    copied.put(config(), checkpoint("a"), {}, {})
    assert saver.get_tuple(config()) == copied.get_tuple(config())


def test_what_is_kept_of_a_read_is_never_old(tmp_path: Path) -> None:
    """Writes of another process, another saver and of an open transaction are seen at once."""
    path = tmp_path / "a.db"
    with MemdbSaver(path, embedder=None) as saver, MemdbSaver(path, embedder=None) as other:
        for number in range(3):
            for one in (saver, other):
                one.put(config(), checkpoint(f"id{number}", by=str(one)), {}, {})
                for _ in range(3):
                    found = saver.get_tuple(config()), other.get_tuple(config())
                    assert found[0] == found[1]
                    assert found[0] is not None
                    assert found[0].checkpoint["channel_values"] == {"by": str(one)}
        found[0].checkpoint["channel_values"]["by"] = "changed"  # a copy
        with saver._db.transaction():
            saver.put_writes(config(checkpoint_id="id2"), [("x", 1)], "task")
            inside = saver.get_tuple(config())
            assert inside is not None
            assert inside.pending_writes == [("task", "x", 1)]
            assert inside.checkpoint["channel_values"] == {"by": str(other)}
        saver._db.scope("default", "default (checkpoints)").items.clear(("t",))
        assert saver.get_tuple(config()) is other.get_tuple(config()) is None


def said_in(saver: MemdbSaver, thread: str = "t") -> list[tuple[str, str]]:
    """Return role and text of the messages that a thread's session has."""
    session = saver._db.scope("default").session(thread)
    return [(one.role, one.text) for one in session.messages()]


def test_the_messages_of_a_thread_are_a_session(saver: MemdbSaver) -> None:
    """New ones are added once, changed ones edited; what is no list of messages is no session."""
    asked, answer = HumanMessage("low tide?", id="1"), AIMessage("at four", id="2")
    called = AIMessage("", id="3", tool_calls=[{"id": "c", "name": "tide", "args": {"p": 1}}])
    saver.put(config(), checkpoint("id1", messages=[asked]), {}, {})
    saver.put(config(), checkpoint("id2", messages=[asked, answer, called]), {}, {})
    saver.put(config(space="sub"), checkpoint("id1", messages=[HumanMessage("inner")]), {}, {})
    saver.put(config("n"), checkpoint("id1", messages="no list", more=[asked]), {}, {})
    assert said_in(saver)[:2] == [("user", "low tide?"), ("assistant", "at four")]
    assert len(said_in(saver)) == 3
    assert said_in(saver, "n") == []
    again = MemdbSaver(saver._db)  # as another process
    again.put(config(), checkpoint("id3", messages=[asked, AIMessage("at five", id="2")]), {}, {})
    assert said_in(saver)[1] == ("assistant", "at five")
    again.put(config(), checkpoint("id4", messages=[AIMessage("bye")] * 2), {}, {})
    again.put(config(), checkpoint("id5", messages=[asked, AIMessage("bye")]), {}, {})
    assert [text for _, text in said_in(saver)][3:] == ["bye", "bye"]
    odd = [RemoveMessage(id="9"), HumanMessage("a\0b", id="i" * 3_000), AIMessage([], id="8")]
    again.put(config(), checkpoint("id6", messages=odd), {}, {})
    again.put(config(), checkpoint("id7", messages=odd), {}, {})
    assert [text for _, text in said_in(saver)][5:] == ["a\ufffdb", "[empty message]"]
    again.delete_thread("t")
    assert said_in(saver) == []
    for options in ({"sessions": False}, {"serde": saver.serde}):
        other = MemdbSaver(saver._db, **options)
        other.put(config(), checkpoint("i", messages=[asked]), {}, {})
    assert said_in(saver) == []


def test_a_large_value_is_stored_once_for_all_checkpoints_that_have_it(saver: MemdbSaver) -> None:
    """It comes back with each of them, after a copy and after the checkpoint that brought it went."""
    big = "ab" * 50_000
    parent = saver.put(
        config(), checkpoint("id0", big=big) | {"channel_versions": {"big": "1"}}, {}, {"big": "1"}
    )
    for number in range(1, 20):
        made = checkpoint(f"id{number:02}", big=big, step=number)
        made["channel_versions"] = {"big": "1", "step": str(number)}
        parent = saver.put(parent, made, {"run_id": number}, {"step": str(number)})
    items = saver._db.scope("default", "default (checkpoints)").items
    assert sum(len(one.value) for one in items.list(("t",), limit=100)) < 2 * len(big)
    assert {one.checkpoint["channel_values"]["big"] for one in saver.list(config())} == {big}
    saver.copy_thread("t", "u")
    saver.delete_for_runs([*range(10)])
    saver.prune(["t"])
    for thread in ("t", "u"):
        assert saver.get_tuple(config(thread)).checkpoint["channel_values"]["big"] == big
    changed = checkpoint("id20", big="") | {"channel_versions": {"big": "2"}}
    saver.put(parent, changed, {}, {"big": "2"})
    saver.prune(["t"])
    assert [len(one.value) < len(big) for one in items.list(("t",))] == [True]


def test_what_a_thread_said_is_forgotten_with_its_scope(tmp_path: Path) -> None:
    """Sessions, checkpoints, writes and large values: no byte is left in the file."""
    path = tmp_path / "b.db"
    for asked in ({"session": "t"}, {"query": "quibblitis"}, {"everything": True}):
        with MemdbSaver(path, embedder=None) as saver:
            said = HumanMessage(f"quibblitis is my illness, {'so ' * 2_000}", id="1")
            made = checkpoint("id1", messages=[said], more=["quibblitis"])
            made["channel_versions"] = {"messages": "1"}
            put = saver.put(config(), made, {}, {"messages": "1"})
            saver.put_writes(put, [("messages", said)], "task")
            assert b"quibblitis" in path.read_bytes() + Path(f"{path}-wal").read_bytes()
            assert saver._db.scope("default").forget(**asked, prove=True).proven
            saver._db.scope("default").forget(everything=True)
        assert b"quibblitis" not in path.read_bytes(), asked
