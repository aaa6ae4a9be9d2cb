"""SQLite files of other programs: tables and logs of llm in, a plain copy out, a plugin."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlite_utils
from click.testing import CliRunner

import memdb
from memdb import TableColumns
from memdb.cli import cli

if TYPE_CHECKING:
    from memdb import MemDB


def make(path: Path, tables: dict[str, list[dict[str, Any]]]) -> str:
    """Make a SQLite file with some tables; return its path."""
    other = sqlite_utils.Database(sqlite3.connect(path))
    for name, rows in tables.items():
        other.table(name).insert_all(rows)
    other.close()
    return str(path)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    """Return a file with a table of notes."""
    rows = [
        {"key": f"n{n}", "body": f"note {n}", "who": ["user", "assistant"][n % 2], "topic": "oslo",
         "at": f"2025-03-0{n + 1} 10:00:00"}
        for n in range(4)
    ]  # fmt: skip
    return make(tmp_path / "notes.db", {"notes": [*rows, {"key": "empty", "body": None}]})


@pytest.fixture
def logs(tmp_path: Path) -> str:
    """Return logs as llm keeps them."""
    rows = [
        {"id": f"r{n}", "model": "gpt", "prompt": f"ask {n}", "system": "be kind" if n == 0 else None,
         "response": f"answer {n}", "conversation_id": "c1", "datetime_utc": f"2025-03-01T10:0{n}:00"}
        for n in range(3)
    ]  # fmt: skip
    return make(tmp_path / "logs.db", {"responses": rows, "conversations": [{"id": "c1"}]})


def texts(db: MemDB, session: str) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in db.scope("ann").session(session).messages()]


def test_a_table_comes_in(file_db: MemDB, notes: str) -> None:
    """By its columns; a second time nothing is added, and the file is as before."""
    before = Path(notes).read_bytes()
    columns = TableColumns("notes", "body", role="who", session="topic", created="at", id="key")

    reports = [file_db.import_file(notes, user="ann", columns=columns) for _ in range(2)]

    assert texts(file_db, "oslo") == [
        ("user", "note 0"), ("assistant", "note 1"), ("user", "note 2"), ("assistant", "note 3")
    ]  # fmt: skip
    (first, *_) = file_db.scope("ann").session("oslo").messages()
    assert first.created_ms == 1_740_823_200_000
    assert [report.format for report in reports] == ["sqlite", "sqlite"]
    assert Path(notes).read_bytes() == before


def test_text_alone_is_enough(file_db: MemDB, notes: str) -> None:
    """All of it is the user's, in a session called as the table."""
    file_db.import_file(notes, user="ann", columns=TableColumns("notes", "body"))

    assert texts(file_db, "notes") == [("user", f"note {n}") for n in range(4)]


def test_logs_of_llm_come_in(file_db: MemDB, logs: str) -> None:
    """They are known by their columns; the model is the author."""
    report = file_db.import_file(logs, user="ann")

    assert report.format == "llm"
    assert texts(file_db, "c1")[:3] == [
        ("system", "be kind"), ("user", "ask 0"), ("assistant", "answer 0")
    ]  # fmt: skip
    assert file_db.scope("ann").session("c1").last(1)[0].author == "gpt"


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (TableColumns("nothing", "body"), "no table"),
        (TableColumns("notes", "nothing"), "no column"),
        (TableColumns("notes", "body", role="nothing"), "no column"),
        (None, "which table holds messages"),
    ],
)
def test_what_is_not_there(file_db: MemDB, notes: str, columns: Any, match: str) -> None:
    with pytest.raises(memdb.InvalidInput, match=match):
        file_db.import_file(notes, user="ann", columns=columns)


def test_memdb_files_are_refused(file_db: MemDB, tmp_path: Path) -> None:
    """Open or not: a second library on one would cost it its locks."""
    other = tmp_path / "other.db"
    memdb.open(other, embedder=None).close()
    columns = TableColumns("messages", "text")

    for path in (file_db.path, other):
        for chosen in (None, columns):
            with pytest.raises((memdb.InvalidInput, memdb.FileError)):
                file_db.import_file(path, user="ann", columns=chosen)
    with pytest.raises(memdb.FileError):
        file_db.export(other, format="sqlite", replace=True)
    with pytest.raises(memdb.FileError):
        file_db.export(file_db.path, format="sqlite", replace=True)


