"""Embedding what is due: outside writes, at last exactly once, in every space."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import memdb
from memdb import MemDB, Remembered, Scope
from memdb.models.entries import NewEntry
from memdb.models.record import numbered

WORK = """
import sys, memdb
class Embedder:
    name, dim = "fake", 8
    count = 0
    def embed(self, texts):
        Embedder.count += len(texts)
        return [[1.0 + len(text)] * 8 for text in texts]
with memdb.open(sys.argv[1], embedder=Embedder(), counter="estimate") as db:
    print("ready", flush=True)
    sys.stdin.readline()
    print(db.jobs.run(), Embedder.count)
"""

DIE_WHILE_EMBEDDING = """
import os, signal, sys, memdb
class Embedder:
    name, dim = "fake", 16
    def embed(self, texts):
        os.kill(os.getpid(), signal.SIGKILL)
with memdb.open(sys.argv[1], embedder=Embedder(), counter="estimate",
                clock=lambda: 1_700_000_000_000) as db:
    db.jobs.run()
"""


def tell(scope: Scope, text: str, **given: Any) -> Remembered:
    """Store an entry as an import does: not embedded yet."""
    done = scope._services.entries.add(scope._owner, NewEntry(text, **given))
    return numbered(done)


def vectors(db: MemDB) -> int:
    """Return how many vectors the file holds, over all spaces."""
    return db.file.info().counts["vectors"]


def fill(db: MemDB, count: int = 3) -> None:
    """Store some messages and as many entries."""
    ann = db.scope("ann")
    ann.session("s").extend([{"role": "user", "text": f"message {n}"} for n in range(count)])
    [tell(ann, f"entry {n}") for n in range(count)]


def test_run_pending_embeds_messages_and_entries(db: MemDB) -> None:
    """All that is due, once; then nothing is."""
    fill(db)

    assert db.jobs.run() == 6
    assert (vectors(db), db.jobs.pending(), db.jobs.run()) == (6, 0, 0)


def test_writing_asks_no_embedder(db: MemDB, embedder: Any) -> None:
    """A message is stored without a model call; it only becomes due."""
    fill(db)

    assert embedder.calls == []
    assert db.jobs.pending() == 4


def test_run_pending_keeps_to_its_limit(db: MemDB) -> None:
    """It stops after about so many texts and goes on from there."""
    fill(db, 5)

    first = db.jobs.run(limit=3)

    assert first == 3
    assert db.jobs.run() == 7
    assert vectors(db) == 10


def test_run_pending_goes_in_batches(db: MemDB) -> None:
    """Progress hears of each batch; together they are everything."""
    db.scope("ann").session("s").extend([{"role": "user", "text": f"m{n}"} for n in range(600)])
    heard: list[int] = []

    total = db.jobs.run(progress=heard.append, kinds=("embed",))

    assert (total, sum(heard)) == (600, 600)
    assert max(heard) <= 256


def test_texts_without_a_vector_are_not_due_for_ever(db: MemDB) -> None:
    """An empty message is done, though there is nothing to store."""
    db.scope("ann").session("s").append("user", "")

    db.jobs.run()

    assert (vectors(db), db.jobs.pending()) == (0, 0)


def test_a_changed_entry_is_embedded_anew(db: MemDB, embedder: Any) -> None:
    """The vector follows the text."""
    ann = db.scope("ann")
    entry_id = tell(ann, "green tea").entry.id
    db.jobs.run()
    ann.entries.update(entry_id, text="black coffee")
    db.jobs.run()

    assert embedder.calls == ["green tea", "black coffee"]
    assert vectors(db) == 1
    assert [hit.text for hit in ann.recall("coffee")] == ["black coffee"]


def test_an_entry_changed_to_a_text_without_vector_loses_its_old_one(
    db: MemDB, embedder: Any
) -> None:
    """A stale vector would find the entry by what it no longer says."""
    ann = db.scope("ann")
    entry_id = tell(ann, "green tea").entry.id
    db.jobs.run()
    ann.entries.update(entry_id, text="\u2003.")
    embedder._vector = lambda _text: None

    db.jobs.run()

    assert vectors(db) == 0


def test_a_slow_embedder_does_not_block_a_writer(file_db: MemDB, embedder: Any) -> None:
    """While a model works, another thread appends and is done."""
    fill(file_db)
    working, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        working.set()
        assert go_on.wait(60)

    embedder.before = wait
    indexing = threading.Thread(target=file_db.jobs.run)
    indexing.start()
    assert working.wait(60)

    stored = file_db.scope("ann").session("s").append("user", "meanwhile")
    embeds_still = indexing.is_alive()
    embedder.before = lambda: None
    go_on.set()
    indexing.join(60)

    assert (stored.seq, embeds_still) == (4, True)
    assert file_db.jobs.run() == 0
    assert (vectors(file_db), file_db.jobs.pending()) == (7, 0)


def test_what_is_deleted_while_it_is_embedded_gets_no_vector(file_db: MemDB, embedder: Any) -> None:
    """A vector without its row is never stored."""
    fill(file_db, 1)
    ann = file_db.scope("ann")

    def remove() -> None:
        embedder.before = lambda: None
        ann.session("s").delete()
        [ann.entries.delete(entry.id) for entry in list(ann.entries.list())]

    embedder.before = remove
    file_db.jobs.run()

    assert (vectors(file_db), file_db.jobs.pending()) == (0, 0)


def test_what_changes_while_it_is_embedded_stays_due(db: MemDB, embedder: Any) -> None:
    """The vector of the old text is not stored for the new one."""
    ann = db.scope("ann")
    entry_id = tell(ann, "green tea").entry.id

    def change() -> None:
        embedder.before = lambda: None
        ann.entries.update(entry_id, text="black coffee")

    embedder.before = change
    db.jobs.run()

    assert embedder.calls == ["green tea", "black coffee"]
    assert (vectors(db), db.jobs.pending()) == (1, 0)


def test_what_is_said_while_others_are_embedded_is_embedded_too(db: MemDB, embedder: Any) -> None:
    """A job of a session is done when its last message is."""
    chat = db.scope("ann").session("s")
    chat.append("user", "first")

    def append() -> None:
        embedder.before = lambda: None
        chat.append("user", "second")

    embedder.before = append
    db.jobs.run()

    assert embedder.calls == ["first", "second"]
    assert (vectors(db), db.jobs.pending()) == (2, 0)


def test_a_failing_embedder_leaves_the_work_due(db: MemDB, embedder: Any, clock: Any) -> None:
    """Nothing is lost, and asking for it in so many words tries again at once."""
    fill(db, 1)
    embedder.fail = RuntimeError("no model")

    with pytest.raises(memdb.PortError, match="no model"):
        db.jobs.run()

    embedder.fail = None
    assert db.jobs.pending() == 2
    assert (db.jobs.run(), db.jobs.pending(), vectors(db)) == (2, 0, 2)


@pytest.mark.parametrize(
    ("failures", "wait_ms"), [(1, 2_000), (2, 4_000), (5, 32_000), (30, 3_600_000)], ids=str
)
def test_waiting_doubles_up_to_an_hour(
    db: MemDB, embedder: Any, clock: Any, failures: int, wait_ms: int
) -> None:
    """After the n-th failure in a row recall lets a job rest twice as long as before."""
    tell(db.scope("ann"), "x")
    embedder.fail = RuntimeError("no model")
    for _ in range(failures):
        clock.advance(3_600_000)
        with pytest.raises(memdb.PortError):
            db.jobs.run()
    embedder.fail = None

    clock.advance(wait_ms - 1)
    db.scope("ann").recall("x")
    early = db.jobs.pending()
    clock.advance(1)
    db.scope("ann").recall("x")

    assert (early, db.jobs.pending()) == (1, 0)


def test_one_failing_text_does_not_hold_up_the_others(db: MemDB, embedder: Any) -> None:
    """What can be embedded is; the failure is told at the end."""
    ann = db.scope("ann")
    tell(ann, "good one")
    tell(ann, "bad one")
    tell(ann, "good two")
    plain = embedder._vector
    embedder._vector = lambda text: [float("nan")] * 16 if "bad" in text else plain(text)

    with pytest.raises(memdb.PortError, match="NaN"):
        db.jobs.run()

    assert (vectors(db), db.jobs.pending()) == (2, 1)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param([float("nan")] * 16, id="NaN"),
        pytest.param([float("inf")] + [0.0] * 15, id="infinity"),
        pytest.param([0.0] * 16, id="all zero"),
        pytest.param([1.0] * 15, id="too short"),
        pytest.param([1.0] * 17, id="too long"),
        pytest.param([], id="empty"),
        pytest.param([1e30] * 16, id="longer than float32 measures"),
        pytest.param([1e-30] * 16, id="shorter than float32 measures"),
        pytest.param(["1"] * 16, id="texts"),
        pytest.param(b"\0\0\x80?" * 15, id="too few bytes"),
        pytest.param(b"\0\0\x80", id="broken bytes"),
        pytest.param(7, id="a number"),
    ],
)
def test_bad_vectors_are_refused(db: MemDB, embedder: Any, vector: Any) -> None:
    """The embedder is named, nothing is stored, and the work stays due."""
    tell(db.scope("ann"), "x")
    embedder._vector = lambda _text: vector

    with pytest.raises(memdb.PortError, match="'fake'"):
        db.jobs.run()

    assert (vectors(db), db.jobs.pending()) == (0, 1)


@pytest.mark.parametrize("extra", [-1, 1], ids=["one too few", "one too many"])
def test_a_wrong_number_of_vectors_is_refused(db: MemDB, embedder: Any, extra: int) -> None:
    """Nobody guesses which text they belong to."""
    fill(db)
    embedder.embed = lambda texts: [[1.0] * 16] * (len(texts) + extra)

    with pytest.raises(memdb.PortError, match="vectors for"):
        db.jobs.run()

    assert vectors(db) == 0


@pytest.mark.parametrize(
    ("name", "dim"),
    [("fake", 0), ("fake", 65_537), ("", 16), ("nul \0", 16), ("lone \ud800", 16)],
    ids=["no dimension", "too many", "no name", "NUL in the name", "lone surrogate"],
)
def test_an_embedder_that_names_no_space_is_refused(
    path: str, open_db: Callable[..., MemDB], make_embedder: Any, name: str, dim: int
) -> None:
    """The error names the embedder's field, before anything is stored."""
    with pytest.raises(memdb.InvalidInput, match="embedder"):
        open_db(path, embedder=make_embedder(name, dim))

    assert open_db(path).scopes() == []


