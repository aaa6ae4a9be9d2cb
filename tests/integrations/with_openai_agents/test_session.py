"""Sessions of the OpenAI Agents SDK: its own Runner, a scripted model, real files."""

from __future__ import annotations

import asyncio
import json
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import agents
import pytest
from agents import Agent, RunConfig, Runner, SessionSettings, function_tool
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

import memdb
import memdb.aio
from memdb.errors import InvalidItem, SessionClosed
from memdb.integrations.openai_agents import MemDBSession
from memdb.integrations.openai_agents.items import items_of, to_message

agents.set_tracing_disabled(True)

CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "fly",
    "arguments": '{"to": "Oslo"}',
    "id": "fc_1",
    "status": "completed",
}
RESULT = {"call_id": "c1", "output": "booked", "type": "function_call_output"}
SAID = {
    "id": "msg_1",
    "content": [{"annotations": [], "text": "Booked.", "type": "output_text", "logprobs": []}],
    "role": "assistant",
    "status": "completed",
    "type": "message",
}
ITEMS = [
    {"role": "user", "content": "Book a flight to Oslo."},
    {"content": "key order stays", "role": "user"},
    {"id": "rs_1", "summary": [{"text": "Think.", "type": "summary_text"}], "type": "reasoning"},
    CALL,
    RESULT,
    {**RESULT, "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
    {"type": "function_call_output", "call_id": "c3", "output": None},
    {"type": "function_call", "call_id": None, "name": "x", "arguments": "{}"},
    SAID,
    {"role": "developer", "content": "Be brief."},
    {"role": "system", "content": "You are kind."},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
    {"type": "computer_call_output", "call_id": "x", "output": {"type": "computer_screenshot"}},
    {"role": "user", "content": "NUL \0 and half \ud800 of a pair"},
    {"role": "user", "content": "不 é 😊", "n": [1.5, None, True, {"b": 1, "a": 2}]},
    {"role": "user", "content": ""},
    {"nothing": "known"},
    {},
]


def answer(text: str, number: int = 1) -> dict[str, Any]:
    """Return the item of a model's answer."""
    return {**SAID, "id": f"msg_{number}", "content": [{**SAID["content"][0], "text": text}]}


def said(text: str, number: int = 1) -> list[Any]:
    """Return a model's answer as a step of its script."""
    return [ResponseOutputMessage.model_validate(answer(text, number))]


def called(**fields: Any) -> list[Any]:
    """Return a model's call of a tool as a step of its script."""
    return [ResponseFunctionToolCall.model_validate({**CALL, **fields})]


def run(work: Any) -> Any:
    """Run a coroutine in an event loop of its own."""
    return asyncio.run(work)


@pytest.fixture
def session(path):
    """Return a session in a file that is checked at the end."""
    session = MemDBSession("trip", path, user="ann")
    yield session
    session.close()
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []


@pytest.mark.parametrize("item", ITEMS, ids=range(len(ITEMS)))
def test_an_item_comes_back_as_it_was(session, item):
    """Every key, in its order, whatever the item holds."""
    run(session.add_items([item]))

    (found,) = run(session.get_items())

    assert json.dumps(found) == json.dumps(item)
    assert run(session.pop_item()) == item


def test_not_a_number_comes_back_too(session):
    """JSON of Python's own kind, as the SDK stores it."""
    run(session.add_items([{"role": "user", "content": "x", "score": float("inf")}]))

    assert run(session.get_items())[0]["score"] == float("inf")


def test_the_latest_items_come_in_order(session):
    """A limit counts from the newest; 0 is none; more than there are gives all."""
    items = [{"role": "user", "content": str(n)} for n in range(7)]
    run(session.add_items(items))

    found = {limit: run(session.get_items(limit)) for limit in (None, 0, 1, 3, 7, 2**31 - 1, -1)}

    assert found == {
        None: items,
        0: [],
        1: items[-1:],
        3: items[-3:],
        7: items,
        2**31 - 1: items,
        -1: items,
    }


def test_what_is_read_again_is_what_the_file_says(session, path, run_child):
    """Whoever changes the file, the next read tells it; nobody's changes to a list are seen."""
    texts = []

    def read():
        items = run(session.get_items(3))
        texts.append([item["content"] for item in items])
        items.append("scribble")
        items[0]["content"] = "scribble"

    run(session.add_items([{"role": "user", "content": "one"}]))
    read()
    read()
    other = MemDBSession("trip", path, user="ann")
    run(other.add_items([{"role": "user", "content": "two"}]))
    read()
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "three")
    read()
    append = "import sys, memdb; memdb.open(sys.argv[1]).scope('ann').session('trip')"
    run_child(f"{append}.append('user', 'four')", path)
    read()
    run(other.pop_item())
    read()
    run(other.create_branch_from_turn(2, "b"))
    run(session.switch_to_branch("b"))
    read()
    run(other.clear_session())
    run(other.add_items([{"role": "user", "content": "new"}]))
    read()
    other.close()

    assert texts == [
        ["one"],
        ["one"],
        ["one", "two"],
        ["one", "two", "three"],
        ["two", "three", "four"],
        ["one", "two", "three"],
        ["one"],
        ["new"],
    ]


