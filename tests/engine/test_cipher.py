"""
Files that nobody reads without their key; the tests of `needs_cipher` run by `make encrypted`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from click.testing import CliRunner

import memdb
from memdb.cli import cli
from memdb.engine.sqlite import cipher, foreign_wal
from memdb.errors import CipherMissing, FileError, InvalidInput, KeyMissing, WrongKey
from memdb.models.keys import FileKey, key_value, read_key_file

if TYPE_CHECKING:
    from collections.abc import Callable

needs_cipher = pytest.mark.skipif(
    not cipher.has_cipher(), reason="the package apsw cannot encrypt: run `make encrypted`"
)
needs_plain = pytest.mark.skipif(
    cipher.has_cipher(), reason="apsw-sqlite3mc is in the safe of apsw"
)

KEY, OTHER = b"\3" * 32, b"\7" * 32
WORDS = [f"{one}{two}walnut{number}" for one in "bdfgk" for two in "aeiou" for number in range(60)]


@pytest.fixture(autouse=True)
def no_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the key of a file to each test."""
    monkeypatch.delenv("MEMDB_KEY_FILE", raising=False)
    monkeypatch.delenv("MEMDB_KEYRING", raising=False)


@pytest.fixture
def safe(tmp_path: Path) -> str:
    """Return the path of a file in a folder of its own."""
    (tmp_path / "own").mkdir()
    return str(tmp_path / "own" / "safe.db")


def open_file(path: str, key: Any = KEY, **options: Any) -> memdb.MemDB:
    """Open a file without vectors, which hold no text."""
    return memdb.open(path, key=key, embedder=None, durability="process", **options)


def fill(path: str, key: Any = KEY) -> None:
    """Make a file that holds each of `WORDS` in a message, an entry, an item or an artifact."""
    with open_file(path, key) as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        for number, word in enumerate(WORDS[:600]):
            chat.append("user", f"message {word} of {number}")
        for number, word in enumerate(WORDS[600:900]):
            ann.remember(f"Ann keeps {word} in box {number}.")
        for word in WORDS[900:1200]:
            ann.items.put(("notes",), word, {"text": word})
        chat.artifacts.save("notes.md", "\n".join(WORDS[1200:]).encode())
        chat.compact(force=True) if hasattr(chat, "compact") else None


def texts(path: str, key: Any = KEY) -> list[str]:
    """Return what a file says in its conversation."""
    with open_file(path, key, mode="read") as db:
        assert db.file.check(deep=True) == []
        return [one.text for one in db.scope("ann").session("trip").last(1_000)]


def files(path: str) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    folder = Path(path).parent
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


def words_in(found: dict[str, bytes]) -> list[tuple[str, str]]:
    """Return which of `WORDS` stand in which file."""
    return [(name, word) for name, data in found.items() for word in WORDS if word.encode() in data]


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    """Each wrong key is named with its field before a file is made."""
    path = str(tmp_path / "new.db")
    for wrong in (" ", "raw:" + "ab" * 32, "a\0b", b"short", 7, lambda: b"short"):
        with pytest.raises(InvalidInput, match=r"^key "):
            memdb.open(path, key=cast("Any", wrong))
    with pytest.raises(InvalidInput, match="key is given for a memory"):
        memdb.open(":memory:", key=KEY)
    with pytest.raises(InvalidInput, match="key encrypts a file"):
        memdb.open("postgresql://localhost/x", key=KEY)
    assert not os.path.exists(path)


def test_a_key_file_is_its_owners(tmp_path: Path) -> None:
    """A key is read from 32 bytes or a line; a file that others read, or without one, is named."""
    path = tmp_path / "agent.key"
    for data, secret in (
        (b"\1" * 32, "raw:" + "01" * 32),
        (b"long pass phrase\n", "long pass phrase"),
    ):
        path.write_bytes(data)
        path.chmod(0o600)
        assert read_key_file(path).secret() == secret
    path.chmod(0o644)
    with pytest.raises(FileError, match="chmod 600"):
        read_key_file(path)
    path.chmod(0o600)
    for data in (b"", b"\n", b"\xff" * 31, b"x" * 5_000):
        path.write_bytes(data)
        with pytest.raises(InvalidInput, match="key"):
            read_key_file(path)
    with pytest.raises(FileError, match="cannot be read"):
        read_key_file(tmp_path / "absent")


