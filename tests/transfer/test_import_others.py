"""Importing what other programs keep: each from a sample of its shape, twice."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from import_samples import grok

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import ImportReport, MemDB

    Told = Callable[..., list[tuple[Any, ...]]]

TALK = [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": "Where is the tent?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "In the cellar."},
    {"role": "assistant", "content": "In the cellar."},
]
ROLES = ["system", "user", "assistant", "tool", "assistant"]
GROK = {
    "conversations": [
        {
            "conversation": {"id": "g1", "title": "Tents", "create_time": "2025-03-01T09:00:00Z"},
            "responses": [
                {
                    "response": {
                        "_id": "r1",
                        "message": "Which tent?",
                        "sender": "human",
                        "create_time": {"$date": {"$numberLong": "1740819600000"}},
                    }
                },
                {
                    "response": {
                        "_id": "r2",
                        "message": "A light one.",
                        "sender": "ASSISTANT",
                        "model": "grok-3",
                        "create_time": {"$date": {"$numberLong": "1740819601000"}},
                    }
                },
                {"response": {"_id": "r3", "sender": "human"}},
            ],
        }
    ]
}
GEMINI = [
    {
        "header": "Gemini Apps",
        "title": "Prompted Name a knot.",
        "time": "2025-03-01T10:00:00.000Z",
        "products": ["Gemini Apps"],
        "safeHtmlItem": [
            {"html": "<p>The <b>bowline</b>.</p><ul><li>Strong &amp; simple</li></ul>"}
        ],
    },
    {"header": "Gemini Apps", "title": "Used Gemini Apps", "time": "2025-03-01T08:00:00Z"},
]
MEM0 = {
    "results": [
        {
            "id": "m1",
            "memory": "Ann is allergic to peanuts.",
            "hash": "x",
            "user_id": "ann",
            "metadata": {"from": "chat"},
            "categories": ["health"],
            "created_at": "2025-03-01T09:30:00.123456-07:00",
            "updated_at": None,
        }
    ]
}
GRAPH = [
    {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["likes tea"]},
    {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
    {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"},
]


def lines_of(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def imported_twice(db: MemDB, path: Path) -> ImportReport:
    """Import a file, and again: the second time nothing is added."""
    first = db.import_file(path, user="ann")
    second = db.import_file(path, user="ann")
    added = [name for name, value in second.to_dict().items() if name.endswith("_added") and value]
    assert added == []
    return first


def roles_of(db: MemDB, session: str) -> list[str]:
    return [one.role for one in db.scope("ann").session(session).messages()]


def test_an_array_of_openai_messages(db: MemDB, tmp_path: Path) -> None:
    """It is one conversation, called as the file."""
    (tmp_path / "trip.json").write_text(json.dumps(TALK))
    report = imported_twice(db, tmp_path / "trip.json")

    assert (report.format, report.messages_added) == ("openai", 5)
    assert roles_of(db, "trip") == ROLES


@pytest.mark.parametrize("form", ["lines", "one object", "array"])
def test_conversations_of_openai(form: str, db: MemDB, tmp_path: Path) -> None:
    """Lines of a fine-tuning file, an object and an array of them: a session each."""
    path = tmp_path / "tune.jsonl"
    one = {"messages": TALK, "tools": [{"type": "function"}]}
    texts = {
        "lines": lines_of(one, one),
        "one object": json.dumps(one, indent=1),
        "array": json.dumps([one, one]),
    }
    path.write_text(texts[form])
    report = imported_twice(db, path)

    names = ["tune 1"] if form == "one object" else ["tune 1", "tune 2"]
    assert (report.format, report.sessions) == ("openai", len(names))
    assert [roles_of(db, name) for name in names] == [ROLES] * len(names)
    assert report.left_out[0].what == "lists of tools"


def test_a_line_of_fine_tuning_that_is_broken(db: MemDB, tmp_path: Path) -> None:
    """It is left out with its place, the others are stored."""
    path = tmp_path / "tune.jsonl"
    path.write_text(lines_of({"messages": TALK}, {"messages": [5]}, {"messages": TALK}))
    report = db.import_file(path, user="ann")

    assert report.messages_added == 10
    assert [(one.what, "not a JSON object" in one.why) for one in report.left_out] == [
        ("line 2", True)
    ]


def test_grok(db: MemDB, tmp_path: Path, told: Told) -> None:
    """Conversations with titles, times and the model's name."""
    (tmp_path / "prod-grok-backend.json").write_text(json.dumps(GROK))
    report = imported_twice(db, tmp_path / "prod-grok-backend.json")

    assert (report.format, report.left_out[0].what) == ("grok", "messages")
    assert db.scope("ann").sessions()[0].title == "Tents"
    assert told(db, "g1", "role", "author", "text", "created_ms") == [
        ("user", None, "Which tent?", 1740819600000),
        ("assistant", "grok-3", "A light one.", 1740819601000),
    ]


