"""Forgetting: what goes, what stays as it was, and the proof that the bytes are gone."""

import hashlib
import os
import sys
import threading
import zlib
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import memdb
from memdb import Busy, InvalidInput, NotFound
from memdb.deletion.service import FORGOTTEN
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.models.settings import Settings
from memdb.models.summaries import SummaryText
from memdb.postgres.engine import ARCHIVE, NOT_PROMISED, ROWS, WORDS
from memdb.rescue import proof as proofs

SMALL = Settings(summary_messages=4, summary_group=2, summary_condense_at=3, summary_max_depth=3)


def word(number):
    """Return 14 letters that no other text holds, the same for the same number."""
    digits = hashlib.sha256(str(number).encode()).hexdigest()[:14]
    return digits.translate(str.maketrans("0123456789", "ghijklmnop"))


def fill(db, count=40, user="ann", name="trip"):
    """Give *user* a session of *count* messages, each with a word of its own."""
    session = db.scope(user).session(name)
    session.extend(
        [
            {
                "role": "user" if n % 2 == 0 else "assistant",
                "text": f"We talked about {word(n)} in the garden, and it was a fine day {n}.",
                "external_id": f"m{n}",
            }
            for n in range(count)
        ]
    )
    return session


@pytest.fixture
def raw_bytes(stored_bytes, run_sql):
    """Return a function that reads every byte of a closed database, and what is compressed in it."""

    def read(path):
        data = stored_bytes(path)
        assert not Path(f"{path}-wal").exists()
        packed = run_sql(path, "SELECT data FROM archive_segments")
        packed += run_sql(path, "SELECT data FROM blob_chunks WHERE codec = 'zlib'")
        return (data + b"".join(zlib.decompress(one) for (one,) in packed)).lower()

    return read


def test_a_forgotten_message_leaves_a_gap(db):
    """The others keep their seqs, and a new one gets the next."""
    session = fill(db, 5)

    receipt = session.forget(3)

    assert receipt.removed["messages"] == 1
    assert [one.seq for one in session.messages()] == [1, 2, 4, 5]
    assert session.append("user", "next").seq == 6
    assert list(session.recall(word(2), kinds=("message",), by="words")) == []
    assert session.find("m2") is None
    with pytest.raises(NotFound):
        session.get(3)


def test_forgetting_again_removes_nothing(db):
    """What is gone is no error: a forget that was cut short can be repeated."""
    session = fill(db, 5)
    entry = db.scope("ann").remember("Ann likes tea.").entry
    for call in (
        lambda: session.forget([2, 3]),
        lambda: db.scope("ann").forget(entry=entry.id),
        lambda: db.scope("ann").forget(query="garden"),
        lambda: db.scope("ann").forget(session="trip"),
        lambda: db.scope("ann").forget(everything=True),
    ):
        call()

        assert set(call().removed.values()) == {0}
    assert set(db.scope("nobody").forget(everything=True, prove=True).removed.values()) == {0}


def test_summaries_are_written_anew_without_it(path, open_db):
    """Every node that covers a forgotten seq keeps its place, and says nothing of it."""
    db = open_db(path, settings=SMALL)
    session = fill(db)
    db.jobs.run()
    before = {summary.id: summary for summary in session.summaries.tree().summaries}
    first, last = next(
        (one.first_seq, one.first_seq + 1)
        for one in before.values()
        if one.depth == 0 and word(one.first_seq - 1) in one.text
    )

    receipt = session.forget([first, last])

    after = {summary.id: summary for summary in session.summaries.tree().summaries}
    places = {
        summary.id: (summary.depth, summary.first_seq, summary.last_seq)
        for summary in before.values()
    }
    assert {
        summary.id: (summary.depth, summary.first_seq, summary.last_seq)
        for summary in after.values()
    } == places
    over = [one for one in after.values() if one.first_seq <= last and one.last_seq >= first]
    assert receipt.rewritten["summaries"] == len(over) == 1 + max(summary.depth for summary in over)
    gone = [word(seq - 1) for seq in (first, last)]
    assert not any(one in summary.text for summary in after.values() for one in gone)
    assert all(after[one] == before[one] for one in after if after[one] not in over)
    assert db.file.check(deep=True) == []


