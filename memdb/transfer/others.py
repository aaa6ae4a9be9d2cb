"""
Summary, item, embedding, state and tombstone lines: their codecs, export and import.

A summary is added only if its messages are unchanged here since the export. So it restores nothing
that was forgotten. An exported item keeps its version and times; a hand-written one needs a
namespace, a key and a value. An item whose key has a value here is left out.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.ids import (
    MAX_INT,
    MAX_SEQ,
    scope_of,
    scope_range,
    seq_of,
    session_of,
    session_range,
)
from memdb.models.items import MAX_TTL_MS, MAX_VECTORS, PutItem
from memdb.models.record import Record
from memdb.models.summaries import QUALITIES
from memdb.models.vectors import MAX_DIM, to_vector
from memdb.records import dependents as dependent_records
from memdb.records import items as item_records
from memdb.records import spaces
from memdb.records import state as state_records
from memdb.records import summaries as summary_records
from memdb.records.items import Imported
from memdb.records.spaces import SpaceName
from memdb.summaries.planning import is_next
from memdb.tables import (
    entries,
    items,
    jobs,
    messages,
    scopes,
    sessions,
    state,
    summaries,
    tombstones,
)
from memdb.tables import spaces as space_rows
from memdb.tables.items import FIRST
from memdb.tables.state import StateRow
from memdb.tables.tombstones import Tombstone
from memdb.text.derived import bigrams_of
from memdb.text.trust import FLAGGED, UNTRUSTED, trust_of_summary
from memdb.text.validate import between, json_value, name_value, one_of, parse_json, text_value
from memdb.transfer.lines import (
    PAGE,
    Codec,
    Item,
    bytes_value,
    digest_of,
    embedding_jobs,
    flag_value,
    place_name,
    unchecked,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.summaries import Summary
    from memdb.records.items import ItemDraft
    from memdb.tables.items import Cursor, StoredItem
    from memdb.transfer.lines import Target


EMBEDDING = Codec(
    "embedding",
    "model dim of session branch seq entry item place vector",
    needs="model dim of vector",
    checks={
        "dim": between(1, MAX_DIM),
        "of": one_of("message", "entry", "item"),
        "item": name_value,
        "place": between(0, MAX_VECTORS),
        "vector": bytes_value,
    },
)
STATE = Codec(
    "state",
    needs="key version updated_ms",
    checks={"key": text_value, "version": between(0, MAX_INT), "value": json_value},
)
TOMBSTONE = Codec(
    "tombstone",
    needs="of ref deleted_ms uid",
    checks={
        "of": one_of("session", "message", "entry", "item", "artifact"),
        "ref": text_value,
        "forgotten": flag_value,
    },
)


def export_vectors(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """
    Yield the vectors of the messages, entries and items of a scope, space by space.

    Vectors that were given with an item are in its line.
    """
    for space_no, model, dim in space_rows.list_numbers(tx):
        for of in () if model == space_rows.GIVEN else ("message", "entry", "item"):
            after, high = scope_range(scope_no)
            while page := tx.vectors.list_page(space_no, of, after, high, PAGE):
                refs = [ref for ref, _ in page]
                named = _NAMES[of](tx, space_no, refs)
                for ref, vector in page:
                    if ref in named:
                        coded = b64encode(vector).decode()
                        given = {"model": model, "dim": dim, "of": of, "vector": coded}
                        yield EMBEDDING.to_line(None, {**given, **named[ref]})
                after = page[-1][0]


def _messages(tx: Tx, _space_no: int, refs: list[int]) -> dict[int, dict[str, Any]]:
    """Return session and seq of each message that exists, by id."""
    found = messages.uids(tx, refs)
    held = sorted({session_of(ref) for ref in found})
    names, branches = sessions.names(tx, held), sessions.branch_names(tx, held)
    return {
        ref: {
            **NO_NAME,
            "session": names[session_of(ref)],
            "branch": branches.get(session_of(ref)),
            "seq": seq_of(ref),
        }
        for ref in found
    }


def _entries(tx: Tx, space_no: int, refs: list[int]) -> dict[int, dict[str, Any]]:
    """Return the uid of each entry whose vector belongs to its present text, by id."""
    due = jobs.due(tx, space_no, refs[0], refs[-1], MAX_INT, MAX_INT)
    changed = {job.ref for job in due if job.subject == "entry"}
    found = entries.get_many(tx, [ref for ref in refs if ref not in changed])
    return {ref: {**NO_NAME, "entry": entry.uid} for ref, entry in found.items()}


def _items(tx: Tx, _space_no: int, refs: list[int]) -> dict[int, dict[str, Any]]:
    """Return, by ref of a vector, the uid of its item and the number of the text."""
    owners = items.find_owners(tx, refs)
    found = items.get_many(tx, {*owners.values()})
    return {
        ref: {**NO_NAME, "item": stored.item.uid, "place": ref - stored.refs[0]}
        for ref, owner in owners.items()
        if (stored := found.get(owner)) is not None
    }


NO_NAME = dict.fromkeys(("session", "branch", "seq", "entry", "item", "place"))
_NAMES = {"message": _messages, "entry": _entries, "item": _items}


NEEDS = {"message": ("session", "seq"), "entry": ("entry",), "item": ("item", "place")}


def read_vector(_target: Target, item: Item) -> dict[str, Any]:
    """Return the fields of an embedding line, checked."""
    row = EMBEDDING.from_line(item.fields)
    if row["model"] == space_rows.GIVEN:
        raise InvalidInput(
            "model is the name for given vectors: put these into the line of their item"
        )
    for name in NEEDS[row["of"]]:
        if row[name] is None:
            raise InvalidInput(f"{name} is missing: add it")
    return {**row, "vector": to_vector(row["vector"], row["dim"])}


def write_vectors(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Store the vectors of stored texts that lack one in their space."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["dim"]), []).append(row)
    for (model, dim), group in groups.items():
        space_no = spaces.restore(tx, SpaceName(model, dim))
        _put(target, tx, space_no, "message", _message_vectors(target, tx, space_no, group), set())
        for kind, vectors in (
            ("entry", _entry_vectors(target, tx, group)),
            ("item", _item_vectors(target, group)),
        ):
            due = [job for ref in vectors for job in embedding_jobs(tx, space_no, kind, ref)]
            _put(target, tx, space_no, kind, vectors, {job.ref for job in due})
            for job in due:
                jobs.done(tx, job)


def _message_vectors(
    target: Target, tx: Tx, space_no: int, rows: list[dict[str, Any]]
) -> dict[int, bytes]:
    """Return the vectors by message id, for the stored messages."""
    vectors = {}
    for row in rows:
        if row["of"] == "message":
            name = place_name(row)
            session = target.find_session(tx, name)
            if session is not None:
                vectors[session | target.seq_here(name, row["seq"])] = row["vector"]
                target.embedded.add((space_no, session))
    here = messages.uids(tx, list(vectors))
    return {ref: vector for ref, vector in vectors.items() if ref in here}


def _entry_vectors(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> dict[int, bytes]:
    """Return the vectors by entry id, for the stored entries with the text of the import."""
    by_uid = {row["entry"]: row["vector"] for row in rows if row["of"] == "entry"}
    here = entries.find_uids(tx, *target.span(tx), list(by_uid)) if by_uid else {}
    found = entries.get_many(tx, list(here.values()))
    return {
        entry_id: by_uid[uid]
        for uid, entry_id in here.items()
        if target.texts.get(uid) == digest_of(found[entry_id].text)
    }


def _item_vectors(target: Target, rows: list[dict[str, Any]]) -> dict[int, bytes]:
    """Return the vectors by ref, for the items that this import added."""
    return {
        target.items[row["item"]][row["place"]]: row["vector"]
        for row in rows
        if row["of"] == "item" and row["place"] < len(target.items.get(row["item"], ()))
    }


def _put(
    target: Target, tx: Tx, space_no: int, kind: str, vectors: dict[int, bytes], old: set[int]
) -> None:
    """Store missing vectors, and those of *old*, whose stored vector is outdated."""
    here = tx.vectors.present(space_no, kind, vectors) - old
    fresh = [(ref, vector) for ref, vector in vectors.items() if ref not in here]
    spaces.put(tx, space_no, kind, fresh)
    target.added["embeddings_added"] += len(fresh)


def settle_sessions(target: Target, tx: Tx) -> None:
    """Move the embedding jobs of sessions to the first message without a vector."""
    for space_no, session in sorted(target.embedded):
        _, high = session_range(session)
        for job in embedding_jobs(tx, space_no, "session", session):
            missing = tx.vectors.first_missing(space_no, session | job.next_seq, high)
            if missing is None:
                jobs.done(tx, job)
            else:
                jobs.advance(tx, job, missing - session)
    target.embedded.clear()


def export_state(tx: Tx, app: str, user: str) -> Iterator[dict[str, Any]]:
    """Yield the values of a user under keys; *user* "" means those of the app itself."""
    page = state.list_page(tx, app, user, limit=PAGE)
    while page:
        for row in page:
            given = {"user": None if user else "", "session": row.session or None}
            # Null is a value here, not an absent field.
            yield {**STATE.to_line(row, {**given, "value": None}), "value": parse_json(row.value)}
        page = state.list_page(tx, app, user, after=page[-1], limit=PAGE)


def read_state(target: Target, item: Item) -> StateRow:
    """Return the row of a state line, checked; its user is "" if it belongs to the app."""
    if "value" not in item.fields:
        raise InvalidInput("value is missing: add it (null for no value)")
    if item.fields.get("user", "") != "":
        raise InvalidInput('user is given: leave it out, or give "" for state of the app')
    screen, owner = target.services.screen, target.owner
    key = str(item.fields.get("key"))
    fields = screen.pass_line("state", {**item.fields, "value": {key: item.fields["value"]}})
    row = STATE.from_line({**fields, "value": fields["value"][key]})
    return StateRow(
        **{name: row[name] for name in ("key", "version", "updated_ms")},
        app=owner.app,
        user="" if "user" in item.fields else owner.user,
        session=row["session"] or "",
        value=row["value"] or "null",
    )


def write_state(target: Target, tx: Tx, rows: list[StateRow]) -> None:
    """Add the values whose key is new; the values that another app shares are left out."""
    owner, ids = target.owner, target.services.db.ids
    own = [row for row in rows if row.user]
    away = state_records.find_kept_away(tx, owner, own) if own else []
    for row in rows:
        if target.is_gone(row.session) or row in away:
            target.added["forgotten"] += 1
        elif row.user or target.file_app == owner.app:
            target.added["state_added"] += state_records.restore(tx, owner, row, ids)


def export_tombstones(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the tombstones of a scope."""
    page = tombstones.list_page(tx, scope_no, limit=PAGE)
    while page:
        for stone in page:
            given = {"of": stone.kind, "forgotten": stone.forgotten or None}
            yield TOMBSTONE.to_line(stone, given)
        page = tombstones.list_page(tx, scope_no, after=page[-1].uid, limit=PAGE)