def test_the_environment_names_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MEMDB_KEY_FILE holds where no key is given, and an empty key means none."""
    path = tmp_path / "agent.key"
    path.write_bytes(b"\1" * 32)
    path.chmod(0o600)
    monkeypatch.setenv("MEMDB_KEY_FILE", str(path))
    found = key_value(None)
    assert found is not None
    assert found.secret() == "raw:" + "01" * 32
    assert key_value("") is None
    assert "01" not in repr(found)


@needs_plain
def test_without_the_cipher_no_file_is_made(tmp_path: Path) -> None:
    """A new file with a key, and an encrypted one, are refused with the package that is missing."""
    path = tmp_path / "safe.db"
    with pytest.raises(CipherMissing, match="apsw-sqlite3mc"):
        memdb.open(path, key=KEY)
    assert [*tmp_path.iterdir()] == []
    # As the cipher leaves a file: 16 bytes of salt, then some fields of the header.
    header = os.urandom(16) + bytes.fromhex("1000020220402020")
    path.write_bytes(header + os.urandom(4_096 * 3 - len(header)))
    before = path.read_bytes()
    for key in (None, "", KEY):
        with pytest.raises(CipherMissing, match="apsw-sqlite3mc"):
            memdb.open(path, key=key)
    assert path.read_bytes() == before
    with memdb.open(tmp_path / "plain.db") as db, pytest.raises(CipherMissing):
        db.file.backup(tmp_path / "copy.db", key=KEY)
    assert {one.name for one in tmp_path.iterdir()} == {"safe.db", "plain.db"}


@needs_cipher
@pytest.mark.parametrize("key", ["correct horse", KEY], ids=["text", "bytes"])
def test_no_word_is_readable(safe: str, key: Any) -> None:
    """None of 1,500 words is in any byte beside the file, in use and after the process is killed."""
    program = (
        "import sys, test_cipher as t\n"
        f"t.fill({safe!r}, {key!r})\n"
        f"db = t.open_file({safe!r}, {key!r})\n"
        "db.scope('ann').session('trip').append('user', 'the last one ' + t.WORDS[0])\n"
        "print('filled', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=os.path.dirname(__file__),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"filled\n"
    in_use = files(safe)
    assert {"safe.db", "safe.db-wal"} <= set(in_use)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert child.stdin is not None
    child.stdin.close()
    assert words_in(in_use) == []
    assert words_in(files(safe)) == []
    assert texts(safe, key)[-1] == f"the last one {WORDS[0]}"
    assert words_in(files(safe)) == []


@needs_cipher
def test_a_wrong_key_changes_nothing(safe: str) -> None:
    """No key, another one, and a key for a plain file: an error of its own, and the same bytes."""
    fill(safe)
    plain = os.path.join(os.path.dirname(safe), "plain.db")
    with open_file(plain, ""):
        pass
    before = files(safe)
    for path, key, error in (
        (safe, "", KeyMissing),
        (safe, None, KeyMissing),
        (safe, "another", WrongKey),
        (safe, OTHER, WrongKey),
        (plain, KEY, WrongKey),
    ):
        for mode in ("read", "write"):
            with pytest.raises(error):
                memdb.open(path, key=key, mode=cast("Any", mode))
    assert files(safe) == before
    assert len(texts(safe)) == 600


@needs_cipher
def test_every_copy_has_a_key_or_is_asked_to_be_plain(safe: str, tmp_path: Path) -> None:
    """Backup, copy, restore and vacuum keep the key; another one or none has to be said."""
    fill(safe)
    names = {
        name: str(tmp_path / name)
        for name in ("same.db", "other.db", "plain.db", "rows.db", "back.db")
    }
    with open_file(safe) as db:
        db.file.vacuum(whole=True)
        db.file.backup(names["same.db"])
        db.file.backup(names["other.db"], key=OTHER)
        db.file.backup(names["plain.db"], key="")
        db.file.copy(names["rows.db"])
        assert db.file.info().is_encrypted
    memdb.restore(names["other.db"], names["back.db"], key=OTHER)
    wanted = texts(safe)
    keys = {"same.db": KEY, "other.db": OTHER, "rows.db": KEY, "back.db": OTHER}
    for name, key in keys.items():
        assert texts(names[name], key) == wanted
        assert words_in({name: Path(names[name]).read_bytes()}) == []
    assert texts(names["plain.db"], "") == wanted
    assert words_in({"plain.db": Path(names["plain.db"]).read_bytes()}) != []


@needs_cipher
def test_what_is_forgotten_is_searched_behind_the_key(safe: str) -> None:
    """The proof reads what the key opens: a copy in another program's table is found."""
    fill(safe)
    secret = "the heliotrope sentence that has to go"
    with open_file(safe) as db:
        db.scope("ann").session("trip").append("user", secret)
        with db._db.write() as tx:
            tx.raw.execute("CREATE TABLE other (x)").fetchall()
            tx.raw.execute("INSERT INTO other VALUES (?)", (secret,)).fetchall()
    with open_file(safe) as db:
        receipt = db.scope("ann").forget(query="heliotrope", prove=True)
        assert receipt.proof is not None
        assert receipt.proof.found_in == ("safe.db",)


