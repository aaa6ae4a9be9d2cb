"""
Message service: adds messages to sessions, and removes them.

A message is prepared (screened, checked, counted) outside the transaction that stores it;
`memdb.records.messages` writes it with all derived rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.errors import AlreadyExists, Busy, NotFound, require_version
from memdb.models.ids import MAX_SEQ, scope_of
from memdb.models.messages import NewMessage
from memdb.models.settings import ACTIONS, ALLOW, DEFAULTS
from memdb.records import branches
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records.drafts import read_draft, to_new
from memdb.records.scopes import find_session
from memdb.tables import jobs, messages, sessions
from memdb.text.screening import SecretScreen
from memdb.text.validate import (
    choice_value,
    expected_value,
    flag_value,
    int_value,
    json_object,
    list_value,
    name_value,
    parse_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.engine.base import Engine, Tx
    from memdb.models.ids import BranchName
    from memdb.models.messages import Message
    from memdb.models.settings import Settings
    from memdb.records.drafts import Draft
    from memdb.records.scopes import ScopeRef
    from memdb.records.spaces import SpaceName
    from memdb.text.tokens import Counting

    Given = NewMessage | dict[str, Any]


# How often a session is read again to be copied, because its messages changed meanwhile.
MAX_TRIES = 3


class MessageService:
    """Adds messages to a file, and removes messages and sessions."""

    def __init__(
        self,
        db: Engine,
        counting: Counting,
        space: SpaceName | None = None,
        screen: SecretScreen | None = None,
        settings: Settings = DEFAULTS,
    ) -> None:
        """
        Write to *db*.

        Args:
            counting: Counts tokens.
            space: The embedding space for which new messages are queued; None means only the spaces
                of the file.
            screen: Finds secrets in messages; None means by the default settings.
            settings: Decide when a session is due for a summary.
        """
        self._db = db
        self.counting = counting
        self.space = space
        self.screen = SecretScreen() if screen is None else screen
        self.summarize_every = settings.summarize_every

    def prepare(
        self, owner: ScopeRef, session: str, new: Iterable[Given], secrets: str | None = None
    ) -> list[Draft]:
        """
        Return messages of a session screened, checked and counted, for `append`.

        Args:
            secrets: "refuse", "redact" or "allow"; None means as the settings say.

        Raises:
            InvalidInput: the session's name or a field of a message cannot be stored.
            SecretFound: one contains a secret, and those are refused.
        """
        drafts = self.draft(new, secrets)
        self.screen.pass_fields("session", {"name": name_value(session, "session")})
        owner.admit()
        return drafts

    def draft(self, new: Iterable[Given], secrets: str | None = None) -> list[Draft]:
        """Return messages as `prepare` does, for a session that exists."""
        now_ms, writer = self._db.clock(), self._db.written_by
        if secrets is None:
            secrets = self.screen.settings.secrets_in_messages
        else:
            choice_value(secrets, "secrets", ACTIONS)
        drafts = []
        for one in list_value(new, "messages"):
            drafts += [read_draft(each, self.screen, secrets) for each in to_new(one, now_ms)]
        counts, counter = self.counting.count_or_estimate([draft["counted"] for draft in drafts])
        for draft, tokens in zip(drafts, counts, strict=True):
            draft["tokens"], draft["counter"] = tokens, counter
            draft["writer"] = draft["writer"] or writer
        return drafts

    def count(self, given: Iterable[str | Given]) -> list[int]:
        """Return the tokens of each text, or of each message as it would be stored."""
        counts = []
        for one in given:
            if isinstance(one, str):
                counts += self.counting.count_many([one])
            else:
                counts.append(sum(map(self._cost, self.draft([one], ALLOW))))
        return counts

    def _cost(self, draft: Draft) -> int:
        return (draft["tokens"] or 0) + self.counting.extra_tokens(parse_json(draft["parts"], list))

    def append(
        self,
        owner: ScopeRef,
        session: str,
        drafts: Sequence[Draft],
        expected: int | Message | None = None,
        *,
        keep: bool = False,
    ) -> list[Message]:
        """
        Add prepared messages to a session, all or none, and return them as stored.

        A message whose external id the session has is not added again; the stored one is returned
        instead.

        Args:
            session: Its name; the session is made if it is new.
            expected: The session's last seq as the caller knows it, 0 for none: of two writers that
                know the same, one succeeds.
            keep: Whether the messages are copies from another store. With True a stored message
                stays even if the one with its external id differs, and a forgotten one is not
                restored.

        Raises:
            AlreadyExists: an external id belongs to a different message.
            VersionConflict: *expected* is not the session's last seq.

        Transaction: opens its own, or joins the caller's.
        """
        known_seq = expected_value(expected, "seq")
        if not drafts:
            return []
        with self._db.write() as tx:
            if keep:
                drafts = _without_forgotten(tx, owner, session, drafts)
                if not drafts:
                    return []
            target = session_records.ensure(tx, owner, session, self._db.ids)
            if known_seq is not None:
                require_version("session", session, known_seq, sessions.last_seq(tx, target))
            stored = message_records.insert(
                tx,
                target,
                session,
                drafts,
                self._db.ids,
                self.space,
                keep=keep,
                summarize_every=self.summarize_every,
            )
        owner.remember(scope_of(target))
        return stored

    def insert(self, tx: Tx, target: int, session: str, drafts: Sequence[Draft]) -> list[Message]:
        """Add prepared messages to the session with id *target*, in the caller's transaction."""
        return message_records.insert(
            tx,
            target,
            session,
            drafts,
            self._db.ids,
            self.space,
            summarize_every=self.summarize_every,
        )

    def pop(
        self, owner: ScopeRef, session: str, expected: int | Message | None = None
    ) -> Message | None:
        """
        Remove the newest message of a session and return it; None if there is none.

        Args:
            expected: The newest seq as the caller knows it, 0 if there is none; of two callers with
                the same one, only the first succeeds.

        Raises:
            VersionConflict: the newest message is not *expected*.
            Corrupt: the message is archived, and its segment is damaged.

        Transaction: opens its own.
        """
        with self._db.write() as tx:
            target, newest = _newest(tx, owner, session, expected)
            if target is None or newest is None:
                return None
            branches.keep_others(tx, target, [newest.seq])
            message_records.remove(tx, {target: [newest.seq]})
            return newest

    def replace(
        self,
        owner: ScopeRef,
        session: str,
        seqs: Iterable[int],
        instead: Iterable[Given] = (),
        expected: int | Message | None = None,
    ) -> list[Message]:
        """
        Remove messages of a session and add others at its end; see `session.replace`.

        Raises:
            InvalidInput: a seq, or a field of *instead*, is wrong; nothing was written.
            VersionConflict: the newest message is not *expected*.
            Corrupt: one is archived, and its segment is damaged.

        Transaction: opens its own, after counting.
        """
        gone = sorted({int_value(seq, "seq", 1, MAX_SEQ) for seq in list_value(seqs, "seqs")})
        drafts = self.prepare(owner, session, instead)
        with self._db.write() as tx:
            target, _ = _newest(tx, owner, session, expected)
            if target is not None and gone:
                branches.keep_others(tx, target, gone)
                message_records.remove(tx, {target: gone})
            return self.append(owner, session, drafts)

    def clear(self, owner: ScopeRef, session: str) -> bool:
        """Remove every message of a session, which stays; False if there were none."""
        with self._db.write() as tx:
            target, newest = _newest(tx, owner, session, None)
            if target is None:
                return False
            branches.keep_others(tx, target, range(1, newest.seq + 1 if newest else 2))
            if newest is None:
                return False
            message_records.clear(tx, target)
            return True

    def branch(
        self,
        owner: ScopeRef,
        name: BranchName,
        source: str,
        after_seq: int | None,
        *,
        create: bool | None,
    ) -> None:
        """
        Make sure that a session has a branch; see `Session.branch`.

        Args:
            name: Name of the session and the branch.
            source: The branch from which it starts; "" means the session itself.

        Transaction: one read; then one write if the branch is new.
        """
        name_value(name.branch, "branch")
        name_value(name, "session")
        if create is not None:
            flag_value(create, "create")
        if after_seq is not None:
            int_value(after_seq, "after_seq", 0, MAX_SEQ)
        with self._db.read() as tx:
            found = find_session(tx, owner, name)
            if found is None and create is False:
                raise NotFound("branch", name.branch, f"session {str(name)!r}")
            if found is not None and not create:
                leaves_at = sessions.descriptions(tx, [found])[found][2]
                if after_seq not in (None, leaves_at):
                    raise AlreadyExists("branch", name.branch)
                return
        self.screen.pass_fields("session", {"branch": name.branch})
        owner.admit()
        with self._db.write() as tx:
            if create is None and find_session(tx, owner, name) is not None:
                return  # another process was faster
            branches.insert(tx, owner, name, source, after_seq, self._db.ids)

    def fork(self, owner: ScopeRef, session: str, name: str, before_seq: int | None) -> None:
        """
        Copy *session* with its messages before *before_seq* to a new session *name*.

        Raises:
            AlreadyExists: a session has that name.
            NotFound: *session* does not exist.
            Busy: its messages kept changing.

        Transaction: one read, then one write that creates the whole new session.
        """
        self.screen.pass_fields("session", {"name": name_value(name, "name")})
        before = MAX_SEQ + 1
        if before_seq is not None:
            before = int_value(before_seq, "before_seq", 1, MAX_SEQ + 1)
        for _ in range(MAX_TRIES):
            with self._db.read() as tx:
                source = find_session(tx, owner, session)
                if source is None:
                    raise NotFound("session", session)
                originals = messages.last(tx, source, session, MAX_SEQ, before)
                span = 1, originals[-1].seq if originals else 0
                span_hash = messages.span_hash(tx, source, *span)
            # The screen let the originals in, so the copies pass as they are.
            drafts = self.draft(map(_copy, originals), ALLOW)
            with self._db.write() as tx:
                is_here = sessions.identity(tx, source) is not None
                if not is_here or messages.span_hash(tx, source, *span) != span_hash:
                    continue  # something was removed, which the copy may not bring back
                if find_session(tx, owner, name) is not None:
                    raise AlreadyExists("session", name)
                target = self._copy_session(tx, owner, source, name)
                self.insert(tx, target, name, drafts)
                next_seq = jobs.watermark(tx, source).next_seq
                extracted = sum(message.seq < next_seq for message in originals)
                session_records.set_extracted(tx, target, extracted)
                return
        raise Busy("the messages of the session kept changing: try again")

    def _copy_session(self, tx: Tx, owner: ScopeRef, source: int, name: str) -> int:
        """Create a session with the title and metadata of another one, and return its id."""
        source = sessions.roots(tx, [source])[source]
        ((_, info),) = sessions.list_by_id(tx, source - 1, source, limit=1)
        columns = {"title": info.title, "metadata": json_object(info.metadata, "metadata")}
        uid = self._db.ids(tx.now_ms)
        return session_records.restore(tx, owner.ensure(tx), name, uid, columns)


