"""
Looking into summaries: the tree, what a summary stands for, searching.

Faults of flowcraft 10 and 11 that cannot happen here, and the test that shows it:

    11.1  no way below the first level              test_every_level_leads_to_the_next
    11.1  the end of an expansion alone is shown    test_a_leaf_is_paged
    11.1  beyond the end: everything is shown       test_a_span_beyond_the_end_is_not_found
    11.1  negative limits crash, 0 shows nothing    test_a_page_of_no_size_is_refused
    11.1  tool calls and results are not shown      test_a_leaf_shows_what_tools_said
    11.1  a pruned child is a placeholder           test_pruned_nodes_expand_as_before
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cases import each

import memdb
from memdb import MemDB, Session
from memdb.models.messages import Message
from memdb.models.summaries import SourceItem, Summary, SummaryText


class Writer:
    """A summariser that is a model; says the span it was given, or else *said*."""

    name = "writer"
    quality = "model"

    def __init__(self, said: str = "") -> None:
        """Say *said* of everything."""
        self.said = said

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a short summary."""
        return SummaryText(
            self.said or f"By a model: {source[0].first_seq} to {source[-1].last_seq}."
        )


def say(chat: Session, count: int, text: str = "Note {n}: we had green tea, cup {n}.") -> None:
    """Add so many messages in turns."""
    start = chat.last_seq
    chat.extend(
        [
            {"role": "user" if n % 2 else "assistant", "text": text.format(n=n)}
            for n in range(start + 1, start + count + 1)
        ]
    )


def below(chat: Session, summary: Summary, limit: int) -> Iterator[Message]:
    """Yield what a summary stands for, down through every depth, *limit* per page."""
    after: int | None = 0
    while after is not None:
        page = chat.summaries.expand(summary.id, after_seq=after, limit=limit)
        assert page.summary == summary
        assert len(page.summaries) + len(page.messages) <= limit
        for one in page.summaries:
            assert one.depth == summary.depth - 1
            assert one.condensed_into == summary.id
            yield from below(chat, one, limit)
        yield from page.messages
        after = page.next_seq


@pytest.fixture
def chat(db: MemDB, fill: Callable[..., None]) -> Session:
    """Return a session of 300 messages and its summaries."""

    def make(db: MemDB) -> None:
        say(db.scope("ann").session("trip"), 300)
        db.jobs.run()

    fill(db, make)
    return db.scope("ann").session("trip")


# -- the tree


def test_the_tree_is_deepest_first(chat: Session) -> None:
    """Then by place; the frontier is what no summary stands for, oldest first."""
    tree = chat.summaries.tree()

    order = [(-summary.depth, summary.first_seq) for summary in tree.summaries]
    assert order == sorted(order)
    assert {summary.depth for summary in tree.summaries} == {0, 1, 2}
    assert [summary for summary in tree.frontier if summary.condensed_into] == []
    assert tree.frontier[0].first_seq == 1
    assert tree.frontier[-1].last_seq == 300
    assert (tree.head_seq, tree.first_raw_seq, tree.last_seq) == (0, 301, 300)


def by_a_model(tree: memdb.SummaryTree) -> memdb.SummaryTree:
    """Return a tree as if a model had written it: its texts are never taken apart."""
    return tree.replace(summaries=tuple(one.replace(quality="model") for one in tree.summaries))


def test_a_text_of_extracts_fits_its_budget(chat: Session, db: MemDB) -> None:
    """It is the same each time, says each line once, and needs no mark: all is considered."""
    tree = chat.summaries.tree()

    for budget in (*range(0, 60, 7), 200, 2_000, 100_000):
        text = tree.text(budget)
        assert db.file.count_tokens([text])[0] <= budget
        assert text == tree.text(budget)
        assert "not shown" not in text
        lines = text.splitlines()
        assert len({*lines}) == len(lines)


def test_a_text_counted_by_a_host_stays_whole(chat: Session) -> None:
    """A counter that memdb does not have cannot count the sentences."""
    tree = chat.summaries.tree()
    own = tree.replace(summaries=tuple(one.replace(counter="mine") for one in tree.summaries))

    assert own.text(300) == by_a_model(tree).text(300)


