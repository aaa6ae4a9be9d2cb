"""`memdb import` and `memdb export`: conversations from and to other files."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
from import_samples import chatgpt

import memdb
from memdb.agents.places import user_name
from memdb.transfer import importer

WORKSHOP = Path(memdb.__file__).parents[1] / "examples" / "workshop.jsonl"


def write_lines(tmp_path, count):
    """Write JSON lines with *count* messages; return their path."""
    source = tmp_path / "long.jsonl"
    lines = (
        {
            "kind": "message",
            "session": "s",
            "external_id": f"m{n}",
            "role": "user",
            "text": f"no {n}",
        }
        for n in range(count)
    )
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return source


@pytest.fixture
def long(tmp_path):
    """Return the path of JSON lines with 4,100 messages, three chunks."""
    return write_lines(tmp_path, 4_100)


def test_import_golden(run_json, path):
    """--json counts what was added and known, and what was embedded."""
    told = run_json("import", path, WORKSHOP, "--user", "mara")

    assert told == {
        "format": "jsonl",
        "sessions": 12,
        "branches": 0,
        "notes": [],
        "messages_added": 196,
        "messages_known": 0,
        "summaries_added": 0,
        "entries_added": 0,
        "entries_known": 0,
        "artifacts_added": 10,
        "artifacts_known": 0,
        "items_added": 0,
        "items_known": 0,
        "embeddings_added": 0,
        "state_added": 0,
        "settings_added": 0,
        "forgotten": 0,
        "left_out": [],
        "dry_run": False,
        "samples": [],
        "embedded": 196,
    }


def test_import_says_what_it_did(run, path):
    """Without --json it is a sentence, and nothing stands beside it without a terminal."""
    done = run("import", path, WORKSHOP, "--user", "mara")

    assert (done.exit_code, done.stderr) == (0, "")
    assert "196 messages" in done.stdout


def test_import_again_adds_nothing(run_json, path):
    """A second import knows everything."""
    run_json("import", path, WORKSHOP, "--user", "mara")
    told = run_json("import", path, WORKSHOP, "--user", "mara")

    assert (told["messages_added"], told["messages_known"], told["embedded"]) == (0, 196, 0)


def test_import_without_embedding(run_json, path):
    """--no-embed leaves the vectors to later."""
    told = run_json("import", path, WORKSHOP, "--user", "mara", "--no-embed")

    assert told["embedded"] == 0
    assert run_json("info", path)["pending_jobs"] > 0


def test_import_shows_how_far_it_is(in_terminal, path):
    """On a terminal shares of it are shown, then a counter."""
    code, said = in_terminal("import", path, WORKSHOP, "--user", "mara")

    assert code == 0
    assert "Importing 100%" in said
    assert "Embedding 196" in said


@pytest.mark.parametrize("named", [True, False], ids=["named", "nobody"])
def test_memories_of_mem0_go_to_whom_they_name(run_json, path, tmp_path, named):
    """Or, in a file that names nobody, to who is logged in."""
    given = [
        {"id": one, "memory": f"{one} likes tea.", **({"user_id": one} if named else {})}
        for one in ("ann", "bo")
    ]
    (tmp_path / "a.json").write_text(json.dumps({"results": given}))

    assert run_json("import", path, tmp_path / "a.json")["entries_added"] == 2
    with memdb.open(path) as db:
        assert {one.user for one in db.scopes()} == ({"ann", "bo"} if named else {user_name()})


def test_an_import_without_a_user_goes_to_who_is_logged_in(run, run_json, path, tmp_path):
    """As the memory of coding agents does."""
    (tmp_path / "chat.jsonl").write_text('{"role": "user", "text": "hi", "session": "s"}\n')

    assert run("import", path, str(tmp_path / "chat.jsonl")).exit_code == 0
    with memdb.open(path) as db:
        assert [scope.user for scope in db.scopes()] == [user_name()]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("nowhere.jsonl", "--user", "ann"), 6),
        (("empty.jsonl", "--user", "ann"), 5),
        (("plain", "--user", "ann"), 5),
        (("chat.jsonl", "--user", "ann", "--format", "novel"), 5),
    ],
    ids=str,
)
def test_import_refuses(run, path, tmp_path, monkeypatch, words, exit_code):
    """What cannot be read, or belongs to nobody, is refused with the exit code of its kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "plain").write_text("Dear diary\n")
    (tmp_path / "chat.jsonl").write_text('{"role": "user", "text": "hi", "session": "s"}\n')

    done = run("import", path, *words)

    assert done.exit_code == exit_code
    assert done.stderr.startswith("Error: ")


