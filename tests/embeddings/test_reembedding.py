"""A file gets another embedder: filled by jobs, switched at once, dropped on request."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import InvalidInput, MemDB
from memdb.tables import spaces

ENTRIES = {"kinds": ["entry"]}

REEMBED = """
import os, signal, sys, memdb
class Embedder:
    name, dim = "new", 24
    texts = 0
    def embed(self, texts):
        vectors = []
        for text in texts:
            Embedder.texts += 1
            if Embedder.texts > int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            vectors.append([1.0 + len(text)] * 24)
        return vectors
with memdb.open(sys.argv[1], embedder=Embedder(), counter="estimate",
                clock=lambda: 1_700_000_000_000) as db:
    for part in range(100):
        db.jobs.run(limit=2, kinds=["embed"])
"""

RECALL_FOREVER = """
import hashlib, sys, memdb
class Embedder:
    name, dim = "fake", 16
    def embed(self, texts):
        return [self.vector(text) for text in texts]
    def vector(self, text):
        vector = [0.0] * 16
        for word in text.lower().split():
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[digest[0] % 16] += 1.0
            vector[digest[1] % 16] += 0.5
        return vector
with memdb.open(sys.argv[1], embedder=Embedder(), counter="estimate",
                clock=lambda: 1_700_000_000_000) as db:
    ann = db.scope("ann")
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "say":
            ann.session("s").append("user", "said by the other process")
        found = ann.recall("message 1", kinds=["message"])
        print(found[0].text, found.space, found.missing.get("vector"), sep="|", flush=True)
"""


def fill(db: MemDB, count: int = 3) -> None:
    """Store some messages and as many entries."""
    ann = db.scope("ann")
    ann.session("s").extend([{"role": "user", "text": f"message {n}"} for n in range(count)])
    [ann.remember(f"entry {n}") for n in range(count)]


def states(db: MemDB) -> list[tuple[str, int, str, int]]:
    """Return model, vectors, state and due texts of each space."""
    return [(one.model, one.vectors, one.state, one.due) for one in db.file.info().spaces]


@pytest.fixture
def new(make_embedder: Any) -> Any:
    """Return an embedder of another name and dimension."""
    return make_embedder("new", 24)


@pytest.fixture
def filled(path: str, open_db: Callable[..., MemDB]) -> str:
    """Return the path of a file that the first embedder has filled."""
    db = open_db(path)
    fill(db)
    db.jobs.run()
    db.close()
    return path


def test_the_first_space_of_a_file_is_ready_at_once(db: MemDB) -> None:
    """Nothing was there to embed; what comes later is merely due, but for the entry's vector."""
    fill(db, 1)

    assert states(db) == [("fake", 1, "ready", 1)]
    assert db.scope("ann").recall("message").missing == {}


def test_a_new_space_says_how_far_it_is(
    filled: str, open_db: Callable[..., MemDB], new: Any, clock: Any
) -> None:
    """Where the old model is not at hand: by what is embedded, by words, and marked."""
    db = open_db(filled, embedder=new)
    db.jobs.run(limit=4, kinds=["embed"])
    new.fail = ValueError("down")

    with db._db.read() as tx:
        serving = db._services.indexer.serving(tx)
    new.fail = None
    assert serving.partly == "space new: 4 of 6 embedded"
    assert states(db) == [("fake", 6, "ready", 0), ("new", 4, "filling", 2)]


