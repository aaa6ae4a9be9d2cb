"""Importing a conversation of LoCoMo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB

    Document = Callable[..., str]
    Told = Callable[..., list[tuple[Any, ...]]]

LOCOMO = Path(__file__).parents[2].parent / "shared" / "data" / "locomo"


@pytest.fixture
def conversation() -> dict[str, Any]:
    """Return a made-up conversation in the form of LoCoMo."""
    return {
        "speaker_a": "Ida",
        "speaker_b": "Noor",
        "session_2_date_time": "12:05 am on 1 March, 2024",
        "session_2": [{"speaker": "Noor", "dia_id": "D2:1", "text": "Back again."}],
        "session_1_date_time": "1:56 pm on 29 February, 2024",
        "session_1": [
            {"speaker": "Ida", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a red kite"},
            {"speaker": "Noor", "dia_id": "D1:2", "text": "Lovely."},
        ],
        "session_3_date_time": "12:00 pm on 2 March, 2024",
        "qa": [{"question": "Who?", "answer": "Ida", "evidence": ["D1:1"], "category": 4}],
    }


def test_sessions_in_order_with_times_and_captions(
    conversation: dict[str, Any], db: MemDB, document: Document, told: Told
) -> None:
    """Turns come a minute apart from the session's time on, in UTC."""
    report = db.import_file(document(conversation), user="ann")

    assert (report.format, report.sessions, report.messages_added) == ("locomo", 2, 3)
    assert told(db, "session_1", "role", "author", "text", "external_id", "created_ms") == [
        ("user", "Ida", "Look! [shares: a red kite]", "D1:1", 1709214960000),
        ("assistant", "Noor", "Lovely.", "D1:2", 1709215020000),
    ]
    assert told(db, "session_2", "role", "created_ms") == [("assistant", 1709251500000)]


def test_importing_twice_adds_nothing(
    conversation: dict[str, Any], db: MemDB, document: Document
) -> None:
    """Turns are known by their id, also where the conversation stands in a sample."""
    db.import_file(document(conversation), user="ann")
    sample = {"sample_id": "conv-0", "conversation": conversation}
    report = db.import_file(document(sample), user="ann")

    assert (report.messages_added, report.messages_known) == (0, 3)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param({"session_1_date_time": None}, "session_1_date_time is None", id="no time"),
        pytest.param(
            {"session_1_date_time": "1:56 pm on 8 Mai, 2024"}, "like '1:56 pm", id="month"
        ),
        pytest.param({"session_1_date_time": "1:56 pm on 31 June, 2024"}, "day is out", id="day"),
        pytest.param({"speaker_a": "Ola"}, "session_1, turn 1: 'Ida' is neither", id="speaker"),
        pytest.param(
            {"session_1": [{"speaker": "Ida"}]}, "session_1, turn 1 has no text", id="text"
        ),
        pytest.param(
            {"session_1": [{"speaker": "Ida", "text": "x"}]},
            "session_1, turn 1 has no dia_id",
            id="id",
        ),
    ],
)
def test_a_bad_conversation(
    changes: dict[str, Any],
    error: str,
    conversation: dict[str, Any],
    db: MemDB,
    document: Document,
) -> None:
    """Its session is left out; the report names session and turn."""
    report = db.import_file(document({**conversation, **changes}), user="ann")

    assert error in f"{report.left_out[0].what}, {report.left_out[0].why}"
    assert report.messages_added < 3


@pytest.mark.skipif(
    not LOCOMO.is_dir(), reason=f"no LoCoMo files in {LOCOMO.name}/ beside the repo"
)
def test_a_real_one(db: MemDB) -> None:
    """The first file of the development set is read to its last turn."""
    report = db.import_file(min(LOCOMO.glob("*.json")), user="ann")

    assert (report.sessions, report.messages_added) == (19, 419)
    assert db.scope("ann").session("session_1").get(1).created_ms == 1683554160000
