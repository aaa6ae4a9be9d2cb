"""The tests of Strands' own repositories, with memdb in their place."""

from pathlib import Path

import pytest
from published import deselected, download, run

VERSION = "1.62.0"
FILES = (
    "tests/strands/session/test_repository_session_manager.py",
    "tests/strands/session/test_file_session_manager.py",
)
PASS, LEFT_OUT = 83, 8


@pytest.mark.slow
def test_the_tests_of_strands_pass(tmp_path: Path) -> None:
    """All but those that look at files; they are for one version of the interface."""
    from importlib.metadata import version

    if version("strands-agents") != VERSION:
        pytest.skip(f"the tests are those of {VERSION}")
    folder = download("strands-agents", VERSION, tmp_path)

    options = ("--noconftest", "-o", "addopts=", "-o", "asyncio_mode=auto")
    counts = run(folder, "strands", FILES, *options)

    assert (counts["passed"], len(deselected("strands"))) == (PASS, LEFT_OUT)
