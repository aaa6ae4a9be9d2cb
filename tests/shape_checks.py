"""What three model APIs refuse, as far as their error messages and documents tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from conftest import is_installed
from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Callable


def check_openai(shape: dict[str, Any]) -> None:
    """Fail on what the chat completions API refuses."""
    due: list[str] = []
    asked, wanted = 0, None
    for one in shape["messages"]:
        if one["role"] == "function":  # what calls and results were before tools
            assert one["name"] == wanted
            continue
        wanted = one.get("function_call", {}).get("name")
        if one["role"] == "tool":
            assert one["tool_call_id"] in due
            due.remove(one["tool_call_id"])
            assert joined_text(one["content"]).strip()
            continue
        assert due == []
        calls = one.get("tool_calls")
        assert one["role"] in ("system", "developer", "user", "assistant")
        assert calls is None or one["role"] == "assistant"
        assert calls != []
        due = [each["id"] for each in calls or ()]
        asked = len(due)
        assert len(set(due)) == len(due)
        for each in calls or ():
            assert len(each["id"]) <= 40
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["function"]["name"])
            assert isinstance(each["function"]["arguments"], str)
        if isinstance(one.get("content"), list):
            kinds = {part["type"] for part in one["content"]}
            assert one["role"] == "user" or kinds <= {"text", "refusal"}
            assert all(part["type"] != "text" or part["text"].strip() for part in one["content"])
        else:
            said = one.get("content") or one.get("refusal") or one.get("audio")
            assert (said.strip() if isinstance(said, str) else said) or calls or wanted
    assert len(due) in (0, asked), "all results of a step, or none"


def joined_text(content: Any) -> str:
    """Return the words of a text or of blocks."""
    return content if isinstance(content, str) else "".join(one.get("text", "") for one in content)


def check_anthropic(shape: dict[str, Any]) -> None:
    """Fail on what the messages API refuses."""
    assert all(block["text"].strip() for block in shape.get("system", ()))
    assert shape.get("system") != []
    messages = shape["messages"]
    roles = [one["role"] for one in messages]
    assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    ids = [one["id"] for one in blocks(messages, "tool_use")]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", one) for one in ids)
    due: list[str] = []
    for place, one in enumerate(messages):
        assert one["content"]
        kinds = [block["type"] for block in one["content"]]
        answered = [block["tool_use_id"] for block in blocks([one], "tool_result")]
        assert kinds[: len(answered)] == ["tool_result"] * len(answered)
        assert len(set(answered)) == len(answered)
        assert set(answered) <= set(due)
        assert set(due) == set(answered) or (place == len(messages) - 1 and not answered)
        due = [block["id"] for block in blocks([one], "tool_use")]
        assert one["role"] == "assistant" or not due
        assert all(block["text"].strip() for block in blocks([one], "text"))
        assert all(isinstance(block["input"], dict) for block in blocks([one], "tool_use"))
        for block in blocks([one], "tool_result"):
            inner = block["content"] if isinstance(block.get("content"), list) else []
            assert all(each.get("text", "x").strip() for each in inner)
        assert all(block["signature"] for block in blocks([one], "thinking"))
        for block in blocks([one], "image"):
            kind = block["source"].get("media_type", "image/png")
            assert kind in ("image/jpeg", "image/png", "image/gif", "image/webp")
        assert one["role"] == "user" or not {"image", "tool_result"} & set(kinds)
    assert sum("cache_control" in block for one in messages for block in one["content"]) <= 4
    if messages and roles[-1] == "assistant":
        assert messages[-1]["content"][-1]["type"] not in ("thinking", "redacted_thinking")
    if messages and roles[-1] == "assistant" and "text" in messages[-1]["content"][-1]:
        assert messages[-1]["content"][-1]["text"] == messages[-1]["content"][-1]["text"].rstrip()


def blocks(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the blocks of a kind."""
    return [block for one in messages for block in one["content"] if block["type"] == kind]


