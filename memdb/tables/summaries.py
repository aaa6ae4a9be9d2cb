"""
Nodes: the summaries of sessions. Owns the tables `summaries` and `summaries_fts`.

A branch has nodes of its own, which may begin before the branch leaves. Up to there the nodes of
its parent count, as far as they cover shared messages.

The leaves of a session follow each other without a gap. A node belongs to at most one node a level
up (`condensed_into`). The nodes that belong to none are the frontier. The frontier's nodes cover
every summarised message once, and get shallower towards the end of the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.branches import regions_of
from memdb.engine.columns import names_without
from memdb.errors import existing
from memdb.models.ids import (
    MAX_INT,
    MAX_SEQ,
    in_rows,
    is_branch,
    scope_of,
    scope_range,
    span_holds_any,
)
from memdb.models.summaries import Summary
from memdb.text.derived import content_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from memdb.engine.base import Row, Tx

INSERT_NODE = compose.insert(
    "summaries.insert", "summaries", ", ".join(names_without("summaries", "condensed_into"))
)

SELECT_COUNT = """/* summaries.count */
SELECT count(*) FROM summaries WHERE session_id = :session_id AND last_seq <= :last_seq
"""

UPDATE_CONDENSED = compose.update(
    "summaries.condense",
    "summaries",
    """
  session_id = :session_id
  AND depth = :source_depth
  AND first_seq BETWEEN :first_seq AND :last_seq
  AND condensed_into IS NULL
""",
    condensed_into=":id",
)

UPDATE_TEXT = compose.update(
    "summaries.improve",
    "summaries",
    "id = :id",
    "text, hint, quality, summarizer, trust, tokens, counter, content_hash, bigrams",
)

# The fields of a Summary in their order, each as its column.
_MADE = {
    "session": "sessions.name",
    "branch": "nullif(sessions.branch, '')",
}

SELECT_NODES = compose.select(
    "summaries.get_many",
    [_MADE.get(name, f"summaries.{name}") for name in Summary._fields],
    """
summaries
JOIN sessions ON sessions.id = summaries.session_id
""",
    "summaries.id IN (SELECT value FROM json_each(:ids))",
)

SELECT_SPAN = """/* summaries.find_span */
SELECT id FROM summaries
WHERE
  session_id = :session_id
  AND depth BETWEEN 0 AND 31
  AND first_seq = :first_seq
  AND last_seq = :last_seq
ORDER BY depth DESC
LIMIT 1
"""

SELECT_AT_DEPTH = """/* summaries.list */
SELECT id FROM summaries WHERE session_id = :session_id AND depth = :depth ORDER BY first_seq
"""

SELECT_FRONTIER = """/* summaries.frontier */
SELECT id, first_seq FROM summaries
WHERE
  session_id = :session_id
  AND depth = :depth
  AND first_seq <= :last_seq
  AND condensed_into IS NULL
ORDER BY first_seq DESC
LIMIT :limit
"""

SELECT_LOOSE = """/* summaries.loose */
SELECT id FROM summaries
WHERE session_id = :session_id AND depth = :depth AND condensed_into IS NULL
ORDER BY first_seq
LIMIT :limit
"""

SELECT_SOURCES = """/* summaries.sources */
SELECT id FROM summaries
WHERE condensed_into = :id AND first_seq > :after_seq
ORDER BY first_seq
LIMIT :limit
"""

SELECT_ALL_SOURCES = """/* summaries.list_sources */
SELECT id, condensed_into FROM summaries
WHERE condensed_into IN (SELECT value FROM json_each(:nodes)) AND id BETWEEN :low AND :high
ORDER BY condensed_into, first_seq
"""

# A leaf begins behind the one before it: the last to begin is the last to end.
_LEAF_SPAN = """
  (SELECT first_seq FROM summaries WHERE {leaf} ORDER BY first_seq LIMIT 1),
  (SELECT last_seq FROM summaries WHERE {leaf} ORDER BY first_seq DESC LIMIT 1)
