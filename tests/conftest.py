"""
What every test starts from: a real file, a set clock, counted ids, a small embedder.

Only ports are replaced. Every database a test opens through these fixtures is
checked when the test ends; a damaged one is kept and its path printed.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import pytest
from counters import COUNTS, FOLDER
from hypothesis import settings
from over_server import reason_for
from row_digests import keep_digests

import memdb
from memdb.api._container import Ports, Services
from memdb.api._resolve import settings_changes
from memdb.api.database import MemDB
from memdb.engine.sqlite import schema
from memdb.engine.sqlite.cipher import is_encrypted, unlock
from memdb.engine.sqlite.connection import create_private
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.engine.sqlite.wal_file import has_bytes
from memdb.models.keys import key_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

START_MS = 1_700_000_000_000
RAM = Path("/dev/shm")  # of Linux
# What the files of a run need there; a container has 64 MB of it if it was not asked for more.
RAM_BYTES = {"not slow": 4 << 30, "slow": 12 << 30}
SOURCE_ROOT = Path(memdb.__file__).resolve().parent.parent
# As a migration does, which is a commit.
SET_SERVER_FORMAT = """
WITH marked AS (UPDATE memdb_format SET format = {} RETURNING 1)
INSERT INTO changes (kind, number) SELECT 'commit', count(*) FROM marked
ON CONFLICT (kind) DO UPDATE SET number = changes.number + excluded.number
"""
# Tests that run over a file in memory too: the engine takes part in what they are about.
IN_MEMORY = ("deletion/test_forget.py", "engine/", "faults/")
# What cannot be collected without a package; the rest of the suite runs without them.
NEEDS = {
    "llm": ["providers/test_llm*", "providers/test_summaries*"],
    "openai": ["providers/test_openai*", "providers/test_summaries*"],
    "fastembed": ["providers/test_fastembed.py", "providers/test_minilm.py"],
    "starlette": ["web/*"],
    "uvicorn": ["web/*"],
    "onnx": ["providers/test_fastembed.py", "providers/test_minilm.py"],
}


def is_installed(name: str) -> bool:
    """Return whether a package can be imported, without importing it; a folder of tests is none."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # of the package around it
        return False
    folders = [] if spec is None else spec.submodule_search_locations or []
    here = str(Path(__file__).parent)
    mine = [one for one in map(str, folders) if one.startswith(here) and "site-packages" not in one]
    is_folder = bool(folders) and len(mine) == len(folders)
    return spec is not None and not (spec.origin is None and is_folder)


MISSING = [name for name in NEEDS if not is_installed(name)]
collect_ignore_glob = [pattern for name in MISSING for pattern in NEEDS[name]]


def pytest_report_header() -> list[str]:
    """Name the packages whose tests are left out."""
    return [f"left out, not installed: {', '.join(MISSING)}"] if MISSING else []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests run over another engine than that of files."""
    parser.addoption("--engine", choices=["sqlite", "postgres"], default="sqlite")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known where pyproject.toml is not read; let Ctrl-C reach child processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: takes longer than a few seconds; run with -m slow")
    if is_roomy(RAM, RAM_BYTES.get(config.getoption("markexpr"), RAM_BYTES["slow"])):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM))  # where tmp_path is
    os.environ.setdefault("MEMDB_CONFIG", os.devnull)  # not that of whoever runs the tests
    gc.disable()  # until everything is collected
    # The text of each table is compared once per process, not at the end of each test.
    schema.normalized = functools.cache(schema.normalized)


def is_roomy(folder: Path, size: int) -> bool:
    """Return whether files of that many bytes fit into a folder."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > size


