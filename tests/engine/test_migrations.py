"""Old files become current ones and lose no row, or stay exactly what they were."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from coming_formats import COMING, NOW, PRESENT, VARIANTS, Variant, make_old, memdb_of
from fixtures import freeze

import memdb
from memdb.engine.sqlite import schema
from memdb.engine.sqlite.digests import register_functions
from memdb.engine.sqlite.maintenance import list_migration_copies
from memdb.engine.steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
RELEASED = range(1, schema.FORMAT + 1)
LAST = NOW + len(COMING)
ARCHIVED = "SELECT rowid FROM archived_fts WHERE archived_fts MATCH 'drank'"


def look(path: str | Path) -> apsw.Connection:
    """Open a file beside memdb."""
    connection = apsw.Connection(str(path))
    register_functions(connection)
    return connection


def structure(path: str | Path) -> list[Any]:
    """Return all that a file's schema says, and the settings of its full text."""
    connection = look(path)
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    found: list[Any] = [(kind, name, schema.normalized(str(sql))) for kind, name, sql in rows]
    for _, name, _ in rows:
        if str(name).endswith("_fts_config"):
            sql = f"SELECT k, v FROM {name} WHERE k <> 'version'"
            found.append((name, sorted(connection.execute(sql))))
    found.append(connection.execute("PRAGMA user_version").fetchall())
    connection.close()
    return sorted(found, key=repr)


