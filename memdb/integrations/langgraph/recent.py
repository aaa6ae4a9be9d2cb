"""
The latest checkpoints of threads that a saver read or stored, without reading them again.

A graph asks for the latest checkpoint of its thread at every start, and the process that asks has
usually stored that checkpoint itself. What is kept holds as long as every commit to the file since
then was a put of the same saver that was noted here. A commit by anybody else drops all of it.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from memdb.adapters.host import HostFile
from memdb.integrations.langgraph.checkpoints import channels_of, id_of, is_checkpoint

if TYPE_CHECKING:
    from memdb import MemDB
    from memdb.integrations.langgraph.checkpoints import Group, Labels
    from memdb.models.items import Item
    from memdb.models.reports import ChangeMark

# Threads whose latest checkpoint is kept.
MOST_THREADS = 32


class RecentCheckpoints:
    """The latest checkpoint of each thread with its writes; None if a thread has no checkpoint."""

    def __init__(self, db: MemDB) -> None:
        """Keep checkpoints of *db*."""
        self._file = HostFile(db)
        self._lock = Lock()
        self._is_watching = False
        self._stamp: int | None = None  # of the file when it was last compared
        self._commits = 0
        self._others: int | None = None  # None: nothing is kept
        self._groups: dict[Labels, Group | None] = {}

    @property
    def commits(self) -> int:
        """The number of commits that `note` takes; read it before a put."""
        return self._file.commits

    def find(
        self, labels: Labels, checkpoint_id: str | None
    ) -> tuple[bool, Group | None, ChangeMark | None]:
        """
        Return whether a checkpoint is known, the checkpoint, and a mark for `keep` if it is not.

        Args:
            checkpoint_id: None means the latest.

        Cost: 5 µs if nobody has written, 20 µs after a put.
        """
        stamp = self._file.stamp()
        if stamp is None and self._is_watching:
            return False, None, None  # in a transaction, or not a file
        self._is_watching = True
        with self._lock:
            group = self._groups.get(labels)
            is_known = labels in self._groups and (
                checkpoint_id is None or (group is not None and id_of(group[0]) == checkpoint_id)
            )
            if is_known and stamp == self._stamp:
                return True, group, None
            now = self._file.mark()
            if now is None or now.others is None:
                return False, None, None  # another thread writes
            if (now.commits, now.others) != (self._commits, self._others):
                self._drop()
                return False, None, now
            self._stamp = now.stamp
            return is_known, group, now

    def _drop(self) -> None:
        self._groups.clear()
        self._others = self._stamp = None

    def is_small(self, labels: Labels, checkpoint_id: str) -> bool:
        """
        Return whether a checkpoint has no values beside it, as far as is known.

        The answer may be old. Then a value is stored twice.
        """
        with self._lock:
            group = self._groups.get(labels)
        return group is not None and id_of(group[0]) == checkpoint_id and not channels_of(group[0])

    def keep(self, mark: ChangeMark | None, labels: Labels, group: Group | None) -> None:
        """Keep the latest checkpoint of a thread, which was read after *mark*."""
        if mark is None:
            return
        with self._lock:
            if (mark.commits, mark.others) != (self._commits, self._others):
                self._drop()
                self._commits, self._others, self._stamp = mark.commits, mark.others, mark.stamp
            self._groups.pop(labels, None)
            self._groups[labels] = group
            if len(self._groups) > MOST_THREADS:
                del self._groups[next(iter(self._groups))]

    def note(self, commits: int, item: Item) -> None:
        """
        Note that a saver has put an item, the only change since its file had made *commits*.

        In a transaction of the caller, or if other threads committed meanwhile, everything is
        dropped instead.
        """
        with self._lock:
            if self._others is None:
                return
            if self._commits != commits or self._file.commits != commits + 1:
                self._drop()
                return
            self._commits, self._stamp = commits + 1, None
            if item.namespace in self._groups:
                self._change(item, self._groups[item.namespace])

    def _change(self, item: Item, latest: Group | None) -> None:
        """Change the latest checkpoint of a thread by an item that was put."""
        labels, checkpoint_id = item.namespace, id_of(item)
        newest = "" if latest is None else id_of(latest[0])
        if checkpoint_id > newest:
            if is_checkpoint(item):
                self._groups[labels] = (item, [])
            else:
                del self._groups[labels]  # writes of a checkpoint that is not there yet
        elif latest is not None and checkpoint_id == newest:
            found, writes = latest
            if is_checkpoint(item):
                self._groups[labels] = (_later(found, item), writes)
            else:
                known = {one.key: one for one in writes}
                known[item.key] = _later(known.get(item.key, item), item)
                self._groups[labels] = (found, [*known.values()])


def _later(one: Item, other: Item) -> Item:
    """Return the later version of an item: threads may note their puts in any order."""
    return one if one.version > other.version else other