def test_an_answer_of_a_part_says_so(
    filled: str, open_db: Callable[..., MemDB], new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arm took part, and the answer tells how much of it there is."""
    monkeypatch.setattr("memdb.embeddings.indexer.DRAIN_TEXTS", 1)
    monkeypatch.setattr("memdb.embeddings.indexer.BATCH", 1)
    db = open_db(filled, embedder=new)

    found = db.scope("ann").recall("message 2")

    assert found[0].text == "message 2"
    assert (found.arms, found.space) == (("lexical", "vector", "similar"), "new")
    assert found.missing == {"vector": "space new: 1 of 6 embedded"}


def test_the_previous_embedder_answers_until_all_is_embedded(
    filled: str, open_db: Callable[..., MemDB], new: Any, embedder: Any
) -> None:
    """Then, from one recall to the next, the new one does, and only that is asked."""
    db = open_db(filled, embedder=new, previous=embedder)
    ann = db.scope("ann")

    during = ann.recall("message 2")
    asked_of_new = list(new.calls)
    db.jobs.run(kinds=["embed"])
    embedder.calls.clear()
    after = ann.recall("message 2")

    assert (during.space, during.missing, asked_of_new) == ("fake", {}, [])
    assert (after.space, after.missing, embedder.calls) == ("new", {}, [])
    assert [hit.text for hit in during][:1] == [hit.text for hit in after][:1] == ["message 2"]


def test_what_is_said_meanwhile_is_found_by_the_previous_one(
    filled: str, open_db: Callable[..., MemDB], new: Any, embedder: Any
) -> None:
    """Both spaces get it until the switch."""
    db = open_db(filled, embedder=new, previous=embedder)
    ann = db.scope("ann")
    ann.session("s").append("user", "herring for supper")

    assert ann.recall("herring supper")[0].text == "herring for supper"
    assert states(db) == [("fake", 7, "ready", 0), ("new", 0, "filling", 7)]
    assert db.jobs.pending() == 3 + 1


def test_the_built_in_table_is_always_at_hand(path: str, new: Any) -> None:
    """A file that begins with the default serves with it until the better model is ready."""
    with memdb.open(path) as first:
        fill(first)
        first.jobs.run()

    with memdb.open(path, embedder=new) as db:
        during = db.scope("ann").recall("message 2").space
        db.jobs.run(kinds=["embed"])

        assert (during, db.scope("ann").recall("message 2").space) == ("static-en-1", "new")


def test_a_space_that_another_replaced_gets_no_work(
    filled: str, open_db: Callable[..., MemDB], new: Any
) -> None:
    """Appends and changes are due in the new space alone."""
    db = open_db(filled, embedder=new)
    db.jobs.run(kinds=["embed"])
    entry = db.scope("ann").remember("new entry").entry
    db.scope("ann").session("s").append("user", "new message")
    db.scope("ann").entries.update(entry.id, text="changed")

    assert states(db) == [("fake", 6, "retired", 0), ("new", 7, "ready", 2)]
    db.file.rebuild()
    assert db.file.info().pending == {"embed": 2}


def test_a_half_filled_space_that_is_retired_leaves_no_jobs(
    filled: str, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """Whoever is complete first wins; the other's work is not kept waiting for nobody."""
    open_db(filled, embedder=make_embedder("slow", 8)).jobs.run(limit=1, kinds=["embed"])
    db = open_db(filled, embedder=make_embedder("fast", 8))
    db.jobs.run(kinds=["embed"])

    assert states(db)[1:] == [("slow", 1, "retired", 0), ("fast", 6, "ready", 0)]
    assert db.file.info().pending_jobs == 0


def test_the_old_embedder_takes_its_space_up_again(
    filled: str, open_db: Callable[..., MemDB], new: Any
) -> None:
    """A process that still has it finds by meaning what was said and changed meanwhile."""
    old = open_db(filled)
    ann = old.scope("ann")
    entry = ann.recall("entry 1", **ENTRIES)[0].source.entry_id
    db = open_db(filled, embedder=new)
    db.jobs.run(kinds=["embed"])
    db.scope("ann").session("s").append("user", "herring for supper")
    db.scope("ann").entries.update(entry, text="goose for supper")

    found = ann.recall("supper", 2)

    assert {hit.text for hit in found} == {"herring for supper", "goose for supper"}
    assert (found.space, found.missing) == ("fake", {})
    assert states(old)[0] == ("fake", 7, "ready", 0)
    assert [one.state for one in db.file.info().spaces] == ["ready", "ready"]


def test_neither_retires_the_other_again(
    filled: str, open_db: Callable[..., MemDB], new: Any
) -> None:
    """Two programs with two models go on side by side, each in its own space."""
    old, db = open_db(filled), open_db(filled, embedder=new)
    db.jobs.run(kinds=["embed"])
    for turn in range(3):
        for one in (old, db):
            one.scope("ann").session("s").append("user", f"turn {turn}")
            one.jobs.run(kinds=["embed"])

    assert states(db) == [("fake", 11, "ready", 1), ("new", 12, "ready", 0)]


def test_an_entry_that_is_refused_does_not_keep_the_switch_waiting(
    filled: str, open_db: Callable[..., MemDB], new: Any
) -> None:
    """After three tries the rest counts as all there is."""
    plain = new._vector
    new._vector = lambda text: plain(text) if text != "entry 1" else [float("nan")] * 24
    db = open_db(filled, embedder=new)

    for _ in range(3):
        assert states(db)[1:] in ([], [("new", 5, "filling", 1)])
        with pytest.raises(memdb.PortError):
            db.jobs.run(kinds=["embed"])
    with pytest.raises(memdb.PortError):
        db.jobs.run(kinds=["embed"])
    db.scope("ann").recall("message")

    assert states(db) == [("fake", 6, "retired", 0), ("new", 5, "ready", 1)]


def test_an_embedder_that_is_down_switches_nothing(
    filled: str, open_db: Callable[..., MemDB], new: Any, embedder: Any
) -> None:
    """Nothing was embedded, so the old vectors go on answering, and nothing is lost."""
    new.fail = ConnectionError("down")
    db = open_db(filled, embedder=new, previous=embedder)
    for _ in range(4):
        with pytest.raises(memdb.PortError):
            db.jobs.run(kinds=["embed"])

    assert db.scope("ann").recall("message 1").space == "fake"
    assert states(db) == [("fake", 6, "ready", 0), ("new", 0, "filling", 6)]


def test_a_changed_dimension_is_another_space(
    filled: str, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """The same name with more components: embedded anew, and never compared."""
    db = open_db(filled, embedder=make_embedder("fake", 24))
    found = db.scope("ann").recall("message 1")

    assert (found[0].text, found.missing) == ("message 1", {})
    assert [(one.model, one.dim, one.state) for one in db.file.info().spaces] == [
        ("fake", 16, "retired"),
        ("fake", 24, "ready"),
    ]


def test_a_model_that_changes_its_vectors_under_its_name_is_told_of(
    file_db: MemDB, embedder: Any
) -> None:
    """Another number of components than it said: words answer, and the reason is there."""
    fill(file_db)
    file_db.jobs.run()
    embedder._vector = lambda _text: [1.0] * 9

    found = file_db.scope("ann").recall("message 1")

    assert found[0].text == "message 1"
    assert found.arms == ("lexical",)
    assert "9" in found.missing["vector"]
    assert found.space is None


def test_a_dropped_space_frees_its_rows(
    filled: str, open_db: Callable[..., MemDB], new: Any, raw: Any
) -> None:
    """Vectors, sketches, jobs and the space itself; nothing of the other one."""
    db = open_db(filled, embedder=new)
    db.jobs.run(kinds=["embed"])

    dropped = db.file.delete_space("fake")

    assert (dropped.model, dropped.vectors, dropped.state) == ("fake", 6, "retired")
    assert states(db) == [("new", 6, "ready", 0)]
    assert db.file.check(deep=True) == []
    db.close()
    connection = raw(filled)
    rows = [
        connection.execute(f"SELECT DISTINCT space_no FROM {table}").fetchall()
        for table in ("vector_groups JOIN vectors", "vector_groups", "embedding_spaces")
    ]
    assert rows == [[(2,)], [(2,)], [(2,)]]
    (grouped,) = connection.execute(
        "SELECT count(*) FROM vectors WHERE id >> 8 IN (SELECT id >> 8 FROM vector_groups)"
    ).fetchone()
    assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (grouped,)


def test_dropping_one_of_two_dimensions_asks_which(
    filled: str, open_db: Callable[..., MemDB], make_embedder: Any
) -> None:
    """Nothing goes by guess; of an unknown space nothing is removed."""
    db = open_db(filled, embedder=make_embedder("fake", 24))
    db.jobs.run(kinds=["embed"])

    with pytest.raises(InvalidInput, match="spaces of 16, 24 dimensions"):
        db.file.delete_space("fake")
    assert db.file.delete_space("fake", 9) is None
    with pytest.raises(InvalidInput, match="dim"):
        db.file.delete_space("fake", 0)
    assert db.file.delete_space("fake", 16).dim == 16


def test_a_space_that_is_dropped_while_it_is_filled_takes_nothing_more(
    filled: str, open_db: Callable[..., MemDB], new: Any
) -> None:
    """The batch in work finds its job gone; a new space gets another number."""
    db, other = open_db(filled, embedder=new), open_db(filled, embedder=None)

    def drop_and_make() -> None:
        new.before = lambda: None
        other.file.delete_space("new")
        with other._db.write() as tx:
            assert spaces.add_space(tx, "third", 8) == 3

    new.before = drop_and_make
    db.jobs.run(kinds=["embed"])

    assert [(one.model, one.vectors) for one in db.file.info().spaces] == [
        ("fake", 6),
        ("third", 0),
        ("new", 6),
    ]
    db.file.delete_space("third")
    assert db.file.check() == []


def test_a_drop_that_ends_halfway_leaves_a_sound_file(
    filled: str, open_db: Callable[..., MemDB], new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is retired: nobody serves from it, and it can be dropped again or filled again."""
    db = open_db(filled, embedder=new)
    db.jobs.run(kinds=["embed"])
    with db._db.read() as tx:
        vectors: Any = type(tx.vectors)
    plain, calls = vectors.drop_some, []

    def drop_some(self: Any, space_no: int) -> bool:
        calls.append(space_no)
        if len(calls) == 2:
            raise memdb.Interrupted("stopped")
        return plain(self, space_no)

    monkeypatch.setattr(vectors, "drop_some", drop_some)
    with pytest.raises(memdb.Interrupted):
        db.file.delete_space("fake")
    monkeypatch.undo()

    assert states(db) == [("fake", 3, "retired", 0), ("new", 6, "ready", 0)]
    assert db.file.check(deep=True) == []
    old = open_db(filled)
    assert old.scope("ann").recall("message 1")[0].text == "message 1"
    assert states(db)[0] == ("fake", 6, "ready", 0)
    db.file.delete_space("fake")
    assert [one.model for one in db.file.info().spaces] == ["new"]


def test_dropping_the_space_in_use_makes_it_anew(file_db: MemDB) -> None:
    """Nothing of what was said is lost."""
    fill(file_db)
    file_db.jobs.run()
    file_db.file.delete_space("fake")

    found = file_db.scope("ann").recall("message 1")

    assert (found[0].text, found.missing) == ("message 1", {})
    assert states(file_db) == [("fake", 6, "ready", 0)]


@pytest.mark.parametrize("texts", [0, 1, 3, 5])
def test_a_kill_while_reembedding_loses_nothing(
    filled: str,
    open_db: Callable[..., MemDB],
    start_child: Any,
    clock: Any,
    embedder: Any,
    texts: int,
) -> None:
    """The old space answers as before; after the lease another process goes on."""
    child = start_child(REEMBED, filled, texts)
    child.wait(60)
    assert child.returncode == -signal.SIGKILL, child.stderr.read()

    class Constant:
        name, dim = "new", 24

        def embed(self, texts: Any) -> list[list[float]]:
            return [[1.0 + len(text)] * 24 for text in texts]

    db = open_db(filled, embedder=Constant(), previous=embedder)
    assert db.file.check() == []
    assert db.scope("ann").recall("message 1").space == "fake"
    clock.advance(61_000)
    db.jobs.run(kinds=["embed"])

    assert states(db) == [("fake", 6, "retired", 0), ("new", 6, "ready", 0)]
    assert db.scope("ann").recall("message 1").space == "new"
    assert db.file.check(deep=True) == []


def test_a_kill_after_the_last_vector_still_switches(
    filled: str, open_db: Callable[..., MemDB], new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was stored but the switch: whoever looks next makes it."""
    monkeypatch.setattr("memdb.embeddings.indexer.SpaceFiller.settle", lambda _filler: None)
    open_db(filled, embedder=new).jobs.run(kinds=["embed"])
    monkeypatch.undo()
    db = open_db(filled, embedder=new)

    found = db.scope("ann").recall("message 1")

    assert (found.space, found.missing) == ("new", {})
    assert states(db) == [("fake", 6, "retired", 0), ("new", 6, "ready", 0)]


def test_another_process_with_the_old_embedder_goes_on(
    filled: str, open_db: Callable[..., MemDB], new: Any, start_child: Any
) -> None:
    """Before, while and after the file changes hands, it finds what there is."""
    child = start_child(RECALL_FOREVER, filled)

    def ask(what: str) -> str:
        child.stdin.write(f"{what}\n")
        child.stdin.flush()
        return str(child.stdout.readline().strip())

    assert child.stdout.readline().strip() == "ready", child.stderr.read()
    before = ask("recall")
    db = open_db(filled, embedder=new)
    db.jobs.run(limit=3, kinds=["embed"])
    during = ask("recall")
    db.jobs.run(kinds=["embed"])
    after = ask("say")
    db.file.delete_space("fake")
    dropped = ask("say")

    assert (before, during) == ("message 1|fake|None", "message 1|fake|None")
    assert after == "message 1|fake|None"
    assert dropped == "message 1|fake|None"
    db.jobs.run(kinds=["embed"])
    assert {(one.model, one.vectors, one.state) for one in db.file.info().spaces} == {
        ("new", 8, "ready"),
        ("fake", 8, "ready"),
    }


def test_a_worker_fills_and_switches_while_recall_goes_on(
    filled: str, open_db: Callable[..., MemDB], new: Any, embedder: Any
) -> None:
    """No answer is without the vector arm, and the last are the new model's."""
    db = open_db(filled, embedder=new, previous=embedder)
    db.scope("ann").session("long").extend(
        [{"role": "user", "text": f"word {n}"} for n in range(400)]
    )
    worker = db.jobs.start(interval_s=0.01)
    seen = []
    while ("new", "ready") not in {(one.model, one.state) for one in db.file.info().spaces}:
        assert worker.error is None
        seen.append(db.scope("ann").recall("message 1"))
    seen.append(db.scope("ann").recall("message 1"))
    worker.stop()

    spaces = [found.space for found in seen]
    assert spaces == sorted(spaces)
    assert spaces[-1] == "new"
    assert {found.missing.get("vector") for found in seen} == {None}


def test_a_previous_embedder_needs_one_that_follows(path: str) -> None:
    """Without a new one there is nothing that it could precede."""
    with pytest.raises(InvalidInput, match="previous_embedder"):
        memdb.open(path, embedder=None, previous_embedder="static")


def test_imported_vectors_are_those_of_their_model(
    filled: str, open_db: Callable[..., MemDB], tmp_path: Any, embedder: Any
) -> None:
    """A file that gets them retires nothing; who has the model answers with them at once."""
    lines = str(tmp_path / "ann.jsonl")
    open_db(filled).export(lines)
    with memdb.open(str(tmp_path / "other.db")) as plain:
        plain.scope("bob").session("s").append("user", "mine")
        plain.import_file(lines)
        plain.jobs.run()
        assert [(one.model, one.state) for one in plain.file.info().spaces] == [
            ("static-en-1", "ready"),
            ("fake", "filling"),
        ]
    embedder.calls.clear()
    db = open_db(str(tmp_path / "other.db"))
    db.jobs.run(kinds=["embed"])

    assert embedder.calls == ["mine"]
    assert db.scope("ann").recall("message 1").space == "fake"


def test_a_statement_is_compared_in_the_space_that_answers(
    filled: str, open_db: Callable[..., MemDB], make_embedder: Any, new: Any
) -> None:
    """While a space fills, entries meet the vectors of the old one, and get one there at once."""
    db = open_db(filled, embedder=new, previous=make_embedder("fake", 16))
    db.scope("ann").remember("entry 7")

    assert new.calls == []
    assert states(db) == [("fake", 7, "ready", 0), ("new", 0, "filling", 7)]
    db.jobs.run(kinds=["embed"])
    db.scope("ann").remember("entry 8")
    assert new.calls[-1] == "entry 8"
    assert states(db) == [("fake", 7, "retired", 0), ("new", 8, "ready", 0)]


def test_the_past_is_embedded_by_what_embedded_the_query(
    filled: str, open_db: Callable[..., MemDB], make_embedder: Any, new: Any
) -> None:
    """Vectors of two models are never compared, whatever time is asked about."""
    db = open_db(filled, embedder=new, previous=make_embedder("fake", 16))
    found = db.scope("ann").recall("entry 1", kinds=["entry"], as_of=db._db.clock())

    assert (found[0].text, found.space, new.calls) == ("entry 1", "fake", [])