@pytest.mark.parametrize("sender", ["grok-4", "ASSISTANT", "", None])
def test_a_sender_that_is_a_model_of_grok(
    sender: str | None, db: MemDB, tmp_path: Path, told: Told
) -> None:
    """It is the assistant, by whatever name it goes; its cards of sources are left out."""
    given = grok("tent")
    response = given["responses"][1]["response"]
    response["sender"] = sender
    response["message"] += "<grok:render type='card'>\\n[1]</grok:render>"
    response["file_attachments"] = ["6f1c"]
    path = tmp_path / "prod-grok-backend.json"
    path.write_text(json.dumps({"conversations": [given]}))
    report = db.import_file(path, user="ann")

    assert told(db, "c-tent", "role", "text") == [
        ("user", "Where is the tent?"),
        ("assistant", "The tent is here.\n[file]"),
    ]
    assert report.left_out == ()


def test_gemini(db: MemDB, tmp_path: Path, told: Told) -> None:
    """The prompts of a day are a session; the answer's HTML becomes text."""
    with zipfile.ZipFile(tmp_path / "takeout.zip", "w") as archive:
        archive.writestr("Takeout/My Activity/Gemini Apps/MyActivity.json", json.dumps(GEMINI))
    report = imported_twice(db, tmp_path / "takeout.zip")

    assert (report.format, [one.what for one in report.left_out]) == ("gemini", ["activities"])
    assert told(db, "gemini 2025-03-01", "role", "text") == [
        ("user", "Name a knot."),
        ("assistant", "The bowline.\nStrong & simple"),
    ]


@pytest.mark.parametrize("form", ["results", "array"])
def test_mem0(form: str, db: MemDB, tmp_path: Path) -> None:
    """A memory is an entry with its time, keywords and metadata."""
    (tmp_path / "m.json").write_text(json.dumps(MEM0 if form == "results" else MEM0["results"]))
    report = imported_twice(db, tmp_path / "m.json")
    (entry,) = db.scope("ann").entries.list()

    assert (report.format, report.entries_added) == ("mem0", 1)
    assert (entry.text, entry.keywords) == ("Ann is allergic to peanuts.", ("health",))
    assert entry.created_ms == 1740846600123
    assert entry.metadata == {"id": "m1", "user_id": "ann", "from": "chat"}


