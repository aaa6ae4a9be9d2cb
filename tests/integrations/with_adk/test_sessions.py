"""Sessions of google-adk: the contract of its own services, asked of memdb's as well."""

import asyncio
import base64
import copy
import math

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from with_adk.services import ANN, BOB, FAST, event, service, texts

import memdb
from memdb.adapters.host import Host
from memdb.integrations.adk import MemdbArtifactService, MemdbSessionService

ALL = ["session-memdb", "session-memory", "session-sqlite"]
LASTING = ["session-memdb", "session-sqlite"]


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
def test_state_reaches_those_who_share_it(run, name):
    """Session, user and app state come back merged; temp state is nowhere."""

    async def steps(sessions):
        state = {"own": 1, "user:u": 2, "app:a": 3, "temp:t": 4}
        made = await sessions.create_session(**ANN, state=state, session_id="s")
        other = await sessions.create_session(**ANN)
        bob = await sessions.create_session(**BOB)
        kept = await sessions.get_session(**ANN, session_id="s")
        return made.state, kept.state, other.state, bob.state, await sessions.get_user_state(**ANN)

    made, kept, other, bob, user = run(name, steps)

    assert made == kept == {"own": 1, "user:u": 2, "app:a": 3}
    assert (other, bob, user) == ({"user:u": 2, "app:a": 3}, {"app:a": 3}, {"u": 2})


@pytest.mark.parametrize("name", ALL)
def test_a_delta_changes_state_and_the_session_at_hand(run, name):
    """None is a value, nested values are replaced, temp keys reach the session object only."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, state={"a": {"x": 1, "y": 1}, "b": 1})
        delta = {"a": {"x": 2}, "b": None, "user:u": [1], "app:p": 1.5, "temp:t": "now"}
        stored = await sessions.append_event(session, event("hi", state=delta))
        again = await sessions.get_session(**ANN, session_id=session.id)
        return session, stored, again

    session, stored, again = run(name, steps)

    lasting = {"a": {"x": 2}, "b": None, "user:u": [1], "app:p": 1.5}
    assert session.state == lasting | {"temp:t": "now"}
    assert again.state == lasting
    assert "temp:t" not in stored.actions.state_delta
    assert again.events == session.events == [stored]


@pytest.mark.parametrize("name", ALL)
def test_partial_events_are_not_stored(run, name):
    """They come back as they were."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN)
        part = event("he", partial=True, state={"a": 1, "temp:t": 1})
        assert await sessions.append_event(session, part) is part
        again = await sessions.get_session(**ANN, session_id=session.id)
        return session.events, session.state, again.events, again.state

    assert run(name, steps) == ([], {}, [], {})


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ["1", "2", "3", "4", "5"]),
        ({"num_recent_events": 3}, ["3", "4", "5"]),
        ({"num_recent_events": 0}, []),
        ({"num_recent_events": 99}, ["1", "2", "3", "4", "5"]),
        ({"after_timestamp": 2.5}, ["3", "4", "5"]),
        ({"after_timestamp": 2.0}, ["2", "3", "4", "5"]),
        ({"after_timestamp": 9.0}, []),
        ({"after_timestamp": 0.0}, ["1", "2", "3", "4", "5"]),
        ({"num_recent_events": 2, "after_timestamp": 1.0}, ["4", "5"]),
        ({"num_recent_events": 4, "after_timestamp": 4.0}, ["4", "5"]),
        ({"num_recent_events": 0, "after_timestamp": 1.0}, []),
    ],
    ids=str,
)
def test_only_the_events_asked_for(run, name, config, expected):
    """The newest, those from a time on, or both; 0 is none."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN)
        for number in range(1, 6):
            await sessions.append_event(session, event(str(number), at=float(number)))
        asked = GetSessionConfig(**config)
        found = await sessions.get_session(**ANN, session_id=session.id, config=asked)
        return texts(found.events)

    assert run(name, steps) == expected


def test_times_are_compared_finer_than_milliseconds(run):
    """Two events of one millisecond are told apart, also when the last ones are counted."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN)
        for text, at in [("old", 7.0001), ("new", 7.0003), ("late", 7.0002)]:
            await sessions.append_event(session, event(text, at=at))
        asked = GetSessionConfig(after_timestamp=7.0002, num_recent_events=2)
        found = await sessions.get_session(**ANN, session_id=session.id, config=asked)
        return texts(found.events), found.last_update_time

    assert run("session-memdb", steps) == (["new", "late"], 7.0002)


