"""
Preview of a removal: the rows that will be removed or rewritten, and a digest of all of them.

The digest covers every row of the list in its present state. A removal with that digest happens
only if the list is still the same.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from memdb.errors import existing
from memdb.models.ids import branch_of, number_of, seq_of, session_range
from memdb.models.record import numbered
from memdb.models.reports import PreviewRow
from memdb.tables import artifacts, entries, entry_history, items, messages, sessions
from memdb.tables import state as state_rows
from memdb.tables.artifacts import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from memdb.deletion.selectors import Found, Rewriting, Selection
    from memdb.engine.base import Tx
    from memdb.records.scopes import ScopeRef

    # What tells a row from any other, and from itself after a change; the first is its kind.
    Ref = tuple[Any, ...]

DIGEST_BYTES = 16
MOST_ROWS = 1_000


def list_refs(tx: Tx, found: Iterable[Found], plans: Mapping[int, Rewriting]) -> Iterator[Ref]:
    """Yield the rows to be removed and rewritten, in the order of the preview. 2 µs per message."""
    for owner, selection in found:
        for ref in _refs(tx, owner, selection, plans):
            yield *ref, owner.app


def _refs(
    tx: Tx, owner: ScopeRef, selection: Selection, plans: Mapping[int, Rewriting]
) -> Iterator[Ref]:
    yield from _message_refs(tx, selection)
    yield from _entry_refs(tx, selection)
    newest = artifacts.newest(tx, selection.artifacts)
    for place in selection.artifacts:
        yield "artifact", place, newest[place].info.version if place in newest else 0
    for item_id, stored in sorted(items.get_many(tx, selection.items).items()):
        yield "item", item_id, stored.item
    for name_or_all in selection.state:
        for value in state_rows.list_values(tx, owner.app, owner.user, name_or_all):
            yield "state", name_or_all, *value
    yield from _rest_refs(tx, owner, selection)
    for entry_id, version in selection.reverts:
        now = existing(entries.find(tx, entry_id), "entries")
        yield "revert", entry_id, now, entry_history.get(tx, entry_id, version).text, version
    for part in selection.parts if plans else ():
        for summary, made in plans[part.session].summaries:
            if made is not None:
                yield "summary", summary, made.text, str(part.name), branch_of(part.name)


def _message_refs(tx: Tx, selection: Selection) -> Iterator[Ref]:
    hashes = messages.hashes(tx, [one for part in selection.parts for one in part.ids])
    for part in selection.parts:
        for row_id in part.ids:
            yield "message", row_id, str(part.name), branch_of(part.name), hashes.get(row_id)
    for session, name in selection.whole:
        yield "session", session, str(name), branch_of(name)
        for row_id, content_hash in messages.hashes_between(tx, *session_range(session)):
            yield "message", row_id, str(name), branch_of(name), content_hash


def _entry_refs(tx: Tx, selection: Selection) -> Iterator[Ref]:
    known = entries.get_many(tx, selection.entries)
    for entry_id in selection.entries:
        yield "entry", entry_id, known[entry_id].version
    for entry_id, version, text, *_ in selection.versions:
        yield "version", entry_id, version, text


def _rest_refs(tx: Tx, owner: ScopeRef, selection: Selection) -> Iterator[Ref]:
    values = state_rows.find_values(tx, owner.app, owner.user, selection.keys)
    for name, key in selection.keys:
        yield "state", name, key, values.get((name, key))
    for place, version in selection.copies:
        yield "copy", place, version
    said = sessions.descriptions(tx, [row_id for row_id, _ in selection.titles])
    for row_id, session in selection.titles:
        title, metadata, _ = said[row_id]
        yield "title", title or metadata, str(session), branch_of(session), metadata


def digest_of(refs: Iterator[Ref]) -> str:
    """Return a digest, in hex, of all rows in a preview; no number of a scope is in it."""
    found = blake2b(digest_size=DIGEST_BYTES)
    for kind, of, *rest in refs:
        key = number_of(of) if isinstance(of, int) else of
        if isinstance(of, Place):
            key = of.replace(scope_no=0)
        found.update(repr(numbered((kind, key, *rest))).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def rows_of(tx: Tx, refs: Iterator[Ref]) -> tuple[tuple[PreviewRow, ...], int, str]:
    """Return the first `MOST_ROWS` rows, the number of other rows, and the digest of all."""
    every = list(refs)
    chosen = every[:MOST_ROWS]
    ids = [ref[1] for ref in chosen if ref[0] == "message"]
    texts = messages.get_many(tx, ids) if ids else {}
    stored = entries.get_many(tx, [ref[1] for ref in chosen if ref[0] == "entry"])
    loaded = {**texts, **stored}
    rows = [ROWS[ref[0]](ref, loaded.get(ref[1]) if ref[0] in LOADED else None) for ref in chosen]
    return tuple(rows), len(every) - len(chosen), digest_of(iter(every))


def _message_row(ref: Ref, message: Any) -> PreviewRow:
    _, row_id, session, branch, *_ = ref
    return PreviewRow(
        "message",
        message.text,
        session=session,
        branch=branch or None,
        seq=seq_of(row_id),
        created_ms=message.created_ms,
    )


def _entry_row(_: Ref, entry: Any) -> PreviewRow:
    return PreviewRow(
        "entry",
        entry.text,
        session=entry.session,
        branch=entry.branch,
        seq=entry.first_seq,
        entry_id=entry.id,
        created_ms=entry.created_ms,
    )


def _summary_row(ref: Ref, _: Any) -> PreviewRow:
    _, summary, text, session, branch, _ = ref
    return PreviewRow(
        "summary",
        summary.text or "",
        new_text=text,
        session=session,
        branch=branch or None,
        seq=summary.first_seq,
        last_seq=summary.last_seq,
    )


def _revert_row(ref: Ref, _: Any) -> PreviewRow:
    _, entry_id, now, text, version, _ = ref
    return PreviewRow("entry", now.text, new_text=text, entry_id=entry_id, version=version)


LOADED = ("message", "entry")  # what a page reads the text of
ROWS: dict[str, Callable[[Ref, Any], PreviewRow]] = {
    "message": _message_row,
    "entry": _entry_row,
    "summary": _summary_row,
    "revert": _revert_row,
    "session": lambda ref, _: PreviewRow("session", ref[2], session=ref[2], branch=ref[3] or None),
    "version": lambda ref, _: PreviewRow("version", ref[3], entry_id=ref[1], version=ref[2]),
    "artifact": lambda ref, _: PreviewRow("artifact", ref[1].name, version=ref[2] or None),
    "copy": lambda ref, _: PreviewRow("version", ref[1].name, version=ref[2]),
    "title": lambda ref, _: PreviewRow("title", ref[1], session=ref[2], branch=ref[3] or None),
    "item": lambda ref, _: PreviewRow("item", "/".join((*ref[2].namespace, ref[2].key))),
    "state": lambda ref, _: PreviewRow("state", str(ref[2]), session=ref[1] or None),
}
