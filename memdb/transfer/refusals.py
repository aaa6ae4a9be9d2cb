"""
What an import leaves out: records that are broken, files that no format reads.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from memdb.models.reports import LeftOut
from memdb.transfer.formats.base import left_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.transfer.lines import Item
    from memdb.transfer.tree import Tree

# Names of files that a report lists.
SHOWN = 5

# Reasons that a report lists one by one; a table may have a fault in each row.
MAX_REASONS = 100
FURTHER = "further records"
FURTHER_WHY = "they have faults like those before"


class Refusals:
    """What an import left out: by what it is and why, up to a number; then only counted."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.first: tuple[str, str] | None = None  # place and reason of a broken record
        self._places: set[str] = set()
        self._counts: dict[tuple[str, str], int] = {}

    def refuse(self, place: str, why: str) -> None:
        """Count a record that is broken."""
        self.first = self.first or (place, why)
        if len(self._places) < MAX_REASONS:
            self._places.add(place)
            self.leave_out(place, why, 1)
        else:
            self.leave_out(FURTHER, FURTHER_WHY, 1)

    def leave_out(self, what: str, why: str, count: int) -> None:
        """Count something that the format does not import."""
        self._counts[what, why] = self._counts.get((what, why), 0) + count

    def listed(self) -> tuple[LeftOut, ...]:
        """Return what was left out, in the order in which it came."""
        return tuple(
            LeftOut(what, why, count, is_place=what in self._places)
            for (what, why), count in self._counts.items()
        )


def list_unread(tree: Tree, names: list[str]) -> Iterator[Item]:
    """Yield an item for the files of a tree that its format does not read."""
    read = set(names)
    reasons = {name: "they hold no conversations" for name in tree.names if name not in read}
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in {**reasons, **tree.refused}.items():
        by_reason[why].append(name)
    for why, rest in by_reason.items():
        shown = ", ".join(rest[:SHOWN]) + (", ..." if len(rest) > SHOWN else "")
        yield left_out(tree.name, "files", f"{why}: {shown}", len(rest))
