"""
Links between entries: the effect of a newer one on an older one. Owns the table `entry_links`.

A row is a model's guess, or a guess that somebody rejected, which is never made again. Certain
links are in `entries.superseded_by`; readers of links get both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.columns import names_of
from memdb.models.entries import LINK_KINDS, Link

if TYPE_CHECKING:
    from collections.abc import Collection

    from memdb.engine.base import Row, Tx

INSERT_LINK = compose.insert("links.insert", "entry_links", otherwise=compose.NOTHING)

# The fields of a Link in their order: of a row, and of an entry that another superseded.
_GUESSED = """
  newer_id, older_id, kind, probability, reason, model, made_ms,
  CASE WHEN rejected_ms IS NULL THEN 'guessed' ELSE 'rejected' END AS decided
"""
_CERTAIN = """
  superseded_by, id, 'updates', 1.0, '', '', stored_ms, 'confirmed'
"""
_IN = "IN (SELECT value FROM json_each(:ids))"

# Both ends of a link are of one scope.
SELECT_ABOUT = f"""/* links.about */
SELECT {_GUESSED}
FROM entry_links
WHERE newer_id BETWEEN :low AND :high AND older_id {_IN}
UNION
SELECT {_GUESSED}
FROM entry_links
WHERE newer_id BETWEEN :low AND :high AND newer_id {_IN}
UNION
SELECT {_CERTAIN}
FROM entries
WHERE id BETWEEN :low AND :high AND superseded_by IS NOT NULL AND id {_IN}
UNION
SELECT {_CERTAIN}
FROM entries
WHERE id BETWEEN :low AND :high AND superseded_by {_IN}
ORDER BY 2, 1
"""

SELECT_LATER = f"""/* links.later */
SELECT {_GUESSED}
FROM entry_links
WHERE
  newer_id BETWEEN :low AND :high
  AND older_id {_IN}
  AND kind <> 'repeats'
  AND probability >= :least
  AND rejected_ms IS NULL
  AND made_ms <= :at_ms
UNION ALL
SELECT {_CERTAIN}
FROM entries
WHERE
  id BETWEEN :low AND :high AND superseded_by IS NOT NULL AND stored_ms <= :at_ms AND id {_IN}
ORDER BY 2, 1
"""

SELECT_REPEATS = compose.select(
    "links.repeats",
    "newer_id, older_id",
    "entry_links",
    f"newer_id BETWEEN :low AND :high AND newer_id {_IN}"
    " AND kind = 'repeats' AND probability >= :least AND rejected_ms IS NULL",
    order="older_id, newer_id",
)

DELETE_TO_OLDER = compose.delete(
    "links.delete_to_older", "entry_links", "newer_id = :id AND rejected_ms IS NULL"
)

DELETE_TO_NEWER = compose.delete(
    "links.delete_to_newer",
    "entry_links",
    "newer_id BETWEEN :low AND :high AND older_id = :id AND rejected_ms IS NULL",
)

UPDATE_REJECTED = compose.update(
    "links.reject",
    "entry_links",
    "newer_id = :newer_id AND older_id = :older_id AND rejected_ms IS NULL",
    rejected_ms=":now_ms",
)

PUT_REJECTED = compose.insert(
    "links.put_rejected",
    "entry_links",
    otherwise=compose.conflict(
        "newer_id, older_id", "kind, probability, reason, model, made_ms, rejected_ms"
    ),
)

SELECT_REJECTED = compose.select(
    "links.rejected",
    names_of("entry_links"),
    "entry_links",
    f"newer_id {_IN} AND rejected_ms IS NOT NULL",
    order="newer_id, older_id",
)

_LACKS = "NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = {})"
_KINDS = ", ".join(f"'{kind}'" for kind in LINK_KINDS)
_BROKEN = f"""
  kind NOT IN ({_KINDS})
  OR probability NOT BETWEEN 0 AND 1
  OR model = ''
  OR newer_id = older_id
  OR newer_id >> 44 <> older_id >> 44
  OR {_LACKS.format("newer_id")}
  OR {_LACKS.format("older_id")}
