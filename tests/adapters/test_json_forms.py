"""JSON values that clients give: their text, and the form that a file keeps."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import pytest
from cases import each

from memdb.adapters.json_forms import MAX_DEPTH, is_plain, json_of, pack_value, unpack_value
from memdb.errors import InvalidInput
from memdb.text.validate import json_value


def nested(levels: int) -> Any:
    """Return lists in each other."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@each("value", [
    1, None, "é", "🙂", "NaN", "Infinity", "\\u0000", "\\ud800", {"a": [True, 1.5]}, {"$json": 1},
    {"$json": "1", "b": 2}, "\0", "a\ud800", {"\0": 1}, {"\udfff": "\0"}, [math.inf], -math.inf,
    {"$json": "1"}, {"$json": "["}, {"$json": {"$json": "1"}},
])  # fmt: skip
def test_a_packed_value_can_be_stored_and_comes_back(value: Any) -> None:
    """As it was; what a file can hold stands in it as it is, and so is searched."""
    packed = pack_value(value, "value")
    stored = json_value(packed, "value")
    again = json.loads(stored) if stored else None
    assert unpack_value(again) == value
    assert (packed == value) == (packed is value)


def test_not_a_number_comes_back() -> None:
    """NaN is equal to nothing."""
    (found,) = unpack_value(pack_value([math.nan], "value"))
    assert math.isnan(found)


def test_what_only_looks_odd_is_plain() -> None:
    """Words and emoji; a packed row is not searched."""
    for value in ("NaN", "🙂", "\\u0000", "Infinity War", [1, "\ud7ff"]):
        assert is_plain(value, json.dumps(value)), value
    for value in ("\0", "\ud800", math.nan, {"a\0": 1}, "\ud83d\ude42"):
        assert not is_plain(value, json.dumps(value)), value


@pytest.mark.parametrize("value", [object(), {1}, b"a", 1j, {(1, 2): 3}, [object()]])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    """The error names the field."""
    with pytest.raises(InvalidInput, match=r"^state has no JSON form"):
        pack_value(value, "state")


def test_what_is_nested_too_deep_is_refused() -> None:
    """Also what Python's own writer gives up at, and what holds itself."""
    assert unpack_value(pack_value(nested(MAX_DEPTH), "v")) == nested(MAX_DEPTH)
    assert json_of(nested(200), "v", 200)
    endless: list[Any] = []
    endless.append(endless)
    for value in (nested(MAX_DEPTH + 2), nested(sys.getrecursionlimit() * 2), endless):
        with pytest.raises(InvalidInput, match=r"^v (is nested over 170 deep|has no JSON form)"):
            json_of(value, "v")


@pytest.mark.parametrize("value", [5, None, [1], {"$json": 1}, {"$json": "["}, {"a": 1}])
def test_what_others_stored_is_as_it_is(value: Any) -> None:
    """Only what `pack_value` made is unpacked."""
    assert unpack_value(value) == value
