"""
The rows of a damaged file, and how they become a file whose references lead somewhere.

`read_rows` takes what the pages hold; `insert_rows` stores it in a new file, each row for
itself; `adopt` makes scopes, sessions and names anew that rows refer to; `drop_broken`
removes what has lost the row that it belongs to.
"""

from __future__ import annotations

from operator import itemgetter

import apsw

from memdb.engine.sqlite.connection import open_temporary
from memdb.engine.sqlite.digests import columns_of, register_functions, row_digest
from memdb.engine.sqlite.pages import LEAF_INDEX, PageFile, Tree, orphans
from memdb.engine.sqlite.schema import read_schema
from memdb.errors import StorageError
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from memdb.engine.base import Row
    from memdb.engine.sqlite.connection import SqliteFile, Tx
    from memdb.engine.sqlite.pages import RawRow, Values

SELECT_OBJECTS = """/* recovery.objects */
SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0 ORDER BY rootpage
"""

SELECT_TABLES = """/* recovery.tables */
SELECT name, wr, (SELECT sql FROM sqlite_schema WHERE sqlite_schema.name = tables.name)
FROM pragma_table_list AS tables
WHERE
  schema = 'main'
  AND type = 'table'
  AND name NOT LIKE 'sqlite%'
  AND name NOT GLOB '*_fts_*'   -- derived, as the indexes are
ORDER BY name
"""

SELECT_COLUMNS = """/* recovery.columns */
SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(:name)
WHERE hidden <> 2
ORDER BY cid
"""

# What SQLite says of a row that does not fit the schema.
REFUSED = (apsw.SQLITE_CONSTRAINT, apsw.SQLITE_MISMATCH)

# Made anew, or a matter of the new file.
NOT_TAKEN = ("meta", "changes")

# What says the names of scopes, sessions and spaces once more.
SCOPE_NAMES, SESSION_NAMES = "sqlite_autoindex_scopes_1", "sqlite_autoindex_sessions_1"
SPACE_NAMES = "sqlite_autoindex_embedding_spaces_1"

CLASSES = {
    "INTEGER": (int,),
    "TEXT": (str,),
    "BLOB": (bytes,),
    "REAL": (float, int),
}


class Shape(Record):
    """
    What the rows of a table are like.

    Attributes:
        columns: In the order of the schema, those that are stored.
        stored: Places of `columns` in the order of a record.
        key: Place of the column that is the row id, None without one.
        types, required: By column, whether NULL is refused.
        given: Places of the columns that an INSERT gives; others are generated.
        digest: Place of the column with the digest of the row, None without one.
        covered: Places of the columns that the digest covers.
    """

    name: str
    columns: tuple[str, ...]
    stored: tuple[int, ...]
    key: int | None
    types: tuple[str, ...]
    required: tuple[bool, ...]
    without_rowid: bool
    given: tuple[int, ...]
    digest: int | None
    covered: tuple[int, ...]

    def read(self, row: RawRow) -> Values | None:
        """Return the values of a raw row by column, None if it is not of this table."""
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
        """Return whether a row equals its digest."""
        if self.digest is None:
            return True
        covered = (values[place] for place in self.covered)
        return bool(row_digest(*covered) == values[self.digest])


