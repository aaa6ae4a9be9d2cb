"""
The entry point: `open()`, the open file, and `db.jobs`. The module has no SQL and no rules.
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

    The settings are read when the file is opened. Another process that has the file open keeps the
    settings that it read, and a worker keeps its settings until it is restarted.

    >>> with open(":memory:") as db:
    ...     db.settings.update(entry_quota=500).entry_quota
    500
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        """Use `db.settings` instead."""
        self._services = services

    def get(self) -> Settings:
        """Return the settings that this handle uses."""
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
        Change settings, store them in the file, and return them.

        Args:
            settings: `Settings` replace all; the path of a TOML file changes the settings in it;
                None changes only the *fields*.
            keep: False changes them for this handle only, even with mode="read". The file keeps its
                own settings.
            fields: New values by name; see `Settings`.

        Raises:
            InvalidInput: there is no such field, or a value is out of range; nothing changes.
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
    """The pending work of a file: embeddings, summaries, extraction and upkeep."""

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

        Recall and context do a part of it themselves. A model is called for summaries only here, in
        `compact` and in a worker.

        Args:
            limit: Stop after about this many; None means all.
            progress: Called after each batch with the number of pieces that were done.
            status: Called with ("active", description) before a model is called.
            kinds: The kinds of work: "embed", "summarize", "extract" (`Settings.extract`).
            due: Work like a worker: only jobs whose time has come, no recent failures, and upkeep
                that is due.

        Returns:
            The numbers of embedded texts, summaries made and messages read.

        Raises:
            InvalidInput: called inside a transaction.
            PortError: the embedder or the model failed on some of it. All other work was done,
                extracts replace the missing summaries, and the failed jobs are tried again later.
        """
        request = WorkRequest(limit, progress, status, early=not flag_value(due, "due"))
        self._services.write_log()
        return self._services.jobs.run_pending(request, kinds, upkeep=due)

    def start(self, interval_s: float = 1.0) -> Worker:
        """
        Do due work in a thread of this process, until it is stopped or the file is closed.

        The worker also does upkeep, which `run` does not. If several processes have workers, one of
        them does it; `db.file.info().upkeep` shows when.

        Args:
            interval_s: Pause between two checks if nothing is due. After a failure it grows up to a
                minute.

        Returns:
            The worker; if one already runs, the same one. `stop()` ends it.

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
        Return the number of jobs that `run` has to do, without those for other embedders.

        A worker learns from a conversation after `extract_every` new messages, or after a silence
        of `extract_idle_ms`. `run` does it now. So to wait for a worker, call `worker.stop()` and
        `db.jobs.run()`; do not wait for the number 0.
        """
        return self._services.pending()

    def _close(self) -> None:
        """Stop the worker, without waiting for a model that is being called."""
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
    Open a memdb file, making it if it is absent.

    Args:
        path: The file, in an existing folder. ":memory:" keeps all data in memory. It can also be
            the address of a database on a server, `postgresql://USER@HOST:PORT/DATABASE`, with the
            extra `postgres`. Missing parts, such as the password, come from libpq's environment.
        mode: With "read" nothing is written, every write raises ReadOnly, and the file must exist.
            Works on read-only media.
        durability: With "power", stored data survives a power cut. With "process", it survives the
            end of the process, and appends are several times faster.
        busy_timeout_s: Seconds to wait for another writer, 0 to 3,600, before Busy is raised.
        embedder: "static", the table that comes with memdb; "use", sixteen languages (extra
            `multilingual`); "fastembed:DIR", "openai:NAME@URL" or "llm:NAME", as in
            `memdb.api._resolve.embedder_by_name`; your own embedder; or None to search by words
            alone.
        previous_embedder: The embedder that the file had before. It is used until *embedder* has
            embedded everything (`db.jobs.run()`, a worker). "static" does so automatically.
        counter: "cl100k_base", "o200k_base", "estimate", the name of an OpenAI model such as
            "gpt-4o", or your own. None means as the settings say, else "cl100k_base".
        model: A language model that writes summaries and decides what to remember: "openai:NAME",
            "openai:NAME@URL", "llm:NAME", or your own. None means that memdb works without a model.
        summarizer: Your own function for summaries, in place of *model*.
        arbiter: Decides how a statement changes similar entries. None means that *model* decides.
            Without either, entries are linked by their words, and the newest comes first.
        secret_detector: Returns a `Secret` for each secret span of a text, in addition to those
            that memdb finds.
        render_messages: Turns messages into text for extraction; None means memdb's format.
        edit_candidates: Changes, adds and drops extracted facts before they are compared. The
            function gets them with their messages.
        on_event: Called with an `Event` after each public call, call of a port
            and kind of background work, in its thread; see also `MemDB.stats`.
        reranker: Orders the best 30 hits of `recall` and `context`. The reranker is a function of
            the question and the texts that returns a number for each, such as a
            cross-encoder. If it fails or takes over 2 s, the order does not change.
        settings: How the file handles secrets, summaries, extraction, quota, retention, contexts
            and categories. A dict, or the path of a TOML file, changes single fields; `Settings`
            replaces all. The file stores them for every program. A program that has it open reads
            them at its next opening. None means the stored settings, or at first the defaults. For
            this handle alone: `db.settings.update(keep=False)`.
        key: Key of an encrypted file, or of a new one to be encrypted: a passphrase, 32 bytes, or a
            function.
        writer: Name of the program that writes through this handle, such as "mail-agent". Each
            row that it adds or changes keeps the name. None: no name.
        clock: Gives UTC milliseconds.
        ids: Returns a new uid for a time.

    Raises:
        FileError: the file cannot be used; the subclass tells the reason. A newer, a foreign or a
            damaged file is left unchanged.
        InvalidInput: an option is not one of those above.
        SettingsTooNew: a newer memdb has stored settings that this one does not know.

    >>> with open(":memory:") as db:
    ...     chat = db.user("ann").session("trip")
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
            database.opened_by = services.writer_name(writer)
        return MemDB(database, services)
    except BaseException:
        database.close()
        raise


