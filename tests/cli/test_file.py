"""`memdb info`, `check`, `rebuild` and `backup`: the file as a whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import memdb
from memdb.engine.sqlite import schema


def test_info_golden(run_json, trip):
    """--json is what the file knows of itself, with its scopes."""
    told = run_json("info", trip)

    assert sorted(told) == [
        "archived_messages",
        "bytes_per_store",
        "counts",
        "format",
        "is_encrypted",
        "meta",
        "migration_copies",
        "newest_ms",
        "oldest_ms",
        "other_tables",
        "path",
        "pending",
        "pending_jobs",
        "scopes",
        "scopes_left",
        "size_bytes",
        "spaces",
        "summaries",
        "upkeep",
        "wal_bytes",
        "wal_readers",
    ]
    assert (told["path"], told["format"]) == (trip, schema.FORMAT)
    assert told["scopes"] == [{"app": "default", "user": "ann"}]
    assert told["counts"]["messages"] == 3
    assert told["counts"]["artifact versions"] == 3
    assert (told["oldest_ms"], told["newest_ms"]) == (1_700_000_000_000, 1_741_598_040_000)
    assert (told["pending_jobs"], told["pending"]) == (2, {"embed": 2})
    assert (told["summaries"], told["archived_messages"]) == ({}, 0)


def test_info_for_a_person(run, trip):
    """Without --json the same is said in lines and two tables."""
    lines = run("info", trip).stdout.splitlines()

    assert lines[0] == f"file       {trip}"
    assert "users      ann (app default)" in lines
    assert "messages   from 2023-11-14 22:13 to 2025-03-10 09:14" in lines
    assert "due        2 embed" in lines
    assert "space      1 vector of static-en-1 (128 dimensions)" in lines
    assert "messages           3" in lines


def test_info_names_the_tables_of_others(run, trip):
    """They are listed, and left alone."""
    connection = sqlite3.connect(trip)
    connection.execute("CREATE TABLE notes (x)")
    connection.close()

    assert "others     tables of other programs: notes" in run("info", trip).stdout.splitlines()


def test_info_counts_summaries(run, run_json, path):
    """Summaries are counted by who wrote them, and what is due by its kind."""
    with memdb.open(path) as db:
        chat = db.scope("ann").session("long")
        chat.extend([{"role": "user", "text": f"We fly, leg {n}."} for n in range(30)])
        due = run("info", path).stdout
        db.jobs.run()
        chat.archive(10)
    lines = run("info", path).stdout.splitlines()
    told = run_json("info", path)

    assert "summaries  none\n" in due
    assert "due        1 embed, 1 summarize\n" in due
    assert "summaries  3 extractive" in lines
    assert "archived   20 messages" in lines
    assert "due        nothing" in lines
    assert (told["summaries"], told["archived_messages"]) == ({"extractive": 3}, 20)
    assert told["pending"] == {}


def test_info_counts_vectors(run, trip):
    """After a recall the vectors of each space are counted."""
    run("recall", trip, "Oslo")

    assert "space      4 vectors of static-en-1 (128 dimensions)" in run("info", trip).stdout


def test_info_of_a_file_without_memory(run, path):
    """A file that nobody wrote to has no users and no times."""
    memdb.open(path).close()
    said = run("info", path).stdout

    assert "users      none yet" in said
    assert "messages   none" in said


def test_info_lists_many_users_shortly(run, run_json, path):
    """Of many users a person sees twenty; --json has them all."""
    with memdb.open(path) as db:
        done = [db.scope(f"u{number:02}").remember("x") for number in range(25)]

    assert len(done) == 25
    assert "u19 (app default), and 5 more\n" in run("info", path).stdout
    assert len(run_json("info", path)["scopes"]) == 25


@pytest.mark.parametrize("words", [("info",), ("check",), ("recall", "x")], ids=" ".join)
def test_a_foreign_file_is_left_alone(run, tmp_path, words):
    """Another program's database, or no database at all, exits 6 unchanged."""
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = other.read_bytes()
    text = tmp_path / "text.db"
    text.write_text("no database\n" * 100)

    foreign = run(words[0], other, *words[1:])
    nothing = run(words[0], text, *words[1:])

    assert (foreign.exit_code, nothing.exit_code) == (6, 6)
    assert "another program's database" in foreign.stderr
    assert other.read_bytes() == before


