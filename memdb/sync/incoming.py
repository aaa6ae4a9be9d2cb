"""
What a segment of another device changes here.

Of each thing the later word stays, by its stamp; messages and versions are united. Lines come in
as those of an import do, so what is screened, counted, indexed and linked there is so here.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from memdb.engine.branches import descendants
from memdb.errors import existing
from memdb.models.ids import (
    BranchName,
    is_branch,
    scope_range,
    seq_of,
    session_id,
    session_no_of,
    session_of,
    session_range,
)
from memdb.models.items import path_of
from memdb.models.record import Record
from memdb.records import artifacts as artifact_records
from memdb.records import branches as branch_records
from memdb.records import dependents, entry_writer
from memdb.records import entries as entry_records
from memdb.records import items as item_records
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.records import summaries as summary_records
from memdb.sync.clock import stamp_of
from memdb.sync.tree import Tree
from memdb.tables import artifacts, entries, entry_history, items, sessions, state, synced
from memdb.tables.artifacts import Place
from memdb.transfer import artifacts as artifact_lines
from memdb.transfer import entries as entry_lines
from memdb.transfer import messages as message_lines
from memdb.transfer import others
from memdb.transfer.lines import REFUSALS, Item, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memdb.engine.base import Tx
    from memdb.records.scopes import ScopeRef
    from memdb.sync.device import Device
    from memdb.tables.synced import Known
    from memdb.transfer.lines import TransferServices

    Line = dict[str, Any]

# Holds the write lock for about 0.1 s.
CHUNK_LINES = 2000

ORDER = ("session", "branch", "message", "entry", "artifact", "item", "state")


class Chunk(Record):
    """Lines of one scope: its app and user, what is gone, and the others."""

    app: str
    user: str
    lines: list[Line]


def chunks_of(lines: Iterator[Line]) -> Iterator[Chunk]:
    """Yield the lines of a segment, some thousand of one scope at a time."""
    scope = "", "", ""
    found: list[Line] = []
    for line in lines:
        if line["kind"] == "end":
            continue
        before = scope
        if line["kind"] in ("scope", "state"):
            scope = line["kind"], line["app"], line["user"]
        elif line["kind"] == "gone" and line["of"] == "state":
            scope = "state", "", ""
        is_part = bool(found) and found[-1]["kind"] == "artifact_part"
        if scope != before or (len(found) >= CHUNK_LINES and not is_part):
            if found:
                yield Chunk(*before[1:], found)
            found = []
        if line["kind"] != "scope":
            found.append(line)
    if found:
        yield Chunk(*scope[1:], found)


class Merge:
    """
    Merges the chunks of segments.

    Attributes:
        counts: What was added, changed and removed, by kind.
        refused: Why lines were left out, by what they are.
        has_forgotten: Something was forgotten.
        above: By session, the message here that its next line follows if it names no other one.
    """

    def __init__(self, services: TransferServices, device: Device) -> None:
        """Merge into the file of *services*, which is *device*."""
        self._services = services
        self._device = device
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.has_forgotten = False
        self.above: dict[tuple[int, str], str | None] = {}
        self._trees: dict[int, tuple[list[tuple[int, int, int]], Tree]] = {}

    def write(self, tx: Tx, chunk: Chunk) -> None:
        """Merge a chunk. Transaction: joins the caller's."""
        if not chunk.app:
            gone = [line for line in chunk.lines if line["kind"] == "gone"]
            _Part(self, tx, None, 0).remove(gone)
            return
        owner = self._services.scope(chunk.app, chunk.user)
        is_state = chunk.lines[0]["kind"] == "state"
        part = _Part(self, tx, owner, 0 if is_state else owner.ensure(tx))
        part.remove([line for line in chunk.lines if line["kind"] == "gone"])
        for kind in ORDER:
            lines = [line for line in chunk.lines if line["kind"] == kind]
            if kind == "artifact":
                lines = [line for line in chunk.lines if line["kind"].startswith("artifact")]
            if lines:
                getattr(part, f"write_{kind}")(lines)
        part.finish()

    def settle(self, tx: Tx) -> None:
        """Let keys follow what was said and removed here, as they do on other devices."""
        for scope_no, key, session_only, session in synced.closed_keys(tx):
            _Part(self, tx, None, scope_no).settle({(key, session_only, session)})

    def target(self, owner: ScopeRef) -> Target:
        """Return a scope to import into."""
        return Target(self._services, owner, owner.app, Counter())

    def tree(self, tx: Tx, session: int) -> Tree:
        """Return the messages of a session, read anew if another one has written."""
        state = synced.lengths(tx, session)
        known = self._trees.get(session)
        if known is None or known[0] != state:
            known = self._trees[session] = state, Tree(tx, session)
        return known[1]

    def keep_tree(self, tx: Tx, session: int) -> None:
        """Note that a tree is what the session holds now."""
        if session in self._trees:
            self._trees[session] = synced.lengths(tx, session), self._trees[session][1]

    def drop_tree(self, session: int) -> None:
        """Let a tree be read anew."""
        self._trees.pop(session, None)

    def refuse(self, kind: str, error: Exception) -> None:
        """Note why a line was left out."""
        self.refused[f"{kind}: {error}"] += 1

    def stamp(self, ms: int, now_ms: int) -> int:
        """Return the stamp of a change that was not sent yet."""
        return stamp_of(ms or now_ms, self._device.id, self._device.stamp)

    @property
    def services(self) -> TransferServices:
        """What lines are stored by."""
        return self._services


