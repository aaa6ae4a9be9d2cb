"""
Language models and embedders of OpenAI-compatible servers (extra `openai`).

OpenAI itself, Ollama, LM Studio, llama.cpp, vLLM and others, through the
official client, which retries and pools connections. A server that refuses
JSON schemas or `max_tokens` is asked in another way, and that is remembered.
No error, `repr` or log contains a key.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
import traceback
import weakref
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

from memdb.errors import InvalidInput, PortError, Unavailable
from memdb.models.model_client import is_transient, port_error, run_within, timeout_value
from memdb.models.vectors import MAX_DIM
from memdb.providers.shared import (
    Client,
    SizedEmbedder,
    check_messages,
    embed_prefixed,
    missing_extra,
    prefixes_of,
    put_schema_in_prompt,
)
from memdb.text.redaction import url_secrets
from memdb.text.secret_rules import HIDDEN
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"

# The client wants a key; servers that need none ignore it.
NO_KEY = "none"

ADVICE = {
    401: "check the API key",
    403: "check what the API key may do",
    404: "check the name of the model and the URL",
    429: "wait, or check the quota",
}

_MALFORMED = (400, 422)

# OpenAI's own models, whose dimension takes no request.
KNOWN_DIMS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

# Texts of one request: OpenAI takes 2,048 and 300,000 tokens, small servers less.
BATCH = 64


class _Call:
    """A call in progress: its deadline, whether it was abandoned, its response."""

    __slots__ = ("deadline", "response", "stopped", "stream")

    def __init__(self, timeout_s: float, stopped: Callable[[], bool]) -> None:
        """Start now."""
        self.deadline = time.monotonic() + timeout_s
        self.stopped = stopped
        self.response: Any = None
        self.stream: Any = None

    def left_s(self) -> float:
        """Return the seconds left, never less than a millisecond."""
        return max(0.001, self.deadline - time.monotonic())


# The call of this thread; `run_within` gives each thread a context of its own.
_CALL: ContextVar[_Call] = ContextVar("memdb_openai_call")


def _before_request(request: Any) -> None:
    """Limit *request* to the time left: the client bounds each attempt, not the whole call."""
    call = _CALL.get(None)
    if call is None:
        return
    if call.stopped():
        from openai import OpenAIError

        raise OpenAIError("given up")
    call.response = None
    phases = ("connect", "read", "write", "pool")
    request.extensions["timeout"] = dict.fromkeys(phases, call.left_s())


def _after_response(response: Any) -> None:
    """Keep *response*; stop the client from waiting until after the deadline."""
    call = _CALL.get(None)
    if call is None:
        return
    call.response = response
    with suppress(ValueError):
        if float(response.headers.get("retry-after", "0")) >= call.left_s():
            # Not a standard header: the client obeys it above its own rules.
            response.headers["x-should-retry"] = "false"


class _Dialect(NamedTuple):
    """Dialect of a server: its name for the length limit, and its answer format."""

    length: str = "max_tokens"
    format: str = "json_schema"


class OpenAIServer(Client):
    """
    A model on an OpenAI-compatible server, and the connection to it.

    Thread-safe; connections stay open for the next call until `close`.
    """

    __slots__ = (
        "__weakref__",
        "_api_key",
        "_base_url",
        "_client",
        "_close",
        "_dialect",
        "_max_retries",
        "_model",
        "_options",
        "name",
    )

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
            model: As the server calls it.
            base_url: Address of the server, with its `/v1`. None means OPENAI_BASE_URL
                from the environment, else OpenAI's.
            api_key: None means OPENAI_API_KEY from the environment. A server of
                your own may need none.
            max_retries: The client's own, for 408, 409, 429, 5xx and
                connections that fail; with backoff, within the time of a call.
            options: More fields of each request, such as `{"temperature": 0}`.

        Raises:
            InvalidInput: the openai package is not installed, *base_url* is not a URL, or the
                server is OpenAI's own and there is no key.
        """
        try:
            import openai
        except ImportError as error:
            raise missing_extra("openai", error) from error
        self._model = model
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self._api_key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        self._max_retries = int_value(max_retries, "max_retries", 0, 100)
        self._options = dict(options or {})
        self._dialect = _Dialect()
        self.name = f"openai:{model}"
        url = _parse_url(self._base_url)
        if not self._api_key and self._base_url == OPENAI_URL:
            raise InvalidInput(
                "OpenAI needs a key: set OPENAI_API_KEY, give api_key, or give base_url of "
                "another server"
            )
        if url.query or "@" in url.netloc:
            _hide_urls_in_logs()
        http = openai.DefaultHttpxClient(
            event_hooks={"request": [_before_request], "response": [_after_response]}
        )
        self._client = openai.OpenAI(
            api_key=self._api_key or NO_KEY,
            base_url=url._replace(query="").geturl(),
            default_query=dict(parse_qsl(url.query, keep_blank_values=True)),
            max_retries=self._max_retries,
            http_client=http,
        )
        self._close = weakref.finalize(self, self._client.close)
        # At exit the sockets go anyway, and a hanging call must not be waited for.
        self._close.atexit = False

    def __repr__(self) -> str:
        """Return the model and the server, without keys."""
        return f"{type(self).__name__}({self._model!r}, base_url={redact_url(self._base_url)!r})"

    def close(self) -> None:
        """Close the connections; doing it twice is not an error."""
        self._close()

    def _within(
        self,
        work: Callable[[_Call], T],
        timeout_s: float,
        cancelled: Callable[[], bool] | None = None,
    ) -> T:
        """
        Return the result of *work* and its requests, within *timeout_s* altogether.

        Raises:
            PortError: the call failed, without cause and keys.
        """
        calls: list[_Call] = []

        def run(stopped: Callable[[], bool]) -> T:
            calls.append(_Call(timeout_s, stopped))
            _CALL.set(calls[0])
            return work(calls[0])

        def abandon() -> None:
            # A server then stops working on an answer that nobody reads.
            with suppress(Exception):
                calls[0].stream.close()

        try:
            return run_within(
                run, name=self.name, timeout_s=timeout_s, cancelled=cancelled, abandon=abandon
            )
        except Exception as error:  # noqa: BLE001 (whatever the client raises)
            failure = self._to_port_error(error, timeout_s, calls)
        # Not inside `except`: errors of the client hold the request and with it the key.
        raise failure

    def _to_port_error(self, error: Exception, timeout_s: float, calls: list[_Call]) -> PortError:
        """Return *error* in memdb's words, without cause and keys."""
        import openai

        transient = is_transient(error)
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, PortError):
            text = str(error).removeprefix(f"{error.name} failed: ")
        elif isinstance(error, openai.APIStatusError):
            advice = ADVICE.get(error.status_code)
            text = f"status {error.status_code}: {_reason(error)}{f' ({advice})' if advice else ''}"
            transient = transient and not self._max_retries
        elif isinstance(error, openai.APITimeoutError):
            text = f"no answer within {timeout_s:.3g} s: give it more time or a shorter text"
            transient = False
        elif any(call.response is not None for call in calls) and (
            isinstance(error, openai.APIConnectionError)
            or type(error).__module__.startswith("httpx")  # some clients let these through
        ):
            text = "the connection broke off in the middle of the answer"
        elif isinstance(error, openai.APIConnectionError):
            why = error.__cause__ or error
            text = f"cannot reach {redact_url(self._base_url)} (is the server running?): {why}"
            transient = transient and not self._max_retries
        elif isinstance(error, openai.APIError):
            text = error.message
        plain = (Unavailable if transient else PortError)(self.name, text)
        failure = port_error(self.name, plain, [self._api_key, *url_secrets(self._base_url)])
        failure.__cause__ = None
        return failure