@pytest.mark.parametrize("name", ALL)
def test_the_last_update_is_the_time_of_the_last_event(run, name):
    """In the object at hand, in the file, and in the list, which is sorted by it."""

    async def steps(sessions):
        late = await sessions.create_session(**ANN, session_id="a")
        early = await sessions.create_session(**ANN, session_id="b")
        await sessions.append_event(late, event("x", at=2e9 + 0.123456))
        await sessions.append_event(early, event("x", at=1.9e9))
        found = await sessions.get_session(**ANN, session_id="a")
        listed = await sessions.list_sessions(**ANN)
        order = [(one.id, one.last_update_time, one.events) for one in listed.sessions]
        return late.last_update_time, found.last_update_time, order

    at_hand, found, order = run(name, steps)

    assert at_hand == found == 2e9 + 0.123456
    assert order == [("b", 1.9e9, []), ("a", 2e9 + 0.123456, [])]


@pytest.mark.parametrize("name", ALL)
def test_a_list_is_of_one_user_or_of_all(run, name):
    """With merged state, without events; another app's are never in it."""

    async def steps(sessions):
        await sessions.create_session(**ANN, session_id="a", state={"k": 1, "app:p": 2})
        await sessions.create_session(**BOB, session_id="b", state={"user:u": 3})
        await sessions.create_session(app_name="other", user_id="ann", session_id="c")
        every = await sessions.list_sessions(app_name="desk")
        anns = await sessions.list_sessions(**ANN)
        nobody = await sessions.list_sessions(app_name="desk", user_id="eve")
        return [
            sorted((one.user_id, one.id, tuple(sorted(one.state.items()))) for one in got.sessions)
            for got in (every, anns, nobody)
        ]

    ann = ("ann", "a", (("app:p", 2), ("k", 1)))
    bob = ("bob", "b", (("app:p", 2), ("user:u", 3)))
    assert run(name, steps) == [[ann, bob], [ann], []]


@pytest.mark.parametrize("name", ALL)
def test_ids_are_stripped_and_taken_once(run, name):
    """An id with blanks around it is the one without; a blank one is generated."""

    async def steps(sessions):
        made = await sessions.create_session(**ANN, session_id="  s  ")
        with pytest.raises(AlreadyExistsError):
            await sessions.create_session(**ANN, session_id="s", state={"app:p": 1})
        with pytest.raises(AlreadyExistsError):
            await sessions.create_session(**ANN, session_id=" s")
        blank = await sessions.create_session(**ANN, session_id=" \t ")
        found = await sessions.get_session(**ANN, session_id=" s ")
        await sessions.delete_session(**ANN, session_id="s ")
        gone = await sessions.get_session(**ANN, session_id="s")
        return made.id, blank.id, found.id, found.state, gone

    made, blank, found, state, gone = run(name, steps)

    assert (made, found, state, gone) == ("s", "s", {}, None)
    assert len(blank) > 20


@pytest.mark.parametrize("name", ALL)
def test_deleting_a_session_keeps_what_others_share(run, name):
    """User and app state stay, and events cannot be added to what is gone."""

    async def steps(sessions):
        state = {"k": 1, "user:u": 2, "app:p": 3}
        session = await sessions.create_session(**ANN, session_id="s", state=state)
        await sessions.append_event(session, event("x"))
        await sessions.delete_session(**ANN, session_id="s")
        await sessions.delete_session(**ANN, session_id="s")
        with pytest.raises(SessionNotFoundError):
            await sessions.append_event(session, event("y", state={"user:u": 9}))
        again = await sessions.create_session(**ANN, session_id="s")
        return again.state, again.events

    assert run(name, steps) == ({"user:u": 2, "app:p": 3}, [])


@pytest.mark.parametrize("name", ALL)
def test_what_is_not_there_is_none(run, name):
    """Of sessions, users and apps that nobody made."""

    async def steps(sessions):
        await sessions.create_session(**ANN, session_id="s")
        return (
            await sessions.get_session(**ANN, session_id="t"),
            await sessions.get_session(**BOB, session_id="s"),
            await sessions.get_session(app_name="other", user_id="ann", session_id="s"),
            await sessions.get_user_state(**BOB),
            (await sessions.list_sessions(app_name="nobody")).sessions,
        )

    assert run(name, steps) == (None, None, None, {}, [])