def test_a_leaf_of_nothing_says_so(path, open_db):
    """Where all its messages are forgotten a node stands for nothing, and is left out above."""
    db = open_db(path, settings=SMALL)
    session = fill(db)
    db.jobs.run()

    session.forget(range(1, 5))

    leaf = next(summary for summary in session.summaries.tree().summaries if summary.depth == 0)
    assert (leaf.first_seq, leaf.last_seq, leaf.text) == (1, 4, FORGOTTEN)
    above = [
        summary
        for summary in session.summaries.tree().summaries
        if summary.depth and summary.first_seq == 1
    ]
    assert above
    assert all(FORGOTTEN not in summary.text for summary in above)
    session.append("user", "more")
    db.jobs.run()
    assert session.summaries.compact().pruned >= 0
    assert session.summaries.expand(leaf.id).messages == ()
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("seqs", [range(37, 40), range(33, 41), range(1, 40), [1], range(1, 41)])
def test_a_context_covers_what_is_left(path, open_db, seqs):
    """A gap anywhere hides no summary: each message is shown, stood for, or named as left out."""
    db = open_db(path, settings=SMALL)
    session = fill(db)
    db.jobs.run()
    session.append("user", "and now?")

    session.forget(seqs)

    window = session.context(budget_tokens=600)
    told = {
        seq
        for piece in window.pieces
        if piece.first_seq is not None
        for seq in range(piece.first_seq, piece.last_seq + 1)
    }
    assert {one.seq for one in session.messages()} <= told
    assert not any(word(seq - 1) in one.text for one in window.messages for seq in seqs)


def test_a_model_writes_it_better_later(path, open_db):
    """An extract takes the place at once; the model's turn is a job, and is not asked before."""
    asked = []

    class Port:
        name = "port"
        quality = "model"

        def summarize(self, source, *, depth, limit_tokens, cancelled=None):
            asked.append(" ".join(item.text for item in source))
            return SummaryText(f"model {len(asked)}")

    db = open_db(path, settings=SMALL, summarizer=Port())
    session = fill(db, 12)
    db.jobs.run()
    asked.clear()

    session.forget(2)

    assert asked == []
    leaf = next(summary for summary in session.summaries.tree().summaries if summary.depth == 0)
    assert leaf.quality == "extractive"
    db.jobs.run()
    assert asked
    assert all(word(1) not in text for text in asked)
    assert (
        next(
            summary for summary in session.summaries.tree().summaries if summary.depth == 0
        ).quality
        == "model"
    )


def test_archived_messages_leave_their_segments(db):
    """The others of a segment are read as before, and the words are gone from the index."""
    session = fill(db, 300)
    session.archive(keep_last=20)
    kept = [one for one in session.messages() if one.seq not in (5, 130, 290)]

    receipt = session.forget([5, 130, 290])

    assert (receipt.removed["messages"], receipt.rewritten["segments"]) == (3, 2)
    assert list(session.messages()) == kept
    assert list(session.recall(word(4), kinds=("message",), by="words")) == []
    assert session.unarchive().messages == 278


def test_what_was_told_by_a_message_goes_with_it(db):
    """Entries and old versions that came from it; others stay."""
    ann = db.scope("ann")
    session = fill(db, 5)
    told = ann.remember(f"Ann knows {word(1)}.", session="trip", seq=2).entry
    kept = ann.remember("Ann likes tea.", session="trip", seq=3).entry
    keyed = ann.remember(f"At home is {word(1)}.", key="home", session="trip", seq=2).entry
    ann.entries.update(keyed.id, text="At home is Oslo.")

    receipt = session.forget(2)

    assert receipt.removed["entries"] == 2
    assert {one.id for one in ann.entries.list(inactive=True)} == {kept.id}
    with pytest.raises(NotFound):
        ann.entries.get(told.id)


