"""`memdb sync --watch` goes on with what changes, and while its folder or server is away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from service_site import running
from simulator import canonical

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT_S = 60


class Watch:
    """A process that watches, and the lines that it wrote."""

    def __init__(self, path: Path, folder: object) -> None:
        """Start it."""
        line = ("-m", "memdb", "sync", path, folder, "--watch", "--interval", "0.1", "--json")
        self.process = subprocess.Popen(
            [sys.executable, *map(str, line)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.notes: list[str] = []
        self.reports: list[dict[str, Any]] = []
        readers = (
            Thread(target=lambda: self.notes.extend(self.process.stderr or ())),
            Thread(target=lambda: self.reports.extend(map(json.loads, self.process.stdout or ()))),
        )
        for reader in readers:
            reader.start()
        self.readers = readers

    def end(self) -> int:
        """End it as Ctrl-C does, and return its exit code."""
        self.process.send_signal(signal.SIGINT)  # a second one would end it while it ends
        code = self.process.wait(WAIT_S)
        for reader in self.readers:
            reader.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@pytest.fixture
def watch() -> Iterator[Callable[[Path, object], Watch]]:
    """Return a function that starts a watch, which ends with the test."""
    started: list[Watch] = []

    def start(path: Path, folder: object) -> Watch:
        started.append(Watch(path, folder))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.end()


def wait_for(is_so: Callable[[], object]) -> None:
    """Wait until something is so, a minute at most."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("place", ["folder", "server"])
def test_a_watch_goes_on(
    tmp_path: Path,
    watch: Callable[[Path, object], Watch],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    """What others write comes, what the file gets goes; meanwhile the folder was away."""
    meeting, away = tmp_path / "meeting", tmp_path / "away"
    meeting.mkdir()
    with memdb.open(tmp_path / "a.db", embedder=None) as a, memdb.open(":memory:") as host:
        server = running(host, tmp_path / "t.json", meeting_place=str(meeting))
        with server as found:
            monkeypatch.setenv("MEMDB_SYNC_TOKEN", found.client(None).token)
            folder = meeting if place == "folder" else f"http://127.0.0.1:{found.port}"
            key = a.sync(folder).key
            with memdb.open(tmp_path / "b.db", embedder=None) as b:
                b.sync(folder, pairing_key=key)
                one = watch(tmp_path / "b.db", folder)
                wait_for(lambda: one.reports)
                a.user("ann").session("s").append("user", "from the first")
                a.sync(folder)
                wait_for(lambda: "from the first" in str(canonical(b)))
                if place == "folder":
                    meeting.rename(away)
                b.user("ann").session("s").append("user", "while it was away")
                if place == "folder":
                    wait_for(lambda: one.notes)
                    away.rename(meeting)
                wait_for(lambda: a.sync(folder) and "it was away" in str(canonical(a)))
                b.user("ann").session("s").append("user", "and afterwards")
                wait_for(lambda: a.sync(folder) and "and afterwards" in str(canonical(a)))
                assert canonical(a) == canonical(b)
    if place == "server":
        wait_for(lambda: any("cannot be reached" in note for note in one.notes))
    assert one.end() == 0


@pytest.mark.parametrize("is_paired", [False, True])
def test_a_watch_begins_while_its_folder_is_away(
    tmp_path: Path, watch: Callable[[Path, object], Watch], is_paired: bool
) -> None:
    """It names the folder once, and syncs when that is there."""
    meeting, away = tmp_path / "meeting", tmp_path / "away"
    meeting.mkdir()
    with memdb.open(tmp_path / "a.db", embedder=None) as a:
        a.user("ann").session("s").append("user", "before it was away")
        if is_paired:
            a.sync(meeting)
    meeting.rename(away)
    one = watch(tmp_path / "a.db", meeting)
    wait_for(lambda: one.notes)
    assert one.process.poll() is None
    away.rename(meeting)
    wait_for(lambda: [*meeting.rglob("*.gz")])
    assert one.end() == 0
    assert [note for note in one.notes if "is not a folder" in note] == one.notes[:1]