def test_times_without_a_zone(db: MemDB, tmp_path: Path) -> None:
    """Older versions of mem0 write them: they are UTC."""
    times = ["2025-02-02T03:04:05.123456", "2025-02-02 03:04:05", "2025-02-02T04:04:05+01:00"]
    given = [
        {"id": f"m{n}", "memory": f"Fact {n}.", "created_at": at} for n, at in enumerate(times)
    ]
    (tmp_path / "m.json").write_text(json.dumps(given))
    db.import_file(tmp_path / "m.json", user="ann")

    made = [entry.created_ms // 1000 for entry in db.scope("ann").entries.list()]
    assert made == [1738465445] * 3


def test_the_time_of_a_change(db: MemDB, tmp_path: Path) -> None:
    """A memory that mem0 changed was said then; one that it did not, when it was made."""
    made, changed = "2025-02-10T09:00:00Z", "2025-03-02T10:00:00Z"
    given = [
        {"id": "m1", "memory": "Ann flies tomorrow.", "created_at": made, "updated_at": changed},
        {"id": "m2", "memory": "Ann likes tea.", "created_at": made, "updated_at": None},
    ]
    (tmp_path / "m.json").write_text(json.dumps(given))
    imported_twice(db, tmp_path / "m.json")
    given[1]["updated_at"] = changed  # of its metadata: the text is the same, and known
    (tmp_path / "m.json").write_text(json.dumps(given))
    report = db.import_file(tmp_path / "m.json", user="ann")
    times = {
        entry.text: (entry.created_ms, entry.updated_ms) for entry in db.scope("ann").entries.list()
    }

    assert report.entries_added == 0
    assert times == {
        "Ann flies tomorrow.": (1739178000000, 1740909600000),
        "Ann likes tea.": (1739178000000, 1739178000000),
    }
    assert db.scope("ann").recall("What happens on 3 March 2025?")[0].text == "Ann flies tomorrow."


def test_the_database_of_mem0_is_refused(db: MemDB, tmp_path: Path) -> None:
    """The error says what is read in its place."""
    path = tmp_path / "history.db"
    with closing(apsw.Connection(str(path))) as history:
        history.execute("CREATE TABLE history (id, memory_id, old_memory, new_memory, event)")

    with pytest.raises(memdb.InvalidInput, match=r"of mem0 the JSON that its get_all\(\) gives"):
        db.import_file(path, user="ann")


def test_the_mcp_memory_server(db: MemDB, tmp_path: Path) -> None:
    """What it knows is recalled, and `memdb mcp` answers from the same graph."""
    (tmp_path / "memory.jsonl").write_text(lines_of(*GRAPH))
    report = imported_twice(db, tmp_path / "memory.jsonl")
    ann = db.scope("ann")

    assert report.format == "mcp-memory"
    assert {entry.text for entry in ann.entries.list()} == {"Ann: likes tea", "Ann works at Acme"}
    graph = ann.artifacts.load("user:knowledge-graph.jsonl").text
    assert [json.loads(line) for line in graph.splitlines()] == GRAPH


NOTE = """---
title: Packing
tags: [trip, tent]
created: 2025-03-01
aliases:
  - list
---
# Not the title
Take the #tent/big and see [[Oslo|the town]] or [the plan](plan.md#day).
```
#no-tag
```
"""


@pytest.mark.parametrize("form", ["folder", "zip", "file"])
def test_notes(form: str, db: MemDB, tmp_path: Path) -> None:
    """A note is an artifact under its path, a changed one its next version."""
    folder = tmp_path / "vault"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / ".obsidian" / "app.md").write_text("hidden")
    (folder / "trip").mkdir()
    (folder / "trip" / "packing.md").write_text(NOTE)
    (folder / "bad.md").write_bytes(b"\xfa\xfb")
    (folder / "photo.png").write_bytes(b"x")
    path = folder / "trip" / "packing.md" if form == "file" else folder
    if form == "zip":
        path = tmp_path / "vault.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("trip/packing.md", NOTE)
            archive.writestr("photo.png", "x")
    report = imported_twice(db, path)
    name = {"file": "packing.md", "zip": "vault.zip/trip/packing.md"}.get(
        form, "vault/trip/packing.md"
    )
    found = db.scope("ann").artifacts.load(f"user:{name}")

    assert (report.format, report.artifacts_added, found.text) == ("markdown", 1, NOTE)
    assert found.info.created_ms == 1740787200000
    assert found.info.metadata == {
        "title": "Packing",
        "tags": ["trip", "tent", "tent/big"],
        "created": "2025-03-01",
        "aliases": ["list"],
        "links": ["Oslo", "plan.md"],
    }
    if form == "folder":
        assert [one.what for one in report.left_out] == ["bad.md", "files"]
        (folder / "trip" / "packing.md").write_text("Changed.")
        assert db.import_file(path, user="ann").artifacts_added == 1
        assert db.scope("ann").artifacts.load(f"user:{name}").text == "Changed."


