"""
The front door: `open()`, the file it gives, and `db.jobs`. No SQL and no rules here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self, Unpack

from memdb.api._container import Ports, Services, Transaction
from memdb.api._resolve import STATIC, model_by_name, open_engine, settings_changes
from memdb.api.calls import handle, observed
from memdb.api.scope import Scope
from memdb.engine.sqlite.connection import MEMORY
from memdb.errors import InvalidInput
from memdb.models.ids import system_clock, uuid7
from memdb.models.keys import key_value
from memdb.models.reports import Rows, WorkRequest
from memdb.models.settings import WORK
from memdb.records.scopes import SHARED, ScopeRef
from memdb.tables import scopes as scope_rows
from memdb.text.validate import (
    flag_value,
    int_value,
    is_address,
    name_value,
    path_value,
    text_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from memdb.api.file import File
    from memdb.api.worker import Worker
    from memdb.engine.base import Engine
    from memdb.models.entries import Candidate
    from memdb.models.keys import AnyKey, FileKey
    from memdb.models.messages import Message
    from memdb.models.observation import Event
    from memdb.models.protocols import (
        Arbiter,
        Clock,
        Detector,
        Embedder,
        Ids,
        Model,
        Reranker,
        Summarizer,
        TokenCounter,
    )
    from memdb.models.reports import (
        Changes,
        ImportReport,
        Stats,
        SyncReport,
        SyncStatus,
        TableColumns,
    )
    from memdb.models.settings import Category, Settings
    from memdb.models.types import (
        Durability,
        ExportFormat,
        OpenMode,
        SecretAction,
        SettingsFields,
        Work,
    )

MAX_QUERY_S = 3600


@handle
class StoredSettings:
    """
    The settings that the file keeps, as `db.settings`.

    They are read when the file is opened. Another process that has it open keeps
    those that it read, and so does a worker until it is started again.

    >>> with open(":memory:") as db:
    ...     db.settings.update(entry_quota=500).entry_quota
    500
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        """Use `db.settings` instead."""
        self._services = services

    def get(self) -> Settings:
        """Return the settings that this handle works by."""
        return self._services.settings

    def update(
        self,
        settings: Settings | str | os.PathLike[str] | None = None,
        /,
        *,
        keep: bool = True,
        **fields: Unpack[SettingsFields],
    ) -> Settings:
        """
        Change settings, keep them in the file, and return them.

        Args:
            settings: `Settings` take the place of all; the path of a TOML file
                changes what it names; None changes the *fields* only.
            keep: False changes them for this handle only, also on a file opened with
                mode="read"; the file keeps its own, also at a later `update`.
            fields: New values by name; see `Settings`.

        Raises:
            InvalidInput: there is no such field, or a value is out of its range;
                nothing changes.
        """
        changes = _changes(settings, fields)
        if flag_value(keep, "keep"):
            return self._services.change_settings(changes)
        return self._services.override_settings(changes)

    def prompts(self) -> dict[str, str]:
        """Return the prompts that models get now, memdb's own too, by the name of the setting."""
        return self._services.prompts()

    def categories(self) -> tuple[Category, ...]:
        """Return the kinds of entries, built-in ones too, most important first."""
        return tuple(self._services.categories)


def _changes(settings: object, fields: SettingsFields) -> Settings | dict[str, Any]:
    if settings is not None and fields:
        raise InvalidInput(
            f"settings and {next(iter(fields))} contradict each other: give one of them"
        )
    return settings_changes(fields if settings is None else settings)


