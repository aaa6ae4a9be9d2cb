"""Twelve clients write a conversation with parallel calls into one file, and each reads every one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from with_together.talks import APP, CLIENTS, TALK, USER

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__)
ROOT = Path(memdb.__file__).parents[1]
WORD = b"quibblitis"

# Clients with an environment of their own: their newest releases exclude others.
APART = ("llamaindex", "strands", "agno", "langgraph")
# What a client does not say: Strands and ADK give a model's instructions apart from the messages.
WITHOUT_SYSTEM = ("strands", "adk")
# These read what they wrote alone, see "One file for all" in docs/guides/conversations.md.
OWN_ONLY = {"agno": "its sessions are runs", "langgraph": "a state is more than a conversation"}
# A session of Strands is "SESSION/AGENT"; Claude's names hold no "/".
SLASH, PLAIN = "talk/default", "talk"


def python_of(client: str) -> str | None:
    """Return the interpreter that has a client, None where its environment was not made."""
    if client not in APART:
        return sys.executable
    found = HERE.parents[1] / f".venvs/{client}-newest/bin/python"
    return str(found) if found.exists() else None


def run(client: str, *tasks: str) -> list[Any]:
    """Let a client do tasks in a process of its own; return what each of them gave."""
    command = [str(python_of(client)), str(HERE.with_name("talks.py")), client, *tasks]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests/integrations")))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths, "MEMDB_USER": USER, "MEMDB_APP": APP},
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def is_possible(writer: str, reader: str, name: str) -> bool:
    """Return whether a cell of the matrix can be; the page says why another cannot."""
    if "strands" in (writer, reader) and name == PLAIN:
        return False
    if "claude_agent" in (writer, reader) and name == SLASH:
        return False
    return reader not in OWN_ONLY or reader == writer


def expected(writer: str, reader: str) -> list[Any]:
    """Return what a reader gives of what a writer stored."""
    is_without = writer in WITHOUT_SYSTEM or reader == "strands"
    return TALK[1:] if is_without else TALK


@pytest.mark.slow
def test_each_client_reads_what_each_client_wrote(
    tmp_path: Path, packages_missing: Callable[[str], str]
) -> None:
    """Roles, order, texts, ids, names, arguments and results; then all of it is forgotten."""
    there = [
        client
        for client in CLIENTS
        if python_of(client) is not None and (client in APART or not packages_missing(client))
    ]
    names = (PLAIN, SLASH)
    place = {
        (one, name): str(tmp_path / f"{one}.{len(name)}.db") for one in there for name in names
    }
    failed: dict[tuple[str, str, str], Any] = {}
    for writer in there:
        tasks = [name for name in names if is_possible(writer, writer, name)]
        done = run(
            writer, *(part for name in tasks for part in ("write", place[writer, name], name))
        )
        failed |= {
            (writer, "writes", name): one for name, one in zip(tasks, done, strict=True) if one
        }
    full = 0
    for reader in there:
        cells = [
            (writer, name)
            for writer in there
            for name in names
            if is_possible(writer, reader, name)
        ]
        found = run(reader, *(part for cell in cells for part in ("read", place[cell], cell[1])))
        for (writer, name), one in zip(cells, found, strict=True):
            if one == expected(writer, reader):
                full += 1
            else:
                failed[writer, reader, name] = one
    assert failed == {}, f"{full} are right\n" + "\n".join(map(str, failed.items()))
    missing = [client for client in CLIENTS if client not in there]
    for path in map(Path, place.values()):
        if not path.exists():
            continue
        with memdb.open(path) as db:
            assert db.file.check(deep=True) == []
            receipt = db.scope(USER, APP).forget(everything=True, prove=True)
            assert receipt.proven, (path, receipt)
        assert WORD not in path.read_bytes(), path
    if missing:
        pytest.skip(f"{full} cells are right; without {', '.join(missing)}: run `make clients`")
