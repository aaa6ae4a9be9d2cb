"""`memdb chat tree`, `expand`, `compact`, `archive`, `unarchive`, and `vacuum`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import memdb

WORDS = "harbour ferry museum dinner budget ticket meeting window passport 奥斯陆 酒店".split()


def say(path, count, session="long"):
    """Let ann have a conversation of so many messages, a system text first."""
    said = [{"role": "system", "text": "You plan journeys."}]
    said += [
        {
            "role": "assistant" if n % 2 else "user",
            "text": f"Plan {n}: {' '.join(WORDS[(n + k) % len(WORDS)] for k in range(20))}.",
        }
        for n in range(1, count)
    ]
    with memdb.open(path) as db:
        db.scope("ann").session(session).extend(said)
        db.jobs.run(kinds=["summarize"])


LONG = []


@pytest.fixture
def long(tmp_path, frozen, ids, make_kept):
    """Return where a database has 104 messages: one of the system, 100 summarised, 3 not."""
    if not LONG:
        LONG[:] = make_kept(tmp_path / "long.db", lambda place: say(place, 104)), ids.given
    kept, ids.given = LONG
    return kept.put(tmp_path / "long.db")


def summaries_of(told, depth):
    """Return the summaries of a depth in the JSON of a tree."""
    return [summary for summary in told["summaries"] if summary["depth"] == depth]


def test_tree_golden(run_json, long):
    """--json has every summary, and where the system text ends and the unsummarised rest begins."""
    told = run_json("chat", "tree", long, "long")

    assert sorted(told) == ["first_raw_seq", "head_seq", "last_seq", "summaries"]
    assert (told["head_seq"], told["first_raw_seq"], told["last_seq"]) == (1, 102, 104)
    assert [summary["first_seq"] for summary in summaries_of(told, 0)] == list(range(2, 102, 10))
    assert [summary["first_seq"] for summary in summaries_of(told, 1)] == [2, 32]


def test_tree_piped(run, run_json, long):
    """The summaries stand from the oldest to the newest, each with span, number and words."""
    done = run("chat", "tree", long, "long")
    lines = done.stdout.splitlines()
    ids = {str(summary["id"]) for summary in run_json("chat", "tree", long, "long")["summaries"]}

    assert [line.split()[0] for line in lines[:4]] == ["2-11", "2-31", "12-21", "22-31"]
    assert {word for line in lines for word in line.split()} >= ids
    assert all(" extractive " in line for line in lines)
    assert done.stderr == "Not yet summarised: 102-104\n"


def test_expand_goes_down_to_the_messages(run, run_json, long):
    """A summary shows those it was made from, and one of these its messages."""
    top = summaries_of(run_json("chat", "tree", long, "long"), 1)[0]
    below = run_json("chat", "expand", long, "long", top["id"])
    said = run("chat", "expand", long, "long", below["summaries"][0]["id"]).stdout

    assert [summary["first_seq"] for summary in below["summaries"]] == [2, 12, 22]
    assert said.startswith(f"{below['summaries'][0]['id']}  2-11  extractive, ")
    assert "\n#2  2023-11-14 22:13  assistant\nPlan 1: " in said
    assert "\n#11  " in said
    assert "\n#12  " not in said


def test_expand_lists_the_summaries_below(run, run_json, long):
    """Without --json a deeper summary is its text and a line for each below it."""
    top = summaries_of(run_json("chat", "tree", long, "long"), 1)[0]
    lines = run("chat", "expand", long, "long", "2-31").stdout.splitlines()

    assert lines[0].startswith(f"{top['id']}  2-31  extractive, ")
    assert [line.split()[0] for line in lines[-3:]] == ["2-11", "12-21", "22-31"]


def test_expand_pages(run, run_json, long):
    """--limit cuts a page, and what to type for the next one stands beside it."""
    first = run("chat", "expand", long, "long", "2-11", "--limit", 4)
    rest = run_json("chat", "expand", long, "long", "2-11", "--after", 5)

    assert first.stdout.count("\n#") == 4
    assert first.stderr == "There is more: --after 5\n"
    assert [message["seq"] for message in rest["messages"]] == list(range(6, 12))
    assert rest["next_seq"] is None


def test_expand_shows_tool_calls(run, path):
    """Calls and results can be read, beside what was said."""
    call = {"type": "tool_call", "id": "c1", "name": "book", "arguments": '{"n": 2}'}
    result = {"type": "tool_result", "tool_call_id": "c1", "content": "booked"}
    with memdb.open(path) as db:
        chat = db.scope("ann").session("s")
        chat.append("assistant", "Let me book.", parts=[call])
        chat.append("tool", parts=[result])
    said = run("chat", "expand", path, "s", "1-2").stdout

    assert 'assistant\nLet me book.\nbook({"n": 2})\n' in said
    assert "tool\nbooked\n" in said


@pytest.mark.parametrize(
    ("what", "exit_code"),
    [
        ("0123456789abcdef", 5),
        ("123456", 3),
        ("500-600", 3),
        ("0-3", 5),
        ("9-2", 5),
        ("99999999999999999999", 5),
        ("'; DROP TABLE summaries; --", 5),
        ("../../etc/passwd", 5),
        ("\x00", 5),
        ("\udcff\udcfe", 5),
        ("\x1b[31m", 5),
        ("", 5),
    ],
    ids=ascii,
)
def test_expand_refuses(run, long, what, exit_code):
    """Numbers that nobody gave out, spans out of range and hostile texts end with their codes."""
    done = run("chat", "expand", long, "long", what)

    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert done.stderr.startswith("Error: ")
    assert "This is a bug" not in done.stderr
    assert "\x1b" not in done.stderr


def test_a_node_of_another_session_is_not_found(run, run_json, long):
    """A number opens its own conversation only."""
    with memdb.open(long) as db:
        db.scope("ann").session("other").append("user", "hello")
    (summary, *_) = run_json("chat", "tree", long, "long")["summaries"]

    assert run("chat", "expand", long, "other", summary["id"]).exit_code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("context", "--budget", "99"),
        ("tree",),
        ("expand", "1"),
        ("compact",),
        ("archive",),
        ("unarchive",),
    ],
    ids=str,
)
def test_an_unknown_session_is_not_found(run, long, words):
    """A misspelt session exits 3, and nothing is made."""
    done = run("chat", words[0], long, "lnog", *words[1:])

    assert (done.exit_code, done.stdout) == (3, "")
    assert "no session 'lnog'" in done.stderr


def test_compact(run, run_json, long):
    """What can be made again goes, cold messages are archived, and all can be read as before."""
    before = run_json("chat", "show", long, "long")
    tree = run_json("chat", "tree", long, "long")
    told = run_json("chat", "compact", long, "long", "--keep-last", 10)

    assert sorted(told) == ["archived", "pruned", "remaining", "session", "summarized", "upgraded"]
    assert (told["summarized"], told["archived"]) == (0, 94)
    assert run_json("chat", "show", long, "long") == before
    assert run_json("chat", "tree", long, "long") == tree


def test_compact_says_what_it_did(run, long):
    """One line names what was made and dropped, and with --keep-last what was archived."""
    assert run("chat", "compact", long, "long").stdout.startswith("long: 0 summaries made, ")
    done = run("chat", "compact", long, "long", "--keep-last", 50)
    assert done.stdout == (
        "long: 0 summaries made, 0 improved, 0 dropped that can be made again, 54 messages archived.\n"
    )


def test_archive_and_unarchive(run, run_json, long):
    """Both say what they did, change nothing that is read, and can be run again."""
    before = run("chat", "show", long, "long").stdout
    archived = run("chat", "archive", long, "long", "--keep-last", 4)
    shown = run("chat", "show", long, "long").stdout
    info = run("info", long).stdout
    again = run("chat", "archive", long, "long", "--keep-last", 4)
    back = run_json("chat", "unarchive", long, "long")

    assert archived.stdout.startswith("archived: 100 messages, ")
    assert shown == before
    assert "archived   100 messages\n" in info
    assert again.stdout.startswith("archived: 0 messages")
    assert back["messages"] == 100
    assert run("chat", "unarchive", long, "long").stdout.startswith("unarchived: 0 messages")
    assert run("chat", "show", long, "long").stdout == before


def test_vacuum(run, run_json, path):
    """The file gets smaller by what is still free, and both sizes are said."""
    say(path, 400)
    run("chat", "archive", path, "long", "--keep-last", 0)
    told = run_json("vacuum", path)
    again = run("vacuum", path)

    assert told["path"] == path
    assert told["after_bytes"] == Path(path).stat().st_size <= told["before_bytes"]
    assert again.stdout.startswith(f"{path}: ")
    assert ", before " in again.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("chat", "tree", "long"),
        ("chat", "context", "long", "--budget", "99"),
        ("work",),
        ("vacuum",),
        ("chat", "archive", "long"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["absent", "empty"])
def test_no_file_is_made(run, tmp_path, words, kind):
    """A file that is absent or empty is an error, and stays as it is."""
    path = tmp_path / "new.db"
    if kind == "empty":
        path.touch()
    split = 2 if words[0] == "chat" else 1
    done = run(*words[:split], path, *words[split:])

    assert done.exit_code == 6
    assert not path.exists() or path.stat().st_size == 0


def test_a_reader_that_stops_early(start, path):
    """`chat tree | head -1` gets no complaint on standard error."""
    say(path, 1500)
    with start("chat", "tree", path, "long", pipesize=4096) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert said == b""


@pytest.mark.parametrize("extra", ["llm", "openai"])
def test_a_missing_extra_is_named(run, long, monkeypatch, extra):
    """--model of a package that is not installed says what to install."""
    for name in [name for name in sys.modules if name.split(".")[0] == extra]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, extra, None)
    done = run("chat", "compact", long, "long", "--upgrade", "--model", f"{extra}:any@http://h/v1")

    assert done.exit_code == 5
    assert f"pip install 'memdb-sqlite[{extra}]'" in done.stderr


def test_upgrade_needs_a_model(run, long):
    """Without --model nothing can be improved."""
    assert run("chat", "compact", long, "long", "--upgrade").exit_code == 2


@pytest.mark.parametrize(
    "spec",
    ["openai:m@http://ann:sesame@h/v1", "openai:m@https://h/v1?key=sesame"],
)
def test_a_key_on_the_command_line_is_refused(run, long, spec):
    """A URL with a secret is refused, without repeating it."""
    done = run("work", long, "--model", spec)

    assert done.exit_code == 5
    assert "sesame" not in done.output
    assert "OPENAI_API_KEY" in done.stderr


def test_a_summary_has_one_small_number_everywhere(run, run_json, path):
    """Python, JSON, command line, tools, contexts and hits name it alike, in any scope."""
    with memdb.open(path) as db:
        db.scope("bob").session("first").append("user", "another scope comes first")
        ann = db.scope("ann")
        chat = ann.session("s")
        chat.extend(
            [{"role": "user", "text": f"Note {n} on ferries to Oslo. " * 9} for n in range(80)]
        )
        db.jobs.run()
        tree = {one.id: one for one in chat.summaries.tree().summaries}
        top = next(one for one in tree.values() if one.depth)
        page = chat.summaries.expand(top.id)
        assert page == chat.summaries.expand(str(top.id))
        assert chat.summaries.rewrite(top.id, "Ferries.").id == top.id
        listed = [one.id for one in chat.summaries.list()]
        window = chat.context(2000)
        refs = {piece.ref for piece in window.pieces if piece.kind == "summary"}
        found = {hit.source.summary_id for hit in ann.recall("ferries", kinds=["summary"])}
        told = chat.tools().call("memory_expand", {"id": top.id})

    assert {*tree} == {*range(1, len(tree) + 1)}
    assert {*listed} == {*tree}
    assert {one.condensed_into for one in page.summaries} == {top.id}
    assert refs
    assert {int(ref) for ref in refs} <= {*tree}
    assert found
    assert found <= {*tree}
    assert [f"[{one.id}] " in told for one in page.summaries] == [True] * len(page.summaries)
    answer = run_json("chat", "tree", path, "s", "--user", "ann")["summaries"]
    assert {(one["id"], one["uid"]) for one in answer} == {(n, tree[n].uid) for n in tree}
    shown = run("chat", "tree", path, "s", "--user", "ann").stdout.splitlines()
    assert {int(line.split()[1]) for line in shown} == {*tree}
    assert run_json("chat", "expand", path, "s", top.id, "--user", "ann")["summary"]["id"] == top.id
