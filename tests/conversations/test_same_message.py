"""Which messages are the same: one that is added under a known external id, by every way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB

FIRST = {
    "role": "user",
    "text": "Look at this.",
    "external_id": "m1",
    "author": "ann",
    "metadata": {"n": 1},
    "parts": [
        {"type": "text", "text": "Look at this."},
        {"type": "image", "url": "https://example.com/a.png"},
    ],
}
OTHER = {
    "role": {"role": "assistant"},
    "text": {"text": "Look at that.", "parts": None},
    "parts": {"parts": [FIRST["parts"][0], {"type": "image", "url": "https://example.com/b.png"}]},
    "author": {"author": "bob"},
    "metadata": {"metadata": {"n": 2}},
}


def _import(db: MemDB, folder: Path, *said: dict[str, Any]) -> str | None:
    fine = {"role": "user", "text": "fine", "session": "fine"}
    lines = "".join(json.dumps(one) + "\n" for one in (fine, *said))
    (folder / "chat.jsonl").write_text(lines, encoding="utf-8")
    named = {"user": "ann", "session": "chat"}
    trial = db.import_file(folder / "chat.jsonl", dry_run=True, **named)
    report = db.import_file(folder / "chat.jsonl", **named)
    assert (trial.messages_known, trial.left_out) == (report.messages_known, report.left_out)
    return report.left_out[0].why if report.left_out else None


def _import_twice(db: MemDB, folder: Path, said: dict[str, Any]) -> str | None:
    db.user("ann").session("chat").delete()
    return _import(db, folder, FIRST, said)


def _through(call: Callable[[Any, dict[str, Any]], object]) -> Callable[..., str | None]:
    def act(db: MemDB, _folder: Path, said: dict[str, Any]) -> str | None:
        try:
            call(db.user("ann").session("chat"), said)
        except memdb.AlreadyExists as error:
            return str(error)
        return None

    return act


# By door: which other fields make it a different message, which the door refuses.
DOORS = {
    "append": (
        ("role", "text", "parts"),
        _through(lambda chat, said: chat.append(said.pop("role"), **said)),
    ),
    "extend": (("role", "text", "parts"), _through(lambda chat, said: chat.extend([said]))),
    "commit": (("role", "text", "parts"), _through(lambda chat, said: Host(chat).commit(said))),
    "prepare": (
        ("role", "text", "parts"),
        _through(lambda chat, said: Host(chat).prepare([said])()),
    ),
    "keep": ((), _through(lambda chat, said: chat.extend([said], keep=True))),
    "import": (("role", "text"), _import),
    "import twice": (("role", "text"), _import_twice),
}


@pytest.mark.parametrize("door", DOORS)
def test_another_message_under_a_known_id(db: MemDB, tmp_path: Path, door: str) -> None:
    """It is refused, or the stored one stays as it is: nothing is replaced."""
    refused, come = DOORS[door]
    chat = db.user("ann").session("chat")
    chat.extend([FIRST])
    for name, other in OTHER.items():
        why = come(db, tmp_path, {**FIRST, **other})

        assert (why is not None) == (name in refused), name
        (stored,) = chat.messages(limit=5)
        said = [getattr(stored, field) for field in ("role", "text", "author", "metadata")]
        assert said == [FIRST[field] for field in ("role", "text", "author", "metadata")]
        assert stored.parts is not None
        assert stored.parts[1]["url"] == "https://example.com/a.png"
