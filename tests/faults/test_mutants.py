"""
memdb broken on purpose, one protection at a time: the test of that protection turns red.

Each mutant is a copy of the package with one place changed, in a folder of its own, on
which pytest runs in a process of its own. If the place is gone, the mutant has to follow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from counters import FOLDER, count

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """A place in the source, what is written there instead, and the tests that must see it."""

    module: str
    old: str
    new: str
    tests: tuple[str, ...]


CONNECTIONS = "tests/faults/test_connections.py"
SELECTORS = "tests/deletion/test_selectors.py"
INSIDE = "tests/faults/test_inside_sqlite.py"
MUTANTS = {
    "drop the fork hook": Mutant(
        "engine/sqlite/pool.py",
        "os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)",
        "pass",
        (
            f"{CONNECTIONS}::test_a_forked_child_that_opens_the_file_loses_nothing",
            f"{CONNECTIONS}::test_a_child_refuses_a_file_that_was_in_use_at_the_fork",
        ),
    ),
    "keep the writer after an error": Mutant(
        "engine/sqlite/connection.py",
        'if getattr(error, "extendedresult", 0) & 0xFF not in HARMLESS:',
        "if False:",
        (f"{INSIDE}::test_no_error_inside_full_text_leaves_its_totals_in_memory",),
    ),
    "map the file": Mutant(
        "engine/sqlite/connection.py",
        "PRAGMA mmap_size = 0",
        "PRAGMA mmap_size = 268435456",
        (
            f"{CONNECTIONS}::test_a_file_that_shrinks_under_a_reader_kills_nobody",
            "tests/engine/test_pragmas.py",
        ),
    ),
    "synchronous off": Mutant(
        "engine/sqlite/connection.py",
        '"power": "FULL"',
        '"power": "OFF"',
        ("tests/faults/test_power_loss.py::test_a_power_cut_loses_nothing_acknowledged",),
    ),
    "skip a digest": Mutant(
        "engine/sqlite/digests.py",
        "if table == DEEP_ONLY and not deep:",
        'if table in ("entries", DEEP_ONLY):',
        ("tests/engine/test_digests.py::test_each_changed_column_is_found",),
    ),
    "an unscoped query": Mutant(
        "tables/entries.py",
        "  scope_no = :scope_no\n  AND key = :key\n  AND {PRIVATE_TO} IN",
        "  key = :key\n  AND {PRIVATE_TO} IN",
        ("tests/entries/test_service.py::test_keys_belong_to_a_scope",),
    ),
    "an id of any scope": Mutant(
        "deletion/selectors.py",
        "row_id = scope_range(scope_no)[0] + selector.entry",
        "row_id = scope_range(1)[0] + selector.entry",
        (f"{SELECTORS}::test_an_entry_is_named_by_its_number_in_its_own_scope",),
    ),
    "no WAL mark": Mutant(
        "engine/sqlite/mark.py",
        """"mark.set", "meta", key="'in_use'\"""",
        """"mark.set", "meta", key="'not_in_use'\"""",
        ("tests/faults/test_ordinary_life.py",),
    ),
}


def run_tests(folder: Path, tests: tuple[str, ...]) -> int:
    """Run tests on the package in *folder*; return pytest's exit code."""
    # What is tried on a mutant says nothing of memdb.
    environment = {name: value for name, value in os.environ.items() if name != FOLDER}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder)},
        capture_output=True,
        check=False,
        timeout=600,
    ).returncode


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package and of its tests."""
    folder = tmp_path / "copy"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("memdb", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in ("pyproject.toml", "schema.sql"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_each_mutant_changes_one_place() -> None:
    """A mutant of a place that is gone would test nothing."""
    for mutant in MUTANTS.values():
        source = (ROOT / "memdb" / mutant.module).read_text(encoding="utf-8")
        assert source.count(mutant.old) == 1, mutant


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(copy: Path, name: str) -> None:
    """The tests of the protection fail without it."""
    mutant = MUTANTS[name]
    place = copy / "memdb" / mutant.module
    place.write_text(
        place.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8"
    )

    assert run_tests(copy, mutant.tests) == 1
    count("mutants")
