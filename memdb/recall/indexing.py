"""
Embedding what was stored: outside write transactions, from the jobs table.

A write only notes that something has no vector yet. `run_pending` takes such
jobs under a lease, embeds a batch while nobody is blocked, and stores the
vectors where nothing moved meanwhile. A crash or a failing model leaves the
job behind, so nothing stays unembedded for good.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, MemDBError, PortError
from memdb.ids import session_range
from memdb.stores import embeddings, entries, jobs, messages
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.db.database import Database, Tx
    from memdb.ports import Embedder
    from memdb.stores.jobs import Job

# Texts per call of the embedder and per write transaction.
BATCH = 256

MAX_DIM = 65_536
MAX_ID = (1 << 63) - 1
EVERYTHING = (0, MAX_ID)


class Indexer:
    """Fills and names the embedding space of an open file."""

    def __init__(self, db: Database, embedder: Embedder | None) -> None:
        """
        Embed by *embedder*; None: this process embeds nothing.

        Raises:
            InvalidInput: its name or dimension cannot name a space.
        """
        if embedder is not None:
            name_value(embedder.name, "embedder.name")
            int_value(embedder.dim, "embedder.dim", 1, MAX_DIM)
        self._db = db
        self._space_no: int | None = None
        self.embedder = embedder

    def ensure_space(self, tx: Tx) -> int | None:
        """
        Return the embedder's space, making it where it is new; None without embedder.

        A new space makes everything the file already holds due for embedding.
        """
        found = self.find_space(tx)
        if found is None and self.embedder is not None:
            found = embeddings.add_space(tx, self.embedder.name, self.embedder.dim)
            jobs.add_everything(tx, found)
        return found

    def find_space(self, tx: Tx) -> int | None:
        """Return the embedder's space; None without embedder, or when it is new."""
        if self._space_no is None and self.embedder is not None:
            found = embeddings.find_space(tx, self.embedder.name, self.embedder.dim)
            if self._db.writing:
                return found  # what a write made may still be undone
            self._space_no = found
        return self._space_no

    def run_pending(
        self,
        limit: int | None = None,
        span: tuple[int, int] = EVERYTHING,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """
        Embed what is due and return how many texts that were.

        Args:
            limit: Stop after this many texts; None: go on until nothing is due.
            span: Only messages and entries with ids in this range.
            progress: Called after each batch with the number of its texts.

        Raises:
            PortError: the embedder failed on some of it. Those jobs stay, for a
                later try; the others were done.
        """
        if self.embedder is None:
            return 0
        with self._db.read() as tx:
            space_no = self.find_space(tx)
        if space_no is None:
            with self._db.write() as tx:
                space_no = self.ensure_space(tx)
        assert space_no is not None
        total = 0
        failure: PortError | None = None
        while limit is None or total < limit:
            batch = BATCH if limit is None else min(BATCH, limit - total)
            with self._db.read() as tx:
                due = jobs.due(tx, space_no, *span, self._db.clock(), 1)
            if not due:
                break
            try:
                done = self._run(due[0], batch)
            except PortError as error:
                failure = failure or error
                continue
            total += done
            if progress is not None:
                progress(done)
        if failure is not None:
            raise failure
        return total

    def _run(self, job: Job, batch: int) -> int:
        with self._db.write() as tx:
            if not jobs.lease(tx, job):
                return 0
        try:
            if job.subject == "session":
                return self._embed_session(job, batch)
            return self._embed_entry(job)
        except PortError as error:
            with self._db.write() as tx:
                jobs.fail(tx, job, str(error))
            raise

    def _embed_session(self, job: Job, batch: int) -> int:
        _, high = session_range(job.ref)
        with self._db.read() as tx:
            texts = messages.texts(tx, job.ref | job.next_seq, high, batch)
        vectors = self.embed([text for _, text in texts])
        found = [
            (ref, vector)
            for (ref, _), vector in zip(texts, vectors, strict=True)
            if vector is not None
        ]
        after = texts[-1][0] + 1 if texts else job.ref | job.next_seq
        with self._db.write() as tx:
            more = after <= high and messages.texts(tx, after, high, 1)
            moved = jobs.advance(tx, job, after - job.ref) if more else jobs.done(tx, job)
            if not moved:
                return 0  # the session was deleted, or another process took over
            embeddings.put(tx, job.space_no, "message", found)
        return len(texts)

    def _embed_entry(self, job: Job) -> int:
        with self._db.read() as tx:
            found = entries.text(tx, job.ref)
        (vector,) = self.embed([found[0]]) if found else [None]
        with self._db.write() as tx:
            if not jobs.done(tx, job):
                return 0  # it was changed or deleted meanwhile
            embeddings.delete_range(tx, "entry", job.ref, job.ref, job.space_no)
            if vector is not None:
                embeddings.put(tx, job.space_no, "entry", [(job.ref, vector)])
        return 1

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """
        Return the vector of each text as it is stored, None where there is none.

        Raises:
            PortError: the embedder failed or broke its contract.
        """
        if self.embedder is None:
            return [None] * len(texts)
        name = f"embedder {self.embedder.name!r}"
        try:
            vectors = list(self.embedder.embed(texts)) if texts else []
        except MemDBError:
            raise
        except Exception as error:
            raise PortError(name, str(error)) from error
        if len(vectors) != len(texts):
            raise PortError(name, f"gave {len(vectors)} vectors for {len(texts)} texts")
        dim = self.embedder.dim
        try:
            return [
                None if vector is None else embeddings.to_vector(vector, dim) for vector in vectors
            ]
        except InvalidInput as error:
            raise PortError(name, str(error)) from error
