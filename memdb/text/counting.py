"""
Counting tokens through the port, with its contract checked.

The default counter is exact and loads at the first count, not before.
"""

from __future__ import annotations

from memdb.errors import PortError
from memdb.models.ids import MAX_INT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.models.protocols import TokenCounter

# Loads twice as fast as o200k_base, and rarely counts less than it does, so a
# budget kept with it holds for the newer models too.
DEFAULT_COUNTER = "cl100k_base"


class Counting:
    """The token counter of an open file."""

    def __init__(self, counter: TokenCounter | str | None = None) -> None:
        """
        Count by *counter*: a port, a built-in name, or None for the default.

        Raises:
            InvalidInput: there is no built-in counter of that name.
        """
        self._counter = _by_name(counter) if isinstance(counter, str) else counter

    @property
    def name(self) -> str:
        """The counter's name, stored beside each count."""
        return DEFAULT_COUNTER if self._counter is None else self._counter.name

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """
        Return the tokens of each text.

        Raises:
            PortError: the counter failed, or gave something else than one
                number from 0 per text.
        """
        try:
            counts = list(self._loaded().count_many(texts))
        except Exception as error:
            raise PortError(f"counter {self.name!r}", str(error)) from error
        if len(counts) != len(texts) or not all(
            isinstance(count, int) and 0 <= count <= MAX_INT for count in counts
        ):
            raise PortError(f"counter {self.name!r}", "it must give one int from 0 per text")
        return counts

    def _loaded(self) -> TokenCounter:
        if self._counter is None:
            self._counter = _by_name(DEFAULT_COUNTER)
        return self._counter


def _by_name(name: str) -> TokenCounter:
    from memdb.text.tokens import counter_by_name  # only for counting

    return counter_by_name(name)
