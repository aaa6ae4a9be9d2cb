"""
Entry lines: their codecs, export and import.

An exported entry is restored as it was, with its history; a hand-written one
is remembered like any other fact.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING

from memdb.entries.validation import content_columns, screen_entry, validate
from memdb.errors import InvalidInput, existing
from memdb.models.entries import LINK_KINDS, EntryChanges, EntryVersion, NewEntry
from memdb.models.ids import MAX_INT, MAX_SEQ, number_of, scope_range, uuid7
from memdb.records import dependents, entry_writer, links, spaces
from memdb.tables import entries, entry_history
from memdb.tables import links as link_rows
from memdb.text.trust import TRUST, is_less_trusted
from memdb.text.validate import (
    between,
    name_value,
    one_of,
    optional_name,
    share_value,
    text_value,
    time_value,
)
from memdb.transfer.lines import (
    PAGE,
    REFUSALS,
    Codec,
    Item,
    digest_of,
    flag_value,
    located,
    place_name,
    refuse_unknown,
    unchecked,
)

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.entries.validation import Statement
    from memdb.models.entries import Entry
    from memdb.text.screening import SecretScreen
    from memdb.transfer.lines import Target

    Keyed = defaultdict[tuple[str, int | None], list[int]]  # as `entries.list_keyed` returns it

CONTENT = ("text", "category", "keywords", "importance")  # checked by `content_columns`
CHECKS = {
    **dict.fromkeys((*CONTENT, "rejected"), unchecked),
    **dict.fromkeys(("pinned", "active", "session_only"), flag_value),
    **dict.fromkeys(("first_seq", "last_seq"), between(1, MAX_SEQ)),
    "trust": one_of(*TRUST),
    "version": between(1, MAX_INT),
    "superseded_by": name_value,
    "use_count": between(0, MAX_INT),
    "reason": one_of(
        *("update", "merge", "repeat", "supersede", "expire", "evict", "restore", "pin", "trust")
    ),
}
NEEDS = "text category keywords importance version active updated_ms"
ENTRY = Codec(
    "entry",
    needs=f"{NEEDS} use_count created_ms uid",
    checks=CHECKS,
)
VERSION = Codec("history", needs=f"{NEEDS} reason replaced_ms", checks=CHECKS)
LINK = Codec(
    "link",
    needs="older link probability reason model made_ms rejected_ms",
    checks={"link": one_of(*LINK_KINDS), "probability": share_value, "reason": text_value},
)
# A hand-written line has the fields of `remember`, with times in milliseconds
# and the external id of a message.
NEW_FIELDS = {*NewEntry._fields} - {"uid", "shared", "valid_from", "expires"}
NEW_FIELDS |= {"valid_from_ms", "expires_ms", "message"}


def export(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the entries of a scope, active or not, each with its history."""
    after, high = scope_range(scope_no)
    every = entries.EntryFilter(now_ms=0, inactive=True)
    while page := entries.list_page(tx, after, high, limit=PAGE, wanted=every):
        successors = [entry.superseded_by for entry in page if entry.superseded_by is not None]
        uids = {ref: entry.uid for ref, entry in entries.get_many(tx, successors).items()}
        rejected = _rejected(tx, [entry.id for entry in page])
        for entry in page:
            history = [old._asdict() for old in entry_history.list_all(tx, entry.id)]
            successor = None if entry.superseded_by is None else uids.get(entry.superseded_by)
            refused = rejected.get(entry.id)
            given = {"superseded_by": successor, "history": history or None, "rejected": refused}
            yield ENTRY.to_line(entry, given)
        after = page[-1].id