class Found(Record):
    """
    What the pages of a file hold.

    Attributes:
        shapes: Of the tables, by name.
        rows: By table, those that equal their digest.
        damaged: By table, how many do not.
        broken_trees: Tables and indexes with a page that cannot be read.
        scope_names: From an index: app, user, number.
        session_names: From an index: number of the scope, name, branch, id.
        space_names: From an index: model, dim, metric, number.
        meta: The facts about the file.
        has_wal: Whether a part came from its WAL.
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


def read_rows(path: str, *, wal: bool) -> Found:
    """
    Return what can be read of the file at *path*, which stays as it is.

    Args:
        wal: Also read what is committed in its WAL.

    Raises:
        OSError: it cannot be read at all.

    Cost: 1 s per 20 MB, and memory for three times the file.
    """
    file = PageFile(path, wal=wal)
    shapes, roots = _shapes()
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
    if lost and free is not None:
        for name, raw in orphans(
            file, known | free, lambda kind, row: _fits(shapes, lost, kind, row)
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


def _shapes() -> tuple[dict[str, Shape], dict[str, int]]:
    """Return the tables of a new file, and the first page of each table and index."""
    temporary = open_temporary()
    try:
        register_functions(temporary.raw)
        temporary.all(read_schema())
        roots: dict[str, int] = dict(temporary.all(SELECT_OBJECTS))
        shapes = {}
        for name, without_rowid, sql in temporary.all(SELECT_TABLES):
            columns = temporary.all(SELECT_COLUMNS, {"name": name})
            names = tuple(column[0] for column in columns)
            keys = sorted((pk, place) for place, (_, _, _, pk, _) in enumerate(columns) if pk)
            covered = columns_of(sql).split(", ") if "digest" in names else []
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
                tuple(place for place, column in enumerate(columns) if not column[4]),
                names.index("digest") if "digest" in names else None,
                tuple(names.index(name) for name in covered),
            )
    finally:
        temporary.close()
    return shapes, roots


def _stored_roots(file: PageFile) -> dict[str, int]:
    """Return the first pages that the file itself names, as far as they can be read."""
    return {
        row[1]: row[3]
        for _, row in file.tree(1).rows
        if len(row) == 5 and isinstance(row[1], str) and isinstance(row[3], int) and row[3] > 0  # noqa: PLR2004
    }


def insert_rows(tx: Tx, found: Found) -> dict[str, int]:
    """Store every row that the schema accepts, the first of each key; how many by table."""
    stored = {}
    for name, shape in found.shapes.items():
        if name in NOT_TAKEN:
            continue
        places = shape.given
        columns = ", ".join(shape.columns[place] for place in places)
        marks = ", ".join(f":{shape.columns[place]}" for place in places)
        sql = f"/* recovery.insert */ INSERT INTO {name} ({columns}) VALUES ({marks})"  # noqa: S608 (names of schema.sql)
        stored[name] = sum(
            _run_if_accepted(tx, sql, {shape.columns[place]: values[place] for place in places})
            for values in found.rows[name]
        )
    return stored


INSERT_SCOPE = """/* recovery.insert_scope */
INSERT OR IGNORE INTO scopes (scope_no, uid, app, user_name, created_ms)
VALUES (:scope_no, 'recovered-' || :scope_no, :app, :user_name, :now_ms)
"""

INSERT_SESSION = """/* recovery.insert_session */
INSERT OR IGNORE INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
VALUES (:id, :scope_no, 'recovered-' || :id, :name, :now_ms, :now_ms)
"""

# Where it left its session is not known but by its first message.
INSERT_BRANCH = """/* recovery.insert_branch */
INSERT OR IGNORE INTO sessions (
  id, scope_no, uid, name, branch, parent_id, leaves_at, last_seq, created_ms, updated_ms
)
SELECT
  :id, :scope_no, 'recovered-' || :id, :name, :branch, id, first_seq - 1, first_seq - 1, :now_ms,
  :now_ms
FROM sessions
JOIN (
  SELECT coalesce(min(id & 0xFFFFFF), 1) AS first_seq FROM messages
  WHERE id BETWEEN :id AND :id | 0xFFFFFF
)
WHERE scope_no = :scope_no AND name = :name AND branch = ''
"""

INSERT_SPACE = """/* recovery.insert_space */
INSERT OR IGNORE INTO embedding_spaces (space_no, model, dim, metric, created_ms)
VALUES (:space_no, :model, :dim, :metric, :now_ms)
"""

RAISE_SESSIONS = """/* recovery.raise_sessions */
UPDATE scopes SET last_session_no = max(
  last_session_no,
  coalesce(
    (SELECT max((id >> 24) & 0x7FFFF) FROM sessions WHERE sessions.scope_no = scopes.scope_no), 0
  )
)
"""

# The rows below say that there was such a scope, session or name.
ADOPT = {
    "scopes": """/* recovery.adopt_scopes */