def test_a_text_of_the_tree_fits_its_budget(chat: Session, db: MemDB) -> None:
    """More tokens say more: the end of the frontier, which says what it is the end of; all leaves."""
    tree = by_a_model(chat.summaries.tree())
    whole = sum(one.tokens + 1 for one in tree.frontier)
    leaves = [one for one in tree.summaries if one.depth == 0]
    sizes = (0, 40, 100, whole - 1, whole, 2 * whole, 100_000)
    texts = {budget: tree.text(budget) for budget in sizes}

    for budget, text in texts.items():
        assert db.file.count_tokens([text])[0] <= budget
    assert texts[0] == ""
    assert texts[whole] == "\n".join(one.text for one in tree.frontier)
    for budget in (40, 100, whole - 1):
        mark, _, rest = texts[budget].partition("\n")
        left = [one for one in tree.frontier if one.text not in rest]
        assert mark == f"[Messages 1-{left[-1].last_seq} are not shown here.]"
        assert texts[whole].endswith(rest)
    assert texts[100_000] == "\n".join(one.text for one in leaves)
    assert memdb.SummaryTree((), 0, 1, 0).text(100) == ""


def test_a_text_of_the_tree_names_what_has_no_summary(db: MemDB) -> None:
    """All of a session that was only stored; after `compact` the newest few, if any."""
    chat = db.scope("ann").session("new")
    say(chat, 45)
    stored = chat.summaries.tree().text(200)
    chat.summaries.compact()
    extracts = chat.summaries.tree()
    tree = by_a_model(extracts)

    assert stored == "[Messages 1-45 have no summary yet.]"
    mark = f"[Messages {tree.first_raw_seq}-45 have no summary yet.]"
    assert tree.text(400) == "\n".join(
        [*(one.text for one in tree.summaries if not one.depth), mark]
    )
    for budget in range(0, 400, 3):
        for text in (tree.text(budget), extracts.text(budget)):
            assert db.file.count_tokens([text])[0] <= budget
            assert text == "" or text.endswith(mark)


def test_the_tree_tells_what_has_no_summary(chat: Session) -> None:
    """Messages behind the last leaf, and system text before the first."""
    chat.append("user", "One more.")

    assert (chat.summaries.tree().first_raw_seq, chat.summaries.tree().last_seq) == (301, 301)


@pytest.mark.parametrize("count", [0, 1, 9], ids=str)
def test_a_tree_without_nodes(db: MemDB, count: int) -> None:
    """An unknown session is an empty one."""
    chat = db.scope("ann").session("new")
    say(chat, count)

    tree = chat.summaries.tree()

    assert tree == memdb.SummaryTree((), 0, 1, count)
    assert tree.frontier == ()


# -- expanding


@pytest.mark.parametrize("limit", [1, 2, 7, 50, 1_000], ids=str)
def test_every_level_leads_to_the_next(chat: Session, limit: int) -> None:
    """By pages of any size: the frontier taken apart is the conversation, as it was said."""
    found = [
        one for summary in chat.summaries.tree().frontier for one in below(chat, summary, limit)
    ]

    assert found == list(chat.messages())


def test_a_leaf_is_paged(chat: Session) -> None:
    """From its first message on; `next_seq` is None on the last page only."""
    leaf = chat.summaries.tree().summaries[-1]

    pages = [
        chat.summaries.expand(leaf.id, limit=4),
        chat.summaries.expand(leaf.id, after_seq=leaf.first_seq + 3, limit=4),
        chat.summaries.expand(leaf.id, after_seq=leaf.first_seq + 7, limit=4),
    ]

    first = leaf.first_seq
    assert [[one.seq for one in page.messages] for page in pages] == [
        [first, first + 1, first + 2, first + 3],
        [first + 4, first + 5, first + 6, first + 7],
        [first + 8, first + 9],
    ]
    assert [page.next_seq for page in pages] == [first + 3, first + 7, None]


def test_a_page_behind_the_end_is_empty(chat: Session) -> None:
    """Of a summary, no error: there is nothing more."""
    top, leaf = chat.summaries.tree().summaries[0], chat.summaries.tree().summaries[-1]

    for summary in (top, leaf):
        page = chat.summaries.expand(summary.id, after_seq=summary.last_seq)
        assert (page.summaries, page.messages, page.next_seq) == ((), (), None)


