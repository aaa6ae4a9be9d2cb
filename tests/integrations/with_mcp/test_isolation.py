"""Users apart through every tool and resource of the MCP server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from isolated import QUERIES, names_of_others
from mcp import Client
from tenants import SECRETS as S
from tenants import assert_apart

import memdb.aio
from memdb.api.threads import Threads
from memdb.integrations.mcp import make_server

if TYPE_CHECKING:
    from tenants import Files

    from memdb import MemDB


def call_tools(files: Files, tools: dict[str, list[dict[str, Any]]]) -> None:
    """Call each tool of an MCP server with each of its arguments, and read its resources."""
    uris = [
        *("memdb://sessions/trip", f"memdb://sessions/{S['session']}"),
        *("memdb://sessions/trip/artifacts/menu.md", f"memdb://artifacts/{S['artifact']}"),
        f"memdb://sessions/{S['session']}/artifacts/{S['artifact']}",
        f"memdb://artifacts/user%3A{S['artifact_user']}",
    ]

    async def talk(db: MemDB) -> list[tuple[str, str]]:
        worker = Threads(db.path)
        server = make_server(memdb.aio.MemDB(db, worker), user="ann")
        found = []
        async with Client(server) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == tools.keys()
            for name, calls in tools.items():
                for given in calls:
                    answer = await client.call_tool(name, given)
                    found.append((f"{name} {given}", repr(answer)))
            for uri in uris:
                try:
                    found.append((uri, repr(await client.read_resource(uri))))
                except Exception as error:  # noqa: BLE001 (each is reported)
                    found.append((uri, repr(error)))
            found.append(("templates", repr(await client.list_resource_templates())))
            found.append(("resources", repr(await client.list_resources())))
        worker.shutdown(wait=True)
        return found

    both = [asyncio.run(talk(db)) for db in files.opened]
    for (given, alone), (_, beside) in zip(*both, strict=True):
        assert_apart(files, given, (alone, beside))


def test_every_tool_of_mcp_keeps_users_apart(files: Files) -> None:
    """And the resources."""
    names = names_of_others(files.beside)
    call_tools(
        files,
        {
            "remember": [{"text": "Ann likes tea."}, {"text": "Mine.", "key": S["entry_key"]}],
            "recall": [{"query": query} for query in (*QUERIES, S["artifact_text"])],
            "context": [{"session": "long", "query": "tea"}, {"session": S["archived_session"]}],
            "expand": [
                {"session": "long", "id": "1-5"},
                {"session": "long", "id": names.summary},
                {"session": S["summarised_session"], "id": names.summary},
            ],
            "forget": [
                {"query": "message", "dry_run": True},
                {"entry": names.entry},
                {"session": S["archived_session"]},
                {"query": S["text"]},
            ],
            "artifact_save": [
                {"name": "user:a.md", "text": "mine"},
                {"name": S["artifact"], "text": f"{S['artifact_text']} soup", "session": "trip"},
            ],
            "artifact_load": [
                {"name": "menu.md", "session": "trip"},
                {"name": f"user:{S['artifact_user']}"},
                {"name": S["artifact_deleted"], "session": S["session"]},
            ],
            "list": [
                *({"kind": kind} for kind in ("sessions", "entries", "artifacts")),
                {"kind": "artifacts", "session": S["session"]},
            ],
            "chat_append": [
                {"session": "trip", "role": "user", "text": "x"},
                {
                    "session": S["session"],
                    "role": "user",
                    "text": "mine",
                    "external_id": f"{S['external_id']}-0",
                },
            ],
        },
    )