"""

# No index: only `check` and `rebuild` read the whole table.
SELECT_BROKEN = compose.select(
    "links.broken",
    "newer_id, older_id, kind, probability",
    "entry_links",
    _BROKEN,
    order="newer_id, older_id",
)

SELECT_STALE = compose.select(
    "links.stale",
    "newer_id, older_id, kind, probability",
    "entry_links",
    "model <> :model AND rejected_ms IS NULL",
    order="newer_id, older_id",
)

DELETE_LINK = compose.delete(
    "links.delete", "entry_links", "newer_id = :newer_id AND older_id = :older_id"
)


def add(tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Add links; an existing one, above all a rejected one, stays unchanged."""
    if rows:
        tx.many(INSERT_LINK, rows)


def list_about(tx: Tx, span: tuple[int, int], ids: Collection[int]) -> list[Link]:
    """Return the links with an end in *ids*, entries of one range, by older id."""
    values = {"low": span[0], "high": span[1], "ids": ids}
    return [Link(*row) for row in tx.all(SELECT_ABOUT, values)] if ids else []


def list_later(
    tx: Tx, span: tuple[int, int], ids: Collection[int], at_ms: int, least: float
) -> list[Link]:
    """
    Return the links to entries that outdate *ids* and existed at a time, by older id.

    Args:
        least: The least probability of a guess.
    """
    values = {"low": span[0], "high": span[1], "ids": ids, "at_ms": at_ms, "least": least}
    return [Link(*row) for row in tx.all(SELECT_LATER, values)] if ids else []


def list_repeats(
    tx: Tx, span: tuple[int, int], ids: Collection[int], least: float
) -> list[tuple[int, int]]:
    """Return the newer and the older id of each guess that one of *ids* repeats another."""
    wanted = {*ids}  # with both ends in SQL each pair of ids is sought
    values = {"low": span[0], "high": span[1], "ids": ids, "least": least}
    found = tx.all(SELECT_REPEATS, values) if len(ids) > 1 else []
    return [(newer, older) for newer, older in found if older in wanted]


def delete_guesses(tx: Tx, span: tuple[int, int], entry_id: int) -> None:
    """Remove the guesses about an entry; rejected ones stay."""
    tx.run(DELETE_TO_OLDER, {"id": entry_id})
    tx.run(DELETE_TO_NEWER, {"low": span[0], "high": span[1], "id": entry_id})


def reject(tx: Tx, newer_id: int, older_id: int) -> bool:
    """Mark a guess as wrong; False if there is none."""
    values = {"newer_id": newer_id, "older_id": older_id, "now_ms": tx.now_ms}
    return tx.count_changed(UPDATE_REJECTED, values) > 0


def put_rejected(tx: Tx, row: dict[str, Any]) -> None:
    """Store a rejected link as it was exported, in place of a guess."""
    tx.run(PUT_REJECTED, row)


def list_rejected(tx: Tx, ids: Collection[int]) -> list[dict[str, Any]]:
    """Return the rows of rejected links whose newer end is one of *ids*."""
    names = names_of("entry_links")
    rows = tx.all(SELECT_REJECTED, {"ids": ids}) if ids else []
    return [dict(zip(names, row, strict=True)) for row in rows]


def list_broken(tx: Tx) -> list[Row]:
    """Return (newer id, older id, kind, probability) of the links that no sound file has."""
    return tx.all(SELECT_BROKEN)


def list_stale(tx: Tx, model: str) -> list[Row]:
    """Return (newer id, older id, kind, probability) of the guesses of other models."""
    return tx.all(SELECT_STALE, {"model": model})


def delete(tx: Tx, newer_id: int, older_id: int) -> None:
    """Remove a link of any maker."""
    tx.run(DELETE_LINK, {"newer_id": newer_id, "older_id": older_id})
