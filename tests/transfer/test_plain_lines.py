"""A message of an export that is a text and no more is checked as any line is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from memdb.errors import MemDBError
from memdb.models.settings import Settings
from memdb.text.screening import SecretScreen
from memdb.transfer import messages
from memdb.transfer.lines import Item

GOOD: dict[str, Any] = {
    "session": "tea",
    "seq": 1,
    "role": "user",
    "text": "Green, please.",
    "tokens": 4,
    "counter": "cl100k_base",
    "created_ms": 1_700_000_000_000,
    "uid": "018bcfe5-6800-7000-8000-000000000001",
}
CHANGES: list[dict[str, Any]] = [
    {},
    *({name: None} for name in GOOD),
    *({name: value} for name in GOOD for value in (True, 1.5, "", [], "\0")),
    *({"seq": value} for value in (0, -1, 2, 3, 1 << 24, 1 << 70)),
    *({"tokens": value} for value in (0, -1, 1 << 63)),
    *({"created_ms": value} for value in (-1, 1 << 60, -(1 << 60))),
    *({"text": value} for value in ("お茶をください", "\ud800", "yesterday in May 2021")),
    *({"uid": value} for value in ("message-1", " ", "x" * 36, "x" * 2000)),
    *({"counter": value} for value in ("estimate", "mine", "\ud800")),
    *({"role": value} for value in ("tool", "developer")),
    *({"session": value} for value in ("coffee", {})),
    {"unknown": 1},
    {"author": "Ann"},
    {"writer": "claude-code"},
    {"metadata": {"a": 1}},
    {"category": "taste"},
]


def outcome(fields: dict[str, Any], action: str = "allow") -> object:
    """Return the line that is made of *fields*, or the error."""
    screen = SecretScreen(Settings(secrets_in_messages=action))
    target: Any = SimpleNamespace(
        services=SimpleNamespace(screen=screen),
        last_seqs={"tea": 2},
        refused={},
        is_captured=False,
    )
    try:
        return messages.read_message(target, Item("line 4", "message", dict(fields)))
    except MemDBError as error:
        return type(error), str(error)


@pytest.mark.parametrize("change", CHANGES, ids=repr)
def test_a_plain_line_is_read_or_refused_as_any_other(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same line, or the same error, as by the checks of every field."""
    found = outcome({**GOOD, **change})
    monkeypatch.setattr(messages, "PLAIN_FIELDS", frozenset())
    assert found == outcome({**GOOD, **change})


@pytest.mark.parametrize("action", ["refuse", "redact"])
def test_settings_about_secrets_hold_for_plain_lines(
    action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's own setting decides, as for `append`."""
    secret = {**GOOD, "text": "my key is sk-ant-api03-" + "abcDEF123456" * 8}
    found = outcome(secret, action)
    assert found != outcome(secret)
    monkeypatch.setattr(messages, "PLAIN_FIELDS", frozenset())
    assert found == outcome(secret, action)
