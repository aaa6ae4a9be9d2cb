"""One record that cannot be read or stored never stops the others, whatever is wrong with it."""

from __future__ import annotations

import copy
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from import_samples import SAMPLES

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memdb import ImportReport, MemDB

WORDS = ("anorak", "beaker", "canoe")
POISONS: dict[str, Any] = {
    "NUL": lambda text: f"{text}\0",
    "surrogate": lambda text: f"{text}\ud800",
    "empty": lambda _: "",
    "long": lambda text: text + "x" * 2000,
    "number": lambda _: 5,
    "null": lambda _: None,
    "list": lambda _: [["x"]],
    "object": lambda _: {"x": 1},
}
KEY = "AKIAIOSFODNN7EXAMPLE"
CHANGES = {**POISONS, "secret": lambda text: f"{text} {KEY}"}
QUICK = ("NUL", "object")  # the others are tried by `make slow`
NO_JSON = {"csv": (), "markdown": ("number", "null", "list", "object"),
           "llm": ("list", "object"), "langgraph": ("list", "object")}  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where in a value texts, lists and objects stand."""
    if at and isinstance(value, (str, list, dict)):
        yield at
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*at, key))


def poisoned(record: Any, at: tuple[Any, ...], poison: str) -> Any:
    """Return a record with something else at a place."""
    changed = copy.deepcopy(record)
    inside = changed
    for key in at[:-1]:
        inside = inside[key]
    before = inside[at[-1]]
    inside[at[-1]] = CHANGES[poison](before if isinstance(before, str) else "")
    return changed


def value_at(record: Any, at: tuple[Any, ...]) -> Any:
    """Return what stands at a place."""
    for key in at:
        record = record[key]
    return record


def all_texts(db: MemDB, user: str | None = "ann") -> str:
    """Return all that a file holds of a user, as one text."""
    return "\n".join(db.export_lines(user=user, embeddings=False))


def imported(db: MemDB, path: Path, user: str) -> tuple[ImportReport, ImportReport, str]:
    """Return the report of a dry run, that of an import, and what is stored then."""
    trial = db.import_file(path, user=user, dry_run=True)
    report = db.import_file(path, user=user)
    return trial, report, all_texts(db, user)


@pytest.fixture(scope="module")
def memory() -> Iterator[MemDB]:
    """Return a file for all records; each has a user of its own."""
    with memdb.open(":memory:", embedder=None) as db:
        yield db
        assert db.file.check() == []


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_imported_once(name: str, tmp_path: Path) -> None:
    """All of its records, and a second time nothing."""
    make, write = SAMPLES[name]
    path = write(tmp_path, [make(word) for word in WORDS])
    with memdb.open(":memory:", embedder=None) as db:
        report = db.import_file(path, user="ann")
        again = db.import_file(path, user="ann").to_dict()

        assert report.format == name
        assert all(word in all_texts(db) for word in WORDS)
        assert [field for field, count in again.items() if field.endswith("_added") and count] == []


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(
    "poison",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in POISONS],
)
def test_a_poisoned_record_is_left_out_alone(
    name: str, poison: str, memory: MemDB, tmp_path: Path
) -> None:
    """The others are stored, the report names its place, and a dry run says the same."""
    if poison in NO_JSON.get(name, ()):
        pytest.skip("such a file cannot hold it")
    make, write = SAMPLES[name]
    before, bad, after = (make(word) for word in WORDS)
    for number, at in enumerate(places(bad)):
        folder = tmp_path / str(number)
        folder.mkdir()
        record = poisoned(bad, at, poison)
        path = write(folder, [before, record, after])
        trial, report, stored = imported(memory, path, f"{name} {poison} {number}")

        assert report.format == name
        assert WORDS[0] in stored, (at, report)
        assert WORDS[2] in stored, (at, report)
        assert trial.left_out == report.left_out, at
        assert WORDS[1] in stored or report.left_out, (at, report)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_record_with_a_secret_is_left_out_alone(name: str, tmp_path: Path) -> None:
    """So that the settings refuse it, wherever it stands; a dry run names the same one."""
    make, write = SAMPLES[name]
    before, bad, after = (make(word) for word in WORDS)
    refuse = {"secrets_in_messages": "refuse", "secrets_in_entries": "refuse"}
    with memdb.open(":memory:", embedder=None, settings=refuse) as db:
        for number, at in enumerate(places(bad)):
            if not isinstance(value_at(bad, at), str):
                continue
            folder = tmp_path / str(number)
            folder.mkdir()
            changed = poisoned(bad, at, "secret")
            path = write(folder, [before, changed, after])
            trial, report, stored = imported(db, path, f"{name} {number}")

            assert report.format == name
            assert WORDS[0] in stored, (at, report)
            assert WORDS[2] in stored, (at, report)
            assert KEY not in stored, (at, report)
            assert trial.left_out == report.left_out, at
            assert WORDS[1] in stored or report.left_out, (at, report)
        assert db.file.check() == []


# What an export holds: each with a secret in a field that the settings screen.
HOLDS: dict[str, Callable[[Any], object]] = {
    "title": lambda ann: ann.session("safe").update(title=KEY),
    "session": lambda ann: ann.session(KEY).append("user", "beaker"),
    "message": lambda ann: ann.session("safe").append("user", KEY),
    "branch": lambda ann: ann.session("safe").branch(KEY),
    "messages of a branch": lambda ann: ann.session("safe").branch(KEY).append("user", "x"),
    "entry": lambda ann: ann.remember(KEY),
    "artifact": lambda ann: ann.session("safe").artifacts.save("a.txt", KEY),
    "large artifact": lambda ann: ann.artifacts.save("b.txt", "x " * 1000 + KEY),
    "item": lambda ann: ann.items.put(("a",), "k", KEY),
    "state": lambda ann: ann.state.__setitem__("k", KEY),
}


@pytest.mark.parametrize("name", HOLDS)
def test_a_secret_in_an_export_is_left_out_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines behind it come in, also of the same session; a dry run names the same ones."""
    monkeypatch.setattr("memdb.transfer.artifacts.PART_BYTES", 1000)
    path = tmp_path / "all.jsonl"
    with memdb.open(":memory:", embedder=None, settings={"secrets_in_entries": "allow"}) as other:
        ann = other.scope("ann")
        ann.session("safe").append("user", "anorak")
        HOLDS[name](ann)
        ann.session("safe").append("assistant", "beaker")
        other.scope("zoe").remember("Zoe has a canoe.")
        other.export(path)
    with memdb.open(
        tmp_path / "a.db",
        embedder=None,
        settings={"secrets_in_messages": "refuse", "secrets_in_entries": "refuse"},
    ) as into:
        trial = into.import_file(path, dry_run=True)
        report = into.import_file(path)
        again = into.import_file(path)
        stored = all_texts(into, None)

        assert all(word in stored for word in WORDS), report
        assert KEY not in stored
        assert report.left_out
        assert trial.left_out == report.left_out == again.left_out
        assert (again.messages_added, again.entries_added, again.artifacts_added) == (0, 0, 0)
        assert into.file.check() == []


