"""
Proving the summaries: leaves without a gap, nodes that cover their sources, hashes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.sqlite.transaction import Tx

SELECT_GAPS = """/* check_summaries.gaps */
SELECT 'node ' || uid || ' does not follow the leaf before it'
FROM (
  SELECT
    id,
    uid,
    first_seq,
    lag(last_seq) OVER (PARTITION BY session_id ORDER BY first_seq) AS before_seq
  FROM nodes
  WHERE depth = 0
)
WHERE first_seq <> before_seq + 1
ORDER BY id
LIMIT 20
"""

# What begins a session and has no leaf is its system text; anything else there
# would be in no context.
SELECT_LOST_HEADS = """/* check_summaries.lost_head */
SELECT 'node ' || nodes.uid || ' is the first leaf, and messages before it are not summarised'
FROM nodes
WHERE
  depth = 0
  AND first_seq = (
    SELECT first_seq FROM nodes AS leaf
    WHERE leaf.session_id = nodes.session_id AND leaf.depth = 0
    ORDER BY first_seq
    LIMIT 1
  )
  AND EXISTS (
    SELECT 1 FROM messages
    WHERE
      messages.id BETWEEN nodes.session_id + 1 AND nodes.session_id + nodes.first_seq - 1
      AND messages.role <> 'system'
  )
ORDER BY nodes.id
LIMIT 20
"""

SELECT_UNCOVERED = """/* check_summaries.uncovered */
SELECT 'node ' || nodes.uid || ' is not what its sources cover'
FROM nodes
LEFT JOIN nodes AS below
  ON below.condensed_into = nodes.id
  AND below.session_id = nodes.session_id
  AND below.depth = nodes.depth - 1
WHERE nodes.depth > 0
GROUP BY nodes.id
HAVING
  min(below.first_seq) IS NOT nodes.first_seq
  OR max(below.last_seq) IS NOT nodes.last_seq
  OR sum(below.last_seq - below.first_seq + 1) <> nodes.last_seq - nodes.first_seq + 1
ORDER BY nodes.id
LIMIT 20
"""

SELECT_WRONG_LINKS = """/* check_summaries.wrong_links */
SELECT 'node ' || below.uid || ' is part of a node that is not one above it'
FROM nodes AS below
JOIN nodes AS above ON above.id = below.condensed_into
WHERE
  above.session_id <> below.session_id
  OR above.depth <> below.depth + 1
  OR below.first_seq NOT BETWEEN above.first_seq AND above.last_seq
ORDER BY below.id
LIMIT 20
"""

SELECT_LATE_NODES = """/* check_summaries.beyond_session */
SELECT 'node ' || nodes.uid || ' stands for messages that never were'
FROM nodes
JOIN sessions ON sessions.id = nodes.session_id
WHERE nodes.last_seq > sessions.last_seq
ORDER BY nodes.id
LIMIT 20
"""

SELECT_HASHED = """/* check_summaries.hashed */
SELECT id, uid, depth, first_seq, last_seq, hint, quality, summarizer, text, content_hash
FROM nodes
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

RULES = (
    ("node_gap", SELECT_GAPS, False),
    ("node_head", SELECT_LOST_HEADS, False),
    ("node_sources", SELECT_UNCOVERED, False),
    ("node_link", SELECT_WRONG_LINKS, False),
    ("node_beyond_session", SELECT_LATE_NODES, True),
)


def damaged(tx: Tx) -> Iterator[str]:
    """Yield the id of each node with a text that does not match its hash."""
    from memdb.text.hashing import content_hash

    after = 0
    while rows := tx.all(SELECT_HASHED, {"after": after}):
        for row in rows:
            if row[-2] is not None and content_hash(*row[1:-1]) != row[-1]:
                yield row[1]
        after = rows[-1][0]
