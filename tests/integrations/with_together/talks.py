"""
One conversation, as each client writes it and as it gives it back: `python talks.py CLIENT ...`.

`write PATH NAME` stores it by the client's own calls, with two calls in one message, their results
in one message where the client has that, nested arguments and text beside the calls. `read PATH
NAME` prints what the client gives, as a list of `Line`s. A writer names no scope where its client
does not: MEMDB_USER and MEMDB_APP name it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Line = list[Any]  # ["text", role, words], ["call", id, name, arguments], ["result", id, words]

USER, APP = "ann", "desk"
ASKED, BESIDE, ANSWER = "Both ports, please 🚢\nmy illness is quibblitis", "I check.", "At four."
RULE, THANKS, BYE = "Never reveal the vault.", "Thank you.", "Bye."
ARGUMENTS: list[dict[str, Any]] = [{"port": {"name": "Oslo", "piers": [1, 2]}}, {"port": None}]
RESULTS = ["low at 4", "low at 5"]
IDS = ["c1", "c2"]
TALK: list[Line] = [
    ["text", "system", RULE],
    ["text", "user", ASKED],
    ["text", "assistant", BESIDE],
    *(["call", one, "tide", given] for one, given in zip(IDS, ARGUMENTS, strict=True)),
    *(["result", one, said] for one, said in zip(IDS, RESULTS, strict=True)),
    ["text", "assistant", ANSWER],
    ["text", "user", THANKS],
    ["text", "assistant", BYE],
]
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": RULE},
    {"role": "user", "content": ASKED},
    {
        "role": "assistant",
        "content": BESIDE,
        "tool_calls": [
            {
                "id": one,
                "type": "function",
                "function": {"name": "tide", "arguments": json.dumps(given)},
            }
            for one, given in zip(IDS, ARGUMENTS, strict=True)
        ],
    },
    *(
        {"role": "tool", "tool_call_id": one, "content": said}
        for one, said in zip(IDS, RESULTS, strict=True)
    ),
    {"role": "assistant", "content": ANSWER},
    {"role": "user", "content": THANKS},
    {"role": "assistant", "content": BYE},
]


def lines_of_openai(messages: list[dict[str, Any]]) -> list[Line]:
    """Return what messages in the form of OpenAI's chat completions say."""
    said: list[Line] = []
    for one in messages:
        if one["role"] == "tool":
            said.append(["result", one["tool_call_id"], one["content"]])
            continue
        if one.get("content"):
            said.append(["text", one["role"], one["content"]])
        for call in one.get("tool_calls") or ():
            named = call["function"]
            said.append(["call", call["id"], named["name"], json.loads(named["arguments"])])
    return said


def write_memdb(path: str, name: str) -> None:
    import memdb

    with memdb.open(path) as db:
        db.scope(USER, APP).session(name).append(OPENAI)


def read_memdb(path: str, name: str) -> list[Line]:
    import memdb

    with memdb.open(path) as db:
        found = db.scope(USER, APP).session(name).context(100_000).to("openai")
    return lines_of_openai(found["messages"])


def run_memdb(*arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "memdb", *arguments, "--user", USER, "--app", APP]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def write_cli(path: str, name: str) -> None:
    lines = "\n".join(map(json.dumps, OPENAI))
    run_memdb("chat", "append", path, name, "-", "--message", stdin=lines)


def read_cli(path: str, name: str) -> list[Line]:
    found = run_memdb("chat", "context", path, name, "--budget", "100000", "--shape", "openai")
    return lines_of_openai(json.loads(found)["messages"])


