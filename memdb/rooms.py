"""
The services of an open file, each made and imported when it is first used.

A program that only reads the last messages never loads search, artifacts or
the embedder: starting is the slowest part of a short command.
"""

from __future__ import annotations

from memdb.choosing import STATIC, load_embedder, named_pair, require, require_all
from memdb.shortterm.conversation import Conversations
from memdb.text.secret_policy import policy_of
from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.calling import Caller
    from memdb.db.database import Database
    from memdb.due import UpkeepPolicy
    from memdb.extract_models import ExtractPolicy
    from memdb.longterm.artifacts import Shelf
    from memdb.longterm.categories import Categories, Category
    from memdb.longterm.extraction import Extractions
    from memdb.longterm.notebook import Notebook
    from memdb.longterm.profile import Profiles
    from memdb.longterm.remembering import Remembering
    from memdb.longterm.scheduler import Scheduler
    from memdb.longterm.uses import Uses
    from memdb.models_local.rule_extractor import RuleExtractor
    from memdb.ports import Arbiter, Embedder, Model, Summarizer, TokenCounter
    from memdb.recall.indexing import Indexer
    from memdb.recall.search import Recaller
    from memdb.shortterm.archive import Archivist
    from memdb.shortterm.context import Contexts
    from memdb.shortterm.dag import Summaries
    from memdb.shortterm.hosting import Hosting
    from memdb.shortterm.tree import Trees
    from memdb.shortterm.writing import Writer
    from memdb.summary_models import SummaryPolicy
    from memdb.text.counting import Counting
    from memdb.text.secret_policy import SecretPolicy