@pytest.mark.parametrize("name", LASTING)
def test_of_two_writers_the_one_that_read_before_is_stale(run, name):
    """It is refused, nothing of its event is stored, and it may go on after reading again."""

    async def steps(sessions):
        first = await sessions.create_session(**ANN, session_id="s")
        await sessions.append_event(first, event("1", at=first.last_update_time + 1))
        second = await sessions.get_session(**ANN, session_id="s")
        await sessions.append_event(first, event("2", at=first.last_update_time + 1))
        with pytest.raises(StaleSessionError):
            await sessions.append_event(second, event("lost", state={"app:p": 1}))
        fresh = await sessions.get_session(**ANN, session_id="s")
        await sessions.append_event(fresh, event("3", at=fresh.last_update_time + 1))
        again = await sessions.get_session(**ANN, session_id="s")
        return texts(second.events), texts(again.events), again.state

    assert run(name, steps) == (["1"], ["1", "2", "3"], {})


def test_a_writer_is_stale_whatever_the_clock_says(run):
    """An event with an older time than the one before it hides no writer."""

    async def steps(sessions):
        first = await sessions.create_session(**ANN, session_id="s")
        second = await sessions.get_session(**ANN, session_id="s")
        await sessions.append_event(first, event("1", at=1.0))
        with pytest.raises(StaleSessionError):
            await sessions.append_event(second, event("2"))

    run("session-memdb", steps)


def test_a_session_of_the_same_name_is_another_one(run):
    """Deleted and made again: who holds the old one is stale."""

    async def steps(sessions):
        old = await sessions.create_session(**ANN, session_id="s")
        await sessions.delete_session(**ANN, session_id="s")
        await sessions.create_session(**ANN, session_id="s")
        old.last_update_time += 100
        with pytest.raises(StaleSessionError):
            await sessions.append_event(old, event("1"))

    run("session-memdb", steps)


@pytest.mark.parametrize("name", LASTING)
def test_a_session_that_went_through_json_is_judged_by_its_time(run, name):
    """As recent as the stored one it may write; older it is stale."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, session_id="s")
        await sessions.append_event(session, event("1", at=session.last_update_time + 1))
        copied = Session.model_validate_json(session.model_dump_json())
        older = copied.model_copy(update={"last_update_time": copied.last_update_time - 0.001})
        with pytest.raises(StaleSessionError):
            await sessions.append_event(older, event("2"))
        await sessions.append_event(copied, event("3", at=copied.last_update_time))
        again = await sessions.get_session(**ANN, session_id="s")
        return texts(again.events)

    assert run(name, steps) == ["1", "3"]


@pytest.mark.parametrize("name", ["session-memdb", "session-memory"])
def test_an_event_delivered_again_changes_nothing(run, name):
    """Neither the transcript nor the state, also from an older copy of the session."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, session_id="s")
        older = await sessions.get_session(**ANN, session_id="s")
        one = event("1", state={"n": 1, "temp:t": 1})
        await sessions.append_event(session, one)
        await sessions.append_event(session, event("2", state={"n": 2}))
        await sessions.append_event(session, one.model_copy(deep=True))
        await sessions.append_event(older, one)
        again = await sessions.get_session(**ANN, session_id="s")
        return texts(again.events), again.state, texts(session.events)

    assert run(name, steps) == (["1", "2"], {"n": 2}, ["1", "2"])


