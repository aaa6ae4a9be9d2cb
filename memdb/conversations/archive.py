"""
Archiving: the old part of a conversation, compressed in the same file.

The work is done in steps of some thousand messages. A step reads, packs,
compresses and compares without a lock. Then one short transaction compares the
rows again and moves the messages. A crash leaves each message in its row or in
a segment, never in both or in neither (ADR-0009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine.branches import runs_of
from memdb.engine.segments import block_of
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.models.summaries import Archived, ArchivedSpan
from memdb.records import archive as archive_records
from memdb.records.scopes import find_session
from memdb.tables import archive, messages
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Engine, Row, Tx
    from memdb.engine.branches import Run
    from memdb.engine.segments import Content
    from memdb.records.scopes import ScopeRef
    from memdb.tables.archive import Segment

    Progress = Callable[[int], object] | None

# What one step moves at most: other writers wait 60 ms for it.
STEP_MESSAGES = 2048
STEP_CHARS = 8 << 20
STEP_SEGMENTS = 16


class _Step(Record):
    """
    Messages that one transaction moves into segments.

    Attributes:
        contents: The messages.
        hashes: (id, content hash) of them, as they were read.
        span: The seqs of their blocks.
        old: The segments of these blocks, which *made* replace.
    """

    contents: list[Content]
    hashes: list[Row]
    span: tuple[int, int]
    old: list[Segment]
    made: list[Segment]


class ArchiveService:
    """Moves old messages of a file into segments, and back."""

    def __init__(self, db: Engine) -> None:
        """Archive in *db*."""
        self._db = db

    def archive(
        self, owner: ScopeRef, session: str, keep_last: int = 1000, progress: Progress = None
    ) -> Archived:
        """
        Move all but the newest *keep_last* messages of a session into segments.

        Archived messages stay archived. If there is nothing to do, or no such session, that is not
        an error.

        Args:
            progress: Called after each step with the number of its messages.

        Raises:
            Corrupt: a message or a segment is damaged; steps before it are done.

        Transaction: one per step; reading, packing and compressing happen outside it.
        """
        int_value(keep_last, "keep_last", 0, MAX_SEQ)
        total = Archived(0, 0, 0, 0)
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            runs = [] if target is None else self._cold(tx, target, keep_last)
        for run in runs:
            total = _sum(total, self._archive_run(run, progress))
        return total

    @staticmethod
    def _cold(tx: Tx, target: int, keep_last: int) -> list[Run]:
        """Return the runs of a path without its newest *keep_last* messages."""
        kept = keep_last
        found = []
        for run in reversed(runs_of(tx, target)):
            first = archive.first_kept(tx, *run.span, kept)
            kept -= messages.count(tx, first, run.span[1])
            found.append(run.replace(last_seq=min(run.last_seq, first - run.session - 1)))
        return found[::-1]

    def _archive_run(self, run: Run, progress: Progress) -> Archived:
        """Move all messages of a run into segments of its row."""
        total = Archived(0, 0, 0, 0)
        target, after, before = run.session, run.first_seq - 1, run.session + run.last_seq + 1
        while True:
            step = self._plan(target, after, before)
            if step is None:
                break
            done = self._move(target, step)
            if done is None:
                continue  # another process was faster: read again what is left
            after = step.contents[-1][0]
            total = _sum(total, done)
            if progress is not None:
                progress(done.messages)
        return total

    def spans(self, owner: ScopeRef, session: str) -> tuple[ArchivedSpan, ...]:
        """Return the archived spans of a session, oldest first."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            runs = [] if target is None else runs_of(tx, target)
            found = {
                (run.session, span.first_seq): span
                for run in runs
                for span in archive.spans(tx, run.session)
                if span.first_seq <= run.last_seq and span.last_seq >= run.first_seq
            }
        return tuple(found.values())

    def has_more(self, owner: ScopeRef, session: str, count: int) -> bool:
        """Return whether more than *count* messages of a session are outside the archive."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            if target is None:
                return False
            return any(
                archive.hot(tx, run.session, run.first_seq - 1, run.span[1] + 1)
                for run in self._cold(tx, target, count)
            )

    def _plan(self, target: int, after: int, before: int) -> _Step | None:
        """Read the next messages and make their segments, together with those they touch."""
        contents: list[Content] = []
        chars = 0
        with self._db.read() as tx:
            while len(contents) < STEP_MESSAGES and chars < STEP_CHARS:
                block = archive.hot(tx, target, after, before)
                if not block:
                    break
                contents += block
                chars += sum(map(_chars, block))
                _, after = block_of(block[-1][0])
            if not contents:
                return None
            low, high = target + contents[0][0], target + contents[-1][0]
            hashes = archive.hashes(tx, low, high)
            span = block_of(contents[0][0])[0], block_of(contents[-1][0])[1]
            old = archive.touched(tx, target, *span)
        whole = {content[0]: content for content in [*archive.opened(target, old), *contents]}
        made = archive.to_segments([whole[seq] for seq in sorted(whole)])
        return _Step(contents, hashes, span, old, made)

    def _move(self, target: int, step: _Step) -> Archived | None:
        """Move a step's messages; None if they changed since they were read."""
        low, high = target + step.contents[0][0], target + step.contents[-1][0]
        with self._db.write() as tx:
            if not (
                archive.hashes(tx, low, high) == step.hashes
                and archive.same(tx, target, step.span, step.old)
            ):
                return None
            archive_records.insert(tx, target, step.contents, step.old, step.made)
        return Archived(
            len(step.contents),
            len(step.made),
            _bytes(step.contents),
            _stored(step.made) - _stored(step.old),
        )

    def unarchive(self, owner: ScopeRef, session: str, progress: Progress = None) -> Archived:
        """
        Move every archived message of a session back into its row.

        Args:
            progress: Called after each step with the number of its messages.

        Raises:
            Corrupt: a segment is damaged; those before it are moved back.

        Transaction: one per step of 16 segments.
        """
        total = Archived(0, 0, 0, 0)
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            runs = [] if target is None else runs_of(tx, target)
        for run in runs:
            total = _sum(total, self._unarchive_run(run, progress))
        return total

    def _unarchive_run(self, run: Run, progress: Progress) -> Archived:
        """Move back the messages of all segments that contain some of a run."""
        total = Archived(0, 0, 0, 0)
        target, after = run.session, 0
        while True:
            with self._db.read() as tx:
                found = archive.after(tx, (target, after), target, STEP_SEGMENTS)
            old = [one for _, one in found if one.first_seq <= run.last_seq]
            if not old:
                return total
            contents = archive.opened(target, old)
            if not self._move_back(target, old, contents):
                continue
            after = old[-1].first_seq
            total = _sum(total, Archived(len(contents), len(old), _stored(old), _bytes(contents)))
            if progress is not None:
                progress(len(contents))

    def _move_back(self, target: int, old: list[Segment], contents: list[Content]) -> bool:
        """Move messages into their rows; False if the segments changed meanwhile."""
        span = old[0].first_seq, old[-1].last_seq
        with self._db.write() as tx:
            if not archive.same(tx, target, span, old):
                return False
            archive_records.restore(tx, target, old, contents)
        return True


def _chars(content: Content) -> int:
    return sum(len(value) for value in content[1:] if value)


def _bytes(contents: list[Content]) -> int:
    return sum(len(value.encode()) for content in contents for value in content[1:] if value)


def _stored(segments: list[Segment]) -> int:
    return sum(len(one.data) for one in segments)


def _sum(total: Archived, more: Archived) -> Archived:
    return Archived(
        total.messages + more.messages,
        total.segments + more.segments,
        total.bytes_before + more.bytes_before,
        total.bytes_after + more.bytes_after,
    )
