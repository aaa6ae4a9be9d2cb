"""
Summary service: builds the summary DAG of a session, from the job queue or at once.

Sources are read in one transaction and summarised outside any transaction. The summary is stored in
another transaction, which checks that it is still due. So two processes may work on one session, a
crash loses only the summary in progress, and no summary is stored twice. `compact` makes due
summaries, drops texts that can be computed again, and archives old messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.errors import Busy, Corrupt, DiskFull, ReadOnly
from memdb.models.ids import MAX_INT, MAX_SEQ, scope_of
from memdb.models.reports import WorkRequest
from memdb.models.summaries import Compacted
from memdb.records import summaries as summary_records
from memdb.records.scopes import find_session
from memdb.summaries.planning import (
    Step,
    count_leaves_due,
    expect_plan,
    leaf_step,
    plan,
    step_above,
    still_due,
)
from memdb.summaries.summarizer import Stopped
from memdb.tables import jobs, messages, scopes, sessions, summaries
from memdb.text.derived import bigrams_of
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Engine, Tx
    from memdb.errors import MemDBError, PortError
    from memdb.models.settings import Settings
    from memdb.models.summaries import Summary
    from memdb.summaries.summarizer import Made, SummaryMaker
    from memdb.tables.jobs import Job
    from memdb.text.tokens import Counting

    Status = Callable[[str, str], object]
    from memdb.conversations.archive import ArchiveService
    from memdb.records.scopes import ScopeRef

# Summaries per transaction without a model: 64 leaves take about 0.1 s.
LOCAL_BATCH = 64

# Leaves that a context makes at once, more than a turn leaves due. If more are due, it
# makes the second number of summaries: 1 ms (ADR-0029).
DRAIN_LEAVES = LOCAL_BATCH
DRAIN_BACKLOG = 2

# Texts dropped per transaction.
PRUNE_BATCH = 1000

# Failures in a row after which the model counts as gone for this run.
MAX_FAILURES = 3


class Run:
    """
    One call that makes summaries: what was requested, and how often the model failed.

    Attributes:
        request: Its callbacks are called between summaries and during one.
        failure: The first failure of the model, None if there was none.
    """

    __slots__ = ("_in_a_row", "failure", "request")

    def __init__(self, request: WorkRequest) -> None:
        """Start without failures."""
        self.request = request
        self.failure: PortError | None = None
        self._in_a_row = 0

    @property
    def is_model_gone(self) -> bool:
        """Whether the model failed `MAX_FAILURES` times in a row."""
        return self._in_a_row >= MAX_FAILURES

    def note(self, failure: PortError | None) -> None:
        """Count the outcome of one summary; None means success."""
        self._in_a_row = self._in_a_row + 1 if failure is not None else 0
        self.failure = self.failure or failure

    def report(self, message: str) -> None:
        """Report the next step."""
        if self.request.status is not None:
            self.request.status("active", message)


class Summaries:
    """Builds the summaries of a file."""

    def __init__(
        self, db: Engine, counting: Counting, maker: SummaryMaker, settings: Settings
    ) -> None:
        """Summarise the sessions of *db* with *maker*, under *settings*."""
        self._db = db
        self._counting = counting
        self.maker = maker
        self.settings = settings

    def is_behind(self, tx: Tx, session: int) -> bool:
        """Return whether `drain` would make a summary now."""
        if self._db.writing:
            return False
        expect_plan(tx, session, self.settings, 1)
        known = sessions.identity(tx, session)
        return known is not None and bool(plan(tx, session, known[0], self.settings, 1))

    def drain(self, session: int) -> int:
        """
        Make the summaries that a context needs, without a model; return how many.

        Messages of a turn are summarised at once: up to `DRAIN_LEAVES` leaves, and the summaries
        that these make due. If more are due, after an import, `DRAIN_BACKLOG` are made. Later
        contexts and the job of the session make the rest, so the cost of a context does not depend
        on how many are due.

        If the file has a model, it improves these summaries later. A file that cannot be written
        now stays unchanged, because that error would not help a reader.
        """
        with self._db.read() as tx:
            leaves = count_leaves_due(tx, session, self.settings, DRAIN_LEAVES + 1)
        most = 2 * DRAIN_LEAVES if 0 < leaves <= DRAIN_LEAVES else DRAIN_BACKLOG
        done = 0
        while done < most and not (self._db.writing or self._db.is_read_only):
            try:
                most_now = min(LOCAL_BATCH, most - done)
                stored, _ = self._advance(session, most_now, Run(WorkRequest()), local=True)
            except (Busy, DiskFull, ReadOnly):
                break
            if not stored:
                break
            done += stored
        return done

    def catch_up(self, session: int, status: Status | None = None) -> tuple[int, PortError | None]:
        """
        Make all due summaries of a session now; return how many, and the first failure.

        Returns 0 if another process has the lease, so that a model is not called twice.
        """
        with self._db.read() as tx:
            known = sessions.identity(tx, session)
            if known is None or not plan(tx, session, known[0], self.settings, 1):
                return 0, None
        with self._db.write() as tx:
            summary_records.queue_session(tx, session)
            job = jobs.lease(tx, jobs.summarize_session(session), jobs.MODEL_LEASE_MS)
        if job is None:
            return 0, None
        run = Run(WorkRequest(status=status))
        return self._work(job, None, run), run.failure

    def run_pending(self, request: WorkRequest) -> tuple[int, MemDBError | None]:
        """
        Make all due summaries of the file; return how many, and the first failure.

        If a model fails, an extract ('fallback') is stored instead, and the model is called again
        later. A session that cannot be read is tried again later, and the others are done.
        """
        run = Run(request)
        damage: Corrupt | None = None
        done = low = 0
        while (request.limit is None or done < request.limit) and not request.stopped:
            job = self._next_job(low, early=request.early)
            if job is None:
                break
            low = job.ref + 1
            with self._db.write() as tx:
                held = jobs.lease(tx, job, jobs.MODEL_LEASE_MS)
            if held is not None:
                rest = None if request.limit is None else request.limit - done
                try:
                    done += self._work(held, rest, run)
                except Corrupt as error:
                    damage = damage or error
                    with self._db.write() as tx:
                        jobs.fail(tx, held.replace(lease_ms=0), str(error))
        return done, damage or run.failure

    @property
    def _batch(self) -> int:
        """Summaries per transaction: one if a model makes them, so that none is lost."""
        return LOCAL_BATCH if self.maker.port is None else 1

    def _next_job(self, low: int, *, early: bool) -> Job | None:
        """Return the next job that this process can do; improving needs a model."""
        while True:
            with self._db.read() as tx:
                found = jobs.due(tx, 0, low, MAX_INT, self._db.clock(), 100, early=early)
            for job in found:
                if job.kind == "summarize" and (job.subject == "session" or self.maker.port):
                    return job
            if not found:
                return None
            low = found[-1].ref + 1

    def _work(self, job: Job, limit: int | None, run: Run) -> int:
        """Do a leased job up to *limit*, and release it; return the number of summaries."""
        done = 0
        held: Job | None = job
        progress = run.request.progress or (lambda _count: None)
        try:
            if job.subject == "summary":
                done = self._improve(job, run)
                if done:
                    progress(done)
                return done
            while held is not None and (limit is None or done < limit) and not run.request.stopped:
                most = self._batch if limit is None else min(self._batch, limit - done)
                stored, held = self._advance(held.ref, most, run, job=held)
                if not stored:
                    break
                done += stored
                progress(stored)
        except Stopped:  # the summary in progress stays due
            return done
        finally:
            if held is not None:
                self._release(held)
        return done

    def _release(self, job: Job) -> None:
        """Release a job; remove a session's job if no summary is due any more."""
        with self._db.write() as tx:
            released = jobs.release(tx, job)
            if released is not None and job.subject == "session":
                known = sessions.identity(tx, job.ref)
                if known is None or not plan(tx, job.ref, known[0], self.settings, 1):
                    jobs.done(tx, released)

    def _advance(
        self, session: int, most: int, run: Run, *, local: bool = False, job: Job | None = None
    ) -> tuple[int, Job | None]:
        """
        Make the next summaries of a session, at most *most*.

        Returns:
            The number of stored summaries, and *job* with its lease renewed; None if
            another process has it.
        """
        with self._db.read() as tx:
            known = sessions.identity(tx, session)
            steps = [] if known is None else plan(tx, session, known[0], self.settings, most)
            if steps and steps[0].session != session:  # of what a branch shares
                known = sessions.identity(tx, steps[0].session)
        if known is None or not steps:
            return 0, job
        made = [self._made(known[0], step, run, local=local) for step in steps]
        with self._db.write() as tx:
            held = None if job is None else jobs.renew(tx, job, jobs.MODEL_LEASE_MS)
            if job is not None and held is None:
                return 0, None
            stored = 0
            for step, (summary, failure) in zip(steps, made, strict=True):
                row_id = self._store(tx, known, step, summary)
                if row_id is None and not self._replace(tx, step, summary):
                    break
                if row_id is not None and failure is not None:  # others see why, and when again
                    jobs.fail(tx, jobs.improve_summary(row_id), str(failure))
                stored += 1
        return stored, held

    def _made(
        self, name: str, step: Step, run: Run, *, local: bool
    ) -> tuple[Made, PortError | None]:
        """Return a summary, and the failure of the model if there was one."""
        if run.is_model_gone:
            made, _ = self.maker.make(step.source, step.depth, local=True)
            return made.replace(quality="fallback"), None
        if self.maker.port is not None and not local:
            run.report(f"Summarising {name} {step.first_seq}-{step.last_seq}")
        made, failure = self.maker.make(
            step.source, step.depth, local=local, cancelled=run.request.cancelled
        )
        run.note(failure)
        return made, failure

    def _store(self, tx: Tx, known: tuple[str, str], step: Step, made: Made) -> int | None:
        """Store a summary if it is still due; return its row id, or None."""
        name, uid = known
        session = step.session
        if sessions.identity(tx, session) != known or not still_due(tx, name, step):
            return None
        row_id = scopes.next_id(tx, scope_of(session))
        row: dict[str, Any] = {
            "id": row_id,
            "uid": summaries.node_uid(uid, step.depth, step.first_seq, step.last_seq),
            "session_id": session,
            "depth": step.depth,
            "first_seq": step.first_seq,
            "last_seq": step.last_seq,
            "created_ms": tx.now_ms,
            **self.columns(made),
        }
        summary_records.insert(tx, row, improvable=self.may_improve(made))
        return row_id

    def _replace(self, tx: Tx, step: Step, made: Made) -> bool:
        """Replace a context's extract of the same sources by a model's text."""
        stored = summaries.find_span(tx, step.session, step.first_seq, step.last_seq)
        if stored is None or stored.depth != step.depth or made.quality != "model":
            return False
        if not self.may_improve(stored) or not self.is_current(tx, stored, step):
            return False
        summary_records.update(tx, stored, self.columns(made))
        return True

    def columns(self, made: Made) -> dict[str, Any]:
        """Return the columns of a summary that come from *made*."""
        return {
            "text": made.text,
            "hint": made.hint,
            "quality": made.quality,
            "summarizer": made.summarizer,
            "trust": made.trust,
            "tokens": made.tokens,
            "counter": self._counting.name,
            "bigrams": bigrams_of(made.text),
        }

    def may_improve(self, made: Made | Summary) -> bool:
        """Return whether the file's model can improve the summary."""
        port = self.maker.port
        return port is not None and port.quality == "model" and made.quality != "model"

    def _improve(self, job: Job, run: Run) -> int:
        """Rewrite a summary with the model; after a failure its job is tried again later."""
        with self._db.read() as tx:
            summary = summaries.find_by_id(tx, job.ref)
            step = None if summary is None else self.step_of(tx, summary)
        if summary is None or step is None:
            with self._db.write() as tx:
                jobs.done(tx, job)
            return 0
        if run.is_model_gone:
            return 0
        run.report(f"Improving {summary.session} {summary.first_seq}-{summary.last_seq}")
        made, failure = self.maker.make(step.source, step.depth, cancelled=run.request.cancelled)
        run.note(failure)
        with self._db.write() as tx:
            if failure is not None:
                jobs.fail(tx, job, str(failure))
                return 0
            if not self.is_current(tx, summary, step):
                jobs.release(tx, job)  # it stays due
                return 0
            if not jobs.done(tx, job):
                return 0  # another process has it
            summary_records.update(tx, summary, self.columns(made))
        return 1

    def step_of(self, tx: Tx, summary: Summary) -> Step | None:
        """Return the step that made a summary; None if its sources were deleted."""
        session = summaries.session_of(tx, summary.id)
        if summary.depth:
            group = [self.with_text(tx, one) for one in summaries.sources(tx, summary)]
            return step_above(tx, session, group) if group else None
        count = summary.last_seq - summary.first_seq + 1
        run = messages.list_after(tx, session, summary.session, summary.first_seq - 1, count)
        run = [one for one in run if one.seq <= summary.last_seq]
        return leaf_step(tx, session, summary.first_seq, run) if run else None

    def is_current(self, tx: Tx, summary: Summary, step: Step | None) -> bool:
        """Return whether a summary is as it was, and so are the sources that *step* has of it."""
        if step is None:
            return True
        span = step.session, step.first_seq, step.last_seq
        now = summaries.find_by_id(tx, summary.id)
        if (
            now is None
            or now.replace(condensed_into=summary.condensed_into) != summary
            or messages.span_hash(tx, *span) != step.span_hash
        ):
            return False
        below = summaries.sources(tx, summary) if summary.depth else []
        return len(below) == step.source_count and all(
            one.text in (None, item.text) for one, item in zip(below, step.source, strict=False)
        )

    def with_text(self, tx: Tx, summary: Summary) -> Summary:
        """Return *summary* with its text, which is computed again if it was pruned."""
        if summary.text is not None:
            return summary
        step = self.step_of(tx, summary)
        if step is None:
            return summary.replace(text="")
        made, _ = self.maker.make(step.source, step.depth, local=True)
        return summary.replace(text=made.text, tokens=made.tokens, counter=self._counting.name)

    def count(self, text: str) -> int:
        """Return the tokens of *text* by the file's counter."""
        (tokens,) = self._counting.count_many([text])
        return tokens

    def count_all(self, session: int) -> int:
        """Return the number of summaries of a session."""
        with self._db.read() as tx:
            return summaries.count(tx, session)

    def upgrade(self, session: int) -> int:
        """Queue every summary that no model wrote; return how many."""
        with self._db.write() as tx:
            found = summaries.improvable(tx, session)
            for row_id in found:
                summary_records.queue(tx, row_id)
        return len(found)

    def prune(self, session: int) -> int:
        """Drop texts that can be computed again from their sources; return how many."""
        pruned = 0
        while True:
            with self._db.write() as tx:
                some = summary_records.prune(tx, session, PRUNE_BATCH)
            pruned += some
            if some < PRUNE_BATCH:
                return pruned


