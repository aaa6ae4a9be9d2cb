"""FastEmbedEmbedder: the real fastembed and onnxruntime, with a model built on the fly."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_bert

import memdb
from memdb.api._resolve import embedder_by_name
from memdb.errors import InvalidInput, PortError
from memdb.models.protocols import Embedder
from memdb.providers.fastembed import FastEmbedEmbedder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tiny model."""
    return tiny_bert.write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder that a test may damage."""
    target = tmp_path / "tiny"
    target.mkdir()
    for one in folder.iterdir():
        (target / one.name).write_bytes(one.read_bytes())
    return target


def test_a_folder_gives_the_vectors_of_its_graph(folder: Path) -> None:
    """Those that BERT's formulas give by hand: mean of the tokens, of length 1."""
    found = FastEmbedEmbedder(str(folder)).embed(["green tea", "goose supper black coffee"])

    expected = [
        tiny_bert.by_hand(["green", "tea"]),
        tiny_bert.by_hand(["goose", "supper", "black", "coffee"]),
    ]
    assert np.allclose(found, expected, atol=1e-5)


def test_a_batch_of_any_lengths_keeps_its_order(folder: Path) -> None:
    """A text has the same vector alone and among longer ones; spaces have none."""
    texts = ["green tea", "  ", "goose", "black coffee supper goose tea", "", "tea " * 50]
    embedder = FastEmbedEmbedder(str(folder), batch=2, threads=1)

    found = embedder.embed(texts)

    assert [vector is None for vector in found] == [False, True, False, False, True, False]
    for text, vector in zip(texts, found, strict=True):
        if vector is not None:
            assert np.allclose(vector, embedder.embed([text])[0], atol=1e-5)
    assert embedder.embed([]) == []


def test_it_is_an_embedder_by_name(folder: Path) -> None:
    """`fastembed:DIR` names it; its name holds the folder's and tells models apart."""
    embedder = embedder_by_name(f"fastembed:{folder}")

    assert isinstance(embedder, Embedder)
    assert embedder.name.startswith("fastembed:tiny-")
    assert embedder.dim == tiny_bert.DIM


def test_another_model_in_a_folder_of_that_name_is_another_space(copy: Path) -> None:
    """The graph counts, and so does how its vectors are pooled; the place does not."""
    before = FastEmbedEmbedder(str(copy)).name
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    pooled = FastEmbedEmbedder(str(copy)).name
    with (copy / "model.onnx").open("ab") as graph:
        graph.write(b"\0")
    changed = FastEmbedEmbedder(str(copy)).name

    assert len({before, pooled, changed}) == 3


def test_the_place_of_a_folder_does_not_matter(folder: Path, copy: Path) -> None:
    """A file that moves to another machine keeps its vectors."""
    assert FastEmbedEmbedder(str(folder)).name == FastEmbedEmbedder(str(copy)).name


def test_pooling_by_the_first_token(copy: Path) -> None:
    """As the folder says; the vectors are others than the means."""
    mean = FastEmbedEmbedder(str(copy)).embed(["green tea"])
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = FastEmbedEmbedder(str(copy)).embed(["green tea"])

    assert not np.allclose(mean, first)


def test_a_file_is_recalled_with_it(folder: Path, tmp_path: Path) -> None:
    """Opened by name: appended, embedded, found, and found again by the next process."""
    path, spec = str(tmp_path / "agent.db"), f"fastembed:{folder}"
    with memdb.open(path, embedder=spec) as db:
        chat = db.scope("ann").session("s")
        [chat.append("user", text) for text in ("green tea", "goose supper", "black coffee")]
        found = db.scope("ann").recall("green tea")

    assert found[0].text == "green tea"
    assert (found.space or "").startswith("fastembed:tiny-")
    with memdb.open(path, embedder=spec) as db:
        assert db.jobs.run(kinds=["embed"]) == 0
        assert db.scope("ann").recall("supper")[0].text == "goose supper"


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("model.onnx", "no model.onnx or onnx/model.onnx"),
        ("tokenizer.json", "no tokenizer.json"),
        ("tokenizer_config.json", "no tokenizer_config.json"),
        ("config.json", "no hidden_size"),
    ],
)
def test_a_folder_that_lacks_something_is_refused(copy: Path, gone: str, said: str) -> None:
    """Before a file is opened; the error names what is missing."""
    (copy / gone).unlink()

    with pytest.raises(InvalidInput, match=said):
        embedder_by_name(f"fastembed:{copy}")


def test_a_config_that_is_no_json_is_refused(copy: Path) -> None:
    """With the name of the file."""
    (copy / "config.json").write_text("{")

    with pytest.raises(InvalidInput, match=r"config\.json in"):
        FastEmbedEmbedder(str(copy))


def test_a_graph_that_is_none_fails_at_its_first_text(copy: Path) -> None:
    """As a port fails, so that words still answer."""
    (copy / "model.onnx").write_bytes(b"no graph")
    embedder = FastEmbedEmbedder(str(copy))

    with pytest.raises(PortError, match="fastembed:tiny"):
        embedder.embed(["green tea"])
    with memdb.open(":memory:", embedder=embedder) as db:
        db.scope("ann").session("s").append("user", "green tea")
        found = db.scope("ann").recall("tea")
    assert (found[0].text, found.arms) == ("green tea", ("lexical",))


def test_a_name_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """No folder, and not in fastembed's list; nothing is downloaded."""
    with pytest.raises(InvalidInput, match="is neither a folder nor a model of fastembed"):
        embedder_by_name(f"fastembed:{tmp_path}/nowhere")


def test_a_name_of_the_list_is_known_without_a_download() -> None:
    """Its dimension is in the list; the model comes with its first text."""
    embedder = embedder_by_name("fastembed:BAAI/bge-small-en-v1.5")

    assert (embedder.name, embedder.dim) == ("fastembed:BAAI/bge-small-en-v1.5", 384)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, word for word."""
    monkeypatch.setitem(sys.modules, "fastembed", None)

    with pytest.raises(InvalidInput, match=r"pip install 'memdb-sqlite\[fastembed\]'"):
        embedder_by_name("fastembed:anything")


def test_it_cannot_be_pickled(folder: Path) -> None:
    """It says where to make another."""
    with pytest.raises(TypeError, match="create it in the process that uses it"):
        pickle.dumps(FastEmbedEmbedder(str(folder)))


@pytest.mark.parametrize("options", [{"threads": 0}, {"batch": 0}, {"batch": "many"}])
def test_bad_options_are_refused(folder: Path, options: Any) -> None:
    """With the name of the option."""
    with pytest.raises(InvalidInput, match=next(iter(options))):
        FastEmbedEmbedder(str(folder), **options)
