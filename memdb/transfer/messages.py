"""
Session and message lines: their codecs, export and import.

Imported messages are prepared and stored as `Session.append` does it, but their
external ids and uids are looked up a thousand at once, and an exported message
keeps its seq if that is free.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from memdb.engine.branches import Run, branches_of
from memdb.errors import InvalidInput, SecretFound
from memdb.models.ids import MAX_INT, MAX_SEQ, BranchName, scope_range
from memdb.models.messages import ROLES, NewMessage
from memdb.models.settings import ALLOW, REDACT
from memdb.records import branches as branch_records
from memdb.records import sessions as session_records
from memdb.records.messages import Draft, count_drafts, read_draft
from memdb.tables import jobs, messages, sessions
from memdb.text.derived import bigrams_of
from memdb.text.validate import (
    MAX_MS,
    MIN_MS,
    int_value,
    name_value,
    optional_name,
    text_value,
)
from memdb.transfer import trees
from memdb.transfer.lines import (
    PAGE,
    Codec,
    Item,
    TargetSession,
    between,
    digest_of,
    place_name,
    unchecked,
)
from memdb.transfer.message_merge import MessageLine, MessageMerge, taken_by_another

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.messages import BranchInfo
    from memdb.transfer.lines import Target

    # By session and external id: row id, role and text of a stored message.
    Stored = dict[str, dict[str, tuple[int, str, str]]]


def _shares_value(value: object, field: str) -> list[tuple[int, int, str | None]] | None:
    """Return what a branch shares of other branches: [first seq, last seq, branch] of each."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        isinstance(one, list) and len(one) == SHARE_FIELDS for one in value
    ):
        raise InvalidInput(f"{field} is no list of [first seq, last seq, branch]")
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
    """Return the `shares` of a branch as its line has them, None for none."""
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
    """Add the sessions that are new; the others stay as they are, those forgotten stay away."""
    scope_no = target.owner.ensure(tx)
    note_titles(target, tx, rows)
    forgotten = target.are_forgotten(tx, [row["uid"] for row in rows if row["uid"]])
    for row in rows:
        name, last_seq = row["name"], row["last_seq"]
        if row["uid"] in forgotten:
            target.gone.add(name)
            target.added["forgotten"] += 1
            continue
        session = sessions.find(tx, scope_no, name)
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
    """Add the branches that are new; the others stay as they are, those forgotten stay away."""
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
    """Return what a branch line shares of others, by the rows and seqs that these have here."""
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
    new = NewMessage.make(_draft_values(row))
    screen = target.services.screen
    action = REDACT if target.is_captured else screen.settings.secrets_in_messages
    screen.pass_fields("message", {"session": session, "counter": row["counter"]})
    tokens = row["tokens"] if row["counter"] else None
    draft = read_draft(new, screen, action, tokens, row["counter"] or "")
    if not exported:
        return MessageLine(item.place, session, None, draft, in_tree, after)
    if session not in target.last_seqs:
        kind = "branch" if row["branch"] else "session"
        named = row["branch"] or row["session"]
        raise InvalidInput(f"no line before told of the {kind} {named!r}: put its line first")
    if seq > target.last_seqs[session]:
        last_seq = target.last_seqs[session]
        raise InvalidInput(f"seq is {seq}, its session ends at {last_seq}: export it again")
    if action != ALLOW and read_draft(new, screen, ALLOW, draft.tokens, draft.counter) != draft:
        draft = draft.replace(tokens=None, counter="")  # what is left of it is counted
    return MessageLine(item.place, session, seq, draft)


