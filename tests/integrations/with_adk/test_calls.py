"""How a call of memdb's ADK services behaves: cancelled, closed, on several loops, by a URI."""

import asyncio
import sys
import threading

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.cli import service_registry
from google.adk.cli.utils import service_factory
from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions import BaseSessionService
from google.genai import types
from with_adk.services import ANN, FAST, YAML, event, texts

import memdb
from memdb.adapters.host import Host
from memdb.errors import Closed, InvalidInput
from memdb.integrations.adk import MemdbArtifactService, MemdbMemoryService, MemdbSessionService
from memdb.models.entries import NewEntry

S = {**ANN, "session_id": "s"}


@pytest.fixture
def opened(tmp_path):
    """Return a file that the services of a test share; it is sound at the end."""
    with memdb.open(tmp_path / "agent.db", **FAST) as db:
        yield db
        assert db.file.check(deep=True) == []


async def cancelled_after(work, steps):
    """Run a coroutine, cancelling it after some turns of the loop; say whether that stopped it."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


STEPS = [0, 1, 2, 3, 4, 5, 8, 20, 100, 1000, 5000]


def test_a_cancelled_append_is_whole_or_absent(opened):
    """At whatever await: state and event agree, the session agrees with the file, and goes on."""

    async def steps():
        async with MemdbSessionService(opened) as sessions:
            session = await sessions.create_session(**S)
            stopped = 0
            for turn, wait in enumerate(STEPS * 5):
                one = event(str(turn), state={"last": turn, f"k{turn}": turn, "user:n": turn})
                stopped += await cancelled_after(sessions.append_event(session, one), wait)
                kept = await sessions.get_session(**S)
                assert [e.id for e in kept.events] == [e.id for e in session.events]
                assert kept.state == session.state
                assert (f"k{turn}" in kept.state) == (kept.events[-1:] == [one])
            await sessions.append_event(session, event("end"))
            return stopped, texts((await sessions.get_session(**S)).events)

    stopped, told = asyncio.run(steps())

    assert stopped > 5
    assert told[-1] == "end"


def test_an_append_cancelled_while_it_writes_is_told_when_it_is_done(opened):
    """A second cancelling does not cut it short; the event is stored and in the session."""
    writing, go_on = threading.Event(), threading.Event()

    async def steps():
        async with MemdbSessionService(opened) as sessions:
            session = await sessions.create_session(**S)
            commit = Host.commit

            def slow(self, *args, **options):
                writing.set()
                assert go_on.wait(60)
                return commit(self, *args, **options)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Host, "commit", slow)
                task = asyncio.ensure_future(sessions.append_event(session, event("x")))
                await asyncio.to_thread(writing.wait, 10)
                for _ in range(3):
                    task.cancel()
                    await asyncio.sleep(0.01)
                assert not task.done()
                go_on.set()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await sessions.append_event(session, event("y"))
            return texts(session.events), texts((await sessions.get_session(**S)).events)

    assert asyncio.run(steps()) == (["x", "y"], ["x", "y"])


@pytest.mark.parametrize("wait", STEPS)
def test_any_other_call_can_be_cancelled(opened, wait):
    """It did all or nothing, and the next call works."""

    async def steps():
        async with (
            MemdbSessionService(opened) as sessions,
            MemdbMemoryService(opened) as memory,
            MemdbArtifactService(opened) as files,
        ):
            part = types.Part(text="x" * 100_000)
            fox, hen = event("red fox"), event("red hen")
            calls = [
                sessions.create_session(**S, state={"a": 1, "user:b": 2}),
                sessions.get_session(**S),
                sessions.list_sessions(**ANN),
                memory.add_events_to_memory(**ANN, events=[fox, hen], session_id="m"),
                memory.search_memory(**ANN, query="red"),
                files.save_artifact(**S, filename="f", artifact=part),
                files.load_artifact(**S, filename="f"),
            ]
            for call in calls:
                await cancelled_after(call, wait)
            found = await sessions.get_session(**S)
            state = {} if found is None else found.state
            memories = len((await memory.search_memory(**ANN, query="red")).memories)
            saved = await files.load_artifact(**S, filename="f")
            assert await files.save_artifact(**S, filename="f", artifact=part) in {0, 1}
            return state, memories, saved

    state, memories, saved = asyncio.run(steps())

    assert state in ({}, {"a": 1, "user:b": 2})
    assert memories in {0, 2}
    assert saved is None or len(saved.text) == 100_000


def test_events_that_branches_append_at_once_are_all_stored(opened):
    """Parallel branches share a session object; none is stale, and the order is the same."""

    async def steps():
        async with MemdbSessionService(opened) as sessions:
            session = await sessions.create_session(**S)
            appends = [
                sessions.append_event(session, event(str(n), state={f"k{n}": n})) for n in range(40)
            ]
            await asyncio.gather(*appends)
            kept = await sessions.get_session(**S)
            return texts(session.events), texts(kept.events), session.state == kept.state

    at_hand, kept, same = asyncio.run(steps())

    assert at_hand == kept == [str(n) for n in range(40)]
    assert same


def test_one_service_serves_several_event_loops(opened):
    """One after the other, and two at the same time in two threads."""
    sessions = MemdbSessionService(opened)
    session = asyncio.run(sessions.create_session(**S))
    asyncio.run(sessions.append_event(session, event("1")))

    def work(name):
        async def fill():
            made = await sessions.create_session(**ANN, session_id=name)
            for n in range(20):
                await sessions.append_event(made, event(str(n)))

        asyncio.run(fill())

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counts = [
        len(asyncio.run(sessions.get_session(**ANN, session_id=name)).events) for name in "sab"
    ]
    asyncio.run(sessions.close())
    assert counts == [1, 20, 20]


def test_a_closed_service_says_so(tmp_path):
    """Every call, also after closing twice; the session object stays as it was."""

    async def steps():
        sessions = MemdbSessionService(tmp_path / "agent.db", **FAST)
        session = await sessions.create_session(**S)
        await sessions.close()
        await sessions.close()
        for call in (
            sessions.append_event(session, event("x", state={"a": 1, "temp:b": 1})),
            sessions.get_session(**S),
            sessions.create_session(**ANN),
            sessions.list_sessions(**ANN),
            sessions.delete_session(**S),
        ):
            with pytest.raises(Closed, match=r"agent\.db was closed"):
                await call
        return session

    session = asyncio.run(steps())

    assert (session.events, session.state) == ([], {})


def test_a_file_that_was_closed_below_the_service_says_so(tmp_path):
    """The error is memdb's: ADK has none for it."""

    async def steps():
        db = memdb.open(tmp_path / "agent.db", **FAST)
        async with MemdbSessionService(db) as sessions:
            session = await sessions.create_session(**S)
            db.close()
            with pytest.raises(Closed):
                await sessions.append_event(session, event("x"))
            return session.events

    assert asyncio.run(steps()) == []


