"""
A server of OpenAI's protocol, through the official client (extra `openai`).

What its language models and embedders share: URL and key, time and retries, and
failures in our words. No error, `repr`, log or pickle holds a key.
"""

from __future__ import annotations

import os
import weakref
from urllib.parse import parse_qsl, urlsplit

from memdb.errors import InvalidInput, PortError
from memdb.models.deadline import Unavailable, may_pass, port_error, run_within
from memdb.providers import openai_wire as wire
from memdb.providers.asking import missing
from memdb.text.redact import HIDDEN, redact_url, url_secrets
from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

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


class OpenAIServer:
    """
    A model on an OpenAI-compatible server, and the connection to it.

    Thread-safe; connections are kept open for the next call until `close`.
    Pickling leaves all keys out: the copy takes OPENAI_API_KEY from its
    environment, and one whose URL held a key has to be made anew.
    """

    __slots__ = (
        "__weakref__",
        "_api_key",
        "_base_url",
        "_client",
        "_close",
        "_key_given",
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
            base_url: Of the server, with its `/v1`; None: OPENAI_BASE_URL from
                the environment, else OpenAI's.
            api_key: None: OPENAI_API_KEY from the environment. A server of your
                own may need none.
            max_retries: The client's own, for 408, 409, 429, 5xx and
                connections that fail; with backoff, within the time of a call.
            options: More fields of each request, such as `{"temperature": 0}`.

        Raises:
            InvalidInput: the openai package is not installed, *base_url* is no
                URL, or OpenAI's own server is meant and there is no key.
        """
        try:
            import openai
        except ImportError as error:
            raise missing("openai", error) from error
        self._model = model
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self._api_key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        self._key_given = bool(api_key)
        self._max_retries = int_value(max_retries, "max_retries", 0, 100)
        self._options = dict(options or {})
        self.name = f"openai:{model}"
        url = _parsed(self._base_url)
        if not self._api_key and self._base_url == OPENAI_URL:
            raise InvalidInput(
                "OpenAI needs a key: set OPENAI_API_KEY, give api_key, or name another server "
                "with base_url"
            )
        if url.query or "@" in url.netloc:
            wire.hide_urls_in_logs()
        http = openai.DefaultHttpxClient(
            event_hooks={"request": [wire.before_request], "response": [wire.after_response]}
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
        """Name the model and the server, without keys."""
        return f"{type(self).__name__}({self._model!r}, base_url={redact_url(self._base_url)!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what can be pickled: keys are `***`."""
        return {
            "model": self._model,
            "base_url": redact_url(self._base_url),
            "api_key": HIDDEN if self._key_given else None,
            "max_retries": self._max_retries,
            "options": self._options,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """
        Connect anew, with the key of this process's environment.

        Raises:
            InvalidInput: the key was given by the program, or in the URL, and
                the environment has none.
        """
        given = state.pop("api_key") == HIDDEN and not os.environ.get("OPENAI_API_KEY")
        if given or HIDDEN in state["base_url"]:
            raise InvalidInput(
                f"openai:{state['model']} was pickled without its key: make it anew here"
            )
        self.__init__(**state)  # type: ignore[misc]  # the way back in

    def close(self) -> None:
        """Close the connections; doing it twice is no error."""
        self._close()

    def _within(
        self,
        work: Callable[[wire.Call], T],
        timeout_s: float,
        cancelled: Callable[[], bool] | None = None,
    ) -> T:
        """
        Return what *work* returns, with its requests, within *timeout_s* altogether.

        A call that is given up is hung up on, so that a local server stops
        working for it.

        Raises:
            PortError: it failed, without cause and keys.
        """
        call = wire.Call(timeout_s)

        def run(stopped: Callable[[], bool]) -> T:
            call.stopped = stopped
            wire.CURRENT.set(call)
            try:
                return work(call)
            finally:
                call.finished = True

        try:
            return run_within(
                run,
                name=self.name,
                timeout_s=timeout_s,
                cancelled=cancelled,
                hang_up=call.hang_up,
            )
        except Exception as error:  # noqa: BLE001 (whatever the client raises)
            failure = self._failure(error, call, timeout_s)
        # Not inside `except`: errors of the client hold the request and with it the key.
        raise failure

    def _failure(self, error: Exception, call: wire.Call, timeout_s: float) -> PortError:
        """Return *error* in our words, without cause and keys."""
        import openai

        passing = may_pass(error)
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, PortError):
            text = str(error).removeprefix(f"{error.name} failed: ")
        elif isinstance(error, openai.APIStatusError):
            advice = ADVICE.get(error.status_code)
            text = f"status {error.status_code}: {said(error)}{f' ({advice})' if advice else ''}"
            passing = passing and not self._max_retries
        elif isinstance(error, openai.APITimeoutError):
            text = f"no answer within {timeout_s:.3g} s: give it more time or a shorter text"
            passing = False
        elif call.response is not None and _is_connection(error):
            text = "the connection broke off in the middle of the answer"
        elif isinstance(error, openai.APIConnectionError):
            why = error.__cause__ or error
            text = f"cannot reach {redact_url(self._base_url)} (is the server running?): {why}"
            passing = passing and not self._max_retries
        elif isinstance(error, openai.APIError):
            text = error.message
        plain = (Unavailable if passing else PortError)(self.name, text)
        failure = port_error(self.name, plain, [self._api_key, *url_secrets(self._base_url)])
        failure.__cause__ = None
        return failure


def _parsed(base_url: str) -> Any:
    """
    Return the parts of *base_url*.

    Raises:
        InvalidInput: it is no http or https URL.
    """
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError:
        url = None
    if url is None or url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidInput("base_url is no URL: use one like http://localhost:11434/v1")
    return url


def said(error: Any) -> str:
    """Return what the server said in an error, whatever form it chose."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if isinstance(body, dict):
        body = body.get("message") or body.get("error") or body.get("detail") or body
    return str(body or "no reason given")


def _is_connection(error: Exception) -> bool:
    """Tell whether the connection failed: some clients let the HTTP library's errors through."""
    import openai

    library = type(error).__module__.partition(".")[0]
    return isinstance(error, openai.APIConnectionError) or library in ("httpx", "httpx2")
