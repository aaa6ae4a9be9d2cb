"""
The session in which the Agents SDK keeps its items.

Hosts make an object per conversation and call it from any event loop; the file
behind them is opened once per process. Its writes run in one thread, in the order
of the calls, and its reads beside them. `OpenAIResponsesCompactionSession` of the SDK shortens a
conversation by clearing and adding, and a crash between the two would lose it. Here that is one
transaction. The SDK finds these methods by names with an underscore; an older SDK never calls them.

Valid answers are cached, because a thread switch takes half of the time of a small read.
`HostFile(db).mark()` distinguishes commits of other processes from our own, so an answer stays
valid after our own new items.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

from memdb import aio
from memdb.adapters.adapter import place_of
from memdb.adapters.async_host import AsyncHost
from memdb.adapters.host import Host, HostFile
from memdb.api import database as memory
from memdb.api.threads import Threads
from memdb.errors import Closed, InvalidInput, InvalidItem, SessionClosed, VersionConflict
from memdb.formats.shapes import items_of
from memdb.integrations.openai_agents.branches import MAIN, Branching
from memdb.integrations.openai_agents.items import (
    fitted,
    held,
    is_user,
    latest,
    merged,
    popped,
    taken,
    to_message,
    words_of,
)
from memdb.models.settings import DEFAULTS
from memdb.providers.shared import missing_extra
from memdb.text.tokens import Counting
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
    from concurrent.futures import Future
    from typing import Any

    from agents import SessionSettings

    from memdb.api import database
    from memdb.api.database import MemDB
    from memdb.api.session import Session
    from memdb.api.threads import Kind
    from memdb.models.messages import Hits, Message
    from memdb.models.reports import ChangeMark

    Item = dict[str, Any]
    R = TypeVar("R")
    Count = Callable[[list[str]], list[int]]
    File = str | os.PathLike[str] | memory.MemDB | aio.MemDB
    Test = Callable[[Item], bool]


# Answers that are kept, and the size of one: a copy takes the loop 0.3 ms at most.
MAX_KEPT = 64
MAX_KEPT_BYTES = 64 << 10
LEAST_BYTES = 16


class Known(NamedTuple):
    """
    An answer: the items as bytes, and the seq of the newest message, 0 if there is none.

    It holds for the moment of a mark, whose stamp is None if it was not read since an own commit.
    """

    stamp: int | None
    commits: int
    others: int | None
    newest: int
    copies: list[bytes]


class Answers:
    """The newest items of sessions, by the session and their number; None means all items."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._known: dict[tuple[Hashable, int | None], Known] = {}
        self._lock = Lock()  # of who changes it: threads read beside each other

    def get(self, db: MemDB, chat: Hashable, most: int | None) -> list[Item] | None:
        """Return a cached answer that is valid now, or None; never waits."""
        key, file = (chat, most), HostFile(db)
        known = self._known.get(key)
        if known is None:
            return None
        if known.stamp is None:  # nobody may have written but those that were noted
            now = file.mark()
            if now is None or (now.commits, now.others) != (known.commits, known.others):
                return None
            with self._lock:
                if self._known.get(key) is known:
                    self._known[key] = known._replace(stamp=now.stamp)
        elif known.stamp != file.stamp():
            return None
        return [marshal.loads(one) for one in known.copies]  # noqa: S302 (our own)

    def put(
        self,
        chat: Hashable,
        most: int | None,
        mark: ChangeMark | None,
        newest: int,
        found: list[Item],
    ) -> None:
        """Keep an answer that was read after *mark*, unless it is large."""
        copies = None if mark is None else _copies(found, MAX_KEPT_BYTES)
        with self._lock:
            self._known.pop((chat, most), None)
            if mark is not None and copies is not None:
                known = Known(mark.stamp, mark.commits, mark.others, newest, copies)
                self._known[chat, most] = known
                if len(self._known) > MAX_KEPT:
                    self._known.pop(next(iter(self._known)), None)

    def grew(self, db: MemDB, chat: Hashable, span: tuple[int, int], items: Iterable[Item]) -> None:
        """
        Note that this thread has just added *items*, of the messages of *span*.

        The cache is extended only if nothing else can have changed. No seq is in between. This open
        file committed at most once (not at all if the transaction was noted before). `get` finds
        out whether anyone else committed, because asking now would delay every append.
        """
        with self._lock:
            keys = [key for key in self._known if key[0] == chat]
            if not keys:
                return
            commits, new = HostFile(db).commits, _copies(items, MAX_KEPT_BYTES)
            for key in keys:
                known = self._known.pop(key)
                is_only = commits - known.commits <= 1 and known.newest + 1 == span[0]
                if not is_only or known.others is None or new is None:
                    continue
                copies = _newest(known.copies + new, key[1])
                if sum(map(len, copies)) <= MAX_KEPT_BYTES:
                    self._known[key] = Known(None, commits, known.others, span[1], copies)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()


