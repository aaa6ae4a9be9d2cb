"""Files of strangers: each kind is refused or harmless, and none takes long or much memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from counters import count

from .make import KINDS

pytestmark = pytest.mark.timeout(600)  # all kinds are walked in the fixture of the first test

HERE = Path(__file__).parent
MAX_CALL_S = 5
MAX_MB = 256


@pytest.fixture(
    scope="module",
    params=[KINDS[::6], pytest.param(KINDS, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def walked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Return what every public call did on each file of the corpus, by kind."""
    folder = tmp_path_factory.mktemp("hostile")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    make = [sys.executable, HERE / "make.py", folder, *request.param]
    subprocess.run(make, check=True, timeout=300, env=environment)
    done = subprocess.run(
        [sys.executable, HERE / "walk.py", folder],
        check=True,
        timeout=500,
        capture_output=True,
        text=True,
    )
    rows = {row["kind"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert set(rows) == {*request.param, "sound"}
    return rows


def test_a_sound_file_is_refused_by_no_call(walked: dict[str, dict[str, Any]]) -> None:
    """Or the others would prove nothing; and there are enough of them."""
    assert len(KINDS) >= 60
    assert walked["sound"]["refused"] == {}


def test_each_kind_is_refused_or_harmless(walked: dict[str, dict[str, Any]]) -> None:
    """No call ends the process, raises another library's error, or takes long or much memory."""
    for kind, row in walked.items():
        assert "killed" not in row, kind
        assert row["foreign"] == {}, kind
        assert row["slowest"][0] < MAX_CALL_S, kind
        assert row["peak_mb"] < MAX_MB, kind
        count("hostile")