def test_notes_keep_the_time_of_their_file(db: MemDB, tmp_path: Path) -> None:
    """Without a date in the note, the file's time says when it was written."""
    (tmp_path / "a.md").write_text("Pack.")
    os.utime(tmp_path / "a.md", ns=(10**18, 10**18))
    db.import_file(tmp_path / "a.md", user="ann")

    assert db.scope("ann").artifacts.load("user:a.md").info.created_ms == 10**12


@pytest.mark.parametrize(
    ("name", "created"),
    [
        ("2025-03-01.md", 1_740_787_200_000),
        ("2025-03-01 Oslo.md", 1_740_787_200_000),
        ("2025_03_01.md", 1_740_787_200_000),
        ("2025-13-01.md", 10**12),
        ("Oslo 2025-03-01.md", 10**12),
    ],
)
def test_a_daily_note_has_the_day_of_its_name(
    db: MemDB, tmp_path: Path, name: str, created: int
) -> None:
    """A name that begins with a day says when the note was written; others do not."""
    (tmp_path / name).write_text("Pack.")
    os.utime(tmp_path / name, ns=(10**18, 10**18))
    db.import_file(tmp_path / name, user="ann")

    assert db.scope("ann").artifacts.load(f"user:{name}").info.created_ms == created


def test_plain_text(db: MemDB, tmp_path: Path) -> None:
    """A text file is an artifact that recall finds by its words."""
    (tmp_path / "diary.txt").write_text("The tent leaks.")
    imported_twice(db, tmp_path / "diary.txt")
    (hit,) = db.scope("ann").recall("tent leaks", kinds=["artifact"])

    assert hit.text == "The tent leaks."


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table(separator: str, db: MemDB, tmp_path: Path, told: Told) -> None:
    """Columns are known by their usual names; a row without text is left out."""
    rows = [
        ["Conversation ID", "Sender", "Message", "Created At", "Mood"],
        ["trip", "human", '"Which tent,\nthe big one?"', "2025-03-01 09:00:00", "x"],
        ["trip", "bot", "The big one.", "1740819601", ""],
        ["trip", "Bob", "", "", ""],
        ["", "Bob", "Take mine.", "2025-03-01T10:00:00+01:00", ""],
    ]
    path = tmp_path / "chat.csv"
    path.write_text("\n".join(separator.join(row) for row in rows))
    report = imported_twice(db, path)

    assert (report.format, report.left_out[0].what) == ("csv", "rows")
    assert told(db, "trip", "role", "text", "created_ms") == [
        ("user", "Which tent,\nthe big one?", 1740819600000),
        ("assistant", "The big one.", 1740819601000),
    ]
    assert told(db, "chat", "role", "author", "text") == [("user", "Bob", "Take mine.")]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("who,what\na,b\n", "no column with the text of messages"),
        ("text,time\na,yesterday\n", "time is 'yesterday'"),
    ],
)
def test_tables_that_are_none(text: str, error: str, db: MemDB, tmp_path: Path) -> None:
    """The error says what is missing, and nothing is stored."""
    (tmp_path / "a.csv").write_text(text)

    with pytest.raises(memdb.InvalidInput, match=error):
        db.import_file(tmp_path / "a.csv", user="ann")
    assert db.scope("ann").sessions() == []


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        (
            "text,role\nHello, world,user\nok,user\n",
            "row 1 (line 2)",
            "the row has 3 cells, but the hea",
        ),
        ("text,time\nok,\nno,02.03.2024\n", "row 2 (line 3)", "time is '02.03.2024'"),
        ('text,id\n"ok\nok",1\nno,1\n', "row 2 (line 4)", "external_id '1' belongs to a diff"),
    ],
    ids=["cells", "time", "id"],
)
def test_a_row_that_is_broken(text: str, where: str, why: str, db: MemDB, tmp_path: Path) -> None:
    """It is left out with its row and line, and the others are stored."""
    (tmp_path / "a.csv").write_text(text)
    report = db.import_file(tmp_path / "a.csv", user="ann")

    assert report.messages_added == 1
    assert report.left_out[0].what == where
    assert report.left_out[0].why.startswith(why)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('text\nfirst\n"He said hi\nsecond\nthird\n', r"a.csv: row 2 \(line 3\): a quote is not"),
        ("text,text\na,b\n", "a.csv has two columns 'text'"),
        ("\n", "a.csv is empty: it needs a first row with the names"),
        ("a\n1\n", "no column with the text of messages: rename one to 'text'; it has 'a'"),
        ('text\n"a"b\n', r"a.csv: row 1 \(line 2\) is not CSV"),
    ],
    ids=["quote", "column", "empty", "no text", "quote inside a cell"],
)
def test_a_table_that_is_none_stores_nothing(
    text: str, error: str, db: MemDB, tmp_path: Path
) -> None:
    """Alone it is refused before anything is stored; beside others it is left out."""
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "a.csv").write_text(text)
    with pytest.raises(memdb.InvalidInput, match=error):
        db.import_file(tmp_path / "alone" / "a.csv", user="ann")
    assert db.scope("ann").sessions() == []

    (tmp_path / "alone" / "b.csv").write_text("text\nok\n")
    report = db.import_file(tmp_path / "alone", user="ann")
    assert (report.messages_added, report.left_out[0].what) == (1, "a.csv")


