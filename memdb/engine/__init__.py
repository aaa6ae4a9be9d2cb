"""Storage engines: the protocols of one (`base`), and SQLite."""
