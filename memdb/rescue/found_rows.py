"""
The rows of a damaged file, and their conversion to a file with valid references.

`read_rows` reads the rows in the pages, and `insert_rows` stores each of them in a new file.
`memdb.rescue.adoption` rebuilds rows that others refer to, and `drop_broken` removes rows whose
owner is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw

from memdb.engine import compose
from memdb.engine.columns import names_of, read_columns, read_schema
from memdb.engine.sqlite import schema
from memdb.engine.sqlite.connection import SET_AUTO_VACUUM, Tx, connect, open_temporary, translate
from memdb.engine.sqlite.digests import row_digest
from memdb.errors import FileError, SchemaTooNew, StorageError
from memdb.models.record import Record
from memdb.rescue.pages import LEAF_INDEX, BrokenPage, PageFile, Tree, orphans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.sqlite.base import SqliteFile
    from memdb.models.keys import FileKey
    from memdb.rescue.pages import RawRow, Values

# The user version and the application id. Source: sqlite.org/fileformat.html#the_database_header
HEADER_NUMBERS = (slice(60, 64), slice(68, 72))

SELECT_OBJECTS = """/* found_rows.objects */
SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0 ORDER BY rootpage
"""

SELECT_TABLES = """/* found_rows.tables */
SELECT name, wr FROM pragma_table_list
WHERE
  schema = 'main'
  AND type = 'table'
  AND name NOT LIKE 'sqlite%'
  AND name NOT GLOB '*_fts_*'   -- derived, as the indexes are
