"""
Learning from what was said: from the messages of a session to entries.

    find      what the new messages state; a model, or rules    no transaction
    search    the entries that resemble it                      one short transaction
    compare   what to do about those; at most one more call     no transaction
    store     all of a batch, and how far it got                one transaction

The watermark moves in the transaction that stores a batch, and only from
where the batch began: a crash loses the work in progress and nothing else,
and two processes cannot both store the same messages' facts.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, MemDBError, NotFound, PortError, Unreadable
from memdb.extraction.candidates import cut_batch
from memdb.models.extraction import Extracted, Outcome
from memdb.models.ids import MAX_INT, SCOPE_SHIFT
from memdb.models.record import Record
from memdb.records.scopes import Owner
from memdb.records.sessions import queue_extraction
from memdb.tables import jobs, messages, scopes, sessions
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Tx
    from memdb.engine.sqlite.database import Database
    from memdb.extraction.candidates import Batch, CandidateFinder
    from memdb.extraction.resolution import CandidateResolver, ResolvedBatch
    from memdb.models.extraction import ExtractPolicy
    from memdb.tables.jobs import Job

    Status = Callable[[str, str], object]

# Longer than two calls of a model with their retries take.
LEASE_MS = 150_000

# Failures after which a batch whose answers cannot be read is left to the rules.
MAX_FAILURES = 3


class Place(Record):
    """A session: whose, its name and its id."""

    owner: Owner
    name: str
    session: int


class Asking(Record):
    """Who is told before a model is asked, and who may stop it; None: nobody."""

    status: Status | None
    cancelled: Callable[[], bool] | None

    @property
    def stopped(self) -> bool:
        """Whether nothing more is wanted."""
        return self.cancelled is not None and self.cancelled()


class ExtractionService:
    """Extracts from the sessions of a file."""

    def __init__(
        self,
        db: Database,
        policy: ExtractPolicy,
        finder: CandidateFinder,
        resolver: CandidateResolver,
    ) -> None:
        """Extract from *db* as *policy* says: *finder* finds facts, *resolver* stores them."""
        self._db = db
        self._policy = policy
        self._finder = finder
        self._resolver = resolver

    def extract(
        self,
        owner: Owner,
        session: str,
        *,
        dry_run: bool = False,
        limit: int | None = None,
        status: Status | None = None,
    ) -> Extracted:
        """
        Extract from a session what was not yet; see `Session.extract`.

        Raises:
            PortError: the model gave no answer, or none that can be read.
                What was extracted before is stored.
        """
        if limit is not None:
            int_value(limit, "limit", 0, 1 << 62)
        name_value(session, "session")
        if self._db.writing:
            raise InvalidInput("extract was called inside a write: call it after the transaction")
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            found = None if scope_no is None else sessions.find(tx, scope_no, session)
        if found is None:
            raise NotFound("session", session)
        place = Place(owner, session, found)
        asking = Asking(status, None)
        return self._preview(place, limit, asking) if dry_run else self._all(place, limit, asking)

    def pending(self) -> int:
        """Return how many sessions say something that was not yet looked at."""
        with self._db.read() as tx:
            return len(self._due(tx, 0, 1 << 30, early=True))

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        status: Status | None = None,
        *,
        early: bool = True,
        cancelled: Callable[[], bool] | None = None,
    ) -> tuple[int, MemDBError | None]:
        """
        Extract from every session that has something new; how many messages, and what failed.

        Args:
            limit: Stop after about so many messages; None: go on to the end.
            progress: Called after each batch with the number of its messages.
            status: Called with ("active", what is done) before a model is asked.
            early: Also sessions that are still being talked in, and those that
                failed and wait to be tried again.
            cancelled: Asked between batches, and while a model answers.
        """
        done = low = 0
        failure: MemDBError | None = None
        asking = Asking(status, cancelled)
        while (limit is None or done < limit) and not asking.stopped:
            with self._db.read() as tx:
                due = self._due(tx, low, 1, early=early)
            if not due:
                break
            low = due[0].ref + 1
            rest = None if limit is None else limit - done
            try:
                read = self._session(due[0], rest, progress, asking)
            except PortError as error:
                failure = failure or error
                continue
            done += read
        return done, failure

    def _due(self, tx: Tx, low: int, count: int, *, early: bool) -> list[Job]:
        now_ms = self._db.clock()
        return jobs.extract_due(
            tx,
            low,
            MAX_INT,
            now_ms,
            count,
            least=1 if early else self._policy.every,
            quiet_ms=now_ms - self._policy.idle_ms,
            early=early,
        )

    def _session(
        self,
        job: Job,
        limit: int | None,
        progress: Callable[[int], object] | None,
        asking: Asking,
    ) -> int:
        """Extract from the session of a job, as far as *limit* allows; how many messages."""
        with self._db.read() as tx:
            place = _place_of(self._db, tx, job.ref)
        done = 0
        while place is not None and (limit is None or done < limit) and not asking.stopped:
            step = self._step(place, asking)
            if step is None:
                break
            done += step.messages
            if progress is not None:
                progress(step.messages)
        return done

    def _all(self, place: Place, limit: int | None, asking: Asking) -> Extracted:
        total = Extracted(0, 0, (), 0, 0)
        while limit is None or total.messages < limit:
            step = self._step(place, asking)
            if step is None:
                break
            total = _plus(total, step)
        with self._db.read() as tx:
            return total.replace(next_seq=jobs.watermark(tx, place.session).next_seq)

    def _step(self, place: Place, asking: Asking) -> Extracted | None:
        """Extract from the next messages; None: there are none, or another process is at them."""
        job = self._take(place)
        if job is None:
            return None
        try:
            with self._db.read() as tx:
                batch = self._batch(tx, place, job.next_seq)
            if batch is None:
                self._pass_over(place, job)
                return None
            resolved, calls = self._resolve(place, batch, job.attempts, asking)
            with self._db.write() as tx:
                if not jobs.advance(tx, job, batch.next_seq):
                    return None  # deleted, or done by another process after our lease ended
                outcomes = self._resolver.store(tx, resolved)
        except PortError as error:
            if asking.stopped:
                self._give_back(job)
                raise
            with self._db.write() as tx:
                jobs.fail(tx, job, str(error))
            raise
        except BaseException:
            self._give_back(job)
            raise
        return Extracted(len(batch.messages), 1, outcomes, calls, batch.next_seq)

    def _take(self, place: Place) -> Job | None:
        with self._db.write() as tx:
            if sessions.identity(tx, place.session) is None:
                return None
            if sessions.last_seq(tx, place.session) < jobs.watermark(tx, place.session).next_seq:
                return None
            queue_extraction(tx, place.session)
            return jobs.lease(tx, jobs.watermark(tx, place.session), LEASE_MS)

    def _pass_over(self, place: Place, job: Job) -> None:
        """Move the watermark behind messages that were deleted."""
        with self._db.write() as tx:
            jobs.advance(tx, job, sessions.last_seq(tx, place.session) + 1)

    def _give_back(self, job: Job) -> None:
        """Release the lease; an error on the way does not hide the first one."""
        try:
            with self._db.write() as tx:
                jobs.release(tx, job)
        except MemDBError:
            return  # the lease ends by itself

    def _batch(self, tx: Tx, place: Place, next_seq: int) -> Batch | None:
        new = messages.list_after(tx, place.session, place.name, next_seq - 1, self._policy.chunk)
        if not new:
            return None
        context = []
        if self._policy.context:
            context = messages.last(tx, place.session, place.name, self._policy.context, new[0].seq)
        return cut_batch(new, context)

    def _resolve(
        self, place: Place, batch: Batch, failures: int, asking: Asking
    ) -> tuple[ResolvedBatch, int]:
        """Return what to do with the facts of *batch*, and how often a model was asked."""
        if asking.status is not None and self._finder.caller is not None:
            first, last = batch.messages[0].seq, batch.messages[-1].seq
            asking.status("active", f"Extracting {place.name} {first}-{last}")
        try:
            found = self._finder.find(batch, asking.cancelled)
        except Unreadable:
            if failures + 1 < MAX_FAILURES:
                raise
            # It would answer so for ever, and everything behind this batch wait for it.
            found = self._finder.find(batch, by_rules=True).replace(calls=1)
        resolved = self._resolver.resolve(place.owner, place.name, batch, found, asking.cancelled)
        return resolved, found.calls + resolved.calls

    def _preview(self, place: Place, limit: int | None, asking: Asking) -> Extracted:
        """
        Return what `extract` would do, and change nothing.

        All of it is done, in one transaction, and undone: nothing else knows
        what the rules decide about the second of two facts.
        """
        with self._db.read() as tx:
            next_seq = jobs.watermark(tx, place.session).next_seq
        total = Extracted(0, 0, (), 0, next_seq)
        waiting: list[ResolvedBatch] = []
        while limit is None or total.messages < limit:
            with self._db.read() as tx:
                batch = self._batch(tx, place, next_seq)
            if batch is None:
                break
            resolved, calls = self._resolve(place, batch, MAX_FAILURES, asking)
            waiting.append(resolved)
            next_seq = batch.next_seq
            total = _plus(total, Extracted(len(batch.messages), 1, (), calls, next_seq))
        try:
            with self._db.write() as tx:
                raise _Undo([self._resolver.store(tx, one) for one in waiting])  # noqa: TRY301
        except _Undo as undone:
            return total.replace(outcomes=sum(undone.outcomes, ()))


class _Undo(Exception):
    """Ends a transaction of which nothing shall remain but what it would have done."""

    def __init__(self, outcomes: list[tuple[Outcome, ...]]) -> None:
        """Carry the *outcomes* out of it."""
        self.outcomes = outcomes


def _place_of(db: Database, tx: Tx, session: int) -> Place | None:
    known = sessions.identity(tx, session)
    if known is None:
        return None
    scope_no = session >> SCOPE_SHIFT
    for number, app, user in scopes.list_all(tx):
        if number == scope_no:
            return Place(Owner(db, app, user), known[0], session)
    return None


def _plus(one: Extracted, other: Extracted) -> Extracted:
    return Extracted(
        one.messages + other.messages,
        one.batches + other.batches,
        one.outcomes + other.outcomes,
        one.calls + other.calls,
        other.next_seq,
    )
