"""
Facts that a connection knows about the database, so that an append needs no queries (`Tx.known`).

Another process may change the database at any time, without notice. So before the commit the server
compares each fact that the transaction used, in the same round trip. If one is outdated, the
transaction is refused and may be tried again.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import KnownKey, Values

# How long a fact is used without asking, in seconds: the time in which the rare caller that
# meets a session another process has just removed gets Busy.
LASTS_S = 2.0

# Facts that a connection keeps: 2 MB.
MAX_FACTS = 10_000

# How often in a row the next seq must be right before it is guessed; after each failure, so many
# times more often.
MIN_STREAK = 2
MORE = 8
MAX_STREAK = 1_000

COMPARE_SESSION = """/* facts.session */
SELECT 1 / count(*) FROM sessions WHERE id = :id
"""

COMPARE_SPACE = """/* facts.space */
SELECT 1 / count(*) FROM embedding_spaces
WHERE model = :model AND dim = :dim AND retired_ms IS NULL
"""

# Kinds of facts that outlive their transaction.
LASTING = ("session", "space")

# The kind that no change makes untrue: a scope keeps its number.
SCOPE = "scope"


class Guesses:
    """
    Guesses of a session's next seq, so that an append waits for the server only at its commit.

    Another connection may have used the seq. Then the statement that takes the seq fails, and the
    call is run again and waits for it. A connection guesses only after its last guesses were right.
    If several processes write to a session, it waits.
    """

    __slots__ = ("_kept", "_needed", "_own")

    def __init__(self) -> None:
        """Begin without facts."""
        self._kept: dict[int, tuple[int, int]] = {}  # the last seq, and how often it was right
        self._own: dict[int, tuple[int, int]] = {}  # the first and last seq of this transaction
        self._needed: dict[int, int] = {}  # how often it must be right, after a failure

    def begin(self) -> None:
        """Begin a transaction."""
        self._own.clear()
        for known in (self._kept, self._needed):
            if len(known) > MAX_FACTS:
                known.clear()

    def last_after(self, values: Values, *, may_fail: bool) -> int | None:
        """
        Return the last of the next seqs that a statement takes; None if the server must be asked.

        The seqs of this transaction are certain, because it has locked the row.
        """
        session, count = values["id"], values["count"]
        own = self._own.get(session)
        if own is None:
            last, streak = self._kept.get(session, (0, 0))
            if not may_fail or count != 1 or streak < self._needed.get(session, MIN_STREAK):
                return None
        else:
            last = own[1]
        return last + count if last + count <= values["seq_mask"] else None

    def note(self, session: int, last: int, count: int) -> None:
        """Note that this transaction takes *count* seqs up to *last*."""
        first, _ = self._own.get(session, (last - count + 1, 0))
        self._own[session] = first, last

    def keep(self) -> None:
        """Note that the transaction was committed."""
        for session, (first, last) in self._own.items():
            before, streak = self._kept.get(session, (0, 0))
            self._kept[session] = last, streak + 1 if before == first - 1 else 0

    def forget(self) -> None:
        """Forget all guesses, because writes were rolled back or assigned seqs in another way."""
        self._kept.clear()
        self._own.clear()

    def fail(self) -> None:
        """Note that a guess of this transaction was wrong."""
        for session in self._own:
            needed = self._needed.get(session, MIN_STREAK)
            self._needed[session] = min(needed * MORE, MAX_STREAK)


class Facts(dict["KnownKey", int]):
    """
    Facts by query; records which facts of earlier transactions were used.

    Attributes:
        guesses: Guesses of the next seqs.
        changed: Number of statements of the connection that changed rows so far.
    """

    __slots__ = (
        "_at",
        "_passing",
        "_proven",
        "_scopes",
        "_since",
        "_used",
        "_version",
        "changed",
        "guesses",
    )

    def __init__(self) -> None:
        """Begin without facts."""
        self.guesses = Guesses()
        self.changed = 0
        self._at = 0  # `changed` when they held
        self._since = 0.0
        self._used: set[KnownKey] = set()
        self._passing: set[KnownKey] = set()  # those that end with their transaction
        self._proven: set[int] = set()
        self._scopes: dict[KnownKey, int] = {}
        self._version = 0

    def begin(self, version: int) -> None:
        """Begin a transaction; *version* changes when this process makes facts outdated."""
        self._used.clear()
        self._proven.clear()
        self.guesses.begin()
        now = monotonic()
        is_old = now - self._since > LASTS_S or version != self._version
        if is_old or len(self) + len(self._scopes) > MAX_FACTS:
            self.clear()
            self._since = now
            self._version = version
        for fact in self._passing:
            super().pop(fact, None)
        self._passing.clear()
        self.current()

    def current(self) -> Facts:
        """Return the facts; only those of scopes if rows were changed since `keep`."""
        if self._at != self.changed:
            super().clear()
            self._at = self.changed
        return self

    def keep(self) -> None:
        """Keep the facts, because the changes since then make none of them outdated."""
        self._at = self.changed

    def clear(self) -> None:
        """Forget all facts, because writes were rolled back."""
        super().clear()
        self._proven.clear()
        self._scopes.clear()
        self.guesses.forget()

    def __setitem__(self, fact: KnownKey, answer: int) -> None:
        """Store the answer to a query."""
        if fact[0] == SCOPE:
            self._scopes[fact] = answer
            return
        if fact[0] not in LASTING:
            self._passing.add(fact)
        super().__setitem__(fact, answer)

    def get(self, fact: KnownKey, default: Any = None) -> Any:
        """Return the answer to a query, *default* if it is unknown."""
        if fact in self:
            return (self._scopes if fact[0] == SCOPE else self)[fact]
        return default

    def __contains__(self, fact: object) -> bool:
        """Return whether the answer to a query is known; if so, it is compared at the commit."""
        if super().__contains__(fact):
            self._used.add(fact)  # type: ignore[arg-type] # it is a key
            return True
        return fact in self._scopes

    def prove_session(self, session: int) -> None:
        """Note that the session is there, and its row locked: nobody removes it before the end."""
        self._proven.add(session)

    def space(self) -> tuple[str | None, int | None]:
        """Return model and dimension of a space that was used; None and None if there is none."""
        for fact in self._used:
            if fact[0] == "space":
                return str(fact[1]), int(fact[2])
        return None, None

    def comparisons(
        self, *, but: tuple[str | None, int | None] = (None, None)
    ) -> Iterator[tuple[str, Values]]:
        """Yield a statement for each fact that was used, which fails if it holds no more."""
        for fact in self._used:
            if fact[0] == "session" and dict.__contains__(self, fact):
                if self[fact] not in self._proven:
                    yield COMPARE_SESSION, {"id": self[fact]}
            elif fact[0] == "space" and fact[1:] != but:
                yield COMPARE_SPACE, {"model": fact[1], "dim": fact[2]}
