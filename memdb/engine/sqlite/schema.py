"""
What makes a file a memdb file: its application id, its format and the steps up.

A new file is made from schema.sql alone. An older one is copied to
`FILE.vN.bak`, then brought up by `migrations/NNNN_*.sql` in one transaction.
"""

from __future__ import annotations

import os

import apsw

from memdb.engine.sqlite.connection import MEMORY, open_error
from memdb.errors import MemDBError, MigrationFailed, NotAMemDB, SchemaTooNew, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database

APPLICATION_ID = 0x6D656D64  # 'memd'
FORMAT = 1

SELECT_MARKS = """/* schema.marks */
SELECT
  (SELECT application_id FROM pragma_application_id),
  (SELECT user_version FROM pragma_user_version),
  EXISTS (SELECT 1 FROM sqlite_schema)
"""

INSERT_META = """/* schema.insert_meta */
INSERT INTO meta (key, value) VALUES (:key, :value)
"""


def prepare(db: Database) -> None:
    """
    Make sure that *db* is a file of the current format, or refuse it.

    A current file is only read: many processes can open it while another one
    writes. Creating and migrating happen under the write lock, where the marks
    are read again.

    Raises:
        NotAMemDB: another program's database, or no database.
        SchemaTooNew: written by a newer memdb.
        MigrationFailed: a step failed; the file is as it was.
    """
    if db.path == MEMORY or not _has_bytes(db.path):
        _create(db)
        return
    version = _stored_version(db)
    if version == 0:
        _create(db)
    elif version < FORMAT:
        _migrate(db, version)


def _stored_version(db: Database) -> int:
    try:
        with db.read() as tx:
            return _version(tx.one(SELECT_MARKS), db.path)
    except StorageError as error:
        if isinstance(error.__cause__, apsw.Error):
            raise open_error(error.__cause__, db.path) from error
        raise


def _has_bytes(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116 (pathlib is slow to load)
    except OSError:
        return False


def _version(marks: tuple[int, int, int] | None, path: str) -> int:
    """Return the format, 0 for an empty database; refuse foreign and newer files."""
    application_id, version, has_tables = marks or (0, 0, 0)
    if not has_tables and application_id == 0 and version == 0:
        return 0
    if application_id != APPLICATION_ID:
        raise NotAMemDB(
            f"{path} is another program's database: give the path of a memdb file, or of a new one",
            path,
        )
    if version > FORMAT:
        raise SchemaTooNew(path, version, FORMAT)
    return version


def _create(db: Database) -> None:
    with db.write() as tx:
        if _version(tx.one(SELECT_MARKS), db.path):
            return  # another process was faster
        _run_script(tx.raw, read_schema())
        facts = {
            "created_by": "memdb",
            "created_ms": str(tx.now_ms),
            "file_uid": db.ids(tx.now_ms),
        }
        tx.many(INSERT_META, [{"key": key, "value": value} for key, value in facts.items()])


def _migrate(db: Database, version: int) -> None:
    """Bring the file from *version* to `FORMAT`, after copying it aside."""
    from memdb.engine.sqlite.backup import copy_to  # rarely needed

    try:
        # Changing a table that others refer to means replacing it: no ON DELETE then.
        db.foreign_keys(on=False)
        with db.write() as tx:
            found = _version(tx.one(SELECT_MARKS), db.path)
            if found == FORMAT:
                return  # another process was faster, and its copy is the old file
            # Under the lock, so that the copy is what the steps begin with.
            copy_to(db, f"{db.path}.v{found}.bak", replace=True)
            for step in range(found + 1, FORMAT + 1):
                _run_script(tx.raw, read_migration(step))
            if _version(tx.one(SELECT_MARKS), db.path) != FORMAT:
                raise MigrationFailed(db.path, version, FORMAT)  # a step forgot its number
            broken = tx.one("PRAGMA foreign_key_check")
            if broken is not None:
                raise MigrationFailed(db.path, version, FORMAT)
    except (apsw.Error, MemDBError) as error:
        raise MigrationFailed(db.path, version, FORMAT) from error
    finally:
        db.foreign_keys(on=True)


def _run_script(connection: apsw.Connection, script: str) -> None:
    try:
        for _ in connection.execute(script):
            pass  # a script runs to its end only while it is read
    except apsw.Error as error:
        raise open_error(error, connection.filename) from error


def read_schema() -> str:
    """Return schema.sql: from the installed package, else from the checkout."""
    from importlib.resources import files  # only for new files

    packed = files("memdb") / "schema.sql"
    if packed.is_file():
        return packed.read_text(encoding="utf-8")
    checkout = os.path.join(os.path.dirname(__file__), "../../..", "schema.sql")  # noqa: PTH118, PTH120
    with open(checkout, encoding="utf-8") as f:  # noqa: PTH123
        return f.read()


def read_migration(step: int) -> str:
    """Return the script that takes format *step* - 1 to *step*."""
    from importlib.resources import files  # only for old files

    folder = files("memdb.engine.sqlite") / "migrations"
    (script,) = [item for item in folder.iterdir() if item.name.startswith(f"{step:04d}_")]
    return script.read_text(encoding="utf-8")
