"""The door for messages of providers: objects, what is not understood, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each

import memdb
from memdb import InvalidInput, MemDB
from memdb.formats.originals import original_of
from memdb.formats.provider_messages import provider_of, read_messages

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def deep(levels: int) -> Any:
    """Return an object of so many levels."""
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


class Dumps:
    """An object as pydantic's."""

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        """Return the fields."""
        return {"role": "assistant", "content": "dumped"}


class AsDict:
    """An object as older packages have it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"role": "user", "content": "to_dict"}


class Roles(StrEnum):
    """A role as an enum, as some packages have it."""

    USER = "user"


@dataclass
class Data:
    """An object as Pydantic AI's."""

    role: Roles = Roles.USER
    content: list[Any] = field(default_factory=lambda: [{"type": "text", "text": "data"}])


@pytest.mark.parametrize(
    ("value", "role", "text"),
    [
        (Dumps(), "assistant", "dumped"),
        (AsDict(), "user", "to_dict"),
        (Data(), "user", "data"),
        (SimpleNamespace(role="system", content="attributes"), "system", "attributes"),
        (memdb.NewMessage("user", "its own"), "user", "its own"),
        (SimpleNamespace(raw_item={"role": "user", "content": "run"}), "user", "run"),
    ],
)
def test_an_object_gives_its_fields(value: Any, role: str, text: str) -> None:
    """By whichever way it has; no package is imported."""
    (message,) = read_messages(value)

    assert message.role == role
    assert message.text == text or message.parts[0]["text"] == text


def test_the_objects_of_openai_s_package(db: MemDB) -> None:
    """As they come; those of google-genai and ADK in tests/integrations/with_adk."""
    chat_types = pytest.importorskip("openai.types.chat")
    message = chat_types.ChatCompletionMessage(role="assistant", content="from openai")

    stored = db.scope("ann").session("s").append(message)

    assert (stored.role, stored.text) == ("assistant", "from openai")


@each(
    "value, kinds, warning",
    [
        ({"role": "user", "content": [{"type": "hologram", "of": "a cup"}]}, "other", "hologram"),
        ({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f"}}]},
         "tool_call", "no id"),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]},
         "tool_call", "no name"),
        ({"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]},
         "tool_call", "not a JSON object"),
        ({"role": "tool", "content": "42"}, "tool_result", "names no call"),
        ({"role": "assistant", "content": ""}, "other", "is empty"),
        ({"type": "new_thing", "words": "of tomorrow"}, "other", "new_thing"),
        ({"role": "model", "parts": [{"hologram": {"of": "a cup"}}]}, "other", "part type"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_kept_with_a_warning(
    db: MemDB, value: Any, kinds: str, warning: str
) -> None:
    """Shown, found, whole; the stored message has the warning, also when it is read again."""
    chat = db.scope("ann").session("s")

    stored = chat.append(value)

    assert kinds in {part["type"] for part in stored.parts}
    assert stored.text.strip()
    assert any(warning in one for one in stored.warnings)
    assert chat.get(stored.seq).warnings == stored.warnings


@each(
    "value, named",
    [
        (5, "message is int"),
        (None, "message is NoneType"),
        (object(), "message is object"),
        ({}, "message.role is missing"),
        ({"content": "no role"}, "message.role is missing"),
        ({"role": "robot", "content": "x"}, "message.role is 'robot'"),
        ({"parts": [{"text": "x"}]}, "message.role is missing"),
        (
            [{"role": "user", "content": "a"}, {"role": 7, "content": "b"}],
            r"message\[1\].role is 7",
        ),
        ({"role": "user", "content": [{"type": "x", "n": deep(190)}]}, "nested over"),
    ],
)
def test_bad_input_is_refused_and_named(db: MemDB, value: Any, named: str) -> None:
    """Before anything is written."""
    chat = db.scope("ann").session("s")

    with pytest.raises(InvalidInput, match=named):
        chat.append(value)

    assert chat.last_seq == 0


OWN = {
    "author": "Ida",
    "external_id": "m1",
    "created": "2020-01-02",
    "created_ms": 1_577_923_200_000,
    "metadata": {"page": 3},
    "uid": "01a22386-05bd-7c59-96f4-ac9c6140050b",
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "4"},
                {"type": "text", "text": "Hello."},
            ],
        },
    ],
    ids=["text", "blocks", "call", "two messages"],
)
def test_fields_of_memdb_count_in_a_provider_s_message(
    db: MemDB, message: dict[str, Any], name: str
) -> None:
    """They are stored as in a dict of memdb, and the provider gets its message without them."""
    plain, chat = db.scope("ann").session("plain"), db.scope("ann").session("chat")
    plain.append(message)
    chat.append(message | {name: OWN[name]})

    field = "created_ms" if name == "created" else name
    first, *others = [getattr(one, field) for one in chat.messages()]
    assert first == OWN[field]
    alone = name in ("external_id", "uid")
    assert all((one == OWN[field]) is not alone for one in others)
    assert [plain.context(1000).to(shape) for shape in ("openai", "anthropic")] == [
        chat.context(1000).to(shape) for shape in ("openai", "anthropic")
    ]


