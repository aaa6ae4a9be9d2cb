"""
Merge the changes in a segment of another device.

For each thing the later change by its stamp wins; messages and versions are united. Lines come in
as those of an import do (`memdb.sync.chunks` reads them), so what is indexed and linked there is so
here.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from memdb.engine.branches import descendants
from memdb.errors import InvalidInput, SecretFound, existing
from memdb.models.ids import (
    BranchName,
    is_branch,
    scope_of,
    scope_range,
    seq_of,
    session_id,
    session_no_of,
    session_of,
    session_range,
    thing_hash,
)
from memdb.models.record import Record
from memdb.records import artifacts as artifact_records
from memdb.records import branches as branch_records
from memdb.records import entries as entry_records
from memdb.records import entry_writer
from memdb.records import items as item_records
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.records import summaries as summary_records
from memdb.sync.chunks import MERGED, change_of, read_chunk
from memdb.sync.clock import MS_SHIFT, NO_CHANGE, UNSENT, Change, history_of, ms_of, wins
from memdb.sync.outgoing import thing_of
from memdb.sync.tree import Tree, is_fork
from memdb.tables import artifacts, entries, entry_history, items, jobs, sessions, state, synced
from memdb.tables import messages as message_rows
from memdb.tables.artifacts import Place
from memdb.text.trust import TRUST
from memdb.text.validate import json_object
from memdb.transfer import artifacts as artifact_lines
from memdb.transfer import messages as message_lines
from memdb.transfer import others
from memdb.transfer.lines import REFUSALS, Item, Target, TargetSession, place_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from memdb.engine.base import Tx
    from memdb.records.scopes import ScopeRef
    from memdb.sync.chunks import Chunk
    from memdb.tables.state import StateRow
    from memdb.tables.synced import Known
    from memdb.transfer.lines import TransferServices

    Line = dict[str, Any]
    Row = dict[str, Any]

# Fields of an entry's line that are derived here.
DERIVED = ("bigrams", "spans", "superseded_by")

NO_VERSION = -1  # no version of a thing, so that it is sent

SESSION_FIELDS = ("created_ms", "updated_ms", "title", "metadata")


class Merge:
    """
    Merges the chunks of segments.

    Attributes:
        services: The services that store lines.
        counts: Numbers of added, changed and removed things, by kind.
        refused: Reasons why lines were left out, by kind.
        has_forgotten: Something was forgotten.
        above: By session, the message here that its next line follows if it names no other.
        places: By session and branch of this segment, the messages before it, nearest first.
        forks: Lines of branches that sync made, complete when the segment is read.
    """

    def __init__(self, services: TransferServices) -> None:
        """Merge into the file of *services*."""
        self.services = services
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.has_forgotten = False
        self.above: dict[tuple[int, str], str | None] = {}
        self.places: dict[int, dict[str, list[str]]] = {}
        self.forks: list[tuple[ScopeRef, Line]] = []
        self._trees: dict[int, tuple[list[tuple[int, int, int]], Tree]] = {}

    def merge(self, chunk: Chunk) -> None:
        """Merge a chunk: read its lines as an import does, then write them in one transaction."""
        owner = self.services.scope(chunk.app, chunk.user) if chunk.app else None
        groups = chunk.by_kind()
        try:
            read = {} if owner is None else read_chunk(self.services, owner, chunk)
            with self.services.db.write() as tx:
                scope_no = 0 if owner is None or chunk.is_state else owner.ensure(tx)
                writer = _ChunkWriter(self, tx, owner, scope_no, read)
                writer.remove(groups.get("gone", ()))
                for kind, rules in KINDS.items():
                    if kind in groups:
                        rules.write(writer, groups[kind])
                writer.finish()
        except SecretFound as error:  # in a name of the scope: each line is caught by itself
            self.refuse("scope", error)

    def settle(self, tx: Tx) -> None:
        """Choose the fact of each key that several entries here have, as other devices do."""
        for scope_no, key, session_only, session in synced.rival_keys(tx):
            _ChunkWriter(self, tx, None, scope_no, {}).settle({(key, session_only, session)})

    def end_segment(self, tx: Tx) -> None:
        """Move branches to the places of their last changes, when all messages are here."""
        while self.places:
            session, places = self.places.popitem()
            if sessions.identity(tx, session) is not None:
                self.drop_tree(session)
                tree = self.tree(tx, session)
                for name in places.keys() & tree.after.keys():
                    before = (one for one in places[name] if one in tree.nodes)
                    tree.after[name] = next(before, None)
                self.arrange(tx, tree)
                self.drop_tree(session)
        while self.forks:
            owner, line = self.forks.pop()
            _ChunkWriter(self, tx, owner, owner.ensure(tx), {id(line): None}).write_fork(line)

    def arrange(self, tx: Tx, tree: Tree) -> None:
        """
        Move the messages and branches of a session to where they belong.

        If that moves a branch away from the place in its last change, the next segment sends it
        again. It stays there when its messages are removed, and other devices may never have had
        them.
        """
        tree.arrange(tx)
        scope_no = scope_of(tree.session)
        name, _ = existing(sessions.identity(tx, tree.session), "sessions")
        moved = tree.moved - self.places.get(tree.session, {}).keys()
        things = [thing_hash(name, branch) for branch in moved]
        known = synced.known(tx, "branch", scope_no, things)
        rows = [(thing, NO_VERSION, 0, one.stamp) for thing, one in known.items() if not one.gone]
        synced.put(tx, "branch", scope_no, rows)

    def tree(self, tx: Tx, session: int) -> Tree:
        """Return the messages of a session, read again if another connection has written."""
        state = synced.lengths(tx, session)
        known = self._trees.get(session)
        if known is None or known[0] != state:
            known = self._trees[session] = state, Tree(tx, session)
        return known[1]

    def keep_tree(self, tx: Tx, session: int) -> None:
        """Note that a tree is the present state of the session."""
        if session in self._trees:
            self._trees[session] = synced.lengths(tx, session), self._trees[session][1]

    def drop_tree(self, session: int) -> None:
        """Drop a tree, so that it is read again."""
        self._trees.pop(session, None)

    def refuse(self, kind: str, error: Exception) -> None:
        """Note why a line was left out."""
        self.refused[f"{kind}: {error}"] += 1


class Present(Record):
    """
    The present state of a thing in this file.

    Attributes:
        change: Its last change.
        place: Its place; None if it is absent.
        is_outdated: Whether the incoming line is a later change.
    """

    change: Change
    place: int | str | None
    is_outdated: bool = False


def _found(known: Known | None, version: int | None, place: int | str | None = None) -> Present:
    is_gone = version is None
    if known is None and is_gone:
        return Present(NO_CHANGE, None)
    if known is not None and (is_gone if known.gone else version == known.version):
        return Present(Change(known.stamp, known.gone), place)
    return Present(Change(UNSENT, int(is_gone)), place)


class _ChunkWriter:
    """One chunk, in its transaction."""

    def __init__(
        self, merge: Merge, tx: Tx, owner: ScopeRef | None, scope_no: int, read: dict[int, Any]
    ) -> None:
        self._merge = merge
        self._tx = tx
        self._scope = owner
        self._scope_no = scope_no
        self._read = read
        self._touched: dict[str, dict[int, int]] = {}
        self._versions: dict[int, int] = {}  # of the messages that were stored
        self._arranged: set[int] = set()  # sessions whose rows may be others now
        self._emptied: dict[int, bool] = {}  # rows that may be empty; whether that is forgotten
        self._keys: set[tuple[str, int, int | None]] = set()
        self._opened: set[int] = set()  # entries that state a key, and have no place in it yet
        self._places: dict[Place, dict[str, int]] = {}  # first numbers of versions that came

    @property
    def _owner(self) -> ScopeRef:
        assert self._scope is not None
        return self._scope

    def _target(self) -> Target:
        return Target(self._merge.services, self._owner, self._owner.app, Counter())

    def _known(self, kind: str, things: Iterable[int]) -> dict[int, Known]:
        return synced.known(self._tx, kind, self._scope_no, [*things])

    def _stamps(self, kind: str, things: Iterable[int]) -> dict[int, int]:
        known = self._known(kind, things)
        return {thing: one.stamp for thing, one in known.items()} | self._touched.get(kind, {})

    def _present(self, kind: str, things: list[int]) -> dict[int, Present]:
        """Return the present state of each of *things*."""
        known = self._known(kind, things)
        here = synced.here(self._tx, kind, self._scope_no, things)
        return {thing: _found(known.get(thing), *here.get(thing, (None, None))) for thing in things}

    def _touch(self, kind: str, thing: int, stamp: int) -> None:
        self._touched.setdefault(kind, {})[thing] = stamp

    # What is gone.

    def remove(self, lines: Iterable[Line]) -> None:
        """Remove what other devices removed, unless it was changed later."""
        by_kind: dict[str, list[Line]] = {}
        for line in lines:
            by_kind.setdefault(line["of"], []).append(line)
        for kind in reversed(KINDS):
            if kind in by_kind:
                self._remove_kind(kind, by_kind[kind])

    def _remove_kind(self, kind: str, lines: list[Line]) -> None:
        here = self._present(kind, [line["thing"] for line in lines])
        rows, doomed = [], []
        for line in lines:
            thing, change = line["thing"], Change(line["stamp"], 2 if line.get("forgotten") else 1)
            if wins(kind, change, here[thing].change):
                rows.append((thing, 0, change.gone, change.stamp))
                if here[thing].place is not None:
                    doomed.append((here[thing].place, change.gone > 1))
        synced.put(self._tx, kind, self._scope_no, rows)
        if doomed:
            self._merge.counts[f"{kind}_removed"] += len(doomed)
            self._merge.has_forgotten |= any(forgotten for _, forgotten in doomed)
            KINDS[kind].remove(self, doomed)

    def remove_message(self, doomed: list[tuple[int, bool]]) -> None:
        """Remove messages, and rows that are empty then."""
        for forgotten in (False, True):
            rows: dict[int, list[int]] = {}
            for place, is_forgotten in sorted(doomed):
                if is_forgotten == forgotten:
                    rows.setdefault(session_of(place), []).append(seq_of(place))
            if forgotten:
                message_records.forget(self._tx, rows)
                summary_records.remove(self._tx, dict.fromkeys(rows, 0))
            else:
                message_records.remove(self._tx, rows)
            for row in rows:
                self._emptied[row] = self._emptied.get(row, False) or forgotten
                self._rearrange(row)

    def _rearrange(self, row: int) -> None:
        session = sessions.roots(self._tx, [row])[row] if is_branch(row) else row
        self._merge.drop_tree(session)
        self._arranged.add(session)

    def remove_session(self, doomed: list[tuple[int, bool]]) -> None:
        """Remove title and metadata of sessions and branches; empty ones are then deleted."""
        self._emptied |= dict(doomed)
        session_records.undescribe(self._tx, *dict(doomed))

    def remove_entry(self, doomed: list[tuple[int, bool]]) -> None:
        """Remove entries; others with their keys may become current then."""
        keys = set()
        for (
            entry_id,
            _,
        ) in doomed:  # it states its key no longer; others that do may be current then
            row = entries.row(self._tx, entry_id)
            if row["key"] is not None:
                self._step_back(entry_id)
                keys.add((row["key"], row["session_only"], row["session_id"]))
        self.settle(keys)
        for entry_id, forgotten in doomed:
            entry_records.remove(self._tx, entry_id, is_forgotten=forgotten)

    def _step_back(self, entry_id: int) -> None:
        """Remove key and successor of an entry."""
        entry = existing(entries.find(self._tx, entry_id), "entries")
        entry_writer.set_outcome(self._tx, entry, active=0, successor=None)

    def remove_link(self, doomed: list[tuple[int, bool]]) -> None:
        """Forget which entries replaced others."""
        for entry_id, _ in doomed:
            entries.link(self._tx, entry_id, None)

    def remove_version(self, doomed: list[tuple[str, bool]]) -> None:
        """Remove old versions of entries."""
        entry_records.remove_versions(self._tx, [json.loads(place) for place, _ in doomed])

    def remove_artifact(self, doomed: list[tuple[str, bool]]) -> None:
        """Remove versions of artifacts."""
        for text, forgotten in doomed:
            session_no, name, version = json.loads(text)
            place = Place(self._scope_no, session_no, name)
            artifact_records.remove(self._tx, (place, version), is_forgotten=forgotten)
            if session_no:
                self._emptied.setdefault(session_id(self._scope_no, session_no), False)

    def remove_item(self, doomed: list[tuple[int, bool]]) -> None:
        """Remove items."""
        for item_id, forgotten in doomed:
            for stored in items.get_many(self._tx, [item_id]).values():
                item_records.remove(self._tx, stored, is_forgotten=forgotten)

    def remove_state(self, doomed: list[tuple[str, bool]]) -> None:
        """Remove values of state."""
        for text, _ in doomed:
            app, user, session, key = json.loads(text)
            state_records.remove(self._tx, (app, user, session), key)

    # What is new or changed.

    def _each(
        self, kind: str, lines: list[Line], write: Callable[[Line, Any, Present], None]
    ) -> None:
        """
        Write each line whole, or not at all with a reason.

        Args:
            write: Takes a line, its parsed form, and the present state here.
        """
        things = [thing_of(kind, line) for line in lines]
        here = self._present(kind, things)
        for line, thing in zip(lines, things, strict=True):
            present = here[thing]
            present = present.replace(is_outdated=wins(kind, change_of(line), present.change))
            if not present.is_outdated and not (kind in MERGED and present.place is not None):
                continue
            read = self._read[id(line)]
            try:
                if isinstance(read, Exception):
                    raise read
                with self._merge.services.db.write():
                    write(line, read, present)
            except REFUSALS as error:
                self._merge.refuse(kind, error)
            else:
                if present.is_outdated:
                    self._touch(kind, thing, line["stamp"])

    def write_session(self, lines: list[Line]) -> None:
        """Add sessions, and give existing ones the later title and metadata."""
        tx, scope_no = self._tx, self._scope_no

        def write(line: Line, row: Row, present: Present) -> None:
            if present.place is not None:
                self._be_same(int(present.place), row)
                if present.is_outdated:
                    _describe(tx, int(present.place), row["title"], row["metadata"])
                return
            said = {name: row[name] for name in SESSION_FIELDS}
            session_records.restore(tx, scope_no, line["name"], row["uid"], said)
            self._merge.counts["session_added"] += 1

        self._each("session", lines, write)

    def _be_same(self, row: int, line: Line) -> None:
        """Set the lower uid and the earlier time of a session that two devices created."""
        here = sessions.place_of(self._tx, row)
        older = {name: min(here[name], line[name]) for name in ("uid", "created_ms")}
        if here != here | older:
            sessions.set_identity(self._tx, row, **older)

    def _session(self, name: str) -> int:
        return session_records.ensure(self._tx, self._owner, name, self._merge.services.db.ids)

    def write_branch(self, lines: list[Line]) -> None:
        """Add branches that users made; metadata of forks waits until the forks are here."""
        tx, scope_no, merge = self._tx, self._scope_no, self._merge

        def write(line: Line, _read: Any, present: Present) -> None:
            metadata = json_object(line.get("metadata"), "metadata")
            session = self._session(line["session"])
            if present.is_outdated or line["stamp"] == present.change.stamp:
                merge.places.setdefault(session, {})[line["name"]] = line["after"]
            if present.place is not None:
                if present.is_outdated:
                    sessions.describe(tx, int(present.place), metadata)
                    sessions.set_identity(tx, int(present.place), line["uid"], line["created_ms"])
                return
            tree = merge.tree(tx, session)
            above = next((one for one in line["after"] if one in tree.nodes), None)
            node = None if above is None else tree.nodes[above]
            parent, leaves_at = ("", 0) if node is None else (str(node.row), node.seq)
            place = {"name": line["session"], "branch": line["name"], "uid": line["uid"]}
            columns = {"metadata": metadata, "created_ms": line["created_ms"]}
            branch_records.restore(
                tx, scope_no, tree.rows[parent], {**place, "leaves_at": leaves_at}, columns
            )
            merge.drop_tree(session)
            merge.counts["branch_added"] += 1

        merge.forks += [(self._owner, line) for line in lines if is_fork(line["name"])]
        homes = [line for line in lines if not is_fork(line["name"])]
        self._each("branch", homes, write)

    def write_fork(self, line: Line) -> None:
        """Store the later metadata of an existing fork."""

        def write(line: Line, _read: Any, present: Present) -> None:
            row = sessions.find(self._tx, self._scope_no, line["session"], line["name"])
            if present.is_outdated and row is not None:
                sessions.describe(self._tx, row, json_object(line.get("metadata"), "metadata"))

        self._each("branch", [line], write)
        self.finish()

    def write_message(self, lines: list[Line]) -> None:
        """Add messages in their places, and change those that were edited."""
        groups: dict[str, list[Line]] = {}
        for line in lines:
            groups.setdefault(line["session"], []).append(line)
        for name, group in groups.items():
            self._write_messages(name, group)

    def _write_messages(self, name: str, lines: list[Line]) -> None:
        tx, merge = self._tx, self._merge
        session = sessions.find(tx, self._scope_no, name)
        tree = None if session is None else merge.tree(tx, session)
        changes = self._changes(tree, lines)
        fresh: list[tuple[str, message_lines.MessageLine]] = []
        is_plain = True
        place = self._scope_no, name
        for line in lines:
            uid, thing, change = line["uid"], thing_of("message", line), change_of(line)
            is_here = tree is not None and uid in tree.nodes
            above = merge.above.get(place)
            if "after" in line:
                above = None if tree is None else tree.nearest(line["after"], line["seq"])
            # What follows a line that is left out follows what it followed.
            merge.above[place] = uid if is_here else above
            if not wins("message", change, changes[thing]):
                continue
            read = self._read[id(line)]
            if tree is not None and not is_here:
                read = _in_order(tree, above, line) or read
            if isinstance(read, Exception):
                merge.refuse("message", read)
                continue
            self._touch("message", thing, change.stamp)
            if tree is not None and is_here:
                self._edit(tree.rows[str(tree.nodes[uid].row)] | tree.nodes[uid].seq, read)
                continue
            if tree is None:
                session = self._session(name)
                tree = merge.tree(tx, session)
            home, made_ms = line.get("branch", ""), read.draft["created_ms"] or 0
            is_plain &= tree.add(uid, line["seq"], above, home, made_ms)
            merge.above[place] = uid
            fresh.append((uid, read))
        if not fresh:
            return
        assert tree is not None
        assert session is not None
        if not is_plain:
            merge.arrange(tx, tree)
        self._place(tree, fresh)
        merge.keep_tree(tx, session)

    def _changes(self, tree: Tree | None, lines: list[Line]) -> dict[int, Change]:
        """Return what `_present` returns for messages, without reading all of them."""
        known = self._known("message", [thing_of("message", line) for line in lines])
        nodes = {} if tree is None else tree.nodes
        here = [nodes[line["uid"]] for line in lines if line["uid"] in nodes]
        ids = [] if tree is None else [tree.rows[str(node.row)] | node.seq for node in here]
        versions = synced.message_versions(self._tx, ids)
        things = [thing_of("message", line) for line in lines]
        return {thing: _found(known.get(thing), versions.get(thing)).change for thing in things}

    def _place(self, tree: Tree, fresh: list[tuple[str, message_lines.MessageLine]]) -> None:
        """Store messages in the rows of their tree."""
        tx, services = self._tx, self._merge.services
        last_seqs = {row: last_seq for row, last_seq, _ in synced.lengths(tx, tree.session)}
        by_row: dict[str, list[Any]] = {}
        for uid, line in fresh:
            by_row.setdefault(str(tree.nodes[uid].row), []).append(line)
        for name, lines in by_row.items():
            row = tree.rows[name]
            lines.sort(key=lambda line: int(line.seq))
            drafts = [line.draft for line in lines]
            seqs = [line.seq for line in lines]
            newest_ms = max(line.draft["created_ms"] or 0 for line in lines)
            updated_ms = max(sessions.updated_ms(tx, row), newest_ms)
            are_read = jobs.watermark(tx, row).next_seq > last_seqs.get(row, 0)
            message_records.place(
                tx, row, drafts, services.db.ids, services.space, seqs, services.summarize_every
            )
            if are_read:  # the device that heard them learns facts from them, and tells those
                session_records.set_extracted(tx, row, max(seqs))
            sessions.raise_seq(tx, row, max(seqs), updated_ms)
            self._versions |= synced.message_versions(tx, [row | seq for seq in seqs])
            self._merge.counts["message_added"] += len(lines)

    def _edit(self, place: int, line: message_lines.MessageLine) -> None:
        """Change a message to its device's later version."""
        tx, services = self._tx, self._merge.services
        row, seqs = session_of(place), [seq_of(place)]
        message_records.remove(tx, {row: seqs})
        message_records.place(tx, row, [line.draft], services.db.ids, services.space, seqs)
        self._versions |= synced.message_versions(tx, [place])

    def write_summary(self, lines: list[Line]) -> None:
        """Add summaries of a model where no model here made one."""
        tx, target = self._tx, self._target()

        def write(_line: Line, row: Row, present: Present) -> None:
            name = place_name(row)
            session = target.find_session(tx, name)
            if session is not None and present.place is None:
                target.sessions[name] = TargetSession(session, own=True, fresh=False)
                others.write_summaries(target, tx, [row])

        self._each("summary", lines, write)
        self._merge.counts["summary_added"] += target.added["summaries_added"]

    def write_entry(self, lines: list[Line]) -> None:
        """
        Add entries.

        Of two versions of one entry the later one becomes current, the other history.
        """
        tx, scope_no, merge = self._tx, self._scope_no, self._merge

        def write(_line: Line, item: Item, present: Present) -> None:
            row = dict(item.fields)
            del row["rejected"], row["superseded_by"]
            row = _placed(tx, scope_no, row)
            versions = [_placed(tx, scope_no, one) for one in row.pop("history")]
            is_open = entries.states_key(row)
            if is_open:  # `settle` makes the last one current
                row["active"] = 0
            if present.place is None:
                entry_id = entry_writer.restore(tx, scope_no, row, [], merge.services.db.ids)
            else:
                entry_id = int(present.place)
            merge.counts["entry_added" if present.place is None else "entry_changed"] += (
                present.is_outdated
            )
            self._unite(entry_id, row, versions, present)
            if present.is_outdated and is_open:
                self._opened.add(entry_id)
            if row["key"] is not None:
                self._keys.add((row["key"], row["session_only"], row["session_id"]))

        self._each("entry", lines, write)

    def write_link(self, lines: list[Line]) -> None:
        """Set the successors of entries; an absent one is left out."""

        def write(line: Line, _read: Any, present: Present) -> None:
            span = scope_range(self._scope_no)
            found = entries.find_uids(self._tx, *span, [line["uid"], line["newer"]])
            if present.is_outdated and len(found) > 1:
                old = existing(entries.find(self._tx, found[line["uid"]]), "entries")
                if old.valid_to_ms is not None:
                    entries.link(self._tx, old.id, found[line["newer"]])

        self._each("link", lines, write)

    def _unite(self, entry_id: int, came: Line, versions: list[Line], present: Present) -> None:
        """
        Write all old versions of an entry that two devices know, in the order of storing.

        Args:
            came: The other device's version; it becomes history unless *present* is outdated.
            versions: The old versions in the segment.
        """
        is_newer = present.is_outdated and present.place is not None
        tx, uid = self._tx, came["uid"]
        now = entries.row(tx, entry_id)
        now["stored_ms"] = existing(entries.find(tx, entry_id), "entries").stored_ms
        old = {**(now if is_newer else came), "reason": "update"}
        if is_newer:
            columns = {name: came[name] for name in entries.SET_FIELDS if name in came}
            columns = {name: one for name, one in columns.items() if name not in DERIVED}
            if came["valid_to_ms"] is None:  # it states its fact again
                columns["superseded_by"] = None
            entry_writer.update(tx, entry_id, "update", **columns)
            now = came
        told = [(_version(uid, one), {**one, "active": 1}) for one in (*versions, old)]
        here = [(_version(uid, one), one) for one in entry_history.rows(tx, entry_id)]
        known = self._known("version", [thing for thing, _ in (*told, *here)])
        gone = [thing for thing, one in known.items() if one.gone]
        kept = _write_history(tx, entry_id, [*told, *here], now, gone)
        new = {*kept} - {thing for thing, _ in here}
        if present.is_outdated:
            for thing in new:
                self._touch("version", thing, 0)
        else:  # sent again with the entry: who removed that meanwhile lacks them
            rows = [(thing, NO_VERSION, 0, 0) for thing in new]
            synced.put(tx, "version", self._scope_no, rows)

    def write_artifact(self, lines: list[Line]) -> None:
        """Add or rename versions of artifacts, which `finish` puts in order."""
        tx, target = self._tx, self._target()

        def write(line: Line, read: Item, present: Present) -> None:
            place = target.place_of(tx, read.fields["session"], read.fields["name"])
            if present.place is None:
                artifact_lines.write_artifacts(target, tx, [read])
            else:
                session_no, name, version = json.loads(str(present.place))
                before = Place(self._scope_no, session_no, name)
                artifact_records.move(tx, before, version, place, ms_of(line["stamp"]))
                self._places.setdefault(before, {})
                self._merge.counts["artifact_changed"] += 1
            self._places.setdefault(place, {})[line["uid"]] = line["version"]

        self._each("artifact", lines, write)
        self._merge.counts["artifact_added"] += target.added["artifacts_added"]

    def write_item(self, lines: list[Line]) -> None:
        """Store items; of two values of one key the later one wins."""
        target = self._target()

        def write(_line: Line, read: others.ItemLine, present: Present) -> None:
            self._make_room("item", present)
            others.write_items(target, self._tx, [read])

        self._each("item", lines, write)

    def write_state(self, lines: list[Line]) -> None:
        """Store values of state; of two values of one key the later one wins."""
        target = self._target()

        def write(_line: Line, read: StateRow, present: Present) -> None:
            self._make_room("state", present)
            others.write_state(target, self._tx, [read])

        self._each("state", lines, write)

    def _make_room(self, kind: str, present: Present) -> None:
        if present.place is not None:
            KINDS[kind].remove(self, [(present.place, False)])
        self._merge.counts[f"{kind}_changed"] += 1

    # What follows from all of it.

    def finish(self) -> None:
        """Put rows, keys and numbers in the order that every device uses."""
        tx, scope_no = self._tx, self._scope_no
        for session in sorted(self._arranged):
            if sessions.identity(tx, session) is not None:
                self._merge.arrange(tx, self._merge.tree(tx, session))
                self._merge.drop_tree(session)
        first = artifacts.first_numbers(tx, scope_no) if self._places else {}
        for place, came in self._places.items():
            artifact_records.renumber(tx, place, first | came)
        for row in sorted(self._emptied, reverse=True):
            self._drop_empty(row, is_forgotten=self._emptied[row])
        self.settle(self._keys)
        for kind, stamps in self._touched.items():
            if kind == "message":
                versions = {thing: self._versions[thing] for thing in stamps}
            else:
                here = synced.here(tx, kind, scope_no, stamps)
                versions = {thing: version for thing, (version, _) in here.items()}
            if kind == "link":  # one that could not be made counts as removed here
                versions = {thing: versions.get(thing, NO_VERSION) for thing in stamps}
            rows = [(thing, versions[thing], 0, stamps[thing]) for thing in versions]
            synced.put(tx, kind, scope_no, rows)

    def _drop_empty(self, row: int, *, is_forgotten: bool) -> None:
        """Remove a session or branch that another device removed, if it is empty."""
        tx = self._tx
        known = sessions.identity(tx, row)
        if known is None:
            return
        name, branch = known[0], sessions.branch_names(tx, [row]).get(row, "")
        thing = thing_hash(name, branch) if branch else thing_hash(name)
        agreed = self._known("branch" if branch else "session", [thing]).get(thing)
        if agreed is None or not agreed.gone or descendants(tx, row):
            return
        holds = message_rows.count(tx, *session_range(row)) or entries.session_only(tx, row, row)
        if holds or (not branch and self._holds_other(row, name)):
            return
        full = BranchName(name, branch) if branch else name
        session_records.remove(tx, self._owner, full, is_forgotten=is_forgotten)

    def _holds_other(self, session: int, name: str) -> bool:
        """Return whether a session has artifacts or state."""
        places = artifact_records.list_places(self._tx, self._scope_no, session_no_of(session))
        return any(artifacts.find(self._tx, place) is not None for place in places) or bool(
            state.values(self._tx, (self._owner.app, self._owner.user, name))
        )

    def settle(self, keys: set[tuple[str, int, int | None]]) -> None:
        """Make the last of the most trusted entries of each key supersede the others."""
        tx, scope_no = self._tx, self._scope_no
        for key in keys:
            found = synced.rivals(tx, scope_no, key, self._opened)
            stamps = self._stamps("entry", [row[2] for row in found])
            rank = {
                entry_id: (-TRUST.index(trust), stamps.get(thing, stored_ms << MS_SHIFT), uid)
                for entry_id, uid, thing, trust, _, _, stored_ms in found
            }
            last = max(rank, key=rank.__getitem__, default=0)
            for entry_id, *_, active, before, _ in sorted(found, key=lambda row: row[0] == last):
                is_current = entry_id == last
                successor = None if is_current else last
                if (active, before) != (int(is_current), successor):
                    entry = existing(entries.find(tx, entry_id), "entries")
                    entry_writer.set_outcome(tx, entry, active=int(is_current), successor=successor)


