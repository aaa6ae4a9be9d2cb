"""Memory of google-adk: the contract of its own services, asked of memdb's as well."""

import asyncio
import unicodedata

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from with_adk.services import ANN, BOB, FAST, event, service

import memdb
from memdb.errors import InvalidInput
from memdb.integrations.adk import MemdbMemoryService, MemdbSessionService

ALL = ["memory-memdb", "memory-memory", "memory-sqlite"]


def session(*events, name: str = "s", who=ANN) -> Session:
    """Return a session that no service made."""
    return Session(id=name, **who, events=list(events))


def found(response) -> list[str]:
    """Return the first text of each memory."""
    return [memory.content.parts[0].text for memory in response.memories]


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a coroutine function with a service by its name."""

    def running(name, steps):
        async def go():
            async with service(name, tmp_path) as made:
                return await steps(made)

        return asyncio.run(go())

    return running


@pytest.mark.parametrize("name", ALL)
def test_what_was_added_is_found_by_its_words(run, name):
    """In any case; by its own user of its own app only, and not before it was added."""

    async def steps(memory):
        fox, hen = event("The red fox.", at=1.5), event("A white hen", author="agent")
        before = await memory.search_memory(**ANN, query="fox")
        await memory.add_session_to_memory(session(fox, hen))
        answers = [
            found(await memory.search_memory(**ANN, query=query))
            for query in ("FOX", "hen!", "red or white", "wolf", "", "   ", "...")
        ]
        others = [
            found(await memory.search_memory(**who, query="fox"))
            for who in (BOB, {"app_name": "other", "user_id": "ann"})
        ]
        (one,) = (await memory.search_memory(**ANN, query="fox")).memories
        return found(before), answers, others, (one.author, one.content == fox.content)

    before, answers, others, one = run(name, steps)

    assert before == []
    assert [sorted(answer) for answer in answers] == [
        ["The red fox."],
        ["A white hen"],
        ["A white hen", "The red fox."],
        [],
        [],
        [],
        [],
    ]
    assert others == [[], []]
    assert one == ("user", True)


@pytest.mark.parametrize("name", ALL)
def test_adding_a_session_again_adds_what_is_new(run, name):
    """Nothing is there twice."""

    async def steps(memory):
        fox, hen = event("red fox"), event("red hen")
        await memory.add_session_to_memory(session(fox))
        await memory.add_session_to_memory(session(fox, hen))
        await memory.add_events_to_memory(**ANN, events=[hen], session_id="s")
        return sorted(found(await memory.search_memory(**ANN, query="red")))

    assert run(name, steps) == ["red fox", "red hen"]


@pytest.mark.parametrize("name", ALL)
def test_a_changed_event_says_what_it_says_now(run, name):
    """What it said before is not found any more: it may have been withdrawn."""

    async def steps(memory):
        first, second = event("my phone is 111", id="1"), event("call 333", id="2")
        await memory.add_session_to_memory(session(first, second))
        changed = event("my phone is 222", id="1")
        await memory.add_session_to_memory(session(changed, second))
        return [
            found(await memory.search_memory(**ANN, query=query))
            for query in ("phone", "111", "call")
        ]

    assert run(name, steps) == [["my phone is 222"], [], ["call 333"]]


def test_an_event_that_was_emptied_is_not_found(run):
    """Redacted as a whole; it is found again once it says something; custom metadata stays."""

    async def steps(memory):
        first = event("my phone is 111", id="1")
        await memory.add_events_to_memory(
            **ANN, events=[first], session_id="s", custom_metadata={"of": "mail"}
        )
        await memory.add_session_to_memory(session(event(id="1")))
        empty = await memory.search_memory(**ANN, query="phone")
        await memory.add_session_to_memory(session(event("my phone is 222", id="1")))
        again = await memory.search_memory(**ANN, query="phone")
        return found(empty), found(again), again.memories[0].custom_metadata

    assert run("memory-memdb", steps) == ([], ["my phone is 222"], {"of": "mail"})


@pytest.mark.parametrize("name", ALL)
def test_one_event_of_two_sessions_is_two_memories(run, name):
    """Events without a session have a place as well."""

    async def steps(memory):
        fox = event("fox")
        await memory.add_session_to_memory(session(fox, name="a"))
        await memory.add_session_to_memory(session(fox, name="b"))
        await memory.add_events_to_memory(**ANN, events=[fox])
        await memory.add_events_to_memory(**ANN, events=[fox])
        return found(await memory.search_memory(**ANN, query="fox"))

    assert run(name, steps) == ["fox"] * 3


@pytest.mark.parametrize("name", ALL)
def test_events_without_words_are_left_out(run, name):
    """Calls, results, and events without content."""

    async def steps(memory):
        call = types.Part(function_call=types.FunctionCall(name="fox", args={"fox": "fox"}))
        silent = event(content=types.Content(parts=[call]))
        await memory.add_session_to_memory(session(silent, event(state={"fox": 1}), event("hen")))
        return found(await memory.search_memory(**ANN, query="fox"))

    assert run(name, steps) == []


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("said", "query", "hit"),
    [
        ("\u79c1\u306fPython\u3092\u4f7f\u3046", "Python", True),
        ("\u79c1\u306fPython\u3092\u4f7f\u3046", "thon", False),
        ("caf\u00e9 au lait", unicodedata.normalize("NFD", "caf\u00e9"), True),
        (unicodedata.normalize("NFD", "caf\u00e9 au lait"), "caf\u00e9", True),
        ("snake_case and C++", "snake_case", True),
        ("column: value", 'NEAR("column" OR -*', True),
    ],
    ids=["mixed script", "part of a word", "nfd query", "nfd text", "underscore", "operators"],
)
def test_words_of_any_script(run, name, said, query, hit):
    """Whole words, however they are written."""

    async def steps(memory):
        await memory.add_session_to_memory(session(event(said)))
        return found(await memory.search_memory(**ANN, query=query))

    assert run(name, steps) == ([said] if hit else [])


@pytest.mark.parametrize("name", ["memory-memdb", "memory-memory"])
def test_words_inside_a_run_of_characters(run, name):
    """Chinese has no blanks; ADK's SQLite store does not find these."""

    async def steps(memory):
        await memory.add_session_to_memory(
            session(event("\u6211\u559c\u6b22\u7eff\u8336\u548c\u5496\u5561"))
        )
        return [
            len((await memory.search_memory(**ANN, query=query)).memories)
            for query in ("\u7eff\u8336", "\u5496\u5561", "\u7ea2\u8336\u4eba")
        ]

    assert run(name, steps) == [1, 1, 0]


