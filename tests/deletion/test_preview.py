"""The preview of a removal: every row of it, and a digest that binds the removal to the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memdb import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB, PreviewRow, Scope


@pytest.fixture
def ann(db: MemDB) -> Scope:
    """Return a scope with everything that a removal can take."""
    ann = db.scope("ann")
    chat = ann.session("trip")
    chat.extend([{"role": "user", "text": f"Zoe sails on day {n}."} for n in range(40)])
    chat.extend([{"role": "user", "text": f"It rains on day {n}."} for n in range(40)])
    chat.summaries.compact(keep_last=10)
    ann.remember("Zoe is my sister.", session="trip", seq=3, key="sister")
    ann.remember("Zoe sails.", session="trip", seq=4)
    ann.session("trip").artifacts.save("zoe.md", "Zoe")
    ann.session("trip").artifacts.save("zoe.txt", "Zoe", message_seq=2)
    ann.items.put(("people",), "zoe", {"name": "Zoe"})
    chat.state["mood"] = "good"
    ann.session("other").append("user", "Zoe writes.")
    return ann


SELECTORS: dict[str, dict[str, Any]] = {
    "entry": {},
    "session": {"session": "trip"},
    "messages": {"session": "trip", "seqs": [2, 3, 4, 999]},
    "query": {"query": "zoe", "artifacts": True},
    "everything": {"everything": True},
    "nothing": {"query": "zebra"},
}


def selector(ann: Scope, name: str) -> dict[str, Any]:
    return SELECTORS[name] or {"entry": ann.entries.list()[0].id}


def whole(ann: Scope, named: dict[str, Any]) -> tuple[list[PreviewRow], str | None]:
    """Return the rows and the digest of a dry run."""
    found = ann.forget(**named, dry_run=True)
    return [*found.rows], found.digest


@pytest.mark.parametrize("name", SELECTORS)
def test_the_list_is_what_the_removal_then_counts(ann: Scope, name: str) -> None:
    """Each kind, in pages of any size; and the removal takes the digest."""
    named = selector(ann, name)
    rows, digest = whole(ann, named)
    assert (rows, digest) == whole(ann, named)

    receipt = ann.forget(**named, expected=digest)

    kinds = [row.kind for row in rows]
    removed = receipt.removed
    assert kinds.count("message") == removed["messages"]
    assert kinds.count("session") == removed["sessions"]
    assert kinds.count("entry") == removed["entries"]
    assert kinds.count("artifact") == removed["artifacts"]
    assert kinds.count("item") == removed["items"]
    assert kinds.count("state") == removed["state"]
    assert kinds.count("summary") == receipt.rewritten["summaries"]


def test_rows_say_what_goes_and_where_it_was(ann: Scope) -> None:
    """A message has its text and place, a summary what it says and will say."""
    rows, _ = whole(ann, {"session": "trip", "seqs": [1, 3]})
    by_kind = {row.kind: row for row in rows}

    assert (rows[0].text, rows[0].seq) == ("Zoe sails on day 0.", 1)
    assert (by_kind["message"].text, by_kind["message"].seq) == ("Zoe sails on day 2.", 3)
    assert (by_kind["entry"].text, by_kind["entry"].session) == ("Zoe is my sister.", "trip")
    summary = by_kind["summary"]
    assert "day 0." in summary.text
    assert "day 0." not in (summary.new_text or "")
    assert (summary.seq or 0) <= 3 <= (summary.last_seq or 0)


CHANGES: dict[str, Callable[[Scope], object]] = {
    "a message more": lambda ann: ann.session("trip").append("user", "Zoe again"),
    "a message less": lambda ann: ann.session("trip").delete([5]),
    "a message edited": lambda ann: ann.session("trip").edit(
        7, {"role": "user", "text": "Zoe sings."}
    ),
    "an entry more": lambda ann: ann.remember("Zoe cooks well.", session="trip", seq=9),
    "an entry changed": lambda ann: ann.entries.update(
        ann.entries.list()[0].id, text="Zoe is my aunt."
    ),
    "an entry pinned": lambda ann: ann.entries.update(ann.entries.list()[0].id, pinned=True),
    "an artifact more": lambda ann: ann.session("trip").artifacts.save("zoe.md", "Zoe 2"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["session", "query", "everything"])
def test_what_changed_since_is_a_conflict(ann: Scope, change: str, name: str) -> None:
    """Nothing is removed then; a new preview counts."""
    named = selector(ann, name)
    _, digest = whole(ann, named)
    CHANGES[change](ann)

    for dry_run in (True, False):
        with pytest.raises(Conflict, match="preview"):
            ann.forget(**named, expected=digest, dry_run=dry_run)

    assert ann.session("trip").get(1).text == "Zoe sails on day 0."
    ann.forget(**named, expected=whole(ann, named)[1])


def test_what_has_nothing_to_do_with_it_is_no_conflict(ann: Scope, db: MemDB) -> None:
    """Other users, other sessions, and a use of an entry."""
    _, digest = whole(ann, {"session": "trip"})
    db.scope("bob").session("trip").append("user", "Zoe")
    ann.session("third").append("user", "Zoe")
    ann.recall("sister Zoe")
    db._services.usage.flush()

    assert ann.forget(session="trip", expected=digest).removed["sessions"] == 1


def test_a_session_has_a_preview_of_its_selectors(ann: Scope) -> None:
    """Also of the newest messages, and of a branch."""
    chat = ann.session("trip")
    page = chat.forget(last=3, dry_run=True)
    assert [row.seq for row in page.rows if row.kind == "message"] == [78, 79, 80]
    chat.append("user", "more")
    with pytest.raises(Conflict):
        chat.forget(last=3, expected=page.digest)
    branch = chat.branch("b", 5)
    branch.append("user", "aside")
    listed = branch.forget(dry_run=True)
    assert [(row.kind, row.branch) for row in listed.rows] == [("session", "b"), ("message", "b")]


def test_a_thousand_rows_are_listed_and_the_others_counted(ann: Scope) -> None:
    """The digest is of all: what came behind the last row makes it another."""
    ann.session("long").extend([{"role": "user", "text": f"Day {n}."} for n in range(1200)])
    found = ann.forget(session="long", dry_run=True)

    assert (len(found.rows), found.more_rows) == (1000, 201)
    ann.session("long").append("user", "more")
    with pytest.raises(Conflict):
        ann.forget(session="long", expected=found.digest)


def test_of_an_entry_that_never_was_nothing_goes(ann: Scope) -> None:
    """As `forget` says."""
    assert ann.forget(entry=1, dry_run=True).rows == ()
