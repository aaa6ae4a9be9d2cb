"""
Summary records: a summary with its words, vector and jobs.

Summaries are added and removed only through this module, except by `memdb copy`. Every function
joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import rows_sharing, sharing
from memdb.tables import checks, jobs, summaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.messages import Finding
    from memdb.models.summaries import Summary


def insert(tx: Tx, row: dict[str, Any], *, improvable: bool) -> None:
    """
    Add a summary, which from then on covers those below it.

    Args:
        row: Every column but hash and link by name.
        improvable: Whether the model would write a better text, so that it is queued.
    """
    summaries.add(tx, row)
    if row["depth"]:
        summaries.condense(tx, row)
    if improvable:
        queue(tx, row["id"])


def update(tx: Tx, summary: Summary, columns: dict[str, Any]) -> None:
    """Replace the text of a summary by a model's; the summary made from it is queued again."""
    jobs.drop(tx, "summary", summary.id)
    summaries.improve(tx, (summary, columns))
    above = summaries.above(tx, summary.id)
    if above is not None:
        jobs.redo_node(tx, above)


def rewrite(tx: Tx, *changed: tuple[Summary, dict[str, Any] | None, bool]) -> None:
    """
    Replace the texts of summaries after something that they cover was forgotten.

    A model's text that was requested before this does not replace a host's text.

    Args:
        changed: Each summary with its columns, and whether the model at hand would write a better
            text. A summary without columns was pruned, and stays so.
    """
    for summary, _, _ in changed:
        tx.vectors.drop("summary", summary.id, summary.id)
    written = [(summary, columns) for summary, columns, _ in changed if columns is not None]
    summaries.improve(tx, *written)
    for summary, columns, improvable in changed:
        if columns is not None and columns["quality"] == "model":
            jobs.drop(tx, "summary", summary.id)
        elif columns is not None and improvable:
            queue(tx, summary.id)


def remove(tx: Tx, places: Mapping[int, int]) -> None:
    """
    Remove the summaries of rows of a scope that cover a seq or later, and queue those rows.

    Branches that share one of these messages lose their own, and are queued too.

    Args:
        places: The seq of each row; 0 means all of its summaries.
    """
    shared = sharing(tx, {row: max(seq, 1) for row, seq in places.items()})
    _remove_own(tx, {**places, **dict.fromkeys(shared, 0)})


def _remove_own(tx: Tx, places: Mapping[int, int]) -> None:
    """
    Remove what rows themselves have from a seq on, and queue the rows that had some.

    A pruned summary that is no longer covered is removed too, with all after it, because the next
    summary would need its text.
    """
    queued: dict[int, None] = {}
    while gone := summaries.delete_from(tx, places):
        jobs.drop_nodes(tx, [one for some in gone.values() for one in some])
        queued |= dict.fromkeys(gone)
        places = summaries.first_bare(tx, gone)
    for row in queued:
        queue_session(tx, row)


def remove_all(tx: Tx, low: int, high: int) -> None:
    """
    Remove the summaries of the rows in an id range.

    No remaining branch may share messages of these rows.
    """
    going = summaries.ids_between(tx, low, high)
    if going:
        jobs.drop_nodes(tx, going)
        summaries.delete(tx, going)


def remove_shared(tx: Tx, parts: Mapping[int, Sequence[int]]) -> None:
    """Remove the summaries of branches that cover rising seqs which they share, by row."""
    shared: dict[int, set[int]] = {}
    for branch, seqs in rows_sharing(tx, parts):
        shared.setdefault(branch, set()).update(seqs)
    _remove_own(tx, dict.fromkeys(summaries.list_over(tx, shared), 0))


def prune(tx: Tx, session: int, limit: int) -> int:
    """Remove the text of up to *limit* summaries that can be computed again; return how many."""
    return summaries.prune(tx, session, limit)


def queue(tx: Tx, summary_id: int) -> None:
    """Queue a summary to be written by a model."""
    jobs.add_summarize(tx, "summary", summary_id)


def queue_session(tx: Tx, session: int) -> None:
    """Queue the search for messages to summarise in a session."""
    jobs.add_summarize(tx, "session", session)


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the summaries with a text that does not match their hash."""
    yield from checks.by_hash("summary_hash", "summary", _damaged(tx))


def _damaged(tx: Tx) -> Iterator[str]:
    """Yield the uid of each summary with a text that does not match its hash."""
    for row in summaries.hashed(tx):
        if row["text"] is not None and summaries.hash_of(row) != row["content_hash"]:
            yield row["uid"]
