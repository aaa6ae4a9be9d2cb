"""
Links between entries as they are read, confirmed and rejected: what is newer, and what is older.

`memdb.records.link_maker` guesses them. Nothing is retired by a link: reading puts the newer
one first. Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.models.ids import scope_range
from memdb.models.record import Record
from memdb.tables import entries, links

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.entries import Entry, Link

# A link is stored from this probability on: below it none is more likely than one.
LEAST = 0.5

# From this one on a list of what is current leaves the older entry out.
SURE_LINK = 0.8

# Links that are followed from an entry to the newest one.
MAX_STEPS = 100


def privacy_of(entry: Entry) -> tuple[str | None, str] | None:
    """Return the session and branch that alone recall an entry; None if all do."""
    return (entry.session, entry.branch or "") if entry.session_only else None


def reject(tx: Tx, newer_id: int, older_id: int) -> bool:
    """Note that a guess is wrong, so that it is never made again; False if there is none."""
    return links.reject(tx, newer_id, older_id)


def restore_rejected(tx: Tx, row: dict[str, Any]) -> None:
    """Store a rejected link as it was exported, in place of a guess."""
    links.put_rejected(tx, row)


def links_among(tx: Tx, scope_no: int, ids: Collection[int]) -> list[Link]:
    """
    Return every link with an end in *ids*, by older and newer id.

    The links are guessed, rejected and confirmed links; the other end may be an entry outside
    *ids*.
    Cost: 0.1 ms for 50 ids.
    """
    return links.list_about(tx, scope_range(scope_no), ids)


def repeats_among(
    tx: Tx, scope_no: int, ids: Collection[int], least: float
) -> list[tuple[int, int]]:
    """Return pairs of *ids*: a newer entry and the older one that it repeats, by the older id."""
    return links.list_repeats(tx, scope_range(scope_no), sorted(ids), least)


def find_newest(
    tx: Tx, scope_no: int, ids: Collection[int], at_ms: int, least: float
) -> dict[int, Link]:
    """
    Return, for each of the *ids* that are outdated, the link to the newest entry.

    Chains of links are followed to their end. The link's `newer_id` is the current entry, its kind
    that of the last link, and its probability the least on the way. An entry that is only repeated
    is not outdated. A newer entry that is no longer valid outdates nothing, unless it is a
    retraction.

    Args:
        at_ms: The time at which links and entries must be valid.
        least: The least probability of a link.
    """
    span = scope_range(scope_no)
    found: dict[int, Link] = {}
    ways: dict[int, list[Link]] = {}
    ahead = {*ids}
    for _ in range(MAX_STEPS):
        later = links.list_later(tx, span, sorted(ahead - ways.keys()), at_ms, least)
        if not later:
            break
        for link in later:
            ways.setdefault(link.older_id, []).append(link)
        ahead = {link.newer_id for link in later}
    newer = {link.newer_id for some in ways.values() for link in some}
    validity = entries.list_validity(tx, newer, at_ms)
    for entry_id in ids:
        best = _follow(entry_id, ways, validity)
        if best is not None:
            found[entry_id] = best.replace(older_id=entry_id)
    return found


def _follow(
    start: int, ways: Mapping[int, Sequence[Link]], validity: Mapping[int, tuple[int, bool]]
) -> Link | None:
    """
    Return the link from *start* to the newest entry that its links lead to, None if there is none.

    Args:
        validity: By id of a newer entry when it was made, and whether it holds.
    """
    best: tuple[tuple[int, int], Link, float] | None = None
    passed = {start}
    waiting = [(start, 1.0)]
    while waiting:
        place, certainty = waiting.pop()
        for link in ways.get(place, ()):
            if link.newer_id in passed:
                continue
            passed.add(link.newer_id)
            least = min(certainty, link.probability)
            waiting.append((link.newer_id, least))
            created_ms, holds = validity[link.newer_id]
            said = created_ms, link.newer_id
            if (holds or link.kind == "retracts") and (best is None or said > best[0]):
                best = said, link, least
    return None if best is None else best[1].replace(probability=best[2])


class Folded(Record):
    """
    Ids of entries of a scope; a newer one may replace an older one.

    Attributes:
        before: By the id of an entry, the one that it replaces.
    """

    ids: list[int]
    before: dict[int, Entry]


def fold(tx: Tx, scope_no: int, ids: Sequence[int], at_ms: int) -> Folded:
    """
    Return ids of entries, each newest one in place of the entry that it surely outdates.

    Such an entry replaces one entry, the last before it. A list that shows the one also shows the
    other, so a wrong guess loses nothing. Other outdated entries stay. Retracted entries are left
    out, and the older one of two that repeat each other.
    """
    newest = find_newest(tx, scope_no, ids, at_ms, SURE_LINK)
    newer_ids = {link.newer_id for link in newest.values()}
    linked = entries.get_many(tx, newer_ids | newest.keys())
    left_out = {older for _, older in repeats_among(tx, scope_no, {*ids, *newer_ids}, SURE_LINK)}
    before: dict[int, Entry] = {}
    for old in [linked[one] for one in ids if one in newest]:
        stands = linked[newest[old.id].newer_id]
        if not stands.holds(at_ms):
            left_out.add(old.id)
        elif stands.id not in before or _said(before[stands.id]) < _said(old):
            before[stands.id] = old
    standing = {old.id: newest_id for newest_id, old in before.items()}
    kept = dict.fromkeys(standing.get(one, one) for one in ids if one not in left_out)
    return Folded([*kept], before)


def _said(entry: Entry) -> tuple[int, int]:
    return entry.created_ms, entry.id
