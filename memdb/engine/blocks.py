"""
`with` blocks that use a connection: which threads read or write, and which wait.

`Block` is the base of the blocks of both engines, `Opened` the base of the engines. `WriteLock`
lets one block write at a time.

Each connection costs two descriptors, and each thread inside SQLite competes with the one that
writes. So `MAX_READERS` threads read at a time; the others wait. A nested read of a thread uses the
same connection, so it never waits for another. A slow consumer of an export, which keeps a
connection for long, cannot stop the others. If no connection was returned within `PATIENCE_S`, the
next thread gets an additional one.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from threading import Lock, RLock, get_ident
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import ref

from memdb.errors import InvalidInput, ReadOnly, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    Tx = Any  # a connection of either engine

    Exits = dict[int, ref[Callable[..., None]]]

    class Pool(Protocol):
        """Calls of a block to the `ConnectionPool` whose connection it uses."""

        def end_abandoned(self, _exit: object = None) -> None:
            """Close the connections of blocks that ended without their exit."""

        def discard(self, tx: Tx) -> None:
            """Roll back the open transaction of a connection."""


# The client that a call is made for, where one open file serves several.
CLIENT: ContextVar[str | None] = ContextVar("client", default=None)

# Longest pause until a waiting writer looks again whether the block that it waits for is over.
ABANDONED_S = 0.05

# Connections that read at a time, and that are kept for the next reads.
MAX_READERS = 6

# Longest time without one that is given back, in seconds.
PATIENCE_S = 0.25


class BlockExit:
    """
    The `__exit__` of a block: a callable to which only the `with` statement refers.

    The callable it is freed with the statement, even if a signal handler raised before its first
    bytecode. A traceback may keep the block, but never this callable (ADR-0072).
    """

    def __get__(self, block: Any, kind: type | None = None) -> Callable[..., None]:
        """Return the exit of *block*; on the class, a function for contextlib.ExitStack."""
        if block is None:
            return _leave
        leave: Callable[..., None] = partial(block._leave)
        block._exit = ref(leave, block._pool.end_abandoned)
        return leave


class ExitByThread(BlockExit):
    """The `__exit__` of a block that several threads may try to enter: each thread has its own."""

    def __get__(self, block: Any, kind: type | None = None) -> Callable[..., None]:
        """Return the exit of *block* for this thread."""
        if block is None:
            return _leave
        leave: Callable[..., None] = partial(block._leave)
        block._exits[get_ident()] = ref(leave, block._pool.end_abandoned)
        return leave


def _leave(block: Any, *error: Any) -> None:
    block._leave(*error)


class Block:
    """
    A `with` block that uses a connection.

    Attributes:
        tx: The connection that it returns at the end; None if an outer block owns the connection.
        thread: The thread that entered it.
        depth: Open levels of `with db.write()`, in the outermost block.
        undone: How often the block, or a savepoint in it, was rolled back.
        whole: Whether the write has no savepoints.
    """

    __slots__ = ("_exit", "_pool", "depth", "thread", "tx", "undone", "whole")

    def __init__(self, pool: Pool) -> None:
        """Use connections of *pool*."""
        self._pool = pool
        self._exit: ref[Callable[..., None]] | None = None
        self.tx: Tx | None = None
        self.thread = 0
        self.depth = 0
        self.undone = 0
        self.whole = False

    __exit__ = BlockExit()

    def enter_with(self, leave: ref[Callable[..., None]] | None) -> None:
        """Enter the block for a `with` statement whose exit is *leave*, if that is alive."""
        if leave is not None and leave() is not None:
            self._exit = leave
        self.__enter__()

    def __enter__(self) -> Any:
        """Begin the block."""
        raise NotImplementedError

    def _leave(self, *_: Any) -> None:
        """End the block."""
        raise NotImplementedError

    def is_abandoned(self) -> bool:
        """Return whether the `with` statement is over although its exit did not finish."""
        return self._exit is not None and self._exit() is None


def _is_undone(owner: Block, undone: int) -> bool:
    return owner.undone != undone or owner.is_abandoned()


class Opened:
    """
    Base of both engines: what they share about the blocks of an open database.

    Attributes:
        path: Place where it is, for error messages.
        is_read_only: Whether every write is refused.
        only_user: Whose scopes it may hold; None means anybody's.
        opened_by: The program or adapter that opened it; None means that nobody said.
    """

    path: str
    is_read_only: bool
    only_user: str | None = None
    opened_by: str | None = None

    @property
    def written_by(self) -> str | None:
        """The writer of rows: the client of this call, else who opened it; None if unknown."""
        return CLIENT.get() or self.opened_by

    def find_writer(self) -> Block | None:
        """Return the outermost block in which this thread writes, None if there is none."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        """Refuse pickling and copying, of every handle of the file."""
        raise TypeError(
            "an open memdb file cannot be pickled or copied: pass its path and open that"
        )

    def refuse_read_only(self) -> None:
        """Raise ReadOnly if it was opened with mode="read"."""
        if self.is_read_only:
            raise ReadOnly(
                f'{self.path} was opened with mode="read": open it without mode to write to it',
                self.path,
            )

    def keep_to(self, user: str) -> None:
        """Refuse from now on the scopes of others than *user*."""
        self.only_user = user

    def refuse_user(self, user: str) -> None:
        """Raise Unsupported if the scopes of *user* belong into another file."""
        if self.only_user not in (None, user):
            whose = f"the user {user!r}" if user else "all users"
            call = f"user({user!r})" if user else "shared()"
            raise Unsupported(
                f"{self.path} contains only the memory of {self.only_user!r}, but this belongs to "
                f"{whose}: write it with the folder's {call}"
            )

    def refuse_inside(self, call: str) -> None:
        """
        Raise InvalidInput if this thread is inside `with db.write()`.

        For calls that cannot be rolled back with the block, or that would not see its writes. Also
        for calls that wait for a model, or for a thread that may need the lock.
        """
        if self.writing:
            raise InvalidInput(
                f"{call} was called inside a transaction: call it after the transaction"
            )

    @property
    def writing(self) -> bool:
        """Whether this thread is inside `with db.write()`."""
        return self.find_writer() is not None

    def watch_undo(self) -> Callable[[], bool] | None:
        """
        Return a function that returns whether open writes of this thread were rolled back since.

        Open writes is all of its writes, or those of a savepoint. None outside a transaction.
        """
        owner = self.find_writer()
        return None if owner is None else partial(_is_undone, owner, owner.undone)

    def __enter__(self) -> Self:
        """Return the engine itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()


