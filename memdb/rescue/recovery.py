"""
`memdb.recover` and `memdb.restore`: make a sound file from a damaged one or from a backup.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import apsw

from memdb.engine.files import whole_path
from memdb.engine.segments import opened
from memdb.engine.sqlite.checkpoints import checkpoint_truncate
from memdb.engine.sqlite.cipher import is_encrypted
from memdb.engine.sqlite.connection import Tx, connect, translate
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.engine.sqlite.foreign_wal import FOREIGN, MISSING, find_wal_problem, open_locked
from memdb.engine.sqlite.maintenance import write_with_key
from memdb.errors import (
    AlreadyExists,
    Busy,
    Corrupt,
    FileError,
    InvalidInput,
    KeyMissing,
    StorageError,
    WrongKey,
)
from memdb.models.ids import system_clock, uuid7
from memdb.models.keys import key_value
from memdb.models.reports import RecoveredTable, Recovery, Restored
from memdb.records import entry_writer, integrity, summaries
from memdb.rescue import adoption, found_rows
from memdb.tables import blobs, checks, entries, messages
from memdb.text.validate import flag_value, path_value, refuse_output, refuse_special

if TYPE_CHECKING:
    from memdb.models.keys import AnyKey
    from memdb.models.protocols import Clock, Ids
    from memdb.models.types import Progress

# What is wrong with a summary is wrong with those above and below it.
SUMMARY_RULES = ("summary_gap", "summary_head", "summary_sources", "summary_link")

# What an entry says that was superseded or is in the history, and whose text is lost.
LOST_TEXT = "(the text of this entry was lost)"

# What users hold; the report is about these.
REPORTED = (
    "scopes sessions messages archive_segments summaries entries entry_history artifact_names "
    "artifacts blobs item_namespaces items state tombstones settings vectors"
).split()


def recover(
    damaged: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    clock: Clock = system_clock,
    ids: Ids = uuid7,
    key: AnyKey | None = None,
) -> Recovery:
    """
    Make a sound file at *path* from the readable rows of *damaged*, which stays unchanged.

    Rows are read page by page. Rows that do not match their hash are left out, and so are rows that
    need them. Scopes and sessions are rebuilt if only their content remains. Entries that others
    refer to are rebuilt too, inactive and with the text of their last earlier version. Words,
    sketches, counters and incomplete summaries are computed again; vectors too, by the next
    background work.

    Args:
        key: Key of an encrypted file, as in `memdb.open`; the new one gets it too. If it is
            encrypted, only the pages before the first damaged one can be read.

    Returns:
        How many rows of each table the new file has, and how many were left out.

    Raises:
        AlreadyExists: a file is at *path*.
        FileError: *damaged* cannot be read, or contains no row of a memdb file.

    Cost: 1 s per 10 MB; memory for four times the file.
    """
    source, target = os.path.realpath(path_value(damaged, "damaged")), path_value(path)
    if os.path.lexists(target):
        raise AlreadyExists("file", target)
    refuse_output(target)
    refuse_special(source, f"{source}-wal")
    notes, own_key = [], key_value(key) if is_encrypted(source) else None
    problem = find_wal_problem(source, own_key)
    wal = problem != FOREIGN
    if problem == FOREIGN:
        notes.append("the -wal beside it belongs to another file and was left out")
    elif problem == MISSING:
        notes.append("its -wal is missing: what was written last may have been in it")
    try:
        found = found_rows.read_rows(source, wal=wal, key=own_key)
    except (OSError, apsw.Error) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{source} cannot be read ({problem})", source) from error
    if not any(found.rows.values()):
        raise FileError(f"{source} contains no row of a memdb file: check the path", source)
    with (
        whole_path(target) as partial,
        SqliteEngine(partial, clock=clock, ids=ids, key=own_key) as db,
    ):
        made, reopened = _fill(db, found)
        integrity.rebuild(db)
        integrity.accept_loss(db)  # the report says what is missing
        findings = integrity.check(db, deep=True)
        counts = {table: found_rows.count_rows(db, table) for table in REPORTED}
    read = {table: len(found.rows[table]) + found.damaged[table] for table in REPORTED}
    read["archive_segments"] -= reopened  # their messages are in rows of their own
    tables = tuple(
        RecoveredTable(table, count, read[table] + made.get(table, 0) - count, made.get(table, 0))
        for table, count in counts.items()
    )
    return Recovery(
        target,
        tables,
        found.broken_trees,
        tuple(notes),
        tuple(f"{one.code}: {one.text}" for one in findings),
    )


def _fill(db: SqliteEngine, found: found_rows.Found) -> tuple[dict[str, int], int]:
    """
    Store the rows that were found.

    Return by table the rebuilt rows, and the segments taken apart.
    """
    with db.without_foreign_keys(), db.write() as tx:
        found_rows.insert_rows(tx, found)
        found_rows.keep_meta(tx, found)
        reopened = _reopen_segments(tx)
        tx.run(found_rows.DELETE_EMPTY)
        found_rows.delete_ids(tx, "messages", messages.damaged(tx))
        found_rows.delete_ids(tx, "entries", entries.damaged(tx))
        rebuilt = _complete_blobs(tx)
        found_rows.delete_ids(tx, "blobs", blobs.damaged(tx))
        made = adoption.adopt(tx, found)
        made |= {"entries": _complete_entries(tx), "blobs": rebuilt}
        found_rows.drop_broken(tx)
        _drop_summaries(tx)
    return made, reopened


def _reopen_segments(tx: Tx) -> int:
    """
    Move messages of incomplete segments back into their rows, and remove damaged ones.

    If the row of one message is lost, its segment no longer has the right number of messages. So
    the others are moved out.

    Returns:
        How many segments were incomplete.
    """
    reopened = 0
    every = tx.all(found_rows.SELECT_SEGMENTS)
    for session, first_seq, codec, data, digest, last_seq, count, rows in every:
        try:
            contents = opened(session, first_seq, (codec, data, digest))
        except Corrupt:
            found_rows.delete_segment(tx, session, first_seq)
            continue
        span = (contents[0][0], contents[-1][0], len(contents))
        if rows != count or span != (first_seq, last_seq, count):
            for seq, text, parts, metadata in contents:
                found_rows.refill(tx, session | seq, text, parts, metadata)
            found_rows.delete_segment(tx, session, first_seq)
            reopened += 1
    return reopened


def _complete_entries(tx: Tx) -> int:
    """
    Rebuild each lost entry that a row refers to, inactive; return how many.

    Its text is that of its last earlier version. So the entries that it superseded do not become
    valid again, and the history of both stays.
    """
    count = 0
    for found in found_rows.lost_entries(tx):
        text = found["text"] or LOST_TEXT
        try:
            entry_writer.insert_lost(tx, {**found, "text": text})
            count += 1
        except StorageError as error:  # what no memdb wrote
            if not found_rows.is_refused(error):
                raise
    return count


def _complete_blobs(tx: Tx) -> int:
    """Rebuild the row of each blob if an artifact and all chunks are left; return how many."""
    count = 0
    for blob_no, size_bytes, created_ms in tx.all(found_rows.SELECT_LOST_BLOBS):
        try:
            data = blobs.read_lost(tx, blob_no)
        except Corrupt:
            continue
        if len(data) == size_bytes:
            digest = sha256(data).digest()
            count += found_rows.add_blob(tx, blob_no, digest, size_bytes, created_ms)
    return count


def _drop_summaries(tx: Tx) -> None:
    """Remove all summaries of each session that lost one or has a wrong one."""
    while True:
        found = (*checks.by_rules(tx, SUMMARY_RULES), *summaries.check(tx))
        uids = [finding.text.split()[1] for finding in found]
        if not found_rows.delete_summaries(tx, uids):
            return


def restore(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    key: AnyKey | None = None,
) -> Restored:
    """
    Put the file *backup* in place of the file at *path*, which is kept beside it.

    The backup is checked first, page by page. The -wal of the old file is moved too, because SQLite
    would apply it to the backup.

    Args:
        dry_run: Check everything, and change nothing.
        key: Key of an encrypted backup, as in `memdb.open`.

    Returns:
        Where the old file is now, None if there was none.

    Raises:
        FileError: *backup* is not a memdb file, or *path* cannot be written.
        Corrupt: *backup* is damaged.
        Busy: a program has the file at *path* open.
    """
    flag_value(dry_run, "dry_run")
    source, target = (
        os.path.realpath(one) for one in (path_value(backup, "backup"), path_value(path))
    )
    if not os.path.exists(source):
        raise FileError(f"{source} does not exist: check the path", source)
    refuse_special(source)
    refuse_output(target)
    if os.path.exists(target) and os.path.samefile(source, target):
        raise FileError(
            f"{target} is the backup itself: give the path of the file to replace", target
        )
    options: dict[str, Any] = {
        "mode": "read",
        "verify": integrity.describe_damage,
        "key": key_value(key),
    }
    with SqliteEngine(source, clock=system_clock, ids=uuid7, **options) as db:
        findings = [one for one in integrity.check(db, deep=True) if not one.rebuildable]
        if findings:
            raise Corrupt(
                f"{source} is damaged ({findings[0].code}: {findings[0].text}): `memdb recover` "
                "saves what can be read"
            )
        lock = _lock(target)
        try:
            kept = _free_name(target) if os.path.lexists(target) else None
            size_bytes = os.stat(source).st_size
            if not dry_run:
                with whole_path(target) as partial:
                    db.maintenance.copy_to(partial, db.key, replace=True)
                    if kept is not None:
                        _set_aside(target, kept)
        except OSError as error:
            raise FileError(f"{target} cannot be written ({error.strerror})", target) from error
        finally:
            if lock is not None:
                lock.xClose()
    return Restored(target, kept, size_bytes, dry_run)


def _lock(path: str) -> apsw.VFSFile | None:
    """
    Return a lock that excludes all other connections; None if there is no file.

    Raises:
        Busy: another connection has the file open.
    """
    if not os.path.lexists(path):
        return None
    try:
        return open_locked(path)
    except apsw.BusyError as error:
        raise Busy(f"{path} is open in another program: close that program first") from error
    except apsw.Error as error:
        raise translate(error) from error


def rekey(
    path: str | os.PathLike[str],
    new_key: AnyKey,
    *,
    key: AnyKey | None = None,
    progress: Progress | None = None,
) -> None:
    """
    Change the key of the encrypted file at *path*.

    The new file replaces the old one when it is complete and on the disk. If the process ends
    before that, the old key is valid; after it, the new one. Backups keep theirs.

    Args:
        new_key: A passphrase, 32 bytes, or a function that returns one of them.
        key: The present key, as in `memdb.open`.
        progress: Called with (done, total) pages.

    Raises:
        Busy: a program has the file open.
        FileError: there is no file at *path*, or it cannot be written.
        KeyMissing, WrongKey: *key* does not open the file, or the file is not encrypted.
        InvalidInput: *new_key* is not a key.

    Cost: 1 s per 100 MB, and as much free disk as the file is large.
    """
    target, old, new = os.path.realpath(path_value(path)), key_value(key), key_value(new_key)
    if new is None:
        raise InvalidInput("new_key is empty: to get a plain copy, use `memdb decrypt`")
    if old is None:
        raise KeyMissing(target) if is_encrypted(target) else WrongKey(target, is_plain=True)
    if not os.path.exists(target):
        raise FileError(f"{target} does not exist: check the path", target)
    with SqliteEngine(target, clock=system_clock, ids=uuid7, key=old):
        pass  # it is a file of memdb, and nothing is left in its WAL
    lock = Tx(connect(target, durability="power", timeout_ms=0, writable=True, key=old))
    try:
        with whole_path(target) as partial:
            found_rows.lock_alone(lock)
            lock.roll_back()  # the lock stays until it is closed
            checkpoint_truncate(lock)
            write_with_key(lock, partial, new, progress)
    except Busy as error:
        raise Busy(f"{target} is open in another program: close that program first") from error
    finally:
        lock.close()


def _free_name(path: str) -> str:
    """Return a free name beside *path*."""
    number = 1
    while os.path.lexists(f"{path}.replaced-{number}"):
        number += 1
    return f"{path}.replaced-{number}"


def _set_aside(path: str, kept: str) -> None:
    """Link the file at *path* to the name *kept* too; rename its WAL, and remove its -shm."""
    os.link(path, kept) if hasattr(os, "link") else os.rename(path, kept)
    if os.path.lexists(f"{path}-wal"):
        os.rename(f"{path}-wal", f"{kept}-wal")
    if os.path.lexists(f"{path}-shm"):
        os.unlink(f"{path}-shm")
