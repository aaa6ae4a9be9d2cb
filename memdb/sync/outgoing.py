"""
The lines of a segment: the things that changed since the last one, in the form of an export.

Each line also has the stamp of its change. A removed thing is a line `gone`, which identifies it by
its hash only.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from memdb.errors import existing
from memdb.models.ids import is_branch, seq_of, session_of, thing_hash
from memdb.models.items import path_of
from memdb.models.record import Record
from memdb.records.messages import MOVED
from memdb.sync.clock import APPENDED, stamp_of
from memdb.sync.tree import Tree
from memdb.tables import artifacts, entries, messages, scopes, sessions, state, summaries, synced
from memdb.transfer import artifacts as artifact_lines
from memdb.transfer import entries as entry_lines
from memdb.transfer import messages as message_lines
from memdb.transfer import others

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Tx
    from memdb.sync.device import Device

    # By scope and kind.
    Changes = dict[int, dict[str, list["Sent"]]]

    Line = dict[str, Any]


# Fields that name the thing of a line, by kind; others are named by their uid.
_NAMES = {
    "session": ("name",),
    "branch": ("session", "name"),
    "summary": ("session", "branch", "depth", "first_seq", "last_seq"),
    "item": ("namespace", "key"),
    "state": ("app", "user", "session", "key"),
}


def thing_of(kind: str, line: Line) -> int:
    """Return the hash that identifies the record of a line, by its naming fields."""
    if kind == "message":
        return synced.message_thing(line["uid"])
    named = [line.get(name) for name in _NAMES.get(kind, ("uid",))]
    return thing_hash(
        *(
            path_of(tuple(one)) if isinstance(one, list) else "" if one is None else one
            for one in named
        )
    )


class Sent(Record):
    """
    A thing in a segment.

    Attributes:
        stamp: Time of its change; for a message, version or artifact 0 until it changes.
        place: Its place; None if it was removed.
        gone: 1 if it was deleted, 2 if it was forgotten.
    """

    thing: int
    version: int
    stamp: int
    place: int | str | None
    gone: int = 0


def collect(tx: Tx, device: Device, now_ms: int, *, is_full: bool) -> Changes:
    """Return the differences from the state in the folder; everything if *is_full*."""
    found: Changes = {}
    now = stamp_of(now_ms, device.id, device.stamp)
    counts = count_forgotten(tx)
    forgotten = {(one, thing) for one, kind, thing in synced.forgotten(tx) if kind == "entry"}
    for kind, scope_no, thing, gone, stamp in synced.gone(tx) if is_full else ():
        sent = Sent(thing, 0, min(stamp, now), None, gone)
        found.setdefault(scope_no, {}).setdefault(kind, []).append(sent)
    for kind in synced.THINGS:
        for scope_no, thing, version, ms, place, old, is_fresh in synced.things(
            tx, kind, is_full=is_full
        ):
            stamp = min(old or 0, now)  # one of a clock that was ahead is none
            if is_fresh and (kind not in APPENDED or old is not None or ms):
                stamp = stamp_of(min(ms or now_ms, now_ms), device.id, device.stamp)
            sent = Sent(thing, version, stamp, place)
            found.setdefault(scope_no, {}).setdefault(kind, []).append(sent)
        removed = synced.removed(tx, kind)
        times = synced.deleted(tx, kind) if removed else {}
        for scope_no, thing, old in removed:
            is_forgotten = counts[str(scope_no)] > device.forgot.get(str(scope_no), 0)
            if kind == "entry":
                is_forgotten = (scope_no, thing) in forgotten
            stamp = now
            if not is_forgotten:  # of no known time: later than what was seen, and no more
                ms, last = times.get((scope_no, thing), 0), max(device.stamp, min(old, now))
                stamp = min(stamp_of(min(ms, now_ms), device.id, last), now)
            sent = Sent(thing, 0, stamp, None, 2 if is_forgotten else 1)
            found.setdefault(scope_no, {}).setdefault(kind, []).append(sent)
    return found


def count_forgotten(tx: Tx) -> Counter[str]:
    """Return the number of forgotten things of each scope."""
    return Counter(str(scope_no) for scope_no, _, _ in synced.forgotten(tx))


def agree(tx: Tx, changes: Changes) -> None:
    """Store that the folder has *changes*."""
    for scope_no, kinds in changes.items():
        for kind, sent in kinds.items():
            rows = [(one.thing, one.version, one.gone, one.stamp) for one in sent]
            synced.put(tx, kind, scope_no, rows)


def list_lines(tx: Tx, changes: Changes) -> Iterator[Line]:
    """Yield the lines for *changes*."""
    for scope_no, app, user in scopes.list_all(tx):
        if scope_no in changes:
            yield {"kind": "scope", "app": app, "user": user}
            yield from _scope_lines(tx, scope_no, changes[scope_no])
    for sent in changes.get(0, {}).get("state", ()):
        if sent.place is None:
            yield _gone_line("state", sent)
        else:
            app, user, session, key = json.loads(str(sent.place))
            row = state.find(tx, (app, user, session), key)
            if row is not None:
                given = {"user": user, "session": session or None, "value": json.loads(row.value)}
                yield {**others.STATE.to_line(row, given), **given, "app": app, "stamp": sent.stamp}


def _gone_line(kind: str, sent: Sent) -> Line:
    line = {"kind": "gone", "of": kind, "thing": sent.thing, "stamp": sent.stamp}
    return {**line, "forgotten": True} if sent.gone > 1 else line


def _scope_lines(tx: Tx, scope_no: int, kinds: dict[str, list[Sent]]) -> Iterator[Line]:
    here: dict[str, dict[int, Sent]] = {}
    for kind, sent in kinds.items():
        here[kind] = {one.thing: one for one in sent if one.place is not None}
        yield from (_gone_line(kind, one) for one in sent if one.place is None)
    stamps = {int(one.place or 0): one.stamp for one in here.get("session", {}).values()}
    for row, info in list_infos(tx, [*stamps]):
        given = {"last_seq": None, "extracted_seq": None}
        yield {**message_lines.SESSION.to_line(info, given), "stamp": stamps[row]}
    trees: dict[int, Tree] = {}
    yield from _branch_lines(tx, here.get("branch", {}), trees)
    yield from _message_lines(tx, here.get("message", {}), trees)
    yield from _summary_lines(tx, here.get("summary", {}))
    yield from _entry_lines(tx, scope_no, here.get("entry", {}), here.get("version", {}))
    for one in here.get("link", {}).values():
        older = existing(entries.find(tx, int(one.place or 0)), "entries")
        newer = existing(entries.find(tx, older.superseded_by or 0), "entries")
        yield {"kind": "link", "uid": older.uid, "newer": newer.uid, "stamp": one.stamp}
    stamps = {thing: one.stamp for thing, one in here.get("artifact", {}).items()}
    if stamps:
        wanted = lambda uid: thing_hash(uid) in stamps  # noqa: E731 (a predicate)
        first = artifacts.first_numbers(tx, scope_no)
        for line in artifact_lines.export(tx, scope_no, wanted):
            if line["kind"] == "artifact":
                line["stamp"] = stamps[thing_hash(line["uid"])]
                line["version"] = first.get(line["uid"], line["version"])
            if line["kind"] != "artifact_name":
                yield line
    values = here.get("item", {})
    for line in others.export_items(tx, scope_no) if values else ():
        thing = thing_of("item", line)
        if thing in values:
            yield {**line, "stamp": values[thing].stamp}


def list_infos(tx: Tx, ids: list[int]) -> Iterator[tuple[int, Any]]:
    """Yield (id, info) of sessions."""
    for row in sorted(ids):
        yield from sessions.list_by_id(tx, row - 1, row, limit=1)


def _tree(tx: Tx, row: int, trees: dict[int, Tree]) -> Tree:
    session = sessions.roots(tx, [row])[row] if is_branch(row) else row
    if session not in trees:
        trees[session] = Tree(tx, session)
    return trees[session]


def _branch_lines(tx: Tx, sent: dict[int, Sent], trees: dict[int, Tree]) -> Iterator[Line]:
    for one in sent.values():
        row = int(one.place or 0)
        place = sessions.place_of(tx, row)
        tree = _tree(tx, row, trees)
        yield {
            "kind": "branch",
            "session": place["name"],
            "name": place["branch"],
            "after": tree.ancestors(tree.after.get(place["branch"])),
            "uid": place["uid"],
            "metadata": None if place["metadata"] is None else json.loads(place["metadata"]),
            "created_ms": place["created_ms"],
            "stamp": one.stamp,
        }


def _message_lines(tx: Tx, sent: dict[int, Sent], trees: dict[int, Tree]) -> Iterator[Line]:
    """Yield messages row by row; one that does not follow the line before names its predecessor."""
    stamps = {int(one.place or 0): one.stamp for one in sent.values()}
    rows: dict[int, list[int]] = {}
    for ref in sorted(stamps):
        rows.setdefault(session_of(ref), []).append(seq_of(ref))
    for row, seqs in rows.items():
        name = (sessions.identity(tx, row) or ("", ""))[0]
        tree = _tree(tx, row, trees)
        wanted, before, last = set(seqs), None, max(seqs)
        after = min(seqs) - 1
        while after < last and (page := messages.list_own(tx, row, name, after, last, MOVED)):
            for message in page:
                if message.seq in wanted:
                    values = ("message", name, None, *message_lines._line_values(message))
                    line = dict(zip(message_lines.LINE_FIELDS, values, strict=True))
                    node = tree.nodes[message.uid]
                    line = {field: value for field, value in line.items() if value is not None}
                    if node.home:
                        line["branch"] = node.home
                    if before is None or node.parent != before:
                        line["after"] = tree.ancestors(node.parent)
                    if stamps[row | message.seq]:
                        line["stamp"] = stamps[row | message.seq]
                    yield line
                    before = message.uid
            after = page[-1].seq


def _summary_lines(tx: Tx, sent: dict[int, Sent]) -> Iterator[Line]:
    for session in sorted({summaries.session_of(tx, int(one.place or 0)) for one in sent.values()}):
        for line in others.summary_lines(tx, session):
            thing = thing_of("summary", line)
            if thing in sent:
                yield {**line, "stamp": sent[thing].stamp}


def _entry_lines(
    tx: Tx, scope_no: int, sent: dict[int, Sent], versions: dict[int, Sent]
) -> Iterator[Line]:
    if not sent and not versions:
        return
    longer = {json.loads(str(one.place))[0] for one in versions.values()}
    stamps = {
        thing: stamp or 0
        for scope, thing, _, _, place, stamp, _ in synced.things(tx, "entry", is_full=True)
        if scope == scope_no and (thing in sent or place in longer)
    }
    for line in entry_lines.export(tx, scope_no):
        thing = thing_hash(line["uid"])
        if thing not in stamps:
            continue
        if line.pop("superseded_by", None) and "key" in line and "valid_to_ms" not in line:
            line["active"] = True  # it gave way: which one stands each device finds out
        yield {**line, "stamp": sent[thing].stamp if thing in sent else stamps[thing]}