class WriteLock:
    """
    Lets one block write at a time.

    Whether the lock is taken is decided by its owner: a block that is alive. The inner lock only
    wakes waiting threads. So an exception between any two bytecodes cannot leave it locked.
    """

    __slots__ = ("_change", "_wake", "owner")

    def __init__(self) -> None:
        """Start without an owner."""
        self.owner: Block | None = None
        self._change = RLock()  # `with` on it cannot be interrupted before its body
        self._wake = Lock()

    def owned(self) -> Block | None:
        """Return the block of this thread that owns the lock, None if there is none."""
        owner = self.owner
        if owner is None or owner.thread != get_ident() or owner.is_abandoned():
            return None
        return owner

    def acquire(self, block: Block) -> None:
        """Wait until no other block owns the lock, then let *block* own it."""
        block.thread = get_ident()
        self._wake.acquire(blocking=False)
        with self._change:
            if self.owner is None:
                self.owner = block
                return
        while not self._take(block):
            self._wake.acquire(timeout=ABANDONED_S)

    def try_acquire(self, block: Block) -> bool:
        """Pass the lock to *block* unless another owns it; return whether it owns it now."""
        block.thread = get_ident()
        return self._take(block)

    def _take(self, block: Block) -> bool:
        with self._change:
            if self.owner is not None:
                self.end_abandoned()
            if self.owner is not None:
                return False
            self.owner = block
            return True

    def release(self, block: Block) -> None:
        """Release the lock for other blocks, if *block* owns it."""
        with self._change:
            if self.owner is block:
                self.owner = None
                if self._wake.locked():
                    self._wake.release()

    def end_abandoned(self) -> None:
        """Roll back the writes of an abandoned owner, and release the lock."""
        with self._change:
            owner = self.owner
            if owner is not None and owner.is_abandoned():
                if owner.tx is not None:
                    owner._pool.discard(owner.tx)
                self.release(owner)


class SingleUse:
    """A block that one `with` statement enters; each thread that tries has an exit of its own."""

    __slots__ = ("_block", "_exits", "_is_open", "_pool", "_unused")

    def __init__(self, block: Any) -> None:
        """Enter *block* once."""
        self._block = block
        self._pool = block._pool
        self._exits: Exits = {}
        self._unused = [True]
        self._is_open = False

    def __enter__(self) -> None:
        """
        Enter the block.

        Raises:
            InvalidInput: the block was entered before.
        """
        try:
            self._unused.pop()  # by one thread only
        except IndexError:
            raise InvalidInput(
                "this transaction was already used: call transaction() again for each `with`"
            ) from None  # an empty list says nothing more
        self._block.enter_with(self._exits.get(get_ident()))
        self._is_open = True

    __exit__ = ExitByThread()

    def _leave(self, *error: Any) -> None:
        if not self._is_open:
            raise InvalidInput("this transaction is not open: enter it with `with`")
        self._is_open = False
        self._block._leave(*error)


class Readers:
    """
    Connections for reading: a block borrows one and returns it.

    Attributes:
        idle: The connections that no block uses.
        using: The outermost reading block of each thread.
    """

    __slots__ = ("_change", "_served", "_wake", "idle", "using")

    def __init__(self) -> None:
        """Start without connections."""
        self.idle: list[Tx] = []
        self.using: dict[int, Any] = {}
        self._change = RLock()  # `with` on it cannot be interrupted before its body
        self._wake = Lock()
        self._served = 0  # how often one was given back

    def take(self, block: Any, open_one: Callable[[], Tx]) -> Tx:
        """
        Return a connection that no other block uses; wait if all are in use. Cost: 0.7 µs.

        Args:
            block: The `Block` that uses it, with its thread.
        """
        served = -1
        while not self._join(block, is_patient=served != self._served):
            served = self._served
            self._wake.acquire(timeout=PATIENCE_S)
        try:
            return self.idle.pop()
        except IndexError:
            return open_one()

    def _join(self, block: Any, *, is_patient: bool) -> bool:
        """Register *block* as a reader; return False if there are too many and it can wait."""
        with self._change:
            if is_patient and not self.idle and len(self.using) >= MAX_READERS:
                self._wake.acquire(blocking=False)  # so that waiting is for the next that ends
                return False
            self.using[block.thread] = block
            return True

    def give_back(self, reader: Tx | None) -> bool:
        """Take a connection back, None for a closed one; return False if there are too many."""
        with self._change:
            self._served += 1
            is_kept = len(self.idle) < MAX_READERS
            if is_kept and reader is not None:
                self.idle.append(reader)
            if self._wake.locked():
                self._wake.release()
            return is_kept or reader is None
