import json
import sqlite3
import subprocess
import sys

import pytest

import memdb


@pytest.fixture
def used_file(tmp_path):
    path = tmp_path / "agent.db"
    with memdb.open(path, counter="estimate") as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        chat.append("user", "We fly to Oslo on 3 May.", author="Ann")
        chat.append("user", "我爱北京")
        ann.remember("Ann prefers window seats.", category="preferences")
        chat.artifacts.save("packing.md", "- passport")
        db.run_pending()
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
        "print(counts['messages'], counts['entries'], counts['artifacts'], counts['embeddings'])\n"
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
