"""Units: which neighbouring messages must never be parted."""

import itertools

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.conversations.tool_calls import (
    has_open_call,
    open_calls,
    orphans,
    units,
    unknown_answers,
)
from memdb.models.messages import Message


def message(seq: int, role: str, parts: list[object] | None = None) -> Message:
    """Return a message that was never stored."""
    return Message(
        seq, role, None, "x", parts, 1, "estimate", None, 0, None, "trip", seq, f"u{seq}"
    )


def run(notes: str) -> list[Message]:
    """
    Return a run of messages, a word for each.

    `u` user, `s` system, `a` assistant, `a:x,y` an assistant that calls x and
    y, `t` a tool without ids, `t:x` a tool that answers x.
    """
    made = []
    for seq, note in enumerate(notes.split(), start=1):
        kind, _, ids = note.partition(":")
        role = {"u": "user", "s": "system", "a": "assistant", "t": "tool"}[kind]
        made.append(
            message(seq, role, [part(role, one) for one in ids.split(",")] if ids else None)
        )
    return made


def part(role: str, call_id: str) -> dict[str, object]:
    """Return a call of an assistant, or a result of anybody else."""
    if role == "assistant":
        return {"type": "tool_call", "id": call_id, "name": "f", "arguments": "{}"}
    return {"type": "tool_result", "tool_call_id": call_id, "content": "ok"}


def seqs(found: list[list[Message]]) -> list[list[int]]:
    """Return the seqs of each unit."""
    return [[one.seq for one in unit] for unit in found]


@each(
    "notes, expected",
    [
        pytest.param("", [], id="nothing"),
        pytest.param("u", [[1]], id="one"),
        pytest.param("s u a u", [[1], [2], [3], [4]], id="no tools"),
        pytest.param("u a:x t:x a", [[1], [2, 3], [4]], id="a pair"),
        pytest.param("a:x,y t:x t:y u", [[1, 2, 3], [4]], id="parallel calls"),
        pytest.param("a:x,y t:x,y u", [[1, 2], [3]], id="both answers in one message"),
        pytest.param("a:x,y t:x u", [[1, 2], [3]], id="one of two answered"),
        pytest.param("a:x t:x t:x u", [[1, 2, 3], [4]], id="two answers to one call"),
        pytest.param("a:x u s t:x u", [[1, 2, 3, 4], [5]], id="others between"),
        pytest.param("a:x t:x u t:x u", [[1, 2, 3, 4], [5]], id="until the last answer"),
        pytest.param("a:x a:y t:x t:y u", [[1, 2, 3, 4], [5]], id="crossed"),
        pytest.param("a:x a:y t:y t:x u", [[1, 2, 3, 4], [5]], id="nested"),
        pytest.param("a:x a:y t:y u", [[1], [2, 3], [4]], id="an open call before"),
        pytest.param("a:x t:x a:x t:x", [[1, 2], [3, 4]], id="an id used again"),
        pytest.param("a:x a:x t:x", [[1], [2, 3]], id="the latest call is answered"),
        pytest.param("t:x a:x", [[1], [2]], id="an answer before its call"),
        pytest.param("a t u", [[1, 2], [3]], id="without ids"),
        pytest.param("a t t u", [[1, 2, 3], [4]], id="several without ids"),
        pytest.param("a:x t:x t u", [[1, 2, 3], [4]], id="without id after an answer"),
        pytest.param("a t:z u", [[1, 2], [3]], id="unknown id after an assistant"),
        pytest.param("t t u", [[1, 2], [3]], id="tools alone"),
        pytest.param("u t:z t u", [[1], [2, 3], [4]], id="a user is never joined"),
        pytest.param("s t u", [[1], [2], [3]], id="nor a system message"),
        pytest.param("a:x u t u t:x", [[1, 2, 3, 4, 5]], id="a lone tool inside a unit"),
    ],
)
def test_messages_that_belong_together(notes: str, expected: list[list[int]]) -> None:
    """A call, its answers and what is between them; every other message alone."""
    assert seqs(units(run(notes))) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            message(1, "user", [part("assistant", "x")]),
            message(2, "tool", [part("tool", "x")]),
            id="a user does not call",
        ),
        pytest.param(
            message(1, "assistant", [part("assistant", "x")]),
            message(2, "user", [part("tool", "x")]),
            id="a user does not answer",
        ),
        pytest.param(
            message(1, "user", ["x", None, {"type": "tool_call"}]),
            message(2, "tool", [7, {"type": "tool_result", "tool_call_id": None}]),
            id="odd parts",
        ),
    ],
)
def test_parts_of_other_roles_join_nothing(first: Message, second: Message) -> None:
    """Only assistants call and only tools answer."""
    assert seqs(units([first, second])) == [[1], [2]]


