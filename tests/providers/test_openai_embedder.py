"""OpenAIEmbedder: the real client against a scripted server on this machine."""

import json
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memdb
from memdb.api._resolve import embedder_by_name
from memdb.errors import InvalidInput, PortError, Unavailable
from memdb.models.protocols import Embedder
from memdb.providers.openai import OpenAIEmbedder

KEY = "sk-verysecret123"
SECRETS = ("verysecret", "hidden-query", "hidden-pass", "plainwordsecret", "zzqq")


def vectors(exchange: Any, dim: int = 3) -> None:
    """Answer with a vector per text, the last text first."""
    data = [
        {"object": "embedding", "index": place, "embedding": [len(text), 1.0, place][:dim]}
        for place, text in enumerate(exchange.body["input"])
    ]
    exchange.send(json.dumps({"object": "list", "data": data[::-1], "model": "m", "usage": None}))


@pytest.fixture
def make(server: Any) -> Iterator[Callable[..., OpenAIEmbedder]]:
    """Return a function that makes an embedder of the server; all are closed at the end."""
    server.answer = vectors
    made: list[OpenAIEmbedder] = []

    def embedder(**options: Any) -> OpenAIEmbedder:
        made.append(OpenAIEmbedder("m", **{"base_url": server.url, "api_key": KEY, **options}))
        return made[-1]

    yield embedder
    for one in made:
        one.close()


def failure(embedder: OpenAIEmbedder) -> PortError:
    """Return the error that an embedding ends in."""
    with pytest.raises(PortError) as caught:
        embedder.embed(["tea"])
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value


def test_texts_become_vectors_in_their_order(
    server: Any, make: Callable[..., OpenAIEmbedder]
) -> None:
    """However the server orders them; what is only spaces is not sent."""
    found = make(options={"user": "ann"}).embed(["tea", " ", "coffee"])

    assert found == [[3, 1.0, 0], None, [6, 1.0, 1]]
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m",
        "input": ["tea", "coffee"],
        "encoding_format": "float",
        "user": "ann",
    }


def test_nothing_to_embed_asks_nobody(server: Any, make: Callable[..., OpenAIEmbedder]) -> None:
    """Neither an empty list nor empty texts."""
    assert (make().embed([]), make().embed(["", "\n"])) == ([], [None, None])
    assert server.requests == []


def test_many_texts_go_in_batches(server: Any, make: Callable[..., OpenAIEmbedder]) -> None:
    """In their order, so many per request; a long text is cut."""
    found = make(batch=2).embed(["a", "bb", "ccc", "d" * 9_000, "e"])

    assert [len(request.body["input"]) for request in server.requests] == [2, 2, 1]
    assert [vector[0] for vector in found if vector] == [1, 2, 3, 8_000, 1]


def test_the_dimension_is_asked_for_once(server: Any, make: Callable[..., OpenAIEmbedder]) -> None:
    """Where nobody said it; then it is known."""
    embedder = make()

    assert (embedder.dim, embedder.dim, len(server.requests)) == (3, 3, 1)


def test_a_dimension_of_ones_own_is_sent(server: Any, make: Callable[..., OpenAIEmbedder]) -> None:
    """And needs no question."""
    embedder = make(dim=2)

    assert (embedder.dim, server.requests) == (2, [])
    embedder.embed(["tea"])
    assert server.requests[0].body["dimensions"] == 2


def test_openais_own_models_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request tells how long their vectors are."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    embedder = embedder_by_name("openai:text-embedding-3-small")

    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dim) == ("openai:text-embedding-3-small", 1536)
    assert KEY not in repr(embedder)


def test_a_file_is_recalled_with_it(
    server: Any, make: Callable[..., OpenAIEmbedder], tmp_path: Any
) -> None:
    """By name; and while the server is down the file opens, takes messages, and says so."""
    make()
    path, spec = str(tmp_path / "agent.db"), f"openai:nomic@{server.url}"
    with memdb.open(path, embedder=spec) as db:
        db.scope("ann").session("s").append("user", "green tea")
        found = db.scope("ann").recall("tea")
    assert (found[0].text, found.space) == ("green tea", "openai:nomic")
    server.answer = lambda exchange: exchange.error(500, "down", x_should_retry="false")

    with memdb.open(path, embedder=spec) as db:
        db.scope("ann").session("s").append("user", "black tea")
        found = db.scope("ann").recall("tea")

    assert {hit.text for hit in found} == {"green tea", "black tea"}
    assert "status 500: down" in found.missing["vector"]
    assert found.space is None


