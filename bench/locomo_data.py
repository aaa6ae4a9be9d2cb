"""
Reading LoCoMo conversations: turns as messages, questions with their evidence.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import memdb

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

# A few evidence strings are malformed ("D8:6; D9:17", "D:11:26").
_EVIDENCE = re.compile(r"D:?\s*(\d+):0*(\d+)")


def files(folder: Path = FOLDER) -> list[Path]:
    """Return the conversation files, by name; [] where the data set is absent."""
    return sorted(folder.glob("*.json"))


def load(scope: memdb.Scope, path: Path, session: str | None = None) -> int:
    """
    Store the conversation at *path* in *scope*; return the number of messages.

    Its sessions stay apart, or become one that is called *session*.
    """
    content = json.loads(path.read_text())
    talk = content.get("conversation", content)
    count = 0
    number = 1
    while f"session_{number}_date_time" in talk:
        start = _time_ms(talk[f"session_{number}_date_time"])
        turns = [
            memdb.NewMessage(
                "user" if turn["speaker"] == talk["speaker_a"] else "assistant",
                _said(turn),
                author=turn["speaker"],
                external_id=turn["dia_id"],
                created_ms=start + 60_000 * place,
            )
            for place, turn in enumerate(talk.get(f"session_{number}") or [])
        ]
        scope.session(session or f"session_{number}").extend(turns)
        count += len(turns)
        number += 1
    return count


def questions(path: Path, known: set[str]) -> list[tuple[str, str, set[str]]]:
    """Return (question, category, evidence ids) for each question with usable evidence."""
    found = []
    for item in json.loads(path.read_text())["qa"]:
        evidence = {
            f"D{day}:{turn}"
            for text in item.get("evidence") or []
            for day, turn in _EVIDENCE.findall(text)
        } & known
        if evidence:
            found.append((item["question"], CATEGORIES[item["category"]], evidence))
    return found


def _said(turn: dict[str, str]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares: {caption}]" if caption else turn["text"]


def _time_ms(text: str) -> int:
    moment = datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
