"""The Agents SDK's own tests of sessions, with memdb in the place of SQLiteSession."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

VERSION = "0.24.0"
# What the SDK's tests import besides the SDK and pytest.
NEEDS = ("pytest-asyncio==1.5.0", "inline-snapshot==0.36.1", "sqlalchemy", "aiosqlite")

INTERNAL = "looks at connections, locks and tables of SQLiteSession itself"
# Whole files, in which memdb takes part wherever they name SQLiteSession.
FILES = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_session_persistence_sanitize.py",
    "tests/memory/test_session_context_wrapper.py",
    "tests/test_soft_cancel.py",
    "tests/test_max_turns.py",
    "tests/test_tool_batch_failure_history.py",
    "tests/test_native_tool_failure_history.py",
)
SESSION = "tests/memory/test_session.py::test_sqlite_session_"
DESELECTED = {
    f"{SESSION}close_closes_worker_thread_connections": INTERNAL,
    f"{SESSION}reaps_connections_from_exited_worker_threads": INTERNAL,
    f"{SESSION}closes_retired_connections_before_the_next_allocation": INTERNAL,
    f"{SESSION}keeps_connections_of_live_worker_threads": INTERNAL,
    f"{SESSION}closed_rejects_empty_add_items": (
        "wants the class's name in the RuntimeError: test_a_closed_session_says_so has it"
    ),
    f"{SESSION}pop_item_skips_corrupt_most_recent": (
        "writes a broken row through its own SQL: test_damaged_items_are_skipped has it"
    ),
    f"{SESSION}pop_item_returns_none_after_dropping_only_corrupt_rows": "the same",
    f"{SESSION}get_items_limit_skips_corrupt_newest_rows": "the same",
    f"{SESSION}get_items_session_settings_limit_skips_corrupt_rows": "the same",
    f"{SESSION}file_lock_is_shared_across_instances": INTERNAL,
    f"{SESSION}failed_add_items_releases_write_lock": (
        "asks its own table in SQL: test_a_failed_add_leaves_nothing has it"
    ),
    f"{SESSION}failed_clear_session_rolls_back": "drops its own table to make a call fail",
    f"{SESSION}failed_pop_item_releases_write_lock": "drops its own table to make a call fail",
    f"{SESSION}rollback_failure_evicts_connection": INTERNAL,
    f"{SESSION}close_retries_quarantined_connection": INTERNAL,
    f"{SESSION}post_commit_cancellation_propagates_after_known_outcome": (
        "puts a connection of its own in: test_cancelling_at_any_point_half_commits_nothing has it"
    ),
}

# Of the tests of AdvancedSQLiteSession, those about branches and items. The
# others use its usage counters (store_run_usage, get_tool_usage,
# get_conversation_by_turns), its tables and locks in SQL, or its rule that the
# name of a deleted branch is never free again, none of which memdb has.
ADVANCED = "tests/extensions/memory/test_advanced_sqlite_session.py::test_"
DESELECTED[f"{ADVANCED}find_turns_by_content_matches_literal_text[CAF\\xc9-caf\\xe9-\\xe9]"] = (
    "wants upper case beyond ASCII not to be found; memdb ignores case in every script"
)
BRANCHES = (
    "advanced_session_basic_functionality",
    "branching_functionality",
    "create_branch_rejects_blank_name",
    "create_branch_rejects_populated_branch_id",
    "get_conversation_turns",
    "find_turns_by_content",
    "create_branch_from_content",
    "branch_error_handling",
    "delete_branch_preserves_exact_branch_id",
    "branch_deletion_with_force",
    "get_items_with_parameters",
    "sequence_ordering",
    "session_settings_default",
    "session_settings_constructor",
    "get_items_uses_session_settings_limit",
    "get_items_explicit_limit_overrides_session_settings",
    "get_items_limit_returns_fewer_when_history_exhausted",
    "session_settings_resolve",
    "runner_with_session_settings_override",
    "find_turns_by_content_matches_literal_text",
    "create_branch_from_content_uses_decoded_match",
    "get_conversation_turns_with_list_content",
    "find_turns_by_content_with_list_content",
    "find_turns_by_content_with_escaped_text_parts",
    "find_turns_by_content_filters_session_and_branch",
    "external_clear_resets_stale_branch_before_next_write",
    "external_clear_resets_stale_branch_before_pop",
)


@pytest.mark.slow
def test_the_sdk_s_own_tests_pass(tmp_path: Path) -> None:
    """All that apply; each of the others has its reason above."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation"]
    sdist = [*pip, "download", *source, f"openai-agents=={VERSION}", "--dest", str(tmp_path)]
    target = tmp_path / "needs"
    for command in (sdist, [*pip, "install", "--target", str(target), *NEEDS]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            pytest.skip(f"the package index cannot be reached: {ran.stderr[-300:]}")
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / f"openai_agents-{VERSION}"
    here = Path(__file__).parent
    places = [here / "contracts", here.parents[1], target]
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
            *(f"--deselect={name}" for name in DESELECTED),
            *FILES,
            *(f"{ADVANCED}{name}" for name in BRANCHES),
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-6000:]
    counts = re.search(r"(\d+) passed(?:, (\d+) deselected)?", ran.stdout)
    assert counts is not None
    assert int(counts[1]) >= 334, counts[0]
