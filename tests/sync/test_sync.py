"""Two files meet in a folder: pairing, bad input, and what each kind of thing does."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from simulator import START_MS, YEAR_MS, canonical

import memdb
from memdb.cli import cli
from memdb.models.summaries import SummaryText
from memdb.sync import folder

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 86_400_000


class Pair:
    """Two files, a folder, and a clock."""

    def __init__(self, place: Path) -> None:
        """Open two files; the first one is paired."""
        self.place, self.now_ms, self.opened = place, START_MS, 0
        self.folder = place / "folder"
        self.folder.mkdir()
        self.files: list[memdb.MemDB] = []
        self.a, self.b = self.open(), self.open()
        self.a.user("ann").session("trip").append("user", "peanuts are bad")
        self.key = self.a.sync(self.folder).key

    def open(self) -> memdb.MemDB:
        """Open another file."""
        path = self.place / f"{len(self.files)}.db"
        self.files.append(memdb.open(path, embedder=None, clock=lambda: self.now_ms))
        return self.files[-1]

    def last(self, db: memdb.MemDB) -> Path:
        """Return the last segment of a file."""
        (device,) = [one for one in db.sync_status(self.folder).devices if one.is_own]
        return max((self.folder / device.id).glob("0*.gz"))

    def say(self, db: memdb.MemDB, text: str) -> Path:
        """Append a message, sync, and return the segment that tells of it."""
        db.user("ann").session("trip").append("user", text)
        db.sync(self.folder)
        return self.last(db)


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    """Return two files that are paired, which are closed when the test ends."""
    pair = Pair(tmp_path)
    pair.b.sync(pair.folder, pairing_key=pair.key)
    yield pair
    for db in pair.files:
        assert db.file.check(deep=True) == []
        db.close()


def test_a_folder_that_does_not_fit_is_refused_by_its_fault(pair: Pair) -> None:
    """Each is named, and nothing is written into it or the file."""
    other, new = pair.place / "other", pair.open()
    cases: dict[str, tuple[Callable[[], object], str]] = {
        "absent": (lambda: new.sync(pair.place / "none"), "is not a folder"),
        "a file": (lambda: new.sync(new.path), "is not a folder"),
        "with the file": (lambda: new.sync(pair.place), "contains the open file"),
        "with others' files": (lambda: new.sync(other), "neither a sync folder nor empty"),
        "without the key": (lambda: new.sync(pair.folder), "is paired: give the pairing_key"),
        "with no key": (lambda: new.sync(pair.folder, pairing_key="abc"), "pairing_key is not"),
        "with an empty key": (lambda: new.sync(pair.folder, pairing_key=" "), "first sync printed"),
        "another key": (
            lambda: new.sync(pair.folder, pairing_key="abcd-" * 7 + "abcd"),
            "another memory",
        ),
        "never synced": (lambda: new.sync_status(pair.folder), "have no sync in common"),
    }
    other.mkdir()
    (other / "letter.txt").write_text("hi")
    before = sorted(pair.folder.rglob("*"))
    found = {}
    for name, (act, said) in cases.items():
        with pytest.raises((memdb.InvalidInput, memdb.FileError)) as caught:
            act()
        if said not in str(caught.value):
            found[name] = str(caught.value)
    assert found == {}
    assert sorted(pair.folder.rglob("*")) == before
    assert new.user("ann").sessions() == []


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _changed(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


def _unsealed(_: bytes) -> bytes:
    line = {"kind": "segment", "format": 1, "device": "0" * 16, "number": 2}
    return gzip.compress(json.dumps(line).encode())


def test_a_segment_that_does_not_fit_is_named_and_the_rest_goes_on(pair: Pair) -> None:
    """Cut, changed or of a stranger: its device tells all again, and nothing is lost."""
    for change in (_cut, _changed, _unsealed, lambda _: b""):
        path = pair.say(pair.a, f"said before {change.__name__}")
        path.write_bytes(change(path.read_bytes()))
        waiting = pair.b.sync(pair.folder).waiting
        assert [path.name in one and "is cut, changed" in one for one in waiting] == [True]
        pair.a.sync(pair.folder)
        assert pair.b.sync(pair.folder).waiting == ()
        assert canonical(pair.a) == canonical(pair.b)


def test_a_segment_of_a_newer_format_waits_until_memdb_is_new_enough(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, nothing is lost, and what other devices say is merged meanwhile."""
    third = pair.open()
    with monkeypatch.context() as newer:
        newer.setattr(folder, "FORMAT", folder.FORMAT + 1)
        path = pair.say(pair.a, "in a new way")
    third.user("ann").session("other").append("user", "in the old way")
    third.sync(pair.folder, pairing_key=pair.key)
    (waits,) = pair.b.sync(pair.folder).waiting
    assert path.name in waits
    assert "newer memdb (format 2)" in waits
    assert "in the old way" in str(canonical(pair.b))
    monkeypatch.setattr(folder, "FORMAT", folder.FORMAT + 1)
    for db in (*pair.files, *pair.files):
        assert db.sync(pair.folder).waiting == ()
    assert len({str(canonical(db)) for db in pair.files}) == 1


