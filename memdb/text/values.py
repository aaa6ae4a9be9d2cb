"""
JSON values: the texts at field paths, and filters that compare fields.

A field path is names joined by dots, with `[2]` for an element and `[*]` for each
element of a list: "title", "meta.tags[*]", "parts[0].text". "$" is the whole value.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.record import MAX_EXACT_INT
from memdb.text.resources import compiled
from memdb.text.validate import text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Step = str | int | None  # a name, the place of an element, each element
    Test = tuple[tuple[Step, ...], str, Any]

WHOLE = "$"
MAX_FIELDS = 64
MAX_FILTERS = 64

# Bytes whose beginning holds NUL are no text: what looks like a key there is an accident.
HEAD_BYTES = 4096

_PART = r"([^.\[\]]*)((?:\[(?:\*|\d{1,9})\])*)\Z"
_BEFORE_TEXT = "[\0-\x1f\x7f\ufffd]+."
_INDEX = r"\[(\*|\d+)\]"


def is_binary(data: bytes) -> bool:
    """Return whether bytes are binary, by their beginning; UTF-16 counts as binary."""
    return b"\0" in data[:HEAD_BYTES]


def text_in(data: bytes) -> str:
    r"""
    Return the text of bytes; for binary ones, each text also without its first letter.

    That letter may be the text's length, which formats such as MessagePack write before it.

    >>> text_in(b"\0\xd9CZoe lives in Bergen").split("\n")[1].split()
    ['Zoe', 'lives', 'in', 'Bergen']
    """
    text = data.decode(errors="replace")
    return f"{text}\n{compiled(_BEFORE_TEXT).sub(' ', text)}" if is_binary(data) else text


def parse_path(path: object, field: str) -> tuple[Step, ...]:
    """
    Return the steps of a field path.

    Raises:
        InvalidInput: *path* is not text, or not of the form above.

    >>> parse_path("parts[*].text", "index"), parse_path("$", "index")
    (('parts', None, 'text'), ())
    """
    text = text_value(path, field)
    if text == WHOLE:
        return ()
    steps: list[Step] = []
    for place, part in enumerate(text.split(".")):
        found = compiled(_PART).match(part)
        if found is None or not part or (place and not found[1]):
            raise InvalidInput(
                f"{field} contains the path {text[:64]!r}: write names joined by dots, with [0] or "
                "[*] for elements, or '$' for the whole value"
            )
        if found[1]:
            steps.append(found[1])
        steps += [
            None if index == "*" else int(index) for index in compiled(_INDEX).findall(found[2])
        ]
    return tuple(steps)


def parse_fields(fields: object, field: str) -> tuple[str, ...] | None:
    """
    Return the field paths of an `index` argument, None for False and for an empty list.

    Raises:
        InvalidInput: *fields* is not a bool or a list, contains something other than a path, or
            more than `MAX_FIELDS` paths.
    """
    if isinstance(fields, bool):
        return (WHOLE,) if fields else None
    if not isinstance(fields, (list, tuple)):
        raise InvalidInput(f"{field} is {type(fields).__name__}: give a bool or a list of paths")
    if len(fields) > MAX_FIELDS:
        raise InvalidInput(f"{field} has {len(fields)} paths: give at most {MAX_FIELDS}")
    for path in fields:
        parse_path(path, field)
    return tuple(dict.fromkeys(fields)) or None


def texts_of(value: object, fields: Sequence[str]) -> list[str]:
    """
    Return the texts at some field paths of a value, in order.

    A path that ends at a list or object gives the texts in it, joined by line ends.
    Numbers and keys are not texts; blank texts are left out.

    >>> texts_of({"a": ["x"], "n": 1}, ["$"]), texts_of({"a": ["x", "y"]}, ["a[*]"])
    (['x'], ['x', 'y'])
    """
    found = [
        "\n".join(_strings(each))
        for path in fields
        for each in values_at(value, parse_path(path, "index"))
    ]
    return [text for text in found if text.strip()]


def values_at(value: object, steps: Sequence[Step]) -> Iterator[Any]:
    """Yield the values at a path in *value*; nothing if the path does not exist."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if isinstance(value, dict) and step in value:
            yield from values_at(value[step], rest)
    elif isinstance(value, (list, tuple)):
        chosen = value if step is None else value[step : step + 1]
        for each in chosen:
            yield from values_at(each, rest)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)


def words_of(value: object) -> Iterator[str]:
    """
    Yield all content in the JSON text of a value: texts, numbers, names of fields.

    >>> [*words_of({"pin": [1234, None, "x"]})]
    ['pin', '1234', 'x']
    """
    if isinstance(value, dict):
        for name, each in value.items():
            yield str(name)
            yield from words_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from words_of(each)
    elif value is not None:
        yield str(value)


