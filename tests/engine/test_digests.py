"""Each column of each table of truth is covered: a changed value is a finding, or has a reason."""

import importlib.util
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb.engine.sqlite import digests, schema
from memdb.models.messages import Finding

FIXTURES = Path(__file__).parent.parent / "fixtures"

# SQLite computes them.
GENERATED = {"digest", "private_to"}

# What counts changes for those who watch the file: its rows say nothing that could be wrong.
COUNTS = {"changes"}

# Derived columns, with the check that compares them with what they come from.
DERIVED = {
    ("messages", "bigrams"): "messages_fts",
    ("sessions", "bigrams"): "sessions_fts",
    ("sessions", "message_count"): "session_counts",
    ("sessions", "tokens"): "session_counts",
    ("sessions", "archived_count"): "session_counts",
    ("messages", "spans"): "message_spans",
    ("messages", "content_hash"): "message_hash",
    ("summaries", "bigrams"): "summaries_fts",
    ("entries", "bigrams"): "entries_fts",
    ("entries", "spans"): "entry_spans",
    ("entries", "content_hash"): "entry_hash",
    ("entries", "said_hash"): "entry_hash",
    ("artifact_names", "bigrams"): "artifacts_fts",
    ("items", "bigrams"): "items_fts",
    ("vector_groups", "slots"): "sketch_differs",
    ("vector_groups", "planes"): "sketch_differs",
}


def tables() -> dict[str, list[str]]:
    """Return the stored columns of each ordinary table of schema.sql."""
    connection = apsw.Connection(":memory:")
    digests.register_functions(connection)
    connection.execute(schema.read_schema()).fetchall()
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
        "AND name NOT LIKE '%!_fts!_%' ESCAPE '!' AND name NOT LIKE 'sqlite%' ORDER BY name"
    ).fetchall()
    return {
        name: [
            column
            for (column,) in connection.execute(
                "SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 2 ORDER BY cid", (name,)
            )
        ]
        for (name,) in names
    }


TABLES = tables()
COLUMNS = [
    (table, column)
    for table, columns in TABLES.items()
    for column in columns
    if table not in COUNTS
]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a file with rows in every table."""
    spec = importlib.util.spec_from_file_location("freeze", FIXTURES / "freeze.py")
    assert spec is not None
    assert spec.loader is not None
    freeze = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(freeze)
    path = str(tmp_path_factory.mktemp("full") / "agent.db")
    freeze.fill(path)
    connection = apsw.Connection(path)
    digests.register_functions(connection)
    connection.execute(freeze.MORE_ROWS).fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return path


def test_each_column_is_covered_or_derived() -> None:
    """A new column is part of the digest of its table, or of DERIVED."""
    script = re.sub(r"--[^\n]*", "", schema.read_schema())
    covered = {
        (table, column)
        for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\) STRICT", script, re.DOTALL)
        for column in digests.columns_of(body).split(", ")
        if column
    }

    assert covered | set(DERIVED) == {row for row in COLUMNS if row[1] not in GENERATED}
    assert covered & set(DERIVED) == set()


def test_the_statements_name_the_columns_of_the_schema() -> None:
    """Else a sound row would be refused."""
    connection = apsw.Connection(":memory:")
    digests.register_functions(connection)
    connection.execute(schema.read_schema()).fetchall()

    for table, statement in digests.VERIFY.items():
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE name = ?", (table,)
        ).fetchone()  # type: ignore[misc]
        assert digests.columns_of(statement) == digests.columns_of(str(sql)), table


def changed(path: str, table: str, column: str) -> bool:
    """Change one value of a column as rot would, its digest kept; False without a value."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF").fetchall()
    key = ", ".join(
        name
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
        )
    )
    found = connection.execute(
        f"SELECT typeof({column}), {column}, digest, {key} FROM {table} "
        f"WHERE {column} IS NOT NULL ORDER BY {column} DESC, {key} LIMIT 1"
    ).fetchone()
    if found is None:
        found = connection.execute(
            f"SELECT 'null', NULL, digest, {key} FROM {table} LIMIT 1"
        ).fetchone()
    assert found is not None, f"{table} has no row"
    kind, value, stored, *keys = found
    connection.create_scalar_function("row_digest", lambda *_: stored, -1)
    (declared,) = connection.execute(  # type: ignore[misc]
        "SELECT type FROM pragma_table_info(?) WHERE name = ?", (table, column)
    ).fetchone()
    other: Any = {"TEXT": "x", "INTEGER": 5, "REAL": 0.5, "BLOB": b"x"}[str(declared)]
    if kind == "text":
        other = str(value)[:-1] + chr(ord(str(value)[-1]) ^ 1) if value else "x"
    elif kind in ("integer", "real"):
        other = value + 1  # type: ignore[operator]
    elif kind == "blob":
        other = bytes([value[0] ^ 1]) + value[1:]  # type: ignore[index]
    where = " AND ".join(f"{name} = ?" for name in key.split(", "))
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (other, *keys)).fetchall()
    count = connection.changes()
    connection.close()
    return count == 1


@pytest.mark.parametrize(("table", "column"), [row for row in COLUMNS if row[1] not in GENERATED])
def test_each_changed_column_is_found(full: str, path: str, table: str, column: str) -> None:
    """The finding says truth, or index where the column is derived."""
    shutil.copy(full, path)
    assert changed(path, table, column)

    try:
        with memdb.open(path, embedder=None, counter="estimate") as db:
            found = db.file.check(deep=True)
    except memdb.Corrupt as error:  # the settings are read by opening
        found = [Finding("digest", str(error), rebuildable=False)]

    if (table, column) in DERIVED:
        assert {finding.code for finding in found} & {DERIVED[table, column], "page", "foreign_key"}
    else:
        assert {finding.code for finding in found if not finding.rebuildable} & {"digest", "page"}


def test_the_sound_file_has_no_finding(full: str, path: str) -> None:
    """Else the others would prove nothing."""
    shutil.copy(full, path)
    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.file.check(deep=True) == []


STATE_READS: dict[str, Callable[[memdb.MemDB], object]] = {
    "all": lambda db: db.scope("rot").state.all(),
    "update": lambda db: db.scope("rot").state.update(theme="light"),
    "export": lambda db: list(db.export_lines()),
    "export of a scope": lambda db: db.scope("rot").export(f"{db.path}.jsonl"),
}


@pytest.mark.parametrize("column", ["value", "revision", "updated_ms"])
@pytest.mark.parametrize("name", STATE_READS)
def test_changed_state_is_found_when_it_is_read(path: str, name: str, column: str) -> None:
    """A value of a host, and its revision, are not handed out as if they were what was stored."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("rot").session("s").append("user", "hi")
        db.scope("rot").state.update(theme="dark")
    assert changed(path, "state", column)

    with (
        memdb.open(path, embedder=None, counter="estimate") as db,
        pytest.raises(memdb.Corrupt, match="of state is damaged"),
    ):
        STATE_READS[name](db)
