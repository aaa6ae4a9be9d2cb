"""What was forgotten does not come back when another program's file is imported once more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from agent_samples import CLAUDE, CODEX, CURSOR, GEMINI
from import_samples import SAMPLES
from test_import_chats import CHATS, FACTS, write

import memdb
from memdb.adapters.host import mirror
from memdb.agents.capture import capture, forget_position
from memdb.formats.detect import FORMATS
from memdb.models.ids import made_id, without_content
from memdb.records.dependents import source_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memdb import ImportReport, MemDB, Scope

WORDS = ("anorak", "beaker", "canoe")
TRANSCRIPTS = {"claude-code": CLAUDE, "codex": CODEX, "cursor": CURSOR, "gemini-cli": GEMINI}
BY_HAND = [
    {"kind": "session", "name": "s", "title": "Of Wilma"},
    {"role": "user", "text": "Wilma lives in Bergen.", "session": "s"},
    {"role": "user", "text": "She has a boat.", "session": "s", "id": "m2"},
    {"kind": "entry", "text": "Wilma lives in Bergen."},
    {"kind": "entry", "text": "Wilma's boat is red.", "key": "boat"},
    {"kind": "entry", "text": "The boat is blue.", "key": "boat"},
    {"kind": "item", "namespace": ["n"], "key": "k", "value": {"text": "Wilma again"}},
    {"kind": "artifact", "name": "user:a.md", "text": "Of Wilma."},
    {"kind": "artifact", "session": "s", "name": "b.md", "text": "Of Wilma."},
]


def texts_of(line: dict[str, Any]) -> str:
    """Return what an exported line says."""
    return str(line.get("text") or line.get("value") or "")


def lines_of(db: MemDB, user: str, app: str = "default") -> list[dict[str, Any]]:
    """Return what a user has, without what tells of something forgotten."""
    found = [json.loads(line) for line in db.export_lines(user=user, app=app, embeddings=False)]
    left_out = {"tombstone", "scope", "memdb", "end", "settings"}
    return [
        {name: value for name, value in line.items() if name not in ("updated_ms", "uid")}
        for line in found
        if line["kind"] not in left_out and line.get("namespace") != ["transcripts"]
    ]


def counts(report: ImportReport) -> list[int]:
    """Return what a dry run knows exactly."""
    names = ("sessions", "branches", "messages_added", "messages_known")
    return [getattr(report, name) for name in names]


def by_word(ann: Scope, lines: list[dict[str, Any]]) -> None:
    """Forget all that holds a word."""
    words = [one for line in lines for one in re.findall(r"\b[A-Za-z]{4,}\b", texts_of(line))]
    ann.forget(person=words[0])


def by_seq(ann: Scope, lines: list[dict[str, Any]]) -> None:
    """Forget the first and the last message of each session, or all entries."""
    for info in ann.sessions():
        seqs = [one.seq for one in ann.session(info.name).messages()]
        if seqs:
            ann.forget(session=info.name, seqs=[seqs[0], seqs[-1]])
    for entry in [*ann.entries.list()]:
        ann.forget(entry=entry.id)


def by_session(ann: Scope, lines: list[dict[str, Any]]) -> None:
    """Forget each session."""
    for info in [*ann.sessions()]:
        ann.forget(session=info.name)


WAYS: dict[str, Callable[[Scope, list[dict[str, Any]]], None]] = {
    "word": by_word,
    "seq": by_seq,
    "session": by_session,
    "person": lambda ann, _: ann.forget(everything=True) and None,
}


def files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield a file of each format."""

    def at(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name

    for name, (record, save) in SAMPLES.items():
        yield name, save(at(name), [record(word) for word in WORDS])
    for name, (file, held, *_) in CHATS.items():
        yield name, write(at(name), file, held)
    for name, (held, _) in FACTS.items():
        yield name, write(at(name), f"{name}.db", held)
    yield from TRANSCRIPTS.items()
    text = at("text") / "n.txt"
    text.write_text("Wilma lives in Bergen.")
    yield "text", text
    yield "by hand", write(at("hand"), "hand.jsonl", BY_HAND)
    with memdb.open(":memory:", embedder=None) as db:
        db.import_file(folder / "hand" / "hand.jsonl", user="ann")
        db.scope("ann").session("s").state.put("pet", "Wilma")
        db.scope("ann").state.put("friend", "Wilma")
        db.export(at("memdb") / "memdb.jsonl")
    yield "memdb", folder / "memdb" / "memdb.jsonl"


def test_a_second_import_brings_nothing_back(tmp_path: Path) -> None:
    """Of no format, whatever was forgotten; a dry run counts as the import does."""
    failures, seen = [], set()
    with memdb.open(":memory:", embedder=None) as db:
        for name, path in files(tmp_path):
            for way, forget in WAYS.items():
                user = f"{name} {way}"
                trial = db.import_file(path, user=user, dry_run=True)
                report = db.import_file(path, user=user)
                seen.add(report.format)
                if counts(trial) != counts(report):
                    failures.append((user, str(trial)))
                full = lines_of(db, user)
                forget(db.scope(user), full)
                left = lines_of(db, user)
                trial = db.import_file(path, user=user, dry_run=True)
                report = db.import_file(path, user=user)
                if name != "memdb" and counts(trial) != counts(report):
                    failures.append((user, str(trial)))
                if lines_of(db, user) != left or (left != full and not report.forgotten):
                    failures.append((user, str(report)))

        assert failures == []
        assert db.file.check() == []
        assert {*FORMATS} - seen == {"sqlite", "lossless-claw"}  # tables of anybody


def test_a_transcript_that_is_read_again_brings_nothing_back() -> None:
    """Also by `agent import --again`, and where its hook lost how far it had read."""
    failures = []
    with memdb.open(":memory:", embedder=None) as db:
        for name, path in TRANSCRIPTS.items():
            for way, forget in WAYS.items():
                user = f"{name} {way}"
                app = capture(db, path, user=user).app
                forget(db.scope(user, app), lines_of(db, user, app))
                left = lines_of(db, user, app)
                forget_position(db, user, path)
                again = capture(db, path, user=user)
                if lines_of(db, user, app) != left or not again.left_out.get("forgotten before"):
                    failures.append((user, again))

        assert failures == []
        assert db.file.check() == []


def test_what_a_host_adds_again_stays_away() -> None:
    """A copy of another store says its messages once more; who appends by hand is heard."""
    said = [({"role": "user", "content": f"Wilma {place}"}, f"m{place}") for place in range(3)]
    with memdb.open(":memory:", embedder=None) as db:
        chat = db.scope("ann").session("s")
        mirror(chat, said)()
        chat.forget(seqs=[2])
        mirror(chat, said)()
        assert [one.text for one in chat.messages()] == ["Wilma 0", "Wilma 2"]
        chat.append("user", "Wilma 1", external_id="m1")
        mirror(chat, said)()
        assert [one.text for one in chat.messages()] == ["Wilma 0", "Wilma 2", "Wilma 1"]


def test_a_fact_that_was_known_already_stays_away(tmp_path: Path) -> None:
    """The entry that said it first has another uid than the line of the import."""
    path = SAMPLES["mem0"][1](tmp_path, [SAMPLES["mem0"][0]("anorak")])
    with memdb.open(":memory:", embedder=None) as db:
        ann = db.scope("ann")
        ann.remember("Ann owns a anorak.")
        db.import_file(path, user="ann")
        ann.forget(query="anorak")
        report = db.import_file(path, user="ann")

        assert (report.forgotten, report.entries_added) == (1, 0)


def test_a_tombstone_does_not_tell_what_was_said(tmp_path: Path) -> None:
    """Two files that differ in a short text alone leave tombstones that mostly agree."""
    marks = set()
    for place in range(300):
        made = made_id("line-1", f"yes {place}".encode())
        marks.add(source_uid("message", "s", without_content(made)))

    assert 100 < len(marks) <= 256
    assert without_content("msg_01~not-made") == "msg_01~not-made"


def test_a_new_message_of_a_forgotten_session_comes_in(tmp_path: Path) -> None:
    """Only what was there is kept away, and the session has no title."""
    lines = [{"kind": "session", "name": "s", "title": "Of Wilma"}]
    lines += [{"role": "user", "text": f"Line {n}", "session": "s", "id": f"m{n}"} for n in (1, 2)]
    with memdb.open(":memory:", embedder=None) as db:
        db.import_file(write(tmp_path, "a.jsonl", lines), user="ann")
        db.scope("ann").forget(session="s")
        lines.append({"role": "user", "text": "Line 3", "session": "s", "id": "m3"})
        report = db.import_file(write(tmp_path, "a.jsonl", lines), user="ann")

        assert (report.forgotten, report.messages_added) == (2, 1)
        assert [one.text for one in db.scope("ann").session("s").messages()] == ["Line 3"]
        assert [one.title for one in db.scope("ann").sessions()] == [None]
