"""
SQLite files of other programs: any table with named columns, and those of some programs.

For each record, a format yields lines in the JSON form that `memdb import` reads. The file may
come from an untrusted source, so its cost is limited (`memdb.formats.sqlite_files`).
- `llm`: the logs.db of simonw's llm, threads of messages (0.36 and later) and responses (before).
- `lossless-claw`: its lcm.db, every message of a conversation. Its summaries are not imported:
  memdb summarises the same messages itself.
- `langgraph`: the items of its SqliteStore. Their vectors are not imported; they are computed again
  if the file has an embedder.
- `hermes`, `opencode`, `memware`: conversations, by a row of `CHATS` each.
- `cpersona`, `engrava`, `memware`: memories, by rows of `FACTS`; their vectors are not imported.
"""

from __future__ import annotations

import json
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from memdb.engine.files import is_memdb
from memdb.errors import InvalidInput
from memdb.formats.imports.base import MISSHAPEN, Format, groups, refused
from memdb.formats.imports.chats import (
    Said,
    at,
    call,
    conversation_items,
    parts_of,
    read_time,
    result,
    thought,
)
from memdb.formats.imports.jsonl import read_line
from memdb.formats.source import Tree, parse_line
from memdb.formats.sqlite_files import ROW, as_lines, list_tables, plain_text, read_rows
from memdb.formats.transcripts import parse_object
from memdb.models.record import Record
from memdb.transfer.lines import LEFT_OUT, REFUSALS, Item, any_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.sqlite_files import Database
    from memdb.models.reports import TableColumns

    # Place of each record, and what makes its lines; an error means that it is broken.
    Records = Iterator[tuple[str, Callable[[], Iterable[dict[str, Any]]]]]
    Lines = Callable[[Database, int], Records]


def database_format(name: str, label: str, tables: str, lines: Lines) -> Format:
    """
    Return the format of a program's database.

    Args:
        tables: The tables that it has, each with columns of it: "a x y, b x z".
        lines: Yields the records, reading at most this many rows of a table.
    """
    needs = {table: {*columns} for table, *columns in map(str.split, tables.split(","))}

    def claim(tree: Tree) -> list[str]:
        tables = _tables(tree)
        has_all = bool(tables) and all(
            columns <= tables.get(table, frozenset()) for table, columns in needs.items()
        )
        return [*tree.names] if has_all else []

    read = partial(_read, table=None, lines=lines)
    captured = name in CHATS  # agents, which wrote down what their tools gave
    return Format(name, label, claim, read, is_captured=captured, signs=frozenset(needs))


def _tables(tree: Tree) -> dict[str, frozenset[str]]:
    """Return the columns of each table; {} for a file that is not another program's database."""
    if not tree.is_database:
        return {}
    if is_memdb(tree.path):
        raise InvalidInput(f"{tree.name} is a memdb file: export it first with `memdb export`")
    return list_tables(tree.path)


def _read(request: Request, table: str | None, lines: Lines) -> Read:
    made = partial(_made, lines=lines)
    with (
        as_lines(request.tree.path, table, made) as path,
        Tree(path) as tree,
        tree.open(tree.names[0]) as source,
    ):
        for number, line in source.lines():
            record = parse_line(number, line)
            yield from groups([(record["place"], record)], _items)


def _made(source: Database, most: int, lines: Lines) -> Iterator[dict[str, Any]]:
    """Yield each record with its lines, or with the reason why it has none."""
    for place, make in lines(source, most):
        try:
            record: dict[str, Any] = {"place": place, "lines": [*make()]}
        except (*REFUSALS, *MISSHAPEN) as error:
            record = {"place": place, "reason": refused(place, error).reason}
        yield record


def _items(place: str, record: dict[str, Any]) -> Iterator[Item]:
    """Yield the items of a record."""
    if "reason" in record:
        raise InvalidInput(record["reason"])
    lines = record["lines"]
    for number, given in enumerate(lines, start=1):
        where = place if len(lines) == 1 else f"{place}, message {number}"
        for kind, fields in read_line(given, None, number, b""):
            yield Item(where, kind, fields)


def _read_table(request: Request) -> Read:
    if request.columns is None:
        raise InvalidInput("columns are missing: give --table and --text-column")
    lines = partial(_table_records, columns=request.columns)
    return _read(request, request.columns.table, lines)


def _table_records(source: Database, most: int, columns: TableColumns) -> Records:
    fields = (columns.text, columns.role, columns.session, columns.created, columns.id)
    names = [name for name in fields if name is not None]
    for row in read_rows(source, columns.table, names, most):
        yield f"row {row[ROW]} of {columns.table}", partial(_row_lines, row, columns)


