"""
Rebuild scopes, sessions, branches and names that the rows of a damaged file refer to.

The module is a part of a recovery (`memdb.rescue.found_rows`), after the rows were stored. Names
come from indexes that can still be read; a row without a known name is called "recovered" and its
number.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from memdb.engine.sqlite.digests import renew
from memdb.rescue.found_rows import run_if_accepted

if TYPE_CHECKING:
    from memdb.engine.sqlite.connection import Tx
    from memdb.rescue.found_rows import Found

INSERT_SCOPE = """/* adoption.insert_scope */
INSERT OR IGNORE INTO scopes (scope_no, uid, app, user_name, created_ms)
VALUES (:scope_no, 'recovered-' || :scope_no, :app, :user_name, :now_ms)
"""

INSERT_SESSION = """/* adoption.insert_session */
INSERT OR IGNORE INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
VALUES (:id, :scope_no, 'recovered-' || :id, :name, :now_ms, :now_ms)
"""

# Where it left its session is not known but by its first message.
INSERT_BRANCH = """/* adoption.insert_branch */
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

INSERT_SPACE = """/* adoption.insert_space */
INSERT OR IGNORE INTO embedding_spaces (space_no, model, dim, metric, created_ms)
VALUES (:space_no, :model, :dim, :metric, :now_ms)
"""

RAISE_SESSIONS = """/* adoption.raise_sessions */
UPDATE scopes SET last_session_no = max(
  last_session_no,
  coalesce(
    (SELECT max((id >> 24) & 0x7FFFF) FROM sessions WHERE sessions.scope_no = scopes.scope_no), 0
  )
)
"""


def _raise_numbers(tag: str, *most: str) -> str:
    """Return the statement that raises the last numbers of each scope to those in use."""
    numbers = ", ".join(f"coalesce(({one}), 0)" for one in most)
    return f"/* adoption.{tag} */\nUPDATE scopes SET last_n = max(last_n, {numbers})\n"


# The rows below say that there was such a scope, session or name.
ADOPT = {
    "scopes": """/* adoption.adopt_scopes */
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
    "scopes of state": """/* adoption.adopt_state_scopes */
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
    "sessions": """/* adoption.adopt_sessions */
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
    "sessions of branches": """/* adoption.adopt_branch_sessions */
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
    "sessions of lost branches": """/* adoption.adopt_lost_branches */
INSERT INTO sessions (id, scope_no, uid, name, created_ms, updated_ms)
SELECT id, id >> 44, 'recovered-' || id, 'recovered ' || ((id >> 24) & 0x7FFFF), :now_ms, :now_ms
FROM (
  SELECT DISTINCT ((id >> 24) << 24) & ~(1 << 43) AS id FROM messages
  WHERE id >> 43 & 1 = 1 AND (id >> 24) << 24 NOT IN (SELECT id FROM sessions)
)
WHERE id >> 44 IN (SELECT scope_no FROM scopes)
""",
    "sessions of messages": """/* adoption.adopt_branches */
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
    "parents": """/* adoption.adopt_parents */
UPDATE sessions
SET parent_id = (
  SELECT id FROM sessions AS root
  WHERE root.scope_no = sessions.scope_no AND root.name = sessions.name AND root.branch = ''
)
WHERE
  parent_id IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM sessions AS parent
    WHERE
      parent.id = sessions.parent_id
      AND parent.scope_no = sessions.scope_no
      AND parent.name = sessions.name
  )
""",
    "shares": """/* adoption.drop_shares */
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
    "last seqs": """/* adoption.raise_parents */
UPDATE sessions
SET last_seq = max(
  last_seq,
  (SELECT max(leaves_at) FROM sessions AS child WHERE child.parent_id = sessions.id)
)
WHERE id IN (SELECT parent_id FROM sessions)
""",
    "session numbers": RAISE_SESSIONS,
    "sessions of state": """/* adoption.adopt_state_sessions */
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
    "numbers": _raise_numbers(
        "raise_numbers",
        *(
            f"SELECT max(id & 0xFFFFFFFFFFF) FROM {table} WHERE id >> 44 = scopes.scope_no"  # noqa: S608 (names of schema.sql)
            for table in ("entries", "summaries", "artifact_names", "items", "item_namespaces")
        ),
        "SELECT max((vector_ref + vector_count) & 0xFFFFFFFFFFF) FROM items "
        "WHERE vector_ref IS NOT NULL AND id >> 44 = scopes.scope_no",
    ),
    "item_namespaces": """/* adoption.adopt_namespaces */
INSERT INTO item_namespaces (id, scope_no, path)
SELECT DISTINCT namespace_id, namespace_id >> 44, 'recovered-' || namespace_id || char(31)
FROM items
WHERE
  namespace_id NOT IN (SELECT id FROM item_namespaces)
  AND namespace_id >> 44 IN (SELECT scope_no FROM scopes)
""",
    "artifact_names": """/* adoption.adopt_names */
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
    "numbers again": _raise_numbers(
        "raise_numbers_again",
        "SELECT max(id & 0xFFFFFFFFFFF) FROM artifact_names WHERE id >> 44 = scopes.scope_no",
    ),
}

# The tables that they write to.
ADOPTING = ("scopes", "sessions", "embedding_spaces", "item_namespaces", "artifact_names")


def adopt(tx: Tx, found: Found) -> dict[str, int]:
    """
    Rebuild the scopes, sessions and names that rows refer to; return how many by table.

    The statements write no digests: those of the tables are written at the end. Every other row in
    them was compared with its own digest before.
    """
    made: dict[str, int] = {}

    def note(table: str, count: int) -> None:
        if count:
            made[table] = made.get(table, 0) + count

    for app, user_name, scope_no in found.scope_names:
        values = {"app": app, "user_name": user_name, "scope_no": scope_no, "now_ms": tx.now_ms}
        note("scopes", run_if_accepted(tx, INSERT_SCOPE, values))
    for scope_no, name, branch, session in sorted(found.session_names, key=itemgetter(2, 3)):
        row = {"id": session, "scope_no": scope_no, "name": name, "now_ms": tx.now_ms}
        if session >> 44 == scope_no and branch:
            note("sessions", run_if_accepted(tx, INSERT_BRANCH, row | {"branch": branch}))
        elif session >> 44 == scope_no:
            note("sessions", run_if_accepted(tx, INSERT_SESSION, row))
    for model, dim, metric, space_no in found.space_names:
        space = {"space_no": space_no, "model": model, "dim": dim, "metric": metric}
        note("embedding_spaces", run_if_accepted(tx, INSERT_SPACE, space | {"now_ms": tx.now_ms}))
    for what, sql in ADOPT.items():
        count = tx.count_changed(sql, {"now_ms": tx.now_ms} if ":now_ms" in sql else None)
        if sql.split("*/", 1)[1].lstrip().startswith("INSERT"):
            note(what.split(" of ")[0], count)
    renew(tx, ADOPTING)
    return made