"""

SELECT_LEAF_SPAN = compose.select(
    "summaries.leaf_span",
    _LEAF_SPAN.format(leaf="session_id = :session_id AND depth = 0 AND last_seq <= :last_seq"),
    "",
)

# Two seeks per row: a path may have hundreds.
SELECT_LEAF_ENDS = compose.select(
    "summaries.leaf_ends",
    f"id, last_seq, {_LEAF_SPAN.format(leaf='session_id = sessions.id AND depth = 0')}",
    "sessions",
    "id IN (SELECT value FROM json_each(:ids))",
)

SELECT_LEAF_STARTS = """/* summaries.leaf_starts */
SELECT first_seq FROM summaries
WHERE session_id = :session_id AND depth = 0 AND first_seq > :after_seq AND first_seq <= :last_seq
"""

SELECT_ABOVE = compose.select("summaries.above", "condensed_into", "summaries", "id = :id")

SELECT_SESSION = compose.select("summaries.session_of", "session_id", "summaries", "id = :id")

SELECT_PLACES = compose.select(
    "summaries.places",
    "session_id, first_seq",
    "summaries",
    "id IN (SELECT value FROM json_each(:ids))",
    order="id",
)

SELECT_BELOW = """/* summaries.below_quality */
SELECT id FROM summaries WHERE session_id = :session_id AND quality <> 'model' ORDER BY id
"""

SELECT_WITH_TEXT = """/* summaries.ids_with_text */
SELECT id FROM summaries
WHERE
  id BETWEEN :low AND :high
  AND text IS NOT NULL
  AND (CAST(:session_id AS BIGINT) IS NULL OR session_id = :session_id)
  AND last_seq <= :last_seq
"""

SELECT_BETWEEN = """/* summaries.between */
SELECT id FROM summaries WHERE session_id BETWEEN :low AND :high ORDER BY id
"""

# Of rows of one scope, which the ids say too: so a server reads one partition.
SELECT_OF = """/* summaries.of */
SELECT id, session_id, first_seq, last_seq, condensed_into
FROM summaries
WHERE session_id IN (SELECT value FROM json_each(:sessions)) AND id BETWEEN :low AND :high
ORDER BY session_id, depth, first_seq
"""

UPDATE_UNLINKED = compose.update(
    "summaries.unlink",
    "summaries",
    "id IN (SELECT value FROM json_each(:ids))",
    condensed_into="NULL",
)

DELETE_MANY = """/* summaries.delete */
DELETE FROM summaries WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_COUNT_BETWEEN = """/* summaries.count_between */
SELECT count(*) FROM summaries WHERE session_id BETWEEN :low AND :high
"""

SELECT_BARE = """/* summaries.bare */
SELECT session_id, min(first_seq)
FROM summaries
WHERE
  session_id IN (SELECT value FROM json_each(:sessions))
  AND id BETWEEN :low AND :high
  AND condensed_into IS NULL
  AND text IS NULL
GROUP BY session_id
"""

SELECT_PRUNABLE = """/* summaries.prunable */
SELECT id FROM summaries
WHERE
  session_id = :session_id
  AND condensed_into IS NOT NULL
  AND quality = 'extractive'
  AND text IS NOT NULL
ORDER BY id
LIMIT :limit
"""

UPDATE_PRUNED = compose.update(
    "summaries.prune", "summaries", "id = :id", text="NULL", bigrams="NULL"
)

MAX_DEPTH = 31

# Depths that trees of most sessions have.
USUAL_DEPTHS = 4
HASH_BYTES = 8

# What the hash of a node is made of, in this order; a new column that is NULL changes no hash.
HASHED = ("uid", "depth", "first_seq", "last_seq", "hint", "quality", "summarizer", "text")
WITH_HASH = ("id", *HASHED, "content_hash")

SELECT_HASHED = compose.select(
    "summaries.hashed", WITH_HASH, "summaries", "id > :after", order="id", limit="1000"
)


