"""Namespaces as they are stored, and times to live."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import InvalidInput, TooLarge
from memdb.models.items import labels_of, path_of, path_range, ttl_value

LABEL = st.text(st.characters(exclude_characters="\0\x1f", exclude_categories=["Cs"]), min_size=1)
LABELS = st.lists(LABEL.filter(str.strip), max_size=4).map(tuple)


@given(LABELS)
def test_labels_come_back(labels: tuple[str, ...]) -> None:
    """Whatever characters they hold."""
    assert labels_of(path_of(labels)) == labels


@given(LABELS, LABELS)
def test_a_range_is_a_prefix_of_whole_labels(
    first: tuple[str, ...], other: tuple[str, ...]
) -> None:
    """As SQLite compares texts: by their UTF-8 bytes."""
    low, high = (each.encode() for each in path_range(path_of(first)))
    is_below = other[: len(first)] == first
    assert (low <= path_of(other).encode() < high) == is_below
    assert low <= path_of((*first, *other)).encode() < high


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (None, None),
        (1, 1_000),
        (0.0001, 1),
        (1.5, 1_500),
        (timedelta(minutes=2), 120_000),
        ("45m", 2_700_000),
        ("12h", 43_200_000),
        ("30d", 2_592_000_000),
    ],
    ids=str,
)
def test_a_time_to_live_in_milliseconds(value: object, ms: int | None) -> None:
    """Seconds, a timedelta or a span; at least one millisecond."""
    assert ttl_value(value) == ms


def test_limits_of_a_namespace() -> None:
    """64 labels, 1,024 characters each and 4,096 in all."""
    assert len(labels_of(path_of(["a"] * 64))) == 64
    with pytest.raises(TooLarge, match="labels in prefix"):
        path_of(["a"] * 65, "prefix")
    with pytest.raises(TooLarge, match="characters in prefix"):
        path_of(["a" * 1_024] * 4, "prefix")
    with pytest.raises(InvalidInput, match=r"prefix\[1\]"):
        path_of(["a", ""], "prefix")