class Kind(Record):
    """How lines of a kind are merged: those of new or changed things, and those of removed ones."""

    write: Callable[[_ChunkWriter, list[Line]], None]
    remove: Callable[[_ChunkWriter, list[Any]], None]


def _leave(_writer: _ChunkWriter, _lines: list[Any]) -> None:
    """Do nothing: versions come with their entry, and summaries go with their messages."""


# In the order in which lines are written; what is gone is removed in the other one.
KINDS = {
    "session": Kind(_ChunkWriter.write_session, _ChunkWriter.remove_session),
    "branch": Kind(_ChunkWriter.write_branch, _ChunkWriter.remove_session),
    "message": Kind(_ChunkWriter.write_message, _ChunkWriter.remove_message),
    "summary": Kind(_ChunkWriter.write_summary, _leave),
    "entry": Kind(_ChunkWriter.write_entry, _ChunkWriter.remove_entry),
    "version": Kind(_leave, _ChunkWriter.remove_version),
    "link": Kind(_ChunkWriter.write_link, _ChunkWriter.remove_link),
    "artifact": Kind(_ChunkWriter.write_artifact, _ChunkWriter.remove_artifact),
    "item": Kind(_ChunkWriter.write_item, _ChunkWriter.remove_item),
    "state": Kind(_ChunkWriter.write_state, _ChunkWriter.remove_state),
}


