"""
Branch records: heads of a session that share its messages.

Only this module makes a branch, and lets it share less: a message is never copied. If the head that
contains a message drops it, the message moves to the oldest branch that shows it. The others share
it from there. A branch is a row of `sessions`; `memdb.records.sessions` removes it. Every function
joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import branches_of, runs_of, within, without
from memdb.engine.segments import spans_of
from memdb.errors import AlreadyExists, InvalidInput, NotFound
from memdb.models.ids import MAX_SEQ, BranchName
from memdb.models.record import Record
from memdb.records import dependents, messages
from memdb.records import summaries as summary_records
from memdb.records.scopes import find_session
from memdb.tables import checks, jobs, sessions
from memdb.tables import messages as message_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.engine.branches import Run
    from memdb.models.messages import Finding
    from memdb.models.protocols import Ids
    from memdb.records.scopes import ScopeRef

# Every seq that there can be.
ALL_SEQS = [(1, MAX_SEQ)]


class Place(Record):
    """Where a branch starts, and the messages that it shares after that; see `Branch`."""

    parent_id: int
    leaves_at: int
    shares: list[Run]


def insert(
    tx: Tx, owner: ScopeRef, name: BranchName, source: str, after_seq: int | None, ids: Ids
) -> int:
    """
    Make a branch and return its id.

    Args:
        name: Name of the session and of the new branch.
        source: The branch that it leaves; "" means the session itself.
        after_seq: The last seq that it shares; None means all messages.

    Raises:
        NotFound: there is no such session, or no such *source*.
        AlreadyExists: the session has a branch of that name.
        InvalidInput: *after_seq* was not used yet.
    """
    parent = find_session(tx, owner, BranchName(name, source))
    if parent is None:
        where = f"session {str(name)!r}"
        raise NotFound("branch", source, where) if source else NotFound("session", str(name))
    scope_no = owner.ensure(tx)
    if sessions.find(tx, scope_no, name, name.branch) is not None:
        raise AlreadyExists("branch", name.branch)
    last_seq = sessions.last_seq(tx, parent)
    leaves_at = last_seq if after_seq is None else after_seq
    if leaves_at > last_seq:
        raise InvalidInput(f"after_seq is {leaves_at}, but the last seq so far is {last_seq}")
    place: dict[str, Any] = {"name": str(name), "branch": name.branch, "uid": ids(tx.now_ms)}
    place |= {"parent_id": _above(tx, parent, leaves_at + 1), "leaves_at": leaves_at}
    branch = sessions.add_branch(tx, scope_no, place)
    if leaves_at:  # what it shares is looked at where it was said
        jobs.set_extracted(tx, branch, leaves_at)
    return branch


def restore(
    tx: Tx, scope_no: int, parent: int, place: Mapping[str, Any], columns: Mapping[str, Any]
) -> int:
    """
    Make a branch of *parent* as it was exported, and return its id.

    Args:
        place: `name`, `branch`, `uid` and `leaves_at`.
        columns: `metadata` and times, if they are known.
    """
    parent_id = _above(tx, parent, place["leaves_at"] + 1)
    branch = sessions.add_branch(tx, scope_no, {**place, "parent_id": parent_id}, **columns)
    dependents.clear(tx, scope_no, [place["uid"]])
    return branch


def restore_shares(tx: Tx, branch: int, shares: Iterable[Run]) -> None:
    """
    Attach shared spans of other rows to a restored branch, without those it cannot share.

    Args:
        shares: Spans of rows that are older than the branch and have these messages here.
    """
    (here,) = [one for one in branches_of(tx, branch) if one.id == branch]
    kept: list[Run] = []
    after = here.leaves_at
    for run in sorted(shares, key=lambda run: run.first_seq):
        if run.session < branch and after < run.last_seq:
            kept.append(run.replace(first_seq=max(run.first_seq, after + 1)))
            after = run.last_seq
    sessions.move(tx, branch, here.parent_id, here.leaves_at, kept)


def raise_seq(tx: Tx, branch: int) -> None:
    """Raise the next seq of a branch above all seqs of its session."""
    rows = [branch, *sessions.roots(tx, [branch]).values()]
    rows += [one.id for one in branches_of(tx, branch)]
    last_seq = max(sessions.last_seq(tx, row) for row in rows)
    sessions.raise_seq(tx, branch, last_seq, sessions.updated_ms(tx, branch))


def _above(tx: Tx, session: int, seq: int) -> int:
    """Return the newest row of a path that starts before *seq*; the session itself for 0."""
    every = {one.id: one for one in branches_of(tx, session)}
    while session in every and every[session].leaves_at >= seq:
        session = every[session].parent_id
    return session


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the branches whose shared messages no other row of their session can contain."""
    wrong = (
        f"{branch} of {name}"
        for row, name, branch in sessions.list_sharing(tx)
        if not _can_share(tx, row)
    )
    yield from checks.by_hash("branch_shares", "branch", wrong)


