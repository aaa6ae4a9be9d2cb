"""Histories as crashes, other programs and odd models leave them: every API takes what is made."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from shape_checks import CHECKS, validators

import memdb
from memdb.adapters.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def user(*content: Any) -> dict[str, Any]:
    """Return a message of a user: a text, or blocks of Anthropic."""
    is_text = len(content) == 1 and isinstance(content[0], str)
    return {"role": "user", "content": content[0] if is_text else [*content]}


def says(*content: Any) -> dict[str, Any]:
    """Return a message of a model, as `user`."""
    return {**user(*content), "role": "assistant"}


def text(words: str, **more: Any) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": words, **more}


def use(call: str, name: str = "read", given: Any = None) -> dict[str, Any]:
    """Return a call as Anthropic's block."""
    return {"type": "tool_use", "id": call, "name": name, "input": {} if given is None else given}


def gave(call: str, content: Any = "done", **more: Any) -> dict[str, Any]:
    """Return a result as Anthropic's block."""
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def thought(words: str = "Hm.", **more: Any) -> dict[str, Any]:
    """Return a thought as Anthropic's block; `signature=` signs it."""
    return {"type": "thinking", "thinking": words, **more}


def image(mime: str = "image/png") -> dict[str, Any]:
    """Return an image as Anthropic's block."""
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": PNG}}


def asks(*calls: tuple[str, str, Any], words: Any = None, **more: Any) -> dict[str, Any]:
    """Return calls (id, name, arguments) in a message of chat completions."""
    told = [{"id": call, "type": "function", "function": {"name": name, "arguments": given}}
            for call, name, given in calls]  # fmt: skip
    return {"role": "assistant", "content": words, "tool_calls": told, **more}


def tool(call: str | None, content: Any = "done") -> dict[str, Any]:
    """Return a result in chat completions."""
    named = {} if call is None else {"tool_call_id": call}
    return {"role": "tool", **named, "content": content}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    """Return an item of Responses."""
    return {"type": kind, **fields}


def called(call: str, name: str = "read") -> dict[str, Any]:
    """Return a call of Responses."""
    return item("function_call", id=f"fc_{call}", call_id=call, name=name, arguments="{}")


def output(call: str, given: Any = "done") -> dict[str, Any]:
    """Return a result of Responses."""
    return item("function_call_output", call_id=call, output=given)


def reason(name: str = "rs_1", **more: Any) -> dict[str, Any]:
    """Return reasoning of Responses."""
    return item("reasoning", id=name, summary=[{"type": "summary_text", "text": "rain"}], **more)


def answer(name: str = "msg_1", words: str = "Take the tram.") -> dict[str, Any]:
    """Return an answer of Responses."""
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return item("message", id=name, status="completed", role="assistant", content=content)


