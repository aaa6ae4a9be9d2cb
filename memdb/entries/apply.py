"""
Apply stage of `remember`: write what was decided about a statement.

An entry that states the same takes over what is new in the statement. What a
statement contradicts is superseded and stays in the file as history. Every
function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import row_of
from memdb.entries.validation import screen_merged
from memdb.errors import InvalidInput, NotFound, existing
from memdb.models.entries import Entry, Remembered
from memdb.models.ids import session_of
from memdb.models.protocols import ADD, DELETE, NOOP, UPDATE
from memdb.records import entries as records
from memdb.records.scopes import find_session
from memdb.tables import entries, entry_history, messages
from memdb.text.derived import said_hash
from memdb.text.trust import trust_of_merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx
    from memdb.entries.arbitration import Resolution
    from memdb.entries.categories import Categories
    from memdb.entries.lifecycle import Quota, UsageCounter
    from memdb.entries.similarity import SimilarEntries
    from memdb.entries.validation import Statement
    from memdb.models.protocols import Ids
    from memdb.records.scopes import ScopeRef
    from memdb.text.screening import SecretScreen

    SpaceVector = tuple[int, bytes]

# Characters of a reason that are stored: an arbiter may write a page.
MAX_REASON_CHARS = 200

# Columns that an entry takes over from a statement of the same fact, if they were given.
TAKEN_OVER = {"source", "metadata", "valid_from_ms"}


class EntryWriter:
    """Applies resolutions to the entries of a file."""

    def __init__(
        self,
        ids: Ids,
        categories: Categories,
        screen: SecretScreen,
        quota: Quota,
        usage: UsageCounter,
    ) -> None:
        """
        Write entries.

        Args:
            ids: Makes the uid of a new entry.
            quota: Evicts the entries of least worth when a scope is full.
            usage: Its counts are written in the same transaction.
        """
        self._ids = ids
        self._categories = categories
        self._screen = screen
        self._quota = quota
        self._usage = usage

    def check_category(self, tx: Tx, scope_no: int | None, name: str) -> None:
        """Raise InvalidInput for a category that is unknown, and of no active entry of a scope."""
        is_used = scope_no is not None and entries.count_active(tx, scope_no, name) > 0
        if not is_used and self._categories.find(name) is None:
            known = ", ".join(self._categories.names())
            raise InvalidInput(
                f"category is {name!r}: use {known},"
                " or add yours with db.settings.update(categories=...)"
            )

    def note_use(self, ids: Sequence[int]) -> None:
        """Count a use of each entry."""
        self._usage.note(ids)

    def apply(self, tx: Tx, similar: SimilarEntries, resolution: Resolution) -> Remembered:
        """
        Write what was decided, with the vector, the decision and the eviction that follow.

        A new entry is refused if every entry of a full scope is pinned.
        """
        scope_no, statement = similar.scope_no, similar.statement
        self._usage.write(tx, scope_no)
        if resolution.refused is not None:
            return _refuse(statement, resolution.refused, similar.same)
        is_new = resolution.verdict.action == ADD and similar.same is None
        active = self._quota.count_active(tx, scope_no) if is_new else None
        if active is not None and not self._quota.has_room(tx, scope_no, active):
            return _refuse(statement, "every entry of a full memory is pinned: unpin some")
        done = self._change_entries(tx, similar, resolution)
        if done.action == "ignored":
            self._usage.note([done.entry.id])
        done = self._record_decision(tx, statement, resolution, done)
        if done.action in ("added", "superseded") or (done.other and not done.other.active):
            known = None if active is None or resolution.ends else active + 1
            self._quota.make_room(tx, scope_no, done.entry, known)
        return done

    def _change_entries(
        self, tx: Tx, similar: SimilarEntries, resolution: Resolution
    ) -> Remembered:
        """Insert, merge or supersede entries as the verdict says."""
        verdict, targets = resolution.verdict, resolution.targets
        statement, vector, same = similar.statement, similar.vector, similar.same
        if verdict.action == DELETE:
            revived = None if same in targets else same
            done = self.supersede(
                tx, similar.scope_no, targets, statement, verdict.reason, vector, revived
            )
        elif verdict.action == UPDATE:
            text = screen_merged(verdict.text, self._screen) or statement.text
            done = self.merge(tx, targets[0], statement, verdict.reason, vector, text)
            for other in targets[1:]:
                self._fold(tx, other, done.entry)
        elif verdict.action == NOOP:
            done = self.merge(tx, targets[0], statement, verdict.reason, vector)
        elif same is not None and _is_other_of_key(same, statement):
            records.update(tx, same.id, "expire", active=0)  # as the worker would have done
            done = self.insert(tx, similar.scope_no, statement, verdict.reason, vector)
        elif same is not None:
            done = self.merge(tx, same, statement, "it holds again", vector, statement.text)
        else:
            done = self.insert(tx, similar.scope_no, statement, verdict.reason, vector)
        for other in resolution.ends:
            self._fold(tx, other, done.entry)
        return done

    def _record_decision(
        self, tx: Tx, statement: Statement, resolution: Resolution, done: Remembered
    ) -> Remembered:
        """Store why, unless nothing was similar; return the result with the most similar entry."""
        verdict, by = resolution.verdict, resolution.decided_by
        places = (*verdict.targets, *verdict.ends)
        if not places and resolution.asked:
            places = (0,)  # the arbiter compared them, and kept them
        nearest = resolution.neighbors[places[0]] if places else None
        similarity = None if nearest is None else nearest.cosine
        other = done.other if nearest is None else nearest.entry
        if other is not None and (by not in ("hash", "key") or done.action != "ignored"):
            row = {
                "entry_id": done.entry.id,
                "said_hash": said_hash(statement.text),
                "action": done.action,
                "other_id": other.id,
                "similarity": similarity,
                "decided_by": by,
                "reason": done.reason[:MAX_REASON_CHARS],
            }
            entry_history.add_decision(tx, row)
        return done.replace(other=other, similarity=similarity)

    def insert(
        self,
        tx: Tx,
        scope_no: int,
        statement: Statement,
        reason: str,
        vector: SpaceVector | None = None,
    ) -> Remembered:
        """Insert a statement as a new entry, which expires as its category says."""
        row = statement.columns()
        ttl_ms = self._categories.get(statement.category).ttl_ms
        expires = "expires_ms" in statement.given or statement.expires_ms is not None
        if ttl_ms is not None and not expires:
            row["expires_ms"] = (statement.created_ms or tx.now_ms) + ttl_ms
        entry_id = records.insert(tx, scope_no, row, self._ids, vector)
        return Remembered("added", get_entry(tx, entry_id), reason=reason)

    def insert_past(
        self,
        tx: Tx,
        scope_no: int,
        statement: Statement,
        successor: Entry,
        until_ms: int,
        reason: str,
    ) -> Remembered:
        """Insert a statement that was true until *until_ms*, when *successor* replaced it."""
        past = statement.replace(valid_to_ms=until_ms, active=0, superseded_by=successor.id)
        return self.insert(tx, scope_no, past, reason).replace(other=successor)

    def merge(
        self,
        tx: Tx,
        old: Entry,
        statement: Statement,
        reason: str,
        vector: SpaceVector | None = None,
        text: str | None = None,
    ) -> Remembered:
        """
        Let *old* take over what a statement adds to it.

        Args:
            vector: Of the statement; stored if *old* gets its text.
            text: New text of the entry; None keeps what it has.
        """
        before = entries.row(tx, old.id)
        columns = _merged_columns(before, statement, text, tx.now_ms, self._categories)
        if not columns:
            return Remembered("ignored", old, old, reason)
        if columns.get("text", before["text"]) != statement.text:
            vector = None
        change = "merge" if old.active else "restore"
        records.update(tx, old.id, change, vector, **columns)
        return Remembered("merged", get_entry(tx, old.id), old, reason)

    def supersede(
        self,
        tx: Tx,
        scope_no: int,
        olds: list[Entry],
        statement: Statement,
        reason: str,
        vector: SpaceVector | None = None,
        revived: Entry | None = None,
    ) -> Remembered:
        """
        Replace *olds* by a new entry, which gets their key.

        A statement about a time before theirs is inserted as past instead.

        Args:
            revived: Inactive entry that states the same; it becomes active
                again in place of a new one.
        """
        from_ms = statement.valid_from_ms
        began = [old.valid_from_ms for old in olds if old.valid_from_ms is not None]
        if from_ms is not None and began and from_ms < min(began):
            reason = f"of an earlier time; {reason}"
            return self.insert_past(tx, scope_no, statement, olds[0], min(began), reason)
        statement = _inherit(olds[0], statement, tx.now_ms, self._categories)
        keys = [old.key for old in olds if old.key is not None]
        if statement.key is None and keys:
            statement = statement.replace(key=keys[0])
        for old in olds:
            records.end(tx, old, tx.now_ms if from_ms is None else from_ms)
        if revived is None:
            new = self.insert(tx, scope_no, statement, reason, vector).entry
        else:
            new = self.merge(tx, revived, statement, reason, vector, statement.text).entry
        for old in olds:
            entries.link(tx, old.id, new.id)
        return Remembered("superseded", new, olds[0], reason)

    def supersede_key(self, tx: Tx, scope_no: int, old: Entry, statement: Statement) -> Remembered:
        """Store a statement of the key that *old* has, without comparing other entries."""
        if said_hash(old.text) == said_hash(statement.text):
            return self.merge(tx, old, statement, "the same key and words")
        return self.supersede(tx, scope_no, [old], statement, "another statement of this key")

    @staticmethod
    def _fold(tx: Tx, old: Entry, new: Entry) -> None:
        """Supersede *old*, which states the same or is over, by an entry that exists."""
        if old.id != new.id:
            records.end(tx, old, tx.now_ms)
            entries.link(tx, old.id, new.id)


def _is_other_of_key(same: Entry, statement: Statement) -> bool:
    """Return whether an entry that does not hold has the key of a statement with other words."""
    is_of_key = statement.key is not None and statement.key == same.key
    return is_of_key and said_hash(same.text) != said_hash(statement.text)


def locate(tx: Tx, owner: ScopeRef, statement: Statement) -> tuple[int, Statement]:
    """
    Return the number of the scope, made if it is new, and the statement with its session's id.

    Raises:
        NotFound: the session, or a message of it, does not exist.
    """
    scope_no = owner.ensure(tx)
    if statement.session is None:
        return scope_no, statement
    session_id = find_session(tx, owner, statement.session)
    if session_id is None:
        raise NotFound("session", str(statement.session))
    seqs = [seq for seq in (statement.first_seq, statement.last_seq) if seq is not None]
    if seqs:
        ids = {seq: row_of(tx, session_id, seq) | seq for seq in seqs}
        stored = messages.uids(tx, list(ids.values()))
        for seq in seqs:
            if ids[seq] not in stored:
                raise NotFound("message", f"{statement.session}#{seq}")
        session_id = session_of(ids[max(seqs)])
    return scope_no, statement.replace(session_id=session_id)


def get_entry(tx: Tx, entry_id: int) -> Entry:
    """Return an entry that exists."""
    return existing(entries.find(tx, entry_id), "entries")


def _merged_columns(
    old: dict[str, Any],
    statement: Statement,
    text: str | None,
    now_ms: int,
    categories: Categories,
) -> dict[str, Any]:
    """
    Return the columns of *old* that a statement changes; {} if it adds nothing.

    What was not given stays. The more durable category wins, so that no
    lasting fact becomes a passing note; also the greater importance and the
    later expiry, except that a statement with a key decides alone. An entry
    that had expired or was evicted becomes active again.
    """
    keyed = statement.key is not None
    given = statement.given
    row = statement.columns()
    new: dict[str, Any] = {name: row[name] for name in given & TAKEN_OVER}
    if "category" in given:
        lasting = categories.lasting(old["category"], statement.category)
        new["category"] = statement.category if keyed else lasting
    if "keywords" in given:
        words = [*old["keywords"].split("\n"), *statement.keywords.split("\n")]
        new["keywords"] = "\n".join(dict.fromkeys(word for word in words if word))
    if "importance" in given:
        greater = max(old["importance"], statement.importance)
        new["importance"] = statement.importance if keyed else greater
    if statement.pinned:
        new["pinned"] = 1
    if keyed:
        new["key"] = statement.key
    new["expires_ms"] = _merged_expiry(old, statement, now_ms, categories)
    sources = (old["text"], old["trust"]), (statement.text, statement.trust)
    new["trust"] = trust_of_merged(old["text"] if text is None else text, sources)
    if text is not None:
        new["text"] = text
    if statement.session_id is not None and (text is not None or old["session_id"] is None):
        new |= {name: row[name] for name in ("session_id", "first_seq", "last_seq")}
    if not old["active"]:
        new |= {"active": 1, "valid_to_ms": None}
    changed = {column: value for column, value in new.items() if old[column] != value}
    return {**changed, "updated_ms": now_ms} if changed else {}


def _merged_expiry(
    old: dict[str, Any], statement: Statement, now_ms: int, categories: Categories
) -> int | None:
    """Return when an entry expires after its fact was stated again."""
    before: int | None = old["expires_ms"]
    if "expires_ms" in statement.given:
        after = statement.expires_ms
        if statement.key is not None:
            return after
        return None if before is None or after is None else max(before, after)
    if before is None:
        return None
    ttl_ms = categories.get(old["category"]).ttl_ms
    if ttl_ms is not None:
        return max(before, now_ms + ttl_ms)
    return before if before > now_ms else None


def _inherit(old: Entry, statement: Statement, now_ms: int, categories: Categories) -> Statement:
    """
    Return a statement with what it takes over from the entry that it supersedes.

    With the same key that is every field that was not given, else only how
    much the fact matters.
    """
    given = statement.given
    keyed = statement.key is not None and statement.key == old.key
    new: dict[str, Any] = {"pinned": int(old.pinned or statement.pinned)}
    if "category" not in given:
        new["category"] = old.category
    elif not keyed:
        new["category"] = categories.lasting(old.category, statement.category)
    if "importance" not in given:
        new["importance"] = old.importance
    if keyed and "keywords" not in given:
        new["keywords"] = "\n".join(old.keywords)
    expires_later = old.expires_ms is not None and old.expires_ms > now_ms
    if keyed and expires_later and "expires_ms" not in given:
        new["expires_ms"] = old.expires_ms
    return statement.replace(**new)


def _refuse(statement: Statement, reason: str, other: Entry | None = None) -> Remembered:
    """Return that nothing was stored: an entry with id 0 and no text stands for the fact."""
    row = {
        **dict.fromkeys(Entry._fields),
        **{name: value for name, value in statement.columns().items() if name in Entry._fields},
        **dict.fromkeys(("id", "version", "use_count"), 0),
        **dict.fromkeys(("created_ms", "updated_ms", "stored_ms"), 0),
        **dict.fromkeys(("text", "uid"), ""),
        **dict.fromkeys(("pinned", "session_only", "active"), False),
        "keywords": (),
        "metadata": None,
    }
    return Remembered("refused", Entry(**row), other, reason)
