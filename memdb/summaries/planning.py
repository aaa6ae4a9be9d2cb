"""
Plan the next summaries of a session: its next leaves, or its next deeper level.

The plan depends only on the messages: leaves are cut from the start of the session, and summaries
of a level are condensed oldest first. So any process that plans gets the same summaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.conversations.tool_calls import has_open_call, units
from memdb.engine.branches import regions_of
from memdb.models.ids import MAX_INT, is_branch
from memdb.models.record import Record
from memdb.summaries.summarizer import items_of_messages, items_of_summaries
from memdb.tables import messages, sessions, summaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Tx
    from memdb.models.messages import Message
    from memdb.models.settings import Settings
    from memdb.models.summaries import SourceItem, Summary

# Messages that are read beyond the leaves, to see where their last unit ends.
LOOKAHEAD = 200

# A leaf waits for the result of a tool call until so many messages came after the call.
OPEN_CALL_WAIT = 50

HEAD_PAGE = 50


class Step(Record):
    """
    A planned summary: its span and its sources.

    Attributes:
        session: The row that the summary belongs to: a session, a branch or its parent.
        source_count: Number of source summaries; 0 for a leaf.
        span_hash: Hash of the messages of the span at the time of planning.
    """

    session: int
    depth: int
    first_seq: int
    last_seq: int
    source: tuple[SourceItem, ...]
    source_count: int
    span_hash: str


def head_seq(tx: Tx, session: int, name: str) -> int:
    """
    Return the last seq of the system messages at the start of the session, 0 if there are none.

    These messages are the system text of every context, so no summary covers them.
    """
    leaves = summaries.leaf_span(tx, session)
    if leaves is not None:
        return leaves[0] - 1
    head = 0
    while page := messages.list_after(tx, session, name, head, HEAD_PAGE):
        for message in page:
            if message.role != "system":
                return head
            head = message.seq
    return head


def covered_seq(tx: Tx, session: int, name: str) -> int:
    """Return the last seq covered by a leaf, or that of the system text."""
    leaves = summaries.leaf_span(tx, session)
    return head_seq(tx, session, name) if leaves is None else leaves[1]


def plan(tx: Tx, session: int, name: str, settings: Settings, most: int) -> list[Step]:
    """
    Return up to *most* due summaries, all of one depth, oldest first.

    [] when nothing is due. Make them in this order, then plan again. Shared messages of a branch
    are summarised first, in its parent, so that both have the same summaries.
    """
    for row in _rows_behind(tx, session, settings.summary_messages):
        found = _leaves(tx, row, name, settings, most) or _condensed(tx, row, settings, most)
        if found:
            return found
    return []


def expect_plan(tx: Tx, session: int, settings: Settings, most: int) -> None:
    """Prefetch what `plan` reads in one round trip. Branches are not prefetched."""
    if not is_branch(session):
        sessions.expect_last_seq(tx, session)
        depths, limit = settings.summary_max_depth, _most_loose(settings, most)
        summaries.expect_loose(tx, session, depths, limit)


def count_leaves_due(tx: Tx, session: int, settings: Settings, most: int) -> int:
    """Return the approximate number of due leaves of a path, *most* at most; reads no message."""
    due = covered = 0
    regions = regions_of(tx, session)
    ends = summaries.leaf_ends(tx, [region.session for region in regions])
    for region in regions:
        last_seq, _, leaf = ends.get(region.session, (0, None, None))
        covered = max(covered, min(leaf or 0, region.last_seq))
        due += max(min(last_seq, region.last_seq) - covered, 0) // settings.summary_messages
        covered = max(covered, region.last_seq)
    return min(due, most)


def _rows_behind(tx: Tx, session: int, least: int) -> Iterator[int]:
    """
    Yield the rows of a path that may be due, oldest first.

    They have their own leaves, or *least* seqs without a leaf. Cost: two statements, and one for
    each row whose leaves continue after a branch started from it.
    """
    regions = regions_of(tx, session)
    if len(regions) == 1:
        yield session
        return
    ends = summaries.leaf_ends(tx, [region.session for region in regions])
    covered = 0
    for region in regions:
        row, (last_seq, _, leaf) = region.session, ends[region.session]
        if leaf is not None or last_seq - covered >= least:
            yield row
        if leaf is not None and leaf > region.last_seq:
            leaf = summaries.last_leaf(tx, row, region.last_seq)
        covered = covered if leaf is None else leaf


def _leaves(tx: Tx, session: int, name: str, settings: Settings, most: int) -> list[Step]:
    covered = covered_seq(tx, session, name)
    if sessions.last_seq(tx, session) - covered < settings.summary_messages:
        return []
    wanted = settings.summary_messages * most + LOOKAHEAD
    run = messages.list_after(tx, session, name, covered, wanted)
    found: list[Step] = []
    chunk: list[Message] = []
    left = len(run)
    for unit in units(run):
        chunk += unit
        left -= len(unit)
        if len(chunk) < settings.summary_messages:
            continue
        waits = left < OPEN_CALL_WAIT and has_open_call(chunk)
        cut_off = len(run) == wanted and left == 0 and found
        if waits or cut_off or len(found) == most:
            break
        found.append(leaf_step(tx, session, covered + 1, chunk))
        covered = chunk[-1].seq
        chunk = []
    return found


def _most_loose(settings: Settings, most: int) -> int:
    """Return how many summaries of a depth *most* steps replace."""
    return settings.summary_condense_at + settings.summary_group * (most - 1)


def _condensed(tx: Tx, session: int, settings: Settings, most: int) -> list[Step]:
    for depth in range(settings.summary_max_depth):
        least = settings.summary_condense_at
        loose = summaries.loose(tx, session, depth, _most_loose(settings, most), least)
        found: list[Step] = []
        while len(loose) >= settings.summary_condense_at and len(found) < most:
            group, loose = loose[: settings.summary_group], loose[settings.summary_group :]
            found.append(step_above(tx, session, group))
        if found:
            return found
    return []


def leaf_step(tx: Tx, session: int, first_seq: int, run: list[Message]) -> Step:
    """Return the step that summarises *run*, neighbours from *first_seq* on."""
    last_seq = run[-1].seq
    span_hash = messages.span_hash(tx, session, first_seq, last_seq)
    return Step(session, 0, first_seq, last_seq, tuple(items_of_messages(run)), 0, span_hash)


def step_above(tx: Tx, session: int, group: list[Summary]) -> Step:
    """Return the step that condenses *group*: neighbours of one depth, oldest first."""
    items = tuple(items_of_summaries(group, [summary.text for summary in group]))
    depth, first_seq, last_seq = group[0].depth + 1, group[0].first_seq, group[-1].last_seq
    span_hash = messages.span_hash(tx, session, first_seq, last_seq)
    return Step(session, depth, first_seq, last_seq, items, len(group), span_hash)


def still_due(tx: Tx, name: str, step: Step) -> bool:
    """Return whether *step* is still due: its sources are unchanged and not yet summarised."""
    session = step.session
    if not is_next(tx, session, name, step.depth, step.first_seq, step.last_seq):
        return False
    if step.depth:  # a model may have improved one meanwhile
        group = summaries.loose(tx, session, step.depth - 1, step.source_count)
        return step_above(tx, session, group) == step
    return messages.span_hash(tx, session, step.first_seq, step.last_seq) == step.span_hash


def is_next(tx: Tx, session: int, name: str, depth: int, first_seq: int, last_seq: int) -> bool:
    """Return whether a summary with that depth and span would follow the existing ones directly."""
    if depth == 0:
        # Its last message may be removed by now.
        is_there = messages.find(tx, session, name, last_seq) is not None
        return is_there and covered_seq(tx, session, name) == first_seq - 1
    loose = summaries.loose(tx, session, depth - 1, MAX_INT)
    group = [summary for summary in loose if summary.last_seq <= last_seq]
    return bool(group) and (group[0].first_seq, group[-1].last_seq) == (first_seq, last_seq)
