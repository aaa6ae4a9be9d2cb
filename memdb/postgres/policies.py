"""
Row-level security: a transaction that is about some scopes sees and changes rows of these only.

A second wall behind the ranges of ids in each statement, which the operator of a server puts up
by docs/deploy/row-security.sql, what `script` returns (ADR-0054). A connection says which scopes it
is about by the setting `memdb.scopes`, an array of their numbers; while it is empty, as in work on
the whole database, every row is let through. The policies also hold for the owner of the tables,
but not for superusers and roles with BYPASSRLS.
"""

from __future__ import annotations

# The scope of a row, by table. Bytes have none: versions of any scope share them, and are found by
# the version alone. Neither have settings, embedding spaces and what a connection counts.
SCOPE_OF = {
    "scopes": "scope_no",
    "sessions": "id >> 44",
    "messages": "id >> 44",
    "summaries": "id >> 44",
    "archive_segments": "session_id >> 44",
    "entries": "id >> 44",
    "entry_history": "entry_id >> 44",
    "entry_decisions": "entry_id >> 44",
    "item_namespaces": "id >> 44",
    "items": "id >> 44",
    "vectors": "ref >> 44",
    "words": "scope_no",
    "words_tail": "scope_no",
    "artifact_names": "id >> 44",
    "artifacts": "scope_no",
    "jobs": "ref >> 44",
    "tombstones": "scope_no",
}

# Jobs about the whole database.
ALSO = {"jobs": " OR ref = 0"}

# A subquery is read once per statement, not once per row. NULL: any scope will do.
POLICY = """
DROP POLICY IF EXISTS memdb_scopes ON {table};
CREATE POLICY memdb_scopes ON {table} USING (
  coalesce(
    {scope} = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  ){also}
);
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
"""

SET_SCOPES = """/* policies.set_scopes */
SELECT set_config('memdb.scopes', :scopes, false)
"""

# Statements that look for a scope by its name, or read rows of all scopes by purpose, though the
# call is about one.
WHOLE = frozenset(
    (
        *("scopes.find", "scopes.insert", "scopes.count"),
        *("blobs.delete_unused", "blobs.delete_stale"),
        *("facts.session", "spaces.list_spaces", "jobs.unfinished", "jobs.count"),
        *("jobs.drop_space", "jobs.embed_everything", "jobs.embed_items", "jobs.embed_missing"),
        *("jobs.count_subjects", "jobs.texts", "jobs.queue", "jobs.list_failed"),
    )
)


def script() -> str:
    """Return what makes the policies; those of a partitioned table hold for what names it."""
    return "".join(
        POLICY.format(table=table, scope=scope, also=ALSO.get(table, ""))
        for table, scope in SCOPE_OF.items()
    )
