"""Random histories of three devices end in one memory, whatever happens on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from simulator import run

if TYPE_CHECKING:
    from pathlib import Path

# 121: a session was deleted and begun anew on one device, and continued on another one.
SEEDS = (*range(100), 121)


def test_three_devices_agree(tmp_path: Path) -> None:
    """After any history each device has the same memory: nothing lost, nothing forgotten back."""
    wrong = {seed: found for seed in SEEDS if (found := run(tmp_path / f"{seed}", seed, steps=25))}
    assert wrong == {}


@pytest.mark.slow
def test_ten_thousand_histories_agree(tmp_path: Path) -> None:
    """Longer histories of other seeds end in one memory too."""
    wrong = {
        seed: found
        for seed in range(1000, 11_000)
        if (found := run(tmp_path / f"{seed}", seed, steps=60))
    }
    assert wrong == {}
