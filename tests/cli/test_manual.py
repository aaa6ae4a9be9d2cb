"""The manual page: made of the commands, and as new as they are."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

import memdb

ROOT = Path(memdb.__file__).parents[1]
PAGE = ROOT / "man" / "memdb.1"
manual = runpy.run_path(str(ROOT / "docs" / "manual.py"))["manual"]


def test_the_page_is_that_of_the_commands(monkeypatch):
    """`python docs/manual.py > man/memdb.1` makes it anew."""
    for name in ("MEMDB_FILE", "MEMDB_USER", "MEMDB_APP"):
        monkeypatch.delenv(name, raising=False)
    assert PAGE.read_text(encoding="utf-8") == manual(), (
        "make it anew: python docs/manual.py > man/memdb.1"
    )


def test_the_page_does_not_depend_on_who_makes_it(monkeypatch):
    """Neither a default file nor a user of the environment is in it."""
    plain = manual()
    monkeypatch.setenv("MEMDB_FILE", "secret.db")
    monkeypatch.setenv("MEMDB_USER", "ann")
    assert manual() == plain


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff to read it")
def test_groff_reads_it():
    """It sees no request that it does not know, and shows what was written."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", str(PAGE)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    assert 'memdb recall agent.db "when do we fly?"' in done.stdout
    assert "--secrets" in done.stdout
