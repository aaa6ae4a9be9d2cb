"""
Three PostgreSQL servers under Patroni with etcd: leaders killed, nodes cut off.

On loopback, or each node in a network namespace of its own (root, Linux), where
a test takes a node's cable out or lets it reach only its clients. Patroni runs
in `.venv-patroni` (`make .venv-patroni/.installed`), because the user `nobody`
must be able to read its Python; etcd is Debian's `etcd-server`.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes import WAIT_S, descendants, kill_all, urls, wait_for

from tests.child_processes import free_port
from tests.postgres_server import CannotStart, _as_user, _programs

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PATRONI = ROOT / ".venv-patroni" / "bin" / "patroni"
TTL_S = 20  # Patroni's least
NODES = 3
START_S = 180.0

# Namespaces, cables and addresses of the tests.
NAME = "memdbt"
NETWORK = "10.213.77"


@dataclass(frozen=True)
class Place:
    """Where a process runs: its address, its ports, what its command begins with."""

    host: str
    port: int
    api_port: int
    namespace: str | None = None

    @property
    def prefix(self) -> list[str]:
        """What a command starts with so that it runs there."""
        return [] if self.namespace is None else ["ip", "netns", "exec", self.namespace]


@dataclass
class Node:
    """One Patroni with its server."""

    name: str
    folder: Path
    place: Place
    prefix: list[str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which starts the server; returns at once."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.place.prefix, *self.prefix, str(PATRONI), str(self.folder / "patroni.yml")],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"},
                stdout=log,
                stderr=log,
            )

    def postmaster(self) -> int | None:
        """Return the process of its server."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
            if (Path("/proc") / str(pid)).exists():
                return pid
        return None

    def kill(self) -> None:
        """Kill Patroni, the postmaster and all its processes with SIGKILL."""
        server = self.postmaster()
        for pid in (self.process.pid if self.process else None, server):
            if pid is not None:
                kill_all(pid)
        if self.process is not None:
            self.process.wait(WAIT_S)

    def pause(self, *, resume: bool = False) -> None:
        """
        Stop or continue all processes of the node.

        Its kernel goes on, so no connection breaks: when it continues, it still takes itself
        for the leader for a moment.
        """
        number = signal.SIGCONT if resume else signal.SIGSTOP
        for pid in (self.process.pid if self.process else None, self.postmaster()):
            for one in [] if pid is None else descendants(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, number)

    def ask(self, path: str) -> tuple[int, Any]:
        """Ask Patroni's API; return the status and the answer; (0, None) if there is none."""
        address = f"http://{self.place.host}:{self.place.api_port}/{path}"
        try:
            with urllib.request.urlopen(address, timeout=2) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, None
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None

    def configure(self, etcd: Place) -> None:
        """Write Patroni's configuration."""
        login = {"username": "memdb", "password": "memdb"}
        host, port = self.place.host, self.place.port
        settings = {
            "scope": "memdb",
            "name": self.name,
            "log": {"level": "INFO"},
            "restapi": {"listen": f"{host}:{self.place.api_port}"}
            | {"connect_address": f"{host}:{self.place.api_port}"},
            "etcd3": {"host": f"{etcd.host}:{etcd.port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S,
                    "loop_wait": 2,
                    "retry_timeout": 3,
                    "maximum_lag_on_failover": 1 << 20,
                    "synchronous_mode": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "use_slots": True,
                        "parameters": {
                            "max_connections": 60,
                            "shared_buffers": "32MB",
                            "unix_socket_directories": "",
                            "wal_log_hints": "on",
                            "wal_keep_size": "256MB",
                        },
                    },
                },
                "initdb": [
                    "no-sync",
                    {"encoding": "UTF8"},
                    {"locale-provider": "builtin"},
                    {"builtin-locale": "C.UTF-8"},
                ],
            },
            "postgresql": {
                "listen": f"{host}:{port}",
                "connect_address": f"{host}:{port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(_programs()),
                "pgpass": str(self.folder / "pgpass"),
                "pg_hba": ["host all all 0.0.0.0/0 trust", "host replication all 0.0.0.0/0 trust"],
                "authentication": {"superuser": login, "replication": login, "rewind": login},
            },
            "watchdog": {"mode": "off"},
        }
        # JSON is YAML.
        (self.folder / "patroni.yml").write_text(json.dumps(settings, indent=1))


@dataclass
class Cluster:
    """The nodes of a cluster, and who leads them."""

    nodes: list[Node]
    network: Network | None = None
    etcd: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The address of all nodes, of which a client takes the one that writes."""
        places = [node.place for node in self.nodes]
        return urls([(one.host, one.port) for one in places], "&connect_timeout=3")

    def leader(self, seconds: float = START_S) -> Node:
        """Return the node that holds the leader's key and takes writes; wait for it."""
        found: Node = wait_for("a leader", self.find_leader, seconds)
        return found

    def find_leader(self) -> Node | None:
        """Return the leader; None if there is none now."""
        return next((node for node in self.nodes if node.ask("primary")[0] == 200), None)

    def leader_other_than(self, before: Node, seconds: float = START_S) -> Node:
        """Return the node that took over from one that may not know it yet; wait for it."""
        others = [node for node in self.nodes if node is not before]

        def find() -> Node | None:
            return next((node for node in others if node.ask("primary")[0] == 200), None)

        found: Node = wait_for("another leader", find, seconds)
        return found

    def wait_until_whole(self, seconds: float = START_S) -> Node:
        """Wait until every node runs and one of them confirms each commit; return the leader."""

        def is_whole() -> Node | None:
            leader = self.find_leader()
            members = (leader.ask("cluster")[1] or {}).get("members", []) if leader else []
            roles = [one["role"] for one in members if one["state"] in ("running", "streaming")]
            is_complete = len(roles) == len(self.nodes) and "sync_standby" in roles
            return leader if is_complete else None

        found: Node = wait_for("a whole cluster", is_whole, seconds)
        return found

    def kill_leader(self) -> Node:
        """Kill the leader, Patroni and server; return it for a later `start`."""
        leader = self.leader()
        leader.kill()
        return leader


