"""
Categories of entries: half-life, expiry, quota and visibility of each.

Hosts add categories by `Settings.categories`, which the file stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.settings import MAX_DAYS, Category
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Most important first: the order in which a prompt spends its budget.
# Source: half-lives of docs/seeds/flowcraft.md (profile to cases) and docs/seeds/koopa.md.
BUILT_IN = (
    Category("identity", "lasting traits: name, home, role, languages", None, pinned=True),
    Category("profile", "who the user is: background, family, health", 365, pinned=True),
    Category("preferences", "likes and dislikes, style, tools of choice", 365),
    Category("project", "current work: goals, stack, deadlines", 30, ttl_days=60),
    Category("patterns", "recurring errors, good practice, feedback", 180),
    Category("entities", "projects, teams, places and systems that matter", 90),
    Category("cases", "solved tasks: the task, the way, the result", 60),
    Category("events", "decisions, milestones, plans, incidents", 30),
    Category("contextual", "what matters only for now", 15, ttl_days=30, quota_percent=25),
)
ALIASES = {"preference": "preferences"}


class Categories:
    """
    The categories of a file: the built-in ones and those of its settings.

    >>> categories = Categories([Category("recipes", "dishes that worked", None)])
    >>> [one.name for one in categories][-2:]
    ['contextual', 'recipes']
    """

    def __init__(self, more: Iterable[Category] = ()) -> None:
        """Store the built-in categories, then *more*; one of the same name replaces it."""
        self._by_name = {category.name: category for category in BUILT_IN}
        self._by_name |= {ALIASES.get(one.name, one.name): one for one in more}

    def find(self, name: str) -> Category | None:
        """Return the category with this name or alias; None if there is none."""
        return self._by_name.get(ALIASES.get(name, name))

    def get(self, name: str) -> Category:
        """Return the category with this name or alias; defaults if there is none."""
        return self.find(name) or Category(name)

    def names(self) -> tuple[str, ...]:
        """Return the names, most important first."""
        return tuple(self._by_name)

    def half_lives_ms(self) -> dict[str, int | None]:
        """Return the half-life of each category in milliseconds; None means no decay."""
        lives = {category.name: category.half_life_days for category in self}
        return {name: None if days is None else days * DAY_MS for name, days in lives.items()}

    def lasting(self, first: str, second: str) -> str:
        """Return the category with the longer half-life, *first* if they are equal."""
        lives = [self.get(name).half_life_days or MAX_DAYS + 1 for name in (first, second)]
        return first if lives[0] >= lives[1] else second

    def __iter__(self) -> Iterator[Category]:
        """Iterate over the categories, most important first."""
        return iter(tuple(self._by_name.values()))
