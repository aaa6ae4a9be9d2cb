"""
Entries: storing, changing and reading long-term records as they are told.

Nothing here compares one entry with another, except by key; `remembering` does.
"""

from __future__ import annotations

from memdb.entries import merging
from memdb.entries.screening import FLAGGED, is_order
from memdb.entries.validation import TRUST, read_statement, said_columns
from memdb.errors import InvalidInput, NotFound
from memdb.models.ids import MAX_INT, scope_range
from memdb.models.messages import Entry, EntryVersion, Remembered
from memdb.records import entries as ledger
from memdb.records.past import page as past_page
from memdb.tables import active_entries, decisions, entries, history, messages, sessions
from memdb.text.hashing import said_hash
from memdb.text.times import moment_or_span
from memdb.text.validate import choice_value, int_value, json_object, moment_ms, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx
    from memdb.entries.categories import Categories
    from memdb.entries.screening import Screen
    from memdb.entries.validation import Statement
    from memdb.models.messages import Decision
    from memdb.records.scopes import Owner

    Prepare = Callable[[Tx], object]

PAGE = 200
CHANGEABLE = ("text", "category", "keywords", "importance", "expires", "metadata")


class Notebook:
    """The entries of a file."""

    def __init__(
        self, db: Database, before_write: Prepare, categories: Categories, screen: Screen
    ) -> None:
        """
        Keep entries in *db*.

        *before_write* is called in each transaction that adds or changes one,
        before its embedding job is noted.
        """
        self._db = db
        self._before_write = before_write
        self.categories = categories
        self.screen = screen

    def add(self, owner: Owner, text: str, **given: Any) -> Remembered:
        """
        Store *text* without looking for entries that say the same, except by key.

        Arguments as in `Scope.remember`, and the *uid* it gets. For imports.

        Raises:
            InvalidInput: a field cannot be stored; nothing was written.
            SecretFound: a field holds a secret, and the policy refuses it.
            NotFound: the session, or the message in it, does not exist.
        """
        text, given = self.screen.told(text, given)
        said = read_statement(text, self._db.clock(), **given)
        with self._db.write() as tx:
            scope_no = self.prepare(tx, owner, said)
            key = said.row["key"]
            known = None if key is None else entries.open_key(tx, scope_no, key)
            if known is None:
                return self.insert(tx, scope_no, said, "nothing like it was known")
            return self.tell_again(tx, scope_no, get(tx, known), said)

    def prepare(self, tx: Tx, owner: Owner, said: Statement) -> int:
        """Return the number of the scope, and fill in where a statement was told."""
        self._before_write(tx)
        scope_no = owner.ensure(tx)
        told_in = None if said.session is None else sessions.find(tx, scope_no, said.session)
        if said.session is not None and told_in is None:
            raise NotFound("session", said.session)
        said.row["session_id"] = told_in
        for seq in (said.row["first_seq"], said.row["last_seq"]):
            if seq is not None and not messages.uids(tx, f"[{(told_in or 0) | seq}]"):
                raise NotFound("message", f"{said.session}#{seq}")
        return scope_no

    def insert(self, tx: Tx, scope_no: int, said: Statement, reason: str) -> Remembered:
        """Add what was said as a new entry."""
        row = said.row
        ttl = self.categories.get(row["category"]).ttl_ms
        if ttl is not None and "expires_ms" not in said.said and row["expires_ms"] is None:
            row = {**row, "expires_ms": (row["created_ms"] or tx.now_ms) + ttl}
        new_id = ledger.insert(tx, scope_no, row, self._db.ids)
        return Remembered("added", get(tx, new_id), reason=reason)

    def tell_again(self, tx: Tx, scope_no: int, old: Entry, said: Statement) -> Remembered:
        """Store a statement of the key that *old* has: it says more of it, or another thing."""
        if said_hash(old.text) == said_hash(said.row["text"]):
            return self.merge(tx, old, said, "the same key and words")
        return self.replace(tx, scope_no, [old], said, "another statement of this key")

    def merge(
        self, tx: Tx, old: Entry, said: Statement, reason: str, text: str | None = None
    ) -> Remembered:
        """Let *old* take over what a statement adds to it, and *text* if that is not None."""
        columns = merging.merged(entries.row(tx, old.id), said, text, tx.now_ms, self.categories)
        ledger.update(tx, old.id, "merge" if old.active else "restore", **columns)
        new = get(tx, old.id)
        action = "ignored" if new.version == old.version else "merged"
        return Remembered(action, new, old, reason)

    def replace(
        self,
        tx: Tx,
        scope_no: int,
        olds: list[Entry],
        said: Statement,
        reason: str,
        revived: Entry | None = None,
    ) -> Remembered:
        """
        Let a new entry (or *revived*) take the place of *olds*, whose key it gets.

        What it says of an earlier time than theirs is added as past.
        """
        row = said.row
        from_ms = row["valid_from_ms"]
        began = [one.valid_from_ms for one in olds if one.valid_from_ms is not None]
        if from_ms is not None and began and from_ms < min(began):
            row |= {"valid_to_ms": min(began), "active": 0, "superseded_by": olds[0].id}
            done = self.insert(tx, scope_no, said, f"of an earlier time; {reason}")
            return done.replace(other=olds[0])
        row |= merging.inherited(olds[0], said, tx.now_ms, self.categories)
        keys = [one.key for one in olds if one.key is not None]
        if row["key"] is None and keys:
            row["key"] = keys[0]
        for old in olds:
            ledger.end(tx, old, tx.now_ms if from_ms is None else from_ms)
        if revived is None:
            new = self.insert(tx, scope_no, said, reason).entry
        else:
            new = self.merge(tx, revived, said, reason, row["text"]).entry
        for old in olds:
            entries.link(tx, old.id, new.id)
        return Remembered("superseded", get(tx, new.id), olds[0], reason)

    def fold(self, tx: Tx, old: Entry, new: Entry) -> None:
        """Let *new* stand for *old*, which says the same or is over."""
        if old.id == new.id:
            return
        ledger.end(tx, old, tx.now_ms)
        entries.link(tx, old.id, new.id)

    def update(self, owner: Owner, entry_id: int, **changes: Any) -> Entry:
        """Change what an entry says, as `Entries.update` describes it."""
        unknown = sorted(set(changes) - set(CHANGEABLE))
        if unknown:
            raise InvalidInput(f"entry has no field {unknown[0]!r}: use {', '.join(CHANGEABLE)}")
        changes = self.screen.changed(changes)
        flagged = is_order(changes)
        with self._db.write() as tx:
            self._before_write(tx)
            old = self._get(tx, owner, entry_id)
            new = {field: getattr(old, field) for field in CHANGEABLE if field != "expires"}
            new |= changes
            said = said_columns(new["text"], new["category"], new["keywords"], new["importance"])
            said["metadata"] = json_object(new["metadata"], "metadata")
            if "expires" in changes:
                said["expires_ms"] = moment_or_span(changes["expires"], "expires", tx.now_ms)
            if flagged:
                said["trust"] = FLAGGED
            before = entries.row(tx, entry_id)
            if any(before[column] != value for column, value in said.items()):
                ledger.update(tx, entry_id, "update", **said, updated_ms=tx.now_ms)
            return get(tx, entry_id)

    def mark(
        self, owner: Owner, entry_id: int, *, pinned: bool | None = None, trust: str | None = None
    ) -> Entry:
        """Pin or unpin an entry, or say how far it is trusted; None leaves it as it is."""
        with self._db.write() as tx:
            self._before_write(tx)
            self._get(tx, owner, entry_id)
            if pinned is not None:
                ledger.update(tx, entry_id, "pin", pinned=int(pinned))
            if trust is not None:
                ledger.update(tx, entry_id, "trust", trust=choice_value(trust, "trust", TRUST))
            return get(tx, entry_id)

    def supersede(self, owner: Owner, old_id: int, new_id: int) -> Entry:
        """Say that one entry took another's place, as `Entries.supersede` describes it."""
        with self._db.write() as tx:
            self._before_write(tx)
            old, new = self._get(tx, owner, old_id), self._get(tx, owner, new_id)
            if old.id == new.id:
                raise InvalidInput(f"entry {old.id} cannot supersede itself: name two entries")
            if old.superseded_by is not None:
                raise InvalidInput(
                    f"entry {old.id} was superseded by {old.superseded_by}: supersede that one"
                )
            if active_entries.leads_to(tx, new.id, old.id):
                raise InvalidInput(
                    f"entry {new.id} was superseded by {old.id}: a circle says nothing"
                )
            ledger.end(tx, old, tx.now_ms)
            entries.link(tx, old.id, new.id)
            return get(tx, old.id)

    def get(self, owner: Owner, entry_id: int) -> Entry:
        """Return an entry; NotFound if the scope has none with this id."""
        with self._db.read() as tx:
            return self._get(tx, owner, entry_id)

    def find_key(self, owner: Owner, key: str) -> Entry | None:
        """Return the entry that states the fact *key* now, None without one."""
        name_value(key, "key")
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return None
            known = entries.find_key(tx, scope_no, key, self._db.clock())
            return None if known is None else entries.find(tx, known)

    def history(self, owner: Owner, entry_id: int) -> list[EntryVersion]:
        """Return what an entry was before, oldest first; [] if it never changed."""
        with self._db.read() as tx:
            self._get(tx, owner, entry_id)
            return history.list_all(tx, entry_id)

    def replaced(self, owner: Owner, entry_id: int) -> list[Entry]:
        """Return the entries whose place it took, those that these replaced too, newest first."""
        with self._db.read() as tx:
            self._get(tx, owner, entry_id)
            ids = active_entries.replaced_by(tx, entry_id)
            found = entries.get_many(tx, f"{ids}")
            return [found[one] for one in ids]

    def decisions(self, owner: Owner, entry_id: int) -> list[Decision]:
        """Return what was decided about statements that became this entry, oldest first."""
        with self._db.read() as tx:
            self._get(tx, owner, entry_id)
            return decisions.list_all(tx, entry_id)

    def delete(self, owner: Owner, entry_id: int) -> bool:
        """Remove an entry with its history and vectors; False if it is absent."""
        with self._db.write() as tx:
            if self._find(tx, owner, entry_id) is None:
                return False
            return ledger.remove(tx, entry_id)

    def list(
        self,
        owner: Owner,
        *,
        category: str | None = None,
        pinned: bool | None = None,
        inactive: bool = False,
        as_of: Any = None,
    ) -> Iterator[Entry]:
        """Yield the entries of the scope by id, as `Entries.list` describes it."""
        if category is not None:
            name_value(category, "category")
        at_ms = moment_ms(as_of, "as_of")
        after = 0
        while True:
            with self._db.read() as tx:
                span = owner.span(tx)
                if span is None:
                    return
                low, high = max(after, span[0]), span[1]
                asked: dict[str, Any] = {
                    "category": category,
                    "pinned": pinned,
                    "inactive": inactive,
                    "limit": PAGE,
                }
                if at_ms is None:
                    page = entries.list_page(tx, low, high, now_ms=self._db.clock(), **asked)
                else:
                    page = past_page(tx, low, high, at_ms=at_ms, **asked)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def _find(self, tx: Tx, owner: Owner, entry_id: int) -> Entry | None:
        int_value(entry_id, "entry_id", 0, MAX_INT)
        scope_no = owner.find(tx)
        if scope_no is None:
            return None
        low, high = scope_range(scope_no)
        return entries.find(tx, entry_id) if low <= entry_id <= high else None

    def _get(self, tx: Tx, owner: Owner, entry_id: int) -> Entry:
        found = self._find(tx, owner, entry_id)
        if found is None:
            raise NotFound("entry", entry_id)
        return found


def get(tx: Tx, entry_id: int) -> Entry:
    """Return an entry that is there."""
    found = entries.find(tx, entry_id)
    assert found is not None
    return found