@dataclass
class Network:
    """A bridge with one cable per node; needs root and Linux."""

    places: list[Place]
    etcd: Place

    def cut(self, node: Node) -> None:
        """Take a node's cable out: nobody hears of it, no connection is closed."""
        _ip("link", "set", _cable(node.place), "down")

    def isolate(self, node: Node) -> None:
        """Let a node reach its clients but neither etcd nor the other nodes."""
        others = [one.host for one in (*self.places, self.etcd) if one != node.place]
        for host in others:
            for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d")):
                _do(*node.place.prefix, "iptables", "-A", chain, side, host, "-j", "DROP")

    def heal(self, node: Node) -> None:
        """Undo `cut` and `isolate`."""
        _ip("link", "set", _cable(node.place), "up")
        _do(*node.place.prefix, "iptables", "-F")


def _cable(place: Place) -> str:
    return f"{place.namespace}v"


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise CannotStart(f"{' '.join(command)}: {done.stderr.strip()}")


def _ip(*arguments: str) -> None:
    _do("ip", *arguments)


@contextlib.contextmanager
def new_network() -> Iterator[Network]:
    """
    Make a bridge with a namespace for etcd and for each node.

    Raises:
        CannotStart: this machine does not allow it.
    """
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
        raise CannotStart("a partition needs root, ip and iptables")
    names = [f"{NAME}{number}" for number in range(NODES + 1)]
    bridge = f"{NAME}br"
    lock = (Path(tempfile.gettempdir()) / f"{NAME}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # one run at a time has these addresses
    _remove(names, bridge)  # of a run that was killed
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{NETWORK}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, name in enumerate(names, start=1):
            _ip("netns", "add", name)
            _ip("link", "add", f"{name}v", "type", "veth", "peer", "name", f"{name}n")
            _ip("link", "set", f"{name}v", "master", bridge, "up")
            _ip("link", "set", f"{name}n", "netns", name)
            _ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", f"{name}n")
            _ip("-n", name, "link", "set", f"{name}n", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        places = [
            Place(f"{NETWORK}.{n}", 5432, 8008, name) for n, name in enumerate(names, start=1)
        ]
        yield Network(places[1:], Place(places[0].host, 2379, 2380, places[0].namespace))
    finally:
        _remove(names, bridge)
        lock.close()


def _remove(names: list[str], bridge: str) -> None:
    commands = [["link", "del", f"{name}v"] for name in names]
    commands += [["netns", "del", name] for name in names]
    for command in (*commands, ["link", "del", bridge]):
        subprocess.run(["ip", *command], capture_output=True, check=False)


@contextlib.contextmanager
def new_cluster(*, network: Network | None = None) -> Iterator[Cluster]:
    """
    Run etcd and three nodes in new folders; whole when it is given. Cost: 15 s.

    Raises:
        CannotStart: Patroni, etcd or the server's programs are missing.
    """
    etcd_program = shutil.which("etcd")
    if etcd_program is None:
        raise CannotStart("there is no etcd (Debian: etcd-server)")
    if not PATRONI.exists():
        raise CannotStart("there is no Patroni (make .venv-patroni/.installed)")
    loopback = [Place("127.0.0.1", free_port(), free_port()) for _ in range(NODES + 1)]
    etcd = network.etcd if network else loopback[NODES]
    places = network.places if network else loopback[:NODES]
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="memdb-patroni-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        folder.chmod(0o755)
        nodes = [_new_node(folder, f"n{number}", one) for number, one in enumerate(places)]
        _check_reads(nodes[0])
        cluster = Cluster(nodes, network, _start_etcd(etcd_program, folder, etcd))
        stack.callback(_end, cluster)
        for node in nodes:
            node.configure(etcd)
            node.start()
        cluster.wait_until_whole()
        yield cluster


def _new_node(folder: Path, name: str, place: Place) -> Node:
    own = folder / name
    own.mkdir()
    return Node(name, own, place, _as_user(own))


def _check_reads(node: Node) -> None:
    """Raise CannotStart unless the user of the servers can run Patroni."""
    command = [*node.prefix, str(PATRONI), "--version"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotStart(f"the user of the servers cannot run {PATRONI}: {done.stderr[-200:]}")


def _start_etcd(program: str, folder: Path, place: Place) -> subprocess.Popen[bytes]:
    own = folder / "etcd"
    own.mkdir()
    prefix = [*place.prefix, *_as_user(own)]
    client, peer = f"http://{place.host}:{place.port}", f"http://{place.host}:{place.api_port}"
    with (own / "log").open("ab") as log:
        return subprocess.Popen(
            [
                *(*prefix, program, "--name", "e", "--data-dir", str(own / "data")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"e={peer}"),
            ],
            cwd=own,
            stdout=log,
            stderr=log,
        )


def _end(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.pause(resume=True)
        node.kill()
    if cluster.etcd is not None:
        cluster.etcd.kill()
        cluster.etcd.wait(WAIT_S)
