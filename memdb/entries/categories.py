"""
Categories of entries: half-life, expiry, quota and visibility of each.

Every open file has its own registry: what one host adds, another in the same
process does not see.
"""

from __future__ import annotations

from memdb.errors import AlreadyExists, InvalidInput
from memdb.models.record import Record
from memdb.text.validate import DAY_MS, int_value, name_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_DAYS = 36_500
DEFAULT = "events"

# Half-life of a category that is not registered, as in flowcraft.
UNKNOWN_HALF_LIFE_DAYS = 90


class Category(Record):
    """
    A kind of entry.

    Attributes:
        description: What belongs here, in words that a model understands.
        half_life_days: Days after which an entry counts half in a ranking; None
            means that it does not decay.
        ttl_days: Days after which an entry without *expires* expires; None
            means never.
        pinned: Whether its entries belong into every prompt, not only into
            those that they match.
        shared: Whether its entries are for all users of the app.
        quota_percent: Share of a scope's entries that may be of this category.
    """

    name: str
    description: str = ""
    half_life_days: int | None = UNKNOWN_HALF_LIFE_DAYS
    ttl_days: int | None = None
    pinned: bool = False
    shared: bool = False
    quota_percent: int = 100

    @property
    def ttl_ms(self) -> int | None:
        """Value of `ttl_days` in milliseconds."""
        return None if self.ttl_days is None else self.ttl_days * DAY_MS


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
    The categories of an open file; `db.categories`.

    >>> categories = Categories()
    >>> categories.add(Category("recipes", "dishes that worked", half_life_days=None))
    >>> [one.name for one in categories][-2:]
    ['contextual', 'recipes']
    """

    def __init__(self, more: Iterable[Category] = ()) -> None:
        """Register the built-in categories, then *more*."""
        self._by_name = {category.name: category for category in BUILT_IN}
        for category in more:
            self.add(category)

    def add(self, category: Category) -> None:
        """
        Add *category* after the others; an equal one again changes nothing.

        Raises:
            AlreadyExists: another category has this name.
            InvalidInput: a field is out of its range.
        """
        if not isinstance(category, Category):
            raise InvalidInput(f"category is {type(category).__name__}: give a memdb.Category")
        _check(category)
        known = self._by_name.get(ALIASES.get(category.name, category.name))
        if known not in (None, category):
            raise AlreadyExists("category", category.name)
        self._by_name[category.name] = category

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


def _check(category: Category) -> None:
    name_value(category.name, "category.name")
    text_value(category.description, "category.description")
    for field in ("half_life_days", "ttl_days"):
        days = getattr(category, field)
        if days is not None:
            int_value(days, f"category.{field}", 1, MAX_DAYS)
    int_value(category.quota_percent, "category.quota_percent", 1, 100)
    for field in ("pinned", "shared"):
        if not isinstance(getattr(category, field), bool):
            raise InvalidInput(f"category.{field} is no bool: give True or False")