def _newest(copies: list[bytes], most: int | None) -> list[bytes]:
    if most is None or most < 0:
        return copies
    return copies[max(len(copies) - most, 0) :]


def _copies(values: Iterable[object], room: int) -> list[bytes] | None:
    """Return JSON values as bytes; None if they exceed *room*, and then stop there."""
    copies = []
    for value in values:
        copy = marshal.dumps(value)  # type: ignore[arg-type]  # other types raise
        room -= max(len(copy), LEAST_BYTES)
        if room < 0:
            return None
        copies.append(copy)
    return copies


MEMORY = ":memory:"


class SharedFile:
    """A file that is opened at the first call, and closed by its last user."""

    def __init__(
        self,
        path: str,
        options: dict[str, Any],
        count: Count,
        opened: memory.MemDB | aio.MemDB | None = None,
    ) -> None:
        """
        Open *path* with the options of `memdb.open`; *count* counts tokens in the same way.

        *opened* is the file if the caller opened it; None opens it at the first call.

        The counter is loaded here, the built-in one once per process in 0.02 s: later an
        event loop would wait for it.
        """
        count([""])
        self._worker = Threads(path)
        self._options = options
        self._opening: Future[memory.MemDB] | None = None
        self._lock = threading.Lock()
        self._users = 0
        self._db = aio.MemDB(opened, self._worker) if isinstance(opened, memory.MemDB) else opened
        self.answers = Answers()
        self.closed = False

    @classmethod
    def of(cls, db: memory.MemDB | aio.MemDB) -> SharedFile:
        """Return the shared form of a file that the caller opened and closes."""
        sync = db if isinstance(db, memory.MemDB) else db.blocking
        return cls(db.path, {}, sync.file.count_tokens, db)

    async def db(self) -> aio.MemDB:
        """Return the open file."""
        if self._db is None:
            with self._lock:
                if self._opening is None or (self._opening.done() and self._opening.exception()):
                    path, options = self._worker.path, self._options
                    self._opening = self._worker.call(lambda: memory.open(path, **options))
            # Others may wait for it too, so a cancelled caller leaves it alone.
            sync = await asyncio.shield(asyncio.wrap_future(self._opening))
            self._db = aio.MemDB(sync, self._worker)
        return self._db

    async def read(
        self,
        chat: Hashable,
        most: int | None,
        work: Callable[[memory.MemDB], tuple[list[Item], int]],
    ) -> list[Item]:
        """Return the newest *most* items of *chat*; *work* reads them if they are not cached."""
        db = self._db or await self.db()
        known = self.answers.get(db.blocking, chat, most)
        if known is not None:
            return known

        def read(sync: memory.MemDB) -> list[Item]:
            mark = HostFile(sync).mark()  # before reading: a change since then is seen
            found, newest = work(sync)
            self.answers.put(chat, most, mark, newest, found)
            return found

        return await db.run(read, kind="read")

    async def run(
        self, work: Callable[[memory.MemDB], R], kind: Kind = "write", *, to_end: bool = False
    ) -> R:
        """Do *work* in a thread of the file; see `memdb.aio.MemDB.run`."""
        db = self._db or await self.db()
        return await db.run(work, kind=kind, to_end=to_end)

    def note_added(self, chat: Hashable, stored: list[Message]) -> None:
        """
        Keep the cached answers about *chat* valid for messages just added.

        In the worker thread.
        """
        if self._db is not None:
            items = (item for message in stored for item in items_of(message))
            self.answers.grew(self._db.blocking, chat, (stored[0].seq, stored[-1].seq), items)

    def hold(self) -> Self:
        """Count one more user."""
        self._users += 1
        return self

    def release(self) -> None:
        """End after the last user; close the file if it was opened here."""
        with _guard:
            self._users -= 1
            if self._users:
                return
            self.closed = True
        self._worker.shutdown(wait=True)  # of a file with a worker of its own, this one is idle
        self.answers.clear()
        if self._opening is not None and self._opening.exception() is None:
            self._opening.result().close()


