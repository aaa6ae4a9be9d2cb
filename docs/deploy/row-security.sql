-- Row-level security by scope, as a second wall (docs/postgres.md). Run it as the owner of the
-- tables, after memdb has made them, in one transaction, and restart the programs that use memdb:
--
--   psql "$MEMDB_URL" --single-transaction -v ON_ERROR_STOP=1 -f row-security.sql
--
-- Running it again changes nothing. With DISABLE for ENABLE it takes the wall down. What a
-- superuser or a role with BYPASSRLS does is not under it.

DROP POLICY IF EXISTS memdb_scopes ON scopes;
CREATE POLICY memdb_scopes ON scopes USING (
  coalesce(
    scope_no = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE scopes ENABLE ROW LEVEL SECURITY;
ALTER TABLE scopes FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON sessions;
CREATE POLICY memdb_scopes ON sessions USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON messages;
CREATE POLICY memdb_scopes ON messages USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE messages FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON summaries;
CREATE POLICY memdb_scopes ON summaries USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE summaries ENABLE ROW LEVEL SECURITY;
ALTER TABLE summaries FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON archive_segments;
CREATE POLICY memdb_scopes ON archive_segments USING (
  coalesce(
    session_id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE archive_segments ENABLE ROW LEVEL SECURITY;
ALTER TABLE archive_segments FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON entries;
CREATE POLICY memdb_scopes ON entries USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE entries FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON entry_history;
CREATE POLICY memdb_scopes ON entry_history USING (
  coalesce(
    entry_id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE entry_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE entry_history FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON entry_decisions;
CREATE POLICY memdb_scopes ON entry_decisions USING (
  coalesce(
    entry_id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE entry_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE entry_decisions FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON item_namespaces;
CREATE POLICY memdb_scopes ON item_namespaces USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE item_namespaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE item_namespaces FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON items;
CREATE POLICY memdb_scopes ON items USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE items ENABLE ROW LEVEL SECURITY;
ALTER TABLE items FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON vectors;
CREATE POLICY memdb_scopes ON vectors USING (
  coalesce(
    ref >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE vectors FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON words;
CREATE POLICY memdb_scopes ON words USING (
  coalesce(
    scope_no = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE words ENABLE ROW LEVEL SECURITY;
ALTER TABLE words FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON words_tail;
CREATE POLICY memdb_scopes ON words_tail USING (
  coalesce(
    scope_no = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE words_tail ENABLE ROW LEVEL SECURITY;
ALTER TABLE words_tail FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON artifact_names;
CREATE POLICY memdb_scopes ON artifact_names USING (
  coalesce(
    id >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE artifact_names ENABLE ROW LEVEL SECURITY;
ALTER TABLE artifact_names FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON artifacts;
CREATE POLICY memdb_scopes ON artifacts USING (
  coalesce(
    scope_no = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE artifacts ENABLE ROW LEVEL SECURITY;
ALTER TABLE artifacts FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON jobs;
CREATE POLICY memdb_scopes ON jobs USING (
  coalesce(
    ref >> 44 = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  ) OR ref = 0
);
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS memdb_scopes ON tombstones;
CREATE POLICY memdb_scopes ON tombstones USING (
  coalesce(
    scope_no = ANY (CAST((
      SELECT CAST(nullif(current_setting('memdb.scopes', true), '') AS BIGINT[])
    ) AS BIGINT[])),
    true
  )
);
ALTER TABLE tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE tombstones FORCE ROW LEVEL SECURITY;