@pytest.fixture
def registry(monkeypatch):
    """Return ADK's registry as it is in a new process."""
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return service_registry.get_service_registry


def test_services_yaml_gives_all_three_by_one_uri(tmp_path, registry, monkeypatch):
    """As `adk web` and `adk run` load them; the file stands in the working directory."""
    (tmp_path / "services.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    uri = "memdb:///my%20agent.db?durability=process&embedder=none&counter=estimate&by_meaning=1"

    service_registry.load_services_module(str(tmp_path))
    sessions = service_factory.create_session_service_from_options(
        base_dir=tmp_path, session_service_uri=uri
    )
    memory = service_factory.create_memory_service_from_options(
        base_dir=tmp_path, memory_service_uri=uri
    )
    files = service_factory.create_artifact_service_from_options(
        base_dir=tmp_path, artifact_service_uri=uri, strict_uri=True
    )

    kinds = [BaseSessionService, BaseMemoryService, BaseArtifactService]
    for made, kind in zip((sessions, memory, files), kinds, strict=True):
        assert isinstance(made, kind)
        assert type(made).__module__.startswith("memdb.")

    async def use():
        session = await sessions.create_session(**S)
        await sessions.append_event(session, event("red fox"))
        await memory.add_session_to_memory(session)
        for made in (sessions, memory, files):
            await made.close()

    asyncio.run(use())
    assert (tmp_path / "my agent.db").exists()


@pytest.mark.parametrize(
    "uri",
    ["memdb://agent.db", "memdb:", "memdb:///", "sqlite:///a.db", "memdb:///a.db?mode=ro", "a.db"],
)
def test_a_uri_of_another_form_is_refused(uri, tmp_path, monkeypatch):
    """The error says what to write, and no file is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidInput, match=r"use memdb:///|no option 'mode'"):
        MemdbSessionService(uri=uri)

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "made",
    [MemdbSessionService, MemdbMemoryService, MemdbArtifactService],
    ids=lambda x: x.__name__,
)
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"source": 5}, "^source is int: give a path"),
        ({"source": b"a.db"}, "^source is bytes: give a path"),
        ({"uri": 5}, "^uri is int: give a str"),
        ({"uri": "memdb:///a.db?by_meaning=maybe"}, "^by_meaning is 'maybe': use true or false"),
        ({"source": "a.db", "by_meaning": 2}, "^by_meaning is 2: use true or false"),
    ],
    ids=["int", "bytes", "uri", "option of a uri", "option"],
)
def test_what_is_no_file_is_refused_by_all_three(made, given, named, tmp_path, monkeypatch):
    """With memdb's error, and no file is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidInput, match=named):
        made(**given)

    assert [*tmp_path.iterdir()] == []


def test_the_options_of_a_uri_are_those_of_the_docstring(tmp_path, monkeypatch):
    """A file without embedder makes no vectors; all three services take the same URI."""
    monkeypatch.chdir(tmp_path)
    uri = "memdb:///agent.db?durability=process&embedder=none&by_meaning=false"

    async def steps():
        for made in (MemdbSessionService, MemdbMemoryService, MemdbArtifactService):
            async with made(uri=uri) as service:
                ann = service._db.scope("ann")
                assert (
                    service._db._services.remember.prepare(ann._owner, NewEntry("x")).vector is None
                )

    asyncio.run(steps())


def test_a_file_that_cannot_be_opened_is_told_at_once(tmp_path):
    """Before the first call, and with memdb's error."""
    with pytest.raises(memdb.FileError):
        MemdbSessionService(uri=f"memdb:///{tmp_path}/nothing/agent.db")
    with pytest.raises(InvalidInput, match="neither source nor uri"):
        MemdbSessionService()


def test_a_service_that_cannot_start_leaves_the_file(tmp_path, make_embedder):
    """An embedder that fails is told at once, and the file is closed again."""
    broken = make_embedder()
    broken.fail = RuntimeError("no model")

    with pytest.raises(memdb.PortError, match="no model"):
        MemdbSessionService(tmp_path / "agent.db", embedder=broken)

    assert [path.name for path in tmp_path.iterdir()] == ["agent.db"]


@pytest.mark.parametrize(
    "kind",
    [MemdbSessionService, MemdbMemoryService, MemdbArtifactService],
    ids=lambda one: one.__name__,
)
def test_a_program_without_an_event_loop_closes_a_service(tmp_path, kind):
    """By `with` or `close_sync`, again too; a file that was open stays so."""
    path = tmp_path / "agent.db"
    with kind(path) as service:
        assert str(path) in repr(service)
    service.close_sync()
    with memdb.open(path) as db:
        with kind(db):
            pass
        assert db.scopes() == []

    assert [one.name for one in tmp_path.iterdir()] == ["agent.db"]


def test_services_share_a_file_that_was_opened_for_coroutines(tmp_path):
    """A `memdb.aio.MemDB` too."""

    async def steps():
        async with memdb.aio.open(tmp_path / "agent.db") as db:
            sessions, files = MemdbSessionService(db), MemdbArtifactService(db)
            session = await sessions.create_session(**ANN)
            part = types.Part(text="x")
            await files.save_artifact(**ANN, session_id=session.id, filename="f", artifact=part)
            await sessions.close()
            await files.close()
            return await db.scope("ann", "desk").sessions()

    assert len(asyncio.run(steps())) == 1


def test_objects_of_genai_and_adk_are_messages(db: memdb.MemDB) -> None:
    """`extend` takes them as they come."""
    content = types.Content(role="model", parts=[types.Part(text="from genai")])

    stored = (
        db.scope("ann")
        .session("s")
        .extend([content, Event(id="e1", author="guide", content=content)])
    )

    assert [message.text for message in stored] == ["from genai"] * 2
    assert (stored[1].author, stored[1].external_id) == ("guide", "e1")