def test_what_the_system_refuses_is_named_and_may_be_mended(pair: Pair) -> None:
    """A file is a folder, or a folder a file: the sync raises FileError; then it goes on."""
    for name in ("", "memdb-sync.json", "status.json", "next"):
        last = pair.last(pair.a)
        path, aside = last.with_name(name) if name else last.parent, pair.place / f"aside-{name}"
        if name == "next":  # what it writes next
            path = last.with_name(f"{int(last.name[:6]) + 1:06}.jsonl.gz.partial")
        elif name.startswith("memdb"):
            path = pair.folder / name
        if path.exists():
            path.rename(aside)
        path.write_text("a file") if not name else (path / "inside").mkdir(parents=True)
        pair.a.user("ann").session("trip").append("user", f"said before {name}")
        with pytest.raises(memdb.FileError, match=str(path)):
            pair.a.sync(pair.folder)
        shutil.rmtree(path) if name else path.unlink()
        if aside.exists():
            aside.rename(path)
        pair.a.sync(pair.folder)
    pair.b.sync(pair.folder)
    assert canonical(pair.a) == canonical(pair.b)


def test_a_segment_that_cannot_be_read_is_named_and_the_rest_goes_on(pair: Pair) -> None:
    """It stands for one that its device removes while it is read."""
    third = pair.open()
    third.sync(pair.folder, pairing_key=pair.key)
    path = pair.say(pair.a, "from the first")
    path.rename(pair.place / "aside")
    path.mkdir()
    pair.say(third, "from the third")
    (waits,) = pair.b.sync(pair.folder).waiting
    assert path.name in waits
    assert "from the third" in str(canonical(pair.b))
    path.rmdir()
    (pair.place / "aside").rename(path)
    assert pair.b.sync(pair.folder).waiting == ()


def test_files_of_a_folder_are_private_and_may_come_in_any_order(pair: Pair) -> None:
    """Only their owner reads them; a folder whose name of the memory is not there yet waits."""
    modes = {path: path.stat().st_mode & 0o777 for path in pair.folder.rglob("*.*")}
    assert set(modes.values()) == {0o600}
    mark, new = pair.folder / "memdb-sync.json", pair.open()
    mark.rename(pair.place / "aside")
    with pytest.raises(memdb.InvalidInput, match="wait until the whole file arrives"):
        new.sync(pair.folder, pairing_key=pair.key)
    (pair.place / "aside").rename(mark)
    new.sync(pair.folder, pairing_key=pair.key)
    assert canonical(new) == canonical(pair.a)


def test_a_gap_waits_for_what_is_missing(pair: Pair) -> None:
    """Segments that come out of order are merged in their order."""
    first = pair.say(pair.a, "one")
    data = first.read_bytes()
    first.unlink()
    second = pair.say(pair.b, "other")  # the rest goes on
    assert second.exists()
    first.write_bytes(data)
    pair.say(pair.a, "two")
    first.unlink()
    assert "is missing" in pair.b.sync(pair.folder).waiting[0]
    first.write_bytes(data)
    assert pair.b.sync(pair.folder).waiting == ()


def test_a_clock_a_year_ahead_is_named_and_begins_anew(pair: Pair) -> None:
    """What it said waits, and is merged when the clock is right again."""
    pair.now_ms += YEAR_MS
    pair.a.user("ann").state["drink"] = "tea"
    pair.a.sync(pair.folder)
    pair.now_ms -= YEAR_MS
    assert "more than a day ahead" in pair.b.sync(pair.folder).waiting[0]
    assert pair.b.user("ann").state.all() == {}
    pair.b.user("ann").state["cake"] = "plum"
    pair.a.sync(pair.folder)
    assert pair.b.sync(pair.folder).waiting == ()
    pair.a.sync(pair.folder)
    assert canonical(pair.a) == canonical(pair.b)
    assert pair.b.user("ann").state.all() == {"drink": "tea", "cake": "plum"}


