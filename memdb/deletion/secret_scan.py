"""
Secret scan: find keys, tokens and passwords in everything that a scope holds.

The scan changes nothing, and returns no secret in full.
"""

from __future__ import annotations

from io import BytesIO
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from memdb.engine.paging import pages_of, refuse_undone
from memdb.errors import Corrupt, InvalidInput
from memdb.items.walk import list_request
from memdb.models.fields import FIELDS, NAME, TEXT
from memdb.models.ids import MAX_INT, number_of, scope_of, scope_range, session_of
from memdb.models.record import Record
from memdb.models.reports import SecretPlace
from memdb.tables import (
    artifacts,
    blobs,
    entry_history,
    items,
    messages,
    scopes,
    sessions,
    state,
    summaries,
    tombstones,
)
from memdb.text.secrets import shown
from memdb.text.validate import parse_json
from memdb.text.values import is_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.artifacts.service import ArtifactService
    from memdb.engine.base import Engine, Tx
    from memdb.entries.service import EntryService
    from memdb.items.service import ItemService
    from memdb.models.entries import Entry, EntryVersion
    from memdb.models.items import Item
    from memdb.models.messages import ArtifactVersion, Message
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
BLOBS_AT_ONCE = 16

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


class SecretScan(Record):
    """
    The search for secrets in a scope, in all fields that are screened when they are written.

    Attributes:
        entropy: Random-looking runs of characters count too.
    """

    db: Engine
    entries: EntryService
    artifacts: ArtifactService
    items: ItemService
    owner: ScopeRef
    screen: SecretScreen
    entropy: bool

    def places(self) -> Iterator[SecretPlace]:
        """
        Yield every secret of the scope.

        The names of the scope and the settings of the file come first. Sessions, branches, messages
        and summaries follow, then state, entries, items, artifacts and tombstones.

        Raises:
            InvalidInput: the transaction in which it looked was rolled back meanwhile.
        """
        return refuse_undone(self.db, self._places(), "find_secrets")

    def _places(self) -> Iterator[SecretPlace]:
        owner = self.owner
        with self.db.read() as tx:
            scope_no = owner.find(tx)
            uid = None if scope_no is None else scopes.identity(tx, scope_no)[0]
        if scope_no is not None:
            yield from self._in_parts("scope", {"app": owner.app, "user": owner.user, "uid": uid})
        yield from self._in_parts("setting", self.screen.settings.to_dict())
        if scope_no is not None:
            yield from self._in_sessions(*scope_range(scope_no))
        for row in self._state():
            where = f"state of session {row.session}" if row.session else "state"
            parts = {row.key: {row.key: _value_of(row)}, "key": row.key, "session": row.session}
            yield from self._in_parts(where, parts)
        for entry, history in self._entries():
            number = number_of(entry.id)
            yield from self._in_fields(f"entry {number}", entry, "entry")
            for old in history:
                yield from self._in_fields(f"entry {number} version {old.version}", old, "history")
        for item, index in self._items():
            values: dict[str, Any] = {name: getattr(item, name, index) for name in SCANNED["item"]}
            yield from self._in_parts(f"item {item}", values)
        for version, data in () if scope_no is None else self._artifacts(scope_no):
            yield from self._in_artifact(version, data)
        for stone in () if scope_no is None else self._tombstones(scope_no):
            yield from self._in_fields(f"tombstone of a {stone.kind}", stone, "tombstone")

    def _in_sessions(self, low: int, high: int) -> Iterator[SecretPlace]:
        """Yield the secrets of all sessions and branches, then of messages, then of summaries."""
        with self.db.read() as tx:
            infos = sessions.list_by_id(tx, low, high, limit=MAX_INT)
            shown_names = {row: info.name for row, info in infos}
            branches = sessions.list_branches(tx, scope_of(low), *shown_names.values())
            named = sessions.names(tx, [row for row, _ in branches])
        shown_names |= {row: _shown(named[row], branch.name) for row, branch in branches}
        for row, info in infos:
            yield from self._in_fields(f"session {shown_names[row]}", info, "session")
        for row, branch in branches:
            yield from self._in_fields(f"branch {shown_names[row]}", branch, "branch")

        def read(tx: Tx, after: int, limit: int) -> list[Message]:
            return messages.list_page(tx, after, high, limit)

        for one in pages_of(self.db, read, attrgetter("row_id"), low, limit=MAX_INT, size=PAGE):
            shown_name = shown_names.get(session_of(one.row_id), one.session)
            yield from self._in_fields(f"message {shown_name}#{one.seq}", one, "message")

        def read_summaries(tx: Tx, after: int, limit: int) -> list[Summary]:
            return summaries.list_page(tx, after, high, limit)

        told = pages_of(self.db, read_summaries, attrgetter("id"), low, limit=MAX_INT, size=PAGE)
        for summary in told:
            where = f"summary {_shown(summary.session, summary.branch or '')}"
            where = f"{where}#{summary.first_seq}-{summary.last_seq}"
            yield from self._in_fields(where, summary, "summary")

    def _entries(self) -> Iterator[tuple[Entry, list[EntryVersion]]]:
        """Yield each entry with what it was before."""
        every = iter(self.entries.list(self.owner, inactive=True))
        while page := [*islice(every, PAGE)]:
            with self.db.read() as tx:
                histories = entry_history.list_many(tx, [one.id for one in page])
            for one in page:
                yield one, histories[one.id]

    def _artifacts(self, scope_no: int) -> Iterator[tuple[ArtifactVersion, bytes | None]]:
        """Yield each version with its bytes, or None if it is long."""

        def read(tx: Tx, after: Any, limit: int) -> list[tuple[Any, bytes | None]]:
            page = artifacts.list_page(tx, scope_no, after, limit)
            small = [one for _, one in page if one.info.size_bytes <= blobs.CHUNK_BYTES]
            data = blobs.read_small(tx, {one.blob_no: one.info.sha256 for one in small})
            return [(one, data.get(one[1].blob_no)) for one in page]

        def key_of(one: tuple[Any, bytes | None]) -> Any:
            return artifacts.key_of(one[0])

        for (_, stored), data in pages_of(
            self.db, read, key_of, None, limit=MAX_INT, size=BLOBS_AT_ONCE
        ):
            yield stored.info, data

    def _tombstones(self, scope_no: int) -> Iterator[Tombstone]:
        def read(tx: Tx, after: str, limit: int) -> list[Tombstone]:
            return tombstones.list_page(tx, scope_no, after=after, limit=limit)

        return pages_of(self.db, read, attrgetter("uid"), "", limit=MAX_INT, size=PAGE)

    def _items(self) -> Iterator[tuple[Item, str | None]]:
        """Yield the items of the scope, each with the fields that are searched, as JSON text."""
        after = None
        while page := self.items.list(self.owner, list_request(after=after, limit=PAGE)):
            with self.db.read() as tx:
                stored = items.get_many(tx, [item.id for item in page])
            for item in page:
                index = stored[item.id].search_fields if item.id in stored else None
                value = item.value
                if isinstance(value, bytes):
                    value = value.decode(errors="replace")
                yield item.replace(value=value), index
            after = page[-1]

    def _state(self) -> Iterator[StateRow]:
        def read(tx: Tx, after: StateRow | None, limit: int) -> list[StateRow]:
            return state.list_page(tx, self.owner.app, self.owner.user, after=after, limit=limit)

        return pages_of(self.db, read, lambda row: row, None, limit=MAX_INT, size=PAGE)

    def _in_artifact(self, version: ArtifactVersion, whole: bytes | None) -> Iterator[SecretPlace]:
        where = f"artifact {version.name}@{version.version}"
        yield from self._in_fields(where, version, "artifact")
        place = version.session, version.name, version.version
        seen: set[tuple[str, int]] = set()
        with self.artifacts.open(self.owner, *place) if whole is None else BytesIO(whole) as stream:
            start, data = 0, stream.read(min(STEP_BYTES, version.size_bytes))
            left = version.size_bytes - len(data)  # behind the end another question would be asked
            while data and not is_binary(data):
                text = data.decode("utf-8", errors="replace")
                for one in self._in_text(text, where):
                    found = one.kind, start + len(text[: one.start].encode())
                    if found not in seen:
                        seen.add(found)
                        yield one.replace(start=found[1])
                more = stream.read(min(STEP_BYTES, left))
                if not more:
                    return
                left -= len(more)
                start += max(0, len(data) - OVERLAP_BYTES)
                data = data[-OVERLAP_BYTES:] + more

    def _in_fields(self, where: str, row: object, kind: str) -> Iterator[SecretPlace]:
        """Yield the secrets of a row, in the fields of its kind; the text is the row itself."""
        names = SCANNED[kind]
        parts = {"" if name == "text" else name: getattr(row, name) for name in names}
        return self._in_parts(where, parts)

    def _in_parts(self, where: str, parts: dict[str, Any]) -> Iterator[SecretPlace]:
        for name, value in parts.items():
            for text in _texts(value):
                yield from self._in_text(text, f"{where} {name}".strip())

    def _in_text(self, text: str, where: str) -> Iterator[SecretPlace]:
        for one in self.screen.find(text, entropy=self.entropy):
            yield SecretPlace(one.kind, where, one.start, shown(text, one))


def _shown(session: str, branch: str) -> str:
    return f"{session} ({branch})" if branch else session


def _value_of(row: StateRow) -> Any:
    """Return a value; as its text where that is damaged."""
    try:
        return parse_json(row.value)
    except (Corrupt, InvalidInput):
        return row.value


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
