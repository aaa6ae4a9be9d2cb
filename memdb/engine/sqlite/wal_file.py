"""
Bytes of a WAL and of the header of its file, read without SQLite.

No POSIX lock is on the WAL itself, so closing it drops none of SQLite's; the file is never opened
this way.
"""

from __future__ import annotations

import os
import struct
from time import time_ns
from typing import TYPE_CHECKING

from memdb.engine.files import read_start

if TYPE_CHECKING:
    from collections.abc import Iterator

WAL_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24

# Source: https://www.sqlite.org/fileformat2.html#walformat (the last bit: byte order)
WAL_MAGIC = 0x377F0682

MAX_PAGE_BYTES = 65_536

SALTS = slice(16, 24)

# In the header of a file. Source: https://www.sqlite.org/fileformat2.html
WAL_MODE_AT, WAL_MODE = 18, b"\x02\x02"

# About the pages from which on a commit makes a checkpoint. SQLite cuts a longer WAL to this size
# after a checkpoint; if it stays longer, somebody prevents checkpoints.
LARGE_WAL_BYTES = 64 << 20

# Tries to see file and WAL of one moment while another process changes both.
TRIES, TRY_S = 5, 0.002

# Two writes so soon after each other may have the same time.
CLOCK_STEP_NS = 20_000_000


def read_commits(wal: str) -> Iterator[tuple[list[tuple[int, bytes]], int]]:
    """Yield the pages (number, content) of each commit in a WAL, and the size of the file."""
    frames = []
    for number, page, size in read_frames(wal):
        frames.append((number, page))
        if size:
            yield frames, size
            frames = []


def read_frames(wal: str) -> Iterator[tuple[int, bytes, int]]:
    """
    Yield page number and content of each frame of a WAL, and the pages of the file after a commit.

    The last value is 0 if the frame does not end a transaction. Like SQLite it stops at the first
    frame with a wrong checksum: a power cut leaves a commit whose pages never reached the disk.

    Raises:
        OSError: there is no WAL, or it cannot be read.
    """
    with open(wal, "rb") as file:
        header = file.read(WAL_HEADER_BYTES)
        order = _order(header)
        if order is None:
            return
        page_bytes, salts = int.from_bytes(header[8:12], "big"), header[16:24]
        sums = _checksum(header[:24], order, (0, 0))
        while len(frame := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
            if frame[8:16] != salts:  # left over from before the last checkpoint
                return
            page = file.read(page_bytes)
            if len(page) < page_bytes:
                return
            sums = _checksum(page, order, _checksum(frame[:8], order, sums))
            if struct.pack(">II", *sums) != frame[16:24]:
                return
            yield int.from_bytes(frame[:4], "big"), page, int.from_bytes(frame[4:8], "big")


def _order(header: bytes) -> str | None:
    """Return the byte order of a WAL's checksums by its header; None for a wrong header."""
    if len(header) < WAL_HEADER_BYTES or int.from_bytes(header[8:12], "big") > MAX_PAGE_BYTES:
        return None
    if int.from_bytes(header[:4], "big") & ~1 != WAL_MAGIC:  # zeros have a sound checksum
        return None
    order = ">" if header[3] & 1 else "<"
    sums = _checksum(header[:24], order, (0, 0))
    return order if struct.pack(">II", *sums) == header[24:32] else None


def _checksum(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def read_header(path: str) -> tuple[str, int, int]:
    """
    Return the WAL's salts in hexadecimal, the size of its pages, and its own size.

    Raises:
        OSError: there is no WAL, or it is empty.
    """
    # No POSIX lock is on the WAL itself, so closing it drops none of SQLite's.
    with open(f"{path}-wal", "rb") as file:
        header, size = file.read(WAL_HEADER_BYTES), os.fstat(file.fileno()).st_size
    if len(header) < WAL_HEADER_BYTES:
        raise OSError
    return header[SALTS].hex(), int.from_bytes(header[8:12], "big"), size


def has_bytes(path: str) -> bool:
    """Return whether there is a non-empty file at *path*."""
    return any(file_state(path)[2:3])


def file_state(path: str) -> tuple[int, ...]:
    """Return device, inode, size and time of the last write of a file; () if it is absent."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def untouched_state(path: str) -> tuple[int, ...] | None:
    """Return the state of a file that nobody is writing; None if somebody may be."""
    state = file_state(path)
    if not state or any(map(os.path.lexists, (f"{path}-wal", f"{path}-journal"))):
        return None
    return state if abs(time_ns() - state[-1]) > CLOCK_STEP_NS else None


def is_wal_mode(path: str) -> bool:
    """Return whether a file is in WAL mode, so that opening it creates files beside it."""
    return read_start(path)[WAL_MODE_AT:][:2] == WAL_MODE