def test_a_large_cell_and_other_columns(db: MemDB, tmp_path: Path) -> None:
    """A cell may be as long as any message; columns that mean nothing here are named."""
    (tmp_path / "a.csv").write_text(f"text,mood\n{'x' * 200_000},good\n")
    report = db.import_file(tmp_path / "a.csv", user="ann")

    assert len(db.scope("ann").session("a").get(1).text) == 200_000
    assert [(one.what, one.count) for one in report.left_out] == [("columns", 1)]
    assert report.left_out[0].why == "they are no fields of a message: mood"


def test_files_that_are_not_read(db: MemDB, tmp_path: Path) -> None:
    """Links, pipes and names that lead out of an archive are counted, each with the reason."""
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "a.md").write_text("Pack.")
    (folder / "link.md").symlink_to(folder / "a.md")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.md")
    left = db.import_file(folder, user="ann").left_out

    assert [(one.count, one.why) for one in left] == [
        (2, "links are not followed: link.md, loop"),
        (1, "they are no plain files: pipe.md"),
    ]
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        for name in ("../../evil.md", "x/../y.md", "/abs.md", "a.md", ".obsidian/hidden.md"):
            archive.writestr(name, "Pack.")
    report = db.import_file(tmp_path / "v.zip", user="ann")

    assert report.artifacts_added == 1
    assert [(one.count, one.why) for one in report.left_out] == [
        (3, "their names lead out of the archive: ../../evil.md, /abs.md, x/../y.md")
    ]


def test_odd_observations(db: MemDB, tmp_path: Path) -> None:
    """They are counted, a relation without a type is left out, and the graph lacks both."""
    odd = {**GRAPH[0], "observations": ["likes tea", "", None, 5]}
    nameless = {**GRAPH[2], "relationType": ""}
    (tmp_path / "m.jsonl").write_text(lines_of(odd, nameless, GRAPH[1]))
    report = imported_twice(db, tmp_path / "m.jsonl")
    graph = db.scope("ann").artifacts.load("user:knowledge-graph.jsonl").text

    assert [(one.what, one.count) for one in report.left_out] == [
        ("observations", 3),
        ("line 2", 1),
    ]
    assert [json.loads(line) for line in graph.splitlines()] == [GRAPH[0], GRAPH[1]]
