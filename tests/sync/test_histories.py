"""Random histories of three devices end in one memory, whatever happens on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from simulator import run

from memdb.sync import incoming

if TYPE_CHECKING:
    from pathlib import Path

# By seed, the steps of histories: those of a seed that once did not agree are looked at besides.
# 121: a session was begun anew on one device and continued on another; 3268: a fork of a branch
# that two devices made; 4019: an older word of a fact that was superseded meanwhile.
STEPS = {**dict.fromkeys(range(100), 25), 121: 25, 3268: 40, 4019: 40}


def test_three_devices_agree(tmp_path: Path) -> None:
    """After any history each device has the same memory: nothing lost, nothing forgotten back."""
    wrong = {
        seed: found
        for seed, steps in STEPS.items()
        if (found := run(tmp_path / f"{seed}", seed, steps))
    }
    assert wrong == {}


def test_a_merge_without_clocks_does_not_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each device lets its own word stand, one of 20 histories shows that they differ."""
    monkeypatch.setattr(
        incoming._Part, "_wins", lambda _self, _line, _known, version: version is None
    )
    assert any("differs" in str(run(tmp_path / f"{seed}", seed, steps=25)) for seed in range(20))


@pytest.mark.slow
def test_ten_thousand_histories_agree(tmp_path: Path) -> None:
    """Longer histories of other seeds end in one memory too."""
    wrong = {
        seed: found
        for seed in range(1000, 11_000)
        if (found := run(tmp_path / f"{seed}", seed, steps=60))
    }
    assert wrong == {}
