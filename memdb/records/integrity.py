"""
The whole file: derived data is compared with its rows, and rebuilt from them.

Every rule has a code. `rebuild` removes a `rebuildable` finding; the others mean that stored data
is damaged or missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import Corrupt
from memdb.models.messages import Finding
from memdb.models.reports import FileInfo
from memdb.records import (
    archive,
    artifacts,
    branches,
    dependents,
    entries,
    items,
    link_maker,
    messages,
    sessions,
    spaces,
    summaries,
)
from memdb.tables import checks, jobs, meta, scopes
from memdb.tables import spaces as space_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Engine, Tx


def check(db: Engine, *, deep: bool = False) -> list[Finding]:
    """
    Return every inconsistency, at most 20 per rule; [] if all is well.

    Args:
        deep: Also read every page, the bytes of every artifact, the words of archived messages, and
            the days named in every text.

    Transaction: one read; the full-text rules need the write lock for a moment, although they
    change nothing.
    """
    try:
        damaged = db.maintenance.check_pages(deep=deep)
        if damaged:  # what the rules would read cannot be trusted
            return [Finding("page", text, rebuildable=False) for text in damaged]
        foreign = db.maintenance.check_schema()
        if foreign:
            return [Finding("schema", text, rebuildable=False) for text in foreign]
        with db.read() as tx:
            found = [*_check_rows(tx, deep=deep)]
        lost = db.maintenance.describe_loss()
        if lost:
            found.append(Finding("wal_missing", lost, rebuildable=False))
        held = db.maintenance.describe_held_wal()
        if held:
            found.append(Finding("wal_held", held, rebuildable=False))
        for index, text in db.maintenance.check_indexes():
            found += [Finding(index, text, rebuildable=True)]
        if deep and not any(one.damaged != "nothing" for one in found):
            found += [
                Finding("archived_fts", text, rebuildable=True)
                for text in db.maintenance.check_archived_words()
            ]
    except Corrupt as error:
        return [Finding("page", str(error), rebuildable=False)]
    return found


def accept_loss(db: Engine) -> None:
    """
    Accept a loss, so that `check` does not report it again.

    Transaction: opens its own.
    """
    db.maintenance.accept_loss()
    with db.write() as tx:
        checks.set_counts(tx, with_lost=True)


def describe_damage(tx: Tx) -> str:
    """Return the first finding in the rows that no `rebuild` repairs, "" if there is none."""
    found = (one for one in _check_rows(tx, deep=True) if not one.rebuildable)
    return next((f"{one.code}: {one.text}" for one in found), "")


def _check_rows(tx: Tx, *, deep: bool) -> Iterator[Finding]:
    for text in tx.find_damaged_rows(deep=deep):
        yield Finding("digest", text, rebuildable=False)
    for text in tx.find_broken_keys():
        yield Finding("foreign_key", text, rebuildable=False)
    yield from checks.by_rules(tx)
    yield from messages.check(tx, deep=deep)
    yield from branches.check(tx)
    yield from archive.check(tx)
    for text in tx.words.find_archived_differences():
        yield Finding("archived_fts", text, rebuildable=True)
    yield from summaries.check(tx)
    yield from entries.check(tx, deep=deep)
    yield from link_maker.check(tx, deep=deep)
    if deep:
        yield from artifacts.check(tx)
    yield from spaces.check(tx)


def rebuild(db: Engine, *, links: bool = False) -> None:
    """
    Rebuild full text, bigrams, spans, sketches and counters; queue missing vectors.

    No stored data is changed. Cost: about 1 s per 20,000 messages.

    Args:
        links: Guess every link between entries again, not only broken links and those of another
            model. Cost: 2 s more per 1,000 entries.

    Transaction: opens its own, so a crash leaves the file as it was. On a server each scope's full
    text has its own transaction, so only the writers of one scope wait at a time.
    """

    def derive(tx: Tx) -> None:
        spaces.derive(tx)
        messages.derive(tx)
        sessions.derive(tx)
        entries.derive(tx)
        link_maker.derive(tx, whole=links)
        artifacts.derive(tx)
        items.derive(tx)
        dependents.derive(tx)

    db.maintenance.rebuild(derive)


def describe(db: Engine) -> FileInfo:
    """Return the facts about the file. Cost: reads every page once, 0.1 s per 100 MB."""
    readers = db.maintenance.list_wal_readers()  # this read would be one of them
    with db.read() as tx:
        totals, storage = meta.count_all(tx), db.maintenance.measure(tx)
        return FileInfo(
            path=db.path,
            format=storage.format,
            size_bytes=storage.size_bytes,
            wal_bytes=storage.wal_bytes,
            counts=totals.counts,
            bytes_per_store=storage.bytes_by_table,
            spaces=space_rows.list_spaces(tx),
            oldest_ms=totals.oldest_ms,
            newest_ms=totals.newest_ms,
            pending_jobs=sum(totals.pending.values()),
            pending=totals.pending,
            summaries=totals.summaries,
            archived_messages=totals.archived,
            meta=totals.meta,
            upkeep=jobs.list_upkeep(tx),
            other_tables=db.maintenance.list_other_tables(tx),
            wal_readers=readers,
            migration_copies=storage.migration_copies,
            is_encrypted=db.key is not None,
            scopes_left=scopes.count_left(tx),
        )
