"""
How many bytes of a file each message, entry and vector takes, by table.

    python bench/size.py [--messages N] [--sessions N] [--embedder none|static] [--archive]

Messages of `corpus`, about 124 characters each, in a new file, vacuumed: bytes by table for a
message, and the file in sizes of its text. With --embedder static the jobs run first, so there
are vectors and summaries. With --archive all but the newest 1,000 are archived, and the
shrinking is compared with what those messages took. At last half of the messages are deleted and
as many written again. Fixed seed; the file is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import apsw
import corpus

import memdb

BARS = {"none": 2.2, "static": 4.5}
REGROWN_BAR = 1.15
ARCHIVE_BAR = 0.4
KEEP = 1000
PART = 1000

SELECT_SIZES = """
SELECT name, sum(pgsize), sum(payload), count(*)
FROM dbstat
GROUP BY name
ORDER BY 2 DESC, name
"""
ROLES = ("user", "assistant")


def fill(db: memdb.MemDB, texts: list[str], sessions: int) -> None:
    """Store the texts, each session in one go."""
    for number in range(sessions):
        chat = db.scope("ann").session(f"s{number}")
        mine = texts[number::sessions]
        for at in range(0, len(mine), PART):
            part = enumerate(mine[at : at + PART])
            chat.extend([memdb.NewMessage(ROLES[place % 2], text) for place, text in part])


def sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Return the bytes of the pages of each table and index, and those in use."""
    connection = apsw.Connection(str(path))
    rows = connection.execute(SELECT_SIZES).fetchall()
    connection.close()
    return {name: (pages, payload) for name, pages, payload, _ in rows}


def print_table(found: dict[str, tuple[int, int]], count: int) -> None:
    """Print the tables that take a byte or more per message."""
    for name, (pages, payload) in found.items():
        if pages >= count:
            used = f"{payload / count:8.1f} in use"
            print(f"  {name:28}{pages / count:8.1f} bytes per message {used}")
    rest = sum(pages for pages, _ in found.values() if pages < count)
    print(f"  {'all others':28}{rest:8,} bytes")


def of_messages(found: dict[str, tuple[int, int]]) -> int:
    """Return the bytes of messages with their index and archive."""
    names = [name for name in found if name.startswith(("messages", "archive"))]
    return sum(found[name][0] for name in names)


def archive(db: memdb.MemDB, path: Path, sessions: int, texts: list[str]) -> float:
    """Archive what is old; return how much of their rows the file gave back."""
    found = sizes(path)
    before, rows, taken = path.stat().st_size, found["messages"][0], of_messages(found)
    moved = sum(
        db.scope("ann").session(f"s{number}").archive(KEEP // sessions).messages
        for number in range(sessions)
    )
    db.file.vacuum(whole=True)
    gone = before - path.stat().st_size
    print(f"archived {moved:,}: {gone / moved:.1f} bytes a message given back")
    print(f"{gone / (taken * moved / len(texts)):.1%} of rows and index")
    print_table(sizes(path), len(texts))
    return gone / (rows * moved / len(texts))


def regrow(
    db: memdb.MemDB, path: Path, texts: list[str], sessions: int, *, has_vectors: bool
) -> float:
    """Delete every second session and write as much again; return the growth of the file."""
    before = path.stat().st_size
    for number in range(0, sessions, 2):
        db.scope("ann").session(f"s{number}").delete()
    again = [text for number in range(0, sessions, 2) for text in texts[number::sessions]]
    for number in range(0, sessions, 2):
        chat = db.scope("ann").session(f"again{number}")
        mine = again[number // 2 :: (sessions + 1) // 2]
        for at in range(0, len(mine), PART):
            part = enumerate(mine[at : at + PART])
            chat.extend([memdb.NewMessage(ROLES[place % 2], text) for place, text in part])
    if has_vectors:
        db.jobs.run()
    db.close()
    return path.stat().st_size / before


def main() -> int:
    """Measure, print, and return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--embedder", choices=BARS, default="none")
    parser.add_argument("--archive", action="store_true")
    given = parser.parse_args()
    texts = corpus.texts(given.messages)
    payload = sum(len(text.encode()) for text in texts)
    options = {"embedder": None} if given.embedder == "none" else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "size.db"
        db = memdb.open(path, durability="process", **options)
        fill(db, texts, given.sessions)
        if given.embedder == "static":
            db.jobs.run()
        db.file.vacuum(whole=True)
        size = path.stat().st_size
        print(f"{given.messages:,} messages, {payload / given.messages:.1f} bytes of text each")
        print_table(sizes(path), given.messages)
        ratio = size / payload
        print(f"file / text {ratio:.2f} (bar {BARS[given.embedder]})")
        missed = ratio > BARS[given.embedder]
        if given.archive:
            part = archive(db, path, given.sessions, texts)
            print(f"{part:.1%} of the archived rows given back (bar {ARCHIVE_BAR:.0%})")
            missed |= part < ARCHIVE_BAR
        else:
            has_vectors = given.embedder != "none"
            grown = regrow(db, path, texts, given.sessions, has_vectors=has_vectors)
            print(f"half deleted and written again {grown:.3f} (bar {REGROWN_BAR})")
            missed |= grown > REGROWN_BAR
        db.close()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