def test_another_event_with_a_known_id_is_refused(run):
    """Also where only its state differs."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, session_id="s")
        await sessions.append_event(session, event("1", id="e", at=5.0, state={"n": 1}))
        with pytest.raises(AlreadyExistsError):
            await sessions.append_event(session, event("1", id="e", at=5.0, state={"n": 2}))
        return (await sessions.get_session(**ANN, session_id="s")).state, len(session.events)

    assert run("session-memdb", steps) == ({"n": 1}, 1)


def everything() -> Event:
    """Return an event with every kind of part and action."""
    parts = [
        types.Part(text="a\0b \u4f60\u597d \U0001f600", thought=False),
        types.Part(text="hm", thought=True, thought_signature=b"\0\xff"),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256)))),
        types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="a/b")),
        types.Part(function_call=types.FunctionCall(id="c1", name="f", args={"b": 1, "a": [None]})),
        types.Part(
            function_response=types.FunctionResponse(id="c1", name="f", response={"r": "\0"})
        ),
        types.Part(executable_code=types.ExecutableCode(code="1", language="PYTHON")),
    ]
    return Event(
        author="agent",
        invocation_id="i",
        branch="a.b",
        timestamp=1_700_000_000.123457,
        content=types.Content(role="model", parts=parts),
        long_running_tool_ids={"z", "a"},
        custom_metadata={"z": 1, "a": {"n": None}},
        error_code="E",
        error_message="m",
        finish_reason=types.FinishReason.STOP,
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=7),
        actions=EventActions(
            state_delta={"f": 0.1 + 0.2, "big": 2**70, "none": None},
            artifact_delta={"x": 0},
            transfer_to_agent="b",
            escalate=True,
        ),
    )


@pytest.mark.parametrize("name", ALL)
def test_an_event_comes_back_whole(run, name):
    """Every field, bytes and NUL included."""
    one = everything()

    async def steps(sessions):
        session = await sessions.create_session(**ANN, session_id="s")
        await sessions.append_event(session, one)
        return await sessions.get_session(**ANN, session_id="s")

    found = run(name, steps)

    assert found.events == [one]
    assert found.state == {"f": 0.1 + 0.2, "big": 2**70, "none": None}


@pytest.mark.parametrize("name", LASTING)
def test_what_is_handed_out_is_a_copy(run, name):
    """Changing it, or what was given, changes nothing that is stored."""

    async def steps(sessions):
        state = {"a": [1]}
        session = await sessions.create_session(**ANN, session_id="s", state=state)
        state["a"].append(2)
        session.state["a"].append(3)
        one = event("x", state={"b": [1]})
        await sessions.append_event(await sessions.get_session(**ANN, session_id="s"), one)
        first = await sessions.get_session(**ANN, session_id="s")
        first.events[0].content.parts[0].text = "changed"
        first.state["b"].append(2)
        again = await sessions.get_session(**ANN, session_id="s")
        return again.state, texts(again.events)

    assert run(name, steps) == ({"a": [1], "b": [1]}, ["x"])


@pytest.mark.parametrize("name", LASTING)
def test_state_without_a_json_form_becomes_its_repr(run, name, caplog):
    """As in ADK's own stores: with a warning, and without losing the event."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, state={"f": len})
        await sessions.append_event(session, event("x", state={"g": print, "n": 1}))
        return (await sessions.get_session(**ANN, session_id=session.id)).state

    found = run(name, steps)

    assert found == {"f": "<built-in function len>", "g": "<built-in function print>", "n": 1}
    assert "repr" in caplog.text or "representation" in caplog.text


def test_what_no_file_can_hold_ends_no_conversation(run):
    """NUL and half of a surrogate pair in a text or a state are kept or U+FFFD."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, session_id="s")
        for said in ("a\0b", "a\ud800b"):
            await sessions.append_event(session, event(said, state={"last": said}))
        again = await sessions.get_session(**ANN, session_id="s")
        return texts(again.events), again.state

    assert run("session-memdb", steps) == (["a\0b", "a\ufffdb"], {"last": "a\ufffdb"})


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (event("x", state={"\ud800": 1}), "a key of state holds a lone surrogate"),
        (event("x", at=1e300), "^timestamp is 1e.300: give seconds"),
        (event("x", at=1e12), "^timestamp is 1000000000000.0: give seconds"),
        (event("x", at=math.nan), "^timestamp is nan: give seconds"),
        (event("x", id="e" * 2000), "the number of characters in event id is 2,000"),
        (event("x", id="\ud800"), r"event '\\ud800' cannot be stored: id holds a lone surrogate"),
        (event("x", author="\0"), "author contains a NUL"),
        (event("x", custom_metadata={"f": len}), "has no JSON form .*: use plain values"),
    ],
    ids=[
        "surrogate key",
        "far",
        "milliseconds",
        "no time",
        "long id",
        "surrogate id",
        "author",
        "function",
    ],
)
def test_an_event_that_cannot_be_stored_is_refused_whole(run, bad, named):
    """With ADK's error; the file, the session and its state stay as they were."""

    async def steps(sessions):
        session = await sessions.create_session(**ANN, session_id="s")
        before = copy.deepcopy(session)
        with pytest.raises(InputValidationError, match=named) as caught:
            await sessions.append_event(session, bad)
        assert str(caught.value).encode()  # it can be printed
        assert session == before
        await sessions.append_event(session, event("fine"))
        again = await sessions.get_session(**ANN, session_id="s")
        return texts(again.events), again.state

    assert run("session-memdb", steps) == (["fine"], {})


