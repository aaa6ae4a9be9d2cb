"""A host corrects, remakes, drops and lists single summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import InvalidInput, NotFound, SummaryText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb import MemDB, Session, SourceItem

SMALL = {"summary_messages": 4, "summary_condense_at": 3, "summary_group": 2}


class Stub:
    """Writes a number into each summary; *broken* fails."""

    name = "stub"
    quality = "model"

    def __init__(self) -> None:
        """Begin at 0, not broken."""
        self.count = 0
        self.broken = False

    def summarize(self, source: Sequence[SourceItem], **_: Any) -> SummaryText:
        """Return what the sources say, short."""
        if self.broken:
            raise RuntimeError("no")
        self.count += 1
        return SummaryText(f"s{self.count}: {source[0].text[:12]}")


@pytest.fixture
def stub() -> Stub:
    """Return the summarizer of `model_db`."""
    return Stub()


@pytest.fixture
def local() -> Iterator[MemDB]:
    """Return a file without a model."""
    with memdb.open(":memory:", settings=SMALL) as db:
        yield db


def talk(db: MemDB, count: int = 24) -> Session:
    """Return a session with summaries of two depths."""
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"The heron {n} is grey."} for n in range(count)])
    db.jobs.run()
    assert {one.depth for one in chat.summaries.tree().summaries} >= {0, 1}
    return chat


def test_a_wrong_summary_gets_other_words(local: MemDB) -> None:
    """They are found, and what stands above says them too, now."""
    chat = talk(local)

    done = chat.summaries.rewrite("1-4", "The ostrich is pink.", hint="colours")

    assert (done.text, done.hint, done.summarizer) == ("The ostrich is pink.", "colours", "host")
    assert done == chat.summaries.expand("1-4").summary
    above = chat.summaries.expand("1-8").summary
    assert above is not None
    assert "ostrich" in above.text
    found = chat.recall("ostrich", kinds=("summary",), by="words")
    assert {hit.source.last_seq for hit in found} == {4, 8}
    assert local.file.check(deep=True) == []
    chat.summaries.compact()
    assert chat.summaries.expand("1-4").summary == done


def test_no_model_replaces_what_a_host_wrote(stub: Stub) -> None:
    """What stands above is written by the model again."""
    with memdb.open(":memory:", settings=SMALL, summarizer=stub) as db:
        chat = talk(db)

        chat.summaries.rewrite("1-4", "The ostrich is pink.")
        between = chat.summaries.expand("1-8").summary
        chat.summaries.upgrade()
        db.jobs.run()

        assert chat.summaries.expand("1-4").summary.text == "The ostrich is pink."
        after = chat.summaries.expand("1-8").summary
        assert between is not None
        assert after is not None
        assert (between.quality, after.quality) == ("extractive", "model")


def test_without_words_a_summary_is_made_anew(stub: Stub) -> None:
    """By the model; if that fails, nothing changes."""
    with memdb.open(":memory:", settings=SMALL, summarizer=stub) as db:
        chat = talk(db)
        before = chat.summaries.expand("1-4").summary

        after = chat.summaries.rewrite("1-4")
        stub.broken = True
        with pytest.raises(memdb.PortError):
            chat.summaries.rewrite("1-4")

        assert before is not None
        assert (after.id, after.text != before.text) == (before.id, True)
        assert chat.summaries.expand("1-4").summary == after


def test_a_dropped_summary_is_made_anew_when_it_is_due(local: MemDB) -> None:
    """With those after it; the messages stay."""
    chat = talk(local)
    before = chat.summaries.tree()

    gone = chat.summaries.delete("5-8")

    left = chat.summaries.tree().summaries
    assert [(one.depth, one.first_seq) for one in left] == [(0, 1)]
    assert gone == len(before.summaries) - 1
    assert local.file.check(deep=True) == []
    local.jobs.run()
    again = chat.summaries.tree().summaries
    assert [one.uid for one in again] == [one.uid for one in before.summaries]
    assert {one.id for one in again} & {one.id for one in before.summaries} == {left[0].id}


@pytest.mark.parametrize("ref", [999, "999", "2-3"])
def test_there_must_be_such_a_summary(local: MemDB, ref: int | str) -> None:
    """Of this session, to write it anew; to remove it there is nothing to do."""
    chat = talk(local)

    with pytest.raises(NotFound):
        chat.summaries.rewrite(ref, "x")
    assert chat.summaries.delete(ref) == 0


@pytest.mark.parametrize(
    "wrong", [{"text": "  "}, {"text": "x" * 50_001}, {"text": "a", "hint": " "}]
)
def test_a_summary_says_something(local: MemDB, wrong: dict[str, Any]) -> None:
    """And no book."""
    chat = talk(local)

    with pytest.raises(InvalidInput):
        chat.summaries.rewrite("1-4", **wrong)


@pytest.mark.parametrize(
    ("options", "spans"),
    [
        ({"depth": 0, "limit": 2}, [(1, 4), (5, 8)]),
        ({"depth": 0, "first_seq": 8, "last_seq": 9}, [(5, 8), (9, 12)]),
        ({"depth": 1, "last_seq": 1}, [(1, 8)]),
        ({"limit": 0}, []),
    ],
)
def test_some_summaries_are_listed(
    local: MemDB, options: dict[str, Any], spans: list[tuple[int, int]]
) -> None:
    """By depth and place."""
    found = talk(local).summaries.list(**options)

    assert [(one.first_seq, one.last_seq) for one in found] == spans


def test_compacting_says_what_is_left_and_may_keep_the_texts(local: MemDB) -> None:
    """Nothing is dropped without *prune*."""
    chat = talk(local)

    kept = chat.summaries.compact(prune=False)
    pruned = chat.summaries.compact()

    assert (kept.pruned, pruned.pruned > 0) == (0, True)
    assert kept.remaining == pruned.remaining == len(chat.summaries.tree().summaries)