class OpenAIModel(OpenAIServer):
    """A model of an OpenAI-compatible server as a `memdb.models.protocols.Model`."""

    __slots__ = ()

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

        *timeout_s* bounds the whole call: connecting, the client's retries and
        a server that sends its answer byte by byte. An abandoned call closes
        its stream, so that a local server stops working on it.

        Raises:
            PortError: no answer came. `Unavailable` if a retry may help and
                the client has not made it already.
            InvalidInput: *messages* or *timeout_s* is malformed.
        """
        checked = check_messages(messages)
        limit_s = timeout_value(timeout_s, "timeout_s")

        def work(call: _Call) -> str:
            call.stream = self._open_stream(checked, schema, max_tokens, limit_s)
            if call.stopped():  # abandoned while there was no stream to close
                call.stream.close()
            return _read_answer(call, self.name)

        return self._within(work, limit_s, cancelled)

    def _open_stream(
        self,
        messages: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int | None,
        timeout_s: float,
    ) -> Any:
        """Return the stream of the answer, requested in a dialect that the server takes."""
        import openai

        dialect = self._dialect
        while True:
            request = _request(dialect, messages, schema, max_tokens)
            try:
                stream = self._client.chat.completions.create(
                    model=self._model,
                    stream=True,
                    timeout=timeout_s,
                    extra_body=self._options or None,
                    **request,
                )
            except openai.APIStatusError as error:
                other = _other_dialect(dialect, error, request)
                if other is None:
                    raise
                dialect = other
            else:
                self._dialect = dialect
                return stream


class OpenAIEmbedder(SizedEmbedder, OpenAIServer):
    """
    An embedding model of an OpenAI-compatible server as a `memdb.models.protocols.Embedder`.

    The first 8,000 characters of a text count.
    """

    __slots__ = ("_batch", "_dim", "_dimensions", "_timeout_s")

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
            model, base_url, api_key, max_retries, options: As for `OpenAIServer`.
            dim: Components of a vector, sent as `dimensions`. None means the
                model's own; a model that is not OpenAI's then embeds one word,
                unless the file has vectors of it.
            batch: Most texts of one request, 1 to 2,048.
            timeout_s: For one request with its retries.

        Raises:
            InvalidInput: as `OpenAIServer` does, or an argument is out of range.
        """
        super().__init__(
            model, base_url=base_url, api_key=api_key, max_retries=max_retries, options=options
        )
        self._dimensions = None if dim is None else int_value(dim, "dim", 1, MAX_DIM)
        self._batch = int_value(batch, "batch", 1, 2048)
        self._timeout_s = timeout_value(timeout_s, "timeout_s")
        self._dim = dim or KNOWN_DIMS.get(model)

    def embed(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
        """
        Return one vector per text; see `memdb.models.protocols.Embedder`.

        None for a text of spaces only. Sends one request per batch, in order.

        Raises:
            PortError: no answer came, or one without vectors. `Unavailable` if
                a retry may help.
        """
        before = prefixes_of(self._model)[1]
        vectors: list[Sequence[float] | None] = []
        for start in range(0, len(texts), self._batch):
            some = texts[start : start + self._batch]
            vectors += embed_prefixed(before, some, self._embed_batch)
        return vectors

    def embed_query(self, text: str) -> Sequence[float] | None:
        """
        Return the vector of a question, with the prefix that the model wants.

        Raises:
            PortError: as for `embed`.
        """
        return embed_prefixed(prefixes_of(self._model)[0], [text], self._embed_batch)[0]

    def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        request: dict[str, Any] = {"model": self._model, "input": texts}
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
        try:
            places = {vector.index: list(vector.embedding) for vector in answer.data}
            vectors = [places[place] for place in range(len(answer.data))]
        except (AttributeError, KeyError, TypeError):
            vectors = None
        if vectors is None:  # not inside `except`: the cause may hold a piece of anything
            raise Unavailable(self.name, "it gave something else than embeddings")
        if len(vectors) != len(texts):
            raise PortError(self.name, f"it gave {len(vectors)} vectors for {len(texts)} texts")
        return vectors


def _request(
    dialect: _Dialect,
    messages: list[dict[str, str]],
    schema: Mapping[str, Any] | None,
    max_tokens: int | None,
) -> dict[str, Any]:
    """Return the fields of a request that depend on the dialect."""
    request: dict[str, Any] = {"messages": messages}
    if max_tokens is not None:
        request[dialect.length] = max_tokens
    if schema is None:
        return request
    if dialect.format == "json_schema":
        wanted = {"name": "answer", "schema": dict(schema)}
        request["response_format"] = {"type": "json_schema", "json_schema": wanted}
        return request
    # OpenAI's json_object needs the word JSON in the prompt as well.
    request["messages"] = put_schema_in_prompt(messages, schema)
    if dialect.format == "json_object":
        request["response_format"] = {"type": "json_object"}
    return request


def _other_dialect(dialect: _Dialect, error: Any, request: dict[str, Any]) -> _Dialect | None:
    """
    Return the dialect to try after *error*, None if it has another reason.

    Each of the two fields changes once at most, so the attempts come to an end.
    """
    if error.status_code not in _MALFORMED or error.code == "context_length_exceeded":
        return None
    text = _reason(error)
    if "max_tokens" in request and ("max_completion_tokens" in text or error.param == "max_tokens"):
        return dialect._replace(length="max_completion_tokens")
    if dialect.format == "json_schema" and "response_format" in request:
        # A server that names json_object takes it; some others refuse that too.
        return dialect._replace(format="json_object" if "json_object" in text else "text")
    return None


def _read_answer(call: _Call, name: str) -> str:
    """
    Return the whole text of the call's stream; close it if the call was abandoned.

    Reads the answer of a server that does not stream too: one JSON object.

    Raises:
        PortError: the answer is refused, filtered, empty, cut off or garbled.
    """
    answer: tuple[str, str | None, str] | None = None
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        response = call.stream.response
        is_whole = "json" in response.headers.get("content-type", "")
        answer = _read_whole(response.read()) if is_whole else _read_stream(call)
    if answer is None:
        raise Unavailable(name, "it gave something else than a chat completion")
    fault = _fault(*answer, name)
    if fault is not None and not call.stopped():
        raise fault
    return answer[0]


def _read_stream(call: _Call) -> tuple[str, str | None, str]:
    pieces: list[str] = []
    refused: list[str] = []
    finish: str | None = None
    for chunk in call.stream:
        if call.stopped():
            call.stream.close()
            break
        for choice in chunk.choices or ():
            delta = choice.delta
            if delta is not None:
                pieces.append(delta.content or "")
                refused.append(getattr(delta, "refusal", None) or "")
            finish = choice.finish_reason or finish
    return "".join(pieces), finish, "".join(refused)


def _read_whole(body: bytes) -> tuple[str, str | None, str]:
    answer = json.loads(body)
    if not answer["choices"]:
        return "", None, ""
    choice = answer["choices"][0]
    message = choice["message"]
    content = message.get("content") or ""
    if not isinstance(content, str):
        raise TypeError(type(content).__name__)
    # A whole answer is not cut off, whether or not the server says why it ended.
    return content, choice.get("finish_reason") or "stop", message.get("refusal") or ""


def _fault(text: str, finish: str | None, refusal: str, name: str) -> PortError | None:
    """Return the error for an answer that cannot be used, else None."""
    if refusal:
        return PortError(name, f"it refuses to answer: {' '.join(refusal.split())[:200]}")
    if finish == "content_filter":
        return PortError(name, "its content filter held the answer back")
    if not text and finish == "length":
        return Unavailable(name, "it spent all tokens without an answer: give it more max_tokens")
    if not text and finish != "stop":
        return Unavailable(name, "it gave no answer")
    return Unavailable(name, "its answer was cut off in the middle") if finish is None else None


def _parse_url(base_url: str) -> Any:
    """
    Return the parts of *base_url*.

    Raises:
        InvalidInput: *base_url* is not an http or https URL.
    """
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError:
        url = None
    if url is None or url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidInput("base_url is not a URL: use one like http://localhost:11434/v1")
    return url


def _reason(error: Any) -> str:
    """Return the reason that the server gave in an error, in any of the known forms."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if isinstance(body, dict):
        body = body.get("message") or body.get("error") or body.get("detail") or body
    return str(body or "no reason given")


class _HiddenQuery(logging.Filter):
    """Hides user, password and query values of the URLs that the clients log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; never drop it."""
        record.msg, record.args = redact_urls(record.getMessage()), ()
        if record.exc_info:
            # Older clients log the traceback of the HTTP library, which names the URL.
            lines = traceback.format_exception(*record.exc_info)
            record.exc_info, record.exc_text = None, redact_urls("".join(lines))
        return True


_HIDDEN_QUERY = _HiddenQuery()


def _hide_urls_in_logs() -> None:
    """Keep the secrets of URLs out of the logs of the clients, in this process."""
    for name in ("httpx", "httpx2", "openai._base_client"):
        logging.getLogger(name).addFilter(_HIDDEN_QUERY)


def redact_url(url: str) -> str:
    """
    Return *url* without user, password and the values of its query.

    >>> redact_url("https://ann:pw@host/v1?code=123&region=eu")
    'https://***@host/v1?code=***&region=***'
    """
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    pairs = [pair.partition("=") for pair in parts.query.split("&")] if parts.query else []
    query = "&".join(f"{name}={HIDDEN}" if is_pair else HIDDEN for name, is_pair, _ in pairs)
    return parts._replace(netloc=f"{HIDDEN if userinfo else ''}{at}{host}", query=query).geturl()


def redact_urls(text: str) -> str:
    """
    Return *text* with user, password and all query values of its URLs hidden.

    >>> redact_urls("POST http://ann:pw@host/v1?code=123&region=eu 200")
    'POST http://***@host/v1?code=***&region=*** 200'
    """
    text = re.sub(r"(?<=://)[^\s/?#\"]+(?=@)", HIDDEN, text)
    return re.sub(r"([?&][^=&?\s\"']+=)[^&\s\"']+", rf"\1{HIDDEN}", text)
