"""
Deletion service: removes what a selector names, out of the memory or out of the bytes too.

`delete` and `forget` take the same selectors, and remove in one transaction.
"""

from __future__ import annotations

from memdb.deletion import proof, rewriting, selectors
from memdb.errors import Busy, InvalidInput
from memdb.models.ids import session_range
from memdb.models.receipts import Receipt
from memdb.records import archive as archive_records
from memdb.records import artifacts as artifact_records
from memdb.records import entries as entry_records
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.records import tombstones as tombstone_records
from memdb.tables import archive, messages, removal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.deletion.rewriting import Rewriting
    from memdb.deletion.selectors import Selection, Selector
    from memdb.engine.base import Tx
    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.proof import Probes
    from memdb.records.scopes import Owner
    from memdb.summaries.builder import Summaries

    Counts = dict[str, int]

# How often the summaries are planned anew because another process changed them.
MAX_TRIES = 10


class DeletionService:
    """Deletes and forgets what scopes hold."""

    def __init__(self, db: Database, summaries: Callable[[], Summaries]) -> None:
        """Remove from *db*; *summaries* gives the service that rewrites them."""
        self._db = db
        self._summaries = summaries

    def delete(self, owner: Owner, selector: Selector, *, dry_run: bool = False) -> Receipt:
        """
        Remove what *selector* names from the memory; its bytes may stay in the file.

        Entries told by deleted messages stay, but for those that only a deleted
        session recalls. Summaries that stood for deleted messages are made anew.

        Args:
            dry_run: Remove nothing, and return what would be removed.

        Raises:
            NotFound: the scope never had such an entry.
            Corrupt: an archived message cannot be taken out of a damaged part.

        Transaction: opens its own, or joins the caller's.
        """
        if dry_run:
            with self._db.read() as tx:
                selection = selectors.find(tx, owner, selector, with_entries=False)
                counts = _count(tx, owner, selection)
                return self._receipt(owner, selector, counts, {}, self._db.clock(), dry_run=True)
        with self._db.write() as tx:
            selection = selectors.find(tx, owner, selector, with_entries=False)
            counts = _count(tx, owner, selection)
            for part in selection.parts:
                message_records.remove(tx, part.session, part.seqs)
            for place in selection.artifacts:
                artifact_records.remove(tx, place)
            _remove_entries(tx, selection)
            for _, name in selection.whole:
                session_records.remove(tx, owner, name)
            for name_or_all in selection.state:
                state_records.remove_user(tx, owner, name_or_all)
            return self._receipt(owner, selector, counts, {}, tx.now_ms)

    def forget(
        self, owner: Owner, selector: Selector, *, prove: bool = False, dry_run: bool = False
    ) -> Receipt:
        """
        Remove what *selector* names for good, with the entries told by it; see `Scope.forget`.

        Args:
            prove: Also take its bytes off the disk, and search the file for them.
            dry_run: Remove nothing, and return what would be removed.

        Raises:
            InvalidInput: it was called inside a write.
            NotFound: the scope never had such an entry.
            Busy: other processes kept writing.
            Corrupt: an archived message cannot be taken out of a damaged part.
        """
        if self._db.writing:
            raise InvalidInput("forget was called inside a write: call it after the transaction")
        if dry_run:
            with self._db.read() as tx:
                selection = selectors.find(tx, owner, selector, with_entries=True)
                plans = self._plan(tx, selection)
                counts = _count(tx, owner, selection), _count_rewritten(tx, selection, plans)
            return self._receipt(owner, selector, *counts, self._db.clock(), dry_run=True)
        probes = _new_probes() if prove else None
        for _ in range(MAX_TRIES):
            with self._db.read() as tx:
                plans = self._plan(tx, selectors.find(tx, owner, selector, with_entries=True))
            receipt = self._try(owner, selector, plans, probes)
            if receipt is not None:
                return receipt if probes is None else self._prove(owner, receipt, probes)
        raise Busy("the summaries of the session kept changing: try again")

    def _receipt(
        self,
        owner: Owner,
        selector: Selector,
        removed: Counts,
        rewritten: Counts,
        at_ms: int,
        *,
        dry_run: bool = False,
    ) -> Receipt:
        from hashlib import sha256  # 3 ms that opening a file does not need

        subject = f"{selector.what}\n{selector.subject(owner)}"
        digest = sha256(subject.encode()).hexdigest()
        return Receipt(selector.what, digest, removed, rewritten, at_ms, dry_run=dry_run)

    def _plan(self, tx: Tx, selection: Selection) -> dict[int, Rewriting]:
        """Return the new summaries of each session that loses messages."""
        if not selection.parts:
            return {}
        summaries = self._summaries()
        return {part.session: rewriting.plan(tx, part, summaries) for part in selection.parts}

    def _try(
        self, owner: Owner, selector: Selector, plans: dict[int, Rewriting], probes: Probes | None
    ) -> Receipt | None:
        """Forget in one transaction; None if the file is no longer as it was planned."""
        from memdb.engine.sqlite.proof import begin_purge, end_purge

        with self._db.write() as tx:
            selection = selectors.find(tx, owner, selector, with_entries=True)
            for part in selection.parts:
                planned = plans.get(part.session)
                if planned is None or not rewriting.is_current(tx, part, planned):
                    return None
            if probes is not None:
                proof.collect(tx, owner, selection, plans, probes)
            begin_purge(tx)
            counts = _count(tx, owner, selection), _count_rewritten(tx, selection, plans)
            self._remove(tx, owner, selection, plans)
            end_purge(tx)
            return self._receipt(owner, selector, *counts, tx.now_ms)

    def _remove(
        self, tx: Tx, owner: Owner, selection: Selection, plans: dict[int, Rewriting]
    ) -> None:
        for part in selection.parts:
            rewriting.apply(tx, part, plans[part.session], self._summaries())
        _remove_entries(tx, selection)
        for place in selection.artifacts:
            artifact_records.forget(tx, place)
        for _, name in selection.whole:
            session_records.forget(tx, owner, name)
        for name_or_all in selection.state:
            state_records.remove_user(tx, owner, name_or_all)
        scope_no = owner.find(tx)
        if None in selection.state and scope_no is not None:
            tombstone_records.hide_all(tx, scope_no)

    def _prove(self, owner: Owner, receipt: Receipt, probes: Probes) -> Receipt:
        """Return *receipt* with the proof, after everything was taken off the disk."""
        from memdb.engine.sqlite.proof import prove, purge

        notices = purge(self._db)
        with self._db.read() as tx:
            scope_no = owner.find(tx)
        return receipt.replace(proof=prove(self._db, probes, notices, scope_no))