def _can_share(tx: Tx, branch: int) -> bool:
    """Return whether the rows that a branch shares with exist, and have what it lacks."""
    every = {one.id: one for one in branches_of(tx, branch)}
    rows = {*every, *sessions.roots(tx, [branch]).values()}
    after = every[branch].leaves_at
    for run in every[branch].shares:
        span = branch | run.first_seq, branch | run.last_seq
        is_place = after < run.first_seq <= run.last_seq and run.session in rows
        if not is_place or run.session >= branch or message_rows.count(tx, *span):
            return False
        after = run.last_seq
    return True


def keep_others(tx: Tx, session: int, seqs: Sequence[int]) -> None:
    """
    Remove the rising *seqs* from the path of a session or branch, and from no other path.

    Messages that only this path shows are not deleted here: the caller removes them. Branches that
    start from it at the first of *seqs* or later then start from the place of the message before.
    """
    first, spans = seqs[0], list(spans_of(seqs))
    parent = _above(tx, session, first - 1)
    places: dict[int, Place] = {}
    for one in branches_of(tx, session):
        leaves_here = one.parent_id == session and one.leaves_at >= first - 1
        if leaves_here or (one.id == session and one.leaves_at >= first):
            later = within(runs_of(tx, one.id), [(first, MAX_SEQ)])
            shares = [run for run in later if run.session != one.id]
            places[one.id] = Place(parent, first - 1, shares)
        elif one.id == session or any(run.session == session for run in one.shares):
            places[one.id] = Place(one.parent_id, one.leaves_at, list(one.shares))
    mine = places.pop(session, None)
    if mine is not None:
        _write(tx, session, mine.replace(shares=without(mine.shares, spans)))
    _hand_over(tx, session, spans, places)


def others_show(tx: Tx, session: int, going: Collection[int]) -> list[tuple[int, int]]:
    """Return the rising spans of a row that branches show and that are not *going*."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(
        (run.first_seq, run.last_seq)
        for one in branches_of(tx, session)
        if one.id not in going
        for run in one.shares
        if run.session == session
    ):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def leave_to_others(tx: Tx, session: int, going: Collection[int]) -> None:
    """Move the messages of a row that other branches show to those, except the ones *going*."""
    places = {
        one.id: Place(one.parent_id, one.leaves_at, list(one.shares))
        for one in branches_of(tx, session)
        if one.id not in going and any(run.session == session for run in one.shares)
    }
    _hand_over(tx, session, ALL_SEQS, places)


def _hand_over(
    tx: Tx, session: int, spans: Sequence[tuple[int, int]], places: dict[int, Place]
) -> None:
    """Move the messages of a row in *spans* to the branches of *places* that show them."""
    moves: dict[int, list[tuple[int, int]]] = {}
    for home in sorted(places):
        held = [run for run in places[home].shares if run.session == session]
        taken = [(run.first_seq, run.last_seq) for run in within(held, spans)]
        if taken:
            moves[home] = taken
            for row, place in places.items():
                places[row] = place.replace(shares=_redirected(place.shares, session, taken, home))
    for row, place in places.items():
        _write(tx, row, place.replace(shares=[run for run in place.shares if run.session != row]))
    for home, taken in moves.items():
        messages.move(tx, session, home, taken)


def _redirected(
    shares: list[Run], session: int, spans: list[tuple[int, int]], home: int
) -> list[Run]:
    """Return *shares*, in which spans of a row are now taken from *home*."""
    of_row = [run for run in shares if run.session == session]
    if not of_row:
        return shares
    kept = [run for run in shares if run.session != session] + without(of_row, spans)
    kept += [run.replace(session=home) for run in within(of_row, spans)]
    return sorted(kept, key=lambda run: run.first_seq)


def _write(tx: Tx, branch: int, place: Place) -> None:
    """Move a branch to a place; if the place differs, it is summarised again."""
    (before,) = [one for one in branches_of(tx, branch) if one.id == branch]
    if Place(before.parent_id, before.leaves_at, list(before.shares)) == place:
        return
    summary_records.remove(tx, {branch: 0})
    summary_records.queue_session(tx, branch)
    sessions.move(tx, branch, place.parent_id, place.leaves_at, place.shares)