@pytest.mark.parametrize("archived", [False, True], ids=["hot", "cold"])
def test_a_span_of_a_node_is_the_node(chat: Session, archived: bool) -> None:
    """The deepest one, as contexts name it; archived messages are no different."""
    if archived:
        chat.archive(keep_last=5)
    top = chat.summaries.tree().summaries[0]

    page = chat.summaries.expand(f"{top.first_seq}-{top.last_seq}")

    assert page.summary == top
    assert [summary.depth for summary in page.summaries] == [top.depth - 1] * 3
    assert list(below(chat, top, 7)) == list(chat.messages())[: top.last_seq]


@pytest.mark.parametrize(
    ("ref", "limit", "seqs", "after"),
    [
        ("5-8", 50, [5, 6, 7, 8], None),
        ("7-7", 50, [7], None),
        ("#7", 50, [7], None),
        ("8-13", 4, [8, 9, 10, 11], 11),
        ("299-400", 50, [299, 300], None),
        ("1-10", 3, [1, 2, 3], 3),
    ],
    ids=str,
)
def test_a_span_is_its_messages(
    chat: Session, ref: str, limit: int, seqs: list[int], after: int | None
) -> None:
    """Also across leaves, and as far as there are any."""
    page = chat.summaries.expand(ref, limit=limit)

    assert [one.seq for one in page.messages] == seqs
    assert page.next_seq == after


def test_a_leaf_shows_what_tools_said(db: MemDB) -> None:
    """Calls and results as stored: parts, ids and all."""
    chat = db.scope("ann").session("tools")
    asked = {"type": "tool_call", "id": "a", "name": "read", "arguments": '{"n": 1}'}
    result = {"type": "tool_result", "tool_call_id": "a", "content": "forty rows"}
    chat.extend([{"role": "assistant", "parts": [asked]}, {"role": "tool", "parts": [result]}])
    say(chat, 8)
    db.jobs.run()
    (leaf,) = chat.summaries.tree().summaries

    said = chat.summaries.expand(leaf.id).messages

    assert [one.parts for one in said[:2]] == [[asked], [result]]
    assert "read(" in leaf.text


def test_pruned_nodes_expand_as_before(chat: Session) -> None:
    """A text that was dropped is there again, the same."""
    before = [
        chat.summaries.expand(summary.id, limit=1_000)
        for summary in chat.summaries.tree().summaries
    ]

    assert chat.summaries.compact().pruned > 0

    assert [
        chat.summaries.expand(summary.id, limit=1_000)
        for summary in chat.summaries.tree().summaries
    ] == before


@each("ref", [999, "999", (1 << 44) - 1])
def test_an_unknown_node_is_not_found(chat: Session, ref: int | str) -> None:
    """By its number, however it is written."""
    with pytest.raises(memdb.NotFound, match="summary"):
        chat.summaries.expand(ref)


def test_a_span_beyond_the_end_is_not_found(chat: Session) -> None:
    """The error names the span."""
    with pytest.raises(memdb.NotFound, match="trip#301-400"):
        chat.summaries.expand("301-400")


@pytest.mark.parametrize("ref", ["9-3", "#0", "0-5", "1-99999999999"], ids=str)
def test_a_span_that_is_none_is_refused(chat: Session, ref: str) -> None:
    """It ends before it begins, or lies outside of any session."""
    with pytest.raises(memdb.InvalidInput, match="span"):
        chat.summaries.expand(ref)


@each(
    "ref",
    [
        *(None, True, 7.0, b"1-10", ["a"], 0, -1, 1 << 44, "0", "", "0123456789abcdef", "nothing"),
        *("1234567890123456", "a-b", "-", "5-", "-5", "#", "²", "1-2-3"),
    ],
)
def test_what_is_no_number_and_no_span_is_refused(chat: Session, ref: Any) -> None:
    """The error names it."""
    with pytest.raises(memdb.InvalidInput, match="summary_id"):
        chat.summaries.expand(ref)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"limit": True}, "limit"),
        ({"after_seq": -1}, "after_seq"),
        ({"after_seq": "3"}, "after_seq"),
    ],
    ids=str,
)
def test_a_page_of_no_size_is_refused(chat: Session, options: dict[str, Any], name: str) -> None:
    """Not replaced by a default."""
    with pytest.raises(memdb.InvalidInput, match=name):
        chat.summaries.expand("1-10", **options)


