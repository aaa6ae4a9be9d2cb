"""
Words that a program wrote with escapes are found and forgotten like those of a person.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import memdb

NAMES = ("Quintilla", "Müller", "張偉明", "عبدالرحمن")
CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}


def said(name: str) -> dict[str, dict[str, Any]]:
    """Return messages that hold a name as programs write it, by what is special."""
    written = json.dumps({"who": name, "body": f"Hi\n{name} arrives"})
    result = {"role": "tool", "tool_call_id": "c"}
    function = {"name": "write", "arguments": written}
    return {
        "a call": {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**CALL, "function": function}],
        },
        "a result": {**result, "content": written},
        "colours": {**result, "content": f"\x1b[31m{name}\x1b[0m arrives"},
        "a dict": {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "u", "name": "write", "input": {"b": f"Hi\n{name}"}}
            ],
        },
    }


def test_escapes_hide_no_word(tmp_path: Path) -> None:
    """A name in JSON's escapes, behind a line break or in colours is found, and then no byte is left."""
    for number, name in enumerate(NAMES):
        for what, message in said(name).items():
            path = tmp_path / f"{number} {what}.db"
            with memdb.open(path, embedder=None, counter="estimate", durability="process") as db:
                ann = db.user("ann")
                chat = ann.session("trip")
                chat.append("user", "hi")
                chat.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
                kept = chat.append(message)
                assert kept.to("openai") is not None
                assert len(ann.recall(name, by="words")) == 1, (name, what)
                receipt = ann.forget(person=name, prove=True)
                assert (receipt.removed["messages"], receipt.proven) == (1, True), (name, what)
            data = path.read_bytes()
            assert name.encode() not in data, (name, what)
            assert json.dumps(name)[1:-1].encode() not in data, (name, what)
