"""
Copy memory from one database into another: a file or a server, either way.

Every row keeps its uid, seq, revision and version; vectors are copied, so nothing is embedded
again. A scope is written in batches under a hidden name and appears, with all others of the
copy, in the last transaction, after its rows were read again and have the hash of the source's.
A lease in the target keeps other copies away. What a copy that was stopped left is removed when
the next one begins.

An empty target gets the same ids. In a target with other scopes a number that is taken is
replaced, and ids are moved with it.
"""

from __future__ import annotations

import os
from json import dumps, loads
from time import monotonic
from typing import TYPE_CHECKING

from memdb.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    Corrupt,
    InvalidInput,
    MemDBError,
    NotFound,
    StorageError,
    TooLarge,
)
from memdb.models.ids import MAX_SCOPE_NO, scope_of, scope_range
from memdb.models.reports import CopiedScope, CopyReport
from memdb.records.scope_rows import (
    STEPS,
    Link,
    Reader,
    Writer,
    add_to_hash,
    counts_of,
    new_hashes,
    total_hash,
    verify_blobs,
    wipe,
)
from memdb.tables import copies, jobs
from memdb.tables.copies import LEASE
from memdb.tables.scopes import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Engine, Row, Tx
    from memdb.records.scope_rows import Hashes, Page
    from memdb.tables.copies import ScopeRow, SpaceRow

# How long a transaction collects rows, and how many at most: each commit waits for the disk.
BATCH_S = 1.0
BATCH_ROWS = 50_000

# Rows that are read between two looks at the lease.
TICK_ROWS = 200_000

# The first key of jobs and of state.
FIRST_JOB = ("", "", -1, -1)
FIRST_STATE = ("", "", "", "")


# How long a copy that says nothing keeps others away, if its process cannot be asked.
LEASE_MS = 120_000


class Part:
    """
    One scope that is copied.

    Attributes:
        row: Its row in the source.
        number: Its number in the target.
        counts: Its rows by step.
        done: Rows that were written.
        hashes: Of what was read.
        is_there: The target has it already, proven equal.
    """

    __slots__ = ("counts", "done", "hash", "hashes", "is_there", "number", "row")

    def __init__(self, row: ScopeRow, counts: dict[str, int]) -> None:
        """Begin the copy of a scope."""
        self.row = row
        self.counts = counts
        self.number = row.scope_no
        self.done = 0
        self.hashes: Hashes = new_hashes()
        self.hash: str | None = None
        self.is_there = False

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts.values())