def test_a_node_of_another_session_is_not_found(db: MemDB, chat: Session) -> None:
    """Nor one of another user: an id leads nowhere outside of its session."""
    summary = chat.summaries.tree().summaries[0]
    others = [db.scope("ann").session("other"), db.scope("bob").session("trip")]
    for other in others:
        say(other, 30)
    others.append(db.scope("ann").session("never"))

    for other in others:
        with pytest.raises(memdb.NotFound, match=f"no summary {summary.id} "):
            other.summaries.expand(summary.id)


# -- searching


def test_summaries_are_searched(db: MemDB) -> None:
    """Best first, those of this session alone; letters in either case."""
    chat = db.scope("ann").session("work")
    say(chat, 30, "Golang code {n} runs.")
    say(chat, 10, "Golang performance tuning, step {n}: measure golang performance.")
    say(db.scope("ann").session("other"), 20, "Golang performance elsewhere {n}.")
    db.jobs.run()

    found = chat.recall("GOLANG performance", 2, kinds=("summary",), by="words")

    assert (found[0].source.summary_id, found[0].source.session) == (
        next(one.id for one in chat.summaries.tree().summaries if one.first_seq == 31),
        "work",
    )
    assert len(found) == 2


def test_summaries_are_searched_in_chinese(db: MemDB) -> None:
    """By any two characters."""
    chat = db.scope("ann").session("work")
    say(chat, 10, "第{n}次：我们决定使用并发编程。")
    say(chat, 10, "We had tea, cup {n}.")
    db.jobs.run()

    (leaf,) = [one for one in chat.summaries.tree().summaries if one.first_seq == 1]
    found = chat.recall("并发", kinds=("summary",), by="words")
    assert [hit.source.summary_id for hit in found] == [leaf.id]


@pytest.mark.parametrize("query", ["", " ", "???", "zzzz", '" OR *'], ids=repr)
def test_nothing_is_found_for_nothing(chat: Session, query: str) -> None:
    """No error either."""
    assert list(chat.recall(query, kinds=("summary",), by="words")) == []


@pytest.mark.parametrize(("query", "limit", "name"), [("tea", -1, "limit"), (7, 5, "query")])
def test_a_search_that_is_none_is_refused(chat: Session, query: Any, limit: int, name: str) -> None:
    """The error names the argument."""
    with pytest.raises(memdb.InvalidInput, match=name):
        chat.recall(query, limit, kinds=("summary",), by="words")


def test_an_unknown_session_has_no_summaries(db: MemDB) -> None:
    """Nothing found, nothing listed."""
    chat = db.scope("ann").session("never")

    assert list(chat.recall("tea", kinds=("summary",), by="words")) == []


# -- upgrading


def test_upgrade_lets_the_model_write_what_it_did_not(
    open_db: Callable[..., MemDB], path: str
) -> None:
    """Each summary once; ids and spans stay, so does what they expand to."""
    with open_db(path) as plain:
        say(plain.scope("ann").session("trip"), 100)
        plain.jobs.run()
        before = plain.scope("ann").session("trip").summaries.tree()
    db = open_db(path, summarizer=Writer())
    chat = db.scope("ann").session("trip")

    due = chat.summaries.upgrade()
    db.jobs.run()

    after = chat.summaries.tree()
    assert due == len(before.summaries) > 10
    assert {summary.quality for summary in before.summaries} == {"extractive"}
    assert {(summary.quality, summary.text[:11]) for summary in after.summaries} == {
        ("model", "By a model:")
    }
    assert [(n.id, n.first_seq, n.last_seq) for n in after.summaries] == [
        (n.id, n.first_seq, n.last_seq) for n in before.summaries
    ]
    assert chat.summaries.upgrade() == 0
    assert [one for summary in after.frontier for one in below(chat, summary, 20)] == list(
        chat.messages()
    )


def test_upgrade_without_a_model_is_refused(chat: Session) -> None:
    """The error says what is missing."""
    with pytest.raises(memdb.InvalidInput, match="model"):
        chat.summaries.upgrade()


def test_upgrade_of_nothing_is_nothing(open_db: Callable[..., MemDB]) -> None:
    """An unknown session has no summaries."""
    db = open_db(":memory:", summarizer=Writer())

    assert db.scope("ann").session("never").summaries.upgrade() == 0
