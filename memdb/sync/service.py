"""
The sync of a file with a folder: write own changes, merge those of others, clean up.

A segment is written under a temporary name, registered in the file, then renamed. A process may die
between any two of these steps. The next sync continues from there.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memdb.engine.files import PARTIAL, publish
from memdb.engine.sqlite import cipher
from memdb.errors import Corrupt, InvalidInput
from memdb.models.ids import MAX_INT
from memdb.models.reports import DeviceStatus, SyncReport, SyncStatus
from memdb.records import integrity
from memdb.sync import outgoing
from memdb.sync.chunks import chunks_of
from memdb.sync.clock import is_ahead, ms_of, stamp_of
from memdb.sync.device import Device, load, new_id, new_key, read_key, store
from memdb.sync.folder import (
    Broken,
    Head,
    Mark,
    Refused,
    Segment,
    devices_of,
    hash_of,
    naming_errors,
    open_segment,
    path_of,
    read_mark,
    read_status,
    require_folder,
    segments_of,
    write_mark,
    write_partial,
    write_status,
)
from memdb.sync.incoming import Merge, drop_repeated_versions
from memdb.sync.server import Server, is_url
from memdb.sync.tree import Tree
from memdb.tables import sessions, synced
from memdb.text.validate import path_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.transfer.lines import TransferServices

    Found = tuple[Segment, Head, Iterator[dict[str, Any]]]

# Segments of a device after which it tells everything again in one, if the later ones are larger
# than the first.
MAX_SEGMENTS = 64


class FolderSync:
    """One file and one folder."""

    def __init__(self, services: TransferServices, place: str | os.PathLike[str]) -> None:
        """Sync the file of *services* with a folder, or with a server by its address."""
        self._services = services
        self._db = services.db
        with self._db.read() as tx:
            self._device = load(tx)
        self._place = str(place) if is_url(place) else path_value(place, "folder")
        self._server = Server(self._place, self._db.path) if is_url(place) else None
        self._folder = self._place
        self._mark: Mark | None = None
        self._waiting: list[str] = []
        self._broken: set[str] = set()  # devices whose next segment is damaged

    def run(
        self,
        key: str | None,
        *,
        dry_run: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> SyncReport:
        """Sync once; see `MemDB.sync`."""
        self._db.refuse_inside("sync")
        with self._open(writes=not dry_run):
            return self._run(key, progress, dry_run=dry_run)

    @contextmanager
    def _open(self, *, writes: bool) -> Iterator[None]:
        """
        Read the mark of the folder, after downloading new files of a server.

        Raises:
            FileError: the folder is not a folder, cannot be written, or the server cannot be
                reached.
            InvalidInput: the folder contains the live file or other things, or was written by a
                newer memdb.
        """
        with ExitStack() as stack:
            if self._server is not None:
                use = self._server.alone if writes else self._server.unchanged
                stack.enter_context(use())
                self._folder = self._server.replica
            stack.enter_context(naming_errors(self._folder))
            if self._server is not None:
                self._server.get("" if self._device is None else self._device.id)
            require_folder(self._folder, self._db.path)
            self._mark = read_mark(self._folder)
            yield

    def _run(
        self, key: str | None, progress: Callable[[int], object] | None, *, dry_run: bool
    ) -> SyncReport:
        made = self._pair(key, dry_run=dry_run)
        if dry_run:
            return self._preview(made)
        if self._mark is None:
            write_mark(self._folder, self._here)
        self._recover()
        self._arrange()
        is_full = self._here.number == 0
        sent = self._send(is_full=is_full)
        merge = self._receive(progress)
        if self._holds_forgotten() or (not is_full and (self._has_many() or self._is_asked())):
            self._send(is_full=True)
        if merge.has_forgotten:
            self._db.maintenance.truncate_wal()
        write_status(self._folder, self._here, self._broken, self._db.clock())
        if self._server is not None:
            self._server.put(self._here.id, *self._here.void, *self._here.former)
        return SyncReport(
            self._here.id,
            made,
            dict(sent),
            {name: count for name, count in sorted(merge.counts.items()) if count},
            tuple(self._waiting),
            tuple(f"{why} ({count})" for why, count in sorted(merge.refused.items())),
            self._unconfirmed(),
        )

    @property
    def _here(self) -> Device:
        assert self._device is not None
        return self._device

    def _pair(self, key: str | None, *, dry_run: bool) -> str | None:
        """
        Make sure that the file has the key of the folder; return a new key.

        Raises:
            InvalidInput: the folder belongs to another memory, or its key must be given.
        """
        given = None if key is None else read_key(key)
        mark, device, made = self._mark, self._device, None
        if device is None:
            device, made = self._join(given)
        elif given not in (None, device.key):
            raise InvalidInput(
                "pairing_key is not the key of this file: call again without pairing_key"
            )
        if mark is None:
            device = device.replace(is_encrypted=self._db.key is not None)
        elif not mark.memory:
            self._mark = None  # it is rewritten
        elif mark.memory != device.memory:
            raise InvalidInput(
                f"{self._place} belongs to another memory, or pairing_key is wrong: give its key"
            )
        else:
            device = device.replace(is_encrypted=mark.is_encrypted)
        if device.is_encrypted:
            cipher.require_cipher(self._folder)
        elif self._db.key is not None:
            raise InvalidInput(
                f"{self._place} has unencrypted segments, but the file is encrypted: give an empty "
                "folder, or `memdb decrypt` the file"
            )
        if device != self._device and not dry_run:
            with self._db.write() as tx:
                store(tx, self._device, device)
        self._device = device
        return made

    def _join(self, given: str | None) -> tuple[Device, str | None]:
        """Return a new device, and a new key if there was none."""
        mark, made = self._mark, None
        if mark is None:
            given = made = given or new_key()
        elif not mark.memory:
            raise InvalidInput(
                f"{self._place} has an incomplete memdb-sync.json, which identifies its memory: "
                "wait until the whole file arrives, or sync the first device again"
            )
        elif given is None:
            raise InvalidInput(
                f"{self._place} is paired: give the pairing_key that the first device printed"
            )
        name = platform.node() or "device"
        return Device(new_id(devices_of(self._folder)), name, str(given)), made

    def _preview(self, made: str | None) -> SyncReport:
        waiting = [
            f"{len(found)} segments of {device}"
            for device in devices_of(self._folder)
            if device != self._here.id and (found := self._unread(device))
        ]
        sent = dict(self._pending())
        return SyncReport(self._here.id, made, sent, {}, tuple(waiting), dry_run=True)

    def _pending(self) -> Counter[str]:
        here, now_ms = self._here, self._db.clock()
        with self._db.read() as tx:
            return _count(outgoing.collect(tx, here, now_ms, is_full=here.number == 0))

    def _unread(self, device: str) -> list[Segment]:
        read, _ = self._here.seen.get(device, (0, ""))
        return [one for one in segments_of(self._folder, device) if one.number > read]

    def status(self) -> SyncStatus:
        """Return the state of the folder and the file; nothing changes."""
        with self._open(writes=False):
            return self._status()

    def _status(self) -> SyncStatus:
        if self._device is None or self._mark is None or self._mark.memory != self._here.memory:
            raise InvalidInput(
                f"the file and {self._place} have no sync in common: run a sync first"
            )
        found = []
        for device in devices_of(self._folder):
            said, at_ms = read_status(self._folder, device, self._here.secret)
            segments = segments_of(self._folder, device)
            found.append(
                DeviceStatus(
                    device,
                    str(said.get("name", "")),
                    device == self._here.id,
                    segments[-1].number if segments else 0,
                    self._here.number
                    if device == self._here.id
                    else self._here.seen.get(device, (0, ""))[0],
                    _shown_time(at_ms) if at_ms else None,
                )
            )
            if device != self._here.id and device not in self._here.void:
                self._next(device)
        pending = self._pending().total()
        return SyncStatus(tuple(found), pending, tuple(self._waiting), self._unconfirmed())

    def _unconfirmed(self) -> tuple[str, ...]:
        """Return the devices that have not yet removed what was forgotten here."""
        if not self._here.confirms:
            return ()
        found = []
        for device in devices_of(self._folder):
            if device == self._here.id or device in self._here.void:
                continue
            said, _ = read_status(self._folder, device, self._here.secret)
            if said.get("seen", {}).get(self._here.id, 0) < self._here.confirms:
                found.append(str(said.get("name") or device))
        return tuple(found)

    # This device.

    def _recover(self) -> None:
        """
        Finish a segment that was registered but not renamed; become a new device if necessary.

        The folder has more of the device than the file if the file is a copy or an older backup. If
        the clock was wrong, no device accepts the stamps.
        """
        here = self._here
        own = segments_of(self._folder, here.id)
        last = own[-1].number if own else 0
        if last < here.number:
            for is_full in (False, True):
                path = path_of(self._folder, here, here.number, is_full=is_full)
                if os.path.exists(path + PARTIAL) and hash_of(path + PARTIAL) == here.hash:
                    publish(path)
                    return self._tidy()
            return self._become(here.replace(hash=""))  # it tells all again
        is_damaged = bool(own) and last == here.number and hash_of(own[-1].path) != here.hash
        is_other = last > here.number or (is_damaged and self._is_whole(own[-1]))
        are_missing = bool(own) and len({one.number for one in own}) <= last - own[0].number
        if not is_other and (is_damaged or are_missing):
            return self._become(here.replace(hash=""))  # it tells all again
        if is_ahead(here.stamp, self._db.clock()):
            return self._renew(here.replace(stamp=0, void=(*here.void, here.id)))
        if is_other:
            read = (here.number, here.hash) if last > here.number else (here.number - 1, "")
            former = (*here.former, here.id)
            self._renew(here.replace(seen={**here.seen, here.id: read}, former=former))
        return None

    def _is_whole(self, segment: Segment) -> bool:
        """Return whether a segment of this device, or of a copy of the file, can be read."""
        try:
            for _ in open_segment(segment, self._here.id, self._here)[1]:
                pass
        except Refused:
            return False
        return True

    def _become(self, device: Device) -> None:
        with self._db.write() as tx:
            self._device = store(tx, self._device, device)

    def _renew(self, device: Device) -> None:
        """Make the file a new device, which writes everything that it has."""
        self._become(device.replace(id=new_id(devices_of(self._folder)), number=0, hash=""))

    def _arrange(self) -> None:
        """
        Move messages and old versions to the places of other devices, after changes here.

        Raises:
            Corrupt: the file is damaged, so absent data may be lost instead of removed.
        """
        with self._db.read() as tx:
            is_less = any(synced.removed(tx, kind) for kind in synced.THINGS)
            rows = [row for row, _, _ in sessions.list_all_branches(tx, 0, MAX_INT, MAX_INT)]
            found = sorted(set(sessions.roots(tx, rows).values()))
        if is_less:
            self._require_sound()
        with self._db.write() as tx:
            drop_repeated_versions(tx)
        for session in found:  # a branch may leave where nothing is, also if nothing was removed
            with self._db.write() as tx:
                if sessions.identity(tx, session) is not None:
                    Tree(tx, session).arrange(tx)

    def _require_sound(self) -> None:
        for one in integrity.check(self._db, deep=True):
            if not one.rebuildable and one.code != "wal_held":
                raise Corrupt(
                    f"the file is damaged ({one.code}: {one.text}), and lacks data that was "
                    "synced. Other devices would take it for deleted, so nothing was sent. Run "
                    "`memdb check`, then `memdb recover` or restore a backup, and sync that file"
                )

    def _send(self, *, is_full: bool) -> Counter[str]:
        """Write a segment of the changes, if there are any; return how many things by kind."""
        here, now_ms = self._here, self._db.clock()
        number = here.number + 1
        is_full = is_full or (here.number > 0 and not here.hash)
        path = path_of(self._folder, here, number, is_full=is_full)
        with self._db.read() as tx:
            changes = outgoing.collect(tx, here, now_ms, is_full=is_full)
            counts = _count(changes)
            if not changes and not is_full:
                return counts
            stamp = stamp_of(now_ms, here.id, here.stamp)
            seen = {device: count for device, (count, _) in here.seen.items()}
            head = Head(here.id, here.name, number, here.hash, stamp, seen, here.void)
            digest = write_partial(path, here, head, outgoing.list_lines(tx, changes))
            forgot = dict(outgoing.count_forgotten(tx)) if is_full else here.forgot
        confirms = number if counts["forgotten"] else here.confirms
        after = here.replace(
            number=number, hash=digest, stamp=stamp, forgot=forgot, confirms=confirms
        )
        with self._db.write() as tx:
            self._device = store(tx, here, after)
            outgoing.agree(tx, changes)
        publish(path)
        if is_full:
            self._tidy()
        return counts

    def _holds_forgotten(self) -> bool:
        """Return whether something was forgotten after the last full segment."""
        with self._db.read() as tx:
            return dict(outgoing.count_forgotten(tx)) != self._here.forgot

    def _is_asked(self) -> bool:
        """Return whether a device found one of our segments damaged, and cannot continue."""
        own = segments_of(self._folder, self._here.id)
        full = max((one.number for one in own if one.is_full), default=0)
        for device in devices_of(self._folder):
            said, _ = read_status(self._folder, device, self._here.secret)
            read = said.get("seen", {}).get(self._here.id, 0)
            if self._here.id in said.get("broken", ()) and read >= full:
                return True
        return False

    def _has_many(self) -> bool:
        """Return whether the segments are many, and the later ones larger than the first."""
        own = segments_of(self._folder, self._here.id)
        if len(own) <= MAX_SEGMENTS:
            return False
        sizes = [os.path.getsize(one.path) for one in own]
        return sum(sizes[1:]) > sizes[0]

    def _tidy(self) -> None:
        """
        Remove what a full segment replaces: older segments, and folders of former devices.

        A file that continues as one of those devices writes everything again.
        """
        own = segments_of(self._folder, self._here.id)
        full = max((one.number for one in own if one.is_full), default=0)
        for one in own:
            if one.number < full:
                os.remove(one.path)
        place = os.path.join(self._folder, self._here.id)
        for name in os.listdir(place):
            if name.endswith(PARTIAL):
                os.remove(os.path.join(place, name))
        read = [one for one in self._here.former if not self._unread(one)]
        for device in (*self._here.void, *read):
            with suppress(OSError):
                shutil.rmtree(os.path.join(self._folder, device))

    # The others.

    def _receive(self, progress: Callable[[int], object] | None) -> Merge:
        """Merge the segments of all other devices, each after those that it had read."""
        merge = Merge(self._services)
        with self._db.write() as tx:
            merge.settle(tx)
        goes_on = True
        while goes_on:
            goes_on = False
            self._waiting.clear()
            self._broken.clear()
            for device in devices_of(self._folder):
                if device == self._here.id or device in self._here.void:
                    continue
                try:
                    goes_on |= self._receive_from(device, merge, progress)
                except OSError as error:  # of one device; it may have removed a segment meanwhile
                    self._waiting.append(f"{error.filename} cannot be read ({error.strerror})")
        return merge

    def _receive_from(
        self, device: str, merge: Merge, progress: Callable[[int], object] | None
    ) -> bool:
        """Merge the next segment of a device; False if none can be merged."""
        found = self._next(device)
        if found is None:
            return False
        segment, head, lines = found
        try:
            for count, chunk in enumerate(chunks_of(lines), 1):
                merge.merge(chunk)
                if progress is not None:
                    progress(count)
            with self._db.write() as tx:
                merge.end_segment(tx)
        except Refused as error:
            self._waiting.append(f"{_shown(segment, device)} {error}")
            if isinstance(error, Broken):
                self._broken.add(device)
            return False
        here = self._here
        after = here.replace(
            seen={**here.seen, device: (segment.number, hash_of(segment.path))},
            stamp=max(here.stamp, head.stamp),
            void=tuple(sorted({*here.void, *head.void} - {here.id})),
        )
        self._become(after)
        return True

    def _next(self, device: str) -> Found | None:
        """Return the segment of a device to merge now; None, and why, if there is none."""
        read, digest = self._here.seen.get(device, (0, ""))
        unread = self._unread(device)
        full = [one for one in reversed(unread) if one.is_full]
        why = ""
        for segment in [one for one in unread if one.number == read + 1] + full:
            try:
                head, lines = open_segment(segment, device, self._here)
                if not segment.is_full and digest and head.previous != digest:
                    raise Broken("does not follow the one that was read before it")
                self._require_order(head, is_full=segment.is_full)
            except Refused as error:
                why = why or f"{_shown(segment, device)} {error}"
                if isinstance(error, Broken):
                    self._broken.add(device)
                continue
            return segment, head, lines
        if unread and not why:
            why = f"{_shown(unread[0], device)} waits for number {read + 1}, which is missing"
        if why:
            self._waiting.append(why)
        return None

    def _require_order(self, head: Head, *, is_full: bool) -> None:
        """Raise Refused if a segment is dated in the future, or if one before it is missing."""
        if is_ahead(head.stamp, self._db.clock()):
            raise Refused(
                f"is dated {_shown_time(ms_of(head.stamp))}, more than a day ahead: "
                "a clock is wrong"
            )
        for other, number in () if is_full else head.seen.items():
            if other == self._here.id or other in self._here.void or other in self._broken:
                continue
            read, _ = self._here.seen.get(other, (0, ""))
            if read < number and segments_of(self._folder, other):
                raise Refused(f"waits for number {number} of {other}")


def _shown_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _shown(segment: Segment, device: str) -> str:
    return f"{device}/{os.path.basename(segment.path)}"


def _count(changes: outgoing.Changes) -> Counter[str]:
    """Return the number of things by kind, and how many are forgotten."""
    counts: Counter[str] = Counter()
    for kinds in changes.values():
        for kind, sent in kinds.items():
            counts[kind] += sum(one.place is not None for one in sent)
            counts["removed"] += sum(one.place is None for one in sent)
            counts["forgotten"] += sum(one.gone > 1 for one in sent)
    return +counts
