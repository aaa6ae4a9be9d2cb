"""
Content that no provider sends: it is refused by name, or stored so that every request can be made.
"""

from __future__ import annotations

from typing import Any

import pytest

import memdb

ODD: list[Any] = [
    *(1, None, [], "x", {}, {"type": None}, {"type": 5}, {"type": "text"}),
    *({"type": "text", "text": one} for one in (None, 5, "", [])),
    *({"type": kind} for kind in "image_url input_image image document thinking".split()),
    *({"type": kind} for kind in "tool_use tool_result input_text refusal file".split()),
    *({"type": "image_url", "image_url": one} for one in (5, None, {}, {"url": 7})),
    {"type": "image", "source": None},
    {"type": "document", "source": 3},
    {"type": "refusal", "refusal": None},
    {"type": "tool_result", "tool_use_id": 1, "content": [1, None, "x", {"type": "text"}]},
]
FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "langchain")
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def requests(chat: memdb.Session) -> None:
    """Make a request of a conversation, and of its last message alone, for each provider."""
    for name in FORMATS:
        chat.context(4_000).to(name)  # type: ignore[arg-type]  # a name of the list above
        chat.last(1)[-1].to(name)  # type: ignore[arg-type]  # a name of the list above


def test_no_content_makes_a_conversation_unusable() -> None:
    """Each odd block, alone and beside a text, in each role: a memdb error, or every request."""
    stored = 0
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        for role in ("user", "assistant", "tool", "system"):
            for number, block in enumerate(ODD):
                for form, content in enumerate(
                    ([block], [{"type": "text", "text": "a"}, block], block)
                ):
                    chat = db.user("ann").session(f"{role} {number} {form}")
                    chat.append("user", "hi")
                    message = {"role": role, "content": content}
                    if role == "tool":
                        chat.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
                        message["tool_call_id"] = "c"
                    try:
                        chat.append(message)
                    except memdb.InvalidInput:
                        continue
                    stored += 1
                    requests(chat)
    assert stored > 100


@pytest.mark.parametrize("nothing", [[], ()])
def test_what_holds_no_message_is_refused(nothing: Any) -> None:
    """An empty list in place of a message is named."""
    with (
        memdb.open(":memory:", embedder=None) as db,
        pytest.raises(memdb.InvalidInput, match="role"),
    ):
        db.user("ann").session("s").append(nothing)
