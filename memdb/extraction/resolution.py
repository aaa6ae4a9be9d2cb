"""
The later stages of extraction: what becomes of candidates beside what is known.

A model is asked at most once for all candidates of a batch, about entries that
were found for them; it can name no other. What changed meanwhile, and what a
model cannot decide, the offline rules decide when it is stored.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, NotFound, PortError, SecretFound, TooLarge
from memdb.extraction.candidates import echoes, from_assistant
from memdb.extraction.parsing import read_verdicts
from memdb.extraction.prompts import DECISION_SCHEMA, compare_messages
from memdb.models.claims import ADD, DELETE, NOOP, UPDATE, Verdict
from memdb.models.extraction import Candidate, Outcome
from memdb.models.ids import scope_range
from memdb.models.record import Record
from memdb.tables import entries, words
from memdb.text.hashing import said_hash
from memdb.text.terms import content_words, query_words, word_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx
    from memdb.entries.categories import Categories
    from memdb.entries.remember import Look, Prepared, Remembering
    from memdb.entries.similarity import Near
    from memdb.extraction.candidates import Batch, Found
    from memdb.extraction.parsing import Verdict as Wanted
    from memdb.models.messages import Entry
    from memdb.models.model_client import Caller
    from memdb.records.scopes import Owner

# Entries that a candidate is compared with by a model.
# Source: flowcraft's number of neighbours.
MOST_OFFERED = 5

ECHO_TERMS = 12
MOST_ECHOED = 20
DECIDE_TOKENS = 2_000


class Item(Record):
    """
    A candidate on its way into the file.

    Attributes:
        prepared: Checked and embedded; None: it was dropped.
        reason: Why it was dropped.
        verdict: What a model wants done with `offered`; None: the rules decide.
        offered: Id and version of the entries that the model was shown.
    """

    candidate: Candidate
    prepared: Prepared | None
    reason: str = ""
    verdict: Verdict | None = None
    offered: tuple[tuple[int, int], ...] = ()
    conflict: str | None = None


class Decided(Record):
    """The candidates of a batch, ready to be stored."""

    items: tuple[Item, ...]
    calls: int


class Decider:
    """Compares candidates with what is known, and stores them."""

    def __init__(
        self,
        db: Database,
        remembering: Remembering,
        categories: Categories,
        caller: Caller | None,
    ) -> None:
        """Keep by *remembering*; ask through *caller*, None: nobody."""
        self._db = db
        self._remembering = remembering
        self._categories = categories
        self._caller = caller

    def decide(
        self,
        owner: Owner,
        session: str,
        batch: Batch,
        found: Found,
        cancelled: Callable[[], bool] | None = None,
    ) -> Decided:
        """Return what to do with each candidate; asks a model at most once, in no transaction."""
        items = [self._prepared(owner, session, batch, found, one) for one in found.candidates]
        if self._caller is None or not found.calls:
            return Decided(tuple(items), 0)
        offered = self._offered(items)
        if not any(offered):
            return Decided(tuple(items), 0)
        try:
            return Decided(tuple(self._asked(self._caller, items, offered, cancelled)), 1)
        except PortError:  # the rules decide: nothing that was found is lost
            return Decided(tuple(items), 1)

    def store(self, tx: Tx, decided: Decided) -> tuple[Outcome, ...]:
        """Store what was decided, in order: a later candidate meets what an earlier one became."""
        return tuple(self._stored(tx, one) for one in decided.items)

    def _prepared(
        self, owner: Owner, session: str, batch: Batch, found: Found, one: Candidate
    ) -> Item:
        """Return a candidate checked and embedded, or why it is dropped."""
        by_assistant = from_assistant(one, batch.messages)
        if by_assistant and echoes(one.text, self._known(owner, one.text)):
            return Item(one, None, "the assistant only repeats what is known")
        first = batch.messages[0].seq if one.first_seq is None else one.first_seq
        last = batch.messages[-1].seq if one.last_seq is None else one.last_seq
        told = [said.created_ms for said in batch.messages if first <= said.seq <= last]
        shared = self._categories.get(one.category).shared  # nobody's session told it
        try:
            prepared = self._remembering.prepare(
                owner,
                one.text,
                category=one.category,
                key=one.key,
                keywords=one.keywords,
                importance=one.importance,
                session=None if shared else session,
                seq=None if shared else (first, last),
                valid_from=one.valid_from_ms,
                expires=one.expires_ms,
                created_ms=max(told, default=None),
                source=f"extracted:{found.by}",
                trust="untrusted" if by_assistant else None,
            )
        except (InvalidInput, NotFound, SecretFound, TooLarge) as error:
            return Item(one, None, str(error))
        # Said again, a fact stays with who put it here first.
        said = prepared.said.replace(said=prepared.said.said - {"source"})
        return Item(one, prepared.replace(said=said))

    def _known(self, owner: Owner, text: str) -> Iterable[str]:
        """Return what entries of the scope say, or said, that share words with *text*."""
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            terms = word_terms(content_words(query_words(text)), ECHO_TERMS)
            counts: dict[int, int] = {}
            for ids in words.postings(tx, "entry", terms, *scope_range(scope_no)).values():
                for one in ids:
                    counts[one] = counts.get(one, 0) + 1
            best = sorted(counts, key=lambda one: (-counts[one], -one))[:MOST_ECHOED]
            return [entry.text for entry in entries.get_many(tx, f"{best}").values()]

    def _offered(self, items: Sequence[Item]) -> list[dict[str, Entry]]:
        """Return the entries to show beside each candidate, by the label that names them."""
        offered: list[dict[str, Entry]] = []
        with self._db.write() as tx:
            for number, item in enumerate(items, 1):
                near = self._near(tx, item)
                shown = [one.entry for one in near if one.related or one.near][:MOST_OFFERED]
                offered.append(
                    {f"{number}{chr(ord('a') + place)}": one for place, one in enumerate(shown)}
                )
        return offered

    def _near(self, tx: Tx, item: Item) -> Sequence[Near]:
        """Return what resembles a candidate; nothing where its session is gone."""
        if item.prepared is None:
            return ()
        try:
            return self._remembering.look(tx, item.prepared).near
        except NotFound:
            return ()

    def _asked(
        self,
        caller: Caller,
        items: list[Item],
        offered: list[dict[str, Entry]],
        cancelled: Callable[[], bool] | None,
    ) -> list[Item]:
        """Return the items with what the model wants done with those that resemble something."""
        places = [place for place, shown in enumerate(offered) if shown]
        answer = caller.complete(
            compare_messages([items[n].candidate for n in places], [offered[n] for n in places]),
            schema=DECISION_SCHEMA,
            max_tokens=DECIDE_TOKENS,
            cancelled=cancelled,
        )
        wanted = read_verdicts(answer, caller.name, len(places))
        done = list(items)
        for place, one in zip(places, wanted, strict=True):
            done[place] = _with_verdict(items[place], one, offered[place])
        return done

    def _stored(self, tx: Tx, item: Item) -> Outcome:
        if item.prepared is None:
            return Outcome(item.candidate, "dropped", item.reason)
        by = None if item.verdict is None or self._caller is None else self._caller.name
        try:
            look = self._remembering.look(tx, item.prepared)
            if _is_past(item.prepared, look):
                past = self._remembering.add_past(tx, look, item.prepared)
                return Outcome(item.candidate, "added", past.reason, past.entry)
            near = tuple(one for one in look.near if not _another_time(item, one.entry))
            look = look.replace(near=near)
            verdict, shown = _still(item, near)
            done = self._remembering.settle(tx, look, item.prepared, shown, verdict, by)
        except (InvalidInput, NotFound, SecretFound, TooLarge) as error:
            return Outcome(item.candidate, "dropped", str(error))
        entry = None if done.action == "refused" else done.entry
        target = None if done.other is None else done.other.id
        action = "dropped" if done.action == "refused" else done.action
        return Outcome(item.candidate, action, done.reason, entry, item.conflict, target)


def _is_past(told: Prepared, look: Look) -> bool:
    """Say whether another statement of the key is known that was said later."""
    row, known = told.said.row, look.same
    if known is None or row["key"] is None or known.key != row["key"]:
        return False
    other = said_hash(known.text) != said_hash(row["text"])
    return other and row["created_ms"] is not None and row["created_ms"] < known.updated_ms


def _another_time(item: Item, entry: Entry) -> bool:
    """Say whether both happened, each at its own time: the second tournament is not the first."""
    one = item.candidate
    return (
        one.category == entry.category == "events"
        and None not in (one.valid_from_ms, entry.valid_from_ms)
        and one.valid_from_ms != entry.valid_from_ms
    )


def _with_verdict(item: Item, wanted: Wanted, offered: Mapping[str, Entry]) -> Item:
    """Return *item* with the verdict that a model's answer amounts to."""
    labels = list(offered)
    target = wanted.target if wanted.target in offered else None
    place = labels.index(target) if target is not None else -1
    candidate = item.candidate
    reason = f"the model: {wanted.conflict or wanted.action}"
    verdict = Verdict(ADD, reason=reason)
    if wanted.action == "skip":
        # Without a target: it repeats an earlier candidate, which the rules see too.
        verdict = Verdict(NOOP, (max(place, 0),), reason=reason)
    elif target is not None and wanted.action == "merge" and wanted.text:
        verdict = Verdict(UPDATE, (place,), wanted.text, reason)
    elif target is not None and wanted.action == "delete":
        verdict = Verdict(DELETE, (place,), reason=reason)
        if wanted.conflict == "context_dependent":
            verdict = Verdict(ADD, reason=reason)
        elif wanted.conflict == "preference_change":
            verdict = Verdict(UPDATE, (place,), wanted.text or candidate.text, reason)
    return item.replace(
        verdict=verdict,
        offered=tuple((one.id, one.version) for one in offered.values()),
        conflict=wanted.conflict,
    )


def _still(item: Item, near: Sequence[Near]) -> tuple[Verdict | None, list[Near]]:
    """Return the model's verdict about what is there now; None if that changed meanwhile."""
    if item.verdict is None:
        return None, []
    there = {(one.entry.id, one.entry.version): one for one in near}
    known = {one for one, _ in item.offered}
    fresh = [one for one in near if one.near and one.entry.id not in known]
    if any(one not in there for one in item.offered) or fresh:
        return None, []  # changed, or an earlier candidate of the batch says the like
    return item.verdict, [there[one] for one in item.offered]
