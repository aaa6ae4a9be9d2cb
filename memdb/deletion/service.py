"""
Deletion service: removes what a selector names, out of the memory or out of the bytes too.

`delete` and `forget` take the same selectors, and remove in one transaction.
Summaries over forgotten messages keep their place and span, and are rewritten
without them: planned before that transaction, which checks that nothing changed.
"""

from __future__ import annotations

from memdb.deletion import proof, selectors
from memdb.errors import Busy, InvalidInput
from memdb.models.ids import session_range
from memdb.models.receipts import Receipt
from memdb.models.record import Record
from memdb.records import archive as archive_records
from memdb.records import artifacts as artifact_records
from memdb.records import entries as entry_records
from memdb.records import messages as message_records
from memdb.records import messages as records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.records import summaries as summary_records
from memdb.records import tombstones as tombstone_records
from memdb.records.tombstones import digest_of
from memdb.summaries.summarizer import Made, items_of_messages, items_of_summaries
from memdb.tables import archive, messages
from memdb.tables import state as state_rows
from memdb.tables import summaries as summary_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from memdb.deletion.selectors import Part, Selection, Selector
    from memdb.engine.base import Engine, Probes, Tx
    from memdb.models.summaries import Summary
    from memdb.records.scopes import Owner
    from memdb.summaries.builder import Summaries

    Counts = dict[str, int]

# The text of a summary whose messages are all forgotten.
FORGOTTEN = "(forgotten)"


class Rewriting(Record):
    """
    The new texts of the summaries over some messages.

    Attributes:
        seqs: Of the messages that are forgotten.
        summaries: As they are, each with its new text; None for one that is
            pruned, which stays so.
        left: The seqs of the messages that the leaves among them keep.
    """

    seqs: tuple[int, ...]
    summaries: tuple[tuple[Summary, Made | None], ...]
    left: tuple[int, ...]


def plan_rewriting(tx: Tx, part: Part, summaries: Summaries) -> Rewriting:
    """
    Return the texts of the summaries over *part* without its messages.

    They are extracts, also if a model wrote them: forgetting waits for no model.
    """
    gone = set(part.seqs)
    fresh: dict[int, Made] = {}
    planned: list[tuple[Summary, Made | None]] = []
    left: list[int] = []
    for row_id in summary_rows.list_over(tx, part.session, part.seqs):
        summary = summary_rows.get(tx, row_id)
        assert summary is not None
        if summary.depth:
            items = _sources(tx, summary, fresh, summaries)
        else:
            run = [one for one in _messages(tx, part, summary) if one.seq not in gone]
            left += [one.seq for one in run]
            items = items_of_messages(run)
        fresh[row_id] = _made(items, summary.depth, summaries)
        planned.append((summary, None if summary.text is None else fresh[row_id]))
    return Rewriting(part.seqs, tuple(planned), tuple(left))


def _messages(tx: Tx, part: Part, summary: Summary) -> list[Any]:
    count = summary.last_seq - summary.first_seq + 1
    run = messages.list_after(tx, part.session, part.name, summary.first_seq - 1, count)
    return [one for one in run if one.seq <= summary.last_seq]


def _sources(tx: Tx, summary: Summary, fresh: dict[int, Made], summaries: Summaries) -> list[Any]:
    below = summary_rows.sources(tx, summary)
    texts = [
        fresh[one.row_id].text if one.row_id in fresh else summaries.with_text(tx, one).text
        for one in below
    ]
    said = [(one, text) for one, text in zip(below, texts, strict=True) if text != FORGOTTEN]
    return items_of_summaries([one for one, _ in said], [text for _, text in said])


def _made(items: list[Any], depth: int, summaries: Summaries) -> Made:
    if items:
        made, _ = summaries.maker.make(items, depth, local=True)
        return made
    tokens = summaries.count(FORGOTTEN)
    return Made(FORGOTTEN, None, "extractive", summaries.maker.local_name, tokens)


def is_plan_current(tx: Tx, part: Part, planned: Rewriting) -> bool:
    """Return whether the summaries over *part*, and what they keep, are as planned."""
    if planned.seqs != part.seqs:
        return False
    found = summary_rows.list_over(tx, part.session, part.seqs)
    if [summary_rows.get(tx, row_id) for row_id in found] != [
        summary for summary, _ in planned.summaries
    ]:
        return False
    ids = [part.session | seq for seq in planned.left]
    return len(messages.uids(tx, ids)) == len(planned.left)


def apply_rewriting(tx: Tx, part: Part, planned: Rewriting, summaries: Summaries) -> None:
    """
    Remove the messages of *part* and rewrite the summaries over them.

    Transaction: joins the caller's, which called `is_plan_current` in it.
    """
    records.forget(tx, part.session, part.seqs, digest_of(part.name))
    for summary, made in planned.summaries:
        columns = None if made is None else summaries.columns(made)
        improvable = made is not None and summaries.may_improve(made) and made.text != FORGOTTEN
        summary_records.rewrite(tx, summary, columns, improvable=improvable)


# How often the summaries are planned anew because another process changed them.
MAX_TRIES = 10


class DeletionService:
    """Deletes and forgets what scopes hold."""

    def __init__(self, db: Engine, summaries: Callable[[], Summaries]) -> None:
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
        probes = self._db.new_probes() if prove else None
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
        return {part.session: plan_rewriting(tx, part, summaries) for part in selection.parts}

    def _try(
        self, owner: Owner, selector: Selector, plans: dict[int, Rewriting], probes: Probes | None
    ) -> Receipt | None:
        """Forget in one transaction; None if the file is no longer as it was planned."""
        with self._db.write() as tx:
            selection = selectors.find(tx, owner, selector, with_entries=True)
            for part in selection.parts:
                planned = plans.get(part.session)
                if planned is None or not is_plan_current(tx, part, planned):
                    return None
            if probes is not None:
                rewritten = [
                    summary
                    for planned in plans.values()
                    for summary, made in planned.summaries
                    if made is not None
                ]
                proof.collect(tx, owner, selection, rewritten, probes)
            tx.overwrite_deleted(on=True)
            counts = _count(tx, owner, selection), _count_rewritten(tx, selection, plans)
            self._remove(tx, owner, selection, plans)
            tx.overwrite_deleted(on=False)
            return self._receipt(owner, selector, *counts, tx.now_ms)

    def _remove(
        self, tx: Tx, owner: Owner, selection: Selection, plans: dict[int, Rewriting]
    ) -> None:
        for part in selection.parts:
            apply_rewriting(tx, part, plans[part.session], self._summaries())
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
        notices = self._db.purge()
        with self._db.read() as tx:
            scope_no = owner.find(tx)
        return receipt.replace(proof=self._db.prove(probes, notices, scope_no))


def _remove_entries(tx: Tx, selection: Selection) -> None:
    for entry_id in selection.entries:
        entry_records.remove(tx, entry_id)
    for entry_id, version, *_ in selection.versions:
        entry_records.remove_version(tx, entry_id, version)


def _count(tx: Tx, owner: Owner, selection: Selection) -> Counts:
    """Return how many of each kind go."""
    sessions = [session for session, _ in selection.whole]
    parts = sum(len(part.seqs) for part in selection.parts)
    state = [state_rows.list_values(tx, owner.app, owner.user, name) for name in selection.state]
    return {
        "messages": parts + sum(messages.count(tx, *session_range(one)) for one in sessions),
        "sessions": len(sessions),
        "entries": len(selection.entries),
        "versions": len(selection.versions),
        "summaries": sum(len(summary_rows.texts(tx, one)) for one in sessions),
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