def test_an_entry_goes_with_all_it_ever_said(db):
    """Its history and its vector too; what resembles it stays."""
    ann = db.scope("ann")
    entry = ann.remember("Ann lives in Oslo.", key="home").entry
    ann.entries.update(entry.id, text="Ann lives in Bergen.")
    other = ann.remember("Ann likes tea.").entry
    db.jobs.run()

    receipt = ann.forget(entry=entry.id)

    assert receipt.removed["entries"] == 1
    assert [one.id for one in ann.entries.list(inactive=True)] == [other.id]
    hits = ann.recall("Oslo Bergen tea", kinds=["entry"], min_score=0)
    assert [hit.source.entry_id for hit in hits] == [other.id]


def test_a_query_finds_by_stems_and_in_old_versions(db):
    """All of its words have to be there, in any form; authors do not count."""
    ann = db.scope("ann")
    session = ann.session("s")
    session.append("user", "Peanuts make me ill.", author="Zoe")
    session.append("user", "One peanut is enough.")
    session.append("user", "Nothing of that kind.", author="Peanut")
    entry = ann.remember("Ann avoids peanuts.").entry
    ann.entries.update(entry.id, text="Ann avoids nuts.")
    session.artifacts.save("list.md", "no peanuts")

    dry = ann.forget(query="the peanuts", dry_run=True)
    receipt = ann.forget(query="the peanuts")

    assert dry.removed == receipt.removed
    assert (receipt.removed["messages"], receipt.removed["versions"]) == (2, 1)
    assert [one.seq for one in session.messages()] == [3]
    assert ann.entries.history(entry.id) == []
    assert len(ann.artifacts.list()) == 1
    assert ann.forget(query="peanut", artifacts=True).removed["artifacts"] == 1


def test_chinese_words_are_found(db):
    """A query of characters without spaces goes by their pairs."""
    session = db.scope("ann").session("s")
    session.append("user", "我们住在奥斯陆的酒店。")
    session.append("user", "我喜欢喝茶。")

    assert db.scope("ann").forget(query="奥斯陆").removed["messages"] == 1
    assert [one.seq for one in session.messages()] == [2]


def test_a_session_goes_with_all_that_is_its(db, database):
    """Messages, summaries, archive, artifacts, state and entries; shared things only on request."""
    ann = db.scope("ann")
    session = fill(db, 60)
    db.jobs.run()
    session.archive(keep_last=20)
    session.artifacts.save("plan.md", "a plan")
    session.artifacts.save("user:shared.md", "for all", message_seq=3)
    ann.remember("Told in it.", session="trip", seq=3)
    with database.write() as tx:
        tx.run(
            "INSERT INTO state (app, user_name, session, key, value, updated_ms) "
            "VALUES ('default', 'ann', 'trip', 'k', '1', 0)"
        )

    receipt = ann.forget(session="trip")

    assert receipt.removed == {
        "messages": 60,
        "sessions": 1,
        "branches": 0,
        "entries": 1,
        "versions": 0,
        "summaries": receipt.removed["summaries"],
        "artifacts": 1,
        "items": 0,
        "state": 1,
        "titles": 0,
    }
    assert receipt.removed["summaries"] > 0
    assert [one.name for one in ann.artifacts.list()] == ["user:shared.md"]
    again = ann.session("trip")
    again.append("user", "again")
    again.artifacts.save("user:more.md", "x", message_seq=1)
    assert ann.forget(session="trip", artifacts=True).removed["artifacts"] == 1


