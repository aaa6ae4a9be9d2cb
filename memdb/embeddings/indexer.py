"""
Embedding indexer: which embedding space answers, and embedding of what has no vector yet.

Most writes only queue a job; `remember` embeds its text before it writes. `run_pending` leases
such jobs, embeds a batch outside of transactions, and stores the vectors of rows that did not
change meanwhile. A crash or a failing embedder leaves the job in the queue.

A file that gets a new embedder gets a new space. Until it is complete, the old
space answers if its embedder is at hand. Only the model that made the vectors of
a space can embed a query for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, PortError, existing
from memdb.models.ids import ALL_IDS, MAX_INT, session_range
from memdb.models.record import Record
from memdb.models.vectors import MAX_DIM
from memdb.records import entries as entry_records
from memdb.records import items as item_records
from memdb.records import messages as message_records
from memdb.records import spaces
from memdb.records.spaces import SpaceName
from memdb.tables import entries, jobs, messages
from memdb.tables import spaces as space_rows
from memdb.tables.spaces import GIVEN
from memdb.text.validate import int_value, name_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.engine.base import Engine, Tx
    from memdb.models.messages import SpaceInfo
    from memdb.models.protocols import Embedder
    from memdb.tables.jobs import Job
    from memdb.tables.spaces import Space

# Texts per call of the embedder and per write transaction.
BATCH = 256

# Texts that a search embeds by itself before it answers: 40 ms with the static table.
DRAIN_TEXTS = 256
FIRST_TEXTS = 8

# Consecutive failures after which a run gives up.
MAX_FAILURES = 3

# A text that every embedder accepts: if it fails, the embedder is unavailable.
PROBE = "memory"


class SpaceFiller:
    """Fills the space of one embedder."""

    def __init__(self, db: Engine, embedder: Embedder) -> None:
        """
        Embed with *embedder*.

        Raises:
            InvalidInput: its name or dimension cannot name a space.
        """
        if name_value(embedder.name, "embedder.name") == GIVEN:
            raise InvalidInput(
                f"embedder.name is {GIVEN!r}, a name that is reserved for given vectors: rename it"
            )
        int_value(embedder.dim, "embedder.dim", 1, MAX_DIM)
        self._db = db
        self.embedder = embedder
        self.space_name = SpaceName(embedder.name, embedder.dim)

    def space(self, tx: Tx) -> Space | None:
        """Return the embedder's space, None if it is new; another process may have dropped it."""
        return spaces.find(tx, self.space_name)

    def settle(self) -> None:
        """
        Mark the space complete and retire the others, if all its vectors are there.

        Retired spaces get no jobs; a process that has the embedder of one revives it.
        """
        with self._db.read() as tx:
            found = self.space(tx)
            if found is None or found.complete or jobs.is_unfinished(tx, found.space_no):
                return
        with self._db.write() as tx:
            spaces.complete_if_done(tx, found.space_no)

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        *,
        early: bool = True,
    ) -> int:
        """
        Embed pending texts and return how many were embedded.

        Args:
            limit: Stop after this many texts. None means until nothing is due.
            progress: Called after each batch with the number of its texts.
            early: Also run failed jobs before their retry time.

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
            refused = len(failures)
            try:
                done = self._run(due, batch, failures)
            except PortError as error:
                failures.append(error)
                failed += 1
                low = due[-1].ref + 1
                continue
            if len(failures) > refused and due[0].subject != "session":
                low = due[-1].ref + 1  # refused texts are not tried again
            failed = 0
            total += done
            if progress is not None:
                progress(done)
        if failures:
            raise failures[0]
        self.settle()
        return total

    def is_behind(self, tx: Tx, space: Space | None, span: tuple[int, int]) -> bool:
        """Return whether an id range has jobs that are due, or *space* is to be made first."""
        if space is None or space.retired:
            return True
        if jobs.due(tx, space.space_no, *span, self._db.clock(), 1, early=False):
            return True
        return not space.complete and not jobs.is_unfinished(tx, space.space_no)

    def drain(self, span: tuple[int, int], limit: int) -> None:
        """
        Embed up to *limit* texts of an id range, as a recall does before it reads.

        Raises:
            PortError: the embedder failed; it is not asked again before the
                job's time has come.
        """
        total = 0
        while total < limit:
            # The first batch is small: an embedder that hangs is given up after 19 s, not 143.
            size = min(limit - total, limit if total else FIRST_TEXTS)
            due = self._due(span, size, early=False)
            if not due:
                break
            total += self._run(due, size, [])
        self.settle()

    def _due(self, span: tuple[int, int], limit: int, *, early: bool) -> list[Job]:
        """Return the next job of a session, or jobs of single texts up to *limit*."""
        with self._db.read() as tx:
            known = self.space(tx)
        if known is not None and not known.retired:
            space_no = known.space_no
        else:
            with self._db.write() as tx:
                space_no = spaces.ensure(tx, self.space_name)
        with self._db.read() as tx:
            found = jobs.due(tx, space_no, *span, self._db.clock(), limit, early=early)
        if found and found[0].subject == "session":
            return found[:1]
        return [job for job in found if job.subject != "session"]

    def _run(self, due: list[Job], batch: int, skipped: list[PortError]) -> int:
        with self._db.write() as tx:
            taken = [held for job in due if (held := jobs.lease(tx, job)) is not None]
        if not taken:
            return 0
        try:
            if taken[0].subject == "session":
                return self._embed_session(taken[0], batch, skipped)
            return self._embed_texts(taken, skipped)
        except PortError as error:
            with self._db.write() as tx:
                for job in taken:
                    jobs.fail(tx, job, str(error))
            raise

    def _embed_session(self, job: Job, batch: int, skipped: list[PortError]) -> int:
        low, (_, high) = job.ref | job.next_seq, session_range(job.ref)
        with self._db.read() as tx:
            texts = messages.texts(tx, low, high, batch)
            after = texts[-1][0] + 1 if texts else low
            span_hash = messages.span_hash(tx, job.ref, job.next_seq, after - 1 - job.ref)
        embedded = self._embed_all([text for _, text in texts])
        refused = {
            ref: error
            for (ref, _), error in zip(texts, embedded, strict=True)
            if isinstance(error, PortError)
        }
        skipped += refused.values()
        by_ref = {
            ref: vector
            for (ref, _), vector in zip(texts, embedded, strict=True)
            if isinstance(vector, bytes)
        }
        with self._db.write() as tx:
            if messages.span_hash(tx, job.ref, job.next_seq, after - 1 - job.ref) != span_hash:
                jobs.release(tx, job)  # one was removed or changed: they are embedded again
                return 0
            more = after <= high and messages.texts(tx, after, high, 1)
            moved = jobs.advance(tx, job, after - job.ref) if more else jobs.done(tx, job)
            if not moved:
                return 0  # the session was deleted, or another process took over
            spaces.put(tx, job.space_no, "message", [*by_ref.items()])
            errors = {ref: str(error) for ref, error in refused.items()}
            message_records.queue_refused(tx, job.space_no, errors)
            spaces.complete_if_done(tx, job.space_no)
        return len(texts) - len(refused)

    def _embed_texts(self, taken: list[Job], skipped: list[PortError]) -> int:
        """Embed entries, items, and messages that were refused before."""
        with self._db.read() as tx:
            texts = [_text_of(tx, job) for job in taken]
        embedded = self._embed_all(texts)
        with self._db.write() as tx:
            for job, text, vector in zip(taken, texts, embedded, strict=True):
                if _text_of(tx, job) != text:
                    jobs.release(tx, job)  # it was changed or erased: it stays due
                elif isinstance(vector, PortError):
                    jobs.fail(tx, job, str(vector))
                    skipped.append(vector)
                elif not jobs.done(tx, job):
                    continue  # it was changed or deleted meanwhile
                elif job.subject == "entry":
                    entry_records.set_vector(tx, job.space_no, job.ref, vector)
                elif job.subject == "item":
                    item_records.set_vector(tx, job.space_no, job.ref, vector)
                elif vector is not None:
                    spaces.put(tx, job.space_no, "message", [(job.ref, vector)])
            spaces.complete_if_done(tx, taken[0].space_no)
        return sum(not isinstance(vector, PortError) for vector in embedded)

    def _embed_all(self, texts: Sequence[str]) -> list[bytes | PortError | None]:
        """
        Return the vector of each text, None for an empty text.

        A text that a healthy embedder refuses gives its error instead: one text
        must not keep a session without vectors. It gets, or keeps, a job of its own.

        Raises:
            PortError: the embedder failed, and not because of one of the texts.
        """
        worded = [text for text in texts if text.strip()]
        embedded = iter(self._embed_or_skip(worded) if worded else [])
        return [next(embedded) if text.strip() else None for text in texts]

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

    def embed_question(self, question: str, texts: Sequence[str]) -> list[bytes | None]:
        """
        Return the vector of a question, then those of *texts*, as `embed` does.

        Raises:
            PortError: the embedder failed or broke its contract.
        """
        ask = getattr(self.embedder, "embed_query", None)
        if ask is None:
            return self.embed([question, *texts])
        return [ask(question), *self.embed(texts)]

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """
        Return the vector of each text as it is stored, None where there is none.

        Raises:
            PortError: the embedder failed or broke its contract.
        """
        try:
            return [*self.embedder.embed(texts)] if texts else []  # type: ignore[list-item]  # checked by `limited_embedder`
        except PortError:
            raise
        except Exception as error:  # the built-in table, which no limit stands around
            label = f"embedder {self.embedder.name!r}"
            raise PortError(label, str(error) or type(error).__name__) from error


def _text_of(tx: Tx, job: Job) -> str:
    """Return what an entry, an item's text or a message says; "" if it is gone."""
    if job.subject == "entry":
        row = entries.text(tx, job.ref)
        return row[0] if row else ""
    if job.subject == "item":
        return item_records.text_at(tx, job.ref)
    return "".join(text for _, text in messages.texts(tx, job.ref, job.ref, 1))


