"""The PostgreSQL engine: a database on a server; needs the extra `postgres`."""