@observed
class Jobs:
    """Embeddings, summaries, extraction and upkeep that are due in a file."""

    __slots__ = ("_services", "_worker")

    def __init__(self, services: Services) -> None:
        """Use `db.jobs` instead."""
        self._services = services
        self._worker: Worker | None = None

    def run(
        self,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
        status: Callable[[str, str], object] | None = None,
        *,
        kinds: Sequence[Work] = WORK,
        due: bool = False,
    ) -> int:
        """
        Do all pending work now: embed, summarise and extract.

        Recall and context do a part of it by themselves. Only here, in `compact`
        and in a worker is a model asked for summaries.

        Args:
            limit: Stop after about this many; None: do it all.
            progress: Called after each batch with how many it was.
            status: Called with ("active", what is done) before a model is asked.
            kinds: Which work: "embed", "summarize", "extract" (`Settings.extract`).
            due: Do as a worker does: only work whose time has come, not what failed a moment
                ago, and the upkeep that is due too.

        Returns:
            How many texts were embedded, summaries made and messages read.

        Raises:
            InvalidInput: called inside a transaction.
            PortError: the embedder or the model failed on some of it. All else
                was done, extracts stand in for the summaries, and what failed
                is due again later.
        """
        request = WorkRequest(limit, progress, status, early=not flag_value(due, "due"))
        self._services.write_log()
        return self._services.jobs.run_pending(request, kinds, upkeep=due)

    def start(self, interval_s: float = 1.0) -> Worker:
        """
        Do due work in a thread of this process until it is stopped or the file closed.

        Upkeep too, which `run` leaves alone; of any number of processes
        with workers one does it, and `db.file.info().upkeep` tells when.

        Args:
            interval_s: Pause between two looks when nothing is due; after a
                failure it grows up to a minute.

        Returns:
            The worker, the same one if it runs already; `stop()` ends it.

        Raises:
            InvalidInput: *interval_s* is not a number above 0, or called inside a transaction.
        """
        if not isinstance(interval_s, (int, float)) or not 0 < interval_s < float("inf"):
            raise InvalidInput(f"interval_s is {interval_s!r}: give seconds above 0")
        self._services.db.refuse_read_only()
        self._services.db.refuse_inside("jobs.start")
        if self._worker is None or not self._worker.running:
            self._worker = self._services.start_worker(interval_s)
        return self._worker

    def pending(self) -> int:
        """
        Return how many jobs `run` has to do, those for other embedders left out.

        A worker learns from a conversation when it has `extract_every` new messages, or was
        silent for `extract_idle_ms`; `run` does it now. So wait for a worker by `worker.stop()`
        and `db.jobs.run()`, not for a number of 0.
        """
        return self._services.pending()

    def _close(self) -> None:
        """Stop the worker; a model that is being asked is given up."""
        if self._worker is not None:
            self._worker.stop(give_up=True)


