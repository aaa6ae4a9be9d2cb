"""Every statement, prepared against a new file: it is valid, and it walks an index."""

import re
from collections.abc import Iterator

import apsw
import pytest
from source_tree import FILES, statements_of

from memdb.engine.sqlite import cipher
from memdb.engine.sqlite.connection import Tx, parameters_of
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.engine.sqlite.maintenance import CREATE_WORDS
from memdb.rescue import index_words, proof

# Statements that read a whole ordinary table, each with its reason. Those of
# check, rebuild and info look at everything: that is what they are for.
WHOLE = (
    "maintenance.",
    "migrate.",
    "packing.",
    "checks.",
    "cipher.",  # a stream that is encrypted as a database of its own
    "copies.",
    "meta.",
    "proof.",
    "remaining.",
    "text_rows.",
    "index_words.",
    "adoption.",
    "found_rows.",
    "synced.",  # a sync compares all that is here with what was agreed on
)
MAY_SCAN = {
    "jobs.embed_missing": "only for a new space, which lacks every vector",
    "branches.path": "the rows of a branch and its parents, found by their ids",
    "overviews.message_days": "the rows of one scope, which a subquery reads by their ids",
    "query.virtual": "a row per table and index of the schema",
    "settings.get_all": "a row per field that was set",
    "schema.objects": "a row per object of the schema",
    "schema.attached_to": "a row per object of the schema",
    "schema.ids": "asks whether there is any table",
    "schema.keys": "a row per fact of the file, and only of one that is refused",
    "links.broken": "only check and rebuild run it",
    "links.stale": "only check and rebuild run it",
    "writer.counts": "a row per kind of thing",
    "sessions.lengths": "a watched file: how long each session is, only after a commit",
    "scopes.list": "lists every scope of the file",
    "spaces.list_spaces": "a file has a handful of spaces",
    "spaces.list_numbers": "a file has a handful of spaces",
    "vectors.space_nos": "a file has a handful of spaces",
    "vectors.delete_unusable": "only rebuild runs it",
    "words.archived_counts": "only check runs it",
    "tail.count": "the tail has up to 64 rows",
    "tail.list": "the tail has up to 64 rows",
    "tail.move": "the tail has up to 64 rows",
    "spaces.retire_others": "a file has a handful of spaces",
    "jobs.count_subjects": "a new space makes everything due: how much that is",
    "jobs.list_failed": "stats read every job that failed",
    "jobs.embed_session": "a file has a handful of spaces",
    "jobs.session_lacks": "a file has a handful of spaces",
    "jobs.embed_text": "a file has a handful of spaces",
    "jobs.embed_items": "a new space makes every text of items due, once",
    "blobs.delete_stale": "only rebuild runs it",
    "blobs.hashes": "only a deep check runs it",
}

# Not a table of the file: what json_each and pragmas give, and what a subquery made.
VIRTUAL = re.compile(
    r"VIRTUAL TABLE|CONSTANT ROW|SCAN (\(|json_each|pragma_|SUBQUERY|made|sqlite_sequence|value\b|fk\b|chain\b)"
)


STATEMENTS = [
    (sql[3 : sql.index(" */")], sql)
    for name in FILES
    if name.startswith(("tables/", "engine/"))
    for sql in statements_of(name).values()
]


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tx]:
    """Return the writing connection of a new file, with vector functions."""
    path = str(tmp_path_factory.mktemp("plans") / "agent.db")
    database = SqliteEngine(path, clock=lambda: 0, ids=str)
    writer = database._writing()
    writer.use_vectors()
    for sql in (
        CREATE_WORDS,
        *index_words.CREATE_WORDS.values(),
        proof.CREATE_TEXTS,
        proof.CREATE_VOCABULARY,
        cipher.CREATE_PARTS,
    ):
        writer.run(sql)  # some statements read tables that only they make
    yield writer
    database.close()


def plan(tx: Tx, sql: str) -> list[str]:
    """Return the lines of a statement's query plan."""
    values = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    return [row[3] for row in tx.raw.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def scans(tx: Tx, sql: str) -> list[str]:
    """Return the lines that read a whole ordinary table."""
    return [line for line in plan(tx, sql) if line.startswith("SCAN") and not VIRTUAL.search(line)]


def test_there_are_statements() -> None:
    """The others would pass on nothing."""
    assert len(STATEMENTS) > 100


def test_each_statement_is_valid(tx: Tx) -> None:
    """SQLite prepares it: every table and column is there."""
    refused = {}
    for name, sql in STATEMENTS:
        if "PRAGMA" not in sql:
            try:
                plan(tx, sql)
            except apsw.Error as error:
                refused[name] = str(error)

    assert refused == {}


def test_rows_are_bound_in_the_order_of_sqlite(tx: Tx) -> None:
    """`Tx.many` gives SQLite the values of a row by place: each name is found, in its order."""
    wrong = {}
    for name, sql in STATEMENTS:
        if re.match(r"/\*.*\*/\s*(INSERT|UPDATE|DELETE|WITH made)", sql):
            names = parameters_of(sql)
            cursor = tx.raw.cursor()
            cursor.execute(f"EXPLAIN {sql}", dict.fromkeys(names))
            if cursor.bindings_names != tuple(names):
                wrong[name] = cursor.bindings_names
            cursor.close(force=True)

    assert wrong == {}


def test_no_statement_reads_a_whole_table(tx: Tx) -> None:
    """Unless MAY_SCAN says why."""
    found = {
        name: scans(tx, sql)
        for name, sql in STATEMENTS
        if not name.startswith(WHOLE) and name not in MAY_SCAN
    }

    assert {name: lines for name, lines in found.items() if lines} == {}


def test_every_reason_is_needed(tx: Tx) -> None:
    """A statement that scans no more leaves the list."""
    by_name = dict(STATEMENTS)

    assert {
        name for name in MAY_SCAN if name not in by_name or not scans(tx, by_name[name])
    } == set()


def test_every_foreign_key_has_an_index(tx: Tx) -> None:
    """Else deleting a parent reads the child from end to end."""
    tables = [row[0] for row in tx.all("SELECT name FROM pragma_table_list WHERE type = 'table'")]
    missing = []
    for table in tables:
        keys: dict[int, list[str]] = {}
        for row in tx.all(f"PRAGMA foreign_key_list({table})"):
            keys.setdefault(row[0], []).append(row[3])
        for columns in keys.values():
            where = " AND ".join(f'"{column}" = 1' for column in columns)
            lines = plan(tx, f'SELECT 1 FROM "{table}" WHERE {where}')
            missing += [(table, columns) for line in lines if line.startswith("SCAN")]

    assert missing == []


def test_every_ordinary_table_is_strict(tx: Tx) -> None:
    """No column takes a value of another type."""
    loose = tx.all(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0 "
        "AND schema = 'main' AND name NOT LIKE 'sqlite_%'"
    )

    assert loose == []
