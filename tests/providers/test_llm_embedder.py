"""LLMEmbedder: the real llm library, with embedding models of a plugin of our own."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llm
import pytest

import memdb
from memdb.api._resolve import embedder_by_name
from memdb.errors import InvalidInput, PortError
from memdb.models.protocols import Embedder
from memdb.providers.llm import LLMEmbedder

SECRET = "sk-verysecret123"


class Lengths(llm.EmbeddingModel):
    """Embeds a text by its length; keeps what it was given."""

    model_id = "lengths"
    batch_size = 2
    batches: list[list[str]] = []  # noqa: RUF012 (of the class, as llm makes one object)

    def embed_batch(self, items: Any) -> Iterator[list[float]]:
        """Yield a vector per text."""
        texts = list(items)
        Lengths.batches.append(texts)
        yield from ([float(len(text)), 1.0, 0.5] for text in texts)


class Keyed(llm.EmbeddingModel):
    """Repeats its key in its error."""

    model_id = "keyed"
    needs_key = "keyed"
    key_env_var = "KEYED_KEY"

    def embed_batch(self, items: Any) -> Iterator[list[float]]:
        """Fail."""
        raise ValueError(f"the key {self.get_key()} is bad")
        yield []


class Hangs(llm.EmbeddingModel):
    """Takes too long."""

    model_id = "hangs"

    def embed_batch(self, items: Any) -> Iterator[list[float]]:
        """Wait."""
        time.sleep(2)
        yield from ([1.0] for _ in items)


class Plugin:
    """Registers the models above."""

    __name__ = "memdb-embedding-tests"

    @llm.hookimpl
    def register_embedding_models(self, register):
        """Register them."""
        register(Lengths(), aliases=("len",))
        register(Keyed())
        register(Hangs())


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let llm know the models above, and touch no home folder."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    plugin = Plugin()
    llm.pm.register(plugin)
    Lengths.batches.clear()
    yield
    llm.pm.unregister(plugin)


def test_texts_become_vectors_in_their_order() -> None:
    """In the batches that the model wants; what is only spaces is not sent."""
    embedder = embedder_by_name("llm:lengths")

    assert embedder.embed(["a", "", "bb", "c" * 9_000]) == [
        [1.0, 1.0, 0.5],
        None,
        [2.0, 1.0, 0.5],
        [8_000.0, 1.0, 0.5],
    ]
    assert [len(batch) for batch in Lengths.batches] == [2, 1]
    assert embedder.embed([]) == []
    assert isinstance(embedder, Embedder)


def test_the_dimension_is_asked_for_once() -> None:
    """Where nobody said it."""
    embedder = LLMEmbedder("lengths")

    assert (embedder.dim, embedder.dim, len(Lengths.batches)) == (3, 3, 1)
    assert LLMEmbedder("lengths", dim=3).dim == 3
    assert len(Lengths.batches) == 1


def test_an_alias_is_the_model_it_stands_for() -> None:
    """Both fill one space."""
    assert LLMEmbedder("len").name == LLMEmbedder("lengths").name == "llm:lengths"


def test_a_file_is_recalled_with_it(tmp_path: Path) -> None:
    """By name; a file that has its vectors is opened without a question."""
    path = str(tmp_path / "agent.db")
    with memdb.open(path, embedder="llm:lengths") as db:
        db.scope("ann").session("s").append("user", "green tea")
        found = db.scope("ann").recall("tea")
    Lengths.batches.clear()

    assert (found[0].text, found.space) == ("green tea", "llm:lengths")
    with memdb.open(path, embedder="llm:len"):
        assert Lengths.batches == []


def test_no_key_is_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the one that was given nor the one that llm looks up."""
    monkeypatch.setenv("KEYED_KEY", SECRET)
    for embedder in (LLMEmbedder("keyed"), LLMEmbedder("keyed", key="plainwordsecret")):
        with pytest.raises(PortError) as caught:
            embedder.embed(["tea"])

        assert "the key *** is bad" in str(caught.value)
        assert caught.value.__cause__ is None
        assert "secret" not in repr(embedder)


def test_a_model_that_hangs_is_given_up() -> None:
    """Within the time that it has."""
    with pytest.raises(PortError, match=r"no answer within 0\.1 s"):
        LLMEmbedder("hangs", timeout_s=0.1).embed(["tea"])


def test_a_model_that_nobody_knows_is_refused() -> None:
    """The error says where names are listed."""
    with pytest.raises(InvalidInput, match="`llm embed-models` lists them"):
        embedder_by_name("llm:nothing")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, word for word."""
    monkeypatch.setitem(sys.modules, "llm", None)

    with pytest.raises(InvalidInput, match=r"pip install 'memdb-sqlite\[llm\]'"):
        embedder_by_name("llm:anything")