SELECT_PAGE = """/* summaries.page */
SELECT id FROM summaries WHERE id > :after AND id <= :high ORDER BY id LIMIT :limit
"""

SELECT_TEXTS = """/* summaries.texts */
SELECT id, text, hint FROM summaries WHERE session_id = :session ORDER BY id
"""


def _fetch(tx: Tx, found: list[Row]) -> list[Summary]:
    """Return the nodes whose ids are the first column of *found*, in that order."""
    if not found:
        return []
    ids = [row[0] for row in found]
    tx.verify("summaries", ids)
    rows = tx.all(SELECT_NODES, {"ids": ids})
    made = [Summary(*row) for row in rows]
    by_id = {node.id: node for node in made}
    return [by_id[one] for one in ids if one in by_id]


def _first(tx: Tx, found: list[Row]) -> Summary | None:
    """Return the node whose id comes first in *found*, None if there is none."""
    return next(iter(_fetch(tx, found)), None)


def node_uid(session_uid: str, depth: int, first_seq: int, last_seq: int) -> str:
    """
    Return the id of the node at a place: 16 hexadecimal digits.

    Seqs are never used twice, so the place determines the sources of the node. Every process that
    makes it computes the same id.
    """
    place = {"session": session_uid, "depth": depth, "first": first_seq, "last": last_seq}
    return content_hash(place, place).hex()[:16]


def add(tx: Tx, row: dict[str, Any]) -> None:
    """Add a node, with its words; *row* contains every column but hash and link by name."""
    tx.run(INSERT_NODE, row | {"content_hash": hash_of(row)})
    tx.words.add("summary", row["id"])


def condense(tx: Tx, row: dict[str, Any]) -> int:
    """Mark the nodes one level below *row*, in its span, as covered by it; return how many."""
    place = {name: row[name] for name in ("id", "session_id", "first_seq", "last_seq")}
    return tx.count_changed(UPDATE_CONDENSED, {**place, "source_depth": row["depth"] - 1})


def hash_of(row: Mapping[str, Any]) -> bytes:
    """Return the hash of a node by its columns `HASHED`; a pruned text is not checked."""
    return content_hash(row, HASHED)[:HASH_BYTES]


def improve(tx: Tx, *changed: tuple[Summary, dict[str, Any]]) -> None:
    """Replace the texts of nodes, and what goes with these, by better ones."""
    rows = []
    for node, columns in changed:
        place = {"depth": node.depth, "first_seq": node.first_seq, "last_seq": node.last_seq}
        row = {**columns, **place, "id": node.id, "uid": node.uid}
        rows.append(row | {"content_hash": hash_of(row)})
    ids = [node.id for node, _ in changed]
    tx.words.drop_each("summary", ids)
    tx.many(UPDATE_TEXT, rows)
    tx.words.add_each("summary", ids)


def reaches(tx: Tx, session: int) -> list[tuple[int, int]]:
    """
    Return the rows whose nodes count for a session, the newest first.

    Returns:
        (row id, the last seq that a node of it may cover) of the session itself. For a branch also
        of its parents that have nodes, each up to where the nodes of the one before begin.

    Cost: 2 statements for a branch, and one for each row on its way that has nodes.
    """
    return [(row, end) for row, end, _ in _reaches(tx, session)]


def _reaches(tx: Tx, session: int) -> list[tuple[int, int, tuple[int, int] | None]]:
    """Return what `reaches` does, each with the first and last seq of its leaves."""
    if not is_branch(session):
        return [(session, MAX_SEQ, _leaf_span(tx, session, MAX_SEQ))]
    found = []
    end = MAX_SEQ
    regions = regions_of(tx, session)
    leaves = leaf_ends(tx, [region.session for region in regions])
    for region in reversed(regions):
        row, end = region.session, min(end, region.last_seq)
        _, first, last = leaves[row]
        if first is not None and last is not None:
            span = (first, last) if last <= end else _leaf_span(tx, row, end)
            found.append((row, end, span))
            end = end if span is None else span[0] - 1
    return found