def test_forgotten_text_leaves_the_folder_and_each_file(pair: Pair) -> None:
    """No segment and no file has it; until then the report names who has never synced."""
    pair.b.user("ann").remember("peanuts are bad for Ann")
    pair.b.sync(pair.folder)
    pair.a.sync(pair.folder)
    pair.a.user("ann").forget(query="peanuts")
    assert len(pair.a.sync(pair.folder).unconfirmed) == 1
    pair.b.sync(pair.folder)
    pair.a.sync(pair.folder)
    assert pair.a.sync(pair.folder).unconfirmed == ()
    assert b"peanuts" not in b"".join(
        gzip.decompress(path.read_bytes()) for path in pair.folder.rglob("*.gz")
    )
    for db in pair.files:
        assert "peanuts" not in "".join(db.export_lines())
        assert b"peanuts" not in Path(db.path).read_bytes()


def test_forgotten_text_leaves_the_folder_after_a_restore(pair: Pair) -> None:
    """The restored file writes it into its first segment, and replaces that when it learns."""
    old = pair.place / "old.db"
    pair.b.file.backup(old)
    pair.a.user("ann").forget(query="peanuts", prove=True)
    for db in (pair.a, pair.b, pair.a):
        db.sync(pair.folder)
    pair.files.append(memdb.open(old, embedder=None, clock=lambda: pair.now_ms))
    for db in (pair.files[-1], pair.a, pair.b):
        db.sync(pair.folder)
    last = [pair.last(db) for db in pair.files]
    for db in pair.files:
        db.sync(pair.folder)
    assert [pair.last(db) for db in pair.files] == last  # each told everything once
    assert b"peanuts" not in b"".join(
        gzip.decompress(path.read_bytes()) for path in pair.folder.rglob("*.gz")
    )
    assert len({str(canonical(db)) for db in pair.files}) == 1


@pytest.mark.parametrize("goes_on", [False, True])
def test_text_that_is_forgotten_after_a_restore_leaves_the_folder(
    pair: Pair, goes_on: bool
) -> None:
    """Also the folder of the device that the file was, whether or not a copy goes on as it."""
    old = pair.place / "old.db"
    pair.b.file.backup(old)
    pair.say(pair.b, "walnuts and peanuts are bad")
    if not goes_on:
        pair.files.remove(pair.b)
        pair.b.close()
    pair.files.append(memdb.open(old, embedder=None, clock=lambda: pair.now_ms))
    for db in (*pair.files, *pair.files):
        db.sync(pair.folder)
    pair.a.user("ann").forget(query="walnuts")
    for db in (*pair.files, *pair.files, *pair.files):
        report = db.sync(pair.folder)
    assert report.unconfirmed == ()
    assert b"walnuts" not in b"".join(
        gzip.decompress(path.read_bytes()) for path in pair.folder.rglob("*.gz")
    )
    if goes_on:
        pair.say(pair.b, "hazelnuts are good")
        for db in pair.files:
            db.sync(pair.folder)
        assert "hazelnuts" in str(canonical(pair.a))
    assert len({str(canonical(db)) for db in pair.files}) == 1
    assert len(pair.a.sync_status(pair.folder).devices) == len(pair.files)


def test_a_folder_that_was_emptied_is_filled_again(pair: Pair) -> None:
    """Each device tells everything, and what is said afterwards is read at once."""
    for number in range(3):
        pair.say(pair.a, f"message {number}")
        pair.b.sync(pair.folder)
    for path in pair.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for db in (pair.a, pair.b, pair.a):
        db.sync(pair.folder)
    pair.say(pair.a, "said afterwards")
    report = pair.b.sync(pair.folder)
    assert (report.waiting, report.received) == ((), {"message_added": 1})
    assert canonical(pair.a) == canonical(pair.b)


def test_forgotten_text_leaves_the_folder_though_a_sync_ended_early(pair: Pair) -> None:
    """A sync that cannot write the segment without the text: the next one does."""
    pair.say(pair.b, "walnuts and peanuts are bad")
    pair.a.sync(pair.folder)
    pair.a.user("ann").forget(query="walnuts")
    for db in (pair.a, pair.b):
        last = pair.last(db)
        number = int(last.name[:6])
        for next_ in (number + 1, number + 2):
            (last.parent / f"{next_:06}.full.jsonl.gz.partial" / "inside").mkdir(parents=True)
        with pytest.raises(memdb.FileError):
            db.sync(pair.folder)
        for path in last.parent.glob("*.partial"):
            shutil.rmtree(path)
        db.sync(pair.folder)
    assert b"walnuts" not in b"".join(
        gzip.decompress(path.read_bytes()) for path in pair.folder.rglob("*.gz")
    )