MAX_QUOTA = 1_000_000


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
        secrets: SecretPolicy | str | None = None,
        arbiter: Arbiter | None = None,
        categories: Iterable[Category] = (),
        entry_quota: int | None = None,
        extract: ExtractPolicy | bool = False,
        upkeep: UpkeepPolicy | None = None,
    ) -> None:
        """Serve *db* with these ports; a str names a built-in one."""
        self.secrets = policy_of(secrets)
        require_all(arbiter=arbiter, model=model, summarizer=summarizer)
        embedder, previous = named_pair(db, embedder, previous)
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
        self._policy = _checked_summaries(summaries)
        self._caller: Caller | None = None
        self._summaries: Summaries | None = None
        self._trees: Trees | None = None
        self._contexts: Contexts | None = None
        self._arbiter = arbiter
        self._entry_quota = (
            None if entry_quota is None else int_value(entry_quota, "entry_quota", 1, MAX_QUOTA)
        )
        self._more_categories = tuple(categories)
        self._categories: Categories | None = None
        self._remembering: Remembering | None = None
        self._uses: Uses | None = None
        self._upkeep = _checked_upkeep(upkeep)
        self._extract = _extract_policy(extract)
        self.extracts = bool(extract)
        self._extractions: Extractions | None = None
        self._profiles: Profiles | None = None
        self._scheduler: Scheduler | None = None
        if self._more_categories:
            self.categories  # noqa: B018 (refuses what is no category)

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
            require(counter, "counter")
        return Counting(counter)

    @property
    def writer(self) -> Writer:
        """What adds messages."""
        if self._writer is None:
            from memdb.shortterm.writing import Writer

            self._writer = Writer(self.db, self.counting, self.indexer.ensure_space, self.secrets)
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
            self._indexer = Indexer(self.db, load_embedder(self._embedder), load_embedder(previous))
        return self._indexer

    @property
    def notebook(self) -> Notebook:
        """What keeps entries."""
        if self._notebook is None:
            from memdb.longterm.notebook import Notebook
            from memdb.longterm.screening import Screen

            screen = Screen(self.secrets)
            self._notebook = Notebook(self.db, self.indexer.ensure_space, self.categories, screen)
        return self._notebook

    @property
    def categories(self) -> Categories:
        """What kinds of entries there are."""
        if self._categories is None:
            from memdb.longterm.categories import Categories

            self._categories = Categories(self._more_categories)
        return self._categories

    @property
    def uses(self) -> Uses:
        """What counts how often entries are used."""
        if self._uses is None:
            from memdb.longterm.uses import Uses

            self._uses = Uses(self.db)
        return self._uses

    @property
    def remembering(self) -> Remembering:
        """What decides about statements."""
        if self._remembering is None:
            from memdb.longterm.lifecycle import DEFAULT_QUOTA, Quota
            from memdb.longterm.neighbours import Vectors
            from memdb.longterm.remembering import Remembering
            from memdb.models_local.rules import RuleArbiter

            self._remembering = Remembering(
                self.db,
                self.notebook,
                Vectors(lambda: self.indexer),
                RuleArbiter(),
                self.uses,
                Quota(self.categories, self._entry_quota or DEFAULT_QUOTA),
                self._arbiter or self._model_arbiter(),
            )
        return self._remembering

    def _model_arbiter(self) -> Arbiter | None:
        if self.caller is None:
            return None
        from memdb.longterm.model_arbiter import ModelArbiter

        return ModelArbiter(self.caller)

    def close(self) -> None:
        """Write what is only in memory."""
        if self._uses is not None:
            self._uses.flush()

    @property
    def recaller(self) -> Recaller:
        """What searches."""
        if self._recaller is None:
            from memdb.recall.search import Recaller

            self._recaller = Recaller(
                self.db,
                self.indexer,
                lambda: self.categories.half_lives_ms(),  # noqa: PLW0108 (made when asked)
                lambda ids: self.uses.note(ids),  # noqa: PLW0108 (made when asked)
            )
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
            from memdb.calling import Caller

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

    def pending(self) -> int:
        """Return how many jobs `run_pending` has to do."""
        waiting = self.extractions.pending() if self.extracts else 0
        return self.indexer.pending() + waiting

    @property
    def extractions(self) -> Extractions:
        """What learns from what was said."""
        if self._extractions is None:
            from memdb.extract_models import ExtractPolicy
            from memdb.longterm.deciding import Decider
            from memdb.longterm.extraction import Extractions
            from memdb.longterm.finding import Finder

            policy = self._extract or ExtractPolicy()
            finder = Finder(policy, self.categories, self.secrets, _rule_extractor, self.caller)
            decider = Decider(self.db, self.remembering, self.categories, finder.caller)
            self._extractions = Extractions(self.db, policy, finder, decider)
        return self._extractions

    @property
    def profiles(self) -> Profiles:
        """What words long-term memory for a prompt."""
        if self._profiles is None:
            from memdb.longterm.profile import Profiles

            self._profiles = Profiles(self.db, self.counting, self.categories, self.recaller.recall)
        return self._profiles

    @property
    def scheduler(self) -> Scheduler:
        """What keeps the file."""
        if self._scheduler is None:
            from memdb.due import steps_of
            from memdb.longterm.scheduler import Scheduler

            self._scheduler = Scheduler(self.db, steps_of(self, self._upkeep))
        return self._scheduler

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
                lambda owner, session: self.profiles.pinned(owner, session),  # noqa: PLW0108
            )
        return self._contexts


def _checked_summaries(policy: SummaryPolicy | None) -> SummaryPolicy | None:
    if policy is not None:
        from memdb.summary_models import check_summaries

        check_summaries(policy)
    return policy


def _extract_policy(extract: object) -> ExtractPolicy | None:
    if isinstance(extract, bool):
        return None
    from memdb.extract_models import checked_policy

    return checked_policy(extract)


def _rule_extractor() -> RuleExtractor:
    from memdb.models_local.rule_extractor import RuleExtractor

    return RuleExtractor()


def _checked_upkeep(upkeep: UpkeepPolicy | None) -> UpkeepPolicy | None:
    if upkeep is not None:
        from memdb.due import checked_upkeep

        checked_upkeep(upkeep)
    return upkeep
