"""Rules of schema.sql that a server does not look at in each statement: `memdb check` does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.postgres import schema
from memdb.postgres.maintenance import SELECT_BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")


@pytest.fixture
def address(postgres_databases: Any) -> Iterator[str]:
    """Return the address of a database of its own with a message, a branch and a job."""
    with postgres_databases.bare(with_tables=True) as bare:
        with memdb.open(bare, embedder=None, counter="estimate") as db:
            chat = db.scope("ann").session("trip")
            for number in range(20):
                chat.append("user", f"hi {number}")
            chat.branch("other", 1, create=True)
        yield bare


def test_check_looks_at_each_rule_of_a_file() -> None:
    """Those that the tables of a server lack, word by word."""
    script, asked = schema.read_script(), " ".join(SELECT_BROKEN.split())
    rules = 0
    for table in schema.UNCHECKED:
        match = re.search(rf"CREATE TABLE {table} \(.*?\n\);", script, re.DOTALL)
        assert match
        for rule in schema.CHECK.findall(match[0]):
            words = " ".join(rule.split())
            rules += 1
            if words != schema.KEEPS_SCOPE:
                assert words in asked or words[1:-1].strip() in asked

    assert rules == script.count("CHECK (") - schema.without_checks(script).count("CHECK (") + 1


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("UPDATE messages SET tokens = -1 WHERE id & 0xFFFFFF = 3", "messages"),
        ("UPDATE messages SET external_id = '' WHERE id & 0xFFFFFF = 3", "messages"),
        ("UPDATE messages SET text = NULL, parts = '[]' WHERE id & 0xFFFFFF = 3", "messages"),
        ("UPDATE sessions SET last_seq = -1 WHERE branch = ''", "sessions"),
        ("UPDATE sessions SET shares = '[]' WHERE branch = ''", "sessions"),
        ("UPDATE jobs SET kind = 'dance'", "jobs"),
    ],
)
def test_check_finds_a_row_that_breaks_a_rule(address: str, change: str, table: str) -> None:
    """Each by its table and id."""
    with memdb.open(address, embedder=None) as db:
        assert db.file.check() == []
        with psycopg.connect(address, autocommit=True) as connection:
            assert connection.execute(change).rowcount >= 1

        found = [str(one) for one in db.file.check()]

    assert any(f"{table}: the row with id" in one for one in found)


def test_a_session_stays_in_its_scope(address: str) -> None:
    """This rule the server keeps itself."""
    with (
        psycopg.connect(address, autocommit=True) as connection,
        pytest.raises(psycopg.errors.CheckViolation),
    ):
        connection.execute("UPDATE sessions SET scope_no = scope_no + 1")
