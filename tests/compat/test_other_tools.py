import json
import sqlite3
import subprocess
import sys

import pytest

import memdb


@pytest.fixture
def used_file(tmp_path):
    path = tmp_path / "agent.db"
    with memdb.open(path, counter="estimate", settings={"extract": False}) as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        chat.append("user", "We fly to Oslo on 3 May.", author="Ann")
        chat.append("user", "我爱北京")
        ann.remember("Ann prefers window seats.", category="preferences")
        chat.artifacts.save("packing.md", "- passport")
        db.jobs.run()
    return path


def run(*command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_pythons_own_sqlite3_reads_every_table(used_file):
    """The file needs no extension: another SQLite reads all rows and passes its own check."""
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1])\n"
        "names = [n for n, in db.execute(\"SELECT name FROM sqlite_master WHERE type = 'table'\")]\n"
        "counts = {n: db.execute(f'SELECT count(*) FROM \"{n}\"').fetchone()[0] for n in names}\n"
        "print(counts['messages'], counts['entries'], counts['artifacts'], counts['vectors'])\n"
        "print(db.execute('PRAGMA integrity_check').fetchone()[0])\n"
    )

    assert run(sys.executable, "-c", code, str(used_file)).split() == ["2", "1", "1", "3", "ok"]
    assert sqlite3.sqlite_version_info >= (3, 37)


def test_pythons_own_sqlite3_searches_the_full_text(used_file):
    """The index answers MATCH in another SQLite, stemmed and by CJK pairs."""
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1])\n"
        "for term in ('flying', '\"北京\"'):\n"
        "    sql = 'SELECT text FROM messages_fts WHERE messages_fts MATCH ?'\n"
        "    print(db.execute(sql, (term,)).fetchone()[0])\n"
    )

    said = run(sys.executable, "-X", "utf8", "-c", code, str(used_file)).splitlines()

    assert said == ["We fly to Oslo on 3 May.", "我爱北京"]


def test_sqlite_utils_lists_the_tables_with_counts(used_file):
    """`sqlite-utils tables FILE --counts` works on the file."""
    tables = json.loads(
        run(sys.executable, "-m", "sqlite_utils", "tables", str(used_file), "--counts")
    )

    assert {"table": "messages", "count": 2} in tables


def test_sqlite_utils_detects_the_full_text_index(used_file):
    """Other tools find the index by its content option, so their search works."""
    rows = json.loads(
        run(sys.executable, "-m", "sqlite_utils", "search", str(used_file), "messages", "oslo")
    )

    assert [row["text"] for row in rows] == ["We fly to Oslo on 3 May."]


def test_datasette_shows_the_front_page_and_a_table(used_file):
    """Datasette serves the file as it is."""
    front = run(sys.executable, "-m", "datasette", str(used_file), "--get", "/agent.json")
    table = run(
        sys.executable, "-m", "datasette", str(used_file), "--get", "/agent/messages?_search=oslo"
    )

    assert "messages" in front
    assert "We fly to Oslo on 3 May." in table


def test_the_views_show_names_times_and_text(tmp_path):
    """Plain sqlite3 reads the closed file: no id stands for another row, no time is a number."""
    path = tmp_path / "agent.db"
    policy = memdb.Settings(summary_messages=2, summary_condense_at=3, summary_group=2)
    with memdb.open(
        path, counter="estimate", embedder=None, settings=policy, clock=lambda: 1_700_000_000_123
    ) as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        chat.append("user", "We fly to Oslo.", author="Ann", metadata={"a": 1})
        for number in range(9):
            chat.append("user", f"Tea number {number} was good.")
        chat.summaries.compact()
        ann.remember("Ann lives in Rome.", key="home")
        ann.remember("Ann lives in Oslo.", key="home", session="trip", seq=1)
        chat.artifacts.save("menu.md", "tea", message_seq=2)
        chat.artifacts.save("menu.md", "cake")
        ann.artifacts.save("plan.md", "fly")
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    reader.row_factory = sqlite3.Row

    def view(name, order):
        return [dict(row) for row in reader.execute(f"SELECT * FROM {name} ORDER BY {order}")]

    (session,) = view("sessions_view", "session")
    messages = view("messages_view", "session, seq")
    summaries = view("summaries_view", "depth, first_seq")
    old, new = view("entries_view", "text DESC")
    artifacts = view("artifacts_view", "name, version")
    when = "2023-11-14T22:13:20.123Z"
    whose = {"app": "default", "user_name": "ann"}

    assert whose.items() <= session.items()
    assert (session["session"], session["messages"]) == ("trip", 10)
    assert (session["created"], session["updated"]) == (when, when)
    assert whose.items() <= messages[0].items()
    assert [row["seq"] for row in messages] == list(range(1, 11))
    assert {key: messages[0][key] for key in ("session", "role", "author", "text", "created")} == {
        "session": "trip",
        "role": "user",
        "author": "Ann",
        "text": "We fly to Oslo.",
        "created": when,
    }
    assert messages[0]["metadata"] == '{"a":1}'
    assert {row["session"] for row in summaries} == {"trip"}
    assert {row["condensed_into"] for row in summaries if row["condensed_into"]} <= {
        row["uid"] for row in summaries
    }
    assert any(row["condensed_into"] for row in summaries)
    assert {row["created"] for row in summaries} == {when}
    assert "tea number" in " ".join(row["text"] or "" for row in summaries).lower()
    assert (old["text"], old["status"], old["superseded_by"]) == (
        "Ann lives in Rome.",
        "superseded",
        new["uid"],
    )
    assert (new["text"], new["status"], new["session"], new["first_seq"]) == (
        "Ann lives in Oslo.",
        "active",
        "trip",
        1,
    )
    assert (new["key"], new["valid_to"], new["created"]) == ("home", None, when)
    assert [
        (row["session"], row["name"], row["version"], row["text"], row["message_seq"])
        for row in artifacts
    ] == [
        ("trip", "menu.md", 1, None, 2),
        ("trip", "menu.md", 2, "cake", None),
        (None, "user:plan.md", 1, "fly", None),
    ]
    for row in [session, *messages, *summaries, old, new, *artifacts]:
        assert not [value for value in row.values() if isinstance(value, int) and value >= 1 << 24]
    reader.close()


def test_datasette_shows_a_view(used_file):
    """A person reads who said what and when, without a join."""
    page = json.loads(
        run(
            sys.executable,
            "-m",
            "datasette",
            str(used_file),
            "--get",
            "/agent/messages_view.json?_shape=objects",
        )
    )

    assert [(row["user_name"], row["session"], row["text"]) for row in page["rows"]] == [
        ("ann", "trip", "We fly to Oslo on 3 May."),
        ("ann", "trip", "我爱北京"),
    ]
