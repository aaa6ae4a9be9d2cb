"""
Archive records: the content of old messages, in compressed segments with a separate index.

Rows of the table `archive_segments` are added and removed only through this module, except by
`memdb copy`. Every function joins the caller's transaction.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from memdb.engine import segments
from memdb.errors import Corrupt
from memdb.models.ids import seq_of, session_of, span_holds_any
from memdb.models.messages import Finding
from memdb.tables import archive, checks, sessions
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memdb.engine.base import Row, Tx
    from memdb.engine.segments import Content
    from memdb.tables.archive import Segment

# Segments that are read together while a session is removed.
SEGMENT_PAGE = 16


def insert(
    tx: Tx, session: int, contents: list[Content], old: Sequence[Segment], new: Sequence[Segment]
) -> None:
    """
    Move messages from their rows into segments.

    Args:
        contents: The content of the rows, by rising seq.
        old: The segments that *new* replaces; *new* contain their messages too.
    """
    low, high = session + contents[0][0], session + contents[-1][0]
    tx.words.drop("message", low, high)
    archive.empty(tx, low, high)
    tx.words.add("message", low, high)
    tx.words.add_archived(_texts(session, contents))
    _replace(tx, session, old, new)


def restore(tx: Tx, session: int, old: Sequence[Segment], contents: Sequence[Content]) -> None:
    """
    Move messages from segments back into their rows.

    Args:
        old: The segments, in order.
        contents: Their messages, as `archive.opened` returns them.

    Raises:
        Corrupt: other messages than these were archived.
    """
    first_seq, last_seq = old[0].first_seq, old[-1].last_seq
    low, high = session + first_seq, session + last_seq
    rows = [
        {
            "id": session + seq,
            "text": text,
            "parts": parts,
            "metadata": metadata,
            "bigrams": bigrams_of(text),
        }
        for seq, text, parts, metadata in contents
    ]
    if archive.archived(tx, low, high) != [row["id"] for row in rows]:
        raise Corrupt(
            f"the segments of messages {first_seq} to {last_seq} contain other messages than "
            "were archived: `memdb check` shows which; restore a backup (`memdb restore`) "
            "or save the rest (`memdb recover`)"
        )
    tx.words.drop_archived(_texts(session, contents))
    tx.words.drop("message", low, high)
    archive.refill(tx, rows)
    tx.words.add("message", low, high)
    _replace(tx, session, old, [])


def restore_one(tx: Tx, row_id: int) -> None:
    """Move a message back into its row, with the others of its segment; a hot one stays there."""
    if archive.archived(tx, row_id, row_id):
        session, seq = session_of(row_id), seq_of(row_id)
        old = archive.touched(tx, session, seq, seq)
        restore(tx, session, old, archive.opened(session, old))


def _replace(tx: Tx, session: int, old: Sequence[Segment], new: Sequence[Segment]) -> None:
    """Replace segments, and count the archived messages."""
    archive.replace(tx, session, old, new)
    gone, come = (sum(one.message_count for one in some) for some in (old, new))
    sessions.count(tx, session, archived=come - gone)


def find_holding(tx: Tx, parts: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """Return (row, first seq) of the segments with some of the rising seqs of their rows."""
    return [
        (row, first)
        for row, first, last in archive.list_places(tx, [row for row in parts if parts[row]])
        if span_holds_any(first, last, parts[row])
    ]


def holding(tx: Tx, parts: Mapping[int, Sequence[int]]) -> Iterator[dict[int, list[Segment]]]:
    """Yield, some at a time, the segments that `find_holding` returns by their row."""
    places = find_holding(tx, parts)
    for start in range(0, len(places), SEGMENT_PAGE):
        found: dict[int, list[Segment]] = {}
        for row, segment in archive.get_many(tx, places[start : start + SEGMENT_PAGE]):
            found.setdefault(row, []).append(segment)
        yield found


def remove(tx: Tx, parts: Mapping[int, Sequence[int]]) -> None:
    """
    Remove archived messages from their segments and their index, before their rows are deleted.

    Args:
        parts: Rising seqs by row; others than the archived ones are left alone.

    Raises:
        Corrupt: a segment is damaged.
    """
    for page in holding(tx, parts):
        dropped: list[tuple[int, str]] = []
        for row, old in page.items():
            gone, contents = {*parts[row]}, archive.opened(row, old)
            dropped += _texts(row, [one for one in contents if one[0] in gone])
            kept = [one for one in contents if one[0] not in gone]
            _replace(tx, row, old, archive.to_segments(kept))
        tx.words.drop_archived(dropped)


def remove_sessions(tx: Tx, low: int, high: int) -> None:
    """Remove the segments of the rows in an id range, after the rows of their messages went."""
    count = sessions.archived_count(tx, low, high)
    after, dropped = (low, 0), 0
    while page := archive.after(tx, after, high, SEGMENT_PAGE):
        texts = []
        for session, segment in page:
            with suppress(Corrupt):  # its words cannot be read, so the index is rebuilt below
                texts += _texts(session, archive.opened(session, [segment]))
        tx.words.drop_archived(texts)
        dropped += len(texts)
        after = session, segment.first_seq
    if after[1]:
        archive.delete_between(tx, low, high)
    if dropped != count:
        derive(tx)  # only for a damaged file


def _texts(session: int, contents: Sequence[Content]) -> list[tuple[int, str]]:
    return [(session + content[0], content[1]) for content in contents]


def derive(tx: Tx) -> None:
    """
    Rebuild the index of archived messages, from the segments.

    A message whose segment is damaged gets no words; `check` names the segment.
    """
    tx.words.rebuild_archived()


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the segments whose content differs from their row, 20 at most; opens every one."""
    damaged = ((row, problem) for row in checks.segments(tx) if (problem := _problem(row)))
    for row, problem in islice(damaged, checks.MAX_PER_RULE):
        place = f"segment {row[1]} of session {row[0]}"
        yield Finding("segment", f"{place}: {problem}", rebuildable=False)


def _problem(row: Row) -> str | None:
    session, first_seq, last_seq, message_count, *stored = row
    try:
        held = segments.opened(session, first_seq, tuple(stored))
    except Corrupt as error:
        return str(error.__cause__)
    if (held[0][0], held[-1][0], len(held)) != (first_seq, last_seq, message_count):
        return "it holds other messages than it says"
    return None
