"""
The summary DAG of a session: making nodes, from the jobs table or at once.

Sources are read in one transaction, summarised outside of any, and the node is
stored in another that first looks whether it is still due. So two processes
may work on one session, a crash loses the summary in progress and nothing
else, and no summary is stored twice.
"""

from __future__ import annotations

from memdb.ids import SCOPE_SHIFT
from memdb.shortterm.planning import Step, plan, step_above, still_due
from memdb.shortterm.summarizing import items_of_messages
from memdb.stores import jobs, messages, nodes, scopes, sessions
from memdb.text.grams import bigrams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from memdb.db.database import Database
    from memdb.db.transaction import Tx
    from memdb.errors import PortError
    from memdb.shortterm.summarizing import Made, SummaryMaker
    from memdb.stores.jobs import Job
    from memdb.summary_models import Node, SummaryPolicy
    from memdb.text.counting import Counting

    Status = Callable[[str, str], object]

# Nodes per transaction where no model is asked: 64 leaves take about 0.1 s.
LOCAL_BATCH = 64

# Failures in a row after which the model counts as gone for this run.
MAX_FAILURES = 3

# Longer than the attempts of one summary take; renewed with each node.
LEASE_MS = 150_000

# Texts dropped per transaction.
PRUNE_BATCH = 1000

MAX_ID = (1 << 63) - 1