@pytest.mark.parametrize(("action", "left"), [("refuse", ["one", "two"]), ("redact", 3)])
def test_secrets_are_screened_by_the_settings_of_the_receiver(
    pair: Pair, action: str, left: list[str] | int
) -> None:
    """A line that is refused is named and the others are merged; the sender keeps its own text."""
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
    places = ("secrets_in_messages", "secrets_in_entries")
    pair.a.settings.update(dict.fromkeys(places, "allow"))
    pair.a.user("ann").session("s").extend(
        [{"role": "user", "text": text} for text in ("one", f"it is {secret}", "two")]
    )
    pair.a.user("ann").remember(f"the token is {secret}")
    pair.a.sync(pair.folder)
    pair.b.settings.update(dict.fromkeys(places, action))

    async def receive() -> memdb.SyncReport:
        async with memdb.aio.open(pair.b.path, embedder=None) as db:
            return await db.sync(pair.folder)

    report = asyncio.run(receive())
    texts = [one.text for one in pair.b.user("ann").session("s").messages()]
    assert left in (texts, len(texts))
    assert secret not in "".join(pair.b.export_lines())
    assert len(report.refused) == (2 if action == "refuse" else 0)
    assert secret not in str(report)
    assert pair.b.sync(pair.folder).sent == {}
    pair.a.sync(pair.folder)
    assert secret in "".join(pair.a.export_lines())


def test_a_device_that_was_off_for_a_year_learns_what_was_forgotten(pair: Pair) -> None:
    """It brings back no byte of it, keeps what was changed meanwhile, and adds what is new."""
    ann = [db.user("ann") for db in pair.files]
    gone = ann[0].remember("peanuts are bad for Ann").entry
    kept = ann[0].remember("Ann lives in Oslo", key="home").entry
    ann[0].items.put(("n",), "a", {"text": "peanuts in an item"})
    for db in (pair.a, pair.b):
        db.sync(pair.folder)
    (same,) = [one for one in ann[1].entries.list(limit=100) if one.uid == gone.uid]
    ann[1].entries.update(same.id, text="peanuts are very bad for Ann")
    ann[1].session("trip").append("user", "said before the year")
    pair.now_ms += YEAR_MS
    ann[0].forget(query="peanuts")
    ann[0].entries.update(kept.id, text="Ann lives in Bergen")
    for number in range(70):  # older segments are gone when it is back
        pair.say(pair.a, f"said meanwhile {number}")
    for db in (pair.b, pair.a, pair.b, pair.a):
        db.sync(pair.folder)
    assert canonical(pair.a) == canonical(pair.b)
    text = "".join(canonical(pair.b))
    assert [word in text for word in ("before the year", "meanwhile 69", "Bergen")] == [True] * 3
    assert b"peanuts" not in b"".join(
        [*(Path(db.path).read_bytes() for db in pair.files)]
        + [gzip.decompress(path.read_bytes()) for path in pair.folder.rglob("*.gz")]
    )


class Thing:
    """A thing of one kind, which a device changes and deletes."""

    def __init__(self, kind: str, name: str) -> None:
        """Name it."""
        self.kind, self.name = kind, name

    def put(self, db: memdb.MemDB, text: str) -> None:
        """Make it, or change it to *text*."""
        ann = db.user("ann")
        if self.kind == "item":
            ann.items.put(("n",), self.name, {"text": text})
        elif self.kind == "state":
            ann.state[self.name] = text
        elif self.kind == "title":
            ann.session(self.name).title = text
        elif ann.entries.find(self.name) is None:
            ann.remember(text, key=self.name)
        else:
            ann.entries.update(ann.entries.find(self.name).id, text=text)

    def delete(self, db: memdb.MemDB) -> None:
        """Delete it."""
        ann = db.user("ann")
        if self.kind == "item":
            ann.items.delete(("n",), self.name)
        elif self.kind == "state":
            ann.state.delete(self.name)
        elif self.kind == "title":
            ann.delete(session=self.name)
        else:
            ann.entries.delete(ann.entries.find(self.name).id)


