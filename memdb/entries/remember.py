"""
Remembering: what a statement does to what is known already.

    key         the open statement of its key gives way, or says it already
    hash        the same words again: nothing, or a detail more
    neighbours  by vector and by words; the rules decide, or an arbiter

The rules are pure, so with them all is decided inside the write transaction.
Another arbiter may be slow: it is asked outside, about exact versions, and
asked again where one of them changed meanwhile.
"""

from __future__ import annotations

from memdb.entries.similarity import find_neighbours
from memdb.entries.validation import TRUST, read_statement
from memdb.errors import InvalidInput, PortError
from memdb.models.claims import ACTIONS, ADD, DELETE, NOOP, UPDATE, Claim, Verdict
from memdb.models.ids import scope_range
from memdb.models.messages import Entry, Remembered
from memdb.models.record import Record
from memdb.tables import active_entries, decisions, entries
from memdb.text.hashing import said_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx
    from memdb.english.rules import RuleArbiter
    from memdb.entries.lifecycle import Quota
    from memdb.entries.service import Notebook
    from memdb.entries.similarity import Near, Sense, Vectors
    from memdb.entries.usage import Uses
    from memdb.entries.validation import Statement
    from memdb.models.protocols import Arbiter
    from memdb.records.scopes import Owner

    Asked = tuple[tuple[int, int], ...]

# Rounds in which the arbiter is asked anew because an entry changed meanwhile;
# after them the rules decide.
ROUNDS = 3

# Entries that a slow arbiter is shown: a prompt of a page.
MOST_SHOWN = 5

# Characters of a reason that are kept: an arbiter may write a page.
MOST_REASON = 200

UNDECIDED = Verdict("")


class Look(Record):
    """
    What a statement meets in its scope, in one transaction.

    Attributes:
        same: An entry that says it in the same words, which holds or can hold again.
        near: Entries that resemble it, the likest first.
    """

    scope_no: int
    same: Entry | None
    near: tuple[Near, ...]


class Prepared(Record):
    """
    A statement ready to be remembered, without anything slow left to do.

    Attributes:
        owner: The scope it goes to.
        sense: The vector of its text, None without one.
    """

    owner: Owner
    said: Statement
    sense: Sense | None


