"""
Import: stores the lines of exports and the records of other formats, in chunks.

A chunk is about two thousand lines in one transaction, so a stopped import keeps
whole chunks, and running it again adds the rest. Within a chunk, sessions come before messages, and
messages before rows that refer to them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, SecretFound
from memdb.models.record import Record
from memdb.models.reports import ImportReport, LeftOut
from memdb.models.settings import read_settings
from memdb.records.scopes import name_part, part_of
from memdb.tables import scopes, settings
from memdb.transfer import artifacts, entries, messages, others
from memdb.transfer.lines import (
    LEFT_OUT,
    NOTE,
    REFUSALS,
    SCOPE,
    Group,
    Item,
    PartFile,
    Target,
    located,
    without_place,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.records.scopes import ScopeRef
    from memdb.transfer.lines import TransferServices


NOTHING = "Nothing is stored"

# Messages that a dry run shows, with their first words.
SAMPLES = 3
SAMPLE_CHARS = 80

# Holds the write lock for 0.06 s; half as many cost a quarter more per line.
CHUNK_ITEMS = 2000
CHUNK_BYTES = 4 << 20


class _Kind(Record):
    """
    How the lines of a kind are read, checked and written.

    Attributes:
        counter: Field of the report to which a dry run adds them; "" if `Trial` or nothing counts
            them.
        named: Returns the session and the external id of the message that a hand-written line
            names, None if there is none.
    """

    read: Callable[[Target, Item], Any]
    write: Callable[[Target, Any, list[Any]], None]
    counter: str = ""
    named: Callable[[Any], tuple[str, str | None] | None] = lambda _: None


# In the order in which a chunk writes them.
_KINDS = {
    "session": _Kind(messages.read_session, messages.write_sessions),
    "branch": _Kind(messages.read_branch, messages.write_branches),
    "message": _Kind(messages.read_message, messages.write_messages),
    "summary": _Kind(others.read_summary, others.write_summaries, "summaries_added"),
    "entry": _Kind(
        entries.read_entry, entries.write_entries, "entries_added", entries.named_message
    ),
    "artifact": _Kind(
        artifacts.read_artifact,
        artifacts.write_artifacts,
        "artifacts_added",
        artifacts.named_message,
    ),
    "artifact_name": _Kind(artifacts.read_name, artifacts.write_names),
    "item": _Kind(others.read_item, others.write_items, "items_added"),
    "embedding": _Kind(others.read_vector, others.write_vectors, "embeddings_added"),
    "state": _Kind(others.read_state, others.write_state, "state_added"),
    "tombstone": _Kind(others.read_tombstone, others.write_tombstones),
}


class _Checked:
    """
    A group whose items can be stored, as far as reading shows.

    No Record, which takes 1 µs more to make, and an import makes one for each line.

    Attributes:
        lines: The kind of each, and the result of `_Kind.read`.
    """

    __slots__ = ("items", "lines", "place")

    def __init__(self, place: str, items: tuple[Item, ...], lines: list[tuple[str, Any]]) -> None:
        """Take them."""
        self.place = place
        self.items = items
        self.lines = lines


def _check_end(item: Item) -> None:
    """Skip the last line of an export that came over HTTP."""
    if item.fields.get("complete") is not True:
        raise InvalidInput("the export was cut while it was made: export again")


class Importer:
    """
    Stores items and groups in chunks; `finish` must be called after the last one.

    Attributes:
        added: Numbers of stored rows so far, by the names of `ImportReport`.
        refused: The places of the groups that were left out so far.
    """

    def __init__(
        self,
        services: TransferServices,
        owner: ScopeRef | None,
        source: str,
        format: str,  # noqa: A002 (the word that users of files use)
        *,
        is_strict: bool,
        is_captured: bool,
        dry_run: bool,
    ) -> None:
        """
        Store the records of the file *source* in *format*.

        Args:
            owner: None means the scopes in the items.
            is_strict: What cannot be stored stops the import: later lines refer to earlier ones.
            is_captured: Whether hooks store the same data: keys are redacted, and a message with a
                stored id stays unchanged.
            dry_run: Only check and count.
        """
        self.added: Counter[str] = Counter()
        self.advice = f"correct {source} and import again"
        self.refused: set[str] = set()
        self._first: InvalidInput | None = None  # why the first record is left out
        self._format = format
        self._is_strict = is_strict
        self._is_captured = is_captured
        self._services = services
        self._dry_run = dry_run
        self._report = Refusals()
        self._samples: list[str] = []
        self._trial = messages.Trial()  # of a dry run
        self._special: dict[str, Callable[[Item], None]] = {
            "settings": self._take_settings,
            "scope": self._enter,
            "end": _check_end,
            NOTE: self._note,
            artifacts.PART.kind: self._read_part,
        }
        self._has_stored = False
        self._filled: list[Target] = []
        self._owner = owner
        self._target = None if owner is None else self._fill(owner, owner.app)
        self._scope: dict[str, Any] | None = None
        self._scope_error: SecretFound | None = None
        self._waiting: list[_Checked] = []
        self._waiting_lines = 0
        self._waiting_bytes = 0

    def add(self, given: Item | Group) -> None:
        """
        Check an item or a group. It is stored with its chunk, or left out as a whole.

        Raises:
            InvalidInput: it cannot be stored, and the format is strict; earlier records are stored.
        """
        if isinstance(given, Item):
            items: tuple[Item, ...] = (given,)
        elif given.reason is None:
            items = given.items
        else:
            self._refuse(given.place, InvalidInput(f"{given.place}: {given.reason}"))
            return
        lines: list[tuple[str, Any]] = []
        size = 0
        for item in items:
            try:
                line = self._read(item)
            except REFUSALS as error:
                self._refuse(given.place, located(item.place, error))
                return
            if line is not None:
                lines.append((item.kind, line))
                size += _size_of(item.kind, line)
        if len(lines) < len(items):
            for item in items:
                if item.kind == LEFT_OUT:
                    self._leave_out(item)
        if not lines:
            return
        kept = items if self._dry_run else ()
        self._waiting.append(_Checked(given.place, kept, lines))
        self._waiting_lines += len(lines)
        self._waiting_bytes += size

    def _read(self, item: Item) -> Any:
        """Return an item, checked, in its kind's form for writing; None if it makes no row."""
        kind = _KINDS.get(item.kind)
        if kind is not None:
            if item.kind == "branch":
                self.flush()  # what it shares has its seqs by then
            return kind.read(self._require_target(), item)
        if item.kind == LEFT_OUT:
            return None
        special = self._special.get(item.kind)
        if special is None:
            self._require_target()
            known = ", ".join((*_KINDS, *self._special))
            raise InvalidInput(f"kind is {item.kind!r}: use one of {known}")
        if item.kind == "scope":
            self.finish()
        special(item)
        return None

    def _refuse(self, place: str, error: InvalidInput) -> None:
        """
        Leave a group out.

        Raises:
            InvalidInput: the format is strict, and the group contains no secret.
        """
        if self._target is not None:
            self._target.parts = PartFile()
        if self._is_strict and not isinstance(error, SecretFound):
            self.flush()
            raise InvalidInput(f"{error}. {self.kept}: {self.advice}") from error
        self.refused.add(place)
        self._first = self._first or located(place, error)
        self._report.refuse(place, without_place(place, str(error)))

    def refuse_folders(self, unreadable: dict[str, str]) -> None:
        """Count folders that cannot be read, with the reason."""
        for name, why in unreadable.items():
            self._report.refuse(name, why)

    @property
    def full(self) -> bool:
        """Whether a chunk waits to be stored."""
        return self._waiting_lines >= CHUNK_ITEMS or self._waiting_bytes >= CHUNK_BYTES

    @property
    def kept(self) -> str:
        """Sentence for an error: whether the records before the failing one are stored."""
        if not self._has_stored:
            return NOTHING
        return f"The records before it are stored ({self.stored})"

    @property
    def stored(self) -> str:
        """Text for the stored rows: "7 messages in 1 new session, 2 entries"."""
        counts: dict[str, Any] = {**self.added}
        return ImportReport(self._format, **counts).added

    def report(self) -> ImportReport:
        """
        Return the numbers of added (or in a dry run expected) rows, and what was left out.

        Raises:
            InvalidInput: nothing can be stored, because every record is broken.
            SecretFound: the same, and the first record contains a secret that the settings refuse.
        """
        first = self._first
        if first is not None and not (self._has_stored or self._dry_run):
            note = f". {NOTHING}: {self.advice}"
            if isinstance(first, SecretFound):
                raise SecretFound(first.field, first.kinds, note)
            raise InvalidInput(f"{first}{note}")
        return ImportReport(
            self._format,
            **self.added,
            left_out=self._report.listed(),
            dry_run=self._dry_run,
            samples=tuple(self._samples),
            notes=shorten_notes([note for one in self._filled for note in one.notes]),
        )

    def _count(self, item: Item) -> None:
        """Count an item of a dry run that is not a message; keep the first messages."""
        fields = item.fields
        kind = _KINDS.get(item.kind)
        if kind is not None and kind.counter:
            self.added[kind.counter] += 1
        if item.kind == "message" and len(self._samples) < SAMPLES and fields.get("text"):
            words = " ".join(str(fields["text"]).split())[:SAMPLE_CHARS]
            self._samples.append(f"{fields.get('role')}: {words}")

    def _require_target(self) -> Target:
        """Return the target scope; InvalidInput if the earlier lines named none."""
        if self._scope_error is not None:
            raise self._scope_error
        if self._target is None:
            raise InvalidInput("there is no user for this memory: give a user")
        return self._target

    def _leave_out(self, item: Item) -> None:
        """Count a record that the format does not import."""
        self._report.leave_out(item.fields["what"], item.fields["why"], item.fields["count"])

    def _note(self, item: Item) -> None:
        """Keep a note for the report."""
        self._require_target().notes.append(item.fields["text"])

    def _read_part(self, item: Item) -> None:
        """Keep bytes of the artifact in the next line."""
        artifacts.read_part(self._require_target(), item)

    def _take_settings(self, item: Item) -> None:
        """
        Store the settings of an export in an empty file without settings of its own.

        In another file they would change how it treats other data.
        """
        changes = read_settings(item.fields)
        with self._services.db.read() as tx:
            is_new = not settings.get_all(tx) and not scopes.list_all(tx)
        if is_new and self._owner is None and not self._dry_run:
            self._services.change_settings(changes)
            self.added["settings_added"] += len(item.fields)

    def _fill(self, owner: ScopeRef, file_app: str) -> Target:
        captured = self._is_captured
        target = Target(self._services, owner, file_app, self.added, is_captured=captured)
        self._filled.append(target)
        return target

    def _enter(self, item: Item) -> None:
        """Begin another scope of an export."""
        self._target, self._scope, self._scope_error = None, None, None
        scope = SCOPE.from_line(item.fields, exported=self._is_strict)
        app, user = scope["app"], scope["user"]
        owner = self._owner or self._services.scope(app, user)
        if self._owner is not None and (part := part_of(app)):
            owner = self._services.scope(name_part(owner.app, part), owner.user)
        if (owner.app, owner.user) == (app, user):
            try:
                self._services.screen.pass_line("scope", scope)
            except SecretFound as error:
                self._scope_error = error  # of each line of the scope
                raise
        self._target = self._fill(owner, app)
        is_own = scope["uid"] is not None and (owner.app, owner.user) == (app, user)
        self._scope = scope if is_own else None

    def flush(self) -> None:
        """
        Store the waiting groups, if possible in one transaction.

        Raises:
            InvalidInput: a group cannot be stored, and the format is strict. The groups before it
                are stored.
        """
        waiting, self._waiting = self._waiting, []
        self._waiting_lines = self._waiting_bytes = 0
        if self._target is None or not (waiting or self._scope):
            return
        if self._dry_run:
            self._scope = None
            read = [(group, self._read_trial(self._target, group)) for group in waiting]
            for group, counts in read:
                if counts is not None:
                    self._try(self._target, group, counts)
        else:
            self._store(self._target, waiting)

    def _read_trial(self, target: Target, group: _Checked) -> Counter[str] | None:
        """
        Return what a group of a dry run adds in messages.

        None if an id belongs to another message.
        """
        lines = [line for kind, line in group.lines if kind == "message"]
        titled = [line for kind, line in group.lines if kind == "session"]
        try:
            return self._trial.read(target, lines, titled)
        except InvalidInput as error:
            self._refuse(group.place, error)
            return None

    def _try(self, target: Target, group: _Checked, counts: Counter[str]) -> None:
        """Count a group of a dry run, unless it names a session or message that is absent."""
        try:
            for kind, line in group.lines:
                named = _KINDS[kind].named(line)
                if named is not None and named not in self._trial.taken:
                    with self._services.db.read() as tx:
                        session, message = named
                        if message is not None:
                            target.named_message(tx, session, message)
                        elif session not in self._trial.sessions:
                            target.require_session(tx, session)
        except REFUSALS as error:
            self._refuse(group.place, located(group.place, error))
            return
        self.added += counts
        for item in group.items:
            self._count(item)

    def _store(self, target: Target, waiting: list[_Checked]) -> None:
        """
        Store groups in one transaction.

        If one cannot be stored, do so with each half of them.
        """
        lines: defaultdict[str, list[Any]] = defaultdict(list)
        for group in waiting:
            for kind, line in group.lines:
                lines[kind].append(line)
        names = {line.session for line in lines["message"]}
        names |= {row["name"] for row in lines["session"]}
        saved = target.save_state(names)
        try:
            if lines["message"]:
                lines["message"] = messages.count_messages(target, lines["message"])
            target.owner.admit()
            with self._services.db.write() as tx:
                self._write(target, tx, lines)
        except BaseException as error:  # the counts are those of what is stored
            target.restore_state(saved)
            if not isinstance(error, REFUSALS):
                raise
            if len(waiting) > 1:
                half = len(waiting) // 2
                self._store(target, waiting[:half])
                self._store(target, waiting[half:])
                return
            if self._is_strict and not isinstance(error, SecretFound):
                raise InvalidInput(f"{error}. {self.kept}: {self.advice}") from error
            self._refuse(waiting[0].place, located(waiting[0].place, error))
        else:
            self._has_stored = True
            self._scope = None

    def _write(self, target: Target, tx: Tx, lines: dict[str, list[Any]]) -> None:
        """Add the lines, those of each kind together."""
        scope = self._scope
        if scope is not None and target.owner.find(tx) is None:
            scopes.ensure(tx, scope["app"], scope["user"], scope["uid"], scope["created_ms"])
        for name, kind in _KINDS.items():
            if lines.get(name):
                kind.write(target, tx, lines[name])

    def finish(self) -> None:
        """Store the waiting groups, and finish the embedding jobs of imported vectors."""
        self.flush()
        if self._target is not None and self._target.embedded and not self._dry_run:
            with self._services.db.write() as tx:
                others.settle_sessions(self._target, tx)


