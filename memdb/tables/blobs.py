"""
Blobs: bytes by their SHA-256, stored once. Owns `blobs` and `blob_chunks`.

Bytes are cut into chunks, each compressed if that saves a fifth, so reading and writing need the
memory of one chunk. A large blob is written in several transactions and becomes visible in the last
one. Until then it has no hash, and nothing refers to it.
"""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.engine.segments import Damaged, inflate
from memdb.errors import Corrupt, existing
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memdb.engine.base import Tx

CHUNK_BYTES = 256 << 10

# A chunk that shrinks by less is kept as it is: reading it costs nothing then.
WORTHWHILE = 0.8

# Level 1 packs text at 60 MB/s to within a tenth of level 6.
ZLIB_LEVEL = 1

# A blob without a hash that is older than this belongs to a writer that died.
STALE_MS = DAY_MS

INSERT_BLOB = compose.insert(
    "blobs.insert",
    "blobs",
    "sha256, size_bytes",
    created_ms=":now_ms",
    numbered="blob_no",
    returning="blob_no",
)

INSERT_CHUNK = compose.insert("blobs.insert_chunk", "blob_chunks")

SELECT_BY_HASH = compose.select("blobs.find", "blob_no", "blobs", "sha256 = :sha256")

UPDATE_COMPLETE = compose.update(
    "blobs.complete", "blobs", "blob_no = :blob_no", "sha256, size_bytes"
)

SELECT_CHUNK = """/* blobs.chunk */
SELECT codec, data
FROM blob_chunks
JOIN blobs ON blobs.blob_no = blob_chunks.blob_no
WHERE blob_chunks.blob_no = :blob_no AND chunk_no = :chunk_no AND sha256 = :sha256
"""

SELECT_FIRST = """/* blobs.first */
SELECT blob_no, codec, data FROM blob_chunks
WHERE blob_no IN (SELECT value FROM json_each(:ids)) AND chunk_no = 0
"""

SELECT_WHOLE = compose.select("blobs.whole", "sha256, size_bytes", "blobs", "blob_no = :blob_no")

SELECT_CHUNKS = """/* blobs.chunks */
SELECT codec, data FROM blob_chunks WHERE blob_no = :blob_no ORDER BY chunk_no
"""

DELETE_UNUSED = """/* blobs.delete_unused */
DELETE FROM blobs
WHERE
  blob_no = :blob_no
  AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.blob_no = blobs.blob_no)
"""

DELETE_STALE = """/* blobs.delete_stale */
DELETE FROM blobs
WHERE
  (sha256 IS NULL AND created_ms < :before_ms)
  OR (
    sha256 IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.blob_no = blobs.blob_no)
  )
"""

SELECT_HASHES = """/* blobs.hashes */
SELECT blob_no, sha256 FROM blobs WHERE sha256 IS NOT NULL ORDER BY blob_no
"""


def find(tx: Tx, sha256: bytes) -> int | None:
    """Return the number of the complete blob with this hash, None if there is none."""
    return tx.find_number(SELECT_BY_HASH, {"sha256": sha256})


def pack(data: bytes) -> tuple[str, bytes]:
    """Return the codec of a chunk and its bytes as stored."""
    packed = zlib.compress(data, ZLIB_LEVEL)
    return ("zlib", packed) if len(packed) < WORTHWHILE * len(data) else ("raw", data)


def add(tx: Tx, sha256: bytes | None, size_bytes: int) -> int:
    """
    Add a blob without chunks and return its number.

    No hash means that it is still being written.
    """
    values = {"sha256": sha256, "size_bytes": size_bytes, "now_ms": tx.now_ms}
    return existing(tx.find_number(INSERT_BLOB, values), "blobs")


def add_chunk(
    tx: Tx, blob_no: int, chunk_no: int, size_bytes: int, packed: tuple[str, bytes]
) -> None:
    """Add a chunk of *size_bytes*, as `pack` returned it; chunks count from 0."""
    codec, data = packed
    values = {
        "blob_no": blob_no,
        "chunk_no": chunk_no,
        "codec": codec,
        "size_bytes": size_bytes,
        "data": data,
    }
    tx.run(INSERT_CHUNK, values)


def complete(tx: Tx, blob_no: int, sha256: bytes, size_bytes: int) -> None:
    """Set the hash of a finished blob, so that it can be found."""
    tx.run(UPDATE_COMPLETE, {"blob_no": blob_no, "sha256": sha256, "size_bytes": size_bytes})


def unpack(codec: str, data: bytes) -> bytes:
    """Return the bytes of a chunk as `pack` got them; Corrupt if they are damaged."""
    if codec != "zlib" and len(data) <= CHUNK_BYTES:
        return data
    try:
        return inflate(data, CHUNK_BYTES)
    except Damaged as error:
        raise damaged_bytes() from error