def _rejected(tx: Tx, ids: list[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the rejected links in their exported form, by the id of the newer entry."""
    rows = link_rows.list_rejected(tx, ids)
    olders = entries.get_many(tx, {row["older_id"] for row in rows})
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        line = {**row, "older": olders[row["older_id"]].uid, "link": row["kind"]}
        found.setdefault(row["newer_id"], []).append({name: line[name] for name in LINK.fields})
    return found


def read_entry(target: Target, item: Item) -> Item:
    """
    Return an entry line, checked; with `new` if it is hand-written.

    The entry is screened here, as `remember` screens a new entry, so that a dry run refuses it
    too. The uid of a hand-written one derives from its line, so a second import finds it.
    """
    fields = item.fields
    if fields.get("uid") is not None:
        return Item(item.place, item.kind, _read_exported(target.services.screen, fields))
    refuse_unknown("entry", fields, NEW_FIELDS)
    if fields.get("text") is None:
        raise InvalidInput("text is missing: add it")
    arguments = dict(fields)
    message = optional_name(arguments.pop("message", None), "message")
    for name in ("valid_from_ms", "expires_ms"):
        arguments[name.removesuffix("_ms")] = time_value(arguments.pop(name, None), name)
    new = NewEntry(**arguments)
    new = screen_entry(new, target.services.screen)
    validate(new.replace(seq=None, session_only=None), now_ms=0)
    created_ms = time_value(fields.get("created_ms"), "created_ms")
    optional_name(new.session, "session")
    uid = derived_uid(
        {name: fields[name] for name in fields.keys() - {"updated_ms"}}, created_ms or 0
    )
    return Item(item.place, item.kind, {"uid": uid, "new": new, "message": message})


def named_message(line: Item) -> tuple[str, str | None] | None:
    """Return the session and message that a hand-written line names; None for none."""
    new = line.fields.get("new")
    if new is None or (new.session is None and line.fields["message"] is None):
        return None
    return new.session, line.fields["message"]


def derived_uid(fields: dict[str, Any], created_ms: int) -> str:
    """Return a UUIDv7 that depends only on the line."""
    content = json.dumps(fields, sort_keys=True).encode()
    return uuid7(created_ms, blake2b(content, digest_size=10).digest())


def _read_exported(screen: SecretScreen, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of an exported entry, checked, and its history as rows."""
    row = _columns(ENTRY.from_line(screen.pass_line("entry", fields)))
    if row["session_only"] and row["session"] is None:
        raise InvalidInput("session_only is given without a session: give both or neither")
    history = [] if row["history"] is None else row["history"]
    if not isinstance(history, list) or not all(isinstance(old, dict) for old in history):
        raise InvalidInput("history is not a list of objects: export the entry again")
    versions = [_columns(VERSION.from_line(screen.pass_line("history", old))) for old in history]
    if len({old["version"] for old in versions}) < len(versions):
        raise InvalidInput("history contains a version twice: export the entry again")
    refused = [] if row["rejected"] is None else row["rejected"]
    if not isinstance(refused, list) or not all(isinstance(one, dict) for one in refused):
        raise InvalidInput("rejected is not a list of objects: export the entry again")
    return {**row, "history": versions, "rejected": [LINK.from_line(one) for one in refused]}


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    """Return an entry or old version with its content checked and its defaults added."""
    if (row["first_seq"] is None) != (row["last_seq"] is None):
        raise InvalidInput("first_seq and last_seq belong together: give both or neither")
    return {
        **row,
        **content_columns(*[row[name] for name in CONTENT]),
        "pinned": row["pinned"] or 0,
        "trust": row["trust"] or TRUST[0],
        "session_only": row["session_only"] or 0,
        "stored_ms": row["updated_ms"] if row["stored_ms"] is None else row["stored_ms"],
    }


def write_entries(target: Target, tx: Tx, lines: list[Item]) -> None:
    """
    Add the new entries; stored ones stay unchanged, and forgotten ones are left out.

    Raises:
        InvalidInput: a hand-written line names a session or message that is
            absent.
    """
    if target.services.space is not None:
        spaces.ensure(tx, target.services.space)
    uids = [line.fields["uid"] for line in lines]
    known = entries.find_uids(tx, *target.span(tx), uids)
    forgotten = target.are_forgotten(tx, uids)
    keys = [(line.fields["new"].key,) for line in lines if "new" in line.fields]
    keys = [each for each in keys if isinstance(each[0], str)]
    away = dependents.are_kept_away(tx, target.owner.ensure(tx), "entry", keys)
    keyed = entries.list_keyed(tx, *target.span(tx), [key for (key,) in keys])
    for line in lines:
        row, uid = line.fields, line.fields["uid"]
        is_gone = bool(row.get("session_only")) and target.is_gone(place_name(row))
        is_gone = is_gone or ("new" in row and (row["new"].key,) in away)
        if is_gone or uid in forgotten:
            target.added["forgotten"] += 1
            continue
        if "new" in row:
            added = _remember(target, tx, line, known, keyed)
        else:
            target.texts[uid] = digest_of(row["text"])
            added = uid not in known
            if added:
                known[uid] = _restore(target, tx, row, keyed)
            if row["superseded_by"] is not None:
                target.open_links.append((known[uid], row["superseded_by"], None))
            target.open_links += [(known[uid], one["older"], one) for one in row["rejected"]]
        target.added["entries_added" if added else "entries_known"] += 1
    if target.open_links:
        _link(target, tx)


def _link(target: Target, tx: Tx) -> None:
    """Link entries to their successors, and reject links, if both ends are already stored."""
    uids = sorted({uid for _, uid, _ in target.open_links})
    here = entries.find_uids(tx, *target.span(tx), uids)
    for entry_id, uid, refused in target.open_links:
        entry = entries.find(tx, entry_id)
        if uid not in here or entry is None or here[uid] == entry_id:
            continue
        if refused is not None:
            row = {**refused, "newer_id": entry_id, "older_id": here[uid]}
            links.restore_rejected(tx, {**row, "kind": refused["link"]})
        elif entry.superseded_by is None:
            entries.link(tx, entry_id, here[uid])
    target.open_links = [link for link in target.open_links if link[1] not in here]


def _restore(target: Target, tx: Tx, line: dict[str, Any], keyed: Keyed) -> int:
    """Add an exported entry with its history, and return its id."""
    row = _placed(target, tx, line)
    history = row.pop("history")
    row.pop("rejected")
    row["superseded_by"] = None
    scope_no = target.owner.ensure(tx)
    rival = None
    if entries.states_key(row):
        rival = entries.open_key(tx, scope_no, row["key"], entries.private_to(row))
    if rival is not None:
        _yield_key(target, tx, rival, row)
    versions = [_placed(target, tx, old) for old in history]
    entry_id = entry_writer.restore(tx, scope_no, row, versions, target.services.db.ids)
    if row["key"] is not None:
        keyed[row["key"], entries.private_to(row)].append(entry_id)
    return entry_id


def _placed(target: Target, tx: Tx, line: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the session and seqs of this file instead of those of the import."""
    row = {**line, "session_id": None}
    has_session, session = row["session"] is not None, place_name(row)
    del row["session"], row["branch"]
    if has_session:
        row["session_id"] = target.find_session(tx, session)
        for name in ("first_seq", "last_seq"):
            if row[name] is not None:
                row[name] = target.seq_here(session, row[name])
    return row


def _yield_key(target: Target, tx: Tx, rival: int, row: dict[str, Any]) -> None:
    """
    Keep the stored entry with its key; take newer content of *row* unless its trust is lower.

    The exported entry is stored beside it, as superseded.
    """
    here = existing(entries.find(tx, rival), "entries")
    if row["updated_ms"] > here.updated_ms and not is_less_trusted(row["trust"], here.trust):
        changes = EntryChanges(
            text=row["text"],
            category=row["category"],
            keywords=row["keywords"].split("\n") if row["keywords"] else [],
            importance=row["importance"],
        )
        target.services.entries.update(target.owner, number_of(rival), changes, exported=True)
    row["active"] = 0
    row["superseded_by"] = rival


def _remember(target: Target, tx: Tx, line: Item, known: dict[str, int], keyed: Keyed) -> bool:
    """Remember a hand-written line; False if an earlier import did."""
    new, uid, message = line.fields["new"], line.fields["uid"], line.fields["message"]
    try:
        if message is not None:
            session, seq = target.named_message(tx, new.session, message)
            new = new.replace(session=session, seq=seq)
        key = optional_name(new.key, "key")
        if key is not None:
            return _remember_keyed(target, tx, key, new, keyed)
        if uid in known:
            return False
        done = target.services.entries.add(target.owner, new.replace(uid=uid))
    except REFUSALS as error:
        raise located(line.place, error) from error
    known[uid] = done.entry.id
    if done.entry.uid != uid:  # it is stored already: forgetting that entry forgets this line too
        dependents.stand_for(tx, target.owner.ensure(tx), uid, done.entry.id)
    return True


def _remember_keyed(target: Target, tx: Tx, key: str, new: NewEntry, keyed: Keyed) -> bool:
    """
    Remember a fact with a key, unless its entry already had this content.

    A second import reads the contents in the order of the first, so each is searched after the one
    before it. A content that returns later in the file is remembered again.
    """
    private_to: int | None = 0
    if new.session_only and new.session is not None:
        private_to = target.find_session(tx, new.session)
    ids = keyed[key, private_to]
    known = entries.get_many(tx, ids)
    contents: list[tuple[object, ...]] = []
    for ref in ids:
        contents += [_content(old) for old in entry_history.list_all(tx, ref)]
        contents.append(_content(known[ref]))
    chain = [content for content, _ in groupby(contents)]
    statement = validate(new.replace(seq=None, session_only=None), now_ms=0)
    places = [place for place, content in enumerate(chain) if _is_said(statement, content)]
    start = target.repeated.get((key, private_to), 0)
    if 0 < start < len(chain) and start - 1 in places:
        return False
    later = [place for place in places if place >= start]
    if later:
        target.repeated[key, private_to] = later[0] + 1
        return False
    done = target.services.entries.add(target.owner, new)
    added = done.action != "repeated" or done.entry != done.other
    if done.entry.id not in ids:
        ids.append(done.entry.id)
    target.repeated[key, private_to] = len(chain) + added
    return added


def _is_said(statement: Statement, content: tuple[object, ...]) -> bool:
    """Return whether a version has the content of a statement, whose category may be absent."""
    return all(
        getattr(statement, name) == value or (name == "category" and name not in statement.given)
        for name, value in zip(CONTENT, content, strict=True)
    )


def _content(version: Entry | EntryVersion) -> tuple[object, ...]:
    return version.text, version.category, "\n".join(version.keywords), version.importance
