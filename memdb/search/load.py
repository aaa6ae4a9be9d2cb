"""
Load and explain stages: from ranked rows of several kinds to the hits of one answer.

These functions put the kinds on one scale, read text and source of hits, and group messages by
session. They also explain why a message is in an answer or is not. Joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.ids import SESSION_SHIFT, is_branch
from memdb.models.messages import Hit, Source, Why
from memdb.models.record import Record
from memdb.records.links import LEAST, SURE_LINK, find_newest, repeats_among
from memdb.search.certainty import certainty_of, choose, is_sure, keep
from memdb.search.kinds import KINDS, kinds_of
from memdb.search.order import Ties, held_words, put_in_order, reason_of
from memdb.search.parse import only_asks
from memdb.search.rank import ORDERED
from memdb.tables import entries, sessions
from memdb.text.terms import query_words
from memdb.text.trust import least_trust, trust_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx
    from memdb.models.messages import Message
    from memdb.search.certainty import Line
    from memdb.search.order import TextWords
    from memdb.search.parse import Corpus, Question
    from memdb.search.rank import Ranked, Ranking

FADE = 0.5
"""
What each next message of a session counts for.

Source: bench/recall.py on LoCoMo's development split, all evidence sessions among the first
five: 0.863 by the best message alone, 0.867 with 0.5, 0.853 with 0.7.
"""

FADE_COUNT = 8
"""Messages of a session that count."""

FADE_POWER = 2
"""Power of a score that is added: many weak messages are no answer."""

SHOWN_MESSAGES = 3
"""Messages shown of each session."""

# Characters of hits that are read for each token of a prompt: about those of a token. A hit costs
# more tokens than its text, and one that is in the prompt anyway counts too. So many rows at once.
FILL_CHARS = 4
READ_AT_ONCE = 32


class Answer(Record):
    """
    The hits of an answer, and the facts for `Hits`: see `Choice`.

    Attributes:
        unranked: Why a reranker did not order them. None if it did, or if there is none.
    """

    hits: list[Hit]
    certainty: str = "none"
    left_out: str | None = None
    unranked: str | None = None


def load_hits(
    tx: Tx,
    question: Question,
    rankings: Sequence[Ranking],
    limit: int | None = None,
    *,
    fill: int = 0,
) -> Answer:
    """
    Return the best rows of all *rankings* as hits, best first.

    Rows that are not an answer are left out, see `memdb.search.certainty`, and so are rows that
    were deleted since the first snapshot.

    Args:
        limit: Most hits. None means the request's.
        fill: Number of tokens of the prompt that the hits fill, 0 if they fill none. No more hits
            are read than fit, and equal texts are one. The context looks at their trust, and no hit
            has a reason.
    """
    limit = question.request.limit if limit is None else limit
    choice = choose(question, rankings, limit + ORDERED)
    is_ordered = question.request.by != "vector" and not question.is_listing
    corpora = (one.corpus for one in rankings if one.corpus.kind == "entry")
    linked = next((one for one in corpora if is_ordered and one.span == question.own), None)
    if linked is not None:
        messages = [row.id for _, at, row in choice.lines if rankings[at].corpus.kind == "message"]
        entries.expect_in_messages(tx, messages[:ORDERED])
    lines, room = choice.lines, FILL_CHARS * fill
    read = {} if fill else _read(tx, question, rankings, lines)
    for start in range(0, len(lines) if fill else 0, READ_AT_ONCE):
        some = _read(tx, question, rankings, lines[start : start + READ_AT_ONCE])
        read |= some
        room -= sum(min(len(hit.text), fill) for hit in some.values())
        if room < 0:
            lines = lines[: start + READ_AT_ONCE]
            break
    hits: list[Hit] = []
    rows: list[int] = []
    for _, order, row in lines:
        hit = read.get((order, row.id))
        if hit is None:
            continue
        explanation = rankings[order].explain(row) if question.request.explain else None
        sure = choice.certainty == "sure" and is_sure(question, rankings[order], row)
        changes = {"is_sure": sure, "explanation": explanation}
        hits.append(hit.replace(**changes) if any(changes.values()) else hit)
        rows.append(row.id)
    folds = fill > 0 or question.request.min_score != 0  # 0 asks for every match
    words_of = {hit.text: query_words(hit.text) for hit in hits}
    ties = None if linked is None else _ties(tx, question, linked, hits, rows, words_of)
    words_of |= {hit.text: query_words(hit.text) for hit in (ties.taken if ties else ())}
    hits = put_in_order(question.query, hits, words_of, ties, folds=folds, by_time=is_ordered)
    shown = hits[:limit] if fill else [*map(_judged, hits[:limit])]
    hits = [
        hit.replace(rank=rank, why="" if fill else reason_of(question, hit, shown[0], words_of))
        for rank, hit in enumerate(shown, start=1)
    ]
    return Answer(hits, choice.certainty, choice.left_out)


def _ties(
    tx: Tx, question: Question, own: Corpus, hits: list[Hit], rows: list[int], words_of: TextWords
) -> Ties | None:
    """
    Return the links between *hits*. A message has the links of an entry that was learnt from it.

    Args:
        own: The entries of the scope itself.
        rows: Ids of the rows of *hits*.
    """
    keys = _entries_of(tx, question.query.asked, hits, rows, words_of)
    ids = list(dict.fromkeys(key for key in keys if key is not None))
    if not ids or question.scope_no is None:
        return None
    newest = find_newest(tx, question.scope_no, ids, question.now_ms, LEAST)
    # A guess is right more often if the newer entry was found too, or if nothing else was.
    least = LEAST if len({*keys}) == 1 else SURE_LINK
    missing = [
        link
        for link in newest.values()
        if link.newer_id not in ids
        and link.probability >= least
        and (own.allowed is None or link.newer_id in own.allowed)
    ]
    scores = {link.newer_id: 0.0 for link in missing}
    taken = KINDS["entry"].read(tx, question, own, scores) if scores else {}
    repeats = dict(repeats_among(tx, question.scope_no, ids, LEAST))
    same = {older: newer for newer, older in reversed(repeats.items())} | repeats
    keys += taken
    return Ties(keys, [newest.get(key or 0) for key in keys], [*taken.values()], same)


def _entries_of(
    tx: Tx, asked: Sequence[str], hits: Sequence[Hit], rows: Sequence[int], words_of: TextWords
) -> list[int | None]:
    """
    Return of each hit the entry that it is, or that was learnt of the asked words in it.

    What was learnt of other words of a message says nothing of the answer that it is.
    """
    messages = [row for hit, row in zip(hits, rows, strict=True) if hit.kind == "message"]
    texts = entries.texts_in_messages(tx, messages[:ORDERED])

    def of_message(row: int, words: Sequence[str]) -> int | None:
        learnt = texts.get(row)
        if not learnt:
            return None
        held = set(held_words(asked, words))
        whole = (
            one for one, text in learnt.items() if held <= {*held_words(asked, query_words(text))}
        )
        return max(whole, default=None)

    return [
        of_message(row, words_of[hit.text]) if hit.kind == "message" else hit.source.entry_id
        for hit, row in zip(hits, rows, strict=True)
    ]


def load_sessions(tx: Tx, question: Question, rankings: Sequence[Ranking]) -> Answer:
    """
    Return the sessions whose titles and messages say most, each with its best messages.

    The score of a session is the sum of the squares of the scores of its title and its best
    messages, `FADE_COUNT` in all. Each one counts `FADE` times as much as the one before.
    """
    by_session: dict[int, list[tuple[Ranked, float]]] = {}
    titles: dict[int, float] = {}
    for ranking in rankings:
        for row in ranking.ranked:
            score = ranking.score(row)
            if ranking.corpus.kind == "session":
                titles[row.id] = score
            else:
                session = row.id >> SESSION_SHIFT << SESSION_SHIFT
                by_session.setdefault(session, []).append((row, score))
    if any(map(is_branch, by_session)):
        by_session = _of_roots(tx, by_session)
    scores = {
        session: _faded([titles.get(session, 0.0), *(score for _, score in rows[:FADE_COUNT])])
        for session, rows in ({**dict.fromkeys(titles, ()), **by_session}).items()
    }
    # The best session scores what its best record does.
    first = max(scores, key=lambda session: (scores[session], session), default=0)
    highest = max([titles.get(first, 0.0), *(score for _, score in by_session.get(first, ())[:1])])
    most = scores.get(first) or 1.0
    scores = {key: highest * (score / most) for key, score in scores.items()}
    chosen = sorted(scores, key=lambda session: (-scores[session], -session))
    certainty = certainty_of(question, rankings)
    ranked = rankings[0].ranked if certainty == "sure" else ()  # messages: the first of the kinds
    sure = {row.id for row in ranked if is_sure(question, rankings[0], row)}
    if question.request.only_sure:
        chosen = [
            one for one in chosen if any(row.id in sure for row, _ in by_session.get(one, ()))
        ]
    count, left_out = keep(question, rankings, [scores[one] for one in chosen], certainty)
    chosen = chosen[: min(count, question.request.limit)]
    shown = {session: by_session.get(session, [])[:SHOWN_MESSAGES] for session in chosen}
    cards = sessions.cards(tx, chosen)
    read = _read(
        tx, question, rankings, [(of, 0, row) for rows in shown.values() for row, of in rows]
    )
    hits: list[Hit] = []
    for session in chosen:
        card = cards.get(session)
        best: list[Hit] = []
        for row, _ in shown[session]:
            if hit := read.get((0, row.id)):
                best.append(_judged(hit).replace(rank=len(best) + 1, is_sure=row.id in sure))
        if card is None or not (best or session in titles):
            continue  # deleted since the first snapshot
        source = Source(session=card.name, title=card.title, created_ms=card.first_ms)
        text = best[0].text if best else card.title or ""
        rank, trust = len(hits) + 1, least_trust(one.trust for one in best)
        hit = _judged(Hit("session", text, scores[session], rank, source, trust=trust))  # type: ignore[arg-type]  # a word of the schema
        hits.append(hit.replace(hits=tuple(best), is_sure=any(one.is_sure for one in best)))
    return Answer(hits, certainty, left_out)


def _judged(hit: Hit) -> Hit:
    """Return *hit* with the trust of its words, unless they were judged when it was stored."""
    if hit.kind in ("entry", "summary"):
        return hit
    return hit.replace(trust=trust_of_text(hit.text, hit.trust))


def _of_roots(
    tx: Tx, by_session: dict[int, list[tuple[Ranked, float]]]
) -> dict[int, list[tuple[Ranked, float]]]:
    """Return the rows by session, those of branches with their session's, best first."""
    roots = sessions.roots(tx, list(by_session))
    merged: dict[int, list[tuple[Ranked, float]]] = {}
    for session, rows in by_session.items():
        merged.setdefault(roots.get(session, session), []).extend(rows)
    for rows in merged.values():
        rows.sort(key=lambda row: -row[1])
    return merged


