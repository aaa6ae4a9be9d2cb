"""What starting costs: a short program loads nothing that it does not use."""

from typing import Any

import pytest

import memdb

# Slow to import, or loaded only for what a plain read does not do.
HEAVY = (
    "typing dataclasses json re enum threading numpy tiktoken click sqlite3 sqlite_utils sqlite_vec "
    "hashlib pathlib importlib.resources asyncio logging inspect unicodedata mimetypes tempfile "
    "datetime urllib subprocess"
).split()

READ = """
import sys
before = set(sys.modules)
import memdb
with memdb.open(sys.argv[1]) as db:
    assert len(db.scope("ann").session("trip").last(50)) == 50
print(*sorted(set(sys.modules) - before))
"""

APPEND = READ.replace("""assert len(db.scope("ann").session("trip").last(50)) == 50""", """db.scope("ann").session("trip").append("user", "hi")""").replace(
    "memdb.open(sys.argv[1])", 'memdb.open(sys.argv[1], counter="estimate", embedder=None)'
)


@pytest.fixture
def filled(path: str) -> str:
    """Return the path of a file with 60 messages."""
    with memdb.open(path, counter="estimate", embedder=None) as db:
        db.scope("ann").session("trip").extend([{"role": "user", "text": "x"} for _ in range(60)])
    return path


def loaded(run_child: Any, program: str, *args: str) -> set[str]:
    """Return the modules that a program had loaded at its end, beyond Python's own start."""
    return set(run_child(program, *args).split())


@pytest.mark.parametrize("module", HEAVY)
def test_reading_the_last_messages_does_not_load(filled: str, run_child: Any, module: str) -> None:
    """Import, open, read 50 messages: without this module."""
    assert module not in loaded(run_child, READ, filled)


@pytest.mark.parametrize("module", ["numpy", "tiktoken", "click", "sqlite3", "dataclasses", "sqlite_utils", "memdb.longterm"])
def test_appending_with_an_estimate_does_not_load(filled: str, run_child: Any, module: str) -> None:
    """A hook that stores one message stays small too."""
    assert module not in loaded(run_child, APPEND, filled)


def test_importing_loads_no_driver(run_child: Any) -> None:
    """Names are loaded at their first use."""
    out = loaded(run_child, "import sys, memdb; print(*sys.modules)")

    assert "apsw" not in out
    assert "memdb.memory" not in out
