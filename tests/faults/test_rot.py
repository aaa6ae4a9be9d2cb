"""Rot: a flipped byte of what is stored is found, and no damage ends the process."""

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from row_digests import keep_digests

import memdb

FIXTURES = Path(__file__).parent.parent / "fixtures"
PAGE = 4_096

# A process damages and checks the file again and again: a crash ends it alone.
CHILD = """
import json, random, sys
import apsw, memdb
from tests.faults.test_rot import KINDS, contents, is_changed, seen
path, sound_path, seed, count, kind = sys.argv[1:]
sound = open(sound_path, "rb").read()
stored = contents(sound_path)
chance = random.Random(int(seed))
for number in range(int(count)):
    name = kind if kind != "all" else chance.choice(sorted(KINDS))
    damaged = KINDS[name](sound, chance)
    print(json.dumps({"kind": name, "number": number}), flush=True)
    open(path, "wb").write(damaged)
    for end in ("-wal", "-shm"):
        try: __import__("os").remove(path + end)
        except FileNotFoundError: pass
    try:
        found = seen(path)
        changed = not found and is_changed(stored, contents(path))
        answer = {"found": found[:3], "unseen": changed}
    except memdb.MemDBError as error:
        answer = {"found": [error.code], "unseen": False}
    except BaseException as error:
        answer = {"foreign": repr(error)}
    print(json.dumps(answer), flush=True)
"""


def flip(data: bytes, chance: random.Random) -> bytes:
    """Change one byte."""
    at = chance.randrange(100, len(data))
    return data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :]


def page(data: bytes, chance: random.Random) -> bytes:
    """Zero a page, or put another one in its place."""
    at, other = (chance.randrange(len(data) // PAGE) * PAGE for _ in range(2))
    filler = bytes(PAGE) if chance.random() < 0.5 else data[other : other + PAGE]
    return data[:at] + filler + data[at + PAGE :]


def burst(data: bytes, chance: random.Random) -> bytes:
    """Write noise over up to 600 bytes."""
    at = chance.randrange(100, len(data) - 600)
    noise = chance.randbytes(chance.randrange(2, 600))
    return data[:at] + noise + data[at + len(noise) :]


def cut(data: bytes, chance: random.Random) -> bytes:
    """Lose the end."""
    return data[: chance.randrange(len(data))]


def head(data: bytes, chance: random.Random) -> bytes:
    """Change a byte of the file's own header."""
    at = chance.randrange(100)
    return data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :]


KINDS = {"flip": flip, "page": page, "burst": burst, "cut": cut, "head": head}


def make_sound(path: str) -> None:
    """Make a closed file with rows in every table."""
    spec = importlib.util.spec_from_file_location("freeze", FIXTURES / "freeze.py")
    assert spec is not None
    assert spec.loader is not None
    freeze = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(freeze)
    freeze.fill(path)
    connection = apsw.Connection(path)
    keep_digests(connection)
    connection.execute(freeze.MORE_ROWS).fetchall()
    connection.close()


def contents(path: str) -> dict[str, list[Any]]:
    """Return every row of every ordinary table, by its name."""
    connection = apsw.Connection(path)
    try:
        names = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%!_fts%' "
            "ESCAPE '!' AND name NOT LIKE 'sqlite%' ORDER BY name"
        ).fetchall()
        return {
            name: connection.execute(f'SELECT * FROM "{name}"').fetchall()
            for (name,) in names
            if name
            not in ("meta", "changes", "synced")  # the mark of a file in use, and of who watches
        }
    finally:
        connection.close()


def is_changed(stored: dict[str, list[Any]], now: dict[str, list[Any]]) -> bool:
    """
    Return whether a value is another one, or a message is gone.

    An empty page in place of a leaf is what a DELETE leaves, and ADR-0034 says why only
    messages are counted.
    """
    if stored.keys() != now.keys() or stored["messages"] != now["messages"]:
        return True
    return any(row not in stored[name] for name, rows in now.items() for row in rows)


def seen(path: str) -> list[str]:
    """Return the codes of what a deep check says."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        return [finding.code for finding in db.file.check(deep=True)]


def damage(tmp_path: Path, seed: int, times: int, kind: str) -> list[dict[str, Any]]:
    """Damage a file *times* times in a process of its own; return what came of each."""
    from counters import count  # which the child that imports this module does not find

    sound = str(tmp_path / "sound.db")
    make_sound(sound)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "x.db"), sound, str(seed), str(times), kind],
        capture_output=True,
        text=True,
        timeout=3_000,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root}/tests"},
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    count("rot", len(lines) // 2)
    return [{**first, **second} for first, second in zip(lines[::2], lines[1::2], strict=True)]


def test_flipped_bytes_are_found(tmp_path: Path) -> None:
    """Each of 40 that changes a stored value is a finding or an error of memdb."""
    rows = damage(tmp_path, 12, 40, "flip")

    assert len(rows) == 40
    assert [row for row in rows if "foreign" in row or row.get("unseen")] == []


@pytest.mark.slow
def test_two_thousand_damages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes, pages, bursts, cuts and headers: no crash, no foreign error, nothing unseen."""
    rows = damage(tmp_path, 7, 2_000, "all")
    counts = {
        kind: {
            "damages": sum(row["kind"] == kind for row in rows),
            "found": sum(row["kind"] == kind and bool(row.get("found")) for row in rows),
            "unseen": sum(row["kind"] == kind and bool(row.get("unseen")) for row in rows),
            "foreign": sum(row["kind"] == kind and "foreign" in row for row in rows),
        }
        for kind in sorted(KINDS)
    }
    with capsys.disabled():
        sys.stdout.write(f"\nrot: {json.dumps(counts, indent=1)}\n")

    assert [row for row in rows if "foreign" in row or row.get("unseen")] == []
