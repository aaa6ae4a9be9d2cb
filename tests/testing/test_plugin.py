"""The pytest plugin, run by a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import memdb
from memdb.errors import InvalidInput, PortError
from memdb.testing import FakeEmbedder, FakeModel

ROOT = Path(memdb.__file__).parents[1]
TESTS = """
import pytest
from memdb import NotFound, ReadOnly

def test_memory(memory):
    memory.scope("ann").remember("Ann lives in Bergen.")
    assert memory.scope("ann").entries.list
    assert memory.scope("ann").session("s").append("user", "x").created_ms == 1714554000000

def test_memory_is_new(memory):
    assert memory.scopes() == []

def test_pack(pack):
    db = pack("trip")
    assert db.scope("ann").recall("where does Ann live?")[0].text == "Ann lives in Bergen."
    with pytest.raises(ReadOnly):
        db.scope("ann").remember("Ann has a dog.")
    assert pack("trip", writable=True).scope("ann").remember("Ann has a dog.").action == "added"

def test_no_pack(pack):
    with pytest.raises(NotFound, match="packs"):
        pack("none")
"""
RECIPE = """
clock = 2024-05-01T09:00:00Z
[[steps]]
remember = "Ann lives in Bergen."
user = "ann"
"""


def test_the_plugin(tmp_path: Path) -> None:
    """Its fixtures do what they say, in a project of their own."""
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "trip.toml").write_text(RECIPE)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["memdb.testing"]\n')
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_the_fake_embedder() -> None:
    """Equal words give equal vectors, no words none; it fails when told to."""
    embedder = FakeEmbedder(dim=32)
    first, second, nothing = embedder.embed(["Green tea!", "tea, GREEN", "?!"])
    assert first == second
    assert nothing is None
    assert embedder.asked == ["Green tea!", "tea, GREEN", "?!"]
    with memdb.open(":memory:", embedder=embedder) as db:
        db.scope("ann").remember("green tea")
        db.jobs.run()
        embedder.fails = RuntimeError("401")
        found = db.scope("ann").recall("tea")
        assert found[0].text == "green tea"
        assert "401" in found.missing["vector"]
    with pytest.raises(InvalidInput, match="dim is 1"):
        FakeEmbedder(dim=1)


def test_the_fake_model() -> None:
    """Its answers come in order, then it is unavailable."""
    model = FakeModel("one", ValueError("broken"))
    assert model.complete([{"role": "user", "content": "?"}]) == "one"
    with pytest.raises(ValueError, match="broken"):
        model.complete([])
    with pytest.raises(PortError, match="no answer left"):
        model.complete([])
    assert model.asked == [[{"role": "user", "content": "?"}], [], []]
    with pytest.raises(InvalidInput, match="answers"):
        FakeModel(3)
