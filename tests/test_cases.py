"""The helper that walks a table of cases, which must not hide a failure."""

from __future__ import annotations

from typing import Any

import pytest
from cases import each


def failures_of(test: Any, **fixtures: Any) -> str:
    """Return what a test that fails says."""
    with pytest.raises(pytest.fail.Exception) as caught:
        test(**fixtures)
    return str(caught.value)


def test_each_case_that_fails_is_told() -> None:
    """With its id or values, whatever it raised, and the cases behind it run."""
    seen = []

    @each("left, right", [(1, 1), (1, 2), pytest.param(3, 0, id="by zero"), (4, 4)])
    def compare(extra: str, left: int, right: int) -> None:
        seen.append((extra, left, right))
        assert left / right == 1

    told = failures_of(compare, extra="x")

    assert len(seen) == 4
    assert "2 of 4 cases fail" in told
    assert "case 1, 2" in told
    assert "case by zero" in told
    assert "ZeroDivisionError" in told


def test_a_failure_of_pytest_itself_is_told() -> None:
    """Such as an error that was expected and did not come; a skipped case is no failure."""

    @each("value", [1, 2])
    def refuse(value: int) -> None:
        if value == 1:
            pytest.skip("not this one")
        with pytest.raises(ValueError, match="no"):
            pass

    assert "1 of 2 cases fail" in failures_of(refuse)


def test_tables_multiply() -> None:
    """Two tables give every pair, and a failure in one of them is told once."""

    @each("first", [1, 2])
    @each("second", [3, 4])
    def add(first: int, second: int) -> None:
        assert first + second < 6

    told = failures_of(add)

    assert "1 of 2 cases fail" in told
    assert "case 4" in told


def test_a_table_without_cases_fails() -> None:
    """It would test nothing."""

    @each("value", [])
    def never(value: int) -> None:
        raise AssertionError(value)

    assert "0 of 0" in failures_of(never)


@each("value", [[1], [2, 3], ()])
def test_fixtures_and_values_come_together(value: Any, path: str) -> None:
    """A list or a tuple is one value where there is one name."""
    assert isinstance(value, (list, tuple))
    assert path
