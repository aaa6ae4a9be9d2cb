"""What recall is limited to: categories, roles, authors, metadata, partitions, sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

import memdb
import memdb.aio

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("message", "entry", "artifact", "summary")

# What is asked -> what is found, by the letter behind "tea".
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdemosx"),
    ({"categories": ["preferences"]}, "ms"),
    ({"categories": ["preferences", "facts"]}, "mos"),
    ({"categories": []}, ""),
    ({"categories": ["never"]}, ""),
    ({"roles": ["user"]}, "ac"),
    ({"roles": ["assistant", "tool"]}, "bd"),
    ({"roles": []}, ""),
    ({"authors": ["Ann"]}, "a"),
    ({"authors": ["Ann", "Bob"]}, "ac"),
    ({"authors": ["ann"]}, ""),
    ({"authors": ["Ann"], "roles": ["assistant"]}, ""),
    ({"where": {}}, "abcdemosx"),
    ({"where": {"of": "mail"}}, "aem"),
    ({"where": {"of": "mail", "n": 1}}, "a"),
    ({"where": {"n": True}}, "b"),
    ({"where": {"n": None}}, "m"),
    ({"where": {"of": ["x"]}}, "s"),
    ({"where": {"of": "mail"}, "roles": ["user"]}, "a"),
    ({"where": {"of": "mail"}, "categories": ["preferences"]}, "m"),
    ({"partition": "both"}, "abcdemosx"),
    ({"partition": "own"}, "abcdemox"),
    ({"partition": "shared"}, "s"),
    ({"partition": "shared", "categories": ["facts"]}, ""),
    ({"session": "one"}, "abhmosx"),
    ({"session": "one", "scope_entries": False}, "abhm"),
    ({"session": "two"}, "cdemosx"),
    ({"session": "two", "scope_entries": False}, "cdex"),
    ({"session": "never"}, "mosx"),
    ({"session": "never", "scope_entries": False}, ""),
    ({"where": {"n": float("nan")}}, ""),  # no file holds it
    ({"session": "two", "roles": ["user"]}, "c"),
    ({"since": "1970-01-02", "roles": ["user"]}, "ac"),
]

# What is asked -> the field that the error names.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"categories": "preferences"}, "categories is 'preferences': give a list"),
    ({"categories": [1]}, "categories"),
    ({"categories": ["a\0b"]}, "categories"),
    ({"roles": ["model"]}, "roles is 'model': use one of system, user"),
    ({"roles": "user"}, "roles"),
    ({"roles": [None]}, "roles"),
    ({"authors": "Ann"}, "authors"),
    ({"authors": [""]}, "authors"),
    ({"where": "of=mail"}, "where"),
    ({"where": {1: "a"}}, "where"),
    ({"where": {"n": b"bytes"}}, "where"),
    ({"partition": "mine"}, "partition is 'mine': use one of both, own, shared"),
    ({"partition": None}, "partition"),
    ({"scope_entries": 1}, "scope_entries"),
    ({"kinds": ["entry"], "roles": ["user"]}, "kinds entry cannot be searched with roles"),
    ({"kinds": ["artifact"], "where": {"a": 1}}, "where is for message and entry"),
    ({"categories": ["facts"], "authors": ["Ann"]}, "recall twice"),
    ({"partition": "shared", "group": "session"}, "group"),
]


def fill(db: memdb.MemDB) -> memdb.Scope:
    """Return a scope of four messages, six entries (one shared) and an archived message."""
    ann = db.scope("ann")
    ann.session("one").extend(
        [
            {"role": "user", "text": "tea a", "author": "Ann", "metadata": {"of": "mail", "n": 1}},
            {"role": "assistant", "text": "tea b", "metadata": {"n": True}},
        ]
    )
    ann.session("two").extend(
        [
            {"role": "user", "text": "tea c", "author": "Bob"},
            {"role": "tool", "text": "tea d", "metadata": {"of": 1}},
            {"role": "system", "text": "tea e", "metadata": {"of": "mail"}},
        ]
    )
    ann.session("two").archive(keep_last=0)
    add = ann.remember
    add("tea m", category="preferences", session="one", metadata={"of": "mail", "n": None})
    add("tea o", category="facts", key="o")
    add("tea h", category="facts", key="h", session="one", session_only=True)
    add("tea x", category="events", key="x", session="two")
    db.shared().remember("tea s", category="preferences", key="s", metadata={"of": ["x"]})
    db.scope("bob").remember("tea z", category="preferences", metadata={"of": "mail"})
    return ann


@pytest.fixture
def ann(path: str, open_db: Any) -> memdb.Scope:
    """Return the filled scope, searched by words."""
    db = open_db(path, embedder=None)
    db.settings.update(categories=[memdb.Category("facts")])
    return fill(db)


def letters(hits: Iterable[memdb.Hit]) -> str:
    """Return what the hits say behind "tea", sorted."""
    return "".join(sorted(hit.text.removeprefix("tea ") for hit in hits))


@pytest.mark.parametrize("by", ["words", "meaning"])
def test_filters_let_through_what_they_name(ann: memdb.Scope, by: Any) -> None:
    """Every filter, alone and with others; of the past too."""
    found, past = {}, {}
    for asked, _ in FILTERS:
        found[str(asked)] = letters(ann.recall("tea", 100, by=by, **asked))
        now = ann._services.db.clock() + 1
        past[str(asked)] = letters(ann.recall("tea", 100, by=by, as_of=now, **asked))

    expected = {str(asked): letters for asked, letters in FILTERS}
    assert found == expected
    assert past == expected


def test_a_session_has_the_same_filters(ann: memdb.Scope) -> None:
    """`Session.recall` is `Scope.recall` with its name."""
    for name in ("one", "two", "never"):
        for asked, _ in FILTERS:
            if "session" not in asked:
                there = ann.session(name).recall("tea", 100, **asked)
                assert letters(there) == letters(ann.recall("tea", 100, session=name, **asked))


@each("asked, named", REFUSED)
def test_what_no_filter_can_mean_is_refused(
    ann: memdb.Scope, asked: dict[str, Any], named: str
) -> None:
    """By the name of the field."""
    with pytest.raises(memdb.InvalidInput, match=named):
        ann.recall("tea", **asked)


def test_asyncio_has_the_same_filters(path: str, open_db: Any) -> None:
    """Each gives what the same synchronous call gives."""
    with open_db(path, embedder=None) as db:
        db.settings.update(categories=[memdb.Category("facts")])
        fill(db)

    async def ask() -> dict[str, str]:
        async with memdb.aio.open(path, counter="estimate", embedder=None) as db:
            ann = db.scope("ann")
            return {
                str(asked): letters(await ann.recall("tea", 100, **asked)) for asked, _ in FILTERS
            }

    assert asyncio.run(ask()) == {str(asked): letters for asked, letters in FILTERS}


def test_a_session_only_entry_is_of_its_session(path: str, open_db: Any) -> None:
    """The scope and other sessions do not recall it; by meaning neither."""
    ann = open_db(path).scope("ann")
    for name in ("s1", "s2"):
        ann.session(name).append("user", "hi")
    ann.remember("Codeword banana.", session="s1", session_only=True)
    ann.remember("Ann likes bananas.")

    def texts(**asked: Any) -> list[str]:
        hits = ann.recall("banana codeword", kinds=["entry"], min_score=0, **asked)
        return sorted(hit.text for hit in hits)

    assert texts() == ["Ann likes bananas."]
    assert texts(session="s2") == ["Ann likes bananas."]
    assert texts(session="s1") == ["Ann likes bananas.", "Codeword banana."]
    assert texts(session="s1", scope_entries=False) == ["Codeword banana."]


def test_partitions_of_what_all_users_share(path: str, open_db: Any) -> None:
    """Asked by itself, its entries are both own and shared; own ones hide none of "shared"."""
    db = open_db(path, embedder=None)
    db.shared().remember("The lamp is red.", key="lamp")
    db.scope("ann").remember("The lamp is blue.", key="lamp")
    asked = [(scope, part) for scope in ("", "ann") for part in ("both", "own", "shared")]

    found = {
        (scope, part): [
            hit.text
            for hit in (db.scope(scope) if scope else db.shared()).recall("lamp", partition=part)
        ]
        for scope, part in asked
    }

    red, blue = ["The lamp is red."], ["The lamp is blue."]
    assert found == {
        **{("", part): red for part in ("both", "own", "shared")},
        ("ann", "both"): blue,
        ("ann", "own"): blue,
        ("ann", "shared"): red,
    }
