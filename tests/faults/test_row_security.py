"""
The policies of docs/deploy/row-security.sql: a statement without its scope finds and changes nothing of others.

Nobody but a superuser made the tables of other tests, so this one makes its own as a plain role.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from isolated import READ_CALLS
from tenants import open_as
from writes import prepare

import memdb
from memdb.models.ids import system_clock, uuid7
from memdb.postgres import dialect, policies, schema
from memdb.postgres.bindings import Bindings
from memdb.postgres.connection import Tx
from memdb.postgres.engine import PostgresEngine
from memdb.records.scopes import BoundScopeRef, ScopeRef
from memdb.tables import entries, items, messages, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

SCRIPT = Path(memdb.__file__).parents[1] / "docs" / "deploy" / "row-security.sql"
NAMED = re.compile(r"(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)")

# Tables whose rows are in no scope, or name it otherwise.
WITHOUT = {
    *("meta", "changes", "settings", "embedding_spaces", "memdb_format"),  # of the whole database
    *("commits", "change_counts", "watchers"),  # of connections
    *("blobs", "blob_chunks"),  # shared by versions of any scope, and found by these alone
    "state",  # by the names of app and user
    "messages_fts_tail",  # of files
}

# Reading calls with the statements of them that see all rows.
AGAIN = "the entries that a recall has found, by id"
NAMES = "which scopes are there"
UNBOUND = {
    ("MemDB.export_lines", "scopes.list"): NAMES,
    ("Scope.export", "scopes.list"): NAMES,
    ("Scope.profile", "entries.get_many"): AGAIN,
    ("Session.profile", "entries.get_many"): AGAIN,
}


@pytest.fixture(scope="module")
def address(postgres_databases: Any) -> Iterator[str]:
    """Return the address of a database under the policies, of a role that owns its tables."""
    with postgres_databases.bare() as found:
        with psycopg.connect(found, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE ROLE walled LOGIN")
            connection.execute("ALTER DATABASE bare OWNER TO walled")
        mine = found.replace("//memdb@", "//walled@")
        PostgresEngine(mine, clock=system_clock, ids=uuid7, partitions=2).close()
        with psycopg.connect(mine) as connection:
            connection.execute(SCRIPT.read_text(encoding="utf-8"))
        with open_as(mine, 1) as db:
            prepare(db, "ann")
            prepare(db, "bob")
            db.shared().remember("The house is old.")
        try:
            yield mine
        finally:
            with psycopg.connect(mine) as connection:
                connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with psycopg.connect(postgres_databases.address_of("/without-role"), autocommit=True) as last:
        last.execute("DROP ROLE walled")
    postgres_databases.empty_all()


@pytest.fixture
def db(address: str) -> Iterator[MemDB]:
    """Return the database, open."""
    with open_as(address, 2) as opened:
        yield opened


def number_of(db: MemDB, user: str) -> int:
    """Return the number of a user's scope."""
    with db._db.read() as tx:
        found = ScopeRef(db._db, "default", user).find(tx)
    assert found is not None
    return found


def test_the_script_is_that_of_the_tables() -> None:
    """Each table whose rows are in a scope has a policy."""
    assert SCRIPT.read_text(encoding="utf-8").endswith(policies.script())
    assert policies.SCOPE_OF.keys() | WITHOUT == schema.read_names()
    assert not policies.SCOPE_OF.keys() & WITHOUT


def test_statements_that_are_about_all_exist() -> None:
    """A name that no statement has would let nothing through."""
    root = Path(memdb.__file__).parent
    texts = "".join(path.read_text(encoding="utf-8") for path in root.rglob("*.py"))

    assert {name for name in policies.WHOLE if f"/* {name} */" not in texts} == set()


@pytest.mark.parametrize("table", sorted(policies.SCOPE_OF))
def test_a_table_without_a_condition(db: MemDB, table: str) -> None:
    """All of it is what the scope has there; work on the whole database sees every row."""
    mine, owner = number_of(db, "ann"), BoundScopeRef(db._db, "default", "ann")
    scope = policies.SCOPE_OF[table]
    counted = f"/* test.count */\nSELECT {scope}, count(*) FROM {table} GROUP BY 1"

    with db._db.read() as tx:
        everybody = dict(tx.all(counted))
    with db._db.read() as tx:
        owner.find(tx)
        seen = dict(tx.all(counted))

    assert {one: number for one, number in everybody.items() if one in (0, mine)} == seen


