"""
Migrate a file: change its tables to those of schema.sql, in one transaction that loses no row.

A step contains only what schema.sql does not show: renamed and dropped columns, dropped tables,
views and indexes, and changed values (`memdb.engine.steps`). The rest follows from schema.sql. A
table that differs is rebuilt from schema.sql, and its rows are copied by column name. Views,
indexes, full text and digests are created at the end. Before COMMIT the whole file is checked
(ADR-0057).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import apsw

from memdb.engine.sqlite import schema
from memdb.engine.sqlite.connection import open_temporary, translated_errors
from memdb.engine.sqlite.digests import register_functions
from memdb.engine.sqlite.migrations import STEPS
from memdb.engine.sqlite.schema import find_schema_differences
from memdb.engine.steps import StepFailed
from memdb.errors import Busy, MigrationFailed, SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Tx as AnyTx
    from memdb.engine.sqlite.base import SqliteFile
    from memdb.engine.sqlite.connection import Tx
    from memdb.engine.steps import Step

    # Returns what `check` finds in the rows that no `rebuild` repairs, "" for nothing.
    Verify = Callable[[AnyTx], str]

# A statement that names other tables is no concern of a table that is renamed here.
LEGACY_ALTER = """/* migrate.legacy_alter */
PRAGMA legacy_alter_table = ON
"""

NO_LEGACY_ALTER = """/* migrate.no_legacy_alter */
PRAGMA legacy_alter_table = OFF
"""

SELECT_FOREIGN_KEYS = """/* migrate.foreign_keys */
SELECT foreign_keys FROM pragma_foreign_keys
"""

SELECT_TABLES = """/* migrate.tables */
SELECT tables.name, tables.type, objects.sql
FROM pragma_table_list AS tables
JOIN sqlite_schema AS objects ON objects.name = tables.name
WHERE tables.schema = 'main' AND tables.name NOT LIKE 'sqlite#_%' ESCAPE '#'
ORDER BY objects.rowid
"""

SELECT_INDEXES = """/* migrate.indexes */
SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY rowid
"""

SELECT_KIND = """/* migrate.kind */
SELECT type FROM sqlite_schema WHERE name = :name
"""

SELECT_COLUMNS = """/* migrate.columns */
SELECT name FROM pragma_table_info(:table) ORDER BY cid
"""

# AUTOINCREMENT: numbers of rows that are gone never come back.
SELECT_SEQUENCE = """/* migrate.sequence */
SELECT seq FROM sqlite_sequence WHERE name = :table
"""

DELETE_SEQUENCE = """/* migrate.delete_sequence */
DELETE FROM sqlite_sequence WHERE name = :table
"""

INSERT_SEQUENCE = """/* migrate.insert_sequence */
INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :seq)
"""

SELECT_BROKEN_KEYS = """/* migrate.broken_keys */
SELECT "table", parent FROM pragma_foreign_key_check
"""

INTEGRITY_CHECK = """/* migrate.integrity */
PRAGMA integrity_check(1)
"""

ASIDE = "before_migration"


def migrate_file(db: SqliteFile, version: int) -> None:
    """
    Migrate the file of *db* from format *version* to the current one, after copying it.

    Transaction: its own, on a separate connection with foreign keys off.

    Raises:
        MigrationFailed: a step failed; the file is unchanged.
        Busy: another process kept the write lock longer than the timeout.
    """
    try:
        with db.apart() as tx:
            tx.run("PRAGMA foreign_keys = OFF")
            tx.begin()
            found = schema.stored_version(tx, db.path)
            if found == schema.FORMAT:
                return  # another process was faster, and its copy is the old file
            # Under the lock, so that the steps begin with what was copied.
            db.maintenance.copy_to(f"{db.path}.v{found}.bak", db.key, replace=True)
            db.pool.wal_guard.begin(tx)
            migrate(tx, found, db.verify)
            tx.commit()
    except (Busy, SchemaTooNew):
        raise
    except Exception as error:  # a step is a program
        raise MigrationFailed(db.path, version, schema.FORMAT, str(error)) from error


def migrate_copy(db: SqliteFile, tx: Tx, version: int) -> None:
    """
    Migrate an in-memory copy of a file that cannot be written to the current format.

    Raises:
        MigrationFailed: a step failed.
    """
    try:
        tx.run("PRAGMA foreign_keys = OFF")
        tx.begin()
        migrate(tx, version, db.verify)
        tx.commit()
        tx.run("PRAGMA foreign_keys = ON")
    except Exception as error:  # a step is a program
        raise MigrationFailed(db.path, version, schema.FORMAT, str(error)) from error


def migrate(tx: Tx, version: int, verify: Verify) -> None:
    """
    Migrate the tables of *tx* from format *version* to the current one; joins its transaction.

    Cost: reads each row three times, and rewrites the tables that differ and all full text.
    The migration needs as much free disk as these take.

    Raises:
        StepFailed: foreign keys are on, a row is damaged or would be lost, or the result would
            differ from schema.sql.
    """
    if tx.one(SELECT_FOREIGN_KEYS) != (0,):
        raise StepFailed("foreign keys are enforced, so dropping a table would delete rows")
    _refuse_damaged(tx)
    broken = Counter(tx.all(SELECT_BROKEN_KEYS))
    fresh = _open_fresh(schema.FORMAT)
    tx.run(LEGACY_ALTER)
    tx.raw.authorizer = _refuse_commit
    try:
        for name, kind, _ in fresh.all(SELECT_TABLES):
            if kind == "view":
                tx.run(f"DROP VIEW IF EXISTS {name}")
        for number in range(version + 1, schema.FORMAT + 1):
            _take(tx, STEPS[number], number)
        _make_indexes(tx, fresh)
        _make_full_text(tx, fresh)
        for _, kind, sql in fresh.all(SELECT_TABLES):
            if kind == "view":
                tx.run(sql)
    finally:
        fresh.close()
        tx.raw.authorizer = None
        tx.run(NO_LEGACY_ALTER)
    tx.run(f"PRAGMA user_version = {schema.FORMAT}")
    tx.run(schema.UPDATE_FINGERPRINT, {"fingerprint": schema.FINGERPRINT})
    for table, _, digest in _digested(tx):
        # The only rows that a step changed: every other one was just found to be sound.
        tx.run(f"UPDATE {table} SET digest = {digest} WHERE digest <> {digest}")  # noqa: S608 (names of schema.sql)
    grown = Counter(tx.all(SELECT_BROKEN_KEYS)) - broken
    problems = [f"{child} points to rows of {parent} that are missing" for child, parent in grown]
    problems += [one for one in find_schema_differences(tx) if not one.endswith("not memdb's")]
    problems += [text for (text,) in tx.all(INTEGRITY_CHECK) if text != "ok"]
    for problem in problems or filter(None, [verify(tx)]):
        raise StepFailed(problem)


def _refuse_commit(action: int, *_: object) -> int:
    """Refuse a step that ends the transaction."""
    return apsw.SQLITE_DENY if action == apsw.SQLITE_TRANSACTION else apsw.SQLITE_OK


def _open_fresh(number: int) -> Tx:
    """Return an empty database of a format, which the caller must close."""
    fresh = open_temporary()
    register_functions(fresh.raw)
    fresh.all(schema.read_schema(number))
    return fresh


def _digested(tx: Tx) -> list[tuple[str, str, str]]:
    """
    Return name, key and SQL of the digest of each table whose rows have one.

    The digest covers the columns before it, in the order of the file.
    """
    found = []
    for table, kind, _ in tx.all(SELECT_TABLES):
        columns = _columns(tx, table) if kind == "table" else []
        if "digest" in columns:
            covered = columns[: columns.index("digest")]
            found.append((table, covered[0], f"row_digest({', '.join(covered)})"))
    return found


def _refuse_damaged(tx: Tx) -> None:
    """Refuse a file with a damaged row, because the migration would give it a correct digest."""
    for table, key, digest in _digested(tx):
        row = tx.one(f"SELECT {key} FROM {table} WHERE digest <> {digest} LIMIT 1")  # noqa: S608 (names of schema.sql)
        if row is not None:
            raise StepFailed(
                f"row {row[0]} of {table} is damaged, because it differs from its digest"
            )


def _take(tx: Tx, step: Step, number: int) -> None:
    """Take one step, to the tables of format *number*."""
    before = _count_rows(tx)
    run_script(tx, step.before)
    fresh = _open_fresh(number)
    try:
        for name, kind, sql in fresh.all(SELECT_TABLES):
            if kind == "table":
                _make_table(tx, name, sql, step.drops)
    finally:
        fresh.close()
    for name in step.drops:
        row = tx.one(SELECT_KIND, {"name": name})  # None for a column
        if row is not None:
            tx.run(f"DROP {row[0]} {name}")
    if step.after is not None:
        step.after(tx)
    step.refuse_other_counts(before, _count_rows(tx))


def _count_rows(tx: Tx) -> dict[str, int]:
    """Return the number of rows of every table, also of other programs' tables."""
    return {
        name: tx.all(f'SELECT count(*) FROM "{name}"')[0][0]  # noqa: S608 (a name of the file)
        for name, kind, _ in tx.all(SELECT_TABLES)
        if kind == "table"
    }