def test_the_best_ten_are_returned(run):
    """Those that hold more of the query, and rarer words of it, stand first."""

    async def steps(memory):
        events = [event(f"fox number{n}") for n in range(30)] + [event("red fox jumps")]
        await memory.add_session_to_memory(session(*events))
        return found(await memory.search_memory(**ANN, query="fox jumps red"))

    answer = run("memory-memdb", steps)

    assert (len(answer), answer[0]) == (10, "red fox jumps")


def test_another_user_does_not_move_the_order(run):
    """Ranking knows nothing of what others said; ADK's SQLite store counts them in."""

    async def steps(memory):
        await memory.add_session_to_memory(session(event("fox den"), event("hen house")))
        before = found(await memory.search_memory(**ANN, query="fox hen"))
        crowd = [event(f"fox {n}") for n in range(200)]
        await memory.add_session_to_memory(session(*crowd, who=BOB))
        return before, found(await memory.search_memory(**ANN, query="fox hen"))

    before, after = run("memory-memdb", steps)

    assert before == after


@pytest.mark.parametrize("name", ["memory-memdb", "memory-memory"])
def test_a_deleted_memory_does_not_come_back(run, name):
    """From no session, by no way of adding it; unknown ids are fine."""

    async def steps(memory):
        fox, hen = event("red fox"), event("red hen")
        await memory.add_session_to_memory(session(fox, hen, name="a"))
        await memory.add_session_to_memory(session(fox, name="b"))
        await memory.delete_memory(**ANN, memory_id="unknown")
        await memory.delete_memory(**ANN)
        await memory.delete_memory(**BOB, memory_id=fox.id)
        both = len((await memory.search_memory(**ANN, query="fox")).memories)
        (hens,) = (await memory.search_memory(**ANN, query="hen")).memories
        await memory.delete_memory(**ANN, memory_id=fox.id)
        await memory.add_session_to_memory(session(fox, hen, name="a"))
        await memory.add_events_to_memory(**ANN, events=[fox], session_id="b")
        return both, hens.id == hen.id, found(await memory.search_memory(**ANN, query="red"))

    assert run(name, steps) == (2, True, ["red hen"])


