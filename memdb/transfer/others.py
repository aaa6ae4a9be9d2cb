"""
Embedding, state and tombstone lines: their codecs, export and import.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT, scope_range, seq_of, session_of, session_range
from memdb.models.items import MAX_VECTORS
from memdb.models.vectors import to_vector
from memdb.records import dependents as tombstone_records
from memdb.records import spaces
from memdb.records import state as state_records
from memdb.records.spaces import SpaceName
from memdb.tables import entries, items, jobs, messages, sessions, state, tombstones
from memdb.tables import spaces as space_table
from memdb.tables.state import StateRow
from memdb.tables.tombstones import Tombstone
from memdb.text.validate import json_value, name_value, parse_json, text_value
from memdb.transfer.lines import (
    PAGE,
    Codec,
    Item,
    between,
    bytes_value,
    digest_of,
    embedding_jobs,
    flag_value,
    one_of,
    place_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.transfer.lines import Target

MAX_DIM = 65_536

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
    needs="key revision updated_ms",
    checks={
        "key": text_value,
        "revision": between(0, MAX_INT),
        "value": json_value,
    },
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

    Those that were given with an item stand in its line.
    """
    for space_no, model, dim in space_table.list_numbers(tx):
        for of in () if model == space_table.GIVEN else ("message", "entry", "item"):
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
    """Return the uid of each entry whose vector is that of its present text, by id."""
    due = jobs.due(tx, space_no, refs[0], refs[-1], MAX_INT, MAX_INT)
    changed = {job.ref for job in due if job.subject == "entry"}
    found = entries.get_many(tx, [ref for ref in refs if ref not in changed])
    return {ref: {**NO_NAME, "entry": entry.uid} for ref, entry in found.items()}


def _items(tx: Tx, _space_no: int, refs: list[int]) -> dict[int, dict[str, Any]]:
    """Return the uid of the item of each vector, and which of its texts that is of, by ref."""
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
    if row["model"] == space_table.GIVEN:
        raise InvalidInput("model names given vectors: these stand in the line of their item")
    for name in NEEDS[row["of"]]:
        if row[name] is None:
            raise InvalidInput(f"{name} is missing: add it")
    return {**row, "vector": to_vector(row["vector"], row["dim"])}


def write_vectors(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Store the vectors of what the file holds without a vector in their space."""
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
    """Return vector by message id, for the messages that the file holds."""
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
    """Return vector by entry id, for the stored entries whose text is that of the import."""
    by_uid = {row["entry"]: row["vector"] for row in rows if row["of"] == "entry"}
    here = entries.find_uids(tx, *target.span(tx), list(by_uid)) if by_uid else {}
    found = entries.get_many(tx, list(here.values()))
    return {
        entry_id: by_uid[uid]
        for uid, entry_id in here.items()
        if target.texts.get(uid) == digest_of(found[entry_id].text)
    }


def _item_vectors(target: Target, rows: list[dict[str, Any]]) -> dict[int, bytes]:
    """Return vector by ref, for the items that this import added."""
    return {
        target.items[row["item"]][row["place"]]: row["vector"]
        for row in rows
        if row["of"] == "item" and row["place"] < len(target.items.get(row["item"], ()))
    }


def _put(
    target: Target, tx: Tx, space_no: int, kind: str, vectors: dict[int, bytes], old: set[int]
) -> None:
    """Store the vectors of what has none, and of *old*: their stored vector is out of date."""
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
        raise InvalidInput("value is missing: add it, null for none")
    if item.fields.get("user", "") != "":
        raise InvalidInput('user is given: leave it out, or give "" for what is the app\'s own')
    screen, owner = target.services.screen, target.owner
    key = str(item.fields.get("key"))
    fields = screen.pass_line("state", {**item.fields, "value": {key: item.fields["value"]}})
    row = STATE.from_line({**fields, "value": fields["value"][key]})
    return StateRow(
        **{name: row[name] for name in ("key", "revision", "updated_ms")},
        app=owner.app,
        user="" if "user" in item.fields else owner.user,
        session=row["session"] or "",
        value=row["value"] or "null",
    )


def write_state(target: Target, tx: Tx, rows: list[StateRow]) -> None:
    """Add the values whose key is new; the values of another app are left out."""
    owner, ids = target.owner, target.services.db.ids
    for row in rows:
        if target.is_gone(row.session):
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
    """Add tombstones, except of what the file holds: an import removes nothing."""
    tombstone_records.restore(tx, target.owner.ensure(tx), rows)