@pytest.mark.parametrize("table", sorted(policies.SCOPE_OF))
def test_a_change_without_a_condition(db: MemDB, table: str) -> None:
    """It changes no row of another scope, and none goes to another scope."""
    mine, theirs = number_of(db, "ann"), number_of(db, "bob")
    owner, scope = BoundScopeRef(db._db, "default", "ann"), policies.SCOPE_OF[table]
    column = scope.partition(" ")[0]

    with pytest.raises(InterruptedError), db._db.write() as tx:  # nothing of it is to stay
        number = tx.all(f"/* test.count */\nSELECT count(*) FROM {table} WHERE {scope} = {mine}")
        owner.ensure(tx)
        changed = tx.all(
            f"/* test.change */\nUPDATE {table} SET {column} = {column} RETURNING {scope}"
        )
        assert len([one for (one,) in changed if one == mine]) == number[0][0]
        assert theirs not in {one for (one,) in changed}
        raise InterruptedError


def test_a_row_of_another_scope_is_refused(db: MemDB) -> None:
    """The error is memdb's, and the transaction is undone."""
    theirs = number_of(db, "bob")
    owner = BoundScopeRef(db._db, "default", "ann")
    insert = "/* test.insert */\nINSERT INTO tombstones (uid, kind, scope_no, ref, deleted_ms, forgotten) VALUES ('u', 'entry', :scope_no, 'r', 1, 0) RETURNING 1"

    with pytest.raises(memdb.MemDBError, match="scope"), db._db.write() as tx:
        owner.ensure(tx)
        tx.all(insert, {"scope_no": theirs})


