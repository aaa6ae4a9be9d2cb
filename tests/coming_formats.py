"""
Formats that do not exist: what their schema.sql and their steps would be.

`VARIANTS` has one for each kind of change, `COMING` two formats that follow each other. A program
that runs this file with a path opens it as a memdb of the last of them.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import apsw

import memdb
import memdb.engine.sqlite
import memdb.records
import memdb.tables
from memdb.engine import columns, compose
from memdb.engine.sqlite import digests, migrate, schema
from memdb.engine.sqlite.digests import register_functions
from memdb.engine.steps import Step
from memdb.tables import entries, messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FROZEN = Path(__file__).parent / "fixtures"
# A module's statements are those of the schema under which it is imported.
for package in (memdb.tables, memdb.engine.sqlite, memdb.records):
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)

NOW = schema.FORMAT
PRESENT = schema.read_schema()


class Variant(NamedTuple):
    """
    One change of the format.

    Attributes:
        edits: Texts of schema.sql with what stands there instead.
        step: How a file gets there.
        hashed: Columns that the content hash of a message covers from then on.
        changed: Columns ("entries.importance") whose values the step changes.
    """

    edits: tuple[tuple[str, str], ...]
    step: Step = Step()
    hashed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def edit(self, script: str) -> str:
        """Return schema.sql as this format has it."""
        for before, after in self.edits:
            assert script.count(before) == 1, f"{before!r} is {script.count(before)} times there"
            script = script.replace(before, after)
        return script

    def by_hand(self, *tables: str) -> Variant:
        """Return the same with a step that makes *tables* anew itself, as SQLite's pages teach."""
        recipe = [*map(self._recipe, tables)]
        return self._replace(step=Step(before="".join(recipe) + self.step.before))

    def _recipe(self, table: str) -> str:
        match = re.search(
            rf"CREATE TABLE {table} (\(.*?\n\) [^;]*);", self.edit(PRESENT), re.DOTALL
        )
        assert match is not None
        columns = ", ".join(columns_of(PRESENT, table))
        return (
            f'CREATE TABLE "new_{table}" {match[1]};'
            f"INSERT INTO new_{table} ({columns}) SELECT {columns} FROM {table};"
            f"DROP TABLE {table}; ALTER TABLE new_{table} RENAME TO {table};"
        )


def columns_of(script: str, table: str) -> list[str]:
    """Return the columns of a table."""
    connection = apsw.Connection(":memory:")
    register_functions(connection)
    connection.execute(script).fetchall()
    sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return [str(name) for (name,) in connection.execute(sql, (table,))]


def raise_importance(tx: Any) -> None:
    """Double what entries are worth, with their hashes: rows change meaning."""
    columns = ("id", *entries.HASHED)
    for values in tx.all(f"SELECT {', '.join(columns)} FROM entries"):
        row = dict(zip(columns, values, strict=True))
        row["importance"] = min(10, row["importance"] * 2)
        row["content_hash"] = entries.hash_of(row)
        tx.run(
            "UPDATE entries SET importance = :importance, content_hash = :content_hash WHERE id = :id",
            row,
        )


def name_languages(tx: Any) -> None:
    """Say of each message in Chinese that it is, with its hash."""
    columns = ("id", *messages.HASHED, "bigrams")
    for values in tx.all(f"SELECT {', '.join(columns)} FROM messages WHERE bigrams IS NOT NULL"):
        row = dict(zip(columns, values, strict=True))
        row |= {"lang": "zh", "uid": row["uid"].decode()}
        row["content_hash"] = messages.hash_of(row)
        tx.run("UPDATE messages SET lang = :lang, content_hash = :content_hash WHERE id = :id", row)


