"""Paths that callers give: names that SQLite removes are not written, and only files are opened."""

from __future__ import annotations

import inspect
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

import memdb
import memdb.api.collections
import memdb.api.database
from memdb.cli import cli
from memdb.text.validate import SIDE_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

# Every call that makes a file at a path, given an open file and the path.
CALLS: dict[str, Callable[[MemDB, str], object]] = {
    "MemDB.export": lambda db, path: db.export(path, replace=True),
    "MemDB.export(format=)": lambda db, path: db.export(path, format="sqlite", replace=True),
    "MemDB.export(user=)": lambda db, path: db.export(path, user="ann"),
    "Artifacts.export": lambda db, path: db.scope("ann").artifacts.export(
        "a.md", path, replace=True
    ),
    "File.backup": lambda db, path: db.file.backup(path, replace=True),
    "File.copy": lambda db, path: db.file.copy(path),
    "open": lambda _, path: memdb.open(path, embedder=None).close(),
    "recover": lambda db, path: memdb.recover(db.path, path),
    "restore": lambda db, path: memdb.restore(backup_of(db), path),
}

# Every command that makes a file; FILE is the open file, BACKUP one of its backups.
COMMANDS = {
    "backup target": "backup FILE PATH --replace",
    "copy target": "copy FILE PATH",
    "export target": "export FILE PATH",
    "export target sqlite": "export FILE PATH --format sqlite",
    "artifact load output": "artifact load FILE a.md --user ann -o PATH --replace",
    "recover new": "recover FILE PATH",
    "restore file": "restore BACKUP PATH --yes",
    "import file": "import PATH LINES --user ann --session s",
    "chat append file": "chat append PATH s hi --user ann",
    "decrypt target": "decrypt FILE PATH --replace",  # `encrypt` does the same with a key
    "demo keep": "demo --keep PATH",
    "bench facts records": "bench facts FACTS.jsonl --records PATH --lexical",
    "bench recall records": "bench recall DATASET.jsonl --records PATH --lexical",
    "pack make target": "pack make FILE -o PATH --replace",
    "pack open target": "pack open PACK PATH",
}

# What else names a path: input, or a FILE like that of `import`.
INPUTS = {
    "agent hook memory",
    "agent import memory",
    "agent import paths",
    "agent install memory",
    "agent mcp memory",
    "agent package folder",  # made if it is absent, with files of names of its own
    "agent status memory",
    "artifact save path",
    "bench compare after",
    "bench compare before",
    "bench facts data",
    "bench recall data",
    "copy source",
    "import source",
    "pack make source",
    "pack open path",
    "pack verify path",
    "rekey new_key_file",
    "restore backup",
    "serve sync_folder",  # files of names of its own
    "serve tls_cert",
    "serve tls_key",
    "serve tokens",
    "settings source",
    "sync folder",  # files of names of its own
    "sync pairing_key_file",
    "token add tokens",  # made if it is absent, and else added to
    "token list tokens",
    "token remove tokens",
    "web token_file",  # made if it is absent, and never written over
    "users delete folder",
    "users list folder",
    "users move folder",
    "users move target",
}
PATHS_READ = {
    "MemDB.import_file path",
    "MemDB.sync folder",  # with files of names of its own
    "MemDB.sync_status folder",
    "StoredSettings.update settings",
}


def backup_of(db: MemDB) -> str:
    path = f"{db.path}.backup"
    if not os.path.exists(path):
        db.file.backup(path)
    return path


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MemDB]:
    with memdb.open(tmp_path / "agent.db", embedder=None, counter="estimate") as db:
        db.scope("ann").session("s").append("user", "hi")
        db.scope("ann").artifacts.save("a.md", "soup")
        yield db


