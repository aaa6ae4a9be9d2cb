"""Memories that are given to google-adk's memory service directly: whole or not, and their ids."""

import asyncio

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from with_adk.services import ANN, BOB, FAST, event

import memdb
from memdb.integrations.adk import MemdbMemoryService
from memdb.models.protocols import ADD, Verdict


def fact(text: str, **fields) -> MemoryEntry:
    """Return a memory that says *text*."""
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


@pytest.fixture
def opened(tmp_path):
    """Return a file for the services of a test; it is sound at the end."""
    with memdb.open(tmp_path / "agent.db", **FAST) as db:
        yield db
        assert db.file.check(deep=True) == []


def run(db, steps):
    """Run a coroutine function with a memory service on *db*."""

    async def go():
        async with MemdbMemoryService(db) as memory:
            return await steps(memory)

    return asyncio.run(go())


async def known(memory, query="fox", who=ANN) -> dict[str, str]:
    """Return what is found, by its id."""
    found = (await memory.search_memory(**who, query=query)).memories
    texts = {one.id: one.content.parts[0].text for one in found}
    assert len(texts) == len(found)
    return texts


BAD = {
    "object": (fact("A hen.", custom_metadata={"x": object()}), "^custom_metadata has no JSON"),
    "secret": (fact("Her key is sk-proj-" + "aB3dE5gH7jK9" * 4), "^text holds a secret"),
    "long text": (fact("a" * 600_000), "^the number of characters in text is 600,000"),
    "nul in the id": (fact("A hen.", id="a\0b"), "^memory id contains a NUL"),
    "long id": (fact("A hen.", id="x" * 1022), "^the number of characters in memory id is"),
    "surrogate id": (
        fact("A hen.", id="\ud800"),
        r"^memory '\\ud800' cannot be stored: id holds a lone surrogate.*: decode",
    ),
    "no text": (fact(" "), "^a memory has no text"),
    "no memory": ("A hen.", "^memories contains str: give"),
    "secret in place of another": (
        fact("Her key is sk-proj-" + "aB3dE5gH7jK9" * 4, id="entry:1"),
        "^text holds a secret",
    ),
}


@pytest.mark.parametrize("bad", [*BAD])
@pytest.mark.parametrize("arbiter", [False, True], ids=["rules", "arbiter"])
def test_of_memories_that_cannot_all_be_stored_none_is(tmp_path, bad, arbiter):
    """The error names the field in ADK's words, and can be printed."""
    one, named = BAD[bad]
    options = {"arbiter": Always()} if arbiter else {}

    async def steps(memory):
        with pytest.raises(InputValidationError, match=named) as caught:
            await memory.add_memory(**ANN, memories=[fact("A fox."), one, fact("Two foxes.")])
        assert str(caught.value).encode()
        return await known(memory, "fox foxes hen key")

    with memdb.open(tmp_path / "agent.db", **FAST, **options) as db:
        assert run(db, steps) == {}
        assert [*db.scope("ann", "desk").entries.list(inactive=True)] == []


class Always:
    """An arbiter that adds what it is asked about, once *meanwhile* was called."""

    name = "always"

    def __init__(self, meanwhile=lambda: None):
        """Keep what is asked."""
        self.asked = []
        self._meanwhile = meanwhile

    def decide(self, said, known):
        """Note what was said."""
        self.asked.append((said.text, len(known)))
        self._meanwhile()
        return Verdict(ADD, reason="always")


def test_arbiter_and_embedder_are_asked_outside_of_transactions(tmp_path, make_embedder):
    """Another client can write while they think; each text is embedded once."""
    other = memdb.open(tmp_path / "agent.db", **FAST)

    def write():
        other.scope("bob").session("s").append("user", "hello")

    arbiter, embedder = Always(write), make_embedder()
    options = {**FAST, "arbiter": arbiter, "embedder": embedder}
    told = ["The red fox lives in Oslo.", "In Oslo. lives the red fox"]

    async def steps(memory):
        embedder.calls, embedder.before = [], write
        await memory.add_memory(**ANN, memories=[fact(text) for text in told])
        embedded = [*embedder.calls]
        return embedded, await known(memory)

    with memdb.open(tmp_path / "agent.db", **options) as db:
        embedded, found = run(db, steps)

    assert arbiter.asked == [(told[1], 1)]
    assert embedded == told
    assert (other.scope("bob").session("s").last_seq, len(found)) == (3, 2)
    other.close()


