"""
Entry service: add, read, update, supersede and delete long-term entries.

Compares entries by key only; `memdb.entries.remember` compares them by content.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from memdb.engine.branches import runs_of
from memdb.engine.paging import pages_of
from memdb.entries.apply import EntryWriter, get_entry, locate
from memdb.entries.validation import (
    content_columns,
    is_instruction,
    screen_changes,
    screen_entry,
    validate,
)
from memdb.errors import AlreadyExists, InvalidInput, NotFound, require_version
from memdb.models.ids import MAX_INT, MAX_NUMBER, number_of, scope_of, scope_range
from memdb.records import entries as entry_records
from memdb.records import entry_writer, links
from memdb.records.entries import page as past_page
from memdb.records.scopes import find_session
from memdb.tables import entries, entry_history
from memdb.tables.entries import EntryFilter
from memdb.text.times import when_ms
from memdb.text.trust import FLAGGED, TRUST
from memdb.text.validate import (
    choice_value,
    expected_value,
    flag_value,
    int_value,
    json_object,
    name_value,
    row_after,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Engine, Tx
    from memdb.models.entries import (
        Entry,
        EntryChanges,
        EntryVersion,
        Link,
        NewEntry,
        Remembered,
    )
    from memdb.models.types import EntryOrder
    from memdb.records.scopes import ScopeRef
    from memdb.text.screening import SecretScreen

PAGE = 200
ORDERS = ("id", "updated", "created")

# Why an entry has a version, if only that changed; and what does not count as a change of it.
_REASONS = {frozenset(("pinned",)): "pin", frozenset(("trust",)): "trust"}
_MARKS = frozenset(("pinned", "trust", "active"))
_SWITCHED = _MARKS | {"valid_to_ms", "expires_ms"}


class EntryService:
    """Long-term entries of a file."""

    def __init__(
        self,
        db: Engine,
        ensure_space: Callable[[Tx], object],
        screen: SecretScreen,
        writer: EntryWriter,
    ) -> None:
        """
        Keep entries in *db*.

        Args:
            ensure_space: Called in each transaction that inserts or changes an
                entry, so that its embedding job has a space.
            screen: Refuses or redacts secrets in stored texts.
        """
        self._db = db
        self._ensure_space = ensure_space
        self._screen = screen
        self._writer = writer

    def add(self, owner: ScopeRef, new: NewEntry) -> Remembered:
        """
        Store a fact without comparing it with other entries, except by key.

        The call is for imports, which lose nothing: a less trusted fact with a key is stored as
        superseded.

        Raises:
            InvalidInput: a field cannot be stored; nothing was written.
            SecretFound: a field contains a secret, and the settings refuse it.
            NotFound: the session, or the message in it, does not exist.
        """
        statement = validate(screen_entry(new, self._screen), self._db.clock())
        statement = statement.replace(writer=statement.writer or self._db.written_by)
        owner.admit()
        with self._db.write() as tx:
            self._ensure_space(tx)
            scope_no, statement = locate(tx, owner, statement)
            self._writer.check_category(tx, scope_no, statement.category)
            keyed = entries.open_key(tx, scope_no, statement.key, statement.private_to)
            if keyed is None:
                return self._writer.insert(tx, scope_no, statement, "nothing like it was known")
            held = get_entry(tx, keyed)
            done = self._writer.apply_to_key(tx, scope_no, held, statement)
            if done.action != "refused":
                return done
            behind = statement.replace(active=0, superseded_by=held.id)
            return self._writer.insert(tx, scope_no, behind, done.reason)

    def update(
        self,
        owner: ScopeRef,
        entry_id: int,
        changes: EntryChanges,
        *,
        exported: bool = False,
        expected: int | Entry | None = None,
    ) -> Entry:
        """
        Change the fields of an entry, as `Entries.update` describes it.

        Args:
            exported: Whether they come from an export, whose categories may be unknown here.
            expected: Only at this version. None means at any.
        """
        known = expected_value(expected, "version")
        for name in ("pinned", "active"):
            if (given := getattr(changes, name)) is not ...:
                flag_value(given, name)
        changes = screen_changes(changes, self._screen)
        flagged = is_instruction(changes)
        with self._db.write() as tx:
            self._ensure_space(tx)
            old = self._get(tx, owner, entry_id)
            require_version("entry", entry_id, known, old.version)
            columns = self._columns(tx, old, changes, exported=exported)
            if flagged and changes.trust is ...:
                columns["trust"] = FLAGGED
            before = entries.row(tx, old.id)
            changed = {column for column, new in columns.items() if before[column] != new}
            reason = _REASONS.get(frozenset(changed), "update")
            if changes.active is True and changed and changed <= _SWITCHED:
                reason = "restore"
            if not changed <= (_SWITCHED if changes.expires is ... else _MARKS):
                columns["updated_ms"] = tx.now_ms
            if changed:
                entry_writer.update(tx, old.id, reason, **columns)
            return get_entry(tx, old.id)

    def _columns(
        self, tx: Tx, old: Entry, changes: EntryChanges, *, exported: bool
    ) -> dict[str, Any]:
        """Return the columns of an entry that changes set."""

        def value(field: str) -> Any:
            given = getattr(changes, field)
            return getattr(old, field) if given is ... else given

        columns = content_columns(*map(value, ("text", "category", "keywords", "importance")))
        columns["metadata"] = json_object(value("metadata"), "metadata")
        if not exported and columns["category"] != old.category:
            self._writer.check_category(tx, scope_of(old.id), columns["category"])
        if changes.expires is not ...:
            columns["expires_ms"] = when_ms(changes.expires, "expires", tx.now_ms, ahead=True)
            if changes.active is ... and _is_over(tx, old):  # the worker was here, or will not be
                self._refuse_successor(tx, old)
                columns["active"] = 1
        if changes.key is not ...:
            columns["key"] = None if changes.key is None else name_value(changes.key, "key")
            if columns["key"] != old.key and _holder(tx, old, columns["key"]) is not None:
                raise AlreadyExists("key", columns["key"])
        columns["pinned"] = int(value("pinned"))
        if changes.trust is not ...:
            columns["trust"] = choice_value(changes.trust, "trust", TRUST)
        if changes.active is False:
            columns["active"] = 0
        elif changes.active is True:
            self._take_back(tx, old, columns.get("key", old.key))
            columns = _holding(tx, old) | columns | {"active": 1}
        return columns

    def revert(
        self,
        owner: ScopeRef,
        entry_id: int,
        version: int,
        expected: int | Entry | None = None,
    ) -> Entry:
        """Restore an old version of an entry, as `Entries.revert` describes it."""
        int_value(version, "version", 1, MAX_INT)
        known = expected_value(expected, "version")
        with self._db.write() as tx:
            self._ensure_space(tx)
            now = self._get(tx, owner, entry_id)
            require_version("entry", entry_id, known, now.version)
            if version == now.version:
                return now
            old = entry_history.find(tx, now.id, version)
            if old is None:
                raise NotFound("version", version, f"entry {entry_id}")
            columns = {
                **content_columns(old.text, old.category, old.keywords, old.importance),
                "pinned": int(old.pinned),
                "trust": old.trust,
                "metadata": json_object(old.metadata, "metadata"),
            }
            if old.expires_ms is None or old.expires_ms > tx.now_ms:
                columns["expires_ms"] = old.expires_ms
            if not now.session_only:  # that one stays in its session
                columns |= entry_history.source(tx, now.id, version)
            before = entries.row(tx, now.id)
            if any(before[column] != new for column, new in columns.items()):
                entry_writer.update(tx, now.id, "restore", **columns, updated_ms=tx.now_ms)
            return get_entry(tx, now.id)

    @staticmethod
    def _take_back(tx: Tx, old: Entry, key: str | None) -> None:
        """Replace the successor of an entry, or the present fact *key*, by the entry."""
        if old.holds(tx.now_ms):
            return
        entries.link(tx, old.id, None)
        holder = _holder(tx, old, key)
        if holder is not None and holder != old.id:
            entry_writer.end(tx, get_entry(tx, holder), tx.now_ms)
            entries.link(tx, holder, old.id)

    @staticmethod
    def _refuse_successor(tx: Tx, old: Entry) -> None:
        """Raise InvalidInput if an entry that is to become active was replaced by another one."""
        successor = old.superseded_by
        if successor is None and not old.active:
            successor = _holder(tx, old, old.key)
        if successor is not None:
            raise InvalidInput(
                f"entry {number_of(old.id)} was replaced by {number_of(successor)}: also give "
                "active=True"
            )

    def supersede(
        self, owner: ScopeRef, old_id: int, new_id: int, expected: int | Entry | None = None
    ) -> Entry:
        """Supersede one entry by another, as `Entries.supersede` describes it."""
        known = expected_value(expected, "version")
        with self._db.write() as tx:
            self._ensure_space(tx)
            old, new = self._get(tx, owner, old_id), self._get(tx, owner, new_id)
            require_version("entry", old_id, known, old.version)
            if old.id == new.id:
                raise InvalidInput(
                    f"entry {old_id} cannot supersede itself: give two different entries"
                )
            if old.superseded_by is not None:
                raise InvalidInput(
                    f"entry {old_id} was already superseded by {number_of(old.superseded_by)}: "
                    "supersede that one"
                )
            if entries.leads_to(tx, new.id, old.id):
                raise InvalidInput(f"entry {new_id} was superseded by {old_id}: swap the two")
            entry_writer.end(tx, old, tx.now_ms)
            entries.link(tx, old.id, new.id)
            return get_entry(tx, old.id)

    def get(self, owner: ScopeRef, entry_id: int) -> Entry:
        """Return an entry; NotFound if the scope has no entry with this id."""
        with self._db.read() as tx:
            return self._marked(tx, [self._get(tx, owner, entry_id)])[0]

    def _marked(self, tx: Tx, found: list[Entry], at_ms: int | None = None) -> list[Entry]:
        """Return entries of one scope, each with the entry that outdates it at a time."""
        if not found:
            return found
        at_ms = self._db.clock() if at_ms is None else at_ms
        ids = [entry.id for entry in found]
        newest = links.find_newest(tx, scope_of(ids[0]), ids, at_ms, links.LEAST)
        return [
            entry.replace(outdated_by=newest[entry.id].newer_id) if entry.id in newest else entry
            for entry in found
        ]

    def links(self, owner: ScopeRef, entry_id: int) -> list[Link]:
        """Return the links from and to an entry, as `Entries.links` describes it."""
        with self._db.read() as tx:
            entry = self._find(tx, owner, entry_id)
            return [] if entry is None else links.links_among(tx, scope_of(entry.id), [entry.id])

    def unlink(self, owner: ScopeRef, newer_id: int, older_id: int) -> bool:
        """Reject a guessed link, as `Entries.unlink` describes it."""
        with self._db.write() as tx:
            newer, older = (self._find(tx, owner, one) for one in (newer_id, older_id))
            if newer is None or older is None:
                return False
            if older.superseded_by == newer.id:
                raise InvalidInput(
                    f"entry {older_id} was superseded by {newer_id} on purpose, not by a guess: "
                    "make the older one active again"
                )
            return links.reject(tx, newer.id, older.id)

    def find_key(self, owner: ScopeRef, key: str, session: str | None = None) -> Entry | None:
        """Return the entry with the fact *key* now, as `Entries.find` describes it."""
        name_value(key, "key")
        if session is not None:
            name_value(session, "session")
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return None
            asking = None if session is None else find_session(tx, owner, session)
            path = [] if asking is None else [run.session for run in runs_of(tx, asking)]
            entry_id = entries.find_key(tx, scope_no, key, self._db.clock(), path)
            found = None if entry_id is None else entries.find(tx, entry_id)
            return None if found is None else self._marked(tx, [found])[0]

    def history(self, owner: ScopeRef, entry_id: int) -> list[EntryVersion]:
        """Return the earlier versions of an entry, oldest first; [] if it never changed."""
        with self._db.read() as tx:
            entry = self._find(tx, owner, entry_id)
            return [] if entry is None else entry_history.list_all(tx, entry.id)

    def replaced(self, owner: ScopeRef, entry_id: int) -> list[Entry]:
        """Return the earlier entries in this one's chain of replacements, newest first."""
        with self._db.read() as tx:
            entry = self._find(tx, owner, entry_id)
            ids = [] if entry is None else entries.list_replaced(tx, entry.id)
            found = entries.get_many(tx, ids)
            return [found[old_id] for old_id in ids]

    def delete(self, owner: ScopeRef, entry_id: int, expected: int | Entry | None = None) -> bool:
        """Remove an entry with its history and vectors; False if it is absent."""
        known = expected_value(expected, "version")
        with self._db.write() as tx:
            old = self._find(tx, owner, entry_id)
            require_version("entry", entry_id, known, 0 if old is None else old.version)
            if old is None:
                return False
            entry_records.remove(tx, old.id)
            return True

    def list(
        self,
        owner: ScopeRef,
        *,
        category: str | None = None,
        pinned: bool | None = None,
        inactive: bool = False,
        current: bool = False,
        undecided: bool = False,
        as_of: Any = None,
        after: Entry | dict[str, Any] | None = None,
        limit: int | None = None,
        order: EntryOrder = "id",
    ) -> Iterator[Entry]:
        """Return the entries of the scope in turn, as `Entries.list` describes it."""
        if category is not None:
            name_value(category, "category")
        at_ms = when_ms(as_of, "as_of", self._db.clock())
        left = MAX_INT if limit is None else limit
        choice_value(order, "order", ORDERS)
        flag_value(current, "current")
        flag_value(undecided, "undecided")
        wanted = EntryFilter(self._db.clock(), category, pinned, inactive, undecided)
        every = MAX_INT if current else left
        if order == "id":
            place = row_after(after, {"id": int})
            found = self._by_id(owner, wanted, at_ms, 0 if place is None else place[0], every)
        elif at_ms is not None:
            raise InvalidInput(
                f"order is {order!r}, but with as_of entries are listed by id: leave order out"
            )
        else:
            begin = row_after(after, {f"{order}_ms": int, "id": int})
            found = self._by_time(owner, wanted, order, begin or (MAX_INT, MAX_INT), every)
        return islice(self._current(found, at_ms), left) if current else found

    def _current(self, found: Iterator[Entry], at_ms: int | None) -> Iterator[Entry]:
        """Yield the entries that no newer entry certainly outdates."""
        for entry in found:
            if entry.outdated_by is not None:
                with self._db.read() as tx:
                    when_asked = self._db.clock() if at_ms is None else at_ms
                    scope_no = scope_of(entry.id)
                    if links.find_newest(tx, scope_no, [entry.id], when_asked, links.SURE_LINK):
                        continue
            yield entry

    def _by_id(
        self, owner: ScopeRef, wanted: EntryFilter, at_ms: int | None, after: int, left: int
    ) -> Iterator[Entry]:
        def read(tx: Tx, after: int, count: int) -> list[Entry]:
            span = owner.span(tx)
            if span is None:
                return []
            low, high = span[0] + number_of(after), span[1]
            if at_ms is None:
                found = entries.list_page(tx, low, high, limit=count, wanted=wanted)
            else:
                then = wanted.replace(now_ms=at_ms)
                found = past_page(tx, low, high, limit=count, wanted=then)
            return self._marked(tx, found, at_ms)

        return pages_of(self._db, read, lambda row: row.id, after, limit=left, size=PAGE)

    def _by_time(
        self,
        owner: ScopeRef,
        wanted: EntryFilter,
        order: EntryOrder,
        before: tuple[Any, ...],
        left: int,
    ) -> Iterator[Entry]:
        """Yield entries by time: all in one read, as each page sorts those of the scope."""

        def read(tx: Tx, before: tuple[Any, ...], count: int) -> list[Entry]:
            span = owner.span(tx)
            if span is None:
                return []
            place = before[0], min(span[0] + number_of(before[1]), span[1])
            found = entries.list_by_time(tx, span, order, place, limit=count, wanted=wanted)
            return self._marked(tx, found)

        def key_of(row: Entry) -> tuple[Any, ...]:
            return getattr(row, f"{order}_ms"), row.id

        return pages_of(self._db, read, key_of, before, limit=left, size=left)

    def _find(self, tx: Tx, owner: ScopeRef, entry_id: int) -> Entry | None:
        int_value(entry_id, "entry_id", 0, MAX_INT)
        scope_no = owner.find(tx)
        if scope_no is None or entry_id > MAX_NUMBER:
            return None
        return entries.find(tx, scope_range(scope_no)[0] + entry_id)

    def _get(self, tx: Tx, owner: ScopeRef, entry_id: int) -> Entry:
        found = self._find(tx, owner, entry_id)
        if found is None:
            raise NotFound("entry", entry_id)
        return found


def _holding(tx: Tx, old: Entry) -> dict[str, Any]:
    """Return the columns that make an entry valid from now on; an end in the past is removed."""
    ends = {name: getattr(old, name) for name in ("valid_to_ms", "expires_ms")}
    over = [name for name, end_ms in ends.items() if end_ms is not None and end_ms <= tx.now_ms]
    return {"active": 1, **dict.fromkeys(over)}


def _holder(tx: Tx, old: Entry, key: str | None) -> int | None:
    """Return the id of the entry that has the fact *key* now, where *old* is recalled."""
    return entries.open_key(tx, scope_of(old.id), key, entries.private_to(entries.row(tx, old.id)))


def _is_over(tx: Tx, old: Entry) -> bool:
    """Return whether an entry expired, even if the worker has not noted it yet."""
    if old.superseded_by is not None or old.status(tx.now_ms) != "expired":
        return False
    return old.active or entry_history.reason_of_end(tx, old.id) == "expire"