class Filter:
    """
    A condition on a JSON value: fields that equal, or compare with, given values.

    >>> cheap = Filter({"kind": "book", "price": {"$lt": 10}})
    >>> cheap.matches({"kind": "book", "price": 9.5}), cheap.matches({"kind": "book"})
    (True, False)
    """

    __slots__ = ("_needles", "_tests")

    def __init__(self, where: Mapping[str, Any], field: str = "where") -> None:
        """
        Check *where*: by field path a value, or an object of operators and their values.

        Raises:
            InvalidInput: *where* is not a dict, or contains an unknown operator, an invalid path, a
                value that cannot be compared, or more than `MAX_FILTERS` conditions.
        """
        if not isinstance(where, dict):
            raise InvalidInput(f"{field} is {type(where).__name__}: give a dict of fields")
        tests: list[Test] = []
        for path, wanted in where.items():
            steps = parse_path(path, field)
            name = f"{field}[{path!r}]"
            if isinstance(wanted, dict) and any(
                isinstance(key, str) and key.startswith("$") for key in wanted
            ):
                tests += [
                    (steps, operator, _operand(operator, value, name))
                    for operator, value in wanted.items()
                ]
            else:
                tests.append((steps, "$eq", wanted))
        if len(tests) > MAX_FILTERS:
            raise InvalidInput(f"{field} has {len(tests)} conditions: give at most {MAX_FILTERS}")
        self._tests = [_compiled(*test) for test in tests]
        self._needles = [needle for test in tests if (needle := _needle(*test)) is not None]

    def matches(self, value: object) -> bool:
        """Return whether all conditions are true; an absent field counts as null."""
        return all(test(value) for test in self._tests)

    @property
    def needle(self) -> str:
        """The longest text in the JSON of every match; "" if none is known."""
        return max(self._needles, key=len, default="")

    def may_match(self, text: str) -> bool:
        """
        Return False if the JSON text of a value shows that it cannot match.

        The text must come from `json_value`: a text that a match must contain is in it. This avoids
        parsing values that a search for texts skips, which takes 20 times as long.
        """
        return all(needle in text for needle in self._needles)


def _compiled(steps: tuple[Step, ...], operator: str, wanted: object) -> Callable[[Any], bool]:
    """Return a function that tests a value."""
    compare = OPERATORS[operator]

    def test_name(value: Any) -> bool:
        for step in steps:
            if not isinstance(value, dict) or step not in value:
                return compare(None, wanted)
            value = value[step]
        return compare(value, wanted)

    def test_each(value: Any) -> bool:
        found = [*values_at(value, steps)] or [None]
        return any(compare(each, wanted) for each in found)

    return test_name if all(isinstance(step, str) for step in steps) else test_each


def _needle(steps: tuple[Step, ...], operator: str, wanted: object) -> str | None:
    """Return a text in the JSON of each value that passes a test; None if unknown."""
    if operator != "$eq" or not isinstance(wanted, (str, int, float)):
        return None
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        if not 0 < abs(wanted) < MAX_EXACT_INT:
            return None  # -0.0 is 0, and a larger number has several forms
        wanted = int(wanted) if wanted == int(wanted) else wanted  # 5.0 begins as 5 does
    text = json.dumps(wanted, ensure_ascii=False)
    name = steps[-1] if steps else None
    needle = f"{json.dumps(name, ensure_ascii=False)}:{text}" if isinstance(name, str) else text
    try:
        needle.encode()
    except UnicodeEncodeError:  # half a character: no value has it, and SQLite takes no such text
        return None
    return needle


def _operand(operator: str, value: object, field: str) -> Any:
    """Return the operand of an operator, if it is valid."""
    if operator not in OPERATORS:
        raise InvalidInput(f"{field} has the operator {operator!r}: use {', '.join(OPERATORS)}")
    if operator == "$in" and not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{field} $in is {type(value).__name__}: give a list of values")
    if operator in _ORDERING and _class(value) is None:
        raise InvalidInput(f"{field} {operator} is {value!r:.64}: give a number or a text")
    return value


def _class(value: object) -> type | None:
    """Return the class of what can be ordered, None for what cannot: JSON has no order of types."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float
    return str if isinstance(value, str) else None


def _equal(left: object, right: object) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, tuple) or isinstance(right, tuple):
        left, right = _listed(left), _listed(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return left == right


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: _class(left) is _class(right) is not None and test(left, right)


_ORDERING: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": _ordered(lambda left, right: left > right),
    "$gte": _ordered(lambda left, right: left >= right),
    "$lt": _ordered(lambda left, right: left < right),
    "$lte": _ordered(lambda left, right: left <= right),
}

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$ne": lambda left, right: not _equal(left, right),
    **_ORDERING,
    "$in": lambda left, right: any(_equal(left, each) for each in right),
}
