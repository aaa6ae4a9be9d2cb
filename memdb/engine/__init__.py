"""Places to store: what an engine has to do, and SQLite."""