def test_deleting_removes_the_words_from_the_file(tmp_path):
    """The transcript that the session service keeps is another matter."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            async with MemdbSessionService(db) as sessions, MemdbMemoryService(db) as memory:
                made = await sessions.create_session(**ANN, session_id="s")
                await sessions.append_event(made, event("red fox"))
                await memory.add_session_to_memory(made)
                await memory.delete_memory(**ANN, memory_id=made.events[0].id)
                kept = await sessions.get_session(**ANN, session_id="s")
                listed = await sessions.list_sessions(app_name="desk")
                with pytest.raises(InputValidationError, match="a part of another app"):
                    await sessions.list_sessions(app_name="desk (memory)")
                told = db.scope("ann", "desk (memory)").session("s").get(1)
                return len(kept.events), len(listed.sessions), told.text, db.file.check(deep=True)

    assert asyncio.run(steps()) == (1, 1, "", [])


def test_custom_metadata_comes_back(run):
    """With the event, its id and its time."""

    async def steps(memory):
        fox = event("fox", at=0.0)
        await memory.add_events_to_memory(
            **ANN, events=[fox], session_id="s", custom_metadata={"topic": "animals"}
        )
        (one,) = (await memory.search_memory(**ANN, query="fox")).memories
        return one.custom_metadata, one.id == fox.id, one.timestamp[:10]

    custom, same, day = run("memory-memdb", steps)

    assert custom == {"topic": "animals"}
    assert same
    assert day in {"1970-01-01", "1969-12-31"}


def test_memories_added_directly_are_entries(tmp_path):
    """Either side finds what the other one remembered; an id names one memory."""
    content = types.Content(role="user", parts=[types.Part(text="Ann's fox is called Rex.")])

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            ann = db.scope("ann", "desk")
            ann.remember("The fox sleeps in the den.", category="profile")
            async with MemdbMemoryService(db) as memory:
                fact = MemoryEntry(
                    id="rex", content=content, author="ann", custom_metadata={"k": 1}
                )
                for _ in range(2):
                    await memory.add_memory(
                        **ANN, memories=[fact], custom_metadata={"common": True}
                    )
                answer = (await memory.search_memory(**ANN, query="fox")).memories
                recalled = sorted(hit.text for hit in ann.recall("fox"))
                for one in answer:
                    await memory.delete_memory(**ANN, memory_id=one.id)
                left = (await memory.search_memory(**ANN, query="fox")).memories
                return answer, recalled, left, [*ann.entries.list()]

    answer, recalled, left, entries = asyncio.run(steps())

    assert recalled == ["Ann's fox is called Rex.", "The fox sleeps in the den."]
    (rex,) = [one for one in answer if one.author == "ann"]
    assert (rex.content, rex.custom_metadata) == (content, {"common": True, "k": 1})
    assert (len(answer), left, entries) == (2, [], [])


@pytest.mark.parametrize(
    "memories",
    [
        [MemoryEntry(content=types.Content(parts=[]))],
        [MemoryEntry(content=types.Content(parts=[types.Part(text=" ")]))],
        [
            MemoryEntry(
                content=types.Content(parts=[types.Part(text="x")]), custom_metadata={"a": {1}}
            )
        ],
    ],
    ids=["no part", "blank", "set"],
)
def test_a_memory_that_cannot_be_stored_is_refused(run, memories):
    """With ADK's error."""

    async def steps(memory):
        with pytest.raises(InputValidationError):
            await memory.add_memory(**ANN, memories=memories)

    run("memory-memdb", steps)


@pytest.mark.parametrize("name", ["memory-memdb", "memory-memory"])
@pytest.mark.parametrize(
    "bad",
    ["", "   ", "x" * 2000, "a\0b", "\ud800", None],
    ids=["empty", "blank", "long", "nul", "surrogate", "none"],
)
def test_there_is_no_memory_under_a_name_that_cannot_be(run, name, bad):
    """Of no such user or app, and none with such an id; asking is fine."""

    async def steps(memory):
        for ids in ({**ANN, "app_name": bad}, {**ANN, "user_id": bad}):
            assert found(await memory.search_memory(**ids, query="x")) == []
            await memory.delete_memory(**ids, memory_id="x")
        await memory.delete_memory(**ANN, memory_id=bad)

    run(name, steps)


