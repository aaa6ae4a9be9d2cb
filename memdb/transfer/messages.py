"""
Session and message lines: their codecs, export and import.

Imported messages are prepared and stored as by `Session.append`, but their external ids and uids
are looked up for a whole chunk at once. An exported message keeps its seq if that is free. Stored
messages stay unchanged.

If a question was edited or an answer repeated, a conversation continues in two ways. A format gives
each message the external id of the one before it. A message after the newest one of the session or
of a branch is added there. A message after another one begins a branch with its external id as the
name. So the order in which the two are imported does not matter.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from memdb.engine.branches import Run, branches_of
from memdb.errors import InvalidInput, SecretFound, TooLarge
from memdb.models.ids import (
    MAX_INT,
    MAX_SEQ,
    BranchName,
    branch_of,
    is_branch,
    scope_range,
    seq_of,
    session_of,
)
from memdb.models.messages import ROLES, NewMessage
from memdb.models.record import Record
from memdb.models.settings import ALLOW, REDACT
from memdb.records import branches as branch_records
from memdb.records import dependents as dependent_records
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records.drafts import BLANK, Draft, count_drafts, read_draft
from memdb.tables import jobs, messages, sessions
from memdb.text.derived import bigrams_of
from memdb.text.validate import (
    MAX_MS,
    MIN_MS,
    between,
    content_value,
    int_value,
    name_value,
    optional_name,
    text_value,
)
from memdb.transfer.lines import (
    PAGE,
    Codec,
    Item,
    TargetSession,
    digest_of,
    located,
    place_name,
    unchecked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.messages import BranchInfo
    from memdb.transfer.lines import Target

    # By session and external id: row id, role and text of a stored message.
    Stored = dict[str, dict[str, tuple[int, str, str]]]
    # A message that is stored by its seq, one that is to come by its external id.
    Place = int | str


def _shares_value(value: object, field: str) -> list[tuple[int, int, str | None]] | None:
    """Return what a branch shares of other branches, each as [first seq, last seq, branch]."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        isinstance(one, list) and len(one) == SHARE_FIELDS for one in value
    ):
        raise InvalidInput(f"{field} is not a list of [first seq, last seq, branch]")
    return [
        (
            int_value(first, field, 1, MAX_SEQ),
            int_value(last, field, 1, MAX_SEQ),
            optional_name(branch, field),
        )
        for first, last, branch in value
    ]


SHARE_FIELDS = 3

SESSION = Codec(
    "session",
    needs="name",
    exported_needs="last_seq created_ms updated_ms",
    exported_only="extracted_seq",
    checks={
        "title": text_value,
        "last_seq": between(0, MAX_SEQ),
        "extracted_seq": between(1, MAX_SEQ),
    },
)
BRANCH = Codec(
    "branch",
    needs="session name after_seq last_seq created_ms updated_ms uid",
    checks={
        "after_seq": between(0, MAX_SEQ),
        "shares": _shares_value,
        "last_seq": between(0, MAX_SEQ),
        "extracted_seq": between(1, MAX_SEQ),
    },
)
MESSAGE = Codec(
    "message",
    needs="session role",
    exported_needs="uid created_ms",
    exported_only="branch seq tokens counter uid",
    checks={
        "tokens": between(0, MAX_INT),
        "counter": text_value,
        "metadata": unchecked,
        "uid": unchecked,
    },
)
# Of a line with a message, in its order; all but the first three are those of a `Message`.
LINE_FIELDS = ("kind", *MESSAGE.fields)
_line_values = attrgetter(*LINE_FIELDS[3:])
_draft_values = itemgetter(*NewMessage._fields)
PLAIN = ("session", "seq", "role", "text", "tokens", "counter", "created_ms", "uid")
PLAIN_FIELDS = frozenset(PLAIN)
_plain_values = itemgetter(*PLAIN)


