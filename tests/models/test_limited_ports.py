"""Ports that raise anything, hang, or give what cannot be stored: the call goes on or says so."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import PortError
from memdb.adapters.host import Host
from memdb.models import model_client
from memdb.models.protocols import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB


def raise_timeout(*_: object, **__: object) -> Any:
    """Fail as a port's own library would, with a key in the text."""
    raise TimeoutError("no answer for sk-proj-0123456789abcdefghijklmnopqrstuvwxyzABCDEF")


def hang(*_: object, **__: object) -> Any:
    """Do not answer before the test ends."""
    HANGING.release()
    RELEASED.wait(3600)


def leave(*_: object, **__: object) -> Any:
    """End the program, or so it means to."""
    raise SystemExit(3)


HANGING, RELEASED = threading.Semaphore(0), threading.Event()
FAULTS = {"raises": raise_timeout, "hangs": hang, "exits": leave}


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the time of a call as soon as it hangs; any other has all of its own."""
    wait = model_client._await

    def give_up(done: Any, deadline: float, cancelled: Any, name: str, timeout_s: float) -> None:
        assert timeout_s <= 60
        while not done.wait(0.005):
            if HANGING.acquire(blocking=False):
                deadline = 0.0
                break
        wait(done, deadline, cancelled, name, timeout_s)

    monkeypatch.setattr(model_client, "_await", give_up)
    yield
    RELEASED.set()
    RELEASED.clear()


class Embedder:
    """Embeds by length, unless it has a fault."""

    name, dim = "lengths", 2

    def __init__(self, fault: Callable[..., Any] | None = None) -> None:
        """Begin with *fault*."""
        self.fault = fault

    def embed(self, texts: Any) -> Any:
        """Return a vector per text."""
        return [[1.0, len(text)] for text in texts] if self.fault is None else self.fault()


class Counter:
    """Counts characters, unless it has a fault."""

    name = "characters"

    def __init__(self, fault: Callable[..., Any] | None) -> None:
        """Begin with *fault*."""
        self.fault = fault

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.count_many([text])[0]

    def count_many(self, texts: Any) -> list[int]:
        """Return the tokens of each text."""
        return [len(text) for text in texts] if self.fault is None else self.fault()


class Arbiter:
    """Answers with what it is given, a verdict or a fault."""

    name = "host"

    def __init__(self, answer: Any) -> None:
        """Give *answer*; call it if it is a function."""
        self.answer = answer

    def decide(self, *_: object) -> Any:
        """Return the answer."""
        return self.answer() if callable(self.answer) else self.answer


def end_rest(scope: memdb.Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time pass for which an embedder is left alone, and wait until it was asked again."""
    monkeypatch.setattr(model_client, "REST_S", 0.0)
    with contextlib.suppress(PortError):
        scope.recall("tea", count_use=False)
    for thread in threading.enumerate():
        if "again" in thread.name:
            thread.join(10)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_embedder_costs_no_fact_and_no_answer(
    open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """What it did not embed is found by words, and waits for it."""
    embedder = Embedder(FAULTS[fault])
    db = open_db(":memory:", embedder=embedder)
    ann = db.scope("ann")
    ann.remember("Ann likes green tea.")
    ann.session("s").append("user", "The tea is in the kitchen.")
    hits = ann.recall("tea")

    assert {hit.kind for hit in hits} == {"entry", "message"}
    assert "embedder 'lengths'" in str(hits.missing)
    assert "sk-proj" not in str(hits.missing)
    with pytest.raises(PortError, match="embedder 'lengths'"):
        db.jobs.run()
    embedder.fault = None
    end_rest(ann, monkeypatch)
    db.jobs.run()
    assert db.file.info().spaces[0].vectors == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_an_arbiter_costs_no_fact(open_db: Callable[..., MemDB], fault: str) -> None:
    """The rules decide in its place."""
    ann = open_db(":memory:", arbiter=Arbiter(FAULTS[fault])).scope("ann")
    ann.remember("I like green tea a lot.")
    second = ann.remember("I like green tea very much in the morning.")

    assert second.entry.text
    assert any("morning" in entry.text for entry in ann.entries.list())


@pytest.mark.parametrize("text", ["", "   ", "x" * 600_000, 7])
def test_what_an_arbiter_merges_to_is_checked(open_db: Callable[..., MemDB], text: Any) -> None:
    """As if a caller had given it; what cannot be stored is no answer."""
    ann = open_db(":memory:", arbiter=Arbiter(Verdict("update", (0,), text))).scope("ann")
    ann.remember("I like green tea a lot.")
    ann.remember("I like green tea very much in the morning.")

    texts = [entry.text for entry in ann.entries.list()]
    assert any("morning" in said for said in texts)
    assert text not in texts


@pytest.mark.parametrize("text", ["Tea\0", "Tea\ud800"])
def test_what_an_arbiter_merges_to_is_made_storable(
    open_db: Callable[..., MemDB], text: str
) -> None:
    """U+FFFD stands for what no file can hold, as in a text of a caller."""
    ann = open_db(":memory:", arbiter=Arbiter(Verdict("update", (0,), text))).scope("ann")
    ann.remember("I like green tea a lot.")
    ann.remember("I like green tea very much in the morning.")

    assert [entry.text for entry in ann.entries.list()] == ["Tea\ufffd"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_counter_costs_no_message(path: str, open_db: Callable[..., MemDB], fault: str) -> None:
    """Tokens are estimated, and counted by whoever can."""
    db = open_db(path, counter=Counter(FAULTS[fault]))
    stored = db.scope("ann").session("s").append("user", "hello")
    db.close()

    assert stored.counter == "estimate"
    other = open_db(path, counter=Counter(None))
    assert Host(other.scope("ann").session("s")).window(last=1).tokens == len("hello") + 4


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("hook", ["render_messages", "edit_candidates"])
def test_a_hook_of_extraction_fails_as_a_port(
    open_db: Callable[..., MemDB], hook: str, fault: str
) -> None:
    """And what was said is read again later."""

    class Model:
        name = "m"

        def complete(self, *_: object, **__: object) -> str:
            return '{"memories": []}'

    chat = open_db(":memory:", model=Model(), **{hook: FAULTS[fault]}).scope("ann").session("s")
    chat.append("user", "I live in Oslo.")

    with pytest.raises(PortError, match=hook) as caught:
        chat.extract()
    assert "sk-proj" not in str(caught.value)
    assert caught.value.__cause__ is None or "sk-proj" not in str(caught.value.__cause__)


class Picky(Embedder):
    """Refuses texts that say BAD, for a while."""

    refuses = True

    def embed(self, texts: Any) -> Any:
        """Return a vector per text."""
        if self.refuses and any("BAD" in text for text in texts):
            raise RuntimeError("429 too many requests")
        return super().embed(texts)


@pytest.fixture
def picky(open_db: Callable[..., MemDB]) -> tuple[MemDB, Picky]:
    """Return a file with a message that its embedder refused once."""
    embedder = Picky()
    db = open_db(":memory:", embedder=embedder)
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": text} for text in ("fine", "BAD luck", "well")])
    with pytest.raises(PortError, match="429"):
        db.jobs.run()
    return db, embedder


def test_a_refused_message_is_tried_again(picky: tuple[MemDB, Picky]) -> None:
    """It waits with a job of its own; the others are embedded."""
    db, embedder = picky

    assert (db.jobs.pending(), db.file.info().spaces[0].vectors) == (1, 2)
    embedder.refuses = False
    assert db.jobs.run() == 1
    assert (db.jobs.pending(), db.file.info().spaces[0].vectors) == (0, 3)
    assert db.file.check(deep=True) == []


def test_a_refused_message_waits_longer_each_time(picky: tuple[MemDB, Picky], clock: Any) -> None:
    """Two seconds, then four; a recall does not ask before."""
    db, embedder = picky
    asked = []
    embedder.embed = lambda texts: asked.append(texts) or Picky.embed(embedder, texts)
    db.jobs.run(due=True)
    assert asked == []

    clock.advance(60_000)
    with pytest.raises(PortError, match="429"):
        db.jobs.run(due=True)
    assert asked
    asked.clear()
    clock.advance(1_000)
    db.jobs.run(due=True)
    assert asked == []


@pytest.mark.parametrize("how", ["delete", "forget", "session", "pop", "clear"])
def test_a_refused_message_that_goes_leaves_no_job(picky: tuple[MemDB, Picky], how: str) -> None:
    """However it is removed."""
    db, _ = picky
    ann = db.scope("ann")
    chat = ann.session("s")
    if how == "delete":
        chat.delete(seqs=[2])
    elif how == "forget":
        chat.forget(seqs=[2])
    elif how == "session":
        chat.delete()
    elif how == "pop":
        chat.pop()
        chat.pop()
    else:
        chat.clear()

    assert db.jobs.pending() == 0
    assert db.file.check(deep=True) == []


def test_a_space_is_complete_without_a_text_that_is_always_refused(
    picky: tuple[MemDB, Picky],
) -> None:
    """After three failures nothing waits for it; it is still tried."""
    db, _ = picky
    for _ in range(3):
        with pytest.raises(PortError):
            db.jobs.run()

    assert db.file.info().spaces[0].state == "ready"
    assert db.jobs.pending() == 1


def test_what_a_port_has_besides_is_as_it_is() -> None:
    """Thresholds, names and the text of it."""
    embedder = Embedder()
    embedder.thresholds = (0.9, 0.8)
    limited = model_client.limited_embedder(embedder)

    assert (limited.name, limited.dim, limited.thresholds) == ("lengths", 2, (0.9, 0.8))
    assert repr(limited) == repr(embedder)
    with pytest.raises(AttributeError):
        limited.colour
    assert memdb.PortError is PortError


class Asked(Embedder):
    """An embedder that hangs as long as it is told to, and counts its calls."""

    def __init__(self) -> None:
        """Begin by hanging."""
        self.hangs = True
        self.calls = 0

    def embed(self, texts: Any) -> Any:
        """Hang, or return a vector per text."""
        self.calls += 1
        if self.hangs:
            hang()
        return [[1.0, float(len(text))] for text in texts]


def test_after_a_time_out_words_answer_until_the_embedder_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One call waits; the others fail at once, `missing` and `stats` say so, a thread asks again."""
    embedder = Asked()
    with memdb.open(":memory:", embedder=embedder) as db:
        scope = db.scope("ann")
        scope.session("s").append("user", "The tent is in the cellar.")
        first = scope.recall("tent")
        calls = embedder.calls
        others = [scope.recall("tent") for _ in range(5)]

        assert [hit.text for hit in first] == ["The tent is in the cellar."]
        assert calls == embedder.calls == 1
        assert {hits.missing["vector"].partition(", and")[0] for hits in others} == {
            "embedder 'lengths' failed: it did not answer in time"
        }
        assert "left alone for 60 s" in str(db.stats().to_dict())

        embedder.hangs = False
        end_rest(scope, monkeypatch)
        assert "vector" not in scope.recall("tent").missing