INSERT INTO scopes (scope_no, uid, app, user_name, created_ms)
SELECT scope_no, 'recovered-' || scope_no, 'recovered', 'scope ' || scope_no, :now_ms
FROM (
  SELECT scope_no FROM sessions
  UNION SELECT id >> 44 FROM messages
  UNION SELECT scope_no FROM entries
  UNION SELECT entry_id >> 44 FROM entry_history
  UNION SELECT scope_no FROM artifact_names
  UNION SELECT scope_no FROM artifacts
  UNION SELECT scope_no FROM item_namespaces
  UNION SELECT id >> 44 FROM items
)
WHERE scope_no BETWEEN 1 AND 524287 AND scope_no NOT IN (SELECT scope_no FROM scopes)
""",
    "scopes of state": """/* recovery.adopt_state_scopes */
INSERT INTO scopes (scope_no, uid, app, user_name, created_ms)
SELECT number, 'recovered-' || number, app, user_name, :now_ms
FROM (
  SELECT
    app,
    user_name,
    (SELECT coalesce(max(scope_no), 0) FROM scopes)
    + row_number() OVER (ORDER BY app, user_name) AS number
  FROM (SELECT DISTINCT app, user_name FROM state WHERE session <> '')
  WHERE (app, user_name) NOT IN (SELECT app, user_name FROM scopes)
)
""",
    "sessions": """/* recovery.adopt_sessions */
INSERT INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
SELECT
  id,
  id >> 44,
  'recovered-' || id,
  coalesce(name, 'recovered ' || ((id >> 24) & 0x7FFFF)),
  :now_ms,
  :now_ms
FROM (
  SELECT id, max(name) AS name
  FROM (
    SELECT (id >> 24) << 24 AS id, NULL AS name FROM messages WHERE id >> 43 & 1 = 0
    UNION SELECT session_id, NULL FROM archive_segments WHERE session_id >> 43 & 1 = 0
    UNION SELECT (scope_no << 44) | (session_no << 24), NULL FROM artifact_names
    WHERE session_no <> 0
    UNION SELECT (scope_no << 44) | (session_no << 24), NULL FROM artifacts WHERE session_no <> 0
    -- Its branches know its name.
    UNION SELECT min(parent_id), name FROM sessions
    WHERE
      parent_id >> 43 & 1 = 0
      AND parent_id & 0xFFFFFF = 0
      AND (scope_no, name) NOT IN (SELECT scope_no, name FROM sessions WHERE branch = '')
    GROUP BY scope_no, name
  )
  GROUP BY id
)
WHERE id NOT IN (SELECT id FROM sessions) AND id >> 44 IN (SELECT scope_no FROM scopes)
""",
    # Of branches whose session is lost: its number is theirs, which no other session has.
    "sessions of branches": """/* recovery.adopt_branch_sessions */
INSERT INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
SELECT id, id >> 44, 'recovered-' || id, name, :now_ms, :now_ms
FROM (
  SELECT min(id) & ~(1 << 43) AS id, name FROM sessions AS branches
  WHERE
    branch <> ''
    AND (scope_no, name) NOT IN (SELECT scope_no, name FROM sessions WHERE branch = '')
  GROUP BY scope_no, name
)
WHERE id >> 44 IN (SELECT scope_no FROM scopes)
""",
    # Which session a lost branch was of, those that leave it or share with it know.
    "sessions that others name": """/* recovery.adopt_named_branches */
INSERT INTO sessions (
  id, scope_no, uid, name, branch, parent_id, leaves_at, last_seq, created_ms, updated_ms
)
SELECT
  lost.id,
  lost.id >> 44,
  'recovered-' || lost.id,
  sessions.name,
  'recovered ' || ((lost.id >> 24) & 0x7FFFF),
  sessions.id,
  first_seq - 1,
  first_seq - 1,
  :now_ms,
  :now_ms
