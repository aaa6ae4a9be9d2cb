"""Lines that differ: what a diff says leads from one text to the other, in bounded work."""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.text import differences
from memdb.text.differences import NO_END, compare_lines, split_lines

if TYPE_CHECKING:
    from pathlib import Path

    from memdb.models.reports import TextDiff

TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x\r\n", "\u2028\n"]), max_size=30)
ENDS = st.sampled_from(["", "a", "b"])
MANY = 20_000
NUMBERED = [f"line {number}\n" for number in range(MANY)]


def applied(old: str, found: TextDiff) -> str:
    """Return what a diff makes of the old text."""
    before, lines, at = split_lines(old), [], 0
    for hunk in found.hunks:
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        lines += before[at:start]
        assert hunk.new_start == len(lines) + (hunk.new_count > 0)
        at = start + hunk.old_count
        is_new = False
        for line in hunk.lines:
            if line != NO_END:
                is_new = line[0] in " +"
                lines += [f"{line[1:]}\n"] * is_new
            elif is_new:
                lines[-1] = lines[-1][:-1]
    return "".join([*lines, *before[at:]])


def compared(old: str, new: str) -> TextDiff:
    """Return the diff of two texts."""
    return compare_lines(split_lines(old), split_lines(new), (1, 2))


@given(TEXTS, TEXTS, ENDS, ENDS)
def test_a_diff_leads_to_the_new_text(
    old: list[str], new: list[str], old_end: str, new_end: str
) -> None:
    """Whatever repeats, and whether the last line ends."""
    before, after = "".join(old) + old_end, "".join(new) + new_end

    found = compared(before, after)

    assert applied(before, found) == after
    assert (found.hunks == ()) == (before == after)
    assert found.is_exact


@given(TEXTS, TEXTS, st.integers(0, 40))
def test_a_stopped_comparison_leads_there_too(old: list[str], new: list[str], most: int) -> None:
    """With fewer pairs than the texts have."""
    before, after = "".join(old), "".join(new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differences, "MAX_PAIRS", most)
        assert applied(before, compared(before, after)) == after


@pytest.mark.parametrize(("old", "new"), [("a\nb\nc", "a\nc\n"), ("", "x"), ("x\n", "")])
def test_patch_reads_what_is_printed(tmp_path: Path, old: str, new: str) -> None:
    """The program `patch` makes the new text of the old one."""
    path = tmp_path / "text"
    path.write_text(old)
    lines = "".join(f"{line}\n" for line in compared(old, new).lines())
    try:
        subprocess.run(
            ["patch", "-s", "--posix", str(path)], input=lines, text=True, check=True, timeout=60
        )
    except FileNotFoundError:
        pytest.skip("no program `patch`")

    assert (path.read_text() if path.exists() else "") == new


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (NUMBERED, [f"x{one}" if n % 2 else one for n, one in enumerate(NUMBERED)], MANY // 2),
        (NUMBERED, NUMBERED[:500] + NUMBERED[501:], 1),
        (NUMBERED, NUMBERED[::-1], MANY - 1),
    ],
    ids=["every second line", "one line", "backwards"],
)
def test_long_texts_are_compared_whole(old: list[str], new: list[str], changed: int) -> None:
    """Lines that stand once in both make it exact, however many there are."""
    found = compare_lines(old, new, (1, 2))

    assert (found.is_exact, found.removed) == (True, changed)


@pytest.mark.timeout(60)
def test_texts_that_repeat_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more pairs are compared than MAX_PAIRS, and the answer says that it is not exact."""
    chosen = random.Random(5)
    old, new = ([chosen.choice(["a\n", "b\n"]) for _ in range(MANY)] for _ in range(2))
    spent: list[int] = []
    search = differences._Search.find_longest_match

    def counted(self: differences._Search, alo: int, ahi: int, blo: int, bhi: int) -> object:
        before = self.left
        try:
            return search(self, alo, ahi, blo, bhi)
        finally:
            spent.append(before - self.left if self.left >= 0 else 0)

    monkeypatch.setattr(differences._Search, "find_longest_match", counted)

    found = compare_lines(old, new, (1, 2))

    assert not found.is_exact
    assert sum(spent) <= differences.MAX_PAIRS
    assert applied("".join(old), found) == "".join(new)
