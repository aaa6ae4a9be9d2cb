"""
Language models and embedders of simonw/llm and its plugins (extra `llm`).

llm has no timeout and its plugins have their own rules, so each call runs in a
thread with a timeout. Nothing is written to llm's databases. No error, `repr`
or copy contains a key.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from memdb.errors import InvalidInput
from memdb.models.model_client import port_error, run_within, timeout_value
from memdb.providers.shared import (
    Client,
    SizedEmbedder,
    check_messages,
    embed_texts,
    missing_extra,
    put_schema_in_prompt,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    T = TypeVar("T")

# Names that plugins give the length limit, in the order in which they are tried.
LENGTH_OPTIONS = (
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "num_predict",
    "max_tokens_to_sample",
)


class _LLMPlugin(Client):
    """A model of a plugin of llm, and its key."""

    __slots__ = ("_key", "_llm_name", "_model", "name")

    name: str
    _model: Any
    _key: str | None

    def _within(
        self,
        work: Callable[[Callable[[], bool]], T],
        timeout_s: float,
        cancelled: Callable[[], bool] | None = None,
    ) -> T:
        """Return the result of *work*; raise its failure without cause and keys."""
        try:
            return run_within(work, name=self.name, timeout_s=timeout_s, cancelled=cancelled)
        except Exception as error:  # noqa: BLE001 (a plugin may raise anything)
            secrets = [self._key]
            with suppress(Exception):  # the model has no key
                secrets.append(self._model.get_key(self._key))
            failure = port_error(self.name, error, secrets)
            failure.__cause__ = failure.__context__ = None
        # Not inside `except`: errors of clients hold the request and with it the key.
        raise failure


class LLMModel(_LLMPlugin):
    """
    A model of the llm package as a `memdb.models.protocols.Model`.

    Thread-safe as far as the plugin is.
    """

    __slots__ = ("_options",)

    def __init__(
        self, name: str, *, options: Mapping[str, Any] | None = None, key: str | None = None
    ) -> None:
        """
        Find the model *name*.

        Args:
            name: Model id or alias, as `llm models` prints them.
            options: Options of that model, such as `{"temperature": 0}`.
            key: API key, or the name of one in llm's keys. None means where llm
                looks for it (`llm keys`, environment variables).

        Raises:
            InvalidInput: llm is not installed, has no such model, or the model
                has no such option.
        """
        self._llm_name = name
        self._options = dict(options or {})
        self._key = key
        self.name = f"llm:{name}"
        self._model = _find_model(name)
        try:
            self._model.Options(**self._options)
        except (TypeError, ValueError) as error:
            known = ", ".join(sorted(self._model.Options.model_fields)) or "none"
            raise InvalidInput(f"options of {self.name} are refused: it knows {known}") from error

    def __repr__(self) -> str:
        """Return the model and the names of its options, no values and no key."""
        return f"LLMModel({self._llm_name!r}, options={sorted(self._options)})"

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
        max_tokens: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """
        Return the answer to *messages* as text; see `memdb.models.protocols.Model`.

        A model without schemas is asked for JSON in the system prompt. An
        option set at construction wins over *max_tokens*; a model without such
        an option answers at its own length.

        Raises:
            PortError: no answer came. `Unavailable` if a retry may help.
            InvalidInput: *messages* or *timeout_s* is malformed.
        """
        checked = check_messages(messages)
        limit_s = timeout_value(timeout_s, "timeout_s")

        def work(stopped: Callable[[], bool]) -> str:
            pieces: list[str] = []
            for piece in self._stream(checked, schema, max_tokens):
                pieces.append(piece)
                if stopped():
                    break
            return "".join(pieces)

        return self._within(work, limit_s, cancelled)

    def _stream(
        self,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int | None,
    ) -> Iterator[str]:
        """Return the pieces of the answer, as they come."""
        if schema is not None and not self._model.supports_schema:
            messages, schema = put_schema_in_prompt(messages, schema), None
        options = self._options
        if max_tokens is not None:
            options = {**self._length_option(max_tokens), **options}
        system, prompt = _prompt(messages)
        response = self._model.conversation().prompt(
            prompt or None,
            system=system or None,
            schema=None if schema is None else dict(schema),
            stream=bool(self._model.can_stream),
            key=self._key,
            options=dict(options),
        )
        return iter(response)

    def _length_option(self, max_tokens: int) -> dict[str, int]:
        """Return the option that limits an answer's length, empty if there is none."""
        known = self._model.Options.model_fields
        return dict.fromkeys([name for name in LENGTH_OPTIONS if name in known][:1], max_tokens)


class LLMEmbedder(_LLMPlugin, SizedEmbedder):
    """
    An embedding model of the llm package as a `memdb.models.protocols.Embedder`.

    Thread-safe as far as the plugin is. The first 8,000 characters of a text
    count.
    """

    __slots__ = ("_dim", "_timeout_s")

    def __init__(
        self, name: str, *, dim: int | None = None, timeout_s: float = 60.0, key: str | None = None
    ) -> None:
        """
        Find the model *name*.

        Args:
            name: Model id or alias, as `llm embed-models` prints them.
            dim: Components of a vector. None means that the model embeds one
                word, unless the file has vectors of it.
            timeout_s: For one call with up to 256 texts.
            key: API key, or the name of one in llm's keys. None means where llm
                looks for it (`llm keys`, environment variables).

        Raises:
            InvalidInput: llm is not installed, or has no such model.
        """
        self._llm_name = name
        self._key = key
        self._timeout_s = timeout_value(timeout_s, "timeout_s")
        self._model = _find_embedding_model(name)
        # An alias and its id are one model.
        self.name = f"llm:{self._model.model_id}"
        self._dim = dim

    def __repr__(self) -> str:
        """Return the model, without key."""
        return f"LLMEmbedder({self._llm_name!r})"

    def embed(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
        """
        Return one vector per text; see `memdb.models.protocols.Embedder`.

        None for a text of spaces only.

        Raises:
            PortError: no answer came. `Unavailable` if a retry may help.
        """
        return embed_texts(texts, self._embed)

    def _embed(self, texts: list[str]) -> list[list[float]]:
        def work(_stopped: Callable[[], bool]) -> list[list[float]]:
            return [list(vector) for vector in self._model.embed_multi(texts, key=self._key)]

        return self._within(work, self._timeout_s)


def _import_llm() -> Any:
    try:
        import llm
    except ImportError as error:
        raise missing_extra("llm", error) from error
    return llm


def _find_model(name: str) -> Any:
    llm = _import_llm()
    try:
        return llm.get_model(name)
    except llm.UnknownModelError as error:
        raise InvalidInput(
            f"llm has no model {name!r}: `llm models` lists them; plugins add more "
            "(`llm install llm-ollama`)"
        ) from error


def _find_embedding_model(name: str) -> Any:
    llm = _import_llm()
    try:
        return llm.get_embedding_model(name)
    except llm.UnknownModelError as error:
        raise InvalidInput(
            f"llm has no embedding model {name!r}: `llm embed-models` lists them; plugins add more "
            "(`llm install llm-sentence-transformers`)"
        ) from error


def _prompt(messages: list[dict[str, str]]) -> tuple[str, str]:
    """Return the system prompt, and all else as one prompt: of several speakers a transcript."""
    system = "\n\n".join(one["content"] for one in messages if one["role"] == "system")
    said = [one for one in messages if one["role"] != "system"]
    if all(one["role"] == "user" for one in said):
        return system, "\n\n".join(one["content"] for one in said)
    return system, "\n\n".join(f"{one['role'].capitalize()}: {one['content']}" for one in said)
