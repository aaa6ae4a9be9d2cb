"""
Summary lines: their codec, export and import.

An import adds a summary only where the messages that it stands for are here as they
were when it was exported, so nothing that was forgotten comes back by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.ids import MAX_INT, MAX_SEQ, scope_of, scope_range
from memdb.models.summaries import QUALITIES
from memdb.records import summaries as summary_records
from memdb.summaries.planning import is_next
from memdb.tables import messages, scopes, sessions, summaries
from memdb.text.derived import bigrams_of
from memdb.text.validate import text_value
from memdb.transfer.lines import PAGE, Codec, Item, between, one_of, place_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.summaries import Summary
    from memdb.transfer.lines import Target

SUMMARY = Codec(
    "summary",
    needs="session depth first_seq last_seq quality summarizer tokens counter created_ms "
    "source_hash",
    checks={
        "depth": between(0, summaries.MAX_DEPTH),
        "first_seq": between(1, MAX_SEQ),
        "last_seq": between(1, MAX_SEQ),
        "text": text_value,
        "hint": text_value,
        "quality": one_of(*QUALITIES),
        "summarizer": text_value,
        "tokens": between(0, MAX_INT),
        "counter": text_value,
        "source_hash": text_value,
    },
)
COPIED = (
    *("depth", "first_seq", "last_seq", "text", "hint", "quality", "summarizer"),
    *("tokens", "counter", "created_ms"),
)


def export(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the summaries of a scope, session by session, leaves first; then of branches."""
    after, high = scope_range(scope_no)
    while page := sessions.list_by_id(tx, after, high, limit=PAGE):
        for session, _ in page:
            yield from _lines(tx, session)
        after = page[-1][0]
    after, high = scope_range(scope_no)
    while rows := sessions.list_all_branches(tx, after, high, PAGE):
        for row, _, _ in rows:
            yield from _lines(tx, row)
        after = rows[-1][0]


def _lines(tx: Tx, session: int) -> Iterator[dict[str, Any]]:
    for summary in _of_session(tx, session):
        source = messages.span_hash(tx, session, summary.first_seq, summary.last_seq)
        yield SUMMARY.to_line(summary, {"source_hash": source})


def _of_session(tx: Tx, session: int) -> Iterator[Summary]:
    for depth in range(summaries.MAX_DEPTH + 1):
        found = summaries.list_depth(tx, session, depth)
        if not found:
            return
        yield from found


def read_summary(target: Target, item: Item) -> dict[str, Any]:
    """Return the fields of a summary line, checked and screened."""
    return SUMMARY.from_line(target.services.screen.pass_line("summary", item.fields))


def write_summaries(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Add the summaries that are next in their session, and are of what it holds."""
    for row in sorted(rows, key=lambda row: int(row["depth"])):
        into = target.sessions.get(place_name(row))
        if into is None or not into.own:
            continue
        session, span = into.id, (row["first_seq"], row["last_seq"])
        known = sessions.identity(tx, session)
        if known is None or not is_next(tx, session, known[0], row["depth"], *span):
            continue
        if messages.span_hash(tx, session, *span) != row["source_hash"]:
            continue
        summary_records.insert(
            tx,
            {
                "id": scopes.next_id(tx, scope_of(session)),
                "uid": summaries.node_uid(known[1], row["depth"], *span),
                "session_id": session,
                "bigrams": None if row["text"] is None else bigrams_of(row["text"]),
                **{column: row[column] for column in COPIED},
            },
            improvable=False,
        )
        target.added["summaries_added"] += 1
