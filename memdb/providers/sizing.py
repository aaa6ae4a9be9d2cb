"""
What the adapters of embedding models share: how large the vectors of a model are.
"""

from __future__ import annotations

from memdb.errors import PortError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A text that every embedder takes, to see how long a vector is.
PROBE = "memory"

# Two to four pages; what comes after is not embedded. Models take 256 to 8,192
# tokens, and servers refuse a longer text rather than cut it.
MAX_CHARS = 8_000


class Size:
    """The dimension of a model, which it is asked for once where nobody said it."""

    __slots__ = ("_dim", "_embed", "_name")

    def __init__(
        self,
        name: str,
        dim: int | None,
        embed: Callable[[Sequence[str]], Sequence[Sequence[float] | None]],
    ) -> None:
        """Hold *dim* of the model *name*; None: find out by *embed*."""
        self._name = name
        self._dim = dim
        self._embed = embed

    def expect(self, dim: int) -> None:
        """Take *dim* where it is not known: a file with the model's vectors tells it offline."""
        if self._dim is None:
            self._dim = dim

    def get(self) -> int:
        """
        Return the dimension.

        Raises:
            PortError: the model cannot be asked.
        """
        if self._dim is None:
            (vector,) = self._embed([PROBE])
            if vector is None:
                raise PortError(self._name, "it gave no vector for a plain word")
            self._dim = len(vector)
        return self._dim


class Sized:
    """The part of an embedder that tells its dimension, by `_size`."""

    __slots__ = ()

    if TYPE_CHECKING:
        _size: Size

    @property
    def dim(self) -> int:
        """
        The number of components; the model is asked once where it is not known.

        Raises:
            PortError: it gave no answer.
        """
        return self._size.get()

    def expect(self, dim: int) -> None:
        """Take *dim* for the number of components where it is not known."""
        self._size.expect(dim)


def filled(
    texts: Sequence[str], embed: Callable[[list[str]], Sequence[Sequence[float]]]
) -> list[Sequence[float] | None]:
    """Return *embed* of the beginning of each text, None in the place of those of spaces only."""
    said = [text[:MAX_CHARS] for text in texts if text.strip()]
    vectors = iter(embed(said) if said else [])
    return [next(vectors) if text.strip() else None for text in texts]