def gemini(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """Return a content of Gemini."""
    return {"role": role, "parts": [*parts]}


def wants(name: str, **more: Any) -> dict[str, Any]:
    """Return a call of Gemini."""
    return {"functionCall": {"name": name, "args": {}, **more}}


def got(name: str, response: Any, **more: Any) -> dict[str, Any]:
    """Return a result of Gemini."""
    return {"functionResponse": {"name": name, "response": response, **more}}


LONG = "x" * 90
HISTORIES: dict[str, list[dict[str, Any]]] = {
    "one of two calls is answered": [user("both"), says(use("a"), use("b")), user(gave("a"))],
    "the second of two is answered, talk goes on": [
        user("both"), says(use("a"), use("b")), user(gave("b")), user("and now?")],
    "no call is answered, the user goes on": [user("go"), says(use("a")), user("stop")],
    "a call at the end": [user("go"), says(text("I look."), use("a"))],
    "three calls, answers in another order": [
        user("go"), says(use("a"), use("b"), use("c")), user(gave("c"), gave("a"), gave("b"))],
    "results in three messages": [
        user("go"), says(use("a"), use("b")), user(gave("a")), user("wait"), user(gave("b"))],
    "a result twice": [user("go"), says(use("a")), user(gave("a")), user(gave("a", "again"))],
    "a result before its call": [user(gave("a")), says(use("a")), user("and?")],
    "a result without any call": [user("go"), user(gave("lost")), says("Fine.")],
    "a result as the first message": [user(gave("a", "text of a file")), says("Read.")],
    "an id used in two rounds": [
        user("go"), says(use("a")), user(gave("a")), says(use("a")), user(gave("a", "2"))],
    "two calls of one id": [user("go"), says(use("a"), use("a")), user(gave("a"))],
    "ids with signs": [user("go"), says(use("fc:1|x y")), user(gave("fc:1|x y"))],
    "an id of 90 letters": [user("go"), asks((LONG, "read", "{}")), tool(LONG)],
    "no id": [user("go"), asks(("", "read", "{}")), tool("")],
    "no name": [user("go"), asks(("a", "", "{}")), tool("a")],
    "a name with dots and of 90 letters": [user("go"), asks(("a", f"fs.{LONG}", "{}")), tool("a")],
    "arguments that are a list": [user("go"), asks(("a", "read", "[1]")), tool("a")],
    "arguments cut in the middle": [user("go"), asks(("a", "read", '{"p": "a')), tool("a")],
    "arguments that are an object": [user("go"), asks(("a", "read", {"p": 1})), tool("a")],
    "arguments with NaN": [user("go"), asks(("a", "read", '{"p": NaN}')), tool("a")],
    "arguments with half a character": [
        user("go"), asks(("a", "read", '{"p": "\ud83d"}')), tool("a", "x\ud83d")],
    "no arguments": [user("go"), asks(("a", "read", "")), tool("a")],
    "a result with NUL": [user("go"), asks(("a", "read", "{}")), tool("a", "GIF89a\0;")],
    "an empty result": [user("go"), asks(("a", "read", "{}")), tool("a", "")],
    "a result of blanks": [user("go"), says(use("a")), user(gave("a", [text(" ")]))],
    "a result without content": [
        user("go"), says(use("a")), user({"type": "tool_result", "tool_use_id": "a"})],
    "a result that names no call": [user("go"), asks(("a", "read", "{}")), tool(None)],
    "a result that is JSON": [user("go"), asks(("a", "read", "{}")), tool("a", {"n": [1, None]})],
    "an image in a result": [user("go"), says(use("a")), user(gave("a", [image()]))],
    "an image of a type that none takes": [user(text("see"), image("image/bmp")), says("No.")],
    "such an image in a result": [
        user("go"), says(use("a")), user(gave("a", [image("image/tiff")]))],
    "an image of the assistant": [user("draw"), says(text("Here."), image())],
    "an unsigned thought": [user("go"), says(thought(), text("Yes."))],
    "a thought with an empty signature": [user("go"), says(thought(signature=""), use("a"))],
    "an empty thought": [user("go"), says(thought("", signature="c2ln"), text("Yes."))],
    "a thought alone at the end": [user("go"), says(thought(signature="c2ln"))],
    "a hidden thought alone": [user("go"), says({"type": "redacted_thinking", "data": "Em"})],
    "twelve marks of a cache": [
        user(text(f"page {n}", cache_control={"type": "ephemeral"})) for n in range(12)],
    "blank texts": [user(""), says(" "), user("\n"), says("Yes."), user(text(""), text("and?"))],
    "the assistant begins": [says("Hello, I am a bot."), user("hi")],
    "only the assistant": [says("One."), says("Two.")],
    "only the system": [{"role": "system", "content": "Be kind."}],
    "the same role five times": [user(word) for word in ("a", "b", "c", "d", "e")],
    "system between call and result": [
        user("go"), says(use("a")), {"role": "system", "content": "It is 9."}, user(gave("a"))],
    "the user between call and result": [user("go"), says(use("a")), user("hurry"), user(gave("a"))],
    "the assistant between call and result": [
        user("go"), says(use("a")), says("Wait."), user(gave("a"))],
    "blanks at the very end": [user("go"), says("I begin: ")],
    "reasoning at the end": [user("go"), reason()],
    "reasoning before a result": [user("go"), called("a"), reason(), output("a"), answer()],
    "reasoning twice": [user("go"), reason(), reason("rs_2"), answer()],
    "reasoning of another model": [user("go"), reason(encrypted_content="gAAA"), says("Yes.")],
    "an answer without an id": [user("go"), {**answer(), "id": ""}],
    "an answer beside an open call": [user("go"), called("a"), answer(), user("and?")],
    "calls of two kinds, one answered": [
        user("go"), called("a"),
        item("custom_tool_call", id="c1", call_id="b", name="lua", input="x()"), output("a")],
    "a compaction": [user("go"), says({"type": "compaction", "content": "So far: tea."}), user("?")],
    "a tool of the server without its result": [
        user("go"), says({"type": "server_tool_use", "id": "s", "name": "web_search",
                          "input": {"query": "tea"}}), user("and?")],
    "a function call of old": [
        user("go"), {"role": "assistant", "content": None,
                     "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "function", "name": "read", "content": "done"}],
    "Gemini's calls of one name": [
        gemini("user", {"text": "go"}), gemini("model", wants("read"), wants("read")),
        gemini("user", got("read", {"result": "1"}), got("read", {"result": "2"}))],
    "Gemini's call answered in part": [
        gemini("user", {"text": "go"}), gemini("model", wants("read"), wants("write")),
        gemini("user", got("write", {"error": "no"}))],
    "Gemini's parts of blanks": [
        gemini("user", {"text": ""}), gemini("model", {"text": " "}, {"text": "", "thought": True})],
    "Gemini's signature on nothing": [
        gemini("user", {"text": "go"}), gemini("model", {"text": "", "thoughtSignature": "Cq"})],
    "Bedrock's words alone": [
        {"role": "user", "content": [{"text": "go"}]},
        {"role": "assistant", "content": [{"text": "Yes."}, {"cachePoint": {"type": "default"}}]}],
    "five programs in turn": [
        user("go"), asks(("a", "read", "{}")), user(gave("a")), called("b"), tool("b"),
        gemini("model", wants("look")), gemini("user", got("look", {"output": "sea"})),
        {"type": "ai", "data": {"type": "ai", "content": "Sea.", "tool_calls": []}}],
}  # fmt: skip


def test_every_api_takes_a_sick_history() -> None:
    """As a context and as a window, by the published rules and the packages' own types."""
    refused = {}
    typed = validators()
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        for number, (name, said) in enumerate(HISTORIES.items()):
            chat = db.scope("u").session(f"{number}")
            chat.extend(said)
            for shape, check in CHECKS.items():
                for made in (chat.context(100_000).to(shape), Host(chat).window().to(shape)):
                    try:
                        json.dumps(made, ensure_ascii=False, allow_nan=False).encode()
                        check(made)
                        if shape in typed:
                            typed[shape](made)
                    except Exception as error:  # noqa: BLE001 (told with all others)
                        told = f"{type(error).__name__} {error}"[:200]
                        refused[f"{name}, as {shape}"] = f"{told} {json.dumps(made)}"

    assert len(HISTORIES) >= 60
    assert refused == {}


def screenshot(number: int) -> str:
    """Return the base64 of a screenshot of 300 KB whose size its header says."""
    size = struct.pack(">IIBBBBB", 1280, 800, 8, 2, 0, 0, 0)
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + size
    return base64.b64encode(head + number.to_bytes(3, "big") * 75_000).decode()


@pytest.mark.slow
def test_150_screenshots_at_a_budget_of_4000_tokens() -> None:
    """What is sent costs that by the rule of each provider, its words with o200k_base, and 4 MB."""
    rules = {"anthropic": 1_365, "openai": 1_105, "openai-responses": 1_105, "gemini": 1_032}
    found = {}
    with memdb.open(":memory:", embedder=None, counter="o200k_base") as db:
        chat = db.scope("u").session("x")
        chat.append("user", "Book the hotel in the browser.")
        for number in range(150):
            shown = {**image(), "source": {**image()["source"], "data": screenshot(number)}}
            chat.extend([says(use(f"t{number}", "computer", {"action": "screenshot"})),
                         user(gave(f"t{number}", [shown]))])  # fmt: skip
        for shape, cost in rules.items():
            made = chat.context(4_000).to(shape)
            texts = [*texts_in(made)]
            images = sum(len(one) > 200_000 for one in texts)
            words = [one for one in texts if len(one) <= 200_000]
            tokens = db.file.count_tokens(words)
            total = sum(tokens) + images * cost
            if total > 4_000 or images == 0 or len(json.dumps(made)) > 4_000_000:
                found[shape] = (total, images, len(json.dumps(made)))

    assert found == {}


def texts_in(value: Any) -> Iterator[str]:
    """Yield what a request says: texts, names, arguments and media, without its own words."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("type", "role", "id", "call_id", "tool_use_id", "tool_call_id"):
                yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)
    elif isinstance(value, str):
        yield value
