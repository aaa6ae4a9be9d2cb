"""Conversations as providers' packages leave them, cut anywhere: every format is one an API takes."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from shape_checks import CHECKS, validators

import memdb
from memdb.formats.provider_messages import read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
WORDS = ["Deploy it.", "We fly on 3 May.", "漢字", "", " ", "a\0b", "x\ud83d", "Yes.\n"]


class Writer:
    """Writes a conversation at random, in the form of one provider."""

    def __init__(self, seed: int) -> None:
        """Begin; the same *seed* gives the same conversation."""
        self.random = Random(seed)
        self.number = 0

    def next_id(self, prefix: str) -> str:
        """Return an id, now and then an odd or a used one."""
        self.number += 1
        odd = self.random.choice(["", f"{prefix}:{self.number}|x", f"{prefix}1"])
        return odd if self.random.random() < 0.1 else f"{prefix}{self.number}"

    def words(self) -> str:
        """Return some words, or none."""
        return self.random.choice(WORDS)

    def calls(self) -> list[tuple[str, str, str, bool]]:
        """Return up to three calls: id, name, arguments, and whether it is answered."""
        made = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            arguments = self.random.choice(["{}", '{"path": "a"}', "", "[1]", '{"a": NaN}'])
            name = self.random.choice(["read", "run.it", "write-file"])
            made.append((self.next_id("c"), name, arguments, self.random.random() < 0.8))
        return made

    def marked(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a block of Anthropic, often with a mark for the cache."""
        mark = {"cache_control": {"type": "ephemeral"}}
        return {**block, **mark} if self.random.random() < 0.5 else block

    def anthropic(self) -> list[dict[str, Any]]:
        """Return a turn of a user, a model and its tools."""
        pick = self.random.choice
        mime = pick(["image/png", "image/bmp"])
        image = {
            "type": "image",
            "source": {"type": "base64", "media_type": mime, "data": PNG},
        }
        said: list[dict[str, Any]] = [
            {"role": "user", "content": pick([self.words() or "Hi", [self.marked(
                {"type": "text", "text": self.words() or "Hi"}), image]])}]  # fmt: skip
        thought = {"type": "thinking", "thinking": pick(["Hm.", ""]), "signature": "c2ln"}
        if self.random.random() < 0.5:
            del thought["signature"]
        content: list[dict[str, Any]] = [thought] if self.random.random() < 0.6 else []
        if self.random.random() < 0.6:
            content.append(self.marked({"type": "text", "text": self.words()}))
        if self.random.random() < 0.1:
            content.append({"type": "compaction", "content": "What was said."})
        calls = self.calls() if self.random.random() < 0.7 else []
        content += [self.marked({"type": "tool_use", "id": key, "name": name.replace(".", "_"),
                                 "input": {}}) for key, name, _, _ in calls]  # fmt: skip
        said.append({"role": "assistant", "content": content})
        results = [
            self.marked(
                {
                    "type": "tool_result",
                    "tool_use_id": key,
                    "content": pick(["ok", "", [{"type": "text", "text": " "}], [image],
                                     [{"type": "text", "text": "seen"}, image]]),
                }
            )
            for key, _, _, is_answered in calls
            if is_answered
        ]  # fmt: skip
        if results and self.random.random() < 0.3:
            results.append({"type": "text", "text": "and go on"})
        return [*said, *([{"role": "user", "content": results}] if results else [])]

    def openai(self) -> list[dict[str, Any]]:
        """Return the same in the form of chat completions."""
        said: list[dict[str, Any]] = [{"role": "user", "content": self.words()}]
        if self.random.random() < 0.2:
            said.append({"role": "system", "content": "Be kind."})
        calls = self.calls() if self.random.random() < 0.7 else []
        functions = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
            for key, name, arguments, _ in calls
        ]
        answer = {"role": "assistant", "content": self.words() or None}
        said.append({**answer, "tool_calls": functions} if functions else answer)
        said += [
            {"role": "tool", "tool_call_id": key, "content": self.words()}
            for key, _, _, is_answered in calls
            if is_answered
        ]
        return said

    def responses(self) -> list[dict[str, Any]]:
        """Return the same as items of Responses, with reasoning that may lack what follows."""
        said: list[dict[str, Any]] = [{"role": "user", "content": self.words() or "Hi"}]
        if self.random.random() < 0.5:
            summary = [{"type": "summary_text", "text": "rain"}] * self.random.choice([0, 1])
            said.append({"type": "reasoning", "id": self.next_id("rs_"), "summary": summary})
        calls = self.calls() if self.random.random() < 0.6 else []
        said += [
            {"type": "function_call", "id": f"fc_{key}", "call_id": key, "name": name,
             "arguments": arguments, "status": "completed"}
            for key, name, arguments, _ in calls
        ]  # fmt: skip
        if self.random.random() < 0.4:
            text = {"type": "output_text", "text": self.words() or "Yes", "annotations": []}
            said.append({"type": "message", "id": self.next_id("msg_"), "role": "assistant",
                         "status": "completed", "content": [text]})  # fmt: skip
        said += [
            {"type": "function_call_output", "call_id": key, "output": self.words() or "ok"}
            for key, _, _, is_answered in calls
            if is_answered
        ]
        return said

    def gemini(self) -> list[dict[str, Any]]:
        """Return the same in the form of Gemini's REST API."""
        names = [name for _, name, _, _ in self.calls()] if self.random.random() < 0.7 else []
        said: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": self.words() or "Hi"}]}]
        parts: list[dict[str, Any]] = [{"text": "Hm.", "thought": True}, {"text": "Yes."}]
        parts += [{"functionCall": {"name": name, "args": {}}} for name in names]
        said.append({"role": "model", "parts": parts})
        results = [{"functionResponse": {"name": name, "response": {"result": "ok"}}}
                   for name in names if self.random.random() < 0.8]  # fmt: skip
        return [*said, *([{"role": "user", "parts": results}] if results else [])]

    def langchain(self) -> list[dict[str, Any]]:
        """Return the same in LangChain's form, roles of somebody's own too."""
        kind = self.random.choice(["human", "human", "chat", "system"])
        data = {"content": self.words() or "Hi", "type": kind, "role": "reviewer"}
        calls = self.calls() if self.random.random() < 0.6 else []
        told = [{"type": "tool_call", "id": key or None, "name": name, "args": {}}
                for key, name, _, _ in calls]  # fmt: skip
        answer = {"content": self.words(), "type": "ai", "tool_calls": told}
        results = [{"type": "tool", "data": {"type": "tool", "content": "ok", "tool_call_id": key}}
                   for key, _, _, is_answered in calls if is_answered and key]  # fmt: skip
        return [{"type": kind, "data": data}, {"type": "ai", "data": answer}, *results]


