"""Any program that knows SQLite can keep a memdb file: copy, compact, dump and change it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import apsw
import pytest

import memdb
from memdb.engine.columns import digest_columns

if TYPE_CHECKING:
    from pathlib import Path

SHELL = shutil.which("sqlite3")

pytestmark = pytest.mark.skipif(SHELL is None, reason="the command sqlite3 is not installed")

# What a column of each type is changed to.
OTHER = {"TEXT": "coalesce({0}, '') || 'x'", "BLOB": "CAST(x'5a' || substr({0}, 2) AS BLOB)"}


def shell(path: Path, command: str) -> str:
    """Run a command of the sqlite3 program, which has none of memdb's functions."""
    done = subprocess.run(
        [str(SHELL), "-bail", path, command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), command
    return done.stdout


def fill(path: Path) -> None:
    """Make a closed file with rows of everything that a call stores."""
    with memdb.open(path, counter="estimate", settings={"summary_messages": 2}) as db:
        ann = db.scope("ann")
        trip = ann.session("trip")
        trip.extend([{"role": "user", "text": f"We fly to Oslo on day {n}."} for n in range(12)])
        trip.branch("other", 3).append("user", "Or to Bergen.")
        entry = ann.remember("Ann likes tea.", key="drink").entry
        ann.entries.update(entry.id, text="Ann likes coffee.")
        ann.remember("Ann likes water.", key="drink")
        rents = [ann.remember(one) for one in ("My rent is 900 euros.", "The rent went up to 950.")]
        assert rents[1].links
        ann.entries.unlink(rents[1].entry.id, rents[0].entry.id)
        ann.items.put(("notes",), "k1", {"text": "tea"})
        ann.state.update(mood="good")
        trip.artifacts.save("menu.md", "tea and cake")
        ann.session("gone").append("user", "x")
        ann.session("gone").delete()
        trip.summaries.compact()
        trip.archive(keep_last=4)
        db.settings.update(entry_quota=900)
        db.jobs.run()
        trip.append("user", "Not embedded yet.")


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of the tables with digests."""
    connection = apsw.Connection(str(path))
    found = {
        table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)
        for table in digest_columns()
    }
    connection.close()
    return found


def by_dump(source: Path, target: Path) -> None:
    """Copy a file as `sqlite3 source .dump | sqlite3 target` does."""
    script = subprocess.run([str(SHELL), source, ".dump"], capture_output=True, check=True).stdout
    subprocess.run([str(SHELL), "-bail", target], input=script, check=True)


def by_clone(source: Path, target: Path) -> None:
    """Copy a file table by table; the program says of full text that it cannot, in any file."""
    done = subprocess.run(
        [str(SHELL), source, f".clone {target}"], capture_output=True, check=True, text=True
    )
    refused = re.findall(r"(?:SELECT \* FROM|CREATE TABLE) [\"']?(\w+)", done.stderr)
    assert [one for one in refused if "_fts" not in one] == ["sqlite_sequence"]


def by_sqlite_utils(path: Path) -> None:
    """Compact a file with another program that is built on SQLite."""
    pytest.importorskip("sqlite_utils", reason="sqlite-utils is not installed")
    subprocess.run([sys.executable, "-m", "sqlite_utils", "vacuum", path], check=True)


TOOLS = {
    "VACUUM": lambda path, _: shell(path, "VACUUM"),
    "VACUUM INTO": lambda path, copy: shell(path, f"VACUUM INTO '{copy}'"),
    ".dump": by_dump,
    ".clone": by_clone,
    ".backup": lambda path, copy: shell(path, f".backup {copy}"),
    "REINDEX, ANALYZE": lambda path, _: shell(path, "REINDEX; ANALYZE"),
    "sqlite-utils vacuum": lambda path, _: by_sqlite_utils(path),
}


def test_other_programs_copy_compact_and_dump_a_file(tmp_path: Path) -> None:
    """What they leave opens, has the same rows, and `check` finds nothing."""
    source = tmp_path / "source.db"
    fill(source)
    before = rows(source)
    assert all(before.values()), [table for table, found in before.items() if not found]

    for number, (name, tool) in enumerate(TOOLS.items()):
        path, copy = tmp_path / f"{number}.db", tmp_path / f"{number}-copy.db"
        shutil.copy(source, path)
        tool(path, copy)
        for kept in (one for one in (path, copy) if one.exists()):
            assert rows(kept) == before, name
            with memdb.open(kept, counter="estimate") as db:
                assert db.file.check(deep=True) == [], name
                db.scope("ann").session("trip").append("user", "And back.")
                assert db.file.check(deep=True) == [], name


def test_a_row_that_another_program_changes_is_a_finding(tmp_path: Path) -> None:
    """The change is not refused, in any table; `check` names the table."""
    path = tmp_path / "agent.db"
    fill(path)
    for table, columns in digest_columns().items():
        if table == "settings":
            continue  # opening reads them
        column = [one for one in columns.covered if one not in columns.key][-1]
        kind = shell(path, f"SELECT type FROM pragma_table_info('{table}') WHERE name = '{column}'")
        other = OTHER.get(kind.strip(), "coalesce({0}, 0) + 1").format(column)
        change = (
            f"UPDATE {table} SET {column} = {other} WHERE rowid = (SELECT min(rowid) FROM {table})"
        )
        if "WITHOUT ROWID" in shell(path, f"SELECT sql FROM sqlite_schema WHERE name = '{table}'"):
            change = f"UPDATE {table} SET {column} = {other}"
        if table == "meta":
            change += " WHERE key = 'created_by'"  # opening compares the fingerprint
        shell(path, f"PRAGMA ignore_check_constraints = ON; {change}")

    with memdb.open(path, counter="estimate") as db:
        found = {one.text.split()[0] for one in db.file.check(deep=True) if one.code == "digest"}

    assert found == digest_columns().keys() - {"settings"}


def test_a_setting_that_another_program_changes_is_not_used(tmp_path: Path) -> None:
    """Opening compares the settings with their digests."""
    path = tmp_path / "agent.db"
    fill(path)
    shell(path, "UPDATE settings SET value = '7' WHERE name = 'entry_quota'")

    with pytest.raises(memdb.Corrupt, match="entry_quota of settings is damaged"):
        memdb.open(path, counter="estimate")
