"""The tests of CrewAI's memory, with memdb in the place of LanceDB."""

from importlib.metadata import version
from pathlib import Path

import pytest
from published import deselected, download, run

VERSION = "1.15.30"
PASS, LEFT_OUT = 166, 2


@pytest.mark.slow
def test_the_tests_of_crewai_pass(tmp_path: Path) -> None:
    """All of tests/memory; 19 are skipped there without a key or Qdrant."""
    if version("crewai") != VERSION:
        pytest.skip(f"the tests are those of {VERSION}")
    folder = download("crewai", VERSION, tmp_path)

    options = ("--noconftest", "-o", "addopts=", "-W", "ignore")
    counts = run(folder, "crewai", ("tests/memory",), *options)

    assert (counts["passed"], len(deselected("crewai"))) == (PASS, LEFT_OUT)
