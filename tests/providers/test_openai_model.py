"""OpenAIModel: the real official client against a real server on 127.0.0.1."""

import json
import logging
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memdb.api._resolve import model_by_name
from memdb.errors import InvalidInput, PortError, Unavailable
from memdb.models.protocols import Model
from memdb.providers.openai import OpenAIModel

SAY_HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
KEY = "sk-verysecret123"
WHOLE = {
    "choices": [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}],
}


@pytest.fixture
def make(server: Any) -> Iterator[Callable[..., OpenAIModel]]:
    """Return a function that makes a model of the server; all are closed at the end."""
    made: list[OpenAIModel] = []

    def model(**options: Any) -> OpenAIModel:
        made.append(OpenAIModel("m", **{"base_url": server.url, "api_key": KEY, **options}))
        return made[-1]

    yield model
    for one in made:
        one.close()


def failure(model: OpenAIModel, **options: Any) -> PortError:
    """Return the error that an answer ends in."""
    with pytest.raises(PortError) as caught:
        model.complete(SAY_HI, **options)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value


def test_an_answer_comes_in_pieces(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """The pieces are joined; the request is a streamed chat completion with the key."""
    server.answer = lambda exchange: exchange.say("Hel", "lo", " Oslo")
    model = make(options={"temperature": 0})

    assert model.complete(SAY_HI) == "Hello Oslo"
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {"model": "m", "messages": SAY_HI, "stream": True, "temperature": 0}


def test_it_is_a_model(server: Any) -> None:
    """By name too, with the key of the environment or none."""
    model = model_by_name(f"openai:qwen3:8b@{server.url}")

    assert isinstance(model, Model)
    assert (model.name, model.complete(SAY_HI)) == ("openai:qwen3:8b", "hello")
    assert server.requests[0].body["model"] == "qwen3:8b"
    model.close()


def test_a_server_that_does_not_stream_is_read(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """One JSON object is an answer too."""
    server.answer = lambda exchange: exchange.send(json.dumps(WHOLE))

    assert make().complete(SAY_HI) == "whole"


def test_connections_are_used_again(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """Two calls after each other come from one socket."""
    server.answer = lambda exchange: exchange.send(json.dumps(WHOLE))
    model = make()

    answers = [model.complete(SAY_HI), model.complete(SAY_HI)]

    assert answers == ["whole", "whole"]
    assert len({request.handler.client_address for request in server.requests}) == 1


def test_a_schema_is_a_response_format(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """In the form of chat completions."""
    make().complete(SAY_HI, schema=SCHEMA)

    assert server.requests[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA},
    }


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "response_format must be text or json_object", {"type": "json_object"}),
        (400, "This response_format type is unavailable now", None),
        (422, "extra fields", None),
    ],
    ids=["json_object", "plain", "422"],
)
def test_a_refused_schema_is_asked_for_in_words(
    server: Any,
    make: Callable[..., OpenAIModel],
    status: int,
    message: str,
    expected: dict[str, str] | None,
) -> None:
    """Once more, and from then on at once."""
    server.in_turn(
        lambda exchange: exchange.error(status, message), lambda exchange: exchange.say("{}")
    )
    model = make()

    answers = [model.complete(SAY_HI, schema=SCHEMA), model.complete(SAY_HI, schema=SCHEMA)]

    assert answers == ["{}", "{}"]
    assert len(server.requests) == 3
    for request in server.requests[1:]:
        assert request.body.get("response_format") == expected
        assert json.dumps(SCHEMA) in request.body["messages"][0]["content"]


