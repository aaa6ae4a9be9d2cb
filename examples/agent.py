"""
An agent in plain Python: tools, long-term memory, and a context that always fits.

    python examples/agent.py [FILE] [--model gpt-5-mini]

Without --model the answers come from a short script, so that it runs without a key.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import memdb

SYSTEM = "You plan trips. Use your tools, and remember what the user prefers."
TEXT = {"type": "string"}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": parameters}}
    for name, parameters in {
        "weather": {"type": "object", "properties": {"city": TEXT}, "required": ["city"]},
        "remember": {"type": "object", "properties": {"fact": TEXT}, "required": ["fact"]},
    }.items()
]


def call_tool(ann: memdb.Scope, chat: memdb.Session, name: str, arguments: str) -> str:
    """Run a tool: one of the agent's two, or one that looks into the conversation's memory."""
    given = json.loads(arguments)
    if name == "weather":
        return f"{given['city']}: rain, 9 degrees"
    if name == "remember":
        return ann.remember(given["fact"]).action
    return chat.tools().call(name, given)


def take_turn(ann: memdb.Scope, words: str, model: Callable[..., Any]) -> str:
    """Store what the user says, ask the model until it calls no tool, return its answer."""
    chat = ann.session("trip")
    if chat.last_seq == 0:
        chat.append("system", SYSTEM)
    chat.append("user", words)
    while True:
        request = chat.context(budget_tokens=4000, query=words).to("openai")
        answer = chat.append(model(**request, tools=TOOLS + chat.tools().schemas()))
        calls = [part for part in answer.parts or [] if part["type"] == "tool_call"]
        for call in calls:
            result = call_tool(ann, chat, call["name"], call["arguments"])
            chat.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not calls:
            return answer.text


def scripted(*, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
    """Stand in for a model: look up the weather, remember, then answer with what is known."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    steps = [("weather", {"city": "Oslo"}), ("remember", {"fact": "Ann likes trains."})]
    if len(results) < len(steps):
        name, given = steps[len(results)]
        call = {"name": name, "arguments": json.dumps(given)}
        calls = [{"id": f"call{len(results)}", "type": "function", "function": call}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": f"Take a rain coat ({results[0]})."}


def openai_model(name: str) -> Callable[..., Any]:
    """Ask OpenAI, or any server that speaks its API (OPENAI_BASE_URL)."""
    from openai import OpenAI

    client = OpenAI()
    return lambda **request: client.chat.completions.create(model=name, **request)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", default="agent.db")
    parser.add_argument("--model")
    options = parser.parse_args()
    with memdb.open(options.file) as db:
        ann = db.user("ann")
        model = openai_model(options.model) if options.model else scripted
        print(take_turn(ann, "I like trains. What shall I pack for Oslo?", model))
        print([hit.text for hit in ann.recall("What does Ann like?", kinds=["entry"])])
