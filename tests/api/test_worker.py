"""The worker: due work in the background, whatever the model does, and a quick end."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.api.worker import Worker
from memdb.errors import PortError
from memdb.models.ids import scope_range
from memdb.models.reports import WorkRequest
from memdb.models.summaries import SourceItem, SummaryText
from memdb.tables import jobs

WAIT_S = 30.0
FOREVER_S = 3600.0  # longer than a test may take: whoever waits for it fails


class Teller:
    """A summariser whose text says what it was made from; a test may set what it does."""

    name = "teller"
    quality = "model"

    def __init__(self) -> None:
        """Answer well."""
        self.asked: list[tuple[int, int, int]] = []
        self.act: Callable[[], Any] = lambda: None
        self.went_on = threading.Event()
        self.entered = threading.Event()

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return what `act` returns, or a short text that follows from the source."""
        self.asked.append((depth, source[0].first_seq, source[-1].last_seq))
        self.entered.set()
        done = self.act()
        if done is not None:
            return done
        quoted = ",".join(item.text[:14] for item in source[:3])
        return SummaryText(f"told {depth} of {quoted}")

    def hang(self) -> None:
        """Answer only when the test lets it."""
        self.went_on.wait(FOREVER_S)


class Chat:
    """A language model: answers a text, or what `act` does."""

    name = "chat"

    def __init__(self) -> None:
        """Answer well."""
        self.act: Callable[[], Any] = lambda: "They spoke of tea."
        self.asked = 0
        self.cancelled = threading.Event()
        self.entered = threading.Event()

    def complete(self, _messages: Any, *, cancelled: Any = None, **_options: Any) -> Any:
        """Answer."""
        self.asked += 1
        self.entered.set()
        return self.act()


@pytest.fixture
def teller() -> Iterator[Teller]:
    """Return a summariser; a hanging one is let go at the end."""
    one = Teller()
    yield one
    one.went_on.set()


def say(db: MemDB, count: int, session: str = "trip") -> memdb.Session:
    """Return a session with so many messages more."""
    chat = db.scope("ann").session(session)
    chat.extend([{"role": "user", "text": f"Tea number {n} was good."} for n in range(count)])
    return chat


def wait_until(true: Callable[[], object]) -> None:
    """Wait for something that another thread does; fail after half a minute."""
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


# -- start, stop, error


def test_a_worker_does_what_is_due(file_db: MemDB) -> None:
    """Embedding and summarising, also what becomes due later."""
    worker = file_db.jobs.start(0.01)
    chat = say(file_db, 60)

    wait_until(lambda: len(chat.summaries.tree().summaries) == 7 and file_db.jobs.pending() == 0)

    wait_until(lambda: worker.done == 67)
    assert (worker.running, worker.error) == (True, None)


def test_there_is_one_worker(db: MemDB) -> None:
    """Starting it again gives the same one; after its end a new one."""
    first = db.jobs.start(0.01)

    assert db.jobs.start() is first
    first.stop()
    assert first.running is False
    assert db.jobs.start(0.01) is not first


@pytest.mark.parametrize("interval_s", [0, -1, float("nan"), float("inf"), "1", None], ids=repr)
def test_an_interval_that_is_none_is_refused(db: MemDB, interval_s: Any) -> None:
    """Before a thread is started."""
    with pytest.raises(memdb.InvalidInput, match="interval_s"):
        db.jobs.start(interval_s)

    assert db.jobs._worker is None


def test_stopping_twice_and_from_its_own_thread(db: MemDB) -> None:
    """Neither waits for itself."""
    stopped, is_there = threading.Event(), threading.Event()

    def run(_request: WorkRequest) -> int:
        assert is_there.wait(WAIT_S)
        worker.stop()
        stopped.set()
        return 0

    worker = Worker(run, 0.01)
    is_there.set()
    assert stopped.wait(WAIT_S)
    worker.stop()
    worker.stop()

    assert worker.running is False


