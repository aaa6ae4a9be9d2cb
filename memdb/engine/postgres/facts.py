"""
What a connection knows of the database, so that an append asks for nothing (`Tx.facts`).

Another process may change it at any time, and nobody tells. So a transaction that used a fact
lets the server compare it before the commit, in the same round trip: if it holds no more, the
transaction is refused and may be tried again.
"""

from __future__ import annotations

from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Fact, Values

# How long a fact is used without asking, in seconds: the time in which the rare caller that
# meets a session another process has just removed gets Busy.
LASTS_S = 2.0

# Facts that a connection keeps: 2 MB.
MAX_FACTS = 10_000

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


class Facts(dict["Fact", int]):
    """
    Facts by question; notes which of those of earlier transactions were used.

    Attributes:
        changed: Statements of the connection that changed rows, so far.
    """

    __slots__ = ("_at", "_passing", "_scopes", "_since", "_used", "_version", "changed")

    def __init__(self) -> None:
        """Know nothing."""
        self.changed = 0
        self._at = 0  # `changed` when they held
        self._since = 0.0
        self._used: set[Fact] = set()
        self._passing: set[Fact] = set()  # those that end with their transaction
        self._scopes: dict[Fact, int] = {}
        self._version = 0

    def begin(self, version: int) -> None:
        """Begin a transaction; *version* changes when this process makes facts untrue."""
        self._used.clear()
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
        """Return itself, with scopes alone if rows were changed since `keep`."""
        if self._at != self.changed:
            super().clear()
            self._at = self.changed
        return self

    def keep(self) -> None:
        """Let the facts stay: what was changed since makes none of them untrue."""
        self._at = self.changed

    def clear(self) -> None:
        """Know nothing any more: something was undone."""
        super().clear()
        self._scopes.clear()

    def __setitem__(self, fact: Fact, answer: int) -> None:
        """Note the answer to a question."""
        if fact[0] == SCOPE:
            self._scopes[fact] = answer
            return
        if fact[0] not in LASTING:
            self._passing.add(fact)
        super().__setitem__(fact, answer)

    def get(self, fact: Fact, default: Any = None) -> Any:
        """Return the answer to a question, *default* if it is not known."""
        if fact in self:
            return (self._scopes if fact[0] == SCOPE else self)[fact]
        return default

    def __contains__(self, fact: object) -> bool:
        """Return whether the answer to a question is known; then it is compared later."""
        if super().__contains__(fact):
            self._used.add(fact)  # type: ignore[arg-type] # it is a key
            return True
        return fact in self._scopes

    def comparisons(self) -> Iterator[tuple[str, Values]]:
        """Yield a statement for each fact that was used, which fails if it holds no more."""
        for fact in self._used:
            if fact[0] == "session" and dict.__contains__(self, fact):
                yield COMPARE_SESSION, {"id": self[fact]}
            elif fact[0] == "space":
                yield COMPARE_SPACE, {"model": fact[1], "dim": fact[2]}
