"""Archiving a conversation: smaller, and nobody notices."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from row_digests import renew_digests

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.api.session import Session
from memdb.engine.segments import SEGMENT_CHARS, SEGMENT_MESSAGES

PARTS = [{"type": "text", "text": "见 Oslo 🚢"}, {"type": "tool_call", "id": "c1", "name": "f"}]

TWO_ARCHIVE = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    print("ready", flush=True)
    sys.stdin.readline()
    print(db.scope("ann").session("trip").archive(keep_last=int(sys.argv[2])).messages)
"""

APPEND = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, counter="estimate", durability="process") as db:
    chat = db.scope("ann").session("trip")
    print("ready", flush=True)
    for n in range(301, 501):
        chat.append("user", f"message {n}")
"""


def rich(count: int) -> list[dict[str, Any]]:
    """Return messages of every kind, over and over."""
    kinds: list[dict[str, Any]] = [
        {"role": "user", "text": "We fly to Oslo with flight {n}.", "author": "Ann"},
        {"role": "assistant", "parts": PARTS, "metadata": {"n": None, "é": [1.5, "x"]}},
        {"role": "tool", "text": "", "author": "Bob"},
        {"role": "user", "text": "我爱北京 number {n} 🐈", "author": "Bob"},
        {"role": "system", "text": "line\r\n\ttabs  and \u2028 \\u0000 {n}", "metadata": {}},
        {"role": "user", "text": "Ann books hotels in Bergen {n}", "author": "Ann", "parts": []},
    ]
    return [
        {**(kind := kinds[n % 6]), "text": kind.get("text", "").replace("{n}", str(n))}
        | {"external_id": f"m{n}", "created_ms": n * 1000}
        for n in range(1, count + 1)
    ]


def view(db: MemDB, name: str = "trip") -> dict[str, Any]:
    """Return everything that a reader can see of Ann's session."""
    ann = db.scope("ann")
    chat = ann.session(name)
    return {
        "messages": [*chat.messages()],
        "a page": [*chat.messages(after=100, limit=60)],
        "last": chat.last(250),
        "get": [chat.get(seq) for seq in (1, 128, 129, 300)],
        "find": [chat.find(f"m{n}") for n in (1, 2, 140, 299, 9999)],
        "window": Host(chat).window(budget_tokens=4000),
        "search": [
            chat.recall(words, 50, kinds=("message",), by="words")
            for words in ("Oslo", "北京", "hotel", "ann", "number 4")
        ],
        "recall": [
            ann.recall(words, 20, since=since, explain=True)
            for words in ("flights to Oslo", "Where does Ann book?", "北京")
            for since in (None, 100_000)
        ],
        "sessions": [one.replace(archived_count=0) for one in ann.sessions()],
        "export": [*db.export_lines()],
    }


def filled(db: MemDB, count: int = 300, name: str = "trip") -> Session:
    """Return Ann's session with *count* messages of every kind, with vectors."""
    chat = db.scope("ann").session(name)
    chat.extend(rich(count))
    db.jobs.run()
    return chat


def spans(db: MemDB) -> list[tuple[int, int, int]]:
    """Return first seq, last seq and count of each segment."""
    with db._db.read() as tx:
        return tx.all(
            "SELECT first_seq, last_seq, message_count FROM archive_segments "
            "ORDER BY session_id, first_seq"
        )


def archived(db: MemDB) -> int:
    """Return how many rows have no text."""
    with db._db.read() as tx:
        (count,) = tx.one("SELECT count(*) FROM messages WHERE text IS NULL") or (0,)
    return int(count)


def test_nothing_looks_different(db: MemDB) -> None:
    """Reading, searching, recalling and exporting give the same, archived and brought back."""
    chat = filled(db)
    before = view(db)

    moved = chat.archive(keep_last=50)
    cold = view(db)
    back = chat.unarchive()

    assert (moved.messages, back.messages) == (250, 250)
    assert before["search"][0] != []
    assert cold == before
    assert view(db) == before


def test_every_row_comes_back_as_it_was(file_db: MemDB, dump: Any) -> None:
    """Unarchiving leaves each column of each table as it was before archiving, but the count."""
    chat = filled(file_db)

    def rows() -> list[Any]:
        return [one for one in dump(file_db.path) if one[0] != "changes"]  # how often one changed

    before = rows()

    chat.archive(keep_last=10)
    between = rows()
    chat.unarchive()

    assert between != before
    assert rows() == before


