"""
Map statements to the kind of thing that they change, for `db.changes`, in both engines.

Each statement begins with its name, and so with the table that it writes to. Three things are not
counted. A new message or session changes no count, because the length of its session tells of it.
So appends stay as fast as they were. Jobs, vectors and uses are nothing that a memory says.
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
    """Return the kind of thing that a statement changes; None for one that is not counted."""
    name = sql[3 : sql.find(" */")] if sql.startswith("/* ") else ""
    return None if name in UNCOUNTED else KINDS.get(name.partition(".")[0])


def kind_loaded(table: str) -> str | None:
    """Return the kind of thing that loaded rows of a table change; None if it is not counted."""
    return "scope" if table == "scopes" else KINDS.get(table)
