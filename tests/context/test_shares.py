"""How a budget is divided: one module says it, and what one block leaves another one gets."""

import ast
from collections.abc import Iterable
from pathlib import Path

from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb.context
from memdb.api.database import MemDB
from memdb.context.shares import PINNED, cost, percent_of, share_entries
from memdb.models.record import Record

FOLDER = Path(memdb.context.__file__).parent


class Line(Record):
    """A line of a block."""

    name: str
    tokens: int


def fitting(lines: Iterable[Line], room: int) -> list[Line]:
    """Return the first lines that fit."""
    chosen = []
    for line in lines:
        if line.tokens <= room:
            chosen.append(line)
            room -= line.tokens
    return chosen


def lines(name: str, costs: list[int]) -> list[Line]:
    """Return a line for each of *costs*."""
    return [Line(f"{name} {place}", tokens) for place, tokens in enumerate(costs)]


@each("path", sorted(FOLDER.glob("*.py")))
def test_only_one_module_divides_a_budget(path: Path) -> None:
    """A hundredth or a thousandth elsewhere would be a share that nobody finds."""
    found = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.FloorDiv)
        and isinstance(node.right, ast.Constant)
        and node.right.value in (100, 1000)
    ]

    assert path.stem == "shares" or not found


COSTS = st.lists(st.integers(1, 40), max_size=8)


@given(COSTS, COSTS, COSTS, st.integers(0, 300))
def test_entries_get_all_of_their_room(
    pinned: list[int], matching: list[int], others: list[int], room: int
) -> None:
    """Never more, each once, and no line that would still fit is left out."""
    every = lines("pinned", pinned), lines("matching", matching), lines("others", others)
    shown = share_entries(*every, room, fitting, is_asked=bool(matching))
    left = room - cost(shown)
    hidden = [line for some in every for line in some if line not in shown]

    assert left >= 0
    assert len(shown) == len({line.name for line in shown})
    assert all(line.tokens > left for line in hidden)


@given(COSTS, COSTS, st.integers(0, 300))
def test_what_matches_keeps_its_share(pinned: list[int], matching: list[int], room: int) -> None:
    """However many entries are pinned."""
    every = lines("pinned", pinned), lines("matching", matching)
    shown = share_entries(*every, [], room, fitting, is_asked=True)
    least = room - percent_of(room, PINNED)

    assert bool(fitting(every[1], least)) <= any(line in shown for line in every[1])


def test_a_context_shows_what_matches_beside_many_pinned_entries(db: MemDB) -> None:
    """As a profile does: pinned ones took all of it."""
    ann = db.scope("ann")
    for number in range(100):
        ann.remember(f"Ann has the trait w{number}a w{number}b w{number}c.", category="profile")
    ann.remember("The ferry leaves at nine.", category="events")
    chat = ann.session("trip")
    chat.extend([memdb.NewMessage("user", f"Line {number} of the talk.") for number in range(200)])
    profile = ann.profile(400, ["When does the ferry leave?"])
    window = chat.context(2_000, "When does the ferry leave?")
    texts = [piece.text for piece in window.pieces if piece.kind == "entry"]

    assert "The ferry leaves at nine." in profile.text
    assert "(events) The ferry leaves at nine." in texts
    assert texts[0].startswith("(profile)")
