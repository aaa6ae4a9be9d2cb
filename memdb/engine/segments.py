"""
Archive segments: pack the content of old messages into compressed bytes, and read it back.

    seqs NUL text NUL ... NUL parts NUL ... NUL metadata NUL ... NUL metadata

`seqs` lists the messages as runs: "1-128" or "1-3,7-128". Then follow all texts, all bodies and all
metadata, in the order of the seqs; "" means no parts and no metadata. No stored text contains NUL,
so nothing is escaped. Texts are next to texts because that compresses best. The same messages
always give the same bytes. ADR-0009 has the measurements.

This module is below the tables because several of them read texts; `memdb.tables.archive` writes
segments.
"""

from __future__ import annotations

from array import array
from collections import deque
from hashlib import sha256
from itertools import accumulate, chain
from typing import TYPE_CHECKING
from zlib import compress, decompressobj
from zlib import error as zlib_error

from memdb.errors import Corrupt
from memdb.models.ids import MAX_SEQ, seq_of, session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.engine.base import Row, Tx

    # seq, text, parts and metadata, the latter two as JSON text
    Content = tuple[int, str, str | None, str | None]

CODEC = "zlib"
LEVEL = 9

# A segment lies in one block of so many seqs and holds about so many characters
# at most, so reading one message costs the same however old it is.
SEGMENT_MESSAGES = 128
SEGMENT_CHARS = 256 << 10


# What a segment may hold: a message of 64 MB of text with parts and metadata of that
# size stands alone. Text that packs better than 1 to 32 is stored as it is, so that no
# small file takes much memory to read.
MAX_SEGMENT_BYTES = 200 << 20
FREE_BYTES = 1 << 20
MAX_RATIO = 32


class Damaged(ValueError):
    """The bytes of a segment or of an artifact cannot be read."""


def inflate(data: bytes, most: int) -> bytes:
    """
    Return *data* decompressed; read no more than *most* bytes of it.

    Raises:
        Damaged: *data* is not a zlib stream, ends early, or contains more than *most* bytes.
    """
    stream = decompressobj()
    try:
        plain = stream.decompress(data, most + 1)
    except zlib_error as error:
        raise Damaged(str(error)) from error
    if len(plain) > most or not stream.eof:
        raise Damaged(f"it does not end after {most} bytes")
    return plain


def block_of(seq: int) -> tuple[int, int]:
    """Return the first and last seq of the block that contains *seq*."""
    first = (seq - 1) // SEGMENT_MESSAGES * SEGMENT_MESSAGES + 1
    return first, first + SEGMENT_MESSAGES - 1


def cut(contents: Iterable[Content]) -> list[list[Content]]:
    """
    Return *contents*, ordered by seq, split into one list per segment.

    The split does not depend on how many calls archived the messages of a block.
    """
    segments: list[list[Content]] = []
    end = size = 0
    for content in contents:
        seq, text, parts, metadata = content
        cost = len(text) + len(parts or "") + len(metadata or "")
        if seq > end or size + cost > SEGMENT_CHARS:
            segments.append([])
            _, end = block_of(seq)
            size = 0
        segments[-1].append(content)
        size += cost
    return segments


def pack(contents: Sequence[Content]) -> bytes:
    """Return *contents*, ordered by seq, as uncompressed bytes."""
    spans = spans_of(content[0] for content in contents)
    fields = [",".join(f"{first}-{last}" for first, last in spans)]
    for column in (1, 2, 3):
        fields += [content[column] or "" for content in contents]  # type: ignore[misc]  # texts and bytes
    return "\0".join(fields).encode()


def unpack(data: bytes) -> list[Content]:
    """
    Return the contents from which `pack` made *data*.

    Raises:
        Damaged: `pack` cannot have made *data*.
    """
    try:
        runs, *fields = data.decode().split("\0")
    except ValueError as error:
        raise Damaged(str(error)) from error
    seqs = _seqs_of(runs, len(fields))
    count = len(seqs)
    parts = [value or None for value in fields[count : 2 * count]]
    metadata = [value or None for value in fields[2 * count :]]
    return list(zip(seqs, fields[:count], parts, metadata, strict=True))