def _without_forgotten(
    tx: Tx, owner: ScopeRef, session: str, drafts: Sequence[Draft]
) -> Sequence[Draft]:
    """Return the drafts without those whose external id was forgotten in a session."""
    scope_no, target = owner.find(tx), find_session(tx, owner, session)
    ids = [draft["external_id"] for draft in drafts]
    gone = set() if scope_no is None else message_records.find_kept_away(tx, scope_no, session, ids)
    if gone and target is not None:  # one may have been said again
        gone -= messages.by_externals(tx, target, sorted(gone)).keys()
    return [draft for draft in drafts if draft["external_id"] not in gone] if gone else drafts


def _newest(
    tx: Tx, owner: ScopeRef, session: str, expected: int | Message | None
) -> tuple[int | None, Message | None]:
    """Return a session's id and newest message, which must be *expected* if that is given."""
    target = find_session(tx, owner, session)
    newest = [] if target is None else messages.last(tx, target, session, 1)
    seq = newest[0].seq if newest else 0
    require_version("session", session, expected_value(expected, "seq"), seq)
    return target, newest[0] if newest else None


def _copy(message: Message) -> NewMessage:
    """Return a message for another copy, with a uid of its own."""
    fields = {name: getattr(message, name) for name in NewMessage._fields}
    return NewMessage(**{**fields, "uid": None})