def leaf_ends(tx: Tx, sessions: list[int]) -> dict[int, tuple[int, int | None, int | None]]:
    """Return by row its last seq, and the first and last of its leaves, or None."""
    rows = tx.all(SELECT_LEAF_ENDS, {"ids": sessions})
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def last_leaf(tx: Tx, session: int, last_seq: int) -> int | None:
    """Return the last seq of the leaves of a row that end up to *last_seq*, None without any."""
    span = _leaf_span(tx, session, last_seq)
    return None if span is None else span[1]


def find(tx: Tx, session: int, row_id: int) -> Summary | None:
    """Return the node with packed id *row_id* if it counts for a session, else None."""
    found = find_by_id(tx, row_id)
    own = None if found is None else session_of(tx, row_id)
    if found is not None and any(
        own == row and found.last_seq <= end for row, end in reaches(tx, session)
    ):
        return found
    return None


def find_span(tx: Tx, session: int, first_seq: int, last_seq: int) -> Summary | None:
    """Return the deepest node that covers exactly this span, None if there is none."""
    for row, end in reaches(tx, session):
        values = {"session_id": row, "first_seq": first_seq, "last_seq": last_seq}
        found = _first(tx, tx.all(SELECT_SPAN, values)) if last_seq <= end else None
        if found is not None:
            return found
    return None


def find_by_id(tx: Tx, row_id: int) -> Summary | None:
    """Return the node with packed id *row_id*, None if it is gone."""
    return _first(tx, [(row_id,)])


def list_depth(tx: Tx, session: int, depth: int) -> list[Summary]:
    """Return all nodes of one depth, oldest first; of a branch its own."""
    return _fetch(tx, tx.all(SELECT_AT_DEPTH, {"session_id": session, "depth": depth}))


def list_shared_depth(tx: Tx, session: int, depth: int) -> list[Summary]:
    """Return all nodes of one depth that count for a session or branch, oldest first."""
    found: list[Summary] = []
    for row, end in reversed(reaches(tx, session)):
        found += [node for node in list_depth(tx, row, depth) if node.last_seq <= end]
    return found


def frontier(tx: Tx, session: int, last_seq: int, limit: int) -> list[tuple[Summary, int]]:
    """
    Return up to *limit* nodes that no other covers and that begin up to *last_seq*.

    Newest first. Together with the messages after the last leaf they cover each seq once.

    Returns:
        (node, the last seq that counts of it), *last_seq* but for nodes that a branch shares.
    """
    found: list[tuple[Summary, int]] = []
    for row, end, _ in _reaches(tx, session):
        if len(found) >= limit:
            break
        stop = min(end, last_seq)
        found += [(node, stop) for node in _frontier(tx, row, stop, limit - len(found))]
    return found


def _frontier(tx: Tx, session: int, last_seq: int, limit: int) -> list[Summary]:
    """Return what `frontier` does, of one row."""
    span = _leaf_span(tx, session, MAX_SEQ)
    if span is None:
        return []
    values = {"session_id": session, "last_seq": last_seq, "limit": limit}
    depths = [{**values, "depth": depth} for depth in range(MAX_DEPTH + 1)]
    for one in depths[:USUAL_DEPTHS]:
        tx.expect(SELECT_FRONTIER, one)
    found: list[Row] = []
    for one in depths:
        found += tx.all(SELECT_FRONTIER, one)[: limit - len(found)]
        if len(found) >= limit or (found and found[-1][1] <= span[0]):
            break
    return _fetch(tx, found)


def list_sources(tx: Tx, ids: Collection[int]) -> dict[int, list[Summary]]:
    """Return the nodes that some nodes of a scope were made from, oldest first, by these."""
    if not ids:
        return {}
    low, high = scope_range(scope_of(min(ids)))
    rows = tx.all(SELECT_ALL_SOURCES, {"nodes": ids, "low": low, "high": high})
    return _by(dict(rows), _fetch(tx, rows))