FROM (
  SELECT
    named.id,
    min(name) AS name,
    coalesce(
      (
        SELECT min(messages.id & 0xFFFFFF) FROM messages
        WHERE messages.id BETWEEN named.id AND named.id | 0xFFFFFF
      ),
      1
    ) AS first_seq
  FROM (
    SELECT parent_id AS id, name FROM sessions
    UNION
    SELECT json_extract(share.value, '$[2]'), name
    FROM sessions, json_each(sessions.shares) AS share
    WHERE json_valid(sessions.shares)
  ) AS named
  WHERE
    named.id >> 43 & 1 = 1
    AND named.id & 0xFFFFFF = 0
    AND named.id NOT IN (SELECT id FROM sessions)
  GROUP BY named.id
) AS lost
JOIN sessions
  ON sessions.scope_no = lost.id >> 44 AND sessions.name = lost.name AND sessions.branch = ''
""",
    "sessions of lost branches": """/* recovery.adopt_lost_branches */
INSERT INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
SELECT id, id >> 44, 'recovered-' || id, 'recovered ' || ((id >> 24) & 0x7FFFF), :now_ms, :now_ms
FROM (
  SELECT DISTINCT ((id >> 24) << 24) & ~(1 << 43) AS id FROM messages
  WHERE id >> 43 & 1 = 1 AND (id >> 24) << 24 NOT IN (SELECT id FROM sessions)
)
WHERE id >> 44 IN (SELECT scope_no FROM scopes)
""",
    "sessions of messages": """/* recovery.adopt_branches */
INSERT INTO sessions (
  id, scope_no, uid, name, branch, parent_id, leaves_at, last_seq, created_ms, updated_ms
)
SELECT
  lost.id,
  lost.id >> 44,
  'recovered-' || lost.id,
  sessions.name,
  'recovered',
  sessions.id,
  first_seq - 1,
  first_seq - 1,
  :now_ms,
  :now_ms
FROM (
  SELECT (id >> 24) << 24 AS id, min(id & 0xFFFFFF) AS first_seq FROM messages
  WHERE id >> 43 & 1 = 1
  GROUP BY id >> 24
) AS lost
JOIN sessions ON sessions.id = lost.id & ~(1 << 43)
WHERE lost.id NOT IN (SELECT id FROM sessions)
""",
    "parents": """/* recovery.adopt_parents */
UPDATE sessions
SET parent_id = (
  SELECT id FROM sessions AS root
  WHERE root.scope_no = sessions.scope_no AND root.name = sessions.name AND root.branch = ''
)
WHERE parent_id NOT IN (SELECT id FROM sessions)
""",
    "shares": """/* recovery.drop_shares */
UPDATE sessions
SET shares = (
  SELECT json_group_array(json(kept.value))
  FROM (
    SELECT share.value
    FROM json_each(sessions.shares) AS share
    JOIN sessions AS holder ON holder.id = json_extract(share.value, '$[2]')
    WHERE
      holder.scope_no = sessions.scope_no
      AND holder.name = sessions.name
      AND holder.id < sessions.id
    ORDER BY json_extract(share.value, '$[0]')
  ) AS kept
)
WHERE shares IS NOT NULL
""",
    "last seqs": """/* recovery.raise_parents */
UPDATE sessions
SET last_seq = max(
  last_seq,
  (SELECT max(leaves_at) FROM sessions AS child WHERE child.parent_id = sessions.id)
)
WHERE id IN (SELECT parent_id FROM sessions)
""",
    "session numbers": RAISE_SESSIONS,
    "sessions of state": """/* recovery.adopt_state_sessions */
