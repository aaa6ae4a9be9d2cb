"""The MCP server: the mcp package's own client, in this process and in others."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from child_processes import free_port
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

import memdb
import memdb.aio
from memdb.integrations.mcp import make_server

ROOT = Path(memdb.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
OFFICIAL = "@modelcontextprotocol/server-memory@2026.8.31"
TOKEN = "a-token-for-this-test-only"


def run(work: Any) -> Any:
    """Run a coroutine in an event loop of its own."""
    return asyncio.run(work)


def with_client(path: str, work: Any, **options: Any) -> Any:
    """Run *work* with a client of a server in this process."""

    async def talk():
        async with (
            await memdb.aio.open(path, durability="process") as db,
            Client(make_server(db, user="ann", **options)) as client,
        ):
            return await work(client)

    return run(talk())


def stdio(path: str, *options: str) -> StdioServerParameters:
    """Return how a client starts `memdb mcp` in a process of its own."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "memdb", "mcp", path, "--user", "ann", *options],
        env=ENVIRONMENT,
    )


async def answer(client: Client, name: str, /, **given: Any) -> Any:
    """Return the structured answer of a call that goes well."""
    result = await client.call_tool(name, given)
    assert not result.is_error, result.content[0].text
    return result.structured_content


def test_every_tool_answers_as_its_schema_says(path):
    """One conversation through all of them; the client checks each answer by its schema."""

    async def work(client):
        told = await answer(client, "remember", text="Ann is allergic to peanuts.", key="allergy")
        hits = await answer(client, "recall", query="what must Ann not eat?", limit=3)
        for n in range(45):
            role = "assistant" if n % 2 else "user"
            await answer(client, "chat_append", session="trip", role=role, text=f"message {n}")
        context = await answer(client, "context", session="trip", budget_tokens=400)
        page = await answer(client, "expand", session="trip", id="1-30")
        saved = await answer(client, "artifact_save", name="menu.md", text="soup", session="trip")
        raw = base64.b64encode(b"\xff\0").decode()
        await answer(client, "artifact_save", name="user:raw.bin", base64=raw)
        loaded = await answer(client, "artifact_load", name="menu.md", session="trip")
        bytes_ = await answer(client, "artifact_load", name="user:raw.bin")
        listed = await answer(client, "artifact_list")
        gone = await answer(client, "forget", entry=told["id"])
        left = await answer(client, "recall", query="peanuts")
        return told, hits, context, page, saved, loaded, bytes_, listed, gone, left

    told, hits, context, page, saved, loaded, bytes_, listed, gone, left = with_client(path, work)

    assert told["action"] == "added"
    assert hits["hits"][0]["text"] == "Ann is allergic to peanuts."
    assert hits["hits"][0]["source"]["entry_id"] == told["id"]
    newest = {"seq": 45, "role": "user", "text": "message 44", "trust": "trusted", "writer": ""}
    assert context["messages"][-1] == newest
    assert context["tokens"] <= 400
    assert page["summaries"] or page["messages"]
    assert (saved["version"], loaded["text"], "base64" in loaded) == (1, "soup", False)
    assert base64.b64decode(bytes_["base64"]) == b"\xff\0"
    assert {one["name"] for one in listed["artifacts"]} == {"menu.md", "user:raw.bin"}
    assert gone["removed"]["entries"] == 1
    assert left["hits"] == []
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []


def test_tools_tell_what_they_do(path):
    """Each has schemas, a description and hints; reading tools say that they change nothing."""

    async def work(client):
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in with_client(path, work, compat=True)}

    assert len(tools) == 18
    assert all(
        tool.description and tool.output_schema["type"] == "object" for tool in tools.values()
    )
    reading = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert reading == {
        "recall",
        "context",
        "expand",
        "artifact_load",
        "artifact_list",
        "read_graph",
        "search_nodes",
        "open_nodes",
    }
    removing = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    assert removing == {"forget", "delete_entities", "delete_observations", "delete_relations"}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("nonsense", {}),
        ("remember", {}),
        ("remember", {"text": 5}),
        ("remember", {"text": "x", "who": "bob"}),
        ("remember", {"text": ""}),
        ("recall", {"query": "x", "limit": 0}),
        ("context", {"session": "nowhere", "budget_tokens": 0}),
        ("expand", {"session": "nowhere", "id": "1-2"}),
        ("forget", {}),
        ("forget", {"entry": 1, "query": "x"}),
        ("forget", {"entry": 99}),
        ("artifact_save", {"name": "a"}),
        ("artifact_save", {"name": "a", "base64": "%%"}),
        ("artifact_save", {"name": "", "text": "x"}),
        ("artifact_save", {"name": "a\0b", "text": "x"}),
        ("artifact_load", {"name": "../../etc/passwd"}),
        ("chat_append", {"session": "s", "role": "robot", "text": "x"}),
        ("chat_append", {"session": " ", "role": "user", "text": "x"}),
    ],
)
def test_a_wrong_call_is_answered_and_writes_nothing(path, name, given):
    """The result is an error with a sentence; the next call works."""

    async def work(client):
        result = await client.call_tool(name, given)
        listed = await answer(client, "artifact_list")
        return result, listed["artifacts"]

    result, artifacts = with_client(path, work)

    assert result.is_error
    assert result.content[0].text
    assert artifacts == []
    with memdb.open(path) as db:
        assert db.scope("ann").sessions() == []


