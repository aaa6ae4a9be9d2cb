"""
Which embedding space of a file serves, and which ones are filled.

A file that gets a new embedder gets a new space. Until that is complete the
old one answers, as long as its model is at hand: only the model that made the
vectors of a space can embed a query for it.
"""

from __future__ import annotations

from memdb.embeddings.filling import MAX_DIM, Filler
from memdb.errors import InvalidInput, NotFound
from memdb.models.record import Record
from memdb.records import spaces
from memdb.tables import space_jobs
from memdb.tables import spaces as space_rows
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Tx
    from memdb.engine.sqlite.database import Database
    from memdb.models.messages import SpaceInfo
    from memdb.models.protocols import Embedder
    from memdb.records.spaces import SpaceName
    from memdb.tables.spaces import Space

# Texts that a search embeds by itself before it answers: 40 ms with the static table.
DRAIN_TEXTS = 256


class Serving(Record):
    """
    What answers a question by meaning.

    Attributes:
        filler: Embeds the query.
        space_no: The space to search; None: nothing is embedded yet.
        partly: Why it may not know everything; None: it does.
    """

    filler: Filler
    space_no: int | None
    partly: str | None = None


class Indexer:
    """Fills and names the embedding spaces of an open file."""

    def __init__(
        self, db: Database, embedder: Embedder | None, previous: Embedder | None = None
    ) -> None:
        """
        Embed by *embedder*; None: this process embeds nothing.

        Args:
            previous: The embedder that the file had before. It answers while
                the space of *embedder* is being filled.

        Raises:
            InvalidInput: a name or dimension that cannot name a space.
        """
        self._db = db
        self.embedder = embedder
        self._own = None if embedder is None else Filler(db, embedder)
        self._previous = None if previous is None else Filler(db, previous)

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

    def serving(self, tx: Tx) -> Serving | None:
        """
        Return what answers now; None without embedder.

        The embedder's own space once it is complete; before, the one of the
        previous embedder if that is complete, else what there is of its own.
        """
        if self._own is None:
            return None
        own = self._own.space(tx)
        if own is not None and own.complete:
            late = f"the space of {own.model} was retired, and is not up to date yet"
            return Serving(self._own, own.space_no, late if own.retired else None)
        before = self._before(tx)
        if before is not None and self._previous is not None:
            return Serving(self._previous, before.space_no)
        if own is None:
            return Serving(self._own, None)
        return Serving(self._own, own.space_no, self._progress(tx, own))

    def answering(self) -> Filler | None:
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
    def _progress(tx: Tx, space: Space) -> str | None:
        """Return how far a space is filled; None when nothing is left to do."""
        known = space_rows.list_spaces(tx)
        left = sum(one.due for one in known if (one.model, one.dim) == (space.model, space.dim))
        if not left:
            return None
        total = space_jobs.texts(tx)
        return f"space {space.model}: {max(total - left, 0):,} of {total:,} embedded"

    def pending(self) -> int:
        """Return how many jobs wait for the embedders of this process."""
        with self._db.read() as tx:
            spaces = [filler.space(tx) for filler in self._fillers(tx)]
            return space_jobs.count(
                tx, 0, *[space.space_no for space in spaces if space is not None]
            )

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        *,
        early: bool = True,
    ) -> int:
        """
        Embed what is due and return how many texts that were; see `Filler.run_pending`.

        What still answers is brought up to date first.
        """
        total = 0
        with self._db.read() as tx:
            fillers = self._fillers(tx)
        for filler in fillers:
            rest = None if limit is None else limit - total
            total += filler.run_pending(rest, progress, early=early)
        return total

    def _fillers(self, tx: Tx) -> list[Filler]:
        """Return what has work, in its order."""
        if self._own is None:
            return []
        own = self._own.space(tx)
        if self._previous is None or self._before(tx) is None or (own and own.complete):
            return [self._own]
        return [self._previous, self._own]

    def is_behind(self, tx: Tx, span: tuple[int, int]) -> bool:
        """Return whether `drain` would do something now for the space that answers."""
        serving = self.serving(tx)
        return serving is not None and serving.filler.is_behind(tx, span)

    def drain(self, span: tuple[int, int]) -> None:
        """Embed up to `DRAIN_TEXTS` texts of an id range for what answers; see `Filler.drain`."""
        filler = self.answering()
        if filler is not None:
            filler.drain(span, DRAIN_TEXTS)

    def drop_space(self, model: str, dim: int | None = None) -> SpaceInfo:
        """
        Remove a space with its vectors and jobs; see `MemDB.drop_space`.

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
                raise NotFound("space", model if dim is None else f"{model} ({dim} dimensions)")
            if len(found) > 1:
                known = ", ".join(str(info.dim) for info in found)
                raise InvalidInput(f"dim is None: {model!r} has spaces of {known} dimensions")
            space = space_rows.find_space(tx, model, found[0].dim)
            assert space is not None
            spaces.retire(tx, space.space_no)
        more = True
        while more:
            with self._db.write() as tx:
                more = spaces.remove_piece(tx, space.space_no)
        return found[0]
