"""The programs of bench/ run by their path, so their folder is where Python looks first."""

import os
import subprocess
import sys
from pathlib import Path

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
