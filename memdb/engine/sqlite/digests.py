"""
Row digests: a CRC-32 over the columns of a row that are not derived, to find damage.

schema.sql lists the columns of each table in its generated column `digest`, so
each INSERT and UPDATE keeps the digest of its row. It proves rot, not intent: who
can write to the file can compute it too. A CRC finds every single damaged run of
up to 32 bits; of larger damage it misses one in 4,000,000,000.
"""

from __future__ import annotations

from binascii import crc32
from marshal import dumps
from typing import TYPE_CHECKING

import apsw

from memdb.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.engine.base import Key, Tx

MAX_PER_TABLE = 20

# The only large table whose rows `check` reads elsewhere, if it is deep.
DEEP_ONLY = "blob_chunks"

# Rows with one of some ids that differ from their digest, or hold a time that no
# date has (text/validate.py), by table. The columns are those of schema.sql in that
# order (tests/engine/test_digests.py).
VERIFY = {
    "embedding_spaces": """/* digests.embedding_spaces */
SELECT space_no FROM embedding_spaces
WHERE
  space_no IN (SELECT value FROM json_each(:ids))
  AND digest <> row_digest(space_no, model, dim, metric, created_ms, complete_ms, retired_ms)
""",
    "settings": """/* digests.settings */
SELECT name FROM settings
WHERE
  name IN (SELECT value FROM json_each(:ids)) AND digest <> row_digest(name, value, updated_ms)
""",
    "scopes": """/* digests.scopes */
SELECT scope_no FROM scopes
WHERE
  scope_no IN (SELECT value FROM json_each(:ids))
  AND digest <> row_digest(scope_no, uid, app, user_name, last_session_no, last_n, created_ms)
""",
    "sessions": """/* digests.sessions */
SELECT id FROM sessions
WHERE
  id IN (SELECT value FROM json_each(:ids))
  AND (
    digest <> row_digest(
      id, scope_no, uid, name, branch, parent_id, leaves_at, shares, title, last_seq, metadata,
      created_ms, updated_ms
    )
    OR created_ms NOT BETWEEN -62135596800000 AND 253402300799999
    OR updated_ms NOT BETWEEN -62135596800000 AND 253402300799999
  )
""",
    "messages": """/* digests.messages */
SELECT id FROM messages
WHERE
  id IN (SELECT value FROM json_each(:ids))
  AND (
    digest <> row_digest(
      id, uid, role_code, author, text, parts, external_id, tokens, counter_code, metadata,
      created_ms
    )
    OR created_ms NOT BETWEEN -62135596800000 AND 253402300799999
  )
""",
    "summaries": """/* digests.summaries */
SELECT id FROM summaries
WHERE
  id IN (SELECT value FROM json_each(:ids))
  AND (
    digest <> row_digest(
      id, uid, session_id, depth, first_seq, last_seq, condensed_into, text, hint, quality,
      summarizer, tokens, counter_code, content_hash, created_ms
    )
    OR created_ms NOT BETWEEN -62135596800000 AND 253402300799999
  )
""",
    "entries": """/* digests.entries */
SELECT id FROM entries
WHERE
  id IN (SELECT value FROM json_each(:ids))
  AND (
    digest <> row_digest(
      id, uid, scope_no, category, key, text, keywords, importance, pinned, trust, version,
      active, superseded_by, session_id, first_seq, last_seq, session_only, source, use_count,
      last_used_ms, valid_from_ms, valid_to_ms, expires_ms, metadata, created_ms, updated_ms,
      stored_ms
    )
    OR created_ms NOT BETWEEN -62135596800000 AND 253402300799999
    OR valid_from_ms NOT BETWEEN -62135596800000 AND 253402300799999
    OR valid_to_ms NOT BETWEEN -62135596800000 AND 253402300799999
  )
""",
    "item_namespaces": """/* digests.item_namespaces */
SELECT id FROM item_namespaces
WHERE
  id IN (SELECT value FROM json_each(:ids)) AND digest <> row_digest(id, scope_no, path)
""",
    "items": """/* digests.items */
SELECT id FROM items
WHERE
  id IN (SELECT value FROM json_each(:ids))
  AND (
    digest <> row_digest(
      id, uid, namespace_id, key, revision, ttl_ms, expires_ms, created_ms, updated_ms,
      vector_ref, vector_count, embedded, metadata, search_fields, value, data, text
    )
    OR created_ms NOT BETWEEN -62135596800000 AND 253402300799999
    OR updated_ms NOT BETWEEN -62135596800000 AND 253402300799999
  )
""",
    "artifacts": """/* digests.artifacts */
SELECT name FROM artifacts
WHERE
  (scope_no, session_no, name, rev_version) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:ids)
  )
  AND (
    digest <> row_digest(
      scope_no, session_no, name, rev_version, uid, blob_no, size_bytes, mime, metadata,
      message_id, created_ms
    )
    OR created_ms NOT BETWEEN -62135596800000 AND 253402300799999
  )
""",
    "state": """/* digests.state */
SELECT key FROM state
WHERE
  (app, user_name, session, key) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:ids)
  )
  AND digest <> row_digest(app, user_name, session, key, value, revision, updated_ms)
""",
}

SELECT_TABLES = """/* digests.tables */
SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%row#_digest(%' ESCAPE '#'
ORDER BY name
"""

SELECT_KEY = """/* digests.key */
SELECT name FROM pragma_table_info(:table) WHERE pk > 0 ORDER BY pk
"""


def row_digest(*values: str | bytes | float | None) -> int:
    """
    Return the digest of a row's values, in the order of schema.sql. Cost: 0.5 µs.

    The bytes are those of `marshal`, version 2, of the tuple: each value stands
    behind its type and length, so that no two rows have the same bytes.
    """
    return crc32(dumps(values, 2))


def register_functions(connection: apsw.Connection) -> None:
    """Make `row_digest` known on *connection*; without it no row of truth can be written."""
    connection.create_scalar_function(
        "row_digest", row_digest, -1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
    )


def verify_rows(tx: Tx, table: str, ids: Iterable[Key]) -> None:
    """Raise Corrupt if a row of *ids* differs from its digest. Cost: 20 µs and 2 µs per row."""
    for (row_id,) in tx.all(VERIFY[table], {"ids": ids}):
        raise Corrupt(
            f"row {row_id} of {table} is damaged, it differs from its digest: "
            "run `memdb check --deep`, then restore a backup (`memdb restore`) or take what is "
            "left (`memdb recover`)"
        )


def columns_of(sql: str) -> str:
    """Return the columns that the digest of a table covers, as its CREATE TABLE lists them."""
    _, _, rest = sql.partition("row_digest(")
    return " ".join(rest.partition(")")[0].split())


def find_damaged(tx: Tx, *, deep: bool) -> Iterator[str]:
    """
    Yield the rows of truth that differ from their digest, 20 at most per table.

    The schema must be that of schema.sql. Cost: 2 µs per row.

    Args:
        deep: Also read the bytes of artifacts.
    """
    for table, sql in tx.all(SELECT_TABLES):
        if table == DEEP_ONLY and not deep:
            continue
        key = ", ".join(name for (name,) in tx.all(SELECT_KEY, {"table": table}))
        statement = (
            f"/* digests.damaged */ SELECT {key} FROM {table} "  # noqa: S608 (our own schema)
            f"WHERE digest <> row_digest({columns_of(sql)}) LIMIT {MAX_PER_TABLE}"
        )
        try:
            for row in tx.all(statement):
                yield f"{table} row {', '.join(map(_shown, row))} differs from its digest"
        except Corrupt as error:
            yield f"{table}: {error}"


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