def test_sessions_and_artifacts_are_resources(path):
    """Listed in pages, read by their URIs, hostile names too; what is absent is an error."""
    name = "a/b ?#%.md"
    with memdb.open(path) as db:
        ann = db.scope("ann")
        for n in range(120):
            ann.session(f"s{n:03}").append("user", f"hello {n}")
        ann.session("s/1").append("user", "slash")
        ann.session("s/1").artifacts.save(name, "soup")
        ann.artifacts.save("user:raw", b"\xff")
        db.scope("bob").session("secret").append("user", "bob's")

    async def work(client):
        found, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            found += page.resources
            cursor = page.next_cursor
            if cursor is None:
                break
        read = {one.name: (await client.read_resource(one.uri)).contents[0] for one in found[-125:]}
        wrong = []
        for uri in (
            "memdb://sessions/secret",
            "memdb://x",
            "file:///etc/passwd",
            "memdb://artifacts/no",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
            wrong.append(uri)
        templates = (await client.list_resource_templates()).resource_templates
        return found, read, len(wrong), len(templates)

    found, read, wrong, templates = with_client(path, work)

    assert (len(found), wrong, templates) == (123, 4, 3)
    written = {"role": "user", "trust": "trusted", "writer": ""}
    assert json.loads(read["s/1"].text) == {"seq": 1, "text": "slash", **written}
    assert read[name].text == "soup"
    assert base64.b64decode(read["user:raw"].blob) == b"\xff"


def test_a_client_talks_to_the_command_over_stdio(path):
    """Another process, started as a desktop program starts it."""

    async def talk():
        async with Client(stdio(path)) as client:
            await answer(client, "chat_append", session="trip", role="user", text="We fly to Oslo.")
            hits = await answer(client, "recall", query="Oslo")
            wrong = await client.call_tool("remember", {"text": None})
            return hits["hits"][0]["text"], wrong.is_error

    assert run(talk()) == ("We fly to Oslo.", True)
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []


@pytest.mark.parametrize(
    ("options", "spaces"),
    [([], {"letters"}), (["--embedder", "static"], {"letters", "static-en-1"})],
)
def test_the_server_leaves_a_file_to_the_embedder_of_its_program(path, options, spaces):
    """Vectors of another model are made only when the command names it."""

    class Letters:
        name = "letters"
        dim = 2

        def embed(self, texts):
            return [[1.0, float(len(text))] for text in texts]

    with memdb.open(path, embedder=Letters()) as db:
        db.scope("ann").session("trip").append("user", "We fly to Oslo.")

    async def talk():
        async with Client(stdio(path, *options)) as client:
            return await answer(client, "recall", query="Oslo")

    assert [hit["text"] for hit in run(talk())["hits"]] == ["We fly to Oslo."]
    with memdb.open(path, embedder=None) as db:
        assert {space.model for space in db.file.spaces()} == spaces


def test_garbage_on_stdin_does_not_stop_the_server(path):
    """Broken lines, wrong messages and unknown methods: the next request is answered."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = [
        json.dumps(hello),
        json.dumps(ready),
        "{nonsense",
        "[]",
        '{"jsonrpc": "2.0", "id": 7}',
        '{"jsonrpc": "2.0", "id": 8, "method": "no/such"}',
        '{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": 5}}',
        '{"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": {"name": "recall"}}',
        json.dumps({"jsonrpc": "2.0", "id": 11, "method": "ping"}),
    ]
    server = subprocess.Popen(
        [sys.executable, "-m", "memdb", "mcp", path, "--user", "ann"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        for line in lines:
            server.stdin.write(line + "\n")
            server.stdin.flush()
        for line in server.stdout:
            if json.loads(line).get("id") == 11:
                break
        else:
            pytest.fail(server.stderr.read())
        server.communicate(timeout=60)  # closes its stdin: the client has gone
        assert server.returncode == 0
    finally:
        server.kill()
        server.wait()


def test_http_serves_who_knows_the_token(path):
    """Loopback only, 401 without the token, the same tools with it."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    port = free_port()
    options = ["--user", "ann", "--http", str(port), "--token-env", "T"]
    server = subprocess.Popen(
        [sys.executable, "-m", "memdb", "mcp", path, *options],
        env={**ENVIRONMENT, "T": TOKEN},
        stderr=subprocess.PIPE,
    )
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        for _ in range(1000):
            with socket.socket() as one:
                if server.poll() is not None or one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)

        async def talk():
            async with httpx2.AsyncClient(trust_env=False) as http:
                refused = [
                    (await http.post(url, json={}, headers=headers)).status_code
                    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN})
                ]
                garbage = await http.post(
                    url, content=b"{", headers={"Authorization": f"Bearer {TOKEN}"}
                )
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with (
                httpx2.AsyncClient(trust_env=False, headers=headers) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                await answer(client, "remember", text="Ann lives in Oslo.")
                found = await answer(client, "recall", query="Oslo")
            return refused, garbage.status_code, found["hits"][0]["text"]

        refused, garbage, found = run(talk())
    finally:
        server.terminate()
        server.communicate(timeout=60)

    assert refused == [401, 401, 401]
    assert 400 <= garbage < 500
    assert found == "Ann lives in Oslo."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Say whose memory it is"),
        (["--user", "ann", "--http", "8765"], "--http and --token-env go together"),
        (["--user", "ann", "--token-env", "T"], "--http and --token-env go together"),
        (["--user", "ann", "--http", "8765", "--token-env", "NO_SUCH"], "holds no token"),
    ],
)
def test_the_command_refuses_what_cannot_be_served(path, options, said):
    """Usage errors of exit code 2, before a file is made."""
    environment = {**ENVIRONMENT}
    environment.pop("MEMDB_USER", None)
    ran = subprocess.run(
        [sys.executable, "-m", "memdb", "mcp", path, *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

    assert ran.returncode == 2
    assert said in ran.stderr
    assert not Path(path).exists()


def test_without_the_package_the_error_names_the_extra(path):
    """Exit code 5 and what to install."""
    program = f"""
import sys
sys.modules["mcp"] = None
sys.argv = ["memdb", "mcp", {path!r}, "--user", "ann"]
from memdb.cli import main
main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 5
    assert "pip install 'memdb-sqlite[mcp]'" in ran.stderr


NAMES = ["Ann", "ann", "Bob", "Oslo", "É", "a b", ""]
TYPES = ["person", "Place", ""]
FACTS = ["likes tea", "Likes TEA", "lives in Oslo", "x", "", "naïve", "line\nbreak"]
VERBS = ["knows", "lives in"]


def random_call(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a call of one of the nine tools, often about the same few things."""
    pick = chance.choice

    def some(things: list[str], most: int = 3) -> list[str]:
        return [pick(things) for _ in range(chance.randint(0, most))]

    def relation() -> dict[str, str]:
        return {"from": pick(NAMES), "to": pick(NAMES), "relationType": pick(VERBS)}

    def entity() -> dict[str, Any]:
        return {"name": pick(NAMES), "entityType": pick(TYPES), "observations": some(FACTS)}

    count = range(chance.randint(0, 3))
    return pick(
        [
            ("create_entities", {"entities": [entity() for _ in count]}),
            ("create_entities", {"entities": [entity() for _ in count]}),
            ("create_relations", {"relations": [relation() for _ in count]}),
            (
                "add_observations",
                {
                    "observations": [
                        {"entityName": pick(NAMES), "contents": some(FACTS)} for _ in count
                    ]
                },
            ),
            ("delete_entities", {"entityNames": some(NAMES, 1)}),
            (
                "delete_observations",
                {
                    "deletions": [
                        {"entityName": pick(NAMES), "observations": some(FACTS)} for _ in count
                    ]
                },
            ),
            ("delete_relations", {"relations": [relation() for _ in count]}),
            ("read_graph", {}),
            ("search_nodes", {"query": pick([*NAMES, *FACTS, "TEA", "perso"])}),
            ("open_nodes", {"names": some(NAMES)}),
        ]
    )


def shown(result: Any) -> Any:
    """Return what a client sees of a result."""
    return result.is_error or False, result.content[0].text, result.structured_content


def test_the_graph_is_kept_in_one_shared_artifact(path):
    """What was made through the compat tools is recalled, and what is deleted is gone."""

    async def work(client):
        entity = {"name": "Ann", "entityType": "person", "observations": ["plays the bassoon"]}
        await answer(client, "create_entities", entities=[entity])
        hits = await answer(client, "recall", query="bassoon")
        resource = (await client.read_resource("memory://knowledge-graph")).contents[0].text
        missing = await client.call_tool(
            "add_observations",
            {
                "observations": [
                    {"entityName": "Ann", "contents": ["half"]},
                    {"entityName": "Nobody", "contents": ["x"]},
                ]
            },
        )
        whole = await answer(client, "read_graph")
        await answer(client, "delete_entities", entityNames=["Ann"])
        left = await answer(client, "recall", query="bassoon")
        return hits, json.loads(resource), missing, whole, left

    hits, resource, missing, whole, left = with_client(path, work, compat=True)

    assert hits["hits"][0]["kind"] == "artifact"
    assert resource == whole
    assert (missing.is_error, missing.content[0].text) == (
        True,
        "Entity with name Nobody not found",
    )
    assert whole["entities"][0]["observations"] == ["plays the bassoon"]
    assert left["hits"] == []


def official(folder: Path) -> StdioServerParameters:
    """Return how a client starts the official server, installed by npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not there to install the official server")
    install = ["npm", "install", "--silent", "--prefix", str(folder), OFFICIAL]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip("the official server cannot be installed: is there a network?")
    program = folder / "node_modules" / "@modelcontextprotocol" / "server-memory" / "dist"
    return StdioServerParameters(
        command="node",
        args=[str(program / "index.js")],
        env={**os.environ, "MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
    )


@pytest.mark.slow
def test_the_nine_tools_answer_as_the_official_server(path, tmp_path):
    """300 random calls: the same answers, texts and errors, and at last the same lines."""
    reference = official(tmp_path)
    chance = random.Random(7)  # the seed names the calls
    calls = [random_call(chance) for _ in range(300)]

    async def talk():
        async with (
            Client(stdio(path, "--compat"), mode="legacy") as ours,  # as the official one speaks
            Client(reference) as theirs,
        ):
            tools = {tool.name: tool for tool in (await theirs.list_tools()).tools}
            mine = {tool.name: tool for tool in (await ours.list_tools()).tools}
            for name, given in calls:
                found = shown(await ours.call_tool(name, given))
                expected = shown(await theirs.call_tool(name, given))
                assert found == expected, (name, given)
            resource = [
                one for one in (await ours.list_resources()).resources if "memory:" in one.uri
            ]
            assert resource == (await theirs.list_resources()).resources
            return tools, mine

    tools, mine = run(talk())

    with memdb.open(path) as db:
        kept = db.scope("ann").artifacts.load("user:knowledge-graph.jsonl").text
        assert db.file.check(deep=True) == []
    assert kept == (tmp_path / "memory.jsonl").read_text()
    assert {name: mine[name] for name in tools} == tools


@pytest.mark.slow
def test_two_servers_on_one_file_keep_every_write(path):
    """200 entities by two processes at once: the official server loses some, memdb none."""

    async def write(number):
        async with Client(stdio(path, "--compat")) as client:
            for n in range(100):
                entity = {"name": f"{number}-{n}", "entityType": "t", "observations": []}
                await answer(client, "create_entities", entities=[entity])

    async def both():
        await asyncio.gather(write(1), write(2))
        async with Client(stdio(path, "--compat")) as client:
            return (await answer(client, "read_graph"))["entities"]

    assert len({one["name"] for one in run(both())}) == 200


WRITE = """
import asyncio, sys
import memdb.aio
from mcp import Client
from memdb.integrations.mcp import make_server
async def main(path, number, count):
    async with memdb.aio.open(path, durability="process") as db:
        async with Client(make_server(db, user="ann")) as client:
            for n in range(count):
                given = {"session": "trip", "role": "user", "text": f"{number}-{n}"}
                result = await client.call_tool("chat_append", given)
                assert not result.is_error, result.content[0].text
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "count"), [(8, 150), (12, 1)], ids=["8x150", "12 openers"])
def test_many_processes_lose_no_write(start_child, path, processes, count):
    """0 lost, 0 errors, on a new file."""
    children = [start_child(WRITE, path, number, count) for number in range(processes)]
    for child in children:
        out, err = child.communicate(timeout=400)
        assert (out, err) == ("done\n", "")

    with memdb.open(path) as db:
        found = sorted(message.text for message in db.scope("ann").session("trip").messages())
        assert db.file.check() == []
    assert found == sorted(f"{a}-{b}" for a in range(processes) for b in range(count))