def _row_lines(row: dict[str, Any], columns: TableColumns) -> Iterator[dict[str, Any]]:
    text = row[columns.text]
    if text is None:
        yield {"kind": LEFT_OUT, "what": "rows", "why": "they have no text", "count": 1}
        return
    key = row[ROW] if columns.id is None else row[columns.id]
    session = columns.table if columns.session is None else plain_text(row[columns.session])
    line: dict[str, Any] = {
        "session": session,
        "role": plain_text(row[columns.role]) if columns.role else "user",
        "text": plain_text(text),
        "external_id": f"{columns.table}/{plain_text(key)}",
    }
    if columns.created is not None and row[columns.created] is not None:
        line["created_ms"] = any_time(row[columns.created], "time")
    yield line


def _by(source: Database, table: str, key: str, most: int) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows of a table by a column; {} if the file has no such table."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in read_rows(source, table, (key,), most) if table in source.table_names() else ():
        found.setdefault(row[key], []).append(row)
    return found


LLM_NEEDS = "responses id prompt response system model conversation_id datetime_utc"
THREADS = {"threads", "turns", "messages", "parts", "fragments"}


def _llm_records(source: Database, most: int) -> Records:
    titles: dict[Any, Any] = {}
    if "conversations" in source.table_names():
        rows = read_rows(source, "conversations", (), most)
        titles = {row["id"]: row.get("name") for row in rows}
    for row in read_rows(source, "responses", (), most):
        title = titles.pop(row["conversation_id"], None)
        yield f"response {row[ROW]}", partial(_response, row, title)
    if {*source.table_names()} >= THREADS:
        yield from _threads(source, most)


def _response(row: dict[str, Any], title: Any) -> Iterator[dict[str, Any]]:
    """Yield prompt and response of a call; before them the session, if it has a *title*."""
    line: dict[str, Any] = {"session": plain_text(row["conversation_id"] or row["id"])}
    if title:
        yield {"kind": "session", "name": line["session"], "title": plain_text(title)}
    if row["datetime_utc"]:
        line["created_ms"] = any_time(row["datetime_utc"], "datetime_utc")
    for role, name in (("system", "system"), ("user", "prompt"), ("assistant", "response")):
        if row[name]:
            author = {"author": plain_text(row["model"])} if role == "assistant" else {}
            yield {**line, **author, "role": role, "text": plain_text(row[name])} | {
                "external_id": f"llm/{row['id']}/{name}"
            }


def _threads(source: Database, most: int) -> Records:
    """Yield a record per thread."""
    messages = {row["hash"]: row for row in read_rows(source, "messages", (), most)}
    fragments = {row["id"]: row["content"] for row in read_rows(source, "fragments", (), most)}
    parts = _by(source, "parts", "message_hash", most)
    turns = _by(source, "turns", "thread_id", most)

    def lines(thread: dict[str, Any]) -> Iterator[dict[str, Any]]:
        turn_of = _turns_of(turns.get(thread["id"], []), messages)
        name = plain_text(thread["id"])
        session: dict[str, Any] = {"kind": "session", "name": name}
        if thread["name"]:
            session["title"] = plain_text(thread["name"])
        yield session
        for number, key in enumerate(_path(thread["tip_message_hash"], messages), start=1):
            rows = sorted(parts.get(key, []), key=itemgetter("position"))
            about = {"session": name, "external_id": f"llm/{key}/{number}"}
            found = [_llm_part(row, fragments) for row in rows]
            yield {**_message(messages[key], found, turn_of.get(key, {})), **about}

    for thread in read_rows(source, "threads", (), most):
        yield f"thread {thread[ROW]}", partial(lines, thread)


def _message(
    row: dict[str, Any], parts: list[dict[str, Any]], turn: dict[str, Any]
) -> dict[str, Any]:
    """Return a message with the time and the model of its turn."""
    line: dict[str, Any] = {"kind": "message", "role": plain_text(row["role"])}
    if all(part["type"] == "text" for part in parts):
        line["text"] = "\n".join(part["text"] for part in parts)
    else:
        line["parts"] = parts
    if turn.get("datetime_utc"):
        line["created_ms"] = any_time(turn["datetime_utc"], "datetime_utc")
    if line["role"] == "assistant" and turn.get("model"):
        line["author"] = plain_text(turn["model"])
    return line


def _path(tip: Any, messages: dict[Any, dict[str, Any]]) -> list[Any]:
    """Return the hashes of the messages from the root to *tip*."""
    path: list[Any] = []
    seen = set()
    while tip in messages and tip not in seen:
        seen.add(tip)
        path.append(tip)
        tip = messages[tip]["parent_hash"]
    return path[::-1]


