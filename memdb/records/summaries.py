"""
Summary records: a summary with its words, vector and jobs.

The one way in and out of the summaries of a file. Every function joins the
caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import rows_sharing, sharing
from memdb.tables import checks, jobs, summaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb.engine.base import Tx
    from memdb.models.messages import Finding
    from memdb.models.summaries import Summary


def insert(tx: Tx, row: dict[str, Any], *, improvable: bool) -> None:
    """
    Add a summary, which from then on covers those below it.

    Args:
        row: Every column but hash and link by name.
        improvable: The model at hand would write a better one, so it is queued.
    """
    summaries.add(tx, row)
    if row["depth"]:
        summaries.condense(tx, row)
    if improvable:
        queue(tx, row["id"])


def update(tx: Tx, summary: Summary, columns: dict[str, Any]) -> None:
    """Replace the text of a summary by a better one; what was made from it is queued again."""
    summaries.improve(tx, summary, columns)
    above = summaries.above(tx, summary.id)
    if above is not None:
        jobs.redo_node(tx, above)


def rewrite(
    tx: Tx, summary: Summary, columns: dict[str, Any] | None, *, improvable: bool = False
) -> None:
    """
    Replace the text of a summary after something that it covers was forgotten.

    A model that is asked for a better text just now does not replace a host's words.

    Args:
        columns: None for one that was pruned, which stays so.
        improvable: As in `insert`.
    """
    tx.vectors.drop("summary", summary.id, summary.id)
    if columns is None:
        return
    summaries.improve(tx, summary, columns)
    if columns["quality"] == "model":
        jobs.drop(tx, "summary", summary.id)
    elif improvable:
        queue(tx, summary.id)


def remove(tx: Tx, session: int, from_seq: int = 0) -> int:
    """
    Remove the summaries of a session that cover *from_seq* or later; return how many.

    0 means all. Branches that share one of these messages lose their own, and are queued.
    """
    for branch in sharing(tx, session, max(from_seq, 1)):
        if _remove_own(tx, branch, 0):
            queue_session(tx, branch)
    return _remove_own(tx, session, from_seq)


def _remove_own(tx: Tx, session: int, from_seq: int) -> int:
    """
    Remove what a session or branch itself has from *from_seq* on; return how many.

    A pruned summary that nothing covers any more goes too, with all after it: what is
    made next would need its text.
    """
    gone = 0
    seq: int | None = from_seq
    while seq is not None:
        removed = remove_all(tx, session, session, seq)
        gone += removed
        seq = summaries.first_bare(tx, session) if removed else None
    return gone


def remove_all(tx: Tx, low: int, high: int, from_seq: int = 0) -> int:
    """
    Remove the summaries that cover *from_seq* or later of the rows in an id range; how many.

    No branch that stays may share messages of these rows.
    """
    jobs.drop_nodes(tx, low, high, from_seq)
    return summaries.delete_between(tx, low, high, from_seq)


def remove_shared(tx: Tx, session: int, seqs: Sequence[int]) -> None:
    """Remove the summaries of branches that cover rising *seqs* which they share."""
    for branch, shared in rows_sharing(tx, session, seqs)[1:]:
        if summaries.list_over(tx, branch, shared):
            _remove_own(tx, branch, 0)
            queue_session(tx, branch)


def prune(tx: Tx, session: int, limit: int) -> int:
    """Drop the text of up to *limit* summaries that can be made again; return how many."""
    return summaries.prune(tx, session, limit)


def queue(tx: Tx, summary_id: int) -> None:
    """Queue a summary to be written by a model."""
    jobs.add_summarize(tx, "summary", summary_id)


def queue_session(tx: Tx, session: int) -> None:
    """Queue a session to be looked at for messages to summarise."""
    jobs.add_summarize(tx, "session", session)


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the summaries with a text that does not match their hash."""
    yield from checks.by_hash("summary_hash", "summary", _damaged(tx))


def _damaged(tx: Tx) -> Iterator[str]:
    """Yield the uid of each summary with a text that does not match its hash."""
    for row in summaries.hashed(tx):
        if row["text"] is not None and summaries.hash_of(row) != row["content_hash"]:
            yield row["uid"]
