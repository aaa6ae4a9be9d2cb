"""
Filling a space: embedding what was stored, outside write transactions, from the jobs table.

A write only notes that something has no vector yet. `run_pending` takes such
jobs under a lease, embeds a batch while nobody is blocked, and stores the
vectors where nothing moved meanwhile. A crash or a failing model leaves the
job behind, so nothing stays unembedded for good.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, PortError
from memdb.models.ids import MAX_INT, session_range
from memdb.models.vectors import to_vector
from memdb.records import entries as entry_records
from memdb.records import messages as message_records
from memdb.records import spaces
from memdb.records.spaces import SpaceName
from memdb.tables import entries, jobs, messages, space_jobs
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.engine.base import Tx
    from memdb.engine.sqlite.database import Database
    from memdb.models.protocols import Embedder
    from memdb.tables.jobs import Job
    from memdb.tables.spaces import Space

# Texts per call of the embedder and per write transaction.
BATCH = 256

# Failures in a row after which the embedder counts as gone.
MAX_FAILURES = 3

# A text that every embedder takes: if it fails, the embedder does, not a text.
PROBE = "memory"

MAX_DIM = 65_536


class Filler:
    """Fills the space of one embedder."""

    def __init__(self, db: Database, embedder: Embedder) -> None:
        """
        Embed by *embedder*.

        Raises:
            InvalidInput: its name or dimension cannot name a space.
        """
        name_value(embedder.name, "embedder.name")
        int_value(embedder.dim, "embedder.dim", 1, MAX_DIM)
        self._db = db
        self.embedder = embedder
        self.space_name = SpaceName(embedder.name, embedder.dim)

    def space(self, tx: Tx) -> Space | None:
        """Return the embedder's space, None if it is new; another process may have dropped it."""
        return spaces.find(tx, self.space_name)

    def settle(self) -> None:
        """
        Retire the other spaces once this one has all its vectors for the first time.

        From then on they get no work; a process that has the embedder of one
        of them takes it up again.
        """
        with self._db.read() as tx:
            found = self.space(tx)
            if found is None or found.complete or space_jobs.unfinished(tx, found.space_no):
                return
        with self._db.write() as tx:
            if not space_jobs.unfinished(tx, found.space_no):
                spaces.complete(tx, found.space_no)

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        *,
        early: bool = True,
    ) -> int:
        """
        Embed what is due and return how many texts that were.

        Args:
            limit: Stop after this many texts; None: go on until nothing is due.
            progress: Called after each batch with the number of its texts.
            early: Also what failed and waits to be tried again.

        Raises:
            PortError: the embedder failed on some of it. Those jobs stay, for a
                later try; the others were done, unless it failed
                `MAX_FAILURES` times in a row.
        """
        total = failed = low = 0
        failures: list[PortError] = []
        while failed < MAX_FAILURES and (limit is None or total < limit):
            batch = BATCH if limit is None else min(BATCH, limit - total)
            due = self._due((low, MAX_INT), batch, early=early)
            if not due:
                break
            told = len(failures)
            try:
                done = self._run(due, batch, failures)
            except PortError as error:
                failures.append(error)
                failed += 1
                low = due[-1].ref + 1
                continue
            if len(failures) > told and due[0].subject == "entry":
                low = due[-1].ref + 1  # those that were refused are not asked for again
            failed = 0
            total += done
            if progress is not None:
                progress(done)
        if failures:
            raise failures[0]
        self.settle()
        return total

    def is_behind(self, tx: Tx, span: tuple[int, int]) -> bool:
        """Return whether an id range has jobs that are due, or the space is not there yet."""
        space = self.space(tx)
        if space is None or space.retired:
            return True
        if jobs.due(tx, space.space_no, *span, self._db.clock(), 1, early=False):
            return True
        return not space.complete and not space_jobs.unfinished(tx, space.space_no)

    def drain(self, span: tuple[int, int], limit: int) -> None:
        """
        Embed up to *limit* texts of an id range, as a recall does before it reads.

        Raises:
            PortError: the embedder failed; it is not asked again before the
                job's time has come.
        """
        total = 0
        while total < limit:
            due = self._due(span, limit - total, early=False)
            if not due:
                break
            total += self._run(due, limit - total, [])
        self.settle()

    def _due(self, span: tuple[int, int], limit: int, *, early: bool) -> list[Job]:
        """Return the next job of a session, or jobs of entries up to *limit*."""
        with self._db.read() as tx:
            known = self.space(tx)
        if known is not None and not known.retired:
            space_no = known.space_no
        else:
            with self._db.write() as tx:
                space_no = spaces.ensure(tx, self.space_name)
        with self._db.read() as tx:
            found = jobs.due(tx, space_no, *span, self._db.clock(), limit, early=early)
        same = [job for job in found if job.subject == "entry"]
        return same if found and found[0].subject == "entry" else found[:1]

    def _run(self, due: list[Job], batch: int, skipped: list[PortError]) -> int:
        with self._db.write() as tx:
            taken = [held for job in due if (held := jobs.lease(tx, job)) is not None]
        if not taken:
            return 0
        try:
            if taken[0].subject == "session":
                return self._embed_session(taken[0], batch, skipped)
            return self._embed_entries(taken, skipped)
        except PortError as error:
            with self._db.write() as tx:
                for job in taken:
                    jobs.fail(tx, job, str(error))
            raise

    def _embed_session(self, job: Job, batch: int, skipped: list[PortError]) -> int:
        _, high = session_range(job.ref)
        with self._db.read() as tx:
            texts = messages.texts(tx, job.ref | job.next_seq, high, batch)
        vectors = self._embed_all([text for _, text in texts])
        skipped += [one for one in vectors if isinstance(one, PortError)]
        found = [
            (ref, vector)
            for (ref, _), vector in zip(texts, vectors, strict=True)
            if isinstance(vector, bytes)
        ]
        after = texts[-1][0] + 1 if texts else job.ref | job.next_seq
        with self._db.write() as tx:
            more = after <= high and messages.texts(tx, after, high, 1)
            moved = jobs.advance(tx, job, after - job.ref) if more else jobs.done(tx, job)
            if not moved:
                return 0  # the session was deleted, or another process took over
            message_records.put_vectors(tx, job.space_no, found)
        return len(texts)

    def _embed_entries(self, taken: list[Job], skipped: list[PortError]) -> int:
        with self._db.read() as tx:
            found = [entries.text(tx, job.ref) for job in taken]
        vectors = self._embed_all([text[0] if text else "" for text in found])
        with self._db.write() as tx:
            for job, vector in zip(taken, vectors, strict=True):
                if isinstance(vector, PortError):
                    jobs.fail(tx, job, str(vector))
                    skipped.append(vector)
                elif jobs.done(tx, job):  # else it was changed or deleted meanwhile
                    entry_records.set_vector(tx, job.space_no, job.ref, vector)
        return sum(not isinstance(vector, PortError) for vector in vectors)

    def _embed_all(self, texts: Sequence[str]) -> list[bytes | PortError | None]:
        """
        Return the vector of each text, None for those that say nothing.

        In place of the vector of a text that a working embedder refuses stands
        its error: one text must not keep a whole session without vectors. A
        message is stepped over, and `rebuild` makes it due again; an entry's
        job stays.

        Raises:
            PortError: the embedder failed, and not because of one of the texts.
        """
        said = [text for text in texts if text.strip()]
        vectors = iter(self._embed_or_skip(said) if said else [])
        return [next(vectors) if text.strip() else None for text in texts]

    def _embed_or_skip(self, texts: Sequence[str]) -> list[bytes | PortError | None]:
        """Embed *texts*, by halves where a working embedder refuses some."""
        try:
            return [*self.embed(texts)]
        except PortError as error:
            if not self._works():
                raise
            if len(texts) == 1:
                return [error]
        half = len(texts) // 2
        return self._embed_or_skip(texts[:half]) + self._embed_or_skip(texts[half:])

    def _works(self) -> bool:
        try:
            self.embed([PROBE])
        except PortError:
            return False
        return True

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """
        Return the vector of each text as it is stored, None where there is none.

        Raises:
            PortError: the embedder failed or broke its contract.
        """
        name = f"embedder {self.embedder.name!r}"
        try:
            vectors = list(self.embedder.embed(texts)) if texts else []
        except PortError:
            raise
        except Exception as error:
            raise PortError(name, str(error) or type(error).__name__) from error
        if len(vectors) != len(texts):
            raise PortError(name, f"gave {len(vectors)} vectors for {len(texts)} texts")
        dim = self.embedder.dim
        try:
            return [None if vector is None else to_vector(vector, dim) for vector in vectors]
        except InvalidInput as error:
            raise PortError(name, str(error)) from error
