"""Portable statements in PostgreSQL's words, the values they bind and the locks they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memdb.errors import InvalidInput
from memdb.models.ids import BranchName
from memdb.postgres.dialect import (
    COMMON_LOCK,
    Statement,
    _lock_of,
    to_array,
)
from memdb.postgres.driver import read_address, shown
from memdb.postgres.maintenance import to_numbered
from memdb.text.validate import shown_address

SCOPE = 7 << 44


@pytest.mark.parametrize(
    ("values", "array"),
    [
        ([], "{}"),
        ([1, 2], "{1,2}"),
        ({3}, "{3}"),
        (["a", ""], '{"a",""}'),
        (['say "a\\b"'], '{"say \\"a\\\\b\\""}'),
        (["null", "{a,b}"], '{"null","{a,b}"}'),
    ],
)
def test_lists_become_arrays(values: object, array: str) -> None:
    """Numbers stand bare, texts in quotes."""
    assert to_array(values) == array


def test_a_list_of_ids_also_binds_its_range() -> None:
    """PostgreSQL prunes partitions by the range; none is empty."""
    found = Statement(
        "/* messages.x */\nSELECT id FROM messages WHERE id IN (SELECT value FROM json_each(:ids))"
    )

    assert found.sql.endswith("WHERE (id = ANY($1) AND id BETWEEN $2 AND $3)")
    assert found.bind({"ids": [5, 3, 4]}) == ["{5,3,4}", 3, 5]
    assert found.bind({"ids": []}) == ["{}", 0, 0]


def test_a_list_is_read_as_rows() -> None:
    """Each number is a row, of the column `value`."""
    found = Statement("/* items.x */\nSELECT refs.value FROM json_each(:ids) AS refs")

    assert found.sql.endswith("FROM unnest(CAST($1 AS BIGINT[])) AS refs (value)")
    assert found.bind({"ids": [5, 3]}) == ["{5,3}"]


def test_no_limit_is_null() -> None:
    """SQLite's -1 is an error there."""
    found = Statement("/* messages.x */\nSELECT 1 LIMIT :limit")

    assert found.bind({"limit": -1}) == [None]
    assert found.bind({"limit": 3}) == [3]


def test_the_name_of_a_branch_is_a_text() -> None:
    """Not a list of letters: it is a subclass of `str`."""
    found = Statement("/* sessions.x */\nSELECT id FROM sessions WHERE name = :name")

    assert list(map(str, found.bind({"name": BranchName("trip", "b")}))) == ["trip"]


@pytest.mark.parametrize(
    ("sql", "values", "locks"),
    [
        ("SELECT :scope_no", {"scope_no": 7}, [7]),
        ("SELECT :session", {"session": SCOPE | 5}, [7]),
        ("SELECT :low, :high", {"low": SCOPE, "high": SCOPE | 9}, [7]),
        ("SELECT :low, :high", {"low": 0, "high": 9}, []),
        (
            "SELECT 1 WHERE 1 IN (SELECT value FROM json_each(:ids))",
            {"ids": [SCOPE + 1, (8 << 44) + 1]},
            [7, 8],
        ),
        ("SELECT :sha256", {"sha256": b"x" * 32}, [_lock_of(b"x" * 32)]),
        ("SELECT :app, :user, :session", {"app": "a", "user": "u", "session": "s"}, None),
        ("SELECT :name", {"name": "a"}, []),
    ],
)
def test_a_statement_needs_the_lock_of_its_scope(
    sql: str, values: dict[str, object], locks: list[int] | None
) -> None:
    """The values say which; what names an app and a user has the lock of both."""
    expected = [_lock_of(b"a\0u")] if locks is None else locks

    assert Statement(f"/* messages.x */\n{sql}").locks(values) == expected


def test_settings_have_a_lock_of_their_own() -> None:
    """They are read, changed and written back, whoever's scope."""
    assert Statement("/* settings.x */\nSELECT 1").locks({}) == [COMMON_LOCK]


def test_an_address_is_shown_without_its_password() -> None:
    """Neither in the user's part nor among the options."""
    address = "postgresql://ann:s3cret@db.example:6432/memory?sslpassword=s3cret&sslmode=require"

    assert shown_address(address) == "postgresql://ann@db.example:6432/memory"
    assert shown(read_address(address)) == "postgresql://ann@db.example:6432/memory"


@pytest.mark.parametrize("address", ["postgresql://ann:s3cret@[", "postgresql://h/d?s3cret=1"])
def test_an_address_that_cannot_be_read_is_not_repeated(address: str) -> None:
    """The error says what an address is like, and never what it was."""
    with pytest.raises(InvalidInput, match="postgresql://USER@HOST") as caught:
        read_address(address)

    assert "s3cret" not in str(caught.value)


def test_placeholders_of_a_query_are_numbered() -> None:
    """By position and by name; casts and quoted texts stay."""
    assert to_numbered("SELECT '?' || ?", ["a"]) == ("SELECT '?' || $1", ["a"])
    assert to_numbered("SELECT :a::text, ':b'", {"a": 1}) == ("SELECT $1::text, ':b'", [1])
    with pytest.raises(InvalidInput, match="no value for :b"):
        to_numbered("SELECT :b", {"a": 1})
    with pytest.raises(InvalidInput, match="1 placeholders, but 2 values"):
        to_numbered("SELECT ?", [1, 2])


WITHOUT = """
import sys
import memdb
with memdb.open(":memory:") as db:
    db.scope("ann").session("s").append("user", "hi")
assert not [name for name in sys.modules if "psycopg" in name or "memdb.postgres" in name]
sys.modules["psycopg"] = None
try:
    memdb.open("postgresql://h/d")
except memdb.InvalidInput as error:
    print(error)
"""


def test_memdb_loads_nothing_of_it_for_a_file() -> None:
    """Without the extra, a file works, and an address names the extra."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "pip install 'memdb-sqlite[postgres]'" in done.stdout
