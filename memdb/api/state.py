"""State, as `session.state`, `scope.state` and `db.state()` give it. Delegates; no rules here."""

from __future__ import annotations

from collections.abc import MutableMapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.api._container import Services
    from memdb.records.scopes import Owner
    from memdb.tables.state import Place


class State(MutableMapping):  # type: ignore[type-arg]  # str to anything that JSON can hold
    """
    Values under keys, of an app, of a user of it, or of a session: a dict in the file.

    Values are what JSON can hold and come back equal, integers and floats of
    any size included; None is a value. Each call reads or writes the file, so
    changing a list that was read changes nothing: set it again. A session's
    state goes with the session.

    >>> import memdb
    >>> with memdb.open(":memory:") as db:
    ...     state = db.scope("ann").session("trip").state
    ...     state.update(city="Oslo", nights=3)
    ...     state["nights"] += 1
    ...     state.all()
    {'city': 'Oslo', 'nights': 4}
    """

    def __init__(self, services: Services, place: Place, owner: Owner | None = None) -> None:
        """Use `session.state`, `scope.state` or `db.state()` instead."""
        self._hosting = services.hosting
        self._place = place
        self._owner = owner

    def all(self) -> dict[str, Any]:
        """Return every value by key, in the order of the keys: one read."""
        return self._hosting.values(self._place)

    def __getitem__(self, key: str) -> Any:
        """Return a value; KeyError without one."""
        found = self._hosting.value(self._place, key)
        if found is None:
            raise KeyError(key)
        return found[0]

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a value; InvalidInput if it has no JSON form."""
        self._hosting.put(self._owner, self._place, {key: value})

    def __delitem__(self, key: str) -> None:
        """Remove a key; KeyError without it."""
        if not self._hosting.remove(self._place, key):
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, in order."""
        return iter(self.all())

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self.all())

    def update(self, *given: Any, **values: Any) -> None:
        """Set several values, all or none; arguments as for a dict's `update`."""
        self._hosting.put(self._owner, self._place, dict(*given, **values))

    def clear(self) -> None:
        """Remove every key."""
        self._hosting.clear(self._place)

    def __repr__(self) -> str:
        """Show the values."""
        return f"<State {self.all()!r}>"