@needs_cipher
def test_a_damaged_file_gives_what_is_before_the_damage(safe: str, tmp_path: Path) -> None:
    """Recovery of an encrypted file keeps its key and reports that pages are missing."""
    fill(safe)
    size = os.path.getsize(safe)
    with open(safe, "r+b") as file:
        file.seek(size - 4_096 * 3)
        file.write(b"\0" * 200)
    found = memdb.recover(safe, tmp_path / "new.db", key=KEY)
    assert found.findings == ()
    assert {one.name: one.rows for one in found.tables}["messages"] > 0
    assert words_in({"new.db": (tmp_path / "new.db").read_bytes()}) == []


def own_wal(_place: str, _copies: dict[str, bytes]) -> bool:
    """Leave file and WAL as a kill left them."""
    return True


def older_file(safe: str, copies: dict[str, bytes]) -> bool:
    """Put the file of before two bursts beside the WAL of now."""
    Path(safe).write_bytes(copies["older"])
    return False


def others_wal(safe: str, copies: dict[str, bytes]) -> bool:
    """Put the WAL of another file with the same key beside the file."""
    Path(f"{safe}-wal").write_bytes(copies["other"])
    return False


@needs_cipher
@pytest.mark.parametrize("change", [own_wal, older_file, others_wal])
def test_only_its_own_wal_is_played_in(
    safe: str, change: Callable[[str, dict[str, bytes]], bool]
) -> None:
    """An encrypted WAL is known by the salts that it names; a foreign one is set aside."""
    copies = {}
    other = f"{safe}.other"
    for path in (safe, other):
        with open_file(path) as db:
            chat = db.scope("ann").session("trip")
            chat.append("user", "first")
            db.file.checkpoint() if hasattr(db.file, "checkpoint") else db._db.checkpoint()
            copies["older"] = Path(path).read_bytes()
            for number in range(3):
                chat.append("user", f"burst {number}")
                db._db.checkpoint()
            chat.append("user", "last")
            copies[path] = Path(path).read_bytes()
            copies[f"{path}-wal"] = Path(f"{path}-wal").read_bytes()
        if path == safe:
            older = copies["older"]
    copies["older"] = older
    copies["other"] = copies[f"{other}-wal"]
    Path(safe).write_bytes(copies[safe])
    Path(f"{safe}-wal").write_bytes(copies[f"{safe}-wal"])
    for end in ("-shm",):
        Path(f"{safe}{end}").unlink(missing_ok=True)
    is_own = change(safe, copies)
    assert (foreign_wal.find_wal_problem(safe, FileKey(KEY)) is None) == is_own
    with open_file(safe) as db:
        said = [one.text for one in db.scope("ann").session("trip").last(10)]
        assert [one.code for one in db.file.check()] == [] if is_own else ["wal_missing"]
    assert (said[-1] == "last") == is_own


