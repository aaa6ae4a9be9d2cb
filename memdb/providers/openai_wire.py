"""
One call over the wire of the openai client: its time, its end, its answer.

The client bounds each attempt, not the whole; the hooks here give every
request only the time that is left, and send none for a call that was given up.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import time
import traceback
from contextlib import suppress
from contextvars import ContextVar

from memdb.errors import PortError
from memdb.models.deadline import Unavailable
from memdb.text.redact import HIDDEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Call:
    """A call in progress: how long it may take, whether it was given up, its response."""

    __slots__ = ("deadline", "finished", "response", "stopped")

    def __init__(self, timeout_s: float) -> None:
        """Start now."""
        self.deadline = time.monotonic() + timeout_s
        self.stopped: Callable[[], bool] = lambda: False
        self.response: Any = None
        self.finished = False

    def left_s(self) -> float:
        """Return the seconds left, never less than a millisecond."""
        return max(0.001, self.deadline - time.monotonic())

    def hang_up(self) -> None:
        """
        Shut the connection down: the server stops working on the answer.

        Not closed, as the thread that reads from it may be in the middle of it.
        """
        if self.response is None or self.finished:
            return
        with suppress(Exception):  # it is gone already, or has no socket of its own
            stream = self.response.extensions["network_stream"]
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


# The call that this thread makes; `run_within` gives each thread a context of its own.
CURRENT: ContextVar[Call] = ContextVar("memdb_openai_call")


def before_request(request: Any) -> None:
    """Give *request* the time that is left; refuse it for a call that was given up."""
    call = CURRENT.get(None)
    if call is None:
        return
    if call.stopped():
        from openai import OpenAIError

        raise OpenAIError("given up")
    call.response = None
    request.extensions["timeout"] = dict.fromkeys(
        ("connect", "read", "write", "pool"), call.left_s()
    )


def after_response(response: Any) -> None:
    """Note *response*; let the client not wait for a time at which it is too late anyway."""
    call = CURRENT.get(None)
    if call is None:
        return
    call.response = response
    with suppress(ValueError):
        if float(response.headers.get("retry-after", "0")) >= call.left_s():
            # Not a standard header: the client obeys it above its own rules.
            response.headers["x-should-retry"] = "false"


class _HiddenQuery(logging.Filter):
    """Hides user, password and query values of the URLs that the clients log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; never drop it."""
        record.msg, record.args = _without_url_secrets(record.getMessage()), ()
        if record.exc_info:
            # Older clients log the traceback of the HTTP library, which names the URL.
            told = traceback.format_exception(*record.exc_info)
            record.exc_info, record.exc_text = None, _without_url_secrets("".join(told))
        return True


def _without_url_secrets(text: str) -> str:
    text = re.sub(r"(?<=://)[^\s/?#\"]+(?=@)", HIDDEN, text)
    return re.sub(r"([?&][^=&\s\"']+=)[^&\s\"']+", rf"\1{HIDDEN}", text)


_HIDDEN_QUERY = _HiddenQuery()


def hide_urls_in_logs() -> None:
    """Keep the secrets of URLs out of the logs of the clients, in this process."""
    for name in ("httpx", "httpx2", "openai._base_client"):
        logging.getLogger(name).addFilter(_HIDDEN_QUERY)


def read_answer(stream: Any, call: Call, name: str) -> str:
    """
    Return the whole text of *stream*; close it early when *call* was given up.

    A server that does not stream and answers with one JSON object is read too.

    Raises:
        PortError: the answer is refused, filtered, empty, cut off or garbled.
    """
    text, finish, refusal, garbled = "", None, "", False
    try:
        if "json" in stream.response.headers.get("content-type", ""):
            text, finish, refusal = _whole(stream.response.read())
        else:
            text, finish, refusal = _streamed(stream, call)
    except (AttributeError, LookupError, TypeError, ValueError):
        garbled = True
    if garbled:
        # Not inside `except`: the text of the cause may be a piece of anything.
        raise Unavailable(name, "it gave something else than a chat completion")
    fault = _fault(text, finish, refusal, name)
    if fault is not None and not call.stopped():
        raise fault
    return text


def _streamed(stream: Any, call: Call) -> tuple[str, str | None, str]:
    pieces: list[str] = []
    refused: list[str] = []
    finish: str | None = None
    for chunk in stream:
        if call.stopped():
            stream.close()
            break
        for choice in chunk.choices or ():
            delta = choice.delta
            if delta is not None:
                pieces.append(delta.content or "")
                refused.append(getattr(delta, "refusal", None) or "")
            finish = choice.finish_reason or finish
    return "".join(pieces), finish, "".join(refused)


def _whole(body: bytes) -> tuple[str, str | None, str]:
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
    """Return what is wrong with an answer, None if nothing is."""
    if refusal:
        return PortError(name, f"it refuses to answer: {' '.join(refusal.split())[:200]}")
    if finish == "content_filter":
        return PortError(name, "its content filter held the answer back")
    if not text and finish != "stop":
        return Unavailable(
            name,
            "it spent all tokens without an answer: give it more max_tokens"
            if finish == "length"
            else "it gave no answer",
        )
    if finish is None:
        return Unavailable(name, "its answer was cut off in the middle")
    return None