def test_everything_goes_and_the_others_keep_theirs(path, open_db, run_sql):
    """One user's memory is empty afterwards, another's as it was; names are in no tombstone."""
    db = open_db(path)
    for user in ("ann", "bob"):
        fill(db, 30, user)
        db.scope(user).session("trip").artifacts.save("secret name.md", "x")
        db.scope(user).remember(f"{user} likes tea.")
    db.jobs.run()
    db.scope("ann").session("old secret").append("user", "x")
    db.scope("ann").session("old secret").delete()
    before = [one.text for one in db.scope("bob").session("trip").messages()]

    receipt = db.scope("ann").forget(everything=True, prove=True)

    assert receipt.proven
    assert db.scope("ann").sessions() == []
    assert list(db.scope("ann").entries.list(inactive=True)) == []
    assert db.scope("ann").artifacts.list() == []
    assert [one.text for one in db.scope("bob").session("trip").messages()] == before
    db.close()
    rows = run_sql(path, "SELECT scope_no, ref FROM tombstones")
    assert rows
    assert not any("secret" in ref for scope_no, ref in rows if scope_no == 1)


def test_what_is_asked_for_is_checked(db):
    """One thing, of a kind that can be meant, and only of the own scope."""
    ann, bob = db.scope("ann"), db.scope("bob")
    entry = bob.remember("Bob likes coffee.").entry
    for given in ({}, {"entry": 1, "everything": True}, {"entry": 1, "session": "s"}):
        with pytest.raises(InvalidInput, match="one of entry, session, query"):
            ann.forget(**given)
    for given in ({"query": "..."}, {"query": " ".join(map(word, range(65)))}, {"session": ""}):
        with pytest.raises(InvalidInput):
            ann.forget(**given)
    for wrong in ([0], ["x"], [1 << 30], [True]):
        with pytest.raises(InvalidInput, match="seqs"):
            ann.session("s").forget(wrong)
    with pytest.raises(InvalidInput, match="entry"):
        ann.forget(entry=1 << 62)
    for missing in (entry.id, 5):
        assert ann.forget(entry=missing).removed["entries"] == 0
    assert [one.id for one in bob.entries.list()] == [entry.id]


def test_forgetting_inside_a_write_is_refused(db, database):
    """The file cannot be packed in a transaction, and a proof of half a change proves nothing."""
    with database.write(), pytest.raises(InvalidInput, match="inside a transaction"):
        db.scope("ann").forget(everything=True)
    with database.write(), pytest.raises(InvalidInput, match="inside a transaction"):
        proofs.purge(database)


def test_the_receipt_says_what_and_never_the_text(db):
    """Its subject is a hash that who knows the name can make again."""
    session = fill(db, 3)

    receipt = session.forget([1, 2], prove=True)

    assert receipt.what == "messages"
    assert len(receipt.subject_sha256) == 64
    assert word(0) not in str(receipt.to_dict())
    assert receipt.forgotten_ms == 1_700_000_000_000
    assert db.scope("ann").forget(query=word(2), dry_run=True).proof is None


def test_proof_of_all_that_is_stored(path, open_db, databases, raw_bytes):
    """No byte is left: of messages, summaries, archive, entries, their history and artifacts."""
    db = open_db(path, settings=SMALL)
    ann = db.scope("ann")
    session = fill(db)
    session.artifacts.save("a.md", f"{word(90)} " * 2000, message_seq=2)
    entry = ann.remember(f"She said {word(91)}.", key="k").entry
    ann.entries.update(entry.id, text=f"She said {word(92)}.")
    db.jobs.run()
    session.archive(keep_last=10)
    doomed = [word(1), word(38), word(90), word(91), word(92)]

    proofs = [
        session.forget([2, 39], artifacts=True, prove=True).proof,
        ann.forget(entry=entry.id, prove=True).proof,
    ]

    assert all(one.found_bytes == 0 for one in proofs)
    in_file = ("agent.db", "agent.db-wal", "archive")
    assert all(one.notices == (() if databases is None else (NOT_PROMISED,)) for one in proofs)
    assert proofs[0].pieces > 4
    assert {*(in_file if databases is None else (ROWS, WORDS, ARCHIVE))} <= {*proofs[0].searched}
    assert db.file.check(deep=True) == []
    db.close()
    data = raw_bytes(path)
    assert [one for one in doomed if one[3:-3].encode() in data] == []
    assert word(2)[3:-3].encode() in data


