"""Which SQLite libraries the processes below another one have loaded while a file is open."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Self

INTERVAL_S = 0.002


class SqliteWatch:
    """
    Looks into a process and all below it again and again, while it is entered.

    Attributes:
        libraries: By process, the libraries that were loaded while it had the file open.
        both: What was seen of processes with both.
    """

    def __init__(self, pid: int, path: Path) -> None:
        """Watch a process for the file at *path*, and its WAL."""
        self.libraries: dict[int, set[str]] = {}
        self.both: list[str] = []
        self._pid = pid
        self._path = os.path.realpath(path)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._over = threading.Event()

    def _watch(self) -> None:
        while not self._over.is_set():
            for pid in _family(self._pid):
                self._look_into(pid)
            time.sleep(INTERVAL_S)

    def _look_into(self, pid: int) -> None:
        try:
            links = [os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()]
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:  # it has ended
            return
        if not any(link.startswith(self._path) for link in links):
            return
        names = {line.rsplit("/", 1)[-1] for line in maps.splitlines() if "/" in line}
        found = {
            library
            for library, start in (("apsw", "__init__"), ("sqlite3", "_sqlite3"))
            if any(name.startswith(start) and name.endswith(".so") for name in names)
            and (library != "apsw" or "/apsw/" in maps)
        }
        self.libraries.setdefault(pid, set()).update(found)
        if len(found) > 1:
            self.both.append(f"process {pid}: {Path(f'/proc/{pid}/cmdline').read_text()}")

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._over.set()
        self._thread.join()


def _family(pid: int) -> list[int]:
    """Return a process and all below it."""
    found, new = [pid], [pid]
    while new:
        below = []
        for one in new:
            try:
                for task in Path(f"/proc/{one}/task").glob("*/children"):
                    below += [int(child) for child in task.read_text().split()]
            except OSError:  # it has ended
                continue
        found += below
        new = below
    return found
