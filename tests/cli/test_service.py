"""`memdb work`: doing what is due, once or from now on."""

from __future__ import annotations

import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from child_processes import end_by_signals

import memdb
from memdb.web.tokens import add_grant

KEY = "sk-test-0123456789abcdef"


def say(path, count, session="long"):
    """Let ann have a conversation of so many messages."""
    with memdb.open(
        path, durability="process", counter="estimate", settings={"extract": False}
    ) as db:
        db.scope("ann").session(session).extend(
            {"role": "user", "text": f"Plan {n}: we take the ferry to Oslo and see the museum."}
            for n in range(count)
        )


def qualities(path):
    """Return who wrote the summaries of the conversation."""
    with memdb.open(path) as db:
        return [
            summary.quality
            for summary in db.scope("ann").session("long").summaries.tree().summaries
        ]


class Server:
    """A model server on 127.0.0.1: answers each request, when it is let to."""

    def __init__(self):
        """Listen on a free port."""
        self.asked = []
        self.let_go = threading.Event()
        self.let_go.set()
        self.status = 200
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.asked.append((self.headers["Authorization"], body))
                owner.let_go.wait(60)
                self.send_response(owner.status)
                kind = "text/event-stream" if owner.status == 200 else "application/json"
                self.send_header("Content-Type", kind)
                self.end_headers()
                if owner.status != 200:
                    self.wfile.write(b'{"error": {"message": "no such key sk-test-0123456789"}}')
                    return
                for delta, finish in (({"content": "By the model."}, None), ({}, "stop")):
                    choice = {"index": 0, "delta": delta, "finish_reason": finish}
                    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1}
                    line = json.dumps({**chunk, "model": "m", "choices": [choice]})
                    self.wfile.write(f"data: {line}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, *_args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.model = f"openai:m@http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        """Let what hangs go on, and stop."""
        self.let_go.set()
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch):
    """Return a model server that is reached without any proxy, with a key in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    served = Server()
    yield served
    served.close()


def test_work_does_what_is_due(run, run_json, path):
    """All is embedded and summarised; a second run finds nothing."""
    say(path, 100)
    done = run("work", path)
    again = run_json("work", path)

    assert (done.exit_code, done.stdout, done.stderr) == (0, "112 done, nothing is left.\n", "")
    assert again == {"status": "done", "done": 0, "pending": 0}


def test_work_stops_at_the_limit(run_json, path):
    """--limit does a part, and what is left stays due."""
    say(path, 100)
    told = run_json("work", path, "--limit", 30)

    assert (told["done"], told["pending"]) == (30, 2)


def test_work_shows_how_far_it_is(in_terminal, path, server):
    """On a terminal one line tells how much is done and what a model is asked for, and goes."""
    say(path, 100)
    code, said = in_terminal("work", path, "--model", server.model, env={"COLUMNS": "60"})
    shown = [part for part in map(str.strip, said.split("\r")) if part]

    assert code == 0
    assert {"Working 100 done", "Working 100 done: Summarising long 1-10"} <= {*shown}
    assert [part for part in shown[:-1] if not part.startswith("Working 1")] == []
    assert shown[-1] == "112 done, nothing is left."


def test_work_with_a_model(run, path, server):
    """--model writes the summaries; the key comes from the environment and is never shown."""
    say(path, 25)
    done = run("work", path, "--model", server.model)

    assert (done.exit_code, done.stdout) == (0, "27 done, nothing is left.\n")
    assert qualities(path) == ["model", "model"]
    assert server.asked[0][0] == f"Bearer {KEY}"
    assert KEY not in done.output


def test_a_model_that_refuses(run, path, server):
    """All else is done, extracts stand in, and the error exits 8 without the key."""
    say(path, 25)
    server.status = 401
    done = run("work", path, "--model", server.model)
    told = run("work", path, "--model", server.model, "--json")

    assert (done.exit_code, done.stdout) == (8, "")
    assert done.stderr.startswith("27 done, 2 jobs left.\nError: ")
    assert json.loads(told.stdout)["error"]["code"] == "port"
    assert KEY not in done.output + told.output
    assert qualities(path) == ["fallback", "fallback"]


def test_upgrade_by_compact(run, run_json, path, server):
    """With --upgrade, compact lets the model write anew what it did not write."""
    say(path, 25)
    run("work", path)
    told = run_json("chat", "compact", path, "long", "--upgrade", "--model", server.model)
    done = run("chat", "compact", path, "long", "--upgrade", "--model", server.model)

    assert told["upgraded"] == 2
    assert "0 improved" in done.stdout
    assert qualities(path) == ["model", "model"]


@pytest.mark.parametrize(
    "words",
    [("--watch", "--limit", 3), ("--interval", 3), ("--watch", "--interval", 0), ("--limit", 0)],
    ids=str,
)
def test_work_refuses(run, path, words):
    """Options that do not go together are usage errors."""
    say(path, 1)

    assert run("work", path, *words).exit_code == 2


def read(process):
    """Return the next line of a process as JSON."""
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_watch_ends_cleanly(start, run, path, number, code):
    """It does what comes due while it runs; a signal ends it between two pieces."""
    say(path, 30)
    with start("work", path, "--watch", "--json", "--interval", 0.05) as process:
        first = read(process)
        say(path, 50, "other")
        later = read(process)
        while later["pending"]:
            later = read(process)
        process.send_signal(number)
        last = read(process)
        said = process.stderr.read()

    assert (process.returncode, said) == (code, b"")
    assert first["status"] == later["status"] == "active"
    assert last == {"status": "stopped", "done": 88, "pending": 0}
    assert run("check", path, "--deep").exit_code == 0


def test_ctrl_c_on_a_terminal(in_terminal, run_json, path):
    """A real Ctrl-C on a real terminal ends it with a sentence and without a traceback."""
    say(path, 30)
    code, said = in_terminal("work", path, "--watch", prompt="33 done", typed="\x03")

    assert code == 130
    assert said.endswith("Stopped. 33 done, nothing is left.\n")
    assert "Traceback" not in said


def wait_for_request(server, process):
    """Return when the model's server is asked; fail if the process ends before."""
    while not server.asked:
        assert process.poll() is None, process.stderr.read()
        threading.Event().wait(0.01)


