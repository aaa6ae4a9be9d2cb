"""`memdb web` as a process: the link, Enter, the port, the token, how it ends."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import webbrowser
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child_processes import free_port

import memdb
from memdb.cli.serve import _open_browser

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("starlette", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

ROOT = Path(memdb.__file__).parents[1]
WAIT_S = 60


class Running:
    """A `memdb web` with its lines of output as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Read the output of *process* in a thread."""
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip())
        self.lines.put("")

    def line(self, word: str) -> str:
        """Return the next line with a word in it."""
        while True:
            found = self.lines.get(timeout=WAIT_S)
            assert found, "it ended"
            if word in found:
                return found


@contextmanager
def web(*args: object) -> Iterator[Running]:
    """Run `memdb web` for a `with` block."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "memdb", "web", *map(str, args), "--no-browser"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return a file with a message."""
    path = str(tmp_path / "agent.db")
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("trip").append("user", "We fly to Oslo.")
    return path


def status_of(address: str, token: str) -> int:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_life(file: str, tmp_path: Path) -> None:
    """Link, Enter, programs, a second start on the port, and Ctrl-C."""
    port, token = free_port(), tmp_path / "token.txt"
    with web(file, "--port", port, "--token-file", token) as running:
        link = running.line("#k=")
        assert link.startswith(f"http://127.0.0.1:{port}/f/")
        assert running.process.stdin is not None
        running.process.stdin.write("\n")
        running.process.stdin.flush()
        assert running.line("#k=") != link

        if os.name == "posix":
            assert token.stat().st_mode & 0o777 == 0o600
        address = f"http://127.0.0.1:{port}/api/v1/scopes"
        assert status_of(address, token.read_text().strip()) == 200
        assert status_of(address, "x" * 40) == 401

        with web(file, "--port", port) as again:
            assert "agent.db is already served at" in again.line("Error")
            assert again.process.wait(WAIT_S) == 5
        other = str(tmp_path / "other.db")
        with memdb.open(other, embedder=None, counter="estimate") as db:
            db.scope("bob").remember("Bob skis.")
        with web(other, "--port", port) as second:
            assert "serves agent.db" in second.line("Port")
            assert f":{port}/" not in second.line("#k=")

        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(WAIT_S) == 130


def test_a_first_run_makes_the_file(tmp_path: Path) -> None:
    """Without a file the page opens on an empty one; for reading only, nothing is made."""
    path, none = tmp_path / "agent.db", tmp_path / "none.db"
    with web(path, "--port", free_port()) as running:
        assert running.line("#k=")
    with memdb.open(str(path), mode="read") as db:
        assert db.scopes() == []

    with web(none, "--port", free_port(), "--read-only") as refused:
        assert "none.db does not exist" in refused.line("Error")
        assert refused.process.wait(WAIT_S) == 6
    assert not none.exists()


def test_a_copy_is_another_file(file: str, tmp_path: Path) -> None:
    """A copy has the uid of its original, and takes the next port; a link to the file does not."""
    copy, link, port = str(tmp_path / "copy.db"), tmp_path / "link.db", free_port()
    with memdb.open(file) as db:
        db.file.backup(copy)
    link.symlink_to(file)
    with web(file, "--port", port) as first:
        first.line("#k=")
        with web(link, "--port", port) as same:
            assert "agent.db is already served at" in same.line("Error")
            assert same.process.wait(WAIT_S) == 5
        with web(copy, "--port", port) as second:
            assert "serves agent.db" in second.line("Port")
            assert f":{port}/" not in second.line("#k=")


def test_a_port_of_another_program(file: str) -> None:
    """It says so, and takes the next."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.settimeout(WAIT_S)
        answering = threading.Thread(target=lambda: taken.accept()[0].close())
        answering.start()
        with web(file, "--port", port) as running:
            assert "another program" in running.line("Port")
            assert f"127.0.0.1:{port}/" not in running.line("#k=")
        answering.join(WAIT_S)


def test_read_only(file: str) -> None:
    """The link says so, and the file stays as it is."""
    before = Path(file).read_bytes()
    with web(file, "--port", 0, "--read-only") as running:
        assert "for reading only" in running.line("Serving")
        running.line("#k=")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(WAIT_S) == 128 + signal.SIGTERM

    assert Path(file).read_bytes() == before


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--host", "0.0.0.0"], "tunnel"),
        (["--token-file", "{folder}/short.txt"], "no token"),
        (["--token-file", "{folder}/open.txt"], "can be read by others"),
        (["--token-file", "{folder}/none/token.txt"], "No such file"),
    ],
)
def test_refusals(run, tmp_path: Path, args: list[str], word: str) -> None:
    """Before anything is served."""
    if word == "can be read by others" and os.name != "posix":
        pytest.skip("modes are those of POSIX")
    (tmp_path / "short.txt").write_text("abc\n")
    (tmp_path / "short.txt").chmod(0o600)
    (tmp_path / "open.txt").write_text("x" * 40)
    (tmp_path / "open.txt").chmod(0o644)
    path = tmp_path / "agent.db"
    run("remember", path, "Ann skis.", "--user", "ann")

    done = run("web", path, *(one.format(folder=tmp_path) for one in args))

    assert done.exit_code != 0
    assert word in done.stderr


@pytest.mark.parametrize(("kind", "opened"), [("graphical", True), ("console", False)])
def test_only_a_browser_of_its_own_window_is_opened(
    monkeypatch: pytest.MonkeyPatch, kind: str, opened: bool
) -> None:
    """One of the console would take the terminal that the server runs in."""
    links: list[str] = []
    browsers = {
        "graphical": webbrowser.BackgroundBrowser("firefox"),
        "console": webbrowser.GenericBrowser("w3m"),
    }
    for browser in browsers.values():
        monkeypatch.setattr(browser, "open", links.append)
    monkeypatch.setattr(webbrowser, "get", lambda: browsers[kind])
    _open_browser("http://127.0.0.1/")

    assert bool(links) == opened


def test_starting_memdb_loads_none_of_it() -> None:
    """Nor does the help of the program."""
    program = (
        "import sys, memdb, memdb.cli; from click.testing import CliRunner;"
        "CliRunner().invoke(memdb.cli.cli, ['--help']);"
        "print([one for one in sys.modules if one.startswith(('starlette', 'uvicorn', 'memdb.web'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.stdout.strip() == "[]"
