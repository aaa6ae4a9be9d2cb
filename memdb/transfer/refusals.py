"""
What an import leaves out: records that are broken, files that no format reads.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from memdb.formats.imports.base import left_out
from memdb.models.reports import LeftOut
from memdb.transfer.detect import FEW_FILES, formats_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.transfer.lines import Item
    from memdb.transfer.tree import Tree

# Names of files that a report lists.
SHOWN = 5

# Reasons that a report lists one by one; a table may have a fault in each row.
MAX_REASONS = 100
ARCHIVES = "they are archives: import each by itself"
FURTHER = "further records"
FURTHER_WHY = "they have faults like those before"


def shorten_notes(notes: list[str]) -> tuple[str, ...]:
    """Return the notes that a report lists, and how many more there are."""
    more = len(notes) - MAX_REASONS
    return (*notes[:MAX_REASONS], *([f"{more:,} more like these"] if more > 0 else []))


class Refusals:
    """What an import left out: by what it is and why, up to a number; then only counted."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._places: set[str] = set()
        self._counts: dict[tuple[str, str], int] = {}

    def refuse(self, place: str, why: str) -> None:
        """Count a record that is broken."""
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
    rest = [name for name in tree.names if name not in {*names}]
    reasons = dict.fromkeys(rest, "they hold no conversations")
    if len(rest) <= FEW_FILES:
        for label, claimed in formats_for(tree):
            reasons |= {
                one: f"they are of another kind ({label}): import each by itself"
                for one in claimed
                if reasons.get(one, "").startswith("they hold")
            }
    reasons |= {one: ARCHIVES for one in rest if one.lower().endswith(".zip")}
    reasons |= {
        one: f"they cannot be read ({why})" for one, why in tree.problems.items() if one in reasons
    }
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in {**reasons, **tree.refused}.items():
        by_reason[why].append(name)
    for why, files in by_reason.items():
        shown = ", ".join(files[:SHOWN]) + (", ..." if len(files) > SHOWN else "")
        yield left_out(tree.name, "files", f"{why}: {shown}", len(files))