def test_too_large_is_refused(db: MemDB) -> None:
    """Over 64 MiB in one part."""
    chat = db.scope("ann").session("s")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (65 << 20)}}

    with pytest.raises(memdb.TooLarge):
        chat.append({"role": "user", "content": [image]})

    assert chat.last_seq == 0


def test_results_of_tools_beside_words_are_messages_of_their_own(db: MemDB) -> None:
    """Anthropic and Gemini name both "user"."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": "done"}
    chat = db.scope("ann").session("s")

    told, said = chat.extend(
        [{"role": "user", "content": [result, {"type": "text", "text": "Now?"}]}]
    )

    assert (told.role, told.text) == ("tool", "done")
    assert (said.role, said.text) == ("user", "Now?")
    assert chat.append("user", parts=[result]).role == "tool"
    with pytest.raises(InvalidInput, match="to append, which"):
        chat.append("user", parts=[result, {"type": "text", "text": "Now?"}])


def test_an_image_is_stored_once(db: MemDB) -> None:
    """The original points to the part."""
    data = "QUJD" * 5000
    url = f"data:image/png;base64,{data}"
    stored = (
        db.scope("ann")
        .session("s")
        .append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    )

    assert str(stored.parts).count(data) == 1
    assert stored.to("openai")["messages"][0]["content"][0]["image_url"]["url"] == url


@pytest.mark.parametrize("key", ["$", "a"])
def test_a_key_like_a_pointer_comes_back(db: MemDB, key: str) -> None:
    """An original that has the pointer's key is kept without pointers."""
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {key: [0, "text"]}}
    message = {"role": "assistant", "content": [{"type": "text", "text": "I do."}, use]}
    stored = db.scope("ann").session("s").append(message)

    assert stored.to("anthropic")["messages"][-1]["content"] == message["content"]


def test_a_message_without_a_sign_is_openais() -> None:
    """Role and text are the same everywhere."""
    assert provider_of({"role": "user", "content": "hi"}) == "openai"
    assert provider_of({"text": "hi"}) == ""


def test_bedrock_results_are_a_tool_s_beside_a_user_s_words() -> None:
    """Messages of the Converse API, and of Strands, whose blocks are named by their key."""
    content = [
        {"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"json": {"n": 1}}]}},
        {"text": "Go on."},
        {"image": {"format": "png", "source": {"bytes": b"abc"}}},
        {"document": {"format": "pdf", "name": "plan", "source": {"text": "Pack the tent."}}},
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/v.mp4"}}}},
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"guardContent": {"text": {"text": "Is it safe?"}}},
        {"citationsContent": {"content": [{"text": "As p. 3 says."}], "citations": []}},
        {"cachePoint": {"type": "default"}},
    ]
    tool, user = read_messages({"role": "user", "content": content})

    assert (tool.role, tool.parts[0]) == (
        "tool",
        {"type": "tool_result", "tool_call_id": "c1", "content": {"n": 1}, "is_error": True},
    )
    assert [(part["type"], part.get("text", "")) for part in user.parts[:-1]] == [
        ("text", "Go on."), ("image", ""), ("file", "Pack the tent."), ("file", ""),
        ("thinking", "Hm."), ("text", "Is it safe?"), ("text", "As p. 3 says."), ("other", ""),
    ]  # fmt: skip
    assert user.parts[1]["media_type"] == "image/png"
    assert user.parts[3]["url"] == "s3://b/v.mp4"


def test_a_bedrock_call_is_a_call() -> None:
    """With its arguments as an object, and the message whole beside it."""
    call = {"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"path": "/"}}}
    given = {"role": "assistant", "content": [{"text": "I look."}, call]}
    (message,) = read_messages(given)

    assert message.parts[1] == {
        "type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "/"},
    }  # fmt: skip
    assert original_of(message.parts, "bedrock") == given
