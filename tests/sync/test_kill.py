"""Devices whose process is killed while it tells, merges or compacts come to one memory."""

from __future__ import annotations

import random
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from nursery import Nursery
from simulator import canonical

import memdb

# A device that says things and syncs; each step of a sync is named when it begins.
CHILD = """
import sys
import memdb
from memdb.sync import incoming, service
path, folder, word = sys.argv[1:]
service.MAX_SEGMENTS = 3

def named(owner, name, step):
    call = getattr(owner, name)
    def run(*args, **options):
        print(">" + step, flush=True)
        return call(*args, **options)
    setattr(owner, name, run)

named(service, "publish", "publish")
named(service, "write_partial", "write")
named(incoming.Merge, "merge", "merge")
named(incoming.Merge, "end_segment", "place")
named(service.FolderSync, "_tidy", "compact")
db = memdb.open(path, embedder=None, durability="process")
ann = db.user("ann")
if ann.session("s").head():
    ann.session("s").branch(word)
for number in range(40):
    said = f"{word}n{number}q"
    ann.session("s").append("user", said)
    ann.remember(f"{said} is true", key="k")
    ann.state["x"] = said
    print("+" + said, flush=True)
    db.sync(folder)
    if number % 2:
        print("?" + said, flush=True)
        ann.forget(query=said)
        print("-" + said, flush=True)
print("end", flush=True)
"""
STEPS = ("write", "publish", "merge", "place", "compact")


class Devices:
    """Three files, a folder, and what their processes acknowledged."""

    def __init__(self, place: Path, nursery: Nursery) -> None:
        """Make the files, which are paired."""
        self.nursery = nursery
        self.paths = [place / f"{number}.db" for number in range(3)]
        self.folder = place / "folder"
        self.folder.mkdir()
        self.said: set[str] = set()
        self.forgotten: set[str] = set()
        self.runs = self.kills = 0
        self.chance = random.Random(7)
        key = None
        for path in self.paths:
            with self.open(path) as db:
                key = db.sync(self.folder, pairing_key=key).key or key

    def open(self, path: Path) -> memdb.MemDB:
        """Open a file in this process."""
        return memdb.open(path, embedder=None, durability="process")

    def kill(self, path: Path, step: str) -> None:
        """Let a device work until a step begins, and kill it some moments later."""
        word, after = f"k{self.runs}", self.chance.randint(1, 4)
        process = self.nursery.start(CHILD, path, self.folder, word)
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line.strip())
            after -= line.strip() == f">{step}"
            if not after:
                break
        time.sleep(self.chance.random() ** 2 * 0.02)
        is_over = seen[-1:] == ["end"]  # the step did not come so often
        if not is_over:
            process.kill()
        seen += process.stdout.read().split()
        process.wait(20)
        self.runs += 1
        self.kills += not is_over
        for line in seen:
            word = line[1:]
            if line[0] == "+":
                self.said.add(word)
            elif line[0] == "?":
                self.said.discard(word)
            elif line[0] == "-":
                self.forgotten.add(word)

    def settle(self) -> tuple[list[list[str]], list[Any]]:
        """Sync until nobody has news; return what each device says, and what a check finds."""
        for _ in range(6):
            for path in self.paths:
                with self.open(path) as db:
                    db.sync(self.folder)
        said, found = [], []
        for path in self.paths:
            with self.open(path) as db:
                said.append(canonical(db))
                found += db.file.check(deep=True)
        return said, found


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_sync_may_be_killed_at_any_moment(tmp_path: Path, kills: int) -> None:
    """Nothing acknowledged is lost, nothing forgotten is back, and the devices agree."""
    nursery = Nursery(tmp_path, Path(__file__).parents[2])
    devices = Devices(tmp_path, nursery)
    steps = cycle(STEPS)
    paths = cycle(devices.paths)
    while devices.kills < kills:
        devices.kill(next(paths), next(steps))
    nursery.close()
    said, found = devices.settle()
    text = "\n".join(said[0])
    assert found == []
    assert [sorted(set(one) ^ set(said[0])) for one in said] == [[], [], []]
    assert {word for word in devices.said if word not in text} == set()
    assert {word for word in devices.forgotten if f'"{word}' in text} == set()
