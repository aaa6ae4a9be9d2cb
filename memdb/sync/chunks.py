"""
Chunks of a segment: about two thousand lines of one scope, and what an import reads of them.

Lines are read, screened and counted before the transaction that writes them: a detector or a
counter of the host may be slow.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.records.drafts import count_drafts
from memdb.sync.clock import NO_CHANGE, Change, wins
from memdb.sync.folder import Refused, is_a
from memdb.sync.outgoing import thing_of
from memdb.tables import synced
from memdb.text.validate import name_value
from memdb.transfer import artifacts as artifact_lines
from memdb.transfer import entries as entry_lines
from memdb.transfer import messages as message_lines
from memdb.transfer import others
from memdb.transfer.lines import REFUSALS, Item, PartFile, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.records.scopes import ScopeRef
    from memdb.tables.state import StateRow
    from memdb.transfer.lines import TransferServices

    Line = dict[str, Any]
    Row = dict[str, Any]

# Holds the write lock for about 0.1 s.
CHUNK_LINES = 2000

# Fields of a line that no export has, and what a session's line lacks for an import.
ADDED = ("kind", "stamp", "after")
NO_SEQS = {"last_seq": 0}

# Of these a line that is not the last change may add something to the thing that is here.
MERGED = ("session", "branch", "entry")

# Fields without which a line is damaged, by kind. An import checks the others.
NEEDS = {
    "scope": "app user",
    "gone": "of thing stamp",
    "session": "name uid created_ms stamp",
    "branch": "session name after uid created_ms stamp",
    "message": "session uid seq",
    "summary": "session depth first_seq last_seq stamp",
    "entry": "uid stamp",
    "link": "uid newer stamp",
    "artifact": "uid version stamp",
    "artifact_part": "",
    "item": "namespace key stamp",
    "state": "app user key stamp",
}

# Fields of these types, if a line has them. An integer fits SQLite, a list contains texts.
TYPES = {
    **dict.fromkeys(("app", "user", "of", "session", "branch", "name", "key", "uid", "newer"), str),
    **dict.fromkeys(("thing", "stamp", "seq", "depth", "first_seq", "last_seq", "version"), int),
    "created_ms": int,
    "after": list,
    "namespace": list,
    "metadata": dict,
}


class Chunk(Record):
    """Lines of one scope: its app and user, what is gone, and the others."""

    app: str
    user: str
    lines: list[Line]

    @property
    def is_state(self) -> bool:
        """Whether it contains values of state, which belong to no scope's row."""
        return not self.app or self.lines[0]["kind"] == "state"

    def by_kind(self) -> dict[str, list[Line]]:
        """Return the lines by their kind."""
        groups: dict[str, list[Line]] = {}
        for line in self.lines:
            groups.setdefault(line["kind"], []).append(line)
        return groups


def _check(line: Any) -> None:
    needs = NEEDS.get(str(line.get("kind"))) if isinstance(line, dict) else None
    if needs is None:
        raise Refused("contains a damaged line (it is of no kind)")
    found = {name for name, value in line.items() if value is not None}
    wrong = {name for name in found & TYPES.keys() if not is_a(TYPES[name], line[name])}
    wrong |= {*needs.split()} - found
    wrong |= {name for name in found & TYPES.keys() - {"user"} if line[name] == ""}
    if not wrong and not 1 <= line.get("seq", 1) <= MAX_SEQ:
        wrong.add("seq")
    if not wrong and line.get("of", "entry") not in synced.THINGS:
        wrong.add("of")
    if not wrong and line["kind"] in ("scope", "state") and not _is_scope(line):
        wrong.add("app")
    if wrong:
        raise Refused(f"contains a damaged line ({min(wrong)} of a line of {line['kind']})")


def _is_scope(line: Line) -> bool:
    """Return whether a line names a scope; that without a user is what all users share."""
    try:
        return bool(name_value(line["app"], "app") and name_value(line["user"] or "-", "user"))
    except InvalidInput:
        return False