def test_a_plain_copy_goes_out(file_db: MemDB, tmp_path: Path) -> None:
    """Tables with the names that the documents promise, for any program."""
    target = tmp_path / "plain.db"
    for user in ("ann", "bob"):
        chat = file_db.scope(user).session("trip")
        chat.extend([{"role": "user", "text": f"hi {n}"} for n in range(700)])
        chat.archive(keep_last=5)
        file_db.scope(user).remember("Likes tea.", keywords=["drink"])
        chat.artifacts.save("menu.md", "soup")

    file_db.export(target, format="sqlite")

    plain = sqlite_utils.Database(sqlite3.connect(target))
    try:
        assert {"sessions", "messages", "entries", "artifacts"} <= {*plain.table_names()}
        assert plain.table("messages").count == 1400
        rows = plain.query("SELECT user, text FROM messages WHERE seq = 1 ORDER BY user")
        assert [*rows] == [{"user": "ann", "text": "hi 0"}, {"user": "bob", "text": "hi 0"}]
        (entry, _) = plain.query("SELECT keywords FROM entries")
        assert json.loads(entry["keywords"]) == ["drink"]
    finally:
        plain.close()
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o600
    with pytest.raises(memdb.AlreadyExists):
        file_db.export(target, format="sqlite")


def test_the_commands(tmp_path: Path, notes: str, logs: str) -> None:
    """In by --table or as logs of llm, out by --format sqlite."""
    agent, target = str(tmp_path / "agent.db"), str(tmp_path / "plain.db")

    def run(*args: str) -> int:
        return CliRunner().invoke(cli, [*args]).exit_code

    table = ("--table", "notes", "--text-column", "body")
    assert run("import", agent, notes, "--user", "ann", "--table", "notes") == 2
    assert run("import", agent, notes, "--user", "ann", "--role-column", "who") == 2
    assert run("import", agent, notes, "--user", "ann", *table, "--no-embed") == 0
    assert run("import", agent, logs, "--user", "ann", "--no-embed") == 0
    assert run("export", agent, "--user", "ann", "--format", "sqlite") == 2
    assert run("export", agent, target, "--user", "ann", "--format", "sqlite") == 0
    plain = sqlite3.connect(target)
    assert plain.execute("SELECT count(*) FROM messages").fetchone() == (11,)
    plain.close()


def test_sqlite_utils_gets_the_commands(tmp_path: Path) -> None:
    """`sqlite-utils memdb query ...` goes through memdb's own door."""
    path = tmp_path / "agent.db"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("trip").append("user", "hi")
    script = (
        "import click, memdb.cli.sqlite_utils_plugin as plugin\n"
        "group = click.Group('sqlite-utils')\n"
        "plugin.register_commands(group)\n"
        "group()\n"
    )
    arguments = ["memdb", "query", str(path), "SELECT text FROM messages", "--json"]

    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )

    assert json.loads(ran.stdout) == [{"text": "hi"}]


ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
LONG = "replace(printf('%.*c', 500000, 'a'), 'a', 'aa')"