def test_what_is_no_event_and_no_id_is_refused(run):
    """With ADK's error, which names the argument; nothing is stored."""

    async def steps(memory):
        with pytest.raises(InputValidationError, match=r"^events contains str: give events"):
            await memory.add_events_to_memory(**ANN, events=[event("fox"), "x"])
        with pytest.raises(InputValidationError, match=r"^memory_id is int: give a str"):
            await memory.delete_memory(**ANN, memory_id=5)
        with pytest.raises(InputValidationError, match="characters in session_id is 2,000"):
            await memory.add_events_to_memory(**ANN, events=[event("fox")], session_id="x" * 2000)
        with pytest.raises(InputValidationError, match=r"^custom_metadata is not a dict"):
            await memory.add_events_to_memory(**ANN, events=[event("fox")], custom_metadata=5)
        with pytest.raises(InputValidationError, match=r"^user_id is empty"):
            await memory.add_events_to_memory(app_name="a", user_id="", events=[event("fox")])
        return found(await memory.search_memory(**ANN, query="fox"))

    assert run("memory-memdb", steps) == []


def test_a_search_by_meaning_is_asked_for(tmp_path):
    """It finds what shares no word with the query."""

    async def steps(**options):
        path = tmp_path / "agent.db"
        async with MemdbMemoryService(path, durability="process", **options) as memory:
            milo = event("I adopted a dog and a cat.", id="e", at=1.0)
            await memory.add_session_to_memory(session(milo))
            return found(await memory.search_memory(**ANN, query="which pets"))

    assert asyncio.run(steps()) == []
    assert asyncio.run(steps(by_meaning=True)) == ["I adopted a dog and a cat."]
    with pytest.raises(InvalidInput, match="by_meaning"):
        MemdbMemoryService(tmp_path / "agent.db", by_meaning="maybe")


def test_an_event_without_an_id_is_known_by_what_it_says(run):
    """Adding it again adds nothing."""

    async def steps(memory):
        fox = event("fox", at=5.0)
        fox.id = ""
        await memory.add_events_to_memory(**ANN, events=[fox])
        await memory.add_events_to_memory(**ANN, events=[fox])
        return found(await memory.search_memory(**ANN, query="fox"))

    for name in ("memory-memdb", "memory-sqlite"):
        assert run(name, steps) == ["fox"]


ECHOES = [
    ("the parking code is 5521", "CHECKED 14 RECORDS, the parking code is 5521", "parking code"),
    ("My cat is called Milo.", "Noted: your cat is called Milo.", "what is my cat called"),
    (
        "I am allergic to peanuts.",
        "I have saved that you are allergic to peanuts. Anything else?",
        "allergic peanuts",
    ),
    (
        "The flight leaves at 7:40 from gate B12.",
        "Okay, I wrote down that the flight leaves at 7:40 from gate B12, and will remind you.",
        "flight gate",
    ),
    (
        "Bob's birthday is on 3 May",
        "Result of lookup: Bob's birthday is on 3 May (source: calendar)",
        "when is Bob's birthday",
    ),
]


@pytest.mark.parametrize("others", [0, 12])
@pytest.mark.parametrize("by_meaning", [False, True])
@pytest.mark.parametrize("first", ["user", "guide"])
@pytest.mark.parametrize(("words", "echo", "query"), ECHOES, ids=[one[2] for one in ECHOES])
def test_what_the_user_said_stands_before_its_echo(
    tmp_path, words, echo, query, first, by_meaning, others
):
    """An agent's longer restatement comes second, whichever was said first."""

    async def main():
        said = [event(words), event(echo, author="guide")]
        noise = [event(f"Rain number {n} in Rome.", author="guide") for n in range(others)]
        async with MemdbMemoryService(
            tmp_path / "agent.db", by_meaning=by_meaning, durability="process"
        ) as memory:
            events = noise + (said if first == "user" else said[::-1])
            await memory.add_events_to_memory(**ANN, events=events, session_id="s")
            return await memory.search_memory(**ANN, query=query)

    found = asyncio.run(main()).memories

    assert [one.content.parts[0].text for one in found[:2]] == [words, echo]


@pytest.mark.parametrize(
    "asked", [{"everything": True}, {"query": "fox"}, {"session": "s"}], ids=str
)
def test_a_session_that_is_added_again_brings_nothing_back(asked, tmp_path):
    """A session service that keeps its events elsewhere adds them once more after a forget."""

    async def steps():
        async with MemdbMemoryService(tmp_path / "a.db") as memory:
            talk = session(event("The red fox."))
            for _ in range(2):
                await memory.add_session_to_memory(talk)
                with memdb.open(tmp_path / "a.db") as db:
                    db.scope(ANN["user_id"], ANN["app_name"]).forget(**asked)
            await memory.add_session_to_memory(talk)
            assert found(await memory.search_memory(**ANN, query="fox")) == []

    asyncio.run(steps())
    assert b"fox" not in (tmp_path / "a.db").read_bytes()