class Remembering:
    """Remembers statements in the scopes of a file."""

    def __init__(
        self,
        db: Database,
        notebook: Notebook,
        vectors: Vectors,
        rules: RuleArbiter,
        uses: Uses,
        quota: Quota,
        arbiter: Arbiter | None = None,
    ) -> None:
        """
        Remember in *db*.

        Args:
            rules: Decides where *arbiter* is None, fails, or may not be asked.
            arbiter: Never called inside a transaction.
        """
        self._db = db
        self._notebook = notebook
        self._vectors = vectors
        self._rules = rules
        self._uses = uses
        self._quota = quota
        self._arbiter = arbiter

    def remember(
        self, owner: Owner, text: str, *, shared: bool | None = None, **given: Any
    ) -> Remembered:
        """Remember *text* as `Scope.remember` describes it."""
        return self.store(self.prepare(owner, text, shared=shared, **given))

    @property
    def asks(self) -> bool:
        """Say whether an arbiter is asked, which no transaction may wait for."""
        return self._arbiter is not None

    def store(self, told: Prepared) -> Remembered:
        """Store what was prepared; in a transaction of the caller's the rules decide."""
        answers: dict[Asked, Verdict] = {}
        left = 0 if self._arbiter is None or self._db.writing else ROUNDS
        while True:
            with self._db.write() as tx:
                look = self.look(tx, told)
                shown = [one for one in look.near if one.related][:MOST_SHOWN] if left else []
                asked = tuple((one.entry.id, one.entry.version) for one in shown)
                if not shown or asked in answers:
                    by = None if self._arbiter is None else self._arbiter.name
                    return self.settle(tx, look, told, shown, answers.get(asked), by)
            answers[asked] = self._ask(told.said, shown)
            left -= 1

    def prepare(
        self, owner: Owner, text: str, *, shared: bool | None = None, **given: Any
    ) -> Prepared:
        """
        Return *text* checked, and outside of transactions with its vector.

        Raises:
            InvalidInput: a field cannot be stored.
        """
        text, given = self._notebook.screen.told(text, given)
        said = read_statement(text, self._db.clock(), **given)
        owner = self._partition(owner, said, shared=shared)
        sense = None if self._db.writing else self._vectors.embed(text)
        return Prepared(owner, said, sense)

    def _partition(self, owner: Owner, said: Statement, *, shared: bool | None) -> Owner:
        """Return where a statement goes; InvalidInput for a category that nobody knows."""
        name = said.row["category"]
        category = self._notebook.categories.find(name)
        if category is None and not self._in_use(owner, name):
            known = ", ".join(self._notebook.categories.names())
            raise InvalidInput(
                f"category is {name!r}: use {known}, or add yours with db.categories.add()"
            )
        if shared is None:
            shared = category is not None and category.shared
        elif not isinstance(shared, bool):
            raise InvalidInput(f"shared is {shared!r}: give True or False")
        if shared and said.session is not None:
            raise InvalidInput("session is given for a shared entry: a session is one user's")
        return owner.shared() if shared else owner

    def _in_use(self, owner: Owner, category: str) -> bool:
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            return scope_no is not None and active_entries.active(tx, scope_no, category) > 0

    def look(self, tx: Tx, told: Prepared) -> Look:
        """Return what a statement meets in its scope."""
        said = told.said
        scope_no = self._notebook.prepare(tx, told.owner, said)
        row = said.row
        if row["key"] is not None:
            known = entries.open_key(tx, scope_no, row["key"])
            if known is not None:
                return Look(scope_no, entries.find(tx, known), ())
        ids = active_entries.said(tx, scope_no, row["text"])
        found = entries.get_many(tx, f"{ids}")
        same = next((found[one] for one in ids if _fits(found[one], row)), None)
        if same is not None and same.holds(tx.now_ms):
            return Look(scope_no, same, ())
        related = self._rules.related(row["text"])
        near = find_neighbours(tx, scope_range(scope_no), row, told.sense, related)
        return Look(scope_no, same, tuple(one for one in near if _comparable(one.entry, row)))

    def add_past(self, tx: Tx, look: Look, told: Prepared) -> Remembered:
        """
        Store what was said before the statement of its key that is known: as past.

        For statements that reach the file in another order than they were said.
        """
        known = look.same
        assert known is not None
        began = known.created_ms if known.valid_from_ms is None else known.valid_from_ms
        told.said.row.update(valid_to_ms=began, active=0, superseded_by=known.id)
        done = self._notebook.insert(tx, look.scope_no, told.said, "said before what is known")
        return done.replace(other=known)

    def _ask(self, said: Statement, shown: list[Near]) -> Verdict:
        """Ask the arbiter; one that fails, or answers what cannot be, gives way to the rules."""
        assert self._arbiter is not None
        try:
            verdict = self._arbiter.decide(
                _said_claim(said, self._db.clock()), [one.claim() for one in shown]
            )
        except PortError:
            return UNDECIDED
        return verdict if _possible(verdict, len(shown)) else UNDECIDED

    def settle(
        self,
        tx: Tx,
        look: Look,
        told: Prepared,
        shown: list[Near],
        answer: Verdict | None,
        answered_by: str | None,
    ) -> Remembered:
        """
        Write what follows from what a statement meets, and from what was decided about it.

        Args:
            shown: What the places in *answer* are places of.
            answer: None: the rules decide.
            answered_by: Who gave the answer.
        """
        said, sense = told.said, told.sense
        self._uses.write(tx)
        if look.same is not None and look.same.holds(tx.now_ms):
            return self._again(tx, look.scope_no, look.same, said, sense)
        near, by = list(look.near), self._rules.name
        if answer is not None and answer is not UNDECIDED:
            assert answered_by is not None
            verdict, near, by = answer, shown, answered_by
        else:
            verdict = self._rules.decide(
                _said_claim(said, tx.now_ms), [one.claim() for one in near]
            )
        verdict = _within_trust(verdict, near, said)
        new = verdict.action == ADD and look.same is None
        if new and not self._quota.has_room(tx, look.scope_no):
            return _refused(said, "every entry of a full memory is pinned: unpin some")
        done = self._carry_out(tx, look, said, verdict, near)
        involved = [near[place] for place in (*verdict.targets, *verdict.ends)]
        if by != self._rules.name:
            involved = involved or near  # what it was shown and let stand
        return self._finish(tx, look.scope_no, said, done, sense, by, involved[:1])

    def _again(
        self, tx: Tx, scope_no: int, same: Entry, said: Statement, sense: Sense | None
    ) -> Remembered:
        """Store what is known by its key, or in the same words."""
        keyed = same.key is not None and same.key == said.row["key"]
        if not keyed or said_hash(same.text) == said_hash(said.row["text"]):
            done = self._notebook.merge(tx, same, said, "the same words")
        elif _rank(said.row["trust"]) > _rank(same.trust):
            return _refused(said, "what is less trusted cannot replace what is known", same)
        else:
            done = self._notebook.tell_again(tx, scope_no, same, said)
        return self._finish(tx, scope_no, said, done, sense, "key" if keyed else "hash", [])

    def _carry_out(
        self, tx: Tx, look: Look, said: Statement, verdict: Verdict, near: list[Near]
    ) -> Remembered:
        """Do to the entries what was decided."""
        targets = [near[place].entry for place in verdict.targets]
        if verdict.action == DELETE:
            done = self._notebook.replace(
                tx, look.scope_no, targets, said, verdict.reason, look.same
            )
        elif verdict.action in (NOOP, UPDATE):
            text = None
            if verdict.action == UPDATE:
                text = self._notebook.screen.merged(verdict.text) or said.row["text"]
            done = self._notebook.merge(tx, targets[0], said, verdict.reason, text)
            for other in targets[1:] if verdict.action == UPDATE else ():
                self._notebook.fold(tx, other, done.entry)
        elif look.same is not None:
            text = said.row["text"]
            done = self._notebook.merge(tx, look.same, said, "it holds again", text)
        else:
            done = self._notebook.insert(tx, look.scope_no, said, verdict.reason)
        for place in verdict.ends:
            self._notebook.fold(tx, near[place].entry, done.entry)
        return done

    def _finish(
        self,
        tx: Tx,
        scope_no: int,
        said: Statement,
        done: Remembered,
        sense: Sense | None,
        by: str,
        involved: list[Near],
    ) -> Remembered:
        """Keep the vector and the reason, and make room."""
        entry = done.entry
        if sense is not None and entry.text == said.row["text"] and done.action != "ignored":
            self._vectors.put(tx, entry, sense)
        if done.action == "ignored":
            self._uses.note([entry.id])
        similarity = involved[0].cosine if involved else None
        other = involved[0].entry if involved else done.other
        if other is not None and (by not in ("hash", "key") or done.action != "ignored"):
            decisions.add(
                tx,
                {
                    "entry_id": entry.id,
                    "said_hash": said_hash(said.row["text"]),
                    "action": done.action,
                    "other_id": other.id,
                    "similarity": similarity,
                    "decided_by": by,
                    "reason": done.reason[:MOST_REASON],
                },
            )
        if done.action in ("added", "superseded") or (other is not None and not other.active):
            self._quota.make_room(tx, scope_no, entry)
        return done.replace(other=other, similarity=similarity)