def open(  # noqa: A001 (memdb.open, like gzip.open)
    path: str | os.PathLike[str],
    *,
    mode: OpenMode = "write",
    durability: Durability = "power",
    busy_timeout_s: float = 10.0,
    embedder: Embedder | str | None = STATIC,
    previous_embedder: Embedder | str | None = None,
    counter: TokenCounter | str | None = None,
    model: Model | str | None = None,
    summarizer: Summarizer | None = None,
    arbiter: Arbiter | None = None,
    secret_detector: Detector | None = None,
    render_messages: Callable[[Sequence[Message]], str] | None = None,
    edit_candidates: Callable[[list[Candidate], Sequence[Message]], list[Candidate]] | None = None,
    on_event: Callable[[Event], object] | None = None,
    reranker: Reranker | None = None,
    settings: Settings | dict[str, Any] | str | os.PathLike[str] | None = None,
    key: AnyKey | None = None,
    writer: str | None = None,
    clock: Clock = system_clock,
    ids: Ids = uuid7,
) -> MemDB:
    """
    Open a memdb file, making it where it is new.

    Args:
        path: The file, in a folder that exists; ":memory:" keeps all in memory. Or the
            address of a database on a server, `postgresql://USER@HOST:PORT/DATABASE`, with the
            extra `postgres`; what it lacks, as the password, comes from libpq's environment.
        mode: "read": nothing is written anywhere, and every write raises ReadOnly;
            the file must exist. Works on read-only media.
        durability: "power": what a call stored survives a power cut. "process":
            it survives the end of the process; appends are several times faster.
        busy_timeout_s: How long a call waits while another process writes, 0 to
            3,600, before it raises Busy.
        embedder: "static", the table that comes with memdb; "use", sixteen
            languages (extra `multilingual`); "fastembed:DIR",
            "openai:NAME@URL" or "llm:NAME", as in
            `memdb.api._resolve.embedder_by_name`; your own; or None for search
            by words alone.
        previous_embedder: The one that the file had before. It answers until
            *embedder* has embedded everything (`db.jobs.run()`, a worker). "static"
            does so by itself.
        counter: "cl100k_base", "o200k_base", "estimate", a model of OpenAI's
            such as "gpt-4o", or yours; None means as the settings say, else
            "cl100k_base".
        model: A language model that writes summaries and decides what to
            remember: "openai:NAME", "openai:NAME@URL", "llm:NAME", or yours;
            None means all of that is done offline.
        summarizer: Your own way to summarise, in place of asking *model*.
        arbiter: Decides what a statement does to entries like it; None: *model*
            does. Without one nothing is replaced: entries are linked by their
            words, and the newest comes first.
        secret_detector: Returns a `Secret` for each span of a text that is one,
            besides those that the rules of memdb find.
        render_messages: Turns messages into text for a model that extracts
            facts; None means memdb's format.
        edit_candidates: Changes, adds and drops extracted facts before they are
            compared; gets them with the messages that they come from.
        on_event: Called with an `Event` after each public call, call of a port
            and kind of background work, in its thread; see also `MemDB.stats`.
        reranker: Orders the best 30 hits of `recall` and `context`. It is a function of
            the question and the texts that returns a number for each, such as a
            cross-encoder. Their order stays if it fails or takes over 2 s.
        settings: What the file does by itself: secrets, summaries, extraction,
            quota, retention, contexts, categories. A dict, or the path of a
            TOML file, changes its fields; `Settings` takes the place of all.
            The file keeps them for every program; one that has it open already reads
            them at its next opening. None means as kept, at first the defaults. For this
            handle alone: `db.settings.update(keep=False)`.
        key: Key of an encrypted file, or for a new one: a passphrase, 32 bytes, or a function.
        writer: Name of the program that writes through this handle, such as "mail-agent". Each
            row that it adds or changes keeps the name. None: no name.
        clock: Gives UTC milliseconds.
        ids: Gives a new uid for a time.

    Raises:
        FileError: the file cannot be used; its subclasses say why. A newer, a
            foreign or a damaged file is left as it is.
        InvalidInput: an option is not one of those above.
        SettingsTooNew: a newer memdb has set what this one does not know.

    >>> with open(":memory:") as db:
    ...     chat = db.scope("ann").session("trip")
    ...     chat.append("user", "We fly to Oslo on 3 May.").seq
    1
    """
    name = path_value(path, is_database=True)
    if not name:
        name_value(name, "path")
    if isinstance(model, str):
        model = model_by_name(model)
    changes = None if settings is None else settings_changes(settings)
    ports = Ports(
        embedder,
        previous_embedder,
        counter,
        model,
        summarizer,
        arbiter,
        secret_detector,
        render_messages,
        edit_candidates,
        on_event,
        reranker,
        learns=True,
    )
    if not isinstance(busy_timeout_s, (int, float)) or not 0 <= busy_timeout_s <= MAX_QUERY_S:
        raise InvalidInput(f"busy_timeout_s is {busy_timeout_s!r}: give seconds up to 3,600")
    database = open_engine(
        name,
        key=_key_of(name, key),
        mode=mode,
        durability=durability,
        timeout_ms=round(busy_timeout_s * 1000),
        clock=clock,
        ids=ids,
    )
    try:
        services = Services(database, ports, changes)
        if writer is not None:
            services.name_writer(writer)
        return MemDB(database, services)
    except BaseException:
        database.close()
        raise


