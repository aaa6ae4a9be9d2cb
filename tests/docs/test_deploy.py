"""The files of docs/deploy/ are YAML of the right shape, and their commands are memdb's."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

import memdb
from memdb.cli import cli
from tests.postgres_server import CannotStart, server

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
# Fields that a kind needs, by apiVersion and kind.
NEEDED = {
    ("apps/v1", "Deployment"): {"replicas", "selector", "template"},
    ("v1", "Service"): {"selector", "ports"},
    ("policy/v1", "PodDisruptionBudget"): {"minAvailable", "selector"},
}


def compose(name="compose.yml"):
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def manifests():
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text(encoding="utf-8")))


def containers():
    return [
        one
        for manifest in manifests()
        if manifest["kind"] == "Deployment"
        for one in manifest["spec"]["template"]["spec"]["containers"]
    ]


def commands():
    """Yield the arguments of every memdb that is started, or is to be typed."""
    for name in ("compose.yml", "folder.yml"):
        for service in compose(name)["services"].values():
            if "command" in service and "build" in service:
                yield service["command"]
    for container in containers():
        yield container["args"]
    for path in DEPLOY.glob("*.yml"):
        for line in re.findall(r"#\s+(memdb [^&\n]+)", path.read_text(encoding="utf-8")):
            yield shlex.split(line)[1:]


def test_there_are_commands():
    """The next test would pass on nothing."""
    assert len(list(commands())) >= 5


@pytest.mark.parametrize("arguments", list(commands()), ids=" ".join)
def test_every_command_is_one_of_memdb(arguments, monkeypatch):
    """Its options are those of the command line; the address comes from the environment."""
    monkeypatch.setenv("MEMDB_URL", "postgresql://u@h/d")
    monkeypatch.delenv("MEMDB_FILE", raising=False)
    context = click.Context(cli, info_name="memdb")
    words, command = list(arguments), cli
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
    command.make_context(command.name, words, parent=context).close()


def test_litestream_copies_the_folder_that_is_served():
    """Both see it at one place, and every file in it is meant."""
    [database] = compose("litestream.yml")["dbs"]
    services = compose("folder.yml")["services"]

    assert database["dir"] == services["api"]["environment"]["MEMDB_FILE"]
    assert (database["pattern"], database["recursive"], database["watch"]) == ("*.db", True, True)
    for one in services.values():
        assert f"./memories:{database['dir']}" in one["volumes"]


def test_what_compose_names_is_there():
    """Services, secrets and volumes; no password stands in it."""
    found = compose()
    for service in found["services"].values():
        assert set(service.get("depends_on", ())) <= set(found["services"])
        assert set(service.get("secrets", ())) <= set(found["secrets"])
        assert ("image" in service) != ("build" in service)
        assert "MEMDB_URL" not in str(service.get("environment", ""))
    assert (DEPLOY / "Dockerfile").exists()
    assert all(port.startswith("127.0.0.1:") for port in found["services"]["api"]["ports"])


def test_every_manifest_is_whole():
    """Kinds, labels that select their pods, and ports that are there."""
    labels = []
    for manifest in manifests():
        kind = manifest["apiVersion"], manifest["kind"]
        assert manifest["spec"].keys() == NEEDED[kind]
        assert manifest["metadata"]["name"]
        if kind[1] == "Deployment":
            template = manifest["spec"]["template"]
            labels.append(template["metadata"]["labels"])
            assert manifest["spec"]["selector"]["matchLabels"] == labels[-1]
    for manifest in manifests():
        selector = manifest["spec"]["selector"]
        assert selector.get("matchLabels", selector) in labels


def test_no_pod_may_more_than_it_needs():
    """No root, no writable root, no account; the address only from the secret."""
    assert len(containers()) == 2
    for container in containers():
        policy = container["securityContext"]
        assert policy["readOnlyRootFilesystem"] is True
        assert policy["allowPrivilegeEscalation"] is False
        assert policy["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        variables = {one["name"]: one for one in container["env"]}
        assert "secretKeyRef" in variables["MEMDB_URL"]["valueFrom"]
        mounts = {one["mountPath"] for one in container["volumeMounts"]}
        assert variables["PGSSLROOTCERT"]["value"].rsplit("/", 1)[0] in mounts
    api = next(one for one in containers() if one["name"] == "api")
    ports = {one["name"] for one in api["ports"]}
    for probe in ("readinessProbe", "livenessProbe"):
        assert api[probe]["httpGet"]["path"] in ("/ready", "/health")
        assert api[probe]["httpGet"]["port"] in ports


def test_the_database_of_compose_has_plain_roles(tmp_path):
    """Its script makes them; memdb works as the one, and a query runs as the other."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    [mounted] = [one for one in compose()["services"]["database"]["volumes"] if "initdb.d" in one]
    script = DEPLOY / mounted.split(":")[0]
    (tmp_path / "password").write_text("a'b c\n")
    try:
        with server() as address:
            with psycopg.connect(address, autocommit=True) as admin:
                admin.execute("CREATE ROLE postgres SUPERUSER LOGIN")
            place = psycopg.conninfo.conninfo_to_dict(address)
            with psycopg.connect(**{**place, "user": "postgres"}, autocommit=True) as admin:
                admin.execute("ALTER ROLE memdb RENAME TO first")
                subprocess.run(
                    [script],
                    env={
                        **os.environ,
                        "PGHOST": place["host"],
                        "PGPORT": place["port"],
                        "PGUSER": "postgres",
                        "PASSWORD_FILE": str(tmp_path / "password"),
                    },
                    check=True,
                )
                ((is_super, may_create),) = admin.execute(
                    "SELECT rolsuper, rolcreaterole OR rolcreatedb FROM pg_roles"
                    " WHERE rolname = 'memdb'"
                )
            with memdb.open(
                f"postgresql://memdb@{place['host']}:{place['port']}/memdb", embedder=None
            ) as db:
                db.scope("ann").session("trip").append("user", "hello")
                done = [
                    db.query("SELECT current_user").rows[0][0],
                    db.query("SELECT text FROM messages_view").rows[0][0],
                    db.scope("ann").recall("hello")[0].text,
                    db.scope("ann").forget(everything=True).removed["messages"],
                    db.file.check(deep=True),
                ]
    except CannotStart as error:
        pytest.skip(str(error))

    assert (is_super, may_create) == (False, False)
    assert done == ["memdb_reader", "hello", "hello", 1, []]
