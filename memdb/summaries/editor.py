"""
Edit single summaries for a host: replace the text of a wrong one, or remove it.

A summary one level up may quote it. The upper summary is rewritten in the same transaction,
without a model. If the file has a model, that improves it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import Busy, InvalidInput, NotFound
from memdb.models.ids import number_of
from memdb.records import summaries as summary_records
from memdb.records.scopes import find_session
from memdb.summaries.summarizer import Made
from memdb.summaries.tree import find_summary
from memdb.tables import summaries
from memdb.text.trust import trust_of_summary
from memdb.text.validate import content_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Engine, Tx
    from memdb.models.summaries import Summary, SummaryText
    from memdb.records.scopes import ScopeRef
    from memdb.summaries.builder import Summaries
    from memdb.summaries.planning import Step
    from memdb.text.screening import SecretScreen

# The summarizer of what a host wrote; its quality is that of a model, so none replaces it.
HOST = "host"

# How often a summary is made again because its sources changed meanwhile.
MAX_TRIES = 3

# Characters of a summary: more is no summary.
MAX_CHARS = 50_000


class SummaryEditor:
    """Changes the summaries of a file one by one."""

    def __init__(self, db: Engine, made: Summaries, screen: SecretScreen) -> None:
        """Change summaries that *made* stored in *db*; *screen* refuses or redacts secrets."""
        self._db = db
        self._summaries = made
        self._screen = screen

    def rewrite(
        self, owner: ScopeRef, session: str, ref: int | str, given: SummaryText | None
    ) -> Summary:
        """
        Replace the text of a summary; see `session.summaries.rewrite`.

        Raises:
            NotFound: the session has no such summary.
            InvalidInput: the text is blank or too long.
            PortError: the model failed.
            Busy: the messages kept changing meanwhile.
        """
        self._db.refuse_read_only()
        maker = self._summaries
        told = None if given is None else self._checked(given)
        for _ in range(MAX_TRIES):
            with self._db.read() as tx:
                summary = self._find(tx, owner, session, ref)
                step = None if given else maker.step_of(tx, summary)
                above = list(self._list_above(tx, summary))
            made = told if step is None else self._make(step)
            if made is None:  # its sources are gone
                return summary
            new = [(summary, step, made), *self._rewrite_above(above, summary, made)]
            with self._db.write() as tx:
                self._find(tx, owner, session, number_of(summary.id))
                if not all(maker.is_current(tx, old, source) for old, source, _ in new):
                    continue
                changed = [
                    (
                        old,
                        maker.columns(words) if old.text is not None or old == summary else None,
                        maker.may_improve(words),
                    )
                    for old, _, words in new
                ]
                summary_records.rewrite(tx, *changed)
                return self._find(tx, owner, session, number_of(summary.id))
        raise Busy("the messages of the summary kept changing: try again")

    def _make(self, step: Step) -> Made:
        made, failure = self._summaries.maker.make(step.source, step.depth)
        if failure is not None:
            raise failure
        return made

    def _list_above(self, tx: Tx, summary: Summary) -> Iterator[tuple[Summary, Step]]:
        """Yield the summaries that quote this one, the nearest first, and what each is made of."""
        above = summaries.above(tx, summary.id)
        while above is not None:
            parent = summaries.find_by_id(tx, above)
            step = None if parent is None else self._summaries.step_of(tx, parent)
            if parent is None or step is None:
                return
            yield parent, step
            above = summaries.above(tx, above)

    def _rewrite_above(
        self, above: list[tuple[Summary, Step]], below: Summary, made: Made
    ) -> Iterator[tuple[Summary, Step, Made]]:
        """Yield new words of the summaries that quote the old ones of *below*."""
        for parent, step in above:
            source = [
                item.replace(text=made.text, trust=made.trust)
                if item.first_seq == below.first_seq
                else item
                for item in step.source
            ]
            made, _ = self._summaries.maker.make(source, step.depth, local=True)
            yield parent, step, made
            below = parent

    def delete(self, owner: ScopeRef, session: str, ref: int | str) -> int:
        """Remove a summary with those after and above it; see `session.summaries.delete`."""
        with self._db.write() as tx:
            target = find_session(tx, owner, session)
            summary = None if target is None else find_summary(tx, target, ref)
            if target is None or summary is None:
                return 0
            target = summaries.session_of(tx, summary.id)
            gone = sum(
                one.last_seq >= summary.first_seq
                for depth in range(summaries.MAX_DEPTH + 1)
                for one in summaries.list_depth(tx, target, depth)
            )
            summary_records.remove(tx, {target: summary.first_seq})
        return gone

    def _find(self, tx: Tx, owner: ScopeRef, session: str, ref: int | str) -> Summary:
        target = find_session(tx, owner, session)
        found = None if target is None else find_summary(tx, target, ref)
        if found is None:
            raise NotFound("summary", ref, f"session {session!r}")
        return found

    def _checked(self, given: SummaryText) -> Made:
        """Return a host's text as a summary."""
        text = content_value(given.text, "text")
        hint = None if given.hint is None else content_value(given.hint, "hint")
        for field, value in (("text", text), ("hint", "x" if hint is None else hint)):
            if not value.strip() or len(value) > MAX_CHARS:
                raise InvalidInput(
                    f"{field} has {len(value):,} characters: give 1 to {MAX_CHARS:,}, not all blank"
                )
        fields = self._screen.pass_fields("summary", {"text": text, "hint": hint})
        tokens = self._summaries.count(fields["text"])
        trust = trust_of_summary(fields["text"])
        return Made(fields["text"], fields["hint"], "model", HOST, tokens, trust)
