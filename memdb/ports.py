"""
What memdb asks of the world: small protocols that a host can implement.

Each has an offline default in `models_local/` or `text/`. A port may be slow
or fail: it is never called inside a write transaction, and what it raises
reaches the caller as `PortError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens as a model would."""

    @property
    def name(self) -> str:
        """Identify the counting; stored beside each count."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens in *text*, 0 for the empty text."""
        ...

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text, in order."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one space."""

    @property
    def name(self) -> str:
        """Identify the model; vectors of different names are never compared."""
        ...

    @property
    def dim(self) -> int:
        """Return the number of components, 1 to 65,536."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[bytes | Sequence[float] | None]:
        """
        Return one vector per text, in order.

        A vector is `(dim,)` numbers or `4 * dim` bytes of little-endian float32,
        finite and not all zero; None for a text in which there is nothing to
        embed.
        """
        ...