# What is open in this process; what nobody holds any more falls out.
_paths: WeakValueDictionary[tuple[str, int], SharedFile] = WeakValueDictionary()
_opened: WeakValueDictionary[int, SharedFile] = WeakValueDictionary()
_guard = threading.Lock()


def file_of(file: File, options: dict[str, Any]) -> SharedFile:
    """
    Return the shared form of *file*, with one more user; `release` removes that user.

    A path is opened once in a process, unless it has options or is ":memory:".

    Raises:
        InvalidInput: *file* is neither a path nor an open file.
    """
    with _guard:
        if isinstance(file, (memory.MemDB, aio.MemDB)):
            if options:
                raise InvalidInput(
                    "options are only for a path, but this file is already open: leave them out"
                )
            known = _opened.get(id(file))  # it holds the file, so the id is no other's
            if known is None or known.closed:
                known = _opened[id(file)] = SharedFile.of(file)
            return known.hold()
        if not isinstance(file, (str, os.PathLike)):
            raise InvalidInput(f"file is {type(file).__name__}: give a path or an open file")
        path = name_value(os.fspath(file), "file")
        if path != MEMORY:
            path = str(Path(path).absolute())  # where the process is now, not at the first call
        count = Counting(options.get("counter"), DEFAULTS).count_many
        if path == MEMORY or options:
            return SharedFile(path, options, count).hold()
        key = os.path.realpath(path), os.getpid()
        found = _paths.get(key)
        if found is None or found.closed:
            found = _paths[key] = SharedFile(path, options, count)
        return found.hold()


class Compacting(Branching):
    """The part of `MemDBSession` that the SDK's compaction uses."""

    async def _atomic_replace_items(self, items: list[Item]) -> bool:
        """Replace all items of the current branch with *items*."""
        if not self._is_plain():
            return False
        branch, new = self._branch, [to_message(item) for item in items]

        def replace(db: database.MemDB) -> bool:
            chat = self._chat(db, branch)
            while True:
                newest = _newest_seq(chat)
                try:
                    chat.replace(range(1, newest + 1), new, expected=newest)
                except VersionConflict:
                    continue  # somebody added one meanwhile
                return True

        return await self._run(replace, to_end=True)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Test | None = None
    ) -> Any | None:
        """
        Return the newest *limit* items and a function that replaces the last ones, or None.

        The SDK's `_CompactionSnapshot`. The replacement returns False and changes nothing if the
        conversation has changed since. The replacement also removes the oldest items, as
        *prune_prefix* decides.
        """
        try:
            from agents.memory.session import _CompactionSnapshot
        except ImportError:  # another version of the SDK
            return None
        if not self._is_plain():
            return None
        branch = self._branch

        rows, newest, complete = await self._run(
            lambda db: held(self._chat(db, branch), limit), "read"
        )

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            gone = [seq for seq, _ in rows[start:]]
            if not gone or gone[0] in (seq for seq, _ in rows[:start]):
                return False  # a message is replaced as a whole
            new = [to_message(item) for item in output]

            def replace(db: database.MemDB) -> bool:
                chat = self._chat(db, branch)
                expired = [*_expired(chat, gone[0], prune_prefix)]
                try:
                    chat.replace(expired + gone, new, expected=newest)
                except VersionConflict:
                    return False
                return True

            return await self._run(replace, to_end=True)

        return _CompactionSnapshot([item for _, item in rows], complete, replace_suffix)

    def _is_plain(self) -> bool:
        """Return whether no subclass changes the items that are stored or returned."""
        return all(
            getattr(type(self), name) is getattr(MemDBSession, name)
            for name in ("get_items", "add_items")
        )


