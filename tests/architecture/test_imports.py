"""What starting costs: a short program loads nothing that it does not use."""

import os
import subprocess
import sys
from pathlib import Path

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

APPEND = READ.replace(
    """assert len(db.scope("ann").session("trip").last(50)) == 50""",
    """db.scope("ann").session("trip").append("user", "hi")""",
).replace("memdb.open(sys.argv[1])", 'memdb.open(sys.argv[1], counter="estimate", embedder=None)')


def loaded(program: str, *args: str) -> set[str]:
    """Run a program and return the modules that it printed."""
    environment = {**os.environ, "PYTHONPATH": str(Path(memdb.__file__).parent.parent)}
    command = [sys.executable, "-c", program, *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a file with 60 messages."""
    path = str(tmp_path_factory.mktemp("imports") / "agent.db")
    with memdb.open(path, counter="estimate", embedder=None) as db:
        db.scope("ann").session("trip").extend([{"role": "user", "text": "x"} for _ in range(60)])
    return path


@pytest.fixture(scope="module")
def reading(filled: str) -> set[str]:
    """Return what a program has loaded that reads the last 50 messages."""
    return loaded(READ, filled)


@pytest.fixture(scope="module")
def appending(filled: str) -> set[str]:
    """Return what a program has loaded that stores one message."""
    return loaded(APPEND, filled)


@pytest.mark.parametrize("module", HEAVY)
def test_reading_the_last_messages_does_not_load(reading: set[str], module: str) -> None:
    """Import, open, read 50 messages: without this module."""
    assert module not in reading


@pytest.mark.parametrize(
    "module",
    [
        "numpy",
        "tiktoken",
        "click",
        "sqlite3",
        "dataclasses",
        "sqlite_utils",
        "memdb.entries.remember",
        "memdb.text.terms",  # compiles patterns of many scripts
    ],
)
def test_appending_with_an_estimate_does_not_load(appending: set[str], module: str) -> None:
    """A hook that stores one message stays small too."""
    assert module not in appending


def test_reading_loads_nothing_that_writes(reading: set[str]) -> None:
    """Looking a session up by its name does not load what a removal needs."""
    own = {name for name in reading if name.startswith("memdb.")}

    assert own & {"memdb.records.sessions", "memdb.records.messages", "memdb.tables.jobs"} == set()
    assert len(own) <= 36


def test_the_programs_loaded_something(reading: set[str], appending: set[str]) -> None:
    """The others would pass on nothing."""
    assert {"apsw", "memdb.api.database"} <= reading & appending


def test_importing_loads_no_driver() -> None:
    """Names are loaded at their first use."""
    modules = loaded("import sys, memdb; print(*sys.modules)")

    assert "memdb" in modules
    assert modules.isdisjoint({"apsw", "memdb.api.database"})


def test_reading_loads_few_modules(reading: set[str]) -> None:
    """Each costs about 1 ms of a start: no records, no indexer, no services but the reader."""
    ours = {name for name in reading if name.split(".")[0] == "memdb"}

    assert len(ours) <= 36
    assert {name for name in ours if name.startswith("memdb.records.")} == {"memdb.records.scopes"}


CALL = """
import sys
import memdb
before = set(sys.modules)
with memdb.open(sys.argv[1]) as db:
    session = db.scope("ann").session("trip")
    {call}
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    "call",
    [
        'session.append("user", "Dear diary, we had tea \\u2013 and flew to Hótel Oslo.")',
        'db.scope("ann").recall("Where did we have tea last May?", 10)',
        "session.context(4000)",
    ],
    ids=["append", "recall", "context"],
)
def test_the_first_calls_load_none_of_the_slow_modules(call: str, tmp_path: Path) -> None:
    """Compiling patterns, OpenSSL, JSON and tiktoken took half of a first call."""
    path = str(tmp_path / "agent.db")
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "We had tea in May.")
        db.jobs.run()
    slow = "re enum json hashlib pathlib typing threading urllib.parse tiktoken lzma importlib.util"
    slow += " datetime contextlib importlib memdb.text.canonical"
    if "recall" in call:
        slow += " memdb.models.reports"

    assert loaded(CALL.format(call=call), path).isdisjoint(slow.split())
