"""One file for all: what google-adk's Runner writes, every other way in reads, at the same time."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import memdb

pytest.importorskip("google.adk")
pytest.importorskip("agents")
pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters

ROOT = Path(memdb.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
APP, USER = "travel", "ann"
SCOPE = ("--user", USER, "--app", APP)

# Says with each line that it is ready, and goes on when it is told to: so four
# processes have the file open while each of them works.
READ_AS_OPENAI_SESSION = """
import asyncio, json, sys
from memdb.integrations.openai_agents import MemDBSession

async def main(path):
    print("ready", flush=True)
    name = sys.stdin.readline().strip()
    async with MemDBSession(name, path, user="ann", app="travel") as session:
        print(json.dumps(await session.get_items()), flush=True)
        sys.stdin.readline()

asyncio.run(main(sys.argv[1]))
"""


def spawn(*arguments: str) -> subprocess.Popen[str]:
    """Start a Python process with pipes."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


async def ask_over_mcp(path: str) -> tuple[str, str]:
    """Return what recall finds first, and the artifact, from a server in another process."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memdb", "mcp", path, *SCOPE],
        env=ENVIRONMENT,
    )
    async with Client(server) as client:
        found = await client.call_tool("recall", {"query": "no peanuts in Oslo", "limit": 1})
        loaded = await client.call_tool("artifact_load", {"name": "user:plan.txt"})
    assert not found.is_error
    assert not loaded.is_error
    return found.structured_content["hits"][0]["text"], loaded.structured_content["text"]


@pytest.mark.slow
def test_what_adk_writes_everybody_reads(tmp_path):
    """Runner, OpenAI session, command line and MCP: four processes on one file."""
    path = str(tmp_path / "agent.db")
    reader = spawn("-c", READ_AS_OPENAI_SESSION, path)
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    talk = spawn(str(ROOT / "examples" / "adk_agent.py"), path)
    said, _ = talk.communicate(timeout=120)
    assert talk.returncode == 0
    with memdb.open(path) as db:
        (info,) = db.scope(USER, APP).sessions()

        reader.stdin.write(f"{info.name}\n")
        reader.stdin.flush()
        items = json.loads(reader.stdout.readline())
        shown = subprocess.run(
            [sys.executable, "-m", "memdb", "chat", "show", path, info.name, *SCOPE, "--json"],
            capture_output=True,
            text=True,
            check=True,
            env=ENVIRONMENT,
        )
        hit, plan = asyncio.run(ask_over_mcp(path))
        reader.communicate("done\n", timeout=60)

        assert db.file.check(deep=True) == []
    texts = [message["text"] for message in json.loads(shown.stdout)]
    assert reader.returncode == 0
    assert said.startswith("Plan saved, trip 1.")
    assert (texts[0], texts[-1]) == ("Oslo, and no peanuts!", said.splitlines()[0])
    assert len(texts) == info.message_count == 4
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        *["function_call"] * 2,
        *["function_call_output"] * 2,
        "assistant",
    ]
    assert (items[0]["content"], items[-1]["content"]) == (texts[0], texts[-1])
    assert hit == "Oslo, and no peanuts!"
    assert plan == "Trip 1: Oslo\n- passport\n- rain coat\n"
