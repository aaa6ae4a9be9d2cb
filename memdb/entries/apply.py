"""
Apply stage of `remember`: write a statement, and its links to what it resembles.

An entry that states the same takes over what is new in the statement. Only who knows retires
an entry: a key, or the verdict of an arbiter. Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import row_of
from memdb.entries.similarity import is_repeated
from memdb.entries.validation import screen_merged
from memdb.errors import InvalidInput, NotFound, existing
from memdb.facts import pairs
from memdb.models.entries import Entry, Remembered
from memdb.models.ids import session_of
from memdb.models.protocols import ADD, NOOP, UPDATE
from memdb.records import entry_writer, link_maker, links
from memdb.records.scopes import find_session
from memdb.tables import entries, messages
from memdb.text.trust import is_less_trusted, trust_of_merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx
    from memdb.entries.arbitration import Resolution
    from memdb.entries.categories import Categories
    from memdb.entries.lifecycle import Quota, UsageCounter
    from memdb.entries.similarity import SimilarEntries
    from memdb.entries.validation import Statement
    from memdb.models.protocols import Ids
    from memdb.models.types import Action
    from memdb.records.link_maker import Near
    from memdb.records.scopes import ScopeRef
    from memdb.text.screening import SecretScreen

    SpaceVector = tuple[int, bytes]


# Where a statement was made, and how: kept of one that is repeated.
PLACE = ("session_id", "first_seq", "last_seq")
SAID = ("text", *PLACE, "writer")

# Columns that an entry takes over from a statement of the same fact, if they were given.
TAKEN_OVER = {"writer", "metadata", "valid_from_ms"}


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
        is_known = self._categories.find(name) is not None
        if not is_known and (scope_no is None or not entries.has_active(tx, scope_no, name)):
            known = ", ".join(self._categories.names())
            raise InvalidInput(
                f"category is {name!r}: use {known},"
                " or add yours with db.settings.update(categories=...)"
            )

    def apply(
        self, tx: Tx, similar: SimilarEntries, answer: Resolution | None = None
    ) -> Remembered:
        """
        Write a statement, with its vector and links, and evict entries if necessary.

        A new entry is refused if every entry of a full scope is pinned.

        Args:
            answer: The decision of an arbiter about the similar entries.
        """
        self._usage.write(tx, similar.scope_no)
        same = similar.same
        if same is not None and same.holds(tx.now_ms):
            done = self._apply_to_same(tx, similar, same)
        else:
            if same is not None:
                # As the worker would have done.
                entry_writer.update(tx, same.id, "expire", active=0)
            done = self._apply_answer(tx, similar, answer)
        if done.action == "repeated":
            self._usage.note([done.entry.id])
        if done.action == "refused":
            return done
        found = links.links_among(tx, similar.scope_no, [done.entry.id])
        return done.replace(links=tuple(one for one in found if one.decided == "guessed"))

    def _apply_to_same(self, tx: Tx, similar: SimilarEntries, same: Entry) -> Remembered:
        """Write a statement whose key or words an active entry has."""
        statement, vector = similar.statement, similar.vector
        is_keyed = same.key is not None and same.key == statement.key
        if not is_keyed:
            return self.repeat(tx, same, statement)
        done = self.apply_to_key(tx, similar.scope_no, same, statement, vector)
        if done.action == "updated":
            self._quota.make_room(tx, similar.scope_no, done.entry)
        return done

    def _apply_answer(
        self, tx: Tx, similar: SimilarEntries, answer: Resolution | None
    ) -> Remembered:
        """Write a new statement, as an arbiter decided if there was one."""
        statement, vector = similar.statement, similar.vector
        decided = None if answer is None else answer.limited(statement)
        action = ADD if decided is None else decided.verdict.action
        if decided is None or action == ADD:
            reason = "" if decided is None else decided.verdict.reason
            return self._add(tx, similar, reason or "no entry says the same")
        first, *others = decided.targets
        reason = decided.verdict.reason
        if action == NOOP:
            return self.merge(tx, first, statement, reason, "repeated", vector)
        if action == UPDATE:
            text = screen_merged(decided.verdict.text, self._screen) or statement.text
            done = self.merge(tx, first, statement, reason, "updated", vector, text)
            for other in others:
                self._fold(tx, other, done.entry)
            return done
        done = self.supersede(tx, similar.scope_no, decided.targets, statement, reason, vector)
        self._quota.make_room(tx, similar.scope_no, done.entry)
        return done

    def _add(self, tx: Tx, similar: SimilarEntries, reason: str) -> Remembered:
        """Insert a statement, if the scope has room for it."""
        scope_no, statement = similar.scope_no, similar.statement
        active = self._quota.count_active(tx, scope_no)
        if not self._quota.has_room(tx, scope_no, active):
            return _refuse(statement, "every entry of a full memory is pinned: unpin some")
        target = self._find_retracted(similar)
        if target is not None:
            statement = statement.replace(active=0)
            done = self.insert(tx, scope_no, statement, "it takes back what was said")
            link_maker.make(tx, done.entry.id, similar.vector, similar.nearby)
            return done.replace(action="retracted", other=target)
        done = self.insert(tx, scope_no, statement, reason, similar.vector, similar.nearby or None)
        self._quota.make_room(tx, scope_no, done.entry, active + 1)
        return done

    @staticmethod
    def _find_retracted(similar: SimilarEntries) -> Entry | None:
        """Return the only entry that a statement certainly retracts; None in doubt."""
        statement = similar.statement
        if statement.key is not None or not pairs.is_retraction(statement.text):
            return None
        taken_back = [
            one.entry
            for one in similar.nearby
            if one.ends
            and one.relation.kind == "retracts"
            and one.relation.probability >= links.SURE_LINK
        ]
        return taken_back[0] if len(taken_back) == 1 else None

    def repeat(
        self, tx: Tx, old: Entry, statement: Statement, vector: SpaceVector | None = None
    ) -> Remembered:
        """
        Note that *old* was said again.

        Another spelling and another place are added to its history. A statement with the key of
        *old* decides how the entry is spelt, unless it is less trusted or older.

        Args:
            vector: Vector of the statement.
        """
        reason = "the same words"
        if (
            statement.key is not None
            and statement.text != old.text
            and (statement.created_ms or tx.now_ms) >= old.updated_ms
            and not is_less_trusted(statement.trust, old.trust)
        ):
            return self.merge(tx, old, statement, reason, "repeated", vector, statement.text)
        before, row = entries.row(tx, old.id), statement.columns()
        done = self.merge(tx, old, statement, reason, "repeated")
        said = {name: row[name] for name in SAID}
        is_elsewhere = said["session_id"] is not None and any(
            said[name] != before[name] for name in PLACE
        )
        if said["text"] == before["text"] and not is_elsewhere:
            return done
        entry_writer.repeat(tx, old.id, said)
        return done.replace(entry=get_entry(tx, old.id))

    def insert(
        self,
        tx: Tx,
        scope_no: int,
        statement: Statement,
        reason: str,
        vector: SpaceVector | None = None,
        nearby: Sequence[Near] | None = None,
    ) -> Remembered:
        """Insert a statement as a new entry, which expires by its category."""
        row = statement.columns()
        ttl_ms = self._categories.get(statement.category).ttl_ms
        expires = "expires_ms" in statement.given or statement.expires_ms is not None
        if ttl_ms is not None and not expires:
            row["expires_ms"] = (statement.created_ms or tx.now_ms) + ttl_ms
        entry_id = entry_writer.insert(tx, scope_no, row, self._ids, vector, nearby)
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
        action: Action,
        vector: SpaceVector | None = None,
        text: str | None = None,
    ) -> Remembered:
        """
        Add the new fields of a statement to *old*.

        Args:
            action: "repeated" or "updated".
            vector: Vector of the statement; stored if *old* gets its text.
            text: New text of the entry; None keeps the present one.
        """
        before = entries.row(tx, old.id)
        columns = _merged_columns(before, statement, text, tx.now_ms, self._categories)
        if not columns:
            return Remembered(action, old, old, reason)
        if columns.get("text", before["text"]) != statement.text:
            vector = None
        entry_writer.update(tx, old.id, "merge", vector, **columns)
        return Remembered(action, get_entry(tx, old.id), old, reason)

    def supersede(
        self,
        tx: Tx,
        scope_no: int,
        olds: list[Entry],
        statement: Statement,
        reason: str,
        vector: SpaceVector | None = None,
    ) -> Remembered:
        """
        Replace *olds* by a new entry, which gets their key.

        A statement about an earlier time is inserted as past instead.
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
            entry_writer.end(tx, old, tx.now_ms if from_ms is None else from_ms)
        new = self.insert(tx, scope_no, statement, reason, vector).entry
        for old in olds:
            entries.link(tx, old.id, new.id)
        return Remembered("updated", new, olds[0], reason)

    def apply_to_key(
        self,
        tx: Tx,
        scope_no: int,
        old: Entry,
        statement: Statement,
        vector: SpaceVector | None = None,
    ) -> Remembered:
        """Write a statement with the key of *old*, which a less trusted one cannot replace."""
        if is_repeated(statement, old.text, self._categories):
            return self.repeat(tx, old, statement, vector)
        if is_less_trusted(statement.trust, old.trust):
            reason = "what is less trusted cannot replace what is known"
            return _refuse(statement, reason, old)
        reason = "another statement of this key"
        return self.supersede(tx, scope_no, [old], statement, reason, vector)

    @staticmethod
    def _fold(tx: Tx, old: Entry, new: Entry) -> None:
        """Supersede *old*, which says the same or is over, by an existing entry."""
        if old.id != new.id:
            entry_writer.end(tx, old, tx.now_ms)
            entries.link(tx, old.id, new.id)


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

    Fields that were not given stay. The more durable category wins, so that no
    lasting fact becomes a passing note. The greater importance and the later
    expiry win too. A statement with a key decides alone.
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
    Return a statement with the fields that it takes over from the superseded entry.

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
    """Return that nothing was stored: the fact is an entry with id 0 and no text."""
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
