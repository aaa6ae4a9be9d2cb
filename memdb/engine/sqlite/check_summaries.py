"""
Proving the summaries: leaves without a gap, nodes that cover their sources, hashes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.sqlite.transaction import Tx

SELECT_GAPS = """/* check_summaries.gaps */
SELECT 'summary ' || uid || ' does not follow the leaf before it'
FROM (
  SELECT
    id,
    uid,
    first_seq,
    lag(last_seq) OVER (PARTITION BY session_id ORDER BY first_seq) AS before_seq
  FROM summaries
  WHERE depth = 0
)
WHERE first_seq <> before_seq + 1
ORDER BY id
LIMIT 20
"""

# What begins a session and has no leaf is its system text; anything else there
# would be in no context.
SELECT_LOST_HEADS = """/* check_summaries.lost_head */
SELECT
  'summary ' || summaries.uid || ' is the first leaf, and messages before it are not summarised'
FROM summaries
WHERE
  depth = 0
  AND first_seq = (
    SELECT first_seq FROM summaries AS leaf
    WHERE leaf.session_id = summaries.session_id AND leaf.depth = 0
    ORDER BY first_seq
    LIMIT 1
  )
  AND EXISTS (
    SELECT 1 FROM messages
    WHERE
      messages.id
      BETWEEN summaries.session_id + 1 AND summaries.session_id + summaries.first_seq - 1
      AND messages.role <> 'system'
  )
ORDER BY summaries.id
LIMIT 20
"""

SELECT_UNCOVERED = """/* check_summaries.uncovered */
SELECT 'summary ' || summaries.uid || ' is not what its sources cover'
FROM summaries
LEFT JOIN summaries AS below
  ON below.condensed_into = summaries.id
  AND below.session_id = summaries.session_id
  AND below.depth = summaries.depth - 1
WHERE summaries.depth > 0
GROUP BY summaries.id
HAVING
  min(below.first_seq) IS NOT summaries.first_seq
  OR max(below.last_seq) IS NOT summaries.last_seq
  OR sum(below.last_seq - below.first_seq + 1) <> summaries.last_seq - summaries.first_seq + 1
ORDER BY summaries.id
LIMIT 20
"""

SELECT_WRONG_LINKS = """/* check_summaries.wrong_links */
SELECT 'summary ' || below.uid || ' is part of a summary that is not one above it'
FROM summaries AS below
JOIN summaries AS above ON above.id = below.condensed_into
WHERE
  above.session_id <> below.session_id
  OR above.depth <> below.depth + 1
  OR below.first_seq NOT BETWEEN above.first_seq AND above.last_seq
ORDER BY below.id
LIMIT 20
"""

SELECT_LATE_NODES = """/* check_summaries.beyond_session */
SELECT 'summary ' || summaries.uid || ' stands for messages that never were'
FROM summaries
JOIN sessions ON sessions.id = summaries.session_id
WHERE summaries.last_seq > sessions.last_seq
ORDER BY summaries.id
LIMIT 20
"""

SELECT_HASHED = """/* check_summaries.hashed */
SELECT id, uid, depth, first_seq, last_seq, hint, quality, summarizer, text, content_hash
FROM summaries
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

RULES = (
    ("summary_gap", SELECT_GAPS, False),
    ("summary_head", SELECT_LOST_HEADS, False),
    ("summary_sources", SELECT_UNCOVERED, False),
    ("summary_link", SELECT_WRONG_LINKS, False),
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