def test_the_proof_bites(path, open_db, monkeypatch):
    """With rows that are not overwritten it finds what is left."""
    db = open_db(path)
    session = fill(db, 400)
    monkeypatch.setattr(proofs, "purge", lambda _: [])
    with db._db.write() as tx:
        tx.run("PRAGMA secure_delete = OFF")
    kept = session.forget(range(100, 200), prove=True)

    assert kept.proof.found_bytes > 0
    assert not kept.proven


def test_the_proof_finds_a_copy_in_a_table_of_another_program(path, open_db):
    """Its rows are no rows of memdb: every byte of the file is searched then."""
    db = open_db(path)
    session = fill(db, 40)
    with closing(apsw.Connection(path)) as other:
        other.execute("CREATE TABLE theirs (note TEXT)")
        other.execute("INSERT INTO theirs VALUES (?)", (session.get(5).text,))

    kept, gone = session.forget(5, prove=True).proof, session.forget(6, prove=True).proof

    assert kept.found_bytes > 0
    assert kept.found_in == ("agent.db",)
    assert gone.found_bytes == 0


def test_the_proof_finds_a_message_in_a_summary(path, open_db, databases, monkeypatch):
    """One that was not rewritten keeps what it says."""
    db = open_db(path, settings=SMALL)
    session = fill(db)
    db.jobs.run()
    monkeypatch.setattr("memdb.deletion.service.summary_records.rewrite", lambda *_, **__: None)

    proof = session.forget(range(2, 30), prove=True).proof

    assert proof.found_bytes > 0
    assert proof.found_in == ("agent.db" if databases is None else ROWS,)


def test_nothing_is_left_without_a_proof(path, open_db):
    """When forgetting returns, the bytes are gone from the file, and the WAL is cut."""
    db = open_db(path)
    for name in ("a", "b", "c"):
        fill(db, 300, name=name)
    receipt = db.scope("ann").forget(session="b")

    assert receipt.pending == ()
    assert os.path.getsize(f"{path}-wal") == 0
    data = Path(path).read_bytes()
    assert data.count(f"We talked about {word(7)}".encode()) == 2


def test_a_place_is_named_by_its_number_in_the_scope(db):
    """As every call takes it: an entry of this category stays, and says the word there."""
    entry = db.scope("ann").remember("Ann is a nurse.", category="cases").entry

    receipt = db.scope("ann").forget(query="nurse cases", prove=True)

    assert receipt.proof.still_said_in == (f"entry {entry.id}",)


@pytest.mark.parametrize("row", ["author", "artifact", "session"])
def test_what_still_says_the_words_is_listed(db, row):
    """A query is proven only if no row of the scope says all of its words."""
    ann = db.scope("ann")
    session = ann.session("trip")
    session.append("user", "Zoelina lives in Bergen.")
    if row == "session":
        ann.session("zoelina").append("user", "hi")
    elif row == "author":
        session.append("user", "hi", author="Zoelina")
    elif row == "artifact":
        session.artifacts.save("p.md", "Zoelina's birthday")

    receipt = ann.forget(query="Zoelina", prove=True)

    named, remaining = {
        "author": ("message trip#2", ()),
        "artifact": ("artifact p.md", ("artifact 'p.md': add artifacts=True",)),
        "session": (
            "name, title or metadata of session zoelina",
            ("the name of session 'zoelina': forget(session='zoelina')",),
        ),
    }[row]
    assert receipt.proof.still_said_in == (named,)
    assert receipt.remaining == remaining
    assert not receipt.proven