@pytest.mark.parametrize(
    "text",
    ["x" * 300_000, "猫" * 60_000, "🐈\u200d⬛" * 2_000, "", " ", "\x01\x1f\x7f"],
    ids=["300 KB", "Chinese", "emoji", "empty", "a blank", "control characters"],
)
def test_any_text_survives(db: MemDB, text: str) -> None:
    """Huge, empty or strange."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": part} for part in ("before", text, "after")])

    chat.archive(keep_last=0)

    assert archived(db) == 3
    assert [message.text for message in chat.messages()] == ["before", text, "after"]


@pytest.mark.parametrize(
    ("keep_last", "moved"),
    [(0, 300), (1, 299), (299, 1), (300, 0), (1000, 0), ((1 << 24) - 1, 0)],
    ids=str,
)
def test_the_newest_messages_stay(db: MemDB, keep_last: int, moved: int) -> None:
    """As many as asked; the others move."""
    chat = filled(db)

    done = chat.archive(keep_last=keep_last)

    assert (done.messages, archived(db)) == (moved, moved)
    assert len([*chat.messages()]) == 300


@pytest.mark.parametrize("keep_last", [-1, 1 << 24, 1.5, "10", None, True], ids=str)
def test_a_wrong_keep_last_is_refused(db: MemDB, keep_last: Any) -> None:
    """Nothing is moved."""
    chat = filled(db, 10)

    with pytest.raises(memdb.InvalidInput, match="keep_last"):
        chat.archive(keep_last=keep_last)

    assert archived(db) == 0


def test_segments_stand_at_fixed_places(db: MemDB) -> None:
    """They are blocks of seqs, so what is archived later goes into the same segments."""
    chat = filled(db)
    parts = [chat.archive(keep_last=keep) for keep in (290, 150, 100, 100, 0)]

    assert [part.messages for part in parts] == [10, 140, 50, 0, 100]
    assert spans(db) == [(1, 128, 128), (129, 256, 128), (257, 300, 44)]


def test_the_same_messages_make_the_same_segments(db: MemDB) -> None:
    """In one call or in many."""
    one, many = filled(db, 300, "one"), filled(db, 300, "many")

    one.archive(keep_last=7)
    [many.archive(keep_last=keep) for keep in range(300, 6, -13)]
    many.archive(keep_last=7)

    with db._db.read() as tx:
        rows = tx.all("SELECT data, sha256 FROM archive_segments ORDER BY session_id, first_seq")
    assert len(rows) == 6
    assert rows[:3] == rows[3:]


def test_large_messages_make_more_segments(db: MemDB) -> None:
    """So that reading one does not unpack megabytes."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": str(n) * (SEGMENT_CHARS // 2)} for n in range(5)])

    chat.archive(keep_last=1)
    chat.archive(keep_last=0)

    assert spans(db) == [(1, 2, 2), (3, 4, 2), (5, 5, 1)]
    assert [message.text[:1] for message in chat.messages()] == list("01234")


def test_archiving_twice_moves_only_what_became_cold(db: MemDB) -> None:
    """What is archived stays, and stays the same."""
    chat = filled(db)
    first = chat.archive(keep_last=100)
    again = chat.archive(keep_last=100)
    chat.extend([{"role": "user", "text": f"new {n}"} for n in range(20)])

    third = chat.archive(keep_last=100)

    assert (first.messages, again, third.messages) == (200, memdb_archived(), 20)


def memdb_archived() -> Any:
    """Return what doing nothing gives."""
    from memdb.models.summaries import Archived

    return Archived(0, 0, 0, 0)


def test_what_was_done_is_told(db: MemDB) -> None:
    """Messages, segments, and bytes before and after, the other way round for the way back."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": "é" * 100}, {"role": "user", "text": "", "parts": [1]}])

    there, back = chat.archive(keep_last=0), chat.unarchive()

    assert (there.messages, there.segments, there.bytes_before) == (2, 1, 204)
    assert 0 < there.bytes_after < 60
    assert (back.messages, back.segments) == (2, 1)
    assert (back.bytes_before, back.bytes_after) == (there.bytes_after, there.bytes_before)


def test_an_absent_session_has_nothing_to_archive(db: MemDB) -> None:
    """No error, and no session afterwards."""
    chat = db.scope("ann").session("nowhere")

    assert (chat.archive(), chat.unarchive()) == (memdb_archived(), memdb_archived())
    assert db.scope("ann").sessions() == []


def test_each_step_is_told(db: MemDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step has a bounded number of messages, and its own transaction."""
    monkeypatch.setattr("memdb.conversations.archive.STEP_MESSAGES", SEGMENT_MESSAGES)
    monkeypatch.setattr("memdb.conversations.archive.STEP_SEGMENTS", 2)
    chat = filled(db)
    steps: list[tuple[int, int]] = []
    chat.archive(keep_last=20, progress=lambda count: steps.append((count, archived(db))))

    chat.unarchive(progress=lambda count: steps.append((count, archived(db))))

    assert steps == [(128, 128), (128, 256), (24, 280), (256, 24), (24, 0)]


def test_a_step_has_a_bounded_size(db: MemDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long messages make shorter steps."""
    monkeypatch.setattr("memdb.conversations.archive.STEP_CHARS", 1000)
    steps: list[int] = []
    chat = filled(db)

    chat.archive(keep_last=0, progress=steps.append)

    assert steps == [128, 128, 44]


def test_an_error_of_the_caller_stops_between_steps(
    db: MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was moved is moved; the next call does the rest."""
    monkeypatch.setattr("memdb.conversations.archive.STEP_MESSAGES", 1)
    chat = filled(db)
    before = view(db)

    def stop(_: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError):
        chat.archive(keep_last=0, progress=stop)
    half = archived(db)
    rest = chat.archive(keep_last=0)

    assert (half, rest.messages) == (128, 172)
    assert view(db) == before


def test_an_archived_message_is_not_added_again(db: MemDB) -> None:
    """Its external id still belongs to it: the same is returned, another is refused."""
    chat = filled(db, 20)
    chat.archive(keep_last=0)
    same, other = rich(20)[0], {**rich(20)[2], "text": "something else"}

    again = chat.extend([same, {"role": "user", "text": "new", "external_id": "new"}])
    with pytest.raises(memdb.AlreadyExists):
        chat.extend([other])

    assert [message.seq for message in again] == [1, 21]
    assert again[0].parts == PARTS
    assert chat.last_seq == 21


def change(chat: Session, how: str) -> None:
    """Edit or erase the second message."""
    chat.edit(2, "We sail to Bergen.") if how == "edit" else Host(chat).erase(2)


@pytest.mark.parametrize("how", ["edit", "erase"])
def test_a_changed_message_leaves_the_archive_with_its_segment_alone(db: MemDB, how: str) -> None:
    """The index and the segments have no word of the old text; other segments stay as they are."""
    chat = db.scope("ann").session("trip")
    count = 3 * SEGMENT_MESSAGES
    chat.extend([{"role": "user", "text": f"penguin{n} swims"} for n in range(1, count + 1)])
    chat.archive(keep_last=0)
    before = Host(chat).segments()

    change(chat, how)

    assert Host(chat).segments() == before[1:]
    assert db.file.check(deep=True) == []
    found = chat.recall("penguin2 swims", min_score=0, kinds=("message",), limit=count)
    assert "penguin2 swims" not in [hit.text for hit in found]
    assert not any("penguin2" in (hit.why or "") and hit.source.seq == 2 for hit in found)
    assert chat.last_seq == count


def test_a_message_archived_in_the_middle_of_its_edit_is_changed_whole(
    open_db: Callable[..., MemDB], path: str
) -> None:
    """Another program archives while the host's detector reads the new text."""
    other = open_db(path)

    def archive_it(text: str) -> list[Any]:
        if "Bergen" in text:
            other.scope("ann").session("trip").archive(keep_last=0)
        return []

    db = open_db(path, secret_detector=archive_it)
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"penguin{n} swims"} for n in range(1, 9)])
    chat.archive(keep_last=6)

    change(chat, "edit")

    assert chat.get(2).text == "We sail to Bergen."
    assert db.file.check(deep=True) == []


