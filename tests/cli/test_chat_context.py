"""`memdb chat context`: what a model is given of a conversation."""

from __future__ import annotations

import json

import pytest

import memdb
from memdb.cli.output import width_of


@pytest.fixture
def long(path, frozen):
    """Return the path of a file with a conversation of 60 messages, tools and Chinese in it."""
    call = {"type": "tool_call", "id": "c1", "name": "book", "arguments": '{"city": "Oslo"}'}
    result = {"type": "tool_result", "tool_call_id": "c1", "content": "booked: Hotel Fjord"}
    with memdb.open(path) as db:
        chat = db.scope("ann").session("long")
        chat.append("system", "You plan journeys.")
        for number in range(1, 29):
            chat.append("user", f"Day {number}: we walk to the harbour, 我们去奥斯陆看海。")
            chat.append("assistant", f"Noted day {number}, the harbour and the sea.")
        chat.append("assistant", parts=[call])
        chat.append("tool", parts=[result])
        chat.append("user", "Thank you, good night.")
    return path


def test_context_golden(run_json, long):
    """--json has the messages and what each token is spent on."""
    told = run_json("chat", "context", long, "long", "--budget", 600, "--query", "harbour")

    assert sorted(told) == ["budget_tokens", "messages", "pieces", "tokens"]
    assert told["budget_tokens"] == 600
    assert told["tokens"] == sum(piece["tokens"] for piece in told["pieces"]) <= 600
    assert told["messages"][-1]["text"] == "Thank you, good night."
    assert {"system", "recalled", "message"} <= {piece["kind"] for piece in told["pieces"]}


def test_context_piped(run, run_json, long):
    """Each piece is a line with kind, span, tokens, share and reason; a note adds them up."""
    told = run_json("chat", "context", long, "long", "--budget", 600)
    done = run("chat", "context", long, "long", "--budget", 600)
    lines = done.stdout.splitlines()

    assert lines[0].split(maxsplit=4)[:3] == ["system", "1", str(told["pieces"][0]["tokens"])]
    assert lines[-1].split()[:2] == ["message", "60"]
    assert lines[-1].endswith("the newest message")
    assert f"{told['tokens']} of 600 tokens" in done.stderr


def test_messages_of_one_reason_are_one_line(run, long):
    """The fresh tail takes one line, with the span that it covers."""
    lines = run("chat", "context", long, "long", "--budget", 600).stdout.splitlines()

    (tail,) = [line for line in lines if "fresh tail, word for word" in line]
    assert tail.split()[1].endswith("-59")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_table_fits_the_terminal(run, long, terminal, columns):
    """No line is wider than the terminal, and tokens and reasons are always there."""
    done = run(
        *("chat", "context", long, "long", "--budget", 600, "--query", "海"),
        env={"COLUMNS": str(columns)},
    )
    lines = done.stdout.splitlines()

    assert max(map(width_of, lines)) <= columns
    assert lines[0].split() == ["KIND", "SPAN", "TOKENS", "SHARE", "WHY"]


@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        ("openai", ["messages"]),
        ("anthropic", ["messages", "system"]),
        ("gemini", ["contents", "system_instruction"]),
    ],
)
def test_shape_prints_exactly_what_to_send(run, long, shape, keys):
    """The JSON is that of the library's `to`, nothing around it."""
    done = run("chat", "context", long, "long", "--budget", 600, "--shape", shape)
    with memdb.open(long) as db:
        found = db.scope("ann").session("long").context(600)

    assert sorted(json.loads(done.stdout)) == keys
    assert json.loads(done.stdout) == found.to(shape)
    assert done.stderr == ""


def test_shape_plain_can_be_read(run, long):
    """Plain text shows each message, tool calls and results too."""
    said = run("chat", "context", long, "long", "--budget", 600, "--shape", "plain").stdout

    assert said.startswith("#1  2023-11-14 22:13  system\nYou plan journeys.\n\n")
    assert '\nbook({"city": "Oslo"})\n' in said
    assert "\nbooked: Hotel Fjord\n" in said


def test_shape_and_json_exclude_each_other(run, long):
    """Both are JSON of different kinds, so asking for both is a usage error."""
    done = run("chat", "context", long, "long", "--budget", 9, "--json", "--shape", "openai")

    assert done.exit_code == 2
    assert "cannot be used together" in done.stdout  # asked for as JSON


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("long", "--budget", 3), 5),
        (("long", "--budget", 0), 5),
        (("long", "--budget", -5), 5),
        (("long", "--budget", "many"), 2),
        (("tripp", "--budget", 100), 3),
        (("long\x00", "--budget", 100), 5),
        (("", "--budget", 100), 5),
    ],
    ids=str,
)
def test_context_refuses(run, long, words, exit_code):
    """A budget that holds nothing, and a session that is not there, end with their codes."""
    done = run("chat", "context", long, *words)

    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert "Error: " in done.stderr
    assert "This is a bug" not in done.stderr


def test_query_operators_are_words(run, long):
    """What looks like a query language is searched for as it is."""
    query = '" OR * NEAR( -harbour'
    done = run("chat", "context", long, "long", "--budget", 600, "--query", query)

    assert (done.exit_code, done.exception) == (0, None)
