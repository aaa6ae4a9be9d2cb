"""
Secret scan: find keys, tokens and passwords in everything that a scope holds.

It changes nothing, and returns no secret in full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.paging import refuse_undone
from memdb.errors import Corrupt, InvalidInput
from memdb.items.walk import list_request
from memdb.models.fields import FIELDS, NAME, TEXT
from memdb.models.ids import BranchName, number_of
from memdb.models.record import Record
from memdb.models.reports import SecretPlace
from memdb.records.scopes import find_session
from memdb.tables import items, scopes, state, summaries, tombstones
from memdb.text.secrets import shown
from memdb.text.validate import parse_json
from memdb.text.values import is_binary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb.artifacts.service import ArtifactService
    from memdb.conversations.reader import Conversations
    from memdb.engine.base import Engine
    from memdb.entries.service import EntryService
    from memdb.items.service import ItemService
    from memdb.models.items import Item
    from memdb.models.messages import ArtifactVersion, BranchInfo
    from memdb.models.summaries import Summary
    from memdb.records.scopes import ScopeRef
    from memdb.tables.state import StateRow
    from memdb.tables.tombstones import Tombstone
    from memdb.text.screening import SecretScreen

# Bytes of an artifact that are looked at together, and how many of them again
# with the next: a key that lies over the end is found in one of the two.
STEP_BYTES = 1 << 20
OVERLAP_BYTES = 8 << 10
PAGE = 500

# Read in pieces, or with the value that they are a form of.
READ_APART = {("artifact", "data"), ("artifact", "text"), ("item", "data"), ("session", "branch")}

# By kind, the fields that are looked at: all that are screened, but for names of other records.
# The bytes of artifacts, and those of items, are read by themselves.
SCANNED = {
    kind: tuple(
        one.name
        for one in fields
        if one.is_one_of(TEXT, NAME) and (kind, one.name) not in READ_APART
    )
    for kind, fields in FIELDS.items()
}


class Sources(Record):
    """Rows that a scan for secrets reads."""

    db: Engine
    reader: Conversations
    entries: EntryService
    artifacts: ArtifactService
    items: ItemService


def places(
    sources: Sources, owner: ScopeRef, screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    """
    Yield every secret of a scope, in all fields that `SecretScreen` screens when they are written.

    The names of the scope and the settings of the file come first. Sessions with their messages
    and summaries follow, then state, entries, items, artifacts and tombstones.

    Raises:
        InvalidInput: the transaction in which it looked was rolled back meanwhile.
    """
    rows = _places(sources, owner, screen, entropy=entropy)
    return refuse_undone(sources.db, rows, "find_secrets")


def _places(
    sources: Sources, owner: ScopeRef, screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    with sources.db.read() as tx:
        scope_no = owner.find(tx)
        uid = None if scope_no is None else scopes.identity(tx, scope_no)[0]
    if scope_no is not None:
        names = {"app": owner.app, "user": owner.user, "uid": uid}
        yield from _in_parts("scope", names, screen, entropy=entropy)
    yield from _in_parts("setting", screen.settings.to_dict(), screen, entropy=entropy)
    yield from _in_sessions(sources, owner, screen, entropy=entropy)
    for row in _state(sources.db, owner):
        where = f"state of session {row.session}" if row.session else "state"
        parts = {row.key: {row.key: _value_of(row)}, "key": row.key, "session": row.session}
        yield from _in_parts(where, parts, screen, entropy=entropy)
    for entry in sources.entries.list(owner, inactive=True):
        number = number_of(entry.id)
        where = f"entry {number}"
        yield from _in_fields(where, entry, SCANNED["entry"], screen, entropy=entropy)
        for old in sources.entries.history(owner, number):
            where = f"entry {number} version {old.version}"
            yield from _in_fields(where, old, SCANNED["history"], screen, entropy=entropy)
    for item, index in _items(sources, owner):
        values: dict[str, Any] = {name: getattr(item, name, index) for name in SCANNED["item"]}
        yield from _in_parts(f"item {item}", values, screen, entropy=entropy)
    for newest in sources.artifacts.list(owner, None):
        for version in sources.artifacts.versions(owner, newest.session, newest.name):
            yield from _in_artifact(sources, owner, version, screen, entropy=entropy)
    for stone in () if scope_no is None else _tombstones(sources.db, scope_no):
        where = f"tombstone of a {stone.kind}"
        yield from _in_fields(where, stone, SCANNED["tombstone"], screen, entropy=entropy)


def _in_sessions(
    sources: Sources, owner: ScopeRef, screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    """Yield the secrets of sessions and their branches, with messages and summaries."""
    for session in sources.reader.sessions(owner):
        where, fields = f"session {session.name}", SCANNED["session"]
        yield from _in_fields(where, session, fields, screen, entropy=entropy)
        for message in sources.reader.messages(owner, session.name):
            where = f"message {session.name}#{message.seq}"
            yield from _in_fields(where, message, SCANNED["message"], screen, entropy=entropy)
        for summary in _summaries(sources.db, owner, session.name):
            where = f"summary {session.name}#{summary.first_seq}-{summary.last_seq}"
            yield from _in_fields(where, summary, SCANNED["summary"], screen, entropy=entropy)
        for branch in sources.reader.branches(owner, session.name):
            yield from _in_branch(sources, owner, session.name, branch, screen, entropy=entropy)


def _in_branch(
    sources: Sources,
    owner: ScopeRef,
    session: str,
    branch: BranchInfo,
    screen: SecretScreen,
    *,
    entropy: bool,
) -> Iterator[SecretPlace]:
    """Yield the secrets of a branch, without those of messages that it shares."""
    name = BranchName(session, branch.name)
    shown_name = f"{session} ({branch.name})"
    yield from _in_fields(
        f"branch {shown_name}", branch, SCANNED["branch"], screen, entropy=entropy
    )
    for message in sources.reader.own_messages(owner, name):
        where = f"message {shown_name}#{message.seq}"
        yield from _in_fields(where, message, SCANNED["message"], screen, entropy=entropy)
    for summary in _summaries(sources.db, owner, name):
        where = f"summary {shown_name}#{summary.first_seq}-{summary.last_seq}"
        yield from _in_fields(where, summary, SCANNED["summary"], screen, entropy=entropy)


def _summaries(db: Engine, owner: ScopeRef, session: str) -> Iterator[Summary]:
    with db.read() as tx:
        found = find_session(tx, owner, session)
        ids = () if found is None else [row[0] for row in summaries.texts(tx, found)]
        told = summaries.get_many(tx, ids)
    return iter(told)


def _tombstones(db: Engine, scope_no: int) -> Iterator[Tombstone]:
    after = ""
    while True:
        with db.read() as tx:
            page = tombstones.list_page(tx, scope_no, after=after, limit=PAGE)
        if not page:
            return
        yield from page
        after = page[-1].uid


def _items(sources: Sources, owner: ScopeRef) -> Iterator[tuple[Item, str | None]]:
    """Yield the items of a scope, each with the fields that are searched, as JSON text."""
    after = None
    while page := sources.items.list(owner, list_request(after=after, limit=PAGE)):
        with sources.db.read() as tx:
            stored = items.get_many(tx, [item.id for item in page])
        for item in page:
            index = stored[item.id].search_fields if item.id in stored else None
            value = item.value
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            yield item.replace(value=value), index
        after = page[-1]


def _value_of(row: StateRow) -> Any:
    """Return a value; as its text where that is damaged."""
    try:
        return parse_json(row.value)
    except (Corrupt, InvalidInput):
        return row.value


def _state(db: Engine, owner: ScopeRef) -> Iterator[StateRow]:
    after = None
    while True:
        with db.read() as tx:
            page = state.list_page(tx, owner.app, owner.user, after=after)
        if not page:
            return
        yield from page
        after = page[-1]


def _in_fields(
    where: str, row: object, names: Sequence[str], screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    """Yield the secrets of a row, in the fields called *names*; the text is the row itself."""
    parts = {"" if name == "text" else name: getattr(row, name) for name in names}
    yield from _in_parts(where, parts, screen, entropy=entropy)


def _in_parts(
    where: str, parts: dict[str, Any], screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    for name, value in parts.items():
        for text in _texts(value):
            yield from in_text(text, f"{where} {name}".strip(), screen, entropy=entropy)


def in_text(text: str, where: str, screen: SecretScreen, *, entropy: bool) -> Iterator[SecretPlace]:
    """Yield the secrets of one text."""
    for one in screen.find(text, entropy=entropy):
        yield SecretPlace(one.kind, where, one.start, shown(text, one))


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts of a JSON value, each behind the name it has."""
    if isinstance(value, str):
        yield f'{name}: "{value}"' if name else value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, name)


def _in_artifact(
    sources: Sources,
    owner: ScopeRef,
    version: ArtifactVersion,
    screen: SecretScreen,
    *,
    entropy: bool,
) -> Iterator[SecretPlace]:
    where = f"artifact {version.name}@{version.version}"
    yield from _in_fields(where, version, SCANNED["artifact"], screen, entropy=entropy)
    seen: set[tuple[str, int]] = set()
    with sources.artifacts.open(owner, version.session, version.name, version.version) as stream:
        start, data = 0, stream.read(STEP_BYTES)
        while data and not is_binary(data):
            text = data.decode("utf-8", errors="replace")
            for one in in_text(text, where, screen, entropy=entropy):
                place = one.kind, start + len(text[: one.start].encode())
                if place not in seen:
                    seen.add(place)
                    yield one.replace(start=place[1])
            more = stream.read(STEP_BYTES)
            if not more:
                return
            start += max(0, len(data) - OVERLAP_BYTES)
            data = data[-OVERLAP_BYTES:] + more
