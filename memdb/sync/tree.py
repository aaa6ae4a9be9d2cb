"""
The order of the messages of a session, and the row of each of them.

Each message except the first follows one that its device had before. Where two devices continued
one session apart, two messages follow the same one. The continuation that was begun first, by the
uid, stays in line; the other one becomes a branch `fork-...` that leaves there. So the rows depend
on nothing but the messages, and each device comes to the same ones by itself. So does the place
where a branch leaves: behind the message before its first one that is still there.

A home is the session itself or a branch that somebody made. Messages in segments name homes and
no forks; the name of a fork ends with its home.
"""

from __future__ import annotations

from bisect import bisect_right
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from memdb.engine.branches import branches_of
from memdb.engine.segments import spans_of
from memdb.models.ids import seq_of, session_range, thing_hash
from memdb.models.messages import uid_from_bytes
from memdb.records import branches as branch_records
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records import summaries as summary_records
from memdb.tables import sessions, synced
from memdb.tables.synced import FORK, FORK_DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx

# Messages before one that are named one by one, for where some of them are removed.
NEAR = 16


class Node:
    """A message: its seq, the uid of the one before it, home, row and time."""

    __slots__ = ("created_ms", "home", "parent", "row", "seq")

    def __init__(
        self, seq: int, parent: str | None, home: str, row: str | None, created_ms: int
    ) -> None:
        """Make a node; *row* is the branch that contains it, None means that none yet."""
        self.created_ms = created_ms
        self.seq = seq
        self.parent = parent
        self.home = home
        self.row = row


