"""Summaries come with an export, and bring back nothing that was forgotten."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB

TURNS = [{"role": "user", "text": f"Day {n}: we see the museum number {n}."} for n in range(1, 80)]


@pytest.fixture
def told(file_db: MemDB, tmp_path: Path) -> Path:
    """Return an export of a session with summaries of two levels."""
    file_db.scope("ann").session("long").extend(TURNS)
    file_db.jobs.run()
    file_db.export(tmp_path / "one.jsonl")
    return tmp_path / "one.jsonl"


def texts(db: MemDB, session: str = "long") -> list[tuple[int, str | None]]:
    """Return depth and text of each summary."""
    found = db.scope("ann").session(session).summaries.tree().summaries
    return [(one.depth, one.text) for one in found]


def test_those_of_a_model_are_not_lost(
    file_db: MemDB, told: Path, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """They cost money; pruned ones come as pruned; a second import adds none."""
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "summary" and line["depth"]:
            line |= {"text": "Ann saw them all.", "quality": "model", "summarizer": "gpt"}
        elif line["kind"] == "summary" and line["first_seq"] == 1:
            del line["text"]
    told.write_text("\n".join(map(json.dumps, lines)))
    copy = open_db(str(tmp_path / "copy.db"))
    first = copy.import_file(told)
    second = copy.import_file(told)

    assert first.summaries_added == len(texts(file_db)) > 7
    assert (second.summaries_added, copy.jobs.run()) == (0, 0)
    assert (1, "Ann saw them all.") in texts(copy)
    assert [
        row[0] for row in copy.query("SELECT first_seq FROM summaries WHERE text IS NULL").rows
    ] == [1]
    assert copy.scope("ann").recall("saw them all", kinds=["summary"])
    assert copy.file.check(deep=True) == []


def test_none_tells_of_a_message_that_is_not_here(
    told: Path, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Nor do those that stand on such a one."""
    lines = [line for line in told.read_text().splitlines() if "number 33." not in line[:300]]
    kept = [line for line in told.read_text().splitlines() if '"kind":"summary"' in line]
    told.write_text("\n".join([one for one in lines if one not in kept] + kept))
    copy = open_db(str(tmp_path / "copy.db"))
    report = copy.import_file(told)

    assert report.messages_added == len(TURNS) - 1
    assert report.summaries_added == 4  # of 1 to 30, and the one that stands for them
    assert not any("number 33." in (text or "") for _, text in texts(copy))
    copy.jobs.run()
    assert copy.file.check(deep=True) == []


def test_another_session_of_that_name_keeps_its_own(
    told: Path, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Their messages have other seqs there."""
    copy = open_db(str(tmp_path / "copy.db"))
    copy.scope("ann").session("long").append("user", "I was here first.")
    report = copy.import_file(told)

    assert (report.messages_added, report.summaries_added) == (79, 0)
    copy.jobs.run()
    assert copy.file.check(deep=True) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("depth", -1),
        ("depth", 32),
        ("first_seq", 0),
        ("quality", "best"),
        ("tokens", -1),
        ("text", "a\0b"),
        ("source_hash", 3),
        ("colour", "red"),
    ],
)
def test_a_wrong_field_is_named(
    told: Path, open_db: Callable[..., MemDB], tmp_path: Path, field: str, value: Any
) -> None:
    """With its line."""
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    number = next(n for n, line in enumerate(lines) if line["kind"] == "summary")
    lines[number][field] = value
    told.write_text("\n".join(map(json.dumps, lines)))

    with pytest.raises(InvalidInput, match=f"line {number + 1}: .*{field}"):
        open_db(str(tmp_path / "copy.db")).import_file(told)


@pytest.mark.parametrize(
    "change", [{"last_seq": 11}, {"first_seq": 2}, {"source_hash": "00"}, {"depth": 1}]
)
def test_a_line_that_does_not_fit_is_left_out(
    told: Path, open_db: Callable[..., MemDB], tmp_path: Path, change: dict[str, Any]
) -> None:
    """With those that stand on it; they are made anew."""
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    next(line for line in lines if line["kind"] == "summary").update(change)
    told.write_text("\n".join(map(json.dumps, lines)))
    copy = open_db(str(tmp_path / "copy.db"))

    assert copy.import_file(told).summaries_added == 0
    assert copy.jobs.run() > 7
    assert copy.file.check(deep=True) == []


def test_secrets_are_screened(told: Path, open_db: Callable[..., MemDB], tmp_path: Path) -> None:
    """As those of messages are."""
    key = "sk-proj-" + "a1B2" * 12
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    next(line for line in lines if line["kind"] == "summary")["text"] = f"The key is {key}."
    told.write_text("\n".join(map(json.dumps, lines)))
    refusing = open_db(str(tmp_path / "a.db"), settings={"secrets_in_messages": "refuse"})
    (left,) = refusing.import_file(told).left_out
    redacting = open_db(str(tmp_path / "b.db"), settings={"secrets_in_messages": "redact"})
    redacting.import_file(told)

    assert "text holds a secret" in left.why
    assert not any(key in (text or "") for _, text in texts(refusing))
    assert any("REDACTED" in (text or "") for _, text in texts(redacting))
    assert not any(key in (text or "") for _, text in texts(redacting))
