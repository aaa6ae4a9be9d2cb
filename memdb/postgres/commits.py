"""
The end of a transaction: facts are compared and changes counted before COMMIT (ADR-0031).

Each connection has a row in `commits` with the number of its last committed transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.postgres.dialect import statement_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.postgres.facts import Facts
    from memdb.postgres.link import Link

COMMIT = "COMMIT"

# Only if the transaction before it is the last that was committed, nobody has migrated the tables
# (see `link`), and the space that it relies on is there.
FENCE = """/* commits.fence */
WITH fenced AS (
  UPDATE commits SET number = number + 1, made_ms = :now_ms
  WHERE
    writer = :writer
    AND number = CAST(:number AS BIGINT) - 1
    AND EXISTS (SELECT 1 FROM memdb_format WHERE format = :format)
    AND (
      CAST(:model AS TEXT) IS NULL
      OR EXISTS (
        SELECT 1 FROM embedding_spaces
        WHERE model = :model AND dim = CAST(:dim AS BIGINT) AND retired_ms IS NULL
      )
    )
  RETURNING 1
)
SELECT 1 / count(*) FROM fenced
"""

# In a row of the connection's own: one for all would let their commits wait for each other.
COUNT_CHANGE = """/* commits.count_change */
INSERT INTO change_counts (writer, kind, number) VALUES (:writer, :kind, 1)
ON CONFLICT (writer, kind) DO UPDATE SET number = change_counts.number + 1
"""

# What was committed by all connections, and by those that are gone.
SELECT_COMMITS = """/* commits.total */
SELECT CAST(
  coalesce((SELECT number FROM changes WHERE kind = 'commit'), 0)
  + coalesce((SELECT sum(number) FROM commits), 0)
AS BIGINT)
"""

SELECT_COMMITTED = """/* commits.committed */
SELECT number FROM commits WHERE writer = :writer FOR UPDATE
"""


def send(link: Link, facts: Facts, kinds: Iterable[str], now_ms: int, *, is_fenced: bool) -> None:
    """
    Commit a transaction that changed rows.

    Args:
        facts: The facts that it relied on; if one is no longer true, the commit fails.
        kinds: Kinds of the rows that it changed.
        is_fenced: Whether to increase the number of the connection; False while its table is made.

    Raises:
        psycopg.Error: the commit, or a statement that was sent before, failed.
    """
    wire = link.open()
    space = facts.space() if is_fenced else (None, None)
    for sql, asked in facts.comparisons(but=space):
        compared = statement_of(sql)
        wire.send(compared.sql, compared.bind(asked))
    if not is_fenced:
        send_plain(link)
        return
    counted = statement_of(COUNT_CHANGE)
    for kind in sorted(kinds):
        wire.send(counted.sql, counted.bind({"writer": link.writer, "kind": kind}))
    fence = statement_of(FENCE)
    values = {
        "writer": link.writer,
        "number": link.number + 1,
        "now_ms": now_ms,
        "format": link.format,
        "model": space[0],
        "dim": space[1],
    }
    wire.send(fence.sql, fence.bind(values))
    send_plain(link)


def send_plain(link: Link) -> None:
    """Commit, and wait for earlier statements; psycopg.Error if one failed."""
    wire = link.open()
    wire.send(COMMIT)
    wire.sync()


def last_number(link: Link) -> int | None:
    """
    Return the number of the connection's last transaction, None if it has none.

    The call waits for the transaction before, if a server is still working on it.
    """
    rows = link.ask(SELECT_COMMITTED, {"writer": link.writer})
    return rows[0][0] if rows else None
