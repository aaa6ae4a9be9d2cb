"""Several frameworks write into one file at the same time, each in a process; all read all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from with_together.roles import READERS, WRITERS, load_rows

import memdb

LEAST = 5  # frameworks
ROOT = Path(__file__).parents[3]
WRITE = """
import sys
from with_together import roles
roles.load_rows()
print("ready", flush=True)
sys.stdin.readline()
roles.WRITERS[sys.argv[2]].write(sys.argv[1])
"""
READ = """
import sys
from with_together import roles
roles.load_rows()
print("ready", flush=True)
sys.stdin.readline()
roles.check_readers(sys.argv[2], sys.argv[1])
"""
load_rows()


def run_all(script: str, path: Path) -> dict[str, str]:
    """Run a script for each writer, all at the same moment; return what went wrong by writer."""
    folders = [str(ROOT), str(ROOT / "tests" / "integrations")]
    begun = {}
    for writer in WRITERS:
        environment = {
            **os.environ,
            "MEMDB_TALK": f"talk-{writer}",
            "PYTHONPATH": os.pathsep.join(folders),
            "PYTHONWARNINGS": "ignore",
        }
        begun[writer] = subprocess.Popen(
            [sys.executable, "-c", script, str(path), writer],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        for process in begun.values():
            assert process.stdout is not None
            process.stdout.readline()
        printed = {
            writer: process.communicate("\n", timeout=600)[1] for writer, process in begun.items()
        }
    finally:
        for process in begun.values():
            process.kill()
            process.wait()
    return {
        name: printed[name].strip().rpartition("\n")[2]
        for name, process in begun.items()
        if process.returncode
    }


@pytest.mark.slow
def test_frameworks_share_a_file(tmp_path: Path) -> None:
    """Each writes a conversation while the others do; then each reads everybody's."""
    if len(WRITERS) < LEAST or len(READERS) < LEAST:
        pytest.skip(f"only {', '.join(WRITERS)} are installed: run `make clients CLIENT=together`")
    path = tmp_path / "agent.db"

    assert run_all(WRITE, path) == {}
    assert run_all(READ, path) == {}
    with memdb.open(path) as db:
        names = {info.name for info in db.scope("ann", "desk").sessions()}
        assert names == {f"talk-{writer}" for writer in WRITERS}
        assert db.file.check(deep=True) == []