def test_vectors_may_come_as_bytes(db: MemDB, embedder: Any) -> None:
    """Little-endian float32, as stored."""
    tell(db.scope("ann"), "x")
    embedder._vector = lambda _text: b"\0\0\x80?" * 16

    assert db.jobs.run() == 1
    assert vectors(db) == 1


def test_a_new_embedder_embeds_everything_again(
    path: str, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """A change of model loses no memory: old texts get vectors of the new space."""
    old = open_db(path)
    fill(old)
    old.jobs.run()
    old.close()
    model = make_embedder("new", 24)

    db = open_db(path, embedder=model)
    done = db.jobs.run()

    assert done == 6
    assert {(space.model, space.dim, space.vectors) for space in db.file.info().spaces} == {
        ("fake", 16, 6),
        ("new", 24, 6),
    }
    assert db.scope("ann").recall("entry 1", kinds=["entry"])[0].text == "entry 1"


def test_the_old_embedder_catches_up_when_it_comes_back(
    path: str, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """What was said while another model served is not lost to the first."""
    old = open_db(path)
    fill(old)
    old.jobs.run()
    new = open_db(path, embedder=make_embedder("new", 24))
    new.scope("ann").session("s").append("user", "late")
    new.jobs.run()

    assert old.jobs.run() == 1 + 3  # entries may have changed, so all of them are done again
    assert [space.vectors for space in old.file.info().spaces] == [7, 7]


def test_without_an_embedder_nothing_is_embedded_and_nothing_lost(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """A process without a model leaves the work to one that has it."""
    plain = open_db(path, embedder=None)
    fill(plain)

    assert plain.jobs.run() == 0
    assert open_db(path).jobs.run() == 6


def test_a_crash_while_embedding_loses_no_work(
    path: str, open_db: Callable[..., MemDB], run_child: Any, start_child: Any, clock: Any
) -> None:
    """The dead process's lease runs out, then another does its work."""
    db = open_db(path)
    fill(db, 1)
    child = start_child(DIE_WHILE_EMBEDDING, path)
    child.communicate(timeout=60)

    during = db.jobs.run()
    clock.advance(60_000)
    after = db.jobs.run()

    assert child.returncode == -9
    assert during + after == 2
    assert (vectors(db), db.jobs.pending(), db.file.check()) == (2, 0, [])


def test_two_processes_embed_each_text_once(path: str, start_child: Callable[..., Any]) -> None:
    """They share the work; together every text is embedded once, and learnt from once."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        ann = db.scope("ann")
        with db._db.write():
            for n in range(60):
                ann.session(f"s{n}").extend([{"role": "user", "text": "x"}] * 5)
    children = [start_child(WORK, path) for _ in range(2)]
    [child.stdout.readline() for child in children]

    outputs = [child.communicate("go\n", timeout=60)[0].split() for child in children]

    assert sum(int(done) for done, _ in outputs) == 2 * 300
    assert sum(int(asked) for _, asked in outputs) == 300
    with memdb.open(path, embedder=None) as db:
        assert (vectors(db), db.jobs.pending(), db.file.check()) == (300, 0, [])


def test_rebuild_makes_what_lost_its_vector_due_again(
    db: MemDB, lose_vectors: Callable[[MemDB], None]
) -> None:
    """Messages and entries alike, also where a later message is due already."""
    fill(db)
    db.jobs.run()
    lose_vectors(db)
    db.scope("ann").session("s").append("user", "later")

    db.file.rebuild()

    assert db.jobs.run() == 7
    assert vectors(db) == 7


def test_what_a_dropped_space_held_is_pending(db: MemDB) -> None:
    """All of it is due as soon as the embedder runs."""
    ann = db.scope("ann")
    ann.session("s").append("user", "hello")
    ann.remember("Ann likes tea.")
    db.jobs.run()
    db.file.delete_space(db.file.info().spaces[0].model)

    assert db.jobs.pending() == db.file.info().pending_jobs == 2
    assert db.file.info().pending == {"embed": 2}
    assert db.jobs.run() == 2
    assert db.jobs.pending() == db.file.info().pending_jobs == 0


class Prefixed:
    """An embedder that notes what it embeds as a question and as a text."""

    name = "prefixed"
    dim = 2

    def __init__(self) -> None:
        """Begin with none."""
        self.asked: list[str] = []
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector per text."""
        self.texts += texts
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        self.asked.append(text)
        return [1.0, float(len(text))]


def test_a_question_is_embedded_as_a_question(open_db: Callable[..., MemDB]) -> None:
    """By recall and context; texts, also those of entries, never are."""
    embedder = Prefixed()
    with open_db(":memory:", embedder=embedder) as db:
        scope = db.scope("ann")
        scope.remember("Ann drinks tea.")
        chat = scope.session("s")
        chat.append("user", "The kettle is new.")
        scope.recall("kettle")
        chat.context(500, "which tea?")

    assert embedder.asked == ["kettle", "which tea?"]
    assert sorted(embedder.texts) == ["Ann drinks tea.", "The kettle is new."]


@pytest.mark.parametrize("answer", [[1.0], None, [float("nan"), 1.0], "ab"])
def test_a_vector_of_a_question_that_cannot_be_used_is_named(
    open_db: Callable[..., MemDB], answer: Any
) -> None:
    """Words answer, and `missing` says why."""
    embedder = Prefixed()
    embedder.embed_query = lambda text: answer
    with open_db(":memory:", embedder=embedder) as db:
        scope = db.scope("ann")
        scope.session("s").append("user", "The kettle is new.")
        hits = scope.recall("kettle")

    assert [hit.text for hit in hits] == ["The kettle is new."]
    assert "prefixed" in hits.missing["vector"]
