"""
Messages of one session, compared with what it holds and then added to it.

External ids, seqs and uids are looked up a thousand at once; a message that is here
already stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, TooLarge
from memdb.models.ids import MAX_SEQ, is_branch
from memdb.models.record import Record
from memdb.records import messages as message_records
from memdb.tables import messages, sessions
from memdb.transfer.lines import TargetSession, located

if TYPE_CHECKING:
    from memdb.engine.base import Tx
    from memdb.records.messages import Draft
    from memdb.transfer.lines import Target


class MessageLine(Record):
    """
    A message as a line has it.

    Attributes:
        seq: None puts it at the end of its session.
        in_tree: It goes behind *after*, as `memdb.transfer.trees` says.
        after: The external id of the message before it; None means that it is the first.
    """

    place: str
    session: str
    seq: int | None
    draft: Draft
    in_tree: bool = False
    after: str | None = None


def taken_by_another(line: MessageLine) -> InvalidInput:
    """Return the error for a line whose external id another message has."""
    return InvalidInput(
        f"{line.place}: external_id {line.draft.external_id!r} belongs to a different message "
        f"of session {line.session!r}: give this one another"
    )


class MessageMerge:
    """Lines of one session, compared with what the session holds and then added to it."""

    def __init__(self, target: Target, tx: Tx, into: TargetSession) -> None:
        """Add to the session *into* of *target*."""
        self._target = target
        self._tx = tx
        self._into = into
        self._by_external: dict[str, tuple[int, str, str]] = {}
        self._uids: dict[int, str] = {}
        self._by_uid: dict[str, int] = {}

    def write(self, lines: list[MessageLine]) -> None:
        """Add the lines that are new."""
        lines = self._without_forgotten(lines)
        self._load(lines)
        fresh = [(line, self._free_seq(line)) for line in lines if not self._is_stored(line)]
        self._insert(fresh)
        self._target.added["messages_added"] += len(fresh)
        self._target.added["messages_known"] += len(lines) - len(fresh)

    def _without_forgotten(self, lines: list[MessageLine]) -> list[MessageLine]:
        """Return the lines without the exported messages that were forgotten here."""
        uids = [line.draft.uid for line in lines if line.seq is not None and line.draft.uid]
        forgotten = self._target.are_forgotten(self._tx, uids) if uids else set()
        if not forgotten:
            return lines
        kept = [line for line in lines if line.seq is None or line.draft.uid not in forgotten]
        self._target.added["forgotten"] += len(lines) - len(kept)
        return kept

    def _load(self, lines: list[MessageLine]) -> None:
        """Look up the external ids, seqs and uids of *lines*."""
        tx, into = self._tx, self._into
        given = [line.draft.external_id for line in lines if line.draft.external_id is not None]
        self._by_external = messages.by_externals(tx, into.id, given) if given else {}
        uids = {into.id | line.seq: line.draft.uid or "" for line in lines if line.seq is not None}
        if not uids or into.fresh:
            return
        self._uids = messages.uids(tx, list(uids))
        if not into.own or any(self._uids.get(ref, uid) != uid for ref, uid in uids.items()):
            wanted = [line.draft.uid or "" for line in lines if line.seq is not None]
            self._by_uid = messages.find_uids(tx, into.id, wanted)

    def _is_stored(self, line: MessageLine) -> bool:
        """Whether the session holds a line; InvalidInput if its external id is taken."""
        draft = line.draft
        if line.seq is not None:
            if self._uids.get(self._into.id | line.seq) == draft.uid:
                return True
            here = self._by_uid.get(draft.uid or "")
            if here is not None:
                self._move(line.session, line.seq, here)
                return True
        if draft.external_id is None:
            return False
        twin = self._by_external.get(draft.external_id)
        if twin is None:
            self._by_external[draft.external_id] = (0, draft.role, draft.text)
            return False
        if twin[1:] != (draft.role, draft.text) and not self._target.is_captured:
            raise taken_by_another(line)
        if line.seq is not None:
            self._move(line.session, line.seq, twin[0])
        return True

    def _move(self, session: str, seq: int, here: int) -> None:
        """Note the seq that a stored message has here; later messages then go to the end."""
        self._into.own = False
        if here:
            self._target.moved[session, seq] = here & MAX_SEQ

    def _free_seq(self, line: MessageLine) -> int | None:
        """Return the seq of the file if it is free here; None puts the message at the end."""
        if line.seq is None:
            return None
        row_id, uid = self._into.id | line.seq, line.draft.uid or ""
        if self._into.own and row_id not in self._uids:
            self._uids[row_id] = uid
            return line.seq
        self._into.own = False
        self._by_uid[uid] = 0  # the end; a line that repeats it is stored already
        return None

    def _insert(self, fresh: list[tuple[MessageLine, int | None]]) -> None:
        """Add messages, each with the seq that it keeps or at the end."""
        tx, into, services = self._tx, self._into, self._target.services
        times = {one: sessions.updated_ms(tx, one) for one in self._dated()}
        drafts, seqs = [line.draft for line, _ in fresh], [seq for _, seq in fresh]
        try:
            rows = message_records.place(
                tx,
                into.id,
                drafts,
                services.db.ids,
                services.space,
                seqs,
                services.summarize_every,
            )
        except TooLarge as error:
            first = next(line for line, seq in fresh if seq is None)
            full = InvalidInput("the session is full: use another one")
            raise located(first.place, full) from error
        late = [(line, row) for (line, seq), row in zip(fresh, rows, strict=True) if seq is None]
        for line, row in late:
            if line.seq is not None:
                self._target.moved[line.session, line.seq] = row["id"] - into.id
        if late:
            self._date([line.draft.created_ms for line, _ in late], times)

    def _dated(self) -> list[int]:
        """Return the session, or the branch and its session: a message changes both."""
        into = self._into.id
        return [into, *(sessions.roots(self._tx, [into]).values() if is_branch(into) else ())]

    def _date(self, times: list[int | None], before: dict[int, int]) -> None:
        """
        Give the session the times of its new messages, if the file has none for it.

        Args:
            before: The last change of it, and of the session of a branch, without them.
        """
        into = self._into
        updated_ms = before[into.id]
        known = [self._tx.now_ms if time is None else time for time in times]
        for root in before.keys() - {into.id}:
            sessions.set_times(self._tx, root, None, max(before[root], *known))
        newest_ms = updated_ms
        if not into.has_updated_ms:
            newest_ms = max(updated_ms, *known) if into.dated else max(known)
        first_ms = None if into.has_created_ms else known[0]
        sessions.set_times(self._tx, into.id, first_ms, newest_ms)
        into.has_created_ms = into.dated = True