def test_only_small_answers_are_kept(session):
    """A copy is made in the event loop, so a large answer is read in its thread again."""
    kept = session._opened().answers._known
    run(session.add_items([{"role": "user", "content": "x" * 3000} for _ in range(30)]))

    assert len(run(session.get_items())) == 30
    assert kept == {}
    for limit in range(1, 100):
        run(session.get_items(min(limit, 5)))
        run(session.get_items(1, branch_id=f"b{limit}"))

    assert len(kept) == 64


def test_settings_limit_reads_without_a_limit(path):
    """As in the SDK's own sessions, as a dict too."""
    session = MemDBSession("trip", path, session_settings={"limit": 2})
    run(session.add_items([{"role": "user", "content": str(n)} for n in range(4)]))

    assert [item["content"] for item in run(session.get_items())] == ["2", "3"]
    assert len(run(session.get_items(3))) == 3
    with pytest.raises(TypeError, match="limitt"):
        MemDBSession("trip", path, session_settings={"limitt": 2})
    session.close()


def test_what_other_clients_said_is_given_as_items(session, path):
    """Texts, calls and results of any memdb client; a tool's text gets a call."""
    with memdb.open(path) as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "Book it.")
        parts = [
            {"type": "text", "text": "I will."},
            {"type": "tool_call", "id": "c1", "name": "fly", "arguments": "{}"},
            {"type": "tool_call", "id": "c2", "name": "pay", "arguments": "{}"},
        ]
        chat.append("assistant", parts=parts)
        chat.append("tool", parts=[{"type": "tool_result", "tool_call_id": "c1", "content": "ok"}])
        chat.append("tool", "an answer to nothing")

    items = run(session.get_items())

    assert items == [
        {"role": "user", "content": "Book it."},
        {"role": "assistant", "content": "I will."},
        {"type": "function_call", "call_id": "c1", "name": "fly", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "pay", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "function_call", "call_id": "call_4", "name": "unknown_tool", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_4", "output": "an answer to nothing"},
    ]
    assert [run(session.get_items(limit)) for limit in (1, 2, 4)] == [
        items[-1:],
        items[-2:],
        items[-4:],
    ]
    assert [run(session.pop_item()) for _ in range(5)] == items[:-6:-1]
    assert run(session.get_items()) == items[:2]


def test_damaged_items_are_told_by_their_text(session, path):
    """A row that says it is an item and is none counts as what it reads as."""
    kept = {"type": "original", "provider": "openai-responses"}
    bad = [{**kept, "whole": 5}, {**kept, "whole": "{"}, {**kept, "data": {"$": [7, "text"]}}]
    with memdb.open(path) as db:
        chat = db.scope("ann").session("trip")
        chat.append("user", "one")
        for part in bad:
            chat.append("user", "hidden", parts=[part])

    assert run(session.get_items(1)) == [{"role": "user", "content": "hidden"}]
    assert len(run(session.get_items())) == 4
    assert run(session.pop_item()) == {"role": "user", "content": "hidden"}


def test_a_failed_add_leaves_nothing(session, path, dump):
    """All items or none: no row, no lock, and the next call works."""
    run(session.add_items([{"role": "user", "content": "one"}]))
    before = dump(path)

    for bad in ({"content": object()}, "text", {"a": {1, 2}}, None):
        with pytest.raises(TypeError) as caught:
            run(session.add_items([{"role": "user", "content": "two"}, bad]))
        assert isinstance(caught.value, InvalidItem)

    assert dump(path) == before
    run(session.add_items([{"role": "user", "content": "three"}]))
    assert len(run(session.get_items())) == 2


@pytest.mark.parametrize("name", ["", "  ", 5, None, "a\0b", "x" * 1025])
def test_wrong_ids_are_refused_before_anything_is_made(path, tmp_path, name):
    """ValueError, as the SDK's own code raises; no file appears."""
    with pytest.raises(ValueError):
        MemDBSession(name, path)
    with pytest.raises(ValueError):
        MemDBSession("trip", 5)

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["a/../b", "a' OR 1=1 --", "%", "ünï", "a\nb", "main"])
def test_hostile_names_are_names(path, name):
    """Nothing in a name means anything, and no session sees another's."""
    one, other = MemDBSession(name, path, user=name), MemDBSession("other", path, user=name)
    run(one.add_items([{"role": "user", "content": name}]))

    assert [item["content"] for item in run(one.get_items())] == [name]
    assert run(other.get_items()) == []
    one.close()
    other.close()


