"""
Calls behind the API that adapters share.

`SharedFile` is the memory that all users of an app share, in a file of its own. `for_client` names
the client that writes, and `note_answer` logs what it was given.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from memdb.engine.blocks import CLIENT
from memdb.errors import InvalidInput
from memdb.models.ids import number_of
from memdb.records.scopes import SHARED
from memdb.search.shared import foreign_id, is_foreign
from memdb.tables import entries as entry_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.models.entries import Entry
    from memdb.models.messages import Hit, Hits, Piece, Source
    from memdb.records.scopes import ScopeRef
    from memdb.search.request import SearchRequest
    from memdb.search.shared import Known

CERTAINTIES = ("none", "unsure", "sure")


class SharedFile:
    """The shared entries of a file, for the services of another one; see `SharedEntries`."""

    def __init__(self, find: Callable[[], MemDB | None], own: MemDB) -> None:
        """
        Read the file that *find* returns beside *own*; None: nothing is shared.
        """
        self._find = find
        self._own = own

    def join(self, owner: ScopeRef, request: SearchRequest, own: Hits) -> Hits:
        """Put each shared hit before the first own one of a lower score."""
        db = self._find()
        is_of_session = request.session is not None and not request.scope_entries
        is_asked = "entry" in request.kinds and request.partition != "own" and not is_of_session
        if db is None or owner.user == SHARED or not is_asked or request.group is not None:
            return own
        asked = request.replace(kinds=("entry",), session=None, partition="both")
        theirs = db._services.recaller.recall(db.shared(owner.app)._owner, asked)
        hits, added = list(own), self._without_own_keys(db, owner, theirs)
        said = {hit.text for hit in hits}
        for hit in added:
            if hit.text not in said:
                at = next((at for at, one in enumerate(hits) if one.score < hit.score), len(hits))
                hits.insert(at, hit)
        ranked = [hit.replace(rank=rank) for rank, hit in enumerate(hits[: request.limit], 1)]
        found = (own.certainty, theirs.certainty if added else "none")
        best = max(found, key=CERTAINTIES.index)
        kept = own if own.arms else theirs  # whose scope is there
        return kept.replace(hits=tuple(ranked), certainty=best)

    def _without_own_keys(self, db: MemDB, owner: ScopeRef, theirs: Hits) -> list[Hit]:
        """Return the shared hits with foreign ids, without those whose key the user has too."""
        ids = [hit.source.entry_id or 0 for hit in theirs]
        with db._db.read() as tx:
            keys = {one.id: one.key for one in entry_rows.get_many(tx, ids).values() if one.key}
        with self._own._db.read() as tx:
            scope_no, now_ms = owner.find(tx), self._own._db.clock()
            taken = set()
            if scope_no is not None:
                held = {
                    key: entry_rows.find_key(tx, scope_no, key, now_ms) for key in keys.values()
                }
                taken = {key for key, found in held.items() if found is not None}
        return [
            hit.replace(
                source=_foreign(hit.source),
                also=tuple(map(_foreign, hit.also)),
                outdated_by=hit.outdated_by and foreign_id(hit.outdated_by),
            )
            for hit in theirs
            if keys.get(hit.source.entry_id or 0) not in taken
        ]

    def known(self, owner: ScopeRef, most: int) -> Known:
        """Return the entries that belong into every prompt of the users of an app."""
        db = self._find()
        if db is None or owner.user == SHARED:
            return [], [], {}
        *known, before = db._services.profiles.known(db.shared(owner.app)._owner, None, most)
        always, others = ([(foreign_id(row[0]), *row[1:]) for row in rows] for rows in known)
        return always, others, {foreign_id(newest): _moved(old) for newest, old in before.items()}

    def find(self, owner: ScopeRef, ids: Collection[int]) -> dict[int, Entry]:
        """Return the *ids* that belong to shared entries."""
        db, wanted = self._find(), [one for one in ids if is_foreign(one)]
        if db is None or not wanted:
            return {}
        with db._db.read() as tx:
            low, _ = db.shared(owner.app)._owner.span(tx) or (0, 0)
            found = entry_rows.get_many(tx, [low + number_of(one) for one in wanted])
        return {one.id: one for one in map(_moved, found.values())}


def _foreign(source: Source) -> Source:
    number = source.entry_id
    return source.replace(entry_id=None if number is None else foreign_id(number), shared=True)


def _moved(entry: Entry) -> Entry:
    return entry.replace(id=foreign_id(entry.id))


@contextmanager
def for_client(db: MemDB, name: str | None) -> Iterator[None]:
    """Make *name* the writer in a `with` block, unless it is None or cannot be stored."""
    token = CLIENT.set(None)
    try:
        if name is not None:
            with suppress(InvalidInput):
                CLIENT.set(db._services.writer_name(name))
        yield
    finally:
        CLIENT.reset(token)


def note_answer(scope: Scope, tool: str, find: Callable[[], list[Piece]]) -> None:
    """Note in the context log which rows an answer of a tool gave, as *find* returns them."""
    services = scope._services
    if days := services.settings.context_log_days:
        services.context_log.note_answer(scope._owner, tool, find(), days)