def rows(path: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Return every row of every ordinary table but the mark of the WAL, by the names of its columns."""
    connection = look(path)
    names = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
        "AND name NOT LIKE 'sqlite%' AND name <> 'messages_fts_tail'"
    ).fetchall()
    found = {}
    for (name,) in names:
        sql = "SELECT name FROM pragma_table_xinfo(?) ORDER BY cid"
        columns = [column for (column,) in connection.execute(sql, (name,))]
        made = [
            dict(zip(columns, row, strict=True))
            for row in connection.execute(f"SELECT {', '.join(columns)} FROM {name}")
            if row[0] != "in_use"  # which WAL it needs; a copy needs none
        ]
        found[str(name)] = sorted((row for row in made if row.get("key") != "in_use"), key=repr)
    sequences = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    found["sqlite_sequence"] = [dict(zip(("name", "seq"), row, strict=True)) for row in sequences]
    connection.close()
    return found


def lost(path: Path, before: dict[str, list[dict[str, Any]]], but: tuple[str, ...]) -> list[str]:
    """Return the tables with other rows than before, in the columns that they had, but some."""
    after = rows(path)
    derived = {"digest"}
    other = []
    for table, old in before.items():
        new = after.get(table, [])
        kept = {name for row in old[:1] for name in row} - derived
        kept = {name for name in kept if f"{table}.{name}" not in but}
        kept &= {name for row in new[:1] for name in row} or kept
        cut = [sorted(({k: row[k] for k in kept} for row in some), key=repr) for some in (old, new)]
        if table == "meta":  # the mark, and the fingerprint
            cut = [
                [row for row in some if row["key"] in ("file_uid", "created_ms")] for some in cut
            ]
        if cut[0] != cut[1]:
            other.append(table)
    return other


def migrate(path: str | Path) -> list[Any]:
    """Open a file, and return what `check` finds in it."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        return db.file.check(deep=True)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return the path of a file of the present format with rows in every table."""
    path = tmp_path / "agent.db"
    make_old(path)
    return path


@pytest.mark.parametrize("number", RELEASED, ids=str)
def test_every_released_format_is_frozen(number: int) -> None:
    """With rows in every table that the format has."""
    script = (FIXTURES / f"schema_v{number:04}.sql").read_text(encoding="utf-8")
    tables = set(re.findall(r"CREATE TABLE (\w+)", script)) - {"messages_fts_tail"}  # derived
    filled = set(re.findall(r"INSERT INTO (\w+) \(\w+", script))

    assert tables == {name for name in filled if not name.endswith("_fts")}


def test_each_format_has_a_step_and_those_between_their_schema() -> None:
    """One per format after the first; the present one is schema.sql."""
    from memdb.engine.sqlite.migrations import STEPS
    from memdb.postgres.migrations import STEPS as SERVER_STEPS

    folder = Path(schema.__file__).parent / "migrations"
    between = sorted(int(one.stem) for one in folder.glob("*.sql"))

    assert [*STEPS] == [*SERVER_STEPS] == [*range(2, NOW + 1)]
    assert between == [*range(2, NOW)]
    assert (folder / "README.md").is_file()


def test_the_script_that_freezes_gives_the_same_file_again(tmp_path: Path) -> None:
    """Its times and ids are fixed, so that a fixture can be reviewed."""
    made = []
    for name in ("one.db", "two.db"):
        freeze.fill(str(tmp_path / name))
        made.append("".join(freeze.lines(str(tmp_path / name))))

    assert made[0] == made[1]


@pytest.mark.parametrize("number", RELEASED, ids=str)
def test_a_released_format_is_used_like_a_new_one(tmp_path: Path, number: int) -> None:
    """What any format stored is read by every package, and nothing is missing."""
    path = tmp_path / "agent.db"
    make_old(path, number)
    memdb.open(tmp_path / "fresh.db", embedder=None).close()

    with memdb.open(path, embedder=None, counter="estimate") as db:
        ann = db.scope("ann")
        assert db.file.check(deep=True) == []
        assert [message.text for message in ann.session("trip").messages()] == [
            "I drink tea.",
            "我爱北京",
        ]
        assert ann.session("old").last(2)[0].text == "We drank tea."  # archived
        assert ann.session("trip").artifacts.load("menu.md").text == "tea and cake"
        kinds = {hit.kind for hit in ann.recall("tea", limit=50)}
        assert kinds == {"message", "entry", "artifact", "session"}
        assert ann.session("trip").append("user", "more").seq == 3
    assert structure(path) == structure(tmp_path / "fresh.db")


def test_each_kind_of_change_keeps_every_row(tmp_path: Path) -> None:
    """The file opens, equals a new one, has all rows and no finding, and is not migrated again."""
    wrong = {}
    for number, (name, variant) in enumerate(VARIANTS.items()):
        path, fresh = tmp_path / f"{number}.db", tmp_path / f"{number}-fresh.db"
        make_old(path)
        before = rows(path)
        with memdb_of(variant):
            try:
                findings = migrate(path)
                memdb.open(fresh, embedder=None).close()
                Path(f"{path}.v{NOW}.bak").rename(tmp_path / f"{number}.bak")
                again = migrate(path)
            except memdb.MemDBError as error:
                wrong[name] = [str(error)]
                continue
            differs = set(map(str, structure(path))) ^ set(map(str, structure(fresh)))
        problems = [*findings, *again, *differs, *lost(path, before, variant.changed)]
        problems += [one.name for one in tmp_path.glob(f"{number}.db.v*")]
        if variant.changed and not lost(path, before, ()):
            problems.append("the step changed nothing")
        if rows(tmp_path / f"{number}.bak") != before:
            problems.append("the copy is another file")
        if look(path).execute(ARCHIVED).fetchall() == []:
            problems.append("archived words are gone")
        if problems:
            wrong[name] = problems

    assert wrong == {}


def test_steps_run_one_after_the_other(tmp_path: Path, old: Path) -> None:
    """From each format to the last one, over those between."""
    with memdb_of(COMING[0]):
        make_old(tmp_path / "second.db")
        memdb.open(tmp_path / "second.db", embedder=None, counter="estimate").close()
    with memdb_of(*COMING):
        memdb.open(tmp_path / "fresh.db", embedder=None).close()
        for path in (old, tmp_path / "second.db"):
            assert migrate(path) == []
            assert structure(path) == structure(tmp_path / "fresh.db")
        copies = list_migration_copies(str(tmp_path / "second.db"))
        assert [Path(one).name for one in copies] == [
            f"second.db.v{NOW}.bak",
            f"second.db.v{NOW + 1}.bak",
        ]
    assert rows(old)["messages"] == rows(tmp_path / "second.db")["messages"]
    assert {row["lang"] for row in rows(old)["messages"]} == {None, "zh"}


def test_the_old_file_is_copied_aside_for_its_owner_alone(old: Path) -> None:
    """`.vN.bak` is a whole file of the old format N, with mode 0600; `info` names it."""
    before = rows(old)
    with memdb_of(*COMING):
        migrate(old)
        assert list_migration_copies(str(old)) == [f"{old}.v{NOW}.bak"]
    backup = f"{old}.v{NOW}.bak"

    assert rows(backup) == before
    assert stat.S_IMODE(Path(backup).stat().st_mode) == 0o600


# Steps that would change what they may not, with a word of the error.
WRONG = {
    "deletes rows": (Step(before="DELETE FROM entry_history;"), "entry_history has 0 rows"),
    "drops a table": (Step(before="DROP TABLE tombstones;"), "tombstones has 0 rows"),
    "deletes behind": (
        Step(after=lambda tx: tx.run("DELETE FROM messages WHERE external_id IS NOT NULL")),
        "messages has",
    ),
    "deletes what others need": (
        Step(before="DELETE FROM sessions;", counts=("sessions",)),
        "points to rows of sessions",
    ),
    "adds rows": (
        Step(after=lambda tx: tx.run("INSERT INTO changes (kind, number) VALUES ('x', 1)")),
        "changes has",
    ),
    "ends the transaction": (Step(before="COMMIT;"), "not authorized"),
    "is no SQL": (Step(before="this is no SQL"), "syntax error"),
    "breaks a rule": (
        Step(after=lambda tx: tx.run("UPDATE entries SET importance = 99")),
        "CHECK constraint",
    ),
    "forgets a hash": (
        Step(after=lambda tx: tx.run("UPDATE messages SET author = 'Eve' WHERE text <> ''")),
        "message_hash",
    ),
    "raises": (Step(after=lambda tx: tx.nothing), "no attribute"),
}


def test_a_step_that_would_lose_something_changes_nothing(tmp_path: Path) -> None:
    """MigrationFailed says what would be lost; schema, rows and format are the old ones."""
    wrong = {}
    for name, (step, told) in WRONG.items():
        path = tmp_path / f"{name}.db"
        make_old(path)
        before = structure(path), rows(path)
        with memdb_of(Variant((), step)):
            try:
                migrate(path)
                wrong[name] = "it was migrated"
            except memdb.MigrationFailed as error:
                facts = (error.path, error.from_version, error.to_version)
                if told not in str(error) or facts != (str(path), NOW, NOW + 1):
                    wrong[name] = str(error)
        if (structure(path), rows(path)) != before:
            wrong[name] = "the file is another one"
        with memdb_of(Variant(())):
            if migrate(path):  # a repaired step
                wrong[name] = "it cannot be tried again"

    assert wrong == {}


def test_a_column_that_schema_sql_lacks_is_not_lost_in_silence(old: Path) -> None:
    """A step that renames or drops one says so."""
    renamed = VARIANTS["renamed column"]._replace(step=Step())
    with memdb_of(renamed), pytest.raises(memdb.MigrationFailed, match="updated_ms of settings"):
        migrate(old)


def test_a_damaged_row_stops_a_migration(old: Path) -> None:
    """Its digest would be made anew, and the damage hidden."""
    if "GENERATED ALWAYS AS (row_digest" in PRESENT:
        pytest.skip("the digests are computed by SQLite")
    look(old).execute("UPDATE entries SET text = 'Ann likes red tea.'")
    before = rows(old)
    with memdb_of(*COMING), pytest.raises(memdb.MigrationFailed, match="of entries is damaged"):
        migrate(old)
    assert rows(old) == before


def test_foreign_keys_are_off_and_a_file_of_others_keeps_its_tables(old: Path) -> None:
    """Tables, views, indexes and triggers that are not memdb's hinder no step and are kept."""
    look(old).execute(
        "CREATE TABLE notes (session_id INTEGER REFERENCES sessions (id) ON DELETE CASCADE);"
        "INSERT INTO notes SELECT id FROM sessions;"
        "CREATE VIEW mine AS SELECT text FROM messages;"
    )
    before = rows(old)
    with memdb_of(VARIANTS["everything made anew"]):
        assert migrate(old) == []

    assert lost(old, before, ()) == []
    assert len(rows(old)["notes"]) == len(before["sessions"])
    assert look(old).execute("SELECT count(*) FROM mine").fetchall() == [(len(before["messages"]),)]


def test_a_backup_that_cannot_be_made_stops_the_migration(old: Path) -> None:
    """Without the copy nothing is changed."""
    Path(f"{old}.v{NOW}.bak").mkdir()
    before = structure(old)
    with memdb_of(*COMING), pytest.raises(memdb.FileError):
        migrate(old)
    assert structure(old) == before


def test_a_current_file_is_not_copied(old: Path) -> None:
    """Only an upgrade makes a `.bak`."""
    migrate(old)
    assert [one.name for one in old.parent.iterdir()] == ["agent.db"]


def test_a_file_of_an_older_format_is_read_without_a_change(old: Path) -> None:
    """With mode="read" all reads answer, every write is refused, and no byte or file is new."""
    before = old.read_bytes()
    old.chmod(0o400)
    with (
        memdb_of(*COMING),
        memdb.open(old, embedder=None, counter="estimate", mode="read") as db,
    ):
        ann = db.scope("ann")
        assert ann.session("trip").last(1)[0].text == "我爱北京"
        assert ann.session("old").last(2)[0].text == "We drank tea."
        assert {hit.kind for hit in ann.recall("tea", limit=50)} >= {"message", "entry"}
        assert ann.session("trip").context(500).messages
        assert ann.entries.find("drink") is not None
        assert ann.session("trip").artifacts.load("menu.md").text == "tea and cake"
        assert db.file.check(deep=True) == []
        assert db.file.info().path == str(old)
        assert db.query("SELECT count(*) FROM messages").rows[0][0] > 5
        db.export(old.parent / "out.jsonl")
        db.file.backup(old.parent / "copy.db")
        with pytest.raises(memdb.ReadOnly):
            ann.session("trip").append("user", "no")
    (old.parent / "out.jsonl").unlink()
    (old.parent / "copy.db").unlink()
    assert [one.name for one in old.parent.iterdir()] == ["agent.db"]
    assert old.read_bytes() == before


def test_only_a_file_of_this_format_is_recovered(tmp_path: Path, old: Path) -> None:
    """Rows of another format would not fit, and be left out in silence."""
    with memdb_of(*COMING):
        with pytest.raises(memdb.FileError, match=f"format {NOW}.*memdb that wrote it"):
            memdb.recover(old, tmp_path / "saved.db")
        migrate(old)
    with pytest.raises(memdb.SchemaTooNew):
        memdb.recover(old, tmp_path / "saved.db")
    assert not (tmp_path / "saved.db").exists()


def killed_at(path: Path, number: int) -> bool:
    """Migrate a file in a process that is killed at its n-th statement; False if it has fewer."""
    child = os.fork()
    if not child:
        try:
            count = [0]

            def trace(*_: object) -> bool:
                count[0] += 1
                if count[0] == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return True

            apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(trace))
            with memdb_of(*COMING):
                memdb.open(path, embedder=None, counter="estimate").close()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def survives_kills(tmp_path: Path, numbers: range) -> tuple[int, list[int]]:
    """Kill a migration at some statements; return how many it has, and where a row was lost."""
    wrong = []
    for number in numbers:
        path = tmp_path / str(number) / "agent.db"
        path.parent.mkdir()
        make_old(path)
        before = rows(path)
        if not killed_at(path, number):
            return number, wrong
        with memdb_of(*COMING):
            findings = migrate(path)
        but = ("entries.importance", "entries.content_hash", "messages.content_hash")
        left = {one.name for one in path.parent.iterdir()} - {"agent.db", f"agent.db.v{NOW}.bak"}
        if findings or left or lost(path, before, but) or rows(f"{path}.v{NOW}.bak") != before:
            wrong.append(number)
    return 0, wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_migration_that_is_killed_is_made_again(tmp_path: Path) -> None:
    """SIGKILL at some of its statements: the next opening migrates the file, with every row."""
    number, wrong = survives_kills(tmp_path, range(100, 10_000, 200))
    assert (number > 300, wrong) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_migration_is_killed_at_every_statement(tmp_path: Path, part: int) -> None:
    """The same at each one."""
    number, wrong = survives_kills(tmp_path, range(1 + part, 10_000, 8))
    assert (number > 300, wrong) == (True, [])