def test_of_a_deletion_and_a_change_the_later_one_stands(pair: Pair) -> None:
    """Whichever device syncs first; where no time is kept, what was not seen is kept."""
    cases = list(product(("entry", "item", "state", "title"), ("before", "after", "seen"), "ab"))
    things = {case: Thing(case[0], f"k{number}") for number, case in enumerate(cases)}
    expected = {}
    for (kind, when, first), thing in things.items():
        order = (pair.a, pair.b) if first == "a" else (pair.b, pair.a)
        thing.put(pair.a, f"{thing.name} as it was")
        for db in (pair.a, pair.b):
            db.sync(pair.folder)
        for step in ("before", "deletion", "after"):
            pair.now_ms += 60_000
            if step == "deletion":
                thing.delete(pair.a)
            elif when == step or (when == "seen" and step == "before"):
                thing.put(pair.b, f"{thing.name} was changed")
            for db in (pair.b, pair.a) if when == "seen" and step == "before" else ():
                db.sync(pair.folder)
        pair.now_ms += 60_000
        for db in (*order, *order, *order):
            db.sync(pair.folder)
        is_kept = when == "after" or (when == "before" and kind != "entry")
        expected[kind, when, first] = [is_kept] * 2
    found = {
        case: [f"{thing.name} was changed" in str(canonical(db)) for db in (pair.a, pair.b)]
        for case, thing in things.items()
    }
    assert {case: one for case, one in found.items() if one != expected[case]} == {}
    assert canonical(pair.a) == canonical(pair.b)


def _names(db: memdb.MemDB) -> list[tuple[str, str, int]]:
    """Return text, name and number of each version of each artifact."""
    artifacts = db.user("ann").artifacts
    return sorted(
        (artifacts.load(one.name, one.version).data.decode(), one.name, one.version)
        for name in artifacts.list()
        for one in artifacts.versions(name.name)
    )


@pytest.mark.parametrize("first", ["a", "b"])
def test_the_rename_of_an_artifact_travels(pair: Pair, first: str) -> None:
    """The later one of two stands; a version saved meanwhile stays where it was saved."""
    a, b = (db.user("ann").artifacts for db in (pair.a, pair.b))
    order = (pair.a, pair.b) if first == "a" else (pair.b, pair.a)

    def meet() -> None:
        pair.now_ms += 60_000
        for db in (*order, *order):
            db.sync(pair.folder)

    for name in ("plain", "both", "saved", "gone", "taken"):
        for number in (1, 2):
            a.save(f"user:{name}", f"{name} {number}")
    meet()
    a.delete("user:taken")
    meet()
    a.rename("user:plain", "user:taken")  # whose numbers do not come back
    a.rename("user:both", "user:earlier")
    pair.now_ms += 60_000
    b.rename("user:both", "user:later")
    a.rename("user:saved", "user:moved")
    b.save("user:saved", "saved 3")
    a.rename("user:gone", "user:hidden")
    b.delete("user:gone")
    meet()
    a.save("user:later", "both 3")
    meet()
    b.rename("user:later", "user:last")
    meet()
    expected = [
        *(("both 1", "user:last", 1), ("both 2", "user:last", 2), ("both 3", "user:last", 3)),
        *(("plain 1", "user:taken", 3), ("plain 2", "user:taken", 4)),
        *(("saved 1", "user:moved", 1), ("saved 2", "user:moved", 2), ("saved 3", "user:saved", 3)),
    ]
    assert [_names(db) for db in (pair.a, pair.b)] == [expected, expected]
    assert canonical(pair.a) == canonical(pair.b)
    assert [hit.source.artifact for hit in pair.b.user("ann").recall("plain")] == ["user:taken"]


def test_a_file_that_was_copied_becomes_a_new_device(pair: Pair) -> None:
    """Both copies go on, and nothing of either is lost."""
    copy = pair.place / "copy.db"
    pair.a.file.backup(copy)
    pair.say(pair.a, "from the first")
    pair.files.append(memdb.open(copy, embedder=None, clock=lambda: pair.now_ms))
    pair.say(pair.files[-1], "from the copy")
    for _ in range(2):
        for db in pair.files:
            db.sync(pair.folder)
    assert len(pair.a.sync_status(pair.folder).devices) == 3
    assert canonical(pair.a) == canonical(pair.b) == canonical(pair.files[-1])
    assert "from the copy" in "".join(canonical(pair.a))


def test_a_dry_run_changes_nothing(pair: Pair) -> None:
    """It counts what would be sent and what is there to be read."""
    pair.a.user("ann").session("trip").append("user", "more")
    before = {path: path.read_bytes() for path in pair.folder.rglob("*") if path.is_file()}
    report = pair.a.sync(pair.folder, dry_run=True)
    assert (report.sent, report.dry_run) == ({"message": 1}, True)
    assert {path: path.read_bytes() for path in before} == before
    assert pair.a.sync(pair.folder).sent == {"message": 1}


def test_a_dry_run_makes_no_file(pair: Pair) -> None:
    """A file that is absent is named."""
    path = pair.place / "none.db"
    found = CliRunner().invoke(cli, ["sync", str(path), str(pair.folder), "--dry-run"])
    assert "does not exist" in found.output
    assert not path.exists()