def _key_of(path: str, given: AnyKey | None) -> FileKey | None:
    """Return the key of a file. A server does not use the key in the environment."""
    if given is None and (path == MEMORY or is_address(path)):
        return None
    return key_value(given)


@observed
class MemDB:
    """
    An open file. Safe for any number of threads, and for several processes with the same file.

    The object is a context manager: leaving it closes the file.
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
        """Whether `close` was called; after that every other call raises Closed."""
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

        Queued work and failures are those of all processes. Cost: 1 ms per 1,000 jobs.
        """
        return self._services.stats()

    def changes(self, since: str | None = None) -> Changes:
        """
        Return the changes of all programs in the file since a mark.

        The call uses no clock, and misses nothing. A recall that counts the use of entries is not a
        change.

        Args:
            since: The `mark` of an earlier result. None begins now. A mark from before the file was
                opened shows only which kinds changed. If `is_complete` is False, the list of
                sessions may be incomplete.

        Raises:
            FileError: the file was removed or replaced, or a newer memdb migrated it.
            InvalidInput: the call was made inside a transaction.

        Cost: 15 µs if nothing was written; else 0.5 ms, and 0.3 ms per 1,000 sessions.

        >>> with open(":memory:") as db:
        ...     start = db.changes().mark
        ...     _ = db.user("ann").session("trip").append("user", "We fly on 3 May.")
        ...     _ = db.user("ann").remember("Ann flies in May.")
        ...     found = db.changes(start)
        ...     [place.session for place in found.sessions], found.kinds
        (['trip'], ('entry',))
        """
        return self._services.changes.since(since)

    def watch(self, *, interval_s: float = 0.25) -> Iterator[Changes]:
        """
        Yield the changes of all programs from now on, until the file is closed.

        Changes between two checks are combined.

        Args:
            interval_s: Seconds between two checks: 0.01 to 3,600.

        Raises:
            FileError: the file was removed or replaced, or a newer memdb migrated it.

        Cost: 15 µs a look; of what changed, that of `changes`, in a tenth of the time at most.
        """
        return self._services.changes.watch(interval_s)

    def transaction(self) -> Transaction:
        """
        Return a context in which all writes of this thread happen together or not at all.

        If the body raises an exception, the file stays as before. Inside another transaction it is
        a savepoint. Other writers wait meanwhile, so call models before it. Each is for one `with`.
        Calls that cannot be undone or that wait for a model are refused inside: backup, vacuum,
        query, forget, extract, compact and the calls of `db.jobs`.

        Raises:
            Busy: another process kept the write lock longer than the timeout.
            InvalidInput: the transaction was entered before, by this thread or another.

        >>> with open(":memory:") as db:
        ...     ann = db.user("ann")
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
        Return the memory of a user, which the first write creates.

        Args:
            user: The user of the memory: any text of up to 1,024 characters.
            app: The program it belongs to.

        Raises:
            InvalidInput: a name is empty or cannot be stored.
        """
        return Scope(self._services, self._owner(user, app))

    def shared(self, app: str = "default") -> Scope:
        """Return the scope that all users of *app* share and recall. Its user is ""."""
        return Scope(self._services, self._scope_ref(name_value(app, "app"), SHARED))

    @property
    def settings(self) -> StoredSettings:
        """Settings of the file, and its categories of entries."""
        return StoredSettings(self._services)

    def scopes(self) -> list[Scope]:
        """Return all scopes that were written to, by app and user, including shared ones."""
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

        Use it instead of another SQLite library, which must not open the file in the same process.
        Only reading is allowed. The views (`messages_view`, `entries_view`, ...) name
        people, sessions and times.

        A value that the statement makes may have 1 MB, a stored value 80 MB, the result 256 MB, and
        a pattern of LIKE 100 characters. Full-text search (MATCH) and json_patch are refused,
        because they cannot be interrupted. `recall` searches.

        Args:
            values: For `?` by position, for `:name` by name.
            limit: Most rows.
            timeout_s: Seconds after which the query is interrupted.

        Raises:
            InvalidInput: *sql* is not a single SELECT, cannot be run, or was called inside a
                transaction, whose writes it would not see.
            Interrupted: the query took longer than *timeout_s*.

        >>> with open(":memory:") as db:
        ...     _ = db.user("ann").session("trip").append("user", "hi")
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

        What is here already is left unchanged; docs/import.md has the formats. Data that was
        forgotten here is not imported again, and is counted as `forgotten`. Data that was only
        deleted comes back. The settings of an export are imported only into an empty file without
        settings of its own.

        Args:
            user: The user who gets the memory; None means the users that the file names.
            app: The program of *user*; None means "default".
            session: Session for messages that name none.
            format: How to read the file, by a name of docs/import.md such as "chatgpt", "claude",
                "jsonl", or "mem0" for the JSON of its `get_all`. None: find out.
            secrets: "refuse", "redact" or "allow" keys and passwords in entries;
                None means as the file's settings say.
            columns: Columns of a table in another program's SQLite file. Without them, such a file
                must be a log of `llm`.
            progress: Called with the amount done and the total.
            dry_run: Read and check everything, report it with samples, and store nothing.
            all_or_nothing: Store nothing if any record cannot be stored. Default: leave out that
                record and name it in the report.

        Raises:
            FileError: *path* cannot be read.
            InvalidInput: the source contains something that cannot be stored.
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
        Write the memory of *user* to *path*; return the number of records.

        Args:
            user: None means all users of every app, and the settings of the file.
            embeddings: Also write vectors. If they are left out, the import makes them again.
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
            folder: A folder for the sync alone, without this file. Any program may transport it.
            pairing_key: The `key` that the first sync of the first device returned.
            dry_run: Only count what would be synced, and write nothing.
            progress: Called with the number of chunks that were merged of a segment.

        Raises:
            FileError: the folder is absent, or cannot be written.
            InvalidInput: the folder belongs to another memory, or the pairing key is missing or
                wrong.
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
            InvalidInput: the export began in a transaction that was rolled back.
        """
        return self._services.export_lines(
            self._owners(user, app), embeddings=embeddings, with_settings=user is None
        )

    def close(self) -> None:
        """
        Close the file; calling it again does nothing.

        Running work is finished first. A model that a worker is calling is not waited for; its job
        stays due.
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
