"""
The services of an open file, each made and imported when it is first used.

A program that only reads the last messages never loads search, artifacts or
the embedder: starting is the slowest part of a short command.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.shortterm.conversation import Conversations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.db.database import Database
    from memdb.longterm.artifacts import Shelf
    from memdb.longterm.notebook import Notebook
    from memdb.ports import Embedder, TokenCounter
    from memdb.recall.indexing import Indexer
    from memdb.recall.search import Recaller
    from memdb.shortterm.writing import Writer
    from memdb.text.counting import Counting

STATIC = "static"


class Rooms:
    """What a MemDB, its scopes and its sessions delegate to."""

    def __init__(
        self, db: Database, embedder: Embedder | str | None, counter: TokenCounter | str | None
    ) -> None:
        """Serve *db* with these ports; a str names a built-in one."""
        if isinstance(embedder, str):
            if embedder != STATIC:
                raise InvalidInput(
                    f"embedder is {embedder!r}: use 'static', None for none, or your own"
                )
        elif embedder is not None:
            _require(embedder, "embedder", ("name", "dim", "embed"))
        self.db = db
        self.conversations = Conversations(db)
        self._indexer: Indexer | None = None
        self._embedder = embedder
        self._counting: Counting | None = None
        if not isinstance(embedder, str):
            self.indexer  # noqa: B018 (refuses a name or dimension that names no space)
        if counter is not None:
            self._counting = self._make_counting(counter)
        self._writer: Writer | None = None
        self._notebook: Notebook | None = None
        self._recaller: Recaller | None = None
        self._shelf: Shelf | None = None

    @property
    def counting(self) -> Counting:
        """What counts tokens."""
        if self._counting is None:
            self._counting = self._make_counting(None)
        return self._counting

    @staticmethod
    def _make_counting(counter: TokenCounter | str | None) -> Counting:
        from memdb.text.counting import Counting

        if counter is not None and not isinstance(counter, str):
            _require(counter, "counter", ("name", "count", "count_many"))
        return Counting(counter)

    @property
    def writer(self) -> Writer:
        """What adds messages."""
        if self._writer is None:
            from memdb.shortterm.writing import Writer

            self._writer = Writer(self.db, self.counting, self.indexer.ensure_space)
        return self._writer

    @property
    def indexer(self) -> Indexer:
        """What embeds."""
        if self._indexer is None:
            from memdb.recall.indexing import Indexer

            self._indexer = Indexer(self.db, _load_embedder(self._embedder))
        return self._indexer

    @property
    def notebook(self) -> Notebook:
        """What keeps entries."""
        if self._notebook is None:
            from memdb.longterm.notebook import Notebook

            self._notebook = Notebook(self.db, self.indexer.ensure_space)
        return self._notebook

    @property
    def recaller(self) -> Recaller:
        """What searches."""
        if self._recaller is None:
            from memdb.recall.search import Recaller

            self._recaller = Recaller(self.db, self.indexer)
        return self._recaller

    @property
    def shelf(self) -> Shelf:
        """What keeps artifacts."""
        if self._shelf is None:
            from memdb.longterm.artifacts import Shelf

            self._shelf = Shelf(self.db)
        return self._shelf


def _require(port: object, field: str, names: tuple[str, ...]) -> None:
    """Refuse an object that cannot be the port, before anything is written."""
    for name in names:
        if not hasattr(port, name):
            raise InvalidInput(f"{field} has no {name!r}: see memdb.ports for what it needs")


def _load_embedder(choice: Embedder | str | None) -> Embedder | None:
    if not isinstance(choice, str):
        return choice
    from memdb.models_local.static_embedder import StaticEmbedder

    return StaticEmbedder()