class Copier:
    """One copy of some scopes of *source* into *target*."""

    def __init__(
        self,
        source: Engine,
        target: Engine,
        owner: tuple[str, str] | None,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        """Copy the scope (app, user) *owner*; None: all that the source holds."""
        self._source = source
        self._target = target
        self._owner = owner
        self._progress = progress
        self._parts: list[Part] = []
        self._spaces: list[SpaceRow] = []
        self._numbers: dict[int, int] = {}  # of spaces in the target, by their place
        self._proven = 0
        self._total = 0
        self._since_tick = 0
        self._held_s = 0.0
        self._lease = ""
        self._is_empty = False
        self._state: list[list[Row]] = []

    def run(self, *, dry_run: bool) -> CopyReport:
        """Copy, prove and reveal; with *dry_run* only count."""
        with self._source.read() as tx:
            self._plan(tx)
            if dry_run:
                return self._report(dry_run=True)
            if any(not part.is_there for part in self._parts) or self._state:
                self._refuse_damaged(tx)
                self._begin()
                try:
                    for part in self._parts:
                        if not part.is_there:
                            self._copy_part(tx, part)
                    self._finish(tx)
                finally:
                    self._end()
        return self._report(dry_run=False)

    def _report(self, *, dry_run: bool) -> CopyReport:
        counts: dict[str, int] = {}
        for part in self._parts:
            for name, count in part.counts.items() if not part.is_there else ():
                counts[name] = counts.get(name, 0) + count
        counts["state"] = sum(map(len, self._state))
        return CopyReport(
            target=self._target.path,
            scopes=tuple(
                CopiedScope(part.row.app, part.row.user_name, part.rows, part.hash, part.is_there)
                for part in self._parts
            ),
            rows=counts,
            dry_run=dry_run,
        )

    # What is copied, and what stands in the way.

    def _plan(self, tx: Tx) -> None:
        """
        Find out what is copied, and refuse what the target has.

        Raises:
            NotFound: there is no such scope.
            AlreadyExists: the target has a scope of that name with other content.
            InvalidInput: the two are the same database.
        """
        self._spaces = copies.list_spaces(tx)
        with self._target.read() as there:
            self._refuse_same(tx, there)
            rows = _chosen(tx, self._source.path, self._owner)
            visible = {
                (row.app, row.user_name): row
                for row in copies.list_scopes(there)
                if row.app != UNFINISHED
            }
            numbers = {space.space_no: space for space in self._spaces}
            for row in rows:
                part = Part(row, counts_of(tx, row.scope_no, numbers))
                found = visible.get((row.app, row.user_name))
                if found is not None:
                    self._compare_existing(tx, there, part, found)
                self._parts.append(part)
            self._plan_state(tx, there)
            self._is_empty = not visible and not copies.read_state(there, None, FIRST_STATE)
        self._total = 2 * sum(part.rows for part in self._parts if not part.is_there)

    def _refuse_same(self, tx: Tx, there: Tx) -> None:
        if copies.identity(tx) == copies.identity(there):
            raise InvalidInput(
                f"{self._target.path} is the source itself, or a backup of it: choose another "
                "target"
            )

    def _compare_existing(self, tx: Tx, there: Tx, part: Part, found: ScopeRow) -> None:
        """Note that the target has the scope already; AlreadyExists if it is not the same."""
        if found.uid == part.row.uid:
            part.number = found.scope_no
            numbers = _places(self._spaces, copies.list_spaces(there))
            theirs = Reader(there, found.scope_no, numbers)
            part.hash = total_hash(self._reader(tx, part).hashes(_nothing))
            part.is_there = part.hash == total_hash(theirs.hashes(_nothing))
        if not part.is_there:
            raise _exists(part.row)

    def _plan_state(self, tx: Tx, there: Tx) -> None:
        """Read the values under keys; AlreadyExists if the target has others of an owner."""
        rows: dict[tuple[str, str], list[Row]] = {}
        for page in _state_pages(tx, self._owner):
            for row in page:
                rows.setdefault((row[0], row[1]), []).append(row)
        scopes = {(part.row.app, part.row.user_name): part for part in self._parts}
        for owner, own in rows.items():
            theirs = [row for page in _state_pages(there, owner) for row in page]
            if theirs == own:
                continue
            if theirs or (owner in scopes and scopes[owner].is_there):
                raise AlreadyExists("state", f"{owner[0]}/{owner[1]}")
            self._state.append(own)

    def _refuse_damaged(self, tx: Tx) -> None:
        """Read every row of the source if all is copied; Corrupt if one differs from its digest."""
        if self._owner is not None:
            return  # the rows of other scopes are not read
        for text in tx.find_damaged_rows(deep=False):
            raise Corrupt(
                f"{self._source.path} is damaged ({text}): restore a backup (`memdb restore`) or "
                "take what is left (`memdb recover`), and copy that"
            )

    # The mark in the target.

    def _begin(self) -> None:
        """Take the lease, remove what another copy left, and give every scope its hidden row."""
        with self._target.write() as out:
            _refuse_leased(copies.read_marks(out).get(LEASE), out.now_ms)
            self._lease = self._target.ids(out.now_ms)
            self._hold(out, is_new=True)
            for row in copies.list_scopes(out):
                if row.app == UNFINISHED:
                    wipe(out, row.scope_no)
            for part in self._parts:
                if not part.is_there:
                    part.number = copies.new_scope_no(out, part.row.scope_no)
                    self._add_hidden(out, part)

    def _add_hidden(self, out: Tx, part: Part) -> None:
        """Add the row of a scope under a name that no call opens."""
        if part.number > MAX_SCOPE_NO:
            raise TooLarge("number of scopes in one file", MAX_SCOPE_NO, part.number)
        hidden = part.row.replace(scope_no=part.number, app=UNFINISHED, user_name=part.row.uid)
        copies.add_scope(out, hidden)

    def _hold(self, out: Tx, *, is_new: bool = False) -> None:
        """Renew the lease; Busy if another copy has it."""
        if not is_new:
            held = copies.read_marks(out).get(LEASE)
            if held is None or loads(held)["lease"] != self._lease:
                raise Busy("another copy into the target went on with this one: let it finish")
        copies.put_mark(out, LEASE, _lease_of(self._lease, out.now_ms))
        self._held_s = monotonic()

    def _end(self) -> None:
        """Give the lease back, so that the next copy can begin at once."""
        try:
            with self._target.write() as out:
                held = copies.read_marks(out).get(LEASE)
                if held is not None and loads(held)["lease"] == self._lease:
                    copies.drop_mark(out, LEASE)
        except MemDBError:
            return  # the error that ended it is the one to raise; the lease ends by itself

    # One scope.

    def _copy_part(self, tx: Tx, part: Part) -> None:
        """
        Copy a scope and prove that it is equal.

        Raises:
            StorageError: what the target holds is something else.
        """
        self._copy_rows(tx, part)
        if not self._is_equal(part):
            raise StorageError(
                f"{self._target.path} differs from what was copied: somebody changes what is not "
                "finished there, or its disk is damaged. Copy again"
            )

    def _copy_rows(self, tx: Tx, part: Part) -> None:
        """Copy the rows of a scope, a transaction per batch."""
        pages = self._reader(tx, part).pages()
        is_done = False
        while not is_done:
            with self._target.write() as out:
                self._hold(out)
                is_done = self._write_batch(Writer(out, tx, self._space_in(out)), part, pages)
            self._tell()

    def _write_batch(self, writer: Writer, part: Part, pages: Iterator[Page]) -> bool:
        """Write pages for a moment; return whether none is left."""
        end_s, count = monotonic() + BATCH_S, 0
        for page in pages:
            add_to_hash(part.hashes, page)
            writer.write(page)
            if not isinstance(STEPS[page.step], Link):
                part.done += len(page.rows)
            count += len(page.rows)
            if count >= BATCH_ROWS or monotonic() >= end_s:
                writer.finish()
                return False
        writer.finish()
        return True

    def _reader(self, tx: Tx, part: Part) -> Reader:
        """Return what reads a scope of the source, with the ids that it has in the target."""
        numbers = [space.space_no for space in self._spaces]
        reader = Reader(tx, part.row.scope_no, numbers, as_no=part.number)
        reader.verifies = self._owner is not None
        return reader

    def _is_equal(self, part: Part) -> bool:
        """Read a scope in the target, and compare its hash with that of the source."""
        part.hash = total_hash(part.hashes)
        with self._target.read() as there:
            numbers = _places(self._spaces, copies.list_spaces(there))
            found = Reader(there, part.number, numbers).hashes(self._count)
            verify_blobs(there, part.number, self._tick)
        return part.hash == total_hash(found)

    def _tick(self, count: int) -> None:
        """Show progress now and then, and renew the lease while nothing is written."""
        self._since_tick += count
        if self._since_tick >= TICK_ROWS:
            self._since_tick = 0
            self._tell()
            if monotonic() - self._held_s > LEASE_MS / 4000:
                with self._target.write() as out:
                    self._hold(out)

    def _count(self, rows: int) -> None:
        self._proven += rows
        self._tick(rows)

    def _tell(self) -> None:
        if self._progress is not None:
            written = sum(part.done for part in self._parts)
            self._progress(min(written + self._proven, self._total), self._total)

    # Spaces.

    def _space_in(self, out: Tx) -> Callable[[int], int]:
        """Return what gives the number of a space in the target; a new one is retired yet."""

        def find(place: int) -> int:
            if place not in self._numbers:
                space = self._spaces[place]
                (found,) = _places([space], copies.list_spaces(out))
                if found is None:
                    hidden = space.replace(complete_ms=None, retired_ms=out.now_ms)
                    found = copies.add_space(out, hidden)
                self._numbers[place] = found
            return self._numbers[place]

        return find

    def _finish_spaces(self, out: Tx, needed: set[int]) -> None:
        """Give spaces their times, and queue what spaces of the target have no vectors of."""
        find = self._space_in(out)
        for place, space in enumerate(self._spaces):
            if self._is_empty and (self._owner is None or space.space_no in needed):
                copies.set_space(out, find(place), space)
        if self._is_empty:
            return
        filled = {(one.model, one.dim) for one in self._spaces if one.retired_ms is None}
        for space in copies.list_spaces(out):
            if space.retired_ms is None and (space.model, space.dim) not in filled:
                for part in self._parts:
                    if not part.is_there:
                        jobs.add_missing(out, space.space_no, scope_range(part.number))

    # The last transaction.

    def _finish(self, tx: Tx) -> None:
        """Give the scopes their names, and store what has an effect at once: jobs and state."""
        with self._target.write() as out:
            self._hold(out)
            visible = {(row.app, row.user_name) for row in copies.list_scopes(out)}
            for part in self._parts:
                if part.is_there:
                    continue
                if (part.row.app, part.row.user_name) in visible:
                    raise _exists(part.row)
                copies.set_scope(out, part.row.replace(scope_no=part.number))
            needed = self._copy_jobs(tx, out)
            for rows in self._state:
                out.load("state", copies.STATE_COLUMNS, rows)
            self._finish_spaces(out, needed)
            if self._owner is None and self._is_empty and not copies.list_settings(out):
                out.load("settings", copies.SETTING_COLUMNS, copies.list_settings(tx))
            copies.drop_mark(out, LEASE)
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _copy_jobs(self, tx: Tx, out: Tx) -> set[int]:
        """Copy the jobs of the scopes, leases apart; return the spaces that have rows of them."""
        numbers = {part.row.scope_no: part.number for part in self._parts if not part.is_there}
        place_of = {space.space_no: place for place, space in enumerate(self._spaces)}
        needed = {
            space
            for space in place_of
            if any(tx.vectors.count(space, scope_no) for scope_no in numbers)
        }
        find, after = self._space_in(out), FIRST_JOB
        while rows := copies.read_jobs(tx, after):
            after = rows[-1][:4]
            loaded = []
            for kind, subject, ref, space_no, *rest in rows:
                number = numbers.get(scope_of(ref))
                if number is None or (space_no and space_no not in place_of):
                    continue
                if space_no:
                    needed.add(space_no)
                there = find(place_of[space_no]) if space_no else 0
                moved = ref + (number - scope_of(ref) << 44)
                loaded.append((kind, subject, moved, there, *rest))
            out.load("jobs", copies.JOB_COLUMNS, loaded)
        return needed


def copy(
    source: Engine,
    target: Engine,
    *,
    owner: tuple[str, str] | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> CopyReport:
    """
    Copy the scope (app, user) *owner*, or all, of *source* into *target*.

    Args:
        progress: Called with (done, total) rows after each batch; each row is written, and
            read again.

    Transaction: one read of *source*, one write of *target* per second of work.

    Raises:
        AlreadyExists: *target* has a scope, or state, of that name with other content.
        Busy: another copy into *target* goes on.
        Corrupt: a row or the bytes of an artifact of *source* are damaged.
        NotFound: there is no such scope.
        InvalidInput: both are the same database; or one is inside a transaction.
    """
    return Copier(source, target, owner, progress).run(dry_run=dry_run)


def check_source(source: Engine, owner: tuple[str, str] | None) -> None:
    """
    Refuse what cannot be copied, before a target is made.

    Raises:
        NotFound: there is no such scope.
        Conflict: *source* is itself the target of a copy that was not finished.
        InvalidInput: this thread is inside a transaction.
    """
    source.refuse_inside("copy")
    with source.read() as tx:
        _chosen(tx, source.path, owner)


def _chosen(tx: Tx, path: str, owner: tuple[str, str] | None) -> list[ScopeRow]:
    """Return the rows of the scopes that are copied, by number."""
    rows = copies.list_scopes(tx)
    if owner is None:
        if any(row.app == UNFINISHED for row in rows):
            raise Conflict(
                f"{path} is the target of a copy that was not finished: finish that one first"
            )
        return rows
    app, user = owner
    found = [row for row in rows if (row.app, row.user_name) == owner]
    if not found and not copies.read_state(tx, owner, FIRST_STATE):
        raise NotFound("user", user, f"app {app!r}")
    return found


def _places(spaces: list[SpaceRow], there: list[SpaceRow]) -> list[int | None]:
    """Return the number of each space in another database, None where that has none."""
    numbers = {(one.model, one.dim, one.metric): one.space_no for one in there}
    return [numbers.get((one.model, one.dim, one.metric)) for one in spaces]


def _state_pages(tx: Tx, owner: tuple[str, str] | None) -> Iterator[list[Row]]:
    after: tuple[str, ...] = FIRST_STATE
    while rows := copies.read_state(tx, owner, after):
        yield rows
        after = rows[-1][:4]


def _exists(row: ScopeRow) -> AlreadyExists:
    return AlreadyExists(
        "user", row.user_name, f"in app {row.app!r} of the target, with other content"
    )


def _nothing(_: int) -> None:
    return


def _lease_of(name: str, now_ms: int) -> str:
    """Return the lease of this process as JSON."""
    until_ms = now_ms + LEASE_MS
    return dumps({"lease": name, "host": _host_name(), "pid": os.getpid(), "until_ms": until_ms})


def _host_name() -> str:
    """Return the name of this computer, "" if it has none."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def _refuse_leased(held: str | None, now_ms: int) -> None:
    """Raise Busy if another copy that goes on has the lease."""
    if held is None:
        return
    lease = loads(held)
    is_here = lease["host"] == _host_name()
    if lease["until_ms"] <= now_ms or (is_here and not _is_running(lease["pid"])):
        return
    raise Busy(
        f"another copy into the target goes on (process {lease['pid']} on {lease['host']}): wait "
        "for its end"
    )


def _is_running(pid: int) -> bool:
    if os.name != "posix":
        return True  # not known: the lease ends by itself
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