# Files of a stranger, whose table or view "t" has a column "text".
HOSTILE = {
    "endless view": f"CREATE VIEW t AS {ENDLESS} SELECT 'x' || i AS text FROM n",
    "endless view without a row": f"CREATE VIEW t AS {ENDLESS} SELECT max(i) AS text FROM n",
    "view of long texts": f"CREATE VIEW t AS {ENDLESS} SELECT {LONG} AS text FROM n",
    "view of one dear call": "CREATE VIEW t AS SELECT instr(printf('%.*c', 30000000, 'a'), "
    "printf('%.*c', 9000000, 'a') || 'b') AS text",
    "view of many dear calls": "CREATE VIEW t AS SELECT "
    + " || ".join(["upper(printf('%.*c', 60000000, 'a'))"] * 60)
    + " AS text",
    "view that searches": "CREATE VIRTUAL TABLE f USING fts5 (a); INSERT INTO f VALUES ('a a'); "
    "CREATE VIEW t AS SELECT a AS text FROM f WHERE f MATCH 'a' || "
    "replace(printf('%.*c', 200000, 'x'), 'x', ' a')",
    "view of itself": "CREATE TABLE t (text); DROP TABLE t; CREATE VIEW t AS SELECT * FROM t",
    "deep views": "CREATE VIEW v0 AS SELECT 'a' AS text;"
    + ";".join(f"CREATE VIEW v{n + 1} AS SELECT a.text FROM v{n} a, v{n} b" for n in range(40))
    + "; CREATE VIEW t AS SELECT * FROM v40",
    "generated column": "CREATE TABLE t (a); WITH RECURSIVE n (i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) INSERT INTO t SELECT i FROM n;"
    f"ALTER TABLE t ADD COLUMN text GENERATED ALWAYS AS ({LONG})",
    "generated by a dear call": "CREATE TABLE t (a); INSERT INTO t VALUES ('a'); "
    "ALTER TABLE t ADD COLUMN text GENERATED ALWAYS AS "
    "(instr(printf('%.*c', 30000000, a), printf('%.*c', 9000000, a) || 'b') || 1)",
    "virtual table of a strange kind": "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema "
    "VALUES ('table', 't', 't', 0, 'CREATE VIRTUAL TABLE t USING nothing (text)')",
    "view with a trigger": f"CREATE VIEW t AS {ENDLESS} SELECT i AS text FROM n; "
    "CREATE TRIGGER g INSTEAD OF INSERT ON t BEGIN SELECT 1; END",
    "no schema": "CREATE TABLE t (text); PRAGMA writable_schema = ON; "
    "UPDATE sqlite_schema SET sql = 'CREATE TABLE t (((('",
}


