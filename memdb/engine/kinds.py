"""
Map statements to the kind of row that they change, for `db.changes` in both engines.

Each statement begins with its name, which contains the table that it writes to. Some changes are
not counted (`compose.Notes`). A new message or session is not counted, because the length
of its session shows it. So counting costs an append nothing. Jobs, vectors and counts of use are
not counted either, because they are no content.
"""

from __future__ import annotations

from memdb.engine import compose

# The kind of thing that a statement on a table changes; other tables have no content.
KINDS = {
    "messages": "message",
    "archive": "message",
    "sessions": "session",
    "entries": "entry",
    "entry_history": "entry",
    "links": "entry",
    "summaries": "summary",
    "artifacts": "artifact",
    "items": "item",
    "state": "state",
    "settings": "settings",
}


def kind_of(sql: str) -> str | None:
    """Return the kind of row that a statement changes; None for one that is not counted."""
    name = sql[3 : sql.find(" */")] if sql.startswith("/* ") else ""
    return KINDS.get(name.partition(".")[0]) if compose.notes_of(sql).is_counted else None


def kind_loaded(table: str) -> str | None:
    """Return the kind of rows loaded into a table; None if it is not counted."""
    return "scope" if table == "scopes" else KINDS.get(table)
