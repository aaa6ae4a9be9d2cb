"""Files of strangers: each kind is refused or harmless, and none takes long or much memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import each
from counters import count

from .make import KINDS

pytestmark = pytest.mark.timeout(600)  # all kinds are walked in the fixture of the first test

HERE = Path(__file__).parent
MAX_CALL_S = 5
MAX_MB = 256


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what every public call did on each file of the corpus, by kind."""
    folder = tmp_path_factory.mktemp("hostile")
    subprocess.run([sys.executable, HERE / "make.py", folder], check=True, timeout=300)
    done = subprocess.run(
        [sys.executable, HERE / "walk.py", folder],
        check=True,
        timeout=500,
        capture_output=True,
        text=True,
    )
    return {row["kind"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_there_are_enough_kinds(walked: dict[str, dict[str, Any]]) -> None:
    """And the sound file is not refused by any call, or the others would prove nothing."""
    assert len(KINDS) >= 60
    assert set(walked) == {*KINDS, "sound"}
    assert walked["sound"]["refused"] == {}


@each("kind", KINDS)
def test_each_kind_is_refused_or_harmless(walked: dict[str, dict[str, Any]], kind: str) -> None:
    """No call ends the process, raises another library's error, or takes long or much memory."""
    row = walked[kind]

    assert "killed" not in row
    assert row["foreign"] == {}
    assert row["slowest"][0] < MAX_CALL_S
    assert row["peak_mb"] < MAX_MB
    count("hostile")