EXTERNAL_ID = "  external_id TEXT CHECK (external_id <> ''),"
LANG = ((EXTERNAL_ID, f"  lang TEXT,                           -- NULL: not known\n{EXTERNAL_ID}"),)
TITLE = "  title TEXT,                          -- NULL: never given one\n"
KIND = ((TITLE, f"  kind TEXT NOT NULL DEFAULT 'chat',\n{TITLE}"),)
COUNTED = "  tokens INTEGER NOT NULL DEFAULT 0,           -- the tokens of these,\n"
TOKENS = (
    (
        "tokens INTEGER NOT NULL CHECK (tokens >= 0),\n  counter TEXT,                        -- which TokenCounter",
        "tokens INTEGER NOT NULL CHECK (tokens BETWEEN 0 AND 1000000000),\n  counter TEXT,                        -- which TokenCounter",
    ),
)
IMPORTANCE = (("CHECK (importance BETWEEN 1 AND 10)", "CHECK (importance BETWEEN 0 AND 10)"),)
JOB_KINDS = (
    ("'sessions', 'optimize', 'checkpoint'", "'sessions', 'optimize', 'checkpoint', 'tidy'"),
)
EXTRA = (
    (
        "CREATE TABLE changes (",
        "CREATE TABLE extra (x INTEGER NOT NULL) STRICT;\nCREATE TABLE changes (",
    ),
)
JSON_VALUE = "  value TEXT NOT NULL,                 -- JSON\n"
CHANGED = ((f"{JSON_VALUE}  updated_ms INTEGER", f"{JSON_VALUE}  changed_ms INTEGER"),)
RENAME = "ALTER TABLE settings RENAME COLUMN updated_ms TO changed_ms;"
COMPRESSED = "   -- of the data before compression\n"
WITHOUT_MADE = ((f"{COMPRESSED}  created_ms INTEGER NOT NULL,\n", COMPRESSED),)
INDEX = "CREATE UNIQUE INDEX messages_external ON messages (id >> 24, external_id)\n  WHERE external_id IS NOT NULL;\n"

# The 17 of which 8 opened clean when tables were made anew by each step itself, and more kinds.
VARIANTS = {
    "nullable column": Variant(LANG),
    "nullable column, by ALTER TABLE": Variant(
        LANG, Step(before="ALTER TABLE messages ADD COLUMN lang TEXT;")
    ),
    "NOT NULL column": Variant(((COUNTED, f"  pinned INTEGER NOT NULL DEFAULT 0,\n{COUNTED}"),)),
    "table": Variant(EXTRA),
    "index dropped": Variant(((INDEX, ""),), Step(drops=("messages_external",))),
    "full text of sessions": Variant(
        (("  title, bigrams,\n  content", "  title, metadata, bigrams,\n  content"),)
    ),
    "full text of messages": Variant(
        (("  text, author, bigrams,\n", "  text, author, metadata, bigrams,\n"),)
    ),
    "view": Variant(
        (("  nullif(branch, '') AS branch,        -- NULL: the session itself\n", "  branch,\n"),)
    ),
    "hashed column": Variant(LANG, hashed=("lang",)),
    "hashed column, by hand": Variant(LANG, hashed=("lang",)).by_hand("messages"),
    "hashed column with values": Variant(
        LANG, Step(after=name_languages), hashed=("lang",), changed=("messages.content_hash",)
    ),
    "NOT NULL column of sessions": Variant(KIND),
    "NOT NULL column of sessions, by hand": Variant(KIND).by_hand("sessions"),
    "CHECK of messages": Variant(TOKENS),
    "CHECK of messages, by hand": Variant(TOKENS).by_hand("messages"),
    "CHECK of entries": Variant(IMPORTANCE),
    "CHECK of entries, by hand": Variant(IMPORTANCE).by_hand("entries"),
    "CHECK of jobs": Variant(JOB_KINDS),
    "CHECK of jobs, by hand": Variant(JOB_KINDS).by_hand("jobs"),
    "renamed column": Variant(CHANGED, Step(before=RENAME)),
    "dropped column": Variant(WITHOUT_MADE, Step(drops=("archive_segments.created_ms",))),
    "computed anew": Variant(
        (), Step(after=raise_importance), changed=("entries.importance", "entries.content_hash")
    ),
    "AUTOINCREMENT": Variant(
        (
            (
                "metric TEXT NOT NULL CHECK (metric IN ('cosine'))",
                "metric TEXT NOT NULL CHECK (metric IN ('cosine', 'dot'))",
            ),
        )
    ),
    "everything made anew": Variant((*LANG, *KIND, *TOKENS, *IMPORTANCE, *JOB_KINDS)),
}

