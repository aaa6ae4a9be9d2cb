"""Each example that needs no framework does what its first lines say; those of clients have theirs."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import memdb

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OF_CLIENTS = ROOT / "tests" / "integrations"


def run(name, *arguments, folder):
    """Return what an example prints."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_every_example_has_a_test():
    """Here, or beside the tests of its client."""
    tests = [Path(__file__), *OF_CLIENTS.rglob("test_*.py")]
    text = "".join(test.read_text(encoding="utf-8") for test in tests)

    assert [
        example.name
        for example in EXAMPLES.iterdir()
        if example.suffix in (".py", ".sh") and example.name not in text
    ] == []


def test_the_agent_uses_its_tools_and_remembers(tmp_path):
    """Two tools, an answer, and the fact in the next process."""
    first = run("agent.py", folder=tmp_path).splitlines()
    run("agent.py", folder=tmp_path)

    assert first == ["Take a rain coat (Oslo: rain, 9 degrees).", "['Ann likes trains.']"]
    with memdb.open(tmp_path / "agent.db") as db:
        roles = [message.role for message in db.scope("ann").session("trip").messages()]
        assert roles[:7] == "system user assistant tool assistant tool assistant".split()
        assert len(list(db.scope("ann").entries.list())) == 1


def test_the_agent_is_as_long_as_the_tutorial_says():
    """About sixty lines without its stand-in for a model."""
    code = (EXAMPLES / "agent.py").read_text().split("def scripted")[0]
    lines = [line for line in code.splitlines() if line.strip()]

    assert len(lines) <= 60


def test_the_device_answers_from_its_readings(tmp_path):
    """Warm readings by their value, the newest fact, the one before it, and a copy."""
    printed = run("edge_device.py", "house.db", folder=tmp_path)

    assert printed.splitlines() == [
        "25 warm readings",
        "The living room is below 26.0 degrees. ['The living room is above 26.0 degrees.']",
    ]
    with memdb.open(tmp_path / "house.backup.db", mode="read") as db:
        assert db.file.check() == []


def test_a_project_gets_a_memory_for_claude_code(tmp_path):
    """The server and the hooks are in the project's settings, and can be taken out again."""
    home = tmp_path / "home"
    project = home / "project"
    project.mkdir(parents=True)
    command = f'#!/bin/sh\nexec "{sys.executable}" -m memdb "$@"\n'
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "memdb").write_text(command)
    (tmp_path / "bin" / "memdb").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    ran = subprocess.run(
        ["sh", str(EXAMPLES / "claude_code.sh"), str(project), str(home / "agent.db")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    settings = json.loads((project / ".claude" / "settings.json").read_text())
    assert {"SessionStart", "Stop"} <= settings["hooks"].keys()
    assert str(home / "agent.db") in (project / ".mcp.json").read_text()
    subprocess.run(
        ["memdb", "agent", "install", "claude-code", "--project", "--uninstall"],
        cwd=project,
        env=environment,
        check=True,
        capture_output=True,
    )
    assert [path.name for path in project.rglob("*") if path.is_file()] == []


@pytest.fixture
def chat_server(tmp_path):
    """Return the address of the chat program, in a process of its own."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "chat_server.py"), "chat.db", "--port", "0"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if found := re.search(r"running on (http://\S+)", line):
            break
    yield found[1]
    process.terminate()
    process.communicate(timeout=60)


def say(address, user, text):
    """Return the status and the text of an answer of the chat program."""
    body = json.dumps({"user": user, "text": text}).encode()
    request = urllib.request.Request(f"{address}/say", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)["text"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["text"]


def test_the_chat_program_remembers_each_person_apart(chat_server, tmp_path):
    """Ann is answered from what she said, Bo is not; what cannot be stored is refused."""
    with urllib.request.urlopen(chat_server, timeout=30) as page:
        assert b"<form" in page.read()
    assert say(chat_server, "ann", "My bicycle is red.") == (200, "I will remember that.")
    assert say(chat_server, "ann", "Which colour has my bicycle?") == (
        200,
        "I remember: My bicycle is red.",
    )
    assert say(chat_server, "bo", "Which colour has my bicycle?") == (200, "I will remember that.")
    assert say(chat_server, "", "hello")[0] == 422
    assert say(chat_server, "ann", 5)[0] == 422
    with memdb.open(tmp_path / "chat.db", mode="read") as db:
        assert db.scope("ann").session("web").last_seq == 4