INSERT INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
SELECT id, id >> 44, 'recovered-' || id, session, :now_ms, :now_ms
FROM (
  SELECT
    session,
    (scope_no << 44)
    | ((last_session_no + row_number() OVER (PARTITION BY scope_no ORDER BY session)) << 24) AS id
  FROM (
    SELECT DISTINCT scopes.scope_no, scopes.last_session_no, state.session
    FROM state
    JOIN scopes ON scopes.app = state.app AND scopes.user_name = state.user_name
    WHERE
      state.session <> ''
      AND (scopes.scope_no, state.session) NOT IN (SELECT scope_no, name FROM sessions)
  )
)
""",
    "session numbers again": RAISE_SESSIONS,
    "numbers": """/* recovery.raise_numbers */
UPDATE scopes SET last_n = max(
  last_n,
  coalesce((SELECT max(id & 0xFFFFFFFFFFF) FROM entries WHERE id >> 44 = scopes.scope_no), 0),
  coalesce((SELECT max(id & 0xFFFFFFFFFFF) FROM summaries WHERE id >> 44 = scopes.scope_no), 0),
  coalesce(
    (SELECT max(id & 0xFFFFFFFFFFF) FROM artifact_names WHERE id >> 44 = scopes.scope_no), 0
  ),
  coalesce((SELECT max(id & 0xFFFFFFFFFFF) FROM items WHERE id >> 44 = scopes.scope_no), 0),
  coalesce(
    (
      SELECT max((vector_ref + vector_count) & 0xFFFFFFFFFFF) FROM items
      WHERE vector_ref IS NOT NULL AND id >> 44 = scopes.scope_no
    ),
    0
  ),
  coalesce(
    (SELECT max(id & 0xFFFFFFFFFFF) FROM item_namespaces WHERE id >> 44 = scopes.scope_no), 0
  )
)
""",
    "item_namespaces": """/* recovery.adopt_namespaces */
INSERT INTO item_namespaces (id, scope_no, path)
SELECT DISTINCT namespace_id, namespace_id >> 44, 'recovered-' || namespace_id || char(31)
FROM items
WHERE
  namespace_id NOT IN (SELECT id FROM item_namespaces)
  AND namespace_id >> 44 IN (SELECT scope_no FROM scopes)
""",
    "artifact_names": """/* recovery.adopt_names */
INSERT INTO artifact_names (id, scope_no, session_no, name, last_version)
SELECT
  (scope_no << 44)
  | (
    (SELECT last_n FROM scopes WHERE scopes.scope_no = lost.scope_no)
    + row_number() OVER (PARTITION BY scope_no ORDER BY session_no, name)
  ),
  scope_no,
  session_no,
  name,
  last_version
FROM (
  SELECT scope_no, session_no, name, max(0x7FFFFFFFFFFFFFFF - rev_version) AS last_version
  FROM artifacts
  WHERE (scope_no, session_no, name) NOT IN (SELECT scope_no, session_no, name FROM artifact_names)
  GROUP BY scope_no, session_no, name
) AS lost
""",
    "numbers again": """/* recovery.raise_numbers_again */
UPDATE scopes SET last_n = max(
  last_n,
  coalesce(
    (SELECT max(id & 0xFFFFFFFFFFF) FROM artifact_names WHERE id >> 44 = scopes.scope_no), 0
  )
)
""",
}

# Whose bytes are not all there; what refers to nothing.
DROP = {
    "blobs": """/* recovery.drop_blobs */
DELETE FROM blobs WHERE size_bytes <> coalesce(
  (SELECT sum(size_bytes) FROM blob_chunks WHERE blob_chunks.blob_no = blobs.blob_no), 0
)
""",
    "artifacts": """/* recovery.drop_artifacts */
DELETE FROM artifacts WHERE blob_no NOT IN (SELECT blob_no FROM blobs)
""",
    "blob_chunks": """/* recovery.drop_chunks */
DELETE FROM blob_chunks WHERE blob_no NOT IN (SELECT blob_no FROM blobs)
""",
    "entry_history": """/* recovery.drop_history */