def test_a_schema_is_given_up_once_only(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """A server that refuses everything is asked twice; schemas stay the first choice."""
    server.answer = lambda exchange: exchange.error(400, "bad request")
    model = make()

    error = failure(model, schema=SCHEMA)

    assert "bad request" in str(error)
    assert len(server.requests) == 2
    server.answer = lambda exchange: exchange.say("{}")
    model.complete(SAY_HI, schema=SCHEMA)
    assert server.requests[2].body["response_format"]["type"] == "json_schema"


def test_a_text_that_is_too_long_is_no_refusal_of_schemas(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """Asking again would fail again."""
    server.answer = lambda exchange: exchange.error(400, "long", code="context_length_exceeded")

    failure(make(), schema=SCHEMA)

    assert len(server.requests) == 1


def test_refused_max_tokens_are_called_otherwise(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """As the newer models of OpenAI demand; remembered, and together with a refused schema."""
    advice = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.in_turn(
        lambda exchange: exchange.error(400, advice, param="max_tokens"),
        lambda exchange: exchange.error(400, "no json_schema here"),
        lambda exchange: exchange.say("{}"),
    )
    model = make()

    model.complete(SAY_HI, schema=SCHEMA, max_tokens=5)
    model.complete(SAY_HI, max_tokens=6)

    limits = [
        (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))
        for request in server.requests
    ]
    assert limits == [(5, None), (None, 5), (None, 5), (None, 6)]


def test_server_errors_are_tried_again(
    server: Any, make: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the client, twice by default, with its backoff."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    broken = lambda exchange: exchange.error(500)  # noqa: E731 (a name for the table)
    server.in_turn(broken, broken, lambda exchange: exchange.say("at last"))

    assert make().complete(SAY_HI) == "at last"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("max_retries", "kind"), [(0, Unavailable), (1, PortError)], ids=["no retries", "retries"]
)
def test_what_the_client_tried_again_is_not_worth_a_try(
    server: Any,
    make: Callable[..., OpenAIModel],
    monkeypatch: pytest.MonkeyPatch,
    max_retries: int,
    kind: type[PortError],
) -> None:
    """Only one of the two, client or ModelCaller, repeats a call."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    server.answer = lambda exchange: exchange.error(503, "overloaded")

    error = failure(make(max_retries=max_retries))

    assert type(error) is kind
    assert "overloaded" in str(error)
    assert len(server.requests) == max_retries + 1


def test_the_time_a_server_asks_for_is_kept(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """429 with Retry-After: the client waits as long as it says."""
    server.in_turn(
        lambda exchange: exchange.error(429, "slow down", Retry_After="0.05"),
        lambda exchange: exchange.say("now"),
    )
    start = time.monotonic()

    assert make().complete(SAY_HI) == "now"
    assert time.monotonic() - start >= 0.05


def test_a_time_beyond_the_deadline_is_not_waited_for(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """It fails at once, and says why."""
    server.answer = lambda exchange: exchange.error(429, "slow down", Retry_After="60")

    error = failure(make(), timeout_s=30)

    assert "status 429: slow down (wait, or check the quota)" in str(error)


def test_a_hanging_server_is_given_up(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """After the time of the call, whatever the number of retries."""
    server.answer = lambda exchange: server.released.wait(3600)  # longer than a test may take

    error = failure(make(), timeout_s=0.05)

    assert str(error).startswith("openai:m failed: no answer within 0.05 s")


@pytest.mark.parametrize("whole", [True, False], ids=["events", "bytes of an event"])
def test_a_trickling_server_is_given_up_and_hung_up_on(
    server: Any, make: Callable[..., OpenAIModel], whole: bool
) -> None:
    """It never pauses for long, and is left all the same; it sees that nobody listens."""

    def trickle(exchange: Any) -> None:
        exchange.open_stream()
        while not server.released.wait(0.005):
            exchange.piece("x") if whole else exchange.write(":")

    server.answer = trickle

    for timeout_s in (0.06, 1, 10, 60):  # a busy machine may send nothing in the first
        error = failure(make(), timeout_s=timeout_s)
        assert "no answer within" in str(error)
        if server.requests:
            break

    assert server.dropped.wait(60)


def test_a_call_that_was_given_up_before_its_answer_began_hangs_up(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """There was no stream to close yet; a server that sends no whole event is left too."""
    given_up = threading.Event()

    def trickle(exchange: Any) -> None:
        assert given_up.wait(60)
        exchange.open_stream()
        while not server.released.wait(0.005):
            exchange.write(":")

    server.answer = trickle

    error = failure(make(), cancelled=lambda: len(server.requests) > 0)
    given_up.set()

    assert "cancelled" in str(error)
    assert server.dropped.wait(60)


def test_cancelling_in_the_middle_hangs_up(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """The server may stop working on an answer that nobody wants."""
    begun = threading.Event()

    def endless(exchange: Any) -> None:
        exchange.open_stream()
        while not server.released.wait(0.005):
            exchange.piece("x")
            begun.set()

    server.answer = endless

    error = failure(make(), cancelled=begun.is_set)

    assert str(error) == "openai:m failed: cancelled"
    assert server.dropped.wait(60)


def test_a_call_that_was_given_up_is_not_sent_again(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """The client's retry that is still to come stays away."""
    given_up = threading.Event()

    def refuse(exchange: Any) -> None:
        assert given_up.wait(60)
        exchange.error(429, Retry_After="0.01")

    server.answer = refuse

    before = {*threading.enumerate()}  # one of another test may still run

    error = failure(make(), cancelled=lambda: len(server.requests) > 0)
    running = {*threading.enumerate()} - before
    (left,) = [one for one in running if one.name == "memdb gave up openai:m"]
    given_up.set()
    left.join(60)

    assert not left.is_alive()
    assert "cancelled" in str(error)
    assert len(server.requests) == 1


SECRETS = ("verysecret", "hidden-query", "hidden-pass", "plainwordsecret")


@pytest.mark.parametrize("key", [KEY, "plainwordsecret"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_no_key_is_in_errors_reprs_and_logs(
    server: Any,
    make: Callable[..., OpenAIModel],
    caplog: pytest.LogCaptureFixture,
    status: int,
    key: str,
) -> None:
    """Wherever it was given: as key, in the URL's userinfo, in its query."""
    url = f"http://ann:hidden-pass@{server.address}/v1?code=hidden-query"
    model = make(base_url=url, api_key=key, max_retries=0)
    server.answer = lambda exchange: exchange.error(
        status, f"bad {key}, 'Bearer {key}', {exchange.path}, hidden-pass, sk-else-zzqq"
    )

    with caplog.at_level(logging.DEBUG):
        error = failure(model)

    said = [str(error), repr(error), repr(model), caplog.text]
    said.append(str(pickle.dumps(error)))
    assert "chat/completions" in server.requests[0].path
    assert "code=hidden-query" in server.requests[0].path
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert "HTTP Request: POST" in caplog.text
    assert [
        (secret, text) for secret in (*SECRETS, "zzqq") for text in said if secret in text
    ] == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": "model not found"}', "status 404: model not found (check"),
        ('{"detail": "Not Found"}', "status 404: Not Found (check"),
        ("<html>nginx</html>", "status 404: <html>nginx</html> (check"),
        ("[]", "status 404: no reason given (check"),
        ("", "status 404: no reason given (check"),
    ],
    ids=["ollama", "vllm", "html", "a list", "nothing"],
)
def test_errors_of_other_servers_are_understood(
    server: Any, make: Callable[..., OpenAIModel], body: str, expected: str
) -> None:
    """Each has a form of its own."""
    server.answer = lambda exchange: exchange.send(body, status=404)

    assert expected in str(failure(make()))


def test_401_says_what_to_check(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """The server's sentence without the key, and advice."""
    server.answer = lambda exchange: exchange.error(
        401, f"Incorrect API key provided: {KEY}. You can find it."
    )

    assert str(failure(make())) == (
        "openai:m failed: status 401: Incorrect API key provided: ***. "
        "You can find it. (check the API key)"
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda exchange: exchange.send("<html>proxy</html>", kind="text/html"),
        lambda exchange: exchange.send("{not json"),
        lambda exchange: exchange.send("[1]"),
        lambda exchange: exchange.send('{"choices": [{"message": {"content": 5}}]}'),
        lambda exchange: exchange.send("data: {oops\n\n", kind="text/event-stream"),
        lambda exchange: exchange.send('data: {"choices": 5}\n\n', kind="text/event-stream"),
        lambda exchange: exchange.send(b"data: \xff\xfe\n\n", kind="text/event-stream"),
        lambda exchange: exchange.send('{"choices": []}'),
        lambda exchange: exchange.send(
            'data: {"choices": []}\n\ndata: [DONE]\n\n', kind="text/event-stream"
        ),
        lambda exchange: exchange.send(
            'data: {"error": {"message": "out of memory"}}\n\n', kind="text/event-stream"
        ),
    ],
    ids=[
        "html",
        "half json",
        "a list",
        "content of another type",
        "half an event",
        "choices of another type",
        "no utf-8",
        "no choices, whole",
        "no choices, streamed",
        "an error in the stream",
    ],
)
def test_a_garbled_answer_is_worth_another_try(
    server: Any, make: Callable[..., OpenAIModel], answer: Callable[[Any], object]
) -> None:
    """It is a port's failure, never an answer."""
    server.answer = answer

    assert type(failure(make())) is Unavailable


@pytest.mark.parametrize(
    ("finish", "delta", "match"),
    [
        (None, {"content": "half an ans"}, "cut off in the middle"),
        ("length", {"content": None}, "spent all tokens"),
        ("content_filter", {"content": "Once"}, "content filter"),
        ("stop", {"refusal": "I cannot."}, "refuses to answer: I cannot."),
    ],
    ids=["cut off", "no tokens left", "filtered", "refused"],
)
def test_an_answer_that_is_not_whole_is_none(
    server: Any,
    make: Callable[..., OpenAIModel],
    finish: str | None,
    delta: dict[str, Any],
    match: str,
) -> None:
    """A summary that ends in mid-sentence must not be stored."""

    def answer(exchange: Any) -> None:
        exchange.open_stream()
        exchange.piece(None, **delta)
        exchange.piece(None, finish)

    server.answer = answer

    assert match in str(failure(make()))


def test_a_broken_connection_is_told_from_none(
    server: Any, make: Callable[..., OpenAIModel]
) -> None:
    """A server that dies in the middle of an answer may be asked again."""

    def die(exchange: Any) -> None:
        exchange.handler.send_response(200)
        exchange.handler.send_header("Content-Type", "text/event-stream")
        exchange.handler.send_header("Content-Length", "5000")
        exchange.handler.end_headers()
        exchange.piece("half")
        exchange.handler.close_connection = True

    server.answer = die

    error = failure(make())

    assert "broke off in the middle" in str(error)
    assert error.retryable


def test_a_refused_connection_names_the_server(make: Callable[..., OpenAIModel]) -> None:
    """The URL, without its secrets, and what to look at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1?key=hidden-query"
        error = failure(make(base_url=url, max_retries=0))

    shown = url.replace("hidden-query", "***")
    assert f"cannot reach {shown} (is the server running?): " in str(error)
    assert error.retryable


def test_the_key_of_the_environment_is_taken(
    server: Any, make: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the line end that a file of secrets adds; options go along."""
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment\n")

    assert make(api_key=None, options={"seed": 7}).complete(SAY_HI) == "hello"
    assert server.requests[0].headers["Authorization"] == "Bearer from-environment"
    assert server.requests[0].body["seed"] == 7


def test_a_local_server_needs_no_key(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """Neither given nor in the environment; the URL may come from there."""
    model = make(api_key=None)

    assert model.complete(SAY_HI) == "hello"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"base_url": None}, "set OPENAI_API_KEY"),
        ({"base_url": "localhost:11434"}, "use one like http://localhost:11434/v1"),
        ({"base_url": "http://h:port/v1"}, "base_url is not a URL"),
        ({"max_retries": -1}, "max_retries is -1"),
    ],
)
def test_what_cannot_be_used_is_refused(
    make: Callable[..., OpenAIModel], options: dict[str, Any], match: str
) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidInput, match=match):
        make(api_key=None, **options)


def test_the_url_may_come_from_the_environment(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the official client."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = model_by_name("openai:m")

    assert model.complete(SAY_HI) == "hello"
    model.close()


def test_calls_run_side_by_side(server: Any, make: Callable[..., OpenAIModel]) -> None:
    """Each thread gets its own answer."""
    server.answer = lambda exchange: exchange.say(exchange.body["messages"][0]["content"])
    model = make()
    answers: dict[str, str] = {}

    def ask(text: str) -> None:
        answers[text] = model.complete([{"role": "user", "content": text}])

    threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {str(number): str(number) for number in range(8)}
