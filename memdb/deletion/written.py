"""
Rows of a writer that `Scope.undo` removes, and versions that it restores.

Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.ids import number_of, scope_range, seq_of, session_of, stored_ms
from memdb.models.record import Record
from memdb.tables import artifacts, entries, entry_history, items, messages

if TYPE_CHECKING:
    from memdb.engine.base import Row, Tx
    from memdb.models.entries import Entry, EntryVersion
    from memdb.tables.artifacts import Place

# Entries that memdb learnt from messages have a writer that begins so.
LEARNT = "extracted:"


class Written(Record):
    """
    Rows that a writer stored in a scope since a time.

    Attributes:
        messages: Seqs by the row of their session.
        entries: Ids of entries that nobody else changed, and of those learnt from the messages.
        reverts: Versions to restore, by the id of an entry that others wrote before.
        versions: (entry, version, text, keywords, metadata): the writer's words for an entry that
            stays.
        items: Ids of items whose first value is the writer's.
        copies: (place, version) of artifacts.
        left: Rows that stay as the writer left them, with reasons.
    """

    messages: dict[int, list[int]]
    entries: dict[int, None]
    reverts: dict[int, int]
    versions: list[Row]
    items: list[int]
    copies: list[tuple[Place, int]]
    left: list[str]


def find_written(tx: Tx, scope_no: int, writer: str, since_ms: int) -> Written:
    """
    Return the rows that *writer* stored in a scope since a time.

    The call reads all of the writer's messages.
    """
    found = Written({}, {}, {}, [], [], [], [])
    span = scope_range(scope_no)
    for row_id, uid, created_ms in messages.written(tx, *span, writer):
        if stored_ms(uid, created_ms) >= since_ms:
            found.messages.setdefault(session_of(row_id), []).append(seq_of(row_id))
    ids = entry_history.written(tx, *span, writer, since_ms)
    histories = entry_history.list_many(tx, ids)
    for entry in entries.get_many(tx, ids).values():
        _sort(entry, histories[entry.id], writer, since_ms, found)
    _add_learnt(tx, found)
    _keep_keys(tx, scope_no, found)
    for item_id, version, key in items.written(tx, *span, writer, since_ms):
        if version == 1:
            found.items.append(item_id)
        else:
            found.left.append(f"item {key!r}: no value before version {version} is kept")
    for place, stored in artifacts.list_versions(tx, scope_no):
        one = stored.info
        if one.writer == writer and stored_ms(one.uid, one.created_ms) >= since_ms:
            found.copies.append((place, one.version))
    return found


def _add_learnt(tx: Tx, found: Written) -> None:
    """Add the entries that memdb learnt from the messages."""
    for entry in entries.get_many(tx, entries.list_from(tx, found.messages)).values():
        if (entry.writer or "").startswith(LEARNT):
            found.entries[entry.id] = None
            found.reverts.pop(entry.id, None)


def _sort(
    entry: Entry, old: list[EntryVersion], writer: str, since_ms: int, found: Written
) -> None:
    """Add to *found* whether an entry of the writer is removed, reverted or kept."""

    def is_its(one: Entry | EntryVersion) -> bool:
        return one.writer == writer and one.stored_ms >= since_ms

    was = [one for one in old if one.reason != "repeat"]  # what is repeated, it never was
    steps: list[Entry | EntryVersion] = [*was, entry]
    others = [one.version for one in steps if not is_its(one)]
    if not others:
        found.entries[entry.id] = None
        return
    found.versions.extend(
        (entry.id, one.version, one.text, "", None)
        for one in old
        if one.reason == "repeat" and is_its(one)
    )
    if others[-1] != entry.version:
        found.reverts[entry.id] = others[-1]
    elif any(map(is_its, was)):
        found.left.append(f"entry {number_of(entry.id)}: others changed it since")


def _keep_keys(tx: Tx, scope_no: int, found: Written) -> None:
    """Keep an entry as it is if its earlier key now belongs to another remaining entry."""
    for entry_id, version in [*found.reverts.items()]:
        was = entry_history.row(tx, entry_id, version)
        if was["active"]:
            holder = entries.open_key(tx, scope_no, was["key"], entries.private_to(was))
            if holder not in (None, entry_id, *found.entries, *found.reverts):
                del found.reverts[entry_id]
                number = number_of(entry_id)
                found.left.append(f"entry {number}: others stated {was['key']!r} since")
