"""The SQLite engine: connections, transactions, schema, full text, vectors, maintenance."""