ORDER BY name
"""

SELECT_COLUMNS = """/* found_rows.columns */
SELECT name, type, "notnull", pk FROM pragma_table_info(:name) ORDER BY cid
"""

# What SQLite says of a row that does not fit the schema.
REFUSED = (apsw.SQLITE_CONSTRAINT, apsw.SQLITE_MISMATCH)

# Rebuilt, or a matter of the new file.
NOT_TAKEN = ("meta", "changes", "synced")

# What says the names of scopes, sessions and spaces once more.
SCOPE_NAMES, SESSION_NAMES = "sqlite_autoindex_scopes_1", "sqlite_autoindex_sessions_1"
SPACE_NAMES = "sqlite_autoindex_embedding_spaces_1"

CLASSES = {"INTEGER": (int,), "TEXT": (str,), "BLOB": (bytes,), "REAL": (float, int)}


class Shape(Record):
    """
    Shape of the rows of a table.

    Attributes:
        columns: In the order of the schema.
        stored: Places of `columns` in a record.
        key: Place of the column that is the row id, None if there is none.
        types, required: Type of each column, and whether it refuses NULL.
        digest: Place of the column with the digest of the row, None if there is none.
        covered: Places of the columns that the digest covers.
    """

    name: str
    columns: tuple[str, ...]
    stored: tuple[int, ...]
    key: int | None
    types: tuple[str, ...]
    required: tuple[bool, ...]
    without_rowid: bool
    digest: int | None
    covered: tuple[int, ...]

    def read(self, row: RawRow) -> Values | None:
        """Return the values of a raw row by column, None if it does not belong to this table."""
        key, stored = row
        if len(stored) != len(self.stored):
            return None
        values: list[Any] = [None] * len(stored)
        for place, value in zip(self.stored, stored, strict=True):
            values[place] = value
        if self.key is not None:
            if values[self.key] is not None:
                return None
            values[self.key] = key
        for place, (value, kind, required) in enumerate(
            zip(values, self.types, self.required, strict=True)
        ):
            if value is None:
                if required:
                    return None
            elif not isinstance(value, CLASSES[kind]):
                return None
            elif kind == "REAL" and isinstance(value, int):  # stored as an integer
                values[place] = float(value)
        return tuple(values)

    def is_intact(self, values: Values) -> bool:
        """Return whether a row matches its digest; True if the table has no digests."""
        if self.digest is None:
            return True
        covered = (values[place] for place in self.covered)
        return bool(row_digest(*covered) == values[self.digest])


class Found(Record):
    """
    Rows that the pages of a file contain.

    Attributes:
        shapes: Shapes of the tables, by name.
        rows: By table, the rows that match their digest.
        damaged: By table, the number of rows that do not.
        broken_trees: Tables and indexes with a page that cannot be read.
        scope_names: From an index: app, user, number.
        session_names: From an index: number of the scope, name, branch, id.
        space_names: From an index: model, dim, metric, number.
        meta: The rows about the file.
        has_wal: Whether some rows came from its WAL.
    """

    shapes: dict[str, Shape]
    rows: dict[str, list[Values]]
    damaged: dict[str, int]
    broken_trees: int
    scope_names: list[Values]
    session_names: list[Values]
    space_names: list[Values]
    meta: dict[str, str]
    has_wal: bool


def read_rows(path: str, *, wal: bool, key: FileKey | None = None) -> Found:
    """
    Return the readable rows of the file at *path*, which stays unchanged.

    Args:
        wal: Also read the commits in its WAL.
        key: Key of an encrypted file.

    Raises:
        OSError: the file cannot be read at all.
        FileError, SchemaTooNew: the file has another format than this memdb writes.

    Cost: 1 s per 20 MB, and memory for three times the file.
    """
    file = PageFile(path, None if key is None else _image(path, key, wal=wal), wal=wal)
    _refuse_other_format(file, path)
    shapes, roots = _shapes(moving=bool(file.pointer_pages()))
    roots |= _stored_roots(file)
    trees = {name: file.tree(root) for name, root in roots.items()}
    rows: dict[str, list[Values]] = {}
    lost = set()
    for name, shape in shapes.items():
        tree = trees[name]
        read = [values for row in tree.rows if (values := shape.read(row)) is not None]
        rows[name] = read
        if tree.is_broken or (tree.rows and not read):
            lost.add(name)
    known = set().union(*(tree.pages for tree in trees.values()))
    free = file.free_pages()
    if lost:
        for name, raw in orphans(
            file,
            known | (free or set()) | file.pointer_pages(),
            lambda kind, row: _fits(shapes, lost, kind, row),
        ):
            rows[name] += [values for row in raw if (values := shapes[name].read(row)) is not None]
    intact = {
        name: [values for values in read if shapes[name].is_intact(values)]
        for name, read in rows.items()
    }
    damaged = {name: len(rows[name]) - len(intact[name]) for name in rows}
    rows = intact
    return Found(
        shapes,
        rows,
        damaged,
        sum(tree.is_broken for tree in trees.values()),
        _names(trees, SCOPE_NAMES, (str, str, int)),
        _names(trees, SESSION_NAMES, (int, str, str, int)),
        _names(trees, SPACE_NAMES, (str, int, str, int)),
        {row[0]: row[1] for row in rows.get("meta", [])},
        file.has_wal,
    )


def _refuse_other_format(file: PageFile, path: str) -> None:
    """Refuse a file of another format, whose rows would not fit and would be lost silently."""
    try:
        header = file.page(1)
    except BrokenPage:
        return
    number, application = (int.from_bytes(header[part], "big") for part in HEADER_NUMBERS)
    if application != schema.APPLICATION_ID or number == schema.FORMAT:
        return  # another number is damage, if the file does not say that it is memdb's
    if number > schema.FORMAT:
        raise SchemaTooNew(path, number, schema.FORMAT)
    raise FileError(
        f"{path} has format {number}, and only files of format {schema.FORMAT} can be recovered: "
        "recover it with the memdb that wrote it, and open the new file with this memdb",
        path,
    )


def _fits(shapes: dict[str, Shape], lost: set[str], kind: int, row: RawRow) -> str | None:
    fitting = [
        name
        for name in lost
        if shapes[name].without_rowid == (kind == LEAF_INDEX) and shapes[name].read(row) is not None
    ]
    return fitting[0] if len(fitting) == 1 else None


def _names(trees: dict[str, Tree], index: str, types: tuple[type, ...]) -> list[Values]:
    tree = trees.get(index)
    return [
        row
        for _, row in ([] if tree is None else tree.rows)
        if len(row) == len(types) and all(map(isinstance, row, types))
    ]


def _shapes(*, moving: bool) -> tuple[dict[str, Shape], dict[str, int]]:
    """
    Return the tables of a new file, and the first page of each table and index.

    Args:
        moving: Whether the file moves its pages.
    """
    temporary = open_temporary()
    try:
        if moving:
            temporary.all(SET_AUTO_VACUUM)
        temporary.all(read_schema())
        roots: dict[str, int] = dict(temporary.all(SELECT_OBJECTS))
        shapes = {}
        for name, without_rowid in temporary.all(SELECT_TABLES):
            columns = temporary.all(SELECT_COLUMNS, {"name": name})
            names = tuple(column[0] for column in columns)
            keys = sorted((pk, place) for place, (_, _, _, pk) in enumerate(columns) if pk)
            first = [place for _, place in keys] if without_rowid else []
            rest = [place for place in range(len(columns)) if place not in first]
            is_row_id = not without_rowid and len(keys) == 1 and columns[keys[0][1]][1] == "INTEGER"
            shapes[name] = Shape(
                name,
                names,
                tuple(first + rest),
                keys[0][1] if is_row_id else None,
                tuple(column[1] for column in columns),
                tuple(bool(column[2]) for column in columns),
                bool(without_rowid),
                names.index("digest") if "digest" in names else None,
                tuple(names.index(one) for one in read_columns()[name].covered),
            )
    finally:
        temporary.close()
    return shapes, roots


def _stored_roots(file: PageFile) -> dict[str, int]:
    """Return the first pages that the schema in the file names, as far as they can be read."""
    return {
        row[1]: row[3]
        for _, row in file.tree(1).rows
        if len(row) == 5 and isinstance(row[1], str) and isinstance(row[3], int) and row[3] > 0  # noqa: PLR2004 (columns)
    }


def insert_rows(tx: Tx, found: Found) -> None:
    """Store every row that the schema accepts, the first of each key."""
    for name, shape in found.shapes.items():
        if name in NOT_TAKEN:
            continue
        marks = ", ".join(f":{column}" for column in shape.columns)
        sql = f"/* found_rows.insert */ INSERT INTO {name} VALUES ({marks})"  # noqa: S608 (names of schema.sql)
        for values in found.rows[name]:
            run_if_accepted(tx, sql, dict(zip(shape.columns, values, strict=True)))


# An artifact without all of its bytes is none.
DELETE_BLOBS = """/* found_rows.delete_cut_blobs */
DELETE FROM blobs WHERE size_bytes <> coalesce(
  (SELECT sum(size_bytes) FROM blob_chunks WHERE blob_chunks.blob_no = blobs.blob_no), 0
)
"""

# The foreign keys, those of a table behind those of the tables that it refers to.
SELECT_REFERENCES = """/* found_rows.references */
SELECT
  tables.name,
  group_concat(keys."from", ', '),
  keys."table",
  group_concat(keys."to", ', '),
  keys.on_delete
