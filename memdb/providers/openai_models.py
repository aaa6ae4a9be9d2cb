"""
Language models behind an OpenAI-compatible server (extra `openai`) for the port `Model`.

OpenAI itself, Ollama, LM Studio, llama.cpp, vLLM and others, through the
official client. What a server refuses (JSON schemas, `max_tokens`) is asked for
in another way, and remembered. No error, `repr`, log or pickle holds a key.
"""

from __future__ import annotations

from typing import NamedTuple

from memdb.models.deadline import seconds
from memdb.providers import openai_wire as wire
from memdb.providers.asking import checked, without_schema
from memdb.providers.openai_server import OpenAIServer, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_MALFORMED = (400, 422)


class _Manner(NamedTuple):
    """How a server wants to be asked."""

    length: str = "max_tokens"
    format: str = "json_schema"


class OpenAIModel(OpenAIServer):
    """
    A model of an OpenAI-compatible server as a `memdb.models.protocols.Model`.

    Thread-safe; connections are kept open for the next call until `close`.
    Pickling leaves all keys out: the copy takes OPENAI_API_KEY from its
    environment, and one whose URL held a key has to be made anew.
    """

    __slots__ = ("_manner",)

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int = 2,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Name the server and the model; nothing is sent yet.

        Args:
            model, base_url, api_key, max_retries: As for `OpenAIServer`.
            options: More fields of each request, such as `{"temperature": 0}`.

        Raises:
            InvalidInput: as `OpenAIServer` does.
        """
        super().__init__(
            model, base_url=base_url, api_key=api_key, max_retries=max_retries, options=options
        )
        self._manner = _Manner()

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

        *timeout_s* bounds the call as a whole: connecting, the client's retries
        and a server that gives its answer in drops. A call that is given up is
        hung up on, so that a local server stops working for it.

        Raises:
            PortError: no answer came. `memdb.models.deadline.Unavailable` where asking
                again may help and the client has not tried so already.
            InvalidInput: *messages* or *timeout_s* is malformed.
        """
        asked = checked(messages)
        limit_s = seconds(timeout_s, "timeout_s")

        def work(call: wire.Call) -> str:
            stream = self._ask(asked, schema, max_tokens, limit_s)
            return wire.read_answer(stream, call, self.name)

        return self._within(work, limit_s, cancelled)

    def _ask(
        self,
        asked: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int | None,
        timeout_s: float,
    ) -> Any:
        """Return the stream of the answer, asked for in a manner that the server takes."""
        import openai

        manner = self._manner
        while True:
            request = _request(manner, asked, schema, max_tokens)
            try:
                stream = self._client.chat.completions.create(
                    model=self._model,
                    stream=True,
                    timeout=timeout_s,
                    extra_body=self._options or None,
                    **request,
                )
            except openai.APIStatusError as error:
                other = _other_manner(manner, error, request)
                if other is None:
                    raise
                manner = other
            else:
                self._manner = manner
                return stream


def _request(
    manner: _Manner,
    asked: list[dict[str, str]],
    schema: Mapping[str, Any] | None,
    max_tokens: int | None,
) -> dict[str, Any]:
    """Return the fields of a request that depend on what the server takes."""
    request: dict[str, Any] = {"messages": asked}
    if max_tokens is not None:
        request[manner.length] = max_tokens
    if schema is None:
        return request
    if manner.format == "json_schema":
        request["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": dict(schema)},
        }
        return request
    # OpenAI's json_object needs the word JSON in the prompt as well.
    request["messages"] = without_schema(asked, schema)
    if manner.format == "json_object":
        request["response_format"] = {"type": "json_object"}
    return request


def _other_manner(manner: _Manner, error: Any, request: dict[str, Any]) -> _Manner | None:
    """
    Return how to ask after *error*, None if it was not about the manner.

    Each of the two points changes once at most, so the asking comes to an end.
    """
    if error.status_code not in _MALFORMED or error.code == "context_length_exceeded":
        return None
    text = said(error)
    if "max_tokens" in request and ("max_completion_tokens" in text or error.param == "max_tokens"):
        return manner._replace(length="max_completion_tokens")
    if manner.format == "json_schema" and "response_format" in request:
        # One that says json_object has it; of the others some refuse that too.
        return manner._replace(format="json_object" if "json_object" in text else "text")
    return None