def test_importing_what_is_archived_adds_nothing(db: MemDB, tmp_path: Any) -> None:
    """An export of before meets the same messages; one of after makes them in another file."""
    chat = filled(db)
    db.export(tmp_path / "before.jsonl")
    chat.archive(keep_last=10)
    db.export(tmp_path / "after.jsonl")

    report = db.import_file(tmp_path / "before.jsonl")

    assert report.messages_added == 0
    assert (tmp_path / "after.jsonl").read_bytes() == (tmp_path / "before.jsonl").read_bytes()


def test_messages_without_a_vector_get_one_when_archived(db: MemDB, embedder: Any) -> None:
    """The job that was due reads the segments."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": text} for text in ("tea", "", "cake", "milk")])
    chat.archive(keep_last=1)

    db.jobs.run()

    assert embedder.calls[:3] == ["tea", "cake", "milk"]
    assert db.file.info().spaces[0].vectors == 3


def test_rebuild_finds_archived_messages_without_a_vector(
    db: MemDB, lose_vectors: Callable[[MemDB], None]
) -> None:
    """They become due like others."""
    chat = filled(db, 20)
    chat.archive(keep_last=0)
    lose_vectors(db)

    db.file.rebuild()
    db.jobs.run()

    assert db.file.info().spaces[0].vectors > 10


def test_a_deleted_session_leaves_nothing_in_the_archive(db: MemDB) -> None:
    """Its segments and words go; those of another session stay."""
    chat, other = filled(db), filled(db, 20, "other")
    [one.archive(keep_last=0) for one in (chat, other)]

    assert chat.delete().removed["sessions"] == 1

    assert spans(db) == [(1, 20, 20)]
    assert {hit.source.session for hit in db.scope("ann").recall("Oslo", 50)} == {"other"}
    with db._db.read() as tx:
        assert tx.words.find_archived_differences() == []


def damage(raw: Any, path: str, sql: str) -> None:
    """Change a closed file with plain SQL."""
    connection = raw(path)
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE archive_segments SET data = x'00' WHERE first_seq = 129",
        "UPDATE archive_segments SET sha256 = zeroblob(32) WHERE first_seq = 129",
        "DELETE FROM archive_segments WHERE first_seq = 129",
    ],
    ids=["cannot be unpacked", "other bytes", "missing"],
)
def test_a_damaged_segment_is_told(path: str, open_db: Any, raw: Any, harm: str) -> None:
    """Whoever reads a message of it gets a clear error; the others are read as ever."""
    with open_db(path) as db:
        filled(db).archive(keep_last=0)
    damage(raw, path, harm)
    db = open_db(path)
    chat = db.scope("ann").session("trip")

    for read in (
        lambda: chat.get(200),
        lambda: [*chat.messages()],
        lambda: chat.find("m200"),
        lambda: [*db.export_lines()],
        lambda: chat.recall("Oslo", 200, kinds=("message",), by="words"),
        lambda: chat.append("user", "x", external_id="m200"),
    ):
        with pytest.raises(memdb.Corrupt, match="is archived, and its segment is damaged"):
            read()

    assert len(chat.messages(limit=127)) == 127
    assert len(chat.last(44)) == 44
    assert {"segment", "archived_without_segment"} & {one.code for one in db.file.check()}


def test_unarchiving_stops_at_a_damaged_segment(path: str, open_db: Any, raw: Any) -> None:
    """Nothing of it is lost; nor does archiving more write over it."""
    with open_db(path) as db:
        filled(db).archive(keep_last=0)
    damage(raw, path, "UPDATE archive_segments SET data = x'00' WHERE first_seq = 257")
    db = open_db(path)
    chat = db.scope("ann").session("trip")
    chat.append("user", "new")

    for move in (chat.unarchive, lambda: chat.archive(keep_last=0)):
        with pytest.raises(memdb.Corrupt, match="damaged"):
            move()

    assert spans(db) == [(1, 128, 128), (129, 256, 128), (257, 300, 44)]
    assert archived(db) == 300


def test_a_segment_whose_row_is_gone_is_not_thrown_away(path: str, open_db: Any, raw: Any) -> None:
    """It may be all that is left of the message."""
    with open_db(path) as db:
        filled(db, 10).archive(keep_last=0)
    damage(raw, path, "DELETE FROM messages WHERE id & 255 = 5")
    db = open_db(path)

    with pytest.raises(memdb.Corrupt, match="other messages than were archived"):
        db.scope("ann").session("trip").unarchive()

    assert spans(db) == [(1, 10, 10)]


@pytest.mark.parametrize(
    "harm", ["UPDATE archive_segments SET data = x'00'", "DELETE FROM archive_segments"]
)
def test_a_damaged_session_can_be_deleted(path: str, open_db: Any, raw: Any, harm: str) -> None:
    """Its words go too, though nothing says which they were."""
    with open_db(path) as db:
        filled(db, 20).archive(keep_last=0)
    damage(raw, path, harm)
    db = open_db(path)
    filled(db, 20, "other").archive(keep_last=0)

    assert db.scope("ann").session("trip").delete().removed["sessions"] == 1

    assert db.file.check(deep=True) == []
    assert {hit.source.session for hit in db.scope("ann").recall("Oslo")} == {"other"}


def test_a_message_that_no_segment_can_hold_is_told(db: MemDB) -> None:
    """Only another program can have stored one; it stays where it is."""
    chat = filled(db, 5)
    with db._db.write() as tx:
        tx.run("UPDATE messages SET parts = '' WHERE id & 255 = 3")
    with pytest.raises(memdb.Corrupt, match="would change in the archive"):
        chat.archive(keep_last=0)
    with db._db.write() as tx:
        tx.run("UPDATE messages SET parts = NULL WHERE id & 255 = 3")
        renew_digests(tx, "messages")

    assert archived(db) == 0


def test_what_changes_meanwhile_is_read_again(
    file_db: MemDB, open_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process archives between reading and moving: each message moves once."""
    chat = filled(file_db)
    before = view(file_db)
    other = open_db(file_db.path).scope("ann").session("trip")
    from memdb.tables import archive

    real, turns = archive.to_segments, [lambda: other.archive(keep_last=200), other.unarchive]

    def interfere(contents: Any) -> Any:
        if turns and threading.current_thread() is threading.main_thread():
            turn = turns.pop(0)
            monkeypatch.setattr(archive, "to_segments", real)
            turn()
            monkeypatch.setattr(archive, "to_segments", interfere)
        return real(contents)

    monkeypatch.setattr(archive, "to_segments", interfere)

    done = chat.archive(keep_last=0)

    assert turns == []
    assert (done.messages, archived(file_db)) == (300, 300)
    assert view(file_db) == before


