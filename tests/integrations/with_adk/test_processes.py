"""Many processes on one file through ADK's services, and ADK's own programs."""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from child_processes import free_port
from with_adk.services import ANN, FAST, YAML, texts

import memdb
from memdb.integrations.adk import MemdbArtifactService, MemdbSessionService

pytestmark = pytest.mark.slow

PROCESSES, WRITES = 8, 150
S = {**ANN, "session_id": "s"}

WRITER = """
import asyncio, sys
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.genai import types
from memdb.integrations.adk import MemdbArtifactService, MemdbMemoryService, MemdbSessionService

path, name, writes = sys.argv[1], sys.argv[2], int(sys.argv[3])
who = {"app_name": "desk", "user_id": "ann"}

async def main():
    options = {"counter": "estimate", "embedder": None, "durability": "process"}
    stale = 0
    async with (
        MemdbSessionService(path, **options) as sessions,
        MemdbMemoryService(path, **options) as memory,
        MemdbArtifactService(path, **options) as files,
    ):
        print("ready", flush=True)
        sys.stdin.readline()
        own = await sessions.create_session(**who, session_id=f"own-{name}")
        for n in range(writes // 3):
            event = Event(
                author="user", id=f"{name}-{n}", message=f"{name} says {n}",
                actions=EventActions(state_delta={f"{name}-{n}": n, f"app:{name}": n}),
            )
            while True:  # one session of all: whoever was overtaken reads it again
                shared = await sessions.get_session(**who, session_id="s")
                try:
                    await sessions.append_event(shared, event)
                    break
                except StaleSessionError:
                    stale += 1
            part = types.Part(text=f"{name} {n}")
            await files.save_artifact(**who, session_id="s", filename="f", artifact=part)
            await memory.add_events_to_memory(**who, events=[event], session_id="s")
    print("stale", stale)

asyncio.run(main())
"""

OPENER = """
import asyncio, sys
from memdb.integrations.adk import MemdbSessionService

print("ready", flush=True)
sys.stdin.readline()

async def main():
    async with MemdbSessionService(sys.argv[1]) as sessions:
        await sessions.create_session(app_name="desk", user_id="ann", session_id=sys.argv[2])

asyncio.run(main())
"""

AGENT = """
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

class Script(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        said = f"{len(llm_request.contents)}: {llm_request.contents[-1].parts[0].text}"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))

root_agent = Agent(name="guide", model=Script(model="script"))
"""


def release(children):
    """Let children that are ready begin together, and return what they print."""
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    said = []
    for child in children:
        out, err = child.communicate(timeout=300)
        assert child.returncode == 0, err
        said.append(out)
    return said


def test_eight_processes_lose_nothing(tmp_path, start_child):
    """50 events of each in one session, 50 versions of one artifact, 50 memories: all are there."""
    path = tmp_path / "agent.db"

    async def begin():
        async with MemdbSessionService(path, **FAST) as sessions:
            await sessions.create_session(**S)

    async def end():
        async with (
            MemdbSessionService(path, **FAST) as sessions,
            MemdbArtifactService(path, **FAST) as files,
        ):
            session = await sessions.get_session(**S)
            return session, await files.list_versions(**S, filename="f")

    asyncio.run(begin())
    release([start_child(WRITER, path, f"p{n}", WRITES) for n in range(PROCESSES)])
    session, versions = asyncio.run(end())

    expected = {f"p{p} says {n}" for p in range(PROCESSES) for n in range(WRITES // 3)}
    assert sorted(texts(session.events)) == sorted(expected)
    assert versions == [*range(len(expected))]
    own = {key: value for key, value in session.state.items() if ":" not in key}
    assert own == {f"p{p}-{n}": n for p in range(PROCESSES) for n in range(WRITES // 3)}
    assert [session.state[f"app:p{p}"] for p in range(PROCESSES)] == [49] * PROCESSES
    with memdb.open(path) as db:
        assert db.scope("ann", "desk (memory)").session("s").last_seq == len(expected)
        assert db.file.check(deep=True) == []


def test_twelve_openers_of_a_new_file(tmp_path, start_child):
    """All of them make it, or find it made, without an error."""
    path = tmp_path / "agent.db"

    release([start_child(OPENER, path, f"s{n}") for n in range(12)])

    with memdb.open(path) as db:
        assert len(db.scope("ann", "desk").sessions()) == 12
        assert db.file.check(deep=True) == []


@pytest.fixture
def agents(tmp_path):
    """Return a folder with one agent, and `services.yaml` where either program looks for it."""
    folder = tmp_path / "agents" / "guide"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text(AGENT)
    for place in (folder, folder.parent):
        (place / "services.yaml").write_text(YAML)
    return folder.parent


URIS = [f"--{kind}_service_uri=memdb:///agent.db" for kind in ("session", "artifact", "memory")]
ADK = [str(Path(sys.executable).with_name("adk"))]


def test_adk_run_keeps_its_session_in_the_file(agents, tmp_path):
    """What was said on its command line is a conversation of memdb."""
    subprocess.run(
        [*ADK, "run", *URIS, str(agents / "guide")],
        cwd=tmp_path,
        input="hello\nagain\nexit\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    with memdb.open(tmp_path / "agent.db") as db:
        (scope,) = db.scopes()
        (info,) = scope.sessions()
        told = [message.text for message in scope.session(info.name).messages()]
    assert told == ["hello", "1: hello", "again", "3: again"]


def test_adk_server_serves_a_session_of_the_file(agents, tmp_path):
    """Created, run, listed and deleted over HTTP, as `adk web` does it."""
    port = free_port()
    server = subprocess.Popen(
        [*ADK, "api_server", f"--port={port}", *URIS, str(agents)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root = f"http://127.0.0.1:{port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(root + path, data, headers, method=method)
        return json.load(opener.open(request, timeout=60))

    try:
        for _ in range(240):
            try:
                assert ask("GET", "/list-apps") == ["guide"]
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.25)
        place = "/apps/guide/users/ann/sessions"
        made = ask("POST", f"{place}/s", {"user:city": "Oslo"})
        said = {"role": "user", "parts": [{"text": "hi"}]}
        who = {"appName": "guide", "userId": "ann", "sessionId": "s"}
        answer = ask("POST", "/run", {**who, "newMessage": said})
        kept = ask("GET", f"{place}/s")
        listed = [one["id"] for one in ask("GET", place)]
        ask("DELETE", f"{place}/s")
        left = ask("GET", place)
    finally:
        server.terminate()
        server.wait(30)

    assert made["id"] == "s"
    assert answer[0]["content"]["parts"][0]["text"] == "1: hi"
    assert [one["content"]["parts"][0]["text"] for one in kept["events"]] == ["hi", "1: hi"]
    assert (listed, left) == (["s"], [])
    with memdb.open(tmp_path / "agent.db") as db:
        assert db.file.check(deep=True) == []