def test_a_log_of_watch(start, path):
    """Without a terminal and --json there is a line for what was done."""
    say(path, 30)
    with start("work", path, "--watch", "--interval", 0.05) as process:
        line = process.stdout.readline().decode()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()

    assert line.split(" done, ")[0].isdecimal()
    assert said.startswith("Stopped. ")


def test_ctrl_c_waits_for_the_summary_in_progress(start, path, server):
    """The answer that is under way is stored, and nothing else is begun."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals here")
    say(path, 45)
    server.let_go.clear()
    env = {"NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": KEY}
    words = ("work", path, "--watch", "--json", "--model", server.model)
    reading, terminal = pty.openpty()  # where it tells that it has been asked to stop
    with start(*words, env=env, stderr=terminal) as process:
        os.close(terminal)
        wait_for_request(server, process)
        process.send_signal(signal.SIGINT)
        said = b""
        while b"Stopping" not in said:
            said += os.read(reading, 1000)
        server.let_go.set()
        lines = process.stdout.read().splitlines()

    assert process.returncode == 130
    assert json.loads(lines[-1])["status"] == "stopped"
    assert (len(server.asked), qualities(path)) == (1, ["model"])
    with memdb.open(path) as db:
        assert db.jobs.run() == 3  # the lease was given back
        assert db.file.check(deep=True) == []


def test_ctrl_c_twice_ends_at_once(start, path, server):
    """The second one does not wait for a model; what is not stored stays due."""
    say(path, 45)
    server.let_go.clear()
    env = {"NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": KEY}
    with start("work", path, "--watch", "--model", server.model, env=env) as process:
        wait_for_request(server, process)
        assert end_by_signals(process, signal.SIGINT) == 130

    with memdb.open(path) as db:
        assert db.jobs.pending() == 1
        assert db.file.check(deep=True) == []


# Runs a command that gets a signal in a finalizer, when it has opened its file.
DROPPED = """
import signal, sys
import memdb
from memdb.cli import main

class Dropped:
    def __del__(self):
        signal.raise_signal(int(number))

def opening(*args, **options):
    db = opened(*args, **options)
    Dropped()
    return db

opened, memdb.open = memdb.open, opening
number, *sys.argv[1:] = sys.argv[1:]
main()
"""


@pytest.mark.parametrize(
    ("number", "words", "package"),
    [
        (signal.SIGINT, "web {file} --port 0 --no-browser", "starlette"),
        (signal.SIGTERM, "serve {file} --tokens {folder}/tokens.json --port 0", "starlette"),
        (signal.SIGTERM, "mcp {file} --user ann", "mcp"),
    ],
)
def test_a_signal_is_not_lost(start_child, path, tmp_path, number, words, package):
    """Python goes on after an exception in a finalizer, and so would a server."""
    pytest.importorskip(package)
    say(path, 1)
    add_grant(tmp_path / "tokens.json", None, None, 0)
    words = words.format(file=path, folder=tmp_path).split()
    child = start_child(DROPPED, int(number), *words)

    assert child.wait(60) == 128 + number, child.stderr.read()


def test_two_at_once_do_nothing_twice(start, path):
    """Two processes share the work: together they do each piece once."""
    say(path, 600)
    both = [start("work", path, "--json") for _ in range(2)]
    told = [json.loads(process.communicate()[0]) for process in both]
    with memdb.open(path) as db:
        rest = db.jobs.run()
        info = db.file.info()

    assert [process.returncode for process in both] == [0, 0]
    assert info.spaces[0].vectors == 600
    assert sum(one["done"] for one in told) + rest == 600 + info.counts["summaries"]


def test_a_failing_model_is_told_once(start, path, server):
    """While it watches, a failure is a line, and tried again later."""
    say(path, 25)
    server.status = 401
    env = {"NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": KEY}
    words = ("work", path, "--watch", "--json", "--interval", 0.05, "--model", server.model)
    with start(*words, env=env) as process:
        told = read(process)
        while told["status"] != "failed":
            told = read(process)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert (told["code"], process.returncode) == ("port", 130)
    assert KEY not in json.dumps(told) + rest.decode()