def _newest_seq(chat: Session) -> int:
    said = chat.last(1)
    return said[0].seq if said else 0


def _expired(chat: Session, before_seq: int, test: Test | None) -> Iterator[int]:
    """Yield the oldest seqs below *before_seq*, until an item of a message fails *test*."""
    if test is None:
        return
    for message in chat.messages():
        items = items_of(message)
        if message.seq >= before_seq or not items or not all(map(test, items)):
            return
        yield message.seq


class MemDBSession(Compacting):
    """A conversation in the form of the Agents SDK: `agents.Session`, with more calls."""

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        file: File,
        *,
        user: str | None = None,
        app: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """
        Name a session; the first call opens the file.

        The first object of a process loads the token counter, which takes 0.02 s. Create it before
        the event loop serves.

        Args:
            session_id: The session's name in the scope.
            file: A path; or a file that is already open (`memdb.open` or `memdb.aio.open`) and
                stays open. Sessions with the same path share one open file, unless the path has
                options or is ":memory:".
            user, app: Names of the scope. None means MEMDB_USER and MEMDB_APP, or "default".
            session_settings: As in the SDK's sessions.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: the SDK is not installed, or a name cannot be used.
        """
        try:
            from agents.memory.session_settings import SessionSettings, coerce_session_settings
        except ImportError as error:
            raise missing_extra("openai-agents", error) from error
        self.session_id = name_value(session_id, "session_id")
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        user, app = place_of(user, app)
        super().__init__(name_value(user, "user"), name_value(app, "app"))
        self._file: SharedFile | None = file_of(file, options)
        self._main: aio.Session | None = None

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[Item]:
        """
        Return the latest *limit* items of a branch, oldest of them first.

        None means the limit of the settings, or all items; branch None means the current one.
        """
        from agents.memory.session_settings import resolve_session_limit

        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and (not isinstance(most, int) or isinstance(most, bool)):
            raise InvalidInput(f"limit is {type(most).__name__}: give an int or None")
        chat, branch = self._chat_of(branch_id), branch_id or self._branch
        key = (*self._main_key(), branch, branch_id is None) if branch != MAIN else self._main_key()

        def read(db: memory.MemDB) -> tuple[list[Item], int]:
            found = chat(db)
            return ([], 0) if found is None else latest(found, most)

        with _report_closed():
            return await self._opened().read(key, most, read)

    async def add_items(self, items: list[Item]) -> None:
        """
        Add items, all or none. If the caller is cancelled, all of them are stored, or none.

        Raises:
            InvalidItem: an item is not a dict, or has no JSON form; nothing was written.
            SessionClosed: after `close`.
        """
        branch, file = self._branch, self._opened()
        if isinstance(items, (dict, str)):
            raise InvalidItem(f"items is {type(items).__name__}: give a list of items")
        if not (given := list(items)):
            return
        new = taken(given)
        if branch != MAIN:
            await self._run(lambda db: self._add(db, branch, [*new]), to_end=True)
            return
        with _report_closed():
            if self._main is None:  # kept, because it knows its scope by then
                user, app = self._place
                self._main = (await file.db()).scope(user, app).session(self.session_id)
            await AsyncHost(self._main).add(new, after=partial(file.note_added, self._main_key()))

    async def pop_item(self) -> Item | None:
        """
        Remove the newest item and return it, None if there is none.

        Rows after it that are not items are removed too.
        """
        branch = self._branch
        return await self._run(lambda db: popped(self._chat(db, branch)), to_end=True)

    async def clear_session(self) -> None:
        """Remove every item, and all branches. Artifacts and entries stay."""

        def clear(db: memory.MemDB) -> None:
            with db.transaction():
                main = self._scope(db).session(self.session_id)
                for info in reversed(main.branches()):
                    main.branch(info.name).delete()
                main.clear()
            self._branch = MAIN

        await self._run(clear, to_end=True)

    async def search(self, query: str, limit: int = 10) -> Hits:
        """Return messages in the current branch with words of *query*, best first."""
        branch = self._branch
        return await self._run(
            lambda db: self._chat(db, branch).recall(
                query, limit, kinds=("message",), by="words", min_score=0
            ),
            "read",
        )

    async def recall(self, query: str, limit: int = 10) -> Hits:
        """Search the user's whole memory: all sessions, entries and artifacts."""
        return await self._run(lambda db: self._scope(db).recall(query, limit), "search")

    async def context_items(self, budget_tokens: int, query: str | None = None) -> list[Item]:
        """
        Return the whole conversation as items within a budget; see `memdb.Session.context`.

        The context does not include other sessions; `recall` finds their messages. Summaries of
        older messages and excerpts for *query* are messages; the newest items are unchanged. If
        items before them are left out, their reasoning and ids are left out too, because the API
        refuses one without the other.

        Raises:
            TooLarge: the budget cannot contain the newest item.
        """
        branch = self._branch

        def read(db: memory.MemDB) -> list[Item]:
            return fitted(Host(self._chat(db, branch)).context(budget_tokens, query))

        return await self._run(read, "search")

    def within(self, budget_tokens: int) -> Callable[[list[Item], list[Item]], Awaitable[Any]]:
        """
        Return a `RunConfig(session_input_callback=...)` that limits the history to a budget.

        A longer history is passed to the model as `context_items` returns it for the new input. The
        session keeps every item.
        """

        async def fit(history: list[Item], new: list[Item]) -> list[Item]:
            asked = " ".join(words_of(item) for item in new if is_user(item)).strip()
            context = await self.context_items(budget_tokens, asked or None)
            return merged(history, context) + new

        return fit

    def close(self) -> None:
        """Release the file; the last session of a path closes it. Again does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.release()

    async def aclose(self) -> None:
        """Close in a thread: the end of a file may wait for the disk."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        """Return the session itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.aclose()

    def __repr__(self) -> str:
        """Return the name of the session and of its user."""
        return f"<MemDBSession {self.session_id!r} of {self._place[0]!r}>"

    def _main_key(self) -> tuple[str, ...]:
        return *self._place, self.session_id

    def _opened(self) -> SharedFile:
        if self._file is None:
            raise SessionClosed(f"session {self.session_id!r} is closed: make another one")
        return self._file

    async def _run(
        self, work: Callable[[memory.MemDB], R], kind: Kind = "write", *, to_end: bool = False
    ) -> R:
        """
        Run *work* in a thread of the file.

        With *to_end* finish it even if the caller is cancelled.
        """
        with _report_closed():
            return await self._opened().run(work, kind, to_end=to_end)


@contextmanager
def _report_closed() -> Iterator[None]:
    """Raise the SDK's error if the file was closed while a call waited for it."""
    try:
        yield
    except SessionClosed:
        raise
    except Closed as error:
        raise SessionClosed(str(error)) from error
