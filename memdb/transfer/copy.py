"""
Copy memory from one database into another: a file or a server, either way.

Every row keeps its uid, seq, revision and version; vectors are copied, so nothing is embedded
again. The target is written in one transaction, which ends after the rows of each scope were
read again and have the hash of the source's. So a copy that is stopped leaves nothing.

An empty target gets the same ids. In a target with other scopes a number that is taken is
replaced, and ids are moved with it.
"""

from __future__ import annotations

from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING

from memdb.errors import AlreadyExists, Corrupt, InvalidInput, NotFound, StorageError, TooLarge
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
)
from memdb.records.scopes import PARTS, name_part
from memdb.tables import copies, jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.engine.base import Engine, Row, Tx
    from memdb.tables.copies import ScopeRow, SpaceRow

# Rows whose words are indexed together: those of many at once cost less.
BATCH_ROWS = 50_000

# How long nothing is said of the progress.
TELL_S = 1.0

# The first key of jobs and of state.
FIRST_JOB = ("", "", -1, -1)
FIRST_STATE = ("", "", None, None)  # a key may be ""


class Part:
    """
    One scope that is copied.

    Attributes:
        row: Its row in the source.
        number: Its number in the target.
        counts: Its rows by step.
        hash: Of what was read.
        is_there: The target has it already, proven equal.
    """

    __slots__ = ("counts", "hash", "is_there", "number", "row")

    def __init__(self, row: ScopeRow, counts: dict[str, int]) -> None:
        """Begin the copy of a scope."""
        self.row = row
        self.counts = counts
        self.number = row.scope_no
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
        self._done = self._total = 0
        self._shown_s = 0.0
        self._is_empty = False
        self._state: list[list[Row]] = []

    def run(self, *, dry_run: bool) -> CopyReport:
        """Copy, prove and reveal; with *dry_run* only count."""
        with self._source.read() as tx:
            self._plan(tx)
            if dry_run:
                return self._report(dry_run=True)
            if self._new or self._state:
                self._refuse_damaged(tx)
                with self._target.write() as out:
                    self._copy(tx, out)
                self._tell(is_last=True)
        return self._report(dry_run=False)

    @property
    def _new(self) -> list[Part]:
        """The scopes that the target has not yet."""
        return [part for part in self._parts if not part.is_there]

    def _report(self, *, dry_run: bool) -> CopyReport:
        counts: dict[str, int] = {}
        for part in self._new:
            for name, count in part.counts.items():
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
            rows = _chosen(tx, self._owner)
            visible = {(row.app, row.user_name): row for row in copies.list_scopes(there)}
            numbers = {space.space_no: space for space in self._spaces}
            for row in rows:
                part = Part(row, counts_of(tx, row.scope_no, numbers))
                found = visible.get((row.app, row.user_name))
                if found is not None:
                    self._compare_existing(tx, there, part, found)
                self._parts.append(part)
            self._plan_state(tx, there)
            self._is_empty = not visible and not copies.read_state(there, None, FIRST_STATE)
        self._total = 2 * sum(part.rows for part in self._new)

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
        for one in [None] if self._owner is None else _family(self._owner):
            for row in chain.from_iterable(_state_pages(tx, one)):
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

    # One transaction of the target.

    def _copy(self, tx: Tx, out: Tx) -> None:
        """Copy the scopes, and what has an effect at once: jobs, state, settings."""
        visible = {(row.app, row.user_name) for row in copies.list_scopes(out)}
        for part in self._new:
            if (part.row.app, part.row.user_name) in visible:
                raise _exists(part.row)
            self._copy_part(tx, out, part)
        needed = self._copy_jobs(tx, out)
        for rows in self._state:
            out.load("state", copies.STATE_COLUMNS, rows)
        self._finish_spaces(out, needed)
        if self._owner is None and self._is_empty and not copies.list_settings(out):
            out.load("settings", copies.SETTING_COLUMNS, copies.list_settings(tx))

    def _copy_part(self, tx: Tx, out: Tx, part: Part) -> None:
        """
        Copy a scope and prove that it is equal.

        Raises:
            StorageError: what the target holds is something else.
        """
        part.number = copies.new_scope_no(out, part.row.scope_no)
        if part.number > MAX_SCOPE_NO:
            raise TooLarge("number of scopes in one file", MAX_SCOPE_NO, part.number)
        copies.add_scope(out, part.row.replace(scope_no=part.number))
        part.hash = self._copy_rows(tx, out, part)
        numbers = _places(self._spaces, copies.list_spaces(out))
        found = Reader(out, part.number, numbers).hashes(self._count)
        verify_blobs(out, part.number)
        if part.hash != total_hash(found):
            raise StorageError(
                f"{self._target.path} differs from what was copied: its disk is damaged. Copy "
                "again, to another place"
            )

    def _copy_rows(self, tx: Tx, out: Tx, part: Part) -> str:
        """Copy the rows of a scope, and return their hash."""
        writer, hashes, count = Writer(out, tx, self._space_in(out)), new_hashes(), 0
        for page in self._reader(tx, part).pages():
            add_to_hash(hashes, page)
            writer.write(page)
            self._count(0 if isinstance(STEPS[page.step], Link) else len(page.rows))
            count += len(page.rows)
            if count >= BATCH_ROWS:
                writer.finish()
                count = 0
        writer.finish()
        return total_hash(hashes)

    def _reader(self, tx: Tx, part: Part) -> Reader:
        """Return what reads a scope of the source, with the ids that it has in the target."""
        numbers = [space.space_no for space in self._spaces]
        reader = Reader(tx, part.row.scope_no, numbers, as_no=part.number)
        reader.verifies = self._owner is not None
        return reader

    def _count(self, rows: int) -> None:
        self._done += rows
        self._tell()

    def _tell(self, *, is_last: bool = False) -> None:
        """Show how far it is, now and then."""
        if self._progress is not None and (is_last or monotonic() >= self._shown_s + TELL_S):
            self._progress(self._total if is_last else self._done, self._total)
            self._shown_s = monotonic()

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
                for part in self._new:
                    jobs.add_missing(out, space.space_no, scope_range(part.number))

    def _copy_jobs(self, tx: Tx, out: Tx) -> set[int]:
        """Copy the jobs of the scopes, leases apart; return the spaces that have rows of them."""
        numbers = {part.row.scope_no: part.number for part in self._new}
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
        progress: Called with (done, total) rows once a second, and at the end; each row is
            written, and read again.

    Transaction: one read of *source*, one write of *target*.

    Raises:
        AlreadyExists: *target* has a scope, or state, of that name with other content.
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
        InvalidInput: this thread is inside a transaction.
    """
    source.refuse_inside("copy")
    with source.read() as tx:
        _chosen(tx, owner)


def _chosen(tx: Tx, owner: tuple[str, str] | None) -> list[ScopeRow]:
    """Return the rows of the scopes that are copied, with the parts of the app, by number."""
    rows = copies.list_scopes(tx)
    if owner is None:
        return rows
    app, user = owner
    family = _family(owner)
    found = [row for row in rows if (row.app, row.user_name) in family]
    if not found and not copies.read_state(tx, owner, FIRST_STATE):
        raise NotFound("user", user, f"app {app!r}")
    return found


def _family(owner: tuple[str, str]) -> list[tuple[str, str]]:
    """Return a scope as (app, user), and those of the same user in the parts of its app."""
    app, user = owner
    return [owner, *((name_part(app, part), user) for part in PARTS)]


def _places(spaces: list[SpaceRow], there: list[SpaceRow]) -> list[int | None]:
    """Return the number of each space in another database, None where that has none."""
    numbers = {(one.model, one.dim, one.metric): one.space_no for one in there}
    return [numbers.get((one.model, one.dim, one.metric)) for one in spaces]


def _state_pages(tx: Tx, owner: tuple[str, str] | None) -> Iterator[list[Row]]:
    after: tuple[str | None, ...] = FIRST_STATE
    while rows := copies.read_state(tx, owner, after):
        yield rows
        after = rows[-1][:4]


def _exists(row: ScopeRow) -> AlreadyExists:
    return AlreadyExists(
        "user", row.user_name, f"in app {row.app!r} of the target, with other content"
    )


def _nothing(_: int) -> None:
    return
