"""
Deletion service: removes what a selector names, out of the memory or out of the bytes too.

`delete` and `forget` take the same selectors, and remove in one transaction.
Summaries over forgotten messages keep their place and span, and are rewritten
without them: planned before that transaction, which checks that nothing changed.

Retention removes or archives sessions by age, idle time and count; it is off
unless it is asked for.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from memdb.deletion import preview, proof, selectors
from memdb.deletion.selectors import Rewriting, select, select_in, select_written
from memdb.engine.branches import expect_paths, runs_of, within
from memdb.errors import Busy, Conflict, Corrupt, InvalidInput
from memdb.models.ids import is_branch, scope_range
from memdb.models.reports import Receipt
from memdb.records import archive as archive_records
from memdb.records import artifacts as artifact_records
from memdb.records import branches, dependents, entry_writer
from memdb.records import entries as entry_records
from memdb.records import items as item_records
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.records import summaries as summary_records
from memdb.records.scopes import ScopeRef
from memdb.summaries.summarizer import Made, items_of_messages, items_of_summaries
from memdb.tables import items, messages, scopes, sessions
from memdb.tables import state as state_rows
from memdb.tables import summaries as summary_rows
from memdb.text.validate import text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.conversations.archive import ArchiveService
    from memdb.conversations.reader import Conversations
    from memdb.deletion.selectors import Found, Part, Selection, Selector
    from memdb.engine.base import Engine, Probes, Tx
    from memdb.models.messages import Message, SessionInfo
    from memdb.models.settings import Settings
    from memdb.models.summaries import Summary
    from memdb.summaries.builder import Summaries

    Counts = dict[str, int]


def retain_sessions(
    db: Engine,
    reader: Conversations,
    archivist: ArchiveService,
    deletion: DeletionService,
    settings: Settings,
) -> list[tuple[str, str, str]]:
    """
    Archive, delete or forget the sessions that exceed a limit of *settings*, in all scopes.

    Of a session that is long only the oldest messages are archived.

    Returns:
        (app, user, session) of each that changed, by scope, least recently used first.

    Raises:
        Corrupt: a scope is damaged; all that can be done was done in the others.
    """
    with db.read() as tx:
        owners = [ScopeRef(db, app, user) for _, app, user in scopes.list_all(tx)]
    changed: list[tuple[str, str, str]] = []
    damage: Corrupt | None = None
    for owner in owners:
        try:
            infos = reader.sessions(owner)
            for name in _retain(owner, infos, archivist, deletion, settings, db.clock()):
                changed.append((owner.app, owner.user, name))  # noqa: PERF401 (kept if it raises)
        except Corrupt as error:
            damage = damage or error
    if damage is not None:
        raise damage
    return changed


def _retain(
    owner: ScopeRef,
    infos: list[SessionInfo],
    archivist: ArchiveService,
    deletion: DeletionService,
    settings: Settings,
    now_ms: int,
) -> Iterator[str]:
    """Do it in one scope; yield the names of the sessions that changed."""
    limit = settings.session_archive_at
    for info in infos:
        if (
            limit is not None
            and info.last_seq >= limit
            and archivist.has_more(owner, info.name, limit - 1)
            and archivist.archive(owner, info.name, settings.session_archive_keep).messages
        ):
            yield info.name
    for info in due(infos, settings, now_ms):
        if settings.session_retention == "archive":
            done = archivist.archive(owner, info.name, keep_last=0).messages
        elif settings.session_retention == "delete":
            done = deletion.delete(owner, select(session=info.name)).removed["sessions"]
        else:
            done = deletion.forget(owner, select(session=info.name)).removed["sessions"]
        if done:
            yield info.name


def due(infos: list[SessionInfo], settings: Settings, now_ms: int) -> list[SessionInfo]:
    """Return the sessions of a scope over a limit of *settings*, least recently used first."""
    by_use = sorted(infos, key=lambda info: (info.updated_ms, info.name))
    age_ms, idle_ms = settings.session_max_age_ms, settings.session_max_idle_ms
    most = settings.session_max_count
    over = 0 if most is None else max(0, len(by_use) - most)
    return [
        info
        for place, info in enumerate(by_use)
        if place < over
        or (age_ms is not None and now_ms - info.created_ms > age_ms)
        or (idle_ms is not None and now_ms - info.updated_ms > idle_ms)
    ]


# The text of a summary whose messages are all forgotten.
FORGOTTEN = "(forgotten)"


# Leaves whose messages are read together.
LEAF_PAGE = 64


def plan_rewriting(tx: Tx, parts: Sequence[Part], summaries: Summaries) -> dict[int, Rewriting]:
    """
    Return the texts of the summaries over *parts* of a scope without their messages, by session.

    The new texts are extracts, even if a model wrote the summaries, because forgetting waits for
    no model.
    """
    over = _list_over(tx, parts)
    every = [summary for some in over.values() for summary in some]
    below = summary_rows.list_sources(tx, [one.id for one in every if one.depth])
    left_of = _list_left(tx, parts, over)
    fresh: dict[int, Made] = {}
    plans = {}
    for part in parts:
        planned: list[tuple[Summary, Made | None]] = []
        left: list[int] = []
        for summary in over.get(part.session, ()):
            if summary.depth:
                items = _sources(tx, below.get(summary.id, []), fresh, summaries)
            else:
                run = next(left_of)
                left += [one.row_id for one in run]
                items = items_of_messages(run)
            fresh[summary.id] = _made(items, summary.depth, summaries)
            planned.append((summary, None if summary.text is None else fresh[summary.id]))
        plans[part.session] = Rewriting(part.seqs + part.over, tuple(planned), tuple(left))
    return plans


def _list_over(tx: Tx, parts: Iterable[Part]) -> dict[int, list[Summary]]:
    return summary_rows.list_over(tx, {part.session: part.seqs + part.over for part in parts})


def _list_left(
    tx: Tx, parts: Sequence[Part], over: dict[int, list[Summary]]
) -> Iterator[list[Message]]:
    """Yield for each leaf in *over*, in the order of *parts*, the messages that it keeps."""
    gone = {one for part in parts for one in part.ids}
    expect_paths(tx, over)
    leaves = []
    for part in parts:
        spans = [
            (one.first_seq, one.last_seq) for one in over.get(part.session, ()) if not one.depth
        ]
        runs = runs_of(tx, part.session) if spans else []
        leaves += [(part.name, within(runs, [span])) for span in spans]
    for start in range(0, len(leaves), LEAF_PAGE):
        page = leaves[start : start + LEAF_PAGE]
        for name, run in ((name, run) for name, runs in page for run in runs):
            messages.expect_run(tx, run, name)
        for name, runs in page:
            found = [one for run in runs for one in messages.list_run(tx, run, name)]
            yield [one for one in found if one.row_id not in gone]


def _sources(
    tx: Tx, below: list[Summary], fresh: dict[int, Made], summaries: Summaries
) -> list[Any]:
    texts = [
        fresh[one.id].text if one.id in fresh else summaries.with_text(tx, one).text
        for one in below
    ]
    below = [one.replace(trust=fresh[one.id].trust) if one.id in fresh else one for one in below]
    said = [(one, text) for one, text in zip(below, texts, strict=True) if text != FORGOTTEN]
    return items_of_summaries([one for one, _ in said], [text for _, text in said])


def _made(items: list[Any], depth: int, summaries: Summaries) -> Made:
    if items:
        made, _ = summaries.maker.make(items, depth, local=True)
        return made
    tokens = summaries.count(FORGOTTEN)
    return Made(FORGOTTEN, None, "extractive", summaries.maker.local_name, tokens)


def is_plan_current(tx: Tx, parts: Sequence[Part], plans: dict[int, Rewriting]) -> bool:
    """Return whether the summaries over *parts* of a scope, and what they keep, are as planned."""
    planned = {part.session: plans[part.session] for part in parts if part.session in plans}
    if any(
        part.session not in planned or planned[part.session].seqs != part.seqs + part.over
        for part in parts
    ):
        return False
    over = _list_over(tx, parts)
    for row, plan in planned.items():
        if over.get(row, []) != [summary for summary, _ in plan.summaries]:
            return False
    left = [one for plan in planned.values() for one in plan.left]
    return not left or len(messages.uids(tx, left)) == len({*left})


def apply_rewriting(
    tx: Tx, parts: Sequence[Part], plans: dict[int, Rewriting], summaries: Summaries
) -> None:
    """
    Remove the messages of *parts* of a scope and rewrite the summaries over them.

    Transaction: joins the caller's, which called `is_plan_current` in it.
    """
    message_records.forget(tx, {part.session: part.seqs for part in parts})
    planned = [one for part in parts for one in plans[part.session].summaries]
    # One that covered shared messages too was deleted with them.
    there = {one.id for one in summary_rows.get_many(tx, [summary.id for summary, _ in planned])}
    changed = []
    for summary, made in planned:
        if summary.id in there:
            columns = None if made is None else summaries.columns(made)
            improvable = made is not None and summaries.may_improve(made) and made.text != FORGOTTEN
            changed.append((summary, columns, improvable))
    summary_records.rewrite(tx, *changed)


# How often the summaries are planned again because another process changed them.
MAX_TRIES = 10


class DeletionService:
    """
    Deletes and forgets rows of scopes.

    What goes is named by a `Selector`, which the three functions return.
    """

    select = staticmethod(select)
    select_in = staticmethod(select_in)
    select_written = staticmethod(select_written)

    def __init__(
        self, db: Engine, summaries: Callable[[], Summaries], new_probes: Callable[[], Probes]
    ) -> None:
        """
        Remove from *db*.

        Args:
            summaries: Returns the service that rewrites them.
            new_probes: Returns a collection of texts for a proof.
        """
        self._db = db
        self._summaries = summaries
        self._new_probes = new_probes

    def delete(self, owner: ScopeRef, selector: Selector, *, dry_run: bool = False) -> Receipt:
        """
        Remove the rows named by *selector* from the memory; their bytes may stay in the file.

        Entries that come from deleted messages stay, except those that only a deleted session
        recalls. Summaries of deleted messages are made again.

        Args:
            dry_run: Remove nothing, and return what would be removed.

        Raises:
            InvalidInput: *selector* names a person, which only `forget` accepts.
            Corrupt: an archived message cannot be taken out of a damaged part.

        Transaction: opens its own, or joins the caller's.
        """
        if selector.what == "person":
            raise InvalidInput("person is given, but only `forget` accepts it")
        if dry_run:
            with self._db.read() as tx:
                found = selectors.find_all(tx, owner, selector, with_entries=False)
                counts = _count(tx, found), _count_reverted(found, selector)
                done = self._receipt(owner, selector, *counts, self._db.clock(), dry_run=True)
                if selector.what == "writer":
                    rows, more, digest = preview.rows_of(tx, preview.list_refs(tx, found, {}))
                    done = done.replace(rows=rows, more_rows=more, digest=digest)
                return done.replace(remaining=_left(found))
        with self._db.write() as tx:
            found = selectors.find_all(tx, owner, selector, with_entries=False)
            counts = _count(tx, found), _count_reverted(found, selector)
            for one, selection in found:
                message_records.remove(tx, selection.by_row)
                _remove(tx, one, selection)
            done = self._receipt(owner, selector, *counts, tx.now_ms)
            return done.replace(remaining=_left(found))

    def forget(
        self,
        owner: ScopeRef,
        selector: Selector,
        *,
        prove: bool = False,
        dry_run: bool = False,
        expected: str | Receipt | None = None,
    ) -> Receipt:
        """
        Remove the rows named by *selector* for good, with entries from them; see `Scope.forget`.

        Args:
            prove: Also remove the bytes from the disk, and search the file for them.
            dry_run: Remove nothing, and return what would be removed.
            expected: Digest of a preview that must still be true. None means any.

        Raises:
            InvalidInput: the call was made inside a write.
            Conflict: the rows to remove differ from those of the preview.
            Busy: other processes kept writing.
            Corrupt: an archived message cannot be taken out of a damaged part.
        """
        self._db.refuse_inside("forget")
        if isinstance(expected, Receipt):
            expected = expected.digest
        known = None if expected is None else text_value(expected, "expected")
        if dry_run:
            with self._db.read() as tx:
                found = selectors.find_all(tx, owner, selector, with_entries=True)
                plans = self._plan(tx, found)
                _require_digest(tx, found, plans, known)
                counts = _count(tx, found), _count_rewritten(tx, found, plans)
                rows, more, digest = preview.rows_of(tx, preview.list_refs(tx, found, plans))
            done = self._receipt(owner, selector, *counts, self._db.clock(), dry_run=True)
            done = done.replace(rows=rows, more_rows=more, digest=digest)
            return self._with_remaining(owner, done, selector)
        probes = self._new_probes() if prove else None
        for _ in range(MAX_TRIES):
            with self._db.read() as tx:
                plans = self._plan(tx, selectors.find_all(tx, owner, selector, with_entries=True))
            receipt = self._try(owner, selector, plans, probes, known)
            if receipt is None:
                continue
            if probes is None:
                receipt = receipt.replace(pending=tuple(self._db.maintenance.truncate_wal()))
            else:
                receipt = self._prove(owner, receipt, selector, probes)
            return self._with_remaining(owner, receipt, selector)
        raise Busy("the summaries of the session kept changing: try again")

    def _with_remaining(self, owner: ScopeRef, receipt: Receipt, selector: Selector) -> Receipt:
        """Return *receipt*; for words with the places that still contain them."""
        if not selector.terms:
            return receipt
        with self._db.read() as tx:
            return receipt.replace(remaining=tuple(selectors.list_remaining(tx, owner, selector)))

    def _receipt(
        self,
        owner: ScopeRef,
        selector: Selector,
        removed: Counts,
        rewritten: Counts,
        at_ms: int,
        *,
        dry_run: bool = False,
    ) -> Receipt:
        subject = f"{selector.what}\n{selector.subject(owner)}"
        digest = sha256(subject.encode()).hexdigest()
        return Receipt(selector.what, digest, removed, rewritten, at_ms, dry_run=dry_run)

    def _plan(self, tx: Tx, found: list[Found]) -> dict[int, Rewriting]:
        """Return the new summaries of each session that loses messages."""
        plans: dict[int, Rewriting] = {}
        for _, selection in found:
            if selection.parts:
                plans |= plan_rewriting(tx, selection.parts, self._summaries())
        return plans

    def _try(
        self,
        owner: ScopeRef,
        selector: Selector,
        plans: dict[int, Rewriting],
        probes: Probes | None,
        expected: str | None,
    ) -> Receipt | None:
        """Forget in one transaction; None if the file is no longer as planned."""
        with self._db.write() as tx:
            found = selectors.find_all(tx, owner, selector, with_entries=True)
            if not all(is_plan_current(tx, one.parts, plans) for _, one in found if one.parts):
                return None
            _require_digest(tx, found, plans, expected)
            if probes is not None:
                rewritten = [
                    summary
                    for planned in plans.values()
                    for summary, made in planned.summaries
                    if made is not None
                ]
                proof.collect(tx, found, rewritten, probes)
            counts = _count(tx, found), _count_rewritten(tx, found, plans)
            for one, selection in found:
                self._forget(tx, one, selection, plans, selector)
            return self._receipt(owner, selector, *counts, tx.now_ms)

    def _forget(
        self,
        tx: Tx,
        owner: ScopeRef,
        selection: Selection,
        plans: dict[int, Rewriting],
        selector: Selector,
    ) -> None:
        if selection.parts:
            apply_rewriting(tx, selection.parts, plans, self._summaries())
        scope_no = owner.find(tx)
        if scope_no is not None and selector.entry:  # it may have been deleted before
            named = scope_range(scope_no)[0] + selector.entry
            selection = selection.replace(entries=(*{*selection.entries, named},))
        also = (selector.session,) if selector.what == "session" else ()  # as an entry
        _remove(tx, owner, selection, *also, is_forgotten=True)
        if selection.stones:
            dependents.hide_named(tx, owner.ensure(tx), selection.stones)
        if None in selection.state and scope_no is not None:
            dependents.hide_all(tx, scope_no)

    def _prove(
        self, owner: ScopeRef, receipt: Receipt, selector: Selector, probes: Probes
    ) -> Receipt:
        """Return *receipt* with the proof; the file is packed only if something was left."""
        with self._db.read() as tx:
            numbers = [one.find(tx) for one in owner.family(tx)]
        probes.ask(selector.terms)
        probes.mend_indexes()
        pending = self._db.maintenance.truncate_wal()
        proved = probes.prove(pending, [one for one in numbers if one is not None])
        if proved.found_bytes:
            pending = probes.purge()
            proved = probes.prove(pending, [one for one in numbers if one is not None])
        return receipt.replace(proof=proved, pending=tuple(pending))


def _require_digest(
    tx: Tx, found: list[Found], plans: dict[int, Rewriting], expected: str | None
) -> None:
    """Raise Conflict unless the rows to remove are those of the preview with this digest."""
    if expected is None:
        return
    if preview.digest_of(preview.list_refs(tx, found, plans)) != expected:
        raise Conflict(
            "the rows that would be forgotten have changed since the preview: look at it again"
        )


def _remove(
    tx: Tx, owner: ScopeRef, selection: Selection, *sessions: str, is_forgotten: bool = False
) -> None:
    """
    Remove all that a selection names, and *sessions*, except single messages.

    Args:
        is_forgotten: No import brings it back.
    """
    artifacts = (*((place, None) for place in selection.artifacts), *selection.copies)
    artifact_records.remove(tx, *artifacts, is_forgotten=is_forgotten)
    entry_records.remove(tx, *selection.entries, is_forgotten=is_forgotten)
    for entry_id, version in selection.reverts:
        entry_writer.go_back(tx, entry_id, version)
    versions = [row[:2] for row in selection.versions]
    entry_records.remove_versions(tx, versions, is_forgotten=is_forgotten)
    stored = items.get_many(tx, selection.items).values()
    item_records.remove(tx, *stored, is_forgotten=is_forgotten)
    names = sorted({name for _, name in selection.whole}.union(sessions))
    session_records.remove(tx, owner, *names, is_forgotten=is_forgotten)
    values = selection.state, selection.keys
    state_records.remove_many(tx, owner, *values, is_forgotten=is_forgotten)
    session_records.undescribe(tx, *(row for row, _ in selection.titles))


def _count(tx: Tx, found: list[Found]) -> Counts:
    """Return the number of removed rows of each kind."""
    counts = [_count_in(tx, owner, selection) for owner, selection in found]
    return {kind: sum(one[kind] for one in counts) for kind in counts[0]}


def _count_in(tx: Tx, owner: ScopeRef, selection: Selection) -> Counts:
    rows = dict(selection.whole)
    spans = sessions.spans_of(tx, rows)
    going = sum(messages.count(tx, *span) for span in spans) - _count_staying(tx, rows)
    branch_count = sum(map(is_branch, rows))
    state = [state_rows.list_values(tx, owner.app, owner.user, name) for name in selection.state]
    return {
        "messages": sum(len(part.seqs) for part in selection.parts) + going,
        "sessions": len(rows) - branch_count,
        "branches": branch_count,
        "entries": len(selection.entries),
        "versions": len(selection.versions) + len(selection.copies),
        "summaries": sum(summary_rows.count_between(tx, *span) for span in spans),
        "artifacts": len(selection.artifacts),
        "items": len(selection.items),
        "state": sum(map(len, state)) + len(selection.keys),
        "titles": len(selection.titles),
    }


def _count_staying(tx: Tx, rows: dict[int, str]) -> int:
    """Return how many messages of removed branches stay, because remaining branches show them."""
    whole = {str(name) for row, name in rows.items() if not is_branch(row)}
    kept = {row: branches.others_show(tx, row, rows) for row in rows if str(rows[row]) not in whole}
    return sum(
        messages.count(tx, row | first, row | last)
        for row, spans in kept.items()
        for first, last in spans
    )


def _count_reverted(found: list[Found], selector: Selector) -> Counts:
    """Return how many entries of others return to an earlier version."""
    if selector.what != "writer":
        return {}
    return {"entries": sum(len(selection.reverts) for _, selection in found)}


def _left(found: list[Found]) -> tuple[str, ...]:
    return tuple(one for _, selection in found for one in selection.left)


def _count_rewritten(tx: Tx, found: list[Found], plans: dict[int, Rewriting]) -> Counts:
    """Return how many summaries and archive segments are rewritten without the removed rows."""
    summaries = sum(made is not None for plan in plans.values() for _, made in plan.summaries)
    segments = sum(
        len(archive_records.find_holding(tx, selection.by_row)) for _, selection in found
    )
    return {"summaries": summaries, "segments": segments}
