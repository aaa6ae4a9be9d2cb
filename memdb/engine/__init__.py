"""Storage engines: the protocols of an engine (`base`), and SQLite."""