NO_NAMES = {
    "none": None,
    "empty": "",
    "blank": "   ",
    "nul": "a\0b",
    "surrogate": "\ud800",
    "long": "x" * 2000,
    "int": 7,
}


@pytest.mark.parametrize("name", ["session-memdb", "session-memory"])
@pytest.mark.parametrize("bad", NO_NAMES.values(), ids=NO_NAMES)
def test_there_is_nothing_under_a_name_that_cannot_be(run, name, bad):
    """Whoever asks gets None or nothing, as from ADK's own: `adk web` answers 404, not 500."""

    async def steps(sessions):
        for ids in ({**ANN, "app_name": bad}, {**ANN, "user_id": bad}):
            assert await sessions.get_session(**ids, session_id="s") is None
            assert await sessions.get_user_state(**ids) == {}
            assert (await sessions.list_sessions(**ids)).sessions == []
            assert await sessions.delete_session(**ids, session_id="s") is None
        if bad != NO_NAMES["int"]:  # ADK's own fail on an id that is no text
            assert await sessions.get_session(**ANN, session_id=bad) is None
            assert await sessions.delete_session(**ANN, session_id=bad) is None

    run(name, steps)


@pytest.mark.parametrize("field", ["app_name", "user_id"])
@pytest.mark.parametrize("bad", NO_NAMES.values(), ids=NO_NAMES)
def test_no_session_is_made_under_a_name_that_cannot_be(run, field, bad):
    """The error is ADK's and calls the field by ADK's name; nothing is made."""

    async def steps(sessions):
        with pytest.raises(InputValidationError, match=field):
            await sessions.create_session(**{**ANN, field: bad}, state={"app:p": 1})
        return sessions._db.scopes()

    assert run("session-memdb", steps) == []


def test_the_memorys_own_app_is_no_app_for_sessions(run):
    """Every call says so: what stands there is no session."""

    async def steps(sessions):
        ids = {"app_name": "desk (memory)", "user_id": "u"}
        for call in (
            sessions.create_session(**ids),
            sessions.get_session(**ids, session_id="s"),
            sessions.get_user_state(**ids),
            sessions.list_sessions(**ids),
            sessions.delete_session(**ids, session_id="s"),
        ):
            with pytest.raises(InputValidationError, match="a part of another app"):
                await call

    run("session-memdb", steps)


@pytest.mark.parametrize("state", [5, [1], "x"], ids=str)
def test_a_state_that_is_no_dict_is_refused(run, state):
    """With ADK's error, before anything is made."""

    async def steps(sessions):
        with pytest.raises(InputValidationError, match=r"^state is .*: give a dict"):
            await sessions.create_session(**ANN, session_id="s", state=state)
        return await sessions.get_session(**ANN, session_id="s")

    assert run("session-memdb", steps) is None


def test_a_number_of_events_out_of_range_is_named_as_adk_does(run):
    """By the name that the caller knows."""

    async def steps(sessions):
        await sessions.create_session(**ANN, session_id="s")
        asked = GetSessionConfig(num_recent_events=2**70)
        with pytest.raises(InputValidationError, match=r"^num_recent_events is .*: give a number"):
            await sessions.get_session(**ANN, session_id="s", config=asked)

    run("session-memdb", steps)


HOSTILE = [
    "../../etc",
    "a/b",
    "%",
    "_",
    "*",
    "'; DROP TABLE sessions; --",
    "\u4f60",
    "a\nb",
    "app:",
    "\ud7ff",
]


