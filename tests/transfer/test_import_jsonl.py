"""Importing JSON lines written by hand or by another program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.formats import source
from memdb.transfer import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api.database import MemDB

    Lines = Callable[..., str]
    Told = Callable[..., list[tuple[Any, ...]]]

WORKSHOP = Path(__file__).parents[2] / "examples" / "workshop.jsonl"


def test_the_example(db: MemDB) -> None:
    """The workshop comes with its messages and files, and only once."""
    first = db.import_file(WORKSHOP, user="mara")
    second = db.import_file(WORKSHOP, user="mara")
    mara = db.scope("mara")

    assert (first.format, first.sessions, first.messages_added) == ("jsonl", 12, 196)
    assert (first.entries_added, first.artifacts_added) == (0, 10)
    assert (second.messages_added, second.artifacts_added) == (0, 0)
    assert (second.messages_known, second.artifacts_known) == (196, 10)
    assert [
        (one.version, one.message_session, one.message_seq)
        for one in mara.artifacts.versions("user:budget.csv")
    ][-1] == (1, "kickoff", 13)


def test_bare_lines(db: MemDB, lines: Lines, told: Told) -> None:
    """Role and content are enough; other fields have other names too."""
    path = lines(
        {"role": "human", "content": "Hello", "name": "Ann", "time": 1700000000},
        {"role": "ai", "text": "Hi", "timestamp": 1700000000500, "id": 7},
        {"role": "user", "content": "", "created_at": "2023-11-14T22:13:22+00:00", "model": "x"},
        {"role": "user", "content": "late", "time": "2023-11-14T22:13:23"},
        {"role": "user", "content": [{"type": "text", "text": "in parts"}], "session": "other"},
    )
    report = db.import_file(path, user="ann", session="chat")

    assert (report.messages_added, report.sessions) == (5, 2)
    assert told(db, "chat", "role", "text", "author", "created_ms", "metadata") == [
        ("user", "Hello", "Ann", 1700000000000, None),
        ("assistant", "Hi", None, 1700000000500, None),
        ("user", "", None, 1700000002000, {"model": "x"}),
        ("user", "late", None, 1700000003000, None),
    ]
    assert db.scope("ann").session("chat").find("7").text == "Hi"
    ((text, (part, original)),) = told(db, "other", "text", "parts")
    assert (text, part) == ("in parts", {"type": "text", "text": "in parts"})
    assert original["whole"]["content"] == [part]


def test_lines_without_ids_are_known_again(db: MemDB, lines: Lines, told: Told) -> None:
    """A file that grew adds only its new lines, though some say the same."""
    said = [{"role": "user", "content": "yes"}, {"role": "user", "content": "yes"}]
    db.import_file(lines(*said), user="ann", session="chat")
    report = db.import_file(
        lines(*said, {"role": "user", "content": "no"}), user="ann", session="chat"
    )

    assert (report.messages_added, report.messages_known) == (1, 2)
    assert told(db, "chat", "text") == [("yes",), ("yes",), ("no",)]


def test_sessions_can_be_described(db: MemDB, lines: Lines) -> None:
    """A session line gives a title and a time before the first message."""
    path = lines(
        {"kind": "session", "name": "trip", "title": "Oslo", "metadata": {"a": 1}, "created_ms": 5},
        {"kind": "message", "session": "trip", "role": "user", "text": "We fly."},
    )
    report = db.import_file(path, user="ann")
    (info,) = db.scope("ann").sessions()

    assert report.sessions == 1
    assert (info.title, info.metadata, info.created_ms) == ("Oslo", {"a": 1}, 5)
    assert info.message_count == 1


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_keyed_entries_follow_each_other_once(
    chunk: int, db: MemDB, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key's later lines replace the earlier ones, and a second import changes nothing."""
    monkeypatch.setattr(importer, "CHUNK_ITEMS", chunk)
    path = lines(
        {"kind": "entry", "key": "home", "text": "Oslo"},
        {"kind": "entry", "key": "home", "text": "Oslo"},
        {"kind": "entry", "key": "home", "text": "Bergen"},
        {"kind": "entry", "key": "home", "text": "Oslo"},
        {"kind": "entry", "key": "home", "text": "Oslo", "keywords": ["city"]},
        {
            "kind": "entry",
            "key": "home",
            "text": "Oslo",
            "keywords": ["city"],
            "metadata": {"a": 1},
        },
        {"kind": "entry", "text": "no key"},
        {"kind": "entry", "text": "no key"},
    )
    first = db.import_file(path, user="ann")
    second = db.import_file(path, user="ann")
    entries = db.scope("ann").entries
    home = entries.find("home")

    assert (first.entries_added, first.entries_known) == (6, 2)
    assert (second.entries_added, second.entries_known) == (0, 8)
    assert [old.text for old in entries.replaced(home.id)] == ["Bergen", "Oslo"]
    assert [old.keywords for old in entries.history(home.id)] == [(), ("city",)]
    assert (home.text, home.keywords, home.metadata) == ("Oslo", ("city",), {"a": 1})


