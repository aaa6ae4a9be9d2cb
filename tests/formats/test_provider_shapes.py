"""Recorded shapes: each goes in whole, is shown, is found, and goes back; to every provider."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from shape_checks import CHECKS

import memdb
from memdb.adapters.host import Host
from memdb.formats.originals import original_of
from memdb.formats.provider_messages import plain_value, read_messages

DATA = Path(__file__).parent / "data"
# Recorded of the packages, and written after the documents of the providers: what each says, and
# in which role. The second are those of other programs too, whose own form is not made.
RECORDED = json.loads((DATA / "shapes.json").read_text("utf-8"))["shapes"]
DESCRIBED = [
    {**one, "words": [words for _, words in one["says"]]}
    for one in json.loads((DATA / "described.json").read_text("utf-8"))
]
SHAPES = RECORDED + DESCRIBED
FORMATS = tuple(CHECKS)
BEFORE = {"role": "user", "text": "Begin."}
AFTER_OF = "openai-responses"  # takes no reasoning without the item behind it
AFTER = {"type": "message", "id": "msg_9", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}  # fmt: skip


def call_before(stored: list[memdb.NewMessage]) -> list[dict[str, Any]]:
    """Return an assistant's message that makes the calls which *stored* answers."""
    called = {
        part["tool_call_id"]: part.get("name", "any")
        for message in stored
        for part in message.parts or ()
        if part["type"] == "tool_result" and part["tool_call_id"]
    }
    if not called:
        return []
    calls = [
        {"type": "tool_call", "id": key, "name": name, "arguments": {}}
        for key, name in called.items()
    ]
    return [{"role": "assistant", "parts": calls}]


def given_back(made: dict[str, Any], provider: str) -> list[Any]:
    """Return what a format gives as messages or items: blocks where it merges messages."""
    if provider == "openai-responses":
        return list(made["input"])
    field = {"gemini": "contents"}.get(provider, "messages")
    found = [*made[field]]
    if provider in ("anthropic", "gemini"):
        inner = "parts" if provider == "gemini" else "content"
        found = [block for message in found for block in message[inner]]
        found = [*made.get("system", ()), *found]
    return found


def expected_back(value: Any, provider: str) -> list[Any]:  # noqa: PLR0911 (a case each)
    """Return what must come back of a recorded *value*: its messages, or their blocks."""
    value = plain_value(value, "value")
    if isinstance(value, list):
        return [one for each in value for one in expected_back(each, provider)]
    if "choices" in value:
        return [value["choices"][0]["message"]]
    if "candidates" in value:
        return expected_back(value["candidates"][0]["content"], provider)
    if "output" in value and "call_id" not in value and "type" not in value:
        return value["output"]
    if provider == "gemini":
        return value["parts"]
    if provider == "anthropic":
        content = value["content"]
        return [{"type": "text", "text": content}] if isinstance(content, str) else content
    if provider == "langchain":
        told = value.get("kwargs", value.get("data", value))
        return [{"type": told["type"], "data": told}]
    return [value]


def words_in_json(value: Any) -> str:
    """Return a JSON value as text in which words of any depth can be searched."""
    return json.dumps(value, ensure_ascii=False).replace('\\\\"', '"').replace('\\"', '"')


def without_none(value: Any) -> Any:
    """Return a message without fields that are None."""
    return {key: inner for key, inner in value.items() if inner is not None}


def faults_of(
    scope: memdb.Scope, check: Callable[[memdb.Session, dict[str, Any]], None]
) -> dict[str, str]:
    """Return which shapes fail a check, each in a new session, and how."""
    faults = {}
    for number, shape in enumerate(SHAPES):
        name = f"{number} {shape['provider']} {shape['name']}"
        try:
            check(scope.session(f"{check.__name__} {name}"), shape)
        except Exception as error:  # noqa: BLE001 (told with all others)
            faults[name] = f"{type(error).__name__} {error}"
    return faults