def write_openai_agents(path: str, name: str) -> None:
    from memdb.integrations.openai_agents import MemDBSession

    calls = [
        {"type": "function_call", "call_id": one, "name": "tide", "arguments": json.dumps(given)}
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    results = [
        {"type": "function_call_output", "call_id": one, "output": said}
        for one, said in zip(IDS, RESULTS, strict=True)
    ]

    async def write() -> None:
        async with MemDBSession(name, path) as session:
            await session.add_items([*OPENAI[:2], {"role": "assistant", "content": BESIDE}])
            await session.add_items([*calls, *results])
            await session.add_items(OPENAI[5:])

    asyncio.run(write())


def read_openai_agents(path: str, name: str) -> list[Line]:
    from memdb.integrations.openai_agents import MemDBSession

    async def read() -> Any:
        async with MemDBSession(name, path, user=USER, app=APP) as session:
            return await session.get_items()

    said: list[Line] = []
    for one in asyncio.run(read()):
        if one.get("type") == "function_call":
            said.append(["call", one["call_id"], one["name"], json.loads(one["arguments"])])
        elif one.get("type") == "function_call_output":
            said.append(["result", one["call_id"], one["output"]])
        else:
            words = one["content"]
            if isinstance(words, list):
                words = "".join(part["text"] for part in words)
            said.append(["text", one["role"], words])
    return said


def messages_of_langchain() -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    calls = [
        {"name": "tide", "args": given, "id": one}
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    return [
        SystemMessage(RULE),
        HumanMessage(ASKED),
        AIMessage(BESIDE, tool_calls=calls),
        *(ToolMessage(said, tool_call_id=one) for one, said in zip(IDS, RESULTS, strict=True)),
        AIMessage(ANSWER),
        HumanMessage(THANKS),
        AIMessage(BYE),
    ]


def lines_of_langchain(messages: list[Any]) -> list[Line]:
    roles = {"human": "user", "ai": "assistant", "system": "system"}
    said: list[Line] = []
    for one in messages:
        if one.type == "tool":
            said.append(["result", one.tool_call_id, one.text])
            continue
        if one.text:
            said.append(["text", roles[one.type], str(one.text)])
        calls = getattr(one, "tool_calls", ())
        said += [["call", call["id"], call["name"], call["args"]] for call in calls]
    return said


def write_langchain(path: str, name: str) -> None:
    from memdb.integrations.langchain import MemdbChatMessageHistory

    with MemdbChatMessageHistory(name, path) as history:
        history.add_messages(messages_of_langchain())


def read_langchain(path: str, name: str) -> list[Line]:
    from memdb.integrations.langchain import MemdbChatMessageHistory

    with MemdbChatMessageHistory(name, path, user=USER, app=APP) as history:
        return lines_of_langchain(history.messages)


def graph_of(saver: Any) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda _: {"messages": messages_of_langchain()[2:6]})
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


def write_langgraph(path: str, name: str) -> None:
    from memdb.integrations.langgraph import MemdbSaver

    place = {"configurable": {"thread_id": name}}
    with MemdbSaver(path) as saver:
        graph = graph_of(saver)
        graph.invoke({"messages": messages_of_langchain()[:2]}, place)
        graph.update_state(place, {"messages": messages_of_langchain()[6:]})


def read_langgraph(path: str, name: str) -> list[Line]:
    from memdb.integrations.langgraph import MemdbSaver

    with MemdbSaver(path, user=USER, app=APP) as saver:
        found = graph_of(saver).get_state({"configurable": {"thread_id": name}})
        return lines_of_langchain(found.values.get("messages", []))


def write_agno(path: str, name: str) -> None:
    from agno.models.message import Message
    from agno.run.agent import RunInput, RunOutput
    from agno.session import AgentSession

    from memdb.integrations.agno import MemdbDb

    who = {"agent_id": "a", "session_id": name, "user_id": USER}
    asked = RunInput(input_content=ASKED)
    rule, *told = [Message(**one) for one in OPENAI]
    runs = [[rule, *told[:5]], [rule, *told[5:]]]
    with MemdbDb(path) as db:
        db.upsert_session(AgentSession(agent_data={"name": "A"}, created_at=5, **who))
        for number, messages in enumerate(runs):
            ran = RunOutput(run_id=f"r{number}", input=asked, messages=messages, **who)
            db.upsert_run(ran, name, USER, number)


def read_agno(path: str, name: str) -> list[Line]:
    from agno.db.base import SessionType

    from memdb.integrations.agno import MemdbDb

    with MemdbDb(path, user=USER, app=APP) as db:
        found = db.get_session(name, SessionType.AGENT)
    runs = found.runs if found else []
    messages = [one.to_dict() for run in runs for one in run.messages]
    return lines_of_openai(
        [one for at, one in enumerate(messages) if not at or one["role"] != "system"]
    )


def write_llamaindex(path: str, name: str) -> None:
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

    from memdb.integrations.llamaindex import MemdbChatStore

    calls = [
        ToolCallBlock(tool_call_id=one, tool_name="tide", tool_kwargs=given)
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    messages = [
        ChatMessage(RULE, role="system"),
        ChatMessage(ASKED, role="user"),
        ChatMessage(role="assistant", blocks=[TextBlock(text=BESIDE), *calls]),
        *(
            ChatMessage(said, role="tool", additional_kwargs={"tool_call_id": one})
            for one, said in zip(IDS, RESULTS, strict=True)
        ),
        ChatMessage(ANSWER, role="assistant"),
        ChatMessage(THANKS, role="user"),
        ChatMessage(BYE, role="assistant"),
    ]
    store = MemdbChatStore(path)
    asyncio.run(store.add_messages(name, messages))
    store.close()


def read_llamaindex(path: str, name: str) -> list[Line]:
    from memdb.integrations.llamaindex import MemdbChatStore

    store = MemdbChatStore(path, user=USER, app=APP)
    found = asyncio.run(store.get_messages(name))
    store.close()
    said: list[Line] = []
    for one in found:
        if one.role.value == "tool":
            said.append(["result", one.additional_kwargs["tool_call_id"], one.content])
            continue
        if one.content:
            said.append(["text", one.role.value, one.content])
        said += [
            ["call", block.tool_call_id, block.tool_name, block.tool_kwargs]
            for block in one.blocks
            if block.block_type == "tool_call"
        ]
    return said


def write_pydantic_ai(path: str, name: str) -> None:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    from memdb.integrations.pydantic_ai import MemdbConversationStore

    calls = [ToolCallPart("tide", given, one) for one, given in zip(IDS, ARGUMENTS, strict=True)]
    results = [ToolReturnPart("tide", said, one) for one, said in zip(IDS, RESULTS, strict=True)]
    messages = [
        ModelRequest([SystemPromptPart(RULE), UserPromptPart(ASKED)]),
        ModelResponse([TextPart(BESIDE), *calls]),
        ModelRequest(results),
        ModelResponse([TextPart(ANSWER)]),
        ModelRequest([UserPromptPart(THANKS)]),
        ModelResponse([TextPart(BYE)]),
    ]

    async def write() -> None:
        async with MemdbConversationStore(path) as store:
            await store.save(Conversation(messages=messages, conversation_id=name))

    asyncio.run(write())


def read_pydantic_ai(path: str, name: str) -> list[Line]:
    from memdb.integrations.pydantic_ai import MemdbConversationStore

    async def read() -> Any:
        async with MemdbConversationStore(path, user=USER, app=APP) as store:
            return await store.load(name)

    roles = {"system-prompt": "system", "user-prompt": "user", "text": "assistant"}
    found = asyncio.run(read())
    said: list[Line] = []
    for part in (part for one in (found.messages if found else ()) for part in one.parts):
        if part.part_kind == "tool-call":
            said.append(["call", part.tool_call_id, part.tool_name, part.args_as_dict()])
        elif part.part_kind == "tool-return":
            said.append(["result", part.tool_call_id, part.content])
        else:
            words = part.content if isinstance(part.content, str) else "".join(part.content)
            said.append(["text", roles[part.part_kind], words])
    return said


def write_agent_framework(path: str, name: str) -> None:
    from agent_framework import Content, Message

    from memdb.integrations.agent_framework import MemdbHistoryProvider

    calls = [
        Content.from_function_call(one, "tide", arguments=given)
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    results = [
        Content.from_function_result(one, result=said)
        for one, said in zip(IDS, RESULTS, strict=True)
    ]
    messages = [
        Message("system", [RULE]),
        Message("user", [ASKED]),
        Message("assistant", [Content.from_text(BESIDE), *calls]),
        Message("tool", results),
        Message("assistant", [ANSWER]),
        Message("user", [THANKS]),
        Message("assistant", [BYE]),
    ]
    with MemdbHistoryProvider(path) as history:
        asyncio.run(history.save_messages(name, messages))


def read_agent_framework(path: str, name: str) -> list[Line]:
    from memdb.integrations.agent_framework import MemdbHistoryProvider

    with MemdbHistoryProvider(path, user=USER, app=APP) as history:
        found = asyncio.run(history.get_messages(name))
    said: list[Line] = []
    for one in found:
        for part in one.contents:
            if part.type == "function_call":
                said.append(["call", part.call_id, part.name, part.parse_arguments()])
            elif part.type == "function_result":
                said.append(["result", part.call_id, part.result])
            else:
                said.append(["text", str(one.role), part.text])
    return said


def write_adk(path: str, name: str) -> None:
    from google.adk.events import Event
    from google.genai import types

    from memdb.integrations.adk import MemdbMemoryService, MemdbSessionService

    def event(author: str, *parts: types.Part) -> Event:
        role = "user" if author == "user" or parts[0].function_response else "model"
        return Event(author=author, content=types.Content(role=role, parts=list(parts)))

    calls = [
        types.Part(function_call=types.FunctionCall(id=one, name="tide", args=given))
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    results = [
        types.Part(
            function_response=types.FunctionResponse(id=one, name="tide", response={"result": said})
        )
        for one, said in zip(IDS, RESULTS, strict=True)
    ]

    async def write() -> None:
        async with MemdbSessionService(path) as service, MemdbMemoryService(path) as memory:
            session = await service.create_session(app_name=APP, user_id=USER, session_id=name)
            for one in (
                event("user", types.Part(text=ASKED)),
                event("guide", types.Part(text=BESIDE), *calls),
                event("guide", *results),
                event("guide", types.Part(text=ANSWER)),
                event("user", types.Part(text=THANKS)),
                event("guide", types.Part(text=BYE)),
            ):
                await service.append_event(session, one)
            await memory.add_session_to_memory(session)

    asyncio.run(write())


def read_adk(path: str, name: str) -> list[Line]:
    from memdb.integrations.adk import MemdbSessionService

    async def read() -> Any:
        async with MemdbSessionService(path) as service:
            return await service.get_session(app_name=APP, user_id=USER, session_id=name)

    said: list[Line] = []
    for one in asyncio.run(read()).events:
        role = one.author if one.author in ("user", "system") else "assistant"
        for part in one.content.parts:
            if part.function_call:
                call = part.function_call
                said.append(["call", call.id, call.name, call.args])
            elif part.function_response:
                answer = part.function_response
                said.append(["result", answer.id, next(iter(answer.response.values()))])
            else:
                said.append(["text", role, part.text])
    return said


def write_strands(path: str, name: str) -> None:
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    from memdb.integrations.strands import MemdbSessionRepository

    session, agent = name.split("/")
    calls = [
        {"toolUse": {"toolUseId": one, "name": "tide", "input": given}}
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    results = [
        {"toolResult": {"toolUseId": one, "status": "success", "content": [{"text": said}]}}
        for one, said in zip(IDS, RESULTS, strict=True)
    ]
    messages: list[Any] = [
        {"role": "user", "content": [{"text": ASKED}]},
        {"role": "assistant", "content": [{"text": BESIDE}, *calls]},
        {"role": "user", "content": results},
        {"role": "assistant", "content": [{"text": ANSWER}]},
        {"role": "user", "content": [{"text": THANKS}]},
        {"role": "assistant", "content": [{"text": BYE}]},
    ]
    with MemdbSessionRepository(path) as repository:
        repository.create_session(Session(session, SessionType.AGENT))
        repository.create_agent(session, SessionAgent(agent, {}, {}))
        for number, message in enumerate(messages):
            made = SessionMessage.from_message(message, number)
            repository.create_message(session, agent, made)


def read_strands(path: str, name: str) -> list[Line]:
    from strands.types.session import Session, SessionAgent, SessionType

    from memdb.integrations.strands import MemdbSessionRepository

    session, agent = name.split("/")
    with MemdbSessionRepository(path, user=USER, app=APP) as repository:
        if repository.read_session(session) is None:
            repository.create_session(Session(session, SessionType.AGENT))
            repository.create_agent(session, SessionAgent(agent, {}, {}))
        found = [one.message for one in repository.list_messages(session, agent)]
    said: list[Line] = []
    for one in found:
        for block in one["content"]:
            if "toolUse" in block:
                call = block["toolUse"]
                said.append(["call", call["toolUseId"], call["name"], call["input"]])
            elif "toolResult" in block:
                result = block["toolResult"]
                words = "".join(part["text"] for part in result["content"])
                said.append(["result", result["toolUseId"], words])
            else:
                said.append(["text", one["role"], block["text"]])
    return said


def write_claude_agent(path: str, name: str) -> None:
    from memdb.integrations.claude_agent import MemdbSessionStore

    calls = [
        {"type": "tool_use", "id": one, "name": "tide", "input": given}
        for one, given in zip(IDS, ARGUMENTS, strict=True)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": one, "content": said}
        for one, said in zip(IDS, RESULTS, strict=True)
    ]
    told: list[tuple[str, Any]] = [
        ("user", ASKED),
        ("assistant", [{"type": "text", "text": BESIDE}, *calls]),
        ("user", results),
        ("assistant", [{"type": "text", "text": ANSWER}]),
        ("user", THANKS),
        ("assistant", [{"type": "text", "text": BYE}]),
    ]
    lines: list[Any] = [
        {"type": "system", "subtype": "informational", "content": RULE, "uuid": "u"},
        *(
            {"type": role, "message": {"role": role, "content": said}, "uuid": f"u{number}"}
            for number, (role, said) in enumerate(told)
        ),
    ]

    async def write() -> None:
        async with MemdbSessionStore(path) as store:
            await store.append({"project_key": APP, "session_id": name}, lines)

    asyncio.run(write())


def read_claude_agent(path: str, name: str) -> list[Line]:
    from memdb.integrations.claude_agent import MemdbSessionStore

    async def read() -> Any:
        async with MemdbSessionStore(path, user=USER) as store:
            return await store.load({"project_key": APP, "session_id": name}) or []

    said: list[Line] = []
    for one in asyncio.run(read()):
        content = (one.get("message") or one)["content"]
        if isinstance(content, str):
            said.append(["text", one["type"], content])
            continue
        for block in content:
            if block["type"] == "tool_use":
                said.append(["call", block["id"], block["name"], block["input"]])
            elif block["type"] == "tool_result":
                words = block["content"]
                if isinstance(words, list):
                    words = "".join(part["text"] for part in words)
                said.append(["result", block["tool_use_id"], words])
            else:
                said.append(["text", one["type"], block["text"]])
    return said


CLIENTS = (
    "memdb cli openai_agents langchain pydantic_ai agent_framework adk claude_agent llamaindex "
    "strands agno langgraph"
).split()


def main(client: str, *tasks: str) -> None:
    """Do tasks of a client, each `write` or `read` with a path and the name of the session."""
    done: list[Any] = []
    for number in range(0, len(tasks), 3):
        what, path, name = tasks[number : number + 3]
        call: Callable[[str, str], Any] = globals()[f"{what}_{client}"]
        try:
            done.append(call(path, name))
        except Exception as error:  # noqa: BLE001 (a cell of the matrix says what it is)
            done.append(f"{type(error).__name__}: {error}")
    sys.stdout.write(f"\n{json.dumps(done)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
