"""
Secret scan: find keys, tokens and passwords in everything that a scope holds.

It changes nothing, and returns no secret in full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.paging import refuse_undone
from memdb.errors import Corrupt, InvalidInput
from memdb.models.ids import BranchName
from memdb.models.record import Record
from memdb.models.reports import SecretPlace
from memdb.records.scopes import find_session
from memdb.tables import state, summaries
from memdb.text.screening import is_binary
from memdb.text.secrets import shown
from memdb.text.validate import parse_json

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
    from memdb.text.screening import SecretScreen

# Bytes of an artifact that are looked at together, and how many of them again
# with the next: a key that lies over the end is found in one of the two.
STEP_BYTES = 1 << 20
OVERLAP_BYTES = 8 << 10
ITEM_PAGE = 500


# What is looked at in a row; values of state and the bytes of artifacts besides.
FIELDS = {
    "session": ("name", "title", "metadata"),
    "message": ("text", "author", "external_id", "parts", "metadata"),
    "summary": ("text", "hint"),
    "entry": ("text", "key", "keywords", "source", "metadata"),
    "version": ("text", "keywords", "metadata"),
    "item": ("namespace", "key", "metadata", "value"),
    "artifact": ("name", "mime", "metadata"),
}


class Sources(Record):
    """What a scan for secrets reads."""

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

    Sessions come first, with their messages and summaries, then state, entries, items, artifacts.

    Raises:
        InvalidInput: the transaction in which it looked was rolled back meanwhile.
    """
    rows = _places(sources, owner, screen, entropy=entropy)
    return refuse_undone(sources.db, rows, "find_secrets")


def _places(
    sources: Sources, owner: ScopeRef, screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    yield from _in_sessions(sources, owner, screen, entropy=entropy)
    for row in _state(sources.db, owner):
        where = f"state of session {row.session}" if row.session else "state"
        value = {row.key: _value_of(row)}
        yield from _in_parts(where, {row.key: value, "key": row.key}, screen, entropy=entropy)
    for entry in sources.entries.list(owner, inactive=True):
        where = f"entry {entry.id}"
        yield from _in_fields(where, entry, FIELDS["entry"], screen, entropy=entropy)
        for old in sources.entries.history(owner, entry.id):
            where = f"entry {entry.id} version {old.version}"
            yield from _in_fields(where, old, FIELDS["version"], screen, entropy=entropy)
    for item in _items(sources.items, owner):
        yield from _in_fields(f"item {item}", item, FIELDS["item"], screen, entropy=entropy)
    for newest in sources.artifacts.list(owner, None):
        for version in sources.artifacts.versions(owner, newest.session, newest.name):
            yield from _in_artifact(sources, owner, version, screen, entropy=entropy)


def _in_sessions(
    sources: Sources, owner: ScopeRef, screen: SecretScreen, *, entropy: bool
) -> Iterator[SecretPlace]:
    """Yield the secrets of sessions and their branches, with messages and summaries."""
    for session in sources.reader.sessions(owner):
        where, fields = f"session {session.name}", FIELDS["session"]
        yield from _in_fields(where, session, fields, screen, entropy=entropy)
        for message in sources.reader.messages(owner, session.name):
            where = f"message {session.name}#{message.seq}"
            yield from _in_fields(where, message, FIELDS["message"], screen, entropy=entropy)
        for summary in _summaries(sources.db, owner, session.name):
            where = f"summary {session.name}#{summary.first_seq}-{summary.last_seq}"
            yield from _in_fields(where, summary, FIELDS["summary"], screen, entropy=entropy)
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
    fields = ("name", "metadata")
    yield from _in_fields(f"branch {shown_name}", branch, fields, screen, entropy=entropy)
    for message in sources.reader.own_messages(owner, name):
        where = f"message {shown_name}#{message.seq}"
        yield from _in_fields(where, message, FIELDS["message"], screen, entropy=entropy)
    for summary in _summaries(sources.db, owner, name):
        where = f"summary {shown_name}#{summary.first_seq}-{summary.last_seq}"
        yield from _in_fields(where, summary, FIELDS["summary"], screen, entropy=entropy)


def _summaries(db: Engine, owner: ScopeRef, session: str) -> Iterator[Summary]:
    with db.read() as tx:
        found = find_session(tx, owner, session)
        ids = () if found is None else [row[0] for row in summaries.texts(tx, found)]
        told = summaries.get_many(tx, ids)
    return iter(told)


def _items(service: ItemService, owner: ScopeRef) -> Iterator[Item]:
    from memdb.items.walk import list_request

    after = None
    while page := service.list(owner, list_request(after=after, limit=ITEM_PAGE)):
        for item in page:
            data = item.value if isinstance(item.value, bytes) else None
            if data is not None:
                text = "" if is_binary(data) else data.decode(errors="replace")
                yield item.replace(value=text)
            else:
                yield item
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
    yield from _in_fields(where, version, FIELDS["artifact"], screen, entropy=entropy)
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
