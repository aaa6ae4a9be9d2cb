"""
Branch records: heads of a session that share its messages up to a seq.

The one way to make a branch, and to let it share less. A branch is a row of `sessions`;
`memdb.records.sessions` removes it. Every function joins the caller's transaction.
"""

from __future__ import annotations

from memdb.engine.branches import runs_of, sharing
from memdb.errors import AlreadyExists, InvalidInput, NotFound
from memdb.models.ids import BranchName, is_branch
from memdb.records import dependents, messages
from memdb.records import summaries as summary_records
from memdb.records.scopes import find_session
from memdb.tables import checks, jobs, sessions
from memdb.tables import messages as message_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.messages import Finding
    from memdb.models.protocols import Ids
    from memdb.records.scopes import ScopeRef

# Messages that are copied together.
COPIED = 500


def insert(
    tx: Tx, owner: ScopeRef, name: BranchName, source: str, after_seq: int | None, ids: Ids
) -> int:
    """
    Make a branch and return its id.

    Args:
        name: Of the session and of the new branch.
        source: The branch that it leaves; "" means the session itself.
        after_seq: The last seq that it shares; None means all there is.

    Raises:
        NotFound: there is no such session, or no such *source*.
        AlreadyExists: the session has a branch of that name.
        InvalidInput: *after_seq* was not given out yet.
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
        raise InvalidInput(f"after_seq is {leaves_at}: the last seq so far is {last_seq}")
    place: dict[str, Any] = {"name": str(name), "branch": name.branch, "uid": ids(tx.now_ms)}
    place |= {"parent_id": _parent_at(tx, parent, leaves_at), "leaves_at": leaves_at}
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
        columns: `metadata` and times, where they are known.
    """
    parent_id = _parent_at(tx, parent, place["leaves_at"])
    branch = sessions.add_branch(tx, scope_no, {**place, "parent_id": parent_id}, **columns)
    dependents.clear(tx, scope_no, [place["uid"]])
    return branch


def _parent_at(tx: Tx, session: int, seq: int) -> int:
    """Return the row of a path that holds *seq*; that of the session itself for 0."""
    return next((run.session for run in runs_of(tx, session) if seq <= run.last_seq), session)


def check(tx: Tx) -> Iterator[Finding]:
    """Yield branches that leave where their parent has no seq, or hold messages before that."""
    yield from checks.by_rule(tx, "branch_place", rebuildable=False)


def keep_others(tx: Tx, session: int, seqs: Sequence[int], ids: Ids) -> None:
    """
    Make sure that removing the rising *seqs* from a session or branch changes no other one.

    What it shares from the first of them on becomes its own, but for *seqs*; what others
    share of its own from there on becomes theirs.
    """
    first = seqs[0]
    own_from = max(first, runs_of(tx, session)[-1].first_seq)
    for branch in [row for row, _ in sharing(tx, session, own_from)]:
        _detach(tx, branch, own_from, (), ids)
    if is_branch(session):
        without = seqs if isinstance(seqs, range) else frozenset(seqs)
        _detach(tx, session, first, without, ids)


def _detach(tx: Tx, branch: int, first_seq: int, without: Container[int], ids: Ids) -> None:
    """Copy what a branch shares from *first_seq* on to it; seqs, times and words stay."""
    runs = runs_of(tx, branch)
    last_seq = max((run.last_seq for run in runs if run.session != branch), default=0)
    if last_seq < first_seq:
        return
    name = sessions.names(tx, [branch])[branch]
    copies = []
    after = first_seq - 1
    while page := message_rows.list_after(tx, branch, name, after, COPIED):
        copies += [one for one in page if one.seq <= last_seq and one.seq not in without]
        after = page[-1].seq
        if after >= last_seq:
            break
    summary_records.remove(tx, branch)
    summary_records.queue_session(tx, branch)
    sessions.move(tx, branch, _parent_at(tx, branch, first_seq - 1), first_seq - 1)
    drafts = [messages.to_draft(one) for one in copies]
    messages.place(tx, branch, drafts, ids, None, [one.seq for one in copies])