def test_a_failure_in_the_middle_leaves_none_of_them(opened, monkeypatch):
    """All of a call is one transaction, so a full disk takes back what went before."""
    store, left = type(opened._services.remember).store, [2]

    def failing(self, told):
        left[0] -= 1
        if left[0] < 0:
            raise memdb.errors.DiskFull("the disk is full")
        return store(self, told)

    monkeypatch.setattr(type(opened._services.remember), "store", failing)

    async def steps(memory):
        with pytest.raises(memdb.errors.DiskFull) as caught:
            await memory.add_memory(**ANN, memories=[fact("A fox."), fact("B fox."), fact("C")])
        return await known(memory), caught.value.__cause__

    assert run(opened, steps) == ({}, None)


def test_a_memory_goes_by_the_id_it_was_given_with(opened):
    """It is found, replaced and deleted by that id, of its user only."""

    async def steps(memory):
        for text in ("A red fox.", "The fox is grey.", "The fox is grey."):
            await memory.add_memory(**ANN, memories=[fact(text, id="m1")])
        await memory.add_memory(**BOB, memories=[fact("Bob's fox.", id="m1")])
        replaced = await known(memory)
        await memory.delete_memory(**ANN, memory_id="m1")
        return replaced, await known(memory), await known(memory, who=BOB)

    assert run(opened, steps) == ({"m1": "The fox is grey."}, {}, {"m1": "Bob's fox."})
    assert [*opened.scope("ann", "desk").entries.list(inactive=True)] == []


def test_a_memory_without_an_id_goes_by_that_of_its_entry(opened):
    """What a search gives can be changed and given back, and deleted by its id."""

    async def steps(memory):
        await memory.add_memory(**ANN, memories=[fact("A red fox.", author="ann")])
        (found,) = (await memory.search_memory(**ANN, query="fox")).memories
        found.content.parts[0].text = "A grey fox and a hen."
        await memory.add_memory(**ANN, memories=[found], custom_metadata={"n": 1})
        (again,) = (await memory.search_memory(**ANN, query="fox hen")).memories
        await memory.delete_memory(**ANN, memory_id=found.id)
        return found, again, await known(memory)

    found, again, left = run(opened, steps)

    assert found.id.startswith("entry:")
    assert (again.id, again.content, again.author) == (found.id, found.content, "ann")
    assert again.custom_metadata == {"n": 1}
    assert left == {}


def test_an_entry_of_another_client_is_replaced_and_deleted_by_its_number(opened):
    """It keeps its key and its category."""
    ann = opened.scope("ann", "desk")
    entry = ann.remember("The fox is called Rex.", key="fox", category="profile").entry
    name = f"entry:{entry.id}"

    async def steps(memory):
        await memory.add_memory(**ANN, memories=[fact("The fox is called Max.", id=name)])
        changed = await known(memory), ann.entries.get(entry.id)
        await memory.delete_memory(**ANN, memory_id=name)
        return *changed, await known(memory)

    found, changed, left = run(opened, steps)

    assert found == {name: "The fox is called Max."}
    assert (changed.text, changed.key, changed.category) == (
        "The fox is called Max.",
        "fox",
        "profile",
    )
    assert left == {}


def test_what_another_client_changed_is_told_as_it_is_now(opened):
    """By the text of the entry, not by what ADK once gave."""

    async def steps(memory):
        await memory.add_memory(**ANN, memories=[fact("A red fox.", id="m1", author="ann")])
        ann = opened.scope("ann", "desk")
        ann.entries.update(ann.entries.find("adk:m1").id, text="A grey fox.")
        return await known(memory)

    assert run(opened, steps) == {"m1": "A grey fox."}


@pytest.mark.parametrize("whose", ["bob's", "shared"])
def test_an_entry_of_nobody_or_somebody_else_is_not_touched(opened, whose):
    """An id that names it is this user's own memory from then on."""
    others = opened.scope("bob", "desk") if whose == "bob's" else opened.shared("desk")
    entry = others.remember("A red fox.").entry
    name = f"entry:{entry.id}"

    async def steps(memory):
        await memory.add_memory(**ANN, memories=[fact("My grey fox.", id=name)])
        await memory.add_memory(**ANN, memories=[fact("My white fox.", id=name)])
        mine = (await memory.search_memory(**ANN, query="white")).memories[0]
        await memory.delete_memory(**ANN, memory_id=name)
        left = (await memory.search_memory(**ANN, query="white grey")).memories
        await memory.delete_memory(**ANN, memory_id=name)
        return mine, left

    mine, left = run(opened, steps)

    assert (mine.id, mine.content.parts[0].text) == (name, "My white fox.")
    assert left == []
    assert others.entries.get(entry.id) == entry


