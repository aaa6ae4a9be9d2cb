"""
A PostgreSQL server whose faults a test chooses: killed, paused, read-only, full, replicated.

Unlike `tests.architecture.postgres.server` it syncs what it commits, its data
outlives it, and it is started again on the same port. Its processes run as
`nobody` if the tests run as root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.child_processes import free_port
from tests.postgres_server import CannotStart, _as_user, _programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WAIT_S = 60.0


def wait_for(what: str, is_true: Callable[[], Any], seconds: float = WAIT_S) -> Any:
    """Ask until the answer is true and return it; fail after *seconds*."""
    end = time.monotonic() + seconds
    while True:
        answer = is_true()
        if answer:
            return answer
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)


def descendants(pid: int) -> list[int]:
    """Return a process and those it started, directly or not; it must be Linux."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(after_name[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def signal_all(pid: int, number: signal.Signals) -> list[int]:
    """
    Send a signal to a process and all below it; return them.

    Stopped first, it starts no more.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    found = descendants(pid)
    for one in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)
    return found


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; its parent may not know it yet."""
    try:
        return "\nState:\tZ" in (Path("/proc") / str(pid) / "status").read_text()
    except OSError:
        return True


def kill_all(pid: int) -> None:
    """Kill a process and all below it with SIGKILL, and wait until none is left."""
    killed = signal_all(pid, signal.SIGKILL)
    # One that is in the middle of a sync dies after it, and holds the shared memory until then.
    wait_for("the end of what was killed", lambda: all(map(is_gone, killed)))


@dataclass
class Server:
    """One server with its folder; `start` and `kill` may follow each other at will."""

    folder: Path
    programs: Path
    prefix: list[str]
    port: int
    process: subprocess.Popen[bytes] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    database: str = "postgres"

    @property
    def data(self) -> Path:
        """Where the server keeps its data."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The address that memdb opens."""
        return f"postgresql://memdb@127.0.0.1:{self.port}/{self.database}"

    def with_database(self, name: str, template: str = "template0") -> Server:
        """Return the same server, with a new database as the one that `url` names."""
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return replace(self, database=name)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs to its end."""
        done = subprocess.run(
            [*self.prefix, str(self.programs / program), *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"},
            capture_output=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise CannotStart(f"{program}: {done.stderr.decode()[-300:]}")

    def make(self, *options: str) -> None:
        """Make the data folder; only `memdb` may enter without a password."""
        self.run(
            *("initdb", "-D", str(self.data), "-U", "memdb", "--auth=trust", "--encoding=UTF8"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-sync", *options),
        )

    def start(self, **settings: Any) -> Server:
        """Start and wait until it answers; settings stay for the next start."""
        self.settings.update({name: str(value) for name, value in settings.items()})
        self.begin()
        wait_for("the server", self._has_started)
        return self

    def _has_started(self) -> bool:
        assert self.is_running(), self.read_log()[-2000:]
        return self.is_up()

    def begin(self) -> None:
        """Start without waiting."""
        chosen = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "recovery_init_sync_method": "syncfs",  # not file by file after each kill
            **self.settings,
        }
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, str(self.programs / "postgres"), "-D", str(self.data), *options],
                cwd=self.folder,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "LC_ALL": "C",
                    "LD_PRELOAD": os.environ.get("LD_PRELOAD", ""),  # of a bench: slow syncs
                },
                stdout=log,
                stderr=log,
            )

    def is_up(self) -> bool:
        """Return whether it answers a question."""
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def is_running(self) -> bool:
        """Return whether the postmaster has not ended."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Kill the postmaster and all its processes with SIGKILL, as a crash would."""
        if self.process is not None:
            if self.is_running():
                kill_all(self.process.pid)
            self.process.wait(WAIT_S)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it in order: SIGINT ends sessions, SIGTERM waits for them, SIGQUIT is a crash."""
        if self.process is not None and self.is_running():
            self.process.send_signal(how)
            self.process.wait(WAIT_S)

    def pause(self) -> None:
        """Stop all its processes with SIGSTOP: its connections stand and nothing answers."""
        assert self.process is not None
        signal_all(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        assert self.process is not None
        for one in descendants(self.process.pid):
            os.kill(one, signal.SIGCONT)

    def execute(self, sql: str) -> list[Any]:
        """Run a statement beside memdb and return its rows."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def alter(self, **settings: Any) -> None:
        """Change settings of the running server that need no restart."""
        for name, value in settings.items():
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")
        for name, value in settings.items():
            sql = f"SELECT current_setting('{name}') = '{value}'"
            wait_for(name, lambda sql=sql: self.execute(sql)[0][0])

    def make_replica(self, folder: Path) -> Server:
        """Return a hot standby of this server, which must run; it is started."""
        folder.mkdir()
        replica = Server(folder, self.programs, _as_user(folder), free_port())
        self.run(
            *("pg_basebackup", "-D", str(folder / "data"), "-h", "127.0.0.1", "-U", "memdb"),
            *("-p", str(self.port), "-R", "--checkpoint=fast", "--no-sync"),
        )
        return replica.start()

    def read_log(self) -> str:
        """Return what the server wrote into its log."""
        return (self.folder / "log").read_text(errors="replace")


@contextlib.contextmanager
def new_server(*options: str, folder: Path | None = None) -> Iterator[Server]:
    """
    Make a server that is not started yet; it and its folder are gone afterwards.

    *options* are initdb's. *folder* is an empty one of a disk that the test chose.

    Raises:
        CannotStart: the programs are missing, or do not run here.
    """
    if not sys.platform.startswith("linux"):
        raise CannotStart("the faults of a server need Linux")
    programs = _programs()
    with contextlib.ExitStack() as stack:
        if folder is None:
            made = tempfile.TemporaryDirectory(prefix="memdb-pg-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
        server = Server(folder, programs, _as_user(folder), free_port())
        stack.callback(server.kill)
        server.make(*options)
        yield server


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """
    Mount a file system of *size*, such as "96m", in a new folder that any user reaches.

    Raises:
        CannotStart: mounting is not allowed.
    """
    mount = shutil.which("mount")
    if mount is None:
        raise CannotStart("there is no mount")
    folder = Path(tempfile.mkdtemp(prefix="memdb-disk-"))
    folder.chmod(0o755)
    asked = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotStart(f"mounting a small disk is not allowed: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
        folder.rmdir()


def fill(folder: Path, leave_bytes: int = 0) -> Path:
    """Fill the disk of *folder* but for *leave_bytes*; return the file to remove again."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(shutil.disk_usage(folder).free - leave_bytes, 1))
    return ballast


def urls(servers: Sequence[tuple[str, int]], options: str = "") -> str:
    """Return one address of several hosts, of which a client takes the one that writes."""
    hosts = ",".join(f"{host}:{port}" for host, port in servers)
    return f"postgresql://memdb@{hosts}/postgres?target_session_attrs=read-write{options}"
