"""One rule for characters that no file can hold, at every door: U+FFFD, a warning, no refusal."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import MemDB, NewMessage, Session
from memdb.adapters.host import Host
from memdb.formats.turns import own_form

NUL, HALF = "GIF89a\0;", "cut \ud83d off"
FIT = {NUL: "GIF89a\ufffd;", HALF: "cut \ufffd off"}
TOLD = "[01.05.26, 10:00:00] Ann: Hello\n[01.05.26, 10:01:00] Bob: "
SHAPES = ("openai", "openai-responses", "anthropic", "gemini", "langchain")


def chat(db: MemDB) -> Session:
    """Return the session that the doors write to."""
    return db.scope("ann").session("trip")


def newest(db: MemDB) -> str:
    """Return the text of the newest message."""
    return chat(db).last(1)[0].text


def imported(db: MemDB, folder: Path, name: str, content: Any) -> str:
    """Return the newest text of a file of JSON (lines) or text after its import."""
    lines = content if isinstance(content, list) and name.endswith("l") else [content]
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert [one for one in db.import_file(path, user="ann").left_out if one.is_place] == []
    sessions = db.scope("ann").sessions()
    assert [one.message_count for one in sessions] == [2], "no message is lost"
    return db.scope("ann").session(sessions[0].name).last(1)[0].text


def append_result(db: MemDB, bad: str) -> str:
    """Return what is stored of a tool's result, whose call has an argument of the same kind."""
    arguments = json.dumps({"path": bad})
    function = {"name": "read", "arguments": arguments}
    chat(db).extend(
        [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "tool_calls": [
                {"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": bad},
        ]
    )  # fmt: skip
    return newest(db)


def chatgpt(bad: str) -> list[Any]:
    """Return a ChatGPT export of a question and an answer."""

    def node(key: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
        message = {"id": key, "author": {"role": role}, "create_time": 1_750_000_000.0,
                   "content": {"content_type": "text", "parts": [text]}}  # fmt: skip
        return {"id": key, "parent": parent, "children": [], "message": message}

    nodes = [node("a", None, "user", "Hello"), node("b", "a", "assistant", bad)]
    mapping = {one["id"]: one for one in nodes}
    mapping["a"]["children"] = ["b"]
    return [{"id": "1", "conversation_id": "1", "title": "t", "create_time": 1.0,
             "current_node": "b", "mapping": mapping}]  # fmt: skip


def codex(bad: str) -> list[Any]:
    """Return a transcript of Codex."""

    def line(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload}

    def spoke(role: str, kind: str, text: str) -> dict[str, Any]:
        content = [{"type": kind, "text": text}]
        return line("response_item", type="message", role=role, content=content)

    return [line("session_meta", id="c", timestamp="2026-01-02T03:04:05Z", cwd="/x"),
            spoke("user", "input_text", "Hello"), spoke("assistant", "output_text", bad)]  # fmt: skip


def imported_artifact(db: MemDB, folder: Path, name: str, content: str) -> str:
    """Return the text of the only artifact after the import of a file of UTF-8."""
    path = folder / name
    path.write_text(content, encoding="utf-8")
    assert db.import_file(path, user="ann").left_out == ()
    ann = db.scope("ann")
    (stored,) = ann.artifacts.list()
    return (ann.session(stored.session) if stored.session else ann).artifacts.load(stored.name).text


def claude(bad: str) -> list[Any]:
    """Return an export of Claude.ai."""

    def said(sender: str, text: str) -> dict[str, Any]:
        return {"uuid": text[:3] + sender, "sender": sender, "text": text, "content": [],
                "created_at": "2026-01-02T03:04:05Z"}  # fmt: skip

    return [{"uuid": "u", "name": "t", "created_at": "2026-01-02T03:04:05Z",
             "updated_at": "2026-01-02T03:04:05Z", "account": {"uuid": "a"},
             "chat_messages": [said("human", "Hello"), said("assistant", bad)]}]  # fmt: skip


def said(role: str, text: str) -> dict[str, str]:
    """Return a plain message of OpenAI."""
    return {"role": role, "content": text}


def code_line(kind: str, text: str, uuid: str, parent: str | None) -> dict[str, Any]:
    """Return a line of a transcript of Claude Code."""
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/x",
            "version": "2", "timestamp": "2026-01-02T03:04:05Z", "message": said(kind, text)}  # fmt: skip


Door = Callable[[MemDB, str, Path], Any]
DOORS: dict[str, Door] = {
    "append": lambda db, bad, _: chat(db).append("user", bad).text,
    "append parts": lambda db, bad, _: (
        chat(db).append("user", parts=[{"type": "text", "text": bad}]).text
    ),
    "append text beside parts": lambda db, bad, _: (
        chat(db).append("user", bad, parts=[{"type": "image", "url": "https://a.example/b"}]).text
    ),
    "extend": lambda db, bad, _: chat(db).extend([NewMessage("user", bad)])[0].text,
    "a tool's result": lambda db, bad, _: append_result(db, bad),
    "a part of no kind": lambda db, bad, _: (
        chat(db).extend([{"role": "user", "content": [{"type": "x", "n": bad}]}])[0].parts[0]
    )["data"]["n"],
    "metadata": lambda db, bad, _: (
        chat(db).append("user", "x", metadata={"a": bad}).metadata or {}
    )["a"],
    "metadata, a key": lambda db, bad, _: next(
        iter(chat(db).append("user", "x", metadata={bad: 1}).metadata or {})
    ),
    "title": lambda db, bad, _: chat(db).create(title=bad).title,
    "state": lambda db, bad, _: (
        Host(chat(db)).create(state={"a": bad}) and chat(db).state.all()["a"]
    ),
    "remember": lambda db, bad, _: db.scope("ann").remember(bad).entry.text,
    "keywords": lambda db, bad, _: db.scope("ann").remember("x", keywords=[bad]).entry.keywords[0],
    "an entry updated": lambda db, bad, _: (
        db.scope("ann").entries.update(db.scope("ann").remember("x").entry.id, text=bad).text
    ),
    "an item": lambda db, bad, _: db.scope("ann").items.put(("n",), "k", {"t": bad}).value["t"],
    "an item found by its words": lambda db, bad, _: (
        db.scope("ann").items.put(("n",), "k", {"t": f"{bad} ferry"}, index=["t"])
        and db.scope("ann").items.recall("ferry")[0].item.value["t"].removesuffix(" ferry")
    ),
    "an artifact": lambda db, bad, _: (
        db.scope("ann").artifacts.save("a.txt", bad)
        and db.scope("ann").artifacts.load("a.txt").text
    ),
    "JSON lines": lambda db, bad, to: imported(
        db,
        to,
        "a.jsonl",
        [{"session": "s", **said("user", "Hello")}, {"session": "s", **said("assistant", bad)}],
    ),
    "an array of OpenAI's": lambda db, bad, to: imported(
        db, to, "a.json", [said("user", "Hello"), said("assistant", bad)]
    ),
    "ChatGPT": lambda db, bad, to: imported(db, to, "conversations.json", chatgpt(bad)),
    "Claude": lambda db, bad, to: imported(db, to, "conversations.json", claude(bad)),
    "a line with an artifact": lambda db, bad, to: imported_artifact(
        db, to, "a.jsonl", json.dumps({"kind": "artifact", "name": "user:a.txt", "text": bad})
    ),
    "Codex": lambda db, bad, to: imported(db, to, "rollout-1.jsonl", codex(bad)),
    "Claude Code": lambda db, bad, to: imported(
        db,
        to,
        "s.jsonl",
        [code_line("user", "Hello", "a", None), code_line("assistant", bad, "b", "a")],
    ),
}


def test_every_door_has_one_outcome(tmp_path: Path) -> None:
    """The character is U+FFFD, whatever the door; the rest is kept, and the file is sound."""
    found = {}
    for name, door in DOORS.items():
        for bad in FIT:
            folder = tmp_path / f"{len(found)}"
            folder.mkdir()
            with memdb.open(folder / "a.db", embedder=None) as db:
                try:
                    found[name, bad] = door(db, bad, folder)
                except Exception as error:  # noqa: BLE001 (told with all others)
                    found[name, bad] = repr(error)
                assert db.file.check(deep=True) == []

    assert found == {(name, bad): FIT[bad] for name in DOORS for bad in FIT}


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.csv", "_chat.txt"])
def test_a_file_of_text_with_a_nul_is_whole(name: str, db: MemDB, tmp_path: Path) -> None:
    """Half of a surrogate pair is no UTF-8, so a file of text cannot hold one."""
    before = {"a.csv": "role,text\nuser,Hello\nuser,", "_chat.txt": TOLD}.get(name, "")
    if before:
        assert imported(db, tmp_path, name, before + NUL) == FIT[NUL]
    else:
        assert imported_artifact(db, tmp_path, name, NUL) == FIT[NUL]


def test_the_message_warns_keeps_its_original_and_can_be_sent(db: MemDB) -> None:
    """The provider's own form is exact; a request holds U+FFFD."""
    for bad in FIT:
        append_result(db, bad)
    session = chat(db)
    result = session.last(1)[0]

    assert any("U+FFFD" in one for one in result.warnings)
    assert any("U+FFFD" in one for one in session.append("user", NUL).warnings)
    assert own_form(result, "openai") == {"role": "tool", "tool_call_id": "c", "content": HALF}
    for shape in SHAPES:
        sent = json.dumps(session.context(4_000).to(shape), ensure_ascii=False, allow_nan=False)
        assert sent.encode().count("\ufffd".encode()) >= 3


def test_a_number_that_is_none_is_a_text(db: MemDB) -> None:
    """NaN and infinity have no JSON form."""
    stored = db.scope("ann").items.put(("n",), "k", {"a": math.nan, "b": [math.inf]})

    assert stored.value == {"a": "nan", "b": ["inf"]}


@pytest.mark.parametrize("bad", [*FIT])
def test_a_name_is_refused(db: MemDB, bad: str) -> None:
    """Two names could become one: sessions, keys, artifacts, authors, users."""
    ann = db.scope("ann")
    refused: list[Callable[[], object]] = [
        lambda: db.scope(bad).session("s").append("user", "x"),
        lambda: ann.session(bad).append("user", "x"),
        lambda: ann.session("s").append("user", "x", author=bad),
        lambda: ann.session("s").append("user", "x", external_id=bad),
        lambda: ann.items.put((bad,), "k", 1),
        lambda: ann.items.put(("n",), bad, 1),
        lambda: ann.artifacts.save(bad, b"x"),
        lambda: ann.session("s").state.put(bad, 1),
        lambda: ann.remember("x", key=bad),
    ]
    for call in refused:
        with pytest.raises(memdb.InvalidInput):
            call()
    assert ann.sessions() == []
