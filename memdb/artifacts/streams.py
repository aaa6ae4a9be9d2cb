"""
Streams of artifacts: bytes on their way into the file, and out of it chunk by chunk.
"""

from __future__ import annotations

import io
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO

from memdb.errors import InvalidInput, MemDBError, NotFound
from memdb.tables import blobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Engine, Tx
    from memdb.tables.artifacts import Stored

# Data up to this size is written in one transaction (10 ms); larger data in
# several of this size each.
STEP_BYTES = 4 << 20


class Upload:
    """Bytes on their way into the file; visible to nobody before `finish`."""

    def __init__(self, db: Engine, source: BinaryIO) -> None:
        """Read *source* to its end; each full step is written at once, the rest by `finish`."""
        self._db = db
        self._blob_no: int | None = None
        self._chunks: list[tuple[int, tuple[str, bytes]]] = []
        self._written = 0
        self.head = b""
        self.size_bytes = 0
        digest = sha256()
        try:
            for chunk in _chunks_of(source):
                digest.update(chunk)
                if self.size_bytes < STEP_BYTES:
                    self.head += chunk
                self.size_bytes += len(chunk)
                self._chunks.append((len(chunk), blobs.pack(chunk)))
                if len(self._chunks) * blobs.CHUNK_BYTES >= STEP_BYTES:
                    self._flush()
        except BaseException:
            self.abandon()
            raise
        self._sha256 = digest.digest()

    def _flush(self) -> None:
        with self._db.write() as tx:
            if self._blob_no is None:
                self._blob_no = blobs.add(tx, None, 0)
            self._write_chunks(tx, self._blob_no)

    def _write_chunks(self, tx: Tx, blob_no: int) -> None:
        for chunk_no, (size, packed) in enumerate(self._chunks, start=self._written):
            blobs.add_chunk(tx, blob_no, chunk_no, size, packed)
        self._written += len(self._chunks)
        self._chunks = []

    def finish(self, tx: Tx) -> int:
        """Return the number of the complete blob, an older one with the same bytes first."""
        known = blobs.find(tx, self._sha256)
        if known is not None:
            if self._blob_no is not None:
                blobs.delete_if_unused(tx, self._blob_no)
            return known
        blob_no = blobs.add(tx, None, 0) if self._blob_no is None else self._blob_no
        self._write_chunks(tx, blob_no)
        blobs.complete(tx, blob_no, self._sha256, self.size_bytes)
        return blob_no

    def abandon(self) -> None:
        """Remove what was written; where that fails, as after a crash, `rebuild` does it."""
        if self._blob_no is None:
            return
        try:
            with self._db.write() as tx:
                blobs.delete_if_unused(tx, self._blob_no)
        except MemDBError:
            return  # the first error is on its way


class BlobStream(io.RawIOBase):
    """Reads a blob chunk by chunk."""

    def __init__(self, db: Engine, stored: Stored) -> None:
        """Begin at the start of *stored*."""
        super().__init__()
        self._db = db
        self._stored = stored
        self._sha256 = bytes.fromhex(stored.info.sha256)
        self._position = 0
        self._hashed = 0
        self._digest = sha256()

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: it can move."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to *offset* from the start, the position or the end."""
        base = (0, self._position, self._stored.info.size_bytes)[whence]
        if base + offset < 0:
            raise InvalidInput(f"offset is {offset}: that is before the start")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """
        Fill *buffer* from the current chunk and return how many bytes came, 0 at the end.

        Raises:
            Corrupt: a chunk is damaged, or everything was read in order and differs
                from its SHA-256.
            NotFound: the version was deleted meanwhile.
        """
        chunk_no, skip = divmod(self._position, blobs.CHUNK_BYTES)
        with self._db.read() as tx:
            chunk = blobs.read_chunk(tx, self._stored.blob_no, chunk_no, self._sha256)
        if chunk is None:
            if self._position < self._stored.info.size_bytes:
                raise NotFound("artifact", f"{self._stored.info.name} was deleted while reading")
            return 0
        part = chunk[skip : skip + len(buffer)]
        buffer[: len(part)] = part
        if self._position == self._hashed:
            self._digest.update(part)
            self._hashed += len(part)
            if self._hashed >= self._stored.info.size_bytes:
                self._refuse_damaged()
        self._position += len(part)
        return len(part)

    def _refuse_damaged(self) -> None:
        is_whole = self._hashed == self._stored.info.size_bytes
        if not is_whole or self._digest.digest() != self._sha256:
            raise blobs.damaged_bytes()


class Joined(io.RawIOBase):
    """Stream of the part of a file that was read already, then of the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        """Read *head*, then the remainder of *rest*."""
        super().__init__()
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* with the next bytes and return how many, 0 at the end."""
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _chunks_of(source: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of *source* in chunks of exactly `CHUNK_BYTES`, the last one shorter."""
    pending = b""
    while True:
        data = source.read(blobs.CHUNK_BYTES)
        if isinstance(data, str):
            raise InvalidInput("data is a text file: open it in binary mode ('rb')")
        pending += data or b""
        while len(pending) >= blobs.CHUNK_BYTES:
            yield pending[: blobs.CHUNK_BYTES]
            pending = pending[blobs.CHUNK_BYTES :]
        if not data:
            break
    if pending:
        yield pending