def test_unarchiving_beside_another_brings_each_message_back_once(
    file_db: MemDB, open_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that comes second reads again, and finds nothing."""
    chat = filled(file_db)
    before = view(file_db)
    chat.archive(keep_last=0)
    other = open_db(file_db.path).scope("ann").session("trip")
    from memdb.tables import archive

    real = archive.opened

    def interfere(session: int, known: Any) -> Any:
        monkeypatch.setattr(archive, "opened", real)
        other.unarchive()
        return real(session, known)

    monkeypatch.setattr(archive, "opened", interfere)

    assert chat.unarchive().messages == 0
    assert view(file_db) == before


def test_a_session_that_is_deleted_meanwhile_is_left_alone(
    file_db: MemDB, open_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it comes back."""
    chat = filled(file_db)
    other = open_db(file_db.path).scope("ann").session("trip")
    from memdb.tables import archive

    real = archive.to_segments

    def interfere(contents: Any) -> Any:
        other.delete()
        return real(contents)

    monkeypatch.setattr(archive, "to_segments", interfere)

    assert chat.archive(keep_last=0).messages == 0
    assert spans(file_db) == []


def test_two_processes_may_archive_one_session(
    path: str, open_db: Any, start_child: Callable[..., Any]
) -> None:
    """Together they move each message once."""
    with open_db(path) as db:
        filled(db, 900)
        before = [*db.scope("ann").session("trip").messages()]
    children = [start_child(TWO_ARCHIVE, path, keep) for keep in (0, 100)]
    assert [child.stdout.readline() for child in children] == ["ready\n", "ready\n"]

    told = [child.communicate("go\n", timeout=60) for child in children]

    db = open_db(path)
    assert [err for _, err in told] == ["", ""]
    assert sum(int(out) for out, _ in told) == archived(db) == 900
    assert [*db.scope("ann").session("trip").messages()] == before
    assert db.file.check(deep=True) == []


def test_others_append_meanwhile(
    file_db: MemDB, start_child: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message is lost, and the order stays."""
    monkeypatch.setattr("memdb.conversations.archive.STEP_MESSAGES", 1)
    chat = file_db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"message {n}"} for n in range(1, 301)])
    child = start_child(APPEND, file_db.path)
    assert child.stdout.readline() == "ready\n"
    moved = 0
    while child.poll() is None:
        moved += chat.archive(keep_last=5).messages
    moved += chat.archive(keep_last=5).messages

    assert (child.returncode, moved) == (0, 495)
    assert [one.text for one in chat.messages()] == [f"message {n}" for n in range(1, 501)]


def test_many_readers_see_whole_messages_meanwhile(file_db: MemDB) -> None:
    """Whatever moves to and fro, each read gives all messages as they were said."""
    chat = filled(file_db)
    before = [*chat.messages()]
    seen: list[bool] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(chat.last(300) == before)

    readers = [threading.Thread(target=read) for _ in range(3)]
    [reader.start() for reader in readers]
    moves = 0
    while moves < 5 or len(seen) <= 5:
        chat.archive(keep_last=0)
        chat.unarchive()
        moves += 1
    stop.set()
    [reader.join() for reader in readers]

    assert all(seen)


def test_a_range_across_the_border_is_whole(db: MemDB) -> None:
    """Flowcraft's items 24 and 26: the archived ones, and 11 of which 5 are archived."""
    chat = filled(db, 30)
    before = [*chat.messages()]
    chat.archive(keep_last=15)

    assert [*chat.messages(limit=15)] == before[:15]
    assert [*chat.messages(after=10, limit=11)] == before[10:21]
    assert list(chat.summaries.expand("10-20").messages) == before[9:20]


def test_an_export_is_the_same_bytes(db: MemDB) -> None:
    """Lines of archived messages have all their fields."""
    filled(db, 12).archive(keep_last=6)

    lines = [json.loads(line) for line in db.export_lines()]

    assert [line["text"] for line in lines if line["kind"] == "message"] == [
        message.text for message in db.scope("ann").session("trip").messages()
    ]
    assert [line["parts"] for line in lines if line.get("parts")] == [PARTS, PARTS]


def test_the_spans_of_the_archive_are_listed(db: MemDB) -> None:
    """Oldest first; from the last one's end on nothing is archived."""
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"heron {n}"} for n in range(300)])
    assert Host(chat).segments() == ()

    done = chat.archive(keep_last=20)

    spans = Host(chat).segments()
    assert (spans[0].first_seq, spans[-1].last_seq) == (1, 280)
    assert sum(one.message_count for one in spans) == done.messages == 280
    assert all(one.size_bytes > 0 for one in spans)
    assert [one.first_seq for one in spans[1:]] == [one.last_seq + 1 for one in spans[:-1]]
    assert Host(db.scope("ann").session("none")).segments() == ()


