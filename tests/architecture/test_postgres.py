"""Every portable statement prepares on PostgreSQL, and reads the partition of its scope."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

from tests.architecture import postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

PARTITIONS = postgres.PARTITIONS
SCOPE_NO = 5
LOW = SCOPE_NO << 44
SESSION = LOW | 1 << 24

# What statements are planned with: ids of one scope. Any other number is 1.
VALUES = {
    "low": LOW,
    "high": (SCOPE_NO + 1 << 44) - 1,
    "after": LOW,
    "before": (SCOPE_NO + 1 << 44) - 1,
    "id": SESSION | 3,
    "session": SESSION,
    "session_id": SESSION,
    "ids": [LOW + 1, LOW + 2],
    "ids_low": LOW + 1,
    "ids_high": LOW + 2,
    "scope_no": SCOPE_NO,
    "ref": SESSION,
    "entry_id": LOW + 1,
    "start": LOW + 1,
}

# Statements whose plan names more than one partition of a table, each with its reason.
JOINED = "joined by id: the other partitions are in the plan and never executed"
WHOLE_FILE = ("checks.", "copies.", "meta.")  # check, rebuild, copy and info read everything
READ_MORE = {
    "entries.ended": "upkeep of the whole file",
    "entries.hashed": "a deep check reads everything",
    "entries.inactive": "upkeep of the whole file",
    "links.broken": "check and rebuild read everything",
    "links.stale": "check and rebuild read everything",
    "sessions.lengths": "a watched database: how long each session is",
    "branches.path": JOINED,
    "entries.leads_to": JOINED,
    "artifacts.get_many": JOINED,
    "artifacts.newest": JOINED,
    "artifacts.page": JOINED,
    "artifacts.versions": JOINED,
    "blobs.delete_stale": "only rebuild runs it",
    "blobs.delete_unused": "the versions of any scope may share a blob",
    "entries.get_many": JOINED,
    "entry_history.versions": JOINED,
    "jobs.extract_due": JOINED,
    "messages.get_many": JOINED,
    "messages.page": JOINED,
    "messages.hashed": "a deep check reads everything",
    "summaries.hashed": "a deep check reads everything",
    "sessions.branches": JOINED,
    "summaries.leaf_ends": "seeks by the ids of a path: the other partitions are never read",
    "sessions.sharing": "check reads the whole file",
    "sessions.cards": JOINED,
    "sessions.head": JOINED,
    "sessions.parent": JOINED,
    "sessions.roots": JOINED,
    "jobs.queue": "stats count the jobs of all scopes",
    "jobs.list_failed": "stats read the jobs of all scopes that failed",
    "jobs.count_subjects": "a new space makes everything due: how much that is",
    "jobs.count": "the jobs of a space are those of all scopes",
    "jobs.delete_space": "the jobs of a space are those of all scopes",
    "jobs.embed_missing": "a new space, or one that is used again, makes due what it lacks",
    "jobs.embed_items": "a new space makes every text of items due, once",
    "jobs.texts": "only while a space is being filled",
    "jobs.unfinished": "the jobs of a space are those of all scopes",
    "spaces.list_spaces": "the jobs of a space are those of all scopes",
    "summaries.get_many": JOINED,
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return how to connect to a server, which stops after the tests."""
    try:
        with postgres.server() as found:
            yield found
    except postgres.CannotStart as error:
        pytest.skip(f"no PostgreSQL server: {error}")


@pytest.fixture(scope="module")
def connection(address: str) -> Iterator[Any]:
    """Return a connection to the schema as it is."""
    with psycopg.connect(address, autocommit=True) as found:
        found.execute("CREATE DATABASE whole")
    with psycopg.connect(address.replace("/postgres", "/whole"), autocommit=True) as found:
        found.execute(postgres.schema())
        yield found


@pytest.fixture(scope="module")
def partitioned(address: str) -> Iterator[Any]:
    """Return a connection to the schema in partitions, with every statement prepared."""
    with psycopg.connect(address, autocommit=True) as found:
        found.execute("CREATE DATABASE parts")
    with psycopg.connect(address.replace("/postgres", "/parts"), autocommit=True) as found:
        found.execute(postgres.partitioned_schema(PARTITIONS))
        found.execute("SET plan_cache_mode = force_generic_plan")
        for method in ("seqscan", "hashjoin", "mergejoin"):  # good for the empty tables here
            found.execute(f"SET enable_{method} = off")
        yield found


