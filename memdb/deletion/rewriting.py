"""
Rewriting: the summaries over messages that are forgotten are written without them.

They keep their place and span. What they will say is planned before the
transaction that forgets, which checks that nothing changed since.
"""

from __future__ import annotations

from memdb.models.record import Record
from memdb.records import messages as records
from memdb.records import summaries as summary_records
from memdb.records.tombstones import digest_of
from memdb.summaries.summarizer import Made, items_of_messages, items_of_summaries
from memdb.tables import messages, removal
from memdb.tables import summaries as summary_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.deletion.selectors import Part
    from memdb.engine.base import Tx
    from memdb.models.summaries import Summary
    from memdb.summaries.builder import Summaries

# The text of a summary whose messages are all forgotten.
FORGOTTEN = "(forgotten)"


class Rewriting(Record):
    """
    The new texts of the summaries over some messages.

    Attributes:
        seqs: Of the messages that are forgotten.
        summaries: As they are, each with its new text; None for one that is
            pruned, which stays so.
        left: The seqs of the messages that the leaves among them keep.
    """

    seqs: tuple[int, ...]
    summaries: tuple[tuple[Summary, Made | None], ...]
    left: tuple[int, ...]


def plan(tx: Tx, part: Part, summaries: Summaries) -> Rewriting:
    """
    Return the texts of the summaries over *part* without its messages.

    They are extracts, also if a model wrote them: forgetting waits for no model.
    """
    gone = set(part.seqs)
    fresh: dict[int, Made] = {}
    planned: list[tuple[Summary, Made | None]] = []
    left: list[int] = []
    for row_id in removal.nodes_over(tx, part.session, part.seqs):
        summary = summary_rows.get(tx, row_id)
        assert summary is not None
        if summary.depth:
            items = _sources(tx, summary, fresh, summaries)
        else:
            run = [one for one in _messages(tx, part, summary) if one.seq not in gone]
            left += [one.seq for one in run]
            items = items_of_messages(run)
        fresh[row_id] = _made(items, summary.depth, summaries)
        planned.append((summary, None if summary.text is None else fresh[row_id]))
    return Rewriting(part.seqs, tuple(planned), tuple(left))


def _messages(tx: Tx, part: Part, summary: Summary) -> list[Any]:
    count = summary.last_seq - summary.first_seq + 1
    run = messages.list_after(tx, part.session, part.name, summary.first_seq - 1, count)
    return [one for one in run if one.seq <= summary.last_seq]


def _sources(tx: Tx, summary: Summary, fresh: dict[int, Made], summaries: Summaries) -> list[Any]:
    below = summary_rows.sources(tx, summary)
    texts = [
        fresh[one.row_id].text if one.row_id in fresh else summaries.with_text(tx, one).text
        for one in below
    ]
    said = [(one, text) for one, text in zip(below, texts, strict=True) if text != FORGOTTEN]
    return items_of_summaries([one for one, _ in said], [text for _, text in said])


def _made(items: list[Any], depth: int, summaries: Summaries) -> Made:
    if items:
        made, _ = summaries.maker.make(items, depth, local=True)
        return made
    tokens = summaries.count(FORGOTTEN)
    return Made(FORGOTTEN, None, "extractive", summaries.maker.local_name, tokens)


def is_current(tx: Tx, part: Part, planned: Rewriting) -> bool:
    """Return whether the summaries over *part*, and what they keep, are as planned."""
    if planned.seqs != part.seqs:
        return False
    found = removal.nodes_over(tx, part.session, part.seqs)
    if [summary_rows.get(tx, row_id) for row_id in found] != [
        summary for summary, _ in planned.summaries
    ]:
        return False
    ids = [part.session | seq for seq in planned.left]
    return len(messages.uids(tx, ids)) == len(planned.left)


def apply(tx: Tx, part: Part, planned: Rewriting, summaries: Summaries) -> None:
    """
    Remove the messages of *part* and rewrite the summaries over them.

    Transaction: joins the caller's, which called `is_current` in it.
    """
    records.forget(tx, part.session, part.seqs, digest_of(part.name))
    for summary, made in planned.summaries:
        columns = None if made is None else summaries.columns(made)
        improvable = made is not None and summaries.may_improve(made) and made.text != FORGOTTEN
        summary_records.rewrite(tx, summary, columns, improvable=improvable)
