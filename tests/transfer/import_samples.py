"""
Recorded samples of what other programs keep, a record at a time.

Each format has a function that gives one record with a word in its text, and one that writes
some records as the program does. The shapes are those of real exports, the words are not.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import sqlite_utils

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb.api.database import MemDB

AT = "2025-03-01T09:30:00Z"
AT_S = 1_740_821_400.25


def chatgpt(word: str) -> Any:
    """Return a conversation of ChatGPT: a question with an image, thoughts, a call, an answer."""

    def node(name: str, parent: str | None, role: str, content: Any, **more: Any) -> Any:
        message = {
            "id": f"{word}-{name}",
            "author": {"role": role, "name": more.pop("tool", None), "metadata": {}},
            "create_time": AT_S,
            "content": content,
            "status": "finished_successfully",
            "metadata": more.pop("metadata", {}),
            "recipient": more.pop("recipient", "all"),
        }
        key = f"{word}-{name}"
        return key, {"id": key, "message": message, "parent": parent, "children": []}

    def text(words: str) -> Any:
        return {"content_type": "text", "parts": [words]}

    image = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-1",
        "metadata": {"dalle": {"prompt": "a tent"}},
    }
    asked = {"content_type": "multimodal_text", "parts": [image, f"Where is the {word}?"]}
    thought = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c"}]}
    nodes = [
        node("root", None, "system", text(""), metadata={"is_visually_hidden": True}),
        node("q", f"{word}-root", "user", asked),
        node("t", f"{word}-q", "assistant", thought),
        node("c", f"{word}-t", "assistant", text("search()"), recipient="web.run"),
        node("r", f"{word}-c", "tool", text("In the cellar."), tool="web.run"),
        node("a", f"{word}-r", "assistant", text(f"The {word} is in the cellar.")),
    ]
    return {
        "id": f"c-{word}",
        "conversation_id": f"c-{word}",
        "title": f"About {word}",
        "create_time": AT_S,
        "update_time": AT_S,
        "mapping": dict(nodes),
        "current_node": f"{word}-a",
        "gizmo_id": "g-p-1",
        "default_model_slug": "gpt-5",
    }


def claude(word: str) -> Any:
    """Return a conversation of Claude: an attachment, a call, an artifact."""
    made = {
        "type": "tool_use",
        "name": "artifacts",
        "input": {
            "id": f"plan-{word}",
            "command": "create",
            "type": "text/markdown",
            "title": "Plan",
            "content": f"Pack the {word}.",
        },
    }
    return {
        "uuid": f"c-{word}",
        "name": f"About {word}",
        "created_at": AT,
        "updated_at": AT,
        "account": {"uuid": "me"},
        "project": {"uuid": "p1", "name": "Trip"},
        "chat_messages": [
            {
                "uuid": f"{word}-1",
                "sender": "human",
                "text": f"Where is the {word}?",
                "content": [{"type": "text", "text": f"Where is the {word}?", "citations": []}],
                "created_at": AT,
                "attachments": [{"file_name": "list.txt", "extracted_content": f"{word} list"}],
                "files": [{"file_uuid": "f1", "file_name": "photo.png"}],
            },
            {
                "uuid": f"{word}-2",
                "sender": "assistant",
                "text": "",
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": word}},
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"text": "cellar"}]},
                    made,
                    {"type": "text", "text": f"The {word} is in the cellar."},
                ],
                "created_at": AT,
                "attachments": [],
                "files": [],
            },
        ],
    }


def grok(word: str) -> Any:
    """Return a conversation of Grok."""
    when = {"$date": {"$numberLong": "1740819600000"}}
    said = [("human", f"Where is the {word}?"), ("ASSISTANT", f"The {word} is here.")]
    responses = [
        {
            "_id": f"{word}-{n}",
            "message": text,
            "sender": who,
            "model": "grok-3",
            "create_time": when,
        }
        for n, (who, text) in enumerate(said)
    ]
    about = {"id": f"c-{word}", "title": f"About {word}", "create_time": AT}
    return {"conversation": about, "responses": [{"response": one} for one in responses]}


def gemini(word: str) -> Any:
    """Return an activity of Gemini's."""
    return {
        "header": "Gemini Apps",
        "title": f"Prompted Where is the {word}?",
        "time": f"2025-03-01T10:00:00.{len(word)}00Z",
        "products": ["Gemini Apps"],
        "safeHtmlItem": [{"html": f"<p>The <b>{word}</b> is &amp; stays here.</p>"}],
    }


def mem0(word: str) -> Any:
    """Return a memory of mem0."""
    return {
        "id": f"m-{word}",
        "memory": f"Ann owns a {word}.",
        "hash": "x",
        "user_id": "ann",
        "metadata": {"from": "chat"},
        "categories": ["things"],
        "created_at": "2025-03-01T09:30:00.123456-07:00",
        "updated_at": None,
    }