def test_an_entry_names_the_message_it_comes_from(db: MemDB, lines: Lines) -> None:
    """By the message's id; the entry has its session and number."""
    path = lines(
        {"kind": "message", "session": "trip", "role": "user", "text": "Hello."},
        {
            "kind": "message",
            "session": "trip",
            "role": "user",
            "text": "I dive.",
            "external_id": "m2",
        },
        {"kind": "entry", "text": "Ann dives.", "session": "trip", "message": "m2"},
    )
    db.import_file(path, user="ann")
    (entry,) = db.scope("ann").entries.list()

    assert (entry.session, entry.first_seq, entry.last_seq) == ("trip", 2, 2)


def test_versions_follow_each_other_once(db: MemDB, lines: Lines) -> None:
    """Bytes that come back are a version again, in the second import nothing is."""
    path = lines(
        {"kind": "artifact", "session": "s", "name": "a.txt", "text": "one"},
        {"kind": "artifact", "session": "s", "name": "a.txt", "text": "two"},
        {"kind": "artifact", "session": "s", "name": "a.txt", "data": "b25l"},
        {"kind": "artifact", "name": "b.txt", "text": "shared"},
    )
    db.import_file(path, user="ann")
    report = db.import_file(path, user="ann")
    files = db.scope("ann").artifacts
    own = db.scope("ann").session("s").artifacts

    assert (report.artifacts_added, report.artifacts_known) == (0, 4)
    assert [own.load("a.txt", n).text for n in (1, 2, 3)] == ["one", "two", "one"]
    assert files.load("user:b.txt").text == "shared"


def test_blank_lines_and_a_mark_at_the_start(db: MemDB, tmp_path: Path, told: Told) -> None:
    """A byte order mark, blank lines and carriage returns do no harm."""
    path = tmp_path / "windows.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"role":"user","text":"one"}\r\n\r\n  \r\n{"role":"user","text":"two"}'
    )
    db.import_file(path, user="ann", session="chat")

    assert told(db, "chat", "text") == [("one",), ("two",)]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        pytest.param('{"role": "user", "content": "cut o', "not JSON", id="cut off"),
        pytest.param('{"role": "user"} {"role": "user"}', "one object per line", id="two"),
        pytest.param("[1]", "not a JSON object", id="list"),
        pytest.param({"text": "x"}, "neither kind nor role", id="no role"),
        pytest.param({"role": "bird", "text": "x"}, "role is 'bird': use one of", id="role"),
        pytest.param({"role": ["user"], "text": "x"}, "role is", id="role list"),
        pytest.param({"role": "user", "text": 5}, "text is int", id="text"),
        pytest.param({"role": "user", "time": "soon"}, "write it like", id="no time"),
        pytest.param({"role": "user", "time": True}, "give milliseconds", id="bool time"),
        pytest.param('{"role": "user", "time": NaN}', "time is nan", id="NaN time"),
        pytest.param('{"role": "user", "time": 1e300}', "time is 1", id="far time"),
        pytest.param(
            {"kind": "message", "role": "user", "name": "x"}, "no field 'name'", id="slip"
        ),
        pytest.param({"kind": "message", "role": "user", "seq": 1}, "session is missing", id="seq"),
        pytest.param({"kind": "entry", "text": " "}, "text is empty", id="entry"),
        pytest.param({"kind": "entry"}, "text is missing", id="entry text"),
        pytest.param({"kind": "entry", "text": "x", "importance": 11}, "importance is 11", id="i"),
        pytest.param(
            {"kind": "entry", "text": "x", "session": "no"}, "no session 'no'", id="where"
        ),
        pytest.param(
            {"kind": "entry", "text": "x", "session": "chat", "message": "no"},
            "no message with external_id 'no'",
            id="who",
        ),
        pytest.param({"kind": "entry", "text": "x", "message": "m"}, "without session", id="whose"),
        pytest.param({"kind": "artifact", "name": "a"}, "needs text or data", id="bytes"),
        pytest.param(
            {"kind": "artifact", "name": "a", "text": "x", "message": "m"}, "without", id="m"
        ),
        pytest.param(
            {"role": "user", "text": "other", "id": "m1"}, "different message", id="twice"
        ),
    ],
)
def test_a_bad_line(bad: Any, error: str, db: MemDB, lines: Lines, told: Told) -> None:
    """It is left out with its place and reason, the others stay, and the next run goes on."""
    good = [{"role": "user", "text": "one", "id": "m1"}, {"role": "user", "text": "two"}]
    last = {"role": "user", "text": "last"}
    trial = db.import_file(lines(*good, bad, last), user="ann", session="chat", dry_run=True)
    first = db.import_file(lines(*good, bad, last), user="ann", session="chat")
    between = told(db, "chat", "text")
    mended = {"role": "user", "text": "mended"}
    report = db.import_file(lines(*good, mended, last), user="ann", session="chat")

    assert [one.what for one in first.left_out] == ["line 3"]
    assert re.search(error, first.left_out[0].why)
    assert [one.what for one in trial.left_out] == ["line 3"]
    assert between == [("one",), ("two",), ("last",)]
    assert (report.messages_added, report.messages_known) == (1, 3)