def read_tombstone(target: Target, item: Item) -> Tombstone:
    """Return the row of a tombstone line, checked and screened."""
    row = TOMBSTONE.from_line(target.services.screen.pass_line("tombstone", item.fields))
    forgotten = bool(row["forgotten"])
    return Tombstone(row["uid"], row["of"], row["ref"], row["deleted_ms"], forgotten)


def write_tombstones(target: Target, tx: Tx, rows: list[Tombstone]) -> None:
    """Add tombstones, except those of stored rows, because an import removes nothing."""
    dependent_records.restore(tx, target.owner.ensure(tx), rows)


def _vectors(value: object, field: str) -> list[bytes]:
    if not isinstance(value, list):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a list of base64 texts")
    return [bytes_value(each, field) for each in value]


ITEM = Codec(
    "item",
    needs="namespace key",
    exported_needs="version created_ms updated_ms uid",
    exported_only="version created_ms updated_ms expires_ms uid",
    checks={
        "namespace": unchecked,
        "key": unchecked,
        "version": between(1, MAX_INT),
        "metadata": unchecked,
        "ttl_ms": between(1, MAX_TTL_MS),
        "index": unchecked,
        "vectors": _vectors,
        "value": unchecked,
        "data": bytes_value,
    },
)


class ItemLine(Record):
    """An item line, checked; *was* has the fields of an exported one, else None."""

    draft: ItemDraft
    was: Imported | None