def test_a_closed_session_says_so(path):
    """RuntimeError, like the SDK's; others on the file go on; closing again does nothing."""
    one, two = MemDBSession("trip", path), MemDBSession("trip", path)
    run(one.add_items([{"role": "user", "content": "hi"}]))

    one.close()
    one.close()

    for call in (
        lambda: one.get_items(),
        lambda: one.add_items([]),
        lambda: one.add_items([{"role": "user", "content": "hi"}]),
        lambda: one.pop_item(),
        lambda: one.clear_session(),
        lambda: one.search("hi"),
    ):
        with pytest.raises(RuntimeError) as caught:
            run(call())
        assert isinstance(caught.value, SessionClosed)
    assert len(run(two.get_items())) == 1
    two.close()
    again = MemDBSession("trip", path)
    assert len(run(again.get_items())) == 1
    again.close()


def test_a_foreign_file_is_refused_at_each_call(tmp_path):
    """The error says what the file is; it is left as it is."""
    place = tmp_path / "notes.txt"
    place.write_text("not a database, and long enough to look like one" * 20)
    session = MemDBSession("trip", place)

    for _ in range(2):
        with pytest.raises(memdb.NotAMemDB):
            run(session.get_items())
    session.close()
    assert place.read_text().startswith("not a database")


def test_open_files_of_memdb_are_used_and_left_open(path):
    """Synchronous and asynchronous ones; the session does not close them."""
    with memdb.open(path) as db:
        session = MemDBSession("trip", db, user="ann")
        run(session.add_items([{"role": "user", "content": "hi"}]))
        run(session.aclose())
        assert db.scope("ann").session("trip").last(1)[0].text == "hi"
        with pytest.raises(memdb.InvalidInput):
            MemDBSession("trip", db, durability="process")

    async def other():
        async with memdb.aio.open(path) as db:
            async with MemDBSession("trip", db, user="ann") as session:
                found = await session.get_items()
            return found, await db.scope("ann").session("trip").last_seq()

    assert run(other()) == ([{"role": "user", "content": "hi"}], 1)