FROM sqlite_schema AS tables
JOIN pragma_foreign_key_list(tables.name) AS keys
WHERE tables.type = 'table'
GROUP BY tables.rootpage, keys.id
ORDER BY tables.rootpage, keys."table" = tables.name, keys.id
"""

# What goes with a reference to a lost session. What only that recalled is kept, for nobody.
SPAN = {"first_seq": "NULL", "last_seq": "NULL"}
WITH_SESSION = {
    "entries": SPAN
    | {"active": "CASE WHEN session_only = 1 THEN 0 ELSE active END", "session_only": "0"},
    "entry_history": SPAN,
}

DELETE_IDS = {
    table: f"/* found_rows.delete_{table} */\n"  # noqa: S608 (names of schema.sql)
    f"DELETE FROM {table} WHERE {key} IN (SELECT value FROM json_each(:ids))\n"
    for table, key in (("messages", "id"), ("entries", "id"), ("blobs", "blob_no"))
}

# Summaries cover each other: if one is lost or wrong, all of the session are rebuilt.
DELETE_SUMMARIES = """/* found_rows.delete_summaries */
DELETE FROM summaries
WHERE session_id IN (
  SELECT session_id FROM summaries WHERE uid IN (SELECT value FROM json_each(:ids))
)
"""

# Number, bytes and time of each blob that an artifact has and whose row is lost.
SELECT_LOST_BLOBS = """/* found_rows.lost_blobs */
SELECT blob_no, min(size_bytes), min(created_ms) FROM artifacts
WHERE blob_no NOT IN (SELECT blob_no FROM blobs)
GROUP BY blob_no
ORDER BY blob_no
"""

INSERT_BLOB = compose.insert("found_rows.insert_blob", "blobs")

# What an entry and an earlier version of it both say.
OLD_ENTRY = [name for name in names_of("entry_history") if name in names_of("entries")]
LOST_ENTRY_COLUMNS = ("id", "superseded_by", *OLD_ENTRY)

# Entries that others refer to: what the last version before the lost one said, if it is there.
SELECT_LOST_ENTRIES = f"""/* found_rows.lost_entries */
WITH lost (id) AS (
  SELECT superseded_by FROM entries WHERE superseded_by IS NOT NULL
  UNION SELECT entry_id FROM entry_history
)
SELECT
  lost.id,
  NULL AS superseded_by,
  {", ".join(OLD_ENTRY)}