def test_an_empty_id_matches_nothing() -> None:
    """Two calls with the id "" would else be one."""
    calls = [message(1, "assistant", [part("assistant", "")]), message(2, "user")]

    assert seqs(units([*calls, message(3, "tool", [part("tool", "")])])) == [[1], [2], [3]]
    assert open_calls(calls) == set()


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param("u a", set(), id="no call"),
        pytest.param("a:x t:x", set(), id="answered"),
        pytest.param("a:x,y t:x", {"y"}, id="one of two"),
        pytest.param("t:x a:x", {"x"}, id="answered too early"),
        pytest.param("a:x t", {"x"}, id="a tool without id answers nothing"),
        pytest.param("a:x t:x a:x", {"x"}, id="the second use is open"),
        pytest.param("a:x a:x t:x", {"x"}, id="the first use is open"),
    ],
)
def test_calls_that_nothing_answers(notes: str, expected: set[str]) -> None:
    """By id; one unanswered use of it is enough."""
    assert open_calls(run(notes)) == expected
    assert has_open_call(run(notes)) == bool(expected)


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param("u a:x t:x t:z u", {4}, id="5 messages, 4 remain"),
        pytest.param("u a u a:x", set(), id="a call without result stays"),
        pytest.param("u a:x t:x a u", set(), id="a matched pair stays"),
        pytest.param("u a:x,y t:x u", set(), id="two calls, one result"),
        pytest.param("u a u", set(), id="no tools"),
        pytest.param("t:x a:x", {1}, id="an answer before its call"),
        pytest.param("a:x t:z,x", set(), id="one known id of two"),
        pytest.param("a t t", set(), id="without ids behind an assistant"),
        pytest.param("t t a", {1, 2}, id="without ids at the start"),
        pytest.param("a u t", {3}, id="without ids behind a user"),
        pytest.param("a t:z", {2}, id="an unknown id, though in the assistant's unit"),
    ],
)
def test_results_without_their_call(notes: str, expected: set[int]) -> None:
    """Left out of a window, they make it acceptable."""
    assert orphans(run(notes)) == expected


def test_tools_that_answer_unknown_ids_are_found_by_place() -> None:
    """Also where another id of theirs is known."""
    assert unknown_answers(run("t:z a:x t:x t:x,z t u")) == [0, 3]


IDS = st.lists(st.sampled_from(["x", "y", ""]), max_size=2)
NOTES = st.lists(
    st.one_of(
        st.sampled_from(["u", "s", "a", "t"]),
        IDS.map(lambda ids: "a:" + ",".join(ids)),
        IDS.map(lambda ids: "t:" + ",".join(ids)),
    ),
    max_size=14,
).map(" ".join)


def linked(messages: list[Message]) -> list[tuple[int, int]]:
    """Return the seqs of each answer's call and of the answer, found the slow way."""
    pairs = []
    for place, answer in enumerate(messages):
        for given_id in [one["tool_call_id"] for one in parts(answer, "tool")]:
            calls = [
                call.seq
                for call in messages[:place]
                if given_id and given_id in [one["id"] for one in parts(call, "assistant")]
            ]
            pairs += [(max(calls), answer.seq)] if calls else []
    return pairs


def parts(one: Message, role: str) -> list[dict[str, str]]:
    """Return the parts of a message that has the role."""
    return list(one.parts or []) if one.role == role else []


@given(NOTES)
def test_units_agree_with_a_search_of_all_pairs(notes: str) -> None:
    """No cut inside a pair, and one wherever no rule joins two neighbours."""
    messages = run(notes)
    pairs = linked(messages)
    answers = {last for _, last in pairs}
    joined = [
        any(first < two.seq <= last for first, last in pairs)
        or (two.role == "tool" and two.seq not in answers and one.role in ("assistant", "tool"))
        for one, two in itertools.pairwise(messages)
    ]

    found = units(messages)

    assert list(itertools.chain(*found)) == messages
    starts = {unit[0].seq for unit in found}
    assert starts == {1} & {one.seq for one in messages} | {
        place for place, kept in enumerate(joined, start=2) if not kept
    }


@given(NOTES)
def test_without_orphans_every_answer_is_known(notes: str) -> None:
    """Leaving them out is enough, and does not make new ones."""
    messages = run(notes)
    gone = orphans(messages)

    rest = [one for one in messages if one.seq not in gone]

    assert orphans(rest) == set()


@pytest.mark.slow
@pytest.mark.timeout(30)  # as the seconds of comparing each with each are many
def test_units_are_found_in_linear_time() -> None:
    """Many overlapping calls cost no more than as many alone."""
    count = 20_000
    calls = [message(seq, "assistant", [part("assistant", f"c{seq}")]) for seq in range(count)]
    answers = [message(count + seq, "tool", [part("tool", f"c{seq}")]) for seq in range(count)]

    found = units([*calls, *answers])

    assert [len(unit) for unit in found] == [2 * count]
