"""
Forgetting on request: what goes, in one transaction, and the proof that it went.

Wires the rooms of messages and of long-term memory; the rules are theirs.
"""

from __future__ import annotations

from memdb.deletion import entries as learned
from memdb.deletion import messages as said
from memdb.deletion.messages import Rewriting, Target
from memdb.errors import Busy, InvalidInput, NotFound
from memdb.models.ids import (
    MAX_INT,
    MAX_SEQ,
    SCOPE_SHIFT,
    scope_range,
    seq_of,
    session_no_of,
    session_of,
)
from memdb.models.receipts import Receipt
from memdb.models.record import Record
from memdb.records import artifacts as artifact_records
from memdb.records import entries as entry_records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.records import tombstones as tombstone_records
from memdb.tables import entries, removal, sessions
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memdb.api._container import Rooms
    from memdb.engine.base import Row, Tx
    from memdb.engine.sqlite.proof import Probes
    from memdb.records.scopes import Owner
    from memdb.tables.artifacts import Place

# How often the summaries are planned anew because somebody changed them meanwhile.
MAX_TRIES = 10


class Doomed(Record):
    """
    What is to go.

    Attributes:
        parts: Sessions that lose some messages.
        whole: (id, name) of sessions that go as a whole.
        entries: Ids.
        versions: (entry, version, text, keywords, metadata) of entries that stay.
        artifacts: Where those stand that go by themselves.
        state: Sessions whose state goes; None among them: all of the user's.
    """

    parts: tuple[Target, ...] = ()
    whole: tuple[tuple[int, str], ...] = ()
    entries: tuple[int, ...] = ()
    versions: tuple[Row, ...] = ()
    artifacts: tuple[Place, ...] = ()
    state: tuple[str | None, ...] = ()


