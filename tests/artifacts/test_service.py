"""Artifacts through the front door: save, load, list, versions, delete, streams."""

import hashlib
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import each

import memdb
from memdb import MemDB

BIG = random.Random(1).randbytes(4_800_000)


def test_save_gives_version_one_and_load_gives_it_back(db: MemDB) -> None:
    """Bytes and facts of a version are as saved."""
    files = db.scope("ann").session("trip").artifacts

    saved = files.save("menu.bin", b"\0soup\xff", metadata={"a": 1}, created=7)

    loaded = files.load("menu.bin")
    assert (loaded.info, loaded.data) == (saved, b"\0soup\xff")
    assert (saved.name, saved.version, saved.session, saved.size_bytes) == (
        "menu.bin",
        1,
        "trip",
        6,
    )
    assert (saved.metadata, saved.created_ms) == ({"a": 1}, 7)
    assert saved.sha256 == hashlib.sha256(b"\0soup\xff").hexdigest()


def test_an_empty_artifact_is_an_artifact(db: MemDB) -> None:
    """No bytes can be saved, loaded and streamed."""
    files = db.scope("ann").session("trip").artifacts

    files.save("empty", b"")

    assert files.load("empty").data == b""
    with files.open("empty") as stream:
        assert stream.read() == b""


def test_versions_count_up_and_stay(db: MemDB) -> None:
    """Each save is a new version; the old ones are unchanged, newest listed first."""
    files = db.scope("ann").session("trip").artifacts
    saved = [files.save("menu.md", text) for text in ("soup", "fish", "cake")]

    assert [one.version for one in saved] == [1, 2, 3]
    assert files.versions("menu.md") == saved[::-1]
    assert files.load("menu.md").text == "cake"
    assert files.load("menu.md", 1).text == "soup"


def test_versions_of_an_unknown_name_is_empty(db: MemDB) -> None:
    """Absence is no error for versions."""
    assert db.scope("ann").session("trip").artifacts.versions("x") == []


@pytest.mark.parametrize("version", [None, 2], ids=["newest", "numbered"])
def test_load_without_the_artifact_is_not_found(db: MemDB, version: int | None) -> None:
    """The error names the artifact, with the number when one was asked."""
    files = db.scope("ann").session("trip").artifacts
    files.save("other", b"x")

    with pytest.raises(memdb.NotFound) as caught:
        files.load("x", version)

    assert caught.value.kind == "artifact"
    assert caught.value.ref == ("x" if version is None else "x@2")


def test_a_version_number_never_comes_back(db: MemDB) -> None:
    """Not after the newest was deleted, and not after all were."""
    files = db.scope("ann").session("trip").artifacts
    [files.save("menu.md", text) for text in ("soup", "fish")]
    files.delete("menu.md", 2)
    third = files.save("menu.md", "cake")
    files.delete("menu.md")

    fourth = files.save("menu.md", "tart")

    assert (third.version, fourth.version) == (3, 4)


def test_delete_removes_one_version_or_all(db: MemDB) -> None:
    """True when something went, False when nothing was there."""
    files = db.scope("ann").session("trip").artifacts
    [files.save("menu.md", text) for text in ("soup", "fish")]

    assert files.delete("menu.md", 1) is True
    assert files.delete("menu.md", 1) is False
    assert [one.version for one in files.versions("menu.md")] == [2]
    assert files.delete("menu.md") is True
    assert files.delete("menu.md") is False
    assert (files.list(), files.delete("never")) == ([], False)


def test_user_names_are_shared_between_sessions(db: MemDB) -> None:
    """A `user:` name saved in one session is the same in another and in the scope."""
    ann = db.scope("ann")
    ann.session("a").artifacts.save("user:me.md", "one")

    second = ann.session("b").artifacts.save("user:me.md", "two")
    third = ann.artifacts.save("me.md", "three")

    assert (second.version, third.version, third.session) == (2, 3, None)
    assert ann.artifacts.load("user:me.md").text == "three"


def test_other_names_belong_to_their_session(db: MemDB) -> None:
    """The same name in another session counts from 1."""
    ann = db.scope("ann")
    ann.session("a").artifacts.save("menu.md", "soup")

    assert ann.session("b").artifacts.save("menu.md", "fish").version == 1
    assert ann.session("a").artifacts.load("menu.md").text == "soup"


def test_an_empty_session_name_is_refused(db: MemDB) -> None:
    """It must not turn a private artifact into a shared one."""
    with pytest.raises(memdb.InvalidInput, match="session"):
        db.scope("ann").session("").artifacts.save("menu.md", b"soup")