def test_an_entry_that_all_users_share_is_found(opened):
    """It is no user's own, and still in the answer."""
    entry = opened.shared("desk").remember("Everybody's fox.").entry

    assert run(opened, known) == {f"shared:{entry.id}": "Everybody's fox."}


def test_an_entry_that_does_not_hold_any_more_is_not_brought_back_by_its_number(opened):
    """The id is a new memory's, which is found; deleting takes both."""
    ann = opened.scope("ann", "desk")
    old = ann.remember("The fox lives in Oslo.", key="home").entry
    ann.remember("The fox lives in Bergen.", key="home")
    name = f"entry:{old.id}"

    async def steps(memory):
        await memory.add_memory(**ANN, memories=[fact("A white fox in Rome.", id=name)])
        found = await known(memory)
        await memory.delete_memory(**ANN, memory_id=name)
        return found[name], [*(await known(memory)).values()]

    assert run(opened, steps) == ("A white fox in Rome.", ["The fox lives in Bergen."])
    assert len([*ann.entries.list(inactive=True)]) == 1


@pytest.mark.parametrize(
    "name",
    ["entry:", "entry:x", "entry:-1", "entry:01", "entry:\u0661", "entry:" + "9" * 30, "entry:0"],
)
def test_an_id_that_only_looks_like_an_entrys_is_an_id(opened, name):
    """It goes to and fro as any other."""

    async def steps(memory):
        await memory.add_memory(**ANN, memories=[fact("A fox.")])
        await memory.add_memory(**ANN, memories=[fact("My white hen.", id=name)])
        found = await known(memory, "hen")
        await memory.delete_memory(**ANN, memory_id=name)
        return found, await known(memory, "hen"), [*(await known(memory)).values()]

    assert run(opened, steps) == ({name: "My white hen."}, {}, ["A fox."])


def test_an_event_and_a_memory_of_one_id_go_together(opened):
    """Whoever deletes the id wants neither."""

    async def steps(memory):
        await memory.add_events_to_memory(**ANN, events=[event("red fox", id="x")])
        await memory.add_memory(**ANN, memories=[fact("A grey fox.", id="x")])
        both = len((await memory.search_memory(**ANN, query="fox")).memories)
        await memory.delete_memory(**ANN, memory_id="x")
        return both, await known(memory)

    assert run(opened, steps) == (2, {})


def test_what_is_changed_after_the_call_began_is_not_stored(opened):
    """The call goes by what it was given: text and metadata alike."""

    async def steps(memory):
        deep = {"deep": [1]}
        one, two = fact("A red fox.", custom_metadata=deep), event("A red hen.")
        calls = [
            asyncio.ensure_future(
                memory.add_memory(**ANN, memories=[one], custom_metadata={"all": deep})
            ),
            asyncio.ensure_future(
                memory.add_events_to_memory(**ANN, events=[two], custom_metadata={"all": deep})
            ),
        ]
        await asyncio.sleep(0)
        one.content.parts[0].text = two.content.parts[0].text = "changed"
        deep["deep"].append(2)
        await asyncio.gather(*calls)
        return (await memory.search_memory(**ANN, query="red")).memories

    answer = sorted(run(opened, steps), key=lambda one: one.content.parts[0].text)

    assert [one.content.parts[0].text for one in answer] == ["A red fox.", "A red hen."]
    assert answer[0].custom_metadata == {"all": {"deep": [1]}, "deep": [1]}
    assert answer[1].custom_metadata == {"all": {"deep": [1]}}


def test_a_long_list_of_events_leaves_the_loop_its_turns(opened):
    """It is taken in parts, and is whole in the memory."""
    turns = 0

    async def steps(memory):
        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        worker = memory._worker.call
        memory._worker.call = lambda *call: (begun.append(turns), worker(*call))[1]
        begun = []
        events = [event(f"fox {n}") for n in range(500)]
        await memory.add_events_to_memory(**ANN, events=events, session_id="s")
        task.cancel()
        return begun[0], opened.scope("ann", "desk (memory)").session("s").last_seq

    turns_before, stored = run(opened, steps)

    assert turns_before == 24
    assert stored == 500
