"""
What a transaction asked, and what the server answered.

It is run again from this after a loss (ADR-0031). One that only reads sees one snapshot: so it asks
nothing twice, and what it is going to ask may be sent ahead, to be answered with something else
(ADR-0049).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.base import Row
    from memdb.postgres.wire import Answer

# A transaction of more statements is not repeated: it would keep too much in memory.
MAX_REPEATED = 20_000
MAX_REPEATED_BYTES = 64 << 20


class Asked:
    """
    The statements of one transaction.

    Attributes:
        statements: With their values, and their rows if somebody read them.
        is_whole: Whether they are all kept; if not, the transaction cannot be repeated.
    """

    __slots__ = ("_ahead", "_answers", "_bytes", "_reads_only", "is_whole", "statements")

    def __init__(self, *, reads_only: bool) -> None:
        """Begin with none; *reads_only*: in one snapshot."""
        self.statements: list[tuple[str, list[Any], list[Row] | None]] = []
        self.is_whole = True
        self._reads_only = reads_only
        self._bytes = 0
        self._answers: dict[tuple[Any, ...], list[Row]] = {}
        self._ahead: dict[tuple[Any, ...], Answer] = {}

    def add(self, sql: str, bound: list[Any], rows: list[Row] | None) -> None:
        """Keep a statement, and its rows as they are now: callers may change their list."""
        if not self.is_whole:
            return
        kept = None if rows is None else [*rows]
        self.statements.append((sql, bound, kept))
        self._bytes += _bytes_of(bound)
        if kept:
            self._bytes += len(kept) * _bytes_of(kept[0])
        if kept is not None and self._reads_only:
            self._answers[sql, *bound] = kept
        if len(self.statements) > MAX_REPEATED or self._bytes > MAX_REPEATED_BYTES:
            self.give_up()

    def give_up(self) -> None:
        """Keep nothing from here on: it was too much, or cannot be repeated."""
        self.is_whole = False
        self.statements = []
        self.forget()

    def find(self, sql: str, bound: list[Any]) -> list[Row] | None:
        """Return the rows that this snapshot has for a question; None if it was not asked."""
        found = self._answers.get((sql, *bound))
        return None if found is None else [*found]

    def lacks(self, sql: str, bound: list[Any]) -> bool:
        """Return whether a question may be sent ahead, and was neither asked nor sent."""
        key = (sql, *bound)
        may = self._reads_only and self.is_whole
        return may and key not in self._answers and key not in self._ahead

    def put_ahead(self, sql: str, bound: list[Any], answer: Answer) -> None:
        """Note where the answer to a question will be that was sent ahead."""
        self._ahead[sql, *bound] = answer

    def take_ahead(self, sql: str, bound: list[Any]) -> Answer | None:
        """Return where the answer to a question will be; None if it was not sent."""
        return self._ahead.pop((sql, *bound), None) if self._ahead else None

    def forget(self) -> None:
        """Let everything be asked again."""
        self._answers.clear()
        self._ahead.clear()


def _bytes_of(values: Iterable[Any]) -> int:
    """Return about how many bytes the values of a statement or a row take."""
    return 100 + sum(len(one) for one in values if isinstance(one, (str, bytes)))