def _columns(tx: Tx, table: str) -> list[str]:
    return [name for (name,) in tx.all(SELECT_COLUMNS, {"table": table})]


def _stored(tx: Tx) -> dict[str, str]:
    """Return the statement of each table, without comments and quotes, by name."""
    return {name: schema.normalized(sql) for name, _, sql in tx.all(SELECT_TABLES)}


def _make_table(tx: Tx, name: str, sql: str, drops: tuple[str, ...]) -> None:
    """Make a table as *sql* defines it, with its present rows, unless it is already so."""
    stored = _stored(tx).get(name)
    if stored == schema.normalized(sql):
        return
    if stored is None:
        tx.run(sql)
        return
    tx.run(f"ALTER TABLE {name} RENAME TO {ASIDE}")
    tx.run(sql)
    old, new = _columns(tx, ASIDE), _columns(tx, name)
    for column in old:
        if column not in new and f"{name}.{column}" not in drops:
            raise StepFailed(f"column {column} of {name} would be lost")
    kept = ", ".join(column for column in old if column in new)
    tx.run(f"INSERT INTO {name} ({kept}) SELECT {kept} FROM {ASIDE}")  # noqa: S608 (names of schema.sql)
    if "AUTOINCREMENT" in sql:
        last = tx.one(SELECT_SEQUENCE, {"table": ASIDE})
        tx.run(DELETE_SEQUENCE, {"table": name})
        if last is not None:
            tx.run(INSERT_SEQUENCE, {"table": name, "seq": last[0]})
    tx.run(f"DROP TABLE {ASIDE}")