class Serving(Record):
    """
    The embedding space that answers, with its embedder.

    Attributes:
        filler: Embeds the query.
        space: The space to search. None means that nothing is embedded yet.
        partly: How far the space is filled. None means completely.
    """

    filler: SpaceFiller
    space: Space | None
    partly: str | None = None

    def is_behind(self, tx: Tx, span: tuple[int, int]) -> bool:
        """Return whether `Indexer.drain` of an id range would do something now."""
        return self.filler.is_behind(tx, self.space, span)


class Indexer:
    """Fills the embedding spaces of an open file and says which one answers."""

    def __init__(
        self, db: Engine, embedder: Embedder | None, previous: Embedder | None = None
    ) -> None:
        """
        Embed with *embedder*. None means that this process embeds nothing.

        Args:
            previous: The embedder that the file had before. It answers while
                the space of *embedder* is being filled.

        Raises:
            InvalidInput: a name or dimension that cannot name a space.
        """
        self._db = db
        self.embedder = embedder
        self._own = None if embedder is None else SpaceFiller(db, embedder)
        self._previous = None if previous is None else SpaceFiller(db, previous)

    @property
    def space_name(self) -> SpaceName | None:
        """The name of the embedder's space, None without embedder."""
        return None if self._own is None else self._own.space_name

    def ensure_space(self, tx: Tx) -> int | None:
        """Return the number of the embedder's space, made if it is new; None without embedder."""
        return None if self._own is None else spaces.ensure(tx, self._own.space_name)

    def warm(self) -> None:
        """Load the embedder; PortError where that fails."""
        if self._own is not None:
            self._own.embed(["warm"])

    def serving(self, tx: Tx, span: tuple[int, int] = ALL_IDS) -> Serving | None:
        """
        Return the space that answers now. None means that there is no embedder.

        The embedder's own space answers once it is complete. Before, the space of
        the previous embedder answers if that is complete, else the incomplete one.

        Args:
            span: The id range whose texts `partly` counts: a scope learns
                nothing about others.
        """
        if self._own is None:
            return None
        own = self._own.space(tx)
        if own is not None and own.complete:
            late = f"the space of {own.model} was retired, and is not up to date yet"
            return Serving(self._own, own, late if own.retired else None)
        before = self._before(tx)
        if before is not None and self._previous is not None:
            return Serving(self._previous, before)
        if own is None:
            return Serving(self._own, None)
        return Serving(self._own, own, self._progress(tx, own, span))

    def answering(self) -> SpaceFiller | None:
        """Return the embedder whose space answers now; None without embedder."""
        with self._db.read() as tx:
            serving = self.serving(tx)
        return None if serving is None else serving.filler

    def _before(self, tx: Tx) -> Space | None:
        """Return the space of the previous embedder if it can answer."""
        found = None if self._previous is None else self._previous.space(tx)
        usable = found is not None and found.complete and not found.retired
        return found if usable else None

    @staticmethod
    def _progress(tx: Tx, space: Space, span: tuple[int, int]) -> str | None:
        """Return how far a space holds the texts of an id range; None if nothing is left to do."""
        left, total = jobs.count_texts(tx, space.space_no, *span)
        if not left:
            return None
        return f"space {space.model}: {max(total - left, 0):,} of {total:,} embedded"

    def pending(self) -> int:
        """Return how many jobs wait for the embedders of this process, or will when it runs."""
        with self._db.read() as tx:
            spaces = [filler.space(tx) for filler in self._fillers(tx)]
            known = [one.space_no for one in spaces if one is not None]
            return jobs.count_jobs(tx, 0, *known) + self._count_unqueued(tx)

    def count_unqueued(self) -> int:
        """Return how many jobs there will be once the embedder's space is made; 0 if it is."""
        with self._db.read() as tx:
            return self._count_unqueued(tx)

    def _count_unqueued(self, tx: Tx) -> int:
        is_new = any(filler.space(tx) is None for filler in self._fillers(tx))
        return jobs.count_subjects(tx) if is_new else 0

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        *,
        early: bool = True,
    ) -> int:
        """
        Embed pending texts and return how many; see `SpaceFiller.run_pending`.

        The space that answers is brought up to date first.
        """
        total = 0
        with self._db.read() as tx:
            fillers = self._fillers(tx)
        for filler in fillers:
            rest = None if limit is None else limit - total
            total += filler.run_pending(rest, progress, early=early)
        return total

    def _fillers(self, tx: Tx) -> list[SpaceFiller]:
        """Return the spaces to fill, in order."""
        if self._own is None:
            return []
        own = self._own.space(tx)
        if self._previous is None or self._before(tx) is None or (own and own.complete):
            return [self._own]
        return [self._previous, self._own]

    def drain(self, span: tuple[int, int]) -> None:
        """Embed up to `DRAIN_TEXTS` texts of an id range; see `SpaceFiller.drain`."""
        filler = self.answering()
        if filler is not None and not self._db.is_read_only:
            filler.drain(span, DRAIN_TEXTS)

    def delete_space(self, model: str, dim: int | None = None) -> SpaceInfo | None:
        """
        Remove a space with its vectors and jobs; see `db.file.delete_space`.

        Transaction: one for each piece, so that writers get in between. After a
        crash the space is retired, and what is left of it can be dropped again.
        """
        name_value(model, "model")
        if dim is not None:
            int_value(dim, "dim", 1, MAX_DIM)
        with self._db.write() as tx:
            found = [
                info
                for info in space_rows.list_spaces(tx)
                if info.model == model and dim in (None, info.dim)
            ]
            if not found:
                return None
            if len(found) > 1:
                known = ", ".join(str(info.dim) for info in found)
                raise InvalidInput(
                    f"dim is None, but {model!r} has spaces of {known} dimensions: give one of "
                    "these"
                )
            space = existing(space_rows.find_space(tx, model, found[0].dim), "embedding_spaces")
            spaces.retire(tx, space.space_no)
        more = True
        while more:
            with self._db.write() as tx:
                more = spaces.remove_piece(tx, space.space_no)
        return found[0]