FORMS: dict[str, Callable[[Writer], list[dict[str, Any]]]] = {
    "anthropic": Writer.anthropic,
    "openai": Writer.openai,
    "openai-responses": Writer.responses,
    "gemini": Writer.gemini,
    "langchain": Writer.langchain,
}


def conversation(seed: int) -> tuple[str, list[dict[str, Any]]]:
    """Return the provider of a conversation at random, and its messages."""
    writer = Writer(seed)
    provider = writer.random.choice([*FORMS])
    turns = writer.random.randint(1, 3)
    said = [one for _ in range(turns) for one in FORMS[provider](writer)]
    return provider, said[writer.random.choice([0, 0, 0, 1]) :]


def refused_of(seeds: range) -> list[str]:
    """Return what is refused of every prefix of the conversations, in every format."""
    refused = []
    typed = validators()
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        for seed in seeds:
            provider, said = conversation(seed)
            chat = db.scope("u").session(f"{seed}")
            for end, one in enumerate(said):
                chat.extend(read_messages(one))
                made = chat.context(100_000)
                for shape, check in CHECKS.items():
                    try:
                        request = made.to(shape)
                        json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
                        check(request)
                        if shape in typed:
                            typed[shape](request)
                        if shape == "openai-responses":
                            bare = made.to(shape, provider_ids=False)
                            check(bare)
                            assert not any(
                                {"id", "encrypted_content"} & {*i} for i in bare["input"]
                            )
                            _ = shape in typed and typed[shape](bare)
                    except Exception as error:  # noqa: BLE001 (told with all others)
                        told = str(error).splitlines()[0] if str(error) else ""
                        refused.append(f"{seed}[{end}] {provider} as {shape}: "
                                       f"{type(error).__name__} {told[:90]}")  # fmt: skip
    return refused


def test_a_prefix_of_any_conversation_is_taken_by_every_api() -> None:
    """Twenty conversations; `test_many_prefixes...` has the rest."""
    assert refused_of(range(20)) == []


@pytest.mark.slow
def test_many_prefixes_of_conversations_are_taken_by_every_api() -> None:
    """Three hundred conversations, 1,727 requests in each of the formats."""
    assert refused_of(range(300)) == []