class Summaries:
    """Makes the nodes of a file."""

    def __init__(
        self, db: Database, counting: Counting, maker: SummaryMaker, policy: SummaryPolicy
    ) -> None:
        """Summarise the sessions of *db* by *maker*, when and how *policy* says."""
        self._db = db
        self._counting = counting
        self.maker = maker
        self.policy = policy

    def drain(self, session: int, most: int) -> int:
        """
        Make up to *most* nodes of a session that are due, without a model; how many that were.

        As a context does before it reads. With a model at hand, what is made
        here is due to be improved by it.
        """
        done = 0
        while done < most and not self._db.writing:
            stored = self._advance(session, min(LOCAL_BATCH, most - done), Failures(), local=True)
            if not stored:
                break
            done += stored
        return done

    def catch_up(
        self, session: int, limit: int | None = None, status: Status | None = None
    ) -> tuple[int, Failures]:
        """
        Make the nodes of a session that are due; how many, and why a model failed where it did.

        Takes no job: for a caller who wants one session done now.
        """
        done = 0
        failures = Failures()
        while limit is None or done < limit:
            most = self._batch if limit is None else min(self._batch, limit - done)
            stored = self._advance(session, most, failures, status=status)
            if not stored:
                break
            done += stored
        return done, failures

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        status: Status | None = None,
        *,
        early: bool = True,
    ) -> tuple[int, Failures]:
        """
        Do the summarising that is due in the file; how many nodes, and what failed.

        Where a model fails, an extract takes its place ('fallback') and the
        node is tried again later; nothing waits for it.

        Args:
            limit: Stop after so many nodes; None: go on until nothing is due.
            progress: Called with the number of nodes just made.
            status: Called with ("active", what is done) before a model is asked.
            early: Also what failed and waits to be tried again.
        """
        done = low = 0
        failures = Failures()
        while limit is None or done < limit:
            job = self._next_job(low, early=early)
            if job is None:
                break
            low = job.ref + 1
            held = self._lease(job)
            if held is None:
                continue
            rest = None if limit is None else limit - done
            made = self._work(job, held, rest, failures, status)
            done += made
            if made and progress is not None:
                progress(made)
        return done, failures

    @property
    def _batch(self) -> int:
        """Nodes per transaction: what a model made is stored at once."""
        return LOCAL_BATCH if self.maker.port is None else 1

    def _next_job(self, low: int, *, early: bool) -> Job | None:
        """Return the next job that this process can do: improving takes a model."""
        while True:
            with self._db.read() as tx:
                found = jobs.due(tx, 0, low, MAX_ID, self._db.clock(), 100, early=early)
            for job in found:
                if job.kind == "summarize" and (job.subject == "session" or self.maker.port):
                    return job
            if not found:
                return None
            low = found[-1].ref + 1

    def _lease(self, job: Job) -> int | None:
        with self._db.write() as tx:
            return tx.now_ms + LEASE_MS if jobs.lease(tx, job, LEASE_MS) else None

    def _work(
        self,
        job: Job,
        held: int,
        limit: int | None,
        failures: Failures,
        status: Status | None,
    ) -> int:
        """Do a leased job, as far as *limit* allows, and give the lease back."""
        lease = _Lease(job, held)
        try:
            if job.subject == "node":
                return self._improve(lease, failures, status)
            done = 0
            while limit is None or done < limit:
                most = self._batch if limit is None else min(self._batch, limit - done)
                stored = self._advance(job.ref, most, failures, lease=lease, status=status)
                if not stored:
                    break
                done += stored
            return done
        finally:
            self._settle(lease)

    def _settle(self, lease: _Lease) -> None:
        """Remove a session's job when nothing is due any more; else leave it to the next."""
        job = lease.job
        with self._db.write() as tx:
            if lease.lost or not jobs.renew(tx, job, lease.until_ms, 0):
                return
            if job.subject == "session":
                known = sessions.identity(tx, job.ref)
                if known is None or not plan(tx, job.ref, known[0], self.policy, 1):
                    jobs.done(tx, job)

    def _advance(
        self,
        session: int,
        most: int,
        failures: Failures,
        *,
        local: bool = False,
        lease: _Lease | None = None,
        status: Status | None = None,
    ) -> int:
        """Make the next nodes of a session, *most* at most; 0 when none is due."""
        with self._db.read() as tx:
            known = sessions.identity(tx, session)
            steps = [] if known is None else plan(tx, session, known[0], self.policy, most)
        if known is None or not steps:
            return 0
        made = [self._made(known[0], step, failures, local=local, status=status) for step in steps]
        with self._db.write() as tx:
            if lease is not None and not lease.renew(tx):
                return 0
            stored = 0
            for step, summary in zip(steps, made, strict=True):
                if not self._store(tx, session, known, step, summary):
                    break
                stored += 1
            return stored

    def _made(
        self,
        name: str,
        step: Step,
        failures: Failures,
        *,
        local: bool,
        status: Status | None,
    ) -> Made:
        if failures.gone:
            made, _ = self.maker.make(step.source, step.depth, local=True)
            return made.replace(quality="fallback")
        if status is not None and self.maker.port is not None and not local:
            status("active", f"Summarising {name} {step.first_seq}-{step.last_seq}")
        made, failure = self.maker.make(step.source, step.depth, local=local)
        failures.note(failure)
        return made

    def _store(self, tx: Tx, session: int, known: tuple[str, str], step: Step, made: Made) -> bool:
        """Store a node, if it is still due."""
        name, uid = known
        if sessions.identity(tx, session) != known or not still_due(tx, session, name, step):
            return False
        row: dict[str, Any] = {
            "id": scopes.next_id(tx, session >> SCOPE_SHIFT),
            "uid": nodes.node_uid(uid, step.depth, step.first_seq, step.last_seq),
            "session_id": session,
            "depth": step.depth,
            "first_seq": step.first_seq,
            "last_seq": step.last_seq,
            "created_ms": tx.now_ms,
            **self.columns(made),
        }
        nodes.add(tx, row)
        if step.depth:
            nodes.condense(tx, row)
        if self.may_improve(made):
            jobs.add_summarize(tx, "node", row["id"])
        return True

    def columns(self, made: Made) -> dict[str, Any]:
        """Return the columns of a node that *made* fills."""
        return {
            "text": made.text,
            "hint": made.hint,
            "quality": made.quality,
            "summarizer": made.summarizer,
            "tokens": made.tokens,
            "counter": self._counting.name,
            "bigrams": bigrams_of(made.text),
        }

    def may_improve(self, made: Made) -> bool:
        """Say whether the model at hand would write a better one."""
        port = self.maker.port
        return port is not None and port.quality == "model" and made.quality != "model"

    def _improve(self, lease: _Lease, failures: Failures, status: Status | None) -> int:
        """Let the model write a node anew; a failure leaves it as it is, for later."""
        job = lease.job
        with self._db.read() as tx:
            node = nodes.get(tx, job.ref)
            step = None if node is None else self.step_of(tx, node)
        if node is None or step is None:
            with self._db.write() as tx:
                lease.finish(tx)
            return 0
        if failures.gone:
            return 0
        if status is not None:
            status("active", f"Improving {node.session} {node.first_seq}-{node.last_seq}")
        made, failure = self.maker.make(step.source, step.depth)
        with self._db.write() as tx:
            if not lease.renew(tx):
                return 0
            failures.note(failure)
            if failure is not None:
                jobs.fail(tx, job, str(failure))
                lease.lost = True
                return 0
            nodes.improve(tx, node, self.columns(made))
            above = nodes.above(tx, job.ref)
            if above is not None:  # it was made from the text that is now a better one
                jobs.add_summarize(tx, "node", above)
            lease.finish(tx)
        return 1

    def step_of(self, tx: Tx, node: Node) -> Step | None:
        """Return what an existing node is made from; None if that is gone."""
        if node.depth:
            group = [self.with_text(tx, one) for one in nodes.sources(tx, node)]
            return step_above(group) if group else None
        session = nodes.session_of(tx, node.row_id)
        count = node.last_seq - node.first_seq + 1
        run = messages.list_after(tx, session, node.session, node.first_seq - 1, count)
        run = [one for one in run if one.seq <= node.last_seq]
        if not run:
            return None
        items = tuple(items_of_messages(run))
        return Step(0, node.first_seq, node.last_seq, items, 0)

    def with_text(self, tx: Tx, node: Node) -> Node:
        """Return *node* with its text, made again where it was pruned."""
        if node.text is not None:
            return node
        step = self.step_of(tx, node)
        if step is None:
            return node.replace(text="")
        made, _ = self.maker.make(step.source, step.depth, local=True)
        return node.replace(text=made.text, tokens=made.tokens, counter=self._counting.name)

    def count(self, text: str) -> int:
        """Return the tokens of *text* by the file's counter."""
        (tokens,) = self._counting.count_many([text])
        return tokens

    def upgrade(self, session: int) -> int:
        """Make every node that no model wrote due to be written by one; how many those are."""
        with self._db.write() as tx:
            found = nodes.improvable(tx, session)
            for row_id in found:
                jobs.add_summarize(tx, "node", row_id)
        return len(found)

    def prune(self, session: int) -> int:
        """Drop the texts that can be made again from their sources; how many."""
        pruned = 0
        while True:
            with self._db.write() as tx:
                some = nodes.prune(tx, session, PRUNE_BATCH)
            pruned += some
            if some < PRUNE_BATCH:
                return pruned