def _turns_of(
    turns: list[dict[str, Any]], messages: dict[Any, dict[str, Any]]
) -> dict[Any, dict[str, Any]]:
    """Return the first turn that contains each message."""
    found: dict[Any, dict[str, Any]] = {}
    for turn in sorted(turns, key=lambda one: str(one["datetime_utc"])):
        for key in _path(turn["tip_message_hash"], messages):
            found.setdefault(key, turn)
    return found


def _llm_part(row: dict[str, Any], fragments: dict[Any, Any]) -> dict[str, Any]:
    """Return a part in the form of docs/parts.md."""
    try:
        payload = json.loads(row["payload"]) if row["payload"] else {}
    except ValueError:
        payload = {}
    text = row["text"]
    if text is None and isinstance(payload.get("text_ref"), list):
        pieces = [one for one in payload["text_ref"] if isinstance(one, dict)]
        text = "".join(
            str(one.get("literal", fragments.get(one.get("fragment"), ""))) for one in pieces
        )
    kind = row["type"]
    if kind in ("text", "reasoning"):
        return {"type": "text" if kind == "text" else "thinking", "text": plain_text(text or "")}
    if kind == "tool_call":
        return {
            "type": "tool_call",
            "id": payload.get("tool_call_id"),
            "name": payload.get("name") or row["tool_name"],
            "arguments": payload.get("arguments") or {},
        }
    if kind == "tool_result":
        return {
            "type": "tool_result",
            "tool_call_id": payload.get("tool_call_id"),
            "name": payload.get("name") or row["tool_name"],
            "content": plain_text(payload.get("output") or ""),
        }
    return {"type": "other", "kind": plain_text(kind), "data": payload, "provider": "llm"}


CLAW_NEEDS = (
    "conversations conversation_id session_id title created_at, messages message_id "
    "conversation_id seq role content, summaries summary_id conversation_id kind content"
)
PARTS = "message_parts"  # which the first versions did not have
WHY = "memdb makes its own of the same messages"
TWICE = "lossless-claw stored them twice, when a turn was tried again"


def _claw_records(source: Database, most: int) -> Records:
    """Yield a record per conversation: its session and its messages."""
    names: dict[object, str] = {}
    said = _by(source, "messages", "conversation_id", most)
    parts = _by(source, PARTS, "message_id", most)
    for row in read_rows(source, "conversations", (), most):
        name = plain_text(row.get("session_key") or row["session_id"])
        if name in names.values():  # a restarted session keeps its name there
            name = f"{name} {row['conversation_id']}"
        names[row["conversation_id"]] = name
        messages = said.get(row["conversation_id"], [])
        yield f"conversation {row[ROW]}", partial(_conversation, name, row, messages, parts)
    count = source["summaries"].count
    if count:
        line = {"kind": LEFT_OUT, "what": "summaries", "why": WHY, "count": count}
        yield "summaries", lambda: [line]


