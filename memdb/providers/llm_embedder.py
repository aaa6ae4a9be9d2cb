"""
Embedding models of simonw/llm and its plugins (extra `llm`) for the port `Embedder`.

llm has no timeout of its own and its plugins do what they like, so a call runs
in a thread that is given up in time. Nothing is written to llm's databases.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.deadline import port_error, run_within, seconds
from memdb.providers.asking import llm_secrets, missing
from memdb.providers.sizing import Size, Sized, filled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class LLMEmbedder(Sized):
    """
    An embedding model of the llm package as a `memdb.models.protocols.Embedder`.

    Thread-safe as far as the plugin is. Of a text the first 8,000 characters
    count. Pickling leaves the key out: the copy takes it from where llm keeps
    its keys.
    """

    __slots__ = ("_key", "_llm_name", "_model", "_size", "_timeout_s", "name")

    def __init__(
        self,
        name: str,
        *,
        dim: int | None = None,
        timeout_s: float = 60.0,
        key: str | None = None,
    ) -> None:
        """
        Find the model *name*.

        Args:
            name: Model id or alias, as `llm embed-models` prints them.
            dim: Components of a vector; None: it is asked once for the vector
                of a word, unless the file has vectors of it.
            timeout_s: For one call with up to 256 texts.
            key: API key, or the name of one in llm's keys; None: where llm
                looks for it (`llm keys`, environment variables).

        Raises:
            InvalidInput: llm is not installed, or knows no such model.
        """
        self._llm_name = name
        self._key = key
        self._timeout_s = seconds(timeout_s, "timeout_s")
        self._model = _found(name)
        # An alias and the id it stands for are one model.
        self.name = f"llm:{self._model.model_id}"
        self._size = Size(self.name, dim, self.embed)

    def __repr__(self) -> str:
        """Name the model, without key."""
        return f"LLMEmbedder({self._llm_name!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what can be pickled: everything but the key."""
        return {"name": self._llm_name, "timeout_s": self._timeout_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Find the model again, in the process that unpickles."""
        self.__init__(**state)  # type: ignore[misc]  # the way back in

    def embed(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
        """
        Return one vector per text; see `memdb.models.protocols.Embedder`.

        None for a text without anything but spaces.

        Raises:
            PortError: no answer came. `memdb.models.deadline.Unavailable` where asking
                again may help.
        """
        return filled(texts, self._asked)

    def _asked(self, said: list[str]) -> list[list[float]]:
        def work(_stopped: Callable[[], bool]) -> list[list[float]]:
            return [list(vector) for vector in self._model.embed_multi(said, key=self._key)]

        try:
            return run_within(work, name=self.name, timeout_s=self._timeout_s)
        except Exception as error:  # noqa: BLE001 (a plugin may raise anything)
            failure = port_error(self.name, error, llm_secrets(self._model, self._key))
            failure.__cause__ = failure.__context__ = None
        # Not inside `except`: errors of clients hold the request and with it the key.
        raise failure


def _found(name: str) -> Any:
    try:
        import llm
    except ImportError as error:
        raise missing("llm", error) from error
    try:
        return llm.get_embedding_model(name)
    except llm.UnknownModelError as error:
        raise InvalidInput(
            f"llm has no embedding model {name!r}: `llm embed-models` lists them; plugins add more "
            "(`llm install llm-sentence-transformers`)"
        ) from error