def _fits(entry: Entry, row: dict[str, Any]) -> bool:
    """Say whether a statement in the same words is this entry: not of another key or session."""
    if entry.superseded_by is not None or entry.trust != row["trust"]:
        return False
    return _comparable(entry, row)


def _comparable(entry: Entry, row: dict[str, Any]) -> bool:
    """Say whether the two could be the same fact: neither keys nor sessions keep them apart."""
    if entry.key is not None and row["key"] not in (None, entry.key):
        return False
    return entry.session_only == bool(row["session_only"])


def _possible(verdict: object, count: int) -> bool:
    """Say whether an arbiter's answer can be carried out: it may name what was never shown."""
    if not isinstance(verdict, Verdict) or verdict.action not in ACTIONS:
        return False
    if verdict.text is not None and not isinstance(verdict.text, str):
        return False
    if not isinstance(verdict.reason, str):
        return False
    places = (*verdict.targets, *verdict.ends)
    if not all(isinstance(place, int) and 0 <= place < count for place in places):
        return False
    return verdict.action == ADD or bool(verdict.targets)


def _within_trust(verdict: Verdict, near: list[Near], said: Statement) -> Verdict:
    """Return *verdict* without what a statement may not do to entries that are trusted more."""
    own = _rank(said.row["trust"])

    def may(place: int) -> bool:
        return _rank(near[place].entry.trust) >= own

    ends = tuple(place for place in verdict.ends if may(place))
    verdict = verdict.replace(ends=ends)
    if verdict.action == UPDATE and not may(verdict.targets[0]):
        return verdict.replace(action=NOOP, text=None)
    if verdict.action == DELETE:
        targets = tuple(place for place in verdict.targets if may(place))
        if not targets:
            reason = f"less trusted, so it stands beside: {verdict.reason}"
            return Verdict(ADD, reason=reason, ends=ends)
        return verdict.replace(targets=targets)
    return verdict


def _rank(trust: str) -> int:
    return TRUST.index(trust)


def _said_claim(said: Statement, now_ms: int) -> Claim:
    row = said.row
    said_ms = now_ms if row["created_ms"] is None else row["created_ms"]
    return Claim(row["text"], row["category"], row["key"], said_ms)


def _refused(said: Statement, reason: str, other: Entry | None = None) -> Remembered:
    """Return that nothing was stored: an entry with id 0 and no text stands for it."""
    row = {**dict.fromkeys(Entry._fields), **said.row, "id": 0, "text": "", "keywords": ()}
    row |= {"version": 0, "active": False, "use_count": 0, "metadata": None, "uid": ""}
    row |= {"created_ms": 0, "updated_ms": 0, "stored_ms": 0}
    row |= {"pinned": False, "session_only": False}
    entry = Entry(**{field: row[field] for field in Entry._fields})
    return Remembered("refused", entry, other, reason)
