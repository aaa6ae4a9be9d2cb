"""The kinds of entries: what is built in, what a host adds, and what they do to an entry."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each

import memdb
from memdb import Category, MemDB
from memdb.entries.categories import BUILT_IN, DAY_MS, Categories
from memdb.models.entries import decay


def test_both_seeds_have_their_categories(db: MemDB) -> None:
    """The six of the one and the four of the other, one of them as an alias."""
    names = {category.name for category in db.settings.categories()}

    assert {"profile", "preferences", "entities", "events", "cases", "patterns"} <= names
    assert {"identity", "project", "contextual"} <= names
    assert Categories().find("preference") == Categories().find("preferences")


def test_an_alias_is_stored_under_its_name(db: MemDB) -> None:
    """So that one listing has both."""
    entry = db.scope("ann").remember("Ann likes tea.", category="preference").entry

    assert entry.category == "preferences"


@pytest.mark.parametrize(
    ("category", "days"),
    [
        ("profile", 365),
        ("preferences", 365),
        ("patterns", 180),
        ("entities", 90),
        ("cases", 60),
        ("events", 30),
        ("project", 30),
        ("contextual", 15),
        ("unknown", 90),
    ],
)
def test_half_lives(category: str, days: int) -> None:
    """After it an entry counts half; an unknown category has ninety days."""
    half_life = Categories().get(category).half_life_days

    assert half_life == days
    assert decay(days * DAY_MS, days * DAY_MS) == 0.5


def test_identity_never_fades() -> None:
    """Neither in a year nor in thirty."""
    half_life = Categories().get("identity").half_life_days

    assert half_life is None
    assert decay(30 * 365 * DAY_MS, half_life) == 1.0


@pytest.mark.parametrize("age_ms", [0, -1, -(10**12)])
def test_what_is_new_or_of_the_future_has_not_faded(age_ms: int) -> None:
    """A clock that went back does no harm."""
    assert decay(age_ms, DAY_MS) == 1.0


def test_nothing_is_shared_unless_declared() -> None:
    """A person's profile is nobody else's."""
    assert not any(one.shared for one in BUILT_IN)


def test_an_unknown_category_is_refused(db: MemDB) -> None:
    """The error names those that there are; nothing is stored."""
    with pytest.raises(memdb.InvalidInput, match=r"'banana'.*profile.*settings\.update"):
        db.scope("ann").remember("x", category="banana")

    assert db.scopes() == []


def test_a_host_adds_its_own(db: MemDB, clock: Any) -> None:
    """With how long it lasts."""
    db.settings.update(categories=[Category("recipes", "dishes that worked", ttl_days=2)])

    entry = db.scope("ann").remember("Soup of lentils.", category="recipes").entry

    assert entry.expires_ms == clock.now_ms + 2 * DAY_MS
    assert db.settings.categories()[-1].name == "recipes"


def test_a_category_of_the_settings_replaces_a_built_in_one(open_db: Callable[..., MemDB]) -> None:
    """By its name or its alias; the others stay, in their order."""
    db = open_db(":memory:", settings={"categories": [Category("preference", half_life_days=7)]})

    categories = db.settings.categories()

    assert len(categories) == len(BUILT_IN)
    assert categories[2] == Category("preference", half_life_days=7)


def test_what_one_file_adds_another_does_not_know(open_db: Callable[..., MemDB]) -> None:
    """There is no state of the process."""
    one = open_db(":memory:", settings={"categories": [Category("recipes")]})
    other = open_db(":memory:")

    assert "recipes" in {category.name for category in one.settings.categories()}
    assert "recipes" not in {category.name for category in other.settings.categories()}


def test_a_category_that_the_file_holds_can_be_used(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """Also by a program that did not declare it, such as the command line."""
    first = open_db(path, settings={"categories": [Category("recipes")]})
    first.scope("ann").remember("Soup of lentils.", category="recipes")
    first.close()

    done = open_db(path).scope("ann").remember("Bread with olives.", category="recipes")

    assert done.action == "added"


@each(
    "given, field",
    [
        ({"name": ""}, "name"),
        ({"name": "x", "half_life_days": 0}, "half_life_days"),
        ({"name": "x", "ttl_days": -1}, "ttl_days"),
        ({"name": "x", "quota_percent": 101}, "quota_percent"),
        ({"name": "x", "quota_percent": None}, "quota_percent"),
        ({"name": "x", "pinned": 1}, "pinned"),
        ({"name": "x", "shared": None}, "shared"),
        ({"name": "x", "description": None}, "description"),
    ],
)
def test_a_category_is_checked(db: MemDB, given: dict[str, Any], field: str) -> None:
    """Each error names the field, and nothing changes."""
    for category in (Category(**given), given):
        with pytest.raises(memdb.InvalidInput, match=f"category.{field}"):
            db.settings.update(categories=[category])

    assert len(db.settings.categories()) == len(BUILT_IN)


@pytest.mark.parametrize(
    ("said", "ttl_days"),
    [("project", 60), ("contextual", 30), ("events", None), ("identity", None)],
)
def test_the_default_expiry_is_the_categorys(
    db: MemDB, clock: Any, said: str, ttl_days: int | None
) -> None:
    """Some kinds of facts are not for long."""
    entry = db.scope("ann").remember("The stack is Rust.", category=said).entry

    assert entry.expires_ms == (None if ttl_days is None else clock.now_ms + ttl_days * DAY_MS)


def test_never_is_longer_than_the_default(db: MemDB) -> None:
    """The default is for what was not said."""
    entry = (
        db.scope("ann").remember("The stack is Rust.", category="project", expires="never").entry
    )

    assert entry.expires_ms is None


def test_every_way_in_refuses_an_unknown_category(db: MemDB, tmp_path: Any) -> None:
    """Not `remember` alone."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.").entry
    path = tmp_path / "a.jsonl"
    path.write_text('{"kind": "entry", "text": "Ann likes rye bread.", "category": "zork"}\n')
    for call in (
        lambda: ann.remember("Ann likes cake.", category="zork"),
        lambda: ann.entries.update(entry.id, category="zork"),
        lambda: db.import_file(path, user="ann"),
    ):
        with pytest.raises(memdb.InvalidInput, match="category is 'zork'"):
            call()
    assert [one.category for one in ann.entries.list()] == [entry.category]

    db.settings.update(categories=[Category("zork")])
    assert ann.entries.update(entry.id, category="zork").category == "zork"
    db.import_file(path, user="ann")
    db.settings.update(categories=[])
    assert ann.entries.update(entry.id, importance=9).category == "zork"  # it has it already


def test_an_export_keeps_a_category_that_is_unknown_here(
    db: MemDB, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """Nothing of it is lost, also where the entry of its key is older here."""
    db.settings.update(categories=[Category("zork")])
    with open_db(":memory:") as other:
        other.scope("ann").remember("The pet is a cat.", key="pet", created=1_600_000_000_000)
        db.scope("ann").remember("The pet is a dog.", key="pet", category="zork")
        db.export(tmp_path / "a.jsonl", user="ann")
        other.import_file(tmp_path / "a.jsonl", user="ann")

        found = other.scope("ann").entries.find("pet")
        assert found is not None
        assert (found.text, found.category) == ("The pet is a dog.", "zork")