def compact(
    db: Engine,
    summaries: Summaries,
    archivist: Callable[[], ArchiveService],
    owner: ScopeRef,
    session: str,
    *,
    keep_last: int | None,
    prune: bool = True,
    progress: Callable[[str, str], object] | None,
) -> Compacted:
    """
    Compact a session; see `session.summaries.compact`.

    Raises:
        PortError: a model failed on a summary. All else was done.
        InvalidInput: the call was made inside a transaction.
    """
    if keep_last is not None:
        int_value(keep_last, "keep_last", 0, MAX_SEQ)
    db.refuse_read_only()
    db.refuse_inside("compact")
    report = progress or (lambda _status, _message: None)
    with db.read() as tx:
        target = find_session(tx, owner, session)
    if target is None:
        return Compacted(0, 0, 0, 0)
    report("active", f"Summarising {session}")
    summarized, failure = summaries.catch_up(target, progress)
    pruned = 0
    if prune:
        report("active", f"Dropping what can be made again in {session}")
        pruned = summaries.prune(target)
    archived = 0
    if keep_last is not None:
        report("active", f"Archiving {session}")
        archived = archivist().archive(owner, session, keep_last).messages
    if failure is not None:
        report("error", str(failure))
        raise failure
    report("done", f"{session} is compact")
    return Compacted(summarized, pruned, archived, summaries.count_all(target))
