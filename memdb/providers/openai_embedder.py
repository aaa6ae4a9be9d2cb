"""
Embedding models behind an OpenAI-compatible server (extra `openai`) for the port `Embedder`.

OpenAI itself, Ollama, LM Studio, llama.cpp, vLLM, text-embeddings-inference and
others, through the official client.
"""

from __future__ import annotations

from memdb.errors import PortError
from memdb.models.deadline import Unavailable, seconds
from memdb.providers.openai_server import OpenAIServer
from memdb.providers.sizing import Size, Sized, filled
from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# OpenAI's own models need not be asked.
KNOWN_DIMS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

# Texts of one request: OpenAI takes 2,048 and 300,000 tokens, small servers less.
BATCH = 64

MAX_DIM = 65_536


class OpenAIEmbedder(Sized, OpenAIServer):
    """
    An embedding model of an OpenAI-compatible server as a `memdb.models.protocols.Embedder`.

    Thread-safe; connections are kept open for the next call until `close`. Of
    a text the first 8,000 characters count. Pickling leaves all keys out.
    """

    __slots__ = ("_batch", "_dimensions", "_size", "_timeout_s")

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dim: int | None = None,
        batch: int = BATCH,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Name the server and the model; nothing is sent yet.

        Args:
            model, base_url, api_key, max_retries: As for `OpenAIServer`.
            dim: Components of a vector, asked for as `dimensions`; None: as the
                model has. A model that is not OpenAI's is then asked once for
                the vector of a word, unless the file has vectors of it.
            batch: Most texts of one request, 1 to 2,048.
            timeout_s: For one request with its retries.
            options: More fields of each request.

        Raises:
            InvalidInput: as `OpenAIServer` does, or an argument is out of range.
        """
        super().__init__(
            model, base_url=base_url, api_key=api_key, max_retries=max_retries, options=options
        )
        self._dimensions = None if dim is None else int_value(dim, "dim", 1, MAX_DIM)
        self._batch = int_value(batch, "batch", 1, 2048)
        self._timeout_s = seconds(timeout_s, "timeout_s")
        self._size = Size(self.name, dim or KNOWN_DIMS.get(model), self.embed)

    def __getstate__(self) -> dict[str, Any]:
        """Return what can be pickled: keys are `***`."""
        return {
            **super().__getstate__(),
            "dim": self._dimensions,
            "batch": self._batch,
            "timeout_s": self._timeout_s,
        }

    def embed(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
        """
        Return one vector per text; see `memdb.models.protocols.Embedder`.

        None for a text without anything but spaces. As many requests as it
        takes, one after the other.

        Raises:
            PortError: no answer came, or another one than vectors.
                `memdb.models.deadline.Unavailable` where asking again may help.
        """
        return filled(texts, self._in_batches)

    def _in_batches(self, said: list[str]) -> list[list[float]]:
        found: list[list[float]] = []
        for start in range(0, len(said), self._batch):
            found += self._asked(said[start : start + self._batch])
        return found

    def _asked(self, said: list[str]) -> list[list[float]]:
        request: dict[str, Any] = {"model": self._model, "input": said}
        if self._dimensions is not None:
            request["dimensions"] = self._dimensions
        # Without it the client asks for base64, which not every server speaks.
        request["encoding_format"] = "float"
        answer = self._within(
            lambda _: self._client.embeddings.create(
                **request, timeout=self._timeout_s, extra_body=self._options or None
            ),
            self._timeout_s,
        )
        vectors = _vectors(answer)
        if vectors is None:
            raise Unavailable(self.name, "it gave something else than embeddings")
        if len(vectors) != len(said):
            raise PortError(self.name, f"it gave {len(vectors)} vectors for {len(said)} texts")
        return vectors


def _vectors(answer: Any) -> list[list[float]] | None:
    """Return the vectors of an answer by their index; None where it is none."""
    try:
        places = {one.index: list(one.embedding) for one in answer.data}
        return [places[place] for place in range(len(answer.data))]
    except (AttributeError, KeyError, TypeError):
        return None