# What an import fails for before anything is stored: the source, and other arguments.
FAILING = {
    "absent": (None, "--user", "ann"),
    "unknown": ("Dear diary", "--user", "ann"),
    "empty user": ('{"role": "user", "text": "hi", "session": "s"}', "--user", ""),
    "no session": ('{"role": "user", "text": "hi"}', "--user", "ann"),
    "broken records": ('{"role": "user", "text": 5, "session": "s"}', "--user", "ann"),
    "broken export": ('{"kind": "memdb", "format": 1}',),
    "newer export": ('{"kind": "memdb", "export": 99}',),
    "secret": (
        '{"kind": "entry", "category": "profile", "text": "It is AKIAIOSFODNN7EXAMPLE"}',
        "--user",
        "ann",
    ),
    "summary of nothing": (
        '{"kind": "summary", "session": "s", "first_seq": 1, "last_seq": 2, "text": "Hi."}',
        "--user",
        "ann",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_an_import_that_fails_makes_no_file(run, path, tmp_path, name):
    """FILE is made when something of SOURCE can be stored."""
    text, *words = FAILING[name]
    source = tmp_path / "source.jsonl"
    if text is not None:
        source.write_text(f"{text}\n")
    done = run("import", path, source, *words)

    assert done.exit_code in (5, 6)
    assert done.stderr.startswith("Error: ")
    assert [*Path(path).parent.glob(f"{Path(path).name}*")] == []


def test_ctrl_c_before_anything_is_stored_makes_no_file(run, path, long, monkeypatch):
    """And says that nothing is."""
    monkeypatch.setattr("memdb.formats.importing.require_format", lambda *_, **__: Mock())
    monkeypatch.setattr(
        "memdb.formats.importing.choose_format", lambda *_, **__: signal.raise_signal(2)
    )
    stopped = run("import", path, long, "--user", "ann")

    assert (stopped.exit_code, stopped.stderr.strip()) == (130, "Stopped. Nothing is stored.")
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_stopped_import_can_go_on(run, run_json, path, long, monkeypatch, number, code):
    """The first chunks are kept, and counted; running it again adds the rest."""
    with monkeypatch.context() as patch:
        patch.setattr("memdb.cli.output.Line.to", lambda *_: signal.raise_signal(number))
        stopped = run("import", path, long, "--user", "ann")
    kept = run_json("info", path)["counts"]["messages"]
    told = run_json("import", path, long, "--user", "ann")

    assert stopped.exit_code == code
    assert f"Stopped. Stored: {kept:,} messages in 1 new session. " in stopped.stderr
    assert "is sound and keeps what was imported so far" in stopped.stderr
    assert "Run the same command again" in stopped.stderr
    assert 0 < kept < 4_100
    assert (told["messages_known"], told["messages_added"]) == (kept, 4_100 - kept)


def test_a_chunk_that_was_not_stored_is_not_counted(run, run_json, path, long, monkeypatch):
    """Ctrl-C while the second chunk is written takes all of it back."""
    message = importer._KINDS["message"]
    calls = []
    run("remember", path, "Ann lives in Oslo.", "--user", "ann")  # FILE is there

    def stop_late(*given):
        message.write(*given)
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(importer._KINDS, "message", message.replace(write=stop_late))
        stopped = run("import", path, long, "--user", "ann")
    kept = run_json("info", path)["counts"]["messages"]

    assert (stopped.exit_code, len(calls)) == (130, 2)
    assert f"Stored: {kept:,} messages in 1 new session. " in stopped.stderr


def test_ctrl_c_while_texts_are_embedded_counts_them(run, path, long, monkeypatch):
    """They are stored by then; their vectors stay due."""
    monkeypatch.setattr("memdb.cli.transfer._embed", lambda _: signal.raise_signal(signal.SIGINT))
    stopped = run("import", path, long, "--user", "ann")

    assert stopped.exit_code == 130
    assert "Stored: 4,100 messages in 1 new session. " in stopped.stderr


def test_ctrl_c_on_a_terminal(in_terminal, run_json, path, tmp_path):
    """A real Ctrl-C during a real import exits 130 and leaves a sound file."""
    long = write_lines(tmp_path, 12_000)
    code, said = in_terminal(
        "import", path, long, "--user", "ann", prompt="Importing", typed="\x03"
    )

    assert code == 130
    assert "Stopped." in said
    assert "Traceback" not in said
    assert run_json("check", path, "--deep") == []


def test_export_and_import_give_the_same(run, path, tmp_path, crowd):
    """The export of everybody, imported without --user, is the same export again."""
    copy = tmp_path / "copy.db"
    written = run("export", crowd, tmp_path / "all.jsonl", "--all-users")
    imported = run("import", copy, tmp_path / "all.jsonl", "--no-embed")

    assert written.exit_code == imported.exit_code == 0
    again = run("export", copy, "--all-users").stdout
    assert again == (tmp_path / "all.jsonl").read_text(encoding="utf-8")


def test_export_to_standard_output(run, trip):
    """Each line is a JSON object, Chinese as it is."""
    lines = run("export", trip).stdout.splitlines()

    assert json.loads(lines[0])["kind"] == "memdb"
    assert any("好的,我们住在奥斯陆的酒店。" in line for line in lines)


def test_export_golden(run_json, run, trip, tmp_path):
    """--json says where the export is and how many records it has."""
    target = tmp_path / "ann.jsonl"
    told = run_json("export", trip, target, "--no-embeddings")

    assert told == {"path": str(target), "records": len(target.read_text().splitlines())}


def test_export_of_one_user(run, crowd):
    """Only what belongs to the user is written."""
    lines = run("export", crowd, "--user", "bob").stdout

    assert "Bob likes coffee." in lines
    assert "Ann" not in lines


def test_a_broken_record(run, run_json, path, tmp_path):
    """The others are stored, the report names it, and the exit code is that of invalid input."""
    source = tmp_path / "conversations.json"
    source.write_text(json.dumps([chatgpt("plants"), {"mapping": 1, "id": "x"}]))
    done = [run("import", path, source, "--user", "ann", *more) for more in (["--dry-run"], [], [])]

    assert [one.exit_code for one in done] == [5, 5, 5]
    assert "Left out: conversation 2: " in done[1].stdout
    assert "nothing new" in done[2].stdout
    assert run("chat", "list", path).exit_code == 0


def test_export_does_not_write_over_a_file(run, trip, tmp_path):
    """A file that is there stays, exit 4; --replace writes over it."""
    target = tmp_path / "mine.jsonl"
    target.write_text("mine")

    assert run("export", trip, target).exit_code == 4
    assert target.read_text() == "mine"
    assert run("export", trip, target, "--replace").exit_code == 0


@pytest.mark.parametrize(
    "options", [("--json",), ("--all-users", "--user", "ann")], ids=["json", "users"]
)
def test_export_usage_errors(run, trip, options):
    """Two things that cannot be had at once exit 2."""
    assert run("export", trip, *options).exit_code == 2


def test_all_users_overrides_the_environment(run, crowd):
    """--all-users means everybody, whatever MEMDB_USER says."""
    done = run("export", crowd, "--all-users", env={"MEMDB_USER": "ann"})

    assert "Bob likes coffee." in done.stdout


def test_a_dry_run_makes_no_file(run, run_json, path, tmp_path):
    """Neither FILE nor what SQLite keeps beside it; of a file that is there nothing changes."""
    told = run_json("import", tmp_path / "new.db", WORKSHOP, "--user", "mara", "--dry-run")

    assert (told["messages_added"], told["dry_run"]) == (196, True)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("new.db")] == []
    run("import", path, WORKSHOP, "--user", "mara", "--no-embed")
    before = Path(path).read_bytes()
    run("import", path, WORKSHOP, "--user", "mara", "--dry-run")
    assert Path(path).read_bytes() == before


def test_hostile_names_do_not_reach_the_terminal(run, path, tmp_path):
    """Reasons and samples with control characters are shown without them."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("Pack.")
    (folder / "b\x1b[31m.png").write_text("x")
    source = tmp_path / "a.jsonl"
    source.write_text(json.dumps({"role": "user", "text": "\x1b[2Jhi", "session": "s"}) + "\n")

    done = run("import", path, folder, "--user", "ann", "--no-embed")
    trial = run("import", path, source, "--user", "ann", "--dry-run")

    assert "Left out: files (1): they hold no conversations" in done.stdout
    assert "\x1b" not in done.stdout + trial.stdout


@pytest.mark.parametrize("name", ["out.md", "out.HTML", "out.csv", "-"])
def test_exports_for_people(run, run_json, path, tmp_path, name):
    """The ending of TARGET says the format, --format for standard output."""
    run("import", path, WORKSHOP, "--user", "mara", "--no-embed")
    if name == "-":
        text = run("export", path, "--user", "mara", "--format", "html").stdout
    else:
        told = run_json("export", path, tmp_path / name, "--user", "mara")
        assert told["records"] > 200
        text = (tmp_path / name).read_text(encoding="utf-8-sig")

    starts = {"out.md": "# Memory of mara", "out.csv": "kind,app,user"}
    assert text.startswith(starts.get(name, "<!doctype html>"))


@pytest.mark.parametrize("words", [("a.jsonl",), ("a.db", "--format", "sqlite"), ("a.html",)])
def test_an_export_onto_a_file_names_the_option(run, crowd, tmp_path, words):
    """What is at TARGET stays; --replace, which is named, writes over it."""
    target = tmp_path / words[0]
    target.write_text("mine")
    words = ("export", crowd, target, "--all-users", *words[1:])
    done = run(*words)
    kept = target.read_bytes()

    assert done.exit_code == 4
    assert "choose another name, remove it first or give --replace" in done.stderr
    assert kept == b"mine"
    assert run(*words, "--replace").exit_code == 0


def test_a_database_needs_a_target(run, path):
    """Tables cannot be written to standard output."""
    run("import", path, WORKSHOP, "--user", "mara", "--no-embed")

    assert run("export", path, "--format", "sqlite").exit_code == 2


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_watch_ends_cleanly(start, run_json, path, tmp_path, end):
    """A changed note is stored while it runs; then it says goodbye, and the file is sound."""
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "a.md").write_text("one")
    with start("import", path, folder, "--user", "ann", "--watch", "--json", "--no-embed") as child:
        first = json.loads(child.stdout.readline())
        (folder / "a.md").write_text("one more")
        second = json.loads(child.stdout.readline())
        (folder / "a.md").unlink()
        third = json.loads(child.stdout.readline())
        child.send_signal(end)
        code = child.wait(60)

    assert [one["report"]["artifacts_added"] for one in (first, second)] == [1, 1]
    assert (third["report"], third["removed"]) == (None, ["a.md"])
    assert code == {signal.SIGINT: 0, signal.SIGTERM: 143}[end]
    assert run_json("check", path) is not None


def test_a_watch_stores(run, path, tmp_path):
    """It goes neither with a dry run nor with other sources."""
    (tmp_path / "a.md").write_text("one")

    assert run("import", path, tmp_path, "--user", "ann", "--watch", "--dry-run").exit_code == 2
    assert run("import", path, WORKSHOP, "--user", "ann", "--watch").exit_code == 5