def test_a_server_that_is_busy_is_asked_again(
    server: Any, make: Callable[..., OpenAIEmbedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as was said."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    server.in_turn(lambda exchange: exchange.error(429, "busy"), vectors)

    assert make().embed(["tea"]) == [[3, 1.0, 0]]
    assert len(server.requests) == 2


def test_a_server_that_hangs_is_given_up(server: Any, make: Callable[..., OpenAIEmbedder]) -> None:
    """Within the time of a request."""
    server.answer = lambda _exchange: server.released.wait(60)

    assert "no answer within 0.2 s" in str(failure(make(timeout_s=0.2, max_retries=0)))


def test_a_server_that_is_away_is_named() -> None:
    """With the URL, and no secret of it."""
    embedder = OpenAIEmbedder("m", base_url="http://ann:hidden-pass@127.0.0.1:9/v1", max_retries=0)

    error = failure(embedder)

    assert isinstance(error, Unavailable)
    assert "cannot reach http://***@127.0.0.1:9/v1" in str(error)
    embedder.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}', "2 vectors"),
        ('{"data": []}', "0 vectors for 1 texts"),
        ('{"data": [{"index": 7, "embedding": [1]}]}', "something else than embeddings"),
        ('{"data": [{"index": 0}]}', "something else than embeddings"),
        ('{"data": null}', "embedding"),
        ("{}", "embedding"),
        ('"hello"', "embedding"),
        ("<html>", "m failed"),
        ("", "m failed"),
    ],
)
def test_an_answer_that_is_none_is_an_error(
    server: Any, make: Callable[..., OpenAIEmbedder], answer: str, said: str
) -> None:
    """Never a vector of something else."""
    server.answer = lambda exchange: exchange.send(answer)

    assert said in str(failure(make(max_retries=0)))


@pytest.mark.parametrize("key", [KEY, "plainwordsecret"])
@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_no_key_is_in_errors_reprs_and_logs(
    server: Any,
    make: Callable[..., OpenAIEmbedder],
    caplog: pytest.LogCaptureFixture,
    status: int,
    key: str,
) -> None:
    """Wherever it was given: as key, in the URL's userinfo, in its query."""
    url = f"http://ann:hidden-pass@{server.address}/v1?code=hidden-query"
    embedder = make(base_url=url, api_key=key, max_retries=0)
    server.answer = lambda exchange: exchange.error(
        status, f"bad {key}, 'Bearer {key}', {exchange.path}, hidden-pass, sk-else-zzqq"
    )

    with caplog.at_level(logging.DEBUG):
        error = failure(embedder)

    said = [str(error), repr(error), repr(embedder), caplog.text]
    said.append(str(pickle.dumps(error)))
    assert "code=hidden-query" in server.requests[0].path
    assert [(secret, text) for secret in SECRETS for text in said if secret in text] == []


@pytest.mark.parametrize(
    "options",
    [{"dim": 0}, {"dim": 1 << 20}, {"batch": 0}, {"batch": 9_999}, {"timeout_s": 0}],
    ids=str,
)
def test_bad_options_are_refused(make: Callable[..., OpenAIEmbedder], options: Any) -> None:
    """With the name of the option."""
    with pytest.raises(InvalidInput, match=next(iter(options))):
        make(**options)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, word for word."""
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(InvalidInput, match=r"pip install 'memdb-sqlite\[openai\]'"):
        embedder_by_name("openai:m@http://127.0.0.1:9/v1")


@pytest.mark.parametrize("spec", ["", "openai:", "minilm", "openai:@http://h/v1", "fastembed:"])
def test_a_name_of_no_form_is_refused(spec: str) -> None:
    """The error lists the forms."""
    with pytest.raises(InvalidInput, match="use static, use, fastembed:DIR, llm:NAME, openai:NAME"):
        memdb.open(":memory:", embedder=spec)


def test_a_key_in_a_name_is_not_repeated() -> None:
    """A mistyped form may hold one."""
    with pytest.raises(InvalidInput) as caught:
        embedder_by_name("opeanai:m@https://ann:hidden-pass@host/v1")

    assert "hidden-pass" not in str(caught.value)
