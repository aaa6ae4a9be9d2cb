"""
Paths of branches: the rows that contain a branch's shared messages and its own.

A branch is a row of `sessions` with a parent. Up to the seq `leaves_at` it shares everything that
the parent's path has. Messages that it shares after that seq are listed in its `shares`, as spans
of messages of other rows. All other messages after that seq are its own. The path of a session
without a parent is the session itself, and nothing is read for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine.segments import spans_of
from memdb.errors import Corrupt
from memdb.models.ids import MAX_SEQ, is_branch, scope_of
from memdb.models.record import Record
from memdb.text.validate import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx

# The branch first, its session last; `last_seq` is how far each counts for the one before.
SELECT_PATH = """/* branches.path */
WITH RECURSIVE path (depth, id, parent_id, branch, leaves_at, shares, last_seq) AS (
  SELECT 0, id, parent_id, branch, leaves_at, shares, CAST(16777215 AS BIGINT)
  FROM sessions
  WHERE id = :id
  UNION ALL
  SELECT
    path.depth + 1,
    sessions.id,
    sessions.parent_id,
    sessions.branch,
    sessions.leaves_at,
    sessions.shares,
    path.leaves_at
  FROM path
  JOIN sessions ON sessions.id = path.parent_id AND path.parent_id < path.id
)
SELECT id, branch, leaves_at, last_seq, shares FROM path ORDER BY depth
"""

SELECT_NAMES = """/* branches.names */
SELECT id, branch FROM sessions WHERE id IN (SELECT value FROM json_each(:ids))
"""

# Of the sessions that some rows of a scope belong to. A parent is before its branches.
SELECT_ALL = """/* branches.all */
SELECT sessions.id, branches.id, branches.parent_id, branches.leaves_at, branches.shares
FROM sessions
JOIN sessions AS branches
  ON branches.scope_no = :scope_no
  AND branches.name = sessions.name
  AND branches.branch <> ''
