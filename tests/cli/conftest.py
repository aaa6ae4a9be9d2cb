"""
What the tests of the command line start from: a runner, a file with contents, a terminal.

Time and uids are those of the fixtures, so golden values are literal. The file
of a test is checked when it ends.
"""

from __future__ import annotations

import functools
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import memdb
from memdb.api._resolve import is_address
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

ROOT = Path(memdb.__file__).parents[1]
UNSET = dict.fromkeys(
    (
        "MEMDB_USER",
        "MEMDB_APP",
        "MEMDB_FILE",
        "MEMDB_EMBEDDER",
        "MEMDB_DEBUG",
        "NO_COLOR",
        "COLUMNS",
        "TERM",
        "PYTHONUNBUFFERED",
    )
)


@pytest.fixture
def over_engine() -> None:
    """Let paths be files with `--engine postgres` too: commands are given addresses."""


@pytest.fixture
def path(tmp_path: Path, databases: Any) -> str:
    """Return where a new database can be made: a path, or the address of an empty one."""
    place = str(tmp_path / "agent.db")
    return place if databases is None else databases.address_of(place)


@pytest.fixture
def frozen(
    monkeypatch: pytest.MonkeyPatch, clock: Any, ids: Any, copied_engine: type, databases: Any
) -> None:
    """Let every database that is opened use the clock and the uids of the fixtures."""
    monkeypatch.setattr("memdb.engine.sqlite.engine.SqliteEngine", copied_engine)
    opened = functools.partial(memdb.open, clock=clock, ids=ids, durability="process")
    monkeypatch.setattr(memdb, "open", opened)
    if databases is not None:
        ids(0)  # the uid of a new file


@pytest.fixture
def run(frozen: None, path: str) -> Iterator[Callable[..., Result]]:
    """Return a function that runs a command line; the file at `path` must be sound at the end."""
    runner = CliRunner(env=UNSET)

    def invoke(*args: object, **options: Any) -> Result:
        return runner.invoke(cli, [str(arg) for arg in args], prog_name="memdb", **options)

    yield invoke
    if is_address(path) or Path(path).exists():
        with memdb.open(path) as db:
            assert db.file.check(deep=True) == []


@pytest.fixture
def run_json(run: Callable[..., Result]) -> Callable[..., Any]:
    """Return a function that runs a command line with --json and reads what it prints."""

    def invoke(*args: object, **options: Any) -> Any:
        return json.loads(run(*args, "--json", **options).stdout)

    return invoke


@pytest.fixture
def trip(path: str, frozen: None) -> str:
    """Return the path of a file with a conversation, an entry and an artifact of ann."""
    with memdb.open(path) as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        chat.append("user", "We fly to Oslo on 3 May.", author="Ann", created=1_741_598_040_000)
        chat.append("assistant", "Noted: Oslo, 3 May.", external_id="m2")
        chat.append("user", "好的,我们住在奥斯陆的酒店。")
        home = ann.remember("Ann lives in Bergen.", category="profile", key="home_city").entry
        ann.entries.update(home.id, text="Ann lives in Oslo.", importance=8)
        chat.artifacts.save("menu.md", "soup")
        chat.artifacts.save("menu.md", "fish")
        ann.artifacts.save("photo.bin", b"\0\1\2")
    return path


@pytest.fixture
def crowd(path: str, frozen: None) -> str:
    """Return the path of a file with the memory of ann, bob and, in another app, ann again."""
    with memdb.open(path) as db:
        db.scope("ann").remember("Ann likes tea.")
        db.scope("bob").remember("Bob likes coffee.")
        db.scope("ann", "notes").remember("Ann notes something.")
    return path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the output be that of a terminal with 60 columns."""
    # Commands are imported at their first use: not while the function below is another one.
    import memdb.cli.artifact  # noqa: F401 (loads it once)

    monkeypatch.setattr("memdb.cli.output.on_terminal", lambda: True)
    monkeypatch.setitem(UNSET, "COLUMNS", "60")


class Child(subprocess.Popen[bytes]):
    """A process that a failing test does not wait for."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """End it where the test failed."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts the command line in a process of its own."""
    started: list[Child] = []
    environment = {key: value for key, value in os.environ.items() if key not in UNSET}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}

    def popen(*args: object, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "memdb", *map(str, args)]
        pipe = subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
        env = environment | options.pop("env", {})
        started.append(Child(command, env=env, **options))
        return started[-1]

    yield popen
    for child in started:
        if child.poll() is None:
            child.kill()
            child.wait(60)


@pytest.fixture
def in_terminal(start: Callable[..., Any]) -> Callable[..., tuple[int, str]]:
    """
    Return a function that runs the command line on a pseudo-terminal.

    It types *typed* when *prompt* is shown, and returns the exit code and all
    that was on the screen.
    """
    pty = pytest.importorskip("pty", reason="no pseudo-terminals here")

    def converse(
        *args: object, prompt: str = "", typed: str = "", env: dict[str, str] | None = None
    ) -> tuple[int, str]:
        parent, child = pty.openpty()
        process = start(
            *args, stdin=child, stdout=child, stderr=child, preexec_fn=_own_terminal, env=env or {}
        )
        os.close(child)
        said = b""
        while read := _read(parent):
            said += read
            if typed and prompt.encode() in said:
                os.write(parent, typed.encode())
                typed = ""
        os.close(parent)
        return process.wait(timeout=30), said.decode().replace("\r\n", "\n")

    return converse


def _own_terminal() -> None:
    """Make standard input the terminal that sends Ctrl-C, in the new process."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(terminal: int) -> bytes:
    """Return what is on the screen since the last call; b"" when the program has ended."""
    assert select.select([terminal], [], [], 100)[0], "the program neither writes nor ends"
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