class Failures:
    """How often a model failed in a run: the first error, and whether it counts as gone."""

    __slots__ = ("count", "first", "in_a_row")

    def __init__(self) -> None:
        """Start with none."""
        self.count = 0
        self.first: PortError | None = None
        self.in_a_row = 0

    @property
    def gone(self) -> bool:
        """Whether it failed so often in a row that asking again is of no use now."""
        return self.in_a_row >= MAX_FAILURES

    def note(self, failure: PortError | None) -> None:
        """Count the outcome of one summary; None: it went well."""
        if failure is None:
            self.in_a_row = 0
            return
        self.count += 1
        self.in_a_row += 1
        self.first = self.first or failure


class _Lease:
    """A job that this process works on, until somebody else may take it."""

    __slots__ = ("job", "lost", "until_ms")

    def __init__(self, job: Job, until_ms: int) -> None:
        self.job = job
        self.until_ms = until_ms
        self.lost = False

    def renew(self, tx: Tx) -> bool:
        """Hold the job for longer; False when another process has it by now."""
        until_ms = tx.now_ms + LEASE_MS
        if self.lost or not jobs.renew(tx, self.job, self.until_ms, until_ms):
            self.lost = True
            return False
        self.until_ms = until_ms
        return True

    def finish(self, tx: Tx) -> None:
        """Remove the job: it is done."""
        if self.renew(tx):
            jobs.done(tx, self.job)
        self.lost = True