def _seqs_of(runs: str, fields: int) -> Sequence[int]:
    """
    Return the seqs that `pack` wrote as runs.

    Raises:
        Damaged: *runs* are not runs, or do not match this number of fields.
    """
    try:
        pairs = [
            (int(first), int(last)) for first, last in (run.split("-") for run in runs.split(","))
        ]
    except ValueError as error:
        raise Damaged(str(error)) from error
    count = sum(last - first + 1 for first, last in pairs)
    if 3 * count != fields:  # before a number from the file makes a list
        raise Damaged(f"a segment has {fields} fields for {count} messages")
    runs_of_seqs = [range(first, last + 1) for first, last in pairs]
    if sum(map(len, runs_of_seqs)) != count:
        raise Damaged("a run of messages ends before it begins")
    return runs_of_seqs[0] if len(runs_of_seqs) == 1 else [*chain.from_iterable(runs_of_seqs)]


class _Held:
    """The contents of a segment; a content becomes text only when it is read."""

    __slots__ = ("_data", "_ends", "_seqs")

    def __init__(self, data: bytes) -> None:
        """Store data of `pack`; Damaged if `pack` did not make it."""
        runs, *fields = data.split(b"\0")
        self._seqs = _seqs_of(runs.decode("ascii", "replace"), len(fields))
        self._data = data
        # An array: 4 bytes each, so that many segments can be kept.
        lengths = (len(field) + 1 for field in fields)
        self._ends = array("I", accumulate(lengths, initial=len(runs)))

    def __len__(self) -> int:
        """Return the bytes of the contents."""
        return len(self._data)

    def get(self, seq: int) -> Content | None:
        """Return the content of message *seq*; None if the segment has none."""
        if seq not in self._seqs:
            return None
        at, count, data, ends = self._seqs.index(seq), len(self._seqs), self._data, self._ends
        text = data[ends[at] + 1 : ends[at + 1]].decode("utf-8", "replace")
        at += count
        parts = data[ends[at] + 1 : ends[at + 1]].decode("utf-8", "replace") or None
        at += count
        metadata = data[ends[at] + 1 : ends[at + 1]].decode("utf-8", "replace") or None
        return seq, text, parts, metadata


def squeeze(packed: bytes) -> bytes:
    """Return bytes compressed with `CODEC`, so that `inflate_segment` reads them."""
    data = compress(packed, LEVEL)
    return data if len(packed) <= _most(data) else compress(packed, 0)


def _most(data: bytes) -> int:
    """Return the largest possible size of a segment with these compressed bytes."""
    return min(MAX_SEGMENT_BYTES, FREE_BYTES + MAX_RATIO * len(data))


def inflate_segment(data: bytes) -> bytes:
    """Return the bytes that `squeeze` compressed; Damaged if *data* is not from `squeeze`."""
    return inflate(data, _most(data))


def digest(packed: bytes) -> bytes:
    """Return the SHA-256 of uncompressed bytes, with which `open_segment` compares."""
    return sha256(packed).digest()


def open_segment(codec: str, data: bytes, sha256: bytes) -> list[Content]:
    """
    Return the contents of a segment. Cost: 0.1 ms for 128 messages.

    Raises:
        Damaged: the codec is unknown, or the bytes differ from their SHA-256.
    """
    return unpack(_packed(codec, data, sha256))


def _packed(codec: str, data: bytes, sha256: bytes) -> bytes:
    """Return the bytes that `pack` made; raises Damaged as `open_segment` does."""
    if codec != CODEC:
        raise Damaged(f"codec {codec!r} is unknown")
    packed = inflate_segment(data)
    if digest(packed) != sha256:
        raise Damaged("the hash differs")
    return packed


def spans_of(seqs: Iterable[int]) -> Iterator[tuple[int, int]]:
    """
    Yield ascending numbers as spans of consecutive ones, both ends inclusive.

    >>> list(spans_of([1, 2, 3, 7]))
    [(1, 3), (7, 7)]
    """
    span: tuple[int, int] | None = None
    for seq in seqs:
        if span is not None and seq == span[1] + 1:
            span = span[0], seq
            continue
        if span is not None:
            yield span
        span = seq, seq
    if span is not None:
        yield span


# A recall reads 200 messages from all over a scope, and the next recall often the
# same ones. So many segments hold 130,000 chat messages in 19 MB; large ones are not kept,
# so it is 27 MB at most.
MAX_KEPT = 1024
MAX_KEPT_BYTES = 24 << 10

# Segments do not overlap: only the last one that begins at or before a seq can hold it.
SELECT_PLACES = """/* segments.places */
SELECT DISTINCT session_id, first_seq, last_seq, sha256
FROM json_each(:ids) AS refs
JOIN archive_segments
  ON session_id = (refs.value & ~CAST(:seq_mask AS BIGINT))
  AND first_seq = (
    SELECT max(first_seq) FROM archive_segments AS those
    WHERE
      those.session_id BETWEEN :low AND :high
      AND those.session_id = (refs.value & ~CAST(:seq_mask AS BIGINT))
      AND those.first_seq <= (refs.value & CAST(:seq_mask AS BIGINT))
  )
WHERE session_id BETWEEN :low AND :high
ORDER BY session_id, first_seq
"""

