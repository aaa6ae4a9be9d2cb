"""
When things were said, by hybrid clocks, and which of two words of one thing stands.

A stamp is one integer: milliseconds, then a counter of 8 bits, then 12 bits of its device, which
decide between two stamps of one moment. A device never gives one below any that it has read, so a
change that saw another one always counts as the later one.

A word is what a device said of a thing: that it is so, or that it is gone. What stands is the same
in whatever order words come, and however often each of them comes.
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


def stamp_of(at_ms: int, device: str, last: int) -> int:
    """Return the stamp of a change at *at_ms* on a device that has read *last*."""
    ticks = max(at_ms << MS_SHIFT, (last | (TICK - 1)) + 1)
    return ticks & -TICK | mark_of(device)


def mark_of(device: str) -> int:
    """Return what tells the stamps of a device from those of another one."""
    return int.from_bytes(sha256(device.encode()).digest()[:2], "big") & (TICK - 1)


def is_ahead(stamp: int, now_ms: int) -> bool:
    """Return whether a stamp is more than a day after *now_ms*: a clock is wrong."""
    return stamp >> MS_SHIFT > now_ms + DAY_MS


def ms_of(stamp: int) -> int:
    """Return the time of a stamp, by the clock of the device that made it."""
    return stamp >> MS_SHIFT


# That one of these is gone is the last word, however late another device changed it.
UNITED = ("message", "version", "artifact")


class Word(Record):
    """The last word of a thing, and its time; *gone*: 0, 1 if it was deleted, 2 if forgotten."""

    stamp: int
    gone: int = 0


NOTHING = Word(-1)

# Of a thing that was changed here and not told: the next segment tells it, later than all else.
UNTOLD = 1 << 63


def beats(kind: str, word: Word, other: Word) -> bool:
    """Return whether *word* stands where *other* stood: the later one, unless one is the last."""
    return _rank(kind, word) > _rank(kind, other)


def _rank(kind: str, word: Word) -> tuple[int, int, int]:
    is_last = word.gone > 0 and (kind in UNITED or (kind == "entry" and word.gone > 1))
    return word.gone if is_last else 0, word.stamp, word.gone


def history_of(
    said: Iterable[tuple[int, dict[str, Any]]], now: int, gone: Iterable[int]
) -> list[tuple[int, dict[str, Any]]]:
    """
    Return the old versions of an entry, oldest first, each under its thing.

    Args:
        said: All versions that anybody knows, one that stands on two devices twice.
        now: The thing of the version that stands.
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
