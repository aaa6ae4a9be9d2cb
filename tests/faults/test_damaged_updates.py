"""A write never gives a damaged row a digest that says it is sound."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import memdb
from memdb.engine.columns import digest_columns
from memdb.engine.sqlite import digests

from .writes import POLICY, WRITES, Summarizer, prepare

if TYPE_CHECKING:
    from pathlib import Path

ROT = "~rot"

# A column of text of each table whose rows a write may change, with rows in a small file.
COLUMNS = {
    "messages": "author",
    "sessions": "title",
    "entries": "writer",
    "summaries": "hint",
    "artifact_names": "text",
    "artifacts": "mime",
    "items": "text",
    "scopes": "uid",
    "embedding_spaces": "metric",
}

# Another file than the damaged one, or nothing of it.
ELSEWHERE = {"restore", "recover", "migrate", "create a file", "work in a thread"}

# Of these, one for each way in which rows are changed.
SHORT = (
    "append",
    "commit",
    "forget words",
    "delete a session",
    "run",
    "archive",
    "update",
    "save",
    "put again",
)


def opened(path: Path, embedder: Any) -> memdb.MemDB:
    return memdb.open(
        path, embedder=embedder, counter="estimate", settings=POLICY, summarizer=Summarizer()
    )


@pytest.fixture
def filled(tmp_path: Path, embedder: Any) -> Path:
    """Return the path of a closed file with one of everything."""
    path = tmp_path / "filled.db"
    with opened(path, embedder) as db:
        prepare(db)
    return path


def damage(path: Path, table: str, column: str) -> None:
    """Change a column in every row as rot would: the digest stays."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints = ON").fetchall()
    keys = connection.execute(
        "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
    ).fetchall()
    where = " AND ".join(f"{key} = ?" for (key,) in keys)
    names = ", ".join(str(key) for (key,) in keys)
    rows = connection.execute(f"SELECT {names} FROM {table}").fetchall()
    assert rows
    for values in rows:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (ROT, *values))
    connection.close()


def hidden(path: Path, table: str, column: str) -> int:
    """Return how many damaged rows have a digest that fits them."""
    connection = apsw.Connection(str(path))
    digests.register_functions(connection)
    columns = digest_columns()[table]
    digest = columns.digest_of({one: one for one in columns.covered})
    ((count,),) = connection.execute(
        f"SELECT count(*) FROM {table} WHERE {column} = ? AND digest = {digest}",
        (ROT,),
    )
    connection.close()
    return int(str(count))


def hiding(filled: Path, folder: Path, table: str, names: Any, embedder: Any) -> list[str]:
    """Return the writes after which damage of *table* is not found any more."""
    rotten, found = folder / "rotten.db", []
    shutil.copy(filled, rotten)
    damage(rotten, table, COLUMNS[table])
    for name in names:
        path = folder / name.replace(" ", "-") / "agent.db"
        path.parent.mkdir()
        shutil.copy(rotten, path)
        with suppress(memdb.MemDBError, AssertionError), opened(path, embedder) as db:
            WRITES[name].arrange(db)
            WRITES[name].act(db)
        if hidden(path, table, COLUMNS[table]):
            found.append(name)
    return found


@pytest.mark.parametrize("table", COLUMNS)
def test_a_write_does_not_hide_damage(
    filled: Path, tmp_path: Path, embedder: Any, table: str
) -> None:
    """It reads the row first and raises, or leaves it as it is."""
    assert hiding(filled, tmp_path, table, SHORT, embedder) == []


@pytest.mark.slow
@pytest.mark.parametrize("table", COLUMNS)
def test_no_write_hides_damage(filled: Path, tmp_path: Path, embedder: Any, table: str) -> None:
    """All of them."""
    assert hiding(filled, tmp_path, table, WRITES.keys() - ELSEWHERE, embedder) == []
