"""What the tests of faults share: prepared files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nursery import Nursery
from tenants import make_files
from writes import POLICY, Summarizer, prepare

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB


@pytest.fixture(scope="session")
def prepared_database(
    tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]
) -> Any:
    """Return what a closed database holds, with one of everything."""
    return make_kept(tmp_path_factory.mktemp("prepared") / "agent.db", _fill_prepared)


@pytest.fixture(scope="session")
def prepared(prepared_database: Any) -> bytes:
    """Return its bytes, which are a file."""
    found: bytes = prepared_database.content
    return found


def _fill_prepared(path: str) -> None:
    embedder = type(
        "E", (), {"name": "e", "dim": 8, "embed": lambda _s, t: [[1.0] * 8 for _ in t]}
    )()
    with memdb.open(
        path,
        embedder=embedder,
        counter="estimate",
        settings=POLICY,
        clock=lambda: 1_700_000_000_000,
    ) as db:
        prepare(db)


@pytest.fixture
def start_forked(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return a function like `start_child` whose programs start at once, to be killed."""
    nursery = Nursery(tmp_path, Path(__file__).parents[2])
    yield nursery.start
    nursery.close()


@pytest.fixture(scope="session")
def two_databases(
    tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]
) -> tuple[Any, Any]:
    """Return what a database holds in which ann is alone, and one with other users."""
    return make_files(tmp_path_factory.mktemp("tenants"), make_kept)


@pytest.fixture(scope="session")
def two_files(two_databases: tuple[Any, Any]) -> tuple[bytes, bytes]:
    """Return the bytes of both, which are files."""
    return two_databases[0].content, two_databases[1].content


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut an upload into transactions of two chunks, so that a megabyte has several."""
    monkeypatch.setattr("memdb.artifacts.streams.STEP_BYTES", 512 << 10)


@pytest.fixture
def opened(
    tmp_path: Path, prepared_database: Any, open_db: Any, make_embedder: Any, small_steps: None
) -> Callable[..., MemDB]:
    """Return a function that opens a fresh copy of the prepared file under a name."""

    def copy(name: str, folder: Path = tmp_path, **options: Any) -> MemDB:
        for end in ("-wal", "-shm"):
            (folder / (name + end)).unlink(missing_ok=True)
        prepared_database.put(folder / name)
        return open_db(
            str(folder / name),
            embedder=make_embedder("e", 8),
            summarizer=Summarizer(),
            settings=POLICY,
            **options,
        )

    return copy
