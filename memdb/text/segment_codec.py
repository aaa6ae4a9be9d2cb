"""
Packing: what cold messages said, as the bytes of an archive segment.

    seqs NUL text NUL ... NUL body NUL ... NUL metadata NUL ... NUL metadata

`seqs` says which messages these are, as runs: "1-128" or "1-3,7-128". Then
come all texts, all bodies and all metadata, in the order of the seqs; "" stands
for no body and no metadata. No stored text holds NUL, so nothing is escaped,
and like stands beside like, which is what compression lives from. The same
messages give the same bytes, everywhere.

Pure functions; ADR-0009 has the measurements.
"""

from __future__ import annotations

from zlib import compress, decompress
from zlib import error as zlib_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    # seq, text, body and metadata, the latter two as JSON text
    Content = tuple[int, str, str | None, str | None]

CODEC = "zlib"
LEVEL = 9

# A segment is part of one block of so many seqs, and has about so many
# characters at most, so reading one message costs the same however old it is.
SEGMENT_MESSAGES = 128
SEGMENT_CHARS = 256 << 10


class Damaged(ValueError):
    """The bytes are not what was packed."""


def block_of(seq: int) -> tuple[int, int]:
    """Return the first and last seq of the block that *seq* belongs to."""
    first = (seq - 1) // SEGMENT_MESSAGES * SEGMENT_MESSAGES + 1
    return first, first + SEGMENT_MESSAGES - 1


def cut(contents: Iterable[Content]) -> list[list[Content]]:
    """
    Return *contents*, by rising seq, in the parts that make a segment each.

    However many calls brought a block's messages in, the parts are the same.
    """
    parts: list[list[Content]] = []
    end = size = 0
    for content in contents:
        seq, text, body, metadata = content
        cost = len(text) + len(body or "") + len(metadata or "")
        if seq > end or size + cost > SEGMENT_CHARS:
            parts.append([])
            _, end = block_of(seq)
            size = 0
        parts[-1].append(content)
        size += cost
    return parts


def pack(contents: Sequence[Content]) -> bytes:
    """Return *contents*, by rising seq, as bytes that are not yet compressed."""
    spans = spans_of(content[0] for content in contents)
    fields = [",".join(f"{first}-{last}" for first, last in spans)]
    for column in (1, 2, 3):
        fields += [content[column] or "" for content in contents]  # type: ignore[misc]
    return "\0".join(fields).encode()


def unpack(data: bytes) -> list[Content]:
    """
    Return what `pack` made *data* from.

    Raises:
        Damaged: nothing can have been packed to these bytes.
    """
    try:
        runs, *fields = data.decode().split("\0")
        pairs = [
            (int(first), int(last)) for first, last in (run.split("-") for run in runs.split(","))
        ]
    except ValueError as error:
        raise Damaged(str(error)) from error
    count = sum(last - first + 1 for first, last in pairs)
    if 3 * count != len(fields):  # before a number from the file makes a list
        raise Damaged(f"{len(fields)} fields for {count} messages")
    seqs = [seq for first, last in pairs for seq in range(first, last + 1)]
    if len(seqs) != count:
        raise Damaged("a run of messages ends before it begins")
    bodies = [body or None for body in fields[count : 2 * count]]
    metadata = [value or None for value in fields[2 * count :]]
    return list(zip(seqs, fields[:count], bodies, metadata, strict=True))


def squeeze(packed: bytes) -> bytes:
    """Return bytes compressed with `CODEC`."""
    return compress(packed, LEVEL)


def digest(packed: bytes) -> bytes:
    """Return the SHA-256 of bytes, by which `open_segment` knows them again."""
    from hashlib import sha256  # 3 ms that a program without an archive does not need

    return sha256(packed).digest()


def open_segment(codec: str, data: bytes, sha256: bytes) -> list[Content]:
    """
    Return what a segment holds. Cost: 0.1 ms for 128 messages.

    Raises:
        Damaged: it is of another codec, or not what was written.
    """
    if codec != CODEC:
        raise Damaged(f"codec {codec!r} is not known")
    try:
        packed = decompress(data)
    except zlib_error as error:
        raise Damaged(str(error)) from error
    if digest(packed) != sha256:
        raise Damaged("the hash differs")
    return unpack(packed)


def spans_of(seqs: Iterable[int]) -> Iterator[tuple[int, int]]:
    """
    Yield rising numbers as spans of neighbours, both ends inclusive.

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
