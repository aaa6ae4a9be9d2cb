"""
Target: the scope that an import fills, and where things of the file stand in it.

A message keeps its seq if that is free and the session is the one it was
exported from; else it goes to the end, and what refers to it follows.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT, scope_range, session_no_of
from memdb.models.record import Record
from memdb.records import sessions as session_records
from memdb.records.scopes import find_session
from memdb.tables import jobs, messages, scopes, sessions
from memdb.tables.artifacts import SHARED, Place

if TYPE_CHECKING:
    from collections import Counter

    from memdb.artifacts.service import ArtifactService
    from memdb.engine.base import Engine, Tx
    from memdb.entries.service import EntryService
    from memdb.models.messages import Message
    from memdb.records.scopes import Owner
    from memdb.records.spaces import SpaceName
    from memdb.tables.jobs import Job
    from memdb.text.secret_policy import SecretPolicy
    from memdb.text.tokens import Counting


def embedding_jobs(tx: Tx, space_no: int, subject: str, ref: int) -> list[Job]:
    """Return the embedding job of a session or entry, leased and failed ones too."""
    found = jobs.due(tx, space_no, ref, ref, MAX_INT, 2)
    return [job for job in found if job.subject == subject]


def digest_of(text: str) -> bytes:
    """Return what tells one text of an entry from another."""
    return blake2b(text.encode(), digest_size=16).digest()


class TransferServices(Record):
    """
    What an import stores by.

    Attributes:
        counting: Counts the tokens of messages that come without.
        secrets: The policy that messages and entries pass.
        space: The embedding space that new texts are queued for; None means
            only those of the file.
        entries: Stores hand-written facts.
        artifacts: Stores versions.
    """

    db: Engine
    counting: Counting
    secrets: SecretPolicy
    space: SpaceName | None
    entries: EntryService
    artifacts: ArtifactService


class TargetSession:
    """
    Where a session of the file stands.

    Attributes:
        own: It is the session that was exported, so seqs mean the same.
        fresh: This import made it, so it holds nothing that the import did not
            put there.
        has_created_ms: The file says when it was made, or it was here before.
        has_updated_ms: The file says when it changed last.
        dated: Its `updated_ms` is not just the time of this import.
    """

    __slots__ = ("dated", "fresh", "has_created_ms", "has_updated_ms", "id", "own")

    def __init__(
        self, session: int, *, own: bool, fresh: bool, made: bool = False, changed: bool = False
    ) -> None:
        """Stand at the session with id *session*; *made*, *changed*: the file says when."""
        self.id = session
        self.own = own
        self.fresh = fresh
        self.has_created_ms = made or not fresh
        self.has_updated_ms = changed
        self.dated = changed or not fresh


class Target:
    """
    A scope being filled.

    Attributes:
        added: What the import did so far, by the names of `ImportReport`.
        moved: By session and seq in the file, the seq a message got here.
        embedded: The (space, session) pairs that got vectors.
        said: By uid, the `digest_of` what an entry says in the file.
    """

    def __init__(self, services: TransferServices, owner: Owner, added: Counter[str]) -> None:
        """Fill the scope of *owner*."""
        self.services = services
        self.owner = owner
        self.added = added
        self.moved: dict[tuple[str, int], int] = {}
        self.embedded: set[tuple[int, int]] = set()
        self.said: dict[str, bytes] = {}
        self._sessions: dict[str, TargetSession] = {}
        self._last_seqs: dict[str, int] = {}

    def scope_no(self, tx: Tx) -> int:
        """Return the scope's number, making the scope where it is new."""
        return self.owner.ensure(tx)

    def span(self, tx: Tx) -> tuple[int, int]:
        """Return the first and last id that the scope can hold."""
        return scope_range(self.scope_no(tx))

    def make_scope(self, tx: Tx, uid: str, created_ms: int) -> None:
        """Make the scope as it was exported, unless it is there."""
        if self.owner.find(tx) is None:
            scopes.ensure(tx, self.owner.app, self.owner.user, uid, created_ms)

    def tell_session(self, name: str, last_seq: int) -> None:
        """Note that a line of the file described an exported session."""
        self._last_seqs[name] = last_seq

    def last_seq_of(self, name: str) -> int:
        """Return the last seq of an exported session, as its line told it."""
        if name not in self._last_seqs:
            raise InvalidInput(f"no line before told of the session {name!r}: put its line first")
        return self._last_seqs[name]

    def place_session(self, name: str, into: TargetSession) -> None:
        """Note where a session stands that has a line of its own."""
        self._sessions[name] = into

    def session(self, tx: Tx, name: str) -> TargetSession:
        """Return where a session stands, making it where it is new."""
        scope_no = self.scope_no(tx)
        session = sessions.find(tx, scope_no, name)
        found = self._sessions.get(name)
        if found is None or found.id != session:  # new, or deleted since the last chunk
            fresh = session is None
            if session is None:
                session = session_records.ensure(tx, self.owner, name, self.services.db.ids)
                self.added["sessions"] += 1
            found = self._sessions[name] = TargetSession(session, own=False, fresh=fresh)
        return found

    def find_session(self, tx: Tx, name: str) -> int | None:
        """Return the id of a session, None where it is not here."""
        return find_session(tx, self.owner, name)

    def seq_here(self, session: str, seq: int) -> int:
        """Return the seq that a message of the file has here."""
        return self.moved.get((session, seq), seq)

    def named_message(self, tx: Tx, session: str | None, external_id: str) -> Message:
        """Return the message that a hand-written line names; InvalidInput without one."""
        if session is None:
            raise InvalidInput("message is given without session: name the session too")
        target = self.find_session(tx, session)
        found = None
        if target is not None:
            found = messages.find_external(tx, target, session, external_id)
        if found is None:
            raise InvalidInput(
                f"session {session!r} has no message with external_id {external_id!r}: "
                "put that line first"
            )
        return found

    def place_of(self, tx: Tx, session: str | None, name: str) -> Place:
        """Return where an artifact name stands; *session* None: shared by all."""
        scope_no = self.scope_no(tx)
        session_no = SHARED if session is None else session_no_of(self.session(tx, session).id)
        return Place(scope_no, session_no, name)