class _Part:
    """One chunk, in its transaction."""

    def __init__(self, merge: Merge, tx: Tx, owner: ScopeRef | None, scope_no: int) -> None:
        self._merge = merge
        self._tx = tx
        self._owner = owner
        self._scope_no = scope_no
        self._touched: dict[str, dict[int, int]] = {}
        self._versions: dict[int, int] = {}  # of the messages that were stored
        self._arranged: set[int] = set()  # sessions whose rows may be others now
        self._emptied: dict[int, bool] = {}  # rows that may be empty; whether that is forgotten
        self._keys: set[tuple[str, int, int | None]] = set()
        self._places: set[Place] = set()

    def _known(self, kind: str, things: Iterable[int]) -> dict[int, Known]:
        return synced.known(self._tx, kind, self._scope_no, [*things])

    def _wins(self, line: Line, known: Known | None, version: int | None) -> bool:
        """Say whether a line is later than what is here; *version*: of what is here."""
        if known is not None and (version is None if known.gone else version == known.version):
            here = known.stamp
        elif known is None and version is None:
            here = -1
        else:  # changed since it was sent
            here = self._merge.stamp(0, self._tx.now_ms)
        return bool(line["stamp"] > here)

    def _touch(self, kind: str, thing: int, stamp: int) -> None:
        self._touched.setdefault(kind, {})[thing] = stamp

    # What is gone.

    def remove(self, lines: list[Line]) -> None:
        """Remove what other devices removed, unless it was changed later."""
        by_kind: dict[str, list[Line]] = {}
        for line in lines:
            by_kind.setdefault(line["of"], []).append(line)
        for kind in reversed(ORDER):
            if kind == "entry" and "version" in by_kind:
                self._remove_kind("version", by_kind["version"])
            if kind in by_kind:
                self._remove_kind(kind, by_kind[kind])

    def _remove_kind(self, kind: str, lines: list[Line]) -> None:
        tx, scope_no = self._tx, self._scope_no
        things = [line["thing"] for line in lines]
        known, here = self._known(kind, things), synced.here(tx, kind, scope_no, things)
        rows, doomed = [], []
        for line in lines:
            thing, old = line["thing"], known.get(line["thing"])
            version, place = here.get(thing, (None, None))
            gone = 2 if line.get("forgotten") else 1
            is_sure = kind in ("message", "version", "artifact") or (gone > 1 and kind == "entry")
            if not is_sure and not self._wins(line, old, version):
                if old is not None and old.gone:
                    rows.append((thing, 0, max(old.gone, gone), max(old.stamp, line["stamp"])))
                continue
            before = (0, 0) if old is None else (old.gone, old.stamp)
            rows.append((thing, 0, max(gone, before[0]), max(line["stamp"], before[1])))
            if place is not None:
                doomed.append((place, gone > 1))
        synced.put(tx, kind, scope_no, rows)
        if doomed:
            self._merge.counts[f"{kind}_removed"] += len(doomed)
            self._merge.has_forgotten |= any(forgotten for _, forgotten in doomed)
            getattr(self, f"_remove_{kind}")(doomed)

    def _remove_message(self, doomed: list[tuple[int, bool]]) -> None:
        rows: dict[tuple[int, bool], list[int]] = {}
        for place, forgotten in sorted(doomed):
            rows.setdefault((session_of(place), forgotten), []).append(seq_of(place))
        for (row, forgotten), seqs in rows.items():
            if forgotten:
                name = (sessions.identity(self._tx, row) or ("", ""))[0]
                message_records.forget(self._tx, row, seqs, dependents.digest_of(name))
                if summary_records.remove(self._tx, row):
                    summary_records.queue_session(self._tx, row)
            else:
                message_records.remove(self._tx, row, seqs)
            self._emptied[row] = self._emptied.get(row, False) or forgotten
            self._rearrange(row)

    def _rearrange(self, row: int) -> None:
        session = sessions.roots(self._tx, [row])[row] if is_branch(row) else row
        self._merge.drop_tree(session)
        self._arranged.add(session)

    def _remove_session(self, doomed: list[tuple[int, bool]]) -> None:
        for row, forgotten in doomed:
            session_records.undescribe(self._tx, row)
            self._emptied[row] = forgotten

    def _remove_branch(self, doomed: list[tuple[int, bool]]) -> None:
        self._remove_session(doomed)

    def _remove_entry(self, doomed: list[tuple[int, bool]]) -> None:
        for entry_id, forgotten in doomed:
            row = entries.row(self._tx, entry_id)
            if row["key"] is not None:
                self._keys.add((row["key"], row["session_only"], row["session_id"]))
            if forgotten:
                entry_records.forget(self._tx, self._scope_no, entry_id)
            else:
                entry_records.remove(self._tx, entry_id)

    def _remove_version(self, doomed: list[tuple[str, bool]]) -> None:
        for place, _ in doomed:
            entry_records.remove_version(self._tx, *json.loads(place))

    def _remove_artifact(self, doomed: list[tuple[str, bool]]) -> None:
        for text, forgotten in doomed:
            session_no, name, version = json.loads(text)
            place = Place(self._scope_no, session_no, name)
            remove = artifact_records.forget_version if forgotten else artifact_records.remove
            remove(self._tx, place, version)
            if session_no:
                self._emptied.setdefault(session_id(self._scope_no, session_no), False)

    def _remove_item(self, doomed: list[tuple[int, bool]]) -> None:
        for item_id, forgotten in doomed:
            for stored in items.get_many(self._tx, [item_id]).values():
                (item_records.forget if forgotten else item_records.remove)(self._tx, stored)

    def _remove_state(self, doomed: list[tuple[str, bool]]) -> None:
        for text, _ in doomed:
            app, user, session, key = json.loads(text)
            state_records.remove(self._tx, (app, user, session), key)

    # What is new or changed.

    def _each(self, kind: str, lines: list[Line], write: Callable[[Line], None]) -> None:
        for line in lines:
            try:
                with self._merge.services.db.write():  # all of a line, or nothing
                    write(line)
            except REFUSALS as error:
                self._merge.refuse(kind, error)

    def write_session(self, lines: list[Line]) -> None:
        """Add sessions, and give those that are here the later title and metadata."""
        assert self._owner is not None
        tx, scope_no = self._tx, self._scope_no
        things = [synced.thing_of(line["name"]) for line in lines]
        known, here = self._known("session", things), synced.here(tx, "session", scope_no, things)
        target = self._merge.target(self._owner)

        def write(line: Line) -> None:
            stamp = line["stamp"]
            thing = synced.thing_of(line["name"])
            version, session = here.get(thing, (None, None))
            wins = self._wins(line, known.get(thing), version)
            fields = {name: value for name, value in line.items() if name not in ("kind", "stamp")}
            given = {**fields, "last_seq": 0}
            row = message_lines.read_session(target, Item("", "session", given))
            if session is None:
                if not wins:
                    return
                times = {name: row[name] for name in ("created_ms", "updated_ms")}
                said = {name: row[name] for name in ("title", "metadata")}
                session_records.restore(tx, scope_no, line["name"], row["uid"], {**times, **said})
                self._merge.counts["session_added"] += 1
            else:
                self._be_same(int(session), row)
                if not wins:
                    return
                _describe(tx, int(session), row["title"], row["metadata"])
            self._touch("session", thing, stamp)

        self._each("session", lines, write)

    def _be_same(self, session: int, row: Line) -> None:
        """Let a session that two devices made be one: the older one of both."""
        ((_, info),) = sessions.list_by_id(self._tx, session - 1, session, limit=1)
        uid, created_ms = min(info.uid, row["uid"]), min(info.created_ms, row["created_ms"])
        if (uid, created_ms) != (info.uid, info.created_ms):
            sessions.set_identity(self._tx, session, uid, created_ms)

    def _session(self, name: str) -> int:
        assert self._owner is not None
        return session_records.ensure(self._tx, self._owner, name, self._merge.services.db.ids)

    def write_branch(self, lines: list[Line]) -> None:
        """Add branches that somebody made."""
        tx, scope_no = self._tx, self._scope_no
        things = [synced.thing_of(line["session"], line["name"]) for line in lines]
        known, here = self._known("branch", things), synced.here(tx, "branch", scope_no, things)

        def write(line: Line) -> None:
            thing = synced.thing_of(line["session"], line["name"])
            version, row = here.get(thing, (None, None))
            if not self._wins(line, known.get(thing), version):
                return
            metadata = (
                None
                if line["metadata"] is None
                else json.dumps(line["metadata"], ensure_ascii=False)
            )
            if row is None:
                session = self._session(line["session"])
                tree = self._merge.tree(tx, session)
                above = next((one for one in line["after"] if one in tree.nodes), None)
                leaves_at = 0 if above is None else tree.nodes[above].seq
                parent = "" if above is None else str(tree.nodes[above].row)
                place = {"name": line["session"], "branch": line["name"], "uid": line["uid"]}
                columns = {"metadata": metadata, "created_ms": line["created_ms"]}
                branch_records.restore(
                    tx, scope_no, tree.rows[parent], {**place, "leaves_at": leaves_at}, columns
                )
                self._merge.drop_tree(session)
                self._merge.counts["branch_added"] += 1
            else:
                sessions.describe(tx, int(row), metadata)
            self._touch("branch", thing, line["stamp"])

        self._each("branch", lines, write)

    def write_message(self, lines: list[Line]) -> None:
        """Add messages where they belong, and change those that were edited."""
        groups: dict[str, list[Line]] = {}
        for line in lines:
            groups.setdefault(line["session"], []).append(line)
        for name, group in groups.items():
            self._write_messages(name, group)

    def _write_messages(self, name: str, lines: list[Line]) -> None:
        tx, merge = self._tx, self._merge
        assert self._owner is not None
        known = self._known("message", [synced.message_thing(line["uid"]) for line in lines])
        session = sessions.find(tx, self._scope_no, name)
        tree = None if session is None else merge.tree(tx, session)
        target = merge.target(self._owner)
        fresh: list[tuple[str, message_lines.MessageLine]] = []
        is_plain = True
        place = self._scope_no, name
        for line in lines:
            uid, thing = line["uid"], synced.message_thing(line["uid"])
            above = merge.above.get(place)
            if "after" in line:
                above = None if tree is None else tree.nearest(line["after"], line["seq"])
            merge.above[place] = (
                above  # what follows a line that is left out follows what it followed
            )
            old = known.get(thing)
            if old is not None and old.gone:
                continue
            if tree is not None and uid in tree.nodes:
                merge.above[place] = uid
                self._edit(tree, line, thing, old)
                continue
            fields = {
                key: one for key, one in line.items() if key not in ("kind", "stamp", "after")
            }
            branch = fields.pop("branch", None)
            target.last_seqs[name] = fields["seq"]
            try:
                read = message_lines.read_message(target, Item("", "message", fields))
            except REFUSALS as error:
                merge.refuse("message", error)
                continue
            if tree is None:
                session = self._session(name)
                tree = merge.tree(tx, session)
            home = branch if branch in tree.after else ""
            is_plain &= tree.add(uid, fields["seq"], above, home)
            merge.above[place] = uid
            fresh.append((uid, read))
            self._touch("message", thing, line.get("stamp", 0))
        if not fresh:
            return
        assert tree is not None
        assert session is not None
        if not is_plain:
            tree.arrange(tx)
        self._place(tree, fresh)
        merge.keep_tree(tx, session)

    def _place(self, tree: Tree, fresh: list[tuple[str, message_lines.MessageLine]]) -> None:
        """Store messages in the rows that their tree says."""
        tx, services = self._tx, self._merge.services
        by_row: dict[str, list[Any]] = {}
        for uid, line in fresh:
            by_row.setdefault(str(tree.nodes[uid].row), []).append(line)
        for name, lines in by_row.items():
            row = tree.rows[name]
            lines.sort(key=lambda line: int(line.seq))
            drafts = message_records.count_drafts([one.draft for one in lines], services.counting)
            seqs = [line.seq for line in lines]
            newest_ms = max(line.draft.created_ms or 0 for line in lines)
            updated_ms = max(sessions.updated_ms(tx, row), newest_ms)
            message_records.place(
                tx, row, drafts, services.db.ids, services.space, seqs, services.summarize_every
            )
            sessions.raise_seq(tx, row, max(seqs), updated_ms)
            self._versions |= synced.message_versions(tx, [row | seq for seq in seqs])
            self._merge.counts["message_added"] += len(lines)

    def _edit(self, tree: Tree, line: Line, thing: int, known: Known | None) -> None:
        """Let a message say what its device made of it later."""
        if known is None or line.get("stamp", 0) <= known.stamp:
            return
        assert self._owner is not None
        tx, node = self._tx, tree.nodes[line["uid"]]
        row = tree.rows[str(node.row)]
        fields = {
            key: one for key, one in line.items() if key not in ("kind", "stamp", "after", "branch")
        }
        target = self._merge.target(self._owner)
        target.last_seqs[line["session"]] = fields["seq"]
        try:
            read = message_lines.read_message(target, Item("", "message", fields))
        except REFUSALS as error:
            self._merge.refuse("message", error)
            return
        (draft,) = message_records.count_drafts([read.draft], self._merge.services.counting)
        services = self._merge.services
        message_records.remove(tx, row, [node.seq])
        message_records.place(tx, row, [draft], services.db.ids, services.space, [node.seq])
        self._versions |= synced.message_versions(tx, [row | node.seq])
        self._touch("message", thing, line["stamp"])

    def write_entry(self, lines: list[Line]) -> None:
        """Add entries; of two versions of one the later one stands, the other is history."""
        assert self._owner is not None
        tx, scope_no = self._tx, self._scope_no
        things = [synced.thing_of(line["uid"]) for line in lines]
        known, here = self._known("entry", things), synced.here(tx, "entry", scope_no, things)
        target = self._merge.target(self._owner)
        links: list[tuple[str, str | None]] = []

        def write(line: Line) -> None:
            thing = synced.thing_of(line["uid"])
            old = known.get(thing)
            version, entry_id = here.get(thing, (None, None))
            wins = self._wins(line, old, version)
            if old is not None and old.gone and (old.gone > 1 or not wins):
                return
            fields = {name: value for name, value in line.items() if name not in ("kind", "stamp")}
            row = entry_lines.read_entry(target, Item("", "entry", fields)).fields
            successor = row.pop("superseded_by")
            row.pop("rejected")
            row = _placed(tx, scope_no, row)
            versions = [_placed(tx, scope_no, one) for one in row.pop("history")]
            is_open = row["active"] and row["key"] is not None and row["valid_to_ms"] is None
            if is_open:  # `settle` lets the last one stand
                row["active"] = 0
            if (is_open and entry_id is None) or (wins and entry_id is not None):
                synced.put(tx, "closed", scope_no, [(thing, 0, int(not is_open), 0)])
            if entry_id is None:
                row["superseded_by"] = None
                ids = self._merge.services.db.ids
                entry_id = entry_writer.restore(tx, scope_no, row, [], ids)
                self._unite(entry_id, row["uid"], versions, None)
                self._merge.counts["entry_added"] += 1
            else:
                entry_id = int(entry_id)
                self._unite(entry_id, row["uid"], versions, row if wins else None, other=row)
                self._merge.counts["entry_changed"] += wins
            if row["key"] is not None:
                self._keys.add((row["key"], row["session_only"], row["session_id"]))
            if wins or version is None:
                self._touch("entry", thing, line["stamp"])
                links.append((row["uid"], successor))
            else:
                self._touch("entry", thing, self._stamp_here(old, version))

        self._each("entry", lines, write)
        for uid, successor in links:
            span = scope_range(scope_no)
            found = entries.find_uids(tx, *span, [one for one in (uid, successor) if one])
            if uid in found:
                entries.link(tx, found[uid], found.get(successor or ""))

    def _stamp_here(self, known: Known | None, version: int | None) -> int:
        if known is None or version != known.version:
            return self._merge.stamp(0, self._tx.now_ms)
        return known.stamp

    def _unite(
        self,
        entry_id: int,
        uid: str,
        versions: list[Line],
        winner: Line | None,
        other: Line | None = None,
    ) -> None:
        """
        Give an entry all old versions that two devices know, in the order they were stored.

        Args:
            winner: The row that is later than what stands here; None: what stands here is.
            other: The row that came, which is history unless it is the later one.
        """
        tx = self._tx
        now = entries.row(tx, entry_id)
        now["stored_ms"] = existing(entries.find(tx, entry_id), "entries").stored_ms
        every = [*entry_history.rows(tx, entry_id), *versions]
        if winner is not None:
            every.append({**now, "reason": "update", "replaced_ms": 0})
            columns = {
                name: winner[name]
                for name in entries.SET_FIELDS
                if name in winner and name not in ("bigrams", "spans", "superseded_by")
            }
            entry_writer.update(tx, entry_id, "update", **{**columns, "superseded_by": None})
            now = winner
        elif other is not None:
            every.append({**other, "reason": "update", "replaced_ms": 0})
        gone = self._known("version", {_said(uid, one) for one in every})
        kept: dict[int, Line] = {}
        for one in ({**version, "active": 1} for version in every):
            thing = _said(uid, one)
            if thing != _said(uid, now) and not (thing in gone and gone[thing].gone):
                kept[thing] = min(kept.get(thing, one), one, key=_rank)
        ordered = sorted(kept, key=lambda thing: (kept[thing]["stored_ms"], thing))
        entry_writer.unite(tx, entry_id, [kept[thing] for thing in ordered], now["stored_ms"])
        for thing in kept:
            self._touch("version", thing, 0)

    def write_artifact(self, lines: list[Line]) -> None:
        """Add versions of artifacts, which `finish` brings into their order."""
        assert self._owner is not None
        tx = self._tx
        things = [synced.thing_of(line["uid"]) for line in lines if line["kind"] == "artifact"]
        known = self._known("artifact", things)
        target = self._merge.target(self._owner)

        def write(line: Line) -> None:
            fields = {name: value for name, value in line.items() if name not in ("kind", "stamp")}
            if line["kind"] == "artifact_part":
                artifact_lines.read_part(target, Item("", "artifact_part", fields))
                return
            item = artifact_lines.read_artifact(target, Item("", "artifact", fields))
            thing = synced.thing_of(line["uid"])
            if thing in known and known[thing].gone:
                return
            artifact_lines.write_artifacts(target, tx, [item])
            self._places.add(target.place_of(tx, item.fields["session"], item.fields["name"]))
            self._touch("artifact", thing, line["stamp"])

        self._each("artifact", lines, write)
        self._merge.counts["artifact_added"] += target.added["artifacts_added"]

    def write_item(self, lines: list[Line]) -> None:
        """Put items, of two values of one key the later one."""
        assert self._owner is not None
        tx, scope_no = self._tx, self._scope_no
        things = {
            synced.thing_of(path_of(tuple(one["namespace"])), one["key"]): one for one in lines
        }
        known, here = self._known("item", things), synced.here(tx, "item", scope_no, things)
        target = self._merge.target(self._owner)

        def write(line: Line) -> None:
            thing = synced.thing_of(path_of(tuple(line["namespace"])), line["key"])
            version, item_id = here.get(thing, (None, None))
            if not self._wins(line, known.get(thing), version):
                return
            fields = {name: value for name, value in line.items() if name not in ("kind", "stamp")}
            read = others.read_item(target, Item("", "item", fields))
            if item_id is not None:
                self._remove_item([(int(item_id), False)])
            others.write_items(target, tx, [read])
            self._merge.counts["item_changed"] += 1
            self._touch("item", thing, line["stamp"])

        self._each("item", lines, write)

    def write_state(self, lines: list[Line]) -> None:
        """Put values of state, of two under one key the later one."""
        assert self._owner is not None
        tx = self._tx
        names = [(one["app"], one["user"], one.get("session") or "", one["key"]) for one in lines]
        things = [synced.thing_of(*name) for name in names]
        known, here = self._known("state", things), synced.here(tx, "state", 0, things)
        target = self._merge.target(self._owner)

        def write(line: Line) -> None:
            place = line["app"], line["user"], line.get("session") or ""
            thing = synced.thing_of(*place, line["key"])
            version, _ = here.get(thing, (None, None))
            if not self._wins(line, known.get(thing), version):
                return
            fields = {
                name: value
                for name, value in line.items()
                if name not in ("kind", "stamp", "app", "user")
                and (value is not None or name == "value")
            }
            if not line["user"]:
                fields["user"] = ""
            row = others.read_state(target, Item("", "state", fields))
            if version is not None:
                state_records.remove(tx, place, line["key"])
            others.write_state(target, tx, [row])
            self._merge.counts["state_changed"] += 1
            self._touch("state", thing, line["stamp"])

        self._each("state", lines, write)

    # What follows from all of it.

    def finish(self) -> None:
        """Bring rows, keys and numbers into the order that every device comes to."""
        tx, scope_no = self._tx, self._scope_no
        for session in sorted(self._arranged):
            if sessions.identity(tx, session) is not None:
                tree = self._merge.tree(tx, session)
                tree.arrange(tx)
                self._merge.drop_tree(session)
        for place in self._places:
            self._renumber(place)
        for row in sorted(self._emptied, reverse=True):
            self._drop_empty(row, is_forgotten=self._emptied[row])
        for kind, stamps in self._touched.items():
            if kind == "message":
                versions = {thing: self._versions[thing] for thing in stamps}
            else:
                here = synced.here(tx, kind, scope_no, stamps)
                versions = {thing: version for thing, (version, _) in here.items()}
            rows = [(thing, versions[thing], 0, stamps[thing]) for thing in versions]
            synced.put(tx, kind, scope_no, rows)
        self.settle(self._keys)

    def _renumber(self, place: Place) -> None:
        """Number the versions of an artifact by what their devices called them, then by uid."""
        found = artifacts.versions(self._tx, place)
        things = {synced.thing_of(one.info.uid): one.info for one in found}
        known = self._known("artifact", things)
        known_now = self._touched.get("artifact", {})
        first = {
            info.uid: known_now.get(thing)
            or (known[thing].stamp if thing in known else info.version)
            for thing, info in things.items()
        }
        numbers: dict[str, int] = {}
        number = 0
        for uid in sorted(first, key=lambda one: (first[one], one)):
            number = numbers[uid] = max(number + 1, first[uid])
        if any(numbers[info.uid] != info.version for info in things.values()):
            artifact_records.renumber(self._tx, place, numbers)

    def _drop_empty(self, row: int, *, is_forgotten: bool) -> None:
        """Remove a session or branch that another device removed, if nothing is left in it."""
        tx = self._tx
        known = sessions.identity(tx, row)
        if known is None or self._owner is None:
            return
        name, branch = known[0], sessions.branch_names(tx, [row]).get(row, "")
        thing = synced.thing_of(name, branch) if branch else synced.thing_of(name)
        agreed = self._known("branch" if branch else "session", [thing]).get(thing)
        if agreed is None or not agreed.gone or descendants(tx, row):
            return
        if sessions.totals(tx, *session_range(row))[1] or entries.session_only(tx, row):
            return
        if not branch and self._holds_other(row, name):
            return
        full = BranchName(name, branch) if branch else name
        (session_records.forget if is_forgotten else session_records.remove)(tx, self._owner, full)

    def _holds_other(self, session: int, name: str) -> bool:
        """Say whether a session has artifacts or state."""
        assert self._owner is not None
        places = artifact_records.list_places(self._tx, self._scope_no, session_no_of(session))
        return any(artifacts.find(self._tx, place) is not None for place in places) or bool(
            state.values(self._tx, (self._owner.app, self._owner.user, name))
        )

    def settle(self, keys: set[tuple[str, int, int | None]]) -> None:
        """Let the last entry of each key stand, and the others be superseded by it."""
        tx, scope_no = self._tx, self._scope_no
        shut = synced.closed(tx, scope_no) if keys else set()
        for key in keys:
            found = synced.rivals(tx, scope_no, key, shut)
            if not found:
                continue
            known = self._known("entry", [row[2] for row in found])
            rank = {
                row[0]: (known[row[2]].stamp if row[2] in known else row[5] << 20, row[1])
                for row in found
            }
            last = max(rank, key=rank.__getitem__)
            agreed = [row[2] for row in found if row[2] in known]
            for entry_id, _, thing, active, before, _ in sorted(
                found, key=lambda row: row[0] == last
            ):
                stands = entry_id == last
                successor = None if stands else last
                if (active, before) != (int(stands), successor):
                    entry = existing(entries.find(tx, entry_id), "entries")
                    entry_writer.set_successor(tx, entry, successor)
                if (thing in shut) == stands:
                    synced.put(tx, "closed", scope_no, [(thing, 0, int(stands), 0)])
            now = synced.here(tx, "entry", scope_no, agreed)
            rows = [
                (one, now[one][0], 0, known[one].stamp)
                for one in now
                if now[one][0] != known[one].version
            ]
            synced.put(tx, "entry", scope_no, rows)


def _describe(tx: Tx, session: int, title: str | None, metadata: str | None) -> None:
    if title is None:
        session_records.undescribe(tx, session)
    else:
        session_records.set_title(tx, session, title)
    sessions.describe(tx, session, metadata)


def _said(uid: str, row: Line) -> int:
    """Return the thing that a version of an entry is."""
    return synced.thing_of(uid, *(row[name] for name in synced.SAID))


def _rank(row: Line) -> tuple[Any, ...]:
    return row["replaced_ms"] == 0, row["replaced_ms"], row["reason"]


def _placed(tx: Tx, scope_no: int, line: Line) -> Line:
    """Return an entry or a version with the session of this file."""
    row = {**line, "session_id": None}
    if row["session"] is not None:
        found = sessions.find(tx, scope_no, row["session"], row["branch"] or "")
        row["session_id"] = sessions.find(tx, scope_no, row["session"]) if found is None else found
    if row["session_id"] is None:
        row["first_seq"] = row["last_seq"] = None
    del row["session"], row["branch"]
    return row