def check_gemini(shape: dict[str, Any]) -> None:
    """Fail on what generateContent refuses."""
    contents = shape["contents"]
    roles = [one["role"] for one in contents]
    assert roles == (["user", "model"] * len(roles))[: len(roles)]
    called: list[str] = []
    for place, one in enumerate(contents):
        assert one["parts"]
        answered = [
            part["function_response"]["name"]
            for part in one["parts"]
            if "function_response" in part
        ]
        assert answered == called or (place == len(contents) - 1 and not answered)
        called = [part["function_call"]["name"] for part in one["parts"] if "function_call" in part]
        assert one["role"] == "model" or not called
        assert all(part["text"].strip() for part in one["parts"] if "text" in part)
        beside = {"thought_signature", "thought", "video_metadata"}
        assert all(len(set(part) - beside) == 1 for part in one["parts"])
    for part in shape.get("system_instruction", {"parts": [{"text": "x"}]})["parts"]:
        assert part["text"].strip()


def check_responses(shape: dict[str, Any]) -> None:
    """Fail on what the responses API refuses."""
    open_calls: list[str] = []
    kinds: dict[str, str] = {}
    asked = 0
    items = shape["input"]
    for place, item in enumerate(items):
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            kinds[item["call_id"]] = f"{kind}_output"
            asked = 0 if not open_calls else asked
            assert item["call_id"] not in open_calls
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"])
            open_calls.append(item["call_id"])
            asked += 1
        elif kind in ("function_call_output", "custom_tool_call_output"):
            assert item["call_id"] in open_calls
            assert kind == kinds[item["call_id"]]
            open_calls.remove(item["call_id"])
            assert item["output"]
        elif kind == "reasoning":
            follower = next(one for one in items[place:] if one.get("type") != "reasoning")
            assert follower.get("role") == "assistant" or follower["type"].endswith("_call")
        elif kind not in (None, "message"):
            continue
        else:
            assert item["role"] == "assistant" or open_calls == [], "a call has its output"
            assert item["role"] in ("system", "developer", "user", "assistant")
            assert item["content"]
            assert not isinstance(item["content"], str) or item["content"].strip()
            if item["role"] == "assistant":
                assert isinstance(item["content"], str) or item["id"]
    assert len(open_calls) in (0, asked)


def check_langchain(shape: dict[str, Any]) -> None:
    """Fail on what a model behind LangChain refuses of calls and results."""
    due: list[str] = []
    for place, one in enumerate(shape["messages"]):
        data = one["data"]
        assert one["type"] == data["type"]
        is_first = all(before["type"] == "system" for before in shape["messages"][:place])
        assert one["type"] != "system" or is_first
        if one["type"] == "tool":
            assert data["tool_call_id"] in due
            due.remove(data["tool_call_id"])
            continue
        assert due == []
        due = [call["id"] for call in data.get("tool_calls", ())]
        assert data["content"] or due


CHECKS = {
    "openai": check_openai,
    "openai-responses": check_responses,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "langchain": check_langchain,
}


def validators() -> dict[str, Callable[[Any], object]]:
    """Return what validates a request by the classes of the packages that are here."""
    made: dict[str, Callable[[Any], object]] = {}
    if is_installed("openai"):
        from openai.types.chat import ChatCompletionMessageParam
        from openai.types.responses import ResponseInputItemParam

        made["openai"] = _each(ChatCompletionMessageParam, "messages")
        made["openai-responses"] = _each(ResponseInputItemParam, "input")
    if is_installed("anthropic"):
        from anthropic.types.beta import BetaMessageParam

        made["anthropic"] = _each(BetaMessageParam, "messages")
    if is_installed("google.genai"):
        from google.genai.types import Content

        made["gemini"] = _each(Content, "contents")
    if is_installed("langchain_core"):
        from langchain_core.messages import messages_from_dict

        made["langchain"] = lambda request: messages_from_dict(request["messages"])
    return made


def _each(kind: Any, field: str) -> Callable[[Any], object]:
    """Return what validates each element of a field of a request."""
    adapter = TypeAdapter(kind)
    return lambda request: [adapter.validate_python(one) for one in request[field]]
