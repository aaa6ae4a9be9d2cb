"""
Extraction service: turns the messages of a session into entries.

    find      facts of the new messages, by a model or offline    no transaction
    search    entries that resemble them                          one short transaction
    compare   what to do, by at most one more request             no transaction
    store     the facts of a batch, and the watermark             one transaction

The watermark moves in the transaction that stores a batch, and only from where
the batch began. So a crash loses only the work in progress, and two processes
cannot both store the facts of the same messages. A batch whose messages were
removed or changed meanwhile is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import Corrupt, MemDBError, NotFound, PortError, Unreadable
from memdb.extraction.candidates import cut_batch
from memdb.models.entries import Extracted, Outcome
from memdb.models.ids import MAX_INT, BranchName, scope_of
from memdb.models.record import Record
from memdb.models.reports import WorkRequest
from memdb.records.scopes import ScopeRef, find_session
from memdb.records.sessions import queue_extraction
from memdb.tables import jobs, messages, scopes, sessions
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Engine, Tx
    from memdb.extraction.candidates import Batch, CandidateFinder, CandidateResolver, ResolvedBatch
    from memdb.models.settings import Settings
    from memdb.tables.jobs import Job

# How often a batch is read again because its messages changed meanwhile.
MAX_TRIES = 3

# Unreadable answers after which a batch is read offline.
MAX_FAILURES = 3


class SessionPlace(Record):
    """A session by its scope, name and row id."""

    owner: ScopeRef
    name: str
    session: int


class ExtractionService:
    """Extracts from the sessions of a file."""

    def __init__(
        self,
        db: Engine,
        settings: Settings,
        finder: CandidateFinder,
        resolver: CandidateResolver,
    ) -> None:
        """Extract from *db* under *settings*: *finder* finds facts, *resolver* stores them."""
        self._db = db
        self._settings = settings
        self._finder = finder
        self._resolver = resolver

    def extract(
        self,
        owner: ScopeRef,
        session: str,
        *,
        dry_run: bool = False,
        limit: int | None = None,
        status: Callable[[str, str], object] | None = None,
    ) -> Extracted:
        """
        Extract from the messages of a session that were not read yet; see `Session.extract`.

        Raises:
            NotFound: there is no such session.
            PortError: the model failed, or its answer is unreadable. The
                batches before are stored.
        """
        if limit is not None:
            int_value(limit, "limit", 0, 1 << 62)
        if not dry_run:
            self._db.refuse_read_only()
        self._db.refuse_inside("extract")
        with self._db.read() as tx:
            found = find_session(tx, owner, session)
        if found is None:
            raise NotFound("session", session)
        place = SessionPlace(owner, session, found)
        request = WorkRequest(limit, status=status)
        return self._preview(place, request) if dry_run else self._extract(place, request)

    def pending(self) -> int:
        """Return the number of sessions with messages that were not read yet, or are being read."""
        with self._db.read() as tx:
            every = (0, MAX_INT, MAX_INT, MAX_INT)  # no lease holds at the end of time
            return len(jobs.extract_due(tx, *every, least=1, quiet_ms=0, early=True))

    def run_pending(self, request: WorkRequest) -> tuple[int, MemDBError | None]:
        """Extract from every session with new messages; return how many, and the first failure."""
        done = low = 0
        failure: MemDBError | None = None
        while (request.limit is None or done < request.limit) and not request.stopped:
            with self._db.read() as tx:
                due = self._due(tx, low, early=request.early)
                place = _place_of(self._db, tx, due[0].ref) if due else None
            if not due:
                break
            low = due[0].ref + 1
            if place is None:
                continue
            rest = None if request.limit is None else request.limit - done
            mine = request.replace(limit=rest, offline=self._settings.extract is None)
            try:
                done += self._extract(place, mine).messages
            except (PortError, Corrupt) as error:  # of this session: the others go on
                failure = failure or error
        return done, failure

    def _due(self, tx: Tx, low: int, *, early: bool) -> list[Job]:
        """Return the first session from *low* on with due messages; [] if there is none."""
        now_ms = self._db.clock()
        least = 1 if early else self._settings.extract_every
        quiet_ms = now_ms - self._settings.extract_idle_ms
        return jobs.extract_due(
            tx, low, MAX_INT, now_ms, 1, least=least, quiet_ms=quiet_ms, early=early
        )

    def _extract(self, place: SessionPlace, request: WorkRequest) -> Extracted:
        """Extract from a session batch by batch, as far as the request allows."""
        total = Extracted(0, 0, (), 0, 0)
        while (request.limit is None or total.messages < request.limit) and not request.stopped:
            step = self._step(place, request)
            if step is None:
                break
            total = _plus(total, step)
            if request.progress is not None:
                request.progress(step.messages)
        with self._db.read() as tx:
            return total.replace(next_seq=jobs.watermark(tx, place.session).next_seq)

    def _step(self, place: SessionPlace, request: WorkRequest) -> Extracted | None:
        """
        Extract from the next batch; None if there is none, or another process has the job.

        It is also None if its messages kept changing; then they stay due.
        """
        for _ in range(MAX_TRIES):
            try:
                return self._try_step(place, request)
            except _Changed:
                continue
        return None

    def _try_step(self, place: SessionPlace, request: WorkRequest) -> Extracted | None:
        """Extract from the next batch; _Changed if its messages changed while they were read."""
        job = self._take(place)
        if job is None:
            return None
        try:
            with self._db.read() as tx:
                batch = self._batch(tx, place, job.next_seq)
                span_hash = None if batch is None else _span_hash(tx, place, batch)
            if batch is None:
                self._pass_over(place, job)
                return None
            resolved, calls = self._resolve(place, batch, job.attempts, request)
            with self._db.write() as tx:
                if _span_hash(tx, place, batch) != span_hash:
                    raise _Changed  # noqa: TRY301 (rolls back)
                if not jobs.advance(tx, job, batch.next_seq):
                    return None  # deleted, or done by another process after our lease ended
                outcomes = self._resolver.store(tx, resolved)
        except PortError as error:
            if request.stopped:
                self._release(job)
                raise
            with self._db.write() as tx:
                jobs.fail(tx, job, str(error))
            raise
        except BaseException:
            self._release(job)
            raise
        return Extracted(len(batch.messages), 1, outcomes, calls, batch.next_seq)

    def _take(self, place: SessionPlace) -> Job | None:
        """Lease the extraction job of a session that has new messages."""
        with self._db.write() as tx:
            if sessions.identity(tx, place.session) is None:
                return None
            if sessions.last_seq(tx, place.session) < jobs.watermark(tx, place.session).next_seq:
                return None
            queue_extraction(tx, place.session)
            return jobs.lease(tx, jobs.watermark(tx, place.session), jobs.MODEL_LEASE_MS)

    def _pass_over(self, place: SessionPlace, job: Job) -> None:
        """Move the watermark past messages that were deleted."""
        with self._db.write() as tx:
            jobs.advance(tx, job, sessions.last_seq(tx, place.session) + 1)

    def _release(self, job: Job) -> None:
        """Release the lease; an error in that does not hide the first one."""
        try:
            with self._db.write() as tx:
                jobs.release(tx, job)
        except MemDBError:
            return  # the lease ends by itself

    def _batch(self, tx: Tx, place: SessionPlace, next_seq: int) -> Batch | None:
        """Return the next messages, with those before them; None if there are none."""
        most, before = self._settings.extract_messages, self._settings.extract_context
        new = messages.list_after(tx, place.session, place.name, next_seq - 1, most)
        if not new:
            return None
        context = []
        if before:
            context = messages.last(tx, place.session, place.name, before, new[0].seq)
        return cut_batch(new, context, self._settings.extract_chars)

    def _resolve(
        self, place: SessionPlace, batch: Batch, failures: int, request: WorkRequest
    ) -> tuple[ResolvedBatch, int]:
        """Return the resolved facts of *batch*, and the number of requests to a model."""
        caller = None if request.offline else self._finder.caller
        if request.status is not None and caller is not None:
            first, last = batch.messages[0].seq, batch.messages[-1].seq
            request.status("active", f"Extracting {place.name} {first}-{last}")
        try:
            keys = self._resolver.keys_in_use(place.owner) if caller else ()
            found = self._finder.find(batch, request.cancelled, keys=keys, offline=caller is None)
        except Unreadable:
            if failures + 1 < MAX_FAILURES:
                raise
            # The same answer would come for ever, and keep all later batches waiting.
            found = self._finder.find(batch, offline=True).replace(calls=1)
        resolved = self._resolver.resolve(place.owner, place.name, batch, found, request.cancelled)
        return resolved, found.calls + resolved.calls

    def _preview(self, place: SessionPlace, request: WorkRequest) -> Extracted:
        """
        Return the expected result of `extract`, and change nothing.

        Everything is stored in one transaction and rolled back, because the rules' decision about a
        fact depends on the facts stored before it.
        """
        with self._db.read() as tx:
            next_seq = jobs.watermark(tx, place.session).next_seq
        total = Extracted(0, 0, (), 0, next_seq)
        waiting: list[ResolvedBatch] = []
        while request.limit is None or total.messages < request.limit:
            with self._db.read() as tx:
                batch = self._batch(tx, place, next_seq)
            if batch is None:
                break
            resolved, calls = self._resolve(place, batch, MAX_FAILURES, request)
            waiting.append(resolved)
            next_seq = batch.next_seq
            total = _plus(total, Extracted(len(batch.messages), 1, (), calls, next_seq))
        try:
            with self._db.write() as tx:
                raise _Undo([self._resolver.store(tx, one) for one in waiting])  # noqa: TRY301 (rolls back)
        except _Undo as undone:
            return total.replace(outcomes=sum(undone.outcomes, ()))


class _Changed(Exception):
    """The messages of a batch changed since they were read."""


class _Undo(Exception):
    """Rolls a transaction back, and carries its outcomes."""

    def __init__(self, outcomes: list[tuple[Outcome, ...]]) -> None:
        """Carry *outcomes*."""
        self.outcomes = outcomes


def _span_hash(tx: Tx, place: SessionPlace, batch: Batch) -> str:
    """Return the hash of all messages that were read for it."""
    first = (batch.context or batch.messages)[0]
    return messages.span_hash(tx, place.session, first.seq, batch.messages[-1].seq)


def _place_of(db: Engine, tx: Tx, session: int) -> SessionPlace | None:
    known = sessions.identity(tx, session)
    if known is None:
        return None
    scope_no = scope_of(session)
    for number, app, user in scopes.list_all(tx):
        if number == scope_no:
            branch = sessions.branch_names(tx, [session]).get(session)
            name = known[0] if branch is None else BranchName(known[0], branch)
            return SessionPlace(ScopeRef(db, app, user), name, session)
    return None


def _plus(one: Extracted, other: Extracted) -> Extracted:
    return Extracted(
        one.messages + other.messages,
        one.batches + other.batches,
        one.outcomes + other.outcomes,
        one.calls + other.calls,
        other.next_seq,
    )
