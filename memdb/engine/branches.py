"""
Paths of branches: which rows hold the messages that a branch shares and those of its own.

A branch is a row of `sessions` with a parent and the last seq that it shares with it. So
its path is a list of runs: the parent's path up to there, then its own messages, whose
seqs are higher. A session without parent is its own path, and nothing is read for it.
"""

from __future__ import annotations

from memdb.models.ids import MAX_SEQ, is_branch
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.engine.base import Tx

# The branch first, its session last; `last_seq` is how far each counts for the one before.
SELECT_PATH = """/* branches.path */
WITH RECURSIVE path (depth, id, parent_id, branch, leaves_at, last_seq) AS (
  SELECT 0, id, parent_id, branch, leaves_at, 16777215 FROM sessions WHERE id = :id
  UNION ALL
  SELECT
    path.depth + 1,
    sessions.id,
    sessions.parent_id,
    sessions.branch,
    sessions.leaves_at,
    path.leaves_at
  FROM path
  JOIN sessions ON sessions.id = path.parent_id AND path.parent_id < path.id
)
SELECT id, branch, leaves_at, last_seq FROM path ORDER BY depth
"""

SELECT_CHILDREN = """/* branches.children */
SELECT id, leaves_at FROM sessions
WHERE parent_id = :id AND id > :id AND leaves_at >= :seq
ORDER BY id
"""


class Run(Record):
    """
    Messages of a path that one row of `sessions` holds, by their first and last seq.

    *branch* is the name of the row, "" for the session itself.
    """

    session: int
    first_seq: int
    last_seq: int
    branch: str = ""

    @property
    def span(self) -> tuple[int, int]:
        """The first and last id that they can have, both inclusive."""
        return self.session | self.first_seq, self.session | self.last_seq


def runs_of(tx: Tx, session: int) -> list[Run]:
    """
    Return the runs of a path, oldest first; none overlaps another.

    One run if *session* is no branch; [] for a branch that is gone. The last run is that
    of *session* itself, and has no end.
    """
    if not is_branch(session):
        return [Run(session, 1, MAX_SEQ)]
    runs: list[Run] = []
    end = MAX_SEQ
    for row_id, branch, leaves_at, last_seq in tx.all(SELECT_PATH, {"id": session}):
        end = min(end, last_seq)
        if leaves_at < end:
            runs.append(Run(row_id, leaves_at + 1, end, branch))
    runs.reverse()
    return runs


def split_seqs(tx: Tx, session: int, seqs: Iterable[int]) -> list[tuple[int, list[int]]]:
    """Return which row holds which of *seqs* of a path: (row id, rising seqs), oldest first."""
    rising = sorted(set(seqs))
    if not is_branch(session):
        return [(session, rising)] if rising else []
    parts = [
        (run.session, [seq for seq in rising if run.first_seq <= seq <= run.last_seq])
        for run in runs_of(tx, session)
    ]
    return [part for part in parts if part[1]]


def row_of(tx: Tx, session: int, seq: int) -> int:
    """Return the row that holds message *seq* of a path, or would hold it."""
    if is_branch(session):
        for run in runs_of(tx, session):
            if run.first_seq <= seq <= run.last_seq:
                return run.session
    return session


def holds(runs: Iterable[Run], branch: str | None, seq: int | None) -> bool:
    """Return whether a path holds message *seq* of *branch*; None: any of it."""
    return any(run.branch == (branch or "") and (seq or 0) <= run.last_seq for run in runs)


def sharing(tx: Tx, session: int, from_seq: int) -> list[tuple[int, int]]:
    """
    Return the branches that share messages of a row from *from_seq* on, parents first.

    Returns:
        (id, the last seq that it shares) of each, also of branches of branches.
    """
    found: list[tuple[int, int]] = []
    open_rows = [(session, MAX_SEQ)]
    while open_rows:
        row, most = open_rows.pop(0)
        children = tx.all(SELECT_CHILDREN, {"id": row, "seq": from_seq})
        some = [(child, min(most, leaves_at)) for child, leaves_at in children]
        found += some
        open_rows += some
    return found


def rows_sharing(tx: Tx, session: int, seqs: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return a row and its rising *seqs*, then each branch with those of them that it shares."""
    shared = sharing(tx, session, seqs[0]) if seqs else []
    parts = [(row, [seq for seq in seqs if seq <= most]) for row, most in shared]
    return [(session, list(seqs)), *parts]