def test_a_secret_in_the_graph_of_the_mcp_server(db: MemDB, tmp_path: Path) -> None:
    """A line that is left out is not in the graph either."""
    make, write = SAMPLES["mcp-memory"]
    records = [make(word) for word in WORDS]
    records[1]["observations"] = [f"the key is {KEY}"]
    report = db.import_file(write(tmp_path, records), user="ann")

    assert [one.what for one in report.left_out] == ["line 2"]
    assert KEY not in all_texts(db)


def test_nothing_but_secrets(db: MemDB, tmp_path: Path) -> None:
    """The error is that of the secret; it names the record once and says that nothing is stored."""
    make, write = SAMPLES["mem0"]
    record = {**make("anorak"), "memory": KEY}
    with pytest.raises(memdb.SecretFound) as raised:
        db.import_file(write(tmp_path, [record]), user="ann")

    assert str(raised.value).startswith("memory 1: text holds a secret")
    assert "Nothing is stored" in str(raised.value)


def test_a_shard_that_is_cut_off(db: MemDB, tmp_path: Path) -> None:
    """What is before the cut and the other shards are stored; zip, shard and place are named."""
    make, _ = SAMPLES["chatgpt"]
    texts = [json.dumps([make(word), make(f"{word}2")]) for word in WORDS]
    texts[1] = texts[1][:-50]
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for number, text in enumerate(texts):
            archive.writestr(f"conversations-00{number}.json", text)
    report = db.import_file(tmp_path / "export.zip", user="ann")

    (left,) = [one for one in report.left_out if "conversations-001" in one.what]
    assert report.sessions == 5
    assert left.what == "conversations-001.json, conversation 2 and what follows it"
    assert "export.zip/conversations-001.json: element 2 is not JSON" in left.why


def test_a_file_alone_that_is_cut_off(db: MemDB, tmp_path: Path) -> None:
    """The error names file and record, and what is stored by then."""
    make, _ = SAMPLES["claude"]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([make(word) for word in WORDS])[:-50])

    with pytest.raises(memdb.InvalidInput) as raised:
        db.import_file(path, user="ann")
    assert str(raised.value).startswith("conversations.json: element 3 is not JSON")
    assert "The records before it are stored" in str(raised.value)
    assert len(db.scope("ann").sessions()) == 2


def test_an_id_twice_in_a_file(db: MemDB, tmp_path: Path) -> None:
    """Only the conversation that has it a second time, with other words, is left out."""
    make, write = SAMPLES["chatgpt"]
    first, second, third = (make(word) for word in WORDS)
    second = json.loads(json.dumps(second).replace("beaker-a", "anorak-a"))
    second["id"] = first["id"]
    path = write(tmp_path, [first, second, third])
    trial = db.import_file(path, user="ann", dry_run=True)
    report = db.import_file(path, user="ann")

    assert [one.what for one in report.left_out if one.what[-1].isdigit()] == ["conversation 2"]
    assert (trial.left_out, trial.sessions, report.sessions) == (report.left_out, 2, 2)
    assert "belongs to a different message" in report.left_out[-1].why


def test_many_faults_are_counted(db: MemDB, tmp_path: Path) -> None:
    """A report does not grow with a file: after a hundred reasons it counts."""
    rows = "".join(f"x{number},no time\n" for number in range(250))
    (tmp_path / "a.csv").write_text(f"text,time\ngood,\n{rows}")
    report = db.import_file(tmp_path / "a.csv", user="ann")

    assert report.messages_added == 1
    assert len(report.left_out) == 101
    assert report.left_out[-1].count == 150


JSON_FORMATS = sorted({*SAMPLES} - {"csv", "markdown", "llm", "langgraph", "locomo"})


@each("number", [0, 1, 2])
@each("bad", [5, "x", None, [], {}, [[]]])
@each("name", JSON_FORMATS)
def test_a_record_that_is_none(
    name: str, bad: Any, number: int, memory: MemDB, tmp_path: Path
) -> None:
    """Another value in the place of a record is left out, also of the first one."""
    make, write = SAMPLES[name]
    records = [make(word) for word in WORDS[:2]]
    records.insert(number, bad)
    user = f"{name} {bad} {number}"
    report = memory.import_file(write(tmp_path, records), user=user)

    assert report.format == name
    assert all(word in all_texts(memory, user) for word in WORDS[:2])
    assert report.left_out
