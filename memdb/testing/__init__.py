"""
For the tests of programs that use memdb: a pytest plugin, a fake embedder, a fake model.

Write `pytest_plugins = ["memdb.testing"]` into the conftest.py at the top of your tests:

    def test_a_trip(memory):                    # an empty memory at a fixed time
        memory.scope("ann").remember("Ann lives in Bergen.")

    def test_an_answer(pack):                   # packs/trip.pack or packs/trip.toml
        assert pack("trip").scope("ann").recall("where does Ann live?")

docs/fixtures.md describes packs and recipes.
"""

from __future__ import annotations

from contextlib import ExitStack
from hashlib import blake2b
from math import sqrt
from typing import TYPE_CHECKING

import pytest

import memdb
from memdb.errors import InvalidInput, NotFound, Unavailable
from memdb.fixtures import FrozenClock, SeededIds, make_pack, open_pack
from memdb.models.vectors import MAX_DIM
from memdb.text.validate import int_value, name_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from memdb import MemDB

# 1 May 2024, 09:00 UTC: the time of `memory`.
START_MS = 1_714_554_000_000
ENDS = (".pack", ".toml")


class FakeEmbedder:
    """
    An embedder without a model: texts that share words are near each other.

    The same words give the same vector on every platform and Python.

    Attributes:
        name: Name of its space.
        dim: Components of a vector.
        asked: Every text that it was given, in order.
        fails: Raised by the next calls, until it is None again.
    """

    def __init__(self, name: str = "fake", dim: int = 64) -> None:
        """Make a model of this *name* and *dim*, 2 to 65,536."""
        self.name = name_value(name, "name")
        self.dim = int_value(dim, "dim", 2, MAX_DIM)
        self.asked: list[str] = []
        self.fails: Exception | None = None

    def embed(self, texts: Sequence[str]) -> list[list[float] | None]:
        """Return a vector of length 1 per text; None for a text without words."""
        if self.fails is not None:
            raise self.fails
        self.asked += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float] | None:
        counts = [0] * self.dim
        for word in "".join(one if one.isalnum() else " " for one in text.casefold()).split():
            place = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big")
            counts[place % self.dim] += 1
        length = sqrt(sum(count * count for count in counts))
        return [count / length for count in counts] if length else None


class FakeModel:
    """
    A language model that gives prepared answers, in order.

    Attributes:
        name: As stored beside what it made.
        asked: The messages of each call, in order.
    """

    def __init__(self, *answers: str | Exception, name: str = "fake") -> None:
        """Return *answers*, one a call; an exception is raised. After the last: `Unavailable`."""
        if not all(isinstance(answer, (str, Exception)) for answer in answers):
            raise InvalidInput("answers contains something other than texts and exceptions")
        self.name = name_value(name, "name")
        self.asked: list[list[Mapping[str, str]]] = []
        self._answers = list(answers)

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,  # noqa: ARG002 (of the port)
        timeout_s: float = 30.0,  # noqa: ARG002 (of the protocol)
        max_tokens: int | None = None,  # noqa: ARG002 (of the protocol)
        cancelled: Callable[[], bool] | None = None,  # noqa: ARG002 (of the protocol)
    ) -> str:
        """Return the next answer."""
        self.asked.append([*messages])
        if not self._answers:
            raise Unavailable(self.name, "it has no answer left: give FakeModel more of them")
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def memory() -> Iterator[MemDB]:
    """Yield an empty memory that is gone after the test; its time and ids never vary."""
    with memdb.open(":memory:", clock=FrozenClock(START_MS), ids=SeededIds(0)) as db:
        yield db


@pytest.fixture
def pack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., MemDB]]:
    """
    Return a function that opens a pack by name, for reading, until the test ends.

    "trip" is trip.pack, or the recipe trip.toml. It is beside the test file, in the folder
    packs beside it, or in packs at the root of the project. `open_pack`'s options may
    follow.
    """
    folders = [
        request.path.parent,
        request.path.parent / "packs",
        request.config.rootpath / "packs",
    ]
    with ExitStack() as stack:

        def opened(name: str, **options: Any) -> MemDB:
            found = [folder / (name + end) for end in ENDS for folder in folders]
            path = next((one for one in found if one.is_file()), None)
            if path is None:
                raise NotFound("pack", f"{name} in {', '.join(map(str, folders))}")
            if path.suffix == ".toml":
                made = tmp_path / f"{name}.pack"
                if not made.exists():
                    make_pack(path, made)
                path = made
            return stack.enter_context(open_pack(path, **options))

        yield opened