def _zero_page(page: bytearray) -> None:
    page[:] = bytes(len(page))


def _empty_leaf(page: bytearray) -> None:
    if page[0] in (0x0A, 0x0D):  # a leaf, of an index or a table: it says that it has no cells
        page[3:5] = b"\0\0"


@pytest.mark.parametrize("share", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_what_a_damaged_file_lost_is_not_told_as_removed(pair: Pair, share: int) -> None:
    """Whichever page is lost, the sync raises before it writes, or tells of nothing removed."""
    ann = pair.a.user("ann")
    for number in range(60):
        ann.session(f"s{number % 3}").append("user", f"message {number} " + "about Oslo " * 9)
        ann.remember(f"fact {number} about tea", key=None)
        ann.items.put(("n",), f"{number}", {"text": f"item {number}"})
        ann.state[f"k{number}"] = number
    pair.a.sync(pair.folder)
    pair.a.file.backup(pair.place / "sound.db")
    sound, raised, wrong = (pair.place / "sound.db").read_bytes(), 0, []
    size = int.from_bytes(sound[16:18], "big")
    for number in range(1, len(sound) // size, share):
        for harm in (_zero_page, _empty_leaf):
            page = bytearray(sound[number * size : (number + 1) * size])
            harm(page)
            path, folder = pair.place / "harmed.db", pair.place / "harmed"
            path.write_bytes(sound[: number * size] + page + sound[(number + 1) * size :])
            shutil.copytree(pair.folder, folder)
            try:
                with memdb.open(path, embedder=None, clock=lambda: pair.now_ms) as db:
                    db.user("ann").state["news"] = "of the harmed one"
                    db.sync(folder)
            except memdb.MemDBError:
                raised += 1
            if b'"gone"' in b"".join(
                gzip.decompress(one.read_bytes()) for one in folder.rglob("*.gz")
            ):
                wrong.append((number, harm.__name__))
            shutil.rmtree(folder)
    assert (wrong, raised > 0) == ([], True)


def test_a_message_follows_what_is_left_before_it(pair: Pair) -> None:
    """A long session stays one, and what continues removed messages is in one place everywhere."""
    said = [{"role": "user", "text": f"{number}"} for number in range(2100)]
    long, cut, new = [pair.a.user("ann").session(name) for name in ("long", "cut", "new")]
    long.extend(said)
    cut.extend(said[:60])
    new.extend(said[:40])
    pair.a.sync(pair.folder)
    pair.b.sync(pair.folder)
    for name in ("long", "cut", "new"):
        pair.b.user("ann").session(name).append("user", f"after all of {name}")
    for seq in range(20, 61):
        cut.forget(seq)
    pair.a.user("ann").delete(session="new")
    new.extend(said[:2])
    for _ in range(2):
        pair.b.sync(pair.folder)
        pair.a.sync(pair.folder)
    assert canonical(pair.a) == canonical(pair.b)
    ann = pair.b.user("ann")
    forks = {name: len(ann.session(name).branches()) for name in ("long", "cut", "new")}
    assert forks == {"long": 0, "cut": 0, "new": 1}


def test_a_branch_leaves_behind_the_same_message_everywhere(pair: Pair) -> None:
    """Whatever was forgotten, and told, before a branch was made or after it."""
    seqs, places = range(1, 3), range(3)
    sets = [set(chosen) for size in places for chosen in combinations(seqs, size)]
    cases = list(product(sets, places, ("before", "after")))
    sessions = [pair.a.user("ann").session(f"{number:03}") for number in range(len(cases))]
    wrong = []

    def forget(when: str) -> None:
        for (chosen, _, which), session in zip(cases, sessions, strict=True):
            for seq in chosen if which == when else ():
                session.forget(seq)
        pair.a.sync(pair.folder)

    def compare(*gone: str) -> None:
        for number, db in enumerate(pair.files):
            db.sync(pair.folder, pairing_key=pair.key)
            for (chosen, place, which), session in zip(cases, sessions, strict=True):
                left = [
                    seq for seq in seqs if seq <= place and not (which in gone and seq in chosen)
                ]
                same = db.user("ann").session(session.name)
                found = [(one.name, one.parent, one.leaves_at) for one in same.branches()]
                if found != [(name, None, max(left, default=0)) for name in ("one", "two")]:
                    wrong.append((number, chosen, place, which, found))

    for session in sessions:
        session.extend({"role": "user", "text": f"{seq}"} for seq in seqs)
    pair.a.sync(pair.folder)
    pair.b.sync(pair.folder)
    forget("before")
    for (_, place, _), session in zip(cases, sessions, strict=True):
        one = session.branch("one", after_seq=place)
        one.append("user", "in one")
        one.branch("two", after_seq=place).append("user", "in two")
    compare("before")
    forget("after")
    pair.open()
    compare("before", "after")
    assert wrong == []
    assert len({str(canonical(db)) for db in pair.files}) == 1


def _forget_in_branches(db: memdb.MemDB, names: list[str]) -> None:
    for name in names:
        session = db.user("ann").session(name)
        for branch in session.branches():
            own = session.branch(branch.name)
            seqs = [one.seq for one in own.messages() if one.text.startswith("said")]
            if seqs:
                own.forget(seqs)


def test_a_branch_that_two_devices_made_leaves_in_one_place(pair: Pair) -> None:
    """Wherever each of them made it, whoever spoke in it, and if that is forgotten again."""
    cases = list(product(range(3), range(3), ("", "a", "b", "ab"), (True, False)))
    names = [f"{number:03}" for number in range(len(cases))]

    def settle() -> None:
        for _ in range(3):
            for db in pair.files:
                db.sync(pair.folder, pairing_key=pair.key)

    def branch(device: str, db: memdb.MemDB, place: int) -> None:
        for name, case in zip(names, cases, strict=True):
            made = db.user("ann").session(name).branch("one", after_seq=case[place])
            if device in case[2]:
                made.append("user", f"said on {device}")

    def fits(name: str, case: tuple[int, int, str, bool]) -> bool:
        branches = pair.files[-1].user("ann").session(name).branches()
        (found,) = [one.leaves_at for one in branches if one.name == "one"]
        return found in {"a": {case[0]}, "b": {case[1]}}.get(case[2], {*case[:2]})

    for name in names:
        pair.a.user("ann").session(name).extend([{"role": "user", "text": text} for text in "123"])
    settle()
    branch("a", pair.a, 0)
    branch("b", pair.b, 1)
    settle()
    silent = [name for name, case in zip(names, cases, strict=True) if case[3]]
    for db in (pair.a, pair.b):
        _forget_in_branches(db, silent)
        db.sync(pair.folder)
    settle()
    pair.open()
    settle()
    assert len({str(canonical(db)) for db in pair.files}) == 1
    assert all(db.sync(pair.folder, dry_run=True).sent == {} for db in pair.files)
    assert [case for name, case in zip(names, cases, strict=True) if not fits(name, case)] == []


def test_metadata_of_a_fork_travels_and_changes_nothing_else(pair: Pair) -> None:
    """A fork of a session or a branch may be described; a branch that is called like one is none."""
    own = ("fork-answered", "fork-experiment")
    for db in (pair.a, pair.b):
        trip = db.user("ann").session("trip")
        for place in (trip, trip.branch("b", after_seq=0)):
            for number in range(2):
                place.append("user", f"{number} of {db.path} in {place.branch_name}")
    for name in own:
        pair.b.user("ann").session("trip").branch(name).append("user", f"in {name}")
    for db in (pair.a, pair.b, pair.a):
        db.sync(pair.folder)
    forks = [one.name for one in trip.branches() if one.name not in {"b", *own}]
    for name in forks:
        trip.branch(name).update(metadata={"about": name})
    pair.open()
    for db in (*pair.files, *pair.files):
        db.sync(pair.folder, pairing_key=pair.key)
    said = {one.name: one.metadata for one in pair.files[-1].user("ann").session("trip").branches()}
    assert len({str(canonical(db)) for db in pair.files}) == 1
    assert said == {"b": None} | dict.fromkeys(own) | {name: {"about": name} for name in forks}
    assert sorted(name[13:] for name in forks) == ["", "-b"]
    for name in forks:
        pair.a.user("ann").session("trip").branch(name).update(metadata={})
    for db in (*pair.files, *pair.files):
        db.sync(pair.folder)
    assert len({str(canonical(db)) for db in pair.files}) == 1


def _change(db: memdb.MemDB, fields: dict[str, str]) -> None:
    """Turn a field of each fact, by its uid, into its other value."""
    known = {one.uid: one for one in db.user("ann").entries.list(inactive=True, limit=1000)}
    with db.transaction():
        for uid, field in fields.items():
            old = known[uid]
            words = f"{old.text[:-4]}{'gone' if old.text.endswith('true') else 'true'}"
            value = words if field == "text" else not getattr(old, field)
            db.user("ann").entries.update(old.id, **{field: value})


def test_a_fact_that_is_changed_in_one_moment_has_one_history(pair: Pair) -> None:
    """Clocks stand still, so a fact may say again what an old version of it says."""
    changes = list(product("ab", ("pinned", "active", "text")))
    plans = list(product(changes[:3], changes, changes))
    with pair.a.transaction():
        owner = pair.a.user("ann")
        uids = [owner.remember(f"w{n}w is true").entry.uid for n in range(len(plans))]

    def sync() -> None:
        for db in (pair.a, pair.b):
            db.sync(pair.folder)

    def said(db: memdb.MemDB) -> list[str]:  # a version that came back twice has either reason
        return [line.replace('"reason": "pin"', '"reason": "update"') for line in canonical(db)]

    sync()
    for step in range(3):
        for name, db in {"a": pair.a, "b": pair.b}.items():
            found = {uid: plan[step] for uid, plan in zip(uids, plans, strict=True)}
            _change(db, {uid: field for uid, (device, field) in found.items() if device == name})
        sync()
    for _ in range(3):
        sync()
    assert set(said(pair.a)) ^ set(said(pair.b)) == set()


def test_a_fact_is_learnt_once(pair: Pair) -> None:
    """The device that heard a message learns from it, the others get the fact."""
    pair.a.user("ann").session("s").append("user", "I live in Oslo.")
    pair.a.sync(pair.folder)
    pair.b.sync(pair.folder)
    pair.b.user("ann").session("s").append("user", "I am allergic to peanuts.")
    pair.b.sync(pair.folder)
    for db in (pair.a, pair.b):
        db.jobs.run()
    for db in (pair.a, pair.b, pair.a):
        db.sync(pair.folder)
    for db in (pair.a, pair.b):
        texts = [one.text for one in db.user("ann").entries.list()]
        assert sorted(texts) == ["I am allergic to peanuts.", "I live in Oslo."]


class Writer:
    """A model that writes summaries, and counts how often it is asked."""

    name, quality, asked = "writer", "model", 0

    def summarize(self, source: list[Any], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a short text of its own."""
        self.asked += 1
        return SummaryText(f"a model on {len(source)} of depth {depth} in {limit_tokens}")


def test_what_a_model_wrote_is_paid_for_once(pair: Pair) -> None:
    """Its summaries come with the messages, or replace those that no model wrote."""
    said = [{"role": "user", "text": f"We talked about tea, no {n}."} for n in range(60)]
    writer = Writer()
    path = pair.place / "model.db"
    pair.files.append(memdb.open(path, embedder=None, clock=lambda: pair.now_ms, summarizer=writer))
    model = pair.files[-1]
    model.sync(pair.folder, pairing_key=pair.key)
    model.user("ann").session("late").extend(said)
    model.sync(pair.folder)
    pair.b.sync(pair.folder)
    pair.b.jobs.run()  # without a model
    model.user("ann").session("tea").extend(said)
    model.jobs.run()
    asked = writer.asked
    for db in (model, pair.b, model):
        db.sync(pair.folder)
    for name in ("tea", "late"):
        trees = [
            [(one.depth, one.first_seq, one.text, one.quality) for one in tree.summaries]
            for db in (model, pair.b)
            for tree in [db.user("ann").session(name).summaries.tree()]
        ]
        assert trees[0] == trees[1]
        assert {quality for *_, quality in trees[1]} == {"model"}
    pair.b.jobs.run()
    model.jobs.run()
    assert (writer.asked, asked > 1) == (asked, True)
    assert {"summary", "message"}.isdisjoint(pair.b.sync(pair.folder).sent)


def test_the_command_takes_the_pairing_key_from_a_file_of_its_user(pair: Pair) -> None:
    """A file that others may read is refused by name, and the key is in no argument."""
    path, key = pair.place / "new.db", pair.place / "key.txt"
    key.write_text(f"{pair.key}\n")
    command = ["sync", str(path), str(pair.folder), "--pairing-key-file", str(key), "--json"]
    for mode, said in ((0o644, "can be read by others"), (0o600, '"message_added": 1')):
        key.chmod(mode)
        assert said in CliRunner().invoke(cli, command).output


def test_a_scope_whose_name_is_a_secret_is_left_out(pair: Pair) -> None:
    """Where a device refuses secrets; what else it is told comes in, and no sync fails."""
    key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    pair.a.settings.update(secrets_in_entries="allow")
    pair.a.user(key).session("s").append("user", "hi")
    pair.a.user("bob").session("s").append("user", "hello")
    pair.a.sync(pair.folder)
    report = pair.b.sync(pair.folder)

    assert any("scope: " in one for one in report.refused)
    assert pair.b.user("bob").session("s").last_seq == 1
    assert {one.user for one in pair.b.scopes()} == {"ann", "bob"}
