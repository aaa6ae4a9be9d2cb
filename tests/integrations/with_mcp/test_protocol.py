"""Our own protocol over stdio beside the mcp package's: the same requests, the same answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client
from with_mcp.test_faults import ENVIRONMENT
from with_mcp.test_server import answer, stdio
from with_mcp.test_subscriptions import PLAN, TIMEOUT_S

import memdb
from memdb.adapters.schemas import TYPES, check_value
from memdb.errors import InvalidInput
from memdb.integrations.mcp.door import PARAMS
from memdb.integrations.mcp.tools import TOOLS

OURS = [sys.executable, "-m", "memdb", "mcp", "--user", "ann"]
THEIRS = [sys.executable, str(Path(__file__).with_name("oracle.py"))]
RESERVED = "io.modelcontextprotocol/"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
ENVELOPE = {
    f"{RESERVED}protocolVersion": "2026-07-28",
    f"{RESERVED}clientInfo": {"name": "t", "version": "1"},
    f"{RESERVED}clientCapabilities": {},
}
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("ping", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": None}),
    ("tools/list", {"cursor": 5}),
    ("tools/call", {"name": "recall", "arguments": {"query": "tea"}}),
    ("tools/call", {"name": "list", "arguments": {"kind": "sessions"}}),
    ("tools/call", {"name": "list"}),
    ("tools/call", {"name": "list", "arguments": None}),
    ("tools/call", {"name": "list", "arguments": []}),
    ("tools/call", {"name": 5}),
    ("tools/call", {}),
    ("resources/list", {}),
    ("resources/list", {"cursor": "zz"}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "memdb://sessions/trip"}),
    ("resources/read", {"uri": "memdb://artifacts/user%3Araw"}),
    ("resources/read", {"uri": "memdb://sessions/none"}),
    ("resources/read", {}),
    ("resources/subscribe", {"uri": PLAN}),
    ("resources/unsubscribe", {"uri": PLAN}),
    ("resources/subscribe", {}),
    ("server/discover", {}),
    ("prompts/list", {}),
    ("logging/setLevel", {"level": "info"}),
    ("no/such", {}),
]


def filled(path: str) -> str:
    """Make a file with something to ask for, and return its path."""
    with memdb.open(path, durability="process") as db:
        ann = db.scope("ann")
        ann.session("trip").append("user", "We drink tea in Oslo.")
        ann.artifacts.save("user:raw", b"\xff")
        ann.artifacts.save("user:plan.md", "soup")
    return path


def answers(server: list[str], path: str, requests: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return by id what a server answers to requests, which are sent one by one."""
    found = {}
    with subprocess.Popen(
        [*server, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for one in requests:
            child.stdin.write(json.dumps({"jsonrpc": "2.0", **one}) + "\n")
            child.stdin.flush()
            if "id" in one:
                got = json.loads(child.stdout.readline())
                found[got.pop("id")] = got
        child.stdin.close()
    assert child.returncode == 0
    return found


def comparable(one: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the words of its error, and without what says nothing."""
    if "error" in one:
        return {"error": one["error"]["code"]}
    result = one["result"]
    result.get("capabilities", {}).pop("experimental", None)
    return result


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "1999-01-01"])
def test_a_client_with_a_handshake_gets_what_the_package_answers(path: str, version: str) -> None:
    """Every method, right and wrong; an older version may be told more than it asks for."""
    filled(path)
    requests = [
        {"id": 0, "method": "initialize", "params": {**HELLO, "protocolVersion": version}},
        {"method": "notifications/initialized"},
        *({"id": n, "method": m, "params": p} for n, (m, p) in enumerate(METHODS, 1)),
    ]
    ours, theirs = answers(OURS, path, requests), answers(THEIRS, path, requests)

    assert ours.keys() == theirs.keys()
    wrong = []
    for number, got in ours.items():
        mine, other = comparable(got), comparable(theirs[number])
        if version == "2025-11-25" or "error" in mine:
            wrong += [] if mine == other else [(METHODS[number - 1], mine, other)]
        else:
            wrong += [] if other.keys() <= mine.keys() else [(METHODS[number - 1], mine, other)]
    assert wrong == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, None),
        ({f"{RESERVED}protocolVersion": "2031-01-01"}, -32022),
        ({f"{RESERVED}protocolVersion": 5}, -32602),
        ({f"{RESERVED}clientCapabilities": ...}, -32602),
    ],
    ids=["right", "other version", "no version", "no capabilities"],
)
def test_a_client_without_one_gets_what_the_package_answers(
    path: str, change: dict[str, Any], code: int | None
) -> None:
    """Every method; an envelope that is wrong is refused with the same code."""
    filled(path)
    meta = {name: value for name, value in {**ENVELOPE, **change}.items() if value is not ...}
    requests = [
        {"id": n, "method": m, "params": {**p, "_meta": meta}}
        for n, (m, p) in enumerate([*METHODS, ("subscriptions/listen", {})], 1)
    ]
    ours, theirs = answers(OURS, path, requests), answers(THEIRS, path, requests)

    found = {number: comparable(one) for number, one in ours.items()}
    assert found == {number: comparable(one) for number, one in theirs.items()}
    if code is not None:
        assert {one["error"] for one in found.values()} == {code}


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
@pytest.mark.filterwarnings("ignore:.*removed as of 2026-07-28")
def test_the_package_s_client_talks_to_our_server(path: str, mode: str) -> None:
    """In each form of the protocol, also to hear of changes."""
    filled(path)

    async def talk() -> tuple[list[str], set[str], str]:
        heard = []
        async with asyncio.timeout(TIMEOUT_S * 5), Client(stdio(path), mode=mode) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            read = (await client.read_resource("memdb://artifacts/user%3Aplan.md")).contents[0]
            if mode != "legacy":
                async with client.listen(
                    resource_subscriptions=[PLAN], resources_list_changed=True
                ) as stream:
                    await answer(client, "artifact_save", name="user:plan.md", text="Rome")
                    await answer(client, "artifact_save", name="user:a.txt", text="a")
                    async for event in stream:
                        heard.append(type(event).__name__)
                        if len(heard) == 2:
                            break
            return heard, tools, read.text

    heard, tools, text = asyncio.run(talk())

    assert tools == {tool.name for tool in TOOLS}
    assert text == "soup"
    assert heard == ([] if mode == "legacy" else ["ResourceUpdated", "ResourcesListChanged"])


def test_no_package_is_needed(path: str) -> None:
    """Over stdio a client is answered where mcp, pydantic and jsonschema are not installed."""
    program = """
import sys
for name in ("mcp", "mcp_types", "pydantic", "jsonschema", "anyio"):
    sys.modules[name] = None
sys.argv = ["memdb", "mcp", "--user", "ann", sys.argv[1]]
from memdb.cli import main
main()
"""
    call = {"name": "recall", "arguments": {"query": "tea"}}
    requests = [
        {"id": 0, "method": "initialize", "params": HELLO},
        {"id": 1, "method": "tools/call", "params": call},
    ]

    found = answers([sys.executable, "-c", program], filled(path), requests)

    assert found[1]["result"]["structuredContent"]["hits"][0]["text"] == "We drink tea in Oslo."


SCHEMAS = [
    *(tool.arguments for tool in TOOLS),
    *PARAMS.values(),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 21)
    | st.sampled_from([0.5, 5.0, -1.0, 1e300])
    | st.sampled_from(["", "x", "entries", "message", "user"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


def keywords(schema: Any) -> set[str]:
    """Return the keywords of a schema and of its parts."""
    if not isinstance(schema, dict):
        return set()
    inner = [*schema.get("properties", {}).values(), schema.get("items")]
    return {*schema}.union(*map(keywords, inner))


def test_the_schemas_say_only_what_is_checked() -> None:
    """A keyword that nobody reads would be a promise."""
    known = {"type", "enum", "minimum", "maximum", "items", "properties", "required"}
    known |= {"additionalProperties", "description", "default"}

    assert set().union(*map(keywords, SCHEMAS)) <= known
    types = [one["type"] for schema in SCHEMAS for one in schema["properties"].values()]
    assert {kind for one in types for kind in ([one] if isinstance(one, str) else one)} <= {*TYPES}


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda one: "+".join(one["properties"])[:40])
@given(data=st.data())
def test_arguments_are_judged_as_by_json_schema(schema: dict[str, Any], data: Any) -> None:
    """The same values are refused as by the package that knows all of the standard."""
    names = st.sampled_from([*schema["properties"], "other"])
    value = data.draw(VALUES | st.dictionaries(names, VALUES, max_size=4))

    try:
        taken = check_value(value, schema, "arguments")
    except InvalidInput:
        assert not Draft202012Validator(schema).is_valid(value)
    else:
        assert Draft202012Validator(schema).is_valid(value)
        assert taken == value