def test_memory_files_are_not_shared(path):
    """Each ":memory:" session is alone, as in the SDK."""
    one, two = MemDBSession("trip", ":memory:"), MemDBSession("trip", ":memory:")
    run(one.add_items([{"role": "user", "content": "hi"}]))

    assert (len(run(one.get_items())), run(two.get_items())) == (1, [])
    one.close()
    two.close()


def test_threads_with_loops_of_their_own_share_a_session(session):
    """A new event loop per call, in several threads at once."""

    def add(number):
        for n in range(10):
            run(session.add_items([{"role": "user", "content": f"{number}-{n}"}]))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = [item["content"] for item in run(session.get_items())]
    assert sorted(found) == sorted(f"{number}-{n}" for number in range(4) for n in range(10))
    assert [one for one in found if one.startswith("2-")] == [f"2-{n}" for n in range(10)]


@pytest.mark.parametrize("operation", ["add", "pop", "clear", "branch"])
def test_cancelling_at_any_point_half_commits_nothing(session, operation):
    """The caller is told of the cancelling when it is known what became of the call."""
    calls = {
        "add": lambda: session.add_items([{"role": "user", "content": "a"}] * 3),
        "pop": session.pop_item,
        "clear": session.clear_session,
        "branch": lambda: session.create_branch_from_turn(1),
    }

    async def cancel_many():
        sizes = set()
        for step in range(25):
            await session.clear_session()
            await session.add_items([{"role": "user", "content": "hi"}] * 3)
            call = asyncio.ensure_future(calls[operation]())
            for _ in range(step % 7):
                await asyncio.sleep(0)
            if step >= 7:
                await asyncio.sleep(step / 20_000)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            sizes.add(len(await session.get_items(branch_id="main")))
        return sizes

    allowed = {"add": {3, 6}, "pop": {3, 2}, "clear": {3, 0}, "branch": {3}}
    assert run(cancel_many()) <= allowed[operation]


def test_the_counter_is_loaded_before_any_call(path):
    """Loading keeps the interpreter from every thread, so no call of a loop is to do it."""

    class Counter:
        name = "words"
        counted: tuple[str, ...] = ()

        def count(self, text):
            return self.count_many([text])[0]

        def count_many(self, texts):
            self.counted += tuple(texts)
            return [len(text.split()) for text in texts]

    counter = Counter()
    session = MemDBSession("trip", path, counter=counter)

    assert counter.counted == ("",)
    assert not Path(path).exists()
    session.close()
    with memdb.open(path, counter=counter) as db:
        MemDBSession("trip", db).close()
    assert counter.counted == ("", "")


def test_the_event_loop_goes_on_meanwhile(session, path):
    """While another writer keeps the file, a call waits in its thread and the loop turns."""

    async def work():
        await session.add_items([{"role": "user", "content": "one"}])
        with memdb.open(path) as db, db._db.write():
            calls = [
                asyncio.ensure_future(call)
                for call in (
                    session.add_items([{"role": "user", "content": "two"}]),
                    session.pop_item(),
                    session.add_items([{"role": "user", "content": "three"}]),
                )
            ]
            for _ in range(20):
                await asyncio.sleep(0.001)
            waiting = [not call.done() for call in calls]
        await asyncio.gather(*calls)
        return waiting, await session.get_items()

    waiting, items = run(work())

    assert waiting == [True, True, True]
    assert [item["content"] for item in items] == ["one", "three"]


def test_what_was_said_can_be_searched_and_recalled(session):
    """Words of calls, results and structured messages; other sessions by recall."""
    run(session.add_items([CALL, RESULT, answer("We land in Bergen.")]))

    assert run(session.search("Bergen"))[0].text == "We land in Bergen."
    assert run(session.search("Oslo"))[0].source.seq == 1
    assert run(session.search("booked"))[0].source.seq == 2
    other = MemDBSession("other", session._opened()._worker.path, user="ann")
    assert not run(other.search("Bergen"))
    assert run(other.recall("Bergen"))[0].text == "We land in Bergen."
    other.close()