def test_a_proof_tells_nothing_of_other_scopes(path, open_db):
    """Whether another user said the same: the receipt is the same, but for its hash and time."""
    texts = [f"My doctor says that it is {word(n)}, keep it private." for n in (1, 2)]
    receipts = []
    for other in (texts[0], "Nothing of that kind."):
        db = open_db(f"{path}.{len(receipts)}")
        db.scope("bob").session("s").append("user", other)
        db.scope("eve").session("g").append("user", texts[0])
        receipts.append(db.scope("eve").forget(session="g", prove=True).to_dict())

    names = [receipt["proof"].pop("searched") for receipt in receipts]
    assert receipts[0] == receipts[1]
    assert len(names[0]) == len(names[1])


@pytest.mark.parametrize("suffix", [".bak", ".v1.bak", ".bak2"])
def test_a_copy_beside_the_file_is_searched(path, open_db, suffix):
    """The receipt names it, and nothing else that only looks alike."""
    db = open_db(path)
    session = fill(db, 5)
    db.file.backup(f"{path}{suffix}")
    Path(f"{path}.other").write_bytes(f"about {word(1)} in the garden".encode())

    proof = session.forget(2, prove=True).proof

    assert proof.found_in == (f"agent.db{suffix}",)
    assert proof.found_bytes > 0


def test_what_others_say_is_not_theirs_to_forget(path, open_db):
    """A text that stays in the scope is named; one of another user is not named."""
    db = open_db(path)
    ann, bob = db.scope("ann"), db.scope("bob")
    text = f"The word is {word(7)} and no other."
    ann.session("a").append("user", text)
    ann.session("b").append("user", f"He said: {text}")
    bob.session("private name").append("user", f"I heard: {text}")

    proof = ann.session("a").forget(1, prove=True).proof

    assert proof.found_bytes == 0
    assert proof.said_elsewhere > 0
    assert "message b#1" in proof.said_in
    assert not any("private" in place for place in proof.said_in)
    ann.forget(query=word(7))
    assert ann.forget(query=word(7), prove=True).proof.pieces == 0


def test_a_text_that_is_too_short_is_counted(db):
    """Seven letters stand in too many places to prove anything."""
    session = db.scope("ann").session("s")
    session.append("user", "ok")

    proof = session.forget(1, prove=True).proof

    assert (proof.pieces, proof.short, proof.found_bytes) == (0, 1, 0)


def test_a_reader_in_another_process_is_told_of(path, open_db, start_child, raw_bytes):
    """It keeps the WAL from being cut: the receipt says so, and the bytes are found there."""
    program = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM messages").fetchall()
print("reading", flush=True)
sys.stdin.readline()
"""
    db = open_db(path, timeout_ms=200)
    session = fill(db)
    child = start_child(program, path)
    assert child.stdout.readline() == "reading\n"

    held = session.forget([3, 4], prove=True)
    child.communicate("go\n", timeout=60)
    freed = session.forget([5, 6], prove=True)

    assert held.removed["messages"] == 2
    assert held.proof.notices
    assert held.proof.found_bytes > 0
    assert freed.proof.notices == ()
    assert freed.proven
    db.close()
    assert word(2)[3:-3].encode() not in raw_bytes(path)


def test_a_writer_in_another_process_is_told_of(path, open_db, start_child, monkeypatch):
    """Where the file cannot be packed the receipt says so; what was forgotten stays so."""
    program = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.readline()
"""
    db = open_db(path, timeout_ms=300)
    session = fill(db)
    real = SqliteEngine.apart
    started, caller = [], threading.current_thread()

    def apart(engine, **options):
        if not started and threading.current_thread() is caller:  # upkeep opens one too
            started.append(start_child(program, path))
            assert started[0].stdout.readline() == "writing\n"
        return real(engine, **options)

    monkeypatch.setattr(SqliteEngine, "apart", apart)
    receipt = session.forget([3, 4], prove=True)
    started[0].communicate("go\n", timeout=60)

    assert proofs.WRITING in receipt.proof.notices
    assert [one.seq for one in session.messages(limit=3)] == [1, 2, 5]


