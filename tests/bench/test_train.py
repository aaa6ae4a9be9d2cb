"""The program that trains the two models: the same data gives the same files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "memdb" / "facts"


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `bench/facts/train.py`, which stands outside of the package."""
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "bench", raising=False)
    from bench.facts import train

    return train


def test_the_weights_are_of_this_data_and_code(train: ModuleType) -> None:
    """Whoever changes a feature, a marker or a line of data trains anew."""
    names = ("sentences", "pairs")
    hashes = {json.loads((PACKAGE / f"{name}.json").read_text("utf-8"))["hash"] for name in names}

    assert hashes == {train.fingerprint(ROOT / "bench" / "facts" / "data")}


def test_the_files_are_small_enough_for_the_wheel() -> None:
    """At most 200 kB each."""
    sizes = {path.name: path.stat().st_size for path in PACKAGE.glob("*.json")}

    assert {name: size for name, size in sizes.items() if size > 200_000} == {}


def test_what_is_tuned_on_is_not_what_judges(train: ModuleType) -> None:
    """A text that is kept apart is in no pair or sentence that trains."""
    pairs = train.read_pairs(ROOT / "bench" / "facts" / "data")
    sentences = train.read_sentences(ROOT / "bench" / "facts" / "data")
    apart = {(one.older, one.newer) for one in pairs if one.apart}
    near = {(one.older, one.newer) for one in pairs if not one.apart}

    assert 0.1 < len(apart) / len(pairs) < 0.3
    assert not apart & near
    assert 0.1 < sum(one.apart for one in sentences) / len(sentences) < 0.3


@pytest.mark.slow
def test_training_twice_gives_the_same_files(train: ModuleType, tmp_path: Path) -> None:
    """From a small part of the data."""
    data = tmp_path / "data"
    data.mkdir()
    for path in sorted((ROOT / "bench" / "facts" / "data").glob("*-fr.json*")):
        lines = path.read_text("utf-8")
        short = lines if path.suffix == ".json" else "".join(lines.splitlines(keepends=True)[:120])
        (data / path.name).write_text(short, "utf-8")
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        train.train(data, tmp_path / name, 5, common=True)
        made.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})

    assert made[0] == made[1]
    assert set(made[0]) == {"common.json", "sentences.json", "pairs.json"}