def _faded(scores: Sequence[float]) -> float:
    """Return the sum of squared scores, the best whole and each next one for less."""
    ordered = sorted(scores, reverse=True)[:FADE_COUNT]
    return sum(score**FADE_POWER * FADE**place for place, score in enumerate(ordered))


def _read(
    tx: Tx, question: Question, rankings: Sequence[Ranking], lines: Sequence[Line]
) -> dict[tuple[int, int], Hit]:
    """Return the hits of *lines*, by place of the ranking and id of the row."""
    readers = {kind.name: kind.read for kind in kinds_of(question.request)}
    found: dict[tuple[int, int], Hit] = {}
    for order, ranking in enumerate(rankings):
        scores = {row.id: score for score, place, row in lines if place == order}
        if scores:
            hits = readers[ranking.corpus.kind](tx, question, ranking.corpus, scores)
            found |= {(order, key): hit for key, hit in hits.items()}
    return found


def explain_place(question: Question, ranking: Ranking, message: Message) -> Why:
    """
    Return why *message* is at its place among the ranked messages.

    Args:
        ranking: Up to 1,000 messages, with the terms of their scores.
    """
    ranked, limit = ranking.ranked, question.request.limit
    last = ranking.explain(ranked[limit - 1]) if len(ranked) >= limit else None
    for place, row in enumerate(ranked, start=1):
        if row.id == message.row_id:
            score = ranking.score(row)
            certainty = certainty_of(question, [ranking])
            scores = [ranking.score(one) for one in ranked]
            count, left_out = keep(question, [ranking], scores, certainty)
            if place > count:
                reason = f"It is number {place}, but {left_out}."
            elif place <= limit:
                reason = f"It is number {place} of the answer."
            else:
                reason = f"It is number {place}: {_losses(row, ranked[limit - 1])}."
            return Why(place, score, reason, ranking.explain(row), last)
    return Why(None, 0.0, _reason_without_place(question, message), None, last)