def test_branches_go_on_by_themselves(session):
    """From a turn or from words; listed, switched and deleted as in the SDK's own session."""
    turns = [
        {"role": role, "content": f"{role} {n}"}
        for n in (1, 2, 3)
        for role in ("user", "assistant")
    ]
    run(session.add_items(turns))

    name = run(session.create_branch_from_turn(2, "other"))
    run(session.add_items([{"role": "user", "content": "another 2"}]))

    assert name == "other"
    assert [item["content"] for item in run(session.get_items())] == [
        "user 1",
        "assistant 1",
        "another 2",
    ]
    assert run(session.get_items(branch_id="main")) == turns
    shown = [
        (one["branch_id"], one["message_count"], one["user_turns"], one["is_current"])
        for one in run(session.list_branches())
    ]
    assert shown == [("main", 6, 3, False), ("other", 3, 2, True)]
    assert [one["turn"] for one in run(session.find_turns_by_content("USER"))] == [1]

    run(session.switch_to_branch("main"))
    third = run(session.create_branch_from_content("user 3"))
    assert len(run(session.get_items())) == 4
    run(session.delete_branch(third, force=True))
    assert run(session.get_items()) == turns
    run(session.clear_session())
    assert run(session.list_branches()) == []


def test_wrong_branches_are_value_errors(session):
    """As in the SDK; nothing changes."""
    run(session.add_items([{"role": "user", "content": "one"}]))
    run(session.create_branch_from_turn(1, "other"))

    for call in (
        lambda: session.create_branch_from_turn(9),
        lambda: session.create_branch_from_turn("1"),
        lambda: session.create_branch_from_content("nowhere"),
        lambda: session.switch_to_branch("nowhere"),
        lambda: session.delete_branch("main"),
        lambda: session.delete_branch("other"),
        lambda: session.delete_branch("nowhere"),
    ):
        with pytest.raises(ValueError):
            run(call())
    run(session.switch_to_branch("main"))
    for name in ("other", "main", " ", 5):
        with pytest.raises(ValueError):
            run(session.create_branch_from_turn(1, name))
    assert [one["branch_id"] for one in run(session.list_branches())] == ["main", "other"]


def test_a_branch_that_another_process_cleared_is_main_again(path):
    """A stale object does not write into a branch that is gone."""
    one, two = MemDBSession("trip", path), MemDBSession("trip", path)
    run(one.add_items([{"role": "user", "content": "one"}]))
    run(one.create_branch_from_turn(1, "other"))
    run(two.clear_session())

    run(one.add_items([{"role": "user", "content": "two"}]))

    assert [item["content"] for item in run(two.get_items())] == ["two"]
    assert [item["content"] for item in run(one.get_items())] == ["two"]
    one.close()
    two.close()


def long_talk(count: int) -> list[dict[str, Any]]:
    """Return turns with reasoning, a call and its result."""
    items: list[dict[str, Any]] = []
    for n in range(count):
        items += [
            {"role": "user", "content": f"Question {n}: what about trip number {n} to Oslo?"},
            {"id": f"rs_{n}", "summary": [], "type": "reasoning"},
            {**CALL, "call_id": f"c{n}", "id": f"fc_{n}"},
            {**RESULT, "call_id": f"c{n}", "output": f"flight {n} " * 20},
            {**SAID, "id": f"msg_{n}", "content": [{**SAID["content"][0], "text": f"Answer {n}."}]},
        ]
    return items


def test_a_context_holds_the_whole_conversation_in_a_budget(session):
    """Short ones as they are; of long ones the newest items, calls with their results."""
    items = long_talk(40)
    run(session.add_items(items))

    everything = run(session.context_items(1_000_000))
    fitted = run(session.context_items(1500))

    assert everything == items
    assert len(fitted) < 60
    assert fitted[-1] == {"role": "assistant", "content": "Answer 39."}  # an answer without its id
    assert not [item for item in fitted if item.get("type") == "reasoning" or "id" in item]
    calls = [item["call_id"] for item in fitted if item.get("type") == "function_call"]
    results = [item["call_id"] for item in fitted if item.get("type") == "function_call_output"]
    assert calls == results
    assert run(session.get_items()) == items
    with pytest.raises(memdb.TooLarge):
        run(session.context_items(1))