# A call, the statement of it that is broken, its condition, and the rows that are counted.
BROKEN: dict[str, tuple[str, str, Callable[[memdb.Scope], object]]] = {
    "read": (
        messages.SELECT_LAST,
        "id >= :low AND id < :before",
        lambda scope: [one.text for one in scope.session("trip").last(500)],
    ),
    "read by key": (
        entries.SELECT_BY_KEY,
        "scope_no = :scope_no\n  AND key = :key",
        lambda scope: scope.entries.find("animal"),
    ),
    "update": (
        sessions.UPDATE_TITLE,
        "id = :id",
        lambda scope: scope.session("trip").host.update(title="changed"),
    ),
    "delete": (
        items.DELETE_ITEMS,
        "id IN (SELECT value FROM json_each(:ids))",
        lambda scope: scope.items.delete(("notes", "trip"), "tent"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_statement(
    address: str, db: MemDB, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing of others is read, changed or removed by a call, though its statement names none."""
    sql, condition, call = BROKEN[name]
    user = f"eve {name}"
    prepare(db, user)
    db.scope("bob").session("trip").append("user", "My quagga has stripes.")
    db.scope("bob").remember("Bob has a quagga.", key="animal")
    before = rows_of_others(address, number_of(db, user))
    assert sql.count(condition) == 1
    wrong = dialect.Statement(sql.replace(condition, without_scope(condition)))
    monkeypatch.setitem(dialect._statements, sql, wrong)

    answered = call(db.scope(user))

    assert "quagga" not in str(answered)
    assert rows_of_others(address, number_of(db, user)) == before
    if name.startswith("read"):  # without the wall it shows
        monkeypatch.setattr(db._db, "binds_scopes", False)
        assert "quagga" in str(call(db.scope(user)))


def without_scope(condition: str) -> str:
    """Return a condition that holds for rows of all scopes, with the same values."""
    by_scope = "scope_no = :scope_no"
    if by_scope in condition:
        return condition.replace(by_scope, f"(true OR {by_scope})")
    return f"(true OR {condition})"


def rows_of_others(address: str, scope_no: int) -> dict[str, list[Any]]:
    """Return the rows of all scopes but one, by table."""
    with psycopg.connect(address) as connection:
        return {
            table: sorted(
                connection.execute(f"SELECT * FROM {table} WHERE {scope} <> {scope_no}").fetchall(),
                key=repr,
            )
            for table, scope in policies.SCOPE_OF.items()
        }


def test_every_read_of_a_handle_says_its_scope(
    db: MemDB, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But those of `UNBOUND`, each with its reason; a new one fails here."""
    monkeypatch.chdir(tmp_path)
    called, ran = [""], set()
    real = Tx._note

    def note(tx: Tx, statement: Any, *given: Any, **more: Any) -> None:
        is_about_rows = set(NAMED.findall(statement.sql)) & policies.SCOPE_OF.keys()
        if is_about_rows and not statement.is_whole and not tx.bindings.known:
            ran.add((called[0], statement.name))
        real(tx, statement, *given, **more)

    db.jobs.run()
    monkeypatch.setattr(Tx, "_note", note)
    for called[0], call in READ_CALLS.items():
        found = call(db)
        if hasattr(found, "__next__"):
            list(found)

    assert ran == UNBOUND.keys()


def test_a_copy_to_such_a_database(address: str, db: MemDB, tmp_path: Path) -> None:
    """It has every row, though COPY takes no table with policies."""
    with open_as(tmp_path / "agent.db", 3) as source:
        prepare(source, "zoe")
        source.file.copy(address, user="zoe")

        lines = [
            [one for one in opened.export_lines(user="zoe") if '"kind":"state"' not in one]
            for opened in (source, db)  # both have a state of their own for all users
        ]
    assert lines[0] == lines[1] != []


def test_calls_in_one_transaction(db: MemDB) -> None:
    """Each is about its own scope, and those of the whole database are about all of it."""
    for user in ("tim", "tom"):
        db.scope(user).session("s").append("user", f"hello {user}")
    with db.transaction():
        for user in ("tim", "tom"):
            db.scope(user).session("s").append("user", f"good day {user}")
            assert [one.text for one in db.scope(user).session("s").last(9)] == [
                f"hello {user}",
                f"good day {user}",
            ]
            with db.transaction():
                db.scope(user).remember(f"A fact of {user}.")
            assert {scope.user for scope in db.scopes()} >= {"ann", "bob", "tim", "tom"}
        db.scope("new user").remember("A scope that was made here.")

    for user in ("tim", "tom"):
        assert len(db.scope(user).session("s").last(9)) == 2
        assert [one.text for one in db.scope(user).entries.list()] == [f"A fact of {user}."]
    assert len([*db.scope("new user").entries.list()]) == 1


COUNT = "/* test.count */\nSELECT id >> 44, count(*) FROM sessions GROUP BY 1"
FAIL = "/* scopes.find */\nSELECT CAST(app AS BIGINT) FROM scopes"


def test_a_statement_that_is_sent_ahead(db: MemDB) -> None:
    """It comes after the scopes of its time, whatever is sent before its answer is read."""
    owner, other = (BoundScopeRef(db._db, "default", user) for user in ("ann", "bob"))
    with db._db.read() as tx:
        mine = owner.find(tx)
        tx.expect(COUNT)
        assert other.find(tx) != mine
        assert {scope_no for scope_no, _ in tx.all(COUNT)} == {mine}


def test_a_failed_part_of_a_transaction(db: MemDB) -> None:
    """The scopes hold for what comes after it, though the server was told others in it."""
    owner = BoundScopeRef(db._db, "default", "ann")
    with db._db.write() as tx:
        mine = owner.ensure(tx)
        assert {scope_no for scope_no, _ in tx.all(COUNT)} == {mine}
        with pytest.raises(memdb.MemDBError), db._db.write():
            tx.all(FAIL)
        assert {scope_no for scope_no, _ in tx.all(COUNT)} == {mine}


def test_a_connection_that_is_lost(address: str, db: MemDB) -> None:
    """The one that is made then is told the same scopes, and the next transaction its own."""
    db.scope("ann").session("trip").last(1)
    owner = BoundScopeRef(db._db, "default", "ann")
    with db._db.write() as tx:
        mine = owner.ensure(tx)
        end_all(address)
        assert {scope_no for scope_no, _ in tx.all(COUNT)} == {mine}
    with db._db.read() as tx:
        assert {scope_no for scope_no, _ in tx.all(COUNT)} > {mine}
        end_all(address)
        assert {scope_no for scope_no, _ in tx.all(COUNT + " ORDER BY 1")} > {mine}


def end_all(address: str) -> None:
    """End every connection of memdb's."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'memdb' AND datname = current_database()"
        )


def test_an_exception_after_the_scopes_were_sent(
    db: MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C raises one: the next work on the connection is about its own scopes."""

    def interrupt(*_: object, **__: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(Bindings, "note_sent", interrupt)
        db.scope("ann").session("trip").last(1)

    assert {scope.user for scope in db.scopes()} >= {"ann", "bob"}


def test_a_query_is_not_under_the_policies(db: MemDB) -> None:
    """It is about the whole database, and what it sets ends with its connection."""
    everybody = db.query("SELECT count(*) FROM sessions").rows
    db.scope("ann").session("trip").last(1)
    assert db.query("SELECT count(*) FROM sessions").rows == everybody

    db.query("SELECT set_config('memdb.scopes', '{0}', false)")

    assert {scope.user for scope in db.scopes()} >= {"ann", "bob"}
