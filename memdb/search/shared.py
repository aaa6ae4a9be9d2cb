"""
Entries that all users of an app share, if they are in another file than one user's own.

Its entries get ids of a scope that no file has, so they cannot be taken for own entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from memdb.models.ids import MAX_SCOPE_NO, SCOPE_SHIFT, number_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from memdb.engine.base import Row
    from memdb.models.entries import Entry
    from memdb.models.messages import Hits
    from memdb.records.scopes import ScopeRef
    from memdb.search.request import SearchRequest

    # Entries of every prompt, the newest others, and what some of them outdate by their ids. The
    # first two as rows of `entries.list_known`.
    Known = tuple[list[Row], list[Row], dict[int, Entry]]


class SharedEntries(Protocol):
    """The entries that the users of an app share, in another file."""

    def join(self, owner: ScopeRef, request: SearchRequest, own: Hits) -> Hits:
        """Return the hits of a user's own file together with matching shared entries."""

    def known(self, owner: ScopeRef, most: int) -> Known:
        """Return the entries for every prompt of the users of an app; see `ProfileService`."""

    def find(self, owner: ScopeRef, ids: Collection[int]) -> dict[int, Entry]:
        """Return those of *ids* that are of shared entries."""


def foreign_id(entry_id: int) -> int:
    """Return the id of another file's entry among those of this one."""
    return MAX_SCOPE_NO << SCOPE_SHIFT | number_of(entry_id)


def is_foreign(entry_id: int) -> bool:
    """Return whether an id was made by `foreign_id`."""
    return entry_id >> SCOPE_SHIFT == MAX_SCOPE_NO
