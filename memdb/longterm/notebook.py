"""
Entries: adding, changing and reading long-term records.

Decides what an entry must be, and writes it with its history, its index row
and its embedding job in one transaction.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, NotFound
from memdb.ids import MAX_SEQ, scope_range
from memdb.models import Entry, EntryVersion, Remembered
from memdb.stores import embeddings, entries, fulltext, history, jobs, messages, scopes, sessions
from memdb.text.digest import said_hash
from memdb.text.grams import bigrams_of
from memdb.text.validate import (
    int_value,
    json_object,
    name_value,
    optional_name,
    text_value,
    time_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from memdb.db.database import Database
    from memdb.db.transaction import Tx
    from memdb.owner import Owner

    Prepare = Callable[[Tx], object]

PAGE = 200
DEFAULT_CATEGORY = "events"
DEFAULT_IMPORTANCE = 5


class Notebook:
    """The entries of a file."""

    def __init__(self, db: Database, before_write: Prepare) -> None:
        """
        Keep entries in *db*.

        *before_write* is called in each transaction that adds or changes one,
        before its embedding job is noted.
        """
        self._db = db
        self._before_write = before_write

    def add(
        self,
        owner: Owner,
        text: str,
        *,
        category: str | None = None,
        key: str | None = None,
        keywords: Sequence[str] = (),
        importance: int | None = None,
        session: str | None = None,
        seq: int | None = None,
        valid_from_ms: int | None = None,
        expires_ms: int | None = None,
        created_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        uid: str | None = None,
    ) -> Remembered:
        """
        Remember *text* and say what that did.

        Arguments as in `Scope.remember`. An active entry with the same *key* is
        updated in place ("merged", or "ignored" when it says the same already);
        else a new one is "added". An update keeps what is not said: None, and
        no keywords. A time of expiry that has passed is not kept.

        Raises:
            InvalidInput: a field cannot be stored; nothing was written.
            NotFound: the session, or the message in it, does not exist.
        """
        given = {
            "category": category,
            "keywords": keywords or None,
            "importance": importance,
            "metadata": metadata,
            "valid_from_ms": valid_from_ms,
            "expires_ms": expires_ms,
        }
        row = self._said(
            text,
            DEFAULT_CATEGORY if category is None else category,
            keywords,
            DEFAULT_IMPORTANCE if importance is None else importance,
        )
        row |= {
            "key": optional_name(key, "key"),
            "metadata": json_object(metadata, "metadata"),
            "valid_from_ms": time_value(valid_from_ms, "valid_from_ms"),
            "expires_ms": time_value(expires_ms, "expires_ms"),
            "created_ms": time_value(created_ms, "created_ms"),
            "uid": optional_name(uid, "uid"),
        }
        if seq is not None and session is None:
            raise InvalidInput("seq is given without session: name the session too")
        span = None if seq is None else int_value(seq, "seq", 1, MAX_SEQ)
        unsaid = [field for field, value in given.items() if value is None]
        return self._store(owner, row, session, span, unsaid)

    def _store(
        self,
        owner: Owner,
        row: dict[str, Any],
        session: str | None,
        span: int | None,
        unsaid: list[str],
    ) -> Remembered:
        """Write a validated row: as a new entry, or over the one with its key."""
        with self._db.write() as tx:
            self._before_write(tx)
            scope_no = owner.ensure(tx)
            row |= self._told(tx, owner, session, (span, span))
            if span is not None and not messages.uids(tx, f"[{row['session_id'] | span}]"):
                raise NotFound("message", f"{session}#{span}")
            key = row["key"]
            known = None if key is None else entries.open_key(tx, scope_no, key)
            if known is not None:
                return self._merge(tx, owner, known, row, unsaid)
            entry_id = self.insert(tx, scope_no, row)
            return Remembered("added", self._stored(tx, entry_id))

    def insert(self, tx: Tx, scope_no: int, row: Mapping[str, Any]) -> int:
        """Add a validated row, fill in what it leaves open, and return its id."""
        entry_id = scopes.next_id(tx, scope_no)
        made_ms = tx.now_ms if row["created_ms"] is None else row["created_ms"]
        filled = {
            "pinned": 0,
            "trust": "trusted",
            "version": 1,
            "active": 1,
            "superseded_by": None,
            "session_only": 0,
            "source": None,
            "use_count": 0,
            "last_used_ms": None,
            "valid_to_ms": None,
            "updated_ms": made_ms,
            "stored_ms": tx.now_ms,
            **row,
            "id": entry_id,
            "scope_no": scope_no,
            "uid": row["uid"] or self._db.ids(tx.now_ms),
            "created_ms": made_ms,
        }
        hashes = {"content_hash": entries.hash_of(filled), "said_hash": said_hash(filled["text"])}
        entries.add(tx, filled | hashes)
        fulltext.index_entry(tx, entry_id)
        jobs.add_entry(tx, entry_id, filled["version"])
        return entry_id

    def update(self, owner: Owner, entry_id: int, **changes: Any) -> Entry:
        """
        Change what an entry says; what it said before goes into its history.

        Changes that leave it as it is make no version.

        Args:
            changes: `text`, `category`, `keywords`, `importance`, `expires_ms`,
                `metadata`; the others stay as they are.

        Raises:
            NotFound: the scope has no such entry.
            InvalidInput: an unknown or unusable field.
        """
        allowed = ("text", "category", "keywords", "importance", "expires_ms", "metadata")
        unknown = sorted(set(changes) - set(allowed))
        if unknown:
            raise InvalidInput(f"entry has no field {unknown[0]!r}: use {', '.join(allowed)}")
        with self._db.write() as tx:
            self._before_write(tx)
            old = self._get(tx, owner, entry_id)
            new = {field: getattr(old, field) for field in allowed} | changes
            said = self._said(new["text"], new["category"], new["keywords"], new["importance"])
            said["metadata"] = json_object(new["metadata"], "metadata")
            said["expires_ms"] = time_value(new["expires_ms"], "expires_ms")
            said["valid_from_ms"] = old.valid_from_ms
            if self._says_the_same(old, said):
                return old
            said |= self._told(tx, owner, old.session, (old.first_seq, old.last_seq))
            self._rewrite(tx, old, said, "update")
            return self._stored(tx, entry_id)

    def _merge(
        self, tx: Tx, owner: Owner, known: int, row: dict[str, Any], unsaid: list[str]
    ) -> Remembered:
        """Update the entry *known*; the fields in *unsaid* stay as they were."""
        old = self._stored(tx, known)
        if row["session_id"] is None:
            row |= self._told(tx, owner, old.session, (old.first_seq, old.last_seq))
        before = self._content(old)
        if old.expires_ms is not None and old.expires_ms <= self._db.clock():
            before["expires_ms"] = None  # said again, so it holds again
        row |= {field: before[field] for field in unsaid}
        row["bigrams"] = bigrams_of(f"{row['text']}\n{row['keywords']}")
        if self._says_the_same(old, row):
            return Remembered("ignored", old)
        self._rewrite(tx, old, row, "merge")
        return Remembered("merged", self._stored(tx, known))

    @classmethod
    def _says_the_same(cls, old: Entry, row: dict[str, Any]) -> bool:
        return all(row[field] == value for field, value in cls._content(old).items())

    @staticmethod
    def _content(old: Entry) -> dict[str, Any]:
        """Return the columns of *old* that a later statement can change."""
        return {
            "text": old.text,
            "category": old.category,
            "importance": old.importance,
            "keywords": "\n".join(old.keywords),
            "metadata": json_object(old.metadata, "metadata"),
            "expires_ms": old.expires_ms,
            "valid_from_ms": old.valid_from_ms,
        }

    def _rewrite(self, tx: Tx, old: Entry, said: dict[str, Any], reason: str) -> None:
        fulltext.drop_entry(tx, old.id)
        identity = {"uid": old.uid, "key": old.key, "created_ms": old.created_ms}
        row = {**entries.row(tx, old.id), "updated_ms": tx.now_ms, **said, **identity}
        row["content_hash"] = entries.hash_of(row)
        row["said_hash"] = said_hash(row["text"])
        history.keep(tx, old.id, reason)
        version = entries.update(tx, old.id, row)
        fulltext.index_entry(tx, old.id)
        jobs.add_entry(tx, old.id, version)

    def get(self, owner: Owner, entry_id: int) -> Entry:
        """Return an entry; NotFound if the scope has none with this id."""
        with self._db.read() as tx:
            return self._get(tx, owner, entry_id)

    def find_key(self, owner: Owner, key: str) -> Entry | None:
        """Return the active entry that states the fact *key*, None without one."""
        name_value(key, "key")
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            known = (
                None if scope_no is None else entries.find_key(tx, scope_no, key, self._db.clock())
            )
            return None if known is None else entries.find(tx, known)

    def history(self, owner: Owner, entry_id: int) -> list[EntryVersion]:
        """Return what an entry said before, oldest first; [] if it never changed."""
        with self._db.read() as tx:
            self._get(tx, owner, entry_id)
            return history.list_all(tx, entry_id)

    def delete(self, owner: Owner, entry_id: int) -> bool:
        """Remove an entry with its history and vectors; False if it is absent."""
        with self._db.write() as tx:
            if self._find(tx, owner, entry_id) is None:
                return False
            fulltext.drop_entry(tx, entry_id)
            embeddings.delete_range(tx, "entry", entry_id, entry_id)
            jobs.drop(tx, "entry", entry_id)
            return entries.delete(tx, entry_id)

    def _find(self, tx: Tx, owner: Owner, entry_id: int) -> Entry | None:
        int_value(entry_id, "entry_id", 0, (1 << 63) - 1)
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

    @staticmethod
    def _stored(tx: Tx, entry_id: int) -> Entry:
        found = entries.find(tx, entry_id)
        assert found is not None
        return found

    @staticmethod
    def _told(
        tx: Tx, owner: Owner, session: str | None, span: tuple[int | None, int | None]
    ) -> dict[str, int | None]:
        """Return the columns that say where it was told; NotFound without such a session."""
        found = None
        if session is not None:
            scope_no = owner.find(tx)
            name = name_value(session, "session")
            found = None if scope_no is None else sessions.find(tx, scope_no, name)
            if found is None:
                raise NotFound("session", session)
        return {"session_id": found, "first_seq": span[0], "last_seq": span[1]}

    @staticmethod
    def _said(text: str, category: str, keywords: Sequence[str], importance: int) -> dict[str, Any]:
        """Return the columns that say something, validated."""
        if not isinstance(keywords, (list, tuple)) or not all(
            isinstance(word, str) for word in keywords
        ):
            raise InvalidInput("keywords is not a list of str: give ['one', 'two']")
        if not text_value(text, "text").strip():
            raise InvalidInput("text is empty: say what to remember")
        words = [text_value(word, "keywords").replace("\n", " ").strip() for word in keywords]
        joined = "\n".join(word for word in words if word)
        return {
            "text": text,
            "category": name_value(category, "category"),
            "keywords": joined,
            "importance": int_value(importance, "importance", 1, 10),
            "bigrams": bigrams_of(f"{text}\n{joined}"),
        }

    def list(
        self, owner: Owner, *, category: str | None = None, inactive: bool = False
    ) -> Iterator[Entry]:
        """Yield the entries of the scope by id; *inactive* and expired ones only on request."""
        optional_name(category, "category")
        after = 0
        while True:
            with self._db.read() as tx:
                span = owner.span(tx)
                if span is None:
                    return
                page = entries.list_page(
                    tx,
                    max(after, span[0]),
                    span[1],
                    limit=PAGE,
                    now_ms=self._db.clock(),
                    category=category,
                    inactive=inactive,
                )
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id
