"""The programs of bench/ run by their path, so their folder is where Python looks first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_no_program_hides_a_module_of_python() -> None:
    """One that is called as a module of the standard library breaks all others."""
    folders = BENCH, BENCH / "peers", BENCH / "peers" / "speed"  # not what `make peers` installed
    names = {path.stem for folder in folders for path in folder.glob("[a-z]*.py")}

    assert names & set(sys.stdlib_module_names) == set()


def test_engines_says_that_it_found_no_conversations(tmp_path: Path) -> None:
    """Before it starts a server, and in place of a division by their number."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "engines.py"), "--agree", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(BENCH.parent)},
    )

    assert done.returncode == 1
    assert "give --folder" in done.stderr
    assert "Traceback" not in done.stderr


# Programs that need nothing but memdb and its tests, each at a size of seconds.
SMALL = [
    "appends.py --messages 10000 --appends 100",
    "archive.py 2000",
    "calls.py --messages 500 --entries 20 --calls 3",
    "copies.py --messages 400",
    "forget.py --trials 3 --control 7",
    "indexes.py --messages 1000 --rounds 1",
    "keeping.py --messages 2000 --only check rebuild export import forget",
    "readers.py --threads 2 --seconds 1",
    "web.py 500 20",
]


@pytest.mark.slow
@pytest.mark.parametrize("words", SMALL)
def test_a_program_runs_at_a_small_size(words: str) -> None:
    """A call whose name or arguments changed would be found by nobody else; a bar may be missed."""
    done = subprocess.run(
        [sys.executable, *words.split()],
        cwd=BENCH,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(BENCH.parent), "OMP_NUM_THREADS": "1"},
    )

    assert "Traceback" not in done.stderr, done.stderr
    assert words.startswith("forget") or "units: R p50" in done.stdout