def _key_of(path: str, given: AnyKey | None) -> FileKey | None:
    """Return the key of a file; that of the environment is none of a server's."""
    if given is None and (path == MEMORY or is_address(path)):
        return None
    return key_value(given)


@observed
class MemDB:
    """
    An open file. Safe for any number of threads, and of processes on one file.

    A context manager; leaving it closes the file.
    """

    __slots__ = ("__weakref__", "_db", "_jobs", "_services")

    def __init__(self, database: Engine, services: Services) -> None:
        """Use `memdb.open()` instead."""
        self._db = database
        self._services = services
        self._jobs: Jobs | None = None

    @property
    def path(self) -> str:
        """The path it was opened with."""
        return self._db.path

    @property
    def closed(self) -> bool:
        """Whether `close` was called; every other call then raises Closed."""
        return self._db.is_closed

    @property
    def jobs(self) -> Jobs:
        """Background work: do it now, or in a thread."""
        if self._jobs is None:
            self._jobs = Jobs(self._services)
        return self._jobs

    @property
    def file(self) -> File:
        """The file as a whole: check, rebuild, vacuum, backup, info, embedding spaces."""
        from memdb.api.file import File

        return File(self._services)

    def stats(self) -> Stats:
        """
        Return queued work, failures, and the durations of this process's calls.

        What is queued and what fails is that of all processes. Cost: 1 ms per 1,000 jobs.
        """
        return self._services.stats()

    def changes(self, since: str | None = None) -> Changes:
        """
        Return the changes of all programs in the file since a mark.

        No clock is asked, and nothing is missed. A recall that counts the use of
        entries is no change.

        Args:
            since: The `mark` of an earlier answer. None begins now. A mark from before the
                file was opened tells which kinds changed. With `is_complete=False` sessions
                got messages or are new, and an unknown mark tells no more than that.

        Raises:
            FileError: the file was removed or replaced, or a newer memdb migrated it.
            InvalidInput: it was called inside a transaction.

        Cost: 15 µs if nobody has written; else 0.5 ms and 0.3 ms per 1,000 sessions.

        >>> with open(":memory:") as db:
        ...     start = db.changes().mark
        ...     _ = db.scope("ann").session("trip").append("user", "We fly on 3 May.")
        ...     _ = db.scope("ann").remember("Ann flies in May.")
        ...     found = db.changes(start)
        ...     [place.session for place in found.sessions], found.kinds
        (['trip'], ('entry',))
        """
        return self._services.changes.since(since)

    def watch(self, *, interval_s: float = 0.25) -> Iterator[Changes]:
        """
        Yield the changes of all programs from now on, until the file is closed.

        What is written between two looks comes together.

        Args:
            interval_s: Seconds from one look to the next: 0.01 to 3,600.

        Raises:
            FileError: the file was removed or replaced, or a newer memdb migrated it.

        Cost: 15 µs a look; of what changed, that of `changes`, in a tenth of the time at most.
        """
        return self._services.changes.watch(interval_s)

    def transaction(self) -> Transaction:
        """
        Return a context in which all writes of this thread happen together or not at all.

        If the body raises, the file is as before. Inside another transaction it
        is a savepoint. Other writers wait meanwhile, so ask models before it.
        Each is for one `with`. What cannot be undone or waits for a model is refused
        inside: backup, vacuum, query, forget, extract, compact and the calls of `db.jobs`.

        Raises:
            Busy: another process kept the write lock longer than the timeout.
            InvalidInput: it was entered before, by this thread or another.

        >>> with open(":memory:") as db:
        ...     ann = db.scope("ann")
        ...     with db.transaction():
        ...         chat = ann.session("trip")
        ...         _ = chat.append("user", "Pay with the blue card.")
        ...         _ = ann.remember("Ann pays with the blue card.", key="card")
        ...     chat.last_seq
        1
        """
        return Transaction(self._db)

    def user(self, user: str) -> Scope:
        """Return the memory of a user: `scope(user)`, in the app "default"."""
        return self.scope(user)

    def scope(self, user: str, app: str = "default") -> Scope:
        """
        Return somebody's memory; it is made at its first write.

        Args:
            user: The user of the memory: any text of up to 1,024 characters.
            app: The program it belongs to.

        Raises:
            InvalidInput: a name is empty or cannot be stored.
        """
        return Scope(self._services, self._owner(user, app))

    def shared(self, app: str = "default") -> Scope:
        """Return the scope that all users of *app* share and recall; its user is ""."""
        return Scope(self._services, self._scope_ref(name_value(app, "app"), SHARED))

    @property
    def settings(self) -> StoredSettings:
        """Settings of the file, and its categories of entries."""
        return StoredSettings(self._services)

    def scopes(self) -> list[Scope]:
        """Return every scope that was written to, by app and user; shared ones too."""
        with self._db.read() as tx:
            found = scope_rows.list_all(tx)
        owners = [self._scope_ref(app, user) for _, app, user in found]
        return [Scope(self._services, owner) for owner in owners]

    def query(
        self,
        sql: str,
        values: Sequence[object] | Mapping[str, object] = (),
        *,
        limit: int = 1000,
        timeout_s: float = 10.0,
    ) -> Rows:
        """
        Run one SELECT over the tables and views of all users, and return the rows.

        For a look at the file in place of another SQLite library, which must not
        have it open in the same process. Nothing but reading is allowed. The views
        (`messages_view`, `entries_view`, ...) name people, sessions and times.

        A value that the statement makes may have 1 MB, one that is stored 80 MB, the
        result 256 MB; a pattern of LIKE 100 characters. Full-text search (MATCH) and
        json_patch are refused: nothing can stop them. `recall` searches.

        Args:
            values: For `?` by position, for `:name` by name.
            limit: Most rows.
            timeout_s: Seconds after which it is given up.

        Raises:
            InvalidInput: it is no single SELECT, cannot be run, or was called inside a
                transaction, whose writes it would not see.
            Interrupted: it took longer than *timeout_s*.

        >>> with open(":memory:") as db:
        ...     _ = db.scope("ann").session("trip").append("user", "hi")
        ...     [*db.query("SELECT text FROM messages WHERE role = ?", ["user"])]
        [{'text': 'hi'}]
        """
        int_value(limit, "limit", 0, 1_000_000)
        if not isinstance(timeout_s, (int, float)) or not 0 < timeout_s <= MAX_QUERY_S:
            raise InvalidInput(f"timeout_s is {timeout_s!r}: give up to {MAX_QUERY_S} seconds")
        columns, rows, has_more = self._db.maintenance.query(
            text_value(sql, "sql"), values, limit=limit, timeout_s=timeout_s
        )
        return Rows(columns, tuple(rows), has_more)

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        user: str | None = None,
        app: str | None = None,
        session: str | None = None,
        format: str | None = None,  # noqa: A002 (the word that users of files use)
        secrets: SecretAction | None = None,
        columns: TableColumns | None = None,
        progress: Callable[[int, int], object] | None = None,
        dry_run: bool = False,
        all_or_nothing: bool = False,
    ) -> ImportReport:
        """
        Import a file, a folder, an archive or another program's database.

        What is here already is left as it is; docs/import.md has the formats. What an
        export holds and was forgotten here stays away, and is counted as `forgotten`;
        what was only deleted comes back. The settings of an export are taken by a file
        that holds nothing and has none of its own.

        Args:
            user: Whose it becomes; None means of the users that the file names.
            app: The program of *user*; None: "default".
            session: Session for messages that name none.
            format: How to read the file, by a name of docs/import.md such as "chatgpt", "claude",
                "jsonl", or "mem0" for the JSON of its `get_all`. None: find out.
            secrets: "refuse", "redact" or "allow" keys and passwords in entries;
                None means as the file's settings say.
            columns: For a table of another program's SQLite file; without them
                such a file must be a log of `llm`.
            progress: Called with how much is done, and of how much.
            dry_run: Read and check everything, report it with samples, and store nothing.
            all_or_nothing: Store nothing if any record cannot be stored. Default: leave out that
                record and name it in the report.

        Raises:
            FileError: *path* cannot be read.
            InvalidInput: it holds something that cannot be stored.
        """
        owner = None if user is None else self._owner(user, app or "default")
        return self._services.import_file(
            path,
            owner=owner,
            secrets=secrets,
            session=session,
            format=format,
            progress=progress,
            columns=columns,
            dry_run=dry_run,
            all_or_nothing=all_or_nothing,
        )

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        user: str | None = None,
        app: str = "default",
        embeddings: bool = True,
        replace: bool = False,
        format: ExportFormat = "jsonl",  # noqa: A002 (public name)
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """
        Write the memory of *user* to *path*, as JSON lines or for people; return how many.

        Args:
            user: None means everybody, of every app, with the settings of the file.
            embeddings: Also write vectors; without them they are made again.
            replace: Overwrite a file that is there.
            format: "jsonl", which `import_file` reads whole; "markdown", "html" (one page that
                needs nothing else) and "csv" are for people, see docs/export.md. "sqlite" writes
                plain tables for other programs: sessions, messages, entries, summaries, artifacts,
                state.
            progress: Called with the number of records so far, every 1,000.

        Raises:
            InvalidInput: there is no such format.
            AlreadyExists: something is at *path*, and *replace* is False.
            FileError: *path* cannot be written.
        """
        return self._services.export(
            self._owners(user, app),
            path,
            embeddings=embeddings,
            with_settings=user is None,
            replace=replace,
            format=format,
            progress=progress,
        )

    def sync(
        self,
        folder: str | os.PathLike[str],
        *,
        pairing_key: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> SyncReport:
        """
        Sync this file with the other devices that use *folder*; see docs/guides/sync.md.

        Args:
            folder: A folder of its own, without this file. Any program may carry it.
            pairing_key: What the first sync of the first device returned as `key`.
            dry_run: Count, and write nothing.
            progress: Called with the number of chunks that were merged of a segment.

        Raises:
            FileError: the folder is absent, or cannot be written.
            InvalidInput: it is of another memory, the pairing key is needed or wrong.
        """
        given = None if pairing_key is None else text_value(pairing_key, "pairing_key")
        self._services.db.refuse_read_only()
        sync = self._services.sync(folder)
        return sync.run(given, dry_run=flag_value(dry_run, "dry_run"), progress=progress)

    def sync_status(self, folder: str | os.PathLike[str]) -> SyncStatus:
        """Return the devices of *folder*, and the changes that wait to be sent or merged."""
        return self._services.sync(folder).status()

    def export_lines(
        self, *, user: str | None = None, app: str = "default", embeddings: bool = True
    ) -> Iterator[str]:
        """
        Yield the lines of an export, without line ends.

        Raises:
            InvalidInput: it began in a transaction that was rolled back meanwhile.
        """
        return self._services.export_lines(
            self._owners(user, app), embeddings=embeddings, with_settings=user is None
        )

    def close(self) -> None:
        """
        Close the file; calling it again does nothing.

        Work in progress is finished first, but a worker's model that is being
        asked is given up: what it was asked for stays due.
        """
        if self._jobs is not None:
            self._jobs._close()
        self._services.close()
        self._db.close()

    def _owner(self, user: str, app: str) -> ScopeRef:
        return self._scope_ref(name_value(app, "app"), name_value(user, "user"))

    def _scope_ref(self, app: str, user: str) -> ScopeRef:
        return ScopeRef(self._db, app, user, lambda: self._services.screen)

    def _owners(self, user: str | None, app: str) -> list[ScopeRef]:
        if user is not None:
            return self._services.family(self._owner(user, app))
        return [scope._owner for scope in self.scopes()]

    def __enter__(self) -> Self:
        """Return the open file itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Name the file."""
        where = self.path if self.path == MEMORY else os.path.basename(self.path)
        return f"<MemDB {where}>"
