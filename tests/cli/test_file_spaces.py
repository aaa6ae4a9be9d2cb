"""`memdb space`, and --embedder where a file is opened."""

import json
from typing import Any

import pytest

import memdb


class Sizes:
    """Embeds a text by its length."""

    name, dim = "sizes", 2

    def embed(self, texts: Any) -> list[list[float]]:
        """Return a vector per text."""
        return [[1.0, float(len(text))] for text in texts]


@pytest.fixture
def changed(path: str) -> str:
    """Return the path of a file whose embedder was changed to another."""
    with memdb.open(path, durability="process") as db:
        db.scope("ann").session("s").extend([{"role": "user", "text": t} for t in ("tea", "milk")])
        db.jobs.run()
    with memdb.open(path, durability="process", embedder=Sizes()) as db:
        db.jobs.run()
    return path


def test_spaces_are_listed(run: Any, changed: str) -> None:
    """Oldest first, as a table and as JSON."""
    table = run("space", "list", changed)
    found = json.loads(run("space", "list", changed, "--json").stdout)

    assert [line.split() for line in table.stdout.splitlines()] == [
        ["static-en-1", "128", "2", "retired", "0"],
        ["sizes", "2", "2", "ready", "0"],
    ]
    assert found[1] == {"model": "sizes", "dim": 2, "vectors": 2, "state": "ready", "due": 0}


def test_a_retired_space_is_not_taken_up_by_a_command(run: Any, changed: str) -> None:
    """The command line leaves a file to the program's model, and says how to name it."""
    result = run("recall", changed, "tea")

    assert "embedded by sizes: recall goes by words alone" in result.stderr
    assert "--embedder or MEMDB_EMBEDDER" in result.stderr
    states = [one["state"] for one in json.loads(run("space", "list", changed, "--json").stdout)]
    assert states == ["retired", "ready"]


def test_info_tells_of_each_space(run: Any, changed: str) -> None:
    """What is retired is marked."""
    lines = run("info", changed).stdout.splitlines()

    assert [line.split(None, 1)[1] for line in lines if line.startswith("space")] == [
        "2 vectors of static-en-1 (128 dimensions), retired",
        "2 vectors of sizes (2 dimensions)",
    ]


def test_a_space_is_dropped(run: Any, changed: str) -> None:
    """First for show, then truly; the other stays."""
    would = run("space", "delete", changed, "static-en-1", "--dry-run")
    done = run("space", "delete", changed, "static-en-1", "--yes", "--json")

    assert would.stdout == "Would delete 2 vectors of static-en-1 (128 dimensions), retired.\n"
    assert json.loads(done.stdout)["spaces"][0]["model"] == "static-en-1"
    models = [one["model"] for one in json.loads(run("space", "list", changed, "--json").stdout)]
    assert models == ["sizes"]


def test_a_space_that_is_absent_is_not_found(run: Any, changed: str) -> None:
    """Exit code 3, and nothing is asked."""
    result = run("space", "delete", changed, "nothing")

    assert result.exit_code == 3
    assert "no space 'nothing'" in result.stderr


def test_an_embedder_by_name_fills_and_answers(run: Any, changed: str) -> None:
    """`work --embedder` and MEMDB_EMBEDDER; a space of its own for each."""
    run("work", changed, "--embedder", "static")
    result = run("recall", changed, "tea", env={"MEMDB_EMBEDDER": "static"})

    assert result.stderr == ""
    states = [one["state"] for one in json.loads(run("space", "list", changed, "--json").stdout)]
    assert states == ["ready", "ready"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("minilm", "has no valid form: use static, use, fastembed:DIR"),
        ("openai:m@http://ann:pw@host/v1", "--embedder contains a user, password or query"),
        ("fastembed:/nowhere", "is neither a folder nor a model of fastembed"),
    ],
)
@pytest.mark.parametrize("command", [("work",), ("recall",), ("import",)], ids=str)
def test_a_bad_embedder_is_refused(
    run: Any, changed: str, tmp_path: Any, command: tuple[str, ...], spec: str, said: str
) -> None:
    """By each command that takes one; no secret is repeated."""
    source = tmp_path / "chat.jsonl"
    source.write_text('{"role": "user", "text": "tea"}\n')
    rest = {"work": (), "recall": ("tea",), "import": (str(source), "--user", "ann")}[command[0]]
    result = run(*command, changed, *rest, "--embedder", spec)

    assert result.exit_code == 5
    assert said in result.stderr
    assert "pw" not in result.stderr


def test_an_import_embeds_with_the_embedder_that_is_named(
    run: Any, path: str, tmp_path: Any
) -> None:
    """The file gets that space and no other."""
    source = tmp_path / "chat.jsonl"
    source.write_text('{"role": "user", "text": "tea"}\n')
    run("import", path, str(source), "--user", "ann", "--session", "s", "--embedder", "static")

    found = json.loads(run("space", "list", path, "--json").stdout)
    assert [(one["model"], one["vectors"]) for one in found] == [("static-en-1", 1)]


@pytest.mark.parametrize(
    ("options", "env"), [(["--embedder", "none"], {}), ([], {"MEMDB_EMBEDDER": "none"})]
)
def test_no_embedder_is_one_that_can_be_named(
    run: Any, path: str, options: list[str], env: dict[str, str]
) -> None:
    """Nothing is embedded, and recall goes by words without a note about it."""
    with memdb.open(path, durability="process", embedder=None) as db:
        db.scope("ann").session("s").append("user", "Green tea, please.")

    found = run("recall", path, "tea", "--json", *options, env=env)
    worked = run("work", path, *options, env=env)

    assert json.loads(found.stdout)["hits"][0]["text"] == "Green tea, please."
    assert (found.stderr, worked.exit_code) == ("", 0)
    with memdb.open(path, embedder=None) as db:
        assert db.file.info().spaces == ()