def mcp_memory(word: str) -> Any:
    """Return an entity of the MCP memory server."""
    return {
        "type": "entity",
        "name": f"Ann {word}",
        "entityType": "person",
        "observations": [f"owns a {word}"],
    }


def openai(word: str) -> Any:
    """Return an example of a fine-tuning file."""
    function = {"name": "find", "arguments": '{"q": "x"}'}
    return {
        "messages": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": f"Where is the {word}?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "In the cellar."},
            {"role": "assistant", "content": f"The {word} is in the cellar."},
        ]
    }


def jsonl(word: str) -> Any:
    """Return a line by hand."""
    return {
        "session": "trip",
        "role": "user",
        "text": f"Where is the {word}?",
        "author": "Ann",
        "created_at": AT,
        "id": f"m-{word}",
        "metadata": {"mood": "x"},
    }


def locomo(word: str) -> Any:
    """Return the turns of a session of LoCoMo."""
    return [
        {
            "speaker": "Ida",
            "dia_id": f"D{word}:1",
            "text": f"Look, a {word}!",
            "blip_caption": "kite",
        },
        {"speaker": "Noor", "dia_id": f"D{word}:2", "text": f"The {word} is lovely."},
    ]


def llm(word: str) -> Any:
    """Return a response in the logs of llm."""
    return {
        "id": f"r-{word}",
        "model": "gpt",
        "prompt": f"Where is the {word}?",
        "system": "Be kind.",
        "response": f"The {word} is here.",
        "conversation_id": f"c-{word}",
        "datetime_utc": "2025-03-01T10:00:00",
    }


def langgraph(word: str) -> Any:
    """Return an item of LangGraph's SqliteStore."""
    return {
        "prefix": "notes.trip",
        "key": f"k-{word}",
        "value": json.dumps({"text": f"the {word}"}),
        "created_at": "2025-03-01 10:00:00",
        "updated_at": "2025-03-01 10:00:00",
        "expires_at": None,
        "ttl_minutes": 5,
    }


def table(word: str) -> Any:
    """Return a row of a table of messages."""
    return {
        "text": f"Where is the {word}?",
        "role": "user",
        "author": "Ann",
        "time": AT,
        "session": "trip",
        "id": f"m-{word}",
    }


def note(word: str) -> Any:
    """Return a note in Markdown with front matter."""
    return {word: f"---\ntitle: The {word}\ntags: [trip]\n---\nThe {word} is [[here]]. #tent\n"}