def export_items(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the items of a scope, by namespace and key."""
    for _, path in items.list_namespaces(tx, scope_no, "", chr(0x10FFFF)):
        cursor: Cursor | None = FIRST
        while cursor is not None:
            page, cursor = items.list_page(tx, scope_no, path, "key", cursor, PAGE)
            stored = items.get_many(tx, [item.id for item in page])
            yield from (_item_line(tx, stored[item.id]) for item in page)


def _item_line(tx: Tx, stored: StoredItem) -> dict[str, Any]:
    item = stored.item
    is_bytes = isinstance(item.value, bytes)
    vectors = [b64encode(vector).decode() for vector in item_records.list_given(tx, stored)]
    given = {
        "vectors": vectors or None,
        "namespace": list(item.namespace),
        "index": None if stored.search_fields is None else json.loads(stored.search_fields),
        "data": b64encode(item.value).decode() if is_bytes else None,
        "value": None,
    }
    line = ITEM.to_line(item, given)
    # Null is a value here, not an absent field.
    return line if is_bytes else {**line, "value": item.value}


def read_item(target: Target, item: Item) -> ItemLine:
    """Return an item line, checked and screened."""
    exported = "uid" in item.fields
    row = ITEM.from_line(item.fields, exported=exported)
    if ("value" in item.fields) == (row["data"] is not None):
        raise InvalidInput("an item needs value or data (base64): give one of them")
    target.services.screen.pass_fields("item", {"uid": row["uid"], "writer": row["writer"]})
    index = row["index"] if exported or "index" in item.fields else True
    value = row["value"] if row["data"] is None else row["data"]
    new = PutItem(
        row["namespace"],
        row["key"],
        value,
        row["metadata"],
        index=False if index is None else index,
        vectors=row["vectors"],
    )
    draft = target.services.items.draft(new).replace(
        ttl_ms=row["ttl_ms"],
        writer=row["writer"] or (None if exported else target.services.db.written_by),
    )
    if not exported:
        return ItemLine(draft, None)
    if (row["ttl_ms"] is None) != (row["expires_ms"] is None):
        raise InvalidInput("ttl_ms and expires_ms must be given together: give both or neither")
    return ItemLine(draft, Imported(*(row[name] for name in Imported._fields)))


def write_items(target: Target, tx: Tx, lines: list[ItemLine]) -> None:
    """Add the items with new keys; stored ones stay unchanged, and forgotten ones are left out."""
    scope_no = target.owner.ensure(tx)
    forgotten = target.are_forgotten(tx, [line.was.uid for line in lines if line.was is not None])
    names = {id(line): (line.draft.path, line.draft.key) for line in lines if line.was is None}
    away = dependent_records.are_kept_away(tx, scope_no, "item", [*names.values()])
    ids = target.services.db.ids
    for line in lines:
        if (line.was is not None and line.was.uid in forgotten) or names.get(id(line)) in away:
            target.added["forgotten"] += 1
            continue
        was = line.was
        if was is None:
            ends = None if line.draft.ttl_ms is None else tx.now_ms + line.draft.ttl_ms
            was = Imported(ids(tx.now_ms), 1, tx.now_ms, tx.now_ms, ends)
        added = item_records.restore(tx, scope_no, line.draft, was)
        if added is not None and added.embedded:
            target.items[was.uid] = added.refs
        target.added["items_known" if added is None else "items_added"] += 1


SUMMARY = Codec(
    "summary",
    needs="session depth first_seq last_seq quality summarizer trust tokens counter created_ms "
    "source_hash",
    checks={
        "depth": between(0, summaries.MAX_DEPTH),
        "first_seq": between(1, MAX_SEQ),
        "last_seq": between(1, MAX_SEQ),
        "text": text_value,
        "hint": text_value,
        "quality": one_of(*QUALITIES),
        "summarizer": text_value,
        "trust": one_of(UNTRUSTED, FLAGGED),
        "tokens": between(0, MAX_INT),
        "counter": text_value,
        "source_hash": text_value,
    },
)
COPIED = (
    *("depth", "first_seq", "last_seq", "text", "hint", "quality", "summarizer", "trust"),
    *("tokens", "counter", "created_ms"),
)


def export_summaries(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the summaries of a scope, session by session, leaves first; then of branches."""
    after, high = scope_range(scope_no)
    while page := sessions.list_by_id(tx, after, high, limit=PAGE):
        for session, _ in page:
            yield from summary_lines(tx, session)
        after = page[-1][0]
    after, high = scope_range(scope_no)
    while rows := sessions.list_all_branches(tx, after, high, PAGE):
        for row, _, _ in rows:
            yield from summary_lines(tx, row)
        after = rows[-1][0]


def summary_lines(tx: Tx, session: int) -> Iterator[dict[str, Any]]:
    """Yield the summaries of a session or a branch."""
    for summary in _of_session(tx, session):
        source = messages.span_hash(tx, session, summary.first_seq, summary.last_seq)
        yield SUMMARY.to_line(summary, {"source_hash": source})


def _of_session(tx: Tx, session: int) -> Iterator[Summary]:
    for depth in range(summaries.MAX_DEPTH + 1):
        found = summaries.list_depth(tx, session, depth)
        if not found:
            return
        yield from found


def read_summary(target: Target, item: Item) -> dict[str, Any]:
    """Return the fields of a summary line, checked and screened."""
    row = SUMMARY.from_line(target.services.screen.pass_line("summary", item.fields))
    if row["text"] is None and row["quality"] != "extractive":
        raise InvalidInput("text is missing: add it, as only an extract can be computed again")
    return row


def write_summaries(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """
    Add the summaries that come next in their session and cover its messages.

    A summary by a model replaces one that no model wrote.
    """
    for row in sorted(rows, key=lambda row: int(row["depth"])):
        into = target.sessions.get(place_name(row))
        if into is None or not into.own:
            continue
        session, depth, span = into.id, row["depth"], (row["first_seq"], row["last_seq"])
        known = sessions.identity(tx, session)
        if known is None or messages.span_hash(tx, session, *span) != row["source_hash"]:
            continue
        columns = {
            **{column: row[column] for column in COPIED},
            "bigrams": None if row["text"] is None else bigrams_of(row["text"]),
            "trust": trust_of_summary(row["text"] or "", row["trust"]),
        }
        if not is_next(tx, session, known[0], depth, *span):
            for one in (
                summaries.list_depth(tx, session, depth) if row["quality"] == "model" else ()
            ):
                if (one.first_seq, one.last_seq) == span and one.quality != "model":
                    summary_records.rewrite(tx, (one, columns, False))
            continue
        place = {"id": scopes.next_id(tx, scope_of(session)), "session_id": session}
        uid = summaries.node_uid(known[1], depth, *span)
        summary_records.insert(tx, {**place, "uid": uid, **columns}, improvable=False)
        target.added["summaries_added"] += 1