class Tree:
    """
    The messages of a session.

    Attributes:
        rows: The id of each row, by the name of the branch; "" is the session.
        nodes: By uid.
        homes: By the branch of a row, its home.
        after: By home, the uid of the message that it leaves behind; None: at the start.
        has_shares: A branch shows messages that its parent lost; such a session stays unchanged.
        moved: Homes whose first message now follows another one than the home left behind.
    """

    def __init__(self, tx: Tx, session: int) -> None:
        """Read the session with id *session*."""
        self.session = session
        self.rows = {"": session}
        self.homes = {"": ""}
        self.nodes: dict[str, Node] = {}
        self.after: dict[str, str | None] = {"": None}
        self.moved: set[str] = set()
        self._parents: dict[str, tuple[str, int]] = {}
        self._shown: dict[str, tuple[list[int], list[str]]] = {}
        found = branches_of(tx, session)
        self.has_shares = any(one.shares for one in found)
        names = sessions.branch_names(tx, [one.id for one in found]) if found else {}
        by_id = {session: "", **names}
        self._read_row(tx, "", session, None)
        for one in found:
            name, above = names[one.id], by_id[one.parent_id]
            self.rows[name] = one.id
            self._parents[name] = above, one.leaves_at
            self.homes[name] = home_of(name)
            leaves = self._last_before(above, one.leaves_at)
            if not is_fork(name):
                self.after[name] = leaves
            self._read_row(tx, name, one.id, leaves)
        self._count()

    def _count(self) -> None:
        """Find the messages that another one follows in their home. Other messages are tips."""
        self._followed: set[tuple[str | None, str]] = {
            (node.parent, node.home) for node in self.nodes.values()
        }

    def _read_row(self, tx: Tx, name: str, row: int, parent: str | None) -> None:
        """Add the messages of a row, each behind the one before it."""
        seqs, uids = [], []
        home = self.homes[name]
        for row_id, data, created_ms in synced.message_uids(tx, *session_range(row)):
            uid = uid_from_bytes(data)
            self.nodes[uid] = Node(seq_of(row_id), parent, home, name, created_ms)
            seqs.append(seq_of(row_id))
            uids.append(uid)
            parent = uid
        self._shown[name] = seqs, uids

    def _last_before(self, row: str, seq: int) -> str | None:
        """Return the last message up to *seq* on the path of a row."""
        while True:
            seqs, uids = self._shown[row]
            place = bisect_right(seqs, seq)
            if place:
                return uids[place - 1]
            if row not in self._parents:
                return None
            row, leaves_at = self._parents[row]
            seq = min(seq, leaves_at)

    def ancestors(self, uid: str | None) -> list[str]:
        """Return *uid* and some before it, nearest first: 16, then ever fewer, and the first."""
        found: list[str] = []
        count, due = 0, 0
        while uid is not None:
            before = self.nodes[uid].parent
            if count == due or before is None:
                found.append(uid)
                due += 1 if len(found) < NEAR else due
            count += 1
            uid = before
        return found

    def nearest(self, ancestors: Sequence[str], seq: int) -> str | None:
        """Return the last message here that a message with *seq* and these *ancestors* follows."""
        place = next((n for n, one in enumerate(ancestors) if one in self.nodes), None)
        if place is None:
            return None
        found = ancestors[place]
        if place < NEAR:
            return found
        home = self.nodes[found].home
        below = {node.parent: uid for uid, node in self.nodes.items() if node.home == home}
        while found in below and self.nodes[below[found]].seq < seq:
            found = below[found]
        return found

    def add(self, uid: str, seq: int, parent: str | None, home: str, created_ms: int) -> bool:
        """Add a message that follows *parent*; return whether it just continues with a row."""
        row = None
        if parent is not None and (parent, home) not in self._followed:
            above = self.nodes[parent]
            if above.home == home and above.row is not None:
                row = above.row
        if parent is None and home == "" and not self.nodes:
            row = ""
        self.nodes[uid] = Node(seq, parent, home, row, created_ms)
        self._followed.add((parent, home))
        return row is not None

    def arrange(self, tx: Tx) -> None:
        """Find the row that each message belongs to, and move those that are in another one."""
        if self.has_shares:
            for node in self.nodes.values():
                node.row = self.homes.get(node.home, "") if node.row is None else node.row
            return
        wanted = self._lay_out()
        placed = {uid: node.row for uid, node in self.nodes.items() if node.row is not None}
        for uid, (row, _) in wanted.items():
            self.nodes[uid].row = row
        self._make_rows(tx)
        moves: dict[tuple[str, str], list[int]] = {}
        for uid, before in placed.items():
            node = self.nodes[uid]
            if node.row is not None and node.row != before:
                moves.setdefault((before, node.row), []).append(node.seq)
        for (before, to), seqs in sorted(moves.items(), key=lambda move: not is_fork(move[0][1])):
            spans = list(spans_of(sorted(seqs)))
            message_records.move(tx, self.rows[before], self.rows[to], spans)
            last, now_ms = max(seqs), sessions.updated_ms(tx, self.rows[to])
            sessions.raise_seq(tx, self.rows[to], last, now_ms)
            for changed in (self.rows[before], self.rows[to]):
                summary_records.remove(tx, {changed: 0})
                summary_records.queue_session(tx, changed)
        self._drop_empty_forks(tx)

    def _lay_out(self) -> dict[str, tuple[str, str]]:
        """Return the row and the home of each message."""
        below: dict[tuple[str | None, str], list[str]] = {}
        for uid, node in self.nodes.items():
            above = None if node.parent is None else self.nodes[node.parent]
            is_root = above is None or above.home != node.home
            below.setdefault((None if is_root else node.parent, node.home), []).append(uid)
        found: dict[str, tuple[str, str]] = {}
        open_ = [
            (home, uid) for (parent, home), uids in below.items() if parent is None for uid in uids
        ]
        starts: list[tuple[str, str, str]] = []
        for home in {home for home, _ in open_}:
            first, *others = sorted(uid for at, uid in open_ if at == home)
            starts += [(first, home, home), *((uid, fork_name(uid, home), home) for uid in others)]
        while starts:
            uid, row, home = starts.pop()
            while True:
                found[uid] = row, home
                following = sorted(below.get((uid, home), ()))
                if not following:
                    break
                starts += [(one, fork_name(one, home), home) for one in following[1:]]
                uid = following[0]
        return found

    def _make_rows(self, tx: Tx) -> None:
        """Make the forks that are wanted, and let each row leave from where it belongs."""
        places: dict[str, tuple[str, int]] = {}
        begun: dict[str, int] = {}
        for node in self.nodes.values():
            assert node.row is not None
            if node.row == "":
                continue
            self.homes[node.row] = node.home
            above = None if node.parent is None else self.nodes[node.parent]
            if above is None or above.row != node.row:
                places[node.row] = ("", 0) if above is None else (str(above.row), above.seq)
                begun[node.row] = node.created_ms
                if self.after.get(node.row, node.parent) != node.parent:
                    self.moved.add(node.row)
        for name, uid in self.after.items():
            if name and name not in places:
                places[name] = (
                    ("", 0) if uid is None else (str(self.nodes[uid].row), self.nodes[uid].seq)
                )
        done = {""}
        while len(done) <= len(places):
            ready = [
                name for name, (above, _) in places.items() if above in done and name not in done
            ]
            if not ready:
                return
            for name in sorted(ready):
                self._make_row(tx, name, *places[name], begun.get(name, 0))
                done.add(name)

    def _make_row(self, tx: Tx, name: str, above: str, leaves_at: int, begun_ms: int) -> None:
        while above and self._parents[above][1] >= leaves_at:  # it leaves before that row begins
            above = self._parents[above][0]
        if self._parents.get(name) == (above, leaves_at):
            return
        row = self.rows.get(name)
        session, scope_no = sessions.identity(tx, self.session), self.session >> 44
        assert session is not None
        place = {"name": session[0], "branch": name, "leaves_at": leaves_at}
        self._parents[name] = above, leaves_at
        if row is not None and self.rows[above] < row:
            sessions.raise_seq(tx, row, leaves_at, sessions.updated_ms(tx, row))
            sessions.move(tx, row, self.rows[above], leaves_at, ())
        elif row is None:
            place["uid"] = fork_uid(session[0], name)
            columns = {"created_ms": begun_ms}
            self.rows[name] = branch_records.restore(tx, scope_no, self.rows[above], place, columns)
        else:
            session_records.replace_branch(tx, row, self.rows[above], leaves_at)
            ids = [one.id for one in branches_of(tx, self.session)]
            named = sessions.branch_names(tx, ids)
            self.rows = {"": self.session, **{one: key for key, one in named.items()}}

    def _drop_empty_forks(self, tx: Tx) -> None:
        used = {node.row for node in self.nodes.values()}
        for name in sorted(self.rows, key=self.rows.__getitem__, reverse=True):
            if is_fork(name) and name not in used:
                session_records.drop_row(tx, self.rows.pop(name))
                del self._parents[name]


def home_of(name: str) -> str:
    """Return the home of the messages of a branch."""
    return name[len(FORK) + FORK_DIGITS + 1 :] if is_fork(name) else name


def is_fork(name: str) -> bool:
    """Return whether a branch is one that `memdb.sync` made."""
    return fnmatchcase(name, synced.FORKS)


def fork_name(uid: str, home: str) -> str:
    """Return the name of the branch of a home that begins with a message."""
    digits = synced.message_thing(uid) & ((1 << 4 * FORK_DIGITS) - 1)
    return f"{FORK}{digits:0{FORK_DIGITS}x}{home and f'-{home}'}"


def fork_uid(session: str, name: str) -> str:
    """Return the uid of a fork: the same wherever it is made."""
    high = thing_hash(session, name) & ((1 << 64) - 1)
    low = thing_hash(name, session) & ((1 << 64) - 1)
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
