"""
From ranked messages to ranked sessions.
"""

from __future__ import annotations

from memdb.models.ids import SESSION_SHIFT
from memdb.models.messages import Hit, Source
from memdb.search.results import merge
from memdb.tables import messages, sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.transaction import Tx
    from memdb.search.ranking import Ranked
    from memdb.search.results import Found, Question

# What each next message of a session counts for, and how many do at all.
# Source: LoCoMo development split, all evidence sessions among the first five:
# 0.863 by the best message alone, 0.867 with 0.5, 0.853 with 0.7.
FADE = 0.5
COUNTED = 8

# Messages shown of each session.
SHOWN = 3


def grouped(tx: Tx, asked: Question, found: Found, limit: int) -> list[Hit]:
    """Return the best *limit* sessions of the messages in *found*, best first."""
    by_session: dict[int, list[Ranked]] = {}
    for one in found.ranked:
        by_session.setdefault(one.id >> SESSION_SHIFT, []).append(one)
    scores = {
        session: sum(one.score * FADE**place for place, one in enumerate(ranked[:COUNTED]))
        for session, ranked in by_session.items()
    }
    chosen = sorted(scores, key=lambda session: (-scores[session], -session))[:limit]
    hits: list[Hit] = []
    for session in chosen:
        shown = found.replace(ranked=by_session[session][:SHOWN])
        said = merge(tx, asked.replace(limit=SHOWN), [shown])
        known = sessions.card(tx, session << SESSION_SHIFT)
        first = messages.list_after(tx, session << SESSION_SHIFT, "", 0, 1)
        if not said or known is None or not first:
            continue  # deleted between two reads
        hit = Hit(
            "session",
            said[0].text,
            scores[session],
            len(hits) + 1,
            Source(session=known[0], title=known[1], created_ms=first[0].created_ms),
            hits=tuple(said),
        )
        hits.append(hit)
    return hits
