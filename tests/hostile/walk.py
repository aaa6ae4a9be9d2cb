"""
Call every public reading call, and some writing ones, on each file of the hostile corpus.

    python tests/hostile/walk.py FOLDER

A process per file, with limits: prints a line of JSON per file with the seconds of the
slowest call, the largest memory in MB, and every exception that is no MemDBError.
"""

from __future__ import annotations

import functools
import io
import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memdb
from memdb.adapters.host import Host
from memdb.engine.sqlite import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

MAX_SECONDS = 30
MAX_BYTES = 2 << 30


def _ann(db: MemDB) -> Any:
    return db.scope("ann")


def _trip(db: MemDB) -> Any:
    return db.scope("ann").session("trip")


CALLS: dict[str, Callable[[MemDB], object]] = {
    "scopes": lambda db: db.scopes(),
    "info": lambda db: db.file.info(),
    "check": lambda db: db.file.check(),
    "check deep": lambda db: db.file.check(deep=True),
    "settings": lambda db: db.settings.get(),
    "pending": lambda db: db.jobs.pending,
    "sessions": lambda db: _ann(db).sessions(),
    "recall": lambda db: _ann(db).recall("tea", limit=50),
    "recall by words": lambda db: _ann(db).recall("tea", limit=50, by="words"),
    "why": lambda db: _ann(db).why("tea", "trip", 1),
    "profile": lambda db: _ann(db).profile(500),
    "secrets": lambda db: list(_ann(db).find_secrets()),
    "entries": lambda db: list(_ann(db).entries.list(inactive=True)),
    "entry": lambda db: _ann(db).entries.find("drink"),
    "history": lambda db: [
        (_ann(db).entries.history(one.id), _ann(db).entries.replaced(one.id))
        for one in _ann(db).entries.list()
    ],
    "artifacts": lambda db: _ann(db).artifacts.list(),
    "load": lambda db: _ann(db).artifacts.load("soup.txt"),
    "stream": lambda db: _read_all(_ann(db).artifacts.open("soup.txt")),
    "versions": lambda db: _ann(db).artifacts.versions("soup.txt"),
    "state": lambda db: _ann(db).state.all(),
    "head": lambda db: _trip(db).head(),
    "last": lambda db: _trip(db).last(50),
    "messages": lambda db: list(_trip(db).messages()),
    "archived": lambda db: list(_ann(db).session("old").messages()),
    "get": lambda db: _trip(db).get(1),
    "find": lambda db: _trip(db).find("m1"),
    "context": lambda db: _trip(db).context(500, "tea"),
    "window": lambda db: Host(_trip(db)).window(last=5),
    "tree": lambda db: _trip(db).summaries.tree(),
    "export": lambda db: sum(1 for _ in db.export_lines()),
    "append": lambda db: _trip(db).append("user", "one more tea"),
    "remember": lambda db: _ann(db).remember("Ann has a blue cup."),
    "set state": lambda db: _ann(db).state.update(mood="better"),
    "save": lambda db: _ann(db).artifacts.save("soup.txt", "more soup"),
    "jobs": lambda db: db.jobs.run(),
    "forget": lambda db: _trip(db).forget([2]),
    "rebuild": lambda db: db.file.rebuild(),
    "vacuum": lambda db: db.file.vacuum(),
}


def _read_all(stream: io.BufferedReader) -> int:
    size = 0
    while part := stream.read(1 << 16):
        size += len(part)
    return size


def walk(path: str) -> dict[str, Any]:
    """Return what each call on the file raised, its slowest call and the memory it took."""
    foreign: dict[str, str] = {}
    refused: dict[str, str] = {}
    slowest = (0.0, "")

    def tried(name: str, call: Callable[[], Any]) -> Any:
        nonlocal slowest
        started = time.process_time()
        try:
            return call()
        except memdb.MemDBError as error:
            refused[name] = type(error).__name__
        except BaseException as error:  # noqa: BLE001 (each is judged)
            foreign[name] = f"{type(error).__name__}: {error}"[:200]
        finally:
            slowest = max(slowest, (time.process_time() - started, name))
        return None

    db = tried("open", lambda: memdb.open(path, embedder=None, counter="estimate"))
    if db is not None:
        for name, call in CALLS.items():
            tried(name, lambda call=call: call(db))
        tried("close", db.close)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"foreign": foreign, "refused": refused, "slowest": slowest, "peak_mb": peak_mb}


def walk_apart(path: Path) -> dict[str, Any]:
    """Run `walk` in a process of its own with limits; "killed" tells the signal."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # of CPU: the machine may be busy
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        os.write(writer, json.dumps(walk(str(path))).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    found: dict[str, Any] = (
        json.loads(answer) if answer else {"killed": os.waitstatus_to_exitcode(status)}
    )
    return {"kind": path.stem, **found}


def warm(folder: Path) -> None:
    """Load every module that a walk needs, and normalise schema.sql, so that no process does."""
    schema.normalized = functools.cache(schema.normalized)
    walk(str(shutil.copy(folder / "sound.db", folder / "warm.copy")))


def main() -> None:
    """Walk every file of a folder."""
    warm(Path(sys.argv[1]))
    for path in sorted(Path(sys.argv[1]).glob("*.db")):
        sys.stdout.write(json.dumps(walk_apart(path)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
