#!/bin/sh
# Runs once, when the data folder is new: a plain role that owns the database, and one that only
# reads, as which `db.query` runs. memdb never connects as a superuser.
set -e
psql -v ON_ERROR_STOP=1 -v password="$(cat "${PASSWORD_FILE:-/run/secrets/password}")" \
  -d postgres <<'END'
CREATE ROLE memdb_reader;
CREATE ROLE memdb LOGIN PASSWORD :'password';
GRANT memdb_reader TO memdb WITH INHERIT FALSE, SET TRUE;
CREATE DATABASE memdb OWNER memdb ENCODING 'UTF8' TEMPLATE template0;
\connect memdb
CREATE EXTENSION vector;
ALTER DEFAULT PRIVILEGES FOR ROLE memdb GRANT SELECT ON TABLES TO memdb_reader;
END