DELETE FROM entry_history WHERE entry_id NOT IN (SELECT id FROM entries)
""",
    "entry_decisions": """/* recovery.drop_decisions */
DELETE FROM entry_decisions
WHERE
  entry_id NOT IN (SELECT id FROM entries)
  OR other_id NOT IN (SELECT id FROM entries)
""",
    "vector_groups": """/* recovery.drop_groups */
DELETE FROM vector_groups WHERE space_no NOT IN (SELECT space_no FROM embedding_spaces)
""",
    "vectors": """/* recovery.drop_vectors */
DELETE FROM vectors WHERE id - (id & 255) NOT IN (SELECT id FROM vector_groups)
""",
    "item_namespaces": """/* recovery.drop_namespaces */
DELETE FROM item_namespaces WHERE id NOT IN (SELECT namespace_id FROM items)
""",
    "summaries": """/* recovery.drop_summaries */
DELETE FROM summaries WHERE session_id NOT IN (SELECT id FROM sessions)
""",
    "jobs": """/* recovery.drop_jobs */
DELETE FROM jobs
WHERE
  (space_no <> 0 AND space_no NOT IN (SELECT space_no FROM embedding_spaces))
  OR (subject = 'session' AND ref NOT IN (SELECT id FROM sessions))
  OR (subject = 'message' AND ref NOT IN (SELECT id FROM messages))
  OR (subject = 'entry' AND ref NOT IN (SELECT id FROM entries))
  OR (subject = 'summary' AND ref NOT IN (SELECT id FROM summaries))
  OR subject = 'item'
""",
}

# A reference that leads nowhere becomes NULL, as if what it named had been deleted. What
# only a lost session recalled is kept, but recalled by nobody.
UNLINK = (
    """/* recovery.unlink_superseded */
UPDATE entries SET superseded_by = NULL
WHERE superseded_by IS NOT NULL AND superseded_by NOT IN (SELECT id FROM entries)
""",
    """/* recovery.unlink_entries */
UPDATE entries
SET
  session_id = NULL,
  first_seq = NULL,
  last_seq = NULL,
  active = CASE WHEN session_only = 1 THEN 0 ELSE active END,
  session_only = 0
WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM sessions)
""",
    """/* recovery.unlink_history */
UPDATE entry_history SET session_id = NULL, first_seq = NULL, last_seq = NULL
WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM sessions)
""",
)

DELETE_IDS = {
    "messages": """/* recovery.delete_messages */
DELETE FROM messages WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "entries": """/* recovery.delete_entries */
DELETE FROM entries WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "blobs": """/* recovery.delete_blobs */
DELETE FROM blobs WHERE blob_no IN (SELECT value FROM json_each(:ids))
""",
}

# Summaries stand for each other: if one is lost or wrong, all of the session are made anew.
DELETE_SUMMARIES = """/* recovery.delete_summaries */
DELETE FROM summaries
WHERE session_id IN (
  SELECT session_id FROM summaries WHERE uid IN (SELECT value FROM json_each(:ids))
)
"""

UNLINK_SUMMARIES = """/* recovery.unlink_summaries */
DELETE FROM summaries
WHERE session_id IN (
  SELECT session_id FROM summaries
  WHERE condensed_into IS NOT NULL AND condensed_into NOT IN (SELECT id FROM summaries)
)
"""

SELECT_LOST_BLOBS = """/* recovery.lost_blobs */
SELECT blob_no, min(size_bytes), min(created_ms) FROM artifacts
WHERE blob_no NOT IN (SELECT blob_no FROM blobs)
GROUP BY blob_no
ORDER BY blob_no
"""

INSERT_BLOB = """/* recovery.insert_blob */
INSERT OR IGNORE INTO blobs (blob_no, sha256, size_bytes, created_ms)
VALUES (:blob_no, :sha256, :size_bytes, :created_ms)
"""

# Entries that others refer to: what the last version before the lost one said, if it is there.
SELECT_LOST_ENTRIES = """/* recovery.lost_entries */
WITH lost (id) AS (
  SELECT superseded_by FROM entries WHERE superseded_by IS NOT NULL
  UNION SELECT entry_id FROM entry_history
  UNION SELECT entry_id FROM entry_decisions
  UNION SELECT other_id FROM entry_decisions
)
SELECT
  lost.id,
  (
    SELECT entry_id FROM entry_decisions
    WHERE other_id = lost.id AND action = 'superseded' AND entry_id <> lost.id
    ORDER BY decided_ms DESC, entry_id DESC
    LIMIT 1
  ) AS superseded_by,
  version,
  category,
  key,
  text,
  keywords,
  importance,
  trust,
  session_id,
  first_seq,
  last_seq,
  session_only,
  source,
  valid_from_ms,
  valid_to_ms,
  expires_ms,
  metadata,
  updated_ms
