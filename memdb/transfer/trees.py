"""
Where the messages of a tree go: to their session, or to branches of it.

A question that was edited, or an answer that was made again, lets a conversation go on in
two ways. A format gives each message the external id of the one before it. What follows the
newest message of the session or of a branch is added there; what follows another one begins
a branch, called by its external id. So it does not matter which way is imported first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.ids import BranchName, branch_of, seq_of, session_of
from memdb.models.record import Record
from memdb.records import branches as branch_records
from memdb.tables import messages, sessions
from memdb.transfer.lines import TargetSession
from memdb.transfer.message_merge import MessageMerge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.base import Tx
    from memdb.transfer.lines import Target
    from memdb.transfer.message_merge import MessageLine

    # A message that is stored by its seq, one that is to come by its external id.
    Place = int | str


class Step(Record):
    """
    Lines that go to a session or a branch, one behind the other.

    Attributes:
        name: Of the session, or of the branch.
        source: What a new branch leaves; None means that it is there.
        after: The external id behind which it leaves; None means before all messages.
    """

    name: str
    source: str | None
    after: str | None
    lines: list[MessageLine]


class Heads:
    """The messages of a session that lines name, and the newest of each of its branches."""

    def __init__(self, session: str) -> None:
        """Begin with a session that is not there."""
        self.session = session
        self._at: dict[str, tuple[str, Place]] = {}
        self._newest: dict[str, Place] = {session: 0}

    @property
    def is_empty(self) -> bool:
        """Whether the session holds no messages."""
        return [*self._newest.items()] == [(self.session, 0)]

    def read(self, target: Target, tx: Tx, lines: Iterable[MessageLine]) -> None:
        """Look up what *lines* name in the session and its branches."""
        ids = sorted({one for line in lines for one in (line.draft.external_id, line.after) if one})
        scope_no = target.owner.find(tx)
        rows = list_rows(target, tx, self.session)
        for row, name in rows.items():
            assert scope_no is not None
            head = sessions.head(tx, scope_no, self.session, branch_of(name))
            self._newest[name] = 0 if head is None else head[1].newest_seq
            for external_id, (ref, _, _) in messages.by_externals(tx, row, ids).items():
                holder = rows.get(session_of(ref), name)
                self._at.setdefault(external_id, (holder, seq_of(ref)))

    def plan(self, lines: Iterable[MessageLine]) -> list[Step]:
        """Return where *lines* go, in their order."""
        steps: list[Step] = []
        last = self.session
        for line in lines:
            external_id, after = line.draft.external_id or "", line.after
            source = None
            if external_id in self._at:  # a message again: it is compared there
                last = self._at[external_id][0]
            else:
                # What follows a message that is not here goes on where the one before it went.
                there = (last, self._newest[last])
                home, place = (self.session, 0) if after is None else self._at.get(after, there)
                last = home
                if self._newest[home] != place:
                    source, last = home, self._free_name(external_id)
                self._newest[last] = external_id
                self._at[external_id] = (last, external_id)
            if source is not None or not steps or steps[-1].name != last:
                steps.append(Step(last, source, after, []))
            steps[-1].lines.append(line.replace(session=last))
        return steps

    def _free_name(self, external_id: str) -> str:
        name = external_id
        while BranchName(self.session, name) in self._newest:
            name += "'"
        return BranchName(self.session, name)


def list_rows(target: Target, tx: Tx, session: str) -> dict[int, str]:
    """Return id and name of a session and its branches, as far as they are here."""
    row, scope_no = target.find_session(tx, session), target.owner.find(tx)
    if row is None or scope_no is None:
        return {}
    found = sessions.list_branches(tx, scope_no, session)
    return {row: session, **{one: BranchName(session, info.name) for one, info in found}}


def make_branch(target: Target, tx: Tx, step: Step) -> None:
    """Make the branch that a step begins."""
    assert step.source is not None
    assert isinstance(step.name, BranchName)
    parent = target.find_session(tx, step.source)
    assert parent is not None
    leaves_at = 0
    if step.after is not None:
        leaves_at = seq_of(messages.by_externals(tx, parent, [step.after])[step.after][0])
    source, ids = branch_of(step.source), target.services.db.ids
    branch = branch_records.insert(tx, target.owner, step.name, source, leaves_at, ids)
    target.sessions[step.name] = TargetSession(branch, fresh=True)
    target.added["branches"] += 1


def notes_of(steps: Iterable[Step]) -> list[str]:
    """Return what to say of the branches that begin in a session that was here before."""
    return [
        f"{step.lines[0].place}: session {str(step.name)!r} goes on in another way here, so this "
        f"and what follows ({len(step.lines):,} in all) is its branch {branch_of(step.name)!r}"
        for step in steps
        if step.source is not None
    ]


def write_tree(target: Target, tx: Tx, session: str, lines: list[MessageLine]) -> None:
    """Add the messages of a tree that are new to their session and its branches."""
    target.session(tx, session)
    heads = Heads(session)
    heads.read(target, tx, lines)
    was_empty = heads.is_empty
    steps = heads.plan(lines)
    for step in steps:
        if step.source is not None:
            make_branch(target, tx, step)
        MessageMerge(target, tx, target.session(tx, step.name)).write(step.lines)
    if not was_empty:
        target.notes += notes_of(steps)


def try_tree(target: Target, lines: list[MessageLine]) -> int:
    """Return how many branches a tree has, for a dry run; note those that are new here."""
    heads, session = Heads(lines[0].session), lines[0].session
    count = sum(step.source is not None for step in Heads(session).plan(lines))
    with target.services.db.read() as tx:
        heads.read(target, tx, lines)
    if not heads.is_empty:
        target.notes += notes_of(heads.plan(lines))
    return count