@pytest.mark.parametrize("deep", [(), ("--deep",)], ids=["quick", "deep"])
def test_check_of_a_sound_file(run, run_json, trip, deep):
    """A sound file exits 0: one sentence, or [] with --json."""
    done = run("check", trip, *deep)

    assert (done.exit_code, done.stdout) == (0, "No problem found.\n")
    assert run_json("check", trip, *deep) == []


@pytest.fixture
def stale(trip, tmp_path, raw):
    """Return the path of a copy whose session counter is behind its messages."""
    copy = str(tmp_path / "stale.db")
    with memdb.open(trip) as db:
        db.file.backup(copy)
    raw(copy).execute("UPDATE sessions SET last_seq = 1")
    return copy


@pytest.fixture
def torn(trip, tmp_path, raw):
    """Return the path of a copy in which the text of a message was changed behind its hash."""
    copy = str(tmp_path / "torn.db")
    with memdb.open(trip) as db:
        db.file.backup(copy)
    raw(copy).execute("UPDATE messages SET text = 'We fly to Rome.' WHERE id & 16777215 = 1")
    return copy


def test_check_golden(run, run_json, stale):
    """Findings are a table, the advice stands beside it, and the exit code is 7."""
    done = run("check", stale)

    assert done.exit_code == 7
    assert done.stdout == "seq_above_last  index  rebuild  session trip\n"
    assert "1 problem found.\nAn index is damaged" in done.stderr
    assert f"run `memdb rebuild {stale}`.\n" in done.stderr
    assert run_json("check", stale) == [
        {
            "code": "seq_above_last",
            "text": "session trip",
            "rebuildable": True,
            "damaged": "index",
            "remedy": "memdb rebuild FILE",
        }
    ]
    assert run("check", stale, "--json").exit_code == 7


def test_check_on_a_terminal(run, stale, terminal):
    """On a terminal the findings have a heading."""
    assert run("check", stale).stdout.startswith("RULE            DAMAGED  FIXED BY  WHERE\n")


def test_check_says_when_a_backup_helps(run, torn):
    """A damaged row cannot be rebuilt, and the advice says so."""
    done = run("check", torn)

    assert done.exit_code == 7
    assert "message_hash" in done.stdout
    assert f"run `memdb restore BACKUP {torn}`, or `memdb recover {torn} NEW`.\n" in done.stderr


def test_rebuild_mends_what_is_derived(run, run_json, stale):
    """After rebuild the check finds nothing."""
    done = run("rebuild", stale)

    assert (done.exit_code, done.stdout) == (0, "Rebuilt what is derived.\n")
    assert run_json("check", stale) == []
    assert run_json("rebuild", stale) is None


def test_backup(run_json, trip, tmp_path):
    """The copy has the same content, and --json says how large it is."""
    copy = tmp_path / "copy.db"
    told = run_json("backup", trip, copy)

    assert told == {"path": str(copy), "size_bytes": copy.stat().st_size}
    assert run_json("chat", "list", copy) == run_json("chat", "list", trip)


def test_backup_does_not_write_over_a_file(run, trip, tmp_path):
    """A file that is there stays, exit 4; --replace writes over it."""
    copy = tmp_path / "copy.db"
    copy.write_text("mine")

    assert run("backup", trip, copy).exit_code == 4
    assert copy.read_text() == "mine"
    assert run("backup", trip, copy, "--replace").exit_code == 0
    assert run("check", copy).exit_code == 0


def test_backup_onto_itself_is_refused(run, trip, tmp_path):
    """FILE is never replaced by its own copy, by whatever path."""
    link = tmp_path / "link.db"
    link.symlink_to(trip)

    assert run("backup", trip, trip, "--replace").exit_code == 6
    assert run("backup", trip, link, "--replace").exit_code == 6


def test_backup_into_a_missing_folder(run, trip, tmp_path):
    """A TARGET that cannot be written exits 6 and leaves nothing behind."""
    done = run("backup", trip, tmp_path / "nowhere" / "copy.db")

    assert done.exit_code == 6
    assert not Path(tmp_path / "nowhere").exists()


def test_info_tells_of_upkeep(run, run_json, path):
    """When a worker last kept the file, and what failed."""
    with memdb.open(path) as db:
        before = run("info", path).stdout
        db.jobs.run(due=True)
        lines = run("info", path).stdout.splitlines()
        told = run_json("info", path)["upkeep"]

    assert "upkeep     never: `memdb work --watch` does it\n" in before
    assert any(line.startswith("upkeep     last 20") for line in lines)
    assert {"checkpoint", "expire", "optimize"} <= {one["kind"] for one in told}
    assert all(one["error"] is None and one["done_ms"] > 0 for one in told)
