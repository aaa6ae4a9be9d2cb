"""Old files become current ones, or stay exactly what they were."""

import re
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.engine.sqlite import schema

FIXTURES = Path(__file__).parent.parent / "fixtures"
RELEASED = range(1, schema.FORMAT + 1)

# The format of today, and the two after it, which do not exist: what their steps would say.
NOW, NEXT, LAST = schema.FORMAT, schema.FORMAT + 1, schema.FORMAT + 2
STEPS = {
    NEXT: f"""
        ALTER TABLE meta ADD COLUMN note TEXT;
        CREATE TABLE extra (x INTEGER NOT NULL) STRICT;
        INSERT INTO extra (x) SELECT count(*) FROM messages;
        PRAGMA user_version = {NEXT};
    """,
    LAST: f"DROP TABLE extra; UPDATE meta SET note = 'last'; PRAGMA user_version = {LAST};",
}

# A step as the next one may be: columns, one of them before constraints and one
# at the end of a table without any, an index, and a change of the rows.
NEW_COLUMNS = {
    "2022-05-03'; NULL: none\n": (
        "2022-05-03'; NULL: none\n"
        "  lang TEXT,                           -- of the text; NULL: not known\n"
    ),
    "DEFAULT 0\n) STRICT;\n\nCREATE TABLE blob_chunks": (
        "DEFAULT 0,\n  reason TEXT                          -- NULL: nobody said\n"
        ") STRICT;\n\nCREATE TABLE blob_chunks"
    ),
}
NEW_INDEX = "CREATE INDEX messages_lang ON messages (lang) WHERE lang IS NOT NULL;"
CHANGE = """
    UPDATE messages SET lang = 'zh' WHERE bigrams IS NOT NULL;
    UPDATE state
    SET
      revision = revision + 1,
      digest = changed_digest(
        digest,
        app, user_name, session, key, value, revision, updated_ms,
        app, user_name, session, key, value, revision + 1, updated_ms
      );
"""
STEP = f"""
    ALTER TABLE messages ADD COLUMN lang TEXT;
    ALTER TABLE blobs ADD COLUMN reason TEXT;
    {NEW_INDEX}
    {CHANGE}
    PRAGMA user_version = {NEXT};
"""


def load(script: str, path: str, raw: Any) -> None:
    """Make the file that a frozen script describes."""
    connection = raw(path)
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    connection.execute(f"BEGIN; {script}; COMMIT").fetchall()
    connection.close()


def structure(path: str, raw: Any) -> list[tuple[str, str, str]]:
    """Return type, name and normalised SQL of everything in a file's schema."""
    connection = raw(path)
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    connection.close()
    return sorted((kind, name, schema.normalized(sql)) for kind, name, sql in rows)


def frozen(number: int) -> str:
    """Return the script of a file of format *number*, with rows in every table."""
    return (FIXTURES / f"schema_v{number:04}.sql").read_text(encoding="utf-8")


def next_schema(script: str) -> str:
    """Return *script*, which begins with schema.sql, as the next format would write it."""
    for before, after in NEW_COLUMNS.items():
        assert script.count(before) == 1
        script = script.replace(before, after)
    return script.replace(
        f"PRAGMA user_version = {NOW};", f"{NEW_INDEX}\nPRAGMA user_version = {NEXT};"
    )


