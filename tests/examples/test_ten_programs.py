"""
Ten programs that people write first, each beside what it takes with the best rival.

The lengths of the rivals' programs are those of the comparison of which these are the ten: lines
that are not blank, imports included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Lines more than the rival's that a program may have.
MORE = 2

# Stands for a provider's client; the programs call it as they would OpenAI's.
MODEL = """
from types import SimpleNamespace

def create(model, messages):
    said = [one["content"] for one in messages if one["role"] == "user"][-1]
    return {"choices": [{"message": {"role": "assistant", "content": f"You said: {said}"}}]}

client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
"""

# Name: the rival, its lines, the program, what it prints.
PROGRAMS: dict[str, tuple[str, int, str, str]] = {
    "a chat with memory": (
        "mem0",
        13,
        """
import memdb
from model import client
with memdb.open("agent.db") as db:
    chat = db.user("ann").session("trip")
    for text in ("I live in Oslo.", "Where do I live?"):
        chat.append("user", text)
        window = chat.context(4000, query=text)
        answer = client.chat.completions.create(model="gpt-5", **window.to("openai"))
        print(chat.append(answer).text)
        chat.extract()
    print(db.user("ann").entries.list()[0].text)
""",
        "You said: I live in Oslo.\nYou said: Where do I live?\nI live in Oslo.\n",
    ),
    "questions about notes": (
        "sqlite-utils",
        6,
        """
import memdb
with memdb.open("notes.db") as db:
    db.import_file("notes", user="ann")
    for hit in db.user("ann").recall("when does the aircraft depart?"):
        print(hit.source, hit.text)
""",
        "The aircraft departs at dawn from Gardermoen.\n",
    ),
    "preferences of a user": (
        "the store of LangGraph",
        6,
        """
import memdb
with memdb.open("app.db") as db:
    preferences = db.user("ann").state
    preferences["theme"] = "dark"
    preferences.update(language="no", size=12)
    print(preferences["theme"], preferences.get("font"), len(preferences))
""",
        "dark None 3\n",
    ),
    "a log of tool calls": (
        "sqlite-utils",
        6,
        """
from collections import Counter
import memdb
with memdb.open("log.db") as db:
    log = db.user("ann").session("run-1")
    log.append("assistant", parts=[{"type": "tool_call", "id": "1", "name": "weather"}])
    log.append("tool", parts=[{"type": "tool_result", "id": "1", "content": "rain"}])
    parts = [part for message in log.messages() for part in message.parts or []]
    print(Counter(part["name"] for part in parts if part["type"] == "tool_call"))
""",
        "Counter({'weather': 1})\n",
    ),
    "versions of a file": (
        "the artifacts of ADK",
        10,
        """
import memdb
with memdb.open("files.db") as db:
    files = db.user("ann").session("trip").artifacts
    first = files.save("plan.md", "Day 1: Oslo\\n")
    files.save("plan.md", "Day 1: Bergen\\n", expected=first)
    try:
        files.save("plan.md", "Day 1: Paris\\n", expected=first)
    except memdb.VersionConflict as error:
        print(error)
    print(files.load("plan.md", 1).text, end="")
    print([one.version for one in files.versions("plan.md")])
""",
        "artifact 'plan.md' is at version 2, not at 1: read what was changed and try again\nDay 1: Oslo\n[2, 1]\n",
    ),
    "an import of ChatGPT": (
        "basic-memory",
        3,
        """
memdb import g.db chatgpt.zip
memdb chat list g.db
memdb recall g.db "when do we fly to Oslo?"
""",
        "When do we fly to Oslo?",
    ),
    "a worker beside other processes": (
        "huey",
        5,
        """
import memdb
with memdb.open("shared.db") as db:
    worker = db.jobs.start()
    db.user("ann").session("trip").append("user", "I live in Oslo.")
    worker.stop()
    print(worker.error)
""",
        "None\n",
    ),
    "a fixture for tests": (
        "InMemoryStore",
        7,
        """
import memdb, pytest
@pytest.fixture
def ann():
    with memdb.open(":memory:", clock=lambda: 1_700_000_000_000) as db:
        yield db.user("ann")
def test_it(ann):
    ann.remember("Ann likes tea.")
    assert [hit.text for hit in ann.recall("tea")] == ["Ann likes tea."]
""",
        "1 passed",
    ),
    "a server with an event loop": (
        "AsyncSqliteStore",
        12,
        """
import asyncio
import memdb.aio
async def turn(db, user, text):
    chat = db.user(user).session("main")
    await chat.append("user", text)
    return await chat.context(2000, query=text)
async def main():
    async with memdb.aio.open("agent.db") as db:
        worker = await db.jobs.start()
        windows = await asyncio.gather(*(turn(db, one, "I like tea.") for one in ("ann", "bob")))
        await worker.stop()
        print([window.messages[-1].text for window in windows])
asyncio.run(main())
""",
        "['I like tea.', 'I like tea.']\n",
    ),
    "coming from mem0": (
        "none has it",
        1,
        """
memdb import m.db mem0.json
memdb entry list m.db
""",
        "Likes tea",
    ),
}
SAID = [
    {"id": "a", "children": ["b"], "role": "user", "text": "When do we fly to Oslo?"},
    {"id": "b", "parent": "a", "children": [], "role": "assistant", "text": "On 3 May."},
]


def make_files(folder: Path) -> None:
    """Make what the programs read: a model, notes, and the exports of two others."""
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "long.md").write_text("The aircraft departs at dawn from Gardermoen.")
    mapping = {
        one["id"]: {
            "id": one["id"],
            "parent": one.get("parent"),
            "children": one["children"],
            "message": {
                "id": one["id"],
                "author": {"role": one["role"]},
                "create_time": 1_700_000_000,
                "content": {"content_type": "text", "parts": [one["text"]]},
            },
        }
        for one in SAID
    }
    chat = {"title": "Oslo", "conversation_id": "c1", "current_node": "b", "mapping": mapping}
    with zipfile.ZipFile(folder / "chatgpt.zip", "w") as file:
        file.writestr("conversations.json", json.dumps([chat | {"create_time": 1_700_000_000}]))
    memory = {"id": "1", "memory": "Likes tea", "user_id": "ann"}
    (folder / "mem0.json").write_text(json.dumps({"results": [memory]}), encoding="utf-8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_as_short_as_the_rival_s_and_runs(tmp_path: Path, name: str) -> None:
    """Each in a process of its own, with what its reader would type and nothing else."""
    rival, length, text, printed = PROGRAMS[name]
    lines = [line for line in text.splitlines() if line.strip()]
    make_files(tmp_path)
    command = [sys.executable, "program.py"]
    if text.startswith("\nmemdb "):
        text, command = (
            f'memdb() {{ {sys.executable} -m memdb "$@"; }}\n{text}',
            ["sh", "program.py"],
        )
    elif "pytest" in text:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "program.py"]
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    env = {**os.environ, "HOME": str(tmp_path)}
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert printed in ran.stdout
    assert len(lines) <= length + MORE, f"{rival} needs {length} lines"
