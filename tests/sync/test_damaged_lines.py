"""A line that is not as memdb writes it is named as damaged; nothing else is."""

from __future__ import annotations

import gzip
import json
import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.engine.files import publish
from memdb.models.summaries import SummaryText
from memdb.sync.chunks import NEEDS, chunks_of
from memdb.sync.device import load
from memdb.sync.folder import Head, Refused, write_partial
from memdb.sync.incoming import Merge
from memdb.transfer import artifacts

if TYPE_CHECKING:
    from pathlib import Path

    Line = dict[str, Any]

CHANGES = (None, {"x": [1]}, "x\0", "\ud800", "", True, 1 << 30, 1 << 70)


class Writer:
    """A model that summarises; only what a model wrote is sent."""

    name, quality = "writer", "model"

    def summarize(self, source: list[Any], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a text."""
        return SummaryText("We fly in May.")


class Told:
    """What a file told in one segment, of things of each kind: its path, lines and key."""

    def __init__(self, place: Path) -> None:
        """Write the segment."""
        (place / "folder").mkdir()
        with memdb.open(place / "a.db", embedder=None, summarizer=Writer()) as db:
            ann = db.user("ann")
            trip = ann.session("trip")
            trip.title = "Oslo"
            trip.extend([{"role": "user", "content": f"We fly on {day} May."} for day in range(20)])
            trip.branch("other", 3, create=True).append("user", "We take the train.")
            trip.summaries.compact()
            ann.remember("Ann likes tea.", key="drink")
            ann.remember("Ann likes coffee.", key="drink")
            ann.items.put(("n",), "k", {"a": 1})
            trip.artifacts.save("menu.md", b"hello")
            trip.artifacts.save("large", random.Random(1).randbytes(3_000))
            trip.state["a"] = 1
            ann.state["b"] = 1
            self.key = db.sync(place / "folder").key
            with db._services.db.read() as tx:
                device = load(tx)
        assert device is not None
        self.device = device
        self.folder = place / "folder"
        (self.path,) = self.folder.rglob("0*.gz")
        lines = gzip.decompress(self.path.read_bytes()).splitlines()
        gone = {"kind": "gone", "of": "entry", "thing": 1, "stamp": 1}
        self.lines = [*map(json.loads, lines[1:-1])]
        self.lines.insert(1, gone)  # in the scope

    def write(self, lines: list[Line]) -> None:
        """Write the segment anew with these lines, sealed."""
        head = Head(self.device.id, self.device.name, 1, "", self.device.stamp, {})
        write_partial(str(self.path), self.device, head, lines)
        publish(str(self.path))


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return what a file told, its larger artifact in parts."""
    monkeypatch.setattr(artifacts, "PART_BYTES", 1_000)
    return Told(tmp_path)


def test_every_damaged_field_leaves_its_segment_waiting_or_its_line_out(
    told: Told,
) -> None:
    """Whatever is in a field, or nothing: no error but the one that names the line."""
    lines = told.lines
    kinds = {line["kind"]: at for at, line in enumerate(lines)}
    assert kinds.keys() == NEEDS.keys()
    refused: dict[str, set[str]] = {kind: set() for kind in kinds}
    for kind, at in kinds.items():
        for field, change in product(lines[at], CHANGES):
            damaged = {**lines[at], field: change}
            if change is None:
                del damaged[field]
            with memdb.open(":memory:", embedder=None) as new:
                merge = Merge(new._services.transfer())
                try:
                    for chunk in chunks_of(iter([*lines[:at], damaged, *lines[at + 1 :]])):
                        merge.merge(chunk)
                    with new._db.write() as tx:
                        merge.end_segment(tx)
                except Refused:
                    refused[kind].add(field)
                assert new.file.check() == [], (kind, field, change)
    for kind, needs in NEEDS.items():
        assert {"kind", *needs.split()} <= refused[kind], kind


def test_a_segment_with_a_damaged_line_waits_until_it_is_whole(told: Told, tmp_path: Path) -> None:
    """It is named with the kind and the field."""
    with memdb.open(tmp_path / "b.db", embedder=None) as db:
        told.write([*told.lines[:1], {**told.lines[1], "thing": "x"}, *told.lines[2:]])
        (waits,) = db.sync(told.folder, pairing_key=told.key).waiting
        assert "000001.full.jsonl.gz" in waits
        assert "contains a damaged line (thing of a line of gone)" in waits
        told.write(told.lines)
        assert db.sync(told.folder).waiting == ()
        assert db.user("ann").entries.list()[0].text == "Ann likes coffee."


@pytest.mark.parametrize("error", [KeyError("mine"), TypeError("mine"), AttributeError("mine")])
def test_an_error_of_the_program_is_not_called_damage(
    told: Told, tmp_path: Path, error: Exception
) -> None:
    """What a callback raises reaches the caller, and the next sync reads the segment."""

    def stop(_: int) -> None:
        raise error

    with memdb.open(tmp_path / "b.db", embedder=None) as db:
        with pytest.raises(type(error), match="mine"):
            db.sync(told.folder, pairing_key=told.key, progress=stop)
        assert db.sync(told.folder).waiting == ()
