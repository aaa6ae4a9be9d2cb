"""
Scopes and their sessions, by name.

Every service call takes an ScopeRef, so no read or write can forget its scope.
Modules that read sessions import only this module; `memdb.records.sessions` also loads what writing
and removing needs.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from memdb.engine.branches import holds, runs_of
from memdb.models.ids import branch_of, scope_range
from memdb.tables import scopes, sessions
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Engine, Tx
    from memdb.models.entries import Entry
    from memdb.text.screening import SecretScreen


# Whose entries all users of an app see. Nobody can be called so: a name is not empty.
SHARED = ""

# Where adapters keep more of what the users of an app say: each is an app of its own, called
# `APP (PART)`. Forgetting, exporting and scanning an app takes them along.
# GIVEN has the context log.
GIVEN = "given"
PARTS = ("memory", "checkpoints", GIVEN)


def name_part(app: str, part: str) -> str:
    """
    Return the name of the app that contains a part of *app*.

    >>> name_part("travel", "memory")
    'travel (memory)'
    """
    return f"{app} ({part})"


def part_of(app: str) -> str:
    """
    Return which of `PARTS` of another app an app is, "" if it is none.

    >>> part_of("travel (memory)"), part_of("travel (old)")
    ('memory', '')
    """
    return next((part for part in PARTS if app.endswith(name_part("", part))), "")


def composed(name: str) -> str:
    """Return a name with composed letters: two that look alike, as of two systems, are one."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


class ScopeRef:
    """The scope (*app*, *user*) of a file; it need not exist yet."""

    __slots__ = ("__weakref__", "_db", "_scope_no", "_screen", "app", "user")

    def __init__(
        self, db: Engine, app: str, user: str, screen: Callable[[], SecretScreen] | None = None
    ) -> None:
        """
        Name a scope of *db*; the names were validated.

        Args:
            screen: Returns a check that refuses secrets in the names of a new scope. None means
                that the scope exists, or was screened already.
        """
        self._db = db
        self._screen = screen
        self._scope_no: int | None = None
        self.app = composed(app)
        self.user = composed(user)

    def shared(self) -> ScopeRef:
        """Return the scope that all users of the app share."""
        return self if self.user == SHARED else type(self)(self._db, self.app, SHARED, self._screen)

    def family(self, tx: Tx) -> list[ScopeRef]:
        """Return the scope itself, and those of the same user in the parts of its app."""
        named = (name_part(self.app, part) for part in PARTS)
        parts = [type(self)(self._db, app, self.user, self._screen) for app in named]
        return [self, *(one for one in parts if one.find(tx) is not None)]

    def find(self, tx: Tx) -> int | None:
        """Return the scope's number, None before its first write."""
        if self._scope_no is not None:
            return self._scope_no
        known, place = tx.known(), ("scope", self.app, self.user)
        found = known.get(place)
        if found is None:
            found = scopes.find(tx, self.app, self.user)
            if found is not None:
                known[place] = found
        self.remember(found)
        return found

    def expect(self, tx: Tx) -> None:
        """Prefetch what `find` reads."""
        if self._scope_no is None and ("scope", self.app, self.user) not in tx.known():
            scopes.expect(tx, self.app, self.user)

    def admit(self) -> None:
        """
        Show the names of a new scope to a detector of the host, for which no transaction may wait.

        Raises:
            SecretFound: a name contains a secret, and those are refused.

        Transaction: one read, if the host has a detector. What joins a transaction of the
        caller's leaves it to `ensure`.
        """
        if self._scope_no is None and self._screen is not None and not self._db.writing:
            screen = self._screen()
            if screen.has_detector:
                with self._db.read() as tx:
                    is_new = self.find(tx) is None
                if is_new:
                    self._pass_names(screen)

    def _pass_names(self, screen: SecretScreen) -> None:
        screen.pass_fields("scope", {"app": self.app, "user": self.user})
        self._screen = None

    def ensure(self, tx: Tx) -> int:
        """
        Return the scope's number, making the scope if it is absent; see `admit`.

        Raises:
            SecretFound: the scope is new, its names contain a secret, and the settings refuse
                those.
            Unsupported: the file belongs to another user.
            TooLarge: no scope number is left for a new scope.
        """
        if self._scope_no is not None:
            return self._scope_no
        found = self.find(tx)
        if found is None:
            self._db.refuse_user(self.user)
            if self._screen is not None:
                self._pass_names(self._screen())
            found = scopes.ensure(tx, self.app, self.user, self._db.ids(tx.now_ms))
            tx.known()["scope", self.app, self.user] = found
        tx.keep_known()
        return found

    def span(self, tx: Tx) -> tuple[int, int] | None:
        """Return the first and last possible id of the scope, None before its first write."""
        found = self.find(tx)
        return None if found is None else scope_range(found)

    def remember(self, scope_no: int | None) -> None:
        """Keep a committed number; that of an open write may still be rolled back."""
        if self._scope_no is None and not self._db.writing:
            self._scope_no = scope_no


def comes_from(tx: Tx, owner: ScopeRef, session: str | None, entry: Entry) -> bool:
    """Return whether an entry comes from a session, or from the path of a branch."""
    if session is None or entry.session != str(session):
        return False
    if not branch_of(session):
        return entry.branch is None
    target = find_session(tx, owner, session)
    runs = [] if target is None else runs_of(tx, target)
    return holds(runs, entry.branch, entry.first_seq)


def find_session(tx: Tx, owner: ScopeRef, name: str) -> int | None:
    """Return the id of a session or branch by its name, None if the scope has none."""
    name_value(name, "session")
    scope_no = owner.find(tx)
    return None if scope_no is None else sessions.find(tx, scope_no, name, branch_of(name))