def pytest_collection_finish() -> None:
    """Keep modules and tests out of every later garbage collection: 0.3 s each."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what a file in memory could do otherwise in such a file too."""
    module = metafunc.definition.path.relative_to(Path(__file__).parent).as_posix()
    is_given = any(
        "place" in one.args[0] for one in metafunc.definition.iter_markers("parametrize")
    )
    if "place" in metafunc.fixturenames and module.startswith(IN_MEMORY) and not is_given:
        metafunc.parametrize("place", ["memory", "file"], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out unless the command line names a marker."""
    if config.getoption("engine") != "sqlite":  # a server has no databases in memory
        items[:] = [
            item
            for item in items
            if getattr(item, "callspec", None) is None
            or item.callspec.params.get("place") != "memory"
        ]
        for item in items:
            place = item.nodeid.partition("::")[0]
            why = reason_for(place, item.name, getattr(item, "fixturenames", []))
            if why is not None:
                item.add_marker(pytest.mark.skip(reason=why))
    if config.getoption("markexpr"):
        return
    reason = pytest.mark.skip(reason="slow: run with -m slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(reason)


settings.register_profile("short", max_examples=20, deadline=None)
settings.register_profile("thorough", max_examples=500, deadline=None)  # of `make slow`
settings.load_profile("short")


STARTED_NS = time.time_ns()  # process ids come again in a long run


def pytest_runtest_teardown() -> None:
    """Leave the counts of this process where `counters.py` adds them up."""
    folder = os.environ.get(FOLDER)
    if folder and COUNTS:
        Path(folder).mkdir(exist_ok=True)
        place = Path(folder) / f"{STARTED_NS}-{os.getpid()}.json"
        place.write_text(json.dumps(COUNTS), encoding="utf-8")


class Clock:
    """Gives `now_ms`; moves only when told to, or by `step_ms` at each call."""

    def __init__(self) -> None:
        """Stand at `START_MS`."""
        self.now_ms = START_MS
        self.step_ms = 0

    def __call__(self) -> int:
        """Return the time and move on by `step_ms`."""
        now = self.now_ms
        self.now_ms += self.step_ms
        return now

    def advance(self, ms: int) -> None:
        """Let *ms* milliseconds pass."""
        self.now_ms += ms


class Ids:
    """Gives uids that are counted from 1."""

    def __init__(self) -> None:
        """Start before the first."""
        self.given = 0

    def __call__(self, _now_ms: int) -> str:
        """Return the next uid."""
        self.given += 1
        return f"00000000-0000-7000-8000-{self.given:012x}"


class FakeEmbedder:
    """
    Puts each word on one of 16 axes by its hash; no words: no vector.

    `calls` holds the texts it was given. `fail` is raised when it is set.
    """

    def __init__(self, name: str = "fake", dim: int = 16) -> None:
        """Be a model of this name and dimension."""
        self.name = name
        self.dim = dim
        self.calls: list[str] = []
        self.fail: Exception | None = None
        self.before: Callable[[], object] = lambda: None

    def embed(self, texts: Sequence[str]) -> list[list[float] | None]:
        """Return a vector per text."""
        self.before()
        if self.fail is not None:
            raise self.fail
        self.calls += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float] | None:
        words = text.lower().split()
        if not words:
            return None
        vector = [0.0] * self.dim
        for word in words:
            first, second = hash_of(word)
            vector[first % self.dim] += 1.0
            vector[second % self.dim] += 0.5
        return vector


@functools.cache
def template() -> apsw.Connection:
    """Return a new, empty memdb file in memory."""
    engine = SqliteEngine(":memory:", clock=Clock(), ids=Ids())
    copied = copy_of(engine)
    engine.close()
    return copied


def copy_of(engine: SqliteEngine) -> apsw.Connection:
    """Return a copy, in memory, of what a file holds."""
    connection = apsw.Connection(":memory:")
    with engine.read() as tx:
        copy(tx.raw, connection)
    keep_digests(connection)
    return connection


def copy(source: apsw.Connection, target: apsw.Connection) -> None:
    """Put what a file holds in place of what another one holds."""
    with target.backup("main", source, "main") as backup:
        backup.step(-1)


# Tests over encrypted files: `make encrypted`.
KEY = key_value(None)


class CopiedEngine(SqliteEngine):
    """An engine whose new files are copies of one: 8 ms less than by running schema.sql."""

    def write(self, **options: Any) -> Any:
        """Put the copy in place of what `prepare` is about to create."""
        if self.pool.is_new and not has_bytes(self.path):
            self._copy_template()
        return super().write(**options)

    def _copy_template(self) -> None:
        clock, now_ms = self.clock, self.clock()

        def repeat() -> int:
            self.clock = clock
            return now_ms

        self.clock = repeat  # that transaction has the same time
        template().execute(
            "UPDATE meta SET value = CASE key WHEN 'file_uid' THEN ? WHEN 'created_ms' THEN ? "
            "WHEN 'in_use' THEN '0' ELSE value END",
            (self.ids(now_ms), str(now_ms)),
        )
        if self.pool.is_memory:
            copy(template(), self.pool.take_writer().raw)
        else:
            create_private(self.path)
            Path(self.path).write_bytes(template().serialize("main"))


@functools.lru_cache(maxsize=10_000)
def hash_of(word: str) -> tuple[int, int]:
    """Return two numbers that stand for a word, 0 to 255."""
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return digest[0], digest[1]


def assert_sound(opened: MemDB) -> None:
    """Fail, keeping the file and naming it, unless `check` finds nothing."""
    found = opened.file.check(deep=True)
    if found:
        pytest.fail(f"check of {opened.path} found {found}")


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def ids() -> Ids:
    """Return a source of counted uids."""
    return Ids()


@pytest.fixture
def embedder() -> FakeEmbedder:
    """Return the small embedder of the `db` fixtures."""
    return FakeEmbedder()


@pytest.fixture
def make_embedder() -> type[FakeEmbedder]:
    """Return the class of the small embedder, for tests that need two."""
    return FakeEmbedder


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where a new file can be made."""
    return str(tmp_path / "agent.db")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that unprivileged processes can read; each pytest closes that of tmp_path."""
    with tempfile.TemporaryDirectory(prefix="memdb-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator[Any]:
    """Return the databases of a server that runs until the end of this process's tests."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    from tests.postgres_server import CannotStart, Databases, server

    try:
        with server() as address:
            yield Databases(address)
    except CannotStart as error:
        pytest.skip(f"no PostgreSQL server: {error}")


class Kept:
    """What a closed database holds, to be put in other places."""

    def __init__(self, path: Path, databases: Any) -> None:
        """Take the database of *path*, which a server has under another name if there is one."""
        self._databases = databases
        self._content = path.read_bytes() if databases is None else databases.keep(path)

    def put(self, path: Path, *, lasting: bool = False) -> str:
        """Put a copy at *path*; return what opens it, beyond the test if it is *lasting*."""
        if self._databases is None:
            path.write_bytes(self._content)
            return str(path)
        return self._databases.put_copy(self._content, path, lasting=lasting)

    @property
    def content(self) -> Any:
        """Its bytes; over a server the name of the database."""
        return self._content

    def rows_of(self, path: Path) -> dict[str, tuple[list[str], list[Any]]] | None:
        """Return columns and rows of each table at *path*; None if it is a file."""
        return None if self._databases is None else self._databases.tables_of(path)


@pytest.fixture(scope="session")
def make_kept(request: pytest.FixtureRequest) -> Callable[..., Kept]:
    """Return a function that fills a database at a path by another function, and takes it."""
    is_file = request.config.getoption("engine") == "sqlite"
    databases = None if is_file else request.getfixturevalue("postgres_databases")

    def make(path: Path, fill: Callable[[str], object]) -> Kept:
        fill(str(path) if databases is None else databases.address_of(path))
        return Kept(path, databases)

    return make


@pytest.fixture
def databases(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return what gives each path a database of this test's; None over files."""
    if request.config.getoption("engine") == "sqlite":
        yield None
        return
    found = request.getfixturevalue("postgres_databases")
    yield found
    found.empty_all()


@pytest.fixture(autouse=True)
def over_engine(databases: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `memdb.open` of a path open its database, with `--engine postgres`."""
    if databases is not None:
        from memdb.api import _resolve, database

        real = _resolve.open_engine

        def opened(path: str, **options: Any) -> Any:
            return real(databases.address_of(path), **options)

        monkeypatch.setattr(_resolve, "open_engine", opened)
        monkeypatch.setattr(database, "open_engine", opened)


@pytest.fixture
def address_of(databases: Any) -> Callable[[str], str]:
    """Return a function that gives what names the database of a path to a command or a process."""
    return str if databases is None else databases.address_of


@pytest.fixture
def copied_engine() -> type[CopiedEngine]:
    """Return the class of the engines that make new files quickly."""
    return CopiedEngine


@pytest.fixture
def make_database(clock: Clock, ids: Ids, databases: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a path as the fixtures do; all are closed at the end."""
    opened: list[Any] = []

    def make(path: str, **options: Any) -> Any:
        options = {"clock": clock, "ids": ids, "durability": "process", **options}
        if databases is None and KEY is not None and path != ":memory:":
            opened.append(SqliteEngine(path, key=KEY, **options))
        elif databases is None:
            opened.append(CopiedEngine(path, **options))
        else:
            from memdb.postgres.engine import PostgresEngine

            ids(0)  # the uid of a new file
            opened.append(PostgresEngine(databases.address_of(path), **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def open_db(
    make_database: Callable[..., SqliteEngine], embedder: FakeEmbedder
) -> Callable[..., MemDB]:
    """Return a function that opens a path with the small embedder; see `make_database`."""

    def make(
        path: str,
        *,
        embedder: Any = embedder,
        previous: Any = None,
        counter: Any = "estimate",
        model: Any = None,
        summarizer: Any = None,
        arbiter: Any = None,
        secret_detector: Any = None,
        render_messages: Any = None,
        edit_candidates: Any = None,
        on_event: Any = None,
        reranker: Any = None,
        settings: Any = None,
        **options: Any,
    ) -> MemDB:
        changes = None if settings is None else settings_changes(settings)
        ports = Ports(
            embedder,
            previous,
            counter,
            model,
            summarizer,
            arbiter,
            secret_detector,
            render_messages,
            edit_candidates,
            on_event,
            reranker,
        )
        database = make_database(path, **options)
        return MemDB(database, Services(database, ports, changes))

    return make


def _checked(opened: MemDB, reopen: Callable[..., MemDB]) -> Iterator[MemDB]:
    yield opened
    try:
        assert_sound(opened)
    except memdb.Closed:
        if opened.path != ":memory:":
            assert_sound(reopen(opened.path))


@pytest.fixture
def place(request: pytest.FixtureRequest, path: str) -> str:
    """Return the path of a file; for tests of `IN_MEMORY` once that and once `:memory:`."""
    return ":memory:" if getattr(request, "param", "file") == "memory" else path


@pytest.fixture
def database(place: str, make_database: Callable[..., SqliteEngine]) -> SqliteEngine:
    """Return the open file under `db`, for tests of services and transactions."""
    return make_database(place)


@pytest.fixture
def db(
    database: SqliteEngine, embedder: FakeEmbedder, open_db: Callable[..., MemDB]
) -> Iterator[MemDB]:
    """Return a MemDB at `place`; checked at the end."""
    yield from _checked(
        MemDB(database, Services(database, Ports(embedder, counter="estimate"), None)), open_db
    )


@pytest.fixture
def file_db(path: str, open_db: Callable[..., MemDB]) -> Iterator[MemDB]:
    """Return a MemDB in a file; checked at the end."""
    yield from _checked(open_db(path), open_db)


class Filled(NamedTuple):
    """What a function put into an empty file, and what it used of the fixtures."""

    content: apsw.Connection
    ids: int
    now_ms: int
    embedded: tuple[str, ...]


FILLED: dict[str, Filled] = {}


@pytest.fixture
def fill(clock: Clock, ids: Ids, embedder: FakeEmbedder, databases: Any) -> Callable[..., None]:
    """
    Return a function that gives an empty file its contents, which another function makes.

    That one is called once per process; later files get a copy of what it made.
    """

    def put(db: MemDB, make: Callable[[MemDB], object]) -> None:
        if databases is not None or KEY is not None:
            make(db)
            return
        key = f"{make.__module__}.{make.__qualname__}"
        if key not in FILLED:
            make(db)
            FILLED[key] = Filled(copy_of(db._db), ids.given, clock.now_ms, tuple(embedder.calls))
            return
        found = FILLED[key]
        writer = db._db.pool.take_writer()
        copy(found.content, writer.raw)
        db._db.pool.give_back_writer(writer)
        ids.given, clock.now_ms = found.ids, found.now_ms
        embedder.calls += found.embedded

    return put


@pytest.fixture
def raw() -> Iterator[Callable[[str], apsw.Connection]]:
    """
    Return a function that opens a file without any policy, to look at it or change it.

    What it writes gets the right digests.
    """
    opened: list[apsw.Connection] = []

    def connect(path: str) -> apsw.Connection:
        opened.append(apsw.Connection(path))
        if KEY is not None and is_encrypted(path):
            unlock(opened[-1], KEY)
        keep_digests(opened[-1])
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def rows_of(table: str) -> str:
    """Return the query of all rows of a table, but the one that says who has the file open."""
    return f'SELECT * FROM "{table}"' + " WHERE key <> 'in_use'" * (table == "meta")


@pytest.fixture
def dump(request: pytest.FixtureRequest, databases: Any) -> Callable[[str], list[Any]]:
    """Return a function that reads every row of every ordinary table of a database."""
    if databases is not None:
        return databases.rows_of
    raw = request.getfixturevalue("raw")

    def read(path: str) -> list[Any]:
        connection = raw(path)
        names = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
            "AND name NOT GLOB '*_fts_*' ORDER BY name"
        ).fetchall()
        rows = [
            (name, sorted(connection.execute(rows_of(name)).fetchall(), key=repr))
            for (name,) in names
        ]
        connection.close()
        return rows

    return read


@pytest.fixture
def rows_now(
    dump: Callable[[str], list[Any]], request: pytest.FixtureRequest, databases: Any
) -> Callable[[str], list[Any]]:
    """Return a function like `dump` for many looks at a file: it reads again after a commit."""
    if databases is not None:
        return dump
    connect = functools.cache(request.getfixturevalue("raw"))
    read = functools.cache(lambda path, _version: dump(path))
    return lambda path: read(path, connect(path).execute("PRAGMA data_version").get)


@pytest.fixture
def run_sql(request: pytest.FixtureRequest, databases: Any) -> Callable[..., list[Any]]:
    """Return a function that runs a statement which both engines take, beside memdb."""
    if databases is not None:
        return databases.run_sql
    raw = request.getfixturevalue("raw")

    def run(path: str, sql: str, *values: object) -> list[Any]:
        connection = raw(path)
        rows = connection.execute(sql, values).fetchall()
        connection.close()
        return rows

    return run


@pytest.fixture
def set_format(run_sql: Callable[..., list[Any]]) -> Callable[[MemDB, int], None]:
    """Return a function that says of an open database that its tables have a format."""

    def put(db: MemDB, number: int) -> None:
        is_file = isinstance(db._db, SqliteEngine)
        sql = "PRAGMA user_version = {}" if is_file else SET_SERVER_FORMAT
        run_sql(db.path, sql.format(number))

    return put


@pytest.fixture
def lose_vectors() -> Callable[[MemDB], None]:
    """Return a function that removes every vector of a database, with none due."""

    def lose(db: MemDB) -> None:
        with db._db.write() as tx:
            for kind in ("message", "entry", "summary", "item"):
                tx.vectors.drop(kind, 0, 1 << 62)

    return lose


@pytest.fixture
def stored_bytes(databases: Any) -> Callable[[str], bytes]:
    """Return a function that reads all bytes that a closed database keeps, in whatever order."""

    def read(path: str) -> bytes:
        if databases is not None:
            return databases.bytes_of(path)
        return b"".join(
            Path(path + end).read_bytes() for end in ("", "-wal") if has_bytes(path + end)
        )

    return read


@pytest.fixture
def start_child(databases: Any) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """
    Return a function that starts a Python program in a process of its own.

    With `--engine postgres` it is given the address of a database for each path of one.
    """
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *args: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT)}
        given = [str(arg) for arg in args]
        if databases is not None:
            given = [databases.address_of(arg) if arg.endswith(".db") else arg for arg in given]
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", program, *given],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )
        return started[-1]

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


@pytest.fixture
def run_child(start_child: Callable[..., subprocess.Popen[str]]) -> Callable[..., str]:
    """Return a function that runs a Python program to its end and gives what it printed."""

    def run(program: str, *args: object) -> str:
        child = start_child(program, *args)
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        return out

    return run