@pytest.fixture
def command(db: MemDB, tmp_path: Path) -> Callable[[str, str], Any]:
    """Return a function that runs one of `COMMANDS` on a path."""
    talk = {
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bea",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Tea."}],
        },
        "qa": [{"question": "Tea?", "evidence": ["D1:1"], "category": 1}],
    }
    files = {
        "LINES": '{"role": "user", "text": "hi"}\n',
        "LOCOMO": json.dumps(talk),
        "FACTS.jsonl": '{"type": "trap", "lang": "en", "text": "Do I like tea?", "why": "question"}\n',
        "DATASET.jsonl": '{"type": "message", "scope": "a", "session": "s", "id": "1", "text": "tea"}\n'
        '{"type": "message", "scope": "a", "session": "t", "id": "2", "text": "soup"}\n'
        '{"type": "question", "scope": "a", "id": "q", "text": "tea?", "evidence": ["1"]}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    places = {name: str(tmp_path / name) for name in files}

    def run(line: str, path: str) -> Any:
        places.update(FILE=db.path, PATH=path, BACKUP=backup_of(db), PACK=str(tmp_path / "PACK"))
        if "PACK" in line.split():
            make = ["pack", "make", db.path, "-o", places["PACK"]]
            assert CliRunner().invoke(cli, make).exit_code == 0
        return CliRunner().invoke(cli, [places.get(word, word) for word in line.split()])

    return run


def params(group: click.Group, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield each command and each of its parameters that is a path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from params(found, f"{above}{name} ")
        elif found is not None:
            for one in found.params:
                if isinstance(one.type, click.Path) and one.name is not None:
                    yield f"{above}{name}", one.name


def test_every_path_of_a_command_is_an_input_or_an_output() -> None:
    """A new one has to be in a list; FILE, also by -f, is that of an open file, and so is its key."""
    known = {" ".join(one.split()[: -1 if one.endswith("sqlite") else None]) for one in COMMANDS}
    is_file = ("file", "file_option", "key_file")
    found = {f"{command} {name}" for command, name in params(cli) if name not in is_file}
    found.remove("encrypt target")

    assert found == {one for one in known if not one.endswith(" file")} | INPUTS


def test_every_path_of_a_call_is_an_input_or_an_output() -> None:
    """A new one has to be in a list."""
    classes = [memdb.MemDB, memdb.Scope, memdb.Session]
    for module in (memdb.api.database, memdb.api.collections):
        classes += [one for one in vars(module).values() if inspect.isclass(one)]
    found = {
        f"{cls.__name__}.{name} {one.name}"
        for cls in classes
        if cls.__module__.startswith("memdb.api") and "._" not in cls.__module__
        for name, method in vars(cls).items()
        if not name.startswith("_") and callable(method)
        for one in inspect.signature(method).parameters.values()
        if "PathLike" in str(one.annotation)
    }
    written = {name.split("(")[0] for name in CALLS}

    assert {one for one in found if one.split()[0] not in written} == PATHS_READ


@pytest.mark.parametrize("end", SIDE_FILES)
@pytest.mark.parametrize("call", CALLS)
def test_no_call_writes_what_sqlite_keeps_beside_a_file(
    db: MemDB, tmp_path: Path, call: str, end: str
) -> None:
    """Of this file, or of any other: its next use would remove it."""
    other = tmp_path / "other.db"
    memdb.open(other, embedder=None).close()
    backup_of(db)
    (tmp_path / "link.db").symlink_to(f"{other}{end}")
    for path in (f"{other}{end}", f"{db.path}{end}", str(tmp_path / "link.db")):
        before = {one.name for one in tmp_path.iterdir()}
        with pytest.raises(memdb.MemDBError) as raised:
            CALLS[call](db, path)
        assert isinstance(raised.value, memdb.InvalidInput | memdb.FileError | memdb.AlreadyExists)
        assert {one.name for one in tmp_path.iterdir()} == before
    assert db.scope("ann").session("s").append("user", "more").seq == 2


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_what_sqlite_keeps_beside_a_file(
    tmp_path: Path, command: Callable[[str, str], Any], name: str, end: str
) -> None:
    """Exit code 6, a sentence that says why, and nothing written."""
    other = tmp_path / "other.db"
    memdb.open(other, embedder=None).close()

    result = command(COMMANDS[name], f"{other}{end}")

    assert (result.exit_code, "SQLite uses for a file beside" in result.output) == (6, True), (
        result.output
    )
    assert not os.path.lexists(f"{other}{end}")
    assert not os.path.lexists(f"{other}{end}.partial")


@pytest.mark.parametrize("name", COMMANDS)
def test_such_a_name_is_free_where_there_is_no_file(
    tmp_path: Path, command: Callable[[str, str], Any], name: str
) -> None:
    """A journal may be called a journal."""
    path = tmp_path / "my-journal"

    assert command(COMMANDS[name], str(path)).exit_code == 0
    assert path.stat().st_size > 0


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


SPECIAL = {"pipe": make_pipe, "device": make_device, "socket": make_socket}

# Every call and command that reads or writes a path, besides those above.
OPENS: dict[str, Callable[[MemDB, str], object]] = {
    **CALLS,
    "open for reading": lambda _, path: memdb.open(path, mode="read"),
    "recover from": lambda _, path: memdb.recover(path, f"{path}.new"),
    "restore from": lambda _, path: memdb.restore(path, f"{path}.new"),
    "import_file": lambda db, path: db.import_file(path, user="ann"),
    "import_file as lines": lambda db, path: db.import_file(path, user="ann", format="jsonl"),
}


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices have paths on POSIX")
@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("call", OPENS)
def test_only_files_are_opened(
    db: MemDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, kind: str
) -> None:
    """A pipe would be waited for, /dev/zero read for ever."""
    monkeypatch.chdir(tmp_path)
    backup_of(db)
    path = tmp_path / "special"
    SPECIAL[kind](path)
    mode = path.stat().st_mode

    with pytest.raises((memdb.FileError, memdb.InvalidInput, memdb.AlreadyExists)):
        OPENS[call](db, str(path))

    assert path.stat().st_mode == mode
    assert not (tmp_path / "special.new").exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices have paths on POSIX")
@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_pipe_beside_a_file_is_not_opened(db: MemDB, tmp_path: Path, end: str) -> None:
    """Nor what stands where SQLite keeps something."""
    path = tmp_path / "copy.db"
    db.file.backup(path)
    os.mkfifo(f"{path}{end}")

    with pytest.raises(memdb.FileError, match="pipe"):
        memdb.open(path, embedder=None)
    if end != "-shm":
        with pytest.raises(memdb.FileError, match="pipe"):
            memdb.recover(path, tmp_path / "new.db")
