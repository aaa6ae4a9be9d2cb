"""
Lines that differ between two texts, with limited work.

Lines that occur once in both are anchors; between two anchors the longest equal runs are searched.
The search search compares each pair of equal lines. In two repetitive texts there are so many
pairs that the search stops, and the rest counts as rewritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import TYPE_CHECKING

from memdb.models.reports import Hunk, TextDiff

if TYPE_CHECKING:
    from collections.abc import Sequence

# Pairs of equal lines that are compared, 0.3 µs each.
MAX_PAIRS = 2_000_000

NO_END = "\\ No newline at end of file"


class _TooMuchError(Exception):
    """The limit of pairs of equal lines was reached."""


class _Search(SequenceMatcher):  # type: ignore[type-arg]  # generic in stubs only
    """Finds equal runs, until the limit of compared pairs is reached."""

    def __init__(self, old: Sequence[str], new: Sequence[str], left: int) -> None:
        super().__init__(None, old, new, autojunk=False)
        counts = Counter(new)
        self._pairs = [0, *accumulate(1 + counts[line] for line in old)]
        self.left = left

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        self.left -= self._pairs[len(self._pairs) - 1 if ahi is None else ahi] - self._pairs[alo]
        if self.left < 0:
            raise _TooMuchError
        return super().find_longest_match(alo, ahi, blo, bhi)


class _Runs(SequenceMatcher):  # type: ignore[type-arg]  # generic in stubs only
    """Groups known runs of equal lines."""

    def __init__(self, runs: list[tuple[int, int, int]]) -> None:
        super().__init__(None, (), ())
        self.matching_blocks = runs


class _Comparison:
    """Two texts as lines, and the runs of them that are equal."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self._old = old
        self._new = new
        self._left = MAX_PAIRS
        self.is_exact = True
        self.runs: list[tuple[int, int, int]] = []
        self._compare_ends(0, len(old), 0, len(new), is_anchored=False)
        self.runs.append((len(old), len(new), 0))

    def _compare_ends(self, alo: int, ahi: int, blo: int, bhi: int, *, is_anchored: bool) -> None:
        """Take the equal lines at both ends of a part, and compare the lines between."""
        old, new, first = self._old, self._new, alo
        while alo < ahi and blo < bhi and old[alo] == new[blo]:
            alo, blo = alo + 1, blo + 1
        self._add(first, blo - (alo - first), alo - first)
        last = ahi
        while alo < ahi and blo < bhi and old[ahi - 1] == new[bhi - 1]:
            ahi, bhi = ahi - 1, bhi - 1
        if alo < ahi and blo < bhi:
            if is_anchored:
                self._search(alo, ahi, blo, bhi)
            else:
                self._compare_between_anchors(alo, ahi, blo, bhi)
        self._add(ahi, bhi, last - ahi)

    def _compare_between_anchors(self, alo: int, ahi: int, blo: int, bhi: int) -> None:
        a, b = alo, blo
        for i, j in [*_anchors(self._old, self._new, (alo, ahi, blo, bhi)), (ahi, bhi)]:
            self._compare_ends(a, i, b, j, is_anchored=True)
            if (i, j) != (ahi, bhi):
                self._add(i, j, 1)
            a, b = i + 1, j + 1

    def _search(self, alo: int, ahi: int, blo: int, bhi: int) -> None:
        if set(self._old[alo:ahi]).isdisjoint(self._new[blo:bhi]):
            return
        search = _Search(self._old[alo:ahi], self._new[blo:bhi], self._left)
        try:
            found = search.get_matching_blocks()
        except _TooMuchError:
            self.is_exact = False
            self._left = 0
            return
        self._left = search.left
        for i, j, count in found:
            self._add(alo + i, blo + j, count)

    def _add(self, i: int, j: int, count: int) -> None:
        """Add a run of equal lines; join it to the one before if it continues that."""
        if not count:
            return
        if self.runs:
            a, b, before = self.runs[-1]
            if (a + before, b + before) == (i, j):
                self.runs[-1] = (a, b, before + count)
                return
        self.runs.append((i, j, count))


def _anchors(
    old: Sequence[str], new: Sequence[str], span: tuple[int, int, int, int]
) -> list[tuple[int, int]]:
    """Return the longest rising list of lines that occur once in each part of both texts."""
    alo, ahi, blo, bhi = span
    in_old, in_new = Counter(old[alo:ahi]), Counter(new[blo:bhi])
    places = {new[j]: j for j in range(blo, bhi) if in_new[new[j]] == 1}
    ends: list[int] = []  # the least last place of a rising list of each length
    tops: list[int] = []  # which of `pairs` that is
    pairs: list[tuple[int, int, int]] = []
    for i in range(alo, ahi):
        j = places.get(old[i])
        if j is None or in_old[old[i]] != 1:
            continue
        at = bisect_left(ends, j)
        pairs.append((i, j, tops[at - 1] if at else -1))
        ends[at : at + 1] = [j]
        tops[at : at + 1] = [len(pairs) - 1]
    chain = []
    at = tops[-1] if tops else -1
    while at >= 0:
        i, j, at = pairs[at]
        chain.append((i, j))
    return chain[::-1]


def split_lines(text: str) -> list[str]:
    r"""
    Return the lines of a text, each with its "\n"; the last may have none.

    >>> split_lines("a\nb")
    ['a\n', 'b']
    """
    *lines, rest = text.split("\n")  # not splitlines(): it ends lines at other characters too
    return [f"{line}\n" for line in lines] + [rest] * bool(rest)


def compare_lines(
    old: Sequence[str], new: Sequence[str], numbers: tuple[int, int], context: int = 3
) -> TextDiff:
    r"""
    Return the differences of two texts, given as lines that end in "\n".

    Args:
        numbers: Numbers of the old and of the new version.
        context: Number of equal lines before and after a difference.

    Cost: 0.1 s per 20,000 lines; repeated lines add some seconds at most.

    >>> compare_lines(["a\n", "b\n"], ["a\n", "c\n"], (1, 2)).hunks[0].lines
    (' a', '-b', '+c')
    """
    comparison = _Comparison(old, new)
    hunks = []
    added = removed = 0
    for group in _Runs(comparison.runs).get_grouped_opcodes(context):
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += _marked(" ", old[i1:i2])
                continue
            removed, added = removed + i2 - i1, added + j2 - j1
            lines += _marked("-", old[i1:i2]) + _marked("+", new[j1:j2])
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        hunks.append(Hunk(i1 + (i2 > i1), i2 - i1, j1 + (j2 > j1), j2 - j1, tuple(lines)))
    return TextDiff(*numbers, tuple(hunks), added, removed, comparison.is_exact)


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    """Return lines as `diff -u` writes them."""
    found = [mark + line.removesuffix("\n") for line in lines]
    if lines and not lines[-1].endswith("\n"):
        found.append(NO_END)
    return found
