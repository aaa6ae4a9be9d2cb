"""
Loading: from ranked rows of several kinds to the hits of one answer.

Puts the kinds on one scale, reads text and source of what is returned, and
groups messages by session. Joins the caller's transaction.
"""

from __future__ import annotations

from memdb.models.ids import SESSION_SHIFT
from memdb.models.messages import Hit, Source
from memdb.search.kinds import kinds_of
from memdb.search.weights import FADE, FADE_COUNT, SHOWN_MESSAGES
from memdb.tables import sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx
    from memdb.search.rank import Ranked, Ranking
    from memdb.search.request import Question


def load_hits(
    tx: Tx, question: Question, rankings: Sequence[Ranking], limit: int | None = None
) -> list[Hit]:
    """
    Return the best rows of all *rankings* as hits, best first.

    A score is multiplied by the quality of its ranking, as a share of the best
    one. Rows that were deleted since the first snapshot are left out.

    Args:
        limit: Most hits. None means the request's.
    """
    limit = question.request.limit if limit is None else limit
    best = max((ranking.quality for ranking in rankings), default=0.0)
    factors = [ranking.quality / best if best else 1.0 for ranking in rankings]
    lines = [
        (-row.score * factors[order], order, -row.id, row)
        for order, ranking in enumerate(rankings)
        for row in ranking.ranked
    ]
    lines.sort(key=lambda line: line[:3])
    chosen = lines[:limit]
    contents = _read(tx, question, rankings, [(order, row.id) for _, order, _, row in chosen])
    hits: list[Hit] = []
    for score, order, _, row in chosen:
        content = contents.get((order, row.id))
        if content is None:
            continue
        explanation = {**row.terms, "kind": factors[order]} if question.request.explain else None
        kind = rankings[order].corpus.kind
        hits.append(Hit(kind, content[0], -score, len(hits) + 1, content[1], explanation))
    return hits


def load_sessions(tx: Tx, question: Question, rankings: Sequence[Ranking]) -> list[Hit]:
    """
    Return the sessions whose messages say most, each with its best messages.

    The score of a session is the sum of its best `FADE_COUNT` messages, each
    next one counting `FADE` of the one before.
    """
    by_session: dict[int, list[Ranked]] = {}
    for ranking in rankings:
        for row in ranking.ranked:
            by_session.setdefault(row.id >> SESSION_SHIFT << SESSION_SHIFT, []).append(row)
    scores = {
        session: sum(row.score * FADE**place for place, row in enumerate(rows[:FADE_COUNT]))
        for session, rows in by_session.items()
    }
    chosen = sorted(scores, key=lambda session: (-scores[session], -session))
    chosen = chosen[: question.request.limit]
    shown = {session: by_session[session][:SHOWN_MESSAGES] for session in chosen}
    cards = sessions.cards(tx, chosen)
    ids = [(0, row.id) for rows in shown.values() for row in rows]
    contents = _read(tx, question, rankings, ids)
    hits: list[Hit] = []
    for session in chosen:
        card = cards.get(session)
        best: list[Hit] = []
        for row in shown[session]:
            if content := contents.get((0, row.id)):
                best.append(Hit("message", content[0], row.score, len(best) + 1, content[1]))
        if not best or card is None:
            continue  # deleted since the first snapshot
        source = Source(session=card.name, title=card.title, created_ms=card.first_ms)
        text = best[0].text
        hits.append(Hit("session", text, scores[session], len(hits) + 1, source, hits=tuple(best)))
    return hits


def _read(
    tx: Tx, question: Question, rankings: Sequence[Ranking], chosen: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], tuple[str, Source]]:
    """Return text and source of *chosen* (place of the ranking, id of the row)."""
    readers = {kind.name: kind.read for kind in kinds_of(question.request)}
    found: dict[tuple[int, int], tuple[str, Source]] = {}
    for order, ranking in enumerate(rankings):
        ids = [key for place, key in chosen if place == order]
        if ids:
            contents = readers[ranking.corpus.kind](tx, question, ranking.corpus, ids)
            found |= {(order, key): content for key, content in contents.items()}
    return found