@pytest.fixture(scope="module")
def scope() -> Iterator[memdb.Scope]:
    """Return a scope whose sessions the tests make."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        yield db.scope("ann")


def is_whole_and_found(chat: memdb.Session, shape: dict[str, Any]) -> None:
    """Nothing is empty, the words are in the text of their role, and recall finds each of them."""
    stored = chat.extend([shape["value"]])

    assert stored
    text = "\n".join(message.text for message in stored)
    assert all(message.text.strip() and message.tokens for message in stored)
    for words in shape["words"]:
        assert words in text
        assert chat.recall(words, kinds=("message",), by="words", min_score=0).hits
    for role, words in shape.get("says", ()):
        assert {one.role for one in stored if words in one.text} == {role}, words
    assert [*chat.messages()] == stored


def goes_back_equal(chat: memdb.Session, shape: dict[str, Any]) -> None:
    """Every field comes back to its provider, but for those that are None."""
    provider = shape["provider"]
    read = read_messages(shape["value"])
    if provider not in FORMATS:  # these have no format: the original is kept
        is_kept = [original_of(message.parts, provider) is not None for message in read]
        assert all(is_kept) or provider not in ("adk", "bedrock", "pydantic-ai")
        return
    ends = [AFTER] if shape["name"].startswith("reasoning") and provider == AFTER_OF else []
    before = [] if isinstance(shape["value"], list) else call_before(read)
    chat.extend([BEFORE, *before, *read, *ends])

    made = given_back(Host(chat).window().to(provider), provider)
    made = made[: len(made) - len(ends)]
    if any(message.role == "system" for message in read) and provider in ("langchain", "anthropic"):
        made = made[1:] + made[:1]  # the first, for every model

    expected = [*map(without_none, expected_back(shape["value"], provider))]
    assert [*map(without_none, made)][-len(expected) :] == expected


def goes_back_beside_a_blank(chat: memdb.Session, shape: dict[str, Any]) -> None:
    """A blank text among the blocks of a message, which APIs refuse, costs nothing but itself."""
    value = plain_value(shape["value"], "value")
    blocks = value.get("content") if isinstance(value, dict) else None
    blank = {"type": "text", "text": " "}
    if shape["provider"] in ("openai", "anthropic") and isinstance(blocks, list):
        chat.extend(
            [BEFORE, *call_before(read_messages(value)), {**value, "content": [*blocks, blank]}]
        )
        made = given_back(Host(chat).window().to(shape["provider"]), shape["provider"])
        expected = [*map(without_none, expected_back(value, shape["provider"]))]
        assert all(one in [*map(without_none, made)] for one in expected)


def goes_to_every_provider(chat: memdb.Session, shape: dict[str, Any]) -> None:
    """As each API takes it, and without a lost word."""
    chat.extend([BEFORE])
    chat.append(shape["value"])
    window = Host(chat).window()

    for other in FORMATS:
        made = window.to(other)
        if other != shape["provider"]:
            CHECKS[other](made)
        told = words_in_json(made).replace("\\\\", "\\")
        assert [words for words in shape["words"] if words not in told] == []


def test_every_shape_is_whole_and_found(scope: memdb.Scope) -> None:
    """What was recorded, and what the providers' documents describe."""
    assert faults_of(scope, is_whole_and_found) == {}


def test_every_shape_goes_back_equal(scope: memdb.Scope) -> None:
    """To its own provider, also where a blank text stands beside it."""
    assert faults_of(scope, goes_back_equal) == {}
    assert faults_of(scope, goes_back_beside_a_blank) == {}


def test_every_shape_goes_to_every_provider(scope: memdb.Scope) -> None:
    """By the rules of each."""
    assert faults_of(scope, goes_to_every_provider) == {}


def test_the_packages_take_what_is_made_for_them(scope: memdb.Scope) -> None:
    """Every shape for OpenAI and Gemini, by the classes of openai and google-genai."""
    chat_types = pytest.importorskip("openai.types.chat")
    item_types = pytest.importorskip("openai.types.responses")
    genai = pytest.importorskip("google.genai.types")
    from pydantic import TypeAdapter

    message_type = TypeAdapter(chat_types.ChatCompletionMessageParam)
    item_type = TypeAdapter(item_types.ResponseInputItemParam)
    chat = scope.session("all")
    for shape in SHAPES:
        if shape["name"] not in ("mcp approval", "computer output"):
            chat.append(shape["value"])
    window = Host(chat).window()

    for message in window.to("openai")["messages"]:
        message_type.validate_python(message)
    for item in window.to("openai-responses")["input"]:
        item_type.validate_python(item)
    for content in window.to("gemini")["contents"]:
        genai.Content.model_validate(content)


def test_a_message_alone_is_the_same_at_each_place(scope: memdb.Scope) -> None:
    """Its ids and fields do not depend on the messages before it, which `to` was not asked for."""
    wrong = []
    for number, shape in enumerate(SHAPES):
        first, later = (scope.session(f"{number} {one}") for one in ("first", "later"))
        later.append(BEFORE)
        later.append({"role": "assistant", "text": "Begun."})
        made = [
            [[one.to(name) for one in stored] for name in FORMATS]
            for stored in (first.extend([shape["value"]]), later.extend([shape["value"]]))
        ]
        if made[0] != made[1]:
            wrong.append(shape["name"])
    assert wrong == []
