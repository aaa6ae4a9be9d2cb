"""Each column of each table of truth is covered: a changed value is a finding, or has a reason."""

import importlib.util
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from row_digests import keep_digests
from source_tree import FILES, statements_of

import memdb
from memdb.engine.columns import digest_columns, read_columns, read_schema
from memdb.engine.sqlite import digests
from memdb.engine.sqlite.connection import parameters_of
from memdb.models.messages import Finding

FIXTURES = Path(__file__).parent.parent / "fixtures"

# What counts changes for those who watch the file, and what a sync compares: wrong rows make both
# look at a thing once more.
COUNTS = {"changes", "synced"}

# Derived columns, with the check that compares them with what they come from.
DERIVED = {
    ("messages", "bigrams"): "messages_fts",
    ("sessions", "bigrams"): "sessions_fts",
    ("sessions", "message_count"): "message_lost",
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
    names = new_file().execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
        "AND name NOT LIKE '%!_fts!_%' ESCAPE '!' AND name NOT LIKE 'sqlite%' ORDER BY name"
    )
    return {str(name): [row[0] for row in columns(str(name)) if row[4] != 2] for (name,) in names}


def new_file() -> apsw.Connection:
    """Return a database of schema.sql, made by a program without memdb's functions."""
    connection = apsw.Connection(":memory:")
    connection.execute(read_schema()).fetchall()
    return connection


def columns(table: str) -> list[Any]:
    """Return name, type, place in the key, default and kind of each column, as SQLite reads it."""
    return (
        new_file()
        .execute(
            "SELECT name, type, pk, dflt_value, hidden FROM pragma_table_xinfo(?) ORDER BY cid",
            (table,),
        )
        .fetchall()
    )


COLUMNS = [
    (table, name) for table, names in tables().items() for name in names if table not in COUNTS
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
    keep_digests(connection)
    connection.execute(freeze.MORE_ROWS).fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return path


def test_the_columns_are_those_that_sqlite_reads() -> None:
    """Names, key, defaults and the columns before `digest`, of every ordinary table."""
    for table, found in read_columns().items():
        rows = [row for row in columns(table) if row[4] == 0]
        names = [row[0] for row in rows]
        before = names[: names.index("digest")] if "digest" in names else []

        assert found.names == tuple(name for name in names if name != "digest"), table
        assert found.covered == tuple(before), table
        assert found.key == tuple(row[0] for row in sorted(rows, key=lambda row: row[2]) if row[2])
        assert found.defaults == {row[0]: row[3] or "NULL" for row in rows if row[0] != "digest"}
        assert found.reals == {row[0] for row in rows if row[1] == "REAL"}, table


def test_each_column_is_covered_or_derived() -> None:
    """A new column stands before `digest` in schema.sql, or is one of DERIVED."""
    covered = {(table, name) for table, one in digest_columns().items() for name in one.covered}

    assert covered | set(DERIVED) == {row for row in COLUMNS if row[1] != "digest"}
    assert covered & set(DERIVED) == set()


# The rows that these write get their digests at the end (`adoption.adopt`).
WITHOUT_DIGEST = "adoption."


def test_each_statement_that_writes_a_row_writes_its_digest() -> None:
    """Also what ON CONFLICT changes; and no foreign key changes a row of another table."""
    connection = new_file()
    digests.register_functions(connection)
    written: set[tuple[str, str]] = set()

    def note(action: int, first: str | None, second: str | None, *_: object) -> int:
        if action == apsw.SQLITE_UPDATE:
            written.add((str(first), str(second)))
        elif action == apsw.SQLITE_INSERT:
            written.add((str(first), "*"))
        return apsw.SQLITE_OK

    connection.authorizer = note
    wrong, tables = [], set()
    for name in FILES:
        if not name.startswith(("tables/", "engine/")):
            continue
        for sql in statements_of(name).values():
            written.clear()
            with suppress(apsw.SQLError):  # of FTS5 and vectors, which this connection has not
                connection.execute(
                    f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(parameters_of(sql))
                ).fetchall()
            for table, found in digest_columns().items():
                changed = any((table, one) in written for one in (*found.covered, "*"))
                tables |= {table} if changed else set()
                if changed and "_digest(" not in sql and not sql[3:].startswith(WITHOUT_DIGEST):
                    wrong.append((sql.partition("\n")[0], table))

    assert wrong == []
    assert tables == digest_columns().keys()  # else it proved nothing


def test_a_changed_row_keeps_what_is_wrong_with_it() -> None:
    """Whatever is written to it, a damaged row never gets a digest that fits."""
    old, new = (1, "a", None), (1, "b", 0.5)
    sound = digests.row_digest(*old)

    assert digests.changed_digest(sound, *old, *new) == digests.row_digest(*new)
    assert digests.changed_digest(sound ^ 1, *old, *new) == digests.row_digest(*new) ^ 1
    assert digests.changed_digest(None, *old, *new) == -1


def changed(path: str, table: str, column: str) -> bool:
    """Change one value of a column as rot or another program would; False without a value."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF").fetchall()
    key = ", ".join(
        name
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
        )
    )
    found = connection.execute(
        f"SELECT typeof({column}), {column}, {key} FROM {table} "
        f"WHERE {column} IS NOT NULL ORDER BY {column} DESC, {key} LIMIT 1"
    ).fetchone()
    if found is None:
        found = connection.execute(f"SELECT 'null', NULL, {key} FROM {table} LIMIT 1").fetchone()
    assert found is not None, f"{table} has no row"
    kind, value, *keys = found
    (declared,) = connection.execute(
        "SELECT type FROM pragma_table_info(?) WHERE name = ?", (table, column)
    ).fetchone()
    other: Any = {"TEXT": "x", "INTEGER": 5, "REAL": 0.5, "BLOB": b"x"}[str(declared)]
    if kind == "text":
        other = str(value)[:-1] + chr(ord(str(value)[-1]) ^ 1) if value else "x"
    elif kind in ("integer", "real"):
        other = value + 1
    elif kind == "blob":
        other = bytes([value[0] ^ 1]) + value[1:]
    where = " AND ".join(f"{name} = ?" for name in key.split(", "))
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (other, *keys)).fetchall()
    count = connection.changes()
    connection.close()
    return count == 1


@pytest.mark.parametrize(("table", "column"), [row for row in COLUMNS if row[1] != "digest"])
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
    "export of a scope": lambda db: db.export(f"{db.path}.jsonl", user="rot"),
}


@pytest.mark.parametrize("column", ["value", "version", "updated_ms"])
@pytest.mark.parametrize("name", STATE_READS)
def test_changed_state_is_found_when_it_is_read(path: str, name: str, column: str) -> None:
    """A value of a host, and its version, are not handed out as if they were what was stored."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("rot").session("s").append("user", "hi")
        db.scope("rot").state.update(theme="dark")
    assert changed(path, "state", column)

    with (
        memdb.open(path, embedder=None, counter="estimate") as db,
        pytest.raises(memdb.Corrupt, match="of state is damaged"),
    ):
        STATE_READS[name](db)
