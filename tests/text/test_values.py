"""Field paths and filters of JSON values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import InvalidInput
from memdb.text.validate import json_value
from memdb.text.values import OPERATORS, Filter, parse_fields, parse_path, texts_of, values_at

DOCUMENT = {
    "title": "Trip",
    "parts": [{"text": "one", "n": 1}, {"text": "two", "n": 2}, {"n": 3}, "loose"],
    "meta": {"tags": ["x", "y"], "deep": {"er": [["a"], ["b", "c"]]}},
    "blank": "  ",
    "": "empty",
    "number": 5,
}


@each(
    "path, found",
    [
        ("title", ["Trip"]),
        ("$", [DOCUMENT]),
        ("parts[*].text", ["one", "two"]),
        ("parts[0].text", ["one"]),
        ("parts[3]", ["loose"]),
        ("parts[9]", []),
        ("parts.text", []),
        ("title[0]", []),
        ("title.more", []),
        ("meta.tags[*]", ["x", "y"]),
        ("meta.tags", [["x", "y"]]),
        ("meta.deep.er[*][*]", ["a", "b", "c"]),
        ("meta.deep.er[1][0]", ["b"]),
        ("absent", []),
        ("absent[*].x", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[Any]) -> None:
    """Names, elements and each element; nothing where there is no such place."""
    assert [*values_at(DOCUMENT, parse_path(path, "index"))] == found


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (["title"], ["Trip"]),
        (["parts[*].text", "title"], ["one", "two", "Trip"]),
        (["meta"], ["x\ny\na\nb\nc"]),
        (["blank", "number", "absent"], []),
        (["parts[*]"], ["one", "two", "loose"]),
        (["$"], ["Trip\none\ntwo\nloose\nx\ny\na\nb\nc\n  \nempty"]),
    ],
)
def test_the_texts_of_fields(fields: list[str], texts: list[str]) -> None:
    """Each value at a path is one text; what says nothing is left out."""
    assert texts_of(DOCUMENT, fields) == texts


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "a[-1]", "a]", "[0]b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    """The error shows the form."""
    with pytest.raises(InvalidInput, match="names joined by dots"):
        parse_path(path, "index")


def test_index_is_a_flag_or_paths() -> None:
    """True is the whole value, False and [] nothing; a path counts once."""
    assert parse_fields(True, "index") == ("$",)
    assert parse_fields(False, "index") is parse_fields([], "index") is None
    assert parse_fields(["a", "b", "a"], "index") == ("a", "b")


SCALARS = [None, True, False, 0, 1, 1.5, -2, 2**60, "", "a", "b", "1"]


@each("operator", OPERATORS)
@each("wanted", [*SCALARS, [1, "a"], {"x": 1}])
def test_operators_agree_with_json(operator: str, wanted: Any) -> None:
    """Types are never mixed: true is not 1, and no number is above a text."""
    if operator == "$in":
        wanted = [wanted]
    try:
        condition = Filter({"f": {operator: wanted}})
    except InvalidInput:
        assert operator in ("$gt", "$gte", "$lt", "$lte")
        assert not isinstance(wanted, (int, float, str)) or isinstance(wanted, bool)
        return

    def kind(value: Any) -> str:
        return (
            "bool" if isinstance(value, bool) else "n" if isinstance(value, (int, float)) else "s"
        )

    for value in [*SCALARS, [1, "a"], {"x": 1}]:
        same = json.dumps(value) == json.dumps(wanted[0] if operator == "$in" else wanted)
        if operator in ("$eq", "$in"):
            expected = same
        elif operator == "$ne":
            expected = not same
        else:
            ordered = isinstance(value, (int, float, str)) and kind(value) == kind(wanted) != "bool"
            test = {"$gt": "__gt__", "$gte": "__ge__", "$lt": "__lt__", "$lte": "__le__"}[operator]
            left = value if isinstance(value, str) or not ordered else float(value)
            right = wanted if isinstance(wanted, str) or not ordered else float(wanted)
            expected = ordered and getattr(left, test)(right)
        assert condition.matches({"f": value}) == expected, value
    assert condition.matches({}) == condition.matches({"f": None})
    assert condition.matches("no object") == condition.matches({"f": None})


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(), max_size=3))
def test_a_value_matches_its_own_fields(value: dict[str, int]) -> None:
    """By equality and by both bounds; every condition has to hold."""
    plain = {key: number for key, number in value.items() if key.isalnum() or key == "_"}
    assert Filter(plain).matches(value)
    assert Filter({key: {"$gte": number, "$lte": number} for key, number in plain.items()}).matches(
        value
    )
    for key, number in plain.items():
        assert not Filter({**plain, key: number + 1}).matches(value)


def test_an_object_without_operators_is_a_value() -> None:
    """It is compared as a whole."""
    assert Filter({"a": {"b": 1}}).matches({"a": {"b": 1}})
    assert not Filter({"a": {"b": 1}}).matches({"a": {"b": 1, "c": 2}})
    assert Filter({"a": {"b": (1, 2)}}).matches({"a": {"b": [1, 2]}})
    assert not Filter({"a": [True]}).matches({"a": [1]})


@given(st.text(), st.dictionaries(st.text(max_size=3), st.text(), max_size=3))
def test_the_text_of_a_match_may_match(wanted: str, more: dict[str, str]) -> None:
    """What is seen in the JSON text never contradicts what is seen in the value."""
    try:
        text = json_value({**more, "f": wanted}, "value")
    except InvalidInput:
        return
    assert text is not None
    value = json.loads(text)  # as a file holds it
    condition = Filter({"f": value["f"]})
    assert condition.matches(value)
    assert condition.may_match(text)
    assert Filter({"n": {"$gt": 1}}).may_match("{}")


NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.integers(-9, 9).map(float))


@given(NUMBERS, st.sampled_from((int, float, lambda value: value)))
def test_the_number_of_a_match_may_match(wanted: float, form: Any) -> None:
    """Whole numbers have two forms, 5 and 5.0, and large ones more."""
    try:
        stored = form(wanted)
        text = json_value({"a": [stored], "f": stored}, "value")
    except (InvalidInput, ValueError, OverflowError):
        return
    assert text is not None
    for condition in (Filter({"f": wanted}), Filter({"a[*]": wanted}), Filter({"a[0]": wanted})):
        assert condition.may_match(text) or not condition.matches(json.loads(text))