# Two formats that follow each other, for the faults.
SECOND = Variant(
    (*LANG, *KIND, *IMPORTANCE, *EXTRA, *CHANGED, (INDEX, "")),
    Step(
        before=RENAME,
        after=lambda tx: (
            raise_importance(tx),
            name_languages(tx),
            tx.run("INSERT INTO extra (x) SELECT count(*) FROM messages"),
        ),
        drops=("messages_external",),
        counts=("extra",),
    ),
    hashed=("lang",),
)
THIRD = Variant(
    (
        *JOB_KINDS,
        *TOKENS,
        ("  title, bigrams,\n  content", "  title, metadata, bigrams,\n  content"),
        ("CREATE TABLE extra (x INTEGER NOT NULL) STRICT;\n", ""),
        *WITHOUT_MADE,
    ),
    Step(drops=("extra", "archive_segments.created_ms")),
)
COMING = (SECOND, THIRD)


@contextlib.contextmanager
def memdb_of(*coming: Variant) -> Iterator[dict[int, Step]]:
    """Let memdb be that of the formats that follow the present one; yields its steps."""
    scripts, steps, hashed = {NOW: PRESENT}, {}, list(messages.HASHED)
    for number, variant in enumerate(coming, NOW + 1):
        script = variant.edit(scripts[number - 1])
        scripts[number] = script.replace(
            f"PRAGMA user_version = {number - 1};", f"PRAGMA user_version = {number};"
        )
        steps[number] = variant.step
        hashed += variant.hashed
    last = NOW + len(coming)

    def read_schema(number: int | None = None) -> str:
        return scripts[last if number is None else number]

    with (
        mock.patch.object(schema, "FORMAT", last),
        mock.patch.object(schema, "FINGERPRINT", schema.fingerprint_of(scripts[last])),
        mock.patch.object(schema, "read_schema", read_schema),
        columns_of_format(read_schema),
        mock.patch.object(migrate, "STEPS", steps),
        hashing(tuple(hashed)),
    ):
        yield steps


@contextlib.contextmanager
def columns_of_format(read_schema: Callable[[], str]) -> Iterator[None]:
    """Let the digests cover the columns of another schema.sql."""
    try:
        with mock.patch.object(columns, "read_schema", read_schema):
            columns.read_columns.cache_clear()
            digests._verify_statement.cache_clear()
            yield
    finally:
        columns.read_columns.cache_clear()
        digests._verify_statement.cache_clear()


@contextlib.contextmanager
def hashing(names: tuple[str, ...]) -> Iterator[None]:
    """Let the hash of a message cover these columns."""
    if names == messages.HASHED:
        yield
        return
    columns = ("id", *names, "content_hash")
    sql = compose.select(
        "messages.hashed", columns, "messages", "id > :after", order="id", limit="1000"
    )
    with (
        mock.patch.object(messages, "HASHED", names),
        mock.patch.object(messages, "WITH_HASH", columns),
        mock.patch.object(messages, "SELECT_HASHED", sql),
    ):
        yield


def make_old(path: str | Path, number: int = NOW) -> None:
    """Make the frozen file of a format, with rows in every table."""
    connection = apsw.Connection(str(path))
    register_functions(connection)
    script = (FROZEN / f"schema_v{number:04}.sql").read_text(encoding="utf-8")
    connection.execute(f"PRAGMA foreign_keys = OFF; BEGIN; {script}; COMMIT").fetchall()
    connection.close()


if __name__ == "__main__":
    with memdb_of(*COMING):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        memdb.open(sys.argv[1], embedder=None, counter="estimate").close()
        sys.stdout.write("open\n")