def test_hostile_names_are_names(run):
    """Each is its own session, and no other's."""

    async def steps(sessions):
        for name in HOSTILE:
            who = {"app_name": name or "a", "user_id": f"u{name}"}
            made = await sessions.create_session(**who, session_id=f"s{name}", state={name: name})
            await sessions.append_event(made, event(name or "x"))
        found = []
        for name in HOSTILE:
            who = {"app_name": name or "a", "user_id": f"u{name}"}
            listed = (await sessions.list_sessions(**who)).sessions
            found.append([(one.id, one.state.get(name, name)) for one in listed])
        return found

    found = run("session-memdb", steps)

    assert [len(one) for one in found] == [1] * len(HOSTILE)


def test_another_client_and_adk_share_a_conversation(tmp_path):
    """What the library appended is read as events; what ADK appended is read as messages."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            chat = db.scope("ann", "desk").session("trip")
            chat.append("user", "Where to?", external_id="m1", created=1500)
            chat.append("assistant", "Oslo.", author="guide")
            async with MemdbSessionService(db) as sessions:
                session = await sessions.get_session(**ANN, session_id="trip")
                call = types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": 1}))
                await sessions.append_event(
                    session,
                    event(author="guide", content=types.Content(role="model", parts=[call])),
                )
                stale = await sessions.get_session(**ANN, session_id="trip")
                chat.append("user", "Thanks")
                with pytest.raises(StaleSessionError):
                    await sessions.append_event(stale, event("x"))
            return session, [*chat.messages()]

    session, messages = asyncio.run(steps())

    first, second = session.events[:2]
    assert (first.id, first.author, first.timestamp) == ("m1", "user", 1.5)
    assert (second.author, second.content.role, second.content.parts[0].text) == (
        "guide",
        "model",
        "Oslo.",
    )
    assert [(one.role, one.author, one.text) for one in messages[2:]] == [
        ("assistant", "guide", 'f({"a": 1})'),
        ("user", None, "Thanks"),
    ]
    assert messages[2].parts[0] == {
        "type": "tool_call",
        "id": "c",
        "name": "f",
        "arguments": {"a": 1},
    }


@pytest.mark.parametrize(
    "take_back",
    [
        lambda chat: chat.pop(),
        lambda chat: chat.clear(),
        lambda chat: chat.replace([2, 3]),
        lambda chat: (chat.append("user", "x"), chat.pop(), chat.pop()),
    ],
    ids=["pop", "clear", "replace", "append and pop"],
)
@pytest.mark.parametrize("archived", [False, True], ids=["fresh", "archived"])
def test_a_session_whose_events_were_taken_back_is_stale(tmp_path, take_back, archived):
    """By another client of the file; read again, it can be written to, and again after that."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            chat = db.scope("ann", "desk").session("s")
            async with MemdbSessionService(db) as sessions:
                held = await sessions.create_session(**ANN, session_id="s")
                for text in ("1", "2", "3"):
                    await sessions.append_event(held, event(text))
                if archived:
                    chat.archive(keep_last=0)
                held = await sessions.get_session(**ANN, session_id="s")
                take_back(chat)
                with pytest.raises(StaleSessionError):
                    await sessions.append_event(held, event("lost", state={"k": 1}))
                fresh = await sessions.get_session(**ANN, session_id="s")
                kept = texts(fresh.events)
                for text in ("4", "5"):
                    await sessions.append_event(fresh, event(text))
                again = await sessions.get_session(**ANN, session_id="s")
                assert db.file.check(deep=True) == []
                return kept, texts(again.events), again.state

    kept, again, state = asyncio.run(steps())

    assert again == [*kept, "4", "5"]
    assert state == {}


def test_a_session_that_went_through_json_is_stale_after_events_were_taken_back(tmp_path):
    """Its time is older than that of the taking back."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            async with MemdbSessionService(db) as sessions:
                held = await sessions.create_session(**ANN, session_id="s")
                await sessions.append_event(held, event("1", at=5.0))
                copied = Session.model_validate_json(held.model_dump_json())
                db.scope("ann", "desk").session("s").clear()
                with pytest.raises(StaleSessionError):
                    await sessions.append_event(copied, event("lost"))

    asyncio.run(steps())


def test_words_that_were_erased_in_their_place_make_nobody_stale(tmp_path):
    """The events are as many as before."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            async with MemdbSessionService(db) as sessions:
                held = await sessions.create_session(**ANN, session_id="s")
                await sessions.append_event(held, event("1"))
                Host(db.scope("ann", "desk").session("s")).erase(1)
                await sessions.append_event(held, event("2"))
                return len((await sessions.get_session(**ANN, session_id="s")).events)

    assert asyncio.run(steps()) == 2