def _by(owners: Mapping[int, int], nodes: Iterable[Summary]) -> dict[int, list[Summary]]:
    """Return *nodes*, in order, by their owner."""
    found: dict[int, list[Summary]] = {}
    for node in nodes:
        found.setdefault(owners[node.id], []).append(node)
    return found


def sources(tx: Tx, node: Summary, after_seq: int = 0, limit: int = MAX_INT) -> list[Summary]:
    """Return the nodes that *node* was made from, oldest first; [] for a leaf."""
    values = {"id": node.id, "after_seq": after_seq, "limit": limit}
    return _fetch(tx, tx.all(SELECT_SOURCES, values))


def loose(tx: Tx, session: int, depth: int, limit: int, least: int = 1) -> list[Summary]:
    """Return the oldest nodes of a depth that no other covers, [] if fewer than *least*."""
    values = {"session_id": session, "depth": depth, "limit": limit}
    found = tx.all(SELECT_LOOSE, values)
    return _fetch(tx, found) if len(found) >= least else []


def expect_loose(tx: Tx, session: int, depths: int, limit: int) -> None:
    """Prefetch what `leaf_span` and `loose` read of some depths."""
    tx.expect(SELECT_LEAF_SPAN, {"session_id": session, "last_seq": MAX_SEQ})
    for depth in range(depths):
        tx.expect(SELECT_LOOSE, {"session_id": session, "depth": depth, "limit": limit})


def leaf_span(tx: Tx, session: int) -> tuple[int, int] | None:
    """Return the first and the last seq that leaves cover, None without leaves."""
    some = [span for _, _, span in _reaches(tx, session) if span is not None]
    return (some[-1][0], some[0][1]) if some else None


def _leaf_span(tx: Tx, session: int, last_seq: int) -> tuple[int, int] | None:
    """Return what `leaf_span` does, of the leaves of one row that end up to *last_seq*."""
    row = tx.one(SELECT_LEAF_SPAN, {"session_id": session, "last_seq": last_seq})
    return None if row is None or row[0] is None else (row[0], row[1])


def leaf_starts(tx: Tx, session: int, after_seq: int) -> set[int]:
    """Return the first seq of each leaf that begins after *after_seq*."""
    found: set[int] = set()
    for row, end in reaches(tx, session):
        values = {"session_id": row, "after_seq": after_seq, "last_seq": end}
        found.update(one[0] for one in tx.all(SELECT_LEAF_STARTS, values))
    return found


def above(tx: Tx, row_id: int) -> int | None:
    """Return the packed id of the node that covers this one, None if none does."""
    return tx.find_number(SELECT_ABOVE, {"id": row_id})


def session_of(tx: Tx, row_id: int) -> int:
    """Return the session of an existing node."""
    return existing(tx.find_number(SELECT_SESSION, {"id": row_id}), "summaries")


def places(tx: Tx, ids: Collection[int]) -> list[tuple[int, int]]:
    """Return the session and the first seq of the nodes with these *ids*, by id."""
    return [(row[0], row[1]) for row in tx.all(SELECT_PLACES, {"ids": ids})]


def improvable(tx: Tx, session: int) -> list[int]:
    """Return the packed ids of the nodes that no model made, sources before those made of them."""
    return [row[0] for row in tx.all(SELECT_BELOW, {"session_id": session})]


def ids_with_text(tx: Tx, low: int, high: int, session: int | None) -> set[int]:
    """Return the ids in [low, high] of summaries with a text, in *session* if one is given."""
    rows = [(None, MAX_SEQ)] if session is None else reaches(tx, session)
    found: set[int] = set()
    for row, end in rows:
        values = {"low": low, "high": high, "session_id": row, "last_seq": end}
        found.update(one[0] for one in tx.all(SELECT_WITH_TEXT, values))
    return found


def get_many(tx: Tx, ids: Iterable[int]) -> list[Summary]:
    """Return the summaries with these packed ids, in that order, without those that are gone."""
    return _fetch(tx, [(row_id,) for row_id in ids])