def damaged_bytes() -> Corrupt:
    """Return the error to raise if the bytes of an artifact differ from their size or hash."""
    return Corrupt(
        "an artifact's bytes are damaged: run `memdb check --deep`, then restore a backup "
        "(`memdb restore`) or take what is left (`memdb recover`)"
    )


def read(tx: Tx, blob_no: int) -> bytes:
    """
    Return all bytes of a blob. Cost: 1 ms per MB.

    Raises:
        Corrupt: the bytes differ from their size or SHA-256.
    """
    return b"".join(read_parts(tx, blob_no, CHUNK_BYTES))


def read_parts(tx: Tx, blob_no: int, part_bytes: int) -> Iterator[bytes]:
    """
    Yield the bytes of a blob in parts of about *part_bytes*; the last one is shorter.

    Raises:
        Corrupt: the bytes differ from their size or SHA-256, which is known after the last one.
    """
    expected, size_bytes = tx.one(SELECT_WHOLE, {"blob_no": blob_no}) or (None, 0)
    digest, done, part, chunk_no = sha256(), 0, bytearray(), 0
    while done <= size_bytes and (chunk := read_chunk(tx, blob_no, chunk_no, expected)):
        digest.update(chunk)
        done += len(chunk)
        chunk_no += 1
        if len(part) + len(chunk) > part_bytes and part:
            yield bytes(part)
            part.clear()
        part += chunk
    if done != size_bytes or digest.digest() != expected:
        raise damaged_bytes()
    yield bytes(part)


def read_lost(tx: Tx, blob_no: int) -> bytes:
    """Return the bytes in the chunks of a blob whose row is lost; Corrupt if one is damaged."""
    return b"".join(unpack(*row) for row in tx.all(SELECT_CHUNKS, {"blob_no": blob_no}))


def read_small(tx: Tx, blobs: Mapping[int, str]) -> dict[int, bytes]:
    """
    Return all bytes of blobs of one chunk at most, by number.

    Args:
        blobs: The SHA-256 of each in hexadecimal digits.

    Raises:
        Corrupt: one differs from its SHA-256.
    """
    rows = tx.all(SELECT_FIRST, {"ids": [*blobs]}) if blobs else []
    found = dict.fromkeys(blobs, b"") | {one: unpack(codec, data) for one, codec, data in rows}
    if any(sha256(data).hexdigest() != blobs[one] for one, data in found.items()):
        raise damaged_bytes()
    return found


def forms(tx: Tx, blob_no: int) -> Iterable[bytes]:
    """Yield each chunk of a blob, and for a compressed one also its stored bytes."""
    for codec, data in tx.all(SELECT_CHUNKS, {"blob_no": blob_no}):
        yield unpack(codec, data)
        if codec != "raw":
            yield data


def read_head(tx: Tx, blob_no: int, sha256: bytes, limit_bytes: int) -> bytes:
    """Return at least the first *limit_bytes* of a blob, or all of a shorter one."""
    head = b""
    for chunk_no in range(-(-limit_bytes // CHUNK_BYTES)):
        chunk = read_chunk(tx, blob_no, chunk_no, sha256)
        if chunk is None:
            break
        head += chunk
    return head


def read_chunk(tx: Tx, blob_no: int, chunk_no: int, sha256: bytes) -> bytes | None:
    """
    Return one chunk of a blob, None after its end.

    None also if *blob_no* now has other bytes than those of *sha256*, because SQLite reuses a
    number after a delete.
    """
    row = tx.one(SELECT_CHUNK, {"blob_no": blob_no, "chunk_no": chunk_no, "sha256": sha256})
    return None if row is None else unpack(*row)


def delete_if_unused(tx: Tx, *blob_nos: int) -> None:
    """Remove those of the blobs to which no artifact version refers."""
    tx.many(DELETE_UNUSED, [{"blob_no": one} for one in blob_nos])


def delete_stale(tx: Tx) -> int:
    """Remove blobs without references, and those unfinished for a day; return how many."""
    return tx.count_changed(DELETE_STALE, {"before_ms": tx.now_ms - STALE_MS})


def damaged(tx: Tx) -> Iterable[int]:
    """Yield the number of each blob whose bytes do not match their hash."""
    for blob_no, stored in tx.all(SELECT_HASHES):
        digest = sha256()
        chunk_no = 0
        try:
            while chunk := read_chunk(tx, blob_no, chunk_no, stored):
                digest.update(chunk)
                chunk_no += 1
        except Corrupt:
            yield blob_no
            continue
        if digest.digest() != stored:
            yield blob_no