def export(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the sessions of a scope, each with its messages."""
    after, high = scope_range(scope_no)
    while page := sessions.list_by_id(tx, after, high, limit=PAGE):
        for session, info in page:
            extracted_seq = jobs.watermark(tx, session).next_seq - 1
            yield SESSION.to_line(info, {"extracted_seq": extracted_seq or None})
            yield from _export_messages(tx, session, info.name, None)
        after = page[-1][0]
    yield from _export_branches(tx, scope_no)


def _export_branches(tx: Tx, scope_no: int) -> Iterator[dict[str, Any]]:
    """Yield the branches of a scope, parents first, each with its own messages."""
    infos: dict[int, BranchInfo] = {}
    after, high = scope_range(scope_no)
    while page := sessions.list_all_branches(tx, after, high, PAGE):
        for row, session, name in page:
            if row not in infos:
                infos = dict(sessions.list_branches(tx, scope_no, session))
            info = infos[row]
            extracted_seq = jobs.watermark(tx, row).next_seq - 1
            given = {"session": session, "after_seq": info.leaves_at}
            given["shares"] = _shares_of(tx, row, {key: one.name for key, one in infos.items()})
            yield BRANCH.to_line(info, {**given, "extracted_seq": extracted_seq or None})
            yield from _export_messages(tx, row, session, name)
        after = page[-1][0]


def _shares_of(tx: Tx, branch: int, names: dict[int, str]) -> list[Any] | None:
    """Return the `shares` of a branch in the form of its line, None if there are none."""
    shares = [run for one in branches_of(tx, branch) if one.id == branch for run in one.shares]
    return [[run.first_seq, run.last_seq, names.get(run.session)] for run in shares] or None


def _export_messages(
    tx: Tx, session: int, name: str, branch: str | None
) -> Iterator[dict[str, Any]]:
    after = 0
    while page := messages.list_own(tx, session, name, after, MAX_SEQ, PAGE):
        for message in page:
            values = ("message", name, branch, *_line_values(message))
            line = zip(LINE_FIELDS, values, strict=True)
            yield {field: value for field, value in line if value is not None}
        after = page[-1].seq


def read_session(target: Target, item: Item) -> dict[str, Any]:
    """Return the fields of a session line, checked; `last_seq` None if it is hand-written."""
    exported = item.fields.get("uid") is not None
    screen = target.services.screen
    try:
        fields = screen.pass_line("session", item.fields)
    except SecretFound:
        if exported:  # its messages come in without its title and metadata
            target.last_seqs[str(item.fields.get("name"))] = MAX_SEQ
        raise
    row = SESSION.from_line(fields, exported=exported)
    if exported:
        target.last_seqs[row["name"]] = row["last_seq"]
    return row if exported else {**row, "last_seq": None}


def write_sessions(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Add the new sessions; stored ones stay unchanged, and forgotten ones are left out."""
    scope_no = target.owner.ensure(tx)
    note_titles(target, tx, rows)
    forgotten = target.are_forgotten(tx, [row["uid"] for row in rows if row["uid"]])
    away = _list_gone(tx, scope_no, rows)
    for row in rows:
        name, last_seq = row["name"], row["last_seq"]
        if row["uid"] in forgotten:
            target.gone.add(name)
            target.added["forgotten"] += 1
            continue
        session = sessions.find(tx, scope_no, name)
        if session is None and row["uid"] is None and (name,) in away:
            continue  # its messages that are new make it again, without its title
        fresh = session is None
        own = fresh and last_seq is not None
        columns = ("title", "metadata", "created_ms", "updated_ms")
        given = {column: row[column] for column in columns if row[column] is not None}
        if session is None:
            uid = row["uid"] or target.services.db.ids(tx.now_ms)
            session = session_records.restore(tx, scope_no, name, uid, given)
            target.added["sessions"] += 1
        if last_seq is not None:
            ((_, info),) = sessions.list_by_id(tx, session - 1, session, limit=1)
            own = info.uid == row["uid"]
            if own and last_seq > info.last_seq:
                # Reserves the seqs of the file against writers between two chunks.
                updated_ms = max(info.updated_ms, row["updated_ms"])
                sessions.raise_seq(tx, session, last_seq, updated_ms)
            if own:
                session_records.set_extracted(tx, session, row["extracted_seq"] or 0)
        if fresh or last_seq is not None:
            created, updated = "created_ms" in given, "updated_ms" in given
            target.sessions[name] = TargetSession(
                session, own=own, fresh=fresh, created=created, updated=updated
            )


def read_branch(target: Target, item: Item) -> dict[str, Any]:
    """Return the fields of a branch line, checked and screened."""
    screen = target.services.screen
    row = BRANCH.from_line(item.fields)
    try:
        row = BRANCH.from_line(screen.pass_line("branch", item.fields))
    except SecretFound as error:
        target.refused[BranchName(row["session"], row["name"])] = error
        raise
    target.last_seqs[BranchName(row["session"], row["name"])] = row["last_seq"]
    return row


def write_branches(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Add the new branches; stored ones stay unchanged, and forgotten ones are left out."""
    forgotten = target.are_forgotten(tx, [row["uid"] for row in rows])
    for row in rows:
        name = BranchName(row["session"], row["name"])
        above = place_name({"session": row["session"], "branch": row["parent"]})
        parent = target.find_session(tx, above)
        if parent is None or row["uid"] in forgotten:
            target.gone.add(name)
            target.added["forgotten"] += 1
            continue
        into = target.sessions.get(above)
        leaves_at = min(target.seq_here(above, row["after_seq"]), sessions.last_seq(tx, parent))
        branch = target.find_session(tx, name)
        fresh = branch is None
        if branch is None:
            place = {"name": row["session"], "branch": row["name"], "uid": row["uid"]}
            columns = {key: row[key] for key in ("metadata", "created_ms", "updated_ms")}
            place["leaves_at"] = leaves_at
            branch = branch_records.restore(tx, target.owner.ensure(tx), parent, place, columns)
            branch_records.restore_shares(tx, branch, _shares_here(target, tx, row))
        is_same = sessions.identity(tx, branch) == (row["session"], row["uid"])
        own = is_same and (not fresh or (into is not None and into.own))
        own = own and leaves_at == row["after_seq"]
        if row["shares"] and fresh and not own:  # others may share its own messages, beside theirs
            branch_records.raise_seq(tx, branch)
        if own and row["last_seq"] > sessions.last_seq(tx, branch):
            updated_ms = max(sessions.updated_ms(tx, branch), row["updated_ms"])
            sessions.raise_seq(tx, branch, row["last_seq"], updated_ms)
        if own:
            session_records.set_extracted(tx, branch, row["extracted_seq"] or 0)
        target.sessions[name] = TargetSession(
            branch, own=own, fresh=fresh, created=True, updated=True
        )


def _shares_here(target: Target, tx: Tx, row: dict[str, Any]) -> list[Run]:
    """Return what a branch line shares of others, with the rows and seqs here."""
    found = []
    for first, last, branch in row["shares"] or ():
        name = place_name({"session": row["session"], "branch": branch})
        holder = None if target.is_gone(name) else target.find_session(tx, name)
        if holder is not None:
            span = target.seq_here(name, first), target.seq_here(name, last)
            found.append(Run(holder, *span))
    return found


def read_message(target: Target, item: Item) -> MessageLine:
    """Return a message line, checked and screened."""
    fields = item.fields
    if fields.keys() == PLAIN_FIELDS and (plain := _plain_line(target, item)) is not None:
        return plain
    exported = fields.get("seq") is not None
    in_tree = "after" in fields and not exported
    if in_tree or "text" not in fields:
        fields = {"text": "", **fields}
    after = optional_name(fields.pop("after"), "after") if in_tree else None
    row = MESSAGE.from_line(fields, exported=exported)
    session, seq = place_name(row), row["seq"]
    if session in target.refused:
        raise target.refused[session]
    new = NewMessage(*_draft_values(row))
    screen = target.services.screen
    action = REDACT if target.is_captured else screen.settings.secrets_in_messages
    screen.pass_fields("message", {"session": session, "counter": row["counter"]})
    tokens = row["tokens"] if row["counter"] else None
    draft = read_draft(new, screen, action, tokens, row["counter"] or "")
    if not exported:
        draft["writer"] = draft["writer"] or target.services.db.written_by
        return MessageLine(item.place, session, None, draft, in_tree, after)
    if session not in target.last_seqs:
        kind = "branch" if row["branch"] else "session"
        named = row["branch"] or row["session"]
        raise InvalidInput(f"no earlier line defines the {kind} {named!r}: put its line first")
    if seq > target.last_seqs[session]:
        last_seq = target.last_seqs[session]
        raise InvalidInput(f"seq is {seq}, but its session ends at {last_seq}: export it again")
    if action != ALLOW and read_draft(new, screen, ALLOW, tokens, draft["counter"]) != draft:
        draft["tokens"], draft["counter"] = None, ""  # what is left of it is counted
    return MessageLine(item.place, session, seq, draft, in_tree, after)


def _plain_line(target: Target, item: Item) -> MessageLine | None:
    """
    Return an exported message that is only a text; None if it needs another check.

    Nearly all lines of an export are of this form. Cost: 4 µs, a third of that of another line,
    which makes an import 20 % faster (ADR-0045).
    """
    session, seq, role, text, tokens, counter, created_ms, uid = _plain_values(item.fields)
    if not (
        type(session) is type(text) is type(counter) is type(uid) is str
        and type(seq) is type(tokens) is type(created_ms) is int
        and 0 < seq <= target.last_seqs.get(session, 0)
        and counter
        and 0 <= tokens <= MAX_INT
        and MIN_MS <= created_ms <= MAX_MS
        and role in ROLES
        and target.services.screen.settings.secrets_in_messages == ALLOW
        and not (target.is_captured or target.refused)
    ):
        return None
    uid, counter = name_value(uid, "uid"), text_value(counter, "counter")
    text = content_value(text, "text")
    draft = BLANK.copy()
    draft["role"], draft["text"], draft["counted"] = role, text, text
    draft["uid"], draft["created_ms"], draft["bigrams"] = uid, created_ms, bigrams_of(text)
    draft["tokens"], draft["counter"] = tokens, counter
    return MessageLine(item.place, session, seq, draft, False, None)


def count_messages(target: Target, lines: list[MessageLine]) -> list[MessageLine]:
    """
    Return the lines that must be written, with their tokens counted.

    Stored lines are left out before that, because counting takes longer than the rest of a second
    import. A counter may be slow, so it runs outside the write transaction.
    """
    with target.services.db.read() as tx:
        stored = _stored_externals(target, tx, lines)
    fresh = [line for line in lines if not _is_stored(stored, line)]
    target.added["messages_known"] += len(lines) - len(fresh)
    drafts = count_drafts([line.draft for line in fresh], target.services.counting)
    return [
        line if line.draft is draft else line.replace(draft=draft)
        for line, draft in zip(fresh, drafts, strict=True)
    ]


def _stored_externals(target: Target, tx: Tx, lines: list[MessageLine]) -> Stored:
    """Return the stored messages that have the external ids of hand-written lines."""
    given: dict[str, list[str]] = {}
    for line in lines:
        if line.external_id is not None and line.seq is None:
            given.setdefault(line.session, []).append(line.external_id)
    in_trees = {line.session for line in lines if line.in_tree}
    stored: Stored = {}
    for session, external_ids in given.items():
        if session in in_trees:
            rows = [*list_rows(target, tx, session)]
        else:
            row = target.find_session(tx, session)
            rows = [] if row is None else [row]
        for row in rows:
            found = messages.by_externals(tx, row, external_ids)
            stored[session] = {**found, **stored.get(session, {})}
    return stored


def _is_stored(stored: Stored, line: MessageLine) -> bool:
    """Return whether a hand-written line is stored already, with the same role and text."""
    if line.seq is not None or line.session not in stored:
        return False
    twin = stored[line.session].get(line.external_id or "")
    return twin is not None and message_records.is_same(twin[1:], line.draft)


def write_messages(target: Target, tx: Tx, lines: list[MessageLine]) -> None:
    """
    Add the new messages, session by session.

    Raises:
        InvalidInput: an external id belongs to a different message, or a session
            is full.
    """
    groups: dict[str, list[MessageLine]] = {}
    for line in lines:
        groups.setdefault(line.session, []).append(line)
    for session, group in groups.items():
        away = _list_away(target, tx, group)
        target.added["forgotten"] += len(away)
        kept = [line for line in group if line not in away] if away else group
        if not kept:
            continue
        if kept[0].in_tree:
            write_tree(target, tx, session, kept)
        else:
            MessageMerge(target, tx, target.session(tx, session)).write(kept)


def _list_away(target: Target, tx: Tx, lines: list[MessageLine]) -> list[MessageLine]:
    """Return the lines that were forgotten here, by their uid or their source's id."""
    scope_no = target.owner.find(tx)
    if scope_no is None:
        return []
    uids = [line.uid for line in lines if line.seq is not None and line.uid]
    forgotten = dependent_records.are_forgotten(tx, scope_no, uids) if uids else set()
    away: dict[str, set[str]] = {}
    for session in {line.session for line in lines}:
        ids = [one.external_id for one in lines if one.session == session and one.seq is None]
        away[session] = message_records.find_kept_away(tx, scope_no, session, ids)
        if away[session]:  # but for what was said again
            away[session] -= _stored_externals(target, tx, lines).get(session, {}).keys()
    return [
        line
        for line in lines
        if target.is_gone(line.session)
        or (line.uid in forgotten if line.seq else line.external_id in away[line.session])
    ]


def _list_gone(tx: Tx, scope_no: int | None, rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """Return the names of sessions in hand-written lines that were forgotten as a whole."""
    names = [(row["name"],) for row in rows if not row["uid"]]
    if scope_no is None:
        return set()
    return dependent_records.are_kept_away(tx, scope_no, "session", names)


def note_titles(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Note the sessions whose title in the file differs from the one here."""
    ids = {row["name"]: target.find_session(tx, row["name"]) for row in rows if row["title"]}
    here = sessions.titles(tx, [row for row in ids.values() if row is not None])
    for row in rows:
        session = ids.get(row["name"])
        if session is None or row["last_seq"] is not None or here.get(session) == row["title"]:
            continue
        stays = f"stays {here[session]!r}" if session in here else "has no title"
        target.notes.append(
            f"session {row['name']!r} is called {row['title']!r} now, and {stays} here: "
            "change it with `memdb chat update --title`"
        )


class MessageLine(Record):
    """
    A message in the form of a line.

    Attributes:
        seq: None adds it at the end of its session.
        in_tree: Whether it follows *after*, as `Heads.plan` describes.
        after: The external id of the message before it; None means that it is the first one.
    """

    place: str
    session: str
    seq: int | None
    draft: Draft
    in_tree: bool = False
    after: str | None = None

    @property
    def external_id(self) -> str | None:
        """The id that the host gave, None without one."""
        return self.draft["external_id"]

    @property
    def uid(self) -> str:
        """The uid of an exported message, "" without one."""
        return self.draft["uid"] or ""


def taken_by_another(line: MessageLine) -> InvalidInput:
    """Return the error for a line whose external id another message has."""
    return InvalidInput(
        f"{line.place}: external_id {line.external_id!r} belongs to a different message "
        f"of session {line.session!r}: give this one another"
    )


class MessageMerge:
    """Lines of one session, which are compared with the stored messages and then added."""

    def __init__(self, target: Target, tx: Tx, into: TargetSession) -> None:
        """Add to the session *into* of *target*."""
        self._target = target
        self._tx = tx
        self._into = into
        self._by_external: dict[str, tuple[int, str, str]] = {}
        self._uids: dict[int, str] = {}
        self._by_uid: dict[str, int] = {}

    def write(self, lines: list[MessageLine]) -> None:
        """Add the lines that are new."""
        self._load(lines)
        fresh = [(line, self._free_seq(line)) for line in lines if not self._is_stored(line)]
        self._insert(fresh)
        self._target.added["messages_added"] += len(fresh)
        self._target.added["messages_known"] += len(lines) - len(fresh)

    def _load(self, lines: list[MessageLine]) -> None:
        """Look up the external ids, seqs and uids of *lines*."""
        tx, into = self._tx, self._into
        given = [line.external_id for line in lines if line.external_id is not None]
        self._by_external = messages.by_externals(tx, into.id, given) if given else {}
        uids = {into.id | line.seq: line.uid for line in lines if line.seq is not None}
        if not uids or into.fresh:
            return
        self._uids = messages.uids(tx, list(uids))
        if not into.own or any(self._uids.get(ref, uid) != uid for ref, uid in uids.items()):
            wanted = [line.uid for line in lines if line.seq is not None]
            self._by_uid = messages.find_uids(tx, into.id, wanted)

    def _is_stored(self, line: MessageLine) -> bool:
        """
        Return whether the session contains a line.

        InvalidInput if another message has its external id.
        """
        draft = line.draft
        if line.seq is not None:
            if self._uids.get(self._into.id | line.seq) == draft["uid"]:
                return True
            here = self._by_uid.get(draft["uid"] or "")
            if here is not None:
                self._move(line.session, line.seq, here)
                return True
        if draft["external_id"] is None:
            return False
        twin = self._by_external.get(draft["external_id"])
        if twin is None:
            self._by_external[draft["external_id"]] = (0, draft["role"], draft["text"])
            return False
        if not message_records.is_same(twin[1:], draft) and not self._target.is_captured:
            raise taken_by_another(line)
        if line.seq is not None:
            self._move(line.session, line.seq, twin[0])
        return True

    def _move(self, session: str, seq: int, here: int) -> None:
        """Note the seq of a stored message here; later messages are then added at the end."""
        self._into.own = False
        if here:
            self._target.moved[session, seq] = here & MAX_SEQ

    def _free_seq(self, line: MessageLine) -> int | None:
        """Return the seq in the file if it is free here; None adds the message at the end."""
        if line.seq is None:
            return None
        row_id, uid = self._into.id | line.seq, line.uid
        if self._into.own and row_id not in self._uids:
            self._uids[row_id] = uid
            return line.seq
        self._into.own = False
        self._by_uid[uid] = 0  # the end; a line that repeats it is stored already
        return None

    def _insert(self, fresh: list[tuple[MessageLine, int | None]]) -> None:
        """Add messages, each with its seq or at the end."""
        tx, into, services = self._tx, self._into, self._target.services
        times = {one: sessions.updated_ms(tx, one) for one in self._dated()}
        drafts, seqs = [line.draft for line, _ in fresh], [seq for _, seq in fresh]
        try:
            rows = message_records.place(
                tx,
                into.id,
                drafts,
                services.db.ids,
                services.space,
                seqs,
                services.summarize_every,
            )
        except TooLarge as error:
            first = next(line for line, seq in fresh if seq is None)
            full = InvalidInput("the session is full: use another one")
            raise located(first.place, full) from error
        late = [(line, row) for (line, seq), row in zip(fresh, rows, strict=True) if seq is None]
        for line, row in late:
            if line.seq is not None:
                self._target.moved[line.session, line.seq] = row["id"] - into.id
        if late:
            self._date([line.draft["created_ms"] for line, _ in late], times)

    def _dated(self) -> list[int]:
        """Return the session, or the branch and its session, because a message changes both."""
        into = self._into.id
        return [into, *(sessions.roots(self._tx, [into]).values() if is_branch(into) else ())]

    def _date(self, times: list[int | None], before: dict[int, int]) -> None:
        """
        Set the session's times from its new messages, if the file has none for it.

        Args:
            before: Its last change, and that of a branch's session, without these messages.
        """
        into = self._into
        updated_ms = before[into.id]
        known = [self._tx.now_ms if time is None else time for time in times]
        for root in before.keys() - {into.id}:
            sessions.set_times(self._tx, root, None, max(before[root], *known))
        newest_ms = updated_ms
        if not into.has_updated_ms:
            newest_ms = max(updated_ms, *known) if into.dated else max(known)
        first_ms = None if into.has_created_ms else known[0]
        sessions.set_times(self._tx, into.id, first_ms, newest_ms)
        into.has_created_ms = into.dated = True


class Step(Record):
    """
    Lines that are added to a session or a branch, one after the other.

    Attributes:
        name: Name of the session, or of the branch.
        source: Name of the session or branch that a new branch leaves; None means that *name*
            exists.
        after: The external id after which the branch starts; None means before all messages.
    """

    name: str
    source: str | None
    after: str | None
    lines: list[MessageLine]


class Heads:
    """
    The messages of a session that lines name, and the newest one of each of its branches.

    Attributes:
        was_here: Whether the session has stored messages.
    """

    def __init__(self, session: str) -> None:
        """Begin with a session that does not exist."""
        self.session = session
        self.was_here = False
        self._at: dict[str, tuple[str, Place]] = {}
        self._newest: dict[str, Place] = {session: 0}

    def read(self, target: Target, tx: Tx, lines: Iterable[MessageLine]) -> None:
        """Look up what *lines* name in the session and its branches."""
        ids = sorted({one for line in lines for one in (line.external_id, line.after) if one})
        scope_no = target.owner.find(tx)
        rows = list_rows(target, tx, self.session)
        for row, name in rows.items():
            assert scope_no is not None
            head = sessions.head(tx, scope_no, self.session, branch_of(name))
            newest = 0 if head is None else head[1].newest_seq
            self.was_here = self.was_here or bool(newest)
            self._newest[name] = self._newest.get(name) or newest
            for external_id, (ref, _, _) in messages.by_externals(tx, row, ids).items():
                holder = rows.get(session_of(ref), name)
                self._at.setdefault(external_id, (holder, seq_of(ref)))

    def plan(self, lines: Iterable[MessageLine]) -> list[Step]:
        """Return the places of *lines*, in their order."""
        steps: list[Step] = []
        last = self.session
        for line in lines:
            external_id, after = line.external_id or "", line.after
            source = None
            if external_id in self._at:  # a message again: it is compared there
                last = self._at[external_id][0]
            else:
                # What follows a message that is not here goes on where the one before it went.
                there = (last, self._newest[last])
                home, place = (self.session, 0) if after is None else self._at.get(after, there)
                last = home
                if self._newest[home] != place:
                    source, last = home, self._free_name(external_id)
                self._newest[last] = external_id
                self._at[external_id] = (last, external_id)
            if source is not None or not steps or steps[-1].name != last:
                steps.append(Step(last, source, after, []))
            steps[-1].lines.append(line.replace(session=last))
        return steps

    def _free_name(self, external_id: str) -> str:
        name = external_id
        while BranchName(self.session, name) in self._newest:
            name += "'"
        return BranchName(self.session, name)


def list_rows(target: Target, tx: Tx, session: str) -> dict[int, str]:
    """Return id and name of a session and its branches, as far as they exist here."""
    row, scope_no = target.find_session(tx, session), target.owner.find(tx)
    if row is None or scope_no is None:
        return {}
    found = sessions.list_branches(tx, scope_no, session)
    return {row: session, **{one: BranchName(session, info.name) for one, info in found}}


def make_branch(target: Target, tx: Tx, step: Step) -> None:
    """Make the branch that a step begins."""
    assert step.source is not None
    assert isinstance(step.name, BranchName)
    parent = target.find_session(tx, step.source)
    assert parent is not None
    leaves_at = 0
    if step.after is not None:
        leaves_at = seq_of(messages.by_externals(tx, parent, [step.after])[step.after][0])
    source, ids = branch_of(step.source), target.services.db.ids
    branch = branch_records.insert(tx, target.owner, step.name, source, leaves_at, ids)
    target.sessions[step.name] = TargetSession(branch, fresh=True)
    target.added["branches"] += 1


def notes_of(steps: Iterable[Step]) -> list[str]:
    """Return the notes about the branches that begin in a session that existed before."""
    return [
        f"{step.lines[0].place}: session {str(step.name)!r} goes on in another way here, so this "
        f"and what follows ({len(step.lines):,} in all) is its branch {branch_of(step.name)!r}"
        for step in steps
        if step.source is not None
    ]


def write_tree(target: Target, tx: Tx, session: str, lines: list[MessageLine]) -> None:
    """Add the new messages of a tree to their session and its branches."""
    target.session(tx, session)
    heads = Heads(session)
    heads.read(target, tx, lines)
    steps = heads.plan(lines)
    for step in steps:
        if step.source is not None:
            make_branch(target, tx, step)
        MessageMerge(target, tx, target.session(tx, step.name)).write(step.lines)
    if heads.was_here:
        target.notes += notes_of(steps)


class Trial:
    """
    Messages that a dry run has read so far.

    Attributes:
        sessions: Names of the sessions of these messages.
        taken: By session and external id, a digest of the message.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.sessions: set[str] = set()
        self.taken: dict[tuple[str, str | None], bytes] = {}
        self._made: set[str] = set()
        self._heads: dict[str, Heads] = {}

    def read(
        self, target: Target, lines: list[MessageLine], titled: list[dict[str, Any]]
    ) -> Counter[str]:
        """
        Return the numbers of rows that messages and session lines would add, by report field.

        Raises:
            InvalidInput: an external id belongs to a different message.
        """
        with target.services.db.read() as tx:
            stored, away = _stored_externals(target, tx, lines), _list_away(target, tx, lines)
            counts = Counter({"forgotten": len(away)})
            kept = [line for line in lines if line not in away]
            for line in kept:
                counts[self._take(target, line, stored.get(line.session, {}))] += 1
            grown = [line for line in kept if line.in_tree]
            for session, tree in groupby(grown, attrgetter("session")):
                counts["branches"] += self._count_branches(target, tx, session, [*tree])
            note_titles(target, tx, titled)
            gone = _list_gone(tx, target.owner.find(tx), titled)
            names = {str(line.session) for line in kept}
            self.sessions |= names
            names |= {row["name"] for row in titled if (row["name"],) not in gone}
            fresh = {one for one in names - self._made if target.find_session(tx, one) is None}
        self._made |= fresh
        counts["sessions"] = len(fresh)
        return counts

    def _take(self, target: Target, line: MessageLine, stored: Mapping[str, Any]) -> str:
        """Return the field of the report that counts a line."""
        place, draft = (line.session, line.external_id), line.draft
        if place[1] is None or line.seq is not None:
            return "messages_added"
        digest, twin = digest_of(f"{draft['role']}\0{draft['text']}"), stored.get(place[1])
        is_known = twin is not None or place in self.taken
        is_other = self.taken.setdefault(place, digest) != digest
        is_other |= twin is not None and not message_records.is_same(twin[1:], draft)
        if is_other and not target.is_captured:
            raise taken_by_another(line)
        return "messages_known" if is_known else "messages_added"

    def _count_branches(
        self, target: Target, tx: Tx, session: str, lines: list[MessageLine]
    ) -> int:
        """Return how many branches begin with *lines* of a tree; add notes about existing ones."""
        heads = self._heads.setdefault(session, Heads(session))
        heads.read(target, tx, lines)
        steps = heads.plan(lines)
        if heads.was_here:
            target.notes += notes_of(steps)
        return sum(step.source is not None for step in steps)
