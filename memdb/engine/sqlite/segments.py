"""
Segments: reading what archived messages said, out of `archive_segments`.

Below the stores, because several of them read texts. Writing segments is
`tables/archive.py`'s, their bytes are `memdb.text.segment_codec`'s.
"""

from __future__ import annotations

from memdb.errors import Corrupt
from memdb.models.ids import seq_of, session_of
from memdb.text.segment_codec import Damaged, open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memdb.engine.base import Row, Tx
    from memdb.text.segment_codec import Content

# A recall looks at 200 messages from all over a scope, and the next one often at
# the same: 3 ms instead of 25. Large ones are not kept, so that this is 8 MB at most.
MAX_KEPT = 256
MAX_KEPT_CHARS = 32 << 10

# Segments do not overlap: the one that begins last before a seq holds it, or none does.
SELECT_AT = """/* segments.at */
SELECT first_seq, last_seq, codec, data, sha256
FROM archive_segments
WHERE session_id = :session AND first_seq <= :seq
ORDER BY first_seq DESC
LIMIT 1
"""


def fill(
    tx: Tx, rows: list[Row], row_id: int, places: tuple[int, ...], *, lost_ok: bool = False
) -> list[Row]:
    """
    Return *rows* of messages with what the archived ones said.

    Args:
        row_id: Which column is the id.
        places: Which columns are the text and, where they are read, the body
            and the metadata.
        lost_ok: Leave a row without its text where the segment is damaged.

    Cost: 0.1 ms per segment that holds some of them.

    Raises:
        Corrupt: a segment is damaged or missing, and *lost_ok* is False.
    """
    text = places[0]
    archived = [row[row_id] for row in rows if row[text] is None]
    said = _readable(tx, archived) if lost_ok else contents(tx, archived)
    return [_with(row, places, said[row[row_id]]) if row[row_id] in said else row for row in rows]


def _with(row: Row, places: tuple[int, ...], content: Content) -> Row:
    values = list(row)
    for place, value in zip(places, content[1:], strict=False):
        values[place] = value
    return tuple(values)


def contents(tx: Tx, ids: Iterable[int]) -> dict[int, Content]:
    """
    Return what archived messages said, by id.

    Raises:
        Corrupt: the segment of one of them is damaged or missing.
    """
    wanted = sorted(ids)
    found = _find(tx, wanted, _open_or_recall)
    for one in wanted:
        if one not in found:
            raise _lost(session_of(one), seq_of(one))
    return found


def _readable(tx: Tx, ids: Iterable[int]) -> dict[int, Content]:
    """Return what archived messages said, by id, without those that cannot be read now."""
    return _find(tx, ids, lambda _, row: _open(row))


def _find(
    tx: Tx, ids: Iterable[int], opener: Callable[[Tx, Row], dict[int, Content]]
) -> dict[int, Content]:
    found: dict[int, Content] = {}
    wanted = sorted(set(ids), reverse=True)
    while wanted:
        session, seq = session_of(wanted[-1]), seq_of(wanted[-1])
        row = tx.one(SELECT_AT, {"session": session, "seq": seq})
        held = {} if row is None else opener(tx, row)
        last_id = session | (seq if row is None else max(seq, row[1]))
        while wanted and wanted[-1] <= last_id:
            one = wanted.pop()
            if one - session in held:
                found[one] = held[one - session]
    return found


def _open_or_recall(tx: Tx, row: Row) -> dict[int, Content]:
    """Open a segment, or take it from the last ones that this connection opened."""
    sha256 = row[4]
    held = tx.kept.pop(sha256, None)
    if held is None:
        held = _open(row)
        if sum(map(_chars, held.values())) > MAX_KEPT_CHARS:
            return held
    tx.kept[sha256] = held
    if len(tx.kept) > MAX_KEPT:
        del tx.kept[next(iter(tx.kept))]
    return held  # type: ignore[no-any-return]


def _chars(content: Content) -> int:
    return sum(len(value) for value in content[1:] if value)


def _open(row: Row) -> dict[int, Content]:
    """Return the contents of a segment by seq, {} where it is damaged."""
    try:
        return {content[0]: content for content in open_segment(*row[2:])}
    except Damaged:
        return {}


def opened(session: int, first_seq: int, stored: Row) -> list[Content]:
    """
    Return what a segment holds, from its columns codec, data and sha256.

    Raises:
        Corrupt: it is damaged.
    """
    try:
        return open_segment(*stored)
    except Damaged as error:
        raise _lost(session, first_seq) from error


def _lost(session: int, seq: int) -> Corrupt:
    return Corrupt(
        f"message {seq} of session {session} is archived, and its segment is damaged or missing: "
        "restore a backup; `memdb check` shows what else is hurt"
    )
