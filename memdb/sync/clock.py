"""
Stamps: hybrid clocks, so that a change that saw another one always counts as the later one.

A stamp is one integer: milliseconds, then a counter of 8 bits, then 12 bits of its device, which
decide between two stamps of one moment. A device never gives one below any that it has read.
"""

from __future__ import annotations

from hashlib import sha256

DAY_MS = 86_400_000

DEVICE_BITS = 12
TICK = 1 << DEVICE_BITS
MS_SHIFT = 20


def stamp_of(at_ms: int, device: str, last: int) -> int:
    """Return the stamp of a change at *at_ms* on a device that has read *last*."""
    ticks = max(at_ms << MS_SHIFT, (last | (TICK - 1)) + 1)
    return ticks & -TICK | mark_of(device)


def mark_of(device: str) -> int:
    """Return what tells the stamps of a device from those of another one."""
    return int.from_bytes(sha256(device.encode()).digest()[:2], "big") & (TICK - 1)


def is_ahead(stamp: int, now_ms: int) -> bool:
    """Return whether a stamp is of more than a day after *now_ms*: a clock is wrong."""
    return stamp >> MS_SHIFT > now_ms + DAY_MS


def ms_of(stamp: int) -> int:
    """Return when a stamp was given, by the clock of its device."""
    return stamp >> MS_SHIFT