def test_an_index_of_other_messages_is_found(db: MemDB) -> None:
    """It keeps no list of its rows, but their number: of none, few and more than 127."""
    for count, session in ((0, "none"), (20, "few"), (200, "many")):
        filled(db, count, session).archive(keep_last=0)
        assert db.file.check() == []
    with db._db.write() as tx:
        tx.run("INSERT INTO archived_fts (rowid, text) VALUES (5, 'ghost')")

    (found,) = db.file.check()

    assert (found.code, found.text) == ("archived_fts", "index of 221 messages, 220 are archived")
    db.file.rebuild()
    assert db.file.check(deep=True) == []


def test_messages_of_a_segment_with_gaps_are_read_one_by_one(db: MemDB) -> None:
    """Each with its own text, parts and metadata, from whatever place."""
    chat = db.scope("ann").session("s")
    for number in range(1, 41):
        parts = [{"type": "text", "text": f"北京 {number}"}] if number % 3 else None
        chat.append("user", f"tea {number}", parts=parts, metadata={"n": number})
    chat.delete([1, 7, 8, 20, 40])
    before = [*chat.messages()]

    chat.archive(keep_last=0)

    assert [chat.get(message.seq) for message in reversed(before)] == before[::-1]
    with db._db.read() as tx:
        assert len(tx.kept) == 1