def test_a_worker_says_what_a_model_is_asked_for(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """While it answers; afterwards nothing, and each piece is counted when it is stored."""
    teller.act = teller.hang
    db = open_db(path, embedder=None, summarizer=teller)
    chat = say(db, 20)
    worker = db.jobs.start(0.01)
    assert teller.entered.wait(WAIT_S)

    assert (worker.doing, worker.done) == ("Summarising trip 1-10", 0)
    teller.act = lambda: None
    teller.went_on.set()
    wait_until(lambda: worker.done == 2 and worker.doing is None)
    assert len(chat.summaries.tree().summaries) == 2


def test_each_transaction_is_told(open_db: Callable[..., MemDB], path: str) -> None:
    """A long conversation is no single step: what is stored is told at once."""
    db = open_db(path)
    say(db, 1000)
    told: list[int] = []
    made = db.jobs.run(progress=told.append, kinds=["summarize"])

    assert sum(told) == made == db.file.info().counts["summaries"]
    assert len(told) > 2
    assert max(told) <= 64


def test_giving_up_leaves_the_rest_free_to_take(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """The lease is given back: the next run does all of it."""
    teller.act = teller.hang
    db = open_db(path, embedder=None, summarizer=teller)
    chat = say(db, 50)
    worker = db.jobs.start(0.01)
    assert teller.entered.wait(WAIT_S)

    worker.stop(give_up=True)

    assert (worker.running, worker.done, worker.error) == (False, 0, None)
    teller.act = lambda: None
    assert db.jobs.run() == len(chat.summaries.tree().summaries) == 5


def test_stopping_ends_after_the_piece_in_progress(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """One summary is waited for and stored; the rest stays due and free to take."""
    teller.act = teller.hang
    db = open_db(path, embedder=None, summarizer=teller)
    chat = say(db, 50)
    worker = db.jobs.start(0.01)
    assert teller.entered.wait(WAIT_S)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    wait_until(worker._stop.is_set)
    teller.went_on.set()
    stopping.join(WAIT_S)

    assert (worker.running, worker.done, worker.error) == (False, 1, None)
    assert len(chat.summaries.tree().summaries) == 1
    assert db.jobs.run() == 4
    assert db.file.check(deep=True) == []


def test_closing_ends_the_worker(path: str, open_db: Callable[..., MemDB]) -> None:
    """And a closed file has no thread left that uses it."""
    db = open_db(path)
    worker = db.jobs.start(0.01)
    say(db, 60)

    db.close()

    assert worker.running is False


def test_a_file_closed_under_it_ends_the_worker(path: str, open_db: Callable[..., MemDB]) -> None:
    """Without an error that nobody reads."""
    db = open_db(path)
    worker = db.jobs.start(0.01)

    db._db.close()

    wait_until(lambda: not worker.running)
    assert worker.error is None


def test_the_error_is_seen_and_goes_when_all_is_well(
    file_db: MemDB, open_db: Callable[..., MemDB], teller: Teller, clock: Any
) -> None:
    """`error` is the last failure; the worker goes on by itself."""
    teller.act = lambda: 1 / 0
    db = open_db(file_db.path, summarizer=teller)
    chat = say(db, 20)
    worker = db.jobs.start(0.01)
    wait_until(lambda: worker.error is not None)
    assert isinstance(worker.error, PortError)
    assert "teller" in str(worker.error)
    wait_until(lambda: len(chat.summaries.tree().summaries) == 2)

    teller.act = lambda: None
    clock.advance(3_600_000)

    wait_until(lambda: worker.error is None)
    wait_until(
        lambda: {summary.quality for summary in chat.summaries.tree().summaries} == {"model"}
    )


def test_a_worker_waits_longer_after_each_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as long each time, a minute at most, and starts anew when it went well."""
    waits: list[float] = []
    outcomes = iter([PortError("m", "down")] * 3 + [1, 0] + [PortError("m", "down")] * 2)
    is_patched = threading.Event()

    def run(request: WorkRequest) -> int:
        assert is_patched.wait(WAIT_S)
        outcome = next(outcomes, None)
        if outcome is None:
            raise memdb.Closed("memdb is closed")
        if isinstance(outcome, Exception):
            raise outcome
        assert request.progress is not None
        request.progress(outcome)
        return outcome

    worker = Worker(run, 25.0)
    monkeypatch.setattr(worker._stop, "wait", lambda s: waits.append(s))
    is_patched.set()
    worker._thread.join(WAIT_S)

    assert waits == [50, 60, 60, 25, 50, 60]


# -- a model that hangs, raises, answers nothing, garbage, too much


@pytest.mark.parametrize("port", ["summarizer", "model"])
def test_closing_does_not_wait_for_a_model_that_hangs(
    path: str,
    open_db: Callable[..., MemDB],
    port: str,
    teller: Teller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is given up; what it was asked for stays due, without a stand-in."""
    monkeypatch.setattr("memdb.api.worker.STOP_S", FOREVER_S)
    chat_model = Chat()
    chat_model.act = teller.hang
    teller.act = teller.hang
    db = open_db(path, **{port: teller if port == "summarizer" else chat_model})
    chat = say(db, 10)
    db.jobs.start(0.01)
    assert (teller if port == "summarizer" else chat_model).entered.wait(WAIT_S)

    db.close()

    again = open_db(path)
    chat = again.scope("ann").session("trip")
    assert (chat.summaries.tree().summaries, again.jobs.pending() > 0) == ((), True)
    again.jobs.run()
    assert len(chat.summaries.tree().summaries) == 1


def test_closing_does_not_wait_for_an_embedder_that_hangs(
    path: str, open_db: Callable[..., MemDB], embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread is left behind and finds the file closed."""
    monkeypatch.setattr("memdb.api.worker.STOP_S", 0.05)
    entered, go_on = threading.Event(), threading.Event()
    embedder.before = lambda: (entered.set(), go_on.wait(FOREVER_S))
    db = open_db(path)
    say(db, 10)
    worker = db.jobs.start(0.01)
    assert entered.wait(WAIT_S)

    db.close()

    go_on.set()
    wait_until(lambda: not worker.running)
    embedder.before = lambda: None
    again = open_db(path)
    assert again.file.check(deep=True) == []
    assert again.jobs.pending() == 2


def test_nothing_waits_for_a_model_that_hangs(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """Appending, reading, searching, contexts and windows answer meanwhile."""
    teller.act = teller.hang
    db = open_db(path, summarizer=teller)
    chat = say(db, 60)
    db.jobs.start(0.01)
    assert teller.entered.wait(WAIT_S)

    assert chat.append("user", "And cake?").seq == 61
    window = chat.context(400, query="tea")
    assert window.tokens <= 400
    assert window.messages[-1].text == "And cake?"
    assert len(chat.recall("cake", kinds=("message",), by="words")) > 0
    assert chat.summaries.compact() is not None
    assert db.scope("ann").recall("cake") != []
    assert len(teller.asked) == 1
    teller.went_on.set()


def test_a_summarizer_that_hangs_is_given_up_and_replaced(
    path: str,
    open_db: Callable[..., MemDB],
    teller: Teller,
    monkeypatch: pytest.MonkeyPatch,
    clock: Any,
) -> None:
    """Too late is a failure as any: an extract stands in, and it is tried again."""
    teller.act = teller.hang
    db = open_db(path, summarizer=teller)
    chat = say(db, 10)

    with monkeypatch.context() as short, pytest.raises(PortError, match="no answer within"):
        short.setattr("memdb.summaries.summarizer.PORT_TIMEOUT_S", 0.05)
        db.jobs.run()

    assert [summary.quality for summary in chat.summaries.tree().summaries] == ["fallback"]
    teller.act = lambda: None
    db.jobs.run()
    assert [summary.quality for summary in chat.summaries.tree().summaries] == ["model"]


@pytest.mark.parametrize(
    "answer",
    [
        SummaryText(""),
        SummaryText("word " * 2_000),
        SummaryText("a" * 5_000_000),
        SummaryText(7),
        SummaryText("good", 7),
        {"text": "good"},
        b"good",
    ],
    ids=lambda one: repr(one)[:30],
)
def test_whatever_it_answers_a_node_comes_out(
    path: str, open_db: Callable[..., MemDB], teller: Teller, clock: Any, answer: Any
) -> None:
    """A stand-in of quality 'fallback', made better as soon as the model is well."""
    teller.act = lambda: answer
    db = open_db(path, summarizer=teller)
    chat = say(db, 60)
    worker = db.jobs.start(0.01)
    wait_until(lambda: worker.error is not None and len(chat.summaries.tree().summaries) == 7)
    assert {summary.quality for summary in chat.summaries.tree().summaries} <= {
        "fallback",
        "extractive",
    }

    teller.act = lambda: None
    wait_until(lambda: (clock.advance(3_600_000), db.jobs.pending() == 0)[1])

    after = chat.summaries.tree().summaries
    assert {summary.quality for summary in after} == {"model"}
    (above,) = [summary for summary in after if summary.depth == 1]
    assert above.text.count("told 0 of Tea") == 3
    db.jobs._worker.stop()
    assert db.file.check(deep=True) == []


def test_a_hint_without_end_is_cut(open_db: Callable[..., MemDB], teller: Teller) -> None:
    """It is a line of topics for a prompt, not a second summary."""
    teller.act = lambda: SummaryText("Tea.", "topic, " * 100_000)
    db = open_db(":memory:", summarizer=teller)
    chat = say(db, 10)
    db.jobs.run()

    (leaf,) = chat.summaries.tree().summaries

    assert leaf.quality == "model"
    assert leaf.hint is not None
    assert len(leaf.hint) <= 502


def test_a_secret_in_an_error_is_kept_nowhere(
    path: str, open_db: Callable[..., MemDB], teller: Teller, run_sql: Any
) -> None:
    """Not in what is raised, nor in the job that waits."""
    secret = "sk-abcdef0123456789abcdef"

    def leak() -> Any:
        raise RuntimeError(f"401: key {secret} is not valid")

    teller.act = leak
    db = open_db(path, summarizer=teller)
    say(db, 10)
    for _ in range(2):  # the second is the attempt to improve the stand-in
        with pytest.raises(PortError, match="401") as caught:
            db.jobs.run(kinds=("summarize",))
        assert secret not in repr(caught.value) + repr(caught.value.__cause__)
        assert secret not in repr(caught.value.__context__)

    errors = run_sql(path, "SELECT error FROM jobs WHERE error IS NOT NULL")

    assert len(errors) == 1
    assert "401" in errors[0][0]
    assert secret not in errors[0][0]


# -- improving


def test_what_stands_above_is_made_again_when_a_source_is_improved(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """Up to the top, from the better texts."""
    plain = open_db(path, embedder=None)
    say(plain, 600)
    plain.jobs.run()
    db = open_db(path, embedder=None, summarizer=teller)
    chat = db.scope("ann").session("trip")
    chat.summaries.compact()  # prunes extracts; they are made again where they are needed

    assert chat.summaries.upgrade() == len(chat.summaries.tree().summaries)
    db.jobs.run()

    by_id = {summary.id: summary for summary in chat.summaries.tree().summaries}
    for summary in by_id.values():
        assert summary.text.startswith(f"told {summary.depth} of ")
        if (
            summary.condensed_into is not None
            and summary.first_seq == by_id[summary.condensed_into].first_seq
        ):
            assert summary.text[:14] in by_id[summary.condensed_into].text
    assert db.jobs.pending() == 0


def test_a_source_improved_while_the_node_above_is_made_of_the_old_one(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """The late node is thrown away, and made of the better text."""
    other = Teller()
    plain = open_db(path, embedder=None)
    say(plain, 59)
    plain.jobs.run()
    assert len(plain.scope("ann").session("trip").summaries.tree().summaries) == 5
    first = open_db(path, embedder=None, summarizer=teller)
    second = open_db(path, embedder=None, summarizer=other)
    chat = say(first, 1)

    def meanwhile() -> None:
        if teller.asked[-1][0] == 1:
            teller.act = lambda: None
            second.scope("ann").session("trip").summaries.upgrade()
            second.jobs.run()

    teller.act = meanwhile
    first.jobs.run()
    first.jobs.run()

    (above,) = [summary for summary in chat.summaries.tree().summaries if summary.depth == 1]
    assert above.text.count("told 0 of Tea") == 3
    assert first.jobs.pending() == 0


def test_a_source_improved_while_the_node_above_is_improved(
    path: str, open_db: Callable[..., MemDB], teller: Teller
) -> None:
    """Who writes the upper one from the old text loses the job; it is done again."""
    other = Teller()
    plain = open_db(path, embedder=None)
    chat = say(plain, 60)
    plain.jobs.run()
    (above,) = [summary for summary in chat.summaries.tree().summaries if summary.depth == 1]
    leaf = (
        chat.summaries.tree().summaries[0]
        if chat.summaries.tree().summaries[0].depth == 0
        else chat.summaries.tree().summaries[1]
    )
    first = open_db(path, embedder=None, summarizer=teller)
    second = open_db(path, embedder=None, summarizer=other)
    with first._db.write() as tx:
        jobs.add_summarize(tx, "summary", scope_range(1)[0] | above.id)

    def meanwhile() -> None:
        teller.act = lambda: None
        with second._db.write() as tx:
            jobs.add_summarize(tx, "summary", scope_range(1)[0] | leaf.id)
        second.jobs.run()

    teller.act = meanwhile
    first.jobs.run()

    (above,) = [summary for summary in chat.summaries.tree().summaries if summary.depth == 1]
    assert "told 0 of Tea" in above.text
    assert first.jobs.pending() == 0


# -- many


@pytest.mark.parametrize("handles", [1, 10], ids=["one handle", "ten handles"])
def test_ten_threads_share_the_work_and_do_it_once(
    path: str, open_db: Callable[..., MemDB], handles: int
) -> None:
    """Each node is asked for once; together they do all of it."""
    tellers = [Teller() for _ in range(handles)]
    opened = [open_db(path, embedder=None, summarizer=one) for one in tellers]
    sessions = [say(opened[0], 60, f"s{n}") for n in range(12)]
    errors: list[BaseException] = []

    def run(db: MemDB) -> None:
        try:
            while db.jobs.pending():
                db.jobs.run()
        except BaseException as error:  # noqa: BLE001 (shown by the assertion)
            errors.append(error)

    threads = [threading.Thread(target=run, args=(opened[n % handles],)) for n in range(10)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert errors == []
    asked = Counter(place for one in tellers for place in one.asked)
    assert set(asked.values()) == {12}  # the same seven places in each of twelve sessions
    assert len(asked) == 7
    assert {len(chat.summaries.tree().summaries) for chat in sessions} == {7}


WORK = """
import os, sys, memdb
from memdb.models.summaries import SummaryText
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class Teller:
    name, quality = "teller", "model"
    def summarize(self, source, *, depth, limit_tokens):
        span = f"{source[0].text[:3]} {depth} {source[0].first_seq}-{source[-1].last_seq}"
        os.write(log, f"{span}\\n".encode())
        return SummaryText(span)

with memdb.open(sys.argv[1], embedder=None, counter="estimate", summarizer=Teller()) as db:
    print("ready", flush=True)
    sys.stdin.readline()
    worker = db.jobs.start(0.01)
    while db.jobs.pending():
        worker._stop.wait(0.02)
    worker.stop()
    assert worker.error is None, worker.error
    print(worker.done, flush=True)
"""


@pytest.mark.parametrize(
    ("processes", "sessions"), [(3, 4), pytest.param(10, 20, marks=pytest.mark.slow)]
)
def test_processes_share_the_work_and_do_it_once(
    path: str, tmp_path: Any, start_child: Callable[..., Any], processes: int, sessions: int
) -> None:
    """Each with a worker of its own, on one file."""
    with memdb.open(path, embedder=None, counter="estimate") as db:
        for n in range(sessions):
            chat = db.scope("ann").session(f"s{n}")
            chat.extend([{"role": "user", "text": f"s{n:02} says {k}"} for k in range(60)])
    log = tmp_path / "calls.log"
    children = [start_child(WORK, path, log) for _ in range(processes)]
    [child.stdout.readline() for child in children]
    [(child.stdin.write("go\n"), child.stdin.flush()) for child in children]
    ended = [child.communicate(timeout=300) for child in children]

    assert [err for _, err in ended] == [""] * processes
    calls = log.read_text().splitlines()
    assert (len(calls), len(set(calls))) == (7 * sessions, 7 * sessions)
    assert sum(int(out) for out, _ in ended) == (7 + 60) * sessions  # each message is learnt from
    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.file.check(deep=True) == []
        ann = db.scope("ann")
        assert {
            len(ann.session(one.name).summaries.tree().summaries) for one in ann.sessions()
        } == {7}