def chatgpt_thread(
    *nodes: tuple[str, str | None, str], current: str, title: str = "Trip"
) -> dict[str, Any]:
    """Return a conversation of ChatGPT of (id, parent, words); questions have ids with "q"."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    for one, parent, words in nodes:
        message = {
            "id": one,
            "author": {"role": "user" if one.startswith("q") else "assistant", "name": None},
            "create_time": 1.7e9,
            "content": {"content_type": "text", "parts": [words]},
        }
        mapping[one] = {"id": one, "message": message, "parent": parent or "root", "children": []}
    return {
        "id": "c1",
        "title": title,
        "create_time": 1.7e9,
        "mapping": mapping,
        "current_node": current,
    }


def claude_thread(
    *nodes: tuple[str, str | None, str],
    current: str,
    title: str = "Trip",
    is_said: bool = False,
) -> dict[str, Any]:
    """
    Return a conversation of Claude of (id, parent, words); questions have ids with "q".

    Args:
        current: The newest, which is on the screen.
        is_said: The export names it.
    """
    times = [f"2025-03-01T09:30:{number:02}Z" for number in range(len(nodes))]
    conversation: dict[str, Any] = {
        "uuid": "c1",
        "name": title,
        "created_at": AT,
        "chat_messages": [
            {
                "uuid": one,
                "sender": "human" if one.startswith("q") else "assistant",
                "text": words,
                "content": [{"type": "text", "text": words}],
                "created_at": "2025-03-01T09:31:00Z" if one == current and not is_said else at,
                "attachments": [],
                "files": [],
                "parent_message_uuid": parent or "00000000-0000-4000-8000-000000000000",
            }
            for (one, parent, words), at in zip(nodes, times, strict=True)
        ],
    }
    if is_said:
        conversation["current_leaf_message_uuid"] = current
    return conversation


def grok_thread(
    *nodes: tuple[str, str | None, str],
    current: str,
    title: str = "Trip",
    is_said: bool = False,
) -> dict[str, Any]:
    """Return a conversation of Grok, with the arguments of `claude_thread`."""
    newest = None if is_said else current
    responses = [
        {
            "_id": one,
            "sender": "human" if one.startswith("q") else "ASSISTANT",
            "message": words,
            "create_time": {"$date": {"$numberLong": f"{1740819600000 + at}"}},
        }
        | ({"parent_response_id": parent} if parent else {})
        for (one, parent, words), at in (
            (node, 9_000 if node[0] == newest else number) for number, node in enumerate(nodes)
        )
    ]
    about = {"id": "c1", "title": title, "create_time": AT}
    about["leaf_response_id"] = current if is_said else "not in the export"
    return {"conversation": about, "responses": [{"response": one} for one in responses]}


Q1, A1 = ("q1", None, "Where to?"), ("a1", "q1", "Oslo.")
Q2, A2 = ("q2", "a1", "By train?"), ("a2", "q2", "Yes, by train.")
EDITED, ANSWER = ("q2b", "a1", "By ship?"), ("a2b", "q2b", "Yes, by ship.")
FIRST, REPLY = ("q1b", None, "Where else?"), ("a1b", "q1b", "Bergen.")
AGAIN = ("a1c", "q1", "Oslo, of course.")
LATER = ("q3", "a2b", "When?")


# What was exported first, and later; each with what is on the screen then.
EDITS: dict[str, tuple[list[Any], str, list[Any], str]] = {
    "a later question": ([Q1, A1, Q2, A2], "a2", [Q1, A1, Q2, A2, EDITED, ANSWER], "a2b"),
    "the first question": ([Q1, A1], "a1", [Q1, A1, FIRST, REPLY], "a1b"),
    "an answer": ([Q1, A1], "a1", [Q1, A1, AGAIN], "a1c"),
    "two edits": ([Q1, A1, Q2, A2], "a2", [Q1, A1, Q2, A2, EDITED, ANSWER, LATER, AGAIN], "q3"),
    "a question that had no answer": ([Q1, A1, Q2], "q2", [Q1, A1, Q2, EDITED, ANSWER], "a2b"),
    "back to the old way": (
        [Q1, A1, EDITED, ANSWER],
        "a2b",
        [Q1, A1, EDITED, ANSWER, Q2, A2],
        "a2",
    ),
}


def ways(db: MemDB) -> set[tuple[str, ...]]:
    """Return the words of the session and of each branch, as they were said."""
    chat = db.scope("ann").session("c1")
    heads = [chat, *[chat.branch(one.name) for one in chat.branches()]]
    return {tuple(message.external_id or "" for message in head.messages()) for head in heads}


def _json(name: str, wrap: Callable[[list[Any]], Any] = list) -> Callable[[Path, list[Any]], Path]:
    def write(folder: Path, records: list[Any]) -> Path:
        (folder / name).write_text(json.dumps(wrap(records), indent=1))
        return folder / name

    return write


def _lines(name: str) -> Callable[[Path, list[Any]], Path]:
    def write(folder: Path, records: list[Any]) -> Path:
        (folder / name).write_text("".join(f"{json.dumps(one)}\n" for one in records))
        return folder / name

    return write


def _locomo(records: list[Any]) -> Any:
    talk: dict[str, Any] = {"speaker_a": "Ida", "speaker_b": "Noor"}
    for number, turns in enumerate(records, start=1):
        talk[f"session_{number}"] = turns
        talk[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2024"
    return talk


def _database(*tables: str) -> Callable[[Path, list[Any]], Path]:
    def write(folder: Path, records: list[Any]) -> Path:
        other = sqlite_utils.Database(sqlite3.connect(folder / "other.db"))
        for name in tables:
            other.table(name).create({key: type(value or "") for key, value in records[0].items()})
            for one in records:
                columns, marks = ", ".join(one), ", ".join("?" for _ in one)
                values = [
                    value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
                    for value in one.values()
                ]
                cast = ", ".join("CAST(? AS TEXT)" for _ in one) if marks else ""
                other.execute(f"INSERT INTO {name} ({columns}) VALUES ({cast})", values)
        other.conn.commit()
        other.close()
        return folder / "other.db"

    return write


def _csv(folder: Path, records: list[Any]) -> Path:
    path = folder / "trip.csv"
    with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return path


def _vault(folder: Path, records: list[Any]) -> Path:
    (folder / "vault").mkdir()
    for record in records:
        for name, text in record.items():
            path = folder / "vault" / f"{name[:20].encode('ascii', 'ignore').decode()}.md"
            path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return folder / "vault"


# By format: a record with a word in it, and how a file of some records is written.
SAMPLES: dict[str, tuple[Callable[[str], Any], Callable[[Path, list[Any]], Path]]] = {
    "chatgpt": (chatgpt, _json("conversations.json")),
    "claude": (claude, _json("conversations.json")),
    "grok": (grok, _json("prod-grok-backend.json", lambda made: {"conversations": made})),
    "gemini": (gemini, _json("MyActivity.json")),
    "mem0": (mem0, _json("memories.json", lambda made: {"results": made})),
    "mcp-memory": (mcp_memory, _lines("memory.jsonl")),
    "openai": (openai, _lines("tune.jsonl")),
    "jsonl": (jsonl, _lines("lines.jsonl")),
    "locomo": (locomo, _json("locomo.json", _locomo)),
    "llm": (llm, _database("responses")),
    "langgraph": (langgraph, _database("store")),
    "csv": (table, _csv),
    "markdown": (note, _vault),
}
