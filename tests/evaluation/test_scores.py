"""Counting, by values worked out by hand."""

from math import log2

import pytest

from memdb.evaluation import measuring


def test_measures_of_an_answer_by_hand():
    """Two of three pieces of evidence, at places 2 and 6."""
    found = measuring.measure(["x", "a", "x2", "x3", "x4", "b", "x5"], {"a", "b", "c"})

    ideal = 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert found == {
        "R@1": 0.0,
        "R@5": pytest.approx(1 / 3),
        "R@10": pytest.approx(2 / 3),
        "R@20": pytest.approx(2 / 3),
        "any@1": 0.0,
        "any@5": 1.0,
        "any@10": 1.0,
        "any@20": 1.0,
        "all@1": 0.0,
        "all@5": 0.0,
        "all@10": 0.0,
        "all@20": 0.0,
        "nDCG@10": pytest.approx((1 / log2(3) + 1 / log2(7)) / ideal),
        "MRR": 0.5,
    }


def test_a_perfect_answer_has_ones_and_an_empty_one_zeros():
    """Also with one piece of evidence and one hit."""
    assert set(measuring.measure(["a"], {"a"}).values()) == {1.0}
    assert set(measuring.measure([], {"a"}).values()) == {0.0}


def test_more_evidence_than_ten_places_can_be_perfect_by_ndcg():
    """The ideal is what ten places can hold."""
    ranked = [str(number) for number in range(20)]

    assert measuring.measure(ranked, set(ranked))["nDCG@10"] == pytest.approx(1.0)


def test_places_after_the_twentieth_do_not_count():
    """MRR is that of the first 20."""
    assert measuring.measure(["x"] * 20 + ["a"], {"a"})["MRR"] == 0.0


def test_intervals_hold_the_mean_and_are_the_same_each_time():
    """The seed is fixed; equal values have no width."""
    rows = [{"R@10": float(number % 2), "MRR": 0.5} for number in range(100)]

    found = measuring.intervals(rows, ("R@10", "MRR"))

    assert found == measuring.intervals(rows, ("R@10", "MRR"))
    assert found["MRR"] == (0.5, 0.5)
    assert 0.35 < found["R@10"][0] < 0.5 < found["R@10"][1] < 0.65


@pytest.mark.parametrize(("share", "value"), [(0.5, 51.0), (0.99, 100.0), (1.0, 100.0)])
def test_quantiles(share, value):
    """Of the numbers from 1 to 100."""
    assert measuring.quantile([float(number) for number in range(1, 101)], share) == value
