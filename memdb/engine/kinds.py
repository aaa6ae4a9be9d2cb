"""
Map statements to the kind of row that they change, for `db.changes` in both engines.

Each statement begins with its name, which contains the table that it writes to. Some changes are
not counted. A new message or session is not counted, because the length of its session shows it. So
appends stay as fast as they were. Jobs, vectors and counts of use are not counted either, because
they are no content.
"""

from __future__ import annotations

# The kind of thing that a statement on a table changes; other tables hold nothing said.
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

# Statements on those tables that are not counted.
UNCOUNTED = {
    "messages.insert": "its session is longer",
    "sessions.insert": "there is one more",
    "sessions.insert_branch": "there is one more",
    "sessions.count": "beside what it counts",
    "sessions.next_no": "before one is made",
    "sessions.advance": "its session is longer",
    "sessions.raise_seq": "its session is longer",
    "sessions.insert_tombstone": "beside sessions.delete",
    "entries.used": "looking changes nothing",
    "entries.insert_tombstone": "beside entries.delete",
    "artifacts.insert_tombstone": "beside artifacts.delete",
    "items.refresh": "looking changes nothing",
}


def kind_of(sql: str) -> str | None:
    """Return the kind of row that a statement changes; None for one that is not counted."""
    name = sql[3 : sql.find(" */")] if sql.startswith("/* ") else ""
    return None if name in UNCOUNTED else KINDS.get(name.partition(".")[0])


def kind_loaded(table: str) -> str | None:
    """Return the kind of rows loaded into a table; None if it is not counted."""
    return "scope" if table == "scopes" else KINDS.get(table)