def version(path: str, raw: Any) -> int:
    """Return a file's format."""
    connection = raw(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


@pytest.fixture
def old(path: str) -> str:
    """Return the path of a closed file of the present format."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        db.scope("ann").session("trip").append("user", "hi")
    return path


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Let this memdb believe that its format is two further on; the steps can be changed."""
    steps = dict(STEPS)
    monkeypatch.setattr(schema, "FORMAT", LAST)
    monkeypatch.setattr(schema, "read_migration", steps.__getitem__)
    return steps


@pytest.mark.parametrize("number", RELEASED, ids=str)
def test_every_released_format_is_frozen(number: int) -> None:
    """With rows in every table that the format has."""
    script = frozen(number)
    tables = set(re.findall(r"CREATE TABLE (\w+)", script)) - {"messages_fts_tail"}  # derived

    assert tables == set(re.findall(r"INSERT INTO (\w+) \(\w+", script)) - {
        "messages_fts",
        "archived_fts",
        "entries_fts",
        "summaries_fts",
        "artifacts_fts",
        "items_fts",
        "sessions_fts",
    }


@pytest.mark.parametrize("number", RELEASED, ids=str)
def test_an_old_file_becomes_like_a_new_one(
    tmp_path: Path, number: int, raw: Any, dump: Any
) -> None:
    """The schema equals a fresh file's, every row is kept, and check finds nothing."""
    path, fresh = str(tmp_path / "old.db"), str(tmp_path / "fresh.db")
    load(frozen(number), path, raw)
    before = dump(path)

    memdb.open(path, embedder=None).close()
    memdb.open(fresh, embedder=None).close()

    assert structure(path, raw) == structure(fresh, raw)
    assert version(path, raw) == schema.FORMAT
    assert {name: len(rows) for name, rows in dump(path)} == {
        name: len(rows) for name, rows in before
    }
    with memdb.open(path, embedder=None) as db:
        assert db.file.check(deep=True) == []


def test_the_rows_of_the_present_format_are_kept_as_they_are(
    path: str, raw: Any, dump: Any
) -> None:
    """Opening a file that is current changes no row."""
    load(frozen(NOW), path, raw)
    before = dump(path)

    memdb.open(path, embedder=None).close()

    assert dump(path) == before


@pytest.mark.parametrize("number", RELEASED, ids=str)
def test_an_old_file_is_used_like_a_new_one(path: str, raw: Any, number: int) -> None:
    """What any format stored is read by every package."""
    load(frozen(number), path, raw)

    with memdb.open(path, embedder=None, counter="estimate") as db:
        ann = db.scope("ann")
        assert [message.text for message in ann.session("trip").messages()] == [
            "I drink tea.",
            "我爱北京",
        ]
        assert ann.entries.find("drink").text == "Ann likes green tea."  # type: ignore[union-attr]
        assert ann.session("trip").artifacts.load("menu.md").text == "tea and cake"
        assert {hit.kind for hit in ann.recall("tea", limit=50)} == {
            "message",
            "entry",
            "artifact",
            "session",
        }
        assert ann.session("trip").append("user", "more").seq == 3


@pytest.fixture
def rehearsal(path: str, raw: Any, monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Put a file of today with rows in every table at *path*, under a memdb of the next format."""
    load(frozen(NOW), path, raw)
    script = next_schema(schema.read_schema())
    steps = {NEXT: STEP}
    monkeypatch.setattr(schema, "FORMAT", NEXT)
    monkeypatch.setattr(schema, "FINGERPRINT", schema.fingerprint_of(script))
    monkeypatch.setattr(schema, "read_schema", lambda: script)
    monkeypatch.setattr(schema, "read_migration", steps.__getitem__)
    return steps


def test_a_real_step_gives_the_file_that_a_new_one_would_be(
    tmp_path: Path, path: str, raw: Any, dump: Any, rehearsal: dict[int, str]
) -> None:
    """Columns, an index and changed rows: equal in structure and in every row, and check is clean."""
    before = dump(path)
    fresh = str(tmp_path / "fresh.db")
    load(next_schema(frozen(NOW)) + CHANGE, fresh, raw)
    raw(fresh).execute("UPDATE meta SET value = ? WHERE key = 'fingerprint'", (schema.FINGERPRINT,))

    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.file.check(deep=True) == []
        assert db.scope("ann").session("trip").last(1)[0].text == "我爱北京"

    assert structure(path, raw) == structure(fresh, raw)
    assert dump(path) == dump(fresh)
    assert version(path, raw) == NEXT
    assert {row[-1] for row in dict(dump(path))["messages"]} == {None, "zh"}
    assert (version(f"{path}.v{NOW}.bak", raw), dump(f"{path}.v{NOW}.bak")) == (NOW, before)
    with memdb.open(
        path, embedder=None, counter="estimate"
    ) as db:  # its fingerprint is the new one
        assert db.scope("ann").session("trip").append("user", "more").seq == 3


@pytest.mark.parametrize("broken", ["'zh' WHERE", "revision + 1", "messages_lang ON"])
def test_a_real_step_that_fails_changes_nothing(
    path: str, raw: Any, dump: Any, rehearsal: dict[int, str], broken: str
) -> None:
    """Wherever in the step it happens."""
    before = structure(path, raw), dump(path), version(path, raw)
    rehearsal[NEXT] = STEP.replace(broken, "no SQL")

    with pytest.raises(memdb.MigrationFailed, match="unchanged"):
        memdb.open(path, embedder=None)

    assert (structure(path, raw), dump(path), version(path, raw)) == before


def test_a_step_that_differs_from_the_schema_is_noticed(
    tmp_path: Path, path: str, raw: Any, rehearsal: dict[int, str]
) -> None:
    """A column of another type, or none, is not the file that a new one would be."""
    fresh = str(tmp_path / "fresh.db")
    rehearsal[NEXT] = STEP.replace("lang TEXT", "lang BLOB").replace("'zh'", "x'00'")

    memdb.open(path, embedder=None).close()
    memdb.open(fresh, embedder=None).close()

    differ = set(structure(path, raw)) ^ set(structure(fresh, raw))
    assert {name for _, name, _ in differ} == {"messages"}


def test_steps_run_one_after_the_other(old: str, raw: Any, two_steps: Any, dump: Any) -> None:
    """Over the one between, with the rows that were there."""
    with memdb.open(old, embedder=None) as db:
        assert db.scope("ann").session("trip").last(1)[0].text == "hi"

    assert version(old, raw) == LAST
    assert {row[-1] for row in dict(dump(old))["meta"]} == {"last"}


def test_the_old_file_is_copied_aside(old: str, raw: Any, two_steps: Any, dump: Any) -> None:
    """`.vN.bak` is a whole file of the old format N."""
    before = dump(old)

    memdb.open(old, embedder=None).close()

    assert version(f"{old}.v{NOW}.bak", raw) == NOW
    assert dump(f"{old}.v{NOW}.bak") == before


@pytest.mark.parametrize(
    ("step", "script"),
    [
        (NEXT, "CREATE TABLE extra (x); INSERT INTO nowhere VALUES (1);"),
        (NEXT, "this is no SQL"),
        (LAST, "DROP TABLE messages; SELECT nonsense;"),
        (LAST, "INSERT INTO meta (key, value) VALUES ('created_by', 'twice')"),
    ],
    ids=["the first step", "no SQL", "the second step", "a rule of the schema"],
)
def test_a_failing_step_leaves_the_file_as_it_was(
    old: str, raw: Any, dump: Any, two_steps: dict[int, str], step: int, script: str
) -> None:
    """MigrationFailed tells from where to where; schema, rows and format are the old ones."""
    two_steps[step] = script
    before = structure(old, raw), dump(old), version(old, raw)

    with pytest.raises(memdb.MigrationFailed, match="unchanged") as caught:
        memdb.open(old, embedder=None)

    assert (caught.value.from_version, caught.value.to_version) == (NOW, LAST)
    assert caught.value.path == old
    assert caught.value.__cause__ is not None
    assert (structure(old, raw), dump(old), version(old, raw)) == before


def test_a_step_that_forgets_its_number_is_refused(
    old: str, raw: Any, two_steps: dict[int, str]
) -> None:
    """Else it would run again at the next opening."""
    two_steps[LAST] = "DROP TABLE extra"

    with pytest.raises(memdb.MigrationFailed):
        memdb.open(old, embedder=None)

    assert version(old, raw) == NOW


def test_a_failed_migration_can_be_tried_again(
    old: str, raw: Any, two_steps: dict[int, str]
) -> None:
    """With a repaired step the same file becomes current."""
    two_steps[NEXT] = "this is no SQL"
    with pytest.raises(memdb.MigrationFailed):
        memdb.open(old, embedder=None)
    two_steps[NEXT] = STEPS[NEXT]

    memdb.open(old, embedder=None).close()

    assert version(old, raw) == LAST


def test_a_backup_that_cannot_be_made_stops_the_migration(
    old: str, raw: Any, two_steps: Any
) -> None:
    """Without the copy nothing is changed."""
    Path(f"{old}.v{NOW}.bak").mkdir()

    with pytest.raises(memdb.FileError):
        memdb.open(old, embedder=None)

    assert version(old, raw) == NOW


def test_a_current_file_is_not_copied(old: str) -> None:
    """Only an upgrade makes a `.bak`."""
    memdb.open(old, embedder=None).close()

    assert [one.name for one in Path(old).parent.iterdir()] == ["agent.db"]


def test_the_steps_on_disk_are_those_to_the_present_format() -> None:
    """One per format after the first, named by the number it leads to."""
    folder = Path(schema.__file__).parent / "migrations"
    numbers = sorted(int(one.name[:4]) for one in folder.glob("*.sql"))

    assert (folder / "README.md").is_file()  # so that the wheel has the folder
    assert numbers == list(range(2, schema.FORMAT + 1))


def test_a_step_is_found_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands behind the number in its name."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0002_add_note.sql").write_text("two")
    (folder / "0012_more.sql").write_text("twelve")
    monkeypatch.setattr("importlib.resources.files", lambda _package: tmp_path)

    assert (schema.read_migration(2), schema.read_migration(12)) == ("two", "twelve")


def test_a_damaged_new_file_is_not_made(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the schema fails in its middle, the next open finds an empty file."""
    whole = schema.read_schema()
    monkeypatch.setattr(
        schema, "read_schema", lambda: whole.replace("PRAGMA user_version", "nonsense")
    )
    with pytest.raises(memdb.MemDBError):
        memdb.open(path, embedder=None)
    monkeypatch.undo()

    with memdb.open(path, embedder=None) as db:
        assert db.file.check() == []