def list_page(tx: Tx, after: int, high: int, limit: int) -> list[Summary]:
    """Return up to *limit* summaries of any session with *after* < id <= *high*, by id."""
    return _fetch(tx, tx.all(SELECT_PAGE, {"after": after, "high": high, "limit": limit}))


def prune(tx: Tx, session: int, limit: int) -> int:
    """
    Drop the text of up to *limit* nodes that can be made again; how many that were.

    Those are the extractive ones that another node covers. Their rows stay.
    """
    found = tx.all(SELECT_PRUNABLE, {"session_id": session, "limit": limit})
    for (row_id,) in found:
        tx.words.drop("summary", row_id)
        tx.run(UPDATE_PRUNED, {"id": row_id})
        tx.words.add("summary", row_id)
    return len(found)


def count(tx: Tx, session: int) -> int:
    """Return how many summaries a session has."""
    found = 0
    for row_id, end in reaches(tx, session):
        found += tx.read_number(SELECT_COUNT, {"session_id": row_id, "last_seq": end})
    return found


def ids_between(tx: Tx, low: int, high: int) -> list[int]:
    """Return the ids of the nodes of the rows in an id range."""
    return [row_id for (row_id,) in tx.all(SELECT_BETWEEN, {"low": low, "high": high})]


def delete(tx: Tx, ids: Collection[int]) -> None:
    """Remove nodes with their words; none that stays is covered by one of them."""
    tx.words.drop_each("summary", ids)
    tx.run(DELETE_MANY, {"ids": ids})


def delete_from(tx: Tx, places: Mapping[int, int]) -> dict[int, list[int]]:
    """
    Remove the nodes of rows of a scope that cover a seq or later, with their words.

    Args:
        places: The seq of each row; 0 means all nodes of it.

    Returns:
        The ids of the removed nodes by row, without rows that had none.
    """
    rows = _list_of(tx, places)
    going = {node: session for node, session, _, last, _ in rows if last >= places[session]}
    found: dict[int, list[int]] = {}
    for node, session in going.items():
        found.setdefault(session, []).append(node)
    if going:
        loose = [node for node, *_, into in rows if into in going and node not in going]
        if loose:
            tx.run(UPDATE_UNLINKED, {"ids": loose})
        delete(tx, [*going])
    return found


def _list_of(tx: Tx, sessions: Collection[int]) -> list[Row]:
    """Return the nodes of rows of a scope, of each row those of lower depth first."""
    return tx.all(SELECT_OF, in_rows(sessions)) if sessions else []


def first_bare(tx: Tx, sessions: Collection[int]) -> dict[int, int]:
    """Return by row of a scope where a pruned node begins that no other covers any more."""
    return dict(tx.all(SELECT_BARE, in_rows(sessions))) if sessions else {}


def list_over(tx: Tx, seqs: Mapping[int, Collection[int]]) -> dict[int, list[Summary]]:
    """
    Return the nodes of rows that cover some of their *seqs*, those of lower depth first.

    Returns:
        The nodes by row, without rows that have none. All rows are of one scope.
    """
    rising = {session: sorted(some) for session, some in seqs.items() if some}
    rows = [row for row in _list_of(tx, rising) if span_holds_any(row[2], row[3], rising[row[1]])]
    return _by({row[0]: row[1] for row in rows}, _fetch(tx, rows))


def count_between(tx: Tx, low: int, high: int) -> int:
    """Return how many nodes the rows in an id range have."""
    return tx.read_number(SELECT_COUNT_BETWEEN, {"low": low, "high": high})


def texts(tx: Tx, session: int) -> list[Row]:
    """Return (id, text, hint) of every node of a session."""
    return tx.all(SELECT_TEXTS, {"session": session})


def hashed(tx: Tx) -> Iterator[dict[str, Any]]:
    """Yield the id of each summary, what its hash covers, and the hash, by name."""
    for rows in tx.pages(SELECT_HASHED, {"after": 0}):
        yield from (dict(zip(WITH_HASH, row, strict=True)) for row in rows)