def test_artifacts_of_another_scope_are_not_found(db: MemDB) -> None:
    """Shared means shared inside one scope."""
    db.scope("ann").artifacts.save("me.md", "Ann")

    with pytest.raises(memdb.NotFound):
        db.scope("bob").artifacts.load("me.md")

    assert db.scope("bob").artifacts.list() == []


def test_list_gives_the_newest_of_each_name_shared_first(db: MemDB) -> None:
    """A session sees its own and the shared names; a scope sees all."""
    ann = db.scope("ann")
    ann.session("a").artifacts.save("z.md", "1")
    ann.session("a").artifacts.save("z.md", "2")
    ann.session("b").artifacts.save("y.md", "1")
    ann.artifacts.save("me.md", "1")

    assert [(one.name, one.version) for one in ann.session("a").artifacts.list()] == [
        ("user:me.md", 1),
        ("z.md", 2),
    ]
    assert [one.name for one in ann.artifacts.list()] == ["user:me.md", "z.md", "y.md"]
    assert [one.name for one in ann.session("b").artifacts.list()] == ["user:me.md", "y.md"]


def test_equal_bytes_are_stored_once(db: MemDB) -> None:
    """Two names, two scopes, one blob."""
    db.scope("ann").artifacts.save("a", b"same" * 1_000)
    db.scope("bob").artifacts.save("b", b"same" * 1_000)

    with db._db.read() as tx:
        assert tx.all("SELECT count(*) FROM blobs") == [(1,)]


def test_shared_bytes_go_with_their_last_version(db: MemDB) -> None:
    """A blob stays while somebody needs it, and not longer."""
    db.scope("ann").artifacts.save("a", b"same")
    db.scope("bob").artifacts.save("b", b"same")
    db.scope("ann").artifacts.delete("a")

    assert db.scope("bob").artifacts.load("b").data == b"same"
    db.scope("bob").artifacts.delete("b")
    with db._db.read() as tx:
        assert tx.all("SELECT blob_no FROM blobs UNION ALL SELECT blob_no FROM blob_chunks") == []


@pytest.mark.parametrize(
    "size",
    [1, 262_143, 262_144, 262_145, 4_194_304, 4_800_000],
    ids=["one byte", "below a chunk", "a chunk", "above a chunk", "a step", "large"],
)
def test_every_size_comes_back(file_db: MemDB, size: int) -> None:
    """At the edges of chunks and steps, from bytes and from a stream."""
    files = file_db.scope("ann").artifacts
    data = BIG[:size]

    saved = files.save("a", data)
    streamed = files.save("b", io.BytesIO(data))

    assert files.load("a").data == data
    assert files.load("b").data == data
    assert (saved.sha256, saved.size_bytes) == (streamed.sha256, size)
    with files.open("b") as stream:
        assert stream.read() == data


def test_a_stream_can_seek(file_db: MemDB) -> None:
    """Any place of a large artifact can be read without what is before it."""
    files = file_db.scope("ann").artifacts
    files.save("a", BIG)

    with files.open("a") as stream:
        stream.seek(3_000_000)
        middle = stream.read(100)
        stream.seek(-10, io.SEEK_END)
        end = stream.read()

    assert middle == BIG[3_000_000:3_000_100]
    assert end == BIG[-10:]


def test_a_stream_of_a_deleted_artifact_says_so(file_db: MemDB) -> None:
    """Reading on after the delete is NotFound, not a short file."""
    files = file_db.scope("ann").artifacts
    files.save("a", BIG)

    with files.open("a") as stream:
        stream.read(10)
        files.delete("a")
        with pytest.raises(memdb.NotFound):
            stream.read()


def test_a_source_that_fails_leaves_nothing(db: MemDB) -> None:
    """A read error after megabytes removes what was written and is passed on."""

    class Broken(io.RawIOBase):
        left = 20

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            if not self.left:
                raise OSError("cable pulled")
            return BIG[: 1 << 18]

    with pytest.raises(OSError, match="cable"):
        db.scope("ann").artifacts.save("a", Broken())

    with db._db.read() as tx:
        assert tx.all("SELECT blob_no FROM blobs UNION ALL SELECT blob_no FROM blob_chunks") == []


def test_a_source_with_short_reads_is_read_to_its_end(db: MemDB) -> None:
    """A pipe gives what it has; chunks are filled up all the same."""

    class Drops(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 1_000))

    files = db.scope("ann").artifacts
    files.save("a", Drops(BIG[:600_000]))

    assert files.load("a").data == BIG[:600_000]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(5, id="a number"),
        pytest.param(None, id="nothing"),
        pytest.param(io.StringIO("text"), id="a text file"),
    ],
)
def test_data_that_cannot_be_stored_is_refused(db: MemDB, data: Any) -> None:
    """The error is memdb's own and names the field."""
    with pytest.raises(memdb.InvalidInput, match="data"):
        db.scope("ann").artifacts.save("a", data)

    assert db.scopes() == []


