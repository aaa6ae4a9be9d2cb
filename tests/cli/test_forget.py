"""`memdb forget` and `memdb secrets`, and that no control character reaches a terminal."""

import json
import re
from hashlib import sha256

import pytest

import memdb

KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture
def told(path, frozen):
    """Return the path of a file in which ann told of Zoe in a message, an entry and an artifact."""
    with memdb.open(path) as db:
        ann = db.scope("ann")
        ann.session("trip").extend(
            [
                {"role": "user", "text": "My sister Zoe lives in Bergen."},
                {"role": "assistant", "text": "Noted, with pleasure and delight."},
            ]
        )
        ann.session("trip").artifacts.save("zoe.md", "Zoe likes mountains.", message_seq=1)
        ann.remember("Zoe is the sister of Ann.", session="trip", seq=1)
        ann.remember("Ann likes tea.")
    return path


def test_forget_golden(run_json, told):
    """--json is the receipt: what went, when, the hash of what was asked for, and what still says it."""
    done = run_json("forget", told, "--query", "zoe", "--prove", "--yes")
    proof = done.pop("proof")
    digest = sha256(b"query\nzoe").hexdigest()

    assert done == {
        "what": "query",
        "subject_sha256": digest,
        "removed": {
            "messages": 1,
            "sessions": 0,
            "branches": 0,
            "entries": 1,
            "versions": 0,
            "summaries": 0,
            "artifacts": 0,
            "items": 0,
            "state": 0,
            "titles": 0,
        },
        "rewritten": {"summaries": 0, "segments": 0},
        "forgotten_ms": 1_700_000_000_000,
        "dry_run": False,
        "pending": [],
        "rows": [],
        "more_rows": 0,
        "digest": None,
        "remaining": ["artifact 'zoe.md': add artifacts=True"],
        "proven": False,
    }
    assert (proof["found_bytes"], proof["found_in"]) == (0, [])
    assert proof["still_said_in"] == ["artifact zoe.md"]
    assert proof["searched"][:2] == ["agent.db", "agent.db-wal"]


def test_forget_for_a_person(run, told):
    """Without --json the receipt is some lines, and the artifact that says it too is named."""
    done = run("forget", told, "--query", "zoe mountains", "--artifacts", "--prove", "--yes")

    lines = done.stdout.splitlines()
    assert lines[0] == "Forgot 1 artifact."
    assert lines[1].startswith("subject   sha256 ")
    assert lines[2].startswith("searched  agent.db, agent.db-wal, ")
    assert lines[3] == "found     0 bytes"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--session", "trip"), "Would forget 2 messages, 1 session, 1 entry, 1 artifact."),
        (("--session", "trip", "--seq", 2), "Would forget 1 message."),
        (("--query", "zoe"), "Would forget 1 message, 1 entry."),
        (("--query", "zoe", "--artifacts"), "Would forget 1 message, 1 entry, 1 artifact."),
        (("--everything",), "Would forget 2 messages, 1 session, 2 entries, 1 artifact."),
        (("--query", "nobody"), "Would forget nothing."),
    ],
)
def test_dry_run_says_what_would_go(run, run_json, told, options, said):
    """It needs no --yes, and everything stays."""
    done = run("forget", told, *options, "--dry-run")

    assert done.stdout.splitlines()[0] == said
    rows = run_json("forget", told, *options, "--dry-run")["rows"]
    assert all(row["text"][:20] in done.stdout for row in rows)
    assert len(rows) == sum(map(int, re.findall(r"\d+", said)))
    assert len(run_json("entry", "list", told)) == 2


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--everything", "--session", "a"),
        ("--session", "a", "--entry", 1),
        ("--seq", 1, "--everything"),
    ],
    ids=["none", "all and session", "session and entry", "seq without session"],
)
def test_one_thing_is_asked_for(run, told, options):
    """Nothing, or two things at once, is refused."""
    assert run("forget", told, *options, "--yes").exit_code in (3, 5)


def test_forget_needs_yes_without_a_terminal(run, run_json, told):
    """Nobody can be asked: exit 2, and nothing is forgotten."""
    done = run("forget", told, "--everything")

    assert done.exit_code == 2
    assert len(run_json("entry", "list", told)) == 2


def test_forget_asks_on_a_terminal(in_terminal, run_json, told):
    """The question names what goes, and whose it is."""
    code, said = in_terminal("forget", told, "--query", "zoe", prompt="[y/N]:", typed="n\n")

    assert code == 1
    assert "Forget 1 message, 1 entry of ann for good?" in said
    assert len(run_json("entry", "list", told)) == 2


def test_an_entry_of_nobody_is_not_found(run, told):
    """Exit code 3, as for every other command."""
    assert run("forget", told, "--entry", 7, "--yes").exit_code == 3


def test_bytes_in_a_copy_are_told_of(run, told):
    """A .bak beside the file still has them: the receipt says where, with exit code 7."""
    run("backup", told, f"{told}.bak")

    done = run("forget", told, "--query", "zoe", "--prove", "--yes")

    assert done.exit_code == 7
    assert "found in  agent.db.bak" in done.stdout


def test_the_words_said_elsewhere_are_told_of(run, told):
    """What another message repeats is not left behind, it is said twice."""
    run("chat", "append", told, "trip", "She said: My sister Zoe lives in Bergen.")

    done = run("forget", told, "--session", "trip", "--seq", "1", "--prove", "--yes")

    assert done.exit_code == 0
    assert "said elsewhere too: message trip#3" in done.stderr