def prepare_all(connection: Any) -> dict[str, str]:
    """Prepare every statement; return the message of each that fails."""
    connection.execute("DEALLOCATE ALL")
    refused = {}
    connection.execute("DEALLOCATE ALL")  # of another test on this connection
    for name, sql in postgres.statements().items():
        body, _ = postgres.to_postgres(sql)
        try:
            connection.execute(f"PREPARE {name.replace('.', '_')} AS {body}", prepare=False)
        except psycopg.Error as error:
            refused[name] = str(error).splitlines()[0]
    return refused


def prepared_types(connection: Any) -> dict[str, tuple[list[str], list[str]]]:
    """Return the types of the values and of the result of each prepared statement."""
    rows = connection.execute(
        "SELECT name, parameter_types::text[], coalesce(result_types::text[], '{}') "
        "FROM pg_prepared_statements WHERE from_sql"
    )
    return {name: (values, result) for name, values, result in rows}


def literal(name: str, kind: str) -> str:
    """Return a value of the type *kind* for the parameter *name*."""
    value = VALUES.get(name, 1)
    if kind == "bytea":
        return "'x'::bytea"
    if kind.endswith("[]"):
        items = value if isinstance(value, list) else [value]
        return f"'{{{','.join(map(str, items))}}}'::{kind}"
    return f"'{value}'::{kind}"


def explain(connection: Any, name: str, options: str = "COSTS OFF") -> list[str]:
    """Return the lines of the plan of a prepared statement."""
    called = name.replace(".", "_")
    _, names = postgres.to_postgres(postgres.statements()[name])
    kinds, _ = prepared_types(connection)[called]
    given = ", ".join(map(literal, names, kinds))
    execute = f"EXECUTE {called}({given})" if given else f"EXECUTE {called}"
    rows = connection.execute(f"EXPLAIN ({options}) {execute}", prepare=False)
    return [row[0] for row in rows]


def partitions_of(lines: list[str]) -> dict[str, set[str]]:
    """Return the partitions that a plan names, by table, without those it never executes."""
    found: dict[str, set[str]] = {}
    for line in lines:
        for table, number in re.findall(r" on (\w+)_p(\d+)", line):
            if "never executed" not in line:
                found.setdefault(table, set()).add(number)
    return found


def test_every_statement_prepares(connection: Any) -> None:
    """PostgreSQL takes each one, with the list, search and scope rules alone."""
    assert prepare_all(connection) == {}
    assert len(prepared_types(connection)) > 150


def test_no_sum_is_numeric(connection: Any) -> None:
    """A sum of 64-bit numbers is numeric there, which is no int in Python."""
    prepare_all(connection)

    assert {
        name: result
        for name, (_, result) in prepared_types(connection).items()
        if "numeric" in result
    } == {}


def test_every_statement_reads_the_partition_of_its_scope(partitioned: Any) -> None:
    """The generic plan names one partition of each table, unless READ_MORE says why."""
    assert prepare_all(partitioned) == {}

    read = {
        name: partitions_of(explain(partitioned, name))
        for name in postgres.statements()
        if not name.startswith(WHOLE_FILE)
    }

    assert {
        name: {table: len(numbers) for table, numbers in tables.items() if len(numbers) > 1}
        for name, tables in read.items()
        if (name in READ_MORE) == all(len(numbers) <= 1 for numbers in tables.values())
    } == {}  # the reason is missing, or not needed


@each("name", sorted(name for name, why in READ_MORE.items() if why == JOINED))
def test_a_join_executes_one_partition(partitioned: Any, name: str) -> None:
    """The partitions of other scopes are in the plan of a join, but not read."""
    prepare_all(partitioned)
    read = partitions_of(explain(partitioned, name, "ANALYZE, COSTS OFF"))

    assert {table for table, numbers in read.items() if len(numbers) > 1} == set()


def test_a_row_cannot_refer_to_another_scope(partitioned: Any) -> None:
    """The CHECK of a partition refuses an entry told in a session of another partition."""
    other = SESSION + (postgres.SCOPES_PER_PARTITION << 44)

    with pytest.raises(psycopg.errors.CheckViolation):
        partitioned.execute(
            "INSERT INTO entries (id, uid, scope_no, category, text, session_id, content_hash, "
            "said_hash, created_ms, updated_ms, stored_ms) VALUES "
            f"({LOW + 1}, 'u', {SCOPE_NO}, 'fact', 't', {other}, %s, %s, 0, 0, 0)",
            (b"h" * 16, b"h" * 16),
        )