SELECT_SEGMENT = """/* segments.get */
SELECT codec, data, sha256 FROM archive_segments
WHERE session_id = :session AND first_seq = :first_seq
"""

# The columns that a segment holds, in the order of `Content` after the seq.
CONTENT = ("text", "parts", "metadata")


def fill(tx: Tx, rows: list[Row], columns: Sequence[str], *, lost_ok: bool = False) -> list[Row]:
    """
    Return *rows* of messages with the content of archived ones filled in.

    Args:
        columns: Names of the columns of a row: `id`, `text` and, if they are read, `parts` and
            `metadata`.
        lost_ok: Leave a row without its text if its segment is damaged.

    Cost: 0.1 ms per segment that contains one of the messages.

    Raises:
        Corrupt: a segment is damaged or missing, and *lost_ok* is False.
    """
    row_id, text = columns.index("id"), columns.index("text")
    places = {
        columns.index(name): number for number, name in enumerate(CONTENT, 1) if name in columns
    }
    archived = [row[row_id] for row in rows if row[text] is None]
    if not archived:
        return rows
    said = _readable(tx, archived) if lost_ok else contents(tx, archived)
    return [_with(row, places, said[row[row_id]]) if row[row_id] in said else row for row in rows]


def _with(row: Row, places: dict[int, int], content: Content) -> Row:
    values = list(row)
    for place, number in places.items():
        values[place] = content[number]
    return tuple(values)


def contents(tx: Tx, ids: Iterable[int]) -> dict[int, Content]:
    """
    Return the contents of archived messages by id.

    Raises:
        Corrupt: the segment of one of them is damaged or missing.
    """
    wanted = sorted({*ids})
    found = _find(tx, wanted, _open_or_recall)
    for one in wanted:
        if one not in found:
            raise _lost(session_of(one), seq_of(one))
    return found


def _readable(tx: Tx, ids: Iterable[int]) -> dict[int, Content]:
    """Return the contents of archived messages by id, without unreadable ones."""
    return _find(tx, sorted(ids), _open)


def _find(
    tx: Tx, wanted: list[int], opener: Callable[[Tx, Row], _Held | None]
) -> dict[int, Content]:
    """Return the contents of *wanted*, rising ids, whose segments can be opened."""
    found: dict[int, Content] = {}
    left = deque(wanted)
    if not wanted:
        return found
    span = {"low": session_of(wanted[0]), "high": session_of(wanted[-1])}
    for place in tx.all(SELECT_PLACES, {"ids": wanted, "seq_mask": MAX_SEQ, **span}):
        held, session, last_seq = opener(tx, place), place[0], place[2]
        while left and left[0] <= session + last_seq:
            one = left.popleft()
            content = None if held is None else held.get(one - session)
            if content is not None:
                found[one] = content
    return found


def _open_or_recall(tx: Tx, place: Row) -> _Held | None:
    """Return the contents of a segment, from the cache if possible; None if it is damaged."""
    sha256 = place[3]
    held = tx.kept.pop(sha256, None)
    if held is None:
        held = _open(tx, place)
        if held is None or len(held) > MAX_KEPT_BYTES:
            return held
    tx.kept[sha256] = held
    if len(tx.kept) > MAX_KEPT:
        del tx.kept[next(iter(tx.kept))]
    return held  # type: ignore[no-any-return]  # of the cache


def _open(tx: Tx, place: Row) -> _Held | None:
    """Return the contents of a segment, None if it is damaged."""
    row = tx.one(SELECT_SEGMENT, {"session": place[0], "first_seq": place[1]})
    try:
        return None if row is None else _Held(_packed(*row))
    except Damaged:
        return None


def opened(session: int, first_seq: int, stored: Row) -> list[Content]:
    """
    Return the contents of a segment, from its columns codec, data and sha256.

    Raises:
        Corrupt: the segment is damaged.
    """
    try:
        return open_segment(*stored)
    except Damaged as error:
        raise _lost(session, first_seq) from error


def _lost(session: int, seq: int) -> Corrupt:
    return Corrupt(
        f"message {seq} of session {session} is archived, and its segment is damaged or missing: "
        "restore a backup (`memdb restore`) or take what is left (`memdb recover`); "
        "`memdb check` shows what else is hurt"
    )