def test_secrets_scan_golden(run_json, path, frozen):
    """Kind, place and beginning of each, of messages, entries and artifacts."""
    with memdb.open(path, settings={"secrets_in_entries": "allow"}) as db:
        ann = db.scope("ann")
        ann.session("s").append("user", f"use {KEY}", metadata={"password": "hunter22"})
        ann.remember("The password is hunter2.", keywords=["login"])
        ann.artifacts.save("env", f"TOKEN={KEY}\n")

    found = run_json("secrets", "scan", path)

    assert [(one["kind"], one["where"], one["shown"]) for one in found] == [
        ("github_token", "message s#1", "ghp_… (40 characters)"),
        ("password", "message s#1 metadata", "… (8 characters)"),
        ("password", "entry 1", "… (7 characters)"),
        ("github_token", "artifact user:env@1", "ghp_… (40 characters)"),
    ]
    assert all((one["app"], one["user"]) == ("default", "ann") for one in found)


def test_secrets_scan_tells_by_its_exit_code(run, trip, path):
    """0 where there is none, 7 where there is one."""
    done = run("secrets", "scan", trip)
    assert (done.exit_code, done.stderr) == (0, "No secrets found.\n")

    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", f"use {KEY}")
    done = run("secrets", "scan", trip)

    assert done.exit_code == 7
    assert KEY not in done.output


def test_secrets_scan_of_all_users(run_json, run, crowd, path):
    """--all-users looks at everybody, and excludes --user."""
    with memdb.open(path) as db:
        db.scope("bob").session("s").append("user", f"use {KEY}")

    assert [one["user"] for one in run_json("secrets", "scan", crowd, "--all-users")] == ["bob"]
    assert run("secrets", "scan", crowd, "--all-users", "--user", "ann").exit_code == 2


@pytest.mark.parametrize(
    ("action", "exit_code", "stored"),
    [
        (None, 5, None),
        ("refuse", 5, None),
        ("redact", 0, "[REDACTED github_token]"),
        ("allow", 0, KEY),
    ],
)
def test_remember_and_import_take_what_to_do_with_secrets(
    run, run_json, path, tmp_path, action, exit_code, stored
):
    """By default they refuse, with the kind and without the secret."""
    option = ["--secrets", action] if action else []
    line = {"kind": "entry", "text": f"The key is {KEY}"}
    (tmp_path / "in.jsonl").write_text(json.dumps(line) + "\n")

    told = run("remember", path, f"A key is {KEY}", "--user", "ann", *option)
    read = run("import", path, tmp_path / "in.jsonl", "--user", "ann", *option)

    assert (told.exit_code, read.exit_code) == (exit_code, exit_code)
    if stored is None:
        assert "github_token" in told.stderr
        assert KEY not in told.output + read.output
    else:
        texts = {one["text"] for one in run_json("entry", "list", path, "--all")}
        assert texts
        assert all(stored in text for text in texts)


def test_chat_append_keeps_or_redacts(run_json, path, frozen):
    """A message stays as it is said, unless it is asked for."""
    kept = run_json("chat", "append", path, "s", f"use {KEY}", "--user", "ann")
    redacted = run_json(
        "chat", "append", path, "s", f"use {KEY}", "--user", "ann", "--secrets", "redact"
    )

    assert kept["text"] == f"use {KEY}"
    assert redacted["text"] == "use [REDACTED github_token]"


HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202eevil\u200b\U000e0041\u2028line"


@pytest.mark.parametrize(
    "command",
    [
        ("chat", "show", "{}", "s"),
        ("chat", "list", "{}"),
        ("entry", "list", "{}"),
        ("entry", "show", "{}", "k"),
        ("recall", "{}", "red"),
        ("secrets", "scan", "{}"),
        ("forget", "{}", "--query", "red", "--dry-run"),
        ("info", "{}"),
        ("artifact", "list", "{}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_control_character_is_printed(run, path, frozen, terminal, command, as_json):
    """Whatever was stored, a terminal gets no order and no hidden letter."""
    with memdb.open(path, settings={"secrets_in_entries": "allow"}) as db:
        ann = db.scope("ann")
        session = ann.session("s")
        session.append("user", f"{HOSTILE} password: {HOSTILE}99", author=HOSTILE)
        ann.remember(f"red {HOSTILE}", key="k", keywords=[HOSTILE])
        session.artifacts.save(HOSTILE, "red")

    done = run(*(word.format(path) for word in command), *(["--json"] if as_json else []))

    assert done.exit_code in (0, 7)
    for one in "\x1b\x07\x9b\u202e\u200b\U000e0041\u2028":
        assert one not in done.output
    if as_json:
        json.loads(done.stdout)


def test_an_error_prints_no_control_character(run, trip):
    """Also where it repeats what was typed."""
    done = run("chat", "show", trip, "\x1b[31mno such\u202e")

    assert done.exit_code == 3
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output


def test_the_preview_lists_rows_and_a_digest(run, run_json, trip):
    """--expected takes the digest; a message more is a conflict, exit code 4."""
    listed = run_json("forget", trip, "--query", "oslo", "--dry-run")
    assert {row["kind"] for row in listed["rows"]} >= {"message"}
    run("chat", "append", trip, "trip", "Oslo again")
    asked = ("forget", trip, "--query", "oslo", "--yes", "--expected")

    assert run(*asked, listed["digest"]).exit_code == 4
    again = run_json("forget", trip, "--query", "oslo", "--dry-run")
    assert run(*asked, again["digest"]).exit_code == 0