def _plain_line(target: Target, item: Item) -> MessageLine | None:
    """
    Return an exported message that is a text and no more; None if a check of another kind is due.

    Nearly all lines of an export are such. Cost: 3 µs, a fifth of what any line takes.
    """
    session, seq, role, text, tokens, counter, created_ms, uid = _plain_values(item.fields)
    if not (
        type(session) is type(counter) is type(uid) is str
        and type(seq) is type(tokens) is type(created_ms) is int
        and 0 < seq <= target.last_seqs.get(session, 0)
        and counter
        and 0 <= tokens <= MAX_INT
        and MIN_MS <= created_ms <= MAX_MS
        and role in ROLES
        and target.services.screen.settings.secrets_in_messages == ALLOW
        and not target.is_captured
    ):
        return None
    uid = name_value(uid, "uid")
    counter = text_value(counter, "counter")
    text = text_value(text, "text")
    bigrams = bigrams_of(text)
    draft = Draft.make(
        (role, None, text, None, None, None, created_ms, uid, bigrams, text, tokens, counter)
    )
    return MessageLine.make((item.place, session, seq, draft, False, None))


def count_messages(target: Target, lines: list[MessageLine]) -> list[MessageLine]:
    """
    Return the lines that have to be written, with their tokens counted.

    Lines that the file holds already are left out before that: counting takes
    longer than all the rest of a second import. A counter may be slow, so it
    runs outside the write transaction.
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


def refuse_taken(
    target: Target, lines: list[MessageLine], taken: dict[tuple[str, str], bytes]
) -> None:
    """
    Compare lines with the file, and with those before them, as a dry run has to.

    Args:
        taken: By session and external id, a digest of the message; the lines are added.

    Raises:
        InvalidInput: an external id belongs to a different message.
    """
    if target.is_captured:
        return
    with target.services.db.read() as tx:
        stored = _stored_externals(target, tx, lines)
    for line in lines:
        external_id = line.draft.external_id
        if external_id is None or line.seq is not None:
            continue
        content = line.draft.role, line.draft.text
        digest = digest_of("\0".join(content))
        twin = stored.get(line.session, {}).get(external_id, (0, *content))
        if taken.setdefault((line.session, external_id), digest) != digest or twin[1:] != content:
            raise taken_by_another(line)


def _stored_externals(target: Target, tx: Tx, lines: list[MessageLine]) -> Stored:
    """Return the stored messages that have the external ids of hand-written lines."""
    given: dict[str, list[str]] = {}
    for line in lines:
        if line.draft.external_id is not None and line.seq is None:
            given.setdefault(line.session, []).append(line.draft.external_id)
    in_trees = {line.session for line in lines if line.in_tree}
    stored: Stored = {}
    for session, external_ids in given.items():
        if session in in_trees:
            rows = [*trees.list_rows(target, tx, session)]
        else:
            row = target.find_session(tx, session)
            rows = [] if row is None else [row]
        for row in rows:
            found = messages.by_externals(tx, row, external_ids)
            stored[session] = {**found, **stored.get(session, {})}
    return stored


def _is_stored(stored: Stored, line: MessageLine) -> bool:
    """Whether the file holds a hand-written line already, with the same role and text."""
    if line.seq is not None or line.session not in stored:
        return False
    twin = stored[line.session].get(line.draft.external_id or "")
    return twin is not None and twin[1:] == (line.draft.role, line.draft.text)


def write_messages(target: Target, tx: Tx, lines: list[MessageLine]) -> None:
    """
    Add the messages that are new, session by session.

    Raises:
        InvalidInput: an external id belongs to a different message, or a session
            is full.
    """
    groups: dict[str, list[MessageLine]] = {}
    for line in lines:
        groups.setdefault(line.session, []).append(line)
    for session, group in groups.items():
        if target.is_gone(session):
            target.added["forgotten"] += len(group)
        elif group[0].in_tree:
            trees.write_tree(target, tx, session, group)
        else:
            MessageMerge(target, tx, target.session(tx, session)).write(group)


def note_titles(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Note the sessions that are here under another title than the file has now."""
    ids = {row["name"]: target.find_session(tx, row["name"]) for row in rows if row["title"]}
    here = sessions.titles(tx, [row for row in ids.values() if row is not None])
    for row in rows:
        session = ids.get(row["name"])
        if session is None or row["last_seq"] is not None or here.get(session) == row["title"]:
            continue
        stays = f"stays {here[session]!r}" if session in here else "has no title"
        target.notes.append(
            f"session {row['name']!r} is called {row['title']!r} now, and {stays} here: "
            "change it with `memdb chat title`"
        )
