"""What CrewAI's memory stores is read by memdb's own calls, and what they write by CrewAI."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
from crewai.memory.types import MemoryRecord
from item_copies import COPIES, READS, recall
from with_together.roles import APP, HOSTILE, USER

import memdb
from memdb.integrations.crewai import MemdbStorage

if TYPE_CHECKING:
    from pathlib import Path

MOMENT = datetime(2026, 5, 1)  # noqa: DTZ001 (as CrewAI has its times)
TEXTS = {"r1": "We fly to Oslo.", "r2": HOSTILE}
PLACES = {"r1": ("crewai", "trip"), "r2": ("crewai", "trip", "pages")}


def write_by_crewai(path: str) -> None:
    records = [
        MemoryRecord(
            id=key,
            content=text,
            scope="/" + "/".join(PLACES[key][1:]),
            categories=["travel"],
            metadata={"n": 1},
            importance=0.7,
            created_at=MOMENT,
            last_accessed=MOMENT,
            source="ann",
            private=True,
            embedding=[0.6, 0.8] if key == "r1" else [0.8, -0.6],
        )
        for key, text in TEXTS.items()
    ]
    with MemdbStorage(path, user=USER, app=APP) as storage:
        storage.save(records)


def read_by_crewai(path: str) -> dict[str, dict[str, Any]]:
    with MemdbStorage(path, user=USER, app=APP) as storage:
        listed = {one.id for one in storage.list_records("/trip")}
        found = [one for key in listed if (one := storage.get_record(key))]
    return {one.id: one.model_dump(exclude={"embedding"}) for one in found}


@pytest.mark.parametrize("reader", READS)
def test_every_reader_has_what_crewai_stored(reader: str, tmp_path: Path) -> None:
    """The text of each record, under its scope."""
    path = str(tmp_path / "a.db")
    write_by_crewai(path)
    found = READS[reader](path)

    for key, text in TEXTS.items():
        assert found[PLACES[key], key]["content"] == text
        assert text in recall(path, text)


@pytest.mark.parametrize("writer", COPIES)
def test_crewai_reads_what_every_writer_stored(writer: str, tmp_path: Path) -> None:
    """Every field of the records but the vector."""
    path, other = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    write_by_crewai(path)
    COPIES[writer](path, other)

    assert read_by_crewai(other) == read_by_crewai(path)
    assert {key: one["content"] for key, one in read_by_crewai(other).items()} == TEXTS
    with memdb.open(other) as db:
        assert db.file.check(deep=True) == []


def test_an_import_brings_the_vectors(tmp_path: Path) -> None:
    """CrewAI's search finds the nearest record."""
    path, other = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    write_by_crewai(path)
    COPIES["import"](path, other)

    with MemdbStorage(other, user=USER, app=APP) as storage:
        nearest = storage.search([0.6, 0.8], limit=1)
    assert [one.id for one, _ in nearest] == ["r1"]
