"""
Hybrid clocks: the time of a change, and which of two changes of a thing wins.

A stamp is one integer: milliseconds, then a counter of 8 bits, then 12 bits of its device, which
decide between equal times. A device never makes a stamp below one that it has read, so a change
that saw another one always counts as the later one.

A change of a thing is that a device stored it, or deleted it. The result is the same in whatever
order changes arrive, and however often each of them arrives.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY_MS = 86_400_000

DEVICE_BITS = 12
TICK = 1 << DEVICE_BITS
MS_SHIFT = 20

# A stamp has 63 bits: from this time on (in 2109) it only counts, in the bit that is left.
LAST_MS = 1 << 42


def stamp_of(at_ms: int, device: str, last: int) -> int:
    """Return the stamp of a change at *at_ms* on a device that has read *last*; it fits SQLite."""
    ticks = max(min(at_ms, LAST_MS) << MS_SHIFT, (last | (TICK - 1)) + 1)
    return ticks & -TICK | mark_of(device)


def mark_of(device: str) -> int:
    """Return the bits that distinguish the stamps of a device from those of others."""
    return int.from_bytes(sha256(device.encode()).digest()[:2], "big") & (TICK - 1)


def is_ahead(stamp: int, now_ms: int) -> bool:
    """Return whether a stamp is more than a day after *now_ms*, so that a clock must be wrong."""
    return stamp >> MS_SHIFT > now_ms + DAY_MS


def ms_of(stamp: int) -> int:
    """Return the time of a stamp, by the clock of the device that made it."""
    return stamp >> MS_SHIFT


# Things that are added and seldom changed: if one is gone, that is its last change for good.
APPENDED = ("message", "version", "artifact")


class Change(Record):
    """The last change of a thing, and its time; *gone*: 0, 1 if it was deleted, 2 if forgotten."""

    stamp: int
    gone: int = 0


NO_CHANGE = Change(-1)

# Of a thing that was changed here after the last segment: the next one sends it, later than others.
UNSENT = 1 << 63


def wins(kind: str, change: Change, other: Change) -> bool:
    """Return whether *change* replaces *other*: the later one does, unless one of them is final."""
    return _rank(kind, change) > _rank(kind, other)


def _rank(kind: str, change: Change) -> tuple[int, int, int]:
    is_last = change.gone > 0 and (kind in APPENDED or (kind == "entry" and change.gone > 1))
    return change.gone if is_last else 0, change.stamp, change.gone


def history_of(
    said: Iterable[tuple[int, dict[str, Any]]], now: int, gone: Iterable[int]
) -> list[tuple[int, dict[str, Any]]]:
    """
    Return the old versions of an entry, oldest first, each under its thing.

    Args:
        said: All known versions; one that two devices have occurs twice.
        now: The thing of the current version.
        gone: Those that were removed.
    """
    kept: dict[int, dict[str, Any]] = {}
    for thing, version in said:
        kept[thing] = min(kept.get(thing, version), version, key=_order)
    for thing in (now, *gone):
        kept.pop(thing, None)
    return sorted(kept.items(), key=lambda one: (one[1]["stored_ms"], one[0]))


def _order(version: dict[str, Any]) -> tuple[Any, ...]:
    """Prefer the reason of the device that replaced a version to "update", which a merge gives."""
    return version["reason"] == "update", version["reason"], version["trust"]
