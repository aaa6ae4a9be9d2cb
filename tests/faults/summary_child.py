"""
A process that appends, summarises and archives until it is killed.

    python summary_child.py FILE WHO MODE LOG OFFSET_MS SEED

Prints "ready", then "SESSION SEQ NUMBER" for each message that was acknowledged.
"""

import hashlib
import os
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import memdb
from memdb.models.settings import Settings
from memdb.models.summaries import SourceItem, SummaryText

SESSIONS = ("one", "two")

# Small, so that a few hundred messages make a tree of all depths.
POLICY = Settings(summary_messages=4, summary_condense_at=4, summary_group=3, summary_max_depth=3)


class Logged:
    """Says what it was asked for by a hash of it; writes each call to a file at once."""

    name = "logged"
    quality = "model"

    def __init__(self, log: str, who: str) -> None:
        """Write to *log* as *who*."""
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._who = who

    def summarize(
        self, source: Sequence[SourceItem], *, depth: int, limit_tokens: int
    ) -> SummaryText:
        """Return a text that follows from *source* alone."""
        said = "\n".join(item.text for item in source)
        session = next(name for name in SESSIONS if f"in {name}" in said)
        span = f"{source[0].first_seq}-{source[-1].last_seq}"
        hashed = hashlib.blake2b(said.encode(), digest_size=6).hexdigest()
        os.write(self._log, f"{self._who} {session} {depth} {span} {hashed}\n".encode())
        time.sleep(0.002)
        return SummaryText(f"in {session} {depth} {span} {hashed}", f"more of {span}")


def message(who: str, session: str, number: int) -> list[dict[str, Any]]:
    """Return what is said next: mostly a message, now and then a call with its result."""
    text = f"{who} {number} in {session} about tea, 北京 and file_{number}.txt"
    if number % 7:
        return [{"role": "user" if number % 2 else "assistant", "text": text}]
    call = f"{who}-{number}"
    arguments = {"path": f"file_{number}.txt"}
    return [
        {
            "role": "assistant",
            "text": text,
            "parts": [{"type": "tool_call", "id": call, "name": "read", "arguments": arguments}],
        },
        {
            "role": "tool",
            "text": f"{text}: done",
            "parts": [{"type": "tool_result", "tool_call_id": call, "content": "done " * 9}],
        },
    ]


def work(db: memdb.MemDB, who: str, moments: random.Random) -> None:
    """Do all of it for ever."""
    ann = db.scope("ann")
    number = 0
    while True:
        session = moments.choice(SESSIONS)
        chat = ann.session(session)
        for _ in range(moments.randint(1, 6)):
            number += 1
            stored = chat.extend(message(who, session, number))
            told = "".join(f"{session} {one.seq} {one.text}\n" for one in stored)
            os.write(1, told.encode())
        what = moments.choice(("run", "run", "compact", "archive", "unarchive", "context"))
        if what == "run":
            db.jobs.run()
        elif what == "compact":
            chat.summaries.compact(keep_last=moments.choice((None, 10)))
        elif what == "archive":
            chat.archive(keep_last=moments.randint(0, 20))
        elif what == "unarchive":
            chat.unarchive()
        else:
            chat.context(400)


def main() -> None:
    """Open the file and work."""
    path, who, mode, log, offset_ms, seed = sys.argv[1:]
    with memdb.open(
        path,
        embedder=None,
        counter="estimate",
        durability="process",
        summarizer=Logged(log, who) if mode == "model" else None,
        settings=POLICY,
        clock=lambda: 1_700_000_000_000 + int(offset_ms),
    ) as db:
        os.write(1, b"ready\n")
        work(db, who, random.Random(seed))


if __name__ == "__main__":
    main()
