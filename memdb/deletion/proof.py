"""
Values for a proof: every text and byte to be forgotten, read while it exists.

The engine searches the file for them afterwards. Every function joins the
caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.fields import PROVED
from memdb.models.ids import MAX_INT, MAX_SEQ, branch_of
from memdb.records import archive as archive_records
from memdb.records import branches
from memdb.tables import (
    archive,
    artifacts,
    blobs,
    entries,
    entry_history,
    items,
    messages,
    sessions,
    summaries,
)
from memdb.tables import state as state_rows
from memdb.text.validate import json_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from memdb.deletion.selectors import Found, Selection
    from memdb.engine.base import Probes, Tx
    from memdb.models.summaries import Summary
    from memdb.records.scopes import ScopeRef
    from memdb.tables.artifacts import Place
    from memdb.tables.items import StoredItem

PAGE = 500


def collect(tx: Tx, found: Iterable[Found], rewritten: Iterable[Summary], probes: Probes) -> None:
    """Add everything that will be removed, and the summaries to be *rewritten*, to *probes*."""
    for summary in rewritten:
        probes.add((summary.text, summary.hint), summary=True)
    for owner, selection in found:
        _collect(tx, owner, selection, probes)


def _collect(tx: Tx, owner: ScopeRef, selection: Selection, probes: Probes) -> None:
    probes.add(_of_messages(tx, selection))
    going = {session for session, _ in selection.whole}
    for session, name in selection.whole:
        probes.add(_of_session(tx, session, name, going))
        probes.add(_of_summaries(tx, session), summary=True)
    histories = entry_history.list_many(tx, selection.entries)
    for entry_id, found in entries.get_many(tx, selection.entries).items():
        probes.add(_said("entry", found))
        for old in histories[entry_id]:
            probes.add(_said("history", old))
    for place in selection.artifacts:
        probes.add(_of_artifact(tx, place))
    for stored in items.get_many(tx, selection.items).values():
        probes.add(_of_item(stored))
    for name_or_all in selection.state:
        rows = state_rows.list_values(tx, owner.app, owner.user, name_or_all)
        probes.add(value for row in rows for value in row)
    _collect_rest(tx, owner, selection, probes)


def _collect_rest(tx: Tx, owner: ScopeRef, selection: Selection, probes: Probes) -> None:
    """Add the removed parts of things that stay."""
    gone = {row[:2] for row in selection.versions}
    for entry_id, versions in entry_history.list_many(tx, [one for one, _ in gone]).items():
        for old in versions:
            if (entry_id, old.version) in gone:
                probes.add(_said("history", old))
    probes.add(key for _, key in selection.keys)
    probes.add(state_rows.find_values(tx, owner.app, owner.user, selection.keys).values())
    for place, number in selection.copies:
        probes.add(_of_artifact(tx, place, number))
    for said in sessions.descriptions(tx, [row_id for row_id, _ in selection.titles]).values():
        probes.add(said[:2])


def _of_messages(tx: Tx, selection: Selection) -> Iterator[str | bytes | None]:
    """Yield what the messages of parts say, as it is stored."""
    for page in archive_records.holding(tx, selection.by_row):
        yield from (one.data for segments in page.values() for one in segments)
    ids = [one for part in selection.parts for one in part.ids]
    for start in range(0, len(ids), PAGE):
        for one in messages.get_many(tx, ids[start : start + PAGE]).values():
            yield from _said("message", one)


def _of_session(
    tx: Tx, session: int, name: str, going: Collection[int]
) -> Iterator[str | bytes | None]:
    """Yield what a whole session says: its name, title and messages, without what others show."""
    title, metadata, after = sessions.descriptions(tx, [session])[session]
    yield from (branch_of(name) or name, title, metadata)
    shown = branches.others_show(tx, session, going)
    while page := messages.list_own(tx, session, name, after, MAX_SEQ, PAGE):
        for one in page:
            if not any(first <= one.seq <= last for first, last in shown):
                yield from _said("message", one)
        after = page[-1].seq
    yield from (one.data for _, one in archive.after(tx, (session, 0), session, MAX_INT))


def _of_summaries(tx: Tx, session: int) -> Iterator[str | None]:
    """Yield the content of the summaries of a whole session."""
    for _, text, hint in summaries.texts(tx, session):
        yield from (text, hint)


def _said(kind: str, record: object) -> Iterator[str | bytes | None]:
    """Yield the content of the fields of a record, in its stored form."""
    for name in PROVED[kind]:
        value = getattr(record, name)
        if isinstance(value, tuple):  # keywords, labels of a namespace
            yield from value
        elif isinstance(value, bytes) or (isinstance(value, str) and name != "value"):
            yield value
        else:
            yield json_value(value, name)


def _of_item(stored: StoredItem) -> Iterator[str | bytes | None]:
    """Yield the namespace, the key, the value and the metadata of an item."""
    yield from _said("item", stored.item)
    yield stored.text


def _of_artifact(tx: Tx, place: Place, version: int | None = None) -> Iterator[str | bytes | None]:
    """Yield the name of an artifact, and the bytes and metadata of each version or of one."""
    if version is None:
        yield place.name
    for stored in artifacts.versions(tx, place):
        if version not in (None, stored.info.version):
            continue
        yield from _said("artifact", stored.info)
        yield from blobs.forms(tx, stored.blob_no)
