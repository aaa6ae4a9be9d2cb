"""Every SQLite that memdb writes with lacks the WAL-reset bug, as docs/reliability.md promises."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import apsw

ROOT = Path(__file__).parents[2]

# Source: https://sqlite.org/wal.html#walresetbug
FIXED = (3, 51, 3)


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers."""
    return tuple(map(int, version.split(".")))


def test_the_packages_that_are_required_contain_the_fix() -> None:
    """Each package with a SQLite is in the table, with the version that pyproject.toml requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    every = list(project["dependencies"])
    for names in project["optional-dependencies"].values():
        every += names
    required = dict(re.findall(r"^(apsw\S*?)>=([\d.]+)$", "\n".join(every), re.MULTILINE))
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")

    assert dict(re.findall(r"^\| `(apsw\S*)` \| ([\d.]+) \|", page, re.MULTILINE)) == required
    assert required.keys() == {"apsw", "apsw-sqlite3mc"}
    assert all(numbers(version) >= FIXED for version in required.values())


def test_the_sqlite_that_runs_contains_the_fix() -> None:
    """Whichever package it came with."""
    assert numbers(apsw.sqlite_lib_version()) >= FIXED
