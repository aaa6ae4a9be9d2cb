"""
What was read of sessions and is known to be as it was, so that no thread is asked again.

Going to the thread and back is half of a small read's time. Two numbers of SQLite
tell what changed: a connection that writes nothing sees any commit, the writing
one sees those of others. So an answer stays true over our own new items too.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Any

    from memdb.api.database import MemDB

    Item = dict[str, Any]

# Answers that are kept, and the size of one: a copy takes the loop 0.3 ms at most.
MAX_KEPT = 64
MAX_KEPT_BYTES = 64 << 10
LEAST_BYTES = 16


class Mark(NamedTuple):
    """
    A moment of the file.

    Attributes:
        stamp: Another one after any commit.
        commits: Those of this open file so far.
        others: Another one after a commit by somebody else; None: not known.
    """

    stamp: int
    commits: int
    others: int | None


class Known(NamedTuple):
    """An answer: the items as bytes, and the seq of the newest message, 0 without any."""

    mark: Mark
    newest: int
    copies: list[bytes]


class Answers:
    """The newest items of sessions, by the session and their number; None: all items."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[tuple[Hashable, int | None], Known] = {}

    def get(self, db: MemDB, chat: Hashable, most: int | None) -> list[Item] | None:
        """Return an answer that is true now, None without; never waits."""
        known = self._known.get((chat, most))
        if known is None or known.mark.stamp != db._db.stamp():
            return None
        return [marshal.loads(one) for one in known.copies]  # noqa: S302 (our own)

    @staticmethod
    def mark(db: MemDB) -> Mark | None:
        """Return the moment before a reading, None where it cannot be told."""
        stamp = db._db.stamp(start=True)
        return None if stamp is None else Mark(stamp, db._db.commits, db._db.others())

    def put(
        self, chat: Hashable, most: int | None, mark: Mark | None, newest: int, found: list[Item]
    ) -> None:
        """Keep what was read after *mark*, unless it is large."""
        self._known.pop((chat, most), None)
        copies = None if mark is None else _copies(found, MAX_KEPT_BYTES)
        if mark is not None and copies is not None:
            self._known[chat, most] = Known(mark, newest, copies)
            if len(self._known) > MAX_KEPT:
                self._known.pop(next(iter(self._known)), None)

    def grew(self, db: MemDB, chat: Hashable, span: tuple[int, int], items: Iterable[Item]) -> None:
        """
        Note that *items*, of the messages of *span*, were just added; in the thread that did.

        What was kept stays where nothing else can have happened since: one
        commit of ours, or none because others of the same transaction were
        noted before; none of anybody else; and no seq between.
        """
        keys = [key for key in self._known if key[0] == chat]
        if not keys:
            return
        commits, now = db._db.commits, self.mark(db)
        still = now is not None and now.others is not None and now.commits == commits
        new = _copies(items, MAX_KEPT_BYTES)
        for key in keys:
            mark, newest, copies = self._known.pop(key)
            if now is None or new is None or not still or db._db.commits != commits:
                continue
            if (newest + 1, mark.others) == (span[0], now.others) and commits - mark.commits <= 1:
                copies = _newest(copies + new, key[1])
                if sum(map(len, copies)) <= MAX_KEPT_BYTES:
                    self._known[key] = Known(now, span[1], copies)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _newest(copies: list[bytes], most: int | None) -> list[bytes]:
    if most is None or most < 0:
        return copies
    return copies[max(len(copies) - most, 0) :]


def _copies(values: Iterable[object], room: int) -> list[bytes] | None:
    """Return JSON values as bytes, None where they are over *room*; stops there."""
    copies = []
    for value in values:
        copy = marshal.dumps(value)  # type: ignore[arg-type]
        room -= max(len(copy), LEAST_BYTES)
        if room < 0:
            return None
        copies.append(copy)
    return copies
