"""
Time and identity, injectable, so that two runs can give equal files.

Nothing else in memdb reads the clock or asks for randomness.
"""

from __future__ import annotations

import os
import time


def system_clock() -> int:
    """Return the wall clock in UTC milliseconds."""
    return time.time_ns() // 1_000_000


def uuid7(now_ms: int) -> str:
    """
    Return a new UUIDv7: 36 characters that sort by time.

    48 bits of *now_ms*, version, 12 random bits, variant, 62 random bits.
    Source: RFC 9562, section 5.7.

    >>> uuid7(1_700_000_000_000)[:15]
    '018bcfe5-6800-7'
    """
    random = int.from_bytes(os.urandom(10), "big")
    high = (now_ms & 0xFFFFFFFFFFFF) << 16 | 0x7000 | random >> 68
    low = 0x8000000000000000 | random & 0x3FFFFFFFFFFFFFFF
    text = "%032x" % (high << 64 | low)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
