"""
The folder itself: which user's file is where, which are open, and who does their work.

A file is opened when it is asked for. Of more than `max_open`, those that nobody asked for the
longest are closed, but never one that somebody uses.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import OrderedDict
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import unquote
from weakref import WeakSet

import memdb
from memdb.adapters.host import HostFile, loaded_ports, pin_of, user_name
from memdb.errors import Closed, FileError, InvalidInput, MemDBError, NotFound, ReadOnly, TooLarge
from memdb.folder.due import DueFile
from memdb.models.ids import system_clock
from memdb.models.record import Record
from memdb.models.reports import Failure, WorkRequest
from memdb.text.validate import MAX_MS, int_value, path_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB, Scope, Worker

MAX_OPEN = 100
SHARED_FILE = "shared.db"
SHARED = ""  # the user of what all users of an app share
SUFFIX = ".db"
BESIDE = ("", "-wal", "-shm")  # a file of SQLite, and what may stand beside it
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
HASHED = re.compile("[0-9a-f]{2}")
MAX_NAME_BYTES = 240  # file systems take 255

# A file that nobody has asked for so long is idle, and its work is done.
IDLE_S = 2.0
NEVER = -1
PRIVATE = 0o700
LOOK_MS = 2_000  # until the next look at a file that is in use
LATER_MS = 60_000  # after a failure, and for work whose time has not come


def place_of(user: str) -> str:
    """
    Return where a user's file is below the folder.

    The name of the file is that of the user, so that a listing opens none, and two folders of
    its hash keep each small.

    Raises:
        TooLarge: the name is too long for that of a file.

    >>> place_of("ann@example.com")
    '71/d4/ann%40example%2ecom.db'
    """
    data = user_name(user).encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in PLAIN else f"%{byte:02x}" for byte in data)
    if len(name) > MAX_NAME_BYTES:
        raise TooLarge("the name of a user's file", MAX_NAME_BYTES, len(name), "shorten the user")
    digest = sha256(data).hexdigest()
    return os.path.join(digest[:2], digest[2:4], name + SUFFIX)


def file_in(folder: str, user: str | None, *, create: bool = False) -> str:
    """
    Return the path of a user's file in a folder that some other program may own.

    Args:
        create: Make the folders around it.

    Raises:
        InvalidInput: no user is named.
    """
    if user is None:
        raise InvalidInput(
            f"{folder} is a folder with a file for each user: choose the user with --user"
        )
    path = os.path.join(folder, place_of(user_name(user)))
    if create:
        os.makedirs(os.path.dirname(path), mode=PRIVATE, exist_ok=True)
    return path


class FolderStats(Record):
    """
    Counts of a folder.

    Attributes:
        users: How many users have a file.
        size_bytes: Size of all files.
        open: Files that are open now.
        due: Users whose file may hold work that is due.
    """

    users: int
    size_bytes: int
    open: int
    due: int


class _Handle:
    """An open file, and whether somebody uses it."""

    __slots__ = ("asked_s", "db", "host", "is_due", "pins", "seen")

    def __init__(self, db: MemDB) -> None:
        self.db = db
        self.host = HostFile(db)
        self.pins: WeakSet[Any] = WeakSet()
        self.seen = self.host.commits  # as of when it was named as due
        self.is_due = False
        self.asked_s = monotonic()


class Lease:
    """
    Pin of a user's file, which stays open: `with folder.open(user) as db`.

    Without `with` it ends when nothing refers to it.
    """

    __slots__ = ("__weakref__", "db", "handle")

    def __init__(self, handle: _Handle) -> None:
        """Use `Folder.open` instead."""
        self.db = handle.db
        self.handle = handle
        handle.pins.add(self)

    def keep_for(self, scope: Scope) -> Scope:
        """Keep the file open for as long as something of *scope* is in use; return *scope*."""
        self.handle.pins.add(pin_of(scope))
        return scope

    def __enter__(self) -> MemDB:
        """Return the open file."""
        return self.db

    def __exit__(self, *_: object) -> None:
        """Release the file, which may be closed then."""
        self.handle.pins.discard(self)


class Folder:
    """
    A folder with a file for each user. Safe for any number of threads.

    One process writes to it at a time. A scope keeps the file of its user open for as long as
    something refers to it, or to what came from it.
    """

    __slots__ = (
        *("_change", "_clock", "_due", "_moving", "_open", "_options", "_shared", "_worker"),
        *("failures", "is_closed", "max_open", "path"),
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Literal["write", "read"] = "write",
        max_open: int = MAX_OPEN,
        **options: Any,
    ) -> None:
        """Use `memdb.open_folder()` instead."""
        if mode not in ("write", "read"):
            raise InvalidInput(f"mode is {mode!r}: use 'write' or 'read'")
        self.path = os.path.realpath(path_value(path))
        self.max_open = int_value(max_open, "max_open", 1, 100_000)
        if not os.path.isdir(self.path):
            raise FileError(f"{self.path} is not a folder: create it first", self.path)
        self._options = {**loaded_ports(options), "mode": mode}
        self._clock: Callable[[], int] = options.get("clock", system_clock)
        self._open: OrderedDict[str, _Handle] = OrderedDict()
        self._moving: set[str] = set()  # whose file is being opened, closed, moved or removed
        self._change = Condition()
        self._worker: Worker | None = None
        self._shared: Lease | None = None
        self.failures: dict[str, Failure] = {}
        self.is_closed = False
        self._due = None if mode == "read" else DueFile(self.path)

    @property
    def is_read_only(self) -> bool:
        """Whether it was opened with mode="read"."""
        return self._due is None

    def user(self, user: str, app: str = "default") -> Scope:
        """
        Return somebody's memory, as `MemDB.scope` does; their file is made if it is new.

        Raises:
            NotFound: the user is new, and the folder was opened with mode="read".
            TooLarge: the name is too long for that of a file.
        """
        lease = self._take(user_name(user))
        return lease.keep_for(lease.db.scope(user, app))

    scope = user

    def shared(self, app: str = "default") -> Scope:
        """Return what all users of *app* share: each of them recalls its entries too."""
        lease = self._take(SHARED)
        return lease.keep_for(lease.db.shared(app))

    def open(self, user: str, *, create: bool = True) -> Lease:
        """
        Return the file of *user*, for a `with`; that of "" holds what all users share.

        Args:
            create: Make it if it is new.

        Raises:
            NotFound: the user is new, and *create* is False.
        """
        return self._take(user and user_name(user), create=create)

    def empty(self) -> MemDB:
        """Return an empty memory on no disk with the options of the files, for an absent user."""
        return memdb.open(":memory:", **{**self._options, "mode": "write", "key": None})

    def list(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """
        Return the users, in the order of their files; a page of them with *limit*.

        Args:
            after: The last user of the previous page.
        """
        found: list[str] = []
        start = "" if after is None else place_of(after)
        for place in self._places(start):
            if limit is not None and len(found) >= limit:
                break
            if place > start:
                found.append(unquote(os.path.basename(place).removesuffix(SUFFIX)))
        return found

    def __contains__(self, user: object) -> bool:
        """Return whether a user has a file."""
        return isinstance(user, str) and user != SHARED and os.path.exists(self._file_of(user))

    def stats(self) -> FolderStats:
        """Return the number of users, and how large their files. Cost: 10 µs a file."""
        sizes = [_size_of(os.path.join(self.path, place)) for place in self._places("")]
        due = 0 if self._due is None else self._due.count()
        return FolderStats(len(sizes), sum(sizes), len(self._open), due)

    def move(self, user: str, folder: str | os.PathLike[str]) -> str:
        """
        Move a user's file to another folder of files, and return where it is now.

        Raises:
            AlreadyExists: the other folder has a file of that user.
            NotFound: there is no such user.
        """
        target = os.path.join(path_value(folder, "folder"), place_of(user))
        with self._removing(user) as path:
            os.makedirs(os.path.dirname(target), mode=PRIVATE, exist_ok=True)
            with memdb.open(path, **self._options) as db:
                db.file.backup(target)
        return target

    def delete(self, user: str) -> bool:
        """
        Remove a user's file, and so all that is theirs; return whether there was one.

        A scope that is still held raises `Closed`. What disks, backups and replicas keep of the
        bytes is not memdb's to remove.
        """
        try:
            with self._removing(user):
                return True
        except NotFound:
            return False

    def work(self, limit: int | None = None) -> int:
        """
        Do now the work that is due in any file, as `db.jobs.run()` does; return how much it was.

        Raises:
            MemDBError: the first failure; all else was done.
        """
        done, error = self._work(WorkRequest(limit))
        if error is not None:
            raise error
        return done

    def start(self, interval_s: float = 1.0) -> Worker:
        """Do due work in a thread until the folder is closed; return the worker."""
        self._refuse_read_only()
        if self._worker is None or not self._worker.running:
            self._worker = memdb.Worker(
                lambda request: self._work(request)[0], interval_s, self.failures
            )
        return self._worker

    def close(self) -> None:
        """Close every file; calling it again does nothing."""
        if self._worker is not None:
            self._worker.stop(give_up=True)
        with self._change:
            self.is_closed = True
            while self._moving:
                self._change.wait()
            for handle in self._open.values():
                handle.db.close()
            self._open.clear()
            if self._due is not None:
                self._due.close()

    def _take(self, user: str, *, create: bool = True) -> Lease:
        """Return a lease of a user's file; open the file first if it is closed."""
        with self._alone(user):
            handle = self._open.get(user)
            if handle is None:
                handle = self._open_file(user, create=create)
            if self._due is not None and not handle.is_due:
                is_new = self._due.add(user, self._clock() + LOOK_MS)
                handle.is_due, handle.seen = True, handle.host.commits if is_new else NEVER
            lease = Lease(handle)
            handle.asked_s = monotonic()
            with self._change:
                self._open[user] = handle
                self._open.move_to_end(user)
        self._close_oldest()
        return lease

    def _open_file(self, user: str, *, create: bool) -> _Handle:
        path = self._file_of(user)
        if not os.path.exists(path):
            if self.is_read_only or not create:
                raise NotFound("user", user, self.path)
            os.makedirs(os.path.dirname(path), mode=PRIVATE, exist_ok=True)
            HostFile.begin(path, self._options.get("key"))
        handle = _Handle(memdb.open(path, **self._options))
        handle.host.keep_to(user)
        handle.host.share(self._find_shared)
        return handle

    def _find_shared(self) -> MemDB | None:
        """Return the file of what all users share, which stays open; None if there is none."""
        if self._shared is None and os.path.exists(self._file_of(SHARED)):
            self._shared = self._take(SHARED)
        return None if self._shared is None else self._shared.db

    def _close_oldest(self) -> None:
        """Close those of too many open files that nobody uses."""
        victims: dict[str, _Handle] = {}
        with self._change:
            most = len(self._open) - self.max_open
            for user, handle in self._open.items() if most > 0 else ():
                if not handle.pins and user not in self._moving:
                    victims[user] = handle
                if len(victims) == most:
                    break
            for user in victims:
                self._moving.add(user)
                del self._open[user]
        for user, handle in victims.items():
            try:
                self._settle(user, handle)
                handle.db.close()
            finally:
                self._done_with(user)

    def _settle(self, user: str, handle: _Handle) -> None:
        """Name a user no longer as due if nothing was written."""
        if self._due is not None and handle.is_due and handle.host.commits == handle.seen:
            self._due.remove(user)
            handle.is_due = False

    @contextmanager
    def _alone(self, user: str) -> Iterator[None]:
        """Lock a user's file: no other thread opens, closes, moves or removes it meanwhile."""
        with self._change:
            while user in self._moving:
                self._change.wait()
            if self.is_closed:
                raise Closed(f"{self.path} was closed: open it again with memdb.open_folder()")
            self._moving.add(user)
        try:
            yield
        finally:
            self._done_with(user)

    def _done_with(self, user: str) -> None:
        with self._change:
            self._moving.discard(user)
            self._change.notify_all()

    @contextmanager
    def _removing(self, user: str) -> Iterator[str]:
        """Close a user's file, give its path, and remove it at the end unless that failed."""
        self._refuse_read_only()
        assert self._due is not None
        path = self._file_of(user_name(user))
        with self._alone(user):
            if not os.path.exists(path):
                raise NotFound("user", user, self.path)
            handle = self._open.pop(user, None)
            if handle is not None:
                handle.db.close()
            yield path
            for end in BESIDE:
                with suppress(FileNotFoundError):
                    os.remove(path + end)
            folder, name = os.path.split(path)
            shutil.rmtree(os.path.join(folder, f".{name}-litestream"), ignore_errors=True)
            self._due.remove(user)
            self.failures.pop(user, None)

    def _work(self, request: WorkRequest) -> tuple[int, MemDBError | None]:
        """Do what is due, of files in use too if it is early; return how much, and what failed."""
        self._refuse_read_only()
        assert self._due is not None
        total, first = 0, None
        for user in self._due.find(MAX_MS if request.early else self._clock()):
            handle = self._open.get(user)
            is_idle = handle is None or monotonic() - handle.asked_s > IDLE_S
            if not (is_idle or request.early):
                continue
            rest = None if request.limit is None else request.limit - total
            if rest is not None and rest <= 0:
                break
            try:
                total += self._work_on(user, request.replace(limit=rest))
                self.failures.pop(user, None)
            except MemDBError as error:
                first = first or error
                self.failures[user] = Failure(error, self._clock())
                self._due.put(user, self._clock() + LATER_MS)
        return total, first

    def _work_on(self, user: str, request: WorkRequest) -> int:
        """Do what is due in a user's file, and name it no longer if nothing is left."""
        assert self._due is not None
        try:
            lease = self._take(user, create=False)
        except NotFound:
            self._due.remove(user)
            return 0
        with lease as db:
            given = request.limit, request.progress, request.status
            done = db.jobs.run(*given, due=not request.early)
            handle, left = lease.handle, db.jobs.pending()
            seen = handle.host.commits
        with self._alone(user):
            is_changed = handle.host.commits != seen
            if left or is_changed or handle.pins:
                self._due.put(user, self._clock() + (LOOK_MS if is_changed else LATER_MS))
            elif self._open.get(user) in (None, handle):
                self._due.remove(user)
                handle.is_due = False
        return done

    def _refuse_read_only(self) -> None:
        if self.is_read_only:
            raise ReadOnly(
                f'{self.path} was opened with mode="read": open it without, to write to it',
                self.path,
            )

    def _file_of(self, user: str) -> str:
        return os.path.join(self.path, place_of(user) if user else SHARED_FILE)

    def _places(self, start: str) -> Iterator[str]:
        """Yield where the files of users are, in order, from that at *start* on."""
        for one in _folders(self.path, start[:2]):
            for two in _folders(
                os.path.join(self.path, one), start[3:5] if one == start[:2] else ""
            ):
                folder = os.path.join(one, two)
                names = sorted(os.listdir(os.path.join(self.path, folder)))
                yield from (os.path.join(folder, name) for name in names if name.endswith(SUFFIX))

    def __enter__(self) -> Self:
        """Return the open folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every file."""
        self.close()

    def __repr__(self) -> str:
        """Name the folder."""
        return f"<Folder {os.path.basename(self.path)}>"


def _folders(path: str, start: str) -> list[str]:
    found = (one.name for one in os.scandir(path) if HASHED.fullmatch(one.name) and one.is_dir())
    return sorted(name for name in found if name >= start)


def _size_of(path: str) -> int:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return 0


def open_folder(
    path: str | os.PathLike[str],
    *,
    mode: Literal["write", "read"] = "write",
    max_open: int = MAX_OPEN,
    **options: Any,
) -> Folder:
    """
    Open a folder that contains a memdb file for each user; see docs/serve.md.

    Args:
        path: A folder that exists.
        mode: "read": nothing is written, while another process may own the folder.
        max_open: How many files may be open; more are open only while they are used.
        options: Of `memdb.open`, for each file.

    Raises:
        Busy: another process has it open for writing.
        FileError: there is no such folder.
    """
    return Folder(path, mode=mode, max_open=max_open, **options)