def _size_of(kind: str, line: Any) -> int:
    """Return about how many bytes an artifact or item adds to a chunk; 0 for other kinds."""
    if kind == "artifact":
        data = line.fields["data"]
        return len(data) if isinstance(data, bytes) else CHUNK_BYTES
    return len(line.draft.value or line.draft.data or b"") if kind == "item" else 0


# Reasons that a report lists one by one; a table may have a fault in each row.
MAX_REASONS = 100
FURTHER = "further records"
FURTHER_WHY = "they have faults like those before"


def shorten_notes(notes: list[str]) -> tuple[str, ...]:
    """Return the notes that a report lists, and how many more there are."""
    more = len(notes) - MAX_REASONS
    return (*notes[:MAX_REASONS], *([f"{more:,} more like these"] if more > 0 else []))


class Refusals:
    """Records that an import left out; above a number they are only counted."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._places: set[str] = set()
        self._counts: dict[tuple[str, str], int] = {}

    def refuse(self, place: str, why: str) -> None:
        """Count a broken record."""
        if len(self._places) < MAX_REASONS:
            self._places.add(place)
            self.leave_out(place, why, 1)
        else:
            self.leave_out(FURTHER, FURTHER_WHY, 1)

    def leave_out(self, what: str, why: str, count: int) -> None:
        """Count a record that the format does not import."""
        self._counts[what, why] = self._counts.get((what, why), 0) + count

    def listed(self) -> tuple[LeftOut, ...]:
        """Return what was left out, in the order of the source."""
        return tuple(
            LeftOut(what, why, count, is_place=what in self._places)
            for (what, why), count in self._counts.items()
        )
