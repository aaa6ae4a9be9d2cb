"""
Forgetting with proof: 200 random trials, an independent search, and a control.

    python bench/forget.py [--trials 200] [--seed N]

Each trial fills a file with messages, summaries, an archive, entries with
history and artifacts of words that are drawn, forgets one thing of a random
kind with `prove=True`, and then reads the bytes of the file, its WAL and what
is compressed in it by itself. The control leaves the words of dropped rows in the
full-text indexes: it has to find some.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import zlib
from pathlib import Path

import memdb

INDEXES = ("messages", "archived", "entries", "summaries", "artifacts", "items", "sessions")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
KINDS = ("messages", "archived messages", "session", "entry", "query", "artifact", "everything")


def word(rng: random.Random) -> str:
    """Return a word that no other text has."""
    return "".join(rng.choices(LETTERS, k=rng.randint(12, 18)))


def sentence(rng: random.Random) -> str:
    """Return a sentence of such words."""
    return " ".join(word(rng) for _ in range(rng.randint(4, 12))).capitalize() + "."


def fill(db: memdb.MemDB, rng: random.Random) -> None:
    """Fill a file with everything that can hold a text."""
    ann, bob = db.scope("ann"), db.scope("bob")
    for scope in (ann, bob):
        trip = scope.session("trip")
        trip.extend(
            [
                {
                    "role": "user" if n % 2 == 0 else "assistant",
                    "text": sentence(rng),
                    "metadata": {"note": sentence(rng)} if n % 7 == 0 else None,
                    "external_id": f"{scope.user}-{n}-{word(rng)}",
                }
                for n in range(60)
            ]
        )
        scope.session("other").extend([{"role": "user", "text": sentence(rng)} for _ in range(15)])
        for n in range(4):
            scope.remember(sentence(rng), key=f"key{n}", session="trip", seq=2 * n + 1)
            scope.remember(sentence(rng), key=f"key{n}")
            scope.remember(sentence(rng), keywords=[word(rng)])
        for n in range(3):
            text = "\n".join(sentence(rng) for _ in range(rng.choice([2, 400])))
            trip.artifacts.save(f"{word(rng)}.md", text, message_seq=n + 1)
            scope.artifacts.save(f"{word(rng)}.bin", rng.randbytes(5000))
    db.jobs.run()
    ann.session("trip").archive(keep_last=20)
    bob.session("trip").archive(keep_last=20)


def forget(
    db: memdb.MemDB, kind: str, rng: random.Random, *, prove: bool
) -> tuple[list[bytes], memdb.Receipt]:
    """Forget something of *kind*; return pieces of what it said, and the receipt."""
    ann = db.scope("ann")
    trip = ann.session("trip")
    if kind in ("messages", "archived messages"):
        low, high = (1, 40) if kind == "archived messages" else (41, 60)
        seqs = sorted(rng.sample(range(low, high + 1), rng.randint(1, 8)))
        said = [trip.get(seq).text for seq in seqs]
        return pieces(said), trip.forget(seqs, prove=prove)
    if kind == "session":
        said = [message.text for message in trip.messages()]
        return pieces(said), ann.forget(session="trip", prove=prove)
    if kind == "entry":
        entry = rng.choice(list(ann.entries.list()))
        said = [entry.text, *(old.text for old in ann.entries.history(entry.id))]
        return pieces(said), ann.forget(entry=entry.id, prove=prove)
    if kind == "query":
        message = rng.choice(list(trip.messages()))
        return pieces([message.text]), ann.forget(query=message.text, prove=prove)
    if kind == "artifact":
        saved = rng.choice([one for one in ann.artifacts.list() if one.name.endswith(".md")])
        text = trip.artifacts.load(saved.name).text
        line = rng.choice(text.splitlines())
        return pieces([text]), ann.forget(query=line, artifacts=True, prove=prove)
    said = [message.text for message in trip.messages()]
    said += [entry.text for entry in ann.entries.list()]
    return pieces(said), ann.forget(everything=True, prove=prove)


def pieces(texts: list[str]) -> list[bytes]:
    """Return every word of *texts* from its third letter on, but for its last two."""
    found = {one.strip(".").lower() for text in texts for one in text.split()}
    return sorted(one[2:-2].encode() for one in found if len(one) >= 12)


def left(path: Path, wanted: list[bytes]) -> int:
    """Return how many of *wanted* the bytes of a file and its WAL hold, packed or not."""
    data = path.read_bytes()
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists():
        data += wal.read_bytes()
    reader = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    packed = reader.execute("SELECT data FROM archive_segments").fetchall()
    packed += reader.execute("SELECT data FROM blob_chunks WHERE codec = 'zlib'").fetchall()
    reader.close()
    data = (data + b"".join(zlib.decompress(one) for (one,) in packed)).lower()
    return sum(one in data for one in wanted)


def trial(folder: Path, number: int, seed: int, *, indexes: bool) -> tuple[str, int, bool]:
    """Return kind, pieces left, and whether the receipt agrees."""
    rng = random.Random(seed * 100_003 + number)
    path = folder / f"{number}-{indexes}.db"
    kind = KINDS[number % len(KINDS)]
    with memdb.open(path, counter="estimate", durability="process") as db:
        for index in () if indexes else INDEXES:
            with db._db.write() as tx:
                tx.run(f"INSERT INTO {index}_fts ({index}_fts, rank) VALUES ('secure-delete', 0)")
        fill(db, rng)
        wanted, receipt = forget(db, kind, rng, prove=indexes)
        sound = not db.file.check(deep=True)
    # All connections of this process are closed: another library may look now.
    count = left(path, wanted)
    return kind, count, sound and (not indexes or receipt.proven == (count == 0))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--control", type=int, default=28)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    bad = disagree = found = 0
    with tempfile.TemporaryDirectory() as name:
        for number in range(given.trials):
            kind, count, agrees = trial(Path(name), number, given.seed, indexes=True)
            bad += count > 0
            disagree += not agrees
            if count or not agrees:
                print(f"trial {number} ({kind}): {count} pieces left, receipt agrees: {agrees}")
        for number in range(given.control):
            _, count, _ = trial(Path(name), number, given.seed, indexes=False)
            found += count > 0
    print(f"forget --prove: pieces left in {bad}/{given.trials} trials (bar 0)")
    print(f"receipt or check disagrees in {disagree}/{given.trials} trials (bar 0)")
    print(f"control with words that stay in the indexes: left in {found}/{given.control} (bar > 0)")
    sys.exit(1 if bad or disagree or not found else 0)


if __name__ == "__main__":
    main()