def test_a_message_over_the_budget_is_a_view(session):
    """The newest message is cut for the context only."""
    run(session.add_items([{"role": "user", "content": "word " * 5000, "id": "x"}]))

    (view,) = run(session.context_items(300))

    assert len(view["content"]) < 3000
    assert len(run(session.get_items())[0]["content"]) == 25_000


def test_the_runner_talks_through_a_session(session):
    """Two turns, the second with the history of the first, read again by a new object."""
    model = ScriptedModel([said("Oslo is in Norway."), said("It is cold.", 2)])
    agent = Agent(name="guide", model=model)

    first = run(Runner.run(agent, "Where is Oslo?", session=session))
    second = run(Runner.run(agent, "And the weather?", session=session))

    assert (first.final_output, second.final_output) == ("Oslo is in Norway.", "It is cold.")
    assert [item["content"] for item in run(session.get_items())[::2]] == [
        "Where is Oslo?",
        "And the weather?",
    ]
    assert len(model.calls[-1].input) == 3


def test_the_runner_streams_calls_tools_and_hands_off(session):
    """Streaming, a tool and a handoff leave the same transcript as the SDK's own session."""

    @function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    def script():
        call = called(call_id="t1", name="weather", arguments='{"city": "Oslo"}')
        transfer = called(call_id="h1", name="transfer_to_poet", arguments="{}")
        return [call, transfer, said("Rain, rain.")]

    async def talk(store):
        model = ScriptedModel(script())
        poet = Agent(name="poet", model=model)
        agent = Agent(name="guide", model=model, tools=[weather], handoffs=[poet])
        result = Runner.run_streamed(agent, "How is Oslo?", session=store)
        events = [event.type async for event in result.stream_events()]
        return result.final_output, len(events), await store.get_items()

    reference = agents.SQLiteSession("trip")
    found, expected = run(talk(session)), run(talk(reference))
    reference.close()

    assert found[0] == "Rain, rain."
    assert json.dumps(found) == json.dumps(expected)
    assert [item.get("type") for item in found[2]].count("function_call_output") == 2