def _in_order(tree: Tree, above: str | None, line: Line) -> InvalidInput | None:
    """Return why a message cannot follow *above*, None if it can."""
    last = 0 if above is None else tree.nodes[above].seq
    seq = line["seq"]
    return None if seq > last else InvalidInput(f"seq is {seq}, but it follows number {last}")


def _describe(tx: Tx, session: int, title: str | None, metadata: str | None) -> None:
    if title is None:
        session_records.undescribe(tx, session)
    else:
        session_records.set_title(tx, session, title)
    sessions.describe(tx, session, metadata)


def _version(uid: str, row: Line) -> int:
    """Return the thing that a version of an entry is."""
    return thing_hash(uid, *(row[name] for name in synced.SAID))


def drop_repeated_versions(tx: Tx) -> None:
    """Drop old versions equal to the current one, which were valid for no time."""
    for entry_id in synced.said_twice(tx):
        now = entries.row(tx, entry_id)
        now["stored_ms"] = existing(entries.find(tx, entry_id), "entries").stored_ms
        said = [(_version(now["uid"], one), one) for one in entry_history.rows(tx, entry_id)]
        _write_history(tx, entry_id, said, now, ())


def _write_history(
    tx: Tx, entry_id: int, said: list[tuple[int, Line]], now: Line, gone: Collection[int]
) -> list[int]:
    """Store the old versions that `history_of` returns, and return their things."""
    scope_no, current = scope_of(entry_id), _version(now["uid"], now)
    kept = history_of(said, current, gone)
    entry_writer.unite(tx, entry_id, [one for _, one in kept], now["stored_ms"])
    known = synced.known(tx, "version", scope_no, [current]).get(current)
    if known is not None and not known.gone:  # it is sent again when it is an old one again
        synced.put(tx, "version", scope_no, [(current, NO_VERSION, 0, 0)])
    return [thing for thing, _ in kept]


def _placed(tx: Tx, scope_no: int, line: Line) -> Line:
    """
    Return an entry or a version with the session of this file.

    If that is not here, what only it recalls is kept for nobody, as after a recovery.
    """
    row = {**line, "session_id": None}
    if row["session"] is not None:
        found = sessions.find(tx, scope_no, row["session"], row["branch"] or "")
        row["session_id"] = sessions.find(tx, scope_no, row["session"]) if found is None else found
    if row["session_id"] is None:
        row["first_seq"] = row["last_seq"] = None
        row["active"] = int(row["active"] and not row["session_only"])
        row["session_only"] = 0
    del row["session"], row["branch"]
    return row