def test_events_that_are_taken_back_between_looking_and_writing_are_seen(tmp_path, monkeypatch):
    """The append is refused as stale, and neither the file nor the object has the event."""
    commit = Host.commit
    other = memdb.open(tmp_path / "agent.db", **FAST)

    def late(self, *args, **options):
        other.scope("ann", "desk").session("s").clear()
        return commit(self, *args, **options)

    async def steps():
        async with MemdbSessionService(tmp_path / "agent.db", **FAST) as sessions:
            held = await sessions.create_session(**ANN, session_id="s")
            await sessions.append_event(held, event("1"))
            monkeypatch.setattr(Host, "commit", late)
            with pytest.raises(StaleSessionError):
                await sessions.append_event(held, event("2"))
            monkeypatch.setattr(Host, "commit", commit)
            found = await sessions.get_session(**ANN, session_id="s")
            await sessions.append_event(found, event("3"))
            again = await sessions.get_session(**ANN, session_id="s")
            return texts(held.events), texts(again.events)

    assert asyncio.run(steps()) == (["1"], ["3"])
    other.close()


def test_what_another_host_keeps_with_a_session_stays(tmp_path):
    """Its metadata and title are there after ADK wrote."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            chat = db.scope("ann", "desk").session("s")
            chat.create(title="Trip", metadata={"other": [1]})
            async with MemdbSessionService(db) as sessions:
                session = await sessions.get_session(**ANN, session_id="s")
                await sessions.append_event(session, event("x", at=5.0))
            return chat.head()

    head = asyncio.run(steps())

    assert head.title == "Trip"
    assert head.metadata == {"other": [1], "adk": {"time": 5.0, "seq": 1}}


@pytest.mark.parametrize("after", [math.inf, math.nan, -math.inf, 1e300, 1e12])
def test_a_limit_that_is_no_time_is_refused(run, after):
    """With ADK's error, which names the limit."""

    async def steps(sessions):
        await sessions.create_session(**ANN, session_id="s")
        with pytest.raises(InputValidationError, match=r"^after_timestamp is .*: give seconds"):
            await sessions.get_session(
                **ANN, session_id="s", config=GetSessionConfig(after_timestamp=after)
            )

    run("session-memdb", steps)


def test_artifacts_alone_make_no_session(tmp_path):
    """What was saved before the session began does not stand in its way."""

    async def steps():
        with memdb.open(tmp_path / "agent.db", **FAST) as db:
            files, sessions = MemdbArtifactService(db), MemdbSessionService(db)
            await files.save_artifact(
                **ANN, session_id="s", filename="f", artifact=types.Part(text="x")
            )
            before = await sessions.get_session(**ANN, session_id="s")
            listed = (await sessions.list_sessions(**ANN)).sessions
            made = await sessions.create_session(**ANN, session_id="s")
            with pytest.raises(SessionNotFoundError):
                lost = Session(id="t", **ANN)
                await files.save_artifact(
                    **ANN, session_id="t", filename="f", artifact=types.Part(text="x")
                )
                await sessions.append_event(lost, event("x"))
            kept = await files.load_artifact(**ANN, session_id="s", filename="f")
            await files.close()
            await sessions.close()
            return before, listed, made.id, kept.text

    assert asyncio.run(steps()) == (None, [], "s", "x")


def test_what_is_stored_outlives_the_service(tmp_path):
    """A second service on the file reads what the first one wrote, and the file is sound."""

    async def write():
        async with MemdbSessionService(tmp_path / "agent.db", **FAST) as sessions:
            session = await sessions.create_session(**ANN, session_id="s")
            await sessions.append_event(session, everything())
            assert repr(sessions).endswith("agent.db>")

    async def read():
        async with MemdbSessionService(str(tmp_path / "agent.db"), **FAST) as sessions:
            return await sessions.get_session(**ANN, session_id="s")

    asyncio.run(write())
    found = asyncio.run(read())

    assert base64.b64encode(found.events[0].content.parts[2].inline_data.data)[:4] == b"AAEC"
    with memdb.open(tmp_path / "agent.db") as db:
        assert db.file.check(deep=True) == []
