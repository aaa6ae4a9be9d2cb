"""`db.query` and `memdb query`: SELECT and nothing else, bounded in time and rows."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from click.testing import CliRunner

import memdb
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB

REFUSED = {
    "insert": "INSERT INTO messages (id) VALUES (1)",
    "update": "UPDATE messages SET text = 'x'",
    "delete": "DELETE FROM messages",
    "replace": "REPLACE INTO meta (key, value) VALUES ('a', 'b')",
    "drop": "DROP TABLE messages",
    "create": "CREATE TABLE t (a)",
    "temporary table": "CREATE TEMP TABLE t (a)",
    "attach": "ATTACH 'other.db' AS other",
    "detach": "DETACH main",
    "pragma that writes": "PRAGMA user_version = 7",
    "query_only": "PRAGMA query_only = OFF",
    "journal": "PRAGMA journal_mode = DELETE",
    "pragma by function": "SELECT * FROM pragma_wal_checkpoint",
    "begin": "BEGIN IMMEDIATE",
    "commit": "COMMIT",
    "savepoint": "SAVEPOINT a",
    "vacuum": "VACUUM",
    "vacuum into": "VACUUM INTO 'other.db'",
    "analyze": "ANALYZE",
    "reindex": "REINDEX",
    "extension": "SELECT load_extension('x')",
    "two statements": "SELECT 1; SELECT 2",
    "second writes": "SELECT 1; DELETE FROM messages",
    "cte that writes": "WITH a AS (SELECT 1) DELETE FROM messages",
    "index of words": "INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')",
    "syntax": "SELEKT 1",
    "no such table": "SELECT * FROM nothing",
    "too few values": "SELECT ?",
    "nul": "SELECT 'a\0b'",
}


@pytest.fixture
def chat(db: MemDB) -> MemDB:
    """Return a file, or memory, with three messages."""
    db.scope("ann").session("trip").extend([{"role": "user", "text": f"m {n}"} for n in range(3)])
    return db


def test_rows_are_dicts_and_tuples(chat: MemDB) -> None:
    """By position and by name; the second table reads like the first."""
    by_place = chat.query("SELECT text, role FROM messages WHERE text <> ? ORDER BY id", ["m 1"])
    by_name = chat.query("SELECT count(*) AS n FROM messages WHERE role = :role", {"role": "user"})

    assert [*by_place] == [{"text": "m 0", "role": "user"}, {"text": "m 2", "role": "user"}]
    assert by_place.rows == (("m 0", "user"), ("m 2", "user"))
    assert (by_name.columns, [*by_name], by_name.has_more) == (("n",), [{"n": 3}], False)


def test_views_are_read(chat: MemDB) -> None:
    """They name what packed ids hide."""
    (row, *_) = chat.query("SELECT * FROM messages_view")

    assert "ann" in row.values()


def test_schema_can_be_read(chat: MemDB) -> None:
    """By the table of the schema and by pragmas that only read."""
    assert len(chat.query("SELECT name FROM sqlite_schema")) > 20
    assert len(chat.query("PRAGMA table_info('messages')")) > 10
    assert len(chat.query("SELECT name FROM pragma_table_info('messages')")) > 10


@each("name", REFUSED)
def test_all_else_is_refused(chat: MemDB, name: str, dump: Any) -> None:
    """Whatever way it is written; the file is as before, and the handle works."""
    before = dump(chat.path) if chat.path != ":memory:" else None

    with pytest.raises(memdb.InvalidInput):
        chat.query(REFUSED[name])

    assert before is None or dump(chat.path) == before
    trip = chat.scope("ann").session("trip")
    assert trip.append("user", "after").seq == trip.last_seq
    assert [*chat.query("SELECT 1 AS one")] == [{"one": 1}]


def test_rows_are_bounded(chat: MemDB) -> None:
    """And it says that there are more."""
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

    found = chat.query(endless, limit=5)

    assert [row["i"] for row in found] == [1, 2, 3, 4, 5]
    assert found.has_more
    with pytest.raises(memdb.InvalidInput):
        chat.query("SELECT 1", limit=-1)


def test_time_is_bounded(chat: MemDB) -> None:
    """A query without an end is given up, and does not stand in the way of a write."""
    endless = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    )

    with pytest.raises(memdb.Interrupted, match="longer than"):
        chat.query(endless, timeout_s=0.05)

    chat.scope("ann").session("trip").append("user", "after")
    with pytest.raises(memdb.InvalidInput):
        chat.query("SELECT 1", timeout_s=float("nan"))


BIG = "printf('%.*c', 1000000, 'a')"
MANY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000)"
STORED = "(SELECT text FROM messages ORDER BY length(text) DESC LIMIT 1)"

# Each takes minutes, or much memory, if only rows are counted.
DEAR = {
    "randomblob": "SELECT count(*) FROM (SELECT randomblob(20000000)) , (SELECT randomblob(9))",
    "joined randomblob": f"{MANY} SELECT max(length(randomblob(1000000))) FROM n",
    "zeroblob": f"{MANY} SELECT max(length(hex(zeroblob(20000000)))) FROM n",
    "hex": f"{MANY} SELECT max(length(hex(zeroblob(500000)))) FROM n",
    "printf": f"{MANY} SELECT max(length({BIG})) FROM n",
    "printf of a number": f"{MANY} SELECT max(length(printf('%.100000000f', i / 3.0))) FROM n",
    "printf many times": "SELECT " + " || ".join(f"length(upper({BIG}))" for _ in range(60)),
    "too many calls": "SELECT " + " || ".join(f"length(upper({BIG}))" for _ in range(99)),
    "quote": f"{MANY} SELECT max(length(quote({BIG}))) FROM n",
    "format": "SELECT length(format(printf('%.*c', 1000000, 's'), 1)) FROM messages",
    "replace": f"SELECT length(replace({STORED}, substr({STORED}, 2) || 'b', 'c'))",
    "replace grows": f"SELECT length(replace({BIG}, 'a', {BIG}))",
    "instr": f"SELECT instr({STORED}, substr({STORED}, 1, 8000000) || 'b')",
    "instr of numbers": f"{MANY} SELECT max(instr(i, 1.5)) FROM n",
    "trim": f"SELECT length(trim({STORED}, substr({STORED}, 1, 8000000)))",
    "like": f"SELECT {STORED} LIKE '%' || printf('%.*c', 97, 'a') || 'b'",
    "like with a long pattern": f"SELECT {STORED} LIKE '%' || {STORED}",
    "like with many": f"SELECT {STORED} LIKE '%a%a%a%a%a%a%a%a%a%a%a%b'",
    "glob": f"SELECT {STORED} GLOB '*' || printf('%.*c', 90, 'a') || 'b'",
    "group_concat": f"{MANY} SELECT length(group_concat({BIG})) FROM n",
    "group_concat of windows": f"{MANY} SELECT sum(length(g)) FROM "
    "(SELECT group_concat(i) OVER (ORDER BY i) AS g FROM n)",
    "string_agg": f"{MANY} SELECT length(string_agg(i, '----------')) FROM n",
    "concat doubled": "SELECT length(" + " || ".join([STORED] * 30) + ")",
    "json_patch": f"{MANY}, j (x) AS (SELECT json_group_object('k' || i, i) FROM n) "
    "SELECT length(json_patch(x, x)) FROM j",
    "json_group_array": f"{MANY} SELECT length(json_group_array(i)) FROM n",
    "json_each": f"{MANY}, j (x) AS (SELECT json_group_array(i) FROM n WHERE i < 90000) "
    "SELECT count(*) FROM j, json_each(x) AS a, json_each(x) AS b",
    "match": "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'a' || "
    "replace(printf('%.*c', 200000, 'x'), 'x', ' a')",
    "match by function": "SELECT count(*) FROM messages_fts('a' || "
    "replace(printf('%.*c', 200000, 'x'), 'x', ' a'))",
    "match of a column": "SELECT count(*) FROM messages_fts WHERE text MATCH 'a' || "
    "replace(printf('%.*c', 200000, 'x'), 'x', ' a')",
    "sort": f"{MANY} SELECT max(x) FROM (SELECT {BIG} || i AS x FROM n ORDER BY x DESC)",
    "distinct": f"{MANY} SELECT count(DISTINCT {BIG} || i) FROM n",
    "cross join": f"{MANY} SELECT count(*) FROM n AS a, n AS b, n AS c",
    "large result": f"{MANY} SELECT {BIG} FROM n",
    "large stored result": f"{MANY} SELECT {STORED} FROM n",
    "views": "SELECT count(*) FROM messages_view AS a, messages_view AS b, sessions_view AS c, "
    f"({MANY} SELECT i FROM n) AS d WHERE a.text || b.text LIKE '%b%'",
}


@pytest.fixture(scope="module")
def long_text() -> MemDB:
    """Return a file in memory with a text of 16 MB."""
    db = memdb.open(":memory:", embedder=None, counter="estimate")
    db.scope("ann").session("trip").append("user", "a" * (16 << 20))
    return db


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", DEAR)
def test_no_call_of_a_function_takes_long(long_text: MemDB, name: str) -> None:
    """SQLite does not look at the clock inside of one; each ends soon, and the next works."""
    with contextlib.suppress(memdb.Interrupted, memdb.InvalidInput):
        long_text.query(DEAR[name], timeout_s=0.05, limit=10_000)

    assert [*long_text.query("SELECT 'a' LIKE 'A' AS is_like")] == [{"is_like": 1}]
    assert long_text.scope("ann").session("trip").last(1)[0].seq == 1


def test_long_stored_texts_can_be_read(long_text: MemDB) -> None:
    """What is there is no value that a statement made."""
    (row,) = long_text.query("SELECT role, text, length(text) AS n FROM messages")

    assert (row["role"], len(row["text"]), row["n"]) == ("user", 16 << 20, 16 << 20)


# Calls of the functions that are Python's here; the words are SQLite's documentation's.
SAME = [
    *(f"instr({value}, {part})" for value in ("'häuser'", "NULL", "15", "1.5e10", "x'6162'", "''")
      for part in ("'us'", "NULL", "5", "''", "x'62'", "0.5")),
    *(f"replace({value}, {old}, {new})" for value in ("'aXbX'", "NULL", "1.25", "x'61'")
      for old in ("'X'", "''", "2", "NULL") for new in ("'yy'", "''", "9", "NULL")),
    *(f"{trim}({value}, {taken})" for trim in ("trim", "ltrim", "rtrim")
      for value in ("' xyä '", "NULL", "11.5", "x'2061'") for taken in ("' '", "'ä x'", "1", "''", "NULL")),
    "trim('  a ')",
]  # fmt: skip


def test_functions_answer_as_those_of_sqlite(chat: MemDB, raw: Any, tmp_path: Path) -> None:
    """Numbers and blobs become text in the same way."""
    plain = raw(str(tmp_path / "plain.db"))
    for call in SAME:
        sql = f"SELECT {call}, typeof({call})"
        assert chat.query(sql).rows == (plain.execute(sql).fetchone(),), call
    plain.close()


# One query per way in which it can end.
ENDS = {
    "answered": {"sql": "SELECT instr('ab', 'b'), trim('xax', 'x')"},
    "refused": {"sql": "DELETE FROM messages"},
    "wrong": {"sql": "SELECT nothing"},
    "two statements": {"sql": "SELECT 1; SELECT 2"},
    "too large": {"sql": "SELECT replace(hex(zeroblob(400000)), '0', 'abcdef')"},
    "too slow": {"sql": f"{MANY} SELECT max(instr(i, 'x')) FROM n", "timeout_s": 0.01},
    "no text": {"sql": "SELECT CAST(x'ff80' AS TEXT)"},
}


@pytest.mark.parametrize("end", ENDS)
def test_a_query_leaves_every_connection_as_it_was(
    chat: MemDB, raw: Any, tmp_path: Path, end: str
) -> None:
    """SQLite's own functions, limits and views are as before, for reads and for writes."""
    engine, ann = chat._db, chat.scope("ann")
    ann.items.put(("lamps",), "one", {"text": "red lamp"})
    plain = raw(str(tmp_path / "plain.db"))
    functions = "SELECT name, builtin, type, narg, flags FROM pragma_function_list ORDER BY 1, 4"

    def seen(block: Any) -> list[Any]:
        with block as tx:
            limits = [tx.raw.limit(kind) for kind in range(12)]
            return [sorted(tx.all(functions)), limits, tx.raw.authorizer]

    before = seen(engine.read()), seen(engine.write())
    for _ in range(2):
        with contextlib.suppress(memdb.InvalidInput, memdb.Interrupted):
            chat.query(**ENDS[end])

    assert (seen(engine.read()), seen(engine.write())) == before
    for block in (engine.read(), engine.write()):
        with block as tx:
            for call in SAME:
                assert tx.one(f"SELECT {call}") == plain.execute(f"SELECT {call}").fetchone(), call
    plain.close()
    assert [item.key for item in ann.items.list()] == ["one"]
    assert len([*chat.export_lines()]) > 4
    ann.forget(query="lamp")
    assert [*ann.items.list()] == []


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("SELECT 1 AS one, CAST(x'ff80' AS TEXT) AS two", "two"),
        ("SELECT CAST(x'ff80' AS TEXT)", "CAST(x'ff80' AS TEXT)"),
        ("SELECT i AS a, CASE i WHEN 3 THEN CAST(x'ff' AS TEXT) END AS b FROM n3 -- b", "b"),
        ("SELECT ? AS a, 'x' || CAST(? AS TEXT) AS a;", "a"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text_name_their_column(chat: MemDB, sql: str, column: str) -> None:
    """The statement is wrong, not the file."""
    values = [b"\xff", b"\xff"] if "?" in sql else []
    sql = sql.replace("n3", "(SELECT 1 AS i UNION SELECT 2 UNION SELECT 3)")
    with pytest.raises(memdb.InvalidInput) as raised:
        chat.query(sql, values)

    assert f"column {column} " in str(raised.value)
    assert "restore" not in str(raised.value)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_a_number_that_sql_cannot_hold_is_refused(chat: MemDB, number: int) -> None:
    """SQLite has integers of 64 bits."""
    with pytest.raises(memdb.InvalidInput):
        chat.query("SELECT ?", [number])


def test_an_interrupt_does_not_hit_the_next_call(chat: MemDB) -> None:
    """Also in memory, where there is one connection."""
    for _ in range(30):
        with contextlib.suppress(memdb.Interrupted):
            chat.query(f"{MANY} SELECT max(i) FROM n", timeout_s=0.002)
        assert chat.scope("ann").session("trip").append("user", "after").seq > 3


def test_foreign_views_do_not_run(path: str, open_db: Callable[..., MemDB], raw: Any) -> None:
    """Views are off as soon as one under memdb's names is another."""
    open_db(path).close()
    other = raw(path)
    other.execute("DROP VIEW messages_view; CREATE VIEW messages_view AS SELECT 1").fetchall()
    other.close()

    with pytest.raises(memdb.InvalidInput):
        open_db(path).query("SELECT * FROM messages_view")


def test_a_reading_handle_queries(path: str, open_db: Callable[..., MemDB]) -> None:
    """Of a file that is open for writing too, and of one that is not."""
    db = open_db(path)
    db.scope("ann").session("trip").append("user", "hi")
    assert [*db.query("SELECT count(*) AS n FROM messages")] == [{"n": 1}]
    db.close()

    with memdb.open(path, mode="read", embedder=None) as reader:
        assert [*reader.query("SELECT count(*) AS n FROM messages")] == [{"n": 1}]


def test_the_command_prints_what_is_asked_for(
    path: str, open_db: Callable[..., MemDB], address_of: Callable[[str], str]
) -> None:
    """A table, JSON, JSON lines and CSV of the same rows; bytes in hexadecimal."""
    db = open_db(path)
    db.scope("ann").session("trip").extend([{"role": "user", "text": f"a,{n}"} for n in range(3)])
    sql = "SELECT text, content_hash AS raw, NULL AS none FROM messages ORDER BY id"
    hashes = [row["raw"].hex() for row in db.query(sql)]
    db.close()

    def run(*more: str) -> str:
        result = CliRunner().invoke(cli, ["query", address_of(path), sql, *more])
        assert result.exit_code == 0, result.output
        return result.stdout

    rows = [{"text": f"a,{n}", "raw": one, "none": None} for n, one in enumerate(hashes)]
    assert json.loads(run("--json")) == rows
    assert [*csv.DictReader(io.StringIO(run("--csv")))] == [{**row, "none": ""} for row in rows]
    assert "a,0" in run()
    assert len(json.loads(run("--json", "--limit", "2"))) == 2


@pytest.mark.parametrize(
    ("args", "code"),
    [(["DELETE FROM messages"], 5), (["SELECT 1", "--csv", "--json"], 2), ([], 2)],
)
def test_the_command_refuses(
    path: str,
    open_db: Callable[..., MemDB],
    address_of: Callable[[str], str],
    args: list[str],
    code: int,
) -> None:
    open_db(path).close()

    assert CliRunner().invoke(cli, ["query", address_of(path), *args]).exit_code == code


def test_every_table_and_view_can_be_read_whole(db: MemDB) -> None:
    """SELECT * works, also where a digest is computed; FTS5's own tables stay closed."""
    db.scope("ann").session("s").append("user", "hello")
    names = [
        row[0] for row in db.query("SELECT name FROM sqlite_schema WHERE type <> 'index'").rows
    ]
    plain = [name for name in names if "_fts" not in name]

    assert len(plain) > 20
    for name in plain:
        db.query(f'SELECT * FROM "{name}"')


def test_numbers_of_a_view_have_a_type(db: MemDB) -> None:
    """Datasette and others compare what the user types with a column by its type."""
    for (view,) in db.query("SELECT name FROM sqlite_schema WHERE type = 'view'").rows:
        columns = db.query(f"PRAGMA table_info({view})")
        types = {row["name"]: row["type"] for row in columns}
        counted = types.keys() & {"seq", "messages", "version", "message_seq", "size_bytes"}
        assert {types[name] for name in counted} <= {"INT", "INTEGER"}, view


def test_an_answer_is_json(db: MemDB) -> None:
    """Bytes are base64, what is no finite number is null."""
    rows = db.query("SELECT x'00ff', 9e999, 1.5, 'a'").to_dict()["rows"]

    assert json.loads(json.dumps(rows, allow_nan=False)) == [["AP8=", None, 1.5, "a"]]
