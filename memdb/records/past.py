"""
Entries as the file held them at a time: what it knew then, and what it took for true.
"""

from __future__ import annotations

from memdb.models.messages import Entry
from memdb.tables import entries, entry_history
from memdb.tables import entries as active_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.messages import EntryVersion


def page(tx: Tx, after: int, high: int, *, at_ms: int, **asked: Any) -> list[Entry]:
    """
    Return entries with *after* < id <= *high* as they were at *at_ms*, by id.

    What was deleted since is gone from the past too; how often an entry was
    used by then is not known, so that is 0. Arguments as in `standing.as_of`.
    """
    found = active_entries.list_as_of(tx, after, high, at_ms=at_ms, **asked)
    now = entries.get_many(tx, [entry_id for entry_id, _ in found])
    made = []
    for entry_id, version in found:
        entry = now[entry_id].replace(use_count=0, last_used_ms=None)
        if version is not None:
            entry = _as_entry(entry_history.get(tx, entry_id, version), entry)
        made.append(entry)
    return made


def _as_entry(old: EntryVersion, now: Entry) -> Entry:
    shared = {name: getattr(old, name) for name in Entry._fields if name in old._fields}
    return now.replace(**shared, superseded_by=None)