def race(path: Path, processes: int) -> list[str]:
    """Let processes open an old file at once; return what each printed last."""
    programs = [
        subprocess.Popen(
            [sys.executable, HERE.parent / "coming_formats.py", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parents[1],
        )
        for _ in range(processes)
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    return [program.communicate()[0].strip() for program in programs]


@pytest.mark.slow
def test_processes_migrate_a_file_at_once(old: Path) -> None:
    """One does it, the others find it done; the copy is the old file."""
    before = rows(old)
    assert race(old, 3) == ["open"] * 3
    with memdb_of(*COMING):
        assert migrate(old) == []
    assert rows(f"{old}.v{NOW}.bak") == before


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """However many pages there is room for: the file is the old one, or is migrated whole."""
    make_old(tmp_path / "agent.db")
    look(tmp_path / "agent.db").execute("PRAGMA journal_mode = WAL").fetchall()
    pages = int(look(tmp_path / "agent.db").execute("PRAGMA page_count").fetchone()[0])
    outcomes = []
    for more in (0, 4, 16, 48, 400):
        path = tmp_path / f"{more}.db"
        make_old(path)
        before = rows(path)

        def bounded(connection: apsw.Connection, limit: int = pages + more) -> None:
            connection.execute(f"PRAGMA max_page_count = {limit}").fetchall()

        apsw.connection_hooks.append(bounded)
        try:
            with memdb_of(*COMING):
                migrate(path)
            outcomes.append("migrated")
        except memdb.MigrationFailed as error:
            outcomes.append("full" if isinstance(error.__cause__, memdb.DiskFull) else str(error))
            assert rows(path) == before
        finally:
            apsw.connection_hooks.remove(bounded)
        with memdb_of(*COMING):
            assert migrate(path) == []
    assert sorted({*outcomes}) == ["full", "migrated"]


def test_a_damaged_new_file_is_not_made(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the schema fails in its middle, the next open finds an empty file."""
    broken = PRESENT.replace("PRAGMA user_version", "nonsense")
    monkeypatch.setattr(schema, "read_schema", lambda: broken)
    with pytest.raises(memdb.MemDBError):
        memdb.open(path, embedder=None)
    monkeypatch.undo()

    with memdb.open(path, embedder=None) as db:
        assert db.file.check() == []


def test_names_are_compared_without_quotes() -> None:
    """SQLite quotes what ALTER TABLE renames; a default in quotes stays what it is."""
    compare: Callable[[str], str] = schema.normalized

    assert compare('CREATE TABLE "a" ("b" TEXT)') == compare("CREATE TABLE a(b TEXT) -- c")
    assert compare("CREATE TABLE a (b TEXT DEFAULT 'x')") != compare(
        "CREATE TABLE a (b TEXT DEFAULT x)"
    )