@pytest.mark.timeout(40)
@pytest.mark.parametrize("place", [":memory:"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_of_a_stranger_takes_neither_time_nor_disk(
    tmp_path: Path, db: MemDB, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What its views and columns compute is bounded by time, and by the size of the file."""
    monkeypatch.setattr("memdb.formats.sqlite_files.FREE_S", 0.1)
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.executescript(HOSTILE[name])
    other.commit()
    other.close()
    shelf = tmp_path / "temporary"  # other processes write into that of the system
    shelf.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shelf))

    with contextlib.suppress(memdb.InvalidInput, memdb.FileError):
        report = db.import_file(path, user="ann", columns=TableColumns("t", "text"))
        assert report.messages_added == 1

    assert [*shelf.iterdir()] == []


def test_a_view_and_a_virtual_table_are_read(tmp_path: Path, db: MemDB) -> None:
    """If they give what a file of that size can hold."""
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.executescript(
        "CREATE TABLE notes (a); INSERT INTO notes VALUES ('x');"
        "CREATE VIEW v AS SELECT replace(a, 'x', 'yy') AS text FROM notes;"
        "CREATE VIRTUAL TABLE f USING fts5 (text); INSERT INTO f VALUES ('words')"
    )
    other.close()

    for table, column, expected in [("v", "text", "yy"), ("f", "text", "words")]:
        db.import_file(path, user="ann", columns=TableColumns(table, column))
        assert texts(db, table) == [("user", expected)]


@pytest.fixture
def threads(tmp_path: Path) -> str:
    """Return logs of llm 0.36, made by its own tables, with a call of a tool and a fragment."""
    messages = [
        ("h0", None, "system"), ("h1", "h0", "user"), ("h2", "h1", "assistant"),
        ("h3", "h2", "tool"), ("h4", "h3", "assistant"), ("lost", "gone", "user"),
    ]  # fmt: skip
    call = {"name": "find", "arguments": {"n": 1}, "tool_call_id": "tc"}
    result = {"name": "find", "output": "In the cellar.", "tool_call_id": "tc"}
    pieces = {"text_ref": [{"literal": "See "}, {"fragment": 7}]}
    parts = [
        ("h0", 0, "text", "be kind", None), ("h1", 0, "text", "Where is the tent?", None),
        ("h2", 1, "tool_call", None, json.dumps(call)), ("h2", 0, "reasoning", "Hm.", None),
        ("h3", 0, "tool_result", None, json.dumps(result)),
        ("h4", 0, "text", None, json.dumps(pieces)),
    ]  # fmt: skip
    day = "2025-03-01T10:00:0"
    return make(
        tmp_path / "logs.db",
        {
            "responses": [
                {"id": "r", "model": "m", "prompt": "old", "system": None, "response": "yes",
                 "conversation_id": "c0", "datetime_utc": "2024-01-01T00:00:00"}
            ],
            "messages": [{"hash": a, "parent_hash": b, "role": c} for a, b, c in messages],
            "parts": [
                {"id": n, "message_hash": a, "position": b, "type": c, "tool_name": None,
                 "text": d, "payload": e}
                for n, (a, b, c, d, e) in enumerate(parts)
            ],
            "fragments": [{"id": 7, "hash": "x", "content": "the cellar."}],
            "threads": [{"id": "t1", "name": "Tents", "tip_message_hash": "h4"}],
            "turns": [
                {"id": "u1", "thread_id": "t1", "tip_message_hash": "h2", "model": "echo",
                 "datetime_utc": f"{day}1+00:00"},
                {"id": "u2", "thread_id": "t1", "tip_message_hash": "h4", "model": "echo",
                 "datetime_utc": f"{day}2+00:00"},
            ],
        },
    )  # fmt: skip


def test_threads_of_llm(db: MemDB, threads: str) -> None:
    """Threads of new logs and responses of old ones, with tools, times and models."""
    reports = [db.import_file(threads, user="ann") for _ in range(2)]
    chat = [*db.scope("ann").session("t1").messages()]

    assert [report.messages_added for report in reports] == [7, 0]
    assert [(one.role, one.author, one.created_ms) for one in chat] == [
        ("system", None, 1_740_823_201_000),
        ("user", None, 1_740_823_201_000),
        ("assistant", "echo", 1_740_823_201_000),
        ("tool", None, 1_740_823_202_000),
        ("assistant", "echo", 1_740_823_202_000),
    ]
    assert [part["type"] for part in chat[2].parts or []] == ["thinking", "tool_call"]
    assert (chat[3].parts or [{}])[0]["tool_call_id"] == "tc"
    assert (chat[3].text, chat[4].text) == ("In the cellar.", "See the cellar.")
    assert {info.title for info in db.scope("ann").sessions()} == {None, "Tents"}
    assert texts(db, "c0") == [("user", "old"), ("assistant", "yes")]


def test_what_llm_itself_logs(db: MemDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own log of today is understood."""
    pytest.importorskip("llm_echo")
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    from llm.cli import cli as llm

    done = CliRunner().invoke(llm, ["-m", "echo", "Where is the tent?", "-s", "be kind"])
    assert done.exit_code == 0, done.output
    report = db.import_file(tmp_path / "logs.db", user="ann")

    assert (report.format, report.messages_added) == ("llm", 3)


def test_tables_on_a_full_disk(db: MemDB, tmp_path: Path, monkeypatch: Any) -> None:
    """What SQLite says of the file is an error about the file, and nothing stays there."""

    def full(*_: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("memdb.formats.sqlite_files._insert", full)
    with pytest.raises(
        memdb.FileError, match=r"plain\.db cannot be written \(database or disk is full\)"
    ):
        db.export(tmp_path / "plain.db", format="sqlite")

    assert [*tmp_path.glob("plain*")] == []


def test_lossless_claw(db: MemDB, tmp_path: Path) -> None:
    """Every message with its session and title; the summaries are said to be left out."""
    at = "2025-03-01 10:00:00"
    path = make(
        tmp_path / "lcm.db",
        {
            "conversations": [
                {"conversation_id": n, "session_id": "s", "session_key": "main", "title": "Tents",
                 "created_at": at}
                for n in (1, 2)
            ],
            "messages": [
                {"message_id": n, "conversation_id": 1 + n // 2, "seq": n,
                 "role": ["user", "assistant"][n % 2], "content": f"word {n}", "created_at": at}
                for n in range(4)
            ],
            "summaries": [
                {"summary_id": "x", "conversation_id": 1, "kind": "leaf", "content": "words"}
            ],
        },
    )  # fmt: skip
    reports = [db.import_file(path, user="ann") for _ in range(2)]

    assert [report.messages_added for report in reports] == [4, 0]
    assert texts(db, "main") == [("user", "word 0"), ("assistant", "word 1")]
    assert texts(db, "main 2") == [("user", "word 2"), ("assistant", "word 3")]
    assert reports[0].left_out[0].what == "summaries"


def test_calls_of_tools_in_lossless_claw(db: MemDB, tmp_path: Path) -> None:
    """They stand beside the messages, whose words are empty then; the answer is their result."""
    at = "2025-03-01 10:00:00"
    part = {"tool_call_id": "c1", "tool_name": "find", "tool_output": None, "ordinal": 0}
    path = make(
        tmp_path / "lcm.db",
        {
            "conversations": [
                {"conversation_id": 1, "session_id": "s", "title": None, "created_at": at}
            ],
            "messages": [
                {"message_id": n, "conversation_id": 1, "seq": n, "role": role, "content": words,
                 "created_at": at}
                for n, (role, words) in enumerate(
                    [("user", "Where?"), ("assistant", ""), ("tool", "In the cellar."),
                     ("assistant", "")]
                )
            ],
            "message_parts": [
                {"message_id": 1, "part_type": "tool", "tool_input": '{"what": "tent"}', **part},
                {"message_id": 2, "part_type": "text", "tool_input": None, **part},
                {"message_id": 3, "part_type": "reasoning", "tool_input": None, **part},
            ],
            "summaries": [{"summary_id": "", "conversation_id": 0, "kind": "", "content": ""}],
        },
    )  # fmt: skip
    report = db.import_file(path, user="ann")
    found = [*db.scope("ann").session("s").messages()]

    assert [one.role for one in found] == ["user", "assistant", "tool"]
    assert found[1].parts == [
        {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"what": "tent"}}
    ]
    assert found[2].text == "In the cellar."
    assert [one["tool_call_id"] for one in found[2].parts or ()] == ["c1"]
    assert report.left_out[0].why == "they have no words"


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        ([None, "e1"], 1),
        (["e1", None], 1),
        ([None, None], 1),
        (["e1", "e2"], 2),
        ([None, "e1", "e2"], 2),
    ],
)
def test_turns_that_lossless_claw_stored_twice(
    entries: list[str | None], count: int, db: MemDB, tmp_path: Path
) -> None:
    """A turn that was tried again comes once; two entries of the transcript are two messages."""
    at = "2025-03-01 10:00:00"
    given = [*((one, at) for one in entries), (None, "2025-03-01 11:00:00")]
    path = make(
        tmp_path / "lcm.db",
        {
            "conversations": [
                {"conversation_id": 1, "session_id": "s", "title": None, "created_at": at}
            ],
            "messages": [
                {"message_id": n, "conversation_id": 1, "seq": n, "role": "user",
                 "content": "Go on.", "created_at": when, "transcript_entry_id": entry}
                for n, (entry, when) in enumerate(given)
            ],
            "summaries": [{"summary_id": "", "conversation_id": 0, "kind": "", "content": ""}],
        },
    )  # fmt: skip
    report = db.import_file(path, user="ann")

    assert report.messages_added == count + 1
    twice = [one.count for one in report.left_out if "stored them twice" in one.why]
    assert twice == ([len(entries) - count] if len(entries) > count else [])


def test_the_store_of_langgraph(db: MemDB, tmp_path: Path) -> None:
    """Items keep namespace, key, value and time to live."""
    at = "2025-03-01 10:00:00"
    row = {"prefix": "notes.trip", "key": "k", "value": '{"text": "tent"}', "created_at": at,
           "updated_at": at, "expires_at": None, "ttl_minutes": 5}  # fmt: skip
    path = make(tmp_path / "store.db", {"store": [row]})
    reports = [db.import_file(path, user="ann") for _ in range(2)]
    item = db.scope("ann").items.get(("notes", "trip"), "k")

    assert [report.items_added for report in reports] == [1, 0]
    assert (item.value, item.ttl_ms) == ({"text": "tent"}, 300_000)