WHERE sessions.id IN (SELECT value FROM json_each(:ids))
ORDER BY branches.id, sessions.id
"""


class Run(Record):
    """
    Messages of a path in one row of `sessions`, by their first and last seq.

    *branch* is the name of the row, "" for the session itself.
    """

    session: int
    first_seq: int
    last_seq: int
    branch: str = ""

    @property
    def span(self) -> tuple[int, int]:
        """The first and last possible id, both inclusive."""
        return self.session | self.first_seq, self.session | self.last_seq

    @property
    def seqs(self) -> range:
        """The seqs that they can have."""
        return range(self.first_seq, self.last_seq + 1)


class Branch(Record):
    """
    A branch, as its row stores it.

    Attributes:
        leaves_at: The last seq up to which it shares everything in its parent's path.
        shares: Messages that it shares after that, by the row that contains them, oldest first.
    """

    id: int
    parent_id: int
    leaves_at: int
    shares: tuple[Run, ...]


def regions_of(tx: Tx, session: int) -> list[Run]:
    """
    Return the rows of a path with the seqs that each one covers, oldest first.

    A path is a session and the branches that start from each other. A summary of a seq belongs to
    the row that covers it here. Messages that a branch shares after `leaves_at` are in another row.
    """
    return [region for region, _ in _path(tx, session)]


def runs_of(tx: Tx, session: int) -> list[Run]:
    """
    Return the runs of a path, oldest first: each names a row and its messages. None overlaps.

    The result is one run if *session* is not a branch, and [] if the branch was deleted. The last
    run is that of *session* itself, and has no end. A row has several runs if other rows contain
    the messages in between.
    """
    path = _path(tx, session)
    if not any(shares for _, shares in path):
        return [region for region, _ in path]
    runs = [run for region, shares in path for run in _divide(region, shares)]
    known = {region.session: region.branch for region, _ in path}
    others = sorted({run.session for run in runs}.difference(known))
    if others:
        known |= dict(tx.all(SELECT_NAMES, {"ids": others}))
    return [run.replace(branch=known.get(run.session, "")) for run in runs]


def expect_paths(tx: Tx, rows: Iterable[int]) -> None:
    """Prefetch what `runs_of` reads of some rows."""
    for row in rows:
        if is_branch(row):
            tx.expect(SELECT_PATH, {"id": row})


def _path(tx: Tx, session: int) -> list[tuple[Run, tuple[Run, ...]]]:
    """Return the regions of a path, each with the `shares` of its row, oldest first."""
    if not is_branch(session):
        return [(Run(session, 1, MAX_SEQ), ())]
    found: list[tuple[Run, tuple[Run, ...]]] = []
    end = MAX_SEQ
    for row_id, branch, leaves_at, last_seq, shares in tx.all(SELECT_PATH, {"id": session}):
        end = min(end, last_seq)
        if leaves_at < end:
            found.append((Run(row_id, leaves_at + 1, end, branch), _read(shares)))
    found.reverse()
    return found


def _read(shares: str | None) -> tuple[Run, ...]:
    """
    Return `sessions.shares` as runs.

    Raises:
        Corrupt: the column is damaged.
    """
    if shares is None:
        return ()
    try:
        return tuple(Run(session, first, last) for first, last, session in parse_json(shares, list))
    except (TypeError, ValueError) as error:
        raise Corrupt("what a branch shares is damaged: run `memdb check`") from error


def _divide(region: Run, shares: tuple[Run, ...]) -> Iterator[Run]:
    """Yield the runs of a region: its own messages, and the shared messages between them."""
    first_seq = region.first_seq
    for share in shares:
        if share.first_seq > region.last_seq:
            break
        if first_seq < share.first_seq:
            yield region.replace(first_seq=first_seq, last_seq=share.first_seq - 1)
        yield share.replace(last_seq=min(share.last_seq, region.last_seq))
        first_seq = share.last_seq + 1
    if first_seq <= region.last_seq:
        yield region.replace(first_seq=first_seq)


def split_seqs(tx: Tx, session: int, seqs: Iterable[int]) -> list[tuple[int, list[int]]]:
    """Return the rows that contain *seqs* of a path, each once: (row id, rising seqs)."""
    rising = sorted(set(seqs))
    if not is_branch(session):
        return [(session, rising)] if rising else []
    parts: dict[int, list[int]] = {}
    for run in runs_of(tx, session):
        some = [seq for seq in rising if run.first_seq <= seq <= run.last_seq]
        if some:
            parts.setdefault(run.session, []).extend(some)
    return list(parts.items())


def row_of(tx: Tx, session: int, seq: int) -> int:
    """Return the row that contains message *seq* of a path, or would contain it."""
    if is_branch(session):
        for run in runs_of(tx, session):
            if run.first_seq <= seq <= run.last_seq:
                return run.session
    return session


def holds(runs: Iterable[Run], branch: str | None, seq: int | None) -> bool:
    """Return whether a path contains message *seq* of *branch*; None means any message of it."""
    name = branch or ""
    return any(
        run.branch == name and (seq is None or run.first_seq <= seq <= run.last_seq) for run in runs
    )


def within(runs: Iterable[Run], spans: Sequence[tuple[int, int]]) -> list[Run]:
    """
    Return the parts of *runs* inside *spans*; both rise, and neither overlaps itself.

    >>> [(one.first_seq, one.last_seq) for one in within([Run(0, 2, 6)], [(1, 2), (5, 9)])]
    [(2, 2), (5, 6)]
    """
    found = []
    place = 0
    for run in runs:
        while place < len(spans) and spans[place][1] < run.first_seq:
            place += 1
        for first, last in spans[place:]:
            if first > run.last_seq:
                break
            low, high = max(first, run.first_seq), min(last, run.last_seq)
            found.append(run.replace(first_seq=low, last_seq=high))
    return found


def without(runs: Iterable[Run], spans: Sequence[tuple[int, int]]) -> list[Run]:
    """
    Return the parts of *runs* outside *spans*; the counterpart of `within`.

    >>> [(one.first_seq, one.last_seq) for one in without([Run(0, 2, 6)], [(1, 2), (5, 9)])]
    [(3, 4)]
    """
    ends = [0, *(last for _, last in spans)]
    starts = [*(first for first, _ in spans), MAX_SEQ + 1]
    gaps = [(end + 1, start - 1) for end, start in zip(ends, starts, strict=True)]
    return within(runs, [(first, last) for first, last in gaps if first <= last])


def branches_of(tx: Tx, session: int) -> list[Branch]:
    """Return every branch of the session that a row belongs to, parents first."""
    return _families(tx, [session])[session]


def _families(tx: Tx, rows: Collection[int]) -> dict[int, list[Branch]]:
    """Return what `branches_of` does, by row; all *rows* are of one scope."""
    found: dict[int, list[Branch]] = {row: [] for row in rows}
    if found:
        values = {"ids": [*found], "scope_no": scope_of(min(found))}
        for row, row_id, parent_id, leaves_at, shares in tx.all(SELECT_ALL, values):
            found[row].append(Branch(row_id, parent_id, leaves_at, _read(shares)))
    return found


def descendants(tx: Tx, session: int) -> list[int]:
    """Return the branches that start from a session or branch, and the branches of those."""
    found = {session}
    below = []
    for branch in branches_of(tx, session):
        if branch.parent_id in found and branch.id != session:
            found.add(branch.id)
            below.append(branch.id)
    return below


def rows_sharing(tx: Tx, parts: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield each branch of a scope that shares rising seqs of other rows, with these."""
    for session, every in _families(tx, [row for row in parts if parts[row]]).items():
        spans = list(spans_of(parts[session]))
        shown = {session: [Run(session, *span) for span in spans]}
        for branch in every:
            if branch.id != session:
                above = within(shown.get(branch.parent_id, ()), [(1, branch.leaves_at)])
                own = [share for share in branch.shares if share.session == session]
                if runs := above + within(own, spans):
                    shown[branch.id] = runs
                    yield branch.id, [seq for run in runs for seq in run.seqs]


def sharing(tx: Tx, places: Mapping[int, int]) -> list[int]:
    """
    Return the branches whose path contains messages of other rows of a scope, parents first.

    Args:
        places: The seq of each row from which its messages count.
    """
    found: dict[int, None] = {}
    for session, every in _families(tx, places).items():
        shown = {session: MAX_SEQ}  # how far each path goes in the row
        for branch in every:
            if branch.id != session:
                own = [share.last_seq for share in branch.shares if share.session == session]
                most = max(min(shown.get(branch.parent_id, 0), branch.leaves_at), *own, 0)
                shown[branch.id] = most
                if most >= places[session]:
                    found[branch.id] = None
    return [*found]