def _remove_entries(tx: Tx, selection: Selection) -> None:
    for entry_id in selection.entries:
        entry_records.remove(tx, entry_id)
    for entry_id, version, *_ in selection.versions:
        entry_records.remove_version(tx, entry_id, version)


def _count(tx: Tx, owner: Owner, selection: Selection) -> Counts:
    """Return how many of each kind go."""
    sessions = [session for session, _ in selection.whole]
    parts = sum(len(part.seqs) for part in selection.parts)
    state = [removal.state(tx, owner.app, owner.user, name) for name in selection.state]
    return {
        "messages": parts + sum(messages.count(tx, *session_range(one)) for one in sessions),
        "sessions": len(sessions),
        "entries": len(selection.entries),
        "versions": len(selection.versions),
        "summaries": sum(len(removal.node_texts(tx, one)) for one in sessions),
        "artifacts": len(selection.artifacts),
        "state": sum(map(len, state)),
    }


def _count_rewritten(tx: Tx, selection: Selection, plans: dict[int, Rewriting]) -> Counts:
    """Return how many summaries and archive segments stay without what goes."""
    summaries = sum(made is not None for plan in plans.values() for _, made in plan.summaries)
    segments = sum(
        len(archive.touched(tx, part.session, *block))
        for part in selection.parts
        for block in archive_records.find_blocks(tx, part.session, part.seqs)
    )
    return {"summaries": summaries, "segments": segments}


def _new_probes() -> Probes:
    from memdb.engine.sqlite.proof import Probes as NewProbes

    return NewProbes()
