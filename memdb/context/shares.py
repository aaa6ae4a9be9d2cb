"""
Shares of a token budget: what each block of a context may take, and which block gets the rest.

A block takes its share of what the blocks above it left, in percent and rounded down. Shares with a
name that begins with `context_` are settings.

| block | share | at least | what it does not need goes to |
|---|---|---|---|
| system text | 100 | all of it, or `TooLarge` | the blocks below |
| entries | `ENTRIES`, at most `context_known_tokens` | nothing | hits |
| hits of the question | `context_recall_percent` | nothing | newest messages |
| newest messages | `context_tail_percent` | the newest turn | summaries |
| summaries | 100 | the line that names a gap | newest messages |

The newest turn comes before the entries: they get nothing that it needs. If the whole session fits,
there are no summaries, and the entries may take what the session leaves (`BESIDE_HITS` of it, if
there are hits). Of the entries the pinned ones have a share, and of the summaries the far ones.

A profile has a budget of its own. All of it is for entries, see `share_entries`.
"""

from __future__ import annotations

from itertools import chain, tee
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ENTRIES = 20

PINNED = 60
"""Of the entries, for the pinned ones, if others match the question."""

BESIDE_HITS = 50

FAR = 25
"""
Of the summaries, for those of depth 2 and more. In that part nearer ones are shown in few words.

Source: docs/seeds/flowcraft.md (0.3, 0.1).
"""

SPARE = 5
"""Of what the entries leave: so much the hits may leave empty before the newest messages get it."""

STEADY = 90
"""Of the longest tail: so much a tail must have to begin at a coarser place, and so stay longer."""

CUT_TURN = 50
"""Of what the entries leave, for a newest turn of tool results that does not fit: only its end."""

LEAST_LEFT_TOKENS = 24
"""Room for the newest message after the system text."""


class Counted(Protocol):
    """A line with its tokens."""

    @property
    def tokens(self) -> int:
        """Its tokens."""


Line = TypeVar("Line", bound=Counted)


def percent_of(tokens: int, percent: int) -> int:
    """
    Return a share of *tokens*, rounded down.

    >>> percent_of(999, 50)
    499
    """
    return tokens * percent // 100


def cost(lines: Iterable[Counted]) -> int:
    """Return the tokens of all *lines*."""
    return sum(line.tokens for line in lines)


def share_entries(
    pinned: Iterable[Line],
    matching: Iterable[Line],
    others: Iterable[Line],
    room: int,
    fit: Callable[[Iterable[Line], int], list[Line]],
    *,
    is_asked: bool,
) -> list[Line]:
    """
    Return the lines of entries that are shown: pinned ones, matching ones, then what is left.

    Pinned entries get `PINNED` of *room* first, or all of it without a question. Matching ones get
    the rest. What they leave goes to the other pinned entries, then to *others*.

    Args:
        fit: Returns those of some lines that fit a number of tokens; it may read only the first.
        is_asked: Whether anything may match.
    """
    once, again = tee(pinned)
    first = fit(once, percent_of(room, PINNED) if is_asked else room)
    second = fit(matching, room - cost(first))
    taken = {*map(id, first)}
    rest = (line for line in again if id(line) not in taken)
    return [*first, *second, *fit(chain(rest, others), room - cost(first) - cost(second))]