FROM lost
LEFT JOIN entry_history AS old
  ON
    old.entry_id = lost.id
    AND old.version = (SELECT max(version) FROM entry_history WHERE entry_id = lost.id)
WHERE
  lost.id NOT IN (SELECT id FROM entries)
  AND lost.id >> 44 IN (SELECT scope_no FROM scopes)
ORDER BY lost.id
"""  # noqa: S608 (names of schema.sql)

# Archived messages whose text is nowhere.
DELETE_EMPTY = """/* found_rows.delete_empty */
DELETE FROM messages
WHERE
  text IS NULL
  AND NOT EXISTS (
    SELECT 1 FROM archive_segments
    WHERE
      session_id = (messages.id >> 24) << 24
      AND (messages.id & 0xFFFFFF) BETWEEN first_seq AND last_seq
  )
"""

SELECT_SEGMENTS = """/* found_rows.segments */
SELECT
  session_id,
  first_seq,
  codec,
  data,
  sha256,
  last_seq,
  message_count,
  (
    SELECT count(*) FROM messages
    WHERE
      id BETWEEN session_id + first_seq AND session_id + archive_segments.last_seq
      AND text IS NULL
  )
FROM archive_segments
ORDER BY session_id, first_seq
"""

DELETE_SEGMENT = """/* found_rows.delete_segment */
DELETE FROM archive_segments WHERE session_id = :session AND first_seq = :first_seq
"""

REFILL = compose.update(
    "found_rows.refill", "messages", "id = :id AND text IS NULL", "text, parts, metadata"
)

# In WAL mode only this mode of locking refuses readers, and only from the first write on.
LOCK_ALONE = ("PRAGMA query_only = OFF", "PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE")

PUT_META = compose.update("found_rows.put_meta", "meta", "key = :key", "value")


def run_if_accepted(tx: Tx, sql: str, values: dict[str, Any]) -> int:
    """Run a statement and return how many rows it changed, 0 if the schema refuses them."""
    try:
        return tx.count_changed(sql, values)
    except StorageError as error:
        if not is_refused(error):
            raise
        return 0


def is_refused(error: StorageError) -> bool:
    """Return whether the schema refuses a row; anything else must end the recovery."""
    return error.sqlite_code & 0xFF in REFUSED


def drop_broken(tx: Tx) -> None:
    """
    Remove rows whose owner is lost, and clear other references to lost rows.

    The schema decides which: if a reference may never be left behind by a deletion, its row is
        removed. Any other reference to a lost row becomes NULL, as if the row had been deleted.
    """
    tx.run(DELETE_BLOBS)
    for table, names, parent, keys, on_delete in tx.all(SELECT_REFERENCES):
        tag = f"found_rows.lost_{table}"
        lost = f"({names}) NOT IN (SELECT {keys} FROM {parent})"  # noqa: S608 (names of schema.sql)
        if on_delete == "NO ACTION":
            more = WITH_SESSION.get(table, {}) if parent == "sessions" else {}
            where = f"{names} IS NOT NULL AND {lost}"
            tx.run(compose.update(tag, table, where, **{names: "NULL"}, **more))
        else:
            tx.run(compose.delete(tag, table, lost))


def keep_meta(tx: Tx, found: Found) -> None:
    """Copy uid and creation time of the old file to the new one, if they are known."""
    for key in ("file_uid", "created_ms"):
        if key in found.meta:
            tx.run(PUT_META, {"key": key, "value": found.meta[key]})


def delete_ids(tx: Tx, table: str, ids: Iterable[int]) -> None:
    """Remove rows of "messages", "entries" or "blobs" by id."""
    tx.run(DELETE_IDS[table], {"ids": list(ids)})


def delete_summaries(tx: Tx, uids: list[str]) -> int:
    """Remove all summaries of the sessions of some summaries; return how many."""
    return tx.count_changed(DELETE_SUMMARIES, {"ids": uids}) if uids else 0


def delete_segment(tx: Tx, session: int, first_seq: int) -> None:
    """Remove a segment."""
    tx.run(DELETE_SEGMENT, {"session": session, "first_seq": first_seq})


def refill(tx: Tx, message: int, text: str | None, parts: str | None, metadata: str | None) -> None:
    """Restore the content of an archived message in its row."""
    tx.run(REFILL, {"id": message, "text": text, "parts": parts, "metadata": metadata})


def lost_entries(tx: Tx) -> list[dict[str, Any]]:
    """
    Return the remains of each lost entry that a row refers to, by `LOST_ENTRY_COLUMNS`.

    Its successor is None. If no earlier version exists, everything except its id is None.
    """
    return [dict(zip(LOST_ENTRY_COLUMNS, row, strict=True)) for row in tx.all(SELECT_LOST_ENTRIES)]


def add_blob(tx: Tx, blob_no: int, sha256: bytes, size_bytes: int, created_ms: int) -> int:
    """Add the row of a blob whose chunks exist; return 1, or 0 if the schema refuses it."""
    values = {"blob_no": blob_no, "sha256": sha256, "size_bytes": size_bytes}
    return run_if_accepted(tx, INSERT_BLOB, {**values, "created_ms": created_ms})


def count_rows(db: SqliteFile, table: str) -> int:
    """Return the number of rows of a table of schema.sql."""
    with db.read() as tx:
        return tx.read_number(f"/* found_rows.count */ SELECT count(*) FROM {table}")  # noqa: S608 (a name of schema.sql)


def _image(path: str, key: FileKey, *, wal: bool) -> bytes:
    """Return an encrypted file decrypted by its key, with zeros from its first damaged page on."""
    options: dict[str, Any] = {"durability": "power", "timeout_ms": 0, "writable": False}
    tx = Tx(connect(path, immutable=not wal, key=key, **options))
    try:
        return bytes(tx.raw.serialize("main"))
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        tx.close()


def lock_alone(lock: Tx) -> None:
    """
    Take the lock that excludes all other connections, until *lock* is closed.

    Raises:
        Busy: there is one.
    """
    for sql in LOCK_ALONE:
        lock.run(sql)
