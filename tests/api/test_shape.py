"""One shape for every collection: what is absent, and in what order lists are, in a table."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import Conflict, InvalidInput, NotFound, Page, Receipt
from memdb.adapters.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB, Scope

# What is asked of a thing that is not there. None of these raises: only `get` and what needs
# the thing, such as `update`, do.
REMOVED: dict[str, Callable[[Scope], object]] = {
    "entries.delete": lambda ann: ann.entries.delete(9),
    "entries.unlink": lambda ann: ann.entries.unlink(9, 8),
    "items.delete": lambda ann: ann.items.delete(("n",), "k"),
    "items.clear": lambda ann: ann.items.clear(("n",)),
    "artifacts.delete": lambda ann: ann.artifacts.delete("a.md"),
    "state.delete": lambda ann: ann.state.delete("k"),
    "state.clear": lambda ann: ann.state.clear(),
    "summaries.delete": lambda ann: ann.session("none").summaries.delete("1-2"),
    "session.pop": lambda ann: ann.session("none").pop(),
    "session.replace": lambda ann: ann.session("none").replace([1]),
    "session.clear": lambda ann: ann.session("none").clear(),
    "session.delete": lambda ann: ann.session("none").delete(),
    "session.delete seqs": lambda ann: ann.session("none").delete([3]),
    "session.forget": lambda ann: ann.session("none").forget(),
    "scope.delete entry": lambda ann: ann.delete(entry=9),
    "scope.forget entry": lambda ann: ann.forget(entry=9),
    "scope.forget session": lambda ann: ann.forget(session="none"),
    "scope.forget query": lambda ann: ann.forget(query="zebra"),
    "host.erase": lambda ann: Host(ann.session("none")).erase(1),
}
FOUND: dict[str, Callable[[Scope], object]] = {
    "entries.find": lambda ann: ann.entries.find("home"),
    "entries.history": lambda ann: ann.entries.history(9),
    "entries.replaced": lambda ann: ann.entries.replaced(9),
    "entries.links": lambda ann: ann.entries.links(9),
    "items.find": lambda ann: ann.items.find(("n",), "k"),
    "artifacts.versions": lambda ann: ann.artifacts.versions("a.md"),
    "state.find": lambda ann: ann.state.find("k"),
    "session.find": lambda ann: ann.session("none").find("m1"),
    "session.title": lambda ann: ann.session("none").title,
    "session.metadata": lambda ann: ann.session("none").metadata,
    "session.last": lambda ann: ann.session("none").last(3),
    "summaries.list": lambda ann: ann.session("none").summaries.list(),
}
GOT: dict[str, Callable[[Scope], object]] = {
    "entries.get": lambda ann: ann.entries.get(9),
    "entries.update": lambda ann: ann.entries.update(9, text="x"),
    "items.get": lambda ann: ann.items.get(("n",), "k"),
    "artifacts.load": lambda ann: ann.artifacts.load("a.md"),
    "session.get": lambda ann: ann.session("none").get(1),
    "session.edit": lambda ann: ann.session("none").edit(1, {"role": "user", "text": "x"}),
}

# What changes a thing only if it is as the caller read it: how the thing is read, and the call.
STALE: dict[str, tuple[Callable[[Scope], Any], Callable[[Scope, Any], object]]] = {
    "append": (
        lambda ann: ann.session("s").get(1),
        lambda ann, seen: ann.session("s").append("user", "new", expected=seen),
    ),
    "extend": (
        lambda ann: ann.session("s").get(1),
        lambda ann, seen: ann.session("s").extend([{"role": "user", "text": "x"}], expected=seen),
    ),
    "pop": (
        lambda ann: ann.session("s").get(1),
        lambda ann, seen: ann.session("s").pop(expected=seen),
    ),
    "replace": (
        lambda ann: ann.session("s").get(1),
        lambda ann, seen: ann.session("s").replace([1], expected=seen),
    ),
    "entries.update": (
        lambda ann: ann.entries.get(1),
        lambda ann, seen: ann.entries.update(1, text="new", expected=seen),
    ),
    "entries.delete": (
        lambda ann: ann.entries.get(1),
        lambda ann, seen: ann.entries.delete(1, expected=seen),
    ),
    "entries.revert": (
        lambda ann: ann.entries.get(1),
        lambda ann, seen: ann.entries.revert(1, 1, expected=seen),
    ),
    "entries.supersede": (
        lambda ann: ann.entries.get(1),
        lambda ann, seen: ann.entries.supersede(1, 2, expected=seen),
    ),
    "items.put": (
        lambda ann: ann.items.get(("n",), "k"),
        lambda ann, seen: ann.items.put(("n",), "k", "new", expected=seen),
    ),
    "items.delete": (
        lambda ann: ann.items.get(("n",), "k"),
        lambda ann, seen: ann.items.delete(("n",), "k", expected=seen),
    ),
    "artifacts.save": (
        lambda ann: ann.artifacts.load("user:a").info,
        lambda ann, seen: ann.artifacts.save("user:a", "new", expected=seen),
    ),
    "artifacts.rename": (
        lambda ann: ann.artifacts.load("user:a").info,
        lambda ann, seen: ann.artifacts.rename("user:a", "user:b", expected=seen),
    ),
    "artifacts.delete": (
        lambda ann: ann.artifacts.load("user:a").info,
        lambda ann, seen: ann.artifacts.delete("user:a", expected=seen),
    ),
    "state.put": (
        lambda ann: ann.state.find("k"),
        lambda ann, seen: ann.state.put("k", "new", expected=seen),
    ),
    "state.delete": (
        lambda ann: ann.state.find("k"),
        lambda ann, seen: ann.state.delete("k", expected=seen),
    ),
    "session.update": (
        lambda ann: ann.session("s").update(),
        lambda ann, seen: ann.session("s").update(metadata={"b": 2}, expected=seen),
    ),
    "forget": (
        lambda ann: ann.forget(session="s", dry_run=True),
        lambda ann, seen: ann.forget(session="s", expected=seen),
    ),
    "session.forget": (
        lambda ann: ann.session("s").forget(dry_run=True),
        lambda ann, seen: ann.session("s").forget(expected=seen),
    ),
}

# Lists, and how one row of each is made: the number says which.
LISTS: dict[str, tuple[Callable[..., Any], Callable[[Scope, int], object]]] = {
    "sessions": (
        lambda ann, **given: ann.sessions(**given),
        lambda ann, n: ann.session(f"s{n}").append("user", "hi"),
    ),
    "messages": (
        lambda ann, **given: ann.session("s").messages(**given),
        lambda ann, n: ann.session("s").append("user", f"m{n}"),
    ),
    "entries.list": (
        lambda ann, **given: ann.entries.list(**given),
        lambda ann, n: ann.remember(f"Fact {n}.", category="events"),
    ),
    "items.list": (
        lambda ann, **given: ann.items.list(**given),
        lambda ann, n: ann.items.put(("n",), f"k{n}", n),
    ),
    "items.keys": (
        lambda ann, **given: ann.items.keys(("n",), **given),
        lambda ann, n: ann.items.put(("n",), f"k{n}", n),
    ),
    "items.namespaces": (
        lambda ann, **given: ann.items.namespaces(**given),
        lambda ann, n: ann.items.put((f"n{n}",), "k", n),
    ),
    "artifacts.list": (
        lambda ann, **given: ann.artifacts.list(**given),
        lambda ann, n: ann.artifacts.save(f"a{n}.md", "x"),
    ),
    "summaries.list": (
        lambda ann, **given: ann.session("s").summaries.list(**given),
        lambda ann, n: ann.session("s").extend(
            [{"role": "user", "text": f"We saw {n} {one} ferries. " * 9} for one in range(60)]
        ),
    ),
}
REMOVES = re.compile("(Remove|Delete|Drop|Erase|Forget|Purge|Clear)s? ")

# Other calls that take `limit`.
LIMITED: dict[str, Callable[[Scope, Any], Any]] = {
    "recall": lambda ann, limit: ann.recall("fact", limit),
    "session.recall": lambda ann, limit: ann.session("s").recall("fact", limit),
    "items.recall": lambda ann, limit: ann.items.recall("fact", limit),
    "items.recall of a vector": lambda ann, limit: ann.items.recall(vector=[1.0], limit=limit),
    "last": lambda ann, limit: ann.session("s").last(limit),
}


def test_what_removes_has_one_of_four_names() -> None:
    """Whatever it removes; `pop` returns it, and `replace` puts another thing in its place."""
    names = [name for names in memdb._HOMES.values() for name in names.split()]
    calls = {
        f"{owner}.{name}": call
        for owner in names
        if inspect.isclass(getattr(memdb, owner))
        for name, call in vars(getattr(memdb, owner)).items()
        if inspect.isfunction(call) and not name.startswith("_")
    }
    removing = {name for name, call in calls.items() if REMOVES.match((call.__doc__ or "").strip())}
    verbs = {name.rpartition(".")[2].partition("_")[0] for name in removing}

    assert {"Entries.delete", "Summaries.delete", "File.delete_space"} <= removing
    assert verbs == {"delete", "forget", "clear", "pop", "replace"}
    asked = {name.partition(" ")[0] for name in REMOVED}
    assert {name.lower() for name in removing} - asked == {"file.delete_space", "folder.delete"}


def is_nothing(value: object) -> bool:
    """Say whether an answer is False, zero, None, empty, or a receipt of zeros."""
    if isinstance(value, Receipt):
        return not any(value.removed.values())
    return not value


@pytest.mark.parametrize("is_new", [True, False])
def test_what_is_absent_is_answered_in_one_way(db: MemDB, is_new: bool) -> None:
    """Also in a scope that was never written to: removals and finds answer nothing, `get` raises."""
    if not is_new:
        db.user("ann").remember("Ann likes tea.")
    wrong: list[Any] = []
    for name, call in (REMOVED | FOUND).items():
        try:
            value = call(db.user("ann"))
        except NotFound:
            value = "NotFound"
        if not is_nothing(value):
            wrong.append((name, value))
    for name, call in GOT.items():
        with suppress(NotFound):
            wrong.append((name, call(db.user("ann"))))

    assert wrong == []
    assert db.file.delete_space("none") is None


def test_an_unknown_keyword_is_named_with_the_known_ones(db: MemDB) -> None:
    """Also where these stand in a TypedDict. Settings refuse one as a field, see test_settings."""
    ann = db.user("ann")
    handles = (ann, ann.session("s"), ann.entries)
    found = {
        f"{type(one).__name__}.{name}": partial(getattr(one, name), *["x"] * (name == "recall"))
        for one in handles
        for name, call in vars(type(one)).items()
        if inspect.isfunction(call) and "Unpack[" in str(call.__annotations__)
    }
    assert len(found) == 7
    for name, call in found.items():
        wanted = rf"{name} has no argument 'colour': use \w+, .*\w"
        with pytest.raises(TypeError, match=wanted):
            call(colour="red")


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_a_page(db: MemDB, name: str) -> None:
    """It has `next` while more follows; limit=0 gives none, a wrong limit or after is named."""
    ann = db.user("ann")
    listing, make = LISTS[name]
    assert listing(ann) == []
    for number in range(5):
        make(ann, number)
    db.jobs.run()
    whole = listing(ann)
    pages: list[Any] = [listing(ann, limit=2)]
    while (last := pages[-1].next) is not None:
        assert last == pages[-1][-1]
        given = last.to_dict() if len(pages) % 2 and hasattr(last, "to_dict") else last
        pages.append(listing(ann, limit=2, after=given))

    assert {type(one) for one in (whole, *pages)} == {Page}
    assert [one for page in pages for one in page] == whole
    assert len(whole) >= 5
    assert (whole.next, listing(ann, limit=len(whole)).next) == (None, None)
    assert listing(ann, limit=0) == []
    for limit in (-1, "5", 2.0, True):
        with pytest.raises(InvalidInput, match="limit"):
            listing(ann, limit=limit)
    with pytest.raises(InvalidInput, match="after"):
        listing(ann, after=2.5)


def test_limit_means_the_same_everywhere(db: MemDB) -> None:
    """Nothing for 0, and an error that names it for what is no number of rows."""
    ann = db.user("ann")
    ann.session("s").append("user", "A fact.")
    ann.remember("Fact 1.")
    ann.items.put(("n",), "k", "A fact.")
    ann.items.put(("n",), "v", 1, vectors=[[1.0]])
    wrong = [name for name, call in LIMITED.items() if not call(ann, 5) or len(call(ann, 0))]
    for name, call in LIMITED.items():
        for limit in (-1, "5", 2.0):
            try:
                wrong.append((name, call(ann, limit)))
            except InvalidInput as error:
                if not str(error).startswith(("limit is", "n is")):
                    wrong.append((name, error))

    assert wrong == []


def change_all(ann: Scope, word: str) -> None:
    """Change one of each, or make it."""
    ann.session("s").append("user", word)
    ann.session("s").update(metadata={"a": word})
    if not any(ann.entries.list()):
        ann.remember("Ann likes tea.")
        ann.remember("Oslo is cold.")
    ann.entries.update(1, text=f"Ann likes {word}.")
    ann.items.put(("n",), "k", word)
    ann.artifacts.save("user:a", word)
    ann.state["k"] = word


@pytest.mark.parametrize("name", ["number", "what was read", "no number"])
def test_what_is_stale_changes_nothing(db: MemDB, name: str) -> None:
    """Every change takes *expected*: what was read, or its number, and names it if it is none."""
    ann = db.user("ann")
    change_all(ann, "tea")
    seen = {verb: read(ann) for verb, (read, _) in STALE.items()}
    change_all(ann, "cake")
    before = ann.entries.get(1), ann.session("s").last(9), ann.state.all(), ann.items.list()
    wrong = []
    for verb, (_, change) in STALE.items():
        known: Any = seen[verb]
        if name == "number" and verb != "session.update":
            numbers = ("digest", "version", "seq")
            known = next(getattr(known, one) for one in numbers if hasattr(known, one))
        try:
            wrong.append((verb, change(ann, [] if name == "no number" else known)))
        except InvalidInput as error:
            if name != "no number" or "expected is list" not in str(error):
                wrong.append((verb, error))
        except Conflict as error:
            if name == "no number":
                wrong.append((verb, error))

    assert wrong == []
    now = ann.entries.get(1), ann.session("s").last(9), ann.state.all(), ann.items.list()
    assert now == before


def test_lists_by_time_have_the_newest_first(db: MemDB, clock: Any) -> None:
    """Of entries, items, artifacts and sessions, by either time."""
    ann = db.user("ann")
    for number in range(3):
        ann.remember(f"Fact {number}.", category="events")
        ann.items.put(("n",), f"k{number}", number)
        ann.artifacts.save(f"a{number}.md", "x")
        ann.session(f"s{number}").append("user", "hi")
        clock.advance(1_000)
    wrong = []
    for order in ("updated", "created"):
        lists: dict[str, list[str]] = {
            "entries": [one.text[-2] for one in ann.entries.list(order=order)],
            "items": [one.key[-1] for one in ann.items.list(order=order)],
            "artifacts": [one.name[-4] for one in ann.artifacts.list(order="updated")],
            "sessions": [one.name[-1] for one in ann.sessions(order=order)],
        }
        if order == "created":
            del lists["artifacts"]  # a name has one time, that of its newest version
        wrong += [(order, name, found) for name, found in lists.items() if found != ["2", "1", "0"]]

    assert wrong == []