def test_text_that_is_not_utf8(db: MemDB, tmp_path: Path, told: Told) -> None:
    """The line is named."""
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"role":"user","text":"one"}\n{"role":"user","text":"caf\xe9"}\n')

    report = db.import_file(path, user="ann", session="chat")

    assert [one.what for one in report.left_out] == ["line 2"]
    assert "not UTF-8 at byte 27" in report.left_out[0].why
    assert told(db, "chat", "text") == [("one",)]


def test_a_message_without_session(db: MemDB, lines: Lines) -> None:
    """A session must be in the line or given."""
    with pytest.raises(memdb.InvalidInput, match=r"line 1: .*no session"):
        db.import_file(lines({"role": "user", "text": "x"}), user="ann")


def test_nobody_is_named(db: MemDB, lines: Lines) -> None:
    """Lines by hand do not say whose memory they are."""
    with pytest.raises(memdb.InvalidInput, match="give a user"):
        db.import_file(lines({"role": "user", "text": "x"}), session="chat")


def test_progress_tells_bytes(db: MemDB, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called after each chunk, and at the end with the whole."""
    monkeypatch.setattr(importer, "CHUNK_ITEMS", 2)
    monkeypatch.setattr(source, "BLOCK_BYTES", 30)  # a line
    path = lines(*[{"role": "user", "text": "x"}] * 5)
    seen: list[tuple[int, int]] = []
    db.import_file(path, user="ann", session="c", progress=lambda *step: seen.append(step))

    assert seen == [(60, 150), (120, 150), (150, 150)]


def test_a_session_deleted_between_two_chunks(
    db: MemDB, lines: Lines, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages that follow begin it anew, and none is lost beside it."""
    monkeypatch.setattr(importer, "CHUNK_ITEMS", 2)
    path = lines(*[{"role": "user", "text": str(number)} for number in range(5)])
    deletes = iter([db.scope("ann").session("c").delete, lambda: None, lambda: None])
    db.import_file(path, user="ann", session="c", progress=lambda *_: next(deletes)())

    assert told(db, "c", "text") == [("2",), ("3",), ("4",)]


def test_large_artifacts_end_a_chunk(
    db: MemDB, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are limited in bytes, too."""
    monkeypatch.setattr(importer, "CHUNK_BYTES", 1000)
    path = lines(*[{"kind": "artifact", "name": f"{n}.txt", "text": "x" * 999} for n in range(4)])
    seen: list[int] = []
    db.import_file(path, user="ann", progress=lambda done, _total: seen.append(done))

    assert len(seen) == 3


def test_tokens_are_counted_outside_of_transactions(
    file_db: MemDB, open_db: Callable[..., MemDB], lines: Lines, tmp_path: Path
) -> None:
    """A slow counter keeps nobody from writing."""
    writing: list[bool] = []

    class Counter:
        name = "spy"

        def count(self, text: str) -> int:
            return len(text)

        def count_many(self, texts: list[str]) -> list[int]:
            writing.append(spied._db.writing)
            return [len(text) for text in texts]

    spied = open_db(str(tmp_path / "spied.db"), counter=Counter())
    spied.import_file(lines({"role": "user", "text": "four"}), user="ann", session="c")

    assert writing == [False]
    assert spied.scope("ann").session("c").get(1).tokens == 4


def test_lines_of_flowcrafts_long_term_memory(db: MemDB, lines: Lines) -> None:
    """A line with a category and no role is an entry; importing it again adds nothing."""
    line = {
        "id": "c1",
        "category": "cases",
        "content": "The build failed for want of disk.",
        "keywords": ["ci", "disk"],
        "source": {"runtime_id": "r", "conversation_id": "c", "timestamp": "2025-05-01T09:00:00Z"},
        "created_at": "2025-05-01T09:00:00Z",
        "updated_at": "2025-05-02T09:00:00Z",
        "scope": {"runtime_id": "r", "user_id": "ann", "session_id": ""},
    }
    path = lines(line)

    first = db.import_file(path, user="ann", session="chat")
    second = db.import_file(path, user="ann", session="chat")

    assert (first.entries_added, second.entries_added, second.entries_known) == (1, 0, 1)
    (entry,) = db.scope("ann").entries.list()
    assert (entry.text, entry.category, entry.keywords, entry.created_ms) == (
        "The build failed for want of disk.",
        "cases",
        ("ci", "disk"),
        1_746_090_000_000,
    )
