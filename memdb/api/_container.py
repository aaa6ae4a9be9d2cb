"""
The services of an open file, each made and imported when it is first used.

A program that only reads the last messages never loads search, artifacts or
the embedder: starting is the slowest part of a short command.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from memdb.api._resolve import STATIC, load_embedder, named_pair, open_engine, require, require_all
from memdb.conversations.reader import Conversations
from memdb.engine.blocks import SingleUse
from memdb.errors import InvalidInput, PortError, SettingsTooNew, Unsupported
from memdb.models.messages import register_formats
from memdb.models.observation import Meter
from memdb.models.record import Record
from memdb.models.settings import DEFAULTS, REFUSE, Settings, changed, differences, read_stored
from memdb.records.scopes import ScopeRef
from memdb.tables import settings
from memdb.text.times import when_ms
from memdb.text.validate import is_address, name_value, path_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from memdb.api.worker import Worker
    from memdb.artifacts.service import ArtifactService
    from memdb.context.builder import ContextService
    from memdb.context.log import ContextLog
    from memdb.context.profile import ProfileService
    from memdb.conversations.archive import ArchiveService
    from memdb.conversations.host_sessions import HostSessionService
    from memdb.conversations.writer import MessageService
    from memdb.deletion.service import DeletionService
    from memdb.embeddings.indexer import Indexer
    from memdb.engine.base import Engine, Probes
    from memdb.entries.apply import EntryWriter
    from memdb.entries.categories import Categories
    from memdb.entries.lifecycle import UsageCounter
    from memdb.entries.remember import RememberService
    from memdb.entries.service import EntryService
    from memdb.errors import MemDBError
    from memdb.extraction.pipeline import ExtractionService
    from memdb.items.service import ItemService
    from memdb.jobs.runner import JobRunner, Work
    from memdb.models.entries import Candidate
    from memdb.models.messages import Message
    from memdb.models.model_client import ModelCaller
    from memdb.models.observation import Event
    from memdb.models.protocols import (
        Arbiter,
        Detector,
        Embedder,
        Model,
        Reranker,
        Summarizer,
        TokenCounter,
    )
    from memdb.models.reports import (
        CopyReport,
        Failure,
        ImportReport,
        ScopeCounts,
        SecretPlace,
        Stats,
        WorkRequest,
    )
    from memdb.models.summaries import Compacted
    from memdb.models.types import When
    from memdb.records.changes import ChangeLog
    from memdb.search.request import SearchRequest
    from memdb.search.service import SearchService
    from memdb.search.shared import SharedEntries
    from memdb.summaries.builder import Summaries
    from memdb.summaries.editor import SummaryEditor
    from memdb.summaries.tree import SummaryReader
    from memdb.sync.service import FolderSync
    from memdb.text.screening import SecretScreen
    from memdb.text.tokens import Counting
    from memdb.transfer.lines import TransferServices

T = TypeVar("T")


class by_settings(cached_property[T]):  # noqa: N801 (a decorator)
    """A service that is made of the settings, and so made again after they change."""


class Ports(Record):
    """
    Ports that a host can replace. None means memdb's own port, which needs no network.

    Attributes:
        learns: Whether background work learns, if the settings do not decide it.
    """

    embedder: Embedder | str | None
    previous_embedder: Embedder | str | None = None
    counter: TokenCounter | str | None = None
    model: Model | None = None
    summarizer: Summarizer | None = None
    arbiter: Arbiter | None = None
    secret_detector: Detector | None = None
    render_messages: Callable[[Sequence[Message]], str] | None = None
    edit_candidates: Callable[[list[Candidate], Sequence[Message]], list[Candidate]] | None = None
    on_event: Callable[[Event], object] | None = None
    reranker: Reranker | None = None
    learns: bool = False


class Transaction(SingleUse):
    """All writes of a thread in one `with db.transaction()`; all take effect, or none."""

    __slots__ = ()

    def __init__(self, db: Engine, *, savepoints: bool = True) -> None:
        """Use `db.transaction()` instead."""
        super().__init__(db.write() if savepoints else db.write_whole())


def _message_formats() -> Any:
    """Return the formats of messages, which the core calls and does not import."""
    from memdb.formats import messages

    return messages


register_formats(_message_formats)


class Services:
    """
    Services that a MemDB, its scopes and its sessions delegate to.

    The settings come first, then the services, each behind those that it is made of, then the calls
    that load what they need.
    """

    def __init__(self, db: Engine, ports: Ports, changes: Settings | dict[str, Any] | None) -> None:
        """
        Serve *db* with *ports*.

        Args:
            changes: Changes of the settings that the file stores, checked by
                `memdb.models.settings.read_settings`. None changes nothing.
        """
        self.db = db
        self.ports = _checked(db, ports)
        self.meter = Meter(db.clock, ports.on_event)
        self.failures: dict[str, Failure] = {}
        self.shared: SharedEntries | None = None  # where another file has them
        self.settings = _load_settings(db)
        self._overridden: dict[str, Any] = {}
        if changes is not None:
            db.refuse_read_only()
            self.change_settings(changes)
        self.conversations = Conversations(db)
        if self.ports.embedder != STATIC:
            self.indexer  # noqa: B018 (refuses a name or dimension that names no space)
        if ports.counter is not None:
            self.counting  # noqa: B018 (refuses a name that is no counter)

    def change_settings(self, changes: Settings | dict[str, Any]) -> Settings:
        """Store checked changes of the settings in the file, and use them from now on."""
        if not self._overridden and changed(self.settings, changes) == self.settings:
            return self.settings
        stored = _load_settings(self.db)
        new = changed(stored, changes)
        self._screen_by(new).pass_settings(differences(stored, new))
        with self.db.write() as tx:
            stored = read_stored(settings.get_all(tx))
            new = changed(stored, changes)
            settings.put(tx, differences(stored, new))
        return self._serve_by(changed(new, self._overridden))

    def override_settings(self, changes: Settings | dict[str, Any]) -> Settings:
        """Use checked changes of the settings from now on, without storing them."""
        new = changed(self.settings, changes)
        fields = changes if isinstance(changes, dict) else Settings._fields
        self._overridden |= {name: getattr(new, name) for name in fields}
        return self._serve_by(new)

    def _serve_by(self, new: Settings) -> Settings:
        if new != self.settings:
            self.settings = new
            for name, service in vars(Services).items():
                if isinstance(service, by_settings):
                    self.__dict__.pop(name, None)
        return new

    @by_settings
    def screen(self) -> SecretScreen:
        """Scanner for secrets."""
        return self._screen_by(self.settings)

    def _screen_by(self, rules: Settings) -> SecretScreen:
        from memdb.text.screening import SecretScreen

        return SecretScreen(rules, self.ports.secret_detector)

    @by_settings
    def counting(self) -> Counting:
        """Token counter."""
        from memdb.text.tokens import Counting

        counter = self.ports.counter or self.settings.counter
        if counter is not None and not isinstance(counter, str):
            from memdb.models.model_client import limited_counter

            require(counter, "counter")
            counter = limited_counter(counter, self.meter)
        return Counting(counter, self.settings)

    @by_settings
    def categories(self) -> Categories:
        """Categories of entries."""
        from memdb.entries.categories import Categories

        return Categories(self.settings.categories)

    @cached_property
    def indexer(self) -> Indexer:
        """Embedding indexer."""
        from memdb.embeddings.indexer import Indexer

        previous = self.ports.previous_embedder
        if previous is None and self.ports.embedder not in (None, STATIC):
            previous = STATIC  # it is always at hand, and most files had it first
        embedder = load_embedder(self.ports.embedder, self.meter)
        return Indexer(self.db, embedder, load_embedder(previous, self.meter))

    @cached_property
    def caller(self) -> ModelCaller | None:
        """Caller of the model. None without a model."""
        if self.ports.model is None:
            return None
        from memdb.models.model_client import ModelCaller

        return ModelCaller(self.ports.model, meter=self.meter)

    @cached_property
    def usage(self) -> UsageCounter:
        """Counter of how often entries are used."""
        from memdb.entries.lifecycle import UsageCounter

        return UsageCounter(self.db)

    @cached_property
    def changes(self) -> ChangeLog:
        """Watch over changes of the file."""
        from memdb.records.changes import ChangeLog

        return ChangeLog(self.db)

    @by_settings
    def writer(self) -> MessageService:
        """Service that adds messages."""
        from memdb.conversations.writer import MessageService

        return MessageService(
            self.db, self.counting, self.indexer.space_name, self.screen, self.settings
        )

    @by_settings
    def hosting(self) -> HostSessionService:
        """Service for the sessions and the state of host programs."""
        from memdb.conversations.host_sessions import HostSessionService

        return HostSessionService(self.db, self.writer)

    @property
    def archivist(self) -> ArchiveService:
        """Archiver, which moves cold messages into segments."""
        from memdb.conversations.archive import ArchiveService

        return ArchiveService(self.db)

    @by_settings
    def artifacts(self) -> ArtifactService:
        """Service for artifacts."""
        from memdb.artifacts.service import ArtifactService

        return ArtifactService(self.db, self.screen)

    @by_settings
    def items(self) -> ItemService:
        """Service for items."""
        from memdb.items.service import ItemService

        return ItemService(self.db, self.screen, self.indexer.ensure_space)

    @by_settings
    def entry_writer(self) -> EntryWriter:
        """Applies statements to entries."""
        from memdb.entries.apply import EntryWriter
        from memdb.entries.lifecycle import Quota

        quota = Quota(self.categories, self.settings.entry_quota)
        return EntryWriter(self.db.ids, self.categories, self.screen, quota, self.usage)

    @by_settings
    def entries(self) -> EntryService:
        """Service of long-term entries."""
        return self._entries_by(self.screen)

    def _entries_by(self, screen: SecretScreen) -> EntryService:
        from memdb.entries.service import EntryService

        return EntryService(self.db, self.indexer.ensure_space, screen, self.entry_writer)

    @by_settings
    def remember(self) -> RememberService:
        """Service that stores facts, with links to the facts that are already known."""
        from memdb.entries.remember import RememberService

        return RememberService(
            self.db, self.indexer, self.categories, self.screen, self.entry_writer, self._arbiter()
        )

    def _arbiter(self) -> Arbiter | None:
        if self.ports.arbiter is not None:
            from memdb.models.model_client import limited_arbiter

            return limited_arbiter(self.ports.arbiter, self.meter)
        if self.caller is None:
            return None
        from memdb.extraction.candidates import ModelArbiter

        return ModelArbiter(self.caller, self.settings.compare_prompt)

    @by_settings
    def recaller(self) -> SearchService:
        """Service behind `recall`."""
        from memdb.search.service import SearchService
        from memdb.search.weights import DOCUMENTS

        fading = self.settings.entry_decay_percent / 100
        reranker = self.ports.reranker
        if reranker is not None:
            from memdb.models.model_client import limited_reranker

            reranker = limited_reranker(reranker, self.meter)
        return SearchService(
            self.db,
            self.indexer,
            lambda: self.categories.half_lives_ms(),  # noqa: PLW0108 (made when asked)
            lambda ids: self.usage.note(ids),  # noqa: PLW0108 (made when asked)
            document_weights=DOCUMENTS.replace(fading=fading),
            reranker=reranker,
            shared=self.shared,
        )

    @by_settings
    def profiles(self) -> ProfileService:
        """Writer of the profile: long-term memory as a text for a prompt."""
        from memdb.context.profile import ProfileService

        return ProfileService(
            self.db,
            self.counting,
            self.categories,
            lambda owner, request: self.recaller.recall(owner, request),  # noqa: PLW0108 (a service made later)
            self.settings.context_categories,
            self.shared,
        )

    @by_settings
    def summaries(self) -> Summaries:
        """Builder of summaries."""
        from memdb.summaries.builder import Summaries
        from memdb.summaries.summarizer import SummaryMaker

        port = self.ports.summarizer
        if port is None and self.caller is not None:
            from memdb.summaries.summarizer import ModelSummarizer

            port = ModelSummarizer(self.caller, self.settings.summary_prompt)
        maker = SummaryMaker(self.counting, port)
        return Summaries(self.db, self.counting, maker, self.settings)

    @property
    def summary_editor(self) -> SummaryEditor:
        """Editor of single summaries."""
        from memdb.summaries.editor import SummaryEditor

        return SummaryEditor(self.db, self.summaries, self.screen)

    @by_settings
    def trees(self) -> SummaryReader:
        """Reader of summaries, and of the messages behind them."""
        from memdb.summaries.tree import SummaryReader

        return SummaryReader(self.db, self.summaries)

    def compact(self, owner: ScopeRef, session: str, **options: Any) -> Compacted:
        """Finish the summaries of a session; see `memdb.summaries.builder.compact`."""
        from memdb.summaries.builder import compact

        return compact(self.db, self.summaries, lambda: self.archivist, owner, session, **options)

    @by_settings
    def contexts(self) -> ContextService:
        """Builder of contexts."""
        from memdb.context.builder import ContextService

        return ContextService(
            self.db,
            self.counting,
            self.summaries,
            lambda: self.recaller,
            lambda: self.profiles,
            self.settings,
        )

    @cached_property
    def context_log(self) -> ContextLog:
        """Log of what contexts gave."""
        from memdb.context.log import ContextLog

        return ContextLog(self.db, lambda: self.items)

    @by_settings
    def extractions(self) -> ExtractionService:
        """Pipeline that learns entries from messages."""
        from memdb.extraction.candidates import CandidateFinder, CandidateResolver
        from memdb.extraction.pipeline import ExtractionService
        from memdb.models.entries import ExtractHooks

        hooks = ExtractHooks(
            self.ports.render_messages, self.ports.edit_candidates, self.settings.extract_prompt
        )
        finder = CandidateFinder(self.categories, self.screen, self.caller, hooks)
        resolver = CandidateResolver(
            self.db, self.remember, self.categories, finder.caller, self.settings.compare_prompt
        )
        return ExtractionService(self.db, self.settings, finder, resolver)

    @property
    def deletion(self) -> DeletionService:
        """The deletion service, created at each access."""
        from memdb.deletion.service import DeletionService

        return DeletionService(self.db, lambda: self.summaries, self._new_probes)

    def _new_probes(self) -> Probes:
        """Return the service that proves that a text is gone."""
        try:
            from memdb.rescue.proof import new_probes
        except ModuleNotFoundError as error:
            raise Unsupported(
                "prove is True, but memdb.rescue, which searches the bytes, is not installed: "
                "forget without a proof, or install the whole of memdb"
            ) from error
        return new_probes(self.db)

    @by_settings
    def jobs(self) -> JobRunner:
        """Runner of background work."""
        from memdb.jobs.runner import JobRunner

        work: dict[str, Work] = {"embed": self._embed_due, "summarize": self._summarize_due}
        if self._extracts:
            work["extract"] = self.extractions.run_pending
        return JobRunner(self.db, work, self._upkeep_steps(), self.failures, self.meter)

    @property
    def _extracts(self) -> bool:
        """Whether background work learns from messages."""
        return self.ports.learns if self.settings.extract is None else self.settings.extract

    def _embed_due(self, request: WorkRequest) -> tuple[int, MemDBError | None]:
        try:
            return self.indexer.run_pending(
                request.limit, request.progress, early=request.early
            ), None
        except PortError as error:
            return 0, error

    def _summarize_due(self, request: WorkRequest) -> tuple[int, MemDBError | None]:
        return self.summaries.run_pending(request)

    def _upkeep_steps(self) -> list[tuple[str, Callable[[], int]]]:
        """Return the steps of upkeep, in order: expiry, removal, then maintenance of the file."""
        from memdb.entries.lifecycle import expire, remove_inactive

        steps: list[tuple[str, Callable[[], int]]] = [
            ("expire", lambda: expire(self.db) + self.items.remove_expired())
        ]
        rules = self.settings
        age_ms = rules.entry_inactive_ms
        if age_ms is not None:
            steps.append(("retain", lambda: remove_inactive(self.db, age_ms)))
        limits = (
            rules.session_max_age_ms,
            rules.session_max_idle_ms,
            rules.session_max_count,
            rules.session_archive_at,
        )
        if any(limit is not None for limit in limits):
            from memdb.deletion.service import retain_sessions

            services = (self.db, self.conversations, self.archivist, self.deletion)
            steps.append(("sessions", lambda: len(retain_sessions(*services, rules))))
        steps.append(("optimize", self.db.maintenance.merge))
        steps.append(("checkpoint", self.db.checkpoint))
        return steps

    def start_worker(self, interval_s: float) -> Worker:
        """Start a worker."""
        from memdb.api.worker import Worker

        def run(request: WorkRequest) -> int:
            self.write_log()
            return self.jobs.run_pending(request, upkeep=True)

        return Worker(run, interval_s, self.failures, self.db.refuse_inside)

    def pending(self) -> int:
        """Return how many jobs `run_pending` has to do."""
        return self.indexer.pending() + (self.extractions.pending() if self._extracts else 0)

    def stats(self) -> Stats:
        """Return queued work, failures, and the figures of this process."""
        from memdb.jobs.runner import read_stats

        return read_stats(self.db, self.failures, self.meter)

    def prompts(self) -> dict[str, str]:
        """Return the prompts that models get now, memdb's own too, by the name of the setting."""
        from memdb.extraction.prompts import COMPARE_TASK, FIND_TASK
        from memdb.summaries.summarizer import TASK

        own = {"summary_prompt": TASK, "extract_prompt": FIND_TASK, "compare_prompt": COMPARE_TASK}
        return {name: getattr(self.settings, name) or text for name, text in own.items()}

    def recall_request(self, query: str, limit: int, given: Mapping[str, Any]) -> SearchRequest:
        """Return the checked request of a recall; *given* are the other arguments."""
        from memdb.search.request import search_request

        times = {
            name: self.when_ms(given.get(name), name, end=name == "until")
            for name in ("since", "until", "as_of")
        }
        return search_request(query, limit, **{**given, **times})

    def count_scope(
        self, owner: ScopeRef, since: When | None, until: When | None, offset_minutes: int
    ) -> ScopeCounts:
        """Count the rows of each day; see `Scope.counts`."""
        from memdb.records.overviews import count_scope

        ends = self.when_ms(since, "since"), self.when_ms(until, "until", end=True)
        return count_scope(self.db, owner, *ends, offset_minutes)

    def when_ms(
        self, value: When | None, field: str, *, ahead: bool = False, end: bool = False
    ) -> int | None:
        """Return an argument that is a time in UTC milliseconds; None for None. See `when_ms`."""
        if value is None:
            return None
        return when_ms(value, field, self.db.clock(), ahead=ahead, end=end)

    def writer_name(self, name: str) -> str:
        """Return *name* if rows can have it as their writer; InvalidInput if they cannot."""
        name_value(name, "writer")
        if not name.isalpha():  # a plain word is no secret: nothing is loaded
            self.screen.pass_fields("message", {"writer": name}, REFUSE)
        return name

    def transfer(self, secrets: str | None = None) -> TransferServices:
        """Return the services that an import stores with; *secrets* is the action for entries."""
        if secrets is None:
            return self.importing
        return self.importing.replace(screen=self.screen.with_action(secrets))

    @by_settings
    def importing(self) -> TransferServices:
        """Services of an import that treats secrets as the settings do."""
        from memdb.artifacts.service import ArtifactService
        from memdb.text.screening import ALLOWING
        from memdb.transfer.lines import TransferServices

        space = self.indexer.space_name
        return TransferServices(
            self.db,
            self.counting,
            self.screen,
            space,
            self.settings.summarize_every,
            self._entries_by(ALLOWING),
            ArtifactService(self.db, ALLOWING),
            self.items,
            self.change_settings,
        )

    def import_file(
        self, path: str | os.PathLike[str], *, secrets: str | None, **options: Any
    ) -> ImportReport:
        """Import the source at *path*; see `memdb.formats.importing.import_file`."""
        from memdb.formats.importing import import_file

        return import_file(self.transfer(secrets), path, **options)

    def sync(self, folder: str | os.PathLike[str]) -> FolderSync:
        """Return the service that syncs the file with a folder; see `MemDB.sync`."""
        from memdb.sync.service import FolderSync

        if is_address(self.db.path):
            raise Unsupported(
                "a database on a server cannot be synced: let all programs connect to the server"
            )
        return FolderSync(self.transfer(), folder)

    def export(
        self,
        owners: Sequence[ScopeRef],
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",  # noqa: A002 (as the public call)
        embeddings: bool = True,
        with_settings: bool = False,
        replace: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Write the memory of *owners* to *path*; see `MemDB.export`."""
        shared: dict[str, Any] = {"replace": replace, "progress": progress}
        if format == "sqlite":
            from memdb.formats.sqlite_files import write_plain

            lines = self.export_lines(owners, embeddings=False, with_settings=with_settings)
            return write_plain(lines, path_value(path), replace=replace)
        if format != "jsonl":
            from memdb.formats.documents import write_document

            return write_document(self.db, owners, path, format, **shared)
        from memdb.transfer.export import export_file

        kept: dict[str, Any] = {"embeddings": embeddings, "with_settings": with_settings}
        return export_file(self.db, owners, path, **kept, **shared)

    def export_lines(self, owners: Sequence[ScopeRef], **options: bool) -> Iterator[str]:
        """Yield the lines of an export; see `memdb.transfer.export.export_lines`."""
        from memdb.transfer.export import export_lines

        return export_lines(self.db, owners, **options)

    def copy_to(self, target: Engine, **options: Any) -> CopyReport:
        """Copy everything into an empty database; see `memdb.transfer.copy.copy`."""
        from memdb.transfer.copy import copy

        return copy(self.db, target, **options)

    def write_bytes(self, data: BinaryIO, path: str | os.PathLike[str], *, replace: bool) -> int:
        """Write *data* to a file; see `memdb.transfer.export.copy_to`."""
        from memdb.transfer.export import copy_to

        return copy_to(data, path, replace=replace)

    def family(self, owner: ScopeRef) -> list[ScopeRef]:
        """Return a scope, and those of the same user in the parts of its app."""
        with self.db.read() as tx:
            return owner.family(tx)

    def find_secrets(self, owner: ScopeRef, *, entropy: bool) -> Iterator[SecretPlace]:
        """
        Yield the secrets in a scope, in the file and in the copies that migrations left.

        Those of a part of its app come after its own, and begin with the part's name.
        """
        own, *parts = self.family(owner)
        yield from self._find_secrets(self, own, entropy=entropy)
        for part in parts:
            for one in self._find_secrets(self, part, entropy=entropy):
                yield one.replace(where=f"{part.app}: {one.where}")
        for path in self.db.maintenance.list_migration_copies():
            with self.open_copy(path) as copy:
                for scope in (own, *parts):
                    for one in self._find_secrets(copy, scope, entropy=entropy):
                        yield one.replace(where=f"{os.path.basename(path)}: {one.where}")

    def _find_secrets(
        self, there: Services, owner: ScopeRef, *, entropy: bool
    ) -> Iterator[SecretPlace]:
        """Find secrets in the file or in a copy of it, as the settings of the file demand."""
        from memdb.deletion.secret_scan import SecretScan

        stores = (there.entries, there.artifacts, there.items)
        here = ScopeRef(there.db, owner.app, owner.user)
        return SecretScan(there.db, *stores, here, self.screen, entropy).places()

    @contextmanager
    def open_copy(self, path: str) -> Iterator[Services]:
        """Open a copy of the file at *path* for reading, without models."""
        copy = open_engine(
            path,
            mode="read",
            durability="process",
            timeout_ms=0,
            clock=self.db.clock,
            ids=self.db.ids,
            key=self.db.key,
        )
        try:
            yield Services(copy, Ports(None), None)
        finally:
            copy.close()

    def close(self) -> None:
        """Write the counts, and the log of contexts, that are only in memory."""
        if "usage" in self.__dict__:
            self.usage.flush()
        self.write_log()

    def write_log(self) -> None:
        """Store which rows contexts gave, if that is kept."""
        if "context_log" in self.__dict__:
            self.context_log.write()


def _checked(db: Engine, ports: Ports) -> Ports:
    """Return *ports* with embedders for names; refuse an object that cannot be a port."""
    require_all(arbiter=ports.arbiter, model=ports.model, summarizer=ports.summarizer)
    for name in ("secret_detector", "render_messages", "edit_candidates", "on_event", "reranker"):
        if getattr(ports, name) is not None and not callable(getattr(ports, name)):
            raise InvalidInput(f"{name} cannot be called: give a function, or None")
    embedder, previous = named_pair(db, ports.embedder, ports.previous_embedder)
    return ports.replace(embedder=embedder, previous_embedder=previous)


def _load_settings(db: Engine) -> Settings:
    with db.read() as tx:
        rows = settings.get_all(tx)
    try:
        return read_stored(rows) if rows else DEFAULTS
    except InvalidInput as error:
        raise SettingsTooNew(db.path, str(error)) from error