class Forgetter:
    """Forgets what one scope holds."""

    def __init__(self, rooms: Rooms, owner: Owner) -> None:
        """Forget for *owner*."""
        self._rooms = rooms
        self._db = rooms.db
        self._owner = owner

    def entry(self, entry_id: int, *, prove: bool, dry_run: bool) -> Receipt:
        """Forget one entry with everything it ever said; see `Scope.forget`."""
        int_value(entry_id, "entry", 0, MAX_INT)

        def choose(tx: Tx) -> Doomed:
            scope_no = self._owner.find(tx)
            low, high = (0, -1) if scope_no is None else scope_range(scope_no)
            if low <= entry_id <= high and entries.find(tx, entry_id) is not None:
                return Doomed(entries=(entry_id,))
            if scope_no is None or not removal.was_entry(tx, scope_no, entry_id):
                raise NotFound("entry", entry_id)
            return Doomed()

        return self._run("entry", str(entry_id), choose, prove=prove, dry_run=dry_run)

    def session(self, name: str, *, artifacts: bool, prove: bool, dry_run: bool) -> Receipt:
        """Forget a session, and the entries told in it; see `Scope.forget`."""
        name_value(name, "session")

        def choose(tx: Tx) -> Doomed:
            found = self._session(tx, name)
            return (
                Doomed() if found is None else self._whole(tx, [(found, name)], artifacts=artifacts)
            )

        return self._run("session", name, choose, prove=prove, dry_run=dry_run)

    def messages(
        self, name: str, seqs: Iterable[int], *, artifacts: bool, prove: bool, dry_run: bool
    ) -> Receipt:
        """Forget some messages of a session, and the entries told by them."""
        name_value(name, "session")
        wanted = tuple(sorted({int_value(seq, "seqs", 1, MAX_SEQ) for seq in seqs}))

        def choose(tx: Tx) -> Doomed:
            found = self._session(tx, name)
            if found is None:
                return Doomed()
            return self._parts(tx, [Target(found, name, wanted)], artifacts=artifacts)

        subject = f"{name}#{','.join(map(str, wanted))}"
        return self._run("messages", subject, choose, prove=prove, dry_run=dry_run)

    def query(self, query: str, *, artifacts: bool, prove: bool, dry_run: bool) -> Receipt:
        """Forget what holds all words of a query; see `Scope.forget`."""
        words = learned.words_of(query)

        def choose(tx: Tx) -> Doomed:
            scope_no = self._owner.find(tx)
            if scope_no is None:
                return Doomed()
            found = learned.matching(tx, scope_no, words)
            doomed = self._parts(tx, _targets(tx, found.messages), artifacts=artifacts)
            places = learned.places_of(tx, found.artifacts) if artifacts else []
            return _with(doomed, found, places)

        return self._run("query", query, choose, prove=prove, dry_run=dry_run)

    def everything(self, *, prove: bool, dry_run: bool) -> Receipt:
        """Forget all that the scope holds; see `Scope.forget`."""

        def choose(tx: Tx) -> Doomed:
            scope_no = self._owner.find(tx)
            if scope_no is None:
                return Doomed(state=(None,))
            low, high = scope_range(scope_no)
            known = [
                (one, info.name) for one, info in sessions.list_by_id(tx, low, high, limit=MAX_INT)
            ]
            places = artifact_records.list_places(tx, scope_no)
            every = tuple(removal.entry_ids(tx, low, high))
            return Doomed((), tuple(known), every, (), tuple(places), (None,))

        subject = f"{self._owner.app}\n{self._owner.user}"
        return self._run("everything", subject, choose, prove=prove, dry_run=dry_run)

    def _session(self, tx: Tx, name: str) -> int | None:
        scope_no = self._owner.find(tx)
        return None if scope_no is None else sessions.find(tx, scope_no, name)

    def _whole(self, tx: Tx, whole: list[tuple[int, str]], *, artifacts: bool) -> Doomed:
        """Return what goes with whole sessions."""
        told: dict[int, None] = {}
        versions = []
        places: dict[Place, None] = {}
        for session, _ in whole:
            scope_no = session >> SCOPE_SHIFT
            told |= dict.fromkeys(removal.told_in(tx, session, None))
            versions += removal.told_before(tx, session, None)
            places |= dict.fromkeys(
                artifact_records.list_places(tx, scope_no, session_no_of(session))
            )
            if artifacts:
                places |= dict.fromkeys(learned.places_made_in(tx, session))
        kept = tuple(row for row in versions if row[0] not in told)
        state = tuple(name for _, name in whole)
        return Doomed((), tuple(whole), tuple(told), kept, tuple(places), state)

    def _parts(self, tx: Tx, targets: list[Target], *, artifacts: bool) -> Doomed:
        """Return what goes with some messages: those that are there, and what they told."""
        parts = []
        told: dict[int, None] = {}
        versions = []
        places: dict[Place, None] = {}
        for target in targets:
            told |= dict.fromkeys(removal.told_in(tx, target.session, target.seqs))
            versions += removal.told_before(tx, target.session, target.seqs)
            here = said.present(tx, target)
            if here.seqs:
                parts.append(here)
            if artifacts:
                places |= dict.fromkeys(
                    learned.places_made_by(tx, target.session >> SCOPE_SHIFT, target.ids)
                )
        kept = tuple(row for row in versions if row[0] not in told)
        return Doomed(tuple(parts), (), tuple(told), kept, tuple(places), ())

    def _run(
        self,
        what: str,
        subject: str,
        choose: Callable[[Tx], Doomed],
        *,
        prove: bool,
        dry_run: bool,
    ) -> Receipt:
        if self._db.writing:
            raise InvalidInput("forget was called inside a write: call it after the transaction")
        from hashlib import sha256

        digest = sha256(f"{what}\n{subject}".encode()).hexdigest()
        if dry_run:
            with self._db.read() as tx:
                doomed = choose(tx)
                plans = self._plans(tx, doomed)
                removed, rewritten = self._counted(tx, doomed, plans)
            return Receipt(what, digest, removed, rewritten, self._db.clock(), dry_run=True)
        probes = _new_probes() if prove else None
        for _ in range(MAX_TRIES):
            with self._db.read() as tx:
                plans = self._plans(tx, choose(tx))
            done = self._try(choose, plans, probes)
            if done is not None:
                break
        else:
            raise Busy("the summaries of the session kept changing: try again")
        removed, rewritten, at_ms = done
        receipt = Receipt(what, digest, removed, rewritten, at_ms)
        return receipt if probes is None else self._proven(receipt, probes)

    def _plans(self, tx: Tx, doomed: Doomed) -> dict[int, Rewriting]:
        """Return what the summaries of each session that loses messages will say."""
        summaries = self._rooms.summaries if doomed.parts else None
        if summaries is None:
            return {}
        return {one.session: said.rewriting(tx, one, summaries) for one in doomed.parts}

    def _try(
        self, choose: Callable[[Tx], Doomed], plans: dict[int, Rewriting], probes: Probes | None
    ) -> tuple[dict[str, int], dict[str, int], int] | None:
        """Forget in one transaction; None where the file is no longer as it was planned."""
        from memdb.engine.sqlite.proof import begin_purge, end_purge

        with self._db.write() as tx:
            doomed = choose(tx)
            for part in doomed.parts:
                planned = plans.get(part.session)
                if planned is None or not said.same(tx, part, planned):
                    return None
            if probes is not None:
                self._collect(tx, doomed, plans, probes)
            begin_purge(tx)
            removed, rewritten = self._counted(tx, doomed, plans)
            self._remove(tx, doomed, plans)
            end_purge(tx)
            return removed, rewritten, tx.now_ms

    def _collect(self, tx: Tx, doomed: Doomed, plans: dict[int, Rewriting], probes: Probes) -> None:
        """Note what is to be searched for, while it is still there."""
        for part in doomed.parts:
            probes.add(said.values(tx, part))
            probes.add(said.summary_values(plans[part.session]), summary=True)
        for session, name in doomed.whole:
            probes.add(said.whole_values(tx, session, name))
            probes.add(said.whole_summaries(tx, session), summary=True)
        for entry_id in doomed.entries:
            probes.add(learned.entry_values(tx, entry_id))
        probes.add(learned.version_values(doomed.versions))
        for place in doomed.artifacts:
            probes.add(learned.artifact_values(tx, place))
        for session_name in doomed.state:
            rows = removal.state(tx, self._owner.app, self._owner.user, session_name)
            probes.add(value for row in rows for value in row)

    def _remove(self, tx: Tx, doomed: Doomed, plans: dict[int, Rewriting]) -> None:
        """Remove all of it."""
        for part in doomed.parts:
            said.remove(tx, part, plans[part.session], self._rooms.summaries)
        for entry_id in doomed.entries:
            entry_records.remove(tx, entry_id)
        for entry_id, version, *_ in doomed.versions:
            entry_records.remove_version(tx, entry_id, version)
        for place in doomed.artifacts:
            artifact_records.forget(tx, place)
        for _, name in doomed.whole:
            session_records.forget(tx, self._owner, name)
        for session_name in doomed.state:
            state_records.remove_user(tx, self._owner, session_name)
        scope_no = self._owner.find(tx)
        if None in doomed.state and scope_no is not None:
            tombstone_records.hide_all(tx, scope_no)

    def _counted(
        self, tx: Tx, doomed: Doomed, plans: dict[int, Rewriting]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many of each go, and how many summaries stay without them."""
        whole = [said.counts(tx, session) for session, _ in doomed.whole]
        removed = {
            "messages": sum(len(part.seqs) for part in doomed.parts) + sum(n for n, _ in whole),
            "sessions": len(doomed.whole),
            "entries": len(doomed.entries),
            "versions": len(doomed.versions),
            "summaries": sum(n for _, n in whole),
            "artifacts": len(doomed.artifacts),
            "state": sum(
                len(removal.state(tx, self._owner.app, self._owner.user, name))
                for name in doomed.state
            ),
        }
        written = sum(made is not None for plan in plans.values() for _, made in plan.summaries)
        segments = sum(said.segments_of(tx, part) for part in doomed.parts)
        return removed, {"summaries": written, "segments": segments}

    def _proven(self, receipt: Receipt, probes: Probes) -> Receipt:
        """Return *receipt* with the proof, after everything was taken off the disk."""
        from memdb.engine.sqlite.proof import prove, purge

        notices = purge(self._db)
        with self._db.read() as tx:
            scope_no = self._owner.find(tx)
        return receipt.replace(proof=prove(self._db, probes, notices, scope_no))


def _new_probes() -> Probes:
    from memdb.engine.sqlite.proof import Probes as NewProbes

    return NewProbes()


def _targets(tx: Tx, ids: Iterable[int]) -> list[Target]:
    """Return messages by their ids as the parts of sessions that are to go."""
    by_session: dict[int, list[int]] = {}
    for one in ids:
        by_session.setdefault(session_of(one), []).append(seq_of(one))
    names = sessions.names(tx, list(by_session))
    return [Target(one, names[one], tuple(seqs)) for one, seqs in by_session.items()]


def _with(doomed: Doomed, found: learned.Matches, places: list[Place]) -> Doomed:
    """Return *doomed* and what the words of a query name besides."""
    every = dict.fromkeys((*doomed.entries, *found.entries))
    rows = {row[:2]: row for row in (*doomed.versions, *found.versions)}
    versions = tuple(row for row in rows.values() if row[0] not in every)
    every_place = tuple(dict.fromkeys((*doomed.artifacts, *places)))
    return doomed.replace(entries=tuple(every), versions=versions, artifacts=every_place)