@needs_cipher
def test_a_new_key_takes_the_place_of_the_old_one(safe: str) -> None:
    """After `rekey` only the new key opens the file, which an open program prevents."""
    fill(safe)
    wanted = texts(safe)
    with open_file(safe), pytest.raises(memdb.Busy, match="close that program"):
        memdb.rekey(safe, OTHER, key=KEY)
    memdb.rekey(safe, OTHER, key=KEY)
    assert texts(safe, OTHER) == wanted
    with pytest.raises(WrongKey):
        open_file(safe)
    with pytest.raises(InvalidInput, match="new_key"):
        memdb.rekey(safe, "", key=OTHER)
    with pytest.raises(KeyMissing):
        memdb.rekey(safe, KEY, key="")
    assert set(files(safe)) == {"safe.db"}


@needs_cipher
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_kill_leaves_the_old_key_or_the_new_one(safe: str) -> None:
    """Killed at 100 moments of a `rekey`, the file opens with one of the two, and is whole."""
    fill(safe)
    wanted, keys, changed = texts(safe), [KEY, OTHER], 0
    program = (
        "import sys, memdb\n"
        "print('begun', flush=True)\n"
        f"memdb.rekey({safe!r}, eval(sys.argv[1]), key=eval(sys.argv[2]))\n"
    )

    def run(kill_s: float) -> float:
        """Rekey in a process that is killed after some seconds; return how long it ran."""
        command = [sys.executable, "-c", program, repr(keys[1]), repr(keys[0])]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            begun = time.monotonic()
            try:
                child.wait(timeout=kill_s)
            except subprocess.TimeoutExpired:
                child.kill()
            child.wait()
            return time.monotonic() - begun

    whole_s = run(60)
    for number in range(100):
        try:
            found = texts(safe, keys[0])
        except WrongKey:
            keys.reverse()
            changed += 1
            found = texts(safe, keys[0])
        assert found == wanted
        run(whole_s * number / 80)
    assert 1 < changed < 100


@needs_cipher
def test_commands_take_the_key_from_a_file(safe: str, tmp_path: Path) -> None:
    """`encrypt`, `info`, `rekey` and `decrypt` with --key-file; nothing of it stays behind."""
    plain, keys = str(tmp_path / "plain.db"), []
    fill(plain, "")
    for name, key in (("one.key", KEY), ("two.key", OTHER)):
        keys.append(str(tmp_path / name))
        Path(keys[-1]).write_bytes(key)
        os.chmod(keys[-1], 0o600)
    for line in (
        ["encrypt", plain, safe, "--key-file", keys[0]],
        ["check", safe, "--deep", "--key-file", keys[0]],
        ["rekey", safe, "--key-file", keys[0], "--new-key-file", keys[1]],
        ["decrypt", safe, f"{safe}.plain", "--key-file", keys[1]],
    ):
        done = CliRunner().invoke(cli, line, prog_name="memdb")
        assert (done.exit_code, done.stderr) == (0, ""), (line, done.output)
    assert (
        CliRunner().invoke(cli, ["info", safe], prog_name="memdb").exit_code == FileError.exit_code
    )
    assert texts(f"{safe}.plain", "") == texts(safe, OTHER) == texts(plain, "")


@needs_cipher
def test_a_page_is_read_only_in_its_place(safe: str) -> None:
    """A changed or moved page yields no other text; an earlier one of the place yields its own."""
    size, said = 4096, []
    for text in ("We fly in May.", "We fly in June."):
        with open_file(safe) as db:
            chat = db.scope("ann").session("trip")
            chat.edit(1, text) if chat.last_seq else chat.append("user", text)
        said.append(Path(safe).read_bytes())
    before, now = said
    places = [at for at in range(0, len(now), size) if before[at:][:size] != now[at:][:size]]

    def read(at: int, page: bytes) -> str:
        """Return the text of the file with another page at a place, "" for an error."""
        Path(safe).write_bytes(now[:at] + page + now[at + size :])
        try:
            with open_file(safe, mode="read") as db:
                return db.scope("ann").session("trip").last(1)[0].text
        except memdb.MemDBError:
            return ""

    june = {"", "We fly in June."}
    assert {read(at, bytes([one ^ 1 for one in now[at:][:size]])) for at in places} == june
    assert {read(at, now[at - size :][:size]) for at in places if at} == june
    assert "We fly in May." in {read(at, before[at:][:size]) for at in places}
