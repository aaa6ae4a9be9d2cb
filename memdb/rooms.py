"""
The services of an open file, each made and imported when it is first used.

A program that only reads the last messages never loads search, artifacts or
the embedder: starting is the slowest part of a short command.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, PortError
from memdb.shortterm.conversation import Conversations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.db.database import Database
    from memdb.longterm.artifacts import Shelf
    from memdb.longterm.notebook import Notebook
    from memdb.ports import Embedder, Model, Summarizer, TokenCounter
    from memdb.recall.indexing import Indexer
    from memdb.recall.search import Recaller
    from memdb.shortterm.archive import Archivist
    from memdb.shortterm.calling import Caller
    from memdb.shortterm.context import Contexts
    from memdb.shortterm.dag import Summaries
    from memdb.shortterm.hosting import Hosting
    from memdb.shortterm.tree import Trees
    from memdb.shortterm.writing import Writer
    from memdb.summary_models import SummaryPolicy
    from memdb.text.counting import Counting

STATIC = "static"

# What there is to do in the background.
WORK = ("embed", "summarize")


class Rooms:
    """What a MemDB, its scopes and its sessions delegate to."""

    def __init__(
        self,
        db: Database,
        embedder: Embedder | str | None,
        counter: TokenCounter | str | None,
        *,
        previous: Embedder | str | None = None,
        model: Model | None = None,
        summarizer: Summarizer | None = None,
        summaries: SummaryPolicy | None = None,
    ) -> None:
        """Serve *db* with these ports; a str names a built-in one."""
        if model is not None:
            _require(model, "model", ("name", "complete"))
        if summarizer is not None:
            _require(summarizer, "summarizer", ("name", "quality", "summarize"))
        if summaries is not None:
            _check_policy(summaries)
        embedder = _named(db, embedder, "embedder")
        previous = _named(db, previous, "previous_embedder")
        if previous is not None and embedder is None:
            raise InvalidInput("previous_embedder without embedder: say what takes its place")
        self.db = db
        self.conversations = Conversations(db)
        self._indexer: Indexer | None = None
        self._embedder = embedder
        self._previous = previous
        self._counting: Counting | None = None
        if embedder != STATIC:
            self.indexer  # noqa: B018 (refuses a name or dimension that names no space)
        if counter is not None:
            self._counting = self._make_counting(counter)
        self._writer: Writer | None = None
        self._hosting: Hosting | None = None
        self._notebook: Notebook | None = None
        self._recaller: Recaller | None = None
        self._shelf: Shelf | None = None
        self._model = model
        self._summarizer = summarizer
        self._policy = summaries
        self._caller: Caller | None = None
        self._summaries: Summaries | None = None
        self._trees: Trees | None = None
        self._contexts: Contexts | None = None

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
    def hosting(self) -> Hosting:
        """What keeps the sessions and the state of hosts."""
        if self._hosting is None:
            from memdb.shortterm.hosting import Hosting

            self._hosting = Hosting(self.db, self.writer)
        return self._hosting

    @property
    def indexer(self) -> Indexer:
        """What embeds."""
        if self._indexer is None:
            from memdb.recall.indexing import Indexer

            previous = self._previous
            if previous is None and self._embedder not in (None, STATIC):
                previous = STATIC  # it is always at hand, and most files had it first
            self._indexer = Indexer(
                self.db, _load_embedder(self._embedder), _load_embedder(previous)
            )
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

    @property
    def archivist(self) -> Archivist:
        """What moves cold messages into segments."""
        from memdb.shortterm.archive import Archivist

        return Archivist(self.db)

    @property
    def caller(self) -> Caller | None:
        """What asks the model, None without one."""
        if self._caller is None and self._model is not None:
            from memdb.shortterm.calling import Caller

            self._caller = Caller(self._model)
        return self._caller

    @property
    def summaries(self) -> Summaries:
        """What makes summaries."""
        if self._summaries is None:
            from memdb.shortterm.dag import Summaries
            from memdb.shortterm.summarizing import SummaryMaker
            from memdb.summary_models import SummaryPolicy

            port = self._summarizer
            if port is None and self.caller is not None:
                from memdb.shortterm.prompts import ModelSummarizer

                port = ModelSummarizer(self.caller)
            maker = SummaryMaker(self.counting, port)
            policy = self._policy or SummaryPolicy()
            self._summaries = Summaries(self.db, self.counting, maker, policy)
        return self._summaries

    def run_pending(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        status: Callable[[str, str], object] | None = None,
        *,
        kinds: Sequence[str] = WORK,
        early: bool = True,
        cancelled: Callable[[], bool] | None = None,
    ) -> int:
        """
        Embed, then summarise; see `MemDB.run_pending`.

        Args:
            early: Also what failed and waits to be tried again.
            cancelled: Asked between pieces of work, and while a model answers.
        """
        from memdb.shortterm.running import Run

        failure: PortError | None = None
        done = 0
        if "embed" in kinds:
            try:
                done = self.indexer.run_pending(limit, progress, early=early)
            except PortError as error:
                failure = error
        if "summarize" in kinds:
            rest = None if limit is None else max(limit - done, 0)
            run = Run(status, cancelled, progress)
            made, _ = self.summaries.run_pending(rest, run, early=early)
            done += made
            failure = failure or run.first
        if failure is not None:
            raise failure
        return done

    @property
    def trees(self) -> Trees:
        """What shows summaries, and what they were made from."""
        if self._trees is None:
            from memdb.shortterm.tree import Trees

            self._trees = Trees(self.db, self.summaries)
        return self._trees

    @property
    def contexts(self) -> Contexts:
        """What fits a conversation into a budget."""
        if self._contexts is None:
            from memdb.shortterm.context import Contexts

            self._contexts = Contexts(
                self.db,
                self.counting,
                self.summaries,
                lambda *asked, **options: self.recaller.recall(*asked, **options),  # noqa: PLW0108 (made when asked)
            )
        return self._contexts


def _require(port: object, field: str, names: tuple[str, ...]) -> None:
    """Refuse an object that cannot be the port, before anything is written."""
    for name in names:
        if not hasattr(port, name):
            raise InvalidInput(f"{field} has no {name!r}: see memdb.ports for what it needs")


def _named(db: Database, choice: Embedder | str | None, field: str) -> Embedder | str | None:
    """Return the embedder that *choice* means; "static" stays a name until it is used."""
    if choice is None or (isinstance(choice, str) and choice == STATIC):
        return choice
    if not isinstance(choice, str):
        _require(choice, field, ("name", "dim", "embed"))
        return choice
    from memdb.integrations import embedder_by_name
    from memdb.stores import embeddings

    embedder = embedder_by_name(choice)
    with db.read() as tx:
        dims = [one.dim for one in embeddings.list_spaces(tx) if one.model == embedder.name]
    if len(dims) == 1 and hasattr(embedder, "expect"):
        embedder.expect(dims[0])  # so that a server that is down keeps no file shut
    return embedder


def _load_embedder(choice: Embedder | str | None) -> Embedder | None:
    if not isinstance(choice, str):
        return choice
    from memdb.models_local.static_embedder import StaticEmbedder

    return StaticEmbedder()


def _check_policy(policy: SummaryPolicy) -> None:
    """Refuse a policy under which summarising would not end, or say nothing."""
    from memdb.text.validate import int_value

    int_value(policy.chunk, "summaries.chunk", 2, 1000)
    int_value(policy.group, "summaries.group", 2, 50)
    int_value(policy.condense_at, "summaries.condense_at", policy.group + 1, 100)
    int_value(policy.max_depth, "summaries.max_depth", 0, 31)
