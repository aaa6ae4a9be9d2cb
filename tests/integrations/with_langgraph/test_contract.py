"""LangGraph's own tests of stores and savers, with memdb in their place."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from published import download, run

from memdb.integrations.langgraph import MemdbSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# By package: the version whose tests they are, its files, how many pass, how many are left out.
SUITES = {
    "langgraph-checkpoint": ("4.3.2", ("tests/test_store.py",), 117, 0),
    "langgraph-checkpoint-sqlite": ("3.1.2", ("tests",), 178, 15),
}
BASE, OPTIONAL = 58, 23


@pytest.mark.asyncio
async def test_the_conformance_tests_pass(tmp_path: Path) -> None:
    """All, those of optional calls too."""
    number = iter(range(100))

    @checkpointer_test(name="MemdbSaver")
    async def saver() -> AsyncIterator[MemdbSaver]:
        async with MemdbSaver(tmp_path / f"{next(number)}.db") as made:
            yield made
            assert made._db.file.check() == []

    report = await validate(saver)

    results: dict[str, Any] = report.results
    assert [failure for one in results.values() for failure in one.failures or ()] == []
    assert sum(one.tests_passed for one in results.values()) == BASE + OPTIONAL


@pytest.mark.slow
@pytest.mark.parametrize("package", SUITES)
def test_the_published_tests_pass(tmp_path: Path, package: str) -> None:
    """All that apply; each of the others stands under its reason in the list."""
    released, files, passed, left_out = SUITES[package]
    if version(package) != released:
        pytest.skip(f"the tests are those of {released}")
    folder = download(package, released, tmp_path)

    options = ("-p", "no:randomly", "-o", "addopts=", "-o", "asyncio_mode=auto")
    counts = run(folder, "langgraph", files, *options)

    assert (counts["passed"], counts.get("deselected", 0)) == (passed, left_out)