def test_a_version_links_to_its_message(db: MemDB) -> None:
    """It says which message made it, until that message's session is gone."""
    ann = db.scope("ann")
    chat = ann.session("trip")
    chat.append("assistant", "here is the menu")

    own = chat.artifacts.save("menu.md", "soup", message_seq=1)
    shared = chat.artifacts.save("user:menu.md", "soup", message_seq=1)
    chat.delete()

    assert (own.message_session, own.message_seq) == ("trip", 1)
    assert (shared.message_session, shared.message_seq) == ("trip", 1)
    assert ann.artifacts.load("menu.md").info.message_session is None


def test_a_link_to_an_unknown_message_is_refused(db: MemDB) -> None:
    """Nothing is stored under a link that points nowhere."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "hi")

    with pytest.raises(memdb.NotFound) as caught:
        chat.artifacts.save("menu.md", "soup", message_seq=2)

    assert caught.value.ref == "trip#2"
    assert chat.artifacts.list() == []


def test_a_message_link_needs_a_session(db: MemDB) -> None:
    """A number alone names no message."""
    with pytest.raises(memdb.InvalidInput, match="message_seq"):
        db.scope("ann").artifacts.save("menu.md", "soup", message_seq=1)


@each(
    "name, data, given, expected",
    [
        pytest.param("a.md", b"x", None, "text/markdown", id="markdown"),
        pytest.param("a.PNG", b"x", None, "image/png", id="ending in capitals"),
        pytest.param("a.json", b"{}", None, "application/json", id="json"),
        pytest.param("a.yaml", b"{}", None, "application/yaml", id="yaml"),
        pytest.param("a", "text", None, "text/plain", id="text without ending"),
        pytest.param("a", b"\xff\0", None, "application/octet-stream", id="bytes without ending"),
        pytest.param("a", ("é" * 5_000).encode()[:4_097], None, "text/plain", id="cut character"),
        pytest.param(
            "a.md", b"x", "text/x-mine; charset=utf-8", "text/x-mine; charset=utf-8", id="given"
        ),
    ],
)
def test_mime_is_given_or_guessed(
    db: MemDB, name: str, data: Any, given: str | None, expected: str
) -> None:
    """From the argument, the ending, else the bytes."""
    assert db.scope("ann").artifacts.save(name, data, mime=given).mime == expected


def test_only_the_newest_text_is_searched(db: MemDB) -> None:
    """A word of an old version is not found; deleting the newest brings it back."""
    ann = db.scope("ann")
    ann.artifacts.save("menu.md", "peanut soup")
    ann.artifacts.save("menu.md", "walnut cake")

    before = ann.recall("peanut", kinds=["artifact"])
    ann.artifacts.delete("menu.md", 2)
    (hit,) = ann.recall("peanut", kinds=["artifact"])

    assert not before
    assert (hit.source.artifact, hit.source.version) == ("user:menu.md", 1)


def test_bytes_that_are_no_text_are_not_searched(db: MemDB) -> None:
    """Only the name of a picture is found."""
    ann = db.scope("ann")
    ann.artifacts.save("peanut.png", b"walnut")

    assert list(ann.recall("walnut", kinds=["artifact"])) == []
    assert [hit.source.artifact for hit in ann.recall("peanut", kinds=["artifact"])] == [
        "user:peanut.png"
    ]


def test_a_deleted_artifact_takes_no_place_in_an_answer(db: MemDB) -> None:
    """Its name must not push a living artifact out of the limit."""
    files = db.scope("ann").session("trip").artifacts
    files.save("menu.md", "menu menu menu")
    files.save("menu.txt", "what is on the menu tonight, and for whom")
    files.delete("menu.md")

    (hit,) = db.scope("ann").recall("menu md", limit=1, kinds=["artifact"])

    assert hit.source.artifact == "menu.txt"


@each(
    "name",
    [
        "a/b/c.md",
        "../../etc/passwd",
        'it\'s "quoted"',
        "100%",
        "_under_",
        "user:x/y",
        "user:user:x",
        "名前.md",
        "n" * 1_000,
        "n" * 1_024,
        "a@2",
        " spaced ",
        "tab\tline\n",
        "'; DROP TABLE artifacts; --",
        "*",
    ],
)
def test_names_are_opaque(db: MemDB, name: str) -> None:
    """Whatever stands in a name, it names its own artifact and nothing else."""
    files = db.scope("ann").session("trip").artifacts
    files.save("other", b"other")

    files.save(name, b"bytes")

    assert files.load(name).data == b"bytes"
    assert sorted(one.name for one in files.list()) == sorted(["other", name])
    assert files.delete(name) is True
    assert [one.name for one in files.list()] == ["other"]


def test_names_do_not_match_by_prefix_or_case(db: MemDB) -> None:
    """`menu`, `Menu` and `menu%` are three artifacts."""
    files = db.scope("ann").session("trip").artifacts
    [files.save(name, name) for name in ("menu", "Menu", "menu%", "menu.md")]

    assert [files.load(name).text for name in ("menu", "Menu", "menu%", "menu.md")] == [
        "menu",
        "Menu",
        "menu%",
        "menu.md",
    ]
    assert files.delete("menu%") is True
    assert len(files.list()) == 3


def test_user_alone_is_no_name(db: MemDB) -> None:
    """The prefix must be followed by something."""
    with pytest.raises(memdb.InvalidInput, match="user:"):
        db.scope("ann").session("trip").artifacts.save("user:", b"x")


def test_saving_makes_the_session(db: MemDB) -> None:
    """An artifact may come before the first message."""
    ann = db.scope("ann")

    ann.session("trip").artifacts.save("a", b"x")

    assert [(one.name, one.message_count) for one in ann.sessions()] == [("trip", 0)]
    assert ann.session("trip").append("user", "hi").seq == 1


def test_artifacts_survive_opening_again(path: str, open_db: Callable[..., MemDB]) -> None:
    """A large one too, byte for byte."""
    first = open_db(path)
    first.scope("ann").artifacts.save("a", BIG)
    first.close()

    assert open_db(path).scope("ann").artifacts.load("a").data == BIG


def test_export_writes_a_version_to_a_file(db: MemDB, tmp_path: Path) -> None:
    """The file has the bytes of the version, and nothing is left beside it."""
    files = db.scope("ann").session("trip").artifacts
    files.save("big.bin", BIG)
    files.save("big.bin", b"small")
    out = tmp_path / "big.bin"

    assert files.export("big.bin", out, 1) == len(BIG)
    assert out.read_bytes() == BIG
    assert files.export("big.bin", out, replace=True) == 5
    assert out.read_bytes() == b"small"
    assert list(tmp_path.glob("*.partial")) == []


def test_export_overwrites_only_if_told_and_never_a_database(
    file_db: MemDB, tmp_path: Path
) -> None:
    """A file that is there stays, an absent version writes none."""
    files = file_db.scope("ann").artifacts
    files.save("a.txt", "text")
    out = tmp_path / "a.txt"
    out.write_text("mine")

    with pytest.raises(memdb.AlreadyExists):
        files.export("a.txt", out)
    with pytest.raises(memdb.NotFound):
        files.export("b.txt", tmp_path / "b.txt")
    with pytest.raises(memdb.FileError, match="is a file that this program has open"):
        files.export("a.txt", file_db.path, replace=True)
    with pytest.raises(memdb.FileError, match="cannot be written"):
        files.export("a.txt", tmp_path / "no folder" / "a.txt")

    assert out.read_text() == "mine"
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize("order", ["name", "updated"])
def test_a_prefix_is_taken_as_names_are(db: MemDB, order: Any) -> None:
    """A scope takes shared names with `user:` and without; a session as they are shown."""
    ann = db.scope("ann")
    trip = ann.session("trip")
    ann.artifacts.save("plants.md", "1")
    ann.artifacts.save("user:plums.md", "2")
    ann.artifacts.save("garden.md", "3")
    trip.artifacts.save("plan.md", "4")
    trip.artifacts.save("use.md", "5")

    def names(of: Any, prefix: str) -> set[str]:
        pages, after = set(), None
        while True:
            page = of.artifacts.list(prefix=prefix, order=order, limit=1, after=after)
            pages |= {one.name for one in page}
            if page.next is None:
                return pages
            after = page.next

    shared = {"user:plants.md", "user:plums.md"}
    assert names(ann, "pl") == {*shared, "plan.md"}
    assert names(ann, "user:pl") == shared
    assert names(ann, "user:") == {*shared, "user:garden.md"}
    assert names(ann, "") == {*shared, "user:garden.md", "plan.md", "use.md"}
    assert names(ann, "us") == {"use.md"}
    assert names(trip, "pl") == {"plan.md"}
    assert names(trip, "us") == {*shared, "user:garden.md", "use.md"}