def test_a_run_that_waits_for_approval_is_resumed(path):
    """The state goes through JSON, the session through a new object on the file."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    call = called(name="pay", arguments='{"amount": 5}')

    async def start():
        agent = Agent(name="clerk", model=ScriptedModel([call]), tools=[pay])
        async with MemDBSession("trip", path) as session:
            result = await Runner.run(agent, "Pay five.", session=session)
            return result.to_state().to_string(), len(result.interruptions)

    async def resume(text):
        agent = Agent(name="clerk", model=ScriptedModel([said("Done.")]), tools=[pay])
        state = await agents.RunState.from_string(agent, text)
        for one in state.get_interruptions():
            state.approve(one)
        async with MemDBSession("trip", path) as session:
            result = await Runner.run(agent, state, session=session)
            return result.final_output, await session.get_items()

    text, waiting = run(start())
    output, items = run(resume(text))

    assert (waiting, output) == (1, "Done.")
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    assert outputs == ["paid 5"]
    assert [item.get("role") for item in items if item.get("role")] == ["user", "assistant"]


def test_the_runner_keeps_to_a_budget(session):
    """A long history is summarised for the model; the session keeps every item and no summary."""
    items = long_talk(40)
    run(session.add_items(items))
    model = ScriptedModel([said("Yes.")])
    config = RunConfig(session_input_callback=session.within(1500))

    run(Runner.run(Agent(name="a", model=model), "And trip 3?", session=session, run_config=config))

    assert len(model.calls[-1].input) < 60
    assert model.calls[-1].input[-1] == {"role": "user", "content": "And trip 3?"}
    stored = run(session.get_items())
    assert stored[: len(items)] == items
    assert len(stored) == len(items) + 2


def test_a_limit_of_the_run_counts(session):
    """`RunConfig.session_settings` reaches the session."""
    run(session.add_items([{"role": "user", "content": str(n)} for n in range(9)]))
    model = ScriptedModel([said("Yes.")])
    config = RunConfig(session_settings=SessionSettings(limit=2))

    run(Runner.run(Agent(name="a", model=model), "x", session=session, run_config=config))

    assert [item["content"] for item in model.calls[-1].input] == ["7", "8", "x"]


def test_the_sdk_sees_a_session(path):
    """It has all that the protocol asks for."""
    session = MemDBSession("trip", path)

    assert isinstance(session, agents.memory.Session)
    assert repr(session) == "<MemDBSession 'trip' of 'default'>"
    session.close()


def test_a_message_of_each_role_keeps_its_role():
    """The roles that memdb knows, and calls where its windows look for them."""
    roles = [to_message(item).role for item in (*ITEMS[:5], ITEMS[9], {"type": "x_output"}, {})]

    assert roles == ["user", "user", "assistant", "assistant", "tool", "system", "tool", "user"]
    assert to_message(CALL).parts[0]["id"] == to_message(RESULT).parts[0]["tool_call_id"] == "c1"
    new = to_message(CALL)
    assert items_of(
        memdb.Message(
            1, new.role, new.author, new.text, [*new.parts], 1, "", None, 0, None, "", 1, ""
        )
    ) == [CALL]


def test_without_the_sdk_the_error_names_the_extra(path):
    """Importing the adapter loads nothing of it; using it says what to install."""
    program = f"""
import sys
sys.modules["agents"] = None
from memdb.integrations.openai_agents import MemDBSession
import memdb
try:
    MemDBSession("trip", {path!r})
except memdb.InvalidInput as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "pip install 'memdb-sqlite[openai-agents]'" in ran.stdout


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    """It talks, searches and branches without a key and a network."""
    example = str(Path(memdb.__file__).parents[1] / "examples" / "openai_agents_session.py")
    command = [example, str(tmp_path / "a.db")]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(example, run_name="__main__")  # a file that it was run on before is fine

    for out in (ran.stdout, capsys.readouterr().out):
        assert out.splitlines()[-1] == "4 items in branch_from_turn_2"
    with memdb.open(tmp_path / "a.db") as db:
        assert db.file.check() == []


WRITE = """
import asyncio, sys
from memdb.integrations.openai_agents import MemDBSession
async def main(path, number, count):
    session = MemDBSession("trip", path, user="ann", durability="process")
    for n in range(count):
        await session.add_items([{"role": "user", "content": f"{number}-{n}"}])
    await session.aclose()
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
print("done")
"""


def race(start_child, path, processes, count):
    """Let processes write at once and return what is stored, sorted."""
    children = [start_child(WRITE, path, number, count) for number in range(processes)]
    for child in children:
        out, err = child.communicate(timeout=300)
        assert (out, err) == ("done\n", "")
    session = MemDBSession("trip", path, user="ann")
    found = sorted(item["content"] for item in run(session.get_items()))
    session.close()
    return found


@pytest.mark.slow
def test_eight_processes_lose_none_of_their_writes(start_child, path):
    """8 processes x 150 items, a new file: 0 lost, 0 errors."""
    found = race(start_child, path, 8, 150)

    assert found == sorted(f"{number}-{n}" for number in range(8) for n in range(150))


@pytest.mark.slow
def test_twelve_openers_of_a_new_file_all_succeed(start_child, path):
    """Whoever comes first makes the file; nobody sees an error."""
    found = race(start_child, path, 12, 1)

    assert found == sorted(f"{number}-0" for number in range(12))