FROM lost
LEFT JOIN entry_history AS old
  ON
    old.entry_id = lost.id
    AND old.version = (SELECT max(version) FROM entry_history WHERE entry_id = lost.id)
WHERE
  lost.id NOT IN (SELECT id FROM entries)
  AND lost.id >> 44 IN (SELECT scope_no FROM scopes)
ORDER BY lost.id
"""

LOST_ENTRY_COLUMNS = (
    "id",
    "superseded_by",
    "version",
    "category",
    "key",
    "text",
    "keywords",
    "importance",
    "trust",
    "session_id",
    "first_seq",
    "last_seq",
    "session_only",
    "source",
    "valid_from_ms",
    "valid_to_ms",
    "expires_ms",
    "metadata",
    "updated_ms",
)

# Archived messages whose text is nowhere.
DELETE_EMPTY = """/* recovery.delete_empty */
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

SELECT_SEGMENTS = """/* recovery.segments */
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

DELETE_SEGMENT = """/* recovery.delete_segment */
DELETE FROM archive_segments WHERE session_id = :session AND first_seq = :first_seq
"""

REFILL = """/* recovery.refill */
UPDATE messages SET text = :text, parts = :parts, metadata = :metadata
WHERE id = :id AND text IS NULL
"""

# In WAL mode only this mode of locking refuses readers, and only from the first write on.
LOCK_ALONE = ("PRAGMA query_only = OFF", "PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE")

PUT_META = """/* recovery.put_meta */
UPDATE meta SET value = :value WHERE key = :key
"""


def adopt(tx: Tx, found: Found) -> dict[str, int]:
    """Make the scopes, sessions and names anew that rows refer to; how many by table."""
    made: dict[str, int] = {}

    def note(table: str, count: int) -> None:
        if count:
            made[table] = made.get(table, 0) + count

    for app, user_name, scope_no in found.scope_names:
        values = {"app": app, "user_name": user_name, "scope_no": scope_no, "now_ms": tx.now_ms}
        note("scopes", _run_if_accepted(tx, INSERT_SCOPE, values))
    for scope_no, name, branch, session in sorted(found.session_names, key=itemgetter(2, 3)):
        row = {"id": session, "scope_no": scope_no, "name": name, "now_ms": tx.now_ms}
        if session >> 44 == scope_no and branch:
            note("sessions", _run_if_accepted(tx, INSERT_BRANCH, row | {"branch": branch}))
        elif session >> 44 == scope_no:
            note("sessions", _run_if_accepted(tx, INSERT_SESSION, row))
    for model, dim, metric, space_no in found.space_names:
        space = {"space_no": space_no, "model": model, "dim": dim, "metric": metric}
        note("embedding_spaces", _run_if_accepted(tx, INSERT_SPACE, space | {"now_ms": tx.now_ms}))
    for what, sql in ADOPT.items():
        count = tx.run(sql, {"now_ms": tx.now_ms} if ":now_ms" in sql else None)
        if sql.split("*/", 1)[1].lstrip().startswith("INSERT"):
            note(what.split(" of ")[0], count)
    return made


def _run_if_accepted(tx: Tx, sql: str, values: dict[str, Any]) -> int:
    try:
        return tx.run(sql, values)
    except StorageError as error:
        if not is_refused(error):
            raise
        return 0


def is_refused(error: StorageError) -> bool:
    """Return whether the schema refuses a row; anything else must end the recovery."""
    return error.sqlite_code & 0xFF in REFUSED


def drop_broken(tx: Tx) -> dict[str, int]:
    """Remove the rows that lost what they belong to, and cut references; rows by table."""
    for sql in UNLINK:
        tx.run(sql)
    return {table: count for table, sql in DROP.items() if (count := tx.run(sql))}


def keep_meta(tx: Tx, found: Found) -> None:
    """Give the new file the identity and the birthday of the old one, if they are known."""
    for key in ("file_uid", "created_ms"):
        if key in found.meta:
            tx.run(PUT_META, {"key": key, "value": found.meta[key]})


def delete_ids(tx: Tx, table: str, ids: Iterable[int]) -> int:
    """Remove rows of "messages", "entries" or "blobs" by id; return how many."""
    return tx.run(DELETE_IDS[table], {"ids": list(ids)})


def delete_empty(tx: Tx) -> int:
    """Remove archived messages whose text is nowhere; return how many."""
    return tx.run(DELETE_EMPTY)


def delete_summaries(tx: Tx, uids: list[str]) -> int:
    """Remove all summaries of the sessions of some summaries; return how many."""
    return tx.run(DELETE_SUMMARIES, {"ids": uids}) if uids else 0


def drop_unlinked_summaries(tx: Tx) -> int:
    """Remove all summaries of sessions in which one is part of a lost one; return how many."""
    return tx.run(UNLINK_SUMMARIES)


def segments(tx: Tx) -> list[Row]:
    """
    Return every segment: session, first seq, codec, data, hash, last seq, count, rows it has.
    """
    return tx.all(SELECT_SEGMENTS)


def delete_segment(tx: Tx, session: int, first_seq: int) -> None:
    """Remove a segment."""
    tx.run(DELETE_SEGMENT, {"session": session, "first_seq": first_seq})


def refill(tx: Tx, message: int, text: str | None, parts: str | None, metadata: str | None) -> None:
    """Put the content of an archived message back into its row."""
    tx.run(REFILL, {"id": message, "text": text, "parts": parts, "metadata": metadata})


def lost_entries(tx: Tx) -> list[dict[str, Any]]:
    """
    Return what is left of each lost entry that a row refers to, by `LOST_ENTRY_COLUMNS`.

    All but its id and what superseded it is None if no earlier version is there.
    """
    return [dict(zip(LOST_ENTRY_COLUMNS, row, strict=True)) for row in tx.all(SELECT_LOST_ENTRIES)]


def lost_blobs(tx: Tx) -> list[Row]:
    """Return number, bytes and time of each blob that an artifact has and whose row is lost."""
    return tx.all(SELECT_LOST_BLOBS)


def add_blob(tx: Tx, blob_no: int, sha256: bytes, size_bytes: int, created_ms: int) -> None:
    """Add the row of a blob whose chunks are there."""
    values = {"blob_no": blob_no, "sha256": sha256, "size_bytes": size_bytes}
    tx.run(INSERT_BLOB, {**values, "created_ms": created_ms})


def count_rows(db: SqliteFile, table: str) -> int:
    """Return the number of rows of a table of schema.sql."""
    with db.read() as tx:
        row = tx.one(f"/* recovery.count */ SELECT count(*) FROM {table}")  # noqa: S608 (a name of schema.sql)
    return 0 if row is None else int(row[0])


def lock_alone(lock: Tx) -> None:
    """
    Take the lock that no other connection can stand beside, until *lock* is closed.

    Raises:
        Busy: there is one.
    """
    for sql in LOCK_ALONE:
        lock.run(sql)