def _make_indexes(tx: Tx, fresh: Tx) -> None:
    """Make the indexes of schema.sql that are missing or differ."""
    stored = {name: schema.normalized(sql) for name, sql in tx.all(SELECT_INDEXES)}
    for name, sql in fresh.all(SELECT_INDEXES):
        if stored.get(name) != schema.normalized(sql):
            tx.run(f"DROP INDEX IF EXISTS {name}")
            tx.run(sql)


def _make_full_text(tx: Tx, fresh: Tx) -> None:
    """Make the full-text tables that are missing or differ, and fill all from their rows."""
    stored = _stored(tx)
    for name, kind, sql in fresh.all(SELECT_TABLES):
        if kind != "virtual":
            continue
        if stored.get(name) != schema.normalized(sql):
            tx.run(f"DROP TABLE IF EXISTS {name}")
            tx.run(sql)
        settings = f"SELECT k, v FROM {name}_config WHERE k <> 'version'"  # noqa: S608 (names of schema.sql)
        for key, value in {*fresh.all(settings)} - {*tx.all(settings)}:
            change = f"INSERT INTO {name} ({name}, rank) VALUES (:key, :value)"  # noqa: S608 (a name of the schema)
            tx.run(change, {"key": key, "value": value})
    tx.words.rebuild()


def run_script(tx: Tx, script: str) -> None:
    """Run the statements of a script, and read all rows, because apsw stops at unread ones."""
    with translated_errors():
        for _ in tx.raw.execute(script):
            pass