def test_the_proof_keeps_the_locks_of_this_process(path, open_db, run_child, databases):
    """Reading the file by its bytes must not let another process think that nobody has it open."""
    db = open_db(path)
    session = fill(db, 5)
    session.forget(2, prove=True)
    held = iter(session.messages())
    next(held)

    said = run_child(
        "import sys, memdb\n"
        "with memdb.open(sys.argv[1]) as db:\n"
        "    db.scope('ann').session('trip').append('user', 'from the other')\n",
        path,
    )

    assert said == ""
    assert databases is not None or os.path.exists(f"{path}-wal")
    assert session.last(1)[0].text == "from the other"


def test_summaries_that_keep_changing_end_in_busy(path, open_db, monkeypatch):
    """It is tried again ten times, and then says so; nothing is forgotten half."""
    db = open_db(path, settings=SMALL)
    session = fill(db)
    db.jobs.run()
    monkeypatch.setattr("memdb.deletion.service.is_plan_current", lambda *_: False)

    with pytest.raises(Busy, match="kept changing"):
        session.forget(2)

    assert session.get(2).text


def test_a_summary_made_meanwhile_is_planned_anew(path, open_db, monkeypatch):
    """What was planned before another summarised is not written."""
    db = open_db(path, settings=SMALL)
    session = fill(db)
    forgetting = memdb.deletion.service
    real, runs = forgetting.plan_rewriting, []

    def rewriting(*given):
        done = real(*given)
        if not runs:
            runs.append(1)
            other = threading.Thread(target=db.jobs.run)  # not in this thread's snapshot
            other.start()
            other.join()
        return done

    monkeypatch.setattr(forgetting, "plan_rewriting", rewriting)
    session.forget([2, 3])

    assert session.summaries.tree().summaries
    assert all(
        word(n) not in summary.text
        for summary in session.summaries.tree().summaries
        for n in (1, 2)
    )


def test_a_deleted_row_is_overwritten_at_once(path, open_db):
    """Also without a proof: the bytes of what is forgotten are zeroed in the same transaction."""
    db = open_db(path)
    session = fill(db, 400)
    session.forget(range(1, 400))
    db.close()

    data = Path(path).read_bytes()
    left = sum(f"about {word(n)} in the garden".encode() in data for n in range(399))
    assert left == 0


def test_probes_stay_few(database):
    """Of a large text pieces are taken from all over it, of many texts every n-th."""
    probes = proofs.SqliteProbes(database)
    probes.add([" ".join(map(word, range(3000)))])
    assert len(probes.pieces()) == 16

    probes.add(f"{word(n)} and {word(n + 1)} and more" for n in range(5000))

    assert 200 <= len(probes.pieces()) <= 401
    assert len(probes.words()) == 100


def test_an_export_after_forgetting_says_nothing_of_it(path, open_db, tmp_path):
    """A person's export holds what is left, and its import makes the same scope again."""
    db = open_db(path, settings=SMALL)
    ann = db.scope("ann")
    session = fill(db)
    db.jobs.run()
    session.forget([2, 3])
    ann.forget(query=word(9))

    db.export(tmp_path / "ann.jsonl", user="ann")

    said = (tmp_path / "ann.jsonl").read_text()
    assert all(word(n) not in said for n in (1, 2, 9))
    other = open_db(str(tmp_path / "other.db"))
    other.import_file(tmp_path / "ann.jsonl")
    there = other.scope("ann").session("trip")
    assert [one.seq for one in there.messages()] == [one.seq for one in session.messages()]
    assert there.append("user", "next").seq == 41
    assert other.file.check(deep=True) == []


def test_a_proof_without_the_package_for_it_is_refused_before_anything_goes(
    db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core forgets alone; what searches the bytes is a package beside it."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "We had tea.")
    monkeypatch.setitem(sys.modules, "memdb.rescue.proof", None)

    with pytest.raises(memdb.Unsupported, match=r"^prove is True, but memdb\.rescue"):
        ann.forget(session="trip", prove=True)
    assert len(ann.session("trip").last(1)) == 1
    assert ann.forget(session="trip").removed["messages"] == 1