def chunks_of(lines: Iterator[Line]) -> Iterator[Chunk]:
    """
    Yield the lines of a segment, about two thousand of one scope at a time.

    Raises:
        Refused: a line is damaged.
    """
    scope = "", "", ""
    found: list[Line] = []
    for line in lines:
        _check(line)
        before = scope
        if line["kind"] in ("scope", "state"):
            scope = line["kind"], line["app"], line["user"]
        elif line.get("of") == "state":
            scope = "state", "", ""
        elif scope[0] != "scope":
            raise Refused(f"contains a damaged line (a line of {line['kind']} is in no scope)")
        is_part = bool(found) and found[-1]["kind"] == "artifact_part"
        is_whole = is_part or line["kind"] == "gone"  # what is gone costs one look at the scope
        if scope != before or (len(found) >= CHUNK_LINES and not is_whole):
            if found:
                yield Chunk(*before[1:], found)
            found = []
        if line["kind"] != "scope":
            found.append(line)
    if found:
        yield Chunk(*scope[1:], found)


def _read_nothing(_target: Target, _item: Item) -> None:
    """Do nothing: the line is written as it is."""


def _read_session(target: Target, item: Item) -> Row:
    return message_lines.read_session(target, item.replace(fields=item.fields | NO_SEQS))


def _read_message(target: Target, item: Item) -> message_lines.MessageLine:
    fields = {name: one for name, one in item.fields.items() if name != "branch"}
    target.last_seqs[fields["session"]] = fields["seq"]
    return message_lines.read_message(target, item.replace(fields=fields))


def _read_state(target: Target, item: Item) -> StateRow:
    left_out = ("app", "user") if item.fields["user"] else ("app",)
    fields = {name: one for name, one in item.fields.items() if name not in left_out}
    return others.read_state(target, item.replace(fields=fields))


READERS = {
    "session": _read_session,
    "branch": _read_nothing,
    "message": _read_message,
    "summary": others.read_summary,
    "entry": entry_lines.read_entry,
    "link": _read_nothing,
    "artifact": artifact_lines.read_artifact,
    "item": others.read_item,
    "state": _read_state,
}


def change_of(line: Line) -> Change:
    """Return what a line says of its thing."""
    return Change(line.get("stamp", 0))


def read_chunk(services: TransferServices, owner: ScopeRef, chunk: Chunk) -> dict[int, Any]:
    """
    Return what an import reads of lines of a chunk, or why it refuses them, by the lines' `id`.

    Lines that change nothing are not read.

    Raises:
        SecretFound: the scope is new, and one of its names contains a secret.
        PortError: the counter failed.
    """
    if not chunk.is_state:
        owner.admit()
    due = _list_due(services, owner, chunk)
    target = Target(services, owner, owner.app, Counter())
    read: dict[int, Any] = {}
    parts: list[Item] = []
    for line in chunk.lines:
        kind = line["kind"]
        item = Item("", kind, {name: one for name, one in line.items() if name not in ADDED})
        if kind == "artifact_part":
            parts.append(item)
            continue
        if id(line) in due:
            target.parts = PartFile()
            try:
                for part in parts:
                    artifact_lines.read_part(target, part)
                read[id(line)] = READERS[kind](target, item)
            except REFUSALS as error:
                read[id(line)] = error
        parts = []
    return read | _counted(services, read)


def _list_due(services: TransferServices, owner: ScopeRef, chunk: Chunk) -> set[int]:
    """
    Return the `id` of the lines that may change something.

    Others are no later than what this file told of their things. They are not later when the
    chunk is written either.
    """
    due: set[int] = set()
    groups = chunk.by_kind()
    with services.db.read() as tx:
        scope_no = 0 if chunk.is_state else owner.find(tx) or 0
        for kind in groups.keys() & READERS.keys():
            things = [thing_of(kind, line) for line in groups[kind]]
            known = synced.known(tx, kind, scope_no, things)
            for line, thing in zip(groups[kind], things, strict=True):
                told = known.get(thing)
                change = NO_CHANGE if told is None else Change(told.stamp, told.gone)
                if kind in MERGED or wins(kind, change_of(line), change):
                    due.add(id(line))
    return due


def _counted(services: TransferServices, read: dict[int, Any]) -> dict[int, Any]:
    """Return the messages that were read, with their tokens."""
    said = {at: one for at, one in read.items() if isinstance(one, message_lines.MessageLine)}
    drafts = [one.draft for one in said.values()]
    counted = count_drafts(drafts, services.counting)
    pairs = zip(said.items(), counted, strict=True)
    return {at: one.replace(draft=draft) for (at, one), draft in pairs}
