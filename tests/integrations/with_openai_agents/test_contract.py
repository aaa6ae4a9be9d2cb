"""The Agents SDK's own tests of sessions, with memdb in the place of SQLiteSession."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from published import extract

VERSION = "0.24.0"
# All that make a SQLiteSession, AsyncSQLiteSession or AdvancedSQLiteSession, which
# `contracts/openai_agents_shim.py` replaces; it also leaves out what
# `contracts/openai_agents_deselected.txt` lists with the reasons.
FILES = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_session_persistence_sanitize.py",
    "tests/memory/test_session_context_wrapper.py",
    "tests/memory/test_compaction_suffix.py",
    "tests/memory/test_compaction_model_visibility.py",
    "tests/memory/test_openai_responses_compaction_session.py",
    "tests/extensions/memory/test_advanced_sqlite_session.py",
    "tests/extensions/memory/test_async_sqlite_session.py",
    "tests/extensions/memory/test_encrypt_session.py",
    "tests/test_agent_runner.py",
    "tests/test_agent_runner_streamed.py",
    "tests/test_max_turns.py",
    "tests/test_native_tool_failure_history.py",
    "tests/test_programmatic_tool_calling.py",
    "tests/test_run_impl_resume_paths.py",
    "tests/test_soft_cancel.py",
    "tests/test_tool_batch_failure_history.py",
    "tests/test_tool_failure_boundaries.py",
)
# How many of them pass, and how many are left out.
PASS, LEFT_OUT = 1_430, 193


@pytest.mark.slow
def test_the_sdk_s_own_tests_pass(tmp_path: Path) -> None:
    """All that apply; each of the others stands under its reason in the list."""
    if metadata.version("openai-agents") != VERSION:
        pytest.skip(f"the list of tests that are left out is about {VERSION}")
    source = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation"]
    place = ["--dest", str(tmp_path)]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
    ran = subprocess.run(
        [*pip, *source, f"openai-agents=={VERSION}", *place],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        pytest.skip(f"the package index cannot be reached: {ran.stderr[-300:]}")
    extract(next(tmp_path.glob("*.tar.gz")), tmp_path)
    folder = tmp_path / f"openai_agents-{VERSION}"
    here = Path(__file__).parent
    places = [here / "contracts", here.parents[2]]
    # The pytest of this environment comes first: it runs both.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }

    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
            *("-p", "openai_agents_shim"),
            *FILES,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-6000:]
    last_line = ran.stdout.strip().splitlines()[-1]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last_line)}
    assert (counts["passed"], counts["deselected"]) == (PASS, LEFT_OUT), last_line
