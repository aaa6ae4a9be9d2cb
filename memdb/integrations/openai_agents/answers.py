"""
What was read of sessions and is known to be as it was, so that no thread is asked again.

Going to the thread and back is half of a small read's time. `db.file.mark()` tells
commits of any process from our own, so an answer stays true over our own new items.
"""

from __future__ import annotations

import marshal
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Any

    from memdb.api.database import MemDB
    from memdb.models.reports import ChangeMark

    Item = dict[str, Any]

# Answers that are kept, and the size of one: a copy takes the loop 0.3 ms at most.
MAX_KEPT = 64
MAX_KEPT_BYTES = 64 << 10
LEAST_BYTES = 16


class Known(NamedTuple):
    """An answer: the items as bytes, and the seq of the newest message, 0 without any."""

    mark: ChangeMark
    newest: int
    copies: list[bytes]


class Answers:
    """The newest items of sessions, by the session and their number; None: all items."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[tuple[Hashable, int | None], Known] = {}
        self._lock = Lock()  # of who changes it: threads read beside each other

    def get(self, db: MemDB, chat: Hashable, most: int | None) -> list[Item] | None:
        """Return an answer that is true now, None without; never waits."""
        known = self._known.get((chat, most))
        if known is None or known.mark.stamp != db.file.stamp():
            return None
        return [marshal.loads(one) for one in known.copies]  # noqa: S302 (our own)

    def put(
        self,
        chat: Hashable,
        most: int | None,
        mark: ChangeMark | None,
        newest: int,
        found: list[Item],
    ) -> None:
        """Keep what was read after *mark*, unless it is large."""
        copies = None if mark is None else _copies(found, MAX_KEPT_BYTES)
        with self._lock:
            self._known.pop((chat, most), None)
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
        with self._lock:
            self._extend(db, chat, span, items)

    def _extend(
        self, db: MemDB, chat: Hashable, span: tuple[int, int], items: Iterable[Item]
    ) -> None:
        keys = [key for key in self._known if key[0] == chat]
        if not keys:
            return
        now = db.file.mark()
        new = _copies(items, MAX_KEPT_BYTES)
        for key in keys:
            mark, newest, copies = self._known.pop(key)
            if now is None or now.others is None or new is None:
                continue
            is_only = now.commits - mark.commits <= 1
            if is_only and (newest + 1, mark.others) == (span[0], now.others):
                copies = _newest(copies + new, key[1])
                if sum(map(len, copies)) <= MAX_KEPT_BYTES:
                    self._known[key] = Known(now, span[1], copies)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
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