def _losses(row: Ranked, last: Ranked) -> str:
    """Explain in which terms *row* falls short of *last*, the greatest loss first."""
    losses = {name: last.terms[name] - row.terms.get(name, 0.0) for name in last.terms}
    names = sorted((name for name in losses if losses[name] > 0), key=lambda name: -losses[name])
    parts = [
        f"{name} {row.terms.get(name, 0.0):.2f} against {last.terms[name]:.2f}" for name in names
    ]
    if not parts:
        return f"its score {row.score:.3f} is that of the last hit, which is newer"
    return f"its score is {row.score:.3f}, the last hit's {last.score:.3f}; {', '.join(parts[:3])}"


def _reason_without_place(question: Question, message: Message) -> str:
    """Explain why a message was not ranked at all."""
    request = question.request
    if not message.text.strip():
        return "It has no text."
    if not request.since_ms <= message.created_ms < request.until_ms:
        return "It was said outside of the time that is asked for."
    words = set(query_words(f"{message.author or ''} {message.text}"))
    if not words.intersection(question.query.content):
        return "It shares no word with the query, and is not near enough in meaning."
    if question.query.is_question and only_asks(message.text):
        return "It only asks, which answers nothing: min_score=0 shows it."
    return "It shares words with the query, but a thousand messages say more about it."