def _conversation(
    name: str,
    row: dict[str, Any],
    messages: list[dict[str, Any]],
    parts: dict[object, list[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    session: dict[str, Any] = {"kind": "session", "name": name}
    if row["title"]:
        session["title"] = plain_text(row["title"])
    if row["created_at"]:
        session["created_ms"] = any_time(row["created_at"], "created_at")
    yield session
    seen: dict[str, set[object]] = {}
    for message in sorted(messages, key=itemgetter("seq")):
        said = _claw_words(message, parts.get(message["message_id"], []))
        key = repr((message["role"], message["created_at"], said))
        if _is_twin(message.get("transcript_entry_id"), seen.setdefault(key, set())):
            yield {"kind": LEFT_OUT, "what": "messages", "why": TWICE, "count": 1}
        elif not any(said.values()):
            yield {"kind": LEFT_OUT, "what": "messages", "why": "they have no words", "count": 1}
        else:
            yield {
                "kind": "message",
                "session": name,
                "role": plain_text(message["role"]),
                "external_id": f"lcm/{message['message_id']}",
                "created_ms": any_time(message["created_at"], "created_at"),
                **said,
            }


def _is_twin(entry: object, entries: set[object]) -> bool:
    """
    Return whether a message was seen before, and note it.

    A repeated turn is stored twice: as it ran, without an entry of the transcript, and from the
    transcript. Two entries are two messages.

    Args:
        entries: Entries of the messages with the same role, words, time and calls.
    """
    is_twin = bool(entries) and (entry is None or entry in entries or entries == {None})
    entries.add(entry)
    return is_twin


def _claw_words(message: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the text of a message, or its parts if it calls tools or is a result."""
    text = plain_text(message["content"])
    tools = [one for one in rows if one["part_type"] == "tool"]
    if message["role"] == "tool":
        first = next((one for one in rows if one["tool_call_id"]), None)
        outputs = [plain_text(one["tool_output"]) for one in tools if one["tool_output"]]
        content = text or "\n".join(outputs)
        if first is None or not content:
            return {"text": content}
        about = {"tool_call_id": first["tool_call_id"], "name": first["tool_name"]}
        return {"parts": [{"type": "tool_result", **about, "content": content}]}
    calls = [_call(one) for one in sorted(tools, key=itemgetter("ordinal")) if one["tool_name"]]
    if not calls:
        return {"text": text}
    return {"parts": [*([{"type": "text", "text": text}] if text else []), *calls]}


def _call(row: dict[str, Any]) -> dict[str, Any]:
    given = plain_text(row["tool_input"] or "{}")
    arguments = parse_object(given.encode("utf-8", "replace"))
    name = plain_text(row["tool_name"])
    return call(row["tool_call_id"], name, given if arguments is None else arguments)


LANGGRAPH_NEEDS = "store prefix key value created_at updated_at"
MINUTE_MS = 60_000


def _langgraph_records(source: Database, most: int) -> Records:
    for row in read_rows(source, "store", (), most):
        yield f"item {row[ROW]}", partial(_item, row)


def _item(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    line = {
        "kind": "item",
        "namespace": plain_text(row["prefix"]).split(".") if row["prefix"] else [],
        "key": plain_text(row["key"]),
        "value": json.loads(plain_text(row["value"])),
    }
    if row.get("ttl_minutes"):
        line["ttl_ms"] = round(float(row["ttl_minutes"]) * MINUTE_MS)
    yield line


class Tables(Record):
    """
    Where a database has conversations.

    Attributes:
        messages: The table of messages, and the column with the session of each.
        said: Yields the content of a message from its row and the rows of its parts.
        order: The column by which the messages of a session follow each other.
        sessions: The table of sessions, by `id`; "" for none.
        time: Time of a session, in a form for `at`.
        parts: The table of parts, by `message_id`.
    """

    messages: tuple[str, str]
    said: Callable[[dict[str, Any], list[dict[str, Any]]], Iterable[Said]]
    order: str
    sessions: str = ""
    time: str = ""
    parts: str = ""


def _chats(source: Database, most: int, tables: Tables) -> Records:
    """Yield a record per session."""
    sessions = _by(source, tables.sessions, "id", most)
    parts = _by(source, tables.parts, "message_id", most)
    for name, rows in _by(source, *tables.messages, most).items():
        about = sessions.get(name, [{}])[0]
        yield f"session {name}", partial(_chat, tables, plain_text(name), about, rows, parts)


def _chat(
    tables: Tables,
    name: str,
    about: dict[str, Any],
    rows: list[dict[str, Any]],
    parts: dict[Any, list[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    session = {
        "name": name,
        "title": plain_text(about["title"]) if about.get("title") else None,
        "created_ms": read_time(at(about, tables.time)),
    }
    ordered = sorted(rows, key=lambda row: (row.get(tables.order) or 0, row[ROW]))
    said = [one for row in ordered for one in tables.said(row, parts.get(row.get("id"), []))]
    for item in conversation_items("", session, said):
        yield {"kind": item.kind, **item.fields}


def _hermes(row: dict[str, Any], _parts: list[dict[str, Any]]) -> Iterator[Said]:
    text = plain_text(row["content"] or "")
    if row["role"] == "tool":
        parts = [{**result(row["tool_call_id"], text), "name": row.get("tool_name") or ""}]
    else:
        parts = [thought(one) for one in (row.get("reasoning"),) if one] + parts_of(text)
        for one in json.loads(row["tool_calls"] or "[]"):
            given = one.get("function") or {}
            parts.append(call(one.get("id"), given.get("name"), given.get("arguments")))
    yield Said(
        plain_text(row["role"]), parts, f"hermes/{row.get('id', row[ROW])}", None, row["timestamp"]
    )


def _opencode(row: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[Said]:
    """Yield messages: texts, texts that the program added, and results of tools."""
    about = json.loads(row["data"])
    said: dict[str, list[dict[str, Any]]] = {}
    for part in (json.loads(one["data"]) for one in rows):
        kind, role = part.get("type"), about["role"]
        if kind == "text":
            role = "system" if part.get("synthetic") else role
            said.setdefault(role, []).extend(parts_of(part.get("text")))
        elif kind == "reasoning":
            said.setdefault(role, []).append(thought(part.get("text")))
        elif kind == "file":
            name = str(at(part, "filename|url"))
            said.setdefault(role, []).append({"type": "file", "name": name})
        elif kind == "tool":
            made = call(part.get("callID"), part.get("tool"), at(part, "state.input"))
            said.setdefault(role, []).append(made)
            if (given := at(part, "state.output|state.error")) is not None:
                failed = at(part, "state.status") == "error"
                gave = result(part.get("callID"), given, failed=failed)
                said.setdefault("tool", []).append(gave)
    time, model = at(about, "time.created"), at(about, "modelID|model.modelID")
    for role, parts in said.items():
        name = row["id"] if role == about["role"] else f"{row['id']}#{role}"
        yield Said(role, parts, name, None, time, model if role == "assistant" else None)


def _memware(row: dict[str, Any], _parts: list[dict[str, Any]]) -> Iterator[Said]:
    said = parts_of(plain_text(row["text"]))
    yield Said(plain_text(row["role"]), said, f"memware/{row['id']}", None, row["ts"])


CHATS = {
    "hermes": Tables(("messages", "session_id"), _hermes, "id", "sessions", "started_at"),
    "opencode": Tables(
        ("message", "session_id"), _opencode, "time_created", "session", "time_created", "part"
    ),
    "memware": Tables(("turn", "session"), _memware, "seq"),
}


class Facts(Record):
    """
    A table of memories.

    Attributes:
        text: The columns with the text, in order.
        time: The column with the time when it was learnt.
        kept: Columns that are stored as metadata.
        gone: The column that has a value if a memory is no longer valid.
    """

    table: str
    text: list[str]
    time: str
    kept: list[str]
    gone: str = ""


# fmt: off
FACTS = {
    "cpersona": [Facts("memories", ["content"], "timestamp", ["agent_id", "project_id", "channel"]),
                 Facts("profiles", ["content"], "updated_at", ["agent_id", "project_id"]),
                 Facts("episodes", ["summary"], "created_at", ["agent_id", "project_id"])],
    "engrava": [Facts("thought", ["content"], "created_at", ["thought_type", "essence"],
                      "archived_at")],
    "memware": [Facts("belief", ["subject", "relation", "value"], "valid_from", ["key"],
                      "superseded_by")],
}
# fmt: on


def _program(source: Database, most: int, *, name: str) -> Records:
    """Yield the records of a program: its memories, and its conversations."""
    for facts in FACTS.get(name, ()):
        for row in read_rows(source, facts.table, facts.text, most):
            yield f"{facts.table} {row[ROW]}", partial(_fact, name, facts, row)
    if name in CHATS:
        yield from _chats(source, most, CHATS[name])


def _fact(source: str, facts: Facts, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if facts.gone and row.get(facts.gone):
        yield {"kind": LEFT_OUT, "what": "memories", "why": "they no longer hold there", "count": 1}
        return
    said = [plain_text(row[column]) for column in facts.text]
    text = " ".join(said).replace("_", " ") if said[1:] else said[0]
    about = {name: row[name] for name in facts.kept if row.get(name)}
    line = {"kind": "entry", "text": text, "writer": source, "metadata": about}
    yield {**line, "created_ms": read_time(row[facts.time])}


# What each is, and the tables and columns that tell it.
# fmt: off
PROGRAMS = {
    "hermes": ("the state.db of Hermes", "sessions id title started_at, "
               "messages session_id role content tool_calls timestamp"),
    "opencode": ("the opencode.db of opencode", "session id title time_created, "
                 "message id session_id data, part message_id data"),
    "cpersona": ("the memories of cpersona", "memories agent_id content timestamp, "
                 "profiles agent_id content, episodes agent_id summary"),
    "engrava": ("the thoughts of engrava", "thought thought_id content"),
    "memware": ("the store of memware", "belief subject relation value valid_from, "
                "turn id session seq ts role text"),
}
# fmt: on
FORMATS = {
    "sqlite": Format(
        "sqlite", "a table of a SQLite file (--table, --text-column)", lambda _: [], _read_table
    ),
    "llm": database_format("llm", "the logs.db of llm", LLM_NEEDS, _llm_records),
    "lossless-claw": database_format(
        "lossless-claw", "the lcm.db of lossless-claw", CLAW_NEEDS, _claw_records
    ),
    "langgraph": database_format(
        "langgraph", "the SqliteStore of LangGraph", LANGGRAPH_NEEDS, _langgraph_records
    ),
    **{
        name: database_format(name, label, tables, partial(_program, name=name))
        for name, (label, tables) in PROGRAMS.items()
    },
}
